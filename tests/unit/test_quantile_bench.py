"""``bench/quantiles.py`` with few runs: that it measures what it says."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bench import quantiles


def test_costs_are_distances_between_ranks() -> None:
    values = np.array([1, 2, 2, 2, 5])
    points = np.arange(7)
    # The median has rank 2.5: 2 has the ranks 1 to 4.
    expected = [2.5, 1.5, 0, 1.5, 1.5, 1.5, 2.5]
    assert quantiles.costs(values, points, Fraction(1, 2)).tolist() == expected


def test_a_column_by_name_and_by_number(tmp_path: Path) -> None:
    named = tmp_path / "named.csv"
    named.write_text("age,hours-per-week\n39, 40\n50,13\n\n38,?\n")
    assert quantiles.read_column(named, "hours-per-week").tolist() == [40, 13]
    bare = tmp_path / "bare.csv"
    bare.write_text("39, State-gov, 40\n50, Private, -13\n")
    assert quantiles.read_column(bare, "2").tolist() == [40, -13]
    for column in ("hours", "3", "1"):
        with pytest.raises(SystemExit, match="must"):
            quantiles.read_column(bare, column)


def test_errors_that_theory_does_not_explain_are_seen() -> None:
    fine = quantiles.Result("a", 4.0, 4.0, 0.1, 9.0, 20.0, 0, 100)
    assert fine.as_predicted
    assert not quantiles.Result("a", 5.0, 4.0, 0.1, 9.0, 20.0, 0, 100).as_predicted
    assert not quantiles.Result("a", 4.0, 4.0, 0.1, 9.0, 20.0, 30, 100).as_predicted
    several = quantiles.Result("a", 4.0, math.nan, math.nan, 9.0, 20.0, 0, 100)
    assert several.as_predicted


def test_few_runs_are_as_predicted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # With 40 runs, t of 39 degrees exceeds 12 with probability 1e-14. More than 18 of
    # 40 exceedances (5 % each at most) have probability 1e-13. Both hold for each of
    # four lines.
    monkeypatch.setattr(quantiles, "ALARM", 12.0)
    path = tmp_path / "hours.csv"
    hours = quantiles.made_column(3000)
    assert np.mean(hours == 40) > 0.4
    path.write_text("hours-per-week\n" + "\n".join(map(str, hours.tolist())) + "\n")
    assert (
        quantiles.main([str(path), "--runs", "40", "--quantiles", "1/4", "9/10"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3,000 records, column hours-per-week of hours.csv")
    assert [line.split()[0] for line in lines[2:6]] == ["0.25", "0.9", "0.25", "0.9"]
    assert all(line.endswith("  as predicted") for line in lines[2:6])
