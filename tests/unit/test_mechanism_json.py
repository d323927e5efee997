"""Every mechanism can be stated as JSON and made again from it."""

from __future__ import annotations

import inspect
import json
from fractions import Fraction
from typing import Any

import pytest

import fastdp
from fastdp.exceptions import DTypeError, FastDPError, ParameterError
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms._memory import Remembering
from fastdp.mechanisms.pate import PATEDivergence
from fastdp.training import GradientSum

#: Mechanisms of each kind, with numbers that no decimal and no double holds.
THIRD = Fraction(1, 3)
MADE: list[Any] = [
    fastdp.DiscreteLaplace(THIRD),
    fastdp.DiscreteLaplace(0.1, sensitivity=2, neighboring_relation="replace_one"),
    fastdp.DiscreteGaussian.from_rho(0.1, sensitivity=THIRD),
    fastdp.TruncatedLaplace(2**54, bound=2**60, sensitivity=3),
    fastdp.SinhNormal(50, shape=Fraction(301, 3), sensitivity=THIRD, entries=2),
    fastdp.Laplace.from_epsilon(1.0, sensitivity=THIRD),
    fastdp.Laplace(scale=3, coordinates=4, answer_bounds=(-0.1, 5)),
    fastdp.Gaussian(sigma=3, coordinates=4, granularity=2.0**-20),
    fastdp.ClippedSum.from_rho(0.1, radius=THIRD, dimension=3, constant=1),
    fastdp.ClippedSum.from_epsilon(
        1,
        radius=1,
        dimension=2,
        norm="inf",
        changed=1,
        blocks=4,
        neighboring_relation="replace_one",
    ),
    GradientSum(sigma=THIRD, radius=(1, THIRD), shapes=[(2, 3), ()]),
    fastdp.Moments.from_epsilon(1, bounds=(0.1, 9), groups=3, records_per_group=2),
    fastdp.HierarchicalHistogram.from_epsilon(1, leaves=9, rows_per_unit=2),
    fastdp.Moments.from_epsilon(1, bounds=(0, 9), delta=1e-6),
    fastdp.Quantiles((0.1, 0.9), bounds=(0, 1), epsilon=1, groups=4),
    fastdp.Quantiles(0.5, bounds=(0, 1), epsilon=THIRD),
    fastdp.Quantiles((0.1, 0.9), bounds=(0, 1), epsilon=1, granularity=2.0**-9),
    fastdp.ExponentialMechanism(THIRD, sensitivity=1, monotonic=True),
    fastdp.PermuteAndFlip(1, sensitivity=1),
    fastdp.ReportNoisyMax(1, sensitivity=1, noise="gumbel"),
    fastdp.KeySelection.from_epsilon_delta(epsilon=1, delta=1e-6, keys_per_user=2),
    fastdp.UnknownHistogram.from_epsilon_delta(
        epsilon=1, delta=1e-6, keys_per_user=2, records_per_key=3
    ),
    fastdp.UnknownHistogram.from_rho_delta(rho=0.1, delta=1e-6, keys_per_user=2),
    fastdp.SmoothSensitivity.from_epsilon(THIRD, largest=8),
    fastdp.SmoothSensitivity(scale=9, smoothness=0.01, largest=1, noise="gaussian"),
    fastdp.ProposeTestRelease(epsilon=THIRD, delta=0.1, mechanism=None),
    fastdp.ProposeTestRelease(
        epsilon=1, delta=0.1, mechanism=fastdp.Laplace(THIRD, sensitivity=2)
    ),
    fastdp.StableMode(epsilon=THIRD, delta=0.1, neighboring_relation="replace_one"),
    fastdp.SubsampleAggregate(
        blocks=9, bounds=(0, 5), epsilon=1, aggregate="mode", delta=0.1, default=3
    ),
    PATEDivergence(sigma=40, order=14, smoothness=0.02, scale=20),
    fastdp.RandomizedResponse.from_epsilon(1),
    fastdp.RandomizedResponse.from_epsilon(1, categories=300, other=2),
    fastdp.UnaryEncoding.from_epsilon(THIRD, categories=9),
    fastdp.LocalHashing.from_epsilon(2, categories=1000),
    fastdp.HadamardResponse.from_epsilon(1, categories=1000, other=0),
    fastdp.VectorResponse.from_epsilon(THIRD, dimension=9),
    fastdp.SubsetSelection.from_epsilon(THIRD, categories=9),
    fastdp.LocalMean.from_epsilon(1, bounds=(0, THIRD)),
    fastdp.LocalMean(9, bounds=[(0, THIRD), (-1, 1)], members=((7, 2),), dimension=2),
    fastdp.CountMeanSketch.from_epsilon(1, rows=8, buckets=16, key="0f" * 16),
    fastdp.CountMeanSketch.from_epsilon(THIRD, rows=8, buckets=16, inner="unary"),
    fastdp.PrefixHunt.from_epsilon(THIRD, bits=128, most=5, beta=THIRD, key="0f" * 16),
    fastdp.Rappor(THIRD, p=0.4, q=0.7, bits=16, hashes=3, cohorts=4),
    fastdp.ShuffledResponse(0.9, clients=1000, categories=5),
]


