"""Coefficients of one's own: searched or given, charged for what they are."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.signal import lfilter

import fastdp
from fastdp import _factors, accounting, plot
from fastdp.accounting.calculators import (
    matrix_mechanism,
    optimized_bands,
    participation_sensitivity,
)
from fastdp.exceptions import DTypeError, LabelConflictError, ParameterError
from fastdp.mechanisms.running._strategies import strategy_of
from tests.ledger.conftest import memory_ledger

OWN = [
    optimized_bands(12, bands=4, participations=1),
    optimized_bands(12, bands=12, participations=1),
    (1, 1, 1, 1, 1),
    (1.0, 0.5, 0.5, 0.25, 2.0**-20, 0.0),
    (1,),
]


def furthest(steps, count, gap, encode):
    """Return the largest squared shift that a pattern of participations gives."""
    found = 0
    for k in range(1, count + 1):
        for chosen in itertools.combinations(range(steps), k):
            if all(b - a >= gap for a, b in itertools.pairwise(chosen)):
                x = np.zeros(steps, np.int64)
                x[list(chosen)] = 1
                found = max(found, sum(int(v) ** 2 for v in encode(x)))
    return found


@pytest.mark.parametrize("bands", OWN, ids=range(len(OWN)))
@pytest.mark.parametrize(("count", "gap"), [(1, 12), (2, 3), (4, 2), (3, 5)])
def test_the_square_is_that_of_the_worst_pattern(bands, count, gap):
    plan = strategy_of("banded", 12, 1, bands=bands, reach=1, pattern=(1, 12))

    def encode(x):
        one = strategy_of("banded", 12, 1, bands=bands, reach=1, pattern=(1, 12))
        out = []
        for v in x:
            y = one.encode(np.array([v], np.int64))
            out.append(y[0, 0])
            one.decode(y.astype(np.float64))
        return out

    moved = furthest(12, count, gap, encode)
    assert moved == plan.square(count, gap) * 4**plan.bits
    stated = matrix_mechanism(
        "banded", 12, bands=bands, participations=count, separation=gap
    )
    square = float(plan.square(count, gap))
    assert square <= stated.sensitivity**2 <= square * (1 + 1e-9)


def test_coefficients_that_grow_would_be_charged_too_little():
    """Why they are refused: the earliest pattern is then not the worst."""
    column = np.array([1.0, 0.0, 3.0])
    charged = np.sum(_factors.repeated(column, 2, 1) ** 2)
    moved = furthest(3, 2, 1, lambda x: np.convolve(x, column)[:3])
    assert charged < moved  # found
    c = np.array([[1, 0, 0], [0, 1, 0], [3, 0, 1]])
    bound = participation_sensitivity(c, participations=2, separation=1)
    assert moved <= bound**2
    with pytest.raises(ParameterError, match="must not increase"):
        matrix_mechanism("banded", 3, bands=column.tolist(), participations=1)


def test_published_errors_of_optimized_bands():
    """jax-privacy 2.0.0, optimize_banded_toeplitz at 1,024 steps: 6.5470, 4.9946."""
    bands = optimized_bands(1024, bands=32, participations=1)
    plan = matrix_mechanism("banded", 1024, bands=bands, participations=1)
    assert plan.largest_error == pytest.approx(6.5470, abs=5e-5)
    assert plan.mean_error == pytest.approx(4.9946, abs=5e-5)
    p = fastdp.PrefixSums.from_rho(
        0.5,
        radius=1,
        dimension=1,
        steps=1024,
        strategy="banded",
        bands=bands,
        participations=1,
    )
    worst = max(p.standard_error(t) for t in range(1, 1025))
    assert worst == pytest.approx(plan.largest_error, rel=1e-5)


@pytest.mark.parametrize(
    ("steps", "width"),
    [(1, 1), (2, 2), (3, 2), (100, 7), (1000, 500), (4096, 64), (2**16, 32)],
)
def test_optimized_bands_are_bands_and_no_worse_than_the_root(steps, width):
    bands = optimized_bands(steps, bands=width, participations=1)
    assert len(bands) == width
    assert bands[0] == 1
    assert sorted(bands, reverse=True) == list(bands)
    assert all(c >= 0 and (c * 2**20).is_integer() for c in bands)
    best = matrix_mechanism(
        "banded", steps, bands=bands, participations=1
    ).largest_error
    plain = matrix_mechanism(
        "banded", steps, bands=width, participations=1
    ).largest_error
    assert best <= plain * (1 + 1e-6)
    rng = np.random.default_rng(steps)
    for size in (1e-1, 1e-2):  # nothing near is better
        other = np.array(bands) * (1 + size * rng.normal(size=width))
        other = np.minimum.accumulate(np.clip(other, 0, 1))
        other[0] = 1
        changed = matrix_mechanism(
            "banded", steps, bands=other, participations=1
        ).largest_error
        assert changed >= best * (1 - 1e-6)


@pytest.mark.parametrize("width", [1, 2, 40, 300])
def test_the_quotient_is_the_series(width):
    """By recursion and by products of series; a column that is full is no root."""
    column = np.zeros(400)
    column[:width] = np.linspace(1, 0.5, width)
    whole = lfilter([1.0], column, np.ones(400))
    np.testing.assert_allclose(_factors.quotient(column), whole, atol=1e-12)
    full = np.linspace(1, 0.1, 300)
    exact = lfilter([1.0], full, np.ones(300))
    np.testing.assert_allclose(_factors.quotient(full), exact, atol=1e-12)


def test_the_coefficients_are_the_mechanism():
    """They are shown, rounded as they are used, and make an equal one."""
    bands = (1, 0.7, Fraction(1, 3))
    c = fastdp.Counter(steps=8, sigma=4, strategy="banded", bands=bands)
    again = fastdp.Counter(**dict(c._arguments))
    assert repr(again) == repr(c)
    assert again.event() == c.event()
    own = c._strategy.bands
    assert [v * 2**20 for v in own] == [2**20, 734003, 349525]
    square = sum(Fraction(v) ** 2 for v in own)
    assert c.event().rho >= square / 32
    assert float(c.event().rho) == pytest.approx(float(square / 32))
    figure = plot.prefix_errors([c])
    assert figure.axes[0].lines[0].get_label() == "banded, bands 3 of its own"


def test_a_ledger_goes_on_with_the_same_coefficients_alone():
    book = memory_ledger(("all", accounting.ZCDPFilter(1)))
    options = {"steps": 64, "sigma": 30, "strategy": "banded"}
    bands = optimized_bands(64, bands=4, participations=1)
    c = book.counter(
        fastdp.Counter(**options, bands=bands), label="month", budgets="all"
    )
    first = c.add(3, label="hour 0").value
    same = book.counter(
        fastdp.Counter(**options, bands=list(bands)), label="month", budgets="all"
    )
    assert same.add(3, label="hour 0").value == first
    near = (*bands[:-1], bands[-1] - 2.0**-20)
    with pytest.raises(LabelConflictError):
        book.counter(
            fastdp.Counter(**options, bands=near), label="month", budgets="all"
        )


@pytest.mark.parametrize(
    ("error", "bands"),
    [
        (ParameterError, ()),
        (ParameterError, (0.5, 0.25)),
        (ParameterError, (2, 1)),
        (ParameterError, (1, 0.5, 0.6)),
        (ParameterError, (1, 0.5, -0.1)),
        (ParameterError, (1, float("nan"))),
        (ParameterError, (1,) * 11),
        (DTypeError, "1"),
        (DTypeError, 1.5),
        (DTypeError, (1, "0.5")),
        (DTypeError, iter((1, 0.5))),
        (DTypeError, np.array(1.0)),
        (ParameterError, ["no number"] * 11),  # the length is looked at first
    ],
    ids=range(13),
)
def test_bad_bands(error, bands):
    with pytest.raises(error, match="bands"):
        matrix_mechanism("banded", 10, bands=bands, participations=1)
    with pytest.raises(error, match="bands"):
        fastdp.Counter(steps=10, sigma=1, strategy="banded", bands=bands)


def test_bad_searches():
    for steps, bands in ((0, 1), (10, 11), (10, 0), (2**22, 2049)):
        with pytest.raises(ParameterError):
            optimized_bands(steps, bands=bands, participations=1)
    with pytest.raises(DTypeError, match="bands"):
        optimized_bands(10, bands=2.0, participations=1)
    with pytest.raises(ParameterError, match="left out with others"):
        matrix_mechanism("tree", 10, bands=(1, 0.5), participations=1)


#: Steps, participations, separation, buffers, and the largest error that jax-privacy
#: 2.0.0 finds (buffered_toeplitz.optimize, error="max").
PATTERNS = [
    (1024, 1, 1024, 2, 3.32979),
    (500, 10, 50, 2, 14.29680),
    pytest.param(500, 10, 50, 3, 14.18477, marks=pytest.mark.rest),
    pytest.param(500, 10, 50, 4, 14.18477, marks=pytest.mark.rest),
    pytest.param(2000, 20, 100, 4, 26.92751, marks=pytest.mark.rest),
]


@pytest.mark.parametrize(("steps", "count", "gap", "buffers", "published"), PATTERNS)
def test_buffers_for_a_pattern_are_as_good_as_published(
    steps, count, gap, buffers, published
):
    pattern = {"participations": count, "separation": gap}
    plan = matrix_mechanism("blt", steps, buffers=buffers, **pattern)
    assert plan.largest_error < published * 1.0002
    once = _factors.buffer_columns(
        _factors.buffers_for(steps, buffers, 1, steps), steps
    )
    if count > 1:
        total = _factors.repeated(once[0], count, gap)
        assert plan.largest_error < 0.92 * np.sqrt(total @ total * np.sum(once[1] ** 2))


@pytest.mark.parametrize(("n", "times", "gap"), [(40, 1, 40), (40, 3, 7), (41, 6, 8)])
def test_norms_of_buffers_in_closed_form(n, times, gap):
    found = _factors.Buffers((2**18, 2**17), (2**19, 2**20 - 2**14))
    column, answer = _factors.buffer_columns(found, n)
    total = _factors.repeated(column, times, gap)
    w, a = np.array([found.weights, found.rates]) / 2**20
    square = _factors._patterned(w, a, n, times, gap)
    assert square == pytest.approx(total @ total, rel=1e-12)
    assert _factors._last_square(w, a, n) == pytest.approx(answer @ answer, rel=1e-12)


@pytest.mark.parametrize(("n", "count", "gap"), [(1, 1, 1), (9, 3, 3), (50, 9, 6)])
def test_repeated_columns_are_sums_of_moved_columns(n, count, gap):
    column = np.random.default_rng(n).integers(0, 2**40, n)
    moved = [np.concatenate((np.zeros(i * gap, int), column))[:n] for i in range(count)]
    np.testing.assert_array_equal(_factors.repeated(column, count, gap), sum(moved))


@pytest.mark.rest
@pytest.mark.parametrize(("times", "gap"), [(1, 2**22), (1000, 4000), (2**22, 1)])
def test_searches_at_the_ends_do_little_work(times, gap):
    """Evaluations, not seconds: they are few, and none runs over all participations."""
    found = _factors.buffers_for(2**22, 8, times, gap)
    assert sum(found.weights) <= 2**20
    assert min(found.weights) >= 1
    assert len(_factors._counted(times)[0]) <= 256
    bands = optimized_bands(2**22, bands=2048, participations=times, separation=gap)
    plain = matrix_mechanism(
        "banded", 2**22, bands=2048, participations=times, separation=gap
    )
    best = matrix_mechanism(
        "banded", 2**22, bands=bands, participations=times, separation=gap
    )
    assert best.largest_error < plain.largest_error


@pytest.mark.parametrize("times", [257, 1000, 10**6])
def test_a_rule_for_many_participations(times):
    nodes, share = _factors._counted(times)
    assert share @ np.ones(len(nodes)) == pytest.approx(times)
    assert share @ nodes == pytest.approx(times * (times - 1) / 2, rel=1e-5)
    rate = 1 - 3 / times
    exact = (1 - rate**times) / (1 - rate)
    assert share @ rate**nodes == pytest.approx(exact, rel=1e-5)


@pytest.mark.rest
def test_bands_for_a_pattern_overlap_where_it_pays():
    pattern = {"participations": 10, "separation": 50}

    def error(bands):
        return matrix_mechanism("banded", 500, bands=bands, **pattern).largest_error

    apart = error(optimized_bands(500, bands=50, **pattern))
    near = error(optimized_bands(500, bands=100, **pattern))
    assert near < apart * (1 + 1e-6) < 13.6032
    assert near < 0.95 * error(optimized_bands(500, bands=100, participations=1))
    with pytest.raises(ParameterError, match="separation"):
        optimized_bands(500, bands=100, participations=10)
