"""Figures made without pyplot, and the lines, axes and legends in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp.exceptions import FastDPError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: matplotlib's axes, for which it has no types.
Axes: TypeAlias = Any


def figure_of(wanted: float) -> Figure:
    """Return an empty figure about `wanted` inches wide."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise FastDPError(
            'fastdp.plot needs matplotlib: pip install "fastdp[plot]"'
        ) from None
    width = min(14.0, max(6.0, wanted))
    figure = Figure(figsize=(width, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def drawn_line(
    axes: Axes, name: str, x: Any, y: npt.ArrayLike, *, dashed: bool = False
) -> None:
    """Draw a line with its name; approximations are dashed and named as such."""
    label = f"{name} (approximation)" if dashed else name
    axes.plot(
        x,
        np.asarray(y, dtype=np.float64),
        linestyle="--" if dashed else "-",
        linewidth=max(1.2, 3.2 - 0.5 * len(axes.lines)),  # so equal curves stay visible
        label=label.replace("$", r"\$"),
    )


def drawn_axes(axes: Axes) -> Axes:
    """Return the axes, or those of a new figure."""
    return figure_of(8).subplots() if axes is None else axes


def finished(axes: Axes) -> Figure:
    """Return the figure of the axes, with a legend next to the data."""
    if axes.lines:
        axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure: Figure = axes.figure
    return figure


def labeled(axes: Axes, what: str, delta: float) -> Figure:
    """Return the figure of epsilon against `what`, on a logarithmic axis."""
    axes.set_xscale("log")
    axes.set_xlabel(what)
    axes.set_ylabel(f"epsilon at delta = {float(delta):.6g}")
    return finished(axes)
