"""Releases through a ledger: the options and the writing that commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fastdp.cli import _common, _files
from fastdp.exceptions import ParameterError

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


def require_options(arguments: argparse.Namespace) -> bool:
    """Return whether a ledger is used; refuse a part of its options.

    Raises
    ------
    ParameterError
        --ledger, --budget and --label are not given together.
    """
    given = (arguments.ledger, arguments.budgets, arguments.label)
    if any(given) and not all(given):
        raise ParameterError("--ledger, --budget and --label must be given together")
    return bool(arguments.ledger)


def written_once(
    arguments: argparse.Namespace,
    event: Any,
    facts: Mapping[str, str | int],
    write: Callable[[Path, Mapping[str, str]], int],
) -> int | None:
    """Write the output by the ledger; return the rows, None if it was there before.

    `write` gets a path and what belongs into the file's metadata. A CSV file has its
    receipts beside it.
    """
    import fastdp

    rows = 0

    def draw(staged: Path, receipts: str) -> None:
        nonlocal rows
        rows = write(staged, {RECEIPTS: receipts})

    with fastdp.ledger.open(arguments.ledger) as book:
        answer = book.write(
            arguments.output,
            draw,
            event=event,
            label=arguments.label,
            budgets=arguments.budgets,
            facts=facts,
        )
    if arguments.output.suffix.lower() == ".csv":
        beside = arguments.output.with_name(f"{arguments.output.name}.receipts.json")
        with _files.AtomicOutput(beside) as temporary:
            temporary.write_text(answer.receipts_json + "\n")
    return None if answer.replayed else rows


def replayed(arguments: argparse.Namespace) -> str:
    """Say that nothing was drawn or spent."""
    lines = [
        ("label", arguments.label),
        ("ledger", str(arguments.ledger)),
        ("spent", "nothing: the file was released before, and is whole"),
        ("output", str(arguments.output)),
    ]
    return _common.statement("fastdp: the release that is there", lines)
