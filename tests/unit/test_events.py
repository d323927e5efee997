"""Events are immutable statements of exact public facts."""

import dataclasses
import json
import pickle
from decimal import Decimal
from fractions import Fraction

import pytest

from fastdp import accounting
from fastdp.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteGaussianSumEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    MixtureOfGaussiansEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PrivacyLossEvent,
    PureDPEvent,
    RandomAllocationEvent,
    RandomizedResponseEvent,
    RDPEvent,
    SampledWithoutReplacementEvent,
    SampledWithReplacementEvent,
    SelfComposedEvent,
    SkellamEvent,
    TCDPEvent,
    TradeOffEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPEvent,
    l2_sensitivity,
)
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError

EVENTS = [
    LaplaceEvent(sensitivity=1, scale=0.1),
    DiscreteLaplaceEvent(sensitivity=2, scale=Decimal("0.1")),
    TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=10, bound=140),
    GaussianEvent(sensitivity=l2_sensitivity(2), sigma=3),
    DiscreteGaussianEvent(sensitivity=1, sigma=4.5, coordinates=7),
    DiscreteGaussianSumEvent(sensitivity=1, sigma=4.5, shares=9, coordinates=7),
    SkellamEvent(sensitivity=1, variance=Fraction(9, 7)),
    MixtureOfGaussiansEvent(
        sensitivities=(0, 1, 2.5), probabilities=(0.5, 0.25, 0.25), sigma=Fraction(7, 3)
    ),
    RandomizedResponseEvent(p=Fraction(3, 4), q=Fraction(1, 5)),
    ExponentialMechanismEvent(0.5),
    PermuteAndFlipEvent(Fraction(1, 3)),
    PureDPEvent(0),
    ApproximateDPEvent(epsilon=1, delta=Decimal("1e-6")),
    ZCDPEvent(0.5),
    ZCDPEvent(0.5, xi=0.25),
    TCDPEvent(rho=0.5, omega=10),
    RDPEvent(orders=(2, 8, 32.5), epsilons=(0.1, 0.4, 2)),
    GDPEvent(1.5),
    TradeOffEvent(
        false_positive_rates=(0, 0.25, 1), false_negative_rates=(0.75, 0.25, 0)
    ),
    PrivacyLossEvent(losses=(-1, 2), probabilities=(0.25, 0.5)),
    PrivacyLossEvent(
        losses=(-1, 2),
        probabilities=(0.25, 0.5),
        addition_losses=(0,),
        addition_probabilities=(0.75,),
    ),
    ComposedEvent(
        (LaplaceEvent(sensitivity=1, scale=2), GaussianEvent(sensitivity=1, sigma=2))
    ),
    SelfComposedEvent(LaplaceEvent(sensitivity=1, scale=2), 1000),
    PoissonSampledEvent(Fraction(1, 100), GaussianEvent(sensitivity=1, sigma=2)),
    PoissonSampledEvent(
        Fraction(1, 100),
        GaussianEvent(sensitivity=1, sigma=2),
        largest_batch=20,
        records=1000,
    ),
    RandomAllocationEvent(
        steps=10, event=GaussianEvent(sensitivity=1, sigma=2), selected=1
    ),
    RandomAllocationEvent(
        steps=10, selected=3, event=GaussianEvent(sensitivity=1, sigma=2)
    ),
    SampledWithoutReplacementEvent(
        source_dataset_size=1000,
        sample_size=10,
        event=GaussianEvent(sensitivity=1, sigma=2),
    ),
    SampledWithReplacementEvent(
        source_dataset_size=10,
        sample_size=100,
        event=LaplaceEvent(sensitivity=1, scale=2),
    ),
    GroupEvent(SelfComposedEvent(PureDPEvent(1), 2), 3),
    DiscreteGaussianEvent(
        sensitivity=1, sigma=2, neighboring_relation=NeighboringRelation.REPLACE_SPECIAL
    ),
]
NAMES = {
    cls.__name__: cls
    for cls in (*(type(e) for e in EVENTS), NeighboringRelation, Fraction)
}


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_repr_is_the_constructor_call(event):
    again = eval(repr(event), NAMES)  # noqa: S307 - our own repr
    assert again == event
    assert hash(again) == hash(event)
    assert isinstance(event, Event)
    assert pickle.loads(pickle.dumps(event)) == event


def test_parameters_are_exact():
    event = DiscreteLaplaceEvent(sensitivity=2, scale=Decimal("0.1"))
    assert (event.sensitivity, event.scale) == (2, Fraction(1, 10))
    assert (
        LaplaceEvent(sensitivity=1, scale=0.1).scale == Fraction(0.1) != Fraction(1, 10)
    )
    assert repr(event) == "DiscreteLaplaceEvent(sensitivity=2, scale=Fraction(1, 10))"


def test_events_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EVENTS[0].scale = Fraction(5)


