"""Outputs that appear complete or not at all.

A complete local file is renamed to its path; other outputs are copies of a complete
file.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from fastdp._spill import Spill, own, remove_files
from fastdp.cli._places import EXHAUSTED, Place, reason_of
from fastdp.exceptions import (
    ExhaustedError,
    FastDPError,
    FileError,
)

#: Signals at which a command ends.
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM")


def output(place: Place) -> AbstractContextManager[Path]:
    """Return a context that gives a path to write to and then publishes the file."""
    path = place.path
    return AtomicOutput(path) if path is not None else _CopiedOutput(place)


class AtomicOutput:
    """A file that appears complete at its path when the block ends without an error.

    The temporary file is in the same folder. It is removed on every failure,
    including interrupts, and after a kill by the next run that writes the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Whether to publish the file; if not, everything stays as it was.
        self.wanted = True
        self.temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        self._owners: list[int] = []

    def __enter__(self) -> Path:
        name = rf"\.{re.escape(self.path.name)}\.[0-9a-f]{{16}}\.(part|old)"
        remove_files(self.path.parent, re.compile(name))
        try:
            # Never open an existing file; permissions follow the user's umask.
            while not self.owns(self.temporary, os.O_CREAT | os.O_EXCL):
                pass  # another run removed it as abandoned: try again
        except OSError as error:
            raise _cannot_write(self.path, error) from None
        except BaseException:
            self.temporary.unlink(missing_ok=True)
            raise
        return self.temporary

    def owns(self, path: Path, flags: int = 0) -> bool:
        """Lock a file until the end of the block; return whether it still exists."""
        owner = own(path, flags)
        if owner is not None and owner >= 0:
            self._owners.append(owner)
        return owner is not None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self.wanted:
                self._publish()
        finally:
            with _undisturbed():
                self.temporary.unlink(missing_ok=True)
                while self._owners:
                    os.close(self._owners.pop())
        if isinstance(error, OSError) and not isinstance(error, FastDPError):
            raise _cannot_write(self.path, error) from None

    def _publish(self) -> None:
        try:
            self.sync()
            self.temporary.replace(self.path)
        except OSError as error:
            raise _cannot_write(self.path, error) from None

    def sync(self) -> None:
        """Make the data durable before the file gets its name."""
        descriptor = os.open(self.temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay the exceptions of signals while files are renamed or removed."""
    received: list[int] = []
    usual: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for one in (signal.Signals[n] for n in _ENDING if hasattr(signal, n)):
            if callable(signal.getsignal(one)):
                usual[one] = signal.signal(one, lambda n, _: received.append(n))
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
        for number in received:
            signal.raise_signal(number)


class Together:
    """Files of this machine that appear at their paths together, or not at all.

    Only a kill between two renames can leave some of them old.
    """

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._outputs: list[AtomicOutput] = []

    def __enter__(self) -> Together:
        return self

    @contextlib.contextmanager
    def output(self, place: Place) -> Iterator[Path]:
        """Give a path to write to; the file is published together with the others."""
        one = AtomicOutput(place.local("of a plan"))
        one.wanted = False  # do not publish it by itself
        temporary = self._stack.enter_context(one)
        try:
            yield temporary
            one.sync()
        except FastDPError:
            raise
        except OSError as error:
            raise _cannot_write(one.path, error) from None
        self._outputs.append(one)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _undisturbed(), self._stack:
            if kind is None:
                self._publish()

    def _publish(self) -> None:
        before: list[tuple[AtomicOutput, Path | None]] = []
        path = Path()
        try:
            for one in self._outputs:
                path = one.path
                before.append((one, _kept_aside(one)))
                one.temporary.replace(path)
        except BaseException as error:
            for one, old in reversed(before):
                if one.temporary.exists():
                    continue  # it was not put in place
                if old is None:
                    one.path.unlink(missing_ok=True)
                else:
                    old.replace(one.path)
            if isinstance(error, OSError):
                raise _cannot_write(path, error) from None
            raise
        finally:
            for one in self._outputs:
                _aside(one).unlink(missing_ok=True)


def _aside(one: AtomicOutput) -> Path:
    return one.temporary.with_suffix(".old")


def _kept_aside(one: AtomicOutput) -> Path | None:
    """Keep the existing file until all the others are in place."""
    if not one.path.exists():
        return None
    old = _aside(one)
    while True:
        try:
            os.link(one.path, old)
        except OSError:  # some file systems have no links
            shutil.copy2(one.path, old)
        if one.owns(old):
            return old


class _CopiedOutput:
    """Output that goes to standard output or a URI when the block ends without error.

    Until then it is in a temporary folder that only this user can read, so that nobody
    sees the output of a failed run. At a URI the file gets its final name last.
    """

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> Path:
        if not self._place.standard:
            _ = self._place.remote  # refuse unknown schemes before the draw
        self._folder = Spill()
        return self._folder.path / "output"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._folder as folder:
            if kind is None:
                self._publish(folder / "output")
        if isinstance(error, OSError) and not isinstance(error, FastDPError):
            raise _cannot_write(self._place, error) from None

    def _publish(self, made: Path) -> None:
        try:
            with made.open("rb") as source:
                if self._place.standard:
                    shutil.copyfileobj(source, sys.stdout.buffer)
                    sys.stdout.buffer.flush()
                else:
                    self._upload(source)
        except (BrokenPipeError, FastDPError):
            raise
        except OSError as error:
            raise _cannot_write(self._place, error) from None
        except Exception:
            raise FileError(f"cannot write {self._place}") from None

    def _upload(self, source: BinaryIO) -> None:
        system, name = self._place.remote
        part = f"{name}.{secrets.token_hex(8)}.part"
        try:
            with system.open_output_stream(part, compression=None) as target:
                shutil.copyfileobj(source, target)
            system.move(part, name)
        except BaseException:
            with contextlib.suppress(Exception):
                system.delete_file(part)
            raise


def _cannot_write(place: Place | Path, error: OSError) -> FastDPError:
    kind = ExhaustedError if error.errno in EXHAUSTED else FileError
    return kind(f"cannot write {place}: {reason_of(error, 'writing')}")
