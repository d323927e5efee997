"""Privacy losses that the contour accountant composes, each with proved bounds.

For a dominating pair (P, Q) of one step, L = ln(dP/dQ) under P and
M(z) = E exp(z L; L < infinity). A loss gives K(t) = ln M(t) for real t > 0; tilted at
theta it gives phi(y) = M(theta + iy)/M(theta) and a bound on |phi| that does not grow
with y. Every value has an error bound. A composition needs only sums over its steps, so
a kind of loss may have a `Batch`: one table for all losses instead of a loop over
losses. The theorems are in docs/proofs/numerical_accounting.md.
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

from fastdp.accounting._numeric import product

if TYPE_CHECKING:
    from fastdp.accounting._atoms.lattice import Lattice
    from fastdp.accounting._atoms.law import Law
    from fastdp.accounting._atoms.plan import Cost

Floats = npt.NDArray[np.float64]
Complexes = npt.NDArray[np.complex128]
Indices = npt.NDArray[np.int64]

#: One unit in the last place of numbers near 1. Library functions are taken to err
#: by at most 4 of them, sums of n terms by n/2 of them times the terms' sizes.
U = 2.0**-52

#: Orders in each octave of the grid on which cumulants are known.
PER_OCTAVE = 6

#: Indices of orders are at least -FARTHEST and below FARTHEST.
FARTHEST = 600

#: All orders of the grid; the order of index i is at i + FARTHEST.
ORDERS = np.exp2(np.arange(-FARTHEST, FARTHEST) / PER_OCTAVE)


#: Bytes that the accountant of privacy losses may hold at once.
CAP = 1 << 30


def numbers(arrays: int) -> int:
    """Return the number of doubles that each of `arrays` arrays may hold."""
    return CAP // (8 * arrays)


def short(x: float) -> float:
    """Return x rounded down to 26 bits, so that its small multiples are exact."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(math.ldexp(mantissa, 26)), exponent - 26)


def order(index: int) -> float:
    """Return the order of this index on the common grid."""
    return float(ORDERS[index + FARTHEST])


def on_grid(indices: Indices) -> Indices:
    """Return the indices that have an order on the common grid."""
    return indices[np.abs(indices) < FARTHEST]


def log_chernoff(t: Floats) -> Floats:
    """Return ln C(t), C(t) = max over x of (1 - e^-x) e^(-tx), for t > 0."""
    # Both terms have the same sign; t ln t - (1 + t) ln(1 + t) would cancel.
    return np.asarray(-t * np.log1p(1 / t) - np.log1p(t))


def log_or_lowest(x: float) -> float:
    """Return ln(x), -infinity where x is not positive."""
    return math.log(x) if x > 0 else -math.inf


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


class Tilted(ABC):
    """A loss law tilted by exp(theta L)."""

    cumulant: float  # K(theta)
    cumulant_error: float
    mean: float  # an approximate mean of the tilted loss

    @abstractmethod
    def envelope(self, y: Floats) -> Floats:
        """Return upper bounds on |phi| for y > 0 that do not grow with y."""

    @abstractmethod
    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        """Return phi(y) exp(-iy mean) - 1 and a bound of its absolute error.

        At y = step, 2 step, .. count step; `step` has at most 26 bits.
        """


