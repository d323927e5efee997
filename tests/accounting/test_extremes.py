"""Extreme parameters and questions: an answer or an error of fastdp, and short text."""

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import pytest

from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    DiscreteGaussianSumEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    FDPAccountant,
    GaussianEvent,
    GaussianTradeOff,
    GDPAccountant,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PureAccountant,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPAccountant,
    RDPEvent,
    SampledWithoutReplacementEvent,
    SkellamEvent,
    TCDPAccountant,
    TCDPEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPAccountant,
    ZCDPEvent,
    event_delta,
    event_epsilon,
    event_rho,
    renyi_divergence,
    trade_off_of,
)
from fastdp.exceptions import FastDPError

ACCOUNTANTS = (
    PLDAccountant,
    RDPAccountant,
    ZCDPAccountant,
    TCDPAccountant,
    PureAccountant,
    ApproximateAccountant,
    GDPAccountant,
    FDPAccountant,
)

SIZES = (5e-324, 1e-300, 1e-9, 1.0, 1e300)
RATES = (5e-324, 0.01, 1 - 2**-53)
NEARLY_ONE = Fraction(10**300 - 1, 10**300)


def plain_events():
    for x in SIZES:
        yield PureDPEvent(x)
        yield GDPEvent(x)
        yield ZCDPEvent(x)
        yield ExponentialMechanismEvent(x)
        yield TCDPEvent(rho=x, omega=2)
        yield RDPEvent(orders=(1.5, 2), epsilons=(x, x))
        yield ApproximateDPEvent(epsilon=x, delta=5e-324)
        yield ApproximateDPEvent(epsilon=x, delta=NEARLY_ONE)
        yield TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=x, bound=3)
        yield SkellamEvent(sensitivity=1, variance=x)
        for y in (1e-300, 1.0, 1e300):
            yield LaplaceEvent(sensitivity=x, scale=y)
            yield GaussianEvent(sensitivity=x, sigma=y)
            yield DiscreteLaplaceEvent(sensitivity=x, scale=y)
            yield DiscreteGaussianEvent(sensitivity=x, sigma=y)
            yield DiscreteGaussianSumEvent(sensitivity=x, sigma=y, shares=10**9)


def events():
    yield from plain_events()
    yield RandomizedResponseEvent(p=Fraction(1, 2), q=Fraction(1, 2) - NEARLY_ONE / 2)
    yield PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=0.065))
    for x, rate in itertools.product(SIZES, RATES):
        yield PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=x))
        yield PoissonSampledEvent(rate, LaplaceEvent(sensitivity=1, scale=x))
        yield PoissonSampledEvent(rate, DiscreteGaussianEvent(sensitivity=1, sigma=x))
        yield PoissonSampledEvent(rate, ExponentialMechanismEvent(x))
    for x in SIZES:
        yield GroupEvent(GaussianEvent(sensitivity=1, sigma=x), 10**6)
        yield SampledWithoutReplacementEvent(
            source_dataset_size=10**9,
            sample_size=3,
            event=GaussianEvent(
                sensitivity=1, sigma=x, neighboring_relation="replace_one"
            ),
        )


EVENTS = list(events())

#: Some that take little time.
QUICK = (21, 63, 85, 94, 96, 106, 117, 128)


def attempt(question):
    """Return the answer, or None where there is none for a reason told in short."""
    message = ""
    try:
        return question()
    except FastDPError as error:
        message = str(error)
    assert short(message)
    return None


