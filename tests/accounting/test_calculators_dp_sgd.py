"""Schedules of private training: figures, solving, and what is refused."""

import itertools
import math
from fractions import Fraction

import pytest

from fastdp.accounting import (
    ComposedEvent,
    GaussianEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
)
from fastdp.accounting.calculators import dp_sgd
from fastdp.accounting.pld import PLDAccountant
from fastdp.accounting.rdp import RDPAccountant
from fastdp.exceptions import (
    CalibrationError,
    DTypeError,
    ParameterError,
    UnsupportedEventError,
)

POISSON = {"sampling": "poisson", "delta": 1e-5}


def test_known_settings():
    # q = 0.01, sigma = 1, 10^4 steps: 6.1877; by Renyi 6.7127; by central limit 6.0071
    plan = dp_sgd(10_000, batch=100, steps=10_000, sigma=1, **POISSON)
    assert plan.epsilon == pytest.approx(6.1877, abs=1e-4)
    assert plan.accountant == "PLDAccountant"
    renyi = dp_sgd(
        10_000, batch=100, steps=10_000, sigma=1, accountant=RDPAccountant, **POISSON
    )
    assert renyi.epsilon == pytest.approx(6.7123, abs=1e-3)
    # q = 0.01, sigma = 4, 400 epochs: Abadi et al. say 2.55, which holds
    plan = dp_sgd(10_000, batch=100, steps=40_000, sigma=4, **POISSON)
    assert plan.epsilon == pytest.approx(2.03307, abs=1e-5)


def test_the_central_limit_is_below_the_truth():
    plan = dp_sgd(10_000, batch=100, steps=10_000, sigma=1, **POISSON)
    mu = 0.01 * math.sqrt(10_000 * math.expm1(1))
    central = (
        PLDAccountant()
        .compose(GaussianEvent(sensitivity=1, sigma=1 / mu))
        .epsilon(1e-5)
    )
    assert central < plan.epsilon - 0.15


def test_each_parameter_is_solved_for():
    kept = {"batch": 256, "steps": 2000, "sigma": 1.2}
    plan = dp_sgd(60_000, **kept, **POISSON)
    for name, value in kept.items():
        rest = {key: kept[key] for key in kept if key != name}
        found = dp_sgd(60_000, epsilon=plan.epsilon, **rest, **POISSON)
        assert found.epsilon <= plan.epsilon
        assert getattr(found, name) == pytest.approx(value, rel=1e-6)
        assert found.certified
    more = dp_sgd(60_000, batch=256, epsilon=1.5, sigma=1.2, **POISSON)
    rest = {"batch": 256, "sigma": 1.2}
    assert dp_sgd(60_000, steps=more.steps, **rest, **POISSON).epsilon <= 1.5
    assert dp_sgd(60_000, steps=more.steps + 1, **rest, **POISSON).epsilon > 1.5
    wide = dp_sgd(60_000, steps=50, epsilon=1.5, sigma=1.2, **POISSON)
    rest = {"steps": 50, "sigma": 1.2}
    assert dp_sgd(60_000, batch=wide.batch, **rest, **POISSON).epsilon <= 1.5
    assert dp_sgd(60_000, batch=wide.batch + 1, **rest, **POISSON).epsilon > 1.5


def test_the_event_is_what_was_charged():
    plan = dp_sgd(1000, batch=20, steps=300, sigma=2, **POISSON)
    assert PLDAccountant().compose(plan.event).epsilon(1e-5) == plan.epsilon
    assert plan.neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE


