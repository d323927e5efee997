"""Temporary folders and files; the next run removes leftovers of a killed run.

A folder holds a file `owner` that its process keeps locked; a file is locked itself.
The system releases the lock when the process ends in any way.
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
except ImportError:  # Windows: only the process itself removes its folders there
    fcntl = None  # type: ignore[assignment]

_PREFIX, _OWNER = "fastdp-spill-", "owner"


class Spill:
    """A folder below TMPDIR, only for its user, for data too large for memory."""

    def __init__(self) -> None:
        remove_abandoned()
        name, base = secrets.token_hex(8), Path(tempfile.gettempdir())
        made, self.path = base / f"fastdp-new-{name}", base / f"{_PREFIX}{name}"
        owners: list[int] = []
        # Register the cleanup first: a signal may end this at any step.
        folders = (made, self.path)
        self._clean = weakref.finalize(self, _clean, folders, owners, os.getpid())
        # Rename the folder once it is locked, so that no folder of the final name is
        # ever without an owner.
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
    if os.getpid() == process:  # not in a forked child
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        for owner in owners:
            os.close(owner)


def remove_abandoned() -> int:
    """Remove this user's folders without a running process; return their number."""
    removed = 0
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                removed += _removed(Path(entry.path))
    return removed


def _removed(folder: Path) -> bool:
    """Remove a folder unless its process still runs or another user owns it."""
    with contextlib.suppress(OSError):
        facts = folder.lstat()  # do not follow links
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            return False
        with _abandoned(folder / _OWNER) as found:
            if found:
                shutil.rmtree(folder, ignore_errors=True)
                return not folder.exists()
    return False


def own(path: Path, flags: int = 0) -> int | None:
    """Open and lock a file; return -1 without locks, None if it was removed."""
    owner = os.open(path, os.O_RDONLY | flags, 0o666)
    if fcntl is None:
        os.close(owner)
        return -1
    with contextlib.suppress(OSError):  # waits at most while another run checks it
        fcntl.flock(owner, fcntl.LOCK_EX)
    if path.exists():
        return owner
    os.close(owner)
    return None


def remove_files(folder: Path, name: re.Pattern[str]) -> None:
    """Remove files with a matching name and without a running process."""
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
    """Lock a file if nobody else has locked it; return whether that worked."""
    owner = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        # Another run may have removed this file just before it was locked.
        yield _locked(owner) and os.path.samestat(os.fstat(owner), path.lstat())
    finally:
        os.close(owner)


def _locked(owner: int) -> bool:
    """Lock a file without waiting; return whether it was free."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
