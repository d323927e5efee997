"""Events of any mechanism with a proved guarantee, and nothing else known."""

from __future__ import annotations

import itertools
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction

from fastdp import _validate
from fastdp.accounting.events._base import (
    ADD_ONE,
    Event,
    NonNegative,
    Positive,
    Rationals,
    RelationField,
    Unit,
)
from fastdp.exceptions import ParameterError


@dataclass(frozen=True, repr=False)
class PureDPEvent(Event):
    """Any mechanism that is epsilon-differentially private.

    Parameters
    ----------
    epsilon : Fraction
        >= 0; at 0 the output reveals nothing.
    neighboring_relation : NeighboringRelation
        The relation for which the guarantee holds.
    """

    epsilon: NonNegative
    _: KW_ONLY
    neighboring_relation: RelationField = ADD_ONE


@dataclass(frozen=True, repr=False, kw_only=True)
class ApproximateDPEvent(Event):
    """Any mechanism that is (epsilon, delta)-differentially private.

    Parameters
    ----------
    epsilon : Fraction
        >= 0.
    delta : Fraction
        >= 0 and <= 1; at 1 there is no guarantee.
    neighboring_relation : NeighboringRelation
        The relation for which the guarantee holds.
    """

    epsilon: NonNegative
    delta: Unit
    neighboring_relation: RelationField = ADD_ONE


@dataclass(frozen=True, repr=False)
class ZCDPEvent(Event):
    """Any mechanism whose Renyi divergence of order a is at most xi + rho a.

    It holds for every a > 1: (xi, rho)-zero-concentrated privacy, or plain rho-zCDP for
    xi = 0.

    Parameters
    ----------
    rho : Fraction
        >= 0.
    xi : Fraction
        >= 0.
    neighboring_relation : NeighboringRelation
        The relation for which the guarantee holds.
    """

    rho: NonNegative
    _: KW_ONLY
    xi: NonNegative = Fraction(0)
    neighboring_relation: RelationField = ADD_ONE


@dataclass(frozen=True, repr=False, kw_only=True)
class TCDPEvent(Event):
    """Any mechanism whose Renyi divergence of order a is at most rho a for a < omega.

    Parameters
    ----------
    rho : Fraction
        >= 0.
    omega : Fraction
        > 1; the bound holds for the orders between 1 and omega.
    neighboring_relation : NeighboringRelation
        The relation for which the guarantee holds.
    """

    rho: NonNegative
    omega: Positive
    neighboring_relation: RelationField = ADD_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.omega <= 1:
            raise ParameterError(
                f"omega must be > 1, got {_validate.shown(self.omega)}"
            )


@dataclass(frozen=True, repr=False, kw_only=True)
class RDPEvent(Event):
    """Any mechanism with bounds on its Renyi divergence at some orders.

    Between two orders a bound follows: (order - 1) epsilon is convex in the order.

    Parameters
    ----------
    orders : tuple of Fraction
        Increasing, each > 1; at least one.
    epsilons : tuple of Fraction
        The bound at each order, >= 0.
    neighboring_relation : NeighboringRelation
        The relation for which the guarantee holds.
    """

    orders: Rationals
    epsilons: Rationals
    neighboring_relation: RelationField = ADD_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        orders, epsilons = self.orders, self.epsilons
        if not orders or len(orders) != len(epsilons):
            raise ParameterError(
                "orders and epsilons must have the same length, at least 1"
            )
        if orders[0] <= 1 or not increasing(orders):
            raise ParameterError("orders must be > 1 and increasing")
        if min(epsilons) < 0:
            raise ParameterError("epsilons must be >= 0")


@dataclass(frozen=True, repr=False)
class GDPEvent(Event):
    """Any mechanism at least as hard to test as two unit normals at distance mu.

    Parameters
    ----------
    mu : Fraction
        >= 0.
    neighboring_relation : NeighboringRelation
        The relation for which the guarantee holds.
    """

    mu: NonNegative
    _: KW_ONLY
    neighboring_relation: RelationField = ADD_ONE


@dataclass(frozen=True, repr=False, kw_only=True)
class TradeOffEvent(Event):
    """Any mechanism with a piecewise linear lower bound on its trade-off function.

    Every test between two neighboring datasets (in either order) with false-positive
    rate x has a false-negative rate of at least f(x), f linear between the knots.

    Parameters
    ----------
    false_positive_rates : tuple of Fraction
        Increasing, from 0 to 1.
    false_negative_rates : tuple of Fraction
        f at these rates: decreasing, convex, at most 1 - x, and 0 at the end.
    neighboring_relation : NeighboringRelation
        The relation for which the guarantee holds.
    """

    false_positive_rates: Rationals
    false_negative_rates: Rationals
    neighboring_relation: RelationField = ADD_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        x, f = self.false_positive_rates, self.false_negative_rates
        if len(x) < 2 or len(x) != len(f):
            raise ParameterError("both rates must have the same length, at least 2")
        if x[0] != 0 or x[-1] != 1 or not increasing(x):
            raise ParameterError("false_positive_rates must increase from 0 to 1")
        if f[-1] != 0 or any(b < 0 or b > 1 - a for a, b in zip(x, f, strict=True)):
            raise ParameterError(
                "false_negative_rates must lie between 0 and 1 - "
                "false_positive_rates and end at 0"
            )
        slopes = [
            (f1 - f0) / (x1 - x0)
            for (x0, f0), (x1, f1) in itertools.pairwise(zip(x, f, strict=True))
        ]
        if any(later < earlier for earlier, later in itertools.pairwise(slopes)):
            raise ParameterError("false_negative_rates must be convex")


def increasing(values: tuple[Fraction, ...]) -> bool:
    return all(a < b for a, b in itertools.pairwise(values))
