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
from fastdp import accounting, frames
from fastdp.exceptions import (
    DTypeError,
    FastDPError,
    LabelConflictError,
    ParameterError,
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

#: DuckDB up to 1.4 closes a connection of which only relations are left.
CONNECTION = duckdb.connect()


def exact(source: Any, **options: Any) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """Return what the recipe gives before the noise."""
    with DuckDB(source, None) as engine:
        return totals(plan_of(**options), engine)


# ---- before the noise ------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "variance"),
    [((), ()), (("x",), ()), (("x", "y"), ("y",)), (("x", "y"), ("x", "y"))],
)
@pytest.mark.parametrize(
    ("user", "kept"), [("user", (2, 3)), ("user", (9, 1)), (None, 0)]
)
def test_the_recipe_is_the_reference_on_hostile_rows(
    values: Any, variance: Any, user: Any, kept: Any
) -> None:
    options: Any = {"user": user, "kept": kept, "variance": variance}
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
    unit = 2**plan.bits
    whole = exact(table_of(ROWS), **options)
    most = np.zeros((2, 5))
    for user in filter(None, [*USERS, "full"]):
        rest = exact(table_of([row for row in ROWS if row["user"] != user]), **options)
        zero = (0,) * 5
        moved = np.array(
            [
                np.subtract(whole.get(key, zero), rest.get(key, zero))
                for key in whole.keys() | rest.keys()
            ],
            float,
        ) / np.array([1, 1, unit, unit, unit])
        assert (np.abs(moved[:, 0]) <= 1).all()
        most = np.maximum(
            most, [np.abs(moved).sum(axis=0), np.sqrt((moved**2).sum(axis=0))]
        )
    # Users of k keys; counts and sums by k r in L1, and sqrt(k) r in L2: reached.
    assert most[0].tolist() == [k, k * r, k * r, k * r, k * r / 2]
    bound = np.sqrt(k) * np.array([1, r, r, r, r / 2])
    assert most[1] == pytest.approx(bound, rel=1e-15)
    assert float(plan.law.sensitivity) == k * r * unit
    assert float(plan.square_law.sensitivity) == k * r * unit / 2


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
    found = frames.aggregate(
        rows,
        by=["copy", "n; drop table rows", 'g"0'],
        count=True,
        sum=["s0", "source"],
        bounds={"s0": (0, 8), "source": (0, 8)},
        user="u",
        keys=keys,
        epsilon=10**6,
        ledger=None,
    ).frame
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
    options: Any = {"user": "user", "epsilon": 10**6, "ledger": None}
    one = frames.aggregate(
        rows,
        by="g",
        sum="x",
        bounds={"x": (0, 1)},
        keys=pa.table({"g": [0]}),
        **options,
    )
    # Equal values are different records: a tenth, not a half.
    assert abs(one.frame["x_sum"][0].as_py() - n / 10) < 7 * math.sqrt(n * 0.09) + 1
    rows = pa.table({"user": np.repeat(np.arange(n), 4), "g": np.tile(range(4), n)})
    keys = pa.table({"g": range(4)})
    counts = frames.aggregate(rows, by="g", count=True, keys=keys, **options).frame
    for found in counts["count"].to_pylist():
        assert abs(found - n / 4) < 7 * math.sqrt(n * 3 / 16) + 1


# ---- what is released ------------------------------------------------------------

