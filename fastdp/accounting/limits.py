"""Limit theorems for many compositions: approximations, never guarantees.

What is returned here may be below the truth, and often is: for DP-SGD with noise 1,
rate 0.01 and 10,000 steps the central limit theorem says epsilon 6.007 at delta 1e-5
where 6.188 is true. The return types have no `epsilon` and no `delta`, only
estimates, and no accountant takes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting import _gdp
from fastdp.accounting._gdp import reals
from fastdp.accounting._series import Floats
from fastdp.accounting._trade_off_functions import TradeOffFunction
from fastdp.accounting.conversions import below_one
from fastdp.exceptions import DTypeError, ParameterError

__all__ = [
    "BerryEsseenBand",
    "EdgeworthEstimate",
    "GaussianLimit",
    "berry_esseen",
    "clt_approximate",
    "clt_fixed_size",
    "clt_poisson",
    "edgeworth",
]


#: How far from 1 a function's ends are taken for rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class GaussianLimit:
    """A mu that a central limit theorem suggests: an approximation.

    Parameters
    ----------
    mu : float
        Of the limiting Gaussian trade-off function.
    delta_floor : float
        Probability with which the limit fails altogether: no delta is below it.
    """

    mu: float
    delta_floor: float = field(default=0.0, kw_only=True)

    def delta_estimate(self, epsilon: npt.ArrayLike) -> Floats:
        """Return the limit's delta at each epsilon: an approximation, not a bound."""
        e = reals("epsilon", epsilon)
        logs = _gdp.log_delta(e.ravel(), np.full(e.size, self.mu))
        found = np.exp(logs).reshape(e.shape)
        return np.asarray(self.delta_floor + (1 - self.delta_floor) * found)

    def epsilon_estimate(self, delta: npt.ArrayLike) -> Floats:
        """Return the limit's epsilon at each delta: an approximation, not a bound."""
        d = reals("delta", delta)
        floor = self.delta_floor
        if not np.all((d > floor) & (d < 1)):
            raise ParameterError(f"delta must be > {floor:.6g} and < 1")
        d = (d - floor) / (1 - floor)
        found = _gdp.epsilon(np.log(d.ravel()), np.full(d.size, self.mu))
        return np.asarray(found.reshape(d.shape))


def clt_poisson(*, sigma: Real, probability: Real, steps: int) -> GaussianLimit:
    """Return q sqrt(T (exp(1/sigma^2) - 1)): Poisson-sampled Gaussian noise, T large.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Noise over sensitivity, > 0.
    probability : int, float, Fraction or Decimal
        Sampling probability, > 0 and <= 1.
    steps : int
        Number of compositions, >= 1.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.

    References
    ----------
    Bu, Dong, Long, Su, "Deep Learning with Gaussian Differential Privacy" (2020),
    Theorem 5.

    Examples
    --------
    >>> clt_poisson(sigma=1, probability=0.01, steps=10_000).epsilon_estimate(
    ...     1e-5
    ... ).round(3).tolist()
    6.007
    """
    s, q, t = _sampling(sigma, probability, steps)
    return GaussianLimit(q * math.sqrt(t * _expm1(1 / (s * s))))


def clt_fixed_size(*, sigma: Real, rate: Real, steps: int) -> GaussianLimit:
    """Return the limit for batches of fixed size, one record replaced.

    mu = sqrt(2) c sqrt(exp(1/sigma^2) Phi(3/(2 sigma)) + 3 Phi(-1/(2 sigma)) - 2) with
    c = rate sqrt(steps).

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Noise over sensitivity, > 0.
    rate : int, float, Fraction or Decimal
        Batch size over number of records, > 0 and <= 1.
    steps : int
        Number of compositions, >= 1.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.

    References
    ----------
    Dong, Roth, Su (2022), Corollary 5.4.
    """
    from scipy.special import ndtr

    s, q, t = _sampling(sigma, rate, steps)
    grown = _expm1(1 / (s * s)) * float(ndtr(1.5 / s))
    # Phi(3a) + 3 Phi(-a) - 2 with a = 1/(2 sigma), without cancellation for small a
    rest = 2 - float(ndtr(-1.5 / s) + 3 * ndtr(0.5 / s))
    return GaussianLimit(q * math.sqrt(2 * t * (grown + rest)))


