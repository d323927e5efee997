"""f-differential privacy: trade-off functions, and exact Gaussian accounting.

The trade-off function of two laws gives, for each false-positive rate x of a test
between them, the least false-negative rate f(x). A mechanism is f-private if no test
between neighboring datasets is better than f, in either order. Every function computed
here is on or below the true one: it never claims more privacy than holds.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fastdp import _public, _validate
from fastdp._validate import float_down, float_up
from fastdp.accounting import _gaussian, _gdp, _trade_off, conversions
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._facts import facts_of
from fastdp.accounting._gdp import reals
from fastdp.accounting._numeric import log_down, log_up, required, shortened_up, sqrt_up
from fastdp.accounting._pld.state import State, log_delta_at
from fastdp.accounting._series import Floats
from fastdp.accounting._trade_off_functions import (
    ApproximateTradeOff,
    PiecewiseTradeOff,
    TradeOffFunction,
)
from fastdp.accounting._trade_off_laws import GaussianTradeOff, LaplaceTradeOff
from fastdp.accounting.events import (
    Event,
    Relation,
)
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError

__all__: list[str] = [
    "ApproximateTradeOff",
    "FDPAccountant",
    "GDPAccountant",
    "GaussianTradeOff",
    "LaplaceTradeOff",
    "PiecewiseTradeOff",
    "TradeOffFunction",
    "compose_trade_offs",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_log_delta",
    "trade_off_of",
]

_LARGEST_COUNT = 10**9


# ---- the Gaussian profile for arrays ------------------------------------------------


def gdp_log_delta(*, epsilon: npt.ArrayLike, mu: npt.ArrayLike) -> Floats:
    """Return ln delta(epsilon) of mu-Gaussian privacy for arrays, rounded up.

    Parameters
    ----------
    epsilon : array_like of float
        Finite and >= 0.
    mu : array_like of float
        Finite and > 0; broadcast against `epsilon`.

    Returns
    -------
    ndarray of float64
        The absolute excess is below 2e-12 max(1, |ln delta|) if epsilon/mu is below
        100.

    References
    ----------
    Dong, Roth, Su, "Gaussian Differential Privacy" (2022), Corollary 2.13; Balle and
    Wang (2018), Theorem 8.

    Examples
    --------
    >>> gdp_log_delta(epsilon=[1, 100], mu=1).round(6).tolist()
    [-2.064066, -4960.254554]
    """
    e, m, shape = _profile_arguments(epsilon, mu)
    return np.asarray(_gdp.log_delta(e, m).reshape(shape))


def _profile_arguments(
    epsilon: npt.ArrayLike, mu: npt.ArrayLike
) -> tuple[Floats, Floats, tuple[int, ...]]:
    """Return flat epsilons, mu (one or one for each epsilon) and the result's shape."""
    e, m = reals("epsilon", epsilon), reals("mu", mu)
    _check_mu(m)
    if e.size and not (e.min() >= 0 and e.max() < np.inf):  # also refuses NaN
        raise ParameterError("epsilon must be finite and >= 0")
    shape = np.broadcast_shapes(e.shape, m.shape)
    flat = np.ascontiguousarray(np.broadcast_to(e, shape)).ravel()
    return flat, m.ravel() if m.size == 1 else np.broadcast_to(m, shape).ravel(), shape


def gdp_delta(*, epsilon: npt.ArrayLike, mu: npt.ArrayLike) -> Floats:
    """Return delta(epsilon) of mu-Gaussian privacy for arrays (see the log form)."""
    e, m, shape = _profile_arguments(epsilon, mu)
    return np.asarray(_gdp.delta(e, m).reshape(shape))


def gdp_epsilon(*, delta: npt.ArrayLike, mu: npt.ArrayLike) -> Floats:
    """Return the least epsilon of mu-Gaussian privacy at each delta, rounded up.

    Parameters
    ----------
    delta : array_like of float
        > 0 and < 1.
    mu : array_like of float
        Finite and > 0; broadcast against `delta`.

    Examples
    --------
    >>> gdp_epsilon(delta=[1e-5, 1e-300], mu=1).round(6).tolist()
    [4.377178, 37.448848]
    """
    d, m = np.broadcast_arrays(reals("delta", delta), reals("mu", mu))
    if not (np.all(d > 0) and np.all(d < 1)):
        raise ParameterError("delta must be > 0 and < 1")
    _check_mu(m)
    target = np.log(d.ravel())
    target -= 1e-15 * np.abs(target)
    return np.asarray(_gdp.epsilon(target, m.ravel()).reshape(d.shape))


def _check_mu(mu: Floats) -> None:
    if not np.all(np.isfinite(mu) & (mu > 0)):
        raise ParameterError("mu must be finite and > 0")


