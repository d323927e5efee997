"""Whole plans: their law on small datasets, for all neighbors, and planted faults.

The engine adds up the records of each dataset. What is released of the totals is run
with every draw replaced by one of its outcomes, one run for each sequence of outcomes.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

import fastdp
from fastdp.accounting.guarantees import event_delta
from fastdp.frames import _recipe
from fastdp.mechanisms import KeySelection
from fastdp.mechanisms.noise.integer import Integer
from fastdp.tables import _noise, _plan, _run
from tests.privacy.test_groups_law import Outcomes, free

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

pytestmark = pytest.mark.rest

Rows = tuple[tuple[str | None, float | None], ...]

#: All records of the unit that one dataset has and the other has not.
PEOPLE: list[Rows] = [
    (("a", None),),
    ((None, 1.0), ("b", math.nan)),
    (("a", 1.0), ("a", 1.0)),
    (("a", -1.0), ("b", -1.0)),
    (("a", 1.0), ("a", 1.0), ("a", 1.0), ("b", 1.0), ("b", 1.0)),
]
#: The units that both have, with a row each.
OTHERS: tuple[Rows, ...] = ((("b", 1.0),), (("a", -1.0),), (("a", None),))
SCHEMA = pa.schema({"who": pa.int64(), "town": pa.string(), "x": pa.float64()})
#: Beyond the sums of floats and the room that accountants leave.
SLACK = 1e-9


class Case:
    """A plan; `law` gives that of what it releases of a dataset."""

    def __init__(self, **words: Any) -> None:
        self.plan = fastdp.Plan(
            **{"unit": fastdp.Unit("who", groups=2, records=2), "by": "town", **words}
        )
        self.event = self.plan.event()
        self.laws: dict[Any, dict[Any, float]] = {}
        self.known: dict[Any, _run.Totals] = {}
        self.used = 0.0  # the largest part of what is allowed
        self.own = self.plan._noise.threshold
        parted = self.plan._noise.unlisted and self.own is None
        self.selection = self.plan._noise.selection() if parted else None

    def totals(self, dataset: tuple[Rows, ...]) -> _run.Totals:
        if dataset in self.known:
            return self.known[dataset]
        rows = [
            {"who": i, "town": town, "x": x}
            for i, person in enumerate(dataset)
            for town, x in person
        ]
        table = pa.Table.from_pylist(rows, SCHEMA)
        with _run.engine_of(self.plan, table, None, None) as engine:
            sql = self.plan._recipe(engine).sql()
            found = _run.Totals(self.plan, engine.run(sql, "salt", None))
        self.known[dataset] = found
        return found

    def law(self, monkeypatch: pytest.MonkeyPatch, dataset: Any) -> dict[Any, float]:
        totals = self.totals(dataset)
        sums = tuple((n, *x.ravel().tolist()) for n, x in totals._sums.items())
        exact = (*map(str, rows_of(totals._keys)), *sums)
        if exact not in self.laws:
            outcomes = Outcomes()
            with monkeypatch.context() as patch:
                noise = outcomes.noise(width, lambda _: (-1, 2))
                if self.own is not None:  # what is not shown is one cell
                    near = self.own.above // width(self.own.law)
                    other, own = noise, self.own.law
                    shows = outcomes.noise(width, lambda _: (near - 1, near + 3))

                    def noise(m: Any, x: Any, **_: Any) -> Any:
                        return shows(m, x) if m is own else other(m, x)

                patch.setattr(Integer, "release", noise)
                patch.setattr(KeySelection, "select", free(outcomes.selected))
                if self.selection is not None:
                    patch.setattr(_noise.Noise, "selection", lambda _: self.selection)

                def run() -> Any:
                    keys, noisy = totals.drawn(None)
                    shown = tuple(map(str, rows_of(keys)))
                    return shown, *(tuple(x.ravel().tolist()) for x in noisy)

                self.laws[exact] = outcomes.law(run)
        return self.laws[exact]


def rows_of(keys: dict[str, Any]) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in keys.values()), strict=True))


def width(law: Any) -> int:
    """A record, in the steps of the noise; of squares half of one."""
    moved = math.isqrt(math.ceil(law.sensitivity**2))
    return 1 if moved < 2**20 else 2 ** (moved.bit_length() - 3)


def excess(
    case: Case,
    monkeypatch: pytest.MonkeyPatch,
    stated: Any = None,
    others: tuple[Rows, ...] = OTHERS,
) -> float:
    """Return the largest excess of a hockey stick over what the event allows."""
    event = stated or case.event
    allowed = {e: event_delta(event, e) for e in (0.5, 1.0)}
    worst = -math.inf
    rows = [((key, x),) for person in PEOPLE for key, x in person]
    people = rows[1:4] if case.plan.unit == fastdp.Rows() else PEOPLE
    for person in people:
        laws = [case.law(monkeypatch, d) for d in (others, (person, *others))]
        for (p, q), (e, delta) in itertools.product(
            (laws, laws[::-1]), allowed.items()
        ):
            grown = math.exp(e)
            gap = math.fsum(
                max(chance - grown * q.get(o, 0.0), 0.0) for o, chance in p.items()
            )
            worst = max(worst, gap - delta)
            case.used = max(case.used, gap / max(delta, SLACK))
    return worst


LISTED: dict[str, Any] = {"keys": ["b", "a"], "epsilon": 1}
X: dict[str, Any] = {"bounds": {"x": (-1, 1)}}
ONE_TOWN: dict[str, Any] = {"keys": ["a"], "epsilon": 1}
CASES: dict[str, Any] = {
    "count": lambda: Case(count=True, **LISTED),
    "count of rows": lambda: Case(count=True, unit="row", **LISTED),
    "count and units": lambda: Case(count=True, units=True, **LISTED),
    "count, rho": lambda: Case(count=True, keys=["b", "a"], rho=0.5),
    "mean": lambda: Case(mean="x", **X, **LISTED),
    "sum": lambda: Case(sum="x", count=True, **X, **LISTED),
    "mean and count": lambda: Case(mean="x", count=True, **X, **ONE_TOWN),
    "std": lambda: Case(std="x", **X, **ONE_TOWN),
    "histogram": lambda: Case(histogram={"x": [-1, 0, 1]}, **LISTED),
    "histogram and count": lambda: Case(
        histogram={"x": [-1, 0, 1]}, count=True, **ONE_TOWN
    ),
    "median": lambda: Case(median="x", cells=4, **X, **LISTED),
    "quantiles of rows": lambda: Case(
        quantiles={"x": [0.1, 0.9]}, cells=4, unit="row", **X, **LISTED
    ),
    "median, rho": lambda: Case(  # a tree of two levels
        median="x", cells=3, keys=["a"], rho=0.5, **X
    ),
    "unlisted median": lambda: Case(median="x", cells=2, epsilon=1, delta=0.05, **X),
    "all records": lambda: Case(
        unit=fastdp.Unit("who", records=2),
        by=(),
        **{"mean": "x", "units": True, "epsilon": 1, **X},
    ),
    "unlisted count": lambda: Case(count=True, epsilon=1, delta=0.05),
    "unlisted sum": lambda: Case(sum="x", epsilon=1, delta=0.05, **X),
    "unlisted units": lambda: Case(units=True, epsilon=1, delta=0.05),
    "unlisted units of rows": lambda: Case(
        units=True, unit="row", epsilon=1, delta=0.05
    ),
    "unlisted units and count": lambda: Case(
        units=True, count=True, epsilon=1, delta=0.05
    ),
    "unlisted units and sum, rho": lambda: Case(
        units=True, sum="x", rho=0.5, delta=0.05, **X
    ),
    "unlisted units, rho": lambda: Case(units=True, rho=0.5, delta=0.05),
    "unlisted mean": lambda: Case(mean="x", epsilon=1, delta=0.05, **X),
    "unlisted std of rows": lambda: Case(
        std="x", unit="row", epsilon=1, delta=0.05, **X
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_neighbors_are_told_apart_by_more_than_the_event(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]()
    assert excess(case, monkeypatch) <= SLACK
    assert excess(case, monkeypatch, others=()) <= SLACK
    assert all(abs(sum(law.values()) - 1) < 1e-9 for law in case.laws.values())
    assert case.used > 0.1  # what is allowed is no idle statement


# ---- planted faults ----------------------------------------------------------------


def of_one(patch: pytest.MonkeyPatch) -> None:
    """Noise for one group, where units are in two."""
    init = _noise.Noise.__init__

    def wrong(self: Any, budget: Any, kept: Any, **words: Any) -> None:
        init(self, budget, (1, kept[1]), **words)

    patch.setattr(_noise.Noise, "__init__", wrong)


def unbounded(patch: pytest.MonkeyPatch) -> None:
    """Three records of a unit are kept, where the noise is for two."""
    kept = _recipe.Recipe._kept

    def wrong(self: Any) -> Any:
        object.__setattr__(self, "records", 3)
        return kept(self)

    patch.setattr(_recipe.Recipe, "_kept", wrong)


def one_less(patch: pytest.MonkeyPatch) -> None:
    """A group is shown by a number that is smaller by one."""
    least = _noise.least_threshold
    patch.setattr(_noise, "least_threshold", lambda *rest: least(*rest) - 1)


def of_one_record(patch: pytest.MonkeyPatch) -> None:
    """The threshold is for one record, where units have two."""
    least = _noise.least_threshold
    patch.setattr(
        _noise,
        "least_threshold",
        lambda law, delta, r, one=1: least(law, delta, 1, one),
    )


def by_records(patch: pytest.MonkeyPatch) -> None:
    """Groups are selected by records, not by units."""
    patch.setattr(
        _run.Totals,
        "selection",
        lambda self: (self._plan._noise.selection(), self._sums["n"]),
    )


def absent_is_added(patch: pytest.MonkeyPatch) -> None:
    """What stands for a missing value is added, as if it were one."""
    patch.setattr(_recipe.Recipe, "_present", lambda self, i, number: f"3 * ({number})")


def unweighted(patch: pytest.MonkeyPatch) -> None:
    """A mean has two sums, and noise for one."""
    moved = {**_noise._MOVED, "mean": _noise._MOVED["sum"]}
    patch.setattr(_noise, "_MOVED", moved)


def of_one_level(patch: pytest.MonkeyPatch) -> None:
    """A tree has two levels, and noise for one."""
    patch.setattr(_plan.Plan, "_levels", 1)


FAULTS: dict[str, tuple[Any, Any]] = {
    "noise for one group": (CASES["count"], of_one),
    "units are not bounded": (CASES["mean"], unbounded),
    "groups are selected by records": (CASES["unlisted sum"], by_records),
    "a threshold is lower by one": (CASES["unlisted units"], one_less),
    "a mean's threshold is lower by one": (CASES["unlisted mean"], one_less),
    "a threshold is for one record": (CASES["unlisted count"], of_one_record),
    "a missing value is added": (CASES["sum"], absent_is_added),
    "a mean has noise for one sum": (CASES["mean"], unweighted),
    "a tree has noise for one level": (CASES["median, rho"], of_one_level),
}


ALONE = ("groups are", "a threshold", "a mean's")


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, plant = FAULTS[name]
    right = make()
    plant(monkeypatch)
    # Of nobody else: a group that is shown at all is the unit's.
    others = () if name.startswith(ALONE) else OTHERS
    assert excess(make(), monkeypatch, right.event, others) > SLACK
