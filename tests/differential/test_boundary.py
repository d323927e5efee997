"""Words made at thresholds: on either side, as far as each stage can see.

Words and the first extension block come from a tape. Each case lies at a relative
distance of 2**-14 to 2**-120 from a threshold, or agrees with it to the last bit
that the tape holds, so that the first stage, the second and the resolver all
have cases that are theirs to decide. (Alias digits: test_digit_edges.py.)
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest

from fastdp import _core
from fastdp.testing import TapeStream
from tests.differential.layout import GROUP, Law, bytes_of, values
from tests.differential.test_samplers import GAUSSIAN, LEVELS
from tests.reference.interval import More, exp_minus

#: Relative distances from a threshold, as powers of two.
DISTANCES = (14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 31, 32, 33, 36, 40, 42)
DISTANCES += (43, 44, 45, 46, 47, 48, 50, 52, 56, 60, 62, 63, 64, 65)
FAR = (72, 80, 84, 88, 92, 96, 98, 100, 102, 104, 108, 120)
BITS = 700
TRIALS = 4 * GROUP
#: Known bits of the extension block on the tape.
MORE = 128


#: The words of a trial and its first extension block.
Trial: TypeAlias = "tuple[int | bytes, ...]"


class Case(NamedTuple):
    """The words of one trial and its first extension block."""

    words: tuple[int, ...]
    block: int


def beside(
    threshold: int, known: int, distances: tuple[int, ...] = DISTANCES + FAR
) -> Iterator[int]:
    """Numbers of `known` bits around threshold * 2**-BITS, both sides."""
    down = BITS - known
    exact = threshold >> down
    for distance in distances:
        off = threshold >> distance
        yield threshold - off >> down
        yield threshold + off >> down
    yield from (exact - 2, exact - 1, exact, exact + 1, exact + 2)


def ends(nbits: int) -> Iterator[int]:
    """The first and the last numbers of `nbits` bits."""
    for x in (0, 1, 2, 3, 15, 16, 17, 255):
        yield from (x, (1 << nbits) - 1 - x)
    yield from (1 << k for k in range(nbits))


def extension_block(bits: int) -> bytes:
    high, low = divmod(bits, 1 << 64)
    return high.to_bytes(8, "little") + low.to_bytes(8, "little")


# --- discrete Gaussian --------------------------------------------------------------


def gaussian_cases(law: Law, rng: np.random.Generator) -> Iterator[Case]:
    sigma, table = law.parameter, law.table
    j = table.j
    wide = table.kind == "wide"
    vbits = 31 if wide else 31 - j
    pick = selectors(law)
    top = (1 << j) - 1
    for h in range(32):
        lows = {0, top, int(rng.random() * top)}
        for low in sorted(lows | {1 & top} if h < 2 else lows):
            m = h << j | low
            if h == 31:
                weight = Fraction(table.tail)
            elif m == 0:
                weight = Fraction(1, 2)
            else:
                exponent = Fraction(m * m) / (2 * sigma**2)
                weight = Fraction(exp_minus(exponent, BITS)[0], 1 << BITS)
            threshold = int(weight / (table.n[h] * Fraction(table.c)) * 2**BITS)
            # No stage lies between 64 bits and the resolver here.
            numbers = set(beside(threshold, vbits + MORE, DISTANCES[::2]))
            numbers |= {0, 1, 1 << MORE}
            if h == 31:
                numbers |= {threshold >> (BITS - vbits - MORE + k) for k in range(60)}
            for full in sorted(numbers):
                if 0 <= full < 1 << (vbits + MORE):
                    v, block = divmod(full, 1 << MORE)
                    yield Case(joined(law, pick[h], low, v, rng), block)
    for v in ends(vbits):
        selector, low = int(rng.integers(1 << 16)), int(rng.random() * top)
        block = int.from_bytes(rng.bytes(16))
        yield Case(joined(law, selector, low, v, rng), block)


def joined(
    law: Law, selector: int, low: int, v: int, rng: np.random.Generator
) -> tuple[int, ...]:
    """Lay L, V and a random sign out in the words of a trial."""
    j, sign = law.table.j, int(rng.integers(2))
    if law.table.kind == "narrow":
        return selector, (v << j | low) << 1 | sign
    beyond = int(rng.integers(1 << 62)) % (1 << (64 - j))
    return selector, v << 1 | sign, low << (64 - j) | beyond


def selectors(law: Law) -> dict[int, int]:
    """A selector of each block, through an alias where there is one."""
    found: dict[int, int] = {}
    for selector in range(8192):
        h = law.table.split(selector, 0)[0]
        if h not in found or h != selector >> 8:
            found[h] = selector
    assert len(found) == 32
    return found


# --- the tests ----------------------------------------------------------------------


class Tape(NamedTuple):
    """Cases of one law in chunks of 4096 trials, and what the reference says."""

    words: list[np.ndarray]
    main: np.ndarray
    more: np.ndarray
    value: np.ndarray
    kept: np.ndarray

    @property
    def chunks(self) -> int:
        return len(self.main)

    def stream(self) -> TapeStream:
        return TapeStream(self.main, self.more)


@lru_cache(maxsize=8)
def tape_of(law: Law) -> Tape:
    """Lay the cases out in a random order among random words."""
    rng = np.random.default_rng(11)
    cases = list(gaussian_cases(law, rng))
    # Half of a chunk: the second stage has a bounded number of lanes a pass, and
    # what a chunk yields must not exceed what it is asked for.
    chunks = -(-len(cases) // (TRIALS // 2))
    order = rng.permutation(chunks * TRIALS)[: len(cases)]
    words = [
        rng.integers(0, 1 << 8 * size, chunks * TRIALS, np.uint64, endpoint=False)
        if size < 8
        else rng.integers(0, 1 << 64, chunks * TRIALS, np.uint64)
        for size in law.parts
    ]
    more = rng.integers(0, 256, (chunks * TRIALS, 16), np.uint8)
    for place, case in zip(order.tolist(), cases, strict=True):
        for part, word in zip(words, case.words, strict=True):
            part[place] = word
        more[place] = np.frombuffer(extension_block(case.block), np.uint8)
    words = [w.astype(f"<u{size}") for w, size in zip(words, law.parts, strict=True)]
    main = np.frombuffer(bytes_of(law.parts, words), np.uint8).reshape(chunks, -1)
    more = more.reshape(chunks, -1)
    call = _core.Call(TapeStream(main, more))

    def block(i: int) -> More:
        return lambda k: call.extension(i // TRIALS, i % TRIALS, k)

    value, kept = values(law, words, block)
    return Tape(words, main, more, value, kept)


def counted(law: Law) -> tuple[_core.Sampler, set[Trial]]:
    """Return the law's sampler and the set of trials that reach its resolver."""
    own = law.resolver()
    seen: set[Trial] = set()

    def resolve(words: tuple[int, ...], block: More) -> int | None:
        seen.add((*words[: len(law.parts)], block(0)))
        return own(words, block)

    return law.sampler(resolve), seen


