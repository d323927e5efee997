"""Events with a discrete law of the privacy loss, as other tools export."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting._numeric import log_fraction
from fastdp.accounting.events._base import (
    ADD_ONE,
    Event,
    NeighboringRelation,
    Rationals,
    Relation,
    RelationField,
)
from fastdp.accounting.events._stated import increasing
from fastdp.exceptions import DTypeError, ParameterError

#: Tolerance for the sum of probabilities that were rounded.
_ROUNDING = 1e-9

#: Repair probabilities on a grid if their sum is wrong by at most this.
_REPAIRED = 1e-3

#: Negative numbers that are a transform's rounding of 0.
_BELOW_ZERO = -1e-12

#: Relative allowance for a few roundings.
_TINY = Fraction(1, 10**12)

#: Most losses that a representation lists.
_SHOWN = 16

#: Largest index of a loss, as a distance from 0.
_FARTHEST = 1 << 62

#: ln of the largest mass under Q that is not a mistake of rounding.
_LOG_MOST = math.log1p(_ROUNDING)


@dataclass(frozen=True, repr=False, kw_only=True)
class PrivacyLossEvent(Event):
    """Any mechanism that a discrete law of the privacy loss dominates.

    Let P be the law of the output on one dataset and Q the law on its neighbor. The
    loss ln(P/Q) has the stated probabilities under P; 1 minus their sum is the
    probability of an infinite loss. At every epsilon, also below 0, the mechanism's
    hockey-stick divergence must be at most the law's.

    Parameters
    ----------
    losses : tuple of Fraction
        Increasing, at least one, for the removal of a record: P is the law with the
        record.
    probabilities : tuple of Fraction
        Probabilities of the losses, each > 0, with a sum of at most 1. The sum of
        probability * exp(-loss), their mass under Q, is also at most 1 (up to 1e-9, for
        rounded numbers).
    addition_losses, addition_probabilities : tuple of Fraction, optional
        The same for the addition of a record, where P is the law without the record. If
        left out, they follow from the law of removal with the datasets exchanged.
    neighboring_relation : NeighboringRelation
        The relation for which the law holds. For REPLACE_ONE the laws are for the two
        orders of the datasets, and each step may have either order: several steps are
        composed by the larger of the two profiles.

    See Also
    --------
    privacy_loss_from_pmf : from probabilities on a grid of losses.

    Examples
    --------
    Randomized response that tells the truth in three of four cases:

    >>> log3 = 1.0986122886681098
    >>> event = PrivacyLossEvent(losses=(-log3, log3), probabilities=(0.25, 0.75))
    >>> event.probabilities
    (Fraction(1, 4), Fraction(3, 4))
    """

    losses: Rationals
    probabilities: Rationals
    addition_losses: Rationals = ()
    addition_probabilities: Rationals = ()
    neighboring_relation: RelationField = ADD_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_law("losses", "probabilities")
        if self.addition_losses or self.addition_probabilities:
            self._check_law("addition_losses", "addition_probabilities")

    def _check_law(self, name: str, other: str) -> None:
        losses, masses = getattr(self, name), getattr(self, other)
        if not losses or len(losses) != len(masses):
            raise ParameterError(
                f"{name} and {other} must have the same length, at least 1"
            )
        # Doubles decide where they differ, and are faster to compare.
        apart = (np.diff(np.array(losses, dtype=np.float64)) > 0).all()
        if not apart and not increasing(losses):
            raise ParameterError(f"{name} must be increasing")
        above = (np.array(masses, dtype=np.float64) > 0).all()
        if (not above and min(masses) <= 0) or total(masses) > 1:
            raise ParameterError(f"{other} must be > 0, and their sum <= 1")
        if _log_other_mass(losses, masses) > _LOG_MOST:
            raise ParameterError(
                f"{other} times exp(-{name}) must add up to at most 1: an "
                "optimistic estimate, which understates the loss, is no "
                "bound"
            )

    def __hash__(self) -> int:
        # Hashing rationals takes longer than composing them.
        ends = self.losses[0], self.losses[-1], self.probabilities[-1]
        return hash((len(self.losses), *ends, len(self.addition_losses)))

    def __repr__(self) -> str:
        count, other = len(self.losses), len(self.addition_losses)
        if count + other <= _SHOWN:
            return super().__repr__()
        both = f"{count} losses, {other} for addition" if other else f"{count} losses"
        return f"<PrivacyLossEvent: {both}, {self.neighboring_relation!r}>"


def _log_other_mass(
    losses: tuple[Fraction, ...], masses: tuple[Fraction, ...]
) -> float:
    """Return ln of the sum of mass exp(-loss)."""
    values = np.array(masses, dtype=np.float64)
    with np.errstate(divide="ignore"):
        level = np.log(values)
    for i in np.flatnonzero(values < 1e-300):  # doubles run out
        level[i] = log_fraction(masses[i])
    level -= np.array(losses, dtype=np.float64)
    peak = float(level.max())
    return peak + math.log(math.fsum(np.exp(level - peak).tolist()))


def total(values: Sequence[Fraction]) -> Fraction:
    """Return the exact sum; for many rationals, faster than adding one by one."""
    scale = math.lcm(*{value.denominator for value in values})
    return Fraction(sum(v.numerator * (scale // v.denominator) for v in values), scale)


def privacy_loss_from_pmf(
    probabilities: npt.ArrayLike | Mapping[int, float],
    *,
    interval: Real,
    lower_index: int = 0,
    infinity_mass: Real = 0,
    addition: PrivacyLossEvent | None = None,
    neighboring_relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
) -> PrivacyLossEvent:
    """Return the event of probabilities on a grid of losses.

    dp-accounting stores a privacy loss distribution in this form. Numbers that rounding
    made inconsistent (by up to 1e-3, after many compositions) are repaired toward more
    loss. Only a pessimistic estimate gives a bound.

    Parameters
    ----------
    probabilities : array_like of float, shape (n,), or mapping of int to float
        Entry i is the probability of the loss interval * (lower_index + i); in a
        mapping, of the loss interval * index.
    interval : int, float, Fraction or Decimal
        Distance of neighboring losses, > 0.
    lower_index : int
        Index of the first loss of an array.
    infinity_mass : int, float, Fraction or Decimal
        Probability of an infinite loss, >= 0 and < 1.
    addition : PrivacyLossEvent, optional
        The law for the addition of a record, made in the same way. None: it follows
        from the law of removal, which is valid but loose if losses were rounded up.
    neighboring_relation : NeighboringRelation
        The relation for which the law holds.

    Raises
    ------
    ParameterError
        Probabilities add up to more than rounding explains.

    Examples
    --------
    >>> event = privacy_loss_from_pmf(
    ...     [0.25, 0, 0.75], interval=1.0986122886681098, lower_index=-1
    ... )
    >>> [float(x) for x in event.losses]
    [-1.0986122886681098, 1.0986122886681098]
    """
    step = _validate.positive("interval", interval)
    infinite = _validate.nonnegative("infinity_mass", infinity_mass)
    losses, masses = _repaired(step, _masses(probabilities, lower_index), infinite)
    if addition is None:
        return PrivacyLossEvent(
            losses=losses,
            probabilities=masses,
            neighboring_relation=neighboring_relation,
        )
    if not isinstance(addition, PrivacyLossEvent):
        raise DTypeError(
            f"addition must be a PrivacyLossEvent, got {type(addition).__name__}"
        )
    return PrivacyLossEvent(
        losses=losses,
        probabilities=masses,
        addition_losses=addition.losses,
        addition_probabilities=addition.probabilities,
        neighboring_relation=neighboring_relation,
    )


def _masses(
    probabilities: npt.ArrayLike | Mapping[int, float], lower_index: int
) -> list[tuple[int, Fraction]]:
    """Return the indices with a positive probability, ascending, with their masses."""
    first = _validate.integer("lower_index", lower_index, -_FARTHEST, _FARTHEST)
    if isinstance(probabilities, Mapping):
        indices = [
            _validate.integer("probabilities", i, -_FARTHEST, _FARTHEST)
            for i in probabilities
        ]
        values = np.asarray(list(probabilities.values()))
    else:
        values = np.asarray(probabilities)
        indices = list(range(first, first + values.size))
    if values.dtype.kind not in "iuf" or values.ndim != 1:
        raise DTypeError("probabilities must be an array of numbers of shape (n,)")
    if not np.isfinite(values).all() or (values < _BELOW_ZERO).any():
        raise ParameterError("probabilities must be finite and >= 0")
    found = zip(indices, values.tolist(), strict=True)
    kept = [(i, Fraction(p)) for i, p in sorted(found) if p > 0]
    if not kept:
        raise ParameterError("probabilities must not all be 0")
    return kept


def _repaired(
    step: Fraction, masses: list[tuple[int, Fraction]], infinite: Fraction
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Return losses and probabilities that belong to a pair of laws.

    An excess of the probabilities over 1 is removed from the lowest losses, which
    changes no divergence that a mechanism can have; a mass above 1 under Q is lowered
    by raising the lowest losses (docs/proofs/numerical_accounting.md, section 10).
    """
    excess = total([infinite, *(p for _, p in masses)]) - 1
    if excess > _REPAIRED:
        raise ParameterError("probabilities and infinity_mass must add up to at most 1")
    at = 0
    while excess > 0 and at < len(masses) - 1 and masses[at][1] <= excess:
        excess -= masses[at][1]
        at += 1
    kept = masses[at:]
    if excess > 0:
        if kept[0][1] <= excess:
            raise ParameterError("infinity_mass must be < 1")
        kept[0] = kept[0][0], kept[0][1] - excess
    losses, values = [step * i for i, _ in kept], [p for _, p in kept]
    log_mass = _log_other_mass(tuple(losses), tuple(values))
    if 0 < log_mass <= math.log1p(_REPAIRED):
        losses, values = _raised(losses, values)
    return tuple(losses), tuple(values)


def _raised(
    losses: list[Fraction], values: list[Fraction]
) -> tuple[list[Fraction], list[Fraction]]:
    """Return a law with the lowest losses raised until Q has a mass of at most 1.

    All losses below some loss are raised to it, and then a part of its mass, as needed,
    to the next loss.
    """
    mass, scale = np.array(values, float), np.exp(-np.array(losses, float))
    other = np.append(np.cumsum((mass * scale)[::-1])[::-1][1:], 0.0)
    whole = np.cumsum(mass) * scale + other  # with all up to here raised to here
    slack = 4e-16 * (4 + math.log2(mass.size + 1) + abs(float(losses[0])))
    fits = np.flatnonzero(whole <= 1 - slack)
    if fits.size == 0 or fits[0] == 0:
        return losses, values
    at = int(fits[0])
    low, high = total(values[:at]), values[at]
    gain = float(low) * (scale[at - 1] - scale[at])
    share = Fraction((whole[at - 1] - 1 + slack) / gain) * (1 + _TINY)
    part = low * min(Fraction(1), share)
    return losses[at - 1 :], [low - part, high + part, *values[at + 1 :]]
