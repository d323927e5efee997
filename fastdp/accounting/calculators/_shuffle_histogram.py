"""Histograms from shuffled reports: the local epsilon to use, and the errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fastdp import _validate
from fastdp._validate import Real, float_down
from fastdp.accounting.amplification import (
    shuffled_epsilon,
    shuffled_event,
    shuffled_local_epsilon,
)
from fastdp.accounting.events import TradeOffEvent

__all__ = ["ShuffleHistogramPlan", "shuffle_histogram"]


@dataclass(frozen=True, kw_only=True)
class ShuffleHistogramPlan:
    """A histogram by k-ary response and a shuffle, from `shuffle_histogram`.

    Parameters
    ----------
    categories, clients : int
        Number of categories and of (honest) clients.
    local_epsilon : float
        Epsilon of each report, for `RandomizedResponse.from_epsilon`.
    epsilon, delta : float
        Central guarantee of the shuffled reports if one client's value is replaced.
    standard_error : float
        Standard error of the estimated number of clients in a rare category.
    """

    categories: int
    clients: int
    local_epsilon: float
    epsilon: float
    delta: float
    standard_error: float

    @property
    def central_error(self) -> float:
        """Standard error of a trusted curator's Laplace noise at the same epsilon."""
        return 2 * math.sqrt(2) / self.epsilon  # two counts change by 1 each

    @property
    def local_only_error(self) -> float:
        """Standard error at the same epsilon without a shuffle."""
        return _standard_error(self.epsilon, self.clients, self.categories)

    def event(self, *, points: int = 48) -> TradeOffEvent:
        """Return the event of the shuffled reports (see `shuffled_event`)."""
        return shuffled_event(
            local_epsilon=self.local_epsilon,
            clients=self.clients,
            categories=self.categories,
            points=points,
        )


def shuffle_histogram(
    *, categories: int, clients: int, epsilon: Real, delta: Real
) -> ShuffleHistogramPlan:
    """Return the largest local epsilon for a central target, and the errors.

    Parameters
    ----------
    categories : int
        Number of categories, >= 2.
    clients : int
        Number of clients that each honestly send one report, >= 1.
    epsilon : int, float, Fraction or Decimal
        Central epsilon, >= 1e-9 and <= 300.
    delta : int, float, Fraction or Decimal
        Central delta, > 0 and < 1.

    Returns
    -------
    ShuffleHistogramPlan

    Privacy
    -------
    As for `shuffled_delta`, under its conditions.

    Examples
    --------
    >>> plan = shuffle_histogram(categories=10, clients=100_000, epsilon=1, delta=1e-6)
    >>> plan.epsilon <= 1 < plan.local_epsilon
    True
    >>> plan.central_error < plan.standard_error < plan.local_only_error
    True
    """
    target = float_down(_validate.positive("epsilon", epsilon))
    local = shuffled_local_epsilon(
        epsilon=target, delta=delta, clients=clients, categories=categories
    )
    # k-ary response is drawn with 64-bit probabilities, rounded to more privacy.
    met = min(
        target,
        shuffled_epsilon(
            local_epsilon=local, clients=clients, delta=delta, categories=categories
        ),
    )
    return ShuffleHistogramPlan(
        categories=categories,
        clients=clients,
        local_epsilon=local,
        epsilon=met if met > 0 else target,
        delta=float(_validate.exact("delta", delta)),
        standard_error=_standard_error(local, clients, categories),
    )


def _standard_error(local_epsilon: float, clients: int, categories: int) -> float:
    """Return the standard error of k-ary response's count of an empty category."""
    odds = math.exp(-local_epsilon)  # of another category to the truth
    p = 1 / (1 + (categories - 1) * odds)
    q = odds * p
    return math.sqrt(clients * q * (1 - q)) / (p - q)
