"""No data value raises, warns or shows: secrets planted in every kind of call."""

from __future__ import annotations

import io
import itertools
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import EntropyError, FastDPError
from fastdp.testing import FixedStream
from tests.privacy.streams import BrokenStream

# 7340193 and 73401935 must not be in anything that is shown.
SECRET = 7340193
INT_MECHANISMS = [
    fastdp.DiscreteLaplace(10),
    fastdp.DiscreteLaplace(2**50),
    fastdp.DiscreteGaussian(10),
    fastdp.DiscreteGaussian(2**50),
    fastdp.TruncatedLaplace(10, bound=30),
]
REAL_MECHANISMS = [
    fastdp.Laplace(10),
    fastdp.Gaussian(10),
    fastdp.Laplace(1e-30, answer_bounds=(-1, 1)),
    fastdp.Gaussian(1e30, coordinates=5),
]
INT64 = np.iinfo(np.int64)
PAYLOAD = np.array([0x7FF0000073401935, 0xFFF8000073401935], np.uint64).view(float)
REALS = np.array(
    [
        *(7340193.5, -7340193.5, 0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308),
        *(np.inf, -np.inf, np.nan, 1.7976931348623157e308, -1.7976931348623157e308),
        *(2.0**53, 1e300, 1e-300, 0.1, *PAYLOAD),
    ]
)
INTS = np.array([INT64.min, INT64.min + 1, -SECRET, -1, 0, 1, SECRET, INT64.max])


def shown(error: BaseException) -> str:
    """Return every text that an error can put before a user."""
    text = io.StringIO()
    traceback.print_exception(error, file=text)
    parts = [text.getvalue(), repr(error), str(error), repr(error.args)]
    seen: BaseException | None = error
    while seen is not None:
        parts += [repr(seen), *getattr(seen, "__notes__", [])]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(parts)


def assert_silent(text: str) -> None:
    for secret in ("7340193", "9223372036854775808", "73401935", "0x7FF0", "5e-324"):
        assert secret not in text


