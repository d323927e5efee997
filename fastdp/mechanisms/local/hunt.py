"""The server side of a prefix hunt: levels of prefixes, and the frequent values."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _validate
from fastdp._validate import Real
from fastdp.exceptions import ParameterError
from fastdp.mechanisms.local._mechanism import USERS, VERSION, Aggregator
from fastdp.mechanisms.local._release import ReportsOnce
from fastdp.mechanisms.local.estimates import Support, ValueEstimate

_Array: TypeAlias = "np.ndarray[Any, Any]"


class Hunted(ReportsOnce[ValueEstimate]):
    """Server side of a prefix hunt: turns reports into frequent values."""

    __slots__ = ("_beta", "_buckets", "_key", "_lengths", "_most", "_support")

    _beta: Fraction
    _buckets: int
    _key: _core.HashKey
    _lengths: tuple[int, ...]
    _most: int
    _support: Support

    def standard_error(self, users: int, *, frequency: Real = 0) -> float:
        """Return the standard error of the later estimate of a value's count.

        Parameters
        ----------
        users : int
            Number of reports, >= 0; half of the reports count whole values.
        frequency : int, float, Fraction or Decimal
            Share of the users with the value, in [0, 1].
        """
        users = _validate.integer("users", users, 0)
        share = _validate.between("frequency", frequency, Fraction(0), Fraction(1))
        last = users if len(self._lengths) == 1 else users // 2
        return float(self._errors(np.array([float(share)]), last, users)[0])

    def _errors(self, shares: _Array, last: int, users: int) -> _Array:
        """Return standard errors of counts, with `last` users in the last group."""
        own, cross = float(self._support.own), float(self._support.cross)
        noise = shares * own * (1 - own) + (1 - shares) * cross * (1 - cross)
        dealt = shares * (1 - shares) * (1 - last / max(users, 1))
        spread = np.sqrt(last * (noise / (own - cross) ** 2 + dealt))
        found: _Array = spread * (users / max(last, 1))
        return found

    def find(self, reports: Any, *, workers: int = 1) -> ValueEstimate:
        """Return the frequent values in falling order of their counts.

        Parameters
        ----------
        reports : ndarray of `report_dtype`, or list of pairs
            Reports that `release` returned, from any number of users. An invalid report
            supports no value but counts as a user.
        workers : int
            Threads; the result does not depend on it.

        Returns
        -------
        ValueEstimate
            At most `most` values, as text in `names`, without the padding; bytes that
            are not UTF-8 become the replacement character.

        Raises
        ------
        DTypeError, ParameterError
            The reports have a wrong dtype or shape.
        """
        checked = self._as_reports(reports)
        level = self.aggregator()
        while True:
            level.add(checked, workers=workers)
            if level.last:
                return level.estimate()
            level = level.next()

    def estimate(self, reports: Any, *, workers: int = 1) -> ValueEstimate:
        """Return the result of `find`."""
        return self.find(reports, workers=workers)

    def aggregator(self) -> Hunt:
        """Return the first level of a hunt; see `Hunt`."""
        return Hunt(self)

    @property
    def _tally_size(self) -> int:
        return 0  # each level has its own tally

    def _count(self, reports: _Array, tally: _Array) -> None:
        raise NotImplementedError  # levels count

    def _estimate(self, tally: _Array, users: int) -> ValueEstimate:
        raise NotImplementedError

    def _candidates(self, level: int, kept: _Array) -> _Array:
        """Return all extensions of the kept prefixes to a level's length, as rows."""
        size, before = self._lengths[-1] // 8, self._lengths[level - 1] if level else 0
        step = self._lengths[level] - before
        bits = np.zeros((len(kept) << step, 8 * size), np.uint8)
        bits[:, :before] = np.repeat(
            np.unpackbits(kept, axis=1)[:, :before], 1 << step, axis=0
        )
        numbers = np.tile(np.arange(1 << step, dtype=np.uint32), len(kept))
        for place in range(step):
            bits[:, before + place] = numbers >> step - 1 - place & 1
        return np.packbits(bits, axis=1)

    def _least(self, users: int, candidates: int) -> int:
        """Return a count that any value without users reaches with P <= beta.

        The number of supporters of a value that nobody holds is binomial.
        """
        from scipy.special import bdtrc

        cross, share = float(self._support.cross), float(self._beta) / candidates
        low, high = math.floor(users * cross), users + 1
        while low < high:
            middle = (low + high) // 2
            beyond = middle > users or bdtrc(middle - 1, users, cross) <= share
            low, high = (low, middle) if beyond else (middle + 1, high)
        return low

    def _digests(self, rows: _Array, level: int) -> _Array:
        """Return the digests of the prefixes of whole values, at a level's length."""
        length = self._lengths[level]
        prefixes = np.array(rows[:, : -(-length // 8)], order="C")  # a copy
        prefixes[:, -1] &= 0xFF & (0xFF00 >> (length - 1) % 8 + 1)
        start = np.arange(len(rows) + 1, dtype=np.int64) * prefixes.shape[1]
        found = np.zeros(len(rows), np.uint64)
        self._key.digests(start, prefixes.reshape(-1), found)
        _core.zero(prefixes)
        return found

    def _groups_of(self, seeds: _Array) -> _Array:
        """Return the group of each seed: half in the last, the rest spread evenly."""
        last = len(self._lengths) - 1
        places = (seeds >> np.uint64(32)) * np.uint64(max(1, 2 * last)) >> np.uint64(32)
        groups: _Array = np.minimum(places, np.uint64(last)).astype(np.int64)
        return groups


class Hunt(Aggregator[ValueEstimate]):
    """A level of a `PrefixHunt`: the reports of one group against its candidates.

    `PrefixHunt.aggregator` returns it. Each level counts only reports of its own group
    and skips the others, so that all reports can be streamed through every level, in
    batches and on several machines with levels that merge::

        level = m.aggregator()
        while True:
            for reports in batches():
                level.add(reports)
            if level.last:
                break
            level = level.next()
        level.estimate()

    Parameters
    ----------
    mechanism : PrefixHunt
        Mechanism that makes the reports.
    level : int
        Number of the group, from 0.
    kept : ndarray of uint8, shape (prefixes, bytes), optional
        Prefixes that the previous level kept, padded with zeros.
    """

    __slots__ = ("_candidates", "_digests", "_kept", "_level")

    _mechanism: Hunted

    def __init__(
        self, mechanism: Hunted, level: int = 0, kept: _Array | None = None
    ) -> None:
        if kept is None:
            kept = np.zeros((1, mechanism._lengths[-1] // 8), np.uint8)
        self._mechanism, self._level, self._kept = mechanism, level, kept
        self._candidates = mechanism._candidates(level, kept)
        self._digests = mechanism._digests(self._candidates, level)
        # The supporters of all candidates, then the number of users of the group.
        self._tally = np.zeros(len(self._digests) + 1, np.int64)
        self._users = 0

    @property
    def level(self) -> int:
        """The number of the counted group, from 0."""
        return self._level

    @property
    def last(self) -> bool:
        """Whether this is the last level; its candidates are whole values."""
        return self._level == len(self._mechanism._lengths) - 1

    def add(
        self,
        reports: Any,
        *,
        packed: bool = False,
        count: int | None = None,
        workers: int = 1,
    ) -> Hunt:
        """Count a batch of reports; if anything fails, none of them are counted.

        Parameters
        ----------
        reports : ndarray of `report_dtype`, or list of pairs
            Reports of any groups.
        packed, count
            Not supported: leave these out.
        workers : int
            Threads; the counts do not depend on it.

        Raises
        ------
        DTypeError, ParameterError
            The reports have a wrong dtype or shape.
        """
        m = self._mechanism
        workers = _validate.integer("workers", workers, 1)
        if packed or count is not None:
            raise ParameterError("packed and count must be left out")
        checked = m._as_reports(reports)
        mine = checked[m._groups_of(checked["seed"]) == self._level]
        tallies = []

        def part(start: int, stop: int, _: int) -> None:
            tally = np.zeros(len(self._digests), np.int64)
            m._key.support(mine[start:stop], m._buckets, self._digests, tally)
            tallies.append(tally)

        _arrays.in_parallel(part, len(mine), USERS, workers)
        for tally in tallies:
            self._tally[:-1] += tally
        self._tally[-1] += len(mine)
        self._users += len(checked)
        return self

    def merge(self, other: Aggregator[ValueEstimate]) -> Hunt:
        """Add the counts of the same level from another machine or process.

        Raises
        ------
        DTypeError
            `other` is not a level of a hunt.
        ParameterError
            `other` belongs to a different mechanism, or to another level.
        """
        if isinstance(other, Hunt) and self._place() != other._place():
            raise ParameterError(
                "other must be the same level with the same prefixes: merge all parts "
                "before next()"
            )
        super().merge(other)
        return self

    def __add__(self, other: Aggregator[ValueEstimate]) -> Hunt:
        if not isinstance(other, Hunt):
            return NotImplemented
        empty = Hunt(self._mechanism, self._level, self._kept)
        return empty.merge(self).merge(other)

    def next(self) -> Hunt:
        """Return the next level, with extensions of this level's best prefixes.

        Raises
        ------
        ParameterError
            This is the last level.
        """
        if self.last:
            raise ParameterError("next must be called on a level before the last one")
        best = _best(self._tally[:-1], 2 * self._mechanism._most)
        return Hunt(self._mechanism, self._level + 1, self._candidates[np.sort(best)])

    def estimate(self) -> ValueEstimate:
        """Return the frequent values in falling order of their counts.

        Raises
        ------
        ParameterError
            This is not the last level.
        """
        if not self.last:
            raise ParameterError(
                "estimate must be called on the last level: count the "
                "reports again in next()"
            )
        m, last = self._mechanism, int(self._tally[-1])
        supporters = self._tally[:-1]
        best = _best(supporters, m._most)
        best = best[supporters[best] >= m._least(last, len(supporters))]
        counts = m._support.estimate(supporters[best], last).counts
        counts = counts * (self._users / max(last, 1))
        shares = np.clip(counts / max(self._users, 1), 0, 1)
        return ValueEstimate(
            counts,
            m._errors(shares, last, self._users),
            self._users,
            mechanism=m,
            names=tuple(map(_text_of, self._candidates[best])),
        )

    def _place(self) -> tuple[Hunted, int, bytes]:
        return self._mechanism, self._level, self._kept.tobytes()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hunt):
            return NotImplemented
        return self._place() == other._place() and super().__eq__(other)

    __hash__ = None

    def __repr__(self) -> str:
        groups = len(self._mechanism._lengths)
        return (
            f"<Hunt of {self._mechanism!r}: level {self._level + 1} of {groups}, "
            f"{self._users} users>"
        )

    def __reduce__(self) -> tuple[Callable[..., Hunt], tuple[Any, ...]]:
        mechanism, level, kept = self._place()
        return _restore, (VERSION, mechanism, level, kept, self._users, self._tally)


def _restore(
    version: int,
    mechanism: Hunted,
    level: int,
    kept: bytes,
    users: int,
    tally: _Array,
) -> Hunt:
    """Return the level of a pickled state."""
    if version != VERSION:
        raise ParameterError(f"version of the state must be {VERSION}, got {version!r}")
    size = mechanism._lengths[-1] // 8
    rows = np.frombuffer(kept, np.uint8).reshape(-1, size)
    result = Hunt(mechanism, level, rows)
    result._tally += tally
    result._users = users
    return result


def _best(supporters: _Array, most: int) -> _Array:
    """Return the places of the largest numbers, largest first; ties in order."""
    return np.argsort(-supporters, kind="stable")[:most]


def _text_of(row: _Array) -> str:
    return row.tobytes().rstrip(b"\0").decode("utf-8", "replace")
