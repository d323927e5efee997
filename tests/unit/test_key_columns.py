"""Columns of users and keys: whatever holds them, equal ones alone are equal."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._keys import codes, distinct, key_column, presence
from fastdp.testing import FixedStream

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore::fastdp.exceptions.InsecureStreamWarning"),
]

#: Two that a double cannot tell apart, and one null.
LARGE = [2**60, None, 2**60 + 1, 2**60]
WORDS = ["a", None, "A", "a"]


#: Noise that is 0 but with a probability below 1e-100.
SURE: dict[str, Any] = {"unit": "row", "epsilon": 1e6}


def columns(values: list[Any]) -> dict[str, Any]:
    """Return a column with nulls as the libraries hold it."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    text = isinstance(values[0], str)
    array = pyarrow.array(values)
    return {
        "list": values,
        "objects": np.array(values, object),
        "pandas nullable": pandas.Series(values, dtype="string" if text else "Int64"),
        "pandas arrow": pandas.Series(
            values, dtype="string[pyarrow]" if text else "int64[pyarrow]"
        ),
        "pandas categories": pandas.Series(
            pandas.Categorical(values) if text else np.array(values, object)
        ),
        "pandas array": pandas.array(values, dtype="string" if text else "Int64"),
        "pandas category array": pandas.Categorical(values),
        "polars": polars.Series(values),
        "arrow": array,
        "arrow dictionary": array.dictionary_encode(),
        "arrow chunks": pyarrow.chunked_array([array[:2], array[2:]]),
    }


@pytest.mark.parametrize("values", [LARGE, WORDS], ids=["integers", "text"])
def test_columns_with_nulls_keep_their_users(values: list[Any]) -> None:
    for name, column in columns(values).items():
        listed, known = key_column("users", column)
        assert known.tolist() == [True, False, True, True], name
        code, base = codes(listed[known])
        assert code[0] == code[2] != code[1], name
        assert code.max() < base, name
        mask = fastdp.bound_contributions(column, records_per_user=1)
        assert mask.sum() == 2, name
        assert mask[2], name
        assert not mask[1], name


@pytest.mark.parametrize("values", [[5, 7, 5], ["a", "b", "a"]])
def test_columns_without_nulls(values: list[Any]) -> None:
    for name, column in columns(values).items():
        listed, known = key_column("users", column)
        assert known.all(), name
        assert listed.tolist() == values, name


@pytest.mark.parametrize("dtype", "bBhHiIlL")
def test_integers_at_the_edges(dtype: str) -> None:
    edge = np.iinfo(dtype)
    for least in (edge.min, edge.max - 1):
        keys = np.array([least, least + 1, least], dtype)
        code, base = codes(keys)
        assert (code.tolist(), base) == ([0, 1, 0], 2)
    mask = fastdp.bound_contributions(
        np.array([edge.min, edge.max, edge.min], dtype), records_per_user=1
    )
    assert mask[1]
    assert mask.sum() == 2


def test_floats_count_where_they_are_one_integer_alone() -> None:
    doubtful = [2.0**53, -(2.0**53), 1e300, np.inf, -np.inf, np.nan]
    sound = [2.0**53 - 1, 1 - 2.0**53, -0.0, 0.0]
    for column in (np.array(doubtful + sound), doubtful + sound):
        listed, known = key_column("users", column)
        assert known.tolist() == [False] * len(doubtful) + [True] * len(sound)
        assert listed[known].tolist() == [2**53 - 1, 1 - 2**53, 0, 0]
    for rest, read in (([], []), ([0.5, 1.5], [0.5, 1.5])):
        narrow = np.array([2.0**24 - 1, 2.0**24, *rest], np.float32)
        listed, known = key_column("users", narrow)
        assert known.tolist() == [True, False, *map(bool, rest)]
        assert listed[known].tolist() == [2**24 - 1, *read]


def test_floats_that_are_no_integers_are_keys() -> None:
    values = [1.5, 2.5, 1.5, 2.0, 5e-324, math.nan]
    pandas = pytest.importorskip("pandas")
    for column in (values, np.array(values), pandas.Series(values, dtype="Float64")):
        listed, known = key_column("users", column)
        assert known.tolist() == [True] * 5 + [False]
        assert listed[known].tolist() == values[:5]
        assert distinct(listed[known])[0].tolist() == [5e-324, 1.5, 2, 2.5]
    exact: dict[str, Any] = {"epsilon": 1e6, "stream": FixedStream("floats")}
    users = fastdp.Unit([1.5, 2.5] * 300, records=1)
    assert fastdp.count([1] * 600, unit=users, **exact).value == 2
    by = {"by": [1.5, 1.0, 1], "keys": [1, 1.5], "unit": "row"}
    shown = fastdp.count([1] * 3, **by, **exact)
    assert (shown.groups(), shown.value.tolist()) == ([(1,), (1.5,)], [2, 1])


