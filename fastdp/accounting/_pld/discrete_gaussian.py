"""The loss of discrete Gaussian noise on one coordinate, and its closed form.

P is the law of noise around `shift`, Q the law of noise around 0. The losses shift (2x
- shift)/2 variance are on a lattice, and the moments are the continuous law's moments
times a quotient of theta functions (section 1 of docs/proofs/numerical_accounting.md).

Sums of discrete Gaussian variables are discrete Gaussian up to a factor that is
exponentially close to 1 (section 7). If all steps have the same quotient of shift and
variance, the sum of losses depends only on the sum of the variables, and a composition
has the profile of one mechanism.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp.accounting import _gaussian, _zcdp
from fastdp.accounting._atoms.lattice import Lattice
from fastdp.accounting._atoms.law import Law, listed_law
from fastdp.accounting._atoms.plan import Cost, in_cells
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._discrete_gaussian import large_sigma_allowance
from fastdp.accounting._grid_noise import gaussian_sum_slack, slack_of_two
from fastdp.accounting._numeric import (
    FLAT_SLOP,
    RELATIVE_SLOP,
    log_fraction,
    sqrt_up,
)
from fastdp.accounting._pld.closed import ClosedForm
from fastdp.accounting._pld.listed_loss import Atoms, TiltedAtoms
from fastdp.accounting._pld.losses import Complexes, Floats, Loss, Tilted, U, numbers

#: From this variance on, the theta function is within e^-157 of 1 where it is used.
_WIDE = 16

#: For a narrow law, keep integers within this many standard deviations, plus a few.
_REACH = 12.0

#: ln of the least tail mass that a list leaves out.
_LEAST_TAIL = -700.0

#: Bound of the relative errors of masses; most points of a lattice.
_MASS_ERROR, _LONGEST = 1e-13, 1 << 14

#: Most integers whose losses are listed.
_MOST = numbers(128)


@dataclass(frozen=True)
class DiscreteGaussianLoss(Loss):
    """Discrete Gaussian noise on an integer that changes by `shift`; symmetric."""

    shift: int  # >= 1
    variance: Fraction  # sigma^2, > 0

    def spacing(self) -> Fraction:
        return self.shift / (2 * self.variance)

    @functools.cached_property
    def _square(self) -> float:
        return float(self.shift * self.shift / self.variance)

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return K(t) = mu^2 t (1 + t)/2 + ln(theta(t shift)/theta(0))."""
        value = self._square * t * (1 + t) / 2
        place = t * self.shift
        slip = 2 * U * place
        change, error = self._log_theta(place - np.rint(place), slip)
        return value + change, 4 * U * value + error

    def _log_theta(self, away: Floats, slip: Floats) -> tuple[Floats, Floats]:
        """Return ln of the sum of e^(-(x + away)^2/2v) over x, minus its value at 0.

        Also return error bounds, given `slip`, a bound on the error of `away`.
        """
        v = float(self.variance)
        if v >= 1:
            n = np.arange(1, 8)
            weight = 2 * np.exp(-2 * math.pi**2 * v * n * n)
            wave = np.cos(2 * math.pi * np.multiply.outer(away, n)) - 1
            change = np.log1p(wave @ weight / (1 + weight.sum()))
            moved = np.minimum(2.0, 8 * math.pi * (slip + 4 * U)[:, None] * n)
            return change, 20 * U * np.abs(change) + moved @ weight
        x = np.arange(-20, 21)
        peak = -away * away / (2 * v)
        level = -((x + away[:, None]) ** 2) / (2 * v) - peak[:, None]
        center = math.log(np.exp(-(x**2) / (2 * v)).sum())
        change = peak + np.log(np.exp(level).sum(axis=1)) - center
        return change, 60 * U + 4 * U * np.abs(peak) + (slip + 8 * U) / v

    def tilted(self, theta: float, count: int) -> Tilted:
        """Return the tilted law: discrete Gaussian noise around another place."""
        if self.variance >= _WIDE:
            return _TiltedWide(self, theta)
        value, error = self.cumulants(np.array([theta]))
        if theta * self.shift > 1e6:
            raise OverflowError("the tilt is too large")
        v, place = float(self.variance), self.shift * (1 + theta)
        reach = _REACH * math.sqrt(v) + 4
        x = np.arange(math.floor(place - reach), math.ceil(place + reach) + 1.0)
        level = -((x - place) ** 2) / (2 * v)
        weights = np.exp(level - level.max())
        losses = self._losses(x)
        slip = 4 * U * float(np.abs(losses).max())
        rounding = 1e-14 + 2 * slip * (1 + theta)
        # Bound integers out of reach; the nearest one weighs at least e^(-1/8v).
        beyond = 3 * math.exp((0.25 - reach * reach) / (2 * v))
        known = float(value[0]), float(error[0])
        weights /= weights.sum()
        return TiltedAtoms(losses, weights, known, rounding, slip, beyond)

    def _losses(self, x: Floats) -> Floats:
        return np.asarray(float(self.spacing()) * (2 * x - self.shift))

    def law(self, cost: Cost | None, cells: int, upper: bool, log_tail: float) -> Law:
        """Return the atoms without far tails, merged into cells if there are many."""
        atoms = self.atoms(max(log_tail, _LEAST_TAIL))
        lost = float(atoms.lost) * (1 + 4 * U)
        law = listed_law(
            atoms.losses,
            atoms.masses,
            upper,
            blur=atoms.blur,
            error=_MASS_ERROR + 2 * lost,
            lost=lost,
        )
        return in_cells(law, cost, cells, upper)

    @functools.cached_property
    def terms(self) -> int:  # type: ignore[override]
        if self.variance >= _WIDE:
            return 5
        return 2 * int(_REACH * math.sqrt(self.variance)) + 12

    def lattice(self, log_tail: float) -> Lattice | None:
        """Return the atoms without far tails on their lattice; None if too many."""
        log_tail = max(log_tail, _LEAST_TAIL)
        if 2 * self.reach(log_tail) > _LONGEST:
            return None
        atoms = self.atoms(log_tail)
        first = round(float(atoms.losses[0]) / float(self.spacing()))
        masses = np.zeros(2 * atoms.masses.size - 1)
        masses[::2] = atoms.masses
        lost = float(atoms.lost) * (1 + 4 * U)
        return Lattice(self.spacing(), first, masses, lost, _MASS_ERROR + 2 * lost)

    def reach(self, log_tail: float) -> float:
        """Return a distance beyond which noise has a mass below exp(log_tail)."""
        return math.sqrt(-2 * float(self.variance) * log_tail) + 2

    def atoms(self, log_tail: float) -> Atoms:
        """Return the atoms; tails of a mass below exp(log_tail) count as lost.

        Raises
        ------
        OverflowError
            There would be too many atoms.
        """
        v = float(self.variance)
        reach = self.reach(log_tail)
        if 2 * reach > _MOST:
            raise OverflowError("too many atoms")
        noise = np.arange(-math.ceil(reach), math.ceil(reach) + 1.0)
        level = -noise * noise / (2 * v)
        masses = np.exp(np.maximum(level, -744.0))
        masses = np.maximum(masses / masses.sum(), 5e-324)
        losses = self._losses(noise + self.shift)
        # Chernoff bounds of both tails, under P and under Q, with ample room.
        tail = Fraction(math.exp(max(log_tail, -740.0)))
        error = 4 * U * float(np.abs(losses).max())
        other = float(tail)
        return Atoms(losses, masses, tail, other, error, Fraction(0), other)