def _sampling(sigma: Real, share: Real, steps: int) -> tuple[float, float, int]:
    s = _validate.positive("sigma", sigma)
    q = _validate.positive("probability", share)
    if q > 1:
        raise ParameterError(f"probability must be <= 1, got {_validate.shown(share)}")
    return float(s), float(q), _validate.integer("steps", steps, 1)


def _expm1(x: float) -> float:
    return math.expm1(x) if x < 700 else math.inf


@dataclass(frozen=True, kw_only=True)
class BerryEsseenBand:
    """A band around a Gaussian trade-off function in which a composition lies.

    G_mu(x + gamma) - gamma <= f(x) <= G_mu(x - gamma) + gamma. It is a theorem, but
    gamma falls as one over the root of the number of steps only, and says nothing of
    deltas below it: it judges the central limit theorem and enters no claim.

    Parameters
    ----------
    mu : float
        Of the Gaussian function.
    gamma : float
        Half-width of the band.
    """

    mu: float
    gamma: float


def berry_esseen(
    function: TradeOffFunction | Sequence[tuple[TradeOffFunction, int]],
    count: int = 1,
) -> BerryEsseenBand:
    """Return the band for a composition of symmetric trade-off functions.

    Parameters
    ----------
    function : TradeOffFunction or sequence of (TradeOffFunction, int)
        Symmetric functions, of which the knots are used: one, or several with how
        often each occurs. Each is 1 at 0 and > 0 before 1: it has no delta of its own.
    count : int
        Number of compositions of all that, >= 1.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type or out of its domain, a function has a delta
        of its own, or the composition is too far from Gaussian for the theorem, which
        asks for gamma < 1/2.

    References
    ----------
    Dong, Roth, Su (2022), Theorem 3.4, which asks for no equal functions: mu and gamma
    are of sums of the losses' moments.

    Examples
    --------
    >>> from fastdp.accounting import LaplaceTradeOff
    >>> steps = [(LaplaceTradeOff(0.1), 300), (LaplaceTradeOff(0.2), 200)]
    >>> band = berry_esseen(steps)
    >>> round(band.mu, 4), round(band.gamma, 4)
    (3.2319, 0.0299)
    """
    k = _validate.integer("count", count, 1)
    mean = spread = third = 0.0
    for one, times in _parts(function):
        mass, _, loss = _atoms(one)
        center = float(mass @ loss)
        mean += times * center
        spread += times * float(mass @ (loss - center) ** 2)
        third += times * float(mass @ np.abs(loss - center) ** 3)
    if not spread > 0:
        raise ParameterError("function must tell something about the data, got none")
    gamma = 0.56 * third / (math.sqrt(k) * spread**1.5)
    if gamma >= 0.5:
        raise ParameterError(
            f"gamma must be < 1/2 for the theorem, got {gamma:.3g}: too few steps"
        )
    return BerryEsseenBand(
        mu=2 * math.sqrt(k) * abs(mean) / math.sqrt(spread), gamma=gamma
    )


def _parts(function: object) -> list[tuple[TradeOffFunction, int]]:
    """Return trade-off functions with how often each occurs."""
    if isinstance(function, TradeOffFunction):
        return [(function, 1)]
    if not isinstance(function, list | tuple) or not function:
        raise DTypeError(
            "function must be a TradeOffFunction, or a list of (TradeOffFunction, "
            f"count), got {type(function).__name__}"
        )
    parts = []
    for part in function:
        pair = part if isinstance(part, tuple) and len(part) == 2 else (part, None)
        if not isinstance(pair[0], TradeOffFunction):
            raise DTypeError(
                "function must hold pairs of a TradeOffFunction and a count"
            )
        parts.append((pair[0], _validate.integer("count", pair[1], 1)))
    return parts


