"""The loss of Gaussian noise on a Poisson sample, by cells of a grid of losses."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fastdp.accounting._pld.grid import Cells, totals
from fastdp.accounting._pld.losses import Floats, U
from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss

#: Gauss-Legendre nodes on each piece, and most pieces.
_NODES, _MOST_PIECES = 10, 1 << 20

Pieces = tuple[Floats, Floats, npt.NDArray[np.int64]]


def sampled_range(
    loss: SampledGaussianLoss, log_tail: float, theta: float
) -> tuple[Floats, Floats]:
    """Return ends of x beyond which there is little mass, and their losses, ascending.

    Less than exp(log_tail), or so little that a tilt by theta leaves less of it.
    """
    s = loss.noise
    reach = s * math.sqrt(-2 * log_tail)
    ends = np.array([-reach, reach + 1])
    losses = np.sort(_loss(loss, ends))
    least = log_tail / theta
    if losses[0] < least:
        place = float(_places(loss, np.array([least]))[0])
        ends[0 if loss.removal else 1] = place
        losses = np.sort(_loss(loss, ends))
    return ends, losses


def sampled_cells(
    loss: SampledGaussianLoss, step: float, log_tail: float, theta: float
) -> Cells:
    """Return the law of one step by cells, where it has mass that counts.

    Masses are integrals of an analytic function over pieces far shorter than it
    changes on, where 10 nodes err by less than 1e-12 of it (section 8 of the proofs).

    Raises
    ------
    OverflowError
        There would be too many cells.
    """
    ends, losses = sampled_range(loss, log_tail, theta)
    first = math.floor(losses[0] / step)
    count = math.floor(losses[1] / step) - first + 1
    if count > _MOST_PIECES:
        raise OverflowError("too many cells")
    inner = step * (first + np.arange(1, count))
    edges = _places(loss, inner if loss.removal else inner[::-1])
    edges = np.concatenate([[ends[0]], np.clip(edges, *ends), [ends[1]]])
    place = np.arange(count) if loss.removal else np.arange(count)[::-1]
    x, width, cell = _pieces(loss, edges, place)
    return _integrate(loss, step, first, count, (x, width, cell), ends)


def _loss(loss: SampledGaussianLoss, x: Floats) -> Floats:
    ratio = loss.log_ratio(x)
    return ratio if loss.removal else -ratio


def _places(loss: SampledGaussianLoss, losses: Floats) -> Floats:
    """Return x with these losses (-infinity below all); rounding moves cells only."""
    q, s = loss.probability, loss.noise
    signed = losses if loss.removal else -losses
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        near = np.log1p(np.expm1(signed) / q)
        far = signed - math.log(q)
    u = np.where(signed > 30, far, near)
    return np.where(np.isnan(u), -np.inf, s * s * u + 0.5)


def _pieces(
    loss: SampledGaussianLoss, edges: Floats, place: npt.NDArray[np.int64]
) -> Pieces:
    """Cut the x between edges into pieces: their starts, widths and cells."""
    s = loss.noise
    width = np.maximum(np.diff(edges), 0.0)
    size = np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
    longest = 0.1 * min(s, s * s) / (1 + size / (4 * s))
    cuts = np.maximum(1, np.ceil(width / longest)).astype(np.int64)
    if cuts.sum() > 2 * _MOST_PIECES:
        raise OverflowError("too many pieces")
    cell = np.repeat(place, cuts)
    number = np.arange(cuts.sum()) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    each = np.repeat(width / cuts, cuts)
    return np.repeat(edges[:-1], cuts) + number * each, each, cell


def _integrate(
    loss: SampledGaussianLoss,
    step: float,
    first: int,
    count: int,
    pieces: Pieces,
    ends: Floats,
) -> Cells:
    start, width, cell = pieces
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    low_end = step * (first + cell)
    mass, rise, blur = np.zeros(start.size), np.zeros(start.size), 0.0
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        x = start + width * node
        ratio = loss.log_ratio(x)
        density = np.exp(loss.log_density(x) + (ratio if loss.removal else 0.0))
        value = ratio if loss.removal else -ratio
        part = weight * width * density
        over = np.clip(value - low_end, 0.0, step)
        mass += part
        rise += part * -np.expm1(-over)
        error = loss.ratio_error(x, ratio) + 8 * U * (1 + np.abs(value))
        blur = max(blur, float(error.max()))
    return Cells(
        step,
        first,
        totals(cell, mass, count),
        totals(cell, rise, count),
        *_outside(loss, ends),
        blur=2 * blur + 16 * U,  # of the loss, and of its cell's ends
    )


def _outside(loss: SampledGaussianLoss, ends: Floats) -> tuple[float, float]:
    """Return bounds of the mass with larger and with smaller losses than all cells.

    Where the losses have a least upper bound, the last cell reaches up to it, and its
    part of the mass is taken for lost all the same.
    """
    s = loss.noise
    centre = 1.0 if loss.removal else 0.0
    right = _beyond((float(ends[1]) - centre) / s)
    left = _beyond(-float(ends[0]) / s)
    return (right, left) if loss.removal else (left, right)


def _beyond(deviations: float) -> float:
    """Return a bound of the normal law's mass from this many deviations on."""
    if deviations <= 0:
        return 1.0
    return min(1.0, math.exp(-deviations * deviations / 2) * (1 + 1e-9))
