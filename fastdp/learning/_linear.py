"""Linear regression from one noisy sum of products."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np

from fastdp._doorway import one_index
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import Relation
from fastdp.learning._base import Array, Bound, Box, Estimator, target
from fastdp.learning._products import Products
from fastdp.ledger import Ledger
from fastdp.mechanisms import ClippedSum
from fastdp.tables import Rows


class LinearRegression(Estimator):
    """Least squares from one noisy sum of products, solved after the noise.

    Parameters
    ----------
    bounds : tuple (low, high)
        Public bounds of the features: numbers, or arrays of shape (features,). Records
        are clamped to the bounds.
    y_bounds : tuple (low, high)
        Public bounds of the target, two numbers.
    unit : "row" or Rows
        The owner of a row: ``Rows("person")`` claims that no person has two rows.
    neighboring_relation : NeighboringRelation or str
        "add_or_remove_one", "replace_one" (the number of records is public, and the
        noise is twice as large) or "replace_special".
    epsilon, delta, rho : int, float, Fraction or Decimal, optional
        Budget of a fit: `epsilon` alone for pure privacy (Laplace noise), `epsilon`
        with `delta`, or `rho` for zero-concentrated privacy (Gaussian noise).
    fit_intercept : bool
        False fits a plane through the origin.

    Attributes
    ----------
    coef_ : ndarray of shape (features,)
    intercept_ : float
    n_features_in_ : int

    Privacy
    -------
    Each `fit` has the guarantee of `event()`, exactly: a record is one row of the sum,
    and `ClippedSum` checks the row's norm in integers. So the sensitivity under the
    neighboring relation holds for any rounding of floats. A record with NaN in a
    feature or the target counts as a row of zeros, infinities count as the bounds. The
    equations are solved from noisy sums. `predict` and `score` read records without
    noise. Timing class T0.

    References
    ----------
    Sheffet, "Differentially private ordinary least squares", ICML 2017. Wang,
    "Revisiting differentially private linear regression", UAI 2018 (why noise needs a
    ridge). docs/learning.md.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdp.learning import LinearRegression
    >>> x = np.linspace(-1, 1, 100_000)[:, None]
    >>> model = LinearRegression(
    ...     bounds=(-1, 1),
    ...     y_bounds=(-3, 3),
    ...     unit="row",
    ...     neighboring_relation="add_or_remove_one",
    ...     epsilon=1,
    ... )
    >>> bool(abs(model.fit(x, 2 * x[:, 0] + 1).coef_[0] - 2) < 0.1)
    True
    """

    _estimator_type: ClassVar[str | None] = "regressor"

    coef_: Array
    intercept_: float

    def __init__(
        self,
        *,
        bounds: tuple[Bound, Bound],
        y_bounds: tuple[Real, Real],
        unit: Rows | str,
        neighboring_relation: Relation,
        epsilon: Real | None = None,
        delta: Real | None = None,
        rho: Real | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.bounds = bounds
        self.y_bounds = y_bounds
        self.unit = unit
        self.neighboring_relation = neighboring_relation
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.fit_intercept = fit_intercept

    def _products(self, features: int) -> Products:
        one = bool(self.fit_intercept)
        return Products(features, self._norm, constant=one, target=True)

    def _mechanisms(self, features: int) -> tuple[Any, ...]:
        return self._made([1], [self._products(features).shape])

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        ledger: Ledger | None = None,
        label: str | None = None,
        budgets: str | Iterable[str] | None = None,
        stream: Stream | None = None,
    ) -> Self:
        """Fit the model by one release.

        Parameters
        ----------
        X : array or table of numbers, shape (n, features)
        y : column of numbers, shape (n,)
        ledger, label, budgets
            Ledger, label and budgets of the release, as in `Ledger.release`; give all
            three or none. The same label with the same records gives the same model.
        stream : Stream, optional
            None draws fresh randomness; for tests `fastdp.testing.FixedStream`.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter or shape is wrong. Never raised for a value of the records.
        BudgetExceededError, UnitMismatchError, LabelConflictError, LedgerError
            As in `Ledger.release`.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. Timing class T0.
        """
        one_index(X=X, y=y)
        x = self._entered(X)
        features = x.shape[1]
        one = bool(self.fit_intercept)
        box = Box.of("bounds", self.bounds, features, centered=one)
        goal = Box.of("y_bounds", self.y_bounds, 1, centered=one)
        fitting = self._fitting(features, ledger, label, budgets, stream)
        inner = box.scaled(x)
        if one:
            inner = np.column_stack([inner, np.ones(len(x))])
        products = self._products(features)
        noisy = fitting.release(0, products.rows(inner, goal.scaled(target(y, len(x)))))
        slopes, shift = self._solved(noisy, fitting.mechanisms[0], features)
        self._noisy = noisy
        return self._keep(X, features, coef_=slopes, intercept_=shift)

    def _solved(
        self, noisy: Array, m: ClippedSum, features: int
    ) -> tuple[Array, float]:
        """Return slopes and intercept; raise small eigenvalues to the noise level."""
        one = bool(self.fit_intercept)
        box = Box.of("bounds", self.bounds, features, centered=one)
        goal = Box.of("y_bounds", self.y_bounds, 1, centered=one)
        full = self._products(features).matrix(noisy)
        values, vectors = np.linalg.eigh(full[:-1, :-1])
        floor = 2 * m.std * math.sqrt(len(values))
        found = vectors @ (vectors.T @ full[:-1, -1] / np.maximum(values, floor))
        slopes = goal.half * found[:features] / box.half
        shift = goal.center + goal.half * found[features:].sum() - slopes @ box.center
        return slopes, float(shift[0])

    def refits(
        self, count: int, *, stream: Stream | None = None
    ) -> tuple[Array, Array]:
        """Return models refitted with more noise of the same law, at no privacy cost.

        The refitted models differ from the model as the model differs from the
        noiseless model. So twice the model minus their quantiles gives bootstrap
        intervals for the noiseless model.

        Parameters
        ----------
        count : int
            Number of refitted models.
        stream : Stream, optional
            As in `fit`.

        Returns
        -------
        slopes, intercepts : ndarray of shapes (count, features) and (count,)

        Privacy
        -------
        No cost: no record is read. Timing class T0.
        """
        self._require_fit()
        features = self.n_features_in_
        (m,) = self._mechanisms(features)
        none = np.zeros((0, len(self._noisy)))
        more = [m.release(none, stream=stream) for _ in range(count)]
        slopes, shifts = zip(
            *(self._solved(self._noisy + x, m, features) for x in more), strict=True
        )
        return np.array(slopes), np.array(shifts)

    def predict(self, X: Any) -> Array:
        """Return predictions, shape (n,); NaN for a record with NaN."""
        x = self._entered(X, fitted=True)
        with np.errstate(over="ignore", invalid="ignore"):
            found: Array = x @ self.coef_ + self.intercept_
        return found

    def score(self, X: Any, y: Any) -> float:
        """Return the coefficient of determination of predictions, without noise."""
        found = self.predict(X)
        truth = target(y, len(found))
        rest = np.square(truth - found).sum()
        return float(1 - rest / np.square(truth - truth.mean()).sum())
