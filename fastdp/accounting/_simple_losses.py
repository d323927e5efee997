"""Losses of finitely many values and of Laplace noise, for the contour accountant."""

from __future__ import annotations

import functools
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


#: Numbers in a table of atoms by nodes that are computed at once, and in all.
_TABLE, _MOST_TABLE = 1 << 20, 1 << 26


class _Atoms(Loss):
    """A loss of finitely many values."""

    losses: Floats
    log_masses: Floats
    blur: float
    mass_error: float

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t), a sum of as many terms."""
        losses, value = self.losses, np.empty_like(t)
        rows = max(1, _TABLE // losses.size)
        for i in range(0, t.size, rows):
            power = np.multiply.outer(t[i : i + rows], losses) + self.log_masses
            peak = power.max(axis=1)
            total = np.exp(power - peak[:, None]).sum(axis=1)
            value[i : i + rows] = peak + np.log(total)
        largest = float(np.abs(losses).max())
        error = U * (losses.size + 40 + 8 * t * largest) + self.blur * t
        error = error + self.mass_error
        return value, error + 4 * U * np.abs(value)

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law, of the same values."""
        value, error = self.cumulants(np.array([theta]))
        weights = np.exp(self.log_masses + theta * self.losses - value)
        largest = float(np.abs(self.losses).max())
        rounding = float(error[0]) + 2 * self.mass_error
        rounding += theta * (8 * U * largest + self.blur)
        known = float(value[0]), float(error[0])
        return TiltedAtoms(self.losses, weights, known, rounding, self.blur)


@dataclass(frozen=True)
class AtomLoss(_Atoms):
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
    blur = 0.0
    mass_error = 1e-14

    @functools.cached_property
    def losses(self) -> Floats:  # type: ignore[override]
        """Return the losses."""
        return np.array([float(self.unit * i) for i in self.indices])

    @functools.cached_property
    def log_masses(self) -> Floats:  # type: ignore[override]
        """Return the logarithms of the probabilities."""
        return np.log(self.masses)


@dataclass(frozen=True, eq=False)
class ScatteredLoss(_Atoms):
    """A loss of finitely many values that need have no common unit.

    Parameters
    ----------
    losses, masses : ndarray of float64
        The losses, ascending, and their probabilities under P.
    blur : float
        Bound of the absolute errors of the losses.
    unit : Fraction, optional
        What all losses are multiples of, if that is known.
    mass_error : float, optional
        Bound of the relative errors of the masses.
    """

    losses: Floats
    masses: Floats
    blur: float = 0.0
    unit: Fraction | None = None
    mass_error: float = 1e-13

    @functools.cached_property
    def log_masses(self) -> Floats:  # type: ignore[override]
        """Return the logarithms of the probabilities."""
        return np.log(np.maximum(self.masses, 5e-324))

    @functools.cached_property
    def _key(self) -> tuple[object, ...]:
        return self.losses.tobytes(), self.masses.tobytes(), self.blur, self.unit

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScatteredLoss) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class TiltedAtoms(Tilted):
    """A tilted law of finitely many values.

    Parameters
    ----------
    losses, weights : ndarray of float64
        The values and their probabilities under the tilt.
    cumulant : (float, float)
        K(theta) and a bound of its error.
    rounding, blur : float
        Bounds of the weights' relative and the losses' absolute errors.
    missing : float, optional
        Bound of the probability of other values.
    mean : float, optional
        About the mean, where another one than that of the weights is to be used.
    """

    def __init__(
        self,
        losses: Floats,
        weights: Floats,
        cumulant: tuple[float, float],
        rounding: float,
        blur: float,
        missing: float = 0.0,
        mean: float | None = None,
    ) -> None:
        self.cumulant, self.cumulant_error = cumulant
        self._weight = weights
        self.mean = float(weights @ losses) if mean is None else mean
        self._offset = losses - self.mean
        self._error, self._missing = rounding, 4 * missing
        self._slip = 6 * U * (np.abs(losses) + abs(self.mean)) + blur

    def envelope(self, y: Floats) -> Floats:
        return np.ones_like(y)

    def centred(self, step: float, count: int) -> tuple[Complexes, Floats]:
        if count * self._weight.size > _MOST_TABLE:
            raise OverflowError("too many atoms for a contour")
        y = step * np.arange(1, count + 1)
        value, size = np.empty(count, np.complex128), np.empty(count)
        rows = max(1, _TABLE // self._weight.size)
        for i in range(0, count, rows):
            part = slice(i, i + rows)
            swing = complex_expm1(np.multiply.outer(1j * y[part], self._offset))
            value[part], size[part] = swing @ self._weight, np.abs(swing) @ self._weight
        error = size * (self._error + U * (self._weight.size + 40))
        return value, error + y * float(self._weight @ self._slip) + self._missing


@dataclass(frozen=True)
class LaplaceLoss(Loss):
    """A density e^(loss/2) from -epsilon to epsilon, perhaps between atoms; symmetric.

    That of Laplace noise, epsilon = sensitivity/scale, has atoms at epsilon (1/2) and
    -epsilon (e^-epsilon/2), and the density e^((loss - epsilon)/2)/4. The density
    without atoms dominates all of bounded range epsilon.
    """

    epsilon: Fraction
    ends: bool = True

    @property
    def top(self) -> float:
        """Return the density at epsilon."""
        return 0.25 if self.ends else -0.5 / math.expm1(-float(self.epsilon))

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t) = ln of the sum of both atoms' and the density's parts."""
        e = float(self.epsilon)
        width = 2 * (t + 0.5) * e
        # top (1 - e^-w)/(t + 1/2) e^(t e)
        rest = self.top * 2 * e * -np.expm1(-width) / width
        if self.ends:
            rest = rest + 0.5 + 0.5 * np.exp(-width)
        return t * e + np.log(rest), U * (40 + 8 * t * e)

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
        self._above = 0.5 * math.exp(shift) if loss.ends else 0.0
        self._below = self._above * math.exp(-2 * self._rate * e)
        self._top = loss.top * math.exp(shift)  # of the density, at the upper atom
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
