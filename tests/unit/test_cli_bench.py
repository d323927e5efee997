"""``fastdp bench``: what is measured, how the figures are made, how they print."""

from __future__ import annotations

import gc
import itertools
import json
import time

import numpy as np
import pytest

import fastdp
from fastdp.cli import (
    _local_cases,
    _noise_cases,
    _numpy_best,
    _selection_cases,
    _timings,
    main,
)


@pytest.fixture
def few_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_noise_cases, "_SCALAR_CALLS", 5)


def test_calls_are_warmed_up_and_timed_in_turn() -> None:
    order: list[str] = []
    collecting: list[bool] = []

    def first() -> None:
        order.append("a")
        collecting.append(gc.isenabled())
        start = time.process_time()
        while time.process_time() < start + 0.002:
            pass

    seconds = _timings.timings((first, lambda: order.append("b")), 3)
    # A brief call is repeated within a timing.
    assert [name for name, _ in itertools.groupby(order)] == list("ab" * 4)
    assert collecting == [True, True, False, False, False]
    assert len(order) > 20
    assert gc.isenabled()
    assert seconds.shape == (2, 3)
    assert np.all(seconds[0] > 0.0019)
    assert seconds[1].min() < seconds[0].min()  # one may have been held up
    asleep = _timings.timings((lambda: time.sleep(0.02),), 3)
    assert asleep.min() < 0.01


def test_figures_are_medians_of_interleaved_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = np.array([[1.0, 2.0, 4.0, 2.0, 2.0], [10.0, 26.0, 36.0, 22.0, 20.0]])
    monkeypatch.setattr(_timings, "timings", lambda *_: seconds)
    case = _timings.Case("x", 10**9, lambda: None, lambda: None, 4.0, loops=2)
    row = _timings.measure(case, 5)
    assert (row.ns_low, row.ns, row.ns_high) == (1.0, 1.0, 1.0)
    assert row.numpy_ns == 11.0
    assert (row.ns_least, row.numpy_ns_least) == (0.5, 5.0)
    assert row.ratio == _timings.Ratio(10.0, 10.0, 11.0, 5)  # of 10, 13, 9, 11 and 10
    assert row.ratio.value == 10.0
    assert row.million_per_second == 1000.0


def test_the_best_lines_have_figures_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = np.array([[1.0] * 5, [10.0] * 5, [4.0] * 5])
    monkeypatch.setattr(_timings, "timings", lambda calls, _: seconds[: len(calls)])
    case = _timings.Case("x", 10**9, *[lambda: None] * 2, best=lambda: None)
    row = _timings.measure(case, 5)
    assert (row.ratio.value, row.best_ns) == (10.0, 4.0)
    assert _timings.as_dict(row)["best_ratio"] == 4.0
    plain = _timings.measure(_timings.Case("x", 1, *[lambda: None] * 2), 5)
    assert _timings.as_dict(plain)["best_ratio"] is None


@pytest.mark.parametrize(
    ("ratios", "value"),
    [
        ([10, 10, 10, 10], None),  # too few
        ([10], None),
        ([10, 10, 10, 10, 10], 10),
        ([1, 10, 10, 10, 99], 10),  # single runs are nothing
        ([8, 8, 10, 12, 12], 10),
        ([8, 7.9, 10, 12.1, 12.1], None),
        ([1, 2, 10, 40, 99], None),
    ],
)
def test_no_ratio_of_few_or_noisy_runs(
    ratios: list[float], value: float | None
) -> None:
    found = _timings.Ratio.of(np.array(ratios, float), np.ones(len(ratios)))
    assert found.value == value


