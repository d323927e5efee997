"""Laws drawn by alias digits, their tables and exact resolver: what csrc/exact equals.

Discrete Laplace noise of every scale and discrete Gaussian noise of small sigma are
made of *digits*. A digit takes two bytes to one of a few values by an alias table of
integers, or says that the lane is *special*: then the value comes from what the
integers leave of the law, by an alias table whose cuts are real numbers. Everything
here is integer arithmetic on enclosures; the law, the words and the proof are in
``docs/proofs/discrete_laplace.md`` and ``docs/proofs/discrete_gaussian.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeAlias

from fastdp._exact import Block, Enclosure, Uniform, exp_neg

#: First extension block of a trial's second uniform.
SECOND = 1 << 20

#: lo <= 2**bits x <= hi.
Pair: TypeAlias = tuple[int, int]

#: Largest scale of the first digit: beyond, low bits are drawn apart.
LAPLACE_DIGIT = 10

#: Largest sigma of the discrete Gaussian that one digit draws.
GAUSSIAN_DIGIT = Fraction(87, 10)

#: Columns of the first digit's tables.
COLUMNS = 128

#: Bits of the second digit, at most.
DIGIT = 5

#: Columns of the second digit's tables.
COLUMNS_SECOND = 1 << DIGIT

#: Low bits that share a byte with the second digit's column, at most.
SPARE = 3

#: Words for further corrections of the low bits, when there are more than SPARE.
COPIES = 4

#: Where the value of a column is "special".
SPECIAL = 0x80

_START = 256
_LIMIT = 1 << 16
_HUGE = 1e300


# --- alias tables -----------------------------------------------------------------


def integer_columns(counts: Sequence[int]) -> tuple[bytes, bytes]:
    """Spread integer counts over as many columns of 256 units, the rest special.

    Returns (cut, alias): a draw of column c and u in 0..255 is alias[c] if u <= cut[c],
    else c, so that outcome i has counts[i] units and `SPECIAL` what is left.
    """
    left = dict(enumerate(counts))
    cut, alias = bytearray(len(left)), bytearray(len(left))
    donor, units = SPECIAL, 256 * len(left) - sum(counts)
    while left:
        # n open outcomes and the donor have 256 n units together
        low = min(left, key=left.__getitem__)
        if left[low] <= 255 and 256 - left[low] <= units:
            cut[low], alias[low] = 255 - left[low], donor
            units -= 256 - left.pop(low)
            continue
        # the largest outcome has at least 256 - units: its column takes the donor's
        # rest, and what it has beyond that column makes it the next donor
        high = max(left, key=left.__getitem__)
        cut[high], alias[high] = (units - 1, donor) if units else (255, high)
        donor, units = high, left.pop(high) - (256 - units)
    return bytes(cut), bytes(alias)


@dataclass(frozen=True, slots=True)
class Rest:
    """A law on the columns' numbers by real cuts: column c is alias[c] below its cut.

    `order` closes every column after those that it is the alias of; `floor` are the
    floors of 2**56 times the cuts.
    """

    alias: bytes
    order: tuple[int, ...]
    floor: tuple[int, ...] = ()

    @property
    def entries(self) -> list[int]:
        """The kernels' table: 56 bits of the cut, then the alias."""
        return [cut << 8 | a for cut, a in zip(self.floor, self.alias, strict=True)]


def real_cuts(masses: Sequence[Pair], rest: Rest, bits: int) -> list[Pair]:
    """Enclose the cuts: 1 - mass + the cuts of the columns that it is the alias of."""
    cut, mass, one = [(0, 0)] * len(masses), list(masses), 1 << bits
    for column in rest.order[:-1]:
        lo, hi = mass[column]
        # every cut lies in [0, 1]: real_columns has verified that
        cut[column] = low, high = max(one - hi, 0), min(one - lo, one)
        lo, hi = mass[rest.alias[column]]
        mass[rest.alias[column]] = lo - high, hi - low
    return cut  # the last column is all its own: the masses sum to their number


