"""What mechanisms release: types, scalars, refused data, outputs, readings."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import (
    DTypeError,
    EntropyError,
    ParameterError,
)
from fastdp.testing import FixedStream
from tests.privacy.streams import BrokenStream, CountingStream
from tests.unit.test_mechanisms import ALL, INT, REAL

# --- release ---------------------------------------------------------------------


@pytest.mark.parametrize("m", INT, ids=repr)
@pytest.mark.parametrize(
    "dtype", ["b", "B", "h", "H", "i", "I", "l", "q", ">i2", ">i8"]
)
def test_integer_arrays(m: Any, dtype: str) -> None:
    x = np.arange(24).astype(dtype).reshape(2, 3, 4)
    for view in (x, np.asfortranarray(x), x[::-1, :, ::2], x.T, x[:0], x[..., None]):
        stream = FixedStream("i")
        y = m.release(view, stream=stream)
        assert y.dtype == np.int64
        assert y.dtype.isnative
        assert y.shape == view.shape
        plain = np.ascontiguousarray(view, np.int64)
        assert (y == m.release(plain, stream=FixedStream("i"))).all()
        assert stream.calls == 1


@pytest.mark.parametrize("m", REAL, ids=repr)
@pytest.mark.parametrize("dtype", ["f", "d", ">f4", ">f8"])
def test_real_arrays(m: Any, dtype: str) -> None:
    x = np.arange(24).astype(dtype).reshape(2, 3, 4)
    for view in (x, np.asfortranarray(x), x[::-1, :, ::2], x.T, x[:0], x[..., None]):
        y = m.release(view, stream=FixedStream("i"))
        assert y.dtype == x.dtype.newbyteorder("=")
        assert y.shape == view.shape
        plain = np.ascontiguousarray(view, y.dtype)
        assert (y == m.release(plain, stream=FixedStream("i"))).all()


@pytest.mark.parametrize("m", INT, ids=repr)
def test_integer_scalars(m: Any) -> None:
    for x in (7, np.int8(7), np.uint8(7), np.int64(7), np.uint32(7), np.array(7)):
        y = m.release(x, stream=FixedStream("s"))
        assert type(y) is np.int64
        assert y == m.release(np.array([7]), stream=FixedStream("s"))[0]
    for huge in (10**30, 2**63, 10**5000):
        assert m.release(huge, stream=FixedStream("s")) == m.release(
            2**63 - 1, stream=FixedStream("s")
        )
        assert m.release(-huge, stream=FixedStream("s")) == m.release(
            -(2**63), stream=FixedStream("s")
        )


@pytest.mark.parametrize("m", REAL, ids=repr)
def test_real_scalars(m: Any) -> None:
    for x in (7, 7.0, np.float64(7), np.array(7.0)):
        y = m.release(x, stream=FixedStream("s"))
        assert type(y) is np.float64
        assert y == m.release(np.array([7.0]), stream=FixedStream("s"))[0]
    for x in (np.float32(7), np.array(7, np.float32)):
        y = m.release(x, stream=FixedStream("s"))
        assert type(y) is np.float32
        one = m.release(np.array([7], np.float32), stream=FixedStream("s"))
        assert y == one[0]
    largest = 1.7976931348623157e308
    for huge, end in ((10**400, 2.0**53), (10**5000, 2.0**53), (math.inf, largest)):
        for x, same in ((huge, end), (-huge, -end)):
            y = m.release(same, stream=FixedStream("s"))
            assert m.release(x, stream=FixedStream("s")) == y


def not_integers() -> list[Any]:
    return [
        1.0, np.float64(1), 1j, "1", b"1", None, True, np.True_, [1.0], ([1],), {1: 1},
        range(3), memoryview(np.ones(2)), np.uint64(1), np.array(1, np.uint64),
        np.array([1.0]), np.array([True]), np.array(["1"]), np.array([b"1"]),
        np.array([1], object), np.array([1j]), np.array([1], np.uint64),
        np.array([1], np.float16), np.array([1], "m8[s]"), np.array([1], "M8[s]"),
        np.array([(1,)], [("a", "i8")]), np.ma.array([1]), np.ma.masked,
        Fraction(1), Decimal(1),
    ]  # fmt: skip


def not_reals() -> list[Any]:
    return [
        1j, "1", b"1", None, True, np.True_, ["1"], ([1.0],), np.int64(1), np.uint8(1),
        np.float16(1), np.longdouble(1), np.array([1]), np.array([True]),
        np.array(["1"]), np.array([1.0], object), np.array([1j]),
        np.array([1], np.float16), np.array([1], np.longdouble),
        np.array([1], "m8[s]"), np.ma.array([1.0]), np.ma.masked,
        np.array([(1.0,)], [("a", "f8")]), Fraction(1), Decimal(1),
    ]  # fmt: skip


def test_one_integer_alone_is_released_as_it_is() -> None:
    """Noise of scale 1/1000 is 0 but with probability 2 exp(-1000)."""
    m = fastdp.DiscreteLaplace(scale=Fraction(1, 1000))
    most = 2**63 - 1
    for x in (0, -1, 5, most, -most - 1):
        assert [int(m.release(x)), int(m.release(np.int64(x)))] == [x, x]
        assert type(m.release(x)) is type(m.release(np.int64(x))) is np.int64
    assert [int(m.release(2**63)), int(m.release(-(2**70)))] == [most, -most - 1]
    with pytest.raises(DTypeError):
        m.release(True)


@pytest.mark.parametrize("m", ALL, ids=repr)
def test_data_of_another_type(m: Any) -> None:
    stream = CountingStream()
    for x in not_integers() if m in INT else not_reals():
        for arguments in ({}, {"out": np.zeros(1, np.int64 if m in INT else float)}):
            with pytest.raises(DTypeError, match=r"^x must be an? "):
                m.release(x, stream=stream, **arguments)
    assert stream.calls == 0


@pytest.mark.parametrize("m", ALL, ids=repr)
def test_bad_out(m: Any) -> None:
    kind = np.int64 if m in INT else np.float64
    x, stream = np.ones((2, 4), kind), CountingStream()
    read_only = np.zeros((2, 4), kind)
    read_only.flags.writeable = False
    misaligned = np.zeros(65, np.uint8)[1:].view(kind).reshape(2, 4)
    wrong_types = [
        [[0] * 4] * 2, np.zeros((2, 4), bool), np.zeros((2, 4), complex),
        np.zeros((2, 4), object), np.zeros((2, 4), np.uint64),
        np.zeros((2, 4), float if m in INT else np.int64),
        np.zeros((2, 4), np.float32), np.zeros((2, 4), np.dtype(kind).newbyteorder()),
        np.ma.zeros((2, 4), kind), read_only, misaligned,
        np.zeros((2, 8), kind)[:, ::2],
        np.zeros((4, 2), kind).T, np.zeros((2, 4), kind)[::-1], 5, "out",
    ]  # fmt: skip
    for out in wrong_types:
        with pytest.raises(DTypeError, match=r"^out must "):
            m.release(x, out=out, stream=stream)
    for shape in ((8,), (2, 3), (4, 2), (2, 4, 1), (), (0,)):
        with pytest.raises(ParameterError, match=r"^out must have shape"):
            m.release(x, out=np.zeros(shape, kind), stream=stream)
    with pytest.raises(ParameterError, match=r"^out must have shape"):
        m.release(5, out=np.zeros(1, kind), stream=stream)
    assert stream.calls == 0


@pytest.mark.parametrize("m", ALL, ids=repr)
def test_bad_workers(m: Any) -> None:
    stream = CountingStream()
    x = np.ones(3, np.int64 if m in INT else float)
    for data in (x, 5, x[0]):
        for value in (0, -1):
            with pytest.raises(ParameterError, match=r"^workers must be >= 1"):
                m.release(data, workers=value, stream=stream)
        for wrong in (True, 2.0, "2", None):
            with pytest.raises(DTypeError, match=r"^workers must be an int"):
                m.release(data, workers=wrong, stream=stream)
    assert stream.calls == 0


@pytest.mark.parametrize("m", ALL, ids=repr)
def test_empty_data_is_an_ordinary_release(m: Any) -> None:
    kind = np.int64 if m in INT else np.float64
    for shape in ((0,), (3, 0), (0, 2)):
        stream = CountingStream()
        assert m.release(np.zeros(shape, kind), stream=stream).shape == shape
        out = np.zeros(shape, kind)
        assert m.release(out, out=out, stream=stream, workers=2) is out
        assert stream.calls == 2  # the same cost as for any other data


@pytest.mark.parametrize("m", ALL, ids=repr)
@pytest.mark.parametrize("workers", [1, 2])
def test_entropy_error_zeroes_out(m: Any, workers: int) -> None:
    kind = np.int64 if m in INT else np.float64
    broken = BrokenStream(EntropyError("gone"))
    x = np.full(9000, 7340193, kind)
    out = np.full(9000, 77, kind)
    with pytest.raises(EntropyError, match=r"^gone$"):
        m.release(x, out=out, stream=broken, workers=workers)
    assert not out.any()
    with pytest.raises(EntropyError, match=r"^gone$"):
        m.release(x, out=x, stream=broken, workers=workers)
    assert not x.any()
    with pytest.raises(EntropyError, match=r"^gone$"):
        m.release(kind(5), stream=broken)


@pytest.mark.parametrize("m", ALL, ids=repr)
@pytest.mark.parametrize("workers", [1, 2])
def test_in_place_and_overlapping_out(m: Any, workers: int) -> None:
    kind = np.int64 if m in INT else np.float64
    data = np.arange(20_000).astype(kind)
    expected = m.release(data, stream=FixedStream("o"))
    x = data.copy()
    assert m.release(x, out=x, stream=FixedStream("o"), workers=workers) is x
    assert (x == expected).all()
    for shift in (1, 2, 4095, 5000, -1, -3, -5000):
        memory = np.zeros(30_000, kind)
        x = memory[5000:25_000]
        out = memory[5000 + shift : 25_000 + shift]
        x[:] = data
        m.release(x, out=out, stream=FixedStream("o"), workers=workers)
        assert (out == expected).all()


def test_overlap_of_different_types() -> None:
    m = fastdp.DiscreteLaplace(10)
    data = np.arange(4000, dtype=np.int16)
    expected = m.release(data, stream=FixedStream("o"))
    memory = np.zeros(8 * 4000, np.uint8)
    x, out = memory[:8000].view(np.int16), memory.view(np.int64)
    x[:] = data
    m.release(x, out=out, stream=FixedStream("o"))
    assert (out == expected).all()
    memory[:] = 0
    wide, narrow = memory.view(np.int64), memory[:16_000].view(np.int32)
    wide[:] = data
    m.release(wide, out=narrow, stream=FixedStream("o"))
    assert (narrow == expected).all()


# --- readings ----------------------------------------------------------------------


@pytest.mark.parametrize("m", ALL, ids=repr)
def test_readings_are_of_the_noise(m: Any) -> None:
    kind = np.int64 if m in INT else np.float64
    noise = m.release(np.zeros(40_000, kind), stream=FixedStream("r")).astype(float)
    assert 0.95 < noise.std() / m.std < 1.05
    assert math.isclose(m.variance, m.std**2, rel_tol=1e-12)
    low, high = m.confidence_interval(0.9)
    assert low == -high
    inside = ((noise >= low) & (noise <= high)).mean()
    assert 0.89 < inside < 0.95


def test_public_properties() -> None:
    m = fastdp.Laplace(
        10, coordinates=3, granularity=0.25, answer_bounds=(-1, Fraction(1, 3))
    )
    assert (m.scale, m.coordinates, m.granularity) == (10, 3, 0.25)
    assert m.answer_bounds == (-1.0, 1 / 3)
    assert fastdp.Laplace(10).answer_bounds is None
    assert fastdp.TruncatedLaplace(10, bound=20).bound == 20
    assert fastdp.DiscreteGaussian(Fraction(1, 3)).sigma == Fraction(1, 3)
    assert fastdp.Gaussian(0.1).sigma == 0.1
