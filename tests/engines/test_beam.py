"""Beam on one machine, whose bundles run three times: one answer for each window."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import (
    DTypeError,
    FastDPError,
    LedgerError,
    ParameterError,
)
from fastdp.frames.beam import Release, Tally
from tests.engines.conftest import needs, spent, with_budgets

needs("apache_beam")
pa = pytest.importorskip("pyarrow")

import apache_beam as beam  # noqa: E402
from apache_beam.options.pipeline_options import PipelineOptions  # noqa: E402
from apache_beam.testing.test_stream import TestStream as Streamed  # noqa: E402
from apache_beam.transforms import trigger, window  # noqa: E402

NOISE = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
RESPONSE = fastdp.RandomizedResponse.from_epsilon(2, categories=16)
TOWNS = [f"t{i}" for i in range(20)]
KEYS = pa.table({"town": TOWNS})
ROWS = [{"town": f"t{i % 25}", "n": 1} for i in range(500)]
THRICE = ["--direct_runner_bundle_repeat=2"]


def noted(folder, element):
    """Note an element, as a sink that is no transaction would; hand it on."""
    Path(folder, uuid.uuid4().hex).write_bytes(pickle.dumps(element))
    return element


def notes(folder):
    return [pickle.loads(file.read_bytes()) for file in Path(folder).iterdir()]


def ran(build, *, runner="FnApiRunner", options=THRICE):
    with beam.Pipeline(runner=runner, options=PipelineOptions(options)) as pipeline:
        build(pipeline)


@pytest.fixture
def place(tmp_path):
    """Where workers open a ledger that they share."""
    with fastdp.ledger.create(tmp_path / "budget.db") as book:
        with_budgets(book)
    return str(tmp_path / "budget.db")


@pytest.fixture
def seen(tmp_path):
    folder = tmp_path / "seen"
    folder.mkdir()
    return str(folder)


def answers(seen):
    """Return the noisy counts that were seen of each town, by window."""
    found = {}
    for when, row in notes(seen):
        found.setdefault((when, row["town"]), []).append(row["n"])
    return found


def timed(row, when=beam.DoFn.WindowParam):
    return str(when), row


# ---- the naive form: what the tests can see --------------------------------------


def test_a_bundle_in_beam_draws_each_time_that_it_runs(seen):
    noise = fastdp.DiscreteLaplace(scale=1e12)

    def draw(n):
        return noted(seen, noise.release(n))

    ran(lambda p: p | beam.Create([100]) | beam.Map(draw))
    drawn = notes(seen)
    assert len(drawn) == 3
    assert len(set(drawn)) == 3  # two are equal with probability below 1e-12


# ---- the adapters ----------------------------------------------------------------


def test_a_release_is_one_answer_however_often_a_bundle_runs(place, seen):
    ask = {"keys": KEYS, "ledger": place, "label": "visits", "budgets": "users"}
    noise = fastdp.DiscreteLaplace.from_epsilon(0.5, sensitivity=1)

    def build(p):
        rows = p | beam.Create(ROWS) | Release({"n": noise}, **ask)
        _ = rows | beam.Map(timed) | beam.Map(lambda row: noted(seen, row))

    ran(build)
    first = answers(seen)
    assert [town for _, town in sorted(first)] == sorted(TOWNS)
    assert all(len(shown) == 3 for shown in first.values())
    assert all(len(set(shown)) == 1 for shown in first.values())
    # 20 times no noise: a probability of 0.245**20 = 6e-13.
    assert any(shown[0] != 20 for shown in first.values())
    ran(build)  # the whole pipeline again
    assert all(
        set(shown) == set(first[where]) for where, shown in answers(seen).items()
    )
    with fastdp.ledger.open(place) as book:
        assert spent(book, "users") == 0.5
        assert book.audit().ok


def test_each_window_is_a_label_and_pays(place, seen):
    ask = {"keys": KEYS, "ledger": place, "label": "visits", "budgets": "users"}
    times = [window.TimestampedValue(row, i) for i, row in enumerate(ROWS)]
    times.append(window.TimestampedValue({}, 10**12))  # a year that has no date

    def build(p):
        rows = p | beam.Create(times) | beam.WindowInto(window.FixedWindows(250))
        rows = rows | Release({"n": NOISE}, **ask)
        _ = rows | beam.Map(timed) | beam.Map(lambda row: noted(seen, row))

    ran(build)
    found = answers(seen)
    assert len(found) == 3 * len(TOWNS)
    assert all(len(set(shown)) == 1 for shown in found.values())
    with fastdp.ledger.open(place) as book:
        assert spent(book, "users") == 3
        again = book.table(
            {"n": (NOISE, np.zeros(20, np.int64))},
            keys={"town": np.array([f"{t}\x01".encode() for t in sorted(TOWNS)])},
            label="visits/1970-01-01T00:00:00Z/1970-01-01T00:04:10Z",
            budgets="users",
        )
        assert again.replayed


def test_each_firing_is_a_label_and_pays(place, seen):
    ask = {"keys": KEYS, "ledger": place, "label": "late", "budgets": "users"}
    stamped = window.TimestampedValue
    stream = (
        Streamed()
        .add_elements([stamped({"town": "t1", "n": 1000}, 1)])
        .advance_watermark_to(20)
        .add_elements([stamped({"town": "t1", "n": 5000}, 2)])
        .advance_watermark_to_infinity()
    )
    windows = beam.WindowInto(
        window.FixedWindows(10),
        trigger=trigger.AfterWatermark(late=trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
        allowed_lateness=100,
    )

    def build(p):
        rows = p | stream | windows | Release({"n": NOISE}, **ask)
        _ = rows | beam.Map(timed) | beam.Map(lambda row: noted(seen, row))

    ran(build, runner="BundleBasedDirectRunner", options=["--streaming"])
    (one,) = {where: shown for where, shown in answers(seen).items() if "t1" in where}
    shown = sorted(answers(seen)[one])
    assert len(shown) == 2
    assert abs(shown[0] - 1000) < 100 > abs(shown[1] - 5000)
    with fastdp.ledger.open(place) as book:
        assert spent(book, "users") == 2


def test_no_row_at_all_is_a_table_of_noise(place, seen):
    ask = {"keys": KEYS, "ledger": place, "label": "none", "budgets": "users"}

    def build(p):
        rows = p | beam.Create([]) | Release({"n": NOISE}, **ask)
        _ = rows | beam.Map(timed) | beam.Map(lambda row: noted(seen, row))

    ran(build)
    assert len(answers(seen)) == len(TOWNS)


def test_rows_that_are_no_rows_count_as_nothing(place, seen):
    wide = fastdp.DiscreteLaplace.from_epsilon(30, sensitivity=1)
    ask = {"keys": KEYS, "ledger": place, "label": "odd", "budgets": "users"}
    rows = [
        beam.Row(town="t1", n=3),
        {"town": "t1", "n": 2**70},
        {"town": "t1", "n": -(2**70)},
        {"town": "t1", "n": None},
        {"town": "t1", "n": "jane"},
        {"town": "t1", "n": float("nan")},
        {"town": ["t1"], "n": 5},
        {"n": 5},
        {"town": "t2", "n": 2**70},
    ]

    def build(p):
        out = p | beam.Create(range(len(rows))) | beam.Map(rows.__getitem__)
        out = out | Release({"n": wide}, **ask)
        _ = out | beam.Map(timed) | beam.Map(lambda row: noted(seen, row))

    ran(build)
    found = {town: shown[0] for (_, town), shown in answers(seen).items()}
    assert abs(found["t1"] - 3) < 5
    assert found["t2"] > 2**62
    assert all(abs(n) < 5 for town, n in found.items() if town not in ("t1", "t2"))


@pytest.mark.parametrize("column", [None, "browser"])
def test_a_tally_is_the_same_however_often_a_bundle_runs(seen, column):
    reports = np.split(RESPONSE.release(np.arange(4000) % 16), 8)
    if column is None:
        batches = reports
    else:
        batches = [pa.table({column: part}) for part in reports]

    def build(p):
        tally = p | beam.Create(batches) | beam.CombineGlobally(Tally(RESPONSE, column))
        _ = tally | beam.Map(lambda found: noted(seen, found))

    ran(build)
    wanted = RESPONSE.aggregator().add(np.concatenate(reports))
    assert len(notes(seen)) == 3
    assert all(found == wanted for found in notes(seen))


# ---- refused, before anything runs -----------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"columns": {"n": RESPONSE}}, DTypeError, "another kind"),
        ({"columns": {}}, ParameterError, "at least one column"),
        ({"columns": {"town": NOISE}}, ParameterError, "share none"),
        (
            {"columns": {"n": fastdp.DiscreteLaplace(scale=1)}},
            FastDPError,
            "sensitivity",
        ),
        ({"keys": "town"}, DTypeError, "keys must be a frame"),
        ({"keys": KEYS.slice(0, 0)}, ParameterError, "at least one group"),
        ({"keys": pa.table({"town": ["a", "a"]})}, ParameterError, "each row once"),
        ({"keys": pa.table({"town": [0.5]})}, DTypeError, "key 'town'"),
        ({"ledger": None}, DTypeError, "ledger must be a str"),
        ({"ledger": "nowhere.db"}, LedgerError, "nowhere.db"),
        ({"budgets": "nobody"}, ParameterError, "nobody"),
        ({"budgets": "rows"}, ParameterError, "rows"),
        ({"label": "é"}, ParameterError, "label"),
    ],
)
def test_what_is_wrong_is_told_before_a_row_is_read(place, change, error, message):
    ask = {"columns": {"n": NOISE}, "keys": KEYS, "ledger": place, "label": "x"}
    ask |= {"budgets": "users", **change}
    with pytest.raises(error, match=message):
        Release(ask.pop("columns"), **ask)


def test_windows_that_depend_on_data_are_refused(place):
    ask = {"keys": KEYS, "ledger": place, "label": "x", "budgets": "users"}
    again = trigger.AccumulationMode.ACCUMULATING
    late = trigger.AfterWatermark(late=trigger.AfterCount(1))
    for into, message in (
        (beam.WindowInto(window.Sessions(60)), "not Sessions"),
        (
            beam.WindowInto(
                window.FixedWindows(60), trigger=late, accumulation_mode=again
            ),
            "must be DISCARDING",
        ),
    ):
        pipeline = beam.Pipeline()
        rows = pipeline | beam.Create(ROWS) | into
        with pytest.raises(ParameterError, match=message):
            _ = rows | Release({"n": NOISE}, **ask)
    with pytest.raises(DTypeError, match="another kind"):
        Tally(NOISE)