def kinds(base: type[Mechanism] = Mechanism) -> set[type[Mechanism]]:
    own = {base} if not inspect.isabstract(base) else set()
    return own.union(*(kinds(kind) for kind in base.__subclasses__()))


def test_no_kind_is_left_out() -> None:
    ours = {kind for kind in kinds() if kind.__module__.startswith("fastdp")}
    secret = {kind for kind in ours if not kind._stated}
    assert {type(m) for m in MADE} == ours - secret
    # Those that remember something private, and what they have in common.
    assert {fastdp.SparseVector, fastdp.Counter, fastdp.PrefixSums} <= secret
    assert all(issubclass(kind, Remembering) for kind in secret)


@pytest.mark.parametrize("m", MADE, ids=lambda m: type(m).__name__)
def test_what_is_read_is_what_was_written(m: Any) -> None:
    text = m.to_json()
    for kind in (Mechanism, type(m)):
        again = kind.from_json(text)
        assert type(again) is type(m)
        assert again == m
        assert repr(again) == repr(m)
        assert again.to_json() == text
    # Public arguments and nothing else; no number that a reader could round.
    content = json.loads(text, parse_float=lambda digits: pytest.fail(digits))
    assert set(content) == {"format", "version", "mechanism"}
    assert set(content["mechanism"]) == {"type", *dict(m._arguments)}


def test_the_form_is_what_the_documentation_says() -> None:
    m = fastdp.DiscreteLaplace(0.5, sensitivity=1, neighboring_relation="replace_one")
    assert json.loads(m.to_json()) == {
        "format": "fastdp mechanism",
        "version": 1,
        "mechanism": {
            "type": "DiscreteLaplace",
            "scale": "1/2",
            "sensitivity": "1",
            "neighboring_relation": "REPLACE_ONE",
        },
    }


def test_a_mechanism_with_a_secret_has_no_such_form() -> None:
    vector = fastdp.SparseVector(9, epsilon=1, sensitivity=1)
    with pytest.raises(DTypeError, match="drawn once"):
        vector.to_json()
    text = changed(type="SparseVector", threshold="9", epsilon="1", sensitivity="1")
    for kind in (Mechanism, fastdp.SparseVector):
        with pytest.raises(ParameterError, match="type must be one of"):
            kind.from_json(text)


def changed(version: object = 1, form: str = "fastdp mechanism", **content: Any) -> str:
    return json.dumps({"format": form, "version": version, "mechanism": content})


LAPLACE = {"type": "DiscreteLaplace", "scale": "2"}
RESPONSE = {"type": "RandomizedResponse", "p": "3/4", "categories": 2, "other": None}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (changed(version=2, **LAPLACE), "version 1"),
        (changed(form="fastdp event", **LAPLACE), "form"),
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        (b"{}", "must be a str"),
        (changed(), "with a 'type'"),
        (changed(type="Mechanism"), "type must be one of"),
        (changed(type="FrequencyOracle"), "type must be one of"),
        (changed(type="NoSuchThing", scale="2"), "type must be one of"),
        (changed(type="DiscreteLaplace"), "must have the arguments scale"),
        (changed(**LAPLACE, sigma="2"), "must have the arguments scale"),
        (changed(**LAPLACE, unknown=1), "must have the arguments scale"),
        (changed(type="DiscreteLaplace", scale=0.1), "a number must be a string"),
        (changed(type="DiscreteLaplace", scale=2), "a number must be a string"),
        (changed(type="DiscreteLaplace", scale="1e999999999"), "a number must be"),
        (changed(type="DiscreteLaplace", scale="1/0"), "a number must be"),
        (changed(type="DiscreteLaplace", scale=["2"]), "scale must be"),
        (changed(type="DiscreteLaplace", scale="-2"), "scale must be"),
        (changed(**LAPLACE, neighboring_relation="remove"), "neighboring_relation"),
        (changed(**{**RESPONSE, "categories": 2.0}), "categories must be an integer"),
        (changed(**{**RESPONSE, "categories": "2"}), "categories must be"),
        (changed(**{**RESPONSE, "categories": True}), "categories must be"),
        (changed(**{**RESPONSE, "other": {}}), "other must be an integer"),
        (changed(**{**RESPONSE, "p": "1/2"}), "p must be above"),
    ],
)
def test_everything_else_is_refused(text: Any, rule: str) -> None:
    with pytest.raises(FastDPError, match=rule):
        Mechanism.from_json(text)


def test_another_kind_is_refused() -> None:
    text = fastdp.DiscreteLaplace(2).to_json()
    with pytest.raises(ParameterError, match="type must be one of DiscreteGaussian;"):
        fastdp.DiscreteGaussian.from_json(text)
    assert fastdp.Mechanism.from_json(text) == fastdp.DiscreteLaplace(2)
