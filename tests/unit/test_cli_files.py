"""Tables of every form and place: files, folders, streams, URIs, and what they say."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.cli import _places, _text_files, main
from tests.tables import EXACT, SECRET, pa, parquet, release, require_only

feather = pytest.importorskip("pyarrow.feather")
fs = pytest.importorskip("pyarrow.fs")
ipc = pytest.importorskip("pyarrow.ipc")

ROWS = {"k": ["a", 'b"c', "d,e", "f\tg", ""], "n": [5, -7, 0, 12, 3]}
FORMS = sorted(_places.FORMS)
COUNT = ["--column", "n", "--keep", "k", *EXACT]


def write(path: Path, columns: dict[str, Any] = ROWS) -> Path:
    """Write a table in the form that the name says, without the code under test."""
    name, table = path.name, pa.table(columns)
    if name.endswith(".parquet"):
        parquet.write_table(table, path)
    elif name.endswith((".feather", ".arrow")):
        feather.write_feather(table, path)
    else:
        delimiter = "," if ".csv" in name else "\t"
        lines = [columns, *zip(*columns.values(), strict=True)]
        text = "".join(
            delimiter.join(quoted(str(cell), delimiter) for cell in line) + "\n"
            for line in lines
        )
        packed = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
        path.write_bytes(packed)
    return path


def quoted(cell: str, delimiter: str) -> str:
    special = any(sign in cell for sign in f'"\r\n{delimiter}')
    return '"' + cell.replace('"', '""') + '"' if special else cell


def text_of(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.name.endswith(".gz") else content).decode()


def read(path: Path) -> dict[str, list[Any]]:
    if path.name.endswith(".parquet"):
        found = parquet.read_table(path)
    elif path.name.endswith((".feather", ".arrow")):
        found = feather.read_table(path)
    else:
        import csv

        delimiter = "," if ".csv" in path.name else "\t"
        lines = list(csv.reader(io.StringIO(text_of(path)), delimiter=delimiter))
        names, *rows = lines
        cells = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        return {**cells, "n": [int(cell) for cell in cells["n"]]}
    columns: dict[str, list[Any]] = found.to_pydict()
    return columns


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.err.startswith("fastdp: ")
    assert captured.err.count("\n") == 1
    assert SECRET not in captured.out + captured.err
    return captured.err


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return the one line of a refusal."""
    return lambda: refusal(capsys)


