"""Codes of numbers: every level against the reference on the same words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.testing import TapeStream
from tests.differential import local_layout as layout
from tests.differential.layout import Keyed
from tests.reference import windows

KEY = bytes(range(9, 41))
UNIT, CHUNK = 2**64, 2048
HOSTILE = [np.nan, -np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1e308, -1e308, -0.0, 0.0]

LAWS: list[Any] = [
    fastdp.LocalMean.from_epsilon(e, bounds=b)
    for e, b in ((0.5, (0, 1)), (1, (-1, 1)), (2, (0, 100)), (3, (-1e270, 1e270)),
                 (6, (-1e-200, 1e-201)), (12, (20, 21)))
] + [
    fastdp.LocalMean(1.0001, bounds=(0, 1), members=((128, 64), (127, 3)), share=0.9),
    fastdp.LocalMean(2**23, bounds=(0, 1), members=((128, 127),)),
    fastdp.LocalMean(7, bounds=(0, 1), members=((12, 3),)),
    fastdp.LocalMean(7, bounds=(0, 1), members=((6, 3), (4, 1)), share=0.3),
]  # fmt: skip
each_law = pytest.mark.parametrize("m", LAWS, ids=lambda m: str(m.members))


def reference(m: Any, x: np.ndarray, u: np.ndarray, r: np.ndarray) -> list[int]:
    law = windows.members(Fraction(m._windows.ratio), m.members, m.share, UNIT)
    low, high = map(Fraction, m.bounds)
    scale = float(windows.STEPS / (high - low))
    steps = [windows.steps_of(v, float(low), scale) for v in x.astype(float).tolist()]
    pairs = zip(steps, u.tolist(), r.tolist(), strict=True)
    return [windows.code(law, UNIT, t, one, two) for t, one, two in pairs]


def words(call: _core.Call, n: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the two words of each of n numbers."""
    u, r = [], []
    for chunk, count in layout.chunks(n, CHUNK, first):
        raw = call.keystream(chunk, 0, 12 * CHUNK)
        u.append(np.frombuffer(raw[: 8 * CHUNK], "<u8")[:count])
        r.append(np.frombuffer(raw[8 * CHUNK :], "<u4")[:count])
    return np.concatenate(u), np.concatenate(r)


def numbers(m: Any, n: int) -> np.ndarray:
    """Numbers within the bounds and beyond, at steps and halves of them, hostile."""
    rng = np.random.default_rng(n)
    low, high = map(float, m.bounds)
    x = low + (high - low) * rng.uniform(-0.2, 1.2, n)
    step = (high - low) / windows.STEPS
    at = rng.integers(0, windows.STEPS, n) + rng.choice([0, 0.5], n)
    x = np.where(rng.random(n) < 0.3, low + step * at, x)
    pool = np.array([*HOSTILE, low, high, (low + high) / 2])
    return np.where(rng.random(n) < 0.2, rng.choice(pool, n), x)


@each_law
def test_codes_are_those_of_the_reference(m: Any) -> None:
    n = 2 * CHUNK + 77
    x = numbers(m, n)
    expected: dict[str, list[int]] = {}
    for machine, call in layout.each_machine(KEY):
        cipher = machine.split()[1]
        if cipher not in expected:
            expected[cipher] = reference(m, x, *words(call, n))
        out = np.full(n + 2, 200, np.uint8)
        _core.number_clients(call, m._law, x, out[1:-1])
        assert out[1:-1].tolist() == expected[cipher], machine
        assert out[0] == out[-1] == 200


