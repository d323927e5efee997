"""Pictures of what accountants say: profiles, compositions, trade-off curves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp.exceptions import ParameterError, UnsupportedEventError
from fastdp.plot._figure import figure_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: matplotlib's axes, for which it has no types.
Axes: TypeAlias = Any

Floats: TypeAlias = npt.NDArray[np.float64]

#: Deltas at which a profile is drawn, and those whose lines bound a trade-off curve.
_PROFILE = np.logspace(-12, -1, 45)
_LINES = np.concatenate([np.logspace(-9, -2, 15), np.linspace(0.015, 0.995, 50)])

#: Points of a trade-off curve.
_RATES = np.linspace(0, 1, 501)


class Accountant(Protocol):
    """What an accountant of ``fastdp.accounting`` does, as far as it is drawn."""

    def compose(self, event: Any, count: int = 1) -> Any:
        """Add `count` times `event`."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at `delta`."""


def epsilon_against_count(
    event: object,
    accountants: Mapping[str, Callable[[], Accountant]],
    delta: float,
    counts: Iterable[int],
    *,
    approximations: Mapping[str, Callable[[int], float]] | None = None,
    axes: Axes = None,
) -> Figure:
    """Draw epsilon at one delta against the number of compositions.

    Parameters
    ----------
    event : Event
        What is composed.
    accountants : mapping of str to callable
        What to call each notion, and what makes an empty accountant for it: a class
        such as ``RDPAccountant``. One that has no bound is left out where it has none.
    delta : float
        >= 0 and < 1.
    counts : iterable of int
        Numbers of compositions, each >= 1.
    approximations : mapping of str to callable, optional
        Take a count and return an epsilon that is no bound.
    axes : matplotlib.axes.Axes, optional
        Where to draw; default a figure of its own.

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
    **Privacy.** Draws public parameters: no guarantee changes.

    Examples
    --------
    >>> from fastdp import plot
    >>> from fastdp.accounting import GaussianEvent, RDPAccountant, ZCDPAccountant
    >>> notions = {"Renyi": RDPAccountant, "zCDP": ZCDPAccountant}
    >>> figure = plot.epsilon_against_count(
    ...     GaussianEvent(1, 200), notions, 1e-5, [1, 10, 100, 1000]
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
    return labelled(axes, "compositions", delta)


def profile(
    accountants: Mapping[str, Accountant],
    deltas: npt.ArrayLike | None = None,
    *,
    approximations: Mapping[str, Callable[[float], float]] | None = None,
    axes: Axes = None,
) -> Figure:
    """Draw epsilon as a function of delta.

    Parameters
    ----------
    accountants : mapping of str to Accountant
        What to call each, and the accountant that has composed the events.
    deltas : array_like of float, optional
        > 0 and < 1 each; default 1e-12 to 0.1.
    approximations : mapping of str to callable, optional
        Take a delta and return an epsilon that is no bound.
    axes : matplotlib.axes.Axes, optional
        Where to draw; default a figure of its own.

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
    **Privacy.** Draws public parameters: no guarantee changes.

    Examples
    --------
    >>> from fastdp import plot
    >>> from fastdp.accounting import GaussianEvent, ZCDPAccountant
    >>> accountant = ZCDPAccountant().compose(GaussianEvent(1, 2))
    >>> figure = plot.profile({"zCDP": accountant}, [1e-9, 1e-6, 1e-3])
    >>> figure.axes[0].lines[0].get_ydata().round(3).tolist()
    [3.058, 2.419, 1.546]
    """
    places = _PROFILE if deltas is None else _open_units("deltas", deltas)
    axes = drawn_axes(axes)
    for name, accountant in accountants.items():
        drawn_line(axes, name, places, _epsilons(accountant, places))
    for name, estimate in (approximations or {}).items():
        values = [estimate(delta) for delta in places.tolist()]
        drawn_line(axes, name, places, values, dashed=True)
    axes.set_xscale("log")
    axes.set_xlabel("delta")
    axes.set_ylabel("epsilon")
    return finished(axes)


class TradeOff(Protocol):
    """What a trade-off function does, as far as it is drawn."""

    def __call__(self, false_positive_rate: npt.ArrayLike) -> Floats:
        """Return the least false-negative rate at each rate."""


def trade_off(
    accountants: Mapping[str, Accountant | TradeOff],
    *,
    approximations: Mapping[str, Callable[[float], float]] | None = None,
    axes: Axes = None,
) -> Figure:
    """Draw how well a test can tell two neighbouring datasets apart, at most.

    For each false-positive rate the least false-negative rate: of a trade-off function
    and of a ``PLDAccountant`` the exact one, of other accountants the envelope of the
    lines that the profile's (epsilon, delta) allow, in both orders of the datasets.

    Parameters
    ----------
    accountants : mapping of str to Accountant or TradeOffFunction
        What to call each, and the accountant that has composed the events, or the
        function itself.
    approximations : mapping of str to callable, optional
        Take a delta and return an epsilon that is no bound.
    axes : matplotlib.axes.Axes, optional
        Where to draw; default a figure of its own.

    Returns
    -------
    matplotlib.figure.Figure
        One line for each entry, and the diagonal that perfect privacy has.

    Raises
    ------
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** Draws public parameters: no guarantee changes. A finite number of
    lines lies on or below the curve: what is drawn as a bound is one.

    References
    ----------
    Dong, Roth, Su, "Gaussian Differential Privacy" (2022), Proposition 2.12.

    Examples
    --------
    >>> from fastdp import plot
    >>> from fastdp.accounting import LaplaceEvent, PureAccountant
    >>> accountant = PureAccountant().compose(LaplaceEvent(1, 1))
    >>> figure = plot.trade_off({"pure": accountant})
    >>> len(figure.axes[0].lines)
    2
    """
    axes = drawn_axes(axes)
    for name, accountant in accountants.items():
        drawn_line(axes, name, _RATES, _curve(accountant))
    for name, estimate in (approximations or {}).items():
        values = np.array([estimate(delta) for delta in _LINES.tolist()])
        drawn_line(axes, name, _RATES, _least_misses(values), dashed=True)
    axes.plot([0, 1], [1, 0], color="0.6", linewidth=0.8, label="perfect privacy")
    axes.set_xlabel("false-positive rate")
    axes.set_ylabel("least false-negative rate")
    return finished(axes)


def overview(
    event: object,
    accountants: Mapping[str, Callable[[], Accountant]],
    delta: float,
    count: int,
    *,
    limits: Mapping[str, Callable[[int, float], float]] | None = None,
) -> Figure:
    """Draw what several notions say of a composition: all three pictures in one.

    Parameters
    ----------
    event : Event
        What is composed.
    accountants : mapping of str to callable
        What to call each notion, and what makes an empty accountant for it; each
        must take the event.
    delta : float
        > 0 and < 1: where epsilon is drawn against the number of compositions.
    count : int
        Number of compositions for the other two, >= 1.
    limits : mapping of str to callable, optional
        Take a count and a delta and return an epsilon that is no bound.

    Returns
    -------
    matplotlib.figure.Figure
        Three pictures side by side.

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
    **Privacy.** Draws public parameters: no guarantee changes.

    Examples
    --------
    >>> from fastdp import plot
    >>> from fastdp.accounting import GaussianEvent, ZCDPAccountant
    >>> figure = plot.overview(
    ...     GaussianEvent(1, 20), {"zCDP": ZCDPAccountant}, 1e-6, count=100
    ... )
    >>> len(figure.axes)
    3
    """
    times = _validate.integer("count", count, 1)
    at = float(_validate.open_unit("delta", delta))
    composed = {name: make() for name, make in accountants.items()}
    for accountant in composed.values():
        accountant.compose(event, times)
    given = limits or {}
    by_delta = {name: _with_count(limit, times) for name, limit in given.items()}
    by_count = {name: _with_delta(limit, at) for name, limit in given.items()}
    figure = figure_of(14)
    first, second, third = figure.subplots(1, 3)
    profile(composed, approximations=by_delta, axes=first)
    epsilon_against_count(
        event,
        accountants,
        at,
        _counts_up_to(max(times, 100)),
        approximations=by_count,
        axes=second,
    )
    trade_off(composed, approximations=by_delta, axes=third)
    return figure


def _with_count(
    limit: Callable[[int, float], float], count: int
) -> Callable[[float], float]:
    return lambda delta: limit(count, delta)


def _with_delta(
    limit: Callable[[int, float], float], delta: float
) -> Callable[[int], float]:
    return lambda count: limit(count, delta)


def _counts_up_to(largest: int) -> list[int]:
    return sorted({round(x) for x in np.geomspace(1, largest, 13).tolist()})


def _open_units(name: str, values: npt.ArrayLike) -> Floats:
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if array.ndim != 1 or not np.all((array > 0) & (array < 1)):
        raise ParameterError(f"{name} must be > 0 and < 1, in one dimension")
    return np.sort(array)


def epsilon_of(
    make: Callable[[], Accountant], event: object, count: int, delta: float
) -> float:
    """Return epsilon of `count` times `event`, NaN where there is no bound."""
    accountant = make()
    try:
        accountant.compose(event, count)
        return accountant.epsilon(delta)
    except UnsupportedEventError:
        return float("nan")


def _epsilons(accountant: Accountant, deltas: Floats) -> Floats:
    """Return epsilon at each delta, NaN where the accountant has no bound."""
    profile = getattr(accountant, "epsilon_profile", None)
    if profile is not None:  # bounds from both sides: the upper ones are the claim
        upper = np.asarray(profile(deltas)[1])
        return np.where(np.isfinite(upper), upper, np.nan)
    together = getattr(accountant, "epsilons", None)
    if together is not None:  # one search for all of them
        with contextlib.suppress(UnsupportedEventError):
            return np.asarray(together(deltas))
    values = []
    for delta in deltas.tolist():
        try:
            values.append(accountant.epsilon(delta))
        except UnsupportedEventError:
            values.append(float("nan"))
    return np.array(values)


def _curve(subject: Accountant | TradeOff) -> Floats:
    """Return the least false-negative rates at `_RATES`."""
    if callable(subject):
        return np.asarray(subject(_RATES))
    bounds = getattr(subject, "trade_off_bounds", None)
    if bounds is not None:  # which knows the exact function
        return np.asarray(bounds(points=8).lower(_RATES))
    return _least_misses(_epsilons(subject, _LINES))


def _least_misses(epsilons: Floats) -> Floats:
    """Return the false-negative rates that epsilons at `_LINES` leave to a test."""
    known = np.isfinite(epsilons)
    grown = np.exp(np.minimum(epsilons[known], 700))[:, None]
    kept = 1 - _LINES[known][:, None]
    best = np.zeros(_RATES.size)
    for lines in (kept - grown * _RATES, (kept - _RATES) / grown):
        best = np.max(np.vstack([best, lines]), axis=0)
    return best


def drawn_line(
    axes: Axes, name: str, x: Any, y: npt.ArrayLike, *, dashed: bool = False
) -> None:
    """Draw a line with its name; what is no bound dashed, and named as such."""
    label = f"{name} (approximation)" if dashed else name
    axes.plot(
        x,
        np.asarray(y, dtype=np.float64),
        linestyle="--" if dashed else "-",
        linewidth=1.4,
        label=label.replace("$", r"\$"),
    )


def drawn_axes(axes: Axes) -> Axes:
    """Return the axes, or those of a new figure."""
    return figure_of(6).subplots() if axes is None else axes


def finished(axes: Axes) -> Figure:
    """Return the figure of the axes, with a legend."""
    if axes.lines:
        axes.legend(fontsize="small")
    figure: Figure = axes.figure
    return figure


def labelled(axes: Axes, what: str, delta: float) -> Figure:
    """Return the figure of epsilon against `what`, on a logarithmic axis."""
    axes.set_xscale("log")
    axes.set_xlabel(what)
    axes.set_ylabel(f"epsilon at delta = {float(delta):.6g}")
    return finished(axes)