def test_laws_and_relations_are_told_apart():
    assert LaplaceEvent(sensitivity=1, scale=2) != DiscreteLaplaceEvent(
        sensitivity=1, scale=2
    )
    replace = NeighboringRelation.REPLACE_ONE
    assert LaplaceEvent(sensitivity=1, scale=2) != LaplaceEvent(
        sensitivity=1, scale=2, neighboring_relation=replace
    )
    assert len(set(EVENTS)) == len(EVENTS)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("make", "noise"),
    [
        (LaplaceEvent, "scale"),
        (DiscreteGaussianEvent, "sigma"),
        (GaussianEvent, "sigma"),
    ],
)
def test_values_out_of_domain_are_refused(make, noise, bad):
    if bad != 0:
        with pytest.raises(ParameterError, match="sensitivity"):
            make(sensitivity=bad, **{noise: 1})
    with pytest.raises(ParameterError, match=noise):
        make(sensitivity=1, **{noise: bad})


@pytest.mark.parametrize("bad", [True, "1", None, [1]])
def test_wrong_types_are_refused(bad):
    with pytest.raises(DTypeError):
        DiscreteLaplaceEvent(sensitivity=bad, scale=1)
    with pytest.raises(DTypeError, match="neighboring_relation"):
        DiscreteLaplaceEvent(sensitivity=1, scale=1, neighboring_relation=bad)


def test_coordinates_and_bound_are_checked():
    with pytest.raises(ParameterError, match="coordinates"):
        DiscreteGaussianEvent(sensitivity=1, sigma=1, coordinates=0)
    with pytest.raises(DTypeError, match="coordinates"):
        DiscreteGaussianEvent(sensitivity=1, sigma=1, coordinates=1.0)
    with pytest.raises(ParameterError, match="bound"):
        TruncatedDiscreteLaplaceEvent(sensitivity=3, scale=1, bound=2)


@pytest.mark.parametrize("square", [1, 2, Fraction(9, 4), 1e-30, 3e40, Decimal("0.7")])
def test_l2_sensitivity_is_above_the_root_and_close(square):
    root = l2_sensitivity(square)
    exact = Fraction(square)
    assert exact <= root * root <= exact * (1 + Fraction(1, 2**79))
    assert l2_sensitivity(Fraction(9, 4)) == Fraction(3, 2)


@pytest.mark.parametrize(
    ("p", "q", "match"),
    [
        (0.25, 0.5, "p must be >= q"),
        (0.75, 0.5, "<= 1"),
        (0.5, 0, "q must be"),
        (0, 0, "p"),
    ],
)
def test_response_probabilities_are_checked(p, q, match):
    with pytest.raises(ParameterError, match=match):
        RandomizedResponseEvent(p=p, q=q)


# ---- JSON --------------------------------------------------------------------------


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_json_round_trip(event):
    text = event.to_json()
    assert Event.from_json(text) == event
    assert json.loads(text)["version"] == 1


def test_every_kind_of_event_is_listed_here():
    kinds = {
        name
        for name in accounting.__all__
        if name.endswith("Event") and name != "Event"
    }
    assert {type(event).__name__ for event in EVENTS} == kinds


def envelope(**event):
    return json.dumps({"format": "fastdp event", "version": 1, "event": event})


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "JSON"),
        ("[" * 100_000, "JSON"),
        ("[]", "object"),
        ('{"format": "fastdp event", "version": 2, "event": {}}', "version 1"),
        ('{"format": "other", "version": 1, "event": {}}', "form"),
        (envelope(), "'type'"),
        (envelope(type="Event_"), "known event"),
        (envelope(type="_Wrapper"), "known event"),
        (envelope(type="GDPEvent"), "fields"),
        (envelope(type="GDPEvent", mu="1", nu="2"), "fields"),
        (envelope(type="GDPEvent", mu=1.5, neighboring_relation="REPLACE_ONE"), "1/10"),
        (envelope(type="GDPEvent", mu="1/0", neighboring_relation="REPLACE_ONE"), "/"),
        (envelope(type="GDPEvent", mu="-1", neighboring_relation="REPLACE_ONE"), "mu"),
        (envelope(type="GDPEvent", mu="1", neighboring_relation=["x"]), "one of"),
        (envelope(type="ComposedEvent", events="GDPEvent"), "list"),
        (envelope(type="ComposedEvent", events=[]), "empty"),
    ],
)
def test_other_json_is_refused(text, match):
    with pytest.raises(ParameterError, match=match):
        Event.from_json(text)


def test_json_must_be_text():
    with pytest.raises(DTypeError, match="text"):
        Event.from_json(b"{}")


# ---- what combined events ask ------------------------------------------------------


