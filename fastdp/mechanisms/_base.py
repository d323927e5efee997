"""Base classes of mechanisms: identity, cost methods, and added noise."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, ClassVar, Generic, Never, NoReturn, Self, TypeVar

import numpy as np

from fastdp import _arrays, _core, _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    Event,
    NeighboringRelation,
    Relation,
    as_relation,
)
from fastdp.accounting.events._base import unwrapped, wrapped
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._json import (
    FORMAT,
    content_of,
    defaults_of,
    mechanism_of,
    same,
)

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE

#: Event class of a kind of noise.
Noise = TypeVar("Noise", bound=Event, covariant=True)

_INT64 = np.iinfo(np.int64)


class Mechanism(ABC):
    """Base of all mechanisms; immutable, hashable, picklable.

    A subclass sets `_arguments`, the constructor's arguments by name, through
    `_freeze`; equality, hash, repr and pickling use only these arguments, so a copy
    shares only public parameters. The cost methods follow from `event`. The JSON form
    follows from the constructor's declared types: real numbers are declared as `Real`.
    """

    __slots__ = ("_arguments",)

    #: Whether the arguments describe the mechanism completely, so that JSON can.
    _stated: ClassVar[bool] = True

    #: Whether `release` takes one argument and returns an array or a number, of a dtype
    #: and shape that are public: a ledger can then store it.
    _returns_array: ClassVar[bool] = True

    _arguments: tuple[tuple[str, Any], ...]

    def _freeze(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _not_default(cls, **arguments: Any) -> tuple[tuple[str, Any], ...]:
        """Return the arguments that differ from the constructor's defaults, by name."""
        usual = defaults_of(cls)
        return tuple(
            (name, value)
            for name, value in arguments.items()
            if name not in usual or not same(usual[name], value)
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Mechanism):
            return NotImplemented
        return self._arguments == other._arguments

    def __hash__(self) -> int:
        return hash((type(self), self._arguments))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._arguments)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[Callable[..., Mechanism], tuple[Any, ...]]:
        return _rebuild, (type(self), dict(self._arguments))

    def to_json(self) -> str:
        """Return the mechanism as JSON text; `from_json` returns an equal mechanism.

        The text states exactly the kind and the constructor's arguments, and is as
        public as these (docs/reports.md).

        Raises
        ------
        DTypeError
            The mechanism has a memory: a copy would draw, and cost, again.
        """
        if not self._stated:
            raise DTypeError(
                f"{type(self).__name__} cannot be stated as JSON: its private memory "
                "is drawn once. event().to_json() states its cost; a new one is "
                "charged anew"
            )
        return json.dumps(wrapped(FORMAT, "mechanism", content_of(self)))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the mechanism of this class that `to_json` wrote.

        `fastdp.Mechanism.from_json` reads every kind.

        Raises
        ------
        DTypeError, ParameterError
            The text is not such JSON, has another version or kind, or an argument is
            unknown, missing, or out of its domain.

        Examples
        --------
        >>> import fastdp
        >>> m = fastdp.DiscreteLaplace.from_epsilon(0.1, sensitivity=1)
        >>> fastdp.Mechanism.from_json(m.to_json())
        DiscreteLaplace(scale=10, sensitivity=1)
        """
        return mechanism_of(unwrapped(text, FORMAT, "mechanism"), cls, Additive)

    @abstractmethod
    def event(self) -> Event:
        """Return the public facts of one release, for an accountant."""

    def epsilon(self, *, delta: Real = 0) -> float:
        """Return an epsilon that one release meets at `delta`, rounded up.

        Parameters
        ----------
        delta : int, float, Fraction or Decimal
            >= 0 and < 1; 0 means pure differential privacy.

        Raises
        ------
        DTypeError, ParameterError
            `delta` is out of its domain.
        UnsupportedEventError
            No finite epsilon holds at this delta.
        """
        from fastdp.accounting.guarantees import event_epsilon

        return event_epsilon(self.event(), delta)

    def delta(self, epsilon: Real) -> float:
        """Return a delta that one release meets at `epsilon`, rounded up.

        Errors are as in `epsilon`.
        """
        from fastdp.accounting.guarantees import event_delta

        return event_delta(self.event(), epsilon)

    def rho(self) -> float:
        """Return rho of one release (zero-concentrated privacy), rounded up.

        Errors are as in `epsilon`.
        """
        from fastdp.accounting.guarantees import event_rho

        return event_rho(self.event())


class Additive(Mechanism, Generic[Noise]):
    """Base of the mechanisms that add noise; their cost depends on a sensitivity."""

    __slots__ = ("_law", "_relation", "_sampler", "_sensitivity", "_step")

    _law: Any  # distribution of the noise in steps
    _relation: NeighboringRelation
    _sampler: _core.Sampler
    _sensitivity: Fraction | None
    _step: Fraction  # unit of the noise: 1 for integers

    def _calibrated_for(
        self, sensitivity: Real | None, neighboring_relation: Relation
    ) -> list[tuple[str, Any]]:
        """Freeze sensitivity and relation; return them as arguments."""
        exact = None
        shown: list[tuple[str, Any]] = []
        if sensitivity is not None:
            exact = _validate.positive("sensitivity", sensitivity)
            shown.append(("sensitivity", _validate.plain(exact)))
        relation = as_relation(neighboring_relation)
        if relation is not ADD:
            shown.append(("neighboring_relation", relation))
        self._freeze(_sensitivity=exact, _relation=relation)
        return shown

    @property
    def sensitivity(self) -> int | float | Fraction | None:
        """The exact sensitivity of the calibration; None if unknown."""
        return None if self._sensitivity is None else _validate.plain(self._sensitivity)

    @property
    def neighboring_relation(self) -> NeighboringRelation:
        """The relation for which the sensitivity holds."""
        return self._relation

    @property
    def std(self) -> float:
        """Standard deviation of the noise, in the data's unit."""
        return float(self._law.std()) * float(self._step)

    @property
    def variance(self) -> float:
        """Variance of the noise, in the square of the data's unit."""
        return float(self._law.var()) * float(self._step) ** 2

    def confidence_interval(self, level: float) -> tuple[float, float]:
        """Return the least symmetric interval that contains the noise.

        Parameters
        ----------
        level : float
            Probability, > 0 and < 1.

        Returns
        -------
        (low, high) : tuple of float
            P(low <= noise <= high) >= level. Without saturation, the true answer is
            between release - high and release - low with this probability.

        Raises
        ------
        DTypeError, ParameterError
            `level` is not a real number between 0 and 1.

        Examples
        --------
        >>> import fastdp
        >>> fastdp.DiscreteLaplace(scale=10).confidence_interval(0.95)
        (-30.0, 30.0)
        """
        exact = _validate.open_unit("level", level)
        low, high = self._law.interval(float(exact))
        return float(low) * float(self._step), float(high) * float(self._step)

    def event(
        self,
        *,
        sensitivity: Real | None = None,
        neighboring_relation: Relation | None = None,
    ) -> Noise:
        """Return the public facts of one release, for an accountant.

        Parameters
        ----------
        sensitivity : int, float, Fraction or Decimal, optional
            > 0, of the mechanism's norm over all entries together, in the data's
            unit; None takes the mechanism's own sensitivity.
        neighboring_relation : NeighboringRelation, optional
            The relation for which the sensitivity holds; None takes the mechanism's
            own. Another relation needs a `sensitivity`, because replacing a record
            changes more than adding one.

        Raises
        ------
        DTypeError, ParameterError
            A parameter is out of its domain, or no sensitivity is known for the
            relation.
        """
        relation = self._relation
        if neighboring_relation is not None:
            relation = as_relation(neighboring_relation)
        if sensitivity is not None:
            moved = _validate.positive("sensitivity", sensitivity)
        elif self._sensitivity is not None and relation is not self._relation:
            raise ParameterError(
                f"sensitivity must be given with neighboring_relation={relation!r}: "
                f"the mechanism's own holds for {self._relation!r}"
            )
        elif self._sensitivity is not None:
            moved = self._sensitivity
        else:
            raise ParameterError(
                "sensitivity must be given, for this mechanism was made from its "
                "noise alone: m.event(sensitivity=1), or sensitivity= in the "
                "constructor"
            )
        return self._event(moved, relation)

    @abstractmethod
    def _event(self, sensitivity: Fraction, relation: NeighboringRelation) -> Noise:
        """Return the event of one release with this sensitivity."""

    def epsilon(self, *, delta: Real = 0, sensitivity: Real | None = None) -> float:
        """Return an epsilon that one release meets at `delta`, rounded up.

        Parameters
        ----------
        delta : int, float, Fraction or Decimal
            >= 0 and < 1; 0 means pure differential privacy.
        sensitivity : int, float, Fraction or Decimal, optional
            As in `event`.

        Raises
        ------
        DTypeError, ParameterError
            A parameter is out of its domain, or no sensitivity is known.
        UnsupportedEventError
            No finite epsilon holds at this delta.
        """
        from fastdp.accounting.guarantees import event_epsilon

        return event_epsilon(self.event(sensitivity=sensitivity), delta)

    def delta(self, epsilon: Real, *, sensitivity: Real | None = None) -> float:
        """Return a delta that one release meets at `epsilon`, rounded up.

        Parameters and errors are as in `epsilon`.
        """
        from fastdp.accounting.guarantees import event_delta

        return event_delta(self.event(sensitivity=sensitivity), epsilon)

    def rho(self, *, sensitivity: Real | None = None) -> float:
        """Return rho of one release (zero-concentrated privacy), rounded up.

        Parameters and errors are as in `epsilon`.
        """
        from fastdp.accounting.guarantees import event_rho

        return event_rho(self.event(sensitivity=sensitivity))

    @abstractmethod
    def release(
        self,
        x: Any,
        *,
        out: np.ndarray[Any, Any] | None = None,
        stream: Stream | None = None,
        workers: int = 1,
        **unknown: Never,
    ) -> Any:
        """Return `x` with noise added to every entry."""


