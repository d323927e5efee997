"""Chernoff bounds of delta and epsilon, from K at few orders.

delta(epsilon) <= C(t) exp(K(t) - t epsilon) for every t > 0. Any orders give valid
bounds; if the composition has few different steps, many orders are computed together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fastdp.accounting._pld.losses import (
    FARTHEST,
    ORDERS,
    PER_OCTAVE,
    Floats,
    Indices,
    log_chernoff,
    log_or_lowest,
    on_grid,
    order,
)

if TYPE_CHECKING:
    from fastdp.accounting._pld.composition import Composition

#: Search orders with indices from _LEAST to _MOST (a last jump may go to twice that);
#: _COARSE is the length of the first jump.
_LEAST, _MOST, _COARSE = -240, 240, 6

#: Indices of the orders tried first: _FIRST if orders are cheap, _FIRST_MANY if each
#: costs time, _ROUGH for a rough bound of epsilon with cheap orders.
_FIRST, _FIRST_MANY = np.arange(-18, 31), np.array([0, 6, 12, 18])
_ROUGH = np.arange(-6, 19, 3)

#: If orders are cheap, look at this many below and above the best one.
_BELOW, _ABOVE = 18, 15

#: Use the known orders within this distance of the best one, by index.
_NEAR = 24

#: If the bound of ln delta is above _NEARLY, delta is nearly 1: then accept an order
#: with K(t) - t epsilon, ln of the terms' size, below _CANCELED.
_NEARLY, _CANCELED = -0.5, 2.0

#: A typical value of ln(delta/least Chernoff bound).
_GAP = -1.5


class Chernoff:
    """ln C(t) + K(t), rounded up, at orders of the common grid, as many as needed."""

    def __init__(self, composition: Composition) -> None:
        self._composition = composition
        self._bounds = np.full(ORDERS.size, np.nan)
        self._index = np.empty(0, np.int64)  # of the known orders, ascending
        self._t, self._bound = np.empty(0), np.empty(0)
        self._distance = 2 if composition.many else 1
        self._ask(composition.known_orders)

    def _ask(self, indices: Indices) -> None:
        """Evaluate more orders of the grid, by ascending index."""
        places = indices + FARTHEST
        new = np.isnan(self._bounds[places])
        if not new.any():
            return
        wanted = places[new]
        value, error = self._composition.cumulants(indices[new])
        self._bounds[wanted] = _raised(ORDERS[wanted], value, error)
        known = np.flatnonzero(~np.isnan(self._bounds))
        self._index = known - FARTHEST
        self._t, self._bound = ORDERS[known], self._bounds[known]

    def about(self, index: int) -> tuple[Indices, Floats, Floats]:
        """Return indices near `index`, and their orders and values after order 0."""
        if not self._composition.many:
            self._ask(on_grid(np.arange(index - _BELOW, index + _ABOVE)))
        ends = index - _NEAR, index + _NEAR + 1
        near = self._index[slice(*self._index.searchsorted(ends))]
        return (near, *self.at(near))

    def between(self, first: int, last: int) -> tuple[Floats, Floats]:
        """Return the orders of octaves first to last - 1, and the values there."""
        t, bound = self.at(np.arange(PER_OCTAVE * first, PER_OCTAVE * last))
        return t[1:], bound[1:]

    def at(self, indices: Indices) -> tuple[Floats, Floats]:
        """Return the orders of ascending indices, and the values, after order 0."""
        indices = on_grid(indices)
        self._ask(indices)
        t, bound = np.zeros((2, indices.size + 1))
        t[1:], bound[1:] = ORDERS[indices + FARTHEST], self._bounds[indices + FARTHEST]
        return t, bound

    def rough_epsilon(self, log_delta: float) -> float:
        """Return a bound on epsilon, from few orders if none are known."""
        if not self._index.size:
            self._ask(_FIRST_MANY if self._composition.many else _ROUGH)
        return float(((self._bound - log_delta) / self._t).min())

    def best_epsilon(self, log_delta: float) -> tuple[int, float]:
        """Return the order's index with the least bound of epsilon, and that bound."""
        return self._least(lambda t, bound: (bound - log_delta) / t)

    def best_delta(self, epsilon: float) -> tuple[int, float]:
        """Return the order's index with the least bound of ln delta, and that bound.

        If the bound at the least known order is positive, smaller orders are not tried,
        because their bounds are close to 0.
        """
        return self._least(lambda t, bound: bound - t * epsilon, most=0.0)

    def useful(self, epsilon: float) -> int:
        """Return an order for the contour, by index; the saddle if there is one.

        If delta is nearly 1, the best order is close to 0 and its sum needs very many
        nodes; a larger order works as long as the terms hardly cancel.
        """
        best, bound = self.best_delta(epsilon)
        if bound < _NEARLY:
            return best
        least = best if bound < 0 else _LEAST
        for index in range(int(_FIRST_MANY[-1]), least, -_COARSE // 2):
            t, value = self.at(np.array([index]))
            gain = float(log_chernoff(t[1:])[0])
            if value[1] - gain - t[1] * epsilon < _CANCELED:
                return index
        return best

    def guess(self, log_delta: float) -> float:
        """Return an estimate >= 0 of the epsilon at which ln delta is `log_delta`.

        It uses the second derivative of K at the saddle, as if the tilted law were
        Gaussian.
        """
        index = self.best_epsilon(log_delta)[0]
        gap = self._gap(index)
        index, epsilon = self.best_epsilon(log_delta - gap)
        return max(0.0, epsilon + (gap - self._gap(index)) / order(index))

    def _gap(self, index: int) -> float:
        """Return an estimate of ln(delta/Chernoff bound) at this order."""
        at = int(self._index.searchsorted(index))
        if not 0 < at < self._index.size - 1:
            return _GAP
        t = self._t[at - 1 : at + 2]
        k = (self._bound[at - 1 : at + 2] - log_chernoff(t)).tolist()
        low, theta, high = t.tolist()
        slopes = (k[1] - k[0]) / (theta - low), (k[2] - k[1]) / (high - theta)
        spread = 2 * (slopes[1] - slopes[0]) / (high - low)
        if not 0 < spread < math.inf:
            return _GAP
        root = math.sqrt(spread / 2)
        both = _scaled_erfc(theta * root) - _scaled_erfc((1 + theta) * root)
        gap = log_or_lowest(both / 2) - float(log_chernoff(t[1:2])[0])
        return gap if math.isfinite(gap) else _GAP

    def near(self, index: int) -> tuple[Floats, Floats]:
        """Return closely spaced orders around that of `index`, and their values."""
        t = order(index) * np.geomspace(0.89, 1.13, 33)
        return t, _raised(t, *self._composition.cumulants_at(t))

    def _least(
        self,
        reading: Callable[[Floats, Floats], Floats],
        most: float = math.inf,
    ) -> tuple[int, float]:
        """Return the index of the order with the least `reading`, and its value.

        The reading must fall and then rise with the order. If it is at least `most` at
        the least known order, smaller orders are not tried.
        """
        if not self._index.size:
            self._ask(_FIRST_MANY if self._composition.many else _FIRST)
        far = _COARSE
        while True:
            values = reading(self._t, self._bound)
            at = int(values.argmin())
            index, last = int(self._index[at]), self._index.size - 1
            if at == 0 and values[0] >= most:
                return index, float(values[0])
            if at == 0 and index > _LEAST:
                farther = np.array([index - 2 * far, index - far])
                self._ask(np.unique(np.maximum(farther, 2 * _LEAST)))
                far *= 2
            elif at == last and index < _MOST:
                self._ask(np.array([min(index + far, 2 * _MOST)]))
                far *= 2
            else:
                wanted = self._between(self._index[max(0, at - 1) : at + 2].tolist())
                if not wanted:
                    return index, float(values[at])
                self._ask(np.array(wanted))

    def _between(self, known: list[int]) -> list[int]:
        """Return indices to try between neighbors that are too far apart."""
        wanted: list[int] = []
        for low, high in itertools.pairwise(known):
            if high - low > self._distance:
                inner = range(low + 1, high)
                wanted += [(low + high) // 2] if self._distance > 1 else inner
        return wanted


def _raised(t: Floats, value: Floats, error: Floats) -> Floats:
    """Return ln C(t) + K(t), rounded up; infinite where K is unknown."""
    with np.errstate(invalid="ignore"):
        bound = value + error + 1e-12 * (1 + np.abs(value)) + log_chernoff(t)
    return np.where(np.isfinite(bound), bound, np.inf)


def _scaled_erfc(x: float) -> float:
    """Return about exp(x^2) erfc(x), x >= 0."""
    if x < 5:
        return math.exp(x * x) * math.erfc(x)
    return (1 - 0.5 / (x * x)) / (x * math.sqrt(math.pi))
