"""Steps of bounded range as granted Gaussian noise: many are almost as good as that.

A step whose losses lie in an interval of length r, composed with Gaussian noise of the
square v, is dominated by Gaussian noise of the square v + w, 1/w = 4/r^2 - 1/v
(theorem 20 of docs/proofs/numerical_accounting.md). The noise that takes steps up is
granted: it is in no answer, so that no step was chosen with it in view. Noise that was
released cannot stand in for it.
"""

from __future__ import annotations

import math

from fastdp.accounting._pld.composition import Steps
from fastdp.accounting._pld.losses import GaussianLoss

#: Largest square of a step: the theorem allows 6.
_LARGEST = 4.0

#: Squares of granted noise to try, in the same units.
_TRIED = (2.0, 2.5, 3.0, 4.0, 6.0)

#: Return None for fewer steps than this, counted by squares.
_FEWEST = 6.0

#: Relative allowance for roundings, which are fewer than a hundred units.
_MORE = 1 + 1e-13


def as_gaussian(steps: Steps) -> Steps | None:
    """Return dominating steps without those of bounded range; None if it is no use."""
    ranges = [(loss.range / 2, n) for loss, n in steps if loss.range is not None]
    if not ranges:
        return None
    largest = max(half * half for half, _ in ranges) * _MORE
    whole = math.fsum(n * half * half for half, n in ranges) * _MORE
    if not 1e-100 < largest <= _LARGEST or whole < _FEWEST * largest:
        return None
    square = min(_absorbed(times * largest, whole, largest) for times in _TRIED)
    rest = tuple((loss, n) for loss, n in steps if loss.range is None)
    return (*rest, (GaussianLoss(square * _MORE), 1))


def _absorbed(start: float, whole: float, largest: float) -> float:
    """Return a bound of the square that takes up steps of the square `whole` in all.

    The x with x - start - m ln(x/start) = whole, or more: Newton's method from above.
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
