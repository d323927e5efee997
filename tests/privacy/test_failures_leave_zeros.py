"""A call that fails at any point leaves zeros in its output.

The entry points are found by introspection, so that a new one has to appear here. An
exception is raised at every line, call and return that a tracer sees within them, in
all their threads; refused arguments are tried one by one.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp import _core, random
from fastdp.exceptions import DTypeError, EntropyError, FastDPError, ParameterError
from fastdp.training import GradientAccumulator, GradientSum
from tests.privacy.streams import BrokenStream

Array = np.ndarray[Any, Any]
FOLDER = str(Path(fastdp.__file__).parent)

#: More than one chunk of every kernel, for two workers.
N = 140_000


def integers() -> Array:
    return np.arange(N) + 1


def labels() -> Array:
    return np.arange(N) % 3 + 1


def filled(kind: Any, *shape: int) -> Array:
    """An output of nonzero bytes."""
    out = np.empty(shape, kind)
    out.reshape(-1).view(np.uint8)[...] = 77
    return out


def oracle(mechanism: Any, *row: int) -> tuple[Any, Callable[[], tuple[Any, Array]]]:
    def made() -> tuple[Any, Array]:
        return labels(), filled(mechanism.report_dtype, N, *row)

    return mechanism, made


def strings(mechanism: Any) -> tuple[Any, Callable[[], tuple[Any, Array]]]:
    """A column of Arrow's, whose elements no line of ours looks at one by one."""
    text = pa.array(labels().astype(str))
    return mechanism, lambda: (text, filled(mechanism.report_dtype, N))


def in_place(data: Callable[[], Array]) -> Callable[[], tuple[Any, Array]]:
    def made() -> tuple[Any, Array]:
        x = data()
        return x, x

    return made


INTEGER = [
    fastdp.DiscreteLaplace(10),
    fastdp.DiscreteGaussian(2**40),
    fastdp.TruncatedLaplace(10, bound=50),
]
REAL = [
    fastdp.Laplace(1.0, granularity=2**-20, coordinates=1),
    fastdp.Gaussian(1, granularity=0.5, coordinates=1),
]
RESPONSE = fastdp.RandomizedResponse.from_epsilon(1)

GRADIENTS = GradientSum(sigma=1, radius=1, shapes=[(24,)])

VECTORS = fastdp.VectorResponse.from_epsilon(1, dimension=1, words=2)

