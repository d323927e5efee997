"""Which privacy losses belong to an event: its dominating pair in both directions.

For events that are known by a guarantee only, the pair is one that every mechanism
with that guarantee is dominated by (docs/proofs/numerical_accounting.md, section 1).
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fastdp.accounting import _laplace, _response
from fastdp.accounting._numeric import log_fraction
from fastdp.accounting._pld.atoms import Atoms
from fastdp.accounting._pld.discrete_gaussian import DiscreteGaussianLoss
from fastdp.accounting._pld.families import (
    AtomFamily,
    BoundedFamily,
    DiscreteGaussianFamily,
    Family,
    GaussianFamily,
    IntervalFamily,
)
from fastdp.accounting._pld.losses import Floats, U
from fastdp.accounting._pld.memory import numbers
from fastdp.accounting._pld.simple_losses import AtomLoss
from fastdp.accounting._pld.steps import Step, loosened
from fastdp.accounting._record import leaves
from fastdp.accounting.events import (
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    LaplaceEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PrivacyLossEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
    TradeOffEvent,
    TruncatedDiscreteLaplaceEvent,
    relation_of,
)
from fastdp.accounting.events._privacy_loss import total
from fastdp.accounting.guarantees import exact_pair, exact_rho
from fastdp.exceptions import UnsupportedEventError

#: Largest losses beyond these are left to the bound by rho.
_PURE = (Fraction(1, 10**9), Fraction(500))

#: Sampling rates below this likewise.
_LEAST_RATE = Fraction(1, 10**12)

#: Most atoms of one law.
_MOST_ATOMS = numbers(512)

#: Units of losses that are finer than their range over this are no use.
_FINEST = 1 << 22


@functools.lru_cache(maxsize=16)
def step_of(event: Event) -> Step:
    """Return what one event adds to a composition.

    Raises
    ------
    UnsupportedEventError
        No pair of laws is known that dominates the event.
    """
    match event:
        case PoissonSampledEvent():
            rate, inner = _poisson(event)
            family = _family_of(inner)
            return family.step() if rate == 1 else _sampled(family.sampled, rate)
        case SampledWithoutReplacementEvent(source_dataset_size=n, sample_size=m):
            _needs(event, NeighboringRelation.REPLACE_ONE, "a subset of fixed size")
            family = _family_of(event.event)
            return family.step() if m == n else _sampled(family.subset, Fraction(m, n))
    return _family_of(event).step()


def _sampled(sample: Callable[[Fraction], Step], rate: Fraction) -> Step:
    """Return a sample's step; rates that doubles do not bear count as the least one."""
    if rate >= _LEAST_RATE:
        return sample(rate)
    step = sample(_LEAST_RATE)  # a sample of it is the sample asked for
    return Step(loosened(step.removal), loosened(step.addition), step.rho)


def _poisson(event: PoissonSampledEvent) -> tuple[Fraction, Event]:
    """Return the rate of a sample, perhaps of a sample, and what is done with it."""
    _needs(event, NeighboringRelation.ADD_OR_REMOVE_ONE, "a Poisson sample")
    rate, inner = event.sampling_probability, event.event
    while isinstance(inner, PoissonSampledEvent):
        rate, inner = rate * inner.sampling_probability, inner.event
    return rate, inner


def _needs(event: Event, relation: NeighboringRelation, what: str) -> None:
    if relation_of(event) is not relation:
        raise UnsupportedEventError(
            f"{what} needs the neighboring_relation {relation.name} here, got "
            f"{relation_of(event)!r}"
        )
    if event.group_size > 1:
        raise UnsupportedEventError(
            f"{what} is accounted for single individuals, got a group_size of "
            f"{event.group_size}"
        )


def _family_of(event: Event) -> Family:
    """Return the pair of an event that is no sample."""
    match event:
        case GaussianEvent(sensitivity=s, sigma=width):
            return GaussianFamily((s / width) ** 2)
        case GDPEvent(mu=mu):
            return GaussianFamily(mu * mu)
        case DiscreteGaussianEvent():
            return _discrete_gaussian(event)
        case LaplaceEvent(sensitivity=s, scale=b):
            return _interval(s / b, exact_rho(event), ends=True)
        case ExponentialMechanismEvent(epsilon=e):
            return _interval(e, exact_rho(event), ends=False)
        case DiscreteLaplaceEvent(sensitivity=s, scale=b):
            return _discrete_laplace(event, _laplace.whole(s), 1 / b)
        case TruncatedDiscreteLaplaceEvent():
            return _truncated(event)
        case RandomizedResponseEvent(p=p, q=q):
            return _three_points(event, p, q)
        case TradeOffEvent():
            return _trade_off(event)
        case PrivacyLossEvent():
            return _given(event)
        case PureDPEvent(epsilon=e) | PermuteAndFlipEvent(epsilon=e):
            return _two_points(e)
        case ComposedEvent() | SelfComposedEvent():
            return _composed(event)
    pair = exact_pair(event)
    if pair is None:
        raise UnsupportedEventError(
            f"no pair of laws is known that dominates {event!r}"
        )
    return _two_points(*pair)


