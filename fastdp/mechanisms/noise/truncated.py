"""Truncated discrete Laplace noise on integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Never

from fastdp import _validate, calibration
from fastdp._validate import Real
from fastdp.accounting.events import (
    Relation,
    TruncatedDiscreteLaplaceEvent,
)
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._base import ADD, refuse
from fastdp.mechanisms.noise._law import TRUNCATED
from fastdp.mechanisms.noise.integer import Integer


class TruncatedLaplace(Integer[TruncatedDiscreteLaplaceEvent]):
    """Discrete Laplace noise, redrawn until it is in {-bound, ..., bound}.

    Parameters
    ----------
    scale : int, float, Fraction or Decimal
        Scale of the law before truncation, in [1e-6, 2**55].
    bound : int
        Largest absolute value of the noise, in [1, 2**62] and at least scale/100; with
        a smaller bound nearly every draw would be redrawn.
    sensitivity : int, float, Fraction or Decimal, optional
        L1 sensitivity over all entries together that the noise is for, > 0 and
        at most `bound`; without it the mechanism has no cost until `event` gets one.
    neighboring_relation : NeighboringRelation
        The relation for which the sensitivity holds.

    Privacy
    -------
    Approximate: epsilon = s/scale with delta the exact mass of the s outermost
    outcomes, where s is the integer L1 sensitivity, under the sensitivity's neighboring
    relation. Exact.

    References
    ----------
    Geng, Ding, Guo, Kumar, "Tight analysis of privacy and utility tradeoff in
    approximate differential privacy", AISTATS 2020 (the continuous law).

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.TruncatedLaplace.from_epsilon_delta(
    ...     epsilon=1, delta=1e-6, sensitivity=1
    ... )
    >>> abs(m.release(100) - 100) <= m.bound
    np.True_
    """

    __slots__ = ()

    _row = TRUNCATED

    def __init__(
        self,
        scale: Real,
        *,
        bound: int,
        sensitivity: Real | None = None,
        neighboring_relation: Relation = ADD,
        **unknown: Never,
    ) -> None:
        refuse(unknown)
        exact = _validate.positive("scale", scale)
        bound = _validate.integer("bound", bound, 1, 2**62)
        if 100 * bound < exact:
            raise ParameterError(f"bound must be at least scale/100, got {bound}")
        made_for = self._calibrated_for(sensitivity, neighboring_relation)
        arguments = [("scale", _validate.plain(exact)), ("bound", bound), *made_for]
        self._set_up(arguments, exact, None, bound=bound)
        if sensitivity is not None:
            self.event()  # refuse a sensitivity above the bound

    @classmethod
    def from_epsilon_delta(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        sensitivity: Real,
        neighboring_relation: Relation = ADD,
        **unknown: Never,
    ) -> TruncatedLaplace:
        """Return the mechanism for (epsilon, delta): the least bound whose tail fits.

        `sensitivity` is in the L1 norm over all entries, at least 1.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the bound that it needs, is out of range.
        """
        scale = calibration.laplace_scale(epsilon=epsilon, sensitivity=sensitivity)
        bound = calibration.truncated_laplace_bound(
            epsilon=epsilon, delta=delta, sensitivity=sensitivity
        )
        return cls(
            scale,
            bound=bound,
            sensitivity=sensitivity,
            neighboring_relation=neighboring_relation,
            **unknown,
        )

    @property
    def scale(self) -> int | float | Fraction:
        """Scale of the law before truncation, exact."""
        return _validate.plain(self._parameter)

    @property
    def bound(self) -> int:
        """Largest absolute value of the noise."""
        return self._shape["bound"]
