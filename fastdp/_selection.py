"""Private selection behind the mechanisms: checked candidates, kernels, resolvers.

The laws and the words are in ``docs/proofs/selection.md``. Nothing here looks at a
score but to settle a choice that the kernels leave undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _exact_selection, _validate
from fastdp._exact import Block, Uniform
from fastdp._exact_selection import Noise, Runner
from fastdp._stream import Stream
from fastdp.exceptions import DTypeError, ParameterError

_Array: TypeAlias = "np.ndarray[Any, Any]"

Method: TypeAlias = Literal["auto", "inverse", "gumbel"]

#: Supported rates c: products with differences of doubles keep their precision.
RATES = (Fraction(1, 2**900), Fraction(2**900))

#: Most candidates that a worker handles between two looks at pending signals.
_SLAB = 1 << 24

_LARGEST = Fraction(np.finfo(np.float64).max)
_HALF = 2.0**-53
_LOG2E = float.fromhex("0x1.71547652b82fep+0")
_ASK = 2**64 - 1
_SECOND_CHUNK = 2**31


# --- candidates -----------------------------------------------------------------


def scores_of(
    name: str, scores: object, axis: int = -1
) -> tuple[_Array, tuple[int, ...]]:
    """Return scores as a C-contiguous matrix of float64 or int64, and its outer shape.

    Raises
    ------
    DTypeError, ParameterError
        Not an array of real numbers, or without candidates along `axis`.
    """
    real = isinstance(scores, np.ndarray) and scores.dtype.kind == "f"
    array = _arrays.data(name, scores, real=real)
    if array.ndim == 0:
        raise ParameterError(f"{name} must have at least one dimension")
    axis = _validate.integer("axis", axis, -array.ndim, array.ndim - 1)
    if axis not in (-1, array.ndim - 1):
        array = np.moveaxis(array, axis, -1)
    shape, n = array.shape[:-1], array.shape[-1]
    if n == 0:
        raise ParameterError(f"{name} must have at least one candidate along the axis")
    dtype = np.float64 if real else np.int64
    rows = math.prod(shape)
    return np.ascontiguousarray(array, dtype).reshape(rows, n), shape


@dataclass(frozen=True, eq=False)
class Weights:
    """Exact linear weights of candidates, with roundings for the kernels.

    Attributes
    ----------
    mantissa, exponent : ndarray of float64, shape (n,) or (rows, n)
        mantissa * 2**exponent is proportional to the weight, to nearest; the mantissa
        is 0 or in [1/2, 1), the exponent an integer in (-2**14, 0]; that of 0 is
        -2**17. Without exponents
        (None) the mantissas are doubles >= 0, which the kernels take apart.
    exact : callable
        ``exact(position)`` is the exact weight at a flat position.
    rounded : bool
        Some weight is not mantissa * 2**exponent up to the common factor.
    spread : float
        At least log2 of the ratio of the largest and least positive weights.
    top : int
        The largest weight is in [1/2, 1) 2**top; mantissa * 2**exponent is that times
        2**-top.
    """

    mantissa: _Array
    exponent: _Array | None
    exact: Callable[[int], Fraction]
    rounded: bool
    spread: float
    top: int = 0

    @classmethod
    def of(
        cls, name: str, weights: object, shape: tuple[int, ...], axis: int
    ) -> Weights:
        """Return checked weights that broadcast to the shape of the scores.

        Raises
        ------
        DTypeError, ParameterError
            A weight is not a real number, not finite or negative, or the shape is
            wrong.
        """
        array = (
            weights if isinstance(weights, np.ndarray) else np.array(weights, object)
        )
        if hasattr(array, "mask"):  # which would be lost on the way
            raise DTypeError(
                f"{name} must not be a masked array: {name}.filled(0) leaves out what "
                "is masked"
            )
        try:
            whole = np.broadcast_to(array, shape)
        except ValueError:
            raise ParameterError(
                f"{name} must broadcast to the shape of the scores, {shape}, "
                f"got {array.shape}"
            ) from None
        back = axis - len(shape)
        if array.size == (array.shape[back] if array.ndim >= -back else 1):
            # The same for every row.
            array = np.broadcast_to(array.reshape(-1), (shape[axis],))
        else:
            array = np.moveaxis(whole, axis, -1).reshape(-1)
        if array.dtype.kind == "O":
            return cls._rationals([_validate.nonnegative(name, w) for w in array])
        return cls.numbers(
            _arrays.data(name, array, real=array.dtype.kind == "f"), name
        )

    @classmethod
    def numbers(cls, array: _Array, name: str = "weights") -> Weights:
        """Return the weights of a contiguous array of finite numbers >= 0."""
        doubles = array.astype(np.float64, copy=False)
        found = _core.weights_range(doubles)
        if found is None:
            raise ParameterError(f"{name} must be finite and >= 0")
        top, spread = found
        # 2**53 is not known to have been 2**53.
        large = array.dtype.kind != "f" and top > 53

        def exact(i: int) -> Fraction:
            return Fraction(array[i].item())

        return cls(doubles, None, exact, large, spread, top)

    @property
    def common(self) -> int:
        """The power of 2 that `parts` leave out."""
        return 0 if self.exponent is None else self.top

    def parts(self, position: int) -> tuple[int, int]:
        """Return a weight times 2**-common: 28 bits of the mantissa, and the exponent.

        As the kernels know it: 0, 0 for a weight of 0.
        """
        mantissa, exponent = math.frexp(self.mantissa[position])
        more = 0 if self.exponent is None else int(self.exponent[position])
        return int(mantissa * 2**28), exponent + more

    @classmethod
    def _rationals(cls, weights: list[Fraction]) -> Weights:
        mantissa = np.zeros(len(weights))
        exponent = np.zeros(len(weights))
        for i, w in enumerate(weights):
            power = w.numerator.bit_length() - w.denominator.bit_length()
            scaled = w / Fraction(2) ** power
            mantissa[i], extra = math.frexp(scaled.numerator / scaled.denominator)
            exponent[i] = power + extra if w else 0
        rounded = any(
            Fraction(m) * Fraction(2) ** int(e) != w
            for m, e, w in zip(mantissa, exponent, weights, strict=True)
        )
        # The largest exponent becomes 0: a common factor changes no law.
        top = int(exponent[mantissa > 0].max(initial=-(2**14)))
        exponent -= top
        exponent[mantissa == 0] = -(2**17)
        spread = 1.0 - float(exponent[mantissa > 0].min(initial=0.0))
        return cls(mantissa, exponent, weights.__getitem__, rounded, spread, top)


@dataclass(frozen=True, eq=False)
class Choice:
    """A law of choice and its candidates.

    Attributes
    ----------
    rate : Fraction
        c: scores count as c times their value.
    scores : ndarray of float64 or int64, shape (rows, n)
        From `scores_of`.
    weights : Weights, optional
        None: all are 1.
    """

    rate: Fraction
    scores: _Array
    weights: Weights | None = None

    def score(self, row: int, i: int) -> Fraction | None:
        """Return the exact score of a candidate; None if its weight is 0."""
        if self.weights is not None and not self.weights.exact(self.position(row, i)):
            return None
        value = self.scores[row, i].item()
        if isinstance(value, int):
            return Fraction(value)
        if math.isnan(value) or value == -math.inf:
            return None
        return _LARGEST if value == math.inf else Fraction(value)

    def weight(self, row: int, i: int) -> Fraction:
        """Return the exact weight of a candidate."""
        return (
            Fraction(1)
            if self.weights is None
            else self.weights.exact(self.position(row, i))
        )

    def position(self, row: int, i: int) -> int:
        """Return the flat position of a candidate's weight."""
        assert self.weights is not None
        n = self.scores.shape[1]
        return row * n + i if self.weights.mantissa.size > n else i

    def law(self, tolerance: float, noise: Noise | None = None) -> _core.Selection:
        """Return what the kernels need to know."""
        if self.weights is None:
            return _core.Selection(
                nearest(self.rate), tolerance, noise, None, fine(self.rate)
            )
        weights = self.weights.mantissa, self.weights.exponent, self.weights.top
        known = None if self.weights.rounded else fine(self.rate)
        return _core.Selection(nearest(self.rate), tolerance, noise, weights, known)

    @property
    def spread(self) -> float:
        """`Weights.spread`, 0 without weights."""
        return 0.0 if self.weights is None else self.weights.spread


