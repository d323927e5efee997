"""`Plan.check`: records that a plan would leave out, for their owner only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastdp.frames._engines import Engine
from fastdp.frames._recipe import Recipe
from fastdp.mechanisms._keys import distinct
from fastdp.tables import _run
from fastdp.tables._choices import Choices
from fastdp.tables._memory import Memory
from fastdp.tables._unit import Unit
from fastdp.tables._words import aligned

#: Limits on groups and records to report in addition to those of the plan.
_GROUPS = (1, 2, 3, 5)
_RECORDS = (1, 2, 3, 5, 8, 12)


class Check:
    """Exact numbers of some records: NOT PRIVATE, for their owner only.

    `Plan.check` returns it; it prints as a table. Publish nothing of it, and do not
    choose limits by it: limits are published with the table.

    Attributes
    ----------
    records, no_unit, no_group, other_group : int
        Number of records; of records without a unit; of the others without a group; and
        of the others in an unlisted group.
    columns : dict of str to dict
        For each column of numbers, how many of all records are "missing", "below" and
        "above" the bounds or edges.
    kept : dict of (int, int) to float
        For limits (groups, records), the mean share of the other records that is kept,
        over the random choice; empty if a row is the unit.
    """

    def __init__(
        self, plan: Choices, facts: dict[str, int], kept: dict[tuple[int, int], float]
    ) -> None:
        self._plan, self.kept = plan, kept
        self.records, self.no_unit = facts["records"], facts["no_unit"]
        self.no_group = facts["no_group"]
        left = self.records - self.no_unit - self.no_group - facts["counted"]
        self.other_group = left
        self.columns = {
            name: {what: facts[f"{what}_{i}"] for what in ("missing", "below", "above")}
            for i, name in enumerate(plan._numbers)
        }

    def __repr__(self) -> str:
        unit = self._plan.unit.name
        lines = [["records", str(self.records)]]
        for said, number in (
            (f"without {unit}", self.no_unit),
            ("without a group", self.no_group),
            ("in a group not listed or too long", self.other_group),
        ):
            lines += [[said, str(number)]] if number else []
        for name, found in self.columns.items():
            text = ", ".join(f"{number} {what}" for what, number in found.items())
            lines.append([name, text])
        if not isinstance(self._plan.unit, Unit):
            of = "person" if unit == "row" else unit
            why = "unknown: Rows names no column of units"
            lines.append([f"rows of one {of}", why])
        most = sorted({records for _, records in self.kept})
        head = [[f"kept, by records of one {unit}", *map(str, most)]] if most else []
        rows = [
            [
                f"in {groups} group{'s' * (groups > 1)}" if self._plan.by else "",
                *(f"{self.kept[groups, r]:.0%}" for r in most),
            ]
            for groups in sorted({groups for groups, _ in self.kept})
        ]
        shown = [
            *aligned(lines, left=True),
            *(aligned([*head, *rows]) if head else []),
        ]
        return "\n".join(["NOT PRIVATE: exact numbers, for the owner alone", *shown])


def check(plan: Choices, source: Any, memory: str | None) -> Check:
    """Return the exact numbers of some records."""
    source = _run._in_memory(plan, source, None)
    limits: list[tuple[int, int]] = []
    if isinstance(plan.unit, Unit):
        own, each = plan._kept
        groups = sorted({*_GROUPS, own}) if plan.by else [1]
        limits = [(k, r) for k in groups for r in sorted({*_RECORDS, each})]
    with _run.engine_of(plan, source, memory, None) as engine:
        recipe = plan._recipe(engine)
        if isinstance(engine, Memory):
            facts, sums = _of_columns(plan, engine, recipe, limits)
        else:
            facts, sums = _of_sql(plan, engine, recipe, limits)
    shares = (total / facts["counted"] if facts["counted"] else 1.0 for total in sums)
    return Check(plan, facts, dict(zip(limits, shares, strict=True)))


def _ends(plan: Choices) -> list[tuple[float, float]]:
    """Return the bounds, or first and last edge, of each column of numbers."""
    edges = {name: (e[0], e[-1]) for name, e in plan._edges.items()}
    ends = {**edges, **plan._bounds}
    return [ends[name] for name in plan._numbers]


def _of_sql(
    plan: Choices, engine: Engine, recipe: Recipe, limits: Sequence[tuple[int, int]]
) -> tuple[dict[str, int], list[float]]:
    numbers = list(zip(plan._numbers, _ends(plan), strict=True))
    (row,) = engine.run(recipe.survey(numbers), "", None).to_pylist()
    (more,) = engine.run(recipe.survey_of_limits(limits), "", None).to_pylist()
    facts = {name: int(number or 0) for name, number in {**row, **more}.items()}
    return facts, [float(more[f"kept_{i}"] or 0) for i in range(len(limits))]


def _of_columns(
    plan: Choices, engine: Memory, recipe: Recipe, limits: Sequence[tuple[int, int]]
) -> tuple[dict[str, int], list[float]]:
    n = engine._n
    known = {name: there for name, (_, there) in engine._keys.items()}
    owned = known[recipe.user] if recipe.user is not None else np.ones(n, bool)
    grouped = np.ones(n, bool)
    for name in recipe.by:
        grouped &= known[name]
    group, _ = engine._grouped(recipe.by, owned & grouped)
    chosen = np.flatnonzero(group >= 0)
    facts = {"records": n, "no_unit": int((~owned).sum()), "counted": len(chosen)}
    facts["no_group"] = int((owned & ~grouped).sum())
    for i, (name, (low, high)) in enumerate(
        zip(plan._numbers, _ends(plan), strict=True)
    ):
        values = engine._values[name]
        facts[f"missing_{i}"] = int(np.isnan(values).sum())
        facts[f"below_{i}"] = int((values < low).sum())
        facts[f"above_{i}"] = int((values > high).sum())
    if not limits or not len(chosen):
        return facts, [0.0] * len(limits)
    owner = distinct(engine._keys[recipe.user or ""][0][chosen])[1]
    pairs, each = np.unique(
        np.stack([owner, group[chosen]]), axis=1, return_counts=True
    )
    many = np.bincount(pairs[0])[pairs[0]]
    return facts, [
        float((np.minimum(each, r) * np.minimum(many, k) / many).sum())
        for k, r in limits
    ]
