"""The exact resolver of selections in Python, which csrc/exact equals choice by choice.

Choices by inversion compare one uniform with enclosures of cumulative weights;
races compare enclosures of real-valued keys. Integers only, more bits until all is
decided. Conventions on bits are those of ``_exact``. Proofs:
``docs/proofs/selection.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from typing import TypeAlias

import numpy as np

from fastdp import _core
from fastdp._exact import Block, Uniform, exp_neg
from fastdp._selection import Choice, Noise, Weights

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


# --- inversion -------------------------------------------------------------------


def order(n: int) -> list[int]:
    """Return the n candidates in the order in which their weights are summed.

    They are the leaves of a tree with `BLOCK` children a node, passed in the order
    of (i mod `LANES`, i div `LANES`).
    """
    if n <= BLOCK:
        return sorted(range(n), key=lambda i: (i % LANES, i // LANES))
    within = order(BLOCK)
    nodes = order(-(-n // BLOCK))
    return [node * BLOCK + i for node in nodes for i in within if node * BLOCK + i < n]


def invert(
    gaps: Sequence[Fraction],
    weights: Sequence[Fraction],
    word: int,
    block: Block,
) -> int:
    """Return the i with sum(w[:i]) < U sum(w) <= sum(w[:i + 1]), w = weight exp(-gap).

    Parameters
    ----------
    gaps, weights : sequence of Fraction
        Of the candidates in the order of summation: gaps >= 0, weights > 0.
    word : int
        First 64 bits of U.
    block : callable
        Further bits of U.
    """
    u = Uniform(word, 64, block)
    bits = 128
    while True:
        found = _place(_masses(gaps, weights, bits), u)
        if found is not None:
            return found
        u.extend()
        bits *= 2


def _masses(
    gaps: Sequence[Fraction], weights: Sequence[Fraction], bits: int
) -> list[tuple[int, int]]:
    """Enclose 2**bits times the weights."""
    exps = {g: exp_neg(g.numerator, g.denominator, bits) for g in set(gaps)}
    masses = []
    for gap, weight in zip(gaps, weights, strict=True):
        low, high = exps[gap]
        num, den = weight.numerator, weight.denominator
        masses.append((low * num // den, -(-high * num // den)))
    return masses


def _place(masses: Iterable[tuple[int, int]], u: Uniform) -> int | None:
    """Return the place of the uniform in the cumulative masses, if it is certain."""
    masses = list(masses)
    total_low, total_high = (sum(ends) for ends in zip(*masses, strict=True))
    least, most = u.prefix * total_low, (u.prefix + 1) * total_high
    last = len(masses) - 1
    below = above = 0
    for i, (low, high) in enumerate(masses):
        before = above
        below, above = below + low, above + high
        if i == last or least < below << u.nbits:
            within = i == last or most <= below << u.nbits  # U < 1 bounds the last
            return i if within and before << u.nbits <= least else None
    raise AssertionError("there is a last candidate")


def even(count: int, word: int, block: Block) -> int:
    """Return floor(U count): uniform on 0 ... count - 1."""
    u = Uniform(word, 64, block)
    while True:
        low = u.prefix * count >> u.nbits
        if low == ((u.prefix + 1) * count - 1) >> u.nbits:
            return low
        u.extend()


# --- proposals ---------------------------------------------------------------------

#: Candidates whose integer bounds are summed together.
NODE = 128

#: 2**(f - 1) from above, in units of 2**-51: docs/proofs/selection.md, section 4.
_POWER = (0x4000009F6EA98, 0x2C5C9F1, 0xF5EAD6, 0x392A89, 0x93480, 0x1EC32)

#: Binary logarithm of the largest score's weight.
TOP = 51


#: Bits of depth beyond which no base weight makes up for a gap.
FAR = 2.0**16


def weight_bound(depth: float, mantissa: int | None = None) -> int:
    """Return an integer >= 2**TOP 2**-depth: the kernels' own.

    Roundings are part of the law of the words: depth to a multiple of 2**-24, ties to
    even. No number counts as a hopeless depth. With `mantissa`, the first 28 bits of a
    base weight in [1/2, 1), the bound of 2**TOP 2**-depth weight.
    """
    units = round((depth if depth < 53.0 else 53.0) * 2**24)
    power, f = units >> 24, ~units & (1 << 24) - 1
    part = _POWER[5]
    for coefficient in _POWER[4:0:-1]:
        part = coefficient + (f * part >> 24)
    bound = _POWER[0] + f * part
    if mantissa is not None:
        bound = ((bound >> 28) + 1) * (mantissa + 2)
    return (bound >> power) + 1


def node_order(n: int) -> list[int]:
    """Return the n candidates in the order in which their bounds are summed."""
    within = sorted(range(NODE), key=lambda i: (i % LANES, i // LANES))
    nodes = range(0, n, NODE)
    return [node + i for node in nodes for i in within if node + i < n]


def propose(bounds: Sequence[int], point: Uniform) -> int:
    """Return the place with sum(bounds[:i]) <= U sum(bounds) < sum(bounds[:i + 1])."""
    masses = [(w, w) for w in bounds]
    while (found := _place(masses, point)) is None:
        point.extend()
    return found


def accepts(gap: Fraction, share: Fraction, uniform: Uniform) -> bool:
    """Tell whether V < 2**TOP exp(-gap) share."""
    num, den = share.numerator, share.denominator

    def ratio(bits: int) -> tuple[int, int]:
        # Small shares of large weights keep their digits.
        more = max(num.bit_length() - den.bit_length() + TOP, 0)
        low, high = exp_neg(gap.numerator, gap.denominator, bits + TOP + more)
        return low * num // den >> more, -(-high * num // den >> more)

    return uniform.below(ratio)


# --- rows of candidates ------------------------------------------------------------

_LARGEST = Fraction(float.fromhex("0x1.fffffffffffffp+1023"))
_LOG2E = float.fromhex("0x1.71547652b82fep+0")
_ASK = 2**64 - 1
_SECOND_CHUNK = 2**31

#: First extension block of each of a row's reals, in this order.
_REAL = 1 << 20
_TRIES = 2


def score_of(choice: Choice, row: int, i: int) -> Fraction | None:
    """Return the exact score of a candidate; None if its weight is 0."""
    if not weight_of(choice, row, i):
        return None
    value = choice.scores[row, i].item()
    if isinstance(value, int):
        return Fraction(value)
    if math.isnan(value) or value == -math.inf:
        return None
    return _LARGEST if value == math.inf else Fraction(value)


def weight_of(choice: Choice, row: int, i: int) -> Fraction:
    """Return the exact weight of a candidate."""
    weights = choice.weights
    if weights is None:
        return Fraction(1)
    at = position(choice, row, i)
    if weights.exact is not None:
        return Fraction(weights.exact[at])
    power = 0
    if weights.exponent is not None and weights.mantissa[at]:
        power = int(weights.exponent[at]) + weights.top
    return Fraction(weights.mantissa[at].item()) * Fraction(2) ** power


def position(choice: Choice, row: int, i: int) -> int:
    """Return the flat position of a candidate's weight."""
    assert choice.weights is not None
    n = choice.scores.shape[1]
    return row * n + i if choice.weights.mantissa.size > n else i


