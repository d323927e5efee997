"""Renyi curves: bounds on the log-moment function of a mechanism's privacy loss.

For a pair of laws P, Q and a gap t > 0 the log-moment function is
K(t) = ln E_P exp(t ln(P/Q)) = t D(1 + t), D the Renyi divergence of order 1 + t. It is
convex, K(0) = 0, and it adds up under composition. Curves accept arrays of gaps and
return K rounded up, with a relative excess below 1e-12 if the docstring says exact. The
forms and their proofs are in docs/proofs/rdp.md, section 2.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp._validate import float_down, float_up
from fastdp.accounting._series import (
    LARGE,
    Floats,
    exp_remainder,
    log_expm1,
    sinh_ratio_step,
    sinhc_step,
    softplus,
)

#: The closed forms err by some ten units in the last place; this covers 400.
EXCESS = 1e-13
#: From this exponent on, take the logarithm of the whole sum instead of a log1p.
_FAR = 30.0


@dataclass(frozen=True)
class Curve(abc.ABC):
    """Base of the curves; instances are immutable, hashable and comparable."""

    @abc.abstractmethod
    def log_moment(self, gap: Floats) -> Floats:
        """Return K(gap), rounded up; infinity where nothing is known."""

    @property
    def largest_gap(self) -> float:
        """Gap beyond which the curve gives no bound."""
        return math.inf

    @property
    def search_gap(self) -> float:
        """Largest gap at which a search for the best order should start."""
        return self.largest_gap

    @property
    def is_moment(self) -> bool:
        """Whether K is exactly the log-moment function of some pair of laws."""
        return True

    @property
    def trusted_gap(self) -> float:
        """Largest gap at which K belongs to one pair of laws, to a relative 1e-12."""
        return self.largest_gap if self.is_moment else 0.0

    @property
    def is_symmetric(self) -> bool:
        """Whether a transformation of the outcomes swaps the two laws of each pair."""
        return False


@dataclass(frozen=True)
class ConcentratedCurve(Curve):
    """D(order) <= xi + rho order: zero-concentrated privacy; Gaussian noise for xi 0.

    Parameters
    ----------
    rho, xi : Fraction
        >= 0, exact.
    omega : Fraction, optional
        Largest order for which the bound holds, > 1 (truncated concentration).
    symmetric : bool
        Whether the underlying pair is known to be symmetric.
    """

    rho: Fraction
    xi: Fraction = Fraction(0)
    omega: Fraction | None = None
    symmetric: bool = False

    def log_moment(self, gap: Floats) -> Floats:
        """Return t (xi + rho (1 + t))."""
        rho, xi = float_up(self.rho), float_up(self.xi)
        value = gap * (rho * (1 + gap) + xi) * (1 + EXCESS)
        return np.where(gap <= self.largest_gap, value, np.inf)

    @property
    def largest_gap(self) -> float:
        """The largest order minus one."""
        return math.inf if self.omega is None else float_down(self.omega - 1)

    @property
    def is_symmetric(self) -> bool:
        """As stated."""
        return self.symmetric


@dataclass(frozen=True)
class LaplaceCurve(Curve):
    """Continuous Laplace noise of pure `epsilon`: exact, for the worst coordinate."""

    epsilon: Fraction

    def log_moment(self, gap: Floats) -> Floats:
        """Return ln(A e^x + B e^-y), A = (1+t)/(1+2t), B = t/(1+2t) (proofs, 2.3)."""
        e = float_up(self.epsilon)
        x, y = gap * e, (1 + gap) * e
        large, small = (1 + gap) / (1 + 2 * gap), gap / (1 + 2 * gap)
        return _two_exponentials(x, y, large, small, np.zeros_like(gap))

    @property
    def is_symmetric(self) -> bool:
        """Reflection at the middle of the two centers swaps the laws."""
        return True


@dataclass(frozen=True)
class DiscreteLaplaceCurve(Curve):
    """Discrete Laplace noise on one coordinate with `shift`: exact, and the worst case.

    Parameters
    ----------
    shift : int
        >= 1.
    rate : Fraction
        1/scale.
    """

    shift: int
    rate: Fraction

    def log_moment(self, gap: Floats) -> Floats:
        """Return ln(A e^x + B e^-y), A + B = 1, A x >= B y (proofs, 2.4)."""
        a, e = float_up(self.rate), float_up(self.rate * self.shift)
        x, y = gap * e, (1 + gap) * e
        a = min(a, LARGE / 2)  # q is below the least double beyond
        bottom = (1 + math.exp(-a)) * -np.expm1(-a * (1 + 2 * gap))
        large = -np.expm1(-2 * a * (1 + gap)) / bottom
        small = math.exp(-a) * -np.expm1(-2 * a * gap) / bottom
        # A x - B y, from sinh(z)/z at two points whose distance is a
        drift = e * 2 * gap * (1 + gap) * a * sinhc_step(a * gap, a) / bottom
        return _two_exponentials(x, y, large, small, drift)

    @property
    def is_symmetric(self) -> bool:
        """Reflection at the middle of the two centers swaps the laws."""
        return True


def _two_exponentials(
    x: Floats, y: Floats, large: Floats, small: Floats, drift: Floats
) -> Floats:
    """Return ln(large e^x + small e^-y), given drift = large x - small y >= 0."""
    near = np.minimum(x, _FAR)
    ratio = np.where(x > 0, near / np.maximum(x, 1e-300), 1.0)
    inner = large * exp_remainder(near) + small * exp_remainder(-y) + drift * ratio
    close = np.log1p(np.maximum(inner, 0.0))
    far = x + np.log(large + small * np.exp(-np.minimum(x + y, LARGE)))
    return np.asarray(np.where(x <= _FAR, close, far) * (1 + EXCESS))


@dataclass(frozen=True)
class DiscreteGaussianCurve(Curve):
    """Discrete Gaussian noise, one coordinate moved by `shift`: exact.

    Parameters
    ----------
    shift : int
        >= 1.
    sigma : Fraction
        Parameter of the law, in units of the lattice.
    """

    shift: int
    sigma: Fraction

    def log_moment(self, gap: Floats) -> Floats:
        """Return t (1 + t) rho + ln(theta(t shift)/theta(0)) (proofs, 2.5)."""
        rho = self.shift**2 / (2 * self.sigma**2)
        plain = gap * (1 + gap) * float_up(rho) * (1 + EXCESS)
        if self.sigma >= 4:  # theta is constant to 1e-130
            return plain
        width = float(self.sigma)
        place = gap * self.shift
        rest = place - np.round(place)
        reach = math.ceil(10 * width) + 2
        x = np.arange(-reach, reach + 1, dtype=np.float64)[:, None]
        shifted = np.exp(-((x - rest) ** 2) / (2 * width * width)).sum(axis=0)
        centered = np.exp(-(x**2) / (2 * width * width)).sum(axis=0)
        slop = 1e-14 + 2.5e-16 * np.abs(place) / (width * width)
        less = np.minimum(0.0, np.log(shifted / centered) + slop)
        # Near whole t the ratio is 1, and nothing is gained or lost.
        return np.asarray(np.maximum(plain + less * (1 - EXCESS), 0.0))

    @property
    def trusted_gap(self) -> float:
        """The quotient of sums has an absolute error, which counts multiply."""
        return math.inf if self.sigma >= 4 else 0.0

    @property
    def is_symmetric(self) -> bool:
        """Reflection at the middle of the two centers swaps the laws."""
        return True


@dataclass(frozen=True)
class PureCurve(Curve):
    """Any mechanism with pure `epsilon`: the curve of binary randomized response."""

    epsilon: Fraction

    def log_moment(self, gap: Floats) -> Floats:
        """Return ln(cosh(t e) + tanh(e/2) sinh(t e))."""
        e = float_up(self.epsilon)
        b, slope = gap * e, math.tanh(e / 2)
        near = np.minimum(b, LARGE)
        inner = 2 * np.sinh(near / 2) ** 2 + slope * np.sinh(near)
        far = b + math.log((1 + slope) / 2) if e > 0 else b
        value = np.where(b <= LARGE, np.log1p(inner), far)
        return np.asarray(value * (1 + EXCESS))


@dataclass(frozen=True)
class ResponseCurve(Curve):
    """A loss of +loss with probability q e^loss, -loss with q, 0 otherwise: exact.

    Parameters
    ----------
    loss : Fraction
        > 0; for randomized response with p and q it is ln(p/q), rounded up.
    q : Fraction
        Probability of the loss -loss.
    """

    loss: Fraction
    q: Fraction

    def log_moment(self, gap: Floats) -> Floats:
        """Return ln(1 + q (e^(loss (1+t)) - 1)(1 - e^(-loss t)))."""
        loss = float_up(self.loss)
        with np.errstate(divide="ignore"):
            log_gain = (
                math.log(float_up(self.q))
                + log_expm1(loss * (1 + gap))
                + np.log(-np.expm1(-loss * gap))
            )
        slop = EXCESS + 4e-16 * np.where(np.isfinite(log_gain), np.abs(log_gain), 0.0)
        return softplus(log_gain + slop)

    @property
    def is_symmetric(self) -> bool:
        """Swapping the two outcomes of unequal probability swaps the laws."""
        return True


@dataclass(frozen=True)
class BoundedRangeCurve(Curve):
    """A loss within an interval of `length`, such as the exponential mechanism's.

    The exact supremum over all such mechanisms at each order (proofs, 2.7).
    """

    length: Fraction

    def log_moment(self, gap: Floats) -> Floats:
        """Return (1+t) psi(y) - t psi(x) - psi(l), x = t l, y = x + l."""
        e = np.full_like(gap, float_up(self.length))
        x = gap * e
        value = sinh_ratio_step(e, x) + gap * sinh_ratio_step(x, e)
        return np.asarray(value * (1 + EXCESS))

    @property
    def is_moment(self) -> bool:
        """False: the worst mechanism differs from order to order."""
        return False


@dataclass(frozen=True)
class TabulatedCurve(Curve):
    """Bounds known at some orders; between them (order - 1) D is convex.

    Parameters
    ----------
    orders, epsilons : tuple of Fraction
        Increasing orders > 1, and the bound on D at each.
    """

    orders: tuple[Fraction, ...]
    epsilons: tuple[Fraction, ...]

    def log_moment(self, gap: Floats) -> Floats:
        """Return the chord of K between neighboring orders, from K(0) = 0 on."""
        gaps = [0.0, *(float_down(order - 1) for order in self.orders)]
        pairs = zip(self.orders, self.epsilons, strict=True)
        values = [0.0, *(float_up((order - 1) * e) for order, e in pairs)]
        chord = np.interp(gap, gaps, values) * (1 + EXCESS)
        # D grows with the order: below the first it is at most the first bound,
        # which the chord from 0 states.
        return np.where(gap <= self.largest_gap, chord, np.inf)

    @property
    def largest_gap(self) -> float:
        """The largest order minus one."""
        return float_down(self.orders[-1] - 1)

    @property
    def is_moment(self) -> bool:
        """False: chords are not smooth."""
        return False


@dataclass(frozen=True)
class GroupCurve(Curve):
    """A group of `size` under a curve known for single individuals.

    With c = ceil(log2 size), D_group(a) <= 3^c D(2^c a) for a >= 2 (Mironov 2017,
    Proposition 2); between orders 1 and 2 the chord of K from 0 is used.
    """

    inner: Curve
    size: int

    def log_moment(self, gap: Floats) -> Floats:
        """Return the bound at order 1 + gap."""
        levels = (self.size - 1).bit_length()
        at = np.maximum(gap, 1.0)
        inner_gap = 2.0**levels * (1 + at) - 1
        divergence = self.inner.log_moment(inner_gap) / inner_gap
        # at / inner_gap and the product are rounded a few times.
        value = 3.0**levels * at * divergence * (1 + EXCESS)
        return np.asarray(np.where(gap < 1, gap, 1.0) * value)

    @property
    def largest_gap(self) -> float:
        """Gap from the largest inner order; 0 if even order 2 is beyond it."""
        levels = (self.size - 1).bit_length()
        gap = (self.inner.largest_gap + 1) / 2.0**levels * (1 - 1e-15) - 1
        return gap if gap >= 1 else 0.0

    @property
    def is_moment(self) -> bool:
        """False: no single pair of laws has this curve."""
        return False
