"""Categories by name, estimates that carry the names, reports as JSON."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import plot
from fastdp.exceptions import DTypeError, FastDPError, ParameterError
from fastdp.testing import FixedStream

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

NAMES = ["firefox", "chrome", "", "ä b", "other"]
NUMBERS = [30, -7, 0, 2**40, 5]
VALUES = ["chrome", "opera", "other", "ä b", "chrome", "Firefox", "", "firefox "]
PLACES = [1, -1, 4, 3, 1, -1, 2, -1]
WHOLE = [-7, 1, 5, 2**40, -7, 31, 0, -1]
KINDS = [
    fastdp.RandomizedResponse,
    fastdp.UnaryEncoding,
    fastdp.LocalHashing,
    fastdp.HadamardResponse,
]


def drawn() -> FixedStream:
    return FixedStream("names")


def pair(kind: Any, names: list[Any], other: Any = None) -> tuple[Any, Any]:
    """Return a mechanism with names, and the same one without."""
    place = None if other is None else names.index(other)
    return (
        kind.from_epsilon(2, categories=names, other=other),
        kind.from_epsilon(2, categories=len(names), other=place),
    )


TEXTS: dict[str, Any] = {
    "list": VALUES,
    "tuple": tuple(VALUES),
    "array": np.array(VALUES),
    "objects": np.array(VALUES, object),
    "pandas": pd.Series(VALUES),
    "pandas objects": pd.Series(VALUES, dtype=object),
    "pandas categories": pd.Series(VALUES, dtype="category"),
    "index": pd.Index(VALUES),
    "polars": pl.Series(VALUES),
    "polars categories": pl.Series(VALUES, dtype=pl.Categorical),
    "pyarrow": pa.array(VALUES),
    "pyarrow large": pa.array(VALUES, pa.large_string()),
    "dictionary": pa.array(VALUES).dictionary_encode(),
    "chunked": pa.chunked_array([VALUES[:3], VALUES[3:]]),
}
INTEGERS: dict[str, Any] = {
    "list": WHOLE,
    "array": np.array(WHOLE),
    "pandas": pd.Series(WHOLE),
    "pandas nullable": pd.Series(WHOLE, dtype="Int64"),
    "polars": pl.Series(WHOLE),
    "pyarrow": pa.array(WHOLE),
    "chunked": pa.chunked_array([WHOLE[:3], WHOLE[3:]]),
}


@pytest.mark.parametrize("other", [None, "other"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("holder", TEXTS)
def test_text(holder: str, kind: Any, other: str | None) -> None:
    named, plain = pair(kind, NAMES, other)
    found = named.release(TEXTS[holder], stream=drawn())
    wanted = plain.release(np.array(PLACES), stream=drawn())
    listed = found if isinstance(found, (list, tuple)) else np.asarray(found).tolist()
    assert list(listed) == wanted.tolist()


@pytest.mark.parametrize("other", [None, 5])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("holder", INTEGERS)
def test_integers(holder: str, kind: Any, other: int | None) -> None:
    named, plain = pair(kind, NUMBERS, other)
    found = named.release(INTEGERS[holder], stream=drawn())
    places = [1, -1, 4, 3, 1, -1, 2, -1]
    wanted = plain.release(np.array(places), stream=drawn())
    listed = found if isinstance(found, list) else np.asarray(found).tolist()
    assert listed == wanted.tolist()


def test_nulls_have_no_place() -> None:
    named, plain = pair(fastdp.RandomizedResponse, NAMES)
    wanted = plain.release(np.array([1, -1, 4]), stream=drawn()).tolist()
    listed = ["chrome", None, "other"]
    for given in (listed, pd.Series(listed), pl.Series(listed), pa.array(listed)):
        assert list(named.release(given, stream=drawn())) == wanted or (
            named.release(given, stream=drawn()).to_pylist() == wanted
        )
    assert named.release([None], stream=drawn()) == [plain.release(-1, stream=drawn())]
    # A null is none of the integers either, also where -1 is a name.
    named, plain = pair(fastdp.RandomizedResponse, [-1, 0, -2, 7])
    wanted = plain.release(np.array([3, -1, 0]), stream=drawn()).tolist()
    for kind in (pa.int64(), pa.int8()):
        found = named.release(pa.array([7, None, -1], kind), stream=drawn())
        assert found.to_pylist() == wanted


def test_shapes_scalars_and_kinds() -> None:
    named, plain = pair(fastdp.RandomizedResponse, NAMES)
    square = np.array(VALUES).reshape(2, 4)
    wanted = plain.release(np.array(PLACES).reshape(2, 4), stream=drawn())
    assert np.array_equal(named.release(square, stream=drawn()), wanted)
    one = named.release("chrome", stream=drawn())
    assert type(one) is np.uint8
    assert one == plain.release(1, stream=drawn())
    assert named.release("opera", stream=drawn()) == plain.release(-1, stream=drawn())
    series = pd.Series(["chrome", "opera"], index=["a", "b"], name="n")
    found = named.release(series)
    assert found.index.tolist() == ["a", "b"]
    assert found.name == "n"
    two = fastdp.RandomizedResponse.from_epsilon(1, categories=["no", "yes"])
    assert two.release(["yes", "no"], out=np.zeros(2, np.uint8)).shape == (2,)


def test_a_shuffled_response_has_names() -> None:
    named = fastdp.ShuffledResponse(0.9, clients=3, categories=NAMES, other="other")
    plain = fastdp.ShuffledResponse(0.9, clients=3, categories=5, other=4)
    for values in (VALUES, pd.Series(VALUES), np.array(VALUES)):
        found = named.release(values, stream=drawn())
        wanted = plain.release(np.array(PLACES), stream=drawn())
        assert np.array_equal(found, wanted)
    assert list(named.estimate(found).to_dict()) == NAMES
    assert fastdp.Mechanism.from_json(named.to_json()) == named
    made = fastdp.ShuffledResponse.from_epsilon_delta(
        epsilon=1, delta=1e-6, clients=1000, categories=NAMES
    )
    assert made.local.names == tuple(NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_public_parameters(kind: Any) -> None:
    named, plain = pair(kind, NAMES, "other")
    assert named.names == tuple(NAMES)
    assert (named.categories, named.other) == (5, "other")
    assert (plain.names, plain.other) == (None, 4)
    assert named.event() == plain.event()
    assert named != plain
    for same in (
        pickle.loads(pickle.dumps(named)),
        fastdp.Mechanism.from_json(named.to_json()),
        kind.from_epsilon(2, categories=np.array(NAMES), other="other"),
        kind.from_epsilon(2, categories=pd.Index(NAMES), other="other"),
    ):
        assert same == named
    # Names that look like numbers stay names.
    digits = kind.from_epsilon(2, categories=["1", "1/2"], other="1/2")
    assert fastdp.Mechanism.from_json(digits.to_json()) == digits


def test_estimates_carry_the_names() -> None:
    named = fastdp.best_frequency_oracle(2, categories=NAMES, users=100)
    reports = named.release(VALUES)
    found = named.estimate(reports)
    assert found.names == tuple(NAMES)
    assert found.to_dict() == dict(zip(NAMES, found.counts.tolist(), strict=True))
    held = found.consistent()
    assert list(held.to_dict()) == NAMES
    assert sum(held.to_dict().values()) == pytest.approx(8)
    json.dumps(found.to_dict())
    parts = named.aggregator().add(reports).merge(named.aggregator())
    assert parts.estimate().names == tuple(NAMES)
    plain = fastdp.RandomizedResponse(p=0.75)
    assert plain.estimate([1, 0, 1, 1]).to_dict() == {0: 0.0, 1: 4.0}
    numbered = fastdp.RandomizedResponse(p=0.75, categories=[10, 20])
    assert list(numbered.estimate([1, 0]).to_dict()) == [10, 20]


def test_pictures_take_the_names() -> None:
    pytest.importorskip("matplotlib")
    named = fastdp.RandomizedResponse.from_epsilon(2, categories=["left", "right"])
    figure = plot.frequencies(named.estimate([0, 1, 1]))
    shown = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert shown == ["left", "right"]


SECRET = "98765432101"


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (NAMES, [int(SECRET)]),
        (NAMES, [1.5]),
        (NAMES, [SECRET, int(SECRET)]),
        (NAMES, [SECRET.encode()]),
        (NAMES, int(SECRET)),
        (NAMES, None),
        (NAMES, np.array([int(SECRET)])),
        (NAMES, np.array([SECRET.encode()])),
        (NAMES, pa.array([int(SECRET)])),
        (NAMES, pd.DataFrame({"a": [SECRET]})),
        (NUMBERS, [SECRET]),
        (NUMBERS, [1.5]),
        (NUMBERS, [True]),
        (NUMBERS, True),
        (NUMBERS, SECRET),
        (NUMBERS, np.array([1.5])),
        (NUMBERS, pa.array([SECRET])),
    ],
)
def test_values_of_another_type_are_refused_without_a_value(
    names: Any, values: Any
) -> None:
    m = fastdp.RandomizedResponse.from_epsilon(1, categories=names)
    with pytest.raises(DTypeError, match=r"^values must be") as caught:
        m.release(values)
    assert SECRET[:6] not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "other", "rule"),
    [
        (["a"], None, r"number of categories must be in \[2"),
        ([], None, r"number of categories must be in \[2"),
        (["a", "b", "a"], None, "each name once: numbers 0 and 2 are both 'a'"),
        ([3, 4, 3], None, "each name once: numbers 0 and 2 are both '3'"),
        (["a", 1], None, "all str or all int; got int, str"),
        ([1.0, 2.0], None, "all str or all int; got float"),
        ([True, False], None, "all str or all int; got bool"),
        ([None, "a"], None, "all str or all int; got NoneType, str"),
        ([0, 2**63], None, r"within 2\*\*62"),
        ("firefox,chrome", None, "categories must be an int"),
        (["a", "b"], "c", "other must be one of categories"),
        (["a", "b"], 1, "other must be one of categories"),
        ([7, 8], "7", "other must be one of categories"),
        (3, "a", "other must be an int"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_bad_names_are_refused(kind: Any, names: Any, other: Any, rule: str) -> None:
    with pytest.raises(FastDPError, match=rule):
        kind.from_epsilon(1, categories=names, other=other)


def test_packed_bits_have_no_names() -> None:
    two = fastdp.RandomizedResponse.from_epsilon(1, categories=["no", "yes"])
    with pytest.raises(
        ParameterError, match="packed must be False if categories are names"
    ):
        two.release(np.zeros(2, np.uint8), packed=True)


def test_several_bits_a_user_are_refused_with_the_reason() -> None:
    m = fastdp.UnaryEncoding.from_epsilon(1, categories=4)
    with pytest.raises(DTypeError, match=r"several bits.* RandomizedResponse"):
        m.release(np.zeros((3, 4), bool))


# ---- reports as JSON -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("categories", [2, 300, NAMES])
def test_reports_as_json_and_back(kind: Any, categories: Any) -> None:
    m = kind.from_epsilon(1, categories=categories)
    values = np.arange(9) % m.categories
    given = values if m.names is None else [NAMES[place % 5] for place in values]
    reports = m.release(given)
    array = m._as_reports(reports)
    text = m.reports_to_json(reports)
    again = m.reports_from_json(text)
    assert again.dtype == m.report_dtype
    assert np.array_equal(again, array)
    one = m.release(given[0])
    assert np.array_equal(m.reports_from_json(m.reports_to_json(one))[0], one)
    content = json.loads(text)["content"]
    assert content["mechanism"] == m.fingerprint
    assert isinstance(
        json.loads(m.reports_to_json(one))["content"]["reports"], list
    ) is (False)
    assert m.reports_from_json(m.reports_to_json([])).shape == (0, *m._row)
    # No other mechanism takes them.
    for other in (kind.from_epsilon(2, categories=categories), KINDS[0](p=0.9)):
        with pytest.raises(ParameterError, match="names another one"):
            other.reports_from_json(text)


def test_bools_are_numbers_in_json() -> None:
    """Answers that are bools give reports that are bools, which readers must take."""
    m = fastdp.RandomizedResponse(p=0.75)
    for sent in (m.release(np.array([True, False, True])), m.release(True)):
        assert sent.dtype == np.bool_
        text = m.reports_to_json(sent)
        again = m.reports_from_json(text)
        assert again.dtype == m.report_dtype
        assert np.array_equal(again, np.atleast_1d(sent))
        assert m.reports_from_lines(text.encode())[0].tobytes() == again.tobytes()


def test_the_form_of_reports_is_what_the_documentation_says() -> None:
    m = fastdp.UnaryEncoding.from_epsilon(1, categories=10)
    rows = np.array([[0x80, 0x40], [0x00, 0xC0]], np.uint8)
    assert json.loads(m.reports_to_json(rows)) == {
        "format": "fastdp report",
        "version": 1,
        "content": {"mechanism": m.fingerprint, "reports": ["8040", "00c0"]},
    }
    hashing = fastdp.LocalHashing.from_epsilon(1, categories=10)
    report = np.array([(255, 3)], hashing.report_dtype)
    content = json.loads(hashing.reports_to_json(report))["content"]
    assert content["reports"] == [{"seed": "00000000000000ff", "value": 3}]
    assert len(m.fingerprint) == 32
    assert int(m.fingerprint, 16) >= 0


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (KINDS[0], 256),
        (KINDS[0], -1),
        (KINDS[0], 1.0),
        (KINDS[0], True),
        (KINDS[0], "1"),
        (KINDS[0], None),
        (KINDS[0], [[1]]),
        (KINDS[1], "0"),
        (KINDS[1], "zz"),
        (KINDS[1], "0 0"),
        (KINDS[1], 1),
        (KINDS[1], "00ff"),
        (KINDS[2], 1),
        (KINDS[2], {"seed": "00", "value": 1}),
        (KINDS[2], {"seed": "0" * 16}),
        (KINDS[2], {"seed": "0" * 16, "value": 2**32}),
        (KINDS[2], {"seed": "0" * 16, "value": 1, "more": 1}),
        (KINDS[3], 256),
    ],
)
def test_what_is_no_report_is_refused(kind: Any, bad: Any) -> None:
    m = kind.from_epsilon(1, categories=8)
    good = json.loads(m.reports_to_json(m.release([0, 1])))
    for reports in ([bad], bad) if not isinstance(bad, list) else ([bad],):
        good["content"]["reports"] = reports
        with pytest.raises(ParameterError, match="a report must be"):
            m.reports_from_json(json.dumps(good))


def test_other_forms_and_versions_are_refused() -> None:
    m = fastdp.RandomizedResponse.from_epsilon(1)
    good = json.loads(m.reports_to_json(m.release([0, 1])))
    for change in ({"version": 2}, {"format": "x"}, {"content": []}, {"content": {}}):
        with pytest.raises(ParameterError, match="text must"):
            m.reports_from_json(json.dumps(good | change))