def _composed(event: Event) -> Family:
    """Return the family of a composition within a sample: of one step, or Gaussian."""
    parts = list(leaves(event))
    if len(parts) == 1 and parts[0][1] == 1:
        return _family_of(parts[0][0])
    square = Fraction(0)
    for part, count in parts:
        match part:
            case GaussianEvent(sensitivity=s, sigma=width):
                square += count * (s / width) ** 2
            case GDPEvent(mu=mu):
                square += count * mu * mu
            case _:
                raise UnsupportedEventError(
                    "a composition within a sample must be of Gaussian noise alone, or "
                    f"a single step, got {event!r}"
                )
    return GaussianFamily(square)


def _two_points(epsilon: Fraction, lost: Fraction = Fraction(0)) -> Family:
    """Randomized response dominates all that is epsilon-private."""
    rho = exact_rho(PureDPEvent(epsilon))
    if epsilon > 0 and not _PURE[0] <= epsilon <= _PURE[1] and lost == 0:
        return BoundedFamily(rho)
    e = float(epsilon)
    low = math.exp(-e) / (1 + math.exp(-e))
    values = (low, 1 / (1 + math.exp(-e)))
    loss = AtomLoss(epsilon, (-1, 1), values) if epsilon > 0 else None
    kept = float(1 - lost)
    law = Atoms(np.array([-e, e]), np.array(values) * kept, lost, float(lost), U * e)
    return AtomFamily(law, law, rho, loss)


def _three_points(event: Event, p: Fraction, q: Fraction) -> Family:
    rho = exact_rho(event)
    unit = Fraction(_response.log_ratio(p, q))  # a double, rounded up
    if p > q and not _PURE[0] <= unit <= _PURE[1]:
        return BoundedFamily(rho)
    rest = 1 - p - q
    masses = {-1: q, 0: rest, 1: p} if rest > 0 else {-1: q, 1: p}
    values = tuple(float(mass) for mass in masses.values())
    loss = AtomLoss(unit, tuple(masses), values) if p > q else None
    losses = float(unit) * np.array(list(masses), float)
    law = Atoms(losses, np.array(values), blur=U * float(unit))
    return AtomFamily(law, law, rho, loss)


def _interval(epsilon: Fraction, rho: Fraction, ends: bool) -> Family:
    if not _PURE[0] <= epsilon <= _PURE[1]:
        return BoundedFamily(rho)
    if ends:
        return IntervalFamily(epsilon, rho)
    half = _two_points(epsilon / 2)
    return IntervalFamily(epsilon, rho, half if isinstance(half, AtomFamily) else None)


def _discrete_gaussian(event: DiscreteGaussianEvent) -> Family:
    """Return the pair where one coordinate moves; else only rho is used."""
    norm = max(1, int(event.sensitivity * event.sensitivity))
    variance = event.sigma * event.sigma
    rho = norm / (2 * variance)
    if event.coordinates == 1 or norm == 1:
        shift = math.isqrt(norm)
        rho = shift * shift / (2 * variance)
        if _PURE[0] <= shift / event.sigma <= _PURE[1]:
            return DiscreteGaussianFamily(DiscreteGaussianLoss(shift, variance), rho)
    return BoundedFamily(rho)


def _response_masses(shift: int, rate: float) -> Floats:
    """Return the masses of noise x clipped to 0..shift, for discrete Laplace noise."""
    x = np.arange(1, shift, dtype=np.float64)
    total = 1 + math.exp(-rate)
    # P(X <= 0) = 1/(1 + e^-a), P(X = x) = (1 - e^-a)/(1 + e^-a) e^(-a x).
    inner = -math.expm1(-rate) * np.exp(-rate * x) / total
    return np.concatenate([[1 / total], inner, [math.exp(-rate * shift) / total]])


def _discrete_laplace(event: Event, shift: int, rate: Fraction) -> Family:
    """Losses rate (shift - 2x) for x in 0..shift, all noise beyond at the ends."""
    rho = exact_rho(event)
    if shift > _MOST_ATOMS or not _PURE[0] <= rate * shift <= _PURE[1]:
        return BoundedFamily(rho)
    masses = np.maximum(_response_masses(shift, float(rate))[::-1], 5e-324)
    return _lattice(shift, rate, masses, Fraction(0), rho)


def _lattice(
    shift: int, rate: Fraction, masses: Floats, lost: Fraction, rho: Fraction
) -> Family:
    """Return the symmetric family of losses rate (2x - shift), x in 0..shift."""
    losses = float(rate) * np.arange(-shift, shift + 1, 2, dtype=np.float64)
    law = Atoms(losses, masses, lost, float(lost), 2 * U * float(rate * shift))
    return AtomFamily(law, law, rho, unit=rate)


