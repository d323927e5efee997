"""Private selection from given words: by cumulative weights, and as a race.

Weights are intervals of integers. Keys of races are computed by mpmath at both ends
of the cells of the known bits, far more precisely than the cells are wide.
"""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import mpmath

from tests.reference.interval import More, exp_minus

Exact = Fraction | None  # a score; None: weight 0


@lru_cache(maxsize=8)
def tree_order(n: int) -> list[int]:
    """Candidates as the tree passes them: 512 children a node, 16 lanes."""
    levels = [n]
    while levels[-1] > 512:
        levels.append(-(-levels[-1] // 512))

    def leaves(level: int, node: int) -> list[int]:
        if level == 0:
            return [node]
        found: list[int] = []
        for lane in range(16):
            for child in range(512 * node + lane, 512 * node + 512, 16):
                if child < levels[level - 1]:
                    found += leaves(level - 1, child)
        return found

    return leaves(len(levels), 0)


def _read(blocks: More, count: int) -> tuple[int, int]:
    """Return the first `count` extension blocks as bits, and how many these are."""
    value = 0
    for k in range(count):
        raw = blocks(k)
        for half in (raw[:8], raw[8:]):
            value = value << 64 | int.from_bytes(half, "little")
    return value, 128 * count


def inverse(
    scores: Sequence[Exact],
    weights: Sequence[Fraction],
    c: Fraction,
    word: int,
    more: More,
    taken: Sequence[int] = (),
) -> int:
    """Return the first candidate, in the tree's order, up to which the weights of
    those not taken make up more than U of the whole."""
    left = [i for i in tree_order(len(scores)) if i not in taken]
    there = [i for i in left if scores[i] is not None and weights[i] > 0]
    if not there:
        there, scores, weights = sorted(left), [Fraction(0)] * len(scores), None
    count = 0
    while True:
        bits, got = _read(more, count)
        prefix, nbits = word << got | bits, 64 + got
        answer = _inverse_at(scores, weights, c, there, prefix, nbits)
        if answer is not None:
            return answer
        count = 2 * count + 1


def _inverse_at(scores, weights, c, there, prefix, nbits):
    precision = nbits + 128
    most = max(scores[i] for i in there)
    ends = []
    for i in there:
        lo, hi = exp_minus(c * (most - scores[i]), precision)
        w = Fraction(1) if weights is None else weights[i]
        scaled = w * 2**2300  # weights may be small: keep their digits
        ends.append((int(lo * scaled), int(hi * scaled) + 1))
    if weights is None or all(scores[i] == most for i in there):
        # No exponentials: the sums are rational, and so compared exactly.
        exact = [Fraction(1) if weights is None else weights[i] for i in there]
        total, below = sum(exact), Fraction(0)
        for i, w in zip(there, exact, strict=True):
            below += w
            if Fraction(prefix + 1, 2**nbits) * total <= below:
                start = below - w
                return i if Fraction(prefix, 2**nbits) * total >= start else None
        return None
    total_lo, total_hi = sum(e[0] for e in ends), sum(e[1] for e in ends)
    below_lo = below_hi = 0
    for i, (lo, hi) in zip(there, ends, strict=True):
        before = below_hi
        below_lo, below_hi = below_lo + lo, below_hi + hi
        if (prefix + 1) * total_hi <= below_lo << nbits:
            return i if prefix * total_lo >= before << nbits else None
    return None


# --- proposals by integer bounds ---------------------------------------------------


def nearest_even(x: Fraction) -> int:
    floor, rest = x // 1, x % 1
    return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2))


def double(x: Fraction) -> Fraction:
    """The nearest double of a number >= 0, infinity as 2**1100."""
    if x == 0:
        return x
    place = x.numerator.bit_length() - x.denominator.bit_length()
    unit = Fraction(2) ** max(place - 52 - (x < Fraction(2) ** place), -1074)
    rounded = nearest_even(x / unit) * unit
    return rounded if rounded < Fraction(2) ** 1024 else Fraction(2) ** 1100


