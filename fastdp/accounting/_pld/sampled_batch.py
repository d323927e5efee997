"""Batches of losses of Gaussian noise on Poisson samples, for the contour accountant.

Tables of losses by nodes replace a loop over losses. The nodes are real (theorem 7a of
docs/proofs/numerical_accounting.md, with section 4's addition for phi) and dense enough
for the largest y, so one table gives K(theta), the mean and phi. Losses with similar
numbers of nodes share a table.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fastdp.accounting._numeric import product
from fastdp.accounting._pld.batches import LoopBatch, powers, summed, total
from fastdp.accounting._pld.losses import (
    Batch,
    Boxes,
    Complexes,
    Floats,
    Indices,
    Loss,
    Nodes,
    Tilt,
    TiltedBatch,
    U,
    log_envelope_of,
    unit_steps,
)

#: A quadrature may err by e^-aim/steps. The aim is _AIM_ORDERS for K at the orders of
#: plans and Chernoff bounds, and _AIM for K(theta) and phi.
_AIM_ORDERS, _AIM = 18.0, 34.0

#: Accept real nodes only if the inner error is at most e^-_NEED/steps; else treat each
#: loss separately.
_NEED = 29.0

#: Try real nodes this often, closer each time, before treating losses separately.
_TRIES = 3

#: Most nodes of a row for orders, and for phi; most elements of a table.
_MOST_ORDERS, _MOST_NODES, _TABLE = 1 << 14, 1 << 10, 1 << 15

#: Fractions of the widest strip to try.
_STRIPS = np.array([0.1, 0.16, 0.24, 0.34, 0.46, 0.6, 0.75, 0.88, 1])

#: Share nodes between removal and addition for at most _SHARED losses; if possible,
#: these nodes cover the powers of r in _USUAL from the start.
_SHARED, _USUAL = 4, (-8.0, 33.0)

#: With at most _FEW steps, use the envelope of shifted lines, which single losses have,
#: and at most _MOST_FEW real nodes: y is so large that shifted nodes are cheaper.
_FEW, _MOST_FEW = 256, 256


class _Samples:
    """Noise and rates of some losses, in either direction, and their nodes."""

    def __init__(
        self, q: tuple[float, ...], s: tuple[float, ...], counts: tuple[int, ...]
    ) -> None:
        self.q, self.s = np.array(q), np.array(s)
        self.counts = np.array([float(n) for n in counts])
        total = float(self.counts.sum())
        self.few, self.log_total = total <= _FEW, math.log(total)

    @functools.cached_property
    def share_at_0(self) -> Floats:
        """p(0)."""
        u = np.maximum(-0.5 / (self.s * self.s), -700.0)
        return np.asarray(self.q / (self.q + (1 - self.q) * np.exp(-u)))

    def order_tables(self, least: float, most: float) -> list[_Table]:
        """Return tables for K at these powers of r, or none for too many nodes."""
        strips = self._strips(np.full(self.q.size, least), _AIM_ORDERS, None)
        tables = list(self._tables(least, most, strips, _MOST_ORDERS))
        return tables if tables[-1].size else []

    def fine_tables(self, a: Floats, growth: Floats, rows: Indices) -> Iterator[_Table]:
        """Yield tables for phi of some rows, last a table of the rows without nodes."""
        most = _MOST_FEW if self.few else _MOST_NODES
        return self._tables(a, a, self._strips(a, _AIM, growth), most, rows)

    @functools.cached_property
    def _choices(self) -> tuple[Floats, Floats, Floats]:
        """Half widths b of strips to choose from, b^2/(2 s^2) and ln cos(b/(2 s^2))."""
        s = self.s[:, None]
        b = np.minimum(6 * s, 0.98 * math.pi * s * s) * _STRIPS
        angle = b / (2 * s * s)
        return b, b * angle, np.log(np.cos(angle))

    def widths(self, rows: Indices) -> Floats:
        """Return half widths of strips to choose from, by rows."""
        return self._choices[0][rows]

    def _strips(self, least: Floats, aim: float, growth: Floats | None) -> _Strips:
        """Return half widths of strips, dampings, and the steps that they allow."""
        b, damping, edge = self._choices
        low = np.minimum(least, 0.0)
        if low.any():
            damping = damping + low[:, None] * edge
        aim += self.log_total
        room = damping + (aim + 0.7)
        step = 2 * math.pi * b / (room if growth is None else room + growth)
        best = np.arange(least.size), step.argmax(axis=1)
        return _Strips(b[best], damping[best], _short(step[best]), aim)

    def _tables(
        self,
        least: Floats | float,
        highest: Floats | float,
        strips: _Strips,
        most: int,
        rows: Indices | None = None,
    ) -> Iterator[_Table]:
        """Yield tables of rows with similar numbers of nodes; the rest has no nodes."""
        h, reach = strips.step, self.s * math.sqrt(2 * strips.aim)
        low = np.minimum(0.0, least) * self.share_at_0 - reach
        first = np.floor(low / h)
        size = np.ceil((np.maximum(1.0, highest) + reach) / h) - first + 1
        order = np.argsort(size) if rows is None else rows[np.argsort(size[rows])]
        start = 0
        while start < order.size:
            fewest = size[order[start]]
            if not fewest < most:
                yield _Table(self, order[start:], strips, first, 0)
                return
            room = int(_TABLE / fewest) + 1
            stop = int(np.searchsorted(size[order], min(1.2 * fewest + 2, most)))
            stop = max(start + 1, min(start + room, stop))
            part = order[start:stop]
            yield _Table(self, part, strips, first, int(size[part[-1]]))
            start = stop


#: Removal and addition of few losses share their nodes.
_shared_samples = functools.lru_cache(maxsize=2)(_Samples)
_shared_tables = functools.lru_cache(maxsize=2)(_Samples.order_tables)


@dataclass(frozen=True)
class SampledStep(Loss):
    """Gaussian noise on a Poisson sample, for the removal or the addition of a record.

    Parameters
    ----------
    probability : float
        q, > 0 and < 1, within half a unit in the last place.
    noise : float
        s, the standard deviation for sensitivity 1, within half a unit in the last
        place.
    removal : bool
        Whether the order is the removal of a record.
    """

    probability: float
    noise: float
    removal: bool


class SampledGaussianBatch(Batch):
    """Losses of Gaussian noise on Poisson samples with their counts."""

    def __init__(
        self, losses: tuple[SampledStep, ...], counts: tuple[int, ...]
    ) -> None:
        self.losses, self.count_of = losses, counts
        removal = np.array([loss.removal for loss in losses])
        self.sign = np.where(removal, 1.0, -1.0)
        self.first = np.where(removal, 1.0, 0.0)
        q = tuple([loss.probability for loss in losses])
        s = tuple([loss.noise for loss in losses])
        self._shared = len(losses) <= _SHARED
        self.samples = (_shared_samples if self._shared else _Samples)(q, s, counts)
        self._known: tuple[float, float, list[_Table]] | None = None

    def exponents(self, t: Floats) -> Floats:
        """Return the power of r whose mean is M(t), in rows of t."""
        return self.first + np.multiply.outer(t, self.sign)

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the sum of K(t) over all steps, with a bound on its error."""
        powers = self.exponents(t)
        try:
            tables = self.tables_for(powers)
        except OverflowError:
            if t.size == 1:
                return np.full(1, np.inf), np.full(1, np.inf)
            low = t <= math.sqrt(float(t.min()) * float(t.max()))
            value, error = np.empty_like(t), np.empty_like(t)
            for half in (low, ~low):
                value[half], error[half] = self.cumulants(t[half])
            return value, error
        both = np.zeros((2, t.size))
        for table in tables:
            a, k = powers[:, table.rows], self.samples.counts[table.rows]
            rows = max(1, _TABLE // table.x.size)
            for i in range(0, t.size, rows):
                part = slice(i, i + rows)
                value, error = table.cumulants(a[part])
                both[0, part] += product(value, k)
                error += U * (k.size + 4) * np.abs(value)
                both[1, part] += product(error, k)
        return both[0], both[1]

    def tables_for(self, a: Floats) -> list[_Table]:
        """Return tables for these powers of r and, if possible, for earlier ones."""
        least, most = asked = float(a.min()), float(a.max())
        known, make = self._known, _Samples.order_tables
        if self._shared:
            make, known = _shared_tables, known or (*_USUAL, [])
        if known is not None:
            if known[0] <= least and most <= known[1] and known[2]:
                return known[2]
            least, most = min(least, known[0]), max(most, known[1])
        for low, high in ((least, most), asked):
            tables = make(self.samples, low, high)
            if tables:
                self._known = low, high, tables  # as one tuple, for threads
                return tables
        raise OverflowError("too many nodes")

    def growth(self, a: Floats, swing: float) -> Floats:
        """Estimate ln of the growth of phi's terms, y <= swing, on each strip."""
        growth = np.empty((a.size, _STRIPS.size))
        for table in self.tables_for(a):
            growth[table.rows] = table.growth(a[table.rows], self.samples, swing)
        return growth

    def tilted(self, theta: float) -> TiltedBatch:
        """Return the laws tilted at theta."""
        return _TiltedSamples(self, theta)


@dataclass(frozen=True)
class _Strips:
    """Half width, damping and step of each loss's strip; -ln of the common error."""

    width: Floats
    damping: Floats
    step: Floats
    aim: float


def _short(x: Floats) -> Floats:
    """Return each x rounded down to 26 bits."""
    mantissa, exponent = np.frexp(x)
    return np.asarray(np.ldexp(np.floor(np.ldexp(mantissa, 26)), exponent - 26))


def _angle(share: Floats, c: Floats) -> Floats:
    """Return the argument of 1 - p + p e^(ic), p and c by rows."""
    sine, versed = np.sin(c)[:, None], (1 - np.cos(c))[:, None]
    return np.asarray(np.arctan2(share * sine, 1 - share * versed))


class _Table:
    """Some losses by their nodes: ln r, ln of the density of Q times the step.

    A table without nodes represents rows that would need too many nodes.
    """

    def __init__(
        self,
        samples: _Samples,
        rows: Indices,
        strips: _Strips,
        first: Floats,
        size: int,
    ) -> None:
        self.rows, self.size = rows, size
        self.width, self.damping = strips.width[rows], strips.damping[rows]
        self.step, self.aim = strips.step[rows], strips.aim
        self.q, self.s = samples.q[rows], samples.s[rows]
        h, s, q = self.step[:, None], self.s[:, None], self.q[:, None]
        self.x = (first[rows, None] + np.arange(size)) * h
        self.log_norm = np.log(self.step / self.s) - 0.5 * math.log(2 * math.pi)
        scaled = self.x / s
        self.square = scaled * scaled
        self.log_weight = self.log_norm[:, None] - 0.5 * self.square
        self.u = (self.x - 0.5) / (s * s)
        switch = np.log1p(1 / q)
        self.high = self.u > switch
        self.rise = q * np.expm1(np.minimum(self.u, switch))  # r - 1 up to there
        ratio = np.log1p(self.rise)
        self.high_q = self.q[np.nonzero(self.high)[0]]
        u = self.u[self.high]
        ratio[self.high] = u + np.log(self.high_q + (1 - self.high_q) * np.exp(-u))
        self.ratio = ratio
        self.reach = self.s * math.sqrt(2 * self.aim)
        # The part of the exponent's error that is the same at all nodes, in units of U.
        self.parts = np.abs(self.log_norm) + 2 * np.abs(np.log(self.s))
        self.parts += 0.25 / (self.s * self.s)

    @functools.cached_property
    def share(self) -> Floats:
        """p(x), with an absolute error of a few U."""
        share = 1 - (1 - self.q[:, None]) * np.exp(-self.ratio)
        return np.asarray(np.maximum(share, 0.0))

    @functools.cached_property
    def slip(self) -> Floats:
        """Bound the absolute error of ln r, like `SampledGaussianLoss.ratio_error`."""
        q = self.q[:, None]
        inverse = np.abs((1 - self.share) / (1 - q) - 1)  # |1/r - 1|
        own = 10 * np.abs(self.ratio) + 16 * inverse
        return np.asarray(U * (own + 12 * self.share * np.abs(self.u)) + 64 * U * U)

    @functools.cached_property
    def _largest(self) -> tuple[Floats, Floats, Floats]:
        """The largest |ln r| of each row, its error bound, and parts of the exponent.

        The ends suffice, because x, u and ln r rise along a row and p is at most 1.
        """
        ends = np.array([self.ratio, self.u, self.square])[:, :, [0, -1]]
        ratio, u, square = np.abs(ends).max(axis=2)
        slip = U * (10 * ratio + 16 / (1 - self.q) + 12 * u) + 64 * U * U
        return ratio, slip, square + self.parts

    def cumulants(self, a: Floats) -> tuple[Floats, Floats]:
        """Return K at exponents a (by row) and error bounds (theorem 7a)."""
        level = a[:, :, None] * self.ratio + self.log_weight
        peak = level.max(axis=2)
        ends = level[:, :, :: self.size - 1]
        value = peak + np.log(np.exp(level - peak[:, :, None]).sum(axis=2))
        ratio, slip, parts = self._largest
        size = np.abs(a)
        error = U * (self.size + 60 + 2 * size * ratio + 2 * parts) + size * slip
        error += 4 * U * (np.abs(peak) + np.abs(value)) + 2 * math.exp(-self.aim)
        error += self.tails(ends - value[:, :, None])
        return value, error

    def growth(self, a: Floats, samples: _Samples, swing: float) -> Floats:
        """Estimate ln of the growth of phi's terms, y <= swing, on each strip."""
        level = a[:, None] * self.ratio + self.log_weight
        level -= np.log(np.exp(level).sum(axis=1))[:, None]
        heavy = np.maximum(level[:, 1:], level[:, :-1])
        share = self.share[:, 1:]
        c = samples.widths(self.rows) / (self.s * self.s)[:, None]
        result = np.empty(c.shape)
        sine, versed = np.sin(c), 1 - np.cos(c)
        strips = max(1, _TABLE // share.size)
        for j in range(0, c.shape[1], strips):
            part = np.s_[:, j : j + strips, None]
            tangent = share[:, None, :] * sine[part]
            tangent /= np.maximum(1 - share[:, None, :] * versed[part], 1e-9)
            angle = np.minimum(tangent, c[part])  # at least about the argument
            grown = heavy[:, None, :] + swing * angle
            result[:, j : j + strips] = grown.max(axis=2)
        beyond = swing * c - _AIM - samples.log_total
        result = np.maximum(result, beyond)
        return np.asarray(np.maximum(result, 0.0) + 1.5)

    def tails(self, ends: Floats) -> Floats:
        """Bound sum and integral beyond the nodes (theorem 7b), from end weights."""
        each = np.exp(ends).sum(axis=-1) / self.step
        return np.asarray(2.2 * each * self.s * self.s / self.reach)


class _TiltedSamples(TiltedBatch):
    """The tilted laws of a batch."""

    def __init__(self, batch: SampledGaussianBatch, theta: float) -> None:
        self._batch, self._theta = batch, theta

    # ---- envelope ----------------------------------------------------------------

    def log_envelope(self, y: Floats) -> Floats:
        """Bound the sum of ln |phi| (theorem 3)."""
        if self._batch.samples.few:
            return self._alone.log_envelope(y)
        return log_envelope_of(self._boxes, y)

    @functools.cached_property
    def _alone(self) -> TiltedBatch:
        batch = self._batch
        return LoopBatch(batch.losses, batch.count_of).tilted(self._theta)

    @functools.cached_property
    def _boxes(self) -> list[Boxes]:
        a = self._batch.exponents(np.array(self._theta))
        tables = self._batch.tables_for(a)
        return [self._boxes_of(table, a[table.rows]) for table in tables]

    def _boxes_of(self, table: _Table, a: Floats) -> Boxes:
        """Return boxes below the densities of one table's rows.

        In a cell, ln f is below the lower of its end values by at most a share of the
        curvature. So f is at least one law that falls on both sides of its mode, and
        the rest of f is at least another such law.
        """
        value, error = table.cumulants(a[None, :])
        s, h = table.s, table.step
        norm = 2 * np.log(s) - np.log(table.q) - np.log(h) - value[0] - error[0] - 1e-9
        level = (a + 1)[:, None] * table.ratio - table.u + table.log_weight
        level += norm[:, None]
        curvature = np.maximum((a + 1) / (4 * s * s) - 1, 0.0) / (s * s)
        least = np.minimum(level[:, :-1], level[:, 1:])
        density = np.exp(least - (curvature * h * h / 8)[:, None])
        below = _unimodal(density)
        parts = [_nested(below, table.ratio)]
        if (curvature > 0).any():
            rest = np.maximum(density - below, 0.0)
            parts.append(_nested(_unimodal(rest), table.ratio))
        return (
            np.concatenate([w for w, _ in parts], axis=1),
            np.concatenate([half for _, half in parts], axis=1),
            self._batch.samples.counts[table.rows],
        )

    # ---- nodes -------------------------------------------------------------------

    def nodes(self, step: float, count: int) -> tuple[Tilt, Nodes]:
        """Return K(theta) with the mean, and ln phi at y = step, .. count step."""
        batch, swing = self._batch, step * count
        samples, a = batch.samples, batch.exponents(np.array(self._theta))
        growth, rows = batch.growth(a, swing), np.arange(a.size)
        most = -_NEED - samples.log_total
        parts = []
        for _ in range(_TRIES):
            alone = [np.empty(0, np.int64)]
            for table in samples.fine_tables(a, growth, rows):
                bad = np.ones(table.rows.size, np.bool_)
                if table.size:
                    law = _Law(batch, table, self._theta, swing)
                    bad = law.log_inner > most
                    more = np.where(bad, law.log_inner - most + 4, 0.0)
                    growth[table.rows] += more[:, None]
                    k = np.where(bad, 0.0, samples.counts[table.rows])
                    parts.append((law.tilt(k), law.nodes(step, count, k)))
                alone.append(table.rows[bad])
            rows = np.concatenate(alone)
            if not rows.size:
                break
        if not parts:  # shifted nodes serve any y
            return self._alone.nodes(step, count)
        for i in rows.tolist():
            one = LoopBatch((batch.losses[i],), (batch.count_of[i],))
            parts.append(one.tilted(self._theta).nodes(step, count))
        return total(parts)


def _unimodal(density: Floats) -> Floats:
    """Return the largest table below in which every row is unimodal."""
    at = np.arange(density.shape[1])
    mode = density.argmax(axis=1)[:, None]
    left = np.where(at <= mode, density, np.inf)[:, ::-1]
    right = np.where(at >= mode, density, np.inf)
    falling = np.minimum.accumulate(left, axis=1)[:, ::-1]
    return np.minimum(falling, np.minimum.accumulate(right, axis=1))


def _nested(density: Floats, ratio: Floats) -> tuple[Floats, Floats]:
    """Return weights and half lengths of intervals with a density above a level."""
    rows, size = density.shape
    order = np.argsort(-density, axis=1)
    row = np.arange(rows)[:, None]
    value = density.ravel()[order + size * row]
    order += (size + 1) * row
    ratio = ratio.ravel()
    length = np.maximum.accumulate(ratio[order + 1], axis=1)
    length -= np.minimum.accumulate(ratio[order], axis=1)
    weight = value * length
    weight[:, :-1] -= value[:, 1:] * length[:, :-1]
    return np.maximum(weight, 0.0), length / 2


class _Law:
    """The tilted laws of a table's rows: weights, losses, and their errors."""

    def __init__(
        self, batch: SampledGaussianBatch, table: _Table, theta: float, swing: float
    ) -> None:
        self._table = table
        self._sign = batch.sign[table.rows][:, None]
        self._a = batch.exponents(np.array(theta))[table.rows]
        a = self._a[:, None]
        power = a * table.ratio
        self._cumulant, self._error = self._cumulants(power)
        level = power + table.log_weight - self._cumulant[:, None]
        self._weight = np.exp(level)
        tails = table.tails(level[:, [0, -1]])
        self.inner = 2 * tails + self._quadrature(swing, tails)
        self.log_inner = np.log(self.inner)
        loss = self._sign * table.ratio
        self._mean = (self._weight * loss).sum(axis=1) / self._weight.sum(axis=1)
        self._offset = loss - self._mean[:, None]
        # Relative errors of weights. `_slope` bounds, at y = 1, the errors that grow
        # with y.
        relative = U * (4 * table.size + 240 + 2 * np.abs(level) + 2 * table.square)
        relative += np.abs(a) * table.slip
        moved = relative + (U * table.parts + self._error)[:, None]
        each = np.abs(self._offset) * moved + table.slip
        each += 4 * U * np.abs(self._mean)[:, None]
        self._slope = (self._weight * each).sum(axis=1) * (1 + 1e-6)

    def _cumulants(self, power: Floats) -> tuple[Floats, Floats]:
        """Return K(theta), from M - 1 = E_Q [r^a - 1 - a (r - 1)] if M is small."""
        table, a = self._table, self._a[:, None]
        log_weight = table.log_weight
        weight = np.exp(log_weight)
        whole = np.exp(np.minimum(power + log_weight, 700.0))
        first = np.where(
            power < 30, np.expm1(np.minimum(power, 30.0)) * weight, whole - weight
        )
        line = table.rise * weight
        far = log_weight[table.high] + table.u[table.high]
        line[table.high] = table.high_q * (np.exp(far) - weight[table.high])
        line *= a
        both = first - line
        excess = both.sum(axis=1)
        parts = table.square + table.parts[:, None]
        rounding = (table.size + 20 + 2 * parts) * np.abs(both)
        rounding += 8 * (np.abs(first) + np.abs(line))
        likely = np.exp(table.ratio + log_weight)
        slope = np.abs(a) * (whole + likely)
        error = U * rounding.sum(axis=1) + (slope * table.slip).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.log1p(excess)
            error = error / (1 + excess) + 4 * U * np.abs(value)
        # Errors of the quadrature and of the tails, for r^a and for 1 + |a| (1 + r).
        lines = weight[:, [0, -1]] + likely[:, [0, -1]]
        tails = whole[:, [0, -1]] / (1 + excess)[:, None] + (1 + np.abs(a)) * lines
        tails = 2.2 * tails.sum(axis=1) / table.step * table.s**2 / table.reach
        error += tails + 4 * math.exp(-table.aim) * (1 + np.abs(self._a))
        large = ~(excess < 1e12)
        if large.any():
            far_value, far_error = table.cumulants(self._a[None, :])
            value = np.where(large, far_value[0], value)
            error = np.where(large, far_error[0], error)
        return value, error

    def _quadrature(self, swing: float, tails: Floats) -> Floats:
        """Bound the error of the sums for phi(y), y <= swing, relative to M."""
        table = self._table
        c = table.width / (table.s * table.s)
        angle = _angle(table.share, c)
        cell = np.maximum(self._weight[:, 1:], self._weight[:, :-1])
        curvature = (1 + np.maximum(0.0, -self._a) / (4 * table.s**2)) / table.s**2
        with np.errstate(over="ignore", invalid="ignore"):
            grown = np.exp(swing * angle[:, 1:] * (1 + 1e-9))
            total = (cell * grown).sum(axis=1) * np.exp(curvature * table.step**2 / 8)
            total += np.exp(swing * c) * tails
            log_each = table.damping - 2 * math.pi * table.width / table.step
            error = 2 * (1 + total) * np.exp(log_each) * (1 + 1e-6)
        return np.where(np.isfinite(error), error, np.inf)

    def tilt(self, k: Floats) -> Tilt:
        """Return the sums of K(theta) and of means over the rows, weighted by k."""
        return summed(k, self._cumulant, self._error, self._mean)

    def nodes(self, step: float, count: int, k: Floats) -> Nodes:
        """Return the sum of ln phi over the rows, weighted by k.

        Each e^(iy(L - mean)) - 1 is computed from two others, f and g, as f g + f + g.
        """
        turn = step * self._offset
        width = 1 << max(0, (math.isqrt(count - 1) + 1).bit_length() - 1)
        starts = -(-count // width)
        rows = max(1, _TABLE // (self._table.size * max(width, starts)))
        log_phi, growth = np.zeros(count, np.complex128), np.zeros(count)
        y = step * np.arange(1, count + 1)
        inner = np.where(k > 0, self.inner, 0.0)
        for i in range(0, k.size, rows):
            part = slice(i, i + rows)
            value = self._centered(turn[part], self._weight[part], width, starts, count)
            error = np.multiply.outer(self._slope[part], y) + inner[part, None]
            more = powers(value, error, k[part])
            log_phi += more.log_phi
            growth += more.growth + U * np.abs(log_phi)
        return Nodes(log_phi, growth)

    def _centered(
        self, turn: Floats, weight: Floats, width: int, starts: int, count: int
    ) -> Complexes:
        near, far = unit_steps(turn, width, starts)
        shape = (turn.shape[0], starts, width)
        value = np.zeros(shape, np.complex128)
        heavy = far * weight[:, None, :]
        value[:, :, 1:] = product(heavy, near.transpose(0, 2, 1))
        value[:, :, 1:] += (near @ weight[:, :, None])[:, None, :, 0]
        value += heavy.sum(axis=2)[:, :, None]
        return value.reshape(turn.shape[0], -1)[:, :count]
