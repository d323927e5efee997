"""The program: ``fastdp`` and ``python -m fastdp.cli`` run a command and exit.

`fastdp.cli.main` runs a command within a process that continues.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import select
import signal
import stat
import sys
from typing import Any, NoReturn

from fastdp.cli import _told, main


class _Pipe(io.RawIOBase):
    """Standard input with reads that end at a signal.

    Python handles signals only in the main thread, which may be waiting, inside a
    library, for the thread that reads here.
    """

    def __init__(self) -> None:
        self._wake, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        poll = select.poll()
        for number in (0, self._wake):
            poll.register(number, select.POLLIN)
        if self._wake in dict(poll.poll()):
            raise OSError(errno.ECANCELED, "interrupted by a signal")
        return os.readv(0, [buffer])


def program() -> NoReturn:
    """Run the command of ``sys.argv`` and end the process.

    Threads of libraries may still be reading the input, since Arrow reads ahead. These
    threads need Python, and C exit handlers would wait for them. So the finalization of
    Python and C is skipped.
    """
    with contextlib.suppress(OSError):  # if it is closed, `main` opens it
        if not stat.S_ISREG(os.fstat(0).st_mode):
            sys.stdin = io.TextIOWrapper(io.BufferedReader(_Pipe()))
    try:
        code = main()
    except SystemExit as stop:  # raised by --help
        code = int(stop.code or 0)
    try:
        print(end="", flush=True)
    except OSError as error:
        code = code or _told(error, ())
    atexit._run_exitfuncs()
    os._exit(code)


if __name__ == "__main__":
    program()
