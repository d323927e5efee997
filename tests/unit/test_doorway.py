"""What looks like data is taken, and what comes back has the kind that went in."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _arrow, _doorway
from fastdp.exceptions import DTypeError, FastDPError
from fastdp.testing import FixedStream

pa = pytest.importorskip("pyarrow")

#: Beyond the integers that a double holds: a way by floats would show.
VALUES = [2**53 + 1, -5, 0, 7]

LAPLACE = fastdp.DiscreteLaplace(scale=3)
REAL = fastdp.Laplace(scale=3, coordinates=1, answer_bounds=(2, 9))
RESPONSE = fastdp.RandomizedResponse.from_epsilon(1, categories=5)


class Foreign:
    """A column of a library that nobody knows; it speaks the protocol alone."""

    def __init__(self, column: Any) -> None:
        self.column = column

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.column.__arrow_c_array__()


class Stream:
    """The same in chunks."""

    def __init__(self, column: Any) -> None:
        self.column = column

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.column.__arrow_c_stream__()


def expected(values: Any, mechanism: Any = LAPLACE, dtype: Any = np.int64) -> Any:
    return mechanism.release(np.array(values, dtype), stream=FixedStream("d"))


# ---- kinds ---------------------------------------------------------------------------


def test_lists_and_tuples() -> None:
    listed = LAPLACE.release(VALUES, stream=FixedStream("d"))
    assert listed == expected(VALUES).tolist()
    assert {type(y) for y in listed} == {int}
    assert LAPLACE.release(tuple(VALUES), stream=FixedStream("d")) == tuple(listed)
    assert LAPLACE.release([]) == []
    mixed = [1, np.int8(2), np.uint32(3)]
    assert (
        LAPLACE.release(mixed, stream=FixedStream("d")) == expected([1, 2, 3]).tolist()
    )
    floats = [2.5, 3, np.float32(4)]
    assert (
        REAL.release(floats, stream=FixedStream("d"))
        == expected([2.5, 3, 4], REAL, float).tolist()
    )


def test_integers_of_a_list_saturate_and_floats_too() -> None:
    ends = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    assert _doorway.enter("x", [10**30, -(10**30)])[0].tolist() == ends.tolist()
    # As of a scalar: ints beyond 2**53 count as that.
    got = _doorway.enter("x", [10**400, -(10**400), 1.5, np.nan], real=True)[0]
    assert got[:3].tolist() == [2.0**53, -(2.0**53), 1.5]
    assert np.isnan(got[3])
    for item in (10**400, 2**53 + 1, -(2**60)):
        one = REAL.release(item, stream=FixedStream("d"))
        assert REAL.release([item], stream=FixedStream("d")) == [one]


def test_series_keep_index_and_name() -> None:
    pd = pytest.importorskip("pandas")
    series = pd.Series(VALUES, index=list("abcd"), name="n")
    got = LAPLACE.release(series, stream=FixedStream("d"))
    pd.testing.assert_series_equal(
        got, pd.Series(expected(VALUES), index=list("abcd"), name="n")
    )
    index = pd.Index(VALUES, name="n")
    got = LAPLACE.release(index, stream=FixedStream("d"))
    pd.testing.assert_index_equal(got, pd.Index(expected(VALUES), name="n"))
    bits = fastdp.RandomizedResponse.from_epsilon(1)
    assert bits.release(pd.Series([True, False])).dtype == np.bool_


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]"])
def test_nulls_of_series_count_as_zero(dtype: str) -> None:
    pd = pytest.importorskip("pandas")
    series = pd.Series([2**53 + 1, None, 3], dtype=dtype)
    got = LAPLACE.release(series, stream=FixedStream("d"))
    assert got.dtype == np.int64
    assert got.tolist() == expected([2**53 + 1, 0, 3]).tolist()


def test_polars_series() -> None:
    pl = pytest.importorskip("polars")
    got = LAPLACE.release(pl.Series("n", [*VALUES, None]), stream=FixedStream("d"))
    assert isinstance(got, pl.Series)
    assert got.name == "n"
    assert got.null_count() == 0
    assert got.to_list() == expected([*VALUES, 0]).tolist()


@pytest.mark.parametrize("missing", [[], [None]])
def test_arrow_arrays_come_back_without_a_bitmap(missing: list[None]) -> None:
    y = expected([*VALUES, *[0] * len(missing)]).tolist()
    got = LAPLACE.release(pa.array([*VALUES, *missing]), stream=FixedStream("d"))
    assert isinstance(got, pa.Int64Array)
    assert got.buffers()[0] is None
    assert got.to_pylist() == y
    chunked = pa.chunked_array([VALUES[:1], [], VALUES[1:] + missing], pa.int64())
    got = LAPLACE.release(chunked, stream=FixedStream("d"))
    assert isinstance(got, pa.ChunkedArray)
    assert got.to_pylist() == y
    for wrapped in (Foreign(pa.array([*VALUES, *missing])), Stream(chunked)):
        plain = LAPLACE.release(wrapped, stream=FixedStream("d"))
        assert isinstance(plain, np.ndarray)
        assert plain.tolist() == y


def test_out_is_what_is_returned() -> None:
    out = np.zeros(4, np.int64)
    assert LAPLACE.release(VALUES, out=out, stream=FixedStream("d")) is out
    assert out.tolist() == expected(VALUES).tolist()


# ---- nulls are one stated constant ---------------------------------------------------


def test_nulls_count_as_the_lower_bound_of_answers() -> None:
    got = REAL.release(pa.array([3.5, None, float("nan")]), stream=FixedStream("d"))
    assert got.to_pylist() == expected([3.5, 2, 2], REAL, float).tolist()
    single = REAL.release(pa.array([3.5, None], pa.float32()), stream=FixedStream("d"))
    assert single.type == pa.float32()
    # NaN of a Series is NaN, not a null.
    pd = pytest.importorskip("pandas")
    series = pd.Series([3.5, None])
    got = REAL.release(series, stream=FixedStream("d"))
    assert got.tolist() == expected([3.5, 2], REAL, float).tolist()


@pytest.mark.parametrize("kind", [pa.int64(), pa.int8(), pa.uint8()])
def test_nulls_of_categories_lie_outside_the_domain(kind: Any) -> None:
    other = fastdp.RandomizedResponse.from_epsilon(1, categories=5, other=3)
    for m, inside in ((RESPONSE, [1, -1, 2]), (other, [1, 3, 2])):
        got = m.release(pa.array([1, None, 2], kind), stream=FixedStream("d"))
        assert got.to_pylist() == expected(inside, m).tolist()


def test_nulls_of_bools_lie_outside_the_domain() -> None:
    bits = fastdp.RandomizedResponse.from_epsilon(1)
    column = pa.array([True, None, False])
    got = bits.release(column, stream=FixedStream("d"))
    assert got.to_pylist() == expected([1, -1, 0], bits, np.int8).tolist()


@pytest.mark.parametrize("start", [0, 1, 7, 8, 9, 64])
@pytest.mark.parametrize("length", [0, 1, 8, 37])
def test_slices_read_their_own_bits(start: int, length: int) -> None:
    rng = np.random.default_rng(start)
    values, missing = rng.integers(-9, 9, 200), rng.random(200) < 0.3
    column = pa.array(values, mask=missing).slice(start, length)
    wanted = np.where(missing, 0, values)[start : start + length]
    assert _arrow.column("x", column, 0).tolist() == wanted.tolist()
    wanted = np.where(missing, -4, values)[start : start + length]
    assert _arrow.column("x", column, -4).tolist() == wanted.tolist()
    bools = pa.array(values > 0).slice(start, length)
    wanted = (values > 0)[start : start + length]
    assert _arrow.column("x", bools, 0).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    "dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
)
def test_every_width_with_nulls_in_long_columns(dtype: str) -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(0, 100, 40_000).astype(dtype)
    missing = rng.random(values.size) < 0.5
    got = _arrow.column("x", pa.array(values, mask=missing), 7)
    assert got.dtype == np.dtype(dtype)
    assert np.array_equal(got, np.where(missing, 7, values).astype(dtype))


# ---- memory --------------------------------------------------------------------------


@pytest.mark.rest
def test_a_column_without_nulls_is_a_view_that_keeps_its_memory() -> None:
    column = pa.array(np.arange(100_000)).take(pa.array(np.arange(100_000)))
    address = column.buffers()[1].address
    for given in (column, pa.chunked_array([column])):
        view = _arrow.column("x", given, 0)
        assert view.__array_interface__["data"][0] == address
        assert not view.flags.writeable
    del column, given
    gc.collect()
    assert view[-1] == 99_999
    held = pa.total_allocated_bytes()
    del view
    gc.collect()
    assert held - pa.total_allocated_bytes() >= 800_000


def test_an_input_is_never_written() -> None:
    column = pa.array([1, None, 3])
    LAPLACE.release(column)
    assert column.to_pylist() == [1, None, 3]
    listed = [1, 2]
    LAPLACE.release(listed)
    assert listed == [1, 2]


# ---- refusals: the rule, and no value ------------------------------------------------

SECRET = 98765432101


class Failing:
    """A stream whose producer fails with data in its message."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        def batches() -> Any:
            raise ValueError(f"row with {SECRET}")
            yield

        schema = pa.schema([("a", pa.int64())])
        reader = pa.RecordBatchReader.from_batches(schema, batches())
        return reader.__arrow_c_stream__()


