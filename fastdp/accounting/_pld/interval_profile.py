"""Closed forms of one step with an exponential density of losses on an interval."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fastdp.accounting import _laplace, _response
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._numeric import FLAT_SLOP, RELATIVE_SLOP
from fastdp.accounting._pld.closed import ClosedForm, NothingProfile, solved


@dataclass(frozen=True)
class IntervalProfile(ClosedForm):
    """The profile of Laplace noise, or the largest of bounded range.

    Parameters
    ----------
    largest : Fraction
        Pure epsilon, > 0.
    ends : bool
        Whether it is that of Laplace noise.
    """

    largest: Fraction
    ends: bool

    def log_delta(self, epsilon: float) -> Bracket:
        """Bound ln delta(epsilon), epsilon >= 0."""
        exact = Fraction(epsilon)
        if self.ends:
            upper = _laplace.continuous_log_delta(exact, self.largest)
        else:
            upper = _response.bounded_range_log_delta(self.largest, exact)
        # It has been raised by what it may be too small by: off more than twice.
        lower = upper - 3 * (FLAT_SLOP + RELATIVE_SLOP * abs(upper))
        if exact >= self.largest:
            lower = upper
        return Bracket(lower, max(lower, upper - FLAT_SLOP), upper, "closed form")

    def epsilon(self, log_delta: tuple[float, float]) -> Bracket:
        """Bound the least epsilon >= 0 with delta(epsilon) <= delta."""
        return solved(self, log_delta, float(self.largest) * (1 + 1e-15))

    def times(self, count: int) -> IntervalProfile | None:
        """Return the profile itself for a single step."""
        return self if count == 1 else None

    def merged(self, other: ClosedForm) -> ClosedForm | None:
        """Return the profile itself if there is nothing else."""
        return self if isinstance(other, NothingProfile) else None
