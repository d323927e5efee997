"""Functions that draw: arguments, shapes, and what they refuse before they draw."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _laws, _uniform
from fastdp.exceptions import DTypeError, EntropyError, FastDPError, ParameterError
from fastdp.testing import FixedStream
from tests.privacy.streams import BrokenStream, CountingStream, KeyStream

R = fastdp.random
NOISE = [
    pytest.param(R.discrete_laplace, "scale", id="laplace"),
    pytest.param(R.discrete_gaussian, "sigma", id="gaussian"),
]
Draw = Callable[..., Any]


# --- shapes and values -------------------------------------------------------


@pytest.mark.parametrize(("draw", "name"), NOISE)
def test_shapes_and_types(draw: Draw, name: str) -> None:
    assert type(draw(10)) is np.int64
    for size, shape in (
        (5, (5,)),
        ((2, 3), (2, 3)),
        ((), ()),
        (0, (0,)),
        ((4, 0), (4, 0)),
    ):
        noise = draw(10, size=size)
        assert type(noise) is np.ndarray
        assert noise.shape == shape
        assert noise.dtype == np.int64


@pytest.mark.parametrize(("draw", "name"), NOISE)
def test_out_is_filled_and_returned(draw: Draw, name: str) -> None:
    for dtype in "bBhHiIlq":
        out = np.zeros((3, 50), dtype)
        assert draw(1000, out=out) is out
        assert out.any()
        assert draw(1000, size=(3, 50), out=out, stream=FixedStream("o")) is out
        info = np.iinfo(dtype)
        wide = draw(1000, size=(3, 50), stream=FixedStream("o"))
        assert (out == np.clip(wide, info.min, info.max)).all()


@pytest.mark.parametrize(("draw", "name"), NOISE)
def test_parameter_types_with_one_value_draw_the_same(draw: Draw, name: str) -> None:
    same: list[Any] = [
        12.5, Fraction(25, 2), Decimal("12.5"), np.float32(12.5), np.float16(12.5),
        np.longdouble(12.5), np.array(12.5), np.array([12.5] * 40, ">f8"),
    ]  # fmt: skip
    first = draw(12.5, size=40, stream=FixedStream("p"))
    for value in same:
        assert (draw(value, size=40, stream=FixedStream("p")) == first).all()
    whole = draw(12, size=40, stream=FixedStream("p"))
    for value in (np.int8(12), np.uint64(12), 12.0, Fraction(12)):
        assert (draw(value, size=40, stream=FixedStream("p")) == whole).all()


@pytest.mark.parametrize(("draw", "name"), NOISE)
def test_range_of_the_parameter(draw: Draw, name: str) -> None:
    least = 1e-6 if name == "scale" else Fraction(1, 1000)
    assert (draw(least, size=500) == 0).all()
    # Two of 500 are equal with probability below 1e-12. The draws above are not all 0
    # with probability e^-5e5.
    assert len(set(draw(2**55, size=500).tolist())) == 500
    for value in (
        float(least) * 0.999,
        math.nextafter(2.0**55, math.inf),
        5e-324,
        1e308,
    ):
        with pytest.raises(ParameterError, match=rf"^{name} must be in \["):
            draw(value)


def test_parameter_array_gives_each_element_its_own_law() -> None:
    scales = np.array([[1e-6, 1e15], [1e15, 1e-6]])
    noise = R.discrete_laplace(scales)
    assert noise.shape == (2, 2)
    assert noise[0, 0] == noise[1, 1] == 0
    # At a scale of 1e15: false alarm 2e-12.
    assert abs(noise[0, 1]) > 1000
    assert abs(noise[1, 0]) > 1000
    spread = R.discrete_gaussian(np.array([0.001, 1e12]), size=(300, 2))
    assert (spread[:, 0] == 0).all()
    assert 1e11 < spread[:, 1].std() < 1e13


def test_parameter_array_shapes() -> None:
    assert R.discrete_laplace(np.array([1.0, 2.0]), size=(5, 2)).shape == (5, 2)
    assert R.discrete_laplace(np.zeros(0)).shape == (0,)
    out = np.zeros((2, 2), np.int16)
    assert R.discrete_laplace(np.array([1.0, 2.0]), size=(2, 2), out=out) is out
    with pytest.raises(ParameterError, match=r"^scale must broadcast to shape"):
        R.discrete_laplace(np.array([1.0, 2.0]), size=3)
    with pytest.raises(ParameterError, match=r"^out must have shape"):
        R.discrete_laplace(np.array([1.0, 2.0]), out=np.zeros(3, np.int64))


def test_each_law_of_an_array_is_made_once() -> None:
    """Though a cache holds fewer of them; only the ends are tried beforehand."""
    scales = np.linspace(1, 3, 700)
    before = _laws.laplace_sampler.cache_info().misses
    R.discrete_laplace(scales)
    assert _laws.laplace_sampler.cache_info().misses - before <= len(scales) + 2


def test_too_many_distinct_parameters() -> None:
    with pytest.raises(
        ParameterError, match=r"^scale must have at most 65536 distinct"
    ):
        R.discrete_laplace(np.arange(1.0, 65539.0), stream=CountingStream())


@pytest.mark.parametrize("workers", [2, 3, 7, 64])
def test_workers_do_not_change_the_output(workers: int) -> None:
    for draw, parameter in ((R.discrete_laplace, 10), (R.discrete_gaussian, 2**40)):
        one = draw(parameter, size=30_001, stream=FixedStream("w"))
        many = draw(parameter, size=30_001, stream=FixedStream("w"), workers=workers)
        assert (one == many).all()
    one = R.integers(7, size=30_001, stream=FixedStream("w"))
    many = R.integers(7, size=30_001, stream=FixedStream("w"), workers=workers)
    assert (one == many).all()


def test_integers() -> None:
    assert type(R.integers(5)) is np.int64
    # False alarms: 5 (4/5)**500 = 2e-48, and 7.7 standard errors of a mean, 2e-14.
    assert set(R.integers(5, size=500).tolist()) == set(range(5))
    assert set(R.integers(-2, 2, size=500).tolist()) == {-2, -1, 0, 1}
    assert (R.integers(7, 8, size=(3, 4)) == 7).all()
    least, most = -(2**63), 2**63
    full = R.integers(least, most, size=2000)
    assert abs(full.astype(float).mean()) < 2**63 * 0.1
    assert R.integers(most - 1, most) == most - 1
    assert R.integers(least, least + 1) == least
    out = np.zeros((2, 2), np.int64)
    assert R.integers(10, 20, out=out) is out
    assert ((out >= 10) & (out < 20)).all()


def test_bytes_and_permutation_and_shuffle() -> None:
    assert R.bytes(0) == b""
    for n in (1, 16383, 16385, 40_000):
        assert len(R.bytes(n)) == n
    # A byte is missing with probability 256 (255/256)**20000 = 3e-32.
    assert len(set(R.bytes(20_000))) == 256
    for n in (0, 1, 2, 5000):
        assert sorted(R.permutation(n).tolist()) == list(range(n))
    x = np.arange(20).reshape(10, 2)
    R.shuffle(x)
    assert sorted(map(tuple, x.tolist())) == [(i, i + 1) for i in range(0, 20, 2)]
    every_other = np.arange(10)[::2]
    R.shuffle(every_other)
    assert sorted(every_other.tolist()) == [0, 2, 4, 6, 8]


# --- refused before anything is drawn ----------------------------------------

BAD_PARAMETERS: list[tuple[Any, type[FastDPError]]] = [
    *((v, ParameterError) for v in (
        0, 0.0, -0.0, -1, -1e-300, math.nan, math.inf, -math.inf, 5e-324, 2**56,
        10**5000, Fraction(1, 2**2201), Fraction(0), Decimal("NaN"), Decimal("-1"),
        Decimal("Infinity"), np.float32("nan"), np.longdouble("inf"),
    )),
    *((v, DTypeError) for v in (
        True, np.True_, "10", b"10", None, 1j, [10], (10, 20), {10: 1}, int,
        np.array(["10"]), np.array([True]), np.array([1j]), np.array([10], object),
        np.ma.array([10.0]), np.array([1], "M8[s]"),
    )),
]  # fmt: skip


@pytest.mark.parametrize("steps", [1, 3, 300, 2**16, 2**16 + 1, 200_000])
def test_allocate_sorts_records_by_uniform_steps(steps: int) -> None:
    order, starts = R.allocate(1000, steps=steps, stream=FixedStream("a"))
    drawn = R.integers(steps, size=1000, stream=FixedStream("a"))
    assert (order == np.argsort(drawn, kind="stable")).all()
    assert (np.diff(starts) == np.bincount(drawn, minlength=steps)).all()
    assert starts[0] == 0
    assert order.dtype == starts.dtype == np.int64
    order, starts = R.allocate(0, steps=steps)
    assert (order.shape, starts.tolist()) == ((0,), [0] * (steps + 1))


def test_allocations_of_three_records_are_equally_frequent() -> None:
    stream, seen = FixedStream("allocations"), np.zeros((3, 3, 3), np.int64)
    for _ in range(5400):
        order, starts = R.allocate(3, steps=3, stream=stream)
        place = np.repeat(np.arange(3), np.diff(starts))
        seen[tuple(place[np.argsort(order)])] += 1
    # 26 degrees of freedom, 9 standard deviations above the mean
    assert ((seen - 200) ** 2).sum() / 200 < 26 + 9 * math.sqrt(52)


@pytest.mark.parametrize(
    ("steps", "selected"), [(1, 1), (4, 2), (5, 3), (5, 5), (7, 4)]
)
def test_every_set_of_steps_has_as_many_draws(
    steps: int, selected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record gets one of all possible draws, and so the law is exact."""
    sizes = range(steps - selected + 1, steps + 1)
    every = iter(np.indices(sizes).reshape(selected, -1).copy())
    asked = []

    def integers(high: int, **_: Any) -> np.ndarray[Any, Any]:
        asked.append(high)
        return next(every)

    monkeypatch.setattr(_uniform, "integers", integers)
    records = math.prod(sizes)
    order, starts = R.allocate(records, steps=steps, selected=selected)
    assert asked == list(sizes)
    sets: list[list[int]] = [[] for _ in range(records)]
    for step in range(steps):
        batch = order[starts[step] : starts[step + 1]].tolist()
        assert batch == sorted(set(batch))
        for record in batch:
            sets[record].append(step)
    frequency = Counter(map(tuple, sets))
    assert set(frequency) == set(combinations(range(steps), selected))
    assert set(frequency.values()) == {records // math.comb(steps, selected)}


@pytest.mark.parametrize(("draw", "name"), NOISE)
@pytest.mark.parametrize(
    ("value", "error"), BAD_PARAMETERS, ids=lambda v: type(v).__name__
)
def test_parameter_is_refused(
    draw: Draw, name: str, value: Any, error: type[FastDPError]
) -> None:
    stream, out = CountingStream(), np.full(3, 77, np.int64)
    for arguments in ({}, {"size": 3}, {"out": out}, {"workers": 2, "size": 3}):
        with pytest.raises(error, match=rf"^{name} must ") as caught:
            draw(value, stream=stream, **arguments)
        assert type(caught.value) is error
    assert stream.calls == 0
    assert not out.any()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0, 1e-300, 2.0**56])
