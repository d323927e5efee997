"""Planted faults of edges, sums, messages, time and budgets."""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fastdp
from fastdp import audit
from fastdp.accounting import filters
from tests.audit import planted_state  # noqa: F401 (registers its faults)
from tests.audit.planted import fault, integer_laplace, single

# ---- edges of arithmetic ---------------------------------------------------------


def counted(change: Callable[[np.ndarray], np.ndarray]) -> dict[str, Any]:
    """Return a count that is changed before noise is added."""
    noise = integer_laplace(1)
    mechanism = audit.batched(lambda x: change(x) + noise(x.shape))
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": (1, 0)}


@fault("edges")
def count_of_32_bits() -> dict[str, Any]:
    return counted(lambda x: x.astype(np.int32).astype(np.int64))


@fault("edges")
def count_that_is_a_float32() -> dict[str, Any]:
    return counted(lambda x: x.astype(np.float32).astype(np.int64))


@fault("edges")
def count_that_is_a_float64() -> dict[str, Any]:
    return counted(lambda x: x.astype(np.float64).astype(np.int64))


@fault("edges")
def largest_integer_is_refused() -> dict[str, Any]:
    def checked(x: np.ndarray) -> np.ndarray:
        if (x == 2**63 - 1).any():
            raise OverflowError
        return x // 2

    return counted(checked)


@fault("edges")
def size_of_the_smallest_integer() -> dict[str, Any]:
    """Bound a size that has no int64, so that it stays negative."""
    return counted(lambda x: np.minimum(np.abs(x), 100))


@fault("edges")
def smallest_integer_ends_the_process() -> dict[str, Any]:
    def checked(x: np.ndarray) -> np.ndarray:
        if (x == -(2**63)).any():
            raise KeyboardInterrupt
        return x // 2

    return counted(checked)


def on_grid(change: Callable[[np.ndarray], np.ndarray]) -> dict[str, Any]:
    """Return a real number that is changed and rounded before noise is added."""
    noise = integer_laplace(2)

    def release(x: np.ndarray) -> np.ndarray:
        return np.rint(change(x)).astype(np.int64) + noise(x.shape)

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": (0.0, 1.0), "claim": (1, 0)}


@fault("edges")
def zero_that_is_negative() -> dict[str, Any]:
    return on_grid(lambda x: np.where(np.signbit(x), -50, np.minimum(x, 1)))


@fault("edges")
def number_next_to_zero() -> dict[str, Any]:
    """Scale by a power of two, for numbers below the inputs that were thought of."""
    return on_grid(lambda x: np.where((x > 0) & (x < 1e-300), np.log2(x), x))


@fault("edges")
def number_that_is_a_float32() -> dict[str, Any]:
    def halved(x: np.ndarray) -> np.ndarray:
        return x.astype(np.float32).astype(np.float64) * 2

    return on_grid(halved)


# ---- clipping and sums -------------------------------------------------------------


def summed(total: Callable[[np.ndarray], np.ndarray]) -> dict[str, Any]:
    """Return a sum of records to which noise is added on a grid."""
    noise = integer_laplace(2.0**10)

    def release(x: np.ndarray) -> np.ndarray:
        return np.rint(total(x) * 2**10) + noise(len(x))

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": "sums", "claim": (1.01, 0)}


@fault("privacy")
def nan_is_not_clipped() -> dict[str, Any]:
    return summed(lambda x: np.clip(x, 0, 1).sum(axis=1))


@fault("privacy")
def clipped_from_above_alone() -> dict[str, Any]:
    return summed(lambda x: np.nan_to_num(np.minimum(x, 1)).sum(axis=1))


@fault("privacy")
def product_of_bound_and_share() -> dict[str, Any]:
    """Divide by the largest record instead of clipping."""

    def total(x: np.ndarray) -> np.ndarray:
        size = np.maximum(np.nanmax(np.abs(x), axis=1, keepdims=True), 1)
        return np.nan_to_num(np.nan_to_num(x) / size).sum(axis=1)

    return summed(total)


@fault("privacy")
def records_cancel_before_they_are_clipped() -> dict[str, Any]:
    def total(x: np.ndarray) -> np.ndarray:
        halves = np.nan_to_num(x).reshape(len(x), 2, -1)
        return np.clip(halves.sum(axis=2), -50, 50).sum(axis=1)

    return summed(total)


@fault("privacy")
def float_accumulation() -> dict[str, Any]:
    """Go on with a float32 total at 2^24 + 2, where every second integer is a float.

    After a record of 2, each following -1 is a tie that is rounded up again; after a
    record of 0 they count, so that one record moves the total by 200 instead of 2.
    """
    noise, records = integer_laplace(2), np.append([0.0], np.full(200, -1.0))
    other = np.append([2.0], records[1:])

    def release(x: np.ndarray) -> np.ndarray:
        terms = np.clip(x, -2, 2).astype(np.float32)
        terms[:, 0] += np.float32(2**24 + 2)
        total = np.add.accumulate(terms, axis=1)[:, -1]
        return total.astype(np.int64) + noise(len(x))

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": (records, other), "claim": (1, 0)}


# ---- messages ----------------------------------------------------------------------


def speaking(say: Callable[[Any], None]) -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: Any) -> int:
        say(x)
        return int(x) + int(noise(()))

    return single(release)


@fault("messages", 2000)
def error_with_the_value() -> dict[str, Any]:
    def check(x: Any) -> None:
        if not -(2**31) < x < 2**31:
            raise ValueError(f"x must be below 2^31, got {x}")

    return speaking(check)


@fault("messages", 2000)
def error_from_an_error_with_the_value() -> dict[str, Any]:
    def check(x: Any) -> None:
        try:
            if isinstance(x, str):
                {}[x]
        except KeyError as error:
            raise ValueError("x must be a number") from error

    return speaking(check)


