"""Discrete Gaussian of sigma > 8.7 by tilted digits, P(X = x) = exp(-x^2 / 2 s^2) / Z.

The integers of the tables are data: any counts and hats give the same law as long as
the digits' mass is nowhere above the law's and the hats nowhere below what they leave
(which has a test of its own).
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from mpmath import mp, mpf

from tests.reference.interval import More, exp_minus, less, read, step_of

Interval = tuple[int, int]


class Data(NamedTuple):
    """The public tables: columns of blocks (bytes v, 128 is special), columns of tries
    in units of 2**-17 (numbers v + 64), and the hat of a unit of a try."""

    cut: bytes
    alias: bytes
    try_cut: Sequence[int]
    try_alias: bytes
    height: Fraction


def units(cut: Sequence[int], alias: Sequence[int], column: int, own: int) -> int:
    """Units of an outcome: its column less the cut, and the cuts that lead to it."""
    taken = sum(c for c, a in zip(cut, alias, strict=True) if a == own)
    return column - cut[own] + taken


@lru_cache(maxsize=1 << 10)
def _inverse_z(sigma: Fraction, bits: int, work: int) -> Interval:
    """Enclose 2**bits / Z in `work` bits, Z by Poisson summation."""
    with mp.workprec(work):
        s = mpf(sigma.numerator) / sigma.denominator
        z = s * mp.sqrt(2 * mp.pi) * mp.jtheta(3, 0, mp.exp(-2 * (mp.pi * s) ** 2))
        value = int(mp.floor(mp.ldexp(1, bits) / z))
    return value - 1, value + 2


class Law:
    """The law at one sigma, in units of 2**-(23 + j)."""

    def __init__(self, sigma: Fraction, data: Data) -> None:
        self.sigma, self.data = sigma, data
        self.j = next(j for j in range(64) if sigma <= Fraction(87, 10) * 2**j)
        self.bits = min(self.j, 8)
        self.low = self.j - self.bits
        self.slope = int(2**14 * 4**self.j / sigma**2)
        ends = [c + 1 if a != own else 0 for own, (c, a) in enumerate(self._blocks())]
        blocks = [a for _, a in self._blocks()]
        self.counts = [units(ends, blocks, 256, own) for own in range(128)]
        self.choices = [
            units(data.try_cut, data.try_alias, 2**17, own) for own in range(128)
        ]

    def _blocks(self) -> list[tuple[int, int]]:
        """Cuts and aliases of the columns as numbers v + 64; 256 is special."""
        return [
            (c, 256 if a == 128 else (a + 64) % 256)
            for c, a in zip(self.data.cut, self.data.alias, strict=True)
        ]

    def lean(self, size: int, digit: int) -> int:
        """256 (density / mean - 1) of second digits, negative away from zero."""
        away = 256 // 2**self.bits * (2 * digit + 1) - 256
        t = min((2 * size + 1) * abs(away) * self.slope // 65536, 256)
        return -t if away > 0 else t

    def lane(self, column: int, u: int, d: int, v: int, low: int) -> int | None:
        """Return the value of a lane's bytes and its low word; None: it is special."""
        cut, alias = self.data.cut[column % 128], self.data.alias[column % 128]
        if u <= cut and alias == 128:
            return None
        h = (alias + 128) % 256 - 128 if u <= cut else column % 128 - 64
        size = h if h >= 0 else -1 - h
        digit = d >> (8 - self.bits)
        if v < -self.lean(size, digit):
            digit = 2**self.bits - 1 - digit
        m = (size * 2**self.bits + digit) * 2**self.low + low % 2**self.low
        return m if h >= 0 else -1 - m

    def unit(self, bits: int) -> Interval:
        """Enclose 2**(23 + j) / Z."""
        return _inverse_z(self.sigma, 23 + self.j + bits, 2 * bits + 200)

    def weight(self, x: int, bits: int) -> Interval:
        """Enclose 2**(23 + j) P(X = x)."""
        lo, hi = exp_minus(x * x / (2 * self.sigma**2), bits)
        low, high = self.unit(bits)
        return lo * low >> bits, -(-hi * high >> bits)

    def taken(self, x: int) -> int:
        """What the digits give of it."""
        h = x >> self.j
        size = h if h >= 0 else -1 - h
        m = x if x >= 0 else -1 - x
        return self.counts[h + 64] * (
            256 + self.lean(size, (m >> self.low) % 2**self.bits)
        )

    def tail(self, side: int, g: int, bits: int) -> Interval:
        """Enclose 2**23 times the sum over a tail of its geometric majorant, with what
        is kept of g values beyond its start."""
        first = 63 * 2**self.j + side
        lo, hi = exp_minus((first**2 + g**2) / (2 * self.sigma**2), bits)
        low, high = self.unit(bits)
        r_lo, r_hi = exp_minus(first / self.sigma**2, bits + self.j)
        one = 1 << (bits + self.j)
        below, above = Fraction(one - r_lo, 1 << bits), Fraction(one - r_hi, 1 << bits)
        return int((lo * low >> bits) / below), int(
            ((hi * high >> bits) + 1) / above
        ) + 1

    def attempt(self, word: int, place: int, more: More) -> int | None:
        """Return a try's value; None if it is rejected."""
        column, u = word % 128, word >> 47
        below = u < self.data.try_cut[column]
        outcome = self.data.try_alias[column] if below else column
        hat = self.data.height * self.choices[outcome]
        v = word // 256 % 2**39
        if outcome in (0, 127):
            return self.tail_value(outcome == 0, hat, v, more)
        part = place >> (64 - self.j)
        x = (outcome - 64) * 2**self.j + part
        if outcome < 64:
            x = -1 - ((63 - outcome) * 2**self.j + part)

        def bound(bits: int) -> Interval:
            lo, hi = self.weight(x, bits)
            taken = self.taken(x) << bits
            return int((lo - taken) / hat) - 1, int((hi - taken) / hat) + 1

        return x if less(v, 39, more, bound) else None

    def tail_value(
        self, negative: bool, hat: Fraction, v: int, more: More
    ) -> int | None:
        side = int(negative)
        first = 63 * 2**self.j + side
        rate = first / self.sigma**2
        g = read(
            0, 0, more,
            lambda a, n: step_of(a, n, lambda k, bits: exp_minus(k * rate, bits)),
            first=2**20,
        )  # fmt: skip

        def bound(bits: int) -> Interval:
            lo, hi = self.tail(side, g, bits)
            return int(lo / hat) - 1, int(hi / hat) + 1

        if not less(v, 39, more, bound):
            return None
        return -first - g if negative else first + g

    def fresh(self, more: More) -> int:
        """Return the value of a special lane beyond the accepted tries."""
        k = 2**24
        while True:
            raw, start = more(k), k + 1
            word = int.from_bytes(raw[:8], "little")
            place = int.from_bytes(raw[8:16], "little")
            value = self.attempt(word, place, lambda i, start=start: more(start + i))
            if value is not None:
                return value
            k += 2**24
