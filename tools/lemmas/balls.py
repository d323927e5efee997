"""Real functions and bounds, by ball arithmetic: a comparison holds for whole balls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_poly, arb_series, ctx, fmpq

from ._header import PROPOSAL, coefficients, constant
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
    for name in ("LOG", "EXP"):
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


def log2(x: Fraction) -> arb:
    return ball(x).log() / arb.const_log2()


@lemma(
    "kernels.md",
    "**Lemma 9 (`fdp_exp_minus`).**",
    "csrc/sampler/settle.c: const fdp_u128_t z = r >> 4;",
    "csrc/sampler/settle.c: for (unsigned n = 20; n >= 1; n--) {",
    "csrc/sampler/settle.c: sum = one - fdp_mul_high_u128(z, sum) / n;",
    "csrc/sampler/settle.c: for (int k = 0; k < 5; k++) {",
    wrong=[{"squarings": 6}, {"terms": 19}],
)
def exp_minus(squarings: int = 5, terms: int = 20) -> Iterator[bool]:
    # In units of 2^-127, for z <= 0.047 short by half a unit: every sum stays in
    # (2^126, 2^127], the series' rest is below 2^-150, the result errs by at most 149.
    z, error = Fraction(47, 1000), Fraction(0)
    for n in range(terms, 0, -1):
        error = (z * error + 1) / n + 1  # two floors
        yield 1 - z / n > Fraction(1, 2)
    yield bool(log2(z ** (terms + 1) / math.factorial(terms + 1)) < -150)
    error += Fraction(1, 2)
    for _ in range(squarings):
        error = 2 * error + 2 + error**2 / 2**127
    yield error <= 149


@lemma(
    "kernels.md",
    "**Theorem 6 (`tries`).**",
    "csrc/sampler/digits_body.inc.h: double error = weight * 0x1p-46;",
    wrong=[{"most": Fraction(5)}, {"slope": Fraction(6)}],
)
def try_errors(
    most: Fraction = Fraction(52, 10), slope: Fraction = Fraction(501, 100)
) -> Iterator[bool]:
    # ((5.01 z + 4.05) exp(-z) + 1) u W for all exponents z; that and the margin's own
    # rounding, with those of the bound, are below 7 u W and so below 128 u W.
    law = (ball(slope), ball(Fraction(405, 100)), ball(most - 1))
    yield everywhere(small_excess, law, arb(0), arb(600))
    yield (most + 1) * (1 + Fraction(1, 2**50)) < 7 < 128


def small_excess(law: tuple[arb, arb, arb], z: arb) -> bool:
    """Whether (slope z + rest) exp(-z) <= least for all points of a ball."""
    slope, rest, least = law
    return bool((slope * z + rest) * (-z).exp() <= least)


def everywhere(
    claim: Callable[[Any, arb], bool], law: Any, low: arb, high: arb, depth: int = 18
) -> bool:
    """Whether a claim holds on an interval, halved where balls are too wide."""
    if claim(law, low.union(high)):
        return True
    middle = (low + high) / 2
    return depth > 0 and all(
        everywhere(claim, law, *ends, depth - 1)
        for ends in ((low, middle), (middle, high))
    )


@lemma(
    "ledger.md",
    "2 * 63/8192 * 2^-31.9 < 2^-37.9",
    "docs/proofs/kernels.md: | sum | | | | below 2^-31.9 |",
    "docs/proofs/kernels.md: 2^-49 | `discrete_laplace.md`, section 4; Gaussian, "
    "values beyond 63: 2^-39",
    "docs/proofs/kernels.md: 2^-43 a pass | more special lanes than 128 ranks",
    "docs/proofs/timing.md: 63 at the least favorable sigma",
    "docs/proofs/timing.md: 2^-44 in a call of up to 8 values",
    "fastdp/ledger/_terms.py: _RARE_LAPLACE = Fraction(1, 2**45)",
    "fastdp/ledger/_terms.py: _RARE_GAUSSIAN = Fraction(1, 2**37)",
    wrong=[{"gaussian": -38}, {"laplace": -49}, {"special": 120}],
)
def rare_steps(
    laplace: int = -45, gaussian: int = -37, special: int = 63
) -> Iterator[bool]:
    def power(exponent: str) -> arb:
        return arb(2) ** arb(exponent)

    alias = power("-49") + power("-64")
    taken = 2 * arb(special) / 8192 * power("-31.9")
    yield bool(alias <= power(str(laplace)))
    yield bool(alias + power("-39") <= power(str(gaussian)))
    yield bool(taken < power("-37.9"))
    yield bool(taken + power("-43") + power("-44") <= power(str(gaussian)))


@lemma(
    "bernoulli.md",
    "2^-65.1 (4096 trials)",
    wrong=[{"slots": 63}, {"few": 15}],
)
def slots_of_ties(slots: int = 64, few: int = 16) -> Iterator[bool]:
    # The binomial tails themselves: more than 64 ties among 4096 patterns, more than 16
    # among 64.
    yield bool(log_tail(4096, slots) < arb("-65.1"))
    yield bool(log_tail(64, few) < arb("-85.9"))


def log_tail(n: int, above: int) -> arb:
    """Log2 of P(more than `above` of n), each with probability 1/256."""
    term, ways = arb(math.comb(n, above)) * arb(255) ** (n - above), arb(0)
    for k in range(above, n):
        term *= arb(n - k) / (255 * (k + 1))
        ways += term
    return (ways.log() / arb.const_log2()) - 8 * n


@lemma(
    "discrete_laplace.md",
    "**Lemma 2 (corrections).**",
    wrong=[{"digit": 4}, {"half": 1}],
)
def corrections(digit: int = 5, half: int = 2) -> Iterator[bool]:
    # tanh(x/2) is 1 - 2/(1 + e^x) for x in (0, 1], and for every t with 5 < t/2^j <= 10
    # the corrections of r = j - 5 low bits have c < 2^r/(2t) < 2^-8.3.
    for j in range(digit, 56):
        r = j - digit
        for middle, width in cells(Fraction(5), Fraction(10), Fraction(5, 8)):
            scale = (middle + (-width).union(width)) * arb(2) ** j
            none = arb(1)
            for k in range(r):
                none *= 1 - (arb(2) ** k / (half * scale)).tanh()
            most = arb(2) ** r / (2 * scale)
            yield bool(most < arb(2) ** arb("-8.3"))
            below = sum((arb(2) ** k / (half * scale) for k in range(r)), arb(0))
            yield bool(1 - none < arb(2) ** arb("-8.3") and below < most.upper())


@lemma(
    "selection.md",
    "**Lemma 4 (noise).**",
    wrong=[{"plain": 47}, {"gumbel": 57}],
)
def noise_errors(plain: int = 48, gumbel: int = 58) -> Iterator[bool]:
    # In units of u: the largest logarithm is 64 ln 2, Gumbel's own at most 41.6.
    largest = 64 * arb.const_log2()
    yield bool(largest < arb("44.4"))
    yield bool(1 + arb("1.24") + arb("1.01") * largest <= plain)
    yield bool(arb("14.5") + arb("1.24") + arb("1.01") * arb("41.6") <= gumbel)


#: Noise of the races: largest magnitude, range, and error in units of u (lemma 4).
RACES = (
    ("44.4", "88.8", 48),
    ("41.6", "45.4", 58),
    ("9.5", "19", 160),
)


@lemma(
    "selection.md",
    "**Theorem 2 (race budget).**",
    "csrc/mech/select.h: 0x1.4p-44 + 0x1p-49 * fdp_spread_of(from)",
    "csrc/mech/race.c: const double error = r->tolerance + 0x1p-50 * r->gap[i];",
    wrong=[{"plain": 585}, {"slope": 7}, {"far": 6}],
)
def race_budget(plain: int = 640, slope: int = 16, far: int = 8) -> Iterator[bool]:
    # Items (1) to (10), as pairs: the constant, and the multiple of d = 0.7 spread.
    yield bool(arb("0.7") > arb.const_log2())
    for most, span, noise in RACES:
        n, r, rest = arb(most), arb(span), arb("0.01")
        items = (
            (noise, 0),
            (arb("3.01") * r + rest, arb("3.01")),
            (1, 0),
            (arb("1.24") + arb("0.71"), 0),
            (0, 1),
            (arb("0.72"), 0),
            (rest, 1),
            (n + rest, 1),
            (n + r + rest, 2),
            (2 * n + rest, 2),
        )
        yield bool(sum((item for item, _ in items), arb(0)) < plain)
        yield bool(sum((item for _, item in items), arb(0)) * arb("0.7") < slope)
    yield bool(arb("3.01") + 1 + 2 < far)


@lemma(
    "kernels.md",
    "**Theorem 3 (`signed_geometric`).**",
    "csrc/mech/digits.c: law->tail.error = law->tail.scale * 0x1p-48;",
    "csrc/mech/digits.c: law->tail.error_relative = 0x1p-49;",
    wrong=[{"plain": Fraction(44, 10)}, {"relative": Fraction(3)}, {"used": 4}],
)
def tail_budget(
    plain: Fraction = Fraction(46, 10),
    relative: Fraction = Fraction(31, 10),
    used: int = 32,
) -> Iterator[bool]:
    # The lines of the table: conversion, 1/W, product, polynomial, inner sum; then
    # what counts times E. Of what the code has in units of u = 2^-53.
    u = ball(Fraction(1, 2**53))
    three = 1 / ((1 - arb("1.25") * u) * (1 - u) * (1 - u))
    line = three.log() / u + arb("0.98") + arb("0.26")
    yield bool(line <= ball(plain)) and bool(ball(plain) <= used)
    times = arb("1.01") + 2 + arb("0.01")
    yield bool(times <= ball(relative)) and bool(ball(relative) <= 16)


ACCOUNTING = "numerical_accounting.md"


@lemma(
    ACCOUNTING,
    "*16U, line by line*",
    "fastdp/accounting/_pld/losses.py: the error is below 16 U |z|",
    wrong=[{"units": 13}, {"function": 5}],
)
def expm1_units(units: int = 16, function: int = 4) -> Iterator[bool]:
    product = 2 * function + arb("0.5")
    yield bool((product + arb("0.5")) * arb(2).sqrt() + 1 <= units)


@lemma(
    "selection.md",
    "**Lemma 10 (with base weights).**",
    "csrc/sampler/proposal_body.inc.h: "
    "((bits & law->mantissa) >> 25) + ((1 << 27) + 2);",
    "csrc/sampler/proposal_body.inc.h: "
    "FDP_PRODUCT((power >> 28) + 1, mantissa) >> down;",
    wrong=[{"more": 1}, {"power": 50}, {"excess": Fraction(-21)}],
)
def based_bounds(
    more: int = 2, power: int = 51, excess: Fraction = Fraction(-208, 10)
) -> Iterator[bool]:
    # The places' errors and a mantissa to nearest, against a unit of the mantissa's.
    places = arb(2) ** -33
    yield bool(
        (arb(2) ** places) * (1 + arb(2) ** -53) < 1 + (more - 1) * arb(2) ** -28
    )
    # At most, for powers from 2^(power - 1) on and mantissas from 2^27 on.
    bound = 1 + arb(2) ** ball(Fraction(-2175, 100))
    bound *= 1 + arb(2) ** (28 - (power - 1))
    bound *= (1 + more * arb(2) ** -27) * arb(2) ** places
    yield bool(bound <= 1 + arb(2) ** ball(excess))
    yield bool(
        arb(2) ** (power - 28) * (1 + arb(2) ** -21) * (arb(2) ** 28 + more)
        < arb(2) ** 52
    )


@lemma(
    "selection.md",
    "**Lemma 8 (bounds).**",
    "csrc/sampler/proposal_body.inc.h: "
    "FDP_K(units) t = FDP_STEP(FDP_PROPOSAL_C4, f, (none + FDP_PROPOSAL_C5));",
    "csrc/sampler/proposal_body.inc.h: return FDP_LAST(FDP_PROPOSAL_C0, f, t);",
    wrong=[{"first": -(2**16)}, {"second": -1}, {"unit": Fraction(1, 2**24)}],
)
def weight_bounds(
    first: int = 0, second: int = 0, unit: Fraction = Fraction(1, 2**25)
) -> Iterator[bool]:
    # All 2^24 fractions, in integers: with f = n + 1 in units of 2^-24, the polynomial
    # is at least 2^(f - 1 + unit + 2^-44) and at most (1 + 2^-21.9) 2^(f - 1). Powers
    # are products of two doubles, each within 2^-52: three such errors are allowed for.
    c = [*PROPOSAL]
    c[0], c[1] = c[0] + first, c[1] + second
    n = np.arange(1 << 24, dtype=np.uint64)
    t = np.full(n.shape, c[5], np.uint64)
    for k in (4, 3, 2, 1):
        t = (n * t >> np.uint64(24)) + np.uint64(c[k])
    yield bool(t.max() < 2**28)
    t = n * t + np.uint64(c[0])
    yield bool(t.max() < 2**52)
    fine, rough = (
        np.array([float(arb(2) ** ball(Fraction(k, 2**bits))) for k in range(4096)])
        for bits in (24, 12)
    )
    power = np.append((rough[:, None] * fine).reshape(-1)[1:], 2.0) * 2.0**50
    share = t.astype(np.float64) / power - 1.0
    least = float(arb(2) ** (ball(unit) + ball(Fraction(1, 2**44))) - 1)
    yield bool(share.min() - 2.0**-49 >= least)
    yield bool(share.max() + 2.0**-49 <= 2.0**-21.9)
