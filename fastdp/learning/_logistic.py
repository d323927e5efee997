"""Logistic regression in few releases: sums of classes, products, gradients."""

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
_SHARES, _LONGEST = [Fraction(part, 20) for part in (6, 3, 3, 8)], 16.0

#: Prior variance of a feature within classes; least variance of their means.
_INSIDE, _APART = 0.15, 0.001

#: Step of the grid for rows.
_STEP = Fraction(1, 2**16)

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class LogisticRegression(Estimator):
    """Logistic regression from noisy sums, one model for each of several classes.

    The first releases are the sums of each class and the sum of products x x^T, which
    give the weights if x is Gaussian (Stein's lemma); two sums of gradients then give
    Newton steps. If the noise of the products is too large, the rest of the budget goes
    to the sums of the classes again.

    Parameters
    ----------
    classes : sequence of int, float, bool or str
        Public list of all classes, two or more. Records of other classes are left out.
    bounds : tuple (low, high)
        Public bounds of the features: numbers, or arrays of shape (features,). Records
        are clamped to the bounds.
    unit, neighboring_relation, epsilon, delta, rho
        As in `LinearRegression`.
    data_norm : int, float, Fraction or Decimal, optional
        Public L2 norm of a record around the center of the bounds, in halves of their
        width; longer records are shortened. None takes the norm of a uniform record
        between the bounds.
    fit_intercept : bool
        False fixes the log odds at the origin to 0.

    Attributes
    ----------
    coef_ : ndarray of shape (1, features), or (classes, features) for three or more
    intercept_ : ndarray of shape (1,) or (classes,)
    classes_ : ndarray
    n_features_in_ : int

    Privacy
    -------
    Each `fit` has the guarantee of `event()` for its four releases, exactly: a record
    is one row of each sum, computed from the record and earlier releases, and
    `ClippedSum` checks the row's norm in integers. So the sensitivity under the
    neighboring relation holds with any rounding of floats and solvers. Earlier releases
    affect the summed rows, but not the noise. A record with NaN, or of no class, counts
    as a row of zeros, and infinities count as the bounds. Timing class T0.

    References
    ----------
    Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk
    minimization", JMLR 2011 (objective perturbation, which is private only at an exact
    minimizer). docs/learning.md.

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

    #: Weight of the noisy products, beside a prior, from which on they are released.
    _least_trust: ClassVar[float] = 0.1

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
        """The number of linear models; two classes need one."""
        classes = checked_classes(self.classes)
        return len(classes) if len(classes) > 2 else 1

    def _length(self, features: int) -> float:
        """Return the divisor of the records with their constant 1."""
        square = features / 3
        if self.data_norm is not None:
            square = self._positive("data_norm") ** 2
        return math.sqrt(square + bool(self.fit_intercept))

    def _products(self, features: int) -> Products:
        one = bool(self.fit_intercept)
        return Products(features + one, self._norm, constant=False, length=1)

    def _shapes(self, features: int) -> list[dict[str, Any]]:
        width, models = features + bool(self.fit_intercept), self._models
        classes = len(checked_classes(self.classes))
        products = self._products(features).shape
        one = self._norm == 1
        known = {"norm": self._norm, "granularity": _STEP}
        sums = {
            "radius": math.sqrt(width) if one else 1,
            "dimension": width,
            "blocks": classes,
            "constant": None if self._relation is REPLACE else 1,
        }
        products["dimension"] = max(products["dimension"], classes * width)
        gradients = {
            "radius": models * math.sqrt(width) if one else math.sqrt(models),
            "dimension": classes * width,
        }
        return [{**known, **own} for own in (sums, products, gradients, gradients)]

    def _mechanisms(self, features: int) -> tuple[Any, ...]:
        return self._made(_SHARES, self._shapes(features))

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
        """Fit the model by four releases.

        Parameters, errors and privacy are as in `LinearRegression.fit`, except that
        `y` holds classes. In a ledger each release has its own label: `label` with
        "1/4" and so on.
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
        codes[missing] = -1
        weights = self._fitted(fitting, z, codes, features) / length
        slopes = weights[:, :features] / box.half
        shifts = weights[:, features:].sum(axis=1) - slopes @ box.center
        learned = {"coef_": slopes, "intercept_": shifts, "classes_": np.array(classes)}
        return self._keep(X, features, **learned)

    def _fitted(self, fitting: Fitting, z: Array, codes: Array, features: int) -> Array:
        """Return the weights of each model, one per row, after all releases."""
        width, one = z.shape[1], 1 / self._length(features)
        sums = fitting.release(0, z, labels=codes)
        n = float(len(z))  # public if records are replaced
        if self._relation is not REPLACE:
            n, sums = float(sums[:, 0].sum()), sums[:, 1:]
        n = max(n, 1.0)
        inside = np.full(width, _INSIDE * one**2)
        noise = 2 * fitting.mechanisms[1].std * math.sqrt(width)
        trust = 1 / (1 + (noise / (n * inside[0])) ** 2)
        refined = trust >= self._least_trust
        std = fitting.mechanisms[0].std
        if not refined:
            sums, std = self._again(fitting, z, codes, sums)
        counts = np.full(len(sums), n / len(sums))
        if self.fit_intercept:
            inside[-1] /= 100
            counts = np.maximum(sums[:, -1], 4 * std)
            counts *= n / counts.sum()
        means = _means(sums, counts, std, one)
        if self.fit_intercept:
            means[:, -1] = one
        sums = means * counts[:, None]
        moments = sums.T @ means + n * np.diag(inside)
        if refined:
            products = self._products(features)
            noisy = products.matrix(_padded(fitting, 1, products.rows(z)))
            moments = trust * noisy + (1 - trust) * moments
            values, vectors = np.linalg.eigh(moments)
            floor = min(2 * trust * noise, n * inside[0])
            moments = (vectors * np.maximum(values, floor)) @ vectors.T
        models = [1] if len(sums) == 2 else list(range(len(sums)))
        half = sums.sum(axis=0) / 2
        weights = np.array([_start(sums[k] - half, moments, n) for k in models])
        if refined:
            signs = [np.where(codes == k, 1.0, -1.0)[:, None] for k in models]
            for i in (2, 3):
                self._step(
                    fitting, i, weights, [sign * z for sign in signs], moments, n
                )
        return weights

    def _again(
        self, fitting: Fitting, z: Array, codes: Array, sums: Array
    ) -> tuple[Array, float]:
        """Return the mean of all releases of the class sums, and its deviation."""
        shapes = self._shapes(z.shape[1] - bool(self.fit_intercept))
        classes, width = sums.shape
        own = (codes[:, None] == np.arange(classes))[:, :, None]
        rows = (own * z[:, None, :]).reshape(len(z), classes * width)
        total, precision = sums * fitting.mechanisms[0].std ** -2, 0.0
        for i, m in enumerate(fitting.mechanisms):
            size = shapes[i]["radius"] / shapes[0]["radius"]
            precision += (m.std / size) ** -2
            if i:
                noisy = _padded(fitting, i, size * rows).reshape(classes, width)
                total = total + noisy / size * (m.std / size) ** -2
        return total / precision, precision**-0.5

    def _step(
        self,
        fitting: Fitting,
        i: int,
        weights: Array,
        signed: list[Array],
        moments: Array,
        n: float,
    ) -> None:
        """Move all weights by one Newton step, from a release of their gradients."""
        width, centered = weights.shape[1], self._relation is REPLACE
        parts: list[Array] = []
        known: list[tuple[float, Any]] = []
        for w, u in zip(weights, signed, strict=True):
            c, r = egg(float(np.linalg.norm(w)), centered)
            center = c * w / (np.linalg.norm(w) or 1)
            row = (logistic(-dots(u, w))[:, None] * u - center) / r
            row[~u.any(axis=1)] = 0  # records that are left out
            parts.append(row)
            known.append((r, center * n if centered else 0))
        noisy = _padded(fitting, i, np.column_stack(parts)).reshape(weights.shape)
        std = fitting.mechanisms[i].std
        for k, (r, rest) in enumerate(known):
            damping = r * std * math.sqrt(width) / 2 * np.eye(width)
            bend = _hessian(weights[k], moments, n) + damping
            step = np.linalg.solve(bend, r * noisy[k] + rest)
            weights[k] = _shortened(weights[k] + step)

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
        """Return the class of each record, shape (n,); the first class for NaN."""
        odds = self.decision_function(X)
        best = odds > 0 if odds.ndim == 1 else odds.argmax(axis=1)
        found: Array = self.classes_[best.astype(np.int64)]
        return found

    def score(self, X: Any, y: Any) -> float:
        """Return the share of correctly predicted records, without noise."""
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
        raise ParameterError("classes must be two or more, without duplicates")
    return found


