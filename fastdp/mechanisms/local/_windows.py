"""Laws of reports on numbers: codes 0 ... M - 1, likelier in a window of w codes.

Of the 2**64 random words, each code in the window gets `inside` words and each other
code `outside` words. These are integers with a quotient of at most the requested ratio.
A law may be a public mixture of two such members. See docs/proofs/local_randomizers.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core
from fastdp.exceptions import ParameterError

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Number of codes of a member, M, and length of its window, w.
Member: TypeAlias = "tuple[int, int]"

UNIT = 2**64

#: Minimum number of words of a code, so that the kernels' quotients are right.
_LEAST = 2**33

#: The search tries members with at most this many codes.
MOST_CODES = 64

#: Largest ratio of a search, e**16.6: a larger one gains nothing with so few codes.
MOST_RATIO = Fraction(2**24)

#: Use a mixture if it reduces the worst variance by at least this fraction.
_GAIN = 0.01


@dataclass(frozen=True)
class Windows:
    """A law of codes.

    Parameters
    ----------
    ratio : Fraction
        Greatest quotient of the probabilities of a code for two numbers, > 1.
    members : tuple of (M, w)
        One or two members.
    share : Fraction
        Probability of the first of two members.

    Raises
    ------
    ParameterError
        The ratio is too close to 1 for integers, or too large.
    """

    ratio: Fraction
    members: tuple[Member, ...]
    share: Fraction

    def __post_init__(self) -> None:
        if min(self.outside) < _LEAST:
            raise ParameterError(
                "ratio must be smaller, so that each code gets at least "
                "2**33 of the 2**64 words: a larger ratio gains nothing"
            )
        if any(a <= b for a, b in zip(self.inside, self.outside, strict=True)):
            raise ParameterError(
                "ratio must be larger, so that a code of the window gets "
                "more of the 2**64 words than another code"
            )

    @property
    def _totals(self) -> list[int]:
        first = math.floor(self.share * UNIT)
        return [UNIT] if len(self.members) == 1 else [first, UNIT - first]

    @cached_property
    def outside(self) -> list[int]:
        """Number of words of a code outside the window, for each member."""
        return [
            -math.floor(-total / (w * self.ratio + m - w))
            for total, (m, w) in zip(self._totals, self.members, strict=True)
        ]

    @cached_property
    def inside(self) -> list[int]:
        """Number of words of a code in the window, for each member."""
        made = [
            (total - (m - w) * b) // w
            for total, b, (m, w) in zip(
                self._totals, self.outside, self.members, strict=True
            )
        ]
        if self._spare(made) % 2 and all(m % 2 == 0 for m, _ in self.members):
            odd = next(i for i, (_, w) in enumerate(self.members) if w % 2)
            made[odd] -= 1
        return made

    def _spare(self, inside: list[int]) -> int:
        used = sum(
            w * a + (m - w) * b
            for a, b, (m, w) in zip(inside, self.outside, self.members, strict=True)
        )
        return UNIT - used

    @property
    def spare(self) -> int:
        """Number of remaining words; they give codes with values that sum to 0."""
        return self._spare(self.inside)

    @property
    def codes(self) -> int:
        """Number of codes of all members."""
        return sum(m for m, _ in self.members)

    @property
    def middle(self) -> int:
        """Code with value 0, for an odd spare word; 0 if there is none."""
        if self.members[0][0] % 2:
            return self.members[0][0] // 2
        if len(self.members) == 2 and self.members[1][0] % 2:
            return self.members[0][0] + self.members[1][0] // 2
        return 0

    @cached_property
    def values(self) -> list[Fraction]:
        """Value of each code; its mean over reports is the number, in [-1, 1]."""
        found = []
        parts = zip(self.members, self.inside, self.outside, strict=True)
        for i, ((m, w), a, b) in enumerate(parts):
            total = w * a + (m - w) * b + (self.spare if i == 0 else 0)
            step = Fraction(2 * total, (a - b) * w * (m - w))
            found += [step * (2 * j - m + 1) / 2 for j in range(m)]
        return found

    @property
    def moved(self) -> Fraction:
        """Largest total probability of codes that favor one of two numbers."""
        words = sum(
            min(w, m - w) * a
            for a, (m, w) in zip(self.inside, self.members, strict=True)
        )
        return Fraction(words, UNIT)

    @property
    def quotient(self) -> Fraction:
        """Largest quotient of the probabilities of a code; at most the ratio."""
        pairs = zip(self.inside, self.outside, strict=True)
        return max(Fraction(a, b) for a, b in pairs)

    def prepared(self, low: Fraction, high: Fraction) -> _core.Numbers:
        """Return the kernels' law of numbers between two bounds."""
        parts, begin = [], 0
        for (m, w), a, b in zip(self.members, self.inside, self.outside, strict=True):
            parts += [(begin, a, 0), (begin + w * a, b, w)]
            begin += w * a + (m - w) * b
        steps = float(2**31 / (high - low))
        return _core.Numbers(
            float(low), steps, parts, self.members, self.spare, self.middle
        )

    def variance(self, t: _Array) -> _Array:
        """Return the variance of one report for each of some numbers in [-1, 1]."""
        shares = np.array([float(total / UNIT) for total in self._totals])
        moments = _second_moments(float(self.ratio), self.members, t)
        found: _Array = shares @ moments - t**2
        return found

    @cached_property
    def worst_variance(self) -> float:
        """Largest variance of a report over all numbers in [-1, 1]."""
        # Between two knots it is a linear function minus the square of the number.
        knots = np.unique(
            np.concatenate([np.linspace(-1, 1, m - w + 1) for m, w in self.members])
        )
        moment = self.variance(knots) + knots**2
        slope = np.diff(moment) / np.diff(knots)
        best = np.clip(slope / 2, knots[:-1], knots[1:])
        between = moment[:-1] + slope * (best - knots[:-1]) - best**2
        return float(max(between.max(), self.variance(knots).max()))