class _TiltedWide(Tilted):
    """The tilted law of wide noise; its transform repeats the continuous transform.

    At each y only the nearest term of the theta function matters (section 4 of the
    proofs).
    """

    def __init__(self, loss: DiscreteGaussianLoss, theta: float) -> None:
        value, error = loss.cumulants(np.array([theta]))
        self.cumulant, self.cumulant_error = float(value[0]), float(error[0])
        self._square, self._turn = loss._square, loss.shift * theta
        variance = float(loss.variance)
        self._period = 2 * math.pi * variance / loss.shift
        self._other = 4 * math.exp(-(math.pi**2) * variance / 2)
        self.mean = self._square * (theta + 0.5)

    def envelope(self, y: Floats) -> Floats:
        return np.ones_like(y)

    def centered(self, step: float, count: int) -> tuple[Complexes, Floats]:
        y = step * np.arange(1, count + 1)
        times = np.rint(y / self._period)
        z = -self._square * (y - times * self._period) ** 2 / 2
        value = np.expm1(z)
        error = 4 * U * (np.abs(z) + y * self.mean) * (1 + value)
        error = error + 8 * U * np.abs(value) + 1e-60
        if 4 * y[-1] <= self._period:
            return value + 0j, error
        turn = times * self._turn
        wave = (value + 1) * np.exp(-2j * math.pi * (turn - np.rint(turn))) - 1
        slip = 16 * U * (turn + math.sqrt(self._square) * y + 4) + self._other
        away = 4 * y > self._period
        return np.where(times > 0, wave, value), error + np.where(away, slip, 0.0)


# ---- the closed form -----------------------------------------------------------------

#: Use no closed form if the law of a sum may be off by more than this, in ln of masses.
_MOST_SLACK = 1e-11

