"""Unary rows, hashing, Hadamard codes and tallies against their definitions."""

from fractions import Fraction

import numpy as np
import pytest

from fastdp import _core, _laws
from fastdp.testing import TapeStream
from tests.differential import local_layout as layout
from tests.differential.layout import Keyed
from tests.differential.test_local import KEY
from tests.reference import hadamard, hashing, unary

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
