"""Ray on one machine, whose workers are killed: one visible answer, one charge."""

from __future__ import annotations

import os

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
from tests.engines import killed
from tests.engines.conftest import needs, staged
from tests.engines.killed import PARTS, RESPONSE, ROWS

needs("ray")
pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def engine(folder):
    import ray

    os.environ[killed.VARIABLE] = str(folder)
    # Workers are niced, and given up when they start slowly: not on a busy machine.
    os.environ.update(
        RAY_worker_niceness="0", RAY_worker_register_timeout_seconds="300"
    )
    ray.init(
        num_cpus=2,
        object_store_memory=200 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"worker_process_setup_hook": "tests.engines.killed.plant"},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def people(engine):
    rows = {"browser": np.arange(ROWS) % 16, "id": np.arange(ROWS)}
    parts = np.split(np.arange(ROWS), PARTS)
    tables = [pa.table({n: cells[part] for n, cells in rows.items()}) for part in parts]
    return engine.data.from_arrow(tables)


def columns(dataset):
    found = dataset.to_pandas().sort_values("id")
    return found["id"].tolist(), found["browser"].to_numpy()


# ---- the naive form: what the tests can see --------------------------------------


def test_a_task_in_ray_draws_again_where_a_worker_is_killed(people, folder):
    place = str(folder)

    def noisy(block):
        return {**block, "browser": killed.naive(RESPONSE, place, block)}

    lazy = people.map_batches(noisy, batch_size=None)
    killed.notes(folder)
    (folder / "kill").touch()
    _, first = columns(lazy)
    assert not (folder / "kill").exists()
    drawn = killed.notes(folder)
    assert len(drawn) > PARTS
    assert len(set(drawn)) == len(drawn)
    _, second = columns(lazy)
    assert (first != second).mean() > 0.2


# ---- the adapter -----------------------------------------------------------------


@pytest.mark.parametrize("fault", [None, "kill"])
def test_reports_are_drawn_once_whoever_is_killed(
    people, folder, ledger, tmp_path, fault
):
    killed.notes(folder)
    if fault is not None:  # after the draw, before its result
        (folder / fault).touch()
    ask = {"path": tmp_path / "it's out", "ledger": ledger, "budgets": "rows"}
    reports = frames.randomize(people, {"browser": RESPONSE}, label="r", **ask)
    drawn = killed.notes(folder)
    if fault is not None:
        assert not (folder / fault).exists()
        assert len(drawn) > PARTS  # Ray did draw again
    first = killed.drawn_once(columns(reports))
    assert np.array_equal(columns(reports)[1], first)
    again = frames.randomize(people, {"browser": RESPONSE}, label="r", **ask)
    assert np.array_equal(columns(again)[1], first)
    killed.paid_once(folder, ledger, ask["path"])


def test_a_tally_is_the_same_whoever_is_killed(people, folder, tmp_path):
    killed.tallied_alike(people, columns, folder, tmp_path / "out")


# ---- refused, before anything runs -----------------------------------------------


def test_what_is_wrong_is_told_before_a_row_is_drawn(people, ledger, tmp_path):
    def boom(block):
        raise ValueError("jane doe 1961 was read")

    text = people.add_column("name", lambda block: ["jane"] * len(block))
    out = {"path": tmp_path / "out"}
    counts = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    for call, message in (
        (lambda: frames.randomize(text, {"x": RESPONSE}, **out), "'x'"),
        (lambda: frames.randomize(text, {"name": RESPONSE}, **out), "name|values"),
        (lambda: frames.randomize(text, {"id": counts}, **out), "another kind"),
        (lambda: frames.randomize(text, {"id": RESPONSE}), "path must be"),
        (lambda: frames.randomize(text, {"id": RESPONSE}, path="s3://a"), "no address"),
        (lambda: frames.tally(text, RESPONSE, column="x"), "'x'"),
        (lambda: frames.tally(text, RESPONSE, column="name"), "name|reports"),
        (
            lambda: frames.release(text, {"id": counts}, keys="name", ledger=None),
            "compute the aggregate",
        ),
    ):
        with pytest.raises((DTypeError, ParameterError), match=message):
            call()
    charge = {"ledger": ledger, "label": "x", "budgets": "rows", **out}
    never = people.map_batches(boom)
    with pytest.raises(FastDPError, match="by Ray") as raised:
        frames.randomize(never, {"id": RESPONSE}, **charge)
    assert "jane" not in str(raised.value)
    assert staged(tmp_path) == []
    frames.randomize(people, {"id": RESPONSE}, **charge)
    with pytest.raises(LabelConflictError):
        frames.randomize(people, {"browser": RESPONSE}, **charge)


def test_a_ray_that_was_stopped_is_told(engine, people, tmp_path):
    """Last of the file: it stops the engine."""
    engine.shutdown()
    with pytest.raises(FastDPError, match="was stopped"):
        frames.tally(people, RESPONSE, column="browser")
    with pytest.raises(FastDPError, match="was stopped"):
        frames.randomize(people, {"browser": RESPONSE}, path=tmp_path / "out")
    assert not engine.is_initialized()