def nearest(rate: Fraction) -> float:
    """Return the double nearest to a rate."""
    return rate.numerator / rate.denominator


def fine(rate: Fraction) -> tuple[int, int, int]:
    """Return the first 128 bits of a rate, as two numbers, and its binary place."""
    place = rate.numerator.bit_length() - rate.denominator.bit_length()
    place += rate >= Fraction(2) ** place
    bits = int(rate * Fraction(2) ** (128 - place))
    return bits >> 64, bits & _ASK, place


def rate_of(epsilon: Fraction, sensitivity: Fraction, *, monotonic: bool) -> Fraction:
    """Return c = epsilon/(2 sensitivity), or epsilon/sensitivity if monotonic."""
    rate = epsilon / sensitivity if monotonic else epsilon / (2 * sensitivity)
    if not RATES[0] <= rate <= RATES[1]:
        raise ParameterError(
            "epsilon / sensitivity must be in [2**-899, 2**899], "
            f"got {_validate.plain(epsilon)!r} / {_validate.plain(sensitivity)!r}"
        )
    return rate


# --- tolerances: docs/proofs/selection.md, sections 4 and 5 -----------------------


def inverse_tolerance(n: int, spread: float = 0.0) -> float:
    """Return a bound on the error of cumulative weights over their total."""
    depth = 1
    while n > _exact_selection.BLOCK**depth:
        depth += 1
    return _HALF * (64 * depth + 4 * (math.log(n) + 0.7 * spread) + 32)


