"""Pictures of amplification: every point is what the functions say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fastdp import plot
from fastdp.accounting import (
    GaussianEvent,
    GDPAccountant,
    GDPEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PureAccountant,
    RDPAccountant,
)
from fastdp.accounting.amplification import (
    noisy_gradient_descent,
    shuffled_closed_form_epsilon,
    shuffled_epsilon,
)
from fastdp.exceptions import DTypeError, ParameterError

pytest.importorskip("matplotlib")


def lines(figure: Any) -> dict[str, tuple[list[float], list[float]]]:
    """Return abscissae and ordinates of each line by its label."""
    (axes,) = figure.axes
    assert axes.get_legend() is not None
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.lines
    }


def test_sampling_rates() -> None:
    event = GaussianEvent(sensitivity=1, sigma=2)
    notions = {
        "tight": PLDAccountant,
        "Renyi": RDPAccountant,
        "pure": PureAccountant,
    }
    figure = plot.epsilon_against_rate(
        event, notions, delta=1e-5, rates=[1, 0.01, 0.25, 0.25], count=50
    )
    shown = lines(figure)
    for name in ("tight", "Renyi"):
        x, y = shown[name]
        assert x == [0.01, 0.25, 1.0]
        for rate, epsilon in zip(x, y, strict=True):
            inner = PoissonSampledEvent(rate, event) if rate < 1 else event
            accountant = notions[name]().compose(inner, 50)  # type: ignore[abstract]
            assert epsilon == accountant.epsilon(1e-5)
        assert y == sorted(y)
    assert np.isnan(shown["pure"][1]).all()
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_xscale()) == ("sampling rate", "log")
    assert axes.get_ylabel() == "epsilon at delta = 1e-05"


def test_clients() -> None:
    figure = plot.epsilon_against_clients(
        local_epsilon=2, clients=[10_000, 10], delta=1e-6, categories=[2, 5]
    )
    shown = lines(figure)
    for name, k in (("any randomizer", None), ("2 categories", 2), ("5 categories", 5)):
        x, y = shown[name]
        assert x == [10, 10_000]
        assert y == [
            shuffled_epsilon(local_epsilon=2, clients=n, delta=1e-6, categories=k)
            for n in x
        ]
    closed = shown["any randomizer, closed form"][1]
    assert math.isnan(closed[0])  # its condition is not met
    assert closed[1] == shuffled_closed_form_epsilon(
        local_epsilon=2, clients=10_000, delta=1e-6
    )
    assert shown["each report alone"][1] == [2, 2]


def test_iterations() -> None:
    setting = {
        "sigma": 1,
        "step_size": 1,
        "lipschitz": 1,
        "smoothness": 1,
        "diameter": 2,
    }
    figure = plot.epsilon_against_iterations(
        [1000, 1], delta=1e-6, records=10, **setting
    )
    shown = lines(figure)
    every, last = shown["every iterate released"], shown["last iterate only"]
    assert every[0] == last[0] == [1, 1000]
    event = noisy_gradient_descent(
        steps=1000, records=10, **setting, last_iterate_only=True
    )
    assert last[1][1] == GDPAccountant().compose(event).epsilon(1e-6)
    one = GDPEvent(0.2, neighboring_relation=event.neighboring_relation)
    whole = GDPAccountant().compose(one, 1000).epsilon(1e-6)
    assert every[1][1] == pytest.approx(whole, rel=1e-9)
    assert every[1][0] == last[1][0]
    assert last[1][1] < every[1][1] / 4


def test_given_axes_are_drawn_on() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    figure = plot.epsilon_against_clients(
        local_epsilon=1, clients=[10], delta=1e-6, categories=[], axes=axes
    )
    assert figure is axes.figure
    assert len(axes.lines) == 3


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="rates must be > 0"):
        plot.epsilon_against_rate(
            GaussianEvent(sensitivity=1, sigma=1), {}, delta=1e-5, rates=[0]
        )
    with pytest.raises(ParameterError, match="rates must be in"):
        plot.epsilon_against_rate(
            GaussianEvent(sensitivity=1, sigma=1), {}, delta=1e-5, rates=[1.5]
        )
    with pytest.raises(ParameterError, match="clients must not be empty"):
        plot.epsilon_against_clients(local_epsilon=1, clients=[], delta=1e-6)
    with pytest.raises(DTypeError, match="clients must be an int"):
        plot.epsilon_against_clients(local_epsilon=1, clients=[1.5], delta=1e-6)
    setting = {"records": 1, "sigma": 1, "lipschitz": 1, "smoothness": 1}
    with pytest.raises(ParameterError, match="counts must not be empty"):
        plot.epsilon_against_iterations([], delta=1e-6, step_size=1, **setting)
    with pytest.raises(ParameterError, match="step_size must be <= 2/smoothness"):
        plot.epsilon_against_iterations([1], delta=1e-6, step_size=3, **setting)
