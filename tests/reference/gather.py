"""Sums of two lists of losses in cells, in exact products and 40 digits."""

from bisect import bisect_right
from fractions import Fraction

import mpmath


def gathered(row_loss, row_mass, loss, mass, edges, ratios=False):
    """Return p and d of every cell as Fractions, and how many sums each holds.

    Sums and their distances from the left ends are those of doubles. Of ratios d has
    these distances, else what e to them lacks to 1.
    """
    cells = len(edges) - 1
    p, d, terms = [Fraction(0)] * cells, [Fraction(0)] * cells, [0] * cells
    with mpmath.workdps(40):
        for a, u in zip(row_loss, row_mass, strict=True):
            for b, v in zip(loss, mass, strict=True):
                c = min(bisect_right(edges, a + b), cells) - 1
                gap = min(edges[c] - (a + b), 0.0)
                fall = mpmath.mpf(gap) if ratios else mpmath.expm1(gap)
                both = Fraction(u) * Fraction(v)
                p[c] += both
                d[c] += both * Fraction(int(fall * 2**200), 2**200)
                terms[c] += 1
    return p, d, terms
