"""k-means: rounds of Lloyd's algorithm on noisy counts and sums of each cluster."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fastdp import _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import Relation
from fastdp.exceptions import ParameterError
from fastdp.learning._base import Array, Bound, Box, Estimator, matrix
from fastdp.ledger import Ledger
from fastdp.tables import Rows

#: Step of the grid for counts and coordinates in [-1, 1].
_STEP = Fraction(1, 2**24)

#: Assumed variance of centers around the mean of all records, for shrinking noisy ones.
_SPREAD = 0.1

#: Bound on the work for choosing first centers among random public points.
_TRIED = 2**21


class KMeans(Estimator):
    """Lloyd's algorithm with noisy counts and sums of the clusters in each round.

    Parameters
    ----------
    n_clusters : int
    bounds : tuple (low, high)
        Public bounds of the features: numbers, or arrays of shape (features,). Records
        are clamped to the bounds; the unit of distances is half the bounds' width.
    unit, neighboring_relation, epsilon, delta, rho
        As in `LinearRegression`.
    max_iter : int
        Number of rounds, fixed in advance; the rounds share the budget.
    init : array of shape (n_clusters, features), optional
        Public initial centers. None takes points far from each other and from the
        bounds.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, features)
    n_features_in_ : int
        There is no `labels_`, because the records' labels are as private as the
        records.

    Privacy
    -------
    Each `fit` has the guarantee of `event()` for all rounds, exactly. Given the centers
    of the previous round, a record's label depends only on that record: it is the first
    of the nearest centers. So a record changes the count and the sum of one cluster, by
    at most the sensitivity of `ClippedSum` with blocks under the neighboring relation.
    A record with NaN is in no cluster, and infinities count as the bounds. Timing class
    T0.

    References
    ----------
    Blum, Dwork, McSherry, Nissim, "Practical privacy: the SuLQ framework", PODS 2005.
    Su, Cao, Li, Bertino, Jin, "Differentially private k-means clustering", CODASPY
    2016. docs/learning.md.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdp.learning import KMeans
    >>> x = np.repeat([[0.0, 0.0], [9.0, 9.0]], 50_000, axis=0)
    >>> model = KMeans(
    ...     2, bounds=(0, 10), unit="row", neighboring_relation="replace_one", epsilon=1
    ... )
    >>> sorted(model.fit(x).predict([[1.0, 1.0], [8.0, 8.0]]).tolist())
    [0, 1]
    """

    _estimator_type: ClassVar[str | None] = "clusterer"

    cluster_centers_: Array

    def __init__(
        self,
        n_clusters: int,
        *,
        bounds: tuple[Bound, Bound],
        unit: Rows | str,
        neighboring_relation: Relation,
        epsilon: Real | None = None,
        delta: Real | None = None,
        rho: Real | None = None,
        max_iter: int = 3,
        init: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.bounds = bounds
        self.unit = unit
        self.neighboring_relation = neighboring_relation
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.max_iter = max_iter
        self.init = init

    def _weight(self, features: int) -> Fraction:
        """Return the least-error weight of a count, relative to a coordinate."""
        least = (features / 4) ** (1 / 3 if self._norm == 1 else 1 / 4)
        return Fraction(round(64 * least) or 1, 64)

    def _mechanisms(self, features: int) -> tuple[Any, ...]:
        shape = {
            "radius": 1,
            "dimension": features,
            "norm": "inf",
            "blocks": _validate.integer("n_clusters", self.n_clusters, 1, 2**20),
            "constant": self._weight(features),
            "granularity": _STEP,
        }
        rounds = _validate.integer("max_iter", self.max_iter, 1, 2**10)
        return self._made([Fraction(1, rounds)] * rounds, [shape] * rounds)

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
        """Find the centers by one release per round; `y` is not read.

        Parameters, errors and privacy are as in `LinearRegression.fit`. In a ledger
        each round has its own label: `label` with "1/3" and so on.
        """
        x = self._entered(X)
        features = x.shape[1]
        box = Box.of("bounds", self.bounds, features)
        fitting = self._fitting(features, ledger, label, budgets, stream)
        rounds, clusters = len(fitting.mechanisms), fitting.mechanisms[0].shape[0]
        spare = np.random.default_rng(99).uniform(
            -0.8, 0.8, (rounds, clusters, features)
        )
        if self.init is None:
            centers = spread_out(clusters, features)
        else:
            centers = box.scaled(matrix(self.init))
            if centers.shape != (clusters, features) or np.isnan(centers).any():
                raise ParameterError(
                    f"init must be numbers of shape ({clusters}, {features})"
                )
        scaled, weight = box.scaled(x), float(self._weight(features))
        for i, m in enumerate(fitting.mechanisms):
            noisy = fitting.release(i, scaled, labels=nearest(scaled, centers))
            centers = self._moved(noisy, m.std, weight, spare[i])
        return self._keep(X, features, cluster_centers_=box.center + box.half * centers)

    def _moved(self, noisy: Array, std: float, weight: float, spare: Array) -> Array:
        """Return noisy cluster means, shrunk to the overall mean if noise is large."""
        count = noisy[:, 0] / weight
        total = max(count.sum(), 1.0)
        noise = len(count) * (std / total) ** 2
        middle = (
            _SPREAD
            / (_SPREAD + noise)
            * np.clip(noisy[:, 1:].sum(axis=0) / total, -1, 1)
        )
        known = np.maximum(count, 1)[:, None]
        trust = _SPREAD / (_SPREAD + (std / known) ** 2)
        moved = middle + trust * (np.clip(noisy[:, 1:] / known, -1, 1) - middle)
        lost = count < max(1, std / weight)
        moved[lost] = middle + 0.3 * spare[lost]
        found: Array = np.clip(moved, -1, 1)
        return found

    def predict(self, X: Any) -> Array:
        """Return the cluster of each record, shape (n,); -1 for a record with NaN."""
        x, centers = self._placed(X)
        return nearest(x, centers)

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Array:
        """Return `fit(X, **options).predict(X)`: labels of records, without noise."""
        return self.fit(X, y, **options).predict(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the sum of squared distances to the nearest center, negated.

        No noise is added. The unit is half the bounds' width; records with NaN are
        left out.
        """
        x, centers = self._placed(X)
        return -float(np.nansum(distances(x, centers).min(axis=1)))

    def _placed(self, X: Any) -> tuple[Array, Array]:
        x = self._entered(X, fitted=True)
        box = Box.of("bounds", self.bounds, x.shape[1])
        return box.scaled(x), box.scaled(self.cluster_centers_)


def distances(x: Array, centers: Array) -> Array:
    """Return squared distances, shape (n, k); each depends only on its own record."""
    out = np.zeros((len(x), len(centers)))
    for j in range(x.shape[1]):
        out += (x[:, j, None] - centers[:, j]) ** 2
    return out


def nearest(x: Array, centers: Array) -> Array:
    """Return the first nearest center of each record, -1 for a record with NaN."""
    d = distances(x, centers)
    return np.where(np.isnan(d).any(axis=1), -1, d.argmin(axis=1))


@functools.lru_cache(maxsize=64)
def spread_out(clusters: int, features: int) -> Array:
    """Return public points of [-1, 1]^d, far from each other and from the boundary."""
    tried = max(1, min(4_000, _TRIED // (clusters**2 * features)))
    rng = np.random.default_rng(1)
    best, found = -np.inf, np.zeros((clusters, features))
    for _ in range(tried):
        points = rng.uniform(-1, 1, (clusters, features))
        apart = np.sqrt(distances(points, points))
        np.fill_diagonal(apart, 2 * (1 - np.abs(points).max(axis=1)))
        if apart.min() > best:
            best, found = apart.min(), points
    return found
