"""Frames of Spark, classic and Connect, through public methods only.

Spark may repeat tasks. So tasks compute only results that may be repeated, or they
write reports and one attempt is kept. Spark's error messages may contain data, so
errors only say which step failed.
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastdp.exceptions import DTypeError, FastDPError, ParameterError
from fastdp.frames import _engines, _reports, _tables, _written
from fastdp.frames._recipe import SPARK
from fastdp.mechanisms.local._base import FrequencyOracle

if TYPE_CHECKING:
    import pyarrow as pa

#: DuckDB's names of Spark's types, where they differ.
_NAMES = {"INT": "INTEGER", "STRING": "VARCHAR", "VOID": _engines.NULLS}
_NAMES |= {"TIMESTAMP_NTZ": "TIMESTAMP"}

#: Number of tasks that look for the folder before anything is charged. Each task looks
#: again before it draws.
_LOOKS = 8

_UNSEEN = (
    "path must be in a folder that this machine and all workers see under one name, a "
    "worker does not see it: write to a disk that all of them mount"
)

#: Write columns of fixed width, and commit only one attempt of each task.
_PLAIN = {
    "compression": "none",
    "parquet.enable.dictionary": "false",
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}


class Spark(_engines.Engine):
    """A DataFrame as the recipe's source, which `run` evaluates once."""

    dialect, table = SPARK, "rows"

    def __init__(self, source: Any, wanted: Sequence[str]) -> None:
        self._views: dict[str, str] = {}
        self._source = _checked("source", source, wanted)
        _engines.require_distinct(source.columns)
        self.types = {
            field.name: _NAMES.get(found, found)
            for field in source.schema
            for found in [field.dataType.simpleString().upper()]
        }

    def close(self) -> None:
        """Drop the views."""
        for view in self._views.values():
            with contextlib.suppress(Exception):  # the session may just have ended
                self._source.sparkSession.catalog.dropTempView(view)

    def list_keys(self, keys: pa.Table, by: Sequence[str]) -> None:
        """Make the table of public keys, in the types of the source."""
        schema = _arrow("source", self._source.limit(0)).schema
        text = _tables.arrow().string()
        types = [text if self.is_encoded(n) else schema.field(n).type for n in by]
        self._view("keys", constants(self._source, _engines.cast_keys(keys, by, types)))

    def empty(self, names: Sequence[str]) -> str:
        """Make an empty table with these columns of the source; return its name."""
        self._view("no_rows", self._source.select(*names).limit(0))
        return "no_rows"

    def run(
        self, sql: str, salt: str, progress: Callable[[float], object] | None
    ) -> pa.Table:
        """Run the recipe's SQL."""
        if self.table not in self._views:
            self._view(self.table, self._source)
        named = [f"{name} as (select * from {v})" for name, v in self._views.items()]
        text = f"with {', '.join(named)}, {sql.removeprefix('with ')}"
        args = {"salt": salt} if self.dialect.salt in sql else None
        with _tables.engine_messages("source", "Spark"):
            return self._source.sparkSession.sql(text, args).toArrow()

    def _view(self, name: str, frame: Any) -> None:
        self._views[name] = f"fastdp_{name}_{uuid.uuid4().hex}"
        with _tables.engine_messages("source", "Spark"):
            frame.createOrReplaceTempView(self._views[name])


def table(name: str, frame: Any, wanted: Sequence[str]) -> Any:
    """Return named columns as a table; evaluate Spark's plan once."""
    return _arrow(name, _checked(name, frame, wanted))


def constants(frame: Any, table: pa.Table) -> Any:
    """Return a table in the frame's session, with receipts on its first column."""
    held = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    make = frame.sparkSession.createDataFrame
    with _tables.engine_messages("the result", "Spark"):
        if len(table):
            found = make(table)
        else:  # Spark Connect refuses an empty table
            found = make(type(table).from_pylist([{}], table.schema)).limit(0)
        return found.withMetadata(table.column_names[0], held) if held else found


