"""The estimate from which searches of dp_sgd start."""

import math
from fractions import Fraction

import pytest

from fastdp.accounting import (
    GaussianEvent,
    PoissonSampledEvent,
)
from fastdp.accounting.calculators import dp_sgd
from fastdp.accounting.calculators._estimate import (
    estimated_log_delta,
    largest_count,
    root_near,
)
from fastdp.accounting.pld import PLDAccountant
from fastdp.exceptions import (
    CalibrationError,
    ParameterError,
)
from tests.accounting.test_calculators_dp_sgd import POISSON

# ---- the estimate that searches start from ------------------------------------------

TRAINING = [
    (60_000, 256, 3510, 1, 1e-5),
    (10_000, 100, 10_000, 6, 1e-5),
    (50_000, 500, 2000, 3, 1e-6),
    (10**6, 1024, 30_000, 8, 1e-8),
    (60_000, 600, 1000, 0.5, 1e-5),
    (10**5, 5000, 100, 2, 1e-6),
]


@pytest.mark.parametrize(("records", "batch", "steps", "epsilon", "delta"), TRAINING)
def test_one_or_two_certified_readings_solve_for_sigma(
    records, batch, steps, epsilon, delta
):
    read = []

    class Counted(PLDAccountant):
        def _log_delta_at(self, state, epsilon):
            read.append(super()._log_delta_at(state, epsilon))
            return read[-1]

    plan = dp_sgd(
        records,
        batch=batch,
        steps=steps,
        epsilon=epsilon,
        delta=delta,
        sampling="poisson",
        accountant=Counted,
    )
    assert len(read) <= 2
    assert math.log(delta) - 2e-5 <= read[-1] <= math.log(delta)
    least = PLDAccountant().compose(plan.event).epsilon(delta)
    assert epsilon * (1 - 1e-5) < least <= epsilon


@pytest.mark.parametrize(("records", "batch", "steps", "epsilon", "delta"), TRAINING)
def test_the_estimate_is_near_the_truth(records, batch, steps, epsilon, delta):
    for sigma in [0.8, 1.3]:
        event = PoissonSampledEvent(
            Fraction(batch, records), GaussianEvent(sensitivity=1, sigma=sigma)
        )
        true = PLDAccountant().compose(event, steps).log_delta(epsilon)
        found = estimated_log_delta(batch / records, sigma, steps, epsilon)
        assert found == pytest.approx(true, rel=2e-3)


def test_no_estimate_where_there_is_none():
    assert math.isnan(estimated_log_delta(1e-6, 1e-3, 1, 1e-3))
    assert root_near(lambda x: math.nan, 1.0, 1.0) is None
    assert root_near(lambda x: 1.0, 1.0, 1.0) is None
    place, slope = root_near(lambda x: math.log(x) * 2 - 3, 1.0, 1.0)
    assert (place, slope) == (pytest.approx(math.exp(1.5)), pytest.approx(2))


@pytest.mark.parametrize("most", [1, 2, 50, 10**12])
@pytest.mark.parametrize("limit", [1, 2, 7, 40, 10**6, 10**12])
@pytest.mark.parametrize("guess", [1e-3, 1, 5, 1e6, 1e300])
def test_the_largest_count_is_found_from_any_guess(most, limit, guess):
    asked = []

    def excess(k):
        asked.append(k)
        return max(-1e300, (k - limit) / limit if k > 3 else k - limit - 0.5)

    truth = max((k for k in (1, 2, 3) if excess(k) <= 0), default=0)
    truth = min(most, limit if limit > 3 else truth)
    asked.clear()
    assert largest_count("steps", excess, guess, most, 1.0) == truth
    assert len(asked) < 60
    with pytest.raises(CalibrationError, match="steps must be >= 1"):
        largest_count("steps", lambda k: float(k), guess, most, 1.0)


