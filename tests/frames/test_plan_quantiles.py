"""Quantiles of plans: the same cells on every engine, intervals that hold the truth."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.running import _count_tree
from fastdp.mechanisms.running._count_tree import Tree
from fastdp.tables import _quantiles, _run
from fastdp.testing import FixedStream
from tests.frames import hostile

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

BOUNDS = (-3.0, 1e3)
HALF = Fraction(1, 2)
ROWS = {
    "who": [f"user {i}" for i in range(len(hostile.HOSTILE))] * 2,
    "town": ["oslo"] * len(hostile.HOSTILE) + ["rome"] * len(hostile.HOSTILE),
    "x": hostile.HOSTILE * 2,
}


def plan_of(**words: Any) -> fastdp.Plan:
    """At this epsilon noise is 0 but with a probability below 1e-100."""
    usual = {"unit": "row", "bounds": {"x": BOUNDS}, "epsilon": 1e4}
    return fastdp.Plan(**{**usual, **words})


# ---- the same totals, whatever adds up ---------------------------------------------


@pytest.mark.parametrize("cells", [4096, 7, 2])
@pytest.mark.parametrize("grouped", [True, False])
def test_engines_count_alike(grouped: bool, cells: int) -> None:
    by = {"by": "town", "keys": ["rome", "bonn", "oslo"]} if grouped else {}
    who = fastdp.Unit("who", records=2, **({"groups": 2} if grouped else {}))
    for unit in ("row", who):
        words = {"unit": unit, "median": "x", "cells": cells, **by}
        plan = plan_of(mean="x", count=True, **words)
        found = []
        for source in (ROWS, pa.table(ROWS)):
            source = _run._in_memory(plan, source, None)
            with _run.engine_of(plan, source, None, None) as engine:
                exact = engine.exact(plan._recipe(engine), "salt", None)
            found.append(_run.Totals(plan, exact)._sums)
        there = [x for x in hostile.HOSTILE if x is not None and x == x]
        found_in = _quantiles.cells_of(np.array(there), BOUNDS, cells)
        wanted = np.bincount(found_in, minlength=cells)
        for name in ("t0", "n", "n0", "s0"):
            assert found[0][name].tolist() == found[1][name].tolist(), name
        leaves = found[0]["t0"][:, -cells:]
        if grouped:  # sorted: bonn, oslo, rome
            assert leaves.tolist() == [[0] * cells, wanted.tolist(), wanted.tolist()]
        else:
            assert leaves.tolist() == [(2 * wanted).tolist()]


@pytest.mark.parametrize(
    "bounds", [(0.0, 1.0), (-3.0, 1e3), (-1e-300, 1e-300), (-1.7e308, 1.7e308), (1, 7)]
)
@pytest.mark.parametrize("cells", [10, 4096, 1000])
def test_ends_of_cells_hold_their_numbers(bounds: Any, cells: int) -> None:
    lower, upper = _quantiles.edges_of(bounds, cells)
    near = np.concatenate([lower, upper])
    for _ in range(3):
        near = np.concatenate(
            [near, np.nextafter(near, -math.inf), np.nextafter(near, math.inf)]
        )
    values = np.clip(np.unique(near), *bounds)
    cell = _quantiles.cells_of(values, bounds, cells)
    assert (lower[cell] <= values).all()
    assert (values <= upper[cell + 1]).all()
    assert {*cell.tolist()} == {*range(cells)}
    assert (np.diff(lower) > 0).all()
    missing = _quantiles.cells_of(np.array([math.nan]), bounds, cells)
    assert missing.tolist() == [-1]


def test_bounds_of_all_doubles_warn_of_nothing() -> None:
    most = float(np.finfo(np.float64).max)
    r = fastdp.median([1.0, 2.0, 1e308], bounds=(-most, most), unit="row", epsilon=1)
    assert -most <= r.low <= r.high <= most


# ---- the noise of a rank -----------------------------------------------------------

TREES = [Tree(4, 2), Tree(5, 2), Tree(23, 3), Tree(40, 5)]


@pytest.mark.parametrize("tree", TREES)
def test_weights_are_those_of_least_squares(tree: Tree) -> None:
    nodes = sum(tree.nodes) - 1
    solved = np.array(
        [_count_tree.least_squares(tree, row.copy(), None) for row in np.eye(nodes)]
    )
    for q in (HALF, Fraction(1, 10), Fraction(19, 20)):
        rank = _quantiles.Rank(tree, DiscreteLaplace(1), q)
        for edge in range(tree.leaves + 1):
            side = np.where(np.arange(tree.leaves) < edge, 1 - q, -q).astype(float)
            weights = np.concatenate(_quantiles.weights_of(tree, edge, float(q)))
            assert weights == pytest.approx(solved @ side, abs=1e-12)
            assert abs(weights).max() <= 1
            square = float(weights @ weights)
            assert square == pytest.approx(rank.variances[edge], abs=1e-12)


LAWS = [DiscreteLaplace(0.4), DiscreteGaussian(0.5)]


@pytest.mark.parametrize("law", LAWS)
def test_tails_are_above_the_exact_law_by_little(law: Any) -> None:
    """All outcomes of six noises within 5; beyond are less than 1e-4 (or 1e-20)."""
    tree, most = Tree(4, 2), 5
    within = np.arange(-most, most + 1)
    sf = law._law.sf
    chances = np.array([float(sf(float(k - 1)) - sf(float(k))) for k in within])
    for q, edge in ((HALF, 2), (Fraction(1, 10), 1), (Fraction(19, 20), 3)):
        rank = _quantiles.Rank(tree, law, q)
        weights = np.concatenate(_quantiles.weights_of(tree, edge, float(q)))
        noise, chance = np.zeros(1), np.ones(1)
        for weight in weights:
            noise = np.add.outer(noise, weight * within).ravel()
            chance = np.outer(chance, chances).ravel()
        std = rank.std[edge]
        for x in np.linspace(1.5, 4, 6) * std:
            exact = chance[noise >= x].sum()
            near = chance[noise >= x - 0.12 * std].sum() + 6 * (1 - chances.sum())
            outside = max(exact, 1e-6)
            tail = rank.tail(edge, x, outside)
            assert exact <= tail <= 1.05 * near + 2e-3 * outside
            assert rank.far(outside)[edge] >= x  # Chernoff is no shorter


def shapes(n: int) -> dict[str, np.ndarray[Any, Any]]:
    """Columns within (0, 1): usual ones, and some on which a search may err."""
    place = (np.arange(n) + 0.5) / n
    return {
        "even": place,
        "skewed": place**4,
        "ages": np.floor(90 * place**1.5) / 90,
        "two clusters": np.where(np.arange(n) < n // 2, 0.2, 0.8),
        "one more": np.where(np.arange(n) <= n // 2, 0.2, 0.8),
        "ties": np.full(n, 0.37),
        "at steps": np.arange(n) % 16 / 16,
    }


#: Number of releases for each case.
RUNS = 10_000


def covered(
    x: Any, q: Fraction, law: Any, level: float, said: Any = None, runs: int = 150
) -> float:
    """Return in how many releases the interval of a reader of `said` holds."""
    cells = 256
    tree = _quantiles.tree_of(cells, gaussian=isinstance(law, DiscreteGaussian))
    counts = np.bincount(_quantiles.cells_of(x, (0, 1), cells), minlength=cells)
    nodes = np.repeat(_quantiles.nodes_of(tree, counts[None]), runs, axis=0)
    stream = FixedStream(f"{at(x, q)} {q} {law} {level} {len(x)}")
    noisy = law.release(nodes, stream=stream)
    read = _quantiles.Trees(tree, said or law, (0.0, 1.0), [q], noisy)
    (low, high), value = read.interval(q, level), read.values(q)
    there = ~np.isnan(value)
    assert ((low <= value) & (value <= high))[there].all()
    return float(((low <= at(x, q)) & (at(x, q) <= high)).mean())


def at(x: Any, q: Fraction) -> float:
    """Return the least value with at least a share q at or below it."""
    return float(np.sort(x)[math.ceil(q * len(x)) - 1])


@pytest.mark.rest
@pytest.mark.parametrize("law", [DiscreteLaplace(9), DiscreteGaussian(9)])
@pytest.mark.parametrize("name", shapes(1))
def test_intervals_hold_the_quantile(name: str, law: Any) -> None:
    for n, q, level in (
        (5000, HALF, 0.95),
        (500, Fraction(9, 10), 0.8),
        (9, HALF, 0.9),
    ):
        error = math.sqrt(level * (1 - level) / RUNS)
        share = covered(shapes(n)[name], q, law, level, runs=RUNS)
        print(f"{name:12} {n:4} {float(q):g} {level} {share:.4f}")
        assert share >= level - 4 * error, (n, q)


def test_intervals_for_less_noise_do_not_hold_it() -> None:
    x, law = shapes(500)["even"], DiscreteLaplace(9)
    assert covered(x, HALF, law, 0.95, DiscreteLaplace(3)) < 0.85


# ---- what is released --------------------------------------------------------------


def test_quantiles_of_groups_are_theirs() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(50, 10, 3000)
    x[::7] = math.nan
    rows = {"g": np.arange(3000) % 3, "x": x}
    plan = plan_of(
        by="g",
        keys=[2, 0, 1, 9],
        mean="x",
        quantiles={"x": [0.9, 0.25, 0.5]},
        bounds={"x": (0, 100)},
    )
    assert plan.columns == ("x_n", "x_mean", "x_q90", "x_q25", "x_median")
    for source in (rows, pa.table(rows)):
        found = plan.release(source)
        for i, g in enumerate((2, 0, 1)):
            mine = x[(rows["g"] == g) & ~np.isnan(x)]
            for column, q in (("x_q25", 0.25), ("x_median", 0.5), ("x_q90", 0.9)):
                truth = at(mine, Fraction(q))
                low, high = (ends[i] for ends in found.interval(column))
                assert low <= truth <= high <= low + 0.1, column
                assert low <= found.values(column)[i] <= high
        assert math.isnan(found.values("x_median")[3])  # nobody is in group 9
        assert "wide: x_mean, x_q90, x_q25" in found._columns(0.95)["note"][3]
    assert "90 % quantile, 25 % quantile and median of x" in plan.describe()
    assert plan.mechanisms()["x_quantiles"].sensitivity == 3


def test_the_cost_is_what_was_asked_and_accuracy_is_known() -> None:
    who = fastdp.Unit("who", groups=2, records=3)
    words: Any = {"unit": who, "by": "g", "keys": [1, 2], "median": "x"}
    plan = plan_of(count=True, mean="x", **{**words, "epsilon": 1})
    assert 1 - 1e-5 < plan.epsilon() <= 1
    plan = plan_of(**{**words, "epsilon": None, "rho": 0.1})
    row = plan.accuracy().rows()[0]
    assert row["noise"] == "tree of 4096"
    assert row["within"] > 1.9 * row["std"]
    assert "of the rank, at most" in str(plan.accuracy())
    both = plan_of(quantiles={"x": [0.1, 0.5, 0.9]}, **{**words, "median": ()})
    assert both.event() == plan_of(**words).event()  # more of them cost nothing


def test_a_ledger_keeps_the_answer(tmp_path: Any) -> None:
    who = fastdp.Unit("who", groups=1, records=1)
    words: Any = {"unit": who, "by": "town", "median": "x", "cells": 64}
    plans = [
        plan_of(**words, keys=["oslo"], epsilon=1),
        plan_of(**words, epsilon=1, delta=1e-6),
    ]
    rows = {**ROWS, "who": list(range(len(ROWS["who"])))}
    rows = {name: column * 40 for name, column in rows.items()}
    with fastdp.ledger.create(tmp_path / "year.db") as book:
        limit = fastdp.accounting.ApproximateFilter(epsilon=3, delta=1e-5)
        book.add_budget("all", limit, unit="who")
        for i, plan in enumerate(plans):
            charge: Any = {"ledger": book, "label": f"w{i}", "budgets": "all"}
            first, again = (plan.release(pa.table(rows), **charge) for _ in range(2))
            assert again.replayed
            ends = [np.stack(r.interval("x_median")).tolist() for r in (first, again)]
            assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"median": "x", "bounds": {}}, ParameterError, "bounds must be given for 'x'"),
        ({"quantiles": {"x": [0, 0.5]}}, ParameterError, "quantiles must be"),
        ({"quantiles": {"x": []}}, ParameterError, "at least one number"),
        ({"quantiles": {"x": [0.5, 0.5]}}, ParameterError, "without duplicates"),
        ({"quantiles": {"x": "half"}}, ParameterError, "must be numbers such as"),
        ({"quantiles": [0.5]}, DTypeError, "must be a dict of numbers by column"),
        ({"quantiles": {"x": 0.2}, "median": "x"}, ParameterError, "or in median"),
        ({"median": "x", "cells": 1}, ParameterError, "cells must be"),
        (
            {"median": "x", "by": "g", "keys": [*range(2**15)]},
            ParameterError,
            "fewer cells, such as cells=256",
        ),
    ],
)
def test_what_is_refused(words: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        plan_of(**words)


# ---- integers ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Arrow", "pandas", "polars", "Series"])
def test_quantiles_of_integers_are_integers(kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    x, g = np.array([31, 31, 27, 62] * 500), ["a"] * 2000
    frame = pandas.DataFrame({"g": g, "x": x})
    source = {
        "Arrow": pa.table(frame),
        "pandas": frame.convert_dtypes(),
        "polars": polars.from_pandas(frame),
        "Series": {"g": frame.g, "x": frame.x.astype("Int64")},
    }[kind]
    words = {"by": "g", "keys": ["a", "b"], "bounds": {"x": (0, 120)}, "epsilon": 1}
    plan = fastdp.Plan(unit="row", quantiles={"x": [0.25, 0.5]}, **words)
    ends = [f"x_{q}{end}" for q in ("q25", "median") for end in ("_low", "_high")]
    for _ in range(5):  # the noisy number of records in group b is below 1, or not
        found = plan.release(source).table()
        for name in ends:
            column = found[name]
            kept = column if isinstance(column, np.ndarray) else column.to_numpy()
            assert kept.dtype == np.int64, name
        shown = np.ma.array(np.asarray(found["x_median"], float))[0]
        assert shown == int(shown)
        assert found["x_median_low"][0] in (pa.scalar(31), 31)
    # A list has no type. One missing value changes numpy's type, in pandas as well: a
    # result that had this type would show it. Bounds of floats are possible quantiles.
    for plain in ({"g": g, "x": x.tolist()}, {"g": g, "x": x}, frame):
        floats = plan.release(plain)
        assert floats.interval("x_median")[0].dtype == np.float64
    whole = pa.array(x)
    odd = fastdp.median(whole, bounds=(0.5, 120), unit="row", epsilon=1)
    assert odd.interval("x_median")[0].dtype == np.float64


def test_rounding_leaves_no_integer_out() -> None:
    tree = _quantiles.tree_of(100, gaussian=False)
    law = DiscreteLaplace(9, sensitivity=1)
    counts = np.bincount([3] * 40 + [70] * 41, minlength=100)[None, :]
    nodes = _quantiles.nodes_of(tree, np.repeat(counts, 50, axis=0))
    noisy = nodes + law.release(np.zeros_like(nodes), stream=FixedStream(bytes(32)))
    for bounds in ((0.0, 30.0), (-7.0, 1e4)):
        made = [
            _quantiles.Trees(tree, law, bounds, [HALF], noisy, whole=whole)
            for whole in (False, True)
        ]
        (low, high), (first, last) = (t.interval(HALF, 0.9) for t in made)
        value = made[1]._points(HALF)
        assert (first <= value).all()
        assert (value <= last).all()
        assert (first - 1 < low).all()
        assert (high < last + 1).all()
        assert len(np.unique(first)) > 1


def test_integers_come_back_from_a_ledger(tmp_path: Any) -> None:
    ledger = fastdp.ledger.create(tmp_path / "own.db")
    ledger.add_budget("all", fastdp.accounting.PureFilter(2), unit="row")
    charge = {"ledger": ledger, "label": "a", "budgets": "all"}
    words = {"bounds": (0, 9), "unit": "row", "epsilon": 1, **charge}
    first, again = (fastdp.median(pa.array([1, 2, 3] * 99), **words) for _ in range(2))
    assert again.replayed
    assert type(again.value) is type(first.value) is int
    assert (first.value, first.low) == (again.value, again.low)
