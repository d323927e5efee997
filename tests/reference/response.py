"""k-ary response from given words: a shift that is 0 with a given probability.

W and V are uniform reals. The shift is 0 if W < theta, else 1 + floor(V (k - 1)).
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tests.reference.bernoulli import scaled
from tests.reference.interval import More, less, read


def shift(theta: Fraction, k: int, w: int, v: int, vbits: int, more: More) -> int:
    """Return the shift of one trial: 32 bits of W are known and `vbits` of V.

    W goes on in blocks 0, 1, ... and V in blocks 2**20, 2**20 + 1, ...
    """
    if less(w, 32, more, scaled(theta)):
        return 0

    def decide(a: int, n: int) -> int | None:
        lowest, highest = a * (k - 1) >> n, ((a + 1) * (k - 1) - 1) >> n
        return lowest if lowest == highest else None

    return 1 + read(v, vbits, more, decide, first=2**20)


def shifts(
    theta: Fraction,
    k: int,
    words: tuple[np.ndarray, np.ndarray],
    more: Callable[[int], More],
) -> np.ndarray:
    """Return the shifts of many trials: uint32 of W, uint32 or uint64 of V."""
    w, v = words[0].astype(np.int64), words[1]
    vbits = 8 * v.itemsize
    edge = int(theta * 2**32)
    product = v.astype(object) * (k - 1)  # Python's integers
    lowest, highest = product >> vbits, (product + k - 2) >> vbits
    value = np.where(w < edge, 0, 1 + lowest).astype(np.int64)
    unsure = (w == edge) | (w > edge) & (lowest != highest).astype(bool)
    for i in np.flatnonzero(unsure).tolist():
        value[i] = shift(theta, k, int(w[i]), int(v[i]), vbits, more(i))
    return value


def reports(
    truth: Fraction,
    k: int,
    x: np.ndarray,
    words: tuple[np.ndarray, np.ndarray],
    more: Callable[[int], More],
    other: int = -1,
) -> np.ndarray:
    """Return the reports of values. One outside 0 ... k - 1 counts as `other`, or
    gets a uniform report if that is -1.
    """
    x = x.astype(np.int64)
    inside = (x >= 0) & (x < k)
    value = np.where(inside, x, max(other, 0))
    moved = shifts(truth, k, words, more)
    if other == -1 and not inside.all():
        uniform = shifts(Fraction(1, k), k, words, more)
        moved = np.where(inside, moved, uniform)
    return (value + moved) % k
