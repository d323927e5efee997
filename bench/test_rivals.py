"""Other libraries at the same work: the ones that are installed.

Each line says whether the library's noise is exact and its randomness secure;
speed alone compares unlike things.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fastdp.cli import _rivals

GROUP = "rivals, {}"
SIZE = 10**5
TASKS = {rival.task.name: rival.task for rival in _rivals.RIVALS}


def data_of(task: _rivals.Task) -> _rivals.Array:
    return task.data(int(SIZE * task.scale))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "rival", _rivals.RIVALS, ids=lambda rival: f"{rival.name}, {rival.task.name}"
)
def test_rival(measure: Callable[..., None], rival: _rivals.Rival) -> None:
    data = data_of(rival.task)[: rival.most]
    call = _rivals.prepare(rival, data)
    if call is None:
        pytest.skip(f"{rival.name} cannot be imported, or fails")
    measure(
        GROUP.format(rival.task.name),
        len(data) * rival.task.samples,
        call,
        exact=rival.exact,
        secure=rival.secure,
    )


@pytest.mark.parametrize("name", TASKS)
def test_fastdp(measure: Callable[..., None], name: str) -> None:
    task = TASKS[name]
    data = data_of(task)
    size = len(data) * task.samples
    measure(GROUP.format(name), size, task.ours(data), exact=True, secure=True)


def test_numpy(measure: Callable[..., None], generator: np.random.Generator) -> None:
    counts = data_of(_rivals.NOISE)

    def noised() -> object:
        return counts + np.rint(generator.laplace(0.0, 10.0, SIZE)).astype(np.int64)

    measure(GROUP.format(_rivals.NOISE.name), SIZE, noised, exact=False, secure=False)
