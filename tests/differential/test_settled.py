"""Lanes that the core settles by itself, against the Python resolver, bit for bit.

Words and blocks agree with thresholds for 0, 1 or 2 blocks, to their last bit and to
one unit on either side. The program runs under sanitizers.
"""

import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fastdp._exact import Uniform
from tests.differential.exact_programs import SANITIZERS, exact_program
from tests.reference import exact_bits, exact_digits, exact_tilt
from tests.reference.exact_digits import SECOND, flip, real_cuts

pytestmark = pytest.mark.rest

ROOT = Path(__file__).parents[2]
WORD = (1 << 64) - 1
LONG = Fraction(10**300 + 7, 3 * 10**299 + 1)

WHOLE = 1 << 64  # of a response's truth

LAWS = [
    *[("laplace", Fraction(t)) for t in (1e-6, "1/3", 1, 10, "10.5", 19, 90, 700)],
    *[("laplace", Fraction(t)) for t in (LONG, 5000, 10**9, 2**55)],
    *[("gaussian", Fraction(s)) for s in ("1/1000", "1/3", 1, LONG, "8.7", "8.8")],
    *[("gaussian", Fraction(s)) for s in (10, 300 * LONG, 2500, 10**9, 2**55)],
    *[("bernoulli", Fraction(p)) for p in (0, 1e-300, "1/3", 0.1, 1 / LONG, 1)],
    *[("response", Fraction(p)) for p in (0, "1/3", "1/4", 1)],
]


class Lane(NamedTuple):
    """Words of a lane, the seed of its blocks, and blocks that are given."""

    words: Sequence[int]
    seed: int
    given: dict[int, tuple[int, int]]

    def block(self, number: int) -> bytes:
        two = self.given.get(number) or tuple(
            mix(self.seed ^ mix(2 * number + i)) for i in (0, 1)
        )
        return b"".join(word.to_bytes(8, "little") for word in two)


def mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def ties(
    known: int, start: int, threshold: Callable[[int], Any]
) -> Iterator[tuple[int, dict[int, tuple[int, int]]]]:
    """Return prefixes of `known` bits with blocks that go on as the threshold does."""
    for blocks in (0, 1, 2):
        bits = known + 128 * blocks
        lo, _ = threshold(bits + 64)
        for turn in (-1, 0, 1):
            x = min(max((lo >> 64) + turn, 0), (1 << bits) - 1)
            rest = [x >> 64 * i & WORD for i in range(2 * blocks)][::-1]
            yield (
                x >> 128 * blocks,
                {start + i: (rest[2 * i], rest[2 * i + 1]) for i in range(blocks)},
            )


def cuts(masses: Any, rest: Any, column: int) -> Callable[[int], Any]:
    return lambda bits: real_cuts(masses(bits), rest, bits)[column]


def digit_lanes(law: Any, rng: random.Random) -> Iterator[Lane]:
    many = 4 + exact_digits.COPIES

    def low() -> int:
        return rng.getrandbits(64)

    def lane(words: dict[int, int], given: dict[int, tuple[int, int]]) -> Lane:
        full = [0, *(low() for _ in range(many)), low() if law.shift else 0]
        full[1] = rng.randrange(-63, 63) & WORD
        full[3] = rng.randrange(getattr(law, "outcomes", 1))
        for i, word in words.items():
            full[i] = word
        return Lane(full, low(), given)

    for flags in (0, 1, 3, *((4, 5, 12, 15) if law.shift else ())):
        for _ in range(4):
            words = {0: flags}
            if flags & 1:
                words[1] = low()
            if flags & 4:
                words[3] = low()
            yield lane(words, {})
    for column in (0, 127, rng.randrange(128), rng.randrange(128)):
        for x, given in ties(56, 1, cuts(law.first_masses, law.first_rest, column)):
            yield lane({0: 3, 1: x << 8 | column}, given)
    for tail in law.tails:  # a word that is the tail: its own column, above the cut
        word = WORD ^ 255 | tail
        for zeros in (0, 1, 3):
            given = {SECOND + i: (0, 0) for i in range(zeros)}
            yield lane({0: 3, 1: word, 2: 0}, given)
            yield lane({0: 3, 1: word, 2: WORD}, dict.fromkeys(given, (WORD, WORD)))
        if isinstance(law, exact_digits.Laplace):
            theta = partial(flip, law.t.numerator, law.t.denominator)
            for x, given in ties(64, SECOND, theta):
                yield lane({0: 3, 1: word, 2: x}, given)
    if not law.shift:
        return
    column = rng.randrange(law.outcomes)
    for x, given in ties(
        56, 2 * SECOND + 1, cuts(law.second_masses, law.second_rest, column)
    ):
        yield lane({0: 12, 3: x << 8 | column, 4: WORD}, given)
    if not law.low:
        return
    for x, given in ties(
        56, 2 * SECOND + 1, cuts(law.whole_masses, law.second_whole, column)
    ):
        yield lane({0: 12, 3: x << 8 | column, 4: 0}, given)
    for i in {0, len(law.masks) - 1, rng.randrange(len(law.masks))}:
        for x, given in ties(64, 3 * SECOND, lambda bits, i=i: law.top(bits)[i]):
            yield lane({0: 12, 3: low(), 4: x}, given)
    if law.low > exact_digits.SPARE:
        for i in {0, law.low - 1}:
            for x, given in ties(
                64, 4 * SECOND, lambda bits, i=i: law.corrections(bits)[i]
            ):
                yield lane({0: 12, 3: low(), 4: 0, 5: x}, given)


