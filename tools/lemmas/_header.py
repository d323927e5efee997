"""The polynomials as the C header has them."""

from __future__ import annotations

import re
from fractions import Fraction

from ._lemma import ROOT

TEXT = (ROOT / "csrc" / "sampler" / "constants.h").read_text()
LITERAL = r"\(?(-?0x[0-9a-f.]+p[+-]\d+)f?\)?"


SELECTION = (ROOT / "csrc" / "sampler" / "selection.h").read_text()
#: The coefficients of integer upper bounds of weights.
PROPOSAL = [
    int(value, 16)
    for value in re.findall(r"FDP_PROPOSAL_C\d UINT64_C\((0x[0-9a-f]+)\)", SELECTION)
]


def constant(name: str) -> Fraction:
    """Return FDP_<name>, a hexadecimal literal."""
    found = re.search(rf"^#define FDP_{name} {LITERAL}$", TEXT, re.M)
    if found is None:
        raise KeyError(name)
    return Fraction(float.fromhex(found[1]))


def coefficients(name: str) -> dict[int, Fraction]:
    """Return those of the whole expression of LOG or EXP, by power."""
    found = re.findall(rf"^#define FDP_{name}_C(\d+) {LITERAL}$", TEXT, re.M)
    free = {int(power): Fraction(float.fromhex(value)) for power, value in found}
    return {1: Fraction(1), **free} if name == "LOG" else {0: Fraction(1), **free}
