"""What noise was calibrated for: remembered, charged, and never assumed."""

from __future__ import annotations

import inspect
import itertools
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import calibration
from fastdp.accounting import NeighboringRelation, PoissonSampledEvent, PureFilter
from fastdp.accounting.events import (
    Event,
    as_event,
)
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError
from fastdp.mechanisms.pate import PATEDivergence
from fastdp.testing import FixedStream

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE

#: Each kind of added noise from its parameter alone.
ALONE: dict[str, Callable[..., Any]] = {
    "DiscreteLaplace": lambda **k: fastdp.DiscreteLaplace(scale=10, **k),
    "DiscreteGaussian": lambda **k: fastdp.DiscreteGaussian(sigma=10, **k),
    "TruncatedLaplace": lambda **k: fastdp.TruncatedLaplace(scale=10, bound=60, **k),
    "Laplace": lambda **k: fastdp.Laplace(scale=10, **k),
    "Gaussian": lambda **k: fastdp.Gaussian(sigma=10, **k),
}
#: Each way to calibrate, for a sensitivity.
BUDGET = {"epsilon": 0.3, "delta": 1e-6}
CALIBRATED: dict[str, Callable[..., Any]] = {
    "DiscreteLaplace": lambda **k: fastdp.DiscreteLaplace.from_epsilon(0.3, **k),
    "DiscreteLaplace rho": lambda **k: fastdp.DiscreteLaplace.from_rho(0.05, **k),
    "DiscreteGaussian rho": lambda **k: fastdp.DiscreteGaussian.from_rho(0.05, **k),
    "DiscreteGaussian": lambda **k: fastdp.DiscreteGaussian.from_epsilon_delta(
        **BUDGET, **k
    ),
    "TruncatedLaplace": lambda **k: fastdp.TruncatedLaplace.from_epsilon_delta(
        **BUDGET, **k
    ),
    "Laplace": lambda **k: fastdp.Laplace.from_epsilon(0.3, **k),
    "Laplace rho": lambda **k: fastdp.Laplace.from_rho(0.05, **k),
    "Gaussian rho": lambda **k: fastdp.Gaussian.from_rho(0.05, **k),
    "Gaussian rdp rho": lambda **k: fastdp.Gaussian.from_rdp(
        order=4, divergence=Fraction(0.05) * 4, **k
    ),
    "Gaussian": lambda **k: fastdp.Gaussian.from_epsilon_delta(**BUDGET, **k),
}
#: Each choice and the sparse vector, which always have a sensitivity.
STATED: dict[str, Callable[..., Any]] = {
    "ExponentialMechanism": lambda **k: fastdp.ExponentialMechanism(1, **k),
    "PermuteAndFlip": lambda **k: fastdp.PermuteAndFlip(1, **k),
    "ReportNoisyMax": lambda **k: fastdp.ReportNoisyMax(1, noise="laplace", **k),
    "SparseVector": lambda **k: fastdp.SparseVector(100, epsilon=1, **k),
}
#: Its guarantee asks for conditions on the sensitivity: tests/unit/test_sinh_normal.py.
CONDITIONAL = {"SinhNormal"}
READINGS: list[Callable[[Any], Any]] = [
    lambda m: m.event(),
    lambda m: m.epsilon(delta=1e-6),
    lambda m: m.delta(1),
    lambda m: m.rho(),
]


# ---- remembered ----------------------------------------------------------------------


@pytest.mark.parametrize("name", CALIBRATED)
@pytest.mark.parametrize("sensitivity", [1, 5, Fraction(200_001, 2)])
def test_what_was_asked_for_is_what_is_charged(name: str, sensitivity: Any) -> None:
    m = CALIBRATED[name](sensitivity=sensitivity)
    assert m.sensitivity == sensitivity
    assert m.event() == m.event(sensitivity=sensitivity)
    if name.endswith("rho"):
        assert 0.9 * 0.05 < m.rho() <= 0.05
    elif "Gaussian" in name:
        # The two readings round apart.
        assert 0.99 * 0.3 < m.epsilon(delta=1e-6) <= 0.3 * (1 + 1e-12)
        assert m.delta(0.3) <= 1e-6
    elif name == "TruncatedLaplace":
        assert m.delta(0.3) <= 1e-6
    else:
        assert m.epsilon() == 0.3


