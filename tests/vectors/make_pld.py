"""Make `pld.json`: ln delta of compositions to 20 digits, independently of the package.

    python -m tests.vectors.make_pld

An integral over Re z = theta with real nodes of the inner integral, in multiprecision
and pairs of doubles, evaluated twice: with another theta, another period, and a finer
inner step. A case on which the two disagree beyond 1e-20 is an error. (With too coarse
an inner step a sum over real nodes is wrong at large |Im z| and yet agrees with itself
for all theta, so the inner step must be among what is changed.) The few epsilons were
chosen to give about the wanted delta.
"""

import json
import math
import sys
from pathlib import Path

import mpmath as mp
import numpy as np

OUT = Path(__file__).with_name("pld.json")


def grid(q, s, h, top, digits):
    """Return r, ln r and the weights of N(0, s^2) on real nodes."""
    reach = s * mp.sqrt(2 * digits * mp.log(10))
    count_low, count_high = int(reach / h) + 1, int((reach + top) / h) + 1
    nodes = []
    for j in range(-count_low, count_high + 1):
        x = j * h
        log_ratio = mp.log(1 - q + q * mp.exp((2 * x - 1) / (2 * s * s)))
        nodes.append((log_ratio, -x * x / (2 * s * s)))
    return nodes, h / (s * mp.sqrt(2 * mp.pi))


