"""``fastdp aggregate``: from records to a private table of groups.

What is released is a `fastdp.Plan`; here are the options, the files and what is said of
them.
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

    from fastdp.tables import Plan, Release

_STATISTICS = ("sum", "mean", "variance", "std")

#: Rows of a text file that are read at once.
_ROWS = 1 << 17

_DESCRIPTION = """\
Count records, and take sums, means and variances of columns, by groups, with noise.

--unit names the column of persons (or other units), all of whose records are hidden:
each keeps at most --groups groups, and --records records in each, chosen at random.
Numbers are clamped to their public bounds. Which groups occur is data: without --keys
half of the budget selects those to show, by their number of units, and a delta is
needed. A value that is missing leaves out its own statistic; a record without a group
or a unit is left out, and so is one whose group has more than 1024 bytes, without
--keys. Nothing that a cell holds stops the release or shows.
"""

_EPILOG = """\
Privacy: stated after the release, for a unit added or removed with all records, or for
a row (--rows-are). Exact noise from the operating system's randomness; the time may
depend on the data (timing class T0). Each run is a release of its own and spends its
budget again, but for --ledger: the same label gives the same answer and one charge.
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "aggregate",
        help="counts, sums, means and variances by groups, from records",
        description=_DESCRIPTION,
        epilog=_tables.EPILOG + _EPILOG,
    )
    add = parser.add_argument
    add("input", metavar="INPUT", help=_tables.INPUT_HELP)
    several: dict[str, Any] = {"metavar": "NAMES", "action": "append", "default": []}
    add("--by", **several, help="columns of the groups: NAME,NAME,...")
    add("--unit", metavar="NAME", help="column of persons, or others to be hidden")
    add("--groups", metavar="K", type=int, help="with --unit and --by: groups of each")
    add("--records", metavar="R", type=int, help="with --unit: records in each group")
    add(
        "--unit-name",
        metavar="NAME",
        help="what budgets call the unit (default: --unit)",
    )
    add(
        "--rows-are",
        metavar="NAME",
        help='instead of --unit: no NAME has two rows; "row" says nothing of persons',
    )
    add("--count", action="store_true", help="release the number of records kept")
    add("--units", action="store_true", help="release the number of units")
    for what in _STATISTICS:
        name = {"std": "standard deviation"}.get(what, what)
        add(f"--{what}", **several, help=f"columns whose {name} is released")
    add(
        "--bounds",
        metavar="NAME=LOW,HIGH",
        action="append",
        default=[],
        type=_bounds,
        help="public bounds of such a column; once for each",
    )
    add("--keys", metavar="FILE", help="table of the public groups, all to be shown")
    add("--epsilon", metavar="E", type=number, help="budget, with Laplace noise")
    add("--rho", metavar="R", type=number, help="budget, with Gaussian noise")
    add("--delta", metavar="D", type=number, help="without --keys, and then required")
    add(
        "--level",
        metavar="P",
        type=float,
        default=0.95,
        help="probability of each interval, by itself (default: %(default)s)",
    )
    add(
        "--plot",
        metavar="FILE",
        type=Path,
        help="draw the first statistic with its intervals: .png, .pdf or .svg",
    )
    add(
        "--hash",
        choices=("engine", "sha256"),
        default="engine",
        help="what chooses the records that a unit keeps: sha256 is the same on every "
        "engine, and slower (default: %(default)s)",
    )
    add("--dry-run", action="store_true", help="print cost and noise, read no record")
    add("--sql", action="store_true", help="print the group-by and read no record")
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
    **Privacy.** Stated on stderr after the release: that of `fastdp.Plan`; timing
    class T0.
    """
    _check(arguments)
    keys = None
    if arguments.keys is not None:
        keys = _places.table("--keys", arguments.keys)
    tables = _tables.Tables.of(arguments, read=[] if keys is None else [keys])
    ledgered = _ledgered.require_options(arguments, tables.output)
    _common.require_pyarrow("aggregate")
    if arguments.plot is not None:
        _common.require_plottable(arguments.plot, "aggregate", "plot")
    _require_folder(tables.output)
    words = _words(arguments)
    if keys is not None:
        with _records(keys, words["by"], (), ()) as rows:
            words["keys"] = _keys(rows)
    plan = fastdp.Plan(**words)
    accuracy = plan.accuracy(arguments.level)
    if arguments.dry_run:
        print(accuracy)
        return 0
    with contextlib.ExitStack() as stack:
        units = [] if arguments.unit is None else [arguments.unit]
        values = list(words["bounds"])
        source = stack.enter_context(_records(tables.input, plan.by, units, values))
        if arguments.sql:
            print(plan.sql(source))
            return 0
        charge: dict[str, Any] = {}
        if ledgered:
            opened = _ledgered.opened(arguments.ledger, tables.written)
            book = stack.enter_context(opened)
            charge = {"label": arguments.label, "budgets": arguments.budgets}
            charge["ledger"] = book
        found = plan.release(
            source,
            **charge,
            memory=arguments.memory,
            progress=stack.enter_context(_common.progress_of_one()),
        )
    _write(arguments, tables, found)
    return 0


def _write(
    arguments: argparse.Namespace, tables: _tables.Tables, found: Release
) -> None:
    """Write what was released, and say it."""
    table = found.table(level=arguments.level)
    facts = _statement(found.plan, arguments)
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
        from fastdp import plot

        figure = plot.intervals(found, level=arguments.level)
        _common.save_picture(figure, arguments.plot)
    tables.say(facts, None if found.replayed else table.num_rows, arguments)


def _require_folder(output: _places.Place) -> None:
    """Refuse at once what could not be written after minutes."""
    if output.path is not None and not output.path.parent.is_dir():
        raise ParameterError(f"--output must lie in an existing folder, got {output}")


# ---- records ---------------------------------------------------------------------


@contextlib.contextmanager
def _records(
    place: _places.Place, by: Sequence[str], users: Sequence[str], values: Sequence[str]
) -> Iterator[Any]:
    """Give what a plan reads: the path of a Parquet file, else a stream."""
    if place.form.kind == "parquet" and place.path is not None and place.path.is_file():
        yield place.path
        return
    wanted = [("--by", name) for name in by]
    wanted += [("--unit", name) for name in users]
    wanted += [("--bounds", name) for name in values]
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


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options that do not go together, as far as no file is needed."""
    by = _split(arguments.by)
    if (arguments.unit is None) == (arguments.rows_are is None):
        raise ParameterError(
            "exactly one of --unit and --rows-are must be given: --unit person "
            "--groups 2 --records 5 hides a person with all their records, of which so "
            "many are kept; --rows-are row hides one row"
        )
    if arguments.unit is not None and arguments.records is None:
        raise ParameterError(
            "--records must be given with --unit: at most how many records of one "
            f"{arguments.unit} are kept in a group; more records mean more noise, "
            "fewer mean that records are left out"
        )
    if arguments.unit is not None and bool(by) != (arguments.groups is not None):
        raise ParameterError(
            "--groups must be given with --unit and --by, and with both alone: in at "
            "most how many groups one unit is kept"
        )
    limits = (arguments.groups, arguments.records, arguments.unit_name)
    if arguments.unit is None and limits != (None, None, None):
        raise ParameterError("--groups, --records and --unit-name require --unit")
    if by and arguments.keys is None and arguments.delta is None:
        raise ParameterError(
            "--delta must be given for --by without --keys: which groups occur is "
            "data, and to show one takes a delta; or list the public groups with "
            "--keys FILE"
        )
    if arguments.delta is not None and (arguments.keys is not None or not by):
        raise ParameterError("--delta must be left out with --keys, and without --by")
    if arguments.keys is not None and not by:
        raise ParameterError("--keys requires --by: the groups that it lists")
    if (arguments.epsilon is None) == (arguments.rho is None):
        raise ParameterError("exactly one of --epsilon and --rho must be given")
    names = [n for what in _STATISTICS for n in _split(getattr(arguments, what))]
    if not (arguments.count or arguments.units or names):
        raise ParameterError(
            "give at least one of --count, --units, --sum, --mean, --variance, --std"
        )
    for name in names:
        if name not in dict(arguments.bounds):
            raise ParameterError(
                f"--bounds {name}=LOW,HIGH must be given: public numbers, chosen "
                "without the data"
            )
    if len(dict(arguments.bounds)) != len(arguments.bounds):
        raise ParameterError("--bounds must be given once for each column")


