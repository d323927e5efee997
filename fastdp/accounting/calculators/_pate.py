"""The cost of noisy majorities of teachers' votes, for any or for given votes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp._validate import Real, float_down
from fastdp.accounting.calculators._classics import parts_changed
from fastdp.accounting.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    Relation,
    as_relation,
    l2_sensitivity,
)
from fastdp.exceptions import DTypeError, ParameterError

__all__ = ["data_dependent_pate_divergence", "pate"]

_Array: TypeAlias = "npt.NDArray[Any]"

_NOISES = ("gaussian", "laplace")
#: Up to here differences of votes are exact doubles, with room.
MOST_VOTES = 10**12
#: Relative rounding error that divergences are raised by.
_SLOP = 1e-12


def pate(
    noise: str,
    width: Real,
    *,
    neighboring_relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    assignment: str | None = None,
) -> Event:
    """Return the event of one noisy majority of teachers' votes, for any votes.

    Each teacher is trained on its own part of the records and casts one vote; the label
    with the largest noisy count is released. One record changes one vote, and so two
    counts by 1 each, or it changes two votes (see `assignment`).

    Parameters
    ----------
    noise : str
        "gaussian" or "laplace": the law of the noise on each count, continuous. (With
        integer noise, ties change the law; use the event of the noisy counts instead.)
    width : int, float, Fraction or Decimal
        sigma of Gaussian noise, scale of Laplace noise, > 0.
    neighboring_relation : NeighboringRelation
        How datasets of the records differ; the teacher of a record must not depend on
        other records.
    assignment : str, optional
        What determines a record's teacher: "place" (only its public place in the
        dataset) or "key" (only the record itself). Required under `REPLACE_ONE`, where
        replacing a record changes one vote by place and two by key. Under
        `ADD_OR_REMOVE_ONE` it is "key": removing a record moves the places of others.

    Returns
    -------
    Event
        Compose it once for every query.

    Raises
    ------
    ParameterError
        `assignment` is left out or does not suit the relation.

    Privacy
    -------
    The guarantee is that of the whole noisy histogram, because the label is a function
    of the histogram: mu = sqrt(2)/sigma, or pure 2/scale; twice these for two votes. It
    does not depend on the true votes.

    References
    ----------
    Papernot et al., "Semi-supervised Knowledge Transfer" (2017) and "Scalable Private
    Learning with PATE" (2018).

    Examples
    --------
    >>> from fastdp.accounting import ZCDPAccountant
    >>> ZCDPAccountant().compose(pate("gaussian", 40), count=800).rho < 0.500001
    True
    """
    _check_noise(noise)
    size = _validate.positive("width", width)
    neighboring_relation = as_relation(neighboring_relation)
    votes = parts_changed(assignment, neighboring_relation)
    if noise == "gaussian":
        # two votes may move between the same two counts, by 2 each
        return GaussianEvent(
            sensitivity=l2_sensitivity(2 * votes**2),
            sigma=size,
            neighboring_relation=neighboring_relation,
        )
    return LaplaceEvent(
        sensitivity=Fraction(2 * votes),
        scale=size,
        neighboring_relation=neighboring_relation,
    )


def data_dependent_pate_divergence(
    votes: npt.ArrayLike, *, noise: str, width: Real, order: Real
) -> float:
    """Return a Renyi divergence of a noisy majority that DEPENDS ON THE VOTES.

    The result is a function of private data and must not be released directly: it can
    be published only through its own mechanism (smooth sensitivity). It shows how much
    such a release could save.

    Parameters
    ----------
    votes : array_like of int, shape (labels,)
        Number of teachers for each of two or more labels.
    noise : str
        "gaussian" or "laplace".
    width : int, float, Fraction or Decimal
        sigma of Gaussian noise, scale of Laplace noise, > 0.
    order : int, float, Fraction or Decimal
        Order of the divergence, > 1; with Laplace noise a whole number.

    Returns
    -------
    float
        A bound for both directions between these votes and the votes after one teacher
        changes its vote; at most the bound for any votes, rounded up.

    Privacy
    -------
    None: the number itself is not private.

    References
    ----------
    Papernot et al. (2018), Theorem 6 and Proposition 7; Papernot et al. (2017),
    Theorem 3 and Lemma 4, for Laplace noise.

    Examples
    --------
    >>> clear = data_dependent_pate_divergence(
    ...     [200, 20, 30], noise="gaussian", width=40, order=8
    ... )
    >>> close = data_dependent_pate_divergence(
    ...     [90, 80, 80], noise="gaussian", width=40, order=8
    ... )
    >>> clear < close == 8 / 40**2 * (1 + 1e-12)
    True
    """
    counts = votes_of(votes, 1)[0]
    _check_noise(noise)
    size = float_down(_validate.positive("width", width))
    at = _validate.exact("order", order)
    if at <= 1 or (noise == "laplace" and at.denominator != 1):
        raise ParameterError(
            "order must be > 1, and an integer for Laplace noise, whose "
            "moments are known only at integers, got "
            f"{_validate.shown(order)}"
        )
    gaps = (counts.max() - np.sort(counts)[:-1].astype(np.float64)).tolist()
    # The theorems bound the divergence from these votes to any neighbor's. Applied to
    # the neighbor they bound the other direction, and hold for any label in the
    # winner's place: this one, from which one vote has gone to its nearest rival.
    gaps = [gap - 1 for gap in gaps]
    gaps[-1] -= 1
    if noise == "gaussian":
        return _gaussian(gaps, size, float(at)) * (1 + _SLOP)
    return _laplace(gaps, 1 / size, int(at)) * (1 + _SLOP)


def votes_of(votes: npt.ArrayLike, dimensions: int) -> npt.NDArray[np.int64]:
    """Return votes as rows, one for each query."""
    rows = vote_rows(np.asarray(votes), dimensions)
    if rows.min() < 0 or rows.max() > MOST_VOTES:
        raise ParameterError(f"votes must be in [0, {MOST_VOTES}]")
    return np.asarray(rows, dtype=np.int64)


def vote_rows(votes: _Array, dimensions: int) -> _Array:
    """Return votes as rows, one for each query; check only dtype and shape."""
    if votes.dtype.kind not in "iu" or not 1 <= votes.ndim <= dimensions:
        raise DTypeError(
            "votes must be integers in one dimension"
            + (" or two" if dimensions > 1 else "")
        )
    rows = np.atleast_2d(votes)
    if rows.shape[0] == 0 or rows.shape[1] < 2:
        raise ParameterError(
            "votes must have at least one query and at least two labels"
        )
    return rows


def clamped_votes(rows: _Array) -> npt.NDArray[np.int64]:
    """Return votes clamped to [0, MOST_VOTES], for any integer dtype."""
    if rows.dtype.kind == "u":  # in their own dtype: int64 would wrap
        top = np.uint64(MOST_VOTES)
        return np.minimum(rows.astype(np.uint64), top).astype(np.int64)
    return rows.astype(np.int64).clip(0, MOST_VOTES)


def _check_noise(noise: str) -> None:
    if noise not in _NOISES:
        raise ParameterError(
            f"noise must be one of {', '.join(_NOISES)}, got {noise!r}"
        )


def _gaussian(gaps: list[float], sigma: float, order: float) -> float:
    """Return `gaussian_bound` from the labels' gaps to the winning label."""
    log_q = _log_sum([_log_half_erfc(gap / (2 * sigma)) for gap in gaps])
    return gaussian_bound(log_q, sigma, order)


