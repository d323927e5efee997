"""Events of additive noise: the law, and how much one individual changes the answer.

An L2 sensitivity is often a square root: state it as a rational that is not smaller.
`l2_sensitivity` makes one from the exact square (relative excess below 2^-80).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fastdp import _validate
from fastdp.accounting._numeric import integer_l2, near_floor, sqrt_up
from fastdp.accounting.events._base import (
    ADD_ONE,
    Event,
    NonNegative,
    Positive,
    Rationals,
    RelationField,
)
from fastdp.accounting.events._stated import increasing
from fastdp.exceptions import ParameterError

#: Most shifts of a mixture; by how much probabilities that were rounded may miss 1.
_MOST_MOVES, _ROUNDING = 256, Fraction(1, 10**9)


def l2_sensitivity(square: _validate.Real) -> Fraction:
    """Return a rational L2 sensitivity with a square of at least `square`.

    It is exact if the root is rational, and otherwise exceeds the root by a factor
    below 1 + 2^-80.

    Parameters
    ----------
    square : int, float, Fraction or Decimal
        The exact squared L2 sensitivity, > 0; for example the number of counts
        that one individual changes by at most 1 each.
    """
    return sqrt_up(_validate.positive("square", square))


@dataclass(frozen=True, repr=False, kw_only=True)
class LaplaceEvent(Event):
    """Continuous Laplace noise on every coordinate of an answer.

    Parameters
    ----------
    sensitivity : Fraction
        L1 sensitivity over all coordinates together, >= 0, in the answer's unit.
    scale : Fraction
        Laplace scale b, > 0, in the answer's unit.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.
    """

    sensitivity: NonNegative
    scale: Positive
    neighboring_relation: RelationField = ADD_ONE


@dataclass(frozen=True, repr=False, kw_only=True)
class DiscreteLaplaceEvent(Event):
    """Discrete Laplace noise, P(x) ~ exp(-|x|/scale), on integer coordinates.

    Parameters
    ----------
    sensitivity : Fraction
        L1 sensitivity over all coordinates together, >= 0, in units of the lattice.
    scale : Fraction
        Scale of the law, > 0, in units of the lattice.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.
    """

    sensitivity: NonNegative
    scale: Positive
    neighboring_relation: RelationField = ADD_ONE


@dataclass(frozen=True, repr=False, kw_only=True)
class TruncatedDiscreteLaplaceEvent(Event):
    """Discrete Laplace noise, redrawn until it is in {-bound..bound}.

    Parameters
    ----------
    sensitivity : Fraction
        L1 sensitivity over all coordinates together, >= 0, in units of the lattice.
    scale : Fraction
        Scale of the law before truncation, > 0, in units of the lattice.
    bound : int
        Largest absolute value of the noise, at least the sensitivity.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.
    """

    sensitivity: NonNegative
    scale: Positive
    bound: int
    neighboring_relation: RelationField = ADD_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        least = max(1, near_floor(self.sensitivity))
        self._set("bound", _validate.integer("bound", self.bound, least))


@dataclass(frozen=True, repr=False, kw_only=True)
class GaussianEvent(Event):
    """Continuous Gaussian noise on every coordinate of an answer.

    Parameters
    ----------
    sensitivity : Fraction
        L2 sensitivity over all coordinates together, >= 0; state a square root as a
        rational that is not smaller (`l2_sensitivity`).
    sigma : Fraction
        Standard deviation, > 0, in the answer's unit.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.
    """

    sensitivity: NonNegative
    sigma: Positive
    neighboring_relation: RelationField = ADD_ONE


@dataclass(frozen=True, repr=False, kw_only=True)
class DiscreteGaussianEvent(Event):
    """Discrete Gaussian noise, P(x) ~ exp(-x^2/(2 sigma^2)), on integer coordinates.

    Parameters
    ----------
    sensitivity : Fraction
        L2 sensitivity over all coordinates together, >= 0, in units of the lattice.
        Squared distances of integers are integers, so the floor of the square counts;
        for delta it is at least 1 unless the sensitivity is 0. A square less than
        2**-20 below an integer (`math.sqrt(3)`) counts as that integer;
        `l2_sensitivity` states a root safely.
    sigma : Fraction
        Parameter of the law, > 0, in units of the lattice.
    coordinates : int, optional
        Maximum number of coordinates that one individual can change; None if unknown.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.
    """

    sensitivity: NonNegative
    sigma: Positive
    coordinates: int | None = None
    neighboring_relation: RelationField = ADD_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("sensitivity", integer_l2(self.sensitivity))
        if self.coordinates is not None:
            checked = _validate.integer("coordinates", self.coordinates, 1)
            self._set("coordinates", checked)


@dataclass(frozen=True, repr=False, kw_only=True)
class DiscreteGaussianSumEvent(Event):
    """The sum of independent discrete Gaussian variables on every coordinate.

    Each of several parties adds one variable; the sum is not discrete Gaussian, but
    close (docs/proofs/shares.md, section 5).

    Parameters
    ----------
    sensitivity : Fraction
        L2 sensitivity over all coordinates together, as in `DiscreteGaussianEvent`.
    sigma : Fraction
        Parameter of each variable, > 0. No bound is known for sums with sigma below 1.
    shares : int
        Number of variables in the sum, >= 1.
    coordinates : int, optional
        Maximum number of coordinates that one individual can change; None if unknown.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.
    """

    sensitivity: NonNegative
    sigma: Positive
    shares: int
    coordinates: int | None = None
    neighboring_relation: RelationField = ADD_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("sensitivity", integer_l2(self.sensitivity))
        self._set("shares", _validate.integer("shares", self.shares, 1))
        if self.coordinates is not None:
            checked = _validate.integer("coordinates", self.coordinates, 1)
            self._set("coordinates", checked)


@dataclass(frozen=True, repr=False, kw_only=True)
class SkellamEvent(Event):
    """Skellam noise, the difference of two Poisson variables, on integer coordinates.

    Sums of Skellam noise are Skellam noise, and the variances add up.

    Parameters
    ----------
    sensitivity : Fraction
        L2 sensitivity over all coordinates together, as in `DiscreteGaussianEvent`.
    variance : Fraction
        Variance of the noise on each coordinate, > 0. The mean of each of the two
        Poisson variables is half of it.
    coordinates : int, optional
        Maximum number of coordinates that one individual can change; None if unknown.
    neighboring_relation : NeighboringRelation
        The relation for which `sensitivity` holds.
    """

    sensitivity: NonNegative
    variance: Positive
    coordinates: int | None = None
    neighboring_relation: RelationField = ADD_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("sensitivity", integer_l2(self.sensitivity))
        if self.coordinates is not None:
            checked = _validate.integer("coordinates", self.coordinates, 1)
            self._set("coordinates", checked)


@dataclass(frozen=True, repr=False, kw_only=True)
class MixtureOfGaussiansEvent(Event):
    """Gaussian noise on a vector that an individual changes by a random amount.

    With the individual, the vector changes by a secret random amount that is
    independent of other individuals and of the noise; without the individual it does
    not change. This is the case for steps of a banded factorization on Poisson batches:
    the number of recent batches with the record is random. Such steps share batches, so
    earlier answers tell about the next change. Several events are composed soundly only
    if the probabilities of each hold given all earlier answers; a binomial law for each
    step gives too small a cost.

    Parameters
    ----------
    sensitivities : tuple of Fraction
        Bounds on the L2 norm of the change, >= 0 and increasing, at most 256.
    probabilities : tuple of Fraction
        Their probabilities, > 0, with a sum of 1 up to 1e-9, for rounded numbers: a
        missing part is added to the largest sensitivity, an excess is taken from the
        smallest.
    sigma : Fraction
        Standard deviation of the noise on each coordinate, > 0.
    neighboring_relation : NeighboringRelation
        `ADD_OR_REMOVE_ONE` or `REPLACE_SPECIAL`: one of two neighbors must be the
        unchanged vector, so accountants refuse `REPLACE_ONE`.

    References
    ----------
    Choquette-Choo, Ganesh, Steinke, Thakurta, "Privacy amplification for matrix
    mechanisms", ICLR 2024. docs/proofs/amplification.md, section 7.
    """

    sensitivities: Rationals
    probabilities: Rationals
    sigma: Positive
    neighboring_relation: RelationField = ADD_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        moves, chances = self.sensitivities, self.probabilities
        if not 1 <= len(moves) == len(chances) <= _MOST_MOVES:
            raise ParameterError(
                "sensitivities and probabilities must have the same length, 1 ... "
                f"{_MOST_MOVES}"
            )
        if moves[0] < 0 or not increasing(moves):
            raise ParameterError("sensitivities must be >= 0 and increasing")
        missing = 1 - sum(chances, Fraction(0))
        if min(chances) <= 0 or not -chances[0] < missing or abs(missing) > _ROUNDING:
            raise ParameterError("probabilities must be > 0, and their sum 1")
