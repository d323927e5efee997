"""Events are immutable statements of exact public facts."""

import dataclasses
import pickle
from decimal import Decimal
from fractions import Fraction

import pytest

from fastdp.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    RandomizedResponseEvent,
    TruncatedDiscreteLaplaceEvent,
    l2_sensitivity,
)
from fastdp.exceptions import DTypeError, ParameterError

EVENTS = [
    LaplaceEvent(1, 0.1),
    DiscreteLaplaceEvent(2, Decimal("0.1")),
    TruncatedDiscreteLaplaceEvent(1, 10, 140),
    GaussianEvent(l2_sensitivity(2), 3),
    DiscreteGaussianEvent(1, 4.5, coordinates=7),
    RandomizedResponseEvent(Fraction(3, 4), Fraction(1, 5)),
    DiscreteGaussianEvent(
        1, 2, neighboring_relation=NeighboringRelation.REPLACE_SPECIAL
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
    event = DiscreteLaplaceEvent(2, Decimal("0.1"))
    assert (event.sensitivity, event.scale) == (2, Fraction(1, 10))
    assert LaplaceEvent(1, 0.1).scale == Fraction(0.1) != Fraction(1, 10)
    assert repr(event) == "DiscreteLaplaceEvent(sensitivity=2, scale=Fraction(1, 10))"


def test_events_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EVENTS[0].scale = Fraction(5)


def test_laws_and_relations_are_told_apart():
    assert LaplaceEvent(1, 2) != DiscreteLaplaceEvent(1, 2)
    replace = NeighboringRelation.REPLACE_ONE
    assert LaplaceEvent(1, 2) != LaplaceEvent(1, 2, replace)
    assert len(set(EVENTS)) == len(EVENTS)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize("make", [LaplaceEvent, DiscreteGaussianEvent, GaussianEvent])
def test_values_out_of_domain_are_refused(make, bad):
    with pytest.raises(ParameterError, match="sensitivity"):
        make(bad, 1)
    with pytest.raises(ParameterError, match=r"scale|sigma"):
        make(1, bad)


@pytest.mark.parametrize("bad", [True, "1", None, [1]])
def test_wrong_types_are_refused(bad):
    with pytest.raises(DTypeError):
        DiscreteLaplaceEvent(bad, 1)
    with pytest.raises(DTypeError, match="neighboring_relation"):
        DiscreteLaplaceEvent(1, 1, bad)


def test_coordinates_and_bound_are_checked():
    with pytest.raises(ParameterError, match="coordinates"):
        DiscreteGaussianEvent(1, 1, coordinates=0)
    with pytest.raises(DTypeError, match="coordinates"):
        DiscreteGaussianEvent(1, 1, coordinates=1.0)
    with pytest.raises(ParameterError, match="bound"):
        TruncatedDiscreteLaplaceEvent(3, 1, 2)


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
        RandomizedResponseEvent(p, q)
