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
    DTypeError,
    FastDPError,
    LabelConflictError,
    ParameterError,
    UnitMismatchError,
)
from fastdp.frames import _recipe
from fastdp.frames._duckdb import DuckDB
from fastdp.testing import FixedStream
from tests.frames.hostile import ROWS, SALT, USERS, plan_of, reference, table_of, totals
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

VISITS = pa.table(
    {
        "user": [i // 3 for i in range(3000)],
        "town": [f"t{i % 3}" for i in range(3000)],
        "cost": [float(i % 40) for i in range(3000)],
    }
)
KEYS = ["t9", "t0", "t1", "t2"]
ASK: dict[str, Any] = {
    "unit": Unit("user", groups=3, records=1),
    "by": "town",
    "count": True,
    "mean": "cost",
    "bounds": {"cost": (0, 50)},
}


def released(source: Any = VISITS, **options: Any) -> Any:
    where = ("ledger", "label", "budgets", "memory", "progress", "stream")
    own = {name: options.pop(name) for name in where if name in options}
    return Plan(**{**ASK, **options}).release(source, **own)


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


# ---- refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": None}, "delta must be given for by without keys"),
        ({"keys": KEYS}, "delta must be left out if all groups are public"),
        (
            {"by": (), "unit": "row"},
            "delta must be left out if all groups are public",
        ),
        ({"by": (), "unit": "row", "delta": None, "keys": KEYS}, "keys requires by"),
        ({"rho": 1}, "exactly one of epsilon and rho"),
        ({"by": "nowhere"}, "no column 'nowhere'; its columns are user, town"),
        ({"by": "cost", "mean": ()}, "bounds must be for a column"),
        (
            {"by": "cost", "mean": (), "bounds": None},
            "key 'cost' must not have",
        ),
        ({"count": False, "mean": (), "bounds": None}, "give at least one of count"),
        ({"bounds": None}, "bounds must be given for 'cost'"),
        ({"bounds": {"cost": (5, 1)}}, "low < high"),
        ({"bounds": {"cost": (0, 1), "town": (0, 1)}}, "not 'town'"),
        ({"mean": "town", "bounds": {"town": (0, 1)}}, "must differ"),
        ({"mean": "user", "bounds": {"user": (0, 1)}}, "must differ"),
        (
            {"unit": None},
            r"unit must be given: Unit\(\"person\", groups=2, records=5\)",
        ),
        ({"unit": "user"}, r"Unit\('user', groups=..., records=...\)"),
        ({"unit": 3}, "unit must be a Unit, Rows"),
        ({"unit": Unit("user", records=2)}, "groups must be given in the unit with by"),
        (
            {"unit": Unit("user", groups=2, records=2), "by": (), "delta": None},
            "groups must be left out of the unit without by",
        ),
        (
            {"unit": Unit("cost", groups=1, records=1), "mean": (), "bounds": None},
            "user 'cost' must not have",
        ),
        ({"hash": "md5"}, "hash must be one of"),
        ({"memory": "much"}, "memory must be a size"),
        ({"label": "x"}, "require a ledger"),
        ({"keys": ["a", "a"], "delta": None}, "without duplicates"),
        ({"keys": ["a", None], "delta": None}, "without duplicates"),
        ({"keys": [], "delta": None}, "without duplicates"),
        ({"keys": ["a", 1], "delta": None}, "keys must hold columns of one Arrow type"),
        ({"keys": {"t": ["a"]}, "delta": None}, "a dict with a list for each of town"),
        ({"keys": pa.table({"t": ["a"]}), "delta": None}, "keys has no column"),
    ],
)
def test_refusals(change: Any, message: str) -> None:
    with pytest.raises((DTypeError, ParameterError), match=message):
        released(**{"epsilon": 1, "delta": 1e-6, **change})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Unit("person"), "records must be given with a unit: at most how many"),
        (lambda: Unit("person", records=0), "records must be"),
        (lambda: Unit("person", records=1, groups=0), "groups must be"),
        (lambda: Unit("person", records=1, name=""), "name must be"),
        (lambda: Unit("row", records=1), 'name must not be "row"'),
        (lambda: Unit(3, records=1), "column must be a str"),  # type: ignore[arg-type]
        (lambda: fastdp.Rows(""), "name must be"),
    ],
)
def test_units_that_are_none(call: Any, message: str) -> None:
    with pytest.raises((DTypeError, ParameterError), match=message):
        call()


def test_public_keys_of_another_type_are_refused() -> None:
    rows = pa.table({"town": [1, 2]})
    plan = Plan(unit="row", by="town", count=True, keys=KEYS, epsilon=1)
    with pytest.raises(ParameterError, match="types of the columns"):
        plan.release(rows)


