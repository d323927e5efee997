"""A number between two proved bounds, and the method that gave them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

#: What the bounds of each method consist of (docs/proofs/numerical_accounting.md).
_BOUNDS = {
    "closed form": ("the formula's value rounded outward",),
    "sum": ("sums of losses, listed, their masses, and what is left out",),
    "two laws": ("a law that dominates a step, and one that the step may have",),
    "contour": (
        "aliases by Chernoff (theorem 1)",
        "cut-off nodes by monotone envelopes (theorems 2 to 6)",
        "quadrature of single steps (theorem 7)",
        "rounding (theorem 8)",
    ),
    "atoms": (
        "all sums of losses in cells, merged or split to their ends (theorem 17)",
        "mass beyond all cells, counted as infinite losses or left out",
        "rounding of losses outward, of masses counted (theorem 18)",
    ),
    "chernoff": ("exponential moments, from above only",),
}

#: Why a method's bounds may be wider than the aim.
_REASONS = {
    "closed form": "the formula is known to no more digits",
    "sum": "the masses are known to no more digits",
    "two laws": (
        "a step is known by bounds only: bounded range, noise that moves several "
        "integers, or extreme parameters"
    ),
    "contour": "the terms are so far above delta that their rounding shows",
    "atoms": (
        "a contour needs too many nodes or digits, and bounds by cells differ by the "
        "square of their widths, which time limits (effort= gives more)"
    ),
    "chernoff": (
        "a contour needs too many nodes or digits and atoms too many cells, or the "
        "parameters are too extreme for either"
    ),
}


class Certificate(str):
    """The name of the method of two bounds; it compares and prints like a string.

    Attributes
    ----------
    bounds : tuple of str
        The quantities that the method bounds, with the theorems.
    width, aim : float
        The relative width of the two bounds, and the target width.
    """

    bounds: tuple[str, ...]
    width: float
    aim: float

    def __new__(cls, method: str, width: float = 0.0, aim: float = math.inf) -> Self:
        """Return the certificate of a method and its width."""
        made = super().__new__(cls, method)
        made.bounds = _BOUNDS.get(method.partition(",")[0], ())
        made.width, made.aim = width, aim
        return made

    @property
    def shortfall(self) -> str:
        """The reason why the bounds are wider than the aim; empty if they are not."""
        if self.width <= self.aim:
            return ""
        why = _REASONS.get(self.partition(",")[0], "several laws are only bounded")
        return f"relative width {self.width:.1e} instead of {self.aim:.0e}: {why}"

    @property
    def explained(self) -> str:
        """A sentence with the method, its bounds, and the reason of a missed aim."""
        text = f"{self}: {'; '.join(self.bounds)}" if self.bounds else str(self)
        return f"{text} ({self.shortfall})" if self.shortfall else text


@dataclass(frozen=True)
class Bracket:
    """A number between proved bounds, with the method of the narrower bounds."""

    lower: float
    estimate: float
    upper: float
    method: str

    def meet(self, other: Bracket) -> Bracket:
        """Return the intersection, with the estimate and method of `other`."""
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        estimate = min(max(other.estimate, lower), upper)
        return Bracket(lower, estimate, upper, other.method)

    def narrowed(self, other: Bracket) -> Bracket:
        """Return the intersection, with the narrower bracket's estimate and method."""
        own = self.upper - self.lower
        return self.meet(other) if other.upper - other.lower < own else other.meet(self)

    def below(self, bound: float) -> Bracket:
        """Return the bracket with another upper bound, if the other is smaller."""
        if bound >= self.upper:
            return self
        low = min(self.lower, bound)
        return Bracket(low, min(self.estimate, bound), bound, self.method)

    def certificate(self, aim: float, relative: bool = True) -> Certificate:
        """Return the method with the relative width (absolute, for a logarithm)."""
        if not self.upper > self.lower:
            return Certificate(self.method, 0.0, aim)
        width = self.upper - self.lower
        return Certificate(self.method, width / self.upper if relative else width, aim)