def clt_approximate(pairs: Sequence[tuple[Real, Real]]) -> GaussianLimit:
    """Return the limit of many mechanisms of which (epsilon, delta) is known.

    The composition of n such guarantees tends, as the epsilons fall and the sum of
    their squares stays, to a Gaussian one with mu = sqrt(sum of epsilon^2), which fails
    altogether with probability 1 - e^-(sum of delta): the `delta_floor`.

    Parameters
    ----------
    pairs : sequence of (epsilon, delta)
        epsilon >= 0 and delta >= 0 and < 1 of each mechanism; at least one.

    Returns
    -------
    GaussianLimit

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type or out of its domain.

    References
    ----------
    Dong, Roth, Su (2022), section 3.3.

    Examples
    --------
    >>> limit = clt_approximate([(0.01, 1e-9)] * 10_000)
    >>> limit.mu, round(limit.delta_floor, 9)
    (1.0, 1e-05)
    >>> limit.epsilon_estimate([1e-4]).round(3).tolist()
    [3.832]
    """
    if not isinstance(pairs, list | tuple) or not pairs:
        raise DTypeError("pairs must be a list of (epsilon, delta), not empty")
    square = total = Fraction(0)
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise DTypeError("pairs must hold pairs of an epsilon and a delta")
        square += _validate.nonnegative("epsilon", pair[0]) ** 2
        total += below_one(pair[1])
    if not 0 < square < 10**6:
        raise ParameterError("pairs must have a sum of epsilon^2 > 0 and < 1e6")
    return GaussianLimit(math.sqrt(square), delta_floor=-math.expm1(-float(total)))


@dataclass(frozen=True)
class EdgeworthEstimate:
    """Cumulants of a composed loss ln(Q/P) under both laws: an approximation.

    Parameters
    ----------
    under_p, under_q : tuple of float
        The first four cumulants.
    """

    under_p: tuple[float, float, float, float]
    under_q: tuple[float, float, float, float]

    def delta_estimate(self, epsilon: npt.ArrayLike) -> Floats:
        """Return Q(L > epsilon) - e^epsilon P(L > epsilon) from the expansions.

        Second-order Edgeworth expansions; an approximation, not a bound, and useless
        far in the tails, where it may even be negative (0 is returned).
        """
        e = reals("epsilon", epsilon)
        tails = _upper_tail(e, self.under_q) - np.exp(e) * _upper_tail(e, self.under_p)
        return np.asarray(np.clip(tails, 0.0, 1.0))


def edgeworth(function: TradeOffFunction, count: int) -> EdgeworthEstimate:
    """Return the Edgeworth approximation of `count` compositions.

    Parameters
    ----------
    function : TradeOffFunction
        For one order of the laws; its knots are used. It is 1 at 0 and > 0 before 1.
    count : int
        Number of compositions, >= 1.

    Raises
    ------
    DTypeError, ParameterError
        `count` is out of its domain, or the function has a delta of its own.

    References
    ----------
    Zheng, Dong, Long, Su, "Sharp Composition Bounds for Gaussian Differential Privacy
    via Edgeworth Expansion" (2020).
    """
    k = _validate.integer("count", count, 1)
    p, q, loss = _atoms(function)
    return EdgeworthEstimate(_cumulants(p, loss, k), _cumulants(q, loss, k))


def _atoms(function: TradeOffFunction) -> tuple[Floats, Floats, Floats]:
    """Return the masses of both laws where both have some, and ln(Q/P)."""
    # Mass that one law has for itself is an infinite loss, of which there is no moment.
    ends = float(function(0.0)), float(function.inverse()(0.0))
    if min(ends) < 1 - _ROUNDING:
        raise ParameterError(
            "function must be 1 at 0 and > 0 before 1: the limits have no term for a "
            f"delta of its own, got {1 - min(ends):.3g} of it; compose it instead "
            "(compose_trade_offs)"
        )
    x, f = function.knots().points
    p, q = np.diff(x), -np.diff(f)
    both = (p > 1e-14) & (q > 1e-14)
    return p[both], q[both], np.log(q[both] / p[both])


def _cumulants(
    mass: Floats, loss: Floats, count: int
) -> tuple[float, float, float, float]:
    mass = mass / mass.sum()
    mean = float(mass @ loss)
    second, third, fourth = (float(mass @ (loss - mean) ** k) for k in (2, 3, 4))
    rest = fourth - 3 * second * second
    return count * mean, count * second, count * third, count * rest


def _upper_tail(at: Floats, cumulants: tuple[float, float, float, float]) -> Floats:
    from scipy.special import ndtr

    mean, second, third, fourth = cumulants
    x = (at - mean) / math.sqrt(second)
    skew, excess = third / second**1.5, fourth / second**2
    second_hermite = x * x - 1
    third_hermite = x * (x * x - 3)
    fifth_hermite = x * (x**4 - 10 * x * x + 15)
    correction = (
        skew * second_hermite / 6
        + excess * third_hermite / 24
        + skew * skew * fifth_hermite / 72
    )
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return np.asarray(ndtr(-x) + density * correction)
