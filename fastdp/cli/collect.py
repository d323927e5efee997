"""``fastdp collect``: privatize a column of a table as its clients would.

Every row becomes one report under local differential privacy. The domain is public
and comes from the options: nothing of the output but the number of rows depends on
the data in any other way than through the reports.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import fastdp
from fastdp import _validate
from fastdp.cli import (
    _cells,
    _check,
    _common,
    _files,
    _ledgered,
    _places,
    _reports,
    _tables,
    release,
)
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

#: Reports that wait in memory for one write: at most so many, or bytes of them.
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 1 << 26

#: The best mechanism is the best for many users, whatever their number here.
_USERS = 10**6

#: Longest file of categories, in bytes.
_LONGEST = 1 << 29

_UNIFORM = "uniform"

_DESCRIPTION = """\
Privatize one column of a table as its clients would: each row becomes
one report, randomized by itself (local differential privacy). fastdp estimate turns
reports into frequencies.

The categories are public and come from the options, never from the data. Blanks around
a cell's text do not count. A cell that is in no category (null, unreadable, anything
else) counts as --other says: as one of them, or as one drawn uniformly. No cell stops
the command or shows in what it writes: names that are spelled otherwise than the cells
("Firefox", "firefox") give reports of noise alone. --check shows them to the owner.
"""

_EPILOG = """\
Row i of OUTPUT is the report of row i of INPUT: number and order of rows are public.
In a Parquet or Feather file's metadata, or in OUTPUT.json beside a CSV or TSV file,
stands what fastdp estimate needs: format version, mechanism, exact probabilities,
categories.

