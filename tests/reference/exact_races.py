"""The exact resolver of races in Python, which csrc/exact equals choice by choice.

Races compare enclosures of real-valued keys, in integers alone, and read more bits
until the order is decided. Conventions on bits are those of ``_exact``. Proofs:
``docs/proofs/selection.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from typing import TypeAlias

from fastdp._exact import Block, Uniform
from fastdp._selection import Noise

#: Ends of an enclosure in units of 2**-bits; None: unbounded on that side.
Bounds: TypeAlias = tuple[int | None, int | None]

#: Children of a node of the tree of candidates, and lanes of a node.
BLOCK, LANES = 512, 16

_GUARD = 64


# --- enclosures ---------------------------------------------------------------


@lru_cache(maxsize=64)
def _log_two(point: int) -> tuple[int, int]:
    return _log_near_one(2, 1, point)


def _log_near_one(num: int, den: int, point: int) -> tuple[int, int]:
    """Enclose 2**point * ln(num/den) for 1/2 <= num/den <= 2.

    ln m = 2 atanh z, z = (m - 1)/(m + 1), |z| <= 1/3; `ulps` bounds the error of all
    floors and of what is left of the series.
    """
    top, bottom = abs(num - den), num + den
    z = (top << point) // bottom
    square = z * z >> point
    term, total, n = z, 0, 0
    while term:
        total += term // (2 * n + 1)
        term = term * square >> point
        n += 1
    ulps = 2 * (3 * n + 5)
    low, high = 2 * total - ulps, 2 * total + ulps
    return (low, high) if num >= den else (-high, -low)


def log_ratio(num: int, den: int, bits: int) -> tuple[int, int]:
    """Enclose 2**bits * ln(num/den), num and den > 0."""
    power = num.bit_length() - den.bit_length()
    guard = bits.bit_length() + abs(power).bit_length() + 12
    point = bits + guard
    if power >= 0:
        low, high = _log_near_one(num, den << power, point)
    else:
        low, high = _log_near_one(num << -power, den, point)
    two_low, two_high = _log_two(point)
    if power < 0:
        two_low, two_high = two_high, two_low
    return (low + power * two_low) >> guard, -((-high - power * two_high) >> guard)


@lru_cache(maxsize=64)
def _half_pi(point: int) -> tuple[int, int]:
    """Enclose 2**point * pi/2 by Machin's 8 atan(1/5) - 2 atan(1/239)."""

    def arctan(n: int) -> tuple[int, int]:
        term, total, k = (1 << point) // n, 0, 0
        while term:
            total += -(term // (2 * k + 1)) if k & 1 else term // (2 * k + 1)
            term //= n * n
            k += 1
        return total - 2 * k - 2, total + 2 * k + 2

    (a, b), (c, d) = arctan(5), arctan(239)
    return 8 * a - 2 * d, 8 * b - 2 * c


def cos_quarter(a: int, nbits: int, bits: int) -> tuple[int, int]:
    """Enclose 2**bits * cos(pi/2 * a * 2**-nbits), 0 <= a <= 2**nbits."""
    guard = bits.bit_length() + 12
    point = bits + guard
    half_low, half_high = _half_pi(point)
    angle, above = half_low * a >> nbits, (half_high * a >> nbits) + 1
    square = angle * angle >> point
    term, total, n = 1 << point, 0, 0
    while term:
        total += -term if n & 1 else term
        term = (term * square >> point) // ((2 * n + 1) * (2 * n + 2))
        n += 1
    # Floors, what is left of the series, and the angle's width (|cos'| <= 1).
    ulps = 6 * n + 6 + (above - angle)
    return max(total - ulps, 0) >> guard, -((-total - ulps) >> guard)


# --- races -----------------------------------------------------------------------


def _minus_log(num: int, bits: int, point: int) -> tuple[int, int]:
    """Enclose -ln(num * 2**-bits) in units of 2**-point, 0 < num <= 2**bits."""
    low, high = log_ratio(1 << bits, num, point)
    return max(low, 0), high


def _exponential(a: int, nbits: int, point: int) -> Bounds:
    """-ln U on the cell [a, a + 1) * 2**-nbits."""
    low = _minus_log(a + 1, nbits, point)[0]
    return low, _minus_log(a, nbits, point)[1] if a else None


def _gumbel(a: int, nbits: int, point: int) -> Bounds:
    """-ln(-ln(1 - U)) on the cell, which increases as U falls."""
    fine = point + nbits  # -ln(1 - U) may be as small as U
    small, large = _exponential((1 << nbits) - 1 - a, nbits, fine)
    low = None if large is None else -log_ratio(large, 1 << fine, point)[1]
    return low, -log_ratio(small, 1 << fine, point)[0] if small else None


def _gaussian(a: int, nbits: int, angle: int, abits: int, point: int) -> Bounds:
    """sqrt(-2 ln(1 - U)) cos(pi/2 A) on the cells of U and A."""
    small, large = _exponential((1 << nbits) - 1 - a, nbits, point)
    assert small is not None
    low = math.isqrt(small << (point + 1))
    least = low * cos_quarter(angle + 1, abits, point)[0] >> point
    if large is None:
        return least, None
    high = math.isqrt(large << (point + 1)) + 1
    return least, (high * cos_quarter(angle, abits, point)[1] >> point) + 1


@dataclass(slots=True)
class Runner:
    """A candidate in a race: key = noise - gap + ln weight.

    Attributes
    ----------
    index : int
        The candidate.
    gap : Fraction
        c times the distance of its score below a score common to all.
    weight : Fraction
        > 0.
    noise : str
        Law of the noise.
    uniform : Uniform
        The real behind it; for Laplace noise without the word's lowest bit.
    sign : int
        Of Laplace and Gaussian noise: 1 if negative.
    angle : Uniform, optional
        The second real of Gaussian noise.
    """

    index: int
    gap: Fraction
    weight: Fraction
    noise: Noise
    uniform: Uniform
    sign: int = 0
    angle: Uniform | None = None

    @classmethod
    def of(
        cls,
        index: int,
        gap: Fraction,
        weight: Fraction,
        noise: Noise,
        words: tuple[int, int],
        blocks: tuple[Block, Block],
    ) -> Runner:
        """Return the candidate with these words and further bits."""
        word, second = words
        if noise == "laplace":
            uniform, sign = Uniform(word >> 1, 63, blocks[0]), word & 1
            return cls(index, gap, weight, noise, uniform, sign)
        uniform = Uniform(word, 64, blocks[0])
        if noise != "gaussian":
            return cls(index, gap, weight, noise, uniform)
        angle = Uniform(second >> 1, 63, blocks[1])
        return cls(index, gap, weight, noise, uniform, second & 1, angle)

    def extend(self) -> None:
        """Read further bits."""
        self.uniform.extend()
        if self.angle is not None:
            self.angle.extend()

    def bounds(self) -> tuple[Bounds, int]:
        """Return an enclosure of the key by the bits read so far, and its point."""
        a, nbits = self.uniform.prefix, self.uniform.nbits
        point = nbits + _GUARD
        if self.angle is not None:
            low, high = _gaussian(a, nbits, self.angle.prefix, self.angle.nbits, point)
        elif self.noise == "gumbel":
            low, high = _gumbel(a, nbits, point)
        else:
            low, high = _exponential(a, nbits, point)
        if self.sign:
            low, high = _negative(high), _negative(low)
        num, den = self.gap.numerator << point, self.gap.denominator
        add_low, add_high = num // den, -(-num // den)
        log_low = log_high = 0
        if self.weight != 1:
            log_low, log_high = log_ratio(
                self.weight.numerator, self.weight.denominator, point
            )
        low = None if low is None else low - add_high + log_low
        high = None if high is None else high - add_low + log_high
        return (low, high), point


def _negative(x: int | None) -> int | None:
    return None if x is None else -x


def _above(low: int | None, point: int, high: int | None, other: int) -> bool:
    """Tell whether low * 2**-point >= high * 2**-other."""
    if low is None or high is None:
        return False
    return low << other >= high << point


def compare(a: Runner, b: Runner) -> int:
    """Return 1 if a's key is above b's, else -1; reads bits until it is decided."""
    while True:
        (a_low, a_high), a_point = a.bounds()
        (b_low, b_high), b_point = b.bounds()
        if _above(a_low, a_point, b_high, b_point):
            return 1
        if _above(b_low, b_point, a_high, a_point):
            return -1
        # The coarser one: a leader is not refined with every rival that it meets.
        least = min(a.uniform.nbits, b.uniform.nbits)
        for runner in (a, b):
            if runner.uniform.nbits == least:
                runner.extend()


def first_of(runners: Sequence[Runner]) -> Runner:
    """Return the runner with the largest key."""
    best = runners[0]
    for runner in runners[1:]:
        if compare(runner, best) > 0:
            best = runner
    return best


def ranked(runners: Sequence[Runner]) -> list[Runner]:
    """Return the runners by falling key."""
    return sorted(runners, key=cmp_to_key(compare), reverse=True)
