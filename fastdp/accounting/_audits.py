"""Lower bounds on epsilon from attacks, with a confidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from fastdp import _validate
from fastdp._validate import Real, float_down, float_up
from fastdp.accounting.conversions import below_one
from fastdp.exceptions import DTypeError, ParameterError

if TYPE_CHECKING:
    from fastdp.accounting._trade_off_functions import TradeOffFunction

#: Relative errors of scipy's beta and binomial functions, with room.
_ERROR = 1e-9

#: Largest epsilon that is tested for a refutation.
_LARGEST = 100.0

#: Least error: scipy's functions lose their digits far below.
_LEAST_ERROR = Fraction(1, 10**100)

#: Most guesses in one run: their law is summed term by term.
_MOST_GUESSES = 10**7


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Bounds proved by the rates of a membership test, from `audit`.

    Parameters
    ----------
    epsilon : float
        No mechanism with a smaller epsilon at `delta` has these rates: a lower bound,
        never a guarantee. 0 if nothing is refuted.
    delta : float
        The delta of the claim.
    confidence : float
        Probability, before the runs, that these bounds hold, rounded down.
    power : float
        Lower bound on the test's true-positive rate.
    false_positive_rate : float
        Upper bound on the test's false-positive rate.
    """

    epsilon: float
    delta: float
    confidence: float
    power: float
    false_positive_rate: float

    def refutes(self, trade_off: TradeOffFunction) -> bool:
        """Return whether a claimed trade-off function is refuted.

        It is refuted if the rates' bounds are below it: the test then has more power
        than the claim's best test. With an accountant's `trade_off()` this checks all
        (epsilon, delta) together, and may refute a claim that `epsilon` does not.

        Parameters
        ----------
        trade_off : TradeOffFunction
            The claim's function; the null hypothesis is the dataset without the record.
        """
        from fastdp.accounting._trade_off_functions import TradeOffFunction

        if not isinstance(trade_off, TradeOffFunction):
            raise DTypeError(
                f"trade_off must be a TradeOffFunction, got {type(trade_off).__name__}"
            )
        least = float(trade_off(self.false_positive_rate))
        return 1 - self.power < least - 1e-12


def audit(
    *,
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    confidence: Real,
    delta: Real,
) -> Audit:
    """Return the least epsilon that the results of a membership test do not refute.

    A test fixed in advance is applied to the outputs of independent runs of the
    mechanism: `positives` runs with a record and `negatives` runs without it. Each of
    the two error rates is bounded by Clopper-Pearson at half of the error. The bounds
    are inserted into 1 - fnr <= e^epsilon fpr + delta and into its mirror image.

    Parameters
    ----------
    true_positives, positives : int
        Number of runs with the record in which the test is positive, and of all runs
        with it.
    false_positives, negatives : int
        Number of runs without the record in which the test is positive, and of all runs
        without it.
    confidence : int, float, Fraction or Decimal
        > 0 and at most 1 - 1e-100, such as 0.95.
    delta : int, float, Fraction or Decimal
        >= 0 and < 1: the delta of the claim.

    Returns
    -------
    Audit
        Its `epsilon` is rounded down.

    Notes
    -----
    Runs must be independent, and neither the test nor its threshold may be chosen by
    their outcomes: use one half of the runs to choose and the other half to count. The
    largest epsilon that n runs of each kind can show, by a test that never errs, is
    about ln(n/ln(2/(1 - confidence))).

    References
    ----------
    Jagielski, Ullman, Oprea, "Auditing Differentially Private Machine Learning" (2020);
    Clopper, Pearson (1934).

    Examples
    --------
    >>> found = audit(true_positives=420, positives=500, false_positives=60,
    ...               negatives=500, confidence=0.95, delta=1e-5)
    >>> round(found.epsilon, 3)
    1.668
    >>> from fastdp.accounting import GaussianEvent, PLDAccountant
    >>> f = PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=1)).trade_off()
    >>> found.refutes(f)  # a claim of sigma 1
    True
    """
    n = _validate.integer("positives", positives, 1)
    m = _validate.integer("negatives", negatives, 1)
    hits = _validate.integer("true_positives", true_positives, 0, n)
    alarms = _validate.integer("false_positives", false_positives, 0, m)
    error, share = _confidence(confidence)
    d = float_up(below_one(delta))
    power = least_rate(hits, n, error / 2)
    misses = 1 - power
    silence = least_rate(m - alarms, m, error / 2)
    false = 1 - silence
    best = max(_log_ratio(power - d, false), _log_ratio(silence - d, misses))
    return Audit(
        epsilon=best,
        delta=d,
        confidence=share,
        power=power,
        false_positive_rate=false,
    )


