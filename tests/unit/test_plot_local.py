"""Pictures of local means: the points are the mechanisms' and the estimates'."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import plot
from fastdp.exceptions import DTypeError, ParameterError

pytest.importorskip("matplotlib")

LM = fastdp.LocalMean
#: At epsilon 1, 2, 4: as in the publications.
PUBLISHED = {
    "Duchi, Jordan, Wainwright": (4.683, 1.724, 1.076),
    "piecewise": (5.224, 1.228, 0.241),
    "hybrid": (4.289, 1.042, 0.219),
}


def test_worst_variances() -> None:
    several = [LM.from_epsilon(e, bounds=(10, 30)) for e in (4, 1, 2)]
    (axes,) = plot.local_variance(several).axes
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    ours = lines.pop("LocalMean")
    assert ours[:, 0] == pytest.approx([1, 2, 4])
    assert ours[:, 1] == pytest.approx([several[i].variance() / 100 for i in (1, 2, 0)])
    for name, line in lines.items():
        found = np.interp([1, 2, 4], *line.T)
        assert found == pytest.approx(PUBLISHED[name], rel=5e-3)
        assert (ours[:, 1] < np.array(PUBLISHED[name])).all()


@pytest.mark.parametrize(
    "wrong", [[3], [LM.from_epsilon(1, bounds=(0, 1), dimension=2)]]
)
def test_other_mechanisms_are_refused(wrong: Any) -> None:
    with pytest.raises(DTypeError, match="one number per user"):
        plot.local_variance(wrong)
    with pytest.raises(ParameterError, match="empty"):
        plot.local_variance([])


def points(axes: Any) -> np.ndarray:
    (line,) = axes.containers
    return np.asarray(line.lines[0].get_xydata())


def test_means_as_reports_come() -> None:
    m = LM.from_epsilon(2, bounds=(0, 1))
    reports = m.release(np.full(1000, 0.4))
    estimates = [m.estimate(reports[:n]) for n in (100, 1000)]
    (axes,) = plot.local_means(estimates, level=0.9).axes
    assert points(axes).tolist() == [[e.users, e.mean] for e in estimates]
    (line,) = axes.containers
    for e, segment in zip(estimates, line.lines[2][0].get_segments(), strict=True):
        assert segment[:, 1] == pytest.approx(e.confidence_interval(0.9))
    assert "90 %" in line.get_label()
    assert "1,000 reports by LocalMean: epsilon 2 each" in axes.get_title()


def test_several_means() -> None:
    m = LM.from_epsilon(5, bounds=(0, 1), dimension=3)
    est = m.estimate(m.release(np.zeros((500, 3))))
    (axes,) = plot.local_means(est, ["a", "b", "c"]).axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["a", "b", "c"]
    assert points(axes)[:, 1] == pytest.approx(est.mean)
    with pytest.raises(ParameterError, match="names must have the length 3"):
        plot.local_means(est, ["a"])
    with pytest.raises(ParameterError, match="one number per user"):
        plot.local_means([est, est])
    for wrong in ([], [3], [est.mean]):
        with pytest.raises(DTypeError, match="MeanEstimate"):
            plot.local_means(wrong)
