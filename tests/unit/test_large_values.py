"""Noise beyond what the value arrays hold is added exactly before saturation.

Only the exact resolver can give such values, with probability below 2^-90 a
sample; here it is replaced by one that does.
"""

from fractions import Fraction

import numpy as np
import pytest

from fastdp import _core, _tables
from fastdp.exceptions import FastDPError
from fastdp.testing import FixedStream

N = 40
LARGE = [
    2**28,
    -(2**29) - 1,
    -(2**61),
    2**62,
    2**63 - 1,
    -(2**63),
    2**63 + 5,
    -(2**63) - 7,
    2**64 + 9,
    -(2**70),
]
LAWS = [("laplace", 10), ("laplace", 2**40), ("gaussian", 3), ("gaussian", 2**40)]


def sampler(law, parameter, resolver, **options):
    table = getattr(_tables, f"{law}_table")(Fraction(parameter))
    made = getattr(_core.Sampler, law)(table, resolver, **options)
    wide = 0.5 if law == "laplace" else 5.0
    return made.widen(narrow=wide, wide=wide)


def saturated(value, dtype):
    limits = np.iinfo(dtype)
    return max(min(value, limits.max), limits.min)


@pytest.mark.parametrize("out_dtype", [np.int64, np.int8, np.uint32])
@pytest.mark.parametrize("x_dtype", [np.int64, np.int8])
@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize(("law", "parameter"), LAWS)
def test_sum_is_exact_then_saturates(law, parameter, value, x_dtype, out_dtype):
    limits = np.iinfo(x_dtype)
    x = np.resize(np.array([limits.min, -1, 0, 1, limits.max], x_dtype), N)
    plain, large = np.zeros(N, out_dtype), np.zeros(N, out_dtype)
    calls = []

    def resolve(words, block):
        calls.append(words)
        return value if len(calls) in (2, 3) else 1

    for out, resolver in ((plain, lambda words, block: 1), (large, resolve)):
        law_sampler = sampler(law, parameter, resolver)
        _core.fill(_core.Call(FixedStream("large")), law_sampler, x, out)
    assert len(calls) > 3
    changed = np.flatnonzero(plain != large)
    expected = [saturated(int(x[i]) + value, out_dtype) for i in range(N)]
    assert all(large[i] == expected[i] for i in changed)
    # Two values were large; a sum may saturate to what it was without.
    same = sum(int(plain[i]) == expected[i] for i in range(N))
    assert len(changed) == 2 or (len(changed) < 2 and same >= 2 - len(changed))


def test_in_place_reads_the_data_before_it_writes():
    x = np.full(N, -(2**63), np.int64)
    values = iter([2**63 + 5])
    law = sampler("laplace", 2**40, lambda words, block: next(values, 0))
    _core.fill(_core.Call(FixedStream("large")), law, x, x)
    assert 5 in x.tolist()


def test_a_bound_rejects_them():
    values = iter([2**61, 2**28, -(2**63) - 7])
    law = sampler("laplace", 10, lambda words, block: next(values, 0), bound=50)
    out = np.zeros(N, np.int64)
    _core.fill(_core.Call(FixedStream("large")), law, None, out)
    assert np.abs(out).max() <= 50
    assert next(values, None) is None


def test_more_than_a_chunk_can_hold_fails_closed():
    law = sampler("gaussian", 2**40, lambda words, block: 2**62)
    out = np.ones(N, np.int64)
    with pytest.raises(FastDPError, match="status 4"):
        _core.fill(_core.Call(FixedStream("large")), law, None, out)
    assert not out.any()


@pytest.mark.parametrize("stream", [None, FixedStream("none")])
def test_a_sampler_without_a_law_is_refused(stream):
    empty = _core.Sampler(lambda words, block: 1)
    out = np.ones(N, np.int64)
    for draw in (
        lambda: _core.fill_one(empty, 5, stream),
        lambda: _core.fill_one_real(empty, 5.0, (1.0, -9.0, 9.0, 0.0), stream),
        lambda: _core.fill(_core.Call(stream), empty, None, out),
        lambda: _core.fill(stream, empty, None, out),
    ):
        with pytest.raises(FastDPError, match=r"no law|status 1"):
            draw()
