"""Threads that add to one accumulator lose and double nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import ParameterError
from fastdp.mechanisms.records._totals import Totals

THREADS, TIMES, ENTRIES = 4, 200, 20_000


@pytest.fixture
def _restless() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def together(work: Any) -> None:
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("_restless")
def test_sums_of_threads_are_whole() -> None:
    totals, part = Totals((ENTRIES,)), np.full(ENTRIES, 2**31 + 1)

    def work() -> None:
        for _ in range(TIMES):
            totals.add(part.copy(), 2**28)

    together(work)
    assert set(totals.exact().tolist()) == {THREADS * TIMES * (2**31 + 1)}


@pytest.mark.usefixtures("_restless")
def test_rows_of_threads_count_once() -> None:
    m = fastdp.ClippedSum.from_rho(1, radius=1, dimension=1, constant=1, blocks=3)
    column = fastdp.Moments.from_rho(1, bounds=(0, 1))
    sums, moments = m.accumulator(), column.accumulator()

    def work() -> None:
        for _ in range(TIMES):
            sums.add(np.ones((5, 1)), labels=np.array([0, 1, 2, 2, 9]))
            moments.add(np.ones(7))

    together(work)
    each = THREADS * TIMES
    assert sums._totals[0].exact().ravel().tolist() == [each, each, 2 * each]
    assert moments._totals[0].exact()[0, 0] == 7 * each


def test_an_accumulator_is_not_merged_with_itself() -> None:
    for m in (
        fastdp.ClippedSum.from_rho(1, radius=1, dimension=2),
        fastdp.Moments.from_rho(1, bounds=(0, 1)),
    ):
        part: Any = m.accumulator()
        with pytest.raises(ParameterError, match="count records twice"):
            part.merge(part)
        part.merge(m.accumulator())