def randomize(
    frame: Any, columns: Mapping[str, FrequencyOracle], path: object, **charge: Any
) -> Any:
    """Write reports to a folder, once, and return a DataFrame that reads it."""
    place = _written.checked_path(path)
    empty = _arrow("frame", _checked("frame", frame, list(columns)).limit(0))
    drawn = _tables.signed(_reports.randomized(empty, columns))
    names = list(frame.columns)
    _engines.require_distinct(names)
    # Rename the columns: `mapInArrow` refuses some characters in names.
    named = frame.toDF(*(f"c{i}" for i in range(len(names))))
    laws = {f"c{names.index(name)}": m for name, m in columns.items()}
    reports = constants(frame, drawn.rename_columns(list(laws))).schema
    schema = type(reports)(
        [reports[f.name] if f.name in laws else f for f in named.schema]
    )

    probe = place.with_name(f".{place.name}.probe-{uuid.uuid4().hex}")
    task = functools.partial(_drawn, laws, probe)
    plan = named.mapInArrow(task, schema).toDF(*names)

    def write(staged: Path) -> None:
        with _tables.engine_messages("frame", "Spark"):
            plan.write.options(**_PLAIN).parquet(f"file://{staged}")

    book = charge["ledger"]
    stored = book is not None and book._answers(charge["label"])
    with contextlib.nullcontext() if stored else _shared(frame, probe):
        _written.write_once(place, write, columns, **charge)
    return frame.sparkSession.read.schema(plan.schema).parquet(f"file://{place}")


def tallies(frame: Any, mechanism: FrequencyOracle, column: str) -> list[bytes]:
    """Return the tallies of a column's partitions."""
    reports = _checked("source", frame, [column])
    _reports.tally(_arrow("source", reports.limit(0)), mechanism, column)
    task = functools.partial(_tally, mechanism)
    found = _arrow("source", reports.toDF("report").mapInArrow(task, "tally binary"))
    return list(found["tally"].to_pylist())


@contextlib.contextmanager
def _shared(frame: Any, probe: Path) -> Iterator[None]:
    """Keep a probe file in the folder; refuse a folder that a worker does not see."""
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
    except OSError:
        raise ParameterError("path must be in a folder that can be written") from None
    try:
        rows = frame.sparkSession.range(0, _LOOKS, 1, _LOOKS)
        found = rows.mapInArrow(functools.partial(_look, probe), "seen boolean")
        if not all(_arrow("path", found)["seen"].to_pylist()):
            raise ParameterError(_UNSEEN)
        yield
    finally:
        probe.unlink(missing_ok=True)


def _look(probe: Path, source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in source:
        seen = [probe.exists()] * batch.num_rows
        yield _tables.arrow().record_batch({"seen": seen})


def _drawn(
    laws: Any, probe: Path, source: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    if not probe.exists():  # a new worker without the folder would lose its reports
        raise FastDPError(_UNSEEN)
    for batch in source:
        yield _tables.signed(_reports.randomized(batch, laws))


def _tally(
    mechanism: FrequencyOracle, source: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    found = _reports.tallied(mechanism, "report", source)
    yield _tables.arrow().record_batch({"tally": [found]})


def _checked(name: str, frame: Any, wanted: Sequence[str]) -> Any:
    """Return columns of a DataFrame; refuse streams, and sessions that have ended."""
    try:
        frame.sparkSession.sql("select 1").collect()
    except Exception as error:  # each version of Spark has its own type
        raise FastDPError(
            f"{name} belongs to a Spark session that was stopped or does "
            f"not answer ({type(error).__name__}): create it again in a "
            "running one"
        ) from None
    with _tables.engine_messages(name, "Spark"):
        columns, endless = list(frame.columns), frame.isStreaming
    if endless or not hasattr(frame, "toArrow"):
        raise DTypeError(f"{name} must be a batch DataFrame of Spark 4 or later")
    _tables.require_columns(name, columns, wanted)
    return frame.select(*(SPARK.quoted(one) for one in wanted))


def _arrow(name: str, frame: Any) -> Any:
    with _tables.engine_messages(name, "Spark"):
        return frame.toArrow()
