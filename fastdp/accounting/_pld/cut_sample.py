"""The loss of a Poisson sample's Gaussian noise, without the far end of its tail.

Very large losses are so rare that a tiny delta does not know them, but their
exponential moments are what limits every Chernoff bound. So the removal's law P is
multiplied by g(x) = exp(-e^((x - place)/width)), an entire function, and what that
leaves out is added to delta. (docs/proofs/numerical_accounting.md, section 13.)
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from fastdp.accounting._pld.composition import Composition
from fastdp.accounting._pld.losses import Complexes, Floats, Loss, Tilted, U, sup_sinc
from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss

#: Largest angle b/width of a strip: there |g| is exp(-e^v cos(b/width)).
ANGLE = 1.2

#: -ln of the quadrature's error, and of the tilted mass that is left out.
_AIM, _LIGHT = 50.0, 90.0

#: Cells of the envelope's grid, and most nodes of a quadrature.
_CELLS, _MOST_NODES = 1200, 1 << 16


@dataclass(frozen=True)
class CutSampledLoss(SampledGaussianLoss):
    """Gaussian noise on a Poisson sample, for the removal of a record, cut off.

    Parameters
    ----------
    place, breadth : float
        Where g falls, and how fast.
    """

    place: float = math.inf
    breadth: float = 1.0

    def __hash__(self) -> int:
        return hash((self.probability, self.noise, self.place))

    @functools.cached_property
    def log_lost(self) -> float:
        """Return a bound of ln of the mass that is left out: 1 - g <= e^v."""
        s, w, q = self.noise, self.breadth, self.probability
        level = s * s / (2 * w * w) - self.place / w
        both = float(np.logaddexp(math.log1p(-q), math.log(q) + 1 / w))
        return level + both + 1e-9 * (1 + abs(level))

    def log_cut(self, x: Floats, shift: float = 0.0) -> Floats:
        """Return ln |g(x + i shift)|."""
        v = np.minimum((x - self.place) / self.breadth, 600.0)
        return np.asarray(-np.exp(v) * math.cos(shift / self.breadth))

    def log_line(self, a: Floats, shift: float) -> tuple[Floats, Floats]:
        """Return ln of bounds of M's integral of the modulus on Im x = shift.

        And whether they hold, for exponents a > 0. On a cell the integrand without g
        is at most its larger end times e^(h^2/8s^2), and g falls.
        """
        x = self._grid
        h = x[1] - x[0]
        plain = np.multiply.outer(a, self.log_ratio(x)) + self.log_density(x)
        cut = self.log_cut(x, shift)
        s = self.noise
        top = np.maximum(plain[:, 1:], plain[:, :-1]) + cut[:-1]
        peak = top.max(axis=1)
        total = np.exp(top - peak[:, None]).sum(axis=1) * h
        # Left of the grid less than a normal law's tail, right of it g alone suffices.
        ends = np.exp(plain[:, 0] - peak) * s * s / -x[0]
        ends += np.exp(plain[:, -1] + cut[-1] - peak) * self.breadth
        slope = np.exp((x[-1] - self.place) / self.breadth) * math.cos(ANGLE)
        fits = slope > 1 + a * self.breadth / (s * s)
        lift = h * h / (8 * s * s) + shift * shift / (2 * s * s)
        value = peak + np.log((total + ends) * (1 + 1e-9)) + lift
        return np.where(fits, value, np.inf), fits

    @functools.cached_property
    def _grid(self) -> Floats:
        """Nodes for real orders, up to far below where g counts."""
        s, w = self.noise, self.breadth
        shift = 0.9 * min(ANGLE * w, 0.48 * math.pi * s * s, 3 * s)
        h = 2 * math.pi * shift / (_AIM + 20)
        low = -s * math.sqrt(2 * _LIGHT)
        high = self.place + 14 * w
        if (high - low) / h > _MOST_NODES:
            raise OverflowError("too many nodes")
        nodes = np.arange(math.floor(low / h), math.ceil(high / h) + 1)
        return np.asarray(nodes * h)

    # ---- real orders ---------------------------------------------------------------

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t) by a trapezoidal sum (theorem 7a), its strip as in `log_line`."""
        a = 1 + t
        s, x = self.noise, self._grid
        h = float(x[1] - x[0])
        shift = 0.9 * min(ANGLE * self.breadth, 0.48 * math.pi * s * s, 3 * s)
        strip, fits = self.log_line(a, shift)
        power = np.multiply.outer(a, self.log_ratio(x))
        level = power + self.log_density(x) + self.log_cut(x) + math.log(h)
        peak = level.max(axis=1)
        weight = np.exp(level - peak[:, None])
        value = peak + np.log(weight.sum(axis=1))
        slip = np.multiply.outer(a, self.ratio_error(x, self.log_ratio(x)))
        slip += 16 * U * (np.abs(level) + np.abs(power))
        error = (weight * slip).sum(axis=1) / weight.sum(axis=1)
        error += U * (x.size + 60 + 8 * np.abs(value))
        quadrature = strip - value - 2 * math.pi * shift / h
        tails = np.exp(level[:, [0, -1]] - peak[:, None]).sum(axis=1)
        error += 4 * np.exp(np.minimum(quadrature, 300.0)) + 4 * tails * s / h
        good = fits & (error < 1e-3)
        return np.where(good, value, np.inf), np.where(good, error, np.inf)

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law; it knows its envelope only."""
        return _TiltedCut(self, theta, count)


class _TiltedCut(Tilted):
    """The tilted law of `CutSampledLoss`, for integrals in many digits."""

    def __init__(self, loss: CutSampledLoss, theta: float, count: int) -> None:
        value, error = loss.cumulants(np.array([theta]))
        if not math.isfinite(value[0]):
            raise OverflowError("too large an order")
        self._loss, self._a, self._count = loss, 1 + theta, count
        self.cumulant, self.cumulant_error = float(value[0]), float(error[0])
        x = loss._grid
        level = self._level(x)
        # also on the strips' edges, where g falls later
        heavy = np.flatnonzero(level + math.cos(ANGLE) * loss.log_cut(x) > -_LIGHT)
        if heavy[-1] == x.size - 1 or not x[heavy[0]] < 0:
            raise OverflowError("too large an order")
        self._x = np.linspace(x[heavy[0]], x[heavy[-1]], _CELLS + 1)
        mass = np.exp(level + loss.log_cut(x))
        self.mean = float(mass @ loss.log_ratio(x) / mass.sum())

    def _level(self, x: Floats) -> Floats:
        """Return ln of the tilted density in x, without g."""
        loss = self._loss
        power = self._a * loss.log_ratio(x) + loss.log_density(x)
        return np.asarray(power - self.cumulant)

    def centred(self, step: float, count: int) -> tuple[Complexes, Floats]:
        raise OverflowError("in more digits only")

    # ---- envelope --------------------------------------------------------------------

    def envelope(self, y: Floats) -> Floats:
        weight, half = self._boxes
        rest = max(0.0, 1 - float(weight.sum())) + 1e-12
        bound = rest + sup_sinc(np.multiply.outer(y, half)) @ weight
        if self._count <= 256:
            bound = np.minimum(bound, self._shifted(y))
        return np.asarray(np.minimum(1.0, bound))

    @functools.cached_property
    def _boxes(self) -> tuple[Floats, Floats]:
        """Weights and half lengths of uniform laws below the loss's (theorem 3)."""
        loss, x, s = self._loss, self._x, self._loss.noise
        share, ratio = loss.share(x), loss.log_ratio(x)
        level = self._level(x) + loss.log_cut(x) - np.log(share / (s * s))
        # ln of the density is at most so convex: it is above its chord less this.
        bend = share * (1 - share)
        most = np.maximum(bend[1:], bend[:-1])
        most[(share[:-1] < 0.5) & (share[1:] > 0.5)] = 0.25
        convex = np.maximum(0.0, (self._a + 1) * most / s**4 - 1 / (s * s))
        width = x[1] - x[0]
        floor = np.minimum(level[1:], level[:-1]) - convex * width * width / 8
        slack = 1e-9 + self.cumulant_error
        return _nested(ratio, np.exp(floor - slack))

    def _shifted(self, y: Floats) -> Floats:
        """Bound |phi| by its integral on shifted lines (theorem 6)."""
        loss, x, s = self._loss, self._x, self._loss.noise
        width = float(x[1] - x[0])
        level, share = self._level(x), loss.share(x)
        top = np.maximum(level[1:], level[:-1]) + width * width / (8 * s * s)
        ends = float(np.exp(level[0])) * s * s / -float(x[0])
        best = np.ones_like(y)
        slope = math.exp((x[-1] - loss.place) / loss.breadth) * math.cos(ANGLE)
        if slope < 1 + self._a * loss.breadth / (s * s):
            return best
        for part in (0.1, 0.2, 0.35, 0.55, 0.8, 1.0):
            b = part * min(0.9 * math.pi * s * s, ANGLE * loss.breadth, 12 * s)
            c, lift = b / (s * s), b * b / (2 * s * s)
            turn = np.arctan2(share * math.sin(c), 1 - share + share * math.cos(c))
            square = 1 - 4 * share * (1 - share) * math.sin(c / 2) ** 2
            log_rho = 0.5 * self._a * np.log(np.maximum(square[1:], square[:-1]))
            cut = loss.log_cut(x, b)
            cell = np.exp(np.minimum(top + log_rho + cut[:-1] + lift, 600.0)) * width
            right = math.exp(level[-1] + cut[-1]) * loss.breadth
            beyond = (ends + right) * math.exp(min(lift, 600.0))
            total = np.exp(-np.multiply.outer(y, turn[:-1])) @ cell + beyond
            best = np.fmin(best, total * (1 + 1e-9))
        return best