def test_what_is_noisy_is_said_and_has_no_ratio(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = np.array([[1.0] * 5, [1.0, 2.0, 7.0, 7.5, 99.0]])
    monkeypatch.setattr(_timings, "timings", lambda *_: seconds)
    assert main(["bench", "--quick", "--n", "100"]) == 0
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines()]
    count = sum("noisy" in line for line in lines)
    assert count > 30
    assert f"noisy: {count} of {count} ratios are not stated" in text
    assert main(["bench", "--quick", "--n", "100", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for row in document["kernels"]:
        assert row["ratio"] is None
        assert row["ratio_low"] < row["ratio_high"]


def test_too_few_repetitions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--repetitions", "4"]) == 2
    assert "repetitions must be" in capsys.readouterr().err


def test_both_sides_of_a_line_do_the_same_work() -> None:
    for case in _noise_cases.cases(20_000):
        if case.size == 1:
            continue
        spreads = []
        assert case.best is not None
        for call in (case.ours, case.numpy, case.best):
            values = np.asarray(call())
            assert values.shape == (20_000,)
            spreads.append(float(np.std(values)))
            values[:] = 0
        # 13 standard errors of the ratio for Laplace noise, more for others.
        assert spreads[0] == pytest.approx(spreads[1], rel=0.15), case.name
        assert spreads[0] == pytest.approx(spreads[2], rel=0.15), case.name


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.Generator(np.random.SFC64(37))
    monkeypatch.setattr(_numpy_best, "GENERATOR", generator)


@pytest.mark.usefixtures("fixed")
def test_numpys_best_flips_and_responses() -> None:
    zeros = np.zeros(80_000, np.uint8)
    flips = _numpy_best.flipped(zeros, 0.25, zeros.copy(), packed=False)()
    assert np.mean(flips) == pytest.approx(0.25, abs=0.01)
    packed = _numpy_best.flipped(
        zeros[:10_000], 0.25, zeros[:10_000].copy(), packed=True
    )
    assert np.unpackbits(packed()).mean() == pytest.approx(0.25, abs=0.01)
    found = np.full(80_000, 99, np.uint8)
    _numpy_best.response(zeros + 5, 0.5, 16, found)()
    shares = np.bincount(found, minlength=16) / 80_000
    assert shares[5] == pytest.approx(0.5 + 0.5 / 16, abs=0.01)
    assert np.delete(shares, 5) == pytest.approx(0.5 / 16, abs=0.005)


@pytest.mark.usefixtures("fixed")
def test_numpys_best_selections() -> None:
    scores = np.array([0.0, 1.0, 2.0])
    weights = np.array([3.0, 1.0, 1.0])
    rows = np.tile(scores, (20_000, 1))
    law = np.exp(scores) / np.exp(scores).sum()
    weighted = weights * np.exp(scores)
    one, other = (_numpy_best.inverted(scores, 1.0, held) for held in (None, weights))
    for call, expected in ((one, law), (other, weighted / weighted.sum())):
        counts = np.bincount([call() for _ in range(20_000)], minlength=3)
        assert counts / 20_000 == pytest.approx(expected, abs=0.02)
    raced = np.bincount(_numpy_best.raced(rows, 1.0)(), minlength=3)
    assert raced / 20_000 == pytest.approx(law, abs=0.02)
    assert sorted(_numpy_best.raced(scores, 1.0, 3)()) == [0, 1, 2]
    keys = np.random.Generator(np.random.PCG64(1))
    for name in ("exponential", "laplace"):
        draw = getattr(keys, f"standard_{name}" if name == "exponential" else name)
        noisy = np.argmax(rows + draw(size=rows.shape), axis=1)
        found = np.bincount(_numpy_best.largest(rows, 1.0, name)(), minlength=3)
        assert found == pytest.approx(np.bincount(noisy, minlength=3), abs=500)


def test_long_arrays_are_released_too() -> None:
    size = 2**20 + 1  # what a mechanism without stated coordinates refuses
    lines = [case for case in _noise_cases.cases(size) if "release" in case.name]
    for case in lines[:3]:
        assert np.asarray(case.ours()).shape == (size,)


def test_the_output_array_is_shared() -> None:
    made = [
        case for case in _noise_cases.cases(100) if case.name.startswith("discrete_")
    ]
    outputs = {id(call()) for case in made for call in (case.ours, case.numpy)}
    assert len(made) == 12
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("scale", "expected"), [(1, 2.25), (1000, 4.5), (10**6, 7.0), (2**40, 9.0)]
)
def test_random_bytes_of_laplace(scale: float, expected: float) -> None:
    assert _noise_cases.laplace_bytes(scale) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("sigma", "expected"),
    [(8.7, 2.25), (10, 4.75), (1000, 4.75), (10**6, 6.75), (2**40, 8.75)],
)
def test_random_bytes_of_gaussian(sigma: float, expected: float) -> None:
    assert _noise_cases.gaussian_bytes(sigma) == pytest.approx(expected, rel=1e-3)


