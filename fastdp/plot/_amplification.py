"""Pictures of amplification: epsilon against sampling, clients and iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fastdp import _validate
from fastdp._validate import Real
from fastdp.exceptions import ParameterError
from fastdp.plot._curves import Accountant, epsilon_of
from fastdp.plot._figure import Axes, drawn_axes, drawn_line, labeled
from fastdp.plot._titles import events_title, words_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fastdp.accounting.events import GDPEvent


def epsilon_against_rate(
    event: Any,
    accountants: Mapping[str, Callable[[], Accountant]],
    *,
    delta: float,
    rates: Iterable[Real],
    count: int = 1,
    axes: Axes = None,
) -> Figure:
    """Draw epsilon at one delta against the rate of Poisson sampling.

    Parameters
    ----------
    event : Event
        The event on the sample, for one record added or removed.
    accountants : mapping of str to callable
        Name of each notion, and a callable that makes an empty accountant for it. A
        notion is left out where it has no bound.
    delta : float
        >= 0 and < 1.
    rates : iterable of numbers
        Sampling probabilities, each > 0 and <= 1.
    count : int
        Number of samples that are drawn and used, >= 1.
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
    >>> from fastdp.accounting import GaussianEvent, PLDAccountant, RDPAccountant
    >>> notions = {"tight": PLDAccountant, "Renyi": RDPAccountant}
    >>> figure = plot.epsilon_against_rate(
    ...     GaussianEvent(sensitivity=1, sigma=1),
    ...     notions,
    ...     delta=1e-5,
    ...     rates=[0.01, 0.1, 1],
    ...     count=100,
    ... )
    >>> len(figure.axes[0].lines)
    2
    """
    from fastdp.accounting.events import PoissonSampledEvent

    places = sorted(
        {_validate.between("rates", rate, Fraction(0), Fraction(1)) for rate in rates}
    )
    if not places or places[0] == 0:
        raise ParameterError("rates must be > 0 and <= 1, and at least one")
    times = _validate.integer("count", count, 1)
    axes = drawn_axes(axes)
    for name, make in accountants.items():
        values = [
            epsilon_of(
                make, PoissonSampledEvent(p, event) if p < 1 else event, times, delta
            )
            for p in places
        ]
        drawn_line(axes, name, [float(p) for p in places], values)
    counted = [(event, times)]
    axes.set_title(events_title(counted, event.neighboring_relation), fontsize="medium")
    return labeled(axes, "sampling rate", delta)


def epsilon_against_clients(
    *,
    local_epsilon: Real,
    clients: Iterable[int],
    delta: float,
    categories: Iterable[int] = (2,),
    axes: Axes = None,
) -> Figure:
    """Draw the central epsilon of shuffled reports against the number of clients.

    Parameters
    ----------
    local_epsilon : int, float, Fraction or Decimal
        Epsilon of each report, as for ``shuffled_epsilon``.
    clients : iterable of int
        Numbers of clients, each >= 1.
    delta : float
        > 0 and < 1.
    categories : iterable of int
        Draw one line for randomized response with each of these numbers of categories,
        in addition to the line for any randomizer.
    axes : matplotlib.axes.Axes, optional
        Axes to draw into; default: a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        The figure includes the local epsilon as a thin line and, where its condition
        holds, the closed form.

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
    >>> figure = plot.epsilon_against_clients(
    ...     local_epsilon=1, clients=[100, 10_000], delta=1e-6, categories=[2]
    ... )
    >>> [line.get_label() for line in figure.axes[0].lines][:3]
    ['any randomizer', '2 categories', 'any randomizer, closed form']
    """
    from fastdp.accounting import amplification

    places = sorted({_validate.integer("clients", n, 1) for n in clients})
    if not places:
        raise ParameterError("clients must not be empty")
    known = [_validate.integer("categories", k, 2) for k in categories]
    axes = drawn_axes(axes)
    lines: list[tuple[str, int | None]] = [("any randomizer", None)]
    lines += [(f"{k} categories", k) for k in known]
    for name, k in lines:
        values = [
            amplification.shuffled_epsilon(
                local_epsilon=local_epsilon, clients=n, delta=delta, categories=k
            )
            for n in places
        ]
        drawn_line(axes, name, places, values)
    closed = [_closed_form(local_epsilon, n, delta) for n in places]
    drawn_line(axes, "any randomizer, closed form", places, closed)
    own = float(_validate.exact("local_epsilon", local_epsilon))
    axes.axhline(own, color="0.6", linewidth=0.8, label="each report alone")
    axes.set_yscale("log")
    axes.set_title(f"shuffled reports, each of epsilon {own:.6g}", fontsize="medium")
    return labeled(axes, "clients", delta)


def epsilon_against_iterations(
    counts: Iterable[int],
    *,
    delta: float,
    records: int,
    sigma: Real,
    step_size: Real,
    lipschitz: Real,
    smoothness: Real,
    strong_convexity: Real = 0,
    diameter: Real | None = None,
    axes: Axes = None,
) -> Figure:
    """Draw epsilon against the number of steps of noisy gradient descent.

    Parameters
    ----------
    counts : iterable of int
        Numbers of steps, each >= 1.
    delta : float
        > 0 and < 1.
    records, sigma, step_size, lipschitz, smoothness, strong_convexity, diameter
        As in ``noisy_gradient_descent``.
    axes : matplotlib.axes.Axes, optional
        Axes to draw into; default: a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One line for the release of every iterate, and one for the release of only the
        last.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain, or a condition is not met.
    FastDPError
        matplotlib is missing.

    Notes
    -----
    **Privacy.** It draws public parameters and changes no guarantee.

    Examples
    --------
    >>> from fastdp import plot
    >>> figure = plot.epsilon_against_iterations(
    ...     [1, 100, 10_000],
    ...     delta=1e-6,
    ...     records=100,
    ...     sigma=1,
    ...     step_size=1,
    ...     lipschitz=1,
    ...     smoothness=1,
    ...     diameter=2,
    ... )
    >>> len(figure.axes[0].lines)
    2
    """
    from fastdp.accounting.amplification import noisy_gradient_descent
    from fastdp.accounting.fdp import GDPAccountant

    def last(count: int) -> GDPEvent:
        return noisy_gradient_descent(
            steps=count,
            records=records,
            sigma=sigma,
            step_size=step_size,
            lipschitz=lipschitz,
            smoothness=smoothness,
            strong_convexity=strong_convexity,
            diameter=diameter,
            last_iterate_only=True,
        )

    places = sorted({_validate.integer("counts", count, 1) for count in counts})
    if not places:
        raise ParameterError("counts must not be empty")
    axes = drawn_axes(axes)
    one = last(1)  # a single step, which is always released
    for name, event_of in (
        ("every iterate released", lambda count: (one, count)),
        ("last iterate only", lambda count: (last(count), 1)),
    ):
        values = [
            GDPAccountant().compose(*event_of(count)).epsilon(delta) for count in places
        ]
        drawn_line(axes, name, places, values)
    title = f"noisy gradient descent, {words_of(one.neighboring_relation)}"
    axes.set_title(title, fontsize="medium")
    return labeled(axes, "iterations", delta)


def _closed_form(local_epsilon: Real, clients: int, delta: float) -> float:
    """Return the closed form, or NaN if its condition is not met."""
    from fastdp.accounting.amplification import shuffled_closed_form_epsilon

    try:
        return shuffled_closed_form_epsilon(
            local_epsilon=local_epsilon, clients=clients, delta=delta
        )
    except ParameterError:
        return float("nan")
