"""Subset selection: reports a random set of categories that favors the user's own."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import RandomizedResponseEvent
from fastdp.mechanisms.local import _probabilities
from fastdp.mechanisms.local._base import MOST_CATEGORIES, FrequencyOracle
from fastdp.mechanisms.local._mechanism import USERS
from fastdp.mechanisms.local.categories import (
    Categories,
    Named,
    Other,
    count_categories,
)
from fastdp.mechanisms.local.estimates import Support

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Count the ones of this many bytes of rows at a time: the temporaries stay in cache.
_BLOCK = 2**17

#: Number of ones of each byte.
_ONES: _Array = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(
    axis=1, dtype=np.uint8
)


class SubsetSelection(FrequencyOracle):
    """Subset selection: reports a set of several categories; pure local privacy.

    The set contains the user's category with probability p. It is uniform among the
    sets with this category, or among the sets without it. It has the smallest error of
    all mechanisms for a medium number of categories; with sets of one category it is
    randomized response.

    Rows are packed in the order of np.packbits: category v is bit 7 - v % 8 of byte
    v // 8, and the padding of the last byte is 0. Every row has `size` ones.

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        Probability that the set has the user's category, above size/categories and
        below 1; rounded down to a multiple of 2**-64.
    size : int
        Number of categories in a set, 1 ... categories - 1.
    categories : int, or sequence of str or of int
        Number of categories, 2 ... 2**24, which are then 0 ... categories - 1; or
        their public names, each once, which are then compared with the values.
    other : int or str, optional
        Category for a value that is in none of the categories, given by name if they
        have names. None: such a value counts as a category drawn uniformly.

    Privacy
    -------
    Pure local epsilon = ln(p (categories - size)/(size (1 - p))) for each row: any two
    values of one user are neighboring, and no sensitivity is needed. Exact: the
    probabilities hold to the last bit. Timing class T0: memory access depends on the
    drawn set.

    References
    ----------
    Ye, Barg, "Optimal schemes for discrete distribution estimation under locally
    differential privacy", IEEE Transactions on Information Theory 2018; Wang et al.,
    "Mutual information optimally local private discrete distribution estimation", 2016.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.SubsetSelection.from_epsilon(1, categories=10)
    >>> m.size, round(float(m.p), 4)
    (2, 0.4046)
    >>> rows = m.release(np.array([0, 9, 7]))
    >>> rows.shape, np.unpackbits(rows, axis=1).sum(axis=1).tolist()
    ((3, 2), [2, 2, 2])
    >>> m.estimate(rows).counts.shape
    (10,)
    """

    __slots__ = ("_p", "_size")

    _p: Fraction
    _size: int

    def __init__(
        self, p: Real, *, size: int, categories: Named, other: Other = None
    ) -> None:
        domain = Categories(categories, MOST_CATEGORIES, other)
        d = domain.count
        size = _validate.integer("size", size, 1, d - 1)
        own = _probabilities.checked_truth(p, Fraction(d, size))
        self._freeze(
            _arguments=(
                ("p", _validate.plain(own)),
                ("size", size),
                *domain.arguments,
            ),
            _p=own,
            _size=size,
            _labeling=self._labeling_of(d),
            _domain=domain,
            _report_dtype=np.dtype(np.uint8),
            _row=(-(-d // 8),),
            _support=_support(own, d, size),
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        categories: Named,
        size: int | None = None,
        other: Other = None,
    ) -> SubsetSelection:
        """Return the mechanism with the greatest p that meets `epsilon`.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            > 0.
        categories, other
            As for the class.
        size : int, optional
            None: the size with the least error for a rare category, about
            categories/(e**epsilon + 1).

        Raises
        ------
        DTypeError, ParameterError
            A parameter has a wrong type or is out of its domain.
        CalibrationError
            `epsilon` is so small that only the useless p = size/categories meets it.
        """
        d = count_categories(categories, MOST_CATEGORIES)
        if size is None:
            size = _best_size(float(_validate.positive("epsilon", epsilon)), d)
        size = _validate.integer("size", size, 1, d - 1)
        own = _probabilities.truth_of(epsilon, Fraction(d, size))
        return cls(own, size=size, categories=categories, other=other)

    @property
    def p(self) -> Fraction:
        """Probability that a report has the user's category, exact."""
        return self._p

    @property
    def size(self) -> int:
        """Number of categories in a report."""
        return self._size

    def event(self) -> RandomizedResponseEvent:
        """Return the event of one row, for sets with exactly one of two values."""
        d, k = self.categories, self._size
        apart = Fraction(1, d - 1)
        return RandomizedResponseEvent(
            p=self._p * (d - k) * apart, q=(1 - self._p) * k * apart
        )

    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        def part(start: int, stop: int, chunk: int) -> None:
            labels = np.zeros(min(USERS, stop - start), np.uint32)
            law = self._p, self._domain.count, self._size
            try:
                for low in range(start, stop, USERS):
                    high = min(low + USERS, stop)
                    named = labels[: high - low]
                    self._relabel(call, x[low:high], named, low)
                    first = low // _core.SUBSETS_CHUNK
                    _core.fill_subsets(call, *law, named, reports[low:high], first)
            finally:
                _core.zero(labels)

        with _core.Call(stream, reports) as call:
            _arrays.in_parallel(part, len(x), USERS, workers)

    def _count(self, reports: _Array, tally: _Array) -> None:
        # Skip rows that are not sets of this size: all their bits would be counted.
        padding = 0xFF >> ((self.categories - 1) % 8 + 1)
        step = max(1, _BLOCK // self._row[0])
        for low in range(0, len(reports), step):
            rows = reports[low : low + step]
            good = _ONES.take(rows).sum(axis=1, dtype=np.uint32) == self._size
            good &= rows[:, -1] & padding == 0
            rows = rows if good.all() else rows[good]
            _core.column_sums(rows.reshape(-1), self._row[0], tally)


def _support(own: Fraction, d: int, size: int) -> Support:
    return Support(own, (own * (size - 1) + (1 - own) * size) / (d - 1))


def _best_size(epsilon: float, d: int) -> int:
    """Return the size of sets with the least variance of a rare category's count."""

    def variance(k: int) -> float:
        # Use the mass outside the set, to avoid large numbers.
        rest = (d - k) / (k * math.exp(min(epsilon, 700.0)) + d - k)
        own = 1 - rest
        cross = (own * (k - 1) + rest * k) / (d - 1)
        gap = own - cross
        return cross * (1 - cross) / gap**2 if gap > 0 else math.inf

    near = d / (math.exp(min(epsilon, 700.0)) + 1)
    low = max(1, min(d - 1, math.floor(near) - 1))
    return min(range(low, min(d - 1, low + 3) + 1), key=variance)
