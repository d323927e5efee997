"""The meaning of a guarantee for an adversary: power, advantage, posterior, divergence.

Each function translates an (epsilon, delta) guarantee, a whole profile, or a trade-off
function (exact from `PLDAccountant.trade_off`) into a statement about what can be
learned about one individual. All results are upper bounds, rounded up, for the worst
mechanism with that guarantee. `audit` and `audit_one_run` give lower bounds from
attacks.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastdp import _public, _validate
from fastdp._validate import Real, float_down, float_up
from fastdp.accounting._audits import Audit, audit, audit_one_run
from fastdp.accounting._numeric import precise, to_decimal
from fastdp.accounting._response import log_ratio
from fastdp.accounting.conversions import below_one, capped_epsilon, pure_to_rho
from fastdp.exceptions import DTypeError, ParameterError

if TYPE_CHECKING:
    from fastdp.accounting._series import Floats
    from fastdp.accounting._trade_off_functions import TradeOffFunction

__all__ = [
    "Audit",
    "audit",
    "audit_one_run",
    "largest_advantage",
    "largest_advantage_of_trade_off",
    "largest_kl_divergence",
    "largest_posterior",
    "largest_posterior_of_trade_off",
    "largest_power",
    "largest_power_of_profile",
    "largest_power_of_trade_off",
    "randomized_response_epsilon",
]

_DIGITS = 60
_ERROR = Fraction(1, 10**40)


def largest_power(*, epsilon: Real, delta: Real, false_positive_rate: Real) -> float:
    """Return the largest power of a test for an individual's presence in the data.

    The maximum over all tests with this false-positive rate x and all (epsilon, delta)
    mechanisms: min(1, delta + e^epsilon x, 1 - e^-epsilon (1 - delta - x)).

    Parameters
    ----------
    epsilon, delta : int, float, Fraction or Decimal
        epsilon >= 0; 0 <= delta < 1.
    false_positive_rate : int, float, Fraction or Decimal
        In [0, 1].

    Returns
    -------
    float
        In [0, 1], rounded up.

    References
    ----------
    Wasserman, Zhou, "A Statistical Framework for Differential Privacy" (2010);
    Kairouz, Oh, Viswanath (2017).

    Examples
    --------
    >>> largest_power(epsilon=0, delta=0, false_positive_rate=0.05)
    0.05
    >>> round(largest_power(epsilon=1, delta=1e-6, false_positive_rate=0.05), 6)
    0.135915
    """
    e, d = capped_epsilon(epsilon), below_one(delta)
    x = _validate.between("false_positive_rate", false_positive_rate, *_UNIT)
    if e == 0:
        return float_up(min(Fraction(1), d + x))
    if e > 1000:
        return 1.0 if x > 0 else float_up(d)
    grown, shrunk = _exp(e), _exp(-e)
    first = d + grown * x
    rest = max(Fraction(0), 1 - d - x)
    second = 1 - shrunk * rest * (1 - 2 * _ERROR)
    return min(1.0, float_up(min(first, second)))


def largest_advantage(*, epsilon: Real, delta: Real) -> float:
    """Return the largest advantage: power minus false-positive rate, over all tests.

    (e^epsilon - 1 + 2 delta)/(e^epsilon + 1), which is also the largest total variation
    between the outputs on two neighboring datasets.

    Parameters
    ----------
    epsilon, delta : int, float, Fraction or Decimal
        epsilon >= 0; 0 <= delta < 1.

    Examples
    --------
    >>> round(largest_advantage(epsilon=1, delta=0), 6)
    0.462117
    """
    e, d = capped_epsilon(epsilon), below_one(delta)
    if e > 1000:
        return 1.0
    if e == 0:
        return float_up(d)
    shrunk = _exp(-e) * (1 - 2 * _ERROR)  # from below: the advantage falls in it
    # (1 - s + 2 d s)/(1 + s), exact where 1 - s has not lost its digits
    value = (1 - shrunk + 2 * d * shrunk) / (1 + shrunk)
    return min(1.0, float_up(value))


def largest_posterior(*, epsilon: Real, prior: Real) -> float:
    """Return the largest posterior probability that a pure guarantee allows.

    If an adversary gives a fact about one individual the probability `prior`, then
    after any output of a pure epsilon mechanism the probability is at most prior
    e^epsilon/(1 - prior + prior e^epsilon). Under delta > 0 no such bound holds for
    every output.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        Pure epsilon, >= 0.
    prior : int, float, Fraction or Decimal
        In [0, 1].

    Examples
    --------
    >>> round(largest_posterior(epsilon=1, prior=0.5), 6)
    0.731059
    """
    e = capped_epsilon(epsilon)
    p = _validate.between("prior", prior, *_UNIT)
    if p in _UNIT or e == 0:
        return float_up(p)
    if e > 1000:
        return 1.0
    shrunk = _exp(-e) * (1 - 2 * _ERROR)
    return min(1.0, float_up(p / (p + (1 - p) * shrunk)))


def largest_power_of_profile(
    log_delta: Callable[[float], float], false_positive_rate: Real, *, points: int = 200
) -> float:
    """Return the largest power that a whole profile delta(epsilon) allows.

    The minimum of `largest_power` over a grid of epsilons, with deltas from an
    accountant's `log_delta`. It is far below the bound from a single (epsilon, delta).

    Parameters
    ----------
    log_delta : callable
        An accountant's `log_delta`: ln(delta) at an epsilon >= 0, rounded up.
    false_positive_rate : int, float, Fraction or Decimal
        In [0, 1].
    points : int
        Number of epsilons, >= 2; more points give a better bound.

    Examples
    --------
    >>> from fastdp.accounting import GDPEvent, ZCDPAccountant
    >>> accountant = ZCDPAccountant().compose(GDPEvent(0.5))
    >>> round(largest_power_of_profile(accountant.log_delta, 0.05), 3)
    0.15
    """
    _validate.between("false_positive_rate", false_positive_rate, *_UNIT)
    count = _validate.integer("points", points, 2)
    best = 1.0
    for i in range(count):
        epsilon = 0.0 if i == 0 else 1e-3 * math.pow(5e4, (i - 1) / (count - 1))
        delta = math.exp(min(0.0, log_delta(epsilon))) * (1 + 1e-15)
        if delta < 1:
            best = min(
                best,
                largest_power(
                    epsilon=epsilon,
                    delta=delta,
                    false_positive_rate=false_positive_rate,
                ),
            )
    return best


def largest_power_of_trade_off(
    trade_off: TradeOffFunction, false_positive_rate: npt.ArrayLike
) -> Floats:
    """Return the largest power of tests with the given false-positive rates.

    It is 1 - f(x); with the exact trade-off function, a test attains it.

    Parameters
    ----------
    trade_off : TradeOffFunction
        A function on or below the mechanism's, for both orders of the datasets if the
        test may use either dataset as its null hypothesis.
    false_positive_rate : array_like of float
        In [0, 1], of any shape.

    Returns
    -------
    ndarray of float64
        In the shape of the rates, rounded up.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, PLDAccountant
    >>> f = PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=1)).trade_off()
    >>> largest_power_of_trade_off(f, [0.01, 0.05]).round(6).tolist()
    [0.092362, 0.259511]
    """
    return np.asarray(_less(1.0, _function(trade_off)(false_positive_rate)))


def largest_advantage_of_trade_off(trade_off: TradeOffFunction) -> float:
    """Return the largest advantage: power minus false-positive rate, over all tests.

    The largest total variation between the outputs on two neighboring datasets, which
    is delta at epsilon 0.

    Parameters
    ----------
    trade_off : TradeOffFunction
        A function on or below the mechanism's.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, PLDAccountant
    >>> f = PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=1)).trade_off()
    >>> round(largest_advantage_of_trade_off(f), 6)
    0.382925
    """
    return float(_function(trade_off).delta(0.0))


def largest_posterior_of_trade_off(
    trade_off: TradeOffFunction, *, prior: Real, false_positive_rate: Real
) -> float:
    """Return the largest posterior of membership after a test says "member".

    prior (1 - f(x))/(prior (1 - f(x)) + (1 - prior) x) for tests with a false-positive
    rate of at least x: the largest probability of membership after a positive answer,
    for an adversary with the probability `prior` before. As x falls, it grows to the
    largest posterior over single outputs, which is 1 if delta is never 0.

    Parameters
    ----------
    trade_off : TradeOffFunction
        A function on or below the mechanism's, with the dataset without the individual
        as null hypothesis.
    prior : int, float, Fraction or Decimal
        In [0, 1].
    false_positive_rate : int, float, Fraction or Decimal
        > 0 and <= 1.

    References
    ----------
    Jayaraman, Wang, Knipmeyer, Gu, Evans, "Revisiting Membership Inference Under
    Realistic Assumptions" (2021): positive predictive value.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, PLDAccountant
    >>> f = PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=1)).trade_off()
    >>> round(
    ...     largest_posterior_of_trade_off(f, prior=0.01, false_positive_rate=0.001), 6
    ... )
    0.155999
    """
    p = _validate.between("prior", prior, *_UNIT)
    x = _validate.positive("false_positive_rate", false_positive_rate)
    _validate.between("false_positive_rate", x, *_UNIT)
    rate = float_down(x)  # a little less, where power over rate is the larger
    power = Fraction(float(largest_power_of_trade_off(trade_off, rate)))
    if p in _UNIT:
        return float_up(p)
    found = p * power / (p * power + (1 - p) * Fraction(rate)) if rate else Fraction(1)
    return min(1.0, float_up(found))


def _function(trade_off: object) -> TradeOffFunction:
    from fastdp.accounting._trade_off_functions import TradeOffFunction

    if not isinstance(trade_off, TradeOffFunction):
        raise DTypeError(
            f"trade_off must be a TradeOffFunction, got {type(trade_off).__name__}"
        )
    return trade_off


def _less(whole: float, values: Floats) -> Floats:
    """Return whole - values, rounded up and at most the whole."""
    return np.minimum(np.nextafter(whole - values, math.inf), whole)


def largest_kl_divergence(epsilon: Real) -> float:
    """Return epsilon tanh(epsilon/2): the largest Kullback-Leibler divergence.

    The divergence is in nats, between the outputs of a pure epsilon mechanism on two
    neighboring datasets; under rho-zero-concentrated privacy it is rho itself.
    Divergences add up under composition. They imply no useful (epsilon, delta), so
    there is no accountant for them.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        Pure epsilon, >= 0.

    Examples
    --------
    >>> round(largest_kl_divergence(1), 6)
    0.462117
    """
    e = capped_epsilon(epsilon)
    return 0.0 if e == 0 else pure_to_rho(e)


def randomized_response_epsilon(bias: Real) -> float:
    """Return ln((1 + 2 bias)/(1 - 2 bias)), the pure epsilon of a biased answer.

    It is for a bit that is reported truthfully with probability 1/2 + bias, and exceeds
    the often quoted 4 bias.

    Parameters
    ----------
    bias : int, float, Fraction or Decimal
        >= 0 and < 1/2.

    Examples
    --------
    >>> round(randomized_response_epsilon(0.25), 6)
    1.098612
    """
    g = _validate.nonnegative("bias", bias)
    if g >= Fraction(1, 2):
        raise ParameterError(f"bias must be < 1/2, got {_validate.shown(bias)}")
    return log_ratio(1 + 2 * g, 1 - 2 * g)


_UNIT = (Fraction(0), Fraction(1))


def _exp(x: Fraction) -> Fraction:
    """Return e^x, raised by the error of its 60 digits."""
    context = precise(_DIGITS)
    with decimal.localcontext(context):
        return Fraction(to_decimal(x, context).exp()) * (1 + _ERROR)


_public.show(globals())
