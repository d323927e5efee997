"""Planted faults of state and conduct: shared noise, errors, prints, types, shapes."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import numpy as np

from fastdp import audit
from tests.audit.planted import fault, integer_laplace, of_noise, single

# ---- state -------------------------------------------------------------------------


@fault("state")
def seed_is_the_day() -> dict[str, Any]:
    def noise(shape: Any) -> Any:
        day = int(time.time()) // 86_400
        return np.random.default_rng(day).normal(size=shape)

    return of_noise(noise, (1, 0.5))


@fault("state")
def seed_is_the_number_of_the_process() -> dict[str, Any]:
    def noise(shape: Any) -> Any:
        return np.random.default_rng(os.getpid()).normal(size=shape)

    return of_noise(noise, (1, 0.5))


@fault("state")
def each_thread_starts_at_one_seed() -> dict[str, Any]:
    own = threading.local()

    def noise(shape: Any) -> Any:
        if not hasattr(own, "rng"):
            own.rng = np.random.default_rng(21)
        return own.rng.normal(size=shape)

    return of_noise(noise, (1, 0.5))


@fault("state", 4000)
def seed_is_the_input() -> dict[str, Any]:
    """Start anew for each input, so that both inputs have the same noise."""
    known: dict[int, np.random.Generator] = {}

    def release(x: int) -> float:
        rng = known.setdefault(x, np.random.default_rng(22))
        return x + rng.normal()

    return {**single(release), "claim": (1, 0.5)}


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
def another_shape() -> dict[str, Any]:
    """Leave out what noise makes negative; alone this would break no claim."""
    noise = integer_laplace(1)

    def release(x: int) -> np.ndarray:
        drawn = noise(3)
        return drawn[drawn >= 0]

    return single(release)


@fault("conduct", 20_000)
def error_in_a_batch() -> dict[str, Any]:
    noise = integer_laplace(1)

    def drawn(shape: Any) -> Any:
        found = noise(shape)
        if (found > 8).any():
            raise OverflowError
        return found

    return of_noise(drawn)


@fault("conduct", 2000)
def another_shape_of_a_batch() -> dict[str, Any]:
    mechanism = audit.batched(lambda x: x[1:])
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": (1, 0)}
