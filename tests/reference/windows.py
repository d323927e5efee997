"""Codes of numbers from given words: a window of likelier codes, exactly.

Of the 2**64 words u each code of a window of w has `inside`, each other one of the M
`outside`; those are the integers that make the quotient at most the ratio. A number is
t of 2**31 steps, and r of 2**32 words rounds it at random to one of the M - w + 1
places at which the window can begin. Two members share the words: the first has those
of its share, and what is left over gives fixed codes, in turn the first and the last
of the first member, and what has no partner a code in the middle. The number of all
words is even.
"""

import math
from fractions import Fraction
from typing import NamedTuple

STEPS = 2**31


class Member(NamedTuple):
    """One member: its codes and window, and the words of a code within and outside."""

    codes: int
    window: int
    inside: int
    outside: int

    @property
    def words(self) -> int:
        return self.window * self.inside + (self.codes - self.window) * self.outside


def members(
    ratio: Fraction, shapes: tuple[tuple[int, int], ...], share: Fraction, unit: int
) -> list[Member]:
    """Return the members of a law of `unit` words."""
    totals = [unit] if len(shapes) == 1 else [math.floor(share * unit)]
    totals += [unit - totals[0]] * (len(shapes) - 1)
    made = []
    for total, (m, w) in zip(totals, shapes, strict=True):
        outside = math.ceil(total / (w * ratio + m - w))
        made.append(Member(m, w, (total - (m - w) * outside) // w, outside))
    left = unit - sum(member.words for member in made)
    if left % 2 and all(m % 2 == 0 for m, _ in shapes):
        odd = next(i for i, (_, w) in enumerate(shapes) if w % 2)
        made[odd] = made[odd]._replace(inside=made[odd].inside - 1)
    return made


def steps(x: float, low: float, high: Fraction | float) -> int:
    """Return the number of steps of a number, NaN 0, clamped."""
    return steps_of(x, low, float(STEPS / (Fraction(high) - Fraction(low))))


def steps_of(x: float, low: float, scale: float) -> int:
    """The same in doubles, as the kernels have it."""
    above = (x - low) * scale
    return round(min(max(above, 0.0), float(STEPS))) if above == above else 0


def place(t: int, r: int, places: int) -> int:
    """Return the window's first code: t (M - w)/2**31, rounded at random."""
    return (t * places + r // 2) // STEPS


def code(law: list[Member], unit: int, t: int, u: int, r: int) -> int:
    """Return the code of a number of t steps from its two words."""
    begin = before = 0
    for m, w, inside, outside in law:
        start = place(t, r, m - w)
        if u < begin + w * inside:
            return before + (start + (u - begin) // inside) % m
        begin += w * inside
        if u < begin + (m - w) * outside:
            return before + (start + w + (u - begin) // outside) % m
        begin += (m - w) * outside
        before += m
    return left_over(law, u - begin, unit - begin)


def left_over(law: list[Member], place: int, count: int) -> int:
    """Return the code of a word that no member has."""
    if place + 1 == count and count % 2:
        before = 0
        for m, *_ in law:
            if m % 2:
                return before + m // 2
            before += m
    return 0 if place % 2 == 0 else law[0].codes - 1


def borders(law: list[Member], unit: int) -> list[int]:
    """Return the words with which a code begins, and the last one."""
    found, begin = [], 0
    for m, w, inside, outside in law:
        for size, count in ((inside, w), (outside, m - w)):
            found += [begin + i * size for i in range(count)]
            begin += size * count
    return [*found, *range(begin, unit), unit - 1]


def distribution(
    law: list[Member], unit: int, starts: tuple[int, ...]
) -> list[Fraction]:
    """Return the law of the code where the windows of the members begin at `starts`."""
    words = [0] * sum(member.codes for member in law)
    before = 0
    for (m, w, inside, outside), start in zip(law, starts, strict=True):
        for j in range(m):
            words[before + j] += inside if start <= j < start + w else outside
        before += m
    used = sum(member.words for member in law)
    for i in range(unit - used):
        words[left_over(law, i, unit - used)] += 1
    return [Fraction(n, unit) for n in words]
