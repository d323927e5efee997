"""Many readings of a growing sum of Renyi curves: interpolation with a known sign.

exp K(t) of a composition is a moment function E exp(t L), so all its derivatives of
even order are positive. Its interpolation polynomial on an even number of nodes
therefore lies above it at every t with an odd number of nodes above t, and below it
elsewhere. So sums of K at a few nodes, which grow with the composition, give upper (and
lower) bounds on K in between, at the cost of one curve evaluation per new event. Proof
in docs/proofs/rdp.md, section 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fastdp.accounting._renyi.conversion import epsilon_at, epsilon_at_order
from fastdp.accounting._renyi.curves import Curve
from fastdp.accounting._renyi.line import Line
from fastdp.accounting._renyi.search import Objective, Search, least_epsilon
from fastdp.accounting._series import Floats

#: Nodes of a window: even, and the inner ones as well.
NODES = 24
#: Relative error of the curves' values, beyond the upper side.
_CURVE_ERROR = 1e-12
#: A window is this wide in units of the loss's standard deviation.
_WIDTH = 4.0
#: Relative accuracy that a reading from a window must have.
_ACCURACY, _ROUGHLY = 3e-10, 1e-9
#: Relative rise toward the ends of a window that rounding cannot fake.
_VISIBLE = 1e-8
#: Try this many windows before the search starts from scratch.
_TRIES = 4
#: The gap is refined until a step is this share of it; epsilon loses the square.
_CLOSE = 1e-6
#: Check a window between its nodes when K has grown by this factor.
_LOOK_AGAIN = 1.1
#: From here on the square of exp(-t r) moves the best gap by less than `_CLOSE`.
_LARGE_REACH = 6.0


class _Rows(NamedTuple):
    """Matrices that interpolate from all nodes, and from all nodes except the ends."""

    whole: Floats  # shape (points, NODES)
    inner: Floats  # shape (points, NODES - 2)
    odd: Floats  # whether an odd number of nodes lies above each point

    def bounds(self, values: Floats, error: float) -> tuple[Floats, Floats]:
        """Return bounds of the moment function whose node values err by `error`."""
        within = values[1:-1]
        whole, inner = self.whole @ values, self.inner @ within
        spread = np.maximum(np.abs(self.whole) @ values, np.abs(self.inner) @ within)
        slack = error * spread
        low = np.where(self.odd, inner, whole) - slack
        return low, np.where(self.odd, whole, inner) + slack


@dataclass(frozen=True)
class _Shape:
    """Chebyshev places on [-1, 1] and the weights of their Lagrange polynomials."""

    places: Floats
    weights: Floats
    inner_weights: Floats
    #: The matrix from values at the places to derivatives there.
    slopes: Floats

    def rows(self, x: Floats) -> _Rows:
        """Return the rows that interpolate at x."""
        odd = (self.places > x[:, None]).sum(axis=1) % 2 == 1
        whole = _lagrange(self.places, self.weights, x)
        return _Rows(whole, _lagrange(self.places[1:-1], self.inner_weights, x), odd)

    @functools.cached_property
    def between(self) -> _Rows:
        """The rows of the middles between neighboring places."""
        return self.rows((self.places[1:] + self.places[:-1]) / 2)


@functools.cache
def _shape() -> _Shape:
    places = -np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    weights = _weights(places)
    apart = places[:, None] - places
    np.fill_diagonal(apart, 1.0)
    slopes = weights / weights[:, None] / apart
    np.fill_diagonal(slopes, 0.0)
    np.fill_diagonal(slopes, -slopes.sum(axis=1))
    return _Shape(places, weights, _weights(places[1:-1]), slopes)


def _weights(places: Floats) -> Floats:
    apart = 2 * (places[:, None] - places)  # doubled, so that products stay near 1
    np.fill_diagonal(apart, 1.0)
    return np.asarray(1 / apart.prod(axis=1))


def _lagrange(places: Floats, weights: Floats, x: Floats) -> Floats:
    apart = 2 * (x[:, None] - places)
    # On a node the polynomial is the value there: stay a hair away from it.
    apart[np.abs(apart) < 1e-15] = 1e-15
    return np.asarray(apart.prod(axis=1)[:, None] * (weights / apart))


@dataclass(frozen=True)
class Window:
    """Sums of K at nodes around an order.

    Parameters
    ----------
    gaps : ndarray of float64, shape (NODES,)
        Increasing.
    totals : ndarray of float64, shape (NODES,)
        Sum of K over the composition, rounded up.
    known : dict of Curve to ndarray
        K of curves seen before, shared by windows with the same nodes.
    """

    gaps: Floats
    totals: Floats
    known: dict[Curve, Floats]

    @classmethod
    def around(cls, low: float, high: float) -> Window:
        """Return an empty window on [low, high], at Chebyshev nodes."""
        middle, half = (low + high) / 2, (high - low) / 2
        return cls(middle + half * _shape().places, np.zeros(NODES), {})

    def plus(self, curve: Curve, count: int) -> Window:
        """Return the window with `count` times a curve added."""
        values = self.known.get(curve)
        if values is None:
            values = self.known[curve] = curve.log_moment(self.gaps)
        return Window(self.gaps, self.totals + count * values, self.known)

    def place(self, gap: Floats | float) -> Floats:
        """Return the places of gaps if the nodes are at Chebyshev places."""
        low, high = self.gaps[0], self.gaps[-1]
        end = _shape().places[-1]
        return np.asarray((gap - (low + high) / 2) * (2 * end / (high - low)))

    def bounds(self, gap: Floats, line: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of K at gaps within the window.

        Parameters
        ----------
        gap : ndarray of float64, shape (n,)
            Gaps between the first and the last node.
        line : ndarray of float64, shape (NODES,)
            At the nodes, the part of K that `totals` does not include.
        """
        flat = _Flat.of(self.gaps, self.totals + line)
        return flat.bounds(gap, _shape().rows(self.place(gap)))


