"""A sparse vector among threads and processes: a single threshold and limit."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp._stream import Stream
from fastdp.exceptions import BudgetExceededError, DTypeError

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def together(count: int, work: Callable[[], None]) -> None:
    """Run `work` on this many threads, which start at the same moment."""
    start = threading.Barrier(count)

    def run() -> None:
        start.wait()
        work()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("answers", [1, 7, 40])
def test_threads_share_the_answers(answers: int) -> None:
    vector = fastdp.SparseVector(100, epsilon=50, answers=answers, sensitivity=1)
    said: list[bool] = []
    refused: list[int] = []

    def work() -> None:
        for _ in range(10):
            try:
                said.append(bool(vector.test(1e6)))
            except BudgetExceededError:
                refused.append(1)

    together(16, work)
    assert said == [True] * answers
    assert len(refused) == 160 - answers
    assert vector.spent


def test_threads_with_arrays() -> None:
    vector = fastdp.SparseVector(
        100, epsilon=50, answers=30, numeric_epsilon=1, sensitivity=1
    )
    values = np.zeros(1000)
    values[::50] = 1e6
    above: list[int] = []

    def work() -> None:
        for ask in (vector.test, vector.answer):
            try:
                found = ask(values)
            except BudgetExceededError:
                continue
            above.append(int((found == 1).sum() + (found > 1).sum()))

    together(8, work)
    assert sum(above) == 30


# ---- processes -------------------------------------------------------------------


def in_child(fork: Callable[[], int], work: Callable[[], Any]) -> Any:
    """Return what `work` gives in a child that `fork` makes."""
    read, write = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.write(write, pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        found = pickle.loads(pipe.read())
    assert os.waitpid(child, 0)[1] == 0
    return found


def attempt(vector: Any) -> tuple[str, int, list[int]]:
    """Ask in a child; return the error, the answers left, the threshold it sees."""
    errors = []
    for ask in (vector.test, vector.answer):
        try:
            ask(1e6)
            errors.append("answered")
        except BudgetExceededError as error:
            errors.append(str(error))
    (error,) = set(errors)
    return error, vector.remaining, vector._noisy_threshold.tolist()


ALONE = "a sparse vector must be used in the process that made it"


@needs_fork
def test_a_forked_child_gets_no_answer_and_no_threshold() -> None:
    vector = fastdp.SparseVector(
        100, epsilon=50, answers=3, numeric_epsilon=1, sensitivity=1
    )
    vector.test(0)
    for _ in range(5):
        assert in_child(os.fork, lambda: attempt(vector)) == (ALONE, 3, [0])
    assert vector.test(1e6)
    assert vector.remaining == 2


@needs_fork
def test_children_of_children() -> None:
    vector = fastdp.SparseVector(100, epsilon=50, numeric_epsilon=1, sensitivity=1)
    found = in_child(
        os.fork, lambda: (attempt(vector), in_child(os.fork, lambda: attempt(vector)))
    )
    assert found == ((ALONE, 1, [0]), (ALONE, 1, [0]))


@needs_fork
def test_a_child_makes_its_own() -> None:
    fastdp.SparseVector(100, epsilon=50, sensitivity=1)

    def work() -> tuple[bool, bool]:
        own = fastdp.SparseVector(100, epsilon=50, sensitivity=1)
        return bool(own.test(1e6)), own.spent

    assert in_child(os.fork, work) == (True, True)


@needs_fork
def test_the_process_number_alone_does_not_let_a_child_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a new namespace of processes, where the child may have the same one."""
    vector = fastdp.SparseVector(100, epsilon=50, numeric_epsilon=1, sensitivity=1)
    number = os.getpid()

    def work() -> Any:
        monkeypatch.setattr(os, "getpid", lambda: number)
        return attempt(vector)

    assert in_child(os.fork, work)[0] == ALONE


@needs_fork
def test_a_fork_that_python_does_not_see() -> None:
    """The C library's own fork runs no handler of ours: the number tells."""
    vector = fastdp.SparseVector(100, epsilon=50, numeric_epsilon=1, sensitivity=1)
    fork = ctypes.PyDLL(None).fork
    assert in_child(fork, lambda: attempt(vector))[0] == ALONE
    assert vector.test(1e6)


@pytest.mark.rest
@needs_fork
def test_a_fork_under_the_lock_does_not_hang_the_child() -> None:
    vector = fastdp.SparseVector(1e9, epsilon=50, numeric_epsilon=1, sensitivity=1)
    stop = threading.Event()

    def background() -> None:
        while not stop.is_set():
            vector.test(np.zeros(50_000))

    thread = threading.Thread(target=background)
    thread.start()
    try:
        for _ in range(20):
            assert in_child(os.fork, lambda: attempt(vector)) == (ALONE, 1, [0])
    finally:
        stop.set()
        thread.join()
    assert vector.remaining == 1


@needs_fork
def test_a_fork_within_a_call_gives_the_child_no_answer() -> None:
    """As from a signal's handler, which runs between any two steps of a call."""
    vector = fastdp.SparseVector(100, epsilon=50, sensitivity=1)
    read, write = os.pipe()

    class Forking(Stream):
        def _next_call(self) -> Any:
            self.child = os.fork()
            return _core.CIPHERS["chacha20"], bytes(32), None

    stream = Forking()
    try:
        answer = str(vector.test(1e6, stream=stream))
    except BudgetExceededError as error:
        answer = str(error)
    if stream.child == 0:
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read().decode() == ALONE
    assert os.waitpid(stream.child, 0)[1] == 0
    assert answer == "True"


def _ask(vector: Any) -> bool:
    return bool(vector.test(1e6))


def test_no_way_to_another_process() -> None:
    vector = fastdp.SparseVector(100, epsilon=50, sensitivity=1)
    with (
        multiprocessing.get_context("spawn").Pool(1) as pool,
        pytest.raises(DTypeError, match="cannot be copied or pickled"),
    ):
        pool.apply(_ask, (vector,))
    assert vector.remaining == 1
