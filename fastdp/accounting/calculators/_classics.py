"""Cost and utility of known algorithms around one private step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting._numeric import log_down
from fastdp.accounting.conversions import below_one, capped_epsilon
from fastdp.accounting.events import (
    ApproximateDPEvent,
    ExponentialMechanismEvent,
    LaplaceEvent,
    NeighboringRelation,
    Relation,
    as_relation,
)
from fastdp.exceptions import DTypeError, ParameterError

__all__ = [
    "ERMPlan",
    "ExponentialMechanismError",
    "ProposeTestReleasePlan",
    "SubsampleAggregatePlan",
    "exponential_mechanism_erm",
    "exponential_mechanism_error",
    "propose_test_release",
    "subsample_and_aggregate",
]


@dataclass(frozen=True, kw_only=True)
class ProposeTestReleasePlan:
    """The test of a proposed local sensitivity, from `propose_test_release`.

    Parameters
    ----------
    threshold : float
        Release if distance + noise exceeds this threshold, which is rounded up. It is
        valid for `DiscreteLaplace` noise of scale 1/test_epsilon on the integer
        distance, `Laplace` noise of this scale with a granularity of at most 1, and the
        continuous law.
    test_epsilon : Fraction
        Epsilon of the noise on the distance.
    event : ApproximateDPEvent
        Guarantee of test and release together.
    """

    threshold: float
    test_epsilon: Fraction
    event: ApproximateDPEvent

    def distance_for(self, probability: Real) -> float:
        """Return a distance from which the test passes with at least `probability`."""
        p = _validate.open_unit("probability", probability)
        if 2 * p < 1:
            raise ParameterError(
                f"probability must be >= 1/2, got {_validate.shown(probability)}"
            )
        return self.threshold + _rarely_reached(self.test_epsilon, 1 - p)


def _rarely_reached(epsilon: Fraction, probability: Fraction) -> float:
    """Return a level that noise of scale 1/epsilon reaches with P <= `probability`.

    On a grid of step g the probability of reaching t is e^(-epsilon t)/(1 + e^(-epsilon
    g)), which for g <= 1 is largest at g = 1; continuous noise is the limit g = 0.
    Rounded up.
    """
    shrink = Fraction(math.exp(-float_up(epsilon)) * (1 - 1e-15))
    return float_up(Fraction(-log_down(probability * (1 + shrink))) / epsilon)


def propose_test_release(
    *,
    test_epsilon: Real,
    test_delta: Real,
    release_epsilon: Real,
    release_delta: Real = 0,
    neighboring_relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> ProposeTestReleasePlan:
    """Return threshold and cost of propose-test-release.

    A bound on the local sensitivity is proposed without looking at the data. The
    distance is the number of records that would have to change before the local
    sensitivity exceeds the bound (0 if it exceeds the bound already). The distance is
    tested with Laplace noise of scale 1/test_epsilon; if the test passes, the statistic
    is released with noise for the proposed bound.

    Parameters
    ----------
    test_epsilon : int, float, Fraction or Decimal
        Epsilon of the test, > 0.
    test_delta : int, float, Fraction or Decimal
        Probability that a distance of 0 passes, > 0 and < 1/2.
    release_epsilon, release_delta : int, float, Fraction or Decimal
        Parameters of the release if the proposed bound were a global one; >= 0.
    neighboring_relation : NeighboringRelation
        The relation for both distance and release.

    Returns
    -------
    ProposeTestReleasePlan

    Privacy
    -------
    (test_epsilon + release_epsilon, max(test_delta, release_delta)): either both
    neighbors are at distance 0 and pass the test with probability test_delta, or one
    neighbor is not at distance 0, and the statistics differ by at most the proposed
    bound. The distance must move by at most 1 between neighbors, and the bound must not
    depend on the data.

    References
    ----------
    Dwork, Lei, "Differential Privacy and Robust Statistics" (2009).

    Examples
    --------
    >>> plan = propose_test_release(
    ...     test_epsilon=0.5, test_delta=1e-6, release_epsilon=0.5
    ... )
    >>> plan.event.epsilon, round(plan.threshold, 3)
    (Fraction(1, 1), 26.683)
    """
    e1 = _validate.positive("test_epsilon", test_epsilon)
    d1 = _validate.open_unit("test_delta", test_delta)
    if 2 * d1 >= 1:
        raise ParameterError(
            f"test_delta must be < 1/2, got {_validate.shown(test_delta)}"
        )
    e2, d2 = capped_epsilon(release_epsilon), below_one(release_delta)
    event = ApproximateDPEvent(
        epsilon=e1 + e2,
        delta=max(d1, d2),
        neighboring_relation=as_relation(neighboring_relation),
    )
    return ProposeTestReleasePlan(
        threshold=_rarely_reached(e1, d1), test_epsilon=e1, event=event
    )


def parts_changed(assignment: str | None, relation: NeighboringRelation) -> int:
    """Return how many disjoint parts of a dataset one record can change.

    Raises
    ------
    ParameterError
        `assignment` is unknown, does not suit the relation, or is missing although the
        number depends on it.
    """
    if assignment is not None and assignment not in ("place", "key"):
        raise ParameterError(f"assignment must be 'place' or 'key', got {assignment!r}")
    if relation is NeighboringRelation.REPLACE_ONE:
        if assignment is None:
            raise ParameterError(
                "assignment must be given if a record is replaced: "
                "'place' if a record's part depends only on its public "
                "position, 'key' if it depends on the record itself, "
                "which then leaves one part and enters another"
            )
        return 1 if assignment == "place" else 2
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE and assignment == "place":
        raise ParameterError(
            "assignment must be 'key' if a record is added or removed: "
            "this moves the positions of other records"
        )
    return 1


@dataclass(frozen=True, kw_only=True)
class SubsampleAggregatePlan:
    """Averages over blocks of records, from `subsample_and_aggregate`.

    Parameters
    ----------
    blocks : int
        Number of blocks.
    sensitivity : Fraction
        Sensitivity of the mean of the blocks' clipped results.
    event : LaplaceEvent
        The event of the mean with Laplace noise.
    """

    blocks: int
    sensitivity: Fraction
    event: LaplaceEvent

    @property
    def scale(self) -> Fraction:
        """Scale of the Laplace noise on the mean."""
        return self.event.scale


def subsample_and_aggregate(
    *,
    blocks: int,
    low: Real,
    high: Real,
    epsilon: Real,
    copies: int,
    neighboring_relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    assignment: str | None = None,
) -> SubsampleAggregatePlan:
    """Return noise and cost of a statistic that is averaged over blocks of records.

    Parameters
    ----------
    blocks : int
        Number of blocks, >= 1; the statistic is computed on each, clipped to [low,
        high], and the mean is released with Laplace noise.
    low, high : int, float, Fraction or Decimal
        low < high, chosen without looking at the data.
    epsilon : int, float, Fraction or Decimal
        Pure epsilon, > 0.
    copies : int
        Maximum number of blocks with one record, 1 ... blocks.
    neighboring_relation : NeighboringRelation
        How datasets differ; the block of a record must not depend on other records.
    assignment : str, optional
        What determines a record's block: "place" (only its public place in the dataset)
        or "key" (only the record itself, such as a hash of its user). Required under
        `REPLACE_ONE`, where replacing a record changes one block by place and two by
        key. Under `ADD_OR_REMOVE_ONE` it is "key": removing a record moves the places
        of others.

    Returns
    -------
    SubsampleAggregatePlan
        Noise of scale changed (high - low)/(blocks epsilon), where `changed` is
        `copies` or twice `copies` (see `assignment`), at most `blocks`.

    Raises
    ------
    ParameterError
        `assignment` is missing or does not suit the relation.

    References
    ----------
    Nissim, Raskhodnikova, Smith, "Smooth Sensitivity and Sampling" (2007).

    Examples
    --------
    >>> subsample_and_aggregate(
    ...     blocks=100, low=0, high=5, epsilon=0.5, copies=1
    ... ).scale
    Fraction(1, 10)
    """
    m = _validate.integer("blocks", blocks, 1)
    wide = _validate.exact("high", high) - _validate.exact("low", low)
    if wide <= 0:
        raise ParameterError(
            f"low must be < high, got {_validate.shown(low)} and "
            f"{_validate.shown(high)}"
        )
    each = _validate.integer("copies", copies, 1, m)
    neighboring_relation = as_relation(neighboring_relation)
    changed = min(m, each * parts_changed(assignment, neighboring_relation))
    size = changed * wide / m
    scale = size / _validate.positive("epsilon", epsilon)
    return SubsampleAggregatePlan(
        blocks=m,
        sensitivity=size,
        event=LaplaceEvent(
            sensitivity=size, scale=scale, neighboring_relation=neighboring_relation
        ),
    )


@dataclass(frozen=True, kw_only=True)
class ERMPlan:
    """A private choice among models, from `exponential_mechanism_erm`.

    Parameters
    ----------
    excess_loss : float
        The mean loss of the chosen model exceeds the least mean loss by more than this
        with probability at most `failure`; rounded up.
    failure : Fraction
        The probability above.
    event : ExponentialMechanismEvent
        The event of the choice.
    """

    excess_loss: float
    failure: Fraction
    event: ExponentialMechanismEvent


def exponential_mechanism_erm(
    *,
    models: int,
    records: int,
    loss_range: Real,
    epsilon: Real,
    failure: Real = Fraction(1, 20),
) -> ERMPlan:
    """Return cost and excess loss of picking the best of finitely many models.

    Parameters
    ----------
    models : int
        Number of models (points of a grid), >= 1, chosen without looking at the data.
    records : int
        Number of records, >= 1; public.
    loss_range : int, float, Fraction or Decimal
        Length of an interval that contains a record's losses, > 0. (For a gradient
        bound G on a ball of radius R: 2 G R.)
    epsilon : int, float, Fraction or Decimal
        Pure epsilon of the exponential mechanism on mean losses, > 0.
    failure : int, float, Fraction or Decimal
        > 0 and < 1.

    Returns
    -------
    ERMPlan
        Excess 2 loss_range (ln(models) + ln(1/failure))/(records epsilon).

    Privacy
    -------
    Pure epsilon with bounded range, if one record is replaced.

    References
    ----------
    McSherry, Talwar, "Mechanism Design via Differential Privacy" (2007); Bassily,
    Smith, Thakurta, "Private Empirical Risk Minimization" (2014).

    Examples
    --------
    >>> round(
    ...     exponential_mechanism_erm(
    ...         models=1000, records=10_000, loss_range=1, epsilon=0.5
    ...     ).excess_loss,
    ...     6,
    ... )
    0.003961
    """
    d = _validate.integer("models", models, 1)
    n = _validate.integer("records", records, 1)
    wide = _validate.positive("loss_range", loss_range)
    error = exponential_mechanism_error(
        candidates=d, sensitivity=wide / n, epsilon=epsilon, failure=failure
    )
    event = ExponentialMechanismEvent(
        _validate.positive("epsilon", epsilon),
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    return ERMPlan(excess_loss=error.bound, failure=error.failure, event=event)


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanismError:
    """How far a choice is below the best score; see `exponential_mechanism_error`.

    Parameters
    ----------
    bound : float
        The chosen score is more than this below the best score with probability at most
        `failure`; in the scores' unit, rounded up.
    mean : float
        A bound on the mean distance below the best score, rounded up.
    failure : Fraction
        The probability above.
    """

    bound: float
    mean: float
    failure: Fraction


def exponential_mechanism_error(
    *,
    candidates: int,
    sensitivity: Real,
    epsilon: Real,
    failure: Real,
    monotonic: bool = False,
) -> ExponentialMechanismError:
    """Return bounds on how far the exponential mechanism's choice is below the best.

    The bounds hold for any scores; for given scores `fastdp.ExponentialMechanism.pmf`
    has the exact law.

    Parameters
    ----------
    candidates : int
        Number of candidates d, >= 1.
    sensitivity, epsilon : int, float, Fraction or Decimal
        As in `fastdp.ExponentialMechanism`, > 0.
    failure : int, float, Fraction or Decimal
        > 0 and < 1.
    monotonic : bool
        As in `fastdp.ExponentialMechanism`; both numbers are then half as large.

    Returns
    -------
    ExponentialMechanismError
        2 sensitivity (ln d + ln(1/failure))/epsilon, and on average
        2 sensitivity (ln d + 1)/epsilon.

    References
    ----------
    McSherry, Talwar, "Mechanism Design via Differential Privacy" (2007).

    Examples
    --------
    >>> error = exponential_mechanism_error(
    ...     candidates=100, sensitivity=1, epsilon=0.5, failure=0.01
    ... )
    >>> round(error.bound, 2), round(error.mean, 2)
    (36.84, 22.42)
    """
    d = _validate.integer("candidates", candidates, 1)
    reach = _validate.positive("sensitivity", sensitivity)
    e = _validate.positive("epsilon", epsilon)
    beta = _validate.open_unit("failure", failure)
    if not isinstance(monotonic, bool):
        raise DTypeError(f"monotonic must be a bool, got {type(monotonic).__name__}")
    unit = float_up((1 if monotonic else 2) * reach / e) * (1 + 4e-15)
    return ExponentialMechanismError(
        bound=unit * (math.log(d) - log_down(beta)),
        mean=unit * (math.log(d) + 1),
        failure=beta,
    )
