"""From plans and records to releases: a group-by for each, one charge, one draw."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdp import random as fdp_random
from fastdp._stream import Stream, check_stream
from fastdp.accounting.events._composite import composed
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _kinds, _tables
from fastdp.frames._duckdb import DuckDB
from fastdp.frames._engines import Engine
from fastdp.frames._recipe import MOST, Recipe
from fastdp.frames._release import check_ledger
from fastdp.frames._spark import Spark
from fastdp.ledger import Ledger, _shown, _terms
from fastdp.ledger._terms import check_names
from fastdp.tables import _memory
from fastdp.tables._choices import Choices
from fastdp.tables._memory import Memory, has_integers
from fastdp.tables._quantiles import nodes_of
from fastdp.tables._release import Release
from fastdp.tables._unit import Unit

if TYPE_CHECKING:
    import pyarrow as pa

_Array = np.ndarray[Any, Any]

#: If there are more unlisted groups, a ledger stores only this many, the first ones.
_MOST_ROWS = 2**20


#: Where an answer is charged and stored: a ledger, a label and budgets.
Charge = tuple[Ledger, str, str | Iterable[str]]


def charge_of(
    ledger: Ledger | None,
    label: str | None,
    budgets: str | Iterable[str] | None,
    stream: Stream | None,
) -> Charge | None:
    """Return the ledger arguments of an answer, or None; also check the stream."""
    check_stream(stream)
    check_ledger(ledger, label, budgets, None, stream)
    return None if ledger is None else (ledger, label or "", budgets or ())


def release(
    plans: Mapping[str, Choices],
    sources: Mapping[str, Any],
    charge: Charge | None,
    memory: str | None,
    progress: Callable[[float], object] | None,
    stream: Stream | None,
    level: float = 0.95,
) -> dict[str, Release]:
    """Return tables for one charge: stored answers, or new ones.

    No noise is drawn before all sums exist. A plan alone has the name "".
    """
    answer, stored, alone = None, False, list(plans) == [""]
    sources = {n: _in_memory(p, sources[n], stream) for n, p in plans.items()}
    if charge is not None:
        ledger, label, listed = charge
        budgets = check_names("budgets", listed)
        stored = _require_covered(ledger, label, budgets, list(plans.values()))
    salt = _salt(None if charge is None else charge[1], stream)
    integers: dict[str, frozenset[str]] = {}

    def gathered(*, nothing: bool = False) -> tuple[dict[str, Totals], Any]:
        """Return totals (of no records if `nothing`), and a ledger's terms and draw."""
        found, asked = {}, {}
        for done, (name, plan) in enumerate(plans.items()):
            told = _share_of(progress, done, len(plans))
            with engine_of(plan, sources[name], memory, told) as engine:
                try:
                    recipe = plan._recipe(engine)
                except (ParameterError, DTypeError) as error:
                    where = "" if alone else f"tables {name!r}: "
                    raise type(error)(f"{where}{error}") from None
                whole = engine.integers(list(plan._quantiles))
                if _tables.is_of(sources[name], "pandas", "DataFrame"):
                    whole &= {n for n in whole if has_integers(sources[name][n])}
                integers[name] = whole
                if nothing:
                    found[name] = _no_totals(plan, engine, recipe, salt)
                else:
                    found[name] = Totals(plan, engine.exact(recipe, salt, told))
            if charge is not None:
                most = _MOST_ROWS // len(plans)
                asked[name] = _asked(plan, found[name], recipe, most)
        if charge is None:
            return found, None
        if alone:
            return found, _shown.asked(**asked[""], label=label, budgets=budgets)
        return found, _shown.asked_together(asked, label, budgets)

    if stored:
        totals, (wanted, _) = gathered(nothing=True)
        answer = ledger._stored_table(wanted)
    if answer is None:
        totals, terms = gathered()
    if charge is None:
        tables = {name: one.drawn(stream) for name, one in totals.items()}
    else:
        if answer is None:
            wanted, draw = terms
            unit = next(iter(plans.values())).unit.name
            answer = ledger._drawn(wanted.per(unit), draw, _terms.unpacked_table)
        tables = {}
        for name, one in totals.items():
            prefix = "" if alone else f"{name}/"
            own = {
                column.removeprefix(prefix): values
                for column, values in answer.value.items()
                if column.startswith(prefix)
            }
            tables[name] = one.read(own)
    return {
        name: Release(
            plan,
            *tables[name],
            like=like_of(sources[name]),
            level=level,
            integers=integers[name],
            replayed=answer is not None and answer.replayed,
            receipts_json=None if answer is None else answer.receipts_json,
        )
        for name, plan in plans.items()
    }