def race_tolerance(spread: float = 0.0) -> float:
    """Return a bound on the error of a key that can win."""
    return 1.25 * 2.0**-44 + 2.0**-49 * spread


# --- proposals --------------------------------------------------------------------

#: First extension block of each of a row's reals, in this order.
_REAL = 1 << 20
_TRIES = 2


def propose(choice: Choice, stream: Stream | None, workers: int) -> _Array:
    """Return one choice from each row, shape (rows,)."""
    rows, n = choice.scores.shape
    law = choice.law(_core.propose_tolerance(choice.spread))
    out = np.zeros(rows, np.int64)

    def resolver(words: tuple[int, ...], block: Block) -> int:
        return propose_row(choice, words, block)

    def part(first: int, last: int) -> None:
        _core.select_proposed(
            call, law, choice.scores[first:last], out[first:last], resolver, first
        )

    with _core.Call(stream, out) as call:
        _by_rows(part, rows, n, workers)
    return out


def propose_row(choice: Choice, words: tuple[int, ...], block: Block) -> int:
    """Return the exact choice of a row by its tries, or else by inversion."""
    row, *tries = words
    order, bounds, place = bounds_of(choice, row)
    scores = [choice.score(row, i) for i in order]
    most = max((s for s in scores if s is not None), default=None)
    for j in range(_TRIES):
        point, reach = (
            Uniform(tries[real], 64, block, real * _REAL) for real in (2 * j, 2 * j + 1)
        )
        at = _exact_selection.propose(bounds, point)
        score = scores[at]
        gap, weight = Fraction(0), Fraction(1, 2)
        if most is not None:
            if score is None:
                continue
            gap = choice.rate * (most - score)
            weight = choice.weight(row, order[at]) / Fraction(2) ** place
        elif choice.weights is None:
            weight = Fraction(1)
        if _exact_selection.accepts(gap, weight / bounds[at], reach):
            return order[at]
    start = 2 * _TRIES * _REAL
    word = int.from_bytes(block(start)[:8], "little")
    return invert_row(choice, row, [], word, lambda k: block(start + 1 + k))