def real_columns(masses: Callable[[int], Sequence[Pair]]) -> Rest:
    """Return the alias table of positive masses whose sum is their number (Walker)."""
    bits = _START
    mass, one = list(masses(bits)), 1 << bits
    columns = range(len(mass))
    alias, order = bytearray(columns), []
    small = [i for i in columns if mass[i][1] <= one]
    large = [i for i in columns if mass[i][0] >= one]
    while len(small) + len(large) > 1:
        column, giver = small.pop(), large[-1]
        alias[column] = giver
        order.append(column)
        (lo, hi), (low, high) = mass[column], mass[giver]
        # the column's mass is at most 1 and the giver's at least 1, so that what is
        # left to the giver is not negative
        mass[giver] = low - one + max(lo, 0), high - one + hi
        if mass[giver][0] < one:
            small.append(large.pop())
            if mass[giver][1] > one and small[:-1] + large:
                raise AssertionError("a mass is too near 1")
    if len(order) != len(columns) - 1:
        raise AssertionError("a mass is too near 1")
    rest = Rest(bytes(alias), (*order, *small, *large))
    return replace(rest, floor=_floors(lambda n: real_cuts(masses(n), rest, n), 56))


def _floor(pair: Pair, bits: int, to: int) -> int | None:
    """Return floor(2**to x) of a real below 1, if its enclosure fixes it."""
    lo, hi = (min(end >> (bits - to), (1 << to) - 1) for end in pair)
    return lo if lo == hi else None


def _floors(pairs: Callable[[int], Sequence[Pair]], to: int) -> tuple[int, ...]:
    bits = _START
    while bits <= _LIMIT:
        floors = [_floor(pair, bits, to) for pair in pairs(bits)]
        if None not in floors:
            return tuple(map(int, floors))  # type: ignore[arg-type]
        bits *= 2
    raise AssertionError(f"a threshold is too near a multiple of 2**-{to}")


# --- enclosures -------------------------------------------------------------------


def _times(a: Pair, b: Pair, bits: int) -> Pair:
    return a[0] * b[0] >> bits, -(-a[1] * b[1] >> bits)


def _over(a: Pair, b: Pair, bits: int) -> Pair:
    return (a[0] << bits) // b[1], -(-(a[1] << bits) // b[0])


def _less(a: Pair, bits: int) -> Pair:
    """Enclose 1 - a."""
    return (1 << bits) - a[1], (1 << bits) - a[0]


def _powers(rate: Fraction, count: int, bits: int) -> list[Pair]:
    """Enclose exp(-rate * k) for k = 0 ... count - 1."""
    q = exp_neg(rate.numerator, rate.denominator, bits)
    result = [(1 << bits, 1 << bits)]
    for _ in range(count - 1):
        result.append(_times(result[-1], q, bits))
    return result


def _left_over(p: Pair, count: int, scale: int, bits: int) -> Pair:
    """Enclose scale * p - count, which is positive."""
    return max(scale * p[0] - (count << bits), 0), scale * p[1] - (count << bits)


# --- laws -------------------------------------------------------------------------


