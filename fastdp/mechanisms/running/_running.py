"""Base of the two running totals: steps in sequence, under a lock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _factors, _validate
from fastdp._factors import Floats, Integers
from fastdp._stream import Stream
from fastdp.exceptions import BudgetExceededError, ParameterError
from fastdp.mechanisms._memory import Remembering
from fastdp.mechanisms.noise.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.running._strategies import Strategy


class Running(Remembering):
    """A mechanism that takes steps in sequence and returns the total after each."""

    __slots__ = ("_at", "_closed", "_noise", "_step", "_strategy", "_variances")

    _called = "a running total"
    _because = "the noise of a step is drawn once"

    _at: int
    _closed: bool
    _noise: DiscreteGaussian | DiscreteLaplace  # in units of C x
    _step: Fraction  # step of the grid, in the data's unit
    _strategy: Strategy
    _variances: Floats

    def _begin(
        self,
        arguments: list[tuple[str, Any]],
        noise: DiscreteGaussian | DiscreteLaplace,
        step: Fraction,
        strategy: Strategy,
    ) -> None:
        self._freeze(
            _arguments=tuple(arguments),
            _at=0,
            _closed=False,
            _noise=noise,
            _step=step,
            _strategy=strategy,
            _variances=strategy.spread(),
        )
        self._settle()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wipe the private numbers; no step can follow."""
        self._freeze(_closed=True)
        self._wipe()

    @property
    def steps_left(self) -> int:
        """The number of steps that are left."""
        return 0 if self._closed else self._strategy.steps - self._at

    def standard_error(self, step: int) -> float:
        """Return the standard error of the total after a step, from 1, in its unit."""
        at = _validate.integer("step", step, 1, self._strategy.steps)
        unit = float(self._step) / 2**self._strategy.bits
        return float(self._noise.std * np.sqrt(self._variances[at - 1]) * unit)

    @contextlib.contextmanager
    def _one_step(self) -> Iterator[None]:
        """Hold the lock during one step; after a failed step no other is possible."""
        self._require_home()
        with self._lock:
            if self._closed or self._at == self._strategy.steps:
                state = "is closed" if self._closed else "has taken all its steps"
                raise BudgetExceededError(f"the running total {state}")
            try:
                yield
                self._require_home()
            except BaseException:
                self.close()
                raise
            self._freeze(_at=self._at + 1)
            if self._at == self._strategy.steps:
                self._wipe()

    def _advance(self, x: Integers, stream: Stream | None, workers: int) -> Floats:
        """Add the sum of one step; return the noisy total in the data's unit."""
        y = self._strategy.encode(x)
        self._noise.release(y, out=y, stream=stream, workers=workers)
        total = self._strategy.decode(y.astype(np.float64))
        total *= float(self._step)
        return total

    def _lent(self) -> bytes:
        """Close the object except to `_resumed`; return its state before step 1."""
        self._require_home()
        with self._lock:
            if self._at:
                raise ParameterError("mechanism must be new, got one that took steps")
            self._freeze(_closed=True)
            return self._strategy.memory()

    def _resumed(
        self, memory: bytes, taken: int, x: Integers, workers: int = 1
    ) -> tuple[Floats, bytes]:
        """Take a step after `taken` steps; return its total and the state after it.

        Between two such steps a ledger stores the state, and the object holds none.
        """
        self._require_home()
        with self._lock:
            try:
                self._strategy.load(memory, taken)
                total = self._advance(x, None, workers)
                ended = taken + 1 == self._strategy.steps
                return total, b"" if ended else self._strategy.memory()
            finally:
                self._strategy.wipe()

    def _wipe(self) -> None:
        self._strategy.wipe()


def number_of_steps(steps: object) -> int:
    """Return a checked number of steps."""
    return _validate.integer("steps", steps, 1, _factors.MOST_STEPS)