Privacy: each report protects one row against everybody, the collector included; a
person in several rows spends epsilon for each. Exact mechanisms on the operating
system's randomness. Reading the cells takes a time that may depend on the data (timing
class T0). Each run is a release of its own and spends its budget again,
but for --ledger: the same command twice gives the same file and one charge.
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "collect",
        help="privatize a column as its clients would, one report a row",
        description=_DESCRIPTION,
        epilog=_tables.EPILOG + _EPILOG,
    )
    add = parser.add_argument
    add("input", metavar="INPUT", help=_tables.INPUT_HELP)
    add("--column", metavar="NAME", required=True, help="column to privatize")
    domain = parser.add_mutually_exclusive_group(required=True)
    domain.add_argument(
        "--categories",
        metavar="A,B,...|N",
        help="names of the categories, or their number N for the integers 0 to N-1",
    )
    domain.add_argument(
        "--categories-file",
        metavar="FILE",
        type=Path,
        help="names of the categories, one a line, UTF-8",
    )
    add(
        "--epsilon",
        metavar="E",
        type=release.number,
        required=True,
        help="budget of each report",
    )
    add(
        "--mechanism",
        choices=[*_reports.ORACLES, "best"],
        default="best",
        help="best (the default): with the least predicted error",
    )
    add(
        "--other",
        metavar="CATEGORY|uniform",
        help="what a cell outside of the categories counts as (default: uniform)",
    )
    add("--workers", metavar="N", type=int, default=1, help="threads for the noise")
    add("--check", action="store_true", help=_check.HELP)
    _tables.add_options(parser)
    _ledgered.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``fastdp collect`` and return the exit code.

    Raises
    ------
    FastDPError
        A parameter is refused, or a file cannot be read or written; no message
        holds data, and no output is left behind.

    Notes
    -----
    **Privacy.** Stated on stderr after the release: the exact local epsilon of each
    report, for any two values of its row; timing class T0.
    """
    names, categories = _domain(arguments)
    mechanism = _mechanism(arguments, names, categories)
    description = _reports.Description(mechanism, names)
    _validate.integer("workers", arguments.workers, 1)
    tables = _tables.Tables.of(arguments)
    text = tables.output.form.text
    ledgered = _ledgered.require_options(arguments, tables.output)
    _require_files(arguments, tables, ledgered=ledgered)
    _common.require_pyarrow("collect")
    with _files.open_source(tables.input, [("--column", arguments.column)]) as source:
        kind = source.schema.field(arguments.column).type
        _cells.require_labels(arguments.column, kind, names, declared=source.declared)
        if arguments.check:
            print(_checked(arguments.column, description, source))
            return 0
        collection = _Collection(description, arguments.workers, text=text)
        facts = _statement(arguments, tables, description)

        def write(path: Path, metadata: Mapping[str, str]) -> int:
            schema = tables.described(collection.schema, facts, metadata)
            sink = tables.open_sink(path, schema, source.codec)
            with contextlib.closing(sink), _common.progress(source.rows) as advance:
                return collection.copy(source, sink, advance)

        rows: int | None
        if ledgered:
            terms = {"column": arguments.column, "reports": description.to_json()}
            rows = _ledgered.written_once(
                arguments, tables, facts, mechanism.event(), terms, write
            )
        else:
            with tables.outputs(facts, _sides(tables, description)) as temporary:
                rows = write(temporary, {})
    tables.say(facts, rows, arguments)
    return 0


def _domain(arguments: argparse.Namespace) -> tuple[tuple[str, ...] | None, int]:
    """Return the names of the categories (None: integers) and their number."""
    if arguments.categories_file is not None:
        option = "--categories-file"
        content = _files.read_text(option, arguments.categories_file, _LONGEST)
        given = content.removesuffix("\n").split("\n")
    else:
        option = "--categories"
        if arguments.categories.strip().isdecimal() and len(arguments.categories) < 20:
            return None, int(arguments.categories)
        given = arguments.categories.split(",")
    names = tuple(name.strip(" \t\r") for name in given)
    seen: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        # Not shown: the file may be the wrong one, and its lines data.
        if not name:
            raise ParameterError(f"{option} must hold no empty name, number {place} is")
        if seen.setdefault(name, place) != place:
            raise ParameterError(
                f"{option} must hold each name once, "
                f"number {place} is number {seen[name]} again"
            )
    return names, len(names)


def _mechanism(
    arguments: argparse.Namespace, names: tuple[str, ...] | None, categories: int
) -> Any:
    """Make the mechanism from the public parameters, before INPUT is opened."""
    other = _other(arguments.other, names, categories)
    epsilon = arguments.epsilon
    if arguments.mechanism == "best":
        return fastdp.best_frequency_oracle(
            epsilon, categories=categories, users=_USERS, other=other
        )
    factory = getattr(fastdp, _reports.ORACLES[arguments.mechanism].type_name)
    return factory.from_epsilon(epsilon, categories=categories, other=other)


def _other(
    option: str | None, names: tuple[str, ...] | None, categories: int
) -> int | None:
    """Return the category that `option` names, None for a uniform draw."""
    if option is None or (option == _UNIFORM and _UNIFORM not in (names or ())):
        return None
    if option == _UNIFORM:
        raise ParameterError(
            "--other uniform must be left out or be unambiguous, got a category of "
            "that name"
        )
    if names is None:
        if option.isdecimal() and len(option) < 20 and int(option) < categories:
            return int(option)
    elif option in names:
        return names.index(option)
    raise ParameterError(f"--other must be a category or uniform, got {option!r}")


def _require_files(
    arguments: argparse.Namespace, tables: _tables.Tables, *, ledgered: bool
) -> None:
    """Refuse what cannot hold reports, and to write over what is read."""
    output = tables.output
    if output.form.text and ledgered:
        raise ParameterError(
            "--output must end in .parquet or .feather with --ledger: reports in CSV "
            "need a second file, and one is written once"
        )
    if output.form.text and output.standard:
        raise ParameterError(
            "--output must be a file for reports in CSV, which need a second one: "
            "--output-format parquet or feather goes to standard output"
        )
    written = [output]
    if output.form.text:
        written.append(_reports.sidecar(output))
    read = [tables.input]
    if arguments.categories_file is not None:
        given = str(arguments.categories_file)
        read.append(_places.Place("--categories-file", given, output.form))
    for place in written:
        for other in read:
            _places.require_other(place, other)


def _sides(
    tables: _tables.Tables, description: _reports.Description
) -> list[tuple[_places.Place, str]]:
    """Return what is written beside the reports."""
    if not tables.output.form.text:
        return []
    return [(_reports.sidecar(tables.output), description.to_json() + "\n")]


def _encoded(names: tuple[str, ...] | None) -> pa.Array | None:
    """Return the names of the categories as cells are compared with them."""
    import pyarrow as pa

    if names is None:
        return None
    return pa.array([name.encode() for name in names], pa.large_binary())


def _checked(
    name: str, description: _reports.Description, source: _files.Source
) -> str:
    """Return which cells would be in no category. NOT PRIVATE."""
    column, names = _check.Remapped(name), _encoded(description.names)
    categories, other = description.mechanism.categories, _outside(description)
    for batch in source.batches(_check.ROWS):
        column.labels(batch.column(0), names, categories, other)
    return _check.report([column])


class _Collection:
    """The steps from a source to a sink, and the buffer of labels between them.

    Reports are made and written in groups of a fixed number, whatever the batches
    of the reader.
    """

    def __init__(
        self, description: _reports.Description, workers: int, *, text: bool
    ) -> None:
        self._mechanism = description.mechanism
        self._workers = workers
        self._text = text
        self.schema = _reports.schema(description, text=text)
        names = description.names
        self._names = _encoded(names)
        self._group = max(
            1, min(_GROUP_ROWS, _GROUP_BYTES // self._mechanism.report_width)
        )
        self._labels = np.empty(self._group, np.int64 if names is None else np.int32)

    def copy(
        self,
        source: _files.Source,
        sink: _files.Sink,
        advance: Callable[[int], object],
    ) -> int:
        """Write a report for every row of `source`; return their number."""
        rows = filled = 0
        for part, start in _files.grouped(source.batches(self._group), self._group):
            filled = start + part.num_rows
            self._labels[start:filled] = _cells.read_labels(part.column(0), self._names)
            if filled == self._group:
                self._flush(sink, filled)
                filled = 0
            rows += part.num_rows
            advance(part.num_rows)
        if filled:
            self._flush(sink, filled)
        return rows

    def _flush(self, sink: _files.Sink, filled: int) -> None:
        reports = self._mechanism.release(self._labels[:filled], workers=self._workers)
        sink.write(_reports.to_table(reports, self.schema, text=self._text))


def _outside(description: _reports.Description) -> str:
    """Say what cells in no category become."""
    other = description.mechanism.other
    if other is None:
        return "drawn uniformly from the categories"
    return f"counted as {description.labels()[other]!r}"


def _statement(
    arguments: argparse.Namespace,
    tables: _tables.Tables,
    description: _reports.Description,
) -> _tables.Statement:
    """Say what is released, under which guarantee, and between which values."""
    mechanism = description.mechanism
    width = mechanism.report_width
    size = "1 byte" if width == 1 else f"{width} bytes"
    epsilon = release.as_text(arguments.epsilon)
    lines = {
        "mechanism": f"{description.kind}, exact, timing class T0: {mechanism!r}",
        "parameter": f"epsilon = {epsilon}, {mechanism.categories} categories",
        "guarantee": (
            f"{mechanism.epsilon()!r}-local differential privacy (epsilon) "
            "of each report, against everybody"
        ),
        "neighbors": (
            "any two values of a row's cell, in a category or not; the number and "
            "the order of the rows are public"
        ),
        "released": f"{{rows}} reports of {arguments.column!r}, {size} each",
        "outside": f"cells in no category were {_outside(description)}",
    }
    beside = ""
    if tables.output.form.text:
        beside = f", described in {_reports.sidecar(tables.output)}"
    facts = {
        "epsilon": epsilon,
        "categories": mechanism.categories,
        "columns": [arguments.column],
        "per": "report",
    }
    return _tables.Statement("private reports", mechanism, facts, lines, beside)