def test_relations_and_groups_are_not_mixed():
    replace = GDPEvent(1, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    with pytest.raises(UnsupportedEventError, match="neighboring_relation"):
        ComposedEvent((GDPEvent(1), replace))
    with pytest.raises(UnsupportedEventError, match="group_size"):
        ComposedEvent((GDPEvent(1), GroupEvent(GDPEvent(1), 2)))


def test_wrappers_take_over_relation_and_group():
    inner = GroupEvent(
        GDPEvent(1, neighboring_relation=NeighboringRelation.REPLACE_ONE), 2
    )
    for event in (
        GroupEvent(inner, 3),
        ComposedEvent((GroupEvent(inner, 3),)),
        SelfComposedEvent(GroupEvent(inner, 3), 2),
    ):
        assert event.neighboring_relation is NeighboringRelation.REPLACE_ONE
        assert event.group_size == 6


def test_lists_of_events_become_tuples():
    event = ComposedEvent([GDPEvent(1), GDPEvent(2)])
    assert event.events == (GDPEvent(1), GDPEvent(2))
    assert len({event, ComposedEvent((GDPEvent(1), GDPEvent(2)))}) == 1


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: PureDPEvent(-1), ParameterError, "epsilon"),
        (lambda: PureDPEvent(float("inf")), ParameterError, "epsilon"),
        (lambda: ApproximateDPEvent(epsilon=1, delta=1.5), ParameterError, "delta"),
        (lambda: ApproximateDPEvent(epsilon=1, delta=-0.1), ParameterError, "delta"),
        (lambda: ZCDPEvent(-1), ParameterError, "rho"),
        (lambda: ZCDPEvent(1, xi=-1), ParameterError, "xi"),
        (lambda: TCDPEvent(rho=1, omega=1), ParameterError, "omega"),
        (lambda: RDPEvent(orders=(), epsilons=()), ParameterError, "the same length"),
        (
            lambda: RDPEvent(orders=(2, 3), epsilons=(1,)),
            ParameterError,
            "the same length",
        ),
        (
            lambda: RDPEvent(orders=(3, 2), epsilons=(1, 1)),
            ParameterError,
            "increasing",
        ),
        (lambda: RDPEvent(orders=(1, 2), epsilons=(1, 1)), ParameterError, "> 1"),
        (lambda: RDPEvent(orders=(2,), epsilons=(-1,)), ParameterError, "epsilons"),
        (lambda: RDPEvent(orders=2, epsilons=1), DTypeError, "orders"),
        (lambda: GDPEvent(float("nan")), ParameterError, "mu"),
        (
            lambda: TradeOffEvent(false_positive_rates=(0,), false_negative_rates=(0,)),
            ParameterError,
            "length",
        ),
        (
            lambda: PrivacyLossEvent(losses=(), probabilities=()),
            ParameterError,
            "the same length",
        ),
        (
            lambda: PrivacyLossEvent(losses=(1,), probabilities=(0.5, 0.5)),
            ParameterError,
            "the same length",
        ),
        (
            lambda: PrivacyLossEvent(losses=(2, 1), probabilities=(0.5, 0.5)),
            ParameterError,
            "increasing",
        ),
        (
            lambda: PrivacyLossEvent(losses=(1, 2), probabilities=(0, 0.5)),
            ParameterError,
            "probabilities",
        ),
        (
            lambda: PrivacyLossEvent(losses=(1, 2), probabilities=(0.6, 0.5)),
            ParameterError,
            "<= 1",
        ),
        (
            lambda: PrivacyLossEvent(losses=(-1, 2), probabilities=(0.5, 0.5)),
            ParameterError,
            "optimistic",
        ),
        (
            lambda: PrivacyLossEvent(
                losses=(0,),
                probabilities=(1,),
                addition_losses=(float("inf"),),
                addition_probabilities=(1,),
            ),
            ParameterError,
            "addition_losses",
        ),
        (lambda: PrivacyLossEvent(losses=1, probabilities=1), DTypeError, "losses"),
        (
            lambda: TradeOffEvent(
                false_positive_rates=(0, 0.5), false_negative_rates=(1, 0)
            ),
            ParameterError,
            "0 to 1",
        ),
        (
            lambda: TradeOffEvent(
                false_positive_rates=(0, 0.5, 1), false_negative_rates=(1, 0.6, 0)
            ),
            ParameterError,
            "between",
        ),
        (
            lambda: TradeOffEvent(
                false_positive_rates=(0, 0.5, 0.75, 1),
                false_negative_rates=(0.5, 0.4, 0.1, 0),
            ),
            ParameterError,
            "convex",
        ),
        (lambda: PoissonSampledEvent(2, GDPEvent(1)), ParameterError, "probability"),
        (lambda: PoissonSampledEvent(0.5, "x"), DTypeError, "event"),
        (lambda: SelfComposedEvent(GDPEvent(1), 0), ParameterError, "count"),
        (lambda: SelfComposedEvent(GDPEvent(1), 1.0), DTypeError, "count"),
        (lambda: GroupEvent(GDPEvent(1), -1), ParameterError, "size"),
        (
            lambda: SampledWithoutReplacementEvent(
                source_dataset_size=5, sample_size=6, event=GDPEvent(1)
            ),
            ParameterError,
            "sample_size",
        ),
        (lambda: ComposedEvent(GDPEvent(1)), DTypeError, "events"),
        (lambda: ComposedEvent((1,)), DTypeError, "events"),
    ],
)
def test_parameters_out_of_domain_are_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()
