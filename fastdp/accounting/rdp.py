"""Renyi differential privacy: curves add up, and the best order is converted.

The curves are functions of a real order, and the order is optimized continuously. Any
order gives a valid bound, so the search can affect only tightness, never validity.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp._validate import Real, float_down, float_up
from fastdp.accounting import conversions
from fastdp.accounting._accountant import Accountant
from fastdp.accounting._facts import facts_of, leaves
from fastdp.accounting._numeric import exp_up, log_down, required
from fastdp.accounting._renyi.conversion import epsilon_at_order, log_delta_at_order
from fastdp.accounting._renyi.curves import EXCESS, ConcentratedCurve, Curve
from fastdp.accounting._renyi.search import (
    ANYWHERE,
    Objective,
    Search,
    least_epsilon,
    least_log_delta,
)
from fastdp.accounting._renyi.window import WindowReader
from fastdp.accounting._response import Stated, pure_epsilon_at, pure_log_delta
from fastdp.accounting._series import Floats
from fastdp.accounting.events import (
    Event,
    GaussianEvent,
    Relation,
)
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError

#: Sums of rho are kept in units of 2^-1023.
_BITS = 1023
_UNIT = 1 << _BITS

__all__: list[str] = [
    "RDPAccountant",
    "rdp_to_delta",
    "rdp_to_epsilon",
    "renyi_divergence",
]


def renyi_divergence(event: Event, order: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return bounds on the Renyi divergence of an event at each order, rounded up.

    Exact (relative excess below 1e-12) for Gaussian, Laplace, discrete Laplace and
    one-coordinate discrete Gaussian noise, randomized response, pure privacy, bounded
    range and the Poisson-subsampled forms of the Gaussian, response and pure events.

    Parameters
    ----------
    event : Event
        The event; divergences of compositions add up.
    order : array_like of float
        Orders > 1, of any shape; at infinity the divergence is the pure epsilon.

    Returns
    -------
    ndarray of float64
        The bounds, in the shape of `order`; infinity beyond the last known order.

    Raises
    ------
    UnsupportedEventError
        The event's divergence is infinite or not known.

    Notes
    -----
    The gap between the order and 1 is computed from the given double; for orders very
    close to 1 use the accountant, which works with the gap.

    References
    ----------
    Mironov, "Renyi Differential Privacy" (2017), Table II; Mironov, Talwar, Zhang,
    "Renyi Differential Privacy of the Sampled Gaussian Mechanism" (2019); Dong, Durfee,
    Rogers, "Optimal Differential Privacy Composition for Exponential Mechanisms"
    (2020); docs/proofs/rdp.md.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent
    >>> renyi_divergence(GaussianEvent(sensitivity=1, sigma=2), [2, 8]).round(
    ...     9
    ... ).tolist()
    [0.25, 1.0]
    """
    orders = _orders(order)
    return required(event, lambda: _divergences(event, orders))


def _divergences(event: Event, orders: Floats) -> Floats:
    parts = [(facts_of(part), count) for part, count in leaves(event)]
    curves = [(*facts.curve(), count) for facts, count in parts]
    if any(lost for _, lost, _ in curves):
        raise UnsupportedEventError(
            f"the Renyi divergence of {event!r} is infinite, because the "
            "event has a delta"
        )
    pures = [(facts.pure(), count) for facts, count in parts]
    known = [count * one for one, count in pures if one is not None]
    pure = float_up(sum(known, Fraction(0))) if len(known) == len(parts) else math.inf

    def moment(gap: Floats) -> Floats:
        return sum((n * curve.log_moment(gap) for curve, _, n in curves), 0 * gap)

    return _divergence(moment, orders, pure)


def _divergence(moment: Objective, orders: Floats, pure: float) -> Floats:
    """Return divergences from moments; at order infinity, the pure epsilon."""
    flat = orders.ravel()
    result = np.full(flat.size, pure)
    gap = flat[np.isfinite(flat)] - 1
    result[np.isfinite(flat)] = moment(gap) / gap * (1 + 4e-16)
    return result.reshape(orders.shape)


