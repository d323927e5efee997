"""The hockey stick of very many different randomized responses, on a grid.

Each loss +-e is split between the two grid points around it so that its masses under
both laws are kept (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022): the result
dominates, and its excess is of second order in the step. The sum's law under the tilt
is one product of characteristic functions and one Fourier transform; what lies outside
the window, the rounding of the transform and the frequencies that are left out are
bounded and added. (docs/proofs/accounting.md, section 5.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fastdp.accounting._numeric import inflate

#: The window reaches this many standard deviations to either side.
_REACH = 14
#: The grid has at most this many points; fewer where few responses are composed.
_LARGEST_LOG = 18
#: Frequencies whose product has fallen below this are left out.
_NEGLIGIBLE = 1e-28
_UNIT = 1.2e-16


class GriddedLaw:
    """The tilted law of a sum of responses, ready for hockey sticks near its mean.

    Parameters
    ----------
    groups : sequence of (epsilon, count)
        All epsilons > 0.
    theta : float
        The tilt, >= 0.
    exponent : float
        K(theta) of the exact law, evaluated precisely.
    """

    def __init__(
        self, groups: Sequence[tuple[float, int]], theta: float, exponent: float
    ) -> None:
        self._theta = theta
        self._responses = sum(count for _, count in groups)
        odds = 1 + 2 * theta
        self._mean = sum(n * e * math.tanh(odds * e / 2) for e, n in groups)
        variance = sum(
            n * (e / math.cosh(min(odds * e / 2, 300))) ** 2 for e, n in groups
        )
        spread = max(math.sqrt(variance), max(e for e, _ in groups) / 4)
        size = 1 << min(
            _LARGEST_LOG, max(14, math.ceil(math.log2(1.4e4 * self._responses**0.5)))
        )
        self._step = 2 * _REACH * spread / size
        self._first = math.floor(self._mean / self._step) - size // 2
        self._exponent, self._masses = self._transform(groups, size, exponent)
        # A loss that is off by a unit moves the sum by no more than this.
        self._drift = 4 * _UNIT * sum(n * e for e, n in groups)
        self._lost = self._outside(groups, _REACH * spread * 0.99)

    def log_stick(self, epsilon: Fraction) -> float:
        """Return ln(h(epsilon)) rounded up."""
        count = len(self._masses)
        places = (self._first + np.arange(count)) * self._step
        gaps = places - float(epsilon)
        gaps += 4 * _UNIT * (np.abs(places) + abs(float(epsilon))) + self._drift
        start = int(np.searchsorted(gaps, 0.0, side="right"))
        gaps = gaps[start:]
        weights = np.exp(-self._theta * gaps) * -np.expm1(-gaps)
        total = float(np.sum(weights * self._masses[start:]))
        total += self._noise * float(np.sum(weights))
        # Mass from beyond the window may weigh as much as any.
        share = max(total, 0.0) * (1 + 1e-12) + self._lost
        value = self._exponent - self._theta * float(epsilon)
        value += 4 * _UNIT * self._theta * float(epsilon)
        return inflate(value + math.log(share) if share > 0 else value)

    def _transform(
        self, groups: Sequence[tuple[float, int]], size: int, exponent: float
    ) -> tuple[float, np.ndarray]:
        """Return ln of the tilted total, and the tilted masses of the window."""
        frequencies = np.arange(size // 2 + 1, dtype=np.int64)
        turns = np.exp(-2j * math.pi / size * np.arange(size))
        product = np.ones(size // 2 + 1, dtype=np.complex128)
        alive = frequencies
        excess = 0.0
        for e, count in sorted(groups, key=lambda group: -group[0]):
            place, (low, high, minus_high, minus_low), growth = self._split(e)
            excess += count * growth
            near = turns[alive * (place % size) & (size - 1)]
            step = turns[alive]
            factor = near * (low + high * step)
            factor += np.conj(near) * (minus_low + minus_high * np.conj(step))
            product[alive] *= factor**count if count > 1 else factor
            dead = np.abs(product[alive]) < _NEGLIGIBLE
            if dead.any():
                product[alive[dead]] = 0
                alive = alive[~dead]
        # The window starts at `first`: rotate before transforming back.
        product *= np.conj(turns[frequencies * (self._first % size) & (size - 1)])
        masses = np.fft.irfft(product, size)
        # Every factor errs by some units, every path of the transform by its depth.
        self._noise = _UNIT * (8 * len(groups) + 2 * self._responses + 100)
        self._noise *= 2 * float(np.mean(np.abs(product)))
        self._noise += _NEGLIGIBLE
        slop = _UNIT * 20 * self._responses + 1e-15 * abs(exponent)
        return exponent + excess + slop, masses

    def _split(self, e: float) -> tuple[int, list[float], float]:
        """Return the lower place, the tilted masses, and ln of what the split adds.

        With e between l = j step and u = l + step: the share (1 - exp(l - e)) /
        (1 - exp(-step)) of the mass at e goes to u, and likewise for -e, -u, -l.
        """
        j = math.floor(e / self._step)
        low = j * self._step
        above = min(max(e - low, 0.0), self._step)
        whole = -math.expm1(-self._step)
        up = -math.expm1(-above) / whole
        up_minus = -math.expm1(above - self._step) / whole
        theta, step = self._theta, self._step
        # masses relative to exp(theta e) or exp(-theta e), tilted
        plus = 1 / (1 + math.exp(-(1 + 2 * theta) * e))
        shares = [
            plus * (1 - up) * math.exp(-theta * above),
            plus * up * math.exp(theta * (step - above)),
            (1 - plus) * (1 - up_minus) * math.exp(-theta * (step - above)),
            (1 - plus) * up_minus * math.exp(theta * above),
        ]
        total = math.fsum(shares)
        # A split keeps the exponential moment at -1, so convexity makes total >= 1.
        return j, [share / total for share in shares], max(0.0, math.log(total))

    def _outside(self, groups: Sequence[tuple[float, int]], reach: float) -> float:
        """Return a bound on the tilted mass outside the window, by Chernoff."""
        odds = 1 + 2 * self._theta
        best = [0.0, 0.0]
        for side, sign in enumerate((1, -1)):
            for k in range(40):
                rate = 10 / reach * 1.4**k
                total = -rate * (reach + sign * self._mean)
                for e, count in groups:
                    wide = (odds + 2 * sign * rate) * (e + self._step) / 2
                    total += count * (_log_cosh(wide) - _log_cosh(odds * e / 2))
                best[side] = min(best[side], total)
                if total > best[side] + 50:
                    break
        return math.exp(best[0]) + math.exp(best[1])


def _log_cosh(x: float) -> float:
    x = abs(x)
    return x + math.log1p(math.exp(-2 * x))
