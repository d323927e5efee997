"""Renyi curves of sampled mechanisms: exact for known losses, or proved bounds.

The proofs and the conditions of each bound are in docs/proofs/rdp.md, sections 3-4.
"""

from __future__ import annotations

import abc
import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp._validate import float_down, float_up
from fastdp.accounting._renyi.curves import EXCESS, Curve
from fastdp.accounting._series import Floats, exp_remainder, log_expm1, softplus

#: Orders beyond this are not sampled: the bound without sampling holds as well.
_LARGEST_ORDER = 4000


@dataclass(frozen=True)
class PoissonAtomsCurve(Curve):
    """A Poisson sample of a symmetric pair whose loss takes finitely many values.

    Exact at every real order: the sum of Q(x) (1 + u) [g(t v) + t g(-v)] with
    u = q (exp(loss) - 1) and v = ln(1 + u), all terms positive.

    Parameters
    ----------
    losses : tuple of float
        Values of ln(P/Q), including the negative of each value.
    log_masses : tuple of float
        ln Q of each.
    probability : Fraction
        Sampling probability.
    """

    losses: tuple[float, ...]
    log_masses: tuple[float, ...]
    probability: Fraction

    def log_moment(self, gap: Floats) -> Floats:
        """Return K(gap) rounded up."""
        v = _sampled_loss(np.array(self.losses), self.probability)
        log_mass = np.array(self.log_masses) + v
        x = gap[:, None] * v
        near = np.minimum(x, 1.0)
        with np.errstate(divide="ignore"):
            kernel = gap[:, None] * exp_remainder(-v)
            close = np.log(exp_remainder(near) + kernel)
            far = np.maximum(x, 1.0)
            growth = far + np.log1p(-(1 + far) * np.exp(-far))
            large = np.logaddexp(growth, np.log(kernel))
            terms = log_mass + np.where(x > 1, large, close)
            terms += 1e-15 * (np.abs(log_mass) + np.abs(x) + 20)
            log_total = np.logaddexp.reduce(terms, axis=1)
        return softplus(log_total + 4e-16 * np.abs(log_total)) * (1 + EXCESS)

    @property
    def trusted_gap(self) -> float:
        """Beyond this gap, exponents are so large that their rounding matters."""
        room = 500 + min(self.log_masses)
        return max(0.0, room / max(map(abs, self.losses)) - 1)


def _sampled_loss(loss: Floats, probability: Fraction) -> Floats:
    """Return ln(1 - q + q exp(loss)) without cancellation."""
    q, rest = float_up(probability), float_down(1 - probability)
    u = q * np.expm1(np.minimum(loss, 30.0))
    middle = np.where(
        u > -0.5,
        np.log1p(np.maximum(u, -0.5)),
        np.log(rest + q * np.exp(np.minimum(loss, 0.0)) + 1e-300),
    )
    far = loss + math.log(q) + np.log1p(rest / q * np.exp(-np.maximum(loss, 30.0)))
    return np.where(loss > 30, far, middle)


