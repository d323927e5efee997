"""Bernoulli bits, packed and as bytes, against the reference on the same words."""

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from fastdp import _core, _laws
from fastdp.exceptions import FastDPError
from fastdp.testing import TapeStream
from tests.differential import local_layout as layout
from tests.differential.layout import Keyed
from tests.reference import bernoulli, exact_bits

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
LENGTHS = [
    1,
    7,
    8,
    9,
    63,
    64,
    65,
    511,
    512,
    513,
    1025,
    8191,
    8192,
    8193,
    32767,
    32768,
    32769,
    40_000,
]
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
    law = _laws.bernoulli_law(p)
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
    bits = as_bytes(_core.Call(), _laws.bernoulli_law(p), 100_001)
    assert (bits == int(p)).all()


# --- shapes, types and places -------------------------------------------------------


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(3, 4)], ids=str)
def test_lengths_and_places(p: Fraction, n: int) -> None:
    call, law = _core.Call(Keyed(KEY)), _laws.bernoulli_law(p)
    flip = reference_bits(p)[:n]
    x = np.random.default_rng(n).integers(0, 256, size=-(-n // 8) + 3, dtype=np.uint8)[
        3:
    ]
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


@lru_cache(maxsize=len(PROBABILITIES))
def reference_bits(p: Fraction) -> np.ndarray:
    """Every level has the bits of one stream."""
    return layout.flips(_core.Call(Keyed(KEY)), p, max(LENGTHS))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("first", [1, 5, 2**30, 3 * 2**30 + 7])
def test_chunks_are_drawn_by_their_number(first: int) -> None:
    p, n = Fraction(1, 5), 33_001
    call, law = _core.Call(Keyed(KEY)), _laws.bernoulli_law(p)
    expected = layout.flips(call, p, n, first)
    assert (packed(call, law, n, None, first) == np.packbits(expected)).all()
    out = np.zeros(n, bool)
    _core.flip_bytes(call, law, None, out, first_chunk=first)
    assert (out == expected).all()


def test_long_calls_go_on_where_they_paused() -> None:
    """Between 1024 chunks a call looks at signals; the bits are those of one run."""
    call, law = _core.Call(Keyed(KEY)), _laws.bernoulli_law(Fraction(1, 3))
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
    call, law = _core.Call(Keyed(KEY)), _laws.bernoulli_law(p)
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


# --- the table ----------------------------------------------------------------------


@each_p
def test_the_table_has_the_law_of_eight_bits(p: Fraction) -> None:
    made, expected = exact_bits.patterns(p), bernoulli.table(p)
    assert [Fraction(cut, made.whole) for cut in made.cut] == expected.cut
    assert list(made.alias) == expected.alias
    assert bernoulli.law(expected) == [bernoulli.probability(p, c) for c in range(256)]


@pytest.mark.usefixtures("level")
@each_p
def test_every_column_with_every_byte(p: Fraction) -> None:
    """All 2**16 cases of the first stage, and the ties among them."""
    pairs = np.arange(2**16).reshape(16, -1, 64)
    words = np.stack([pairs // 256, pairs % 256], axis=2).astype(np.uint8)
    tape = words.reshape(16, -1)
    call = _core.Call(TapeStream(tape, np.zeros((16, 0), np.uint8)))
    n = 16 * layout.BITS
    expected = np.packbits(layout.flips(call, p, n))
    assert (packed(call, _laws.bernoulli_law(p), n) == expected).all()


# --- words made at the thresholds ---------------------------------------------------

#: Ties of the chunks: none, a few, as many as one unit serves and one beside, and all.
TIES = [0, 1, 16, 17, 63, 64, 65, 200, 4096]


@lru_cache(maxsize=len(PROBABILITIES))
def tape_of(p: Fraction) -> TapeStream:
    """First bytes beside those of the cuts, ties, and further bits that agree with the
    cuts or differ by one in the last place, in one byte, or in one bit.
    """
    rng = np.random.default_rng(17)
    cuts = bernoulli.table(p).cut
    first = np.array([min(int(256 * cut), 255) for cut in cuts])
    n, size = layout.BITS // 8, bernoulli.TIES + bernoulli.UNIT * (layout.BITS // 512)
    main = rng.integers(0, 256, (len(TIES), size), np.uint8)
    blocks = rng.integers(0, 2**64, (len(TIES), n, 2), np.uint64)
    for chunk, ties in enumerate(TIES):
        column = rng.integers(0, 256, n)
        apart = rng.choice([1, 255, 1, 255, 7, 128], n)
        u = (first[column] + apart) % 256
        where = np.sort(rng.choice(n, ties, replace=False))
        u[where] = first[column[where]]
        words = np.stack([column.reshape(-1, 64), u.reshape(-1, 64)], axis=1)
        main[chunk, : 2 * n] = words.reshape(-1)
        units = main[chunk, bernoulli.TIES :].reshape(-1, bernoulli.UNIT)
        for rank, place in enumerate(where.tolist()):
            near, block = _near(cuts[int(column[place])], rng)
            planes = np.frombuffer(near.to_bytes(7, "big"), np.uint8)
            units[rank // 64, rank % 64 : 448 : 64] = planes
            blocks[chunk, place] = block
    extension = blocks.astype("<u8").view(np.uint8).reshape(len(TIES), -1)
    return TapeStream(main, np.ascontiguousarray(extension))


def _near(cut: Fraction, rng: np.random.Generator) -> tuple[int, tuple[int, int]]:
    """Return 56 further bits of U and an extension block, at the cut or beside it."""
    exact = min(int(cut * 2**64), 2**64 - 1) % 2**56
    offset = int(rng.choice([0, 0, 0, 1, -1, 2**8, -(2**8), 2**48, -(2**48)]))
    near = (exact + offset) % 2**56
    if rng.random() < 0.2:
        near ^= 1 << int(rng.integers(56))
    beyond = int(cut * 2**192) % 2**128
    beyond = (beyond + int(rng.choice([0, 1, -1, 2**64, -(2**64)]))) % 2**128
    return near, divmod(beyond, 2**64)


@each_p
def test_words_at_the_cuts(p: Fraction, level: str) -> None:
    """One byte, 56 more bits, and the exact steps: all have cases."""
    law = _core.Bernoulli(p)
    call, n = _core.Call(tape_of(p)), len(TIES) * layout.BITS - 9
    expected = tape_answers(p)
    bits = as_bytes(call, law, n)
    wrong = np.flatnonzero(bits != expected[:n])
    assert wrong.size == 0, f"{level}: {wrong[:5]}"
    assert (packed(call, law, n) == np.packbits(expected[:n])).all()


@lru_cache(maxsize=len(PROBABILITIES))
def tape_answers(p: Fraction) -> np.ndarray:
    return layout.flips(_core.Call(tape_of(p)), p, len(TIES) * layout.BITS)


@pytest.mark.usefixtures("level")
def test_a_failure_of_the_exact_steps_leaves_zeros() -> None:
    p = Fraction(1, 3)
    call, law = _core.Call(tape_of(p)), _core.Bernoulli(p, exact=False)
    n = len(TIES) * layout.BITS
    out = np.full(n, 7, np.uint8)
    with pytest.raises(FastDPError, match="do not decide"):
        _core.flip_bytes(call, law, None, out)
    assert not out.any()
    out[:] = 7
    with pytest.raises(FastDPError, match="do not decide"):
        _core.flip_bits(call, law, out[: n // 8], out[: n // 8], n)
    assert not out[: n // 8].any()
    assert (out[n // 8 :] == 7).all()


def test_tapes_decide_at_every_stage() -> None:
    """Both answers come from 8, 64, 192 and more bits, by the reference."""
    p = Fraction(1, 3)
    call, table = _core.Call(tape_of(p)), bernoulli.table(p)
    stages: dict[tuple[int, int], set[bool]] = {}
    for chunk in range(len(TIES)):
        raw = layout.bit_words(call, chunk, layout.BITS)
        read = np.zeros(layout.BITS // 8, int)

        def more(place: int, chunk: int = chunk, read: np.ndarray = read):  # type: ignore[no-untyped-def]
            def block(k: int) -> bytes:
                read[place] = k + 1
                return call.extension(chunk, place, k)

            return block

        got = bernoulli.patterns(table, raw, layout.unit_of(call, chunk), more)
        column, u = bernoulli.places(raw)
        for c, first, r, pattern in zip(column, u, read.tolist(), got, strict=True):
            tie = int(first == int(256 * table.cut[c]))
            stages.setdefault((tie, min(r, 2)), set()).add(bool(pattern == c))
    both = {False, True}
    assert stages == {(0, 0): both, (1, 0): both, (1, 1): both, (1, 2): both}
