"""A ledger in one SQLite file, set up so that a commit is on disk when it returns.

A new file gets write-ahead logging if the library is free of the race that could lose
committed transactions (https://sqlite.org/wal.html, "The WAL-Reset Bug"), and otherwise
a rollback journal; an existing file keeps its own mode. A lock file is taken before
each transaction: SQLite itself waits by polling, which can starve some writers.

Only SQLite opens the database, its log and its index: POSIX drops all locks of a
process on a file when any descriptor of the file is closed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastdp.exceptions import FastDPError, LedgerError, LedgerUnavailableError
from fastdp.ledger._receipts import Seen, lock_file
from fastdp.ledger._store import WRITE_ONCE, Rows, Run, moved, schema
from fastdp.ledger._terms import canonical

#: Labels share this many lock files; two labels with the same file exclude each other.
_SLOTS = 64

#: File systems on which locks or syncs are not reliable.
_NETWORK = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs"),
    *("glusterfs", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone"),
    *("fuse.gcsfuse", "beegfs", "davfs", "ncpfs", "pvfs2", "virtiofs"),
    *("afpfs", "webdav", "macfuse"),
}

_APPLICATION = 0x66644C31  # "fdL1"


def is_write_ahead_safe(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> bool:
    """Return whether this version's write-ahead log never loses a commit."""
    mended = {(3, 44): (3, 44, 6), (3, 50): (3, 50, 7)}
    return version >= mended.get((version[0], version[1]), (3, 51, 3))


