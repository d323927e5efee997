"""delta(epsilon) as a contour integral, certified from both sides.

For theta > 0, T > 0 and step 2 pi/T, the trapezoidal sum of
exp(K(z) - epsilon z)/(z (z + 1)) on Re z = theta is the sum over all n of
delta(epsilon + n T) exp(theta n T): delta itself and aliases, none negative, which
Chernoff bounds limit. So the full sum is an upper bound, and what is left are the
nodes cut off, the quadrature of single steps and rounding, each with a bound. Any
theta and T give valid bounds: what the planner guesses costs width, never validity.
The theorems are those of docs/proofs/numerical_accounting.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fastdp.accounting._composition import (
    Composition,
    envelope_grid,
    log_chernoff,
    log_or_lowest,
)
from fastdp.accounting._losses import (
    PER_OCTAVE,
    Complexes,
    Floats,
    U,
    order,
    orders,
    short,
)

#: What aliases and cut-off nodes may each add to delta, relative to it.
_SHARE = 1e-13

#: Most nodes of the outer sum, and most complex numbers in a table.
_MOST_NODES, _TABLE = 1 << 16, 1 << 19

#: Octaves of orders that are looked at.
_LEAST_BLOCK, _MOST_BLOCK = -40, 40


class Chernoff:
    """ln C(t) + K(t), rounded up, at the orders of the common grid."""

    def __init__(self, composition: Composition) -> None:
        self._composition = composition
        self._blocks: dict[int, Floats] = {}

    def block(self, number: int) -> Floats:
        """Return the values of one octave."""
        if number not in self._blocks:
            cumulants = self._composition.cumulants(number)
            self._blocks[number] = _raised(orders(number), *cumulants)
        return self._blocks[number]

    def between(self, first: int, last: int) -> tuple[Floats, Floats]:
        """Return the orders of octaves first to last - 1, and the values there."""
        blocks = range(first, last)
        return (
            np.concatenate([orders(b) for b in blocks]),
            np.concatenate([self.block(b) for b in blocks]),
        )

    def best_epsilon(self, log_delta: float) -> tuple[int, float]:
        """Return the order with the least bound of epsilon, by index, and it."""
        return self._least(lambda t, bound: (bound - log_delta) / t)

    def best_delta(self, epsilon: float) -> tuple[int, float]:
        """Return the order with the least bound of ln delta, by index, and it."""
        return self._least(lambda t, bound: bound - t * epsilon)

    def near(self, index: int) -> tuple[Floats, Floats]:
        """Return finer orders about that of an index, and the values there."""
        t = order(index) * np.geomspace(0.89, 1.13, 33)
        return t, _raised(t, *self._composition.cumulants_at(t))

    def _least(self, reading: Callable[[Floats, Floats], Floats]) -> tuple[int, float]:
        first, last = -1, 3
        while True:
            t, bound = self.between(first, last)
            values = reading(t, bound)
            at = int(np.argmin(values))
            if at == 0 and first > _LEAST_BLOCK:
                first -= 3
            elif at == t.size - 1 and last < _MOST_BLOCK:
                last += 2
            else:
                return PER_OCTAVE * first + at, float(values[at])


def _raised(t: Floats, value: Floats, error: Floats) -> Floats:
    """Return ln C(t) + K(t), rounded up; infinite where K was given up."""
    with np.errstate(invalid="ignore"):
        bound = value + error + 1e-12 * (1 + np.abs(value)) + log_chernoff(t)
    return np.where(np.isfinite(bound), bound, np.inf)


@dataclass(frozen=True)
class LogDelta:
    """ln delta at one epsilon: proved bounds, and the estimate between them."""

    lower: float
    estimate: float
    upper: float


class TooCostlyError(Exception):
    """The contour would need more nodes than allowed."""


class Contour:
    """The integral of a composition along Re z = theta, good near one epsilon.

    Parameters
    ----------
    composition : Composition
        The steps of one direction.
    chernoff : Chernoff
        The composition's bounds.
    epsilon, log_delta : float
        About where the profile is to be read.

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
    ) -> None:
        middle = chernoff.best_delta(epsilon)[0]
        around = middle // PER_OCTAVE
        self._t, self._chernoff = chernoff.between(around - 4, around + 3)
        index, period = self._cheapest(order(middle), epsilon, log_delta)
        self.theta = float(self._t[index])
        # Few different steps, so that compositions share their nodes.
        self._step = short(2.0 ** (math.floor(4 * math.log2(2 * math.pi / period)) / 4))
        try:
            tilt = composition.tilt(self.theta)
            self._tilt = tilt
            level = tilt.cumulant - self.theta * epsilon - math.log(math.pi)
            count = self._cut(composition, log_delta - level)
            nodes = composition.nodes(self.theta, self._step, count)
        except OverflowError as error:
            raise TooCostlyError from error
        self._y = self._step * np.arange(1, count + 1)
        z = self.theta + 1j * self._y
        self._kernel = 1 / (z * (z + 1))
        self._log_phi = nodes.log_phi
        self._growth = nodes.growth + U * (60 + 8 * np.abs(nodes.log_phi))

    # ---- planning ------------------------------------------------------------------

    def _cheapest(
        self, theta: float, epsilon: float, log_delta: float
    ) -> tuple[int, float]:
        """Return the order's index and T: few nodes, and a sum that hardly cancels.

        Off the saddle terms cancel more but the period may be much shorter.
        """
        need = self._chernoff - self._t * epsilon - log_delta
        best = (math.inf, 0, 1 / theta)
        for i in np.flatnonzero((self._t > 0.2 * theta) & (self._t < 2 * theta)):
            away = np.abs(self._t - self._t[i])
            room = need - math.log(_SHARE)
            right = float(np.min(room[i + 1 :] / away[i + 1 :]))
            left = float(np.min(room[:i] / away[:i]))
            period = max(right, left, 1e-3 / theta)
            cost = math.log(period) + 1.0 * max(0.0, float(need[i]))
            if cost < best[0]:
                best = (cost, int(i), period)
        if best[0] == math.inf:
            raise TooCostlyError
        return best[1], best[2]

    def _cut(self, composition: Composition, room: float) -> int:
        """Return how many nodes to keep, and set the bound of the others (theorem 2).

        `room` is ln of what delta is in units of exp(K - theta epsilon)/pi.
        """
        log_allowed = math.log(_SHARE) + min(room, 600.0)
        block = math.floor(math.log2(self._step) / 4) - 1
        y, log_bound = np.empty(0), np.empty(0)
        while True:
            y = np.append(y, envelope_grid(block))
            more = composition.log_envelope(self.theta, block)
            log_bound = np.append(log_bound, more)
            if log_bound[-1] < log_allowed - 2 - math.log(y[-1]):
                break
            if y[-1] > 64 * _MOST_NODES * self._step:
                break
            block += 1
        # Differences of arc tangents, without cancellation.
        angle = np.arctan(self.theta * np.diff(y) / (self.theta**2 + y[1:] * y[:-1]))
        bound = np.exp(np.minimum(log_bound, 0.0))
        cells = bound[:-1] * angle / self.theta
        beyond = np.append(np.cumsum(cells[::-1])[::-1], 0.0) + bound[-1] / y[-1]
        enough = np.flatnonzero(beyond <= math.exp(log_allowed))
        if enough.size == 0 or y[enough[0]] > _MOST_NODES * self._step:
            raise TooCostlyError
        self._beyond = float(beyond[enough[0]]) * (1 + 1e-9)
        return _rounded_up(y[enough[0]] / self._step)

    # ---- evaluating ----------------------------------------------------------------

    def log_deltas(self, epsilon: Floats) -> list[LogDelta]:
        """Return ln delta at each epsilon; good near the one planned for."""
        rows = max(1, _TABLE // self._y.size)
        results: list[LogDelta] = []
        for i in range(0, epsilon.size, rows):
            results += self._log_deltas(epsilon[i : i + rows])
        return results

    def _log_deltas(self, epsilon: Floats) -> list[LogDelta]:
        phase = self._phase(epsilon)
        nodes = np.exp(self._log_phi + phase) * self._kernel
        half = 0.5 / (self.theta * (1 + self.theta))
        total = half + nodes.real.sum(axis=1)
        size = np.abs(nodes)
        slip = self._slip(epsilon)
        growth = self._growth + np.multiply.outer(slip, self._y)
        error = (size * np.expm1(np.minimum(growth, 600.0))).sum(axis=1)
        error += U * (0.5 * self._y.size + 60) * (size.sum(axis=1) + half)
        scale = self._step / math.pi
        slack = (scale * error + self._beyond / math.pi) * (1 + 1e-12)
        middle = scale * total
        alias = self._aliases(epsilon)
        base = self._tilt.cumulant - self.theta * epsilon
        base_error = self._tilt.error + 8 * U * (
            1 + abs(self._tilt.cumulant) + np.abs(self.theta * epsilon)
        )
        return [
            LogDelta(
                float(base[k] - base_error[k])
                + log_or_lowest(float(middle[k] - slack[k] - alias[k])),
                float(base[k]) + log_or_lowest(float(middle[k])),
                float(base[k] + base_error[k])
                + log_or_lowest(float(middle[k] + slack[k])),
            )
            for k in range(epsilon.size)
        ]

    def _phase(self, epsilon: Floats) -> Complexes:
        return np.asarray(np.multiply.outer(1j * (self._tilt.mean - epsilon), self._y))

    def _slip(self, epsilon: Floats) -> Floats:
        """Bound the error of the phase, for y = 1."""
        return self._tilt.drift + 4 * U * (abs(self._tilt.mean) + np.abs(epsilon))

    def _aliases(self, epsilon: Floats) -> Floats:
        """Bound the aliases (theorem 1), in units of exp(K(theta) - theta epsilon)."""
        away = self._t - self.theta
        fold = np.abs(away) * (2 * math.pi / self._step)
        use = fold > 1e-6
        offset = self._chernoff[use] - self._tilt.cumulant - fold[use]
        exponent = offset - np.multiply.outer(epsilon, away[use])
        with np.errstate(over="ignore"):
            each = np.exp(exponent) / -np.expm1(-fold[use])
        right = away[use] > 0
        sides = each[:, right].min(axis=1) + each[:, ~right].min(axis=1)
        return np.asarray(sides * (1 + 1e-6))

    def chernoff(self, epsilon: Floats) -> Floats:
        """Return Chernoff bounds of ln delta, from orders about theta."""
        exponent = self._chernoff - np.multiply.outer(epsilon, self._t)
        return np.asarray(exponent.min(axis=1))

    def slope(self, epsilon: float, log_delta: float) -> float:
        """Return an estimate of d ln(delta)/d epsilon."""
        z = self.theta + 1j * self._y
        nodes = np.exp(self._log_phi + self._phase(np.array([epsilon]))[0]) / (z + 1)
        total = 0.5 / (self.theta + 1) + float(nodes.real.sum())
        base = self._tilt.cumulant - self.theta * epsilon - log_delta
        return -self._step / math.pi * total * math.exp(min(base, 600.0))


def _rounded_up(count: float) -> int:
    """Return a number of nodes, one of few, and at least `count`."""
    if count <= 16:
        return 16
    unit = 1 << (math.ceil(count).bit_length() - 4)
    return unit * math.ceil(count / unit)