def test_keys_that_look_alike_are_different() -> None:
    alike = ["\u00e9", "e\u0301", "\u00c9", "\u00e9 ", "\u00e9\0", "\ud800"]
    code, base = codes(key_column("keys", alike)[0])
    assert len(set(code.tolist())) == base == len(alike)
    code, _ = codes(key_column("keys", [2**70, 2**70 + 1, -(2**70)])[0])
    assert len(set(code.tolist())) == 3


@pytest.mark.parametrize(
    "other", [7, "ab", np.zeros(2, complex), np.zeros((2, 2), "O")]
)
def test_what_is_no_column_of_keys_is_refused(other: Any) -> None:
    with pytest.raises((DTypeError, ParameterError), match="users must"):
        fastdp.bound_contributions(other, records_per_user=1)


# ---- one record changes no other ----------------------------------------------------

#: A record of each kind. What follows it is not to change by it.
KINDS = [None, math.nan, "a", "", b"a", 7, 2**70, 1.0, 1.5]


def keys_of(column: Any) -> list[Any]:
    """Return each entry's key, with its type; None where it has none."""
    listed, known = key_column("keys", column)
    pairs = zip(listed.tolist(), known.tolist(), strict=True)
    return [(type(key), key) if there else None for key, there in pairs]


def holders(values: list[Any]) -> dict[str, Any]:
    """Return values of any kinds as what can hold them unchanged."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    return {
        "list": values,
        "tuple": tuple(values),
        "objects": np.fromiter(values, object, len(values)),
        "pandas objects": pandas.Series(values, dtype=object),
        "pandas categories": pandas.Series(
            pandas.Categorical(
                pandas.Series(values, dtype=object),
                categories=pandas.Index(
                    [v for v in dict.fromkeys(values) if v is not None and v == v],
                    dtype=object,
                ),
            )
        ),
        "polars objects": polars.Series(values, dtype=polars.Object),
    }


@pytest.mark.parametrize("last", KINDS, ids=range(len(KINDS)))
def test_a_record_of_another_kind_changes_no_other(last: Any) -> None:
    for first in KINDS:
        before, after = holders([first] * 3), holders([first] * 3 + [last])
        for name, column in before.items():
            was = keys_of(column)
            assert keys_of(after[name])[:-1] == was, (name, first)
            there = presence("x", column).tolist()
            assert presence("x", after[name])[:-1].tolist() == there, (name, first)
            nothing = first is None or first != first
            assert there == [not nothing] * 3, (name, first)


def typed() -> dict[str, tuple[list[Any], Any]]:
    """Return values of one type, and what makes a column of them and of nulls."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    compute = pytest.importorskip("pyarrow.compute")
    whole = [0, 5, 5, 2**60, 2**60 + 1]
    texts = ["a", "a\0", "", "\u00e9", "a"]
    small = [0.0, 1.5, 2.0**10, 2.0**11, 2.0**12]
    floats = [1.0, 2.0**23, 2.0**24, 2.0**25, 2.0**53]
    arrow, series = pa.array, pandas.Series

    def chunks(values: list[Any], type_: Any) -> Any:
        return pa.chunked_array([pa.array(values[:2], type_), values[2:]], type=type_)

    return {
        "arrow int64": (whole, lambda v: arrow(v, pa.int64())),
        "arrow chunks": (whole, lambda v: chunks(v, pa.int64())),
        "arrow string": (texts, lambda v: arrow(v, pa.string())),
        "arrow large_string": (texts, lambda v: arrow(v, pa.large_string())),
        "arrow string_view": (texts, lambda v: arrow(v, pa.string_view())),
        "arrow text chunks": (texts, lambda v: chunks(v, pa.string())),
        "arrow dictionary": (
            texts,
            lambda v: arrow(v, pa.string()).dictionary_encode(),
        ),
        "arrow null in the dictionary": (
            whole,
            lambda v: arrow(v, pa.int64()).dictionary_encode("encode"),
        ),
        "arrow run ends": (
            whole,
            lambda v: compute.run_end_encode(arrow(v, pa.int64())),
        ),
        "pandas null in the dictionary": (
            whole,
            lambda v: series(
                pandas.arrays.ArrowExtensionArray(
                    arrow(v, pa.int64()).dictionary_encode("encode")
                )
            ),
        ),
        "arrow float16": (
            small,
            lambda v: arrow(
                [None if x is None else np.float16(x) for x in v], pa.float16()
            ),
        ),
        "arrow float32": (floats, lambda v: arrow(v, pa.float32())),
        "arrow float64": (floats, lambda v: arrow(v, pa.float64())),
        "pandas Int64": (whole, lambda v: series(v, dtype="Int64")),
        "pandas int64[pyarrow]": (whole, lambda v: series(v, dtype="int64[pyarrow]")),
        "pandas string": (texts, lambda v: series(v, dtype="string")),
        "pandas str": (texts, lambda v: series(v, dtype="str")),
        "pandas string[pyarrow]": (
            texts,
            lambda v: series(v, dtype=pandas.ArrowDtype(pa.string())),
        ),
        "pandas Float32": (floats, lambda v: series(v, dtype="Float32")),
        "pandas float[pyarrow]": (floats, lambda v: series(v, dtype="float[pyarrow]")),
        "pandas float32": (floats, lambda v: series(v, dtype="float32")),
        "polars Int64": (whole, lambda v: polars.Series(v, dtype=polars.Int64)),
        "polars Int128": (whole, lambda v: polars.Series(v, dtype=polars.Int128)),
        "polars String": (texts, lambda v: polars.Series(v, dtype=polars.String)),
        "polars Float32": (floats, lambda v: polars.Series(v, dtype=polars.Float32)),
        "polars Float64": (floats, lambda v: polars.Series(v, dtype=polars.Float64)),
    }