def _truncated(event: TruncatedDiscreteLaplaceEvent) -> Family:
    """Losses rate (shift - 2x) where both laws have mass, else infinite ones."""
    shift, rate = _laplace.whole(event.sensitivity), 1 / event.scale
    lost = Fraction(_laplace.truncated_tail(shift, event.scale, event.bound))
    if shift > _MOST_ATOMS or not _PURE[0] <= rate * shift <= _PURE[1]:
        return _two_points(rate * shift, lost)
    a = float(rate)
    masses = _response_masses(shift, a)[::-1]
    # Both laws reach bound - shift integers beyond the two centres.
    masses[[0, -1]] *= -math.expm1(-a * (event.bound - shift + 1))
    masses = np.maximum(masses * float(1 - lost) / masses.sum(), 5e-324)
    return _lattice(shift, rate, masses, lost, exact_rho(PureDPEvent(rate * shift)))


def _given(event: PrivacyLossEvent) -> Family:
    """Return the laws of the event; that of addition, if left out, follows."""
    removal = _atoms_of(event.losses, event.probabilities)
    if event.addition_losses:
        addition = _atoms_of(event.addition_losses, event.addition_probabilities)
    else:
        addition = removal.exchanged()
    if (event.losses, event.probabilities) == (
        event.addition_losses,
        event.addition_probabilities,
    ):
        addition = removal
    unit = _unit([*event.losses, *event.addition_losses])
    return AtomFamily(removal, addition, unit=unit)


def _atoms_of(losses: tuple[Fraction, ...], masses: tuple[Fraction, ...]) -> Atoms:
    values = np.array(losses, dtype=np.float64)
    weights = np.maximum(np.array(masses, dtype=np.float64), 5e-324)
    lost, largest = 1 - total(masses), float(np.abs(values).max())
    other = 1 - math.fsum(np.exp(np.log(weights) - values))
    # Its rounding, and what a mass above 1 would be.
    slack = 4 * U * (4 + largest)
    other = max(0.0, other) + slack
    return Atoms(values, weights, lost, other, U * largest, slack=2 * slack)


def _unit(losses: list[Fraction]) -> Fraction | None:
    """Return what all losses are multiples of, unless it is too fine to be of use."""
    scale = math.lcm(*{loss.denominator for loss in losses})
    if scale.bit_length() > 4096:
        return None
    unit = Fraction(math.gcd(*(int(loss * scale) for loss in losses)), scale)
    return unit if 0 < max(map(abs, losses)) < _FINEST * unit else None


def _trade_off(event: TradeOffEvent) -> Family:
    """Return the pair of max(f, f^-1), which is tested no worse in either order.

    A linear piece over a rate p under which f falls by q has the mass p under Q, q
    under P; f(0) < 1 and f = 0 are masses that only one of them has.
    """
    knots = _symmetrized(event.false_positive_rates, event.false_negative_rates)
    pieces = [(x1 - x0, f0 - f1) for (x0, f0), (x1, f1) in itertools.pairwise(knots)]
    both = [(p, q) for p, q in pieces if q > 0]
    lost = 1 - knots[0][1]
    losses = np.array([log_fraction(q / p) for p, q in both][::-1])
    masses = np.array([float(q) for _, q in both][::-1])
    blur = 4 * U * float(np.abs(losses).max(initial=0.0))
    law = Atoms(losses, masses, lost, float(lost), blur)
    return AtomFamily(law, law)


Knots = list[tuple[Fraction, Fraction]]


def _symmetrized(x: tuple[Fraction, ...], f: tuple[Fraction, ...]) -> Knots:
    """Return the knots of max(f, f^-1), exactly."""
    first = list(zip(x, f, strict=True))
    # f^-1 begins where f is 0 first, and is 0 from f(0) on.
    second = list({b: (b, a) for a, b in reversed(first)}.values())
    if second[-1][0] < 1:
        second.append((Fraction(1), Fraction(0)))
    places = sorted({a for a, _ in first} | {a for a, _ in second})
    gaps = [(_at(first, a), _at(second, a)) for a in places]
    knots: Knots = []
    for i, (place, (one, other)) in enumerate(zip(places, gaps, strict=True)):
        if i and (gaps[i - 1][0] - gaps[i - 1][1]) * (one - other) < 0:
            before = gaps[i - 1][0] - gaps[i - 1][1]
            share = before / (before - (one - other))
            cross = places[i - 1] + share * (place - places[i - 1])
            knots.append((cross, _at(first, cross)))
        knots.append((place, max(one, other)))
    return knots


def _at(knots: Knots, place: Fraction) -> Fraction:
    """Return a piecewise linear function's value."""
    i = min(max(bisect.bisect_right(knots, place, key=_first), 1), len(knots) - 1)
    (x0, f0), (x1, f1) = knots[i - 1], knots[i]
    return f0 + (f1 - f0) * (place - x0) / (x1 - x0)


def _first(pair: tuple[Fraction, Fraction]) -> Fraction:
    return pair[0]