VISITS = pa.table(
    {
        "user": [i // 3 for i in range(3000)],
        "town": [f"t{i % 3}" for i in range(3000)],
        "cost": [float(i % 40) for i in range(3000)],
    }
)
KEYS = pa.table({"town": ["t9", "t0", "t1", "t2"]})
ASK: dict[str, Any] = {
    "by": "town",
    "count": True,
    "mean": "cost",
    "bounds": {"cost": (0, 50)},
    "user": "user",
    "groups_per_user": 3,
    "ledger": None,
}


@pytest.mark.parametrize("budget", [{"epsilon": 50}, {"rho": 50}])
def test_a_variance_costs_half_of_a_column(budget: Any) -> None:
    ask = {**ASK, "mean": (), "variance": "cost", "keys": KEYS, **budget}
    found = frames.aggregate(VISITS, **ask)
    assert found.frame.column_names == ["town", "count", "cost_variance"]
    low, high = found.interval("cost_variance", 1 - 1e-12)
    truth = np.var(np.arange(3000)[::3] % 40)  # of each town the same
    assert ((low[:3] <= truth) & (truth <= high[:3]) & (high[:3] - low[:3] < 50)).all()
    noise, squares = (found.mechanisms[name] for name in ("noise", "squares"))
    assert squares.sensitivity == noise.sensitivity / 2
    if "epsilon" in budget:
        assert found.epsilon() == 50
        assert squares.scale == noise.scale
        assert noise.scale == noise.sensitivity * Fraction(5, 2) / 50
    else:
        assert 49.99 < accounting.guarantees.event_rho(found.event) <= 50


def test_public_keys_are_all_shown_and_cost_what_they_say() -> None:
    found = frames.aggregate(VISITS, keys=KEYS, epsilon=1, **ASK)
    assert found.frame.column_names == ["town", "count", "cost_mean"]
    assert found.frame["town"].to_pylist() == ["t0", "t1", "t2", "t9"]
    assert (found.unit, found.epsilon(), found.shares) == ("user", 1.0, None)
    zcdp = frames.aggregate(VISITS, keys=KEYS, rho=0.5, **ASK)
    assert 0.4999 < accounting.guarantees.event_rho(zcdp.event) <= 0.5
    row = frames.aggregate(
        VISITS, by="town", count=True, keys=KEYS, epsilon=1, ledger=None
    )
    assert (row.unit, row.epsilon()) == ("row", 1.0)
    low, high = row.interval("count", 1 - 1e-12)
    assert ((low <= [1000, 1000, 1000, 0]) & (high >= [1000, 1000, 1000, 0])).all()


@pytest.mark.parametrize("budget", [{"epsilon": 30}, {"rho": 30}])
def test_keys_are_selected_for_half(budget: Any) -> None:
    rows = pa.concat_tables([VISITS, pa.table({**VISITS.slice(0, 1).to_pydict()})])
    found = frames.aggregate(rows, delta=1e-6, **budget, **ASK)
    # A key of a thousand users stays unseen with a probability below 1e-100.
    assert found.frame["town"].to_pylist() == ["t0", "t1", "t2"]
    half = 15.0
    assert found.shares == {"keys": half, "statistics": half}
    for name, truth in (("count", 1000), ("cost_mean", 19.5)):
        low, high = found.interval(name, 1 - 1e-12)
        assert ((low - 0.1 <= truth) & (truth <= high + 0.1)).all(), name
    if "epsilon" in budget:
        assert found.epsilon(delta=1e-6) <= 30


def test_rare_keys_stay_unseen() -> None:
    rows = pa.table({"town": ["oslo"] * 1000 + [f"rare {i}" for i in range(50)]})
    found = frames.aggregate(
        rows, by="town", count=True, epsilon=1, delta=1e-12, ledger=None
    )
    assert found.frame["town"].to_pylist() == ["oslo"]  # but with 5e-11


def test_the_kind_of_the_source_comes_back(tmp_path: Path) -> None:
    options = {**ASK, "keys": KEYS, "epsilon": 1}
    for make, kind in (
        (VISITS.to_pandas(), pd.DataFrame),
        (pl.from_arrow(VISITS), pl.DataFrame),
        (CONNECTION.from_arrow(VISITS), duckdb.DuckDBPyRelation),
        (VISITS.to_reader(), pa.Table),
    ):
        assert isinstance(frames.aggregate(make, **options).frame, kind)


def test_nobody_at_all_is_no_error() -> None:
    none = VISITS.slice(0, 0)
    assert frames.aggregate(none, delta=1e-6, epsilon=1, **ASK).frame.num_rows == 0
    assert frames.aggregate(none, keys=KEYS, epsilon=1, **ASK).frame.num_rows == 4


# ---- with a ledger ---------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with fastdp.ledger.create(tmp_path / "budget.db") as book:
        rule = accounting.ApproximateFilter(epsilon=9, delta=1e-5)
        book.add_budget("towns", rule, unit="person")
        yield book


@pytest.mark.parametrize("selected", [True, False])
def test_a_label_is_one_answer_and_one_charge(ledger: Any, selected: bool) -> None:
    how = {"delta": 1e-6} if selected else {"keys": KEYS}
    options = {**ASK, **how, "epsilon": 4, "ledger": ledger, "budgets": "towns"}
    first = frames.aggregate(VISITS, label="w47", **options)
    spent = str(ledger.budget("towns"))
    turned = VISITS.take(np.arange(3000)[::-1])
    again = frames.aggregate(turned, label="w47", **options)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.frame.equals(first.frame)
    assert str(ledger.budget("towns")) == spent
    text = first.frame.schema.metadata[b"fastdp receipts"].decode()
    assert text == first.receipts_json
    other = frames.aggregate(VISITS, label="w48", **options)
    assert not other.frame.equals(first.frame)
    changes: list[dict[str, Any]] = [
        {"groups_per_user": 2},
        {"bounds": {"cost": (0, 51)}},
        {"hash": "sha256"},
        {"user": None, "groups_per_user": None},
    ]
    for change in changes:
        with pytest.raises(LabelConflictError):
            frames.aggregate(VISITS, label="w47", **{**options, **change})


# ---- refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": None}, "delta must be given"),
        ({"keys": KEYS}, "delta goes with by="),
        ({"rho": 1}, "exactly one of epsilon and rho"),
        ({"by": []}, "by must name"),
        ({"by": "nowhere"}, "must have one column 'nowhere'"),
        ({"by": "cost", "mean": ()}, "bounds are of a column"),
        ({"by": "cost", "mean": (), "bounds": None}, "key 'cost' has a type"),
        ({"count": False, "mean": (), "bounds": None}, "at least one of"),
        ({"bounds": None}, "bounds must be given for 'cost'"),
        ({"bounds": {"cost": (5, 1)}}, "low < high"),
        ({"bounds": {"cost": (0, 1), "town": (0, 1)}}, "not 'town'"),
        ({"mean": "town", "bounds": {"town": (0, 1)}}, "must differ"),
        ({"mean": "user", "bounds": {"user": (0, 1)}}, "must differ"),
        ({"user": "cost", "mean": (), "bounds": None}, "user 'cost' has a type"),
        ({"user": None}, "groups_per_user goes with user"),
        ({"hash": "md5"}, "hash must be one of"),
        ({"memory_limit": "much"}, "memory_limit must be a size"),
        ({"label": "x"}, "require a ledger"),
        ({"most_rows": 0}, "most_rows"),
        ({"keys": pa.table({"town": ["a", "a"]}), "delta": None}, "none twice"),
        ({"keys": pa.table({"town": ["a", None]}), "delta": None}, "none twice"),
        ({"keys": pa.table({"t": ["a"]}), "delta": None}, "keys must have one column"),
    ],
)
def test_refusals(change: Any, message: str) -> None:
    options = {**ASK, "epsilon": 1, "delta": 1e-6, **change}
    with pytest.raises((DTypeError, ParameterError), match=message):
        frames.aggregate(VISITS, **options)


