"""Estimates of the number of users of each category, from the counts of reports."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fastdp import _core, _validate
from fastdp._validate import Real
from fastdp.mechanisms.local.categories import Names

if TYPE_CHECKING:
    from fastdp.mechanisms._base import Mechanism

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Smallest positive double; replaces 0, whose normal quantile is infinite.
_TINY = math.ulp(0.0)


@dataclass(frozen=True)
class Support:
    """Probabilities that a report supports a category, exact.

    The number of supporters of a category is a sum of independent bits, one for each
    user. Estimates and their errors follow from these two probabilities alone.

    Parameters
    ----------
    own : Fraction
        Probability that a report supports its user's category.
    cross : Fraction
        Probability that it supports any given other category; below `own`.
    """

    own: Fraction
    cross: Fraction

    def standard_error(self, users: int, frequency: Fraction) -> float:
        """Return the standard error of the count of a category, from its frequency."""
        spread = frequency * self.own * (1 - self.own)
        spread += (1 - frequency) * self.cross * (1 - self.cross)
        return math.sqrt(users * spread) / float(self.own - self.cross)

    @cached_property
    def _doubles(self) -> tuple[float, float, float]:
        """The scale of counts, and the variances of a report's bit."""
        own, cross = self.own, self.cross
        return float(own - cross), float(own * (1 - own)), float(cross * (1 - cross))

    def estimate(
        self,
        supporters: _Array,
        users: int,
        mechanism: Mechanism | None = None,
        names: Names | None = None,
    ) -> FrequencyEstimate:
        """Return the estimate from the int64 number of supporters of each category."""
        # Subtract the integer part of the other users' mean support in integers, so
        # that no digit is lost.
        unit = self.cross.denominator
        whole, rest = divmod(users * self.cross.numerator, unit)
        counts, errors = _core.estimate_counts(
            supporters, whole, rest / unit, users, self._doubles
        )
        return FrequencyEstimate(counts, errors, users, mechanism, names)


@dataclass(frozen=True, eq=False)
class ConsistentEstimate:
    """Counts of a possible histogram: none is negative, and they sum to the users.

    `FrequencyEstimate.consistent` returns it. It is biased: on average, rare categories
    are too high and frequent categories too low. So it has neither standard errors nor
    intervals, and those of the unbiased estimate are not valid for it.

    Parameters
    ----------
    counts : ndarray of float64, shape (categories,)
        Number of users of each category, >= 0; the sum is `users`.
    users : int
        Number of reports.
    names : tuple of str or of int, optional
        Names of the categories; None: 0, 1, 2 ...
    """

    counts: _Array
    users: int
    names: Names | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.counts.flags.writeable = False

    @property
    def frequencies(self) -> _Array:
        """The share of the users in each category; NaN without users."""
        return _shares(self.counts, self.users)

    def to_dict(self) -> dict[str, float] | dict[int, float]:
        """Return the counts by category."""
        return _by_name(self.names, self.counts)


