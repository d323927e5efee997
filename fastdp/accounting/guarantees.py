"""What an event guarantees: one entry for every kind of event.

Each function picks the conversion of `fastdp.accounting.conversions` that belongs to
the event and rounds up. An event that is not known is refused, never free.
"""

from __future__ import annotations

from fastdp._validate import Real, float_up
from fastdp.accounting import _laplace, _response, conversions
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    TruncatedDiscreteLaplaceEvent,
)
from fastdp.exceptions import UnsupportedEventError

__all__ = ["event_delta", "event_epsilon", "event_rho"]


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
    match event:
        case DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return conversions.discrete_laplace_epsilon(d, s, b)
        case LaplaceEvent(sensitivity=s, scale=b):
            pure = s / b
            if d == 0:
                return float_up(pure)
            return conversions.invert(
                lambda e: _laplace.continuous_log_delta(e, pure), d, float_up(pure)
            )
        case TruncatedDiscreteLaplaceEvent(sensitivity=s, scale=b, bound=bound):
            pure = _laplace.whole(s) / b
            if conversions.truncated_laplace_delta(pure, s, b, bound) <= d:
                return float_up(pure)
            raise UnsupportedEventError(
                f"{event!r} has a larger delta than {delta!r} at every epsilon"
            )
        case GaussianEvent(sensitivity=s, sigma=width) if d > 0:
            return conversions.gaussian_epsilon(d, s, width)
        case DiscreteGaussianEvent(sensitivity=s, sigma=width) if d > 0:
            return conversions.discrete_gaussian_epsilon(d, s, width, event.coordinates)
        case RandomizedResponseEvent(p=p, q=q):
            return _response.epsilon(p, q, d)
    raise UnsupportedEventError(
        f"no finite epsilon is known for {event!r} at {delta!r}"
    )


def event_delta(event: Event, epsilon: Real) -> float:
    """Return a delta that `event` meets at `epsilon`, rounded up.

    Raises
    ------
    DTypeError, ParameterError
        epsilon is negative or not finite.
    UnsupportedEventError
        The event is not known, or no bound is proved at this epsilon.
    """
    match event:
        case DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return conversions.discrete_laplace_delta(epsilon, s, b)
        case LaplaceEvent(sensitivity=s, scale=b):
            return conversions.laplace_delta(epsilon, s, b)
        case TruncatedDiscreteLaplaceEvent(sensitivity=s, scale=b, bound=bound):
            return conversions.truncated_laplace_delta(epsilon, s, b, bound)
        case GaussianEvent(sensitivity=s, sigma=width):
            return conversions.gaussian_delta(epsilon, s, width)
        case DiscreteGaussianEvent(sensitivity=s, sigma=width, coordinates=n):
            return conversions.discrete_gaussian_delta(epsilon, s, width, n)
        case RandomizedResponseEvent(p=p, q=q):
            return _response.delta(p, q, conversions.capped_epsilon(epsilon))
    raise UnsupportedEventError(f"no delta is known for {event!r}")


def event_rho(event: Event) -> float:
    """Return rho of `event` under zero-concentrated privacy, rounded up.

    Raises
    ------
    UnsupportedEventError
        The event has no finite rho (truncated noise) or is not known.
    """
    match event:
        case DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return conversions.discrete_laplace_rho(s, b)
        case LaplaceEvent(sensitivity=s, scale=b):
            return conversions.laplace_rho(s, b)
        case GaussianEvent(sensitivity=s, sigma=width):
            return float_up(conversions.gaussian_rho(s, width))
        case DiscreteGaussianEvent(sensitivity=s, sigma=width):
            return float_up(conversions.gaussian_rho(s, width))
        case RandomizedResponseEvent(p=p, q=q):
            return _response.rho(p, q)
    raise UnsupportedEventError(f"no finite rho is known for {event!r}")