def test_phases():
    first = dp_sgd(1000, batch=20, steps=300, sigma=2, **POISSON)
    both = dp_sgd(1000, batch=50, steps=100, sigma=3, before=first.event, **POISSON)
    alone = dp_sgd(1000, batch=50, steps=100, sigma=3, **POISSON)
    assert max(first.epsilon, alone.epsilon) < both.epsilon
    assert both.epsilon < first.epsilon + alone.epsilon
    again = PLDAccountant().compose(both.event).epsilon(1e-5)
    assert again == pytest.approx(both.epsilon, rel=1e-9)
    least = dp_sgd(1000, batch=50, steps=100, epsilon=2, before=first.event, **POISSON)
    check = dp_sgd(
        1000, batch=50, steps=100, sigma=least.sigma, before=first.event, **POISSON
    )
    assert 2 * (1 - 1e-6) < check.epsilon <= 2 * (1 + 1e-12)
    with pytest.raises(CalibrationError):
        dp_sgd(1000, batch=50, steps=9, epsilon=0.1, before=first.event, **POISSON)
    with pytest.raises(CalibrationError, match="steps must be >= 1"):
        dp_sgd(1000, batch=900, sigma=0.5, epsilon=0.1, **POISSON)


def test_fixed_batches_are_for_replacement():
    setting = {"batch": 50, "steps": 20, "sigma": 4, "delta": 1e-5}
    fixed = dp_sgd(1000, sampling="fixed", **setting)
    assert fixed.neighboring_relation is NeighboringRelation.REPLACE_ONE
    assert fixed.accountant == "RDPAccountant"
    # sensitivity 2, another pair: never Poisson's figure
    assert fixed.epsilon > dp_sgd(1000, sampling="poisson", **setting).epsilon
    full = {"batch": 1000, "steps": 20, "sigma": 40, "delta": 1e-5}
    whole = dp_sgd(1000, sampling="fixed", accountant=PLDAccountant, **full)
    exact = (
        PLDAccountant()
        .compose(GaussianEvent(sensitivity=2, sigma=40), count=20)
        .epsilon(1e-5)
    )
    assert whole.epsilon == pytest.approx(exact, rel=1e-12)
    with pytest.raises(UnsupportedEventError):  # a phase for the other relation
        dp_sgd(
            1000,
            sampling="fixed",
            before=GaussianEvent(sensitivity=1, sigma=10),
            **setting,
        )


def test_shuffled_batches_are_charged_by_the_epoch_unless_told():
    setting = {"batch": 100, "steps": 250, "sigma": 5, "delta": 1e-5}
    honest = dp_sgd(10_000, sampling="shuffled", **setting)
    three = (
        PLDAccountant()
        .compose(GaussianEvent(sensitivity=2, sigma=5), count=3)
        .epsilon(1e-5)
    )
    assert honest.epsilon == pytest.approx(three, rel=1e-12)
    assert honest.certified
    told = dp_sgd(10_000, sampling="shuffled", assume_poisson=True, **setting)
    poisson = dp_sgd(10_000, sampling="poisson", **setting)
    assert told.epsilon == poisson.epsilon
    assert not told.certified
    assert poisson.certified
    most = dp_sgd(
        10_000, batch=100, sigma=5, epsilon=2, delta=1e-5, sampling="shuffled"
    )
    assert most.steps % 100 == 0
    assert most.epsilon <= 2


def most_batches(records, batch, steps):
    """Return in how many batches record 0 can be, over all permutations."""
    total = 0
    while steps > 0:
        counts = []
        for order in itertools.permutations(range(records)):
            ends = range(batch, records + 1, batch)
            batches = [order[end - batch : end] for end in ends][:steps]
            counts.append(sum(0 in one for one in batches))
        total += max(counts)
        steps -= records // batch
    return total


@pytest.mark.parametrize("records", [1, 2, 3, 4, 5])
def test_shuffled_batches_charge_every_batch_that_a_record_may_be_in(records):
    for batch, steps in itertools.product(range(1, records + 1), range(1, 8)):
        plan = dp_sgd(
            records, batch=batch, steps=steps, sigma=50, delta=1e-5, sampling="shuffled"
        )
        assert plan.event.count == most_batches(records, batch, steps)
        assert plan.certified


