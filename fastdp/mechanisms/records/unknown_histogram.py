"""Select the keys that may be shown, with noisy counts, if the list is private."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _arrays, _validate, calibration, distributions
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    Event,
    NeighboringRelation,
    Relation,
    TruncatedDiscreteLaplaceEvent,
    l2_sensitivity,
)
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms._keys import counted
from fastdp.mechanisms.noise.integer import DiscreteGaussian
from fastdp.mechanisms.noise.truncated import TruncatedLaplace
from fastdp.mechanisms.records._thresholds import least_threshold, tail
from fastdp.mechanisms.records.key_selection import keys_of_user, moved_keys, times

_A = NeighboringRelation.ADD_OR_REMOVE_ONE

_Array = np.ndarray[Any, Any]


class UnknownHistogram(Mechanism):
    """Noisy counts of keys without a public list; small counts are not shown.

    Parameters
    ----------
    scale, bound : int, float, Fraction or Decimal; int
        Truncated discrete Laplace noise; only noisy counts above the bound are shown.
    sigma, threshold : int, float, Fraction or Decimal; int
        Discrete Gaussian noise; only noisy counts above `threshold` are shown.
    keys_per_user : int
        Maximum number of keys per user.
    records_per_key : int
        The most that one user changes the count of a key.

    Privacy
    -------
    For users added or removed (the neighboring relation), k keys with sensitivity r
    each. Laplace: every key of the universe, present or not, gets noise; the noisy
    count of an absent key never exceeds the bound, so that only present keys need to be
    computed. Gaussian: the keys of both datasets form a Gaussian mechanism of L2
    sensitivity sqrt(k) r; a key of only one dataset is shown with probability at most
    delta. The guarantee is approximate, and its law is exact. Timing class T0.

    References
    ----------
    Korolova, Kenthapadi, Mishra, Ntoulas, "Releasing search queries and clicks
    privately", WWW 2009 (thresholds). docs/proofs/keys.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> h = fastdp.UnknownHistogram.from_epsilon_delta(
    ...     epsilon=1, delta=1e-12, keys_per_user=1
    ... )
    >>> keys, counts = h.release(["oslo", "rome", "bonn"], np.array([1, 900, 700]))
    >>> keys
    ['bonn', 'rome']
    """

    __slots__ = ("_least", "_noise")

    _returns_array = False

    _least: int  # only larger noisy counts are shown
    _noise: TruncatedLaplace | DiscreteGaussian

    def __init__(
        self,
        *,
        scale: Real | None = None,
        bound: int | None = None,
        sigma: Real | None = None,
        threshold: int | None = None,
        keys_per_user: int,
        records_per_key: int = 1,
        neighboring_relation: Relation = _A,
    ) -> None:
        keys, relation = keys_of_user(keys_per_user, neighboring_relation)
        records = _validate.integer("records_per_key", records_per_key, 1, 2**40)
        noise: TruncatedLaplace | DiscreteGaussian
        if (
            scale is not None
            and bound is not None
            and (sigma, threshold) == (None, None)
        ):
            noise = TruncatedLaplace(scale=scale, bound=bound)
            least = noise.bound
            if least < records:
                raise ParameterError(
                    f"bound must be at least records_per_key, got {bound}"
                )
        elif sigma is not None and threshold is not None and scale is bound is None:
            noise = DiscreteGaussian(sigma=sigma)
            least = _validate.integer("threshold", threshold, records + 1, 2**62)
        else:
            raise ParameterError(
                "scale and bound, or sigma and threshold, must be given together"
            )
        law = [(n, v) for n, v in noise._arguments if n in ("scale", "bound", "sigma")]
        if sigma is not None:
            law.append(("threshold", least))
        self._freeze(
            _arguments=(
                *law,
                ("keys_per_user", keys),
                ("records_per_key", records),
                *self._not_default(neighboring_relation=relation),
            ),
            _noise=noise,
            _least=least,
        )

    @classmethod
    def from_epsilon_delta(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        keys_per_user: int,
        records_per_key: int = 1,
        neighboring_relation: Relation = _A,
    ) -> UnknownHistogram:
        """Return the mechanism with truncated Laplace noise for (epsilon, delta).

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the bound that it needs, is out of range.
        """
        keys, relation = keys_of_user(keys_per_user, neighboring_relation)
        r = _validate.integer("records_per_key", records_per_key, 1, 2**40)
        moved = moved_keys(keys, relation)
        e = _validate.positive("epsilon", epsilon) / moved
        d = _validate.open_unit("delta", delta) / moved
        return cls(
            scale=r / e,
            bound=calibration.truncated_laplace_bound(
                epsilon=e, delta=d, sensitivity=r
            ),
            keys_per_user=keys,
            records_per_key=r,
            neighboring_relation=relation,
        )

    @classmethod
    def from_rho_delta(
        cls,
        *,
        rho: Real,
        delta: Real,
        keys_per_user: int,
        records_per_key: int = 1,
        neighboring_relation: Relation = _A,
    ) -> UnknownHistogram:
        """Return the mechanism with Gaussian noise for delta-approximate rho-zCDP.

        Errors are those of `from_epsilon_delta`.
        """
        keys, relation = keys_of_user(keys_per_user, neighboring_relation)
        r = _validate.integer("records_per_key", records_per_key, 1, 2**40)
        d = _validate.open_unit("delta", delta)
        moved = moved_keys(keys, relation)
        sigma = calibration.gaussian_sigma_from_rho(
            rho=rho, sensitivity=l2_sensitivity(moved * r**2)
        )
        return cls(
            sigma=sigma,
            threshold=least_threshold(DiscreteGaussian(sigma), d / moved, r),
            keys_per_user=keys,
            records_per_key=r,
            neighboring_relation=relation,
        )

    def event(self) -> Event:
        """Return the event of one release, over all keys."""
        said = dict(self._arguments)
        relation = said.get("neighboring_relation", _A)
        moved, r = moved_keys(said["keys_per_user"], relation), said["records_per_key"]
        if isinstance(self._noise, TruncatedLaplace):
            one = TruncatedDiscreteLaplaceEvent(
                sensitivity=r,
                scale=_validate.exact("scale", self._noise.scale),
                bound=self._noise.bound,
                neighboring_relation=relation,
            )
            return times(one, moved)
        sigma = _validate.exact("sigma", self._noise.sigma)
        shown = min(moved * tail(self._noise, self._least - r), Fraction(1))
        return ComposedEvent(
            (
                DiscreteGaussianEvent(
                    sensitivity=l2_sensitivity(moved * r**2),
                    sigma=sigma,
                    coordinates=moved,
                    neighboring_relation=relation,
                ),
                ApproximateDPEvent(
                    epsilon=Fraction(0), delta=shown, neighboring_relation=relation
                ),
            )
        )

    def confidence_interval(self, level: float) -> tuple[float, float]:
        """Return (low, high), which contains the noise on one count at this level."""
        return self._noise.confidence_interval(level)

    def probability(self, count: int) -> float:
        """Return the probability that a key with this number of records is shown."""
        n = _validate.integer("count", count, 0)
        if n == 0:
            return 0.0
        if isinstance(self._noise, TruncatedLaplace):
            law: Any = distributions.TruncatedDiscreteLaplace(
                scale=self._noise.scale, bound=self._noise.bound
            )
        else:
            law = distributions.DiscreteGaussian(sigma=self._noise.sigma)
        return float(law.sf(float(self._least - min(n, 2**62))))

    def select(self, users_per_key: Any, *, stream: Stream | None = None) -> _Array:
        """Return a mask of the keys that may be shown, without their counts.

        Parameters and results are as in `KeySelection.select`; each key occurs once.

        Raises
        ------
        DTypeError, ParameterError, EntropyError
            As in `KeySelection.select`.

        Privacy
        -------
        The guarantee is `event()`. Timing class T0.
        """
        check_stream(stream)
        users = _arrays.data("users_per_key", users_per_key, real=False)
        noisy = self._noise.release(users.astype(np.int64), stream=stream)
        shown: _Array = (noisy > self._least) & (users > 0)
        return shown

    def release(
        self, keys: Any, counts: Any, *, stream: Stream | None = None
    ) -> tuple[Any, _Array]:
        """Return the keys that may be shown, sorted, and their noisy counts.

        Parameters
        ----------
        keys : list of str, bytes or int, or ndarray of strings or integers
            The counts of a repeated key are added.
        counts : column of integers, shape (len(keys),)
            Counts below 1 and nulls mean that the key is absent. Two pandas columns
            must have the same index.
        stream : Stream, optional
            As in `KeySelection.select`.

        Returns
        -------
        keys : list, or ndarray of the dtype of `keys`
            Sorted by bytes (strings) or value, never in the data's order. The text
            dtype is as wide as the longest shown key.
        counts : ndarray of int64
            Each above the bound or threshold.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. Timing class T0.
        """
        check_stream(stream)
        listed, exact = counted(keys, counts)
        noisy = self._noise.release(exact, stream=stream)
        shown = noisy > self._least
        found = listed[shown].tolist()
        if isinstance(keys, np.ndarray):
            kind = keys.dtype.kind  # make text as wide as the longest shown key
            found = np.array(found, kind if kind in "US" else keys.dtype)
        return found, noisy[shown]
