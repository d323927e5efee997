"""A law on a grid of losses that a profile, known at the grid's points, proves.

With a = e^epsilon, the profile of a law whose losses lie on a grid is linear in a
between the grid's points. So the lower hull of upper bounds at these points is the
profile of such a law, and nowhere below the truth (connecting the dots, Doroshenko et
al. 2022; docs/proofs/numerical_accounting.md, section 11). The hull of lower bounds,
all losses lowered by one step, is nowhere above it.
"""

from __future__ import annotations

import math

import numpy as np

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting import _trade_off
from fastdp.accounting._pld.distribution import GridLosses
from fastdp.accounting._pld.losses import Floats, U
from fastdp.exceptions import ParameterError, UnsupportedEventError

#: Losses above 0 that a grid has about, unless it is told.
_LOSSES = 2000

#: Roundings by which probabilities may add up to more than 1.
_NEAR_ONE = 1e-9

#: What recomputed divergences of a law may be off by, relatively and per point.
_ROUNDING = 32 * U


def grid_step(interval: Real | None, end: float) -> float:
    """Return the distance of losses up to `end`, as a double."""
    if interval is None:
        return math.exp2(math.ceil(math.log2(end / _LOSSES)))
    step = float(_validate.positive("interval", interval))
    if not 0 < step <= end:
        raise ParameterError(
            f"interval must be at most the largest loss, {end:.6g}, got {interval!r}"
        )
    return step


def law_of(steep: Floats, flat: Floats, step: float, pessimistic: bool) -> GridLosses:
    """Return the law on the grid that two profiles give, above or below."""
    law = law_above if pessimistic else law_below
    mass, infinite = law(steep, flat, step)
    kept = np.flatnonzero(mass)
    if kept.size == 0:  # all is lost: one loss without mass
        kept = np.array([mass.size // 2])
    first = -(steep.size - 1) - (0 if pessimistic else 1) + int(kept[0])
    return GridLosses(
        lower_index=first,
        probabilities=mass[kept[0] : kept[-1] + 1],
        infinity_mass=infinite,
    )


def law_above(steep: Floats, flat: Floats, step: float) -> tuple[Floats, float]:
    """Return probabilities at -n .. n steps, and at infinity, of a worse law.

    Parameters
    ----------
    steep, flat : ndarray of float64, shape (n + 1,)
        Upper bounds of delta at 0, step .. n step, of the direction and of the other.
    step : float
        Distance of the losses.
    """
    start = max(steep[0], flat[0])
    right, infinite = _side(np.append(start, steep[1:]), step, 1)
    left, missing = _side(np.append(start, flat[1:]), step, 1)
    losses = step * np.arange(1, right.size + 1)
    whole = np.concatenate([(left * np.exp(-losses))[::-1], [0.0], right])
    rest = 1 - math.fsum([*whole.tolist(), infinite])
    whole[right.size] = max(rest, 0.0)
    _take_off(whole, -rest)
    _raise_losses(whole, step, 1 - missing)
    _complete(whole, infinite)
    return whole, infinite


def law_below(steep: Floats, flat: Floats, step: float) -> tuple[Floats, float]:
    """Return probabilities at -n - 1 .. n - 1 steps, and at infinity, of a better law.

    Parameters
    ----------
    steep, flat : ndarray of float64, shape (n + 1,)
        Lower bounds of delta, as of `law_above`.
    step : float
        Distance of the losses.
    """
    start = min(steep[0], flat[0])
    right, infinite = _side(np.append(start, steep[1:]), step, -1)
    left, _ = _side(np.append(start, flat[1:]), step, -1)
    losses = step * np.arange(1, right.size + 1)
    whole = np.concatenate([(left * np.exp(-losses))[::-1], [0.0], right])
    rest = 1 - math.fsum([*whole.tolist(), infinite])
    if rest < -_NEAR_ONE:  # the two sides' hulls are not one convex curve
        raise UnsupportedEventError(
            "the two profiles' lower hulls must fit together at epsilon 0, which a "
            "smaller interval may help"
        )
    whole[right.size] = max(rest, 0.0)
    _take_off(whole[::-1], -rest)
    return whole, infinite


def _side(delta: Floats, step: float, sign: int) -> tuple[Floats, float]:
    """Return masses at step .. n step, and at infinity, that have this profile.

    By rounding the profile of what is returned is above it, for sign 1, or below.
    """
    edges = np.exp(step * np.arange(delta.size))
    if sign > 0:  # delta does not grow
        delta = np.minimum.accumulate(delta)
    else:
        delta = np.maximum.accumulate(delta[::-1])[::-1]
    delta = np.interp(edges, *_trade_off.hull(edges, delta))
    fall = np.append(delta[:-1] - delta[1:], 0.0)
    mass = fall[:-1] / -math.expm1(-step) - fall[1:] / math.expm1(step)
    mass, infinite = np.maximum(mass, 0.0), float(delta[-1])
    found = _profile(mass, infinite, step)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(delta > 0, delta / found, 1.0)
    ratio = ratio[np.isfinite(ratio)]
    off = _ROUNDING * (delta.size + 8)
    if sign > 0:
        scale = max(1.0, float(ratio.max(initial=1.0))) * (1 + off)
    else:
        scale = min(1.0, float(ratio.min(initial=1.0))) * (1 - off)
    return mass * scale, infinite * scale


def _profile(mass: Floats, infinite: float, step: float) -> Floats:
    """Return delta at 0, step .. n step of masses at step .. n step; all is added."""
    near, far = -math.expm1(-step), math.exp(-step)
    beyond = gain = 0.0
    result = [infinite]
    for value in mass[::-1].tolist():
        beyond += value
        gain = near * beyond + far * gain
        result.append(gain + infinite)
    return np.array(result[::-1])


def _take_off(mass: Floats, excess: float) -> None:
    """Take what exceeds a total of 1 off the first masses."""
    for i in range(mass.size):
        if excess <= 0:
            return
        part = min(excess, float(mass[i]))
        mass[i] -= part
        excess -= part


def _raise_losses(mass: Floats, step: float, most: float) -> None:
    """Move mass up by one step until the mass under Q is at most that."""
    middle = mass.size // 2
    other = np.exp(-step * (np.arange(mass.size) - middle))
    over = math.fsum((mass * other).tolist()) * (1 + 4 * U) + 64 * U - most
    if over <= 0:
        return
    i = int(np.argmax(mass[:-1]))
    part = min(float(mass[i]), over / (float(other[i]) * -math.expm1(-step)))
    mass[i] -= part
    mass[i + 1] += part


def _complete(mass: Floats, infinite: float) -> None:
    """Make the probabilities add up to 1 or a little more, never to less.

    What exceeds 1 is below the last digit of the largest, and is taken off the lowest
    losses by who reads them.
    """
    i = int(np.argmax(mass))
    for _ in range(4):
        rest = 1 - math.fsum([*mass.tolist(), infinite])
        if rest <= 0:
            return
        mass[i] = math.nextafter(mass[i] + rest, math.inf)
