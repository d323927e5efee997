"""Pictures of sums over ranges and over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdp.exceptions import DTypeError, ParameterError
from fastdp.plot._figure import figure_of
from fastdp.plot._groups import cost_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

#: More cells than this are drawn at so many places.
_POINTS = 2000


def cumulative(
    release: Any, edges: Sequence[float] | None = None, *, delta: float | None = None
) -> Figure:
    """Draw the released number of records up to each cell, with its band.

    Parameters
    ----------
    release : HierarchyRelease
        What `fastdp.HierarchicalHistogram` released.
    edges : sequence of float, optional
        Ends of the cells in the data's unit, one more than cells; default 0, 1, 2 ...
    delta : float, optional
        Where the title states epsilon; without it, the pure epsilon or rho.

    Returns
    -------
    matplotlib.figure.Figure
        A line through the ends of the cells, and a band of two standard errors.

    Raises
    ------
    DTypeError, ParameterError
        `release` is something else, or `edges` has another length.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** A function of what was released: no guarantee changes.

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
    figure = figure_of(8)
    axes = figure.subplots()
    axes.plot(places[shown], middle, color="C0", linewidth=1.2, label="released")
    axes.fill_between(
        places[shown], middle - band, middle + band,
        color="C0", alpha=0.25, linewidth=0, label="two standard errors",
    )  # fmt: skip
    axes.set_xlabel("cell" if edges is None else "value")
    axes.set_ylabel("records up to here")
    cost = cost_line([release], [release.event], delta)
    axes.set_title(f"cumulative count over {cells:,} cells\n{cost}", fontsize="medium")
    axes.legend(fontsize="small", loc="upper left")
    return figure