def rdp_to_epsilon(*, order: Real, divergence: Real, delta: Real) -> float:
    """Return the least epsilon that one Renyi bound implies at `delta`, rounded up.

    Parameters
    ----------
    order : int, float, Fraction or Decimal
        > 1, or infinity, where the divergence is a pure epsilon.
    divergence : int, float, Fraction or Decimal
        Bound on the divergence at this order, >= 0.
    delta : int, float, Fraction or Decimal
        > 0 and < 1.

    References
    ----------
    Asoodeh, Liao, Calmon, Kosut, Sankar, "A Better Bound Gives a Hundred Rounds"
    (2020), Lemma 1; Canonne, Kamath, Steinke (2020), Proposition 12, is the limit of
    small delta.

    Examples
    --------
    >>> round(rdp_to_epsilon(order=8, divergence=0.5, delta=1e-5), 4)
    1.7097
    """
    d = _validate.open_unit("delta", delta)
    if order == math.inf:
        return pure_epsilon_at(_validate.nonnegative("divergence", divergence), d)
    gap, moment = _one_order(order, divergence)
    return epsilon_at_order(gap, moment, log_down(d))[0]


def rdp_to_delta(*, order: Real, divergence: Real, epsilon: Real) -> float:
    """Return the least delta that one Renyi bound implies at `epsilon`, rounded up.

    Parameters
    ----------
    order : int, float, Fraction or Decimal
        > 1, or infinity, where the divergence is a pure epsilon.
    divergence : int, float, Fraction or Decimal
        Bound on the divergence at this order, >= 0.
    epsilon : int, float, Fraction or Decimal
        >= 0.

    Examples
    --------
    >>> rdp_to_delta(order=8, divergence=0.5, epsilon=1.7098) < 1e-5 < rdp_to_delta(
    ...     order=8, divergence=0.5, epsilon=1.7096
    ... )
    True
    """
    e = conversions.capped_epsilon(epsilon)
    if order == math.inf:
        whole = _validate.nonnegative("divergence", divergence)
        return exp_up(pure_log_delta(whole, e))
    gap, moment = _one_order(order, divergence)
    return exp_up(min(0.0, log_delta_at_order(gap, moment, float_down(e))))


def _one_order(order: Real, divergence: Real) -> tuple[float, float]:
    """Return the gap (rounded either way) and a bound on K at exactly this gap."""
    exact = _validate.exact("order", order) - 1
    if exact <= 0:
        raise ParameterError(f"order must be > 1, got {_validate.shown(order)}")
    d = _validate.nonnegative("divergence", divergence)
    # Divergence grows with the order: a bound holds at smaller ones too.
    gap = float_down(exact)
    return gap, float_up(Fraction(gap) * d)


def _orders(order: npt.ArrayLike) -> Floats:
    values = np.asarray(order)
    if values.dtype.kind not in "iuf":
        raise DTypeError(f"order must be real numbers, got {values.dtype}")
    values = values.astype(np.float64)
    if not np.all(values > 1):
        raise ParameterError("order must be > 1")
    return values


class _Part(NamedTuple):
    """The contribution of one event: a line or a curve, and the delta set aside."""

    #: rho and xi in units of 2^-`_BITS`, rounded up, if the curve is such a line.
    line: tuple[int, int] | None
    curve: Curve
    #: ln(1 - delta), rounded down.
    log_kept: float
    search: Search


@functools.lru_cache(maxsize=4096)
def _part_of(event: Event) -> _Part:
    """Return the contribution of an event, or refuse the event."""
    curve, lost = facts_of(event).curve()
    if curve.largest_gap <= 0:
        raise UnsupportedEventError(f"no Renyi curve is known for {event!r}")
    line = None
    if isinstance(curve, ConcentratedCurve) and curve.omega is None:
        line = _scaled_up(curve.rho), _scaled_up(curve.xi)
    search = Search(
        curve.search_gap, curve.largest_gap, curve.is_moment, curve.trusted_gap
    )
    above = float_up(lost)
    log_kept = math.log1p(-above) * (1 + 1e-15) if above < 1 else -math.inf
    return _Part(line, curve, log_kept, search)


