"""What one event guarantees: one entry for every kind of event.

Each function picks the conversion of `fastdp.accounting.conversions` that belongs to
the event and rounds up. An event that is not known is refused, never free. Several
events together are an accountant's business: here they get the sum of pure epsilons
and that of rho, whichever says more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fastdp._validate import Real, float_up
from fastdp.accounting import _laplace, _response, _sampling, _zcdp, conversions
from fastdp.accounting._numeric import exp_up, log_down
from fastdp.accounting.events import (
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PrivacyLossEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    SelfComposedEvent,
    TCDPEvent,
    TradeOffEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPEvent,
    relation_of,
)
from fastdp.accounting.groups import group_delta, grouped
from fastdp.exceptions import UnsupportedEventError

if TYPE_CHECKING:
    from fastdp.accounting._accountant import Accountant

__all__ = ["event_delta", "event_epsilon", "event_rho", "exact_epsilon"]

ZERO = Fraction(0)
#: How far an epsilon is looked for.
_LARGEST_EPSILON = 1e6
#: What has no profile here: whole curves and functions, and combinations.
_LEFT_TO_ACCOUNTANTS = (
    ComposedEvent,
    GroupEvent,
    PoissonSampledEvent,
    PrivacyLossEvent,
    RDPEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
    TradeOffEvent,
)


def exact_epsilon(event: Event) -> Fraction | None:
    """Return the event's pure epsilon, None where it has none.

    Exact where it is rational, else a double rounded up.
    """
    match event:
        case DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return s / b
        case LaplaceEvent(sensitivity=s, scale=b):
            return s / b
        case RandomizedResponseEvent(p=p, q=q):
            return Fraction(_response.log_ratio(p, q))
        case ExponentialMechanismEvent(epsilon=e) | PermuteAndFlipEvent(epsilon=e):
            return e
        case PureDPEvent(epsilon=e) | ApproximateDPEvent(epsilon=e, delta=0):
            return e
        case ZCDPEvent(rho=0, xi=e):  # all orders, so also the limit
            return e
        case GDPEvent(mu=0) | TCDPEvent(rho=0):
            return Fraction(0)
        case ComposedEvent(events=events):
            parts = [exact_epsilon(part) for part in events]
            known = [part for part in parts if part is not None]
            return sum(known, Fraction(0)) if len(known) == len(parts) else None
        case SelfComposedEvent(event=inner, count=count):
            pure = exact_epsilon(inner)
            return None if pure is None else count * pure
        case (
            PoissonSampledEvent(event=inner)
            | SampledWithoutReplacementEvent(event=inner)
        ):
            pure, rate = exact_epsilon(inner), sampling_rate(event)
            if pure is None or rate is None:
                return None
            return Fraction(_sampling.amplified_epsilon(rate, pure))
        case SampledWithReplacementEvent(sample_size=m, event=inner):
            pure, rate = exact_epsilon(GroupEvent(inner, m)), sampling_rate(event)
            if pure is None or rate is None:
                return None
            return Fraction(_sampling.amplified_epsilon(rate, pure))
        case GroupEvent(event=inner, size=size):
            same = grouped(inner, size)
            if same is not None:
                return exact_epsilon(same)
            pure = exact_epsilon(inner)
            return None if pure is None else size * pure
    return None


def exact_pair(event: Event) -> tuple[Fraction, Fraction] | None:
    """Return the (epsilon, delta) that the event states, None where it states none."""
    pure = exact_epsilon(event)
    if pure is not None:
        return pure, Fraction(0)
    match event:
        case ApproximateDPEvent(epsilon=e, delta=d):
            return e, d
        case TruncatedDiscreteLaplaceEvent(sensitivity=s, scale=b, bound=bound):
            shift = _laplace.whole(s)
            return shift / b, Fraction(_laplace.truncated_tail(shift, b, bound))
        case (
            PoissonSampledEvent(event=inner)
            | SampledWithoutReplacementEvent(event=inner)
        ):
            pair, rate = exact_pair(inner), sampling_rate(event)
            if pair is not None and rate is not None:
                grown = _sampling.amplified_epsilon(rate, pair[0])
                return Fraction(grown), rate * pair[1]
        case GroupEvent(event=inner, size=size):
            pair, same = exact_pair(inner), grouped(inner, size)
            if same is not None:
                return exact_pair(same)
            if pair is not None:
                delta = Fraction(group_delta(pair[0], pair[1], size))
                return (size * pair[0], delta) if delta < 1 else None
    return None


def sampling_rate(event: Event) -> Fraction | None:
    """Return the rate at which sampling amplifies the event, None where it is refused.

    Poisson sampling compares datasets by one record more or less, samples of fixed
    size by one record replaced; the inner event must be for the same relation.
    """
    relation = relation_of(event)
    if event.group_size > 1:
        return None
    match event:
        case PoissonSampledEvent(sampling_probability=rate):
            if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
                return rate
        case SampledWithoutReplacementEvent(source_dataset_size=n, sample_size=m):
            if relation is NeighboringRelation.REPLACE_ONE:
                return Fraction(m, n)
        case SampledWithReplacementEvent(source_dataset_size=n, sample_size=m):
            if relation is NeighboringRelation.REPLACE_ONE:
                return _sampling.hit_rate(n, m)
    return None


def event_epsilon(event: Event, delta: Real = 0) -> float:
    """Return an epsilon that `event` meets at `delta`, rounded up.

    Parameters
    ----------
    event : Event
        One of the events of `fastdp.accounting.events`.
    delta : int, float, Fraction or Decimal
        >= 0 and < 1; 0 asks for pure privacy.

    Raises
    ------
    DTypeError, ParameterError
        delta is out of its domain.
    UnsupportedEventError
        The event is not known, or no finite epsilon is proved at this delta.
    """
    d = conversions.below_one(delta)
    try:
        return _epsilon(event, d)
    except UnsupportedEventError:
        if not isinstance(event, _LEFT_TO_ACCOUNTANTS):
            raise
        return _of_accountants(event, lambda accountant: accountant.epsilon(d))


def _of_accountants(event: Event, reading: Callable[[Accountant[Any]], float]) -> float:
    """Return the least reading of the accountants that know more than single events."""
    from fastdp.accounting.fdp import FDPAccountant
    from fastdp.accounting.pld import PLDAccountant
    from fastdp.accounting.rdp import RDPAccountant

    found = []
    for kind in (RDPAccountant, FDPAccountant, PLDAccountant):
        try:
            found.append(reading(kind().compose(event)))
        except UnsupportedEventError as error:
            refused = error
    if not found:
        raise refused
    return min(found)


def _epsilon(event: Event, d: Fraction) -> float:
    if d == 0:
        pure = exact_epsilon(event)
        if pure is not None:
            return float_up(pure)
    match event:
        case DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return conversions.discrete_laplace_epsilon(d, s, b)
        case LaplaceEvent(sensitivity=s, scale=b):
            e = s / b
            return conversions.invert(
                lambda x: _laplace.continuous_log_delta(x, e), d, float_up(e)
            )
        case TruncatedDiscreteLaplaceEvent(sensitivity=s, scale=b, bound=bound):
            e = _laplace.whole(s) / b
            if conversions.truncated_laplace_delta(e, s, b, bound) <= d:
                return float_up(e)
            raise UnsupportedEventError(
                f"{event!r} has a larger delta than {float_up(d)!r} at every epsilon"
            )
        case GaussianEvent(sensitivity=s, sigma=width) if d > 0:
            return conversions.gaussian_epsilon(d, s, width)
        case GDPEvent(mu=mu) if d > 0:
            return 0.0 if mu == 0 else conversions.gaussian_epsilon(d, mu, 1)
        case DiscreteGaussianEvent(sensitivity=s, sigma=width) if d > 0:
            return conversions.discrete_gaussian_epsilon(d, s, width, event.coordinates)
        case RandomizedResponseEvent(p=p, q=q):
            return _response.epsilon(p, q, d)
        case ExponentialMechanismEvent(epsilon=e):
            return _response.bounded_range_epsilon(e, d)
        case PermuteAndFlipEvent(epsilon=e) | PureDPEvent(epsilon=e):
            return _response.pure_epsilon_at(e, d)
        case ApproximateDPEvent(epsilon=e, delta=own) if d >= own:
            return _response.pure_epsilon_at(e, (d - own) / (1 - own))
        case ZCDPEvent(rho=rho, xi=xi) if d > 0:
            return _zcdp.epsilon_from(log_down(d), rho, xi)
        case TCDPEvent(rho=rho, omega=omega) if d > 0:
            return _zcdp.epsilon_from(log_down(d), rho, Fraction(0), omega)
        case (
            PoissonSampledEvent(event=inner)
            | SampledWithoutReplacementEvent(event=inner)
        ):
            rate = sampling_rate(event)
            if rate is not None and d < rate:
                e = Fraction(event_epsilon(inner, d / rate))
                return _sampling.amplified_epsilon(rate, e)
            if rate is not None:
                return 0.0
        case SampledWithReplacementEvent() if d > 0:
            return _inverted(event, d)
        case ComposedEvent() | SelfComposedEvent() if d > 0:
            found = [] if (e0 := exact_epsilon(event)) is None else [e0]
            best = [_response.pure_epsilon_at(e, d) for e in found]
            return min([*best, _zcdp.epsilon_from(log_down(d), exact_rho(event), ZERO)])
        case GroupEvent(event=inner, size=size):
            same = grouped(inner, size)
            if same is not None:
                return event_epsilon(same, d)
            e0 = exact_epsilon(inner)
            if e0 is not None:
                return _response.pure_epsilon_at(size * e0, d)
    raise UnsupportedEventError(
        f"no finite epsilon is known for {event!r} at delta {float_up(d)!r}"
    )


def _inverted(event: Event, delta: Fraction) -> float:
    """Return an epsilon at `delta` from the event's profile."""
    high = 1.0
    while event_log_delta(event, high) > log_down(delta):
        high *= 2
        if high > _LARGEST_EPSILON:
            raise UnsupportedEventError(
                f"no finite epsilon is known for {event!r} at {float_up(delta)!r}"
            )
    return conversions.invert(lambda e: event_log_delta(event, e), delta, high)


