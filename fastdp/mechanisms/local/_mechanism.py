"""Base of the local mechanisms: reports, their JSON form, their tally."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from fastdp import _arrays, _validate
from fastdp._doorway import is_data
from fastdp._validate import ONE
from fastdp.accounting.events._base import unwrapped, wrapped
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.local import _reports

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Type of the estimate from the reports of a mechanism.
Estimate = TypeVar("Estimate")

#: Name of the JSON format of reports; its version is that of events.
REPORTS = "fastdp report"

#: Draw the reports of this many users at a time: whole chunks of every kernel.
USERS = 8192


#: Version of the pickled state.
VERSION = 1

#: Tally of an aggregator that has counted nothing: a long one takes time to fill.
_NOTHING: _Array = np.zeros(0, np.int64)


class LocalMechanism(Mechanism, Generic[Estimate]):
    """Base of the mechanisms with which users privatize their own data.

    A subclass draws reports of `report_dtype` (rows of it if a report is not one
    number), counts them, and computes the estimate from the counts.
    """

    __slots__ = ("_report_dtype", "_row")

    _report_dtype: np.dtype[Any]
    _row: tuple[int, ...]  # shape of one report

    @property
    def report_dtype(self) -> np.dtype[Any]:
        """Dtype of reports."""
        return self._report_dtype

    @property
    def report_width(self) -> int:
        """Number of bytes of one report."""
        return self._report_dtype.itemsize * (self._row[0] if self._row else 1)

    # --- reports as JSON ----------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """The mechanism's identity as 32 hex digits, from SHA-256 of `to_json()`."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:32]

    def reports_to_json(self, reports: Any) -> str:
        """Return reports as JSON text, for `reports_from_json` (docs/reports.md).

        Parameters
        ----------
        reports : ndarray, numpy scalar or column
            Result of `release`: one report, or a column of reports.

        Raises
        ------
        DTypeError, ParameterError
            As in `estimate`.
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
            One element for each report, also if the text has only one.

        Raises
        ------
        DTypeError, ParameterError
            The text is not such JSON, has another version or mechanism, or contains
            something that is not a report. The error does not show the text.
        """
        content = unwrapped(text, REPORTS, "content")
        if not isinstance(content, dict) or set(content) != {"mechanism", "reports"}:
            raise ParameterError("text must have a mechanism and reports")
        if content["mechanism"] != self.fingerprint:
            raise ParameterError(
                "text must have reports of the mechanism "
                f"{self.fingerprint} ({type(self).__name__}), but it "
                "names another one"
            )
        listed = content["reports"]
        listed = listed if isinstance(listed, list) else [listed]
        found = np.zeros((len(listed), *self._row), self._report_dtype)
        for place, report in enumerate(listed):
            found[place] = _reports.read(report, self._report_dtype, self._row)
        return found

    def reports_from_lines(self, text: bytes) -> tuple[_Array, _Array]:
        r"""Return the reports in lines of JSON, and the numbers of refused lines.

        Each line is a text for `reports_from_json`, with the same result. Lines in the
        form of `reports_to_json` and the JavaScript client are read far faster than by
        `reports_from_json`. A line of a broken or hostile client does not stop the
        other lines: it is listed separately.

        Parameters
        ----------
        text : bytes
            Lines that end in a line feed, which is optional for the last line. Blank
            lines have no reports and are not refused.

        Returns
        -------
        reports : ndarray of `report_dtype`
            In the order of the lines.
        refused : ndarray of int64
            Numbers of the lines, counted from 1, that `reports_from_json` refuses.

        Raises
        ------
        DTypeError
            `text` is not bytes.

        Examples
        --------
        >>> import fastdp
        >>> m = fastdp.RandomizedResponse.from_epsilon(2, categories=3)
        >>> line = m.reports_to_json(m.release(1))
        >>> reports, refused = m.reports_from_lines(f"{line}\nnonsense\n".encode())
        >>> len(reports), refused
        (1, array([2]))
        """
        if not isinstance(text, bytes):
            raise DTypeError(f"text must be bytes, got {type(text).__name__}")
        return _reports.read_lines(
            text,
            self.fingerprint,
            self._report_dtype,
            self._row,
            self.reports_from_json,
        )

    # --- estimate -----------------------------------------------------------------

    def estimate(self, reports: Any, *, workers: int = 1) -> Estimate:
        """Return the estimate from the reports, with its standard errors.

        Parameters
        ----------
        reports : ndarray, numpy scalar, list or column
            Reports that `release` returned, from any number of users; integers may be
            wider. An invalid report (from a broken or hostile client) adds no
            information but counts as a user.
        workers : int
            Threads; the estimate does not depend on it.

        Returns
        -------
        FrequencyEstimate, MeanEstimate or VectorEstimate
            The type depends on the mechanism.

        Raises
        ------
        DTypeError, ParameterError
            The reports have a wrong dtype or shape.
        """
        return self.aggregator().add(reports, workers=workers).estimate()

    def aggregator(self) -> Aggregator[Estimate]:
        """Return an empty aggregator of this mechanism's reports."""
        return Aggregator(self)

    @property
    @abstractmethod
    def _tally_size(self) -> int:
        """Length of the tally of reports."""

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

    @abstractmethod
    def _estimate(self, tally: _Array, users: int) -> Estimate:
        """Return the estimate from a tally."""