def parts_of(weights: Weights, at: int) -> tuple[int, int]:
    """Return a weight times 2**-common: 28 bits of the mantissa, and the exponent.

    As the kernels know it: 0, 0 for a weight of 0.
    """
    mantissa, exponent = math.frexp(weights.mantissa[at])
    more = 0 if weights.exponent is None else int(weights.exponent[at])
    return int(mantissa * 2**28), exponent + more


def propose_row(choice: Choice, words: tuple[int, ...], block: Block) -> int:
    """Return the exact choice of a row by its tries, or else by inversion."""
    row, *tries = words
    order, bounds, place = bounds_of(choice, row)
    scores = [score_of(choice, row, i) for i in order]
    most = max((s for s in scores if s is not None), default=None)
    for j in range(_TRIES):
        point, reach = (
            Uniform(tries[real], 64, block, real * _REAL) for real in (2 * j, 2 * j + 1)
        )
        at = propose(bounds, point)
        score = scores[at]
        gap, weight = Fraction(0), Fraction(1, 2)
        if most is not None:
            if score is None:
                continue
            gap = choice.rate * (most - score)
            weight = weight_of(choice, row, order[at]) / Fraction(2) ** place
        elif choice.weights is None:
            weight = Fraction(1)
        if accepts(gap, weight / bounds[at], reach):
            return order[at]
    start = 2 * _TRIES * _REAL
    word = int.from_bytes(block(start)[:8], "little")
    return invert_row(choice, row, [], word, lambda k: block(start + 1 + k))


