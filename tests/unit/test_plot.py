"""``fastdp.plot``: what is drawn is the estimate, no more and no less."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fastdp import plot
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


def drawn(figure: plot.Figure) -> list[tuple[str, float, float, float]]:
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