def count_parts(
    reports: _Array,
    size: int,
    count: Callable[[_Array, _Array], None],
    workers: int,
) -> _Array:
    """Count reports on threads; return the sum of the threads' tallies."""
    if workers == 1:
        total = np.zeros(size, np.int64)
        if len(reports):
            count(reports, total)
        return total
    tallies = []

    def part(start: int, stop: int, _: int) -> None:
        tally = np.zeros(size, np.int64)
        count(reports[start:stop], tally)
        tallies.append(tally)

    _arrays.in_parallel(part, len(reports), USERS, workers)
    if not tallies:
        return np.zeros(size, np.int64)
    total = tallies[0]
    for tally in tallies[1:]:
        total += tally
    return total


class Aggregator(Generic[Estimate]):
    """Running tally of the reports of one mechanism.

    The `aggregator` method of a local mechanism returns it. It holds integer sums of
    public reports: for any batches, order and shape of merges, the state and the
    estimate equal those of one batch. It is picklable, so that Spark, Beam or Dask can
    reduce it. It is not for concurrent threads: give each thread its own aggregator and
    merge.

    Parameters
    ----------
    mechanism : RandomizedResponse, UnaryEncoding, LocalMean or another local one
        The mechanism that makes the reports.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.RandomizedResponse(p=0.75)
    >>> east = m.aggregator().add(np.ones(6, bool))
    >>> west = m.aggregator().add(np.zeros(4, bool))
    >>> (east + west).estimate().counts
    array([3., 7.])
    """

    __slots__ = ("_mechanism", "_tally", "_users")

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, mechanism: LocalMechanism[Estimate]) -> None:
        self._mechanism = mechanism
        self._tally = _NOTHING
        self._users = 0

    @property
    def mechanism(self) -> LocalMechanism[Estimate]:
        """The mechanism of the counted reports."""
        return self._mechanism

    @property
    def users(self) -> int:
        """The number of reports so far."""
        return self._users

    def add(
        self,
        reports: Any,
        *,
        packed: bool = False,
        count: int | None = None,
        workers: int = 1,
    ) -> Aggregator[Estimate]:
        """Count a batch of reports; if anything fails, none of them are counted.

        Parameters
        ----------
        reports : ndarray, numpy scalar, list or column
            Reports of the mechanism, of its report_dtype or wider; unary rows along the
            last axis. An invalid report (from a broken or hostile client) supports no
            category but counts as a user.
        packed, count
            As in `RandomizedResponse.estimate`.
        workers : int
            Threads; the tally does not depend on it.

        Returns
        -------
        Aggregator
            This aggregator.

        Raises
        ------
        DTypeError, ParameterError
            The reports have a wrong dtype or shape.
        """
        if workers is not ONE:
            workers = _validate.integer("workers", workers, 1)
        tally, users = self._mechanism._tally(reports, workers, packed, count)
        if self._tally.size:
            tally += self._tally
        self._tally = tally
        self._users += users
        return self

    def merge(self, other: Aggregator[Estimate]) -> Aggregator[Estimate]:
        """Add the counts of another aggregator of the same mechanism.

        Returns
        -------
        Aggregator
            This aggregator.

        Raises
        ------
        DTypeError
            `other` is not an aggregator.
        ParameterError
            `other` belongs to a different mechanism.
        """
        if not isinstance(other, Aggregator):
            raise DTypeError(f"other must be an Aggregator, got {type(other).__name__}")
        if other._mechanism != self._mechanism:
            raise ParameterError(
                f"other must count reports of {self._mechanism!r}, "
                f"got {other._mechanism!r}"
            )
        if other._tally.size:
            self._tally = self._total() + other._tally
        self._users += other._users
        return self

    def estimate(self) -> Estimate:
        """Return the estimate from all reports so far."""
        return self._mechanism._estimate(self._total(), self._users)

    def _total(self) -> _Array:
        if self._tally.size:
            return self._tally
        return np.zeros(self._mechanism._tally_size, np.int64)

    def __add__(self, other: Aggregator[Estimate]) -> Aggregator[Estimate]:
        if not isinstance(other, Aggregator):
            return NotImplemented
        return Aggregator(self._mechanism).merge(self).merge(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Aggregator):
            return NotImplemented
        return self._state() == other._state()

    def __repr__(self) -> str:
        return f"<Aggregator of {self._mechanism!r}: {self._users} users>"

    def _state(self) -> tuple[LocalMechanism[Estimate], int, bytes]:
        return self._mechanism, self._users, self._total().astype("<i8").tobytes()

    def __reduce__(self) -> tuple[Callable[..., Aggregator[Any]], tuple[Any, ...]]:
        return _restore, (VERSION, *self._state())


def _restore(
    version: int, mechanism: LocalMechanism[Any], users: int, tally: bytes
) -> Aggregator[Any]:
    """Return the aggregator of a pickled state."""
    if version != VERSION:
        raise ParameterError(
            f"version of the aggregator's state must be {VERSION}, got {version!r}"
        )
    result, size = Aggregator(mechanism), 8 * mechanism._tally_size
    if len(tally) != size:
        raise ParameterError(
            f"tally of the aggregator's state must have {size} bytes, got {len(tally)}"
        )
    result._tally = np.frombuffer(tally, "<i8").astype(np.int64)
    result._users = users
    return result