def _second_moments(ratio: float, members: tuple[Member, ...], t: _Array) -> _Array:
    """Return the mean squares of reported values, by member and number."""
    found = []
    for m, w in members:
        outside = 1 / (w * ratio + m - w)
        gap = (ratio - 1) * outside
        square = (np.arange(m) - (m - 1) / 2) ** 2
        sums = np.concatenate([[0.0], np.cumsum(square)])
        window = sums[w:] - sums[:-w]
        at = outside * square.sum() + gap * window[: m - w + 1]
        place = np.linspace(-1, 1, m - w + 1)
        step = 2 / (gap * w * (m - w))
        found.append(step**2 * np.interp(t, place, at))
    return np.array(found)


@lru_cache(maxsize=256)
def best_members(ratio: Fraction) -> tuple[tuple[Member, ...], Fraction]:
    """Return the members with the least worst variance, and the share of the first.

    The result is one member of at most 64 codes. If a mixture is better by 1 %, the
    result is two members: one of them has 2 or 3 codes or is the best single member.
    """
    t = np.linspace(0, 1, 97)
    listed = [(m, w) for m in range(2, MOST_CODES + 1) for w in range(1, m // 2 + 1)]
    curves = _second_moments(float(ratio), tuple(listed), t) - t**2
    alone = int(curves.max(axis=1).argmin())
    least, found = curves[alone].max() * (1 - _GAIN), (alone, alone, 64)
    for one in {listed.index((2, 1)), listed.index((3, 1)), alone}:
        for share in range(1, 64):
            mixed = (share * curves[one] + (64 - share) * curves) / 64
            worst = mixed.max(axis=1)
            if worst.min() < least:
                least, found = worst.min(), (one, int(worst.argmin()), share)
    one, two, share = found
    if one == two:
        return (listed[one],), Fraction(1)
    return (listed[one], listed[two]), Fraction(share, 64)