def _scaled_up(value: Fraction) -> int:
    return -((-value.numerator << _BITS) // value.denominator)


def _gaussian_rho(event: GaussianEvent) -> int:
    """Return half the square of sensitivity/sigma like `_scaled_up`, but faster."""
    s, width = event.sensitivity, event.sigma
    above = s.numerator * width.denominator
    below = s.denominator * width.numerator
    return -((-above * above << (_BITS - 1)) // (below * below))


def _unscaled_up(value: int) -> float:
    """Return a double that exceeds a sum of `_scaled_up` results by `EXCESS`."""
    try:
        return value / _UNIT * (1 + EXCESS)
    except OverflowError:
        return math.inf


class _Sum(NamedTuple):
    """The sum of curves, and the probability that no set-aside delta event occurs."""

    #: All zero-concentrated parts together, in units of 2^-`_BITS`: integers add up
    #: faster than rationals, and lose less than a double could show.
    rho: int
    xi: int
    #: ln of the product of 1 - delta, rounded down.
    log_kept: float
    #: Every curve that was added, in order; states share one list, and
    #: its first `length` entries are this state's.
    log: list[tuple[Curve, int]]
    length: int
    #: Where a search may look for the best gap.
    search: Search

    def plus(self, part: _Part, count: int) -> _Sum:
        """Return the sum with `count` times a part."""
        log_kept = self.log_kept
        if part.log_kept != 0:
            log_kept = (log_kept + count * part.log_kept) * (1 + 1e-15)
        if part.line is not None:
            return self._replace(log_kept=log_kept).plus_line(*part.line, count)
        log = self.log if len(self.log) == self.length else self.log[: self.length]
        log.append((part.curve, count))
        search = self.search
        if part.search != search:
            search = search.both(part.search)
        return _Sum(self.rho, self.xi, log_kept, log, self.length + 1, search)

    def plus_line(self, rho: int, xi: int, count: int) -> _Sum:
        """Return the sum with `count` times a line."""
        rho, xi = self.rho + count * rho, self.xi + count * xi
        return _Sum(rho, xi, self.log_kept, self.log, self.length, self.search)

    @property
    def line(self) -> tuple[float, float]:
        """Sums of rho and xi, raised to allow for the rounding of K."""
        return _unscaled_up(self.rho), _unscaled_up(self.xi)

    @property
    def lost(self) -> float:
        """The total delta that is set aside, rounded up."""
        return -math.expm1(self.log_kept) * (1 + 1e-15)

    def moment(self) -> Objective:
        """Return the sum of K as a function of gaps of any shape, rounded up."""
        rho, xi = self.line
        counts: dict[Curve, int] = {}
        for curve, count in self.log[: self.length]:
            counts[curve] = counts.get(curve, 0) + count

        def total(gap: Floats) -> Floats:
            flat = gap.ravel()
            value = flat * (rho * (1 + flat) + xi)
            for curve, count in counts.items():
                value = value + count * curve.log_moment(flat)
            return np.asarray(value.reshape(gap.shape) * (1 + 4e-16))

        return total


class RDPAccountant(Accountant[_Sum]):
    """Adds up Renyi curves of all orders; converts at the best real order.

    An (epsilon, delta) event enters with its delta set aside and the curve of its pure
    part. For Gaussian noise alone a Gaussian accountant is better, and a known privacy
    loss distribution gives more than any Renyi curve.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    Notes
    -----
    Adaptive composition is allowed at every fixed order. The best order is chosen
    afterward: this is valid for a reading at the end, but not for a rule that stops
    when epsilon reaches a budget; use a filter for such a rule.

    References
    ----------
    Mironov, "Renyi Differential Privacy" (2017); Canonne, Kamath, Steinke (2020);
    Asoodeh et al. (2020); docs/proofs/rdp.md.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, PoissonSampledEvent
    >>> step = PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=1))
    >>> accountant = RDPAccountant().compose(step, count=10_000)
    >>> round(accountant.epsilon(1e-5), 5)
    6.71227
    """

    def divergence(self, order: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the composed divergence at each order, rounded up.

        It does not include the deltas that are set aside.

        Parameters
        ----------
        order : array_like of float
            Orders > 1; at infinity the divergence is the pure epsilon.
        """
        state, stated = self._snapshot()
        pure = math.inf if stated is None else float_up(stated.epsilon)
        return _divergence(state.moment(), _orders(order), pure)

    def epsilons(self, deltas: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return `epsilon` for each of many deltas, rounded up.

        Parameters
        ----------
        deltas : array_like of float, shape (n,)
            > 0 and < 1 each.

        Raises
        ------
        UnsupportedEventError
            No finite epsilon is proved at some delta.
        """
        flat = _reals("deltas", deltas)
        if not np.all((flat > 0) & (flat < 1)):
            raise ParameterError("deltas must be > 0 and < 1")
        return _epsilons(*self._snapshot(), flat)

    def deltas(self, epsilons: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return `delta` for each of many epsilons, rounded up.

        Parameters
        ----------
        epsilons : array_like of float, shape (n,)
            Finite and >= 0 each.
        """
        flat = _reals("epsilons", epsilons)
        if not np.all(np.isfinite(flat) & (flat >= 0)):
            raise ParameterError("epsilons must be finite and >= 0")
        state, stated = self._snapshot()
        logs = _log_deltas(state, flat)
        if stated is not None:
            simple = [stated.log_delta_at(Fraction(e)) for e in flat.tolist()]
            logs = np.minimum(logs, simple)
        return np.array([exp_up(min(0.0, log)) for log in logs.tolist()])

    def __init__(self, neighboring_relation: Relation | None = None) -> None:
        super().__init__(neighboring_relation)
        self._reader = WindowReader()

    def _start(self) -> _Sum:
        return _Sum(0, 0, 0.0, [], 0, ANYWHERE)

    def _charge(self, state: _Sum, event: Event, count: int) -> _Sum:
        if type(event) is GaussianEvent:
            return state.plus_line(_gaussian_rho(event), 0, count)
        return state.plus(_part_of(event), count)

    def _epsilon_at(self, state: _Sum, delta: Fraction) -> float:
        if delta == 0:
            raise UnsupportedEventError(
                "delta must be > 0: Renyi divergences give no pure epsilon"
            )
        log_delta = _log_remaining(state, delta)
        return self._reader.epsilon(state, log_delta)

    def _quiet_epsilon_at(self, state: _Sum, delta: Fraction) -> float:
        """Return epsilon without numpy (which could warn) if all parts are lines."""
        if state.length == 0 and delta > 0:
            found = self._reader.line_epsilon(state, _log_remaining(state, delta))
            if found is not None:
                return found
        return super()._quiet_epsilon_at(state, delta)

    def _log_delta_at(self, state: _Sum, epsilon: Fraction) -> float:
        return float(_log_deltas(state, np.array([float_down(epsilon)]))[0])


def _log_remaining(state: _Sum, delta: Fraction) -> float:
    """Return ln of the delta that remains after the deltas set aside."""
    if state.log_kept == 0:
        return log_down(delta)
    lost = Fraction(state.lost)
    if lost >= delta:
        raise UnsupportedEventError(
            f"delta must be > {float(lost)!r}, the part that the events "
            f"already use, got {float(delta)!r}"
        )
    return log_down((delta - lost) / (1 - lost))


def _epsilons(state: _Sum, stated: Stated | None, deltas: Floats) -> Floats:
    logs = [_log_remaining(state, Fraction(d)) for d in deltas.tolist()]
    moment = state.moment()
    found = np.array([least_epsilon(moment, x, state.search).value for x in logs])
    if stated is None:
        return found
    simple = [stated.epsilon_at(Fraction(d)) for d in deltas.tolist()]
    return np.asarray(np.minimum(found, simple))


def _log_deltas(state: _Sum, epsilons: Floats) -> Floats:
    """Return ln(delta) at each epsilon, including the delta set aside."""
    moment = state.moment()
    logs = [least_log_delta(moment, e, state.search) for e in epsilons.tolist()]
    return _with_lost(state, np.array(logs))


def _with_lost(state: _Sum, logs: Floats) -> Floats:
    """Return ln(delta) with the deltas set aside, from ln(delta) of the rest."""
    if state.log_kept == 0:
        return logs
    lost = state.lost
    return np.minimum(np.log(lost + (1 - lost) * np.exp(logs)) + 1e-15, 0.0)


def _reals(name: str, values: npt.ArrayLike) -> Floats:
    array = np.atleast_1d(np.asarray(values))
    if array.dtype.kind not in "iuf" or array.ndim != 1:
        raise DTypeError(f"{name} must be real numbers in one dimension")
    return array.astype(np.float64)
