"""Heavy hitters: which strings are frequent, without a list, by growing prefixes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _laws, _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import RandomizedResponseEvent
from fastdp.exceptions import ParameterError
from fastdp.mechanisms.local import _probabilities, _strings
from fastdp.mechanisms.local._mechanism import (
    USERS,
    VERSION,
    Aggregator,
)
from fastdp.mechanisms.local._release import ReportsOnce
from fastdp.mechanisms.local.estimates import Support, ValueEstimate
from fastdp.mechanisms.local.local_hashing import REPORT

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Bits of the first prefixes, all of which are candidates.
_FIRST = 12

#: Most candidates of one level, and bits of values.
_MOST_CANDIDATES = 2**20
_MOST_BITS = 1024

#: Most buckets: beyond e**11 none is better.
_MOST_BUCKETS = 2**16

#: Users whose prefixes wait in memory.
_SLAB = 2**18


class PrefixHunt(ReportsOnce[ValueEstimate]):
    """Frequent strings of an open domain, found by their prefixes; pure local privacy.

    Users are dealt to groups at random, the groups to prefixes of growing length. Each
    user reports the bucket of the own prefix under a random hash function, once. A
    server extends the prefixes that it kept by all further bits up to the next length,
    counts the group's reports that support them, and keeps the best; in the end it
    shows values whose count chance does not explain.

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        Probability of the true bucket, above 1/buckets and below 1; rounded down to a
        multiple of 2**-64.
    buckets : int
        Number of buckets, 2 ... 2**16; about e**epsilon + 1 are optimal.
    bits : int
        Length of values, a multiple of 8 up to 1024. Text counts as its UTF-8, shorter
        values are filled up with zeros and longer ones cut. Integers count as their
        decimal digits; big-endian bytes hold more: `x.astype(">u8").view("S8")`.
    groups : int, optional
        Number of groups, each with a length of its own: 12 bits, then even steps. None:
        as few as leave 2**12 candidates a length.
    most : int
        Most values that are found, 1 ... 1024. Twice as many prefixes are kept.
    beta : int, float, Fraction or Decimal
        Probability with which any value is shown that nobody holds, in (0, 1).
    key : str
        32 hex digits from which the hash functions are made, public.

    Privacy
    -------
    Pure local epsilon = ln(p (buckets - 1)/(1 - p)) for each report: any two values of
    one user are neighboring, and no sensitivity is asked for. Group and hash function
    are drawn without the value. Exact. Timing class T0: strings are read and hashed.

    Notes
    -----
    Half of the users are of the last group, which alone decides what is shown, and how
    often it is said to occur; the others are dealt evenly. A value is found if all of
    its prefixes were kept: about from a share of 4 standard errors of a group on.

    References
    ----------
    Wang, Li, Jha, "Locally differentially private heavy hitter identification", IEEE
    TDSC 2021 (PEM); Bassily, Nissim, Stemmer, Thakurta, "Practical locally private
    heavy hitters", NeurIPS 2017 (TreeHist).

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.PrefixHunt.from_epsilon(4, bits=24, most=4)
    >>> reports = m.release(["abc"] * 6000 + ["xyz"] * 3000)
    >>> m.find(reports).names[:2]  # chance adds one, but for beta
    ('abc', 'xyz')
    """

    __slots__ = ("_beta", "_buckets", "_key", "_law", "_lengths", "_most", "_support")

    _beta: Fraction
    _buckets: int
    _key: _core.HashKey
    _law: _core.Response
    _lengths: tuple[int, ...]
    _most: int
    _support: Support

    def __init__(
        self,
        p: Real,
        *,
        buckets: int,
        bits: int = 64,
        groups: int | None = None,
        most: int = 32,
        beta: Real = Fraction(1, 1000),
        key: str = _strings.NO_KEY,
    ) -> None:
        buckets = _validate.integer("buckets", buckets, 2, _MOST_BUCKETS)
        truth = _probabilities.checked_truth(p, buckets)
        most = _validate.integer("most", most, 1, 1024)
        lengths = _lengths_of(bits, groups, most)
        chance = _validate.open_unit("beta", beta)
        key = _strings.checked_key(key)
        wrong, common = (1 - truth) / (buckets - 1), _collision_probability(buckets)
        self._freeze(
            _arguments=(
                ("p", _validate.plain(truth)),
                ("buckets", buckets),
                ("bits", lengths[-1]),
                ("groups", len(lengths)),
                ("most", most),
                ("beta", _validate.plain(chance)),
                ("key", key),
            ),
            _beta=chance,
            _buckets=buckets,
            _key=_strings.hash_key(key),
            _law=_laws.response_law(truth, buckets),
            _lengths=lengths,
            _most=most,
            _support=Support(truth, common * truth + (1 - common) * wrong),
            _report_dtype=REPORT,
            _row=(),
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        bits: int = 64,
        groups: int | None = None,
        most: int = 32,
        beta: Real = Fraction(1, 1000),
        key: str = _strings.NO_KEY,
    ) -> PrefixHunt:
        """Return the hunt whose reports tell the true bucket most often.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            Of one report, > 0. There are e**epsilon + 1 buckets, rounded.
        bits, groups, most, beta, key
            As for the class.

        Raises
        ------
        DTypeError, ParameterError
            A parameter is of a wrong type or out of its domain.
        CalibrationError
            `epsilon` is so small that only the useless p = 1/buckets is within it.
        """
        exact = _validate.positive("epsilon", epsilon)
        best = round(math.exp(min(exact, Fraction(11)))) + 1
        buckets = min(best, _MOST_BUCKETS)
        truth = _probabilities.truth_of(epsilon, buckets)
        return cls(
            truth,
            buckets=buckets,
            bits=bits,
            groups=groups,
            most=most,
            beta=beta,
            key=key,
        )

    @property
    def p(self) -> Fraction:
        """Probability that a report holds the true bucket, exact."""
        return _validate.exact("p", dict(self._arguments)["p"])

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return self._buckets

    @property
    def lengths(self) -> tuple[int, ...]:
        """Bits of the prefixes of all groups."""
        return self._lengths

    @property
    def most(self) -> int:
        """Most values that are found."""
        return self._most

    @property
    def key(self) -> str:
        """32 hex digits that the hash functions are made from; public."""
        return str(dict(self._arguments)["key"])

    def event(self) -> RandomizedResponseEvent:
        """Return the event of one report: that of two values in different buckets."""
        return RandomizedResponseEvent(p=self.p, q=(1 - self.p) / (self._buckets - 1))

    def standard_error(self, users: int, *, frequency: Real = 0) -> float:
        """Return the standard error that the estimate of a value's count will have.

        Parameters
        ----------
        users : int
            Number of reports, >= 0; half of them count values.
        frequency : int, float, Fraction or Decimal
            Share of the users with the value, in [0, 1].
        """
        users = _validate.integer("users", users, 0)
        share = _validate.between("frequency", frequency, Fraction(0), Fraction(1))
        last = users if len(self._lengths) == 1 else users // 2
        return float(self._errors(np.array([float(share)]), last, users)[0])

    def _errors(self, shares: _Array, last: int, users: int) -> _Array:
        """Return standard errors of counts, from `last` of the users."""
        own, cross = float(self._support.own), float(self._support.cross)
        noise = shares * own * (1 - own) + (1 - shares) * cross * (1 - cross)
        dealt = shares * (1 - shares) * (1 - last / max(users, 1))
        spread = np.sqrt(last * (noise / (own - cross) ** 2 + dealt))
        found: _Array = spread * (users / max(last, 1))
        return found

    # --- release ------------------------------------------------------------------

    def _release(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        read = _strings.read("values", values)
        size = self._lengths[-1] // 8
        rows = read.padded(size).view(f"V{size}").reshape(read.shape)
        return self._run(values, rows, REPORT, self._draw, out, stream, workers)

    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        rows = x.view(np.uint8).reshape(len(x), self._lengths[-1] // 8)
        for low in range(0, len(x), _SLAB):
            part = slice(low, low + _SLAB)
            self._draw_slab(rows[part], reports[part], stream, workers)

    def _draw_slab(
        self, rows: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        n = len(rows)
        seeds, values = np.zeros(n, np.uint64), np.zeros(n, np.uint32)
        # Seeds are published: the key behind them has nothing else to hide.
        with _core.Call(stream) as public:
            _core.fill_bytes_into(public, seeds)
        groups = self._groups_of(seeds)
        digests, buckets = np.zeros(n, np.uint64), np.zeros(n, np.uint32)
        try:
            for level in range(len(self._lengths)):
                mine = np.flatnonzero(groups == level)
                held = rows[mine]
                found = self._digests(held, level)
                digests[mine] = found
                _core.zero(found)
                _core.zero(held)
            with _core.Call(stream, values) as secret:

                def part(start: int, stop: int, chunk: int) -> None:
                    mine = slice(start, stop)
                    self._key.buckets(
                        seeds[mine], self._buckets, digests[mine], buckets[mine]
                    )
                    _core.respond(
                        secret, self._law, buckets[mine], values[mine], 0, chunk
                    )

                _arrays.in_parallel(part, n, self._law.chunk, workers)
        finally:
            _core.zero(digests)
            _core.zero(buckets)
        reports["seed"], reports["value"] = seeds, values

    def _digests(self, rows: _Array, level: int) -> _Array:
        """Return the digests of the prefixes of a level, of rows of whole values."""
        length = self._lengths[level]
        prefixes = np.array(rows[:, : -(-length // 8)], order="C")  # a copy
        prefixes[:, -1] &= 0xFF & (0xFF00 >> (length - 1) % 8 + 1)
        start = np.arange(len(rows) + 1, dtype=np.int64) * prefixes.shape[1]
        found = np.zeros(len(rows), np.uint64)
        self._key.digests(start, prefixes.reshape(-1), found)
        _core.zero(prefixes)
        return found

    def _groups_of(self, seeds: _Array) -> _Array:
        """Return the group of each seed: half of all the last, the others evenly."""
        last = len(self._lengths) - 1
        places = (seeds >> np.uint64(32)) * np.uint64(max(1, 2 * last)) >> np.uint64(32)
        groups: _Array = np.minimum(places, np.uint64(last)).astype(np.int64)
        return groups

    # --- hunt ---------------------------------------------------------------------

    def find(self, reports: Any, *, workers: int = 1) -> ValueEstimate:
        """Return the frequent values, the most frequent first.

        Parameters
        ----------
        reports : ndarray of `report_dtype`, or list of pairs
            What `release` returned, of any number of users. A report out of the range
            of reports supports no value but counts as a user.
        workers : int
            Threads; what is found does not depend on it.

        Returns
        -------
        ValueEstimate
            At most `most` values, text in `names`. The padding is taken off, and what
            is no UTF-8 becomes the replacement character.

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
        """Return what `find` does."""
        return self.find(reports, workers=workers)

    def aggregator(self) -> Hunt:
        """Return the first level of a hunt; see `Hunt`."""
        return Hunt(self)

    @property
    def _tally_size(self) -> int:
        return 0  # a level's own

    def _count(self, reports: _Array, tally: _Array) -> None:
        raise NotImplementedError  # a level counts

    def _estimate(self, tally: _Array, users: int) -> ValueEstimate:
        raise NotImplementedError

    def _candidates(self, level: int, kept: _Array) -> _Array:
        """Return the extensions of the kept prefixes to a level's length, as rows."""
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
        """Return the supporters that chance gives none of the candidates, but for beta.

        Supporters of a value that nobody holds are binomial.
        """
        from scipy.special import bdtrc

        cross, share = float(self._support.cross), float(self._beta) / candidates
        low, high = math.floor(users * cross), users + 1
        while low < high:
            middle = (low + high) // 2
            beyond = middle > users or bdtrc(middle - 1, users, cross) <= share
            low, high = (low, middle) if beyond else (middle + 1, high)
        return low