def test_shuffled_epochs_have_whole_batches_only():
    common = {"batch": 60, "delta": 1e-5, "sampling": "shuffled"}
    plan = dp_sgd(100, steps=10, sigma=20, **common)
    assert plan.event.count == 10  # not the 6 of steps * batch/records
    assert plan.epochs == 10
    assert plan == dp_sgd(100, epochs=10, sigma=20, **common)
    most = dp_sgd(100, sigma=20, epsilon=plan.epsilon, **common)
    assert most.steps == 10
    least = dp_sgd(100, steps=10, epsilon=plan.epsilon, **common)
    assert least.sigma == pytest.approx(20, rel=1e-4)
    assert least.event.count == 10
    check = PLDAccountant().compose(least.event)
    assert check.epsilon(1e-5) <= plan.epsilon


@pytest.mark.rest
def test_allocated_batches_cost_less_than_poissons_and_far_less_than_shuffled_ones():
    setting = {"batch": 600, "epochs": 10, "sigma": 1, "delta": 1e-5}
    plans = {
        sampling: dp_sgd(60_000, sampling=sampling, **setting)
        for sampling in ("allocated", "poisson", "shuffled")
    }
    allocated = plans["allocated"]
    # The truth, by the Mellin transform, is 1.7014984358.
    assert 1.7014984358 <= allocated.epsilon <= 1.7014984358 * (1 + 1e-9)
    assert plans["poisson"].epsilon == pytest.approx(1.8282366665, rel=1e-9)
    assert plans["shuffled"].epsilon == pytest.approx(46.2, abs=0.05)
    relations = {name: plan.neighboring_relation for name, plan in plans.items()}
    assert relations == {
        "allocated": NeighboringRelation.ADD_OR_REMOVE_ONE,
        "poisson": NeighboringRelation.ADD_OR_REMOVE_ONE,
        "shuffled": NeighboringRelation.REPLACE_ONE,
    }
    assert (allocated.steps, allocated.epochs, allocated.certified) == (1000, 10, True)
    least = dp_sgd(
        60_000,
        batch=600,
        epochs=10,
        epsilon=allocated.epsilon,
        delta=1e-5,
        sampling="allocated",
    )
    assert 1 - 1e-6 <= least.sigma <= 1 + 4e-4


def test_poisson_batches_that_are_cut_cost_more():
    setting = {"batch": 600, "steps": 1000, **POISSON}
    whole = dp_sgd(60_000, sigma=1, **setting).epsilon
    cut = {
        cap: dp_sgd(60_000, sigma=1, largest_batch=cap, **setting)
        for cap in (650, 700, 750)
    }
    assert whole < cut[750].epsilon < whole * (1 + 1e-5)
    assert cut[700].epsilon == pytest.approx(1.8793, abs=1e-4)
    assert cut[650].epsilon == pytest.approx(5.1377, abs=1e-4)
    event = cut[700].event.event
    assert (event.largest_batch, event.records) == (700, 60_000)
    least = dp_sgd(60_000, epsilon=whole, largest_batch=700, **setting)
    assert 1 < least.sigma < 1.03
    assert least.event.event.largest_batch == 700
    with pytest.raises(ParameterError, match="largest_batch must be None unless"):
        dp_sgd(
            9, batch=3, steps=1, sigma=1, delta=0.1, sampling="fixed", largest_batch=4
        )


ALLOCATED = {"sampling": "allocated", "delta": 1e-5, "accountant": RDPAccountant}


