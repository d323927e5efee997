"""Multiplicative weights: fits a distribution that answers counting queries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np

from fastdp import _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import Relation
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.learning._base import REPLACE, Array, Estimator
from fastdp.ledger import Ledger
from fastdp.mechanisms import DiscreteGaussian, DiscreteLaplace, ExponentialMechanism
from fastdp.tables import Rows

#: Most kinds of records times queries.
_LARGEST = 2**26

#: Share of the budget for the number of records, where that is not public.
_COUNT = Fraction(1, 20)

#: How often a round goes over all measured queries, which costs nothing.
_PASSES = 5


class MWEM(Estimator):
    """A distribution of records that answers many counting queries from few releases.

    Each round chooses the query that the distribution answers worst, releases its count
    with noise, and moves the distribution toward all counts released so far.

    Parameters
    ----------
    domain : sequence of int
        Public number of values of each feature; the values are 0, 1, 2 and so on.
    queries : int or array of bool or of 0 and 1, shape (queries, kinds)
        An int k stands for all counts of records with given values of k features. A row
        of an array marks the kinds of records that a query counts; the kinds are in the
        order of ``numpy.ndindex(*domain)``. Queries times kinds is at most 2**26.
    unit, neighboring_relation, epsilon, delta, rho
        As in `LinearRegression`.
    max_iter : int
        Number of rounds, fixed beforehand: more rounds share the budget.

    Attributes
    ----------
    weights_ : ndarray of float64, shape domain
        Estimated number of records of each kind, all >= 0.
    queries_ : ndarray of bool, shape (queries, kinds)
    measured_ : ndarray of int64, shape (max_iter, 2)
        The chosen query and its noisy count, round by round.
    n_features_in_ : int

    Privacy
    -------
    Each `fit` has the guarantee of `event()` for all rounds, exactly. A record has one
    kind, and the answers of the weights are public. So adding, removing or replacing a
    record changes a count by at most 1, and also a score, which is the distance of a
    count from an integer. The number of records is released first; under "replace_one"
    it is public. A record with NaN or outside the domain is in no count. Timing class
    T0.

    References
    ----------
    Hardt, Ligett, McSherry, "A simple and practical algorithm for differentially
    private data release", NIPS 2012. docs/learning.md.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdp.learning import MWEM
    >>> x = np.repeat([[0, 0], [1, 1]], 50_000, axis=0)
    >>> model = MWEM(
    ...     domain=(2, 2), queries=2, unit="row", neighboring_relation="replace_one",
    ...     epsilon=1,
    ... )
    >>> bool(abs(model.fit(x).weights_[1, 1] - 50_000) < 5_000)
    True
    """

    weights_: Array
    queries_: Array
    measured_: Array

    def __init__(
        self,
        *,
        domain: Sequence[int],
        queries: Any,
        unit: Rows | str,
        neighboring_relation: Relation,
        epsilon: Real | None = None,
        delta: Real | None = None,
        rho: Real | None = None,
        max_iter: int = 10,
    ) -> None:
        self.domain = domain
        self.queries = queries
        self.unit = unit
        self.neighboring_relation = neighboring_relation
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.max_iter = max_iter

    def _known_features(self) -> int:
        return len(checked_domain(self.domain))

    def _mechanisms(self, features: int) -> tuple[Any, ...]:
        rounds = _validate.integer("max_iter", self.max_iter, 1, 2**10)
        noise: Any = DiscreteLaplace if self._norm == 1 else DiscreteGaussian
        counted = self._relation is not REPLACE
        half = (1 - counted * _COUNT) / rounds / 2
        shares = [_COUNT] * counted + [half] * 2 * rounds
        kinds: list[Any] = [noise] * counted + [ExponentialMechanism, noise] * rounds
        return self._made(shares, [{"sensitivity": 1}] * len(kinds), kinds)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        ledger: Ledger | None = None,
        label: str | None = None,
        budgets: str | Iterable[str] | None = None,
        stream: Stream | None = None,
    ) -> Self:
        """Find the weights by a choice and a count in each round; `y` is not read.

        Parameters, errors and privacy are as in `LinearRegression.fit`; the features
        of `X` are codes, 0 to their number of values less 1. In a ledger each release
        has its own label: `label` with "1/20" and so on.
        """
        domain = checked_domain(self.domain)
        queries = checked_queries(self.queries, domain)
        x = self._entered(X)
        if x.shape[1] != len(domain):
            raise ParameterError(
                f"X must have {len(domain)} features, as domain has, got {x.shape[1]}"
            )
        fitting = self._fitting(x.shape[1], ledger, label, budgets, stream)
        counts = kinds_of(x, domain)
        rows = queries.astype(np.float64)
        exact = (rows @ counts).astype(np.int64)  # sums of integers below 2**53
        n, place = len(x), 0
        if self._relation is not REPLACE:
            whole = np.array([counts.sum()], np.int64)
            n, place = int(fitting.draw(0, fitting.mechanisms[0], whole)[0]), 1
        n = min(max(n, 1), 2**50)
        weights = np.full(len(counts), n / len(counts))
        measured = []
        for i in range(place, len(fitting.mechanisms), 2):
            choice, noise = fitting.mechanisms[i : i + 2]
            scores = np.abs(exact - np.rint(rows @ weights).astype(np.int64))
            worst = int(fitting.draw(i, choice, scores, "select"))
            count = int(fitting.draw(i + 1, noise, exact[worst : worst + 1])[0])
            measured.append((worst, count))
            for query, wanted in _PASSES * measured:
                weights = reweighed(weights, rows[query], wanted, n)
        learned = {"weights_": weights.reshape(domain), "queries_": queries}
        return self._keep(X, len(domain), **learned, measured_=np.array(measured))

    def predict(self, queries: Any = None) -> Array:
        """Return answers to counting queries from the weights; no record is read.

        Parameters
        ----------
        queries : int or array, optional
            As in the class; None takes the queries of the fit.
        """
        self._require_fit()
        asked = self.queries_
        if queries is not None:
            asked = checked_queries(queries, self.weights_.shape)
        found: Array = asked @ self.weights_.ravel()
        return found


def reweighed(weights: Array, query: Array, wanted: float, n: float) -> Array:
    """Return weights with sum n after one step toward a query's count."""
    more = (wanted - query @ weights) / (2 * n)
    moved = weights * np.exp(query * np.clip(more, -1, 1))
    found: Array = moved * (n / moved.sum())
    return found


