"""``fastdp demo``: the table, its guarantee in words, the picture."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp.cli import _timings, demo, main
from fastdp.cli._timings import Ratio, Row

pytest.importorskip("statsmodels")


@pytest.fixture(autouse=True)
def quick_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the second that the demo spends on measuring the machine."""
    ratio = Ratio(9.0, 10.0, 11.0, 7)
    row = Row("noise", 1, 2.0, 1.0, 3.0, 20.0, ratio, 4.0, 1.0, 10.0, 1.0, 10.0)
    monkeypatch.setattr(_timings, "measure", lambda *_: row)


def columns(**given: list[int]) -> dict[str, np.ndarray]:
    return {name: np.array(values) for name, values in given.items()}


def test_every_record_lies_in_exactly_one_cell_whatever_it_holds() -> None:
    extreme = [-(2**40), -1, 0, 1, 2, 3, 5, 6, 10, 11, 77, 2**40]
    for indicators in ((0, 0, 0), (1, 0, 0), (1, 1, 1), (-5, 2, 9)):
        record = {
            name: [value] * len(extreme)
            for name, value in zip(("hlthg", "hlthf", "hlthp"), indicators, strict=True)
        }
        table = demo.count(columns(mdvis=extreme, **record))
        assert table.shape == (4, 5)
        assert table.sum() == len(extreme)
        assert table.max(axis=0).tolist() == [3, 2, 2, 2, 3]


def test_the_table_counts_the_twenty_thousand_person_years() -> None:
    records = demo.load()
    table = demo.count(records)
    assert table.sum() == 20_190
    # Counted anew, without the code under test.
    visits = records["mdvis"]
    fair = records["hlthf"] == 1
    none = sum(records[name] for name in ("hlthg", "hlthf", "hlthp")) == 0
    assert table[2, 1] == np.count_nonzero(fair & (visits >= 1) & (visits <= 2))
    assert table[0, 4] == np.count_nonzero(none & (visits >= 11))


def test_the_release_is_the_mechanisms_and_the_intervals_are_its_own() -> None:
    mechanism = fastdp.DiscreteLaplace.from_epsilon(Fraction(1000), sensitivity=1)
    records = columns(mdvis=[0, 1, 1], hlthg=[0, 1, 1], hlthf=[0] * 3, hlthp=[0] * 3)
    made = demo.make(mechanism, Fraction(1000), records)
    # At epsilon 1000 the noise is not 0 with probability below 1e-400.
    assert np.array_equal(made.private, made.true)
    low, high = mechanism.confidence_interval(0.95)
    assert np.array_equal(made.low, np.maximum(made.private - high, 0))
    assert np.array_equal(made.high, np.maximum(made.private - low, 0))


def test_intervals_hold_the_true_counts_as_often_as_they_say() -> None:
    mechanism = fastdp.DiscreteLaplace.from_epsilon(Fraction(1, 2), sensitivity=1)
    records = demo.load()
    covered = cells = 0
    for _ in range(200):
        made = demo.make(mechanism, Fraction(1, 2), records)
        inside = (made.low <= made.true) & (made.true <= made.high)
        covered += np.count_nonzero(inside)
        cells += inside.size
    # 4000 cells: 0.95 is missed by eight standard errors with odds below 1e-14.
    assert covered / cells > 0.95 - 8 * np.sqrt(0.95 * 0.05 / cells)


def test_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--epsilon", "0.5"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    text = " ".join(captured.out.split())
    assert "RAND Health Insurance Experiment" in text
    mechanism = fastdp.DiscreteLaplace.from_epsilon(Fraction(1, 2), sensitivity=1)
    assert repr(mechanism) in text
    assert (
        "true (shown for illustration only; a real release would not print it)" in text
    )
    assert "epsilon = 0.5 in total for all cells" in text
    assert "The unit protected is a person-year, not a person." in text
    assert "for groups of 5 rows epsilon is 5 times as large: 2.5." in text
    assert "95 % interval" in text
    assert "10.0 times numpy's" in text
    # One line for each of the 4 x 5 cells, with five columns each.
    rows = [line for line in captured.out.splitlines() if line.count("[") == 1]
    assert len(rows) == 20


def test_a_busy_machine_is_not_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ratio = Ratio(5.0, 10.0, 15.0, 7)
    row = Row("noise", 1, 2.0, 1.0, 4.0, 20.0, ratio, 4.0, 1.0, 11.0, 1.0, 11.0)
    monkeypatch.setattr(_timings, "measure", lambda *_: row)
    assert main(["demo"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "250 to 1,000 million exact samples" in text
    assert "too busy to compare: 5.0 to 15.0 times numpy's" in text
    assert "10.0" not in text


@pytest.mark.parametrize("extension", ["png", "svg"])
def test_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extension: str
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"table.{extension}"
    assert main(["demo", "--plot", str(path)]) == 0
    assert path.stat().st_size > 5000
    assert f"The picture is in {path}." in capsys.readouterr().out


def test_pictures_are_refused_before_the_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--plot", str(tmp_path / "table.txt")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("fastdp: --plot must end in .png")
    assert main(["demo", "--plot", str(tmp_path / "none" / "table.png")]) == 6
    assert "No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "x"])
def test_parameters_are_refused_by_name(
    capsys: pytest.CaptureFixture[str], value: str
) -> None:
    assert main(["demo", "--epsilon", value]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "epsilon" in captured.err


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("statsmodels.datasets", []), ("matplotlib", ["--plot", "x.png"])],
)
def test_missing_extras_are_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    arguments: list[str],
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["demo", *arguments]) == 1
    error = capsys.readouterr().err
    assert 'pip install "fastdp[demo]"' in error
    assert error.count("\n") == 1
