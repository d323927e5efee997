"""Tables of the kernels: every constant with a proved rounding.

A table holds what a kernel needs for one public parameter. Integers are exact
floors, doubles are nearest to the exact value unless the field says which way
they are rounded; both come from the enclosures of ``_exact``. The formulas are
derived in ``docs/proofs/discrete_laplace.md`` and
``docs/proofs/discrete_gaussian.md``.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

from fastdp import _digits, _validate
from fastdp._exact import (
    TAIL,
    exp_neg,
    gaussian_shift,
    gaussian_tail,
)

#: Which kernel draws: all of a value from one word, or high and low bits apart.
Kind: TypeAlias = Literal["narrow", "wide"]

#: Supported sigmas of the discrete Gaussian law.
GAUSSIAN_RANGE = (Fraction(1, 1000), Fraction(2**55))

#: Largest shift j whose low bits share a word with V (sigma < 1024).
GAUSSIAN_NARROW_SHIFT = 8

#: Sum of the block heights of a Gaussian hat: 32 alias columns of 256.
HEIGHTS = 8192

_COLUMNS = TAIL + 1
_COLUMN = HEIGHTS // _COLUMNS
_LEAST_TAIL = 2.0**-100
_BITS = 128


@dataclass(frozen=True, slots=True)
class GaussianTable:
    """Constants of the discrete Gaussian kernels at one sigma.

    Attributes
    ----------
    sigma : Fraction
        The parameter sigma (not exactly the standard deviation).
    kind : str
        "narrow" for sigma < 1024, else "wide".
    j : int
        Blocks hold 2**j values each.
    n : tuple of int
        Heights of the 32 blocks in units of `c`, each >= 1, sum 8192.
    n_lo, n_hi : bytes
        Low and high bytes of `n`.
    c : float
        Unit of height: n[h] * c is at least the weight of any value in block h.
    ap, alias : bytes
        The alias columns: a draw (column, u), u in 0..255, is block
        alias[column] if u < ap[column], else block `column`.
    i2 : float
        1 / (2 sigma**2).
    tail : float
        At least 2**-100 and rounded up: a trial of block 31 with
        V * n[31] * c >= tail is rejected.
    acceptance : float
        Probability that a trial is accepted, about.
    """

    sigma: Fraction
    kind: Kind
    j: int
    n: tuple[int, ...]
    n_lo: bytes
    n_hi: bytes
    c: float
    ap: bytes
    alias: bytes
    i2: float
    tail: float
    acceptance: float

    def split(
        self, selector: int, word1: int, word2: int = 0
    ) -> tuple[int, int, int, int, int]:
        """Return (h, low, sign, v, vbits) of the words of one trial.

        Parameters
        ----------
        selector : int
            The 16-bit word: [unused: 3 bits | column: 5 bits | u: 8 bits].
        word1 : int
            32 bits: [V | L | s] for "narrow", [V | s] for "wide".
        word2 : int
            For "wide" only, 64 bits: L is its top j bits.
        """
        column, u = selector >> 8 & 31, selector & 255
        h = self.alias[column] if u < self.ap[column] else column
        if self.kind == "wide":
            return h, word2 >> (64 - self.j), word1 & 1, word1 >> 1, 31
        low = word1 >> 1 & (1 << self.j) - 1
        return h, low, word1 & 1, word1 >> (self.j + 1), 31 - self.j


# --- Discrete Gaussian --------------------------------------------------------


def gaussian_law(sigma: Fraction) -> GaussianTable | _digits.Gaussian:
    """Return the discrete Gaussian law of parameter `sigma` as its kernel draws it.

    Raises
    ------
    ParameterError
        `sigma` is outside [1e-3, 2**55].
    """
    sigma = _validate.between("sigma", sigma, *GAUSSIAN_RANGE)
    if sigma <= _digits.GAUSSIAN_DIGIT:
        return _digits.Gaussian(sigma)
    return gaussian_table(sigma)


@lru_cache(maxsize=1024)
def gaussian_table(sigma: Fraction) -> GaussianTable:
    """Return the table of the hat of a parameter that no digit draws."""
    num, den = sigma.numerator**2, sigma.denominator**2
    j = gaussian_shift(sigma)
    tail = max(gaussian_tail(sigma, j, 0, _BITS)[1], 1)
    weights = [*_largest_weights(num, den, j), tail]
    n, c = _heights(weights)
    ap, alias = _alias(n)
    kind: Kind = "narrow" if j <= GAUSSIAN_NARROW_SHIFT else "wide"
    return GaussianTable(
        sigma=sigma,
        kind=kind,
        j=j,
        n=tuple(n),
        n_lo=bytes(k & 255 for k in n),
        n_hi=bytes(k >> 8 for k in n),
        c=c,
        ap=ap,
        alias=alias,
        i2=den / (2 * num),
        tail=max(_validate.float_up(Fraction(tail, 1 << _BITS)), _LEAST_TAIL),
        acceptance=_gaussian_mass(sigma, j) / (HEIGHTS * c),
    )


def _largest_weights(num: int, den: int, j: int) -> list[int]:
    """Bound 2**128 f from above on blocks 0..30; f is largest at the left edge.

    Only f(0) is halved, so that block 0 has 1/2 if it holds 0 alone, else 1.
    """
    # A floor of the exponent's unit makes every bound larger, never smaller.
    unit = (den << (192 + 2 * j)) // (2 * num)
    first = 1 << (_BITS - 1 if j == 0 else _BITS)
    return [first] + [exp_neg(h * h * unit, 1 << 192, _BITS)[1] for h in range(1, TAIL)]


def _heights(weights: list[int]) -> tuple[list[int], float]:
    """Return integers n >= 1 of sum 8192 and the least c with n c >= weights.

    Every n is raised from a count that is not above the optimal one, each time
    where weight / n is largest: this minimizes the largest weight / n.
    """
    # At this unit the counts sum to at most 8192, so that the optimum is not
    # above it, nor are these counts above the optimal ones.
    unit = -(-sum(weights) // (HEIGHTS - len(weights)))
    n = [-(-weight // unit) for weight in weights]
    heap = [(-weight / n[h], h) for h, weight in enumerate(weights)]
    heapq.heapify(heap)
    for _ in range(HEIGHTS - sum(n)):
        h = heap[0][1]
        n[h] += 1
        heapq.heapreplace(heap, (-weights[h] / n[h], h))
    c = math.ldexp(-heap[0][0], -_BITS)
    while not _dominates(n, c, weights):
        c = math.nextafter(c, math.inf)
    return n, c


def _dominates(n: list[int], c: float, weights: list[int]) -> bool:
    """Check n c >= weights * 2**-128 in integers."""
    num, den = c.as_integer_ratio()
    return all(
        k * num << _BITS >= weight * den for k, weight in zip(n, weights, strict=True)
    )


def _alias(n: list[int]) -> tuple[bytes, bytes]:
    """Spread the heights over 32 columns of 256 exactly (Vose, in integers)."""
    ap, alias = bytearray(_COLUMNS), bytearray(range(_COLUMNS))
    left = list(n)
    small = [h for h in range(_COLUMNS) if left[h] < _COLUMN]
    large = [h for h in range(_COLUMNS) if left[h] >= _COLUMN]
    while small:
        # What is left sums to 256 a column, so that a large one exists. It
        # gives at most 255 and keeps at least 1.
        column, giver = small.pop(), large[-1]
        ap[column] = _COLUMN - left[column]
        alias[column] = giver
        left[giver] -= ap[column]
        if left[giver] < _COLUMN:
            small.append(large.pop())
    mass = [_COLUMN - ap[h] for h in range(_COLUMNS)]
    for column in range(_COLUMNS):
        mass[alias[column]] += ap[column]
    if mass != n:
        raise AssertionError("alias columns do not add up to the heights")
    return bytes(ap), bytes(alias)


def _gaussian_mass(sigma: Fraction, j: int) -> float:
    """About the sum of f over the half-line, f(0) halved, in blocks of 2**j."""
    s = sigma.numerator / sigma.denominator
    if s >= 1.0:  # Poisson summation: the next term is below 1e-34
        mass = s * math.sqrt(math.pi / 2.0)
        mass *= 1.0 + 2.0 * math.exp(-2.0 * (math.pi * s) ** 2)
    else:
        mass = 0.5 + sum(math.exp(-((m / s) ** 2) / 2.0) for m in range(1, 40))
    return math.ldexp(mass, -j)
