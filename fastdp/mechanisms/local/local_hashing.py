"""Local hashing: randomized response on a hash of the category."""

from __future__ import annotations

import math
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
)
from fastdp.mechanisms.local.categories import (
    Categories,
    Named,
    Other,
    count_categories,
)
from fastdp.mechanisms.local.estimates import Support

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: A report: the user's hash function, and the answer for the hashed category.
REPORT = np.dtype([("seed", "<u8"), ("value", "<u4")])


class LocalHashing(FrequencyOracle):
    """Local hashing: each user answers for a hash of the category; pure local privacy.

    A report holds a fresh random hash function from categories to buckets and a bucket:
    the bucket of the user's category with probability p, and otherwise one of the other
    buckets, each with the same probability. About e**epsilon + 1 buckets are optimal
    (OLH); 2 buckets give binary local hashing (BLH).

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        Probability of the true bucket, above 1/buckets and below 1; rounded down to
        a multiple of 2**-64.
    buckets : int
        Number of buckets, from 2 to an eighth of the hash's range; the range has 2**(33
        - bits) values if the largest category has `bits` bits.
    categories : int, or sequence of str or of int
        Number of categories, 2 ... 2**24, which are then 0 ... categories - 1; or
        their public names, each once, which are then compared with the values.
    other : int or str, optional
        Category for a value that is in none of the categories, given by name if they
        have names. None: such a value counts as a category drawn uniformly.

    Privacy
    -------
    Pure local epsilon = ln(p (buckets - 1)/(1 - p)) for each report: any two values
    of one user are neighboring, and no sensitivity is needed. Exact: the
    probabilities hold to the last bit. The hash function is public and drawn with its
    own key. Timing class T2; T0 with names of categories.

    Notes
    -----
    The hash is multiply-add-shift: any two categories get independent uniform hash
    values, so that the probability of a common bucket is known exactly and estimates
    are unbiased.

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency
    estimation", USENIX Security 2017 (OLH, BLH); Bassily, Smith, "Local, private,
    efficient protocols for succinct histograms", STOC 2015; Dietzfelbinger,
    "Universal hashing and k-wise independent random variables via integer arithmetic
    without primes", STACS 1996 (the hash).

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.LocalHashing.from_epsilon(1, categories=1000)
    >>> m.buckets
    4
    >>> reports = m.release(np.array([0, 999, 7]))
    >>> reports.dtype.names, reports.shape
    (('seed', 'value'), (3,))
    >>> m.estimate(reports).counts.shape
    (1000,)
    """

    __slots__ = ("_buckets", "_collision", "_law", "_p")

    _buckets: int
    _collision: Fraction
    _law: _core.Response
    _p: Fraction

    def __init__(
        self,
        p: Real,
        *,
        buckets: int,
        categories: Named,
        other: Other = None,
    ) -> None:
        domain = Categories(categories, MOST_CATEGORIES, other)
        buckets = _check_buckets(buckets, domain.count)
        truth = _probabilities.checked_truth(p, buckets)
        common = _collision_probability(buckets, domain.count)
        wrong = (1 - truth) / (buckets - 1)
        self._freeze(
            _arguments=(
                ("p", _validate.plain(truth)),
                ("buckets", buckets),
                *domain.arguments,
            ),
            _p=truth,
            _buckets=buckets,
            _collision=common,
            _law=_laws.response_law(truth, buckets),
            _labeling=self._labeling_of(domain.count),
            _domain=domain,
            _report_dtype=REPORT,
            _row=(),
            _support=Support(truth, common * truth + (1 - common) * wrong),
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        categories: Named,
        buckets: int | None = None,
        other: Other = None,
    ) -> LocalHashing:
        """Return the mechanism with the greatest p that meets `epsilon`.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            > 0.
        categories, other
            As for the class.
        buckets : int, optional
            None: e**epsilon + 1, rounded and limited to the class's range (OLH). 2:
            BLH.

        Raises
        ------
        DTypeError, ParameterError
            A parameter has a wrong type or is out of its domain.
        CalibrationError
            `epsilon` is so small that only the useless p = 1/buckets meets it.
        """
        count = count_categories(categories, MOST_CATEGORIES)
        if buckets is None:
            exact = _validate.positive("epsilon", epsilon)
            best = round(math.exp(min(exact, Fraction(32)))) + 1
            buckets = min(best, _most_buckets(count))
        buckets = _check_buckets(buckets, count)
        truth = _probabilities.truth_of(epsilon, buckets)
        return cls(truth, buckets=buckets, categories=categories, other=other)

    @property
    def p(self) -> Fraction:
        """Probability that a report holds the true bucket, exact."""
        return self._p

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return self._buckets

    @property
    def collision_probability(self) -> Fraction:
        """Probability that two categories fall into one bucket, exact."""
        return self._collision

    def event(self) -> RandomizedResponseEvent:
        """Return the event of one report, for two values with different hashes."""
        apart = 1 - self._collision
        wrong = (1 - self._p) / (self._buckets - 1)
        return RandomizedResponseEvent(p=apart * self._p, q=apart * wrong)

    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        # The seeds are published, so their key is separate from the secret one.
        with _core.Call(stream) as public, _core.Call(stream, reports) as secret:

            def part(start: int, stop: int, chunk: int) -> None:
                values, drawn = x[start:stop], reports[start:stop]
                d, other, label = self.categories, self._domain.stand_in, self._labeling
                _core.hash_clients(
                    secret, public, label, self._law, values, drawn, d, other, chunk
                )

            _arrays.in_parallel(part, len(x), _core.CLIENTS, workers)

    def _count(self, reports: _Array, tally: _Array) -> None:
        _core.hash_support(reports, self.categories, self._buckets, tally)


def _range_bits(categories: int) -> int:
    """Return the number of bits of a hash value before it is mapped to a bucket."""
    return 33 - max(1, (categories - 1).bit_length())


def _most_buckets(categories: int) -> int:
    return 1 << (_range_bits(categories) - 3)


def _check_buckets(buckets: object, categories: int) -> int:
    return _validate.integer("buckets", buckets, 2, _most_buckets(categories))


def _collision_probability(buckets: int, categories: int) -> Fraction:
    """Return the probability that two uniform hash values fall into one bucket.

    Each bucket gets 2**l // buckets of the 2**l hash values, and 2**l % buckets of the
    buckets get one more.
    """
    size = 1 << _range_bits(categories)
    few, larger = divmod(size, buckets)
    pairs = (buckets - larger) * few**2 + larger * (few + 1) ** 2
    return Fraction(pairs, size**2)
