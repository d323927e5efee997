"""Releases through a ledger: options and writing, for several commands."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastdp.cli import _common, _outputs, _places
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    from fastdp.cli._tables import Statement, Tables

#: Suffix of the file with the receipts of a text output.
BESIDE = ".receipts.json"

#: Suffixes of the files of an SQLite ledger: logs, and the folder of its locks.
_OWN = ("", "-wal", "-shm", "-journal", "-locks")

#: Key of the receipts in the metadata of Parquet and Arrow files.
RECEIPTS = "fastdp receipts"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options by which another command releases through a ledger."""
    add = parser.add_argument
    add("--ledger", metavar="LEDGER", help="charge this ledger, and write only once")
    add(
        "--budget",
        metavar="NAME",
        action="append",
        default=[],
        dest="budgets",
        help="budget to charge; may be given again: all or none",
    )
    add("--label", metavar="LABEL", help="name of this release: query, window, run")


def require_options(arguments: argparse.Namespace, output: _places.Place) -> bool:
    """Return whether a ledger is used; refuse an incomplete set of its options.

    Raises
    ------
    ParameterError
        --ledger, --budget and --label are not given together, or `output` is not a
        file of this machine.
    """
    given = (arguments.ledger, arguments.budgets, arguments.label)
    if any(given) and not all(given):
        raise ParameterError("--ledger, --budget and --label must be given together")
    if arguments.ledger:
        output.local("with --ledger, which puts it in place once")
    return bool(arguments.ledger)


def files(option: str, location: str | None) -> list[_places.Place]:
    """Return the files of a ledger, which only SQLite may open."""
    if location is None or re.match("postgres(ql)?://", location):
        return []
    own = os.path.realpath(location)
    return [place for end in _OWN for place in _places.file(option, own + end)]


@contextlib.contextmanager
def opened(location: str, written: Sequence[_places.Place]) -> Iterator[Any]:
    """Open a ledger; refuse to overwrite its witness, whose path it stores.

    Raises
    ------
    ParameterError
        One of `written` is the witness or its lock.
    LedgerError
        It cannot be opened.
    """
    import fastdp

    with fastdp.ledger.open(location) as book:
        witness = book.describe().get("witness")
        for end in ("", ".lock") if witness else ():
            own = _places.file("the ledger's witness", f"{witness}{end}")
            for place in written:
                _places.require_other(place, *own)
        yield book


def written_once(
    arguments: argparse.Namespace,
    tables: Tables,
    statement: Statement,
    event: Any,
    facts: Mapping[str, str | int],
    write: Callable[[Path, Mapping[str, str]], int],
) -> int | None:
    """Write the output by the ledger; return its rows, or None if it was stored before.

    `write` gets a path and the metadata for the file. The receipts of a text file are
    in a file next to it. The statement is not part of `facts`, so that another version
    of this package can finish the release.
    """
    rows = 0
    path = tables.output.local("with --ledger")
    with _note(tables, statement) as note:

        def draw(staged: Path, receipts: str) -> None:
            nonlocal rows
            rows = write(staged, {RECEIPTS: receipts})
            if note is not None:
                note.path.unlink(missing_ok=True)  # it describes another release

        with opened(arguments.ledger, tables.written) as book:
            answer = book.write(
                path,
                draw,
                event=event,
                label=arguments.label,
                budgets=arguments.budgets,
                facts=facts,
            )
        if note is not None:
            note.wanted = not (answer.replayed and note.path.exists())
    if tables.output.form.text:
        beside = path.with_name(path.name + BESIDE)
        with _outputs.AtomicOutput(beside) as temporary:
            temporary.write_text(answer.receipts_json + "\n")
    return None if answer.replayed else rows


@contextlib.contextmanager
def _note(
    tables: Tables, statement: Statement
) -> Iterator[_outputs.AtomicOutput | None]:
    """Open the statement's side file, so that a failure stops before the charge."""
    if tables.metadata is None:
        yield None
        return
    note = _outputs.AtomicOutput(tables.metadata)
    with note as temporary:
        temporary.write_text(statement.to_json(), encoding="utf-8")
        yield note


def tell_replayed(arguments: argparse.Namespace) -> None:
    """Print that nothing was drawn or spent."""
    (ledger,) = _places.file("--ledger", arguments.ledger)
    facts = {
        "label": arguments.label,
        "ledger": str(ledger),  # shows a server without its password
        "spent": "nothing: the file was released before, and is whole",
        "output": str(arguments.output),
    }
    text = _common.statement("fastdp: the release that is there", list(facts.items()))
    _common.tell("replayed", text, **facts)
