"""`Accuracy`: the noise of a plan and its error bounds, before any record is seen."""

from __future__ import annotations

import math
from typing import Any

from fastdp import _validate
from fastdp.mechanisms import DiscreteGaussian
from fastdp.tables import _words
from fastdp.tables._choices import Choices
from fastdp.tables._column import reach_of
from fastdp.tables._quantiles import Rank
from fastdp.tables._words import aligned

#: State the error bound of a mean for groups of these numbers of records.
_AT = (100, 1000)


class Accuracy:
    """The noise of each column of a plan, and its error bounds; prints as a table.

    `Plan.accuracy` returns it.
    """

    def __init__(self, plan: Choices, level: float) -> None:
        self._plan = plan
        self._level = float(_validate.open_unit("level", level))

    def rows(self) -> list[dict[str, Any]]:
        """Return the noise, standard deviation and error bound of each column.

        `std` is in the units of the column, or None if the column is computed from
        several noisy numbers. `within` is a number; for a mean, a dict by number of
        values. For a quantile both are upper bounds on the error of its rank, in
        records.
        """
        noise, found = self._plan._noise, []
        laws = {total.name: total.law for total in noise.totals if not total.bits}
        for column, (total, _) in self._plan._bins.items():
            laws[column] = laws[total]
        for column in self._plan.columns:
            row: dict[str, Any] = {"column": column, "std": None, "within": None}
            if column in self._plan._targets:
                found.append(self._of_rank(column))
                continue
            name, _, what = column.rpartition("_")
            law = laws.get(column, noise.totals[-1].law)
            row["noise"] = _name_of(law)
            if column in laws:
                ends = law.confidence_interval(self._level)
                row |= {"std": law.std, "within": max(map(abs, ends))}
                found.append(row)
                continue
            bounds = self._plan._bounds[name]
            fine = float(noise.parameter) * (math.sqrt(2) if noise.by_epsilon else 1)
            one = reach_of(noise, bounds, self._level)
            half = bounds[1] / 2 - bounds[0] / 2
            if what == "n":
                row |= {"std": fine, "within": one}
            elif what == "sum" and f"{name}_n" not in self._plan.columns:
                most = max(-bounds[0], bounds[1])
                row |= {"std": fine * most, "within": one * most}
            elif what == "sum":
                center = bounds[0] + half
                both = reach_of(noise, bounds, self._level, abs(center), half)
                row |= {"std": fine * math.hypot(center, half), "within": both}
            elif what == "mean":
                both = half * reach_of(noise, bounds, self._level, 1.0, 1.0)
                row |= {"noise": "ratio", "within": {n: both / n for n in _AT}}
            else:
                row |= {"noise": "ratio"}
            found.append(row)
        return found

    def _of_rank(self, column: str) -> dict[str, Any]:
        """Return the noise of a quantile's rank at the edge where it is largest."""
        plan = self._plan
        name, q = plan._targets[column]
        place = list(plan._quantiles).index(name)
        (law,) = (t.law for t in plan._noise.totals if t.name == f"t{place}")
        rank = Rank(plan._tree, law, q)
        return {
            "column": column,
            "noise": f"tree of {plan._cells}",
            "std": float(rank.std.max()),
            "within": float(rank.far((1 - self._level) / 2).max()),
        }

    def least_units(self, probability: float) -> int | None:
        """Return the least size of a group that is shown with this probability.

        The size counts units, or records if the number of records selects the groups.
        None if all groups are public.

        Raises
        ------
        DTypeError, ParameterError
            `probability` is not between 0 and 1.
        """
        p = float(_validate.open_unit("probability", probability))
        if not self._plan._noise.unlisted:
            return None
        law = self._plan._noise.threshold or self._plan._noise.selection()
        low, high = 0, 1
        while law.probability(high) < p:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if law.probability(middle) >= p else (middle, high)
            )
        return high

    def __repr__(self) -> str:
        lines = [["column", "noise", "std", f"{100 * self._level:g} % within"]]
        for row in self.rows():
            std = "-" if row["std"] is None else f"{row['std']:.4g}"
            within = row["within"]
            if isinstance(within, dict):
                said = ", ".join(f"{x:.4g} at n = {n}" for n, x in within.items())
            else:
                said = "-" if within is None else f"{within:.4g}"
                if row["column"] in self._plan._targets:
                    said += " of the rank, at most"
            lines.append([row["column"], row["noise"], std, said])
        shown = aligned(
            [*lines, ["shown", _words.shown(self._plan, self.least_units)]], left=True
        )
        return "\n".join([_words.cost(self._plan), *shown])


def _name_of(law: Any) -> str:
    gaussian = isinstance(law, DiscreteGaussian)
    return "discrete Gaussian" if gaussian else "discrete Laplace"
