"""Count-mean sketch: frequencies of strings without a list of candidates."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import RandomizedResponseEvent
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms.local import _probabilities, _reports, _strings
from fastdp.mechanisms.local._mechanism import USERS
from fastdp.mechanisms.local._release import ReportsOnce
from fastdp.mechanisms.local.estimates import Support, ValueEstimate
from fastdp.mechanisms.local.hadamard_response import HadamardResponse
from fastdp.mechanisms.local.unary_encoding import UnaryEncoding

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Maximum numbers of rows and cells of a sketch, for the server's memory.
_MOST_ROWS = 2**15
_MOST_CELLS = 2**24

#: Maximum number of buckets: a Hadamard code of that many categories has 16 bits.
_MOST_BUCKETS = 2**15

#: Process this many users at a time: their labels and inner reports are in memory.
_SLAB = 2**18


#: Marks a report that belongs to no cell.
_NO_CELL = np.uint32(2**32 - 1)


class CountMeanSketch(ReportsOnce["Sketch"]):
    """Count-mean sketch: frequencies of strings without a list of candidates.

    Each user draws one of the public hash functions, which map strings to buckets, and
    privatizes the bucket of the user's value by Hadamard response (a report of 4 bytes)
    or symmetric unary encoding (one bit per bucket). A server adds the reports to a
    table of rows x buckets, from which it can estimate the count of any string at any
    later time.

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        Probability of the truth in the inner mechanism, above 1/2 and below 1; rounded
        down to a multiple of 2**-64.
    rows : int
        Number of hash functions, a power of two, at most 2**15.
    buckets : int
        Number of buckets, a power of two in [2, 2**15]; rows x buckets at most 2**24.
    inner : {"hadamard", "unary"}
        Mechanism that privatizes the bucket: Hadamard response or unary encoding.
    key : str
        32 public hex digits from which the hash functions are made. Anybody who knows
        the key can look for strings that collide: if values may be chosen against the
        sketch, draw a fresh key (`secrets.token_hex(16)`), shared by clients and
        server.

    Privacy
    -------
    Each report has the inner mechanism's pure local privacy: epsilon = ln(p/(1 - p))
    for Hadamard response, and 2 ln(p/(1 - p)) for unary encoding. Any two values of one
    user are neighboring, and no sensitivity is needed. Row and hash functions are drawn
    independently of the value. Exact. Timing class T0: the time to hash a string
    reveals its length.

    Notes
    -----
    Estimates are unbiased over the hash functions: any two strings share a bucket of a
    row with probability 1/buckets. Collisions are part of the stated errors; frequent
    values add to the error of all other values (docs/proofs/open_domains.md).

    References
    ----------
    Apple Differential Privacy Team, "Learning with privacy at scale", 2017 (CMS, HCMS);
    Aumasson, Bernstein, "SipHash", 2012; Thorup, "High speed hashing for integers and
    strings", 2015 (pair-multiply-shift).

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.CountMeanSketch.from_epsilon(4, rows=64, buckets=256)
    >>> reports = m.release(["an.example", "an.example", "another.example"] * 1000)
    >>> reports.dtype.names, reports.shape
    (('row', 'value'), (3000,))
    >>> sketch = m.estimate(reports)
    >>> sketch.of(["an.example", "nowhere.example"]).counts.shape
    (2,)
    """

    __slots__ = ("_functions", "_inner", "_key", "_rows", "_support")

    _functions: _Array
    _inner: HadamardResponse | UnaryEncoding
    _key: _core.HashKey
    _rows: int
    _support: Support

    def __init__(
        self,
        p: Real,
        *,
        rows: int,
        buckets: int,
        inner: str,
        key: str = _strings.NO_KEY,
    ) -> None:
        rows, buckets = _checked_size(rows, buckets)
        key = _strings.checked_key(key)
        made = _inner_of(inner, _probabilities.checked_truth(p, 2), buckets)
        public, share = _strings.hash_key(key), Fraction(1, buckets)
        own, cross = made._support.own, made._support.cross
        self._freeze(
            _arguments=(
                ("p", _validate.plain(made.p)),
                ("rows", rows),
                ("buckets", buckets),
                ("inner", inner),
                ("key", key),
            ),
            _rows=rows,
            _inner=made,
            _key=public,
            _functions=_strings.functions(public, np.arange(rows, dtype=np.uint64)),
            _support=Support(own, share * own + (1 - share) * cross),
            _report_dtype=np.dtype([("row", "<u2"), ("value", *_inner_report(made))]),
            _row=(),
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        rows: int = 1024,
        buckets: int = 1024,
        inner: str = "hadamard",
        key: str = _strings.NO_KEY,
    ) -> CountMeanSketch:
        """Return the sketch with the inner mechanism that is most often truthful.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            Epsilon of one report, > 0.
        rows, buckets, inner, key
            As for the class. "hadamard" has by far the smaller reports, "unary" the
            smaller variance: 16 % less at epsilon 1, half at 2, a sixth at 4.

        Raises
        ------
        DTypeError, ParameterError
            A parameter has a wrong type or is out of its domain.
        CalibrationError
            `epsilon` is so small that only the useless p = 1/2 meets it.
        """
        _checked_inner(inner)
        truth = _probabilities.truth_of(epsilon, 2, shares=1 + (inner == "unary"))
        return cls(truth, rows=rows, buckets=buckets, inner=inner, key=key)

    @property
    def p(self) -> Fraction:
        """Probability of the truth in the inner mechanism, exact."""
        return self._inner.p

    @property
    def rows(self) -> int:
        """Number of hash functions."""
        return self._rows

    @property
    def buckets(self) -> int:
        """Number of buckets of each hash function."""
        return self._inner.categories

    @property
    def inner(self) -> HadamardResponse | UnaryEncoding:
        """The mechanism that privatizes the bucket."""
        return self._inner

    @property
    def key(self) -> str:
        """Public key of the hash functions, 32 hex digits."""
        return str(dict(self._arguments)["key"])

    def event(self) -> RandomizedResponseEvent:
        """Return the event of one report, for two values in different buckets."""
        return self._inner.event()

    def standard_error(
        self, users: int, *, frequency: Real = 0, squares: Real = 0
    ) -> float:
        """Return the standard error of the later estimate of a count.

        Parameters
        ----------
        users : int
            Number of reports, >= 0.
        frequency : int, float, Fraction or Decimal
            Share of the users with the value, in [0, 1].
        squares : int, float, Fraction or Decimal
            Sum of the squared shares of all other values, in [0, 1]; it determines the
            error by collisions.
        """
        users = _validate.integer("users", users, 0)
        zero, one = Fraction(0), Fraction(1)
        share = _validate.between("frequency", frequency, zero, one)
        others = _validate.between("squares", squares, zero, one)
        pairs = users * max(users * others - (1 - share), Fraction(0))
        plain = self._support.standard_error(users, frequency=share)
        return math.hypot(plain, math.sqrt(pairs * self._collisions()))

    def _collisions(self) -> Fraction:
        """Return the variance of a count by each ordered pair of users that agree."""
        return Fraction(1, self._rows * (self.buckets - 1))

    # --- release ------------------------------------------------------------------

    def _release(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        digests = _strings.read("values", values).digests(self._key)
        dtype = self._report_dtype
        return self._run(values, digests, dtype, self._draw, out, stream, workers)

    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        # The rows are published, so their key is separate from the secret one.
        rows = np.zeros(len(x), np.uint16)
        with _core.Call(stream) as public:
            _core.fill_bytes_into(public, rows)
        rows &= np.uint16(self._rows - 1)
        reports["row"] = rows
        for low in range(0, len(x), _SLAB):
            part = slice(low, low + _SLAB)
            self._draw_values(x[part], rows[part], reports[part], stream, workers)

    def _draw_values(
        self,
        x: _Array,
        rows: _Array,
        reports: _Array,
        stream: Stream | None,
        workers: int,
    ) -> None:
        labels = np.zeros(len(x), np.uint32)
        bits = self.buckets.bit_length() - 1

        def part(start: int, stop: int, _: int) -> None:
            mine = slice(start, stop)
            _core.row_buckets(self._functions, bits, rows[mine], x[mine], labels[mine])

        try:
            _arrays.in_parallel(part, len(x), USERS, workers)
            inner = np.zeros((len(x), *self._inner._row), self._inner.report_dtype)
            self._inner._draw(labels, inner, stream, workers)
            reports["value"] = inner
        finally:
            _core.zero(labels)

    # --- tally --------------------------------------------------------------------

    def estimate(self, reports: Any, *, workers: int = 1) -> Sketch:
        """Return the table from which the count of any string can be estimated.

        Parameters
        ----------
        reports : ndarray of `report_dtype`
            Reports that `release` returned, from any number of users. An invalid report
            supports no value but counts as a user.
        workers : int
            Threads; the sketch does not depend on it.

        Raises
        ------
        DTypeError, ParameterError
            The reports have a wrong dtype.
        """
        return self.aggregator().add(reports, workers=workers).estimate()

    @property
    def _tally_size(self) -> int:
        """Number of counters: the inner tallies of all rows, then each row's users."""
        return self._rows * (self._inner._tally_size + 1)

    def _as_reports(self, reports: Any) -> _Array:
        return _reports.as_records(reports, self._report_dtype, made_by="release")

    def _count(self, reports: _Array, tally: _Array) -> None:
        size = self._inner._tally_size
        table, users = tally[: self._rows * size], tally[self._rows * size :]
        rows = np.ascontiguousarray(reports["row"])
        if isinstance(self._inner, HadamardResponse):
            values = reports["value"]
            cells = rows * np.uint32(size) + values
            cells[(rows >= self._rows) | (values >= size)] = _NO_CELL
            _core.histogram(cells, table)
        else:
            sums_by_row(rows, reports["value"], table.reshape(-1, size))
        _core.histogram(rows, users)

    def _estimate(self, tally: _Array, users: int) -> Sketch:
        cells = self._rows * self._inner._tally_size
        supporters = np.array(
            [
                self._inner._supporters(row)
                for row in tally[:cells].reshape(self._rows, -1)
            ]
        )
        pairs = self._equal_pairs(supporters, tally[cells:], users)
        return Sketch(self, supporters, users, pairs)

    def _equal_pairs(self, supporters: _Array, of_row: _Array, users: int) -> float:
        """Return an unbiased estimate of ordered pairs of users with equal values.

        It is computed from the squared counts of all cells, minus the contributions of
        the inner noise and of chance collisions.
        """
        own, cross = self._inner._support.own, self._inner._support.cross
        m, gap = self.buckets, float(own - cross)
        counts = (supporters - float(cross) * of_row[:, np.newaxis]) / gap
        noise = float(own * (1 - own) + (m - 1) * cross * (1 - cross)) / gap**2
        chance = of_row.astype(float) ** 2 / m
        together = (counts**2).sum(axis=1) - noise * of_row - chance
        return self._rows * (m / (m - 1) * float(together.sum()) - users)


