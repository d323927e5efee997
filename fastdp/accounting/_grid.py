"""Bounds of a profile from laws on a grid of losses, where a contour is too costly.

Each step's law is replaced by one on the grid that is worse (every cell split to its
ends) and by one that is better (three cells merged into the two points between them),
both with the masses that convex order asks for (theorem 13). Their compositions are
computed by the Fourier transform of exponentially tilted masses, with a bound of its
rounding. The theorems are those of docs/proofs/numerical_accounting.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fastdp.accounting._bounds import Bracket
from fastdp.accounting._grid_curve import GridCurve
from fastdp.accounting._losses import Floats, U
from fastdp.accounting._numeric import root_above

#: Relative allowance for the rounding of masses and of splits.
MASS_ERROR = 1e-12

#: What aliases may add, in units of the tilted mass.
_ALIAS = 1e-20

#: Largest transform, and orders at which Chernoff bounds are taken, by theta.
_MOST = 1 << 21
_RATIOS = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.2, 1.4, 1.7, 2.2, 3, 5])


@dataclass(frozen=True, eq=False)
class GridLaw:
    """Masses under P at the losses step (first + i), and the mass at infinity.

    The law is a bound of one whose losses differ from the true ones by `blur`.
    """

    step: float
    first: int
    mass: Floats
    lost: float = 0.0
    blur: float = 0.0

    @cached_property
    def losses(self) -> Floats:
        """Return the losses of the masses."""
        return np.asarray(self.step * (self.first + np.arange(self.mass.size)))

    @cached_property
    def log_mass(self) -> Floats:
        """Return the logarithms of the masses, -infinity for none."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.mass))

    def log_moment(self, t: float) -> float:
        """Return ln of the sum of mass exp(t loss)."""
        level = self.log_mass + t * self.losses
        peak = float(level.max())
        return peak + math.log(float(np.exp(level - peak).sum()))


@dataclass(frozen=True, eq=False)
class Cells:
    """A law by cells [first + i, first + i + 1] of the grid, before it is moved.

    `rise` is the sum of mass (1 - e^(low end - loss)) over the cell, which with the
    mass fixes what goes to the ends; `high`, `low` are masses above and below all
    cells; the losses were known to within `blur`.
    """

    step: float
    first: int
    mass: Floats
    rise: Floats
    high: float = 0.0
    low: float = 0.0
    blur: float = 0.0


def totals(index: npt.NDArray[np.int64], values: Floats, size: int) -> Floats:
    """Return the sums of the values that share an index."""
    return np.asarray(np.bincount(index, values, size), dtype=np.float64)


def cells_of(step: float, losses: Floats, masses: Floats) -> Cells:
    """Return the cells of atoms; those next to a point of the grid are put on it."""
    nearest = np.rint(losses / step)
    snapped = np.abs(losses - nearest * step) <= 1e-12 * (step + np.abs(losses))
    index = np.where(snapped, nearest, np.floor(losses / step)).astype(np.int64)
    part = -np.expm1(np.minimum(step * index - losses, 0.0))
    rise = np.where(snapped, 0.0, masses * part)
    first = int(index.min())
    size = int(index.max()) - first + 1
    away = float(np.max(np.where(snapped, np.abs(losses - nearest * step), 0.0)))
    return Cells(
        step,
        first,
        totals(index - first, masses, size),
        totals(index - first, rise, size),
        blur=away + 4 * U * float(np.abs(losses).max()),
    )


def worse_law(cells: Cells) -> GridLaw:
    """Return the law with each cell split to its ends."""
    up = cells.rise * (1 + MASS_ERROR) / -math.expm1(-cells.step)
    up = np.minimum(up, cells.mass)
    total = np.append(cells.mass - up, 0.0)
    total[1:] += up
    total[0] += cells.low
    return GridLaw(cells.step, cells.first, total, cells.high, cells.blur)


def better_law(cells: Cells) -> GridLaw:
    """Return the law with cells merged by threes where that lowers convex functions."""
    if not cells.rise.any():
        return GridLaw(cells.step, cells.first, cells.mass, 0.0, cells.blur)
    pad = -cells.mass.size % 3
    p = np.append(cells.mass, np.zeros(pad)).reshape(-1, 3)
    u = np.append(cells.rise * (1 - MASS_ERROR), np.zeros(pad)).reshape(-1, 3)
    h = cells.step
    # Everything in units of e^(second end): Q-masses, ratios, middle atom.
    q = (p - u) * np.exp([h, 0.0, -h])
    mean, weight = p.sum(axis=1), q.sum(axis=1)
    # P - Q of the triple, without cancellation within cells.
    gain = (u[:, 0] * math.exp(h) - p[:, 0] * math.expm1(h)) + u[:, 1]
    gain = gain + p[:, 2] * -math.expm1(-h) + u[:, 2] * math.exp(-h)
    second = gain / math.expm1(h)
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = p[:, 1] / q[:, 1]
        call = p[:, 2] - q[:, 2] * middle
        chord = second * (math.exp(h) - middle)
        fits = (second >= 0) & (weight - second >= 0) & (q > 0).all(axis=1)
        fits &= call >= chord * (1 + 1e-9)
    high = np.where(fits, second * math.exp(h) * (1 - 10 * MASS_ERROR), 0.0)
    high = np.clip(high, 0.0, mean)
    total = np.zeros_like(p)
    total[fits, 1], total[fits, 2] = (mean - high)[fits], high[fits]
    total[~fits] = p[~fits]  # rounded down, each for itself
    return GridLaw(h, cells.first, total.ravel(), 0.0, cells.blur)


