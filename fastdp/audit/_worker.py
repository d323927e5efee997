"""Calls of a mechanism in a separate process, which may hang, crash or print."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from fastdp.audit._outcomes import Outcomes, of_array, of_calls

#: Give up a call after this many seconds.
PATIENCE = 30.0

#: Maximum draws of a batched mechanism in one call; maximum numbers of its input.
BATCH, _NUMBERS = 2**15, 2**22

#: Calls of a mechanism that is not batched between two answers of the process.
_CALLS = 2048

#: Seconds between two reports of a process that its calls still return.
_BEAT = 1.0

#: Keep at most this many different remarks.
_REMARKS = 20


class LostError(Exception):
    """The process with the mechanism is gone; the text says why."""


@dataclass(frozen=True)
class Batched:
    """A mechanism for stacks of inputs, from `batched`."""

    function: Callable[[Any], Any]


@dataclass
class Subject:
    """A mechanism and its inputs, in its process."""

    mechanism: Any
    inputs: Sequence[Any]
    remarks: dict[str, None] = field(default_factory=dict)
    beat: Callable[[], None] = lambda: None

    def remark(self, text: str) -> None:
        """Record a remark on the mechanism, once."""
        if len(self.remarks) < _REMARKS:
            self.remarks[text] = None

    def many(self, at: int, n: int) -> Outcomes | None:
        """Return outcomes of one call with n copies of an input; None if it failed."""
        x = np.asarray(self.inputs[at])
        stack = np.repeat(x[None], n, axis=0)
        before = stack.tobytes()
        try:
            output = self.mechanism.function(stack)
        except Exception as error:
            self.remark(f"raises {type(error).__name__} for a batch")
            return None
        if stack.tobytes() != before:
            self.remark("changes its input")
        array = np.asarray(output)
        if array.ndim == 0 or len(array) != n:
            self.remark(f"returns shape {array.shape} for a batch of {n} inputs")
            return None
        return of_array(array)

    def one(self, at: int) -> tuple[Any, str]:
        """Return the result of one call, and the error that it raised or ""."""
        try:
            return self.mechanism(self.inputs[at]), ""
        except (Exception, SystemExit) as error:
            return None, f"raises {type(error).__name__}"

    def draw(self, at: int, n: int) -> Outcomes | None:
        """Return some outcomes, at most n; None if a batch failed."""
        if isinstance(self.mechanism, Batched):
            size = max(1, np.size(self.inputs[at]))
            return self.many(at, min(n, BATCH, max(64, _NUMBERS // size)))
        before = _dumped(self.inputs[at])
        outputs, errors = [], []
        for _ in range(min(n, _CALLS)):
            output, error = self.one(at)
            outputs.append(output)
            errors.append(error)
            self.beat()
        if _dumped(self.inputs[at]) != before:
            self.remark("changes its input")
        return of_calls(outputs, errors)


def _dumped(x: Any) -> bytes:
    try:
        return pickle.dumps(x)
    except Exception:
        return b""


#: A task of the process: a function of the subject and further arguments.
Task = Callable[..., Any]


def _serve(
    others: Connection, link: Connection, subject: Subject, printed: str
) -> None:
    """Run tasks until the link is closed, then end the process."""
    others.close()  # otherwise the link would never end
    number = os.open(printed, os.O_WRONLY | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(number, standard)
    sys.stdout = sys.stderr = open(1, "w", closefd=False)  # noqa: SIM115 - for good
    warnings.simplefilter("always")

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        subject.remark(f"warns ({category.__name__})")

    warnings.showwarning = show
    subject.beat = _beat_of(link)
    while True:
        try:
            task, arguments = link.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            answer = task(subject, *arguments)
            failure = ""
        except Exception:
            answer, failure = None, traceback.format_exc(limit=-2)
        sys.stdout.flush()
        link.send((answer, failure, list(subject.remarks)))


def _beat_of(link: Connection) -> Callable[[], None]:
    """Return a function that reports, now and then, that calls still return."""
    last, own, lock = time.perf_counter(), os.getpid(), threading.Lock()

    def beat() -> None:
        nonlocal last
        if time.perf_counter() - last < _BEAT or os.getpid() != own:
            return
        with lock:
            last = time.perf_counter()
            link.send(None)

    return beat


class Worker:
    """A process that holds a mechanism.

    Parameters
    ----------
    mechanism : callable or Batched
    inputs : sequence
    patience : float, optional
        Timeout of a call in seconds; default: `PATIENCE`.
    """

    def __init__(
        self, mechanism: Any, inputs: Sequence[Any], patience: float | None = None
    ) -> None:
        self._patience = PATIENCE if patience is None else patience
        self.remarks: list[str] = []
        number, self._printed = tempfile.mkstemp()
        os.close(number)
        context = multiprocessing.get_context("fork")
        self._link, other = context.Pipe()
        subject = Subject(mechanism, inputs)
        self._process = context.Process(
            target=_serve, args=(self._link, other, subject, self._printed)
        )
        with warnings.catch_warnings():
            # Python 3.12 and later warn about forks with threads; those of libraries
            # are idle.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        other.close()

    def do(self, task: Task, *arguments: Any) -> Any:
        """Return the result of a task in the process.

        Raises
        ------
        LostError
            The process does not answer, or died.
        """
        try:
            self._link.send((task, arguments))
            message = None
            while message is None:  # a report that calls still return
                if not self._link.poll(self._patience):
                    self.close()
                    raise LostError(f"hangs: no answer in {self._patience:g} seconds")
                message = self._link.recv()
            answer, failure, remarks = message
        except (EOFError, OSError):
            self._process.join(1)
            code = self._process.exitcode
            self.close()
            raise LostError(f"ends its process (exit code {code})") from None
        self.remarks = remarks
        if failure:
            raise RuntimeError(f"a check failed:\n{failure}")
        return answer

    def prints(self) -> bool:
        """Return whether something was written to standard output or error."""
        return os.path.getsize(self._printed) > 0  # noqa: PTH202 - a text

    def close(self) -> None:
        """End the process."""
        self._link.close()
        self._process.join(0.2)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        os.unlink(self._printed)  # noqa: PTH108 - a text
