"""Tilted digits: tables that leave nothing below zero, the law, words at every cut."""

import math
import random
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from fastdp import _core, _laws
from fastdp._core import LEVELS
from fastdp.exceptions import FastDPError, ParameterError
from fastdp.testing import TapeStream
from tests.differential.layout import TRIES, Law, expected, tilted_of
from tests.reference import exact_tilt
from tests.reference.interval import exp_minus

SIGMAS = [
    Fraction(87, 10) + Fraction(1, 2**40),
    Fraction(10),
    Fraction(174, 10),
    Fraction(35),
    Fraction(1000),
    Fraction(2227),
    Fraction(2228),
    Fraction(10**6, 7),
    Fraction(2**40),
    Fraction(2**55),
]


def law_of(sigma: Fraction) -> exact_tilt.Tilted:
    law = exact_tilt.gaussian(sigma)
    assert isinstance(law, exact_tilt.Tilted)
    return law


# --- tables -------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [64, 128, 500])
def test_root_two_pi_is_enclosed(bits: int) -> None:
    lo, hi = exact_tilt.root_two_pi(bits)
    with mpmath.workprec(bits + 60):
        assert lo <= mpmath.ldexp(mpmath.sqrt(2 * mpmath.pi), bits) <= hi
    assert hi - lo < 8


@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_weights_are_enclosed(sigma: Fraction) -> None:
    law, reference = law_of(sigma), tilted_of(Law("gaussian", sigma))
    for bits in (128, 2400):
        lo, hi = law.unit(bits)
        low, high = reference.unit(bits)
        assert lo <= high
        assert low <= hi
        assert hi - lo < 2**10 * 2**23


