"""Calls of all kinds, and a process in which they were made and that waits.

    python -m tests.differential.left_behind LEVEL CIPHER

Every call is made in a thread of its own that waits afterwards, so that its stack stays
as the call left it. "ready" is printed once all have been made.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import fastdp
from fastdp import _core, random
from fastdp._stream import CallKey
from tests.differential.layout import Keyed

Array = np.ndarray[Any, Any]

#: More than a chunk of most kernels, and what fits into memory on the stack.
LENGTHS = (9000, 100)

NOISE = 2**40


class Turns(Keyed):
    """A stream whose calls have keys of their own: `key` is that of the last one."""

    def _next_call(self) -> CallKey:
        self.key = hashlib.sha256(self.key).digest()
        return super()._next_call()


class Case(NamedTuple):
    """Private data, and what is done with them and a stream."""

    name: str
    data: Array
    call: Callable[..., Any]

    def stream(self, cipher: str) -> Turns:
        return Turns(self.name.encode(), cipher)


class Settled:
    """A law with all special lanes settled by the resolver. With tilted digits, a small
    call tries no lane before the resolver."""

    def __init__(self, kind: str, parameter: int) -> None:
        make = getattr(_core.Sampler, kind)
        self._sampler = make(Fraction(parameter)).widen(narrow=1, wide=1)

    def release(self, x: Array, stream: Turns) -> Array:
        out: Array = _core.fill(stream, self._sampler, x, x.shape)
        return out


class Chosen:
    """A choice that only integers of any size decide."""

    def __init__(self, select: Callable[..., None], noise: str | None = None) -> None:
        self._select = select
        self._law = _core.Selection(Fraction(1), noise).widen(1e300, fine=False)

    def select(self, scores: Array, stream: Turns) -> Array:
        few, out = scores[:40].reshape(1, -1), np.zeros((1, 1), np.int64)
        with _core.Call(stream) as call:
            self._select(call, self._law, few, out)
        return out


def _mechanisms() -> Iterator[tuple[str, Any]]:
    """Yield what is called, with the kind of its data."""
    yield "integers", fastdp.DiscreteLaplace(NOISE)
    yield "integers", fastdp.DiscreteGaussian(NOISE)
    yield "integers", fastdp.TruncatedLaplace(NOISE, bound=2 * NOISE)
    yield "reals", fastdp.Laplace(1.0, granularity=2.0**-38, coordinates=1)
    for kind, parameter in (("laplace", NOISE), ("gaussian", 8), ("gaussian", NOISE)):
        yield "settled", Settled(kind, parameter)
    yield "reals", fastdp.LocalMean.from_epsilon(1, bounds=(0, 1))
    for k in (2, 5, 300):
        yield "labels", fastdp.RandomizedResponse.from_epsilon(1, categories=k)
    for kind in (
        "UnaryEncoding",
        "LocalHashing",
        "HadamardResponse",
        "SubsetSelection",
    ):
        yield "labels", getattr(fastdp, kind).from_epsilon(1, categories=20)
    yield "scores", fastdp.ExponentialMechanism(1, sensitivity=1)
    yield "scores", fastdp.PermuteAndFlip(1, sensitivity=1)
    yield "scores", fastdp.ReportNoisyMax(1, sensitivity=1, noise="exponential")
    yield "scores", fastdp.ReportNoisyMax(1, sensitivity=1, noise="gumbel")
    for name in ("proposed", "flipped", "inverse"):
        yield "scores", Chosen(getattr(_core, f"select_{name}"))
    for noise in ("gumbel", "laplace", "gaussian"):
        yield "scores", Chosen(_core.select_race, noise)
    yield "rows", random.gumbel_argmax
    yield "rows", random.exponential_race
    yield "length", lambda x, stream: random.bernoulli(0.3, size=len(x), stream=stream)
    yield "length", lambda x, stream: random.integers(1000, size=len(x), stream=stream)
    yield "length", lambda x, stream: random.permutation(len(x), stream=stream)


def _data(kind: str, n: int, seed: list[int]) -> Array:
    """Return private data, made without copies that could be left behind."""
    made = np.random.default_rng(seed)
    if kind in ("integers", "settled"):
        return made.integers(-(2**62), 2**62, n)
    if kind == "reals" or kind == "scores":
        return made.uniform(0, 1, n)
    if kind == "rows":
        return made.uniform(1, 2, (n // 30, 30))
    return made.integers(0, 2, n)


def cases() -> Iterator[Case]:
    """Yield the calls, with data of their own."""
    for n in LENGTHS:
        for i, (kind, m) in enumerate(_mechanisms()):
            method = {"scores": "select", "rows": "__call__", "length": "__call__"}
            call = getattr(m, method.get(kind, "release"))
            yield Case(f"{n} {kind} {i}", _data(kind, n, [n, i]), call)


def _zero(result: Any) -> None:
    if isinstance(result, np.ndarray):
        result.reshape(-1).view(np.uint8)[...] = 0


def main(level: str, cipher: str) -> None:
    """Make every call, and wait with what is left of them."""
    _core.limit_cpu(level)
    threading.stack_size(1 << 19)
    end = threading.Lock()
    end.acquire()

    def work(case: Case, made: threading.Event) -> None:
        _zero(case.call(case.data, stream=case.stream(cipher)))
        _zero(case.data)
        made.set()
        end.acquire()

    for case in cases():
        made = threading.Event()
        threading.Thread(target=work, args=(case, made), daemon=True).start()
        made.wait()
    print("ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
