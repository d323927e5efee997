"""Readings compute on the caller's thread, and leave other processors alone."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fastdp.accounting import (
    DiscreteGaussianEvent,
    GaussianEvent,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
)
from fastdp.accounting._numeric import product


def numbers(*shape):
    """Return numbers of both signs, the same in every run."""
    return np.sin(1.0 + np.arange(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 5), (5,)),
        ((70, 150), (150,)),
        ((5,), (5, 3)),
        ((150,), (150, 70)),
        ((9000,), (9000,)),
        ((4, 5), (5, 3)),
        ((70, 150), (150, 40)),
        ((3, 70, 65), (3, 65, 66)),
    ],
)
@pytest.mark.parametrize("complex_", [False, True])
def test_products_are_those_of_the_operator(left, right, complex_):
    a, b = numbers(*left), numbers(*right)
    if complex_:
        a = a + 1j * a[::-1]
    found = product(a, b)
    assert found.shape == (a @ b).shape
    assert found.dtype == (a @ b).dtype
    assert np.abs(found - a @ b).max() <= 1e-12 * a.shape[-1]


def subsets():
    return [
        SampledWithoutReplacementEvent(
            source_dataset_size=1000 + 7 * i,
            sample_size=20,
            event=GaussianEvent(sensitivity=1, sigma=1 + Fraction(i, 100)),
        )
        for i in range(20)
    ]


def discrete():
    return [
        PoissonSampledEvent(
            Fraction(1, 50 + i),
            DiscreteGaussianEvent(sensitivity=1, sigma=2 + Fraction(i, 30)),
        )
        for i in range(20)
    ]


#: A process of its own: products of other tests leave threads that wait busily.
READING = """
import time
from fractions import Fraction

from fastdp.accounting import PLDAccountant
from tests.accounting.test_one_thread import {events}

accountant = PLDAccountant()
for event in {events}():
    accountant.compose(event)

def others():
    return time.process_time() - time.thread_time()

before = others()
while time.sleep(0.2) or others() > before + 1e-3:
    before = others()
accountant.epsilon_bounds(Fraction(1, 10**6))
print(others() - before)
"""


@pytest.mark.rest
@pytest.mark.parametrize("events", [subsets, discrete])
def test_a_reading_takes_one_processor(events):
    code = READING.format(events=events.__name__)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 0.02
