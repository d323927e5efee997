"""Prove the lemmas: `python -m tools.lemmas [NAME ...]`.

Every lemma is proved for the constants in use, and must be refuted for each of the
wrong ones that stand beside it: a statement that cannot fail proves nothing. Prints
lemma, page, prover, seconds, and how many wrong constants were found.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from typing import Any

from . import balls, floats, integers, roundings
from ._lemma import LEMMAS, Lemma

MODULES = (integers, floats, balls, roundings)  # each has entered its lemmas
PROVERS: dict[Any, str] = {
    integers.prove: "z3",
    balls.prove: "flint",
    roundings.prove: "gappa",
}


def check(lemma: Lemma) -> list[str]:
    """Return what is wrong with a lemma, its text or its faults."""
    bad = [f"not in the sources: {quote}" for quote in lemma.stale()]
    verdict = lemma.prover(lemma.state())
    if verdict != "proved":
        bad.append(verdict)
    for wrong in lemma.wrong:
        verdict = lemma.prover(lemma.state(**wrong))
        if verdict != "refuted":
            bad.append(f"wrong constant {wrong}: {verdict}")
    if not lemma.wrong:
        bad.append("no wrong constant to find")
    return bad


def main(arguments: list[str] | None = None) -> int:
    """Check all lemmas, or those named."""
    parser = argparse.ArgumentParser(prog="python -m tools.lemmas")
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args(arguments).names
    unknown = set(names) - {lemma.name for lemma in LEMMAS}
    if unknown:
        parser.error(f"no lemma {', '.join(sorted(unknown))}")
    failed = found = proved = skipped = 0
    start = time.perf_counter()
    for lemma in LEMMAS:
        if names and lemma.name not in names:
            continue
        prover = PROVERS[lemma.prover]
        line = f"{lemma.name:28} {lemma.page:26} {prover:6}"
        if prover == "gappa" and shutil.which("gappa") is None:
            print(f"{line}  skipped: no gappa here", flush=True)
            skipped += 1
            continue
        began = time.perf_counter()
        bad = check(lemma)
        line += f"{time.perf_counter() - began:6.2f} s"
        print(
            f"{line}  {len(lemma.wrong)} wrong found" if not bad else line, flush=True
        )
        for words in bad:
            print(f"    FAILED: {words}", flush=True)
        failed += bool(bad)
        proved += not bad
        found += 0 if bad else len(lemma.wrong)
    print(
        f"{proved} lemmas proved, {found} wrong constants found, {failed} failed, "
        f"{skipped} skipped, {time.perf_counter() - start:.0f} s"
    )
    return 1 if failed or not proved else 0


if __name__ == "__main__":
    sys.exit(main())