def test_a_filter_charges_the_sensitivity_that_was_calibrated_for() -> None:
    budget = PureFilter(1)
    m = fastdp.DiscreteLaplace.from_epsilon(0.3, sensitivity=5)
    budget.spend(m.event(), count=3)
    assert not budget.covers(m.event())
    assert fastdp.Laplace.from_epsilon(0.5, sensitivity=200_000).epsilon() == 0.5


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("reading", READINGS)
def test_noise_alone_has_no_cost(name: str, reading: Callable[[Any], Any]) -> None:
    m = ALONE[name]()
    assert m.sensitivity is None
    with pytest.raises(ParameterError) as caught:
        reading(m)
    assert "m.event(sensitivity=1)" in str(caught.value)
    assert "sensitivity= in the constructor" in str(caught.value)


@pytest.mark.parametrize("name", ALONE)
def test_an_explicit_sensitivity_wins(name: str) -> None:
    told, other = ALONE[name](sensitivity=2), ALONE[name](sensitivity=3)
    alone = ALONE[name]()
    assert told.event(sensitivity=3) == other.event() == alone.event(sensitivity=3)
    assert told.event() == other.event(sensitivity=2) != other.event()
    assert told.delta(1, sensitivity=3) == other.delta(1)
    assert told.epsilon(delta=0.1, sensitivity=3) == other.epsilon(delta=0.1)
    if name != "TruncatedLaplace":
        assert told.rho(sensitivity=3) == other.rho() > told.rho()


@pytest.mark.parametrize("name", CALIBRATED)
def test_a_sensitivity_has_no_default(name: str) -> None:
    with pytest.raises(TypeError, match="sensitivity"):
        CALIBRATED[name]()
    with pytest.raises(DTypeError, match=r"^sensitivity must "):
        CALIBRATED[name](sensitivity=None)


@pytest.mark.parametrize("name", STATED)
def test_choices_have_no_default_either(name: str) -> None:
    with pytest.raises(TypeError, match="sensitivity"):
        STATED[name]()


def test_no_function_of_the_package_assumes_a_sensitivity() -> None:
    for name in calibration.__all__:
        found = inspect.signature(getattr(calibration, name)).parameters
        if "sensitivity" in found:
            assert found["sensitivity"].default is inspect.Parameter.empty, name


# ---- the relation --------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ALONE, *STATED])
def test_the_event_carries_the_relation(name: str) -> None:
    make = {**ALONE, **STATED}[name]
    m = make(sensitivity=1, neighboring_relation=REPLACE)
    assert m.neighboring_relation is REPLACE
    assert m.event().neighboring_relation is REPLACE
    usual = make(sensitivity=1)
    assert usual.neighboring_relation is ADD
    assert usual.event().neighboring_relation is ADD
    for wrong in ("REPLACED", 2, True):
        with pytest.raises(DTypeError, match="neighboring_relation must be"):
            make(sensitivity=1, neighboring_relation=wrong)
    named = make(sensitivity=1, neighboring_relation="replace_one")
    assert named.event() == m.event()


@pytest.mark.parametrize("name", ALONE)
def test_a_sensitivity_serves_its_own_relation_alone(name: str) -> None:
    # One record more moves a histogram by 1, a record replaced by 2.
    usual = ALONE[name](sensitivity=1)
    assert usual.event(neighboring_relation=ADD) == usual.event()
    replaced = usual.event(sensitivity=2, neighboring_relation=REPLACE)
    assert replaced.neighboring_relation is REPLACE
    assert replaced == ALONE[name](sensitivity=2, neighboring_relation=REPLACE).event()
    with pytest.raises(ParameterError, match="sensitivity must be given with"):
        usual.event(neighboring_relation=REPLACE)
    with pytest.raises(ParameterError, match="sensitivity must be given with"):
        ALONE[name](sensitivity=1, neighboring_relation=REPLACE).event(
            neighboring_relation=ADD
        )
    alone = ALONE[name]()
    assert alone.event(sensitivity=2, neighboring_relation=REPLACE) == replaced
    with pytest.raises(ParameterError, match="sensitivity must be given, for"):
        alone.event(neighboring_relation=REPLACE)
    for wrong in ("REPLACED", 2, True):
        with pytest.raises(DTypeError, match="neighboring_relation must be"):
            usual.event(neighboring_relation=wrong)


@pytest.mark.parametrize("name", STATED)
def test_a_choice_has_the_relation_that_it_was_made_for(name: str) -> None:
    with pytest.raises(TypeError, match="neighboring_relation"):
        STATED[name](sensitivity=1).event(neighboring_relation=REPLACE)


