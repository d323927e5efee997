# ruff: noqa: E402, F401, F811 - skipped by name before; fixtures
"""Spark on two executors; one of them is killed between stages."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time

import pytest

import fastdp
from fastdp.testing import FixedStream
from tests.engines.conftest import needs, spent
from tests.engines.spark import session

pytest.importorskip("pyarrow")
needs("pyspark", program="java")

from tests.engines import faults
from tests.engines.accidents import _empty, emptied, sink

NOISE = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
PARTS = 4


@pytest.fixture(scope="module")
def cluster(sink):
    found = session(
        "local-cluster[2,1,512]",
        env={faults.SINK: str(sink)},
        spark_executor_memory="512m",
    )
    yield found
    found.stop()


def disturbed(sink, release):
    """Return a release's answer, an executor being killed within its first stage.

    The stage is kept open by its last task until an executor is dead that has passed
    a partition: whatever the machine's speed, what it held must be computed again.
    """

    def kill():
        while len(found := faults.seen(sink, "executor")) < PARTS:
            time.sleep(0.02)
        os.kill(int(found[0][0][0]), signal.SIGKILL)
        (sink / "waits").unlink()

    emptied(sink)
    (sink / "waits").touch()
    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    answer = release()
    thread.join(60)
    runs = [len(drawn) for drawn in faults.seen(sink, "executor").values()]
    print(f"runs of the partitions of the first stage: {runs}")
    assert sum(runs) > PARTS  # what was lost was computed again
    return answer


def records(spark):
    rows = spark.range(0, 40_000, 1, PARTS)
    rows = rows.selectExpr("id div 10 as user", "id % 7 as town", "id % 50 as cost")
    return rows.mapInArrow(functools.partial(faults.marked, PARTS), rows.schema)


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
        "unit": fastdp.Unit("user", groups=3, records=1, name="person"),
        "keys": [*range(7)],
    }

    def release():
        plan = fastdp.Plan(rho=1, **ask)
        return plan.release(records(cluster), stream=FixedStream("s"))

    emptied(sink)
    calm = release()
    assert len(faults.seen(sink, "executor")[0]) == 1
    assert disturbed(sink, release).table().collect() == calm.table().collect()

    def charge():
        plan = fastdp.Plan(epsilon=1, **ask)
        charged = {"ledger": ledger, "budgets": "users", "label": "week 47"}
        return plan.release(records(cluster), **charged)

    charged, again = disturbed(sink, charge), charge()
    assert again.replayed
    assert again.table().collect() == charged.table().collect()
    assert spent(ledger, "users") == 1
