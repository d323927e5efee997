"""`fastdp.random.bernoulli`: shapes, places, parameters, and the bits of a stream."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.exceptions import DTypeError, ParameterError
from tests.differential import local_layout as layout
from tests.differential.layout import Keyed
from tests.privacy.streams import BrokenStream

KEY = bytes(range(40, 72))
bernoulli = fastdp.random.bernoulli


@pytest.mark.parametrize("p", [0.3, Fraction(2, 3), Decimal("0.25"), 0, 1], ids=str)
@pytest.mark.parametrize("n", [1, 13, 40_005])
def test_bits_of_a_stream(p: Any, n: int) -> None:
    expected = layout.flips(_core.Call(Keyed(KEY)), Fraction(p), n)
    for workers in (1, 2, 3):
        bits = bernoulli(p, size=n, stream=Keyed(KEY), workers=workers)
        assert bits.dtype == bool
        assert (bits == expected).all()
        packed = bernoulli(p, size=n, packed=True, stream=Keyed(KEY), workers=workers)
        assert packed.dtype == np.uint8
        assert (packed == np.packbits(expected)).all()


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 20), (2, 3, 16), (4, 0)])
def test_shapes(shape: tuple[int, ...]) -> None:
    bits = bernoulli(0.5, size=shape, stream=Keyed(KEY))
    assert np.shape(bits) == shape
    if shape:
        packed = bernoulli(0.5, size=shape, packed=True, stream=Keyed(KEY))
        assert packed.shape == (*shape[:-1], -(-shape[-1] // 8))
        # Every bit of a row's bytes has a place in the stream; padding is 0.
        whole = bernoulli(
            0.5, size=(*shape[:-1], 8 * packed.shape[-1]), stream=Keyed(KEY)
        )
        whole[..., shape[-1] :] = False
        assert (packed == np.packbits(whole, axis=-1)).all()


def test_a_scalar_is_a_numpy_bool() -> None:
    one = bernoulli(1)
    assert isinstance(one, np.bool_)
    assert one
    assert not bernoulli(0)
    seen = {bool(bernoulli(Fraction(1, 2))) for _ in range(100)}
    assert seen == {False, True}


def test_fresh_calls_differ() -> None:
    assert (bernoulli(0.5, size=200) != bernoulli(0.5, size=200)).any()


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
def test_bits_into_an_array(dtype: type) -> None:
    out = np.full((3, 7), 1, dtype)
    assert bernoulli(0, out=out) is out
    assert not out.any()
    expected = bernoulli(0.3, size=21, stream=Keyed(KEY)).reshape(3, 7)
    bernoulli(0.3, size=(3, 7), out=out, stream=Keyed(KEY))
    assert (out == expected).all()


def test_packed_bits_into_an_array() -> None:
    out = np.zeros((3, 2), np.uint8)
    assert bernoulli(1, packed=True, out=out) is out
    assert (out == 255).all()
    bernoulli(1, size=(3, 11), packed=True, out=out)
    assert (out == [255, 0b11100000]).all()


@pytest.mark.parametrize(
    "p", [-0.1, 1.5, float("nan"), float("inf"), Fraction(-1, 10**30), 2]
)
def test_a_probability_out_of_range(p: Any) -> None:
    with pytest.raises(ParameterError, match="p must"):
        bernoulli(p, size=3)


@pytest.mark.parametrize("p", ["0.5", None, [0.5], np.array([0.5, 0.1]), 0.5j])
def test_what_is_no_probability(p: Any) -> None:
    with pytest.raises(DTypeError, match="p must"):
        bernoulli(p, size=3)


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ParameterError, {"packed": True}),
        (ParameterError, {"size": (), "packed": True}),
        (ParameterError, {"size": -1}),
        (ParameterError, {"size": 9, "out": np.zeros(8, bool)}),
        (ParameterError, {"size": 9, "packed": True, "out": np.zeros(1, np.uint8)}),
        (DTypeError, {"size": 9, "packed": True, "out": np.zeros(2, bool)}),
        (DTypeError, {"out": np.zeros(8, np.int8)}),
        (DTypeError, {"out": np.zeros(8)}),
        (DTypeError, {"out": [0, 1]}),
        (DTypeError, {"size": 2, "stream": np.random.default_rng(1)}),
        (ParameterError, {"size": 2, "workers": 0}),
        (DTypeError, {"size": 2, "packed": 1}),
    ],
)
def test_options_are_checked(error: Any, options: dict[str, Any]) -> None:
    with pytest.raises(error):
        bernoulli(0.5, **options)


@pytest.mark.parametrize("packed", [False, True])
def test_a_failure_leaves_zeros(packed: bool) -> None:
    out = np.ones(50, np.uint8)
    with pytest.raises(MemoryError):
        bernoulli(0.5, out=out, packed=packed, stream=BrokenStream(MemoryError()))
    assert not out.any()
