"""Logistic regression in three releases: moments first, then two sums of gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fastdp._doorway import one_index
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import Relation
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.learning._base import REPLACE, Array, Bound, Box, Estimator, Fitting, dense
from fastdp.learning._products import Products
from fastdp.ledger import Ledger
from fastdp.mechanisms._keys import items_of
from fastdp.tables import Rows

#: Shares of the budget for the releases; maximum norm of weights for unit records.
_SHARES, _LONGEST = (Fraction(7, 20), Fraction(3, 20), Fraction(1, 2)), 16.0

#: Step of the grid for rows.
_STEP = Fraction(1, 2**16)

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class LogisticRegression(Estimator):
    """Logistic regression by Newton steps on noisy sums; several classes one by one.

    First the sums of u/2 and x x^T, u = x with the sign of the label: they give the
    weights if x is Gaussian (Stein's lemma). Then two sums of gradients at these
    weights, for Newton steps with the Hessian of the first.

    Parameters
    ----------
    classes : sequence of int, float, bool or str
        All classes, which are public: two or more. Records of others are left out.
    bounds : tuple (low, high)
        Public bounds of the features: numbers, or arrays of shape (features,). Records
        are clamped to them.
    unit, neighboring_relation, epsilon, delta, rho
        As in `LinearRegression`.
    data_norm : int, float, Fraction or Decimal, optional
        Public L2 norm of a record around the center of the bounds, in halves of their
        width: longer records are shortened. None takes that of a record which is
        uniform between the bounds.
    fit_intercept : bool
        False for log odds of 0 at the origin.

    Attributes
    ----------
    coef_ : ndarray of shape (1, features), or (classes, features) for three or more
    intercept_ : ndarray of shape (1,) or (classes,)
    classes_ : ndarray
    n_features_in_ : int

    Privacy
    -------
    That of `event()` for each `fit`, of its three releases, exact: a record is one row
    of each sum, computed from the record and released weights, and `ClippedSum` checks
    its norm in integers; the sensitivity under the neighboring relation holds whatever
    floats and solvers do. A record with NaN, or of no class, is a row of zeros,
    infinities count as the bounds. Timing class T0.

    References
    ----------
    Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk
    minimization", JMLR 2011, perturb the objective instead, which is private at an
    exact minimizer only. docs/learning.md.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdp.learning import LogisticRegression
    >>> x = np.linspace(-1, 1, 10_000)[:, None]
    >>> model = LogisticRegression(
    ...     classes=["low", "high"],
    ...     bounds=(-1, 1),
    ...     unit="row",
    ...     neighboring_relation="replace_one",
    ...     epsilon=1,
    ... )
    >>> model.fit(x, np.where(x[:, 0] > 0, "high", "low")).predict([[-0.5], [0.5]])
    array(['low', 'high'], dtype='<U4')
    """

    _estimator_type: ClassVar[str | None] = "classifier"

    coef_: Array
    intercept_: Array
    classes_: Array

    def __init__(
        self,
        *,
        classes: Sequence[Any],
        bounds: tuple[Bound, Bound],
        unit: Rows | str,
        neighboring_relation: Relation,
        epsilon: Real | None = None,
        delta: Real | None = None,
        rho: Real | None = None,
        data_norm: Real | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.classes = classes
        self.bounds = bounds
        self.unit = unit
        self.neighboring_relation = neighboring_relation
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept

    @property
    def _models(self) -> int:
        """Number of linear models: one for two classes."""
        classes = checked_classes(self.classes)
        return len(classes) if len(classes) > 2 else 1

    def _length(self, features: int) -> float:
        """Return the length by which records, with their constant 1, are divided."""
        square = features / 3
        if self.data_norm is not None:
            square = self._positive("data_norm") ** 2
        return math.sqrt(square + bool(self.fit_intercept))

    def _products(self, features: int) -> Products:
        one = bool(self.fit_intercept)
        return Products(features + one, self._norm, constant=False, length=1)

    def _half(self, features: int) -> float:
        """Return the norm of the signed half of the first row, and of its products.

        These are weighed down to it: what gives the weights' direction has less noise.
        """
        width = features + bool(self.fit_intercept)
        models = self._models
        if self._norm == 1:
            return models * math.sqrt(0.75 * width) / 2
        return math.sqrt(models) / 2

    def _mechanisms(self, features: int) -> tuple[Any, ...]:
        width, models = features + bool(self.fit_intercept), self._models
        products, half = self._products(features), self._half(features)
        if self._norm == 1:
            first, later = 2 * half, models * math.sqrt(width)
        else:
            first, later = math.sqrt(2) * half, math.sqrt(models)
        known = {"norm": self._norm, "granularity": _STEP}
        moments = {
            "radius": first,
            "dimension": products.shape["dimension"] + models * width,
            "constant": None if self._relation is REPLACE else 1,
        }
        gradients = {"radius": later, "dimension": models * width}
        shapes = [{**known, **own} for own in (moments, gradients, gradients)]
        return self._made(_SHARES, shapes)

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
        """Fit the model by three releases.

        Parameters, errors and privacy are those of `LinearRegression.fit`, except that
        `y` holds classes. In a ledger each release has its own label, `label` with
        "1/3" and so on.
        """
        one_index(X=X, y=y)
        x = self._entered(X)
        features, one = x.shape[1], bool(self.fit_intercept)
        classes = checked_classes(self.classes)
        box = Box.of("bounds", self.bounds, features, centered=one)
        length = self._length(features)
        fitting = self._fitting(features, ledger, label, budgets, stream)
        codes = coded(y, classes, len(x))
        z = box.scaled(x) / length
        if one:
            z = np.column_stack([z, np.full(len(x), 1 / length)])
        missing = np.isnan(z).any(axis=1) | (codes < 0)
        z /= np.maximum(np.sqrt(dots(z, z)), 1)[:, None]
        z[missing] = 0
        own = [1] if len(classes) == 2 else range(len(classes))
        signed = [np.where(codes == k, 1.0, -1.0)[:, None] * z for k in own]
        weights = self._fitted(fitting, z, signed, features) / length
        slopes = weights[:, :features] / box.half
        shifts = weights[:, features:].sum(axis=1) - slopes @ box.center
        learned = {"coef_": slopes, "intercept_": shifts, "classes_": np.array(classes)}
        return self._keep(X, features, **learned)

    def _fitted(
        self, fitting: Fitting, z: Array, signed: list[Array], features: int
    ) -> Array:
        """Return the weights of each model, one a row, after all releases."""
        products, width = self._products(features), z.shape[1]
        share = self._half(features) / products.radius
        own = share * products.rows(z)
        rows = np.column_stack([own, *(u / 2 for u in signed)])
        noisy, std = fitting.release(0, rows), fitting.mechanisms[0].std
        n = float(len(z))  # public if records are replaced
        if self._relation is not REPLACE:
            n, noisy = max(noisy[0], 1.0), noisy[1:]
        n = max(n, 1.0)
        full = products.matrix(noisy[: -len(signed) * width] / share)
        values, vectors = np.linalg.eigh(full)
        above = np.maximum(values, 4 * std / share * math.sqrt(width))
        moments = (vectors * above) @ vectors.T
        halves = noisy[-len(signed) * width :].reshape(len(signed), width)
        weights = np.array([_start(half, moments, n) for half in halves])
        for i in (1, 2):
            parts: list[Array] = []
            known: list[tuple[float, Any]] = []
            for w, u in zip(weights, signed, strict=True):
                c, r = egg(float(np.linalg.norm(w)), self._relation is REPLACE)
                center = c * w / (np.linalg.norm(w) or 1)
                row = (logistic(-dots(u, w))[:, None] * u - center) / r
                row[~z.any(axis=1)] = 0  # records that are left out
                parts.append(row)
                known.append((r, center * n if self._relation is REPLACE else 0))
            noisy = fitting.release(i, np.column_stack(parts))
            std = fitting.mechanisms[i].std
            for k, (r, rest) in enumerate(known):
                w = weights[k]
                gradient = r * noisy[k * width : (k + 1) * width] + rest
                damping = r * std * math.sqrt(width) / 2 * np.eye(width)
                step = np.linalg.solve(_hessian(w, moments, n) + damping, gradient)
                weights[k] = _shortened(w + step)
        return weights

    def decision_function(self, X: Any) -> Array:
        """Return log odds, shape (n,) for two classes, else (n, classes)."""
        x = self._entered(X, fitted=True)
        with np.errstate(over="ignore", invalid="ignore"):
            found: Array = x @ self.coef_.T + self.intercept_
        return found[:, 0] if len(self.classes_) == 2 else found

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, shape (n, classes)."""
        with np.errstate(over="ignore", invalid="ignore"):
            p = logistic(self.decision_function(X))
        if p.ndim == 1:
            return np.column_stack([1 - p, p])
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])

    def predict(self, X: Any) -> Array:
        """Return the class of each record, shape (n,); the first for one with NaN."""
        odds = self.decision_function(X)
        best = odds > 0 if odds.ndim == 1 else odds.argmax(axis=1)
        found: Array = self.classes_[best.astype(np.int64)]
        return found

    def score(self, X: Any, y: Any) -> float:
        """Return the share of records whose class is predicted, without noise."""
        found = self.predict(X)
        classes = checked_classes(self.classes)
        codes = coded(y, classes, len(found))
        return float((codes == coded(found, classes, len(found))).mean())