def test_public_keys_of_another_type_are_refused() -> None:
    rows = pa.table({"town": [1, 2]})
    with pytest.raises(ParameterError, match="types of the columns"):
        frames.aggregate(rows, by="town", count=True, keys=KEYS, epsilon=1, ledger=None)


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
        frames.aggregate(source, **{**ASK, "epsilon": 1, "delta": 1e-6})
    assert secret not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_lazy_frames_are_told_to_collect() -> None:
    lazy = pl.from_arrow(VISITS).lazy()
    with pytest.raises(DTypeError, match="collect it"):
        frames.aggregate(lazy, **{**ASK, "epsilon": 1, "delta": 1e-6})


def test_explain_is_what_runs_and_reads_no_record() -> None:
    options = {n: v for n, v in ASK.items() if n not in ("ledger", "count")}
    reader = VISITS.to_reader()
    shown = frames.explain(reader, epsilon=1, delta=1e-6, **options)
    assert reader.read_all().num_rows == 3000
    found = frames.aggregate(VISITS, epsilon=1, delta=1e-6, **ASK)
    assert found.recipe == shown
    for word in ("hash(hash($salt, 'group'", "<= 3", "least(greatest(", "not isnan"):
        assert word in shown


def test_progress_is_told() -> None:
    told: list[float] = []
    n = 400_000
    rows = pa.table({"town": np.arange(n) % 9, "user": np.arange(n) % 5000})
    frames.aggregate(
        rows,
        by="town",
        count=True,
        user="user",
        epsilon=1,
        delta=1e-6,
        ledger=None,
        progress=told.append,
    )
    assert all(0 <= share <= 1 for share in told)


def test_tags_are_injective() -> None:
    cells = ["", "1", ":", "1:", "é"]
    tags = {
        _recipe.tag(SALT, "group", [*pair]) for pair in itertools.product(cells, cells)
    }
    assert len(tags) == len(cells) ** 2


@pytest.mark.parametrize("budget", [{"epsilon": 0.5}, {"rho": 0.1}])
def test_the_noise_is_the_stated_law_once_a_column(budget: Any) -> None:
    found = frames.aggregate(
        VISITS, keys=KEYS, sum="cost", stream=FixedStream("s"), **budget, **ASK
    )
    stream = FixedStream("s")
    fastdp.random.bytes(32, stream=stream)  # the salt
    law = found.mechanisms["noise"]
    bits = 30
    count = np.array([1000, 1000, 1000, 0])
    units = np.zeros(4, np.int64)
    for i, cost in enumerate(VISITS["cost"].to_pylist()):
        units[i % 3] += column.row(cost, (0.0, 50.0), bits)[1]
    noisy = [law.release(x, stream=stream) for x in (count << bits, units)]
    records, place = (values / 2**bits for values in noisy)
    assert found.frame["count"].to_pylist() == np.rint(records).astype(int).tolist()
    total = found.frame["cost_sum"].to_pylist()
    assert total == pytest.approx(records * 25 + place * 25, rel=1e-12)
    assert found.std == law.std / 2**bits


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
    found = frames.aggregate(
        rows,
        by="g",
        mean=names,
        bounds=dict.fromkeys(names, (0, 2)),
        keys=pa.table({"g": [1]}),
        epsilon=10**6,
        ledger=None,
    ).frame
    read = pa.table(found).to_pydict()
    # Scales of 1e-5 a column: beyond 0.01 but with a probability below 1e-100.
    wanted = {"b": 1, "h": 2, "d": 1.5, "w": 2, "v": 2}
    assert {n: read[f"{n}_mean"][0] for n in names} == pytest.approx(wanted, abs=0.01)
