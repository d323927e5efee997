"""The recipe on embedded DuckDB, for files and frames larger than memory.

DuckDB's error messages may contain data, so errors only say which step failed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdp._spill import Spill
from fastdp.exceptions import (
    ExhaustedError,
    FastDPError,
    FileError,
    ParameterError,
)
from fastdp.frames import _tables
from fastdp.frames._engines import (
    Engine,
    keys_error,
    require_distinct,
    require_keys,
    with_places,
)
from fastdp.frames._recipe import DUCKDB

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds between two polls of a running query.
_LOOK = 0.1


class DuckDB(Engine):
    """A separate connection, and the table that it reads.

    Parameters
    ----------
    source : path of a Parquet file, or frame
        A stream is read once, by `run`.
    memory : str, optional
        Memory that DuckDB may use before it spills, such as "4GB".
    wanted : sequence of str, optional
        The columns to read; others of the source may have a type unknown to DuckDB.
    numbers : sequence of str, optional
        The wanted columns that are numbers.
    """

    dialect = DUCKDB

    def __init__(
        self,
        source: Any,
        memory: str | None,
        wanted: Sequence[str] | None = None,
        numbers: Sequence[str] = (),
    ) -> None:
        duckdb = _duckdb()
        self._spill = Spill()
        self._errors = (duckdb.Error,)
        self._exhausted, self._memory = duckdb.OutOfMemoryException, memory
        self._not_utf8 = (duckdb.InvalidInputException,)
        self._path: str | None = None
        self._wanted = wanted
        config = {
            "temp_directory": str(self._spill.path),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "preserve_insertion_order": "false",
        }
        try:
            self._connection = duckdb.connect(config=config)
        except BaseException:
            self._spill.cleanup()
            raise
        try:
            if memory is not None:
                self._limit(memory)
            self.table = self._named(source, wanted, numbers)
            with self._constant_messages("source"):
                rows = self._connection.execute(f"describe select * from {self.table}")
                self.types = {row[0]: str(row[1]) for row in rows.fetchall()}
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, and remove spilled files."""
        self._connection.close()
        self._spill.cleanup()

    def list_keys(self, keys: pa.Table, by: Sequence[str]) -> None:
        """Make the table of public keys with the source's types."""
        cells = ", ".join(
            f"cast(g{i} as {self._key_type(name)}) as g{i}" for i, name in enumerate(by)
        )
        run = self._connection.execute
        names = [f"g{i}" for i in range(len(by))]
        try:
            self._connection.register("given_keys", with_places(keys, names))
            run(f"create temp table keys as select {cells}, place from given_keys")
            null = " or ".join(f"{name} is null" for name in names)
            counted = run(
                f"select (select count(*) from (select distinct {', '.join(names)} "
                f"from keys)), (select count(*) from keys where {null})"
            )
            ((distinct, nulls),) = counted.fetchall()
        except self._errors:
            raise keys_error() from None
        require_keys(distinct, nulls, keys.num_rows)

    def _key_type(self, name: str) -> str:
        return "VARCHAR" if self.is_encoded(name) else self.types[name]

    def empty(self, names: Sequence[str]) -> str:
        """Make an empty table with these columns of the source; return its name."""
        # From the types alone: a query on a stream would read it.
        # A count of all records reads no column, and each table needs one.
        listed = [f"{self.dialect.quoted(name)} {self.types[name]}" for name in names]
        columns = listed or ["nothing boolean"]
        with self._constant_messages("source"):
            self._connection.execute(
                f"create temp table no_rows ({', '.join(columns)})"
            )
        return "no_rows"

    def run(
        self, sql: str, salt: str, progress: Callable[[float], object] | None
    ) -> pa.Table:
        """Run the recipe's SQL; call `progress` with the fraction done."""
        named = {"salt": salt} if "$salt" in sql else {}
        with self._constant_messages("source"):
            try:
                return self._waited(sql, named, progress)
            except self._not_utf8:
                if self._path is None:
                    raise
            # DuckDB refuses a file with text that is not UTF-8; Arrow reads it.
            self._connection.register("utf8_rows", self._file_rows(self._path))
            sql = sql.replace(self.table, "utf8_rows")
            return self._waited(sql, named, progress)

    # ---- inside ------------------------------------------------------------------

    def _limit(self, memory: str) -> None:
        try:
            self._connection.execute("set memory_limit = $limit", {"limit": memory})
        except self._errors:
            raise ParameterError(
                f'memory must be a size such as "4GB", got {memory!r}'
            ) from None

    def _named(
        self, source: Any, wanted: Sequence[str] | None, numbers: Sequence[str]
    ) -> str:
        if isinstance(source, (str, os.PathLike)):
            path = str(Path(source))
            if not path.lower().endswith((".parquet", ".pq")):
                raise ParameterError(
                    "source must be a Parquet file or a frame: read other files first, "
                    f"as by duckdb.read_csv; got {Path(source).name}"
                )
            if not Path(source).is_file():
                raise FileError(f"source {Path(source).name} is not a file")
            with self._constant_messages("source"):
                schema = _schema_of(path)
                require_distinct(schema.names)
            if _is_apart(schema, wanted):
                self._connection.register("rows", self._file_rows(path))
                return "rows"
            self._path = path
            literal = _literal(path).replace("'", "''")
            return f"read_parquet('{literal}', hive_partitioning = false)"
        _tables.check_frame("source", source)
        pa = _tables.arrow()
        if _tables.is_of(source, "pandas", "DataFrame") and wanted is not None:
            rows_alone = pa.table({"row": np.zeros(len(source), np.bool_)})
            source = (
                _tables.read("source", source, wanted, numbers)
                if wanted
                else rows_alone
            )
        with _tables.constant_messages("source"):
            if _tables.is_of(source, "pandas", "DataFrame"):
                rows: Any = pa.Table.from_pandas(source, preserve_index=False)
            elif _tables.is_of(source, "polars", "DataFrame"):
                rows = pa.table(source)
            elif isinstance(source, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
                rows = source
            else:
                rows = pa.RecordBatchReader.from_stream(source)
        require_distinct(rows.schema.names)
        rows = _tables.readable(rows, wanted)
        with self._constant_messages("source"):
            self._connection.register("rows", rows)
        return "rows"

    def _file_rows(self, path: str) -> Any:
        """Read a Parquet file by Arrow, as rows that DuckDB can read completely."""
        pa = _tables.arrow()
        from pyarrow import parquet

        file = parquet.ParquetFile(path, coerce_int96_timestamp_unit="us")
        names = self._wanted or file.schema_arrow.names
        schema = pa.schema([file.schema_arrow.field(name) for name in names])
        batches = (batch.select(list(names)) for batch in file.iter_batches())
        rows = pa.RecordBatchReader.from_batches(schema, batches)
        return _tables.readable(rows, None)

    @contextlib.contextmanager
    def _constant_messages(self, name: str) -> Iterator[None]:
        try:
            yield
        except self._exhausted:
            raise ExhaustedError(
                f"memory must be more for {name}: DuckDB used up the "
                f"{self._memory or 'memory that it took'}, or the space below TMPDIR"
            ) from None
        except self._errors as error:
            kind = type(error).__name__
            raise FileError(
                f"{name} cannot be read or aggregated by DuckDB ({kind})"
            ) from None

    def _waited(
        self,
        sql: str,
        named: dict[str, str],
        progress: Callable[[float], object] | None,
    ) -> pa.Table:
        """Run a query in another thread, so that this one can react to signals."""
        if progress is not None:
            self._connection.execute("set enable_progress_bar = true")
            self._connection.execute("set enable_progress_bar_print = false")
        with ThreadPoolExecutor(1) as pool:
            query = pool.submit(
                lambda: self._connection.sql(sql, params=named).to_arrow_table()
            )
            try:
                while not wait([query], _LOOK).done:
                    if progress is not None:
                        share = float(self._connection.query_progress()) / 100
                        progress(max(0.0, share))
            except BaseException:
                # Repeat it: a query that has not started yet ignores an interrupt.
                while not wait([query], _LOOK).done:
                    self._connection.interrupt()
                raise
            return query.result()


def _literal(path: str) -> str:
    """Escape a path so that DuckDB reads one file, not a pattern, home or URL."""
    found = re.sub(r"[\[*?]", r"[\g<0>]", path)
    return found if Path(path).is_absolute() else f"./{found}"


def _schema_of(path: str) -> pa.Schema:
    """Return names and types of a Parquet file's columns, as Arrow reads it."""
    pa = _tables.arrow()
    from pyarrow import parquet

    try:
        with Path(path).open("rb") as file:  # pyarrow might take a path for a URL
            coerced = parquet.ParquetFile(file, coerce_int96_timestamp_unit="us")
            return coerced.schema_arrow
    except (pa.ArrowException, OSError, UnicodeError):
        raise FileError(
            f"source {Path(path).name} cannot be read as a Parquet file"
        ) from None


def _is_apart(schema: pa.Schema, wanted: Sequence[str] | None) -> bool:
    """Return whether DuckDB and Arrow read a wanted column with different types.

    Arrow must then read the file from the start: otherwise the choice of the reader
    would depend on the cells (Arrow only if a text is not UTF-8).
    """
    if not set(wanted or ()) <= set(schema.names):
        return False  # refused later
    kinds = [schema.field(name).type for name in wanted or schema.names]
    durations = any(map(_tables.arrow().types.is_duration, kinds))
    return durations or any(_tables.own_type(kind) != kind for kind in kinds)


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise FastDPError(
            'fastdp.Plan.release needs DuckDB: pip install "fastdp[cli]"'
        ) from None
    return duckdb