#: Mechanisms with a way to make data and an output, by the class of the mechanism.
RELEASES: list[tuple[Any, Callable[[], tuple[Any, Array]]]] = [
    *((m, in_place(integers)) for m in INTEGER),
    *((m, in_place(lambda: np.arange(N) + 0.3)) for m in REAL),
    (INTEGER[0], lambda: (integers()[::2], filled(np.int16, N // 2))),
    (REAL[0], lambda: (np.ones(N, np.float32), filled(np.float32, N))),
    (INTEGER[0], lambda: (5, filled(np.int64))),
    (RESPONSE, in_place(lambda: np.ones(N, np.uint8))),
    (RESPONSE, in_place(lambda: np.ones(N, bool))),
    oracle(fastdp.RandomizedResponse.from_epsilon(1, categories=4)),
    oracle(fastdp.LocalHashing.from_epsilon(1, categories=4)),
    oracle(fastdp.HadamardResponse.from_epsilon(1, categories=4)),
    oracle(fastdp.UnaryEncoding.from_epsilon(1, categories=4), 1),
    (VECTORS, lambda: (np.ones((3, 1)), filled(VECTORS.report_dtype, 3))),
    oracle(fastdp.SubsetSelection.from_epsilon(1, categories=4), 1),
    oracle(fastdp.LocalMean.from_epsilon(1, bounds=(0, 4))),
    *map(
        strings,
        (
            fastdp.CountMeanSketch.from_epsilon(1, rows=4, buckets=4),
            fastdp.CountMeanSketch.from_epsilon(1, rows=4, buckets=8, inner="unary"),
            fastdp.PrefixHunt.from_epsilon(1, bits=16),
        ),
    ),
]

Case = tuple[str, Callable[..., Any], Callable[[], tuple[tuple[Any, ...], Any, Array]]]


def _cases() -> Iterator[Case]:
    """Name, function, and what makes its arguments, keywords and output."""
    for i, (m, make) in enumerate(RELEASES):

        def release(make: Any = make) -> Any:
            x, out = make()
            return (x,), {"out": out}, out

        yield f"{type(m).__name__}.release {i}", m.release, release

    def drawn(name: str, parameter: Any, dtype: Any) -> Case:
        def make() -> Any:
            out = filled(dtype, N)
            return (parameter,), {"out": out}, out

        return name, getattr(random, name), make

    def gradients() -> Any:
        out = filled(np.float64, 24)
        return ([np.ones((5, 24))],), {"out": [out]}, out

    def accumulated() -> Any:
        (x,), keywords, out = gradients()
        return (GRADIENTS.accumulator().add(x),), keywords, out

    yield "GradientSum.release", GRADIENTS.release, gradients
    yield "GradientAccumulator.release", GradientAccumulator.release, accumulated
    yield drawn("discrete_laplace", 10, np.int64)
    yield drawn("discrete_gaussian", 10, np.int8)
    yield drawn("bernoulli", 0.25, bool)
    yield drawn("integers", 1000, np.int64)

    def each() -> Any:
        out = filled(np.int64, N)
        return (np.arange(N) % 3 + 1,), {"out": out}, out

    yield "discrete_laplace each", random.discrete_laplace, each

    def packed() -> Any:
        out = filled(np.uint8, 20, N // 20)
        size = (20, 8 * (N // 20) - 3)
        return (0.25,), {"size": size, "out": out, "packed": True}, out

    yield "bernoulli packed", random.bernoulli, packed

    def deck() -> Any:
        x = integers()
        return (x,), {}, x

    yield "shuffle", random.shuffle, deck


CASES = list(_cases())


def call(case: Case, **more: Any) -> tuple[Array, BaseException | None]:
    """Return the output of a call, and what it raised."""
    arguments, keywords, out = case[2]()
    assert out.reshape(-1).view(np.uint8).any()
    try:
        case[1](*arguments, **keywords, **more)
    except BaseException as error:
        return out, error
    return out, None


# --- all of them --------------------------------------------------------------------


def public_modules() -> Iterator[Any]:
    yield fastdp
    for found in pkgutil.walk_packages(fastdp.__path__, "fastdp."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            yield importlib.import_module(found.name)


def entry_points() -> dict[str, Any]:
    """Public functions and methods with a parameter `out`, by name."""
    found = {}
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            members = {name: value}
            if inspect.isabstract(value):
                continue
            if inspect.isclass(value):
                members = {
                    f"{name}.{m}": f
                    for m, f in inspect.getmembers(value, callable)
                    if not m.startswith("_")
                }
            for full, f in members.items():
                try:
                    parameters = inspect.signature(f).parameters
                except (TypeError, ValueError):
                    continue
                if "out" in parameters:
                    found[full] = f
    return found


def test_every_entry_point_with_an_output_is_here() -> None:
    tried = {name.split()[0] for name, _, _ in CASES}
    assert tried == {*entry_points(), "shuffle"}


@pytest.mark.parametrize("name", sorted(entry_points()))
def test_entry_points_keep_their_signature(name: str) -> None:
    f = entry_points()[name]
    assert f.__wrapped__.__doc__ == f.__doc__
    assert "stream" in inspect.signature(f).parameters


# --- an exception anywhere ------------------------------------------------------------


class Planted(BaseException):
    """What the tracer raises."""


class Tracer:
    """Counts events in the package's files, and raises at one of them."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.seen = 0
        self.raised = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        self.seen += 1
        self.left -= 1
        if self.left == 0:
            self.raised = True
            raise Planted
        return self


def traced(case: Case, at: int, workers: dict[str, int]) -> tuple[Array, Tracer]:
    tracer = Tracer(at)
    arguments, keywords, out = case[2]()
    sys.settrace(tracer)
    try:
        case[1](*arguments, **keywords, **workers)
    except Planted:
        pass
    finally:
        sys.settrace(None)
    return out, tracer


@pytest.fixture
def _threads_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _core.run

    def traced_here(task: Callable[[], None], tracer: Any) -> Callable[[], None]:
        def work() -> None:
            sys.settrace(tracer)
            try:
                task()
            finally:
                sys.settrace(None)

        return work

    def watched(tasks: list[Callable[[], None]]) -> None:
        tracer = sys.gettrace()
        run([tasks[0], *(traced_here(task, tracer) for task in tasks[1:])])

    monkeypatch.setattr(_core, "run", watched)


#: Sums of gradients take a lock, which stays taken if a tracer raises as it is let go.
TRACED = [case for case in CASES if not case[0].startswith("Gradient")]


@pytest.mark.usefixtures("_threads_are_traced")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("case", TRACED, ids=[case[0] for case in TRACED])
def test_an_exception_at_any_line_leaves_zeros(case: Case, workers: int) -> None:
    if case[0] == "shuffle" and workers == 2:
        pytest.skip("has no workers")
    more = {} if case[0] == "shuffle" else {"workers": workers}
    traced(case, 0, more)  # what is made once is made
    _, whole = traced(case, 0, more)
    assert whole.seen > 8
    raised = 0
    for at in range(1, whole.seen + 1):
        out, tracer = traced(case, at, more)
        raised += tracer.raised
        assert not tracer.raised or not out.reshape(-1).view(np.uint8).any(), at
    assert raised >= whole.seen - 8  # threads may share the steps otherwise


# --- refused arguments ----------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_refused_arguments_leave_zeros(case: Case) -> None:
    bad: list[dict[str, Any]] = [{"stream": 5}, {"stream": np.random.default_rng(1)}]
    if case[0] != "shuffle":
        bad += [{"workers": 0}, {"workers": "a"}, {"workers": None}, {"nonsense": 1}]
    for more in bad:
        out, error = call(case, **more)
        assert isinstance(error, DTypeError | ParameterError | TypeError), more
        assert not out.reshape(-1).view(np.uint8).any(), more


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_source_without_randomness_leaves_zeros(case: Case) -> None:
    gone = EntropyError("gone")
    out, error = call(case, stream=BrokenStream(gone))
    assert error is gone
    assert not out.reshape(-1).view(np.uint8).any()


def outputs() -> Iterator[Array]:
    """Arrays that are no output of the release of 24 integers."""
    whole = integers()[:48]
    yield whole[::2]
    yield whole[:24].reshape(4, 6).T
    yield whole[:23]
    yield whole[:24].astype(np.float64)
    yield whole[:24].astype(">i8")
    yield np.ma.array(whole[:24])
    yield whole[:24].astype("datetime64[s]")
    yield np.array([(1, 2.0)] * 24, [("a", np.int32), ("b", np.float64)])[::-1]


@pytest.mark.parametrize("place", range(8))
def test_outputs_of_the_wrong_form_are_zeros_too(place: int) -> None:
    out = list(outputs())[place]
    with pytest.raises((DTypeError, ParameterError)):
        INTEGER[0].release(integers()[:24], out=out)
    assert out.tobytes().strip(b"\0") == b""


def test_what_cannot_be_an_output_is_left_alone() -> None:
    fixed = integers()
    fixed.flags.writeable = False
    objects = np.array([{}, []], object)
    listed = [1, 2]
    for out in (fixed, objects, listed):
        with pytest.raises(DTypeError):
            INTEGER[0].release(np.array([1, 2]), out=out)
    assert (fixed == integers()).all()
    assert objects.tolist() == [{}, []]
    assert listed == [1, 2]


# --- the key ------------------------------------------------------------------------


def keys_of(error: BaseException) -> Iterator[_core.Call]:
    trace = error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            if isinstance(value, _core.Call):
                yield value
        trace = trace.tb_next


def test_no_key_outlives_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(tasks: list[Callable[[], None]]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_core, "run", failing)
    found = 0
    for case in CASES:
        if case[0] == "shuffle":
            continue
        _, error = call(case, workers=2)
        if error is None:  # a scalar has one worker
            continue
        for key in keys_of(error):
            found += 1
            with pytest.raises(FastDPError, match="the call has ended"):
                key.keystream(0, 0, 16)
            with pytest.raises(FastDPError, match="the call has ended"):
                _core.fill_permutation(key, np.zeros(3, np.int64))
    assert found >= 12