def threshold_of(law: exact_tilt.Tilted, word: int, place: int) -> Callable[[int], Any]:
    """Return what a try's V is compared with, first."""
    found: list[Callable[[int], Any]] = []

    class Spy(Uniform):
        def below(self, bound: Any) -> bool:
            found.append(bound)
            return super().below(bound)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_tilt, "Uniform", Spy)
        law.attempt(word, place, lambda k: bytes(16))
    return found[0]


def try_lanes(law: exact_tilt.Tilted, rng: random.Random) -> Iterator[Lane]:
    def low() -> int:
        return rng.getrandbits(64)

    for _ in range(20):
        yield Lane([1, low(), low()], low(), {})
    for _ in range(4):
        yield Lane([0, 0, 0], low(), {})
    _, alias = law.columns
    for outcome in (0, 127):  # tails; few units: their own column, below no cut
        for v in (0, 1, (1 << 39) - 1):
            word = ((1 << 17) - 1) << 47 | v << 8 | alias.index(alias[outcome])
            word = word if alias[outcome] == outcome else v << 8 | outcome
            yield Lane([1, word, low()], low(), {})
            own = law.columns[0][outcome] << 47 | v << 8 | outcome
            yield Lane([1, own, low()], low(), {SECOND: (0, low())})
    for _ in range(3):  # V next to its threshold, found in the resolver
        column, place = rng.randrange(128), low()
        word = rng.getrandbits(17) << 47 | column
        for x, given in ties(39, 0, threshold_of(law, word, place)):
            yield Lane([1, word | x << 8, place], low(), given)


def labels_of(parameter: Fraction) -> tuple[int, int]:
    """Return the categories and 2**64 times the truth of a response of a test."""
    rng = random.Random(f"{parameter}")
    k = rng.choice([2, 3, 64, 65, 2**16, 2**16 + 1, 2**31 - 1, rng.randrange(2, 2**31)])
    return k, WHOLE * parameter.numerator // parameter.denominator


class Bits(NamedTuple):
    """Patterns of eight bits, and what settles them."""

    table: exact_bits.Patterns

    def settle(self, words: Sequence[int], block: Any) -> int:
        return exact_bits.bernoulli(self.table)((words[0], words[1], 0), block)

    def lanes(self, rng: random.Random) -> Iterator[Lane]:
        for column in rng.sample(range(256), 4):
            cut = Fraction(self.table.cut[column], self.table.whole)
            for x, given in ties(64, 0, exact_bits.rational(cut)):
                yield Lane([x, column], rng.getrandbits(64), given)
            yield Lane([rng.getrandbits(64), column], rng.getrandbits(64), {})


class Labels(NamedTuple):
    """Responses of some categories, and what settles them."""

    categories: int
    truth: int

    def settle(self, words: Sequence[int], block: Any) -> int:
        settle = exact_bits.response(Fraction(self.truth, WHOLE), self.categories)
        return settle((words[0], words[1], words[2]), block)

    def lanes(self, rng: random.Random) -> Iterator[Lane]:
        k, truth = self.categories, Fraction(self.truth, WHOLE)
        bits = exact_bits.word_bits(k) + 64
        for fair in (0, 1):
            if truth == 1 and not fair:
                continue
            rate = Fraction(k) if fair else (k - 1) / (1 - truth)
            for step in {1, k - 1, rng.randrange(1, k)}:
                for x, given in ties(bits, 0, exact_bits.rational(step / rate)):
                    words = [x >> 64, x & WORD, fair]
                    yield Lane(words, rng.getrandbits(64), given)
            first = rng.getrandbits(bits - 64)
            words = [first, rng.getrandbits(64), fair]
            yield Lane(words, rng.getrandbits(64), {})