def bounds_of(choice: Choice, row: int) -> tuple[list[int], list[int], int]:
    """Return a row's candidates in the order of summation, their bounds, and the place.

    Bounds are of 2**51 exp(-c gap) weight 2**-place.
    """
    known = choice.scores[row]
    order = node_order(known.size)
    if known.dtype.kind == "f":
        known = np.minimum(known, np.finfo(np.float64).max)
    scores = known[order].tolist()
    rate = choice.rate.numerator / choice.rate.denominator * _LOG2E
    there = [score_of(choice, row, i) is not None for i in order]
    top = max((s for s, t in zip(scores, there, strict=True) if t), default=None)
    if top is None:
        # Without base weights 1, with them 1/2.
        half = choice.weights is not None
        bound = weight_bound(0.0, 2**27 if half else None)
        return order, [bound] * len(order), 0
    depths = [float(top - s) * rate for s in scores]
    if choice.weights is None:
        return order, [weight_bound(d) for d in depths], 0
    parts = [parts_of(choice.weights, position(choice, row, i)) for i in order]
    far = FAR
    depths = [d if d < far else far for d in depths]
    place = max(e - d for (_, e), d, t in zip(parts, depths, there, strict=True) if t)
    place = float(round(place + 0.5))
    bounds = [
        weight_bound((place - e) + d if m else far, m)
        for (m, e), d in zip(parts, depths, strict=True)
    ]
    return (
        order,
        bounds,
        int(place) + (0 if choice.weights.exponent is None else choice.weights.top),
    )


def settle_flip(choice: Choice, words: tuple[int, ...], block: Block) -> int:
    """Return whether a flip comes up, or the choice among those that did."""
    word, row, i = words
    if i == _ASK:
        return even(row, word, block)
    known = choice.scores[row]
    lost = np.isnan(known) | np.isneginf(known) if known.dtype.kind == "f" else None
    if lost is not None and lost.all():
        return 1
    score = score_of(choice, row, i)
    if score is None:
        return 0
    best = int(np.argmax(known if lost is None else np.where(lost, -np.inf, known)))
    most = score_of(choice, row, best)
    assert most is not None
    gap = choice.rate * (most - score)
    return int(accepts(gap, Fraction(1, 2**51), Uniform(word, 64, block)))


def invert_row(
    choice: Choice, row: int, taken: list[int], word: int, block: Block
) -> int:
    """Return the exact choice of a row among the candidates not yet taken."""
    n = choice.scores.shape[1]
    gone = set(taken)
    left = [i for i in order(n) if i not in gone]
    scores = {i: score_of(choice, row, i) for i in left}
    there = [(i, s) for i, s in scores.items() if s is not None]
    if not there:
        return sorted(left)[even(len(left), word, block)]
    most = max(s for _, s in there)
    gaps = [choice.rate * (most - s) for _, s in there]
    weights = [weight_of(choice, row, i) for i, _ in there]
    return there[invert(gaps, weights, word, block)][0]


def runners(
    choice: Choice,
    row: int,
    contenders: list[tuple[int, int, int]],
    noise: Noise,
    call: _core.Call,
    first: int = 0,
) -> list[Runner]:
    """Return the contenders (index, word, second word) of a row that have weight.

    If none has, all of them with equal keys but for the noise: the kernels name all
    candidates of a row then.
    """
    scores = {i: score_of(choice, row, i) for i, _, _ in contenders}
    most = max((s for s in scores.values() if s is not None), default=None)
    result = []
    for i, word, second in contenders:
        score = scores[i]
        if most is None:
            gap, weight = Fraction(0), Fraction(1)
        elif score is None:
            continue
        else:
            gap, weight = choice.rate * (most - score), weight_of(choice, row, i)
        blocks = blocks_of(call, first + row * choice.scores.shape[1] + i)
        result.append(Runner.of(i, gap, weight, noise, (word, second), blocks))
    return result


def blocks_of(call: _core.Call, draw: int) -> tuple[Block, Block]:
    """Return the further bits of a draw's two reals."""
    chunk, trial = divmod(draw, 4096)
    return (
        lambda k: call.extension(chunk, trial, k),
        lambda k: call.extension(chunk + _SECOND_CHUNK, trial, k),
    )
