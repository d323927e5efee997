"""Pairs of neighboring inputs: given ones, families by name, and strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from fastdp.exceptions import DTypeError, ParameterError

#: Use at most this many pairs of a strategy.
_MOST = 32

#: Cut an input in a report after this many characters.
_LONGEST = 60


@dataclass(frozen=True)
class Pair:
    """Two inputs that must be hard to distinguish under the claim.

    Parameters
    ----------
    text : str
        Description of the pair, for the report.
    first, second : object
    """

    text: str
    first: Any
    second: Any


def _counts() -> list[Pair]:
    return [Pair("0 and 1", 0, 1), Pair("255 and 256", 255, 256)]


def _sums() -> list[Pair]:
    n = 100
    zeros, halves = np.zeros(n), np.full(n, 0.5)
    tiny = np.full(n, 2.0**-53)

    def pair(text: str, like: np.ndarray, at: int, one: float, other: float) -> Pair:
        first, second = like.copy(), like.copy()
        first[at], second[at] = one, other
        return Pair(text, first, second)

    spread = halves.copy()
    spread[[10, 20]] = 1e308, -1e308
    return [
        pair("100 zeros, and the last of them 1", zeros, -1, 0, 1),
        *(
            pair(f"100 halves, and the first of them {x}", halves, 0, 0.5, x)
            for x in (1e308, -1e308, np.inf, -np.inf, np.nan)
        ),
        pair("1, or 0, before 99 times 2^-53", tiny, 0, 1, 0),
        pair("1, or 2, before 99 halves", halves, 0, 1, 2),
        pair("0, or 1, between 1e308 and -1e308", spread, 15, 0, 1),
    ]


def _histograms() -> list[Pair]:
    counts = np.array([0, 1, 10, 100])
    return [
        Pair(f"{counts.tolist()} and one more in cell {i}", counts, counts + unit)
        for i, unit in enumerate(np.eye(4, dtype=np.int64))
    ]


def _vectors() -> list[Pair]:
    zeros = np.zeros(8)
    unit = np.eye(8)[0]
    return [
        Pair("8 zeros, and the first of them 1", zeros, unit),
        Pair("8 zeros, and all of them 8^-1/2", zeros, np.full(8, 8**-0.5)),
    ]


def _selections() -> list[Pair]:
    scores = np.zeros(4)
    up = np.array([1.0, 0, 0, 0])
    return [
        Pair("4 equal scores, and the first of them 1", scores, up),
        Pair("scores 1 0 0 0, and 0 1 1 1", up, 1 - up),
        Pair("scores 0 and 1000, and 1 less between", *_gap(1000.0)),
    ]


def _gap(size: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([0.0, size, 0, 0]), np.array([1.0, size - 1, 0, 0])


#: Pairs at distance 1, by the kind of input of the mechanism.
FAMILIES: dict[str, Callable[[], list[Pair]]] = {
    "counts": _counts,
    "sums": _sums,
    "histograms": _histograms,
    "vectors": _vectors,
    "selections": _selections,
}


def pairs_of(neighbors: Any) -> list[Pair]:
    """Return the pairs that `neighbors` describes.

    Raises
    ------
    DTypeError, ParameterError
        `neighbors` is neither a pair, a family nor an iterable of pairs, or it is
        empty.
    """
    if isinstance(neighbors, str):
        if neighbors not in FAMILIES:
            raise ParameterError(
                f"neighbors must be a pair, an iterable of pairs or one of "
                f"{', '.join(FAMILIES)}, got {neighbors!r}"
            )
        return FAMILIES[neighbors]()
    if isinstance(neighbors, tuple) and len(neighbors) == 2:
        return [_pair(*neighbors)]
    if isinstance(neighbors, tuple) or not isinstance(neighbors, Iterable):
        raise DTypeError("neighbors must be a pair of inputs or an iterable of pairs")
    found = list(islice(neighbors, _MOST + 1))
    if not 0 < len(found) <= _MOST:
        raise ParameterError(f"neighbors must give 1 to {_MOST} pairs")
    for each in found:
        if not isinstance(each, tuple) or len(each) != 2:
            raise DTypeError("neighbors must give pairs: tuples of two inputs")
    return [_pair(*each) for each in found]


def edges_of(pair: Pair) -> list[Pair]:
    """Return pairs at the edges of arithmetic that are no further apart than `pair`.

    All numbers of both inputs are shifted by the same amount, to the limits of integers
    and to sizes at which floats are coarse; or the second input is the first with the
    smallest possible change. The pairs keep the type of the given inputs, because
    float32 and float64 have different gaps.
    """
    x, y = np.asarray(pair.first), np.asarray(pair.second)
    if x.shape != y.shape or not x.size or {x.dtype.kind, y.dtype.kind} - set("iuf"):
        return []
    if "f" not in x.dtype.kind + y.dtype.kind:
        return _integer_edges(pair)
    kept = np.result_type(x.dtype, y.dtype)
    kept = kept if kept.itemsize <= 8 else np.dtype(np.float64)
    x, y = x.astype(kept), y.astype(kept)
    found = []
    for k in (24, 52):
        with np.errstate(over="ignore", invalid="ignore"):
            a, b = (z + kept.type(2.0**k) + kept.type(1) for z in (x, y))
        if _no_further((a, b), (x, y)):
            found.append((f"both larger by 2^{k} + 1", a, b))
    if (x == 0).any():
        found.append(("0.0 and -0.0", x, np.where(x == 0, -0.0, x)))
    found.append(("the first input, and the next float", x, np.nextafter(x, y)))
    return [
        Pair(text, *(_like_float(z, pair.first) for z in ab)) for text, *ab in found
    ]


def _like_float(number: np.ndarray, x: Any) -> Any:
    if isinstance(x, int | float):
        return float(number)
    return number if np.ndim(x) or isinstance(x, np.ndarray) else number[()]


def _no_further(
    moved: tuple[np.ndarray, np.ndarray], given: tuple[np.ndarray, np.ndarray]
) -> bool:
    """Return whether shifted inputs differ nowhere more than the given ones."""
    if not all(np.isfinite(z).all() for z in moved):
        return False
    gaps, most = (
        [
            abs(Fraction(float(b)) - Fraction(float(a)))
            for a, b in zip(x.ravel(), y.ravel(), strict=True)
        ]
        for x, y in (moved, given)
    )
    return any(gaps) and all(g <= m for g, m in zip(gaps, most, strict=True))


def _integer_edges(pair: Pair) -> list[Pair]:
    x, y = pair.first, pair.second
    whole = [np.asarray(z).astype(object) for z in (x, y)]
    low, high = min(z.min() for z in whole), max(z.max() for z in whole)
    kept = np.int64 if isinstance(x, int) else np.asarray(x).dtype
    least, most = int(np.iinfo(kept).min), int(np.iinfo(kept).max)
    moves = {f"the largest {np.dtype(kept)}": most - high}
    moves[f"the smallest {np.dtype(kept)}"] = least - low
    # Where int32 and uint32 end, and where float32 and float64 hold only even integers.
    for power, past in ((31, 0), (32, 0), (24, 2), (53, 2)):
        if 2**power + past <= most:
            moves[f"around 2^{power}"] = 2**power + past - high
    return [
        Pair(text, *(_like(z + move, x) for z in whole))
        for text, move in moves.items()
        if least <= low + move and high + move <= most
    ]


def _like(numbers: Any, x: Any) -> Any:
    if isinstance(x, int):
        return int(numbers)
    array = np.asarray(numbers).astype(np.asarray(x).dtype)
    return array if np.ndim(x) or isinstance(x, np.ndarray) else array[()]


def _pair(first: Any, second: Any) -> Pair:
    return Pair(f"{_shown(first)} and {_shown(second)}", first, second)


def _shown(x: Any) -> str:
    text = " ".join(repr(x).split())
    if len(text) <= _LONGEST:
        return text
    shape = getattr(x, "shape", None) or (len(x) if hasattr(x, "__len__") else "")
    return f"a {type(x).__name__} of {shape}: {text[:_LONGEST]}..."
