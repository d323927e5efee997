"""``fastdp aggregate``: from records to a private table of groups.

What bounds a user, sums and selects is `fastdp.frames.aggregate`; here are the options,
the files and what is said of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastdp
from fastdp.cli import _cells, _common, _files, _ledgered, _places, _tables
from fastdp.cli._numbers import as_text, number, written
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from fastdp.frames import Aggregate

#: Rows of a text file that are read at once.
_ROWS = 1 << 17

_DESCRIPTION = """\
Count records, and take means, sums and variances of columns, by groups, with noise.

Each user keeps at most K groups, and R records in each, chosen at random; numbers are
clamped to their public bounds. Which groups occur is data: without --keys half of the
budget selects those to show, by their number of users, and a delta is needed. A record
with a null or no number in a column that is named contributes nothing, not even to
the count; nor does one whose group has more than 1024 bytes, without --keys. Nothing
that a cell holds stops the release or shows.
"""

_EPILOG = """\
Privacy: stated after the release, for a user added or removed; without --user for a
row. Exact noise from the operating system's randomness; the time may depend on the
data (timing class T0). Each run is a release of its own and spends its budget again,
but for --ledger: the same label gives the same answer and one charge.
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "aggregate",
        help="counts, means, sums and variances by groups, from records",
        description=_DESCRIPTION,
        epilog=_tables.EPILOG + _EPILOG,
    )
    add = parser.add_argument
    add("input", metavar="INPUT", help=_tables.INPUT_HELP)
    several: dict[str, Any] = {"metavar": "NAMES", "action": "append", "default": []}
    add("--by", required=True, **several, help="columns of the groups: NAME,NAME,...")
    add("--count", action="store_true", help="release the number of records")
    add("--mean", **several, help="columns whose mean is released")
    add("--sum", **several, help="columns whose sum is released")
    add("--variance", **several, help="columns whose variance is released")
    add(
        "--bounds",
        metavar="NAME=LOW,HIGH",
        action="append",
        default=[],
        type=_bounds,
        help="public bounds of such a column; once for each",
    )
    add("--user", metavar="NAME", help="column of users; without it a row is one")
    add("--groups-per-user", metavar="K", type=int, help="with --user (default: 1)")
    add("--records-per-group", metavar="R", type=int, help="with --user (default: 1)")
    add("--keys", metavar="FILE", help="table of the public groups, all to be shown")
    add("--epsilon", metavar="E", type=number, help="budget, with Laplace noise")
    add("--rho", metavar="R", type=number, help="budget, with Gaussian noise")
    add("--delta", metavar="D", type=number, help="without --keys, and then required")
    add(
        "--plot",
        metavar="FILE",
        type=Path,
        help="draw the first statistic with 95 %% intervals: .png, .pdf or .svg",
    )
    add(
        "--hash",
        choices=("engine", "sha256"),
        default="engine",
        help="what chooses the records that a user keeps: sha256 is the same on every "
        "engine, and slower (default: %(default)s)",
    )
    add("--explain", action="store_true", help="print the group-by and read no record")
    add("--memory", metavar="SIZE", help='what may be used before it spills: "4GB"')
    _tables.add_options(parser)
    _tables.add_escape(parser)
    _ledgered.add_options(parser)
    parser.set_defaults(run=run)


