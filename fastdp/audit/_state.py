"""Check whether noise is repeated, across forks, threads, copies, seeds and calls.

Two runs of draws that should be independent are compared entry by entry. Pairs of
outputs of one process bound how often independent outputs are equal.
"""

from __future__ import annotations

import copy
import os
import pickle
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fastdp.audit import _generators
from fastdp.audit._bounds import ERROR, rates
from fastdp.audit._findings import Finding
from fastdp.audit._outcomes import Outcomes, joined
from fastdp.audit._worker import Batched, LostError, Subject, Worker

#: Draws of each compared run; pairs of outputs that bound how often they are equal.
_RUN, _PAIRS = 256, 2048

#: Descriptions of the compared runs.
COMPARED = {
    "fork": "two processes forked from one",
    "threads": "two threads",
    "copy": "the mechanism and a copy of it",
    "deep copy": "the mechanism and a deep copy of it",
    "pickle": "two mechanisms read from one pickle",
    "seed of numpy": "draws after numpy.random.seed with one seed, twice",
    "seed of Python": "draws after random.seed with one seed, twice",
    "next call": "draws and the draws of the next call",
    "other input": "draws from the first input and then from the second",
    "generator": "integers and what a Mersenne Twister gives after those before",
}

TRIED = "the same draws from " + "; ".join(COMPARED.values())

#: One row for each outcome.
Rows = np.ndarray


def rows_of(outcomes: Outcomes) -> Rows:
    """Return one row of integers for each outcome: its kind and its numbers' bits."""
    kinds = np.array([hash_of(label) for label in outcomes.labels])[outcomes.kinds]
    bits = np.ascontiguousarray(outcomes.values, np.float64).view(np.int64)
    return np.column_stack([kinds, bits.reshape(len(outcomes), -1)])


def hash_of(label: str) -> int:
    """Return an integer for a label, the same in all processes."""
    return int.from_bytes(label.encode()[-7:].rjust(7, b"\0"), "big")


# ---- tasks, in the mechanism's process ----------------------------------------------


def _drawn(subject: Subject, at: int, n: int) -> Outcomes:
    """Return the outcomes of n draws, in as few calls as possible."""
    parts: list[Outcomes] = []
    while left := n - sum(map(len, parts)):
        found = subject.draw(at, left)
        if found is None:
            raise LostError("a batch failed")
        parts.append(found)
    return joined(parts)


def _run(subject: Subject, mechanism: Any = None) -> Rows:
    """Return a run of outcomes for the first input."""
    if mechanism is not None:
        subject = replace(subject, mechanism=mechanism)
    return rows_of(_drawn(subject, 0, _RUN))


def noise(outcomes: Outcomes, x: Any) -> np.ndarray | None:
    """Return outputs minus their input; None if they cannot be subtracted."""
    x = np.asarray(x)
    if x.dtype.kind not in "biuf" or not outcomes.values.shape[1] == x.size > 0:
        return None
    return np.asarray(outcomes.values - x.reshape(-1))


def pairs(subject: Subject) -> list[int]:
    """Return how often two outputs, and two noises, of one process are equal."""
    found = []
    for at in (0, 1):
        outcomes = _drawn(subject, at, 2 * _PAIRS)
        for run in rows_of(outcomes), noise(outcomes, subject.inputs[at]):
            if run is not None:
                found.append(equal_rows(run[:_PAIRS], run[_PAIRS:]))
    return found


def in_forks(work: Callable[[], Any]) -> list[Any]:
    """Return the results of a function in two processes forked from this one."""
    found = []
    for _ in range(2):
        receiving, sending = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                raw = pickle.dumps(work())
                with os.fdopen(sending, "wb") as file:
                    file.write(raw)
            finally:
                os._exit(0)
        os.close(sending)
        with os.fdopen(receiving, "rb") as file:
            raw = file.read()
        os.waitpid(child, 0)
        if not raw:
            raise LostError("ends a forked process")
        found.append(pickle.loads(raw))
    return found


def forked(subject: Subject) -> list[Rows]:
    """Return a run of each of two processes that are forked after a first draw."""
    _drawn(subject, 0, 2)
    return in_forks(lambda: _run(subject))


def threaded(subject: Subject) -> list[Rows]:
    """Return a run of each of two threads."""
    found: list[Any] = [None, None]
    start = threading.Barrier(2)

    def work(i: int) -> None:
        start.wait()
        found[i] = _run(subject)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if any(run is None for run in found):
        raise LostError("fails in a thread")
    return found


