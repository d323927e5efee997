"""Base of the estimators: scikit-learn's conventions, bounds, budgets and sums.

An estimator defines the mechanisms of its fit (`_mechanisms`) only from public
parameters and the number of features. Records reach a fit only through these
mechanisms, mostly sums; everything else is computed from their noisy values.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _doorway, _validate, accounting
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting._numeric import sqrt_up
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    Event,
    NeighboringRelation,
    Relation,
    as_relation,
)
from fastdp.accounting.events._composite import composed
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames._release import check_ledger
from fastdp.ledger import Ledger
from fastdp.ledger._terms import as_term, check_name
from fastdp.mechanisms import (
    ClippedSum,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Mechanism,
)
from fastdp.tables._unit import Rows, Unit, check_unit

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

#: Numbers, or one for each feature.
Bound: TypeAlias = "Real | Sequence[Real] | Array"

REPLACE = NeighboringRelation.REPLACE_ONE


class Estimator(ABC):
    """Base of the estimators: parameters, budget, event, and the releases of a fit."""

    #: Kind of estimator, in scikit-learn's words; None for a transformer.
    _estimator_type: ClassVar[str | None] = None

    bounds: tuple[Bound, Bound]
    unit: Rows | str
    neighboring_relation: Relation
    epsilon: Real | None
    delta: Real | None
    rho: Real | None

    n_features_in_: int

    @abstractmethod
    def _mechanisms(self, features: int) -> tuple[Any, ...]:
        """Return the mechanisms of all releases of a fit, in order."""

    # ---- parameters ----------------------------------------------------------

    @classmethod
    def _names(cls) -> list[str]:
        return sorted(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name; `deep` changes nothing."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set arguments of the constructor by name, and return the estimator.

        Raises
        ------
        ParameterError
            A name is not an argument of the constructor.
        """
        for name in params:
            if name not in self._names():
                raise ParameterError(
                    f"{name!r} must be one of the parameters of {type(self).__name__}: "
                    + ", ".join(self._names())
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        usual = inspect.signature(type(self)).parameters
        shown = ", ".join(
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not usual[name].default
        )
        return f"{type(self).__name__}({shown})"

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags of the estimator; only scikit-learn calls this."""
        from sklearn import utils

        kind = self._estimator_type
        return utils.Tags(
            estimator_type=kind,
            target_tags=utils.TargetTags(required=kind in ("regressor", "classifier")),
            transformer_tags=None if kind else utils.TransformerTags(),
            classifier_tags=utils.ClassifierTags() if kind == "classifier" else None,
            regressor_tags=utils.RegressorTags() if kind == "regressor" else None,
            input_tags=utils.InputTags(allow_nan=True),
            non_deterministic=True,
        )

    # ---- cost ----------------------------------------------------------------

    def event(self, features: int | None = None) -> Event:
        """Return the event of one `fit` with all its releases; no data is needed.

        Parameters
        ----------
        features : int, optional
            Number of features. None takes it from array `bounds` or from the last fit.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter of the estimator is out of its range, or `features` is required.
        """
        if features is None:
            features = self._known_features()
        if features is None:
            raise ParameterError(
                "features must be given before a fit if bounds are "
                "numbers, not arrays: the cost depends on the number of "
                "features"
            )
        checked = _validate.integer("features", features, 1, 2**15)
        return composed([m.event() for m in self._mechanisms(checked)])

    def _known_features(self) -> int | None:
        edges: list[Any] = list(self.bounds)
        wide = [len(edge) for edge in edges if np.ndim(edge)]
        return wide[0] if wide else getattr(self, "n_features_in_", None)

    @property
    def _relation(self) -> NeighboringRelation:
        return as_relation(self.neighboring_relation)

    @property
    def _norm(self) -> int:
        """The norm that fits the noise: L1 for Laplace, L2 for Gaussian."""
        return 1 if self.rho is None and self.delta is None else 2

    def _positive(self, name: str) -> float:
        return float(_validate.positive(name, getattr(self, name)))

    def _made(
        self,
        shares: Sequence[Fraction | int],
        shapes: Sequence[dict[str, Any]],
        kinds: Sequence[type[Mechanism]] | None = None,
    ) -> tuple[Any, ...]:
        """Return mechanisms with the least noise for shares of the budget.

        The mechanisms are `ClippedSum` unless `kinds` names other classes; `shapes` are
        their arguments.
        """
        name, given = _validate.one_of(epsilon=self.epsilon, rho=self.rho)
        amount = _validate.positive(name, _validate.least_reading(given))
        if name == "rho" and self.delta is not None:
            raise ParameterError(
                "delta must be left out with rho: it is only for epsilon"
            )
        delta = self.delta
        if delta is not None:
            delta = _validate.open_unit("delta", _validate.least_reading(delta))
        related = {"neighboring_relation": self._relation}
        parts = tuple(
            (Fraction(share), kind, tuple({**shape, **related}.items()))
            for share, kind, shape in zip(
                shares, kinds or [ClippedSum] * len(shapes), shapes, strict=True
            )
        )
        return _calibrated(name, amount, delta, parts)

    # ---- records -------------------------------------------------------------

    def _entered(self, X: Any, *, fitted: bool = False) -> Array:
        """Return records as float64, shape (n, features)."""
        if fitted:
            self._require_fit()
        found = matrix(X)
        if fitted and found.shape[1] != self.n_features_in_:
            raise ParameterError(
                f"X has {found.shape[1]} features, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input"
            )
        return found

    def _keep(self, X: Any, features: int, **learned: Any) -> Self:
        """Store a fit's results in one step, so that a failed fit changes nothing."""
        names = list(getattr(X, "columns", ()))
        if names and all(isinstance(name, str) for name in names):
            learned["feature_names_in_"] = np.array(names, object)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        vars(self).update(learned, n_features_in_=features)
        return self

    def _require_fit(self) -> None:
        if not hasattr(self, "n_features_in_"):
            raise ParameterError(
                f"fit must be called first: this {type(self).__name__} has no model"
            )

    def _fitting(
        self,
        features: int,
        ledger: Ledger | None,
        label: str | None,
        budgets: str | Iterable[str] | None,
        stream: Stream | None,
    ) -> Fitting:
        """Return the object that draws a fit's releases; check the budgets first."""
        unit = check_unit(self.unit)
        if isinstance(unit, Unit):
            raise ParameterError(
                'unit must be "row" or Rows(name) for a model, got a Unit: bound the '
                "rows of each unit first, by fastdp.bound_contributions with one row"
            )
        return Fitting(self, features, unit.name, (ledger, label, budgets), stream)


class Fitting:
    """The releases of one fit, drawn directly or charged to a ledger and stored."""

    def __init__(
        self,
        model: Estimator,
        features: int,
        unit: str,
        charge: tuple[Ledger | None, str | None, str | Iterable[str] | None],
        stream: Stream | None,
    ) -> None:
        check_stream(stream)
        check_ledger(*charge, None, stream)
        self.mechanisms = model._mechanisms(features)
        self._stream, self._charge, self._unit = stream, charge, unit
        ledger, _, budgets = charge
        if ledger is None:
            return
        last = self._label(len(self.mechanisms) - 1)
        check_name("label", last)
        facts = {name: _fact(value) for name, value in model.get_params().items()}
        text = json.dumps([type(model).__name__, features, facts], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._source = f"fastdp model {digest}"
        left = [
            m.event()
            for i, m in enumerate(self.mechanisms)
            if not ledger._is_charged(self._label(i))
        ]
        if left:
            ledger.preview(composed(left), budgets=budgets or (), unit=unit)

    def _label(self, i: int) -> str:
        label = self._charge[1] or ""
        count = len(self.mechanisms)
        return label if count == 1 else f"{label} {i + 1}/{count}"

    def release(self, i: int, rows: Array, labels: Array | None = None) -> Array:
        """Return the noisy sum of rows by mechanism i, drawn once for its label."""
        m = self.mechanisms[i]
        exact = m.accumulator().add(rows, labels=labels)._taken()
        noisy = self.draw(i, _law(m), exact)
        _core.zero(exact)
        found: Array = (noisy * float(m.granularity)).reshape(m.shape)
        return found

    def draw(self, i: int, m: Mechanism, data: Array, verb: str = "release") -> Any:
        """Return the result of mechanism i for integers, drawn once for its label."""
        ledger, _, budgets = self._charge
        if ledger is None:
            return getattr(m, verb)(data, stream=self._stream)
        answer = getattr(ledger, verb)(
            m,
            data,
            label=self._label(i),
            budgets=budgets or (),
            source=self._source,
            unit=self._unit,
        )
        return answer.value


def _law(m: ClippedSum) -> DiscreteGaussian | DiscreteLaplace:
    """Return the noise of a sum, in steps, with its sensitivity."""
    event = m.event()
    known: dict[str, Any] = {
        "sensitivity": event.sensitivity,
        "neighboring_relation": event.neighboring_relation,
    }
    if isinstance(event, DiscreteGaussianEvent):
        return DiscreteGaussian(event.sigma, coordinates=event.coordinates, **known)
    return DiscreteLaplace(event.scale, **known)


def _fact(value: Any, *, foreign: bool = False) -> Any:
    """Return a parameter as JSON types; for a foreign model, by its type."""
    if isinstance(value, Rows):
        return repr(value)
    if hasattr(value, "fit"):  # a model of another library
        own = value.get_params() if hasattr(value, "get_params") else {}
        facts = [[name, _fact(part, foreign=True)] for name, part in own.items()]
        return [type(value).__qualname__, facts]
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_fact(part, foreign=foreign) for part in value]
    try:
        return as_term(value)
    except (DTypeError, ParameterError):  # a generator, a function, NaN
        if foreign:
            return type(value).__qualname__
        raise


@functools.lru_cache(maxsize=256)
def _calibrated(
    name: str,
    amount: Fraction,
    delta: Fraction | None,
    parts: tuple[tuple[Fraction, type[Any], tuple[tuple[str, Any], ...]], ...],
) -> tuple[Any, ...]:
    """Return mechanisms whose noise uses the given shares of an exact budget."""

    def made(name: str, amount: Fraction) -> tuple[Any, ...]:
        return tuple(
            _chosen(name, amount * share, **dict(own))
            if kind is ExponentialMechanism
            else getattr(kind, f"from_{name}")(amount * share, **dict(own))
            for share, kind, own in parts
        )

    if delta is None:
        return made(name, amount)
    if len(parts) == 1:
        ((_, kind, own),) = parts
        both = {"epsilon": amount, "delta": delta}
        return (kind.from_epsilon_delta(**both, **dict(own)),)
    rho = accounting.calibrate(
        lambda rho: composed([m.event() for m in made("rho", Fraction(rho))]),
        epsilon=amount,
        delta=delta,
        accountant=accounting.PLDAccountant,
    )
    return made("rho", Fraction(rho))


def _chosen(name: str, amount: Fraction, **own: Any) -> ExponentialMechanism:
    """Return a selection for a part of a budget; its rho is epsilon**2/8."""
    if name == "rho":
        amount = 8 * amount / sqrt_up(8 * amount)  # at most the root
    return ExponentialMechanism(amount, **own)


# ---- what comes in ---------------------------------------------------------------


def matrix(x: Any) -> Array:
    """Return records as float64, shape (n, features); no value raises an error."""
    if hasattr(x, "toarray"):
        raise DTypeError("X must be dense, got a sparse matrix: use X.toarray()")
    x = dense(x)
    if not isinstance(x, np.ndarray):
        x = _doorway.rows("X", x)
    elif x.dtype == object and x.ndim == 2:
        x = _doorway.rows("X", x.tolist())
    if x.dtype.kind == "c":
        raise ParameterError("X must be real numbers. Complex data not supported")
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    x = _arrays.data("X", x, real=True)
    if x.ndim != 2:
        raise ParameterError(
            f"X must have shape (n, features), got {x.shape}. Reshape your data: "
            "X.reshape(-1, 1) for a single feature, X.reshape(1, -1) for one record"
        )
    if x.shape[1] == 0:
        raise ParameterError(
            f"X must have a feature, got 0 feature(s) (shape={x.shape}) while a "
            "minimum of 1 is required."
        )
    found: Array = x.astype(np.float64, copy=False)
    return found


def dense(x: Any) -> Any:
    """Return the array inside an object that is neither an array nor a column."""
    if isinstance(x, np.ndarray) or _doorway.is_data(x) or not hasattr(x, "__array__"):
        return x
    return np.asarray(x)


def target(y: Any, n: int) -> Array:
    """Return targets as float64, shape (n,), NaN for missing ones."""
    if y is None:
        raise ParameterError("requires y to be passed, but the target y is None")
    y = dense(y)
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    found: Array = _doorway.records("y", y)
    if found.shape != (n,):
        raise ParameterError(f"y must have shape ({n},), as X has rows")
    return found


class Box(NamedTuple):
    """Public bounds as center and half width, with one entry for each feature."""

    center: Array
    half: Array

    @classmethod
    def of(cls, name: str, bounds: Any, features: int, *, centered: bool = True) -> Box:
        """Return checked bounds; without `centered`, a box around 0."""
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise DTypeError(f"{name} must be a tuple (low, high)")
        low, high = (_edge(name, bound, features) for bound in bounds)
        if not (low < high).all():
            raise ParameterError(f"{name} must have low < high for each feature")
        if not centered:
            high = np.maximum(np.abs(low), np.abs(high))
            low = -high
        if not (high / 2 - low / 2 >= 2.0**-1000).all():
            raise ParameterError(
                f"{name} must have low and high at least 2**-999 apart, for "
                "each feature"
            )
        return cls(low / 2 + high / 2, high / 2 - low / 2)

    def scaled(self, x: Array) -> Array:
        """Return records in units of the box, clamped to [-1, 1]; NaN stays.

        Each number is scaled separately: a record's rounding never depends on another
        record.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return np.clip((x - self.center) / self.half, -1, 1)


def _edge(name: str, bound: Any, features: int) -> Array:
    numbers = np.ravel(np.asarray(bound, object)).tolist()
    if len(numbers) != (features if np.ndim(bound) else 1) or np.ndim(bound) > 1:
        raise ParameterError(
            f"{name} must have numbers or arrays of shape ({features},), one entry a "
            f"feature, got shape {np.shape(bound)}"
        )
    exact = [_validate.double(name, number) for number in numbers]
    return np.broadcast_to(np.array(exact), (features,))
