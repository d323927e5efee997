"""Streaming aggregation: batches of reports in any order, on any number of machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from fastdp import _validate
from fastdp.exceptions import DTypeError, ParameterError

if TYPE_CHECKING:
    from fastdp.mechanisms.local._mechanism import LocalMechanism

_Array: TypeAlias = "np.ndarray[Any, Any]"

Estimate = TypeVar("Estimate")

#: Version of the pickled state.
VERSION = 1


class Aggregator(Generic[Estimate]):
    """Running tally of the reports of one mechanism.

    Made by the `aggregator` method of a local mechanism. It holds sums of public
    reports, in integers: whatever the batches, their order and the shape of the
    merges, the state and the estimate are the same as those of one batch. Picklable,
    so that Spark, Beam or Dask can reduce it. Not for several threads at once: give
    each its own and merge.

    Parameters
    ----------
    mechanism : RandomizedResponse, UnaryEncoding, LocalMean or another local one
        The mechanism that made, or will make, the reports.

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
        self._tally: _Array = np.zeros(mechanism._tally_size, np.int64)
        self._users = 0

    @property
    def mechanism(self) -> LocalMechanism[Estimate]:
        """The mechanism whose reports are counted."""
        return self._mechanism

    @property
    def users(self) -> int:
        """Number of reports so far."""
        return self._users

    def add(
        self,
        reports: Any,
        *,
        packed: bool = False,
        count: int | None = None,
        workers: int = 1,
    ) -> Aggregator[Estimate]:
        """Count a batch of reports; all of it or, if anything fails, none.

        Parameters
        ----------
        reports : ndarray, numpy scalar, list or column
            Reports of the mechanism, of its report_dtype or wider; unary rows along the
            last axis. What is out of the range of reports (of a broken or hostile
            client) supports no category but counts as a user.
        packed, count
            As in `RandomizedResponse.estimate`.
        workers : int
            Threads; the tally does not depend on it.

        Returns
        -------
        Aggregator
            This one.

        Raises
        ------
        DTypeError, ParameterError
            The reports have a wrong dtype or shape.
        """
        workers = _validate.integer("workers", workers, 1)
        tally, users = self._mechanism._tally(reports, workers, packed, count)
        self._tally += tally
        self._users += users
        return self

    def merge(self, other: Aggregator[Estimate]) -> Aggregator[Estimate]:
        """Add what another aggregator of the same mechanism has counted.

        Returns
        -------
        Aggregator
            This one.

        Raises
        ------
        DTypeError
            `other` is not an aggregator.
        ParameterError
            It belongs to a different mechanism.
        """
        if not isinstance(other, Aggregator):
            raise DTypeError(f"other must be an Aggregator, got {type(other).__name__}")
        if other._mechanism != self._mechanism:
            raise ParameterError(
                f"other must count reports of {self._mechanism!r}, "
                f"got {other._mechanism!r}"
            )
        self._tally += other._tally
        self._users += other._users
        return self

    def estimate(self) -> Estimate:
        """Return the estimate from all reports so far."""
        return self._mechanism._estimate(self._tally, self._users)

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
        return self._mechanism, self._users, self._tally.astype("<i8").tobytes()

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
    result = Aggregator(mechanism)
    if len(tally) != 8 * result._tally.size:
        raise ParameterError(
            f"tally of the aggregator's state must have {8 * result._tally.size} "
            f"bytes, got {len(tally)}"
        )
    result._tally += np.frombuffer(tally, "<i8")
    result._users = users
    return result
