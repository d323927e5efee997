"""Every sampler, level and cipher against the integer reference on the same bits."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp._core import LEVELS
from fastdp.exceptions import FastDPError
from fastdp.testing import TapeStream
from tests.differential.layout import (
    PASS,
    Keyed,
    Law,
    chunk_values,
    expected,
    pass_of,
    pass_values,
)

KEY = bytes(range(32))
LAPLACE = [
    Fraction(1e-3),
    Fraction(1, 100),
    Fraction(0.01),
    Fraction(1, 3),
    Fraction(1),
    Fraction(17, 10),
    Fraction(5.1),
    Fraction(10),
    Fraction(10 + 2**-20),
    Fraction(20),
    Fraction(100),
    Fraction(320),
    Fraction(7777, 10),
    Fraction(2560),
    Fraction(2561),
    Fraction(4096),
    Fraction(16385),
    Fraction(10**6),
    Fraction(10 * 2**21),
    Fraction(10 * 2**21 + 1),
    Fraction(2**41, 3),
    Fraction(2**40),
    Fraction(2**55),
]
GAUSSIAN = [
    Fraction(1, 1000),
    Fraction(3, 10),
    Fraction(1, 3),
    Fraction(1),
    Fraction(1.7),
    Fraction(4),
    Fraction(8),
    Fraction(87, 10),
    Fraction(87, 10) + Fraction(1, 2**40),
    Fraction(10),
    Fraction(1000),
    Fraction(10239, 10),
    Fraction(1024),
    Fraction(10**6),
    Fraction(2**21),
    Fraction(2**22),
    Fraction(2**41, 3),
    Fraction(2**40),
    Fraction(2**55),
]
LAWS = [Law("laplace", t) for t in LAPLACE] + [Law("gaussian", s) for s in GAUSSIAN]
TRUNCATED = [
    Law("laplace", Fraction(1, 3), 1),
    Law("laplace", Fraction(10), 3),
    Law("laplace", Fraction(10), 40),
    Law("laplace", Fraction(1000), 20_000),
    Law("laplace", Fraction(5000), 9_000),
    Law("laplace", Fraction(10**6), 700_000),
    Law("laplace", Fraction(2**55), 2**56 + 12345),
]
#: One law of each kind, and a truncated one.
ONE_OF_EACH = [
    Law("laplace", Fraction(10)),
    Law("laplace", Fraction(1000)),
    Law("laplace", Fraction(10**6)),
    Law("gaussian", Fraction(3)),
    Law("gaussian", Fraction(10)),
    Law("gaussian", Fraction(2**40)),
    Law("laplace", Fraction(10), 12),
]


def drawn(law: Law, call: _core.Call, n: int) -> np.ndarray:
    out = np.zeros(n, np.int64)
    _core.fill(call, law.sampler(), None, out)
    return out


@lru_cache(maxsize=8)
def reference(law: Law, cipher: str, n: int) -> np.ndarray:
    """What the bits of a cipher's stream give: the same at every level."""
    return expected(law, _core.Call(Keyed(KEY, cipher)), n)


def levels() -> list[str]:
    """Levels that this machine has, lowest first."""
    return [level for level in LEVELS if _core.limit_cpu(level) == level]


def check_every_level(law: Law, n: int) -> None:
    """Compare all levels and ciphers with one reference for each stream."""
    seen = 0
    for level in levels():
        _core.limit_cpu(level)
        for cipher in ("chacha20", "aes"):
            if not _core.cipher_available(cipher):
                continue
            got = drawn(law, _core.Call(Keyed(KEY, cipher)), n)
            wrong = np.flatnonzero(got != reference(law, cipher, n))
            assert wrong.size == 0, f"{law} {level} {cipher}: {wrong[:5]}"
            seen += n
    assert seen >= n


@pytest.fixture(autouse=True)
def restored() -> Any:
    yield
    _core.limit_cpu(None)


def test_levels_of_this_machine_are_tested(at_level: Callable[[str], None]) -> None:
    """The best level is among those that the tests here go through."""
    assert levels()[0] == "portable"
    _core.limit_cpu(None)
    assert _core.config()["cpu"] in levels()


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_outputs_are_those_of_the_reference(law: Law) -> None:
    check_every_level(law, 20_000)


@pytest.mark.parametrize("law", TRUNCATED, ids=str)
def test_truncated_outputs_are_the_reference_kept_within_the_bound(law: Law) -> None:
    check_every_level(law, 9_000)
    assert np.abs(reference(law, "chacha20", 9_000)).max() <= law.bound


