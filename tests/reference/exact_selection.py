"""The exact resolver of inversion and proposals in Python: csrc/exact equals it.

Choices by inversion compare one uniform with enclosures of cumulative weights, in
integers alone, and read more bits until they are decided. Conventions on bits are
those of ``_exact``. Proofs: ``docs/proofs/selection.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from fastdp import _core
from fastdp._exact import Block, Uniform, exp_neg
from fastdp._selection import Choice, Noise, Weights
from tests.reference.exact_races import BLOCK, LANES, Runner

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