class TestForms:
    @pytest.mark.parametrize("written", FORMS)
    @pytest.mark.parametrize("given", FORMS)
    def test_every_form_is_read_and_written(
        self, tmp_path: Path, given: str, written: str
    ) -> None:
        source = write(tmp_path / f"in.{given}")
        output = tmp_path / f"out.{written}"
        assert release(source, output, *COUNT) == 0
        assert read(output) == ROWS
        require_only(tmp_path, f"in.{given}", f"out.{written}")

    @pytest.mark.parametrize("form", FORMS)
    def test_reports_are_collected_and_estimated_in_every_form(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
    ) -> None:
        source = write(tmp_path / f"in.{form}", {"c": ["x", "y", "x", "x"]})
        reports, table = tmp_path / f"r.{form}", tmp_path / f"t.{form}"
        options = ["--column", "c", "--categories", "x,y", "--epsilon", "1000"]
        assert main(["collect", str(source), "-o", str(reports), *options]) == 0
        capsys.readouterr()
        assert main(["estimate", str(reports), "-o", str(table), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        counts = {row["category"]: round(row["count"]) for row in found["categories"]}
        assert counts == {"x": 3, "y": 1}
        beside = [f"r.{form}.json"] if _places.FORMS[form].text else []
        require_only(tmp_path, source.name, reports.name, table.name, *beside)

    def test_a_form_that_is_stated_goes_before_the_name(self, tmp_path: Path) -> None:
        source = write(tmp_path / "in.tsv.gz").rename(tmp_path / "in.txt")
        output = tmp_path / "out.dat"
        options = ["--input-format", "tsv.gz", "--output-format", "parquet"]
        assert release(source, output, *options, *COUNT) == 0
        assert read(output.rename(tmp_path / "out.parquet")) == ROWS

    def test_members_of_gzip_are_one_file(self, tmp_path: Path) -> None:
        source, output = tmp_path / "in.csv.gz", tmp_path / "out.csv"
        source.write_bytes(gzip.compress(b"n\n1\n2") + gzip.compress(b"3\n4\n"))
        assert release(source, output, "--column", "n", *EXACT) == 0
        assert output.read_text() == "n\n1\n23\n4\n"

    def test_the_same_rows_are_the_same_bytes(self, tmp_path: Path) -> None:
        source = write(tmp_path / "in.csv")
        made = []
        for name in ("one.csv.gz", "two.csv.gz"):
            assert release(source, tmp_path / name, *COUNT) == 0
            made.append((tmp_path / name).read_bytes())
        assert made[0] == made[1]

    @pytest.mark.parametrize(
        "content", [b"", b"n\n1\n", gzip.compress(b"n\n1\n" * 999, mtime=0)]
    )
    def test_gzip_that_is_none_or_breaks_off(
        self, tmp_path: Path, said: Callable[[], str], content: bytes
    ) -> None:
        source = tmp_path / "in.csv.gz"
        source.write_bytes(content[:-6])
        assert release(source, tmp_path / "o.csv", "--column", "n", *EXACT) == 6
        assert "cannot read" in said()
        require_only(tmp_path, "in.csv.gz")

    def test_long_cells_of_tsv(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A quote, commas and a delimiter in a row that is longer than a block.
        monkeypatch.setattr(_text_files, "_BLOCK_BYTES", 256)
        long = "x,\t" * 200
        text = f'k\tn\th\na,b\t7\t"{long}"\nc\t8\t{"y," * 300}\nd\t9\t\n'
        source, output = tmp_path / "in.tsv", tmp_path / "out.tsv"
        source.write_text(text)
        assert release(source, output, *COUNT) == 0
        assert output.read_text() == "k\tn\na,b\t7\nc\t8\nd\t9\n"

    def test_arrow_types_are_as_in_parquet(self, tmp_path: Path) -> None:
        table = pa.table(
            {
                "n": pa.chunked_array(
                    [pa.array([1, None], "int8"), pa.array([3], "int8")]
                ),
                "k": pa.array(["p", "q", None]).dictionary_encode(),
                "left": ["out"] * 3,
            }
        )
        source, output = tmp_path / "in.arrow", tmp_path / "out.feather"
        feather.write_feather(table, source, compression="lz4")
        assert release(source, output, *COUNT) == 0
        made = feather.read_table(output)
        assert made.to_pydict() == {"n": [1, 0, 3], "k": ["p", "q", None]}
        assert made.schema.field("k").type == table.schema.field("k").type
        assert made.schema.field("n").type == pa.int64()

    def test_text_of_a_feather_file_may_be_any_bytes(self, tmp_path: Path) -> None:
        # As in Parquet: what a cell holds stops nothing.
        cells = pa.array([b"x", b"\xff", b"x"]).view(pa.string())
        source, output = tmp_path / "in.feather", tmp_path / "out.csv"
        for column in (cells, cells.dictionary_encode()):
            with ipc.new_file(source, pa.schema([("c", column.type)])) as writer:
                writer.write_batch(pa.record_batch([column], names=["c"]))
            options = ["--column", "c", "--categories", "x,y", "--epsilon", "1000"]
            line = ["collect", str(source), "-o", str(output), *options]
            assert (
                main([*line, "--other", "y", "--mechanism", "randomized-response"]) == 0
            )
            assert output.read_text() == "report\n0\n1\n0\n"

    def test_a_feather_file_that_is_damaged(
        self, tmp_path: Path, said: Callable[[], str]
    ) -> None:
        column = pa.array([SECRET] * 3, pa.string())
        offsets = pa.py_buffer(np.array([0, 7, 2**30, 21], np.int32))
        broken = pa.Array.from_buffers(
            pa.string(), 3, [None, offsets, column.buffers()[2]]
        )
        source = tmp_path / "in.feather"
        with ipc.new_file(source, pa.schema([("k", pa.string())])) as writer:
            writer.write_batch(pa.record_batch([broken], names=["k"]))
        whole = source.read_bytes()
        collect = ["--column", "k", "--categories", "a,b", "--epsilon", "1"]
        for content in (whole, whole[:300], whole[:100], b"ARROW1\0\0", b"FEA1"):
            source.write_bytes(content)
            output = str(tmp_path / "out.csv")
            assert main(["collect", str(source), "-o", output, *collect]) == 6
            assert "cannot read" in said()
            require_only(tmp_path, "in.feather")


class TestFolders:
    def write(self, folder: Path, parts: dict[str, list[int]]) -> Path:
        for name, values in parts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pa.table({"n": values, "h": ["x"] * len(values)}), path)
        return folder

    def test_files_come_in_the_order_of_their_names(self, tmp_path: Path) -> None:
        parts = {"b.parquet": [3], "a.parquet": [1, 2], "sub/c.parquet": [4, 5]}
        folder = self.write(tmp_path / "in", parts)
        (folder / "_SUCCESS").touch()
        self.write(folder, {"_temporary/0.parquet": [9], ".old/d.parquet": [9]})
        output = tmp_path / "out.csv"
        assert release(folder, output, "--column", "n", *EXACT) == 0
        assert output.read_text() == "n\n1\n2\n3\n4\n5\n"

    def test_columns_in_the_names_of_folders(self, tmp_path: Path) -> None:
        parts = {
            "clinic=South/0.parquet": [3],
            "clinic=North%20East/0.parquet": [1, 2],
            "clinic=__HIVE_DEFAULT_PARTITION__/0.parquet": [4],
        }
        folder = self.write(tmp_path / "in.parquet", parts)
        output = tmp_path / "out.parquet"
        options = ["--column", "n", "--keep", "clinic", *EXACT]
        assert release(folder, output, *options) == 0
        assert parquet.read_table(output).to_pydict() == {
            "n": [1, 2, 3, 4],
            "clinic": ["North East", "North East", "South", None],
        } or parquet.read_table(output).to_pydict() == {
            "n": [4, 1, 2, 3],
            "clinic": [None, "North East", "North East", "South"],
        }

    @pytest.mark.parametrize(
        "names", [["_delta_log/0.json"], ["t/metadata/v1.metadata.json"], [".hoodie/x"]]
    )
    def test_folders_that_hold_removed_rows_too(
        self, tmp_path: Path, said: Callable[[], str], names: list[str]
    ) -> None:
        folder = self.write(tmp_path / "in", {"a.parquet": [1]})
        for name in names:
            (folder / name).parent.mkdir(parents=True)
            (folder / name).touch()
        assert release(folder, tmp_path / "o.csv", "--column", "n", *EXACT) == 2
        assert "INPUT must not be a Delta, Iceberg or Hudi table" in said()

    def test_files_that_differ(self, tmp_path: Path, said: Callable[[], str]) -> None:
        folder = self.write(tmp_path / "in", {"a.parquet": [1]})
        parquet.write_table(
            pa.table({"n": pa.array([1], "int8")}), folder / "b.parquet"
        )
        assert release(folder, tmp_path / "o.csv", "--column", "n", *EXACT) == 2
        line = said()
        assert "the same columns and types in all files, but b.parquet differs" in line

    def test_what_a_folder_cannot_be(
        self, tmp_path: Path, said: Callable[[], str]
    ) -> None:
        folder = tmp_path / "in"
        folder.mkdir()
        output = tmp_path / "out.csv"
        assert release(folder, output, "--column", "n", *EXACT) == 2
        assert "must have files that end in .parquet" in said()
        self.write(folder, {"a.parquet": [1]})
        csv = ["--input-format", "csv", "--column", "n", *EXACT]
        assert release(folder, output, *csv) == 2
        assert "INPUT must be a file to be read as csv" in said()
        assert release(folder, folder / "sub.csv", "--column", "n", *EXACT) == 2
        assert "--output must be another file than INPUT" in said()
        assert release(folder, folder, "--column", "n", *EXACT) == 2
        assert "--output must be a file, got the folder" in said()
        require_only(folder, "a.parquet")

    def test_a_folder_of_reports(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = write(tmp_path / "in.csv", {"c": ["x", "y", "x"]})
        folder = tmp_path / "reports"
        folder.mkdir()
        options = ["--column", "c", "--categories", "x,y", "--epsilon", "1"]
        for name in ("a", "b"):
            line = ["collect", str(source), "-o", str(folder / f"{name}.parquet")]
            assert main([*line, *options]) == 0
        capsys.readouterr()
        assert main(["estimate", str(folder), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["users"] == 6
        assert main(["estimate", str(folder), str(folder / "a.parquet")]) == 2
        assert "REPORTS before it" in capsys.readouterr().err


def stream(content: bytes) -> Any:
    """Return text over bytes that cannot go back, as a pipe is."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: Any) -> int:
            raise OSError("a pipe")

        def tell(self) -> int:
            raise OSError("a pipe")

    return io.TextIOWrapper(io.BufferedReader(Pipe(content)))  # type: ignore[arg-type]


class TestStreams:
    @pytest.mark.rest
    def test_a_pipe_of_commands(self, tmp_path: Path) -> None:
        source = write(tmp_path / "in.csv")
        line = [sys.executable, "-m", "fastdp.cli", "release", "-", "-o", "-", *COUNT]
        run = subprocess.run(line, input=source.read_bytes(), capture_output=True)
        assert run.returncode == 0, run.stderr
        assert run.stdout == source.read_bytes()
        assert b"standard output" in run.stderr
        run = subprocess.run(
            [*line, "--input-format", "parquet"], input=b"PAR1", capture_output=True
        )
        assert (run.returncode, run.stdout) == (2, b"")
        assert b"INPUT must be a file to be read as parquet" in run.stderr
        with write(tmp_path / "in.parquet").open("rb") as file:
            run = subprocess.run(
                [*line, "--input-format", "parquet"], stdin=file, capture_output=True
            )
        assert run.stdout == source.read_bytes(), run.stderr

    @pytest.mark.parametrize("form", [f for f in FORMS if f != "parquet"])
    def test_forms_that_go_through_pipes(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfdbinary: pytest.CaptureFixture[bytes],
        form: str,
    ) -> None:
        source = write(tmp_path / f"in.{form}")
        monkeypatch.setattr(sys, "stdin", stream(source.read_bytes()))
        forms = ["--input-format", form, "--output-format", form]
        assert main(["release", "-", "-o", "-", *forms, *COUNT]) == 0
        (tmp_path / f"out.{form}").write_bytes(capfdbinary.readouterr().out)
        assert read(tmp_path / f"out.{form}") == ROWS

    def test_an_arrow_stream(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink, table = io.BytesIO(), pa.table(ROWS)
        with ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
        monkeypatch.setattr(sys, "stdin", stream(sink.getvalue()))
        output = tmp_path / "out.csv"
        forms = ["--input-format", "arrow"]
        assert main(["release", "-", "-o", str(output), *forms, *COUNT]) == 0
        assert read(output) == ROWS

    def test_nothing_is_shown_of_what_fails_midway(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        whole = gzip.compress(("n\n" + "1\n" * 3_000_000).encode())
        monkeypatch.setattr("fastdp.cli.release._CELLS_PER_WRITE", 8192)
        monkeypatch.setattr(sys, "stdin", stream(whole[:-6]))
        options = ["--input-format", "csv.gz", "--column", "n", *EXACT]
        assert main(["release", "-", "-o", "-", *options]) == 6
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "cannot read standard input" in captured.err

    def test_what_streams_cannot_do(
        self, tmp_path: Path, said: Callable[[], str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = str(write(tmp_path / "in.csv"))
        ledger = ["--ledger", "b.db", "--budget", "b", "--label", "l"]
        assert main(["release", source, "-o", "-", *ledger, *COUNT]) == 2
        assert "--output must be a file on this machine with --ledger" in said()
        assert main(["release", source, "-o", "-", "--json", *COUNT]) == 2
        assert "--json must be left out if --output is standard output" in said()
        collect = ["--column", "k", "--categories", "a,b", "--epsilon", "1"]
        assert main(["collect", source, "-o", "-", *collect]) == 2
        assert "--output must be a file for reports in CSV" in said()
        assert main(["estimate", "-"]) == 2
        assert "REPORTS must be files" in said()
        assert main(["estimate", source, "-o", "-"]) == 2
        assert "--output must be a file: standard output has the estimate" in said()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let URIs of one scheme lead to a folder, through a file system of pyarrow."""
    top = tmp_path / "elsewhere"
    top.mkdir()
    system = fs.SubTreeFileSystem(str(top), fs.LocalFileSystem())

    def remote(place: _places.Place) -> tuple[Any, str]:
        return system, str(place).partition("://")[2]

    monkeypatch.setattr(_places.Place, "remote", property(remote))
    return top


class TestUris:
    def test_files_of_this_machine(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "a b"
        folder.mkdir()
        source = write(folder / "in.csv").as_uri()
        assert "%20" in source
        output = (folder / "out.csv").as_uri()
        assert main(["release", source, "-o", output, *COUNT]) == 0
        assert read(folder / "out.csv") == ROWS
        capsys.readouterr()
        assert main(["release", source, "-o", str(folder / "in.csv"), *COUNT]) == 2
        assert "--output must be another file than INPUT" in refusal(capsys)
        assert main(["release", "file://other/in.csv", "-o", output, *COUNT]) == 2
        assert "INPUT must not name another machine" in refusal(capsys)

    @pytest.mark.parametrize("form", FORMS)
    def test_every_form_elsewhere(
        self, tmp_path: Path, elsewhere: Path, form: str
    ) -> None:
        write(elsewhere / f"in.{form}")
        line = ["release", f"far://in.{form}", "-o", f"far://out.{form}", *COUNT]
        assert main(line) == 0
        assert read(elsewhere / f"out.{form}") == ROWS
        require_only(elsewhere, f"in.{form}", f"out.{form}")

    def test_reports_elsewhere(
        self, elsewhere: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(elsewhere / "in.csv", {"c": ["x", "y", "x"]})
        options = ["--column", "c", "--categories", "x,y", "--epsilon", "1"]
        for name in ("r.csv", "r.parquet"):
            line = ["collect", "far://in.csv", "-o", f"far://{name}", *options]
            assert main(line) == 0
        require_only(elsewhere, "in.csv", "r.csv", "r.csv.json", "r.parquet")
        capsys.readouterr()
        assert main(["estimate", "far://r.csv", "far://r.parquet", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["users"] == 6
        assert main(["estimate", "far://r.csv", "far://r.csv"]) == 2

    @pytest.mark.parametrize(
        ("given", "beside"),
        [
            ("a/x?y.csv", "a/x?y.csv.json"),
            ("far://a/x.csv", "far://a/x.csv.json"),
            ("far://a/x.csv?v=1#f", "far://a/x.csv.json?v=1#f"),
        ],
    )
    def test_what_lies_beside_a_table(self, given: str, beside: str) -> None:
        found = _places.table("INPUT", given).beside(".json")
        assert found.given == beside

    def test_folders_elsewhere(self, elsewhere: Path, tmp_path: Path) -> None:
        (elsewhere / "t.parquet").mkdir()
        write(elsewhere / "t.parquet" / "a.parquet")
        output = tmp_path / "out.csv"
        for name in ("far://t.parquet", "far://t.parquet/"):
            assert main(["release", name, "-o", str(output), *COUNT]) == 0
            assert read(output) == ROWS

    def test_what_fails_elsewhere_leaves_nothing(
        self, elsewhere: Path, said: Callable[[], str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(elsewhere / "in.csv")
        secret = f"far://me:{SECRET}@none.csv?key={SECRET}"
        assert main(["release", secret, "-o", "far://out.csv", *COUNT]) == 6
        assert "cannot read far://none.csv: No such file" in said()
        assert main(["release", "far://in.csv", "-o", "far://no/o.csv", *COUNT]) == 6
        assert "cannot write far://no/o.csv" in said()
        assert main(["release", "far://in.csv", "-o", "far://in.csv", *COUNT]) == 2
        assert "--output must be another file than INPUT" in said()
        ledger = ["--ledger", "b.db", "--budget", "b", "--label", "l"]
        line = ["release", "far://in.csv", "-o", "far://out.csv", *ledger, *COUNT]
        assert main(line) == 2
        assert "--output must be a file on this machine with --ledger" in said()
        require_only(elsewhere, "in.csv")

    def test_schemes_that_nothing_knows(
        self,
        tmp_path: Path,
        said: Callable[[], str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        source = str(write(tmp_path / "in.csv"))
        monkeypatch.setitem(sys.modules, "fsspec", None)
        monkeypatch.setitem(sys.modules, "fsspec.core", None)
        output = f"nowhere://me:{SECRET}@x/out.csv"
        assert main(["release", source, "-o", output, *COUNT]) == 1
        line = said()
        assert "--output nowhere://x/out.csv needs fsspec: pip install fsspec" in line

    def test_fsspec(self, tmp_path: Path, said: Callable[[], str]) -> None:
        fsspec = pytest.importorskip("fsspec")
        memory = fsspec.filesystem("memory")
        source = write(tmp_path / "in.parquet")
        memory.pipe("/box/in.parquet", source.read_bytes())
        try:
            line = [
                "release",
                "memory://box/in.parquet",
                "-o",
                "memory://box/out.csv.gz",
            ]
            assert main([*line, *COUNT]) == 0
            output = tmp_path / "out.csv.gz"
            output.write_bytes(memory.cat("/box/out.csv.gz"))
            assert read(output) == ROWS
            assert sorted(memory.ls("/box", detail=False)) == [
                "/box/in.parquet",
                "/box/out.csv.gz",
            ]
            out = ["-o", str(tmp_path / "o.csv")]
            assert main(["release", "memory://box/", *out, *COUNT]) == 0
        finally:
            memory.rm("/box", recursive=True)
        assert read(tmp_path / "o.csv") == ROWS


def statement(path: Path) -> dict[str, Any]:
    schema = (
        parquet.read_schema(path)
        if path.name.endswith(".parquet")
        else feather.read_table(path).schema
    )
    made: dict[str, Any] = json.loads(schema.metadata[b"fastdp.release"])
    return made


class TestStatements:
    def test_a_file_says_how_it_was_released(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = write(tmp_path / "in.csv")
        options = ["--column", "n", "--keep", "k", "--mechanism", "discrete-laplace"]
        options += ["--epsilon", "1/3", "--sensitivity", "2"]
        found = []
        for name in ("out.parquet", "out.feather"):
            assert release(source, tmp_path / name, *options) == 0
            found.append(statement(tmp_path / name))
        side = tmp_path / "side.json"
        capsys.readouterr()
        csv = ["--metadata", str(side), "--json", *options]
        assert release(source, tmp_path / "out.csv", *csv) == 0
        found.append(json.loads(side.read_text()))
        captured = capsys.readouterr()
        assert captured.err == ""
        printed = json.loads(captured.out)
        assert (printed.pop("rows"), printed.pop("replayed")) == (5, False)
        assert printed.pop("output") == str(tmp_path / "out.csv")
        m = fastdp.DiscreteLaplace.from_epsilon(
            fastdp.cli._numbers.number("1/3"), sensitivity=2
        )
        for facts in (*found, printed):
            assert facts["format"] == "fastdp release"
            assert facts["version"] == 1
            assert facts["fastdp"] == fastdp.__version__
            told = json.dumps(facts["mechanism"])
            assert fastdp.Mechanism.from_json(told) == m
            event = fastdp.accounting.Event.from_json(json.dumps(facts["event"]))
            assert event == m.event()
            assert facts["epsilon"] == "1/3"
            assert facts["sensitivity"] == "2"
            assert facts["neighboring_relation"] == "ADD_OR_REMOVE_ONE"
            assert (facts["columns"], facts["kept"]) == (["n"], ["k"])
        require_only(
            tmp_path, "in.csv", "out.csv", "out.parquet", "out.feather", "side.json"
        )

    def test_reports_say_it_too(self, tmp_path: Path) -> None:
        source, side = write(tmp_path / "in.csv"), tmp_path / "side.json"
        options = ["--column", "k", "--categories", "a,b", "--epsilon", "2"]
        options += ["--metadata", str(side)]
        for name in ("r.parquet", "r.csv"):
            line = ["collect", str(source), "-o", str(tmp_path / name), *options]
            assert main(line) == 0
        for facts in (statement(tmp_path / "r.parquet"), json.loads(side.read_text())):
            assert facts["epsilon"] == "2"
            assert facts["per"] == "report"
            assert facts["neighboring_relation"] == "REPLACE_ONE"

    def test_estimates_say_where_they_are_from(self, tmp_path: Path) -> None:
        source = write(tmp_path / "in.csv")
        reports, table = tmp_path / "r.parquet", tmp_path / "t.parquet"
        options = ["--column", "k", "--categories", "a,b", "--epsilon", "2"]
        assert main(["collect", str(source), "-o", str(reports), *options]) == 0
        assert main(["estimate", str(reports), "-o", str(table)]) == 0
        facts = json.loads(parquet.read_schema(table).metadata[b"fastdp.estimate"])
        assert (facts["epsilon"], facts["users"]) == (2.0, 5)
        assert facts["fastdp"] == fastdp.__version__

    def test_nothing_of_the_data_or_the_machine_is_in_it(self, tmp_path: Path) -> None:
        rows = {"k": [SECRET], "n": [int(SECRET)]}
        source = write(tmp_path / f"{SECRET}.csv", rows)
        output = tmp_path / "out.parquet"
        assert release(source, output, "--column", "n", *EXACT) == 0
        text = json.dumps(statement(output))
        assert SECRET not in text
        assert str(tmp_path) not in text

    @pytest.mark.parametrize("name", ["in.csv", "out.csv", "sub"])
    def test_the_side_file_is_another(
        self, tmp_path: Path, said: Callable[[], str], name: str
    ) -> None:
        source = write(tmp_path / "in.csv")
        (tmp_path / "sub").mkdir()
        output = write(tmp_path / "out.csv", {"old": [1]})
        before = output.read_text()
        side = ["--metadata", str(tmp_path / name)]
        assert release(source, output, *side, *COUNT) == 2
        assert "--metadata must be" in said()
        assert output.read_text() == before

    def test_a_failure_leaves_both_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        source, side = write(tmp_path / "in.csv"), tmp_path / "side.json"
        side.write_text("old")
        monkeypatch.setattr(_text_files.TextSink, "_write_lines", full)
        line = ["--metadata", str(side), *COUNT]
        assert release(source, tmp_path / "out.csv", *line) == 7
        assert side.read_text() == "old"
        require_only(tmp_path, "in.csv", "side.json")


@pytest.fixture
def budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """Open a ledger; return what is spent of its budget."""
    monkeypatch.chdir(tmp_path)
    book = fastdp.ledger.create("budget.db")
    book.add_budget("b", fastdp.accounting.PureFilter(10**6), unit="person")
    write(tmp_path / "in.csv")

    def spent() -> float:
        with fastdp.ledger.open("budget.db") as again:
            return float(again.budget("b").spent["epsilon"])

    return spent


LEDGER = ["--ledger", "budget.db", "--budget", "b", "--label", "one"]


class TestLedgers:
    @pytest.mark.parametrize("form", FORMS)
    def test_every_form_is_written_once(
        self, budget: Callable[[], float], form: str, tmp_path: Path
    ) -> None:
        noisy = [option.replace("1000", "1") for option in COUNT]
        output, side = f"out.{form}", "side.json"
        line = ["release", "in.csv", "-o", output, "--metadata", side, *LEDGER, *noisy]
        assert main(line) == 0
        body, said = Path(output).read_bytes(), Path(side).read_text()
        assert budget() == 1
        assert main(line) == 0
        assert (Path(output).read_bytes(), Path(side).read_text()) == (body, said)
        assert budget() == 1
        audit = ["ledger", "audit", "budget.db", "--receipt", output]
        assert main(audit) == 0
        if not _places.FORMS[form].text:
            assert statement(Path(output)) == json.loads(said)

    def test_another_version_finishes_what_one_began(
        self,
        budget: Callable[[], float],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        line = ["release", "in.csv", "-o", "o.parquet", "--metadata", "side.json"]
        line += ["--json", *LEDGER, *COUNT]
        assert main(line) == 0
        first = json.loads(capsys.readouterr().out)
        body = Path("o.parquet").read_bytes()
        monkeypatch.setattr(fastdp, "__version__", "9.9")
        assert main(line) == 0
        second = json.loads(capsys.readouterr().out)
        assert (first["replayed"], second["replayed"]) == (False, True)
        assert (first["rows"], second["rows"]) == (5, None)
        assert Path("o.parquet").read_bytes() == body
        said = json.loads(Path("side.json").read_text())
        assert said["fastdp"] == first["fastdp"] != "9.9"
        # What was lost is written anew; nothing is drawn for it.
        Path("side.json").unlink()
        assert main(line) == 0
        assert json.loads(Path("side.json").read_text())["epsilon"] == "1000"
        assert budget() == 1000

    def test_a_side_file_that_cannot_be_written_charges_nothing(
        self, budget: Callable[[], float], said: Callable[[], str]
    ) -> None:
        side = ["--metadata", "none/side.json"]
        assert main(["release", "in.csv", "-o", "o.csv", *side, *LEDGER, *COUNT]) == 6
        assert "cannot write none/side.json" in said()
        assert budget() == 0


FORMULAS = ["=1+1", "+x", "-x", "@x", "\tx", "  =1", "\uff1dx", "=1,2"]
HARMLESS = ["x=1", "-5", "+1.5e3", " -2", "-", "a", "", "\u00e4=1"]


class TestFormulas:
    @pytest.mark.parametrize("delimiter", [",", "\t"])
    def test_cells_that_a_spreadsheet_would_run(
        self, tmp_path: Path, delimiter: str
    ) -> None:
        form = {",": "csv", "\t": "tsv"}[delimiter]
        cells = [*FORMULAS, *HARMLESS]
        cells.remove("-")
        rows = {"k": cells, "n": [-1] * len(cells)}
        source = write(tmp_path / "in.parquet", rows)
        for name, options in ((f"a.{form}", []), (f"b.{form}", ["--escape-formulas"])):
            assert release(source, tmp_path / name, *options, *COUNT) == 0
        assert read(tmp_path / f"a.{form}") == rows
        escaped = ["'" + cell if cell in FORMULAS else cell for cell in cells]
        assert read(tmp_path / f"b.{form}") == {**rows, "k": escaped}

    def test_numbers_stay(self, tmp_path: Path) -> None:
        rows = {"k": [-1.5, 2.0], "n": [-1, 1]}
        source, output = write(tmp_path / "in.parquet", rows), tmp_path / "out.csv"
        assert release(source, output, "--escape-formulas", *COUNT) == 0
        assert output.read_text() == "k,n\n-1.5,-1\n2,1\n"

    def test_names_of_categories(self, tmp_path: Path) -> None:
        source, reports = write(tmp_path / "in.csv"), tmp_path / "r.parquet"
        names = tmp_path / "names.txt"
        names.write_text("=a\nb\n")
        options = ["--column", "k", "--categories-file", str(names), "--epsilon", "1"]
        assert main(["collect", str(source), "-o", str(reports), *options]) == 0
        table = tmp_path / "t.csv"
        line = ["estimate", str(reports), "-o", str(table)]
        assert main([*line, "--escape-formulas"]) == 0
        assert "\n'=a," in table.read_text()

    def test_names_of_groups(self, tmp_path: Path) -> None:
        pytest.importorskip("duckdb")
        source = write(tmp_path / "in.csv", {"k": ["=1", "b"] * 50})
        keys, output = (
            write(tmp_path / "keys.csv", {"k": ["=1", "b"]}),
            tmp_path / "o.csv",
        )
        line = ["aggregate", str(source), "--rows-are", "row", "--by", "k", "--count"]
        line += ["--keys", str(keys), "--epsilon", "1000", "-o", str(output)]
        for options, first in (([], "=1"), (["--escape-formulas"], "'=1")):
            assert main([*line, *options]) == 0
            assert output.read_text() == (
                f"k,count,count_low,count_high\n{first},50,50,50\nb,50,50,50\n"
            )

    def test_where_nothing_is_run(
        self, tmp_path: Path, said: Callable[[], str]
    ) -> None:
        source = write(tmp_path / "in.csv")
        escape = "--escape-formulas"
        assert release(source, tmp_path / "out.parquet", escape, *COUNT) == 2
        assert "--escape-formulas must come with a text column" in said()
        plain = [escape, "--column", "n", *EXACT]
        assert release(source, tmp_path / "out.csv", *plain) == 2
        assert "--escape-formulas must come with a text column" in said()
        assert main(["estimate", str(source), escape]) == 2
        assert "--escape-formulas must come with" in said()
