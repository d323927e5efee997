"""`SubsampleAggregate`: arguments, how records are dealt, statistics that fail."""

from __future__ import annotations

import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.accounting import (
    ApproximateDPEvent,
    ExponentialMechanismEvent,
    NeighboringRelation,
)
from fastdp.exceptions import DTypeError, InsecureStreamWarning, ParameterError
from fastdp.testing import FixedStream

R = NeighboringRelation.REPLACE_ONE


def made(**change: Any) -> fastdp.SubsampleAggregate:
    arguments = {"blocks": 20, "bounds": (0, 10), "epsilon": 50, "aggregate": "median"}
    return fastdp.SubsampleAggregate(**{**arguments, **change})


def fixed(key: str) -> FixedStream:
    with pytest.warns(InsecureStreamWarning):
        return FixedStream(key)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blocks": 0}, "blocks must be in"),
        ({"bounds": (3, 3)}, "bounds must have low < high"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"aggregate": "sum"}, "aggregate must be one of mean, median, mode"),
        ({"aggregate": "mode"}, "delta must be given with"),
        ({"delta": 1e-6}, "delta must be given with"),
        ({"default": 11}, "default must be in"),
        ({"granularity": 16}, "granularity must have two multiples"),
        ({"granularity": 3}, "granularity must be a power of two"),
        (
            {"aggregate": "mean", "blocks": 2**20, "granularity": 2.0**-41},
            r"granularity must be at least blocks/2\*\*62 of the range",
        ),
        ({"neighboring_relation": "replace_one"}, "assignment must be given"),
        ({"neighboring_relation": "replace_special"}, "neighboring_relation must be"),
        ({"assignment": "place"}, "assignment must be 'key'"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        made(**change)


def test_identity_and_cost() -> None:
    m = made(default=3, neighboring_relation="replace_one", assignment="key")
    assert pickle.loads(pickle.dumps(m)) == m
    assert m.event() == ExponentialMechanismEvent(50, neighboring_relation=R)
    mode = made(aggregate="mode", delta=1e-6)
    assert mode.event() == ApproximateDPEvent(epsilon=50, delta=1e-6)
    mean = made(aggregate="mean")
    assert mean.epsilon() == 50
    # two of a single block are one
    assert made(blocks=1, neighboring_relation="replace_one", assignment="key")


@pytest.mark.parametrize("aggregate", ["mean", "median", "mode"])
@pytest.mark.parametrize("assignment", ["place", "key"])
def test_results_of_blocks_are_aggregated(aggregate: str, assignment: str) -> None:
    m = made(
        aggregate=aggregate,
        delta=1e-6 if aggregate == "mode" else None,
        neighboring_relation="replace_one",
        assignment=assignment,
    )
    x = np.full((400, 3), 4.0)
    found = m.release(x, lambda block: block.mean() + block.shape[1] - 3)
    assert isinstance(found, np.float64)
    assert abs(found - 4) < 0.6
    two = m.release((x[:, 0], x[:, 1]), lambda a, b: a.max() - b.min() + 4)
    assert abs(two - 4) < 0.6


def test_places_are_dealt_evenly_and_keys_stay_together() -> None:
    sizes: list[int] = []

    def seen(block: np.ndarray) -> float:
        sizes.append(len(block))
        return 1.0

    by_place = made(neighboring_relation="replace_one", assignment="place")
    by_place.release(np.arange(45), seen)
    assert sorted(sizes) == [2] * 15 + [3] * 5
    sizes.clear()
    by_key = made()
    by_key.release(np.arange(400), seen)
    assert sum(sizes) == 400
    assert len(set(sizes)) > 2  # independent of one another
    blocks: list[set[int]] = []

    def whose(block: np.ndarray) -> float:
        blocks.append(set(block.tolist()))
        return 1.0

    users = np.repeat(np.arange(30), 9)
    by_key.release(users, whose, keys=users, stream=fixed("u"))
    assert sum(map(len, blocks)) == 30  # no user in two
    names: list[Any] = ["a", None, "b", "a"]
    blocks.clear()
    by_key.release(np.array([1, 2, 3, 1]), whose, keys=names)
    assert set().union(*blocks) == {1, 3}  # a record of no key is in no block


def test_failing_statistics_count_as_the_default_unseen() -> None:
    def hostile(block: np.ndarray) -> Any:
        kind = int(block[0])
        if kind == 0:
            raise ValueError(f"the secret {block}")
        if kind == 1:
            warnings.warn("the secret", stacklevel=1)
            return np.float64(1) / np.zeros(1)[0] * 0  # NaN
        return {2: None, 3: "x", 4: math.nan, 5: np.ones(3), 6: 10**400}[kind]

    place = {"neighboring_relation": "replace_one", "assignment": "place"}
    m = made(default=7, aggregate="mean", epsilon=1e4, **place)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for kind in range(7):
            x = np.full(20, kind)
            assert m.release(x, hostile) == pytest.approx(7, abs=1e-2)
    assert m.release(np.ones(0), np.mean) == pytest.approx(7, abs=1e-2)
    low = made(aggregate="mean", epsilon=1e4, **place)
    assert low.release(np.zeros(20), hostile) == pytest.approx(0, abs=1e-2)
    assert low.release(np.ones(20), lambda _: math.inf) == pytest.approx(10, abs=1e-2)
    with pytest.raises(KeyboardInterrupt):
        low.release(np.ones(20), lambda _: (_ for _ in ()).throw(KeyboardInterrupt))


@pytest.mark.parametrize(
    ("error", "change", "message"),
    [
        (DTypeError, {"records": [1, 2]}, "records must be an ndarray or a sequence"),
        (DTypeError, {"records": 3}, "records must be"),
        (ParameterError, {"records": ()}, "records must be arrays of the same length"),
        (
            ParameterError,
            {"records": np.array(3)},
            "records must be arrays of the same",
        ),
        (
            ParameterError,
            {"records": (np.ones(3), np.ones(4))},
            "records must be arrays of the same length",
        ),
        (DTypeError, {"statistic": 3}, "statistic must be callable"),
        (ParameterError, {"keys": ["a"]}, r"keys must have shape \(4,\)"),
        (DTypeError, {"stream": 3}, "stream must be"),
    ],
)
def test_refusals_of_releases(
    error: type[Exception], change: dict[str, Any], message: str
) -> None:
    arguments = {"records": np.ones(4), "statistic": np.mean, **change}
    with pytest.raises(error, match=message):
        made().release(**arguments)


def test_keys_are_not_for_places() -> None:
    m = made(neighboring_relation="replace_one", assignment="place")
    with pytest.raises(ParameterError, match="keys must not be given"):
        m.release(np.ones(4), np.mean, keys=[1, 2, 3, 4])
