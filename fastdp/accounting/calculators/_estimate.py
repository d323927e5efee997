"""Solvers for `dp_sgd`: a starting estimate, and searches for roots.

The estimate approximates the cost of sampled Gaussian noise: the integral that
`PLDAccountant` certifies, for the removal of a record, with few nodes. It is not a
bound, and no returned value depends on its accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp.exceptions import CalibrationError

__all__ = ["NEAR", "estimated_log_delta", "largest_count", "root_below", "root_near"]

_Floats: TypeAlias = npt.NDArray[np.float64]

#: Nodes of the contour, and how many standard deviations its period spans.
_NODES, _PERIOD = 64, 24.0
#: Most nodes of one step's law.
_MOST = 4000
#: Accept a root if its value is below _CLOSE in size. Below _NOISE, stop if a step no
#: longer helps: the value may be only noise.
_CLOSE, _NOISE = 1e-6, 1e-2
#: ln(delta) may end this far below its target.
NEAR = 1e-5
#: ln of the noise multipliers between which a root is searched.
_LEAST_SIGMA, _LARGEST_SIGMA = math.log(0.05), math.log(1e6)


@np.errstate(all="ignore")
def estimated_log_delta(
    rate: float, sigma: float, steps: float, epsilon: float
) -> float:
    """Return about ln(delta(epsilon)) of steps of sampled Gaussian noise.

    Parameters
    ----------
    rate : float
        Sampling probability, > 0 and <= 1.
    sigma : float
        Standard deviation of the noise for sensitivity 1, > 0.
    steps : float
        Number of steps, > 0, not necessarily whole.
    epsilon : float
        > 0.

    Returns
    -------
    float
        NaN if no estimate was found.
    """
    theta = _saddle_guess(rate, sigma, steps, epsilon)
    low, high = 0.0, math.inf
    for _ in range(30):
        law = _tilted(rate, sigma, theta)
        if law is None:
            high, theta = theta, theta / 4
            continue
        loss, mass, moment = law
        total = float(mass.sum())
        mean = float(mass @ loss) / total
        variance = float(mass @ (loss * loss)) / total - mean * mean
        slope = steps * mean - epsilon - 1 / theta - 1 / (theta + 1)
        bend = steps * variance + theta**-2 + (theta + 1) ** -2
        low, high = (low, theta) if slope > 0 else (theta, high)
        if slope * slope < 0.02 * bend:
            break
        moved = theta - slope / bend
        if slope * slope > 4 * bend:  # far away moments may grow without bound
            moved = min(0.75 * theta, moved) if slope > 0 else min(moved, 1.6 * theta)
        if not low < moved < high:
            moved = math.sqrt(max(low, theta / 4) * min(high, 4 * theta))
        theta = moved
    else:
        return math.nan
    step = 2 * math.pi / (_PERIOD * math.sqrt(bend))
    y = step * np.arange(1, _NODES)
    # (no matrix product: for one so small a library's threads may cost milliseconds)
    turned = np.exp(np.multiply.outer(1j * y, loss - mean)) * (mass / total)
    turned = turned.sum(axis=1)
    z = theta + 1j * y
    with np.errstate(divide="ignore"):
        power = np.exp(steps * np.log(turned) + 1j * y * (steps * mean - epsilon))
    whole = 0.5 / (theta * (theta + 1)) + float((power / (z * (z + 1))).real.sum())
    if not whole > 0:
        return math.nan
    return steps * moment - theta * epsilon + math.log(whole * step / math.pi)


def _saddle_guess(rate: float, sigma: float, steps: float, epsilon: float) -> float:
    """Return roughly the best order, from Gaussian privacy."""
    square = steps * rate * rate * math.expm1(min(sigma**-2, 50.0))
    square = max(min(square, steps * sigma**-2), 1e-300)
    away = (epsilon - square / 2) / 2
    return (away + math.sqrt(away * away + square)) / square


def _tilted(
    rate: float, sigma: float, theta: float
) -> tuple[_Floats, _Floats, float] | None:
    """Return losses, masses tilted by theta, and ln of the moment at theta."""
    s = sigma
    h = min(s, 1.5 * s * s) / 2.5
    count = (14 * s + 2 + theta) / h
    if not count < _MOST:
        return None
    x = -7 * s + h * np.arange(int(count))
    u = (2 * x - 1) / (2 * s * s)
    near = np.log1p(rate * np.expm1(np.minimum(u, 30.0)))
    loss = np.where(u > 30, u + math.log(rate), near)
    log_weight = -x * x / (2 * s * s) + math.log(h / (s * math.sqrt(2 * math.pi)))
    power = (1 + theta) * loss
    top = float(np.max(power + log_weight))
    mass = np.exp(power + log_weight - top)
    if top > 20:
        return loss, mass, top + math.log(float(mass.sum()))
    # E r^(1 + theta) - 1 without cancellation, the mean of r being 1
    excess = np.exp(log_weight) @ (np.expm1(power) - (1 + theta) * np.expm1(loss))
    return loss, mass, math.log1p(float(excess))


def root_near(
    function: Callable[[float], float], guess: float, slope: float
) -> tuple[float, float] | None:
    """Return an approximate root of a function and its slope there, or None.

    Parameters
    ----------
    function : callable
        A function of a number > 0.
    guess : float
        > 0.
    slope : float
        About d function/d ln(number) at the guess; the returned slope is of the same
        kind.
    """
    x, value = math.log(guess), function(guess)
    for _ in range(12):
        if not math.isfinite(value) or slope == 0:
            return None
        if abs(value) < _CLOSE:
            break
        moved = x + max(-0.7, min(0.7, -value / slope))
        found = function(math.exp(moved))
        if not math.isfinite(found):
            return None
        if moved != x and found != value:
            slope = (found - value) / (moved - x)
        noisy = abs(found) > abs(value) / 4 and abs(value) < _NOISE
        x, value = moved, found
        if noisy:
            break
    else:
        return None
    return math.exp(x), slope


def root_below(
    excess: Callable[[float], float], guess: float, slope: float, near: float = NEAR
) -> float | None:
    """Return a point at which `excess` is just below 0, by at most `near`.

    A step by the given slope, a secant, then inverse interpolation in three points.
    """
    x = math.log(guess)
    seen: list[tuple[float, float]] = []  # (excess + NEAR/2, logarithm)
    for _ in range(12):
        value = excess(math.exp(x))
        if -near <= value <= 0:
            return math.exp(x)
        seen = [*seen[-2:], (value + near / 2, x)]
        if not math.isfinite(value) or len({f for f, _ in seen}) < len(seen):
            return None
        if len(seen) == 1:
            goal = x - seen[0][0] / slope
        else:
            goal = sum(
                place * math.prod(-g / (f - g) for g, _ in seen if g != f)
                for f, place in seen
            )
        x += max(-0.5, min(0.5, goal - x))
        if not _LEAST_SIGMA <= x <= _LARGEST_SIGMA:
            return None
    return None


def largest_count(
    name: str, excess: Callable[[int], float], guess: float, most: int, slope: float
) -> int:
    """Return the largest k in 1 ... most with excess(k) <= 0; excess grows with k.

    The search goes outward from a guess, then interpolates and halves in ln k; `slope`
    is about d excess/d ln(k).
    """
    k = int(min(max(guess, 1.0), float(most)))
    low, high, at_low, at_high, turn, reach = 0, most + 1, 0.0, 0.0, 0, 1.2
    while high - low > 1:
        value = excess(k)
        if value <= 0:
            low, at_low = k, value
        else:
            high, at_high = k, value
        turn += 1
        if low == 0 or high > most:  # only one side was seen
            jump = max(-reach, min(reach, -reach * value / max(slope, 1e-3)))
            k, reach = int(min(k * math.exp(min(jump, 300.0)), 1e300)), 2 * reach
        else:
            share = at_low / (at_low - at_high) if turn % 3 else 0.5
            k = round(low * (high / low) ** share)
        k = min(max(k, low + 1), high - 1)
    if low == 0:
        raise CalibrationError(f"{name} must be >= 1, but even 1 exceeds the target")
    return low
