"""A plan in words: its cost, its groups, and the making of its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp.tables._choices import Choices
from fastdp.tables._parameters import count_of
from fastdp.tables._unit import Unit


def cost(plan: Choices) -> str:
    """Return the given budget, the protected unit, and the limits for one unit."""
    return f"{sum_of([plan])} for one {plan.unit.name}{kept(plan)}"


def sum_of(plans: Sequence[Choices]) -> str:
    """Return the budgets of plans, each kind added up."""
    said = []
    for name in ("epsilon", "rho", "delta"):
        asked = [getattr(plan._noise.budget, name) for plan in plans]
        given = [
            _validate.exact(name, _validate.least_reading(x))
            for x in asked
            if x is not None
        ]
        if given:
            said.append(f"{name} {_number(sum(given))}")
    return " and ".join(said)


def kept(plan: Choices) -> str:
    """Return the limits on a unit's records as text; empty if the unit is a row."""
    if not isinstance(plan.unit, Unit):
        return ""
    groups, records = plan._kept
    if not plan.by:
        return f"; kept: at most {_so_many(records, 'record')}"
    most = f"{_so_many(groups, 'group')} and {_so_many(records, 'record')} in each"
    return f"; kept: at most {most}"


def shown(plan: Choices, least_units: Callable[[float], int | None]) -> str:
    """Return a mask of the shown groups."""
    if not plan.by:
        return "one row, of all records"
    if plan._keys is not None:
        return f"all {_so_many(count_of(plan._keys), 'group')} that are listed"
    half, most = map(least_units, (0.5, 0.95))
    own = plan._noise.threshold
    named = plan.unit.name if own is None or own.total == "units" else "record"
    return f"groups of {half} {named}s with probability 1/2, of {most} with 0.95"


def described(plan: Choices, rows: Sequence[dict[str, Any]]) -> str:
    """Return the sentences of `Plan.describe`, from the rows of its `Accuracy`."""
    said = {"count": "number of records", "units": f"number of {plan.unit.name}s"}
    statistics = [said[name] for name in plan._counts]
    for name, asked in plan._asked.items():
        listed = [{"std": "standard deviation"}.get(what, what) for what in asked]
        statistics.append(f"{_and(listed)} of {name}")
    for name, quantiles in plan._quantiles.items():
        listed = [f"{_number(100 * q)} % quantile" for q in quantiles]
        listed = [{"50 % quantile": "median"}.get(q, q) for q in listed]
        statistics.append(f"{_and(listed)} of {name}")
    statistics += [f"histogram of {name}" for name in plan._edges]
    first = _and(statistics)
    where = ""
    if plan.by:
        how = "listed in advance" if plan._keys is not None else "chosen privately"
        where = f" by {_and(list(plan.by))} (groups {how})"
    sentences = [f"{first[0].upper()}{first[1:]}{where}."]
    notion = {
        (True, False): "differential privacy",
        (True, True): "differential privacy",
        (False, False): "zero-concentrated differential privacy",
        (False, True): "approximate zero-concentrated differential privacy",
    }[plan._noise.by_epsilon, plan._noise.unlisted]
    one = f"one {plan.unit.name}, added or removed"
    if isinstance(plan.unit, Unit):
        one += " with all records"
    sentences.append(f"Released with {notion} ({sum_of([plan])}) for {one}.")
    if isinstance(plan.unit, Unit):
        groups, records = plan._kept
        most = f"at most {_so_many(records, 'record')}"
        if plan.by:
            most = f"at most {_so_many(groups, 'group')} and "
            most += f"{_so_many(records, 'record')} in each"
        sentences.append(
            f"Of each {plan.unit.name} {most} were kept, chosen at random; other "
            "records are not counted."
        )
    for name, (low, high) in plan._bounds.items():
        sentences.append(
            f"Values of {name} were limited to {_number(low)} to {_number(high)}; a "
            f"record without a value is counted and leaves out {name}."
        )
    law = "Laplace" if plan._noise.by_epsilon else "Gaussian"
    stds = []
    for row in rows:
        if row["std"] is not None:
            of = "the rank of " * (row["column"] in plan._targets)
            stds.append(f"{row['std']:.4g} of {of}{row['column']}")
    sentences.append(f"Noise: discrete {law}, standard deviation {_and(stds)}.")
    sentences.append(
        "The intervals are about this noise alone, each by itself: not about records "
        "left out, nor about other people or years."
    )
    return " ".join(sentences)


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _so_many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _number(value: object) -> str:
    """Return a public number in few digits; a short number unchanged."""
    if isinstance(value, int):
        return f"{value:,}" if value >= 10_000 else str(value)
    number = float(value)  # type: ignore[arg-type]
    return f"{number:,.12g}"


# ---- cells ---------------------------------------------------------------------


def items(column: Any) -> list[Any]:
    listed: list[Any]
    listed = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    return listed


def texts(column: Any) -> list[str]:
    return [_text(item) for item in items(column)]


def _text(item: Any) -> str:
    if isinstance(item, (float, np.floating)):
        return "" if item != item else f"{item:.6g}"
    return "" if item is None else str(item)


def aligned(rows: list[list[str]], *, left: bool = False) -> list[str]:
    """Return rows as aligned lines; the last cell of a short row fills the line."""
    whole = [row for row in rows if len(row) == len(rows[0])]
    first = max(len(row[0]) for row in rows)
    widths = [max(len(row[i]) for row in whole) for i in range(len(rows[0]))]
    widths[0] = max(widths[0], first)
    lines = []
    for row in rows:
        cells = [
            cell
            if len(row) < len(widths) and i == len(row) - 1
            else cell.ljust(widths[i])
            if left
            else cell.rjust(widths[i])
            for i, cell in enumerate(row)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
