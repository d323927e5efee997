"""Bernoulli bits, packed and as bytes, against the reference on the same words."""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from fastdp import _core, _exact_bits
from fastdp import random as fdp_random
from fastdp.testing import TapeStream
from tests.differential import local_layout as layout
from tests.differential.layout import Keyed
from tests.reference import bernoulli

KEY = bytes(range(3, 35))
PROBABILITIES = [
    Fraction(0),
    Fraction(1e-300),
    Fraction(1, 2**80),
    Fraction(1, 2**64),
    Fraction(1, 2**25),
    Fraction(1, 2**24),
    Fraction(1, 256),
    Fraction(3, 256),
    Fraction(2**23 - 1, 2**24),
    Fraction(0.1),
    Fraction(1, 3),
    Fraction(2**135 - 1, 2**136),
    Fraction(2**150 + 1, 2**152),
    Fraction(2**190 + 1, 2**192),
    Fraction(2**200 + 1, 3**130),
    Fraction(1, 2) - Fraction(1, 2**30),
    Fraction(1, 2),
    Fraction(1, 2) + Fraction(1, 2**64),
    Fraction(2, 3),
    Fraction(255, 256),
    1 - Fraction(1, 2**64),
    1 - Fraction(1, 3**200),
    Fraction(1),
]
LENGTHS = [1, 7, 8, 9, 63, 64, 65, 8191, 8192, 8193, 32767, 32768, 32769, 40_000]
SOURCES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]
each_p = pytest.mark.parametrize("p", PROBABILITIES, ids=lambda p: f"{float(p):.17g}")


def packed(
    call: _core.Call,
    law: _core.Bernoulli,
    n: int,
    x: np.ndarray | None = None,
    first: int = 0,
) -> np.ndarray:
    """Return packed bits, drawn in the midst of bytes that must stay."""
    room = np.full(-(-n // 8) + 6, 0xA5, np.uint8)
    out = room[3:-3]
    _core.flip_bits(call, law, x, out, n, first)
    assert (room[:3] == 0xA5).all()
    assert (room[-3:] == 0xA5).all()
    return out


def as_bytes(
    call: _core.Call,
    law: _core.Bernoulli,
    n: int,
    x: np.ndarray | None = None,
    other: int = -1,
) -> np.ndarray:
    """Return bits as bytes, in the midst of others."""
    room = np.full(n + 6, 0xA5, np.uint8)
    _core.flip_bytes(call, law, x, room[3:-3], other)
    assert (room[:3] == 0xA5).all()
    assert (room[-3:] == 0xA5).all()
    return room[3:-3]


def check_every_level(p: Fraction, n: int) -> None:
    law = fdp_random.bernoulli_law(p)
    answers: dict[str, np.ndarray] = {}
    for machine, call in layout.each_machine(KEY):
        cipher = machine.split()[1]
        if cipher not in answers:
            answers[cipher] = layout.flips(call, p, n)
        bits = as_bytes(call, law, n)
        wrong = np.flatnonzero(bits != answers[cipher])
        assert wrong.size == 0, f"{float(p)} {machine}: {wrong[:5]}"
        assert (packed(call, law, n) == np.packbits(answers[cipher])).all(), machine


@each_p
def test_bits_are_those_of_the_reference(p: Fraction) -> None:
    check_every_level(p, 40_003)


@pytest.mark.slow
@each_p
def test_bits_are_those_of_the_reference_over_a_million(p: Fraction) -> None:
    check_every_level(p, 1_000_000)


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1)])
def test_certain_bits(p: Fraction) -> None:
    bits = as_bytes(_core.Call(), fdp_random.bernoulli_law(p), 100_001)
    assert (bits == int(p)).all()


