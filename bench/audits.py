"""How audits do: planted faults, and sound mechanisms that must not be reported.

    python bench/audits.py faults --runs 20       # the table of docs/audits.md
    python bench/audits.py sound --runs 200

Both use the mechanisms of tests/audit. `faults` audits each once, and runs the check
that it was planted for so many times with other noise. `sound` ends after the first of
so many runs of each mechanism and so many seconds, and says how many runs there were.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from fastdp import audit
from fastdp.audit import (
    _budget,
    _claims,
    _messages,
    _neighbors,
    _run,
    _state,
    _time,
    _worker,
)
from tests.audit import planted, planted_calls

#: Probability that any sound mechanism is reported in any run.
FAMILY = 1e-6

#: Draws of each input: of mechanisms that take a batch, of others, and at edges.
MANY, FEW, EDGES = 4000, 1000, 600


def alone(check: str, given: dict[str, Any], draws: int) -> bool:
    """Return whether one check reports a mechanism, with its share of level 1e-9."""
    mechanism, share = given["mechanism"], 1e-9 / _run._STATISTICAL
    pairs, claims = (
        _neighbors.pairs_of(given["neighbors"]),
        _claims.read(given["claim"]),
    )
    privacy = [c for c in claims if isinstance(c, _claims.PrivacyClaim)]
    inputs = pairs[0].first, pairs[0].second
    if check == "edges":
        found = _run._at_edges(mechanism, pairs[0], privacy, draws, share)
    elif check == "state":
        found = _state.check(mechanism, inputs, share)
    elif check == "messages":
        found = _messages.check(mechanism, inputs)
    elif check == "time":
        found = _time.check(mechanism, inputs, given["timing"], share)
    elif check == "budget":
        found = _budget.check(*given["budget"], inputs[0])
    else:
        laws = [c for c in claims if isinstance(c, _claims.LawClaim)]
        tables = [_run._tables(c, pairs[0]) for c in laws]
        survey = _run._Survey(mechanism, pairs, privacy, tables)
        survey.run(draws)
        if check in ("conduct", "law"):
            found = survey.law(share) if check == "law" else survey.conduct()
        else:
            found = survey.finding(check, share)
    return found.status in ("refuted", "fault")


def faults(runs: int) -> int:
    """Print a table of planted faults; return how many were not found."""
    _time.clock = planted_calls.clock
    missed, seeded = 0, np.random.default_rng
    print("| fault | its check | draws | seconds | found in | reported by |")
    print("|---|---|---|---|---|---|")
    for name, (make, check, draws) in planted.FAULTS.items():
        report = audit.run(**make(), draws=draws)
        by = [f.check for f in report.findings if f.status in ("refuted", "fault")]
        again = 0
        for _ in range(runs):
            # generators that are made with the mechanism start from other seeds
            with mock.patch(
                "numpy.random.default_rng", side_effect=lambda *_: seeded()
            ):
                given = make()
            again += alone(check, given, draws)
        missed += check not in by or again < runs
        print(
            f"| {name.replace('_', ' ')} | {check} | {draws:,} | {report.seconds:.1f} "
            f"| {again} of {runs} | {', '.join(by) or '**nothing**'} |",
            flush=True,
        )
    print(f"\n{len(planted.FAULTS) - missed} of {len(planted.FAULTS)} found")
    return missed


def sound(runs: int, seconds: float) -> int:
    """Audit sound mechanisms again and again; return how many reports there were."""
    every = {**planted.sound(), **planted_calls.sound()}
    level = FAMILY / (runs * len(every))
    _run._AT_EDGES = EDGES
    start, done, reported = time.perf_counter(), Counter[str](), 0
    for _, (name, given) in itertools.product(range(runs), every.items()):
        if time.perf_counter() - start > seconds:
            break
        many = isinstance(given["mechanism"], audit.Batched)
        report = audit.run(**given, draws=MANY if many else FEW, level=level)
        done[name] += 1
        if name == next(reversed(every)):
            said = f"{done[name]} of {runs} runs of each, {reported} reported"
            print(said, file=sys.stderr, flush=True)
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
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=np.inf)
    arguments = parser.parse_args()
    _worker.PATIENCE = 2.0 if arguments.what == "faults" else _worker.PATIENCE
    if arguments.what == "faults":
        return int(faults(arguments.runs) > 0)
    return int(sound(arguments.runs, arguments.seconds) > 0)


if __name__ == "__main__":
    sys.exit(main())
