"""What a newcomer writes first runs, or is refused with the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import accounting, plot
from fastdp.exceptions import BudgetExceededError, FastDPError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

COUNTS = [1304, 2480, 961, 0]
laplace = fastdp.DiscreteLaplace.from_epsilon(1.0, sensitivity=1)
gaussian = fastdp.DiscreteGaussian.from_rho(0.1, sensitivity=1)
real = fastdp.Laplace.from_epsilon(1.0, sensitivity=1, coordinates=1)
browsers = fastdp.RandomizedResponse.from_epsilon(
    1, categories=["a", "b", "other"], other="other"
)


def ten_tenths() -> Any:
    budget = accounting.PureFilter(1.0)
    part = fastdp.DiscreteLaplace.from_epsilon(0.1, sensitivity=1)
    for _ in range(10):
        budget.spend(part)
    assert budget.remaining == 0
    with pytest.raises(BudgetExceededError, match=r"0\.1 was requested, 0 is left"):
        budget.spend(part)
    return part.epsilon()


def visits_by_clinic() -> Any:
    """Count in a public order: `value_counts` sorts by the true count."""
    visits = pd.Series(["b", "a", "b", "zz", "b"])
    public = ["a", "b", "c"]
    counts = visits.value_counts().reindex(public, fill_value=0)
    return laplace.release(counts)


#: What people write, and what they get.
RUNS: dict[str, tuple[Callable[[], Any], Callable[[Any], bool]]] = {
    "a list": (
        lambda: laplace.release(COUNTS),
        lambda y: type(y) is list and len(y) == 4,
    ),
    "a Series": (
        lambda: laplace.release(pd.Series(COUNTS, index=list("abcd"), name="n")),
        lambda y: list(y.index) == list("abcd") and y.name == "n",
    ),
    "counts of a public domain": (
        visits_by_clinic,
        lambda y: list(y.index) == ["a", "b", "c"],
    ),
    "an Index": (
        lambda: laplace.release(pd.Index(COUNTS)),
        lambda y: isinstance(y, pd.Index),
    ),
    "nullable integers": (
        lambda: laplace.release(pd.Series([1, None], dtype="Int64")),
        lambda y: y.dtype == np.int64,
    ),
    "a polars Series": (
        lambda: laplace.release(pl.Series("n", COUNTS)),
        lambda y: isinstance(y, pl.Series) and y.name == "n",
    ),
    "an Arrow array": (
        lambda: laplace.release(pa.array(COUNTS)),
        lambda y: isinstance(y, pa.Array),
    ),
    "a chunked array": (
        lambda: laplace.release(pa.chunked_array([COUNTS])),
        lambda y: isinstance(y, pa.ChunkedArray),
    ),
    "a list of floats": (
        lambda: real.release([1.5, 2]),
        lambda y: len(y) == 2 and type(y[0]) is float,
    ),
    "a numpy bool": (
        lambda: fastdp.RandomizedResponse.from_epsilon(1).release(np.True_),
        lambda y: isinstance(y, np.bool_),
    ),
    "a list of bools": (
        lambda: fastdp.RandomizedResponse.from_epsilon(1).release([True, False]),
        lambda y: {type(one) for one in y} == {bool},
    ),
    "bounds as a list": (
        lambda: fastdp.quantiles(
            np.arange(9.0), 0.5, bounds=[0, 9], unit="row", epsilon=9
        ),
        lambda y: 0 <= y.low <= y.high <= 9,
    ),
    "a relation by name": (
        lambda: (
            fastdp.DiscreteLaplace.from_epsilon(
                1, sensitivity=2, neighboring_relation="replace_one"
            ).neighboring_relation
        ),
        lambda y: y is accounting.NeighboringRelation.REPLACE_ONE,
    ),
    "a count of 1e4": (
        lambda: accounting.ZCDPAccountant().compose(gaussian, count=1e4).epsilon(1e-6),
        lambda y: y > 0,
    ),
    "a budget for a mechanism": (
        lambda: repr(accounting.PureFilter(2.0).spend(laplace)),
        lambda y: y == "<PureFilter: epsilon 2, 1 left, ADD_OR_REMOVE_ONE>",
    ),
    "ten times a tenth": (ten_tenths, lambda y: y == 0.1),
    "the epsilon that was asked": (
        lambda: [
            fastdp.DiscreteLaplace.from_epsilon(e, sensitivity=1).epsilon()
            for e in (0.1, 0.3, 0.7, 1.1)
        ],
        lambda y: y == [0.1, 0.3, 0.7, 1.1],
    ),
    "a picture of one accountant": (
        lambda: plot.trade_off(accounting.ZCDPAccountant().compose(gaussian)),
        lambda y: len(y.axes[0].lines) == 2,
    ),
    "a choice from a list of scores": (
        lambda: fastdp.PermuteAndFlip(9, sensitivity=1).select([3, 900, 7]),
        lambda y: y == 1,
    ),
    "scores of a Series": (
        lambda: fastdp.noisy_argmax(pd.Series([3, 900], index=["a", "b"]), sigma=1),
        lambda y: y == 1,
    ),
    "a median of a list": (
        lambda: fastdp.median(
            [31, 45, 27, 62] * 99, bounds=(0, 120), unit="row", epsilon=1
        ),
        lambda y: 0 <= y.value <= 120,
    ),
    "a median of a polars column": (
        lambda: fastdp.quantiles(
            pl.DataFrame({"age": [31, 45, None] * 99})["age"],
            [0.25, 0.5],
            bounds=(0, 120),
            unit="row",
            epsilon=1,
        ),
        lambda y: (y.low <= y.value).all() and (y.value <= y.high).all(),
    ),
    "a mean of a nullable column": (
        lambda: fastdp.mean(
            pd.Series([31, None, 62] * 99, dtype="Int64"),
            bounds=(0, 120),
            unit="row",
            epsilon=1,
        ),
        lambda y: 0 <= y.value <= 120,
    ),
    "a sum of the rows of a frame": (
        lambda: fastdp.ClippedSum.from_rho(0.5, radius=9, dimension=2).release(
            pd.DataFrame({"a": [1, 2], "b": [0.5, 4]})
        ),
        lambda y: y.shape == (2,),
    ),
    "a relation of a sum by name": (
        lambda: fastdp.ClippedSum.from_rho(
            0.5, radius=9, dimension=2, neighboring_relation="replace_one"
        ).event(),
        lambda y: y.neighboring_relation is accounting.NeighboringRelation.REPLACE_ONE,
    ),
    "categories by name": (
        lambda: browsers.estimate(browsers.release(["a", "b", "zz"])).to_dict(),
        lambda y: list(y) == ["a", "b", "other"],
    ),
    "a report sent as JSON": (
        lambda: (
            browsers.estimate(
                browsers.reports_from_json(
                    browsers.reports_to_json(browsers.release("a"))
                )
            ).users
        ),
        lambda y: y == 1,
    ),
    "a mechanism sent as JSON": (
        lambda: fastdp.Mechanism.from_json(browsers.to_json()),
        lambda y: y == browsers,
    ),
    "a list of reports": (
        lambda: browsers.aggregator().add([0, 1, 2, 2]).users,
        lambda y: y == 4,
    ),
    "what is public": (
        lambda: set(dir(fastdp)) >= {"DiscreteLaplace", "accounting", "plot"},
        lambda y: y,
    ),
}

#: What people write, and the way out that they are told.
REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "a table": (
        lambda: laplace.release(pd.DataFrame({"n": COUNTS})),
        "one column .*: select a column, or write fastdp.frames.release",
    ),
    "floats for integers": (
        lambda: laplace.release([1.0, 2.5]),
        "must be a list of ints, .* got elements of type float",
    ),
    "a list of lists": (lambda: laplace.release([[1], [2]]), "one-dimensional"),
    "text": (lambda: laplace.release(pd.Series(["a"])), "a column of integers"),
    "a name that comes twice": (
        lambda: fastdp.RandomizedResponse.from_epsilon(1, categories=["a", "b", "a"]),
        "each name once: numbers 0 and 2 are both 'a'",
    ),
    "numbers for names": (
        lambda: browsers.release([1, 2]),
        "values must be strings, as the names of the categories are",
    ),
    "several bits a user": (
        lambda: fastdp.UnaryEncoding.from_epsilon(1, categories=3).release(
            np.eye(3, dtype=bool)
        ),
        "one category a user, not bits: .*RandomizedResponse",
    ),
    "reports of another mechanism": (
        lambda: fastdp.RandomizedResponse(p=0.75).reports_from_json(
            browsers.reports_to_json([0, 1])
        ),
        "it names another one",
    ),
    "an unknown relation": (
        lambda: fastdp.DiscreteLaplace.from_epsilon(
            1, sensitivity=1, neighboring_relation="remove"
        ),
        "one of add_or_remove_one, replace_one",
    ),
    "a Gaussian in a pure budget": (
        lambda: accounting.PureFilter(1).spend(gaussian),
        r"PureFilter takes pure epsilon events, .* ApproximateFilter\(.*\) takes it",
    ),
    "two relations in one budget": (
        lambda: (
            accounting.PureFilter(9)
            .spend(laplace)
            .spend(
                fastdp.DiscreteLaplace.from_epsilon(
                    1, sensitivity=2, neighboring_relation="replace_one"
                )
            )
        ),
        "ADD_OR_REMOVE_ONE.*, the DiscreteLaplaceEvent has .*REPLACE_ONE",
    ),
    "too much": (
        lambda: accounting.PureFilter(Fraction(1, 2)).spend(laplace),
        r"epsilon 0\.5 .*: 1 was requested, 0\.5 is left; nothing was spent",
    ),
    "a mechanism without a sensitivity": (
        lambda: accounting.PureFilter(1).spend(fastdp.DiscreteLaplace(scale=1)),
        "sensitivity",
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_first_lines_run(name: str) -> None:
    write, holds = RUNS[name]
    assert holds(write())


@pytest.mark.parametrize("name", REFUSALS)
def test_or_say_the_way_out(name: str) -> None:
    write, way_out = REFUSALS[name]
    with pytest.raises(FastDPError) as caught:
        write()
    assert re.search(way_out, str(caught.value)), str(caught.value)


def test_value_counts_gives_the_order_away() -> None:
    """Why the documentation reindexes: the order of its rows is that of the counts."""
    visits = pd.Series(["b", "a", "b", "b", "a", "c"])
    sorted_by_the_truth = laplace.release(visits.value_counts())
    assert list(sorted_by_the_truth.index) == ["b", "a", "c"]


def test_there_are_twenty() -> None:
    assert len(RUNS) + len(REFUSALS) >= 40
