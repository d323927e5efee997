"""Trade-off functions as immutable objects (public through `fastdp.accounting.fdp`).

Values are rounded down, conjugates and deltas up, so that never more privacy is claimed
than holds. The proofs are in docs/proofs/fdp.md.
"""

from __future__ import annotations

import abc
import math
from dataclasses import KW_ONLY, dataclass, fields
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fastdp import _validate
from fastdp._validate import Real, float_down, float_up
from fastdp.accounting import _trade_off, conversions
from fastdp.accounting._gdp import reals
from fastdp.accounting._series import Floats
from fastdp.exceptions import ParameterError

#: Number of tangents that replace a smooth function, and the range of their slopes if
#: the function names none.
_TANGENTS, _STEEPEST = 2000, 40.0


#: Mass at either end of a law that its trade-off function gives away.
_GIVEN_AWAY = 1e-13


def _rates(name: str, values: npt.ArrayLike) -> Floats:
    array = reals(name, values)
    if not np.all((array >= 0) & (array <= 1)):
        raise ParameterError(f"{name} must be in [0, 1]")
    return array


class TradeOffFunction(abc.ABC):
    """Base of the trade-off functions: convex, decreasing, at most 1 - x.

    Values are rounded down, conjugates and deltas up.
    """

    @abc.abstractmethod
    def _values(self, x: Floats) -> Floats:
        """Return f at rates in [0, 1], rounded down."""

    @abc.abstractmethod
    def _conjugate(self, slope: Floats) -> Floats:
        """Return sup over x of slope x - f(x), rounded up, for slopes < 0."""

    def _steepest(self) -> float:
        """Return ln of the steepest slope at which a tangent is useful."""
        return _STEEPEST

    @abc.abstractmethod
    def inverse(self) -> TradeOffFunction:
        """Return the function with both rates exchanged: the laws change places."""

    def __repr__(self) -> str:
        shown = (
            f"{field.name}={_validate.shown(getattr(self, field.name))}"
            for field in fields(self)  # type: ignore[arg-type]
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __call__(self, false_positive_rate: npt.ArrayLike) -> Floats:
        """Return the least false-negative rate at each rate, rounded down.

        Parameters
        ----------
        false_positive_rate : array_like of float
            In [0, 1].
        """
        x = _rates("false_positive_rate", false_positive_rate)
        return np.asarray(np.clip(self._values(x), 0.0, 1 - x))

    def conjugate(self, slope: npt.ArrayLike) -> Floats:
        """Return the convex conjugate sup over x in [0, 1] of slope x - f(x).

        Rounded up. delta(epsilon) = 1 + f*(-e^epsilon).

        Parameters
        ----------
        slope : array_like of float
            Finite.
        """
        y = reals("slope", slope)
        if not np.all(np.isfinite(y)):
            raise ParameterError("slope must be finite")
        # From slope 0 on the supremum is at x = 1, where f is 0.
        below = np.minimum(y, -1e-300)
        return np.asarray(np.where(y >= 0, y, self._conjugate(below)))

    def delta(self, epsilon: npt.ArrayLike) -> Floats:
        """Return the delta that f-privacy implies at each epsilon, rounded up.

        It is the larger one of both orders of the laws.

        Parameters
        ----------
        epsilon : array_like of float
            Finite and >= 0.
        """
        e = nonnegative("epsilon", epsilon)
        slope = -np.exp(np.minimum(e, 700.0)) * (1 - 4e-16)
        values = [1 + f._conjugate(slope) for f in (self, self.inverse())]
        return np.asarray(np.clip(np.maximum(*values) + 3e-16, 0.0, 1.0))

    def knots(self) -> PiecewiseTradeOff:
        """Return a piecewise linear function on or below this one (its tangents)."""
        steepest = self._steepest()
        return _of_tangents(self, np.linspace(steepest, -steepest, _TANGENTS + 1))

    def symmetrized(self) -> PiecewiseTradeOff:
        """Return max(f, f^-1), which holds if a mechanism is f-private in both orders.

        References
        ----------
        Dong, Roth, Su (2022), Proposition 2.4.
        """
        return larger(self, self.inverse())

    def group(self, size: int) -> TradeOffFunction:
        """Return 1 - (1 - f)^(size times), which holds for a group of `size`.

        References
        ----------
        Dong, Roth, Su (2022), Theorem 2.14.
        """
        k = _validate.integer("size", size, 1)
        single = self.knots()
        result = single
        for bit in bin(k)[3:]:
            result = _after(result, result)
            if bit == "1":
                result = _after(single, result)
        return result

    def sampled(self, probability: Real) -> PiecewiseTradeOff:
        """Return p f + (1 - p)(1 - x): Poisson sampling, one order of the datasets.

        The other order has the inverse of this function. Compose these functions and
        read the composition in both orders; composing `amplified` functions gives
        weaker bounds.

        Parameters
        ----------
        probability : int, float, Fraction or Decimal
            Sampling probability, > 0 and <= 1.

        References
        ----------
        Dong, Roth, Su (2022), Section 4.
        """
        exact = _validate.positive("probability", probability)
        if exact > 1:
            raise ParameterError(
                f"probability must be <= 1, got {_validate.shown(probability)}"
            )
        p = float(exact)
        base = self.knots()
        mixed = p * base._f + (1 - p) * (1 - base._x)
        return PiecewiseTradeOff.of_knots(_trade_off.lowered(base._x, mixed, 4e-16))

    def amplified(self, probability: Real) -> PiecewiseTradeOff:
        """Return the convex hull of the sampled function and its inverse: C_p(f).

        It is valid for both orders of the datasets; a single use is tight, a
        composition is valid but loose.

        Parameters
        ----------
        probability : int, float, Fraction or Decimal
            Sampling probability, > 0 and <= 1.
        """
        return self.sampled(probability).either_order()

    def either_order(self) -> PiecewiseTradeOff:
        """Return the convex hull of f and f^-1, for a mechanism that is f in one order.

        `symmetrized` is for a mechanism that is f-private in both orders.
        """
        one = self.knots()
        other = one.inverse()
        x, f = np.r_[one._x, other._x], np.r_[one._f, other._f]
        return PiecewiseTradeOff.of_knots(_trade_off.lowered(x, f, 2e-16))


@dataclass(frozen=True, repr=False)
class ApproximateTradeOff(TradeOffFunction):
    """The function of (epsilon, delta)-privacy: the largest of two lines and 0.

    Parameters
    ----------
    epsilon : Fraction
        >= 0.
    delta : Fraction
        >= 0 and <= 1.

    References
    ----------
    Wasserman and Zhou (2010); Kairouz, Oh, Viswanath (2015).
    """

    epsilon: Fraction
    _: KW_ONLY
    own_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        e = _validate.nonnegative("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", e)
        d = conversions.up_to_one(self.own_delta)
        object.__setattr__(self, "own_delta", d)

    def _lines(self) -> tuple[float, float]:
        """Return e^epsilon rounded up and 1 - delta rounded down."""
        grown = math.exp(min(float_up(self.epsilon), 700.0)) * (1 + 4e-16)
        return grown, float_down(1 - self.own_delta)

    def _values(self, x: Floats) -> Floats:
        grown, rest = self._lines()
        steep, flat = rest - grown * x, (rest - x) / grown
        return np.asarray(np.maximum(np.maximum(steep, flat) - 2e-16, 0.0))

    def _conjugate(self, slope: Floats) -> Floats:
        piece = self.knots()
        return piece._conjugate(slope)

    def knots(self) -> PiecewiseTradeOff:
        """Return the function itself as knots."""
        grown, rest = self._lines()
        corner = rest / (1 + grown)
        x = np.array([0.0, corner, rest, 1.0])
        f = np.array([rest, corner, 0.0, 0.0])
        return PiecewiseTradeOff.of_knots(_trade_off.lowered(x, f, 2e-16))

    def inverse(self) -> ApproximateTradeOff:
        """Return the function itself, which is symmetric."""
        return self


class PiecewiseTradeOff(TradeOffFunction):
    """A piecewise linear trade-off function.

    Parameters
    ----------
    false_positive_rates : array_like of float, shape (n,)
        Increasing from 0 to 1.
    false_negative_rates : array_like of float, shape (n,)
        f at these rates: convex, decreasing, at most 1 - x, and 0 at the end.
    """

    __slots__ = ("_f", "_x")
    _x: Floats
    _f: Floats

    def __init__(
        self,
        *,
        false_positive_rates: npt.ArrayLike,
        false_negative_rates: npt.ArrayLike,
    ) -> None:
        x = _rates("false_positive_rates", false_positive_rates).copy()
        f = _rates("false_negative_rates", false_negative_rates).copy()
        if x.ndim != 1 or x.shape != f.shape or x.size < 2:
            raise ParameterError("both rates must have the same shape (n,), n >= 2")
        if x[0] != 0 or x[-1] != 1 or not np.all(np.diff(x) > 0):
            raise ParameterError("false_positive_rates must increase from 0 to 1")
        if f[-1] != 0 or np.any(f > 1 - x) or np.any(np.diff(f) > 0):
            raise ParameterError(
                "false_negative_rates must fall to 0 and be at most "
                "1 - false_positive_rates"
            )
        if np.any(np.diff(np.diff(f) / np.diff(x)) < -1e-12):
            raise ParameterError("false_negative_rates must be convex")
        self._keep(x, f)

    def _keep(self, x: Floats, f: Floats) -> None:
        x.setflags(write=False)
        f.setflags(write=False)
        object.__setattr__(self, "_x", x)
        object.__setattr__(self, "_f", f)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be changed: the function is immutable")

    @classmethod
    def of_knots(cls, knots: _trade_off.Knots) -> PiecewiseTradeOff:
        """Return the function of knots that are known to be in order."""
        made = cls.__new__(cls)
        made._keep(*knots)
        return made

    @property
    def points(self) -> _trade_off.Knots:
        """The knots: false-positive and false-negative rates."""
        return self._x, self._f

    def __repr__(self) -> str:
        return f"<PiecewiseTradeOff: {self._x.size} knots>"

    @property
    def false_positive_rates(self) -> Floats:
        """The knots' abscissae, read-only."""
        return self._x

    @property
    def false_negative_rates(self) -> Floats:
        """The function's values at the knots, read-only."""
        return self._f

    def _values(self, x: Floats) -> Floats:
        return np.asarray(np.interp(x, self._x, self._f) - 2e-16)

    def _conjugate(self, slope: Floats) -> Floats:
        # The supremum is at the knot where the slopes pass the given one.
        slopes = np.diff(self._f) / np.diff(self._x)
        place = np.searchsorted(slopes, slope.ravel())
        nearby = np.clip(place[:, None] + np.array([-1, 0, 1]), 0, self._x.size - 1)
        values = slope.ravel()[:, None] * self._x[nearby] - self._f[nearby]
        best = values.max(axis=1) * (1 - 2e-16) + 2e-16
        return np.asarray(best.reshape(slope.shape))

    def inverse(self) -> PiecewiseTradeOff:
        """Return the function with both rates exchanged."""
        return PiecewiseTradeOff.of_knots(_trade_off.inverse(self._x, self._f))

    def knots(self) -> PiecewiseTradeOff:
        """Return the function itself."""
        return self


def nonnegative(name: str, values: npt.ArrayLike) -> Floats:
    """Return numbers, which must be finite and >= 0, as an array of doubles."""
    array = reals(name, values)
    if not np.all(np.isfinite(array) & (array >= 0)):
        raise ParameterError(f"{name} must be finite and >= 0")
    return array


def larger(first: TradeOffFunction, second: TradeOffFunction) -> PiecewiseTradeOff:
    """Return the larger of two functions; it holds if both hold."""
    one, other = first.knots(), second.knots()
    x = np.union1d(one._x, other._x)
    pieces = [np.interp(x, f._x, f._f) for f in (one, other)]
    # The knots of the maximum are these and the crossings, whose chords would lie
    # above it: tangents through the pieces stay below.
    return PiecewiseTradeOff.of_knots(_maximum(x, *pieces))


def _maximum(x: Floats, first: Floats, second: Floats) -> _trade_off.Knots:
    """Return knots of the larger of two convex functions with common knots."""
    gap = first - second
    sign = np.flatnonzero(gap[:-1] * gap[1:] < 0)
    share = gap[sign] / (gap[sign] - gap[sign + 1])
    cross = x[sign] + share * (x[sign + 1] - x[sign])
    heights = first[sign] + share * (first[sign + 1] - first[sign])
    xs = np.concatenate([x, cross])
    fs = np.concatenate([np.maximum(first, second), heights])
    return _trade_off.lowered(xs, fs, 4e-16)


def _after(outer: PiecewiseTradeOff, inner: PiecewiseTradeOff) -> PiecewiseTradeOff:
    """Return x -> outer(1 - inner(x)) or less, with few more knots than tangents."""
    place = np.interp(outer._x, 1 - inner._f, inner._x)
    xs = np.union1d(place, inner._x)
    fs = np.interp(1 - np.interp(xs, inner._x, inner._f), outer._x, outer._f)
    found = PiecewiseTradeOff.of_knots(_trade_off.lowered(xs, fs, 6e-16))
    if found._x.size <= 2 * _TANGENTS:
        return found
    slopes = -np.diff(found._f) / np.diff(found._x)
    some = np.linspace(0, np.count_nonzero(slopes > 0) - 1, _TANGENTS).astype(int)
    return _of_tangents(found, np.log(slopes[np.unique(some)]))


def _of_tangents(function: TradeOffFunction, log_slopes: Floats) -> PiecewiseTradeOff:
    """Return the envelope of tangents with rising slopes -exp(log_slopes)."""
    heights = -function._conjugate(-np.exp(log_slopes))
    return PiecewiseTradeOff.of_knots(_trade_off.from_lines(log_slopes, heights))


def from_points(x: npt.ArrayLike, f: npt.ArrayLike) -> PiecewiseTradeOff:
    """Return the function of knots rounded to doubles, lowered by the rounding."""
    knots = np.asarray(x, np.float64), np.asarray(f, np.float64)
    return PiecewiseTradeOff.of_knots(_trade_off.lowered(*knots, 4e-16))


def from_law(losses: Floats, masses: Floats, lost: float) -> PiecewiseTradeOff:
    """Return the function of a law of losses ln(P/Q): ascending, with masses under P.

    It is lowered by the rounding error of the sums of these masses.
    """
    other = np.exp(np.log(masses) - losses)
    top = int(np.count_nonzero(np.cumsum(masses[::-1]) <= _GIVEN_AWAY))
    low = int(np.count_nonzero(np.cumsum(other) <= _GIVEN_AWAY))
    kept = slice(low, losses.size - top)
    power = lost + 2 * _GIVEN_AWAY + np.cumsum(masses[kept][::-1])
    rate = np.cumsum(other[kept][::-1])
    slack = 4 * 2.0**-52 * (losses.size + 50)
    x = np.concatenate([[0.0], np.maximum(rate - slack, 0.0), [1.0]])
    f = np.concatenate([[1 - lost - 2 * _GIVEN_AWAY], 1 - power, [0.0]])
    return PiecewiseTradeOff.of_knots(_trade_off.lowered(np.clip(x, 0, 1), f, slack))


def discrete_laplace(shift: int, rate: float) -> PiecewiseTradeOff:
    """Return the function of one coordinate with the whole L1 sensitivity."""
    j = np.arange(shift + 1)
    mass = np.exp(-rate * j) * -np.expm1(-rate)
    mass[[0, -1]] = np.exp(-rate * j[[0, -1]])
    mass /= 1 + np.exp(-rate)
    # Q(j) = mass falls with the distance from Q's center; P is its mirror image.
    x = np.concatenate([[0.0], np.cumsum(mass[::-1])])
    f = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
    x[-1] = 1.0
    return PiecewiseTradeOff.of_knots(
        _trade_off.lowered(x, np.minimum(f, 1.0), 1e-15 * shift)
    )