#: Within these ranges, doubles hold all values between mu and epsilon.
_PLAIN_MU, _PLAIN_LOG_DELTA = (Fraction(1, 10**9), Fraction(10**4)), -1e5


# ---- composition ---------------------------------------------------------------------


def compose_trade_offs(
    functions: list[tuple[TradeOffFunction, int]],
) -> PiecewiseTradeOff | GaussianTradeOff | ApproximateTradeOff:
    """Return the tensor product: the function of the composed mechanisms.

    Gaussian functions are composed exactly. Other functions are composed by sums of
    losses in cells, which are split so that the laws become easier to distinguish: the
    result is on or below the true function, and closer for few steps than for
    thousands.

    Parameters
    ----------
    functions : list of (TradeOffFunction, int)
        Functions with the number of times that each is composed, all for one order of
        the laws.

    Returns
    -------
    PiecewiseTradeOff, GaussianTradeOff or ApproximateTradeOff
        A GaussianTradeOff if all functions are Gaussian, and an ApproximateTradeOff,
        the function 1 - x, if there are none.

    References
    ----------
    Dong, Roth, Su (2022), Definition 3.1 and Corollary 3.3; Doroshenko et al.,
    "Connect the Dots" (2022).

    Examples
    --------
    >>> compose_trade_offs([(GaussianTradeOff(3), 1), (GaussianTradeOff(2), 4)])
    GaussianTradeOff(mu=5)
    """
    square, rest = Fraction(0), []
    for function, count in functions:
        if not isinstance(function, TradeOffFunction):
            raise DTypeError(
                f"functions must be trade-off functions, got {type(function).__name__}"
            )
        times = _validate.integer("count", count, 1, _LARGEST_COUNT)
        if isinstance(function, GaussianTradeOff):
            square += times * function.mu**2
        else:
            rest.append((function.knots(), times))
    gaussian = GaussianTradeOff(sqrt_up(square)) if square else None
    if not rest:
        return gaussian or ApproximateTradeOff(Fraction(0))
    parts = [(f.points, times) for f, times in rest]
    if gaussian is not None:
        parts.append((gaussian.knots().points, 1))
    return PiecewiseTradeOff.of_knots(_trade_off.compose(parts))


# ---- the accountants ----------------------------------------------------------------


class GDPAccountant(Accountant[Fraction]):
    """Exact accounting of Gaussian mechanisms: mu is the root of the sum of squares.

    It accepts continuous Gaussian noise, stated Gaussian privacy, and groups of these.
    No mu follows from the sigma of discrete Gaussian noise, which is refused.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    References
    ----------
    Dong, Roth, Su, "Gaussian Differential Privacy" (2022), Corollaries 2.13 and 3.3.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent
    >>> accountant = GDPAccountant().compose(
    ...     GaussianEvent(sensitivity=1, sigma=1000), count=10**6
    ... )
    >>> accountant.mu
    Fraction(1, 1)
    >>> round(accountant.epsilon(1e-5), 6)
    4.377178
    """

    @property
    def mu(self) -> Fraction:
        """The composed mu: exact if rational, otherwise too large by at most 2^-80."""
        return sqrt_up(self._snapshot()[0])

    def trade_off(self) -> GaussianTradeOff | ApproximateTradeOff:
        """Return the composition's trade-off function; it is 1 - x if mu is 0."""
        mu = self.mu
        return GaussianTradeOff(mu) if mu else ApproximateTradeOff(Fraction(0))

    def __init__(self, neighboring_relation: Relation | None = None) -> None:
        super().__init__(neighboring_relation)
        # The epsilon read last, and its mu: a search starts in proportion.
        self._last = 0.0, 1.0

    def _start(self) -> Fraction:
        return Fraction(0)

    def _charge(self, state: Fraction, event: Event, count: int) -> Fraction:
        mu = facts_of(event).mu()
        if mu is None:
            raise UnsupportedEventError(
                f"no mu is known for {event!r}: only continuous Gaussian noise, such "
                "noise on a fine grid and stated Gaussian privacy have one (the delta "
                "of discrete Gaussian noise exceeds the Gaussian's)"
            )
        return shortened_up(state + count * mu**2)

    def _epsilon_at(self, state: Fraction, delta: Fraction) -> float:
        if delta == 0:
            raise UnsupportedEventError(
                "delta must be > 0: Gaussian privacy gives no pure epsilon"
            )
        mu, log_delta = sqrt_up(state), log_down(delta)
        if _PLAIN_MU[0] < mu < _PLAIN_MU[1] and log_delta > _PLAIN_LOG_DELTA:
            value = float_up(mu)
            near, before = self._last
            found = _gdp.epsilon_from(log_delta, value, near * value / before)
            self._last = found, value
            return found
        return conversions.invert(
            lambda e: _gaussian.log_delta(e, mu),
            delta,
            conversions.zcdp_epsilon(delta=delta, rho=mu * mu / 2),
        )

    def _log_delta_at(self, state: Fraction, epsilon: Fraction) -> float:
        return _gaussian.log_delta(epsilon, sqrt_up(state))


