"""The exact privacy loss of a composition, certified from both sides.

Unlike notions that keep a summary of each mechanism, this accountant composes the laws
of their privacy losses and reads the profile delta(epsilon) of the whole, with proved
bounds below and above. Adding and removing a record are two directions: each is
composed for itself, and only what is read at the end is the larger of the two.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fastdp import _validate
from fastdp._validate import Real, float_down, float_up
from fastdp.accounting import _zcdp, conversions
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._closed import GaussianProfile, NothingProfile
from fastdp.accounting._composition import Composition
from fastdp.accounting._direction import Direction
from fastdp.accounting._losses import Floats
from fastdp.accounting._numeric import log_down, log_fraction, shortened_up
from fastdp.accounting._pld_events import Gaussian, Step, step_of
from fastdp.accounting._pld_readings import CurveReadings, LogProfile
from fastdp.accounting.events import Event
from fastdp.exceptions import UnsupportedEventError

__all__ = ["Bounds", "PLDAccountant"]


class Bounds(NamedTuple):
    """A number between two bounds that are proved; a tuple of four.

    Parameters
    ----------
    lower, upper : float
        Proved bounds: the true value is at least `lower` and at most `upper`.
    estimate : float
        A number between them, mostly far closer to the truth than they are.
    certificate : str
        How the bounds were got: "closed form", "contour" (the integral of
        docs/proofs/numerical_accounting.md), "grid" (laws on a grid of losses, one
        worse and one better) or "chernoff" (the bound of Renyi divergences: all that
        is proved where the others are too costly).
    """

    lower: float
    estimate: float
    upper: float
    certificate: str


Profile = Direction | GaussianProfile | NothingProfile

_NOTHING = Fraction(0)

#: Relative allowance for a handful of roundings.
_WIDE = Fraction(1, 10**14)


@dataclass(frozen=True)
class _State:
    """What was composed: Gaussian noise as one, all other steps by direction.

    `square` is of all unsampled Gaussian noise; `single` the one other step there is
    if it is no more than one and has a closed form; `kept` are bounds of ln of the
    probability that no loss is infinite.
    """

    rho: Fraction = _NOTHING
    square: Fraction = _NOTHING
    others: int = 0
    single: Gaussian | None = None
    removal: Direction | None = field(default_factory=lambda: Direction(Composition()))
    addition: Direction | None = field(default_factory=lambda: Direction(Composition()))
    symmetric: bool = True
    kept: tuple[float, float] = (0.0, 0.0)

    def plus(self, step: Step, count: int) -> _State:
        """Return the state with `count` more times `step`."""
        own = replace(self, kept=_kept(self.kept, step.lost, count))
        if step.rho == 0:
            return own
        removal = addition = None
        if self.removal is not None and step.removal is not None:
            removal = self.removal.plus(step.removal, count)
        if self.addition is not None and step.addition is not None:
            addition = self.addition.plus(step.addition, count)
        rho = shortened_up(self.rho + count * step.rho)
        own = replace(own, rho=rho, removal=removal, addition=addition)
        gaussian = step.gaussian
        if gaussian is not None and gaussian.rate == 1:
            square = shortened_up(self.square + count * gaussian.square)
            return replace(own, square=square)
        return replace(
            own,
            others=self.others + count,
            single=gaussian,
            symmetric=self.symmetric and step.removal == step.addition,
        )

    @functools.cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles of which the largest holds; without what is lost."""
        if self.rho == 0:
            return (NothingProfile(),)
        if self.others == 0:
            return (GaussianProfile(self.square),)
        if self.others == 1 and self.square == 0 and self.single is not None:
            return (GaussianProfile(self.single.square, self.single.rate),)
        if self.removal is None or self.addition is None:
            return ()
        return (self.removal,) if self.symmetric else (self.removal, self.addition)

    def directed(self, removal: bool | None) -> tuple[Profile, ...]:
        """Return the profiles that count for a removal, an addition, or (None) both."""
        closed = (NothingProfile, GaussianProfile)
        known = self.profiles[:1]
        if removal is None or self.rho == 0 or self.others == 0:
            return self.profiles
        if removal and known and isinstance(known[0], closed):
            return known  # a single sampled step, whose removal is the larger
        own = self.removal if removal else self.addition
        return () if own is None else (own,)


def _kept(
    before: tuple[float, float], lost: Fraction, count: int
) -> tuple[float, float]:
    """Return bounds of ln of the probability that nothing is lost so far."""
    if lost == 0:
        return before
    each = count * math.log1p(-float(lost))
    low, high = before[0] + each * (1 + 1e-15), before[1] + each * (1 - 1e-15)
    return low * (1 + 1e-15) - 1e-300, min(0.0, high * (1 - 1e-15))


