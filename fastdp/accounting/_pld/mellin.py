"""Moments E S^a, a complex, of the mean S of ratios of Gaussian noise, with bounds.

R_1 .. R_t are independent copies of dP/dQ of one step under Q, and S is their mean. For
w with a positive real part, whole N >= 0 and 0 <= alpha < pi/2,

    Gamma(w) E S^(N - w) = integral over v of e^(w (v + i alpha)) E S^N e^(-sS),
    s = e^(v + i alpha);

N = 0 and S = 1 give Gamma(w). E (sS)^N e^(-sS)/N! is the coefficient of x^N in
(sum of c_k x^k)^t, where c_k = E (uR)^k e^(-uR)/k! and u = s/t. Both integrals, over v
and over the noise, are sums with equal steps. docs/proofs/allocation.md bounds all
errors.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from fastdp.accounting._numeric import product
from fastdp.accounting._pld.losses import (
    Complexes,
    Floats,
    Tilted,
    U,
    complex_expm1,
    complex_log1p,
    short,
)
from fastdp.accounting._pld.power_series import powers_of, whole_moments

#: Sums with equal steps may err by about e^-_AIM, and so may their ends.
_AIM = 37.0

#: The real part of w is at least _LEAST; N is at most _MOST_ORDER.
_LEAST, _MOST_ORDER = 6, 40

#: Turn the line of integration over the noise by at most this.
_MOST_TURN = 1.0

#: Smallest and largest mu^2 of a step, and most steps.
_SQUARES, _MOST_STEPS = (1e-3, 25.0), 1 << 20

#: Most products of complex numbers for one ray; how many rows to compute at once.
_MOST_TERMS, _ROWS = 1 << 28, 64

#: From _FEW_STEPS steps on u is small: sum c_1 - u in place of c_1.
_FEW_STEPS = 64

#: Use series up to these sizes; take larger logarithms of u R as _FARTHEST.
_NEAR, _SMALL, _FARTHEST = 0.3, 0.02, 36.0

#: Try lines at these shares of the largest distance, and these powers p.
_SHARES = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
_POWERS = np.concatenate([[0.0], np.geomspace(1, 32, 9)])

#: Look at this many orders for the upper end.
_ORDERS = np.arange(1.0, 201.0)


@dataclass(frozen=True)
class Ray:
    """E (sS)^N e^(-sS)/N! times e^(-i N alpha) at places v, h apart, and its errors."""

    h: float
    v: Floats
    value: Complexes
    error: Floats


@dataclass(frozen=True)
class Mean:
    """The mean of `steps` ratios; `square` is (sensitivity/standard deviation)^2."""

    square: float
    steps: int

    # ---- moments ---------------------------------------------------------------------

    def moments(
        self, power: float, step: float, count: int
    ) -> tuple[Complexes, Floats]:
        """Return E S^(power - iy), y = 0, step, .. count step, and error bounds.

        Raises
        ------
        OverflowError
            The computation would need too many terms.
        """
        least, most = _SQUARES
        if not (least <= self.square <= most and 1 < self.steps <= _MOST_STEPS):
            raise OverflowError("no transform for such noise or so many steps")
        n = max(0, math.ceil(power + _LEAST))
        if n >= self._whole.size:
            raise OverflowError("the order is too large")
        y = step * np.arange(count + 1.0)
        index = np.rint(np.log2(math.pi / 2 / np.arctan2(n - power, y)))
        index = index.astype(np.int64)
        parts, log_size = [], math.inf
        ends = np.flatnonzero(np.diff(index, prepend=-1, append=-1)).tolist()
        for first, last in zip(
            [0, *[max(i, 1) for i in ends[:-1]]], [1, *ends[1:]], strict=True
        ):
            if first == last:
                continue
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                place = int(index[first]), n, power, y[first:last]
                part = self._on_ray(*place, log_size)
            if not np.isfinite(part[1]).all():
                raise OverflowError("no digits of the transform are certain")
            if not first:  # better known than before
                log_size = math.log(abs(part[0][0]) + part[1][0])
            parts.append(part)
        value, error = zip(*parts, strict=True)
        return np.concatenate(value), np.concatenate(error)

    def _on_ray(
        self, index: int, n: int, power: float, y: Floats, log_size: float
    ) -> tuple[Complexes, Floats]:
        real, gap = n - power, math.pi / 2 * 0.5**index
        alpha = math.pi / 2 - gap
        low, high = self._ends(alpha, n, real)
        # Rays of few lengths, so that contours share them.
        low, high = math.floor(2 * low) / 2, math.ceil(2 * high) / 2
        ray = _ray(self, alpha, n, low, high, math.ceil(real))
        v, h = ray.v, ray.h
        lead = math.factorial(n) * np.exp(-power * v)
        s = np.exp(v) * complex(math.cos(alpha), math.sin(alpha))
        rows = np.array([ray.value * lead, np.exp(real * v - s)])
        sums = h * _transformed(v, rows, y)
        size = np.abs(rows)
        own = size * U * (36 + math.isqrt(v.size) + np.abs(power * v))
        own[0] += ray.error * lead
        own[1] += size[1] * U * (np.abs(real * v) + 10 * np.exp(v))
        slope = (size * np.abs(v)).sum(axis=1)
        errors = own.sum(axis=1)[:, None] + 2 * U * np.multiply.outer(slope, y)
        errors = h * errors * (1 + 1e-6)
        errors += self._cut(alpha, n, real, ray)[:, None]
        # theorem 26
        log_size = min(log_size, self._log_size(power))
        steps = _step_error(alpha, real, h, y)
        errors += np.array([steps * math.exp(log_size), steps])
        gamma = np.abs(sums[1]) - errors[1]
        if not (gamma > 0).all():
            raise OverflowError("no digits of the transform are certain")
        value = sums[0] / sums[1]
        error = (errors[0] + np.abs(value) * errors[1]) / gamma
        return value, error + 8 * U * np.abs(value)

    @functools.cached_property
    def _whole(self) -> Floats:
        """Upper bounds of ln E S^n, n = 0, 1, .."""
        k = np.arange(_MOST_ORDER + 1.0)
        moment, slip = whole_moments(self.square * k * (k - 1) / 2, self.steps)
        return np.maximum(np.log(moment), 0.0) + 2 * slip

    def _log_size(self, power: float) -> float:
        """Bound ln E S^power from above."""
        if power > 0:
            return float(np.interp(power, np.arange(self._whole.size), self._whole))
        # S is at least the geometric mean of the ratios.
        return self.square * -power * (1 - power / self.steps) / 2 * (1 + 8 * U)

    def _decays(self, n: int, real: float) -> tuple[tuple[Floats, Floats], ...]:
        """Bound E S^n e^(-rS) by e^c r^-p; return p and c, p < real and p > real."""
        m = np.arange(max(math.floor(n - real) + 1, 0), n + 1)
        p, q = (n - m).astype(np.float64), math.floor(real) + _ORDERS
        beyond = [
            self._whole[n - int(each)] if each <= n else self._log_size(n - each)
            for each in q.tolist()
        ]
        return (p, _log_peak(p) + self._whole[m]), (q, _log_peak(q) + np.array(beyond))

    def _ends(self, alpha: float, n: int, real: float) -> tuple[float, float]:
        """Return the ends in v of the sums, for S and for 1."""
        turn, aim = math.log(math.cos(alpha)), math.lgamma(real) - _AIM - 3
        (p, below), (q, above) = self._decays(n, real)
        low = min(float(((aim - below + p * turn) / (real - p)).max()), aim / real)
        high = float(((above - q * turn - aim) / (q - real)).min())
        return low, max(high, math.log(_AIM + 20 + 3 * real) - turn)

    def _cut(self, alpha: float, n: int, real: float, ray: Ray) -> Floats:
        """Bound the parts beyond the ends of the sums for S and for 1."""
        turn, h = math.log(math.cos(alpha)), ray.h
        low, high = float(ray.v[0]), float(ray.v[-1] + h)

        def rest(fall: Floats) -> Floats:
            return np.asarray(np.log(h / -np.expm1(-fall * h)))

        q = math.floor(real) + _ORDERS
        one = (np.zeros(1), np.zeros(1)), (q, _log_peak(q))
        found = []
        for (p, below), (q, above) in (self._decays(n, real), one):
            first = below + (real - p) * low - p * turn + rest(real - p)
            last = above - (q - real) * high - q * turn + rest(q - real)
            found.append(np.exp(first.min()) + np.exp(last.min()))
        return np.array(found) * (1 + 1e-6)

    # ---- one ray ---------------------------------------------------------------------

    def ray(self, alpha: float, n: int, low: float, high: float, real: int) -> Ray:
        """Return the integrand from v = low to high at the angle alpha."""
        mu = math.sqrt(self.square)
        beta = min(alpha / mu, _MOST_TURN)
        turned = alpha - mu * beta
        wide = min(0.8 * (math.pi / 2 - turned) / mu, 3.0)
        aim = _AIM + 8 + 0.5 * n + (beta + wide) ** 2 / 2
        space = 2 * math.pi * wide / aim
        h = short(min(_step(alpha, real), mu * space))
        stride = int(mu * space / h)
        space = stride * h / mu
        first = math.floor(low / h)
        blocks = math.ceil((high / h - first + 1) / stride)
        # Negative powers of few ratios move the tail below.
        left = math.sqrt(2 * (_AIM + 6)) + mu * (8 + 2 * max(real - n, 0)) / self.steps
        start = -math.ceil(left / space)
        stop = math.ceil(self._reach(n) / space)
        x: Floats = np.asarray(space * np.arange(start, stop + 1.0))
        if blocks * stride * x.size * (n + 2) > _MOST_TERMS:
            raise OverflowError("too many terms for a transform")
        lines = blocks + x.size - 1
        place = h * (first + start * stride + np.arange(1.0 * lines * stride))
        terms, errors = self._terms(place, turned, n, U * (x.size / 2 + 32))
        size = np.exp((beta * beta - x * x) / 2) * (space / math.sqrt(2 * math.pi))
        c = _correlated(size * np.exp(1j * beta * x), terms, stride)
        errors = errors.reshape(n + 2, lines, stride).max(axis=2)
        d = product(errors, _band(size * (1 + x * x / 4), blocks).T) * (1 + 1e-9)
        v: Floats = h * np.arange(1.0 * first, first + blocks * stride)
        d += self._sum_errors(v[::stride], n, beta, turned, wide, space, x)
        return self._power(alpha, h, v, c, np.repeat(d, stride, axis=1), n)

    @property
    def _lines(self) -> slice:
        """The rows of c_k that are summed without the part linear in u."""
        return slice(0, 2 if self.steps >= _FEW_STEPS else 1)

    def _reach(self, n: int) -> float:
        """Return the end of the sum over the noise."""
        k = np.arange(1.0, max(n, 1) + 1)
        need = _AIM + 6 - (k - 1) * math.log(self.steps)
        need += self.square * k * (k - 1) / 2
        need += gammaln(k[-1] + 1) - gammaln(k + 1) - gammaln(k[-1] - k + 1)
        ends = k * math.sqrt(self.square) + np.sqrt(2 * np.maximum(need, 0))
        return float(ends[need > 0].max())

    def _terms(
        self, place: Floats, turned: float, n: int, rounding: float
    ) -> tuple[Complexes, Floats]:
        """Return rows of (uR)^k e^(-uR)/k! and their error bounds.

        The rows of `_lines` lack their linear part; the last row is e^(-uR).
        """
        base = math.log(self.steps) + self.square / 2
        length = np.exp(place - base)
        z = length * complex(math.cos(turned), math.sin(turned))
        slip = U * (16 + 2 * np.abs(place) + 6 * base)
        term = np.exp(-z)
        terms = np.empty((n + 2, z.size), np.complex128)
        errors = np.empty((n + 2, z.size))
        short_one = np.minimum(length, 2) * length
        terms[0] = _exp_less_line(z)
        errors[0] = np.abs(terms[0]) * rounding + short_one * slip
        errors[0] += np.where(length > _NEAR, 24 * U * length, 0)
        terms[-1], errors[-1] = term, np.abs(term) * (rounding + slip * length)
        line = z * complex_expm1(-z)
        # Beyond e^_FARTHEST both the term and what stands for it are below 1e-300.
        z[length > math.exp(_FARTHEST)] = 0
        for k in range(1, n + 1):
            term = term * z / k
            terms[k] = term
            errors[k] = np.abs(term) * (rounding + slip * (k + length) + 8 * k * U)
        if n and self._lines.stop > 1:
            terms[1] = line
            errors[1] = short_one * (rounding + slip) + length * errors[1]
        return terms, errors

    def _sum_errors(
        self,
        v: Floats,
        n: int,
        beta: float,
        turned: float,
        wide: float,
        space: float,
        x: Floats,
    ) -> Floats:
        """Bound errors of c_k from steps and ends of the sum over the noise.

        They hold from each v to the next one. At an angle A, |(uR)^k e^(-uR)| is at
        most |uR|^j (p/(e cos A))^p, p = k - j.
        """
        mu = math.sqrt(self.square)
        low = v - math.log(self.steps)
        u = low + mu * space * (1 + 1e-9)
        k = np.append(np.arange(n + 1.0), 0.0)[:, None, None]
        p = np.broadcast_to(_POWERS[:, None], (n + 2, _POWERS.size, 1)).copy()
        j = k - p
        moment = np.maximum(j * low, j * u) + self.square * j * (j - 1) / 2
        moment += _log_peak(p) - gammaln(k + 1)
        # e^-z - 1 + z and z (e^-z - 1) are at most 2|z| and |z|^2.
        some = slice(0, min(self._lines.stop, n + 1))
        moment[some], p[some], j[some] = np.inf, 0.0, 0.0
        moment[some, 0], j[some, 0] = u + math.log(2), 1.0
        moment[some, 1], j[some, 1] = 2 * u + self.square, 2.0
        found = np.zeros((n + 2, v.size))
        for sign in (-1, 1):
            most = np.full(found.shape, np.inf)
            for share in _SHARES.tolist():
                b = share / _SHARES[-1] * wide
                turn = math.log(math.cos(turned + sign * mu * b))
                level = (beta - sign * b) ** 2 / 2 + _log_aliases(b / space)
                most = np.minimum(most, level + (moment - p * turn).min(axis=1))
            found += np.exp(most)
        # Ends: the power R^j moves the Gaussian tail by j mu.
        size = moment - p * math.log(math.cos(turned)) + beta * beta / 2 + math.log(2)
        for end in (-x[0] + j * mu, x[-1] - j * mu):
            found += np.exp((size - np.maximum(end, 0) ** 2 / 2).min(axis=1))
        return found * (1 + 1e-6) + 1e-300

    def _power(
        self, alpha: float, h: float, v: Floats, c: Complexes, d: Floats, n: int
    ) -> Ray:
        """Return the coefficient of x^n in (sum of c_k x^k)^steps, with its errors."""
        steps, some = self.steps, slice(0, min(self._lines.stop, n + 1))
        u = np.exp(v) / steps * complex(math.cos(alpha), math.sin(alpha))
        direct, slack = c[-1], d[-1] + 2e-300
        c, d = c[:-1], d[:-1]
        c[0] -= u
        c[1 : some.stop] += u
        d[some] += U * (10 * np.abs(u) + np.abs(c[some]))
        log_first, slip = _log1p(c[0])
        c[0] += 1
        # Where u is not small c_0 is relatively accurate only if summed directly.
        small = (np.abs(c[0]) < 0.5) | (np.abs(u) > 0.5)
        direct = np.where(np.abs(direct) < 1e-300, 1e-300, direct)
        c[0][small], d[0][small] = direct[small], slack[small]
        log_first[small] = np.log(direct[small])
        slip[small] = 16 * U * (1 + np.abs(log_first[small]))
        log_most = log_first.real + np.log1p(d[0] / np.exp(log_first.real)) + slip
        size = np.abs(c) * (1 + 4 * U) + d
        size[0] = np.exp(log_most)
        found = powers_of(c, steps, log_first)[n]
        before = powers_of(size, steps - 1, log_most)
        away = (before * d[::-1]).sum(axis=0) * steps
        whole = (before * size[::-1]).sum(axis=0)
        few = steps < 2 * (n + 1)
        power = 2 * steps * (n + 6) if few else n * n / 4 + 8 * n + 8
        rounding = U * (power + 20 + 2 * n + steps * np.abs(log_first)) + steps * slip
        turn = complex(math.cos(n * alpha), -math.sin(n * alpha))
        return Ray(h, v, found * turn, (away + whole * rounding) * (1 + 1e-6))


class TiltedAllocation(Tilted):
    """The tilted loss of an epoch: ln S for a removal, -ln S for an addition."""

    def __init__(self, mean: Mean, theta: float, removal: bool) -> None:
        self._mean, self._removal = mean, removal
        self._power = 1 + theta if removal else -theta
        (value,), (error,) = self._mean.moments(self._power, 1.0, 0)
        if not error < value.real:
            raise OverflowError("no digits of the transform are certain")
        self.cumulant = math.log(value.real)
        self.cumulant_error = -math.log1p(-error / value.real)
        self.cumulant_error += 8 * U * (1 + abs(self.cumulant))
        away = 2.0**-10 * theta
        more, less = (
            float(self._mean.moments(self._power + each, 1.0, 0)[0][0].real)
            for each in (away, -away)
        )
        self.mean = math.log(more / less) / (2 * away) * (1 if removal else -1)

    def envelope(self, y: Floats) -> Floats:
        """Return the transform of the Gaussian factor (theorem 25)."""
        square = self._mean.square / self._mean.steps
        return np.exp(-square * y * y / 2 * (1 - 8 * U)) * (1 + 16 * U)

    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        """Return phi(y) exp(-iy mean) - 1, with a bound on its error."""
        value, error = self._mean.moments(self._power, step, count)
        size = value[0].real
        phi = (value.conj() if self._removal else value)[1:] / size
        slip = (error[1:] + np.abs(phi) * error[0]) / (size - error[0])
        turn = step * np.arange(1, count + 1) * self.mean
        slip += U * (2 + np.abs(phi) * (16 + 2 * np.abs(turn)))
        return phi * np.exp(-1j * turn) - 1, slip


_ray = functools.lru_cache(maxsize=32)(Mean.ray)


# ---- sums with equal steps -----------------------------------------------------------


def _log_aliases(ratio: float) -> float:
    """Return -ln(e^(2 pi ratio) - 1): aliases of a line at `ratio` spacings."""
    return -2 * math.pi * ratio - math.log(-math.expm1(-2 * math.pi * ratio))


def _step_error(alpha: float, real: float, h: float, y: Floats) -> Floats:
    """Bound the sum's error, in units of the moment at y = 0 (theorem 26)."""
    found = np.zeros(y.size)
    for sign in (-1, 1):
        most = np.full(y.size, np.inf)
        for b in ((math.pi / 2 - alpha) * _SHARES).tolist():
            level = math.lgamma(real) - real * math.log(math.cos(alpha + sign * b))
            most = np.minimum(most, level + _log_aliases(b / h) - sign * b * y)
        found += np.exp(most)
    return found * (1 + 1e-6)