def test_rates_and_epochs_say_what_batches_and_steps_say():
    common = {"sigma": 1, "delta": 1e-5, "sampling": "poisson"}
    plan = dp_sgd(50_000, batch=500, steps=1000, **common)
    for form in (
        {"sampling_rate": Fraction(1, 100), "epochs": 10},
        {"sampling_rate": Fraction(1, 100), "steps": 1000},
        {"batch": 500, "epochs": 10},
    ):
        assert dp_sgd(50_000, **form, **common) == plan
    assert (plan.sampling_rate, plan.epochs) == (0.01, 10.0)
    # A rate need not give whole batches where every record has a coin of its own.
    odd = dp_sgd(999, sampling_rate=Fraction(1, 100), epochs=Fraction(1, 3), **common)
    assert (odd.batch, odd.steps) == (9.99, 34)
    assert odd.event.event.sampling_probability == Fraction(1, 100)
    # 9 epochs of 0.1 are 90 steps, not 91.
    assert dp_sgd(100, sampling_rate=0.1, epochs=9, **common).steps == 90


@pytest.mark.parametrize("sampling", ["fixed", "shuffled"])
def test_rates_of_batches_of_a_fixed_size_are_whole(sampling):
    common = {"sigma": 5, "delta": 1e-5, "sampling": sampling}
    plan = dp_sgd(60_000, sampling_rate=256 / 60_000, epochs=1, **common)
    # 234.375 of them: the last 96 records of a permutation fill no batch.
    steps = {"fixed": 235, "shuffled": 234}[sampling]
    assert plan == dp_sgd(60_000, batch=256, steps=steps, **common)
    with pytest.raises(ParameterError, match=r"whole number .* give batch"):
        dp_sgd(60_000, sampling_rate=0.0001234, epochs=1, **common)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 5, "sampling_rate": 0.1, "steps": 3}, "batch and sampling_rate"),
        ({"batch": 5, "steps": 3, "epochs": 1}, "steps and epochs"),
        ({"batch": 5, "epochs": 0}, "epochs must be finite and > 0"),
        ({"sampling_rate": 1.5, "steps": 3}, "sampling_rate must be <= 1"),
        ({"epochs": 3, "epsilon": 1}, "epochs must come with batch"),
        ({"sampling_rate": 0.1, "epochs": 3, "epsilon": 1}, "exactly one of"),
    ],
)
def test_refusals_of_rates_and_epochs(options, message):
    with pytest.raises(ParameterError, match=message):
        dp_sgd(100, sigma=1, delta=1e-5, sampling="poisson", **options)


def test_a_delta_that_is_no_double_is_not_rounded_down():
    delta = Fraction(1, 3 * 10**5)
    plan = dp_sgd(1000, batch=10, steps=5, sigma=1, delta=delta, sampling="poisson")
    assert delta <= Fraction(plan.delta) <= delta * (1 + Fraction(1, 10**15))


def test_a_target_that_any_sigma_meets_is_refused():
    with pytest.raises(CalibrationError, match="sigma"):
        dp_sgd(
            60_000, batch=256, steps=3510, epsilon=1e5, delta=1e-5, sampling="shuffled"
        )


@pytest.mark.rest
@pytest.mark.parametrize(("epsilon", "most"), [(3000, 6), (10**4, 2)])
def test_large_targets_are_met_after_few_readings(monkeypatch, epsilon, most):
    """Where estimates fail the search begins next to the least sigma."""
    readings = []
    whole = PLDAccountant.log_delta

    def counted(self, at):
        readings.append(at)
        return whole(self, at)

    monkeypatch.setattr(PLDAccountant, "log_delta", counted)
    setting = {"batch": 256, "steps": 3510, "epsilon": epsilon}
    if epsilon == 3000:
        assert 0.0732 < dp_sgd(60_000, **setting, **POISSON).sigma < 0.0734
    else:
        with pytest.raises(CalibrationError, match="every such sigma meets"):
            dp_sgd(60_000, **setting, **POISSON)
    assert 1 <= len(readings) <= most
