"""``fastdp release``: a private release of the columns of a table.

The table is streamed in bounded memory. For any cells, the steps are the same, no error
is raised and only noisy values are written: the output's rows, names and types are
fixed before the first cell is read.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import fastdp
from fastdp import _validate, calibration
from fastdp.cli import _cells, _check, _common, _files, _tables
from fastdp.cli._numbers import as_text, number, written
from fastdp.exceptions import FileError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

#: Write cells in groups of this many: 64 MiB of numbers.
_CELLS_PER_WRITE = 1 << 23

_DESCRIPTION = """\
Add noise to columns of a table and write them to a new table.

Only the named columns are written, with noise, and those passed with --keep, as
they are: by --keep you declare a column public. The number of rows is public too.
The sensitivity S bounds what one individual can change over all named columns
and all rows together: the sum of the absolute changes (L1) for the Laplace
mechanisms, the root of the sum of their squares (L2) for the Gaussian ones. Round
a typed root up: 1.7321 covers three counts, 1.732 does not.
It must hold for the table as it is read: integers for the discrete mechanisms,
64-bit floats for the others; nulls, empty and unreadable cells are read as 0,
integers beyond 64 bits saturate. Nothing that a cell holds stops the release.
For integers 3.0 is a number, and 1,000 or 1e3 or 2.5 is none: it is read as 0, and
no release may say so. --check does, to the owner of the table.
"""

_EPILOG = """\
Privacy: exact noise from the operating system's randomness. The time that the
command takes may depend on the data (timing class T0). The lines, separators and
quotes of a CSV or TSV file are its public structure; where the text of a cell may break
them, use Parquet. Cells of such a file of more than 1 MiB, shared among the columns
that are read, are unreadable, and empty if kept. Each run is a release of its own and
spends its budget again, except with --ledger: the same command twice gives the same
file and one charge.
"""


@dataclass(frozen=True)
class _Kind:
    """A mechanism of the command line: its constructor, and its norm."""

    factory: str
    norm: str
    integers: bool

    @property
    def gaussian(self) -> bool:
        return self.norm == "L2"


_KINDS = {
    "discrete-laplace": _Kind("DiscreteLaplace", "L1", integers=True),
    "discrete-gaussian": _Kind("DiscreteGaussian", "L2", integers=True),
    "laplace": _Kind("Laplace", "L1", integers=False),
    "gaussian": _Kind("Gaussian", "L2", integers=False),
}


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "release",
        help="release columns of a table with noise",
        description=_DESCRIPTION,
        epilog=_tables.EPILOG + _EPILOG,
    )
    add = parser.add_argument
    add("input", metavar="INPUT", help=_tables.INPUT_HELP)
    add(
        "--column",
        metavar="NAME",
        action="append",
        required=True,
        dest="columns",
        help="column to release with noise; may be given again",
    )
    add(
        "--mechanism",
        choices=sorted(_KINDS),
        required=True,
        help="the discrete ones release integers, the others 64-bit floats",
    )
    for name, text in (
        ("epsilon", "pure budget, or with --delta an approximate one"),
        ("delta", "with --epsilon, for the Gaussian mechanisms"),
        ("rho", "zero-concentrated budget, for the Gaussian mechanisms"),
    ):
        add(f"--{name}", metavar=name[0].upper(), type=number, help=text)
    add(
        "--sensitivity",
        metavar="S",
        type=number,
        required=True,
        help="bound on one individual's change over all named columns",
    )
    add(
        "--keep",
        metavar="NAME",
        action="append",
        default=[],
        help="public column to copy as it is; may be given again",
    )
    add(
        "--coordinates",
        metavar="N",
        type=int,
        help="laplace and gaussian: how many cells one individual can change "
        "(required with --granularity and for more than 2**20 cells)",
    )
    add(
        "--granularity",
        metavar="G",
        type=number,
        help="laplace and gaussian: power of two whose multiples are released",
    )
    add("--workers", metavar="N", type=int, default=1, help="threads for the noise")
    add("--check", action="store_true", help=_check.HELP)
    _tables.add_options(parser)
    _tables.add_escape(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``fastdp release`` and return the exit code.

    Raises
    ------
    FastDPError
        A parameter is refused, or a file cannot be read or written; no message
        holds data, and no output is left behind.

    Notes
    -----
    **Privacy.** Epsilon, (epsilon, delta) or rho for tables that differ in one
    individual's contribution to the named columns, stated on stderr after the release;
    exact mechanisms; timing class T0.
    """
    kind = _KINDS[arguments.mechanism]
    mechanism = _mechanism(arguments, kind)
    _validate.integer("workers", arguments.workers, 1)
    _require_distinct(arguments)
    tables = _tables.Tables.of(arguments)
    _common.require_pyarrow("release")
    columns = arguments.columns
    wanted = [("--column", name) for name in columns]
    wanted += [("--keep", name) for name in arguments.keep]
    with _files.open_source(tables.input, wanted, columns) as source:
        for name in columns:
            type_ = source.schema.field(name).type
            _cells.require_numeric(
                name, type_, integers=kind.integers, declared=source.declared
            )
        if arguments.check:
            add = functools.partial(_check.Remapped.numbers, integers=kind.integers)
            print(_check.report(columns, source, tables.input, add))
            return 0
        release = _Release(arguments, kind, mechanism, source.schema, tables)
        release.require_charged(source.rows or 0)
        facts = _statement(arguments, kind, mechanism)
        tables.release(arguments, facts, source, release, _facts(arguments))
    return 0


