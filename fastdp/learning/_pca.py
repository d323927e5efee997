"""Principal components of a noisy matrix of second moments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from fastdp import _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import Relation
from fastdp.exceptions import ParameterError
from fastdp.learning._base import Array, Bound, Box, Estimator
from fastdp.learning._products import Products
from fastdp.ledger import Ledger
from fastdp.tables import Rows


class PCA(Estimator):
    """Principal components from one noisy sum of products, decomposed after the noise.

    Parameters
    ----------
    n_components : int, optional
        Number of components to keep; None keeps all.
    bounds : tuple (low, high)
        Public bounds of the features: numbers, or arrays of shape (features,). Records
        are clamped to the bounds.
    unit, neighboring_relation, epsilon, delta, rho
        As in `LinearRegression`.
    data_norm : int, float, Fraction or Decimal, optional
        Public L2 norm of a record around the center of the bounds, in halves of their
        width; longer records weigh less. None takes the norm of a uniform record
        between the bounds.
    centered : bool
        True takes the center of the bounds as the mean, which needs less noise.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, features)
    mean_ : ndarray of shape (features,)
    explained_variance_ : ndarray of shape (n_components,)
        Absent with `centered`, because the number of records is then not released.
    explained_variance_ratio_ : ndarray of shape (n_components,)
    n_components_, n_features_in_ : int

    Privacy
    -------
    As in `LinearRegression`: each `fit` has the guarantee of `event()`, exactly, by the
    sensitivity of one `ClippedSum` under the neighboring relation. A record with NaN
    counts as a row of zeros, and infinities count as the bounds. Timing class T0.

    References
    ----------
    Dwork, Talwar, Thakurta, Zhang, "Analyze Gauss: optimal bounds for privacy-
    preserving principal component analysis", STOC 2014. docs/learning.md.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdp.learning import PCA
    >>> t = np.linspace(-1, 1, 100_000)
    >>> model = PCA(
    ...     1, bounds=(-1, 1), unit="row", neighboring_relation="replace_one", rho=0.1
    ... )
    >>> axis = model.fit(np.column_stack([t, t / 2])).components_[0]
    >>> bool(abs(axis[1] / axis[0] - 0.5) < 0.05)
    True
    """

    components_: Array
    mean_: Array
    explained_variance_: Array
    explained_variance_ratio_: Array
    n_components_: int

    def __init__(
        self,
        n_components: int | None = None,
        *,
        bounds: tuple[Bound, Bound],
        unit: Rows | str,
        neighboring_relation: Relation,
        epsilon: Real | None = None,
        delta: Real | None = None,
        rho: Real | None = None,
        data_norm: Real | None = None,
        centered: bool = False,
    ) -> None:
        self.n_components = n_components
        self.bounds = bounds
        self.unit = unit
        self.neighboring_relation = neighboring_relation
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.data_norm = data_norm
        self.centered = centered

    def _products(self, features: int) -> Products:
        length = None
        if self.data_norm is not None:
            length = self._positive("data_norm")
        one = not self.centered
        return Products(features, self._norm, constant=one, length=length)

    def _mechanisms(self, features: int) -> tuple[Any, ...]:
        return self._made([1], [self._products(features).shape])

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
        """Find the components by one release; `y` is not read.

        Parameters, errors and privacy are as in `LinearRegression.fit`.
        """
        x = self._entered(X)
        features = x.shape[1]
        kept = features if self.n_components is None else self.n_components
        kept = _validate.integer("n_components", kept, 1)
        if kept > features:
            raise ParameterError(
                f"n_components must be at most the number of features, {features}, got "
                f"{kept}"
            )
        box = Box.of("bounds", self.bounds, features)
        fitting = self._fitting(features, ledger, label, budgets, stream)
        products, inner = self._products(features), box.scaled(x)
        if not self.centered:
            inner = np.column_stack([inner, np.ones(len(x))])
        moments = products.matrix(fitting.release(0, products.rows(inner)))
        middle = np.zeros(features)
        if not self.centered:
            number = max(moments[-1, -1], fitting.mechanisms[0].std)
            middle = np.clip(moments[:-1, -1] / number, -1, 1)
            moments = moments[:-1, :-1] / number - np.outer(middle, middle)
        values, vectors = np.linalg.eigh(moments * np.outer(box.half, box.half))
        variances = np.maximum(values[::-1], 0)
        learned = {
            "components_": vectors.T[::-1][:kept].copy(),
            "mean_": box.center + middle * box.half,
            "explained_variance_ratio_": variances[:kept] / (variances.sum() or 1),
            "n_components_": kept,
        }
        if not self.centered:
            learned["explained_variance_"] = variances[:kept]
        return self._keep(X, features, **learned)

    def transform(self, X: Any) -> Array:
        """Return noiseless records along the components, shape (n, n_components)."""
        x = self._entered(X, fitted=True)
        with np.errstate(over="ignore", invalid="ignore"):
            found: Array = (x - self.mean_) @ self.components_.T
        return found

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Array:
        """Return `fit(X, **options).transform(X)`: records without noise."""
        return self.fit(X, y, **options).transform(X)

    def inverse_transform(self, X: Any) -> Array:
        """Return transformed records in the features' axes."""
        return np.asarray(X) @ self.components_ + self.mean_

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the components, "pca0" and so on."""
        names = [f"pca{i}" for i in range(self.n_components_)]
        return np.array(names, object)