@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_digits_are_below_the_law_and_hats_above_the_rest(sigma: Fraction) -> None:
    """At both ends of every second digit, in the reference's arithmetic."""
    law, reference = law_of(sigma), tilted_of(Law("gaussian", sigma))
    assert (reference.slope, reference.j) == (law.slope, law.shift)
    assert tuple(reference.counts) == law.counts
    assert tuple(reference.choices) == law.choices
    rng, bits, digits = random.Random(5), 128, 1 << min(law.shift, 8)
    low, high = reference.unit(bits)
    for h in range(-63, 63):
        size = ~h if h < 0 else h
        hat = law.height * law.choices[h + 64]
        for d in {0, digits - 1, digits // 2, *rng.choices(range(digits), k=6)}:
            first = (size * digits + d) << law.low
            for m in {first, first + (1 << law.low) - 1}:
                x = ~m if h < 0 else m
                lo, hi = exp_minus(x * x / (2 * sigma**2), bits)
                taken = reference.taken(x) << bits
                assert taken <= lo * low >> bits
                assert (hi * high >> bits) + 1 - taken <= hat * 2**bits


@pytest.mark.parametrize("sigma", [*SIGMAS, Fraction("16.22"), 2227.53], ids=float)
def test_few_lanes_are_special_and_half_of_the_tries_kept(sigma: Fraction) -> None:
    law = law_of(Fraction(sigma))
    assert sum(law.choices) == exact_tilt.CHOICES
    assert 0.4 < law.acceptance() < 0.7
    assert 0.0024 < law.chance() < 0.0077  # 128 special lanes: docs/proofs/timing.md
    assert float(law.height) > 2**-9.1  # tries left open: docs/proofs/kernels.md
    assert law.doubles()[3] < 2**-18.7


@pytest.mark.parametrize("sigma", [*SIGMAS, Fraction("2227.53")], ids=float)
def test_tries_suffice(sigma: Fraction) -> None:
    """Fewer are kept than lanes are special with probability below 2^-64; 2^-44 for the
    smallest calls."""
    law, count = law_of(sigma), np.arange(1, 500)
    tries = _core.Sampler.gaussian(law.sigma).tries
    for lanes, tried in zip((8, 64, 256, 1024, 8192), tries, strict=True):
        special = stats.binom.pmf(count, lanes, law.chance())
        fewer = stats.binom.cdf(count - 1, tried, law.acceptance())
        assert (special * fewer).sum() < 2 ** (-44 if lanes == 8 else -64)


def test_what_the_tries_yield_is_what_the_digits_leave() -> None:
    """The law by enumeration, sigma = 10: digits and accepted tries make it whole."""
    sigma = Fraction(10)
    law = law_of(sigma)
    reference = tilted_of(Law("gaussian", sigma))
    special = law.chance()
    z = sum(math.exp(-x * x / 200) for x in range(-200, 201))
    whole = float(law.height) * exact_tilt.CHOICES * law.acceptance() / 2**23
    assert whole == pytest.approx(special, rel=1e-12)
    total = 0.0
    for x in range(-126, 126):
        p = math.exp(-x * x / 200) / z
        from_digits = reference.taken(x) / 2**24
        left = p * 2**24 - reference.taken(x)
        assert left >= 0
        # a try chooses the block, a place of 2^j in it, and is kept with left / hat
        outcome = (x >> 1) + 64
        chosen = law.choices[outcome] / exact_tilt.CHOICES / 2
        kept = left / (float(law.height) * law.choices[outcome])
        from_tries = special * chosen * kept / law.acceptance()
        assert from_digits + from_tries == pytest.approx(p, rel=1e-9, abs=1e-15)
        total += from_digits + from_tries
    assert total == pytest.approx(1, abs=1e-11)


@pytest.mark.parametrize("value", [0, -1, Fraction(999, 10**6), 2**55 + 1])
def test_sigmas_outside_the_range_are_refused(value: Fraction) -> None:
    with pytest.raises(ParameterError, match="sigma"):
        _laws.gaussian_sampler(Fraction(value))


# --- all words of a block -----------------------------------------------------------


def selectors(law: exact_tilt.Tilted) -> dict[int, tuple[int, int]]:
    """A column and a byte u of each block."""
    cut, alias = law.first
    found: dict[int, tuple[int, int]] = {}
    for c in range(128):
        if alias[c] != 128:
            found[(alias[c] + 128) % 256 - 128] = c, cut[c]
        if cut[c] < 255:
            found[c - 64] = c, cut[c] + 1
    return found


def streams(columns: np.ndarray, bytes_: np.ndarray, low_bytes: int) -> TapeStream:
    """Chunks of 8192 lanes: a column and u, a digit and its tilt."""
    chunks = len(columns) // 8192
    parts = np.concatenate([columns, bytes_], axis=1).astype(np.uint8)
    trials = parts.reshape(chunks, 128, 64, 4).transpose(0, 1, 3, 2)
    trials = trials.reshape(chunks, -1)
    area = np.zeros((chunks, 16 * TRIES), np.uint8)
    low = np.zeros((chunks, 8192 * low_bytes), np.uint8)
    return TapeStream(np.concatenate([area, trials, low], axis=1))


def check_blocks(sigma: Fraction, blocks: list[int]) -> None:
    """Compare all 2^16 words of the digit and the tilt at every level."""
    law = law_of(sigma)
    low_bytes = next(b for b in (0, 2, 4, 8) if law.low <= 8 * b)
    words = np.stack(np.divmod(np.arange(2**16), 256), axis=1)
    pick = selectors(law)
    used = [h for h in blocks if h in pick]
    assert not any(law.counts[h + 64] for h in blocks if h not in pick)
    columns = np.concatenate([np.tile(pick[h], (2**16, 1)) for h in used])
    tape = streams(columns, np.tile(words, (len(used), 1)), low_bytes)
    bits = min(law.shift, 8)
    expected = []
    for h in used:
        size = ~h if h < 0 else h
        digit = words[:, 0] >> (8 - bits)
        t = 256 - np.array([law.share(h, d) for d in range(1 << bits)])[digit]
        digit = np.where(words[:, 1] < t, (1 << bits) - 1 - digit, digit)
        m = (size << bits | digit.astype(np.int64)) << law.low
        expected.append(~m if h < 0 else m)
    answers = np.concatenate(expected)
    out = np.zeros(len(answers), np.int64)
    for level in LEVELS:
        if _core.limit_cpu(level) != level:
            continue
        _core.fill(_core.Call(tape), _core.Sampler.gaussian(law.sigma), None, out)
        assert (out == answers).all(), level
    _core.limit_cpu(None)


@pytest.mark.parametrize("sigma", [10, 2200, 10**6])
def test_all_words_of_some_blocks(sigma: int) -> None:
    check_blocks(Fraction(sigma), [-33, -2, -1, 0, 1, 17])


@pytest.mark.slow
@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_all_words_of_all_blocks(sigma: Fraction) -> None:
    """Of all that a digit can give: the others have no units in its table."""
    blocks = sorted(selectors(law_of(sigma)))
    for k in range(0, len(blocks), 9):
        check_blocks(sigma, blocks[k : k + 9])


# --- tries at their thresholds --------------------------------------------------------


def choices_of(law: exact_tilt.Tilted) -> dict[int, tuple[int, int]]:
    """A column and a number u of each block of a try."""
    cut, alias = law.columns
    picks = {alias[c]: (c, 0) for c in range(128) if cut[c]}
    return picks | {c: (c, cut[c]) for c in range(128) if cut[c] < 2**17}


def passes(law: exact_tilt.Tilted, tries: Any, special: Any = 1) -> TapeStream:
    """A pass of these tries in which such a share of the lanes is special besides, or
    these lanes alone."""
    area = np.zeros((TRIES, 2), np.uint64)
    area[: len(tries)] = tries
    raw = area.reshape(-1, 16, 2).transpose(0, 2, 1).tobytes()
    rng, column = np.random.default_rng(7), law.first[1].index(128)
    trials = rng.integers(0, 256, (128, 4, 64), np.uint8)
    if isinstance(special, np.ndarray):
        trials[:, 0], trials[:, 1] = selectors(law)[0]
        chosen = np.isin(np.arange(8192), special).reshape(128, 64)
    else:
        chosen = rng.random((128, 64)) < special
    trials[:, 0][chosen], trials[:, 1][chosen] = column, law.first[0][column]
    low_bytes = next(b for b in (0, 2, 4, 8) if law.low <= 8 * b)
    main = raw + trials.tobytes() + rng.bytes(8192 * low_bytes)
    return TapeStream(np.frombuffer(main, np.uint8).reshape(1, -1))


def tries_at_thresholds(sigma: Fraction) -> list[tuple[int, int]]:
    """Words and places: V on either side of what is kept, at the ends of digits."""
    law, reference = law_of(sigma), tilted_of(Law("gaussian", sigma))
    rng, words = random.Random(3), []
    for outcome, (column, u) in sorted(choices_of(law).items()):
        hat = law.height * law.choices[outcome]
        for _ in range(6):
            place = rng.choice([0, 2**64 - 1, rng.getrandbits(64), rng.getrandbits(64)])
            if outcome in (0, 127):
                bound = reference.tail(int(outcome == 0), 0, 128)[0]
            else:
                size = (63 - outcome if outcome < 64 else outcome - 64) << law.shift
                m = size | place >> (64 - law.shift)
                x = ~m if outcome < 64 else m
                bound = max(
                    reference.weight(x, 128)[0] - (reference.taken(x) << 128), 0
                )
            v = int(bound / hat / 2**89)
            if outcome in (0, 127) and len(words) % 2:  # kept beyond the start, too
                v = rng.randrange(v + 1)
            v = min(max(v + rng.choice((-2, -1, 0, 0, 0, 1, 2)), 0), 2**39 - 1)
            words.append((u << 47 | v << 8 | column, place))
    return words


@pytest.mark.parametrize("sigma", SIGMAS, ids=float)
def test_tries_at_their_thresholds(sigma: Fraction) -> None:
    """Every lane is special: the outputs are the accepted tries, in order."""
    law, reference = law_of(sigma), tilted_of(Law("gaussian", sigma))
    words = tries_at_thresholds(sigma)
    tried = _core.Sampler.gaussian(law.sigma).tries[-1]
    for start in range(0, len(words), tried):
        part = words[start : start + tried]
        part += words[: tried - len(part)]
        call = _core.Call(passes(law, part))
        answers = [
            x
            for i, (word, place) in enumerate(part)
            if (
                x := reference.attempt(
                    word, place, lambda k, i=i, c=call: c.extension(0, 8192 + i, k)
                )
            )
            is not None
        ]
        for level in LEVELS:
            if _core.limit_cpu(level) != level:
                continue
            n = max(len(answers), 65)
            out = np.zeros(n, np.int64)
            sampler = _core.Sampler.gaussian(law.sigma)
            _core.fill(call, sampler, None, out)
            assert out[: len(answers)].tolist() == answers, level
            with pytest.raises(FastDPError, match="do not decide"):
                _core.fill(call, sampler.widen(exact=False), None, out)
            assert not out.any()
    _core.limit_cpu(None)


@pytest.mark.parametrize("special", [0.012, 0.018, 0.08])
@pytest.mark.parametrize("sigma", [10, 10**4, 2**30, 2**50])
def test_more_special_lanes_than_ranks_and_tries(sigma: int, special: float) -> None:
    law, n = law_of(Fraction(sigma)), 8192
    tries = np.random.default_rng(9).integers(0, 2**64, (TRIES, 2), np.uint64)
    call = _core.Call(passes(law, tries, special))
    sampler, out = _core.Sampler.gaussian(law.sigma), np.zeros(n, np.int64)
    answers = expected(Law("gaussian", Fraction(sigma)), call, n)
    for level in LEVELS:
        if _core.limit_cpu(level) != level:
            continue
        _core.fill(call, sampler, None, out)
        assert (out == answers).all(), level
    _core.limit_cpu(None)


@pytest.mark.parametrize("last", [2047, 2048, 8191])
@pytest.mark.parametrize("sigma", [10, 10**4, 2**50])
def test_as_many_special_lanes_as_ranks_or_tries(sigma: int, last: int) -> None:
    """And one more, which is the last lane of a piece, or the first."""
    same = Law("gaussian", Fraction(sigma))
    law, reference = law_of(same.parameter), tilted_of(same)
    sampler, out = (
        _core.Sampler.gaussian(law.sigma),
        np.zeros(8192, np.int64),
    )
    tries = np.random.default_rng(9).integers(0, 2**64, (TRIES, 2), np.uint64)
    blocks = _core.Call(passes(law, tries)).extension
    accepted = sum(
        reference.attempt(*words, lambda k, i=i: blocks(0, 8192 + i, k)) is not None
        for i, words in enumerate(tries[: sampler.tries[-1]].tolist())
    )
    for special in (128, 129, accepted, accepted + 1):
        lanes = np.arange(last + 1 - special, last + 1)
        call = _core.Call(passes(law, tries, lanes))
        answers = expected(same, call, 8192)
        for level in LEVELS:
            if _core.limit_cpu(level) != level:
                continue
            _core.fill(call, sampler, None, out)
            assert (out == answers).all(), (level, special)
    _core.limit_cpu(None)


@pytest.mark.parametrize("n", [64, 128])
@pytest.mark.parametrize("sigma", [10, 2**50])
def test_a_small_call_of_special_lanes_alone(sigma: int, n: int) -> None:
    """It works the tries of a pass, after its own or none."""
    law = law_of(Fraction(sigma))
    tries = np.random.default_rng(9).integers(0, 2**64, (TRIES, 2), np.uint64)
    call = _core.Call(passes(law, tries))
    sampler, out = _core.Sampler.gaussian(law.sigma), np.zeros(n, np.int64)
    answers = expected(Law("gaussian", Fraction(sigma)), call, n)
    for level in LEVELS:
        if _core.limit_cpu(level) != level:
            continue
        for chosen in (sampler, sampler.widen(narrow=1)):
            _core.fill(call, chosen, None, out)
            assert (out == answers).all(), level
    _core.limit_cpu(None)


@pytest.mark.parametrize("sigma", [Fraction(174, 10), Fraction(2227)], ids=float)
def test_tails_beyond_their_start(sigma: Fraction) -> None:
    law, rng, tries = law_of(sigma), random.Random(6), []
    bound = float(law.tail_edge(0, 0, 128)[0] / law.height / 2**89)
    for k in range(TRIES):
        column, u = choices_of(law)[127 * (k % 2)]
        v = int(bound * rng.random() ** 3)
        tries.append((u << 47 | v << 8 | column, 0))
    call, out = _core.Call(passes(law, tries)), np.zeros(100, np.int64)
    answers = expected(Law("gaussian", sigma), call, 100)
    assert (np.abs(answers) > 63 * 2**law.shift + 1).sum() > 40
    _core.fill(call, _core.Sampler.gaussian(law.sigma), None, out)
    assert (out == answers).all()


def test_a_lane_of_its_own_tries_reads_every_bit_once() -> None:
    """V at its threshold: what follows in the next block decides."""
    law = law_of(Fraction(1000))
    column, u = choices_of(law)[64]
    left = law.weight(0, 128)[0] - (law.counts[64] * law.share(0, 0) << 128)
    v = int(left / law.height / law.choices[64] / 2**89)
    word = (u << 47 | v << 8 | column).to_bytes(8, "little")
    for further, kept in ((0, True), (255, False)):
        first = word + bytes(8)
        blocks = {2**24: first, 2**25: (u << 47 | column).to_bytes(8, "little") * 2}
        x = law.settle((0, 0, 0), lambda k: blocks.get(k, bytes([further] * 16)))  # noqa: B023
        assert (x == 0) == kept


def test_tails_of_sigmas_of_two_thousand_bits() -> None:
    law = law_of(Fraction(10**600 + 1, 10**597))
    column, u = choices_of(law)[0]
    words = u << 47 | column, 0  # V = 0: kept
    x = law.attempt(*words, lambda k: random.Random(k).randbytes(16))
    assert x is not None
    assert x < -63 * 2**law.shift


def test_exact_steps_that_fail_at_the_first_of_many_open_tries() -> None:
    law = law_of(Fraction(1000))
    column, u = choices_of(law)[0]
    tape = passes(law, [(u << 47 | column, 0)] * TRIES)  # a tail, V = 0: all are open
    sampler = _core.Sampler.gaussian(law.sigma).widen(exact=False)
    for level in LEVELS:
        if _core.limit_cpu(level) != level:
            continue
        out = np.ones(8192, np.int64)
        with pytest.raises(FastDPError, match="do not decide"):
            _core.fill(_core.Call(tape), sampler, None, out)
        assert not out.any()
    _core.limit_cpu(None)