def bounds_of(choice: Choice, row: int) -> tuple[list[int], list[int], int]:
    """Return a row's candidates in the order of summation, their bounds, and the place.

    Bounds are of 2**51 exp(-c gap) weight 2**-place.
    """
    known = choice.scores[row]
    order = _exact_selection.node_order(known.size)
    if known.dtype.kind == "f":
        known = np.minimum(known, np.finfo(np.float64).max)
    scores = known[order].tolist()
    rate = nearest(choice.rate) * _LOG2E
    there = [choice.score(row, i) is not None for i in order]
    top = max((s for s, t in zip(scores, there, strict=True) if t), default=None)
    if top is None:
        # Without base weights 1, with them 1/2.
        half = choice.weights is not None
        bound = _exact_selection.weight_bound(0.0, 2**27 if half else None)
        return order, [bound] * len(order), 0
    depths = [float(top - s) * rate for s in scores]
    if choice.weights is None:
        return order, [_exact_selection.weight_bound(d) for d in depths], 0
    parts = [choice.weights.parts(choice.position(row, i)) for i in order]
    far = _exact_selection.FAR
    depths = [d if d < far else far for d in depths]
    place = max(e - d for (_, e), d, t in zip(parts, depths, there, strict=True) if t)
    place = float(round(place + 0.5))
    bounds = [
        _exact_selection.weight_bound((place - e) + d if m else far, m)
        for (m, e), d in zip(parts, depths, strict=True)
    ]
    return order, bounds, int(place) + choice.weights.common


# --- flips ------------------------------------------------------------------------


def flip(choice: Choice, stream: Stream | None, workers: int) -> _Array:
    """Return one choice from each row by permute-and-flip, shape (rows,)."""
    rows, n = choice.scores.shape
    law = choice.law(0.0)
    out = np.zeros(rows, np.int64)

    def resolver(words: tuple[int, ...], block: Block) -> int:
        return settle_flip(choice, words, block)

    def part(first: int, last: int) -> None:
        _core.select_flipped(
            call, law, choice.scores[first:last], out[first:last], resolver, first
        )

    with _core.Call(stream, out) as call:
        _by_rows(part, rows, n, workers)
    return out


def settle_flip(choice: Choice, words: tuple[int, ...], block: Block) -> int:
    """Return whether a flip comes up, or the choice among those that did."""
    word, row, i = words
    if i == _ASK:
        return _exact_selection.even(row, word, block)
    known = choice.scores[row]
    lost = np.isnan(known) | np.isneginf(known) if known.dtype.kind == "f" else None
    if lost is not None and lost.all():
        return 1
    score = choice.score(row, i)
    if score is None:
        return 0
    best = int(np.argmax(known if lost is None else np.where(lost, -np.inf, known)))
    most = choice.score(row, best)
    assert most is not None
    gap = choice.rate * (most - score)
    return int(
        _exact_selection.accepts(gap, Fraction(1, 2**51), Uniform(word, 64, block))
    )


# --- inversion --------------------------------------------------------------------


def inverse(choice: Choice, k: int, stream: Stream | None, workers: int) -> _Array:
    """Return k choices without replacement from each row, shape (rows, k)."""
    rows, n = choice.scores.shape
    law = choice.law(inverse_tolerance(n, choice.spread))
    out = np.zeros((rows, k), np.int64)
    resolver = inverse_resolver(choice, out)

    def part(first: int, last: int) -> None:
        _core.select_inverse(
            call, law, choice.scores[first:last], out[first:last], resolver, first
        )

    with _core.Call(stream, out) as call:
        _by_rows(part, rows, n, workers)
    return out


def inverse_resolver(choice: Choice, out: _Array) -> _exact_selection.Resolver:
    """Return what settles choices of `out` by inversion."""

    def resolve(words: tuple[int, ...], block: Block) -> int:
        word, row, j = words
        return invert_row(choice, row, out[row, :j].tolist(), word, block)

    return resolve