def _bounds(text: str) -> tuple[str, tuple[Any, Any]]:
    name, equals, ends = text.rpartition("=")
    low, comma, high = ends.partition(",")
    if not name or not equals or not comma:
        raise argparse.ArgumentTypeError(f"must be NAME=LOW,HIGH, got {text!r}")
    return name, (number(low), number(high))


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``fastdp aggregate`` and return the exit code.

    Raises
    ------
    FastDPError
        A parameter is refused, or a file cannot be read or written; no message
        holds data, and no output is left behind.

    Notes
    -----
    **Privacy.** Stated on stderr after the release: that of
    `fastdp.frames.aggregate`; timing class T0.
    """
    asked = _Asked.of(arguments)
    keys = None
    if arguments.keys is not None:
        keys = _places.table("--keys", arguments.keys)
    tables = _tables.Tables.of(arguments, read=[] if keys is None else [keys])
    ledgered = _ledgered.require_options(arguments, tables.output)
    _common.require_pyarrow("aggregate")
    if arguments.plot is not None:
        _common.require_plottable(arguments.plot, "aggregate", "plot")
    _require_folder(tables.output)
    options = asked.options()
    if keys is not None:
        with _records(keys, asked.by, (), ()) as rows:
            options["keys"] = _keys(rows)
            return _run(arguments, asked, tables, options, ledgered)
    return _run(arguments, asked, tables, options, ledgered)


def _run(
    arguments: argparse.Namespace,
    asked: _Asked,
    tables: _tables.Tables,
    options: dict[str, Any],
    ledgered: bool,
) -> int:
    with contextlib.ExitStack() as stack:
        wanted = (asked.by, asked.users, asked.values)
        source = stack.enter_context(_records(tables.input, *wanted))
        if arguments.explain:
            del options["count"]
            print(fastdp.frames.explain(source, **options))
            return 0
        book = None
        if ledgered:
            opened = _ledgered.opened(arguments.ledger, tables.written)
            book = stack.enter_context(opened)
        found = fastdp.frames.aggregate(
            source,
            **options,
            ledger=book,
            label=arguments.label if ledgered else None,
            budgets=arguments.budgets if ledgered else None,
            memory_limit=arguments.memory,
            progress=stack.enter_context(_common.progress_of_one()),
        )
    _write(arguments, asked, tables, found)
    return 0


def _write(
    arguments: argparse.Namespace,
    asked: _Asked,
    tables: _tables.Tables,
    found: Aggregate,
) -> None:
    """Write what was released, and say it."""
    table = found.frame
    facts = asked.statement(found)
    receipts = {}
    sides = []
    if found.receipts_json is not None:
        receipts = {_ledgered.RECEIPTS: found.receipts_json}
        if tables.output.form.text:
            beside = tables.output.beside(_ledgered.BESIDE)
            sides.append((beside, found.receipts_json + "\n"))
    with tables.outputs(facts, sides) as temporary:
        schema = tables.described(table.schema.remove_metadata(), facts, receipts)
        with contextlib.closing(tables.open_sink(temporary, schema, None)) as sink:
            sink.write(table.cast(schema))
    if arguments.plot is not None:
        _common.save_picture(_picture(asked, found), arguments.plot)
    tables.say(facts, None if found.replayed else table.num_rows, arguments)


def _picture(asked: _Asked, found: Aggregate) -> Any:
    from fastdp import plot
    from fastdp.mechanisms._estimate import Estimate

    rest = [name for name in found.frame.column_names if name not in asked.by]
    name = next((name for name in rest if name != "count"), "count")
    columns = [found.frame[key].to_pylist() for key in asked.by]
    keys = [", ".join(map(str, row)) for row in zip(*columns, strict=True)]
    estimate = Estimate(
        found.frame[name].to_numpy(),
        found.interval(name),
        0.95,
        found.event,
        found.unit,
    )
    delta = None if asked.delta is None else float(asked.delta)
    return plot.intervals(estimate, keys, statistic=name, delta=delta)


def _require_folder(output: _places.Place) -> None:
    """Refuse at once what could not be written after minutes."""
    if output.path is not None and not output.path.parent.is_dir():
        raise ParameterError(f"--output must lie in an existing folder, got {output}")


# ---- records ---------------------------------------------------------------------


@contextlib.contextmanager
def _records(
    place: _places.Place, by: Sequence[str], users: Sequence[str], values: Sequence[str]
) -> Iterator[Any]:
    """Give what `aggregate` reads: the path of a Parquet file, else a stream."""
    if place.form.kind == "parquet" and place.path is not None and place.path.is_file():
        yield place.path
        return
    wanted = [("--by", name) for name in by]
    wanted += [("--user", name) for name in users]
    wanted += [("--mean, --sum or --variance", name) for name in values]
    with _files.open_source(place, wanted) as source:
        yield _stream(source, [*by, *users], values, text=place.form.text)


def _keys(rows: Any) -> pa.Table:
    """Return the public groups, a table of any form."""
    from pyarrow import parquet

    if isinstance(rows, Path):
        with _places.constant_messages(rows, "not a valid parquet table"):
            return parquet.read_table(rows)
    return rows.read_all()


def _stream(
    source: _files.Source, names: Sequence[str], values: Sequence[str], *, text: bool
) -> pa.RecordBatchReader:
    """Return batches; of a text file names as text, and numbers or NaN."""
    import pyarrow as pa

    if not text:
        return pa.RecordBatchReader.from_batches(source.schema, source.batches(_ROWS))
    kinds = {name: pa.large_string() for name in names}
    kinds |= dict.fromkeys(values, pa.float64())
    schema = pa.schema(kinds)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source.batches(_ROWS):
            columns = [_cells.read_names(batch.column(name)) for name in names]
            columns += [
                pa.array(_cells.read_reals(batch.column(name), float("nan")))
                for name in values
            ]
            yield pa.record_batch(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


# ---- what is asked, and what is said ---------------------------------------------


@dataclass(frozen=True)
class _Asked:
    """The public parameters, checked as far as no file is needed."""

    by: list[str]
    count: bool
    mean: list[str]
    sum: list[str]
    variance: list[str]
    bounds: dict[str, tuple[Any, Any]]
    user: str | None
    groups: int | None
    records: int | None
    epsilon: Any
    rho: Any
    delta: Any
    keys: bool
    hash: str

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> _Asked:
        """Return the parameters of the command line.

        Raises
        ------
        ParameterError
            They do not go together.
        """
        if arguments.keys is None and arguments.delta is None:
            raise ParameterError(
                "--delta must be given without --keys: which groups occur is data, and "
                "to show one takes a delta; or list the public groups with --keys FILE"
            )
        if arguments.keys is not None and arguments.delta is not None:
            raise ParameterError("--delta must be left out with --keys")
        if (arguments.epsilon is None) == (arguments.rho is None):
            raise ParameterError("exactly one of --epsilon and --rho must be given")
        mean, total = _split(arguments.mean), _split(arguments.sum)
        variance = _split(arguments.variance)
        if not (arguments.count or mean or total or variance):
            raise ParameterError(
                "give at least one of --count, --mean, --sum, --variance"
            )
        for name in (*mean, *total, *variance):
            if name not in dict(arguments.bounds):
                raise ParameterError(
                    f"--bounds {name}=LOW,HIGH must be given: public numbers, chosen "
                    "without the data"
                )
        if len(dict(arguments.bounds)) != len(arguments.bounds):
            raise ParameterError("--bounds must be given once for each column")
        limits = (arguments.groups_per_user, arguments.records_per_group)
        if arguments.user is None and limits != (None, None):
            raise ParameterError(
                "--groups-per-user and --records-per-group require --user"
            )
        return cls(
            _split(arguments.by),
            arguments.count,
            mean,
            total,
            variance,
            dict(arguments.bounds),
            arguments.user,
            *limits,
            arguments.epsilon,
            arguments.rho,
            arguments.delta,
            arguments.keys is not None,
            arguments.hash,
        )

    @property
    def users(self) -> list[str]:
        return [] if self.user is None else [self.user]

    @property
    def values(self) -> list[str]:
        return list(dict.fromkeys([*self.mean, *self.sum, *self.variance]))

    def options(self) -> dict[str, Any]:
        """Return the arguments of `aggregate`."""
        return {
            "by": self.by,
            "count": self.count,
            "mean": self.mean,
            "sum": self.sum,
            "variance": self.variance,
            "bounds": self.bounds,
            "user": self.user,
            "groups_per_user": self.groups,
            "records_per_group": self.records,
            "epsilon": self.epsilon,
            "rho": self.rho,
            "delta": self.delta,
            "hash": self.hash,
        }

    def statement(self, found: Aggregate) -> _tables.Statement:
        """Say what is released, under which guarantee, and between which tables."""
        budget = {
            name: as_text(value)
            for name in ("epsilon", "rho", "delta")
            if (value := getattr(self, name)) is not None
        }
        k, r = self.groups or 1, self.records or 1
        most = f"at most {k} groups, at most {r} records in each"
        neighbors = "tables that differ in one row: whoever has several is not hidden"
        if self.user is not None:
            neighbors = (
                f"tables that differ in all records of one {self.user!r}, of which "
                f"those of {most} are kept"
            )
        if self.keys:
            neighbors += "; the groups of --keys are public"
        statistics = [c for c in found.frame.column_names if c not in self.by]
        bounds = ", ".join(
            f"{name} in [{as_text(low)}, {as_text(high)}]"
            for name, (low, high) in self.bounds.items()
        )
        spent = ", ".join(f"{name} = {value}" for name, value in budget.items())
        law = type(found.mechanisms["noise"]).__name__
        beside = ", and of sums where bounds are -1 and 1" if self.values else ""
        lines = {
            "mechanism": f"{law}, exact noise, timing class T0: standard deviation "
            f"{found.std:.4g} of the count{beside}",
            "parameter": f"{spent}{f', {bounds}' if bounds else ''}",
            "guarantee": f"{self._guarantee(budget)}, for this one release",
            "neighbors": neighbors,
            "released": f"{{rows}} groups of {', '.join(map(repr, self.by))}: "
            + ", ".join(map(repr, statistics)),
            "groups": self._groups(found),
            "left out": (
                "records with a null, or with no number in a named column, of text "
                "files also blank cells: they contribute nothing, not even to the count"
            ),
        }
        facts = {
            **budget,
            "unit": found.unit,
            "by": self.by,
            "statistics": statistics,
            "bounds": {
                n: [as_text(e) for e in ends] for n, ends in self.bounds.items()
            },
            "user": self.user,
            **({"groups_per_user": k, "records_per_group": r} if self.user else {}),
            "shares": found.shares,
        }
        return _tables.Statement("private table of groups", _Parts(found), facts, lines)

    def _groups(self, found: Aggregate) -> str:
        if found.shares is None:
            return "all that --keys lists"
        return (
            "selected by their number of users, for half of the budget: "
            f"{written(found.mechanisms['keys'])}"
        )

    def _guarantee(self, budget: dict[str, str]) -> str:
        if "rho" in budget:
            but = f" but for delta = {budget['delta']}" if "delta" in budget else ""
            return f"{budget['rho']}-zero-concentrated differential privacy (rho){but}"
        if "delta" in budget:
            return (
                f"({budget['epsilon']}, {budget['delta']})-differential privacy "
                "(epsilon, delta)"
            )
        return f"{budget['epsilon']}-differential privacy (epsilon)"


@dataclass(frozen=True)
class _Parts:
    """The mechanisms of one table, as its statement shows them."""

    found: Aggregate

    def event(self) -> Any:
        return self.found.event

    def to_json(self) -> str:
        parts = self.found.mechanisms.items()
        return json.dumps({name: json.loads(m.to_json()) for name, m in parts})


def _split(names: Sequence[str]) -> list[str]:
    return [name for listed in names for name in listed.split(",")]
