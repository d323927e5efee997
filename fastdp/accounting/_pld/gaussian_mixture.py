"""The loss of Gaussian noise on a sum whose sensitivity is random, between two laws."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp.accounting._pld.families import Family, Sided, Step
from fastdp.accounting._pld.losses import Floats, U
from fastdp.accounting._pld.noisy_mixture import NoisyMixture
from fastdp.exceptions import UnsupportedEventError


@dataclass(frozen=True)
class GaussianMixtureLoss(NoisyMixture):
    """Shifts > 0 and at most 1 with their probabilities; `rest` is that of the shift 0.

    All numbers are within half a unit in the last place.
    """

    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    rest: float
    noise: float
    removal: bool

    def _logs(self, x: Floats) -> Floats:
        """Return u = ln of the ratio at x of each shift, by columns."""
        c = np.array(self.shifts)
        return np.asarray(c * (2 * x[..., None] - c) / (2 * self.noise * self.noise))

    def _parts(self, u: Floats) -> tuple[Floats, Floats, Floats]:
        """Return w e^(u - top) by shifts, the sum with the shift 0, and top."""
        top = u.max(axis=-1)
        if self.rest:
            top = np.maximum(top, 0.0)
        parts = np.array(self.weights) * np.exp(u - top[..., None])
        return parts, parts.sum(axis=-1) + self.rest * np.exp(-top), top

    def log_ratio(self, x: Floats) -> Floats:
        """Return l(x): ln(1 + sum of w (e^u - 1)), or far from 0 the ln of a sum."""
        x = np.asarray(x)
        u = self._logs(x)
        near = np.expm1(np.minimum(u, 30.0)) @ np.array(self.weights)
        _, whole, top = self._parts(u)
        small = np.abs(near) <= 0.5
        line = np.log1p(np.where(small, near, 0.0))
        return np.asarray(np.where(small, line, top + np.log(whole)))

    def share(self, x: Floats) -> Floats:
        """Return s^2 times the slope of l."""
        parts, whole, _ = self._parts(self._logs(np.asarray(x)))
        return np.asarray(parts @ np.array(self.shifts) / whole)

    def ratio_error(self, x: Floats, ratio: Floats) -> Floats:
        """Return a bound on the absolute error of l.

        Errors of u count by the share of their shift. Near 0 those of weights count by
        w |e^u - 1|, and elsewhere |l| > .4 (docs/proofs/amplification.md, section 7).
        """
        x, size, m = np.asarray(x), np.abs(ratio), len(self.shifts)
        c, u = np.array(self.shifts), self._logs(x)
        parts, whole, top = self._parts(u)
        away = c * (2 * np.abs(x[..., None]) + c) / (2 * self.noise * self.noise)
        moved = (parts * away).sum(axis=-1) / whole
        near = np.abs(np.expm1(np.minimum(u, 30.0))) @ np.array(self.weights)
        near = np.where(size <= 0.7, near, 0.0)
        far = np.where(size > 0.4, np.abs(top), 0.0)
        parts_of = (3 * m + 48) * size + 2 * (m + 8) * near + 16 * moved + 4 * far
        return np.asarray(U * parts_of)


@dataclass(frozen=True)
class GaussianMixtureFamily(Family):
    """The pair of a random shift >= 0, in units of the largest shift."""

    shifts: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    noise: Fraction

    def step(self) -> Step:
        return self.sampled(Fraction(1))

    def sampled(self, rate: Fraction, fixed: bool = False) -> Step:
        """Return the step of a Poisson sample: the shift is 0 with P = 1 - rate."""
        if fixed:
            raise UnsupportedEventError(
                "no dominating pair is known for a random sensitivity on a subset of "
                "fixed size"
            )
        shifts = tuple(float(c) for c in self.shifts)
        weights = tuple(float(rate * w) for w in self.weights)
        rest = float(1 - rate * sum(self.weights, Fraction(0)))
        removal, addition = (
            Sided(GaussianMixtureLoss(shifts, weights, rest, float(self.noise), way))
            for way in (True, False)
        )
        return Step(removal, addition, 1 / (2 * self.noise**2))