def trade_off_of(event: Event) -> TradeOffFunction:
    """Return a trade-off function on or below that of one event.

    For sampled events the function is for one order of the datasets: first the sample
    without the record. The other order has the inverse function.

    Parameters
    ----------
    event : Event
        One event.

    Raises
    ------
    UnsupportedEventError
        No trade-off function is known for the event.
    """
    return required(event, lambda: facts_of(event).trade_off())


#: Also use cells if the width of epsilon (relative) or of ln delta exceeds this.
_WIDE = 1e-6


@dataclass(frozen=True)
class _Product:
    """Composed losses: the sum of squared Gaussian parts, and the other events."""

    losses: State = field(default_factory=State)
    square: Fraction = Fraction(0)
    counts: tuple[tuple[Event, int], ...] = ()

    def plus(self, event: Event, count: int) -> _Product:
        """Return the product with an event added `count` times."""
        facts = facts_of(event)
        losses, square = self.losses.plus(facts.step(), count), self.square
        mu = facts.mu()
        if mu is not None:
            square = shortened_up(square + count * mu**2)
            return _Product(losses, square, self.counts)
        _function_of(event)
        counts = dict(self.counts)
        counts[event] = counts.get(event, 0) + count
        return _Product(losses, square, tuple(counts.items()))


class FDPAccountant(Accountant[_Product]):
    """Composes events with trade-off functions; the composed function can be read.

    `epsilon` and `delta` are read from the privacy losses, as by `PLDAccountant`, which
    bounds them from below as well; if those bounds are wide, the trade-off function is
    used too.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    References
    ----------
    Dong, Roth, Su, "Gaussian Differential Privacy" (2022); docs/proofs/fdp.md.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, LaplaceEvent
    >>> accountant = FDPAccountant().compose(
    ...     LaplaceEvent(sensitivity=1, scale=2), count=3
    ... )
    >>> accountant = accountant.compose(GaussianEvent(sensitivity=1, sigma=2))
    >>> round(accountant.epsilon(1e-5), 2)
    3.25
    """

    def trade_off(self) -> TradeOffFunction:
        """Return the composition's function, for one order of the datasets.

        It comes from `compose_trade_offs`: exact for Gaussian noise and close for few
        steps. For thousands of steps, `PLDAccountant.trade_off(symmetric=False)` is
        closer.
        """
        state = self._snapshot()[0]
        return _composed(state.square, state.counts)

    def _start(self) -> _Product:
        return _Product()

    def _charge(self, state: _Product, event: Event, count: int) -> _Product:
        return state.plus(event, count)

    def _epsilon_at(self, state: _Product, delta: Fraction) -> float:
        if delta == 0:
            raise UnsupportedEventError("delta must be > 0 for a trade-off function")
        found = state.losses.epsilon(delta)
        width = found.upper - found.lower
        if not state.counts or not _WIDE * found.upper < width < math.inf:
            return found.upper
        if _log_delta_by_cells(state, found.upper) > log_down(delta):
            return found.upper
        return conversions.invert(
            lambda e: _log_delta_by_cells(state, float_down(e)), delta, found.upper
        )

    def _log_delta_at(self, state: _Product, epsilon: Fraction) -> float:
        found = log_delta_at(state.losses, float_down(epsilon))
        if not state.counts or found.upper - found.lower <= _WIDE:
            return found.upper
        return min(found.upper, _log_delta_by_cells(state, float_down(epsilon)))


def _log_delta_by_cells(state: _Product, epsilon: float) -> float:
    """Bound ln delta by the composed trade-off function."""
    found = _composed(state.square, state.counts).delta(epsilon)
    return log_up(min(1.0, float(found)))


@functools.lru_cache(maxsize=16)
def _composed(
    square: Fraction, counts: tuple[tuple[Event, int], ...]
) -> TradeOffFunction:
    functions = [(_function_of(event), count) for event, count in counts]
    if square:
        functions.append((GaussianTradeOff(sqrt_up(square)), 1))
    return compose_trade_offs(functions)


@functools.lru_cache(maxsize=256)
def _function_of(event: Event) -> TradeOffFunction:
    return trade_off_of(event)


_public.show(globals())
