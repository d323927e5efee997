"""Columns of users and keys: whatever holds them, equal ones alone are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import DTypeError
from fastdp.mechanisms._keys import codes, key_column

pytestmark = pytest.mark.filterwarnings("error")

#: Two that a double cannot tell apart, and one null.
LARGE = [2**60, None, 2**60 + 1, 2**60]
WORDS = ["a", None, "A", "a"]


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
    doubtful = [2.0**53, -(2.0**53), 1e300, np.inf, -np.inf, np.nan, 0.5, 5e-324]
    sound = [2.0**53 - 1, 1 - 2.0**53, -0.0, 0.0]
    for column in (np.array(doubtful + sound), doubtful + sound):
        listed, known = key_column("users", column)
        assert known.tolist() == [False] * len(doubtful) + [True] * len(sound)
        assert listed[known].tolist() == [2**53 - 1, 1 - 2**53, 0, 0]
    _, known = key_column("users", np.array([2.0**24 - 1, 2.0**24], np.float32))
    assert known.tolist() == [True, False]


def test_keys_that_look_alike_are_different() -> None:
    alike = ["\u00e9", "e\u0301", "\u00c9", "\u00e9 ", "\u00e9\0", "\ud800"]
    code, base = codes(key_column("keys", alike)[0])
    assert len(set(code.tolist())) == base == len(alike)
    code, _ = codes(key_column("keys", [2**70, 2**70 + 1, -(2**70)])[0])
    assert len(set(code.tolist())) == 3


@pytest.mark.parametrize("mixed", [[1, "a"], [b"a", "a"], [True], [object()], 7, "ab"])
def test_mixed_columns_are_refused(mixed: Any) -> None:
    with pytest.raises(DTypeError, match="users must be"):
        fastdp.bound_contributions(mixed, records_per_user=1)