def two_sum(a, b):
    """Return a + b as a double and what it lacks."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def two_product(a, b):
    """Return a b as a double and what it lacks (Dekker's split)."""
    product = a * b
    wide_a, wide_b = 134217729.0 * a, 134217729.0 * b
    a1, b1 = wide_a - (wide_a - a), wide_b - (wide_b - b)
    a2, b2 = a - a1, b - b1
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def times(x, y):
    """Return the product of two pairs, to about 2^-103."""
    high, low = two_product(x[0], y[0])
    return two_sum(high, low + (x[0] * y[1] + x[1] * y[0]))


def plus(x, y):
    """Return the sum of two pairs, to about 2^-103 of the larger one."""
    high, low = two_sum(x[0], y[0])
    return two_sum(high, low + (x[1] + y[1]))


def minus(x):
    return -x[0], -x[1]


def pairs(values):
    """Return multiprecision reals as arrays of pairs of doubles."""
    high = np.array([float(v) for v in values])
    low = np.array([float(v - mp.mpf(h)) for v, h in zip(values, high, strict=True)])
    return high, low


def total(x):
    """Return the exact sum of pairs, rounded to a pair."""
    parts = np.concatenate(x).tolist()
    high = math.fsum(parts)
    return mp.mpf(high) + mp.mpf(math.fsum([*parts, -high]))


class Step:
    """M(theta + iy) on y = 0, eta, 2 eta, .. by repeated products of pairs."""

    def __init__(self, q, s, removal, theta, eta, finer, digits):
        power = 1 + theta if removal else -theta
        h = s * s / (finer * max(1, s))
        nodes, scale = grid(q, s, h, max(mp.mpf(1), power), digits)
        sign = 1 if removal else -1
        levels = [power * a + b for a, b in nodes]
        self.peak = max(levels)
        kept = [
            (level, a)
            for level, (a, _) in zip(levels, nodes, strict=True)
            if level > self.peak - 80
        ]
        turns = [mp.expj(eta * sign * a) for _, a in kept]
        self.real = pairs([mp.exp(level - self.peak) * scale for level, _ in kept])
        self.imag = (np.zeros(len(kept)), np.zeros(len(kept)))
        self.cos = pairs([t.real for t in turns])
        self.sin = pairs([t.imag for t in turns])
        self.scale = mp.exp(self.peak)

    def next(self):
        real, imag = total(self.real), total(self.imag)
        cos, sin = self.cos, self.sin
        self.real, self.imag = (
            plus(times(self.real, cos), minus(times(self.imag, sin))),
            plus(times(self.real, sin), times(self.imag, cos)),
        )
        return self.scale * mp.mpc(real, imag)


def log_delta(steps, square, epsilon, removal, theta, period, finer, digits):
    """Return ln delta at epsilon by the trapezoidal sum of step 2 pi/period."""
    with mp.workdps(digits):
        theta, period, epsilon = mp.mpf(theta), mp.mpf(period), mp.mpf(epsilon)
        eta = 2 * mp.pi / period
        parts = [
            (Step(mp.mpf(q), mp.mpf(s), removal, theta, eta, finer, digits), k)
            for q, s, k in steps
        ]
        total, small, j = mp.mpf(0), 0, 0
        while small < 40:
            z = mp.mpc(theta, j * eta)
            value = mp.exp(mp.mpf(square) * z * (z + 1) / 2 - epsilon * z)
            for part, k in parts:
                value *= part.next() ** k
            value /= z * (z + 1)
            total += value.real / (2 if j == 0 else 1)
            small = small + 1 if abs(value) < abs(total) * mp.mpf(10) ** -24 else 0
            j += 1
            if j > 6000:
                raise ArithmeticError("no decay")
        return mp.log(total * eta / mp.pi)


def plan(steps, square, epsilon, removal):
    """Return theta and T from sums in doubles: aliases below 10^-23 of delta."""

    def chernoff(t):
        total = square * t * (1 + t) / 2 - epsilon * t
        for q, s, k in steps:
            a = 1 + t if removal else -t
            h = s * s / (8 * max(1, s))
            lo, hi = int(-12 * s / h), int((12 * s + max(1, a)) / h)
            logs = []
            for i in range(lo, hi + 1):
                x = i * h
                u = (2 * x - 1) / (2 * s * s)
                r = (
                    u + math.log(q + (1 - q) * math.exp(-u))
                    if u > 0
                    else math.log1p(q * math.expm1(u))
                )
                logs.append(a * r - x * x / (2 * s * s))
            peak = max(logs)
            value = peak + math.log(
                sum(math.exp(v - peak) for v in logs) * h / (s * math.sqrt(2 * math.pi))
            )
            total += k * value
        return total + t * math.log(t) - (1 + t) * math.log1p(t)

    grid_t = [2 ** (i / 4) for i in range(-40, 56)]
    values = []
    for t in grid_t:
        try:
            values.append(chernoff(t))
        except OverflowError:
            values.append(math.inf)
        if len(values) > 8 and values[-1] > min(values) + 200:
            break
    values += [math.inf] * (len(grid_t) - len(values))
    best = min(range(len(values)), key=values.__getitem__)
    theta = grid_t[best]
    low = values[best] - GAP  # delta is hardly that far below its Chernoff bound
    periods = []
    for side in (range(best), range(best + 1, len(grid_t))):
        periods.append(
            min((values[i] - low + 55) / abs(grid_t[i] - theta) for i in side)
        )
    return theta, max(periods)


def value(steps, square, epsilon):
    """Return the larger ln delta of both directions, computed twice."""
    results = []
    for removal in (True, False):
        theta, period = plan(steps, square, epsilon, removal)
        digits = 40
        first = log_delta(
            steps, square, epsilon, removal, theta, period, FINER[0], digits
        )
        second = log_delta(
            steps,
            square,
            epsilon,
            removal,
            theta * 1.07,
            period * 1.13,
            FINER[1],
            digits + 6,
        )
        if abs(first - second) > mp.mpf(10) ** -20 * max(1, abs(first)):
            raise ArithmeticError(f"{first} and {second} differ")
        results.append(second)
    return max(results)


#: Inner steps per s^2, first and second, and the room for delta below Chernoff's bound.
FINER, GAP = (14, 23), 18


def main():
    """Recompute the value of every case in the table."""
    cases = json.loads(OUT.read_text())
    for number, case in enumerate(cases):
        if "ln_delta" in case and "--all" not in sys.argv:
            continue
        found = value(case["steps"], case["square"], case["epsilon"])
        case["ln_delta"] = mp.nstr(found, 22)
        print(number, case, flush=True)
        OUT.write_text(json.dumps(cases, indent=0) + "\n")


if __name__ == "__main__":
    main()