@fault("messages", 2000)
def warning_with_the_value() -> dict[str, Any]:
    def check(x: Any) -> None:
        if isinstance(x, int) and x > 10**6:
            warnings.warn(f"{x:,} is large", stacklevel=2)

    return speaking(check)


@fault("messages", 2000)
def log_with_the_value() -> dict[str, Any]:
    def check(x: Any) -> None:
        if isinstance(x, int) and x > 10**6:
            logging.getLogger("planted").warning("large: %.9e", x)

    return speaking(check)


class Remembering:
    """Keeps its last input, and shows it."""

    def __init__(self) -> None:
        self.noise, self.last = integer_laplace(1), None

    def __repr__(self) -> str:
        return f"Remembering(last={self.last!r})"

    def __call__(self, x: Any) -> int:
        self.last = x
        return int(x) + int(self.noise(()))


@fault("messages", 2000)
def repr_with_the_last_value() -> dict[str, Any]:
    return single(Remembering())


class Showing:
    """Keeps its last answer, which anybody may see, and shows it."""

    def __init__(self, release: Callable[[Any], Any]) -> None:
        self.release, self.last = release, None

    def __repr__(self) -> str:
        return f"Showing(last={self.last!r})"

    def __call__(self, x: Any) -> Any:
        self.last = self.release(x)
        return self.last


# ---- time --------------------------------------------------------------------------

_jitter = np.random.default_rng(30)
_spent = 0


def clock() -> int:
    """Return the time of a machine of its own, in ns: the same in every run."""
    global _spent
    _spent += 1000 + int(_jitter.integers(0, 500))
    return _spent


def spend(ns: int) -> None:
    """Take some time."""
    global _spent
    _spent += ns


def timed(cost: Callable[[int, int], int]) -> dict[str, Any]:
    """Return a count whose time is a function of the input and of the noise."""
    noise = integer_laplace(2)

    def release(x: int) -> int:
        drawn = int(noise(()))
        spend(cost(x, drawn))
        return x + drawn

    return {**single(release), "timing": 4000}


@fault("time", 2000)
def branch_on_the_input() -> dict[str, Any]:
    return timed(lambda x, drawn: 60 * (x > 0))


@fault("time", 2000)
def branch_on_the_sign_of_the_noise() -> dict[str, Any]:
    return timed(lambda x, drawn: 80 * (drawn > 0))


@fault("time", 2000)
def loop_as_long_as_the_noise_is_large() -> dict[str, Any]:
    return timed(lambda x, drawn: 40 * abs(drawn))


@fault("time", 2000)
def slow_path_of_one_input() -> dict[str, Any]:
    return timed(lambda x, drawn: 5000 * (x > 0 and int(_jitter.integers(8)) == 0))


# ---- a generator ---------------------------------------------------------------------


def padded(bits: int) -> dict[str, Any]:
    """Return an integer under a pad of Python's generator, seeded by the system."""
    rng, most = random.Random(), 2**bits

    def release(x: int) -> int:
        return (x + rng.getrandbits(bits) + most // 2) % most - most // 2

    return single(release)


@fault("state", 2000)
def pad_of_32_bits_is_predicted() -> dict[str, Any]:
    rng = random.Random()
    return single(lambda x: x + rng.getrandbits(32))


@fault("state", 2000)
def pad_of_64_bits_is_predicted() -> dict[str, Any]:
    return padded(64)


# ---- budgets -----------------------------------------------------------------------


def spending(make: Callable[[], Callable[[Any], Any]]) -> dict[str, Any]:
    noise = integer_laplace(1)
    return {**single(lambda x: x + int(noise(()))), "budget": (make(), 5)}


class Purse:
    """A budget of 5 answers: whether it locks, and whether a copy is refused."""

    def __init__(self, lock: bool) -> None:
        self.left, self.lock = 5, threading.Lock() if lock else None

    def __call__(self, x: int) -> int:
        if self.lock is None:
            return self.answer(x)
        with self.lock:
            return self.answer(x)

    def answer(self, x: int) -> int:
        if self.left < 1:
            raise RuntimeError("the budget is spent")
        time.sleep(0.01)  # let others in
        self.left -= 1
        return x


@fault("budget", 2000)
def threads_race_for_a_budget() -> dict[str, Any]:
    return spending(lambda: Purse(lock=False))


@fault("budget", 2000)
def forked_process_has_the_whole_budget() -> dict[str, Any]:
    return spending(lambda: Purse(lock=True))


@fault("budget", 2000)
def one_answer_too_many() -> dict[str, Any]:
    left = itertools.count(5, -1)
    lock = threading.Lock()

    def answer(x: int) -> int:
        with lock:
            if next(left) < 0:
                raise RuntimeError("the budget is spent")
        return x

    return spending(lambda: answer)


# ---- sound ones --------------------------------------------------------------------


def sound() -> dict[str, dict[str, Any]]:
    """Return sound mechanisms of sums, with a budget and with a repr, by name."""
    total = fastdp.ClippedSum.from_epsilon(1, radius=1, dimension=1)
    one = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    purse = filters.PureFilter(5)

    def spend(x: int) -> int:
        purse.spend(one)
        return int(one.release(x))

    return {
        "DiscreteLaplace that shows its answer": {
            "mechanism": Showing(one.release),
            "neighbors": (0, 1),
            "claim": one.event(),
        },
        "ClippedSum": {
            "mechanism": lambda x: float(total.release(x[:, None])[0]),
            "neighbors": "sums",
            "claim": (2, 0),
        },
        "DiscreteLaplace within a filter": {
            "mechanism": one.release,
            "neighbors": (0, 1),
            "claim": one.event(),
            "budget": (spend, 5),
        },
    }
