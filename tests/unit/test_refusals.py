"""Values at the far ends of Python's and numpy's types: refused by name."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError

draw = fastdp.random
HUGE = 10**5000  # more digits than Python prints


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("n", lambda: draw.bytes(-HUGE)),
        ("n", lambda: draw.bytes(2**70)),
        ("n", lambda: draw.permutation(2**70)),
        ("n", lambda: draw.permutation(2**62)),
        ("workers", lambda: draw.discrete_laplace(1, size=5, workers=-HUGE)),
        ("workers", lambda: draw.discrete_laplace(1, workers=-HUGE)),
        ("low", lambda: draw.integers(-HUGE, 5)),
        ("high", lambda: draw.integers(0, HUGE)),
        ("size", lambda: draw.discrete_laplace(1, size=2**62)),
        ("size", lambda: draw.discrete_laplace(1, size=2**70)),
        ("size", lambda: draw.discrete_laplace(1, size=(2**40, 2**40))),
        ("size", lambda: draw.discrete_laplace(1, size=(1,) * 65)),
        ("bound", lambda: fastdp.TruncatedLaplace(1, bound=HUGE)),
        ("bound", lambda: fastdp.TruncatedLaplace(2**55, bound=1)),
        ("bound", lambda: fastdp.TruncatedLaplace(2**40, bound=1)),
        ("coordinates", lambda: fastdp.Laplace(1.0, coordinates=HUGE)),
    ],
)
def test_out_of_reach(name: str, call: Callable[[], object]) -> None:
    with pytest.raises(ParameterError, match=rf"^{name} must "):
        call()


@pytest.mark.parametrize("unit", ["ns", "s", "Y"])
def test_time_differences_are_not_numbers(unit: str) -> None:
    for value in (np.timedelta64(5, unit), np.timedelta64("NaT", unit)):
        for call in (draw.discrete_laplace, fastdp.DiscreteLaplace(10).release):
            with pytest.raises(DTypeError):
                call(value)
        with pytest.raises(DTypeError):
            draw.bytes(value)


def test_a_rho_that_no_scale_reaches() -> None:
    tiny = Fraction(1, 2**2199)
    for mechanism in (fastdp.DiscreteLaplace, fastdp.Laplace):
        with pytest.raises(CalibrationError):
            mechanism.from_rho(tiny, sensitivity=1)


def test_a_float32_release_raises_no_floating_point_error() -> None:
    mechanism = fastdp.Laplace(1e-200)
    with np.errstate(all="raise"):
        for _ in range(20):
            mechanism.release(np.float32(0))
