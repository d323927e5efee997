"""A data-dependent privacy bound of PATE, released with noise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _validate
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import NeighboringRelation, RDPEvent
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.choices.smooth_sensitivity import SmoothSensitivity

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Refuse larger values: the released value must be a double.
_MOST_VALUE = Fraction(2) ** 1000


class PATEDivergence(Mechanism):
    """The data-dependent divergence of noisy majorities, released privately.

    The cost of noisy majorities of teachers' votes, given the votes, is itself private.
    The release is this cost plus Gaussian noise, scaled by the cost's smooth
    sensitivity, on a grid.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Standard deviation of the noise on each count of votes, > 0.
    order : int, float, Fraction or Decimal
        Order of the divergence, > 1.
    smoothness : int, float, Fraction or Decimal
        beta > 0, at most about 1/(2 order). A smaller beta makes the smooth sensitivity
        wider and the release cheaper.
    scale : int, float, Fraction or Decimal
        Standard deviation of the noise on the divergence in units of the smooth
        sensitivity, >= 2.
    granularity : int, float, Fraction or Decimal
        Public step between the possible released values, > 0. At least scale times the
        largest possible divergence, queries order/sigma^2, over 2**55: the noise is a
        64-bit number of steps.

    Raises
    ------
    DTypeError, ParameterError
        A parameter has a wrong type or is out of its domain, or `granularity` is too
        fine for one query.

    Privacy
    -------
    The release costs `divergence()` at `order`, in addition to the cost of the
    majorities, as one event. Discrete noise is exact, and the bound is rounded up.
    Datasets are neighboring if one teacher votes differently, in any of the queries (a
    replaced record changes two teachers if its teacher depends on the record). The
    released number is an estimate of the majorities' cost, not a bound. **Not
    timing-safe** (no timing class): the scale of the noise depends on the votes, and so
    does the run time.

    References
    ----------
    Papernot et al., "Scalable Private Learning with PATE" (2018), appendix B;
    docs/proofs/amplification.md, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdp.mechanisms.pate import PATEDivergence
    >>> m = PATEDivergence(sigma=40, order=14, smoothness=0.02, scale=20)
    >>> round(m.divergence(), 4) < 0.08
    True
    >>> votes = np.array([[200, 20, 30]] * 50)
    >>> (m.release(votes) * 2**20).is_integer()  # for any noise
    True
    """

    __slots__ = ("_order", "_scale", "_sigma", "_smoothness", "_step")

    _order: Fraction
    _scale: Fraction
    _sigma: Fraction
    _smoothness: Fraction
    _step: Fraction

    def __init__(
        self,
        *,
        sigma: Real,
        order: Real,
        smoothness: Real,
        scale: Real,
        granularity: Real = Fraction(1, 2**20),
    ) -> None:
        width = _validate.positive("sigma", sigma)
        at = _validate.exact("order", order)
        beta = _validate.positive("smoothness", smoothness)
        multiple = _validate.positive("scale", scale)
        step = _validate.positive("granularity", granularity)
        self._freeze(
            _arguments=tuple(
                (name, _validate.plain(value))
                for name, value in (
                    ("sigma", width),
                    ("order", at),
                    ("smoothness", beta),
                    ("scale", multiple),
                    ("granularity", step),
                )
            ),
            _sigma=width,
            _order=at,
            _smoothness=beta,
            _scale=multiple,
            _step=step,
        )
        self.divergence()  # checks all arguments, for one query

    def divergence(self) -> float:
        """Return the Renyi divergence of the release at its order, rounded up."""
        return self._smooth(1).divergence(self._order)

    def event(self) -> RDPEvent:
        """Return the event of the release, for one teacher's votes replaced."""
        return RDPEvent(
            orders=(self._order,),
            epsilons=(Fraction(self.divergence()),),
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        )

    def release(self, votes: _Array, *, stream: Stream | None = None) -> float:
        """Return the divergence of the majorities of these votes with noise.

        Parameters
        ----------
        votes : ndarray of integers, shape (queries, labels)
            Number of teachers for each label of each query; clamped to [0, 10**12].
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.

        Returns
        -------
        float
            A multiple of `granularity`; may be negative.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape, or `granularity` is too fine for this number of
            queries; no value of a vote raises.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee of the class.
        """
        from fastdp.accounting.calculators import data_dependent_pate_smooth_sensitivity
        from fastdp.accounting.calculators._pate import clamped_votes, vote_rows

        check_stream(stream)
        if not isinstance(votes, np.ndarray):
            raise DTypeError(f"votes must be an ndarray, got {type(votes).__name__}")
        rows = vote_rows(votes, 2)
        release = self._smooth(len(rows))
        found = data_dependent_pate_smooth_sensitivity(
            clamped_votes(rows),
            sigma=self._sigma,
            order=self._order,
            smoothness=self._smoothness,
        )
        return release.release(
            found.divergence, smooth_sensitivity=found.smooth_sensitivity, stream=stream
        )

    def _smooth(self, queries: int) -> SmoothSensitivity:
        """Return the mechanism of the release, made only from public numbers.

        No smooth sensitivity exceeds the largest divergence, queries order/sigma^2.
        """
        width = Fraction(_validate.float_down(self._sigma))
        largest = Fraction(0)
        if width:
            # with a margin for the rounding of sums in doubles
            largest = queries * self._order / width**2 * (1 + Fraction(1, 10**8))
        if not width or largest > _MOST_VALUE:
            raise ParameterError(
                "sigma must be larger: queries order/sigma^2 must be <= 2**1000, "
                f"got {_validate.plain(self._sigma)!r}"
            )
        return SmoothSensitivity(
            scale=self._scale,
            smoothness=self._smoothness,
            largest=max(Fraction(_validate.float_up(largest)), 1 / _MOST_VALUE),
            noise="gaussian",
            granularity=self._step,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        )
