"""Nothing is shared between calls, copies, threads and processes.

Noise at scale 2**40 has 42 random bits a value: two equal values in a row, 128 bits
of output, have probability below 2**-80 for any pair of places, so that one repeated
pair anywhere is a shared stream.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdp

M = fastdp.DiscreteLaplace(2**40)
G = fastdp.DiscreteGaussian(2**40)
L = fastdp.Laplace(2**40, granularity=2, coordinates=1)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def assert_no_run_repeats(draws: list[np.ndarray]) -> None:
    """Check that no two consecutive values occur twice anywhere."""
    pairs = np.concatenate([np.stack([d[:-1], d[1:]], axis=1) for d in draws])
    rows = np.ascontiguousarray(pairs).view("V16").reshape(-1)
    repeated = len(rows) - len(np.unique(rows))
    assert repeated == 0, f"{repeated} runs of 128 bits occur more than once"


def draw_all(n: int = 8) -> list[np.ndarray]:
    """Draw by every road: functions, scalars and arrays, integers and reals."""
    return [
        fastdp.random.discrete_laplace(2**40, size=n),
        fastdp.random.discrete_gaussian(2**40, size=n, workers=2),
        np.array([fastdp.random.discrete_laplace(2**40) for _ in range(3)]),
        M.release(np.zeros(n, np.int64)),
        np.array([G.release(0), G.release(np.int64(0)), G.release(0)]),
        L.release(np.zeros(n)).astype(np.int64),
        fastdp.random.integers(-(2**63), 2**63, size=n),
        np.frombuffer(fastdp.random.bytes(8 * n), np.int64),
        np.array([L.release(0.0), L.release(0.0)]).astype(np.int64),
    ]


def draw_some() -> list[np.ndarray]:
    """Draw by the three shortest roads."""
    return [
        M.release(np.zeros(6, np.int64)),
        np.array([G.release(0), G.release(np.int64(0)), G.release(0)]),
        fastdp.random.discrete_laplace(2**40, size=4),
    ]


def test_the_check_finds_a_repeat() -> None:
    shared = fastdp.random.discrete_laplace(2**40, size=4)
    with pytest.raises(AssertionError, match="1 runs"):
        assert_no_run_repeats([shared, np.r_[7, shared[1:3], 9]])


def test_calls() -> None:
    assert_no_run_repeats([d for _ in range(500) for d in draw_all()])


def in_children(count: int, work: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    """Return what `work` gives in each of `count` forked children, one by one."""
    draws: list[np.ndarray] = []
    for _ in range(count):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(read)
                with os.fdopen(write, "wb") as pipe:
                    pickle.dump(work(), pipe)
                status = 0
            finally:
                os._exit(status)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(child, 0)
        assert status == 0
        draws += pickle.loads(data)
    return draws


@pytest.mark.rest
@needs_fork
def test_sixty_forked_children() -> None:
    draws = draw_all()
    draws += in_children(60, draw_some)
    draws += draw_all()
    assert_no_run_repeats(draws)


@pytest.mark.rest
@needs_fork
def test_children_of_children() -> None:
    draws = in_children(8, lambda: draw_all() + in_children(3, draw_all))
    assert len(draws) == 8 * 4 * len(draw_all())
    assert_no_run_repeats(draws + draw_all())


@pytest.mark.rest
@needs_fork
def test_fork_while_a_thread_draws() -> None:
    draws: list[np.ndarray] = []
    stop = threading.Event()

    def background() -> None:
        while not stop.is_set():
            draws.append(M.release(np.zeros(50_000, np.int64)))
            del draws[20:]

    thread = threading.Thread(target=background)
    thread.start()
    try:
        found = in_children(20, lambda: [M.release(np.zeros(64, np.int64))])
    finally:
        stop.set()
        thread.join()
    assert_no_run_repeats(found + draws)


def _spawned(_: int) -> list[np.ndarray]:
    return draw_all()


@pytest.mark.stat(1e-30)  # some thousand runs of 128 bits, of processes of their own
def test_spawned_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(_spawned, range(6), chunksize=1)
    assert_no_run_repeats([d for draws in found for d in draws] + draw_all())


def threads_draw(count: int, n: int) -> list[np.ndarray]:
    draws: list[np.ndarray] = []
    start = threading.Barrier(count)

    def work() -> None:
        start.wait()
        mine = [M.release(np.zeros(n, np.int64)), *draw_all(16)]
        mine += [np.array([M.release(0) for _ in range(50)])]
        draws.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(draws) == 11 * count
    return draws


def test_64_threads_on_one_mechanism() -> None:
    assert_no_run_repeats(threads_draw(64, 10_000))


@pytest.mark.slow
def test_64_threads_of_1e5_values() -> None:
    assert_no_run_repeats(threads_draw(64, 100_000))


@pytest.mark.slow
@needs_fork
def test_ten_thousand_forked_children() -> None:
    assert_no_run_repeats(in_children(10_000, draw_some))


@pytest.mark.parametrize("m", [M, G, L], ids=repr)
def test_copies_draw_for_themselves(m: Any) -> None:
    x = np.zeros(64, np.float64 if m is L else np.int64)
    m.release(x)
    family = [m, copy.copy(m), copy.deepcopy(m), pickle.loads(pickle.dumps(m))]
    draws = [again.release(x).astype(np.int64) for again in family for _ in range(20)]
    one = type(x[0])(0)
    draws += [np.array([again.release(one) for _ in range(9)]) for again in family]
    assert_no_run_repeats([d.astype(np.int64) for d in draws])


def test_seeds_elsewhere_are_ignored() -> None:
    draws = []
    for _ in range(20):
        np.random.seed(1)
        random.seed(1)
        draws += draw_all()
    assert_no_run_repeats(draws)


def test_environment_does_not_seed() -> None:
    code = "import fastdp; x = fastdp.random.discrete_laplace(2**40, size=8);"
    code += "print(*x.tolist())"
    settings = {"PYTHONHASHSEED": "0", "FASTDP_SEED": "1", "FASTDP_KEY": "00" * 32}
    draws = []
    for _ in range(3):
        text = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        draws.append(np.array([int(word) for word in text.split()]))
    assert_no_run_repeats(draws)
