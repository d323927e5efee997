"""Settles many lanes in C and in Python, by hand.

``python -m tests.differential.settle_many KIND COUNT``: the kinds are laplace, gaussian
(sigma up to 8.7), tilted (above), bernoulli and response. The laws are those of
`test_settled` and drawn ones by turns; the lanes are of any words and of words next to
every kind of threshold.
"""

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastdp._exact import exp_neg
from tests.differential.test_made_laws import drawn
from tests.differential.test_settled import (
    LAWS,
    ROOT,
    WHOLE,
    Bits,
    Labels,
    Lane,
    answers,
    digit_lanes,
    law_of,
    line,
    settled,
    told,
    try_lanes,
)
from tests.reference import exact_digits, exact_tilt

BATCH = 20_000
TURNS = 8  # of the lanes of a law
ONE_DIGIT = Fraction(87, 10)
MASSES = ("first_masses", "second_masses", "whole_masses", "top", "corrections")


def parameters(kind: str, rng: random.Random) -> Iterator[Fraction]:
    family = "gaussian" if kind == "tilted" else kind
    known = [x for f, x in LAWS if f == family]
    if family == "gaussian":
        known = [x for x in known if (x > ONE_DIGIT) == (kind == "tilted")]
    while True:
        for x in known:
            yield x
            if kind == "response":
                yield Fraction(rng.randrange(WHOLE), WHOLE)
            elif kind == "bernoulli":
                yield Fraction(rng.getrandbits(64), 1 << rng.choice([64, 90, 300]))
            elif kind == "gaussian":
                yield Fraction(2.0 ** rng.uniform(-9.9, 3.1))
            else:
                x = drawn(family, rng)
                if kind != "tilted" or x > ONE_DIGIT:
                    yield x


def remember(law: Any) -> Any:
    """Return the law with what it computes from the number of bits alone kept."""
    cuts = exact_digits.real_cuts.__wrapped__  # type: ignore[attr-defined]
    found: dict[Any, Any] = {}

    def kept(masses: Any, rest: Any, bits: int) -> Any:
        key = rest.alias, rest.order, bits, masses[0]
        if key not in found:
            found[key] = cuts(masses, rest, bits)
        return found[key]

    kept.__wrapped__ = cuts  # type: ignore[attr-defined]
    exact_digits.real_cuts = kept
    if isinstance(law, exact_digits.Digits):
        for name in MASSES:
            if hasattr(law, name):
                setattr(law, name, lru_cache(maxsize=64)(getattr(law, name)))
    return law


def lanes_of(law: Any, rng: random.Random) -> list[Lane]:
    if isinstance(law, Bits | Labels):
        some: Any = type(law).lanes
    else:
        some = try_lanes if isinstance(law, exact_tilt.Tilted) else digit_lanes
    return [lane for _ in range(TURNS) for lane in some(law, rng)]


def build(folder: Path) -> Path:
    program = folder / "settle"
    command = ["cc", "-std=c11", "-O2", "-D_DEFAULT_SOURCE", f"-I{ROOT / 'csrc'}"]
    command += [str(ROOT / "tests" / "differential" / "settle.c")]
    command += sorted(map(str, (ROOT / "csrc" / "exact").glob("*.c")))
    subprocess.run([*command, "-lm", "-o", str(program)], check=True)
    return program


def compare(program: Path, kind: str, count: int) -> int:
    """Return how many of at least `count` lanes differ."""
    rng = random.Random(f"{kind} {count}")
    family = "gaussian" if kind == "tilted" else kind
    text: list[str] = []
    wanted: list[tuple[int, int, int]] = []
    done = wrong = 0
    for laws, parameter in enumerate(parameters(kind, rng), 1):
        table = remember(law_of(family, parameter))
        lanes = lanes_of(table, rng)
        text += [line(family, parameter, lane) for lane in lanes]
        wanted += settled(table, lanes)
        if len(wanted) >= min(BATCH, count - done):
            got = answers(told(program, "".join(text)))
            wrong += sum(x != y for x, y in zip(got, wanted, strict=True))
            done += len(wanted)
            text, wanted = [], []
            print(f"{kind}: {done} lanes of {laws} laws, {wrong} differ", flush=True)
            if done >= count:
                return wrong
    return wrong


if __name__ == "__main__":
    exact_digits.real_cuts.__wrapped__ = exact_digits.real_cuts  # type: ignore[attr-defined]
    exact_digits.exp_neg = exact_tilt.exp_neg = lru_cache(maxsize=1 << 12)(exp_neg)
    with tempfile.TemporaryDirectory() as folder:
        differ = compare(build(Path(folder)), sys.argv[1], int(sys.argv[2]))
    sys.exit(differ != 0)
