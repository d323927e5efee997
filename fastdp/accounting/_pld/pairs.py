"""Dominating pairs, in both directions, from the numbers that facts state.

If only a guarantee is known, the pair dominates every mechanism with this guarantee
(docs/proofs/numerical_accounting.md, section 1).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fastdp._validate import float_up
from fastdp.accounting import _grid_noise, _skellam
from fastdp.accounting._numeric import log_fraction
from fastdp.accounting._pld.discrete_gaussian import DiscreteGaussianLoss
from fastdp.accounting._pld.families import (
    PURE,
    AtomFamily,
    BoundedFamily,
    DiscreteGaussianFamily,
    Family,
    GaussianFamily,
    IntervalFamily,
    LooseFamily,
    Step,
    between,
    loosened,
    two_points,
)
from fastdp.accounting._pld.listed_loss import AtomLoss, Atoms
from fastdp.accounting._pld.losses import Floats, U, numbers
from fastdp.accounting.events._privacy_loss import total

_ZERO = Fraction(0)

#: Count a law as mirrored if the masses of losses l and -l have the ratio e^l within
#: this relative error.
_MIRRORED = 8e-15

#: Count smaller sampling rates as this one, for upper bounds.
_LEAST_RATE = Fraction(1, 10**18)

#: From this standard deviation on, bound discrete noise by Gaussian laws around it.
_EXACT = 1 << 20

#: Most atoms of one law.
_MOST_ATOMS = numbers(512)

#: Ignore lattice units finer than the losses' range/_FINEST.
_FINEST = 1 << 22


def poisson(family: Family, rate: Fraction) -> Step:
    """Return the step of a Poisson sample."""
    return family.step() if rate == 1 else _sampled(family, rate)


def subset(family: Family, rate: Fraction) -> Step:
    """Return the step of a subset of fixed size with one record replaced.

    No mechanism attains this law's profile at every epsilon. If the mechanism ignores
    the new record, it attains a Poisson sample's profile, which gives lower bounds.
    """
    if rate == 1:
        return family.step()
    return between(_sampled(family, rate, True), _sampled(family, rate))


def _sampled(family: Family, rate: Fraction, fixed: bool = False) -> Step:
    """Return a sample's step; tiny rates count as `_LEAST_RATE`."""
    if rate >= _LEAST_RATE:
        return family.sampled(rate, fixed)
    step = family.sampled(_LEAST_RATE, fixed)  # it contains the sample
    return Step(loosened(step.removal), loosened(step.addition), step.rho)


def gaussians(parts: Sequence[tuple[Family, int]]) -> Family | None:
    """Return the family of a composition of only Gaussian families, else None."""
    square = Fraction(0)
    for family, count in parts:
        if not isinstance(family, GaussianFamily):
            return None
        square += count * family.square
    return GaussianFamily(square)


def pure_group(epsilon: Fraction, size: int) -> Family:
    """Return the exact pair of a group of `size`, each epsilon-private.

    Tests of chains of `size` steps have at most the power g(g(..)), where g is the
    power for randomized response; one chain attains this power (section 1). The losses
    are i epsilon, i = -size, 2 - size, .., size.
    """
    whole = two_points(size * epsilon)
    if size == 1 or not isinstance(whole, AtomFamily) or epsilon == 0:
        return whole
    steps = np.arange(-size, size + 1, 2, dtype=np.float64)
    e = float(epsilon)
    # P of the largest loss is that of one member's; of the loss i epsilon between the
    # ends, (e^epsilon - 1)/(e^epsilon + 1) e^(epsilon (i - size)/2).
    masses = math.tanh(e / 2) * np.exp(e * (steps - size) / 2)
    masses[-1] = 1 / (1 + math.exp(-e))
    masses[0] = masses[-1] * math.exp(-size * e)
    masses = np.maximum(masses, 5e-324)
    law = Atoms(e * steps, masses, blur=2 * U * e * size)
    return AtomFamily(law, law, whole.rho, unit=epsilon)


def three_points(p: Fraction, q: Fraction, unit: Fraction, rho: Fraction) -> Family:
    """Return losses ln(p/q), 0 and -ln(p/q); `unit` is that logarithm, rounded up."""
    if p > q and not PURE[0] <= unit <= PURE[1]:
        return BoundedFamily(rho)
    rest = 1 - p - q
    masses = {-1: q, 0: rest, 1: p} if rest > 0 else {-1: q, 1: p}
    values = tuple(float(mass) for mass in masses.values())
    loss = AtomLoss(unit, tuple(masses), values) if p > q else None
    losses = float(unit) * np.array(list(masses), float)
    law = Atoms(losses, np.array(values), blur=U * float(unit))
    return AtomFamily(law, law, rho, loss)


def laplace(epsilon: Fraction, rho: Fraction, least: Family | None = None) -> Family:
    """Return the pair of Laplace noise."""
    return _interval(epsilon, rho, True, least)


