"""fastdp release: the noise and the statement."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp.cli._numbers import number
from tests.tables import (
    EXACT,
    pa,
    parquet,
    read_parquet,
    release,
    write_csv,
    write_parquet,
)


class TestNoise:
    def test_noise_has_the_size_that_epsilon_asks_for(self, tmp_path: Path) -> None:
        rows = 20_000
        source = write_parquet(tmp_path / "in.parquet", {"n": [100] * rows})
        output = tmp_path / "out.parquet"
        options = ["--mechanism", "discrete-laplace", "--epsilon", "0.1"]
        assert (
            release(source, output, "--column", "n", *options, "--sensitivity", "2")
            == 0
        )
        noise = np.array(read_parquet(output)["n"]) - 100
        # Scale 20: variance 800 to within 0.1; both bounds are 8 standard errors.
        assert abs(noise.mean()) < 8 * np.sqrt(800 / rows)
        assert abs(noise.var() - 800) < 8 * 800 * np.sqrt(5 / rows)

    def test_two_runs_and_two_columns_differ(self, tmp_path: Path) -> None:
        columns = {"a": [0] * 400, "b": [0] * 400}
        source = write_parquet(tmp_path / "in.parquet", columns)
        seen = set()
        options = ["--mechanism", "discrete-gaussian", "--rho", "0.01"]
        for run in range(2):
            output = tmp_path / f"{run}.parquet"
            names = ["--column", "a", "--column", "b", "--sensitivity", "1"]
            assert release(source, output, *names, *options) == 0
            seen |= {tuple(column) for column in read_parquet(output).values()}
        assert len(seen) == 4

    @pytest.mark.parametrize(
        ("mechanism", "budget"),
        [
            ("discrete-laplace", ["--epsilon", "1"]),
            ("laplace", ["--epsilon", "1"]),
            ("discrete-gaussian", ["--rho", "0.5"]),
            ("gaussian", ["--rho", "0.5"]),
            ("discrete-gaussian", ["--epsilon", "1", "--delta", "1e-6"]),
            ("gaussian", ["--epsilon", "1", "--delta", "1e-6"]),
        ],
    )
    def test_every_mechanism(
        self, tmp_path: Path, mechanism: str, budget: list[str]
    ) -> None:
        source = write_csv(tmp_path / "in.csv", "n\n1\n2\n")
        output = tmp_path / "out.parquet"
        options = ["--mechanism", mechanism, *budget, "--sensitivity", "1"]
        assert release(source, output, "--column", "n", *options) == 0
        kind = pa.int64() if mechanism.startswith("discrete") else pa.float64()
        assert parquet.read_table(output).schema.types == [kind]

    def test_granularity_and_workers(self, tmp_path: Path) -> None:
        source = write_parquet(tmp_path / "in.parquet", {"x": [0.3] * 50})
        output = tmp_path / "out.parquet"
        more = ["--granularity", "0.25", "--coordinates", "1", "--workers", "2"]
        options = ["--mechanism", "laplace", "--epsilon", "1", "--sensitivity", "1"]
        assert release(source, output, "--column", "x", *options, *more) == 0
        steps = np.array(read_parquet(output)["x"]) * 4
        assert np.array_equal(steps, np.rint(steps))

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_more_cells_than_rounding_is_charged_for(
        self, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows, source = 2**19 + 1, tmp_path / f"in.{kind}"
        if kind == "csv":
            write_csv(source, "x,y\n" + "0,0\n" * rows)
        else:
            write_parquet(source, {"x": [0.0] * rows, "y": [0.0] * rows})
        output = tmp_path / "out.parquet"
        options = ["--mechanism", "laplace", "--epsilon", "1", "--sensitivity", "1"]
        names = ["--column", "x", "--column", "y"]
        assert release(source, output, *names, *options) == 2
        assert "--coordinates must be given" in capsys.readouterr().err
        assert not output.exists()
        options += ["--coordinates", "1"]
        assert release(source, output, *names, *options) == 0


class TestStatement:
    def statement(self, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
        captured = capsys.readouterr()
        assert captured.out == ""
        first, *lines = captured.err.splitlines()
        assert first == "fastdp: private release"
        return dict(line.strip().split(maxsplit=1) for line in lines)

    def test_laplace(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = write_csv(tmp_path / "in.csv", "a,b,k\n1,2,x\n3,4,y\n")
        names = ["--column", "a", "--column", "b", "--keep", "k"]
        options = ["--mechanism", "discrete-laplace", "--epsilon", "0.1"]
        output = tmp_path / "out.csv"
        assert release(source, output, *names, *options, "--sensitivity", "3") == 0
        said = self.statement(capsys)
        mechanism = fastdp.DiscreteLaplace.from_epsilon(
            number("0.1"), sensitivity=number("3")
        )
        assert said["mechanism"].startswith(repr(mechanism))
        assert "timing class T0" in said["mechanism"]
        assert said["parameter"] == "epsilon = 0.1, sensitivity = 3 (L1)"
        assert said["guarantee"].startswith("0.1-differential privacy")
        assert "at most 3 in L1 in total" in said["neighbors"]
        assert "number of rows and the kept columns are public" in said["neighbors"]
        assert said["released"] == "2 rows of 'a', 'b'"
        assert said["kept"] == "'k'"
        assert "nulls" in said["unreadable"]

    def test_gaussian(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = write_csv(tmp_path / "in.csv", "a,b\n1,2\n")
        names = ["--column", "a", "--column", "b"]
        options = ["--mechanism", "gaussian", "--epsilon", "0.5", "--delta", "1e-06"]
        output = tmp_path / "out.csv"
        assert release(source, output, *names, *options, "--sensitivity", "1") == 0
        said = self.statement(capsys)
        assert said["guarantee"].startswith("(0.5, 1e-06)-differential privacy")
        assert "in L2 in total, in at most 1048576 cells" in said["neighbors"]
        assert said["kept"] == "none"

    def test_rho(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = write_csv(tmp_path / "in.csv", "a\n1\n")
        options = ["--mechanism", "discrete-gaussian", "--rho", "1/3"]
        output = tmp_path / "out.csv"
        assert (
            release(source, output, "--column", "a", *options, "--sensitivity", "1")
            == 0
        )
        guarantee = self.statement(capsys)["guarantee"]
        assert guarantee.startswith("1/3-zero-concentrated differential privacy")

    def test_no_progress_bar_where_there_is_no_terminal(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = write_csv(tmp_path / "in.csv", "a\n1\n")
        assert release(source, tmp_path / "o.csv", "--column", "a", *EXACT) == 0
        assert "\r" not in capsys.readouterr().err

    def test_progress_bar_on_a_terminal(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        pytest.importorskip("tqdm")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        source = write_parquet(tmp_path / "in.parquet", {"n": [1] * 10})
        assert release(source, tmp_path / "o.csv", "--column", "n", *EXACT) == 0
        assert "\r" in capsys.readouterr().err
