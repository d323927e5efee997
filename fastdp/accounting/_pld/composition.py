"""Sums over the steps of a composition, cached so that adding a step is cheap.

The contour needs only sums over the steps: K at some orders, the logarithm of an
envelope, and ln phi at the nodes of a contour. A composition with one more step reuses
the sums of its predecessor.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from fastdp.accounting._pld.batches import batches_of, total
from fastdp.accounting._pld.losses import (
    FARTHEST,
    ORDERS,
    Batch,
    Floats,
    GaussianLoss,
    Indices,
    Loss,
    Nodes,
    Tilt,
    TiltedBatch,
    U,
)

#: Move steps from the list to the table when the list is longer than this.
_LISTED = 64

#: Reuse a predecessor's sums if at most this many steps were added.
_MOST_ADDED = 16

#: Most orders whose K a composition hands on to a longer one.
_MOST_ORDERS = 64

#: Cache the nodes of _KEPT contours, and _ADDED results for added steps.
_KEPT, _ADDED = 8, 128

#: Up to this many different steps, more orders cost next to nothing.
_FEW = 16

Steps = tuple[tuple[Loss, int], ...]
Place = tuple[float, float, int]


@dataclass(frozen=True)
class Plan:
    """A contour: theta, the distance and number of its nodes, and its errors.

    `beyond` bounds the omitted nodes, in units of exp(K - theta epsilon)/pi. `lost` is
    the cancellation, ln(exp(K - theta epsilon)/delta). `orders` are the indices of the
    orders that bound the aliases. `blur` is the variance of the added Gaussian loss.
    """

    theta: float
    step: float
    count: int
    beyond: float
    lost: float
    orders: Indices
    blur: float = 0.0


class _Known:
    """Cached results of a composition: K at orders (by index), ln phi at nodes."""

    def __init__(self) -> None:
        self.orders: Floats | None = None  # K and errors in rows, nan where unknown
        self.nodes: dict[Place, tuple[Tilt, Nodes]] = {}
        self.plan: Plan | None = None


@dataclass(frozen=True)
class _Content:
    """Steps: a table with all Gaussian noise as one step, and a list of later steps.

    `square` is mu^2 of all Gaussian noise in the table, as a double and a remainder.
    """

    table: dict[Loss, int]
    square: tuple[float, float]
    listed: Steps

    def plus(self, loss: Loss, count: int) -> _Content:
        """Return the content with one more step; the table is rarely copied."""
        more = _Content(self.table, self.square, (*self.listed, (loss, count)))
        few = max(_LISTED, len(self.table) // 8)
        return more if len(more.listed) <= few else more.flat()

    def flat(self) -> _Content:
        """Return the same steps with all of them in the table."""
        table, squares = dict(self.table), list(self.square)
        for loss, count in self.listed:
            if isinstance(loss, GaussianLoss):
                squares.append(count * loss.square)
            else:
                table[loss] = table.get(loss, 0) + count
        total = math.fsum(squares)
        return _Content(table, (total, math.fsum([*squares, -total])), ())


class Composition:
    """Steps of one direction with their counts; results are cached."""

    def __init__(self, steps: Steps = ()) -> None:
        self._content = _Content({}, (0.0, 0.0), steps)
        self._known = _Known()
        self._before: tuple[_Known, Steps] | None = None
        self._tilted = -1.0, list[TiltedBatch]()

    def plus(self, loss: Loss, count: int) -> Composition:
        """Return the composition with `loss` added `count` times."""
        result = Composition()
        result._content = self._content.plus(loss, count)
        added: Steps = ((loss, count),)
        if self._known.orders is not None:
            result._before = self._known, added
        elif self._before is not None and len(self._before[1]) < _MOST_ADDED:
            result._before = self._before[0], (*self._before[1], *added)
        return result

    @functools.cached_property
    def steps(self) -> Steps:
        """The distinct steps with their counts; all Gaussian noise is one step."""
        if self._content.listed:
            self._content = self._content.flat()
        square = self._content.square[0]
        gaussian = ((GaussianLoss(square), 1),) if square else ()
        return (*self._content.table.items(), *gaussian)

    @functools.cached_property
    def _batches(self) -> list[Batch]:
        return batches_of(self.steps)

    @property
    def many(self) -> bool:
        """Whether so many different steps exist that each order is slow."""
        listed = len(self._content.listed)
        return len(self._content.table) + listed > _FEW

    @functools.cached_property
    def terms(self) -> int:
        """The approximate number of exponentials per node."""
        return sum(loss.terms for loss, _ in self.steps)

    @functools.cached_property
    def normal_variance(self) -> float:
        """The approximate variance if the loss is nearly normal, otherwise infinity."""
        return sum(count * loss.normal_variance for loss, count in self.steps)

    # ---- the sums --------------------------------------------------------------------

    def cumulants(self, indices: Indices) -> Floats:
        """Return rows of K and of its error bounds, at orders given by index."""
        places = indices + FARTHEST
        if self._known.orders is None:
            self._known.orders = np.full((2, ORDERS.size), np.nan)
        known = self._known.orders
        missing = np.isnan(known[0, places])
        if self._before is not None and missing.any():
            before, added = self._before
            assert before.orders is not None
            old = before.orders[:, places]
            shared = missing & ~np.isnan(old[0])
            if shared.any():
                old = old[:, shared]
                value, error = _added_orders(added, tuple(indices[shared].tolist()))
                value = old[0] + value
                error = old[1] + error + U * np.abs(value)
                known[:, places[shared]] = value, error
                missing &= ~shared
        if missing.any():
            wanted = places[missing]
            known[:, wanted] = self.cumulants_at(ORDERS[wanted])
        return known[:, places]

    def cumulants_at(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K at any orders, without caching."""
        return _sum_of_orders(self._batches, t)

    def tilt(self, theta: float) -> Tilt:
        """Return K(theta) with its error bound, with 0 as the mean."""
        value, error = self.cumulants_at(np.array([theta]))
        if value[0] == math.inf:
            raise OverflowError("the cumulant K is too large for doubles")
        return Tilt(float(value[0]), float(error[0]), 0.0, 0.0)

    def log_envelope(self, theta: float, y: Floats) -> Floats:
        """Return ln of an envelope of |phi|, at ascending y."""
        total = np.zeros_like(y)
        for law in self._laws(theta):
            total = total + law.log_envelope(y)
        return total

    def nodes(self, theta: float, step: float, count: int) -> tuple[Tilt, Nodes]:
        """Return K(theta), the mean, and ln phi at y = step, .. count step."""
        place = theta, step, count
        kept = self._known.nodes
        found = kept.get(place)
        if found is None and self._before is not None:
            before, added = self._before
            found = before.nodes.get(place)
            for loss, times in added if found is not None else ():
                assert found is not None
                found = total((found, _added_nodes(loss, times, place)))
        if found is None:
            found = total(law.nodes(step, count) for law in self._laws(theta))
        for old in list(kept)[: max(0, len(kept) + 1 - _KEPT)]:
            kept.pop(old, None)
        kept[place] = found
        return found

    def _laws(self, theta: float) -> list[TiltedBatch]:
        known, laws = self._tilted  # read as one tuple, for thread safety
        if theta != known:
            laws = [batch.tilted(theta) for batch in self._batches]
            self._tilted = theta, laws
        return laws

    # ---- the plan, which a longer composition may reuse ----------------------------

    @property
    def known_orders(self) -> Indices:
        """Indices of orders with known K, possibly without the added steps."""
        known = self._known.orders
        if known is None and self._before is not None:
            known = self._before[0].orders
        if known is None:
            return np.empty(0, np.int64)
        found = np.flatnonzero(~np.isnan(known[0])) - FARTHEST
        return found[max(0, found.size - _MOST_ORDERS) // 2 :][:_MOST_ORDERS]

    @property
    def plan(self) -> Plan | None:
        """The plan of the last reading, possibly a predecessor's reading."""
        if self._known.plan is None and self._before is not None:
            return self._before[0].plan
        return self._known.plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._known.plan = plan


def _sum_of_orders(batches: list[Batch], t: Floats) -> tuple[Floats, Floats]:
    value, error = np.zeros((2, t.size))
    with np.errstate(invalid="ignore", over="ignore"):
        for batch in batches:
            more, slip = batch.cumulants(t)
            value = value + more
            error = error + slip + U * np.abs(value)
        error = error + 4 * U * np.abs(value)
        bad = ~np.isfinite(value + error)
    if bad.any():
        return np.where(bad, np.inf, value), np.where(bad, np.inf, error)
    return value, error


@functools.lru_cache(maxsize=_ADDED)
def _added(loss: Loss, times: int) -> Batch:
    return batches_of(((loss, times),))[0]


@functools.lru_cache(maxsize=_ADDED)
def _added_orders(added: Steps, indices: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return K of a few steps at some orders, with bounds of its errors."""
    t = ORDERS[np.array(indices) + FARTHEST]
    return _sum_of_orders([_added(*step) for step in added], t)


@functools.lru_cache(maxsize=_ADDED)
def _added_nodes(loss: Loss, times: int, place: Place) -> tuple[Tilt, Nodes]:
    """Return K(theta), the mean, and ln phi at some nodes of one added step."""
    theta, step, count = place
    return _added(loss, times).tilted(theta).nodes(step, count)
