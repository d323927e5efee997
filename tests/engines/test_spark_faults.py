# ruff: noqa: E402, F401, F811 - skipped by name before; fixtures
"""Spark that loses workers: one visible answer, one charge, no leavings.

Each accident first meets the naive form, and the second draw must be seen.
"""

from __future__ import annotations

import functools
import signal
import subprocess
import sys

import numpy as np
import pytest

import fastdp
from fastdp import frames
from tests.engines.conftest import ROOT, needs, spent, with_budgets
from tests.engines.spark import session

pytest.importorskip("pyarrow")
needs("pyspark", program="java")

from tests.engines import faults
from tests.engines.accidents import _empty, people, shown_once, sink
from tests.ledger.conftest import database, server

NOISE = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)


@pytest.fixture(scope="module")
def local(sink):
    found = session("local[2,4]")
    yield found
    found.stop()


def test_a_worker_that_dies_after_the_draw(local, sink, ledger, tmp_path):
    m = fastdp.RandomizedResponse.from_epsilon(2, categories=16)
    task = functools.partial(faults.naive, m, "browser", faults.die_once)
    lazy = people(local).select("browser").mapInArrow(task, "browser long")
    first = lazy.collect()
    twice = faults.seen(sink, "naive")[0]
    assert len(twice) == 2  # two draws of the same rows, both out
    assert not np.array_equal(*twice)
    assert lazy.collect() != first

    m = faults.Response.from_epsilon(2, categories=16)
    dying = faults.DyingTally.from_epsilon(2, categories=16)
    drawn = shown_once(local, m, ledger, sink, tmp_path, dying)
    assert [len(drawn[part]) for part in range(4)] == [2, 1, 1, 1]
    assert len(faults.seen(sink, "tally")[0]) == 2  # the accident was met there, too


def test_the_same_with_a_ledger_in_postgresql(local, sink, database, tmp_path):
    with fastdp.ledger.create(database) as book:
        m = faults.Response.from_epsilon(2, categories=16)
        drawn = shown_once(local, m, with_budgets(book), sink, tmp_path)
    assert len(drawn[0]) == 2


DRIVER = """
import os, signal, sys
import fastdp
from fastdp import frames
from tests.engines.spark import session

class DiscreteLaplace(fastdp.DiscreteLaplace):
    def release(self, values, **options):
        if values.any():  # the ledger rehearses on zeros
            print("drawn", super().release(values, **options), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().release(values, **options)

spark = session("local[1]")
counts = spark.range(400).selectExpr("id % 4 as k").groupBy("k").count()
m = DiscreteLaplace.from_epsilon(1, sensitivity=1)
with fastdp.ledger.open(sys.argv[1]) as book:
    charge = {"ledger": book, "budgets": "users", "label": "c"}
    frames.release(counts, {"count": m}, keys="k", **charge)
"""


def test_a_driver_that_dies_after_the_draw(local, ledger, tmp_path):
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "budget.db")]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == -signal.SIGKILL, found.stderr
    assert "drawn" in found.stdout
    assert spent(ledger, "users") == 1
    counts = local.range(400).selectExpr("id % 4 as k").groupBy("k").count()
    options = {"keys": "k", "ledger": ledger, "budgets": "users", "label": "c"}
    first = frames.release(counts, {"count": NOISE}, **options).collect()
    assert frames.release(counts, {"count": NOISE}, **options).collect() == first
    assert spent(ledger, "users") == 1  # the same charge: nobody saw the first draw
    assert ledger.audit().ok
