"""Count-mean sketches: parameters, values of every kind, tallies, forms."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fastdp
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError
from fastdp.testing import FixedStream
from tests.privacy.streams import KeyStream

M = fastdp.CountMeanSketch.from_epsilon(2, rows=16, buckets=64)
U = fastdp.CountMeanSketch.from_epsilon(2, rows=16, buckets=64, inner="unary")
BOTH = pytest.mark.parametrize("m", [M, U], ids=["hadamard", "unary"])
VALUES = ["alpha", "beta", "", "gr\u00fc\u00df", "alpha"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": 3}, "rows must be a power of two, got 3: take 2 or 4"),
        ({"rows": 0}, "rows must be"),
        ({"rows": 2**16}, "rows must be"),
        ({"buckets": 1}, "buckets must be"),
        ({"buckets": 100}, "buckets must be a power of two"),
        ({"rows": 2**15, "buckets": 2**10}, "at most 2\\*\\*24"),
        ({"inner": "local"}, 'inner must be "hadamard" or "unary"'),
        ({"inner": 3}, "inner must be"),
        ({"key": "00"}, "key must be 32 hex digits"),
        ({"key": "g" * 32}, "key must be 32 hex digits"),
    ],
)
def test_bad_parameters(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        fastdp.CountMeanSketch.from_epsilon(1, **given)


def test_wrong_types_and_budgets() -> None:
    with pytest.raises(DTypeError, match="key must be a str"):
        fastdp.CountMeanSketch.from_epsilon(1, key=7)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="epsilon"):
        fastdp.CountMeanSketch.from_epsilon(0)
    with pytest.raises(CalibrationError):
        fastdp.CountMeanSketch.from_epsilon(2.0**-70)
    with pytest.raises(ParameterError, match="p must be"):
        fastdp.CountMeanSketch(0.5, rows=2, buckets=2, inner="hadamard")
    with pytest.raises(TypeError, match="inner"):  # p means nothing without it
        fastdp.CountMeanSketch(0.8, rows=2, buckets=2)  # type: ignore[call-arg]


@BOTH
def test_parameters_are_shown_and_made_again(m: Any) -> None:
    assert (m.rows, m.buckets, m.key) == (16, 64, "0" * 32)
    assert m.epsilon() == 2
    assert repr(m).startswith("CountMeanSketch(p=")
    for again in (
        fastdp.Mechanism.from_json(m.to_json()),
        pickle.loads(pickle.dumps(m)),
    ):
        assert again == m
        same = [x.release(VALUES, stream=FixedStream("a")) for x in (m, again)]
        assert (same[0] == same[1]).all()
    upper = fastdp.CountMeanSketch.from_epsilon(1, key="AB" * 16)
    assert upper == fastdp.CountMeanSketch.from_epsilon(1, key="ab" * 16)


KINDS: dict[str, Any] = {
    "tuple": tuple,
    "numpy": np.array,
    "objects": lambda v: np.array(v, object),
    "bytes": lambda v: [text.encode() for text in v],
    "fixed bytes": lambda v: np.array([text.encode() for text in v]),
    "pandas": pd.Series,
    "categorical": lambda v: pd.Series(v, dtype="category"),
    "polars": pl.Series,
    "arrow": pa.array,
    "large arrow": lambda v: pa.array(v, pa.large_string()),
    "binary arrow": lambda v: pa.array([text.encode() for text in v]),
    "a slice": lambda v: pa.array(["x", *v, "y"])[1:-1],
    "chunks": lambda v: pa.chunked_array([v[:2], [], v[2:]], pa.string()),
    "dictionary": lambda v: pa.array(v).dictionary_encode(),
    "view": lambda v: pa.array(v, pa.string_view()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_any_kind_are_the_same_values(kind: str) -> None:
    wanted = M.release(VALUES, stream=FixedStream("kinds"))
    found = M.release(KINDS[kind](VALUES), stream=FixedStream("kinds"))
    assert isinstance(found, np.ndarray)
    assert (found == wanted).all()


def test_a_number_that_is_no_integer_is_no_value() -> None:
    wanted = M.release([""], stream=FixedStream("half"))
    assert (M.release([1.5], stream=FixedStream("half")) == wanted).all()


def test_nulls_are_empty_and_integers_their_digits() -> None:
    wanted = M.release(["a", "", "b"], stream=FixedStream("nulls"))
    for values in (
        ["a", None, "b"],
        ["a", float("nan"), "b"],
        pd.Series(["a", None, "b"]),
        pl.Series(["a", None, "b"]),
        pa.array(["a", None, "b"]),
        pa.array(["c", "a", None, "b"])[1:],
    ):
        assert (M.release(values, stream=FixedStream("nulls")) == wanted).all()
    wanted = M.release(["12", "-3"], stream=FixedStream("ints"))
    for values in ([12, -3], np.array([12, -3]), pa.array([12, -3])):
        assert (M.release(values, stream=FixedStream("ints")) == wanted).all()


@BOTH
def test_shapes_out_and_workers(m: Any) -> None:
    one = m.release("alpha", stream=FixedStream("s"))
    assert isinstance(one, np.void)
    assert one.tobytes() == m.release(["alpha"], stream=FixedStream("s"))[0].tobytes()
    square = m.release(np.array([["a", "b"], ["c", "d"]]), stream=FixedStream("s"))
    flat = m.release(["a", "b", "c", "d"], stream=FixedStream("s"))
    assert square.shape == (2, 2)
    assert (square.reshape(-1) == flat).all()
    many = [str(n) for n in range(40_000)]
    wanted = m.release(many, stream=FixedStream("w"))
    out = np.zeros(len(many), m.report_dtype)
    assert m.release(many, stream=FixedStream("w"), workers=3, out=out) is out
    assert (out == wanted).all()
    assert m.release([]).shape == (0,)
    with pytest.raises(ParameterError, match="shape"):
        m.release(many, out=out[1:])
    with pytest.raises(DTypeError, match="dtype"):
        m.release(many, out=np.zeros(len(many)))


@pytest.mark.parametrize("values", [3.5, None, {"a"}, np.zeros(3, "M8[s]"), True])
def test_what_is_no_value_is_refused_by_its_type(values: Any) -> None:
    with pytest.raises((DTypeError, ParameterError)):
        M.release(values)


@BOTH
def test_batches_in_any_order_are_one(m: Any) -> None:
    reports = m.release([str(n % 7) for n in range(3000)])
    whole = m.aggregator().add(reports, workers=2)
    parts = [m.aggregator().add(part) for part in np.array_split(reports[::-1], 5)]
    merged = pickle.loads(pickle.dumps(parts[0]))
    for part in parts[1:]:
        merged = part + merged
    assert merged == whole
    one, other = whole.estimate(), merged.estimate()
    assert (one.of(["1"]).counts == other.of(["1"]).counts).all()
    with pytest.raises(ParameterError, match="other must count reports"):
        whole.merge((U if m is M else M).aggregator())
    for bad in (reports["row"], [1, 2], None):
        with pytest.raises(DTypeError, match="reports must be an array of dtype"):
            m.estimate(bad)


@BOTH
def test_reports_as_json(m: Any) -> None:
    reports = m.release(VALUES)
    assert (m.reports_from_json(m.reports_to_json(reports)) == reports).all()
    assert (m.reports_from_json(m.reports_to_json(reports[0])) == reports[:1]).all()
    text = m.reports_to_json(reports[:1])
    for old, new in (
        ('"row": ', '"row": -1'),
        ('"row": ', '"row": 70000'),
        ('"row"', '"rows"'),
        ('"value": ', '"value": -1' if m is M else '"value": 7'),
        ('{"row"', '[{"row"'),
    ):
        with pytest.raises(ParameterError):
            m.reports_from_json(text.replace(old, new))


@pytest.mark.parametrize("text", ["f0" + " " * 14, " " * 16, "0 " * 8, "+1" * 8])
def test_blanks_are_no_hex_digits(text: str) -> None:
    """bytes.fromhex passes over them: what is left would fill all bytes."""
    form = json.loads(U.reports_to_json(U.release(["a"])))
    form["content"]["reports"][0]["value"] = text
    with pytest.raises(ParameterError, match="16 hex digits"):
        U.reports_from_json(json.dumps(form))


@BOTH
def test_what_a_sketch_answers(m: Any) -> None:
    held = ["a"] * 6000 + ["b"] * 2000 + [f"{n}" for n in range(2000)]
    sketch = m.estimate(m.release(held, stream=FixedStream("sketch")))
    found = sketch.of(["a", "b", "none"])
    truth = np.array([6000, 2000, 0])
    assert (np.abs(found.counts - truth) < 5 * found.standard_errors).all()
    stated = [
        m.standard_error(10_000, frequency=0.6, squares=0.04),
        m.standard_error(10_000, frequency=0.2, squares=0.36),
        m.standard_error(10_000, squares=0.40),
    ]
    assert found.standard_errors == pytest.approx(stated, rel=0.1)
    assert found.names == ("a", "b", "none")
    assert found.mechanism == m
    assert found.users == 10_000
    assert list(found.to_dict()) == ["a", "b", "none"]
    assert not hasattr(found, "consistent")  # what was asked for is not all there is
    low, high = found.confidence_interval(0.95)
    assert (low < found.counts).all()
    assert (high > found.counts).all()
    pairs = 6000 * 5999 + 2000 * 1999
    assert sketch.equal_pairs == pytest.approx(pairs, rel=0.2)  # collisions
    for asked in (pa.array(["a", "b", "none"]), pd.Series(["a", "b", "none"])):
        assert (sketch.of(asked).counts == found.counts).all()
    with pytest.raises(DTypeError, match="not a single value"):
        sketch.of("a")
    with pytest.raises(ValueError, match="read-only"):
        sketch.table[0, 0] = 1


HOSTILE = {
    "long integers": ([10**5000, -(10**5000), 10**601], [10**600, -(10**600), 10**600]),
    "objects of pandas": (
        pd.Series([1, "\ud800secret", b"\xff"], dtype=object),
        ["1", b"\xed\xa0\x80secret", b"\xff"],
    ),
    "more than int64": (pd.Series([10**40, 1], dtype=object), [str(10**40), "1"]),
    "text of pandas": (pd.Series(["\ud800"], dtype="string[python]"), ["\ud800"]),
    "no characters": (
        np.array([0x110000, ord("a"), 2**32 - 1], "<u4").view("<U1"),
        ["\U0010ffff", "a", "\U0010ffff"],
    ),
    "the other order": (np.array([0x110000], ">u4").view(">U1"), ["\U0010ffff"]),
    "signaling NaN": (np.array([0x7D01, 0x3C00], "<u2").view("f2"), ["", 1]),
    "no bytes at all": (pa.array([None, None], pa.string()), ["", ""]),
    "no text": (np.zeros(2, "U0"), ["", ""]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_values_neither_raise_nor_warn(case: str) -> None:
    """They count as what is stated; an error's message would show them."""
    values, same = HOSTILE[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for m in (M, fastdp.PrefixHunt.from_epsilon(2, bits=16, most=4)):
            one, two = (
                m.release(x, stream=KeyStream(bytes(32))) for x in (values, same)
            )
            assert (one == two).all()


def test_nothing_of_a_value_is_shown() -> None:
    with pytest.raises((DTypeError, ParameterError)) as caught:
        M.release(np.array(["secret"]).view("V24"))
    assert "secret" not in str(caught.value)
    # An element that is no key is a missing one, and decides nothing else.
    none = M.release(["a", None], stream=FixedStream("s"))
    for other in (object(), ("secret",), ["secret"]):
        found = M.release(["a", other], stream=FixedStream("s"))
        assert (found == none).all()
