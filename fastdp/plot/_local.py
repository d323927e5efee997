"""Pictures of numbers that users randomize themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.plot._figure import figure_of
from fastdp.plot._titles import reports_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats: TypeAlias = npt.NDArray[np.float64]

#: The hybrid mechanism uses the piecewise mechanism from this epsilon on.
_MIXED = 0.61


def _duchi(epsilon: Floats) -> Floats:
    found: Floats = 1 / np.tanh(epsilon / 2) ** 2
    return found


def _piecewise(epsilon: Floats) -> Floats:
    e = np.exp(epsilon / 2)
    found: Floats = 1 / (e - 1) + (e + 3) / (3 * (e - 1) ** 2)
    return found


def _hybrid(epsilon: Floats) -> Floats:
    e = np.exp(epsilon / 2)
    mixed = (e + 3) / (3 * e * (e - 1)) + _duchi(epsilon) / e
    found: Floats = np.where(epsilon > _MIXED, mixed, _duchi(epsilon))
    return found


#: Worst variances of published mechanisms for one number with bounds -1 and 1.
_OTHERS = {
    "Duchi, Jordan, Wainwright": _duchi,
    "piecewise": _piecewise,
    "hybrid": _hybrid,
}


def local_variance(mechanisms: Sequence[Any]) -> Figure:
    """Draw the worst variance of a report of a number against epsilon.

    Parameters
    ----------
    mechanisms : sequence of LocalMean
        Mechanisms for one number per user.

    Returns
    -------
    matplotlib.figure.Figure
        A curve through the mechanisms, in units of the square of half the width of
        their bounds, next to curves of the bit of Duchi, Jordan and Wainwright, the
        piecewise mechanism and the hybrid (Wang et al. 2019).

    Raises
    ------
    DTypeError, ParameterError
        `mechanisms` is empty or has an element of another type.
    FastDPError
        matplotlib is missing.

    Examples
    --------
    >>> import fastdp
    >>> from fastdp import plot
    >>> several = [fastdp.LocalMean.from_epsilon(e, bounds=(0, 9)) for e in (1, 2, 4)]
    >>> figure = plot.local_variance(several)
    >>> len(figure.axes[0].lines)
    4
    """
    points = sorted(_point(mechanism) for mechanism in mechanisms)
    if not points:
        raise ParameterError("mechanisms must not be empty")
    epsilon, worst = np.array(points).T
    figure = figure_of(8)
    axes = figure.subplots()
    axes.plot(epsilon, worst, "o-", color="C0", label="LocalMean", zorder=3)
    grid = np.linspace(epsilon[0] * 0.9, epsilon[-1] * 1.1, 200)
    for i, (name, curve) in enumerate(_OTHERS.items()):
        axes.plot(grid, curve(grid), color=f"C{i + 1}", linewidth=1, label=name)
    axes.set_yscale("log")
    axes.set_xlabel("epsilon of one report")
    axes.set_ylabel("worst variance, (half the width)$^2$")
    axes.set_title("One number a user: pure local privacy")
    axes.legend()
    return figure


def _point(mechanism: Any) -> tuple[float, float]:
    if getattr(mechanism, "dimension", 0) is not None:
        raise DTypeError("mechanisms must be LocalMean with one number per user")
    low, high = mechanism.bounds
    half = float(high - low) / 2
    return mechanism.epsilon(), mechanism.variance() / half**2


def local_means(
    estimates: Any, names: Sequence[object] | None = None, *, level: float = 0.95
) -> Figure:
    """Draw estimated means with their confidence intervals.

    Parameters
    ----------
    estimates : MeanEstimate, or sequence of them
        One estimate of several numbers per user gives a point for each number. A
        sequence of estimates of one number is drawn against the number of reports.
    names : sequence, optional
        With several numbers: their labels; default: their places from 0.
    level : float
        Confidence of each single interval, > 0 and < 1.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain, or `names` has another length.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It uses only the estimates and changes no guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> from fastdp import plot
    >>> m = fastdp.LocalMean.from_epsilon(2, bounds=(0, 1))
    >>> reports = m.release(np.full(1000, 0.4))
    >>> figure = plot.local_means([m.estimate(reports[:n]) for n in (100, 300, 1000)])
    >>> len(figure.axes)
    1
    """
    exact = float(_validate.open_unit("level", level))
    one = hasattr(estimates, "mean")
    listed = [estimates] if one else list(estimates)
    if not listed or not all(hasattr(part, "standard_error") for part in listed):
        raise DTypeError("estimates must be a MeanEstimate, or a sequence of them")
    means = [np.atleast_1d(part.mean) for part in listed]
    if not one and any(len(mean) > 1 for mean in means):
        raise ParameterError("a sequence of estimates must have one number per user")
    middle = np.concatenate(means)
    reach = np.concatenate(
        [np.atleast_1d(part.confidence_interval(exact)[1]) for part in listed]
    )
    figure = figure_of(2 + 0.35 * len(middle))
    axes = figure.subplots()
    places = np.arange(len(middle)) if one else [part.users for part in listed]
    label = f"estimate, {100 * exact:.6g} % interval"
    axes.errorbar(
        places, middle, yerr=reach - middle, fmt="o", capsize=3, color="C0", label=label
    )
    if one:
        shown = list(range(len(middle))) if names is None else list(names)
        if len(shown) != len(middle):
            raise ParameterError(
                f"names must have the length {len(middle)}, got {len(shown)}"
            )
        axes.set_xticks(places, [str(name) for name in shown])
    else:
        axes.set_xscale("log")
        axes.set_xlabel("reports")
    axes.set_ylabel("mean")
    axes.set_title(reports_title(listed[-1]))
    axes.legend()
    return figure
