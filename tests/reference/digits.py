"""Laws of alias digits from given words: discrete Laplace, small discrete Gaussian.

The assignment of columns to outcomes is data: any tables of integers whose masses are
nowhere above the law's, and any aliases of what is left, give the same law as long as
their cuts come out in [0, 1] (which has a test of its own). Everything else is computed
here from the law, with the intervals of ``tests.reference.interval``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from tests.reference.interval import More, exp_minus, precision, read, side, step_of

Interval = tuple[int, int]
#: A table of real cuts as data: outcomes that columns share with their own.
Aliases = bytes

RANKS = 128
SECOND = 1 << 20


class Data(NamedTuple):
    """The public tables of a law: integer columns and aliases of the real ones."""

    first: tuple[bytes, bytes]
    first_rest: Aliases
    second: tuple[bytes, bytes] = (b"", b"")
    second_rest: Aliases = b""
    second_whole: Aliases = b""


class Words(NamedTuple):
    """The words of the lane's ranks: None where its rank has none."""

    first: int | None = None
    tail: int | None = None
    second: int | None = None
    top: int | None = None
    copies: tuple[int, ...] = ()


# --- intervals in units of 2**-bits -------------------------------------------------


def times(a: Interval, b: Interval, bits: int) -> Interval:
    return a[0] * b[0] >> bits, -(-a[1] * b[1] // (1 << bits))


def over(a: Interval, b: Interval, bits: int) -> Interval:
    return (a[0] << bits) // b[1], -((-a[1] << bits) // b[0])


def minus(a: Interval, bits: int) -> Interval:
    return (1 << bits) - a[1], (1 << bits) - a[0]


def add(*each: Interval) -> Interval:
    return sum(lo for lo, _ in each), sum(hi for _, hi in each)


def scaled(a: Interval, r: Fraction) -> Interval:
    lo, hi = a[0] * r, a[1] * r
    return lo.numerator // lo.denominator, -(-hi.numerator // hi.denominator)


def below(
    prefix: int, nbits: int, more: More, bound: Callable[[int], Interval], first: int
) -> bool:
    """Tell whether a uniform that goes on in blocks `first`, ... is below a bound."""

    def decide(a: int, n: int) -> int | None:
        bits = precision(n)
        return side(a, n, *bound(bits), bits) or None

    return read(prefix, nbits, more, decide, first) == -1


def word_of(raw: bytes) -> int:
    return int.from_bytes(raw[:8], "little")


# --- the laws -----------------------------------------------------------------------


def shift(t: Fraction) -> int:
    """Return the least j with t / 2**j <= 10."""
    j = 0
    while t > 10 * 2**j:
        j += 1
    return j


@lru_cache(maxsize=16)
def laplace_first(t: Fraction, bits: int) -> tuple[Interval, ...]:
    """Sign and block number: outcomes v + 64, |H| >= 63 half at 0 and half at 127."""
    rate = 2 ** shift(t) / t
    q = exp_minus(1 / t, bits)
    negative = over(q, add((1 << bits, 1 << bits), q), bits)
    one = minus(exp_minus(rate, bits), bits)
    law = []
    for v in range(-64, 64):
        sign = negative if v < 0 else minus(negative, bits)
        size = ~v if v < 0 else v
        if size == 63:
            law.append(scaled(exp_minus(63 * rate, bits), Fraction(1, 2)))
        else:
            law.append(
                times(times(sign, one, bits), exp_minus(size * rate, bits), bits)
            )
    return tuple(law)


@lru_cache(maxsize=16)
def gaussian_first(sigma: Fraction, bits: int) -> tuple[Interval, ...]:
    """Values to 63 at v + 64; everything beyond at 0."""
    weight = [exp_minus(m * m / (2 * sigma**2), bits) for m in range(800)]
    # what is left out is below 2**-bits by far as long as the last weight is
    assert weight[-1][0] == 0
    far = add(*weight[64:])
    law = [(2 * far[0], 2 * far[1] + 2)]
    law += [weight[abs(v)] for v in range(-63, 64)]
    total = add(*law)
    return tuple(over(w, total, bits) for w in law)


@lru_cache(maxsize=16)
def laplace_second(t: Fraction, bits: int) -> tuple[Interval, ...]:
    j = shift(t)
    digit = min(j, 5)
    weight = [exp_minus(d * 2 ** (j - digit) / t, bits) for d in range(2**digit)]
    total = add(*weight)
    return tuple(over(w, total, bits) for w in weight)


@lru_cache(maxsize=16)
def bit_law(t: Fraction, bits: int) -> tuple[Interval, ...]:
    """P(c_k = 1) = (1 - x) / (1 + x), x = exp(-2**k / t), for the low bits k."""
    one = (1 << bits, 1 << bits)
    law = []
    for k in range(max(shift(t) - 5, 0)):
        x = exp_minus(2**k / t, bits)
        law.append(over(minus(x, bits), add(one, x), bits))
    return tuple(law)


@lru_cache(maxsize=16)
def some_from(t: Fraction, bits: int) -> tuple[Interval, ...]:
    """P(c_i = 1 for some i >= k), k = 0, 1, ..., r; 0 for k = r."""
    none = (1 << bits, 1 << bits)
    result = [(0, 0)]
    for p in reversed(bit_law(t, bits)):
        none = times(none, minus(p, bits), bits)
        result.append(minus(none, bits))
    return tuple(result[::-1])


def correction(t: Fraction, bits: int) -> Interval:
    return some_from(t, bits)[0]


# --- tables -------------------------------------------------------------------------


def units(table: tuple[bytes, bytes], offset: int) -> list[int]:
    """Count the units of every outcome, v + offset; the last is "special"."""
    cut, alias = table
    count = [0] * (len(cut) + 1)
    for c, (at, a) in enumerate(zip(cut, alias, strict=True)):
        count[-1 if a == 128 else (a + offset) % 256] += at + 1
        count[c] += 255 - at
    return count


def cuts(masses: Sequence[Interval], alias: Aliases, bits: int) -> list[Interval]:
    """A column's cut is what its mass lacks, with what it gave to others added."""
    given: dict[int, list[int]] = {c: [] for c in range(len(alias))}
    for c, a in enumerate(alias):
        if a != c:
            given[a].append(c)
    found: dict[int, Interval] = {}

    def cut(c: int) -> Interval:
        if c not in found:
            lack = minus(masses[c], bits)
            found[c] = add(lack, *map(cut, given[c]))
            if alias[c] == c:
                found[c] = 0, 0  # the masses sum to the number of columns
        return found[c]

    return [cut(c) for c in range(len(alias))]


class Law:
    """A law of digits: `family` is "laplace" or "gaussian"."""

    def __init__(self, family: str, parameter: Fraction, data: Data) -> None:
        self.t, self.data = parameter, data
        self.laplace = family == "laplace"
        self.shift = shift(parameter) if self.laplace else 0
        self.digit = min(self.shift, 5)
        self.low = self.shift - self.digit
        self._cuts: dict[tuple[str, int], list[Interval]] = {}

    def first_law(self, bits: int) -> tuple[Interval, ...]:
        law = laplace_first if self.laplace else gaussian_first
        return law(self.t, bits)

    def masses(self, which: str, bits: int) -> list[Interval]:
        """What the columns of a real table must hold."""
        if which == "whole":
            return [scaled(p, Fraction(2**self.digit)) for p in self.second_law(bits)]
        if which == "first":
            law, count = self.first_law(bits), units(self.data.first, 64)
            total, lost = 1 << 15, (0, 0)
        else:
            keep = minus(correction(self.t, bits), bits)
            law = [times(keep, p, bits) for p in self.second_law(bits)]
            count, total = units(self.data.second, 0), 1 << 13
            lost = correction(self.t, bits)
        columns = len(law)
        left = add((count[-1] << bits, count[-1] << bits))
        left = left[0] - lost[1] * total, left[1] - lost[0] * total
        result = []
        for p, n in zip(law, count, strict=False):
            lo, hi = p[0] * total - (n << bits), p[1] * total - (n << bits)
            result.append(over((max(lo, 0) * columns, hi * columns), left, bits))
        return result

    def second_law(self, bits: int) -> tuple[Interval, ...]:
        return laplace_second(self.t, bits)

    def cut(self, which: str, column: int, bits: int) -> Interval:
        if (which, bits) not in self._cuts:
            alias = {
                "first": self.data.first_rest,
                "second": self.data.second_rest,
                "whole": self.data.second_whole,
            }[which]
            self._cuts[which, bits] = cuts(self.masses(which, bits), alias, bits)
        return self._cuts[which, bits][column]

    # --- one lane ---

    def outcome(self, which: str, word: int | None, more: More, start: int) -> int:
        alias = {
            "first": self.data.first_rest,
            "second": self.data.second_rest,
            "whole": self.data.second_whole,
        }[which]
        word = word_of(more(start)) if word is None else word
        column = word % len(alias)
        if below(
            word >> 8, 56, more, lambda bits: self.cut(which, column, bits), start + 1
        ):
            return alias[column]
        return column

    def special_first(self, words: Words, more: More) -> int:
        """Return a special lane's sign and block number."""
        outcome = self.outcome("first", words.first, more, 0)
        if outcome not in ((0, 127) if self.laplace else (0,)):
            return outcome - 64
        if not self.laplace:
            return self.gaussian_tail(more)
        known = words.tail is not None
        g = self.signed_geometric(words.tail or 0, 64 if known else 0, more)
        return g - 63 if g < 0 else g + 63

    def signed_geometric(self, word: int, nbits: int, more: More) -> int:
        t, rate = self.t, 2**self.shift / self.t

        def decide(a: int, n: int) -> int | None:
            bits = precision(n)
            q = exp_minus(1 / t, bits)
            theta = over(q, add((1 << bits, 1 << bits), q), bits)
            where = side(a, n, *theta, bits)
            if where == 0:
                return None

            def edge(k: int, bits: int) -> Interval:
                power = exp_minus(k * rate, bits)
                if where == -1:
                    return times(theta, power, bits)
                return add(theta, times(minus(theta, bits), power, bits))

            k = step_of(a, n, edge)
            return k if k is None or where == 1 else ~k

        return read(word, nbits, more, decide, SECOND)

    def gaussian_tail(self, more: More) -> int:
        """Magnitudes from 64 by inversion on either half of a uniform."""
        sigma = self.t

        @lru_cache(maxsize=64)
        def beyond(k: int, bits: int) -> Interval:
            weights = (
                exp_minus((m * m - 64**2) / (2 * sigma**2), bits)
                for m in range(64 + k, 64 + k + 900)
            )
            lo, hi = add(*weights)
            return lo, hi + 1

        def decide(a: int, n: int) -> int | None:
            bits = precision(n)
            half = 1 << (bits - 1)
            where = side(a, n, half, half, bits)
            if where == 0:
                return None

            def edge(k: int, bits: int) -> Interval:
                lo, hi = over(beyond(k, bits), beyond(0, bits), bits)
                base = half if where == 1 else 0
                return base + lo // 2, base + -(-hi // 2)

            k = step_of(a, n, edge)
            return None if k is None else where * (64 + k)

        return read(0, 0, more, decide, SECOND)

    def special_second(self, words: Words, more: More) -> tuple[int, int]:
        """Return a special lane's second digit, and the low bits that are cleared."""
        clear = self.cleared(words, more)
        which = "whole" if clear else "second"
        return self.outcome(which, words.second, more, 2 * SECOND), clear

    def cleared(self, words: Words, more: More) -> int:
        r = self.low
        if r == 0:
            return 0
        chance = Fraction(1 << 13, units(self.data.second, 0)[-1])
        known = words.top is not None

        def sums(i: int, bits: int) -> Interval:
            """Chance of the first i sets, given a special lane."""
            if r > 3:
                return scaled(some_from(self.t, bits)[r - i], chance)
            total = (0, 0)
            for mask in range((1 << r) - 1, (1 << r) - 1 - i, -1):
                p = (1 << bits, 1 << bits)
                for k, c in enumerate(bit_law(self.t, bits)):
                    p = times(p, c if mask >> k & 1 else minus(c, bits), bits)
                total = add(total, p)
            return scaled(total, chance)

        most = r if r > 3 else (1 << r) - 1

        def decide(a: int, n: int) -> int | None:
            bits = precision(n)
            sides = [side(a, n, *sums(i, bits), bits) for i in range(1, most + 1)]
            first = next((i for i, s in enumerate(sides) if s != 1), most)
            return None if first < most and sides[first] == 0 else first

        place = read(words.top or 0, 64 if known else 0, more, decide, 3 * SECOND)
        if place == most:
            return 0
        if r <= 3:
            return (1 << r) - 1 - place
        return self.further(r - 1 - place, words, more)

    def further(self, limit: int, words: Words, more: More) -> int:
        """Return the bit `limit` and those that further copies set below it."""
        clear, i, r = 1 << limit, 0, self.low
        while limit > 0:
            known = i < len(words.copies)

            def decide(a: int, n: int) -> int | None:
                bits = precision(n)
                sides = [
                    side(a, n, *some_from(self.t, bits)[k], bits) for k in range(r)
                ]
                if 0 in sides:
                    return None
                return max((k for k in range(r) if sides[k] == -1), default=-1)

            word = words.copies[i] if known else 0
            k = read(word, 64 if known else 0, more, decide, (4 + i) * SECOND)
            if k < limit:
                clear |= 1 << k if k >= 0 else 0
                limit = max(k, 0)
            i += 1
        return clear

    def value(self, high: int, digit: int, low: int) -> int:
        """Put the parts together: the complement of all below when H is negative."""
        size = ~high if high < 0 else high
        size = (size << self.digit | digit) << self.low | low
        return -1 - size if high < 0 else size
