"""docs/local.md: its examples run, and its figures are what they say."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.cli import _reports, main

PAGE = (Path(__file__).parents[2] / "docs" / "local.md").read_text(encoding="utf-8")


def fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def run(code: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(code, names)  # noqa: S102 - the page's own lines
    return names


def with_(word: str) -> str:
    """Return the one block of Python that has a word."""
    (found,) = [block for block in fences("python") if word in block]
    return found


def test_the_tour() -> None:
    pytest.importorskip("matplotlib")
    tour = fences("python")[0]
    assert len([line for line in tour.splitlines() if line]) <= 25
    names = run(tour, {})
    shown = [*names["browsers"][:4], "opera"]  # which counts as "other"
    truth = np.array([np.count_nonzero(names["values"] == name) for name in shown])
    errors = (names["est"].counts - truth) / names["est"].standard_errors
    assert np.max(np.abs(errors)) < 8  # standard errors of 5: false alarm 7e-15
    assert names["est"].consistent().counts.sum() == pytest.approx(100_000)


class Delayed:
    """As much of dask.delayed as the page uses."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Delayed:
        return Delayed(lambda: self._call(*map(computed, arguments)))

    def compute(self) -> Any:
        return self._call()


def computed(value: Any) -> Any:
    if isinstance(value, list):
        return [computed(entry) for entry in value]
    return value.compute() if isinstance(value, Delayed) else value


def spark(names: dict[str, Any], parts: list[np.ndarray]) -> Any:
    def reduce(merge: Callable[[Any, Any], Any], found: list[Any]) -> Any:
        first, *others = found
        for other in others:
            first = merge(first, other)
        return first

    def map_partitions(tally: Callable[[Any], list[Any]]) -> Any:
        rows = [[SimpleNamespace(report=int(r)) for r in part] for part in parts]
        found = [one for part in rows for one in tally(iter(part))]
        return SimpleNamespace(reduce=lambda merge: reduce(merge, found))

    table = SimpleNamespace(rdd=SimpleNamespace(mapPartitions=map_partitions))
    code = with_("rdd.mapPartitions")
    return run(code, {**names, "table": table})["total"].estimate()


def beam(names: dict[str, Any], parts: list[np.ndarray]) -> Any:
    stand_in = SimpleNamespace(CombineFn=object)
    tally = run(with_("beam."), {**names, "beam": stand_in})["Tally"]()
    found = [tally.add_input(tally.create_accumulator(), part) for part in parts]
    return tally.extract_output(tally.merge_accumulators(iter(found)))


def dask(names: dict[str, Any], parts: list[np.ndarray]) -> Any:
    chunks = [Delayed(lambda part=part: part) for part in parts]
    more = {
        "dask": SimpleNamespace(delayed=Delayed),
        "chunks": SimpleNamespace(to_delayed=lambda: chunks),
    }
    return run(with_("dask.delayed"), {**names, **more})["total"].estimate()


@pytest.mark.parametrize("cluster", [spark, beam, dask])
def test_clusters(cluster: Callable[..., Any]) -> None:
    m = fastdp.HadamardResponse.from_epsilon(1, categories=300)
    reports = m.release(np.arange(3000) % 300)
    parts = [reports[:5], reports[5:2000], reports[2000:]]
    found = cluster({"m": m, "np": np}, parts)
    assert np.array_equal(found.counts, m.estimate(reports).counts)


def test_the_shell_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    browsers = ["firefox", "chrome", "opera"] * 50
    rows = [f"{browser},{visit % 24}" for visit, browser in enumerate(browsers)]
    (tmp_path / "visits.csv").write_text("\n".join(["browser,visits", *rows]) + "\n")
    (shell,) = fences("sh")
    for line in shell.splitlines():
        program, *words = shlex.split(line)
        assert program == "fastdp"
        assert main(words) == 0
    made = {"visits.csv", "east.parquet", "browsers.png", "browsers.csv"}
    made |= {"mean.parquet", "sketch.parquet"}
    assert {path.name for path in tmp_path.iterdir()} == made
    assert "150 reports" in capsys.readouterr().out


def test_the_description() -> None:
    (text,) = fences("json")
    read = _reports.parse(text, Path("page"))
    assert read.mechanism == fastdp.HadamardResponse.from_epsilon(1, categories=4)
    assert read.names == ("firefox", "chrome", "safari", "other")
    assert json.loads(read.to_json()) == json.loads(text)


def test_the_table_of_variances() -> None:
    def variance(mechanism: Any) -> float:
        return float(mechanism.standard_error(10**6)) ** 2 / 10**6

    for epsilon in (0.5, 1.0, 3.0):
        e = math.exp(epsilon)
        for d in (4, 100):
            expected = {
                fastdp.RandomizedResponse: (e + d - 2) / (e - 1) ** 2,
                fastdp.UnaryEncoding: 4 * e / (e - 1) ** 2,
                fastdp.HadamardResponse: ((e + 1) / (e - 1)) ** 2,
            }
            for own, value in expected.items():
                found = variance(own.from_epsilon(epsilon, categories=d))
                assert found == pytest.approx(value, rel=1e-9)
            hashing = variance(fastdp.LocalHashing.from_epsilon(epsilon, categories=d))
            # The number of buckets is whole.
            assert hashing == pytest.approx(4 * e / (e - 1) ** 2, rel=0.05)
    for epsilon, ratio in ((1, 1.13), (3, 2.35)):
        both = (fastdp.HadamardResponse, fastdp.LocalHashing)
        errors = [
            own.from_epsilon(epsilon, categories=1000).standard_error(1) for own in both
        ]
        assert errors[0] / errors[1] == pytest.approx(ratio, rel=0.01)
    assert "13 %" in PAGE
    assert "2.35\n  times" in PAGE


def test_the_rule_for_few_categories() -> None:
    for epsilon in (Fraction(1, 2), 1, 2, 3, 4):
        for factor, few in ((1.9, True), (4.5, False)):
            d = max(2, math.floor(factor * math.exp(epsilon)))
            best = fastdp.best_frequency_oracle(epsilon, categories=d, users=10**6)
            assert isinstance(best, fastdp.RandomizedResponse) == few
