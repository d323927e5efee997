"""Losses of finitely many values and of Laplace noise, for the contour accountant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp.accounting._losses import (
    Complexes,
    Floats,
    Loss,
    Tilted,
    U,
    complex_expm1,
    sup_sinc,
)

_BOX_NODES = 64


@dataclass(frozen=True)
class AtomLoss(Loss):
    """A loss of finitely many values, all multiples of one number.

    Parameters
    ----------
    unit : Fraction
        > 0; within a relative 4e-16 of what the losses are multiples of.
    indices : tuple of int
        The losses in units of `unit`, ascending.
    masses : tuple of float
        Their probabilities under P, positive, each within a relative 1e-14.
    """

    unit: Fraction
    indices: tuple[int, ...]
    masses: tuple[float, ...]

    @property
    def losses(self) -> Floats:
        """Return the losses."""
        return np.array([float(self.unit * i) for i in self.indices])

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t), a sum of as many terms."""
        losses = self.losses
        power = np.multiply.outer(t, losses) + np.log(self.masses)
        peak = power.max(axis=1)
        value = peak + np.log(np.exp(power - peak[:, None]).sum(axis=1))
        largest = float(np.abs(losses).max())
        error = 1e-14 + U * (len(self.masses) + 40 + 8 * t * largest)
        return value, error + 4 * U * np.abs(value)

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law, of the same values."""
        return _TiltedAtoms(self, theta)


class _TiltedAtoms(Tilted):
    def __init__(self, loss: AtomLoss, theta: float) -> None:
        value, error = loss.cumulants(np.array([theta]))
        self.cumulant, self.cumulant_error = float(value[0]), float(error[0])
        losses = loss.losses
        self._weight = np.exp(np.log(loss.masses) + theta * losses - self.cumulant)
        self.mean = float(self._weight @ losses)
        self._offset = losses - self.mean
        self._error = self.cumulant_error + 2e-14 + 8 * U * theta * np.abs(losses).max()
        self._slip = 6 * U * (np.abs(losses) + abs(self.mean))

    def envelope(self, y: Floats) -> Floats:
        return np.ones_like(y)

    def centred(self, step: float, count: int) -> tuple[Complexes, Floats]:
        y = step * np.arange(1, count + 1)
        swing = complex_expm1(np.multiply.outer(1j * y, self._offset))
        rounding = self._error + U * (self._weight.size + 40)
        error = np.abs(swing) @ self._weight * rounding
        return swing @ self._weight, error + y * float(self._weight @ self._slip)


@dataclass(frozen=True)
class LaplaceLoss(Loss):
    """Laplace noise, `epsilon` = sensitivity/scale; symmetric.

    Atoms at epsilon (1/2) and -epsilon (e^-epsilon/2), and between them the density
    e^((loss - epsilon)/2)/4.
    """

    epsilon: Fraction

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t) = ln of the sum of both atoms' and the density's parts."""
        e = float(self.epsilon)
        width = 2 * (t + 0.5) * e
        # sinh(w/2)/(t + 1/2) e^(-e/2)/2 = e e^(t e) (1 - e^-w)/(2 w)
        middle = 0.5 * e * -np.expm1(-width) / width
        rest = 0.5 * np.exp(-width) + middle
        value = t * e + np.log(0.5 + rest)
        return value, U * (40 + 8 * t * e)

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law: two atoms and an exponential density."""
        return _TiltedLaplace(self, theta)


class _TiltedLaplace(Tilted):
    """Atoms w_+ and w_- and the density c e^((theta + 1/2) loss) between them."""

    def __init__(self, loss: LaplaceLoss, theta: float) -> None:
        e = self._e = float(loss.epsilon)
        value, error = loss.cumulants(np.array([theta]))
        self.cumulant, self.cumulant_error = float(value[0]), float(error[0])
        self._rate = theta + 0.5
        shift = theta * e - self.cumulant
        self._above = 0.5 * math.exp(shift)
        self._below = self._above * math.exp(-2 * self._rate * e)
        self._top = 0.25 * math.exp(shift)  # of the density, at the upper atom
        inside = self._top * -math.expm1(-2 * self._rate * e) / self._rate
        middle = e - 1 / self._rate
        if self._rate * e < 300:
            middle = e / math.tanh(self._rate * e) - 1 / self._rate
        self.mean = (self._above - self._below) * e + inside * middle
        self._error = self.cumulant_error + 8 * U * theta * e + 60 * U

    def envelope(self, y: Floats) -> Floats:
        # Boxes (theorem 3) from the right: the density rises to its upper end.
        left = np.linspace(self._e, -self._e, _BOX_NODES)[1:]
        value = self._top * np.exp(-self._rate * (self._e - left))
        length = self._e - left
        weight = (value - np.append(value[1:], 0.0)) * length * (1 - 1e-9)
        rest = max(0.0, 1 - float(weight.sum())) + 1e-12
        boxes = rest + sup_sinc(np.multiply.outer(y, length / 2)) @ weight
        far = self._above + self._below + 2 * self._top / y + 1e-12
        return np.asarray(np.minimum(1.0, np.minimum(boxes, far)))

    def centred(self, step: float, count: int) -> tuple[Complexes, Floats]:
        y = step * np.arange(1, count + 1)
        up = complex_expm1(np.asarray(1j * y * (self._e - self.mean)))
        down = complex_expm1(np.asarray(-1j * y * (self._e + self.mean)))
        z: Complexes = np.asarray(self._rate + 1j * y)
        # top e^(-iy mean) e^(iye) (1 - e^(-2 z e))/z, less its value at y = 0
        wave = (up + 1) * -complex_expm1(np.asarray(-2 * self._e * z)) / z
        still = -math.expm1(-2 * self._rate * self._e) / self._rate
        value = self._above * up + self._below * down + self._top * (wave - still)
        size = np.minimum(2.0, y * 2 * self._e)
        slip = 12 * U * y * (self._e + abs(self.mean))
        inside = self._top * still
        return np.asarray(value), self._error * size + slip + 60 * U * inside