@pytest.mark.parametrize("name", CALIBRATED)
def test_calibrated_noise_carries_the_relation(name: str) -> None:
    m = CALIBRATED[name](sensitivity=2, neighboring_relation=REPLACE)
    assert m.event().neighboring_relation is REPLACE
    # A sensitivity for replacement is none for the record of a Poisson sample.
    sampled = PoissonSampledEvent(0.01, m.event())
    budget = PureFilter(1, neighboring_relation=ADD)
    with pytest.raises(Exception, match="neighboring_relation") as caught:
        budget.spend(sampled)
    assert caught.type.__name__ == "UnsupportedEventError"


@pytest.mark.parametrize("name", STATED)
def test_monotonic_choices_are_for_adding_or_removing(name: str) -> None:
    with pytest.raises(ParameterError, match="ADD_OR_REMOVE_ONE with monotonic"):
        STATED[name](sensitivity=1, monotonic=True, neighboring_relation=REPLACE)


# ---- identity ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALONE)
def test_identity_follows_what_is_remembered(name: str) -> None:
    make = ALONE[name]
    options: list[dict[str, Any]] = [
        {},
        {"sensitivity": 1},
        {"sensitivity": 2},
        {"sensitivity": 2, "neighboring_relation": REPLACE},
        {"neighboring_relation": REPLACE},
    ]
    made = [make(**option) for option in options]
    assert len(set(made)) == len(made)
    for m, option in zip(made, options, strict=True):
        again = pickle.loads(pickle.dumps(m))
        assert again == m == make(**option)
        assert again.sensitivity == option.get("sensitivity")
        assert again.neighboring_relation is option.get("neighboring_relation", ADD)
        for word, value in option.items():
            assert f"{word}={value!r}" in repr(m)
        assert ("sensitivity" in repr(m)) is ("sensitivity" in option)
    for one, other in itertools.pairwise(made):
        # All mechanisms of one law share one table.
        assert one._sampler is other._sampler
        x = np.zeros(100, float if name in ("Laplace", "Gaussian") else np.int64)
        drawn = [m.release(x, stream=FixedStream("law")) for m in (one, other)]
        assert (drawn[0] == drawn[1]).all()


def test_a_truncated_law_narrower_than_its_sensitivity_is_refused() -> None:
    with pytest.raises(ParameterError, match="bound"):
        fastdp.TruncatedLaplace(scale=1, bound=4, sensitivity=5)


# ---- the event of any accepted object ------------------------------------------------


def test_as_event() -> None:
    m = fastdp.DiscreteLaplace.from_epsilon(0.3, sensitivity=5)
    assert as_event("event", m) == m.event()
    assert as_event("event", m.event()) == m.event()
    vector = fastdp.SparseVector(1, epsilon=1, sensitivity=1)
    assert as_event("event", vector) == vector.event()
    with pytest.raises(ParameterError, match="sensitivity must be given"):
        as_event("event", fastdp.DiscreteLaplace(10))
    for wrong in (None, 1.0, "event", fastdp.DiscreteLaplace, Event, object()):
        with pytest.raises(DTypeError, match="event must be an Event or a mechanism"):
            as_event("event", wrong)


# ---- rounding to the grid ------------------------------------------------------------

NEAR = np.full(1000, 0.2499), np.full(1000, 0.2501)


def test_a_thousand_entries_next_to_a_tie_are_charged() -> None:
    """0.2 apart in L1, and 1000 steps of 1/2 on the grid: these tell them apart."""
    with pytest.raises(ParameterError, match=r"^coordinates must be given with gran"):
        fastdp.Laplace(1.0, granularity=0.5)
    m = fastdp.Laplace(1.0, granularity=0.5, coordinates=1000, sensitivity=0.2)
    moved = [m.release(x, stream=FixedStream("near")) for x in NEAR]
    steps = np.abs(moved[0] - moved[1]) / 0.5
    assert steps.sum() == 1000
    assert m.event().sensitivity >= 1000
    assert m.epsilon() == pytest.approx(500.2)