@dataclass(frozen=True)
class Loss(ABC):
    """One step, in one direction; hashable, so that results can be cached."""

    #: Makes a `Batch` of losses of this class (not of a subclass) and of one width, and
    #: their counts; None if losses are handled one by one.
    batch: ClassVar[Callable[[Any, tuple[int, ...]], Batch] | None] = None

    #: Whether all its values are listed.
    listed = False

    #: How wide a loss's row in a table is; 0 for one that has none.
    width = 1

    #: About how many exponentials a node of a contour takes.
    terms = 5

    @property
    def normal_variance(self) -> float:
        """The approximate variance of a nearly normal loss, or infinity."""
        return math.inf

    @abstractmethod
    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t) for t > 0 and its error bounds; infinite where unknown."""

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the law tilted at `theta`, accurate enough for `count` steps.

        Raises
        ------
        OverflowError
            The loss has no contour, or needs too many nodes.
        """
        raise OverflowError("this loss has no contour")

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the law in about `cells` cells, placed where rounding costs most.

        Tails of a mass of e^log_tail may be lost (upper) or left out (lower).

        Raises
        ------
        OverflowError
            The loss has no cells, or needs too many.
        """
        raise OverflowError("no cells are known for this loss")

    def spacing(self) -> Fraction | None:
        """Return a number that divides all losses, or None."""
        return None

    def lattice(self, log_tail: float) -> Lattice | None:
        """Return the law on a lattice, without tails below e^log_tail, or None."""
        return None


# ---- many losses at once -------------------------------------------------------------


#: Merge the boxes of a law by size if there are more than this.
_FEW_BOXES = 512

#: Merge the boxes of all rows if there are more rows than _FEW_ROWS; sizes are
#: 2^(1/_SIZES) apart.
_FEW_ROWS, _SIZES = 2, 16

#: Most numbers of a table of rows by nodes that is computed at once.
TABLE = 1 << 15

#: Coefficients of 1 - sin v/v in powers of v^2; the first one is rounded down by more
#: than the sum's error. S(v) = sin v/v up to v^2 = _RISING; beyond, a later lobe is
#: higher.
_SINC = ((1 - 16 * U) / 6, -1 / 120, 1 / 5040, -1 / 362880)
_RISING = 6.52

#: Weights and half lengths of uniform laws below given laws, by rows, and counts.
Boxes = tuple[Floats, Floats, Floats]


@dataclass(frozen=True)
class Tilt:
    """K(theta), the mean of the tilted loss, and bounds on their rounding errors."""

    cumulant: float
    error: float
    mean: float
    drift: float

    def __add__(self, other: Tilt) -> Tilt:
        cumulant, mean = self.cumulant + other.cumulant, self.mean + other.mean
        error = self.error + other.error + U * abs(cumulant)
        drift = self.drift + other.drift + U * abs(mean)
        return Tilt(cumulant, error, mean, drift)


@dataclass(frozen=True)
class Nodes:
    """ln phi at the nodes, without the mean's phase, and bounds on relative errors."""

    log_phi: Complexes
    growth: Floats

    def __add__(self, other: Nodes) -> Nodes:
        log_phi = self.log_phi + other.log_phi
        return Nodes(log_phi, self.growth + other.growth + U * np.abs(log_phi))


class TiltedBatch(ABC):
    """The losses of a batch, tilted by exp(theta L)."""

    @abstractmethod
    def log_envelope(self, y: Floats) -> Floats:
        """Return upper bounds of the sum of ln |phi| that do not grow with y."""

    @abstractmethod
    def nodes(self, step: float, count: int) -> tuple[Tilt, Nodes]:
        """Return the sums of K(theta), of means, and of ln phi at multiples of step."""


