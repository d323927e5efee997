"""The contour integral with as many digits as its sum cancels.

With rare sampling and a tiny delta the best Chernoff bound may be 10^10 or 10^100 times
delta, and so are the terms of the sum. Its theorems hold all the same; only rounding
has to be smaller. Here nodes and weights are exact rationals and everything else is in
integers (`_fixed_point`), the number of bits being what the bounds of the errors ask
for. (docs/proofs/numerical_accounting.md, section 12.)
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from fastdp.accounting._pld import fixed_point as fixed
from fastdp.accounting._pld.contour import Contour, LogDelta, TooCostlyError
from fastdp.accounting._pld.fixed_point import Integers, Pair
from fastdp.accounting._pld.losses import PER_OCTAVE, Floats, GaussianLoss, short

if TYPE_CHECKING:
    from fastdp.accounting._pld.chernoff import Chernoff
    from fastdp.accounting._pld.composition import Composition
    from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss

#: -ln of what rounding and quadrature may add to delta, relative to it.
_AIM = 34.0

#: Largest ln of how far delta may be below the terms of its sum.
_MOST_LOST = 650.0

#: How far apart the orders are that are tried, and then those about the best of them.
_STRIDES = 8, 4, 2

#: Nodes that cost about a second, or more, and what is allowed at most.
_NODES, _COSTLY = 20_000, 4.0

#: Relative allowance for `GaussianLoss.square`, a sum of doubles.
_SQUARE = Fraction(1, 10**12)


class PreciseContour(Contour):
    """A contour whose sum is evaluated to as many digits as are needed.

    Parameters
    ----------
    composition : Composition
        Steps of sampled and of plain Gaussian noise, all `exactly` known.
    chernoff : Chernoff
        The composition's bounds.
    epsilon, log_delta : float
        About where the profile is to be read.
    most_cost : float, optional
        What the contour may cost, in seconds or so.

    Raises
    ------
    TooCostlyError
        Too many nodes are needed.
    """

    def __init__(
        self,
        composition: Composition,
        chernoff: Chernoff,
        epsilon: float,
        log_delta: float,
        most_cost: float = _COSTLY,
    ) -> None:
        self._steps: list[tuple[SampledGaussianLoss, int]] = []
        self._square = Fraction(0)
        for loss, n in composition.steps:
            if isinstance(loss, GaussianLoss):
                self._square += Fraction(loss.square)
            else:
                self._steps.append((cast("SampledGaussianLoss", loss), n))
        self._most_nodes = min(Contour._most_nodes, int(_NODES * most_cost))
        try:
            self._plan(composition, chernoff, epsilon, log_delta)
            self._measure()
        except OverflowError as error:
            raise TooCostlyError from error
        if self.cost > most_cost:
            raise TooCostlyError

    # ---- planning ------------------------------------------------------------------

    def _plan(
        self,
        composition: Composition,
        chernoff: Chernoff,
        epsilon: float,
        log_delta: float,
    ) -> None:
        """Choose theta, T and the number of nodes: the fewest of some candidates."""
        middle = chernoff.best_delta(epsilon)[0]
        around = middle // PER_OCTAVE
        self._t, self._chernoff = chernoff.between(around - 6, around + 6)
        need = self._chernoff - self._t * epsilon - log_delta
        best: tuple[float, float, float, int, float] | None = None
        at, seen = 0, set[int]()
        for stride in _STRIDES:
            last = self._t.size - 1
            every = range(6, last, stride)
            for i in every if stride == _STRIDES[0] else (at - stride, at + stride):
                if i in seen or not 6 <= i < last or not need[i] < _MOST_LOST:
                    continue
                seen.add(i)
                found = self._candidate(composition, epsilon, log_delta, need, i, best)
                if found is not None and (best is None or found[0] < best[0]):
                    best, at = found, i
            if best is None:
                raise TooCostlyError
        assert best is not None
        _, self.theta, self._step, self._count, self._beyond = best
        self._tilt = composition.tilt(self.theta)
        lost = self._tilt.cumulant - self.theta * epsilon - log_delta
        total = sum(n for _, n in self._steps) * self._count
        self._aim = _AIM + max(0.0, lost) + math.log(max(2, total))

    def _candidate(
        self,
        composition: Composition,
        epsilon: float,
        log_delta: float,
        need: Floats,
        i: int,
        best: tuple[float, float, float, int, float] | None,
    ) -> tuple[float, float, float, int, float] | None:
        """Return the cost with an order's theta, theta, the step and how many nodes."""
        away, room = np.abs(self._t - self._t[i]), np.maximum(need, 0.0) + 32
        period = max(
            float(np.min(room[i + 1 :] / away[i + 1 :])),
            float(np.min(room[:i] / away[:i])),
        )
        far = best is not None and period > 8 * math.pi / best[2]
        if far or not period < math.inf:
            return None
        self.theta = float(self._t[i])
        self._step = short(2 * math.pi / period)
        try:
            self._tilt = composition.tilt(self.theta)
            level = self._tilt.cumulant - self.theta * epsilon - math.log(math.pi)
            count = self._cut(composition, log_delta - level)
        except (TooCostlyError, OverflowError):
            return None
        cost = count * (60 + max(0.0, float(need[i]))) ** 1.5
        return cost, self.theta, self._step, count, self._beyond

    # ---- the nodes -----------------------------------------------------------------

    def _measure(self) -> None:
        """Set by how much the sum may err, the bits for that, and what it costs."""
        theta, eta, count = self.theta, self._step, self._count
        self._lines = [_Line(loss, theta, self._aim) for loss, _ in self._steps]
        error = 1.0
        for line, (_, n) in zip(self._lines, self._steps, strict=True):
            error += 2.0 * n * (line.rounding(eta * count, count) + 8)
        # Units by which the sum may err, and bits of which these are few enough.
        self._error_units = 4.0 * count * (error + 40 * count)
        bits = math.ceil(math.log2(self._error_units) + self._aim / math.log(2)) + 8
        quadrature = sum(n for _, n in self._steps) * 12.0 * count
        self._error_units += quadrature * 2.0 ** (bits - self._aim / math.log(2))
        self._bits = bits
        size = sum(line.size for line in self._lines)
        self.cost = (size * (count + 250) + 40 * count) * (bits + 150) / 1e9

    @functools.cached_property
    def _sums(self) -> list[_Sum]:
        """Return the nodes for the least and for the largest square of plain noise."""
        theta, eta, count, bits = self.theta, self._step, self._count, self._bits
        phi: Pair = (
            fixed.integers([1 << bits] * (count + 1)),
            fixed.integers([0] * (count + 1)),
        )
        log_norm = Fraction(0)
        for line, (_, n) in zip(self._lines, self._steps, strict=True):
            one, log_one = line.nodes(eta, count, bits)
            phi = fixed.times(phi, fixed.power(one, n, bits), bits)
            log_norm += n * log_one
        squares = {self._square * (1 - _SQUARE), self._square * (1 + _SQUARE)}
        return [
            _Sum(phi, log_norm, value, theta, eta, bits) for value in sorted(squares)
        ]

    # ---- reading -------------------------------------------------------------------

    def log_deltas(self, epsilon: Floats) -> list[LogDelta]:
        """Return ln delta at each epsilon; good near the one planned for."""
        alias = self._aliases(epsilon)
        # K as it is known in doubles is what phi was divided by, nearly.
        share = self.theta * (1 + self.theta) / self._step * (1 + 1e-3)
        unit = Fraction(1 << self._bits)
        tail = int(Fraction(self._beyond * share) * unit) + int(self._error_units) + 1
        results = []
        for e, each in zip(epsilon.tolist(), alias.tolist(), strict=True):
            below = tail + _whole(each * share * math.pi * (1 + 1e-9), unit)
            low, high = self._sums[0].read(e), self._sums[-1].read(e)
            middle = (low[0] + high[0]) // 2
            slack = 1e-14 + 1e-15 * (abs(low[1]) + abs(high[1]) + self._bits)
            results.append(
                LogDelta(
                    self._log(low[0] - below, low[1]) - slack,
                    self._log(middle, high[1]),
                    self._log(high[0] + tail, high[1]) + slack,
                )
            )
        return results

    def _log(self, value: int, level: float) -> float:
        if value <= 0:
            return -math.inf
        return math.log(value) - self._bits * math.log(2) + level

    def slope(self, epsilon: float, log_delta: float) -> float:
        """Return an estimate of d ln(delta)/d epsilon."""
        value, other = self._sums[-1].read(epsilon)[0], self._sums[-1].steep(epsilon)
        return -self.theta * other / value if value > 0 else -self.theta


