"""Columns go everywhere that arrays go, and mean the same whatever holds them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _doorway
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.testing import FixedStream

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

#: What holds a column of int64, of float64, and one of integers with nulls.
HOLDERS: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x.tolist()),
    "pandas": pd.Series,
    "pandas nullable": lambda x: pd.Series(x).astype(x.dtype.name.capitalize()),
    "pandas of Arrow": lambda x: pd.Series(
        pa.array(x), dtype=pd.ArrowDtype(pa.array(x).type)
    ),
    "index": pd.Index,
    "polars": lambda x: pl.Series("x", x),
    "pyarrow": pa.array,
    "chunked": lambda x: pa.chunked_array([x[:2], x[2:]]),
}
#: Holders whose integers can be missing, so that quantiles are integers, too.
TYPED = ("pandas nullable", "pandas of Arrow", "polars", "pyarrow", "chunked")

WITH_NULLS: dict[str, Callable[[list[Any]], Any]] = {
    "pandas": lambda x: pd.Series(x, dtype="Int64"),
    "polars": lambda x: pl.Series("x", x),
    "pyarrow": pa.array,
    "chunked": lambda x: pa.chunked_array([x[:2], x[2:]]),
}

SCORES = np.array([3, 9, 4, 1, 7])
REALS = np.array([3.5, 9.25, -4.0, 1.5, 7.0])
LABELS = np.array([0, 1, 1, 0, 1])

choice = fastdp.ExponentialMechanism(1, sensitivity=1)
flip = fastdp.PermuteAndFlip(1, sensitivity=1)
noisy = fastdp.ReportNoisyMax(1, sensitivity=1)
middle = fastdp.Quantiles((0.25, 0.75), bounds=(0, 10), epsilon=1)
clipped = fastdp.ClippedSum(scale=1, radius=9, dimension=1, norm="inf")
blocks = fastdp.ClippedSum(scale=1, radius=9, dimension=1, norm="inf", blocks=2)
moments = fastdp.Moments(scale=1, bounds=(0, 9))
groups = fastdp.Moments(scale=1, bounds=(0, 9), groups=2)
keys = fastdp.KeySelection(epsilon=1, delta=0.1, keys_per_user=1)
shuffled = fastdp.ShuffledResponse(0.9, clients=2, categories=9)


def drawn() -> FixedStream:
    return FixedStream("columns")


def vector() -> fastdp.SparseVector:
    return fastdp.SparseVector(5, epsilon=9, sensitivity=1, answers=3, stream=drawn())


ROW: dict[str, Any] = {"unit": "row", "epsilon": 100}

#: What takes integers, and floats, as an array and as a column.
INTEGERS: dict[str, Callable[[Any], Any]] = {
    "select": lambda x: choice.select(x, stream=drawn()),
    "select with weights": lambda x: choice.select(
        x, weights=[1, 2, 3, 1, 1], stream=drawn()
    ),
    "several": lambda x: choice.select(x, k=3, stream=drawn()),
    "select_stream": lambda x: choice.select_stream([x, x], stream=drawn()),
    "permute and flip": lambda x: flip.select(x, stream=drawn()),
    "report noisy max": lambda x: noisy.select(x, stream=drawn()),
    "noisy_argmax": lambda x: fastdp.noisy_argmax(x, sigma=1, stream=drawn()),
    "Quantiles": lambda x: middle.release(x, stream=drawn()),
    "sparse vector": lambda x: vector().test(x, stream=drawn()),
    "moments": lambda x: moments.release(x, stream=drawn()).mean,
    "moments by": lambda x: groups.release(x, by=LABELS, stream=drawn()).sum,
    "accumulator": lambda x: moments.accumulator().add(x).release(stream=drawn()).sum,
    "count": lambda x: fastdp.count(x, **ROW, stream=drawn()).value,
    "sum": lambda x: fastdp.sum(x, bounds=(0, 9), **ROW, stream=drawn()).value,
    "mean": lambda x: fastdp.mean(x, bounds=(0, 9), **ROW, stream=drawn()).value,
    "quantiles": lambda x: (
        fastdp.quantiles(x, [0.2, 0.5], bounds=(0, 9), **ROW, stream=drawn()).value
    ),
    "histogram": lambda x: fastdp.histogram(x, [0, 5, 9], **ROW, stream=drawn()).value,
}
REAL = dict(INTEGERS) | {
    "clipped sum": lambda x: clipped.release(
        x[:, None] if isinstance(x, np.ndarray) else x, stream=drawn()
    ),
}
#: What takes integers alone.
WHOLE: dict[str, Callable[[Any], Any]] = {
    "key selection": lambda x: np.asarray(keys.select(x, stream=drawn())),
    "unknown keys": lambda x: fastdp.UnknownHistogram.from_epsilon_delta(
        epsilon=9, delta=0.1, keys_per_user=1
    ).release(list("abcde"), x, stream=drawn())[1],
    "moments by codes": lambda x: groups.release(SCORES, by=x, stream=drawn()).sum,
    "blocks": lambda x: blocks.release(REALS[:, None], labels=x, stream=drawn()),
    "shuffled response": lambda x: shuffled.release(x, stream=drawn()),
}


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and np.array_equal(one, other)


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", [*INTEGERS, *WHOLE])
def test_integers(name: str, holder: str) -> None:
    call, plain = (INTEGERS | WHOLE)[name], SCORES
    if name == "Quantiles" and holder in ("list", "tuple"):
        # One float among the integers of a list must not change what quantiles are.
        plain = SCORES.astype(float)
    elif name == "quantiles" and holder in TYPED:
        plain = pa.array(SCORES)
    assert same(call(HOLDERS[holder](SCORES)), call(plain))


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", REAL)
def test_reals(name: str, holder: str) -> None:
    assert same(REAL[name](HOLDERS[holder](REALS)), REAL[name](REALS))


#: What a null is instead: an array that says the same.
NULL_IS: dict[str, Any] = {
    **dict.fromkeys(("select", "several", "permute and flip", "noisy_argmax"), 0),
    **dict.fromkeys(("Quantiles", "sparse vector"), 0),
    **dict.fromkeys(("moments", "moments by", "accumulator", "count"), np.nan),
    **dict.fromkeys(("sum", "mean", "quantiles", "histogram"), np.nan),
    **dict.fromkeys(("key selection", "unknown keys"), 0),
    **dict.fromkeys(("moments by codes", "blocks", "shuffled response"), -1),
}


@pytest.mark.parametrize("holder", WITH_NULLS)
@pytest.mark.parametrize("name", NULL_IS)
def test_nulls_are_the_stated_constant(name: str, holder: str) -> None:
    call = (INTEGERS | WHOLE)[name]
    listed = [3, None, 4, 1, None]
    if name == "quantiles":  # of a column of integers they are integers
        plain = pa.array([one for one in listed if one is not None])
    else:
        plain = np.array([NULL_IS[name] if one is None else one for one in listed])
    assert same(call(WITH_NULLS[holder](listed)), call(plain))


def test_a_null_of_quantiles_is_the_lower_bound_in_any_width() -> None:
    for low, high in ((-5, 9), (300, 500), (2.5, 9)):
        m = fastdp.Quantiles(0.5, bounds=(low, high), epsilon=9)
        column = pa.array([None] * 200 + [8], pa.uint8())
        plain = np.array([int(np.ceil(low))] * 200 + [8])
        for given in (column, pd.Series(column, dtype=pd.ArrowDtype(pa.uint8()))):
            assert m.release(given, stream=drawn()) == m.release(plain, stream=drawn())


def test_a_null_changes_no_other_record() -> None:
    """Large integers become the nearest doubles, whether or not a null is near."""
    large = 2**60 + 1
    for holder in WITH_NULLS.values():
        for kinds in ([large, 3, large], [large, None, large]):
            found = _doorway.records("x", holder(kinds))
            assert found[0] == found[2] == 2.0**60
    assert np.isnan(_doorway.records("x", [None, 1])[0])
    assert _doorway.records("x", [True, np.False_, 2, 2.5]).tolist() == [1, 0, 2, 2.5]


def test_whether_a_column_has_a_null_is_no_error() -> None:
    """It was one for pandas' nullable and for Arrow's columns: that shows a record."""
    for holder in WITH_NULLS.values():
        for listed in ([1, 2, 3], [1, None, 3]):
            found = fastdp.sum(holder(listed), bounds=(0, 9), **ROW)
            assert isinstance(found.value, float)


TABLE = np.array([[1.0, 2.5], [3.0, -4.0], [5.0, 6.0]])


@pytest.mark.parametrize(
    "held",
    [
        TABLE.tolist(),
        tuple(map(tuple, TABLE.tolist())),
        pd.DataFrame(TABLE),
        pd.DataFrame({"a": TABLE[:, 0].astype(int), "b": TABLE[:, 1]}),
        pl.DataFrame({"a": TABLE[:, 0], "b": TABLE[:, 1]}),
        pa.table({"a": TABLE[:, 0], "b": TABLE[:, 1]}),
        pa.record_batch({"a": TABLE[:, 0], "b": TABLE[:, 1]}),
    ],
    ids=lambda held: type(held).__name__,
)
def test_rows_of_a_clipped_sum(held: Any) -> None:
    m = fastdp.ClippedSum(scale=1, radius=9, dimension=2, norm="inf")
    assert same(m.release(held, stream=drawn()), m.release(TABLE, stream=drawn()))
    parts = m.accumulator().add(held).add(held)
    assert np.array_equal(m.clip(held), m.clip(TABLE))
    assert parts.release(stream=drawn()).shape == (2,)


def test_rows_with_nulls_and_wrong_rows() -> None:
    m = fastdp.ClippedSum(scale=1, radius=9, dimension=2, norm="inf")
    with_null = pl.DataFrame({"a": [1, None], "b": [2.5, 3.0]})
    plain = np.array([[1.0, 2.5], [0.0, 3.0]])
    assert np.array_equal(m.clip(with_null), m.clip(plain))
    with pytest.raises(ParameterError, match="rows of equal length"):
        m.release([[1.0, 2.0], [3.0]])
    with pytest.raises(ParameterError, match=r"shape \(n, 2\)"):
        m.release([1.0, 2.0])
    assert np.array_equal(m.clip([[1.0, "b"], [None, 3]]), m.clip([[1.0, 0], [0, 3]]))


def test_the_kind_comes_back_where_there_is_one_result_a_row() -> None:
    index = list("abcde")
    shown = keys.select(pd.Series(SCORES, index=index), stream=drawn())
    assert shown.index.tolist() == index
    assert shown.dtype == bool
    # A shuffle must not say whose report is whose.
    reports = shuffled.release(pd.Series(SCORES, index=index), stream=drawn())
    assert isinstance(reports, np.ndarray)


SECRET = 98765432101


#: What reads a list record by record: text is missing there.
RECORDS = [
    *("Quantiles", "quantiles", "moments", "moments by", "accumulator", "sum", "mean"),
    *("histogram", "clipped sum", "moments by codes", "blocks"),
]


@pytest.mark.parametrize(
    "name", [n for n in [*REAL, *WHOLE] if n not in [*RECORDS, "count"]]
)
@pytest.mark.parametrize("x", [[str(SECRET)] * 5, [[[SECRET]]] * 5])
def test_lists_of_text_are_refused_without_a_value(name: str, x: Any) -> None:
    with pytest.raises(DTypeError) as caught:
        (REAL | WHOLE)[name](x)
    assert str(SECRET)[:6] not in str(caught.value)


@pytest.mark.parametrize("name", RECORDS)
def test_text_in_a_list_of_records_is_missing(name: str) -> None:
    call = (REAL | WHOLE)[name]
    others = [
        np.timedelta64(3, "s"),
        "7",
        b"7",
        "n/a",
        1j,
        object(),
        pd.NA,
        pd.NaT,
        {},
        "\ud800",
    ]
    if name != "clipped sum":  # where a list is a row: shapes are public
        others += [[3], (3,)]
    for other in others:
        assert same(call([3, 1, other, 1, 7]), call([3, 1, None, 1, 7])), other
    for other in (2**70, -(2**70), Decimal("1e50"), Decimal("9" * 80), 10**400):
        call([3, 1, other, 1, 7])


# Text can be counted.
@pytest.mark.parametrize("name", [name for name in [*REAL, *WHOLE] if name != "count"])
@pytest.mark.parametrize(
    "x",
    [
        pa.array([str(SECRET)] * 5),
        pd.Series([str(SECRET)] * 5),
        pl.Series([str(SECRET)] * 5),
        pd.DataFrame({"a": [str(SECRET)] * 5}),
    ],
    ids=lambda x: type(x).__name__,
)
def test_text_and_tables_are_refused_without_a_value(name: str, x: Any) -> None:
    with pytest.raises(DTypeError) as caught:
        (REAL | WHOLE)[name](x)
    assert str(SECRET)[:6] not in str(caught.value)


def test_what_is_counted() -> None:
    for x in (
        ["a", None, "b"],
        pd.Series(["a", None, "b"]),
        [1.5, None, 2],
        [1.5, np.nan, 2],
    ):
        found = fastdp.count(x, **ROW, stream=drawn())
        assert found.value == fastdp.count([1, 2], **ROW, stream=drawn()).value
    with pytest.raises(DTypeError, match="x must be a list"):
        fastdp.count(pd.DataFrame({"a": [1]}), **ROW)
