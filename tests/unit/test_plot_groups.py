"""Pictures of groups: every dot, interval and probability is the release's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import plot
from fastdp.accounting import NeighboringRelation, event_epsilon
from fastdp.exceptions import DTypeError, ParameterError

pytest.importorskip("matplotlib")

GROUPS = 3
MOMENTS = fastdp.Moments.from_rho(0.1, bounds=(0, 10), groups=GROUPS)
RELEASE = MOMENTS.release(np.arange(3000) % 10.0, by=np.arange(3000) % GROUPS)


def drawn(figure: Any) -> tuple[list[str], Any, Any]:
    """Return names from above, dots, and the ends of the lines."""
    (axes,) = figure.axes
    figure.canvas.draw()
    (dots,) = axes.lines
    (lines,) = axes.collections
    assert dots.get_ydata().tolist() == list(range(len(dots.get_xdata())))
    bottom, top = axes.get_ylim()
    assert bottom > top  # the first is on top
    ends = np.array([segment[:, 0] for segment in lines.get_segments()])
    names = [label.get_text() for label in axes.get_yticklabels()]
    return names, np.asarray(dots.get_xdata()), ends.T


@pytest.mark.parametrize("statistic", ["count", "sum", "mean", "variance"])
def test_moments_by_group(statistic: str) -> None:
    figure = plot.intervals(
        RELEASE, ["c", "$a$", "b"], statistic=statistic, level=0.9, delta=1e-6
    )
    names, dots, ends = drawn(figure)
    assert names == ["c", r"\$a\$", "b"]
    assert np.array_equal(dots, getattr(RELEASE, statistic))
    assert np.array_equal(ends, getattr(RELEASE, f"{statistic}_interval")(0.9))
    epsilon = event_epsilon(MOMENTS.event(), 1e-6)
    (axes,) = figure.axes
    first, second = axes.get_title().split("\n")
    assert first == f"{statistic} by group, 90 % intervals"
    head = "Moments, DiscreteGaussian noise, add or remove one, epsilon "
    assert second.startswith(head)
    assert second.endswith(" at delta 1e-06")
    said = float(second.removeprefix(head).split()[0])
    assert epsilon <= said <= epsilon * 1.001
    assert axes.get_xlabel() == statistic


def test_rho_where_no_delta_is_given_and_numbers_for_names() -> None:
    figure = plot.intervals(RELEASE)
    names, dots, ends = drawn(figure)
    assert names == ["0", "1", "2"]
    assert np.array_equal(dots, RELEASE.mean)
    assert np.array_equal(ends, RELEASE.mean_interval(0.95))
    assert figure.axes[0].get_title().endswith("add or remove one, rho 0.1")


def test_estimates_by_key_and_of_a_histogram() -> None:
    x = np.arange(1000) % 10.0
    found = {
        key: fastdp.mean(
            x, bounds=(0, 10), epsilon=0.5, level=0.8, unit=fastdp.Unit(x, records=4)
        )
        for key in ("z", "a")
    }
    figure = plot.intervals(found)
    names, dots, ends = drawn(figure)
    assert names == ["z", "a"]
    assert dots.tolist() == [found["z"].value, found["a"].value]
    assert ends.T.tolist() == [[r.low, r.high] for r in found.values()]
    title = figure.axes[0].get_title()
    assert title.startswith("x_mean by group, 80 % intervals\neach epsilon 0.5 for one")
    bins = fastdp.histogram(x, [0, 5, 10], unit="row", epsilon=0.5)
    assert drawn(plot.intervals(bins))[0] == ["x_0_5", "x_5_10"]
    names, dots, ends = drawn(plot.intervals(bins, ["low", "high"]))
    assert names == ["low", "high"]
    assert dots.tolist() == bins.value.tolist()
    assert np.array_equal(ends, [bins.low, bins.high])


def test_releases_of_different_cost_say_so() -> None:
    x = np.ones(100)
    found = {e: fastdp.mean(x, bounds=(0, 2), unit="row", epsilon=e) for e in (0.5, 1)}
    title = plot.intervals(found).axes[0].get_title()
    assert title.endswith("2 releases of different cost")


def test_many_groups_have_no_names() -> None:
    m = fastdp.Moments.from_rho(1, bounds=(0, 1), groups=500)
    figure = plot.intervals(m.release(np.ones(500), by=np.arange(500)))
    assert figure.axes[0].get_ylabel() == "groups, as given"
    assert max(figure.get_size_inches()) <= 14


ESTIMATE = fastdp.count(np.ones(10), unit="row", epsilon=1)


@pytest.mark.parametrize(
    ("results", "options", "error", "message"),
    [
        (RELEASE, {"keys": ["a"]}, ParameterError, "keys must have the release's"),
        (RELEASE, {"statistic": "median"}, ParameterError, "statistic must be"),
        (RELEASE, {"level": 1.0}, ParameterError, "level must be"),
        ({"a": ESTIMATE}, {"keys": ["a"]}, ParameterError, "keys must be left out"),
        ({"a": RELEASE}, {}, ParameterError, "one group each"),
        ({}, {}, ParameterError, "must not be empty"),
        ([1.0], {}, DTypeError, "results must be"),
    ],
)
def test_refusals(
    results: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        plot.intervals(results, **options)


BEST = fastdp.KeySelection.from_epsilon_delta(epsilon=1, delta=1e-6, keys_per_user=1)
COUNTS = fastdp.UnknownHistogram.from_epsilon_delta(
    epsilon=1, delta=1e-6, keys_per_user=1
)


def test_chances_of_being_shown() -> None:
    figure = plot.keep_probability([BEST, COUNTS], delta=1e-6)
    (axes,) = figure.axes
    best, counts, half = axes.lines
    users = best.get_xdata().tolist()
    assert users == list(range(len(users)))
    assert best.get_ydata().tolist() == [BEST.probability(n) for n in users]
    assert counts.get_ydata().tolist() == [COUNTS.probability(n) for n in users]
    assert set(half.get_ydata()) == {0.5}
    assert np.all(best.get_ydata() >= counts.get_ydata())  # the first is optimal
    assert best.get_ydata()[-1] >= 0.999
    title = "KeySelection and UnknownHistogram, add or remove one"
    assert axes.get_title() == title
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[0].startswith("KeySelection(epsilon=1, delta=1e-06, keys_per_user=1)")
    assert labels[1].endswith(": epsilon 1 at delta 1e-06")
    assert labels[2] == "1/2"


def test_probability_of_a_histogram_is_its_law() -> None:
    # The figures of the truncated law: scale 1, bound 14.
    assert COUNTS.probability(0) == 0
    for count, p in ((1, 3.84e-7), (14, 0.26894), (15, 0.73106), (16, 0.90106)):
        assert COUNTS.probability(count) == pytest.approx(p, rel=1e-3)
    assert COUNTS.probability(29) == COUNTS.probability(10**30) == 1
    gauss = fastdp.UnknownHistogram(sigma=2, threshold=9, keys_per_user=1)
    law = fastdp.distributions.DiscreteGaussian(sigma=2)
    assert gauss.probability(9) == law.sf(0)
    assert gauss.probability(5) == law.sf(4)


def test_long_tables_are_drawn_with_few_points() -> None:
    m = fastdp.KeySelection.from_epsilon_delta(
        epsilon=0.001, delta=1e-7, keys_per_user=1
    )
    (line, _) = plot.keep_probability(m).axes[0].lines
    assert len(line.get_xdata()) <= 2000
    for n, p in zip(line.get_xdata(), line.get_ydata(), strict=True):
        assert p == m.probability(int(n))


def test_refusals_of_chances() -> None:
    replaced = fastdp.KeySelection(
        epsilon=1,
        delta=1e-6,
        keys_per_user=1,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    with pytest.raises(ParameterError, match="the same neighboring relation"):
        plot.keep_probability([BEST, replaced])
    with pytest.raises(ParameterError, match="must not be empty"):
        plot.keep_probability([])
    with pytest.raises(DTypeError, match="must be KeySelection"):
        plot.keep_probability([MOMENTS])


def test_cumulative_counts_have_a_band_and_say_what_they_cost():
    m = fastdp.HierarchicalHistogram.from_rho(0.1, leaves=10)
    r = m.release(np.arange(10))
    (axes,) = plot.cumulative(r, np.linspace(0, 100, 11)).axes
    np.testing.assert_allclose(axes.lines[0].get_ydata()[1:], np.cumsum(r.leaves))
    assert "HierarchicalHistogram" in axes.get_title()
    assert "rho 0.1" in axes.get_title()
    with pytest.raises(ParameterError, match="11 entries"):
        plot.cumulative(r, [0, 1])
    with pytest.raises(DTypeError, match="HierarchyRelease"):
        plot.cumulative([1, 2])


def test_running_totals_and_their_plans():
    plans = [
        fastdp.Counter.from_rho(0.5, steps=32, strategy="tree"),
        fastdp.PrefixSums.from_rho(
            0.5,
            radius=1,
            dimension=1,
            steps=32,
            strategy="blt",
            buffers=2,
            participations=1,
        ),
    ]
    (axes,) = plot.prefix_errors(plans).axes
    assert [line.get_label() for line in axes.lines] == ["tree", "blt, buffers 2"]
    assert "rho 0.5" in axes.get_title()
    shown = [plans[0].add(5) for _ in range(4)]
    (axes,) = plot.running(shown, plans[0], label="registrations").axes
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), shown)
    assert "rho 0.5" in axes.get_title()
    with pytest.raises(ParameterError, match="the same rho"):
        plot.prefix_errors([plans[0], fastdp.Counter.from_rho(1, steps=32)])
    with pytest.raises(DTypeError, match="Counter"):
        plot.prefix_errors([3])
    with pytest.raises(ParameterError, match="not be empty"):
        plot.prefix_errors([])
    with pytest.raises(DTypeError, match="Counter"):
        plot.running(shown, 3)
    with pytest.raises(ParameterError, match="each step"):
        plot.running(np.zeros(33), plans[0])


# ---- releases of a plan ----------------------------------------------------------


def released(**words: Any) -> Any:
    """Return a table of 300 records in three groups, with next to no noise."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    table = pa.table(
        {
            "who": range(300),
            "town": ["oslo", "rome", "bonn"] * 100,
            "sex": ["f", "m"] * 150,
            "cost": [float(i % 10) for i in range(300)],
        }
    )
    unit = fastdp.Unit("who", groups=1 if "by" in words else None, records=2)
    return fastdp.Plan(unit=unit, epsilon=1e4, **words).release(table)


