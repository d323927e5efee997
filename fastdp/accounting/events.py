"""Privacy events: what a mechanism did, stated by public facts only.

An event says which noise law was added and how far one individual can move the
exact answer. It holds no data and no noise, so it may be stored, compared and
published. Accountants and `fastdp.accounting.conversions` read guarantees off it.

All parameters are exact rationals. An L2 sensitivity is often a square root: state
it by a rational that is not smaller, which `l2_sensitivity` makes from the exact
square (relative excess below 2^-80).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from fractions import Fraction

from fastdp import _validate
from fastdp.accounting._numeric import sqrt_up
from fastdp.exceptions import DTypeError, ParameterError

__all__ = [
    "DiscreteGaussianEvent",
    "DiscreteLaplaceEvent",
    "Event",
    "GaussianEvent",
    "LaplaceEvent",
    "NeighboringRelation",
    "RandomizedResponseEvent",
    "TruncatedDiscreteLaplaceEvent",
    "l2_sensitivity",
]


class NeighboringRelation(enum.Enum):
    """Which two datasets a guarantee compares."""

    #: One dataset is the other plus one record.
    ADD_OR_REMOVE_ONE = 1
    #: Equal sizes; one record is replaced by another.
    REPLACE_ONE = 2
    #: One record is replaced by a fixed special (for example, zero) record.
    REPLACE_SPECIAL = 3

    def __repr__(self) -> str:
        return f"NeighboringRelation.{self.name}"


def l2_sensitivity(square: _validate.Real) -> Fraction:
    """Return a rational L2 sensitivity whose square is at least `square`.

    Exact when the root is rational, else above it by a factor below 1 + 2^-80.

    Parameters
    ----------
    square : int, float, Fraction or Decimal
        The exact squared L2 sensitivity, > 0; for example the number of counts
        that one individual moves by at most 1 each.

    Raises
    ------
    DTypeError, ParameterError
        `square` is not a finite positive real.
    """
    return sqrt_up(_validate.positive("square", square))


@dataclass(frozen=True, repr=False)
class Event:
    """Base of all events; instances are immutable, hashable and comparable."""

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            if isinstance(value, Fraction) and value.denominator == 1:
                value = value.numerator
            shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def _check(self, *positive: str) -> None:
        """Make the named fields exact positive rationals; check the relation."""
        for name in positive:
            object.__setattr__(
                self, name, _validate.positive(name, getattr(self, name))
            )
        relation = getattr(self, "neighboring_relation", None)
        if not isinstance(relation, NeighboringRelation):
            raise DTypeError(
                "neighboring_relation must be a NeighboringRelation, "
                f"got {type(relation).__name__}"
            )


@dataclass(frozen=True, repr=False)
class LaplaceEvent(Event):
    """Continuous Laplace noise on every coordinate of an answer.

    Parameters
    ----------
    sensitivity : Fraction
        L1 sensitivity over all coordinates together, > 0, in the answer's unit.
    scale : Fraction
        Laplace scale b, > 0, in the answer's unit.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type, not finite, or not positive.
    """

    sensitivity: Fraction
    scale: Fraction
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        self._check("sensitivity", "scale")


@dataclass(frozen=True, repr=False)
class DiscreteLaplaceEvent(Event):
    """Discrete Laplace noise, P(x) ~ exp(-|x|/scale), on integer coordinates.

    Parameters
    ----------
    sensitivity : Fraction
        L1 sensitivity over all coordinates together, > 0, in units of the lattice.
    scale : Fraction
        Scale of the law, > 0, in units of the lattice.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type, not finite, or not positive.
    """

    sensitivity: Fraction
    scale: Fraction
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        self._check("sensitivity", "scale")


@dataclass(frozen=True, repr=False)
class TruncatedDiscreteLaplaceEvent(Event):
    """Discrete Laplace noise redrawn while it lies outside {-bound..bound}.

    Parameters
    ----------
    sensitivity : Fraction
        L1 sensitivity over all coordinates together, > 0, in units of the lattice.
    scale : Fraction
        Scale of the law before truncation, > 0, in units of the lattice.
    bound : int
        Largest absolute value of the noise, at least the sensitivity.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type, not finite, or out of its domain.
    """

    sensitivity: Fraction
    scale: Fraction
    bound: int
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        self._check("sensitivity", "scale")
        least = max(1, int(self.sensitivity))
        bound = _validate.integer("bound", self.bound, least)
        object.__setattr__(self, "bound", bound)


@dataclass(frozen=True, repr=False)
class GaussianEvent(Event):
    """Continuous Gaussian noise on every coordinate of an answer.

    Parameters
    ----------
    sensitivity : Fraction
        L2 sensitivity over all coordinates together, > 0; a root is stated by a
        rational that is not smaller (`l2_sensitivity`).
    sigma : Fraction
        Standard deviation, > 0, in the answer's unit.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type, not finite, or not positive.
    """

    sensitivity: Fraction
    sigma: Fraction
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        self._check("sensitivity", "sigma")


@dataclass(frozen=True, repr=False)
class DiscreteGaussianEvent(Event):
    """Discrete Gaussian noise, P(x) ~ exp(-x^2/(2 sigma^2)), on integer coordinates.

    Parameters
    ----------
    sensitivity : Fraction
        L2 sensitivity over all coordinates together, > 0, in units of the lattice;
        a root is stated by a rational that is not smaller (`l2_sensitivity`).
    sigma : Fraction
        Parameter of the law, > 0, in units of the lattice.
    coordinates : int, optional
        Most coordinates that one individual can move; None when not known.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type, not finite, or out of its domain.
    """

    sensitivity: Fraction
    sigma: Fraction
    coordinates: int | None = None
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        self._check("sensitivity", "sigma")
        if self.coordinates is not None:
            checked = _validate.integer("coordinates", self.coordinates, 1)
            object.__setattr__(self, "coordinates", checked)


@dataclass(frozen=True, repr=False)
class RandomizedResponseEvent(Event):
    """One report of a randomizer whose privacy loss takes three values.

    The loss is ln(p/q) with probability p, -ln(p/q) with probability q, and 0 with
    the rest: k-ary response, unary encoding, local hashing and Hadamard response
    are all of this form, for every pair of values.

    Parameters
    ----------
    p : Fraction
        Probability of the larger loss; p >= q.
    q : Fraction
        Probability of the opposite loss, > 0; p + q <= 1.
    neighboring_relation : NeighboringRelation
        What one report compares: by default one individual's value against another.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type or out of its domain.
    """

    p: Fraction
    q: Fraction
    neighboring_relation: NeighboringRelation = NeighboringRelation.REPLACE_ONE

    def __post_init__(self) -> None:
        self._check("p", "q")
        if self.p < self.q:
            raise ParameterError(f"p must be >= q, got {self.p!r} and {self.q!r}")
        if self.p + self.q > 1:
            raise ParameterError(f"p + q must be <= 1, got {self.p + self.q!r}")
