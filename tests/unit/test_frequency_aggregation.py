"""Aggregators: the same state and estimate whatever the batches and merges."""

from __future__ import annotations

import copy
import operator
import pickle
from functools import reduce
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms.local import Aggregator
from fastdp.mechanisms.local._mechanism import VERSION
from fastdp.testing import FixedStream

MECHANISMS = [
    fastdp.RandomizedResponse.from_epsilon(1),
    fastdp.RandomizedResponse.from_epsilon(1, categories=300),
    fastdp.UnaryEncoding.from_epsilon(1, categories=13),
    fastdp.UnaryEncoding.from_epsilon(1, categories=64, symmetric=True),
    fastdp.LocalHashing.from_epsilon(1, categories=13),
    fastdp.HadamardResponse.from_epsilon(1, categories=13),
]


def reports_of(m: Any, n: int = 9001) -> Any:
    values = np.arange(n) ** 2 % m.categories
    return m.release(values, stream=FixedStream("reports"))


def same(one: Any, two: Any) -> bool:
    return (
        one.users == two.users
        and (one.counts == two.counts).all()
        and (one.standard_errors == two.standard_errors).all()
    )


def batches(m: Any) -> list[Aggregator]:
    cuts = [0, 0, 1, 700, 4096, 9000]
    return [m.aggregator().add(part) for part in np.split(reports_of(m), cuts)]


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_batches_give_the_estimate_of_one(m: Any) -> None:
    reports = reports_of(m)
    whole = m.aggregator().add(reports)
    assert whole.users == 9001
    assert whole.mechanism is m
    assert same(whole.estimate(), m.estimate(reports))
    running = m.aggregator()
    for start in range(0, 9001, 1000):
        assert running.add(reports[start : start + 1000], workers=2) is running
    assert running == whole
    assert same(running.estimate(), whole.estimate())


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_merging_is_associative_and_commutative(m: Any) -> None:
    whole = m.aggregator().add(reports_of(m))
    parts = batches(m)
    before = [pickle.dumps(part) for part in parts]
    left = reduce(operator.add, parts)
    right = reduce(lambda a, b: b + a, reversed(parts))
    shuffled = reduce(operator.add, parts[::2] + parts[1::2])
    halves = reduce(operator.add, parts[:3]) + reduce(operator.add, parts[3:])
    for merged in (left, right, shuffled, halves):
        assert merged == whole
        assert pickle.dumps(merged) == pickle.dumps(whole)
        assert same(merged.estimate(), whole.estimate())
    assert [pickle.dumps(part) for part in parts] == before
    empty = m.aggregator()
    assert whole + empty == empty + whole == whole
    target = m.aggregator()
    for part in parts:
        assert target.merge(part) is target
    assert target == whole
    assert target.merge(target).users == 2 * whole.users


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_copies_are_equal_and_independent(m: Any) -> None:
    whole = m.aggregator().add(reports_of(m))
    for protocol in range(2, 6):
        assert pickle.loads(pickle.dumps(whole, protocol)) == whole
    for again in (copy.copy(whole), copy.deepcopy(whole)):
        assert again == whole
        again.add(reports_of(m, 5))
        assert again != whole
        assert whole.users == 9001
    assert m.aggregator() != whole
    assert whole != "whole"
    with pytest.raises(TypeError, match="unhashable"):
        hash(whole)
    assert repr(whole) == f"<Aggregator of {m!r}: 9001 users>"


def test_estimates_do_not_change_with_the_tally() -> None:
    for m in MECHANISMS:
        running = m.aggregator().add(reports_of(m))
        first = running.estimate()
        counts = first.counts.copy()
        running.add(reports_of(m))
        assert (first.counts == counts).all()
        assert running.estimate().counts == pytest.approx(2 * counts)


def test_packed_bits_and_bools_and_bytes_have_one_tally() -> None:
    m = MECHANISMS[0]
    bits = np.arange(1003) % 3 == 0
    plain = m.aggregator().add(bits)
    assert m.aggregator().add(bits.astype(np.uint8)) == plain
    packed = m.aggregator().add(np.packbits(bits), packed=True, count=1003)
    assert packed == plain
    assert same(packed.estimate(), m.estimate(bits))


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_other_mechanisms_are_refused(m: Any) -> None:
    whole = m.aggregator().add(reports_of(m))
    before = pickle.dumps(whole)
    for other in (*MECHANISMS, type(m).from_epsilon(2, categories=m.categories)):
        if other != m:
            with pytest.raises(ParameterError, match="other must count reports of"):
                whole.merge(other.aggregator())
            with pytest.raises(ParameterError, match="other must count reports of"):
                whole + other.aggregator()
    for bad in (m, None, 0, {}):
        with pytest.raises(DTypeError, match="other must be an Aggregator"):
            whole.merge(bad)
        with pytest.raises(TypeError, match="unsupported operand"):
            whole + bad
    assert pickle.dumps(whole) == before


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_a_refused_or_failed_batch_leaves_the_tally(m: Any, monkeypatch: Any) -> None:
    whole = m.aggregator().add(reports_of(m))
    before = pickle.dumps(whole)
    with pytest.raises(DTypeError):
        whole.add(np.zeros(5))
    with pytest.raises(ParameterError):
        whole.add(reports_of(m), workers=0)
    for kernel in ("histogram", "column_sums", "hash_support"):
        original = getattr(_core, kernel)

        def failing(*args: Any, original: Any = original) -> None:
            original(*args)
            raise KeyboardInterrupt

        monkeypatch.setattr(_core, kernel, failing)
    for workers in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            whole.add(reports_of(m), workers=workers)
    assert pickle.dumps(whole) == before


def test_states_of_other_versions_are_refused() -> None:
    m = MECHANISMS[2]
    restore, (version, *state) = m.aggregator().__reduce__()
    assert version == VERSION == 1
    assert restore(version, *state) == m.aggregator()
    with pytest.raises(ParameterError, match=r"version .* must be 1, got 2"):
        restore(2, *state)
    with pytest.raises(ParameterError, match="must have 104 bytes, got 96"):
        restore(1, m, 5, bytes(96))