def _step(alpha: float, real: int) -> float:
    """Return the distance of nodes for the y that the ray covers."""
    gap = math.pi / 2 - alpha
    b, found = np.linspace(0.05, 0.95, 19) * gap, math.inf
    for wide in (min(gap * 2**0.5, math.pi / 2), gap / 2**0.5):
        for sign in (-1, 1):
            rise = -real * np.log(np.cos(alpha + sign * b) / math.cos(alpha))
            rise -= sign * b * real / math.tan(wide)
            found = min(found, float((2 * math.pi * b / (_AIM + 3 + rise)).max()))
    return found


def _transformed(v: Floats, rows: Complexes, y: Floats) -> Complexes:
    """Return sums of rows e^(iyv), y with equal steps; each adds sqrt(v.size) parts."""
    width = math.isqrt(y.size - 1) + 1
    near = np.exp(1j * np.multiply.outer(v, y[:width] - y[0]))
    far = np.exp(1j * np.multiply.outer(y[::width], v))
    found = np.zeros((len(rows), far.shape[0], width), np.complex128)
    some = math.isqrt(v.size) + 1
    for i in range(0, v.size, some):
        part = slice(i, i + some)
        for j, row in enumerate(rows):
            found[j] += product(far[:, part] * row[part], near[part])
    return found.reshape(len(rows), -1)[:, : y.size]


