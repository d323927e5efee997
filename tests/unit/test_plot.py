"""``fastdp.plot``: what is drawn is the estimate or the bound, no more and no less."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import fastdp
from fastdp import plot
from fastdp.accounting import (
    ApproximateAccountant,
    ApproximateDPEvent,
    GaussianEvent,
    GaussianTradeOff,
    LaplaceEvent,
    PLDAccountant,
    PureAccountant,
    RDPAccountant,
    ZCDPAccountant,
)
from fastdp.exceptions import DTypeError, FastDPError, ParameterError

pytest.importorskip("matplotlib")


@dataclass
class Made:
    """An estimate whose intervals have known ends."""

    counts: npt.NDArray[np.float64]
    users: int = 100

    def confidence_interval(
        self, level: float
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        return self.counts - 10 * level, self.counts + 20 * level


COUNTS = Made(np.array([30.0, -5.0, 60.0, 30.0]))


def drawn(figure: Any) -> list[tuple[str, float, float, float]]:
    """Return name, height, lower and upper end of each bar."""
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_xticklabels()]
    (bars,) = (c for c in axes.containers if hasattr(c, "patches"))
    (lines,) = (c for c in axes.containers if hasattr(c, "has_yerr"))
    segments = lines.lines[2][0].get_segments()
    return [
        (name, bar.get_height(), segment[0][1], segment[1][1])
        for name, bar, segment in zip(names, bars.patches, segments, strict=True)
    ]


def test_bars_are_frequencies_with_their_intervals() -> None:
    figure = plot.frequencies(COUNTS, ["a", "b", "c", "d"], level=0.5)
    rows = drawn(figure)
    assert [row[0] for row in rows] == ["a", "b", "c", "d"]
    numbers = np.array([row[1:] for row in rows])
    heights = COUNTS.counts / 100
    expected = np.column_stack([heights, heights - 0.05, heights + 0.1])
    assert numbers == pytest.approx(expected)
    (axes,) = figure.axes
    assert axes.get_legend().get_texts()[0].get_text() == "estimate, 50 % interval"
    assert axes.get_title() == "100 reports"
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0}
    assert axes.get_ylabel() == "frequency"


def test_the_title_says_how_the_reports_were_made() -> None:
    m = fastdp.RandomizedResponse.from_epsilon(2, categories=3)
    estimate = m.estimate(m.release(np.array([0, 1, 2, 1])))
    (axes,) = plot.frequencies(estimate, level=0.5).axes
    made = "4 reports by RandomizedResponse: epsilon 2 each, replace one"
    assert axes.get_title() == made


def test_the_most_frequent_come_first_and_ties_in_their_order() -> None:
    rows = drawn(plot.frequencies(COUNTS, top=3))
    assert [row[0] for row in rows] == ["2", "0", "3"]
    assert [row[1] for row in rows] == pytest.approx([0.6, 0.3, 0.3])
    assert plot.most_frequent(COUNTS.counts, 99).tolist() == [2, 0, 3, 1]
    assert plot.most_frequent(COUNTS.counts, None).tolist() == [0, 1, 2, 3]


def test_many_categories_are_points() -> None:
    counts = np.arange(1000.0)
    figure = plot.frequencies(Made(counts, users=1000))
    (axes,) = figure.axes
    assert not any(hasattr(c, "patches") for c in axes.containers)
    (points,) = (c for c in axes.containers if hasattr(c, "has_yerr"))
    assert points.lines[0].get_ydata() == pytest.approx(counts / 1000)
    assert figure.get_size_inches()[0] <= 14


def test_names_are_shown_as_they_are_but_not_at_any_length(tmp_path: Path) -> None:
    names = ["$x$ and $", "y" * 99, "\u00e9", 7]
    figure = plot.frequencies(COUNTS, names)
    shown = [row[0] for row in drawn(figure)]
    assert shown == [r"\$x\$ and \$", "y" * 23 + "\u2026", "\u00e9", "7"]
    assert {label.get_rotation() for label in figure.axes[0].get_xticklabels()} == {90}
    # Mathematical text that is none would fail here.
    figure.savefig(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").stat().st_size > 5000


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"categories": ["a"]}, ParameterError, "categories must have the estimate's"),
        ({"level": 1.0}, ParameterError, "level must be"),
        ({"level": "x"}, DTypeError, "level must be"),
        ({"top": 0}, ParameterError, "top must be"),
        ({"top": 1.5}, DTypeError, "top must be"),
    ],
)
def test_refusals(
    options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        plot.frequencies(COUNTS, **options)  # type: ignore[arg-type]


def test_no_users_no_frequencies() -> None:
    with pytest.raises(ParameterError, match="at least one user"):
        plot.frequencies(Made(np.zeros(3), users=0))


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FastDPError, match=r'pip install "fastdp\[plot\]"'):
        plot.frequencies(COUNTS)


def test_drawing_leaves_no_state_and_importing_loads_nothing() -> None:
    code = (
        "import sys; from fastdp import plot; import numpy as np\n"
        "assert not {'matplotlib', 'fastdp._core'} & set(sys.modules)\n"
        "class Made:\n"
        "    counts, users = np.ones(3), 3\n"
        "    def confidence_interval(self, level):\n"
        "        return self.counts, self.counts\n"
        "assert len(plot.frequencies(Made()).axes) == 1\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- accounting ------------------------------------------------------------------

NOTIONS = {"zCDP": ZCDPAccountant, "pairs": ApproximateAccountant}
LAPLACE = LaplaceEvent(sensitivity=1, scale=20)


def lines(figure: Any) -> dict[str, tuple[list[float], list[float], str]]:
    """Return abscissae, ordinates and style of each line by its label."""
    (axes,) = figure.axes
    return {
        line.get_label(): (
            list(line.get_xdata()),
            list(line.get_ydata()),
            line.get_linestyle(),
        )
        for line in axes.lines
    }


def test_epsilon_against_count_is_the_accountants() -> None:
    figure = plot.epsilon_against_count(
        LAPLACE,
        NOTIONS,
        delta=1e-6,
        counts=[100, 1, 10, 10],
        approximations={"guess": math.sqrt},
    )
    shown = lines(figure)
    assert list(shown) == ["zCDP", "pairs", "guess (approximation)"]
    for name, make in NOTIONS.items():
        x, y, style = shown[name]
        assert x == [1, 10, 100]
        assert y == [make().compose(LAPLACE, k).epsilon(1e-6) for k in x]
        assert style == "-"
    assert shown["guess (approximation)"][1:] == (
        [math.sqrt(k) for k in (1, 10, 100)],
        "--",
    )
    assert figure.axes[0].get_ylabel() == "epsilon at delta = 1e-06"


def test_a_notion_without_a_bound_leaves_a_gap() -> None:
    figure = plot.epsilon_against_count(
        GaussianEvent(sensitivity=1, sigma=9),
        {"pure": PureAccountant, "zCDP": ZCDPAccountant},
        delta=0.1,
        counts=[1, 2],
    )
    shown = lines(figure)
    assert np.isnan(shown["pure"][1]).all()
    assert np.isfinite(shown["zCDP"][1]).all()


def test_profile_is_the_accountants() -> None:
    accountant = RDPAccountant().compose(LAPLACE, 50)
    figure = plot.profile(
        {"Renyi": accountant},
        [0.1, 1e-9],
        approximations={"$": lambda delta: 1 - delta},
    )
    shown = lines(figure)
    x, y, style = shown["Renyi"]
    assert (x, style) == ([1e-9, 0.1], "-")
    # One search for all deltas may stop at another order than one for each.
    assert y == pytest.approx([accountant.epsilon(d) for d in x], rel=1e-9)
    assert shown[r"\$ (approximation)"][1:] == ([1 - 1e-9, 0.9], "--")
    wide = lines(plot.profile({"Renyi": accountant}))["Renyi"]
    assert len(wide[0]) == 45
    assert sorted(wide[1], reverse=True) == wide[1]


def test_trade_off_of_pure_privacy_is_two_lines() -> None:
    # With epsilon alone: max(1 - e^epsilon x, e^-epsilon (1 - x)), from below.
    accountant = PureAccountant().compose(LaplaceEvent(sensitivity=1, scale=1))
    shown = lines(plot.trade_off({"pure": accountant}))
    x, f = (np.array(part) for part in shown["pure"][:2])
    exact = np.maximum(1 - math.e * x, (1 - x) / math.e)
    assert np.all(f <= exact + 1e-12)
    assert np.max(exact - f) < 1e-6
    assert shown["perfect privacy"][:2] == ([0, 1], [1, 0])


def test_trade_off_of_the_exact_loss_is_that_of_its_function() -> None:
    accountant = PLDAccountant().compose(GaussianEvent(sensitivity=1, sigma=2), 4)
    known = GaussianTradeOff(1)
    shown = lines(plot.trade_off({"exact": accountant, "function": known}))
    x, exact = np.array(shown["exact"][0]), np.array(shown["exact"][1])
    assert np.array_equal(np.array(shown["function"][1]), known(x))
    assert np.abs(exact - known(x)).max() < 1e-9
    assert np.all(exact <= known(x) + 1e-13)


def test_a_profile_of_the_exact_loss_is_its_upper_bounds() -> None:
    accountant = PLDAccountant().compose(
        ApproximateDPEvent(epsilon=1, delta=Fraction(1, 10**6)), 3
    )
    deltas = np.geomspace(1e-8, 1e-2, 20)
    shown = lines(plot.profile({"exact": accountant}, deltas))["exact"]
    epsilons = np.array(shown[1])
    assert np.isnan(epsilons[deltas < 2.9e-6]).all()
    above = deltas > 3.1e-6
    expected = [accountant.epsilon(delta) for delta in deltas[above].tolist()]
    assert epsilons[above] == pytest.approx(expected, rel=1e-6)


def test_trade_off_of_a_profile_is_near_the_gaussian_curve_and_below() -> None:
    from scipy.special import ndtr, ndtri

    class Exact:
        """One unit normal against another, 1 apart; epsilon by bisection."""

        def compose(self, event: object, count: int = 1) -> object:
            raise AssertionError

        def epsilon(self, delta: float) -> float:
            low, high = 0.0, 50.0
            for _ in range(60):
                e = (low + high) / 2
                found = ndtr(0.5 - e) - math.exp(e) * ndtr(-0.5 - e)
                low, high = (e, high) if found > delta else (low, e)
            return high

    shown = lines(plot.trade_off({"G": Exact()}))["G"]
    x, f = np.array(shown[0]), np.array(shown[1])
    true = ndtr(ndtri(1 - x) - 1)
    assert np.all(f <= true + 1e-9)
    assert np.max(true - f) < 3e-3


def test_overview_has_three_pictures() -> None:
    figure = plot.overview(LAPLACE, NOTIONS, delta=1e-6, count=10)
    assert len(figure.axes) == 3
    for axes in figure.axes:
        styles = {line.get_label(): line.get_linestyle() for line in axes.lines}
        assert {styles["zCDP"], styles["pairs"]} == {"-"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plot.epsilon_against_count(LAPLACE, NOTIONS, delta=1e-6, counts=[]),
            "counts",
        ),
        (
            lambda: plot.epsilon_against_count(
                LAPLACE, NOTIONS, delta=1e-6, counts=[0]
            ),
            "counts",
        ),
        (lambda: plot.profile({}, [0.5, 1.0]), "deltas must be > 0"),
        (lambda: plot.profile({}, [[0.5]]), "one dimension"),
        (lambda: plot.overview(LAPLACE, NOTIONS, delta=0, count=1), "delta must be"),
        (lambda: plot.overview(LAPLACE, NOTIONS, delta=0.1, count=0), "count must be"),
    ],
)
def test_refusals_of_pictures_of_accounting(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


# ---- what a picture says of itself -------------------------------------------------


def boxes_overlap(figure: Any) -> bool:
    """Tell whether a legend lies on axes."""
    figure.canvas.draw()
    legends = [axes.get_legend() for axes in figure.axes] + figure.legends
    return any(
        legend.get_window_extent().overlaps(axes.get_window_extent())
        for legend in legends
        if legend is not None
        for axes in figure.axes
    )


EXACT = PLDAccountant().compose(
    GaussianEvent(sensitivity=1, sigma=Fraction(41, 2)), 100
)


def test_one_accountant_needs_no_name() -> None:
    figure = plot.trade_off(EXACT, delta=1e-6, target=3)
    assert list(lines(figure)) == [
        "PLDAccountant",
        "perfect privacy",
        "target epsilon 3",
    ]
    # What meets the target is nowhere below the curve of (3, 1e-6) privacy.
    shown = lines(figure)
    above = np.array(shown["PLDAccountant"][1]) - np.array(shown["target epsilon 3"][1])
    assert above.min() >= -1e-12
    assert list(lines(plot.trade_off(GaussianTradeOff(1)))) == [
        "GaussianTradeOff",
        "perfect privacy",
    ]
    assert list(lines(plot.profile(EXACT, [1e-6]))) == ["PLDAccountant"]


@pytest.mark.rest
def test_titles_state_mechanism_epsilon_and_relation() -> None:
    figure = plot.trade_off(EXACT, delta=1e-6)
    bound = EXACT.epsilon(1e-6)
    assert bound == pytest.approx(2.1937832)
    assert figure.axes[0].get_title() == (
        "100 x Gaussian(sensitivity=1, sigma=20.5), add or remove one\n"
        "epsilon 2.194 at delta 1e-06"
    )
    figure = plot.epsilon_against_count(LAPLACE, NOTIONS, delta=1e-6, counts=[1, 2])
    title = "Laplace(sensitivity=1, scale=20), add or remove one"
    assert figure.axes[0].get_title() == title
    figure = plot.overview(LAPLACE, NOTIONS, delta=1e-6, count=10)
    assert figure.get_suptitle().startswith(f"10 x {title}: epsilon 0.4992 at")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot.trade_off(EXACT, delta=1e-6, target=3),
        lambda: plot.profile(EXACT, delta=1e-6, target=3),
        lambda: plot.overview(LAPLACE, NOTIONS, delta=1e-6, count=10, target=1),
        lambda: plot.epsilon_against_count(
            LAPLACE, NOTIONS, delta=1e-6, counts=[1, 9], target=1
        ),
        lambda: plot.frequencies(COUNTS, ["a", "b", "c", "d"]),
    ],
)
def test_legends_cover_no_data(draw: Any) -> None:
    assert not boxes_overlap(draw())


@pytest.mark.rest
def test_the_asked_delta_and_the_target_are_marked() -> None:
    shown = lines(plot.profile(EXACT, [1e-9, 1e-3], delta=1e-6, target=3))
    assert shown["delta 1e-06"][0] == [1e-6, 1e-6]
    assert shown["target epsilon 3"][1] == [3, 3]
    figure = plot.overview(LAPLACE, NOTIONS, delta=1e-6, count=10, target=1)
    for axes, marks in zip(figure.axes, (2, 1, 1), strict=True):
        labels = [line.get_label() for line in axes.lines]
        assert sum(name.startswith(("delta", "target")) for name in labels) == marks


def test_an_overview_draws_no_more_than_was_asked() -> None:
    # Of one event no composition; and no notion whose epsilon is far above the least.
    once = plot.overview(LAPLACE, NOTIONS, delta=1e-6, count=1)
    assert [axes.get_xlabel() for axes in once.axes] == [
        "delta",
        "false-positive rate",
    ]
    often = plot.overview(
        LaplaceEvent(sensitivity=1, scale=1),
        {"tight": RDPAccountant, "sum": PureAccountant},
        delta=1e-6,
        count=300,
    )
    assert (
        PureAccountant().compose(LaplaceEvent(sensitivity=1, scale=1), 300).epsilon(0)
        == 300
    )
    by_count = often.axes[1]
    assert max(by_count.lines[0].get_xdata()) == 300
    for axes in often.axes[:2]:
        assert axes.get_ylim()[1] <= 4 * RDPAccountant().compose(
            LaplaceEvent(sensitivity=1, scale=1), 300
        ).epsilon(1e-6)