def test_passes_go_on_until_there_are_enough(level: str) -> None:
    """A law that claims to keep all of its values is short of them in every pass."""
    law = Law("laplace", Fraction(10), 5)
    sampler = law.sampler().widen(sure=True)
    assert sampler.chunk_outputs == PASS
    call = _core.Call(Keyed(KEY))
    got, passes = np.zeros(0, np.int64), 0
    while len(got) < PASS:
        lanes = min(-(-(PASS - len(got) + 1) // 64) * 64, PASS)
        values = pass_values(law._replace(bound=0), call, 0, passes, lanes)
        got = np.concatenate([got, values[np.abs(values) <= law.bound]])
        passes += 1
    out = np.zeros(PASS, np.int64)
    _core.fill(call, sampler, None, out)
    assert (out == got[:PASS]).all()
    assert passes > 3


@pytest.mark.parametrize("law", TRUNCATED, ids=str)
def test_chunks_hold_what_a_pass_nearly_always_fills(law: Law) -> None:
    """Six deviations below the mean: which words a value has depends on it."""
    a = law.sampler().acceptance
    most = int(PASS * a - 6 * math.sqrt(PASS * a * (1 - a)) - 4)
    assert law.sampler().chunk_outputs == (PASS if a == 1 else max(most, 16) // 16 * 16)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS + TRUNCATED, ids=str)
def test_a_million_outputs_are_those_of_the_reference(law: Law) -> None:
    check_every_level(law, 1_000_000)


# --- the tape ---------------------------------------------------------------------


def taped(law: Law, chunks: int) -> TapeStream:
    """Random words and extension blocks: 8192 trials a chunk."""
    rng = np.random.default_rng(int(law.parameter * 1000) % 2**63)
    return TapeStream(
        rng.integers(0, 256, (chunks, 2 * pass_of(law).size), np.uint8),
        rng.integers(0, 256, (chunks, 16 * 8192), np.uint8),
    )


@pytest.mark.parametrize("law", ONE_OF_EACH, ids=str)
def test_outputs_from_a_tape_are_those_of_the_reference(law: Law) -> None:
    n = 2 * law.sampler().chunk_outputs + 700
    answers = expected(law, _core.Call(taped(law, 3)), n)
    for level in levels():
        _core.limit_cpu(level)
        assert (drawn(law, _core.Call(taped(law, 3)), n) == answers).all(), level


# --- the prefix cut: slots and exact steps at work all the time -----------------------


@pytest.mark.parametrize("law", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize("x_type", [None, np.int64, np.int8, np.uint32, float])
def test_slots_and_exact_steps_give_what_the_lists_give(law: Law, x_type: Any) -> None:
    """Lists of 16 ranks, the rest by exact steps; and every special lane by these."""
    n = 8192 + 700
    answers = reference(law, "chacha20", n)
    if x_type is None:
        x, expected, grid = None, answers, None
    elif x_type is float:
        x, grid = np.arange(n) % 7 * 0.5, (0.25, -1e9, 1e9, 0.0)
        expected = x + 0.25 * answers
    else:
        limits = np.iinfo(x_type)
        x, grid = np.arange(n).astype(x_type), None
        sums = x.astype(object) + answers.astype(object)
        expected = np.clip(sums, limits.min, limits.max).astype(x_type)
    for level in levels():
        _core.limit_cpu(level)
        for widening in ({"narrow": 1.0}, {"wide": 1.0}, {"narrow": 1.0, "wide": 1.0}):
            sampler, out = (
                law.sampler(),
                np.zeros(n, np.int64 if x is None else x.dtype),
            )
            wide = sampler.widen(**widening)
            _core.fill(_core.Call(Keyed(KEY)), wide, x, out, 0, grid)
            assert (out == expected).all(), (level, widening)
            if "wide" in widening:
                wide = law.sampler().widen(**widening, exact=False)
                with pytest.raises(FastDPError, match="do not decide"):
                    _core.fill(_core.Call(Keyed(KEY)), wide, x, out, 0, grid)
                assert not out.any()


# --- what the caller asks for -----------------------------------------------------


@pytest.mark.parametrize("law", ONE_OF_EACH, ids=str)
def test_a_shorter_call_gives_the_beginning_of_a_longer_one(
    law: Law, level: str
) -> None:
    longest = 3 * law.sampler().chunk_outputs
    answers = reference(law, "chacha20", longest)
    for n in (1, 2, 63, 64, 65, 127, 128, 129, 1000, 4095, 4096, 4097, longest):
        assert (drawn(law, _core.Call(Keyed(KEY)), n) == answers[:n]).all(), n


@pytest.mark.parametrize("law", ONE_OF_EACH, ids=str)
def test_chunks_can_be_drawn_in_any_order(law: Law) -> None:
    per_chunk = law.sampler().chunk_outputs
    answers = reference(law, "chacha20", 3 * per_chunk)
    out = np.zeros(2 * per_chunk, np.int64)
    _core.fill(_core.Call(Keyed(KEY)), law.sampler(), None, out, 1)
    assert (out == answers[per_chunk:]).all()


@pytest.mark.parametrize("law", ONE_OF_EACH[:4], ids=str)
@pytest.mark.parametrize("workers", [1, 2, 3, 50])
def test_workers_change_nothing(law: Law, workers: int) -> None:
    draw = {
        "laplace": fastdp.random.discrete_laplace,
        "gaussian": fastdp.random.discrete_gaussian,
    }[law.family]
    n = 10 * law.sampler().chunk_outputs + 77
    answers = drawn(law, _core.Call(Keyed(KEY)), n)
    got = draw(law.parameter, size=n, stream=Keyed(KEY), workers=workers)
    assert (got == answers).all()


def test_a_call_longer_than_a_slab_goes_on_with_the_next_chunk() -> None:
    """The extension draws 1024 chunks between two looks at signals."""
    law = ONE_OF_EACH[2]
    per_chunk = law.sampler().chunk_outputs
    out = np.zeros(1026 * per_chunk, np.int64)
    _core.fill(_core.Call(Keyed(KEY)), law.sampler(), None, out)
    for chunk in (0, 1023, 1024, 1025):
        answers = chunk_values(law, _core.Call(Keyed(KEY)), chunk, per_chunk)
        assert (out[chunk * per_chunk :][:per_chunk] == answers).all(), chunk
