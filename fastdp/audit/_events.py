"""Events that distinguish two inputs: codings of outcomes, and sets of their codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fastdp.audit._claims import PrivacyClaim
from fastdp.audit._outcomes import Outcomes

#: Number of cells of a coding of one number; of each coordinate of several numbers.
_CELLS, _FEW = 256, 32

#: Number of events of a coding that are chosen by their share of one input's outcomes.
_SHARES = 10

#: Code at most this many coordinates.
_COORDINATES = 64

#: Margin, in standard deviations, when events are chosen by their rates.
_MARGIN = 6.0


@dataclass(frozen=True)
class Coding:
    """A function from outcomes to few integers, fixed before the test.

    Parameters
    ----------
    name : str
    size : int
        Number of codes.
    code : callable
        Returns the codes of outcomes.
    say : callable
        Returns the meaning of a set of codes as text.
    """

    name: str
    size: int
    code: Callable[[Outcomes], np.ndarray]
    say: Callable[[np.ndarray], str]

    def counts(self, outcomes: Outcomes) -> np.ndarray:
        """Return the number of occurrences of each code."""
        return np.bincount(self.code(outcomes), minlength=self.size)


def _few(codes: Sequence[str], word: str) -> str:
    """Return the names of up to three codes, and the number of others."""
    rest = f" and {len(codes) - 3} others" if len(codes) > 3 else ""
    return f"{word} {', '.join(codes[:3])}{rest}"


# ---- codings -----------------------------------------------------------------------


def by_kind(labels: Sequence[str]) -> Coding:
    """Return the coding by kind: a type, an error, a text."""
    place = {label: i for i, label in enumerate(labels)}

    def code(outcomes: Outcomes) -> np.ndarray:
        own = np.array([place.get(x, len(place)) for x in outcomes.labels])
        return np.asarray(own[outcomes.kinds])

    def say(chosen: np.ndarray) -> str:
        names = [*labels, "another one"]
        return _few([names[i] for i in np.flatnonzero(chosen)], "the outcome is:")

    return Coding("kind of outcome", len(place) + 1, code, say)


def _edges(values: np.ndarray, cells: int) -> np.ndarray:
    """Return right ends of cells with about equally many values; atoms get cells."""
    distinct = np.unique(values)
    if len(distinct) <= cells:
        return distinct
    ordered = np.sort(values)
    n = len(ordered)
    shares = np.arange(1, cells) / cells
    deep = np.array([30, 100, 300]) / n
    at = np.concatenate([shares, deep, 1 - deep])
    chosen = ordered[np.clip((at * n).astype(int), 0, n - 1)]
    found, times = np.unique(chosen, return_counts=True)
    atoms = found[times > 1]
    # End the cell before an atom at the largest number below the atom.
    whole = values.dtype.kind == "i"
    before = atoms - 1 if whole else np.nextafter(atoms, -np.inf)
    return np.unique(np.concatenate([found, before]))


def by_number(
    name: str, number: Callable[[np.ndarray], np.ndarray], learned: Sequence[Outcomes]
) -> Coding:
    """Return the coding of a number that is computed from an outcome's values.

    Parameters
    ----------
    name : str
    number : callable
        Function from values of shape (n, width) to n numbers.
    learned : sequence of Outcomes
        Outcomes from which the cells are computed.
    """
    pool = np.concatenate([number(x.values[x.numbered()]) for x in learned])
    edges = _edges(pool, _CELLS) if len(pool) else np.zeros(1)

    def code(outcomes: Outcomes) -> np.ndarray:
        cell = np.searchsorted(edges, number(outcomes.values))
        return np.where(outcomes.numbered(), cell, len(edges) + 1)

    def say(chosen: np.ndarray) -> str:
        return _intervals(name, edges, chosen)

    return Coding(name, len(edges) + 2, code, say)


def _intervals(name: str, edges: np.ndarray, chosen: np.ndarray) -> str:
    """Describe a set of cells as a union of intervals of the number."""
    inside = np.concatenate([[False], chosen[: len(edges) + 1], [False]])
    starts = np.flatnonzero(inside[1:] & ~inside[:-1])
    ends = np.flatnonzero(inside[:-1] & ~inside[1:])
    parts = []
    for start, end in zip(starts, ends, strict=True):
        low = f"> {_short(edges[start - 1])}" if start > 0 else ""
        high = f"<= {_short(edges[end - 1])}" if end <= len(edges) else ""
        parts.append(" and ".join(p for p in (low, high) if p) or "any number")
    if chosen[-1]:
        parts.append("no number")
    return _few([f"({p})" if " and " in p else p for p in parts], f"the {name} is")


def _short(x: float) -> str:
    """Write a number; with all digits if neighboring integers would look the same."""
    return f"{x:.6g}" if abs(float(x)) < 10**6 else f"{x:.17g}"


def by_likelihood(learned: Sequence[Outcomes]) -> Coding:
    """Return the coding of several numbers by the sum of their likelihood ratios."""
    first, second = learned
    width = min(first.values.shape[1], _COORDINATES)
    tables = []
    for j in range(width):
        both = [x.values[x.numbered(), j] for x in (first, second)]
        edges = _edges(np.concatenate(both), _FEW)
        counts = [
            np.bincount(np.searchsorted(edges, b), minlength=len(edges) + 1) + 0.5
            for b in both
        ]
        ratio = np.log(counts[1] / counts[1].sum()) - np.log(
            counts[0] / counts[0].sum()
        )
        tables.append((edges, ratio))

    def number(values: np.ndarray) -> np.ndarray:
        total = np.zeros(len(values))
        for j, (edges, ratio) in enumerate(tables):
            total += ratio[np.searchsorted(edges, values[:, j])]
        return np.asarray(total)

    name = "sum of the coordinates' log likelihood ratios"
    return by_number(name, number, learned)


def lowest_bits(values: np.ndarray) -> np.ndarray:
    """Return k for floats that are odd multiples of 2^k; 2000 for 0, 2001 for inf."""
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    fraction, raised = bits & (2**52 - 1), (bits >> 52) & 2047
    whole = np.where(raised > 0, fraction | 2**52, fraction)
    lowest = (whole & -whole).astype(np.float64)  # a power of two, exactly
    place = np.frexp(lowest)[1] - 1
    found = np.where(raised > 0, raised, 1) - 1075 + place
    found = np.where(whole == 0, 2000, found)
    return np.asarray(np.where(raised == 2047, 2001, found))


def by_lowest_bit(column: int) -> Coding:
    """Return the coding of floats by the largest power of two that divides them."""
    low, high = -1074, 1023

    def code(outcomes: Outcomes) -> np.ndarray:
        found = lowest_bits(outcomes.values[:, column])
        own = np.where(found > high, high - low + (found - 1999), found - low)
        return np.where(outcomes.numbered(), own, high - low + 3)

    def say(chosen: np.ndarray) -> str:
        at = np.flatnonzero(chosen[: high - low + 1])
        powers = [f"2^{low + i}" for i in at]
        powers += [
            name
            for i, name in enumerate(("0", "infinite", "no number"))
            if chosen[high - low + 1 + i]
        ]
        return _few(powers, "the largest power of two that divides the output is")

    return Coding("precision", high - low + 4, code, say)


def by_residue(column: int, modulus: int) -> Coding:
    """Return the coding of integers by their residues."""

    def code(outcomes: Outcomes) -> np.ndarray:
        values = outcomes.values[:, column]
        if values.dtype.kind == "f":
            values = np.where(np.abs(values) < 2**62, values, 0.0)
        residue = np.mod(values, modulus).astype(np.int64)
        return np.where(outcomes.numbered(), residue, modulus)

    def say(chosen: np.ndarray) -> str:
        at = [str(i) for i in np.flatnonzero(chosen[:modulus])]
        return _few(at, f"the rest of a division by {modulus} is")

    return Coding(f"rest by {modulus}", modulus + 1, code, say)


def by_sight(learned: Sequence[Outcomes]) -> Coding:
    """Return the coding by whether an output was seen under one, both or no input."""
    seen = [np.unique(_digests(x)) for x in learned]

    def code(outcomes: Outcomes) -> np.ndarray:
        own = _digests(outcomes)
        first, second = (_among(own, s) for s in seen)
        return np.asarray(first + 2 * second)

    def say(chosen: np.ndarray) -> str:
        names = ("never", "under the first input alone", "under the second alone")
        at = np.flatnonzero(chosen)
        return _few(
            [(*names, "under both")[i] for i in at],
            "in the first half of the draws the output was seen",
        )

    return Coding("outputs seen before", 4, code, say)


def _digests(outcomes: Outcomes) -> np.ndarray:
    """Return a 64-bit hash of each outcome's numbers."""
    total = np.zeros(len(outcomes), np.uint64)
    for column in outcomes.values.T:
        bits = np.ascontiguousarray(column).view(np.uint64)
        total = (total ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def _among(values: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return np.asarray(ordered[at] == values).astype(np.int64)


# ---- choosing ----------------------------------------------------------------------


def chosen_events(
    first: np.ndarray, second: np.ndarray, claims: Sequence[PrivacyClaim]
) -> np.ndarray:
    """Return the sets of codes that look strongest, as rows of bools.

    Codes are ordered by their likelihood ratio. The function chooses sets with about
    given shares of either input's outcomes, and sets that seem to violate each claim
    most.

    Parameters
    ----------
    first, second : ndarray of int, shape (codes,)
        Counts in the first half of the draws.
    claims : sequence of PrivacyClaim
    """
    n, m = max(int(first.sum()), 1), max(int(second.sum()), 1)
    ratio = (second + 0.5) / (m + 1.0) / ((first + 0.5) / (n + 1.0))
    order = np.argsort(-ratio, kind="stable")
    q, p = np.cumsum(first[order]) / n, np.cumsum(second[order]) / m
    ends: set[tuple[bool, int]] = set()
    shares = np.geomspace(min(30 / n, 0.5), 0.5, _SHARES)
    for rising, (a, b) in ((True, (p, q)), (False, (1 - q, 1 - p))):
        # Prefixes are likelier for the second input, suffixes for the first.
        a, b = np.clip(a, 0, 1), np.clip(b, 0, 1)
        ends |= {(rising, int(np.argmin(np.abs(a - share)))) for share in shares}
        low = a - _MARGIN * np.sqrt(a * (1 - a) / n) - _MARGIN**2 / n
        high = b + _MARGIN * np.sqrt(b * (1 - b) / n) + _MARGIN**2 / n
        with np.errstate(all="ignore"):
            ends.add((rising, int(np.nanargmax(np.maximum(low, 1e-300) / high))))
        for claim in claims:
            grown = np.exp(np.minimum(claim.epsilons, 50.0))[:, None]
            gain = low[None] - grown * high[None] - claim.deltas[:, None]
            ends.add((rising, int(np.argmax(gain.max(axis=0)))))
            best = np.argmax(gain, axis=1)[:: max(1, len(gain) // 4)]
            ends |= {(rising, int(i)) for i in best}
    sets = np.zeros((len(ends), len(order)), bool)
    for row, (rising, end) in zip(sets, sorted(ends), strict=True):
        row[order[: end + 1] if rising else order[end + 1 :]] = True
    proper = sets.any(axis=1) & ~sets.all(axis=1)
    return np.unique(sets[proper], axis=0)