def _correlated(weight: Complexes, terms: Complexes, stride: int) -> Complexes:
    """Return, by rows, the sums of weight[j] terms[i + j stride] over j."""
    rows, lines = terms.shape[0], terms.shape[1] // stride
    table = terms.reshape(rows, lines, stride).transpose(1, 0, 2).reshape(lines, -1)
    blocks = lines - weight.size + 1
    found = np.empty((blocks, table.shape[1]), np.complex128)
    for i in range(0, blocks, _ROWS):
        some = min(_ROWS, blocks - i)
        part = table[i : i + some + weight.size - 1]
        found[i : i + some] = product(_band(weight, some), part)
    rowwise = found.reshape(blocks, rows, stride).transpose(1, 0, 2)
    return np.asarray(rowwise.reshape(rows, -1))


def _band(weight: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Return the table with row i equal to `weight` shifted by i columns."""
    found = np.zeros((rows, rows + weight.size - 1), weight.dtype)
    for i in range(rows):
        found[i, i : i + weight.size] = weight
    return found


# ---- functions -----------------------------------------------------------------------


def _log_peak(p: Floats) -> Floats:
    """Return ln of the largest x^p e^-x over x >= 0."""
    return np.asarray(p * np.log(np.maximum(p, 1e-300)) - p)


def _series(z: Complexes, first: float, signs: list[float]) -> Complexes:
    """Return first + signs[0] z + signs[1] z^2 + .."""
    total = np.zeros_like(z)
    for each in signs[::-1]:
        total = (total + each) * z
    return total + first


def _exp_less_line(z: Complexes) -> Complexes:
    """Return e^-z - 1 + z; the error is below 8 U of it, or 24 U |z| beyond _NEAR."""
    found = complex_expm1(-z) + z
    near = np.abs(z) <= _NEAR
    w = z[near]
    rest = [(-1) ** j / math.factorial(j + 2) for j in range(1, 15)]
    found[near] = w * w * _series(w, 0.5, rest)
    return found


def _log1p(w: Complexes) -> tuple[Complexes, Floats]:
    """Return ln(1 + w) and its error bounds."""
    found, size = complex_log1p(w), np.abs(w)
    slip = 16 * U * np.minimum(size, 1 + np.abs(found))
    near = size <= _SMALL
    z = w[near]
    rest = [(-1) ** j / (j + 2) for j in range(1, 10)]
    found[near] = z - z * z * _series(z, 0.5, rest)
    slip[near] = 2 * U * size[near]
    return found, slip
