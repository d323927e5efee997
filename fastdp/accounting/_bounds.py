"""A number between two proved bounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bracket:
    """A number between proved bounds, and how the narrower of them were got."""

    lower: float
    estimate: float
    upper: float
    method: str

    def meet(self, other: Bracket) -> Bracket:
        """Return what two brackets prove together; `other` names the method."""
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        estimate = min(max(other.estimate, lower), upper)
        return Bracket(lower, estimate, upper, other.method)

    def narrowed(self, other: Bracket) -> Bracket:
        """Return what both prove, with the narrower one's estimate and method."""
        own = self.upper - self.lower
        return self.meet(other) if other.upper - other.lower < own else other.meet(self)
