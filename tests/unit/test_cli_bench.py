"""``fastdp bench``: what is measured, how the figures are made, how they print."""

from __future__ import annotations

import gc
import json
import math
import time

import numpy as np
import pytest

from fastdp.cli import _rivals, bench, main


@pytest.fixture
def few_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_SCALAR_CALLS", 5)
    monkeypatch.setattr(_rivals, "RIVALS", ())


def test_calls_are_warmed_up_and_timed_in_turn() -> None:
    order: list[str] = []
    collecting: list[bool] = []

    def first() -> None:
        order.append("a")
        collecting.append(gc.isenabled())
        time.sleep(0.002)

    seconds = bench.timings((first, lambda: order.append("b")), 3)
    assert order == list("ab" * 4)
    assert collecting == [True, False, False, False]
    assert gc.isenabled()
    assert seconds.shape == (2, 3)
    assert np.all(seconds[0] > 0.0019)
    assert np.all(seconds[1] < seconds[0])


def test_figures_are_medians_of_interleaved_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = np.array([[1.0, 2.0, 4.0], [10.0, 40.0, 20.0]])
    monkeypatch.setattr(bench, "timings", lambda *_: seconds)
    case = bench._Case("x", 10**9, lambda: None, lambda: None, 4.0, loops=2)
    row = bench.measure(case, 3)
    assert (row.ns_low, row.ns, row.ns_high) == (0.75, 1.0, 1.5)
    assert row.numpy_ns == 10.0
    assert row.ratio == 10.0  # of 10, 20 and 5
    assert row.million_per_second == 1000.0


def test_both_sides_of_a_line_do_the_same_work() -> None:
    for case in bench.cases(20_000):
        if case.size == 1:
            continue
        spreads = []
        for call in (case.ours, case.numpy):
            values = np.asarray(call())
            assert values.shape == (20_000,)
            spreads.append(float(np.std(values)))
            values[:] = 0
        assert spreads[0] == pytest.approx(spreads[1], rel=0.15), case.name


def test_the_output_array_is_shared() -> None:
    made = [case for case in bench.cases(100) if case.name.startswith("discrete_")]
    outputs = {id(call()) for case in made for call in (case.ours, case.numpy)}
    assert len(made) == 12
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("scale", "expected"), [(1, 4), (1000, 4), (10**6, 12), (2**40, 12)]
)
def test_random_bytes_of_laplace(scale: float, expected: float) -> None:
    assert bench.laplace_bytes(scale) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("sigma", [1.0, 3.99, 4.0, 10.0, 100.0, 1023.0, 5e4])
def test_random_bytes_of_gaussian(sigma: float) -> None:
    width = 6.0 if sigma < 1024 else 14.0
    steps = max(0, math.floor(math.log2(sigma / 2)))
    # The half-bell under its steps of length 2**steps, summed point by point.
    points = np.arange(0, 40 * max(2, int(sigma)), dtype=float)
    bell = np.exp(-0.5 * (points / sigma) ** 2)
    hat = bell[:: 2**steps].sum() * 2**steps
    kept = 1.0 if steps == 0 else (bell.sum() - 0.5) / hat
    assert bench.gaussian_bytes(sigma) == pytest.approx(width / kept, rel=0.01)


def test_random_bytes_of_the_widest_gaussian() -> None:
    assert 14 / 0.92 < bench.gaussian_bytes(2.0**40) < 14 / 0.82


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


@pytest.mark.usefixtures("few_repetitions")
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--quick", "--n", "500", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["setting"]) >= {"cpu", "cipher", "numpy", "fastdp"}
    assert len(document["kernels"]) == 16
    for row in document["kernels"]:
        assert 0 < row["ns_low"] <= row["ns"] <= row["ns_high"]
        assert row["ratio"] > 0
    assert document["rivals"] == []


def test_rivals_are_measured_where_they_are_and_named_where_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def present(counts: _rivals.Counts) -> _rivals.Call:
        assert counts.size == 100
        return lambda: time.sleep(0.001)

    def broken(_: _rivals.Counts) -> _rivals.Call:
        raise ImportError("no such library")

    def failing(_: _rivals.Counts) -> _rivals.Call:
        return lambda: 1 / 0

    made = [
        _rivals.Rival("here", exact=True, secure=False, prepare=present, most=100),
        _rivals.Rival("missing", exact=True, secure=True, prepare=broken),
        _rivals.Rival("broken", exact=True, secure=True, prepare=failing),
    ]
    monkeypatch.setattr(_rivals, "RIVALS", tuple(made))
    monkeypatch.setattr(bench, "cases", lambda size: iter(()))
    assert main(["bench", "--quick"]) == 0
    text = capsys.readouterr().out
    (line,) = [line for line in text.splitlines() if line.startswith("here")]
    assert line.endswith("exact, insecure")
    assert "cannot be imported" in text
    assert text.rstrip().endswith("missing, broken")


@pytest.mark.parametrize("name", [rival.name for rival in _rivals.RIVALS])
def test_rivals_that_are_installed_can_be_called(name: str) -> None:
    (rival,) = [rival for rival in _rivals.RIVALS if rival.name == name]
    call = _rivals.prepare(rival, np.arange(3, dtype=np.int64))
    if call is None:
        pytest.skip(f"{name} is not installed")
    assert len(np.asarray(call())) == 3


@pytest.mark.parametrize("size", ["0", "-5", "x"])
def test_sizes_are_refused_by_name(
    capsys: pytest.CaptureFixture[str], size: str
) -> None:
    assert main(["bench", "--n", size]) == 2
    assert "n" in capsys.readouterr().err
