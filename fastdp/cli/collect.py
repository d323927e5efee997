"""``fastdp collect``: privatize a column of a table as its clients would.

Every row becomes one report under local differential privacy. The domain is public
and comes from the options: apart from the number of rows, the output depends on the
data only through the reports.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp.cli import (
    _check,
    _clients,
    _common,
    _files,
    _numbers,
    _places,
    _reports,
    _tables,
)
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

#: Write reports in groups of at most this many rows, and this many bytes.
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 1 << 26

_DESCRIPTION = """\
Privatize one column of a table as its clients would: each row becomes
one report, randomized by itself (local differential privacy). fastdp estimate turns
reports into frequencies, or into a mean.

The categories are public and come from the options, never from the data. Blanks around
a cell's text do not count. A cell that is in no category (null, unreadable, anything
else) counts as --other says: as one of them, or as one drawn uniformly. No cell stops
the command or shows in what it writes: names that are spelled otherwise than the cells
("Firefox", "firefox") give reports of noise alone. --check shows them to the owner.

Numbers: --mechanism local-mean --bounds LOW,HIGH; a cell without a number counts as
LOW. Vectors: --mechanism vector-response --columns A,B,...; a cell without a number
counts as 0, and what is longer than 1 is scaled to it. Strings that nobody listed:
count-mean-sketch, prefix-hunt, rappor; a cell without text counts as the empty string.
--epsilon is that of a row's cell or vector. rappor spends it on its memo; one report of
the memo is written.
"""

_EPILOG = """\
Row i of OUTPUT is the report of row i of INPUT: number and order of rows are public.
The metadata of a Parquet or Feather file, or OUTPUT.json next to a CSV or TSV file, has
the facts that fastdp estimate needs: format version, mechanism, exact probabilities,
categories or bounds.

Privacy: each report protects one row against everybody, the collector included; a
person in several rows spends epsilon for each. Exact mechanisms on the operating
system's randomness. Reading the cells takes a time that may depend on the data (timing
class T0). Each run is a release of its own and spends its budget again, except with
--ledger: the same command twice gives the same file and one charge.
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
    columns = parser.add_mutually_exclusive_group(required=True)
    columns.add_argument("--column", metavar="NAME", help="column to privatize")
    columns.add_argument(
        "--columns",
        metavar="A,B,...",
        help="columns of a vector's entries (vector-response)",
    )
    _clients.add_options(parser)
    add("--workers", metavar="N", type=int, default=1, help="threads for the noise")
    add("--check", action="store_true", help=_check.HELP)
    _tables.add_options(parser)
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
    **Privacy.** The exact local epsilon of each report, for any two values of its row,
    stated on stderr after the release; timing class T0.
    """
    names_file = _places.file("--categories-file", arguments.categories_file)
    tables = _tables.Tables.of(arguments, side=_reports.BESIDE, read=names_file)
    clients = _clients.clients_of(arguments)
    description = clients.description
    _validate.integer("workers", arguments.workers, 1)
    text = tables.output.form.text
    _require_files(tables)
    _common.require_pyarrow("collect")
    names = [arguments.column]
    if arguments.columns is not None:
        names = list(description.names or ())
    option = "--column" if arguments.columns is None else "--columns"
    wanted = [(option, name) for name in names]
    numbers = names if clients.numeric else ()
    with _files.open_source(tables.input, wanted, numbers) as source:
        for name in names:
            kind = source.schema.field(name).type
            clients.require(name, kind, declared=source.declared)
        if arguments.check:
            print(_check.report(names, source, tables.input, clients.check))
            return 0
        collection = _Collection(clients, names, arguments.workers, text=text)
        facts = _statement(arguments, tables, clients, names)
        # The description has the names if there are several columns.
        terms = {"column": arguments.column, "reports": description.to_json()}
        sides = _sides(tables, description)
        tables.release(arguments, facts, source, collection, terms, sides)
    return 0


def _require_files(tables: _tables.Tables) -> None:
    """Refuse files that cannot hold reports."""
    output = tables.output
    if output.form.text and tables.ledgered:
        raise ParameterError(
            "--output must end in .parquet or .feather with --ledger: "
            "reports in CSV need a second file, but a ledger writes only "
            "one"
        )
    if output.form.text and output.standard:
        raise ParameterError(
            "--output must be a file for reports in CSV, because they "
            "need a second file: for standard output use --output-format "
            "parquet or feather"
        )


def _sides(
    tables: _tables.Tables, description: _reports.Description
) -> list[tuple[_places.Place, str]]:
    """Return the side files of the reports, with their text."""
    if not tables.output.form.text:
        return []
    return [(_reports.sidecar(tables.output), description.to_json() + "\n")]


class _Collection(_tables.Copier):
    """Reports of the rows of a source."""

    def __init__(
        self, clients: _clients.Clients, names: list[str], workers: int, *, text: bool
    ) -> None:
        self._clients = clients
        self._names = names
        self._workers = workers
        self._text = text
        self._waiting: list[npt.NDArray[Any]] = []
        self.schema = _reports.schema(clients.description, text=text)
        width = clients.mechanism.report_width
        self.group = max(1, min(_GROUP_ROWS, _GROUP_BYTES // width))

    def add(self, part: pa.RecordBatch, start: int, rows: int) -> None:
        del start, rows
        columns = [part.column(name) for name in self._names]
        self._waiting.append(self._clients.release(columns, self._workers))

    def flush(self, filled: int) -> pa.Table:
        del filled
        reports = np.concatenate(self._waiting)
        self._waiting.clear()
        return _reports.to_table(reports, self.schema, text=self._text)


def _statement(
    arguments: argparse.Namespace,
    tables: _tables.Tables,
    clients: _clients.Clients,
    names: list[str],
) -> _tables.Statement:
    """Return the statement of the release, its guarantee, and the covered values."""
    mechanism, kind = clients.mechanism, clients.description.kind
    cell = "cell" if len(names) == 1 else "vector"
    width = mechanism.report_width
    size = "1 byte" if width == 1 else f"{width} bytes"
    epsilon = _numbers.as_text(arguments.epsilon)
    lines = {
        "mechanism": f"{kind}, exact, timing class T0: {_numbers.written(mechanism)}",
        "parameter": f"epsilon = {epsilon}, {clients.parameter}",
        "guarantee": (
            f"{mechanism.epsilon()!r}-local differential privacy (epsilon) "
            "of each report, against everybody"
        ),
        "neighbors": (
            f"any two values of a row's {cell}, {clients.neighbors}; the number and "
            "the order of the rows are public"
        ),
        "released": f"{{rows}} reports of {', '.join(map(repr, names))}, {size} each",
        "outside": clients.outside,
    }
    beside = ""
    if tables.output.form.text:
        beside = f", described in {_reports.sidecar(tables.output)}"
    facts = {
        "epsilon": epsilon,
        **clients.facts,
        "columns": names,
        "per": "report",
    }
    return _tables.Statement("private reports", mechanism, facts, lines, beside)
