"""Steps of bounded range, each chosen adaptively.

All losses of such a step lie in an interval of length r; its place may depend on every
earlier answer. The worst case of k adaptive steps has a profile h_k, which a lattice
bounds from both sides (theorem 21 of docs/proofs/numerical_accounting.md). A Gaussian
loss that is added to the bound, but not to any answer, can instead absorb many steps
(theorem 20).
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from fastdp._validate import float_up
from fastdp.accounting._pld.composition import Steps
from fastdp.accounting._pld.interval_loss import LaplaceLoss
from fastdp.accounting._pld.listed_loss import ScatteredLoss, pure_loss
from fastdp.accounting._pld.losses import Floats, GaussianLoss, Indices, Loss, U

#: Lattice points in a range: at least _POINTS, more as long as all steps together have
#: at most _SHORT; never more than _SIZE in all steps.
_POINTS, _SHORT, _SIZE = 160, 2400, 9600

#: Use no lattice with fewer points in a range than this.
_LEAST_POINTS = 12

#: Most steps of one range, and their largest sum of losses, on a lattice.
_MOST, _FARTHEST = 600, 600

#: _FLOOR is added to every value, in case a product underflows; tests of a size below
#: _LEAST are left out.
_FLOOR, _LEAST = 1e-300, 1e-290

#: Largest square of a step (of half its range) that noise absorbs; the theorem's limit
#: is 6.
_LARGEST = 4.0

#: Squares of the added noise to try, as multiples of the largest square of a step.
_TRIED = (2.0, 2.5, 3.0, 4.0, 6.0)

#: Absorb no fewer steps than this, counted by squares in units of the largest one.
_FEWEST = 6.0

#: Relative allowance for roundings, which are fewer than a hundred units.
_MORE = 1 + 1e-13


def dominating(steps: Steps) -> list[Steps]:
    """Return dominating steps by each applicable rule, if any."""
    ranges = _ranges(steps)
    found = [_rest(steps) + _worst(ranges)] if _on_lattices(ranges) else []
    blurred = as_gaussian(steps)
    return found if blurred is None else [*found, blurred]


def attained(steps: Steps, least: Steps) -> Steps:
    """Return steps for lower bounds, with adaptive steps for one range.

    `least` are the nonadaptive steps for lower bounds.
    """
    ranges, counts = _ranges(steps), dict(least)
    if not ranges:
        return least
    loss, count = max(ranges, key=lambda step: step[1] * step[0].epsilon ** 2)
    half = pure_loss(loss.epsilon / 2)
    if counts.get(half, 0) < count or not _on_lattices(ranges):
        return least
    counts[half] -= count
    points = _points(count, _many(ranges))
    worst: Loss = loss if count == 1 else _laws(loss.epsilon, count, points)[1]
    return (*((one, n) for one, n in counts.items() if n), (worst, 1))


def _ranges(steps: Steps) -> list[tuple[LaplaceLoss, int]]:
    return [
        (loss, n)
        for loss, n in steps
        if isinstance(loss, LaplaceLoss) and not loss.ends
    ]


def _rest(steps: Steps) -> Steps:
    return tuple(
        (loss, n) for loss, n in steps if not isinstance(loss, LaplaceLoss) or loss.ends
    )


def _on_lattices(ranges: list[tuple[LaplaceLoss, int]]) -> bool:
    """Whether lattices are useful, and short enough for all ranges."""
    near = all(n <= _MOST and n * loss.epsilon <= _FARTHEST for loss, n in ranges)
    many = _many(ranges)
    return (
        bool(ranges)
        and near
        and all(_points(n, many) >= _LEAST_POINTS for _, n in ranges if n > 1)
    )


def _many(ranges: list[tuple[LaplaceLoss, int]]) -> int:
    """Return the number of ranges that need a lattice, at least 1."""
    return max(1, sum(n > 1 for _, n in ranges))


def _worst(ranges: list[tuple[LaplaceLoss, int]]) -> Steps:
    """Return one step for each range, with the worst-case profile of its steps."""
    many = _many(ranges)
    return tuple(
        (loss if n == 1 else _laws(loss.epsilon, n, _points(n, many))[0], 1)
        for loss, n in ranges
    )


def _points(count: int, many: int) -> int:
    """Return the number of points in a range; fewer if there are `many` lattices."""
    return min(max(_POINTS, _SHORT // count), math.isqrt(_SIZE**2 // many) // count)


# ---- theorem 21 ----------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def _laws(
    range_: Fraction, count: int, points: int
) -> tuple[ScatteredLoss, ScatteredLoss]:
    """Return laws whose profiles are above and below h_k, k = count."""
    upper, power, size = _worst_case(float(range_), count, points)
    return (
        _law_above(upper, range_ / points),
        _law_below(power, size),
    )


def _worst_case(r: float, count: int, points: int) -> tuple[Floats, Floats, Floats]:
    """Return upper bounds of h_k at l = 0, g, .. k r, and tests of adversaries there.

    Each test has a lower bound on its power and an upper bound on its size.
    """
    m, g = points, r / points
    t = g * np.arange(m + 1)
    # The loss is t with probability p under P, else t - r; and under Q.
    p, rest = np.expm1(t[::-1]) * np.exp(t) / math.expm1(r), np.expm1(t) / math.expm1(r)
    p_q, rest_q = p * np.exp(-t), rest * np.exp(t[::-1])
    slack = (64 + 8 * r) * U
    # Losses from l = -r on; values beyond the last point are 0.
    loss = g * np.arange(-m, (count + 1) * m + 1)
    upper = np.where(loss < 0, -np.expm1(np.minimum(loss, 0.0)), 0.0)
    power = np.where(loss < 0, 1.0, 0.0)
    size = power.copy()
    near = np.exp(-g * np.arange(1, m + 1))
    for k in range(1, count + 1):
        n = k * m
        here = np.arange(m, m + n)
        value, choice = _largest(upper, p, rest, n, g)
        one, other = here - choice, here - choice + m
        first, second = p[choice], rest[choice]
        power[m : m + n] = first * power[one] + second * power[other]
        first, second = p_q[choice], rest_q[choice]
        size[m : m + n] = first * size[one] + second * size[other]
        upper[m : m + n] = value * (1 + slack) + _FLOOR
        # Exchanging both laws mirrors h: h(-l) = 1 - e^-l + e^-l h(l).
        after = slice(m + 1, 2 * m + 1)
        upper[:m] = (1 - near + near * upper[after])[::-1] * (1 + 8 * U)
        power[:m], size[:m] = 1 - size[after][::-1], 1 - power[after][::-1]
    whole, more = slice(m, (count + 1) * m + 1), (count + 1) * 2 * slack
    return upper[whole], power[whole] * (1 - more), size[whole] * (1 + more)


def _largest(
    upper: Floats, p: Floats, rest: Floats, n: int, g: float
) -> tuple[Floats, Indices]:
    """Return bounds of the largest mean of h at l - t and l - t + r, at l >= 0.

    Also return the index of the best t on the lattice.
    """
    m = p.size - 1
    value: Floats = np.full(n, -1.0)
    choice: Indices = np.zeros(n, np.int64)
    for i in range(m + 1):
        mean = p[i] * upper[m - i :][:n] + rest[i] * upper[2 * m - i :][:n]
        better = mean > value
        np.copyto(value, mean, where=better)
        np.copyto(choice, i, where=better)
    most, up = value.copy(), math.exp(g)
    bend = math.sinh(g / 2) ** 2
    for i in range(m):
        # Between two t, with h on its chords, the mean is a rational curve of second
        # order: it exceeds both ends only if its middle control point does.
        x, x_less = upper[m - i :][:n], upper[m - i - 1 :][:n]
        y, y_less = upper[2 * m - i :][:n], upper[2 * m - i - 1 :][:n]
        middle = up / (1 + up) * (p[i] * x_less + rest[i] * y_less)
        middle += 1 / (1 + up) * (p[i + 1] * x + rest[i + 1] * y)
        places = np.flatnonzero(middle > value)
        if places.size:
            top = middle[places]
            left = top - (p[i] * x[places] + rest[i] * y[places])
            right = top - (p[i + 1] * x_less[places] + rest[i + 1] * y_less[places])
            half = left * right / (left + right)
            peak = top - left * right / (left + right + bend * half)
            most[places] = np.maximum(most[places], peak)
    return most, choice


def _law_above(upper: Floats, unit: Fraction) -> ScatteredLoss:
    """Return a law with the hull of these bounds, or more, as its profile."""
    g, n = float(unit), upper.size - 1
    a = np.exp(g * np.arange(n + 1.0))
    corners = _hull(a, upper)
    # At a corner the mass is a times the rise of the slope.
    fall, gap = -np.diff(upper[corners]), g * np.diff(corners)
    before, after = fall / -np.expm1(-gap), np.append(fall[1:] / np.expm1(gap[1:]), 0.0)
    masses = np.zeros(n + 1)
    masses[corners[1:]] = np.maximum(before - after, 0.0)
    # Recompute the profile at the corners, by sums of positive terms; raise all masses
    # if rounding has made it too small.
    bounds = np.zeros(n + 1)
    bounds[corners] = upper[corners]
    below, found, mass, more = math.exp(-g), 0.0, 0.0, 1.0
    pairs = zip(bounds[-2::-1].tolist(), masses[:0:-1].tolist(), strict=True)
    for bound, own in pairs:
        mass += own
        found = -math.expm1(-g) * mass + below * found
        more = max(more, bound / found)
    masses[1:] *= more * (1 + (n + 64) * 16 * U)
    falling = masses[:0:-1] / a[:0:-1]
    rest = 1 - math.fsum(masses[1:]) - math.fsum(falling)
    weights = np.concatenate([falling, [max(rest, 0.0)], masses[1:]])
    losses: Floats = g * np.arange(-n, n + 1.0)
    kept = weights > 0
    return ScatteredLoss(losses[kept], weights[kept], 4 * U * g * n, unit)


def _law_below(power: Floats, size: Floats) -> ScatteredLoss:
    """Return the law with these tests and their mirror images as best tests."""
    kept = (size >= _LEAST) & (power + size <= 1)
    x = np.concatenate([[0.0], size[kept][::-1]])
    y = np.concatenate([[0.0], power[kept][::-1]])
    corners = _hull(x, -y)
    run, rise = np.diff(x[corners]), np.diff(y[corners])
    good = (run > 0) & (rise > run)
    last = good.size if good.all() else int(np.argmin(good))
    run, rise, end = run[:last], rise[:last], corners[last]
    losses = np.log(rise / run)
    middle = 1 - x[end] - y[end]
    losses = np.concatenate([losses, [0.0], -losses[::-1]])
    masses = np.concatenate([rise, [middle * (1 - 4 * U)], run[::-1]])
    losses = np.minimum.accumulate(losses)[::-1]
    blur = 8 * U * (1 + float(np.abs(losses).max()))
    return ScatteredLoss(losses, masses[::-1], blur)


def _hull(x: Floats, y: Floats) -> list[int]:
    """Return the indices of the lower hull's corners, x ascending."""
    xs, ys = x.tolist(), y.tolist()
    found: list[int] = []
    for c in range(len(xs)):
        while len(found) > 1:
            a, b = found[-2:]
            if (ys[b] - ys[a]) * (xs[c] - xs[b]) < (ys[c] - ys[b]) * (xs[b] - xs[a]):
                break
            found.pop()
        found.append(c)
    return found


