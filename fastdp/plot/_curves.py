"""Numbers of the pictures: epsilons and trade-off curves of accountants."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp.exceptions import UnsupportedEventError

Floats: TypeAlias = npt.NDArray[np.float64]

#: Deltas whose lines bound a trade-off curve.
LINES = np.concatenate([np.logspace(-9, -2, 15), np.linspace(0.015, 0.995, 50)])

#: Fewer deltas, for an overview. Each line is a bound, so the curve is only coarser.
_FEW = LINES[::3]

#: False-positive rates at which a trade-off curve is drawn.
RATES = np.linspace(0, 1, 501)


class Accountant(Protocol):
    """The methods of an accountant of ``fastdp.accounting`` that pictures need."""

    def compose(self, event: Any, count: int = 1) -> Any:
        """Add `count` times `event`."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at `delta`."""


class TradeOff(Protocol):
    """The part of a trade-off function that pictures need."""

    def __call__(self, false_positive_rate: npt.ArrayLike) -> Floats:
        """Return the least false-negative rate at each rate."""


def epsilon_of(
    make: Callable[[], Accountant], event: object, count: int, delta: float
) -> float:
    """Return epsilon of `count` times `event`; NaN if there is no bound."""
    accountant = make()
    try:
        accountant.compose(event, count)
    except UnsupportedEventError:
        return float("nan")
    return epsilon_or_nan(accountant, delta)


def epsilon_or_nan(accountant: Accountant, delta: float) -> float:
    try:
        return accountant.epsilon(delta)
    except UnsupportedEventError:
        return float("nan")


def epsilons_of(accountant: Accountant, deltas: Floats) -> Floats:
    """Return epsilon at each delta; NaN where the accountant has no bound."""
    profile = getattr(accountant, "epsilon_profile", None)
    if profile is not None:  # it has lower and upper bounds: draw the upper ones
        upper = np.asarray(profile(deltas)[1])
        return np.where(np.isfinite(upper), upper, np.nan)
    together = getattr(accountant, "epsilons", None)
    if together is not None:  # one search for all deltas
        with contextlib.suppress(UnsupportedEventError):
            return np.asarray(together(deltas))
    return np.array([epsilon_or_nan(accountant, d) for d in deltas.tolist()])


def curve_of(subject: Accountant | TradeOff) -> Floats:
    """Return the least false-negative rates at `RATES`."""
    if callable(subject):
        return np.asarray(subject(RATES))
    bounds = getattr(subject, "trade_off_bounds", None)
    if bounds is not None:  # the accountant knows the exact function
        return np.asarray(bounds(points=8).lower(RATES))
    return least_misses(LINES, epsilons_of(subject, LINES))


def quick_curve(subject: Any, largest: float) -> Any:
    """Return a coarse subject for `trade_off`: few lines, epsilons up to `largest`."""
    deltas_at = getattr(subject, "delta_profile", None)
    if callable(subject):
        return subject
    if deltas_at is None or not np.isfinite(largest):
        few = least_misses(_FEW, epsilons_of(subject, _FEW))
        return lambda rates: few
    epsilons = np.linspace(0, largest, 40)
    deltas = np.asarray(deltas_at(epsilons)[1])
    curve = np.zeros(RATES.size)
    for epsilon, delta in zip(epsilons.tolist(), deltas.tolist(), strict=True):
        curve = np.maximum(curve, line_of(epsilon, delta))
    return lambda rates: curve


def line_of(epsilon: float, delta: float) -> Floats:
    """Return the trade-off function of (epsilon, delta) privacy at `RATES`."""
    grown = np.exp(min(epsilon, 700))
    either = np.maximum(1 - delta - grown * RATES, (1 - delta - RATES) / grown)
    return np.asarray(np.maximum(either, 0.0))


def least_misses(deltas: Floats, epsilons: Floats) -> Floats:
    """Return lower bounds on false-negative rates, from epsilons at `deltas`."""
    known = np.isfinite(epsilons)
    grown = np.exp(np.minimum(epsilons[known], 700))[:, None]
    kept = 1 - deltas[known][:, None]
    best = np.zeros(RATES.size)
    for lines in (kept - grown * RATES, (kept - RATES) / grown):
        best = np.max(np.vstack([best, lines]), axis=0)
    return best
