"""``bench/telemetry.py`` on few users: that it measures what it says."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fastdp
from bench import telemetry

SCRIPT = Path(telemetry.__file__)


def test_values_have_the_asked_number_and_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "SLAB", 10_000)
    law = telemetry.zipf(8)
    assert law.sum() == pytest.approx(1)
    assert law[0] / law[3] == pytest.approx(4)
    generator = np.random.default_rng(1)
    slabs = list(telemetry.slabs(law, 35_000, generator))
    assert [len(slab) for slab in slabs] == [10_000] * 3 + [5_000]
    counts = np.bincount(np.concatenate(slabs), minlength=8)
    spread = np.sqrt(35_000 * law * (1 - law))
    assert np.all(np.abs(counts - 35_000 * law) < 6 * spread)
    # In random order: neighbors differ about as often as any two users do.
    changes = np.mean(slabs[0][1:] != slabs[0][:-1])
    assert changes == pytest.approx(1 - np.sum(law**2), abs=0.05)


@pytest.mark.parametrize("name", sorted(telemetry.ORACLES))
def test_errors_are_those_predicted(name: str) -> None:
    mechanism = telemetry.ORACLES[name].from_epsilon(1, categories=50)
    result = telemetry.measure(mechanism, telemetry.zipf(50), 100_000, 1)
    assert result.users == 100_000
    assert min(result.client, result.server) > 0
    # Of 50 categories: below 4e-12 (8 standard errors: 7e-14; chi-square: 2e-12 and
    # 1e-16; 30 of 50 intervals of 95 %: 2e-13).
    assert result.largest < 8
    assert 0.4 < result.root_mean_square / result.predicted < 1.9
    assert result.mean_absolute <= result.root_mean_square
    assert result.covered > 0.6
    text = telemetry.describe(result)
    assert f"{mechanism.report_width} bytes a report" in text
    assert f"predicted {result.predicted:,.0f}" in text


def test_a_wrong_estimate_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = fastdp.RandomizedResponse.from_epsilon(3, categories=20)
    # Counts the reports as if they were another mechanism's.
    other = fastdp.RandomizedResponse.from_epsilon(2, categories=20).aggregator()
    monkeypatch.setattr(fastdp.RandomizedResponse, "aggregator", lambda _: other)
    result = telemetry.measure(mechanism, telemetry.zipf(20), 100_000, 1)
    assert result.largest > 8
    assert result.covered < 0.6


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_a_column_is_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extension: str
) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    table = pa.table({"x": [1, 2, 3, 4], " c": ["a", "b", "b", "b"]})
    path = tmp_path / f"table.{extension}"
    if extension == "csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table.rename_columns(["x", "c"]), path)
    assert telemetry.shares(path, "c").tolist() == [0.75, 0.25]
    assert len(telemetry.shares(path, None)) == 4
    options = ["--column", "c", "--users", "2e4", "--epsilon", "3/2"]
    assert telemetry.main([str(path), *options]) == 0
    out = capsys.readouterr().out
    assert f"20,000 users, 2 categories from table.{extension}, drawn again" in out
    assert "epsilon = 1.5 a report" in out
    with pytest.raises(SystemExit, match="must have the column 'none'"):
        telemetry.shares(path, "none")


def test_as_a_script_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--users", "1e5", "--categories", "16"]
    done = subprocess.run(
        [*command, "--oracle", "all"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in telemetry.ORACLES.values():
        assert f"\n{name.__name__}, " in done.stdout
    for word in ("clients", "server", "together", "peak", "error", "largest"):
        assert done.stdout.count(f"\n  {word} ") == len(telemetry.ORACLES)
    assert "\nbest for this: " in done.stdout


@pytest.mark.parametrize("option", ["users", "categories", "workers"])
def test_options_are_refused_by_name(
    capsys: pytest.CaptureFixture[str], option: str
) -> None:
    with pytest.raises(SystemExit):
        telemetry.main([f"--{option}", "0"])
    assert f"--{option} must be >=" in capsys.readouterr().err


def test_the_hunt_of_strings() -> None:
    # 30,000 users find the most frequent string: 20 standard errors above nothing.
    shown = telemetry.hunt(Fraction(6), 30_000, 1)
    assert "PrefixHunt, 12 bytes a report" in shown
    assert int(shown.split("found")[1].split()[0]) >= 1


def test_the_mean_of_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "SLAB", 30_000)
    assert telemetry.main(["--numbers", "--users", "1e5", "--epsilon", "4"]) == 0
    shown = capsys.readouterr().out
    assert "100,000 users, numbers in [0, 24]" in shown
    # 8 standard errors are exceeded with odds of 1e-15.
    assert float(shown.split("  error")[1].split()[0]) < 8
    assert "LocalMean, 1 bytes a report" in shown