# ---- classes -----------------------------------------------------------------------

_KINDS = (str, bool, int, float, np.str_, np.bool_, np.integer, np.floating)


def checked_classes(classes: Any) -> list[Any]:
    """Return public classes as a list: two or more, of one kind."""
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise DTypeError("classes must be a sequence of numbers or of strings")
    found = [getattr(c, "item", lambda c=c: c)() for c in classes]
    texts = {isinstance(c, str) for c in found}
    if not all(isinstance(c, _KINDS) for c in found) or len(texts) > 1:
        raise DTypeError("classes must be all numbers or all strings")
    if len(found) < 2 or len(set(found)) != len(found):
        raise ParameterError("classes must be two or more, each once")
    return found


def labels_of(y: Any) -> Array:
    """Return labels as an array: of objects if their type allows nulls.

    In an array of numbers, one null would turn all integers into floats, and large
    ones could become equal.
    """
    y = dense(y)
    if len(getattr(y, "columns", ())) == 1:  # a frame
        polars = hasattr(y, "to_series")
        y = y.iloc[:, 0] if hasattr(y, "iloc") else y.to_series() if polars else y[0]
    if isinstance(getattr(y, "dtype", None), np.dtype):  # numpy's own, of pandas too
        if hasattr(y, "mask") and isinstance(y, np.ndarray):
            raise DTypeError("y must have no mask: leave its records out")
        return np.asarray(y)
    if not isinstance(y, (list, tuple)):
        if not any(hasattr(y, name) for name in ("to_list", "to_pylist")):
            return np.asarray(y)
        y = items_of(y)
    return np.fromiter(y, object, len(y))  # lists among them stay lists


