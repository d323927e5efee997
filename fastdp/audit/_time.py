"""Check whether the run time of a call reveals the input or the noise.

Both inputs are called in pairs in an order by a fair coin, and calls with one input are
compared in consecutive pairs. If time reveals nothing, each call of a pair is the
slower one with probability 1/2, under any load of the machine.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fastdp.audit._bounds import binomial_p
from fastdp.audit._findings import Finding
from fastdp.audit._outcomes import of_calls
from fastdp.audit._worker import Batched, LostError, Subject, Worker

#: The clock, in nanoseconds.
clock: Callable[[], int] = time.perf_counter_ns

#: Report after this many pairs of calls; do not count the first `_WARM` pairs.
_PAIRS, _WARM = 1024, 64

#: Quantiles of the call times that are used as thresholds.
_SHARES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)

#: Number of tests of one comparison; comparisons: inputs, and two of noise for each.
_TESTS, _COMPARISONS = 1 + len(_SHARES), 5

TRIED = (
    "pairs of calls in an order drawn by a fair coin: which of the two inputs takes "
    "longer, and whether large, small, positive or negative noise does"
)

#: Limit of dudect's statistic.
_LIMIT = 4.5

#: The input of each call, its time in ns, and the first number of its output.
Calls = tuple[np.ndarray, np.ndarray, np.ndarray]


def timed(subject: Subject, pairs: int) -> Calls:
    """Call both inputs in `pairs` pairs, in the mechanism's process."""
    order = np.random.default_rng().integers(0, 2, pairs)
    which = np.stack([order, 1 - order], axis=1).reshape(-1)
    if isinstance(subject.mechanism, Batched):
        function = subject.mechanism.function
        inputs = [np.asarray(x)[None] for x in subject.inputs[:2]]
        buffer = np.empty_like(inputs[0])

        def ready(at: int) -> Any:
            np.copyto(buffer, inputs[at])
            return buffer
    else:
        function = subject.mechanism
        raw = [pickle.dumps(x) for x in subject.inputs[:2]]

        def ready(at: int) -> Any:
            return pickle.loads(raw[at])

    spent = np.zeros(len(which), np.int64)
    outputs: list[Any] = [None] * len(which)
    for i, at in enumerate(which.tolist()):
        x = ready(at)
        start = clock()
        try:
            outputs[i] = function(x)
        except Exception:
            outputs[i] = None
        spent[i] = clock() - start
        subject.beat()
    return which, spent, _numbers(outputs)


def _numbers(outputs: list[Any]) -> np.ndarray:
    """Return the first number of each output; NaN if it has none."""
    errors = ["" if y is not None else "raises" for y in outputs]
    found = of_calls(outputs, errors)
    if not found.values.shape[1]:
        return np.full(len(outputs), np.nan)
    return np.where(found.numbered(), found.values[:, 0].astype(float), np.nan)


def needed(level: float) -> int:
    """Return the least number of pairs that can refute; half of them are tested."""
    runs = 1
    while binomial_p(runs, runs, 0.5) > level / (_TESTS * _COMPARISONS):
        runs += 1
    return 2 * runs


def check(mechanism: Any, inputs: tuple[Any, Any], pairs: int, level: float) -> Finding:
    """Return the finding whether time reveals the input or the noise.

    Parameters
    ----------
    mechanism : callable or Batched
    inputs : pair
    pairs : int
        Pairs of calls.
    level : float
    """
    parts: list[Calls] = []
    try:
        with Worker(mechanism, inputs) as worker:
            worker.do(timed, _WARM)
            for done in range(0, pairs, _PAIRS):
                parts.append(worker.do(timed, min(_PAIRS, pairs - done)))
    except (LostError, RuntimeError) as error:
        return Finding(
            check="time",
            status="not run",
            tried=TRIED,
            evidence=str(error).strip().split("\n")[-1],
            false_alarm=0.0,
        )
    which, spent, numbers = (np.concatenate(each) for each in zip(*parts, strict=True))
    return finding((which, spent, numbers), level)


