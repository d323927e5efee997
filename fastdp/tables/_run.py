"""From a plan and its records to a release: one group-by, one charge, one draw."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdp import random as fdp_random
from fastdp._stream import Stream
from fastdp.exceptions import ParameterError
from fastdp.frames import _tables
from fastdp.frames._engines import Engine
from fastdp.frames._recipe import MOST, Recipe
from fastdp.ledger import Ledger
from fastdp.ledger._terms import check_names
from fastdp.tables._release import Release
from fastdp.tables._unit import Unit

if TYPE_CHECKING:
    import pyarrow as pa

    from fastdp.tables._plan import Plan

_Array = np.ndarray[Any, Any]

#: Of more groups that nobody listed a ledger stores the first ones.
_MOST_ROWS = 2**20


def release(
    plan: Plan,
    source: Any,
    charge: tuple[Ledger, str, str | Iterable[str]] | None,
    memory: str | None,
    progress: Callable[[float], object] | None,
    stream: Stream | None,
) -> Release:
    """Return the table, with what a ledger has for it, or charged to its budgets."""
    answer, stored, asked = None, False, None
    if charge is not None:
        ledger, label, budgets = charge
        asked = _Asked(plan, ledger, label, check_names("budgets", budgets))
        stored = ledger._answers(label)
        if not ledger._is_charged(label):  # what was charged is not paid for again
            ledger.preview(plan.event(), budgets=asked.budgets, unit=plan.unit.name)
    salt = _salt(None if asked is None else asked.label, stream)
    with engine_of(plan, source, memory, progress) as engine:
        recipe = plan._recipe(engine)
        if asked is not None and stored:
            # Of no records: the terms of an answer are those of the types alone.
            none = replace(recipe, source=engine.empty(_read(plan)))
            totals = Totals(plan, engine.run(none.sql(), salt, None))
            answer = asked.ledger._stored_table(**asked.table(totals, recipe))
        if answer is None:
            totals = Totals(plan, engine.run(recipe.sql(), salt, progress))
    if asked is None:
        shown, noisy = totals.drawn(stream)
    else:
        if answer is None:
            answer = asked.ledger.table(
                **asked.table(totals, recipe), unit=plan.unit.name
            )
        shown, noisy = totals.read(answer.value)
    return Release(
        plan,
        _tables.with_text(shown, "string"),
        noisy,
        like=_tables.none_of(source),
        replayed=answer is not None and answer.replayed,
        receipts_json=None if answer is None else answer.receipts_json,
    )


def engine_of(
    plan: Plan,
    source: Any,
    memory: str | None,
    progress: Callable[[float], object] | None,
) -> Engine:
    """Return the engine that a source is in, or DuckDB for all others."""
    if not _tables.is_spark(source):
        from fastdp.frames._duckdb import DuckDB

        return DuckDB(source, memory, _read(plan), tuple(plan._asked))
    if memory is not None or progress is not None:
        raise ParameterError("memory and progress must be left out on Spark")
    from fastdp.frames._spark import Spark

    return Spark(source, _read(plan))


def _read(plan: Plan) -> list[str]:
    """Return the columns that are read."""
    units = [plan.unit.column] if isinstance(plan.unit, Unit) else []
    return [*plan.by, *plan._asked, *units]


def _salt(label: str | None, stream: Stream | None) -> str:
    """Return what the choices are salted by: for a label always the same.

    A retry must sum the same records; which they are is no secret.
    """
    if label is not None:
        return hashlib.sha256(f"fastdp frames {label}".encode()).hexdigest()
    return fdp_random.bytes(32, stream=stream).hex()


@dataclass(frozen=True)
class _Asked:
    """What a ledger is asked, beside the totals."""

    plan: Plan
    ledger: Ledger
    label: str
    budgets: tuple[str, ...]

    def table(self, totals: Totals, recipe: Recipe) -> dict[str, Any]:
        """Return the arguments of `Ledger.table` for a group-by's totals."""
        unlisted = self.plan._noise.unlisted
        facts = {**recipe.facts(), "unit": self.plan.unit.name}
        listed = json.dumps(facts, sort_keys=True)
        return {
            "columns": totals.cells(),
            "keys": totals.packed(public=not unlisted),
            "label": self.label,
            "budgets": self.budgets,
            "select": totals.selection() if unlisted else None,
            "most_rows": _MOST_ROWS if unlisted else None,
            "source": f"fastdp plan {hashlib.sha256(listed.encode()).hexdigest()}",
        }


class Totals:
    """The exact totals of all groups, sorted by group: private.

    Of public groups the order in which they were given is known, and put back into what
    is shown.
    """

    def __init__(self, plan: Plan, exact: pa.Table) -> None:
        self._plan = plan
        self._names = list(plan.by) or ["group"]
        # No name of a key is one of ours while it is sorted.
        places = [f"g{i}" for i in range(len(self._names))]
        rows = _tables.in_order(_tables.with_text(exact, "large_string"), places)
        self._keys = rows.select(places)
        rest = [name for name in rows.column_names if name not in places]
        self._sums = {name: _int64(rows.column(name)) for name in rest}

    def cells(self) -> dict[str, tuple[Any, _Array]]:
        """Return private totals with their law, by names that are none of a key's."""
        found = {}
        for total in self._plan._noise.totals:
            values = self._sums[total.source]
            if total.name.startswith("n"):  # whole records, in finer steps
                values = np.minimum(values, MOST >> total.bits) << total.bits
            name = total.name
            while name in self._names:
                name += "_"
            found[name] = (total.law, values)
        return found

    def packed(self, *, public: bool) -> dict[str, _Array]:
        """Return the groups as a ledger stores them."""
        columns = zip(self._names, self._keys.columns, strict=True)
        return {name: _tables.packed(c, public=public) for name, c in columns}

    def selection(self) -> tuple[Any, ...]:
        """Return what selects groups that nobody listed, as `Ledger.table` takes it."""
        own = self._plan._noise.threshold
        if own is None:
            return self._plan._noise.selection(), self._sums["users"]
        place = [total.name for total in self._plan._noise.totals].index(own.total)
        return [*self.cells()][place], own.above, own.event

    def drawn(self, stream: Stream | None) -> tuple[pa.Table, list[_Array]]:
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
            keys = keys.filter(_tables.arrow().array(mask))
            noisy = [x[mask] for x in noisy]
        return self._shown(keys, noisy)

    def read(self, value: Mapping[str, _Array]) -> tuple[pa.Table, list[_Array]]:
        """Return groups and noisy totals as a ledger has stored them."""
        keys = {
            place: _tables.unpacked(value[name], self._keys.schema.field(place).type)
            for place, name in zip(self._keys.column_names, self._names, strict=True)
        }
        noisy = [found for name, found in value.items() if name not in self._names]
        return self._shown(_tables.arrow().table(keys), noisy)

    def _shown(
        self, keys: pa.Table, noisy: list[_Array]
    ) -> tuple[pa.Table, list[_Array]]:
        if "place" in self._sums:
            order = np.argsort(self._sums["place"])
            keys, noisy = keys.take(order), [x[order] for x in noisy]
        return keys.rename_columns(self._names).select(list(self._plan.by)), noisy


def _int64(column: Any) -> _Array:
    return np.asarray(column.to_numpy()).astype(np.int64)
