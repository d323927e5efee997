"""Sensitivity of the sums of a release of moments."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting.events import NeighboringRelation, Relation, as_relation
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.noise.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.records._thresholds import least_threshold

_A = NeighboringRelation.ADD_OR_REMOVE_ONE
_R = NeighboringRelation.REPLACE_ONE


@dataclass(frozen=True)
class Shape:
    """Parameters of the sensitivity, which does not depend on the bounds."""

    moments: int
    groups: int | None
    threshold: int | None
    groups_per_unit: int
    records_per_group: int
    neighboring_relation: NeighboringRelation

    @classmethod
    def of(
        cls,
        moments: int = 2,
        groups: int | None = None,
        threshold: int | None = None,
        groups_per_unit: int = 1,
        records_per_group: int = 1,
        neighboring_relation: Relation = _A,
    ) -> Shape:
        # Convert to Python ints: the products below could overflow numpy's.
        moments = _validate.integer("moments", moments, 1, 2)
        if groups is not None:
            groups = _validate.integer("groups", groups, 1, 2**32)
        most = (groups or 1) if threshold is None else 2**31
        moved = _validate.integer("groups_per_unit", groups_per_unit, 1, most)
        records = _validate.integer("records_per_group", records_per_group, 1, 2**31)
        if threshold is not None:
            if groups is not None:
                raise ParameterError(
                    "threshold must be left out with groups, because these are listed"
                )
            threshold = _validate.integer("threshold", threshold, records + 1, 2**32)
        relation = as_relation(neighboring_relation)
        return cls(moments, groups, threshold, moved, records, relation)

    @classmethod
    def calibrated(cls, delta: Real | None, **options: Any) -> Shape:
        """Return the shape to calibrate for; with `delta`, for a threshold."""
        if delta is None:
            return cls.of(**options)
        if options.get("threshold") is not None:
            raise ParameterError(
                "give threshold or delta, not both: threshold follows from delta"
            )
        return cls.of(**{**options, "threshold": 2**32})

    def least_threshold(
        self, law: type[DiscreteLaplace | DiscreteGaussian], of: Any, delta: Real
    ) -> int:
        """Return the least threshold for noise with this parameter."""
        exact = _validate.exact("parameter", of)
        bits = grid_bits(exact)
        each = _validate.open_unit("delta", delta) / self.moved_groups
        return least_threshold(
            law(exact * 2**bits), each, self.records_per_group, 2**bits
        )

    @property
    def grouped(self) -> bool:
        """Whether each statistic of a release is an array."""
        return self.groups is not None or self.threshold is not None

    @property
    def moved_groups(self) -> int:
        """The number of groups in which neighbors differ."""
        return self.groups_per_unit * self._twice

    @property
    def fixed_size(self) -> bool:
        """Whether the number of records is the same in both datasets."""
        return (
            self.neighboring_relation is _R
            and not self.grouped
            and self.records_per_group == 1
        )

    def l1(self) -> Fraction:
        """Return the L1 sensitivity, in the row's unit."""
        if self.fixed_size:
            return Fraction(9, 4) if self.moments == 2 else Fraction(2)
        row = Fraction(5, 2) if self.moments == 2 else Fraction(2)
        return row * self.groups_per_unit * self.records_per_group * self._twice

    def l2_square(self) -> Fraction:
        """Return the square of the L2 sensitivity, in the row's unit."""
        if self.fixed_size:
            return Fraction(4)
        row = Fraction(9, 4) if self.moments == 2 else Fraction(2)
        return row * self.groups_per_unit * (self.records_per_group * self._twice) ** 2

    def coordinates(self) -> int:
        """Return the number of entries of the release that one individual can move."""
        if self.fixed_size:
            return self.moments
        return (1 + self.moments) * self.moved_groups

    @property
    def _twice(self) -> int:
        """Factor 2 (triangle inequality) if individuals are replaced, otherwise 1."""
        return 2 if self.neighboring_relation is _R else 1


def grid_bits(parameter: Fraction) -> int:
    """Return the largest number of binary places of u that the noise range allows."""
    bits = 30
    while bits > 1 and parameter * 2**bits >= 2**50:
        bits -= 1
    return bits


class Scaled(Mechanism):
    """Scales, noise and shape, from which a release's statistics are computed."""

    __slots__ = ("_bits", "_column", "_half", "_noise", "_parameter", "_shape")

    _bits: int  # u and u**2 are multiples of 2**-bits
    _column: tuple[float, float, float, float, int]  # low, high, center, 1/half, bits
    _half: float  # half the width of the bounds
    _noise: DiscreteGaussian | DiscreteLaplace  # in steps of 2**-bits
    _parameter: Fraction
    _shape: Shape
