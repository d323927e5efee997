"""Trade-off functions in closed form: Gaussian and Laplace noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp._validate import float_up
from fastdp.accounting import _gdp
from fastdp.accounting._series import Floats
from fastdp.accounting._trade_off_functions import TradeOffFunction, nonnegative


@dataclass(frozen=True, repr=False)
class GaussianTradeOff(TradeOffFunction):
    """Testing N(0, 1) against N(mu, 1): Phi(Phi^-1(1 - x) - mu).

    Parameters
    ----------
    mu : Fraction
        > 0; any real number is taken at its exact value.

    Examples
    --------
    >>> GaussianTradeOff(1)([0.05, 0.5]).round(6).tolist()
    [0.740489, 0.158655]
    """

    mu: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", _validate.positive("mu", self.mu))

    def _values(self, x: Floats) -> Floats:
        from scipy.special import ndtr, ndtri

        z = -ndtri(x) - min(float_up(self.mu), 1e300)
        low = np.clip(z, -40.0, 0.0)  # ndtr(-40) is below the least double
        return np.asarray(ndtr(z) * (1 - 1e-14 * (1 + low * low)))

    def _conjugate(self, slope: Floats) -> Floats:
        mu = np.full(slope.size, float_up(self.mu))

        def profile(epsilon: Floats) -> Floats:
            return np.exp(_gdp.log_delta(epsilon, mu))

        flat = _symmetric_conjugate(profile, slope.ravel())
        return flat.reshape(slope.shape)

    def _steepest(self) -> float:
        mu = float_up(self.mu)
        return min(600.0, mu * (mu / 2 + 9))

    def inverse(self) -> GaussianTradeOff:
        """Return the function itself, which is symmetric."""
        return self

    def delta(self, epsilon: npt.ArrayLike) -> Floats:
        """Return the exact delta at each epsilon (`gdp_delta`), rounded up."""
        e = nonnegative("epsilon", epsilon)
        mu = np.array([float_up(self.mu)])
        return np.asarray(_gdp.delta(e.ravel(), mu).reshape(e.shape))

    def group(self, size: int) -> GaussianTradeOff:
        """Return the exact function of a group, with mu times `size`."""
        return GaussianTradeOff(_validate.integer("size", size, 1) * self.mu)


@dataclass(frozen=True, repr=False)
class LaplaceTradeOff(TradeOffFunction):
    """Testing two Laplace laws of scale 1 with centers epsilon apart.

    Parameters
    ----------
    epsilon : Fraction
        > 0; sensitivity/scale.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.positive("epsilon", self.epsilon))

    def _values(self, x: Floats) -> Floats:
        e = min(float_up(self.epsilon), 700.0)
        shrink = math.exp(-e) * (1 - 4e-16)
        steep = 1 - x * (math.exp(e) * (1 + 4e-16)) - 2e-16
        middle = shrink / (4 * np.maximum(x, 1e-300)) * (1 - 4e-16)
        left = x < shrink / 2
        return np.where(left, steep, np.where(x <= 0.5, middle, shrink * (1 - x)))

    def _conjugate(self, slope: Floats) -> Floats:
        pure = float_up(self.epsilon)
        return _symmetric_conjugate(
            lambda e: -np.expm1(np.minimum(e - pure, 0.0) / 2) * (1 + 4e-16), slope
        )

    def _steepest(self) -> float:
        return min(600.0, float_up(self.epsilon))

    def inverse(self) -> LaplaceTradeOff:
        """Return the function itself, which is symmetric."""
        return self


def _symmetric_conjugate(profile: Callable[[Floats], Floats], slope: Floats) -> Floats:
    """Return f*(slope) = delta(ln -slope) - 1 of a symmetric f, rounded up.

    For slopes above -1: 1 + f*(-c) = 1 - c + c (1 + f*(-1/c)).
    """
    size = -slope
    delta = profile(np.abs(np.log(size)))
    steep = delta - 1
    flat = size * (delta - 1)
    return np.asarray(np.where(size >= 1, steep, flat) * (1 - 4e-16) + 0.0)