class PLDAccountant(CurveReadings[_State]):
    """Composes the laws of privacy losses: the exact profile, with proved bounds.

    For Gaussian noise, also on Poisson samples, Laplace and discrete Laplace noise,
    randomized response, and what is known by a pure or approximate guarantee (as
    which selections count), in any mix and number; lower bounds are those of the worst
    mechanism that such a guarantee allows. `epsilon` and `delta` are the upper bounds;
    `epsilon_bounds` and its like tell the lower ones as well, which are mostly within a
    relative 1e-10.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation that all events must have; None takes that of the first.

    Raises
    ------
    DTypeError
        `neighboring_relation` is of another type.

    Notes
    -----
    What is proved rests on double arithmetic that rounds to nearest and on library
    functions (exp, log, sin and the like) that err by at most 4 units in the last
    place. Bounds may be wide for a few steps of sampled noise, and for rare sampling
    with a tiny delta; they say so by `upper - lower` and are never wrong.

    References
    ----------
    Zhu, Dong, Wang, "Optimal Accounting of Differential Privacy via Characteristic
    Function" (2022); Alghamdi et al., "The Saddle-Point Method in Differential
    Privacy" (2023); docs/proofs/numerical_accounting.md.

    Examples
    --------
    Ten thousand steps of stochastic gradient descent:

    >>> from fastdp.accounting import GaussianEvent, PLDAccountant, PoissonSampledEvent
    >>> step = PoissonSampledEvent(0.01, GaussianEvent(1, 1))
    >>> accountant = PLDAccountant().compose(step, count=10_000)
    >>> bounds = accountant.epsilon_bounds(1e-5)
    >>> round(bounds.estimate, 9), bounds.certificate
    (6.18771239, 'contour')
    >>> bounds.upper - bounds.lower < 1e-9
    True
    """

    def _start(self) -> _State:
        return _State()

    def _charge(self, state: _State, event: Event, count: int) -> _State:
        return state.plus(step_of(event), count)

    # ---- what all accountants have -------------------------------------------------

    def _epsilon_at(self, state: _State, delta: Fraction) -> float:
        if delta == 0:
            raise UnsupportedEventError("delta must be > 0 here")
        return _epsilon(state, delta).upper

    def _log_delta_at(self, state: _State, epsilon: Fraction) -> float:
        return _log_delta(state, float_down(epsilon)).upper

    # ---- bounds from both sides ----------------------------------------------------

    def epsilon_bounds(self, delta: Real) -> Bounds:
        """Return bounds of the least epsilon that holds at `delta`.

        Parameters
        ----------
        delta : int, float, Fraction or Decimal
            > 0 and < 1.

        Returns
        -------
        Bounds
            `upper` is what `epsilon` returns, or above it where a sum of pure
            epsilons is the smaller bound.

        Raises
        ------
        DTypeError, ParameterError
            delta is out of its domain.
        """
        d = _validate.open_unit("delta", delta)
        return _shown(_epsilon(self._snapshot()[0], d))

    def ln_delta_bounds(self, epsilon: Real) -> Bounds:
        """Return bounds of ln delta(epsilon), which reach far below the least double.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            >= 0.

        Raises
        ------
        DTypeError, ParameterError
            epsilon is negative or not finite.
        """
        return _shown(self._ln_delta(epsilon))

    def delta_bounds(self, epsilon: Real) -> Bounds:
        """Return bounds of delta(epsilon).

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            >= 0.

        Raises
        ------
        DTypeError, ParameterError
            epsilon is negative or not finite.
        """
        return _shown(_exponential(self._ln_delta(epsilon)))

    def _ln_delta(self, epsilon: Real) -> Bracket:
        exact = conversions.capped_epsilon(epsilon)
        state = self._snapshot()[0]
        down, up = float_down(exact), float_up(exact)
        found = _log_delta(state, down)
        if up == down:
            return found
        return Bracket(
            _log_delta(state, up).lower, found.estimate, found.upper, found.method
        )

    # ---- whole curves (_pld_readings.py) ---------------------------------------------

    def _log_profile(self, state: _State, removal: bool | None) -> LogProfile:
        def bounds(epsilons: Floats) -> Floats:
            found = _log_deltas(state, epsilons, removal)
            return np.array([[b.lower for b in found], [b.upper for b in found]])

        return bounds

    def _epsilon_bracket(self, state: _State, delta: Fraction) -> Bracket:
        return _epsilon(state, delta)

    def _end(self, state: _State, log_delta: float) -> float:
        known = _zcdp.epsilon_from(log_delta, state.rho, _NOTHING)
        found = [p.epsilon((log_delta, log_delta)).upper for p in state.profiles]
        return min(known, max(found, default=math.inf))

    def _lost(self, state: _State) -> float:
        return max(0.0, -math.expm1(state.kept[1]) * (1 - 1e-14))