def event_delta(event: Event, epsilon: Real) -> float:
    """Return a delta that `event` meets at `epsilon`, rounded up.

    Raises
    ------
    DTypeError, ParameterError
        epsilon is negative or not finite.
    UnsupportedEventError
        The event is not known, or no bound is proved at this epsilon.
    """
    known = _direct_delta(event, conversions.capped_epsilon(epsilon))
    return exp_up(event_log_delta(event, epsilon)) if known is None else known


def _direct_delta(event: Event, e: Fraction) -> float | None:
    """Return delta where it is at hand rather than its logarithm."""
    match event:
        case TruncatedDiscreteLaplaceEvent(sensitivity=s, scale=b, bound=bound):
            return conversions.truncated_laplace_delta(e, s, b, bound)
        case RandomizedResponseEvent(p=p, q=q):
            return _response.delta(p, q, e)
        case ApproximateDPEvent(epsilon=pure, delta=own):
            rest = Fraction(exp_up(_response.pure_log_delta(pure, e)))
            return min(1.0, float_up(own + (1 - own) * rest))
        case GroupEvent(event=inner, size=size):
            same = grouped(inner, size)
            return None if same is None else _direct_delta(same, e)
    return None


def event_log_delta(event: Event, epsilon: Real) -> float:
    """Return ln of `event_delta`, which reaches far below the least double."""
    e = conversions.capped_epsilon(epsilon)
    known = _direct_delta(event, e)
    if known is not None:
        return log_up(known)
    try:
        return _log_delta(event, e)
    except UnsupportedEventError:
        if not isinstance(event, _LEFT_TO_ACCOUNTANTS):
            raise
        return _of_accountants(event, lambda accountant: accountant.log_delta(e))


