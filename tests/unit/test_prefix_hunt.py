"""Prefix hunts: parameters, levels, their merges, what is found and what is not."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.testing import FixedStream
from tests.reference import domains

M = fastdp.PrefixHunt.from_epsilon(4, bits=24, most=4)
HELD = ["abc"] * 5000 + ["xyz"] * 3000 + [f"{n:03d}" for n in range(1000)] * 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bits": 12}, "multiple of 8"),
        ({"bits": 0}, "bits must be"),
        ({"bits": 2048}, "bits must be"),
        ({"groups": 1}, "groups must be at least 2"),
        ({"groups": 2}, "groups must be larger"),
        ({"groups": 0}, "groups must be"),
        ({"most": 0}, "most must be"),
        ({"beta": 0}, "beta must be"),
        ({"beta": 1}, "beta must be"),
        ({"key": "1"}, "key must be"),
    ],
)
def test_bad_parameters(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        fastdp.PrefixHunt.from_epsilon(1, **given)


def test_parameters() -> None:
    m = fastdp.PrefixHunt.from_epsilon(2)
    assert m.lengths[0] == 12
    assert m.lengths[-1] == 64
    assert max(np.diff(m.lengths)) <= 6  # 2**12 candidates of 64 kept prefixes
    assert m.buckets == 8
    assert m.epsilon() == pytest.approx(2)
    assert m.epsilon() <= 2
    assert fastdp.PrefixHunt.from_epsilon(2, bits=8).lengths == (8,)
    assert fastdp.PrefixHunt.from_epsilon(1, groups=5, bits=32).lengths == (
        *(12, 17, 22, 27, 32),
    )
    assert fastdp.PrefixHunt.from_epsilon(20).buckets == round(np.exp(11)) + 1
    with pytest.raises(TypeError):  # p means nothing without the buckets
        fastdp.PrefixHunt(0.5)  # type: ignore[call-arg]


def test_half_of_the_users_count_whole_values() -> None:
    seeds = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
    shares = np.bincount(M._groups_of(seeds)) / len(seeds)
    others = len(M.lengths) - 1
    wanted = [1 / (2 * others)] * others + [1 / 2]
    assert shares == pytest.approx(wanted, abs=0.01)
    edges = np.array([0, 2**64 - 1], np.uint64)
    assert M._groups_of(edges).tolist() == [0, others]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_report_is_the_response_of_the_bucket_of_the_prefix(workers: int) -> None:
    key = bytes(range(16))
    m = fastdp.PrefixHunt.from_epsilon(1, bits=24, key=key.hex(), most=2, groups=3)
    texts = ["", "a", "abc", "abcd", "\0b", "gr\u00fc\u00df"] * 50
    reports = m.release(texts, stream=FixedStream("hunt"), workers=workers)
    stream = FixedStream("hunt")
    seeds = np.zeros(len(texts), np.uint64)
    with _core.Call(stream) as call:
        _core.fill_bytes_into(call, seeds)
    assert (reports["seed"] == seeds).all()
    labels = []
    for seed, text in zip(seeds.tolist(), texts, strict=True):
        group = min((seed >> 32) * 4 >> 32, 2)
        length = (12, 18, 24)[group]
        padded = text.encode()[:3].ljust(3, b"\0")
        number = int.from_bytes(padded, "big") >> 24 - length << 24 - length
        prefix = number.to_bytes(3, "big")[: -(-length // 8)]
        digest = domains.siphash(key, prefix)
        labels.append(domains.seed_bucket(key, seed, digest, m.buckets))
    answers = fastdp.RandomizedResponse(m.p, categories=m.buckets)
    again = answers.release(np.array(labels), stream=stream)
    assert (reports["value"] == again).all()


def test_what_is_frequent_is_found() -> None:
    found = M.find(M.release(HELD, stream=FixedStream("found")))
    assert found.names == ("abc", "xyz")
    assert (np.abs(found.counts - [5000, 3000]) < 5 * found.standard_errors).all()
    planned = [M.standard_error(10_000, frequency=n / 10) for n in (5, 3)]
    assert found.standard_errors == pytest.approx(planned, rel=0.05)
    assert found.users == 10_000
    assert found.mechanism == M
    few = M.release(["a"] * 9, stream=FixedStream("few"))
    assert M.estimate(few).names == ()  # by chance there is one of 150 times
    assert M.find(M.release([])).counts.shape == (0,)


def test_texts_are_cut_padded_and_shown() -> None:
    m = fastdp.PrefixHunt.from_epsilon(6, bits=16, most=4)
    held = ["gr\u00fcn"] * 4000 + ["x"] * 4000 + [b"\xff\xfe"] * 4000
    found = m.find(m.release(held, stream=FixedStream("cut")))
    assert set(found.names) == {"gr", "x", "\ufffd\ufffd"}


def test_levels_stream_and_merge() -> None:
    reports = M.release(HELD, stream=FixedStream("levels"))
    wanted = M.find(reports)
    parts = np.array_split(reports[np.random.default_rng(1).permutation(10_000)], 3)
    level = M.aggregator()
    while True:
        assert repr(level).startswith("<Hunt of PrefixHunt(")
        own = [pickle.loads(pickle.dumps(level)).add(part) for part in parts]
        level = own[0] + own[1] + own[2]
        assert level == own[2].merge(own[1]).merge(own[0])
        if level.last:
            break
        with pytest.raises(ParameterError, match="last level"):
            level.estimate()
        following = level.next()
        assert following.level == level.level + 1
        with pytest.raises(ParameterError, match="same level"):
            following.merge(level)
        level = following
    found = level.estimate()
    assert found.names == wanted.names
    assert (found.counts == wanted.counts).all()
    with pytest.raises(ParameterError, match="before the last"):
        level.next()
    with pytest.raises(DTypeError, match="other must be an Aggregator"):
        level.merge(3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="packed"):
        level.add(reports, packed=True)


def test_reports_of_broken_clients_are_users() -> None:
    reports = M.release(HELD, stream=FixedStream("broken"))
    bad = reports[:500].copy()
    bad["value"] = M.buckets
    level = M.aggregator().add(reports)
    more = M.aggregator().add(reports).add(bad)
    assert more.users == level.users + 500
    assert (more._tally[:-1] == level._tally[:-1]).all()


def test_the_threshold_is_that_of_the_binomial_law() -> None:
    from scipy.stats import binom

    cross = float(M._support.cross)
    for users, candidates in ((10, 1), (1000, 4096), (10**6, 512)):
        least = M._least(users, candidates)
        share = float(M._beta) / candidates
        assert binom.sf(least - 1, users, cross) <= share * (1 + 1e-9)
        assert least == 0 or binom.sf(least - 2, users, cross) > share * (1 - 1e-9)


@pytest.mark.slow
def test_precision_and_recall() -> None:
    """1e5 users, Zipf of exponent 1.2 over 1e5 strings, epsilon 4; and none of none.

    The values of the top 4, of shares above 3.7 %, lie 8 standard errors of a group
    above nothing: a run misses one with probability below 1e-9. A value that nobody
    frequently holds is shown with probability below 1e-3 a run by the threshold; three
    in all are taken to be a fault, below 1e-9.
    """
    generator = np.random.default_rng()
    shares = 1 / np.arange(1, 100_001) ** 1.2
    wrong = 0
    for _ in range(2):
        letters = generator.integers(33, 126, (100_000, 8), np.uint8)
        strings = letters.view("S8").reshape(-1)
        held = strings[generator.choice(100_000, 100_000, p=shares / shares.sum())]
        m = fastdp.PrefixHunt.from_epsilon(4)
        found = m.find(m.release(held))
        listed = [text.decode() for text in strings[:1000]]
        assert set(listed[:4]) <= set(found.names)
        wrong += len(set(found.names) - set(listed))
        other = generator.integers(33, 126, (100_000, 8), np.uint8).view("S8")
        wrong += len(m.find(m.release(other.reshape(-1))).names)
    assert wrong <= 2
