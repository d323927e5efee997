"""Two calls that do the same work, timed in turn: the lines of ``fastdp bench``."""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Call = Callable[[], object]


#: Repeat a shorter call within one timing until it takes so many seconds: reading the
#: clock takes half a microsecond.
_LEAST = 1e-4

#: State a ratio only if there are this many repetitions and their middle half is within
#: this factor; a larger spread only shows how busy the machine was.
FEWEST, SPREAD = 5, 1.5


@dataclass(frozen=True)
class Ratio:
    """The other time divided by ours: median and quartiles over the repetitions."""

    low: float
    middle: float
    high: float
    repetitions: int

    @classmethod
    def of(cls, theirs: Array, ours: Array, samples: float = 1.0) -> Ratio:
        """Return the ratio of the times; `samples` is the ratio of sample sizes."""
        found = np.percentile(theirs / ours, (25, 50, 75)) * samples
        low, middle, high = (float(value) for value in found)
        return cls(low, middle, high, len(ours))

    @property
    def value(self) -> float | None:
        """The median, or None if the repetitions are too few or differ too much."""
        steady = self.high <= SPREAD * self.low
        return self.middle if self.repetitions >= FEWEST and steady else None

    def shown(self, digits: int) -> str:
        """Return the value for a table, or "noisy" if there is none."""
        return "noisy" if self.value is None else f"{self.value:.{digits}f}"


@dataclass(frozen=True)
class Row:
    """One line of a table; times in nanoseconds for one sample."""

    name: str
    size: int
    ns: float
    ns_low: float
    ns_high: float
    numpy_ns: float
    ratio: Ratio
    #: Random bytes that one sample needs on average.
    random_bytes: float | None
    #: Time of the fastest numpy code that we know, if it is not that of `numpy_ns`.
    best_ns: float | None
    best_ratio: Ratio | None
    #: Minimum over the repetitions, ours and numpy's: least affected by a busy machine,
    #: so best for comparing ratios of different runs.
    ns_least: float
    numpy_ns_least: float

    @property
    def million_per_second(self) -> float:
        """Samples per second, in millions."""
        return 1e3 / self.ns


@dataclass(frozen=True)
class Case:
    """Two calls that do the same work: ours, and the analogue in numpy."""

    name: str
    size: int
    ours: Call
    numpy: Call
    random_bytes: float | None = None
    #: Repetitions of the work in each call, if once is too fast for the clock.
    loops: int = 1
    #: numpy's fastest code for the same task, if `numpy` is not that code.
    best: Call | None = None


def measure(case: Case, repetitions: int) -> Row:
    """Time the calls of `case` in turn and compare them pair by pair."""
    more = () if case.best is None else (case.best,)
    ours, theirs, *rest = timings((case.ours, case.numpy, *more), repetitions)
    per_sample = 1e9 / (case.size * case.loops)
    low, middle, high = np.percentile(ours, (25, 50, 75)) * per_sample
    return Row(
        name=case.name,
        size=case.size,
        ns=float(middle),
        ns_low=float(low),
        ns_high=float(high),
        numpy_ns=float(np.median(theirs)) * per_sample,
        ratio=Ratio.of(theirs, ours),
        random_bytes=case.random_bytes,
        best_ns=float(np.median(rest[0])) * per_sample if rest else None,
        best_ratio=Ratio.of(rest[0], ours) if rest else None,
        ns_least=float(ours.min()) * per_sample,
        numpy_ns_least=float(theirs.min()) * per_sample,
    )


def as_dict(line: Any) -> dict[str, Any]:
    """Return a line as a dict with its ratio and quartiles; no ratio is None."""
    ratio: Ratio = line.ratio
    found = dataclasses.asdict(line)
    if found.get("best_ratio") is not None:
        found["best_ratio"] = line.best_ratio.value
    return {
        **found,
        "ratio": ratio.value,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
    }


def noisy_lines(ratios: Sequence[Ratio]) -> list[str]:
    """Return lines of text on missing ratios; empty if no ratio is missing."""
    noisy = sum(ratio.value is None for ratio in ratios)
    if not noisy:
        return []
    return [
        f"noisy: {noisy} of {len(ratios)} ratios are not stated. The middle half of",
        f"their repetitions differs by more than a factor {SPREAD}: quiet the",
        "machine, or take more --repetitions.",
    ]


def timings(calls: tuple[Call, ...], repetitions: int) -> npt.NDArray[np.float64]:
    """Return seconds of each call, shape (calls, repetitions), taken in turn.

    It is processor time: the time of other programs does not count, though their use of
    caches and memory bandwidth does.

    Each call runs before the clock starts, so that pages, tables and the processor's
    clock are warm. The garbage collector is off during the timing.
    """
    seconds = np.empty((len(calls), repetitions))
    loops = [_loops(call) for call in calls]
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for repetition in range(repetitions):
            for index, call in enumerate(calls):
                start = time.process_time()
                for _ in range(loops[index]):
                    call()
                taken = time.process_time() - start
                seconds[index, repetition] = taken / loops[index]
    finally:
        if was_enabled:
            gc.enable()
    return seconds


def _loops(call: Call) -> int:
    """Run the call, and return how many times it runs in one timing."""
    taken = 0.0
    for _ in range(2):  # a first call is slow
        start = time.process_time()
        call()
        taken = time.process_time() - start
        if taken > 100 * _LEAST:
            break
    return max(1, int(_LEAST / max(taken, 1e-7)))
