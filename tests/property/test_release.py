"""Any dtype, shape, layout and data: a release is x + noise, saturated, always.

The noise is that of the same key over zeros, so that the expected answer is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fastdp
from tests.privacy.streams import CountingStream, KeyStream

INT64 = np.iinfo(np.int64)
INTEGER_TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", ">i2", ">u4", ">i8"]
OUT_TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8"]
MECHANISMS = [
    fastdp.DiscreteLaplace(3),
    fastdp.DiscreteLaplace(2**50),
    fastdp.DiscreteGaussian(100),
    fastdp.DiscreteGaussian(2**50),
    fastdp.TruncatedLaplace(3, bound=4),
]
GRIDS = [
    fastdp.Laplace(3, granularity=0.5, coordinates=1),
    fastdp.Gaussian(2**-20),
    fastdp.Laplace(1e200),
    fastdp.Gaussian(5, granularity=1, answer_bounds=(-7.5, 9), coordinates=1),
]

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)
keys = st.binary(min_size=32, max_size=32)


def laid_out(draw: Any, x: np.ndarray) -> np.ndarray:
    """Return the same array in some memory layout."""
    layout = draw(st.sampled_from(["C", "F", "strided", "reversed", "read-only"]))
    if layout == "F":
        return np.asfortranarray(x)
    if layout == "strided" and x.ndim:
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if layout == "reversed" and x.ndim:
        return np.ascontiguousarray(x[::-1])[::-1]
    x = x.copy()
    x.flags.writeable = layout != "read-only"
    return x


@st.composite
def integer_data(draw: Any) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(INTEGER_TYPES)))
    return laid_out(draw, draw(hnp.arrays(dtype, shapes)))


@st.composite
def real_data(draw: Any) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(["f8", "f4", ">f8", ">f4"])))
    return laid_out(draw, draw(hnp.arrays(dtype, shapes)))


@settings(deadline=None, max_examples=150)
@given(
    integer_data(), st.sampled_from(MECHANISMS), keys,
    st.sampled_from(OUT_TYPES), st.sampled_from([1, 2, 5]),
)  # fmt: skip
def test_integer_release(
    x: np.ndarray, m: Any, key: bytes, out_type: str, workers: int
) -> None:
    stream = KeyStream(key)
    before = x.tobytes()
    noise = m.release(np.zeros(x.shape, np.int64), stream=stream)
    y = m.release(x, stream=stream, workers=workers)
    assert np.shape(y) == x.shape
    assert y.dtype == np.int64
    exact = [int(a) + int(b) for a, b in zip(x.flat, np.ravel(noise), strict=True)]
    assert np.ravel(y).tolist() == [min(max(v, INT64.min), INT64.max) for v in exact]
    out = np.full(x.shape, 77, out_type)
    assert m.release(x, out=out, stream=stream, workers=workers) is out
    info = np.iinfo(out_type)
    assert out.ravel().tolist() == [min(max(v, info.min), info.max) for v in exact]
    assert x.tobytes() == before


@settings(deadline=None, max_examples=150)
@given(real_data(), st.sampled_from(GRIDS), keys, st.sampled_from([1, 2, 5]))
def test_real_release(x: np.ndarray, m: Any, key: bytes, workers: int) -> None:
    stream, before = KeyStream(key), x.tobytes()
    with np.errstate(all="raise"):
        y = m.release(x, stream=stream, workers=workers)
    assert np.shape(y) == x.shape
    assert y.dtype == x.dtype.newbyteorder("=")
    assert np.isfinite(y).all()
    assert x.tobytes() == before
    out = np.full(x.shape, 77, y.dtype)
    assert m.release(x, out=out, stream=stream, workers=workers) is out
    assert out.tobytes() == np.asarray(y).tobytes()
    clean = np.where(
        np.isnan(x), 0.0 if m.answer_bounds is None else m.answer_bounds[0], x
    )
    low, high = m.answer_bounds or (-np.finfo(float).max, np.finfo(float).max)
    clamped = np.clip(clean.astype(float), low, high)
    wide = m.release(clamped, stream=stream)
    limit = float(np.finfo(y.dtype).max)
    with np.errstate(all="ignore"):
        assert np.array_equal(y, np.clip(wide, -limit, limit).astype(y.dtype))


@settings(deadline=None, max_examples=60)
@given(integer_data(), st.sampled_from(MECHANISMS))
def test_every_release_draws_one_key(x: np.ndarray, m: Any) -> None:
    stream = CountingStream()
    m.release(x, stream=stream)
    m.release(x, out=np.zeros(x.shape, np.int16), stream=stream, workers=3)
    assert stream.calls == 2


@settings(deadline=None, max_examples=60)
@given(st.integers(-(2**70), 2**70), st.sampled_from(MECHANISMS), keys)
def test_integer_scalars(x: int, m: Any, key: bytes) -> None:
    stream = KeyStream(key)
    start = min(max(x, INT64.min), INT64.max)
    exact = start + int(m.release(0, stream=stream))
    assert m.release(x, stream=stream) == min(max(exact, INT64.min), INT64.max)


@settings(deadline=None, max_examples=60)
@given(st.floats(width=64), st.sampled_from(GRIDS), keys)
def test_real_scalars(x: float, m: Any, key: bytes) -> None:
    stream = KeyStream(key)
    y = m.release(x, stream=stream)
    assert y == m.release(np.array([x]), stream=stream)[0]


@settings(deadline=None, max_examples=40)
@given(
    hnp.arrays(np.int32, st.integers(2, 400)), st.integers(0, 300),
    st.sampled_from(MECHANISMS), keys, st.sampled_from([1, 2]),
)  # fmt: skip
def test_overlapping_memory(
    data: np.ndarray, shift: int, m: Any, key: bytes, workers: int
) -> None:
    stream, n = KeyStream(key), len(data)
    expected = m.release(data, out=np.zeros(n, np.int32), stream=stream)
    for first, second in ((0, shift), (shift, 0)):
        memory = np.zeros(n + shift, np.int32)
        x, out = memory[first : first + n], memory[second : second + n]
        x[:] = data
        m.release(x, out=out, stream=stream, workers=workers)
        assert (out == expected).all()