# --- shapes, types and places -------------------------------------------------------


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(3, 4)], ids=str)
def test_lengths_and_places(p: Fraction, n: int) -> None:
    call, law = _core.Call(Keyed(KEY)), fdp_random.bernoulli_law(p)
    flip = reference_bits(p)[:n]
    x = np.random.default_rng(n).integers(0, 256, -(-n // 8) + 3, np.uint8)[3:]
    ones = np.unpackbits(x)[:n].astype(bool)
    expected = np.packbits(ones ^ flip)  # zeros up to the end of the last byte
    assert (packed(call, law, n) == np.packbits(flip)).all()
    assert (packed(call, law, n, x) == expected).all()
    own = x.copy()
    _core.flip_bits(call, law, own, own, n)
    assert (own == expected).all()
    values = ones.astype(np.uint8)
    assert (as_bytes(call, law, n, values) == (ones ^ flip)).all()
    _core.flip_bytes(call, law, values, values)
    assert (values == (ones ^ flip)).all()


@lru_cache(maxsize=4)
def reference_bits(p: Fraction) -> np.ndarray:
    """Every level has the bits of one stream."""
    return layout.flips(_core.Call(Keyed(KEY)), p, max(LENGTHS))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("first", [1, 5, 2**30, 3 * 2**30 + 7])
def test_chunks_are_drawn_by_their_number(first: int) -> None:
    p, n = Fraction(1, 5), 33_001
    call, law = _core.Call(Keyed(KEY)), fdp_random.bernoulli_law(p)
    expected = layout.flips(call, p, n, first)
    assert (packed(call, law, n, None, first) == np.packbits(expected)).all()
    out = np.zeros(n, bool)
    _core.flip_bytes(call, law, None, out, first_chunk=first)
    assert (out == expected).all()


def test_long_calls_go_on_where_they_paused() -> None:
    """Between 1024 chunks a call looks at signals; the bits are those of one run."""
    call, law = _core.Call(Keyed(KEY)), fdp_random.bernoulli_law(Fraction(1, 3))
    pause = 1024 * layout.BITS
    n = pause + 9
    x = np.full(-(-n // 8), 0x5A, np.uint8)
    tail = packed(call, law, 9, x[pause // 8 :], 1024)
    assert (packed(call, law, n, x)[pause // 8 :] == tail).all()
    values = np.unpackbits(x)[:n]
    out = as_bytes(call, law, n, values)
    assert (out[pause:] == np.unpackbits(tail)[:9]).all()
    assert (out[:100] == values[:100] ^ layout.flips(call, Fraction(1, 3), 100)).all()


def values_of(source: str, n: int) -> np.ndarray:
    """Zeros and ones, and among them whatever else the type holds."""
    rng = np.random.default_rng(5)
    if source == "bool":
        return rng.choice(np.array([0, 0, 1, 1, 2, 255], np.uint8), n).view(bool)
    limits = np.iinfo(source)
    some = {2, 3, 128, 255, 256, 257, 2**16, 2**16 + 1, 2**32, 2**32 + 1, -1, -2, -255}
    some |= {limits.min, limits.max, limits.min + 1, 1 - 2**32, -(2**32)}
    inside = [v for v in sorted(some) if limits.min <= v <= limits.max]
    x = rng.integers(0, 2, n).astype(source)
    at = rng.random(n) < 0.4
    x[at] = rng.choice(np.array(inside, source), at.sum())
    return x


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("other", [-1, 0, 1])
@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(9, 10), Fraction(0)], ids=str)
def test_values_of_every_type(p: Fraction, other: int, source: str) -> None:
    call, law = _core.Call(Keyed(KEY)), fdp_random.bernoulli_law(p)
    for n in (1, 77, 9_001):
        x = values_of(source, n)
        ones = x.view(np.uint8) != 0 if source == "bool" else x
        flip, coin = layout.flips(call, p, n), layout.coins(call, n)
        expected = bernoulli.answers(np.asarray(ones), flip, coin, other)
        kept = x.copy()
        for target in (np.bool_, np.uint8):
            out = np.ones(n, target)
            _core.flip_bytes(call, law, x, out, other)
            assert (out.view(np.uint8) == expected).all(), (n, target)
        assert (x.view(np.uint8) == kept.view(np.uint8)).all()
        if x.itemsize == 1:
            own = x.view(np.uint8) if source == "bool" else x
            _core.flip_bytes(call, law, x, own.view(np.uint8), other)
            assert (own.view(np.uint8) == expected).all(), n


# --- words made at the thresholds ---------------------------------------------------


def tape_of(p: Fraction, chunks: int = 2) -> TapeStream:
    """Blocks of 64 lanes with 0 to 9 ties, and 64; spares and extension blocks that
    agree with the digits of min(p, 1 - p), or differ by one in the last place.
    """
    rng = np.random.default_rng(17)
    lesser = min(p, 1 - p)
    first = int(256 * lesser)
    n = chunks * layout.BITS
    byte = rng.integers(0, 256, n).astype(np.int64)
    near = rng.random(n) < 0.3
    byte[near] = (first + rng.choice([-1, 1], near.sum())).clip(0, 255)
    ties = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 64], n // 64)
    rank = rng.random((n // 64, 64)).argsort(axis=1)
    tied = (rank < ties[:, None]).reshape(-1)
    byte[tied] = first
    byte[~tied & (byte == first)] += 1
    spare = int(2**24 * lesser) % 2**16 + rng.choice([-1, 0, 0, 0, 1], (n // 64, 4))
    wild = rng.random(spare.shape) < 0.1
    spare[wild] = rng.choice([0, 1, 2**16 - 1, 2**15], wild.sum())
    fair = rng.integers(0, 256, (n // 8192, 1024)).astype(np.uint8)
    words = np.concatenate(
        [
            byte.astype(np.uint8).reshape(-1, 8192),
            (spare % 2**16).astype("<u2").reshape(-1, 512).view(np.uint8),
            fair,
        ],
        axis=1,
    )
    further = np.array([_blocks(lesser, known) for known in (8, 24)])
    pick = rng.integers(0, further.shape[1], n)
    # Ties of rank 4 and above know 8 bits; some of the others get theirs too.
    place = np.cumsum(tied.reshape(-1, 64), axis=1).reshape(-1)
    known = np.where(rng.random(n) < 0.95, place <= 4, place > 4).astype(int)
    extension = further[known, pick]
    return TapeStream(
        np.ascontiguousarray(words.reshape(chunks, -1)),
        np.ascontiguousarray(extension.reshape(chunks, -1)),
    )


def _blocks(lesser: Fraction, known: int) -> list[np.ndarray]:
    """Extension blocks at the digits behind the first `known`, and around them."""
    exact = int(lesser * 2 ** (known + 128)) % 2**128
    numbers = [exact] * 4
    numbers += [exact + off for off in (-(2**64), -2, -1, 1, 2, 2**64)]
    numbers += [exact ^ 1 << bit for bit in (127, 96, 64, 63, 32, 0)]
    numbers += [0, 1, 2**64, 2**128 - 1]
    blocks = []
    for number in numbers:
        high, low = divmod(number % 2**128, 2**64)
        blocks.append(np.array([high, low], "<u8").view(np.uint8))
    return blocks


@each_p
def test_words_at_the_thresholds(
    p: Fraction, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte ties, further 16 bits, 128 bits, and the resolver: all have cases."""
    asked: list[int] = []
    made = _exact_bits.bernoulli

    def counting(q: Fraction) -> Callable[..., int]:
        resolve = made(q)

        def settle(words: tuple[int, int, int], block: Callable[[int], bytes]) -> int:
            asked.append(words[0])
            return resolve(words, block)

        return settle

    monkeypatch.setattr(_exact_bits, "bernoulli", counting)
    law = fdp_random.bernoulli_law.__wrapped__(p)
    stream = tape_of(p)
    call, n = _core.Call(stream), 2 * layout.BITS - 9
    expected = tape_answers(p)
    bits = as_bytes(call, law, n)
    wrong = np.flatnonzero(bits != expected[:n])
    assert wrong.size == 0, f"{level}: {wrong[:5]}"
    endless = p.denominator & (p.denominator - 1) != 0
    digits = 10**6 if endless else p.denominator.bit_length() - 1
    # Kernels compare 128 bits behind the 8 or 24 that are known.
    must, may = (
        {known for known in (8, 24) if digits > known + more} for more in (128, 0)
    )
    assert must <= set(asked) <= may
    assert (packed(call, law, n) == np.packbits(expected[:n])).all()


@lru_cache(maxsize=2)
def tape_answers(p: Fraction) -> np.ndarray:
    return layout.flips(_core.Call(tape_of(p)), p, 2 * layout.BITS)


@pytest.mark.usefixtures("level")
def test_a_failure_of_the_resolver_leaves_zeros() -> None:
    p = Fraction(1, 3)
    law, call = _core.Bernoulli(p, layout.lost), _core.Call(tape_of(p))
    out = np.full(40_000, 7, np.uint8)
    with pytest.raises(layout.LostError):
        _core.flip_bytes(call, law, None, out)
    assert not out.any()
    out[:] = 7
    with pytest.raises(layout.LostError):
        _core.flip_bits(call, law, out[:5000], out[:5000], 40_000)
    assert not out[:5000].any()
    assert (out[5000:] == 7).all()


def test_tapes_decide_at_every_stage() -> None:
    """Both answers come from 8, 24, 152 and more bits, by the reference."""
    p = Fraction(1, 3)
    call = _core.Call(tape_of(p))
    stages: dict[tuple[int, int], set[bool]] = {}
    for chunk in range(2):
        raw = layout.bit_words(call, chunk, layout.BITS)
        read = np.zeros(layout.BITS, int)

        def more(lane: int, chunk: int = chunk, read: np.ndarray = read):  # type: ignore[no-untyped-def]
            def block(k: int) -> bytes:
                read[lane] = k + 1
                return call.extension(chunk, lane, k)

            return block

        hit = bernoulli.lanes(p, raw, more)
        byte = bernoulli._parts(raw)[0]
        for b, r, h in zip(byte == 85, read.tolist(), hit.tolist(), strict=True):
            stages.setdefault((int(b), min(r, 2)), set()).add(h)
    both = {False, True}
    assert stages == {(0, 0): both, (1, 0): both, (1, 1): both, (1, 2): both}
