"""The bounded group-by against a slow reference on hostile data, and what comes out."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import Plan, Unit, accounting
from fastdp.exceptions import (
    BudgetExceededError,
    LabelConflictError,
    UnitMismatchError,
)
from fastdp.frames import _recipe
from fastdp.frames._duckdb import DuckDB
from fastdp.testing import FixedStream
from tests.frames.hostile import ROWS, SALT, USERS, plan_of, reference, table_of, totals
from tests.frames.visits import ASK, KEYS, VISITS, released
from tests.reference import column

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

#: DuckDB up to 1.4 closes a connection if only its relations are still referenced.
CONNECTION = duckdb.connect()


def exact(source: Any, **options: Any) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """Return what the recipe gives before the noise."""
    with DuckDB(source, None) as engine:
        return totals(plan_of(**options), engine)


# ---- before the noise ------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "variance", "alone"),
    [
        ((), (), ()),
        (("x",), (), ()),
        (("x", "y"), ("y",), ()),
        (("x", "y"), ("x", "y"), ()),
        (("x", "y"), (), ("x",)),
        (("y", "x"), ("x",), ("y",)),
    ],
)
@pytest.mark.parametrize(
    ("user", "kept"), [("user", (2, 3)), ("user", (9, 1)), (None, 0)]
)
def test_the_recipe_is_the_reference_on_hostile_rows(
    values: Any, variance: Any, alone: Any, user: Any, kept: Any
) -> None:
    options: Any = {"user": user, "kept": kept, "variance": variance, "alone": alone}
    wanted = reference(ROWS, values, **options)
    assert exact(table_of(ROWS), values=values, **options) == wanted
    assert len(wanted) > 5


def as_file(rows: list[dict[str, Any]], folder: Path) -> Path:
    from pyarrow import parquet

    parquet.write_table(table_of(rows), folder / "it's.parquet", row_group_size=100)
    return folder / "it's.parquet"


def test_every_kind_and_order_gives_the_same_integers(tmp_path: Path) -> None:
    turned = table_of(ROWS[::-1])
    wanted = reference(ROWS)
    dictionary = turned.set_column(1, "town", turned["town"].dictionary_encode())
    relation = CONNECTION.from_arrow(turned)
    frame = turned.to_pandas(types_mapper=pd.ArrowDtype)
    for source in (
        *(turned, dictionary, turned.to_reader(50), relation, frame),
        *(pl.from_arrow(turned), as_file(ROWS, tmp_path)),
    ):
        assert exact(source) == wanted, type(source)


@pytest.mark.parametrize("hash", ["engine", "sha256"])
@pytest.mark.parametrize(("k", "r"), [(2, 3), (1, 1), (3, 2)])
def test_a_user_moves_what_is_stated_and_no_more(hash: str, k: int, r: int) -> None:
    options: Any = {"kept": (k, r), "hash": hash, "variance": ("y",)}
    plan = plan_of(**options)
    unit = 2**plan._noise.bits
    scale = np.array([1, 1, 1, 1, unit, unit, unit])
    whole = exact(table_of(ROWS), **options)
    most = np.zeros((2, 7))
    for user in filter(None, [*USERS, "full"]):
        rest = exact(table_of([row for row in ROWS if row["user"] != user]), **options)
        zero = (0,) * 7
        differences = [
            np.subtract(whole.get(key, zero), rest.get(key, zero))
            for key in whole.keys() | rest.keys()
        ]
        moved = np.array(differences, float) / scale
        assert (np.abs(moved[:, 0]) <= 1).all()
        most = np.maximum(
            most, [np.abs(moved).sum(axis=0), np.sqrt((moved**2).sum(axis=0))]
        )
    # Units of k keys; numbers and sums by k r in L1, and sqrt(k) r in L2: reached.
    assert most[0].tolist() == [k, *[k * r] * 5, k * r / 2]
    bound = np.sqrt(k) * np.array([1, *[r] * 5, r / 2])
    assert most[1] == pytest.approx(bound, rel=1e-15)
    laws = plan.mechanisms()
    assert laws["count"].sensitivity == k * r
    for name in ("x_n", "x_sum", "y_n", "y_sum"):
        assert laws[name].sensitivity == k * r * unit
    assert laws["y_squares"].sensitivity == k * r * unit / 2


def test_bounds_that_meet_in_floats_are_held_in_integers() -> None:
    low = 1e300
    bounds = (low, math.nextafter(low, math.inf))
    sql = _recipe.Recipe(
        *("rows", ("g",), ("x",), (bounds,), None, 1, 1, False, 30),
        frozenset(),
        "engine",
    ).sql()
    with DuckDB(pa.table({"g": [1, 1], "x": [-1e308, 1e308]}), None) as engine:
        total = engine.run(sql, SALT, None)
    assert abs(total["s0"].to_pylist()[0]) <= 2 * 2**30


def test_names_of_columns_are_no_names_of_ours() -> None:
    names = ['g"0', "s0", "u", "copy", "n; drop table rows", "source"]
    rows = pa.table(
        [[1, 1], [2.0, 4.0], ["a", "b"], [0, 0], ["x", "x"], [5.0, 6.0]], names=names
    )
    keys = pa.table({"copy": [0], "n; drop table rows": ["x"], 'g"0': [1]})
    plan = Plan(
        unit=Unit("u", groups=1, records=1),
        by=["copy", "n; drop table rows", 'g"0'],
        count=True,
        sum=["s0", "source"],
        bounds={"s0": (0, 8), "source": (0, 8)},
        keys=keys,
        epsilon=10**6,
    )
    found = plan.release(rows).table()
    # At this epsilon the noise stays below 1e-3 but with a probability below 1e-100.
    assert found["count"].to_pylist() == [2]
    assert found["s0_sum"].to_pylist() == pytest.approx([6], abs=1e-2)
    assert found["source_sum"].to_pylist() == pytest.approx([11], abs=1e-2)


def test_what_a_user_keeps_is_uniform() -> None:
    """Seven standard deviations: false alarms below 1e-11 each, over 5 checks."""
    n = 20_000
    users = np.repeat(np.arange(n), 10)
    values = np.tile([0.0] * 9 + [1.0], n)
    rows = pa.table({"user": users, "g": np.zeros(10 * n, int), "x": values})
    options: Any = {"unit": Unit("user", groups=1, records=1), "epsilon": 10**6}
    one = Plan(by="g", sum="x", bounds={"x": (0, 1)}, keys=[0], **options)
    # Equal values are different records: a tenth, not a half.
    (found,) = one.release(rows).values("x_sum")
    assert abs(found - n / 10) < 7 * math.sqrt(n * 0.09) + 1
    rows = pa.table({"user": np.repeat(np.arange(n), 4), "g": np.tile(range(4), n)})
    counts = Plan(by="g", count=True, keys=[0, 1, 2, 3], **options).release(rows)
    for found in counts.values("count"):
        assert abs(found - n / 4) < 7 * math.sqrt(n * 3 / 16) + 1


# ---- what is released ------------------------------------------------------------


@pytest.mark.parametrize("budget", [{"epsilon": 50}, {"rho": 50}])
def test_a_variance_costs_half_of_a_column(budget: Any) -> None:
    found = released(mean=(), count=False, variance="cost", keys=KEYS, **budget)
    assert found.plan.columns == ("cost_n", "cost_variance")
    low, high = found.interval("cost_variance", 1 - 1e-12)
    truth = np.var(np.arange(3000)[::3] % 40)  # of each town the same
    assert ((low[1:] <= truth) & (truth <= high[1:]) & (high[1:] - low[1:] < 50)).all()
    laws = found.plan.mechanisms()
    noise, squares = (laws[f"cost_{name}"] for name in ("sum", "squares"))
    assert squares.sensitivity == noise.sensitivity / 2
    if "epsilon" in budget:
        assert found.epsilon() == 50
        assert squares.scale == noise.scale
        assert noise.scale == noise.sensitivity * Fraction(5, 2) / 50
    else:
        assert 49.99 < accounting.guarantees.event_rho(found.event()) <= 50


def test_public_keys_are_all_shown_in_their_order_and_cost_what_they_say() -> None:
    found = released(keys=KEYS, epsilon=1)
    assert found.table().column_names == [
        *("town", "count", "count_low", "count_high"),
        *("cost_n", "cost_mean", "cost_mean_low", "cost_mean_high", "note"),
    ]
    assert found.table()["town"].to_pylist() == KEYS
    assert (found.unit, found.epsilon()) == ("user", 1.0)
    zcdp = released(keys=KEYS, rho=0.5)
    assert 0.4999 < accounting.guarantees.event_rho(zcdp.event()) <= 0.5
    accounting.ZCDPFilter(0.5).spend(zcdp.event())  # exactly
    row = released(unit="row", mean=(), bounds=None, keys=KEYS, epsilon=1)
    assert (row.unit, row.epsilon()) == ("row", 1.0)
    low, high = row.interval("count", 1 - 1e-12)
    assert ((low <= [0, 1000, 1000, 1000]) & (high >= [0, 1000, 1000, 1000])).all()


@pytest.mark.parametrize("budget", [{"epsilon": 30}, {"rho": 30}])
def test_keys_are_selected_for_half(budget: Any) -> None:
    found = released(delta=1e-6, **budget)
    # A key of a thousand users stays unseen with a probability below 1e-100.
    assert found.table()["town"].to_pylist() == ["t0", "t1", "t2"]
    for name, truth in (("count", 1000), ("cost_mean", 19.5)):
        low, high = found.interval(name, 1 - 1e-12)
        assert ((low - 0.1 <= truth) & (truth <= high + 0.1)).all(), name
    if "epsilon" in budget:
        assert found.epsilon(delta=1e-6) <= 30
        keys = found.plan.mechanisms()["keys"].event()
        assert 14.99 < accounting.guarantees.event_epsilon(keys, 1e-6) <= 15


UNLISTED: dict[str, Any] = {"by": "town", "delta": 1e-6}
PERSON = fastdp.Unit("user", groups=3, records=1)
MANY = fastdp.Unit("user", groups=3, records=7)
COST: dict[str, Any] = {"bounds": {"cost": (0, 50)}}


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": 0.1}])
def test_a_released_number_selects_its_groups(budget: Any) -> None:
    """A plan whose own number selects has the noise of one whose groups are listed."""
    listed: dict[str, Any] = {"by": "town", "keys": KEYS}
    for unit, asked, name in (
        (PERSON, {"units": True}, "units"),
        (MANY, {"count": True}, "count"),
        (MANY, {"mean": "cost", **COST}, "cost_n"),
        (MANY, {"std": "cost", **COST}, "cost_n"),
    ):
        plan = Plan(unit=unit, **UNLISTED, **asked, **budget)
        same = Plan(unit=unit, **listed, **asked, **budget)
        assert plan.mechanisms() == same.mechanisms()
        own = plan._noise.threshold
        assert plan.mechanisms()[name] is own.law
        # The least threshold: of one unit with all its records.
        alone = 1 if name == "units" else unit.records
        assert own.probability(alone) <= 1e-6 / 3 < own.probability(alone + 1)
        text = str(plan.accuracy())
        assert ("users with" in text) == (name == "units")
        found = plan.release(VISITS).table()
        assert found["town"].to_pylist() == ["t0", "t1", "t2"]
    # Beside others a number of units has the half that selects.
    both = Plan(unit=MANY, **UNLISTED, units=True, count=True, **budget)
    half = {name: x / 2 for name, x in budget.items()}
    for part, asked in (("units", {"units": True}), ("count", {"count": True})):
        alone = Plan(unit=MANY, **UNLISTED, **asked, **half)
        assert both.mechanisms()[part] == alone.mechanisms()[part]
    assert "keys" not in both.mechanisms()


def test_the_figures_of_a_number_of_units() -> None:
    """A group is shown from 15 units on, where a part for keys showed it from 26 on."""
    one = fastdp.Unit("user", groups=1, records=1)
    alone = Plan(unit=one, units=True, epsilon=1, **UNLISTED).accuracy()
    parts = Plan(unit=one, count=True, mean="cost", epsilon=1, **COST, **UNLISTED)
    assert alone.least_units(0.5) == 15
    assert parts.accuracy().least_units(0.5) == 26


def test_rare_keys_stay_unseen() -> None:
    rows = pa.table({"town": ["oslo"] * 1000 + [f"rare {i}" for i in range(50)]})
    plan = Plan(unit="row", by="town", count=True, epsilon=1, delta=1e-12)
    shown = plan.release(rows).table()["town"].to_pylist()
    assert shown == ["oslo"]  # but with 5e-11


def test_the_kind_of_the_source_comes_back(tmp_path: Path) -> None:
    for make, kind in (
        (VISITS.to_pandas(), pd.DataFrame),
        (pl.from_arrow(VISITS), pl.DataFrame),
        (CONNECTION.from_arrow(VISITS), duckdb.DuckDBPyRelation),
        (VISITS.to_reader(), pa.Table),
    ):
        found = released(make, keys=KEYS, epsilon=1)
        assert isinstance(found.table(), kind)
        assert isinstance(found.table(level=0.5), kind)


def test_nobody_at_all_is_no_error() -> None:
    none = VISITS.slice(0, 0)
    assert released(none, delta=1e-6, epsilon=1).table().num_rows == 0
    assert repr(released(none, delta=1e-6, epsilon=1)).startswith("town  count")
    assert released(none, keys=KEYS, epsilon=1).table().num_rows == 4


# ---- with a ledger ---------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with fastdp.ledger.create(tmp_path / "budget.db") as book:
        rule = accounting.ApproximateFilter(epsilon=9, delta=1e-5)
        book.add_budget("towns", rule, unit="user")
        yield book


@pytest.mark.parametrize(
    "how",
    [{"delta": 1e-6}, {"delta": 1e-6, "units": True}, {"keys": KEYS}],
    ids=["parts", "own number", "listed"],
)
def test_a_label_is_one_answer_and_one_charge(ledger: Any, how: Any) -> None:
    options = {**how, "epsilon": 4, "ledger": ledger, "budgets": "towns"}
    first = released(label="w47", **options)
    spent = str(ledger.budget("towns"))
    turned = VISITS.take(np.arange(3000)[::-1])
    again = released(turned, label="w47", **options)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.table().equals(first.table())
    assert str(ledger.budget("towns")) == spent
    text = first.table().schema.metadata[b"fastdp receipts"].decode()
    assert text == first.receipts_json
    other = released(label="w48", **options)
    assert not other.table().equals(first.table())
    spent = str(ledger.budget("towns"))
    changes: list[dict[str, Any]] = [
        {"unit": Unit("user", groups=2, records=1)},
        {"unit": Unit("user", groups=3, records=1, name="person")},
        {"bounds": {"cost": (0, 51)}},
        {"hash": "sha256"},
        {"unit": "row"},
        {"sum": "cost", "mean": ()},
        {"count": False},
    ]
    for change in changes:
        with pytest.raises(LabelConflictError):
            released(label="w47", **{**options, **change})
    assert str(ledger.budget("towns")) == spent


# ---- beside the release ----------------------------------------------------------


def test_sql_is_what_runs_and_reads_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(**ASK, epsilon=1, delta=1e-6)
    reader = VISITS.to_reader()
    shown = plan.sql(reader)
    assert reader.read_all().num_rows == 3000
    ran, run = [], DuckDB.run

    def told(self: DuckDB, sql: str, *rest: Any) -> Any:
        ran.append(sql)
        return run(self, sql, *rest)

    monkeypatch.setattr(DuckDB, "run", told)
    plan.release(VISITS)
    assert ran == [shown]
    for word in ("hash(hash($salt, 'group'", "<= 3", "least(greatest(", "or isnan("):
        assert word in shown


def test_progress_is_told() -> None:
    told: list[float] = []
    n = 400_000
    rows = pa.table({"town": np.arange(n) % 9, "user": np.arange(n) % 5000})
    unit = Unit("user", groups=1, records=1)
    plan = Plan(unit=unit, by="town", count=True, epsilon=1, delta=1e-6)
    plan.release(rows, progress=told.append)
    assert all(0 <= share <= 1 for share in told)


def test_tags_are_injective() -> None:
    cells = ["", "1", ":", "1:", "é"]
    tags = {
        _recipe.tag(SALT, "group", [*pair]) for pair in itertools.product(cells, cells)
    }
    assert len(tags) == len(cells) ** 2


@pytest.mark.parametrize("budget", [{"epsilon": 0.5}, {"rho": 0.1}])
def test_the_noise_is_the_stated_law_once_a_column(budget: Any) -> None:
    options: Any = {"sum": "cost", "units": True, **budget}
    found = released(keys=["t0", "t1", "t2", "t9"], stream=FixedStream("s"), **options)
    stream = FixedStream("s")
    fastdp.random.bytes(32, stream=stream)  # the salt
    laws, bits = found.plan.mechanisms(), 30
    count = np.array([1000, 1000, 1000, 0])
    units = np.zeros(4, np.int64)
    for i, cost in enumerate(VISITS["cost"].to_pylist()):
        units[i % 3] += column.row(cost, (0.0, 50.0), bits)[1]
    exact = {"count": count, "units": count, "cost_n": count << bits, "cost_sum": units}
    noisy = {n: laws[n].release(x, stream=stream) for n, x in exact.items()}
    for name in ("count", "units"):
        assert found.values(name).tolist() == noisy[name].tolist()
    records, place = (noisy[name] / 2**bits for name in ("cost_n", "cost_sum"))
    assert found.values("cost_n").tolist() == np.rint(records).astype(int).tolist()
    total = found.values("cost_sum").tolist()
    assert total == pytest.approx(records * 25 + place * 25, rel=1e-12)
    if "epsilon" in budget:  # units, count, n and sum have a quarter each, of k r = 3
        assert laws["count"].scale == laws["units"].scale == 24
        assert laws["cost_sum"].scale == 24 * 2**bits
    again = found.values("count")
    again[:] = 0
    assert found.values("count").tolist() == noisy["count"].tolist()


def test_a_histogram_selects_the_keys_that_it_releases() -> None:
    counts = np.arange(-5, 60)
    m = fastdp.UnknownHistogram.from_rho_delta(rho=0.1, delta=1e-6, keys_per_user=2)
    shown, _ = m.release(np.arange(6, 65), counts[counts > 0], stream=FixedStream("s"))
    mask = m.select(counts[counts > 0], stream=FixedStream("s"))
    assert np.flatnonzero(mask).tolist() == [key - 6 for key in shown]
    assert not m.select(np.full(1000, -(2**40))).any()
    assert not m.select(np.zeros(100_000, int)).any()  # whatever the noise


def test_bools_and_wide_integers_are_numbers() -> None:
    rows = CONNECTION.sql(
        "select 1 as g, true as b, 2::hugeint ** 100 as h, 1.5::decimal(9, 2) as d, "
        "18446744073709551615::ubigint as w, "
        "170141183460469231731687303715884105727::hugeint as v from range(100)"
    )
    names = ["b", "h", "d", "w", "v"]
    plan = Plan(
        unit="row",
        by="g",
        mean=names,
        bounds=dict.fromkeys(names, (0, 2)),
        keys=[1],
        epsilon=10**6,
    )
    read = pa.table(plan.release(rows).table()).to_pydict()
    # Scales of 1e-5 a column: beyond 0.01 but with a probability below 1e-100.
    wanted = {"b": 1, "h": 2, "d": 1.5, "w": 2, "v": 2}
    assert {n: read[f"{n}_mean"][0] for n in names} == pytest.approx(wanted, abs=0.01)


def test_a_budget_is_looked_at_before_a_record_is_read(ledger: Any) -> None:
    boom = VISITS.to_reader()
    charge = {"ledger": ledger, "label": "w", "budgets": "towns", "keys": KEYS}
    for change, error, message in (
        ({"epsilon": 10}, BudgetExceededError, "does not cover"),
        ({"rho": 9}, BudgetExceededError, "does not cover"),
        ({"epsilon": 1, "unit": "row"}, UnitMismatchError, "this release is per 'row'"),
    ):
        with pytest.raises(error, match=message):
            released(boom, **{**charge, **change})
    assert boom.read_all().num_rows == 3000
    assert ledger.audit().labels == 0
    rows = fastdp.Rows("user")
    assert released(**{**charge, "epsilon": 1, "unit": rows}).unit == "user"
