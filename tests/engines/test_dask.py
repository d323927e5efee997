"""Dask on one machine, whose workers are killed: one visible answer, one charge."""

from __future__ import annotations

import functools
import os
import signal
import time

import numpy as np
import pytest

import fastdp
from fastdp import frames
from fastdp.exceptions import (
    DTypeError,
    FastDPError,
    LabelConflictError,
    ParameterError,
)
from fastdp.testing import FixedStream
from tests.engines import killed
from tests.engines.conftest import needs, spent, staged
from tests.engines.killed import PARTS, RESPONSE, ROWS

needs("dask")
needs("distributed")
pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def client(folder):
    import dask
    from distributed import Client, LocalCluster, WorkerPlugin

    class Plant(WorkerPlugin):
        def __init__(self, folder):
            self.folder = folder

        def setup(self, worker):
            from tests.engines.killed import plant

            plant(self.folder)

    dask.config.set({"distributed.comm.timeouts.connect": "10s"})
    options = {"processes": True, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as found:
        found.register_plugin(Plant(str(folder)))
        yield found


@pytest.fixture(scope="module")
def people(client):
    from dask import dataframe

    rows = {"browser": np.arange(ROWS) % 16, "id": np.arange(ROWS)}
    return dataframe.from_pandas(pd.DataFrame(rows), npartitions=PARTS)


def columns(frame):
    found = frame.compute().sort_values("id")
    return found["id"].tolist(), found["browser"].to_numpy()


def noisy(folder, frame):
    return frame.assign(browser=killed.naive(RESPONSE, folder, frame))


def kill_one(client):
    """Kill the worker that holds most results, and wait until Dask has seen it."""
    held = client.has_what()
    address = max(held, key=lambda worker: len(held[worker]))
    os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)
    end = time.monotonic() + 60
    while address in client.scheduler_info()["workers"] and time.monotonic() < end:
        time.sleep(0.1)
    client.wait_for_workers(2, timeout=180)


# ---- the naive form: what the tests can see --------------------------------------


def test_a_task_in_dask_draws_again_where_a_worker_is_killed(client, people, folder):
    killed.notes(folder)
    (folder / "kill").touch()
    people.map_partitions(functools.partial(noisy, str(folder)), meta=people).compute()
    assert not (folder / "kill").exists()
    drawn = killed.notes(folder)
    assert len(drawn) > PARTS
    assert len(set(drawn)) == len(drawn)


def test_persisted_noise_is_drawn_again_where_a_worker_is_killed(
    client, people, folder
):
    from distributed import wait

    lazy = people.map_partitions(functools.partial(noisy, str(folder)), meta=people)
    kept = lazy.persist()
    wait(kept)
    _, first = columns(kept)
    kill_one(client)
    _, second = columns(kept)
    assert 0 < (first != second).mean() < 0.9  # old and new noise in one column


# ---- the adapter -----------------------------------------------------------------


@pytest.mark.parametrize("fault", [None, "kill", "others"])
def test_reports_are_drawn_once_whoever_is_killed(
    client, people, folder, ledger, tmp_path, fault
):
    killed.notes(folder)
    if fault == "kill":  # after the draw, before its result
        (folder / "kill").touch()
    elif fault == "others":  # the holder of results
        pids = client.run(os.getpid).values()
        (folder / "others").write_text(" ".join(map(str, pids)))
    ask = {"path": tmp_path / "it's out", "ledger": ledger, "budgets": "rows"}
    reports = frames.randomize(people, {"browser": RESPONSE}, label="r", **ask)
    if fault is not None:
        assert not (folder / fault).exists()
    drawn = killed.notes(folder)
    if fault == "kill":
        assert len(drawn) > PARTS  # Dask did draw again
    first = killed.drawn_once(columns(reports))
    kill_one(client)
    assert np.array_equal(columns(reports)[1], first)
    again = frames.randomize(people, {"browser": RESPONSE}, label="r", **ask)
    assert np.array_equal(columns(again)[1], first)
    killed.paid_once(folder, ledger, ask["path"])


def test_a_tally_is_the_same_whoever_is_killed(client, people, folder, tmp_path):
    killed.tallied_alike(people, columns, folder, tmp_path / "out")


# ---- refused, before anything runs -----------------------------------------------


def boom(frame):
    raise ValueError("jane doe 1961 was read")


def test_what_is_wrong_is_told_before_a_row_is_read(client, people, ledger, tmp_path):
    text = people.assign(name="jane")
    never = text.map_partitions(boom, meta=text)
    out = {"path": tmp_path / "out"}
    counts = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    for call, message in (
        (lambda: frames.randomize(never, {"x": RESPONSE}, **out), "'x'"),
        (lambda: frames.randomize(never, {"name": RESPONSE}, **out), "name|values"),
        (lambda: frames.randomize(never, {"id": counts}, **out), "another kind"),
        (lambda: frames.randomize(never, {"id": RESPONSE}), "path must be"),
        (
            lambda: frames.randomize(never, {"id": RESPONSE}, path="s3://a"),
            "no address",
        ),
        (
            lambda: frames.randomize(
                never, {"id": RESPONSE}, **out, stream=FixedStream("s")
            ),
            "stream must be left out",
        ),
        (lambda: frames.tally(never, RESPONSE, column="x"), "'x'"),
        (lambda: frames.tally(never, RESPONSE, column="name"), "name|reports"),
        (
            lambda: frames.release(never, {"id": counts}, keys="name", ledger=None),
            "compute the aggregate",
        ),
    ):
        with pytest.raises((DTypeError, ParameterError), match=message):
            call()
    charge = {"ledger": ledger, "label": "x", "budgets": "rows", **out}
    with pytest.raises(FastDPError, match="by Dask") as raised:
        frames.randomize(never, {"id": RESPONSE}, **charge)
    assert "jane" not in str(raised.value)
    frames.randomize(people, {"id": RESPONSE}, **charge)  # the next attempt finishes
    assert spent(ledger, "rows") == 2 * 2  # and pays for its own draw
    with pytest.raises(LabelConflictError):
        frames.randomize(never, {"browser": RESPONSE}, **charge)
    with pytest.raises(ParameterError, match="must not exist"):
        frames.randomize(never, {"id": RESPONSE}, **out)
    assert staged(tmp_path) == []


def test_a_cluster_that_was_stopped_is_told(client, people):
    """Last of the file: it stops the engine."""
    kept = people.persist()
    client.cluster.close()
    client.close()
    with pytest.raises(FastDPError, match="by Dask"):
        frames.tally(kept, RESPONSE, column="browser")
