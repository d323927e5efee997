"""Make csrc/sampler/constants.h: the polynomials of the kernels, and their proofs.

    python tools/make_constants.py            write the header
    python tools/make_constants.py --check    exit 1 when the header differs
    python tools/make_constants.py --report   print the table of degrees

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
from typing import Any

from mpmath import mp

HEADER = Path(__file__).resolve().parent.parent / "csrc" / "sampler" / "constants.h"
DIGITS = 70  # decimal digits of the search
GRID = 8  # half of the search grid points per free coefficient
BITS = 220  # bits after the point of every outward rounding in the proof
PRECISION = 53  # of doubles
UNIT = Fraction(1, 1 << PRECISION)  # unit roundoff u
#: What an operation loses by underflow, or by flushing to zero: twice the least normal
#: number. An operand below it may count as 0, the other one is at most 2 everywhere.
TINY = Fraction(1, 1 << 1021)

Coefficients = dict[int, Fraction]  # power of the argument -> coefficient


# --------------------------------------------------------------------------
# Enclosures: series in integers, every rounding outwards


def up(x: Fraction) -> Fraction:
    """Round up to BITS bits after the point (keeps the rationals short)."""
    return Fraction(-((-x.numerator << BITS) // x.denominator), 1 << BITS)


def down(x: Fraction) -> Fraction:
    """Round down to BITS bits after the point."""
    return -up(-x)


def log_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Enclose ln x for 1/2 <= x <= 2: 2 artanh(z), z = (x-1)/(x+1), |z| <= 1/3."""
    if x < 1:
        low, high = log_bounds(1 / x)
        return -high, -low
    one = 1 << BITS
    z = ((x.numerator - x.denominator) << BITS) // (x.numerator + x.denominator)
    # z and its powers lie in [value, value + 2] units: the last product adds at
    # most z^2 * 2 + z^k * 2 + 1 < 2 units, since z <= 1/3.
    square = z * z >> BITS
    total, power, k = 0, z, 0
    while power > 0:
        total += power // (2 * k + 1)
        power = power * square >> BITS
        k += 1
    # Each of the k terms lost at most 3 units, and the tail is below 9/8 * 2 units.
    return Fraction(2 * total, one), Fraction(2 * (total + 3 * k + 3), one)