def _shown(bracket: Bracket) -> Bounds:
    return Bounds(bracket.lower, bracket.estimate, bracket.upper, bracket.method)


def _largest(brackets: list[Bracket]) -> Bracket:
    """Return what holds of the largest of the bracketed numbers."""
    worst = max(brackets, key=lambda b: b.estimate)
    lower, upper = max(b.lower for b in brackets), max(b.upper for b in brackets)
    return Bracket(lower, max(lower, worst.estimate), upper, worst.method)


def _epsilon(state: _State, delta: Fraction) -> Bracket:
    targets = _targets(state, delta)
    if targets is None:
        return Bracket(0.0, math.inf, math.inf, "closed form")
    known = _zcdp.epsilon_from(targets[0], state.rho, _NOTHING)
    simple = Bracket(0.0, known, known, "chernoff")
    if not state.profiles:
        return simple
    found = _largest([profile.epsilon(targets) for profile in state.profiles])
    return simple.meet(found) if state.rho > 0 else found


def _targets(state: _State, delta: Fraction) -> tuple[float, float] | None:
    """Return bounds of ln of what delta leaves for finite losses; None for nothing.

    delta = lost + (1 - lost) delta', so delta' = 1 - (1 - delta)/(1 - lost).
    """
    if state.kept == (0.0, 0.0):
        over = log_fraction(delta)
        return log_down(delta), over + 1e-15 * abs(over)
    low, high = (
        (delta - Fraction(-math.expm1(kept)) * wide) / Fraction(math.exp(kept))
        for kept, wide in zip(state.kept, (1 + _WIDE, 1 - _WIDE), strict=True)
    )
    low, high = low * (1 - _WIDE), high * (1 + _WIDE)
    if low <= 0:
        return None
    over = log_fraction(min(high, Fraction(1)))
    return log_down(min(low, Fraction(1))), over + 1e-15 * abs(over)


def _log_delta(state: _State, epsilon: float) -> Bracket:
    return _log_deltas(state, np.array([epsilon]))[0]


def _log_deltas(
    state: _State, epsilons: Floats, removal: bool | None = None
) -> list[Bracket]:
    profiles = state.directed(removal)
    if not profiles:
        known = [
            _zcdp.log_delta_from(Fraction(e), state.rho, _NOTHING)
            for e in epsilons.tolist()
        ]
        found = [Bracket(-math.inf, upper, upper, "chernoff") for upper in known]
    else:
        columns = [profile.log_deltas(epsilons) for profile in profiles]
        found = [_largest(list(row)) for row in zip(*columns, strict=True)]
    if state.kept == (0.0, 0.0):
        return found
    return [_with_lost(state.kept, bracket) for bracket in found]


def _with_lost(kept: tuple[float, float], finite: Bracket) -> Bracket:
    """Return bounds of ln(lost + (1 - lost) delta')."""

    def whole(log_kept: float, log_delta: float) -> float:
        # 1 - kept (1 - delta')
        rest = log_kept + math.log1p(-math.exp(min(log_delta, 0.0)))
        return math.log(-math.expm1(rest)) if rest < 0 else -math.inf

    def sure(log_kept: float, log_delta: float, sign: float) -> float:
        if log_delta >= 0:
            return 0.0
        value = whole(log_kept, log_delta)
        return min(0.0, value + sign * 1e-14 * (1 + abs(value)))

    return Bracket(
        sure(kept[1], finite.lower, -1.0),
        sure(kept[0], finite.estimate, 0.0),
        sure(kept[0], finite.upper, 1.0),
        finite.method,
    )


def _exponential(bracket: Bracket) -> Bracket:
    """Return bounds of the exponential of a number <= 0."""
    lower, middle, upper = (
        math.exp(min(x, 0.0)) for x in (bracket.lower, bracket.estimate, bracket.upper)
    )
    # The library's exp errs by at most one unit in the last place.
    lower = math.nextafter(lower * (1 - 5e-16), 0.0)
    upper = min(1.0, math.nextafter(upper * (1 + 5e-16), 1.0)) if upper else 5e-324
    if bracket.upper == -math.inf:
        upper = 0.0
    return Bracket(lower, min(max(middle, lower), upper), upper, bracket.method)
