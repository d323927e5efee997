"""Exact resolvers of the Bernoulli and the k-ary kernels.

Both return a function of the words of a trial and of its extension blocks, in the
manner of ``_exact``, whose conventions on bits hold here too. All thresholds are
rational, so that they are compared as they are. Proofs: ``docs/proofs/bernoulli.md``
and ``docs/proofs/local_randomizers.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

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


def bernoulli(p: Fraction) -> Resolver:
    """Return the resolver of late ties with the lesser of `p` and 1 - `p`.

    Parameters
    ----------
    p : Fraction
        Probability in [0, 1].

    Returns
    -------
    callable
        Of the words (number of known bits of U, these bits, 0): 1 if U is below
        min(p, 1 - p), else 0. A larger `p` is the caller's to invert.
    """
    bound = _rational(min(p, 1 - p))

    def resolve(words: tuple[int, int, int], block: Block) -> int:
        nbits, prefix, _ = words
        return int(Uniform(prefix, nbits, block).below(bound))

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
