"""The release of local mechanisms with one report per user.

Only kernels read values. This module checks dtypes and shapes, and clears copies of
private values.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _validate
from fastdp._stream import Stream, check_stream
from fastdp._validate import ONE
from fastdp.exceptions import ParameterError
from fastdp.mechanisms.local._mechanism import Estimate, LocalMechanism

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Draws the reports of one release; arguments: flat values, flat reports, stream,
#: threads.
Draw: TypeAlias = Callable[[_Array, _Array, "Stream | None", int], None]

#: Refuse more bytes of reports in one release: each region has chunks for this many.
_MOST_BYTES = 2**42


class ReportsOnce(LocalMechanism[Estimate]):
    """Base of the local mechanisms with a `release`; a subclass has `_release`."""

    __slots__ = ()

    #: Whether a release may write into its own input.
    _in_place: ClassVar[bool] = False

    @property
    def _value(self) -> int:
        """The number of axes of one user's value."""
        return 0

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
        values : the users' values, one per user
            Categories (`UnaryEncoding`, `LocalHashing`, `HadamardResponse` and
            `SubsetSelection`): an int, numpy integer, ndarray of an integer dtype (not
            uint64) or column, of any shape. Nulls and values outside 0 ... categories -
            1 count as `other`, or as a category drawn uniformly if `other` is None.
            Columns are as in `DiscreteLaplace.release`. With named categories: a name,
            or an array or column of strings or integers, compared without conversion.

            Numbers (`LocalMean`): an int, float, ndarray of numbers or column, of any
            shape; with `dimension`, rows along the last axis, or a table. NaN and nulls
            count as the lower bound, and numbers beyond a bound as the bound.

            Vectors (`VectorResponse`): an ndarray of numbers of shape (...,
            dimension), or a table. NaN and nulls count as 0; longer vectors are scaled
            to length 1.

            Strings (`CountMeanSketch`, `PrefixHunt`): str, bytes or int, or a list,
            array or column of them. Text counts as its UTF-8 bytes, integers as their
            decimal digits, and None, NaN and nulls as the empty string. Arrow columns
            of text are the fastest.
        out : ndarray, optional
            C-contiguous array of the reports' dtype and shape to write into.
        stream : Stream, optional
            None draws fresh keys from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads; the reports of a fixed stream do not depend on it.

        Returns
        -------
        numpy scalar or ndarray
            One report for each user, of dtype `report_dtype`. `out` if it was given.
            Several numbers of a report are along the last axis. If `values` is a column
            and a report is one number, the result is a column of the same kind.

        Raises
        ------
        DTypeError, ParameterError
            A wrong type, dtype, layout or shape. Never raised for a value.
        EntropyError
            The operating system gave no randomness; `out` is filled with zeros.

        Privacy
        -------
        The guarantee is `event()` for each report: local differential privacy, where
        any two values of one user are neighbors. Exact. Timing class T2 or T0, as the
        mechanism's docstring states. Under T2 the time is independent of values and
        randomness (except that the interpreter converts Python numbers).
        """
        return self._release(values, out, stream, workers)

    @abstractmethod
    def _release(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        """Check the values and release them by `_run`."""

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
        """Release the values; `checked` is `values` itself, or a copy to clear."""
        copied = checked is not values
        try:
            if stream is not None:
                check_stream(stream)
            if workers is not ONE:
                workers = _validate.integer("workers", workers, 1)
            shape = checked.shape[: checked.ndim - self._value] + self._row
            check_size(shape, dtype)
            if out is None:
                reports = np.zeros(shape, dtype)
            else:
                reports = _arrays.output(out, shape, dtype)
                if _core.share(checked, out) and not (
                    self._in_place and _arrays.same(checked, out)
                ):
                    checked, copied = checked.copy(), True
            x = _core.flat(checked, self._value)
            draw(x, _core.flat(reports, len(self._row)), stream, workers)
        finally:
            if copied:
                _core.zero(checked)
        return reports[()] if out is None and reports.ndim == 0 else reports


def check_size(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse reports that need more keystream than one release has."""
    size = dtype.itemsize * math.prod(shape)
    if size > _MOST_BYTES:
        raise ParameterError(
            f"values must be released in parts of at most {_MOST_BYTES} bytes of "
            f"reports, got {size}"
        )