def _facts(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the public facts of the release that a ledger compares."""
    names = ("mechanism", "epsilon", "delta", "rho", "sensitivity", "granularity")
    given = {name: getattr(arguments, name) for name in (*names, "coordinates")}
    return {
        **{name: str(value) for name, value in given.items() if value is not None},
        "columns": json.dumps(arguments.columns),
        "keep": json.dumps(arguments.keep),
        **({"escape formulas": "true"} if arguments.escape_formulas else {}),
    }


def _mechanism(arguments: argparse.Namespace, kind: _Kind) -> Any:
    """Make the mechanism from the public parameters, before any file is opened."""
    epsilon, delta, rho = arguments.epsilon, arguments.delta, arguments.rho
    options: dict[str, Any] = {"sensitivity": arguments.sensitivity}
    if not kind.integers:
        options["coordinates"] = _coordinates(arguments)
        options["granularity"] = arguments.granularity
    elif arguments.coordinates is not None or arguments.granularity is not None:
        raise ParameterError(
            "--coordinates and --granularity must be left out with "
            f"{arguments.mechanism}"
        )
    factory = getattr(fastdp, kind.factory)
    given = tuple(value is not None for value in (epsilon, delta, rho))
    if not kind.gaussian:
        if given != (True, False, False):
            raise ParameterError(f"{arguments.mechanism} must be given --epsilon alone")
        return factory.from_epsilon(epsilon, **options)
    if given == (False, False, True):
        return factory.from_rho(rho, **options)
    if given == (True, True, False):
        return factory.from_epsilon_delta(epsilon=epsilon, delta=delta, **options)
    raise ParameterError(
        f"{arguments.mechanism} must be given --rho, or --epsilon and --delta"
    )


def _coordinates(arguments: argparse.Namespace) -> int:
    """Return the number of cells to charge for rounding; needed with a given grid."""
    if arguments.coordinates is None and arguments.granularity is not None:
        raise ParameterError(
            "--coordinates must be given with --granularity: how many "
            "cells one individual can change; rounding moves each of "
            "them by up to one step"
        )
    return calibration.grid_coordinates(
        coordinates=arguments.coordinates, granularity=None
    )


def _require_distinct(arguments: argparse.Namespace) -> None:
    names = [*arguments.columns, *arguments.keep]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"--column and --keep must differ, got {name!r} twice")


class _Release(_tables.Copier):
    """Rows of a source with noise in the named columns."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        kind: _Kind,
        mechanism: Any,
        schema: pa.Schema,
        tables: _tables.Tables,
    ) -> None:
        import pyarrow as pa

        self._columns = set(arguments.columns)
        unsaid = not kind.integers and arguments.coordinates is None
        self._most = mechanism.coordinates if unsaid else None  # maximum of cells
        self._mechanism = mechanism
        self._workers = arguments.workers
        self._read: Callable[[pa.Array], Any] = (
            _cells.read_integers if kind.integers else _cells.read_reals
        )
        dtype = np.dtype(np.int64 if kind.integers else np.float64)
        typed = not tables.output.form.text
        fields = []
        for field in schema:
            if field.name in self._columns:
                field = pa.field(field.name, pa.from_numpy_dtype(dtype), nullable=False)
            elif tables.input.form.text:
                field = pa.field(field.name, pa.string() if typed else pa.binary())
            fields.append(field)
        self.schema = pa.schema(fields)
        self.group = max(1024, _CELLS_PER_WRITE // max(8, len(fields)))
        self._noised = {name: np.empty(self.group, dtype) for name in self._columns}
        self._kept: dict[str, list[pa.Array]] = {
            name: [] for name in schema.names if name not in self._columns
        }

    def require_charged(self, rows: int) -> None:
        """Refuse more cells than are charged for rounding; their number is public."""
        if self._most is not None and rows * len(self._columns) > self._most:
            raise ParameterError(
                f"--coordinates must be given for more than {self._most} cells: how "
                "many of them one individual can change"
            )

    def add(self, part: pa.RecordBatch, start: int, rows: int) -> None:
        for name in self.schema.names:
            column = part.column(name)
            if name in self._columns:
                self._mechanism.release(
                    self._read(column),
                    out=self._noised[name][start : start + part.num_rows],
                    workers=self._workers,
                )
            else:
                self._kept[name].append(column)
        self.require_charged(rows)

    def flush(self, filled: int) -> pa.Table:
        import pyarrow as pa

        columns = []
        for field in self.schema:
            if field.name in self._columns:
                columns.append(pa.array(self._noised[field.name][:filled]))
            else:
                kept = pa.chunked_array(self._kept[field.name])
                self._kept[field.name].clear()
                columns.append(_as_declared(kept, field))
        return pa.Table.from_arrays(columns, schema=self.schema)


def _as_declared(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Convert a kept column to its declared type; cells of a CSV may not be text."""
    import pyarrow as pa
    from pyarrow import compute

    if column.type == field.type:
        return column
    try:
        # A row of wrong length has no cells: use empty text.
        return compute.fill_null(column, b"").cast(field.type)
    except pa.ArrowException:
        raise FileError(f"--keep {field.name!r} must be UTF-8 text") from None


def _statement(
    arguments: argparse.Namespace, kind: _Kind, mechanism: Any
) -> _tables.Statement:
    """State what is released, under which guarantee, and for which neighbors."""
    budget = {
        name: as_text(value)
        for name in ("epsilon", "delta", "rho")
        if (value := getattr(arguments, name)) is not None
    }
    parameters = ", ".join(f"{name} = {value}" for name, value in budget.items())
    sensitivity = as_text(arguments.sensitivity)
    if "rho" in budget:
        guarantee = f"{budget['rho']}-zero-concentrated differential privacy (rho)"
    elif "delta" in budget:
        guarantee = (
            f"({budget['epsilon']}, {budget['delta']})-differential privacy "
            "(epsilon, delta)"
        )
    else:
        guarantee = f"{budget['epsilon']}-differential privacy (epsilon)"
    cells = ""
    if not kind.integers:
        count = mechanism.coordinates
        cells = f", in at most {count} cell{'s' if count > 1 else ''}"
    lines = {
        "mechanism": f"{written(mechanism)}, exact noise, timing class T0",
        "parameter": f"{parameters}, sensitivity = {sensitivity} ({kind.norm})",
        "guarantee": f"{guarantee}, for this one release",
        "neighbors": (
            "tables that differ in one individual's contribution, which changes "
            f"the released columns by at most {sensitivity} in {kind.norm} in total"
            f"{cells}; the number of rows and the kept columns are public"
        ),
        "released": f"{{rows}} rows of {_names(arguments.columns)}",
        "kept": _kept(arguments),
        "unreadable": _unreadable(kind),
    }
    facts = {
        **budget,
        "sensitivity": sensitivity,
        "norm": kind.norm,
        "columns": arguments.columns,
        "kept": arguments.keep,
    }
    return _tables.Statement("private release", mechanism, facts, lines)


def _kept(arguments: argparse.Namespace) -> str:
    if not arguments.keep:
        return "none"
    escaped = ", with ' before what would be a formula"
    return _names(arguments.keep) + (escaped if arguments.escape_formulas else "")


def _unreadable(kind: _Kind) -> str:
    if kind.integers:
        return (
            "nulls and cells that are not integers (2.5, 1e3, '1,000') were read as 0: "
            "--check shows these to the table's owner; values that overflow saturate"
        )
    return (
        "nulls, NaN and cells that are not numbers ('1,000') were read as 0: --check "
        "shows these to the table's owner; values that overflow saturate"
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
