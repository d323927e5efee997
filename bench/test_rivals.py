"""Other libraries at the same work: the ones that are installed.

Each line says whether the library's noise is exact and its randomness secure;
speed alone compares unlike things.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench import rivals

GROUP = "rivals, {}"
SIZE = 10**5
TASKS = {rival.task.name: rival.task for rival in rivals.RIVALS}


def data_of(task: rivals.Task) -> rivals.Array:
    return task.data(int(SIZE * task.scale))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "rival", rivals.RIVALS, ids=lambda rival: f"{rival.name}, {rival.task.name}"
)
def test_rival(measure: Callable[..., None], rival: rivals.Rival) -> None:
    data = data_of(rival.task)[: rival.most]
    call = rivals.prepare(rival, data)
    if isinstance(call, Exception):
        pytest.skip(f"{rival.name}: {call}")
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
