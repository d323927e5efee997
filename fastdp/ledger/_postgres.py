"""A ledger in PostgreSQL, for many machines: psycopg 3, read committed, row locks.

Decisions read locked rows or rows by primary key, so that read committed suffices. The
lock on a label is an advisory lock of the session that also runs its transactions. If
the session dies, its lock is released; the attempt's number then prevents its draw from
being stored.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastdp.exceptions import FastDPError, LedgerError, LedgerUnavailableError
from fastdp.ledger._receipts import Seen
from fastdp.ledger._store import WRITE_ONCE, LostError, Rows, Run, moved, schema
from fastdp.ledger._terms import digest

_SCHEMA = "fastdp_ledger"

#: Server settings that make commits durable, and their allowed values.
_NEEDED = {
    "fsync": ("on",),
    "full_page_writes": ("on",),
    "synchronous_commit": ("on", "remote_apply", "remote_write"),
}

#: Errors after which to try again: deadlock, serialization, shutdown, crash.
_TRANSIENT = {"40P01", "40001", "57P01", "57P02", "57P03", "25006"}


class PostgresStore:
    """One schema of a database, with one session for each concurrent use."""

    for_update = " FOR UPDATE"

    def __init__(self, url: str, timeout: float) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError:
            raise LedgerError(
                'a ledger in PostgreSQL needs psycopg: pip install "fastdp[postgres]"'
            ) from None
        self._psycopg = psycopg
        try:
            found = conninfo_to_dict(url)
        except psycopg.Error:
            raise LedgerError(
                "location is not a URL that PostgreSQL understands"
            ) from None
        host, name = found.get("host") or "", found.get("dbname") or ""
        port = f":{found['port']}" if found.get("port") else ""
        self.where = f"postgresql://{host}{port}/{name}"
        self._url = url
        self._timeout = timeout
        self._process = os.getpid()
        self._idle: list[Any] = []
        self._guard = threading.Lock()
        self._own = threading.local()
        self.settled: dict[str, str] | None = None
        self.seen = Seen()

    # ---- the database ------------------------------------------------------------

    def create(self) -> None:
        """Make the schema, which must not exist, with the tables."""
        with self.transaction() as run:
            if run("SELECT 1 FROM pg_namespace WHERE nspname = ?", _SCHEMA):
                raise LedgerError(f"{self.where} holds a ledger already")
            run(f"CREATE SCHEMA {_SCHEMA}")
            for statement in schema({"BLOB": "BYTEA", "INTEGER": "BIGINT"}):
                run(statement)
            # With compression the time of a store would depend on the answer.
            for table in ("result", "memory"):
                run(f"ALTER TABLE {table} ALTER COLUMN body SET STORAGE EXTERNAL")
            run(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'write once'; END $$"
            )
            for table in WRITE_ONCE:
                run(
                    f"CREATE TRIGGER {table}_once BEFORE UPDATE OR DELETE OR TRUNCATE "
                    f"ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse()"
                )

    def open(self) -> None:
        """Check that commits are durable on this server and that a ledger exists."""
        with self.reading() as run:
            for name, allowed in _NEEDED.items():
                value = run("SELECT current_setting(?)", name)[0][0]
                if value not in allowed:
                    raise LedgerError(
                        f"{self.where} must have {name} = {allowed[0]}, got {value}: "
                        "a commit could be lost"
                    )
            if run("SELECT pg_is_in_recovery()")[0][0]:
                raise LedgerError(f"{self.where} is a standby: open its primary")
            if not run("SELECT 1 FROM pg_namespace WHERE nspname = ?", _SCHEMA):
                raise LedgerError(
                    f"no ledger at {self.where}: make one by fastdp.ledger.create or "
                    "`fastdp ledger init`"
                )

    def require_private(self) -> None:
        """Refuse a table on which others than its owner have any privilege."""
        with self.reading() as run:
            granted = run(
                "SELECT 1 FROM pg_class c, aclexplode(c.relacl) a "
                "WHERE c.oid = 'memory'::regclass AND a.grantee <> c.relowner "
                "UNION ALL SELECT 1 FROM pg_class c JOIN pg_attribute b "
                "ON b.attrelid = c.oid, aclexplode(b.attacl) a "
                "WHERE c.oid = 'memory'::regclass AND a.grantee <> c.relowner"
            )
        if granted:
            raise LedgerError(
                f"the table {_SCHEMA}.memory of {self.where} must be readable by its "
                "owner alone, for it is to hold a counter's exact sums: REVOKE ALL on "
                "it from the other roles"
            )

    def place(self) -> dict[str, str]:
        """Return cluster, timeline and database, and the folder if it may be read.

        A standby that was promoted has another timeline than its primary had.
        """
        with self.reading() as run:
            return _place(run)

    def describe(self) -> dict[str, str]:
        """Return engine, version and settings."""
        with self.reading() as run:
            version = run("SELECT current_setting('server_version')")[0][0]
            commit = run("SELECT current_setting('synchronous_commit')")[0][0]
        return {
            "engine": f"PostgreSQL {version}",
            "durability": f"write-ahead log, synchronous_commit={commit}",
        }

    # ---- transactions --------------------------------------------------------------

    @contextlib.contextmanager
    def _session(self) -> Iterator[Any]:
        """Lend a session; keep it for reuse unless something failed."""
        if os.getpid() != self._process:
            raise LedgerError(
                f"the ledger {self.where} must be opened again in a forked process"
            )
        held = getattr(self._own, "session", None)
        if held is not None:  # this thread's session, which holds a label's lock
            yield held
            return
        with self._guard:
            lent = self._idle.pop() if self._idle else None
        if lent is not None and lent.closed:
            lent = None
        with self._errors():
            lent = lent or self._connect()
        try:
            yield lent
        except BaseException:
            with contextlib.suppress(Exception):
                lent.close()
            raise
        with self._guard:
            self._idle.append(lent)

    def _connect(self) -> Any:
        made = self._psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=max(2, int(self._timeout)),
            application_name="fastdp ledger",
        )
        made.execute(f"SET search_path = {_SCHEMA}")
        made.execute(f"SET lock_timeout = {int(self._timeout * 1000)}")
        if self.settled is not None:
            try:
                run = _runner(made)
                # A session survives the promotion of a standby, which then is another
                # place: refuse standbys.
                if run("SELECT pg_is_in_recovery()")[0][0]:
                    raise LostError(
                        f"{self.where} is a standby now; nothing was released: open "
                        "its primary"
                    )
                if _place(run) != self.settled:
                    raise moved(self.where)
            except BaseException:
                made.close()
                raise
        return made

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Run]:
        """Return a transaction that is durable when the block has ended."""
        with self._errors(), self._session() as session:
            session.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            try:
                yield _runner(session)
                session.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(Exception):
                    session.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[Run]:
        """Return a snapshot."""
        with self._errors(), self._session() as session:
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                yield _runner(session)
            finally:
                with contextlib.suppress(Exception):
                    session.execute("ROLLBACK")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Rows]:
        """Return a function that reads from one snapshot, by server-side cursors."""
        with self._errors(), self._session() as session:
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            numbers = itertools.count()

            def rows(statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
                with session.cursor(name=f"fastdp_{next(numbers)}") as cursor:
                    cursor.itersize = 1000
                    cursor.execute(statement.replace("?", "%s"), values)
                    yield from cursor

            try:
                yield rows
            finally:
                with contextlib.suppress(Exception):
                    session.execute("ROLLBACK")

    def rows(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield rows in bounded memory."""
        with self.snapshot() as rows:
            yield from rows(statement, *values)

    @contextlib.contextmanager
    def lock(self, label: str) -> Iterator[None]:
        """Hold an advisory lock of a session, which this thread then uses."""
        key = int.from_bytes(digest(b"label", label.encode())[:8], "big", signed=True)
        with self._session() as session:
            with self._errors():
                session.execute("SELECT pg_advisory_lock(%s)", (key,))
            self._own.session = session
            try:
                yield
            finally:
                self._own.session = None
                with self._errors():
                    if not session.closed:
                        session.execute("SELECT pg_advisory_unlock(%s)", (key,))

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Hide the text of the server's errors, which may hold data."""
        try:
            yield
        except self._psycopg.Error as error:
            state = error.sqlstate
            if state == "55P03":
                raise LedgerUnavailableError(
                    f"the ledger {self.where} has been locked for more than "
                    f"{self._timeout:g} s; nothing was released"
                ) from None
            lost = state is None or state in _TRANSIENT or state[:2] == "08"
            kind = LostError if lost else LedgerError
            raise kind(
                f"the ledger {self.where} cannot be used: PostgreSQL says "
                f"{state or 'that the connection is lost'}; what was not answered may "
                "have been charged, and nothing was shown: ask by the same label again"
            ) from None
        except OSError as error:
            if isinstance(error, FastDPError):
                raise
            raise LostError(f"the ledger {self.where} cannot be reached") from None

    # ---- care ------------------------------------------------------------------------

    def check(self) -> list[str]:
        """Return no problems: the server checks its own pages (data_checksums)."""
        return []

    def backup(self, path: str) -> None:
        """Refuse: the server has its own tools."""
        raise LedgerError(
            f"a ledger in PostgreSQL is backed up by pg_basebackup, not to {Path(path)}"
        )

    def close(self) -> None:
        """Close all sessions; do nothing in a forked child."""
        if os.getpid() == self._process:
            with self._guard:
                while self._idle:
                    self._idle.pop().close()


def _runner(session: Any) -> Run:
    def run(statement: str, *values: object) -> list[tuple[Any, ...]]:
        cursor = session.execute(statement.replace("?", "%s"), values or None)
        found: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
        return found

    return run


def _place(run: Run) -> dict[str, str]:
    system, database, timeline, folder = run(
        "SELECT (SELECT system_identifier FROM pg_control_system())::text, "
        "(SELECT oid FROM pg_database WHERE datname = current_database())"
        "::text, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), "
        "CASE WHEN pg_has_role('pg_read_all_settings', 'MEMBER') "
        "THEN current_setting('data_directory') ELSE '' END"
    )[0]
    return {
        "system": system,
        "database": database,
        "timeline": timeline,
        "folder": folder,
    }
