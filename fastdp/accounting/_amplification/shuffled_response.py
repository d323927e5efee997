"""Shuffled k-ary response, k >= 3: the sum over three counts as a contour integral.

With (a, c, d) multinomial over n trials of probabilities q, q, (k - 2) q, where
q = 1/(E + k - 1),

    delta(epsilon) = (E - 1)/n E[(a - x c - y (a + c + d))_+],  y = (x - 1)/(E - 1),

the mean of the positive part of a sum of n equal laws, which is an integral along
Re z = theta of M(z)^n/z^2. A trapezoidal sum of the integral is this mean plus
nonnegative aliases; the truncated part is bounded by the distance of M from 1 in
modulus (docs/proofs/amplification.md, section 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp.accounting._numeric import product

__all__ = ["ResponseSum"]

_Floats: TypeAlias = npt.NDArray[np.float64]

_U = 2.0**-52
#: ln of the relative error that aliases may add.
_ALIAS = -32.0
#: Most nodes; most periods of the law's lattice that are bounded separately.
_MOST, _LOBES = 8192, 4096
#: Leave out points between lobes where |phi|^n is below about e^-_DEEP, and lobes that
#: add less than a share _LITTLE of the main lobe.
_DEEP, _LITTLE = 34.0, 1e-12


@dataclass(frozen=True)
class ResponseSum:
    """The law of one of the n equal terms: four values with their probabilities."""

    trials: int
    values: _Floats
    chances: _Floats
    #: ln of the factor of the mean of the positive part.
    log_factor: float

    @classmethod
    def of(
        cls, local_epsilon: float, clients: int, categories: int, epsilon: float
    ) -> ResponseSum:
        """Return the law for 0 <= epsilon < local_epsilon."""
        e, e0 = epsilon, local_epsilon
        x, grown = math.exp(e), math.expm1(e0)
        y = math.expm1(e) / grown
        rest = x * math.expm1(e0 - e) / grown  # 1 - y to all its digits
        q = 1 / (grown + categories)
        return cls(
            clients,
            np.array([rest, -(x + y), -y, 0.0]),
            np.array([q, q, (categories - 2) * q, grown * q]),
            math.log(grown / clients),
        )

    def cumulants(self, t: _Floats) -> tuple[_Floats, _Floats]:
        """Return ln of the moment of the whole sum at real t, and error bounds."""
        power = np.multiply.outer(t, self.values)
        with np.errstate(over="ignore", invalid="ignore"):
            each = self.chances * np.expm1(power)
            value = self.trials * np.log1p(each.sum(axis=-1))
            # relative errors: of the chances 8 units, of the powers 12
            size = (self.chances * np.abs(power) * np.exp(power)).sum(axis=-1)
            error = 8 * np.abs(each).sum(axis=-1) + 12 * size
            error = self.trials * _U * error / (1 + each.sum(axis=-1))
        error += 4 * _U * np.abs(value)
        good = np.isfinite(value) & np.isfinite(error)
        return np.where(good, value, np.inf), np.where(good, error, np.inf)

    def saddle(self) -> float:
        """Return approximately the t that minimizes moment/t^2."""
        t = np.exp(np.linspace(-30, 8, 77))
        for _ in range(3):
            reading = self.cumulants(t)[0] - 2 * np.log(t)
            at = int(np.argmin(reading))
            low, high = t[max(at - 1, 0)], t[min(at + 1, t.size - 1)]
            t = np.exp(np.linspace(math.log(low), math.log(high), 17))
        return float(t[np.argmin(self.cumulants(t)[0] - 2 * np.log(t))])

    def tilted(self, theta: float) -> _Floats:
        """Return the tilted probabilities."""
        weights = self.chances * np.exp(theta * self.values)
        return np.asarray(weights / weights.sum())

    def log_delta_bounds(self) -> tuple[float, float]:
        """Return a lower and an upper bound on ln(delta); -infinity for none."""
        theta = self.saddle()
        base, base_error = (
            float(part[0]) for part in self.cumulants(np.array([theta]))
        )
        level = self.log_factor + base
        slack = base_error + 1e-14 + 4 * _U * (abs(self.log_factor) + abs(base))
        # (L)_+ is at most e^(t L)/(e t)
        simple = -math.inf, level + slack - 1 - math.log(theta)
        shape = _Shape.of(self, theta)
        period, alias = _aliases(self, theta, base)
        if shape is None or not math.isfinite(alias):
            return simple
        step = 2 * math.pi / period
        y, left_out = shape.nodes(step)
        power, slip = _powers(self, shape, y)
        z = theta + 1j * y
        nodes = np.exp(power) / (z * z)
        size, first = np.abs(nodes), 0.5 / theta**2
        total = first + float(nodes.real.sum())
        error = float((size * np.expm1(slip + 40 * _U)).sum())
        error += _U * (y.size + 60) * (float(size.sum()) + first) + left_out / step
        scale = step / math.pi
        high, low = scale * (total + error), scale * (total - error) - alias
        if not high > 0:
            return simple
        lower = level - slack + math.log(low) if low > 0 else -math.inf
        return lower, min(simple[1], level + slack + math.log(high))

    def estimate(self) -> float:
        """Return ln(delta) from the main lobe alone; NaN if that fails."""
        theta = self.saddle()
        base = float(self.cumulants(np.array([theta]))[0][0])
        shape = _Shape.of(self, theta)
        if shape is None or min(shape.near, shape.far) < 2:
            return math.nan
        step = 2 * math.pi / (24 * math.sqrt(shape.spread))
        y = step * np.arange(1, 40, dtype=np.float64)
        z = theta + 1j * y
        power, _ = _powers(self, shape, y)
        total = 0.5 / theta**2 + float((np.exp(power) / (z * z)).real.sum())
        if not total > 0:
            return math.nan
        return self.log_factor + base + math.log(total * step / math.pi)


def _aliases(law: ResponseSum, theta: float, base: float) -> tuple[float, float]:
    """Return a period, and a bound on its aliases in units of the moment at theta.

    (L + m T)_+ is at most exp(t (L + m T))/(e t) for every t > 0: use t > theta for m <
    0, and t < theta for m > 0.
    """
    t = theta * np.concatenate([np.linspace(0.05, 0.95, 19), 1 + np.geomspace(0.02, 4)])
    value, error = law.cumulants(t)
    over = value + error - base - 1 - np.log(t)
    away = np.abs(t - theta)
    # delta is about 1/(theta^2 spread^(1/2)) in these units
    wanted = _ALIAS - math.log(theta)
    with np.errstate(invalid="ignore"):
        need = (over - wanted) / away
    need[~np.isfinite(need)] = math.inf
    left = t < theta
    period = max(float(need[left].min()), float(need[~left].min()), 1 / theta)
    if not math.isfinite(period):
        return period, math.inf
    fold = away * period
    with np.errstate(over="ignore"):
        each = np.exp(over - fold) / -np.expm1(-np.maximum(fold, 1e-9))
    bound = float(each[left].min()) + float(each[~left].min())
    return period, bound * (1 + 1e-6)


def _powers(
    law: ResponseSum, shape: _Shape, y: _Floats
) -> tuple[npt.NDArray[np.complex128], _Floats]:
    """Return n ln(phi) at each y, and its error bounds."""
    turn = np.multiply.outer(y, law.values)
    half = np.sin(turn / 2)
    moved = product(-2 * half * half + 1j * np.sin(turn), shape.chances)
    modulus = np.hypot(1 + moved.real, moved.imag)
    near = np.abs(moved) < 0.5
    square = np.where(near, 2 * moved.real + np.abs(moved) ** 2, 0.0)
    with np.errstate(divide="ignore"):
        real = np.where(near, 0.5 * np.log1p(square), np.log(modulus))
    power = law.trials * (real + 1j * np.arctan2(moved.imag, 1 + moved.real))
    # errors of the tilted chances, relatively, and of the turns
    units = 48 * (1 + shape.theta * float(np.abs(law.values).max()))
    size = np.minimum(np.abs(turn), 2.0) * units + np.abs(turn) * 8
    size = product(size, shape.chances)
    with np.errstate(divide="ignore"):
        slip = _U * (law.trials * size / modulus + 8 * np.abs(power))
    gone = modulus < 1e-3  # so small a power that only its size counts
    power = np.where(gone, law.trials * math.log(1e-3), power)
    return power, np.where(gone, 1.0, np.minimum(slip, 1.0))


@dataclass(frozen=True)
class _Shape:
    """Regions of non-negligible |phi|^n: near 0, and near multiples of 2 pi.

    |phi|^n is at most exp(-n w), w the sum of p p' (1 - cos(y (v - v'))) over pairs of
    values. Up to pi over the largest distance of values, parabolas bound all cosines.
    Beyond, y D = 2 pi m + u: two pairs that share a value, at distances D and x D,
    bound w by a parabola in u plus a parabola in the remainder of 2 pi m x.
    """

    theta: float
    chances: _Floats
    #: n times the law's variance, and n times the products of the two pairs' chances.
    spread: float
    near: float
    far: float
    #: D, x, and the largest y at which the parabolas are valid.
    unit: float
    x: float
    edge: float

    @classmethod
    def of(cls, law: ResponseSum, theta: float) -> _Shape | None:
        chances = law.tilted(theta)
        mean = float(chances @ law.values)
        spread = law.trials * float(chances @ (law.values - mean) ** 2)
        shared = 2 if chances[2] >= chances[3] else 3
        first, second = (law.trials * float(p * chances[shared]) for p in chances[:2])
        if not min(spread, first, second) > 1:
            return None
        above, below, *_ = (law.values - law.values[shared]).tolist()
        edge = math.pi / float(law.values[0] - law.values[1])
        x = -below / above
        return cls(theta, chances, spread, first, second, above, x, edge)

    def nodes(self, step: float) -> tuple[_Floats, float]:
        """Return the nodes of the sum, and a bound on the integral over the rest."""
        step = step * self.unit
        edge = self.edge * self.unit
        half = math.pi * math.sqrt(_DEEP / (2 * self.spread)) * self.unit
        wide = math.pi * math.sqrt(_DEEP / (2 * self.near))
        lobes, beyond = self._lobes(step)
        if half > edge or wide > 1.5:  # no gaps: all nodes up to the end of a period
            count = min(_MOST, math.ceil((lobes + 0.5) * 2 * math.pi / step))
            kept = math.floor(count * step / (2 * math.pi) - 0.5)
            j = np.arange(1, count + 1, dtype=np.float64)
            left_out = self._after(kept, step) if kept >= 0 else math.inf
        else:
            main = math.ceil(half / step)
            each = math.ceil(2 * wide / step) + 1
            kept = max(0, min(lobes, (_MOST - main) // each))
            left_out = beyond if kept == lobes else self._after(kept, step)
            starts = np.floor((2 * math.pi * np.arange(1, kept + 1) - wide) / step)
            rest = np.add.outer(starts, np.arange(each + 1.0)).ravel()
            j = np.concatenate([np.arange(1.0, main + 1), rest])
            left_out += math.exp(-_DEEP) * (1 / half + 2 * (math.pi + step))
            left_out += 2 * math.exp(-2 * self.near * (edge / math.pi) ** 2) / edge
        return j * (step / self.unit), left_out * self.unit * (1 + 1e-6)

    def _lobes(self, step: float) -> tuple[int, float]:
        """Return the number of lobes to sum, and a bound on the other lobes."""
        after = self._tails(0, step)
        # roughly the main lobe's integral
        main = min(1 / (self.theta * math.sqrt(self.spread)), 1.0) / self.theta
        wanted = _LITTLE * main
        enough = np.flatnonzero(after <= wanted)
        kept = int(enough[0]) if enough.size else after.size - 1
        return kept, float(after[kept])

    def _after(self, kept: int, step: float) -> float:
        """Return a bound on the integral over all periods after `kept`."""
        return float(self._tails(kept, step)[0])

    def _tails(self, kept: int, step: float) -> _Floats:
        """Return bounds of the integrals after period kept, kept + 1, ..."""
        m = np.arange(kept + 1, kept + 1 + _LOBES, dtype=np.float64)
        phase = 2 * math.pi * np.remainder(m * (self.x - 1), 1.0)
        phase = np.minimum(phase, 2 * math.pi - phase)
        phase = np.maximum(phase - 1e-9 * m * self.x, 0.0)
        shared = self.near * self.far / (self.near + self.x**2 * self.far)
        width = (math.sqrt(math.pi**3 / self.near) + step) * 1.01
        steep = 2 * (math.pi + step) * math.exp(-self.near / (8 * self.x**2))
        each = width * np.exp(-shared * (phase / math.pi) ** 2) + steep
        each /= (2 * math.pi * (m - 0.5)) ** 2
        rest = (width + steep) / (4 * math.pi**2 * m[-1])
        return np.asarray(np.append(np.cumsum(each[::-1])[::-1], 0.0) + rest)
