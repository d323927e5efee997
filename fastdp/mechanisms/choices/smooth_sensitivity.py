"""Noise scaled by a smooth bound of the sensitivity at the actual data."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _validate, calibration
from fastdp import random as fdp_random
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    NeighboringRelation,
    PureDPEvent,
    RDPEvent,
    Relation,
    as_relation,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.choices._student import rounded_student

_Array: TypeAlias = "np.ndarray[Any, Any]"
_ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
_REPLACE = NeighboringRelation.REPLACE_ONE

#: A smooth sensitivity computed in doubles may be wrong by a factor e^(+-_SLACK).
_SLACK = Fraction(1, 2**40)
#: Lower bound of sqrt(3), less than 2**-64 below it.
_ROOT = Fraction(math.isqrt(3 << 128), 1 << 64)

#: Largest sigma, in steps, of discrete Gaussian noise.
_MOST_SIGMA = 2**55
#: Refuse larger smoothness: the orders with a bound would be too near 1 for doubles.
_MOST_SMOOTHNESS = 4
#: Round sigma up to a multiple of 1/_LATTICE steps, much less than `_SLACK` allows.
_LATTICE = 2**40
#: Steps to add to a sensitivity: one because rounding the answer may add it to the
#: difference of neighbors; one more for Gaussian noise, so that sigma is large enough.
_ROUNDING = {"student": 1, "gaussian": 2}

_FLOAT_MAX = float(np.finfo(np.float64).max)
#: Granularities and `largest` must be in [1/_MOST, _MOST].
_MOST = Fraction(2) ** 1000

_MOST_INT = int(_FLOAT_MAX)


class SmoothSensitivity(Mechanism):
    """Noise scaled by a smooth bound of the sensitivity at the given data.

    It releases f + scale S T on a grid. S is at least the local sensitivity of f (the
    largest change of f between *these* data and any neighbor), and S changes by at most
    the factor e^smoothness between neighbors. T is noise whose law changes little under
    such a factor.

    Parameters
    ----------
    scale : int, float, Fraction or Decimal
        Multiple of the smooth sensitivity, > 0; for Gaussian noise >= 2.
    smoothness : int, float, Fraction or Decimal
        beta > 0 of the smooth sensitivity; for Gaussian noise <= 4.
    largest : int, float, Fraction or Decimal
        A public bound on the *global* sensitivity of f, > 0; a larger smooth
        sensitivity counts as this bound.
    noise : {"student", "gaussian"}
        "student": Student's t with 3 degrees of freedom (variance 3), for pure
        epsilon. "gaussian": discrete Gaussian, for Renyi divergences up to the order
        1/(1 - e^(-2 smoothness)).
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid that the answer is rounded to, > 0, public; None takes about
        2**-40 of `largest`.
    neighboring_relation : NeighboringRelation
        The relation for which the smooth sensitivity holds.

    Raises
    ------
    DTypeError, ParameterError
        A parameter has a wrong type or is out of its domain, or `granularity` is too
        fine for Gaussian noise.

    Privacy
    -------
    Student: pure epsilon = 3 beta + 2/(sqrt(3) scale), under `neighboring_relation`.
    Gaussian: `divergence(order)`. Exact noise on a grid, bounds rounded up; computed
    sensitivities may be off by a relative 2**-40, which is charged. The caller must
    prove that the smooth sensitivity has the two properties above. Not timing-safe
    (class T0): the noise's scale depends on the data.

    References
    ----------
    Nissim, Raskhodnikova, Smith, "Smooth sensitivity and sampling in private data
    analysis", STOC 2007. Bun, Steinke, "Average-case averages: private algorithms for
    smooth sensitivity and mean estimation", NeurIPS 2019. docs/proofs/stability.md.

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.SmoothSensitivity.from_epsilon(1, largest=100)
    >>> round(m.scale, 4)  # smoothness 1/6, which half of epsilon pays for
    2.3094
    >>> isinstance(m.release(41.5, smooth_sensitivity=0.25), float)
    True
    """

    __slots__ = ("_largest", "_noise", "_relation", "_scale", "_smoothness", "_step")

    _returns_array = False

    _largest: Fraction
    _noise: str
    _relation: NeighboringRelation
    _scale: Fraction
    _smoothness: Fraction
    _step: Fraction

    def __init__(
        self,
        *,
        scale: Real,
        smoothness: Real,
        largest: Real,
        noise: str = "student",
        granularity: Real | None = None,
        neighboring_relation: Relation = _ADD,
    ) -> None:
        multiple = _validate.positive("scale", scale)
        beta = _validate.positive("smoothness", smoothness)
        reach = _validate.between("largest", largest, 1 / _MOST, _MOST)
        if noise not in _ROUNDING:
            raise ParameterError(
                f"noise must be one of {', '.join(_ROUNDING)}, got {noise!r}"
            )
        step = calibration.grid_granularity(reach)
        if granularity is not None:
            step = _validate.between("granularity", granularity, 1 / _MOST, _MOST)
        relation = as_relation(neighboring_relation)
        self._freeze(
            _arguments=(
                ("scale", _validate.plain(multiple)),
                ("smoothness", _validate.plain(beta)),
                ("largest", _validate.plain(reach)),
                *((("noise", noise),) if noise != "student" else ()),
                ("granularity", _validate.plain(step)),
                *((("neighboring_relation", relation),) if relation != _ADD else ()),
            ),
            _largest=reach,
            _noise=noise,
            _relation=relation,
            _scale=multiple,
            _smoothness=beta,
            _step=step,
        )
        if noise == "gaussian":
            self._require_room()

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        largest: Real,
        smoothness: Real | None = None,
        granularity: Real | None = None,
        neighboring_relation: Relation = _ADD,
    ) -> SmoothSensitivity:
        """Return the mechanism with Student noise for a pure epsilon.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            > 0.
        smoothness : int, float, Fraction or Decimal, optional
            > 0 and below epsilon/3; None takes epsilon/6.
        largest, granularity, neighboring_relation
            As in the class.

        Raises
        ------
        DTypeError, ParameterError
            A parameter is out of its domain, or `smoothness` uses all of epsilon and
            leaves none for the noise.
        """
        total = _validate.positive("epsilon", epsilon)
        beta = total / 6
        if smoothness is not None:
            beta = _validate.positive("smoothness", smoothness)
        rest = total - 3 * (beta + _SLACK)
        if rest <= 0:
            raise ParameterError(
                "smoothness must be < epsilon/3 - 2**-40, and epsilon > 6 * 2**-40, "
                f"got {_validate.plain(beta)!r}"
            )
        return cls(
            scale=_validate.float_up(2 / (_ROOT * rest)),
            smoothness=beta,
            largest=largest,
            granularity=granularity,
            neighboring_relation=neighboring_relation,
        )

    @property
    def scale(self) -> int | float | Fraction:
        """The exact multiple of the smooth sensitivity by which the noise is scaled."""
        return _validate.plain(self._scale)

    @property
    def smoothness(self) -> int | float | Fraction:
        """Smoothness beta of the smooth sensitivity, exact."""
        return _validate.plain(self._smoothness)

    @property
    def granularity(self) -> int | float | Fraction:
        """Step of the grid on which releases lie, exact."""
        return _validate.plain(self._step)

    # ---- cost ------------------------------------------------------------------------

    def event(self) -> PureDPEvent | RDPEvent:
        """Return the event of one release; it does not depend on the data.

        For Gaussian noise it has Renyi bounds at up to 24 orders; see `divergence`.
        """
        if self._noise == "student":
            slope = 2 / (_ROOT * self._scale)
            return PureDPEvent(
                3 * (self._smoothness + _SLACK) + slope,
                neighboring_relation=self._relation,
            )
        # Orders between 1 and the largest one with a bound, denser near 1.
        beta = _validate.float_up(self._smoothness)
        reach = min(-1 / math.expm1(-2 * beta) - 1, 2.0**20)
        below = [0.99 * reach / 2.0 ** (i / 2) for i in range(24)]
        orders = tuple(Fraction(1 + above) for above in reversed(below) if above > 1e-9)
        return RDPEvent(
            orders=orders,
            epsilons=tuple(Fraction(self.divergence(order)) for order in orders),
            neighboring_relation=self._relation,
        )

    def divergence(self, order: Real) -> float:
        """Return the Renyi divergence of one release with Gaussian noise, rounded up.

        Parameters
        ----------
        order : int, float, Fraction or Decimal
            > 1, and below 1/(1 - e^(-2 smoothness)).

        Raises
        ------
        DTypeError, ParameterError
            `order` is out of its domain, or `smoothness` too large for it, or the noise
            is not Gaussian.
        """
        from fastdp.accounting.calculators import smooth_sensitivity_divergence

        if self._noise != "gaussian":
            raise ParameterError('noise must be "gaussian" for a Renyi divergence')
        value = smooth_sensitivity_divergence(
            order=order, sigma=self._scale, smoothness=self._smoothness + _SLACK
        )
        # Sums over a grid exceed integrals by a factor of at most 1 + 2.1 e^(-2 pi^2
        # v). The variance v, in units of the grid, is >= scale^2/2 for the mixture.
        excess = 2.1 * math.exp(-(math.pi**2) * float(self._scale) ** 2)
        return value + excess * (1 + 1 / (float(order) - 1)) * (1 + 1e-9)

    # ---- release ---------------------------------------------------------------------

    def release(
        self,
        value: Any,
        *,
        smooth_sensitivity: Any,
        stream: Stream | None = None,
    ) -> float:
        """Return the answer with noise.

        Parameters
        ----------
        value : int or float, of Python or numpy
            The answer f at the data; NaN counts as 0, infinities as the largest double.
        smooth_sensitivity : int or float, of Python or numpy
            S at the data, in the same unit, and as private as the data. NaN and numbers
            below 0 or above `largest` count as `largest`.
        stream : Stream, optional
            None draws fresh keys from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.

        Returns
        -------
        float
            A multiple of `granularity`, rounded to a double and saturated.

        Raises
        ------
        DTypeError
            Not a number. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. Timing class T0.
        """
        check_stream(stream)
        answer = _number("value", value)
        bound = _number("smooth_sensitivity", smooth_sensitivity)
        if bound is None or not 0 <= bound <= self._largest:
            bound = self._largest
        steps = round((answer or 0) / self._step)
        size = bound / self._step + _ROUNDING[self._noise]
        return _saturated((steps + self._draw(size, stream)) * self._step)

    def _draw(self, size: Fraction, stream: Stream | None) -> int:
        """Return noise, in steps, for a smooth sensitivity of `size` steps."""
        if self._noise == "student":
            return rounded_student(
                self._scale * size, lambda n: fdp_random.bytes(n, stream=stream)
            )
        sigma = Fraction(math.ceil(self._scale * size * _LATTICE), _LATTICE)
        return int(fdp_random.discrete_gaussian(sigma, stream=stream))

    def _require_room(self) -> None:
        """Refuse parameters for which Gaussian noise, or its bound, does not exist.

        Only public numbers are read: no smooth sensitivity exceeds `largest`.
        """
        shown = _validate.plain(self._scale)
        if self._smoothness > _MOST_SMOOTHNESS:
            raise ParameterError(
                f"smoothness must be <= {_MOST_SMOOTHNESS} for Gaussian noise, got "
                f"{_validate.plain(self._smoothness)!r}"
            )
        if self._scale < 2:
            raise ParameterError(
                f"scale must be >= 2 for Gaussian noise, got {shown!r}"
            )
        room = (_MOST_SIGMA - 1) / self._scale - _ROUNDING[self._noise]
        if room < 1:
            raise ParameterError(f"scale must be <= 2**53, got {shown!r}")
        finest = self._largest / room
        if self._step < finest:
            raise ParameterError(
                f"granularity must be >= {_validate.float_up(finest):.6g} for this "
                "largest and scale with Gaussian noise, got "
                f"{_validate.plain(self._step)!r}"
            )


def _number(name: str, x: Any) -> Fraction | None:
    """Return a private number as a rational, None for NaN; no value raises."""
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x[()]
    if isinstance(x, (bool, np.timedelta64)) or not isinstance(
        x, (int, float, np.integer, np.floating)
    ):
        raise DTypeError(f"{name} must be an int or a float, got {type(x).__name__}")
    if isinstance(x, (int, np.integer)):
        return Fraction(min(max(int(x), -_MOST_INT), _MOST_INT))
    x = float(x)
    return None if math.isnan(x) else Fraction(min(max(x, -_FLOAT_MAX), _FLOAT_MAX))


def _saturated(x: Fraction) -> float:
    return float(min(max(x, -Fraction(_FLOAT_MAX)), Fraction(_FLOAT_MAX)))