class Hunt(Aggregator[ValueEstimate]):
    """A level of a `PrefixHunt`: the reports of one group against its candidates.

    Made by `PrefixHunt.aggregator`. Each level reads reports of its own group alone and
    passes over others, so that all reports can be streamed through every level, in
    batches and on several machines, whose levels merge::

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
        What made, or will make, the reports.
    level : int
        Number of the group, from 0.
    kept : ndarray of uint8, shape (prefixes, bytes), optional
        Prefixes that the level before has kept, filled up with zeros.
    """

    __slots__ = ("_candidates", "_digests", "_kept", "_level")

    _mechanism: PrefixHunt

    def __init__(
        self, mechanism: PrefixHunt, level: int = 0, kept: _Array | None = None
    ) -> None:
        if kept is None:
            kept = np.zeros((1, mechanism._lengths[-1] // 8), np.uint8)
        self._mechanism, self._level, self._kept = mechanism, level, kept
        self._candidates = mechanism._candidates(level, kept)
        self._digests = mechanism._digests(self._candidates, level)
        # Behind the supporters of all candidates, the users of the group.
        self._tally = np.zeros(len(self._digests) + 1, np.int64)
        self._users = 0

    @property
    def level(self) -> int:
        """Number of the group that is counted, from 0."""
        return self._level

    @property
    def last(self) -> bool:
        """Whether this level has whole values, and no next one."""
        return self._level == len(self._mechanism._lengths) - 1

    def add(
        self,
        reports: Any,
        *,
        packed: bool = False,
        count: int | None = None,
        workers: int = 1,
    ) -> Hunt:
        """Count a batch of reports; all of it or, if anything fails, none.

        Parameters
        ----------
        reports : ndarray of `report_dtype`, or list of pairs
            Reports of any groups.
        packed, count
            To be left out.
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
        """Add what the same level has counted elsewhere.

        Raises
        ------
        DTypeError
            `other` is no level of a hunt.
        ParameterError
            It belongs to a different mechanism, or to another level.
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
        """Return the next level, whose prefixes extend the best of this one.

        Raises
        ------
        ParameterError
            This is the last one.
        """
        if self.last:
            raise ParameterError("next must be asked of a level before the last one")
        best = _best(self._tally[:-1], 2 * self._mechanism._most)
        return Hunt(self._mechanism, self._level + 1, self._candidates[np.sort(best)])

    def estimate(self) -> ValueEstimate:
        """Return the frequent values, the most frequent first.

        Raises
        ------
        ParameterError
            This is not the last level.
        """
        if not self.last:
            raise ParameterError(
                "estimate must be asked of the last level: count the reports again in "
                "next()"
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

    def _place(self) -> tuple[PrefixHunt, int, bytes]:
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
    mechanism: PrefixHunt,
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
    """Return the places of the largest numbers, largest first, earlier ones of ties."""
    return np.argsort(-supporters, kind="stable")[:most]


def _text_of(row: _Array) -> str:
    return row.tobytes().rstrip(b"\0").decode("utf-8", "replace")


def _lengths_of(bits: object, groups: object, most: int) -> tuple[int, ...]:
    """Return the lengths of the prefixes of all groups."""
    whole = _validate.integer("bits", bits, 8, _MOST_BITS)
    if whole % 8:
        raise ParameterError(f"bits must be a multiple of 8, got {whole}")
    first = min(_FIRST, whole)
    widest = 12 - (2 * most - 1).bit_length()
    steps = -(-(whole - first) // max(1, widest))
    if groups is not None:
        steps = _validate.integer("groups", groups, 1, whole - first + 1) - 1
    if whole > first and steps == 0:
        raise ParameterError(f"groups must be at least 2 for {whole} bits, got 1")
    rest = whole - first
    lengths = [first, *(first + -(-rest * i // steps) for i in range(1, steps + 1))]
    wide = max((b - a for a, b in itertools.pairwise(lengths)), default=0)
    if 2 * most << wide > _MOST_CANDIDATES:
        raise ParameterError(
            f"groups must be so many that a length has at most {_MOST_CANDIDATES} "
            f"candidates, 2 most times 2**{wide}: take more groups or a smaller most"
        )
    return tuple(lengths)


def _collision_probability(buckets: int) -> Fraction:
    """Return the probability that two values share a bucket; of 2**32 hash values."""
    few, larger = divmod(2**32, buckets)
    pairs = (buckets - larger) * few**2 + larger * (few + 1) ** 2
    return Fraction(pairs, 2**64)
