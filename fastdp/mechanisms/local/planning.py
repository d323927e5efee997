"""Chooses a local mechanism by the error of its estimates."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from fastdp import _validate
from fastdp._validate import Real
from fastdp.exceptions import CalibrationError
from fastdp.mechanisms.local._base import (
    MOST_ANSWERS,
    MOST_CATEGORIES,
    FrequencyOracle,
)
from fastdp.mechanisms.local.categories import (
    Categories,
    Named,
    Other,
    count_categories,
)
from fastdp.mechanisms.local.hadamard_response import HadamardResponse
from fastdp.mechanisms.local.local_hashing import LocalHashing
from fastdp.mechanisms.local.randomized_response import RandomizedResponse
from fastdp.mechanisms.local.subset_selection import SubsetSelection
from fastdp.mechanisms.local.unary_encoding import UnaryEncoding

#: Treat variances as equal if their ratio is at most this.
_EQUAL = 1.01


def best_frequency_oracle(
    epsilon: Real, *, categories: Named, users: int, other: Other = None
) -> FrequencyOracle:
    """Return the local mechanism whose estimates have the least variance.

    It compares k-ary randomized response, unary encoding (optimized and symmetric),
    optimal local hashing, Hadamard response and subset selection by the exact variance
    of a category's count, averaged over all categories. Among the mechanisms within 1 %
    of the least variance, it takes the one with the smallest reports.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        Pure local epsilon of one report, > 0.
    categories : int, or sequence of str or of int
        Number of categories, 2 ... 2**31 - 1, or their names; above 2**24 only
        randomized response is possible.
    users : int
        Number of reports to plan for, >= 1. Every variance is proportional to it, so
        that it does not change the choice.
    other : int or str, optional
        Category for values outside the domain; None: each counts as a category drawn
        uniformly.

    Returns
    -------
    RandomizedResponse, UnaryEncoding, LocalHashing, HadamardResponse or SubsetSelection

    Raises
    ------
    DTypeError, ParameterError
        A parameter has a wrong type or is out of its domain.
    CalibrationError
        `epsilon` is so small that only useless mechanisms meet it.

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency
    estimation", USENIX Security 2017, section 5; Kairouz, Bonawitz, Ramage, "Discrete
    distribution estimation under local privacy", ICML 2016; Acharya, Sun, Zhang,
    "Hadamard response", AISTATS 2019.

    Examples
    --------
    >>> import fastdp
    >>> type(fastdp.best_frequency_oracle(2, categories=4, users=10**6)).__name__
    'RandomizedResponse'
    >>> m = fastdp.best_frequency_oracle(2, categories=1000, users=10**6)
    >>> type(m).__name__, round(m.standard_error(10**6))
    ('LocalHashing', 851)
    """
    _validate.positive("epsilon", epsilon)
    count = Categories(categories, MOST_ANSWERS, other).count
    users = _validate.integer("users", users, 1)
    mean = Fraction(1, count)
    candidates = [
        (oracle.standard_error(users, frequency=mean) ** 2, oracle)
        for oracle in _within(epsilon, categories, other)
    ]
    limit = _EQUAL * min(variance for variance, _ in candidates)
    close = [c for c in candidates if c[0] <= limit]
    return min(close, key=lambda c: (c[1].report_width, c[0]))[1]


def _within(epsilon: Real, categories: Named, other: Other) -> list[FrequencyOracle]:
    """Return the mechanisms for these parameters, without useless ones."""
    makers: list[Callable[[], FrequencyOracle]] = [
        lambda: RandomizedResponse.from_epsilon(
            epsilon, categories=categories, other=other
        )
    ]
    if count_categories(categories, MOST_ANSWERS) <= MOST_CATEGORIES:
        makers += [
            lambda: HadamardResponse.from_epsilon(
                epsilon, categories=categories, other=other
            ),
            lambda: LocalHashing.from_epsilon(
                epsilon, categories=categories, other=other
            ),
            lambda: UnaryEncoding.from_epsilon(
                epsilon, categories=categories, other=other
            ),
            lambda: UnaryEncoding.from_epsilon(
                epsilon, categories=categories, symmetric=True, other=other
            ),
            lambda: SubsetSelection.from_epsilon(
                epsilon, categories=categories, other=other
            ),
        ]
    found, refusal = [], None
    for make in makers:
        try:
            found.append(make())
        except CalibrationError as error:
            refusal = error
    if refusal is not None and not found:
        raise refusal
    return found
