"""Make `pld.json`: ln delta of compositions to 20 digits, independently of the package.

    python -m tests.vectors.make_pld

An integral over Re z = theta, in integers of as many digits as the sum cancels,
evaluated twice: with another theta, another period, a finer inner step on another line,
and a farther cut of the far tail (left out where it weighs less than 10^-26 of delta,
by a smooth factor, so that sums over nodes remain accurate). A case on which the two
disagree beyond 1e-20 is an error. (Real nodes of the inner integral would be wrong at
large |Im z| and yet agree with themselves for all theta, so the inner step must be
among what is changed.) Two steps alone are an integral of the profile of one, by
tanh-sinh quadrature. The few digits of each epsilon were chosen to give about the
wanted delta, 10^-`near`.
"""

import json
import math
import sys
from pathlib import Path

import mpmath as mp
import numpy as np

OUT = Path(__file__).with_name("pld.json")

#: What the inner step is divided by, first and second.
FINER = (1.1, 1.45)

#: Values of M that are computed together.
BLOCK = 64


class Cut:
    """A factor exp(-e^((x - place)/width)), from `place` on next to nothing."""

    def __init__(self, place, width):
        self.place, self.width = mp.mpf(place), mp.mpf(width)

    def log(self, x):
        return -math.exp(min(float((x - self.place) / self.width), 700.0))

    def log_exactly(self, x):
        return -mp.exp((x - self.place) / self.width)  # also at complex x


def cut_for(q, s, k, near, farther):
    """Return a cut that loses less than 10^-(near + 26) of k removals, or None.

    With v = (x - place)/width, the loss is below E_P e^v, two Gaussian moments.
    """
    aim = -(near + 26 + farther) * math.log(10) - math.log(k) - math.log(2)
    place = s * math.sqrt(-2 * aim) + 1
    while True:
        w = s * s / (place + s)
        low, high = -place / w + s * s / (2 * w * w), (1 - place) / w
        high += s * s / (2 * w * w) + math.log(q)
        if max(low, high) < aim:
            return Cut(place, w)
        place += s / 8


class Step:
    """M(theta + iy) on y = 0, eta, 2 eta, .. by repeated products of integers.

    The nodes are on a line off the real axis, on the side where r^(iy) decays, so that
    they serve all y.
    """

    def __init__(self, step, removal, cut, theta, eta, finer, digits):
        q, s = mp.mpf(step[0]), mp.mpf(step[1])
        power = 1 + theta if removal else -theta
        shift, grown = self.line(float(s), float(power), cut, digits)
        h = 2 * mp.pi * shift / (digits * mp.log(10) + grown) / finer
        reach = s * mp.sqrt(2 * (digits * mp.log(10) + grown))
        top = max(mp.mpf(1), power)
        if cut is not None:
            top = min(top, cut.place + 12 * cut.width - reach)
        kept = []
        for j in range(-int(reach / h) - 1, int((reach + top) / h) + 2):
            x = mp.mpc(j * h, shift)
            log_ratio = mp.log(1 - q + q * mp.exp((2 * x - 1) / (2 * s * s)))
            level = power * log_ratio - x * x / (2 * s * s)
            if cut is not None:
                level += cut.log_exactly(x)
            kept.append((level, log_ratio))
        peak = max(level.real for level, _ in kept)
        kept = [pair for pair in kept if pair[0].real > peak - 2.4 * digits - grown]
        self.bits = int(digits * 3.33 + grown * 1.45) + 40
        unit = mp.mpf(2) ** self.bits
        front = h / (s * mp.sqrt(2 * mp.pi))
        weights = [mp.exp(level - peak) for level, _ in kept]
        turns = [mp.exp(1j * eta * loss) for _, loss in kept]
        weight = (
            self.array(w.real * unit for w in weights),
            self.array(w.imag * unit for w in weights),
        )
        turn = (
            self.array(t.real * unit for t in turns),
            self.array(t.imag * unit for t in turns),
        )
        rows = [(0 * turn[0] + (1 << self.bits), 0 * turn[0])]
        for _ in range(BLOCK):
            rows.append(self.times(rows[-1], turn))
        self.near = (
            np.stack([r for r, _ in rows[:-1]]),
            np.stack([i for _, i in rows[:-1]]),
        )
        self.leap, self.far, self.ready = rows[-1], weight, []
        self.scale = mp.exp(peak) * front / unit
        self.sign = 1 if removal else -1  # addition: the conjugate, on the other side

    @staticmethod
    def line(s, power, cut, digits):
        """Return how far off the axis, and ln of what the integrand grows by."""
        best = (0, 0, 0)
        for i in range(1, 40):
            b = i / 40 * min(0.49 * math.pi * s * s, 3 * s)
            grown = 2 * b * b / (s * s)
            if cut is not None:
                b *= min(1, 0.6 * float(cut.width) / (0.49 * math.pi * s * s))
                angle = 2 * b / float(cut.width)
                heavy = 10 + power * float(cut.width) / (s * s)
                grown += heavy * (1 / math.cos(min(angle, 1.3)) - 1)
            if power < 0:
                grown += power * math.log(math.cos(b / (s * s)))
            rate = b / (digits * 2.303 + grown)
            best = max(best, (rate, b, grown))
        return best[1:]

    @staticmethod
    def array(values):
        values = [int(mp.nint(v)) for v in values]
        result = np.empty(len(values), object)
        result[:] = values
        return result

    def times(self, a, b):
        real = (a[0] * b[0] - a[1] * b[1]) >> self.bits
        return real, (a[0] * b[1] + a[1] * b[0]) >> self.bits

    def next(self):
        """Return the next value; `BLOCK` of them are made at once."""
        if not self.ready:
            near, far = self.near, self.far
            real = (near[0].dot(far[0]) - near[1].dot(far[1])) >> self.bits
            imag = (near[0].dot(far[1]) + near[1].dot(far[0])) >> self.bits
            self.ready = list(zip(real, imag, strict=True))[::-1]
            self.far = self.times(far, self.leap)
        real, imag = self.ready.pop()
        return self.scale * mp.mpc(real, self.sign * imag)