#: Sum integer by integer up to this variance.
_SUMMED = Fraction(10**9)

#: Sum terms until the exponent has fallen by this much.
_FOLLOWED = 50.0


@dataclass(frozen=True)
class DiscreteGaussianProfile(ClosedForm):
    """The profile of one coordinate moved by `shift`, within e^(+-slack).

    Shift and variance are sums over the steps; all steps have the same quotient of
    shift and variance.
    """

    shift: int
    variance: Fraction
    slack: float = 0.0  # bound of the error of ln of the masses

    def times(self, count: int) -> DiscreteGaussianProfile | None:
        if count == 1:
            return self
        slack = count * self.slack + gaussian_sum_slack(self.variance, count)
        if slack > _MOST_SLACK:
            return None
        return DiscreteGaussianProfile(count * self.shift, count * self.variance, slack)

    def merged(self, other: ClosedForm) -> ClosedForm | None:
        if not isinstance(other, DiscreteGaussianProfile):
            return super().merged(other)
        variance = self.variance + other.variance
        if self.shift * other.variance != other.shift * self.variance:
            return None
        slack = self.slack + other.slack
        slack += slack_of_two(self.variance * other.variance / variance)
        if slack > _MOST_SLACK:
            return None
        return DiscreteGaussianProfile(self.shift + other.shift, variance, slack)

    def log_delta(self, epsilon: float) -> Bracket:
        exact = Fraction(epsilon)
        kink = exact * self.variance / self.shift - Fraction(self.shift, 2)
        if self.variance > _SUMMED:
            low, high = self._continuous(exact)
        elif kink < -(40 * math.sqrt(self.variance) + 2):
            low, high = -1e-300, 0.0  # 1 - delta is below the least double
        else:
            low, high = self._summed(kink)
        error = self.slack + FLAT_SLOP
        low -= error + RELATIVE_SLOP * abs(low)
        high = min(0.0, high + error + RELATIVE_SLOP * abs(high))
        return Bracket(low, min(max((low + high) / 2, low), high), high, "closed form")

    def _summed(self, kink: Fraction) -> tuple[float, float]:
        """Sum P(x) (1 - e^(-(shift/variance)(x - kink))) over the integers x > kink.

        All terms are positive; the first integer and its distance from the kink are
        exact.
        """
        first, rate = math.floor(kink) + 1, float(self.shift / self.variance)
        width = float(self.variance)
        reach = 2 * width * (_FOLLOWED + max(0.0, -2 * math.log(rate)))
        start = max(first, -math.ceil(math.sqrt(reach)) - 1)
        anchor = max(start, 0)
        far = reach / (math.hypot(anchor, math.sqrt(reach)) + anchor)
        stop = anchor + math.ceil(far) + 1
        steps = np.arange(start - anchor, stop - anchor + 1, dtype=np.float64)
        gaps = float(start - kink) + (steps - steps[0])
        terms = np.exp(-steps * (2 * float(anchor) + steps) / (2 * width))
        total = float(terms @ -np.expm1(-rate * gaps))
        missing = (2 if start > first else 1) * (1 + width / stop) * float(terms[-1])
        level = -float(anchor * anchor / (2 * self.variance))
        level -= _log_normalizer(self.variance)
        return level + math.log(total), level + math.log(total + missing)

    def _continuous(self, epsilon: Fraction) -> tuple[float, float]:
        """Bound by the continuous law, with an allowance for the lattice."""
        mu = self.shift / sqrt_up(self.variance)
        middle = _gaussian.log_delta(epsilon, mu)
        away = large_sigma_allowance(epsilon, mu, log_fraction(self.variance))
        share = math.exp(min(away - middle, 50.0)) + 1e-13
        low = middle + math.log1p(-share) if share < 1 else -math.inf
        # Allow for the rounding of mu, and for the error bound that `log_delta` added.
        low -= 3 * (FLAT_SLOP + RELATIVE_SLOP * abs(middle))
        return low, middle + math.log1p(share)

    def most(self, log_delta: float) -> float:
        rho = self.shift * self.shift / (2 * self.variance)
        return _zcdp.epsilon(log_delta, rho)


def _log_normalizer(variance: Fraction) -> float:
    """Return ln of the sum of e^(-x^2/2 variance) over the integers."""
    v = float(variance)
    if v >= 1:
        theta = 2 * math.exp(-2 * math.pi**2 * v) * (1 + math.exp(-6 * math.pi**2 * v))
        return 0.5 * (math.log(2 * math.pi) + log_fraction(variance)) + math.log1p(
            theta
        )
    return math.log1p(2 * math.fsum(math.exp(-x * x / (2 * v)) for x in range(1, 20)))