class SqliteStore:
    """One file, with a connection for each concurrent use; a fork shares none."""

    for_update = ""

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        self._path = Path(os.path.realpath(path))
        self.where = str(path)
        self._timeout = timeout
        self._process = os.getpid()
        self._idle: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._locks = Path(f"{self._path}-locks")
        self.settled: dict[str, str] | None = None
        self.seen = Seen()

    # ---- the file --------------------------------------------------------------

    def create(self) -> None:
        """Make the file, which must not exist, with the tables."""
        with self._errors():
            self._require_local()
            self._make_locks()
            with self._lock_file("write"):  # `open` takes this lock first
                _make_file(self._path)
                self._connect("wal" if is_write_ahead_safe() else "delete").close()
        with self.transaction() as run:
            run(f"PRAGMA application_id = {_APPLICATION}")
            for statement in schema({}):
                table = statement.startswith("CREATE TABLE")
                run(statement + (" STRICT" if table else ""))
            for table_name in WRITE_ONCE:
                for verb in ("UPDATE", "DELETE"):
                    run(
                        f"CREATE TRIGGER {table_name}_no_{verb.lower()} BEFORE {verb} "
                        f"ON {table_name} BEGIN SELECT RAISE(ABORT, 'write once'); END"
                    )
        _sync(self._path.parent)

    def open(self) -> None:
        """Check that the file exists, is local and writable, and is a ledger."""
        with self._errors():
            if not self._path.is_file():
                raise LedgerError(
                    f"no ledger at {self.where}: make one by fastdp.ledger.create or "
                    "`fastdp ledger init`"
                )
            if self._path.stat().st_nlink > 1:
                raise LedgerError(
                    f"{self.where} must have one name, but has several (hard links): "
                    "the locks of each are elsewhere; remove the other names"
                )
            self._require_local()
            self._make_locks()
        with self.transaction() as run:  # fails if the file is not writable
            if run("PRAGMA application_id") != [(_APPLICATION,)]:
                raise LedgerError(f"{self.where} is not a ledger of fastdp")

    def _make_locks(self) -> None:
        try:
            self._locks.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError:
            raise LedgerError(
                f"{self.where}-locks must be the folder of the ledger's locks, but a "
                "file has that name: move it away"
            ) from None

    def _require_local(self) -> None:
        kind = _file_system(self._path.parent)
        if kind in _NETWORK:
            raise LedgerError(
                f"{self.where} must be on a local disk, but it is on "
                f"{kind}: locks and syncs are not reliable there; use "
                "PostgreSQL for many machines"
            )

    def require_private(self) -> None:
        """Refuse a file that its group or others can read or write."""
        with self._errors():
            mode = self._path.stat().st_mode & 0o777
        if mode & 0o077:
            raise LedgerError(
                f"{self.where} must be readable by its owner alone, "
                "because it will hold a counter's exact sums: it has "
                f"mode {mode:o}, chmod 600 it"
            )

    def place(self) -> dict[str, str]:
        """Return machine, file system and the inodes of the file and its locks."""
        found, locks = self._path.stat(), self._locks.stat()
        machine = Path("/etc/machine-id")
        return {
            "machine": machine.read_text().strip() if machine.is_file() else "",
            "file_system": str(os.statvfs(self._path).f_fsid),
            "inode": str(found.st_ino),
            # A moved file, or one with a second name, has another folder of locks.
            "locks": str(locks.st_ino),
        }

    def describe(self) -> dict[str, str]:
        """Return engine, version and journal."""
        return {
            "engine": f"SQLite {sqlite3.sqlite_version}",
            "durability": "write-ahead log, synchronous=FULL"
            if self._mode() == "wal"
            else "rollback journal, synchronous=EXTRA",
        }

    def _mode(self) -> str:
        with self._errors(), self._connection() as connection:
            return _journal_mode(connection)

    # ---- transactions ----------------------------------------------------------

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection; keep it for reuse unless something failed."""
        if os.getpid() != self._process:
            raise LedgerError(
                f"the ledger {self.where} must be opened again in a forked process"
            )
        if self.settled is not None and self.place() != self.settled:
            raise moved(self.where)
        with self._guard:
            lent = self._idle.pop() if self._idle else None
        if lent is None:
            lent = self._connect()
        try:
            yield lent
        except BaseException:
            lent.close()
            raise
        with self._guard:
            self._idle.append(lent)

    def _connect(self, mode: str | None = None) -> sqlite3.Connection:
        """Return a new connection; `mode` sets the journal mode of a new file."""
        made = sqlite3.connect(
            f"{self._path.as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            timeout=self._timeout,
            check_same_thread=False,  # lent to one thread at a time
        )
        try:
            if mode is not None:
                made.execute(f"PRAGMA journal_mode = {mode}")
            found = _journal_mode(made)
            if found == "wal" and not is_write_ahead_safe():
                raise LedgerError(
                    f"{self.where} has a write-ahead log, in which SQLite "
                    f"{sqlite3.sqlite_version} of this Python can lose "
                    "commits: use a Python with a newer SQLite (3.51.3, "
                    "3.50.7 or 3.44.6), for the ledger or to migrate it"
                )
            for setting in (
                f"synchronous = {'FULL' if found == 'wal' else 'EXTRA'}",
                "foreign_keys = ON",
                "fullfsync = ON",
                "checkpoint_fullfsync = ON",
                "trusted_schema = OFF",
                "secure_delete = ON",  # overwrites earlier private sums of counters
            ):
                made.execute(f"PRAGMA {setting}")
        except BaseException:
            made.close()
            raise
        return made

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Run]:
        """Return a transaction that is durable when the block has ended."""
        with (
            self._errors(),
            self._lock_file("write"),
            self._connection() as connection,
        ):
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield _runner(connection)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[Run]:
        """Return a snapshot."""
        with self._errors(), self._connection() as connection:
            connection.execute("BEGIN")
            yield _runner(connection)
            connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Rows]:
        """Return a function that reads from one snapshot in bounded memory."""
        with self._errors(), self._connection() as connection:
            connection.execute("BEGIN")
            yield lambda statement, *values: connection.execute(statement, values)
            connection.execute("ROLLBACK")

    def rows(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield rows in bounded memory."""
        with self._errors(), self._connection() as connection:
            cursor = connection.execute(statement, values)
            try:
                yield from cursor
            finally:
                cursor.close()

    @contextlib.contextmanager
    def lock(self, label: str) -> Iterator[None]:
        """Hold the lock file of a label."""
        slot = hashlib.blake2b(label.encode()).digest()[0] % _SLOTS
        with self._lock_file(f"label-{slot:02d}"):
            yield

    @contextlib.contextmanager
    def _lock_file(self, name: str) -> Iterator[None]:
        """Hold a file lock, which the kernel releases when the process ends."""
        with contextlib.ExitStack() as stack:
            with self._errors():
                file = stack.enter_context(lock_file(self._locks / name))
            deadline, pause = time.monotonic() + self._timeout, 0.0002
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as error:
                    if error.errno not in (errno.EAGAIN, errno.EACCES):
                        raise
                if time.monotonic() > deadline:
                    raise self._locked()
                time.sleep(pause)
                pause = min(1.5 * pause, 0.005)
            yield

    def _locked(self) -> LedgerUnavailableError:
        return LedgerUnavailableError(
            f"the ledger {self.where} has been locked for more than "
            f"{self._timeout:g} s; nothing was released"
        )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Hide the texts of errors of the engine and the system."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            if name.startswith("SQLITE_BUSY"):  # SQLite has waited for the timeout
                raise self._locked() from None
            if name == "SQLITE_NOTADB":
                raise LedgerError(f"{self.where} is not a ledger of fastdp") from None
            full = errno.ENOSPC if name == "SQLITE_FULL" else None
            raise self._unusable(f"SQLite says {name}", full) from None
        except OSError as error:
            if isinstance(error, FastDPError):
                raise
            reason = os.strerror(error.errno or 0)
            raise self._unusable(reason, error.errno) from None

    def _unusable(self, reason: str, number: int | None) -> LedgerError:
        """Return the error for a reason, with the system's error number."""
        found = LedgerError(
            f"the ledger {self.where} cannot be used: {reason}; nothing was released"
        )
        found.errno = number
        return found

    # ---- care --------------------------------------------------------------------

    def check(self) -> list[str]:
        """Return the problems that SQLite finds in the file."""
        found = [row[0] for row in self.rows("PRAGMA integrity_check")]
        broken = [row[0] for row in self.rows("PRAGMA foreign_key_check")]
        return [text for text in found if text != "ok"] + [
            f"a row of {table} refers to none" for table in broken
        ]

    def backup(self, path: str) -> None:
        """Copy the ledger to a new file, by SQLite's online backup."""
        place = Path(os.path.realpath(path))
        part = place.with_name(f".{place.name}.{os.urandom(8).hex()}.part")
        with self._errors():
            _make_file(part)
            try:
                self._copy_to(part)
                os.link(part, place)  # fails if `place` exists
            finally:
                part.unlink()
            _sync(place.parent)

    def _copy_to(self, path: Path) -> None:
        target = sqlite3.connect(path)
        try:
            with self._connection() as connection:
                connection.backup(target)
            # Mark the copy as a copy, even if it later replaces its original in the
            # same inode: it may lack later charges.
            ((place,),) = target.execute("SELECT place FROM ledger").fetchall()
            marked = canonical({**json.loads(place), "backup": "yes"})
            target.execute("UPDATE ledger SET place = ?", (marked,))
            target.commit()
        finally:
            target.close()
        _sync(path)

    def close(self) -> None:
        """Close all connections; do nothing in a forked child."""
        if os.getpid() == self._process:
            with self._guard:
                while self._idle:
                    self._idle.pop().close()


