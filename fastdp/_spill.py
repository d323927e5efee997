"""Temporary folders and files that the next run removes where a killed one left them.

A folder holds a file `owner` that its process keeps locked, a file is locked itself:
the system lets go of the lock when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # Windows: nothing is removed there but by its own process
    fcntl = None  # type: ignore[assignment]

_PREFIX, _OWNER = "fastdp-spill-", "owner"


class Spill:
    """A folder below TMPDIR for what does not fit, for its user's eyes alone."""

    def __init__(self) -> None:
        remove_abandoned()
        name, base = secrets.token_hex(8), Path(tempfile.gettempdir())
        made, self.path = base / f"fastdp-new-{name}", base / f"{_PREFIX}{name}"
        owners: list[int] = []
        # Before anything is made: a signal may end this at any step.
        folders = (made, self.path)
        self._clean = weakref.finalize(self, _clean, folders, owners, os.getpid())
        # Named when it is locked: a folder of this name without an owner is none.
        made.mkdir(0o700)
        owners.append(os.open(made / _OWNER, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        _locked(owners[0])
        made.rename(self.path)

    def cleanup(self) -> None:
        """Remove the folder."""
        self._clean()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cleanup()


def _clean(folders: tuple[Path, ...], owners: list[int], process: int) -> None:
    if os.getpid() == process:  # and no fork of it
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        for owner in owners:
            os.close(owner)


def remove_abandoned() -> int:
    """Remove this user's folders whose process is gone; return how many."""
    removed = 0
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                removed += _removed(Path(entry.path))
    return removed


def _removed(folder: Path) -> bool:
    """Remove a folder unless its process runs, or it is not this user's."""
    with contextlib.suppress(OSError):
        facts = folder.lstat()  # no link is followed
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            return False
        with _abandoned(folder / _OWNER) as found:
            if found:
                shutil.rmtree(folder, ignore_errors=True)
                return not folder.exists()
    return False


def own(path: Path, flags: int = 0) -> int | None:
    """Open and lock a file; -1 where there are no locks, None if it was removed."""
    owner = os.open(path, os.O_RDONLY | flags, 0o666)
    if fcntl is None:
        os.close(owner)
        return -1
    with contextlib.suppress(OSError):  # no longer than another run looks at it
        fcntl.flock(owner, fcntl.LOCK_EX)
    if path.exists():
        return owner
    os.close(owner)
    return None


def remove_files(folder: Path, name: re.Pattern[str]) -> None:
    """Remove files of such names whose process is gone."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            # To open a pipe would wait for who writes it.
            if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                path = Path(entry.path)
                with contextlib.suppress(OSError), _abandoned(path) as left:
                    if left:
                        path.unlink()


@contextlib.contextmanager
def _abandoned(path: Path) -> Iterator[bool]:
    """Tell whether a file is locked by nobody else, and lock it."""
    owner = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        # The lock may be that of a file that another run has just removed.
        yield _locked(owner) and os.path.samestat(os.fstat(owner), path.lstat())
    finally:
        os.close(owner)


def _locked(owner: int) -> bool:
    """Lock a file without waiting; tell whether it was free."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