@dataclass(frozen=True, eq=False)
class ValueEstimate:
    """Unbiased estimates of the number of users of given values, with standard errors.

    The methods for values of an open domain return it: `Sketch.of`, `PrefixHunt.find`
    and `BloomCounts.decode`. Single counts may be negative or above `users`. Their sum
    is unknown, because users may hold other values.

    Parameters
    ----------
    counts : ndarray of float64, shape (values,)
        Estimated number of users of each value.
    standard_errors : ndarray of float64, shape (values,)
        Standard errors of `counts`.
    users : int
        Number of reports.
    mechanism : mechanism, optional
        Mechanism that made the reports; None if it is unknown.
    names : tuple, optional
        The values; None: 0, 1, 2 ...
    """

    counts: _Array
    standard_errors: _Array = field(repr=False)
    users: int
    mechanism: Mechanism | None = field(default=None, repr=False)
    names: Names | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.counts.flags.writeable = False
        self.standard_errors.flags.writeable = False

    @property
    def frequencies(self) -> _Array:
        """The estimated share of the users in each category; NaN without users."""
        return _shares(self.counts, self.users)

    def to_dict(self) -> dict[str, float] | dict[int, float]:
        """Return the counts by category: by name, or by number from 0.

        Examples
        --------
        >>> import fastdp
        >>> m = fastdp.RandomizedResponse(p=0.75, categories=["no", "yes"])
        >>> m.estimate([1, 0, 0, 1, 1, 1, 1, 0]).to_dict()
        {'no': 2.0, 'yes': 6.0}
        """
        return _by_name(self.names, self.counts)

    def confidence_interval(self, level: Real) -> tuple[_Array, _Array]:
        """Return an interval for the number of users of each category.

        Parameters
        ----------
        level : int, float, Fraction or Decimal
            Probability that each single interval contains the true count, > 0 and < 1.

        Returns
        -------
        (low, high) : tuple of ndarray of float64, shape (categories,)
            counts -+ the normal quantile times the standard errors. The normal law is
            an approximation; it is good if the expected numbers of reports for and
            against a category are both above about ten. Not clipped.

        Raises
        ------
        DTypeError, ParameterError
            `level` is not a real number between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> import fastdp
        >>> m = fastdp.RandomizedResponse(p=0.75)
        >>> low, high = m.estimate(np.arange(100) % 2 == 0).confidence_interval(0.95)
        >>> low.round(2), high.round(2)
        (array([33.03, 33.03]), array([66.97, 66.97]))
        """
        reach = _quantile(level) * self.standard_errors
        return self.counts - reach, self.counts + reach


@dataclass(frozen=True, eq=False)
class FrequencyEstimate(ValueEstimate):
    """Unbiased number of users of each category, with its standard error.

    The `estimate` methods of local mechanisms and aggregators return it. Exact in
    expectation over the mechanism's randomness, for all values of the users, up to the
    rounding of doubles; single counts may be negative or above `users`.

    Parameters
    ----------
    counts : ndarray of float64, shape (categories,)
        Estimated number of users of each category.
    standard_errors : ndarray of float64, shape (categories,)
        Standard errors of `counts`, by the exact formula for given values; the
        estimated count, clipped to 0 ... users, replaces the true count.
    users : int
        Number of reports.
    mechanism : mechanism, optional
        Mechanism that made the reports; None if it is unknown.
    names : tuple of str or of int, optional
        Names of the categories; None: 0, 1, 2 ...

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency
    estimation", USENIX Security 2017, section 3 (support counts).

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.RandomizedResponse(p=0.75)
    >>> est = m.estimate(np.array([1, 0, 0, 1, 1, 1, 1, 0], np.uint8))
    >>> est.counts
    array([2., 6.])
    >>> est.frequencies
    array([0.25, 0.75])
    >>> est.standard_errors.round(3)
    array([2.449, 2.449])
    """

    def consistent(self) -> ConsistentEstimate:
        """Return the nearest counts that are >= 0 and sum to the users (norm-sub).

        The Euclidean projection: one number is added to all counts, and negative
        results become 0. Post-processing: it costs no privacy.

        Returns
        -------
        ConsistentEstimate
            Biased, and without standard errors.

        References
        ----------
        Wang, Lopuhaa-Zwakenberg, Li, Skoric, Li, "Locally differentially private
        frequency estimation with consistency", NDSS 2020 (Norm-Sub).

        Examples
        --------
        >>> import numpy as np
        >>> import fastdp
        >>> m = fastdp.RandomizedResponse(p=0.75)
        >>> est = m.estimate(np.ones(10, bool))
        >>> est.counts
        array([-5., 15.])
        >>> est.consistent()
        ConsistentEstimate(counts=array([ 0., 10.]), users=10)
        """
        nearest = project(self.counts, self.users)
        return ConsistentEstimate(nearest, self.users, self.names)


