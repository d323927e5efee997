"""``fastdp aggregate``: a private table of groups from records.

It releases a `fastdp.Plan`; this module has the options, the files and the messages.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastdp
from fastdp import _spill
from fastdp.cli import (
    _check,
    _common,
    _dialects,
    _ledgered,
    _outputs,
    _places,
    _plan_file,
    _records,
    _statements,
    _tables,
    ledger,
)
from fastdp.cli._numbers import number
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    from fastdp.tables import Plan, Release

_STATISTICS = ("sum", "mean", "variance", "std", "median")

#: Options NAME=NUMBER,NUMBER: statistics, and what those of other columns need.
_NUMBERS = ("quantiles", "histogram", "bounds")

_DESCRIPTION = """\
Count records, and take sums, means, variances, quantiles and histograms of columns, by
groups, with noise.

--unit names the column of persons (or other units), all of whose records are hidden:
each keeps at most --groups groups, and --records records in each, chosen at random.
Numbers are clamped to their public bounds. Which groups occur is data: without --keys
half of the budget selects those to show, by their number of units, and a delta is
needed. A value that is missing leaves out its own statistic; a record without a group
or a unit is left out, and so is one whose group has more than 1024 bytes, without
--keys. Nothing that a cell holds stops the release or shows.
"""

_CHECK_HELP = (
    "release and charge nothing; count missing values, values beyond the bounds, and "
    "records that the limits leave out. NOT PRIVATE: for the records' owner"
)

_EPILOG = """\
Privacy: stated after the release, for a unit added or removed with all records, or for
a row (--rows-are). Exact noise from the operating system's randomness; the time may
depend on the data (timing class T0). Each run is a release of its own and spends its
budget again, except with --ledger: the same label gives the same answer and one charge.
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "aggregate",
        help="counts, sums, means and quantiles by groups, from records",
        description=_DESCRIPTION,
        epilog=_tables.EPILOG + _EPILOG,
    )
    add = parser.add_argument
    add("input", metavar="INPUT", nargs="?", help=_tables.INPUT_HELP)
    add("--plan", metavar="FILE", help="TOML that describes tables, instead of options")
    add(
        "--set",
        metavar="NAME=TEXT",
        action="append",
        default=[],
        help="what {NAME} is in the names of a plan's files, label and budgets",
    )
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
    for name, numbers, text in (
        ("quantiles", "Q,Q", "quantiles of a column, as in cost=0.25,0.75"),
        ("histogram", "EDGE,EDGE,EDGE", "records between edges, as in age=0,18,65"),
        ("bounds", "LOW,HIGH", "public bounds of a column, not for --histogram"),
    ):
        add(
            f"--{name}",
            metavar=f"NAME={numbers}",
            action="append",
            default=[],
            type=_numbers_of,
            help=f"{text}; once for each column",
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
    add(
        "--dry-run",
        action="store_true",
        help="print cost and noise, and what budgets would have left; read no record",
    )
    add("--check", action="store_true", help=_CHECK_HELP)
    add("--sql", action="store_true", help="print the group-by and read no record")
    add("--memory", metavar="SIZE", help='what may be used before it spills: "4GB"')
    _tables.add_options(parser)
    _tables.add_escape(parser)
    usual = {action.dest: action.default for action in parser._actions}
    parser.set_defaults(run=functools.partial(run, usual=usual))


def _numbers_of(text: str) -> tuple[str, tuple[Any, ...]]:
    name, equals, listed = text.rpartition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=NUMBER,NUMBER, got {text!r}")
    return name, tuple(number(part) for part in listed.split(","))


def run(arguments: argparse.Namespace, usual: Mapping[str, Any]) -> int:
    """Carry out ``fastdp aggregate`` and return the exit code.

    Parameters
    ----------
    arguments : Namespace
    usual : dict of str to object
        Defaults of the arguments.

    Raises
    ------
    FastDPError
        A parameter is refused, or a file cannot be read or written; no message
        holds data, and no output is left behind.

    Notes
    -----
    **Privacy.** The guarantee of `fastdp.Plan`, stated on stderr after the release;
    timing class T0.
    """
    left = _spill.remove_abandoned()
    if left:
        folders = f"{left} folder{'s' * (left > 1)}"
        text = f"removed {folders} that killed runs had left in TMPDIR"
        _common.tell("removed", f"fastdp: {text}", message=text)
    if arguments.plan is None:
        return _run_one(arguments)
    _plan_file.require_alone(arguments, usual)
    asked = _plan_file.read(arguments.plan, arguments.set)
    written, read = _plan_file.asked_files(asked)
    read += _places.file("--plan", arguments.plan)
    _places.require_different(written, read)
    _common.require_pyarrow("aggregate")
    plans = {name: _records.planned(table) for name, table in asked.tables.items()}
    with _plan_file.naming(Path(arguments.plan).name):
        report = fastdp.Report(plans)
    found = _found(arguments, asked, plans, report, written)
    if found is None:
        return 0
    said = []
    with _outputs.Together() as together:
        for name, table in asked.tables.items():
            tables = _tables.Tables(
                table.input, table.output, None, False, table.escape, ()
            )
            said.append((table, tables, _write(table, tables, found[name], together)))
    if next(iter(found.values())).replayed:
        ledger, label = asked.ledger, asked.label
        outputs = ", ".join(str(table.output) for table in asked.tables.values())
        told = argparse.Namespace(ledger=ledger, label=label, output=outputs)
        _ledgered.tell_replayed(told)
        return 0
    for _, tables, (facts, rows) in said:
        tables.say(facts, rows, arguments)
    cost = report.cost()
    _common.tell("total", f"fastdp: all together: {cost}", cost=cost, label=asked.label)
    return 0


def _run_one(arguments: argparse.Namespace) -> int:
    """Release the one table that the options describe."""
    _require(arguments)
    keys = None
    if arguments.keys is not None:
        keys = _places.table("--keys", arguments.keys)
        keys = keys.spoken(_dialects.of_options(arguments))
    tables = _tables.Tables.of(arguments, read=[] if keys is None else [keys])
    _common.require_pyarrow("aggregate")
    if arguments.plot is not None:
        _common.require_plottable(arguments.plot, "aggregate", "plot")
    table = _plan_file.Table(
        where="",
        words=_words(arguments),
        keys=keys,
        input=tables.input,
        output=tables.output,
        level=arguments.level,
        escape=tables.escape,
    )
    plan = _records.planned(table)
    ledger = arguments.ledger if tables.ledgered else None
    asked = _plan_file.Asked(
        {"": table}, ledger, arguments.budgets, arguments.label or None
    )
    answer = _found(arguments, asked, {"": plan}, plan, tables.written)
    if answer is None:
        return 0
    found = answer[""]
    facts, rows = _write(table, tables, found)
    if arguments.plot is not None:
        from fastdp import plot

        figure = plot.intervals(found, level=arguments.level)
        _common.save_picture(figure, arguments.plot)
    tables.say(facts, None if found.replayed else rows, arguments)
    return 0


def _found(
    arguments: argparse.Namespace,
    asked: _plan_file.Asked,
    plans: Mapping[str, Plan],
    whole: Plan | fastdp.Report,
    written: Sequence[_places.Place],
) -> Mapping[str, Release] | None:
    """Release the tables by one charge; None if only information was requested.

    `whole` is the report of all plans, or the plan of a single unnamed table.
    """
    charge: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        if asked.ledger is not None:
            opened = _ledgered.opened(asked.ledger, written)
            charge = {"label": asked.label, "budgets": asked.budgets}
            charge["ledger"] = stack.enter_context(opened)
        if arguments.dry_run:
            for name, plan in plans.items():
                text = str(plan.accuracy(asked.tables[name].level))
                print(f"[{name}]\n{text}\n" if name else text)
            if isinstance(whole, fastdp.Report):
                print(f"all together: {whole.cost()}")
            _would_be_left(whole, charge)
            return None
        sources = {
            name: stack.enter_context(_records.source(table, plans[name]))
            for name, table in asked.tables.items()
        }
        if arguments.check:
            _say_check(asked, plans, sources, arguments.memory)
            return None
        if arguments.sql:
            for name, plan in plans.items():
                text = plan.sql(sources[name])
                print(f"-- {name}\n{text}\n" if name else text)
            return None
        for table in asked.tables.values():
            _require_folder(table.output)
        charge["memory"] = arguments.memory
        charge["progress"] = stack.enter_context(_common.progress_of_one())
        if isinstance(whole, fastdp.Report):
            return whole.release(sources, **charge)
        return {"": whole.release(sources[""], **charge)}


def _say_check(
    asked: _plan_file.Asked,
    plans: Mapping[str, Plan],
    sources: Mapping[str, Any],
    memory: str | None,
) -> None:
    """Print what each plan would leave out, between two warnings: not private."""
    print(_check.WARNING)
    for name, table in asked.tables.items():
        if name:
            print(f"[{name}]")
        source = sources[name]
        rows = source if isinstance(source, Path) else source.read_all()
        found = plans[name].check(rows, memory=memory)
        print(found)
        for column, facts in found.columns.items():
            if table.input.form.text and facts["missing"] == found.records > 0:
                words = map(table.input.form.dialect.said, _dialects.WORDS)
                listed = ", ".join(sorted(words))
                print(f"no cell of {column!r} could be read: see {listed}")
    print("Nothing was released or written.")
    print(_check.WARNING)


def _would_be_left(cost: Plan | fastdp.Report, charge: Mapping[str, Any]) -> None:
    """Print the rest of the budgets after a charge; charge nothing."""
    book = charge.get("ledger")
    if book is None:
        return
    if book._is_charged(charge["label"]):
        print(f"label {charge['label']!r} is charged: it would be asked again for free")
        return
    unit = cost.unit.name
    left = book.preview(cost.event(), budgets=charge["budgets"], unit=unit)
    print(f"after this release:\n{ledger.listed(left)}")


def _write(
    table: _plan_file.Table,
    tables: _tables.Tables,
    found: Release,
    together: _outputs.Together | None = None,
) -> tuple[_tables.Statement, int]:
    """Write the released table; return its statement and its number of rows."""
    shown = found.table(level=table.level)
    facts = _statements.statement(found.plan, table)
    receipts = {}
    sides = []
    if found.receipts_json is not None:
        receipts = {_ledgered.RECEIPTS: found.receipts_json}
        if tables.output.form.text:
            beside = tables.output.beside(_ledgered.BESIDE)
            sides.append((beside, found.receipts_json + "\n"))
    with tables.outputs(facts, sides, together) as temporary:
        schema = tables.described(shown.schema.remove_metadata(), facts, receipts)
        with contextlib.closing(tables.open_sink(temporary, schema, None)) as sink:
            sink.write(shown.cast(schema))
    return facts, shown.num_rows


def _require_folder(output: _places.Place) -> None:
    """Refuse an output without a folder before the work, not after it."""
    if output.path is not None and not output.path.parent.is_dir():
        raise ParameterError(f"--output must lie in an existing folder, got {output}")


# ---- what is asked, and what is said ---------------------------------------------


def _require(arguments: argparse.Namespace) -> None:
    """Refuse options that exclude each other, as far as no file is needed."""
    if arguments.input is None:
        raise ParameterError("INPUT must be given, or --plan FILE")
    if arguments.set:
        raise ParameterError("--set requires --plan: it replaces names in that file")
    by = _split(arguments.by)
    if (arguments.unit is None) == (arguments.rows_are is None):
        raise ParameterError(
            "exactly one of --unit and --rows-are must be given: --unit "
            "person --groups 2 --records 5 hides a person with all their "
            "records, and keeps at most 5 records in each of 2 groups; "
            "--rows-are row hides one row"
        )
    if arguments.unit is not None and arguments.records is None:
        raise ParameterError(
            "--records must be given with --unit: at most how many records of one "
            f"{arguments.unit} are kept in a group; more records mean more noise, "
            "fewer mean that records are left out"
        )
    if arguments.unit is not None and bool(by) != (arguments.groups is not None):
        raise ParameterError(
            "--groups must be given if --unit and --by are both given, "
            "and only then: it limits the groups in which one unit is "
            "kept"
        )
    limits = (arguments.groups, arguments.records, arguments.unit_name)
    if arguments.unit is None and limits != (None, None, None):
        raise ParameterError("--groups, --records and --unit-name require --unit")
    if by and arguments.keys is None and arguments.delta is None:
        raise ParameterError(
            "--delta must be given for --by without --keys, because "
            "which groups occur is data; or list the public groups with "
            "--keys FILE"
        )
    if arguments.delta is not None and (arguments.keys is not None or not by):
        raise ParameterError("--delta must be left out with --keys, and without --by")
    if arguments.keys is not None and not by:
        raise ParameterError(
            "--keys requires --by: it lists the groups of these columns"
        )
    if (arguments.epsilon is None) == (arguments.rho is None):
        raise ParameterError("exactly one of --epsilon and --rho must be given")
    names = [n for what in _STATISTICS for n in _split(getattr(arguments, what))]
    names += dict(arguments.quantiles)
    if not (arguments.count or arguments.units or arguments.histogram or names):
        listed = ", ".join(f"--{what}" for what in (*_STATISTICS, *_NUMBERS[:2]))
        raise ParameterError(f"give at least one of --count, --units, {listed}")
    for name in names:
        if name not in dict(arguments.bounds):
            raise ParameterError(
                f"--bounds {name}=LOW,HIGH must be given: public numbers, chosen "
                "without the data"
            )
    for word in _NUMBERS:
        given = getattr(arguments, word)
        if len(dict(given)) != len(given):
            raise ParameterError(f"--{word} must be given once for each column")


def _words(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of the plan, except public groups."""
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
        **{word: dict(getattr(arguments, word)) for word in _NUMBERS},
        **{what: _split(getattr(arguments, what)) for what in _STATISTICS},
        **{name: getattr(arguments, name) for name in given},
    }


def _split(names: Sequence[str]) -> list[str]:
    return [name for listed in names for name in listed.split(",")]