def gaussian_bound(log_q: float, sigma: float, order: float) -> float:
    """Return Theorem 6's bound where its conditions hold, never above order/sigma^2.

    `log_q` is ln of a bound on the probability that another label wins.
    """
    plain = order / (sigma * sigma)
    log_q += 1e-13
    if log_q >= -0.7:  # q >= 1/2: its conditions fail, as room < -log_q - 3/2
        return plain
    mu2 = sigma * math.sqrt(-log_q)
    mu1 = mu2 + 1
    e1, e2 = mu1 / (sigma * sigma), mu2 / (sigma * sigma)
    if not (mu2 > 1 and mu1 >= order):
        return plain
    room = (mu2 - 1) * e2
    room -= mu2 * (math.log(mu1 / (mu1 - 1)) + math.log(mu2 / (mu2 - 1)))
    if log_q > room:
        return plain
    log_keep = math.log1p(-math.exp(log_q))
    # ln A = ln(1 - q) - ln(1 - (q e^e2)^((mu2 - 1)/mu2)), ln B = e1 - ln(q)/(mu1 - 1)
    shared = (log_q + e2) * (mu2 - 1) / mu2
    log_a = log_keep - math.log1p(-math.exp(shared))
    log_b = e1 - log_q / (mu1 - 1)
    gain = _gain(log_keep, order - 1, log_a, log_q + (order - 1) * log_b)
    return min(plain, math.log1p(gain) / (order - 1))


def _gain(log_keep: float, power: float, log_a: float, log_rest: float) -> float:
    """Return exp(log_keep + power log_a) + exp(log_rest) - 1, rounded up."""
    if log_rest > 700 or log_keep + power * log_a > 700:
        return math.inf
    rest = math.exp(log_rest)
    error = 1e-13 * (abs(log_keep) + power * abs(log_a) + rest)
    return math.expm1(log_keep + power * log_a) + rest + error


def _laplace(gaps: list[float], gamma: float, order: int) -> float:
    """Return the best of the moments' bounds of Papernot et al. 2017, over the order.

    The moment l = order - 1: 2 gamma^2 l (l + 1), 2 gamma l, and with q a bound on the
    probability that the label does not have the most votes, ln((1 - q) ((1 - q)/(1 -
    e^(2 gamma) q))^l + q e^(2 gamma l)).
    """
    moment = order - 1
    plain = min(2 * gamma * gamma * moment * (moment + 1), 2 * gamma * moment)
    if min(gaps) < 0:  # Lemma 4 is for gaps to the winner
        return plain / moment
    log_q = _log_sum([math.log((2 + gamma * g) / 4) - gamma * g for g in gaps])
    log_q += 1e-13
    if log_q >= -2 * gamma - math.log1p(math.exp(-2 * gamma)):  # q < 1/(e^(2 gamma)+1)
        return plain / moment
    log_keep = math.log1p(-math.exp(log_q))
    log_ratio = log_keep - math.log1p(-math.exp(log_q + 2 * gamma))
    gain = _gain(log_keep, moment, log_ratio, log_q + 2 * gamma * moment)
    return min(plain, math.log1p(gain)) / moment


def _log_half_erfc(x: float) -> float:
    """Return ln(erfc(x)/2)."""
    from scipy.special import log_ndtr

    return float(log_ndtr(-x * math.sqrt(2)))


def _log_sum(logs: list[float]) -> float:
    top = max(logs)
    return top + math.log(math.fsum(math.exp(x - top) for x in logs))
