"""Randomized response behind a shuffle: local reports, a central guarantee."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core, _validate
from fastdp import random as fdp_random
from fastdp._doorway import enter, is_data
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import TradeOffEvent
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.local._base import MOST_ANSWERS
from fastdp.mechanisms.local.categories import Named, Other, count_categories
from fastdp.mechanisms.local.estimates import FrequencyEstimate
from fastdp.mechanisms.local.randomized_response import RandomizedResponse

_Array: TypeAlias = "np.ndarray[Any, Any]"


class ShuffledResponse(Mechanism):
    """Randomized response of many clients whose reports are shuffled.

    Each client's category is randomized as in `RandomizedResponse`; the reports are
    then put into an exactly uniform random order, so that no report can be linked to
    its sender. The multiset of reports is far more private than each report alone.

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        Probability that a report is the truth, as in `RandomizedResponse`.
    clients : int
        Least number of reports that are shuffled together, >= 1. Count only clients
        who randomize honestly and keep their report secret.
    categories : int, or sequence of str or of int
        Number of categories, >= 2, or their names, as in `RandomizedResponse`.
    other : int or str, optional
        Category for values that are in none of the categories; None: each counts as a
        category drawn uniformly.

    Privacy
    -------
    Central (epsilon, delta) of the shuffled reports, from `shuffled_epsilon`: two
    datasets are neighboring if they differ in one client's value; no sensitivity is
    needed. Exact reports and an exactly uniform order; the guarantee is an upper bound.
    Against the shuffler, each report has the pure local guarantee of `local`. Timing
    class T2 for the reports and T0 for the shuffle: its memory access follows the
    permutation, which is independent of the data.

    References
    ----------
    Cheu, Smith, Ullman, Zeber, Zhilyaev, "Distributed Differential Privacy via
    Shuffling" (2019); docs/proofs/amplification.md, section 1.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.ShuffledResponse.from_epsilon_delta(
    ...     epsilon=0.5, delta=1e-6, clients=10_000
    ... )
    >>> m.epsilon(delta=1e-6) <= 0.5 < m.local.epsilon()
    True
    >>> reports = m.release(np.arange(10_000) % 5 == 0)
    >>> low, high = m.estimate(reports).confidence_interval(1 - 1e-12)
    >>> bool(low[1] < 2000 < high[1])
    True
    """

    __slots__ = ("_clients", "_local")

    _clients: int
    _local: RandomizedResponse

    def __init__(
        self,
        p: Real,
        *,
        clients: int,
        categories: Named = 2,
        other: Other = None,
    ) -> None:
        count = _validate.integer("clients", clients, 1)
        local = RandomizedResponse(p, categories=categories, other=other)
        self._freeze(
            _arguments=(
                ("p", _validate.plain(local.p)),
                ("clients", count),
                *local._domain.arguments,
            ),
            _clients=count,
            _local=local,
        )

    @classmethod
    def from_epsilon_delta(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        clients: int,
        categories: Named = 2,
        other: Other = None,
    ) -> ShuffledResponse:
        """Return the mechanism with the greatest p that meets a central target.

        Parameters
        ----------
        epsilon, delta : int, float, Fraction or Decimal
            Central target; 1e-9 <= epsilon <= 300, 0 < delta < 1.
        clients, categories, other
            As in the class.
        """
        from fastdp.accounting.amplification import shuffled_local_epsilon

        local = shuffled_local_epsilon(
            epsilon=epsilon,
            delta=delta,
            clients=clients,
            categories=count_categories(categories, MOST_ANSWERS),
        )
        # Cap epsilon at 40: probabilities are multiples of 2^-64, hardly below e^-40.
        own = RandomizedResponse.from_epsilon(
            min(local, 40.0), categories=categories, other=other
        )
        return cls(own.p, clients=clients, categories=categories, other=other)

    @property
    def p(self) -> Fraction:
        """Probability that a report is the truth, exact."""
        return self._local.p

    @property
    def clients(self) -> int:
        """Minimum number of reports that are shuffled together."""
        return self._clients

    @property
    def categories(self) -> int:
        """Number of categories."""
        return self._local.categories

    @property
    def local(self) -> RandomizedResponse:
        """The local mechanism that each client runs."""
        return self._local

    def event(self, *, points: int = 48) -> TradeOffEvent:
        """Return the event of one round, for composition (see `shuffled_event`).

        Parameters
        ----------
        points : int
            Number of epsilons at which the trade-off function is bounded.

        Raises
        ------
        DTypeError, ParameterError
            `points` is out of its domain.
        """
        from fastdp.accounting.amplification import shuffled_event

        return shuffled_event(
            local_epsilon=self._local.epsilon(),
            clients=self._clients,
            categories=self.categories,
            points=points,
        )

    def epsilon(self, *, delta: Real = 0) -> float:
        """Return an epsilon that one round meets at `delta`, rounded up.

        Parameters
        ----------
        delta : int, float, Fraction or Decimal
            >= 0 and < 1; at 0 the result is the epsilon of one report.

        Raises
        ------
        DTypeError, ParameterError
            `delta` is out of its domain.
        """
        from fastdp.accounting.amplification import shuffled_epsilon

        return shuffled_epsilon(
            local_epsilon=self._local.epsilon(),
            clients=self._clients,
            delta=delta,
            categories=self.categories,
        )

    def delta(self, epsilon: Real) -> float:
        """Return a delta that one round meets at `epsilon`, rounded up.

        Raises
        ------
        DTypeError, ParameterError
            `epsilon` is negative or not finite.
        """
        from fastdp.accounting.amplification import shuffled_delta

        return shuffled_delta(
            local_epsilon=self._local.epsilon(),
            clients=self._clients,
            epsilon=epsilon,
            categories=self.categories,
        )

    def release(
        self, values: Any, *, stream: Stream | None = None, workers: int = 1
    ) -> _Array:
        """Return the shuffled reports of all clients.

        If clients run elsewhere, each client calls `local.release` and a shuffler calls
        `fastdp.random.shuffle`; the analyst then sees the same output.

        Parameters
        ----------
        values : ndarray of integers or bool, or column, shape (n,)
            One category for each client, n >= `clients`, as in `RandomizedResponse`.
        stream : Stream, optional
            None draws fresh keys from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads for the reports.

        Returns
        -------
        ndarray of `local.report_dtype`, shape (n,)
            bool for bools. A column gives an array, too: an index would show which
            client is which.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape, or fewer values than `clients`.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee of the class. The link between reports and clients is overwritten
        before this returns. Timing class T2 for the reports, T0 for the order.
        """
        if self._local.names is not None:
            values, _ = self._local._domain.places_of("values", values)
        elif is_data(values):
            truth = self.categories == 2
            values, _ = enter("values", values, truth=truth, labels=True)
        if not isinstance(values, np.ndarray):
            raise DTypeError(f"values must be a column, got {type(values).__name__}")
        if values.ndim != 1 or len(values) < self._clients:
            raise ParameterError(
                f"values must have the shape (n,) with n >= clients = {self._clients}, "
                f"got {values.shape}"
            )
        reports = self._local._release_places(values, None, stream, workers)
        order = None
        try:
            order = fdp_random.permutation(len(reports), stream=stream)
            shuffled: _Array = reports[order]
        finally:
            _core.zero(reports)
            if order is not None:
                _core.zero(order)
        return shuffled

    def estimate(self, reports: _Array, *, workers: int = 1) -> FrequencyEstimate:
        """Return unbiased counts of all categories with their standard errors.

        Parameters
        ----------
        reports : ndarray
            Reports that `release` returned, in any order.
        workers : int
            Threads.

        Returns
        -------
        FrequencyEstimate
            With `confidence_interval` and `consistent`.

        Raises
        ------
        DTypeError, ParameterError
            The reports have a wrong dtype or shape.
        """
        return self._local.estimate(reports, workers=workers)
