"""docs/local.md: its examples run, and its figures are what they say."""

from __future__ import annotations

import json
import math
import re
import shlex
from fractions import Fraction
from pathlib import Path
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


def test_frames_of_reports() -> None:
    pytest.importorskip("pyarrow")
    names = run(with_("frames.tally(part"), {"fastdp": fastdp, "np": np})
    reports = [names[part]["report"].to_numpy() for part in ("east", "west")]
    expected = names["m"].estimate(np.concatenate(reports))
    assert np.array_equal(names["total"].counts, expected.counts)


def test_the_shell_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    browsers = ["firefox", "chrome", "opera"] * 50
    rows = [f"{browser},{visit % 24}" for visit, browser in enumerate(browsers)]
    (tmp_path / "visits.csv").write_text("\n".join(["browser,visits", *rows]) + "\n")
    shell, _ = fences("sh")
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
    assert "2.35 times" in " ".join(PAGE.split())


def test_the_rule_for_few_categories() -> None:
    for epsilon in (Fraction(1, 2), 1, 2, 3, 4):
        for factor, few in ((1.9, True), (4.5, False)):
            d = max(2, math.floor(factor * math.exp(epsilon)))
            best = fastdp.best_frequency_oracle(epsilon, categories=d, users=10**6)
            assert isinstance(best, fastdp.RandomizedResponse) == few
