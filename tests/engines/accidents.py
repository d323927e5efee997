"""What all accidents are tested by: reports that are shown once, whatever was drawn."""

from __future__ import annotations

import os

import numpy as np
import pytest

import fastdp
from fastdp import frames
from tests.engines import faults
from tests.engines.conftest import spent, staged

PEOPLE = 4000


@pytest.fixture(scope="module")
def sink(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sink")
    os.environ[faults.SINK] = str(folder)
    return folder


@pytest.fixture(autouse=True)
def _empty(sink):
    emptied(sink)


def emptied(sink):
    for path in sink.iterdir():
        path.unlink()


def people(spark):
    return spark.range(0, PEOPLE, 1, 4).selectExpr("id % 16 as browser", "id")


def undisturbed(rows):
    drawn = np.array([row.browser for row in rows])
    plain = fastdp.RandomizedResponse.from_epsilon(2, categories=16)
    return plain.aggregator().add(drawn)


def shown_once(spark, m, book, sink, folder, tally=None):
    """Randomize under an accident; check the one answer, and return how often drawn."""
    charge = {"path": folder / "reports", "ledger": book, "budgets": "rows"}
    charge["label"] = "r"
    reports = frames.randomize(people(spark), {"browser": m}, **charge)
    rows = reports.collect()
    assert sorted(row.id for row in rows) == list(range(PEOPLE))
    assert reports.collect() == rows
    assert frames.randomize(people(spark), {"browser": m}, **charge).collect() == rows
    assert spent(book, "rows") == 2
    assert staged(folder) == []
    assert book.audit().ok
    drawn = faults.seen(sink, "adapter")
    by_id = np.array([row.browser for row in sorted(rows, key=lambda row: row.id)])
    for part, shown in enumerate(np.split(by_id, 4)):  # one attempt of each, whole
        assert any(np.array_equal(shown, attempt) for attempt in drawn[part])
    counted = frames.tally(reports, tally or m, column="browser")
    assert counted.users == PEOPLE
    assert counted._state()[2] == undisturbed(rows)._state()[2]
    return drawn
