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
from tests.reference import hadamard, hashing, response, unary

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


# --- unary rows ---------------------------------------------------------------------


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("d", [1, 2, 8, 9, 15, 64, 100, 129, 1024, 1025])
def test_bits_are_put_at_their_labels(d: int) -> None:
    rng = np.random.default_rng(d)
    for n in (0, 1, 7, 8, 9, 130, 1001):
        width = -(-d // 8)
        background = rng.integers(0, 2, n * 8 * width).astype(bool)
        labels = rng.integers(0, d, n).astype(np.uint32)
        labels[: n // 3] = d - 1
        own = rng.integers(0, 2, n).astype(bool)
        rows = np.packbits(background)
        _core.insert_bits(rows, width, labels, np.packbits(own))
        # The padding belongs to the caller: no column is beyond 8 times the width.
        expected = unary.rows(background, labels, own, 8 * width)
        assert (rows.reshape(n, width) == expected).all()


# --- local hashing ------------------------------------------------------------------


def seeds_of(n: int) -> np.ndarray:
    """Seeds with extreme halves, and random ones."""
    ends = [0, 1, 2**31, 2**32 - 1]
    some = [a | b << 32 for a in ends for b in ends]
    rng = np.random.default_rng(n)
    rest = rng.integers(0, 2**64, max(n - len(some), 0), np.uint64)
    return np.concatenate([np.array(some, np.uint64), rest])[:n]


REPORT = np.dtype([("seed", "<u8"), ("value", "<u4")])
TRUTH = Fraction(3, 4)
HASHED = [(2, 2), (3, 2), (5, 3), (1000, 4), (1024, 21), (1025, 150), (2**16, 8193)]
HASHED += [(2**24, 2), (2**24, 3), (2**24, 64), (2**24 - 1, 50)]


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize(("d", "g"), HASHED)
def test_categories_hash_to_the_buckets_of_the_definition(d: int, g: int) -> None:
    """Seeds with any halves, from a tape."""
    labeling, law = _laws.response_law(Fraction(1), d), _laws.response_law(TRUTH, g)
    for n in (0, 1, 7, 15, 16, 17, 1001, 2100):
        x = np.random.default_rng(n).integers(0, d, n)
        x[::5] = d - 1
        seeds, tape = seeds_of(n), np.zeros((2, 16384), np.uint8)
        tape.reshape(-1)[: 8 * n] = seeds.view(np.uint8)
        public = _core.Call(TapeStream(tape, np.zeros((2, 0), np.uint8)))
        secret, out = _core.Call(Keyed(KEY)), np.zeros(n, REPORT)
        _core.hash_clients(secret, public, labeling, law, x, out, d)
        bucket = hashing.buckets(seeds, x, d, g)
        assert bucket.tolist() == [
            hashing.bucket(a, v, d, g)
            for a, v in zip(seeds.tolist(), x.tolist(), strict=True)
        ]
        assert (out["seed"] == seeds).all()
        assert (out["value"] == layout.responses(secret, TRUTH, g, bucket)).all()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize(
    ("d", "g"), [(1, 2), *HASHED[:6], (63, 4), (64, 4), (65, 4), (9000, 7)]
)
def test_support_is_counted_for_every_category(d: int, g: int) -> None:
    rng = np.random.default_rng(d)
    for n in (0, 1, 7, 200, 300):
        reports = np.zeros(n, REPORT)
        reports["seed"] = seeds_of(n)
        reports["value"] = rng.integers(0, g, n)
        reports["value"][::9] = rng.choice([g, g + 1, 2**31, 2**32 - 1], -(-n // 9))
        counts = np.arange(d, dtype=np.int64) * 2**40
        before = counts.copy()
        _core.hash_support(reports, d, g, counts)
        seeds, values = reports["seed"], reports["value"].astype(np.int64)
        assert (counts - before == hashing.support(seeds, values, d, g)).all()


# --- Hadamard -----------------------------------------------------------------------


def test_hadamard_halves_are_covered_evenly() -> None:
    """Of all words, exactly two give each report of the half that is asked for."""
    size = 16
    for label in range(size - 1):
        for f in (False, True):
            labels = np.full(size, label, np.uint32)
            words = np.arange(size, dtype=np.uint32)
            out = hadamard.reports(labels, words, np.full(size, f))
            half = hadamard.parity(np.arange(size) & (label + 1)) == f
            assert (np.bincount(out, minlength=size) == 2 * half).all()


def transformed(a: np.ndarray) -> np.ndarray:
    """Return the transform: its first entry is the sum of all, whose halves we have."""
    halves = _core.hadamard_supporters(a, a.size - 1)
    return np.concatenate(([a.sum()], 2 * halves - a.sum()))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("bits", range(12))
def test_transform_is_the_sum_of_the_definition(bits: int) -> None:
    rng = np.random.default_rng(bits)
    limit = 2**62 >> bits
    a = rng.integers(-limit, limit, 2**bits)
    assert (transformed(a) == hadamard.transform(a)).all()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("bits", [12, 13, 14, 15, 17, 20])
def test_transform_twice_is_a_multiple(bits: int) -> None:
    a = np.random.default_rng(bits).integers(-1000, 1000, size=2**bits)
    got = transformed(a)
    odd = hadamard.parity(np.arange(a.size) & (a.size - 3))
    assert got[a.size - 3] == a[odd == 0].sum() - a[odd == 1].sum()
    assert (transformed(got) == a << bits).all()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", [1, 7, 64, 65, 1024])
def test_estimates_are_the_formula_in_doubles(n: int) -> None:
    rng = np.random.default_rng(n)
    supporters, users = rng.integers(0, 10**6, n), 10**6 - 1.0
    whole, rest, scale, own, cross = 250_001, 0.7, 0.3, 0.21, 0.19
    counts, errors = _core.estimate_counts(
        supporters, whole, rest, users, (scale, own, cross)
    )
    expected = ((supporters - whole).astype(float) - rest) / scale
    held = np.clip(expected, 0, users)
    spread = np.sqrt((users - held) * cross + held * own) / scale
    assert counts.tobytes() == expected.tobytes()
    assert errors.tobytes() == spread.tobytes()


# --- tallies ------------------------------------------------------------------------


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 63, 64, 65, 250, 256, 1000, 1024, 4100])
@pytest.mark.parametrize("kind", ["random", "ones"])
def test_column_sums(d: int, kind: str) -> None:
    width = -(-d // 8)
    for n in (0, 1, 2, 15, 16, 254, 255, 256, 257, 1027):
        rng = np.random.default_rng(n)
        rows = rng.integers(0, 256, n * width, np.uint8)
        if kind == "ones":
            rows[:] = 255
        counts = np.arange(d, dtype=np.int64) - 2**50
        before = counts.copy()
        _core.column_sums(rows, width, counts)
        expected = unary.column_sums(rows.reshape(n, width), d)
        assert (counts - before == expected).all(), n


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("width", [1, 8, 63, 64, 65, 127, 128, 255, 256, 257, 320, 577])
def test_column_sums_at_the_borders_of_blocks(width: int) -> None:
    """Sixteen rows and 240, 64 bytes and 256; any address, any last column."""
    for n in (15, 16, 17, 31, 32, 33, 239, 240, 241, 256, 481):
        held = np.random.default_rng(n).integers(0, 256, n * width + 1, np.uint8)
        rows = held[n % 2 : n % 2 + n * width]
        for columns in (8 * width, 8 * width - 7, 8 * width - n % 8, 4 * width + 1):
            counts = np.full(columns + 1, 2**62)  # one more: the next caller's
            _core.column_sums(rows, width, counts[:-1])
            expected = unary.column_sums(rows.reshape(n, width), columns)
            assert (counts[:-1] - 2**62 == expected).all(), (n, columns)
            assert counts[-1] == 2**62


@pytest.mark.usefixtures("level")
def test_column_sums_of_many_rows() -> None:
    """No narrow counter overflows: more rows of ones than 16 bits count."""
    n = 140_001
    rows = np.full(n * 3, 255, np.uint8)
    rows[::3] = np.random.default_rng(1).integers(0, 256, size=n, dtype=np.uint8)
    counts = np.zeros(24, np.int64)
    _core.column_sums(rows, 3, counts)
    assert (counts[8:] == n).all()
    first = np.unpackbits(rows[::3]).reshape(n, 8).sum(axis=0)
    assert (counts[:8] == first).all()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("source", ["uint8", "uint16", "uint32"])
@pytest.mark.parametrize("k", [1, 2, 5, 255, 256, 257, 70_000])
def test_histogram(k: int, source: str) -> None:
    rng = np.random.default_rng(k)
    top = np.iinfo(source).max
    for n in (0, 1, 7, 8, 9, 4097, 70_001):
        reports = rng.integers(0, min(2 * k, top), n, source, endpoint=True)
        reports[::3] = min(k - 1, top)
        reports[1::11] = top
        counts = np.full(k, 2**45, np.int64)
        _core.histogram(reports, counts)
        known = np.bincount(reports[reports < k].astype(np.int64), minlength=k)
        assert (counts - 2**45 == known).all(), n


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", [0, 1, 100, 16384, 16385, 50_001])
def test_raw_bytes_are_the_keystream(n: int) -> None:
    call = _core.Call(Keyed(KEY))
    for first in (0, layout.REGION):
        out = np.zeros(n, np.uint8)
        _core.fill_bytes_into(call, out, first)
        assert out.tobytes() == layout.stream_bytes(call, n, first)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_labels_are_counted_at_every_length_and_past_the_last(dtype: type) -> None:
    """Blocks of 64, their ends in fours, few labels and many; others count nothing."""
    rng = np.random.default_rng(37)
    most = int(np.iinfo(dtype).max)
    for n in [*range(140), 1000]:
        for k in (1, 7, 256, 2048, 2049):
            x = rng.integers(0, min(2 * k, most), n, dtype, endpoint=True)
            x[rng.random(n) < 0.1] = most
            found = np.ones(k, np.int64)
            _core.histogram(x, found)
            wanted = np.bincount(x[x < k].astype(np.int64), minlength=k)
            assert (found == 1 + wanted).all()
