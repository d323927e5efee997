"""The claims of docs/benchmarks.md: written from results, checked by measuring anew.

    python -m tools.claims write          # measure every level of this machine
    python -m tools.claims write --kept   # the page alone, from bench/results
    python -m tools.claims check          # this machine beside the claims

A result is what ``fastdp bench --json`` prints, a file for a level and a length, with
the times that each of as many processes as there are processors takes, all at once. A
claim is numpy's least time over ours, on the processor where that is least: memory
differs more than arithmetic. A line fails the check where its ratio is below
`SHARE` of the claim (`ELSEWHERE` on a processor that was never measured) in each of
three passes, the later ones with more rounds: a busy machine lets a line pass in one of
them, code that became slower in none.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from fastdp import _core
from fastdp.cli import _timings, bench

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"

#: The least share of a claim that a line may reach: on a processor whose results we
#: have, and on others.
SHARE, ELSEWHERE = 0.6, 0.4

#: Every level includes those after it. Long arrays are measured on all processors at
#: once at these levels only, for the time that it takes.
LEVELS = tuple(reversed(_core.LEVELS))
_SHARED = ("avx512vbmi", "avx2")

#: Lengths: the call, within a core's cache, and beyond the last, with the rounds of a
#: result and of the first pass of a check; the factors are those of its passes.
ROUNDS = {10**3: (31, 15), 2**15: (31, 30), 10**7: (5, 3)}
_PASSES = (1, 3, 6)

#: Settings of glibc's allocator. One process measures under each setting, and the least
#: ratio of a line is claimed. The allocator keeps an array of 1e5 bytes or gives it
#: back, depending on earlier calls of the process: some lines differ by a factor of 2.
_ALLOCATORS: tuple[dict[str, str], ...] = (
    {},
    {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)},
)

CORES = os.cpu_count() or 1

#: Times of a row: ours and numpy's.
_TIMES = ("ns_least", "numpy_ns_least")

_BLOCK = re.compile(r"(?<=<!-- claims: begin -->\n).*(?=<!-- claims: end -->)", re.S)

Result: TypeAlias = "dict[str, Any]"
#: Table, name of the line, length of the arrays.
Key: TypeAlias = "tuple[str, str, int]"


# ---- results ---------------------------------------------------------------------


def measure() -> None:
    """Write the results of every level that this machine has."""
    own = LEVELS.index(bench.machine()["cpu"])
    RESULTS.mkdir(exist_ok=True)
    for level in LEVELS[own:]:
        for n, (rounds, _) in ROUNDS.items():
            start = time.perf_counter()
            command = f"bench --json --n {n} --repetitions {rounds}".split()
            settings = _ALLOCATORS if n <= 10**6 else _ALLOCATORS[:1]
            runs = [_run(command, {"FASTDP_CPU": level, **s})[0] for s in settings]
            shared = n <= 10**6 or level in _SHARED
            together = _run(command, {"FASTDP_CPU": level}, CORES) if shared else []
            result = runs[0]
            for table in bench.TABLES:
                lines = zip(*(run[table] for run in runs), strict=True)
                result[table] = [min(line, key=ratio) for line in lines]
                others = zip(*(run[table] for run in together), strict=True)
                for row, rows in zip(result[table], others, strict=False):
                    for name in _TIMES:
                        row[f"{name}_all"] = sum(r[name] for r in rows) / CORES**2
            assert result["setting"]["cpu"] == level
            path = RESULTS / f"{level}-{n}.json"
            if path.exists():
                result = least_of(json.loads(path.read_text()), result)
            path.write_text(as_lines(result))
            print(f"{path.name}: {time.perf_counter() - start:.0f} s", flush=True)


def least_of(kept: Result, result: Result) -> Result:
    """Return the result, with the lines that are slower on processors of the kept one.

    A result of the same processor replaces the kept one.
    """
    known, own = (part["setting"]["processor"] for part in (kept, result))
    if known == own:
        return result
    both = known if own in known.split("; ") else f"{known}; {own}"
    merged: Result = {"setting": {**result["setting"], "processor": both}}
    for table in bench.TABLES:
        rows = {row["name"]: row for row in kept[table]}
        merged[table] = [
            min(row, rows.get(row["name"], row), key=ratio) for row in result[table]
        ]
    return merged


def _run(command: list[str], settings: dict[str, str], copies: int = 1) -> list[Result]:
    """Return the results of so many processes at once."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "fastdp.cli", *command],
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
        )
        for _ in range(copies)
    ]
    printed = [run.communicate()[0] for run in runs]
    assert not any(run.returncode for run in runs)
    return [json.loads(text) for text in printed]


def as_lines(result: Result) -> str:
    """Return a result as JSON, one line for each of its rows."""
    parts = [f'"setting": {json.dumps(result["setting"], indent=1)}']
    for table in bench.TABLES:
        rows = ",\n".join(json.dumps(_rounded(row)) for row in result[table])
        parts.append(f'"{table}": [\n{rows}\n]')
    return "{" + ",\n".join(parts) + "}\n"


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in row.items()
    }


def results(level: str) -> dict[int, Result]:
    """Return the results of a level by length, none where it was not measured."""
    found = [json.loads(path.read_text()) for path in RESULTS.glob(f"{level}-*.json")]
    return {result["setting"]["n"]: result for result in found}


# ---- the page --------------------------------------------------------------------


def ratio(row: dict[str, Any]) -> float:
    """Return the claim of a row: numpy's least time over ours."""
    return float(row["numpy_ns_least"] / row["ns_least"])


