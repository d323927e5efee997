"""The interface of a ledger's database: one schema and set of statements, two engines.

A statement has `?` in place of values. All data for a decision are read within the
transaction that acts on it, as a locked row or by a primary key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from fastdp.exceptions import LedgerError, LedgerUnavailableError
from fastdp.ledger._receipts import Seen

#: Format of new ledgers, and the formats that can be read; format 1 has no counters.
FORMAT, _KNOWN = 2, (1, 2)

#: Runs one statement in the transaction and returns its rows.
Run: TypeAlias = "Callable[..., list[tuple[Any, ...]]]"

#: Runs one statement and returns its rows, to be read once.
Rows: TypeAlias = "Callable[..., Iterable[tuple[Any, ...]]]"

#: Tables by name; TEXT, INTEGER and BLOB stand for the engine's own types.
TABLES = {
    "ledger": """
        one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL,
        uuid TEXT NOT NULL, place TEXT NOT NULL, witness TEXT,
        state TEXT NOT NULL CHECK (state IN ('open', 'frozen'))""",
    "budget": """
        name TEXT PRIMARY KEY, rule TEXT NOT NULL, unit TEXT NOT NULL, block_of TEXT,
        state TEXT NOT NULL, seq INTEGER NOT NULL CHECK (seq >= 0),
        head BLOB NOT NULL CHECK (length(head) = 32),
        is_open INTEGER NOT NULL CHECK (is_open IN (0, 1))""",
    "charge": """
        label TEXT PRIMARY KEY,
        kind TEXT NOT NULL CHECK
            (kind IN ('release', 'select', 'table', 'write', 'spend', 'counter',
                'step')),
        terms TEXT NOT NULL, digest BLOB NOT NULL CHECK (length(digest) = 32)""",
    "attempt": """
        label TEXT NOT NULL REFERENCES charge (label),
        number INTEGER NOT NULL CHECK (number >= 1), PRIMARY KEY (label, number)""",
    "entry": """
        budget TEXT NOT NULL REFERENCES budget (name), seq INTEGER NOT NULL,
        what TEXT NOT NULL CHECK (what IN ('open', 'charge', 'again', 'retry',
            'store', 'adopt', 'forfeit', 'migrate', 'step', 'end')),
        label TEXT REFERENCES charge (label), detail TEXT NOT NULL,
        state TEXT NOT NULL, link BLOB NOT NULL CHECK (length(link) = 32),
        PRIMARY KEY (budget, seq)""",
    "result": """
        label TEXT PRIMARY KEY REFERENCES charge (label),
        form TEXT NOT NULL CHECK (form IN ('array', 'table', 'manifest')),
        body BLOB NOT NULL, digest BLOB NOT NULL CHECK (length(digest) = 32),
        receipts TEXT NOT NULL""",
    "step": """
        counter TEXT NOT NULL REFERENCES charge (label),
        number INTEGER NOT NULL CHECK (number >= 1),
        label TEXT NOT NULL UNIQUE REFERENCES charge (label),
        PRIMARY KEY (counter, number)""",
    "memory": """
        counter TEXT PRIMARY KEY REFERENCES charge (label),
        turn INTEGER NOT NULL, body BLOB NOT NULL""",
}

#: Tables whose rows are never changed or deleted.
WRITE_ONCE = ("charge", "attempt", "entry", "result", "step")


class Store(Protocol):
    """A database that holds one ledger."""

    #: Name of the database in messages: a path, or server and database, no password.
    where: str
    #: Suffix of a SELECT that locks the rows it reads.
    for_update: str
    #: Place of the open ledger; None before it is open.
    settled: dict[str, str] | None
    #: Last entries that the open ledger and its witness have seen.
    seen: Seen

    def create(self) -> None:
        """Make the database's tables; refuse a database that exists."""

    def open(self) -> None:
        """Check that the database exists and that its commits are durable."""

    def transaction(self) -> AbstractContextManager[Run]:
        """Return a durable transaction: it commits at the end or does nothing."""

    def reading(self) -> AbstractContextManager[Run]:
        """Return a transaction that only reads, from one snapshot."""

    def snapshot(self) -> AbstractContextManager[Rows]:
        """Return a function that reads one snapshot by many statements.

        It uses bounded memory.
        """

    def rows(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield rows of one statement in bounded memory."""

    def lock(self, label: str) -> AbstractContextManager[None]:
        """Return a lock on a label, across threads, processes and machines."""

    def require_private(self) -> None:
        """Refuse a database that anyone except its owner can read."""

    def place(self) -> dict[str, str]:
        """Return facts about the database's location; they differ for a copy."""

    def describe(self) -> dict[str, str]:
        """Return engine, version and durability, for users."""

    def check(self) -> list[str]:
        """Return the problems that the engine itself finds; empty if none."""

    def backup(self, path: str) -> None:
        """Copy the database, consistently, to a new file."""

    def close(self) -> None:
        """Close the database."""


class LostError(LedgerUnavailableError):
    """The connection was lost: its transaction may or may not have been committed."""


def schema(types: dict[str, str]) -> Iterator[str]:
    """Yield the statements that make the tables, with the engine's types."""
    for name, columns in TABLES.items():
        for general, own in types.items():
            columns = columns.replace(f" {general} ", f" {own} ")
        yield f"CREATE TABLE {name} ({columns})"
    yield "CREATE INDEX entry_by_label ON entry (label)"


def has_counters(run: Rows) -> bool:
    """Return whether the ledger has the tables of counters; format 1 does not."""
    ((found,),) = run("SELECT format FROM ledger")
    return bool(found > 1)


def read_ledger(run: Rows, where: str) -> tuple[str, dict[str, str], str | None, str]:
    """Return uuid, place, witness and state of the ledger; refuse other formats."""
    rows = list(run("SELECT format, uuid, place, witness, state FROM ledger"))
    if len(rows) != 1:
        raise LedgerError(f"{where} holds no ledger: make one by fastdp.ledger.create")
    form, uuid, place, witness, state = rows[0]
    if form not in _KNOWN:
        raise LedgerError(
            f"{where} must have format {FORMAT}, got {form!r}, which this version does "
            "not know"
        )
    return uuid, json.loads(place), witness, state


def moved(where: str) -> LedgerError:
    """Return the error for an open ledger whose database was replaced."""
    return LedgerError(
        f"{where} is not the database that was opened: it was moved, restored, or "
        "another server took over; nothing was released: `fastdp ledger adopt` makes "
        "it the ledger, then open it again"
    )