def other(kind, e, z):
    """Return M(z) of Laplace noise or of randomized response."""
    e = mp.mpf(e)
    if kind == "pure":
        p = 1 / (1 + mp.exp(-e))
        return p * mp.exp(z * e) + (1 - p) * mp.exp(-z * e)
    middle = mp.exp(-e / 2) * mp.sinh((z + 0.5) * e) / (z + 0.5)
    return (mp.exp(z * e) + mp.exp(-e - z * e) + middle) / 2


def log_delta(case, removal, cuts, theta, period, finer, digits):
    """Return ln delta at epsilon by the trapezoidal sum of step 2 pi/period."""
    with mp.workdps(digits):
        theta, period = mp.mpf(theta), mp.mpf(period)
        epsilon, square = mp.mpf(case["epsilon"]), mp.mpf(case["square"])
        eta = 2 * mp.pi / period
        parts = [
            (Step(step, removal, cut, theta, eta, finer, digits), step[2])
            for step, cut in zip(case["steps"], cuts, strict=True)
        ]
        total, small, j = mp.mpf(0), 0, 0
        while small < 40:
            z = mp.mpc(theta, j * eta)
            value = mp.exp(square * z * (z + 1) / 2 - epsilon * z)
            for part, k in parts:
                value *= part.next() ** k
            for kind, e, k in case.get("others", ()):
                value *= other(kind, e, z) ** k
            value /= z * (z + 1)
            total += value.real / (2 if j == 0 else 1)
            small = small + 1 if abs(value) < abs(total) * mp.mpf(10) ** -24 else 0
            j += 1
            if j > 30000:
                raise ArithmeticError("no decay")
        return mp.log(total * eta / mp.pi)


def log_ratio(q, u):
    """Return ln(1 - q + q e^u) in doubles."""
    if u > 0:
        return u + math.log(q + (1 - q) * math.exp(-u))
    return math.log1p(q * math.expm1(u))


def cumulant(step, removal, cut, t):
    """Return k K(t) in doubles."""
    q, s, k = step
    a = 1 + t if removal else -t
    h = s * s / (8 * max(1, s))
    top = max(1, a)
    if cut is not None:
        h, top = min(h, float(cut.width) / 4), min(top, float(cut.place))
    if (24 * s + top) / h > 1e5:
        return math.inf
    logs = []
    for i in range(int(-12 * s / h), int((12 * s + top) / h) + 1):
        x = i * h
        extra = cut.log(x) if cut is not None else 0.0
        level = a * log_ratio(q, (2 * x - 1) / (2 * s * s)) - x * x / (2 * s * s)
        logs.append(level + extra)
    peak = max(logs)
    total = math.fsum(math.exp(v - peak) for v in logs)
    return k * (peak + math.log(total * h / (s * math.sqrt(2 * math.pi))))


def plan(case, removal, cuts):
    """Return theta, T and the digits that cancel: aliases below 10^-23 of delta."""
    low = -case["near"] * math.log(10) - 3

    def chernoff(t):
        total = case["square"] * t * (1 + t) / 2 - case["epsilon"] * t
        for step, cut in zip(case["steps"], cuts, strict=True):
            total += cumulant(step, removal, cut, t)
        for kind, e, k in case.get("others", ()):
            total += k * float(mp.log(other(kind, e, mp.mpf(t))))
        return total + t * math.log(t) - (1 + t) * math.log1p(t)

    ts, needs = [], []
    middle = math.log2(max(1.0, -low / case["epsilon"]))
    for i in range(-28, 24):
        t = 2 ** (round(middle * 2) / 2 + i / 2)
        try:
            need = chernoff(t) - low
        except OverflowError:
            need = math.inf
        ts.append(t)
        needs.append(need)
        if len(needs) > 4 and need > 3000:
            break
    best = None
    for i in range(1, len(ts) - 1):
        if not needs[i] < 1500:
            continue
        sides = [
            min((max(needs[j], 0) + 56) / abs(ts[j] - ts[i]) for j in side)
            for side in (range(i), range(i + 1, len(ts)))
        ]
        cost = max(sides) * (60 + max(needs[i], 0)) ** 1.5
        if best is None or cost < best[0]:
            best = cost, ts[i], max(sides), max(needs[i], 0) / math.log(10)
    return best[1:]


