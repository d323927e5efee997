"""Exact resolvers of the Bernoulli and the k-ary kernels.

Both return a function of the words of a trial and of its extension blocks, in the
manner of ``_exact``, whose conventions on bits hold here too. All thresholds are
rational, so that they are compared as they are. Proofs: ``docs/proofs/bernoulli.md``
and ``docs/proofs/local_randomizers.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from fastdp._exact import Block, Enclosure, Uniform

#: Settles one trial from its three words and its extension blocks.
Resolver: TypeAlias = Callable[[tuple[int, int, int], Block], int]

#: Flag of `response`: the value lies outside the domain and is to be uniform.
UNIFORM = 1


def rational(theta: Fraction) -> Enclosure:
    """Enclose a rational number: the two ends are equal where it has no more digits."""
    num, den = theta.numerator, theta.denominator

    def bound(bits: int) -> tuple[int, int]:
        scaled = num << bits
        return scaled // den, -(-scaled // den)

    return bound


class Patterns(NamedTuple):
    """An alias table of the 256 patterns of eight Bernoulli bits.

    Column c yields `alias[c]` if U < cut[c]/whole, and c itself if not.
    """

    cut: tuple[int, ...]
    alias: bytes
    whole: int


def patterns(p: Fraction) -> Patterns:
    """Return the table of a probability in [0, 1], by Walker's method in integers."""
    ones, zeros = p.numerator, p.denominator - p.numerator
    whole = p.denominator**8
    mass = []
    for c in range(256):
        count = c.bit_count()
        mass.append(256 * ones**count * zeros ** (8 - count))
    cut, alias = [0] * 256, bytearray(range(256))
    small = [c for c in range(256) if mass[c] < whole]
    large = [c for c in range(256) if mass[c] > whole]
    while small:  # what one lacks another has, and the sum is exact
        c, other = small.pop(), large[-1]
        cut[c], alias[c] = whole - mass[c], other
        mass[other] -= cut[c]
        if mass[other] <= whole:
            large.pop()
            if mass[other] < whole:
                small.append(other)
    return Patterns(tuple(cut), bytes(alias), whole)


def bernoulli(table: Patterns) -> Resolver:
    """Return the resolver of ties that 64 bits of U do not decide.

    Parameters
    ----------
    table : Patterns
        That of the probability.

    Returns
    -------
    callable
        Of the words (64 bits of U, column, 0): the pattern.
    """

    def resolve(words: tuple[int, int, int], block: Block) -> int:
        prefix, column, _ = words
        bound = rational(Fraction(table.cut[column], table.whole))
        below = Uniform(prefix, 64, block).below(bound)
        return table.alias[column] if below else column

    return resolve


def response(truth: Fraction, categories: int) -> Resolver:
    """Return the resolver of the step of a k-ary response.

    Parameters
    ----------
    truth : Fraction
        Probability that a value within the domain stays.
    categories : int
        Number k >= 2 of categories.

    Returns
    -------
    callable
        Of the words (the first bits of U, 64 more, flags): min(floor(U c), k - 1),
        with c = (k - 1)/(1 - truth), or k with the flag `UNIFORM`.
    """
    last, bits = categories - 1, word_bits(categories)

    def resolve(words: tuple[int, int, int], block: Block) -> int:
        first, second, flags = words
        uniform = flags & UNIFORM
        if truth == 1 and not uniform:
            return last
        rate = Fraction(categories) if uniform else last / (1 - truth)
        u = Uniform(first << 64 | second, bits + 64, block)
        while True:
            # The products U c of the cell lie in [least, most) * 2**-nbits.
            least = u.prefix * rate.numerator // rate.denominator
            most = -(-(u.prefix + 1) * rate.numerator // rate.denominator) - 1
            low, high = least >> u.nbits, most >> u.nbits
            if low == high or low >= last:
                return min(low, last)
            u.extend()

    return resolve


def word_bits(categories: int) -> int:
    """Return the bits of a label's word."""
    return 16 if categories <= 64 else 32 if categories <= 2**16 else 64
