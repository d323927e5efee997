"""Kernels of open domains against the reference, at every level."""

import hashlib
from collections.abc import Iterator

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp._core import LEVELS
from fastdp.mechanisms.local import _strings
from fastdp.testing import FixedStream
from tests.reference import domains

KEY = bytes(range(16))
EDGES = [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1]


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    if _core.limit_cpu(request.param) != request.param:
        _core.limit_cpu(None)
        pytest.skip("this machine has no such level")
    yield request.param
    _core.limit_cpu(None)


def digests(number: int) -> np.ndarray:
    drawn = np.random.default_rng(7).integers(0, 2**64, number, dtype=np.uint64)
    drawn[: len(EDGES)] = EDGES
    return drawn


def test_the_reference_is_siphash() -> None:
    # From the paper's appendix: key 00 ... 0f, text 00 ... 0e.
    assert domains.siphash(KEY, bytes(range(15))) == 0xA129CA6149BE45E5


def test_digests_of_every_length() -> None:
    texts = [hashlib.sha256(bytes([n])).digest() * 9 for n in range(255)]
    texts = [text[: n + 10] for n, text in enumerate(texts)] + [b"", b"\0", b"x" * 300]
    found = _strings.read("values", texts).digests(_core.HashKey(KEY))
    assert found.tolist() == [domains.siphash(KEY, text) for text in texts]


def test_words_and_buckets() -> None:
    key, seeds, x = _core.HashKey(KEY), digests(200), digests(207)[7:]
    words = _strings.functions(key, seeds)
    assert [tuple(map(int, w)) for w in words] == [
        domains.function(KEY, int(seed)) for seed in seeds
    ]
    out = np.zeros(200, np.uint32)
    for g in (2, 3, 55, 2**31 - 1, 2**32 - 1):
        key.buckets(seeds, g, x, out)
        pairs = zip(seeds.tolist(), x.tolist(), strict=True)
        wanted = [domains.seed_bucket(KEY, seed, d, g) for seed, d in pairs]
        assert out.tolist() == wanted
    rows = np.arange(200, dtype=np.uint16) % 8
    few = _strings.functions(key, np.arange(8, dtype=np.uint64))
    for bits in (1, 10, 15, 32):
        _core.row_buckets(few, bits, rows, x, out)
        pairs = zip(rows.tolist(), x.tolist(), strict=True)
        assert out.tolist() == [domains.row_bucket(KEY, r, d, bits) for r, d in pairs]


@pytest.mark.parametrize("asked", [1, 7, 64, 513])
def test_sums_over_rows(level: str, asked: int) -> None:
    key, x, bits, rows = _core.HashKey(KEY), digests(1000)[:asked], 4, 8
    table = np.random.default_rng(1).integers(-(2**40), 2**40, (rows, 1 << bits))
    words = _strings.functions(key, np.arange(rows, dtype=np.uint64))
    found = np.zeros(asked, np.int64)
    _core.sketch_sums(words, bits, table, x, found)
    for place in {0, asked // 2, asked - 1}:
        cells = [domains.row_bucket(KEY, r, int(x[place]), bits) for r in range(rows)]
        assert found[place] == sum(int(table[r, c]) for r, c in enumerate(cells))


@pytest.mark.parametrize("users", [1, 3, 4, 30])
@pytest.mark.parametrize("buckets", [2, 3, 56, 2**32 - 1])
def test_support_of_seeded_reports(level: str, users: int, buckets: int) -> None:
    key, x = _core.HashKey(KEY), digests(21)
    reports = np.zeros(
        users, fastdp.LocalHashing(0.9, buckets=2, categories=2).report_dtype
    )
    reports["seed"] = digests(60)[-users:]
    # The own bucket of one digest each, but for a value that is no bucket.
    key.buckets(
        reports["seed"].copy(),
        buckets,
        x[np.arange(users) % 21],
        value := np.zeros(users, np.uint32),
    )
    reports["value"] = value
    reports["value"][0] = buckets
    found = np.ones(21, np.int64)
    key.support(reports, buckets, x, found)
    wanted = [
        1
        + sum(
            domains.seed_bucket(KEY, int(r["seed"]), d, buckets) == r["value"]
            for r in reports
        )
        for d in x.tolist()
    ]
    assert found.tolist() == wanted


@pytest.mark.parametrize("inner", ["hadamard", "unary"])
def test_a_sketch_is_a_row_and_the_inner_report(inner: str) -> None:
    key = KEY.hex()
    m = fastdp.CountMeanSketch.from_epsilon(1, rows=8, buckets=16, inner=inner, key=key)
    texts = [f"{n}.example" for n in range(500)]
    reports = m.release(texts, stream=FixedStream("sketch"))
    stream = FixedStream("sketch")
    words = np.zeros(500, np.uint16)
    with _core.Call(stream) as call:
        _core.fill_bytes_into(call, words)
    assert (reports["row"] == words % 8).all()
    labels = [
        domains.row_bucket(KEY, int(row), domains.siphash(KEY, text.encode()), 4)
        for row, text in zip(reports["row"], texts, strict=True)
    ]
    again = m.inner.release(np.array(labels), stream=stream)
    assert (reports["value"] == again).all()


@pytest.mark.parametrize("inner", ["hadamard", "unary"])
def test_the_table_counts_what_reports_support(inner: str) -> None:
    m = fastdp.CountMeanSketch.from_epsilon(1, rows=4, buckets=8, inner=inner)
    reports = m.release([str(n % 5) for n in range(300)])
    sketch = m.estimate(reports)
    for row in range(4):
        of_row = reports["value"][reports["row"] == row]
        own = m.inner.aggregator().add(np.ascontiguousarray(of_row))
        assert (sketch.table[row] == m.inner._supporters(own._tally)).all()
    # Broken clients: users, and nothing else.
    bad = reports[:2].copy()
    bad["row"] = [4, 65535]
    more = m.aggregator().add(reports).add(bad).estimate()
    assert (more.table == sketch.table).all()
    assert more.users == 302