def labels_of(y: Any) -> Array:
    """Return labels as an array: of objects if their type allows nulls.

    In an array of numbers, one null would turn all integers into floats, and different
    large integers could become equal.
    """
    y = dense(y)
    if len(getattr(y, "columns", ())) == 1:  # a frame
        polars = hasattr(y, "to_series")
        y = y.iloc[:, 0] if hasattr(y, "iloc") else y.to_series() if polars else y[0]
    if isinstance(getattr(y, "dtype", None), np.dtype):  # numpy's own, of pandas too
        if hasattr(y, "mask") and isinstance(y, np.ndarray):
            raise DTypeError("y must have no mask: remove the masked records first")
        return np.asarray(y)
    if not isinstance(y, (list, tuple)):
        if not any(hasattr(y, name) for name in ("to_list", "to_pylist")):
            return np.asarray(y)
        y = items_of(y)
    return np.fromiter(y, object, len(y))  # lists among them stay lists


def coded(y: Any, classes: list[Any], n: int) -> Array:
    """Return the place of each record's class, -1 if it is not a class.

    Each entry is read separately: no other entry changes its class.
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
    """Return the products of rows with w; each depends only on its own row."""
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


def _padded(fitting: Fitting, i: int, rows: Array) -> Array:
    """Return the noisy sum of rows, padded to the dimension of mechanism i."""
    (size,) = fitting.mechanisms[i].shape
    whole = np.zeros((len(rows), size))
    whole[:, : rows.shape[1]] = rows
    return fitting.release(i, whole)[: rows.shape[1]]


def _means(sums: Array, counts: Array, std: float, one: float) -> Array:
    """Return the class means, shrunk to the overall mean if noise is large."""
    middle = sums.sum(axis=0) / counts.sum()
    apart = sums / counts[:, None] - middle
    noise = (std / counts) ** 2
    spread = np.maximum(np.square(apart).mean(axis=1) - noise, _APART * one**2)
    found: Array = middle + apart * (spread / (spread + noise))[:, None]
    return found


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
