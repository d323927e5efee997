"""Temporary folders that the next run removes where a killed one left them.

Each holds a file `owner` that its process keeps locked: the system lets go of the lock
when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
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
        # Named when it is locked: a folder of this name without an owner is none.
        made = Path(tempfile.mkdtemp(prefix="fastdp-new-"))
        self._owner = os.open(made / _OWNER, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        _locked(self._owner)
        self.path = made.with_name(_PREFIX + secrets.token_hex(8))
        made.rename(self.path)

    def cleanup(self) -> None:
        """Remove the folder."""
        if self._owner >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._owner)
            self._owner = -1

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cleanup()


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
        owner = os.open(folder / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
        try:
            # The lock may be that of a file that another run has just removed.
            if _locked(owner) and os.path.samestat(
                os.fstat(owner), (folder / _OWNER).lstat()
            ):
                shutil.rmtree(folder, ignore_errors=True)
                return not folder.exists()
        finally:
            os.close(owner)
    return False


def _locked(owner: int) -> bool:
    """Lock a file without waiting; tell whether it was free."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
