"""Pictures of groups: their released statistics, and which of them are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError
from fastdp.plot._figure import figure_of
from fastdp.plot._frequencies import short_name
from fastdp.plot._titles import guarantee, kinds_of, words_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats: TypeAlias = npt.NDArray[np.float64]

#: Draw more groups than this without their names.
_NAMED = 60

#: Panels beside each other in one row.
_ACROSS = 4

#: Statistics of a release of moments that have intervals.
_STATISTICS = ("count", "sum", "mean", "variance")

#: A curve of probabilities ends at 1 minus this.
_CERTAIN = 1e-3

#: Maximum number of points of a curve of probabilities.
_POINTS = 2000


def intervals(
    results: Any,
    keys: Sequence[object] | None = None,
    *,
    statistic: str | None = None,
    level: float | None = None,
    delta: float | None = None,
    title: str | None = None,
) -> Figure:
    """Draw a released statistic of each group with its confidence interval.

    Parameters
    ----------
    results : Release or MomentsRelease, or mapping of key to them
        One release with an entry for each group, or one release for each group. A
        histogram of all records has an entry for each bin; bins or several quantiles by
        group have one panel each.
    keys : sequence, optional
        With one release: labels of its groups; default: its own keys, or else their
        numbers from 0.
    statistic : str, optional
        For a ``Release``, a column of its plan; default: the first column that is not a
        number of records or units. For a ``MomentsRelease``: "count", "sum", "mean"
        (default) or "variance".
    level : float, optional
        Confidence of each single interval, > 0 and < 1; default 0.95, or the level
        of the call that made a ``Release``.
    delta : float, optional
        Delta at which the title states epsilon; without it, the title states the budget
        of a ``Release``, or else the pure epsilon or rho.
    title : str, optional
        Title; default: the statistic, the groups, the level and the cost.

    Returns
    -------
    matplotlib.figure.Figure
        A dot and a line for each group, in the given order from the top; a mean or
        variance of no values has only a line.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain, `keys` has another length, or levels differ.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It uses only released values and changes no guarantee. Keys that come
    from data need a selection first (``fastdp.KeySelection``).

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> from fastdp import plot
    >>> m = fastdp.Moments.from_rho(0.1, bounds=(0, 10), groups=2)
    >>> r = m.release(np.arange(1000) % 10.0, by=np.arange(1000) % 2)
    >>> figure = plot.intervals(r, ["even", "odd"], level=0.9)
    >>> len(figure.axes)
    1
    """
    if isinstance(results, Mapping):
        if keys is not None:
            raise ParameterError("keys must be left out for a mapping of releases")
        names, released = list(results), list(results.values())
    else:
        names, released = [], [results]
        keys = _names(results) if keys is None else keys
    if not released:
        raise ParameterError("results must not be empty")
    if statistic is None and len(panels := _panels(results)) > 1:
        return _side_by_side(results, panels, keys, level, delta, title)
    read = [_read(result, statistic, level) for result in released]
    what = {(one[0], one[1]) for one in read}
    if len(what) > 1:
        raise ParameterError("results must have the same statistic and level")
    middle, low, high = (np.concatenate([one[i] for one in read]) for i in (2, 3, 4))
    if isinstance(results, Mapping):
        if len(middle) != len(names):
            raise ParameterError(
                "results by key must have one group each: for groups "
                "within keys, use one release by both, as in by=[year, "
                "region], or draw each by itself"
            )
    else:
        names = list(range(len(middle)) if keys is None else keys)
        if len(names) != len(middle):
            raise ParameterError(
                f"keys must have the release's length {len(middle)}, got {len(names)}"
            )
    ((shown, exact),) = what
    figure = _figure_for(names)
    axes = figure.subplots()
    _dots(axes, names, middle, low, high)
    axes.set_xlabel(shown)
    cost = cost_line(released, [one[5] for one in read], delta)
    if title is None:
        title = f"{shown} by {_by(released[0])}, {100 * exact:.6g} % intervals\n{cost}"
    axes.set_title(title.replace("$", r"\$"), fontsize="medium")
    return figure


def keep_probability(mechanisms: Any, *, delta: float | None = None) -> Figure:
    """Draw the probability that a key is shown against its number of users.

    Parameters
    ----------
    mechanisms : KeySelection or UnknownHistogram, or iterable of them
        Mechanisms that decide which keys are shown, all under one neighboring relation.
    delta : float, optional
        Delta at which the legend states epsilon of a whole release.

    Returns
    -------
    matplotlib.figure.Figure
        One line for each mechanism, and a thin line at 1/2.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain, or relations differ.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It draws public parameters and changes no guarantee.

    Examples
    --------
    >>> import fastdp
    >>> from fastdp import plot
    >>> budget = {"epsilon": 1, "delta": 1e-6, "keys_per_user": 1}
    >>> best = fastdp.KeySelection.from_epsilon_delta(**budget)
    >>> counts = fastdp.UnknownHistogram.from_epsilon_delta(**budget)
    >>> figure = plot.keep_probability([best, counts])
    >>> [float(line.get_ydata()[14].round(3)) for line in figure.axes[0].lines[:2]]
    [0.7, 0.269]
    """
    listed = list(mechanisms) if isinstance(mechanisms, Iterable) else [mechanisms]
    if not listed:
        raise ParameterError("mechanisms must not be empty")
    for m in listed:
        if not hasattr(m, "probability") or not hasattr(m, "event"):
            raise DTypeError(
                "mechanisms must be KeySelection or UnknownHistogram, "
                f"got {type(m).__name__}"
            )
    relations = {m.event().neighboring_relation for m in listed}
    if len(relations) > 1:
        raise ParameterError("mechanisms must have the same neighboring relation")
    most = max(_users_until(m, 1 - _CERTAIN) for m in listed)
    places = np.arange(0, most + 1, 1 + most // _POINTS)
    figure = figure_of(8)
    axes = figure.subplots()
    for m in listed:
        chances = [m.probability(n) for n in places.tolist()]
        axes.plot(places, chances, ".-", markersize=4, label=_named(m, delta))
    axes.axhline(0.5, color="0.6", linewidth=0.8, label="1/2")
    axes.set_xlabel("users of the key")
    axes.set_ylabel("probability that it is shown")
    kinds = dict.fromkeys(type(m).__name__ for m in listed)
    title = f"{' and '.join(kinds)}, {words_of(relations.pop())}"
    axes.set_title(title, fontsize="medium")
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return figure


# ---- what is drawn -----------------------------------------------------------------


def _names(result: Any) -> Sequence[object] | None:
    """Return the names of a release's groups, or None if it has none."""
    if not hasattr(result, "plan"):
        return getattr(result, "keys", None)
    if _is_histogram(result):
        return list(result.plan.columns)
    return [", ".join(map(str, key)) or "all records" for key in result.groups()]