def test_a_null_changes_no_other_record_of_a_typed_column() -> None:
    for name, (values, make) in typed().items():
        before, after = keys_of(make(values)), keys_of(make([*values, None]))
        assert after == [*before, None], name
        assert keys_of(make([None] * 5)) == [None] * 5, name
        there = presence("x", make([*values, None]))
        assert there.tolist() == [True] * 5 + [False], name
        if isinstance(values[0], float):
            bits = 11 if "16" in name else 53 if "64" in name else 24
            read = [v if v % 1 or v < 2**bits else None for v in values]
        else:
            read = list(values)
        assert [key and key[1] for key in before] == read, name


def test_counts_take_presence_alone() -> None:
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.compute")
    floats = pyarrow.array([1.5, math.nan, None])
    for column, count in [
        ([1.5] * 1000 + ["n/a"], 1001),
        (pandas.Series([1.5] * 1000, dtype=object), 1000),
        (pandas.Series([1] * 999 + [1.5], dtype=object), 1000),
        ([True, [1], (2, 3), Decimal("nan"), pandas.NaT, pandas.NA], 3),
        (np.array(["2020-01-01", "NaT"], "M8[D]"), 1),
        (np.array([1.0, np.nan, np.inf]), 2),
        (np.array(["a", ""]), 2),
        (floats.dictionary_encode(), 1),
        (pyarrow.compute.run_end_encode(floats), 1),
    ]:
        assert fastdp.count(column, unit="row", epsilon=1e6).value == count
    for wrong in ("text", 7, {"a": 1}, np.zeros(3, complex), pandas.DataFrame([[1]])):
        with pytest.raises(DTypeError, match="x must be"):
            fastdp.count(wrong, unit="row", epsilon=1)


def test_groups_of_mixed_columns() -> None:
    x = np.ones(1001)
    for by in ([1.0] * 1000 + [5], [1.0] * 1000 + ["a"], [1] * 1000 + [b"a"]):
        shown = fastdp.count(x, by=by, keys=[1, 5], **SURE)
        assert shown.value.tolist() == [1000, by[-1] == 5]
        found = fastdp.count(x, by=by, delta=1e-9, **SURE)
        assert found.groups()[0] == (1,)
        users = fastdp.bound_contributions(by, records_per_user=1)
        assert users.sum() == 2
        groups = fastdp.bound_contributions(by, by, keys_per_user=1, records_per_key=2)
        assert groups.sum() == 3
        m = fastdp.UnknownHistogram.from_epsilon_delta(
            epsilon=1e6, delta=1e-9, keys_per_user=1
        )
        assert m.release(by, np.full(1001, 2))[0] == [1, by[-1]]
    mixed = fastdp.count(["x"] * 3, by=[1, "1", b"1"], keys=["1", 1], **SURE)
    assert (mixed.groups(), mixed.value.tolist()) == ([("1",), (1,)], [1, 1])


