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

from fastdp._exact import SECOND, Block, Enclosure, Uniform

#: Settles one trial from its three words and its extension blocks.
Resolver: TypeAlias = Callable[[tuple[int, int, int], Block], int]

#: Flag of `response`: the value lies outside the domain and is to be uniform.
UNIFORM = 1

#: Most categories whose draws take 32 bits at first.
NARROW = 1 << 16


def _rational(theta: Fraction) -> Enclosure:
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
    """Return the resolver of ties of which 64 bits of U do not decide.

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
        bound = _rational(Fraction(table.cut[column], table.whole))
        below = Uniform(prefix, 64, block).below(bound)
        return table.alias[column] if below else column

    return resolve


def response(truth: Fraction, categories: int) -> Resolver:
    """Return the resolver of the shift of a k-ary response.

    Parameters
    ----------
    truth : Fraction
        Probability of the shift 0 of a value within the domain.
    categories : int
        Number k >= 2 of categories.

    Returns
    -------
    callable
        Of the words (32 bits of W; 32 bits of V, or 64 if k > 2**16; flags): the
        shift D, which is 0 if W is below `truth` (below 1/k with the flag
        `UNIFORM`), else 1 + floor(V (k - 1)). W goes on in blocks 0, 1, ..., V in
        blocks `SECOND`, ....
    """
    bounds = _rational(truth), _rational(Fraction(1, categories))
    vbits = 32 if categories <= NARROW else 64
    others = categories - 1

    def resolve(words: tuple[int, int, int], block: Block) -> int:
        first, second, flags = words
        if Uniform(first, 32, block).below(bounds[flags & UNIFORM]):
            return 0
        v = Uniform(second, vbits, block, SECOND)
        while True:
            # The products V (k - 1) of the cell lie in [least, most] * 2**-nbits,
            # but for the upper end, which is not reached.
            least = v.prefix * others
            most = least + others - 1
            if least >> v.nbits == most >> v.nbits:
                return 1 + (least >> v.nbits)
            v.extend()

    return resolve
