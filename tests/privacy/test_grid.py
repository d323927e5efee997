"""Real mechanisms: one lattice for all values, and rounding to it is charged.

The attack of Mironov (CCS 2012) looks for outputs that one of two databases cannot
give. Here every output is a multiple of the granularity, rounded once to a float.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastdp
from fastdp import calibration
from tests.privacy.streams import KeyStream

KEY = KeyStream(bytes(32))
MAKES = [fastdp.Laplace, fastdp.Gaussian]


def lowest_bits(y: np.ndarray) -> set[int]:
    """Return the exponents of the lowest set bits of the values."""
    found = set()
    for value in y[y != 0]:
        numerator, denominator = float(value).as_integer_ratio()
        found.add((numerator & -numerator).bit_length() - denominator.bit_length())
    return found


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("scale", [1, 1e-20, 1e20, 3.7])
def test_outputs_lie_on_the_grid_whatever_the_value(make: Any, scale: float) -> None:
    m = make(scale)
    step = Fraction(m.granularity)
    values = [0.0, 1.0, 1 / 3, 1e-300, 5e-324, math.pi, -2 / 7, 1e-9]
    for value in values:
        y = m.release(np.full(2000, value * float(scale)))
        assert all((Fraction(v) / step).denominator == 1 for v in y.tolist())


@pytest.mark.parametrize("make", MAKES)
def test_lowest_bits_are_the_same_in_both_worlds(make: Any) -> None:
    m = make(1, granularity=2.0**-10, coordinates=1)
    seen = [
        lowest_bits(m.release(np.full(100_000, x)))
        for x in (0.0, 1.0, 2.0**-30, 1 / 3, -0.7)
    ]
    low = math.log2(m.granularity)
    for bits in seen:
        assert min(bits) == low
        assert set(range(int(low), int(low) + 8)) <= bits


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("x", [0.0, 1.0])
def test_event_of_the_precision_attack_never_happens(make: Any, x: float) -> None:
    m = make(1)
    y = m.release(np.full(200_000, x))
    assert not np.any(np.mod(y / m.granularity, 1.0))


@pytest.mark.parametrize("make", MAKES)
def test_an_output_is_a_function_of_the_exact_sum(make: Any) -> None:
    """The float that comes out is the exact sum of two grid points, rounded once."""
    m = make(1000, granularity=0.25, coordinates=1)
    step = Fraction(1, 4)
    steps = m.release(np.zeros(3000), stream=KEY)
    for x in (0.3, -17.125, 1e9 + 0.4, 2.0**52, -1e17, 1e300):
        on_grid = round(Fraction(x) / step) * step if abs(x) < 2.0**50 else Fraction(x)
        y = m.release(np.full(3000, x), stream=KEY)
        exact = [float(on_grid + Fraction(k)) for k in steps.tolist()]
        assert y.tolist() == exact


@pytest.mark.parametrize("make", MAKES)
def test_float32_is_the_rounded_float64(make: Any) -> None:
    m = make(10)
    x = np.linspace(-50, 50, 4001).astype(np.float32)
    wide = m.release(x.astype(float), stream=KEY)
    assert (m.release(x, stream=KEY) == wide.astype(np.float32)).all()


# --- rounding is charged ----------------------------------------------------------

reals = st.floats(-1e6, 1e6)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(reals, st.floats(-3, 3)), min_size=1, max_size=6),
    st.integers(-6, 2),
)
def test_grid_distance_is_at_most_what_is_charged(
    pairs: list[tuple[float, float]], power: int
) -> None:
    """Two answers a sensitivity apart differ by no more on the grid than charged."""
    step = Fraction(2) ** power
    x = np.array([a for a, _ in pairs])
    other = np.array([a + change for a, change in pairs])
    moves = [
        abs(Fraction(a) - Fraction(b))
        for a, b in zip(x.tolist(), other.tolist(), strict=True)
    ]
    if not any(moves):
        return
    for make in MAKES:
        m = make(20, granularity=step, coordinates=len(pairs))
        found = [m.release(v, stream=KEY) for v in (x, other)]
        steps = [
            abs(Fraction(a) - Fraction(b)) / step
            for a, b in zip(found[0].tolist(), found[1].tolist(), strict=True)
        ]
        assert all(k.denominator == 1 for k in steps)
        if make is fastdp.Laplace:
            assert sum(steps) <= m.event(sensitivity=sum(moves)).sensitivity
        else:
            norm = sum(d * d for d in moves)
            root = calibration.charged_l2(
                sensitivity=Fraction(math.isqrt(int(norm * 2**200)) + 1, 2**100),
                coordinates=len(pairs),
                granularity=step,
            )
            assert sum(k * k for k in steps) <= (root / step) ** 2
            assert m.event(sensitivity=1).sensitivity == (
                calibration.charged_l2(
                    sensitivity=1, coordinates=len(pairs), granularity=step
                )
                / step
            )


@pytest.mark.parametrize("make", MAKES)
def test_worst_case_of_rounding_occurs_and_is_charged(make: Any) -> None:
    """Halfway points: a sensitivity next to nothing moves the answer by a step."""
    m = make(10, granularity=1, coordinates=1)
    below, above = 0.5, math.nextafter(0.5, 1)
    found = [float(m.release(v, stream=KEY)) for v in (below, above)]
    assert abs(found[0] - found[1]) == 1
    assert m.event(sensitivity=Fraction(above) - Fraction(below)).sensitivity >= 1


@pytest.mark.parametrize("make", MAKES)
def test_guarantees_include_the_charge(make: Any) -> None:
    coarse, fine = make(10, granularity=4, coordinates=1), make(10, coordinates=1)
    assert coarse.rho(sensitivity=1) > fine.rho(sensitivity=1)
    assert coarse.epsilon(sensitivity=1, delta=1e-6) > fine.epsilon(
        sensitivity=1, delta=1e-6
    )
    assert make(10, granularity=4, coordinates=9).rho(sensitivity=1) > coarse.rho(
        sensitivity=1
    )
    if make is fastdp.Laplace:
        assert coarse.epsilon(sensitivity=1) == 0.5  # (1 + 1 * 4) / 10


@pytest.mark.parametrize("epsilon", [0.1, 1, 3.3])
@pytest.mark.parametrize("coordinates", [1, 10])
def test_calibration_pays_for_the_charge(epsilon: float, coordinates: int) -> None:
    m = fastdp.Laplace.from_epsilon(epsilon, sensitivity=2.5, coordinates=coordinates)
    loss = (Fraction(2.5) + coordinates * Fraction(m.granularity)) / Fraction(m.scale)
    assert loss <= Fraction(epsilon)
    coarse = fastdp.Laplace.from_epsilon(
        epsilon, sensitivity=2.5, granularity=1, coordinates=1
    )
    assert (Fraction(2.5) + 1) / Fraction(coarse.scale) <= Fraction(epsilon)
