"""LocalMean: parameters, every form of input, reports, estimates, stated figures."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fastdp
from fastdp.exceptions import CalibrationError, DTypeError, EntropyError, ParameterError
from fastdp.testing import FixedStream
from tests.privacy.streams import BrokenStream, CountingStream, KeyStream

LM = fastdp.LocalMean
KEY = bytes(range(32))

#: Worst variance over [-1, 1] and largest value, of one member each.
TABLE = [
    (0.5, (2, 1), 16.671, None),
    (1, (2, 1), 4.683, 2.1640),
    (1.5, (3, 1), 1.936, None),
    (2, (3, 1), 1.000, 1.4696),
    (3, (7, 2), 0.372, 1.4201),
    (4, (12, 3), 0.159, 1.3134),
    (5, (21, 4), 0.0729, 1.2184),
    (6, (42, 6), 0.0347, 1.1587),
]
#: Worst variances of the piecewise mechanism and of the hybrid.
PIECEWISE = {0.5: 21.223, 1: 5.224, 2: 1.228, 4: 0.241, 6: 0.0735}
HYBRID = {0.5: 16.671, 1: 4.289, 1.5: 1.892, 2: 1.042, 3: 0.432, 4: 0.219, 5: 0.1215,
          6: 0.0704}  # fmt: skip


@pytest.mark.parametrize(("epsilon", "member", "worst", "largest"), TABLE)
def test_variances_of_the_table(
    epsilon: float, member: Any, worst: float, largest: float | None
) -> None:
    m = LM(math.exp(epsilon), bounds=(-1, 1), members=(member,))
    assert m.variance() == pytest.approx(worst, rel=2e-3)
    if largest is not None:
        # By the last code and, in proportion, the first.
        est = m.estimate(np.full(9, member[0] - 1, np.uint8))
        assert est.mean == pytest.approx(largest, rel=1e-4)
        assert m.estimate(np.zeros(9, np.uint8)).mean == -est.mean
    chosen = LM.from_epsilon(epsilon, bounds=(-1, 1))
    assert chosen.variance() <= worst * 1.002
    assert chosen.variance() <= HYBRID[epsilon] * 1.001
    assert chosen.variance() <= PIECEWISE.get(epsilon, math.inf)


def test_bounds_scale_values_and_errors() -> None:
    m = LM.from_epsilon(2, bounds=(-1, 1))
    wide = LM.from_epsilon(2, bounds=(100, 120))
    x = np.linspace(-1.5, 1.5, 5000)
    reports = m.release(x, stream=KeyStream(KEY))
    assert (wide.release(110 + 10 * x, stream=KeyStream(KEY)) == reports).all()
    one, two = m.estimate(reports), wide.estimate(reports)
    assert two.mean == pytest.approx(110 + 10 * one.mean)
    assert two.standard_error == pytest.approx(10 * one.standard_error)
    assert wide.standard_error(50, value=115) == pytest.approx(
        10 * m.standard_error(50, value=0.5)
    )
    assert wide.variance(1e9) == wide.variance(120)
    low, high = two.confidence_interval(0.95)
    assert (high - low) / two.standard_error == pytest.approx(2 * 1.959964)


def test_hostile_numbers_count_as_bounds() -> None:
    m = LM.from_epsilon(4, bounds=(0, 8))
    hostile = [np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1e308, -1e308, -0.0]
    held = [0.0, 8, 0, 0, 0, 8, 0, 0]
    pairs = np.tile(np.array([hostile, held]), (1, 400))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, two = (m.release(row, stream=KeyStream(KEY)) for row in pairs)
        rows = LM.from_epsilon(4, bounds=[(0, 8)] * 8, dimension=8, asked=3)
        many = [
            rows.release(row.reshape(-1, 8), stream=KeyStream(KEY)) for row in pairs
        ]
    assert (one == two).all()
    assert (many[0] == many[1]).all()


@pytest.mark.parametrize("kind", ["f4", "f8", ">f8", "i1", "u1", "i4", "u4", "i8"])
def test_numbers_of_every_dtype_and_layout(kind: str) -> None:
    m = LM.from_epsilon(1, bounds=(-9, 90))
    x = np.arange(600) % 100
    expected = m.release(x.astype(float), stream=KeyStream(KEY))
    assert expected.dtype == np.uint8
    strided = np.zeros(1800, kind)
    strided[::3] = x
    for form in (x.astype(kind), strided[::3], x.astype(kind)[::-1].copy()[::-1]):
        assert (m.release(form, stream=KeyStream(KEY)) == expected).all()
    assert m.release(x.reshape(20, 30).astype(kind)).shape == (20, 30)


def test_columns_keep_their_kind_and_their_data() -> None:
    m = LM.from_epsilon(1, bounds=(0, 9))
    x = [1.5, None, 7, math.nan, 1e400]
    for column in (x, tuple(x), pd.Series(x), pd.Series(x, dtype="Float64")):
        kept = repr(column)
        reports = m.release(column)
        assert type(reports) is type(column)
        assert len(reports) == 5
        assert repr(column) == kept
        assert m.estimate(reports).users == 5
    frame = pd.DataFrame({"a": [1.0, 2], "b": [3, 4]})
    rows = LM.from_epsilon(9, bounds=(0, 9), dimension=2)
    assert rows.release(frame).shape == (2, rows.report_width)
    assert rows.release([[1, 2], [3, 4], [5, 6]]).shape == (3, 2)
    assert frame.equals(pd.DataFrame({"a": [1.0, 2], "b": [3, 4]}))
    one = LM.from_epsilon(9, bounds=(0, 9), dimension=1)
    series = pd.Series([1.0, 2.0])
    one.release(series)
    assert series.tolist() == [1, 2]


@pytest.mark.parametrize("x", [3, 3.5, -(10**400), np.int8(3), np.float32(1), np.nan])
def test_scalars(x: Any) -> None:
    m = LM.from_epsilon(1, bounds=(0, 9))
    report = m.release(x)
    assert isinstance(report, np.uint8)
    assert m.estimate(report).users == 1
    out = np.zeros((), np.uint8)
    assert m.release(x, out=out) is out


@pytest.mark.parametrize("x", [True, "3", None, 3j, Fraction(1, 2), np.bool_(1),
                               np.array(["a"]), np.zeros(2, bool), np.zeros(2, "u8"),
                               np.ma.array([1.0])])  # fmt: skip
def test_what_is_no_number_is_refused(x: Any) -> None:
    stream = CountingStream()
    with pytest.raises(DTypeError):
        LM.from_epsilon(1, bounds=(0, 9)).release(x, stream=stream)
    assert stream.calls == 0


@pytest.mark.parametrize(
    ("arguments", "error", "rule"),
    [
        ({"ratio": 1}, ParameterError, "ratio must be above 1"),
        ({"ratio": True}, DTypeError, "ratio"),
        ({"ratio": math.inf}, ParameterError, "ratio must be finite"),
        ({"ratio": 1 + Fraction(1, 2**70)}, ParameterError, "ratio must be"),
        ({"ratio": 2**40}, ParameterError, "2\\*\\*33"),
        ({"bounds": (1, 1)}, ParameterError, "low < high"),
        ({"bounds": (2, 1)}, ParameterError, "low < high"),
        ({"bounds": (0, math.nan)}, ParameterError, "bounds must be finite"),
        ({"bounds": (0, Fraction(10) ** 300)}, ParameterError, "2\\*\\*900"),
        ({"bounds": 1}, DTypeError, "bounds must be a pair"),
        ({"bounds": (0, 1, 2)}, DTypeError, "bounds must be pairs"),
        ({"bounds": [(0, 1)]}, ParameterError, "`dimension` of them"),
        ({"bounds": [(0, 1)], "dimension": 2}, ParameterError, "`dimension` of them"),
        ({"members": ()}, DTypeError, "one or two"),
        ({"members": ((2, 1),) * 3}, DTypeError, "one or two"),
        ({"members": ((2,),)}, DTypeError, "pairs"),
        ({"members": ((1, 1),)}, ParameterError, "codes of a member"),
        ({"members": ((129, 1),)}, ParameterError, "codes of a member"),
        ({"members": ((4, 4),)}, ParameterError, "window of a member"),
        ({"share": 0.5}, ParameterError, "share must be 1"),
        ({"members": ((2, 1), (3, 1))}, ParameterError, "share must be 1"),
        ({"members": ((2, 1), (3, 1)), "share": 0}, ParameterError, "share"),
        ({"dimension": 0}, ParameterError, "dimension"),
        ({"asked": 2}, ParameterError, "asked"),
        ({"dimension": 3, "asked": 4}, ParameterError, "asked"),
    ],
)
def test_wrong_parameters(arguments: Any, error: Any, rule: str) -> None:
    with pytest.raises(error, match=rule):
        LM(**{"ratio": 3, "bounds": (0, 1), **arguments})


def test_wrong_epsilons() -> None:
    for epsilon in (0, -1, math.nan):
        with pytest.raises(ParameterError, match="epsilon must be"):
            LM.from_epsilon(epsilon, bounds=(0, 1))
    with pytest.raises(CalibrationError, match="epsilon must be large enough"):
        LM.from_epsilon(1e-19, bounds=(0, 1))
    for epsilon in (1e-9, 0.01, 40, 10**300):
        m = LM.from_epsilon(epsilon, bounds=(0, 1))
        assert m.epsilon() <= epsilon
        assert m.release(0.5) < 128


# --- several numbers ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "dimension", "asked", "width"),
    [(1, 3, 1, 2), (5.1, 300, 2, 6), (8, 3, 3, 3), (8, 2, 2, 2), (1, 70_000, 1, 5),
     (2.4, 256, 1, 2), (1, 1, 1, 1)],
)  # fmt: skip
def test_how_many_are_asked(
    epsilon: float, dimension: int, asked: int, width: int
) -> None:
    m = LM.from_epsilon(epsilon, bounds=(0, 1), dimension=dimension)
    assert (m.asked, m.report_width) == (asked, width)
    assert m.epsilon() == pytest.approx(epsilon, rel=1e-12)
    assert m.epsilon() <= epsilon
    reports = m.release(np.zeros((7, dimension)))
    assert reports.shape == (7, width)
    est = m.estimate(reports)
    assert est.users == 7
    assert np.shape(est.mean) == np.shape(est.standard_error) == (dimension,)


@pytest.mark.parametrize("asked", [2, 3, 7, 1000])
def test_no_epsilon_is_above_the_one_asked_for(asked: int) -> None:
    """As computed, too: a ledger with that much must have room."""
    for epsilon in (0.01, 0.1, 1, 3, 5, 12.612960947539792):
        m = LM.from_epsilon(epsilon, bounds=(0, 1), dimension=1000, asked=asked)
        assert epsilon * (1 - 1e-12) < m.epsilon() <= epsilon


def test_signaling_nans_do_not_warn() -> None:
    quiet, loud = np.array([[0x7FC00000] * 2, [0x7F800001] * 2], "u4").view("f4")
    m = LM.from_epsilon(3, bounds=(0, 1), dimension=2, asked=2)
    v = fastdp.VectorResponse.from_epsilon(3, dimension=2, words=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in (m, v):
            one, two = (
                each.release(x, stream=KeyStream(bytes(32))) for x in (quiet, loud)
            )
            assert (one == two).all()


def test_rows_have_the_stated_bytes() -> None:
    """Places ascending, the lowest byte first, then codes; uniform pairs of places."""
    m = LM.from_epsilon(30, bounds=(0, 1), dimension=4, asked=2)
    x = np.array([0.0, 1, 0, 1])
    rows = m.release(np.tile(x, (6000, 1)), stream=FixedStream("pairs"))
    places, codes = rows[:, :2].astype(int), rows[:, 2:]
    assert (np.diff(places, axis=1) > 0).all()
    counts = np.bincount(places[:, 0] * 4 + places[:, 1], minlength=16)
    counts = counts[counts > 0]
    assert len(counts) == 6
    assert np.abs(counts - 1000).max() < 150  # 5 standard deviations
    # At epsilon = 15 each a code is off with a probability of some 1e-5.
    values = np.array(m._windows.values, float)[codes]
    assert (np.abs(values - (2 * x[places] - 1)) < 0.01).mean() > 0.99
    wide = LM.from_epsilon(30, bounds=(0, 1), dimension=70_000, asked=2)
    row = wide.release(np.zeros(70_000))
    places = row[:8].view("<u4")
    assert places[0] < places[1] < 70_000
    tally = wide.aggregator().add(row[None])._tally.reshape(70_000, -1)
    assert np.flatnonzero(tally.any(axis=1)).tolist() == places.tolist()


def test_bounds_of_each_number() -> None:
    m = LM.from_epsilon(12, bounds=[(0, 10), (-5, 5), (100, 200)], dimension=3)
    x = np.array([2.5, 4, 130])
    est = m.estimate(m.release(np.tile(x, (40_000, 1)), stream=FixedStream("three")))
    assert (np.abs(est.mean - x) < 5 * est.standard_error).all()
    assert est.standard_error == pytest.approx(m.standard_error(40_000), rel=0.5)
    common = LM.from_epsilon(12, bounds=(0, 10), dimension=3)
    assert common.bounds == (0, 10)
    assert m.bounds == ((0, 10), (-5, 5), (100, 200))


def test_several_numbers_agree_with_the_means() -> None:
    m = LM.from_epsilon(1, bounds=(-1, 1), dimension=5)
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, (200_000, 5)) * [1, 0.5, 0.2, 0, 1] + [0, 0.5, -0.8, 0.3, 0]
    est = m.estimate(m.release(x, stream=FixedStream("five")))
    assert (np.abs(est.mean - x.mean(axis=0)) < 4.5 * est.standard_error).all()
    assert (est.standard_error <= m.standard_error(200_000) * 1.01).all()


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3), (0, 3)])
def test_shapes_of_rows(shape: tuple[int, ...]) -> None:
    m = LM.from_epsilon(1, bounds=(0, 1), dimension=3)
    assert m.release(np.zeros(shape)).shape == (*shape[:-1], 2)
    out = np.ones((*shape[:-1], 2), np.uint8)
    assert m.release(np.zeros(shape), out=out, workers=2) is out
    for wrong in ((), (2,), (3, 2)):
        with pytest.raises(ParameterError, match="rows of 3"):
            m.release(np.zeros(wrong) if wrong else np.zeros(()))


@pytest.mark.parametrize("dimension", [None, 4, 700])
@pytest.mark.parametrize("workers", [2, 5])
def test_workers_change_nothing(dimension: int | None, workers: int) -> None:
    m = LM.from_epsilon(6, bounds=(0, 1), dimension=dimension)
    n = 20_000 if dimension is None else 5_000
    x = np.random.default_rng(1).random((n,) if dimension is None else (n, dimension))
    one = m.release(x, stream=KeyStream(KEY))
    assert (m.release(x, stream=KeyStream(KEY), workers=workers) == one).all()


@pytest.mark.parametrize("dimension", [None, 4])
def test_without_randomness_out_is_zero(dimension: int | None) -> None:
    m = LM.from_epsilon(1, bounds=(0, 1), dimension=dimension)
    x = np.zeros((50,) if dimension is None else (50, dimension))
    out = np.full(m.release(x).shape, 7, np.uint8)
    with pytest.raises(EntropyError):
        m.release(x, out=out, stream=BrokenStream(EntropyError("gone")))
    assert not out.any()


# --- estimates, reports as JSON -------------------------------------------------------


def test_reports_of_no_client_are_left_out() -> None:
    m = LM.from_epsilon(2, bounds=(0, 1))
    good = m.release(np.linspace(0, 1, 500))
    last = m._windows.codes
    for bad in (np.array([last, 255], np.uint8), np.array([-1, 10**6])):
        est = m.estimate(np.concatenate([good.astype(bad.dtype), bad]))
        assert est.users == 502
        assert est.mean == m.estimate(good).mean
    rows = LM.from_epsilon(30, bounds=(0, 1), dimension=4, asked=2)
    good = rows.release(np.zeros((9, 4)))
    wrong = np.array([[1, 0, 3, 3], [1, 1, 3, 3], [0, 4, 3, 3], [0, 1, 3, 250]], "u1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est = rows.estimate(np.concatenate([good, wrong]))
    assert est.users == 13
    assert np.array_equal(est.mean, rows.estimate(good).mean, equal_nan=True)


def test_no_reports() -> None:
    m = LM.from_epsilon(2, bounds=(0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est = m.aggregator().estimate()
    assert math.isnan(est.mean)
    assert est.users == 0
    one = m.estimate(np.array([0], np.uint8))
    assert one.standard_error == pytest.approx(m.standard_error(1))


def test_aggregators() -> None:
    m = LM.from_epsilon(3, bounds=(0, 1), dimension=3)
    reports = m.release(np.random.default_rng(2).random((999, 3)))
    parts = [m.aggregator().add(part, workers=2) for part in np.array_split(reports, 7)]
    total = sum(pickle.loads(pickle.dumps(parts[1:])), parts[0])
    whole = m.estimate(reports)
    assert np.array_equal(total.estimate().mean, whole.mean)
    assert np.array_equal(total.estimate().standard_error, whole.standard_error)
    with pytest.raises(ParameterError, match="other must count"):
        total.merge(LM.from_epsilon(3, bounds=(0, 1)).aggregator())


@pytest.mark.parametrize("dimension", [None, 5])
def test_reports_as_json(dimension: int | None) -> None:
    m = LM.from_epsilon(3, bounds=(0, 1), dimension=dimension)
    assert fastdp.Mechanism.from_json(m.to_json()) == m
    x = np.zeros((3,) if dimension is None else (3, 5))
    reports = m.release(x)
    text = m.reports_to_json(reports)
    assert np.array_equal(m.reports_from_json(text), reports)
    content = json.loads(text)["content"]["reports"]
    shown = (
        reports.tolist() if dimension is None else [r.tobytes().hex() for r in reports]
    )
    assert content == shown
    other = LM.from_epsilon(3, bounds=(0, 2), dimension=dimension)
    with pytest.raises(ParameterError, match="mechanism"):
        other.reports_from_json(text)