class Batch(ABC):
    """Losses with their counts; it computes only sums over them."""

    @abstractmethod
    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the sum of K(t) and its error bounds; infinite where unknown."""

    @abstractmethod
    def tilted(self, theta: float) -> TiltedBatch:
        """Return the laws tilted at theta."""


def transform(
    offset: npt.NDArray[Any],
    weight: npt.NDArray[Any],
    errors: Floats,
    step: float,
    count: int,
) -> tuple[Complexes, Floats]:
    """Return sums of weight (e^(iy offset) - 1), and bounds of their errors.

    At y = step, .. count step; `step` has at most 26 bits. Each term is computed from
    two others, f and g, as f g + f + g. So the absolute `errors` of the weights are
    multiplied only by the sizes of f and g, which are small if most of the mass has a
    small loss.
    """
    width = math.isqrt(count - 1) + 1
    short_y, long_y = step * np.arange(width), step * np.arange(1, count + 1, width)
    value = np.zeros((long_y.size, width), np.complex128)
    error = np.zeros((long_y.size, width))
    errors = errors + 60 * U * np.abs(weight)
    some = max(1, TABLE // width)
    for i in range(0, offset.size, some):
        part = slice(i, i + some)
        turn, own, slip = 1j * offset[part], weight[part], errors[part]
        near = complex_expm1(np.multiply.outer(turn, short_y))
        far = complex_expm1(np.multiply.outer(long_y, turn))
        value += product(far * own, near)
        value += product(far, own)[:, None] + product(own, near)
        size, reach = np.abs(near), np.abs(far)
        error += product(reach * slip, size)
        error += product(reach, slip)[:, None] + product(slip, size)
    return value.ravel()[:count], error.ravel()[:count]


def log_envelope_of(boxes: list[Boxes], y: Floats) -> Floats:
    """Bound the sum of ln |phi| by boxes under the laws (theorem 3).

    1 - |phi| is at least the sum of weights times 1 - S(half length y). The boxes of
    many rows are merged into one row by size: ln(1 - x) is at most -x.
    """
    if sum(count.size for _, _, count in boxes) > _FEW_ROWS:
        weight = np.concatenate([(count[:, None] * w).ravel() for w, _, count in boxes])
        half = np.concatenate([h.ravel() for _, h, _ in boxes])
        weight, half = _by_size(weight, half)
        return -box_losses(weight, half, y) * (1 - 1e-9)
    result = np.zeros_like(y)
    for weights, halves, counts in boxes:
        for row, lengths, count in zip(weights, halves, counts, strict=True):
            weight, half = _by_size(row, lengths)
            loss = box_losses(weight, half, y) * (1 - 1e-9)
            result += count * np.log1p(-np.minimum(loss, 1 - 1e-15))
    return result


def box_losses(weight: Floats, half: Floats, y: Floats) -> Floats:
    """Return the sums of weights times 1 - S(half length y)."""
    return product(one_less_sinc(np.multiply.outer(y, half)), weight)


def _by_size(weight: Floats, half: Floats) -> tuple[Floats, Floats]:
    """Merge boxes with lengths rounded down to few sizes; keep short lists."""
    if weight.size <= _FEW_BOXES:
        return weight, half
    used = weight > 0
    size = np.floor(_SIZES * np.log2(half[used]) - 1e-6).astype(np.int64)
    least = int(size.min(initial=0))
    merged = np.bincount(size - least, weight[used]).astype(np.float64, copy=False)
    lengths = np.exp2((least + np.arange(merged.size)) / _SIZES)
    return merged[merged > 0], lengths[merged > 0]


def unit_steps(turn: Floats, width: int, starts: int) -> tuple[Complexes, Complexes]:
    """Return e^(ik turn) - 1 for 0 < k < width, and for k = 1, 1 + width, ..

    The shapes are (rows, width - 1, nodes) and (rows, starts, nodes); `width` is a
    power of two. Each number is computed from two others, f and g, as f g + f + g; its
    error is below (4 + 8 log2 k) U k |turn|.
    """
    half = np.sin(0.5 * turn)
    near = np.empty((turn.shape[0], width, turn.shape[1]), np.complex128)
    near[:, 0].real, near[:, 0].imag = -2 * half * half, np.sin(turn)
    _doubled(near, near[:, 0])
    far = np.empty((turn.shape[0], starts, turn.shape[1]), np.complex128)
    far[:, 0] = near[:, 0]
    _doubled(far, near[:, -1])
    return near[:, :-1], far


def _doubled(table: Complexes, jump: Complexes) -> None:
    """Fill a table from its first column, each later column by a jump."""
    known = 1
    while known < table.shape[1]:
        old = table[:, : min(known, table.shape[1] - known)]
        new = table[:, known : known + old.shape[1]]
        np.multiply(old, jump[:, None], out=new)
        new += old
        new += jump[:, None]
        jump = jump * jump + 2 * jump
        known *= 2


def one_less_sinc(v: Floats) -> Floats:
    """Return a lower bound of 1 - sup |sin w/w| over w >= v, accurate for small v.

    1 - sin v/v is above its Taylor sums of even length, and 1 - S(v) does not fall.
    """
    w = v * v
    np.minimum(w, _RISING, out=w)
    total = w * _SINC[-1]
    for coefficient in _SINC[-2:0:-1]:
        total += coefficient
        total *= w
    total += _SINC[0]
    total *= w
    np.maximum(v, 1.0, out=w)
    np.divide(1.0, w, out=w)
    return np.maximum(total, np.subtract(1.0, w, out=w), out=total)


# ---- Gaussian noise ----------------------------------------------------------------


@dataclass(frozen=True)
class GaussianLoss(Loss):
    """Gaussian noise on a sum of sensitivity mu standard deviations; symmetric.

    `square` is mu**2, which adds up over steps, so one loss represents all steps.
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
        """True: one direction represents both."""
        return True

    def log_ratio(self, x: Floats) -> Floats:
        """Return the loss at x; under Q, x is normal around 0."""
        return np.asarray(self.square * (2 * x - 1) / 2)

    def ratio_error(self, x: Floats, ratio: Floats) -> Floats:
        """Return a bound on the absolute error of the loss, including sigma's error."""
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