def _words(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of the plan, but for public groups."""
    unit: Any = fastdp.Rows(arguments.rows_are or "row")
    if arguments.unit is not None:
        unit = fastdp.Unit(
            arguments.unit,
            records=arguments.records,
            groups=arguments.groups,
            name=arguments.unit_name,
        )
    given = ("count", "units", "epsilon", "rho", "delta", "hash")
    return {
        "unit": unit,
        "by": _split(arguments.by),
        "bounds": dict(arguments.bounds),
        **{what: _split(getattr(arguments, what)) for what in _STATISTICS},
        **{name: getattr(arguments, name) for name in given},
    }


def _statement(plan: Plan, arguments: argparse.Namespace) -> _tables.Statement:
    """Say what is released, under which guarantee, and between which tables."""
    budget = {
        name: as_text(value)
        for name in ("epsilon", "rho", "delta")
        if (value := getattr(arguments, name)) is not None
    }
    bounds = {name: tuple(map(as_text, of)) for name, of in arguments.bounds}
    shown = ", ".join(f"{n} in [{low}, {high}]" for n, (low, high) in bounds.items())
    spent = ", ".join(f"{name} = {value}" for name, value in budget.items())
    law = "Gaussian" if "rho" in budget else "Laplace"
    stds = ", ".join(
        f"{row['std']:.4g} of {row['column']}"
        for row in plan.accuracy().rows()
        if row["std"] is not None
    )
    columns = ", ".join(map(repr, plan.columns))
    groups = f"{{rows}} groups of {', '.join(map(repr, plan.by))}"
    lines = {
        "mechanism": f"discrete {law} noise, exact, timing class T0: standard "
        f"deviation {stds}",
        "parameter": f"{spent}{f', {shown}' if shown else ''}",
        "guarantee": f"{_guarantee(budget)}, for this one release",
        "neighbors": _neighbors(plan, arguments),
        "released": f"{groups if plan.by else '{rows} row'}: {columns}, with low and "
        f"high ({100 * arguments.level:g} %)",
        "groups": _groups(plan, arguments),
        "left out": (
            "records without a group or a unit; a missing value, of text files also a "
            "blank cell, leaves out its own statistic alone"
        ),
    }
    facts = {
        **budget,
        "unit": plan.unit.name,
        "unit_column": arguments.unit,
        "groups_per_unit": arguments.groups,
        "records_per_group": arguments.records,
        "by": list(plan.by),
        "statistics": list(plan.columns),
        "bounds": bounds,
        "level": arguments.level,
    }
    return _tables.Statement("private table of groups", _Parts(plan), facts, lines)


def _neighbors(plan: Plan, arguments: argparse.Namespace) -> str:
    if arguments.unit is None:
        said = "tables that differ in one row: whoever has several is not hidden"
        if arguments.rows_are != "row":
            said = f"tables that differ in one row: no {arguments.rows_are!r} has two"
    else:
        most = f"at most {arguments.records} records"
        if plan.by:
            most = f"at most {arguments.groups} groups, {most} in each"
        said = f"tables that differ in all records of one {plan.unit.name!r}, of which "
        said += f"{most} are kept"
    return f"{said}; the groups of --keys are public" if arguments.keys else said


def _groups(plan: Plan, arguments: argparse.Namespace) -> str:
    if not plan.by:
        return "all records are one"
    if arguments.keys is not None:
        return "all that --keys lists, in its order"
    if (keys := plan.mechanisms().get("keys")) is None:
        half, most = (plan.accuracy().least_units(p) for p in (0.5, 0.95))
        return (
            "selected by a noisy number that is released as well: shown from "
            f"{half} on with probability 1/2, from {most} on with 0.95"
        )
    selection = written(keys)
    return f"selected by their number of units, for half of the budget: {selection}"


def _guarantee(budget: dict[str, str]) -> str:
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

    plan: Plan

    def event(self) -> Any:
        return self.plan.event()

    def to_json(self) -> str:
        parts = self.plan.mechanisms().items()
        return json.dumps({name: json.loads(m.to_json()) for name, m in parts})


def _split(names: Sequence[str]) -> list[str]:
    return [name for listed in names for name in listed.split(",")]
