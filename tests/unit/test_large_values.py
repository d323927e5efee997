"""Noise beyond what the value arrays hold is added exactly before saturation.

Only the exact resolver can give such values, with probability below 2^-90 a
sample; here it is replaced by one that does.
"""

from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.exceptions import FastDPError
from fastdp.mechanisms.choices import sparse_vector
from fastdp.testing import FixedStream, TapeStream
from tests.differential.test_targets import on_grid
from tests.reference import exact_digits, exact_tilt

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
LAWS = [("laplace", 10), ("laplace", 2**40), ("gaussian", 8), ("gaussian", 2**40)]


def table_of(law, parameter):
    if law == "laplace":
        return exact_digits.laplace(Fraction(parameter))
    return exact_tilt.gaussian(Fraction(parameter))


def sampler(law, parameter, resolver, **options):
    if law == "laplace":
        made = _core.Sampler.laplace(Fraction(parameter), **options)
    else:
        made = _core.Sampler.gaussian(Fraction(parameter))
    return made.widen(narrow=5.0, wide=5.0, resolver=resolver)


def stream_of(law, parameter):
    """A stream whose lanes all are special."""
    table = table_of(law, parameter)
    if isinstance(table, exact_tilt.Tilted):
        start = 16 * exact_tilt.TRIES
    else:
        start = 128 * 8 * (2 if table.shift == 0 else 4 if table.low <= 3 else 8)
    cut, alias = table.first
    column = alias.index(exact_digits.SPECIAL)
    main = np.zeros((1, start + 1024), np.uint8)
    main[0, start:][:64] = column
    main[0, start:][64:128] = cut[column]
    return TapeStream(main)


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
        _core.fill(_core.Call(stream_of(law, parameter)), law_sampler, x, out)
    assert len(calls) > 3
    changed = np.flatnonzero(plain != large)
    expected = [saturated(int(each) + value, out_dtype) for each in x[:5]] * (
        N // 5 + 1
    )
    assert all(large[i] == expected[i] for i in changed)
    # Two values were large; a sum may saturate to what it was without.
    same = sum(int(plain[i]) == expected[i] for i in range(N))
    assert len(changed) == 2 or (len(changed) < 2 and same >= 2 - len(changed))


def test_in_place_reads_the_data_before_it_writes():
    x = np.full(N, -(2**63), np.int64)
    values = iter([2**63 + 5])
    law = sampler("laplace", 2**40, lambda words, block: next(values, 0))
    _core.fill(_core.Call(stream_of("laplace", 2**40)), law, x, x)
    assert 5 in x.tolist()


def test_a_bound_rejects_them():
    values = iter([2**61, 2**28, -(2**63) - 7])
    law = sampler("laplace", 10, lambda words, block: next(values, 0), bound=50)
    out = np.zeros(N, np.int64)
    _core.fill(_core.Call(stream_of("laplace", 10)), law, None, out)
    assert np.abs(out).max() <= 50
    assert next(values, None) is None


@pytest.mark.parametrize("stream", [None, FixedStream("none")])
def test_a_sampler_without_a_law_is_refused(stream):
    empty = _core.Sampler()
    out = np.ones(N, np.int64)
    for draw in (
        lambda: _core.fill_one(empty, 5, stream),
        lambda: _core.fill_one_real(empty, 5.0, (1.0, -9.0, 9.0, 0.0), stream),
        lambda: _core.fill(_core.Call(stream), empty, None, out),
        lambda: _core.fill(stream, empty, None, out),
    ):
        with pytest.raises(FastDPError, match=r"no law|status 1"):
            draw()


GRIDS = [1.0, 2.0**-1000, 2.0**900, 2.0**-3]
FAR = [2**51, -(2**51) - 1, 2**53 + 1, -(2**61) - 3, 2**63 + 5, 2**64 + 9, -(2**79) + 1]