# ---- theorem 20 ----------------------------------------------------------------------


def as_gaussian(steps: Steps) -> Steps | None:
    """Return steps with noise in place of bounded range; None if that is no gain."""
    ranges = [(float_up(loss.epsilon) / 2, n) for loss, n in _ranges(steps)]
    if not ranges:
        return None
    largest = max(half * half for half, _ in ranges) * _MORE
    whole = math.fsum(n * half * half for half, n in ranges) * _MORE
    if not 1e-100 < largest <= _LARGEST or whole < _FEWEST * largest:
        return None
    square = min(_absorbed(times * largest, whole, largest) for times in _TRIED)
    return (*_rest(steps), (GaussianLoss(square * _MORE), 1))


def _absorbed(start: float, whole: float, largest: float) -> float:
    """Bound the square of noise that absorbs steps with a total square of `whole`.

    It is at least the x with x - start - m ln(x/start) = whole; Newton's method
    approaches x from above.
    """
    u = largest / start
    m = largest * u / ((1 - u) * -math.log1p(-u)) * _MORE
    x = 2 * (start + whole)
    for _ in range(60):
        over = x - start - m * math.log(x / start) - whole
        closer = x - over / (1 - m / x)
        if not closer < x * (1 - 1e-12):
            break
        x = closer
    return x * (1 + 1e-11)