def _nested(edges: Floats, height: Floats) -> tuple[Floats, Floats]:
    """Return uniform laws whose sum is a function of steps: weights, half lengths.

    Each is the widest interval on which the function is at least some height, its
    weight what the function rises there above the next wider one.
    """
    weights, halves = [], []
    stack: list[tuple[float, int]] = []  # heights ascending, with their first cells
    for i, value in enumerate([*height.tolist(), 0.0]):
        first = i
        while stack and stack[-1][0] >= value:
            top, first = stack.pop()
            below = max(value, stack[-1][0] if stack else 0.0)
            length = float(edges[i] - edges[first])
            weights.append((top - below) * length)
            halves.append(length / 2)
        stack.append((value, first))
    return np.array(weights), np.array(halves)


def cut_composition(
    steps: tuple[tuple[Loss, int], ...], log_lost: float, stretch: float
) -> Composition:
    """Return the steps cut so far out that each kind loses less than e^log_lost.

    Additions are left as they are: their losses have a least upper bound. A larger
    `stretch` makes g fall less sharply, which needs fewer nodes, but farther out.
    """
    return Composition(
        tuple(
            (_cut_off(loss, log_lost - math.log(n), stretch), n)
            if isinstance(loss, SampledGaussianLoss) and loss.removal
            else (loss, n)
            for loss, n in steps
        )
    )


def _cut_off(loss: SampledGaussianLoss, aim: float, stretch: float) -> CutSampledLoss:
    s = loss.noise
    breadth = stretch * s / math.sqrt(-2 * aim)
    place = s * s / (2 * breadth) - breadth * aim
    while True:
        result = CutSampledLoss(
            loss.probability, s, True, loss.exact, place, float(breadth)
        )
        if result.log_lost < aim:
            return result
        place += breadth