def test_a_table_of_a_plan() -> None:
    r = released(
        by=["town", "sex"],
        keys={"town": ["rome", "oslo", "none"], "sex": ["m"]},
        count=True,
        mean="cost",
        bounds={"cost": (0, 10)},
    )
    assert r.groups() == [("rome", "m"), ("oslo", "m"), ("none", "m")]
    figure = plot.intervals(r, level=0.9)
    names, dots, ends = drawn(figure)
    assert names == ["rome, m", "oslo, m", "none, m"]
    assert np.array_equal(dots, r.values("cost_mean"), equal_nan=True)
    assert np.isnan(dots[2])  # of nobody: the line says that nothing is known
    assert np.array_equal(ends, r.interval("cost_mean", 0.9))
    (axes,) = figure.axes
    assert axes.get_title() == (
        "cost_mean by town and sex, 90 % intervals\n"
        "epsilon 10,000 for one who; kept: at most 1 group and 2 records in each"
    )
    count = plot.intervals(r, statistic="count", delta=1e-6)
    _, dots, ends = drawn(count)
    assert np.array_equal(dots, r.values("count"))
    assert np.array_equal(ends, r.interval("count"))
    assert count.axes[0].get_title().endswith("epsilon 10000 at delta 1e-06")
    with pytest.raises(ParameterError, match="one of count, cost_n, cost_mean"):
        plot.intervals(r, statistic="cost")


def test_tables_of_one_group_beside_each_other() -> None:
    r = released(count=True)
    assert r.groups() == [()]
    assert drawn(plot.intervals(r))[0] == ["all records"]
    figure = plot.intervals({"2024": r, "2025": r})
    assert drawn(figure)[0] == ["2024", "2025"]
    assert figure.axes[0].get_title() == (
        "count by group, 95 % intervals\n"
        "each epsilon 10,000 for one who; kept: at most 2 records"
    )


def test_a_table_without_groups_to_show() -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    plan = fastdp.Plan(unit="row", by="town", count=True, epsilon=1, delta=1e-12)
    r = plan.release(pa.table({"town": pa.array([], pa.string())}))
    assert r.groups() == []
    assert drawn(plot.intervals(r))[0] == []
