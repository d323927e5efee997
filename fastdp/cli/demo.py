"""``fastdp demo``: a private contingency table of real health records.

The data is the RAND Health Insurance Experiment from statsmodels: 20,190
person-years of the 1970s and 80s, with the number of visits to a doctor and the
state of health. The table's cells are fixed here, before any record is seen, so that
the shape of the release reveals nothing about the records.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import fastdp
from fastdp.cli import _common, _noise_cases, _numbers, _places, _timings
from fastdp.exceptions import FastDPError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The public domain: least number of visits of each group, and states of health.
VISITS_FROM = (0, 1, 3, 6, 11)
VISITS = ("0", "1-2", "3-5", "6-10", "11+")
HEALTH = ("excellent", "good", "fair", "poor")

#: Indicator columns of the states. The first state has none: its rows are all 0.
_INDICATORS = ("hlthg", "hlthf", "hlthp")

#: A person took part for at most this many years, each a row of its own.
_YEARS = 5

_LEVEL = 0.95

_DESCRIPTION = """\
Release a contingency table of the RAND Health Insurance Experiment with a total
privacy budget of epsilon, beside the true counts (for illustration only), and
measure this machine's speed beside numpy's.
"""


@dataclass(frozen=True)
class Demo:
    """One release and the true counts; arrays have shape (health, visits)."""

    mechanism: Any
    epsilon: int | Fraction
    true: npt.NDArray[np.int64]
    private: npt.NDArray[np.int64]
    #: Confidence interval of each true count.
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "demo",
        help="release a contingency table of real health records",
        description=_DESCRIPTION,
    )
    parser.add_argument(
        "--epsilon",
        metavar="E",
        type=_numbers.number,
        default=1,
        help="total budget of the table, per person-year (default: 1)",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="only write the small files that the documentation's examples use",
    )
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw the table: .png, .pdf or .svg"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``fastdp demo`` and return the exit code.

    Notes
    -----
    **Privacy.** The private counts are epsilon-differentially private when one
    person-year is added or removed; exact mechanism. The true counts printed next to
    them are not private: the records are public.
    """
    if arguments.data is not None:
        from fastdp.cli import _demo_data

        written = _demo_data.write(arguments.data)
        print("\n".join(str(path) for path in written))
        if not any(path.name == "health.parquet" for path in written):
            print(
                "fastdp: writing health.parquet (real records) needs statsmodels: "
                'pip install "fastdp[demo]"',
                file=sys.stderr,
            )
        return 0
    if arguments.plot is not None:
        _common.require_plottable(arguments.plot, "demo", "demo")
        _places.require_different(_places.file("--plot", arguments.plot), [])
    # Refuse wrong parameters before the records are read.
    mechanism = fastdp.DiscreteLaplace.from_epsilon(arguments.epsilon, sensitivity=1)
    demo = make(mechanism, arguments.epsilon, load())
    print(describe(demo))
    if arguments.plot is not None:
        draw(demo, arguments.plot)
        print(f"\nThe picture is in {arguments.plot}.")
    print(f"\n{_speed(mechanism)}")
    return 0


def load() -> Mapping[str, npt.NDArray[np.int64]]:
    """Return the columns of the experiment's table that the demo uses.

    Raises
    ------
    FastDPError
        statsmodels, which carries the records, is missing.
    """
    try:
        from statsmodels.datasets import randhie
    except ImportError:
        raise FastDPError(
            'fastdp demo needs statsmodels: pip install "fastdp[demo]"'
        ) from None
    table = randhie.load_pandas().data
    return {
        name: table[name].to_numpy().astype(np.int64)
        for name in ("mdvis", *_INDICATORS)
    }


