"""`fastdp.random.bernoulli`: packing, extreme p, and refusals before it draws."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp import _core
from fastdp.exceptions import DTypeError, FastDPError, ParameterError
from fastdp.random import bernoulli
from fastdp.testing import FixedStream
from tests.privacy.streams import CountingStream, KeyStream

KEY = bytes(range(32))


# --- packing -------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(0, 5),
    octets=st.integers(0, 40),
    p=st.fractions(0, 1, max_denominator=1000),
)
def test_packed_bits_are_the_others_packed(rows: int, octets: int, p: Fraction) -> None:
    size = rows, 8 * octets
    wide = bernoulli(p, size=size, stream=KeyStream(KEY))
    packed = bernoulli(p, size=size, packed=True, stream=KeyStream(KEY))
    assert (packed == np.packbits(wide, axis=-1)).all()


def test_one_row_of_any_length_packs_the_same_bits() -> None:
    n = 3 * _core.BITS_CHUNK + 5
    wide = bernoulli(0.3, size=n, stream=KeyStream(KEY))
    packed = bernoulli(0.3, size=n, packed=True, stream=KeyStream(KEY))
    assert (packed == np.packbits(wide)).all()


# --- out ---------------------------------------------------------------------------


def test_a_zero_dimensional_out() -> None:
    out = np.zeros((), np.bool_)
    assert bernoulli(1, out=out) is out
    assert out


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float64, object])
@pytest.mark.parametrize("packed", [False, True])
def test_out_of_another_dtype_is_refused(dtype: Any, packed: bool) -> None:
    stream = CountingStream()
    with pytest.raises(DTypeError, match="out"):
        bernoulli(0.5, out=np.zeros(8, dtype), packed=packed, stream=stream)
    assert stream.calls == 0


def test_packed_bools_are_refused() -> None:
    with pytest.raises(DTypeError, match="out must have dtype uint8"):
        bernoulli(0.5, out=np.zeros(8, np.bool_), packed=True)


@pytest.mark.parametrize("packed", [False, True])
def test_out_of_another_layout_or_shape_is_refused(packed: bool) -> None:
    read_only = np.zeros(8, np.uint8)
    read_only.flags.writeable = False
    for out in (np.zeros((8, 2), np.uint8).T, np.zeros(16, np.uint8)[::2], read_only):
        with pytest.raises(DTypeError, match="out must be C-contiguous"):
            bernoulli(0.5, out=out, packed=packed)
    with pytest.raises(ParameterError, match="out must have shape"):
        bernoulli(0.5, size=(3, 16), out=np.zeros((3, 3), np.uint8), packed=packed)
    with pytest.raises(DTypeError, match="out must be an ndarray"):
        bernoulli(0.5, size=8, out=bytearray(8), packed=packed)  # type: ignore[arg-type]
    masked = np.ma.zeros(8, np.uint8)
    with pytest.raises(DTypeError, match="out must be an ndarray"):
        bernoulli(0.5, size=8, out=masked, packed=packed)


# --- p -------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("p", [0, 0.0, Fraction(0), Decimal(0)])
def test_zero_is_never(p: Any, packed: bool) -> None:
    assert not bernoulli(p, size=10**5, packed=packed).any()


@pytest.mark.parametrize("p", [1, 1.0, Fraction(1), Decimal(1)])
def test_one_is_always(p: Any) -> None:
    assert bernoulli(p, size=10**5).all()
    assert (bernoulli(p, size=10**5, packed=True) == 255).all()
    assert bernoulli(p, size=10**5 - 3, packed=True)[-1] == 0b11111000


@pytest.mark.parametrize("p", [1e-300, 5e-324, Fraction(1, 10**400), Decimal("1e-600")])
def test_tiny(p: Any) -> None:
    """All words of a long draw come from ties that never end well."""
    assert not bernoulli(p, size=10**6).any()
    assert not bernoulli(p)


@pytest.mark.parametrize("p", [1 - Fraction(1, 10**400), 1 - 2.0**-53])
def test_nearly_one(p: Any) -> None:
    assert bernoulli(p, size=10**6).all()


@pytest.mark.parametrize(
    "same",
    [
        (0.5, Fraction(1, 2), Decimal("0.5"), np.float64(0.5), np.float32(0.5)),
        (1, 1.0, Fraction(1), np.int64(1)),
        (0.1, Fraction(0.1), Decimal.from_float(0.1)),
        (Fraction(1, 10), Decimal("0.1")),
    ],
)
def test_one_value_of_any_type_draws_the_same(same: tuple[Any, ...]) -> None:
    drawn = [bernoulli(p, size=5000, stream=KeyStream(KEY)) for p in same]
    assert all((bits == drawn[0]).all() for bits in drawn)


def test_a_float_is_its_exact_value() -> None:
    """0.1 and 1/10 share some 56 digits: their laws are not one object, nor equal."""
    from fastdp._laws import bernoulli_law

    assert bernoulli_law(Fraction(0.1)) is not bernoulli_law(Fraction(1, 10))
    assert bernoulli_law(Fraction(1, 10)) is bernoulli_law(Fraction("0.1"))


@pytest.mark.parametrize("p", [0.5, Fraction(1, 3), 0.9, Fraction(1, 1000), 1 / 256])
def test_share_of_ones(p: Any) -> None:
    """Within 7 standard errors: false alarm below 4e-12 each, by the binomial law."""
    n = 4 * 10**6
    ones = int(np.unpackbits(bernoulli(p, size=n, packed=True)).sum())
    assert abs(ones - n * p) < 7 * float(n * p * (1 - p)) ** 0.5


@pytest.mark.parametrize(
    ("p", "error"),
    [
        (-1e-300, ParameterError),
        (1 + 2.0**-52, ParameterError),
        (Fraction(-1, 10**400), ParameterError),
        (2, ParameterError),
        (float("nan"), ParameterError),
        (float("inf"), ParameterError),
        (Decimal("NaN"), ParameterError),
        (Decimal("1e-4000"), ParameterError),  # more digits than a parameter may have
        ("0.5", DTypeError),
        (None, DTypeError),
        (0.5j, DTypeError),
        (True, DTypeError),
        ([0.5], DTypeError),
        (np.array([0.5]), DTypeError),
    ],
)
def test_bad_p_is_refused_by_name(p: Any, error: type[FastDPError]) -> None:
    stream = CountingStream()
    for packed in (False, True):
        with pytest.raises(error, match=r"^p "):
            bernoulli(p, size=8, packed=packed, stream=stream)
    assert stream.calls == 0


# --- the other arguments --------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"size": -1}, ParameterError, "size"),
        ({"size": 2.5}, DTypeError, "size"),
        ({"size": "8"}, DTypeError, "size"),
        ({"size": (8, -8)}, ParameterError, "size"),
        ({"size": 2**60}, ParameterError, "size"),
        ({"size": 8, "workers": 0}, ParameterError, "workers"),
        ({"size": 8, "workers": 1.5}, DTypeError, "workers"),
        ({"size": 8, "stream": 7}, DTypeError, "stream"),
        ({"size": 8, "stream": np.random.default_rng()}, DTypeError, "stream"),
    ],
)
def test_bad_arguments_are_refused_by_name(
    arguments: dict[str, Any], error: type[FastDPError], name: str, packed: bool
) -> None:
    with pytest.raises(error, match=f"^{name} "):
        bernoulli(0.5, packed=packed, **arguments)


def test_packed_needs_a_last_axis() -> None:
    with pytest.raises(ParameterError, match="packed must come with size or out"):
        bernoulli(0.5, packed=True)
    with pytest.raises(ParameterError, match="size must have a last axis"):
        bernoulli(0.5, size=(), packed=True)
    with pytest.raises(ParameterError, match="out"):
        bernoulli(0.5, packed=True, out=np.zeros((), np.uint8))


@pytest.mark.parametrize("packed", [False, True])
def test_a_call_takes_one_key_whatever_its_size(packed: bool) -> None:
    for size in (1, 8, 10**5, (3, 70_000)):
        stream = CountingStream()
        bernoulli(0.3, size=size, packed=packed, stream=stream, workers=2)
        assert stream.calls == 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("workers", [2, 3, 7])
def test_workers_change_nothing(workers: int, packed: bool) -> None:
    n = 5 * _core.BITS_CHUNK + 1001
    one, many = (
        bernoulli(0.3, size=n, packed=packed, stream=FixedStream("w"), workers=w)
        for w in (1, workers)
    )
    assert (one == many).all()