def finding(calls: Calls, level: float) -> Finding:
    """Return the finding from the times of pairs of calls."""
    which, spent, _ = calls
    p, text = min(_tests(calls), default=(1.0, "all times are the same"))
    told = p <= level / (_TESTS * _COMPARISONS)
    groups = [np.sort(spent[which == at]) for at in (0, 1)]
    t = welch(*groups)
    middle = [float(np.median(each)) for each in groups]
    at = np.linspace(0, 1, 101)
    return Finding(
        check="time",
        status="fault" if told else "nothing found",
        tried=TRIED,
        evidence=(
            f"{'time tells' if told else 'nothing beyond chance; the most unlikely:'} "
            f"{text} (p at most {p:.3g}). Medians are {middle[0]:.6g} and "
            f"{middle[1]:.6g} ns; dudect's t is {t:.3g}, with {_LIMIT} as its limit"
        ),
        false_alarm=level,
        power=_power(len(spent) // 4, level / (_TESTS * _COMPARISONS)),
        data={"times": [np.quantile(each, at).tolist() for each in groups]},
    )


def _tests(calls: Calls) -> Iterator[tuple[float, str]]:
    """Yield p-values: the first half of the pairs sets thresholds for the second."""
    which, spent, numbers = calls
    slow = spent.reshape(-1, 2)
    yield from _compared(slow, which.reshape(-1, 2)[:, 0] == 0, "the second input")
    for at in (0, 1):
        own, y = spent[which == at], numbers[which == at]
        half = len(y) // 4 * 2  # half of the calls, in whole pairs
        if half < 2 or not np.isfinite(y).all():
            continue
        middle = np.median(y[:half])
        far = np.abs(y - middle)
        splits = ("large output", y > middle), ("noise", far > np.median(far[:half]))
        for name, chosen in splits:
            size = "far from the middle" if name == "noise" else "above the middle"
            even = len(own) // 2 * 2
            pairs, marks = own[:even].reshape(-1, 2), chosen[:even].reshape(-1, 2)
            differ = marks[:, 0] != marks[:, 1]
            words = f"an output {size}, of the {('first', 'second')[at]} input"
            yield from _compared(pairs[differ], marks[differ, 1], words)


def _compared(
    pairs: np.ndarray, last: np.ndarray, words: str
) -> Iterator[tuple[float, str]]:
    """Yield p-values of pairs of times; `last` marks pairs by the second call."""
    marked = np.where(last, pairs[:, 1], pairs[:, 0])
    other = np.where(last, pairs[:, 0], pairs[:, 1])
    half = len(pairs) // 2
    tested = slice(half, None)
    more, less = marked[tested] > other[tested], marked[tested] < other[tested]
    counts = [("takes longer", int(more.sum()), int(less.sum()))]
    if half:
        for limit in np.unique(np.quantile(pairs[:half], _SHARES)):
            a, b = marked[tested] > limit, other[tested] > limit
            words_of = f"takes longer than {limit:.6g} ns"
            counts.append((words_of, int((a & ~b).sum()), int((b & ~a).sum())))
    for how, hits, misses in counts:
        n = hits + misses
        if n:
            text = f"{words} {how} in {hits} of {n} pairs that differ"
            yield binomial_p(hits, n, 0.5), text


def welch(first: np.ndarray, second: np.ndarray) -> float:
    """Return the maximum of Welch's t of two classes over several croppings."""
    both = np.concatenate([first, second])
    found = [0.0]
    for share in (1.0, *_SHARES[2:]):
        limit = np.quantile(both, share)
        a, b = first[first <= limit], second[second <= limit]
        if min(len(a), len(b)) < 2:
            continue
        spread = float(np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))
        if spread > 0:
            found.append(float(b.mean() - a.mean()) / spread)
    return max(found, key=abs)


def _power(n: int, share: float) -> str:
    from scipy.stats import norm

    wide = float(norm.isf(share / 2)) + float(norm.isf(0.01))
    off = min(50.0, 50 * wide / max(n, 1) ** 0.5)
    return f"about: one input that is slower in {50 + off:.3g} % of the pairs"
