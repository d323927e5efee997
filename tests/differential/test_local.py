"""k-ary responses, encoders and tallies against the references on the same words."""

import random
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest

from fastdp import _core, _laws
from fastdp.testing import TapeStream
from tests.differential import local_layout as layout
from tests.differential.layout import Keyed
from tests.reference import response

KEY = bytes(range(5, 37))
CATEGORIES = [2, 3, 16, 17, 64, 65, 1024, 65536, 65537, 2**20 + 7, 2**31 - 1]
LABELS = [2047, 2048, 2051, 3000, 21846, 2**15 - 1, 2**15, 2**15 + 1, 2**31 // 3 * 2]
LENGTHS = [1, 7, 8, 9, 63, 64, 65, 1023, 1025, 4095, 4096, 4097, 8191, 8193, 9000]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]


class Law(NamedTuple):
    """A response over k categories that tells the truth with this probability."""

    truth: Fraction
    k: int

    def __str__(self) -> str:
        return f"{self.k}-{float(self.truth):.4g}"

    def prepared(self) -> _core.Response:
        return _laws.response_law(self.truth, self.k)

    @property
    def target(self) -> np.dtype:
        return np.min_scalar_type(self.k - 1)


def truths(k: int) -> list[Fraction]:
    """1/k rounded up, a little above, epsilon = 1 and 9, almost 1, and 1."""
    least = -(-(2**64) // k)
    above = min(least + least // 1000, 2**64 - 3)
    some = [2**64 * e // (k - 1 + e) for e in (Fraction(2.718281828), 8103)]
    numbers = sorted({least, above, *(max(n, least) for n in some), 2**64 - 1, 2**64})
    return [Fraction(number, 2**64) for number in numbers]


LAWS = [Law(truth, k) for k in CATEGORIES for truth in truths(k)]
LAWS += [Law(Fraction(1), k) for k in LABELS]
each_law = pytest.mark.parametrize("law", LAWS, ids=str)


def values_of(k: int, n: int, source: str = "int64") -> np.ndarray:
    """Categories and, among them, values that are none: also such as are one modulo
    a power of two.
    """
    rng = np.random.default_rng(k)
    limits = np.iinfo(source)
    some = {k, k + 1, -1, -k, -2, 255, 256, 257, 2**16 + 1, 2**31, 2**31 + 1}
    some |= {2**32 - 1, 2**32, 2**32 + 1, -(2**32), 1 - 2**32, 2**63 - 1, -(2**63)}
    some |= {limits.min, limits.max}
    outside = [v for v in some if limits.min <= v <= limits.max]
    ends = [v for v in (0, 1, k - 2, k - 1) if v <= limits.max]
    x = rng.integers(0, min(k, int(limits.max) + 1), n).astype(source)
    place = rng.random(n)
    for share, pool in ((0.5, ends), (0.25, sorted(outside))):
        x[place < share] = rng.choice(np.array(pool, source), (place < share).sum())
    return x


def respond(
    call: _core.Call,
    law: Law,
    x: np.ndarray,
    other: int = -1,
    first: int = 0,
    target: str | np.dtype | None = None,
) -> np.ndarray:
    """Return the kernel's reports, written in the midst of values that must stay."""
    room = np.full(len(x) + 4, 77, target or law.target)
    _core.respond(call, law.prepared(), x, room[2:-2], other, first)
    assert (room[:2] == 77).all()
    assert (room[-2:] == 77).all()
    return room[2:-2]


def check_every_level(law: Law, n: int) -> None:
    x = values_of(law.k, n)
    answers: dict[tuple[str, int], np.ndarray] = {}
    for machine, call in layout.each_machine(KEY):
        for other in (-1, law.k - 1):
            key = machine.split()[1], other
            if key not in answers:
                answers[key] = layout.responses(call, *law, x, other)
            wrong = np.flatnonzero(respond(call, law, x, other) != answers[key])
            assert wrong.size == 0, f"{law} {machine} {other}: {wrong[:5]}"


@each_law
def test_responses_are_those_of_the_reference(law: Law) -> None:
    check_every_level(law, 20_001)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS[1::3], ids=str)
def test_responses_are_those_of_the_reference_over_a_million(law: Law) -> None:
    check_every_level(law, 1_000_000)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths_and_chunks(n: int) -> None:
    for law in (Law(truths(5)[1], 5), Law(truths(10**6)[2], 10**6)):
        call, x = _core.Call(Keyed(KEY)), values_of(law.k, n)
        for first in (0, 3, 2 * layout.REGION):
            expected = layout.responses(call, *law, x, 0, first)
            assert (respond(call, law, x, 0, first) == expected).all()


def test_long_calls_go_on_where_they_paused() -> None:
    """Between 1024 chunks a call looks at signals; the reports are those of one run."""
    law, call = Law(truths(7)[2], 7), _core.Call(Keyed(KEY))
    pause = 1024 * response.chunk(7)
    x = np.tile(np.arange(-2, 9, dtype=np.int8), pause // 11 + 2)[: pause + 9]
    out = respond(call, law, x)
    assert (out[pause:] == layout.responses(call, *law, x[pause:], first=1024)).all()
    assert (out[:50] == layout.responses(call, *law, x[:50])).all()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("k", [2, 3, 128, 256, 1000, 65537, 2**31 - 1])
def test_values_and_reports_of_every_type(k: int, source: str) -> None:
    law, n = Law(truths(k)[1], k), 3_001
    x, call = values_of(k, n, source), _core.Call(Keyed(KEY))
    for other in (-1, 0, k - 1):
        expected = layout.responses(call, *law, x, other)
        for target in ("uint8", "uint16", "uint32"):
            if k - 1 <= np.iinfo(target).max:
                got = respond(call, law, x, other, target=target)
                assert (got == expected).all(), (other, target)
        if np.dtype(source).itemsize == law.target.itemsize:
            own = x.copy()
            _core.respond(call, law.prepared(), own, own.view(law.target), other)
            assert (own.view(law.target) == expected).all(), other


def test_certain_truth_changes_what_is_outside_only() -> None:
    for k in CATEGORIES + LABELS:
        x = values_of(k, 30_000)
        inside = (x >= 0) & (x < k)
        got = respond(_core.Call(), Law(Fraction(1), k), x)
        assert (got[inside] == x[inside]).all()
        assert got.max() < k
        drawn = got[~inside]
        assert (drawn < k / 2).mean() == pytest.approx(((k + 1) // 2) / k, abs=0.04)


# --- words made at the cuts ---------------------------------------------------------


def cuts(law: Law, c: Fraction) -> list[int]:
    """Return the first words at, beside, and at the end of borders between steps."""
    top = 2 ** response.word_bits(law.k, law.truth) - 1
    every = range(law.k) if law.k <= 600 else {*range(99), *range(law.k - 99, law.k)}
    at = {0, top, *(int(j * (top + 1) / c) for j in every)}
    return sorted(w + d for w in at for d in (-1, 0, 1) if 0 <= w + d <= top)


def remainders(k: int, b: int) -> list[int]:
    """Return words w with w k mod 2**b at the bound 2**b mod k, beside it, and 0."""
    odd, bound = k & -k, 2**b % k
    lows = (low for low in (0, bound - odd, bound, bound + odd) if low >= 0)
    return [low // odd * pow(k // odd, -1, 2**b // odd) % (2**b // odd) for low in lows]


@lru_cache(maxsize=len(LAWS))
def tape_of(law: Law) -> tuple[TapeStream, np.ndarray]:
    """Words at all cuts, among random ones, further bits at them, and values."""
    rng, n = random.Random(law.k), response.chunk(law.k, law.truth)
    b = response.word_bits(law.k, law.truth)
    rates = [Fraction(law.k)]
    if law.truth < 1:
        rates.append(response.rate(law.truth, law.k))
    words = [w for c in rates for w in cuts(law, c)]
    words = rng.sample(words, n // 2) if len(words) > n // 2 else words
    some = [0, 2**64 - 1]
    if law.truth == 1:
        words += 40 * remainders(law.k, b)
        some += remainders(law.k, 64)
    words += [rng.getrandbits(b) for _ in range(n - len(words))]
    rng.shuffle(words)
    # Where a border lies in a cell only its own digits tell; near others any will do.
    more = [rng.choice([*some, rng.getrandbits(64)]) for _ in range(2**15)]
    parts = np.array(words, f"<u{b // 8}"), np.array(more, "<u8")
    chunk = np.concatenate([part.view(np.uint8) for part in parts])
    x = values_of(law.k, n)
    if law.truth < 1:
        borders(law, x, chunk, rng)
    extension = np.array([rng.getrandbits(64) for _ in range(2 * n)], "<u8")
    stream = TapeStream(chunk.reshape(1, -1), extension.view(np.uint8).reshape(1, -1))
    return stream, x


def borders(law: Law, x: np.ndarray, chunk: np.ndarray, rng: random.Random) -> None:
    """Put into the further bits of every other open lane those of its next border, or
    of what is just beside it. Values outside get uniform reports here."""
    k, b = law.k, response.word_bits(law.k)
    words = chunk[: len(x) * b // 8].view(f"<u{b // 8}").astype(np.uint64)
    inside = (x >= 0) & (x < k)
    c = [Fraction(k), response.rate(law.truth, k)]
    opened = [response.opened(rate, k, words)[1] for rate in c]
    near = np.where(inside, opened[1], opened[0])
    for rank, i in enumerate(np.flatnonzero(near).tolist()):
        own, word = c[int(inside[i])], int(words[i])
        border = -int(-(word * own / 2**b) // 1) / own
        digits = int(border * 2 ** (b + 64)) - (word << 64) + rng.choice([-1, 0, 0, 1])
        if rng.random() < 0.7 and 0 <= digits < 2**64:
            at = response.rank_offset(k, len(x), rank)
            chunk[at : at + 8] = np.array([digits], "<u8").view(np.uint8)


@pytest.mark.usefixtures("level")
@each_law
def test_words_at_the_cuts(law: Law) -> None:
    stream, x = tape_of(law)
    call = _core.Call(stream)
    for other in (-1, 1):
        expected = tape_answers(law, other)
        wrong = np.flatnonzero(respond(call, law, x, other) != expected)
        assert wrong.size == 0, f"{law} {other}: {wrong[:5]}"


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("k", [2, 3, 5, 16, 17, 31, 64])
def test_every_word_of_16_bits(k: int) -> None:
    """The first stage is enumerated: what is not open is the truth at both ends of its
    cell, and the open lanes are few."""
    for truth in truths(k)[:-1]:
        law, n = Law(truth, k), response.chunk(k)
        words = np.arange(2**16, dtype="<u2").reshape(-1, n)
        main = np.concatenate(
            [words.view(np.uint8), np.zeros((len(words), 2**14), np.uint8)], axis=1
        )
        call = _core.Call(TapeStream(np.ascontiguousarray(main)))
        for x, c in ((0, response.rate(truth, k)), (-1, Fraction(k))):
            given = np.full(2**16, x, np.int64)
            got = respond(call, law, given).astype(np.int64)
            _, near = response.opened(c, k, words.reshape(-1).astype(np.uint64))
            assert near.sum() <= 4 * (k - 1) + 1
            # floor(u c / 2**16), exactly
            u, limit = np.arange(2**16 + 1, dtype=object), 2**16 * c.denominator
            low = np.minimum(u * c.numerator // limit, k - 1)[:-1]
            high = np.minimum(-(-u * c.numerator // limit) - 1, k - 1)[1:]
            assert (low == high)[~near].all()
            assert (got == (low + 1) % k)[~near].all()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("k", [3, 64, 1000, 2048, 2**15 - 1])
def test_every_word_of_a_relabeling(k: int) -> None:
    """Words that say nothing are the fewest: of others every label has as many."""
    words = np.arange(2**16, dtype="<u2").reshape(8, -1)
    main = np.random.default_rng(k).integers(0, 256, (8, 2**15), np.uint8)
    main[:, : 2**14] = words.view(np.uint8)
    call, x = _core.Call(TapeStream(main)), np.full(2**16, -1, np.int64)
    got = respond(call, Law(Fraction(1), k), x)
    assert (got == layout.responses(call, Fraction(1), k, x)).all()
    kept = np.arange(2**16) * k % 2**16 >= 2**16 % k
    assert (np.bincount(got[kept], minlength=k) == 2**16 // k).all()


@pytest.mark.usefixtures("level")
def test_more_open_lanes_than_slots() -> None:
    """All words at borders: passes go on until every lane is settled."""
    for k in (5, 16, 64, 1024):
        law, b = Law(truths(k)[2], k), response.word_bits(k)
        n, cut = response.chunk(k), int(2**b / response.rate(truths(k)[2], k))
        rng = np.random.default_rng(k)
        main = rng.integers(0, 256, 2**20, np.uint8)
        main[: n * b // 8] = np.full(n, cut, f"<u{b // 8}").view(np.uint8)
        call = _core.Call(TapeStream(main.reshape(1, -1)))
        for size in (1, 64, n):
            x = rng.integers(0, k, size)
            assert (respond(call, law, x) == layout.responses(call, *law, x)).all()


@lru_cache(maxsize=2 * len(LAWS))
def tape_answers(law: Law, other: int) -> np.ndarray:
    stream, x = tape_of(law)
    return layout.responses(_core.Call(stream), *law, x, other)