def questions(event):
    """Yield readings of an event, and of many of them by all accountants."""
    for delta in (0, 1e-300, 1e-5, 1 - 2**-53):
        yield lambda d=delta: event_epsilon(event, d)
    for epsilon in (0, 5e-324, 1.0, 1e300):
        yield lambda e=epsilon: event_delta(event, e)
    yield lambda: event_rho(event)
    yield lambda: renyi_divergence(event, [1 + 2**-52, 2, 1e300])
    yield lambda: trade_off_of(event)([0, 1e-300, 0.5, 1])
    for kind in ACCOUNTANTS:
        for count in (1, 10**9):
            accountant = attempt(lambda k=kind, n=count: k().compose(event, count=n))
            if accountant is None:
                continue
            for delta in (0, 1e-300, 1e-5):
                yield lambda a=accountant, d=delta: a.epsilon(d)
            for epsilon in (0, 5e-324, 1.0, 1e300):
                yield lambda a=accountant, e=epsilon: a.delta(e)
    accountant = attempt(lambda: PLDAccountant().compose(event, count=100))
    if accountant is None:
        return
    yield lambda: accountant.delta(0)
    yield lambda: accountant.epsilon_bounds(1e-9, check=True).upper
    yield lambda: accountant.delta_bounds(1.0, check=True).upper
    yield lambda: accountant.delta_profile([0, 1e-300, 1.0, 1e5])[1]
    yield lambda: accountant.trade_off(symmetric=False)(1e-3)


def short(text):
    """Whether no number in a text has hundreds of digits."""
    digits = "".join(c if c.isdigit() else " " for c in text).split()
    return max(map(len, digits), default=0) < 100


def asked(event):
    assert short(repr(event))
    for question in questions(event):
        answer = attempt(question)
        assert not (isinstance(answer, float) and math.isnan(answer))


@pytest.mark.parametrize("number", QUICK)
def test_extreme_questions_get_answers_or_errors_of_fastdp(number):
    asked(EVENTS[number])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EVENTS)))
def test_all_extreme_questions_get_answers_or_errors_of_fastdp(number):
    asked(EVENTS[number])


def test_named_extremes():
    tiny = LaplaceEvent(sensitivity=5e-324, scale=1)
    assert event_epsilon(tiny, 1e-5) == 0
    assert event_epsilon(tiny) == 5e-324
    with pytest.raises(FastDPError, match="no finite epsilon"):
        event_epsilon(DiscreteGaussianEvent(sensitivity=1, sigma=1e-300), 1e-5)
    step = PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=0.065))
    found = PLDAccountant().compose(step, count=100).delta(0)
    # An output above 1/2 reveals that the record is in a sample.
    # With probability .99^100 it is in none.
    assert 1 - 0.99**100 - 1e-9 <= found <= 1 - 0.99**100 + 1e-4


def test_numbers_are_shown_briefly_and_read_as_they_are():
    for event in (
        GaussianEvent(sensitivity=1e-300, sigma=1e300),
        RDPEvent(orders=(2,), epsilons=(5e-324,)),
        PoissonSampledEvent(5e-324, LaplaceEvent(sensitivity=1, scale=0.1)),
    ):
        assert eval(repr(event)) == event  # noqa: S307 - our own text
        assert short(repr(event))
    long = ApproximateDPEvent(epsilon=1, delta=NEARLY_ONE)
    assert repr(long) == "ApproximateDPEvent(epsilon=1, delta=a fraction of 997 bits)"
    assert repr(GaussianTradeOff(1e-300)) == "GaussianTradeOff(mu=1e-300)"
    for value in (Fraction(-1, 10**300), -(Decimal(10) ** 300), -(10**300)):
        with pytest.raises(FastDPError) as caught:
            PureDPEvent(value)
        assert short(str(caught.value))


@pytest.mark.parametrize("digits", [12, 14, 16, 25])
def test_delta_of_tiny_epsilons_is_not_below_the_truth(digits):
    e = Fraction(1, 10**digits)
    size = float(e)
    # Sums of losses this small are linear in them.
    truths = {
        PureDPEvent(e): 0.5,
        LaplaceEvent(sensitivity=1, scale=1 / e): 0.5,
        ExponentialMechanismEvent(e): 0.25,
    }
    for event, truth in truths.items():
        accountant = PLDAccountant().compose(event)
        assert truth * size * (1 - 1e-9) <= accountant.delta(0) <= 0.6 * size
        halved = accountant.delta(e / 2)
        assert halved >= truth * size / (2 if truth == 0.5 else 4) * (1 - 1e-9)