def kinds_of(x: Array, domain: tuple[int, ...]) -> Array:
    """Return the number of records of each kind, as float64; skip other records."""
    known = ((x >= 0) & (x < domain) & (x == np.floor(x))).all(axis=1)
    codes = np.where(known[:, None], x, 0).astype(np.int64)
    kinds = np.ravel_multi_index((*codes.T,), domain)
    size = math.prod(domain)
    # Records of no kind have a place of their own, so that no time depends on them.
    counts = np.bincount(np.where(known, kinds, size), minlength=size + 1)
    found: Array = counts[:size].astype(np.float64)
    return found


def checked_domain(domain: Any) -> tuple[int, ...]:
    """Return the public number of values of each feature."""
    if isinstance(domain, (str, int)) or not isinstance(domain, Iterable):
        raise DTypeError("domain must be a sequence of int, one for each feature")
    sizes = tuple(_validate.integer("domain", size, 1, _LARGEST) for size in domain)
    if not 1 <= len(sizes) <= 32 or math.prod(sizes) > _LARGEST:
        raise ParameterError(
            f"domain must have 1 to 32 features and at most {_LARGEST} kinds of "
            "records, the product of its sizes"
        )
    return sizes


def checked_queries(queries: Any, domain: tuple[int, ...]) -> Array:
    """Return queries as bool, shape (queries, kinds)."""
    kinds = math.prod(domain)
    if isinstance(queries, (int, np.integer)) and not isinstance(queries, bool):
        order = _validate.integer("queries", queries, 1, len(domain))
        which = list(itertools.combinations(range(len(domain)), order))
        count = sum(math.prod(domain[j] for j in own) for own in which)
        _check_size(count, kinds)
        codes = np.indices(domain).reshape(len(domain), -1)
        rows = [
            (codes[list(own)] == np.array(values)[:, None]).all(axis=0)
            for own in which
            for values in itertools.product(*(range(domain[j]) for j in own))
        ]
        return np.array(rows)
    found = np.asarray(queries)
    if found.ndim != 2 or found.shape[1] != kinds or not len(found):
        raise ParameterError(
            f"queries must be an int or an array of shape (queries, {kinds}), one "
            f"column for each kind of record, got shape {found.shape}"
        )
    _check_size(len(found), kinds)
    if found.dtype.kind not in "biuf" or not np.isin(found, (0, 1)).all():
        raise ParameterError("queries must have entries 0 and 1, or bool")
    return found.astype(bool)


def _check_size(queries: int, kinds: int) -> None:
    if queries * kinds > _LARGEST:
        raise ParameterError(
            f"queries must be at most 2**26 divided by the number of kinds, got "
            f"{queries} of {kinds} kinds: ask fewer, or of fewer features"
        )