def law_of(family: str, parameter: Fraction) -> Any:
    if family == "bernoulli":
        return Bits(exact_bits.patterns(parameter))
    if family == "response":
        return Labels(*labels_of(parameter))
    law = exact_digits.laplace if family == "laplace" else exact_tilt.gaussian
    return law(parameter)


def number(x: int) -> str:
    limbs = [x >> 64 * i & WORD for i in range((x.bit_length() + 63) // 64)]
    return " ".join(f"{part:x}" for part in (len(limbs), *limbs))


def line(family: str, parameter: Fraction, lane: Lane) -> str:
    parts = [len(lane.words), *lane.words, len(lane.given)]
    parts += [part for k, two in lane.given.items() for part in (k, *two)]
    numbers = " ".join(f"{part:x}" for part in (lane.seed, *parts))
    pair = (parameter.numerator, parameter.denominator)
    two = labels_of(parameter) if family == "response" else pair
    return f"{family[0]} {number(two[0])} {number(two[1])} {numbers}\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("settle")
    return exact_program(folder, "settle.c", SANITIZERS[0])


@pytest.fixture(scope="module", params=SANITIZERS)
def checked(tmp_path_factory: pytest.TempPathFactory, request: Any) -> Path:
    return exact_program(tmp_path_factory.mktemp("settle"), "settle.c", request.param)


def lanes_of(family: str, parameter: Fraction, seed: int = 0) -> tuple[Any, list[Lane]]:
    rng = random.Random(f"{family} {parameter} {seed}")
    law = law_of(family, parameter)
    if isinstance(law, Bits | Labels):
        return law, list(law.lanes(rng))
    lanes = try_lanes if isinstance(law, exact_tilt.Tilted) else digit_lanes
    return law, list(lanes(law, rng))


def told(program: Path, text: str, *more: str) -> list[str]:
    run = subprocess.run(
        [program, *more], input=text, capture_output=True, text=True, env={}
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stdout[-200:]
    return run.stdout.splitlines()


def settled(table: Any, lanes: Sequence[Lane]) -> list[tuple[int, int, int]]:
    """Return what Python gives: kept, low and high word."""
    found = []
    for lane in lanes:
        value = table.settle(lane.words, lane.block)
        x = (value or 0) & ((1 << 128) - 1)
        found.append((int(value is not None), x & WORD, x >> 64))
    return found


def answers(lines: Sequence[str]) -> list[tuple[int, int, int]]:
    found = []
    for answer in lines:
        kept, low, high = (int(part, 16) for part in answer.split())
        found.append((kept, low, high) if kept else (0, 0, 0))
    return found


@pytest.mark.parametrize(
    ("family", "parameter"), LAWS, ids=[f"{f}-{float(x):.6g}" for f, x in LAWS]
)
def test_lanes_are_those_of_python(
    program: Path, family: str, parameter: Fraction
) -> None:
    table, lanes = lanes_of(family, parameter)
    text = "".join(line(family, parameter, lane) for lane in lanes)
    assert answers(told(program, text)) == settled(table, lanes)


@pytest.mark.parametrize(
    ("family", "parameter"),
    [LAWS[9], LAWS[14], LAWS[19], ("bernoulli", 1 / LONG), ("response", LAWS[-2][1])],
    ids="lgtbr",
)
def test_memory_of_every_size(checked: Path, family: str, parameter: Fraction) -> None:
    """Too little memory is a failure, never another value."""
    _, lanes = lanes_of(family, parameter)
    some = "".join(line(family, parameter, x) for x in lanes[:: len(lanes) // 4])
    assert told(checked, some, "sizes")


def test_bits_that_never_decide_end(program: Path) -> None:
    """A uniform that follows theta for all 8,192 bits is refused; 4,000 are settled."""
    t = Fraction(10)
    column = 127  # its word is above its column's cut: the tail
    for blocks, refused in ((31, False), (70, True)):
        bits = 64 + 128 * blocks
        x = flip(10, 1, bits + 64)[0] >> 64
        rest = [x >> 64 * i & WORD for i in range(2 * blocks)][::-1]
        given = {SECOND + i: (rest[2 * i], rest[2 * i + 1]) for i in range(blocks)}
        words = [3, WORD ^ 255 | column, x >> 128 * blocks, *[0] * 7]
        lane = Lane(words, 1, given)
        (answer,) = told(program, line("laplace", t, lane))
        kept, low, high = (int(part, 16) for part in answer.split())
        if refused:
            assert (kept, low, high) == (-1, 0, 0)
        else:
            value = exact_digits.laplace(t).settle(words, lane.block)
            assert (kept, low | high << 64) == (1, value & ((1 << 128) - 1))
