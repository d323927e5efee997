"""From an input to an output table: the options of both, and the statement."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastdp
from fastdp.cli import _common, _files, _ledgered, _outputs, _places
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

#: Key of the statement in the metadata of Parquet and Feather files.
METADATA = "fastdp.release"

FORMAT = "fastdp release"
VERSION = 1

INPUT_HELP = "table to read: a file, a folder of Parquet files, a URI, or - for stdin"
_OUTPUT_HELP = "table to write: a file, a URI, or - for stdout; whole or not at all"

_ESCAPE = "in CSV and TSV, put ' before text that a spreadsheet would run"

_ENDS = ", ".join(f".{end}" for end in _places.FORMS)

EPILOG = f"""\
Tables are known by their names: {_ENDS}.
A URI is one that pyarrow or fsspec opens (file://, s3://, gs://, ...).
docs/tables.md says more.

"""


def add_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options of the output, of forms and of statements."""
    add = parser.add_argument
    add("-o", "--output", metavar="OUTPUT", required=required, help=_OUTPUT_HELP)
    for name in ("input", "output"):
        add(
            f"--{name}-format",
            choices=list(_places.FORMS),
            help=f"form of the {name}, where its name does not say it (- is csv)",
        )
    add(
        "--metadata",
        metavar="FILE",
        type=Path,
        help="write the statement as JSON, too; Parquet and Feather always carry it",
    )
    add("--json", action="store_true", help="print the statement as JSON, on stdout")


def add_escape(parser: argparse.ArgumentParser) -> None:
    """Add the option for cells that a spreadsheet would take for formulas."""
    parser.add_argument("--escape-formulas", action="store_true", help=_ESCAPE)


@dataclass(frozen=True)
class Statement:
    """Public statement of what is released, by which mechanism and guarantee.

    No entry depends on the number of rows or the time, so that a retry has the same.
    """

    title: str
    mechanism: Any
    facts: Mapping[str, Any]
    #: Lines for users, by name; "{rows}" stands for the number of rows.
    lines: Mapping[str, str]
    #: Text that follows the name of the output.
    beside: str = ""

    def text(self, rows: int, output: object) -> str:
        """Return the text for users after the release."""
        lines = [*self.said(rows).items(), ("output", f"{output}{self.beside}")]
        return _common.statement(f"fastdp: {self.title}", lines)

    def said(self, rows: int) -> dict[str, str]:
        """Return the lines for users, by name."""
        return {n: s.replace("{rows}", str(rows), 1) for n, s in self.lines.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the facts for programs, for the file's metadata or side file."""
        event = self.mechanism.event()
        return {
            "format": FORMAT,
            "version": VERSION,
            "fastdp": fastdp.__version__,
            **self.facts,
            "guarantee": self.lines["guarantee"],
            "neighboring_relation": event.neighboring_relation.name,
            "neighbors": self.lines["neighbors"],
            "mechanism": json.loads(self.mechanism.to_json()),
            "event": json.loads(event.to_json()),
        }

    def to_json(self) -> str:
        """Return `to_dict` as the text of a side file."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Tables:
    """The table that a command reads, and the files that it writes."""

    input: _places.Place
    output: _places.Place
    #: Side file for the statement, if any.
    metadata: Path | None
    json: bool
    escape: bool
    #: All paths that the command writes.
    written: tuple[_places.Place, ...]

    @classmethod
    def of(
        cls,
        arguments: argparse.Namespace,
        *,
        side: str = "",
        read: Sequence[_places.Place] = (),
    ) -> Tables:
        """Return the tables of a command's arguments; check all of its paths.

        Parameters
        ----------
        side : str
            What the name of a file beside a text output ends in.
        read : sequence of Place
            Other files that the command reads.

        Raises
        ------
        ParameterError
            A name or a form is refused, two paths are one file, or two options do
            not go together.
        """
        source = _places.table("INPUT", arguments.input, arguments.input_format)
        output = _places.table("--output", arguments.output, arguments.output_format)
        if arguments.json and output.standard:
            raise ParameterError(
                "--json must be left out if --output is standard output: "
                "write the statement by --metadata FILE"
            )
        note: Path | None = arguments.metadata
        written = [output, *_places.file("--metadata", note)]
        written += _places.file("--plot", getattr(arguments, "plot", None))
        if output.form.text and not output.standard:
            ends = [side, _ledgered.BESIDE if arguments.ledger else ""]
            written += [output.beside(end) for end in ends if end]
        ledger = _ledgered.files("--ledger", arguments.ledger)
        _places.require_different(written, [source, *read, *ledger])
        escape = cls._escapes(arguments, output)
        return cls(source, output, note, arguments.json, escape, tuple(written))

    @staticmethod
    def _escapes(arguments: argparse.Namespace, output: _places.Place) -> bool:
        escape = getattr(arguments, "escape_formulas", False)
        if escape and not (output.form.text and getattr(arguments, "keep", True)):
            raise ParameterError(
                "--escape-formulas must come with a text column in "
                "--keep and a CSV or TSV output: no other cell is run as "
                "a formula"
            )
        return bool(escape)

    def described(
        self, schema: pa.Schema, statement: Statement, metadata: Mapping[str, str]
    ) -> pa.Schema:
        """Return the output's schema with the statement and other metadata."""
        if self.output.form.text:
            return schema
        own = {METADATA: json.dumps(statement.to_dict(), ensure_ascii=False)}
        return _files.with_metadata(schema, {**own, **metadata})

    def open_sink(
        self, path: Path, schema: pa.Schema, codec: str | None
    ) -> _files.Sink:
        """Return the writer of the output to `path`."""
        form = self.output.form
        return _files.open_sink(form, path, schema, codec, escape=self.escape)

    @contextlib.contextmanager
    def outputs(
        self,
        statement: Statement,
        sides: Sequence[tuple[_places.Place, str]] = (),
        together: _outputs.Together | None = None,
    ) -> Iterator[Path]:
        """Give a temporary file for the table; publish it with its side files.

        `together` publishes them together with the outputs of other tables.
        """
        opened = _outputs.output if together is None else together.output
        if self.metadata is not None:
            own = _places.Place("--metadata", str(self.metadata), self.output.form)
            sides = [*sides, (own, statement.to_json())]
        with contextlib.ExitStack() as stack:
            for place, text in sides:
                note = stack.enter_context(opened(place))
                note.write_text(text, encoding="utf-8")
            with opened(self.output) as temporary:
                yield temporary
                # A table must never have an older description next to it, even if
                # the next steps fail.
                for place, _ in sides if together is None else ():
                    place.remove()

    def say(
        self, statement: Statement, rows: int | None, arguments: argparse.Namespace
    ) -> None:
        """Print the statement; `rows` is None if the release was stored before."""
        if self.json:
            facts = {**statement.to_dict(), "rows": rows, "output": str(self.output)}
            print(json.dumps({**facts, "replayed": rows is None}, indent=1))
        elif rows is None:
            _ledgered.tell_replayed(arguments)
        else:
            facts = {**statement.said(rows), "rows": rows, "output": str(self.output)}
            if arguments.label is not None:
                facts["label"] = arguments.label
            _common.tell("written", statement.text(rows, self.output), **facts)
