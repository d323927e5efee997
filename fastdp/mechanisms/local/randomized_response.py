"""Randomized response: the truth with probability p, else another category."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _laws, _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import RandomizedResponseEvent
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms.local import _probabilities
from fastdp.mechanisms.local._base import (
    MOST_ANSWERS,
    FrequencyOracle,
    least_dtype,
)
from fastdp.mechanisms.local._mechanism import count_parts
from fastdp.mechanisms.local._reports import as_reports
from fastdp.mechanisms.local.categories import (
    Categories,
    Named,
    Other,
    count_categories,
)
from fastdp.mechanisms.local.estimates import FrequencyEstimate, Support

_Array: TypeAlias = "np.ndarray[Any, Any]"

_BOOL = np.dtype(bool)
_BYTE = np.dtype(np.uint8)

#: Count packed bits in rows of this many bytes.
_ROW = 1024


class RandomizedResponse(FrequencyOracle):
    """Randomized response over two or more categories: pure local privacy.

    A report is the user's category with probability p, and otherwise one of the other
    categories, each with the same probability. With two categories, values may also be
    bools or packed bits; the reports are then of the same kind.

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        Probability of the truth, above 1/categories and below 1; rounded down to a
        multiple of 2**-64.
    categories : int, or sequence of str or of int
        Number of categories, 2 ... 2**31 - 1, which are then 0 ... categories - 1; or
        their public names, each once, which are then compared with the values.
    other : int or str, optional
        Category for a value that is in none of the categories, given by name if they
        have names. None: such a value counts as a category drawn uniformly.

    Privacy
    -------
    Pure local epsilon = ln(p (categories - 1)/(1 - p)) for each report: any two
    values of one user are neighboring, and no sensitivity is needed. Exact: the
    probabilities hold to the last bit. Timing class T2.

    References
    ----------
    Warner, "Randomized response", JASA 1965; Kairouz, Bonawitz, Ramage, "Discrete
    distribution estimation under local privacy", ICML 2016 (k-ary).

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.RandomizedResponse.from_epsilon(1, categories=4)
    >>> m.epsilon()
    1.0
    >>> reports = m.release(np.array([0, 3, 2, 2, 1]))
    >>> reports.dtype, reports.shape
    (dtype('uint8'), (5,))
    >>> m.estimate(reports).counts.shape
    (4,)
    """

    __slots__ = ("_law", "_p")

    _in_place = True
    _truth = True
    _law: _core.Bernoulli | _core.Response  # law of the flips, or of the labels
    _p: Fraction

    def __init__(self, p: Real, *, categories: Named = 2, other: Other = None) -> None:
        domain = Categories(categories, MOST_ANSWERS, other)
        exact = _probabilities.checked_truth(p, domain.count)
        self._freeze(
            _arguments=(
                ("p", _validate.plain(exact)),
                *domain.arguments,
            ),
            _p=exact,
            _law=(
                _laws.bernoulli_law(1 - exact)
                if domain.count == 2
                else _laws.response_law(exact, domain.count)
            ),
            _domain=domain,
            _report_dtype=least_dtype(domain.count - 1),
            _row=(),
            _support=Support(exact, (1 - exact) / (domain.count - 1)),
        )

    @classmethod
    def from_epsilon(
        cls, epsilon: Real, *, categories: Named = 2, other: Other = None
    ) -> RandomizedResponse:
        """Return the mechanism with the greatest p that meets `epsilon`.

        Raises
        ------
        DTypeError, ParameterError
            A parameter has a wrong type or is out of its domain.
        CalibrationError
            `epsilon` is so small that only the useless p = 1/categories meets it.
        """
        count = count_categories(categories, MOST_ANSWERS)
        return cls(
            _probabilities.truth_of(epsilon, count),
            categories=categories,
            other=other,
        )

    def users_for(
        self, *, error: Real, failure: Real, share: Real | None = None
    ) -> int:
        """Return the number of users that an estimate of a category's share needs.

        Parameters
        ----------
        error : int, float, Fraction or Decimal
            Largest error of the estimated share, > 0 and < 1.
        failure : int, float, Fraction or Decimal
            Probability of a larger error, > 0 and < 1.
        share : int, float, Fraction or Decimal, optional
            The true share, in [0, 1], for independently drawn users; the bound is by
            exact binomial tails. None: valid for every share, by the variance alone
            (Chebyshev); for two categories and p = 1/2 + g this is 1/(16 g**2 error**2
            failure) users.

        Returns
        -------
        int
            A sufficient number of users; with `share` it is the least one.

        Examples
        --------
        >>> import fastdp
        >>> m = fastdp.RandomizedResponse(0.75)
        >>> setting = {"error": 0.05, "failure": 0.05}
        >>> m.users_for(**setting), m.users_for(**setting, share=0.5)
        (8000, 1559)
        """
        wrong = _validate.open_unit("error", error)
        rarely = _validate.open_unit("failure", failure)
        own, cross = self._support.own, self._support.cross
        widest = min(max(Fraction(1, 2), cross), own)  # P(support) of largest variance
        needed = widest * (1 - widest) / ((own - cross) ** 2 * wrong**2 * rarely)
        high = max(1, math.ceil(needed))
        if share is None:
            return high
        part = _validate.between("share", share, Fraction(0), Fraction(1))
        low, said = 0, cross + part * (own - cross)
        while high - low > 1:
            middle = (low + high) // 2
            if _missed(middle, said, wrong * (own - cross)) <= float(rarely):
                high = middle
            else:
                low = middle
        return high

    @property
    def p(self) -> Fraction:
        """Probability that a report is the truth, exact."""
        return self._p

    def event(self) -> RandomizedResponseEvent:
        """Return the event of one report."""
        return RandomizedResponseEvent(p=self._support.own, q=self._support.cross)

    @_core.zero_on_failure
    def release(
        self,
        values: Any,
        *,
        packed: bool = False,
        out: _Array | None = None,
        stream: Stream | None = None,
        workers: int = 1,
    ) -> Any:
        """Return one private report for every value.

        Parameters
        ----------
        values : int, numpy integer, ndarray of an integer dtype (not uint64), or column
            Categories 0 ... categories - 1, of any shape. Nulls and values outside
            count as `other`, or as a category drawn uniformly if `other` is None. With
            two categories, a bool or an array of bools also works. Columns are as in
            `DiscreteLaplace.release`. With named categories: a name, or an array or
            column of strings or integers, compared without conversion.
        packed : bool
            With two categories: `values` is an array of uint8, and every bit is a value
            (as from np.packbits; the padding bits of the last byte are randomized,
            too).
        out : ndarray, optional
            C-contiguous array of the reports' dtype and shape to write into; may be
            `values` itself.
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads; the reports of a fixed stream do not depend on it.

        Returns
        -------
        numpy scalar or ndarray
            The shape is that of `values`, the dtype is `report_dtype`. Bools give
            bools and packed bits give packed bits. `out` if it was given.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype, layout or shape, or bools or packed bits with more than two
            categories. Never raised for a value.
        EntropyError
            The operating system gave no randomness; `out` is filled with zeros.

        Privacy
        -------
        The guarantee is `event()` for each report: local differential privacy, where
        any two values of one user are neighbors. Exact. Timing class T2: independent of
        values and randomness (except that the interpreter converts Python ints). T0
        with names, which are looked up.

        Examples
        --------
        >>> import numpy as np
        >>> import fastdp
        >>> m = fastdp.RandomizedResponse.from_epsilon(1)
        >>> m.release(np.array([True, False, True])).dtype
        dtype('bool')
        >>> bits = np.packbits(np.ones(16, bool))
        >>> reports = m.release(bits, packed=True)
        >>> m.estimate(reports, packed=True, count=16).users
        16
        """
        if packed is not False:
            self._check_packed(packed)
            bits = _packed_bits("values", values)
            draw = self._draw_packed
            return self._run(values, bits, _BYTE, draw, out, stream, workers)
        return self._release(values, out, stream, workers)

    def _release_places(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        if self._domain.count == 2 and _is_bool(values):
            checked, dtype = _bools(values), _BOOL
        else:
            checked, dtype = self._labels(values), self._report_dtype
        return self._run(values, checked, dtype, self._draw, out, stream, workers)

    def estimate(
        self,
        reports: Any,
        *,
        packed: bool = False,
        count: int | None = None,
        workers: int = 1,
    ) -> FrequencyEstimate:
        """Return unbiased counts of all categories with their standard errors.

        Parameters
        ----------
        reports : ndarray, numpy scalar, list or column
            Reports that `release` returned, from any number of users; integers may be
            wider. An invalid report (from a broken or hostile client) supports no
            category but counts as a user.
        packed : bool
            With two categories: `reports` is an array of uint8 that holds packed
            bits in the order of np.packbits.
        count : int
            Only with `packed`: number of bits that belong to users; the remaining bits
            of the last byte are ignored.
        workers : int
            Threads; the estimate does not depend on it.

        Returns
        -------
        FrequencyEstimate

        Raises
        ------
        DTypeError, ParameterError
            The reports have a wrong dtype or shape, or `count` does not fit them.
        """
        aggregator = self.aggregator()
        aggregator.add(reports, packed=packed, count=count, workers=workers)
        return aggregator.estimate()

    def _check_packed(self, packed: object) -> None:
        if not isinstance(packed, bool):
            raise DTypeError(f"packed must be a bool, got {type(packed).__name__}")
        if packed and self.names is not None:
            raise ParameterError("packed must be False if categories are names")
        if packed and self.categories != 2:
            raise ParameterError(
                f"packed must be False with {self.categories} categories: only 2 "
                "have packed bits"
            )

    # --- kernels --------------------------------------------------------------------

    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        _arrays.draw(self._answer, x, reports, stream, self._law.chunk, workers)

    def _answer(
        self, source: _arrays.Source, x: _Array, reports: _Array, first: int
    ) -> None:
        law, other = self._law, self._domain.stand_in
        if type(law) is _core.Response:
            _core.respond(source, law, x, reports, other, first)
        else:
            _core.flip_bytes(source, law, x, reports, other, first)

    def _draw_packed(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        chunk = self._law.chunk // 8
        _arrays.draw(self._answer_packed, x, reports, stream, chunk, workers)

    def _answer_packed(
        self, source: _arrays.Source, x: _Array, reports: _Array, first: int
    ) -> None:
        law = self._law
        assert isinstance(law, _core.Bernoulli)
        _core.flip_bits(source, law, x, reports, 8 * len(x), first)

    def _tally(
        self, reports: Any, workers: int, packed: bool, count: int | None
    ) -> tuple[_Array, int]:
        self._check_packed(packed)
        if packed:
            return _tally_packed(reports, workers, count)
        if count is not None:
            raise ParameterError("count must be left out without packed=True")
        checked = self._as_reports(reports)
        return count_parts(checked, self.categories, self._count, workers), len(checked)

    def _as_reports(self, reports: Any) -> _Array:
        truth = self.categories == 2
        return as_reports(reports, self._report_dtype, (), truth=truth)

    def _count(self, reports: _Array, tally: _Array) -> None:
        _core.histogram(
            reports.view(_BYTE) if reports.dtype == _BOOL else reports, tally
        )


def _is_bool(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return bool(values.dtype == _BOOL)
    return isinstance(values, (bool, np.bool_))


def _bools(values: Any) -> _Array:
    """Return bools as a C-contiguous array, copied only if necessary."""
    if not isinstance(values, np.ndarray):
        return np.array(values, _BOOL)
    flat = values.view(_BYTE)
    checked = _arrays.data("values", flat, real=False)
    return values if checked is flat else checked.view(_BOOL)


def _packed_bits(name: str, x: Any) -> _Array:
    """Return packed bits as a C-contiguous array, copied only if necessary."""
    if getattr(x, "dtype", None) != _BYTE:
        given = getattr(x, "dtype", type(x).__name__)
        raise DTypeError(f"{name} must have dtype uint8 when packed, got {given}")
    return _arrays.data(name, x, real=False)


def _tally_packed(reports: Any, workers: int, count: int | None) -> tuple[_Array, int]:
    """Return the numbers of zeros and ones of the first `count` bits, and `count`."""
    if count is None:
        raise ParameterError("count must be given with packed=True: the number of bits")
    octets = _packed_bits("reports", reports).reshape(-1)
    count = _validate.integer("count", count, 0)
    if len(octets) != -(-count // 8):
        raise ParameterError(
            f"reports must have {-(-count // 8)} bytes for {count} bits, "
            f"got {len(octets)}"
        )
    rows, rest = divmod(count, 8 * _ROW)
    whole = octets[: rows * _ROW].reshape(rows, _ROW)
    ones = int(count_parts(whole, 8 * _ROW, _columns, workers).sum())
    last = np.unpackbits(octets[rows * _ROW :])  # the incomplete last row
    ones += int(last[:rest].sum())
    return np.array([count - ones, ones], np.int64), count


def _columns(rows: _Array, tally: _Array) -> None:
    _core.column_sums(rows.reshape(-1), _ROW, tally)


def _missed(n: int, p: Fraction, error: Fraction) -> float:
    """Return P(|X/n - p| > error) of a binomial X."""
    from scipy.stats import binom

    above = math.floor(n * (p + error))
    below = math.ceil(n * (p - error)) - 1
    return float(binom.sf(above, n, float(p)) + binom.cdf(below, n, float(p)))