def single(q, s, epsilon, removal):
    """Return delta of one step at any epsilon, in closed form (Balle et al. 2018)."""
    if removal:
        if mp.exp(epsilon) <= 1 - q:
            return 1 - mp.exp(epsilon)
        e = mp.log(1 + mp.expm1(epsilon) / q)
        return q * gaussian(s, e)
    rest = 1 - mp.exp(epsilon) * (1 - q)
    if rest <= 0:
        return mp.mpf(0)
    return rest * gaussian(s, epsilon + mp.log(q / rest))


def gaussian(s, e):
    """Return delta of Gaussian noise at any epsilon."""
    mu = 1 / s
    first, second = mu / 2 - e / mu, -mu / 2 - e / mu
    return mp.ncdf(first) - mp.exp(e) * mp.ncdf(second)


def of_two(case, removal, cells):
    """Return ln delta of two steps: the mean of one's profile over the other's loss."""
    (q, s, k), epsilon = case["steps"][0], mp.mpf(case["epsilon"])
    assert k == 2
    with mp.workdps(60 + int(case["near"])):
        q, s = mp.mpf(q), mp.mpf(s)
        reach = s * mp.sqrt(2 * (case["near"] + 30) * mp.log(10))

        def one(x):
            r = 1 - q + q * mp.exp((2 * x - 1) / (2 * s * s))
            weight = mp.exp(-x * x / (2 * s * s)) / (s * mp.sqrt(2 * mp.pi))
            if removal:
                return weight * r * single(q, s, epsilon - mp.log(r), True)
            return weight * single(q, s, epsilon + mp.log(r), False)

        points = mp.linspace(-reach, reach + 1, cells + 1)
        # where the profile of one is 0 or linear from there on
        inner = epsilon - mp.log(1 - q) if removal else epsilon + mp.log(1 - q)
        ratio = (mp.exp(inner if removal else -inner) - 1 + q) / q
        if ratio > 0:
            points = sorted([*points, s * s * mp.log(ratio) + mp.mpf(1) / 2])
        return mp.log(mp.quad(one, points))


def value(case):
    """Return the larger ln delta of both directions, computed twice."""
    results = []
    alone = len(case["steps"]) == 1 and not case["square"] and "others" not in case
    for removal in (True, False):
        if alone and case["steps"][0][2] == 1:
            q, s, _ = case["steps"][0]
            with mp.workdps(60 + int(case["near"])):
                one = single(mp.mpf(q), mp.mpf(s), mp.mpf(case["epsilon"]), removal)
                results.append(mp.log(one) if one > 0 else mp.mpf("-inf"))
            continue
        if alone and case["steps"][0][2] == 2:
            first, second = (of_two(case, removal, n) for n in (24, 35))
        else:
            first, second = (contour(case, removal, again) for again in (False, True))
        # The direction with the smaller delta needs fewer digits.
        share = mp.exp(min(0, max(first, second) - max([*results, -mp.inf])))
        if share * abs(first - second) > mp.mpf(10) ** -20 * max(1, abs(first)):
            raise ArithmeticError(f"{first} and {second} differ")
        results.append(second)
    return max(results)


def contour(case, removal, again):
    """Return ln delta of one direction, the second time with all else changed.

    Tails are cut where the sum without cuts has too many terms or digits.
    """
    none = [None] * len(case["steps"])
    cuts = [
        cut_for(q, s, k, case["near"], 2 * again) if q < 0.1 else None
        for q, s, k in case["steps"]
    ]
    for each in (none, cuts) if removal and cuts != none else (none,):
        planned = plan(case, removal, each)
        if planned is None or (each is none and planned[2] > 150):
            continue
        theta, period, lost = planned
        if again:
            theta, period = theta * 1.07, period * 1.13
        digits = 40 + 6 * again + int(1.1 * lost)
        try:
            return log_delta(case, removal, each, theta, period, FINER[again], digits)
        except ArithmeticError:
            continue
    raise ArithmeticError("no decay")


def main():
    """Compute the value of every case that has none, or of all (--all)."""
    cases = json.loads(OUT.read_text())
    for number, case in enumerate(cases):
        if "ln_delta" in case and "--all" not in sys.argv:
            continue
        case["ln_delta"] = mp.nstr(value(case), 22)
        print(number, case, flush=True)
        lines = ",\n".join(json.dumps(case) for case in cases)
        OUT.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