def _ratio_all(row: dict[str, Any]) -> float:
    """Return the same with a process on each processor; NaN if not measured."""
    ours = row.get("ns_least_all", float("nan"))
    return float(row.get("numpy_ns_least_all", 0.0) / ours)


def block() -> str:
    """Return the tables of all levels that were measured."""
    return "".join(
        "\n".join(_level_lines(level, found)) + "\n\n"
        for level in LEVELS
        if (found := results(level))
    )


def _level_lines(level: str, found: dict[int, Result]) -> Iterator[str]:
    lengths = sorted(found)
    setting = found[lengths[0]]["setting"]
    yield f"### Level {level}"
    yield ""
    yield (
        f"{setting['processor']}, {setting['compiler']}, cipher {setting['cipher']}, "
        f"numpy {setting['numpy']}, Python {setting['python']}."
    )
    yield ""
    cells = [f"ns, n = {n:,} | ratio | on all" for n in lengths]
    yield f"| line | {' | '.join(cells)} |"
    yield "|---|" + "---|" * (3 * len(cells))
    for table in bench.TABLES:
        rows = [{row["name"]: row for row in found[n][table]} for n in lengths]
        for name in dict.fromkeys(name for each in rows for name in each):
            cells = [_cells(each.get(name)) for each in rows]
            yield f"| {name} | {' | '.join(cells)} |"


def _cells(row: dict[str, Any] | None) -> str:
    if row is None:
        return "- | - | -"
    return " | ".join(
        "-" if value != value else f"{value:,.2f}" if value < 10 else f"{value:,.1f}"
        for value in (row["ns_least"], ratio(row), _ratio_all(row))
    )


def page(text: str) -> str:
    """Return the page with the tables of the results."""
    assert _BLOCK.search(text)
    return _BLOCK.sub(lambda _: block(), text)


# ---- the check -------------------------------------------------------------------


def claims(setting: dict[str, str]) -> tuple[str, dict[Key, float]] | str:
    """Return the level whose claims hold here and the claims, or why there are none.

    Those of the level at hand; where it was never measured, of the widest one below,
    which it must reach as well.
    """
    for level in LEVELS[LEVELS.index(setting["cpu"]) :]:
        found = {
            n: result
            for n, result in results(level).items()
            if all(
                result["setting"][name] == setting[name]
                for name in ("machine", "cipher")
            )
        }
        if found:
            return level, {
                (table, row["name"], n): ratio(row)
                for n, result in found.items()
                for table in bench.TABLES
                for row in result[table]
            }
    return f"no claim for {setting['machine']}, {setting['cpu']}, {setting['cipher']}"


def measured(keys: set[Key], n: int, rounds: int) -> Iterator[tuple[Key, float]]:
    """Yield the ratios of the lines with these keys, of one length, that are there."""
    for table, cases in bench.TABLES.items():
        for case in cases(n):
            if (key := (table, case.name, n)) in keys:
                row = _timings.measure(dataclasses.replace(case, best=None), rounds)
                yield key, row.numpy_ns_least / row.ns_least


def shortfalls(claimed: dict[Key, float], share: float = SHARE) -> list[str]:
    """Return the lines that fail, in words, after all passes."""
    best: dict[Key, float] = {}
    pending = set(claimed)
    for factor in _PASSES:
        for n in sorted({n for _, _, n in pending}):
            for key, value in measured(pending, n, ROUNDS[n][1] * factor):
                best[key] = max(value, best.get(key, 0.0))
        pending = {key for key in pending if best.get(key, 0.0) < share * claimed[key]}
        for key in sorted(pending):
            print(f"below in rounds x {factor}: {_words(key, claimed, best)}")
    return [_words(key, claimed, best) for key in sorted(pending)]


def _words(key: Key, claimed: dict[Key, float], best: dict[Key, float]) -> str:
    _, name, n = key
    if key not in best:
        return f"{name}, n = {n:,}: claimed, and there is no such line"
    share = best[key] / claimed[key]
    return f"{name}, n = {n:,}: {best[key]:.2f}, {share:.0%} of {claimed[key]:.2f}"


def check() -> int:
    """Measure this machine beside the claims; return the exit code."""
    text = PAGE.read_text()
    if page(text) != text:
        print(f"{PAGE.name} is not what bench/results gives: tools.claims write --kept")
        return 1
    setting = bench.machine()
    found = claims(setting)
    if isinstance(found, str):
        print(f"claims: skipped, {found}")
        return 0
    level, claimed = found
    print(f"level {setting['cpu']} on {setting['processor']}, claims of level {level}")
    start = time.perf_counter()
    known = "; ".join(r["setting"]["processor"] for r in results(level).values())
    share = SHARE if setting["processor"] in known.split("; ") else ELSEWHERE
    failed = shortfalls(claimed, share)
    for words in failed:
        print(f"FAILED {words}")
    print(
        f"{len(claimed) - len(failed)} of {len(claimed)} ratios reach {share:.0%} of "
        f"their claims, {time.perf_counter() - start:.0f} s"
    )
    return 1 if failed else 0


def main(arguments: list[str] | None = None) -> int:
    """Write the claims, or check them."""
    parser = argparse.ArgumentParser(prog="python -m tools.claims")
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="measure, and write the page")
    writing.add_argument("--kept", action="store_true", help="measure nothing anew")
    commands.add_parser("check", help="measure this machine beside the claims")
    asked = parser.parse_args(arguments)
    if asked.command == "check":
        return check()
    if not asked.kept:
        measure()
    PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