class Digits(ABC):
    """A law made of digits, at one parameter.

    Attributes
    ----------
    shift : int
        Bits of the value below the first digit, j.
    low : int
        Those of them that are drawn one by one, r.
    first : tuple of bytes
        Integer columns of the first digit, whose outcome v + 64 is the value v.
    second : tuple of bytes
        The same of the second digit, 32 columns, if shift > 0.
    """

    shift = 0
    low = 0
    tails: tuple[int, ...] = ()  #: outcomes that stand for many

    @abstractmethod
    def first_law(self, bits: int) -> list[Pair]:
        """Enclose the probabilities of the first digit's 128 outcomes."""

    @abstractmethod
    def tail(self, outcome: int, word: int, nbits: int, block: Block) -> int:
        """Return the first digit's value of an outcome that stands for many."""

    @property
    def second(self) -> tuple[bytes, bytes]:
        """Integer columns of the second digit, if there is one."""
        return b"", b""

    @cached_property
    def first_counts(self) -> tuple[int, ...]:
        return tuple(
            0 if i in self.tails else lo >> (_START - 15)
            for i, (lo, _) in enumerate(self.first_law(_START))
        )

    @cached_property
    def first(self) -> tuple[bytes, bytes]:
        """The kernels' columns of the first digit: aliases are bytes of values v."""
        cut, alias = integer_columns(self.first_counts)
        return cut, bytes(a if a == SPECIAL else (a - 64) & 255 for a in alias)

    def first_masses(self, bits: int) -> list[Pair]:
        """Enclose 128 times what the integers leave of the first digit's law."""
        counts = self.first_counts
        units = (1 << 15) - sum(counts)
        pairs = (
            _left_over(p, n, 1 << 15, bits)
            for p, n in zip(self.first_law(bits), counts, strict=True)
        )
        return [(128 * lo // units, -(-128 * hi // units)) for lo, hi in pairs]

    @cached_property
    def first_rest(self) -> Rest:
        return real_columns(self.first_masses)

    def geometric(self) -> tuple[int, float, float, float] | None:
        """Return what the kernel needs of the tails: floor(2^64 theta), the scale,
        1 / (1 - theta) and 1 / theta; None if the resolver draws them.
        """
        return None

    @property
    def second_rest(self) -> Rest:
        return Rest(b"", ())

    @property
    def second_whole(self) -> Rest:
        return Rest(b"", ())

    @property
    def masks(self) -> tuple[int, ...]:
        return ()

    @property
    def top_floors(self) -> tuple[int, ...]:
        return ()

    @property
    def copy_floors(self) -> tuple[int, ...]:
        return ()

    def chance(self) -> tuple[float, float]:
        """Return the probabilities that a lane is special, by digit."""
        return 1 - sum(self.first_counts) / 2**15, 0.0

    # --- the resolver ---

    def settle(self, words: Sequence[int], block: Block) -> int:
        """Return the exact value of a lane.

        `words` are [flags, first, tail, second, top, copies ..., low]: flag 1 (4) says
        that the first (second) digit is special and 2 (8) that its words are known;
        else the digit's value is given. docs/proofs/discrete_laplace.md, section 4.
        """
        flags, first, tail = words[0], words[1], words[2]
        if not flags & 1:
            return self._lower(first - (first >> 63 << 64), words, block)
        known = bool(flags & 2)
        outcome = _outcome(self.first_masses, self.first_rest, known, first, block, 0)
        if outcome in self.tails:
            nbits = 64 if known else 0
            return self._lower(
                self.tail(outcome, tail if known else 0, nbits, block), words, block
            )
        return self._lower(outcome - 64, words, block)

    def _lower(self, high: int, words: Sequence[int], block: Block) -> int:
        return high


def _outcome(
    masses: Callable[[int], list[Pair]],
    rest: Rest,
    known: bool,
    word: int,
    block: Block,
    start: int,
) -> int:
    """Return the outcome of a word: a uniform of 56 bits or more, a byte of column."""
    if not known:
        word = int.from_bytes(block(start)[:8], "little")
    column = word % len(rest.alias)
    u = Uniform(word >> 8, 56, block, start + 1)
    below = u.below(lambda bits: real_cuts(masses(bits), rest, bits)[column])
    return rest.alias[column] if below else column


class Laplace(Digits):
    """Discrete Laplace noise of scale t: sign and size by one digit, and lower bits.

    The value is H 2^j + L or its complement. H is geometric of scale t / 2^j, which is
    at most 10; L's first bits are the second digit and its last r bits fair ones, of
    which those of a *correction* are cleared.
    """

    tails = (0, 127)  # 63 and more, of either sign, in two equal parts

    def __init__(self, t: Fraction) -> None:
        self.t = t
        j = 0
        while t > LAPLACE_DIGIT << j:
            j += 1
        self.shift, self.low = j, max(j - DIGIT, 0)

    def first_law(self, bits: int) -> list[Pair]:
        return list(_laplace_first(self.t, self.shift, bits))

    def tail(self, outcome: int, word: int, nbits: int, block: Block) -> int:
        value = signed_geometric(
            self.t, self.shift, Uniform(word, nbits, block, SECOND)
        )
        return value + 63 if value >= 0 else value - 63

    def geometric(self) -> tuple[int, float, float, float]:
        num, den = self.t.numerator, self.t.denominator
        (theta,) = _floors(lambda bits: [flip(num, den, bits)], 64)
        return theta, num / (den << self.shift), *_inverse_parts(num, den)

    # --- the second digit and the low bits ---

    @property
    def outcomes(self) -> int:
        """Values of the second digit."""
        return 1 << min(self.shift, DIGIT)

    def second_law(self, bits: int) -> list[Pair]:
        """Enclose P(D = d), in proportion to exp(-d 2^r / t)."""
        return list(_laplace_second(self.t, self.shift, self.low, bits))

    def corrections(self, bits: int) -> list[Pair]:
        """Enclose P(some of c_k, ..., c_(r-1) is 1) for k = 0 ... r - 1."""
        return list(_corrections(self.t, self.low, bits))

    def correction(self, bits: int) -> Pair:
        """Enclose P(some c_k is 1)."""
        return self.corrections(bits)[0] if self.low else (0, 0)

    @cached_property
    def second_counts(self) -> tuple[int, ...]:
        keep = _less(self.correction(_START), _START)
        law = self.second_law(_START)
        counts = [_times(keep, p, _START)[0] >> (_START - 13) for p in law]
        return (*counts, *[0] * (COLUMNS_SECOND - self.outcomes))

    @property
    def second(self) -> tuple[bytes, bytes]:
        return integer_columns(self.second_counts)

    @property
    def second_units(self) -> int:
        """Units of 2**-13 that the integers leave of the second digit."""
        return (1 << 13) - sum(self.second_counts)

    def second_masses(self, bits: int) -> list[Pair]:
        """Enclose what they leave of the digits that are not corrected, likewise."""
        c = self.correction(bits)
        keep = _less(c, bits)
        units = self.second_units
        left = (units << bits) - (c[1] << 13), (units << bits) - (c[0] << 13)
        pairs = [
            _left_over(_times(keep, p, bits), n, 1 << 13, bits)
            for p, n in zip(self.second_law(bits), self.second_counts, strict=False)
        ]
        scaled = [_over(pair, left, bits) for pair in pairs]
        return self._scaled(scaled)

    def whole_masses(self, bits: int) -> list[Pair]:
        """Enclose P(D = d) times the number of digits."""
        return self._scaled(self.second_law(bits))

    def _scaled(self, law: list[Pair]) -> list[Pair]:
        return [(lo * self.outcomes, hi * self.outcomes) for lo, hi in law]

    @property
    def second_rest(self) -> Rest:
        return _second_rest(self.t)

    @property
    def second_whole(self) -> Rest:
        return _second_whole(self.t)

    @property
    def masks(self) -> tuple[int, ...]:
        """What the first thresholds of a correction clear: all sets of few bits, or
        the highest of many.
        """
        r = self.low
        return tuple(
            range((1 << r) - 1, 0, -1)
            if r <= SPARE
            else [1 << k for k in range(r - 1, -1, -1)]
        )

    def top(self, bits: int) -> list[Pair]:
        """Enclose the thresholds that choose among `masks`, given a special lane."""
        r, units = self.low, self.second_units
        if r > SPARE:
            sums = self.corrections(bits)[::-1]
        else:
            one = _one_by_one(self.t, r, bits)
            sums, total = [], (0, 0)
            for mask in self.masks:
                p = (1 << bits, 1 << bits)
                for k in range(r):
                    p = _times(
                        p, one[k] if mask >> k & 1 else _less(one[k], bits), bits
                    )
                total = total[0] + p[0], total[1] + p[1]
                sums.append(total)
        return [((lo << 13) // units, -(-(hi << 13) // units)) for lo, hi in sums]

    @property
    def top_floors(self) -> tuple[int, ...]:
        return _floors(self.top, 64)

    @property
    def copy_floors(self) -> tuple[int, ...]:
        if self.low <= SPARE:
            return ()
        return _floors(lambda bits: self.corrections(bits)[::-1], 64)

    def chance(self) -> tuple[float, float]:
        return super().chance()[0], self.second_units / 2**13 if self.shift else 0.0

    def _lower(self, high: int, words: Sequence[int], block: Block) -> int:
        if not self.shift:
            return high
        flags, second, top = words[0], words[3], words[4]
        clear = 0
        if flags & 4:
            known = bool(flags & 8)
            nbits = 64 if known else 0
            u = Uniform(top if known else 0, nbits, block, 3 * SECOND)
            clear = self._first_mask(u)
            masses, rest = (
                (self.whole_masses, self.second_whole)
                if clear
                else (self.second_masses, self.second_rest)
            )
            digit = _outcome(masses, rest, known, second, block, 2 * SECOND)
            if clear and self.low > SPARE:
                copies = words[5 : 5 + COPIES] if known else ()
                clear |= self._further(clear.bit_length() - 1, copies, block)
        else:
            digit = second
        r = self.low
        rest_bits = words[5 + COPIES] & ((1 << r) - 1) & ~clear
        lower = digit << r | rest_bits
        return (high << self.shift) | (
            lower ^ (((1 << self.shift) - 1) if high < 0 else 0)
        )

    def _first_mask(self, u: Uniform) -> int:
        for i, mask in enumerate(self.masks):
            if u.below(_entry(self.top, i)):
                return mask
        return 0

    def _further(self, limit: int, copies: Sequence[int], block: Block) -> int:
        """Return the set bits below the highest, each the highest of a fresh copy."""
        clear, i = 0, 0
        thresholds = lambda bits: self.corrections(bits)  # noqa: E731
        while limit > 0:
            known = i < len(copies)
            u = Uniform(
                copies[i] if known else 0, 64 if known else 0, block, (4 + i) * SECOND
            )
            k = self.low - 1
            while k >= 0 and not u.below(_entry(thresholds, k)):
                k -= 1
            if k < limit:
                clear |= 1 << k if k >= 0 else 0
                limit = max(k, 0)
            i += 1
        return clear


@lru_cache(maxsize=1024)
def _second_rest(t: Fraction) -> Rest:
    return real_columns(Laplace(t).second_masses)


@lru_cache(maxsize=1024)
def _second_whole(t: Fraction) -> Rest:
    return real_columns(Laplace(t).whole_masses)


def _inverse_parts(num: int, den: int) -> tuple[float, float]:
    """Return 1 + q and min(1 + 1/q, 1e300) to nearest, q = exp(-den/num)."""
    steep = den > 691 * num  # exp(691) = 1.2e300
    bits = 128 if steep else 128 + 2 * (den // num)
    while True:
        lo, hi = exp_neg(den, num, bits)
        one = 1 << bits
        first = (one + lo) / one
        if first == (one + hi) / one:
            if steep:
                return first, _HUGE
            second = min((one + lo) / lo, _HUGE)
            if second == min((one + hi) / hi, _HUGE):
                return first, second
        bits += 64


def _entry(pairs: Callable[[int], list[Pair]], i: int) -> Enclosure:
    return lambda bits: pairs(bits)[i]


@lru_cache(maxsize=8)
def _laplace_first(t: Fraction, j: int, bits: int) -> tuple[Pair, ...]:
    q = _powers((1 << j) / t, 64, bits)
    theta = flip(t.numerator, t.denominator, bits)
    first = _less(q[1], bits)
    side = _times(_less(theta, bits), first, bits), _times(theta, first, bits)
    # half of q^63 for either number of the tail
    half = q[63][0] >> 1, (q[63][1] + 1) >> 1
    down = [_times(side[1], q[~v], bits) for v in range(-63, 0)]
    up = [_times(side[0], q[v], bits) for v in range(63)]
    return (half, *down, *up, half)


@lru_cache(maxsize=8)
def _laplace_second(t: Fraction, j: int, r: int, bits: int) -> tuple[Pair, ...]:
    weights = _powers((1 << r) / t, 1 << (j - r), bits)
    total = sum(lo for lo, _ in weights), sum(hi for _, hi in weights)
    return tuple(_over(w, total, bits) for w in weights)


def _one_by_one(t: Fraction, r: int, bits: int) -> list[Pair]:
    """Enclose P(c_k = 1) = tanh(2^k / 2t), k < r."""
    one = 1 << bits
    result = []
    for k in range(r):
        lo, hi = exp_neg((t.denominator << k), t.numerator, bits)
        result.append(_over((one - hi, one - lo), (one + lo, one + hi), bits))
    return result


@lru_cache(maxsize=8)
def _corrections(t: Fraction, r: int, bits: int) -> tuple[Pair, ...]:
    none = (1 << bits, 1 << bits)
    result = []
    for p in reversed(_one_by_one(t, r, bits)):
        none = _times(none, _less(p, bits), bits)
        result.append(_less(none, bits))
    return tuple(result[::-1])


def signed_geometric(t: Fraction, j: int, u: Uniform) -> int:
    """Return ~G below theta and G above it: theta = P(X < 0) at scale t, and G
    geometric of scale t / 2^j on either side.
    """
    num, den = t.numerator, t.denominator
    negative = u.below(lambda bits: flip(num, den, bits))

    def threshold(k: int, bits: int) -> Pair:
        theta = flip(num, den, bits)
        power = exp_neg(k * den << j, num, bits)
        if negative:
            return _times(theta, power, bits)
        lo, hi = _times(_less(theta, bits), power, bits)
        return lo + theta[0], hi + theta[1]

    def guess(x: int, bits: int) -> float:
        lo, _ = flip(num, den, bits)
        part, whole = (x, lo) if negative else (x - lo, (1 << bits) - lo)
        if part <= 0 or whole <= 0:
            return 0.0
        log = math.log(whole) - math.log(part)
        return max(log, 0.0) * (num / (den << j))

    g = level(u, threshold, guess)
    return ~g if negative else g


class Gaussian(Digits):
    """Discrete Gaussian noise of small sigma: values to 63, and one for all beyond."""

    tails = (0,)

    def __init__(self, sigma: Fraction) -> None:
        self.sigma = sigma

    def first_law(self, bits: int) -> list[Pair]:
        return list(_gaussian_first(self.sigma, bits))

    def tail(self, outcome: int, word: int, nbits: int, block: Block) -> int:
        """Magnitude by inversion on two equal halves, the sign that of the half."""
        u = Uniform(0, 0, block, SECOND)
        negative = u.below(lambda bits: (1 << (bits - 1), 1 << (bits - 1)))

        def threshold(k: int, bits: int) -> Pair:
            lo, hi = _over(
                _gaussian_sum(self.sigma, 64 + k, bits),
                _gaussian_sum(self.sigma, 64, bits),
                bits,
            )
            half = 0 if negative else 1 << (bits - 1)
            return half + (lo >> 1), half + ((hi + 1) >> 1)

        m = 64 + level(u, threshold, lambda x, bits: 0.0)
        return -m if negative else m


@lru_cache(maxsize=64)
def _gaussian_sum(sigma: Fraction, start: int, bits: int) -> Pair:
    """Enclose the sum of exp((64^2 - m^2) / (2 sigma^2)) over m >= start >= 64."""
    num, den = sigma.numerator**2, sigma.denominator**2
    low = high = 0
    m = start
    while True:
        lo, hi = exp_neg((m * m - 64 * 64) * den, 2 * num, bits)
        low, high = low + lo, high + hi
        if lo == 0:
            # every further term is below 0.45 of the one before it
            return low, high + hi
        m += 1


@lru_cache(maxsize=8)
def _gaussian_first(sigma: Fraction, bits: int) -> tuple[Pair, ...]:
    num, den = sigma.numerator**2, sigma.denominator**2
    half = [exp_neg(m * m * den, 2 * num, bits) for m in range(65)]
    lo, hi = _times(half[64], _gaussian_sum(sigma, 64, bits), bits)
    weights = [(2 * lo, 2 * hi), *half[63:0:-1], *half[:64]]
    total = sum(lo for lo, _ in weights), sum(hi for _, hi in weights)
    return tuple(_over(w, total, bits) for w in weights)


# --- entry ------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def laplace(t: Fraction) -> Laplace:
    """Return the digits of the discrete Laplace law of scale `t`."""
    return Laplace(t)


# --- uniforms between thresholds -----------------------------------------------------


def level(
    u: Uniform,
    threshold: Callable[[int, int], tuple[int, int]],
    guess: Callable[[int, int], float],
) -> int:
    """Return the k >= 0 with threshold(k + 1) < real <= threshold(k).

    Parameters
    ----------
    threshold : callable
        ``threshold(k, bits)`` encloses the k-th threshold, which decreases
        to the infimum of the possible reals; the 0-th is their supremum.
    guess : callable
        ``guess(x, bits)`` is about the k of the real x * 2**-bits. It only
        saves time: the answer is verified.
    """
    while True:
        low, high, bits = u.cell()
        k = max(math.floor(guess((low + high) >> 1, bits)), 0)
        while True:
            lo, hi = threshold(k + 1, bits)
            if high <= lo:
                k += 1
                continue
            if low < hi:
                break
            if k == 0:
                return 0
            lo, hi = threshold(k, bits)
            if high <= lo:
                return k
            if low < hi:
                break
            k -= 1
        u.extend()


def minus_log(x: int, bits: int) -> float:
    """About -ln(x * 2**-bits), for 0 < x < 2**bits of any size."""
    ratio = x / (1 << bits)
    if ratio > 1e-300:
        return -math.log(ratio)
    return bits * math.log(2.0) - math.log(x)


@lru_cache(maxsize=256)
def flip(num: int, den: int, bits: int) -> tuple[int, int]:
    """Enclose theta = q / (1 + q), q = exp(-den/num): P(X < 0) at scale num/den."""
    lo, hi = exp_neg(den, num, bits)
    one = 1 << bits
    return (lo << bits) // (one + lo), -(-(hi << bits) // (one + hi))
