"""The exact privacy loss of a composition, certified from both sides.

Other notions summarize each mechanism; this accountant composes the laws of the privacy
losses and reads the profile delta(epsilon) of the composition, with proved lower and
upper bounds. Adding and removing a record are two directions. Each is composed
separately, and each reading is the larger of the two.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import NamedTuple

from fastdp import _public, _validate
from fastdp._validate import Real, float_down, float_up
from fastdp.accounting import conversions
from fastdp.accounting._bounds import Bracket, Certificate
from fastdp.accounting._curve_readings import (
    CurveReadings,
    require_bool,
)
from fastdp.accounting._facts import facts_of
from fastdp.accounting._pld.distribution import GridLosses, PrivacyLossDistribution
from fastdp.accounting._pld.families import Step
from fastdp.accounting._pld.state import State, log_delta_at
from fastdp.accounting._pld.trade_off import ProfileTradeOff, TradeOffBounds
from fastdp.accounting.events import Event
from fastdp.exceptions import ParameterError, UnsupportedEventError

__all__ = [
    "Bounds",
    "GridLosses",
    "PLDAccountant",
    "PrivacyLossDistribution",
    "ProfileTradeOff",
    "TradeOffBounds",
]


#: Relative width of epsilon and delta that is aimed at.
_AIM = 1e-6


class Bounds(NamedTuple):
    """A number between two proved bounds; a tuple of four.

    Parameters
    ----------
    lower, upper : float
        Proved bounds: the true value is at least `lower` and at most `upper`.
    estimate : float
        A number between the bounds, mostly far closer to the true value.
    certificate : Certificate
        How the bounds were found: a string, "closed form", "contour" (the integral of
        docs/proofs/numerical_accounting.md), "atoms" (sums of losses in cells of any
        width), "sum" (over all sums of losses), "two laws" (if only bounds are known
        for a step) or "chernoff" (the bound of Renyi divergences, if all others are
        too costly). Its `bounds` name the bounded quantity; its `shortfall` gives the
        reason if the relative width is above 1e-6.
    """

    lower: float
    estimate: float
    upper: float
    certificate: Certificate


class PLDAccountant(CurveReadings):
    """Composes the laws of privacy losses: the exact profile, with proved bounds.

    It takes Gaussian, Laplace, discrete Laplace (also truncated) and discrete Gaussian
    noise, randomized response, selections, and events that state a pure or approximate
    guarantee, a trade-off function or a law of the privacy loss. Each may be on Poisson
    samples or on subsets of fixed size, in any mix and number. If an event states only
    a guarantee, the lower bounds hold for the worst mechanism with this guarantee.
    `epsilon` and `delta` are the upper bounds; `epsilon_bounds` and the other
    `*_bounds` methods also return the lower bounds, mostly within a relative 1e-9.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, optional
        The relation of all events. None: the relation of the first event.

    Notes
    -----
    The proofs assume double arithmetic that rounds to nearest, and library functions
    (exp, log, sin and the like) with an error of at most 4 units in the last place. The
    bounds are never wrong, but may be wide for a few steps of sampled noise, and for
    rare sampling with a tiny delta; `upper - lower` shows the width.

    References
    ----------
    Zhu, Dong, Wang, "Optimal Accounting of Differential Privacy via Characteristic
    Function" (2022); Alghamdi et al., "The Saddle-Point Method in Differential
    Privacy" (2023); docs/proofs/numerical_accounting.md.

    Examples
    --------
    Ten thousand steps of stochastic gradient descent:

    >>> from fastdp.accounting import GaussianEvent, PLDAccountant, PoissonSampledEvent
    >>> step = PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=1))
    >>> accountant = PLDAccountant().compose(step, count=10_000)
    >>> bounds = accountant.epsilon_bounds(1e-5)
    >>> round(bounds.estimate, 9), bounds.certificate
    (6.18771239, 'contour')
    >>> bounds.upper - bounds.lower < 1e-9
    True
    """

    def _start(self) -> State:
        return State()

    def _charge(self, state: State, event: Event, count: int) -> State:
        return state.plus(_step_of(event), count)

    # ---- what all accountants have -------------------------------------------------

    def _epsilon_at(self, state: State, delta: Fraction) -> float:
        if delta == 0:
            raise UnsupportedEventError("delta must be > 0 here")
        return state.epsilon(delta).upper

    def _log_delta_at(self, state: State, epsilon: Fraction) -> float:
        return log_delta_at(state, float_down(epsilon)).upper

    def _rough_log_delta(self, epsilon: Fraction) -> float:
        return self._snapshot()[0].rough_log_delta(float_down(epsilon))

    # ---- bounds from both sides ----------------------------------------------------

    def epsilon_bounds(
        self, delta: Real, *, check: bool = False, effort: Real = 1
    ) -> Bounds:
        """Return bounds on the least epsilon that holds at `delta`.

        Parameters
        ----------
        delta : int, float, Fraction or Decimal
            >= 0 and <= 1. At 1 epsilon is 0. At 0, `upper` is the sum of pure epsilons
            (infinite if a step has none), and `lower` is the lower bound at delta
            1e-300.
        check : bool
            Whether to check by a second, independent method (contour and atoms check
            each other). The result is the intersection of both; the certificate names
            the two methods, or says that there was no second method.
        effort : int, float, Fraction or Decimal
            >= 1. The default answers within about a second, and the certificate gives
            the width of the bounds. More effort takes more time and narrows the bounds
            of atoms; from 10 on, every method is tried.

        Returns
        -------
        Bounds
            With the default effort `upper` is what `epsilon` returns.

        Raises
        ------
        CertificateError
            The two methods' bounds contradict each other: a mistake in fastdp.

        Examples
        --------
        >>> from fastdp.accounting import GaussianEvent, PLDAccountant
        >>> accountant = PLDAccountant().compose(
        ...     GaussianEvent(sensitivity=1, sigma=10), count=100
        ... )
        >>> accountant.epsilon_bounds(1e-6, check=True).certificate
        'closed form, checked by contour'
        """
        d = conversions.up_to_one(delta)
        require_bool("check", check)
        work = _validate.positive("effort", effort)
        if work < 1:
            raise ParameterError(f"effort must be >= 1, got {_validate.shown(effort)}")
        snapshot = self._snapshot()
        return _shown(self._epsilon_bracket(snapshot, d, check, float_down(work)))

    def ln_delta_bounds(self, epsilon: Real, *, check: bool = False) -> Bounds:
        """Return bounds on ln delta(epsilon), also far below the smallest double.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            >= 0.
        check : bool
            As in `epsilon_bounds`.

        Raises
        ------
        CertificateError
            With `check`: the two methods' bounds contradict each other.
        """
        return _shown(self._ln_delta(epsilon, check), relative=False)

    def delta_bounds(self, epsilon: Real, *, check: bool = False) -> Bounds:
        """Return bounds on delta(epsilon).

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            >= 0.
        check : bool
            As in `epsilon_bounds`.

        Raises
        ------
        CertificateError
            With `check`: the two methods' bounds contradict each other.
        """
        return _shown(_exponential(self._ln_delta(epsilon, check)))

    def _ln_delta(self, epsilon: Real, check: bool) -> Bracket:
        require_bool("check", check)
        exact = conversions.capped_epsilon(epsilon)
        state = self._snapshot()[0]
        down, up = float_down(exact), float_up(exact)
        found = log_delta_at(state, down, check)
        if up == down:
            return found
        return Bracket(
            log_delta_at(state, up, check).lower,
            found.estimate,
            found.upper,
            found.method,
        )


@functools.lru_cache(maxsize=16)
def _step_of(event: Event) -> Step:
    return facts_of(event).step()


def _shown(bracket: Bracket, relative: bool = True) -> Bounds:
    certificate = bracket.certificate(_AIM, relative)
    return Bounds(bracket.lower, bracket.estimate, bracket.upper, certificate)


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


_public.show(globals())
