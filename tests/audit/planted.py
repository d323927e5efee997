"""Mechanisms with planted faults, and sound ones, as arguments of `audit.run`.

Generators start from fixed seeds, and sound mechanisms draw from the system.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import fastdp
from fastdp import accounting, audit, distributions


class Fault(NamedTuple):
    """How to make a mechanism with a fault, the check that finds it, and the draws."""

    make: Callable[[], dict[str, Any]]
    check: str
    draws: int


FAULTS: dict[str, Fault] = {}


def fault(check: str, draws: int = 20_000) -> Callable[[Any], Any]:
    """Enter a factory into `FAULTS`, by its name."""

    def enter(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        FAULTS[make.__name__] = Fault(make, check, draws)
        return make

    return enter


def integer_laplace(scale: float, seed: int = 1) -> Callable[[Any], Any]:
    """Return a function that draws discrete Laplace noise for an array."""
    rng = np.random.default_rng(seed)
    p = 1 - np.exp(-1 / scale)

    def noise(shape: Any) -> Any:
        return rng.geometric(p, shape) - rng.geometric(p, shape)

    return noise


def of_noise(noise: Callable[[Any], Any], claim: Any = (1, 0)) -> dict[str, Any]:
    def release(x: np.ndarray) -> np.ndarray:
        return x + noise(x.shape)

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": claim}


LAW = distributions.DiscreteLaplace(1)


# ---- too little noise ------------------------------------------------------------


@fault("privacy", 400_000)
def scale_8_percent_too_small() -> dict[str, Any]:
    return of_noise(integer_laplace(0.92))


@fault("privacy", 100_000)
def delta_twice_as_large() -> dict[str, Any]:
    noise, rng = integer_laplace(1), np.random.default_rng(2)

    def release(x: np.ndarray) -> np.ndarray:
        bare = rng.random(x.shape) < 0.02
        return np.where(bare, x + 1000, x + noise(x.shape))

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": (1, 0.01)}


@fault("privacy", 100_000)
def noise_cut_off() -> dict[str, Any]:
    noise = integer_laplace(1)
    return of_noise(lambda shape: np.clip(noise(shape), -4, 4))


@fault("privacy")
def sensitivity_of_two() -> dict[str, Any]:
    return {**of_noise(integer_laplace(1)), "neighbors": (0, 2)}


@fault("privacy")
def clamped_after_the_sum() -> dict[str, Any]:
    rng = np.random.default_rng(3)

    def release(x: np.ndarray) -> np.ndarray:
        total = np.clip(x.sum(axis=1), 0, 1000)
        return total + rng.laplace(size=len(x))

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": "sums", "claim": (1, 0)}


@fault("privacy")
def noise_twice_or_never() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: np.ndarray) -> np.ndarray:
        twice = noise(x.shape) + noise(x.shape)
        return x + np.where(x > 0, twice, 0)

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": (1, 0)}


@fault("privacy")
def sigma_of_half() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    event = accounting.GDPEvent(1)
    return of_noise(lambda shape: rng.normal(0, 0.5, shape), event)


@fault("privacy")
def one_coordinate_without_noise() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: np.ndarray) -> np.ndarray:
        added = noise(x.shape)
        added[:, 2] = 0
        return x + added

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": "histograms", "claim": (1, 0)}


@fault("privacy")
def choice_with_twice_the_epsilon() -> dict[str, Any]:
    m = fastdp.ExponentialMechanism(4, sensitivity=1)
    mechanism = audit.batched(m.select)
    return {"mechanism": mechanism, "neighbors": "selections", "claim": (2, 0)}


# ---- floats ----------------------------------------------------------------------


@fault("precision")
def laplace_of_floats() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return of_noise(lambda shape: rng.laplace(size=shape))


@fault("precision")
def noise_of_even_numbers() -> dict[str, Any]:
    noise = integer_laplace(4)
    return of_noise(lambda shape: 2 * noise(shape))


# ---- the law -----------------------------------------------------------------------


@fault("law", 50_000)
def scale_5_percent_too_large() -> dict[str, Any]:
    return of_noise(integer_laplace(1.05), LAW)


@fault("law", 50_000)
def low_bit_of_two_percent() -> dict[str, Any]:
    noise, rng = integer_laplace(20), np.random.default_rng(6)

    def biased(shape: Any) -> Any:
        drawn = noise(shape)
        return np.where(rng.random(shape) < 0.05, drawn & ~1, drawn)

    return of_noise(biased, distributions.DiscreteLaplace(20))


@fault("law")
def neighbors_correlated() -> dict[str, Any]:
    noise, rng = integer_laplace(1), np.random.default_rng(7)

    def repeated(shape: Any) -> Any:
        drawn = noise(shape)
        again = np.roll(drawn, 1)
        return np.where(rng.random(shape) < 0.2, again, drawn)

    return of_noise(repeated, LAW)


@fault("law", 50_000)
def first_of_32_without_noise() -> dict[str, Any]:
    noise = integer_laplace(1)

    def gap(shape: Any) -> Any:
        drawn = noise(shape)
        drawn[::32] = np.minimum(drawn[::32], 1)
        return drawn

    return of_noise(gap, LAW)


# ---- state -------------------------------------------------------------------------


@fault("state")
def generator_shared_over_forks() -> dict[str, Any]:
    rng = np.random.default_rng(8)
    return of_noise(lambda shape: rng.normal(size=shape), (1, 0.5))


@fault("state")
def key_of_every_call_the_same() -> dict[str, Any]:
    def noise(shape: Any) -> Any:
        return np.random.default_rng(9).normal(size=shape)

    return of_noise(noise, (1, 0.5))


class Copied:
    """Noise whose generator goes with the object."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng()

    def __call__(self, x: Any) -> Any:
        return x + self.rng.normal(size=np.shape(x))


