"""Any dtype, shape, layout and data: a report is the value changed by the same draw.

Under one key the randomness must be the same whatever the values are, so that the
draw behind each report is read off it and compared with that of other values.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fastdp
from tests.privacy.streams import KeyStream
from tests.property.test_release import INTEGER_TYPES, keys, laid_out
from tests.reference import hashing

RR, UE = fastdp.RandomizedResponse, fastdp.UnaryEncoding
LH, HR = fastdp.LocalHashing, fastdp.HadamardResponse

domains = st.one_of(st.integers(2, 20), st.sampled_from([255, 256, 257, 1000, 2**17]))
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=12)
workers = st.sampled_from([1, 2, 5])


@st.composite
def mechanisms(draw: Any) -> Any:
    categories = draw(domains)
    epsilon = draw(st.floats(1e-3, 20))
    other = draw(st.none() | st.integers(0, categories - 1))
    kind = draw(st.sampled_from([RR, UE, LH, HR]))
    if kind is UE:
        categories, other = min(categories, 1000), other and min(other, 999)
        symmetric = draw(st.booleans())
        return UE.from_epsilon(
            epsilon, categories=categories, symmetric=symmetric, other=other
        )
    if kind is LH:
        buckets = draw(st.none() | st.integers(2, 30))
        return LH.from_epsilon(
            epsilon, categories=categories, buckets=buckets, other=other
        )
    return kind.from_epsilon(epsilon, categories=categories, other=other)


@st.composite
def values(draw: Any) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(INTEGER_TYPES)))
    small = st.integers(0, 30) | hnp.from_dtype(dtype)
    return laid_out(draw, draw(hnp.arrays(dtype, shapes, elements=small)))


def draws(m: Any, x: np.ndarray, reports: Any) -> list[Any]:
    """Return what the randomness did to each value of the domain."""
    x = x.reshape(-1)
    if isinstance(m, RR):
        return [
            (int(y) - int(v)) % m.categories for v, y in zip(x, reports, strict=True)
        ]
    if isinstance(m, HR):
        codes = zip(x.tolist(), reports.tolist(), strict=True)
        return [(y & (v + 1)).bit_count() & 1 for v, y in codes]
    if isinstance(m, LH):
        seeds = np.ascontiguousarray(reports["seed"])
        bucket = hashing.buckets(seeds, x, m.categories, m.buckets)
        shift = (reports["value"].astype(np.int64) - bucket) % m.buckets
        return list(zip(seeds.tolist(), shift.tolist(), strict=True))
    bits = np.unpackbits(reports, axis=1)
    assert not bits[:, m.categories :].any()
    return bits[np.arange(len(x)), x].tolist()


@settings(deadline=None, max_examples=200)
@given(values(), mechanisms(), keys, workers)
def test_release(x: np.ndarray, m: Any, key: bytes, threads: int) -> None:
    stream, before = KeyStream(key), x.tobytes()
    reports = m.release(x, stream=stream, workers=threads)
    assert reports.dtype == m.report_dtype
    assert np.shape(reports) == (*x.shape, *m._row)
    assert x.tobytes() == before
    inside = (x >= 0) & (x < m.categories)
    clean = np.where(inside, x.astype(np.int64), m.other or 0)
    again = np.asarray(m.release(clean, stream=stream))
    flat = (-1, *m._row)
    same = inside | (m.other is not None)
    pairs = np.asarray(reports).reshape(flat), again.reshape(flat)
    assert (pairs[0][same.reshape(-1)] == pairs[1][same.reshape(-1)]).all()
    zeros = np.zeros(x.size, np.int64)
    expected = draws(m, zeros, m.release(zeros, stream=stream).reshape(flat))
    assert draws(m, clean, pairs[1]) == expected
    out = np.zeros(np.shape(reports), m.report_dtype)
    assert m.release(x, out=out, stream=stream) is out
    assert (out == reports).all()


@settings(deadline=None, max_examples=60)
@given(hnp.arrays(bool, shapes), st.floats(1e-3, 20), keys, workers)
def test_bits(x: np.ndarray, epsilon: float, key: bytes, threads: int) -> None:
    m, stream = RR.from_epsilon(epsilon), KeyStream(key)
    reports = np.asarray(m.release(x, stream=stream, workers=threads))
    flips = m.release(np.zeros(x.size, bool), stream=stream)
    assert reports.dtype == bool
    assert (reports.reshape(-1) ^ x.reshape(-1) == flips).all()
    packed = m.release(np.packbits(x), packed=True, stream=stream, workers=threads)
    assert (np.unpackbits(packed)[: x.size] == reports.reshape(-1)).all()
    est = m.estimate(packed, packed=True, count=x.size)
    assert (est.counts == m.estimate(reports).counts).all()


@settings(deadline=None, max_examples=100)
@given(st.data(), mechanisms(), st.integers(0, 300), workers)
def test_any_split_of_any_reports(data: Any, m: Any, n: int, threads: int) -> None:
    # Whatever clients send, in range or not.
    raw = data.draw(st.binary(min_size=n * m.report_width, max_size=n * m.report_width))
    reports = np.frombuffer(raw, m.report_dtype).reshape(n, *m._row)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    parts = [m.aggregator().add(p, workers=threads) for p in np.split(reports, cuts)]
    merged = m.aggregator()
    for part in data.draw(st.permutations(parts)):
        merged.merge(pickle.loads(pickle.dumps(part)))
    assert merged == m.aggregator().add(reports)
    est = merged.estimate()
    assert est.users == n
    assert est.counts.shape == est.standard_errors.shape == (m.categories,)
    assert np.isfinite(est.counts).all()
    assert (est.standard_errors >= 0).all()
    projected = est.consistent().counts
    assert projected.min() >= 0
    # Digits that large counts of both signs lose in their difference.
    assert abs(projected.sum() - n) <= 1e-10 * (n + np.abs(est.counts).max())