REFUSED = [
    [1.0 * SECRET],
    [SECRET, 2.5],
    [[SECRET]],
    [True],
    [None, SECRET],
    [np.uint64(SECRET)],
    [str(SECRET)],
    pa.array([1.0 * SECRET]),
    pa.array([SECRET], pa.uint64()),
    pa.array([str(SECRET)]),
    pa.array([[SECRET]]),
    pa.array([str(SECRET)]).dictionary_encode(),
    pa.table({"a": [SECRET]}),
    Failing(),
]


@pytest.mark.parametrize("x", REFUSED, ids=lambda x: type(x).__name__)
def test_other_columns_are_refused_without_a_value(x: Any) -> None:
    with pytest.raises(DTypeError, match=r"^x must be") as caught:
        LAPLACE.release(x)
    assert str(SECRET) not in str(caught.value)
    assert str(SECRET)[:6] not in str(caught.value)


def test_frames_and_other_dtypes_of_pandas_and_polars_are_refused() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for x in (
        pd.DataFrame({"a": [SECRET]}),
        pd.Series([str(SECRET)]),
        pd.Series([str(SECRET)], dtype="category"),
        pd.Series([SECRET], dtype=object),
        pd.to_datetime(pd.Series([SECRET])),
        pl.DataFrame({"a": [SECRET]}),
        pl.Series([str(SECRET)]),
    ):
        with pytest.raises(DTypeError, match=r"^x must be") as caught:
            LAPLACE.release(x)
        assert str(SECRET) not in str(caught.value)