def copies(original: Any, how: str) -> tuple[Any, Any] | None:
    """Return a mechanism and a copy of it; None if it cannot be copied."""
    makes: dict[str, Callable[[Any], Any]] = {
        "copy": copy.copy,
        "deep copy": copy.deepcopy,
        "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    }
    try:
        # Use two copies: the original may be a function, which cannot be copied.
        if how == "pickle":
            first, second = makes[how](original), makes[how](original)
        else:
            first, second = original, makes[how](original)
    except Exception:
        return None
    return None if first is second else (first, second)


def copied(subject: Subject, how: str) -> list[Rows] | None:
    """Return a run of the mechanism and of its copy; None if it cannot be copied."""
    both = copies(subject.mechanism, how)
    if both is None:
        return None
    return [_run(subject, each) for each in both]


def seeded(subject: Subject, how: str) -> list[Rows]:
    """Return two runs, each after the same seed of a global generator."""
    runs = []
    for _ in range(2):
        if how == "seed of numpy":
            np.random.seed(1)  # noqa: NPY002 - whether anybody uses it
        else:
            random.seed(1)
        runs.append(_run(subject))
    return runs


def called(subject: Subject) -> list[Rows]:
    """Return two consecutive runs: two calls if batched, or else alternating draws."""
    found = _run(subject), _run(subject)
    both = np.concatenate(found)
    if isinstance(subject.mechanism, Batched):
        return list(found)
    return [both[0::2], both[1::2]]


def of_both(subject: Subject) -> list[np.ndarray] | None:
    """Return the noise of both inputs; None if outputs are not numbers."""
    both = [noise(_drawn(subject, at, _RUN), subject.inputs[at]) for at in (0, 1)]
    found = [each for each in both if each is not None]
    return found if len(found) == 2 else None


def recurring(subject: Subject) -> list[np.ndarray] | None:
    """Return predictions by a generator's recurrence, and outputs; or None."""
    x = np.asarray(subject.inputs[0])
    if x.dtype.kind not in "biu" or x.ndim:
        return None
    found = _drawn(subject, 0, _generators.DRAWS)
    if found.values.dtype != np.int64 or not found.numbered().all():
        return None
    if found.values.shape[1] != 1:
        return None
    return _generators.compared(found.values[:, 0] - int(x))


TASKS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "fork": (forked, ()),
    "threads": (threaded, ()),
    **{how: (copied, (how,)) for how in ("copy", "deep copy", "pickle")},
    **{how: (seeded, (how,)) for how in ("seed of numpy", "seed of Python")},
    "next call": (called, ()),
    "other input": (of_both, ()),
    "generator": (recurring, ()),
}


# ---- the check -----------------------------------------------------------------------


def equal_rows(first: Rows, second: Rows) -> int:
    """Return the number of equal rows, compared in order."""
    n = min(len(first), len(second))
    if first.shape[1] != second.shape[1]:
        return 0
    return int((first[:n] == second[:n]).all(axis=1).sum())


def check(mechanism: Any, inputs: tuple[Any, Any], level: float) -> Finding:
    """Return the finding whether runs that should be independent agree.

    Parameters
    ----------
    mechanism : callable or Batched
    inputs : pair
    level : float
    """
    from scipy.special import bdtrc

    found: list[str] = []
    notes: list[str] = []
    tried = 0
    try:
        with Worker(mechanism, inputs) as worker:
            agreeing = max(worker.do(pairs))
    except (LostError, RuntimeError) as error:
        return _not_run(str(error).split("\n")[0])
    # The bounds on how often outputs, or their noise, agree for either input get half
    # of the level, and the runs the other half.
    rate = float(rates(np.array([agreeing]), _PAIRS, level / 8)[1][0])
    share = level / 2 / len(TASKS)
    for name, (task, arguments) in TASKS.items():
        try:
            with Worker(mechanism, inputs) as worker:
                runs = worker.do(task, *arguments)
        except (LostError, RuntimeError) as error:
            notes.append(f"{name}: not tried, {_last_line(error)}")
            continue
        if runs is None:
            notes.append(f"{name}: not tried, the mechanism does not allow it")
            continue
        tried += 1
        equal, n = equal_rows(*runs), min(map(len, runs))
        # A prediction is a single value; there are three: one word, or two words in
        # either order.
        most, ways = (rate**0.5, 3) if name == "generator" else (rate, 1)
        p = ways * float(bdtrc(equal - 1, n, most)) * (1 + ERROR) if equal else 1.0
        if p <= share:
            found.append(f"{COMPARED[name]}: {equal} of {n} outputs are the same")
    if rate**_RUN > share:
        notes.append("outputs agree so often by chance that repeats are not seen")
    return Finding(
        check="state",
        status="fault" if found else "nothing found",
        tried=TRIED,
        evidence="; ".join(found) or f"no repeats in {tried} comparisons",
        false_alarm=level,
        power="noise that is drawn twice in half of the draws, for outputs that differ",
        notes=tuple(notes),
    )


def _last_line(error: Exception) -> str:
    return str(error).strip().split("\n")[-1]


def _not_run(why: str) -> Finding:
    return Finding(
        check="state", status="not run", tried=TRIED, evidence=why, false_alarm=0.0
    )
