"""Many readings of a growing sum of Renyi curves: interpolation with a known sign.

exp K(t) of a composition is a moment function E exp(t L), so all its derivatives of
even order are positive. Its interpolation polynomial on an even number of nodes
therefore lies above it wherever an odd number of nodes lies above t, and below it
elsewhere. Sums of K at a few nodes, which grow with the composition, so give upper (and
lower) bounds of K in between, at the cost of one curve's evaluation per new event.
Proof in docs/proofs/rdp.md, section 6.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fastdp.accounting import _renyi_conversion as conversion
from fastdp.accounting._renyi import ConcentratedCurve, Curve
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


@dataclass(frozen=True)
class Window:
    """Sums of K at nodes around an order.

    Parameters
    ----------
    gaps : ndarray of float64, shape (NODES,)
        Increasing.
    totals : ndarray of float64, shape (NODES,)
        Sum of K of everything composed, rounded up.
    known : dict of Curve to ndarray
        K of curves that were met before.
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
        known = self.known
        if values is None:
            values = curve.log_moment(self.gaps)
            known = {**known, curve: values}
        return Window(self.gaps, self.totals + count * values, known)

    def bounds(self, gap: Floats, line: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of K at gaps within the window.

        Parameters
        ----------
        gap : ndarray of float64, shape (n,)
            Between the first and the last node.
        line : ndarray of float64, shape (NODES,)
            K at the nodes of what the totals leave out.
        """
        totals = self.totals + line
        shape = _shape()
        middle, half = (self.gaps[0] + self.gaps[-1]) / 2, self.gaps[-1] - self.gaps[0]
        half /= 2 * shape.places[-1]
        first, last = NODES // 2 - 1, NODES // 2
        slope = (totals[last] - totals[first]) / (self.gaps[last] - self.gaps[first])
        # e^K less a linear function: of the size of 1 over the window
        values = np.exp(totals - totals[first] - slope * (self.gaps - self.gaps[first]))
        error = _CURVE_ERROR * float(np.abs(totals).max()) + 1e-13
        x = (gap - middle) / half
        odd = (shape.places > x[:, None]).sum(axis=1) % 2 == 1
        whole, spread = _interpolate(shape.places, shape.weights, values, x)
        inner, inner_spread = _interpolate(
            shape.places[1:-1], shape.inner_weights, values[1:-1], x
        )
        slack = error * np.maximum(spread, inner_spread)
        upper = np.where(odd, whole, inner) + slack
        lower = np.where(odd, inner, whole) - slack
        with np.errstate(divide="ignore", invalid="ignore"):
            base = totals[first] + slope * (gap - self.gaps[first])
            high, low = base + np.log(upper), base + np.log(np.maximum(lower, 0.0))
        high = high + 1e-15 * (np.abs(base) + 1)
        return low, np.where(upper > 0, high, np.inf)


@dataclass(frozen=True)
class _Shape:
    """Chebyshev places on [-1, 1] and the weights of their Lagrange polynomials."""

    places: Floats
    weights: Floats
    inner_weights: Floats


@functools.cache
def _shape() -> _Shape:
    places = -np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    return _Shape(places, _weights(places), _weights(places[1:-1]))


def _weights(places: Floats) -> Floats:
    apart = 2 * (places[:, None] - places)  # doubled, so that products stay near 1
    np.fill_diagonal(apart, 1.0)
    return np.asarray(1 / apart.prod(axis=1))


def _interpolate(
    places: Floats, weights: Floats, values: Floats, x: Floats
) -> tuple[Floats, Floats]:
    """Return the polynomial at x, and the sum of the absolute values of its terms."""
    apart = 2 * (x[:, None] - places)
    # On a node the polynomial is the value there: stay a hair away from it.
    apart = np.where(np.abs(apart) < 1e-15, 1e-15, apart)
    terms = apart.prod(axis=1)[:, None] * (weights / apart) * values
    return terms.sum(axis=1), np.abs(terms).sum(axis=1)


class Sum(Protocol):
    """What a reader needs to know of a composition."""

    @property
    def line(self) -> ConcentratedCurve:
        """The zero-concentrated parts."""

    @property
    def log(self) -> list[tuple[Curve, int]]:
        """Every other curve that was added, in order."""

    @property
    def length(self) -> int:
        """How many entries of the log belong to it."""

    @property
    def search(self) -> conversion.Search:
        """Where the best gap may be."""

    def log_moment(self, gap: Floats) -> Floats:
        """Return the sum of K, rounded up."""


@dataclass(frozen=True)
class _Kept:
    """A window and how much of which log it has taken in."""

    window: Window
    log: list[tuple[Curve, int]]
    length: int
    gap: float


class WindowReader:
    """Reads epsilon off a sum that grows between readings.

    The first reading is a plain search. Later ones keep a window around the best gap;
    they fall back on the search when the best gap leaves it. Safe under threads: what
    is kept is immutable, and replaced as a whole.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._asked = False
        self._width = 1.0  # share of the usual width that has proved fine enough

    def epsilon(self, state: Sum, log_delta: float) -> float:
        """Return the least epsilon at ln(delta), rounded up."""
        kept = self._kept
        if kept is not None:
            trusted = kept.window.gaps[-1] <= state.search.trusted
            kept = _caught_up(kept, state) if trusted else None
        if kept is not None:
            found = _read(kept, state, log_delta)
            if found.exact and found.inside:
                self._kept = replace(kept, gap=found.gap)
                return found.epsilon
            change = 1.2 if found.exact else 0.4
            self._width = min(1.0, max(0.01, self._width * change))
        gaps, values = conversion.best_gap_and_epsilon(
            state.log_moment, np.array([log_delta]), state.search
        )
        if self._asked and 1.3 * gaps[0] <= state.search.trusted:
            self._kept = _around(float(gaps[0]), log_delta, state, self._width)
        self._asked = True
        return float(values[0])


def _around(gap: float, log_delta: float, state: Sum, share: float) -> _Kept:
    """Return an empty window, mostly below the gap: more events move it down.

    Near the best gap t the loss's variance is about 2 ln(1/delta)/t^2.
    """
    width = min(0.8, _WIDTH / math.sqrt(1 - 2 * log_delta)) * share * gap
    window = Window.around(gap - 0.7 * width, gap + 0.3 * width)
    return _Kept(window, state.log, 0, gap)


def _caught_up(kept: _Kept, state: Sum) -> _Kept | None:
    """Return the window with all events of the state; None for another history."""
    if kept.log is not state.log or kept.length > state.length:
        return None
    window = kept.window
    for curve, count in state.log[kept.length : state.length]:
        window = window.plus(curve, count)
    return _Kept(window, state.log, state.length, kept.gap)


@dataclass(frozen=True)
class _Reading:
    """What a window says: whether it may be believed, and is likely the best."""

    gap: float
    epsilon: float
    exact: bool
    inside: bool


def _read(kept: _Kept, state: Sum, log_delta: float) -> _Reading:
    """Return the best gap within the window and epsilon there."""
    window = kept.window
    line = state.line.log_moment(window.gaps)

    def moment(gaps: Floats) -> Floats:
        return window.bounds(gaps.ravel(), line)[1].reshape(gaps.shape)

    logs = np.array([log_delta])
    low, high = window.gaps[:1] * (1 + 1e-9), window.gaps[-1:] * (1 - 1e-9)
    span = 0.02 * (high - low)
    near = np.clip(kept.gap, low + span, high - span)
    found, value = conversion.narrow_epsilon(moment, logs, near - span, near + span)
    if not near - span * 0.999 < found < near + span * 0.999:
        found, value = conversion.narrow_epsilon(moment, logs, low, high)
    gap, epsilon = float(found[0]), float(value[0])
    # Polynomials meet the nodes whatever they do between: look there as well.
    probes = (window.gaps[1:] + window.gaps[:-1]) / 2
    least, most = window.bounds(np.append(probes, found), line)
    error = (most - least) / (gap * max(epsilon, 1e-300))
    exact = bool(error[-1] <= _ACCURACY and error.max() <= _ROUGHLY)
    # The best gap is in between if both ends are clearly worse.
    ends = np.concatenate([low, high])
    at_ends = conversion.epsilon_at(ends, moment(ends), logs, np.zeros(2))[0]
    margin = 1e-3 * (high - low)
    inside = bool(low + margin < gap < high - margin)
    inside &= bool(at_ends.min() > epsilon * (1 + _VISIBLE))
    return _Reading(gap, epsilon, exact, inside)
