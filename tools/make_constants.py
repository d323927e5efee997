"""Make csrc/sampler/constants.h: the polynomials of the kernels, and their proofs.

    python -m tools.make_constants           write the header
    python -m tools.make_constants --check    exit 1 when the header differs
    python -m tools.make_constants --report   print the table of degrees

Two halves that do not trust each other. The search (Remez exchange in mpmath)
only has to find good coefficients; nothing is claimed about it. The proof takes
the rounded coefficients and bounds, in exact rational arithmetic rounded outwards,
the distance to the true function (FIT_ERR) and the distance of what the machine
computes (EVAL_ERR). docs/proofs/polynomials.md states the theorems.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from mpmath import mp

from tools.polynomial_search import (
    DIGITS,
    PRECISION,
    Coefficients,
    Spec,
    down,
    exp_bounds,
    log_bounds,
    minimax,
    search,
    specs,
    up,
)

HEADER = Path(__file__).resolve().parent.parent / "csrc" / "sampler" / "constants.h"
UNIT = Fraction(1, 1 << PRECISION)  # unit roundoff u
#: The most that an operation loses by underflow or by flushing to zero: twice the least
#: normal number. A smaller operand may count as 0; the other one is at most 2.
TINY = Fraction(1, 1 << 1021)

# --------------------------------------------------------------------------
# Proof


@dataclass(frozen=True)
class Cell:
    """The arguments within ``radius`` of ``center``."""

    center: Fraction
    radius: Fraction

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        return self.center - self.radius, self.center + self.radius

    @property
    def largest(self) -> Fraction:
        return abs(self.center) + self.radius

    @property
    def smallest(self) -> Fraction:
        return max(Fraction(0), abs(self.center) - self.radius)


def cells(spec: Spec) -> Iterator[Cell]:
    """Cover the domain; cells are centered on multiples of s, or cut by its ends."""
    s = Fraction(1, 1 << (10 if spec.name == "LOG" else 9))
    k = math.floor(spec.low / s + Fraction(1, 2))
    while (k - Fraction(1, 2)) * s < spec.high:
        low = max(spec.low, (k - Fraction(1, 2)) * s)
        high = min(spec.high, (k + Fraction(1, 2)) * s)
        yield Cell((low + high) / 2, (high - low) / 2)
        k += 1


def shifted(polynomial: list[Fraction], center: Fraction) -> list[Fraction]:
    """Coefficients in powers of (x - center): synthetic division in integers."""
    bits = center.denominator.bit_length() - 1
    n = len(polynomial)
    scale = 1
    for j, a in enumerate(polynomial):
        scale = math.lcm(scale, a.denominator << (bits * j))
    b = [
        a.numerator * (scale // (a.denominator << (bits * j)))
        for j, a in enumerate(polynomial)
    ]
    for i in range(n):
        for j in range(n - 2, i - 1, -1):
            b[j] += center.numerator * b[j + 1]
    return [Fraction(a << (bits * j), scale) for j, a in enumerate(b)]


def gaps(
    polynomial: list[Fraction], taylor: list[tuple[Fraction, Fraction]]
) -> list[Fraction]:
    """Largest distance of each coefficient from its enclosure."""
    pairs = zip(polynomial, taylor, strict=True)
    return [up(max(abs(a - lo), abs(a - hi))) for a, (lo, hi) in pairs]


def series(coefficients: list[Fraction], x: Fraction) -> Fraction:
    """Upper bound of sum c_j x^j for non-negative c_j and x."""
    total = Fraction(0)
    for c in reversed(coefficients):
        total = up(total * x + c)
    return total


@dataclass(frozen=True)
class Error:
    """A bound in the absolute and in the relative sense.

    For "log" relative means over |x|, else over the true function.
    """

    absolute: Fraction
    relative: Fraction


def fit_error(spec: Spec, polynomial: list[Fraction], cell: Cell) -> Error:
    """Bound |polynomial - function| on a cell by the Taylor series at its center."""
    m, h = cell.center, cell.radius
    n = len(polynomial) - 1
    if spec.kind == "log":
        base = 1 + m
        taylor = [log_bounds(base) if m else (Fraction(0), Fraction(0))]
        for j in range(1, n + 1):
            exact = Fraction((-1) ** (j + 1), j) / base**j
            taylor.append((exact, exact))
        d = gaps(shifted(polynomial, m), taylor)
        q = up(h / base)
        tail = up(q**n / ((n + 1) * (1 - q))) / base  # times |x - m|
        absolute = series(d, h) + tail * h
        if m:
            return Error(absolute, up(absolute / cell.smallest))
        assert d[0] == 0
        return Error(absolute, series(d[1:], h) + tail)
    lo, hi = exp_bounds(m)
    taylor = [(lo / math.factorial(j), hi / math.factorial(j)) for j in range(n + 1)]
    d = gaps(shifted(polynomial, m), taylor)
    tail = up(2 * hi * h ** (n + 1) / math.factorial(n + 1))
    absolute = series(d, h) + tail
    return Error(absolute, up(absolute / exp_bounds(cell.ends[0])[0]))


def half_ulp(largest: Fraction) -> Fraction:
    """Largest rounding error of a result of magnitude at most ``largest``."""
    exponent = 0
    while Fraction(2) ** (exponent + 1) <= largest:
        exponent += 1
    while Fraction(2) ** exponent > largest:
        exponent -= 1
    return UNIT * Fraction(2) ** exponent


Interval = tuple[Fraction, Fraction]


def multiply_add(c: Fraction, x: Interval, y: Interval) -> Interval:
    """Enclose c + x y."""
    products = [a * b for a in x for b in y]
    return c + down(min(products)), c + up(max(products))


def magnitude(x: Interval) -> Fraction:
    return max(abs(x[0]), abs(x[1]))


def horner_error(coefficients: list[Fraction], cell: Cell) -> tuple[Interval, Fraction]:
    """Enclose the polynomial on a cell and bound the error of Horner's rule.

    A step is c + fl(x p) rounded, or c + x p rounded when the compiler contracts;
    bounding the inner product's rounding covers both, and every mixture.
    """
    x = cell.largest
    p: Interval = (coefficients[-1], coefficients[-1])
    error = Fraction(0)
    for c in reversed(coefficients[:-1]):
        product = x * (magnitude(p) + error)
        error = up(x * error + UNIT * product + TINY)
        p = multiply_add(c, cell.ends, p)
        error = up(error + half_ulp(magnitude(p) + error) + TINY)
    return p, error


def eval_error(spec: Spec, coefficients: list[Fraction], cell: Cell) -> Error:
    """Bound |computed - exact value of the whole expression| on a cell."""
    p, error = horner_error(coefficients, cell)
    u, x = UNIT, cell.largest
    size = magnitude(p) + error
    one = Fraction(1)
    if spec.kind == "log":
        assert size <= 1
        # x^2 p in either order of its two products, then the sum with x
        inner = up(x * error + x * size * (2 * u + u * u))  # over |x|
        factor = multiply_add(one, cell.ends, p)
        value = multiply_add(Fraction(0), cell.ends, factor)
        absolute = x * inner + 3 * TINY
        absolute += half_ulp(magnitude(value) + absolute)
        least = Fraction(1, 1 << 60)  # the relative bound asks for |x| >= 2^-60
        inner += 3 * TINY / least
        return Error(up(absolute), up(inner + u * (magnitude(factor) + inner)))
    value = multiply_add(one, cell.ends, p)
    absolute = x * error + u * x * size + 2 * TINY
    absolute = up(absolute + half_ulp(magnitude(value) + absolute))
    return Error(absolute, up(absolute / exp_bounds(cell.ends[0])[0]))


@dataclass(frozen=True)
class Bounds:
    """Proved bounds over the whole domain."""

    fit: Error
    total: Error


def prove(spec: Spec, free: Coefficients) -> Bounds:
    """Bound fit and fit + evaluation over every cell of the domain."""
    powers = {**spec.fixed(), **free}
    whole = [powers.get(k, Fraction(0)) for k in range(max(powers) + 1)]
    coefficients = [free[k] for k in sorted(free)]
    fits, totals = [], []
    for cell in cells(spec):
        fit = fit_error(spec, whole, cell)
        run = eval_error(spec, coefficients, cell)
        relative = fit.relative + run.relative
        fits.append(fit)
        totals.append(Error(fit.absolute + run.absolute, relative))
    return Bounds(largest(fits), largest(totals))


def largest(errors: list[Error]) -> Error:
    return Error(max(e.absolute for e in errors), max(e.relative for e in errors))


# --------------------------------------------------------------------------
# Header


@dataclass(frozen=True)
class Result:
    spec: Spec
    degree: int
    free: Coefficients
    bounds: Bounds

    @property
    def fit(self) -> Fraction:
        """The error that the target is about."""
        kind = self.spec.kind
        return self.bounds.fit.absolute if kind == "log" else self.bounds.fit.relative


def choose(spec: Spec) -> Result:
    """Take the least degree whose proved fit error meets the target."""
    for degree in spec.degrees:
        if minimax(spec, degree) > spec.target:
            continue
        free = search(spec, degree)
        result = Result(spec, degree, free, prove(spec, free))
        if math.log2(result.fit) <= spec.target:
            return result
    raise ArithmeticError(f"{spec.name}: no degree meets 2^{spec.target}")


def literal(x: Fraction) -> str:
    """C11 hexadecimal literal of a number that is a double exactly."""
    number = float(x)
    assert Fraction(number) == x
    mantissa, exponent = number.hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    text = f"{mantissa}p{exponent}"
    return f"({text})" if number < 0 else text


def bound_literal(x: Fraction) -> str:
    """Round a bound up to nine significant bits."""
    exponent = math.floor(math.log2(x)) - 8
    steps = math.ceil(x / Fraction(2) ** exponent)
    return literal(steps * Fraction(2) ** exponent)


def define(name: str, value: str) -> str:
    return f"#define FDP_{name} {value}"


EXPRESSIONS = {
    "log": ("log1p(f)", "(({v}) + ({v}) * ({v}) * {p})"),
    "exp": ("exp(r)", "(1.0 + ({v}) * {p})"),
}


def power_of_two(x: Fraction) -> str:
    return f"2^{math.log2(x):.2f}"


def render(result: Result) -> str:
    """Return the part of the header for one polynomial."""
    spec, name = result.spec, result.spec.name
    v = spec.variable
    function, shape = EXPRESSIONS[spec.kind]
    fit, total = result.bounds.fit, result.bounds.total
    relative = spec.kind != "log"
    first, second = (
        (fit.relative, total.relative) if relative else (fit.absolute, total.absolute)
    )
    sense = "relative" if relative else "absolute"
    figures = f"fit {power_of_two(first)}, computed {power_of_two(second)} ({sense})"
    lines = [
        f"/* {function}, total degree {result.degree}: {figures}. */",
        define(f"{name}_MIN", literal(spec.low)),
        define(f"{name}_MAX", literal(spec.high)),
        define(f"{name}_TERMS", str(len(result.free))),
    ]
    powers = sorted(result.free)
    lines += [define(f"{name}_C{k}", literal(result.free[k])) for k in powers]
    nest = [f"(FDP_{name}_C{k} + ({v}) *" for k in powers[:-1]]
    nest.append(f"FDP_{name}_C{powers[-1]}" + ")" * (len(powers) - 1))
    lines.append(f"#define FDP_{name}_POLY({v}) \\")
    lines.append(" \\\n".join(f"    {part}" for part in nest))
    whole = shape.format(v=v, p=f"FDP_{name}_POLY({v})")
    lines.append(f"#define FDP_{name}_EVAL({v}) {whole}")
    lines.append(define(f"{name}_FIT_ERR", bound_literal(first)))
    lines.append(define(f"{name}_EVAL_ERR", bound_literal(second)))
    if not relative:
        over = "/* times |f| */"
        value = bound_literal(fit.relative)
        lines.append(define(f"{name}_FIT_ERR_REL", f"{value} {over}"))
        value = bound_literal(total.relative)
        lines.append(define(f"{name}_EVAL_ERR_REL", f"{value} {over}"))
    return "\n".join(lines) + "\n"


def near(x: Fraction, precision: int) -> Fraction:
    """Round to a nearest number of ``precision`` bits."""
    exponent = math.floor(math.log2(abs(x))) + 1 - precision
    return round(x / Fraction(2) ** exponent) * Fraction(2) ** exponent


def render_ln2() -> str:
    """Return the constants of the range reductions."""
    low, high = log_bounds(Fraction(2))
    ln2 = (low + high) / 2

    def distance(x: Fraction) -> Fraction:
        return max(abs(x - low), abs(x - high))

    double = near(ln2, PRECISION)
    # k * HI is exact: 11 bits of k (|k| < 2048) and 42 bits of HI.
    hi = near(ln2, 42)
    lo = near(ln2 - hi, PRECISION)
    fixed = math.floor(low * (1 << 128))
    assert fixed == math.floor(high * (1 << 128))
    word = (1 << 64) - 1
    log2e = 1 / ln2
    return "\n".join(
        [
            "/* ln 2. k * HI is exact for |k| < 2048, contracted or not; *_ERR bounds",
            " * the distance of the constant, or of HI + LO, from ln 2. */",
            define("LN2", literal(double)),
            define("LN2_ERR", bound_literal(distance(double))),
            define("LN2_HI", literal(hi)),
            define("LN2_LO", literal(lo)),
            define("LN2_SPLIT_ERR", bound_literal(distance(hi + lo))),
            define("LOG2E", literal(near(log2e, PRECISION))),
            "/* floor(ln 2 * 2^128) */",
            define("LN2_128_HI", f"UINT64_C(0x{fixed >> 64:016x})"),
            define("LN2_128_LO", f"UINT64_C(0x{fixed & word:016x})"),
            "",
        ]
    )


PREAMBLE = """\
/* Polynomials and constants of the kernels. Made by tools/make_constants.py, which
 * proves the bounds below; do not edit. Theorems: docs/proofs/polynomials.md.
 *
 * For each NAME, on MIN <= argument <= MAX (a plain variable: it is repeated):
 *   FDP_NAME_Ck        coefficient of the k-th power in the whole expression
 *   FDP_NAME_POLY(x)   the polynomial by Horner's rule
 *   FDP_NAME_EVAL(x)   the whole expression
 *   FDP_NAME_FIT_ERR   bounds |expression - function|, in exact arithmetic
 *   FDP_NAME_EVAL_ERR  bounds |computed expression - function|: fit and roundings
 * Log errors are absolute; *_REL is their bound over |f|. The other errors are
 * relative to the function. EVAL_ERR holds for POLY and EVAL as written, rounded to
 * nearest, contracted or not (or in part), with or without flush to zero; for
 * LOG_EVAL_ERR_REL the argument must be 0 or at least 2^-60 in magnitude. */
