"""Releases through a ledger: options and writing, for several commands."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fastdp.cli import _common, _places
from fastdp.exceptions import ParameterError

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
    if arguments.ledger and arguments.output is not None:
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
        The ledger cannot be opened.
    """
    import fastdp

    with fastdp.ledger.open(location) as book:
        witness = book.describe().get("witness")
        for end in ("", ".lock") if witness else ():
            own = _places.file("the ledger's witness", f"{witness}{end}")
            for place in written:
                _places.require_other(place, *own)
        yield book


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