def _read(
    result: Any, statistic: str | None, level: float | None
) -> tuple[str, float, Floats, Floats, Floats, Any]:
    """Return statistic, level, values, ends and event of a release."""
    if hasattr(result, "plan"):
        columns = result.plan.columns
        rest = [c for c in columns if c not in ("count", "units") and c[-2:] != "_n"]
        name = (rest or columns)[0] if statistic is None else statistic
        exact = result.level if level is None else level
        exact = float(_validate.open_unit("level", exact))
        if name not in columns:
            raise ParameterError(
                f"statistic must be one of {', '.join(columns)}, got {name!r}"
            )
        shown = [name]
        if _is_histogram(result) and statistic is None:
            name, shown = "count", columns
        value = np.concatenate([result.values(one) for one in shown])
        each = [result.interval(one, exact) for one in shown]
        low, high = (np.concatenate(part) for part in zip(*each, strict=True))
        event = result.event()
    elif hasattr(result, "mean_interval"):
        name = "mean" if statistic is None else statistic
        if name not in _STATISTICS:
            raise ParameterError(f"statistic must be one of {_STATISTICS}")
        exact = float(_validate.open_unit("level", 0.95 if level is None else level))
        value = getattr(result, name)
        low, high = getattr(result, f"{name}_interval")(exact)
        event = result.mechanism.event()
    else:
        raise DTypeError(
            "results must be a Release, a MomentsRelease, or a mapping to them, got "
            f"{type(result).__name__}"
        )
    ends = (np.atleast_1d(np.asarray(part, np.float64)) for part in (value, low, high))
    middle, below, above = ends
    return name, exact, middle, below, above, event


def _is_histogram(result: Any) -> bool:
    """Return whether a release has only the bins of a histogram of all records."""
    plan = result.plan
    return not plan.by and {*plan.mechanisms()} == {
        name for name in plan.mechanisms() if name.endswith("_histogram")
    }


