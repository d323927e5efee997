"""Private tuning: the stated divergences beside exact laws of the best result."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from fastdp.accounting import (
    GaussianEvent,
    PoissonSampledEvent,
    PureDPEvent,
    RDPAccountant,
    SelfComposedEvent,
    renyi_divergence,
)
from fastdp.accounting.calculators import private_tuning
from fastdp.accounting.guarantees import event_delta
from fastdp.exceptions import ParameterError, UnsupportedEventError


def generating(law, gamma, eta, mean):
    """Return E x^K of the number of runs."""
    if law == "poisson":
        return lambda x: math.exp(mean * (x - 1))
    if eta == 0:
        return lambda x: math.log1p(-(1 - gamma) * x) / math.log(gamma)
    return lambda x: ((1 - (1 - gamma) * x) ** -eta - 1) / (gamma**-eta - 1)


def best_of(law, p):
    """Return the law of the best bit, 1 being the better; None of no run counts too."""
    none = law(0.0)
    return [none, law(1 - p) - none, 1 - law(1 - p)]


LAWS = [
    ("poisson", None, None, 3.0),
    ("poisson", None, None, 1.0),
    ("poisson", None, None, 0.1),
    ("geometric", 0.2, 1.0, None),
    ("logarithmic", 0.1, 0.0, None),
    ("negative binomial", 0.3, 2.5, None),
    ("negative binomial", 0.1, -0.5, None),
]


@pytest.mark.parametrize(("name", "gamma", "eta", "mean"), LAWS)
def test_the_best_bit_of_randomized_response_is_within_the_bound(
    name, gamma, eta, mean
):
    reached = 0.0
    for e0 in (0.1, 0.5, 2.0):
        options = {"gamma": gamma, "mean_runs": mean}
        if name == "negative binomial":
            options["eta"] = eta
        options = {k: v for k, v in options.items() if v is not None}
        plan = private_tuning(PureDPEvent(e0), law=name, **options)
        law = generating(name, gamma, eta, mean)
        high = 1 / (1 + math.exp(-e0))
        one, two = best_of(law, high), best_of(law, 1 - high)
        for p, q in ((one, two), (two, one)):
            pairs = [(a, b) for a, b in zip(p, q, strict=True) if a > 0]
            table = zip(plan.event.orders, plan.event.epsilons, strict=True)
            for order, bound in itertools.islice(table, 0, None, 3):
                a = float(order)
                logs = [a * math.log(x) + (1 - a) * math.log(y) for x, y in pairs]
                true = float(np.logaddexp.reduce(logs)) / (a - 1)
                assert true <= float(bound) * (1 + 1e-9)
                reached = max(reached, true / float(bound))
    assert reached > 0.3
    if name != "poisson":
        step = 1e-6  # the mean number of runs is the slope at 1
        slope = (law(1.0) - law(1 - step)) / step
        assert plan.mean_runs == pytest.approx(slope, rel=1e-3)


def test_tuning_costs_more_than_one_run_and_composes():
    one = GaussianEvent(sensitivity=1, sigma=4)
    single = RDPAccountant().compose(one).epsilon(1e-6)
    plan = private_tuning(one, law="geometric", gamma=Fraction(1, 10))
    assert plan.mean_runs == pytest.approx(10)
    assert single < plan.epsilon(1e-6) < 5 * single
    twice = RDPAccountant().compose(plan.event, 2).epsilon(1e-6)
    assert plan.epsilon(1e-6) < twice < 2 * plan.epsilon(1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"law": "poisson", "mean_runs": 0}, "mean_runs"),
        ({"law": "poisson", "mean_runs": 1, "gamma": 0.1}, "gamma"),
        ({"law": "geometric", "gamma": 1}, "gamma"),
        ({"law": "geometric", "gamma": 0.1, "eta": 2}, "eta"),
        ({"law": "geometric", "gamma": 0.1, "mean_runs": 2}, "mean_runs"),
        ({"law": "negative binomial", "gamma": 0.1, "eta": 0}, "eta"),
        ({"law": "fixed", "gamma": 0.1}, "law must be"),
        ({"law": "poisson", "mean_runs": 10**400}, "mean_runs"),
        ({"law": "geometric", "gamma": Fraction(1, 10**400)}, "gamma"),
        ({"law": "logarithmic", "gamma": 1 - Fraction(1, 10**400)}, "gamma"),
        ({"law": "negative binomial", "gamma": 0.1, "eta": 10**400}, "eta"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ParameterError, match=message):
        private_tuning(PureDPEvent(1), **options)


@pytest.mark.parametrize("gamma", [Fraction(1, 10**300), 1 - Fraction(1, 10**30)])
@pytest.mark.parametrize(
    "eta", [1, 1000, Fraction(1, 10**400), -Fraction(1, 10**20), Fraction(-2, 3)]
)
def test_parameters_that_doubles_hardly_bear(gamma, eta):
    plan = private_tuning(PureDPEvent(1), law="negative binomial", gamma=gamma, eta=eta)
    with mp.workdps(700):
        g, e = mp.mpf(gamma.numerator) / gamma.denominator, mp.mpf(eta.numerator)
        e /= eta.denominator
        mean = e * (1 - g) / (g * (1 - g**e))
        assert 0 <= plan.mean_runs / mean - 1 < 1e-10
    assert plan.epsilon(1e-6) > RDPAccountant().compose(PureDPEvent(1)).epsilon(1e-6)


def test_no_divergence_is_said_of_the_event():
    with pytest.raises(UnsupportedEventError, match="no finite"):
        private_tuning(PureDPEvent(10**400), law="poisson", mean_runs=3)


def test_orders_are_close_enough_for_sampled_noise():
    one = PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=1))
    event = SelfComposedEvent(event=one, count=1000)
    plan = private_tuning(event, law="geometric", gamma=Fraction(1, 10))
    orders = np.linspace(1.05, 40, 4000)
    single = renyi_divergence(event, orders)
    more = (2 * ((1 - 1 / orders) * single + math.log(10) / orders)).min()
    whole = single + more + math.log(10) / (orders - 1)
    for delta in (1e-3, 1e-6, 1e-12):
        tail = np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
        assert plan.epsilon(delta) <= (whole + tail).min() * 1.01


@pytest.mark.parametrize(
    "event",
    [
        GaussianEvent(sensitivity=1, sigma=4),
        PureDPEvent(Fraction(1, 5)),
        PoissonSampledEvent(
            sampling_probability=Fraction(1, 100),
            event=GaussianEvent(sensitivity=1, sigma=1),
        ),
    ],
)
def test_between_its_orders_a_poisson_number_has_chords_of_delta(event):
    made = private_tuning(event, law="poisson", mean_runs=10).event
    for order, stated in list(zip(made.orders, made.epsilons, strict=True))[::5]:
        a = float(order)
        delta = event_delta(event, math.log1p(1 / (a - 1)))
        one = float(renyi_divergence(event, a))
        grown = math.exp(min(700, (a - 1) * (one + 10 * delta)))
        exact = math.log(math.exp(-10) + 10 * grown) / (a - 1)
        assert exact * (1 - 1e-9) <= stated or grown == math.exp(700)
        assert float(stated) <= exact * 1.05 or grown == math.exp(700)
