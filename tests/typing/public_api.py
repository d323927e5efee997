"""What type checkers must know of the public interface: mypy and pyright read it.

A comment that ignores an error is itself an error where there is none.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import fastdp
from fastdp import accounting, calibration, distributions, exceptions
from fastdp import random as fdp_random
from fastdp.testing import FixedStream


def mechanisms_have_their_types(counts: npt.NDArray[np.int64]) -> None:
    laplace = fastdp.DiscreteLaplace.from_epsilon(Decimal("0.1"), sensitivity=1)
    assert_type(laplace, fastdp.DiscreteLaplace)
    assert_type(laplace.scale, int | float | Fraction)
    assert_type(laplace.std, float)
    assert_type(laplace.epsilon(sensitivity=2, delta=Fraction(1, 10**6)), float)
    assert_type(laplace.rho(), float)
    assert_type(laplace.confidence_interval(0.95), tuple[float, float])
    assert_type(laplace.event(), accounting.DiscreteLaplaceEvent)
    laplace.release(counts, out=counts, workers=2)
    laplace.release(5, stream=FixedStream("typing"))
    laplace.release(counts, stream=7)  # type: ignore[arg-type]
    laplace.release(counts, counts)  # type: ignore[call-arg]
    fastdp.DiscreteLaplace("10")  # type: ignore[arg-type]
    fastdp.DiscreteGaussian.from_epsilon(1)  # type: ignore[attr-defined]

    gaussian = fastdp.Gaussian.from_epsilon_delta(
        epsilon=1.0, delta=1e-6, sensitivity=2.5, coordinates=3
    )
    assert_type(gaussian, fastdp.Gaussian)
    assert_type(gaussian.coordinates, int)
    assert_type(gaussian.answer_bounds, tuple[float, float] | None)
    fastdp.Gaussian(1.0, 3)  # type: ignore[call-arg]

    truncated = fastdp.TruncatedLaplace.from_epsilon_delta(
        epsilon=1, delta=1e-6, sensitivity=1
    )
    assert_type(truncated.bound, int)


def unknown_names_are_errors(laplace: fastdp.DiscreteLaplace) -> None:
    assert_type(fastdp.DiscreteLaplace(3), fastdp.DiscreteLaplace)
    kind: type[fastdp.DiscreteLaplace] = fastdp.DiscreteLaplace
    laplace.relase(3)  # type: ignore[attr-defined]
    print(fastdp.NoSuchThing)  # type: ignore[attr-defined]
    print(fastdp.accounting.NoSuchThing)  # type: ignore[attr-defined]
    accountant = fastdp.accounting.PLDAccountant().compose(kind(2).event())
    assert_type(accountant, accounting.PLDAccountant)
    accountant.epsilons_at(1e-6)  # type: ignore[attr-defined]
    assert_type(accounting.ZCDPFilter(1).remaining, Fraction)


def local_mechanisms_have_their_types(labels: npt.NDArray[np.int64]) -> None:
    oracle = fastdp.LocalHashing.from_epsilon(1, categories=100, buckets=2)
    assert_type(oracle, fastdp.LocalHashing)
    assert_type(oracle.p, Fraction)
    estimate = oracle.estimate(oracle.release(labels, workers=2))
    assert_type(estimate.users, int)
    oracle.aggregator().add(labels).merge(oracle.aggregator())
    fastdp.HadamardResponse.from_epsilon(1)  # type: ignore[call-arg]


def local_mechanisms_take_names_and_go_as_json() -> None:
    oracle = fastdp.RandomizedResponse.from_epsilon(1, categories=["a", "b"], other="b")
    numbers = fastdp.HadamardResponse.from_epsilon(1, categories=[10, 20], other=10)
    assert_type(numbers.categories, int)
    found = oracle.estimate(oracle.release(["a", "b"]))
    assert_type(found.to_dict(), dict[str, float] | dict[int, float])
    assert_type(oracle.to_json(), str)
    assert_type(fastdp.RandomizedResponse.from_json(""), fastdp.RandomizedResponse)
    assert_type(fastdp.Mechanism.from_json(""), fastdp.Mechanism)
    assert_type(oracle.reports_to_json([0, 1]), str)
    fastdp.RandomizedResponse(0.75, categories=["a", 1.5])  # type: ignore[arg-type]


def relations_are_taken_by_name(x: list[float]) -> None:
    made = fastdp.DiscreteLaplace(2, neighboring_relation="replace_one")
    assert_type(made.neighboring_relation, accounting.NeighboringRelation)
    fastdp.Quantiles(0.5, bounds=(0, 1), epsilon=1, neighboring_relation="REPLACE_ONE")
    fastdp.Moments.from_epsilon(1, bounds=(0, 1), neighboring_relation="replace_one")
    accounting.ZCDPFilter(1, neighboring_relation="replace_one")
    event = accounting.PureDPEvent(Fraction(1), neighboring_relation="replace_one")
    assert_type(event.neighboring_relation, accounting.NeighboringRelation)
    relation: accounting.Relation = "replace_one"
    made.event(sensitivity=1, neighboring_relation=relation)
    fastdp.DiscreteLaplace(2, neighboring_relation="replace")  # type: ignore[arg-type]
    accounting.ZCDPFilter(1, neighboring_relation="remove")  # type: ignore[arg-type]


def first_lines_need_a_unit(x: list[float]) -> None:
    found = fastdp.mean(x, bounds=(0, 1), unit="row", epsilon=1)
    assert_type(found, fastdp.Release)
    person = fastdp.Unit(x, records=2)
    fastdp.count(x, unit=person, by=x, keys=[1, 2], rho=1, level=0.9)
    fastdp.mean(x, bounds=(0, 1), epsilon=1)  # type: ignore[call-arg]
    fastdp.sum(x, unit="row", epsilon=1)  # type: ignore[call-arg]
    fastdp.count(x, unit="person", epsilon=1)  # type: ignore[arg-type]


def selections_have_their_types(scores: npt.NDArray[np.float64]) -> None:
    choice = fastdp.ExponentialMechanism(
        1.0, sensitivity=Fraction(1, 2), monotonic=True
    )
    choice.select(scores, k=3, method="gumbel", workers=2)
    choice.select(scores, method="softmax")  # type: ignore[arg-type]
    fastdp.ExponentialMechanism(1.0, monotonic=True)  # type: ignore[call-arg]


def functions_have_their_types() -> None:
    assert_type(fdp_random.bytes(4), bytes)
    assert_type(fdp_random.permutation(4), np.ndarray[Any, Any])
    order, starts = fdp_random.allocate(4, steps=2)
    assert_type(order, np.ndarray[Any, Any])
    assert_type(starts, np.ndarray[Any, Any])
    fdp_random.discrete_laplace(Fraction(1, 3), size=(2, 3), workers=2)
    fdp_random.discrete_gaussian(2.5, stream=np.random.default_rng())  # type: ignore[arg-type]
    assert_type(calibration.laplace_scale(epsilon=1, sensitivity=2), Fraction)
    assert_type(fastdp.show_config(), dict[str, str])
    assert_type(fastdp.get_include(), str)


def errors_are_what_they_replace() -> None:
    value: ValueError = exceptions.ParameterError("scale must be > 0")
    kind: TypeError = exceptions.DTypeError("x must be an array")
    base: exceptions.FastDPError = exceptions.EntropyError("no randomness")
    raise value from (kind if kind else base)


def laws_have_scipy_names(law: distributions.DiscreteLaplace) -> None:
    assert_type(law.var(), float)
