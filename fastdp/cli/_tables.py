"""The input and the output table of a command: options and statement."""

from __future__ import annotations

import argparse
import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastdp
from fastdp.cli import _common, _dialects, _files, _ledgered, _outputs, _places
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the output, forms, dialect, statement and ledger."""
    add = parser.add_argument
    add("-o", "--output", metavar="OUTPUT", help=_OUTPUT_HELP)
    for name in ("input", "output"):
        add(
            f"--{name}-format",
            choices=list(_places.FORMS),
            help=f"form of the {name}, where its name does not say it (- is csv)",
        )
    _dialects.add_options(parser)
    add(
        "--metadata",
        metavar="FILE",
        type=Path,
        help="write the statement as JSON, too; Parquet and Feather always carry it",
    )
    add("--json", action="store_true", help="print the statement as JSON, on stdout")
    _ledgered.add_options(parser)


def add_escape(parser: argparse.ArgumentParser) -> None:
    """Add the option for cells that a spreadsheet would take for formulas."""
    parser.add_argument("--escape-formulas", action="store_true", help=_ESCAPE)


@dataclass(frozen=True)
class Statement:
    """Public statement of a release: its content, mechanism and guarantee.

    No entry depends on the number of rows or the time, so a retry has the same
    statement.
    """

    title: str
    mechanism: Any
    facts: Mapping[str, Any]
    #: Lines for users, by name; "{rows}" stands for the number of rows.
    lines: Mapping[str, str]
    #: Text that follows the name of the output.
    beside: str = ""
    #: Text that follows the line on what is released, if it has no rows.
    empty: str = ""

    def text(self, rows: int, output: object) -> str:
        """Return the text for users after the release."""
        lines = [*self.said(rows).items(), ("output", f"{output}{self.beside}")]
        return _common.statement(f"fastdp: {self.title}", lines)

    def said(self, rows: int) -> dict[str, str]:
        """Return the lines for users, by name."""
        lines = self.lines
        if rows == 0 and self.empty:
            lines = {**lines, "released": f"{lines['released']}{self.empty}"}
        return {n: s.replace("{rows}", str(rows), 1) for n, s in lines.items()}

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


class Copier(ABC):
    """Release of the rows of a source into a sink.

    Rows are written in groups of a fixed size, for any batches of the reader.
    """

    schema: pa.Schema
    #: Rows of a group.
    group: int

    @abstractmethod
    def add(self, part: pa.RecordBatch, start: int, rows: int) -> None:
        """Release rows from place `start` of the group on; `rows` is the total."""

    @abstractmethod
    def flush(self, filled: int) -> pa.Table:
        """Return the released rows of the group, which has `filled` rows."""

    def copy(
        self, source: _files.Source, sink: _files.Sink, advance: Callable[[int], object]
    ) -> int:
        """Release all rows; report progress to `advance`; return the number of rows."""
        rows = filled = 0
        for part, start in _files.grouped(source.batches(self.group), self.group):
            rows += part.num_rows
            self.add(part, start, rows)
            filled = start + part.num_rows
            if filled == self.group:
                sink.write(self.flush(filled))
                filled = 0
            advance(part.num_rows)
        if filled:
            sink.write(self.flush(filled))
        return rows


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
    ledgered: bool = False

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
            Ending of the name of a side file of a text output.
        read : sequence of Place
            Other files that the command reads.

        Raises
        ------
        ParameterError
            A name or a form is refused, two paths are the same file, or two options
            exclude each other.
        """
        dialect = _dialects.of_options(arguments)
        source = _places.table("INPUT", arguments.input, arguments.input_format)
        source = source.spoken(dialect)
        texts = [place.form.text for place in (source, *read)]
        _dialects.require_text(dialect, texts, "INPUT")
        output = cls._output(arguments)
        if arguments.json and arguments.output == _places.STANDARD:
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
        ledgered = _ledgered.require_options(arguments, output)
        escape = cls._escapes(arguments, output)
        return cls(
            source, output, note, arguments.json, escape, tuple(written), ledgered
        )

    @staticmethod
    def _output(arguments: argparse.Namespace) -> _places.Place:
        given = arguments.output
        if given is not None:
            return _places.table("--output", given, arguments.output_format)
        if any(getattr(arguments, word, False) for word in ("check", "dry_run", "sql")):
            return _places.Place("--output", _places.STANDARD, _places.FORMS["parquet"])
        raise ParameterError("--output must be given: the table to write")

    @staticmethod
    def _escapes(arguments: argparse.Namespace, output: _places.Place) -> bool:
        if arguments.output is None:
            return False
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

    def release(
        self,
        arguments: argparse.Namespace,
        statement: Statement,
        source: _files.Source,
        made: Copier,
        terms: Mapping[str, str | int],
        sides: Sequence[tuple[_places.Place, str]] = (),
    ) -> None:
        """Release the rows of `source` by `made`, through the ledger if there is one.

        `terms` are what a ledger compares if the label is used again. `sides` are files
        next to an output without a ledger, with their text.
        """

        def write(path: Path, metadata: Mapping[str, str]) -> int:
            schema = self.described(made.schema, statement, metadata)
            sink = self.open_sink(path, schema, source.codec)
            with contextlib.closing(sink), _common.progress(source.rows) as advance:
                return made.copy(source, sink, advance)

        rows: int | None
        if self.ledgered:
            rows = self._written_once(arguments, statement, terms, write)
        else:
            with self.outputs(statement, sides) as temporary:
                rows = write(temporary, {})
        self.say(statement, rows, arguments)

    def _written_once(
        self,
        arguments: argparse.Namespace,
        statement: Statement,
        terms: Mapping[str, str | int],
        write: Callable[[Path, Mapping[str, str]], int],
    ) -> int | None:
        """Write the output by the ledger; return its rows, or None if it was stored.

        The receipts of a text file are in a file next to it. The statement is not part
        of `terms`, so that another version of this package can finish the release.
        """
        rows = 0
        path = self.output.local("with --ledger")
        with self._note(statement) as note:

            def draw(staged: Path, receipts: str) -> None:
                nonlocal rows
                rows = write(staged, {_ledgered.RECEIPTS: receipts})
                if note is not None:
                    note.path.unlink(missing_ok=True)  # it describes another release

            with _ledgered.opened(arguments.ledger, self.written) as book:
                answer = book.write(
                    path,
                    draw,
                    event=statement.mechanism.event(),
                    label=arguments.label,
                    budgets=arguments.budgets,
                    facts=terms,
                )
            if note is not None:
                note.wanted = not (answer.replayed and note.path.exists())
        if self.output.form.text:
            beside = path.with_name(path.name + _ledgered.BESIDE)
            with _outputs.AtomicOutput(beside) as temporary:
                temporary.write_text(answer.receipts_json + "\n")
        return None if answer.replayed else rows

    @contextlib.contextmanager
    def _note(self, statement: Statement) -> Iterator[_outputs.AtomicOutput | None]:
        """Open the statement's side file, so that a failure stops before the charge."""
        if self.metadata is None:
            yield None
            return
        note = _outputs.AtomicOutput(self.metadata)
        with note as temporary:
            temporary.write_text(statement.to_json(), encoding="utf-8")
            yield note

    def say(
        self, statement: Statement, rows: int | None, arguments: argparse.Namespace
    ) -> None:
        """Print the statement; `rows` is None if the release was already stored."""
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
