"""How audits do: planted faults, and sound mechanisms that must not be reported.

    python bench/audits.py faults                 # the table of docs/audits.md
    python bench/audits.py sound --runs 200 --seconds 480

Both use the mechanisms of tests/audit. `sound` ends after the first of so many runs of
each mechanism and so many seconds, and says how many runs there were.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from fastdp import audit
from fastdp.audit import _time, _worker
from tests.audit import planted, planted_calls

#: Probability that any sound mechanism is reported in any run.
FAMILY = 1e-6


def faults() -> int:
    """Print a table of planted faults; return how many were not found."""
    _time.clock = planted_calls.clock
    missed = 0
    print(
        "| fault | its check | draws | seconds | reported by |\n|---|---|---|---|---|"
    )
    for name, (make, check, draws) in planted.FAULTS.items():
        report = audit.run(**make(), draws=draws)
        by = [f.check for f in report.findings if f.status in ("refuted", "fault")]
        missed += check not in by
        print(
            f"| {name.replace('_', ' ')} | {check} | {draws:,} | {report.seconds:.1f} "
            f"| {', '.join(by) or '**nothing**'} |",
            flush=True,
        )
    print(f"\n{len(planted.FAULTS) - missed} of {len(planted.FAULTS)} found")
    return missed


def sound(runs: int, seconds: float) -> int:
    """Audit sound mechanisms again and again; return how many reports there were."""
    every = {**planted.sound(), **planted_calls.sound()}
    level = FAMILY / (runs * len(every))
    start, done, reported = time.perf_counter(), Counter[str](), 0
    for _, (name, given) in itertools.product(range(runs), every.items()):
        if time.perf_counter() - start > seconds:
            break
        many = isinstance(given["mechanism"], audit.Batched)
        report = audit.run(**given, draws=8000 if many else 3000, level=level)
        done[name] += 1
        if report.refuted:
            reported += 1
            print(name, report, sep="\n", flush=True)
    print(
        f"{done.total()} audits of {len(done)} sound mechanisms, {min(done.values())} "
        f"to {max(done.values())} of each, at level {level:.3g}: {reported} reported, "
        f"{time.perf_counter() - start:.0f} s"
    )
    return reported


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("faults", "sound"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=np.inf)
    arguments = parser.parse_args()
    _worker.PATIENCE = 2.0 if arguments.what == "faults" else _worker.PATIENCE
    if arguments.what == "faults":
        return int(faults() > 0)
    return int(sound(arguments.runs, arguments.seconds) > 0)


if __name__ == "__main__":
    sys.exit(main())