def test_nulls_are_of_any_kind() -> None:
    pandas = pytest.importorskip("pandas")
    for by in (
        [math.nan] * 3,
        [None] * 3,
        pandas.Series([None] * 3, dtype=object),
    ):
        for keys in (["a", "b"], [1, 2]):
            shown = fastdp.count([1.0] * 3, by=by, keys=keys, **SURE)
            assert shown.value.tolist() == [0, 0]


def test_public_keys_are_of_the_kind_of_the_column() -> None:
    """A null among integers, which pandas makes floats of, decides nothing."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    makers: list[tuple[Any, list[Any]]] = [
        (lambda v: pandas.Series(v, dtype="Int64"), [1, 2]),
        (lambda v: pandas.Series(v, dtype="int64[pyarrow]"), [1, 2]),
        (pandas.Series, [1, 2]),
        (lambda v: polars.Series(v, dtype=polars.Int64), [1, 2]),
        (lambda v: pa.array(v, pa.int64()), [1, 2]),
        (lambda v: pa.array(v, pa.int64()).dictionary_encode(), [1, 2]),
        (lambda v: pandas.Series(v, dtype="string"), ["x", "y"]),
        (lambda v: pa.array(v, pa.string()), ["x", "y"]),
        (lambda v: pa.array(v, pa.binary()), [b"x", b"y"]),
    ]
    for make, (first, second) in makers:
        for by in (make([first, second]), make([first, None])):
            for keys in ([2j], [(1,)]):
                with pytest.raises(
                    ParameterError, match="keys must list at least one group"
                ):
                    fastdp.count([1, 1], by=by, keys=keys, **SURE)
            for keys in (["a"], [b"a"], [1]):
                if isinstance(keys[0], type(first)):
                    stream = FixedStream("kinds")
                    found = fastdp.count(
                        [1, 1], by=by, keys=keys, stream=stream, **SURE
                    )
                    assert found.groups() == [(keys[0],)]
                    continue
                with pytest.raises(DTypeError, match="keys must have the type of by"):
                    fastdp.count([1, 1], by=by, keys=keys, **SURE)


def test_masks_are_refused() -> None:
    for values in (["a", "b"], [1, 2], [1.0, 2.0]):
        masked = np.ma.masked_array(values, [True, False])
        with pytest.raises(DTypeError, match="mask"):
            fastdp.bound_contributions(masked, records_per_user=1)
        with pytest.raises(DTypeError, match="mask"):
            fastdp.count(masked, **SURE)
        with pytest.raises(DTypeError, match="by must have no mask"):
            fastdp.count([1, 2], by=masked, keys=values, **SURE)


def test_distinct_keys_are_sorted_within_their_kind() -> None:
    keys = np.array(["b", 2, b"b", 2**70, "a", -1, "b"], object)
    found, place = distinct(keys)
    assert found.tolist() == [-1, 2, 2**70, b"b", "a", "b"]
    assert found[place].tolist() == keys.tolist()


def test_released_text_is_as_wide_as_what_is_shown() -> None:
    m = fastdp.UnknownHistogram.from_epsilon_delta(
        epsilon=1, delta=1e-12, keys_per_user=1
    )
    counts = np.array([900, 900, 1])
    for rare in ("b", "b" * 50):
        for kind in ("U", "S"):
            keys = np.array(["a", "c", rare]).astype(kind)
            found, _ = m.release(keys, counts, stream=FixedStream("width"))
            assert (found.dtype, found.tolist()) == (
                np.dtype(f"{kind}1"),
                np.array(["a", "c"], kind).tolist(),
            )


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u8", "f8"])
def test_distinct_keys_are_those_of_a_sort(dtype: str) -> None:
    most = np.iinfo(dtype) if dtype != "f8" else np.iinfo("i8")
    rng = np.random.default_rng(1)
    for keys in (
        np.array([], dtype),
        np.array([most.max, 3, 3, most.max - 1], dtype),
        np.array([most.max, most.max - 2, most.max], dtype),
        np.array([most.min, most.min + 2, most.min] * 9, dtype),
        np.array([most.min, most.max] * 100, dtype),
        rng.integers(0, 120, 500).astype(dtype),
        rng.integers(0, 100, 7).astype(dtype),
    ):
        found, place = distinct(keys)
        wanted, at = np.unique(keys, return_inverse=True)
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
        assert place.tolist() == at.tolist()