def audit_one_run(
    *, correct: int, guesses: int, canaries: int, confidence: Real, delta: Real
) -> float:
    """Return a lower bound on epsilon from guesses about one run, or 0.

    Each of `canaries` records is put into the data by its own fair coin; after one run
    of the mechanism, any number of coins is guessed (`guesses`), and `correct` of these
    guesses are right. Under a pure guarantee this number is stochastically at most
    binomial with probability e^epsilon/(1 + e^epsilon).

    Parameters
    ----------
    correct, guesses : int
        Number of right guesses and of all guesses, which is at most `canaries`.
    canaries : int
        Number of records with a coin.
    confidence : int, float, Fraction or Decimal
        > 0 and at most 1 - 1e-100.
    delta : int, float, Fraction or Decimal
        >= 0 and < 1: the delta of the claim.

    Returns
    -------
    float
        The true epsilon is at least this, rounded down: a lower bound, never a
        guarantee.

    References
    ----------
    Steinke, Nasr, Jagielski, "Privacy Auditing with One (1) Training Run" (2023),
    Theorem 5.2.

    Examples
    --------
    >>> round(audit_one_run(correct=900, guesses=1000, canaries=1000,
    ...                     confidence=0.95, delta=1e-5), 3)
    2.021
    """
    m = _validate.integer("canaries", canaries, 1)
    r = _validate.integer("guesses", guesses, 0, min(m, _MOST_GUESSES))
    right = _validate.integer("correct", correct, 0, r)
    error, _ = _confidence(confidence)
    d = float_up(below_one(delta))

    def refuted(epsilon: float) -> bool:
        return _p_value(epsilon, m, r, right, d) * (1 + _ERROR) <= error

    return _last(refuted, _LARGEST) if right and refuted(0.0) else 0.0


def _p_value(
    epsilon: float, canaries: int, guesses: int, right: int, d: float
) -> float:
    """Return a bound on the probability of at least `right` right guesses."""
    import numpy as np
    from scipy.special import bdtrc, gammaln, log_expit

    up, down = float(log_expit(epsilon)), float(log_expit(-epsilon))
    tail = float(bdtrc(right - 1, guesses, math.exp(up)))
    if d == 0:
        return tail
    k = np.arange(right - 1, -1, -1, dtype=np.float64)
    log_mass = gammaln(guesses + 1) - gammaln(k + 1) - gammaln(guesses - k + 1)
    mass = np.exp(log_mass + k * up + (guesses - k) * down)
    most = float((np.cumsum(mass) / np.arange(1, right + 1)).max())
    return tail + 2 * canaries * d * most * (1 + _ERROR)


def _confidence(confidence: Real) -> tuple[float, float]:
    """Return the allowed error, rounded down, and the confidence."""
    share = _validate.open_unit("confidence", confidence)
    if 1 - share < _LEAST_ERROR:
        raise ParameterError("confidence must be at most 1 - 1e-100")
    return float_down(1 - share), float_down(share)


def least_rate(hits: int, runs: int, error: float) -> float:
    """Return the least rate for which `hits` or more have probability `error`."""
    from scipy.special import bdtrc, betaincinv

    if hits == 0:
        return 0.0
    rate = float(betaincinv(hits, runs - hits + 1, error)) * (1 - _ERROR)
    while float(bdtrc(hits - 1, runs, rate)) * (1 + _ERROR) > error:
        rate *= 1 - 1e-6
    return rate


def _log_ratio(over: float, under: float) -> float:
    """Return ln(over/under), rounded down and at least 0."""
    if not under > 0:  # pragma: no cover - rates are never certain
        raise ParameterError("positives and negatives must be counts of runs")
    if over <= under:
        return 0.0
    return max(0.0, math.log(over / under) * (1 - 1e-14) - 1e-15)


def _last(holds: Callable[[float], bool], high: float) -> float:
    """Return roughly the largest number >= 0 for which the condition holds."""
    if holds(high):
        return high
    low = 0.0
    while high - low > 1e-12 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


__all__ = ["Audit", "audit", "audit_one_run"]
