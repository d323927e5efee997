"""Pairs of neighboring inputs: given ones, families by name, and strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from fastdp.exceptions import DTypeError, ParameterError

#: Pairs that a strategy may give.
_MOST = 32

#: Characters of an input in a report.
_LONGEST = 60


@dataclass(frozen=True)
class Pair:
    """Two inputs that the claim makes hard to tell apart.

    Parameters
    ----------
    text : str
        What the pair is, for the report.
    first, second : object
    """

    text: str
    first: Any
    second: Any


def _counts() -> list[Pair]:
    high = 2**63 - 1
    return [
        Pair("0 and 1", 0, 1),
        Pair("255 and 256", 255, 256),
        Pair("the largest int64 and one less", high, high - 1),
        Pair("the smallest int64 and one more", -high - 1, -high),
    ]


def _sums() -> list[Pair]:
    n = 100
    zeros = np.zeros(n)
    last = zeros.copy()
    last[-1] = 1.0
    halves = np.full(n, 0.5)
    large = halves.copy()
    large[0] = 1e308
    small = halves.copy()
    small[0] = -1e308
    tiny = np.full(n, 2.0**-53)
    tiny[0] = 1.0
    without = tiny.copy()
    without[0] = 0.0
    inside, outside = halves.copy(), halves.copy()
    inside[0], outside[0] = 1.0, 2.0
    return [
        Pair("100 zeros, and the last of them 1", zeros, last),
        Pair("100 halves, and the first of them 1e308", halves, large),
        Pair("100 halves, and the first of them -1e308", halves, small),
        Pair("1, or 0, before 99 times 2^-53", tiny, without),
        Pair("1, or 2, before 99 halves", inside, outside),
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
        Pair("8 zeros, and one of them -0.0", zeros, -zeros),
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


#: Pairs at distance 1 by what the mechanism takes.
FAMILIES: dict[str, Callable[[], list[Pair]]] = {
    "counts": _counts,
    "sums": _sums,
    "histograms": _histograms,
    "vectors": _vectors,
    "selections": _selections,
}


def pairs_of(neighbors: Any) -> list[Pair]:
    """Return the pairs that `neighbors` stands for.

    Raises
    ------
    DTypeError, ParameterError
        It is neither a pair, nor a family, nor an iterable of pairs, or has none.
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


def _pair(first: Any, second: Any) -> Pair:
    return Pair(f"{_shown(first)} and {_shown(second)}", first, second)


def _shown(x: Any) -> str:
    text = " ".join(repr(x).split())
    if len(text) <= _LONGEST:
        return text
    shape = getattr(x, "shape", None) or (len(x) if hasattr(x, "__len__") else "")
    return f"a {type(x).__name__} of {shape}: {text[:_LONGEST]}..."
