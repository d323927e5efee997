"""The statement of ``fastdp aggregate`` on a table: noise, guarantee, limits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fastdp
from fastdp.cli import _tables
from fastdp.cli._numbers import as_text, written

if TYPE_CHECKING:
    from fastdp.cli._plan_file import Table
    from fastdp.tables import Plan

#: Why a table may have no groups.
_EMPTY = "; no group had enough units: --check shows the owner how INPUT is read"


def statement(plan: Plan, table: Table) -> _tables.Statement:
    """Return the statement of the release, its guarantee, and its neighbors."""
    words, unit = table.words, plan.unit
    budget = {
        name: as_text(value)
        for name in ("epsilon", "rho", "delta")
        if (value := words.get(name)) is not None
    }
    bounds = {
        name: tuple(as_text(end) for end in ends)
        for name, ends in (words.get("bounds") or {}).items()
    }
    shown = ", ".join(f"{n} in [{low}, {high}]" for n, (low, high) in bounds.items())
    spent = ", ".join(f"{name} = {value}" for name, value in budget.items())
    law = "Gaussian" if "rho" in budget else "Laplace"
    stds = ", ".join(
        f"{row['std']:.4g} of {row['column']}"
        for row in plan.accuracy().rows()
        if row["std"] is not None
    )
    columns = ", ".join(map(repr, plan.columns))
    groups = f"{{rows}} groups of {', '.join(map(repr, plan.by))}"
    lines = {
        "mechanism": f"discrete {law} noise, exact, timing class T0: standard "
        f"deviation {stds}",
        "parameter": f"{spent}{f', {shown}' if shown else ''}",
        "guarantee": f"{_guarantee(budget)}, for this one release",
        "neighbors": _neighbors(plan),
        **_kept(plan),
        "released": f"{groups if plan.by else '{rows} row'}: {columns}, with low and "
        f"high ({100 * table.level:g} %)",
        "groups": _groups(plan),
        "left out": (
            "records without a group or a unit; a missing value, of text files also a "
            "blank cell, leaves out its own statistic alone"
        ),
    }
    facts = {
        **budget,
        "unit": unit.name,
        "unit_column": unit.column if isinstance(unit, fastdp.Unit) else None,
        "groups_per_unit": unit.groups if isinstance(unit, fastdp.Unit) else None,
        "records_per_group": unit.records if isinstance(unit, fastdp.Unit) else None,
        "by": list(plan.by),
        "statistics": list(plan.columns),
        "bounds": bounds,
        "level": table.level,
    }
    return _tables.Statement(
        "private table of groups", _Parts(plan), facts, lines, empty=_EMPTY
    )


def _neighbors(plan: Plan) -> str:
    unit = plan.unit
    if not isinstance(unit, fastdp.Unit):
        said = "tables that differ in one row: a person with several rows is not hidden"
        if unit.name != "row":
            said = f"tables that differ in one row: no {unit.name!r} has two"
    else:
        said = f"tables that differ in all records of one {unit.name!r}"
    listed = plan.by and not plan._noise.unlisted
    return f"{said}; the groups of --keys are public" if listed else said


def _kept(plan: Plan) -> dict[str, str]:
    unit = plan.unit
    if not isinstance(unit, fastdp.Unit):
        return {}
    most = f"at most {unit.records} records of each {unit.name!r}"
    if plan.by:
        most += f" in each group, and at most {unit.groups} groups"
    return {"kept": f"{most}: no others count; --check shows the owner how many"}


def _groups(plan: Plan) -> str:
    if not plan.by:
        return "all records are one"
    if not plan._noise.unlisted:
        return "all that --keys lists, in its order"
    if (keys := plan.mechanisms().get("keys")) is None:
        half, most = (plan.accuracy().least_units(p) for p in (0.5, 0.95))
        return (
            "selected by a noisy number that is released as well: shown from "
            f"{half} on with probability 1/2, from {most} on with 0.95"
        )
    selection = written(keys)
    return f"selected by their number of units, for half of the budget: {selection}"


def _guarantee(budget: dict[str, str]) -> str:
    if "rho" in budget:
        delta = budget.get("delta")
        but = "" if delta is None else f", except with probability {delta}"
        return f"{budget['rho']}-zero-concentrated differential privacy (rho){but}"
    if "delta" in budget:
        return (
            f"({budget['epsilon']}, {budget['delta']})-differential privacy "
            "(epsilon, delta)"
        )
    return f"{budget['epsilon']}-differential privacy (epsilon)"


@dataclass(frozen=True)
class _Parts:
    """The mechanisms of one table, for its statement."""

    plan: Plan

    def event(self) -> Any:
        return self.plan.event()

    def to_json(self) -> str:
        parts = self.plan.mechanisms().items()
        return json.dumps({name: json.loads(m.to_json()) for name, m in parts})
