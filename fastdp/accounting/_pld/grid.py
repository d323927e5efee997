"""Bounds of a profile from laws on a grid of losses, where a contour is too costly.

Each step's law is replaced by one on the grid that is worse (every cell split to its
ends) and by one that is better (three cells merged into the two points between them),
both with the masses that convex order asks for (theorem 13). Their compositions are
computed by the Fourier transform of exponentially tilted masses, with a bound of its
rounding. The theorems are those of docs/proofs/numerical_accounting.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fastdp.accounting._pld.grid_curve import GridCurve
from fastdp.accounting._pld.losses import Floats, U

#: Relative allowance for the rounding of masses and of splits.
MASS_ERROR = 1e-12

#: What aliases may add, in units of the tilted mass.
_ALIAS = 1e-20

#: Mass of what a sum over losses leaves out.
_LEFT_OUT = 1e-14

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
    """

    def __init__(self, laws: list[tuple[GridLaw, int]], theta: float) -> None:
        self.theta, self._step = theta, laws[0][0].step
        self.cumulant = math.fsum(n * law.log_moment(theta) for law, n in laws)
        self.log_kept = sum(n * math.log1p(-law.lost) for law, n in laws)
        size = sum(n * abs(law.log_moment(theta)) for law, n in laws)
        most = max(float(np.abs(law.losses[[0, -1]]).max()) for law, _ in laws)
        count = sum(n for _, n in laws)
        #: Bounds of the errors of the losses, and of what ln(masses) are off by.
        self.blur = sum(n * law.blur for law, n in laws) * (1 + 1e-9)
        # Masses and their tilts; normalisation; splits have their own allowance.
        self.slack = (
            count * (2 * MASS_ERROR + 8 * U * (1 + theta * most)) + 8 * U * size
        )
        low, high = self._window(laws)
        if not math.isfinite(high - low):
            raise OverflowError("too large an order")
        self._first = math.floor(low / self._step)
        need = math.ceil((high - low) / self._step) + 2
        length = 1 << max(4, (need - 1).bit_length())
        if length > _MOST:
            raise OverflowError("too long a transform")
        #: Where the losses begin, by size.
        self.reach = self._step * abs(self._first)
        self._set_masses(laws, length)

    def _window(self, laws: list[tuple[GridLaw, int]]) -> tuple[float, float]:
        """Return losses outside which there is little of the tilted mass."""
        t = self.theta * _RATIOS
        value = np.array(
            [math.fsum(n * law.log_moment(float(x)) for law, n in laws) for x in t]
        )
        room = (value - self.cumulant - math.log(_ALIAS)) / (t - self.theta)
        above = t > self.theta
        least = float(sum(n * law.losses[0] for law, n in laws))
        most = float(sum(n * law.losses[-1] for law, n in laws))
        low = max(float(room[~above].max()), least)
        high = min(float(room[above].min()), most)
        return low - 2 * self._step, high + 2 * self._step

    def _set_masses(self, laws: list[tuple[GridLaw, int]], length: int) -> None:
        spectrum = np.ones(length // 2 + 1, np.complex128)
        shift, spread, count = -self._first, 0.0, 0
        for law, n in laws:
            level = law.log_mass + self.theta * law.losses
            tilted = np.exp(level - law.log_moment(self.theta))
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

    @property
    def size(self) -> int:
        """How many losses there are."""
        return self._masses.size

    @cached_property
    def _curve(self) -> GridCurve:
        return GridCurve(self._masses, self._step, self.theta, self._first)

    def sums(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return what tilted masses add up to at each epsilon, and bounds of errors."""
        total, norm = self._curve.at(epsilons), self._curve.norm()
        # Masses may be below 0 by their rounding, which is within the norm's error.
        error = self._curve.error * (np.abs(total) + 2 * norm * self._norm_error)
        error += norm * self._norm_error * (1 + 1e-9) + 3 * _ALIAS
        return total, error

    def points(self) -> tuple[Floats, Floats, float]:
        """Return losses with tilted masses, and the error of all masses together.

        The lightest are left out, and charged.
        """
        masses = np.abs(self._masses)
        ascending = np.argsort(masses)
        dropped = np.cumsum(masses[ascending])
        light = int(np.searchsorted(dropped, _LEFT_OUT))
        kept = np.sort(ascending[light:])
        error = self._norm_error * math.sqrt(masses.size) + 3 * _ALIAS + _LEFT_OUT
        losses = np.asarray(self._step * (self._first + kept))
        return losses, np.asarray(np.maximum(self._masses[kept], 0.0)), error