@pytest.mark.parametrize(("draw", "name"), NOISE)
def test_one_bad_element_of_a_parameter_array(
    draw: Draw, name: str, bad: float
) -> None:
    stream, out = CountingStream(), np.full(3, 77, np.int64)
    with pytest.raises(ParameterError, match=rf"^{name} must "):
        draw(np.array([1.0, bad, 2.0]), out=out, stream=stream)
    assert stream.calls == 0
    assert not out.any()


NOT_STREAMS: list[Any] = [
    0, 1, 12345, True, 1.5, "seed", b"x" * 32, np.random.default_rng(1),
    np.random.RandomState(1), np.random.SeedSequence(1), np.random.PCG64(1),
    np.random, object(), [1], FixedStream,
]  # fmt: skip
CALLS: dict[str, Callable[[Any], Any]] = {
    "discrete_laplace": lambda s: R.discrete_laplace(1, stream=s),
    "discrete_laplace array": lambda s: R.discrete_laplace(np.ones(2), stream=s),
    "discrete_gaussian": lambda s: R.discrete_gaussian(1, size=5, stream=s),
    "integers": lambda s: R.integers(5, stream=s),
    "bytes": lambda s: R.bytes(5, stream=s),
    "permutation": lambda s: R.permutation(5, stream=s),
    "shuffle": lambda s: R.shuffle(np.arange(3), stream=s),
    "allocate": lambda s: R.allocate(9, steps=5, selected=2, stream=s),
    "DiscreteLaplace": lambda s: fastdp.DiscreteLaplace(1).release(1, stream=s),
    "DiscreteGaussian": lambda s: fastdp.DiscreteGaussian(1).release(
        np.arange(3), stream=s
    ),
    "TruncatedLaplace": lambda s: fastdp.TruncatedLaplace(1, bound=9).release(
        1, stream=s
    ),
    "Laplace": lambda s: fastdp.Laplace(1).release(1.0, stream=s),
    "Gaussian": lambda s: fastdp.Gaussian(1).release(np.ones(2), stream=s),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("stream", NOT_STREAMS, ids=lambda s: type(s).__name__)
def test_seeds_and_generators_are_refused(call: str, stream: Any) -> None:
    with pytest.raises(DTypeError, match=r"^stream must be None .*fastdp\.testing"):
        CALLS[call](stream)


@pytest.mark.parametrize("call", CALLS)
def test_failing_stream_is_passed_on(call: str) -> None:
    with pytest.raises(EntropyError, match="gone"):
        CALLS[call](BrokenStream(EntropyError("gone")))


BAD_CALLS: list[tuple[str, type[FastDPError], Callable[[Any], Any]]] = [
    ("size", ParameterError, lambda s: R.discrete_laplace(1, size=-1, stream=s)),
    ("size", ParameterError, lambda s: R.discrete_laplace(1, size=(2, -1), stream=s)),
    ("size", DTypeError, lambda s: R.discrete_laplace(1, size=1.5, stream=s)),
    ("size", DTypeError, lambda s: R.discrete_laplace(1, size=True, stream=s)),
    ("size", DTypeError, lambda s: R.discrete_laplace(1, size=[2], stream=s)),
    ("size", DTypeError, lambda s: R.discrete_laplace(1, size="3", stream=s)),
    ("size", DTypeError, lambda s: R.discrete_gaussian(1, size=(2, None), stream=s)),
    ("size", DTypeError, lambda s: R.integers(5, size=2.0, stream=s)),
    ("size", ParameterError, lambda s: R.integers(5, size=-2, stream=s)),
    ("workers", ParameterError, lambda s: R.discrete_laplace(1, workers=0, stream=s)),
    (
        "workers",
        ParameterError,
        lambda s: R.discrete_laplace(1, size=3, workers=-1, stream=s),
    ),
    (
        "workers",
        DTypeError,
        lambda s: R.discrete_gaussian(1, size=3, workers=2.0, stream=s),
    ),
    ("workers", DTypeError, lambda s: R.integers(5, workers=True, stream=s)),
    ("workers", DTypeError, lambda s: R.integers(5, size=3, workers=None, stream=s)),
    ("high", ParameterError, lambda s: R.integers(0, stream=s)),
    ("high", ParameterError, lambda s: R.integers(5, 5, stream=s)),
    ("high", ParameterError, lambda s: R.integers(5, -5, stream=s)),
    ("high", ParameterError, lambda s: R.integers(0, 2**63 + 1, stream=s)),
    ("high", DTypeError, lambda s: R.integers(0, 5.0, stream=s)),
    ("high", DTypeError, lambda s: R.integers(0, True, stream=s)),
    ("low", ParameterError, lambda s: R.integers(-(2**63) - 1, 0, stream=s)),
    ("low", DTypeError, lambda s: R.integers("0", 5, stream=s)),
    ("low", DTypeError, lambda s: R.integers(np.float64(0), 5, stream=s)),
    ("n", ParameterError, lambda s: R.bytes(-1, stream=s)),
    ("n", DTypeError, lambda s: R.bytes(1.0, stream=s)),
    ("n", DTypeError, lambda s: R.bytes(True, stream=s)),
    ("n", DTypeError, lambda s: R.permutation("5", stream=s)),
    ("n", ParameterError, lambda s: R.permutation(-5, stream=s)),
    ("records", ParameterError, lambda s: R.allocate(-1, steps=5, stream=s)),
    ("records", DTypeError, lambda s: R.allocate(1.0, steps=5, stream=s)),
    ("steps", ParameterError, lambda s: R.allocate(5, steps=0, stream=s)),
    ("steps", ParameterError, lambda s: R.allocate(5, steps=2**32 + 1, stream=s)),
    (
        "selected",
        ParameterError,
        lambda s: R.allocate(5, steps=3, selected=0, stream=s),
    ),
    (
        "selected",
        ParameterError,
        lambda s: R.allocate(5, steps=3, selected=4, stream=s),
    ),
    ("selected", DTypeError, lambda s: R.allocate(5, steps=3, selected=True, stream=s)),
    (
        "selected",
        ParameterError,
        lambda s: R.allocate(2**58, steps=3, selected=3, stream=s),
    ),
    ("x", DTypeError, lambda s: R.shuffle([1, 2], stream=s)),
    ("x", DTypeError, lambda s: R.shuffle(np.array(1), stream=s)),
    ("x", DTypeError, lambda s: R.shuffle(np.array([1, "a"], object), stream=s)),
]


@pytest.mark.parametrize(("name", "error", "call"), BAD_CALLS)
def test_other_arguments_are_refused(
    name: str, error: type[FastDPError], call: Callable[[Any], Any]
) -> None:
    stream = CountingStream()
    with pytest.raises(error, match=rf"^{name} must "):
        call(stream)
    assert stream.calls == 0


def test_read_only_arrays_are_not_shuffled() -> None:
    x, stream = np.arange(5), CountingStream()
    x.flags.writeable = False
    with pytest.raises(DTypeError, match=r"^x must be writeable"):
        R.shuffle(x, stream=stream)
    assert stream.calls == 0


def bad_outs() -> list[tuple[str, Any, type[FastDPError]]]:
    read_only = np.zeros(4, np.int64)
    read_only.flags.writeable = False
    misaligned = np.zeros(33, np.uint8)[1:].view(np.int64)
    return [
        ("list", [0, 0, 0, 0], DTypeError),
        ("tuple", (0, 0, 0, 0), DTypeError),
        ("bytearray", bytearray(32), DTypeError),
        ("float", np.zeros(4), DTypeError),
        ("uint64", np.zeros(4, np.uint64), DTypeError),
        ("bool", np.zeros(4, bool), DTypeError),
        ("object", np.zeros(4, object), DTypeError),
        ("complex", np.zeros(4, complex), DTypeError),
        ("swapped", np.zeros(4, ">i8"), DTypeError),
        ("masked", np.ma.zeros(4, np.int64), DTypeError),
        ("strided", np.zeros(8, np.int64)[::2], DTypeError),
        ("reversed", np.zeros(4, np.int64)[::-1], DTypeError),
        ("read only", read_only, DTypeError),
        ("misaligned", misaligned, DTypeError),
    ]


@pytest.mark.parametrize(("draw", "name"), NOISE)
@pytest.mark.parametrize(("case", "out", "error"), bad_outs(), ids=lambda v: str(v)[:9])
def test_bad_out(
    draw: Draw, name: str, case: str, out: Any, error: type[FastDPError]
) -> None:
    stream = CountingStream()
    for parameter in (5, np.full(4, 5.0)):
        for size in (None, 4):
            with pytest.raises(error, match=r"^out must "):
                draw(parameter, size=size, out=out, stream=stream)
    if case != "misaligned":
        with pytest.raises(error, match=r"^out must "):
            R.integers(0, 5, out=out, stream=stream)
    assert stream.calls == 0


@pytest.mark.parametrize(("draw", "name"), NOISE)
def test_out_of_another_shape(draw: Draw, name: str) -> None:
    stream, out = CountingStream(), np.zeros((2, 2), np.int64)
    for size in (4, (2, 3), (), (2, 2, 1)):
        with pytest.raises(ParameterError, match=r"^out must have shape"):
            draw(5, size=size, out=out, stream=stream)
        with pytest.raises(ParameterError, match=r"^out must have shape"):
            R.integers(5, size=size, out=out, stream=stream)
    with pytest.raises(DTypeError, match=r"^out must be C-contiguous"):
        draw(5, out=np.asfortranarray(np.zeros((2, 3), np.int64)), stream=stream)
    assert stream.calls == 0


def test_one_call_draws_one_key() -> None:
    stream = CountingStream()
    R.discrete_laplace(5, size=20_000, stream=stream)
    R.discrete_gaussian(5, size=20_000, stream=stream, workers=3)
    R.integers(5, size=20_000, stream=stream, workers=3)
    R.bytes(50_000, stream=stream)
    R.permutation(5000, stream=stream)
    R.discrete_laplace(5, stream=stream)
    assert stream.calls == 6


def test_key_decides_all() -> None:
    key = bytes(range(32))
    one = R.discrete_laplace(2**40, size=5000, stream=KeyStream(key))
    two = R.discrete_laplace(2**40, size=5000, stream=KeyStream(key))
    assert (one == two).all()
    assert one[0] == R.discrete_laplace(2**40, stream=KeyStream(key))