@pytest.mark.parametrize(
    "source", ["visits.csv", "missing.parquet", "broken.parquet", [1], None]
)
def test_sources_that_are_none(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = "jane doe 1961"
    for name in ("visits.csv", "broken.parquet"):
        Path(name).write_text(f"user,town,cost\n{secret},x,1\n")
    with pytest.raises(FastDPError) as raised:
        released(source, epsilon=1, delta=1e-6)
    assert secret not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_lazy_frames_are_told_to_collect() -> None:
    lazy = pl.from_arrow(VISITS).lazy()
    with pytest.raises(DTypeError, match="collect"):
        released(lazy, epsilon=1, delta=1e-6)


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


# ---- missing values, and all records -----------------------------------------------

SPARSE = pa.table(
    {
        "who": ["a", "a", "b", None, "c", "d"] * 100,
        "town": ["t0", "t0", "t0", "t0", None, "t1"] * 100,
        "x": [1.0, None, math.nan, 5.0, 5.0, math.inf] * 100,
        "y": [None, None, None, 1, 1, None] * 100,
    }
)
SURE: Any = {"epsilon": 10**6, "by": "town", "keys": ["t1", "t0"]}


def test_a_missing_value_leaves_out_its_own_statistic_alone() -> None:
    """At this epsilon noise is below 0.01 but with a probability below 1e-100."""
    options: Any = {"bounds": {"x": (0, 4), "y": (0, 1)}, **SURE}
    plan = Plan(unit="row", count=True, mean="x", sum="y", **options)
    found = plan.release(SPARSE).table().to_pydict()
    assert found["town"] == ["t1", "t0"]
    assert found["count"] == [100, 400]
    assert found["x_n"] == [100, 200]
    assert found["x_mean"] == pytest.approx([4, 2.5], abs=0.01)
    assert found["y_sum"] == pytest.approx([0, 100], abs=0.01)
    # Other requests change neither the count nor the choice of records.
    people = Plan(
        unit=Unit("who", groups=2, records=1000), count=True, units=True, **SURE
    )
    found = people.release(SPARSE).table().to_pydict()
    assert found["count"] == [100, 300]
    assert found["units"] == [1, 2]


def test_a_mean_of_nobody_is_null_and_a_wide_one_is_noted() -> None:
    options: Any = {"unit": "row", "mean": "x", "bounds": {"x": (0, 4)}, "by": "town"}
    found = Plan(keys=["none", "t0"], epsilon=10**6, **options).release(SPARSE)
    assert found.table().to_pydict()["x_mean"][0] is None
    assert found.table().to_pydict()["note"] == ["wide: x_mean", ""]
    shown = repr(found).splitlines()
    assert shown[0].split() == ["town", *found.table().column_names[1:]]
    assert shown[1].split()[:2] == ["none", "0"]


def test_without_by_all_records_are_one_group() -> None:
    plan = Plan(
        unit=Unit("who", records=1000),
        count=True,
        units=True,
        sum="x",
        std="y",
        bounds={"x": (-2, 4), "y": (0, 1)},
        epsilon=10**6,
    )
    (row,) = plan.release(SPARSE).table().to_pylist()
    assert (row["count"], row["units"], row["y_n"]) == (500, 4, 100)
    assert row["x_sum"] == pytest.approx(100 + 500 - 100 + 400, abs=0.1)
    assert row["y_std"] == pytest.approx(0, abs=0.1)
    empty = plan.release(SPARSE.slice(0, 0)).table().to_pylist()
    assert [one["count"] for one in empty] == [0]


def test_a_dict_of_lists_is_each_key_with_each() -> None:
    keys = {"town": ["t1", "t0"], "who": ["b", "a"]}
    plan = Plan(unit="row", count=True, **{**SURE, "by": ["who", "town"], "keys": keys})
    found = plan.release(SPARSE).table().to_pydict()
    assert list(zip(found["who"], found["town"], strict=True)) == [
        *(("b", "t1"), ("b", "t0"), ("a", "t1"), ("a", "t0")),
    ]
    assert found["count"] == [0, 100, 0, 200]


# ---- cost and accuracy, before the draw ----------------------------------------------


@pytest.mark.parametrize("budget", [{"epsilon": 0.7}, {"rho": 0.02}])
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_the_accuracy_is_that_of_the_intervals(budget: Any, delta: Any) -> None:
    keys = KEYS if delta is None else None
    options: Any = {
        "units": True,
        "sum": ["cost", "user"],
        "keys": keys,
        "delta": delta,
    }
    bounds = {"cost": (0, 50), "user": (-5, 900)}
    unit = Unit("who", groups=3, records=2)
    plan = Plan(
        **{**ASK, **options, "bounds": bounds, "unit": unit, "std": "cost"}, **budget
    )
    rows = {row["column"]: row for row in plan.accuracy(0.99).rows()}
    assert tuple(rows) == plan.columns
    who = pa.array([i // 3 for i in range(3000)])
    found = plan.release(VISITS.append_column("who", who), stream=FixedStream("s"))
    for name in ("count", "units", "cost_n", "cost_sum", "user_sum"):
        low, high = found.interval(name, 0.99)
        middle = found.values(name)
        reach = max((high - middle).max(), (middle - low).max())
        slack = 1 if name in ("count", "units", "cost_n") else 1e-6 * reach
        assert abs(rows[name]["within"] - reach) <= slack, name
    accuracy = plan.accuracy()
    assert (accuracy.least_units(0.5) is None) == (delta is None)
    if delta is not None:
        least, law = accuracy.least_units(0.5), plan._noise.threshold
        assert law.probability(least) >= 0.5 > law.probability(least - 1)
    text = str(accuracy)
    assert "for one who; kept: at most 3 groups and 2 records in each" in text
    assert len(text.splitlines()) == len(plan.columns) + 3


def test_what_is_published_says_how_it_was_made() -> None:
    said = Plan(**ASK, keys=KEYS, rho=0.1).describe()
    for words in (
        "Number of records and mean of cost by town (groups listed in advance).",
        "zero-concentrated differential privacy (rho 0.1) for one user, added or",
        "Of each user at most 3 groups and 1 record in each were kept",
        "Values of cost were limited to 0 to 50; a record without a value is counted",
        "Noise: discrete Gaussian, standard deviation 6.708 of count",
    ):
        assert words in said
    assert "group" not in Plan(unit="row", count=True, epsilon=1).describe()


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
