"""Group privacy: what holds for `size` individuals together."""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import replace
from fractions import Fraction

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting._numeric import exp_up
from fastdp.accounting.conversions import below_one, capped_epsilon
from fastdp.accounting.events import (
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    LaplaceEvent,
    PermuteAndFlipEvent,
    PureDPEvent,
    RDPEvent,
    TCDPEvent,
    TradeOffEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPEvent,
)

__all__ = ["group_delta", "group_epsilon", "group_rho", "grouped"]


def group_epsilon(epsilon: Real, size: int) -> Fraction:
    """Return the exact pure epsilon of a group of `size` individuals.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    k = _validate.integer("size", size, 1)
    return k * _validate.nonnegative("epsilon", epsilon)


def group_delta(epsilon: Real, delta: Real, size: int) -> float:
    """Return delta of a group at `size` * epsilon, for an (epsilon, delta) guarantee.

    delta (exp(size epsilon) - 1)/(exp(epsilon) - 1), at most 1, rounded up.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    e = float_up(capped_epsilon(epsilon))
    d = float_up(below_one(delta))
    k = _validate.integer("size", size, 1)
    if d == 0 or k == 1:
        return d
    # sum over i < k of exp(i e) = exp((k-1) e) (1 - exp(-k e))/(1 - exp(-e))
    share = math.log(math.expm1(-k * e) / math.expm1(-e)) if e > 0 else math.log(k)
    log_result = math.log(d) + (k - 1) * e + share
    slop = 1e-14 * (1 + (k - 1) * e + abs(math.log(d)))
    return 1.0 if log_result + slop >= 0 else exp_up(log_result + slop)


def group_rho(rho: Real, size: int) -> Fraction:
    """Return the exact rho of a group, size^2 rho (Bun and Steinke 2016, Prop 1.9).

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    k = _validate.integer("size", size, 1)
    return k * k * _validate.nonnegative("rho", rho)


def grouped(event: Event, size: int) -> Event | None:
    """Return an event for single individuals that says what holds for a group.

    None where no rule is proved but that of the event's pure epsilon or rho. The
    rules and their proofs are in docs/proofs/accounting.md, section 4.

    Parameters
    ----------
    event : Event
        An event about one individual.
    size : int
        Number of individuals, >= 1.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    """
    k = _validate.integer("size", size, 1)
    if k == 1:
        return event
    match event:
        case (
            LaplaceEvent(sensitivity=s)
            | DiscreteLaplaceEvent(sensitivity=s)
            | GaussianEvent(sensitivity=s)
        ):
            return replace(event, sensitivity=k * s)
        case DiscreteGaussianEvent(sensitivity=s, coordinates=n):
            wide = None if n is None else k * n
            return replace(event, sensitivity=k * s, coordinates=wide)
        case TruncatedDiscreteLaplaceEvent(sensitivity=s, bound=bound):
            return replace(event, sensitivity=k * s) if bound >= k * s else None
        case (
            PureDPEvent(epsilon=e)
            | ExponentialMechanismEvent(epsilon=e)
            | PermuteAndFlipEvent(epsilon=e)
        ):
            return replace(event, epsilon=k * e)
        case ApproximateDPEvent(epsilon=e, delta=d):
            wide_delta = Fraction(group_delta(e, d, k))
            if wide_delta < 1:
                return replace(event, epsilon=k * e, delta=wide_delta)
        case GDPEvent(mu=mu):
            return replace(event, mu=k * mu)
        case ZCDPEvent(rho=rho, xi=xi):
            return replace(event, rho=k * k * rho, xi=k * _harmonic_up(k) * xi)
        case TCDPEvent(rho=rho, omega=omega) if omega > k:
            return replace(event, rho=k * k * rho, omega=omega / k)
        case RDPEvent():
            return _grouped_curve(event, k)
        case TradeOffEvent():
            return _grouped_trade_off(event, k)
    return None


def _harmonic_up(k: int) -> Fraction:
    """Return 1 + 1/2 + ... + 1/k, or a little more."""
    if k <= 100:
        return sum((Fraction(1, i) for i in range(1, k + 1)), Fraction(0))
    return Fraction(math.nextafter((1 + math.log(k)) * (1 + 1e-15), math.inf))


def _grouped_curve(event: RDPEvent, size: int) -> RDPEvent | None:
    """Return the curve of a group of up to 2^c: (order/2^c, 3^c epsilon).

    Mironov 2017, Proposition 2; it asks for orders of at least 2^(c+1).
    """
    c = (size - 1).bit_length()
    kept = [
        (order / 2**c, 3**c * epsilon)
        for order, epsilon in zip(event.orders, event.epsilons, strict=True)
        if order >= 2 ** (c + 1)
    ]
    if not kept:
        return None
    orders, epsilons = zip(*kept, strict=True)
    return replace(event, orders=orders, epsilons=epsilons)


def _grouped_trade_off(event: TradeOffEvent, size: int) -> TradeOffEvent:
    """Return 1 - (1 - f)^(size times), the trade-off of a group, at its knots.

    With g = 1 - f, a test's power after i steps is at most g of that after i - 1
    (Dong, Roth and Su 2022, Theorem 2.14). Compositions of piecewise linear functions
    are piecewise linear; the knots are exact.
    """
    x, f = event.false_positive_rates, event.false_negative_rates
    g = [1 - value for value in f]
    knots = list(zip(x, g, strict=True))
    for _ in range(size - 1):
        knots = _after(knots, x, g)
    rates, powers = zip(*knots, strict=True)
    return replace(
        event,
        false_positive_rates=rates,
        false_negative_rates=tuple(1 - power for power in powers),
    )


def _after(
    knots: list[tuple[Fraction, Fraction]], x: tuple[Fraction, ...], g: list[Fraction]
) -> list[tuple[Fraction, Fraction]]:
    """Return the knots of g(h) for nondecreasing concave h with these knots."""
    found: dict[Fraction, Fraction] = {}
    for (x0, h0), (x1, h1) in itertools.pairwise(knots):
        inside = [h for h in x if h0 < h < h1]
        places = [x0, *(x0 + (h - h0) * (x1 - x0) / (h1 - h0) for h in inside), x1]
        for place, h in zip(places, [h0, *inside, h1], strict=True):
            found[place] = _linear(x, g, h)
    return sorted(found.items())


def _linear(x: tuple[Fraction, ...], g: list[Fraction], at: Fraction) -> Fraction:
    """Return g at `at`, linear between its knots."""
    i = min(max(bisect.bisect_right(x, at), 1), len(x) - 1)
    share = (at - x[i - 1]) / (x[i] - x[i - 1])
    return g[i - 1] + share * (g[i] - g[i - 1])
