# ruff: noqa: E402, F401, F811 - skipped by name before; fixtures
"""Spark on two executors, of which one is killed between stages."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time

import pytest

import fastdp
from fastdp import frames
from fastdp.testing import FixedStream
from tests.engines.conftest import needs, spent
from tests.engines.spark import session

pa = pytest.importorskip("pyarrow")
needs("pyspark", program="java")

from tests.engines import faults
from tests.engines.accidents import _empty, emptied, sink

NOISE = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)


@pytest.fixture(scope="module")
def cluster(sink):
    found = session(
        "local-cluster[2,1,512]",
        env={faults.SINK: str(sink)},
        spark_executor_memory="512m",
    )
    yield found
    found.stop()


def killed_when(sink, parts):
    """Kill one executor as soon as so many partitions have passed."""

    def watch():
        while len(found := faults.seen(sink, "executor")) < parts:
            time.sleep(0.005)
        os.kill(int(found[0][0][0]), signal.SIGKILL)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def disturbed(sink, release):
    """Kill an executor between the stages of a release; return all that it answered.

    A release may end before the kill is felt: then there is another.
    """
    answers = []
    for trial in range(8):
        emptied(sink)
        thread = killed_when(sink, 4)
        answers.append(release(trial))
        thread.join(60)
        runs = [len(drawn) for drawn in faults.seen(sink, "executor").values()]
        print(f"runs of the partitions of the first stage: {runs}")
        if sum(runs) > 4:  # what was lost was computed again
            return answers
    raise AssertionError("no kill was felt")


def records(spark):
    rows = spark.range(0, 40_000, 1, 4)
    rows = rows.selectExpr("id div 10 as user", "id % 7 as town", "id % 50 as cost")
    return rows.mapInArrow(faults.marked, rows.schema)


def test_an_executor_that_dies_between_stages(cluster, sink, ledger):
    grouped = cluster.range(0, 8000, 1, 4).selectExpr("id % 400 as k").groupBy("k")
    counts = grouped.agg({"*": "count"}).toDF("k", "n").repartition(4, "k")
    lazy = counts.mapInArrow(functools.partial(faults.noisy, NOISE), counts.schema)
    kept = lazy.cache()
    first = {row.k: row.n for row in kept.collect()}
    os.kill(int(faults.seen(sink, "executor")[0][0][0]), signal.SIGKILL)
    again = {row.k: row.n for row in kept.collect()}
    equal = sum(first[k] == again[k] for k in first)
    print(f"cached noise, an executor killed: {equal} of 400 equal")
    assert equal < 390  # old and new noise in one answer

    ask = {
        "by": "town",
        "count": True,
        "mean": "cost",
        "bounds": {"cost": (0, 50)},
        "user": "user",
        "groups_per_user": 3,
        "rho": 1,
        "keys": pa.table({"town": range(7)}),
    }

    def release(_):
        words = FixedStream("s")
        return frames.aggregate(records(cluster), ledger=None, stream=words, **ask)

    emptied(sink)
    calm = release(0)
    assert len(faults.seen(sink, "executor")[0]) == 1
    for loud in disturbed(sink, release):
        assert loud.frame.collect() == calm.frame.collect()

    ask |= {"ledger": ledger, "budgets": "users"}
    del ask["rho"]

    def charge(trial):
        weeks = ask | {"label": f"week {trial}"}
        return frames.aggregate(records(cluster), epsilon=1, **weeks)

    charged = disturbed(sink, charge)
    again = charge(0)
    assert again.replayed
    assert again.frame.collect() == charged[0].frame.collect()
    assert spent(ledger, "users") == len(charged)