@pytest.mark.parametrize("make", [fastdp.Laplace, fastdp.Gaussian])
def test_the_default_grid_is_charged_for_all_entries_that_it_takes(make: Any) -> None:
    m = make(1.0, sensitivity=0.2)
    most = calibration._grid.UNKNOWN_COORDINATES
    assert m.coordinates == most == 2**20
    step = Fraction(m.granularity)
    # Halfway between two points, and next to it, in every entry.
    half = float(step / 2)
    low = np.full(most, np.nextafter(half, 0))
    high = np.full(most, np.nextafter(half, 1))
    moved = [m.release(x, stream=FixedStream("half")) for x in (low, high)]
    steps = (np.abs(moved[0] - moved[1]) / float(step)).astype(np.int64)
    norm = int(steps.sum()) if make is fastdp.Laplace else 2**10
    assert int((steps * steps).sum()) == most
    apart = sum(Fraction(b) - Fraction(a) for a, b in [(low[0], high[0])]) * most
    assert norm <= m.event(sensitivity=apart).sensitivity
    with pytest.raises(ParameterError, match=r"^x must have at most 1048576 entries"):
        m.release(np.zeros(most + 1))
    assert make(1.0, coordinates=1).release(np.zeros(most + 1)).size == most + 1
    # What that costs: 2**-19 of epsilon at most, 2**-29 with Gaussian noise.
    one = make(1.0, sensitivity=0.2, coordinates=1)
    paid = float(m.event().sensitivity - one.event().sensitivity) * float(step)
    assert 0 < paid <= (2**-19 if make is fastdp.Laplace else 2**-29)


@pytest.mark.parametrize("make", [fastdp.Laplace, fastdp.Gaussian])
def test_a_grid_of_ones_own_asks_everywhere(make: Any) -> None:
    kinds = [make.from_rho] if make is fastdp.Gaussian else [make.from_epsilon]
    for factory in kinds:
        with pytest.raises(ParameterError, match="coordinates must be given"):
            factory(1, sensitivity=1, granularity=0.5)
        assert (
            factory(1, sensitivity=1, granularity=0.5, coordinates=2).coordinates == 2
        )
    functions = [
        lambda **k: calibration.grid_laplace_scale(epsilon=1, **k),
        lambda **k: calibration.grid_laplace_scale_from_rho(rho=1, **k),
        lambda **k: calibration.grid_gaussian_sigma_from_rho(rho=1, **k),
        lambda **k: calibration.grid_gaussian_sigma(epsilon=1, delta=1e-6, **k),
    ]
    for function in functions:
        with pytest.raises(ParameterError, match="coordinates must be given"):
            function(sensitivity=1, granularity=0.5)
        assert function(sensitivity=1) >= function(sensitivity=1, coordinates=1)


def test_a_tiny_epsilon_asks_for_the_number_of_entries() -> None:
    with pytest.raises(CalibrationError, match="give coordinates="):
        fastdp.Laplace.from_epsilon(2.0**-20, sensitivity=1)
    m = fastdp.Laplace.from_epsilon(2.0**-20, sensitivity=1, coordinates=1)
    assert m.epsilon() == 2.0**-20


# ---- bounds of answers, and of records -----------------------------------------------


@pytest.mark.parametrize("name", [*ALONE, *CALIBRATED])
def test_bounds_are_of_records_alone(name: str) -> None:
    make = {**ALONE, **CALIBRATED}[name]
    with pytest.raises(DTypeError) as caught:
        make(sensitivity=1, bounds=(0, 100))
    for said in ("bounds of records", "np.clip", "answer_bounds="):
        assert said in str(caught.value)
    if name in ALONE:
        with pytest.raises(DTypeError, match="answer_bounds="):
            make(sensitivity=1).release(5, bounds=(0, 100))
        with pytest.raises(TypeError, match="unexpected keyword argument 'bund'"):
            make(sensitivity=1, bund=1)
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            make(sensitivity=1).release(5, bund=1)


@pytest.mark.parametrize("make", [fastdp.Laplace, fastdp.Gaussian])
def test_answer_bounds_clamp_the_answer(make: Any) -> None:
    m = make(1e-6, answer_bounds=(0, 100))
    assert m.answer_bounds == (0.0, 100.0)
    assert not hasattr(m, "bounds")
    # A sum of ages that is far beyond: noise aside, the bound is what comes out.
    assert abs(m.release(51_234.0) - 100) < 1  # fails with probability e**-1e6
    assert "answer_bounds=(0.0, 100.0)" in repr(m)


def test_every_mechanism_was_looked_at() -> None:
    """One that takes a sensitivity is in one of the lists above."""
    known = {*ALONE, *STATED, *CONDITIONAL}
    classes = [PATEDivergence] + [
        getattr(fastdp, name)
        for name in fastdp.__all__
        if isinstance(getattr(fastdp, name), type)
        and not issubclass(getattr(fastdp, name), Exception)
    ]
    for kind in classes:
        if "sensitivity" in inspect.signature(kind).parameters:
            assert kind.__name__ in known