@pytest.mark.usefixtures("few_repetitions")
def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--quick", "--n", "1000"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    text = captured.out
    assert "CPU level" in text
    assert "cipher" in text
    for name in (
        "discrete_laplace scale=10 ",
        "discrete_laplace scale=2^40",
        "discrete_gaussian sigma=1e+06",
        "DiscreteLaplace(10).release in place",
        "Gaussian(10).release float64 in place",
        "DiscreteLaplace(10).release, one value",
    ):
        assert name in text
    assert "not exact, not secure, not private" in text
    assert "best ns" in text
    local = text[text.index("local randomizers") :]
    assert len([line for line in local.splitlines() if "Response," in line]) == 9
    assert len([line for line in local.splitlines() if "d=1024" in line]) == 6
    selection = text[text.index("private selection") :]
    for name in ("gumbel, n=", "PermuteAndFlip, n=", "rows of 100", "top 10"):
        assert name in selection


@pytest.mark.usefixtures("few_repetitions")
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--quick", "--n", "500", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["setting"]) >= {"cpu", "cipher", "compiler", "numpy", "fastdp"}
    assert document["setting"]["n"] == 500
    assert document["setting"]["processor"]
    assert len(document["kernels"]) == 16
    assert len(document["local"]) == 15
    assert len(document["selection"]) == 9
    for row in document["kernels"] + document["local"] + document["selection"]:
        assert 0 < row["ns_low"] <= row["ns"] <= row["ns_high"]
        assert row["ns_least"] <= row["ns_low"]
        assert row["numpy_ns_least"] <= row["numpy_ns"]
        assert row["ratio"] is None or row["ratio"] > 0


@pytest.mark.parametrize("size", ["0", "-5", "x"])
def test_sizes_are_refused_by_name(
    capsys: pytest.CaptureFixture[str], size: str
) -> None:
    assert main(["bench", "--n", size]) == 2
    assert "n" in capsys.readouterr().err


# --- local randomizers -------------------------------------------------------------


def test_both_sides_flip_as_many_bits() -> None:
    generator = np.random.default_rng(1)
    m = fastdp.RandomizedResponse.from_epsilon(1)
    for make in (
        _local_cases.packed_case,
        lambda n, g: _local_cases.bytes_case(n, g, np.dtype(np.uint8)),
        lambda n, g: _local_cases.bytes_case(n, g, np.dtype(np.bool_)),
    ):
        case = make(80_000, generator)
        seen = [np.array(call()) for call in (case.ours, case.ours, case.numpy)]
        packed = seen[0].size == 10_000
        differ = [seen[0] != other for other in seen[1:]]
        if packed:
            differ = [np.unpackbits(seen[0] ^ other) for other in seen[1:]]
        # Two answers to one value differ with probability 2 p (1 - p).
        expected = float(2 * m.p * (1 - m.p))
        for d in differ:
            assert d.size == 80_000
            # 8.1 standard errors: false alarm 4e-15 for all six.
            assert d.mean() == pytest.approx(expected, abs=0.014)


