"""Release of local reports: every form of input, and nothing left of a failure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.exceptions import DTypeError, EntropyError, ParameterError
from fastdp.testing import FixedStream
from tests.privacy.streams import BrokenStream, CountingStream, KeyStream

RR, UE = fastdp.RandomizedResponse, fastdp.UnaryEncoding
LH, HR = fastdp.LocalHashing, fastdp.HadamardResponse

BINARY = RR.from_epsilon(1)
HASHED = np.dtype([("seed", "<u8"), ("value", "<u4")])

#: Mechanism, dtype and row of its reports, bytes of one.
FORMS: list[tuple[Any, Any, tuple[int, ...], int]] = [
    (BINARY, np.uint8, (), 1),
    (RR.from_epsilon(1, categories=256), np.uint8, (), 1),
    (RR.from_epsilon(1, categories=257), np.uint16, (), 2),
    (RR.from_epsilon(1, categories=65536), np.uint16, (), 2),
    (RR.from_epsilon(1, categories=65537), np.uint32, (), 4),
    (UE.from_epsilon(1, categories=2), np.uint8, (1,), 1),
    (UE.from_epsilon(1, categories=8, symmetric=True), np.uint8, (1,), 1),
    (UE.from_epsilon(1, categories=1001), np.uint8, (126,), 126),
    (LH.from_epsilon(1, categories=2), HASHED, (), 12),
    (LH.from_epsilon(1, categories=5000, buckets=2), HASHED, (), 12),
    (HR.from_epsilon(1, categories=2), np.uint8, (), 1),
    (HR.from_epsilon(1, categories=255), np.uint8, (), 1),
    (HR.from_epsilon(1, categories=256), np.uint16, (), 2),
    (HR.from_epsilon(1, categories=65535), np.uint16, (), 2),
    (HR.from_epsilon(1, categories=65536), np.uint32, (), 4),
]
MECHANISMS = [form[0] for form in FORMS]


def name(value: Any) -> str | None:
    """Return a short name of a mechanism, for the list of tests."""
    if hasattr(value, "categories"):
        return f"{type(value).__name__}-{value.categories}"
    return repr(value) if isinstance(value, BaseException) else None


def kept(m: Any) -> Any:
    """Return a mechanism of the same kind that nearly always keeps the truth."""
    almost = 1 - 2.0**-40
    match m:
        case RR():
            return RR(almost, categories=m.categories, other=m.other)
        case UE():
            return UE(p=almost, q=2.0**-40, categories=m.categories, other=m.other)
        case LH():
            return LH(almost, buckets=2**6, categories=m.categories, other=m.other)
    return HR(almost, categories=m.categories, other=m.other)


# --- forms --------------------------------------------------------------------


@pytest.mark.parametrize(("m", "dtype", "row", "width"), FORMS, ids=name)
def test_reports_have_one_form(
    m: Any, dtype: Any, row: tuple[int, ...], width: int
) -> None:
    assert m.report_dtype == dtype
    assert m.report_width == width
    for shape in [(0,), (1,), (5,), (2, 3), (2, 0, 3), ()]:
        x = np.ones(shape, np.int16)
        reports = m.release(x)
        assert reports.dtype == dtype
        assert np.shape(reports) == (*shape, *row)
        out = np.ones((*shape, *row), dtype)
        assert m.release(x, out=out) is out
        assert m.estimate(reports).users == x.size
    for scalar in (1, np.int8(1), np.uint32(1), -(10**30)):
        report = m.release(scalar)
        assert np.shape(report) == row
        assert isinstance(report, np.ndarray if row else dtype_scalar(dtype))
        assert m.estimate(report).users == 1
        out = np.zeros(row, dtype)
        assert m.release(scalar, out=out) is out


def dtype_scalar(dtype: Any) -> type[np.generic]:
    return np.dtype(dtype).type


@pytest.mark.parametrize("m", MECHANISMS, ids=name)
@pytest.mark.parametrize("kind", ["i1", "u1", ">i2", "u2", "<i4", ">u4", "i8", ">i8"])
def test_values_of_any_integer_dtype_and_layout(m: Any, kind: str) -> None:
    x = (np.arange(600) * 7 % min(m.categories, 120)).astype(kind)
    stream = KeyStream(bytes(32))
    expected = m.release(x.astype(np.int64), stream=stream)
    read_only = x.copy()
    read_only.flags.writeable = False
    strided = np.zeros(1800, kind)
    strided[::3] = x
    for form in (x, read_only, strided[::3], x[::-1].copy()[::-1]):
        assert (m.release(form, stream=stream) == expected).all()
    folded = m.release(np.asfortranarray(x.reshape(20, 30)), stream=stream)
    assert (folded.reshape(expected.shape) == expected).all()
    assert (x == read_only).all()


def test_bools_give_bools() -> None:
    stream = KeyStream(bytes(range(32)))
    x = np.arange(70000) % 3 == 0
    expected = BINARY.release(x.astype(np.uint8), stream=stream)
    reports = BINARY.release(x, stream=stream)
    assert reports.dtype == bool
    assert (reports == expected).all()
    assert 0.2 < (reports != x).mean() < 0.34
    wide = np.zeros((70000, 2), bool)
    wide[:, 0] = x
    assert (BINARY.release(wide[:, 0], stream=stream) == reports).all()
    out = x.copy()
    assert BINARY.release(out, out=out, stream=stream) is out
    assert (out == reports).all()
    for scalar in (True, np.False_, np.array(True)):
        assert type(BINARY.release(scalar)) is np.bool_
    assert BINARY.estimate(reports).counts == pytest.approx(
        BINARY.estimate(expected).counts
    )


def test_packed_bits_are_the_same_flips() -> None:
    stream = KeyStream(bytes(range(32)))
    x = np.arange(80000) % 5 == 0
    expected = BINARY.release(x, stream=stream)
    bits = np.packbits(x)
    for workers in (1, 3):
        packed = BINARY.release(bits, packed=True, stream=stream, workers=workers)
        assert packed.dtype == np.uint8
        assert (np.unpackbits(packed) == expected).all()
    folded = BINARY.release(bits.reshape(100, 100), packed=True, stream=stream)
    assert (folded.reshape(-1) == packed).all()
    again = bits.copy()
    assert BINARY.release(again, packed=True, out=again, stream=stream) is again
    assert (again == packed).all()
    one = BINARY.release(np.array(255, np.uint8), packed=True)
    assert type(one) is np.uint8


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 8191, 8192, 8193, 30001])
def test_packed_bits_are_counted_up_to_the_last(count: int) -> None:
    bits = np.arange(count) % 7 < 3
    octets = np.packbits(bits)
    if count % 8:
        octets[-1] |= (1 << (8 - count % 8)) - 1  # beyond the count: left out
    for workers in (1, 2):
        est = BINARY.estimate(octets, packed=True, count=count, workers=workers)
        plain = BINARY.estimate(bits)
        assert est.users == count
        assert (est.counts == plain.counts).all()
        assert (est.standard_errors == plain.standard_errors).all()


@pytest.mark.parametrize("m", MECHANISMS, ids=name)
@pytest.mark.parametrize("n", [1, 4095, 4097, 33000])
def test_reports_do_not_depend_on_workers(m: Any, n: int) -> None:
    x = np.arange(n) % m.categories
    first = m.release(x, stream=FixedStream("a"))
    for workers in (2, 5):
        again = m.release(x, stream=FixedStream("a"), workers=workers)
        assert (again == first).all()
        est = m.estimate(again, workers=workers)
        assert (est.counts == m.estimate(first).counts).all()


@pytest.mark.parametrize("m", MECHANISMS, ids=name)
def test_keys_drawn(m: Any) -> None:
    stream = CountingStream()
    m.release(np.zeros(9000, np.int8), stream=stream, workers=2)
    assert stream.calls == (2 if isinstance(m, LH) else 1)


@pytest.mark.parametrize("m", MECHANISMS, ids=name)
def test_shared_memory(m: Any) -> None:
    stream = KeyStream(b"s" * 32)
    width = m.report_width
    x = np.arange(5000) % min(m.categories, 200)
    expected = m.release(x, stream=stream)
    for shift in (0, 1, 8 * width):
        memory = np.zeros(16 * 5000 + 5000 * width, np.uint8)
        labels = memory[: 5000 * 8].view(np.int64)
        labels[:] = x
        start = shift * m.report_dtype.itemsize
        out = memory[start : start + 5000 * width].view(m.report_dtype)
        m.release(labels, out=out.reshape(expected.shape), stream=stream)
        assert (out.reshape(expected.shape) == expected).all()


def test_in_place() -> None:
    m = RR.from_epsilon(1, categories=7)
    x = (np.arange(9000) % 9).astype(np.uint8)
    expected = m.release(x, stream=FixedStream("b"))
    assert m.release(x, out=x, stream=FixedStream("b"), workers=2) is x
    assert (x == expected).all()


# --- values outside the domain ------------------------------------------------


@pytest.mark.parametrize("m", MECHANISMS, ids=name)
def test_other_is_the_category_that_outside_values_count_as(m: Any) -> None:
    stream = KeyStream(b"o" * 32)
    last = m.categories - 1
    named = type(m)(**{**dict(m._arguments), "other": last})
    outside = np.array([-1, m.categories, -(2**63), 2**63 - 1] * 50)
    expected = named.release(np.full(200, last), stream=stream)
    assert (named.release(outside, stream=stream) == expected).all()
    report = named.release(2**100, stream=stream)
    assert (report == named.release(last, stream=stream)).all()


@pytest.mark.parametrize("kind", [RR, UE, LH, HR])
@pytest.mark.parametrize("categories", [2, 3, 6])
def test_otherwise_they_are_uniform(kind: Any, categories: int) -> None:
    m = kept(kind.from_epsilon(1, categories=categories))
    n = 20000
    x = np.where(np.arange(n) % 2, categories, -5)
    counts = m.estimate(m.release(x, stream=FixedStream("u"))).counts
    # The error is that of a multinomial count: 5 standard deviations.
    spread = 5 * np.sqrt(n * (categories - 1)) / categories
    error = 5 * m.standard_error(n, frequency=1 / categories)
    assert np.abs(counts - n / categories).max() < spread + error


def test_other_values_of_bits_are_answered_by_a_fair_bit() -> None:
    m = RR(1 - 2.0**-40)
    reports = m.release(np.full(20000, 2, np.int8), stream=FixedStream("f"))
    assert set(reports.tolist()) == {0, 1}
    assert abs(int(reports.sum()) - 10000) < 400


# --- refusals -----------------------------------------------------------------


@pytest.mark.parametrize("m", MECHANISMS, ids=name)
def test_values_of_a_wrong_kind(m: Any) -> None:
    stream = CountingStream()
    bad = [
        [1.0, 0], ([1],), ["1"], [None],
        "1", None, 1.0, np.float64(1), np.uint64(1), 1j, object(),
        np.zeros(3), np.zeros(3, np.uint64), np.zeros(3, object), np.array(["1"]),
        np.zeros(3, "m8[s]"), np.ma.masked_array([1, 0], [0, 1]),
    ]  # fmt: skip
    if m.categories > 2 or not isinstance(m, RR):
        bad += [True, np.True_, np.ones(3, bool)]
    for values in bad:
        with pytest.raises(DTypeError, match="values must be"):
            m.release(values, stream=stream)
    assert stream.calls == 0


@pytest.mark.parametrize(("m", "dtype", "row", "width"), FORMS, ids=name)
def test_out_stream_and_workers_are_checked(
    m: Any, dtype: Any, row: tuple[int, ...], width: int
) -> None:
    x, good = np.zeros(6, np.int64), np.zeros((6, *row), dtype)
    read_only = good.copy()
    read_only.flags.writeable = False
    wrong = np.zeros(good.shape, np.float32)
    for out in (wrong, good.tolist(), read_only, np.zeros((12, *row), dtype)[::2]):
        with pytest.raises(DTypeError, match="out must"):
            m.release(x, out=out)
    for shape in ((7, *row), (6, 1, *row), (6, *row, 1)):
        with pytest.raises(ParameterError, match=r"out must have shape \(6,"):
            m.release(x, out=np.zeros(shape, dtype))
    for seed in (1, np.random.default_rng(1), "a"):
        with pytest.raises(DTypeError, match="stream must be None"):
            m.release(x, stream=seed)
    for workers, error in ((0, ParameterError), (1.0, DTypeError), (True, DTypeError)):
        with pytest.raises(error, match="workers"):
            m.release(x, workers=workers)
        with pytest.raises(error, match="workers"):
            m.estimate(good, workers=workers)


@pytest.mark.parametrize(("m", "dtype", "row", "width"), FORMS, ids=name)
def test_reports_of_a_wrong_form(
    m: Any, dtype: Any, row: tuple[int, ...], width: int
) -> None:
    good = m.release(np.zeros(4, np.int8))
    padded = np.dtype([("seed", "<u8"), ("value", "<u4")], align=True)
    for bad in (np.int64, np.float64, object, padded, "S4"):
        if bad is np.int64 and np.dtype(dtype).names is None:
            continue  # another width of integers is taken
        with pytest.raises(DTypeError, match=r"reports must have dtype .*\(4,\)"):
            m.estimate(np.zeros(4, bad))
    for wrong in (None, 1, np.ma.masked_array(good)):
        with pytest.raises(DTypeError, match="reports must be an array of dtype"):
            m.estimate(wrong)
    if row:
        for shape in ((4, row[0] + 1), (row[0] - 1,), (), (row[0], 4, 3)):
            with pytest.raises(ParameterError, match=r"reports must have shape"):
                m.estimate(np.zeros(shape, dtype))
    if not isinstance(m, RR) or m.categories > 2:
        with pytest.raises(ParameterError, match=r"packed .*must be"):
            m.aggregator().add(good, packed=True, count=4)


@pytest.mark.rest
@pytest.mark.parametrize(("m", "dtype", "row", "width"), FORMS, ids=name)
def test_lists_and_other_widths_of_reports(
    m: Any, dtype: Any, row: tuple[int, ...], width: int
) -> None:
    reports = m.release(np.arange(40) % m.categories)
    counts = m.estimate(reports).counts
    assert np.array_equal(m.estimate(reports.tolist()).counts, counts)
    assert m.estimate([]).users == 0
    if reports.dtype.names is not None:
        # A seed or a value out of range supports nothing, and counts.
        hostile = m.estimate([*reports.tolist(), (-1, 0), (2**64, 1), (5, 2**32)])
        silent = np.append(reports, np.array([(5, 2**32 - 1)] * 3, reports.dtype))
        assert np.array_equal(hostile.counts, m.estimate(silent).counts)
        assert hostile.users == 43
        return
    for other in (np.int64, ">u8", np.uint64, np.int32, ">i4"):
        if not row and reports.dtype.itemsize == 4 and np.dtype(other).itemsize == 4:
            continue
        assert np.array_equal(m.estimate(reports.astype(other)).counts, counts)
    silent = np.zeros((3, *row), np.int64) - 1
    hostile = np.concatenate([reports.astype(np.int64), silent])
    hostile[-2] = 2**40
    hostile[-1] = 2**32 + 1 if not row else 256
    found = m.estimate(hostile)
    assert found.users == 43
    supporters = (found.counts - counts) * float(m._support.own - m._support.cross)
    # Three users of no category: each takes off what the others' reports add.
    assert supporters == pytest.approx(np.full(m.categories, -3 * m._support.cross))


def test_packed_bits_of_a_wrong_form() -> None:
    bits = np.zeros(4, np.uint8)
    with pytest.raises(ParameterError, match="packed must be False with 3 categ"):
        RR.from_epsilon(1, categories=3).release(bits, packed=True)
    with pytest.raises(ParameterError, match="packed must be False with 3 categ"):
        RR.from_epsilon(1, categories=3).estimate(bits, packed=True, count=32)
    for packed in (1, None, "no"):
        with pytest.raises(DTypeError, match="packed must be a bool"):
            BINARY.release(bits, packed=packed)
        with pytest.raises(DTypeError, match="packed must be a bool"):
            BINARY.estimate(bits, packed=packed)
    for values in (np.zeros(4, bool), np.zeros(4, np.int8), [0, 1], 1, None):
        with pytest.raises(DTypeError, match="values must have dtype uint8"):
            BINARY.release(values, packed=True)
        with pytest.raises(DTypeError, match="reports must have dtype uint8"):
            BINARY.estimate(values, packed=True, count=32)
    with pytest.raises(ParameterError, match="count must be given"):
        BINARY.estimate(bits, packed=True)
    with pytest.raises(ParameterError, match="count must be left out"):
        BINARY.estimate(bits, count=4)
    with pytest.raises(ParameterError, match="count must be left out"):
        UE.from_epsilon(1, categories=8).aggregator().add(bits.reshape(4, 1), count=4)
    for count in (24, 33, 10**9):
        with pytest.raises(ParameterError, match=f"bytes for {count} bits, got 4"):
            BINARY.estimate(bits, packed=True, count=count)
    for bad, error in ((-1, ParameterError), (32.0, DTypeError), (True, DTypeError)):
        with pytest.raises(error, match="count"):
            BINARY.estimate(bits, packed=True, count=bad)


def test_more_reports_than_one_release_has_keystream_for() -> None:
    stream = CountingStream()
    m = UE.from_epsilon(1, categories=2**24)
    with pytest.raises(ParameterError, match=f"at most {2**42} bytes"):
        m.release(np.zeros(2**21 + 1, np.int8), stream=stream)
    assert stream.calls == 0


# --- failures -----------------------------------------------------------------


@pytest.mark.parametrize("m", MECHANISMS, ids=name)
@pytest.mark.parametrize("error", [EntropyError("gone"), KeyboardInterrupt()], ids=name)
def test_without_randomness_out_is_zero(m: Any, error: BaseException) -> None:
    x = np.zeros(50, np.int64)
    out = np.frombuffer(b"\x07" * 50 * m.report_width, m.report_dtype).copy()
    out = out.reshape(m.release(x).shape)
    with pytest.raises(type(error)):
        m.release(x, out=out, stream=BrokenStream(error))
    assert out.tobytes().strip(b"\0") == b""


KERNELS = [
    (BINARY, "flip_bytes"),
    (RR.from_epsilon(1, categories=5), "respond"),
    (UE.from_epsilon(1, categories=20), "flip_bits"),
    (UE.from_epsilon(1, categories=20), "respond"),
    (UE.from_epsilon(1, categories=20), "insert_bits"),
    (LH.from_epsilon(1, categories=20), "hash_clients"),
    (HR.from_epsilon(1, categories=20), "hadamard_clients"),
]


@pytest.mark.parametrize(("m", "kernel"), KERNELS, ids=name)
@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()], ids=name)
@pytest.mark.parametrize("workers", [1, 3])
def test_a_failure_midway_leaves_nothing(
    m: Any, kernel: str, error: BaseException, workers: int, monkeypatch: Any
) -> None:
    original, seen, calls = getattr(_core, kernel), [], []

    def failing(*args: Any) -> None:
        seen.extend(a for a in args if isinstance(a, np.ndarray) and a.flags.writeable)
        original(*args)
        calls.append(1)
        if len(calls) >= late:
            raise error

    monkeypatch.setattr(_core, kernel, failing)
    x = np.arange(70000) % 20
    x.flags.writeable = False
    out = np.frombuffer(b"\x07" * 70000 * m.report_width, m.report_dtype).copy()
    out = out.reshape(70000, *m._row)
    late = 2 if workers == 1 and isinstance(m, UE) else 1
    with pytest.raises(type(error)):
        m.release(x, out=out, workers=workers)
    assert out.tobytes().strip(b"\0") == b""
    assert seen
    assert all(array.tobytes().strip(b"\0") == b"" for array in seen)


@pytest.mark.parametrize("m", MECHANISMS, ids=name)
def test_scratch_and_copies_are_cleared(m: Any, monkeypatch: Any) -> None:
    cleared: list[int] = []
    original = _core.zero

    def zero(array: Any) -> None:
        cleared.append(array.size)
        original(array)

    monkeypatch.setattr(_core, "zero", zero)
    strided = np.arange(2000)[::2] % m.categories
    m.release(strided[::2])
    if isinstance(m, UE):
        assert cleared.count(500) + cleared.count(63) >= 2
    assert cleared[-1] == 500
    m.release(3)
    assert cleared[-1] == 1


def test_a_value_is_in_no_message() -> None:
    secret = 123456789
    m = UE.from_epsilon(1, categories=20)
    x = np.full(5, secret)
    out = np.zeros((4, 3), np.uint8)
    with pytest.raises(ParameterError) as caught:
        m.release(x, out=out)
    assert str(secret) not in str(caught.value)
    with pytest.raises(DTypeError) as caught:
        m.release(float(secret))
    assert str(secret) not in str(caught.value)


@pytest.mark.parametrize("offset", [0, 1, 7])
def test_far_reports_of_hashing_are_those_of_near_parts(offset: int) -> None:
    n = 750_000  # 9 MB, which go by the caches; a quarter of them does not
    m = fastdp.LocalHashing.from_epsilon(1, categories=100)
    x = np.arange(n) % 100
    near = m.release(x, stream=FixedStream("far"), workers=4)
    out = np.zeros(n + offset, m.report_dtype)[offset:]
    m.release(x, out=out, stream=FixedStream("far"))
    assert out.tobytes() == near.tobytes()
