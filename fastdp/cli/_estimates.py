"""The output of ``fastdp estimate``: counts of categories or strings, or means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Counts:
    """The wanted categories of an estimate; arrays have one entry for each."""

    #: Kind of the labels: "category", or "value" of an open domain.
    what: str
    labels: list[Any]
    counts: npt.NDArray[np.float64]
    errors: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    frequencies: npt.NDArray[np.float64]
    consistent: npt.NDArray[np.float64] | None

    def columns(self) -> dict[str, Any]:
        """Return the columns by their names in tables."""
        columns: dict[str, Any] = {
            self.what: self.labels,
            "count": self.counts,
            "standard_error": self.errors,
            "low": self.low,
            "high": self.high,
            "frequency": self.frequencies,
        }
        if self.consistent is not None:
            columns["consistent_count"] = self.consistent
        return columns

    def facts(self) -> dict[str, Any]:
        """Return the rows, for programs."""
        columns = {
            name: values if isinstance(values, list) else values.tolist()
            for name, values in self.columns().items()
        }
        rows = [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
        return {"categories" if self.what == "category" else "values": rows}

    def shown(self, level: float) -> list[list[str]]:
        """Return the columns for people, each below its name."""
        columns = [
            [self.what, *(printable(label) for label in self.labels)],
            ["count", *(f"{count:,.1f}" for count in self.counts)],
            ["standard error", *(f"{error:,.1f}" for error in self.errors)],
            [
                f"{100 * level:.6g} % interval",
                *(
                    f"[{low:,.1f}, {high:,.1f}]"
                    for low, high in zip(self.low, self.high, strict=True)
                ),
            ],
            ["frequency", *(f"{frequency:.6f}" for frequency in self.frequencies)],
        ]
        if self.consistent is not None:
            counts = (f"{count:,.1f}" for count in self.consistent)
            columns.append(["consistent", *counts])
        return columns


@dataclass(frozen=True)
class Means:
    """Estimated means: one number, or the entries of a vector by their columns."""

    names: tuple[str, ...] | None
    mean: npt.NDArray[np.float64]
    errors: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]

    def columns(self) -> dict[str, Any]:
        """Return the columns by their names in tables."""
        columns: dict[str, Any] = {}
        if self.names is not None:
            columns["column"] = list(self.names)
        numbers = (self.mean, self.errors, self.low, self.high)
        heads = ("mean", "standard_error", "low", "high")
        return columns | {
            name: part.tolist() for name, part in zip(heads, numbers, strict=True)
        }

    def facts(self) -> dict[str, Any]:
        """Return the numbers, for programs."""
        columns = self.columns()
        rows = [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
        return rows[0] if self.names is None else {"means": rows}

    def shown(self, level: float) -> list[list[str]]:
        """Return the columns for people, each below its name."""
        columns = []
        if self.names is not None:
            columns.append(["column", *map(printable, self.names)])
        ends = zip(self.low, self.high, strict=True)
        return [
            *columns,
            ["mean", *(f"{mean:,.6g}" for mean in self.mean)],
            ["standard error", *(f"{error:,.3g}" for error in self.errors)],
            [
                f"{100 * level:.6g} % interval",
                *(f"[{low:,.6g}, {high:,.6g}]" for low, high in ends),
            ],
        ]


def printable(label: object) -> str:
    """Return a category's name without characters that control a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(label))
