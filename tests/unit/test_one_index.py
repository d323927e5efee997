"""Two pandas columns of one call have the same index: pandas and arrays pair alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import ParameterError
from fastdp.testing import FixedStream

pd = pytest.importorskip("pandas")

N = 4
DRAWN: dict[str, Any] = {"stream": FixedStream("the same index")}
BOUNDS: dict[str, Any] = {"bounds": (0, 5), **DRAWN}
ONE: dict[str, Any] = {"epsilon": 1}
OPEN: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, **DRAWN}


def of(users: Any, groups: int | None = None) -> fastdp.Unit:
    return fastdp.Unit(users, groups=groups, records=1)


def moments(x: Any, by: Any) -> object:
    """Release the moments of listed groups."""
    m = fastdp.Moments.from_epsilon(1, bounds=(0, 5), moments=1, groups=9)
    return m.release(x, by=by, **DRAWN)


def open_moments(x: Any, by: Any) -> object:
    """Release the moments of groups that nobody listed."""
    m = fastdp.Moments.from_epsilon(1, delta=1e-6, bounds=(0, 5), moments=1)
    return m.release(x, by=by, **DRAWN)


def clipped(x: Any, by: Any) -> object:
    """Release sums of a frame's rows by block."""
    m = fastdp.ClippedSum.from_epsilon(1, radius=1, dimension=1, norm="inf", blocks=9)
    return m.release(x.to_frame(), labels=by, **DRAWN)


def quantiles(x: Any, by: Any) -> object:
    """Release the medians of groups."""
    m = fastdp.Quantiles(0.5, bounds=(0, 5), epsilon=1, groups=9)
    return m.release(x, by=by, **DRAWN)


def histogram_of_keys(x: Any, by: Any) -> object:
    """Release counts that are given by key."""
    return fastdp.UnknownHistogram.from_epsilon_delta(
        epsilon=1, delta=1e-6, keys_per_user=1
    ).release(by, x, **DRAWN)


def stable_mode(x: Any, by: Any) -> object:
    """Release the key of the largest count."""
    return fastdp.StableMode(epsilon=1, delta=1e-6).release(by, x, **DRAWN)


def weighted(x: Any, by: Any) -> object:
    """Choose by scores and weights."""
    m = fastdp.ExponentialMechanism(1, sensitivity=1)
    return m.select(x, weights=by, **DRAWN)


def bounded(x: Any, by: Any) -> object:
    """Bound what users contribute by key."""
    return fastdp.bound_contributions(
        x, by, keys_per_user=1, records_per_key=1, **DRAWN
    )


CALLS: dict[str, Callable[[Any, Any], object]] = {
    "count user": lambda x, by: fastdp.count(x, unit=of(by), **ONE, **DRAWN),
    "count by": lambda x, by: fastdp.count(x, by=by, unit="row", **OPEN),
    "count by and user": lambda x, by: fastdp.count(
        [1] * N, by=x, unit=of(by, 1), **OPEN
    ),
    "sum": lambda x, by: fastdp.sum(x, unit=of(by), **ONE, **BOUNDS),
    "mean": lambda x, by: fastdp.mean(x, unit=of(by), **ONE, **BOUNDS),
    "variance": lambda x, by: fastdp.variance(x, unit=of(by), **ONE, **BOUNDS),
    "median": lambda x, by: fastdp.median(x, unit=of(by), **ONE, **BOUNDS),
    "histogram": lambda x, by: fastdp.histogram(x, [0, 5], unit=of(by), **ONE, **DRAWN),
    "contributions": bounded,
    "moments": moments,
    "open moments": open_moments,
    "clipped sum": clipped,
    "quantiles": quantiles,
    "unknown histogram": histogram_of_keys,
    "stable mode": stable_mode,
    "weights": weighted,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_columns_of_other_indexes_are_refused(call: Callable[..., object]) -> None:
    x = pd.Series([1, 2, 3, 4])
    for by in (
        pd.Series([4, 3, 2, 1], index=[3, 2, 1, 0]),
        pd.Series([4, 3, 2, 1], index=["a", "b", "c", "d"]),
        pd.Series([4, 3, 2, 1], index=[0, 1, 2, 2]),
    ):
        with pytest.raises(
            ParameterError, match="must have the same index: align them"
        ):
            call(x, by)
        call(by, by + 1)  # the same index, whatever it is
        call(x, by.to_numpy())  # by place


def test_one_index_may_have_labels_that_are_null_or_equal() -> None:
    index = pd.Index([np.nan, "a", "a", None], dtype=object)
    x = pd.Series([1.0] * N, index=index)
    user = pd.Series(list("abcd"), index=index.copy())
    assert len(
        fastdp.bound_contributions(user, x, keys_per_user=1, records_per_key=1, **DRAWN)
    )
    fastdp.sum(x, unit=of(user), **ONE, **BOUNDS)
