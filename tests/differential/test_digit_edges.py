"""Alias digits on words made for them: all of the first stage, and every cut."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from fastdp import _core
from fastdp.exceptions import FastDPError
from fastdp.testing import FixedStream, TapeStream
from tests.differential.layout import (
    PASS,
    RANKS,
    Law,
    chunk_values,
    pass_of,
    reference_of,
)
from tests.differential.test_samplers import GAUSSIAN, LAPLACE, levels
from tests.reference.interval import exp_minus

LAWS = [Law("laplace", t) for t in LAPLACE]
LAWS += [Law("gaussian", s) for s in GAUSSIAN]
LAWS = [law for law in LAWS if not law.is_tilted]
BITS = 400


def lay_out(
    law: Law, ranks: np.ndarray, parts: list[np.ndarray], low: np.ndarray
) -> np.ndarray:
    """Return the main stream of a chunk of one pass: words of the ranks, bytes of the
    trials, low words."""
    layout = pass_of(law)
    area = ranks.reshape(-1, 16, layout.rank_words).transpose(0, 2, 1)
    blocks = np.stack([part.reshape(-1, 64) for part in parts], axis=1)
    raw = area.astype("<u8").tobytes() + blocks.astype(np.uint8).tobytes()
    raw += low.astype(f"<u{layout.low_bytes or 1}").tobytes() * bool(layout.low_bytes)
    return np.frombuffer(raw, np.uint8)


def random_chunk(law: Law, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    layout = pass_of(law)
    ranks = rng.integers(0, 1 << 64, (RANKS, layout.rank_words), np.uint64)
    parts = rng.integers(0, 256, (layout.stride // 64, PASS))
    low = rng.integers(0, 1 << 64, PASS, np.uint64)
    return ranks, parts, low >> np.uint64(64 - 8 * (layout.low_bytes or 8))


def compare(law: Law, chunks: list[np.ndarray], extension: np.ndarray) -> int:
    """Compare every level with the reference; return in how many chunks, over all
    levels, known bits left a lane open: without exact steps these fail."""
    stream = TapeStream(np.stack(chunks), extension)
    n, left_open = PASS, 0
    sampler = law.sampler()
    call = _core.Call(stream)
    for chunk in range(len(chunks)):
        answers = chunk_values(law, call, chunk, n)
        for level in levels():
            _core.limit_cpu(level)
            out = np.zeros(n, np.int64)
            _core.fill(_core.Call(stream), sampler, None, out, chunk)
            wrong = np.flatnonzero(out != answers)
            assert wrong.size == 0, f"{law} {level}: {wrong.size} from {wrong[0]}"
            left_open += is_open(sampler, stream, chunk)
    _core.limit_cpu(None)
    return left_open


def is_open(sampler: _core.Sampler, stream: TapeStream, chunk: int) -> bool:
    out = np.ones(PASS, np.int64)
    try:
        _core.fill(_core.Call(stream), sampler.widen(exact=False), None, out, chunk)
    except FastDPError:
        assert not out.any()
        return True
    return False


def extension_of(chunks: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 256, (chunks, 16 * PASS), np.uint8)


def no_special(law: Law, digit: int) -> tuple[int, int]:
    """Return a column and a u with a digit that is not special."""
    cut, alias = (law.table.first, law.table.second)[digit]
    for column in range(len(cut)):
        if cut[column] < 255:
            return column, 255
        if alias[column] != 128:
            return column, 0
    raise AssertionError


def special(law: Law, digit: int) -> tuple[int, int]:
    """Return a column and a u with a special digit."""
    cut, alias = (law.table.first, law.table.second)[digit]
    column = alias.index(128)
    return column, cut[column]


@pytest.mark.filterwarnings("ignore::fastdp.exceptions.InsecureStreamWarning")
@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("n", [1, 8, 9, 64, 20 * PASS])
def test_honest_words_need_no_exact_steps(law: Law, n: int) -> None:
    """A list that reads wrong words may leave it to the exact steps to be right."""
    sampler, values = law.sampler().widen(exact=False), []
    for level in levels():
        _core.limit_cpu(level)
        out = np.zeros(n, np.int64)
        _core.fill(_core.Call(FixedStream(b"7" * 32)), sampler, None, out, 0)
        values.append(out)
    _core.limit_cpu(None)
    for out in values[1:]:
        assert np.array_equal(out, values[0])


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_whole_first_stage(law: Law) -> None:
    """Every column with every u, the bit that is not used included: in passes with few
    special lanes at a time, so that the lists and not the resolver put them in."""
    rng = np.random.default_rng(3)
    chunks = []
    for digit in range(1 if law.table.shift == 0 else 2):
        cut, alias = (law.table.first, law.table.second)[digit]
        column, u = np.divmod(np.arange(1 << 16), 256)
        at = column % len(cut)
        marked = np.frombuffer(alias, np.uint8)[at] == 128
        marked &= u <= np.frombuffer(cut, np.uint8)[at]
        quiet, loud = np.flatnonzero(~marked), np.flatnonzero(marked)
        each = np.array_split(quiet, -(-len(quiet) // (PASS - 64)))
        some = np.array_split(loud, -(-len(loud) // 14))
        for k in range(max(len(each), len(some))):
            chosen = np.concatenate([each[k % len(each)], some[k % len(some)]])
            chosen = rng.permutation(np.resize(chosen, PASS))
            ranks, parts, low = random_chunk(law, rng)
            for other in range(len(parts) // 2):
                parts[2 * other], parts[2 * other + 1] = no_special(law, other)
            parts[2 * digit], parts[2 * digit + 1] = column[chosen], u[chosen]
            chunks.append(lay_out(law, ranks, list(parts), low))
    for start in range(0, len(chunks), 8):
        part = chunks[start : start + 8]
        compare(law, part, extension_of(len(part), rng))


@pytest.mark.parametrize(
    ("scale", "digit"), [(10, 0), (1000, 1), (10**6, 1), (2**20, 1), (2**40, 1)]
)
def test_lists_longer_than_a_register(scale: int, digit: int) -> None:
    """90 special lanes, more than the 64 ranks of a register: each takes its own."""
    law, rng = Law("laplace", Fraction(scale)), np.random.default_rng(4)
    chunks = []
    for _ in range(4):
        ranks, parts, low = random_chunk(law, rng)
        for other in range(len(parts) // 2):
            parts[2 * other], parts[2 * other + 1] = no_special(law, other)
        where = rng.choice(PASS, 90, replace=False)
        parts[2 * digit][where], parts[2 * digit + 1][where] = special(law, digit)
        chunks.append(lay_out(law, ranks, list(parts), low))
    assert compare(law, chunks, extension_of(len(chunks), rng)) == 0


def rank_cases(law: Law) -> Iterator[tuple[int, int]]:
    """Words of a rank at what decides: (which, word)."""
    table, reference = law.table, reference_of(law)
    rests = [(0, table.first_rest)]
    if table.shift:
        rests.append((2, table.second_rest))
    if table.low:
        rests.append((2, table.second_whole))
    for which, rest in rests:
        for column, floor in enumerate(rest.floor):
            for u in (floor - 1, floor, floor + 1):
                if 0 <= u < 1 << 56:
                    yield which, u << 8 | column
        for column in range(len(rest.floor)):
            yield which, column
            yield which, ((1 << 56) - 1) << 8 | column
    if law.family == "laplace":
        t = law.parameter
        theta = exp_minus(1 / t, BITS)[0]
        theta = (theta << BITS) // ((1 << BITS) + theta)
        for k in (0, 1, 2, 3, 7, 20, 100, 300, 440):
            power = exp_minus(k * 2**reference.shift / t, BITS)[0]
            for edge in (
                theta * power >> BITS,
                theta + (((1 << BITS) - theta) * power >> BITS),
            ):
                for word in range((edge >> (BITS - 64)) - 1, (edge >> (BITS - 64)) + 2):
                    if 0 <= word < 1 << 64:
                        yield 1, word
        yield from ((1, word) for word in (0, 1, 15, 16, 31, (1 << 64) - 1))
    if table.low:
        for edge in table.top_floors:
            yield from ((3, edge + d) for d in (-1, 0, 1))
        for edge in table.copy_floors:
            yield from ((4, edge + d) for d in (-1, 0, 1))


#: The tables of 2^55 are by far the largest: their cuts are tried in the slow run.
CUT = [
    pytest.param(
        law,
        marks=pytest.mark.slow
        if law.parameter == 2**55
        else pytest.mark.rest
        if place % 3
        else (),
    )
    for place, law in enumerate(LAWS)
]


@pytest.mark.parametrize("law", CUT, ids=str)
def test_every_cut_and_threshold(law: Law) -> None:
    """16 special lanes a digit, whose words lie at a cut or beside it; tails and
    corrections whatever the outcome is."""
    rng = np.random.default_rng(5)
    cases = list(rank_cases(law))
    reference = reference_of(law)
    tails = [c for c, a in enumerate(law.table.first_rest.alias) if c in (0, 127)]
    chunks = []
    for start in range(0, len(cases), 16):
        ranks, parts, low = random_chunk(law, rng)
        for digit in range(len(parts) // 2):
            parts[2 * digit], parts[2 * digit + 1] = no_special(law, digit)
            where = rng.choice(PASS, 16, replace=False)
            parts[2 * digit][where], parts[2 * digit + 1][where] = special(law, digit)
        for k, (which, word) in enumerate(cases[start : start + 16]):
            ranks[k, which] = word
            if which == 1:  # a tail: the column's own outcome
                ranks[k, 0] = ((1 << 56) - 1) << 8 | tails[k % len(tails)]
            if which == 4:  # corrected, by the highest bit
                ranks[k, 3] = 0
                for copy in range(5, ranks.shape[1]):
                    ranks[k, copy] = rng.choice(law.table.copy_floors) - k % 3
        chunks.append(lay_out(law, ranks, list(parts), low))
    resolved = 0
    for start in range(0, len(chunks), 8):
        part = chunks[start : start + 8]
        resolved += compare(law, part, extension_of(len(part), rng))
    # Each cut except the last column's is tied once at every level. A chunk holds
    # the cases of at most six columns.
    assert resolved >= len(levels()) * ((len(reference.data.first_rest) - 1) // 6)


@pytest.mark.parametrize("law", LAWS[::4], ids=str)
def test_more_special_lanes_than_slots_or_ranks(law: Law) -> None:
    """300 special lanes a digit: by lists, by exact steps with the words of their
    ranks, and by exact steps with extension blocks alone."""
    rng = np.random.default_rng(7)
    ranks, parts, low = random_chunk(law, rng)
    for digit in range(len(parts) // 2):
        parts[2 * digit], parts[2 * digit + 1] = no_special(law, digit)
        where = rng.choice(PASS, 300, replace=False)
        parts[2 * digit][where], parts[2 * digit + 1][where] = special(law, digit)
    chunk = lay_out(law, ranks, list(parts), low)
    assert compare(law, [chunk], extension_of(1, rng)) == len(levels())


@pytest.mark.parametrize("last", [2047, 2048, 8191])
@pytest.mark.parametrize(
    ("law", "digit"),
    [(law, d) for law in LAWS[4::4] for d in range(1 + (law.table.shift > 0))],
    ids=str,
)
def test_the_last_special_lane_alone_is_open(law: Law, digit: int, last: int) -> None:
    """It is the last of a piece, or the first: no lane before it is open,
    and none comes after it."""
    rng = np.random.default_rng(8)
    rest = law.table.first_rest if digit == 0 else law.table.second_rest
    column = next(c for c, floor in enumerate(rest.floor) if 0 < floor < (1 << 56) - 1)
    ranks, parts, low = random_chunk(law, rng)
    for other in range(len(parts) // 2):
        parts[2 * other], parts[2 * other + 1] = no_special(law, other)
    where = np.arange(last - 13, last + 1)
    parts[2 * digit][where], parts[2 * digit + 1][where] = special(law, digit)
    ranks[13, 2 * digit] = rest.floor[column] << 8 | column
    chunk = lay_out(law, ranks, list(parts), low)
    assert compare(law, [chunk], extension_of(1, rng)) == len(levels())