@pytest.fixture(autouse=True)
def strict() -> Any:
    """Turn every warning and every floating-point condition into an error."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", fastdp.exceptions.InsecureStreamWarning)
        yield


@pytest.mark.parametrize("m", INT_MECHANISMS, ids=repr)
def test_every_integer_is_released(m: Any) -> None:
    for dtype in "bBhHiIlq":
        info = np.iinfo(dtype)
        x = np.array([info.min, info.max, 0, 1, info.max // 2], dtype)
        assert m.release(x).dtype == np.int64
        for out_type in "bBhHiIlq":
            m.release(x, out=np.zeros(5, out_type))
        for value in x:
            m.release(value)
            m.release(int(value))
    m.release(INTS)
    for value in (10**40, -(10**40)):
        m.release(value)


@pytest.mark.parametrize("m", REAL_MECHANISMS, ids=repr)
def test_every_real_is_released(m: Any) -> None:
    for x in (REALS, REALS[::2], REALS.reshape(3, 6).T):
        assert np.isfinite(m.release(x)).all()
    with np.errstate(all="ignore"):
        narrow = REALS.astype(np.float32)
    assert np.isfinite(m.release(narrow)).all()
    for value in REALS:
        assert np.isfinite(m.release(value))
        assert np.isfinite(m.release(float(value)))
    for value in narrow:
        y = m.release(value)
        assert type(y) is np.float32
        assert np.isfinite(y)
    for whole in (10**400, -(10**400), SECRET):
        assert np.isfinite(m.release(whole))


def test_nan_is_a_constant_whatever_its_payload() -> None:
    nans = np.array(
        [
            0x7FF8000000000000,
            0xFFF8000000000000,
            0x7FF0000000000001,
            0x7FFFFFFFFFFFFFFF,
        ],
        np.uint64,
    ).view(float)
    for m, constant in (
        (fastdp.Laplace(10), 0.0),
        (fastdp.Gaussian(10), 0.0),
        (fastdp.Laplace(10, answer_bounds=(-3, 5)), -3.0),
        (fastdp.Gaussian(10, answer_bounds=(2.5, 5)), 2.5),
    ):
        expected = m.release(np.full(4, constant), stream=FixedStream("n"))
        assert (m.release(nans, stream=FixedStream("n")) == expected).all()
        singles = nans.view(np.uint64) >> np.uint64(32)
        narrow = (singles.astype(np.uint32) | np.uint32(0x7FC00000)).view(np.float32)
        of_narrow = m.release(narrow, stream=FixedStream("n"))
        assert (of_narrow == expected.astype(np.float32)).all()
        one = m.release(float("nan"), stream=FixedStream("n"))
        assert one == expected[0]


def test_infinities_saturate() -> None:
    largest = np.finfo(float).max
    for m, low, high in (
        (fastdp.Laplace(10), -largest, largest),
        (fastdp.Gaussian(10, answer_bounds=(-3, 5)), -3.0, 5.0),
    ):
        infinite = m.release(np.array([-np.inf, np.inf]), stream=FixedStream("f"))
        ends = m.release(np.array([low, high]), stream=FixedStream("f"))
        assert (infinite == ends).all()
    narrow = fastdp.Laplace(10).release(np.array([-np.inf, np.inf], np.float32))
    assert narrow.tolist() == [-np.finfo(np.float32).max, np.finfo(np.float32).max]


@pytest.mark.parametrize("m", INT_MECHANISMS, ids=repr)
def test_sums_saturate(m: Any) -> None:
    n = 3000
    noise = m.release(np.zeros(n, np.int64), stream=FixedStream("s")).tolist()
    for x in (INT64.max, INT64.max - 5, INT64.min, INT64.min + 5, 2**62, -(2**62)):
        y = m.release(np.full(n, x), stream=FixedStream("s"))
        exact = [min(max(int(x) + k, INT64.min), INT64.max) for k in noise]
        assert y.tolist() == exact
        one = m.release(np.int64(x), stream=FixedStream("s"))
        assert one == exact[0]
    for dtype in "bBhHiI":
        info = np.iinfo(dtype)
        for x in (info.min, info.max, 0):
            out = np.zeros(n, dtype)
            m.release(np.full(n, x, dtype), out=out, stream=FixedStream("s"))
            exact = [min(max(int(x) + k, info.min), info.max) for k in noise]
            assert out.tolist() == exact


def failing_calls() -> list[tuple[str, Callable[[Any, Any], Any]]]:
    """Return calls of (mechanism, data) that are refused for public reasons."""
    broken = BrokenStream(EntropyError("the operating system gave no randomness"))
    return [
        ("seed", lambda m, x: m.release(x, stream=7)),
        ("generator", lambda m, x: m.release(x, stream=np.random.default_rng())),
        ("workers", lambda m, x: m.release(x, workers=0)),
        ("workers type", lambda m, x: m.release(x, workers="2")),
        ("entropy", lambda m, x: m.release(x, stream=broken)),
        ("entropy threads", lambda m, x: m.release(x, stream=broken, workers=2)),
        ("out list", lambda m, x: m.release(x, out=[0])),
        ("out shape", lambda m, x: m.release(x, out=np.zeros((9, 9), x.dtype))),
        ("out dtype", lambda m, x: m.release(x, out=np.zeros(x.shape, complex))),
        ("out strided", lambda m, x: m.release(x, out=np.repeat(x, 2)[::2])),
        ("list of text", lambda m, x: m.release(list(map(str, x.tolist())))),
        ("list of two kinds", lambda m, x: m.release([*x.tolist(), "a"])),
        ("nested list", lambda m, x: m.release([x.tolist()])),
        ("object", lambda m, x: m.release(x.astype(object))),
        ("strings", lambda m, x: m.release(x.astype(str))),
        ("masked", lambda m, x: m.release(np.ma.array(x))),
        ("complex", lambda m, x: m.release(np.array([SECRET + 1j]))),
        ("bool", lambda m, x: m.release(x == x)),
        ("record", lambda m, x: m.release(x.view([("a", x.dtype)]))),
        ("text", lambda m, x: m.release(str(SECRET))),
        ("dict", lambda m, x: m.release({"a": SECRET})),
    ]


@pytest.mark.parametrize("m", [*INT_MECHANISMS, *REAL_MECHANISMS], ids=repr)
@pytest.mark.parametrize(("case", "call"), failing_calls(), ids=lambda v: str(v)[:12])
def test_no_error_shows_data(m: Any, case: str, call: Any) -> None:
    x = (INTS if m in INT_MECHANISMS else REALS).copy()
    with pytest.raises(FastDPError) as caught:
        call(m, x)
    assert_silent(shown(caught.value))


@pytest.mark.parametrize("m", [*INT_MECHANISMS, *REAL_MECHANISMS], ids=repr)
def test_objects_that_answer_when_asked_are_not_asked(m: Any) -> None:
    class Spy:
        def __repr__(self) -> str:
            raise AssertionError("the data was shown")

        __str__ = __int__ = __float__ = __index__ = __len__ = __bool__ = __repr__

    objects = np.empty(1, object)
    objects[0] = Spy()
    for x in (Spy(), [Spy()], objects):
        with pytest.raises(FastDPError) as caught:
            m.release(x)
        assert str(caught.value).startswith("x must be a")


def test_the_same_error_for_any_data() -> None:
    """Whether and how a call fails depends on types and shapes alone."""
    for m in (INT_MECHANISMS[0], REAL_MECHANISMS[0]):
        secrets = INTS if m in INT_MECHANISMS else REALS
        kinds = [secrets, np.zeros_like(secrets)]
        for case, call in failing_calls():
            if case in ("object", "strings"):  # longer text, longer dtype
                continue
            texts = set()
            for x in kinds:
                with pytest.raises(FastDPError) as caught:
                    call(m, x.copy())
                texts.add((type(caught.value), str(caught.value)))
            assert len(texts) == 1, case


def test_mechanisms_show_public_parameters_alone() -> None:
    for m, x in itertools.chain(
        itertools.product(INT_MECHANISMS, [INTS]),
        itertools.product(REAL_MECHANISMS, [REALS]),
    ):
        before = repr(m), hash(m), m.__reduce__()[1:]
        m.release(x)
        assert (repr(m), hash(m), m.__reduce__()[1:]) == before
        assert_silent(repr(m) + str(m) + repr(m.event(sensitivity=1)))
