"""Noise in shares: several parties each add a part of one integer noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fastdp import _arrays, _core, _points, _validate, random
from fastdp._stream import Stream, check_stream
from fastdp.accounting import event_rho
from fastdp.accounting._numeric import search, sqrt_up
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteGaussianSumEvent,
    DiscreteLaplaceEvent,
    Event,
    NeighboringRelation,
    PureDPEvent,
    Relation,
    SkellamEvent,
)
from fastdp.exceptions import DTypeError, ParameterError

#: Largest modulus: sums of two residues fit int64.
_MODULUS = 1 << 62

#: Largest scale of noise in shares.
_SCALE = 1 << 40

#: Minimum sigma of a share: sums are within a factor e^(3e-17) of discrete Gaussians.
_SIGMA = 2

#: Largest variance of a Skellam share: computing its table takes seconds.
_VARIANCE = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares(ABC):
    """Noise that several parties add in shares under secure aggregation.

    Parameters
    ----------
    of : Event
        Noise that the shares of `honest` parties sum to, for the sensitivity of the sum
        of all parties.
    parties : int
        Largest number of parties in a sum, in [1, 2**32].
    honest : int
        Number of parties, in [1, parties], that add their share and keep it secret.
    modulus : int
        In [2, 2**62].

    Privacy
    -------
    The guarantee is `event()`, which every subclass defines.
    """

    of: Event
    parties: int
    honest: int
    modulus: int

    _kind: ClassVar[type[Event]]  # of noise that the shares give

    def __post_init__(self) -> None:
        if type(self.of) is not self._kind:
            raise DTypeError(
                f"of must be a {self._kind.__name__}, got {type(self.of).__name__}"
            )
        parties = _validate.integer("parties", self.parties, 1, 2**32)
        _validate.integer("honest", self.honest, 1, parties)
        _validate.integer("modulus", self.modulus, 2, _MODULUS)
        self._check()

    @abstractmethod
    def _check(self) -> None:
        """Refuse noise that has no shares."""

    @abstractmethod
    def _draw(self, size: int, stream: Stream | None) -> np.ndarray[Any, Any]:
        """Return `size` independent shares."""

    @abstractmethod
    def _log_tail(self, distance: Fraction) -> float:
        """Return an upper bound on ln P(sum of all shares >= distance)."""

    @abstractmethod
    def event(self, *, honest: int | None = None) -> Event:
        """Return the public facts of one sum, for an accountant."""

    def add_share(self, x: Any, *, stream: Stream | None = None) -> Any:
        """Return one party's `x` with its share, modulo `modulus`.

        Parameters
        ----------
        x : ndarray of an integer dtype (not uint64)
            The party's integers.
        stream : Stream, optional
            None draws fresh keys from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.

        Returns
        -------
        ndarray of int64
            The shape is the shape of x; the values are in [0, modulus).

        Raises
        ------
        DTypeError
            `x` is not such an array. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        A single result costs `event(honest=1)`, the sum `event()`. Timing
        class T0: the time depends on the share.
        """
        check_stream(stream)
        x = _arrays.data("x", x, real=False)
        share = self._draw(x.size, stream)
        share %= self.modulus  # in place: no other copy stays in memory
        residue = share.astype(np.int64, copy=False)
        masked = x.astype(np.int64) % self.modulus
        masked += residue.reshape(x.shape)
        masked %= self.modulus
        _core.zero(residue)
        return masked

    def decode(self, total: Any) -> Any:
        """Return a sum modulo `modulus` as integers around 0.

        Parameters
        ----------
        total : ndarray of an integer dtype (not uint64)
            The aggregator's sum, modulo `modulus`.

        Returns
        -------
        ndarray of int64
            In [-(modulus // 2), (modulus - 1) // 2]. It is the noisy sum itself unless
            that is out of this range; `wrap_probability` bounds the probability.

        Raises
        ------
        DTypeError
            `total` is not such an array.
        """
        total = _arrays.data("total", total, real=False).astype(np.int64)
        residue = total % self.modulus
        return residue - self.modulus * (residue > (self.modulus - 1) // 2)

    def wrap_probability(self, largest: int) -> float:
        """Return an upper bound on the probability that `decode` errs in one entry.

        Parameters
        ----------
        largest : int
            Largest absolute value of the true sum, >= 0.

        Returns
        -------
        float
            For at most `parties` shares, all drawn by `add_share`. For n entries the
            bound is n times as large. A party that sends anything else can make any sum
            wrong.
        """
        largest = _validate.integer("largest", largest, 0)
        room = Fraction(self.modulus // 2 - largest)
        if room <= 0:
            return 1.0
        return min(1.0, 2 * math.exp(min(self._log_tail(room), 0.0)))

    def _honest(self, honest: int | None) -> int:
        if honest is None:
            return self.honest
        return _validate.integer("honest", honest, 1, self.parties)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceShares(Shares):
    """Shares of discrete Laplace noise under secure aggregation.

    Every party adds its own share to its integers, modulo `modulus`. The
    aggregator learns the sum of all parties modulo `modulus`, and nothing else. The
    shares of `honest` parties sum to discrete Laplace noise; with more parties the
    noise is larger. `DiscreteLaplace.shares` makes it.

    Parameters
    ----------
    of : DiscreteLaplaceEvent
        Noise that the shares of `honest` parties give, for the sensitivity of the
        sum of all parties; its scale is in [1e-6, 2**40].
    parties : int
        Largest number of parties in a sum, in [1, 2**32].
    honest : int
        Number of parties, in [1, parties], that add their share and keep it secret.
    modulus : int
        In [2, 2**62].

    Privacy
    -------
    The guarantee is `event()`: pure epsilon = sensitivity/scale, under the neighboring
    relation of the event. It holds only for the sum, and only if both neighbors have
    the same parties: a party without records still sends its share. A single share
    hides far less. Exact.

    References
    ----------
    Goryczka, Xiong, "A comprehensive comparison of multiparty secure additions with
    differential privacy", IEEE TDSC 2017. docs/proofs/shares.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    >>> shares = m.shares(parties=3, honest=2, modulus=2**32)
    >>> sent = [shares.add_share(np.array([i, 10 * i])) for i in range(3)]
    >>> shares.decode(np.sum(sent, axis=0) % 2**32).shape
    (2,)
    """

    of: DiscreteLaplaceEvent

    _kind = DiscreteLaplaceEvent

    def _check(self) -> None:
        if self.of.scale > _SCALE:
            raise ParameterError(
                "scale must be at most 2**40 for shares, got "
                f"{_validate.shown(self.of.scale)}: release a coarser unit"
            )
        _validate.between("scale", self.of.scale, *_validate.SCALE_RANGE)

    def _draw(self, size: int, stream: Stream | None) -> np.ndarray[Any, Any]:
        return _points.draw(size, self.of.scale, Fraction(1, self.honest), stream)

    def _log_tail(self, distance: Fraction) -> float:
        room = float(distance / self.of.scale)
        shape = self.parties / self.honest
        if room <= shape * (1 + 1e-9):
            return 0.0
        exponent = shape * math.log(room / shape) - (room - shape)
        return exponent + 1e-12 * (1 + room + shape)

    def event(self, *, honest: int | None = None) -> DiscreteLaplaceEvent | PureDPEvent:
        """Return the public facts of one sum, for an accountant.

        Parameters
        ----------
        honest : int, optional
            Least number of honest parties with shares in the sum, in [1, parties]; None
            takes the constructor's number. Fewer parties cost more: a pure epsilon from
            the law of their shares.

        Raises
        ------
        DTypeError, ParameterError
            `honest` is out of its domain. With 0 there is no guarantee.

        Examples
        --------
        >>> import fastdp
        >>> m = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
        >>> shares = m.shares(parties=100, honest=80, modulus=2**32)
        >>> shares.event()
        DiscreteLaplaceEvent(sensitivity=1, scale=1)
        >>> round(float(shares.event(honest=60).epsilon), 3)
        1.274
        """
        honest = self._honest(honest)
        if honest >= self.honest:
            return self.of
        excess = _points.excess(Fraction(honest, self.honest), self.of.scale)
        epsilon = self.of.sensitivity * (1 / self.of.scale + Fraction(excess))
        return PureDPEvent(epsilon, neighboring_relation=self.of.neighboring_relation)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianShares(Shares):
    """Shares of noise close to discrete Gaussian, under secure aggregation.

    Like `LaplaceShares`, for the L2 sensitivity. A share is discrete Gaussian noise
    with 1/`honest` of the variance; the law of a sum of shares is within a factor of
    e^(+-3e-17) of discrete Gaussian noise, and the event charges this factor.
    `DiscreteGaussian.shares` makes it.

    Parameters
    ----------
    of : DiscreteGaussianEvent
        Noise with the total variance of the shares of `honest` parties, for the
        sensitivity of the sum of all parties. A share's sigma, `of.sigma`/sqrt(honest),
        is in [2, 2**40], or `honest` is 1.
    parties, honest, modulus : int
        As in `LaplaceShares`.

    Privacy
    -------
    The guarantee is `event()`: rho = s**2/(2 v) + t zero-concentrated privacy for the
    L2 sensitivity s and the variance v of the honest parties' noise, under the
    neighboring relation of the event; t < 3e-17 for each entry that one individual
    changes. For (epsilon, delta), t is a part of delta instead. The conditions are
    those of `LaplaceShares`. Exact except for t.

    References
    ----------
    Kairouz, Liu, Steinke, "The distributed discrete Gaussian mechanism for federated
    learning with secure aggregation", ICML 2021. docs/proofs/shares.md, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.DiscreteGaussian(40, sensitivity=10)
    >>> shares = m.shares(parties=20, honest=16, modulus=2**20)
    >>> shares.event()
    DiscreteGaussianSumEvent(sensitivity=10, sigma=10, shares=16)
    >>> sent = [shares.add_share(np.array([i, -i])) for i in range(20)]
    >>> shares.decode(np.sum(sent, axis=0) % 2**20).shape
    (2,)
    """

    of: DiscreteGaussianEvent

    _kind = DiscreteGaussianEvent

    def _check(self) -> None:
        if self.honest > 1 and self.sigma < _SIGMA:
            raise ParameterError(
                "sigma must be at least 2 sqrt(honest) for shares, got "
                f"{_validate.shown(self.of.sigma)}: sums of narrower shares are not "
                "close to Gaussian noise; release a finer unit"
            )
        if self.sigma > _SCALE:
            raise ParameterError(
                "sigma must be at most 2**40 sqrt(honest) for shares, got "
                f"{_validate.shown(self.of.sigma)}: release a coarser unit"
            )
        _validate.between("sigma", self.sigma, *_validate.SIGMA_RANGE)

    @property
    def sigma(self) -> Fraction:
        """Parameter of one share: of.sigma/sqrt(honest), rounded up to a double."""
        square = self.of.sigma**2 / self.honest
        root = sqrt_up(square)
        return root if root * root == square else Fraction(_validate.float_up(root))

    def _draw(self, size: int, stream: Stream | None) -> np.ndarray[Any, Any]:
        return np.asarray(
            random.discrete_gaussian(self.sigma, size=size, stream=stream)
        )

    def _log_tail(self, distance: Fraction) -> float:
        return -float(distance**2 / (2 * self.parties * self.sigma**2)) * (1 - 1e-12)

    def event(
        self, *, honest: int | None = None
    ) -> DiscreteGaussianSumEvent | DiscreteGaussianEvent:
        """Return the public facts of one sum, as `LaplaceShares.event` does."""
        honest = self._honest(honest)
        if honest == 1:
            return replace(self.of, sigma=self.sigma)
        return DiscreteGaussianSumEvent(
            sensitivity=self.of.sensitivity,
            sigma=self.sigma,
            shares=honest,
            coordinates=self.of.coordinates,
            neighboring_relation=self.of.neighboring_relation,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SkellamShares(Shares):
    """Shares of Skellam noise under secure aggregation, for any number of parties.

    Like `LaplaceShares`, for the L2 sensitivity. A share is the difference of two
    Poisson variables; the shares of any parties sum exactly to Skellam noise with the
    sum of their variances, even if a single share is narrow.

    Parameters
    ----------
    of : SkellamEvent
        Noise that the shares of `honest` parties sum to, for the sensitivity of the sum
        of all parties. The variance of a share, `of.variance`/`honest`, is at most
        2**26.
    parties, honest, modulus : int
        As in `LaplaceShares`.

    Privacy
    -------
    The guarantee is `event()`, for the L2 sensitivity s and the variance v of the
    honest parties' noise, under the neighboring relation of the event: rho
    zero-concentrated privacy with a rho close to s**2/(2 v) for large v, and the law's
    own profile if one individual changes one entry. The conditions are those of
    `LaplaceShares`. Exact.

    References
    ----------
    Agarwal, Kairouz, Liu, "The Skellam mechanism for differentially private federated
    learning", NeurIPS 2021. docs/proofs/shares.md, sections 6 to 8.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> shares = fastdp.SkellamShares.from_rho(
    ...     0.125, sensitivity=4, parties=50, honest=40, modulus=2**20
    ... )
    >>> round(float(shares.of.variance), 1)
    74.2
    >>> sent = [shares.add_share(np.array([i, -i])) for i in range(50)]
    >>> shares.decode(np.sum(sent, axis=0) % 2**20).shape
    (2,)
    """

    of: SkellamEvent

    _kind = SkellamEvent

    @classmethod
    def from_rho(
        cls,
        rho: _validate.Real,
        *,
        sensitivity: _validate.Real,
        parties: int,
        honest: int,
        modulus: int,
        coordinates: int | None = None,
        neighboring_relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    ) -> SkellamShares:
        """Return shares of the least noise known to meet rho-zCDP.

        Parameters
        ----------
        rho : int, float, Fraction or Decimal
            rho of the noise of `honest` parties, > 0.
        sensitivity : int, float, Fraction or Decimal
            L2 sensitivity of the sum of all parties, > 0.
        parties, honest, modulus : int
            As for the class.
        coordinates : int, optional
            Maximum number of entries that one individual changes.
        neighboring_relation : NeighboringRelation
            The relation for which the sensitivity holds.

        Raises
        ------
        DTypeError, ParameterError
            A parameter is out of its domain.
        CalibrationError
            The variance of a share would be above 2**26.
        """
        wanted = _validate.positive("rho", rho)
        moved = _validate.positive("sensitivity", sensitivity)
        parties = _validate.integer("parties", parties, 1, 2**32)
        honest = _validate.integer("honest", honest, 1, parties)
        target = _validate.float_down(wanted)
        limits = Fraction(8), Fraction(_VARIANCE * honest)
        event = SkellamEvent(
            sensitivity=moved,
            variance=limits[0],
            coordinates=coordinates,
            neighboring_relation=neighboring_relation,
        )

        def excess(variance: float) -> float:
            return event_rho(replace(event, variance=Fraction(variance))) - target

        guess = float(min(moved**2 / (2 * wanted), limits[1]))
        found = search("variance", excess, guess, limits)
        event = replace(event, variance=Fraction(found))
        return cls(of=event, parties=parties, honest=honest, modulus=modulus)

    def _check(self) -> None:
        if self.of.variance / self.honest > _VARIANCE:
            raise ParameterError(
                "variance must be at most 2**26 honest for shares, got "
                f"{_validate.shown(self.of.variance)}: release a coarser unit"
            )

    def _draw(self, size: int, stream: Stream | None) -> np.ndarray[Any, Any]:
        return _points.skellam(size, self.of.variance / self.honest, stream)

    def _log_tail(self, distance: Fraction) -> float:
        whole = self.parties * self.of.variance / self.honest
        d, v = float(distance), _validate.float_up(whole)
        return -(d * math.asinh(d / v) - d * d / (math.hypot(d, v) + v)) * (1 - 1e-12)

    def event(self, *, honest: int | None = None) -> SkellamEvent:
        """Return the public facts of one sum, as `LaplaceShares.event` does."""
        share = self.of.variance / self.honest
        return replace(self.of, variance=self._honest(honest) * share)
