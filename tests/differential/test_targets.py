"""Where noise goes: sums and roundings against exact arithmetic on the same noise."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp import _core
from tests.differential.layout import Keyed, Law, expected

KEY = bytes(range(50, 82))
LEAST, MOST = -(2**63), 2**63 - 1
NARROW = Law("laplace", Fraction(1000))
WIDE = Law("laplace", Fraction(2**55))
GAUSSIAN = Law("gaussian", Fraction(10))
GAUSSIAN_WIDE = Law("gaussian", Fraction(2**40))
N = 5000

pytestmark = pytest.mark.usefixtures("level")


def filled(
    law: Law, x: np.ndarray | None, out: np.ndarray, grid: object = None
) -> np.ndarray:
    _core.fill(_core.Call(Keyed(KEY)), law.sampler(), x, out, 0, grid)
    return out


def noise_of(law: Law, n: int = N) -> np.ndarray:
    return expected(law, _core.Call(Keyed(KEY)), n)


# --- integers ---------------------------------------------------------------------


@pytest.mark.parametrize("law", [NARROW, WIDE, GAUSSIAN, GAUSSIAN_WIDE], ids=str)
@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]
)
def test_noise_into_narrow_types_saturates(law: Law, dtype: str) -> None:
    limits = np.iinfo(dtype)
    out = filled(law, None, np.zeros(N, dtype))
    noise = noise_of(law)
    assert (out == np.clip(noise, limits.min, limits.max)).all()
    if limits.max < 256 and law is not GAUSSIAN:
        assert {limits.min, limits.max} <= set(out.tolist())


def near_the_ends(noise: np.ndarray) -> np.ndarray:
    """Data whose sums with the noise lie at, before and beyond the ends of int64."""
    rng = np.random.default_rng(3)
    rows = []
    for i, k in enumerate(noise.tolist()):
        least, most = max(LEAST, LEAST - k), min(MOST, MOST - k)
        near = (LEAST, MOST, least, most, least + 1, most - 1, least - 1, most + 1)
        x = (*near, 0, int(rng.integers(LEAST, MOST)), LEAST + 1, MOST - 1)[i % 12]
        rows.append(min(max(x, LEAST), MOST))
    return np.array(rows, np.int64)


@pytest.mark.parametrize("law", [NARROW, WIDE, GAUSSIAN, GAUSSIAN_WIDE], ids=str)
@pytest.mark.parametrize("in_place", [True, False])
def test_sums_saturate_at_both_ends_of_int64(law: Law, in_place: bool) -> None:
    noise = noise_of(law)
    x = near_the_ends(noise)
    sums = [a + b for a, b in zip(x.tolist(), noise.tolist(), strict=True)]
    answers = [min(max(s, LEAST), MOST) for s in sums]
    assert min(sums) < LEAST
    assert max(sums) > MOST
    assert {LEAST, LEAST + 1, MOST - 1, MOST} <= set(sums)
    data = x.copy()
    out = filled(law, data, data if in_place else np.zeros(N, np.int64))
    assert out.tolist() == answers
    assert in_place or (data == x).all()


@pytest.mark.parametrize("law", [NARROW, WIDE, GAUSSIAN_WIDE], ids=str)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("int8", "int64"),
        ("uint32", "int64"),
        ("int16", "uint8"),
        ("uint8", "uint16"),
        ("int64", "int32"),
        ("int32", "int32"),
        ("int64", "int8"),
    ],
)
def test_sums_of_other_types_are_exact_before_they_saturate(
    law: Law, source: str, target: str
) -> None:
    limits = np.iinfo(source)
    rng = np.random.default_rng(4)
    x = rng.integers(limits.min, limits.max, N, source, endpoint=True)
    x[:2] = limits.min, limits.max
    least, most = np.iinfo(target).min, np.iinfo(target).max
    noise = noise_of(law)
    answers = [
        min(max(min(max(a + b, LEAST), MOST), least), most)
        for a, b in zip(x.tolist(), noise.tolist(), strict=True)
    ]
    assert filled(law, x, np.zeros(N, target)).tolist() == answers


@pytest.mark.parametrize("law", [NARROW, WIDE], ids=str)
def test_scalars_are_sums_too(law: Law) -> None:
    k = int(noise_of(law, 1)[0])
    for x in (0, 5, LEAST, MOST, -k):
        one = _core.fill_one(law.sampler(), x, Keyed(KEY))
        assert int(one) == min(max(x + k, LEAST), MOST)


# --- floats on a grid ---------------------------------------------------------------


BIG = float(np.finfo(np.float64).max)
SPECIAL = [0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1e-300, -1e-300, 0.5, -0.5, 1.5, 2.5]
SPECIAL += [3.5, -2.5, 0.1, -0.1, 1e15, 2.0**52, 2.0**53, 2.0**53 + 2, -(2.0**60)]
SPECIAL += [1e300, -1e300, BIG, -BIG, np.inf, -np.inf, np.nan, 2.0**62, 1 / 3]


def on_grid(x: float, k: int, grid: tuple[float, float, float, float]) -> float:
    """Clamp, round half-even to the grid, add k steps; round the sum once."""
    step, low, high, nan = grid
    clamped = min(max(nan if x != x else x, low), high)
    exact_step = Fraction(step)
    total = (round(Fraction(clamped) / exact_step) + k) * exact_step
    try:
        return float(total)
    except OverflowError:
        return BIG if total > 0 else -BIG


def float_data(step: float, dtype: type) -> np.ndarray:
    """Special values, ties and near ties of the grid, and random magnitudes."""
    rng = np.random.default_rng(6)
    halves = (rng.integers(-(2**20), 2**20, 800) + 0.5) * step
    anchors = step * (2.0**52 + rng.integers(-9, 9, 200) / 2) * rng.choice([-1, 1], 200)
    wide = np.ldexp(rng.normal(size=1500), rng.integers(-1060, 1020, 1500))
    close = rng.normal(size=1500) * step * 2.0 ** rng.integers(0, 60, 1500)
    parts = [SPECIAL, halves, np.nextafter(halves, 0), anchors, wide, close]
    with np.errstate(over="ignore"):
        x = np.concatenate(parts).astype(dtype)
    rng.shuffle(x)
    return x


GRIDS = [
    (step, *limits)
    for step, limits in itertools.product(
        (2.0**-40, 2.0**-1000, 2.0**-3, 1.0, 2.0**20, 2.0**900),
        ((-BIG, BIG, 0.0), (-1e4, 123.456, -1e4)),
    )
]


@pytest.mark.parametrize("law", [NARROW, GAUSSIAN, GAUSSIAN_WIDE], ids=str)
@pytest.mark.parametrize("grid", GRIDS, ids=lambda g: f"{g[0]:g},{g[2]:g}")
def test_float64_release_is_the_exact_sum_rounded_once(
    law: Law, grid: tuple[float, float, float, float]
) -> None:
    x = float_data(grid[0], np.float64)
    noise = noise_of(law, len(x))
    answers = np.array(
        [on_grid(a, k, grid) for a, k in zip(x.tolist(), noise.tolist(), strict=True)]
    )
    out = filled(law, x, x.copy(), grid)
    # Bit patterns: a sum of zero has no sign, which could tell the data's.
    assert (out.view(np.uint64) == answers.view(np.uint64)).all()
    assert np.isfinite(out).all()


@pytest.mark.parametrize("grid", GRIDS, ids=lambda g: f"{g[0]:g},{g[2]:g}")
def test_float32_release_is_that_of_float64_rounded(
    grid: tuple[float, float, float, float],
) -> None:
    x = float_data(grid[0], np.float32)
    noise = noise_of(NARROW, len(x))
    most = float(np.finfo(np.float32).max)
    answers = np.array(
        [
            min(max(on_grid(a, k, grid), -most), most)
            for a, k in zip(x.tolist(), noise.tolist(), strict=True)
        ]
    ).astype(np.float32)
    out = filled(NARROW, x, x.copy(), grid)
    assert (out.view(np.uint32) == answers.view(np.uint32)).all()


@pytest.mark.parametrize("granularity", [None, 2.0**-10, 16])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_mechanism_releases_the_exact_sum(
    granularity: float | None, dtype: type
) -> None:
    laplace = fastdp.Laplace(scale=2500.0, granularity=granularity, coordinates=1)
    step = Fraction(laplace.granularity)
    law = Law("laplace", Fraction(2500) / step)
    x = float_data(float(step), dtype)
    grid = (float(step), -BIG, BIG, 0.0)
    noise = noise_of(law, len(x))
    answers = np.array(
        [on_grid(a, k, grid) for a, k in zip(x.tolist(), noise.tolist(), strict=True)]
    )
    most = float(np.finfo(dtype).max)
    answers = np.clip(answers, -most, most).astype(dtype)
    assert (laplace.release(x, stream=Keyed(KEY)) == answers).all()


def test_in_place_release_of_floats() -> None:
    grid = GRIDS[2]
    x = float_data(grid[0], np.float64)
    out = filled(GAUSSIAN, x, np.zeros_like(x), grid)
    assert (filled(GAUSSIAN, x, x, grid) == out).all()
    assert x is not out


@pytest.mark.parametrize("x", [0.0, -0.0, 1e308, float("nan"), float("-inf"), 2.5])
def test_float_scalars_are_the_same_sum(x: float) -> None:
    grid = (0.25, -BIG, BIG, 0.0)
    k = int(noise_of(GAUSSIAN, 1)[0])
    one = _core.fill_one_real(GAUSSIAN.sampler(), x, grid, Keyed(KEY))
    assert float(one) == on_grid(x, k, grid)