def like_of(source: Any) -> Any:
    """Return an object without records that determines the kind of the result."""
    return source.like if isinstance(source, Memory) else _kinds.none_of(source)


def _require_covered(
    ledger: Ledger, label: str, budgets: tuple[str, ...], plans: Sequence[Choices]
) -> bool:
    """Refuse tables that the budgets do not cover; return if an answer is stored."""
    stored = ledger._answers(label)
    if not ledger._is_charged(label):  # a charged label is not charged again
        event = composed([event for plan in plans for event in plan._noise.events()])
        ledger.preview(event, budgets=budgets, unit=plans[0].unit.name)
    return stored


def _share_of(
    progress: Callable[[float], object] | None, done: int, of: int
) -> Callable[[float], object] | None:
    """Return a callback for one table's progress, after `done` of `of` tables."""
    return None if progress is None else lambda share: progress((done + share) / of)


def _no_totals(plan: Choices, engine: Engine, recipe: Recipe, salt: str) -> Totals:
    """Return totals of no records: a stored answer's terms depend only on types."""
    none = replace(recipe, source=engine.empty(_read(plan)))
    return Totals(plan, engine.exact(none, salt, None))


def _in_memory(plan: Choices, source: Any, stream: Stream | None) -> Any:
    """Return columns in memory as an engine, and any other source unchanged."""
    if isinstance(source, Mapping):
        return Memory(plan, source, stream=stream)
    return source


def engine_of(
    plan: Choices,
    source: Any,
    memory: str | None,
    progress: Callable[[float], object] | None,
) -> Engine:
    """Return the source's own engine, or DuckDB for all other sources."""
    if isinstance(source, Memory):
        if memory is not None or progress is not None:
            raise ParameterError("memory and progress must be left out for columns")
        return source
    if not _tables.is_spark(source):
        return DuckDB(source, memory, _read(plan), plan._numbers)
    if memory is not None or progress is not None:
        raise ParameterError("memory and progress must be left out on Spark")
    return Spark(source, _read(plan))


def _read(plan: Choices) -> list[str]:
    """Return the columns that a plan reads."""
    units = [plan.unit.column] if isinstance(plan.unit, Unit) else []
    return [*plan.by, *plan._numbers, *units]


def _salt(label: str | None, stream: Stream | None) -> str:
    """Return the salt of the choice of records: with a label, always the same.

    A retry must sum the same records; the choice need not be secret.
    """
    if label is not None:
        return hashlib.sha256(f"fastdp frames {label}".encode()).hexdigest()
    return fdp_random.bytes(32, stream=stream).hex()


