"""An empty figure, made without pyplot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdp.exceptions import FastDPError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