@each_law
def test_codes_at_every_border(m: Any) -> None:
    """The first word of every code, those beside it, the last words of all."""
    law = windows.members(Fraction(m._windows.ratio), m.members, m.share, UNIT)
    at = {w + d for w in windows.borders(law, UNIT) for d in (-1, 0, 1)}
    at |= {2**63, 2**32 - 1, 2**32}
    u = np.array(sorted(w for w in at if 0 <= w < UNIT), np.uint64)
    low, high = map(float, m.bounds)
    rng = np.random.default_rng(3)
    for x, r in ((low, 0), (high, 2**32 - 1), (low + 0.3 * (high - low), None)):
        tape = np.zeros((1, 12 * CHUNK), np.uint8)
        drawn = rng.integers(0, 2**32, CHUNK, np.uint32)
        if r is not None:
            drawn[:] = r
        tape[0, : 8 * len(u)] = u.view(np.uint8)
        tape[0, 8 * CHUNK :] = drawn.view(np.uint8)
        values = np.full(len(u), x)
        expected = reference(m, values, u, drawn[: len(u)])
        try:
            for level in layout.LEVELS:
                if _core.limit_cpu(level) == level:
                    found = m.release(values, stream=TapeStream(tape))
                    assert found.tolist() == expected, level
        finally:
            _core.limit_cpu(None)


@each_law
def test_codes_beside_borders(m: Any) -> None:
    """Words at every distance of a power of two from the borders, like ones together,
    and each of the last words among 63 from the middle of a code: 64 numbers are
    decided together."""
    law = windows.members(Fraction(m._windows.ratio), m.members, m.share, UNIT)
    borders = windows.borders(law, UNIT)
    last = [w for w in borders if w >= UNIT - m._windows.spare]
    step = max(1, len(borders) // 24)
    chosen = [*borders[::step], *borders[-1:]]
    near = [w + s * 2**k for k in range(60) for w in chosen for s in (-1, 1)]
    middle = law[0].inside // 2
    alone = [w for one in last for w in (one, *[middle] * 63)]
    u = np.array([*alone, *(w for w in near if 0 <= w < UNIT)], np.uint64)
    chunks = -(-len(u) // CHUNK)
    tape = np.zeros((chunks, 12 * CHUNK), np.uint8)
    drawn = np.random.default_rng(4).integers(0, 2**32, (chunks, CHUNK), np.uint32)
    tape[:, : 8 * CHUNK] = np.resize(u, (chunks, CHUNK)).view(np.uint8)
    tape[:, 8 * CHUNK :] = drawn.view(np.uint8)
    x = np.resize(numbers(m, 997), len(u))
    expected = reference(m, x, u, drawn.reshape(-1)[: len(u)])
    try:
        for level in layout.LEVELS:
            if _core.limit_cpu(level) == level:
                assert m.release(x, stream=TapeStream(tape)).tolist() == expected, level
    finally:
        _core.limit_cpu(None)


def test_the_last_words_are_used() -> None:
    """Some law has words left over, an even and an odd number of them."""
    left = {m._windows.spare for m in LAWS}
    assert {n % 2 for n in left if n} == {0, 1}


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", [1, 7, 63, 64, 65, 2047, 2048, 2049, 4097])
@pytest.mark.parametrize("kind", ["f8", "f4", "i8"])
def test_lengths_types_and_chunks(n: int, kind: str) -> None:
    m = fastdp.LocalMean.from_epsilon(3, bounds=(-50, 50))
    x = (np.arange(n) * 13 % 103 - 51).astype(kind)
    call = _core.Call(Keyed(KEY))
    for first in (0, 5):
        out = np.zeros(n, np.uint8)
        _core.number_clients(call, m._law, x, out, first)
        assert out.tolist() == reference(m, x, *words(call, n, first))


def test_parts_and_workers_give_the_same() -> None:
    m = fastdp.LocalMean.from_epsilon(3, bounds=(-50, 50))
    x = np.linspace(-60, 60, 9 * CHUNK + 5)
    call = _core.Call(Keyed(KEY))
    whole, parts = np.zeros(len(x), np.uint8), np.zeros(len(x), np.uint8)
    _core.number_clients(call, m._law, x, whole)
    for start in range(0, len(x), 3 * CHUNK):
        piece = slice(start, start + 3 * CHUNK)
        _core.number_clients(call, m._law, x[piece], parts[piece], start // CHUNK)
    assert (whole == parts).all()
