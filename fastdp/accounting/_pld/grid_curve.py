"""Many readings of one composition on a grid of losses, by sums from its upper end.

With losses l_i in steps of h and tilted masses m_i, a reading at epsilon is the sum
over l_i > epsilon of m_i e^(-theta u) (1 - e^-u), u = l_i - epsilon. For

    A_j = sum over i >= j of m_i e^(-theta (l_i - l_j)),
    D_j = sum over i >= j of m_i e^(-theta (l_i - l_j)) (1 - e^(l_j - l_i)),

and the first l_j >= epsilon, d = l_j - epsilon, it is
e^(-theta d) ((1 - e^-d) A_j + e^-d D_j): no term is subtracted.
"""

from __future__ import annotations

import math

import numpy as np

from fastdp.accounting._pld.losses import Floats, U


class GridCurve:
    """The sums A and D of masses on a grid, and readings from them.

    Parameters
    ----------
    masses : ndarray of float64, shape (n,)
        Tilted masses, n >= 1.
    step, theta : float
        Distance of losses, and the tilt.
    first : int
        Index of the first loss.
    """

    def __init__(self, masses: Floats, step: float, theta: float, first: int) -> None:
        self._step, self._theta, self._first = step, theta, first
        self._size = masses.size
        length = 1 << (max(2, masses.size).bit_length() + 1) // 2
        count = -(-masses.size // length)
        block = np.zeros((count, length))
        block.ravel()[: masses.size] = masses
        self._above, self._gain = _blocks(block, step, theta)
        #: Relative rounding of sums of so many terms, one by one.
        self.error = 8 * U * (count + length + 8 + theta * step * length)

    def at(self, epsilons: Floats) -> Floats:
        """Return the sums at the epsilons."""
        index = np.ceil(epsilons / self._step).astype(np.int64) - self._first
        index = np.clip(index, 0, self._size)
        away = np.maximum(self._step * (self._first + index) - epsilons, 0.0)
        inner = (
            -np.expm1(-away) * self._above[index] + np.exp(-away) * self._gain[index]
        )
        return np.asarray(np.exp(-self._theta * away) * inner)

    def norm(self) -> float:
        """Return a bound of the root of the sum of squares of what masses count.

        Of g(u) = e^(-theta u) (1 - e^-u), which rises and falls: the sum of its
        squares in steps of h is at most their integral over h and their maximum.
        """
        theta = self._theta
        integral = 1 / (2 * theta * (2 * theta + 1) * (theta + 1))
        most = math.exp(theta * math.log(theta) - (1 + theta) * math.log1p(theta))
        return math.sqrt(integral / self._step + most * most) * (1 + 1e-9)


def _blocks(block: Floats, step: float, theta: float) -> tuple[Floats, Floats]:
    """Return A and D at all losses and one beyond; few roundings reach far."""
    count, length = block.shape
    fall, rest = math.exp(-theta * step), math.exp(-step)
    above, gain = np.zeros((count, length)), np.zeros((count, length))
    a, d = np.zeros(count), np.zeros(count)
    for k in range(length - 1, -1, -1):  # within blocks
        d = fall * (-math.expm1(-step) * a + rest * d)
        a = block[:, k] + fall * a
        above[:, k], gain[:, k] = a, d
    # What the later blocks add, from where each block ends.
    away = step * np.arange(length, 0, -1)
    decay, near, far = np.exp(-theta * away), -np.expm1(-away), np.exp(-away)
    a_next = d_next = 0.0
    for b in range(count - 1, -1, -1):
        above[b] += decay * a_next
        gain[b] += decay * (near * a_next + far * d_next)
        a_next, d_next = float(above[b, 0]), float(gain[b, 0])
    size = count * length
    return (
        np.append(above.ravel(), 0.0)[: size + 1],
        np.append(gain.ravel(), 0.0)[: size + 1],
    )