def noisy_choice(epsilon: Fraction, rho: Fraction) -> Family:
    """Return the Laplace pair, with the pair of a choice of two candidates below it.

    The two scores are exchanged: before and after, the worse candidate is chosen with
    probability e^(-epsilon/2)/2.
    """
    odds = math.log1p(2 * math.expm1(float(min(epsilon, Fraction(600))) / 2))
    return laplace(epsilon, rho, two_points(Fraction(odds * (1 - 1e-14))))


def bounded_range(epsilon: Fraction, rho: Fraction) -> Family:
    """Return the pair above bounded range, and randomized response below it."""
    return _interval(epsilon, rho, False, two_points(epsilon / 2))


def _interval(
    epsilon: Fraction, rho: Fraction, ends: bool, least: Family | None
) -> Family:
    known = least is None or isinstance(least, AtomFamily)
    if not known or not PURE[0] <= epsilon <= PURE[1]:
        return BoundedFamily(rho)
    return IntervalFamily(epsilon, rho, ends, least)


def discrete_gaussian(
    norm: int,
    variance: Fraction,
    moved: int,
    mus: tuple[Fraction, Fraction] | None,
) -> Family:
    """Return the exact pair of one coordinate, or enclosing Gaussian pairs for several.

    `norm` is the largest squared shift, `moved` the maximum number of changed
    coordinates, and `mus` are the mu of Gaussian laws below and above the law, if
    known.
    """
    around = None
    if mus is not None:
        around = GaussianFamily(mus[1] ** 2, mus[0] ** 2)
    if moved == 1 and variance < _EXACT**2:
        shift = math.isqrt(norm)
        rho = shift * shift / (2 * variance)
        if PURE[0] ** 2 <= shift * shift / variance <= PURE[1] ** 2:
            loss = DiscreteGaussianLoss(shift, variance)
            fine = variance >= _grid_noise.FINE**2
            return DiscreteGaussianFamily(loss, rho, around if fine else None)
    return BoundedFamily(norm / (2 * variance)) if around is None else around


def _response_masses(shift: int, rate: float) -> Floats:
    """Return the masses of noise x clipped to 0..shift, for discrete Laplace noise."""
    x = np.arange(1, shift, dtype=np.float64)
    total = 1 + math.exp(-rate)
    # P(X <= 0) = 1/(1 + e^-a), P(X = x) = (1 - e^-a)/(1 + e^-a) e^(-a x).
    inner = -math.expm1(-rate) * np.exp(-rate * x) / total
    return np.concatenate([[1 / total], inner, [math.exp(-rate * shift) / total]])


def discrete_laplace(shift: int, rate: Fraction, rho: Fraction) -> Family:
    """Return losses rate (shift - 2x), x in 0..shift, with noise beyond at the ends."""
    if not PURE[0] <= rate * shift <= PURE[1]:
        return BoundedFamily(rho)
    if shift > _MOST_ATOMS:
        below, above = rate * shift, _grid_noise.laplace_epsilon(shift, rate)
        least = IntervalFamily(below, rho)
        if float(above) == float(below):
            return least
        return IntervalFamily(above, rho, least=least, alone=False)
    masses = np.maximum(_response_masses(shift, float(rate))[::-1], 5e-324)
    return _lattice(shift, rate, masses, Fraction(0), rho)


def skellam(variance: Fraction, shift: int, rho: Fraction | None) -> Family | None:
    """Return the exact pair of one coordinate, or None if it has too many losses."""
    if not PURE[0] ** 2 <= shift * shift / variance <= PURE[1] ** 2:
        return None
    found = _skellam.losses(variance, shift)
    if found is None:
        return None
    losses, masses, tail = found
    error = 4 * U * (1 + float(np.abs(losses).max()))
    law = Atoms(losses, masses, Fraction(tail), tail, error, _ZERO, tail)
    return AtomFamily(law, law, rho)


def _lattice(
    shift: int, rate: Fraction, masses: Floats, lost: Fraction, rho: Fraction
) -> Family:
    """Return the symmetric family of losses rate (2x - shift), x in 0..shift."""
    losses = float(rate) * np.arange(-shift, shift + 1, 2, dtype=np.float64)
    law = Atoms(losses, masses, lost, float(lost), 2 * U * float(rate * shift))
    return AtomFamily(law, law, rho, unit=rate)


def truncated(
    shift: int, rate: Fraction, bound: int, lost: Fraction, rho: Fraction
) -> Family | None:
    """Return losses rate (shift - 2x) where both laws have mass, otherwise infinity.

    Return None if there are too many.
    """
    if shift > _MOST_ATOMS or not PURE[0] <= rate * shift <= PURE[1]:
        return None
    a = float(rate)
    masses = _response_masses(shift, a)[::-1]
    # Both laws reach bound - shift integers beyond the two centers.
    masses[[0, -1]] *= -math.expm1(-a * (bound - shift + 1))
    masses = np.maximum(masses * float(1 - lost) / masses.sum(), 5e-324)
    return _lattice(shift, rate, masses, lost, rho)


