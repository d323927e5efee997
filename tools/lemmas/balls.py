"""Real functions and bounds, by ball arithmetic: a comparison holds for whole balls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

from flint import arb, arb_poly, arb_series, ctx, fmpq

from ._header import coefficients, constant
from ._lemma import prover

ctx.prec = 160


def prove(claims: Iterable[bool]) -> str:
    """Comparisons of balls are True only where they hold for every point."""
    return "proved" if all(claims) else "refuted"


lemma = prover(prove)


def ball(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def cells(low: Fraction, high: Fraction, size: Fraction) -> Iterator[tuple[arb, arb]]:
    """Middle and half width of cells that cover an interval."""
    n = math.ceil((high - low) / size)
    half = (high - low) / n / 2
    for k in range(n):
        yield ball(low + (2 * k + 1) * half), ball(half)


@lemma(
    "polynomials.md",
    "**Theorem 1 (fit).**",
    wrong=[{"share": Fraction(9, 10)}, {"last": Fraction(1, 2**26)}],
)
def fit(share: Fraction = Fraction(1), last: Fraction = Fraction(0)) -> Iterator[bool]:
    # For all x of the domain, the polynomial that the header spells differs from the
    # function by at most FIT_ERR: by its Taylor series in the middle of each cell, and
    # by the remainder over the cell.
    for name in ("LOG", "EXPF", "EXP"):
        terms = coefficients(name)
        n = max(terms) + 1
        terms[n - 1] += last
        p = arb_poly([ball(terms.get(k, Fraction(0))) for k in range(n)])
        most = ball(share * constant(f"{name}_FIT_ERR"))
        low, high = constant(f"{name}_MIN"), constant(f"{name}_MAX")
        for middle, half in cells(low, high, Fraction(1, 2048)):
            here = arb_series([middle, 1], prec=n)
            over = arb_series([middle + (-half).union(half), 1], prec=n + 1)
            if name == "LOG":
                here, over, scale = (1 + here).log(), (1 + over).log(), arb(1)
            else:
                here, over, scale = here.exp(), over.exp(), (middle - half).exp()
            moved = p(arb_poly([middle, 1]))
            size = abs(over[n]) * half**n
            for j in range(n):
                size += abs(moved[j] - here[j]) * half**j
            yield bool(size <= most * scale)