@lru_cache(maxsize=8)
def bounds(
    scores: tuple[Exact, ...],
    c: Fraction,
    weights: tuple[Fraction, ...] | None = None,
    *,
    real: bool,
) -> tuple[list[int], int]:
    """The integer upper bounds of 2^51 w e^(-c gap) 2^-place, from their definition,
    and the place, 0 without base weights.

    `real`: the scores are doubles, whose differences are rounded. Every weight is a
    double times a power of 2.
    """
    kept = [w > 0 for w in weights] if weights else [True] * len(scores)
    there = [s for s, k in zip(scores, kept, strict=True) if s is not None and k]
    rate = double(double(c) * Fraction(float.fromhex("0x1.71547652b82fep+0")))
    depths = []
    for s, k in zip(scores, kept, strict=True):
        lost = s is None or not k
        depths.append(
            None if lost else double(double(max(there) - s) * rate) if there else 0
        )
    parts, place = [(None, 0)] * len(scores), 0
    if weights:
        parts = [(2**27, 0)] * len(scores)
    if weights and there:
        parts = [mantissa_of(w) for w in weights]
        depths = [d if d is None else min(d, Fraction(2**16)) for d in depths]
        known = zip(parts, depths, strict=True)
        most = max(signed(p[1] - d) for p, d in known if d is not None)
        place = nearest_even(signed(most + Fraction(1, 2)))
        depths = [
            d if d is None else double(place - p[1] + d)
            for p, d in zip(parts, depths, strict=True)
        ]
    result = []
    for (m, _), d in zip(parts, depths, strict=True):
        z = Fraction(0) if not there else Fraction(53) if d is None else min(d, 53)
        units = nearest_even(Fraction(z) * 2**24)
        f = 2**24 - 1 - units % 2**24
        t = 0x1EC32
        for coefficient in (0x93480, 0x392A89, 0xF5EAD6, 0x2C5C9F1):
            t = coefficient + f * t // 2**24
        power = 0x4000009F6EA98 + f * t
        if m is not None:
            power = (power // 2**28 + 1) * (m + 2)
        result.append(power // 2 ** (units // 2**24) + 1)
    return result, place


def signed(x: Fraction) -> Fraction:
    return double(x) if x >= 0 else -double(-x)


def mantissa_of(w: Fraction) -> tuple[int, int]:
    """The first 28 bits of w = m 2^e, m in [1/2, 1), and e; those of 0 are lost."""
    if w == 0:
        return 2**27, -(2**17)
    e = w.numerator.bit_length() - w.denominator.bit_length()
    e += w >= Fraction(2) ** e
    return w / Fraction(2) ** (e - 28) // 1, e


def propose(
    scores: Sequence[Exact],
    c: Fraction,
    words: Sequence[int],
    more: More,
    weights: Sequence[Fraction] | None = None,
    *,
    real: bool = True,
) -> int:
    """Return the first accepted of two proposals, else a choice by inversion.

    Reals 0 ... 3 begin with the words and go on with extension blocks from
    number * 2**20 on; the one of the inversion lies in blocks from 2**22 on.
    """
    n = len(scores)
    based = tuple(weights) if weights is not None else None
    masses, place = bounds(tuple(scores), c, based, real=real)
    passed = [
        i
        for node in range(0, n, 128)
        for lane in range(16)
        for i in range(node + lane, min(node + 128, n), 16)
    ]
    ones = [Fraction(1)] * n
    base = ones if weights is None else weights
    known = [s for s, w in zip(scores, base, strict=True) if s is not None and w]
    for j in (0, 1):
        i = _point(masses, passed, words[2 * j], _later(more, 2 * j << 20))
        if known and (scores[i] is None or not base[i]):
            continue
        gap = c * (max(known) - scores[i]) if known else Fraction(0)
        part = base[i] / Fraction(2) ** place if known else Fraction(1, 2)
        if weights is None:
            part = Fraction(1)
        later = _later(more, (2 * j + 1) << 20)
        if _accepted(gap, masses[i] / part, words[2 * j + 1], later):
            return i
    word = int.from_bytes(more(1 << 22)[:8], "little")
    return inverse(scores, base, c, word, _later(more, (1 << 22) + 1))


def _later(more: More, first: int) -> More:
    return lambda k: more(first + k)


def _point(weights: Sequence[int], passed: list[int], word: int, more: More) -> int:
    total, count = sum(weights), 0
    while True:
        bits, got = _read(more, count)
        low = (word << got | bits) * total
        below = 0
        for i in passed:
            below += weights[i] << (64 + got)
            if low < below:
                break
        if low + total <= below:
            return i
        count = 2 * count + 1


def _accepted(gap: Fraction, weight: Fraction, word: int, more: More) -> bool:
    """Whether V < 2^51 e^-gap / weight."""
    count = 0
    while True:
        bits, got = _read(more, count)
        nbits = 64 + got
        digits = nbits + 64 + max(0, weight.denominator.bit_length())
        lo, hi = exp_minus(gap, digits)
        v = (word << got | bits) * weight * Fraction(2) ** (digits - nbits - 51)
        if v + weight * Fraction(2) ** (digits - nbits - 51) <= lo:
            return True
        if v >= hi:
            return False
        count = 2 * count + 1


# --- permute-and-flip by its flips -------------------------------------------------


def flips(
    scores: Sequence[Exact],
    c: Fraction,
    words: Sequence[int],
    more: Callable[[int], More],
) -> int:
    """Return one of those whose flip came up: U_i < e^(-c gap), each alike by U_n."""
    best = max((s for s in scores if s is not None), default=None)
    up = []
    for i, s in enumerate(scores):
        if best is not None and s is None:
            continue
        gap = Fraction(0) if best is None else c * (best - s)
        # V < 2^51 e^-gap / 2^51
        if gap == 0 or _accepted(gap, Fraction(2**51), words[i], more(i)):
            up.append(i)
    count = 0
    while True:
        bits, got = _read(more(len(scores)), count)
        u = words[-1] << got | bits
        low, high = u * len(up), (u + 1) * len(up) - 1
        if low >> (64 + got) == high >> (64 + got):
            return up[low >> (64 + got)]
        count = 2 * count + 1


# --- races -----------------------------------------------------------------------


def _ends(noise: str, cells: list[tuple[int, int]], sign: int) -> list[object]:
    """Values of the noise at the ends of the cells, infinite at 0 and 1."""
    mp = mpmath.mp
    (a, n) = cells[0]
    us = [mpmath.mpf(a) / 2**n, mpmath.mpf(a + 1) / 2**n]
    if noise == "laplace":
        values = [mp.inf if u == 0 else -mp.log(u) for u in us]
    elif noise == "gumbel":
        es = [mp.inf if u == 1 else -mp.log1p(-u) for u in us]
        values = [mp.inf if e == 0 else -mp.log(e) for e in es]
    else:
        b, m = cells[1]
        sizes = [mp.inf if u == 1 else mp.sqrt(-2 * mp.log1p(-u)) for u in us]
        turns = [mp.cos(mp.pi / 2 * (b + d) / mpmath.mpf(2) ** m) for d in (0, 1)]
        values = [size * turn for size in sizes for turn in turns]
    return [-v if sign else v for v in values]


def key(
    score: Fraction,
    weight: Fraction,
    c: Fraction,
    noise: str,
    words: tuple[int, int],
    more: tuple[More, More],
    count: int,
) -> tuple[object, object]:
    """Enclose c score + noise + ln weight by `count` extension blocks."""
    word, second = words
    bits, got = _read(more[0], count)
    first = word >> 1 if noise == "laplace" else word
    nbits = 63 if noise == "laplace" else 64
    cells = [(first << got | bits, nbits + got)]
    sign = word & 1 if noise == "laplace" else 0
    if noise == "gaussian":
        bits, got = _read(more[1], count)
        cells.append(((second >> 1) << got | bits, 63 + got))
        sign = second & 1
    shift = c * score
    size = max(abs(shift).__ceil__().bit_length(), 1)
    with mpmath.workprec(3 * nbits + 3 * got + size + 200):
        ends = _ends(noise, cells, sign)
        move = mpmath.mpf(shift.numerator) / shift.denominator
        if weight != 1:
            move += mpmath.log(mpmath.mpf(weight.numerator) / weight.denominator)
        slack = mpmath.mpf(2) ** -(nbits + got + 100)
        return min(ends) + move - slack, max(ends) + move + slack


def race(
    scores: Sequence[Exact],
    weights: Sequence[Fraction],
    c: Fraction,
    noise: str,
    words: Sequence[tuple[int, int]],
    more: Callable[[int], tuple[More, More]],
) -> list[int]:
    """Return the candidates of positive weight by falling key (all, if none has)."""
    there = [i for i, s in enumerate(scores) if s is not None and weights[i] > 0]
    if not there:
        there = list(range(len(scores)))
        scores, weights = [Fraction(0)] * len(scores), [Fraction(1)] * len(scores)
    known = dict.fromkeys(there, 0)

    def bounds(i: int) -> tuple[object, object]:
        s, w = scores[i], weights[i]
        return key(s, w, c, noise, words[i], more(i), known[i])

    ends = {i: bounds(i) for i in there}
    while True:
        by_high = sorted(there, key=lambda i: ends[i][1], reverse=True)
        clash = [
            pair
            for pair in itertools.pairwise(by_high)
            if ends[pair[0]][0] < ends[pair[1]][1]
        ]
        if not clash:
            return by_high
        for i in {i for pair in clash for i in pair}:
            known[i] = 2 * known[i] + 1
            ends[i] = bounds(i)
