"""Readings from below: what attacks prove, against exact laws of what may come out."""

import itertools
import math
from fractions import Fraction

import pytest
from scipy import stats

from fastdp.accounting import GaussianEvent, LaplaceTradeOff, PLDAccountant
from fastdp.accounting.readings import audit, audit_one_run
from fastdp.exceptions import DTypeError, ParameterError


def _all_audits(runs, confidence, delta):
    """Return the audit of every pair of counts."""
    return {
        (hits, alarms): audit(
            true_positives=hits,
            positives=runs,
            false_positives=alarms,
            negatives=runs,
            confidence=confidence,
            delta=delta,
        )
        for hits, alarms in itertools.product(range(runs + 1), repeat=2)
    }


@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(9, 10)])
def test_what_is_refuted_is_true_no_more_often_than_granted(confidence):
    # The exact law of the counts, for tests that meet (epsilon, delta) with equality.
    runs, delta = 12, 0.01
    found = _all_audits(runs, confidence, delta)
    for epsilon, x in itertools.product((0.1, 1.0, 3.0), (0.01, 0.05, 0.3)):
        power = min(delta + math.exp(epsilon) * x, 1.0)
        power = min(power, 1 - math.exp(-epsilon) * (1 - delta - x))
        hits = stats.binom.pmf(range(runs + 1), runs, power)
        alarms = stats.binom.pmf(range(runs + 1), runs, x)
        wrong = sum(
            hits[i] * alarms[j]
            for (i, j), one in found.items()
            if one.epsilon > epsilon
        )
        assert wrong <= 1 - confidence
    # It is of some use: perfect tests show much, useless ones nothing.
    assert found[runs, 0].epsilon > 0.7
    assert all(found[i, i].epsilon == 0 for i in range(runs + 1))


def test_rates_are_those_of_clopper_and_pearson():
    found = audit(
        true_positives=45,
        positives=50,
        false_positives=3,
        negatives=70,
        confidence=0.95,
        delta=0,
    )
    low = stats.binomtest(45, 50).proportion_ci(0.95, "exact").low
    high = stats.binomtest(3, 70).proportion_ci(0.95, "exact").high
    assert found.power == pytest.approx(low, rel=1e-7)
    assert found.power <= low
    assert found.false_positive_rate == pytest.approx(high, rel=1e-7)
    assert found.false_positive_rate >= high
    best = max(math.log(low / high), math.log((1 - high) / (1 - low)))
    assert best * (1 - 1e-6) <= found.epsilon <= best


def test_a_claim_is_refuted_by_its_whole_trade_off_function():
    def of(sigma):
        event = GaussianEvent(sensitivity=1, sigma=sigma)
        return PLDAccountant().compose(event).trade_off()

    # The best test against mu = 1 at false-positive rate 1/20 has power 0.2595.
    counts = {"positives": 10**6, "negatives": 10**6, "false_positives": 50_000}
    found = audit(true_positives=259_511, confidence=0.99, delta=1e-5, **counts)
    assert not found.refutes(of(1))
    assert found.refutes(of(Fraction(11, 10)))
    # epsilon at one delta says less.
    assert found.epsilon < PLDAccountant().compose(
        GaussianEvent(sensitivity=1, sigma=Fraction(11, 10))
    ).epsilon(1e-5)
    with pytest.raises(DTypeError, match="trade_off"):
        found.refutes(1)


@pytest.mark.parametrize("delta", [0.0, 1e-4, 0.01])
def test_one_run_is_wrong_no_more_often_than_granted(delta):
    m, confidence = 40, Fraction(9, 10)
    for guesses in (10, 40):
        least = [
            audit_one_run(
                correct=right,
                guesses=guesses,
                canaries=m,
                confidence=confidence,
                delta=delta,
            )
            for right in range(guesses + 1)
        ]
        assert least == sorted(least)
        for epsilon in (0.1, 1.0, 2.5):
            share = 1 / (1 + math.exp(-epsilon))
            each = delta + (1 - delta) * share
            right = range(guesses + 1)
            # Coins are revealed with probability delta each, or all at once.
            alone = stats.binom.pmf(right, guesses, each)
            together = (1 - delta) * stats.binom.pmf(right, guesses, share)
            together[-1] += delta
            for law in (alone, together):
                wrong = sum(p for p, e in zip(law, least, strict=True) if e > epsilon)
                assert wrong <= 1 - confidence
        assert least[-1] > (0.9 if delta < 0.01 else -1)


def test_one_run_without_delta_is_a_binomial_test():
    found = audit_one_run(
        correct=80, guesses=100, canaries=500, confidence=0.95, delta=0
    )
    share = stats.binomtest(80, 100, alternative="greater").proportion_ci(0.95).low
    true = math.log(share / (1 - share))
    assert true * (1 - 1e-6) <= found <= true
    assert (
        audit_one_run(correct=0, guesses=0, canaries=5, confidence=0.95, delta=0) == 0
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"true_positives": 11}, "true_positives"),
        ({"false_positives": -1}, "false_positives"),
        ({"negatives": 0}, "negatives"),
        ({"confidence": 1}, "confidence"),
        ({"confidence": 1 - Fraction(1, 10**200)}, "confidence"),
        ({"delta": 1}, "delta"),
    ],
)
def test_refusals(change, message):
    options = {
        "true_positives": 5,
        "positives": 10,
        "false_positives": 1,
        "negatives": 10,
        "confidence": 0.9,
        "delta": 0,
    }
    with pytest.raises(ParameterError, match=message):
        audit(**{**options, **change})


def test_more_guesses_than_canaries():
    with pytest.raises(ParameterError, match="guesses"):
        audit_one_run(correct=1, guesses=9, canaries=8, confidence=0.9, delta=0)
    assert not audit(
        true_positives=1,
        positives=9,
        false_positives=1,
        negatives=9,
        confidence=0.9,
        delta=0,
    ).refutes(LaplaceTradeOff(Fraction(1, 10)))


def test_a_confidence_is_not_rounded_up():
    found = audit(
        true_positives=9,
        positives=9,
        false_positives=0,
        negatives=9,
        confidence=Fraction(2, 3),
        delta=0,
    )
    assert Fraction(2, 3) - Fraction(1, 10**15) < Fraction(found.confidence)
    assert Fraction(found.confidence) <= Fraction(2, 3)