@pytest.mark.parametrize(
    ("k", "dtype"), [(16, "int64"), (16, "uint8"), (1024, "uint16")]
)
def test_both_sides_answer_alike(k: int, dtype: str) -> None:
    generator = np.random.default_rng(1)
    case = _local_cases.response_case(k, 50_000, generator, np.dtype(dtype))
    ours, theirs = case.ours(), case.numpy()
    for reports in (ours, theirs):
        counts = np.bincount(np.asarray(reports), minlength=k)
        assert len(counts) == k
        assert counts.max() < 50_000 / k * 2 + 40


def test_both_sides_make_unary_rows() -> None:
    case = _local_cases.unary_case(600, np.random.default_rng(1))
    q = float(fastdp.UnaryEncoding.from_epsilon(1, categories=1024).q)
    for call in (case.ours, case.numpy):
        rows = np.unpackbits(np.asarray(call()), axis=1)
        assert rows.shape == (600, 1024)
        # 8 standard errors: false alarm 1e-15.
        assert rows.mean() == pytest.approx(q, abs=0.005)


def test_both_sides_make_sets_and_numbers() -> None:
    """Bounds of 8 standard errors."""
    case = _local_cases.subset_case(2000, np.random.default_rng(1))
    for call in (case.ours, case.numpy):
        rows = np.unpackbits(np.asarray(call()), axis=1)
        assert (rows.sum(axis=1) == 27).all()
        assert np.abs(rows.mean(axis=0)[:100] - 0.27).max() < 0.09
    case = _local_cases.number_case(50_000, np.random.default_rng(1))
    theirs = np.asarray(case.numpy())
    assert len(np.asarray(case.ours())) == 50_000
    assert abs(theirs.mean()) < 8 * (5.3 / 50_000) ** 0.5


def test_both_sides_sum_the_same_columns() -> None:
    case = _local_cases.unary_sums_case(300, np.random.default_rng(1))
    assert case.ours()._tally.tolist() == case.numpy().tolist()


def test_both_sides_count_the_same_supporters() -> None:
    case = _local_cases.hashing_counts_case(700, np.random.default_rng(1))
    assert case.ours()._tally.tolist() == case.numpy().tolist()


def test_reports_of_either_side_decode_to_the_truth() -> None:
    n = 40_000
    for make, mechanism in (
        (
            _local_cases.hashing_case,
            fastdp.LocalHashing.from_epsilon(1, categories=1024),
        ),
        (
            _local_cases.hadamard_case,
            fastdp.HadamardResponse.from_epsilon(1, categories=1024),
        ),
    ):
        truth = np.bincount(
            np.random.default_rng(1).integers(0, 1024, size=n), minlength=1024
        )
        case = make(n, np.random.default_rng(1))
        for call in (case.ours, case.numpy):
            estimate = mechanism.estimate(call())
            error = (estimate.counts - truth) / mechanism.standard_error(n)
            # numpy's k-ary answers are true a little more often than they say.
            assert abs(error.mean()) < 0.2, make
            assert 0.8 < error.std() < 1.2, make


def test_both_sides_decode_the_same_hadamard_counts() -> None:
    case = _local_cases.hadamard_counts_case(5000, np.random.default_rng(1))
    assert np.asarray(case.ours()) == pytest.approx(np.asarray(case.numpy()))


# --- selection ---------------------------------------------------------------------


def test_both_sides_of_a_selection_choose_alike() -> None:
    generator = np.random.default_rng(1)
    scores = np.zeros(1000)
    scores[[3, 70, 500]] = 4000, 3000, 2000  # certain, and in this order
    case = _selection_cases.top_case(scores, generator)
    ours, theirs = np.asarray(case.ours()), np.asarray(case.numpy())
    assert ours[:3].tolist() == theirs[:3].tolist() == [3, 70, 500]
    assert len(set(ours.tolist())) == len(set(theirs.tolist())) == 10
    for line in _selection_cases.cases(300):
        rows = max(1, line.size // 100) if "rows" in line.name else 1
        chosen = np.asarray(line.ours())
        assert chosen.size == (10 if "top" in line.name else rows)
        assert chosen.shape == np.asarray(line.numpy()).shape
        assert (chosen >= 0).all()
        assert (chosen < line.size).all()
