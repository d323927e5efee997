"""Pictures of sums over ranges and over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdp.exceptions import DTypeError, ParameterError
from fastdp.plot._figure import figure_of
from fastdp.plot._groups import cost_line
from fastdp.plot._titles import words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

#: Draw at most this many places if there are more cells.
_POINTS = 2000


def cumulative(
    release: Any, edges: Sequence[float] | None = None, *, delta: float | None = None
) -> Figure:
    """Draw the released number of records up to each cell, with its band.

    Parameters
    ----------
    release : HierarchyRelease
        A release of `fastdp.HierarchicalHistogram`.
    edges : sequence of float, optional
        Ends of the cells in the data's unit, one more than cells; default: 0, 1, 2 ...
    delta : float, optional
        Delta at which the title states epsilon; without it, the title states the pure
        epsilon or rho.

    Returns
    -------
    matplotlib.figure.Figure
        A line through the ends of the cells, and a band of two standard errors.

    Raises
    ------
    DTypeError, ParameterError
        `release` has another type, or `edges` has a wrong length.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It uses only released values and changes no guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> from fastdp import plot
    >>> m = fastdp.HierarchicalHistogram.from_rho(0.1, leaves=64)
    >>> figure = plot.cumulative(m.release(np.full(64, 100)))
    >>> len(figure.axes)
    1
    """
    if not hasattr(release, "standard_error") or not hasattr(release, "leaves"):
        raise DTypeError(
            f"release must be a HierarchyRelease, got {type(release).__name__}"
        )
    cells = len(release.leaves)
    places = np.arange(cells + 1.0) if edges is None else np.asarray(edges, np.float64)
    if places.shape != (cells + 1,):
        raise ParameterError(
            f"edges must have {cells + 1} entries, got shape {places.shape}"
        )
    shown = np.unique(np.linspace(0, cells, min(cells, _POINTS) + 1).astype(np.int64))
    middle = release.range(0, shown)
    band = 2 * release.standard_error(0, shown)
    cost = cost_line([release], [release.event], delta)
    return _banded(
        places[shown],
        middle,
        band,
        ("cell" if edges is None else "value", "records up to here"),
        f"cumulative count over {cells:,} cells\n{cost}",
    )


def prefix_errors(plans: Any) -> Figure:
    """Draw the standard error of every prefix sum at equal privacy.

    Parameters
    ----------
    plans : PrefixSums or Counter, or iterable of them
        Mechanisms to compare, all with equal rho or epsilon.

    Returns
    -------
    matplotlib.figure.Figure
        One line for each mechanism, against the step.

    Raises
    ------
    DTypeError, ParameterError
        An element has another type, or the costs differ by more than 1 %.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It draws public parameters and changes no guarantee.

    Examples
    --------
    >>> import fastdp
    >>> from fastdp import plot
    >>> counters = [
    ...     fastdp.Counter.from_rho(0.5, steps=64, strategy=name)
    ...     for name in ("independent", "tree", "square_root")
    ... ]
    >>> len(plot.prefix_errors(counters).axes[0].lines)
    3
    """
    listed = [plans] if hasattr(plans, "steps_left") else list(plans)
    if not listed:
        raise ParameterError("plans must not be empty")
    for plan in listed:
        if not hasattr(plan, "steps_left"):
            raise DTypeError(
                f"plans must be PrefixSums or Counter, got {type(plan).__name__}"
            )
    costs = {round(plan.rho(), 9) for plan in listed}
    if max(costs) > 1.01 * min(costs):
        raise ParameterError(
            "plans must have the same rho, because their errors are compared"
        )
    figure = figure_of(8)
    axes = figure.subplots()
    for plan in listed:
        said = dict(plan._arguments)
        steps = said["steps"]
        shown = np.unique(np.linspace(1, steps, min(steps, _POINTS)).astype(np.int64))
        errors = [plan.standard_error(int(t)) for t in shown]
        kept = said.get("bands")
        if isinstance(kept, tuple):
            said["bands"] = f"{len(kept)} of its own"
        extra = [f"{k} {said[k]}" for k in ("bands", "buffers") if k in said]
        axes.plot(shown, errors, label=", ".join([said["strategy"], *extra]))
    axes.set_xlabel("step")
    axes.set_ylabel("standard error of the total")
    relation = words_of(listed[0].event().neighboring_relation)
    kinds = " and ".join(dict.fromkeys(type(plan).__name__ for plan in listed))
    axes.set_title(f"{kinds}, rho {max(costs):.6g}, {relation}", fontsize="medium")
    axes.legend(
        fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=3
    )
    return figure


def running(
    totals: Any, mechanism: Any, *, delta: float | None = None, label: str = "total"
) -> Figure:
    """Draw a released running total with a band of two standard errors.

    Parameters
    ----------
    totals : array_like of float, shape (n,)
        Results of `Counter.add` after steps 1 ... n, or one entry of the results of
        `PrefixSums.step`.
    mechanism : Counter or PrefixSums
        Mechanism that released the totals.
    delta : float, optional
        Delta at which the title states epsilon; without it, the title states the pure
        epsilon or rho.
    label : str
        Name of the counted quantity.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    DTypeError, ParameterError
        `mechanism` has another type, or there are more `totals` than steps.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It uses only released values and changes no guarantee.

    Examples
    --------
    >>> import fastdp
    >>> from fastdp import plot
    >>> counter = fastdp.Counter.from_epsilon(1, steps=24)
    >>> shown = [counter.add(n) for n in (5, 9, 2, 30)]
    >>> len(plot.running(shown, counter, label="registrations").axes)
    1
    """
    if not hasattr(mechanism, "steps_left"):
        raise DTypeError(
            f"mechanism must be a Counter or PrefixSums, got {type(mechanism).__name__}"
        )
    values = np.asarray(totals, np.float64)
    if values.ndim != 1 or not 1 <= len(values) <= dict(mechanism._arguments)["steps"]:
        raise ParameterError("totals must be one for each step taken")
    times = np.arange(1, len(values) + 1)
    band = 2 * np.array([mechanism.standard_error(int(t)) for t in times])
    cost = cost_line([mechanism], [mechanism.event()], delta)
    title = f"running {label}, {type(mechanism).__name__}\n{cost}"
    return _banded(times, values, band, ("step", label), title)


def _banded(
    x: Any, middle: Any, band: Any, labels: tuple[str, str], title: str
) -> Figure:
    """Draw released values with a band of two standard errors."""
    figure = figure_of(8)
    axes = figure.subplots()
    axes.plot(x, middle, color="C0", linewidth=1.2, label="released")
    axes.fill_between(
        x, middle - band, middle + band,
        color="C0", alpha=0.25, linewidth=0, label="two standard errors",
    )  # fmt: skip
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.set_title(title, fontsize="medium")
    axes.legend(fontsize="small", loc="upper left")
    return figure