def count(columns: Mapping[str, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Count the person-years in each cell of the public domain.

    Every record, with any values, falls in exactly one cell, so adding or
    removing one changes the table by exactly 1 in L1.

    Returns
    -------
    ndarray of int64, shape (len(HEALTH), len(VISITS))
    """
    visits = np.searchsorted(VISITS_FROM, columns["mdvis"], side="right") - 1
    visits = np.clip(visits, 0, len(VISITS) - 1)
    health = np.zeros(len(visits), dtype=np.int64)
    for state, name in enumerate(_INDICATORS, start=1):
        health = np.where(columns[name] == 1, state, health)
    shape = (len(HEALTH), len(VISITS))
    cells = np.bincount(health * len(VISITS) + visits, minlength=shape[0] * shape[1])
    return cells.astype(np.int64).reshape(shape)


def make(
    mechanism: Any,
    epsilon: int | Fraction,
    columns: Mapping[str, npt.NDArray[np.int64]],
) -> Demo:
    """Release the table once."""
    true = count(columns)
    private = mechanism.release(true)
    low, high = mechanism.confidence_interval(_LEVEL)
    # Count = release - noise; it is public that a count is at least 0.
    return Demo(
        mechanism,
        epsilon,
        true,
        private,
        np.maximum(private - int(high), 0),
        np.maximum(private - int(low), 0),
    )


def describe(demo: Demo) -> str:
    """Return the text of the demo: setting, table and guarantee."""
    epsilon = _numbers.as_text(demo.epsilon)
    group = _numbers.as_text(demo.epsilon * _YEARS)
    years = f"for groups of {_YEARS} rows epsilon is {_YEARS} times as large: {group}."
    lines = [
        "RAND Health Insurance Experiment: visits to a doctor in a year, by health",
        f"released once by {_numbers.written(demo.mechanism)}: exact discrete noise",
        "",
        "health     visits   private     95 % interval    true *",
    ]
    for row, health in enumerate(HEALTH):
        for column, visits in enumerate(VISITS):
            cell = row, column
            interval = f"[{demo.low[cell]:,}, {demo.high[cell]:,}]"
            lines.append(
                f"{health if column == 0 else '':<10} {visits:>6} "
                f"{demo.private[cell]:>9,} {interval:>17} {demo.true[cell]:>9,}"
            )
    covered = np.count_nonzero((demo.low <= demo.true) & (demo.true <= demo.high))
    lines += [
        "",
        "* true (shown for illustration only; a real release would not print it).",
        f"  {covered} of the {demo.true.size} intervals contain the true count.",
        "",
        f"Guarantee: epsilon = {epsilon} in total for all cells, when one person-year",
        "is added or removed: each lies in exactly one cell (L1 sensitivity 1).",
        "The unit protected is a person-year, not a person. A person has several in",
        f"the table, at most {_YEARS}; {years}",
        "The cells were chosen before the records were read; empty ones get noise too.",
    ]
    return "\n".join(lines)


def _speed(mechanism: Any) -> str:
    """Compare the speed of the demo's own noise with numpy's, for about a second."""
    out = np.zeros(10**6, dtype=np.int64)
    case = _noise_cases.laplace_case(mechanism.scale, out, np.random.default_rng())
    row = _timings.measure(case, 7)
    slow, fast = (f"{1e3 / ns:,.0f}" for ns in (row.ns_high, row.ns_low))
    count = slow if slow == fast else f"{slow} to {fast}"
    speed = (
        f"This machine: {count} million exact samples of this noise a second and core"
    )
    ratio = row.ratio
    if ratio.value is None:
        beside = (
            f".\nIt was too busy to compare: {ratio.low:.1f} to {ratio.high:.1f} times "
            "numpy's rounded Laplace is no ratio.\n"
        )
    else:
        beside = (
            f",\n{ratio.value:.1f} times numpy's rounded Laplace "
            f"({1e3 / row.numpy_ns:,.0f} million), which is neither exact nor secure.\n"
        )
    return f"{speed}{beside}More: fastdp bench"


def draw(demo: Demo, path: Path) -> None:
    """Draw private counts with their intervals, one panel for each state of health.

    Raises
    ------
    FastDPError
        The file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    places = np.arange(len(VISITS))
    panels = figure.subplots(1, len(HEALTH))
    for row, (panel, health) in enumerate(zip(panels, HEALTH, strict=True)):
        panel.bar(
            places - 0.2,
            demo.private[row],
            0.4,
            yerr=_arms(demo, row),
            capsize=3,
            label="private, 95 % interval",
        )
        panel.bar(
            places + 0.2, demo.true[row], 0.4, color="0.75", label="true (illustration)"
        )
        panel.set_title(health)
        panel.set_xticks(places, VISITS)
        panel.set_xlabel("visits in a year")
    panels[0].set_ylabel("person-years")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    epsilon = _numbers.as_text(demo.epsilon)
    figure.suptitle(f"RAND HIE, epsilon = {epsilon} per person-year")
    _common.save_picture(figure, path)


def _arms(demo: Demo, row: int) -> npt.NDArray[np.int64]:
    """Return the lengths of the intervals below and above the bars."""
    arms = [
        demo.private[row] - demo.low[row],
        demo.high[row] - demo.private[row],
    ]
    return np.maximum(np.array(arms, dtype=np.int64), 0)