@dataclass(frozen=True, eq=False)
class MeanEstimate:
    """Unbiased mean of the users' numbers, with its standard error.

    The `estimate` methods of `LocalMean` and its aggregators return it. It is unbiased
    over the mechanism's randomness, for all numbers, up to their rounding to 2**-31 of
    the bounds' width. The mean may be outside the bounds.

    Parameters
    ----------
    mean : float, or ndarray of float64, shape (dimension,)
        Estimated mean of the numbers, each clamped to its bounds; NaN without reports.
    standard_error : float, or ndarray of float64, shape (dimension,)
        Standard error of `mean` for the given numbers: computed from the spread of the
        reports, which includes the spread of the numbers, or the worst case over all
        numbers, if that is smaller. If each user reports only some numbers, always from
        the spread.
    users : int
        Number of reports, including invalid reports, which `mean` leaves out.
    mechanism : mechanism, optional
        Mechanism that made the reports.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.LocalMean(3, bounds=(0, 8))
    >>> est = m.estimate(np.array([1, 1, 1, 0], np.uint8))
    >>> est.mean, round(est.standard_error, 2)
    (8.0, 4.0)
    """

    mean: float | _Array
    standard_error: float | _Array = field(repr=False)
    users: int
    mechanism: Mechanism | None = field(default=None, repr=False)

    def confidence_interval(self, level: Real) -> tuple[Any, Any]:
        """Return an interval for the mean of the numbers.

        Parameters
        ----------
        level : int, float, Fraction or Decimal
            Probability that each single interval contains the true mean, > 0 and < 1.

        Returns
        -------
        (low, high) : tuple of float, or of ndarray of float64
            mean -+ the normal quantile times the standard error. The normal law is an
            approximation; it is good from about a hundred reports on. Not clipped.

        Raises
        ------
        DTypeError, ParameterError
            `level` is not a real number between 0 and 1.
        """
        reach = _quantile(level) * self.standard_error
        return self.mean - reach, self.mean + reach


@dataclass(frozen=True, eq=False)
class VectorEstimate:
    """Unbiased mean of the users' vectors, with the standard error of its entries.

    The `estimate` methods of `VectorResponse` and its aggregators return it.

    Parameters
    ----------
    mean : ndarray of float64, shape (dimension,)
        Estimated mean of the vectors, after vectors longer than 1 are scaled to length
        1; NaN without reports.
    standard_error : float
        Largest standard error of an entry of `mean`.
    users : int
        Number of reports, including invalid reports, which `mean` leaves out.
    mechanism : mechanism, optional
        Mechanism that made the reports.
    """

    mean: _Array
    standard_error: float = field(repr=False)
    users: int
    mechanism: Mechanism | None = field(default=None, repr=False)

    def confidence_interval(self, level: Real) -> tuple[_Array, _Array]:
        """Return an interval for each entry of the mean.

        Parameters and errors are as in `MeanEstimate.confidence_interval`.
        """
        reach = _quantile(level) * self.standard_error
        return self.mean - reach, self.mean + reach


def _quantile(level: Real) -> float:
    """Return the half width of an interval, in standard errors."""
    tail = (1 - _validate.open_unit("level", level)) / 2
    return -NormalDist().inv_cdf(max(float(tail), _TINY))


def project(counts: _Array, total: int) -> _Array:
    """Return the point nearest to `counts` that is >= 0 and has the sum `total`.

    The k largest counts share the excess evenly and the others become 0, for the
    greatest k that leaves the k-th count above 0 (Held, Wolfe, Crowder 1974).
    """
    if total == 0:
        return np.zeros_like(counts)
    top = counts.max()
    # Sum from the largest count on: `total` is then not lost in rounding.
    below = np.sort(counts - top)[::-1]
    excess = (np.cumsum(below) - total) / np.arange(1, len(below) + 1)
    last = np.flatnonzero(below > excess)[-1]
    nearest: _Array = np.maximum((counts - top) - excess[last], 0.0)
    return nearest


def _by_name(
    names: Names | None, counts: _Array
) -> dict[str, float] | dict[int, float]:
    listed: Any = range(len(counts)) if names is None else names
    found: dict[Any, float] = dict(zip(listed, counts.tolist(), strict=True))
    return found


def _shares(counts: _Array, users: int) -> _Array:
    shares: _Array = counts / users if users else np.full_like(counts, math.nan)
    return shares
