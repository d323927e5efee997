"""Events of randomized answers and private choices."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from fastdp import _validate
from fastdp.accounting.events._base import (
    ADD_ONE,
    REPLACE_ONE,
    Event,
    NonNegative,
    Positive,
    RelationField,
)
from fastdp.exceptions import ParameterError


@dataclass(frozen=True, repr=False, kw_only=True)
class RandomizedResponseEvent(Event):
    """One report of a randomizer with three values of the privacy loss.

    The loss is ln(p/q) with probability p, -ln(p/q) with probability q, and 0
    otherwise: k-ary response, unary encoding, local hashing and Hadamard response are
    all of this form, for every pair of values.

    Parameters
    ----------
    p : Fraction
        Probability of the larger loss; p >= q.
    q : Fraction
        Probability of the opposite loss, > 0; p + q <= 1.
    neighboring_relation : NeighboringRelation
        The relation of one report: by default one individual's value is replaced.
    """

    p: Positive
    q: Positive
    neighboring_relation: RelationField = REPLACE_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.p < self.q:
            raise ParameterError(
                f"p must be >= q, got {_validate.shown(self.p)} and "
                f"{_validate.shown(self.q)}"
            )
        if self.p + self.q > 1:
            raise ParameterError(
                f"p + q must be <= 1, got {_validate.shown(self.p + self.q)}"
            )


@dataclass(frozen=True, repr=False)
class ExponentialMechanismEvent(Event):
    """A selection whose privacy loss lies in an interval of length `epsilon`.

    This is epsilon-bounded range: for neighbors D and D' the losses of all outcomes lie
    in some [t, t + epsilon] that contains 0, which implies pure epsilon. The
    exponential mechanism has it: with weights exp(c score) and scores of sensitivity s,
    epsilon = 2 c s; if adding a record can only raise all scores (monotonic), epsilon =
    c s, and the relation is ADD_OR_REMOVE_ONE.

    Report noisy max with Gumbel noise is the same mechanism; with exponential or
    Laplace noise it is not (`PermuteAndFlipEvent`).

    Parameters
    ----------
    epsilon : Fraction
        Length of the interval, >= 0; also the pure epsilon.
    neighboring_relation : NeighboringRelation
        The relation for which `epsilon` holds.
    """

    epsilon: NonNegative
    _: KW_ONLY
    neighboring_relation: RelationField = ADD_ONE


@dataclass(frozen=True, repr=False)
class PermuteAndFlipEvent(Event):
    """A selection by permute-and-flip, or by scores with exponential or Laplace noise.

    It has pure epsilon without bounded range: it costs as much as Laplace noise of
    scale 1/epsilon (docs/proofs/selection.md, Theorem 6). Permute-and-flip is report
    noisy max with exponential noise (Ding et al. 2021).

    Parameters
    ----------
    epsilon : Fraction
        Pure epsilon, >= 0.
    neighboring_relation : NeighboringRelation
        The relation for which `epsilon` holds.
    """

    epsilon: NonNegative
    _: KW_ONLY
    neighboring_relation: RelationField = ADD_ONE
