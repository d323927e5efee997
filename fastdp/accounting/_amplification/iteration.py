"""Noisy iterations that release only the last iterate: the best payment for shifts.

X_t = phi_t(X_(t-1)) + noise of sigma_t, phi_t c_t-Lipschitz, on two datasets whose
phi_t are at most s_t apart. Any payments a_t >= 0 that never exceed the shifts so far,

    z_t = c_t z_(t-1) + s_t - a_t >= 0, z_T = 0,

give Gaussian privacy with mu^2 = sum a_t^2/sigma_t^2 (docs/proofs/amplification.md,
section 2). In units of the distance at the end, the sums of a may not exceed the sums
of s, and the best path is the greatest convex minorant of the points (sum of sigma^2,
sum of s): exact in rationals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting._numeric import shortened_up, sqrt_up
from fastdp.accounting.events import (
    GDPEvent,
    NeighboringRelation,
    Relation,
    as_relation,
)
from fastdp.exceptions import DTypeError, ParameterError

__all__ = [
    "contractive_iteration",
    "gradient_contraction",
    "noisy_gradient_descent",
    "noisy_sgd",
]

_MOST_STEPS = 100_000


def contractive_iteration(
    *,
    shifts: Sequence[Real],
    sigmas: Sequence[Real],
    contractions: Sequence[Real] | None = None,
    diameter: Real | None = None,
    last_iterate_only: bool,
    neighboring_relation: Relation = NeighboringRelation.REPLACE_ONE,
) -> GDPEvent:
    """Return the event of noisy contractive iterations with only the last released.

    Parameters
    ----------
    shifts : sequence of numbers
        Largest distance between the two datasets' maps at one point, for each step, >=
        0; at least one is > 0.
    sigmas : sequence of numbers
        Standard deviation of each step's Gaussian noise (in every coordinate), > 0.
    contractions : sequence of numbers, optional
        Lipschitz constant of each step's map, >= 0 and at most 1; None: all are 1.
    diameter : number, optional
        Diameter, > 0, of the convex set that all iterates are projected to, if any.
    last_iterate_only : bool
        Must be True: only the last iterate is released.
    neighboring_relation : NeighboringRelation
        The relation for which the shifts hold.

    Returns
    -------
    GDPEvent
        Gaussian privacy of the last iterate, rounded up.

    Raises
    ------
    ParameterError
        A condition of the theorem is not met; the message names it.

    Privacy
    -------
    Approximate for all such mechanisms, with the best way to spread the shifts over the
    steps. Both datasets start at the same point, which must not depend on the data. As
    a bound on Renyi divergences it is D_a <= a mu^2/2.

    References
    ----------
    Feldman, Mironov, Talwar, Thakurta, "Privacy Amplification by Iteration" (2018),
    Theorem 22; Altschuler, Talwar (2022) for the diameter; Bok, Su, Altschuler,
    "Shifted Interpolation for Differential Privacy" (2024).

    Examples
    --------
    The shift of a record in the first of four steps is paid in four parts:

    >>> contractive_iteration(
    ...     shifts=[1, 0, 0, 0], sigmas=[1] * 4, last_iterate_only=True
    ... )
    GDPEvent(mu=Fraction(1, 2), neighboring_relation=NeighboringRelation.REPLACE_ONE)
    """
    require_last_iterate(last_iterate_only)
    s, sd = _numbers("shifts", shifts), _numbers("sigmas", sigmas)
    c = [Fraction(1)] * len(s)
    if contractions is not None:
        c = _numbers("contractions", contractions)
    if not len(s) == len(sd) == len(c):
        raise ParameterError(
            "shifts, sigmas and contractions must have the same length"
        )
    if min(s) < 0 or max(s) == 0:
        raise ParameterError("shifts must be >= 0 and not all 0")
    if min(sd) <= 0:
        raise ParameterError("sigmas must be > 0")
    if min(c) < 0 or max(c) > 1:
        raise ParameterError(
            "contractions must be >= 0 and <= 1: the theorem is for contractive maps"
        )
    wide = None if diameter is None else _validate.positive("diameter", diameter)
    square = _least_square(s, [x * x for x in sd], c, wide)
    return _gdp(square, as_relation(neighboring_relation))


def gradient_contraction(
    *, step_size: Real, smoothness: Real, strong_convexity: Real = 0
) -> Fraction:
    """Return the Lipschitz constant of x - step_size * gradient(x), exact.

    max(|1 - eta m|, |1 - eta beta|) for a convex function with a Hessian between m and
    beta; 1 for convex functions that are only smooth.

    Parameters
    ----------
    step_size : int, float, Fraction or Decimal
        eta > 0, at most 2/smoothness.
    smoothness : int, float, Fraction or Decimal
        beta > 0: Lipschitz constant of the gradient.
    strong_convexity : int, float, Fraction or Decimal
        m >= 0, at most beta.

    Raises
    ------
    ParameterError
        The step is not contractive.

    Examples
    --------
    >>> gradient_contraction(step_size=0.5, smoothness=1, strong_convexity=0.25)
    Fraction(7, 8)
    """
    eta = _validate.positive("step_size", step_size)
    beta = _validate.positive("smoothness", smoothness)
    m = _validate.between("strong_convexity", strong_convexity, Fraction(0), beta)
    if eta * beta > 2:
        raise ParameterError(
            f"step_size must be <= 2/smoothness = {float(2 / beta):.6g} (contractive "
            f"steps), got {_validate.shown(step_size)}"
        )
    return max(abs(1 - eta * m), abs(1 - eta * beta))


def noisy_gradient_descent(
    *,
    steps: int,
    records: int,
    sigma: Real,
    step_size: Real,
    lipschitz: Real,
    smoothness: Real,
    strong_convexity: Real = 0,
    diameter: Real | None = None,
    last_iterate_only: bool,
) -> GDPEvent:
    """Return the event of the last iterate of projected noisy gradient descent.

    x <- project(x - step_size (mean gradient + sigma * normal noise)).

    Parameters
    ----------
    steps : int
        Number of steps, >= 1.
    records : int
        Number of records in the mean, >= 1; public.
    sigma : int, float, Fraction or Decimal
        Standard deviation of the noise on the mean gradient, > 0.
    step_size, smoothness, strong_convexity
        As in `gradient_contraction`; for every record's loss.
    lipschitz : int, float, Fraction or Decimal
        Largest norm of a record's gradient, > 0. (A clipped gradient is not a gradient,
        and the theorem does not hold for it.)
    diameter : int, float, Fraction or Decimal, optional
        Diameter of the convex set that iterates are projected to; with it, steps beyond
        some number cost nothing.
    last_iterate_only : bool
        Must be True: only the last iterate is released.

    Returns
    -------
    GDPEvent
        The event if one record is replaced.

    Raises
    ------
    ParameterError
        A condition of the theorem is not met.

    Examples
    --------
    With a diameter, a thousand steps cost no more than a million:

    >>> setting = dict(sigma=1, step_size=1, lipschitz=1, smoothness=1, diameter=2)
    >>> one = noisy_gradient_descent(
    ...     steps=1000, records=10, **setting, last_iterate_only=True
    ... )
    >>> two = noisy_gradient_descent(
    ...     steps=10**6, records=10, **setting, last_iterate_only=True
    ... )
    >>> one == two, round(float(one.mu), 4)
    (True, 1.2649)
    """
    require_last_iterate(last_iterate_only)
    count = _validate.integer("steps", steps, 1)
    n = _validate.integer("records", records, 1)
    eta = _validate.positive("step_size", step_size)
    c = gradient_contraction(
        step_size=step_size, smoothness=smoothness, strong_convexity=strong_convexity
    )
    sd = eta * _validate.positive("sigma", sigma)
    shift = 2 * eta * _validate.positive("lipschitz", lipschitz) / n
    wide = None if diameter is None else _validate.positive("diameter", diameter)
    square = _constant_square(count, shift, sd * sd, c, wide)
    return _gdp(square, NeighboringRelation.REPLACE_ONE)


def noisy_sgd(
    records: int,
    *,
    record: int | None = None,
    passes: int,
    sigma: Real,
    step_size: Real,
    lipschitz: Real,
    smoothness: Real,
    strong_convexity: Real = 0,
    diameter: Real | None = None,
    last_iterate_only: bool,
) -> GDPEvent:
    """Return the event of projected noisy SGD with a fixed order of records.

    x <- project(x - step_size (gradient of one record + sigma * normal noise)), record
    after record, `passes` times in the same order; the last iterate is released.

    Parameters
    ----------
    records : int
        Number of records, >= 1; public.
    record : int, optional
        Place of the record, 1 ... records in the order of use; None: the last record,
        which has the least privacy.
    passes : int
        Number of passes over the records, >= 1.
    sigma : int, float, Fraction or Decimal
        Standard deviation of the noise on each gradient, > 0.
    step_size, lipschitz, smoothness, strong_convexity, diameter, last_iterate_only
        As in `noisy_gradient_descent`.

    Returns
    -------
    GDPEvent
        The event if this record is replaced: mu = 2 lipschitz/(sigma sqrt(n - t + 1))
        for record t in one pass of convex losses.

    Raises
    ------
    ParameterError
        A condition of the theorem is not met.

    References
    ----------
    Feldman, Mironov, Talwar, Thakurta (2018), Theorem 23.

    Examples
    --------
    >>> setting = dict(sigma=1, step_size=0.1, lipschitz=1, smoothness=1)
    >>> noisy_sgd(100, passes=1, record=1, **setting, last_iterate_only=True).mu
    Fraction(1, 5)
    >>> noisy_sgd(100, passes=1, **setting, last_iterate_only=True).mu
    Fraction(2, 1)
    """
    require_last_iterate(last_iterate_only)
    n = _validate.integer("records", records, 1)
    t = _validate.integer("record", n if record is None else record, 1, n)
    times = _validate.integer("passes", passes, 1)
    if n * times > _MOST_STEPS:
        raise ParameterError(
            f"records * passes must be <= {_MOST_STEPS}, got {n * times}"
        )
    eta = _validate.positive("step_size", step_size)
    c = gradient_contraction(
        step_size=step_size, smoothness=smoothness, strong_convexity=strong_convexity
    )
    variance = (eta * _validate.positive("sigma", sigma)) ** 2
    shift = 2 * eta * _validate.positive("lipschitz", lipschitz)
    wide = None if diameter is None else _validate.positive("diameter", diameter)
    steps = n * times
    shifts = [shift if i % n == t - 1 else Fraction(0) for i in range(steps)]
    square = _least_square(shifts, [variance] * steps, [c] * steps, wide)
    return _gdp(square, NeighboringRelation.REPLACE_ONE)


# ---- the best payment of shifts ------------------------------------------------------


def _gdp(square: Fraction, relation: NeighboringRelation) -> GDPEvent:
    return GDPEvent(sqrt_up(shortened_up(square)), neighboring_relation=relation)


def require_last_iterate(last_iterate_only: bool) -> None:
    """Raise an error that names the condition unless it is True."""
    if not isinstance(last_iterate_only, bool):
        raise DTypeError(
            f"last_iterate_only must be a bool, got {type(last_iterate_only).__name__}"
        )
    if not last_iterate_only:
        raise ParameterError(
            "last_iterate_only must be True: if other iterates are "
            "released, charge each step in full with an accountant"
        )


def _numbers(name: str, values: Sequence[Real]) -> list[Fraction]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise DTypeError(
            f"{name} must be a sequence of numbers, got {type(values).__name__}"
        )
    if not 1 <= len(values) <= _MOST_STEPS:
        raise ParameterError(f"{name} must have 1 to {_MOST_STEPS} numbers")
    return [_validate.exact(name, value) for value in values]


def _least_square(
    shifts: list[Fraction],
    variances: list[Fraction],
    contractions: list[Fraction],
    diameter: Fraction | None,
) -> Fraction:
    """Return the least sum of a_t^2/sigma_t^2, or a little more.

    With a diameter, the runs may be assumed equal up to any step if the diameter is
    charged as their distance at this step: take the best of several steps.
    """
    forgets = [t for t, c in enumerate(contractions) if c == 0]
    if forgets:  # a constant map erases all earlier distances
        start = forgets[-1]
        shifts, variances = shifts[start:], variances[start:]
        contractions, diameter = contractions[start:], None
        if max(shifts) == 0:
            return Fraction(0)
    weights = _weights(contractions)
    rises = [w * s for w, s in zip(weights, shifts, strict=True)]
    spans = [w * w * v for w, v in zip(weights, variances, strict=True)]
    best = _minorant_square(rises, spans)
    if diameter is None:
        return best
    rough_rises, rough_spans = [float(x) for x in rises], [float(x) for x in spans]
    found = min(
        _starts(len(shifts)),
        key=lambda k: _minorant_square(
            [float(weights[k - 1] * diameter), *rough_rises[k:]],
            [0.0, *rough_spans[k:]],
        ),
        default=None,
    )
    if found is None:
        return best
    head = weights[found - 1] * diameter
    late = _minorant_square([head, *rises[found:]], [Fraction(0), *spans[found:]])
    return min(best, late)


def _starts(count: int) -> list[int]:
    """Return numbers of steps, 1 ... count - 1, that are left out at the start."""
    kept = {round(1.1**i) for i in range(200)} | set(range(1, 40))
    return sorted(count - k for k in kept if 1 <= k < count)


def _weights(contractions: list[Fraction]) -> list[Fraction]:
    """Return the share of a distance after each step that remains at the end.

    The shares are rounded up and do not grow toward earlier steps: Lipschitz constants
    may be raised, up to 1.
    """
    weights = [Fraction(1)]
    for c in contractions[:0:-1]:
        weights.append(min(weights[-1], shortened_up(weights[-1] * c, 256)))
    return weights[::-1]


_Number = TypeVar("_Number", Fraction, float)


def _minorant_square(rises: list[_Number], spans: list[_Number]) -> _Number:
    """Return the sum of dy^2/dx over the convex minorant from 0 to the last point.

    The points are the sums of spans and rises. Only the first span may be 0: its rise
    is then an initial distance, which is not a point of the path.
    """
    zero = rises[0] - rises[0]
    x, y = zero, zero
    hull = [(x, y)]
    for rise, span in zip(rises, spans, strict=True):
        x, y = x + span, y + rise
        if span == 0:
            continue
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-1][0]) >= (
            y - hull[-1][1]
        ) * (hull[-1][0] - hull[-2][0]):
            hull.pop()
        hull.append((x, y))
    total = zero
    for (x0, y0), (x1, y1) in itertools.pairwise(hull):
        total += (y1 - y0) * (y1 - y0) / (x1 - x0)
    return total


def _constant_square(
    steps: int, shift: Fraction, variance: Fraction, c: Fraction, wide: Fraction | None
) -> Fraction:
    """Return the least sum for equal steps, for which a constant slope is best."""
    best = late_square(steps, shift, variance, c, Fraction(0))
    if wide is None:
        return best
    # The best number of steps to look back at lies near wide/shift, or before.
    near = min(steps - 1, int(wide / shift) + 2)
    kept = {near - i for i in range(4)} | {int(near / 1.1**i) for i in range(200)}
    late = [
        late_square(k, shift, variance, c, wide) for k in kept if 1 <= k <= steps - 1
    ]
    return min([best, *late])


def late_square(
    steps: int, shift: Fraction, variance: Fraction, c: Fraction, wide: Fraction
) -> Fraction:
    """Return (distance at the end)^2/(noise at the end) of the last steps."""
    if c == 1:
        return (wide + shift * steps) ** 2 / (variance * steps)
    low, high = _power(c, steps)
    if high >= 1:  # it may be 1
        return late_square(steps, shift, variance, Fraction(1), wide)
    distance = wide * high + shift * (1 - low) / (1 - c)
    return distance**2 * (1 - c * c) / (variance * (1 - high * high))


def _power(c: Fraction, exponent: int) -> tuple[Fraction, Fraction]:
    """Return bounds on c^exponent for 0 <= c < 1; both exact if it has few digits."""
    if c == 0 or exponent * c.denominator.bit_length() <= 20_000:
        value = c**exponent
        return value, value
    log_value = exponent * math.log1p(float(c - 1))
    if log_value < -700:
        return Fraction(0), Fraction(1e-300)
    slop = 1e-15 * (1 - log_value) + 1e-15
    return Fraction(math.exp(log_value - slop)), Fraction(math.exp(log_value + slop))