@dataclass(frozen=True, eq=False)
class Sketch:
    """Table of a count-mean sketch, which estimates the count of any value.

    The `estimate` methods of `CountMeanSketch` and its aggregators return it.

    Parameters
    ----------
    mechanism : CountMeanSketch
        Mechanism that made the reports.
    table : ndarray of int64, shape (rows, buckets)
        Number of reports that support each bucket of each row.
    users : int
        Number of reports.
    equal_pairs : float
        Estimated number of ordered pairs of users that hold the same value.
    """

    mechanism: CountMeanSketch
    table: _Array = field(repr=False)
    users: int
    equal_pairs: float = field(repr=False)

    def __post_init__(self) -> None:
        self.table.flags.writeable = False

    def of(self, values: Any) -> ValueEstimate:
        """Return unbiased counts of the given values with their standard errors.

        Parameters
        ----------
        values : list, ndarray or column of str, bytes or int
            Values to estimate, of the types in `release`; a value need not occur.

        Returns
        -------
        ValueEstimate
            One entry for each value, with the value as its name.

        Raises
        ------
        DTypeError, ParameterError
            The values have another type or are not a sequence.
        """
        m = self.mechanism
        if isinstance(values, (str, bytes, int)):
            raise DTypeError("values must be a list or column, not a single value")
        asked = _strings.read("values", values)
        digests = asked.digests(m._key).reshape(-1)
        supporters = np.zeros(len(digests), np.int64)
        bits = m.buckets.bit_length() - 1
        _core.sketch_sums(m._functions, bits, self.table, digests, supporters)
        plain = m._support.estimate(supporters, self.users)
        held = np.clip(plain.counts, 0, self.users)
        pairs = np.maximum(self.equal_pairs - held * (held - 1), 0)
        errors = np.hypot(
            plain.standard_errors, np.sqrt(pairs * float(m._collisions()))
        )
        return dataclasses.replace(
            ValueEstimate(plain.counts, errors, self.users),
            mechanism=m,
            names=_strings.names_of(values),
        )


