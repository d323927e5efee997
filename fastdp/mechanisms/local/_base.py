"""Base of the mechanisms that privatize one category of each user."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _laws, _validate
from fastdp._doorway import enter, is_data
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.mechanisms._base import int64_scalar
from fastdp.mechanisms.local._release import ReportsOnce
from fastdp.mechanisms.local.categories import Categories, Names
from fastdp.mechanisms.local.estimates import FrequencyEstimate, Support

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Number of chunks of a call's keystream that each purpose has.
REGION = 2**30

#: First chunk of the randomness that turns values into labels.
LABELS = 2 * REGION

#: Maximum number of categories of mechanisms that hash or encode them.
MOST_CATEGORIES = 2**24

#: Maximum number of categories, or buckets, of k-ary response.
MOST_ANSWERS = 2**31 - 1


class FrequencyOracle(ReportsOnce[FrequencyEstimate]):
    """Base of the mechanisms that privatize one category of each user."""

    __slots__ = ("_domain", "_labeling", "_support")

    #: Whether values may be bools if there are two categories.
    _truth: ClassVar[bool] = False

    _domain: Categories
    _labeling: _core.Response  # keeps labels, and replaces values out of range
    _support: Support

    @property
    def categories(self) -> int:
        """Number of categories; values are 0 ... categories - 1, or their names."""
        return self._domain.count

    @property
    def names(self) -> Names | None:
        """Names of the categories, in order; None if they are 0, 1, 2, ..."""
        return self._domain.names

    @property
    def other(self) -> int | str | None:
        """Category for values outside the domain; None: a random category for each."""
        return self._domain.arguments[1][1]  # type: ignore[no-any-return]

    def standard_error(self, users: int, *, frequency: Real = 0) -> float:
        """Return the standard error of the later estimate of a count.

        Parameters
        ----------
        users : int
            Number of reports, >= 0.
        frequency : int, float, Fraction or Decimal
            Share of the users with the category, in [0, 1].
        """
        users = _validate.integer("users", users, 0)
        share = _validate.between("frequency", frequency, Fraction(0), Fraction(1))
        return self._support.standard_error(users, frequency=share)

    # --- release ------------------------------------------------------------------

    def _release(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        if self._domain.names is not None:
            places, leave = self._domain.places_of("values", values)
            try:
                reports = self._release_places(places, out, stream, workers)
            finally:
                _core.zero(places)
        elif not isinstance(values, np.ndarray) and is_data(values):
            truth = self._truth and self.categories == 2
            column, leave = enter("values", values, truth=truth, labels=True)
            reports = self._release_places(column, out, stream, workers)
        else:
            return self._release_places(values, out, stream, workers)
        return leave(reports) if out is None else reports

    def _release_places(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        labels, dtype = self._labels(values), self._report_dtype
        return self._run(values, labels, dtype, self._draw, out, stream, workers)

    @staticmethod
    def _labels(values: Any) -> _Array:
        if isinstance(values, np.ndarray):
            return _arrays.data("values", values, real=False)
        return int64_scalar("values", values).__array__()

    @abstractmethod
    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        """Write a report for every value of the flat `x`."""

    def _relabel(self, call: _core.Call, x: _Array, labels: _Array, first: int) -> None:
        """Write the values as uint32 labels, and replace those outside the domain.

        x[0] belongs to user number `first`, the first user of a chunk.
        """
        at = LABELS + first // self._labeling.chunk
        _core.respond(call, self._labeling, x, labels, self._domain.stand_in, at)

    @staticmethod
    def _labeling_of(categories: int) -> _core.Response:
        return _laws.response_law(Fraction(1), categories)

    # --- estimate -----------------------------------------------------------------

    @property
    def _tally_size(self) -> int:
        return self._domain.count

    def _estimate(self, tally: _Array, users: int) -> FrequencyEstimate:
        supporters = self._supporters(tally)
        return self._support.estimate(supporters, users, self, self.names)

    def _supporters(self, tally: _Array) -> _Array:
        """Return the number of reports that support each category."""
        return tally


@contextmanager
def scratch(n: int, *dtypes: type[np.unsignedinteger[Any]]) -> Iterator[list[_Array]]:
    """Provide arrays of `n` elements for labels and random words; clear them after."""
    arrays: list[_Array] = [np.zeros(n, dtype) for dtype in dtypes]
    try:
        yield arrays
    finally:
        for array in arrays:
            _core.zero(array)


def least_dtype(largest: int) -> np.dtype[Any]:
    """Return the least unsigned dtype of 8, 16 or 32 bits that holds `largest`."""
    return np.min_scalar_type(largest)
