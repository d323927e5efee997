"""Tables as other programs write them, and what is said of those that do not fit."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastdp.cli import main
from tests.tables import EXACT, SECRET, pa, parquet, release, write_csv, write_parquet

ipc = pytest.importorskip("pyarrow.ipc")
pc = pytest.importorskip("pyarrow.compute")

COUNT = ["--column", "n", "--keep", "k", *EXACT]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    return lambda: capsys.readouterr().err


def read(path: Path) -> dict[str, list[Any]]:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {"k": [row["k"] for row in rows], "n": [int(row["n"]) for row in rows]}


#: Types that engines write, and what is read of them.
KINDS = {
    "view": lambda: pa.string_view(),
    "bytes view": lambda: pa.binary_view(),
    "runs": lambda: pa.run_end_encoded(pa.int16(), pa.string()),
    "runs of views": lambda: pa.run_end_encoded(pa.int32(), pa.string_view()),
    "dictionary of views": lambda: pa.dictionary(pa.int8(), pa.string_view()),
}


def of_kind(name: str) -> Any:
    """Return a table whose text is of a kind, and its numbers in runs."""
    kind = KINDS[name]()
    cells = pa.array(["a", "b", None, "e" * 20] * 3)
    if pa.types.is_run_end_encoded(kind):
        runs = pc.run_end_encode(cells, run_end_type=kind.run_end_type)
        cells = pa.RunEndEncodedArray.from_arrays(
            runs.run_ends, runs.values.cast(kind.value_type)
        )
    elif pa.types.is_dictionary(kind):
        coded = cells.dictionary_encode()
        cells = pa.DictionaryArray.from_arrays(
            coded.indices.cast(kind.index_type), coded.dictionary.cast(kind.value_type)
        )
    else:
        cells = cells.cast(pa.binary() if "bytes" in name else pa.string()).cast(kind)
    return pa.table({"k": cells, "n": pc.run_end_encode(pa.array([5, None, 7, 7] * 3))})


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        *[(kind, form) for kind in KINDS for form in ("arrow", "stream")],
        ("view", "parquet"),
        ("bytes view", "parquet"),
    ],
)
def test_views_and_runs(
    tmp_path: Path, kind: str, form: str, said: Callable[[], str]
) -> None:
    table = of_kind(kind)
    source = tmp_path / f"in.{form.replace('stream', 'arrow')}"
    if form == "parquet":
        table = table.set_column(1, "n", pa.array([5, None, 7, 7] * 3))
        parquet.write_table(table, source)
    else:
        make = ipc.new_file if form == "arrow" else ipc.new_stream
        with make(source, table.schema) as writer:
            writer.write_table(table)
    output = tmp_path / "out.csv"
    assert release(source, output, *COUNT) == 0
    assert read(output)["n"] == [5, 0, 7, 7] * 3
    assert read(output)["k"] == ["a", "b", "", "e" * 20] * 3
    reports = str(tmp_path / "r.parquet")
    domain = ["--column", "k", "--categories", "a,b", "--epsilon", "1"]
    assert main(["collect", str(source), "-o", reports, *domain]) == 0
    groups = ["--by", "k", "--count", "--sum", "n", "--bounds", "n=0,9"]
    groups += ["--rows-are", "row"]
    keys = write_csv(tmp_path / "keys.csv", "k\na\nb\n")
    line = [*groups, "--keys", str(keys), "--epsilon", "1e6", "-o", reports]
    if kind != "bytes view":
        assert main(["aggregate", str(source), *line]) == 0
        assert parquet.read_table(reports)["k"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("kind", ["view", "dictionary of views", "runs"])
def test_a_file_is_read_by_its_index(tmp_path: Path, kind: str) -> None:
    # polars writes no schema before the batches.
    table, source = of_kind(kind), tmp_path / "in.arrow"
    with ipc.new_file(source, table.schema) as writer:
        for start in (0, 4, 8):
            writer.write_table(table.slice(start, 4))
    whole = bytearray(source.read_bytes())
    whole[8:24] = bytes([4, 0, 0, 0, 0xF2, 0xFF, 0xFF, 0xFF, *bytes(8)])
    source.write_bytes(whole)
    output = tmp_path / "out.csv"
    assert release(source, output, *COUNT) == 0
    assert read(output)["n"] == [5, 0, 7, 7] * 3


def test_a_view_may_hold_any_bytes(tmp_path: Path) -> None:
    cells = pa.array([b"\xff" * 20, b"12"]).cast(pa.binary_view())
    table = pa.table({"c": cells.view(pa.string_view())})
    source = tmp_path / "in.arrow"
    with ipc.new_file(source, table.schema) as writer:
        writer.write_table(table)
    domain = ["--column", "c", "--categories", "12,b", "--epsilon", "40"]
    line = ["collect", str(source), "-o", str(tmp_path / "r.parquet"), *domain]
    assert main(line) == 0


@pytest.mark.parametrize("kind", ["date64", "time64", "decimal"])
def test_a_date_a_time_or_a_decimal_may_be_any(tmp_path: Path, kind: str) -> None:
    # Arrow's own check refuses 1 ms of a day, a time beyond its day, and a decimal
    # beyond its precision: one record would stop the release.
    if kind == "decimal":
        wide = pa.array([1, 10**30], pa.decimal128(38, 0))
        cells = pa.Array.from_buffers(pa.decimal128(9, 0), 2, wide.buffers())
    else:
        times = {"date64": pa.date64(), "time64": pa.time64("us")}
        cells = pa.array([0, -1], pa.int64()).view(times[kind])
    table, source = pa.table({"k": cells}), tmp_path / "in.arrow"
    with ipc.new_file(source, table.schema) as writer:
        writer.write_table(table)
    line = ["aggregate", str(source), "--by", "k", "--count", "--epsilon", "1"]
    line += ["--rows-are", "row"]
    assert main([*line, "--delta", "1e-9", "-o", str(tmp_path / "out.csv")]) == 0


def test_indices_and_runs_that_lead_out_of_a_column(
    tmp_path: Path, said: Callable[[], str]
) -> None:
    names = pa.array(["a", "b", "a"])
    runs = pa.run_end_encoded(pa.int32(), pa.string())
    ends = [pa.array(wrong, pa.int32()) for wrong in ([9, 2, 9], [-5, 3, 9])]
    columns = [
        pa.Array.from_buffers(runs, 9, [None], children=[e, names]) for e in ends
    ]
    for wrong in (5, -3):
        indices = pa.array([0, wrong], pa.int32())
        columns.append(pa.DictionaryArray.from_arrays(indices, names, safe=False))
    line = ["--column", "c", "--categories", "a,b", "--epsilon", "1", "-o"]
    source = tmp_path / "in.arrow"
    for column in columns:
        table = pa.table({"c": column})
        with ipc.new_stream(source, table.schema) as writer:
            writer.write_table(table)
        assert main(["collect", str(source), *line, str(tmp_path / "r.parquet")]) == 6
        assert "not a valid arrow table" in said()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("form", ["csv", "csv.gz", "tsv"])
def test_a_header_without_a_line_end(tmp_path: Path, form: str, mark: bytes) -> None:
    header = mark + (b"k\tn" if form == "tsv" else b"k,n")
    source, output = tmp_path / f"in.{form}", tmp_path / "out.csv"
    source.write_bytes(gzip.compress(header) if "gz" in form else header)
    assert release(source, output, *COUNT) == 0
    assert output.read_text() == "k,n\n"


def test_a_missing_column(tmp_path: Path, said: Callable[[], str], capsys: Any) -> None:
    def refused(name: str, content: bytes) -> str:
        source = tmp_path / name
        source.write_bytes(content)
        assert release(source, tmp_path / "out.csv", *COUNT) == 2
        return said()

    table = write_parquet(tmp_path / "in.parquet", {"k": [1], "x": [2]})
    assert release(table, tmp_path / "out.csv", *COUNT) == 2
    assert "--column must be in INPUT, got 'n': it has 'k', 'x'" in said()
    wide = write_parquet(tmp_path / "w.parquet", {f"c{i}" * 30: [1] for i in range(99)})
    assert release(wide, tmp_path / "out.csv", *COUNT) == 2
    line = said()
    assert "and 79 more" in line
    assert len(line) < 1200
    assert "it has 'k', 'x'" in refused("a.csv", b"k,x\n1,2\n")
    assert "it has 'N '" in refused("b.csv", b"c,N \n1,2\n")
    # Without a header the first line is a record.
    for name, content, hint in (
        ("c.csv", f"{SECRET},2\n3,4\n", "the first line names the columns"),
        ("d.csv", f"{SECRET};2\n", "state --delimiter ';'"),
        ("e.csv", f"{SECRET}\t2\n", "state --delimiter tab"),
        ("f.tsv", f"{SECRET},2\n", "state --delimiter ','"),
    ):
        line = refused(name, content.encode())
        assert hint in line
        assert SECRET not in line
    utf16 = refused("g.csv", f"k,n\n{SECRET},1\n".encode("utf-16"))
    assert "--encoding must be utf-16 for INPUT, whose first bytes" in utf16
