"""The command line: `fastdp` with `release`, `collect`, `account` and others.

One module per command, each with ``add_parser`` and ``run``. They import pyarrow,
statsmodels and the noise kernels only when they run, so that ``fastdp --help`` and a
mistyped option answer immediately.

Every failure is one line on stderr that starts with ``fastdp:``. It contains only
public facts (names of files, columns and options, values of parameters). The text of
an exception of another package is never shown, since readers of tables print cells in
their messages.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from fastdp.exceptions import (
    BudgetExceededError,
    CalibrationError,
    DTypeError,
    ExhaustedError,
    FastDPError,
    FileError,
    LabelConflictError,
    LabelUsedError,
    LedgerError,
    LedgerUnavailableError,
    ParameterError,
    UnitMismatchError,
    UnsupportedEventError,
)

__all__ = ["main"]

#: Exit codes: success, wrong usage, refusals of a ledger, other failures.
OK, FAILED, USAGE, BUDGET, LABEL, LEDGER, INTERNAL, LATER = 0, 1, 2, 3, 4, 5, 70, 75

#: Exit codes for files that cannot be read or written, and for full memory or disk.
FILES, EXHAUSTED = 6, 7

#: Names that people try as a command, but that are options.
_STATISTICS = ("count", "sum", "mean", "variance", "std", "median", "quantiles")

#: The exit code after a signal is this plus the signal's number, as in a shell.
_SIGNALED = 128

#: Raise again after this many seconds if a command continues after a signal.
_AGAIN = 0.1


class _Terminated(BaseException):
    """A signal to end the process; unfinished work is undone first."""


class _Parser(argparse.ArgumentParser):
    """A parser with raw help texts and no abbreviated options, which raises errors."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        asked = re.search(r"COMMAND: invalid choice: '(\w+)'", message)
        if asked and asked[1] in _STATISTICS:
            raise ParameterError(
                f"{asked[1]} is no command: fastdp aggregate INPUT --{asked[1]} takes "
                "it from records (see fastdp aggregate --help)"
            )
        raise ParameterError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments without the program's name; default ``sys.argv[1:]``.

    Returns
    -------
    int
        0 for success, 2 for wrong usage or a refused parameter, 3 for a budget that
        does not cover, price or fit the release, 4 for a label that belongs to
        something else, 5 for a ledger that cannot be used, 75 for a ledger that is
        locked or cannot be reached now, 6 for an input or output that cannot be read or
        written, 7 if memory or disk ran out, 70 for a bug in fastdp, 128 plus the
        number of a signal that ended the command (130, 143 or 129), 1 for any other
        failure, and for an audit with findings. ``--help`` and ``--version`` raise
        ``SystemExit(0)``.
    """
    signals: list[int] = []
    _occupy_standard_files()
    try:
        with _undone_when_ended(signals):
            arguments = _parser().parse_args(argv)
            return int(arguments.run(arguments))
    except SystemExit:
        raise
    except BaseException as error:
        return _told(error, signals)


def _told(error: BaseException, signals: Sequence[int]) -> int:
    """Print the reason why a command ended, and return its exit code."""
    from fastdp.cli import _places

    if signals or isinstance(error, KeyboardInterrupt):
        # A library may have replaced our exception by one of its own.
        number = signals[0] if signals else signal.SIGINT
        word = "interrupted" if number == signal.SIGINT else "terminated"
        return _fail(word, _SIGNALED + number)
    match error:
        case BudgetExceededError() | UnitMismatchError() | UnsupportedEventError():
            return _fail(str(error), BUDGET)
        case LabelConflictError() | LabelUsedError():
            return _fail(str(error), LABEL)
        case LedgerUnavailableError():
            return _fail(str(error), LATER)
        case LedgerError() if error.errno in _places.EXHAUSTED:
            return _fail(str(error), EXHAUSTED)
        case LedgerError():
            return _fail(str(error), LEDGER)
        case ParameterError() | DTypeError() | CalibrationError():
            return _fail(str(error), USAGE)
        case ExhaustedError():
            return _fail(str(error), EXHAUSTED)
        case FileError():
            return _fail(str(error), FILES)
        case FastDPError():
            return _fail(str(error), FAILED)
        case MemoryError():
            return _fail("memory ran out", EXHAUSTED)
        case BrokenPipeError():
            # The reader of our output has gone; nobody can see a message.
            return FAILED
        case OSError() if error.errno:
            # Mostly from standard output, which has no name to show.
            code = EXHAUSTED if error.errno in _places.EXHAUSTED else FILES
            return _fail(f"system error: {os.strerror(error.errno)}", code)
    # Its text may hold data: only its type is named.
    return _fail(f"internal error ({type(error).__name__})", INTERNAL)


def _occupy_standard_files() -> None:
    """Open standard files that were closed before the start as the null device.

    Otherwise an output table could get the number of a standard file, and a library
    would print to it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    if sys.stderr is None:  # otherwise `print` would use standard output
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - a number


@contextlib.contextmanager
def _undone_when_ended(received: list[int]) -> Iterator[None]:
    """Raise an exception if a signal would end the process and leave temporary files.

    The signals' numbers are added to `received`. Libraries sometimes lose an exception
    (during imports or callbacks), so an alarm raises it again, unless an error is
    already being handled; the files are then removed because of that error.
    """
    finished = False

    def stop(number: int, frame: object) -> None:
        if finished:
            return
        if number != getattr(signal, "SIGALRM", None):
            received.append(number)
        alarm(_AGAIN)
        if received == [number] or sys.exc_info()[0] is None:
            interrupted = received[0] == signal.SIGINT
            raise KeyboardInterrupt if interrupted else _Terminated

    def alarm(seconds: float) -> None:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, seconds)

    # Windows has neither SIGHUP nor SIGALRM.
    names: dict[str, Any] = {
        "SIGTERM": signal.SIG_DFL,
        "SIGHUP": signal.SIG_DFL,
        "SIGINT": signal.default_int_handler,
        "SIGALRM": signal.SIG_DFL,
    }
    usual: dict[signal.Signals, Any] = {
        signal.Signals[name]: handler
        for name, handler in names.items()
        if hasattr(signal, name)
    }
    ours = []
    if threading.current_thread() is threading.main_thread():
        for number, handler in usual.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, stop)
                ours.append(number)
    try:
        yield
    finally:
        finished = True
        if received:
            alarm(0)
        for number in ours:
            signal.signal(number, usual[number])


def _parser() -> argparse.ArgumentParser:
    import fastdp
    from fastdp.cli import (
        _common,
        account,
        aggregate,
        audit,
        bench,
        collect,
        demo,
        estimate,
        ledger,
        release,
    )

    parser = _Parser(
        prog="fastdp",
        description="Exact, secure and fast noise for differential privacy.",
    )
    parser.add_argument(
        "--version", action="version", version=f"fastdp {fastdp.__version__}"
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    for command in (
        release,
        aggregate,
        collect,
        estimate,
        ledger,
        account,
        demo,
        bench,
        audit,
    ):
        command.add_parser(commands)
    _common.reset_log()
    for name in ("aggregate", "release", "collect", "estimate"):
        _common.add_log_options(commands.choices[name])
    return parser


def _fail(message: str, code: int) -> int:
    # Print one line: a file's name in the message may contain a line break.
    from fastdp.cli import _common

    line = " ".join(message.split())
    _common.tell("failed", f"fastdp: {line}", code=code, message=line)
    return code
