"""The classes of `diffprivlib.mechanisms`, with our noise in ``randomise``.

Each is a subclass of diffprivlib's class of the same name, with its arguments, checks,
folding and truncation. docs/howto/diffprivlib.md.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, ClassVar, NoReturn

from fastdp import _public
from fastdp import mechanisms as ours
from fastdp.adapters.diffprivlib._base import Fresh, laplace, least, their
from fastdp.exceptions import UnsupportedEventError

__all__ = [
    *("Binary", "Exponential", "ExponentialCategorical", "ExponentialHierarchical"),
    *("Gaussian", "GaussianAnalytic", "GaussianDiscrete"),
    *("Geometric", "GeometricFolded", "GeometricTruncated"),
    *("Laplace", "LaplaceFolded", "LaplaceTruncated", "PermuteAndFlip"),
]

#: Other classes of diffprivlib, and why they are not supported.
_REFUSED = {
    "Bingham": "its noise is a rotation, drawn in floats",
    "LaplaceBoundedDomain": "its scale is a root in floats; use LaplaceTruncated",
    "LaplaceBoundedNoise": "use fastdp.TruncatedLaplace, which takes integers",
    "Snapping": "use Laplace, which is on a grid here, with less noise",
    "Staircase": "use Laplace",
    "Uniform": "use GaussianAnalytic with a small epsilon",
    "Vector": "its noise is drawn in floats; fastdp.training hides sums of gradients",
}


def __getattr__(name: str) -> NoReturn:
    if name in _REFUSED:
        raise UnsupportedEventError(f"{name} has no counterpart here: {_REFUSED[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Number(Fresh):
    _noise: Any  # makes the mechanism from epsilon, delta and a sensitivity

    def randomise(self, value: Any) -> Any:
        """Return the number with noise."""
        own: Any = self
        own._check_all(value)
        x = int(value) if isinstance(value, Integral) else float(value)
        if self.silent():
            return x
        return own._noise(own.epsilon, own.delta, own.sensitivity).release(x).item()


class _Normal(_Number):
    _noise = least(ours.Gaussian)

    @property
    def _scale(self) -> float:
        """Standard deviation, under diffprivlib's name."""
        own: Any = self
        if self.silent():
            return 0.0
        return float(own._noise(own.epsilon, own.delta, own.sensitivity).sigma)

    @_scale.setter
    def _scale(self, value: float) -> None:
        """Ignore the value that diffprivlib computes."""

    def _find_scale(self) -> float:
        return 0.0


class Laplace(_Number, their("Laplace")):  # type: ignore[misc]
    """Laplace noise on a public grid, for epsilon - ln(1 - delta)."""

    _noise = staticmethod(laplace)


class LaplaceTruncated(their("LaplaceTruncated"), Laplace):  # type: ignore[misc]
    """`Laplace` with releases clamped to the bounds."""


class LaplaceFolded(their("LaplaceFolded"), Laplace):  # type: ignore[misc]
    """`Laplace` with releases folded into the bounds."""


class Gaussian(_Normal, their("Gaussian")):  # type: ignore[misc]
    """Gaussian noise on a public grid, the least for epsilon and delta."""


class GaussianAnalytic(_Normal, their("GaussianAnalytic")):  # type: ignore[misc]
    """`Gaussian`, which already has the least noise."""


class GaussianDiscrete(_Normal, their("GaussianDiscrete")):  # type: ignore[misc]
    """Discrete Gaussian noise for integers, the least for epsilon and delta."""

    _noise = least(ours.DiscreteGaussian)


class Geometric(_Number, their("Geometric")):  # type: ignore[misc]
    """Discrete Laplace noise for integers."""

    @staticmethod
    def _noise(epsilon: float, _: float, sensitivity: int) -> Any:
        return ours.DiscreteLaplace.from_epsilon(epsilon, sensitivity=sensitivity)


class GeometricTruncated(their("GeometricTruncated"), Geometric):  # type: ignore[misc]
    """`Geometric` with releases clamped to the bounds."""


class GeometricFolded(their("GeometricFolded"), Geometric):  # type: ignore[misc]
    """`Geometric` with releases folded into the bounds."""


class Binary(Fresh, their("Binary")):  # type: ignore[misc]
    """Randomized response with two labels."""

    def randomise(self, value: Any) -> Any:
        """Return one of the two labels."""
        self._check_all(value)
        if self.silent():
            return value
        response = ours.RandomizedResponse.from_epsilon(self.epsilon)
        labels = (self.value0, self.value1)
        return labels[response.release(labels.index(value))]


class _Choice(Fresh):
    _kind: ClassVar[Any]

    def randomise(self, value: None = None) -> Any:
        """Return one of the candidates, or its number."""
        own: Any = self
        own._check_all(value)
        epsilon, sensitivity, scores = own.epsilon, own.sensitivity, own.utility
        if self.silent():  # no noise: choose among the best
            best, epsilon, sensitivity = max(scores), 1, 1
            scores = [0.0 if score == best else -math.inf for score in scores]
        choice = self._kind(epsilon, sensitivity=sensitivity, monotonic=own.monotonic)
        given = {} if own.measure is None else {"weights": own.measure}
        index = int(choice.select(scores, **given))
        return own.candidates[index] if own.candidates else index


class Exponential(_Choice, their("Exponential")):  # type: ignore[misc]
    """The exponential mechanism."""

    _kind = ours.ExponentialMechanism


class PermuteAndFlip(_Choice, their("PermuteAndFlip")):  # type: ignore[misc]
    """The permute-and-flip mechanism."""

    _kind = ours.PermuteAndFlip


class ExponentialCategorical(
    Fresh,
    their("ExponentialCategorical"),  # type: ignore[misc]
):
    """The exponential mechanism over categories, by utilities of pairs."""

    def randomise(self, value: Any) -> Any:
        """Return one of the categories."""
        self._check_all(value)
        domain, largest = self._domain_values, self._sensitivity
        if self.silent() or largest == 0:
            return super().randomise(value)
        scores = {a: [-self._get_utility(a, b) for b in domain] for a in domain}
        # If all values have the same scores in different orders, the weights have the
        # same sum, and no factor of two is needed. diffprivlib compares float sums.
        alike = len({tuple(sorted(each)) for each in scores.values()}) == 1
        choice = ours.ExponentialMechanism(
            self.epsilon, sensitivity=largest, monotonic=alike
        )
        return domain[choice.select(scores[value])]


class ExponentialHierarchical(
    their("ExponentialHierarchical"),  # type: ignore[misc]
    ExponentialCategorical,
):
    """The exponential mechanism over the leaves of a tree."""


_public.show(globals())
