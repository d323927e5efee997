"""``bench/rivals.py``: other libraries at our work, measured where they are."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from bench import rivals
from fastdp.cli import _local_cases


def test_rivals_are_measured_where_they_are_and_named_where_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def present(counts: rivals.Array) -> rivals.Call:
        assert counts.size == 100
        return lambda: sum(range(10_000))

    def broken(_: rivals.Array) -> rivals.Call:
        raise ImportError("no such library")

    def failing(_: rivals.Array) -> rivals.Call:
        return lambda: 1 / 0

    made = [
        rivals.Rival("here", rivals.NOISE, True, False, present, most=100),
        rivals.Rival("missing", rivals.NOISE, True, True, broken),
        rivals.Rival("broken", rivals.BITS, True, True, failing),
    ]
    monkeypatch.setattr(rivals, "RIVALS", tuple(made))
    rivals.main(["--n", "100"])
    text = capsys.readouterr().out
    (line,) = [line for line in text.splitlines() if line.startswith("here")]
    assert line.endswith("exact, insecure")
    assert text.rstrip().splitlines()[-3:] == [
        "Rivals not measured, and why:",
        "  missing: integer Laplace noise, scale 10: no such library",
        "  broken: randomized response, packed bits: division by zero",
    ]
    rivals.main(["--n", "100", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert [line["name"] for line in document["rivals"]] == ["here"]
    assert document["setting"]["processor"]
    assert len(document["not_measured"]) == 2


def test_a_noisy_ratio_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = np.array([[1.0] * 5, [1.0, 2.0, 7.0, 7.5, 99.0]])
    monkeypatch.setattr(rivals, "timings", lambda *_: seconds)
    monkeypatch.setattr(rivals, "prepare", lambda *_: list)
    monkeypatch.setattr(rivals, "RIVALS", rivals.RIVALS[:1])
    rivals.main(["--n", "100"])
    assert "noisy: 1 of 1 ratios are not stated" in capsys.readouterr().out


def test_the_ratio_to_a_rival_is_of_one_sample_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def idle(data: rivals.Array) -> rivals.Call:
        return lambda: None

    seconds = np.array([[1.0, 2.0, 4.0], [10.0, 40.0, 20.0]])
    monkeypatch.setattr(rivals, "timings", lambda *_: seconds)
    rival = rivals.Rival("idle", rivals.BITS, True, True, idle, most=5)
    monkeypatch.setattr(rivals, "RIVALS", (rival,))
    (line,) = rivals.measure(1000, 3).lines
    assert (line.size, line.our_size) == (40, 100_000)
    assert line.ns == pytest.approx(2.0 / 40 * 1e9)
    assert line.our_ns == pytest.approx(20.0 / 100_000 * 1e9)
    # Of .1, .05 and .2.
    assert line.ratio.middle == pytest.approx((1 / 10) * 100_000 / 40)


TASKS = {rival.task.name: rival.task for rival in rivals.RIVALS}


@pytest.mark.parametrize("name", TASKS)
def test_our_side_of_every_task_runs(name: str) -> None:
    task = TASKS[name]
    data = task.data(16)
    assert len(np.asarray(task.ours(data)())) in (len(data), _local_cases.CATEGORIES)


@pytest.mark.parametrize(
    "rival", rivals.RIVALS, ids=lambda rival: f"{rival.name}, {rival.task.name}"
)
def test_rivals_that_are_installed_can_be_called(rival: rivals.Rival) -> None:
    data = rival.task.data(8)
    call = rivals.prepare(rival, data)
    if isinstance(call, Exception):
        pytest.skip(f"{rival.name} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = call()
    assert len(made) in (len(data), 8 * len(data), _local_cases.CATEGORIES)
