"""Discrete Gaussian noise of large sigma by tilted digits: what csrc/exact equals.

A first digit chooses a block of 2**j values by an integer alias table, a second one of
eight bits is uniform but for a *tilt* toward zero, and low bits are fair. What these
integers leave of the law, less than one lane in a hundred, comes from *tries* whose
words belong to no lane. The law, the words and the proof are in
``docs/proofs/discrete_gaussian.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache

from fastdp._exact import Block, Uniform, exp_neg
from tests.reference.exact_digits import (
    GAUSSIAN_DIGIT,
    SECOND,
    SPECIAL,
    Gaussian,
    Pair,
    integer_columns,
    level,
    minus_log,
)

#: Bits of the second digit, and of the byte that tilts it.
DIGIT = 8

#: Tries of a pass.
TRIES = 384

#: Units of a try's choice of a block: 128 columns of 2**17.
CHOICES = 1 << 24

#: Bits of a try's first word that go on with V, and where they start.
V_BITS = 39

_BITS = 192
_BLOCKS = range(-63, 63)


def root_two_pi(bits: int) -> Pair:
    """Enclose sqrt(2 pi), by Machin's formula."""
    point = bits + 32

    def arctan(n: int) -> tuple[int, int]:
        term = total = (1 << point) // n
        k = 1
        while term:
            term //= n * n
            k += 2
            total += -(term // k) if k & 2 else term // k
        return total, k

    (a, i), (b, k) = arctan(5), arctan(239)
    pi, error = 4 * (4 * a - b), 16 * i + 4 * k
    return (
        math.isqrt((2 * (pi - error)) << point) >> 32,
        (math.isqrt((2 * (pi + error)) << point) >> 32) + 2,
    )


@lru_cache(maxsize=16)
def _unit(sigma: Fraction, j: int, bits: int) -> Pair:
    """Enclose 2**(23 + j) / Z by Poisson summation, for sigma > 8.

    Z = sigma sqrt(2 pi) (1 + 2 q + 2 q^4 + 2 q^9 + ...), q = exp(-2 pi^2 sigma^2).
    """
    num, den = sigma.numerator, sigma.denominator
    root, point = root_two_pi(bits), bits + 64
    # 2 pi^2 = (2 pi)^2 / 2
    low, high = root_two_pi(point)
    low, high = low**4 >> 3 * point, (high**4 >> 3 * point) + 1
    scale = den**2 << (point + 1)
    n, least, above, lo = 0, 0, 0, 1
    while lo:
        n += 1
        rate = (n * num) ** 2
        lo, _ = exp_neg(high * rate, scale, bits)
        _, hi = exp_neg(low * rate, scale, bits)
        least, above = least + 2 * lo, above + 2 * hi
    above += 2  # further terms are below one unit in all
    one = 1 << bits
    lo = root[0] * (one + least) >> bits
    hi = (root[1] * (one + above) >> bits) + 1
    top = den << (23 + j + 2 * bits)
    return top // (num * hi), -(-top // (num * lo))


class Tilted:
    """The digits of discrete Gaussian noise of one sigma > 8.7.

    Attributes
    ----------
    sigma : Fraction
    shift, low : int
        j, and the low bits below the second digit.
    slope : int
        floor(2**14 (2**j / sigma)**2).
    """

    def __init__(self, sigma: Fraction) -> None:
        self.sigma = sigma
        j = 0
        while sigma > GAUSSIAN_DIGIT * 2**j:
            j += 1
        self.shift, self.low = j, max(j - DIGIT, 0)
        self.slope = math.floor(2**14 * Fraction(2**j) ** 2 / sigma**2)

    # --- the law of the digits ---

    def share(self, block: int, digit: int) -> int:
        """Return 256 times the density of a second digit over that of its block."""
        size = ~block if block < 0 else block
        step = 1 << max(DIGIT - self.shift, 0)
        away = step * (2 * digit + 1) - 256
        t = min((2 * size + 1) * abs(away) * self.slope >> 16, 256)
        return 256 - t if away > 0 else 256 + t

    def weight(self, x: int, bits: int) -> Pair:
        """Enclose 2**(23 + j) P(X = x)."""
        num, den = self.sigma.numerator**2, self.sigma.denominator**2
        lo, hi = exp_neg(x * x * den, 2 * num, bits)
        low, high = self.unit(bits)
        return lo * low >> bits, -(-hi * high >> bits)

    def unit(self, bits: int) -> Pair:
        """Enclose 2**(23 + j) / Z, Z the sum of exp(-x^2 / (2 sigma^2))."""
        return _unit(self.sigma, self.shift, bits)

    # --- tables ---

    def _edges(self) -> tuple[list[int], int]:
        """Return lower ends in units of 2**-_BITS of the weights at the edges of
        sub-blocks (all values if j <= 8), and what they may lack.
        """
        num, den = self.sigma.numerator**2, self.sigma.denominator**2
        unit = 1 << 2 * self.low
        step = exp_neg(den * unit, 2 * num, _BITS)[0]
        twice = step * step >> _BITS
        value, result = self.unit(_BITS)[0], []
        for _ in range((64 << min(self.shift, DIGIT)) + 1):
            result.append(value)
            value = value * step >> _BITS
            step = step * twice >> _BITS
        return result, 1 << (_BITS - 64)

    @cached_property
    def _made(self) -> tuple[dict[int, int], dict[int, int], Fraction]:
        edge, lack = self._edges()
        digits = 1 << min(self.shift, DIGIT)
        coarse = self.low > 0
        count: dict[int, int] = {}
        hat: dict[int, int] = {}
        for block in _BLOCKS:
            size = ~block if block < 0 else block
            shares = [self.share(block, d) for d in range(digits)]
            first = size * digits + (block < 0 and not coarse)
            inner = edge[first : first + digits]
            outer = edge[first + coarse : first + coarse + digits]
            n = (
                min(
                    (w // s for w, s in zip(outer, shares, strict=True) if s), default=0
                )
                >> _BITS
            )
            most = max(w - (n * s << _BITS) for w, s in zip(inner, shares, strict=True))
            count[block], hat[block] = n, most + lack
        # heights of the tries: a unit of `height` for each of CHOICES
        total = sum(hat.values())
        height = Fraction(-(-total // (CHOICES - 256)), 1 << _BITS)
        height = Fraction(math.ceil(height * 2**64), 2**64)
        most64 = {b: Fraction(h, 1 << _BITS) for b, h in hat.items()}
        choice = {b: max(math.ceil(h / height), 1) for b, h in most64.items()}
        choice[-64] = choice[63] = 1
        choice[0] += CHOICES - sum(choice.values())
        return count, choice, height

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Units of 2**-15 of the first digit's outcomes, v + 64."""
        return (0, *self._made[0].values(), 0)

    @cached_property
    def choices(self) -> tuple[int, ...]:
        """Units of 2**-24 of a try's blocks, v + 64; -64 and 63 are the tails."""
        choice = self._made[1]
        return tuple(choice[v] for v in range(-64, 64))

    @property
    def height(self) -> Fraction:
        """A try of block v has the hat `height` choices[v + 64], in units of weight."""
        return self._made[2]

    @cached_property
    def first(self) -> tuple[bytes, bytes]:
        cut, alias = integer_columns(self.counts)
        return cut, bytes(a if a == SPECIAL else (a - 64) & 255 for a in alias)

    @cached_property
    def columns(self) -> tuple[tuple[int, ...], bytes]:
        """Spread the choices over 128 columns: alias below the cut, of 2**17."""
        left, column = list(self.choices), CHOICES // 128
        cut, alias = [0] * 128, bytearray(range(128))
        small = [i for i in range(128) if left[i] < column]
        large = [i for i in range(128) if left[i] >= column]
        while small:
            i, giver = small.pop(), large[-1]
            cut[i], alias[i] = column - left[i], giver
            left[giver] -= cut[i]
            if left[giver] < column:
                small.append(large.pop())
        return tuple(cut), bytes(alias)

    @property
    def entries(self) -> list[int]:
        """The kernels' table of a try's blocks, as those of real cuts."""
        cut, alias = self.columns
        return [c << 47 | a for c, a in zip(cut, alias, strict=True)]

    def doubles(self) -> tuple[float, float, float, float]:
        """Return the kernel's height, weight, 1 / (2 sigma^2) and edge."""
        num, den = self.sigma.numerator**2, self.sigma.denominator**2
        one = 1 << _BITS
        edge = max(self.tail_edge(side, 0, _BITS)[1] for side in (0, 1))
        return (
            float(self.height),
            self.unit(_BITS)[0] / one,
            den / (2 * num),
            max(edge, 1 << 92) / one,
        )

    def chance(self) -> float:
        """Return the probability that a lane is special."""
        return 1 - sum(self.counts) / 2**15

    def acceptance(self) -> float:
        """Return the probability that a try is accepted."""
        return self.chance() * 2**23 / (float(self.height) * CHOICES)

    def tail_edge(self, side: int, g: int, bits: int) -> Pair:
        """Enclose 2**23 exp(-g^2 / 2 sigma^2) f(M) / (Z (1 - r)), where
        r = exp(-M / sigma^2) and M = 63 2^j (side 0) or one more (side 1).
        """
        num, den = self.sigma.numerator**2, self.sigma.denominator**2
        first = (63 << self.shift) + side
        lo, hi = exp_neg((first * first + g * g) * den, 2 * num, bits)
        unit = self.unit(bits)
        wide = bits + self.shift
        ratio_lo, ratio_hi = exp_neg(first * den, num, wide)
        lo, hi = lo * unit[0] >> bits, -(-hi * unit[1] >> bits)
        lo = (lo << wide) // (((1 << wide) - ratio_lo) << self.shift)
        return lo, -(-(hi << wide) // (((1 << wide) - ratio_hi) << self.shift))

    # --- one lane, one try ---

    def value(self, block: int, digit: int, tilt: int, low: int) -> int:
        """Return what a lane that is not special yields."""
        bits = min(self.shift, DIGIT)
        digit >>= DIGIT - bits
        t = 256 - self.share(block, digit)
        if tilt < t:
            digit = (1 << bits) - 1 - digit
        size = ~block if block < 0 else block
        size = (size << bits | digit) << self.low | low
        return ~size if block < 0 else size

    def attempt(self, word: int, place: int, block: Block) -> int | None:
        """Return what a try yields, of two words of 64 bits; None if it is rejected."""
        cut, alias = self.columns
        column, u = word & 127, word >> 47
        outcome = alias[column] if u < cut[column] else column
        v = Uniform(word >> 8 & ((1 << V_BITS) - 1), V_BITS, block)
        height = self.height * self.choices[outcome]
        h = outcome - 64

        def over(pair: Pair) -> Pair:
            num, den = height.numerator, height.denominator
            return pair[0] * den // num, -(-pair[1] * den // num)

        if h in (-64, 63):
            side = int(h < 0)
            if not v.below(lambda bits: over(self.tail_edge(side, 0, bits))):
                return None
            first = (63 << self.shift) + side
            num, den = self.sigma.numerator**2, self.sigma.denominator**2
            w, scale = Uniform(0, 0, block, SECOND), num / (den * first)
            g = level(
                w,
                lambda k, bits: exp_neg(k * first * den, num, bits),
                lambda x, bits: minus_log(x, bits) * scale,
            )
            if not v.below(lambda bits: over(self.tail_edge(side, g, bits))):
                return None
            return -first - g if side else first + g
        size = (~h if h < 0 else h) << self.shift | place >> (64 - self.shift)
        digit = (size & ((1 << self.shift) - 1)) >> self.low
        taken = self.counts[outcome] * self.share(h, digit)
        x = ~size if h < 0 else size

        def bound(bits: int) -> Pair:
            lo, hi = self.weight(x, bits)
            return over((max(lo - (taken << bits), 0), hi - (taken << bits)))

        return x if v.below(bound) else None

    def settle(self, words: Sequence[int], block: Block) -> int | None:
        """Return a try's value (None if it is rejected); or, of a lane that no accepted
        try is left for, that of its own tries in its extension blocks.
        """
        if words[0]:
            return self.attempt(words[1], words[2], block)
        k = 1 << 24
        while True:
            raw = block(k)
            start = k + 1
            value = self.attempt(
                int.from_bytes(raw[:8], "little"),
                int.from_bytes(raw[8:16], "little"),
                lambda i, start=start: block(start + i),  # type: ignore[misc]
            )
            if value is not None:
                return value
            k += 1 << 24


# --- entry ------------------------------------------------------------------------


def gaussian(sigma: Fraction) -> Gaussian | Tilted:
    """Return the discrete Gaussian law of parameter `sigma` as its kernels draw it."""
    return Gaussian(sigma) if sigma <= GAUSSIAN_DIGIT else _tilted(sigma)


@lru_cache(maxsize=256)
def _tilted(sigma: Fraction) -> Tilted:
    return Tilted(sigma)