def check(law: Law, tape: Tape, sampler: _core.Sampler) -> None:
    """Compare every chunk at every level with the reference."""
    tested = 0
    try:
        for level in LEVELS:
            if _core.limit_cpu(level) != level:
                continue
            call = _core.Call(tape.stream())
            for chunk in range(tape.chunks):
                part = slice(chunk * TRIALS, (chunk + 1) * TRIALS)
                answers = tape.value[part][tape.kept[part]][: sampler.chunk_outputs]
                out = np.zeros(len(answers), np.int64)
                _core.fill(call, sampler, None, out, chunk)
                wrong = np.flatnonzero(out != answers)
                assert wrong.size == 0, f"{law} {level}: {wrong.size} from {wrong[0]}"
                tested += 1
    finally:
        _core.limit_cpu(None)
    assert tested >= tape.chunks


def undecided(law: Law, tape: Tape, known: int) -> set[Trial]:
    """Return trials of the first third of a chunk whose value depends on bits of their
    first extension block after `known`: as what follows grows, the value moves."""
    mask = (1 << (MORE - known)) - 1
    found = set()
    for i in range(TRIALS // 3):
        words = tuple(int(w[i]) for w in tape.words)
        raw = tape.more[0, 16 * i : 16 * i + 16].tobytes()
        bits = int.from_bytes(raw[:8], "little") << 64
        bits |= int.from_bytes(raw[8:], "little")
        ends = [extension_block(b) for b in (bits & ~mask, bits | mask)]
        first, last = (
            law.resolve(words, lambda k, end=end: end if k == 0 else b"\x5a" * 16)
            for end in ends
        )
        if first != last:
            found.add((*words, raw))
    return found


@pytest.mark.parametrize(
    "sigma", [s for s in GAUSSIAN if not Law("gaussian", s).is_digits], ids=float
)
def test_gaussian_at_its_thresholds(sigma: Fraction) -> None:
    law = Law("gaussian", sigma)
    tape = tape_of(law)
    sampler, resolved = counted(law)
    check(law, tape, sampler)
    assert len(resolved) > 20


@pytest.mark.parametrize(
    "law",
    [
        Law("gaussian", Fraction(10)),
        Law("gaussian", Fraction(1000)),
        Law("gaussian", Fraction(10**6)),
        Law("gaussian", Fraction(2**40)),
    ],
    ids=str,
)
def test_every_stage_has_trials_that_are_its_own(law: Law) -> None:
    """Told by the bits: a stage cannot decide what its bits leave open."""
    tape = tape_of(law)
    sampler, resolved = counted(law)
    check(law, tape, sampler)
    after_first, after_second = undecided(law, tape, 0), undecided(law, tape, 32)
    assert len(after_first - after_second - resolved) > 20
    assert after_second <= resolved
    assert len(after_second & resolved) > 20
