"""Check whether a budget gives too many answers, by races, copies or forks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastdp.audit._findings import Finding
from fastdp.audit._state import copies, in_forks
from fastdp.audit._worker import LostError, Subject, Worker

_THREADS = 8

#: Number of races of threads.
_RACES = 8


def _answers(mechanism: Callable[[Any], Any], x: Any, most: int) -> int:
    """Return the number of calls that answer before one raises, at most `most`."""
    for done in range(most):
        try:
            mechanism(x)
        except Exception:
            return done
    return most


def one_after_another(subject: Subject, most: int) -> int:
    """Return how many consecutive calls answer."""
    return _answers(subject.mechanism, subject.inputs[0], most)


def in_threads(subject: Subject, most: int) -> int:
    """Return how many calls of several threads answer."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    start = threading.Barrier(_THREADS)

    def work(_: int) -> int:
        start.wait()
        return _answers(subject.mechanism, subject.inputs[0], most)

    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            return sum(pool.map(work, range(_THREADS)))
    finally:
        sys.setswitchinterval(before)


def of_copies(subject: Subject, most: int, how: str) -> int:
    """Return how many calls of a mechanism and a copy answer; 0 if it has no copy."""
    both = copies(subject.mechanism, how)
    if both is None:
        return 0
    return sum(_answers(each, subject.inputs[0], most) for each in both)


def in_two_forks(subject: Subject, most: int) -> int:
    """Return how many calls answer in two processes forked from one."""
    return sum(in_forks(lambda: one_after_another(subject, most)))


TASKS: dict[str, tuple[Callable[..., int], tuple[Any, ...], int]] = {
    "calls one after another": (one_after_another, (), 1),
    f"{_THREADS} threads": (in_threads, (), _RACES),
    "a mechanism and its copy": (of_copies, ("copy",), 1),
    "a mechanism and its deep copy": (of_copies, ("deep copy",), 1),
    "two mechanisms read from one pickle": (of_copies, ("pickle",), 1),
    "two processes forked from one": (in_two_forks, (), 1),
}

TRIED = f"how many answers are had by {', '.join(TASKS)}"


def check(spender: Callable[[Any], Any], answers: int, x: Any) -> Finding:
    """Return the finding whether the budget gives more answers than it affords.

    Parameters
    ----------
    spender : callable
        A function that answers an input, and raises once the budget is spent.
    answers : int
        Number of answers that the budget affords.
    x : object
        The input.
    """
    faults, notes = [], []
    most = 2 * answers + 2  # stop a caller that is never refused
    for name, (task, arguments, times) in TASKS.items():
        had = []
        for _ in range(times):
            try:
                with Worker(spender, (x,)) as worker:
                    had.append(worker.do(task, most, *arguments))
            except (LostError, RuntimeError) as error:
                notes.append(f"{name}: {str(error).strip().split(chr(10))[-1]}")
        if had and max(had) > answers:
            faults.append(f"{name}: {max(had)} answers, where {answers} are affordable")
        elif name == "calls one after another" and had and had[0] < answers:
            notes.append(
                f"{name} give {had[0]} answers, where {answers} are affordable"
            )
    return Finding(
        check="budget",
        status="fault" if faults else "nothing found",
        tried=TRIED,
        evidence="; ".join(faults) or f"never more than {answers} answers",
        false_alarm=0.0,
        power="a race is seen if it happens in these calls",
        notes=tuple(notes),
    )
