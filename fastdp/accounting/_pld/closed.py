"""Closed forms of some compositions, with bounds from both sides.

Gaussian noise alone is one Gaussian mechanism; on a single Poisson sample it has
delta'(ln(1 + q (e^epsilon - 1))) = q delta(epsilon), where the removal of a record is
the worse direction (docs/proofs/numerical_accounting.md, section 9).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp._validate import float_up
from fastdp.accounting import _gaussian, _gdp, _laplace, _response, _sampling, _zcdp
from fastdp.accounting._atoms.bounds import BOTH, Aim
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._numeric import (
    FLAT_SLOP,
    RELATIVE_SLOP,
    log_fraction,
    root_above,
    shortened_up,
    sqrt_up,
)
from fastdp.accounting._pld.losses import Floats

#: Distances below the upper bound of epsilon, relative to it, at which to try a lower
#: bound.
_STEPS = tuple(10.0**-k for k in range(14, 1, -1))

#: Read a Gaussian profile from `_gdp.log_delta` if there are at least _MANY points,
#: none above epsilon = _REACH mu. It is too high by less than _TABLE_SLOP/3.
_MANY, _REACH, _TABLE_SLOP = 16, 90.0, 6e-12

#: Bound of the relative error of the inner epsilon.
_INSIDE = Fraction(3, 10**13)


def rows_of(found: list[Bracket]) -> Floats:
    """Return lower and upper bounds as two rows."""
    return np.array([[b.lower for b in found], [b.upper for b in found]])


class Profile(ABC):
    """Bounds on a composition's delta(epsilon), and on its least epsilon at a delta.

    Arguments `epsilons` are >= 0 and ascending.
    """

    @abstractmethod
    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        """Bound ln delta at each epsilon."""

    @abstractmethod
    def epsilon(self, log_delta: tuple[float, float], aim: Aim = BOTH) -> Bracket:
        """Bound the least epsilon >= 0 with delta(epsilon) <= delta.

        `log_delta` holds bounds of ln delta; epsilon must meet the lower one.
        """

    def bounds(self, epsilons: Floats, deepest: float = -math.inf) -> Floats:
        """Return lower and upper bounds of ln delta, as rows.

        The bounds may be wide where ln delta is below `deepest`.
        """
        found = self.log_deltas(epsilons)
        return rows_of(found)

    def has_corners(self) -> bool:
        """Return whether the profile, as far as it was read, may have corners."""
        return True

    def rough(self, epsilon: float) -> float:
        """Return an upper bound on ln delta that is very cheap to compute."""
        return 0.0


class Pointwise(Profile):
    """A profile that is read at one epsilon at a time."""

    #: The method's name in brackets.
    method = "closed form"

    @abstractmethod
    def log_delta(self, epsilon: float) -> Bracket:
        """Bound ln delta(epsilon)."""

    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        return [self.log_delta(float(e)) for e in epsilons]

    def excess(self, log_delta: float) -> Callable[[float], float]:
        """Return a function of epsilon: its upper bound minus `log_delta`."""
        return lambda e: max(self.log_delta(e).upper, -1e300) - log_delta

    @abstractmethod
    def most(self, log_delta: float) -> float:
        """Return an upper bound of epsilon, or infinity."""

    def epsilon(self, log_delta: tuple[float, float], aim: Aim = BOTH) -> Bracket:
        target, over = log_delta
        excess = self.excess(target)
        if excess(0.0) <= 0:
            return Bracket(0.0, 0.0, 0.0, self.method)
        high = self.most(target)
        if math.isfinite(high) and excess(high) <= 0:
            high = min(high, root_above(excess, 0.0, high))
        if not aim.lower:
            return Bracket(0.0, high, high, self.method)
        tries = [max(0.0, high * (1 - step)) for step in _STEPS]
        lower = next((e for e in tries if self.log_delta(e).lower >= over), 0.0)
        return Bracket(lower, (lower + high) / 2, high, self.method)


class ClosedForm(Pointwise):
    """The profile of a composition that has a closed form."""

    #: Whether this is the profile of both directions, not only a bound for additions.
    bounds_both = True

    def has_corners(self) -> bool:
        return False

    def times(self, count: int) -> ClosedForm | None:
        """Return the closed form of `count` such steps, if there is one."""
        return self if count == 1 else None

    def merged(self, other: ClosedForm) -> ClosedForm | None:
        """Return the closed form of both together, if there is one."""
        return self if isinstance(other, NothingProfile) else None


@dataclass(frozen=True)
class NothingProfile(ClosedForm):
    """The profile of an empty composition: delta and epsilon are 0."""

    def log_delta(self, epsilon: float) -> Bracket:
        return Bracket(-math.inf, -math.inf, -math.inf, "closed form")

    def most(self, log_delta: float) -> float:
        return 0.0

    def times(self, count: int) -> NothingProfile:
        return self

    def merged(self, other: ClosedForm) -> ClosedForm:
        return other


@dataclass(frozen=True)
class GaussianProfile(ClosedForm):
    """The profile of Gaussian noise, possibly on one Poisson sample."""

    square: Fraction  # (sensitivity/standard deviation)^2, > 0
    rate: Fraction = Fraction(1)  # of the sample, 1 without sampling

    def log_delta(self, epsilon: float) -> Bracket:
        exact = Fraction(epsilon)
        low = high = exact
        if self.rate < 1:
            low = _sampling.inner_epsilon(self.rate, exact)
            high = low * (1 + _INSIDE) + Fraction(1, 10**300)
        mu = sqrt_up(self.square)
        upper, lower = (_gaussian.log_delta(e, mu) for e in (low, high))
        # `log_delta` is raised by its error bound: subtract that, and the error.
        lower -= 3 * (FLAT_SLOP + RELATIVE_SLOP * abs(lower))
        if lower < -1e15:
            lower = -math.inf
        if self.rate < 1:
            upper = _sampling.times_rate(upper, self.rate)
            share = log_fraction(self.rate)
            lower += share - 1e-15 * (1 + abs(share))
        return Bracket(lower, max(lower, upper - 1e-12), upper, "closed form")

    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        """Bound ln delta at each epsilon; for many epsilons, by `_gdp.log_delta`."""
        mu = float_up(sqrt_up(self.square))
        if self.rate < 1 or epsilons.size < _MANY or epsilons.max() > _REACH * mu:
            return super().log_deltas(epsilons)
        upper = _gdp.log_delta(epsilons, np.array([mu]))
        lower = upper - _TABLE_SLOP * np.maximum(1.0, np.abs(upper))
        pairs = zip(lower.tolist(), upper.tolist(), strict=True)
        return [
            Bracket(low, (low + high) / 2, high, "closed form") for low, high in pairs
        ]

    @property
    def bounds_both(self) -> bool:  # type: ignore[override]
        """Whether this is the profile of both directions: only without sampling."""
        return self.rate == 1

    def times(self, count: int) -> ClosedForm | None:
        if self.rate < 1:
            return super().times(count)
        return GaussianProfile(shortened_up(count * self.square)) if count > 1 else self

    def merged(self, other: ClosedForm) -> ClosedForm | None:
        if not isinstance(other, GaussianProfile) or min(self.rate, other.rate) < 1:
            return super().merged(other)
        return GaussianProfile(shortened_up(self.square + other.square))

    def most(self, log_delta: float) -> float:
        return _zcdp.epsilon(log_delta, self.square / 2)


@dataclass(frozen=True)
class IntervalProfile(ClosedForm):
    """The profile of Laplace noise, or the largest profile of bounded range."""

    largest: Fraction  # pure epsilon, > 0
    ends: bool  # True for Laplace noise, False for bounded range

    def log_delta(self, epsilon: float) -> Bracket:
        exact = Fraction(epsilon)
        if self.ends:
            upper = _laplace.continuous_log_delta(exact, self.largest)
        else:
            upper = _response.bounded_range_log_delta(self.largest, exact)
        # `upper` is raised by its error bound: subtract that, and the error.
        lower = upper - 3 * (FLAT_SLOP + RELATIVE_SLOP * abs(upper))
        if exact >= self.largest:
            lower = upper
        return Bracket(lower, max(lower, upper - FLAT_SLOP), upper, "closed form")

    def most(self, log_delta: float) -> float:
        return float(self.largest) * (1 + 1e-15)
