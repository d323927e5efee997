"""Pictures of estimated frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp.exceptions import ParameterError
from fastdp.plot._figure import figure_of
from fastdp.plot._titles import reports_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Draw more categories than this as points, without their names.
_NAMED = 60

#: Cut names below a bar after this many letters.
_LETTERS = 24

#: Turn the names if their number times the longest length exceeds this.
_ACROSS = 70


class Estimate(Protocol):
    """The part of a frequency oracle's estimate that pictures need."""

    @property
    def counts(self) -> npt.NDArray[np.float64]:
        """The estimated number of users in each category."""

    @property
    def users(self) -> int:
        """Number of reports."""

    def confidence_interval(
        self, level: float
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the lower and upper ends for the counts."""


def frequencies(
    estimate: Estimate,
    categories: Sequence[object] | None = None,
    *,
    level: float = 0.95,
    top: int | None = None,
) -> Figure:
    """Draw estimated frequencies with their confidence intervals.

    Parameters
    ----------
    estimate : FrequencyEstimate
        Result of a frequency oracle's ``estimate`` with at least one user.
    categories : sequence, shape (categories,), optional
        Labels of the categories; default: their names, or their numbers from 0.
    level : float
        Confidence of each single interval, > 0 and < 1.
    top : int, optional
        Draw only this number of categories, most frequent first; default: all, in their
        own order.

    Returns
    -------
    matplotlib.figure.Figure
        Bars, or points if there are many; ``figure.savefig(path)`` writes the figure.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain, or `categories` has another length.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It uses only the estimate and changes no guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> from fastdp import plot
    >>> m = fastdp.RandomizedResponse.from_epsilon(2, categories=3)
    >>> reports = m.release(np.array([0, 1, 1, 2] * 1000))
    >>> figure = plot.frequencies(m.estimate(reports), ["red", "green", "blue"])
    >>> len(figure.axes)
    1
    """
    exact = float(_validate.open_unit("level", level))
    counts = np.asarray(estimate.counts)
    if categories is None:
        categories = getattr(estimate, "names", None)
    names = _names(categories, len(counts))
    if estimate.users < 1:
        raise ParameterError("estimate must be of at least one user, got none")
    order = most_frequent(counts, top)
    low, high = estimate.confidence_interval(exact)
    middle, below, above = (
        np.asarray(part)[order] / estimate.users for part in (counts, low, high)
    )
    arms = np.array([middle - below, above - middle])
    figure = figure_of(2 + 0.25 * len(order))
    axes = figure.subplots()
    places = np.arange(len(order))
    label = f"estimate, {100 * exact:.6g} % interval"
    if len(order) <= _NAMED:
        axes.bar(places, middle, yerr=arms, capsize=3, color="C0", label=label)
        shown = [short_name(names[place]) for place in order]
        axes.set_xticks(places, shown)
        crowded = (
            len(shown) > 8 or len(shown) * max(map(len, shown), default=0) > _ACROSS
        )
        axes.tick_params(axis="x", labelrotation=90 if crowded else 0)
    else:
        axes.errorbar(
            places, middle, yerr=arms, fmt=".", elinewidth=0.5, color="C0", label=label
        )
        axes.set_xlabel("category" if top is None else "categories by frequency")
    axes.axhline(0, color="0.6", linewidth=0.8)
    axes.set_ylabel("frequency")
    axes.set_title(reports_title(estimate))
    axes.legend(fontsize="small", loc="upper right", bbox_to_anchor=(1, -0.12))
    return figure


def most_frequent(
    counts: npt.NDArray[np.float64], top: int | None
) -> npt.NDArray[np.intp]:
    """Return the places of the `top` largest counts, largest first; None: all.

    Raises
    ------
    DTypeError, ParameterError
        `top` is not an int >= 1.
    """
    if top is None:
        return np.arange(len(counts))
    number = _validate.integer("top", top, 1)
    return np.argsort(-counts, kind="stable")[:number]


def _names(categories: Sequence[object] | None, number: int) -> Sequence[object]:
    if categories is None:
        return range(number)
    if len(categories) != number:
        raise ParameterError(
            f"categories must have the estimate's length {number}, "
            f"got {len(categories)}"
        )
    return categories


def short_name(name: object) -> str:
    """Return a name in a form that fits next to an axis."""
    text = str(name)
    # Escape dollar signs: matplotlib would read them as math.
    shown = text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "\u2026"
    return shown.replace("$", r"\$")
