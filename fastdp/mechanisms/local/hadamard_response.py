"""Hadamard response: reports a position of the Walsh-Hadamard code."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _laws, _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import RandomizedResponseEvent
from fastdp.mechanisms.local import _probabilities
from fastdp.mechanisms.local._base import (
    MOST_CATEGORIES,
    FrequencyOracle,
    least_dtype,
)
from fastdp.mechanisms.local.categories import Categories, Named, Other
from fastdp.mechanisms.local.estimates import Support

_Array: TypeAlias = "np.ndarray[Any, Any]"


class HadamardResponse(FrequencyOracle):
    """Hadamard response: reports of log2(categories) bits; pure local privacy.

    Let K be the least power of two above the number of categories. Category v owns the
    half of 0 ... K - 1 on which row v + 1 of the Walsh-Hadamard matrix of order K is
    +1. A report is uniform on the user's own half with probability p, and otherwise on
    the other half. Decoding is one fast Walsh-Hadamard transform.

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        Probability that a report is in the user's own half, above 1/2 and below 1;
        rounded down to a multiple of 2**-64.
    categories : int, or sequence of str or of int
        Number of categories, 2 ... 2**24, which are then 0 ... categories - 1; or
        their public names, each once, which are then compared with the values.
    other : int or str, optional
        Category for a value that is in none of the categories, given by name if they
        have names. None: such a value counts as a category drawn uniformly.

    Privacy
    -------
    Pure local epsilon = ln(p/(1 - p)) for each report: any two values of one user are
    neighboring, and no sensitivity is needed. Exact: the probabilities hold to
    the last bit. Timing class T2; T0 with names of categories.

    References
    ----------
    Acharya, Sun, Zhang, "Hadamard response: estimating distributions privately,
    efficiently, and with little communication", AISTATS 2019; Bassily, Smith, "Local,
    private, efficient protocols for succinct histograms", STOC 2015.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.HadamardResponse.from_epsilon(1, categories=1000)
    >>> reports = m.release(np.array([0, 999, 7]))
    >>> reports.dtype, reports.shape
    (dtype('uint16'), (3,))
    >>> m.estimate(reports).counts.shape
    (1000,)
    """

    __slots__ = ("_law", "_order", "_p")

    _law: _core.Bernoulli
    _order: int  # K
    _p: Fraction

    def __init__(self, p: Real, *, categories: Named, other: Other = None) -> None:
        domain = Categories(categories, MOST_CATEGORIES, other)
        exact = _probabilities.checked_truth(p, 2)
        order = 1 << domain.count.bit_length()
        self._freeze(
            _arguments=(
                ("p", _validate.plain(exact)),
                *domain.arguments,
            ),
            _p=exact,
            _order=order,
            _law=_laws.bernoulli_law(1 - exact),
            _labeling=self._labeling_of(domain.count),
            _domain=domain,
            _report_dtype=least_dtype(order - 1),
            _row=(),
            _support=Support(exact, Fraction(1, 2)),
        )

    @classmethod
    def from_epsilon(
        cls, epsilon: Real, *, categories: Named, other: Other = None
    ) -> HadamardResponse:
        """Return the mechanism with the largest p that meets epsilon.

        Raises
        ------
        DTypeError, ParameterError
            A parameter has a wrong type or is out of its domain.
        CalibrationError
            `epsilon` is so small that only the useless p = 1/2 meets it.
        """
        return cls(
            _probabilities.truth_of(epsilon, 2), categories=categories, other=other
        )

    @property
    def p(self) -> Fraction:
        """Probability that a report lies in the user's own half, exact."""
        return self._p

    def event(self) -> RandomizedResponseEvent:
        """Return the event of one report; two values differ in half the positions."""
        return RandomizedResponseEvent(p=self._p / 2, q=(1 - self._p) / 2)

    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        _arrays.draw(self._encode, x, reports, stream, self._law.chunk, workers)

    def _encode(
        self, source: _arrays.Source, x: _Array, reports: _Array, first: int
    ) -> None:
        label, law, bits = self._labeling, self._law, self._order.bit_length() - 1
        other = self._domain.stand_in
        _core.hadamard_clients(source, label, law, x, reports, bits, other, first)

    @property
    def _tally_size(self) -> int:
        return self._order

    def _count(self, reports: _Array, tally: _Array) -> None:
        _core.histogram(reports, tally)

    def _supporters(self, tally: _Array) -> _Array:
        return _core.hadamard_supporters(tally, self.categories)
