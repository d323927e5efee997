"""diffprivlib, its classes, and the base of our subclasses."""

from __future__ import annotations

import math
import secrets
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from fastdp import mechanisms as ours
from fastdp.adapters import _library
from fastdp.exceptions import DTypeError

dp = _library.load(
    "diffprivlib.mechanisms", package="diffprivlib", tested=("0.6", "0.7")
)


def their(name: str) -> Any:
    """Return a class of diffprivlib, or a placeholder if it is not installed."""
    return type(name, (), {}) if dp is None else getattr(dp, name)


class Fresh:
    """A mechanism that accepts no seed."""

    def __new__(cls, **_: Any) -> Any:
        _library.require(dp, "diffprivlib")
        return super().__new__(cls)

    @property
    def random_state(self) -> None:
        """Always None: each call draws a fresh key from the operating system."""

    @random_state.setter
    def random_state(self, value: Any) -> None:
        # diffprivlib's models pass numpy's global state on if they were given None.
        if not (
            value is None
            or value is np.random.mtrand._rand
            or isinstance(value, secrets.SystemRandom)
        ):
            raise DTypeError(
                "random_state must be None (fresh randomness from the "
                f"operating system), got {type(value).__name__}: anyone "
                "who knows a seed knows the noise"
            )

    def silent(self) -> bool:
        """Return whether the parameters need no noise or claim nothing."""
        claims: Any = self
        return (
            claims.epsilon == math.inf
            or claims.delta == 1
            or getattr(claims, "sensitivity", 1) == 0
        )


@lru_cache(maxsize=256)
def laplace(epsilon: float, delta: float, sensitivity: float) -> ours.Laplace:
    """Return noise for pure epsilon - ln(1 - delta), which implies (epsilon, delta)."""
    more = Fraction(-math.log1p(-delta)) * (1 - Fraction(1, 2**50))  # 4 ulp down
    return ours.Laplace.from_epsilon(
        Fraction(epsilon) + more, sensitivity=sensitivity, coordinates=1
    )


def least(kind: Any) -> Any:
    """Return a function that makes the least noise of a kind for epsilon and delta."""

    @lru_cache(maxsize=256)
    def noise(epsilon: float, delta: float, sensitivity: float) -> Any:
        return kind.from_epsilon_delta(
            epsilon=epsilon, delta=delta, sensitivity=sensitivity, coordinates=1
        )

    return staticmethod(noise)