def _journal_mode(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def _make_file(path: Path) -> None:
    """Make a file that only its owner can use; it must not exist."""
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o600))


def _sync(path: Path) -> None:
    """Make a folder, or a file that no connection has open, durable."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _runner(connection: sqlite3.Connection) -> Run:
    def run(statement: str, *values: object) -> list[tuple[Any, ...]]:
        return connection.execute(statement, values).fetchall()

    return run


def _file_system(folder: Path) -> str:
    """Return the type of the file system of a folder; "" if it is unknown."""
    if sys.platform == "darwin":
        mounts = _mounts_of_macos(os.fsdecode(subprocess.check_output(["/sbin/mount"])))
    elif (table := Path("/proc/self/mountinfo")).is_file():
        mounts = _mounts_of_linux(table.read_bytes())
    else:
        return ""
    kind, longest = "", -1
    for point, type_ in mounts:
        inside = point == "/" or f"{folder}/".startswith(f"{point}/")
        if inside and len(point) >= longest:
            kind, longest = type_, len(point)
    return kind


def _mounts_of_linux(table: bytes) -> Iterator[tuple[str, str]]:
    """Yield mount points and types; some bytes are octal numbers after a backslash."""
    for line in table.splitlines():
        left, _, right = line.partition(b" - ")
        point = re.sub(
            rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), left.split()[4]
        )
        yield os.fsdecode(point), right.split()[0].decode()


def _mounts_of_macos(printed: str) -> Iterator[tuple[str, str]]:
    """Yield mount points and types from the lines DEVICE on POINT (TYPE, ...)."""
    for found in re.finditer(r"^.* on (/.*) \((\w+)[,)].*$", printed, re.MULTILINE):
        yield found[1], found[2]
