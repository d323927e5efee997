"""Find coefficients of the kernels' polynomials by a Remez exchange in mpmath.

Nothing is claimed about them; make_constants.py proves their errors. It shares the
enclosures of ln and exp, which are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mpmath import mp

DIGITS = 70  # decimal digits of the search


GRID = 8  # half of the search grid points per free coefficient


BITS = 220  # bits after the point of every outward rounding in the proof


PRECISION = 53  # of doubles


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
    """Sample the function; the count is even, so that no point is the center."""
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
