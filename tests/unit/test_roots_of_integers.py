"""Sensitivities that are square roots of integers."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import accounting
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    l2_sensitivity,
)
from fastdp.exceptions import DTypeError, ParameterError
from tests.unit.test_calibrated import BUDGET

# ---- roots of integers -----------------------------------------------------------


@pytest.mark.parametrize("square", [3, 6, 11, 12, 13, 14, 18, 24])
def test_the_float_root_of_an_integer_covers_the_integer(square: int) -> None:
    root = math.sqrt(square)
    truth = l2_sensitivity(square)
    noises = [
        fastdp.DiscreteGaussian.from_epsilon_delta(
            epsilon=1, delta=1e-6, sensitivity=root
        ),
        fastdp.DiscreteGaussian.from_rho(0.05, sensitivity=root),
        fastdp.DiscreteGaussian(10, sensitivity=root),
    ]
    for noise in noises:
        told = noise.event(sensitivity=truth)
        assert noise.event().sensitivity ** 2 >= square
        for delta in (1e-3, 1e-6):
            charged = accounting.event_epsilon(noise.event(), delta)
            assert charged >= accounting.event_epsilon(told, delta) * (1 - 1e-12)
    assert noises[0].epsilon(delta=1e-6) < 1 + 1e-9
    assert noises[1].rho() <= 0.05


def test_a_typed_root_covers_the_integer() -> None:
    for given in (Decimal("1.7320508"), np.float32(math.sqrt(3) - 1e-7)):
        event = DiscreteGaussianEvent(sensitivity=given, sigma=5)
        assert 3 <= event.sensitivity**2 < 3 + 1e-9
    assert DiscreteGaussianEvent(sensitivity=1.5, sigma=5).sensitivity == 1.5


def test_the_lattice_of_real_noise_covers_the_integer() -> None:
    # Three reals move by 1 each and are rounded to integers: each may move by 2.
    noise = fastdp.Gaussian(10, sensitivity=math.sqrt(3), coordinates=3, granularity=1)
    truth = replace(noise.event(), sensitivity=l2_sensitivity(12))
    delta = accounting.event_delta(truth, 1)
    assert noise.delta(1) >= delta * (1 - 1e-9)


@pytest.mark.parametrize("moved", [0.57 * 100, 4.35 * 100])
def test_a_rounded_l1_sensitivity_covers_the_integer(moved: float) -> None:
    truth = math.ceil(moved)
    assert moved < truth
    noise = fastdp.TruncatedLaplace.from_epsilon_delta(
        epsilon=1, delta=1e-6, sensitivity=moved
    )
    told = noise.event(sensitivity=truth)
    assert accounting.event_delta(told, 1 + 1e-9) <= 1e-6 * (1 + 1e-9)
    plain = fastdp.DiscreteLaplace(10, sensitivity=moved)
    whole = fastdp.DiscreteLaplace(10, sensitivity=truth)
    assert plain.rho() >= whole.rho()
    assert plain.delta(1) >= whole.delta(1)


def test_the_square_is_stated_exactly() -> None:
    made = fastdp.DiscreteGaussian.from_epsilon_delta(
        epsilon=1, delta=1e-6, squared_sensitivity=3
    )
    root = fastdp.DiscreteGaussian.from_epsilon_delta(
        epsilon=1, delta=1e-6, sensitivity=math.sqrt(3)
    )
    assert made.sigma == root.sigma
    assert made.event() == root.event()
    assert fastdp.Mechanism.from_json(made.to_json()) == made
    assert pickle.loads(pickle.dumps(made)) == made
    even = fastdp.DiscreteGaussian.from_rho(0.5, squared_sensitivity=4)
    assert even.sigma == 2
    assert even.sensitivity == 2
    assert even.rho() == 0.5
    assert even.event() == fastdp.DiscreteGaussian(2, sensitivity=2).event()


def test_moving_one_entry_costs_less_than_moving_many() -> None:
    many = fastdp.DiscreteGaussian(3, sensitivity=2.5)
    one = fastdp.DiscreteGaussian(3, sensitivity=2.5, coordinates=1)
    # Integers that move by at most 2.5 in one entry move by 2.
    assert one.delta(2) == fastdp.DiscreteGaussian(
        3, sensitivity=2, coordinates=1
    ).delta(2)
    assert one.delta(2) < many.delta(2) / 5
    assert one.event().coordinates == 1
    assert one.event(sensitivity=1).coordinates == 1
    assert fastdp.Mechanism.from_json(one.to_json()) == one != many
    assert pickle.loads(pickle.dumps(one)) == one
    least = fastdp.DiscreteGaussian.from_epsilon_delta(
        epsilon=1, delta=1e-6, sensitivity=2.5, coordinates=1
    )
    assert least.sigma == fastdp.calibration.discrete_gaussian_sigma(
        epsilon=1, delta=1e-6, sensitivity=2.5, coordinates=1
    )
    assert least.delta(1) <= 1e-6
    made = fastdp.DiscreteGaussian.from_rho(0.5, sensitivity=2, coordinates=3)
    assert (
        made.event() == fastdp.DiscreteGaussian(2, sensitivity=2, coordinates=3).event()
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: fastdp.DiscreteGaussian(2, **k),
        lambda **k: fastdp.DiscreteGaussian.from_rho(1, **k),
        lambda **k: fastdp.DiscreteGaussian.from_epsilon_delta(**BUDGET, **k),
    ],
)
def test_wrong_coordinates_are_named(make: Any) -> None:
    with pytest.raises(ParameterError, match="coordinates"):
        make(sensitivity=1, coordinates=0)
    with pytest.raises(DTypeError, match="coordinates"):
        make(sensitivity=1, coordinates=1.0)


def test_one_of_sensitivity_and_its_square_is_given() -> None:
    for make in (
        lambda **k: fastdp.DiscreteGaussian(2, **k),
        lambda **k: fastdp.DiscreteGaussian.from_rho(1, **k),
        lambda **k: fastdp.DiscreteGaussian.from_epsilon_delta(**BUDGET, **k),
    ):
        with pytest.raises(ParameterError, match="sensitivity"):
            make(sensitivity=1, squared_sensitivity=1)
        for bad in (0, -1, math.nan):
            with pytest.raises(ParameterError, match="squared_sensitivity"):
                make(squared_sensitivity=bad)
        with pytest.raises(DTypeError, match="squared_sensitivity"):
            make(squared_sensitivity="3")
