"""``fastdp release``: what is written and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastdp.cli import _cells, _text_files
from tests.tables import (
    EXACT,
    REAL,
    SECRET,
    pa,
    parquet,
    read_parquet,
    release,
    require_only,
    write_csv,
    write_parquet,
)

STATEMENT = ["fastdp:", "mechanism", "parameter", "guarantee", "neighbors"]
STATEMENT += ["released", "kept", "unreadable", "output"]
INT64 = np.iinfo(np.int64)


class TestCsv:
    def test_only_named_and_kept_columns_are_written(self, tmp_path: Path) -> None:
        source = write_csv(
            tmp_path / "in.csv", 'name,hidden,count\nann,9,5\n"b, c",9,-7\n'
        )
        output = tmp_path / "out.csv"
        assert (
            release(source, output, "--column", "count", "--keep", "name", *EXACT) == 0
        )
        assert output.read_text() == 'name,count\nann,5\n"b, c",-7\n'

    @pytest.mark.parametrize(
        ("cell", "value"),
        [
            ("12", 12),
            ("-12", -12),
            ("+12", 12),
            (" 12 ", 12),
            ("007", 7),
            ("3.0", 3),
            ("3.5", 0),
            ("abc", 0),
            ("", 0),
            ("1e999", 0),
            ("0x10", 0),
            ("1_000", 0),
            ("NA", 0),
            ("nan", 0),
            ("--3", 0),
            ("9223372036854775807", INT64.max),
            ("9223372036854775808", INT64.max),
            ("-9223372036854775808", INT64.min),
            ("9999999999999999999999", INT64.max),
            ("-9999999999999999999999", INT64.min),
            ("0000000000000000000000042", 42),
            ("9" * 5000, INT64.max),
            ("\u0663", 0),
        ],
    )
    def test_reading_of_integer_cells(self, cell: str, value: int) -> None:
        assert _cells.read_integers(pa.array([cell])).tolist() == [value]

    @pytest.mark.parametrize(
        ("cell", "value"),
        [
            ("1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("-1E3", -1000.0),
            (" 2 ", 2.0),
            ("abc", 0.0),
            ("", 0.0),
            ("0x10", 0.0),
            ("1_0", 0.0),
            ("nan", 0.0),
            ("1e999", np.inf),
            ("-1e999", -np.inf),
            ("1e99999999999999999999", np.inf),
            ("1e-999", 0.0),
            ("-Infinity", -np.inf),
            ("9" * 400, np.inf),
        ],
    )
    def test_reading_of_real_cells(self, cell: str, value: float) -> None:
        assert _cells.read_reals(pa.array([cell])).tolist() == [value]

    def test_a_cell_is_read_alike_whatever_the_others_hold(self) -> None:
        cells = ["1", "x", "", "2.0", "99999999999999999999", "-3", None, "0x1"] * 3
        alone = [int(_cells.read_integers(pa.array([c], "string"))[0]) for c in cells]
        assert _cells.read_integers(pa.array(cells)).tolist() == alone
        sliced = pa.array(cells).slice(3, 9)
        assert _cells.read_integers(sliced).tolist() == alone[3:12]

    def test_rows_of_wrong_length_count_as_unreadable_rows(
        self, tmp_path: Path
    ) -> None:
        text = "a,b\n1,2\n3\n\n4,5,6\n7,8\n9\n"
        source, output = write_csv(tmp_path / "in.csv", text), tmp_path / "out.csv"
        assert release(source, output, "--column", "b", "--keep", "a", *EXACT) == 0
        assert output.read_text() == "a,b\n1,2\n,0\n,0\n7,8\n,0\n"

    def test_malformed_rows_keep_their_places_across_blocks(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_text_files, "_BLOCK_BYTES", 64)
        generator = np.random.default_rng(5)
        lines, expected = ["a,b"], []
        for row in range(500):
            broken = generator.random() < 0.3
            lines.append("broken" if broken else f"{row},{row % 7}")
            expected.append(",0" if broken else f"{row},{row % 7}")
        source = write_csv(tmp_path / "in.csv", "\n".join(lines) + "\n")
        output = tmp_path / "out.csv"
        assert release(source, output, "--column", "b", "--keep", "a", *EXACT) == 0
        assert output.read_text().splitlines()[1:] == expected

    def test_empty_lines_of_a_single_column_are_rows(self, tmp_path: Path) -> None:
        source = write_csv(tmp_path / "in.csv", "n\n1\n\n3\n")
        output = tmp_path / "out.csv"
        assert release(source, output, "--column", "n", *EXACT) == 0
        assert output.read_text() == "n\n1\n0\n3\n"

    def test_quoted_line_breaks_and_bytes_survive_in_kept_cells(
        self, tmp_path: Path
    ) -> None:
        rows = b'k,n\n"x\ny",1\n\xff\xfe,2\n"a""b",3\nNULL,4\n'
        source, output = write_csv(tmp_path / "in.csv", rows), tmp_path / "out.csv"
        assert release(source, output, "--column", "n", "--keep", "k", *EXACT) == 0
        assert output.read_bytes() == rows

    def test_a_byte_order_mark_and_names_beyond_ascii(self, tmp_path: Path) -> None:
        text = '\ufeff"straße",größe,n\nü,é,1\nx,,\n'
        source, output = write_csv(tmp_path / "in.csv", text), tmp_path / "out.csv"
        names = ["--column", "n", "--keep", "straße", "--keep", "größe"]
        assert release(source, output, *names, *EXACT) == 0
        assert output.read_text() == "straße,größe,n\nü,é,1\nx,,0\n"

    def test_a_header_alone_gives_a_header(self, tmp_path: Path) -> None:
        source, output = write_csv(tmp_path / "in.csv", "a,b\n"), tmp_path / "out.csv"
        assert release(source, output, "--column", "b", *EXACT) == 0
        assert output.read_text() == "b\n"

    def test_to_parquet(self, tmp_path: Path) -> None:
        source = write_csv(tmp_path / "in.csv", "k,n\nx,1\ny,\n")
        output = tmp_path / "out.parquet"
        assert release(source, output, "--column", "n", "--keep", "k", *EXACT) == 0
        table = parquet.read_table(output)
        assert table.to_pydict() == {"k": ["x", "y"], "n": [1, 0]}
        assert table.schema.field("n") == pa.field("n", pa.int64(), nullable=False)
        assert table.schema.field("k").type == pa.string()

    def test_kept_cells_that_are_not_text_cannot_go_to_parquet(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = write_csv(tmp_path / "in.csv", b"k,n\n\xff,1\n")
        output = tmp_path / "out.parquet"
        assert release(source, output, "--column", "n", "--keep", "k", *EXACT) == 6
        assert capsys.readouterr().err == "fastdp: --keep 'k' must be UTF-8 text\n"
        require_only(tmp_path, "in.csv")


#: Text that looks like numbers, and bytes of every kind.
CELLS = st.one_of(
    st.from_regex(rb"\A[ +-]?[0-9]{0,22}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,4})?\Z"),
    st.binary(max_size=12),
)


class TestAnyCell:
    @settings(deadline=None)
    @given(st.lists(CELLS, max_size=20))
    def test_the_fast_reading_is_the_slow_one(self, cells: list[bytes]) -> None:
        column = pa.array(cells, pa.binary())
        integers = [_cells._integer(cell) for cell in cells]
        assert _cells.read_integers(column).tolist() == integers
        reals = [_cells._real(cell) for cell in cells]
        assert _cells.read_reals(column).tolist() == reals

    @pytest.mark.rest
    @settings(
        max_examples=60,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(st.lists(CELLS, min_size=1, max_size=9))
    def test_nothing_that_a_cell_holds_stops_the_release(
        self,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
        cells: list[bytes],
    ) -> None:
        # Separators, quotes and line breaks are the public structure of the file.
        cells = [cell.translate(None, b',"\r\n') for cell in cells]
        rows = [b"%d,%b\n" % row for row in enumerate(cells)]
        source = write_csv(tmp_path / "in.csv", b"".join([b"k,n\n", *rows]))
        output = tmp_path / "out.csv"
        assert release(source, output, "--column", "n", "--keep", "k", *EXACT) == 0
        expected = [f"{row},{_cells._integer(cell)}" for row, cell in enumerate(cells)]
        assert output.read_text().splitlines() == ["k,n", *expected]
        said = capfd.readouterr()
        assert said.out == ""
        assert [line.split()[0] for line in said.err.splitlines()] == STATEMENT


class TestParquet:
    def test_values_types_and_codec(self, tmp_path: Path) -> None:
        columns = {
            "k": pa.array(["x", None, "z"]),
            "n": pa.array([1, None, -3], pa.int16()),
            "hidden": [SECRET] * 3,
        }
        source = write_parquet(tmp_path / "in.parquet", columns, compression="zstd")
        output = tmp_path / "out.parquet"
        assert release(source, output, "--column", "n", "--keep", "k", *EXACT) == 0
        assert read_parquet(output) == {"k": ["x", None, "z"], "n": [1, 0, -3]}
        file = parquet.ParquetFile(output)
        assert file.schema_arrow.field("n") == pa.field("n", pa.int64(), nullable=False)
        assert file.metadata.row_group(0).column(1).compression == "ZSTD"
        assert SECRET.encode() not in output.read_bytes()

    @pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "lz4"])
    def test_every_codec_comes_out_as_it_went_in(
        self, tmp_path: Path, codec: str
    ) -> None:
        source = write_parquet(
            tmp_path / "in.parquet", {"n": [1, 2]}, compression=codec
        )
        output = tmp_path / "out.parquet"
        assert release(source, output, "--column", "n", *EXACT) == 0
        found = [
            parquet.ParquetFile(path).metadata.row_group(0).column(0).compression
            for path in (source, output)
        ]
        assert found[0] == found[1]

    def test_metadata_of_other_columns_stays_behind(self, tmp_path: Path) -> None:
        table = pa.table({"n": [1]}).replace_schema_metadata({"note": SECRET})
        source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
        parquet.write_table(table, source)
        assert SECRET.encode() in source.read_bytes()
        assert release(source, output, "--column", "n", *EXACT) == 0
        assert SECRET.encode() not in output.read_bytes()

    def test_unsigned_and_dictionary_columns(self, tmp_path: Path) -> None:
        columns = {
            "u": pa.array([2**64 - 1, None, 5], pa.uint64()),
            "d": pa.array([4, None, 4]).dictionary_encode(),
        }
        source = write_parquet(tmp_path / "in.parquet", columns)
        output = tmp_path / "out.parquet"
        names = ["--column", "u", "--column", "d"]
        assert release(source, output, *names, *EXACT) == 0
        assert read_parquet(output) == {"u": [INT64.max, 0, 5], "d": [4, 0, 4]}

    @pytest.mark.parametrize("setting", [EXACT, REAL])
    @pytest.mark.parametrize("kind", ["string", "large_string", "binary", "dictionary"])
    def test_declared_text_is_no_number(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        setting: list[str],
        kind: str,
    ) -> None:
        # Each cell was read as 0 where it was none, and nothing could say so.
        text = pa.array(["6", "1,000", None])
        column = text.dictionary_encode() if kind == "dictionary" else text.cast(kind)
        source = write_parquet(tmp_path / "in.parquet", {"n": column})
        assert release(source, tmp_path / "o.parquet", "--column", "n", *setting) == 2
        assert "(cast it to numbers first)" in capsys.readouterr().err
        require_only(tmp_path, "in.parquet")

    def test_real_columns(self, tmp_path: Path) -> None:
        values = [1.5, None, float("nan"), float("inf"), -float("inf")]
        columns = {
            "f": pa.array(values, pa.float32()),
            "i": pa.array([2**63 - 1, -(2**63), 3, None, 2**53], pa.int64()),
        }
        source = write_parquet(tmp_path / "in.parquet", columns)
        output = tmp_path / "out.parquet"
        assert release(source, output, "--column", "f", "--column", "i", *REAL) == 0
        table = parquet.read_table(output)
        assert table.schema.types == [pa.float64(), pa.float64()]
        released = {name: np.array(table[name]) for name in ("f", "i")}
        assert np.allclose(released["f"][:3], [1.5, 0, 0], atol=1e-3)
        assert np.all(np.isfinite(released["f"]))
        assert released["f"][3] > 1e300
        assert released["f"][4] < -1e300
        assert np.allclose(released["i"], [2**53, -(2**53), 3, 0, 2**53], atol=1e-3)

    def test_sliced_and_many_batches_with_other_row_groups(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("fastdp.cli.release._CELLS_PER_WRITE", 8192)
        values = np.arange(10_000) - 5000
        table = pa.table({"n": pa.array([7, *values]), "k": pa.array([0, *values])})
        source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
        parquet.write_table(table.slice(1), source, row_group_size=777)
        assert release(source, output, "--column", "n", "--keep", "k", *EXACT) == 0
        assert read_parquet(output) == {"n": values.tolist(), "k": values.tolist()}
        metadata = parquet.ParquetFile(output).metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        assert sizes == [1024] * 9 + [784]

    def test_row_groups_do_not_tell_the_lengths_of_private_cells(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("fastdp.cli.release._CELLS_PER_WRITE", 8192)
        monkeypatch.setattr(_text_files, "_BLOCK_BYTES", 4096)
        sizes = []
        for name, cell in (("short", "1"), ("long", "0" * 60 + "1")):
            source = write_csv(tmp_path / f"{name}.csv", "n,m\n" + f"{cell},1\n" * 3000)
            output = tmp_path / f"{name}.parquet"
            assert release(source, output, "--column", "n", *EXACT) == 0
            file = parquet.ParquetFile(output).metadata
            sizes.append([file.row_group(i).num_rows for i in range(3)])
        assert sizes[0] == sizes[1] == [1024, 1024, 952]

    def test_to_csv(self, tmp_path: Path) -> None:
        columns = {"k": ['a"b', None], "d": pa.array(["x", "y"]).dictionary_encode()}
        source = write_parquet(
            tmp_path / "in.parquet", columns | {"n": pa.array([1, None], pa.int64())}
        )
        output = tmp_path / "out.csv"
        keep = ["--keep", "k", "--keep", "d"]
        assert release(source, output, "--column", "n", *keep, *EXACT) == 0
        assert output.read_text() == 'k,d,n\n"a""b",x,1\n,y,0\n'

    def test_an_empty_table(self, tmp_path: Path) -> None:
        source = write_parquet(tmp_path / "in.parquet", {"n": pa.array([], "int64")})
        output = tmp_path / "out.parquet"
        assert release(source, output, "--column", "n", *EXACT) == 0
        assert read_parquet(output) == {"n": []}

    @pytest.mark.parametrize(
        ("values", "options", "rule"),
        [
            (pa.array([1.5]), EXACT, "must hold integers, got double"),
            (pa.array([True]), EXACT, "must hold integers, got bool"),
            (pa.array([True]), REAL, "must hold integers or floats, got"),
            (pa.array([[1]]), EXACT, "must hold integers, got list"),
        ],
    )
    def test_columns_of_other_types_are_refused(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        values: Any,
        options: list[str],
        rule: str,
    ) -> None:
        source = write_parquet(tmp_path / "in.parquet", {"n": values})
        assert release(source, tmp_path / "o.csv", "--column", "n", *options) == 2
        assert f"fastdp: --column 'n' {rule}" in capsys.readouterr().err
        require_only(tmp_path, "in.parquet")

    def test_kept_lists_cannot_go_to_csv(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        columns = {"n": [1], "k": [[int(SECRET)]]}
        source = write_parquet(tmp_path / "in.parquet", columns)
        output = tmp_path / "out.csv"
        assert release(source, output, "--column", "n", "--keep", "k", *EXACT) == 2
        error = capsys.readouterr().err
        assert error.startswith("fastdp: --keep 'k' cannot be written as CSV")
        assert SECRET not in error
        require_only(tmp_path, "in.parquet")