def _panels(result: Any) -> tuple[str, ...]:
    """Return the columns of one histogram or of quantiles by group, or else none."""
    plan = getattr(result, "plan", None)
    if plan is None or not plan.by:
        return ()
    laws = [name for name in plan.mechanisms() if name != "keys"]
    one = len(laws) == 1 and laws[0].endswith(("_histogram", "_quantiles"))
    return tuple(plan.columns) if one else ()


def _side_by_side(
    result: Any,
    columns: Sequence[str],
    keys: Sequence[object] | None,
    level: float | None,
    delta: float | None,
    title: str | None,
) -> Figure:
    """Draw a panel for each column, all with the same groups."""
    names = list((_names(result) if keys is None else keys) or [])
    across = min(len(columns), _ACROSS)
    down = -(-len(columns) // across)
    figure = _figure_for(names, down)
    grid = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    read = [_read(result, column, level) for column in columns]
    for axes, (column, _, *numbers, _) in zip(grid, read, strict=False):
        _dots(axes, names, *numbers)
        axes.set_xlabel(column)
    for axes in grid[len(columns) :]:
        axes.set_axis_off()
    cost = cost_line([result], [read[0][5]], delta)
    if title is None:
        title = f"by {_by(result)}, {100 * read[0][1]:.6g} % intervals\n{cost}"
    figure.suptitle(title.replace("$", r"\$"), fontsize="medium")
    return figure


def _by(result: Any) -> str:
    """Return the columns that define the groups as text, if they are known."""
    plan = getattr(result, "plan", None)
    return " and ".join(plan.by) if plan is not None and plan.by else "group"


def _figure_for(names: Sequence[object], down: int = 1) -> Figure:
    """Return a figure high enough for the groups, in `down` rows of panels."""
    figure = figure_of(8)
    height = max(2.5, 1.4 + 0.24 * len(names))
    figure.set_figheight(min(14.0, down * height))
    return figure


def _dots(
    axes: Any, names: Sequence[Any], middle: Floats, low: Floats, high: Floats
) -> None:
    """Draw values and their ends, the first on top."""
    places = np.arange(len(names))
    axes.hlines(places, low, high, color="C0", linewidth=1.5)
    axes.plot(middle, places, "o", color="C0", markersize=5)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    if len(names) <= _NAMED:
        axes.set_yticks(places, [short_name(name) for name in names])
    else:
        axes.set_ylabel("groups, as given")
    axes.xaxis.set_major_formatter("{x:,.10g}")


def cost_line(released: list[Any], events: list[Any], delta: float | None) -> str:
    """Return as a line the cost of one release, or of each if all costs are equal."""
    first = events[0]
    if any(event != first for event in events):
        return f"{len(events)} releases of different cost"
    each = "" if len(events) == 1 else "each "
    if delta is None and all(hasattr(one, "plan") for one in released):
        said = {one.plan.cost() for one in released}
        return each + said.pop() if len(said) == 1 else "releases of different units"
    mechanism = getattr(released[0], "mechanism", None)
    made = "" if mechanism is None else f"{type(mechanism).__name__}, "
    unit = getattr(released[0], "unit", "")
    relation = f"{words_of(first.neighboring_relation)} {unit}".strip()
    # The event of the delta for keys is not noise.
    kinds = kinds_of(first).replace(", ApproximateDP", "")
    parts = [f"{each}{made}{kinds} noise", relation, _claim(first, delta)]
    return ", ".join(filter(None, parts))


def _claim(event: Any, delta: float | None) -> str:
    """Return epsilon at `delta`; without a delta, the pure epsilon or else rho."""
    from fastdp.accounting.guarantees import event_epsilon, event_rho

    try:
        if delta is not None:
            return guarantee(event_epsilon(event, delta), delta)
        return guarantee(event_epsilon(event), 0).removesuffix(" at delta 0")
    except UnsupportedEventError:
        if delta is not None:
            return f"no finite epsilon at delta {float(delta):.6g}"
    try:
        return f"rho {event_rho(event):.6g}"
    except UnsupportedEventError:
        return ""


def _named(m: Any, delta: float | None) -> str:
    numbers = ", ".join(
        f"{name}={float(value):.6g}"
        for name, value in m._arguments
        if name != "neighboring_relation"
    )
    name = f"{type(m).__name__}({numbers})"
    return name if delta is None else f"{name}: {_claim(m.event(), delta)}"


def _users_until(m: Any, probability: float) -> int:
    """Return the least number of users at which a key has this probability."""
    low, high = 0, 1
    while m.probability(high) < probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if m.probability(middle) < probability:
            low = middle
        else:
            high = middle
    return high