def _rebuild(kind: type[Mechanism], arguments: dict[str, Any]) -> Mechanism:
    return kind(**arguments)


def refuse(unknown: Mapping[str, object]) -> None:
    """Raise for keyword arguments that no mechanism of added noise accepts."""
    if "bounds" in unknown:
        raise DTypeError(
            "bounds is not an argument of added noise: it means bounds of records. "
            "Clamp each record before the answer is computed (np.clip), and state the "
            "sensitivity that follows; Laplace and Gaussian take answer_bounds=, to "
            "which the true answer is clamped before the noise"
        )
    for name in unknown:
        raise DTypeError(f"got an unexpected keyword argument {name!r}")


def int64_scalar(name: str, x: Any) -> np.int64:
    """Return an integer scalar, saturated to int64.

    numpy integers are never converted to Python ints, because the time of that depends
    on the value. Use ``__array__()`` to make an array of the result: np.array would
    convert.
    """
    if isinstance(x, np.ndarray):
        x = _arrays.data(name, x, real=False)[()]
    if isinstance(x, (bool, np.uint64, np.timedelta64)) or not isinstance(
        x, (int, np.integer)
    ):
        raise DTypeError(
            f"{name} must be an int or an integer array of at most 64 bits (not "
            f"uint64), got {type(x).__name__}"
        )
    if isinstance(x, np.integer):
        return x.astype(np.int64)
    return np.int64(min(max(x, _INT64.min), _INT64.max))