Knots = list[tuple[Fraction, Fraction]]
Law = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]


def given(one: Law, other: Law | None, oriented: bool = True) -> Family:
    """Return the family of given laws; if `other` is None, it follows from `one`.

    If not `oriented`, each of several steps may have its datasets in either order.
    """
    removal = _atoms_of(*one)
    if other is None:
        addition = removal.exchanged()
    else:
        addition = removal if one == other else _atoms_of(*other)
    unit = _unit([*one[0], *(() if other is None else other[0])])
    family = AtomFamily(removal, addition, unit=unit)
    if oriented or addition is removal:
        return family
    if other is None and one[0] == tuple(-loss for loss in reversed(one[0])):
        ratio = addition.masses / removal.masses
        if removal.lost == 0 and (np.abs(ratio - 1) <= _MIRRORED).all():
            blur = removal.blur + 2 * _MIRRORED
            law = replace(removal, lost=addition.lost, sure=Fraction(0), blur=blur)
            return AtomFamily(law, law, unit=unit)
    return LooseFamily(_unordered(one, other), family)


def _unordered(one: Law, other: Law | None) -> AtomFamily:
    """Return the pair of the largest convex function below both trade-off functions.

    It dominates both laws, and its law is valid for either order of the datasets.
    """
    knots = _knots_below(*one)
    knots += [(f, x) for x, f in knots] if other is None else _knots_below(*other)
    hull: Knots = []
    for knot in sorted({*knots, (Fraction(1), _ZERO)}):
        while len(hull) > 1 and _turns_down(hull[-2], hull[-1], knot):
            hull.pop()
        hull.append(knot)
    return of_knots(hull)


def _knots_below(losses: tuple[Fraction, ...], masses: tuple[Fraction, ...]) -> Knots:
    """Return points below a law's trade-off function, one below each knot.

    Masses under P are rounded up, those under Q down, to doubles.
    """
    values = np.array(losses, dtype=np.float64)
    p = np.nextafter(np.array(masses, dtype=np.float64), np.inf)
    level = np.log(p)
    q = np.exp(level - values - 4 * U * (4 + np.abs(values) + np.abs(level)))
    x, f = _ZERO, 1 - Fraction(float_up(1 - total(masses)))
    knots = [(x, max(f, _ZERO))]
    for fall, run in zip(p[::-1].tolist(), q[::-1].tolist(), strict=True):
        x, f = x + Fraction(run), f - Fraction(fall)
        if x >= 1:
            break
        knots.append((x, max(f, _ZERO)))
    return knots


def _turns_down(
    a: tuple[Fraction, Fraction],
    b: tuple[Fraction, Fraction],
    c: tuple[Fraction, Fraction],
) -> bool:
    """Return whether b is not below the line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) <= (b[1] - a[1]) * (c[0] - a[0])


def _atoms_of(losses: tuple[Fraction, ...], masses: tuple[Fraction, ...]) -> Atoms:
    values = np.array(losses, dtype=np.float64)
    weights = np.maximum(np.array(masses, dtype=np.float64), 5e-324)
    lost, largest = 1 - total(masses), float(np.abs(values).max())
    other = 1 - math.fsum(np.exp(np.log(weights) - values))
    # Allow for rounding, also where the masses of Q add up to more than 1.
    slack = 4 * U * (4 + largest)
    other = max(0.0, other) + slack
    return Atoms(values, weights, lost, other, U * largest, slack=2 * slack)


def _unit(losses: list[Fraction]) -> Fraction | None:
    """Return a number that divides all losses; None if it is too fine."""
    scale = math.lcm(*{loss.denominator for loss in losses})
    if scale.bit_length() > 4096:
        return None
    unit = Fraction(math.gcd(*(int(loss * scale) for loss in losses)), scale)
    return unit if 0 < max(map(abs, losses)) < _FINEST * unit else None


def trade_off(x: tuple[Fraction, ...], f: tuple[Fraction, ...]) -> Family:
    """Return the pair of max(f, f^-1), a bound for either order of the datasets."""
    return of_knots(_symmetrized(x, f))


def of_knots(knots: Knots) -> AtomFamily:
    """Return the pair of a trade-off function that holds in either order.

    A linear piece of width p on which f falls by q has mass p under Q and q under P.
    Only P has the mass 1 - f(0), and only Q the width on which f = 0.
    """
    pieces = [(x1 - x0, f0 - f1) for (x0, f0), (x1, f1) in itertools.pairwise(knots)]
    both = [(p, q) for p, q in pieces if q > 0]
    lost = 1 - knots[0][1]
    losses = np.array([log_fraction(q / p) for p, q in both][::-1])
    masses = np.array([float(q) for _, q in both][::-1])
    blur = 4 * U * float(np.abs(losses).max(initial=0.0))
    other = 1 - min((x for x, f in knots if f == 0), default=Fraction(1))
    law = Atoms(losses, masses, lost, float_up(other), blur)
    return AtomFamily(law, law)


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
