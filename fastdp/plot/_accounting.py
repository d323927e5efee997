"""Pictures of accountants' results: profiles, compositions, trade-off curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp.exceptions import ParameterError
from fastdp.plot._curves import (
    LINES,
    RATES,
    Accountant,
    Floats,
    TradeOff,
    curve_of,
    epsilon_of,
    epsilon_or_nan,
    epsilons_of,
    least_misses,
    line_of,
    quick_curve,
)
from fastdp.plot._figure import (
    Axes,
    drawn_axes,
    drawn_line,
    figure_of,
    finished,
    labeled,
)
from fastdp.plot._titles import events_title, guarantee, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Deltas at which a profile is drawn.
_PROFILE = np.logspace(-12, -1, 45)

#: The same for an overview, which should take about a second: exact accountants compute
#: each delta separately.
_OVERVIEW = np.concatenate([np.logspace(-12, -2, 9), [0.02, 0.05, 0.1]])

#: Style of the marks for the given delta, count and target.
_MARK: dict[str, Any] = {"color": "0.3", "linestyle": ":", "linewidth": 1.0}
_AIM = {**_MARK, "linestyle": "-."}

#: An overview shows curves up to this multiple of the epsilon, or of the target.
_REACH = 4.0


def epsilon_against_count(
    event: object,
    accountants: Mapping[str, Callable[[], Accountant]],
    *,
    delta: float,
    counts: Iterable[int],
    target: float | None = None,
    approximations: Mapping[str, Callable[[int], float]] | None = None,
    axes: Axes = None,
) -> Figure:
    """Draw epsilon at one delta against the number of compositions.

    Parameters
    ----------
    event : Event
        The event to compose.
    accountants : mapping of str to callable
        Name of each notion, and a callable that makes an empty accountant for it: a
        class such as ``RDPAccountant``. A notion is left out where it has no bound.
    delta : float
        >= 0 and < 1.
    counts : iterable of int
        Numbers of compositions, each >= 1.
    target : float, optional
        An epsilon to mark.
    approximations : mapping of str to callable, optional
        Functions from a count to an epsilon that is not a bound.
    axes : matplotlib.axes.Axes, optional
        Axes to draw into; default: a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One line for each notion; ``figure.savefig(path)`` writes it.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It draws public parameters and changes no guarantee.

    Examples
    --------
    >>> from fastdp import plot
    >>> from fastdp.accounting import GaussianEvent, RDPAccountant, ZCDPAccountant
    >>> notions = {"Renyi": RDPAccountant, "zCDP": ZCDPAccountant}
    >>> figure = plot.epsilon_against_count(
    ...     GaussianEvent(sensitivity=1, sigma=200),
    ...     notions,
    ...     delta=1e-5,
    ...     counts=[1, 10, 100, 1000],
    ... )
    >>> len(figure.axes[0].lines)
    2
    """
    places = sorted({_validate.integer("counts", count, 1) for count in counts})
    if not places:
        raise ParameterError("counts must not be empty")
    axes = drawn_axes(axes)
    for name, make in accountants.items():
        drawn_line(
            axes, name, places, [epsilon_of(make, event, k, delta) for k in places]
        )
    for name, estimate in (approximations or {}).items():
        drawn_line(axes, name, places, [estimate(k) for k in places], dashed=True)
    _mark(axes, target=target)
    relation = getattr(event, "neighboring_relation", None)
    axes.set_title(events_title([(event, 1)], relation), fontsize="medium")
    return labeled(axes, "compositions", delta)


def profile(
    accountants: Accountant | Mapping[str, Accountant],
    deltas: npt.ArrayLike | None = None,
    *,
    delta: float | None = None,
    target: float | None = None,
    approximations: Mapping[str, Callable[[float], float]] | None = None,
    axes: Axes = None,
) -> Figure:
    """Draw epsilon as a function of delta.

    Parameters
    ----------
    accountants : Accountant, or mapping of str to Accountant
        The accountant that has composed the events, or several accountants by name.
    deltas : array_like of float, optional
        > 0 and < 1 each; default 1e-12 to 0.1.
    delta : float, optional
        A delta to mark.
    target : float, optional
        An epsilon to mark.
    approximations : mapping of str to callable, optional
        Functions from a delta to an epsilon that is not a bound.
    axes : matplotlib.axes.Axes, optional
        Axes to draw into; default: a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One line for each accountant, with gaps where it has no bound.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It draws public parameters and changes no guarantee.

    Examples
    --------
    >>> from fastdp import plot
    >>> from fastdp.accounting import GaussianEvent, ZCDPAccountant
    >>> accountant = ZCDPAccountant().compose(GaussianEvent(sensitivity=1, sigma=2))
    >>> figure = plot.profile({"zCDP": accountant}, [1e-9, 1e-6, 1e-3])
    >>> figure.axes[0].lines[0].get_ydata().round(3).tolist()
    [3.058, 2.419, 1.546]
    """
    places = _PROFILE if deltas is None else _open_units("deltas", deltas)
    named = _named(accountants)
    axes = drawn_axes(axes)
    for name, accountant in named.items():
        drawn_line(axes, name, places, epsilons_of(accountant, places))
    for name, estimate in (approximations or {}).items():
        values = [estimate(delta) for delta in places.tolist()]
        drawn_line(axes, name, places, values, dashed=True)
    axes.set_xscale("log")
    axes.set_xlabel("delta")
    axes.set_ylabel("epsilon")
    _mark(axes, delta=delta, target=target)
    _entitle(axes, named, delta)
    return finished(axes)


def trade_off(
    accountants: Accountant | TradeOff | Mapping[str, Accountant | TradeOff],
    *,
    delta: float | None = None,
    target: float | None = None,
    approximations: Mapping[str, Callable[[float], float]] | None = None,
    axes: Axes = None,
) -> Figure:
    """Draw the error rates of the best test between two neighboring datasets.

    The curve is the least false-negative rate at each false-positive rate. It is exact
    for a trade-off function and a ``PLDAccountant``; for other accountants it is the
    envelope of the lines that the profile's (epsilon, delta) allow, in both orders of
    the datasets.

    Parameters
    ----------
    accountants : Accountant or TradeOffFunction, or mapping of str to them
        The accountant that has composed the events, or the function itself; or several
        of these by name.
    delta : float, optional
        Delta at which the title states epsilon, and the delta of `target`; default 0.
    target : float, optional
        An epsilon: the curve of (target, delta) privacy is marked. A line that is never
        below this curve meets the target.
    approximations : mapping of str to callable, optional
        Functions from a delta to an epsilon that is not a bound.
    axes : matplotlib.axes.Axes, optional
        Axes to draw into; default: a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One line for each entry, and the diagonal of perfect privacy.

    Raises
    ------
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It draws public parameters and changes no guarantee. The envelope of
    finitely many lines is on or below the curve, so every drawn bound is valid.

    References
    ----------
    Dong, Roth, Su, "Gaussian Differential Privacy" (2022), Proposition 2.12.

    Examples
    --------
    >>> from fastdp import plot
    >>> from fastdp.accounting import LaplaceEvent, PureAccountant
    >>> accountant = PureAccountant().compose(LaplaceEvent(sensitivity=1, scale=1))
    >>> figure = plot.trade_off(accountant)
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['PureAccountant', 'perfect privacy']
    """
    named = _named(accountants)
    axes = drawn_axes(axes)
    for name, accountant in named.items():
        drawn_line(axes, name, RATES, curve_of(accountant))
    for name, estimate in (approximations or {}).items():
        values = np.array([estimate(delta) for delta in LINES.tolist()])
        drawn_line(axes, name, RATES, least_misses(LINES, values), dashed=True)
    axes.plot([0, 1], [1, 0], color="0.6", linewidth=0.8, label="perfect privacy")
    if target is not None:
        curve = line_of(float(target), float(delta or 0))
        axes.plot(RATES, curve, **_AIM, label=f"target epsilon {target:.6g}")
    axes.set_xlabel("false-positive rate")
    axes.set_ylabel("least false-negative rate")
    _entitle(axes, named, delta)
    return finished(axes)


def overview(
    event: object,
    accountants: Mapping[str, Callable[[], Accountant]],
    *,
    delta: float,
    count: int,
    target: float | None = None,
) -> Figure:
    """Draw the bounds of several notions for a composition, as several pictures.

    The given delta, count and target are marked. Parts far above the marks are left
    out.

    Parameters
    ----------
    event : Event
        The event to compose.
    accountants : mapping of str to callable
        Name of each notion, and a callable that makes an empty accountant for it, which
        must accept the event.
    delta : float
        Delta at which epsilon is drawn against the number of compositions, > 0 and < 1.
    count : int
        Number of compositions, >= 1.
    target : float, optional
        An epsilon to mark.

    Returns
    -------
    matplotlib.figure.Figure
        Three pictures side by side; for a single event two pictures, without epsilon
        against the number of compositions.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain.
    UnsupportedEventError
        An accountant has no bound for the event.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It draws public parameters and changes no guarantee.

    Examples
    --------
    >>> from fastdp import plot
    >>> from fastdp.accounting import GaussianEvent, ZCDPAccountant
    >>> figure = plot.overview(
    ...     GaussianEvent(sensitivity=1, sigma=20),
    ...     {"zCDP": ZCDPAccountant},
    ...     delta=1e-6,
    ...     count=100,
    ... )
    >>> len(figure.axes)
    3
    """
    times = _validate.integer("count", count, 1)
    at = float(_validate.open_unit("delta", delta))
    composed = {name: make() for name, make in accountants.items()}
    for accountant in composed.values():
        accountant.compose(event, times)
    known = {name: epsilon_or_nan(a, at) for name, a in composed.items()}
    least = min((e for e in known.values() if e == e), default=float("nan"))
    top = _REACH * max(least, target or 0.0) or 1.0
    near = {name: a for name, a in composed.items() if not known[name] > top}
    makers = {name: accountants[name] for name in near}
    figure = figure_of(14)
    panels = list(figure.subplots(1, 3 if times > 1 else 2))
    profile(
        near,
        _OVERVIEW,
        delta=at,
        target=target,
        axes=panels[0],
    )
    if times > 1:
        epsilon_against_count(
            event,
            makers,
            delta=at,
            counts=_counts_up_to(times),
            target=target,
            axes=panels[1],
        )
    curves = {name: quick_curve(a, known[name]) for name, a in near.items()}
    trade_off(curves, delta=at, target=target, axes=panels[-1])
    for axes in panels[:-1]:
        if np.isfinite(top):
            axes.set_ylim(0, min(axes.get_ylim()[1], top))
    return _together(figure, panels, event, times, (least, at))


def _together(
    figure: Figure,
    panels: list[Axes],
    event: object,
    count: int,
    reading: tuple[float, float],
) -> Figure:
    """Give all pictures of one composition a common title and a common legend below."""
    shown: dict[str, Any] = {}
    for axes in panels:
        axes.get_legend().remove()
        axes.set_title("")
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    figure.legend(
        shown.values(),
        shown.keys(),
        loc="outside lower center",
        ncols=min(6, len(shown)),
        fontsize="small",
    )
    relation = getattr(event, "neighboring_relation", None)
    title = events_title([(event, count)], relation)
    if np.isfinite(reading[0]):
        title += f": {guarantee(*reading)}"
    figure.suptitle(title.replace("$", r"\$"), fontsize="medium")
    return figure


def _counts_up_to(largest: int) -> list[int]:
    return sorted({round(x) for x in np.geomspace(1, largest, 13).tolist()})


def _open_units(name: str, values: npt.ArrayLike) -> Floats:
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if array.ndim != 1 or not np.all((array > 0) & (array < 1)):
        raise ParameterError(f"{name} must be > 0 and < 1, in one dimension")
    return np.sort(array)


def _named(subjects: Any) -> Mapping[str, Any]:
    """Return the subjects by name; a single one gets the name of its class."""
    if isinstance(subjects, Mapping):
        return subjects
    return {type(subjects).__name__: subjects}


def _mark(
    axes: Axes, *, delta: float | None = None, target: float | None = None
) -> None:
    """Mark the given delta on the x axis and the target epsilon on the y axis."""
    if delta is not None:
        axes.axvline(delta, **_MARK, label=f"delta {float(delta):.6g}")
    if target is not None:
        axes.axhline(target, **_AIM, label=f"target epsilon {float(target):.6g}")


def _entitle(axes: Axes, subjects: Mapping[str, Any], delta: float | None) -> None:
    """Set the title of a picture of one composition; several pictures need none."""
    titles = {title_of(subject) for subject in subjects.values()}
    if len(titles) == 1:
        one = next(iter(subjects.values()))
        title = title_of(one, delta) if len(subjects) == 1 else titles.pop()
        axes.set_title(title.replace("$", r"\$"), fontsize="medium")