def _log_delta(event: Event, e: Fraction) -> float:
    match event:
        case DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return _laplace.log_delta(e, s, b)
        case LaplaceEvent(sensitivity=s, scale=b):
            return _laplace.continuous_log_delta(e, s / b)
        case GaussianEvent(sensitivity=s, sigma=width):
            return conversions.gaussian_log_delta(e, s, width)
        case GDPEvent(mu=mu):
            return -math.inf if mu == 0 else conversions.gaussian_log_delta(e, mu, 1)
        case DiscreteGaussianEvent(sensitivity=s, sigma=width, coordinates=n):
            return conversions.discrete_gaussian_log_delta(e, s, width, n)
        case ExponentialMechanismEvent(epsilon=length):
            return _response.bounded_range_log_delta(length, e)
        case PermuteAndFlipEvent(epsilon=pure) | PureDPEvent(epsilon=pure):
            return _response.pure_log_delta(pure, e)
        case ZCDPEvent(rho=rho, xi=xi):
            return _zcdp.log_delta_from(e, rho, xi)
        case TCDPEvent(rho=rho, omega=omega):
            return _zcdp.log_delta_from(e, rho, Fraction(0), omega)
        case (
            PoissonSampledEvent(event=inner)
            | SampledWithoutReplacementEvent(event=inner)
        ):
            rate = sampling_rate(event)
            if rate is not None:
                inside = _sampling.inner_epsilon(rate, e)
                return _sampling.times_rate(event_log_delta(inner, inside), rate)
        case ComposedEvent() | SelfComposedEvent():
            found = [] if (e0 := exact_epsilon(event)) is None else [e0]
            best = [_response.pure_log_delta(pure, e) for pure in found]
            return min([*best, _zcdp.log_delta_from(e, exact_rho(event), ZERO)])
        case SampledWithReplacementEvent(source_dataset_size=n, sample_size=m):
            rate = sampling_rate(event)
            if rate is not None:
                inside = _sampling.inner_epsilon(rate, e)
                return _sampling.with_replacement_log_delta(
                    n, m, lambda j: event_log_delta(GroupEvent(event.event, j), inside)
                )
        case GroupEvent(event=inner, size=size):
            same = grouped(inner, size)
            if same is not None:
                return event_log_delta(same, e)
            e0 = exact_epsilon(inner)
            if e0 is not None:
                return _response.pure_log_delta(size * e0, e)
    raise UnsupportedEventError(f"no delta is known for {event!r}")


