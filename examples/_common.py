"""What the examples share: two options, the table at the end, and pictures.

An example is a script with ``main(arguments) -> int``. It prints what it compares, then
a table of published figures beside ours, and fails when a figure of ours lies outside
of where it must lie. Noise is fresh in every run: the limits of random figures are so
wide that a run fails by chance with probability below 1e-9.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

WIDTH = 110

ILLUSTRATION = (
    "Truth beside a private result is for illustration: whoever holds real data shows "
    "the private result alone."
)


@dataclass(frozen=True)
class Row:
    """A figure: what it is, as its source prints it, ours, and why they differ.

    Parameters
    ----------
    what : str
    published : str
        The source's figure, or words where it has none ("-").
    ours : float
    why : str
    between : pair of floats, optional
        Where ours must lie. Without it ours must agree with `published`, if that is a
        number, to half a unit of its last digit.
    """

    what: str
    published: str
    ours: float
    why: str = "they agree"
    between: tuple[float, float] | None = None

    def holds(self) -> bool:
        """Return whether ours lies where it must."""
        if self.between is None:
            digits = len(self.published.partition(".")[2])
            half = 0.5000001 * 10.0**-digits
            exact = float(self.published)
            return abs(self.ours - exact) <= half
        return self.between[0] <= self.ours <= self.between[1]


def options(doc: str | None, small: str) -> argparse.ArgumentParser:
    """Return a parser with ``--small`` (help: `small`) and ``--plot FILE``."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument("--small", action="store_true", help=small)
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    return parser


def around(value: float, error: float) -> tuple[float, float]:
    """Return the interval of all that is at most `error` from `value`."""
    return value - error, value + error


def tell(rows: Iterable[Row]) -> int:
    """Print the table, and return 0 if every figure lies where it must, else 1."""
    rows = list(rows)
    lines = [(row.what, row.published, f"{row.ours:.6g}", row.why) for row in rows]
    lines.insert(0, ("what", "published", "ours", "why they differ"))
    first, second, third = (max(len(line[i]) for line in lines) for i in range(3))
    left = max(20, WIDTH - first - second - third - 6)
    print()
    for what, published, ours, why in lines:
        parts = textwrap.wrap(why, left) or [""]
        print(f"{what:{first}}  {published:>{second}}  {ours:>{third}}  {parts[0]}")
        for part in parts[1:]:
            print(" " * (WIDTH - left) + part)
    print("\n" + ILLUSTRATION)
    wrong = [row for row in rows if not row.holds()]
    for row in wrong:
        print(f"not as it must be: {row.what}: {row.ours!r}")
    return 1 if wrong else 0


def picture(columns: int = 1, rows: int = 1, *, width: float = 5.5) -> tuple[Any, Any]:
    """Return an empty figure and its axes (an array where there are several)."""
    from matplotlib.figure import Figure

    size = (max(7.0, width * columns), 4.2 * rows)
    figure = Figure(figsize=size, layout="constrained", dpi=120)
    axes = figure.subplots(rows, columns)
    for each in figure.axes:
        each.grid(color="0.92", linewidth=0.8)
        each.set_axisbelow(True)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def bands(axes: Any, found: dict[str, dict[float, list[float]]]) -> None:
    """Draw medians of runs against a parameter, in bands of 10 to 90 % of the runs.

    `found` has for each line's name the figures of the runs for each parameter.
    """
    for name, runs in found.items():
        low, middle, high = np.quantile(list(runs.values()), [0.1, 0.5, 0.9], 1)
        axes.fill_between(list(runs), low, high, alpha=0.2)
        axes.plot(list(runs), middle, "o-", label=name)
