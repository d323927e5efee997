"""Events on disjoint parts of the data: never below the truth, and what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting import (
    ApproximateDPEvent,
    Event,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    PLDAccountant,
    PureDPEvent,
    ZCDPAccountant,
    ZCDPEvent,
    parallel_event,
)
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError


def gaussian(sigma: float, relation: str = "add_or_remove_one") -> GaussianEvent:
    return GaussianEvent(sensitivity=1, sigma=sigma, neighboring_relation=relation)


def channel(rng: np.random.Generator, epsilon: float) -> np.ndarray:
    """Return the laws of a bit without and with the record, within e^epsilon."""
    while True:
        laws = rng.uniform(0.02, 0.98, (2, 1))
        laws = np.hstack((laws, 1 - laws))
        if abs(np.log(laws[0] / laws[1])).max() <= epsilon:
            return laws


@pytest.mark.parametrize("seed", range(40))
def test_no_adaptive_mechanisms_on_parts_are_above(seed: int) -> None:
    """Three parts, each answer's law chosen by those before it; the record in any."""
    rng = np.random.default_rng(seed)
    epsilons = rng.uniform(0.1, 1.5, 3)
    event = parallel_event(
        [PureDPEvent(float(e)) for e in epsilons], assignment="record"
    )
    assert event == PureDPEvent(float(max(epsilons)))
    accountant = PLDAccountant().compose(event)
    laws = {
        past: channel(rng, epsilons[j])
        for j in range(3)
        for past in itertools.product((0, 1), repeat=j)
    }

    def law(part: int | None) -> np.ndarray:
        """Return the law of all answers, with the record in a part or in none."""
        return np.array(
            [
                math.prod(laws[a[:j]][int(j == part)][a[j]] for j in range(3))
                for a in itertools.product((0, 1), repeat=3)
            ]
        )

    without = law(None)
    for part, at in itertools.product(range(3), (0.0, 0.2, 0.6, 1.2)):
        pair = law(part), without
        for p, q in (pair, pair[::-1]):
            truth = np.maximum(p - math.exp(at) * q, 0).sum()
            assert truth <= accountant.delta(at) * (1 + 1e-12) + 1e-15


def test_a_replaced_record_of_another_part_costs_two() -> None:
    """Two exact counts' neighbors: what is refused would be too small."""
    e = 0.5
    p = np.array([1.0, math.exp(-e)]) / (1 + math.exp(-e))
    both, swapped = np.outer(p, p[::-1]), np.outer(p[::-1], p)
    truth = np.maximum(both - math.exp(0.6) * swapped, 0).sum()
    event = PureDPEvent(e)
    assert truth > PLDAccountant().compose(event).delta(0.6)
    group = GroupEvent(parallel_event([event, event], assignment="record"), 2)
    assert truth <= PLDAccountant().compose(group).delta(0.6) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("events", "largest"),
    [
        ([gaussian(2), gaussian(1), gaussian(3)], 1),
        ([gaussian(2)], 0),
        ([GDPEvent(Fraction(1, 3)), gaussian(3), gaussian(4)], 0),
        ([LaplaceEvent(sensitivity=1, scale=s) for s in (5, 2, 3)], 1),
        ([PureDPEvent(1), LaplaceEvent(sensitivity=1, scale=1)], 0),
        ([ZCDPEvent(1), PureDPEvent(1), gaussian(2)], 0),
        ([ApproximateDPEvent(epsilon=1, delta=0.01)] * 3, 0),
    ],
)
def test_the_event_that_covers_all_others(events: list[Event], largest: int) -> None:
    event = parallel_event(iter(events), assignment="record")
    assert event == events[largest]
    at = Fraction(1, 10)
    made = PLDAccountant if PLDAccountant().supports(event) else ZCDPAccountant
    whole = made().compose(event).delta(at)
    for e in events:
        assert made().compose(e).delta(at) <= whole * (1 + 1e-9)


def test_places_under_replacement() -> None:
    for relation in ("replace_one", "replace_special"):
        both = [gaussian(2, relation), gaussian(1, relation)]
        assert parallel_event(both, assignment="place") == both[1]


@pytest.mark.parametrize(
    ("error", "events", "assignment", "message"),
    [
        (UnsupportedEventError, [gaussian(1)], "place", "moves the places of others"),
        (
            UnsupportedEventError,
            [gaussian(1, "replace_one")],
            "record",
            "then two parts change",
        ),
        (
            UnsupportedEventError,
            [gaussian(1), gaussian(1, "replace_one")],
            "record",
            "one neighboring relation",
        ),
        (
            UnsupportedEventError,
            [GroupEvent(PureDPEvent(1), 2)],
            "record",
            "single records",
        ),
        (
            UnsupportedEventError,
            [gaussian(1), PureDPEvent(1)],
            "record",
            "one that covers all others, got GaussianEvent, PureDPEvent",
        ),
        (ParameterError, [], "record", "at least one"),
        (ParameterError, [gaussian(1)], "cluster", "'record' or 'place'"),
        (DTypeError, [1], "record", "events must be"),
    ],
)
def test_refusals(
    error: type[Exception], events: list[Event], assignment: str, message: str
) -> None:
    with pytest.raises(error, match=message):
        parallel_event(events, assignment=assignment)
    with pytest.raises(DTypeError, match="events must be iterable, got GaussianEvent"):
        parallel_event(gaussian(1), assignment="record")  # type: ignore[arg-type]
