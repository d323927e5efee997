"""Noise beyond what the value arrays hold is added exactly before saturation.

Only the exact steps can give such values, with probability below 2^-90 a sample; here a
program of C hands them to the sums (tests/packaging/core_alone.c to whole releases).
"""

import os
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.exceptions import FastDPError
from fastdp.mechanisms.choices import sparse_vector
from fastdp.testing import FixedStream
from tests.differential.test_targets import BIG, on_grid

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
#: fdp_dtype_t
TYPES = ["", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("needs a C compiler")
    root, late = Path(__file__).parents[2], tmp_path_factory.mktemp("late") / "late"
    sources = ["mech/target.c", "sampler/kernels_portable.c", "sampler/settle.c"]
    build = [compiler, "-std=c11", "-O1", "-D_DEFAULT_SOURCE", f"-I{root / 'csrc'}"]
    build += [root / "csrc" / name for name in sources]
    build += [Path(__file__).with_name("late.c"), "-lm", "-o", late]
    subprocess.run(build, check=True)
    return late


def sums(program, x, noise, out_dtype, step=0.0):
    """Return x[i] + noise[i], as the core stores it."""
    bits = np.float64(step).view(np.uint64)
    codes = [TYPES.index(np.dtype(d).str[1:]) for d in (x.dtype, out_dtype)]
    lines = [
        f"{codes[0]:x} {codes[1]:x} {bits:x} {int.from_bytes(v.tobytes(), 'little'):x} "
        f"{(k >> 64) % 2**64:x} {k % 2**64:x}"
        for v, k in zip(x, noise, strict=True)
    ]
    run = subprocess.run(
        [program], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    raw = b"".join(int(line, 16).to_bytes(8, "little") for line in run.stdout.split())
    return np.frombuffer(raw, np.dtype(out_dtype))[:: 8 // np.dtype(out_dtype).itemsize]


@pytest.mark.parametrize("out_dtype", [np.int64, np.int8, np.uint32])
@pytest.mark.parametrize("x_dtype", [np.int64, np.int8])
def test_sum_is_exact_then_saturates(program, x_dtype, out_dtype):
    limits, most = np.iinfo(x_dtype), np.iinfo(out_dtype)
    some = [limits.min, -1, 0, 1, limits.max]
    x = np.array(some * len(LARGE), x_dtype)
    noise = np.repeat(np.array(LARGE, object), len(some)).tolist()
    exact = [
        max(min(a + b, most.max), most.min)
        for a, b in zip(x.tolist(), noise, strict=True)
    ]
    assert sums(program, x, noise, out_dtype).tolist() == exact


@pytest.mark.parametrize("stream", [None, FixedStream("none")])
def test_a_sampler_without_a_law_is_refused(stream):
    empty = _core.Sampler()
    out = np.ones(40, np.int64)
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
def test_grid_sum_is_exact_for_any_noise(program, step, dtype):
    limit = float(np.finfo(dtype).max)
    with np.errstate(over="ignore"):
        parts = [reals(step, value).astype(dtype) for value in FAR]
    x = np.concatenate(parts)
    noise = np.repeat(np.array(FAR, object), [len(part) for part in parts]).tolist()
    grid = (step, -BIG, BIG, 0.0)
    answers = [on_grid(v, k, grid) for v, k in zip(x.tolist(), noise, strict=True)]
    expected = np.clip(np.array(answers), -limit, limit).astype(dtype)
    kind = np.uint64 if dtype is np.float64 else np.uint32
    got = sums(program, x, noise, dtype, step)
    assert (got.view(kind) == expected.view(kind)).all()
    assert len(np.unique(got)) > len(FAR) or (dtype is np.float32 and step != 1.0)


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
