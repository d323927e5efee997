"""File answers: staged, recorded in the ledger by digest, then renamed.

A file is written under another name and synced, and its manifest (names, sizes, SHA-256
of the released data) is stored like any answer. Then the file gets its final name.
After a crash the next call reads the manifest and finishes the work. A missing or
altered file is an error and is never drawn again.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from fastdp.exceptions import LedgerError
from fastdp.ledger._terms import canonical

_BLOCK = 1 << 20


def staging(path: Path, attempt: int) -> Path:
    """Return the staging place of an attempt: next to `path`, on the same volume."""
    return path.with_name(f".{path.name}.staging-{attempt}")


def manifest(path: Path, attempt: int, staged: Path) -> bytes:
    """Sync the written files and return their manifest."""
    if not staged.exists():
        raise LedgerError(f"nothing was written to {staged}; nothing was released")
    files = []
    for name, file in _files(staged):
        files.append({"name": name, **_facts(file)})
        _sync(file)
    for folder in {file.parent for _, file in _files(staged)} | {staged.parent}:
        _sync(folder)
    return canonical(
        {
            "name": path.name,
            "folder": str(path.parent),
            "attempt": attempt,
            "files": files,
        }
    ).encode()


def place_of(body: bytes) -> Path:
    """Return the path for which a manifest's files were written."""
    found = json.loads(body)
    return Path(found["folder"], found["name"])


def finish(path: Path, body: bytes) -> None:
    """Move the stored attempt's files to their place, or check files already there.

    Raises
    ------
    LedgerError
        The files are missing or were altered.
    """
    found = json.loads(body)
    staged = staging(path, found["attempt"])
    if not path.exists():
        _check(staged, found["files"], path)
        with contextlib.suppress(FileNotFoundError):  # another call has just moved it
            staged.rename(path)
        _sync(path.parent)
    _check(path, found["files"], path)
    start = staging(path, 0).name[:-1]
    for loser in path.parent.glob(f"{glob.escape(start)}*"):
        if loser.name[len(start) :].isdecimal():
            remove(loser)


def remove(staged: Path) -> None:
    """Remove the files of an attempt, if there are any."""
    if staged.is_dir() and not staged.is_symlink():
        shutil.rmtree(staged, ignore_errors=True)
    else:
        staged.unlink(missing_ok=True)


def check(body: bytes) -> None:
    """Refuse files that differ from their manifest.

    Files that a crash left staged count as well: the next attempt moves them.

    Raises
    ------
    LedgerError
        The files are missing or were altered.
    """
    found = json.loads(body)
    path = place_of(body)
    staged = staging(path, found["attempt"])
    _check(path if path.exists() else staged, found["files"], path)


def _check(place: Path, wanted: list[dict[str, object]], path: Path) -> None:
    """Refuse files that differ from the manifest."""
    try:
        found = [{"name": name, **_facts(file)} for name, file in _files(place)]
    except OSError:
        found = []
    if found != wanted:
        state = "altered" if found else "missing"
        raise LedgerError(
            f"the released file {path} is {state}; it is not drawn again, for that "
            "would be a second release: restore it from a backup"
        )


def _files(place: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder by relative name; a file itself with name ""."""
    if place.is_dir():
        for file in sorted(place.rglob("*")):
            if file.is_file():
                yield file.relative_to(place).as_posix(), file
    else:
        yield "", place


def _facts(file: Path) -> dict[str, object]:
    """Return size and SHA-256 of a file."""
    own, size = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            own.update(block)
            size += len(block)
    return {"size": size, "sha256": own.hexdigest()}


def _sync(place: Path) -> None:
    file = os.open(place, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