def coded(y: Any, classes: list[Any], n: int) -> Array:
    """Return the place of each record's class, -1 if it is not a class.

    Each entry is read by itself: no other entry changes its class.
    """
    if y is None:
        raise ParameterError("requires y to be passed, but the target y is None")
    y = labels_of(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != (n,):
        raise ParameterError(f"y must have shape ({n},), as X has rows")
    codes = np.full(n, -1)
    if y.dtype == object:
        place = {c: i for i, c in enumerate(classes)}
        known = [place.get(c, -1) if isinstance(c, _KINDS) else -1 for c in y]
        return np.array(known, np.int64)
    if (y.dtype.kind in "UT") is not isinstance(classes[0], str):
        return codes
    for i, c in enumerate(classes):
        codes[y == c] = i
    return codes


# ---- what is computed of one record, or after the noise -----------------------------


def logistic(t: Any) -> Array:
    """Return 1/(1 + exp(-t))."""
    found: Array = 0.5 + 0.5 * np.tanh(np.asarray(t) / 2)
    return found


def dots(u: Array, w: Array) -> Array:
    """Return the products of rows with w; each depends on its own row alone."""
    out = np.zeros(len(u))
    for j in range(u.shape[1]):
        out += u[:, j] * w[..., j]
    return out


@functools.lru_cache(maxsize=1024)
def egg(length: float, centered: bool) -> tuple[float, float]:
    """Return c and r: the points s(-w u) u, |u| <= 1, lie within r of c w/|w|.

    It affects accuracy only: `ClippedSum` bounds the rows.
    """
    cosine = np.linspace(-1, 1, 401)
    reach = logistic(-length * cosine)
    along, across = reach * cosine, reach * np.sqrt(1 - cosine**2)
    centers = np.linspace(-0.6, 0.2, 161) if centered else np.zeros(1)
    far = np.hypot(along - centers[:, None], across).max(axis=1)
    return float(centers[far.argmin()]), float(far.min())


def _slope(width: Any) -> Array:
    """Return the mean of s'(t) for t normal with this standard deviation."""
    s = logistic(np.multiply.outer(width, _NODES))
    found: Array = (s * (1 - s)) @ _WEIGHTS
    return found


def _shortened(w: Array) -> Array:
    found: Array = w * min(1, _LONGEST / max(float(np.linalg.norm(w)), 1e-300))
    return found


def _width(w: Array, moments: Array, n: float) -> float:
    return max(math.sqrt(w @ moments @ w / n), 1e-9)


def _start(half: Array, moments: Array, n: float) -> Array:
    """Return weights for which Gaussian x of these moments have these sums."""
    w = np.linalg.solve(moments, half)
    width = _width(w, moments, n)
    longer = np.geomspace(4, 16, 100)
    place = int(np.searchsorted(longer * _slope(longer * width), 1))
    return _shortened(w * longer[max(place - 1, 0)])


def _hessian(w: Array, moments: Array, n: float) -> Array:
    """Return the sum of s'(w x) x x^T for Gaussian x of these moments."""
    width = _width(w, moments, n)
    s = logistic(width * _NODES)
    bend = ((s * (1 - s)) * (_NODES**2 - 1)) @ _WEIGHTS / width**2 / n
    found: Array = _slope(width) * moments
    found += bend * np.outer(moments @ w, moments @ w)
    return found
