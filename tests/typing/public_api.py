"""What a type checker must know of the public interface; mypy reads it."""

from decimal import Decimal
from fractions import Fraction
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import fastdp
from fastdp import accounting, calibration, distributions, exceptions, mechanisms
from fastdp import random as fdp_random
from fastdp.testing import FixedStream


def mechanisms_have_their_types(counts: npt.NDArray[np.int64]) -> None:
    laplace = mechanisms.DiscreteLaplace.from_epsilon(Decimal("0.1"), sensitivity=1)
    assert_type(laplace, mechanisms.DiscreteLaplace)
    assert_type(laplace.scale, int | float | Fraction)
    assert_type(laplace.std, float)
    assert_type(laplace.epsilon(2, delta=Fraction(1, 10**6)), float)
    assert_type(laplace.rho(), float)
    assert_type(laplace.confidence_interval(0.95), tuple[float, float])
    assert_type(laplace.event(), accounting.DiscreteLaplaceEvent)
    laplace.release(counts, out=counts, workers=2)
    laplace.release(5, stream=FixedStream("typing"))
    laplace.release(counts, stream=7)  # type: ignore[arg-type]
    laplace.release(counts, counts)  # type: ignore[call-arg]
    mechanisms.DiscreteLaplace("10")  # type: ignore[arg-type]
    mechanisms.DiscreteGaussian.from_epsilon(1)  # type: ignore[attr-defined]

    gaussian = mechanisms.Gaussian.from_epsilon_delta(1.0, 1e-6, 2.5, coordinates=3)
    assert_type(gaussian, mechanisms.Gaussian)
    assert_type(gaussian.coordinates, int)
    assert_type(gaussian.bounds, tuple[float, float] | None)
    mechanisms.Gaussian(1.0, 3)  # type: ignore[call-arg]

    truncated = mechanisms.TruncatedLaplace.from_epsilon_delta(1, 1e-6)
    assert_type(truncated.bound, int)


def local_mechanisms_have_their_types(labels: npt.NDArray[np.int64]) -> None:
    oracle = mechanisms.LocalHashing.from_epsilon(1, 100, buckets=2)
    assert_type(oracle, mechanisms.LocalHashing)
    assert_type(oracle.p, Fraction)
    estimate = oracle.estimate(oracle.release(labels, workers=2))
    assert_type(estimate.users, int)
    oracle.aggregator().add(labels).merge(oracle.aggregator())
    mechanisms.HadamardResponse.from_epsilon(1)  # type: ignore[call-arg]


def selections_have_their_types(scores: npt.NDArray[np.float64]) -> None:
    choice = mechanisms.ExponentialMechanism(1.0, Fraction(1, 2), monotonic=True)
    choice.select(scores, k=3, method="gumbel", workers=2)
    choice.select(scores, method="softmax")  # type: ignore[arg-type]
    mechanisms.ExponentialMechanism(1.0, 1, True)  # type: ignore[call-arg]


def functions_have_their_types() -> None:
    assert_type(fdp_random.bytes(4), bytes)
    assert_type(fdp_random.permutation(4), "np.ndarray[Any, Any]")
    fdp_random.discrete_laplace(Fraction(1, 3), (2, 3), workers=2)
    fdp_random.discrete_gaussian(2.5, stream=np.random.default_rng())  # type: ignore[arg-type]
    assert_type(calibration.laplace_scale(1, 2), Fraction)
    assert_type(fastdp.show_config(), Any)


def errors_are_what_they_replace() -> None:
    value: ValueError = exceptions.ParameterError("scale must be > 0")
    kind: TypeError = exceptions.DTypeError("x must be an array")
    base: exceptions.FastDPError = exceptions.EntropyError("no randomness")
    raise value from (kind if kind else base)


def laws_have_scipy_names(law: distributions.DiscreteLaplace) -> None:
    assert_type(law.var(), float)
