"""RAPPOR: Bloom filters of strings, randomized once and then again in each report."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core, _laws, _validate
from fastdp._stream import CallKey, Stream
from fastdp._validate import Real
from fastdp.accounting.events import RandomizedResponseEvent
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError
from fastdp.mechanisms.local import _probabilities, _reports, _strings
from fastdp.mechanisms.local._base import REGION
from fastdp.mechanisms.local._decoding import decoded
from fastdp.mechanisms.local._mechanism import LocalMechanism
from fastdp.mechanisms.local.count_mean_sketch import sums_by_row
from fastdp.mechanisms.local.estimates import ValueEstimate

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Maximum bits of a filter; maximum bits of all cohorts together.
_MOST_BITS = 2**15
_MOST_CELLS = 2**24


class Rappor(LocalMechanism["BloomCounts"]):
    """RAPPOR: reports of strings that a client may repeat; pure local privacy.

    A string sets some bits of a Bloom filter, which the client randomizes once and
    keeps (the memo). Every report randomizes the memo again. Any number of reports from
    one memo reveal no more than the memo. RAPPOR is here to decode existing data in
    this form: `CountMeanSketch` and `PrefixHunt` have smaller errors.

    Parameters
    ----------
    f : int, float, Fraction or Decimal
        Share of the memo's bits that are fair coins, in (0, 1); rounded up to a
        multiple of 2**-63.
    p : int, float, Fraction or Decimal
        Probability that a report has 1 where the memo has 0, above 0; rounded up to a
        multiple of 2**-64.
    q : int, float, Fraction or Decimal
        Probability that a report has 1 where the memo has 1, above p and below 1;
        rounded down.
    bits : int
        Length of the filter, a power of two in [8, 2**15].
    hashes : int
        Number of bits that a string sets, at most 16; two equal positions count as one
        bit.
    cohorts : int
        Number of sets of hash functions, a power of two up to 2**12; each user has one
        uniformly drawn, public set. At most 2**24 bits in all cohorts together.
    key : str
        32 hex digits from which the hash functions are made, public.

    Privacy
    -------
    Pure local privacy: any two values of one user are neighboring, and no sensitivity
    is needed. `event()` is the cost of the memo, and so of all reports that a client
    makes of one value: epsilon = 2 hashes ln((2 - f)/f). `report_event()` is the cost
    of a single report. **If the value changes, there is a new memo and a new cost.**
    The memo is as secret as the value. Exact. Timing class T0.

    References
    ----------
    Erlingsson, Pihur, Korolova, "RAPPOR: randomized aggregatable privacy-preserving
    ordinal response", CCS 2014.

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.Rappor(0.5, p=0.5, q=0.75)
    >>> from fastdp.accounting import event_epsilon
    >>> round(m.epsilon(), 3), round(event_epsilon(m.report_event()), 4)
    (4.394, 1.0743)
    >>> memo = m.permanent("red", cohort=7, secret=b"sixteen bytes or more")
    >>> again = m.permanent("red", cohort=7, secret=b"sixteen bytes or more")
    >>> memo.tobytes() == again.tobytes()
    True
    >>> m.report(memo).dtype.names
    ('cohort', 'bits')
    """

    __slots__ = ("_functions", "_key", "_laws", "_shape", "_truths")

    _functions: _Array
    _key: _core.HashKey
    _laws: tuple[_core.Bernoulli, _core.Bernoulli, _core.Bernoulli]  # f/2, p, q
    _shape: tuple[int, int, int]  # bits, hashes, cohorts
    _truths: tuple[Fraction, Fraction, Fraction]  # f, p, q

    def __init__(
        self,
        f: Real,
        *,
        p: Real,
        q: Real,
        bits: int = 128,
        hashes: int = 2,
        cohorts: int = 64,
        key: str = _strings.NO_KEY,
    ) -> None:
        half = _probabilities.ceil_unit(_validate.open_unit("f", f) / 2)
        low = _probabilities.ceil_unit(_validate.open_unit("p", p))
        high = _probabilities.floor_unit(_validate.open_unit("q", q))
        if 2 * half >= 1:
            raise ParameterError(f"f must be below 1 when rounded up, got {f!r}")
        if low >= high:
            raise ParameterError(f"p must be below q, got {p!r} and {q!r}")
        shape = _checked_shape(bits, hashes, cohorts)
        key = _strings.checked_key(key)
        public = _strings.hash_key(key)
        seeds = np.arange(shape[1] * shape[2], dtype=np.uint64)
        self._freeze(
            _arguments=(
                ("f", _validate.plain(2 * half)),
                ("p", _validate.plain(low)),
                ("q", _validate.plain(high)),
                *zip(("bits", "hashes", "cohorts"), shape, strict=True),
                ("key", key),
            ),
            _truths=(2 * half, low, high),
            _laws=tuple(map(_laws.bernoulli_law, (half, low, high))),
            _shape=shape,
            _key=public,
            _functions=_strings.functions(public, seeds),
            _report_dtype=np.dtype(
                [("cohort", "<u2"), ("bits", "u1", (shape[0] // 8,))]
            ),
            _row=(),
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        p: Real,
        q: Real,
        bits: int = 128,
        hashes: int = 2,
        cohorts: int = 64,
        key: str = _strings.NO_KEY,
    ) -> Rappor:
        """Return the mechanism with the least share f of coins that meets `epsilon`.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            Epsilon of a memo, and so of all reports of one value together, > 0.
        p, q, bits, hashes, cohorts, key : as for the class

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter has a wrong type or is out of its domain, or `epsilon` is so
            small that only fair coins meet it.
        """
        exact = _validate.positive("epsilon", _validate.least_reading(epsilon))
        hashes = _checked_shape(bits, hashes, cohorts)[1]
        ratio = _probabilities.ratio_of(exact / (2 * hashes), Fraction(2**62))
        f = 2 * _probabilities.ceil_unit(1 / (1 + ratio))
        if f >= 1:
            raise CalibrationError(
                f"epsilon must be larger: it would be rounded to 0, got {epsilon!r}"
            )
        return cls(f, p=p, q=q, bits=bits, hashes=hashes, cohorts=cohorts, key=key)

    @property
    def f(self) -> Fraction:
        """Share of the memo's bits that are fair coins, exact."""
        return self._truths[0]

    @property
    def p(self) -> Fraction:
        """Probability of a 1 where the memo has 0, exact."""
        return self._truths[1]

    @property
    def q(self) -> Fraction:
        """Probability of a 1 where the memo has 1, exact."""
        return self._truths[2]

    @property
    def bits(self) -> int:
        """Length of the filter."""
        return self._shape[0]

    @property
    def hashes(self) -> int:
        """Number of bits that a string sets, one for each hash function."""
        return self._shape[1]

    @property
    def cohorts(self) -> int:
        """Number of cohorts: sets of hash functions."""
        return self._shape[2]

    @property
    def key(self) -> str:
        """Public key of the hash functions, 32 hex digits."""
        return str(dict(self._arguments)["key"])

    def event(self) -> RandomizedResponseEvent:
        """Return the event of a memo, and so of all reports of one value together."""
        return _of_ratio(((2 - self.f) / self.f) ** (2 * self.hashes))

    def report_event(self) -> RandomizedResponseEvent:
        """Return the event of a single report, if its memo makes no other report."""
        own, cross = self._chances()
        return _of_ratio((own * (1 - cross) / (cross * (1 - own))) ** self.hashes)

    def _chances(self) -> tuple[Fraction, Fraction]:
        """Return the probabilities of a 1 in a report for bits set and not set."""
        f, p, q = self._truths
        fair = f * (p + q) / 2
        return fair + (1 - f) * q, fair + (1 - f) * p

    # --- clients ------------------------------------------------------------------

    def permanent(
        self,
        values: Any,
        *,
        cohort: Any = None,
        secret: bytes | None = None,
        stream: Stream | None = None,
    ) -> Any:
        """Return the memo of each value, which its client stores and keeps secret.

        Parameters
        ----------
        values : str, bytes or int, or a list, array or column of them
            One value a user, read as in `CountMeanSketch.release`.
        cohort : int or ndarray of integers, optional
            The user's cohort, 0 ... cohorts - 1, which a client draws once and keeps.
            None draws one.
        secret : bytes, optional
            At least 16 bytes that one client drew once and keeps secret. The memo is
            then computed from the secret, the cohort and the value, so it need not be
            stored. Only for a single value, given with its cohort.
        stream : Stream, optional
            None draws fresh keys from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests. Must be None with a
            secret.

        Returns
        -------
        numpy scalar or ndarray of `report_dtype`
            Cohort and randomized filter.

        Raises
        ------
        DTypeError, ParameterError
            A parameter has a wrong type or is out of its domain. Never raised for a
            value.
        """
        read = _strings.read("values", values)
        digests = read.digests(self._key).reshape(-1)
        if secret is not None:
            stream = self._own_stream(secret, cohort, stream, read)
        memos = np.zeros(len(digests), self._report_dtype)
        memos["cohort"] = self._cohorts_of(cohort, len(digests), read.shape, stream)
        filters = self._filters(digests, memos["cohort"])
        _core.zero(digests)
        with _core.Call(stream, filters) as call:
            flat = filters.reshape(-1)
            _core.flip_bits(call, self._laws[0], flat, flat, 8 * flat.size)
        memos["bits"] = filters
        return memos.reshape(read.shape)[()]

    def report(self, memos: Any, *, stream: Stream | None = None) -> Any:
        """Return one report for each memo; a memo may make any number of reports.

        Parameters
        ----------
        memos : numpy scalar or ndarray of `report_dtype`
            Memos that `permanent` returned.
        stream : Stream, optional
            As in `permanent`.

        Returns
        -------
        numpy scalar or ndarray of `report_dtype`

        Raises
        ------
        DTypeError
            `memos` does not have this dtype.
        """
        kept = self._as_reports(memos)
        bits = np.ascontiguousarray(kept["bits"]).reshape(-1)
        ones, zeros = np.zeros_like(bits), np.zeros_like(bits)
        with _core.Call(stream, ones) as call:
            _core.flip_bits(call, self._laws[2], None, ones, 8 * bits.size)
            _core.flip_bits(call, self._laws[1], None, zeros, 8 * bits.size, REGION)
        reports = np.zeros_like(kept)
        reports["cohort"] = kept["cohort"]
        ones &= bits
        zeros &= ~bits
        reports["bits"] = (ones | zeros).reshape(len(kept), -1)
        _core.zero(ones)
        _core.zero(zeros)
        return reports.reshape(np.shape(memos))[()]

    def _own_stream(
        self,
        secret: object,
        cohort: object,
        stream: Stream | None,
        read: _strings.Strings,
    ) -> Stream:
        if not isinstance(secret, bytes):
            raise DTypeError(f"secret must be bytes, got {type(secret).__name__}")
        if len(secret) < 16:
            raise ParameterError("secret must have at least 16 bytes")
        if stream is not None:
            raise ParameterError("stream must be left out with a secret")
        if read.shape != () or cohort is None:
            raise ParameterError(
                "secret must come with one value and its cohort, because "
                "it belongs to one client"
            )
        own = _validate.integer("cohort", cohort, 0, self.cohorts - 1)
        parts = (secret, self.fingerprint.encode(), str(own).encode())
        mixed = hashlib.sha256()
        for part in (*parts, read.text.tobytes()):
            mixed.update(len(part).to_bytes(8, "little") + part)
        return _Memo(mixed.digest())

    def _cohorts_of(
        self, cohort: Any, n: int, shape: tuple[int, ...], stream: Stream | None
    ) -> _Array:
        if cohort is None:
            drawn = np.zeros(n, np.uint16)
            with _core.Call(stream) as public:
                _core.fill_bytes_into(public, drawn)
            return drawn & np.uint16(self.cohorts - 1)
        given = np.asarray(cohort)
        if given.dtype.kind not in "iu":
            raise DTypeError("cohort must be an int or an array of integers")
        if given.shape not in ((), shape):
            raise ParameterError(f"cohort must have shape {shape}, got {given.shape}")
        if given.size and not 0 <= given.min() <= given.max() < self.cohorts:
            raise ParameterError(f"cohort must be in [0, {self.cohorts - 1}]")
        full: _Array = np.broadcast_to(given, shape).reshape(-1).astype(np.uint16)
        return full

    def _filters(self, digests: _Array, cohorts: _Array) -> _Array:
        """Return the Bloom filters of digests in their cohorts, as packed rows."""
        bits, hashes, _ = self._shape
        rows = np.zeros((len(digests), bits // 8), np.uint8)
        users, places = np.arange(len(digests)), np.zeros(len(digests), np.uint32)
        for j in range(hashes):
            mine = (cohorts * np.uint32(hashes) + j).astype(np.uint16)
            _core.row_buckets(
                self._functions, bits.bit_length() - 1, mine, digests, places
            )
            rows[users, places // 8] |= (128 >> places % 8).astype(np.uint8)
        _core.zero(places)
        return rows

    # --- server -------------------------------------------------------------------

    @property
    def _tally_size(self) -> int:
        """Number of counters: the bits of all cohorts, then each cohort's users."""
        return self.cohorts * (self.bits + 1)

    def _as_reports(self, reports: Any) -> _Array:
        return _reports.as_records(reports, self._report_dtype, made_by="report")

    def _count(self, reports: _Array, tally: _Array) -> None:
        cells = self.cohorts * self.bits
        rows = np.ascontiguousarray(reports["cohort"])
        table = tally[:cells].reshape(self.cohorts, self.bits)
        sums_by_row(rows, reports["bits"], table)
        _core.histogram(rows, tally[cells:])

    def _estimate(self, tally: _Array, users: int) -> BloomCounts:
        cells = self.cohorts * self.bits
        counts = tally[:cells].reshape(self.cohorts, self.bits).copy()
        return BloomCounts(self, counts, tally[cells:].copy(), users)


@dataclass(frozen=True, eq=False)
class BloomCounts:
    """Counts of each bit in each cohort, from which candidates can be decoded.

    The `estimate` methods of `Rappor` and its aggregators return it.

    Parameters
    ----------
    mechanism : Rappor
        Mechanism that made the reports.
    counts : ndarray of int64, shape (cohorts, bits)
        Number of reports with the bit.
    cohort_users : ndarray of int64, shape (cohorts,)
        Number of reports of each cohort.
    users : int
        Number of reports.
    """

    mechanism: Rappor
    counts: _Array = field(repr=False)
    cohort_users: _Array = field(repr=False)
    users: int

    def decode(
        self, candidates: Any, *, level: Real = Fraction(1, 20)
    ) -> ValueEstimate:
        """Return the candidates that were reported, with their estimated counts.

        Parameters
        ----------
        candidates : list, ndarray or column of str, bytes or int
            Strings that users may hold, each once. If several share all bits, their
            count is divided among them arbitrarily.
        level : int, float, Fraction or Decimal
            Probability that any candidate is shown that nobody holds, in (0, 1).

        Returns
        -------
        ValueEstimate
            Candidates with a count above 0 by a one-sided test at level/candidates,
            most frequent first.

        Raises
        ------
        DTypeError, ParameterError
            Candidates have a wrong type, or `level` is out of its domain.

        Notes
        -----
        LASSO selects the relevant candidates, non-negative least squares keeps the
        candidates with a positive share, and least squares estimates their counts, with
        errors from the reports' own variances. This is post-processing: it costs no
        privacy.
        """
        m, share = self.mechanism, float(_validate.open_unit("level", level))
        if isinstance(candidates, (str, bytes, int)):
            raise DTypeError("candidates must be a list or column, not a single value")
        digests = _strings.read("candidates", candidates).digests(m._key).reshape(-1)
        names = _strings.names_of(candidates)
        own, cross = map(float, m._chances())
        of_cohort = self.cohort_users[:, np.newaxis].astype(float)
        counts = (self.counts - cross * of_cohort) / (own - cross)
        seen = np.clip(self.counts, 1, None) / np.maximum(of_cohort, 2)
        noise = np.clip(seen * (1 - seen), 1e-12, None)
        spread = of_cohort * noise / (own - cross) ** 2
        cohorts = np.arange(m.cohorts)
        places = [
            np.flatnonzero(np.unpackbits(m._filters(np.full(m.cohorts, d), cohorts)))
            for d in digests
        ]
        weights = (self.cohort_users / max(self.users, 1))[:, np.newaxis]
        known = np.broadcast_to(self.cohort_users[:, np.newaxis] > 0, counts.shape)
        best, found, errors = decoded(
            places,
            np.where(known, counts, 0).reshape(-1),
            np.where(known, np.sqrt(spread), 1).reshape(-1),
            np.broadcast_to(weights, counts.shape).reshape(-1),
            share,
        )
        return ValueEstimate(
            found, errors, self.users, mechanism=m, names=tuple(names[i] for i in best)
        )


class _Memo(Stream):
    """Stream of one memo: each call gets the same key, always with ChaCha20."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def _next_call(self) -> CallKey:
        return _core.CIPHERS["chacha20"], self._key, None


def _of_ratio(ratio: Fraction) -> RandomizedResponseEvent:
    """Return the event of two answers, which dominates all laws with this ratio."""
    return RandomizedResponseEvent(p=ratio / (1 + ratio), q=1 / (1 + ratio))


def _checked_shape(bits: object, hashes: object, cohorts: object) -> tuple[int, ...]:
    width = _validate.integer("bits", bits, 8, _MOST_BITS)
    count = _validate.integer("hashes", hashes, 1, 16)
    groups = _validate.integer("cohorts", cohorts, 1, 2**12)
    for name, size in (("bits", width), ("cohorts", groups)):
        if size & (size - 1):
            raise ParameterError(f"{name} must be a power of two, got {size}")
    if width * groups > _MOST_CELLS:
        raise ParameterError("bits times cohorts must be at most 2**24")
    return width, count, groups
