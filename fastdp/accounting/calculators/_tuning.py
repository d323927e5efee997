"""Private tuning: a private mechanism is run a random number of times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting._numeric import log_fraction
from fastdp.accounting.events import Event, RDPEvent
from fastdp.accounting.events._base import check_event, relation_of
from fastdp.accounting.guarantees import event_delta
from fastdp.accounting.rdp import RDPAccountant, renyi_divergence
from fastdp.exceptions import ParameterError, UnsupportedEventError

__all__ = ["TuningPlan", "private_tuning"]

#: Renyi orders at which the base and the tuned mechanism are evaluated; each is exactly
#: a double. For Poisson numbers of runs every eighth gets a delta of the base.
_ORDERS = tuple(1 + round(1.35 ** (i / 8) * 128) / 1024 for i in range(233))

#: Least gamma and 1 - gamma, and 1 over the largest eta, that doubles can hold.
_LEAST = Fraction(1, 10**300)

#: Relative allowance for the roundings of a handful of operations.
_WIDER = 1 + 1e-12


@dataclass(frozen=True, kw_only=True)
class TuningPlan:
    """The cost of the best of a random number of runs, from `private_tuning`.

    Parameters
    ----------
    event : RDPEvent
        The Renyi divergences of the whole tuning, for an `RDPAccountant`.
    law : str
        "poisson", "geometric", "logarithmic" or "negative binomial".
    mean_runs : float
        Mean number of runs.
    """

    event: RDPEvent
    law: str
    mean_runs: float

    def epsilon(self, delta: Real) -> float:
        """Return an epsilon of the whole tuning at `delta`, rounded up."""
        return RDPAccountant().compose(self.event).epsilon(delta)


def private_tuning(
    event: Event,
    *,
    law: str,
    mean_runs: Real | None = None,
    gamma: Real | None = None,
    eta: Real | None = None,
) -> TuningPlan:
    """Return the cost of running a mechanism K times and releasing the best result.

    K is drawn in secret for each tuning, and nothing may reveal it, such as the run
    time or a log. The score that selects the best result must be a part of the private
    result.

    Parameters
    ----------
    event : Event
        The event of one run with its score; its Renyi divergences must be known.
    law : str
        The law of K. "poisson": K may be 0, and then nothing is released. "geometric",
        "logarithmic": truncated negative binomial laws with eta 1 and 0. "negative
        binomial": with a given `eta`.
    mean_runs : int, float, Fraction or Decimal, optional
        For "poisson": the mean, > 0.
    gamma : int, float, Fraction or Decimal, optional
        For all other laws: > 0 and < 1; a smaller gamma means more runs.
    eta : int, float, Fraction or Decimal, optional
        For "negative binomial": > -1, not 0.

    Returns
    -------
    TuningPlan

    Raises
    ------
    UnsupportedEventError
        No Renyi divergence of the event is known.

    Privacy
    -------
    The guarantee holds for the neighboring relation of `event`. With eps the divergence
    of one run, the divergence at order a is eps(a) + (1 + eta) (1 - 1/b) eps(b) + (1 +
    eta) ln(1/gamma)/b + ln(E K)/(a
    - 1) for the best b, and for Poisson ln(e^-mean + mean e^((a - 1)(eps(a) + mean
    d)))/(a - 1) with d the delta of one run at ln(1 + 1/(a - 1)). The published form
    ignores that possibly nothing is released, and fails for means below 1.

    References
    ----------
    Papernot, Steinke, "Hyperparameter Tuning with Renyi Differential Privacy" (2022),
    Theorems 2 and 6.

    Examples
    --------
    >>> from fastdp.accounting import GaussianEvent, RDPAccountant
    >>> one = GaussianEvent(sensitivity=1, sigma=4)
    >>> plan = private_tuning(one, law="poisson", mean_runs=10)
    >>> round(RDPAccountant().compose(one).epsilon(1e-6), 2)
    1.14
    >>> round(plan.epsilon(1e-6), 2)
    2.04
    """
    check_event("event", event)
    if law == "poisson":
        if gamma is not None or eta is not None:
            raise ParameterError("gamma and eta must be left out for law='poisson'")
        mean = float_up(_validate.positive("mean_runs", mean_runs))
        if mean > 1 / _LEAST:
            raise ParameterError("mean_runs must be at most 1e300")
        values = _poisson(event, mean)
    else:
        shape = _shape(law, eta, mean_runs)
        share = _validate.open_unit("gamma", gamma)
        if not _LEAST <= share <= 1 - _LEAST:
            raise ParameterError("gamma must be between 1e-300 and 1 - 1e-300")
        mean = _mean(shape, share)
        values = _negative_binomial(event, shape, share, mean)
    rows = [
        (Fraction(order), Fraction(value))
        for order, value in zip(_ORDERS, values, strict=True)
        if math.isfinite(value)
    ]
    if not rows:
        if not np.isfinite(renyi_divergence(event, _ORDERS)).any():
            raise UnsupportedEventError(
                f"no finite Renyi divergence is known for {event!r}"
            )
        raise ParameterError(
            "mean_runs, or gamma and eta, must give fewer runs: this "
            "many leave no finite epsilon"
        )
    orders, epsilons = zip(*rows, strict=True)
    table = RDPEvent(
        orders=orders, epsilons=epsilons, neighboring_relation=relation_of(event)
    )
    return TuningPlan(event=table, law=law, mean_runs=mean)


def _shape(law: str, eta: Real | None, mean_runs: Real | None) -> Fraction:
    """Return eta of the law of the number of runs."""
    if mean_runs is not None:
        raise ParameterError("mean_runs must be left out unless law='poisson'")
    known = {"geometric": Fraction(1), "logarithmic": Fraction(0)}
    if law == "negative binomial":
        shape = _validate.exact("eta", eta)
        if shape <= -1 or shape == 0:
            raise ParameterError(
                f"eta must be > -1 and not 0, got {_validate.shown(eta)}"
            )
        if shape > 1 / _LEAST:
            raise ParameterError("eta must be at most 1e300")
        return shape
    if law not in known:
        raise ParameterError(
            "law must be 'poisson', 'geometric', 'logarithmic' or 'negative binomial', "
            f"got {law!r}"
        )
    if eta is not None:
        raise ParameterError("eta must be left out unless law='negative binomial'")
    return known[law]


def _mean(eta: Fraction, gamma: Fraction) -> float:
    """Return the mean of a truncated negative binomial law, rounded up."""
    size = -log_fraction(gamma)
    # eta (1 - gamma)/(gamma (1 - gamma^eta)), with 1 - gamma^eta = -expm1(-x).
    x = float_up(eta) * size
    share = -math.expm1(-x) / x if abs(x) > 1e-100 else 1.0
    return float_up(1 - gamma) / float(gamma) / (size * share) * _WIDER


def _poisson(event: Event, mean: float) -> list[float]:
    """Return the divergences of the best of a Poisson number of runs.

    The delta of one run is convex in e^epsilon, so chords bound it between the
    evaluated orders.
    """
    ratios = [order / (order - 1) for order in _ORDERS]  # they fall
    asked = [
        event_delta(event, math.log1p(1 / (order - 1)) * (1 - 1e-12))
        for order in _ORDERS[::8]
    ]
    deltas = np.interp(ratios, ratios[::-8], asked[::-1]) * (1 + 1e-9)
    single = renyi_divergence(event, _ORDERS).tolist()
    values = []
    for order, one, delta in zip(_ORDERS, single, deltas.tolist(), strict=True):
        gap = order - 1
        grown = math.log(mean) + gap * (one + mean * delta)
        most = max(grown, -mean)
        value = most + math.log1p(math.exp(min(grown, -mean) - most))
        values.append(max(0.0, value / gap + 1e-12 * (1 + abs(most / gap))))
    return values


def _negative_binomial(
    event: Event, eta: Fraction, gamma: Fraction, mean: float
) -> list[float]:
    """Return the divergences of the best of a truncated negative binomial number."""
    single = renyi_divergence(event, _ORDERS).tolist()
    size, power = -log_fraction(gamma) * _WIDER, float_up(1 + eta)
    more = min(
        power * ((1 - 1 / b) * e + size / b)
        for b, e in zip(_ORDERS, single, strict=True)
    )
    return [
        (e + more + math.log(mean) / (a - 1)) * _WIDER
        for a, e in zip(_ORDERS, single, strict=True)
    ]