@pytest.mark.rest
def test_allocated_epochs_are_of_whole_steps_and_may_be_cut_short():
    one = GaussianEvent(sensitivity=1, sigma=2)
    step = PoissonSampledEvent(Fraction(1, 4), one)
    rest = PoissonSampledEvent(
        Fraction(3, 4), RandomAllocationEvent(steps=3, event=one, selected=1)
    )
    epoch = RandomAllocationEvent(steps=4, event=one, selected=1)
    for steps, parts in (
        (1, [(step, 1)]),
        (3, [(rest, 1)]),
        (4, [(epoch, 1)]),
        (8, [(epoch, 2)]),
        (9, [(epoch, 2), (step, 1)]),
        (11, [(epoch, 2), (rest, 1)]),
    ):
        plan = dp_sgd(10, batch=3, steps=steps, sigma=2, **ALLOCATED)
        events = tuple(SelfComposedEvent(*part) for part in parts)
        assert plan.event == (events[0] if len(events) == 1 else ComposedEvent(events))
        assert (plan.batch, plan.epochs) == (2.5, steps / 4)
    assert dp_sgd(10, sampling_rate=0.3, epochs=2, sigma=2, **ALLOCATED).steps == 8
    whole = dp_sgd(10, batch=10, steps=3, sigma=2, **ALLOCATED)
    assert whole.event == SelfComposedEvent(one, 3)


@pytest.mark.rest
def test_what_is_left_out_of_an_allocation_is_solved_for():
    common = {"sampling": "allocated", "delta": 1e-5}
    plan = dp_sgd(1000, batch=334, steps=8, sigma=2, **common)
    limit = plan.epsilon * 1.001  # readings of delta have other cells than of epsilon
    most = dp_sgd(1000, batch=334, sigma=2, epsilon=limit, **common)
    assert most.steps == 8
    wide = dp_sgd(1000, steps=8, sigma=2, epsilon=limit, **common)
    assert wide.epochs == plan.epochs == 8 / 3
    least = dp_sgd(1000, steps=8, batch=334, epsilon=limit, **common)
    assert 2 * (1 - 2e-3) <= least.sigma <= 2
    assert PLDAccountant().compose(least.event).epsilon(1e-5) <= limit * 1.001


def phi(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def test_poisson_figures_do_not_hold_for_shuffled_batches():
    # Chua et al. 2024: all other gradients are -1, the record's +1 or 0. In one epoch
    # of T batches one batch is 2 or 1 above the rest; the event is a large maximum.
    steps, sigma, epsilon = 1000, 0.4, 4.0
    best = 0.0
    for i in range(200):
        cut = 1 + 0.02 * i
        rest = phi(cut / sigma) ** (steps - 1)
        p = 1 - phi((cut - 2) / sigma) * rest
        q = 1 - phi((cut - 1) / sigma) * rest
        best = max(best, p - math.exp(epsilon) * q)
    told = dp_sgd(
        steps,
        batch=1,
        steps=steps,
        sigma=sigma,
        delta=1e-5,
        sampling="shuffled",
        assume_poisson=True,
    )
    claimed = PLDAccountant().compose(told.event).delta(epsilon)
    assert best > 5 * claimed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 10, "sampling": "poisson"}, "exactly one of batch"),
        (
            {"batch": 1, "steps": 1, "sigma": 1, "epsilon": 1, "sampling": "poisson"},
            "exactly one of batch",
        ),
        ({"batch": 1, "steps": 1, "sigma": 1, "sampling": "random"}, "sampling must"),
        ({"batch": 11, "steps": 1, "sigma": 1, "sampling": "fixed"}, "batch must be"),
        ({"batch": 1, "steps": 0, "sigma": 1, "sampling": "fixed"}, "steps must be"),
        ({"batch": 1, "steps": 1, "sigma": 0.01, "sampling": "fixed"}, "sigma must be"),
        (
            {
                "batch": 1,
                "steps": 1,
                "sigma": 1,
                "sampling": "poisson",
                "assume_poisson": True,
            },
            "assume_poisson must be False",
        ),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ParameterError, match=message):
        dp_sgd(10, delta=1e-5, **options)


def test_types():
    with pytest.raises(DTypeError, match="assume_poisson must be a bool"):
        dp_sgd(
            10,
            batch=1,
            steps=1,
            sigma=1,
            delta=1e-5,
            sampling="shuffled",
            assume_poisson=1,
        )
    with pytest.raises(DTypeError, match="before must be an Event"):
        dp_sgd(10, batch=1, steps=1, sigma=1, before=1, **POISSON)
