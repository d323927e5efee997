"""delta(epsilon) as a contour integral, certified from both sides.

For theta > 0, T > 0 and step 2 pi/T, the trapezoidal sum of
exp(K(z) - epsilon z)/(z (z + 1)) on Re z = theta is the sum over all n of
delta(epsilon + n T) exp(theta n T): delta itself plus aliases, which are not negative
and have Chernoff bounds. So the full sum is an upper bound. The other errors are
truncation of the nodes, the quadrature of single steps and rounding; each has a bound.
Any theta and T give valid bounds: a bad guess of the planner only makes the bounds
wider. The theorems are in docs/proofs/numerical_accounting.md.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastdp.accounting._numeric import product
from fastdp.accounting._pld.batches import LoopBatch, total
from fastdp.accounting._pld.chernoff import Chernoff
from fastdp.accounting._pld.composition import Composition, Plan
from fastdp.accounting._pld.losses import (
    Complexes,
    Floats,
    GaussianLoss,
    Indices,
    U,
    log_chernoff,
    log_or_lowest,
    order,
    short,
)

#: Aliases and cut-off nodes may each add this much to delta, relative to it.
_SHARE = 1e-13

#: The same for blurred losses, whose bounds are wider anyway.
_BLURRED_SHARE = 1e-8

#: With a reused plan they may add _KEPT_SHARE times as much, and terms may exceed delta
#: by a further factor of e^_KEPT_EXCESS.
_KEPT_SHARE, _KEPT_EXCESS = 30.0, 1.5

#: Most nodes of the outer sum; most complex numbers in a table.
_MOST_NODES, _TABLE = 1 << 16, 1 << 19

#: If blurring is allowed, an exact sum may take _TERMS exponentials and a blurred one
#: _BLURRED_TERMS. Give up below _FEWEST_BLURRED nodes; a blurred sum has at most
#: _MOST_BLURRED.
_TERMS, _BLURRED_TERMS, _FEWEST_BLURRED, _MOST_BLURRED = 1.2e7, 6e6, 128, 1 << 15

#: Give up if terms exceed delta by more than e^_MOST_LOST: cancellation would leave too
#: few digits.
_MOST_LOST = 24.0

#: Sum the envelope over _CELLS_PER_OCTAVE cells of y per octave: first _CELLS cells,
#: then _MORE_CELLS at a time.
_CELLS_PER_OCTAVE, _CELLS, _MORE_CELLS = 6, 24, 48


@dataclass(frozen=True)
class LogDelta:
    """ln delta at one epsilon: proved bounds, and the estimate between them."""

    lower: float
    estimate: float
    upper: float


class TooCostlyError(Exception):
    """The contour would need more nodes than allowed."""


@dataclass(frozen=True)
class _Weighted:
    """Nodes by modulus and angle, their total, and sums that bound their errors.

    If e^g - 1 bounds a node's relative error, `error` is the sum of size (e^g - 1),
    and `steep` is the sum of size e^g y.
    """

    size: Floats
    angle: Floats
    total: float
    error: float
    steep: float

    def sums(self, turn: Floats) -> Floats:
        """Return the sums of size times cos(angle + turn), one per row of `turn`."""
        return product(np.cos(self.angle + turn), self.size)


class Contour:
    """The integral of a composition along Re z = theta, accurate near one epsilon.

    Parameters
    ----------
    composition : Composition
        The steps of one direction.
    chernoff : Chernoff
        The composition's bounds.
    epsilon, log_delta : float
        Roughly the point of the profile to read.
    kept : Plan, optional
        A plan to reuse, made for some of the steps.
    blurred : bool
        Whether Gaussian noise may be added to the losses if the exact sum would need
        too many nodes (theorem 19).

    Raises
    ------
    TooCostlyError
        Too many nodes are needed.
    """

    #: Most nodes, and the share that aliases and cut-off nodes may add; the variance of
    #: the blur, and the factor by which its cost exceeds variance times density.
    _most_nodes, _share = _MOST_NODES, _SHARE
    _blur, _excess = 0.0, 1.0

    def __init__(
        self,
        composition: Composition,
        chernoff: Chernoff,
        epsilon: float,
        log_delta: float,
        kept: Plan | None = None,
        blurred: bool = False,
    ) -> None:
        self._composition = composition
        try:
            if kept is None:
                plan = self._planned(chernoff, epsilon, log_delta, blurred)
            else:
                plan = kept
                self._t, self._chernoff = chernoff.at(plan.orders)
            parts = [composition.nodes(plan.theta, plan.step, plan.count)]
            self._blur, self._excess = plan.blur, math.exp(plan.blur / 8) * (1 + 1e-9)
            if plan.blur:
                noise = GaussianLoss(plan.blur)
                self._share = _BLURRED_SHARE
                self._chernoff = self._chernoff + noise.cumulants(self._t)[0] * (
                    1 + 1e-9
                )
                tilted = LoopBatch((noise,), (1,)).tilted(plan.theta)
                parts.append(tilted.nodes(plan.step, plan.count))
            self._tilt, nodes = total(parts)
        except OverflowError as error:
            raise TooCostlyError from error
        composition.plan = plan
        self._lost = plan.lost
        self.theta, self._step, self._beyond = plan.theta, plan.step, plan.beyond
        self._y = self._step * np.arange(1.0, plan.count + 1)
        z = self.theta + 1j * self._y
        kernel: Complexes = np.asarray(1 / (z * (z + 1)))
        self._log_phi, growth = nodes.log_phi, nodes.growth
        growth = growth + U * (60 + 8 * np.abs(nodes.log_phi))
        self._growth = np.minimum(growth, 600.0)
        self._nodes = self._guessed = self._weighted(kernel)
        if plan.blur:  # it adds about half of its upper bound
            self._guessed = self._weighted(np.asarray(kernel - plan.blur / 2))

    # ---- planning ------------------------------------------------------------------

    def _planned(
        self, chernoff: Chernoff, epsilon: float, log_delta: float, blurred: bool
    ) -> Plan:
        middle = chernoff.useful(epsilon)
        orders, self._t, self._chernoff = chernoff.about(middle)
        if not blurred:
            return self._plan_of(middle, orders, epsilon, log_delta)
        self._most_nodes = self._few_nodes(_TERMS)
        try:
            return self._plan_of(middle, orders, epsilon, log_delta)
        except TooCostlyError:
            self._share = _BLURRED_SHARE
            return self._plan_of(middle, orders, epsilon, log_delta, True)

    def _plan_of(
        self,
        middle: int,
        orders: Indices,
        epsilon: float,
        log_delta: float,
        blurred: bool = False,
    ) -> Plan:
        index, period = self._cheapest(order(middle), epsilon, log_delta)
        theta = self.theta = float(self._t[index])
        # Use one of few step lengths, so that compositions share their nodes.
        octave = math.floor(4 * math.log2(2 * math.pi / period)) / 4
        step = self._step = short(2.0**octave)
        cumulant = float(self._chernoff[index] - log_chernoff(self._t[index]))
        lost = cumulant - theta * epsilon - log_delta
        if lost > _MOST_LOST:
            raise TooCostlyError
        room, blur = math.log(math.pi) - lost, 0.0
        if blurred:
            count, blur = self._blurred(room)
        else:
            count = self._cut(self._composition, room)
        return Plan(theta, step, count, self._beyond, lost, orders, blur)

    def _few_nodes(self, terms: float) -> int:
        """Return how many nodes cost about `terms` exponentials."""
        found = int(terms / self._composition.terms)
        if found < _FEWEST_BLURRED:
            raise TooCostlyError
        return min(found, _MOST_NODES)

    def _blurred(self, room: float) -> tuple[int, float]:
        """Return the number of nodes to keep, and the noise that damps the others."""
        count = min(self._few_nodes(_BLURRED_TERMS), _MOST_BLURRED)
        end = self._step * count
        known = float(self._composition.log_envelope(self.theta, np.array([end]))[0])
        need = known - math.log(self._share) - min(room, 600.0)
        blur = 2 * max(need, 0.0) / (end * end)
        bound = known - blur * end * end / 2 * (1 - 1e-9)
        self._beyond = math.exp(bound) / end
        return count, blur

    def _cheapest(
        self, theta: float, epsilon: float, log_delta: float
    ) -> tuple[int, float]:
        """Return the index of theta, and T, for few nodes and little cancellation.

        Away from the saddle, terms cancel more, but the period may be much shorter.
        """
        need = self._chernoff - self._t * epsilon - log_delta
        room = need - math.log(self._share)
        away = self._t - self._t[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = room / np.abs(away)
            right = np.where(away > 0, each, np.inf).min(axis=1)
            left = np.where(away < 0, each, np.inf).min(axis=1)
            period = np.maximum(np.maximum(right, left), 1e-3 / self._t)
            cost = np.log(period) + np.maximum(0.0, need)
        usable = (self._t > 0.2 * theta) & (self._t < 2 * theta)
        cost = np.where(usable & np.isfinite(cost), cost, np.inf)
        best = int(np.argmin(cost))
        if cost[best] == math.inf:
            raise TooCostlyError
        return best, float(period[best])

    def _cut(self, composition: Composition, room: float) -> int:
        """Return the number of nodes to keep; set the bound on the others (theorem 2).

        `room` is ln of delta in units of exp(K - theta epsilon)/pi.
        """
        log_allowed = math.log(self._share) + min(room, 600.0)
        first, y, log_bound = 2 * _CELLS_PER_OCTAVE, np.empty(0), np.empty(0)
        last = first + _CELLS
        while True:
            more = self._step * np.exp2(np.arange(first, last) / _CELLS_PER_OCTAVE)
            y = np.append(y, more)
            log_bound = np.append(log_bound, composition.log_envelope(self.theta, more))
            if log_bound[-1] < log_allowed - 2 - math.log(y[-1]):
                break
            if y[-1] > 64 * self._most_nodes * self._step:
                break
            first, last = last, last + _MORE_CELLS
        # Differences of arc tangents, without cancellation.
        angle = np.arctan(self.theta * np.diff(y) / (self.theta**2 + y[1:] * y[:-1]))
        bound = np.exp(np.minimum(log_bound, 0.0))
        cells = bound[:-1] * angle / self.theta
        beyond = np.append(np.cumsum(cells[::-1])[::-1], 0.0) + bound[-1] / y[-1]
        enough = np.flatnonzero(beyond <= math.exp(log_allowed))
        if enough.size == 0 or y[enough[0]] > self._most_nodes * self._step:
            raise TooCostlyError
        self._beyond = float(beyond[enough[0]]) * (1 + 1e-9)
        return _rounded_up(y[enough[0]] / self._step)

    def slope(self, epsilon: float, log_delta: float) -> float:
        """Return an estimate of d ln(delta)/d epsilon, if ln(delta) is `log_delta`."""
        value, slope = self.estimate(epsilon)
        return slope * math.exp(min(value - log_delta, 600.0))

    def fits(self, epsilon: float) -> bool:
        """Whether a reused plan is about as good as a new plan for this epsilon."""
        value = self.estimate(epsilon)[0]
        level = self._tilt.cumulant - self.theta * epsilon
        if not level - value <= self._lost + _KEPT_EXCESS:
            return False
        rest = float(self._aliases(np.array([epsilon]))[0]) + self._beyond / math.pi
        return log_or_lowest(rest) + level <= value + math.log(
            _KEPT_SHARE * self._share
        )

    # ---- evaluating ----------------------------------------------------------------

    def estimate(self, epsilon: float) -> tuple[float, float]:
        """Return ln delta and its derivative by epsilon, without bounds."""
        nodes, y = self._guessed, self._y
        angle = nodes.angle + (self._tilt.mean - epsilon) * y
        total = 0.5 / (self.theta * (1 + self.theta)) - self._blur / 4
        total += float(product(np.cos(angle), nodes.size))
        if not total > 0:
            return -math.inf, -self.theta
        slope = float(product(np.sin(angle), nodes.size * y)) / total - self.theta
        base = self._tilt.cumulant - self.theta * epsilon
        return base + log_or_lowest(self._step / math.pi * total), slope

    def spread(self, epsilon: float, log_delta: float) -> float:
        """Return roughly the least width of the bounds on ln delta at this delta."""
        base, base_error = self._base(epsilon)
        unit = math.exp(min(base - log_delta, 600.0))
        return float(2 * (self._slack(epsilon) * unit + base_error))

    def log_deltas(self, epsilon: Floats) -> list[LogDelta]:
        """Return ln delta at each epsilon; accurate near the planned epsilon."""
        columns = [row.tolist() for row in self.bounds(epsilon)]
        return [LogDelta(*found) for found in zip(*columns, strict=True)]

    def bounds(self, epsilon: Floats) -> Floats:
        """Return lower bounds, estimates and upper bounds of ln delta as rows."""
        rows = max(1, _TABLE // self._y.size)
        result = np.empty((3, epsilon.size))
        for i in range(0, epsilon.size, rows):
            result[:, i : i + rows] = self._bounds(epsilon[i : i + rows])
        return result

    def _bounds(self, epsilon: Floats) -> Floats:
        turn = np.multiply.outer(self._tilt.mean - epsilon, self._y)
        half = 0.5 / (self.theta * (1 + self.theta))
        scale = self._step / math.pi
        middle = scale * (half + self._nodes.sums(turn))
        slack = self._slack(epsilon)
        base, base_error = self._base(epsilon)
        value = np.array([middle - slack, middle, middle + slack])
        value[0] -= self._aliases(epsilon)
        if self._blur:
            waves = self._waves
            total = 0.5 + waves.sums(turn)
            error = self._error(waves, 0.5, epsilon)
            most = self._blur * scale * (total + error) + self._beyond / math.pi
            value[0] -= most * self._excess * np.exp(2 * base_error)
            value[1] -= self._blur * scale * total / 2
        level = np.array([base - base_error, base, base + base_error])
        with np.errstate(divide="ignore"):
            return np.asarray(level + np.log(np.maximum(value, 0.0)))

    def _base(self, epsilon: Any) -> tuple[Any, Any]:
        """Return K(theta) - theta epsilon, and a bound of its error."""
        known, turn = self._tilt.cumulant, self.theta * epsilon
        return known - turn, self._tilt.error + 8 * U * (1 + abs(known) + abs(turn))

    def _slack(self, epsilon: Any) -> Any:
        """Bound errors of sum and cut-off nodes, in units of exp(K - theta epsilon)."""
        half = 0.5 / (self.theta * (1 + self.theta))
        error = self._step * self._error(self._nodes, half, epsilon) + self._beyond
        return error * ((1 + 1e-12) / math.pi)

    def _error(self, nodes: _Weighted, first: float, epsilon: Any) -> Any:
        """Bound the error of a sum over nodes and its first term.

        A node's relative error is e^(g + sy) - 1, and e^(sy) - 1 <= sy e^(sY).
        """
        slip = self._tilt.drift + 4 * U * (abs(self._tilt.mean) + abs(epsilon))
        error = nodes.error + slip * nodes.steep * np.exp(slip * float(self._y[-1]))
        return error + U * (0.5 * self._y.size + 60) * (nodes.total + first)

    def _weighted(self, kernel: Complexes | None = None) -> _Weighted:
        """Return the nodes of phi times `kernel`, with sums for their errors."""
        size, angle = np.exp(self._log_phi.real), self._log_phi.imag
        if kernel is not None:
            size = size * np.abs(kernel)
            angle = angle + np.arctan2(kernel.imag, kernel.real)
        error = size * np.expm1(self._growth)
        steep = float(product(size + error, self._y))
        return _Weighted(size, angle, float(size.sum()), float(error.sum()), steep)

    @functools.cached_property
    def _waves(self) -> _Weighted:
        """The nodes for the density of the loss with added noise."""
        return self._weighted()

    def _aliases(self, epsilon: Floats) -> Floats:
        """Bound the aliases (theorem 1), in units of exp(K(theta) - theta epsilon)."""
        sides = 0.0
        for away, level in self._alias_lines:
            least = (level - np.multiply.outer(epsilon, away)).min(axis=1)
            with np.errstate(over="ignore"):
                sides = sides + np.exp(least)
        return np.asarray(sides * (1 + 1e-6))

    @functools.cached_property
    def _alias_lines(self) -> list[tuple[Floats, Floats]]:
        """Orders minus theta, below and above 0, and ln of aliases at epsilon 0."""
        away = self._t - self.theta
        fold = np.abs(away) * (2 * math.pi / self._step)
        use = fold > 1e-6
        away, fold = away[use], fold[use]
        level = self._chernoff[use] - self._tilt.cumulant - fold
        level -= np.log(-np.expm1(-fold))
        first = int(away.searchsorted(0.0))
        return [(away[:first], level[:first]), (away[first:], level[first:])]

    def chernoff(self, epsilon: Floats) -> Floats:
        """Return Chernoff bounds of ln delta, from orders near theta."""
        exponent = self._chernoff - np.multiply.outer(epsilon, self._t)
        return np.asarray(exponent.min(axis=1))


def _rounded_up(count: float) -> int:
    """Round `count` up to one of few numbers of nodes."""
    if count <= 16:
        return 16
    unit = 1 << (math.ceil(count).bit_length() - 4)
    return unit * math.ceil(count / unit)