class _Flat(NamedTuple):
    """e^K at the nodes minus a linear function; about 1 over the window."""

    start: float
    base: float
    slope: float
    values: Floats
    size: float  # the largest K
    error: float

    @classmethod
    def of(cls, gaps: Floats, totals: Floats) -> _Flat:
        """Return the values to interpolate."""
        first, last = NODES // 2 - 1, NODES // 2
        start, base = float(gaps[first]), float(totals[first])
        slope = (float(totals[last]) - base) / (float(gaps[last]) - start)
        values = np.exp(totals - (base - slope * start) - slope * gaps)
        size = float(totals[-1])  # K grows with the gap
        return cls(start, base, slope, values, size, _CURVE_ERROR * size + 1e-13)

    def near(self, window: Window, gap: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of K at gaps of the window."""
        return self.bounds(gap, _shape().rows(window.place(gap)))

    def bounds(self, gap: Floats, rows: _Rows) -> tuple[Floats, Floats]:
        """Return lower and upper bounds on K at the gaps of `rows`."""
        lower, upper = rows.bounds(self.values, self.error)
        base = self.base + self.slope * (gap - self.start)
        with np.errstate(divide="ignore", invalid="ignore"):
            low = base + np.log(np.maximum(lower, 0.0))
            high = base + np.log(upper)
        high = high + 1e-15 * (np.abs(base) + 1)
        return low, np.where(upper > 0, high, np.inf)


class Sum(Protocol):
    """The facts about a composition that a reader needs."""

    @property
    def line(self) -> tuple[float, float]:
        """The sums of rho and xi, raised so that K may be rounded."""

    @property
    def log(self) -> list[tuple[Curve, int]]:
        """Every other curve that was added, in order."""

    @property
    def length(self) -> int:
        """Number of entries of the log that belong to the composition."""

    @property
    def search(self) -> Search:
        """Search for the best gap."""

    def moment(self) -> Objective:
        """Return the sum of K as a function, rounded up."""


class _Kept(NamedTuple):
    """A window, the log that it follows, and the number of included entries."""

    window: Window
    log: list[tuple[Curve, int]]
    length: int
    gap: float
    #: The largest K at which the window was found fine enough between its nodes.
    looked: float


class WindowReader:
    """Reads epsilon from a sum that grows between readings.

    The first reading is a plain search. Later readings keep and move a window around
    the best gap; they use the search again if the gap leaves the window. If all parts
    are zero-concentrated, the last gap starts a separate search. Thread-safe: cached
    values are replaced as a whole, and none of them can make a reading wrong.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._line = Line()
        self._asked = False
        self._width = 1.0  # share of the usual width that has proved fine enough

    def epsilon(self, state: Sum, log_delta: float) -> float:
        """Return the least epsilon at ln(delta), rounded up."""
        found = self._from_windows(state, log_delta)
        if found is not None:
            return found
        best = least_epsilon(state.moment(), log_delta, state.search)
        if self._asked and state.length > 0:
            self._kept = self._around(best.gap, log_delta, state)
        self._asked = True
        return best.value

    def line_epsilon(self, state: Sum, log_delta: float) -> float | None:
        """Return epsilon if all parts are lines; None if a search is needed."""
        rho, xi = state.line
        return self._line.epsilon(rho, xi, log_delta)

    def _from_windows(self, state: Sum, log_delta: float) -> float | None:
        """Return epsilon from the cached window, or from a window near it."""
        kept = self._kept
        for _ in range(_TRIES):
            kept = None if kept is None else _caught_up(kept, state)
            if kept is None:
                return None
            found = _read(kept, state, log_delta)
            if found.exact and found.inside:
                self._kept = kept._replace(gap=found.gap, looked=found.looked)
                return found.epsilon
            change = 1.2 if found.exact else 0.4
            self._width = min(1.0, max(0.01, self._width * change))
            kept = self._around(found.gap, log_delta, state)
        return None

    def _around(self, gap: float, log_delta: float, state: Sum) -> _Kept | None:
        """Return an empty window, mostly below the gap, which falls with more events.

        Near the best gap t the loss's variance is about 2 ln(1/delta)/t^2.
        """
        width = min(0.8, _WIDTH / math.sqrt(1 - 2 * log_delta)) * self._width * gap
        if gap + 0.3 * width > state.search.trusted:
            return None
        window = Window.around(gap - 0.7 * width, gap + 0.3 * width)
        return _Kept(window, state.log, 0, gap, 0.0)


def _caught_up(kept: _Kept, state: Sum) -> _Kept | None:
    """Return the window with all events of the state; None for another history."""
    if kept.log is not state.log or kept.length > state.length:
        return None
    if kept.window.gaps[-1] > state.search.trusted:
        return None
    window = kept.window
    for curve, count in state.log[kept.length : state.length]:
        window = window.plus(curve, count)
    return kept._replace(window=window, length=state.length)


class _Reading(NamedTuple):
    """The result of a window: whether it is accurate, and likely the best."""

    gap: float
    epsilon: float
    looked: float
    exact: bool
    inside: bool


def _read(kept: _Kept, state: Sum, log_delta: float) -> _Reading:
    """Return the best gap within the window and epsilon there."""
    window, shape, looked = kept.window, _shape(), kept.looked
    gaps, (rho, xi) = window.gaps, state.line
    line = gaps * (rho * (1 + gaps) + xi)
    totals = window.totals + line
    epsilons = _at_nodes(gaps, totals, log_delta)
    best = int(epsilons.argmin())
    if not 0 < best < NODES - 1:
        return _Reading(float(gaps[best]), float(epsilons[best]), looked, True, False)
    gap = _lowest(window, epsilons, best, kept.gap)
    flat = _Flat.of(gaps, totals)
    low, high = flat.near(window, np.array([gap]))
    epsilon, settled = epsilon_at_order(gap, float(high[0]), log_delta)
    if not settled:
        gap = _moved(window, flat, gap, log_delta)
        low, high = flat.near(window, np.array([gap]))
        epsilon, _ = epsilon_at_order(gap, float(high[0]), log_delta)
    unit = gap * max(epsilon, 1e-300)
    exact = float(high[0] - low[0]) <= _ACCURACY * unit
    # Polynomials match the values at the nodes: check them between the nodes as well.
    if exact and flat.size > _LOOK_AGAIN * kept.looked:
        low, high = flat.bounds((gaps[1:] + gaps[:-1]) / 2, shape.between)
        exact = float((high - low).max()) <= _ROUGHLY * unit
        looked = flat.size
    # The best gap is in between if both ends are clearly worse.
    ends = min(float(epsilons[0]), float(epsilons[-1]))
    inside = ends > epsilon * (1 + _VISIBLE)
    return _Reading(gap, epsilon, looked, exact, inside)


def _moved(window: Window, flat: _Flat, gap: float, log_delta: float) -> float:
    """Return the best gap for the best w0, close to the best gap for w0 = 1."""
    for width in (2e-2, 2e-3):
        gaps = gap * (1 + width * np.array([-1.0, 0.0, 1.0]))
        gaps = np.clip(gaps, window.gaps[0], window.gaps[-1])
        high = flat.near(window, gaps)[1].tolist()
        pairs = zip(gaps.tolist(), high, strict=True)
        left, middle, right = (epsilon_at_order(g, k, log_delta)[0] for g, k in pairs)
        bend = left - 2 * middle + right
        shift = (left - right) / (2 * bend) if bend > 0 else 0.0
        gap *= 1 + width * min(1.0, max(-1.0, shift))
    return gap


def _at_nodes(gaps: Floats, totals: Floats, log_delta: float) -> Floats:
    """Return about epsilon at the nodes for w0 = 1; a better w0 changes it little."""
    odds = totals + np.log1p(-np.exp(-totals)) - np.log1p(gaps) - log_delta
    tail = np.exp(-odds)  # softplus and psi to first order in it
    step = (odds + tail) / gaps
    value = step - np.log1p(1 / gaps) - tail * np.expm1(-step)
    if odds[value.argmin()] > _LARGE_REACH:
        return np.asarray(value)
    pairs = zip(gaps.tolist(), totals.tolist(), strict=True)
    return np.array([epsilon_at(gap, k, log_delta)[0] for gap, k in pairs])


def _lowest(window: Window, epsilons: Floats, best: int, start: float) -> float:
    """Return the gap at which the polynomial through the epsilons is least."""
    shape, gaps = _shape(), window.gaps
    slopes = shape.slopes @ epsilons
    bends = shape.slopes @ slopes
    low, high = float(gaps[best - 1]), float(gaps[best + 1])
    gap = start if low < start < high else float(gaps[best])
    scale = 2 * float(shape.places[-1]) / float(gaps[-1] - gaps[0])
    for _ in range(6):
        row = shape.weights / (window.place(gap) - shape.places + 1e-200)
        bend = float(row @ bends) * scale
        move = -float(row @ slopes) / bend if bend != 0 else 0.0
        gap = min(high, max(low, gap + move))
        if not abs(move) > _CLOSE * gap:
            break
    return gap