def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Enclose exp x for |x| <= 1/2 by its Taylor series."""
    one = 1 << BITS
    argument = (x.numerator << BITS) // x.denominator
    # A term is within e_k units: e_1 <= 2, e_k <= (e_(k-1)/2 + 3/2)/k + 1 <= 3.
    total, term, k = 0, one, 0
    while term not in (0, -1):
        total += term
        k += 1
        term = (term * argument >> BITS) // k
    # The tail is at most twice the first term left out, 1 + 3 units at most.
    slack = 3 * k + 8
    return Fraction(total - slack, one), Fraction(total + slack, one)


# --------------------------------------------------------------------------
# What is approximated


@dataclass(frozen=True)
class Spec:
    """One polynomial: the function, its domain and the rule for its degree.

    ``kind`` is "log" (log1p(x) = x + x^2 P, absolute errors) or "exp" (exp(x) =
    1 + x Q, relative ones).
    """

    name: str
    kind: str
    low: Fraction
    high: Fraction
    degrees: tuple[int, ...]
    target: float  # log2 of the largest accepted fit error

    @property
    def first(self) -> int:
        """Power of the argument that the first free coefficient multiplies."""
        return 2 if self.kind == "log" else 1

    @property
    def variable(self) -> str:
        return "f" if self.kind == "log" else "r"

    def fixed(self) -> Coefficients:
        """Terms of the expression that are not searched for."""
        return {1 if self.kind == "log" else 0: Fraction(1)}

    def value(self, x: Any) -> Any:
        """Value of the true function, for the search only."""
        return mp.log1p(x) if self.kind == "log" else mp.exp(x)


def grid_out(x: Fraction) -> Fraction:
    """Round away from zero to a multiple of 2^-24."""
    steps = -((-abs(x.numerator) << 24) // x.denominator)
    return Fraction(steps if x > 0 else -steps, 1 << 24)


def specs() -> list[Spec]:
    """Return every polynomial of the kernels."""
    root = math.isqrt(2 << 200)  # floor(sqrt(2) 2^100)
    sqrt2 = Fraction(root + 1, 1 << 100)
    wide = Fraction(1, 1 << 20)
    log_low = grid_out(Fraction(root, 2 << 100) - 1 - wide)
    log_high = grid_out(sqrt2 - 1 + wide)
    half = grid_out(log_bounds(Fraction(2))[1] / 2 + Fraction(1, 1 << 10))
    return [
        Spec("LOG", "log", log_low, log_high, (18, 19, 20, 21), -52.0),
        Spec("EXP", "exp", -half, half, (10, 11, 12), -57.0),
    ]


# --------------------------------------------------------------------------
# Search: Remez exchange on a grid (heuristic; proves nothing)


def solve(rows: list[list[Any]]) -> list[Any]:
    """Gaussian elimination with partial pivoting on an augmented matrix."""
    size = len(rows)
    for i in range(size):
        pivot = max(range(i, size), key=lambda j: abs(rows[j][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j in range(i + 1, size):
            factor = rows[j][i] / rows[i][i]
            for k in range(i + 1, size + 1):
                rows[j][k] -= factor * rows[i][k]
    answer: list[Any] = [mp.mpf(0)] * size
    for i in reversed(range(size)):
        rest = sum((rows[i][k] * answer[k] for k in range(i + 1, size)), mp.mpf(0))
        answer[i] = (rows[i][size] - rest) / rows[i][i]
    return answer


@dataclass(frozen=True)
class Grid:
    """Chebyshev points with the true values and the weights of the error."""

    points: list[Any]
    values: list[Any]
    weights: list[Any]


def make_grid(spec: Spec, terms: int) -> Grid:
    """Sample the function; the count is even, so that no point is the centre."""
    count = 2 * GRID * terms
    low, high = to_mpf(spec.low), to_mpf(spec.high)
    points = []
    for i in range(count):
        cosine = mp.cos(mp.pi * i / (count - 1))
        points.append((low + high) / 2 - (high - low) / 2 * cosine)
    points = [x for x in points if x != 0]
    values = [spec.value(x) for x in points]
    weights = [mp.mpf(1) if spec.kind == "log" else 1 / abs(y) for y in values]
    return Grid(points, values, weights)


def alternation(errors: list[Any], size: int, floor: Any) -> list[int] | None:
    """Pick ``size`` alternating extrema of magnitude at least ``floor``.

    The floor is the level of the last reference: smaller sign changes (the error
    vanishes at 0 together with the monomials) would make the exchange go back.
    """
    runs: list[int] = []
    for i, error in enumerate(errors):
        if abs(error) < floor:
            continue
        if runs and (errors[runs[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > size:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return runs if len(runs) == size else None


def remez(
    grid: Grid, powers: list[int], rest: list[Any], start: list[Any] | None = None
) -> tuple[list[Any], Any]:
    """Minimize max |w (rest - sum a_k x^k)| over the grid, k in consecutive powers.

    The monomials share the factor x^powers[0], whose sign changes at 0 when that
    power is odd; alternation is that of the error divided by this sign. ``start``
    are coefficients near the answer.
    """
    size = len(powers) + 1
    odd = powers[0] % 2 == 1
    signs = [-1 if odd and x < 0 else 1 for x in grid.points]

    def errors(coefficients: list[Any]) -> list[Any]:
        result = []
        for i, x in enumerate(grid.points):
            total = mp.mpf(0)
            for a in reversed(coefficients):
                total = total * x + a
            error = rest[i] - total * x ** powers[0]
            result.append(error * grid.weights[i] * signs[i])
        return result

    chosen = None
    if start:
        current = errors(start)
        chosen = alternation(current, size, max(abs(e) for e in current) / 2)
    if chosen is None:
        last = len(grid.points) - 1
        angles = [math.pi * (i + 0.5) / size for i in range(size)]
        chosen = [round((1 - math.cos(angle)) / 2 * last) for angle in angles]
    best: tuple[list[Any], Any] | None = None
    for _ in range(60):
        rows = []
        for n, i in enumerate(chosen):
            x, w = grid.points[i], grid.weights[i]
            level = mp.mpf((-1) ** n * signs[i]) / w
            rows.append([*(x**k for k in powers), level, rest[i]])
        *coefficients, level = solve(rows)
        current = errors(coefficients)
        worst = max(abs(e) for e in current)
        if best is None or worst < best[1]:
            best = (coefficients, worst)
        if worst < abs(level) * mp.mpf("1.001"):
            break
        chosen = alternation(current, size, abs(level) * mp.mpf("0.999999"))
        assert chosen is not None  # the last reference is one
    assert best is not None
    return best


def to_mpf(x: Fraction) -> Any:
    return mp.mpf(x.numerator) / x.denominator


def rounded(x: Any, precision: int) -> Fraction:
    """Round an mpf to the nearest number of ``precision`` bits, exactly."""
    with mp.workprec(precision):
        sign, mantissa, exponent, _ = (+x)._mpf_
    value = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -value if sign else value


def problem(spec: Spec, degree: int) -> tuple[Grid, list[int], list[Any]]:
    """Return the grid, the free powers and what they have to approximate."""
    powers = list(range(spec.first, degree + 1))
    grid = make_grid(spec, len(powers))
    fixed = spec.fixed()
    rest = [
        y - sum(to_mpf(c) * x**k for k, c in fixed.items())
        for x, y in zip(grid.points, grid.values, strict=True)
    ]
    return grid, powers, rest


def minimax(spec: Spec, degree: int) -> float:
    """Return log2 of the minimax error with coefficients not rounded."""
    return float(mp.log(remez(*problem(spec, degree))[1], 2))


def search(spec: Spec, degree: int) -> Coefficients:
    """Fit, then round from the lowest power up, re-fitting what is left each time.

    A rounded coefficient moves the error by u |c_k x^k|, largest for the lowest
    power, and the higher ones, still free, take up most of it.
    """
    grid, powers, rest = problem(spec, degree)
    free, _ = remez(grid, powers, rest)
    result: Coefficients = {}
    for k in powers:
        result[k] = rounded(free[0], PRECISION)
        c = to_mpf(result[k])
        rest = [r - c * x**k for x, r in zip(grid.points, rest, strict=True)]
        if k < degree:
            free, _ = remez(grid, list(range(k + 1, degree + 1)), rest, free[1:])
    return result


# --------------------------------------------------------------------------
# Proof


@dataclass(frozen=True)
class Cell:
    """The arguments within ``radius`` of ``centre``."""

    centre: Fraction
    radius: Fraction

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        return self.centre - self.radius, self.centre + self.radius

    @property
    def largest(self) -> Fraction:
        return abs(self.centre) + self.radius

    @property
    def smallest(self) -> Fraction:
        return max(Fraction(0), abs(self.centre) - self.radius)


def cells(spec: Spec) -> Iterator[Cell]:
    """Cover the domain; cells are centered on multiples of s, or cut by its ends."""
    s = Fraction(1, 1 << (10 if spec.name == "LOG" else 9))
    k = math.floor(spec.low / s + Fraction(1, 2))
    while (k - Fraction(1, 2)) * s < spec.high:
        low = max(spec.low, (k - Fraction(1, 2)) * s)
        high = min(spec.high, (k + Fraction(1, 2)) * s)
        yield Cell((low + high) / 2, (high - low) / 2)
        k += 1


def shifted(polynomial: list[Fraction], centre: Fraction) -> list[Fraction]:
    """Coefficients in powers of (x - centre): synthetic division in integers."""
    bits = centre.denominator.bit_length() - 1
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
            b[j] += centre.numerator * b[j + 1]
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
    """Bound |polynomial - function| on a cell by the Taylor series at its centre."""
    m, h = cell.centre, cell.radius
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