def _asked(plan: Choices, totals: Totals, recipe: Recipe, most: int) -> dict[str, Any]:
    """Return the arguments of `Ledger.table` for a table, without label and budgets."""
    unlisted = plan._noise.unlisted
    # A ledger stores at most 64 MiB.
    most = min(most, 8 * most // (plan._nodes + 64)) if plan._nodes else most
    facts = {**recipe.facts(), "unit": plan.unit.name}
    if totals.listed:  # keys of columns in memory are stored in another form
        facts["keys"] = "memory"
    listed = json.dumps(facts, sort_keys=True)
    return {
        "columns": totals.cells(),
        "keys": totals.packed(public=not unlisted),
        "select": totals.selection() if unlisted else None,
        "most_rows": most if unlisted else None,
        "source": f"fastdp plan {hashlib.sha256(listed.encode()).hexdigest()}",
    }


class Totals:
    """The exact totals of all groups, sorted by group: private.

    Public groups are shown in the order in which they were given.
    """

    def __init__(self, plan: Choices, exact: pa.Table | dict[str, _Array]) -> None:
        self._plan = plan
        self._names = list(plan.by) or ["group"]
        self._sums: dict[str, _Array] = {}
        # Sort under the names g0, g1, ...: the keys' own names could clash with ours.
        places = [f"g{i}" for i in range(len(self._names))]
        self.listed = isinstance(exact, dict)
        if isinstance(exact, dict):
            self._keys = {name: exact[name] for name in places}
            self._sums = {n: x for n, x in exact.items() if n not in places}
            return
        order = [*places, *(["tree", "cell"] if plan._targets else [])]
        rows = _tables.in_order(_tables.with_text(exact, "large_string"), order)
        if plan._targets:
            rows, self._sums = _by_cell(plan, rows)
        self._keys = {name: rows.column(name) for name in places}
        rest = [name for name in rows.column_names if name not in places]
        self._sums |= {name: _int64(rows.column(name)) for name in rest}
        for name, (bins, i) in plan._bins.items():
            self._sums[name] = self._sums.pop(f"{bins}_{i}")
        for j in range(len(plan._edges)):
            own = [n for n, (bins, _) in plan._bins.items() if bins == f"h{j}"]
            self._sums[f"h{j}"] = np.stack([self._sums.pop(n) for n in own], axis=1)

    def cells(self) -> dict[str, tuple[Any, _Array]]:
        """Return private totals and their laws by name; no name is a key's name."""
        found = {}
        for total in self._plan._noise.totals:
            values = self._sums[total.source]
            if total.name.startswith("n"):  # whole records; the law's steps are finer
                values = np.minimum(values, MOST >> total.bits) << total.bits
            name: str = total.name
            while name in self._names:
                name += "_"
            found[name] = (total.law, values)
        return found

    def packed(self, *, public: bool) -> dict[str, _Array]:
        """Return the groups as a ledger stores them."""
        columns = zip(self._names, self._keys.values(), strict=True)
        pack = _memory.packed if self.listed else _tables.packed
        return {name: pack(column, public=public) for name, column in columns}

    def selection(self) -> tuple[Any, ...]:
        """Return the selection of unlisted groups as an argument of `Ledger.table`."""
        own = self._plan._noise.threshold
        if own is None:
            return self._plan._noise.selection(), self._sums["users"]
        place = [total.name for total in self._plan._noise.totals].index(own.total)
        return [*self.cells()][place], own.above, own.event

    def drawn(self, stream: Stream | None) -> tuple[dict[str, Any], list[_Array]]:
        """Return the groups to show and their noisy totals."""
        noise, keys = self._plan._noise, self._keys
        noisy = [m.release(x, stream=stream) for m, x in self.cells().values()]
        if noise.unlisted:
            own = noise.threshold
            if own is None:
                law, users = self.selection()
                mask = law.select(users, stream=stream)
            else:
                place = [total.name for total in noise.totals].index(own.total)
                exact = self._sums[noise.totals[place].source]
                mask = own.shown(exact, noisy[place])
            keys = _taken(keys, np.flatnonzero(mask))
            noisy = [x[mask] for x in noisy]
        return self._shown(keys, noisy)

    def read(self, value: Mapping[str, _Array]) -> tuple[dict[str, Any], list[_Array]]:
        """Return the groups and noisy totals that a ledger has stored."""
        keys = {
            place: _memory.unpacked(value[name])
            if isinstance(column, np.ndarray)
            else _tables.unpacked(value[name], column.type)
            for (place, column), name in zip(
                self._keys.items(), self._names, strict=True
            )
        }
        noisy = [found for name, found in value.items() if name not in self._names]
        return self._shown(keys, noisy)

    def _shown(
        self, keys: dict[str, Any], noisy: list[_Array]
    ) -> tuple[dict[str, Any], list[_Array]]:
        if "place" in self._sums:
            order = np.argsort(self._sums["place"])
            keys, noisy = _taken(keys, order), [x[order] for x in noisy]
        return dict(zip(self._plan.by, keys.values(), strict=False)), noisy


def _by_cell(plan: Choices, rows: pa.Table) -> tuple[pa.Table, dict[str, _Array]]:
    """Return the rows of groups, and the tree nodes from the rows of their cells.

    `rows` is sorted by group and tree, so a group's own row precedes its cells.
    """
    tree, cell, n = (_int64(rows.column(name)) for name in ("tree", "cell", "n"))
    own = tree < 0
    group = np.cumsum(own) - 1
    found = {}
    for j in range(len(plan._quantiles)):
        counts = np.zeros((int(own.sum()), plan._tree.leaves), np.int64)
        mine = tree == j
        counts[group[mine], cell[mine]] = n[mine]
        found[f"t{j}"] = nodes_of(plan._tree, counts)
    rows = rows.take(np.flatnonzero(own)).drop_columns(["tree", "cell"])
    return rows, found


def _taken(keys: dict[str, Any], order: _Array) -> dict[str, Any]:
    """Return the given rows of columns of keys, of numpy or of Arrow."""
    return {
        name: x[order] if isinstance(x, np.ndarray) else x.take(order)
        for name, x in keys.items()
    }


def _int64(column: Any) -> _Array:
    return np.asarray(column.to_numpy()).astype(np.int64)