def invert_row(
    choice: Choice, row: int, taken: list[int], word: int, block: Block
) -> int:
    """Return the exact choice of a row among the candidates not yet taken."""
    n = choice.scores.shape[1]
    gone = set(taken)
    left = [i for i in _exact_selection.order(n) if i not in gone]
    scores = {i: choice.score(row, i) for i in left}
    there = [(i, s) for i, s in scores.items() if s is not None]
    if not there:
        return sorted(left)[_exact_selection.even(len(left), word, block)]
    most = max(s for _, s in there)
    gaps = [choice.rate * (most - s) for _, s in there]
    weights = [choice.weight(row, i) for i, _ in there]
    return there[_exact_selection.invert(gaps, weights, word, block)][0]


# --- races -----------------------------------------------------------------------


def race(
    choice: Choice,
    noise: Noise,
    stream: Stream | None,
    workers: int,
) -> _Array:
    """Return the winner of each row's race, shape (rows,)."""
    rows, n = choice.scores.shape
    law = choice.law(race_tolerance(choice.spread), noise)
    out = np.zeros(rows, np.int64)

    def part(first: int, last: int) -> None:
        _core.select_race(
            call, law, choice.scores[first:last], out[first:last], resolver, first
        )

    with _core.Call(stream, out) as call:
        resolver = race_resolver(choice, noise, call)
        _by_rows(part, rows, n, workers)
    return out


def race_resolver(
    choice: Choice, noise: Noise, call: _core.Call, first: int = 0
) -> _exact_selection.Resolver:
    """Return what settles races whose first candidate has draw `first`."""
    n = choice.scores.shape[1]
    named: dict[int, list[tuple[int, int, int]]] = {}

    def resolve(words: tuple[int, ...], block: Block) -> int:
        word, draw, second = words
        if draw != _ASK:
            row, i = divmod(draw - first, n)
            named.setdefault(row, []).append((i, word, second))
            return 0
        row = (word - first) // n
        contenders = named.pop(row)
        entered = runners(choice, row, contenders, noise, call, first)
        return _exact_selection.first_of(entered).index

    return resolve


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
    scores = {i: choice.score(row, i) for i, _, _ in contenders}
    most = max((s for s in scores.values() if s is not None), default=None)
    result = []
    for i, word, second in contenders:
        score = scores[i]
        if most is None:
            gap, weight = Fraction(0), Fraction(1)
        elif score is None:
            continue
        else:
            gap, weight = choice.rate * (most - score), choice.weight(row, i)
        blocks = blocks_of(call, first + row * choice.scores.shape[1] + i)
        result.append(Runner.of(i, gap, weight, noise, (word, second), blocks))
    return result


def blocks_of(call: _core.Call, draw: int) -> tuple[Block, Block]:
    """Return the further bits of a draw's two reals."""
    chunk, trial = divmod(draw, _core.SELECT_CHUNK)
    return (
        lambda k: call.extension(chunk, trial, k),
        lambda k: call.extension(chunk + _SECOND_CHUNK, trial, k),
    )


def word_of(call: _core.Call, draw: int) -> int:
    """Return the word of a draw."""
    chunk, trial = divmod(draw, _core.SELECT_CHUNK)
    unit, at = divmod(8 * trial, 1024)
    return int.from_bytes(
        call.keystream(chunk, 1024 * unit, 1024)[at : at + 8], "little"
    )


# --- rows -------------------------------------------------------------------------


def _by_rows(part: Callable[[int, int], None], rows: int, n: int, workers: int) -> None:
    """Run part(first, last) over rows on threads."""
    slab = max(_SLAB // n, 1)

    def run(start: int, stop: int, _: int) -> None:
        for first in range(start, stop, slab):
            part(first, min(first + slab, stop))

    _arrays.in_parallel(run, rows, max(4096 // n, 1), workers)
