"""``fastdp bench``: speed compared with numpy's, measured on this machine in one run.

Every line times a call of this package and the call that a numpy user would
write instead, in turn, so that a busy machine slows both. numpy's noise is
rounded, statistical and not private: it is only a yardstick.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any, TypeAlias

import fastdp
from fastdp import _validate
from fastdp.cli import _local_cases, _noise_cases, _selection_cases, _timings
from fastdp.cli._timings import Row

_DESCRIPTION = """\
Measure every kernel beside numpy's rounded analogue in the same run: noise written
into the same array, local randomizers and the decoding of their reports, and private
selection. Times are the median and the interquartile range over interleaved
repetitions; "ratio" is numpy's time divided by ours, the median over the
repetitions, or "noisy" where these differ too much.
"""

#: Functions that yield the lines of each table, for arrays of about a given size.
TABLES = {
    "kernels": _noise_cases.cases,
    "local": _local_cases.cases,
    "selection": _selection_cases.cases,
}
_TITLES = {
    "kernels": "noise",
    "local": "local randomizers",
    "selection": "private selection",
}

#: Lines of each table.
Tables: TypeAlias = "dict[str, list[Row]]"


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "bench",
        help="measure this machine beside numpy",
        description=_DESCRIPTION,
    )
    parser.add_argument(
        "--quick", action="store_true", help="small arrays and few repetitions"
    )
    parser.add_argument(
        "--n",
        metavar="N",
        type=int,
        help="length of the arrays (default: 10,000,000; quick: 1,000,000)",
    )
    parser.add_argument(
        "--repetitions",
        metavar="R",
        type=int,
        help="timings of each call, at least 5 (default: 11; quick: 5)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``fastdp bench`` and return the exit code.

    Raises
    ------
    ParameterError
        The length of the arrays is not a positive number, or the repetitions are too
        few for a ratio.
    """
    default = 10**6 if arguments.quick else 10**7
    size = default if arguments.n is None else arguments.n
    size = _validate.integer("n", size, 1, 2**31)
    repetitions = arguments.repetitions
    if repetitions is None:
        repetitions = 5 if arguments.quick else 11
    repetitions = _validate.integer("repetitions", repetitions, _timings.FEWEST)
    tables = {
        name: [_timings.measure(case, repetitions) for case in cases(size)]
        for name, cases in TABLES.items()
    }
    setting = {**machine(), "n": size, "repetitions": repetitions}
    print((_as_json if arguments.json else _as_table)(setting, tables))
    return 0


def machine() -> dict[str, str]:
    """Return the facts that affect speed: `show_config` and the processor."""
    return {**fastdp.show_config(), "processor": _processor()}


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    found = {name.strip(): value.strip() for name, _, value in pairs}
    if "model name" not in found:
        return platform.processor()
    number = f"family {found.get('cpu family')}, model {found.get('model')}"
    return f"{found['model name']} ({number})"


def _as_json(setting: dict[str, Any], tables: Tables) -> str:
    lines = {
        name: [_timings.as_dict(row) for row in rows] for name, rows in tables.items()
    }
    return json.dumps({"setting": setting, **lines}, indent=2)


def _as_table(setting: dict[str, Any], tables: Tables) -> str:
    lines = [
        (
            f"fastdp {setting['fastdp']}, CPU level {setting['cpu']}, "
            f"cipher {setting['cipher']}, numpy {setting['numpy']}; "
            f"one core, {setting['repetitions']} interleaved repetitions"
        ),
        "",
    ]
    for name, rows in tables.items():
        lines += [*_row_lines(_TITLES[name], rows), ""]
    lines += [
        "ns and random bytes are for one sample: a value, a bit, a candidate, or a",
        "user with the whole report; ratio = numpy's time / ours. Best are the",
        "fastest lines of numpy that we know (SFC64, arrays in place, blocks in cache,",
        "words of 16 bits), where they differ. numpy's laws are rounded, and its state",
        "can be computed from its output: not exact, not secure, not private.",
    ]
    every = [row.ratio for rows in tables.values() for row in rows]
    return "\n".join(lines + _timings.noisy_lines(every))


def _row_lines(title: str, rows: list[Row]) -> list[str]:
    lines = [
        (
            f"{title:<40} {'n':>10} {'ns':>8} {'(IQR)':>17} {'M/s':>7} {'bytes':>6} "
            f"{'numpy ns':>9} {'ratio':>6} {'best ns':>8} {'/ ours':>6}"
        )
    ]
    for row in rows:
        spread = f"({row.ns_low:.2f}-{row.ns_high:.2f})"
        best = ("-", "-")
        if row.best_ns is not None and row.best_ratio is not None:
            best = (f"{row.best_ns:.2f}", row.best_ratio.shown(1))
        need = "-" if row.random_bytes is None else f"{row.random_bytes:.1f}"
        lines.append(
            f"{row.name:<40} {row.size:>10,} {row.ns:>8.2f} {spread:>17} "
            f"{row.million_per_second:>7.0f} {need:>6} {row.numpy_ns:>9.2f} "
            f"{row.ratio.shown(1):>6} {best[0]:>8} {best[1]:>6}"
        )
    return lines