def _inner_of(
    inner: str, truth: Fraction, buckets: int
) -> HadamardResponse | UnaryEncoding:
    _checked_inner(inner)
    if inner == "hadamard":
        return HadamardResponse(truth, categories=buckets)
    return UnaryEncoding(p=truth, q=1 - truth, categories=buckets)


def _inner_report(inner: HadamardResponse | UnaryEncoding) -> tuple[Any, ...]:
    """Return the dtype and shape of the inner report inside a report."""
    return ("u1", inner._row) if inner._row else ("<u2",)


def _checked_inner(inner: object) -> None:
    if inner not in ("hadamard", "unary"):
        shown = repr(inner) if isinstance(inner, str) else type(inner).__name__
        raise ParameterError(f'inner must be "hadamard" or "unary", got {shown}')


def _checked_size(rows: object, buckets: object) -> tuple[int, int]:
    h = _validate.integer("rows", rows, 1, _MOST_ROWS)
    m = _validate.integer("buckets", buckets, 2, _MOST_BUCKETS)
    for name, size in (("rows", h), ("buckets", m)):
        if size & (size - 1):
            near = 1 << size.bit_length()
            raise ParameterError(
                f"{name} must be a power of two, got {size}: take {near // 2} or {near}"
            )
    if h * m > _MOST_CELLS:
        raise ParameterError(f"rows times buckets must be at most 2**24, got {h * m}")
    return h, m


def sums_by_row(rows: _Array, values: _Array, table: _Array) -> None:
    """Add each report's packed bits to its row of a table; skip rows out of range."""
    order = np.argsort(rows, kind="stable")
    ends = np.searchsorted(rows[order], np.arange(len(table) + 1))
    for row in np.flatnonzero(np.diff(ends)).tolist():
        part = values[order[ends[row] : ends[row + 1]]]
        _core.column_sums(part.reshape(-1), part.shape[1], table[row])
