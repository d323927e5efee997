"""Privacy losses that the contour accountant composes, each with proved bounds.

For a dominating pair (P, Q) of one step, L = ln(dP/dQ) under P and
M(z) = E exp(z L; L < infinity). A loss tells K(t) = ln M(t) for real t > 0; tilted at
theta it tells phi(y) = M(theta + iy)/M(theta) and a bound of |phi| that does not grow
with y. Everything has an error bound. The theorems are those of
docs/proofs/numerical_accounting.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from fastdp.accounting._atoms.lattice import Lattice
    from fastdp.accounting._atoms.law import Law
    from fastdp.accounting._atoms.plan import Cost
    from fastdp.accounting._pld.batches import Batch

Floats = npt.NDArray[np.float64]
Complexes = npt.NDArray[np.complex128]

#: One unit in the last place of numbers near 1. Library functions are taken to err
#: by at most 4 of them, sums of n terms by n/2 of them times the terms' sizes.
U = 2.0**-52

#: Orders in each octave of the grid on which cumulants are known.
PER_OCTAVE = 6


def short(x: float) -> float:
    """Return x rounded down to 26 bits, so that its small multiples are exact."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(math.ldexp(mantissa, 26)), exponent - 26)


def order(index: int) -> float:
    """Return the order of this index on the common grid."""
    return math.exp2(index / PER_OCTAVE)


def complex_log1p(w: Complexes) -> Complexes:
    """Return ln(1 + w); the error is below 16 U |w| and 16 U (1 + |ln(1 + w)|)."""
    square = w.real**2 + w.imag**2
    small = square < 0.25
    result = np.empty(w.shape, np.complex128)
    if small.all():
        result.real = 0.5 * np.log1p(2 * w.real + square)
    else:
        near = np.where(small, 2 * w.real + square, 0.0)
        far = np.where(small, 1.0, np.hypot(1 + w.real, w.imag))
        result.real = np.where(small, 0.5 * np.log1p(near), np.log(far))
    result.imag = np.arctan2(w.imag, 1 + w.real)
    return result


def complex_expm1(z: Complexes) -> Complexes:
    """Return exp(z) - 1, Re z not much above 0; the error is below 16 U |z|."""
    half = np.sin(z.imag / 2)
    real = np.expm1(z.real) * np.cos(z.imag) - 2 * half * half
    return np.asarray(real + 1j * np.exp(z.real) * np.sin(z.imag))


def turned(v: Floats) -> Complexes:
    """Return exp(iv) - 1; the error is below 16 U |v|."""
    half = np.sin(v / 2)
    result = np.empty(v.shape, np.complex128)
    np.multiply(half, -2 * half, out=result.real)
    np.sin(v, out=result.imag)
    return result


def sup_sinc(v: Floats) -> Floats:
    """Return sup |sin w/w| over w >= v, rounded up a little.

    sin w/w falls to its first zero; the lobes beyond stay below 0.21724 and 1/w.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.where(v > 1e-8, np.sin(v) / v, 1.0)
        far = np.minimum(0.21724, 1 / v)
    return np.asarray(np.where(v < 3, np.maximum(near, 0.21724), far))


class Tilted(ABC):
    """A loss law tilted by exp(theta L)."""

    cumulant: float  # K(theta)
    cumulant_error: float
    mean: float  # about that of the tilted loss

    @abstractmethod
    def envelope(self, y: Floats) -> Floats:
        """Return upper bounds of |phi| from y > 0 on, which do not grow with y."""

    @abstractmethod
    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        """Return phi(y) exp(-iy mean) - 1 and a bound of its absolute error.

        At y = step, 2 step, .. count step; `step` has at most 26 bits.
        """


@dataclass(frozen=True)
class Loss(ABC):
    """One step, in one direction; hashable, so that what is computed can be kept."""

    #: Makes a `Batch` of losses of this class, not of a subclass, and their counts;
    #: None where they go one by one.
    batch: ClassVar[Callable[[Any, tuple[int, ...]], Batch] | None] = None

    #: How many exponentials a node of a contour takes, or so.
    terms = 5

    @abstractmethod
    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t) for t > 0 and bounds of its errors; infinite where given up."""

    @abstractmethod
    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the law tilted at `theta`, good enough for `count` steps."""

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law in about so many cells, placed where a blur costs most.

        Tails of a mass of e^log_tail may be lost (upper) or left out (lower).

        Raises
        ------
        OverflowError
            The loss is not known by cells, or needs too many.
        """
        raise OverflowError("a loss that is not known by cells")

    def spacing(self) -> Fraction | None:
        """Return what all losses are multiples of, if there is such a number."""
        return None

    def lattice(self, log_tail: float) -> Lattice | None:
        """Return the law on a lattice, but for tails below e^log_tail; None if off."""
        return None


# ---- Gaussian noise ----------------------------------------------------------------


@dataclass(frozen=True)
class GaussianLoss(Loss):
    """Gaussian noise on a sum of sensitivity mu standard deviations; symmetric.

    `square` is mu**2, which adds up over steps, so that one loss stands for all.
    """

    square: float

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t) = mu^2 t (1 + t)/2."""
        value = self.square * t * (1 + t) / 2
        return value, 4 * U * value

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law, a Gaussian one."""
        return _TiltedGaussian(self.square, theta)

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law by cells of x."""
        from fastdp.accounting._atoms.sampled import sampled_law

        return sampled_law(self, cost, cells, upper, log_tail)

    @property
    def noise(self) -> float:
        """The standard deviation for sensitivity 1."""
        return 1 / math.sqrt(self.square)

    @property
    def removal(self) -> bool:
        """One direction stands for both."""
        return True

    def log_ratio(self, x: Floats) -> Floats:
        """Return the loss at x, of which Q is normal around 0."""
        return np.asarray(self.square * (2 * x - 1) / 2)

    def ratio_error(self, x: Floats, ratio: Floats) -> Floats:
        """Return a bound of the absolute error of the loss, and of sigma in it."""
        return np.asarray(16 * U * np.abs(ratio))

    def log_density(self, x: Floats) -> Floats:
        """Return the log density of Q."""
        scale = 0.5 * math.log(self.square / (2 * math.pi))
        return np.asarray(-x * x * self.square / 2 + scale)


class _TiltedGaussian(Tilted):
    def __init__(self, square: float, theta: float) -> None:
        self._square = square
        self.cumulant = square * theta * (1 + theta) / 2
        self.cumulant_error = 4 * U * self.cumulant
        self.mean = square * (theta + 0.5)

    def envelope(self, y: Floats) -> Floats:
        return np.exp(-self._square * y * y / 2 * (1 - 8 * U)) * (1 + 16 * U)

    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        # The imaginary part, y times the exact mean less the rounded one, is an error.
        y = step * np.arange(1, count + 1)
        z = -self._square * y * y / 2
        value = np.expm1(z)
        error = 4 * U * (np.abs(z) + y * self.mean) * (1 + value)
        return value + 0j, error + 8 * U * np.abs(value)


# ---- sizes ---------------------------------------------------------------------------

#: Bytes that the accountant of privacy losses may hold at once.
CAP = 1 << 30


def numbers(arrays: int) -> int:
    """Return how many doubles each of so many arrays may have."""
    return CAP // (8 * arrays)
