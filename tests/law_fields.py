"""The fields of a prepared law, as C fills them and as the Python laws have them."""

import ctypes
from fractions import Fraction
from typing import Any, NamedTuple

from fastdp import _core
from tests.reference import exact_digits, exact_tilt

_U8, _U32, _U64 = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64
_F64 = ctypes.c_double


class _Columns(ctypes.Structure):
    _fields_ = [("cut", _U8 * 128), ("alias", _U8 * 128)]


class _Geometric(ctypes.Structure):
    _fields_ = [
        ("theta", _U64),
        *[(name, _F64) for name in ("scale", "inverse_w0", "inverse_w1")],
        *[(name, _F64) for name in ("error", "error_relative")],
    ]


class _Tilt(ctypes.Structure):
    _fields_ = [
        ("slope", _U32),
        ("block", _U64 * 128),
        ("unit", _U64),
        *[(name, _F64) for name in ("height", "weight", "inverse_2var", "edge")],
        ("acceptance", _F64),
        ("tries", _U32 * 5),
    ]


class _Digits(ctypes.Structure):
    _fields_ = [
        *[(name, _U32) for name in ("shift", "low", "tails", "tops")],
        ("bound", ctypes.c_int64),
        ("special", _F64 * 2),
        ("first", _Columns),
        ("second", _Columns),
        ("first_rest", _U64 * 128),
        ("second_rest", _U64 * 32),
        ("second_whole", _U64 * 32),
        *[(name, _U64 * 48) for name in ("top", "copy", "mask")],
        ("tree", _U64 * 128),
        ("tail", _Geometric),
        ("tilt", _Tilt),
        ("slots", _U32 * 8),
        ("unsettled", _U32),
    ]


class _Sampler(ctypes.Structure):
    _fields_ = [
        ("acceptance", _F64),
        ("chunk_outputs", _U32),
        ("law", _Digits),
        ("num", _U64 * 80),
        ("den", _U64 * 80),
    ]


class Fields(NamedTuple):
    """What is not derived from the rest: arrays as tuples, zeros where nothing is."""

    shift: int
    low: int
    tails: int
    special: tuple[float, ...]
    first: tuple[tuple[int, ...], ...]
    second: tuple[tuple[int, ...], ...]
    first_rest: tuple[int, ...]
    second_rest: tuple[int, ...]
    second_whole: tuple[int, ...]
    top: tuple[int, ...]
    copy: tuple[int, ...]
    mask: tuple[int, ...]
    tail: tuple[float, ...]
    slope: int
    block: tuple[int, ...]
    unit: int
    tilt: tuple[float, ...]


def in_c(sampler: _core.Sampler) -> Fields:
    """Return the fields of a sampler."""
    raw = sampler.structure()
    assert len(raw) == ctypes.sizeof(_Sampler)
    law: Any = _Sampler.from_buffer_copy(raw).law
    tilt = law.tilt
    return Fields(
        *(law.shift, law.low, law.tails, tuple(law.special)),
        *((tuple(c.cut), tuple(c.alias)) for c in (law.first, law.second)),
        *(tuple(law.first_rest), tuple(law.second_rest), tuple(law.second_whole)),
        *(tuple(part)[: law.tops] for part in (law.top, law.copy, law.mask)),
        (law.tail.theta, law.tail.scale, law.tail.inverse_w0, law.tail.inverse_w1),
        *(tilt.slope, tuple(tilt.block), tilt.unit),
        (tilt.height, tilt.weight, tilt.inverse_2var, tilt.edge, tilt.acceptance),
    )


def _filled(entries: Any, n: int) -> tuple[int, ...]:
    return (*entries, *[0] * (n - len(entries)))


def _columns(table: tuple[bytes, bytes]) -> tuple[tuple[int, ...], ...]:
    return tuple(_filled(part, 128) for part in table)


def in_python(law: exact_digits.Digits | exact_tilt.Tilted) -> Fields:
    """Return the fields of the Python law."""
    if isinstance(law, exact_tilt.Tilted):
        empty, none = (0,) * 32, _columns((b"", b""))
        block = tuple(n << 32 | c for n, c in zip(law.counts, law.choices, strict=True))
        return Fields(
            *(law.shift, law.low, 0, (law.chance(), 0.0), _columns(law.first), none),
            *(tuple(law.entries), empty, empty, (), (), (), (0, 0.0, 0.0, 0.0)),
            *(law.slope, block, int(law.height * 2**64)),
            (*law.doubles(), law.acceptance()),
        )
    tail = law.geometric()
    tops = law.top_floors if law.low else ()
    return Fields(
        *(law.shift, law.low, int(tail is not None), law.chance()),
        *(_columns(law.first), _columns(law.second if law.shift else (b"", b""))),
        tuple(law.first_rest.entries),
        _filled(law.second_rest.entries if law.shift else (), 32),
        _filled(law.second_whole.entries if law.low else (), 32),
        *(tops, law.copy_floors or (0,) * len(tops), law.masks if law.low else ()),
        *(tail or (0, 0.0, 0.0, 0.0), 0, (0,) * 128, 0, (0.0,) * 5),
    )


def equal(family: str, parameter: Fraction) -> bool:
    """Tell whether C makes the law as Python does, field for field."""
    if family == "laplace":
        table: Any = exact_digits.laplace(parameter)
        made = _core.Sampler.laplace(parameter)
    else:
        table = exact_tilt.gaussian(parameter)
        made = _core.Sampler.gaussian(parameter)
    return in_c(made) == in_python(table)