def test_no_library_is_imported_for_what_is_none_of_its_own() -> None:
    import subprocess
    import sys

    code = (
        "import sys, fastdp; fastdp.DiscreteLaplace(scale=2).release([1, 2]);"
        "assert not {'pandas', 'polars', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_scalars_stay_scalars() -> None:
    for scalar in (3, np.int64(3)):
        assert not _doorway.is_data(scalar)
        assert type(LAPLACE.release(scalar)) is np.int64
    for refused in ("3", None, {1: 2}, 3.0, object()):
        with pytest.raises(FastDPError):
            LAPLACE.release(refused)


def test_a_null_among_bools_changes_no_type_of_labels() -> None:
    """Whether there is a null is data, whatever the mechanism takes."""
    two = fastdp.RandomizedResponse.from_epsilon(1, categories=2)
    three = fastdp.RandomizedResponse.from_epsilon(1, categories=3)
    groups = fastdp.Moments.from_epsilon(1, bounds=(0, 5), moments=1, groups=2)
    drawn: dict[str, Any] = {"stream": FixedStream("bools")}
    pl = pytest.importorskip("polars")
    for make in (pa.array, lambda v: pl.Series(v, dtype=pl.Boolean)):
        whole, part = make([True, False]), make([True, None])
        for call in (
            lambda x: np.asarray(two.release(x, **drawn)).dtype,
            lambda x: np.asarray(three.release(x, **drawn)).dtype,
            lambda x: type(groups.release([1.0, 2.0], by=x, **drawn).mean),
        ):
            assert call(whole) == call(part)
