"""Receipts of entries, the witness of the last entries, and the entries seen so far."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from fastdp.exceptions import DTypeError, LedgerError, ParameterError
from fastdp.ledger._terms import canonical

if sys.platform != "win32":
    import fcntl

_FORMAT = "fastdp receipts"


@dataclass(frozen=True)
class Receipt:
    """Proof that a ledger held an entry; it is published with the release.

    Attributes
    ----------
    ledger : str
        The ledger's uuid.
    budget : str
        Name of the budget.
    seq : int
        Number of the entry in the budget's chain.
    link : str
        The chain's digest up to this entry, in hexadecimal.
    """

    ledger: str
    budget: str
    seq: int
    link: str


def receipts_json(receipts: Iterable[Receipt]) -> str:
    """Return receipts as JSON text."""
    return canonical(
        {
            "format": _FORMAT,
            "version": 1,
            "receipts": [asdict(receipt) for receipt in receipts],
        }
    )


def receipts_from(text: object) -> tuple[Receipt, ...]:
    """Return the receipts that `receipts_json` wrote.

    Raises
    ------
    DTypeError, ParameterError
        The text is not such JSON.
    """
    if not isinstance(text, (str, bytes)):
        raise DTypeError(f"receipts must be text, got {type(text).__name__}")
    try:
        found = json.loads(text)
        made = tuple(Receipt(**entry) for entry in found["receipts"])
        known = (found["format"], found["version"]) == (_FORMAT, 1)
    except (KeyError, TypeError, ValueError, RecursionError):
        known, made = False, ()
    kinds = {(type(r.ledger), type(r.budget), type(r.seq), type(r.link)) for r in made}
    known = known and not kinds - {(str, str, int, str)}
    # Accept only names and numbers that a database can look up.
    if not known or not all(r.budget.isascii() and 0 <= r.seq < 2**63 for r in made):
        raise ParameterError(
            f"receipts must be JSON of the form {_FORMAT!r}, version 1"
        )
    return made


def private_file(path: Path) -> TextIO:
    """Open a new text file that only its owner can read; do not follow links."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8")


#: The open lock files of this process.
_LOCK_FILES: set[int] = set()


@contextlib.contextmanager
def lock_file(path: str | os.PathLike[str]) -> Iterator[int]:
    """Open a file that the caller locks; the lock ends with the block."""
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    _LOCK_FILES.add(file)
    try:
        yield file
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
        _LOCK_FILES.discard(file)
        os.close(file)


def _leave_locks() -> None:
    """Replace lock files by the null device, because the locks belong to the parent."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC) if _LOCK_FILES else -1
    while _LOCK_FILES:
        os.dup2(null, _LOCK_FILES.pop(), inheritable=False)
    if null >= 0:
        os.close(null)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_leave_locks)


def need_locks(what: str) -> None:
    """Refuse a file for several processes if the system has no file locks."""
    if sys.platform == "win32":
        raise LedgerError(
            f"{what} needs flock, which Windows lacks: keep the ledger in PostgreSQL, "
            "or use the Windows Subsystem for Linux"
        )


class Witness:
    """A small file elsewhere that stores the last entry of every budget."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        need_locks("a witness")
        self.path = Path(path).absolute()

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with lock_file(f"{self.path}.lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def create(self) -> None:
        """Make the file, which must not exist."""
        with self._errors(), self._lock():
            if self.path.exists():
                raise LedgerError(f"the witness {self.path} must not exist yet")
            self._write(())

    def read(self) -> tuple[Receipt, ...]:
        """Return the last entries that were recorded."""
        with self._errors():
            try:
                return receipts_from(self.path.read_text())
            except (ParameterError, UnicodeDecodeError):
                raise LedgerError(f"the witness {self.path} is damaged") from None

    def saw(self, receipts: Iterable[Receipt]) -> None:
        """Record entries durably; never replace a later entry by an earlier one."""
        with self._errors(), self._lock():
            known = {entry.budget: entry for entry in self.read()}
            if _advance(known, receipts):
                self._write(known.values())

    def reset(self, receipts: Iterable[Receipt]) -> None:
        """Start again from these entries of an adopted ledger."""
        with self._errors(), self._lock():
            self._write(receipts)

    def _write(self, receipts: Iterable[Receipt]) -> None:
        part = self.path.with_name(f".{self.path.name}.{os.urandom(8).hex()}.part")
        try:
            with private_file(part) as file:
                file.write(receipts_json(receipts) + "\n")
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, LedgerError):
                raise
            raise LedgerError(
                f"the witness {self.path} cannot be used: "
                f"{os.strerror(error.errno or 0)}; nothing was released"
            ) from None


class Seen:
    """The last entries that an open ledger and its witness saw.

    A ledger that lacks one of these entries was rolled back: it is a restored copy, or
    a standby that took over before it had all commits of its primary.
    """

    def __init__(self, witness: Witness | None = None) -> None:
        self.witness = witness
        self._last: dict[str, Receipt] = {}
        self._guard = threading.Lock()

    def saw(self, receipts: Iterable[Receipt]) -> None:
        """Record committed entries, durably if there is a witness.

        The witness records every entry that this object knows.
        """
        seen = tuple(receipts)
        with self._guard:
            known = dict(self._last)
        if _advance(known, seen) and self.witness is not None:
            self.witness.saw(seen)
        with self._guard:
            _advance(self._last, seen)

    def last(self, budgets: Collection[str]) -> Iterator[tuple[str, Receipt]]:
        """Yield the name of the observer and the last receipt of each budget."""
        with self._guard:
            own = [self._last[name] for name in budgets if name in self._last]
        yield from (("what this handle saw", receipt) for receipt in own)
        if self.witness is not None:
            who = f"the witness {self.witness.path}"
            for receipt in self.witness.read():
                if receipt.budget in budgets:
                    yield who, receipt


def _advance(known: dict[str, Receipt], receipts: Iterable[Receipt]) -> bool:
    """Update `known` with later entries; return whether there were any."""
    advanced = False
    for receipt in receipts:
        if receipt.budget not in known or receipt.seq > known[receipt.budget].seq:
            known[receipt.budget], advanced = receipt, True
    return advanced