"""


def header() -> str:
    """Return the whole header."""
    parts = [
        PREAMBLE,
        "#ifndef FDP_SAMPLER_CONSTANTS_H\n#define FDP_SAMPLER_CONSTANTS_H\n",
        "#include <stdint.h>\n",
        render_ln2(),
    ]
    parts += [render(choose(spec)) for spec in specs()]
    parts.append("#endif\n")
    return "\n".join(parts)


def report() -> None:
    """Print what each candidate degree gives."""
    print("name degree minimax rounded,proved computed computed/|x|")
    for spec in specs():
        for degree in spec.degrees:
            before, free = minimax(spec, degree), search(spec, degree)
            result = Result(spec, degree, free, prove(spec, free))
            total = result.bounds.total
            shown = total.absolute if spec.kind == "log" else total.relative
            row = [
                f"{before:.2f}",
                *(f"{math.log2(x):.2f}" for x in (result.fit, shown)),
            ]
            row.append(f"{math.log2(total.relative):.2f}")
            print(spec.name, degree, *row)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make csrc/sampler/constants.h.")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument("--report", action="store_true", help="print all degrees")
    options = parser.parse_args(arguments)
    mp.dps = DIGITS
    if options.report:
        report()
        return 0
    text = header()
    if not options.check:
        HEADER.write_text(text)
        return 0
    if HEADER.exists() and HEADER.read_text() == text:
        return 0
    print("csrc/sampler/constants.h is not what this script makes", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
