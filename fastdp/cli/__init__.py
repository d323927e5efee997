"""The command line: `fastdp` with `release`, `collect`, `account` and others.

One module per command, each with ``add_parser`` and ``run``. They import pyarrow,
statsmodels and the noise kernels only when they run, so that ``fastdp --help``
and a mistyped option answer at once.

Every failure is one line on stderr that starts with ``fastdp:``. It is made of
public facts (names of files, columns and options, values of parameters); the
text of an exception that this package did not write is never shown, since the
readers of tables print cells in theirs.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from fastdp.exceptions import (
    CalibrationError,
    DTypeError,
    FastDPError,
    ParameterError,
)

__all__ = ["main"]

#: Exit codes: success, any failure that is not one of usage, wrong usage.
OK, FAILED, USAGE = 0, 1, 2


class _Terminated(BaseException):
    """The process was asked to end: what is half done is undone first."""


class _Parser(argparse.ArgumentParser):
    """A parser of texts as they stand and whole options, whose errors are raised."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
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
        0 for success, 2 for wrong usage or a refused parameter, 1 for any other
        failure. ``--help`` and ``--version`` raise ``SystemExit(0)``.
    """
    try:
        with _undone_when_terminated():
            arguments = _parser().parse_args(argv)
            return int(arguments.run(arguments))
    except (ParameterError, DTypeError, CalibrationError) as error:
        return _fail(str(error), USAGE)
    except FastDPError as error:
        return _fail(str(error), FAILED)
    except KeyboardInterrupt:
        return _fail("interrupted", FAILED)
    except _Terminated:
        return _fail("terminated", FAILED)
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody to tell.
        return FAILED
    except Exception as error:
        # Its text may hold data: only its type is named.
        return _fail(f"internal error ({type(error).__name__})", FAILED)


@contextlib.contextmanager
def _undone_when_terminated() -> Iterator[None]:
    """Raise where a signal would end the process and leave temporary files behind."""

    def stop(number: int, frame: object) -> NoReturn:
        raise _Terminated

    signals = []
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, stop)
                signals.append(number)
    try:
        yield
    finally:
        for number in signals:
            signal.signal(number, signal.SIG_DFL)


def _parser() -> argparse.ArgumentParser:
    import fastdp
    from fastdp.cli import (
        account,
        aggregate,
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
    ):
        command.add_parser(commands)
    return parser


def _fail(message: str, code: int) -> int:
    # One line whatever the message: a file's name may contain a line break.
    print("fastdp: " + " ".join(message.split()), file=sys.stderr)
    return code
