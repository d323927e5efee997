# ruff: noqa: E402, F401, F811 - skipped by name before; fixtures
"""Spark with two workers that runs a slow task twice."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest

import fastdp
from tests.engines.conftest import needs
from tests.engines.spark import session, standalone

pytest.importorskip("pyarrow")
needs("pyspark", program="java")

from tests.engines import faults
from tests.engines.accidents import _empty, people, shown_once, sink


@pytest.fixture(scope="module")
def hosts(sink, tmp_path_factory):
    with standalone(tmp_path_factory.mktemp("spark")) as master:
        found = session(
            master,
            env={faults.SINK: str(sink)},
            spark_speculation="true",
            spark_speculation_interval="200ms",
            spark_speculation_multiplier="1.5",
            spark_speculation_quantile="0.5",
            spark_speculation_efficiency_enabled="false",
            spark_executor_memory="512m",
            spark_executor_cores="1",
        )
        yield found
        found.stop()


def test_a_slow_task_is_run_twice(hosts, sink, ledger, tmp_path):
    m = fastdp.RandomizedResponse.from_epsilon(2, categories=16)
    people(hosts).count()  # both workers are there
    # What waits holds its worker until it has waited, also when it was overtaken.
    wait = functools.partial(faults.wait_once, 15)
    task = functools.partial(faults.naive, m, "browser", wait)
    people(hosts).select("browser").mapInArrow(task, "browser long").collect()
    time.sleep(0.5)
    twice = faults.seen(sink, "naive")[0]
    assert len(twice) == 2
    assert not np.array_equal(*twice)

    m = faults.SlowResponse.from_epsilon(2, categories=16)
    drawn = shown_once(hosts, m, ledger, sink, tmp_path)
    assert len(drawn[0]) == 2
