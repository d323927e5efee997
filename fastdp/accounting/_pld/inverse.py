"""Bounds of the inverse of a profile that is known, from both sides, at some points.

delta is convex and does not grow in a = e^epsilon. So it lies below the chords of its
upper bounds, and above its chords prolonged (docs/proofs/numerical_accounting.md,
section 11): both are straight in a, and crossed by the target at one place.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastdp.accounting._pld.losses import Floats, U

#: Points on either side of which chords are prolonged.
_FARTHEST = 3


def inverse_above(epsilons: Floats, upper: Floats, targets: Floats) -> Floats:
    """Return epsilons at which delta is proved to be at most the targets.

    Parameters
    ----------
    epsilons, upper : ndarray of float64, shape (n,)
        Ascending epsilons, n >= 2, and upper bounds of ln delta there.
    targets : ndarray of float64, shape (m,)
        Lower bounds of ln of what has to be met.

    Returns
    -------
    ndarray of float64, shape (m,)
        Infinity where no point meets the target.
    """
    t = targets - 8 * U * (1 + np.abs(targets))
    known = np.minimum.accumulate(upper)  # delta does not grow
    j = np.searchsorted(-known, -t)  # the first that meets it
    met = j < epsilons.size
    right = np.clip(j, 1, epsilons.size - 1)
    left = right - 1
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        before, after = np.exp(known[left] - t), np.exp(known[right] - t)
        share = (before - 1) / (before - after)
        width = epsilons[right] - epsilons[left]
        found = epsilons[left] + np.log1p(share * np.expm1(width)) * (1 + 32 * U)
    found = np.where(np.isfinite(share), found, np.inf) * (1 + 4 * U)
    found = np.minimum(found, epsilons[right])
    return np.where(met, np.where(j == 0, epsilons[0], found), np.inf)


def inverse_below(
    epsilons: Floats, lower: Floats, upper: Floats, targets: Floats
) -> Floats:
    """Return epsilons at which delta is proved to be at least the targets.

    Parameters
    ----------
    epsilons, lower, upper : ndarray of float64, shape (n,)
        Ascending epsilons, n >= 4, and bounds of ln delta there.
    targets : ndarray of float64, shape (m,)
        Upper bounds of ln of what delta is compared with.

    Returns
    -------
    ndarray of float64, shape (m,)
        0 where no point is above the target.
    """
    t = targets + 8 * U * (1 + np.abs(targets))
    known = np.maximum.accumulate(lower[::-1])[::-1]
    j = np.searchsorted(-known, -t, side="right") - 1  # the last at or above it
    best = epsilons[np.clip(j, 0, None)].copy()
    inner = (j >= 0) & (j < epsilons.size - 1)
    left = np.clip(j, 0, epsilons.size - 2)
    # Points that nearly coincide tell no slope: so some farther ones are tried as well.
    for away in range(1, _FARTHEST + 1):
        far = np.clip(left - away, 0, None)
        first = _crossing(epsilons, known, upper, left, far, t)
        far = np.clip(left + 1 + away, None, epsilons.size - 1)
        second = _crossing(epsilons, known, upper, left + 1, far, t)
        for found in (first, second):
            use = inner & (found > best) & (found <= epsilons[left + 1])
            best[use] = found[use]
    return np.where(j >= 0, np.maximum(best * (1 - 4 * U), 0.0), 0.0)


def _crossing(
    epsilons: Floats,
    lower: Floats,
    upper: Floats,
    near: npt.NDArray[np.intp],
    far: npt.NDArray[np.intp],
    t: Floats,
) -> Floats:
    """Return where the chord from `far`, prolonged past `near`, falls to the target.

    With the upper bound at the far point and the lower at the near one it lies below
    delta there. NaN where it does not fall.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        own, other = np.exp(lower[near] - t), np.exp(upper[far] - t)
        # In units of a at the near point.
        slope = (other - own) / np.expm1(epsilons[far] - epsilons[near])
        moved = np.log1p((1 - own) / np.where(slope < 0, slope, np.nan))
    return np.asarray(epsilons[near] + moved - 32 * U * np.abs(moved))