@fault("state")
def generator_that_is_pickled() -> dict[str, Any]:
    mechanism = audit.batched(Copied())
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": (1, 0.5)}


@fault("state")
def generator_that_anybody_seeds() -> dict[str, Any]:
    return of_noise(lambda shape: np.random.normal(size=shape), (1, 0.5))


# ---- conduct -----------------------------------------------------------------------


def single(release: Callable[[Any], Any]) -> dict[str, Any]:
    return {"mechanism": release, "neighbors": (0, 1), "claim": (1, 0)}


@fault("privacy", 2000)
def error_for_one_input() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: int) -> int:
        if x > 0:
            raise ValueError("x is too large")
        return x + int(noise(()))

    return single(release)


@fault("conduct", 2000)
def error_now_and_then() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: int) -> int:
        drawn = int(noise(()))
        if drawn > 4:
            raise OverflowError
        return x + drawn

    return single(release)


@fault("conduct", 2000)
def hangs() -> dict[str, Any]:
    def release(x: int) -> int:
        if x > 0:
            time.sleep(3600)
        return x

    return single(release)


@fault("conduct", 2000)
def ends_the_process() -> dict[str, Any]:
    def release(x: int) -> int:
        import os

        os._exit(3)

    return single(release)


@fault("conduct", 2000)
def prints() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: int) -> int:
        print(x)
        return x + int(noise(()))

    return single(release)


@fault("conduct", 2000)
def changes_its_input() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: np.ndarray) -> np.ndarray:
        x += noise(x.shape)
        return x

    return {**single(release), "neighbors": (np.zeros(2, int), np.eye(2, dtype=int)[0])}


@fault("conduct", 2000)
def another_type() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: int) -> float:
        drawn = int(noise(()))
        return x + (float(drawn) if drawn > 2 else drawn)

    return single(release)


@fault("conduct", 2000)
def another_shape_of_a_batch() -> dict[str, Any]:
    mechanism = audit.batched(lambda x: x[1:])
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": (1, 0)}


# ---- sound ones ----------------------------------------------------------------------


def sound() -> dict[str, dict[str, Any]]:
    """Return sound mechanisms of the library by name."""

    def added(m: Any, neighbors: Any, *laws: Any) -> dict[str, Any]:
        mechanism = audit.batched(m.release)
        claim = [m.event(), *laws]
        return {"mechanism": mechanism, "neighbors": neighbors, "claim": claim}

    def chosen(m: Any) -> dict[str, Any]:
        mechanism = audit.batched(m.select)
        return {"mechanism": mechanism, "neighbors": "selections", "claim": m.event()}

    one = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    wide = fastdp.DiscreteLaplace.from_epsilon(0.01, sensitivity=1)
    normal = fastdp.DiscreteGaussian.from_rho(0.5, sensitivity=1)
    cut = fastdp.TruncatedLaplace(scale=1, bound=12, sensitivity=1)
    real = fastdp.Laplace.from_epsilon(1, sensitivity=1)
    smooth = fastdp.Gaussian.from_epsilon_delta(epsilon=1, delta=1e-6, sensitivity=1)
    answer = fastdp.RandomizedResponse.from_epsilon(1, categories=3)
    return {
        "DiscreteLaplace": added(one, (0, 1), LAW),
        "DiscreteLaplace of scale 100": added(
            wide, (10**6, 10**6 + 1), distributions.DiscreteLaplace(100)
        ),
        "DiscreteLaplace of counts": added(one, "counts"),
        "DiscreteLaplace of histograms": added(one, "histograms"),
        "DiscreteGaussian": added(
            normal, (0, 1), distributions.DiscreteGaussian(normal.sigma)
        ),
        "TruncatedLaplace": added(
            cut, (0, 1), distributions.TruncatedDiscreteLaplace(1, bound=12)
        ),
        "Laplace": added(real, (0.0, 1.0), stats.laplace()),
        "Gaussian": added(smooth, (0.0, 1.0)),
        "RandomizedResponse": {
            "mechanism": audit.batched(answer.release),
            "neighbors": (0, 1),
            "claim": (1, 0),
        },
        "ExponentialMechanism": chosen(fastdp.ExponentialMechanism(1, sensitivity=1)),
        "PermuteAndFlip": chosen(fastdp.PermuteAndFlip(1, sensitivity=1)),
    }