def _whole(value: float, unit: Fraction) -> int:
    if not math.isfinite(value):
        return int(unit) << 2000
    return int(Fraction(value) * unit) + 1


class _Sum:
    """All nodes with their kernels, and the logarithm of what they are in units of."""

    def __init__(
        self,
        phi: Pair,
        log_norm: Fraction,
        square: Fraction,
        theta: float,
        eta: float,
        bits: int,
    ) -> None:
        self._bits, self._theta, self._eta = bits, Fraction(theta), Fraction(eta)
        count = phi[0].size
        t, e = self._theta, self._eta
        if square:
            j = fixed.integers(list(range(count)))
            drop, turn = square * e * e / 2, square * e * (2 * t + 1) / 2
            real = -((drop.numerator * j * j) << bits) // drop.denominator
            imag = ((turn.numerator * j) << bits) // turn.denominator
            phi = fixed.times(phi, fixed.exp((real, imag), bits), bits)
        level = log_norm + square * t * (t + 1) / 2
        front = e / (t * (t + 1))
        ln = fixed.log_fraction(front, bits)
        ln -= fixed.log_fraction(Fraction(fixed.pi(bits), 1 << bits), bits)
        self._level = level + Fraction(ln, 1 << bits)
        both = _kernels(t, e, count, bits)
        self._terms = fixed.times(phi, both[0], bits)
        self._steep = fixed.times(phi, both[1], bits)
        self._seen: dict[float, Pair] = {}

    def _phase(self, epsilon: float) -> Pair:
        """Return exp(-i y epsilon) at all nodes."""
        found = self._seen.get(epsilon)
        if found is None:
            bits, count = self._bits, self._terms[0].size
            turn = -self._eta * Fraction(epsilon)
            base = fixed.exp(
                (fixed.integers([0]), fixed.integers([fixed.scaled(turn, bits)])), bits
            )
            rows = fixed.powers(base, count, bits)
            self._seen = {epsilon: (rows[0][:, 0], rows[1][:, 0])}
            found = self._seen[epsilon]
        return found

    def _sum(self, terms: Pair, epsilon: float) -> int:
        wave = self._phase(epsilon)
        real = terms[0] * wave[0] - terms[1] * wave[1]
        return (int(real.sum()) - int(real[0]) // 2) >> self._bits

    def read(self, epsilon: float) -> tuple[int, float]:
        """Return the sum, and the logarithm of its unit."""
        level = self._level - self._theta * Fraction(epsilon)
        return self._sum(self._terms, epsilon), float(level)

    def steep(self, epsilon: float) -> int:
        """Return the sum for the derivative, in the same units over theta."""
        return self._sum(self._steep, epsilon)


def _kernels(t: Fraction, e: Fraction, count: int, bits: int) -> tuple[Pair, Pair]:
    """Return theta (theta + 1)/(z (z + 1)) and (theta + 1)/(z + 1) at all nodes."""
    one = max(t.denominator, e.denominator)
    a, y = int(t * one), int(e * one) * fixed.integers(list(range(count)))
    real, imag = a * (a + one) - y * y, y * (2 * a + one)
    size = real * real + imag * imag
    top = a * (a + one)
    kernel = (((top * real) << bits) // size, -((top * imag) << bits) // size)
    size = (a + one) ** 2 + y * y
    other = ((((a + one) ** 2) << bits) // size, -(((a + one) * y) << bits) // size)
    return kernel, other


@dataclass(frozen=True)
class _Shape:
    """Nodes j h + ib, j from first to last, and ln of the weights' total modulus."""

    shift: float
    step: float
    first: int
    last: int
    damping: float


class _Line:
    """One step on a line off the real axis (theorem 7c), errors below e^-aim."""

    def __init__(self, loss: SampledGaussianLoss, theta: float, aim: float) -> None:
        assert loss.exact is not None
        self._loss = loss
        self._rate, self._noise = loss.exact
        self._a = 1 + Fraction(theta) if loss.removal else -Fraction(theta)
        value, _ = loss.cumulants(np.array([theta]))
        if not math.isfinite(value[0]):
            raise OverflowError("too many nodes")
        self._cumulant = float(value[0])
        self._shape = self._placed(aim)

    @property
    def size(self) -> int:
        """Return the number of nodes."""
        return self._shape.last - self._shape.first + 1

    def _damping(self, b: Floats) -> Floats:
        """Return v(b) of theorem 7: ln of the integral of the modulus on Im x = b."""
        s, a = self._loss.noise, float(self._a)
        value = b * b / (2 * s * s)
        return value + a * np.log(np.cos(b / (2 * s * s))) if a < 0 else value

    def _placed(self, aim: float) -> _Shape:
        s, a = self._loss.noise, float(self._a)
        most = min(math.pi * s * s / 2, 2 * s * aim**0.5)
        b = np.linspace(0.05, 0.98, 32) * most
        outer = self._damping(2 * b)
        i = int(np.argmax(b / (aim + np.maximum(outer, 0.0))))
        shift = short(float(b[i]))
        h = short(2 * math.pi * shift / (aim + max(0.0, float(outer[i])) + 2))
        damping = max(0.0, float(self._damping(np.array([shift]))[0]))
        reach = s * math.sqrt(2 * (aim + damping + 20))
        least = min(0.0, a) * float(self._loss.share(np.array(0.0)))
        ends = np.array([least - reach, max(1.0, a) + reach])
        x, level = self._levels(ends, h, shift)
        away = np.array([least - x[0], x[1] - max(a, 0.0)])
        outside = level + np.log1p(s * s / (h * away)) + 1
        if not (outside < -aim).all() or (x[1] - x[0]) / h > 1 << 15:
            raise OverflowError("too many nodes")
        # Lighter nodes at the ends are left out.
        x, level = self._levels(np.arange(x[0], x[1], h), h, shift)
        heavy = np.flatnonzero(level > -aim - math.log(x.size) - 1)
        j = np.rint(x[heavy[[0, -1]]] / h).astype(int)
        return _Shape(shift, h, int(j[0]), int(j[1]), damping)

    def _levels(self, x: Floats, h: float, shift: float) -> tuple[Floats, Floats]:
        """Return nodes next to x, and ln of bounds of their weights on Im x = shift."""
        loss, s, a = self._loss, self._loss.noise, float(self._a)
        x = np.rint(x / h) * h
        level = a * loss.log_ratio(x) + loss.log_density(x) + shift**2 / (2 * s * s)
        if a < 0:
            level = level + a * math.log(math.cos(shift / (2 * s * s)))
        return x, level + math.log(h) - self._cumulant

    def _slip(self) -> float:
        """Return units by which the losses may err."""
        shape, s = self._shape, self._loss.noise
        x = np.arange(shape.first, shape.last + 1) * shape.step
        u = (2 * x - 1) / (2 * s * s)
        turn = np.exp(1j * np.where(u > 0, -1, 1) * shape.shift / (s * s) - np.abs(u))
        q = np.where(u > 0, 1 - self._loss.probability, self._loss.probability)
        least = float(np.abs(1 - q + q * turn).min())
        return (32 + 4 * self.size) * (1 + 1 / least)

    def rounding(self, highest: float, count: int) -> float:
        """Return units by which phi may err up to y = highest, the count-th node."""
        slip = self._slip()
        each = (abs(float(self._a)) + highest) * slip + 8 * count + 16
        each += 4 * self.size
        return 4 * (self.size + math.exp(self._shape.damping)) * each

    def nodes(self, eta: float, count: int, bits: int) -> tuple[Pair, Fraction]:
        """Return phi at y = 0, eta, .. count eta, and ln of its unit."""
        shape, square = self._shape, self._noise**2
        step, shift = Fraction(shape.step), Fraction(shape.shift)
        j = fixed.integers(list(range(shape.first, shape.last + 1)))
        flat = 0 * j

        def by(factor: Fraction, values: Integers) -> Integers:
            return np.asarray((factor.numerator * values << bits) // factor.denominator)

        real = by(step / square, j) - fixed.scaled(1 / (2 * square), bits)
        loss = self._log_ratio(real, fixed.scaled(shift / square, bits), bits)
        # ln of the weights: a l - (x + ib)^2/2s^2, and a double of about their total
        unit = Fraction(self._cumulant - math.log(shape.step))
        unit += Fraction(math.log(self._loss.noise) + 0.5 * math.log(2 * math.pi))
        a = self._a
        level = a.numerator * loss[0] // a.denominator - by(
            step * step / (2 * square), j * j
        )
        level = level + fixed.scaled(shift * shift / (2 * square) - unit, bits)
        turn = a.numerator * loss[1] // a.denominator - by(step * shift / square, j)
        weight = fixed.exp((level, turn), bits)
        y = Fraction(eta)
        wave = fixed.exp(
            (
                -y.numerator * loss[1] // y.denominator,
                y.numerator * loss[0] // y.denominator,
            ),
            bits,
        )
        width = math.isqrt(count) + 1
        near = fixed.powers(wave, width + 1, bits)
        leap: Pair = (near[0][width], near[1][width])
        far = fixed.powers(leap, -(-(count + 1) // width), bits)
        far = fixed.times(far, (weight[0] + flat, weight[1] + flat), bits)
        table = fixed.product(far, (near[0][:width].T, near[1][:width].T), bits)
        phi: Pair = (table[0].ravel()[: count + 1], table[1].ravel()[: count + 1])
        if not self._loss.removal:
            phi = fixed.conjugate(phi)
        return phi, unit + self._log_front(bits)

    def _log_ratio(self, real: Integers, imag: int, bits: int) -> Pair:
        """Return l = ln(1 - q + q e^u) at u = real + i imag, 0 < imag < pi.

        As u + ln(q + (1 - q) e^-u) where real > 0: exponentials fall on both sides.
        """
        q, one = fixed.scaled(self._rate, bits), 1 << bits
        below = int(np.count_nonzero(real <= 0))
        ratio = fixed.real_exp(int(real[0] - real[1]), bits)

        def fall(start: int, count: int) -> Integers:
            first = fixed.real_exp(start, bits) if count else 0
            return fixed.falling(first, ratio, count, bits)

        left = fall(int(real[below - 1]), below)[::-1] if below else real[:0]
        right = real[below:]
        right = fall(-int(right[0]), right.size) if right.size else right
        turn = fixed.exp((fixed.integers([0]), fixed.integers([imag])), bits)
        size = np.concatenate([q * left >> bits, (one - q) * right >> bits])
        rest = np.concatenate([0 * left + (one - q), 0 * right + q])
        signs = np.concatenate([0 * left + 1, 0 * right - 1])
        inside: Pair = (
            rest + (size * turn[0][0] >> bits),
            signs * size * turn[1][0] >> bits,
        )
        low = fixed.log(inside, bits)
        high = (1 - signs) // 2
        return low[0] + high * real, low[1] + high * imag

    def _log_front(self, bits: int) -> Fraction:
        """Return ln(h/(s sqrt(2 pi)))."""
        front = fixed.log_fraction(Fraction(self._shape.step) / self._noise, bits)
        turn = fixed.log_fraction(Fraction(2 * fixed.pi(bits), 1 << bits), bits)
        return Fraction(front, 1 << bits) - Fraction(turn, 1 << (bits + 1))