def reals(step, value):
    """Data on either side of ties with the noise, at all distances from it."""
    unit, noise = Fraction(step), Fraction(value) * Fraction(step)
    near = [0, 1, -1, Fraction(3, 2), -value, 1 - value, -2 * value, 2**52 + 1, 2**60]
    exact = [Fraction(k) * unit for k in near]
    exact += [noise * 2**k for k in (20, 52, 53, 54, 60, 100)]
    most = Fraction(np.finfo(np.float64).max)
    exact = [v for v in exact + [-v for v in exact] if abs(v) <= most]
    hard = [0.3, -0.0, np.nan, np.inf, -np.inf, 1.7e308, 2.0**1023, -(2.0**1000)]
    # Powers of two: half as far to the next double below as to the one above.
    hard += [step * 2.0**k for k in range(40, 140, 3) if step * 2.0**k < 1e308]
    return np.array([float(v) for v in exact] + hard)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("step", GRIDS)
@pytest.mark.parametrize("value", FAR)
@pytest.mark.parametrize(("law", "parameter"), [LAWS[0], ("laplace", 2**38), LAWS[3]])
def test_grid_sum_is_exact_for_any_noise(law, parameter, value, step, dtype):
    most = float(np.finfo(np.float64).max)
    limit = float(np.finfo(dtype).max)
    grid = (step, -most, most, 0.0)
    with np.errstate(over="ignore"):
        data = reals(step, value).astype(dtype)
    tried = 0
    for start in range(0, len(data), 4):
        x = np.resize(data[start : start + 4], N)
        calls = []

        def resolve(words, block, calls=calls):
            calls.append(words)
            return value if len(calls) in (2, 3) else 1

        plain, large = x.copy(), x.copy()
        one = sampler(law, parameter, lambda words, block: 1)
        _core.fill(_core.Call(stream_of(law, parameter)), one, plain, plain, 0, grid)
        many = sampler(law, parameter, resolve)
        _core.fill(_core.Call(stream_of(law, parameter)), many, large, large, 0, grid)
        answers = [on_grid(v, value, grid) for v in x.tolist()]
        expected = np.clip(np.array(answers), -limit, limit).astype(dtype)
        changed = np.flatnonzero(plain != large)
        kind = np.uint64 if dtype is np.float64 else np.uint32
        assert (large.view(kind) == expected.view(kind))[changed].all()
        assert len(changed) <= 2
        tried += len(changed)
    # Doubles of 2**-1000 are 0 as floats, those of 2**900 the largest.
    assert tried >= len(data) // 8 or (dtype is np.float32 and step not in GRIDS[::3])


def test_noise_that_no_trial_has_fails_closed():
    law = sampler("laplace", 10, lambda words, block: 2**100)
    out = np.ones(N, np.int64)
    with pytest.raises(FastDPError, match="no value"):
        _core.fill(_core.Call(stream_of("laplace", 10)), law, None, out)
    assert not out.any()


# --- integers among real numbers ------------------------------------------------------


@pytest.mark.parametrize(
    "x", [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 3, 2**60, 2**1023, 2**1023 + 1, 10**400]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_neighboring_integers_stay_neighbors(x, sign):
    """Conversion to the grid moves two ints no further apart than they were."""
    m = fastdp.Laplace(1.0, granularity=1.0, coordinates=1)
    noise = Fraction(float(m.release(0, stream=FixedStream("ints"))))
    reached = []
    for step in (0, 1, 2, 3):
        reached.append(sign * min(x + step, 2**53))
        y = m.release(sign * (x + step), stream=FixedStream("ints"))
        assert float(y) == float(reached[-1] + noise)
        assert abs(reached[-1] - reached[0]) <= step


def test_integers_of_a_sparse_vector_stay_neighbors():
    whole = np.array([2**53, 2**53 + 1, 2**53 + 3, 2**63 - 1, -(2**63), 5], np.int64)
    queries = sparse_vector._queries(whole)
    assert queries.tolist() == [2.0**53] * 4 + [-(2.0**53), 5.0]
    for x in (2**53 + 1, 2**53 + 3, 10**400):
        assert sparse_vector._queries(x) == 2.0**53
        assert sparse_vector._queries(-x) == -(2.0**53)
    assert sparse_vector._queries(np.int64(2**53 + 3)) == 2.0**53
