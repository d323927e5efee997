"""`SmoothSensitivity` and `smooth_median`: arguments, data of any kind, errors."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.accounting import NeighboringRelation, RDPAccountant
from fastdp.accounting.calculators import smooth_sensitivity_divergence
from fastdp.exceptions import DTypeError, InsecureStreamWarning, ParameterError
from fastdp.testing import FixedStream

R = NeighboringRelation.REPLACE_ONE


def fixed(key: str) -> FixedStream:
    with pytest.warns(InsecureStreamWarning):
        return FixedStream(key)


def made(**change: Any) -> fastdp.SmoothSensitivity:
    arguments = {"scale": 2, "smoothness": 0.1, "largest": 8, **change}
    return fastdp.SmoothSensitivity(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": 0}, "scale must be"),
        ({"smoothness": -1}, "smoothness must be"),
        ({"largest": 0}, "largest must be in"),
        ({"largest": math.inf}, "largest must be finite"),
        ({"granularity": 0}, "granularity must be in"),
        ({"noise": "laplace"}, "noise must be one of student, gaussian"),
        ({"noise": "gaussian", "scale": 1.9}, "scale must be >= 2 for Gaussian"),
        ({"noise": "gaussian", "scale": 2**54}, r"scale must be <= 2\*\*53"),
        ({"noise": "gaussian", "smoothness": 4.5}, "smoothness must be <= 4 for Gauss"),
        ({"noise": "gaussian", "granularity": 2.0**-60}, "granularity must be >= "),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        made(**change)


def test_what_epsilon_must_leave_to_the_noise() -> None:
    call = fastdp.SmoothSensitivity.from_epsilon
    for smoothness in (Fraction(1, 3), 0.4, Fraction(1, 3) - Fraction(1, 2**40)):
        with pytest.raises(ParameterError, match="smoothness must be < epsilon/3"):
            call(1, largest=1, smoothness=smoothness)
    assert call(1, largest=1, smoothness=0.3333).scale > 3000
    with pytest.raises(ParameterError, match="epsilon must be"):
        call(0, largest=1)
    with pytest.raises(ParameterError, match="epsilon > 6"):
        call(2.0**-42, largest=1)


def test_identity() -> None:
    m = made(neighboring_relation="replace_one", noise="gaussian")
    assert pickle.loads(pickle.dumps(m)) == m
    assert m.event().neighboring_relation is R
    assert m != made(noise="gaussian")
    assert (m.scale, m.smoothness, m.granularity) == (2, 0.1, 2.0**-36)
    assert made(granularity=1).granularity == 1
    assert made().epsilon() == pytest.approx(0.3 + 1 / math.sqrt(3))


@pytest.mark.parametrize("smoothness", [1e-9, 0.001, 0.1, 3])
def test_gaussian_noise_has_a_curve(smoothness: float) -> None:
    m = made(noise="gaussian", scale=40, smoothness=smoothness)
    orders = m.event().orders  # type: ignore[union-attr]
    assert all(1 < order < 1 / -math.expm1(-2 * smoothness) for order in orders)
    assert len(orders) == 24
    for order in orders[::8]:
        exact = smooth_sensitivity_divergence(
            order=order, sigma=40, smoothness=smoothness
        )
        # both have room for rounding, more of it near order 1
        assert m.divergence(order) == pytest.approx(exact, rel=1e-6, abs=1e-9)
    assert RDPAccountant().compose(m.event()).epsilon(1e-5) == m.epsilon(delta=1e-5)
    with pytest.raises(ParameterError, match='noise must be "gaussian"'):
        made().divergence(2)
    with pytest.raises(ParameterError, match="smoothness must be < -ln"):
        m.divergence(1.001 / -math.expm1(-2 * smoothness))


@pytest.mark.parametrize("noise", ["student", "gaussian"])
def test_the_noise_has_the_scale_of_the_data_at_hand(noise: str) -> None:
    m = made(noise=noise, largest=1000)
    stream = fixed(noise)
    wide = 2 * 0.5 * math.sqrt(3 if noise == "student" else 1)
    drawn = np.array(
        [m.release(7.25, smooth_sensitivity=0.5, stream=stream) for _ in range(2000)]
    )
    steps = drawn / m.granularity
    assert (steps == np.rint(steps)).all()
    # the mean of |T| is 2 sqrt(3)/pi, of |Z| sqrt(2/pi)
    mean = wide * (2 / math.pi if noise == "student" else math.sqrt(2 / math.pi))
    assert np.abs(drawn - 7.25).mean() == pytest.approx(mean, rel=0.1)
    assert abs(np.median(drawn) - 7.25) < 0.1


@pytest.mark.parametrize("noise", ["student", "gaussian"])
@pytest.mark.parametrize(
    ("value", "as_one"),
    [
        (math.nan, 0),
        (math.inf, np.finfo(np.float64).max),
        (-(10**1000), -np.finfo(np.float64).max),
        (np.float32(1.5), 1.5),
        (np.int8(-3), -3.0),
        (np.array(2), 2),
        (5e-324, 0.0),
        (-0.0, 0),
    ],
)
def test_answers_of_any_kind(noise: str, value: Any, as_one: Any) -> None:
    m = made(noise=noise)
    found = [
        m.release(x, smooth_sensitivity=1, stream=fixed("a")) for x in (value, as_one)
    ]
    assert found[0] == found[1]
    assert type(found[0]) is float
    assert math.isfinite(found[0])


@pytest.mark.parametrize("size", [math.nan, -1, -1e-300, math.inf, 1e308, 9, 10**400])
def test_sensitivities_of_any_kind_count_as_the_largest(size: Any) -> None:
    m = made()
    wanted = m.release(1, smooth_sensitivity=8, stream=fixed("s"))
    assert m.release(1, smooth_sensitivity=size, stream=fixed("s")) == wanted
    small = m.release(1, smooth_sensitivity=0.0, stream=fixed("s"))
    assert abs(small - 1) < 1e-6 < abs(wanted - 1)  # one step of the grid


@pytest.mark.parametrize("wrong", [True, "1", None, np.ones(3), np.timedelta64(1, "s")])
def test_what_is_no_number_is_refused_by_its_type(wrong: Any) -> None:
    with pytest.raises(DTypeError, match=r"^value must be an int or a float, got"):
        made().release(wrong, smooth_sensitivity=1)
    with pytest.raises(DTypeError, match=r"^smooth_sensitivity must be"):
        made().release(1, smooth_sensitivity=wrong)
    with pytest.raises(DTypeError, match="stream must be"):
        made().release(1, smooth_sensitivity=1, stream=7)  # type: ignore[arg-type]


# ---- the median ----------------------------------------------------------------------


def test_medians_are_near_where_the_data_agree() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(40, 3, 4001)
    setting: dict[str, Any] = {"bounds": (0, 120), "epsilon": 1, "stream": fixed("m")}
    found = np.array([fastdp.smooth_median(x, **setting) for _ in range(40)])
    assert found.dtype == np.float64
    assert np.median(np.abs(found - np.median(x))) < 0.1
    whole = fastdp.smooth_median(np.rint(x).astype(np.int16), **setting)
    assert isinstance(whole, np.int64)
    assert 30 < whole < 50


def test_medians_stay_within_the_bounds() -> None:
    stream = fixed("b")
    for x in (np.array([0.0, 9.0]), np.array([-50, 70]), np.array([5.5])):
        drawn = [
            fastdp.smooth_median(x, bounds=(-1, 9), epsilon=0.1, stream=stream)
            for _ in range(30)
        ]
        assert all(-1 <= value <= 9 for value in drawn)
        assert min(drawn) < 0 < max(drawn)


@pytest.mark.parametrize(
    ("hostile", "as_one"),
    [
        ([math.nan, 1, 2], [0, 1, 2]),
        ([math.inf, -math.inf, 1e308], [8, 0, 8]),
        ([-0.0, 5e-324, -1e-310], [0, 0, 0]),
    ],
)
def test_hostile_floats(hostile: list[float], as_one: list[float]) -> None:
    setting: dict[str, Any] = {"bounds": (0, 8), "epsilon": 1}
    found = [
        fastdp.smooth_median(np.array(x, float), **setting, stream=fixed("h"))
        for x in (hostile, as_one)
    ]
    assert found[0] == found[1]


def test_the_order_of_records_does_not_matter_and_they_are_left_as_they_are() -> None:
    x = np.arange(101)
    setting: dict[str, Any] = {"bounds": (0, 200), "epsilon": 1}
    forward = fastdp.smooth_median(x, **setting, stream=fixed("o"))
    assert fastdp.smooth_median(x[::-1], **setting, stream=fixed("o")) == forward
    assert (x == np.arange(101)).all()


@pytest.mark.parametrize(
    ("values", "change", "message"),
    [
        (np.array([]), {}, "values must have at least one record"),
        (np.array([3]), {"bounds": (0.5, 1.5)}, "two points of the grid"),
        (np.array([3]), {"bounds": (3, 1)}, "bounds must have low < high"),
        (np.array([3]), {"bounds": (0, 2**61)}, "bounds must hold at least 1"),
        (np.array([3]), {"epsilon": 0}, "epsilon must be"),
        (np.array([3]), {"smoothness": 0.4}, "smoothness must be < epsilon/3"),
        (np.array([3.0]), {"granularity": 3}, "granularity must be a power of two"),
        (
            np.zeros(2**15 + 1, np.int8),
            {"smoothness": 1e-9},
            "smoothness must be >= 0.000487 for so many points",
        ),
    ],
)
def test_refusals_of_medians(values: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        fastdp.smooth_median(values, **{"bounds": (0, 8), "epsilon": 1, **change})


def test_a_list_is_floats_whatever_a_record_is() -> None:
    with pytest.raises(DTypeError, match=r"^values must be"):
        fastdp.smooth_median(np.array(["a"]), bounds=(0, 8), epsilon=1)
    for other in (3, 2.5, "a", None, 10**400):
        options: dict[str, Any] = {"epsilon": 1, "stream": FixedStream("m")}
        found = fastdp.smooth_median([3, 4, 5, other], bounds=(0, 8), **options)
        assert type(found) is np.float64