class GridComposition:
    """Laws on one grid with their counts, tilted and composed once.

    Parameters
    ----------
    laws : list of (GridLaw, int)
        The steps, all on one grid.
    theta : float
        The tilt; any is valid.
    epsilon : float
        About where the profile is read.
    """

    def __init__(
        self, laws: list[tuple[GridLaw, int]], theta: float, epsilon: float
    ) -> None:
        self._theta, self._step = theta, laws[0][0].step
        self._cumulant = math.fsum(n * law.log_moment(theta) for law, n in laws)
        self.log_kept = sum(n * math.log1p(-law.lost) for law, n in laws)
        size = sum(n * abs(law.log_moment(theta)) for law, n in laws)
        most = max(float(np.abs(law.losses[[0, -1]]).max()) for law, _ in laws)
        count = sum(n for _, n in laws)
        self._blur = sum(n * law.blur for law, n in laws) * (1 + 1e-9)
        # Masses and their tilts; normalisation; splits have their own allowance.
        self._slack = (
            count * (2 * MASS_ERROR + 8 * U * (1 + theta * most)) + 8 * U * size
        )
        low, high = self._window(laws, epsilon)
        if not math.isfinite(high - low):
            raise OverflowError("too large an order")
        self._first = math.floor(low / self._step)
        need = math.ceil((high - low) / self._step) + 2
        length = 1 << max(4, (need - 1).bit_length())
        if length > _MOST:
            raise OverflowError("too long a transform")
        self._set_masses(laws, length)

    def _window(
        self, laws: list[tuple[GridLaw, int]], epsilon: float
    ) -> tuple[float, float]:
        """Return losses outside which there is little of the tilted mass."""
        t = self._theta * _RATIOS
        value = np.array(
            [math.fsum(n * law.log_moment(float(x)) for law, n in laws) for x in t]
        )
        room = (value - self._cumulant - math.log(_ALIAS)) / (t - self._theta)
        above = t > self._theta
        least = float(sum(n * law.losses[0] for law, n in laws))
        most = float(sum(n * law.losses[-1] for law, n in laws))
        low = min(max(float(room[~above].max()), least), epsilon)
        high = max(min(float(room[above].min()), most), epsilon)
        return low - 2 * self._step, high + 2 * self._step

    def _set_masses(self, laws: list[tuple[GridLaw, int]], length: int) -> None:
        spectrum = np.ones(length // 2 + 1, np.complex128)
        shift, spread, count = -self._first, 0.0, 0
        for law, n in laws:
            level = law.log_mass + self._theta * law.losses
            tilted = np.exp(level - law.log_moment(self._theta))
            wrapped = np.zeros(-(-tilted.size // length) * length)
            wrapped[: tilted.size] = tilted
            folded = wrapped.reshape(-1, length).sum(axis=0)
            spectrum *= np.fft.rfft(folded) ** n
            shift += n * law.first
            spread += n * float(np.linalg.norm(folded))
            count += n
        self._masses = np.roll(np.fft.irfft(spectrum, length), shift % length)
        # Transforms err by at most 5 U log2(length) of the norm, powers by 8 U n.
        norm = float(np.linalg.norm(self._masses)) + 1e-12
        bits = math.log2(length)
        self._norm_error = U * (5 * bits * (spread + norm) + 8 * count * norm)

    def lower(self, epsilon: float) -> float:
        """Return a lower bound of ln delta of the composition, but for the lost."""
        return self._at(epsilon + self._blur, -1.0)

    def upper(self, epsilon: float) -> float:
        """Return an upper bound of ln delta of the composition, but for the lost."""
        return self._at(epsilon - self._blur, 1.0)

    def _at(self, epsilon: float, sign: float) -> float:
        first = max(0, math.floor(epsilon / self._step) - self._first)
        index = self._first + np.arange(first, self._masses.size)
        above = np.maximum(self._step * index - epsilon, 0.0)
        gain = -np.expm1(-above) * np.exp(-self._theta * above)
        total = gain @ self._masses[first:]
        error = 1e-12 * abs(total)
        norm = float(np.linalg.norm(gain))
        return float(self._bounded(epsilon, total, error, norm, sign))

    def _bounded(
        self, epsilon: Any, total: Any, error: Any, norm: float, sign: float
    ) -> Any:
        """Return a bound of ln delta from what masses add up to, and its rounding."""
        error = error + norm * self._norm_error * (1 + 1e-9) + 3 * _ALIAS
        base = self._cumulant - self._theta * epsilon
        slack = self._slack + 8 * U * (np.abs(base) + 1)
        reach = np.abs(epsilon) + self._step * abs(self._first)
        slack += 8 * U * (1 + self._theta) * reach
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(np.maximum(total + sign * error, 0.0))
        return base + sign * slack + value

    @cached_property
    def _curve(self) -> GridCurve:
        return GridCurve(self._masses, self._step, self._theta, self._first)

    def lowers(self, epsilons: Floats) -> Floats:
        """Return `lower` at each epsilon."""
        return self._many(epsilons + self._blur, -1.0)

    def uppers(self, epsilons: Floats) -> Floats:
        """Return `upper` at each epsilon."""
        return self._many(epsilons - self._blur, 1.0)

    def _many(self, epsilons: Floats, sign: float) -> Floats:
        total, norm = self._curve.at(epsilons), self._curve.norm()
        # Masses may be below 0 by their rounding, which is within the norm's error.
        error = self._curve.error * (np.abs(total) + 2 * norm * self._norm_error)
        return np.asarray(self._bounded(epsilons, total, error, norm, sign))


class GridProfile:
    """Bounds from a worse and a better composition, good near one epsilon."""

    def __init__(
        self,
        worse: list[tuple[GridLaw, int]],
        better: list[tuple[GridLaw, int]],
        theta: float,
        epsilon: float,
    ) -> None:
        self._theta = theta
        self._worse = GridComposition(worse, theta, epsilon)
        self._better = GridComposition(better, theta, epsilon)

    def log_delta(self, epsilon: float) -> Bracket:
        """Bound ln delta(epsilon)."""
        low, high = self._better.lower(epsilon), self._upper(epsilon)
        return Bracket(low, (low + high) / 2 if low > -1e300 else high, high, "grid")

    def _upper(self, epsilon: float) -> float:
        return self._with_lost(self._worse.upper(epsilon))

    def _with_lost(self, high: float) -> float:
        """Return an upper bound of ln delta with what the worse laws lose."""
        lost = -math.expm1(self._worse.log_kept)
        if lost > 0:
            high = math.log(math.exp(high) + lost * (1 + 1e-12)) if high < 1 else high
        return min(0.0, high + 4 * U)

    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        """Bound ln delta at each epsilon."""
        lows = self._better.lowers(epsilons).tolist()
        highs = [
            self._with_lost(high) for high in self._worse.uppers(epsilons).tolist()
        ]
        return [
            Bracket(low, (low + high) / 2 if low > -1e300 else high, high, "grid")
            for low, high in zip(lows, highs, strict=True)
        ]

    def epsilon(self, log_delta: tuple[float, float], guess: float) -> Bracket:
        """Bound the least epsilon >= 0 with delta(epsilon) <= delta."""
        target, over = log_delta
        if self._upper(0.0) <= target:
            return Bracket(0.0, 0.0, 0.0, "grid")
        upper = self._solve(lambda e: self._upper(e) - target, guess, 1.0)
        near = upper if math.isfinite(upper) else guess
        lower = self._solve(lambda e: over - self._better.lower(e), near, -1.0)
        lower = min(lower, upper)
        return Bracket(lower, (lower + upper) / 2, upper, "grid")

    def _solve(
        self, excess: Callable[[float], float], guess: float, sign: float
    ) -> float:
        """Return an epsilon >= 0 where the excess was found <= 0, near a sign change.

        Up the axis (sign 1) the excess falls from above 0 at 0, else it rises. Where
        nothing is found, infinity or 0 is returned.
        """

        def finite(epsilon: float) -> float:
            return max(-1e300, min(1e300, excess(sign * epsilon)))

        start = sign * guess
        width = min(1e-2 / self._theta, 0.1 * (1 + guess))
        most = 1e6 * (1 + guess)
        if finite(start) > 0:
            low = high = start
            while finite(high) > 0:
                if sign < 0 and high == 0:
                    return 0.0
                if width > most:
                    return math.inf
                low, high, width = high, high + width, 4 * width
                high = high if sign > 0 else min(high, 0.0)
        else:
            low = high = start
            while finite(low) <= 0:
                if width > most:
                    return sign * low
                low, high, width = low - width, low, 4 * width
                low = max(low, 0.0) if sign > 0 else low
        return sign * root_above(finite, low, high, 1e-11)
