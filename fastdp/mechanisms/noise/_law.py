"""Laplace and Gaussian noise: the parts of a mechanism that follow from its law."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, cast

from fastdp import _core, _laws, calibration, distributions
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    NeighboringRelation,
    TruncatedDiscreteLaplaceEvent,
)
from fastdp.mechanisms._base import Additive, Noise


class Law(NamedTuple):
    """A law of noise on the integers."""

    parameter: str
    sampler: Callable[..., _core.Sampler]
    distribution: Callable[..., Any]
    event: Callable[..., Any]
    #: Returns the sensitivity on a grid, including the rounding to the grid.
    charged: Callable[..., Fraction]
    #: Whether the event takes the number of entries that one individual changes.
    counts_entries: bool = False


LAPLACE = Law(
    "scale",
    _laws.laplace_sampler,
    distributions.DiscreteLaplace,
    DiscreteLaplaceEvent,
    calibration.charged_l1,
)
GAUSSIAN = Law(
    "sigma",
    _laws.gaussian_sampler,
    distributions.DiscreteGaussian,
    DiscreteGaussianEvent,
    calibration.charged_l2,
    counts_entries=True,
)
TRUNCATED = LAPLACE._replace(
    distribution=distributions.TruncatedDiscreteLaplace,
    event=TruncatedDiscreteLaplaceEvent,
)


class OfLaw(Additive[Noise]):
    """A mechanism with noise of a law, in steps of 1 or of a grid."""

    __slots__ = ("_coordinates", "_parameter", "_shape")

    _row: ClassVar[Law]
    _coordinates: int | None
    _parameter: Fraction
    _shape: dict[str, int]  # further parameters of the law: the bound

    @abstractmethod
    def __init__(self) -> None:
        """Set the parameter, under the law's name for it."""

    def _set_up(
        self,
        arguments: list[tuple[str, Any]],
        parameter: Fraction,
        coordinates: int | None,
        step: Fraction = Fraction(1),
        **shape: int,
    ) -> None:
        """Freeze the arguments, and the values computed from them."""
        self._freeze(
            _arguments=tuple(arguments),
            _coordinates=coordinates,
            _parameter=parameter,
            _shape=shape,
            _step=step,
            _sampler=self._row.sampler(parameter / step, **shape),
            _law=self._row.distribution(parameter / step, **shape),
        )

    def _charged(self, sensitivity: Fraction) -> Fraction:
        """Return the sensitivity that the noise must cover, in the data's unit."""
        return sensitivity

    def _event(self, sensitivity: Fraction, relation: NeighboringRelation) -> Noise:
        facts: dict[str, Any] = {
            self._row.parameter: self._parameter / self._step,
            **self._shape,
        }
        if self._row.counts_entries:
            facts["coordinates"] = self._coordinates
        made = self._row.event(
            sensitivity=self._charged(sensitivity) / self._step,
            neighboring_relation=relation,
            **facts,
        )
        return cast(Noise, made)