def event_rho(event: Event) -> float:
    """Return rho of `event` under zero-concentrated privacy, rounded up.

    Raises
    ------
    UnsupportedEventError
        The event has no finite rho (truncated noise, an offset xi) or is not known.
    """
    return float_up(exact_rho(event))


def exact_rho(event: Event) -> Fraction:
    """Return rho as a rational: exact where it is one, else a double rounded up."""
    match event:
        case DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return Fraction(conversions.discrete_laplace_rho(s, b))
        case LaplaceEvent(sensitivity=s, scale=b):
            return Fraction(conversions.laplace_rho(s, b))
        case GaussianEvent(sensitivity=s, sigma=width):
            return conversions.gaussian_rho(s, width)
        case DiscreteGaussianEvent(sensitivity=s, sigma=width):
            return conversions.gaussian_rho(s, width)
        case GDPEvent(mu=mu):
            return mu * mu / 2
        case RandomizedResponseEvent(p=p, q=q):
            return Fraction(_response.rho(p, q))
        case ExponentialMechanismEvent(epsilon=e):
            return min(e * e / 8, _rho_of_pure(e))
        case ZCDPEvent(rho=rho, xi=0):
            return rho
        case ComposedEvent(events=events):
            return sum((exact_rho(part) for part in events), Fraction(0))
        case SelfComposedEvent(event=inner, count=count):
            return count * exact_rho(inner)
        case GroupEvent(event=inner, size=size):
            same = grouped(inner, size)
            if same is not None:
                return exact_rho(same)
            rho, pure = size * size * exact_rho(inner), exact_epsilon(event)
            return rho if pure is None else min(rho, _rho_of_pure(pure))
    pure = exact_epsilon(event)
    if pure is None:
        raise UnsupportedEventError(f"no finite rho is known for {event!r}")
    return _rho_of_pure(pure)


def _rho_of_pure(epsilon: Fraction) -> Fraction:
    return (
        min(Fraction(conversions.pure_to_rho(epsilon)), epsilon)
        if epsilon > 0
        else epsilon
    )


def log_up(probability: float) -> float:
    """Return ln(probability) rounded up; -inf for 0."""
    if probability <= 0:
        return -math.inf
    return min(0.0, math.nextafter(math.log(probability), math.inf))
