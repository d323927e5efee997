"""What every local mechanism has: release of reports, their tally, the estimate.

Kernels alone see values. Here are the checks, which look at dtype and shape, the cut
into parts of bounded memory, and the clearing of what must not stay.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _laws, _validate
from fastdp._doorway import enter, is_data
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events._base import unwrapped, wrapped
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._base import Mechanism, int64_scalar
from fastdp.mechanisms.local import _reports
from fastdp.mechanisms.local.aggregation import Aggregator
from fastdp.mechanisms.local.categories import Categories, Names
from fastdp.mechanisms.local.estimates import FrequencyEstimate, Support

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Draws (a call, flat values, flat reports, threads) of one release.
Draw: TypeAlias = Callable[[_Array, _Array, "Stream | None", int], None]

#: Name of the form of reports as JSON; its version is that of events.
REPORTS = "fastdp report"

#: Chunks of a call's keystream for one purpose; the next purpose begins there.
REGION = 2**30

#: First chunk of what makes labels of values.
LABELS = 2 * REGION

#: Users whose reports are drawn together: whole chunks of whatever draws them.
USERS = 8192

#: Most bytes of reports of one release: every region has chunks enough for them.
_MOST_BYTES = 2**42

#: Most categories of the mechanisms that hash or encode them.
MOST_CATEGORIES = 2**24

#: Most categories, or buckets, of k-ary response.
MOST_ANSWERS = 2**31 - 1


class FrequencyOracle(Mechanism):
    """Base of the mechanisms that privatise one category of each user."""

    __slots__ = (
        "_domain",
        "_labeling",
        "_report_dtype",
        "_row",
        "_support",
    )

    #: Whether a release may write into its own input.
    _in_place: ClassVar[bool] = False

    _domain: Categories
    _labeling: _core.Response  # keeps labels, replaces values that are none
    _report_dtype: np.dtype[Any]
    _row: tuple[int, ...]  # shape of one report
    _support: Support

    @property
    def categories(self) -> int:
        """Number of categories; values are 0 ... categories - 1, or their names."""
        return self._domain.count

    @property
    def names(self) -> Names | None:
        """What the categories are called, in their order; None: 0, 1, 2 ..."""
        return self._domain.names

    @property
    def other(self) -> int | str | None:
        """Category that a value outside the domain counts as; None: one at random."""
        return self._domain.arguments[1][1]  # type: ignore[no-any-return]

    @property
    def report_dtype(self) -> np.dtype[Any]:
        """Dtype of reports."""
        return self._report_dtype

    @property
    def report_width(self) -> int:
        """Bytes of one report."""
        return self._report_dtype.itemsize * (self._row[0] if self._row else 1)

    def standard_error(self, users: int, *, frequency: Real = 0) -> float:
        """Return the standard error that the estimate of a count will have.

        Parameters
        ----------
        users : int
            Number of reports, >= 0.
        frequency : int, float, Fraction or Decimal
            Share of the users with the category, in [0, 1].

        Raises
        ------
        DTypeError, ParameterError
            A parameter is of a wrong type or out of its domain.
        """
        users = _validate.integer("users", users, 0)
        share = _validate.between("frequency", frequency, Fraction(0), Fraction(1))
        return self._support.standard_error(users, frequency=share)

    # --- release ------------------------------------------------------------------

    @_core.zero_on_failure
    def release(
        self,
        values: Any,
        *,
        out: _Array | None = None,
        stream: Stream | None = None,
        workers: int = 1,
    ) -> Any:
        """Return one private report for every value.

        Parameters
        ----------
        values : int, numpy integer, ndarray of an integer dtype (not uint64), or column
            Categories 0 ... categories - 1, of any shape. What lies outside counts
            as `other`, or as a category drawn uniformly if that is None; so do nulls.
            Columns are those of `DiscreteLaplace.release`. With names of categories a
            name, or an array or column of strings or of integers, compared as they are.
        out : ndarray, optional
            C-contiguous array of the reports' dtype and shape to write into.
        stream : Stream, optional
            None draws fresh keys from the operating system; for repeatable tests
            `fastdp.testing.FixedStream`.
        workers : int
            Threads; the reports of a fixed stream do not depend on it.

        Returns
        -------
        numpy scalar or ndarray
            Of dtype `report_dtype` and the shape of `values`; a unary row has an
            axis of its own, the last. One number a value comes as a column of the
            kind that `values` is. `out` if it was given.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype, layout or shape. Never for a value.
        EntropyError
            The operating system gave no randomness; `out` is filled with zeros.

        Privacy
        -------
        That of `event()` for each report: local differential privacy, the values of
        one user being neighbours whatever they are. Exact. Timing class T2:
        independent of values and randomness (Python ints apart, whose conversion is
        the interpreter's). With names T0: they are looked up.
        """
        if self.names is not None:
            places, leave = self._domain.places_of("values", values)
            try:
                reports = self._release_places(places, out, stream, workers)
            finally:
                _core.zero(places)
        elif is_data(values):
            column, leave = enter("values", values, labels=True)
            reports = self.release(column, out=out, stream=stream, workers=workers)
        else:
            return self._release_places(values, out, stream, workers)
        return leave(reports) if out is None else reports

    def _release_places(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        if isinstance(values, np.ndarray):
            labels = _arrays.data("values", values, real=False)
        else:
            labels = int64_scalar("values", values).__array__()
        dtype = self._report_dtype
        return self._run(values, labels, dtype, self._draw, out, stream, workers)

    def _run(
        self,
        values: Any,
        checked: _Array,
        dtype: np.dtype[Any],
        draw: Draw,
        out: _Array | None,
        stream: Stream | None,
        workers: int,
    ) -> Any:
        """Release the values, `checked` being them or a copy that is cleared."""
        copied = checked is not values
        try:
            check_stream(stream)
            workers = _validate.integer("workers", workers, 1)
            shape = (*checked.shape, *self._row)
            check_size(shape, dtype)
            reports = np.zeros(shape, dtype) if out is None else out
            _arrays.output(reports, shape, dtype)
            if out is not None and self._shares(checked, reports):
                checked, copied = checked.copy(), True
            flat = reports.reshape(-1, *self._row)
            draw(checked.reshape(-1), flat, stream, workers)
        finally:
            if copied:
                _core.zero(checked)
        return reports[()] if out is None and reports.ndim == 0 else reports

    def _shares(self, x: _Array, out: _Array) -> bool:
        """Tell whether writing `out` would spoil what has yet to be read of `x`."""
        start, first = (a.__array_interface__["data"][0] for a in (x, out))
        same = start == first and x.dtype == out.dtype
        return not (same and self._in_place) and np.may_share_memory(x, out)

    @abstractmethod
    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        """Write a report for every value of the flat `x`."""

    def _relabel(self, call: _core.Call, x: _Array, labels: _Array, first: int) -> None:
        """Write the values as uint32 labels, those outside the domain replaced.

        The first is that of user `first`, with whom a chunk begins.
        """
        at = LABELS + first // self._labeling.chunk
        _core.respond(call, self._labeling, x, labels, self._stand_in, at)

    @staticmethod
    def _labeling_of(categories: int) -> _core.Response:
        return _laws.response_law(Fraction(1), categories)

    @property
    def _stand_in(self) -> int:
        """The kernels' word for `other`."""
        return -1 if self._domain.other is None else self._domain.other

    # --- reports as JSON ----------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """32 hex digits that name the mechanism: of SHA-256 of `to_json()`."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:32]

    def reports_to_json(self, reports: Any) -> str:
        """Return reports as JSON text, for `reports_from_json` (docs/reports.md).

        Parameters
        ----------
        reports : ndarray, numpy scalar or column
            What `release` returned: one report, or a column of them.

        Raises
        ------
        DTypeError, ParameterError
            As `estimate`.
        """
        flat = self._as_reports(reports)
        listed = [_reports.written(report) for report in flat]
        single = np.ndim(reports) == len(self._row) and not is_data(reports)
        content = listed[0] if single else listed
        mine = {"mechanism": self.fingerprint, "reports": content}
        return json.dumps(wrapped(REPORTS, "content", mine))

    def reports_from_json(self, text: str) -> _Array:
        """Return the reports that `reports_to_json` of an equal mechanism wrote.

        Returns
        -------
        ndarray of `report_dtype`
            One for each report, also where the text has a single one.

        Raises
        ------
        DTypeError, ParameterError
            The text is not such JSON, of another version or another mechanism, or has
            what is no report. Nothing of it is shown.
        """
        content = unwrapped(text, REPORTS, "content")
        if not isinstance(content, dict) or set(content) != {"mechanism", "reports"}:
            raise ParameterError("text must have a mechanism and reports")
        if content["mechanism"] != self.fingerprint:
            raise ParameterError(
                f"text must have reports of the mechanism {self.fingerprint}, "
                f"{type(self).__name__}: it names another one"
            )
        listed = content["reports"]
        listed = listed if isinstance(listed, list) else [listed]
        found = np.zeros((len(listed), *self._row), self._report_dtype)
        for place, report in enumerate(listed):
            found[place] = _reports.read(report, self._report_dtype, self._row)
        return found

    # --- estimate -----------------------------------------------------------------

    def estimate(self, reports: Any, *, workers: int = 1) -> FrequencyEstimate:
        """Return unbiased counts of all categories with their standard errors.

        Parameters
        ----------
        reports : ndarray, numpy scalar, list or column
            What `release` returned, of any number of users; integers may be wider. A
            report out of the range of reports (of a broken or hostile client) supports
            no category but counts as a user.
        workers : int
            Threads; the estimate does not depend on it.

        Returns
        -------
        FrequencyEstimate

        Raises
        ------
        DTypeError, ParameterError
            The reports have a wrong dtype or shape.
        """
        return self.aggregator().add(reports, workers=workers).estimate()

    def aggregator(self) -> Aggregator:
        """Return an empty aggregator of this mechanism's reports."""
        return Aggregator(self)

    @property
    def _tally_size(self) -> int:
        """Length of the tally of reports."""
        return self._domain.count

    def _tally(
        self, reports: Any, workers: int, packed: bool, count: int | None
    ) -> tuple[_Array, int]:
        """Return the tally of a batch of reports and its number of users."""
        if packed or count is not None:
            raise ParameterError(
                "packed and count must be left out: only RandomizedResponse with 2 "
                "categories has packed reports"
            )
        checked = self._as_reports(reports)
        size = self._tally_size
        return count_parts(checked, size, self._count, workers), len(checked)

    def _as_reports(self, reports: Any) -> _Array:
        """Return reports as a flat array."""
        return _reports.as_reports(reports, self._report_dtype, self._row)

    @abstractmethod
    def _count(self, reports: _Array, tally: _Array) -> None:
        """Add a flat array of checked reports to a tally."""

    def _estimate(self, tally: _Array, users: int) -> FrequencyEstimate:
        """Return the estimate from a tally, by default of supporters."""
        return self._support.estimate(tally, users)


def check_size(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse more reports than one release has keystream for."""
    size = math.prod((dtype.itemsize, *shape))
    if size > _MOST_BYTES:
        raise ParameterError(
            f"values must be released in parts of at most {_MOST_BYTES} bytes of "
            f"reports, got {size}"
        )


def count_parts(
    reports: _Array,
    size: int,
    count: Callable[[_Array, _Array], None],
    workers: int,
) -> _Array:
    """Return the sum of the tallies that the threads make of their reports."""
    tallies = []

    def part(start: int, stop: int, _: int) -> None:
        tally = np.zeros(size, np.int64)
        count(reports[start:stop], tally)
        tallies.append(tally)

    _arrays.in_parallel(part, len(reports), USERS, workers)
    total = np.zeros(size, np.int64)
    for tally in tallies:
        total += tally
    return total


@contextmanager
def scratch(n: int, *dtypes: type[np.unsignedinteger[Any]]) -> Iterator[list[_Array]]:
    """Give arrays of `n` elements for labels and random words, and clear them."""
    arrays: list[_Array] = [np.zeros(n, dtype) for dtype in dtypes]
    try:
        yield arrays
    finally:
        for array in arrays:
            _core.zero(array)


def least_dtype(largest: int) -> np.dtype[Any]:
    """Return the least unsigned dtype of 8, 16 or 32 bits that holds `largest`."""
    return np.min_scalar_type(largest)