def response_atoms(
    loss: float, log_q: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return losses and ln masses under Q of a three-valued loss (not the zero)."""
    return (loss, -loss), (log_q, min(0.0, log_q + loss))


def laplace_atoms(
    shift: int, rate: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return losses and ln masses under Q of discrete Laplace noise moved by `shift`.

    Under Q the distance from Q's center is j, and the loss rate (2 j - shift).
    """
    low = -math.log1p(math.exp(-rate))
    middle = math.log(-math.expm1(-rate)) + low
    losses, masses = [], []
    for j in range(shift + 1):
        losses.append(rate * (2 * j - shift))
        masses.append(-rate * j + (low if j in (0, shift) else middle))
    return tuple(losses), tuple(masses)


@dataclass(frozen=True)
class SampledBoundCurve(Curve):
    """Base of bounds at integer orders, with chords of the convex K between them.

    Parameters
    ----------
    inner : Curve
        The curve without sampling, for the neighboring relation of the theorem.
    rate : Fraction
        Share of the records that are sampled.
    """

    inner: Curve
    rate: Fraction

    def log_moment(self, gap: Floats) -> Floats:
        """Return the smaller of the chord at order 1 + gap and the unsampled bound."""
        plain = self.inner.log_moment(gap)
        result = plain.copy()
        for i, t in enumerate(gap.tolist()):
            whole = math.floor(t)
            if whole + 2 > min(_LARGEST_ORDER, self.inner.largest_gap + 1):
                continue
            left, right = self.at_order(whole + 1), self.at_order(whole + 2)
            share = t - whole
            chord = ((1 - share) * left + share * right) * (1 + 1e-15)
            result[i] = min(plain[i], chord)
        return result

    def at_order(self, order: int) -> float:
        """Return the bound of K(order - 1), rounded up; 0 at order 1."""
        if order == 1:
            return 0.0
        return _at_order(self, order)

    @abc.abstractmethod
    def log_terms(self, powers: Floats, moments: Floats) -> Floats:
        """Return ln of each power's factor (2, 3, ...), without binomial and rate."""

    @property
    def largest_gap(self) -> float:
        """As without sampling."""
        return self.inner.largest_gap

    @property
    def search_gap(self) -> float:
        """A low start of the search, because orders are costly here."""
        return min(8.0, self.inner.search_gap)

    @property
    def is_moment(self) -> bool:
        """Chords are not smooth."""
        return False


@functools.lru_cache(maxsize=4096)
def _at_order(curve: SampledBoundCurve, order: int) -> float:
    from scipy.special import gammaln

    powers = np.arange(2, order + 1, dtype=np.float64)
    moments = curve.inner.log_moment(powers - 1)
    binomial = gammaln(order + 1.0) - gammaln(powers + 1) - gammaln(order - powers + 1)
    log_rate = math.log(float_up(curve.rate))
    terms = binomial + powers * log_rate + curve.log_terms(powers, moments)
    if isinstance(curve, PoissonBoundCurve):
        terms += (order - powers) * math.log1p(-float_down(curve.rate))
    slop = 2e-15 * (gammaln(order + 1.0) + np.abs(powers * log_rate) + np.abs(moments))
    total = np.logaddexp.reduce(terms + slop + EXCESS)
    return float(softplus(np.array([total + 1e-15 * abs(total)]))[0]) * (1 + EXCESS)


@dataclass(frozen=True)
class PoissonBoundCurve(SampledBoundCurve):
    """Poisson sampling of any mechanism; one record is added or removed.

    For symmetric pairs the binomial sum is exact at whole orders. For other pairs the
    sum beyond 1 is doubled, which covers both addition and removal (proofs, 4.1).
    """

    def log_terms(self, powers: Floats, moments: Floats) -> Floats:
        """Return ln(exp K(l - 1) - 1), doubled unless the pairs are symmetric."""
        double = 0.0 if self.inner.is_symmetric else math.log(2)
        return log_expm1(moments) + double


@dataclass(frozen=True)
class SubsetCurve(SampledBoundCurve):
    """A uniform subset of fixed size; one record is replaced.

    Wang, Balle and Kasiviswanathan 2019, Theorem 9, at whole orders.

    Parameters
    ----------
    pure : Fraction or None
        Pure epsilon of the mechanism, if it has one.
    """

    pure: Fraction | None = None

    def log_terms(self, powers: Floats, moments: Floats) -> Floats:
        """Return ln of the least of the theorem's factors for each power."""
        pure = math.inf if self.pure is None else float_up(self.pure)
        growth = float(log_expm1(np.array([pure]))[0]) if pure < math.inf else pure
        result = moments + np.minimum(math.log(2), powers * growth)
        second = math.log(4) + log_expm1(moments[:1])
        result[:1] = np.minimum(result[:1], second)
        return result
