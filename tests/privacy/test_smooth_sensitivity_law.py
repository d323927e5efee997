"""Smooth sensitivity: the noise's exact law, the bound's smoothness, the loss."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest

import fastdp
from fastdp.mechanisms.choices._student import _OUTSIDE, decided, rounded_student
from fastdp.mechanisms.choices.median import _around_median, _smooth

Records = tuple[int, ...]
DIGITS = 30


# ---- Student's t, rounded ------------------------------------------------------------


def below(x: mp.mpf) -> mp.mpf:
    """Return P(T < x), 3 degrees of freedom."""
    z = x / mp.sqrt(3)
    return mp.mpf(1) / 2 + (z / (1 + z * z) + mp.atan(z)) / mp.pi


def mass(k: int, center: mp.mpf, scale: mp.mpf) -> mp.mpf:
    """Return P(round(center + scale T) = k), precise in both tails."""
    low, high = (k - center - 0.5) / scale, (k - center + 0.5) / scale
    if low > 0:
        low, high = -high, -low
    return below(high) - below(low)


def test_the_closed_form_is_the_law() -> None:
    with mp.workdps(DIGITS):
        for x in (-7, mp.mpf("-0.3"), mp.mpf("2.5")):
            area = mp.quad(
                lambda t: 2 / (mp.pi * mp.sqrt(3) * (1 + t * t / 3) ** 2),
                [-mp.inf, x - 1, x],
            )
            assert abs(area - below(x)) < mp.mpf(10) ** (8 - DIGITS)


@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(7, 3), Fraction(40)])
def test_cells_are_decided_as_the_law_has_it(scale: Fraction) -> None:
    # All cells of 8 bits: what is decided for k is at most its probability in the
    # square, and what is not decided makes up the rest.
    bits = 8
    counts: dict[int, int] = {}
    undecided = 0
    for p, q in itertools.product(range(1 << bits), repeat=2):
        found = decided(scale, p, q, bits)
        if found is None:
            undecided += 1
        else:
            counts[found] = counts.get(found, 0) + 1
    cells = 4**bits
    assert undecided < (0.5 if scale > 30 else 0.1) * cells
    with mp.workdps(DIGITS):
        laws = {_OUTSIDE: 1 - mp.pi / 4}  # accepted: pi/4
        for k in range(60):
            both = (1 if k == 0 else 2) * mass(k, mp.mpf(0), mp.mpf(1) * scale)
            laws[k] = both * mp.pi / 4
        for k, law in laws.items():
            share = mp.mpf(counts.get(k, 0)) / cells
            assert share <= law <= share + mp.mpf(undecided) / cells


def test_more_bits_settle_what_is_open() -> None:
    # A point next to a rounding boundary: its first 128 bits leave it open.
    scale = Fraction(10)
    p = 1 << 127  # a = 0: q sqrt(3) 10 = 8.5
    q = math.isqrt(8500**2 * (1 << 256) // (3 * 10**8))
    assert decided(scale, p, q, 128) is None
    for more, k in ((0, 8), (2**128 - 1, 9)):
        words = iter(
            [
                b"\0",
                p.to_bytes(16, "little") + q.to_bytes(16, "little"),
                bytes(16) + more.to_bytes(16, "little"),
            ]
        )
        assert rounded_student(scale, lambda n: next(words)) == k  # noqa: B023
    words = iter([b"\1", bytes(32), (2**127).to_bytes(16, "little") + bytes(16)])
    assert rounded_student(scale, lambda n: next(words)) == 0


def test_draws_have_the_law() -> None:
    # Kolmogorov-Smirnov on a fine grid, by a fixed stream.
    from scipy import stats

    with pytest.warns(fastdp.exceptions.InsecureStreamWarning):
        stream = fastdp.testing.FixedStream("student")
    raw = iter(fastdp.random.bytes(33 * 20_000, stream=stream))

    def draw(n: int) -> bytes:
        return bytes(itertools.islice(raw, n))

    x = np.array([rounded_student(Fraction(2**40), draw) for _ in range(12_000)])
    assert stats.kstest(x / 2.0**40, stats.t(3).cdf).pvalue > 0.01


# ---- the median's smooth sensitivity -------------------------------------------------


def datasets(n: int, points: int) -> list[Records]:
    return list(itertools.combinations_with_replacement(range(points), n))


def replaced(data: Records, points: int) -> Iterator[Records]:
    for i, value in itertools.product(range(len(data)), range(points)):
        yield tuple(sorted((*data[:i], value, *data[i + 1 :])))


def median(data: Records) -> int:
    return data[(len(data) - 1) // 2]


def claimed(data: Records, points: int, beta: Fraction) -> float:
    near = _around_median(np.array(data), points - 1, len(data))
    return _smooth(near, beta)


def by_definition(n: int, points: int, beta: float) -> dict[Records, float]:
    """Return the smooth sensitivity of all datasets: largest local one, shrunk."""
    local = {
        data: max(abs(median(data) - median(other)) for other in replaced(data, points))
        for data in datasets(n, points)
    }
    found: dict[Records, float] = dict.fromkeys(local, 0.0)
    reach = dict(local)  # the largest local sensitivity within k records
    for k in range(n + 1):
        for data in local:
            found[data] = max(found[data], math.exp(-beta * k) * reach[data])
        reach = {d: max(reach[o] for o in replaced(d, points)) for d in local}
    return found


@pytest.mark.parametrize(("n", "points"), [(5, 4), (4, 3), (6, 3), (1, 5), (2, 4)])
@pytest.mark.parametrize("beta", [Fraction(1, 6), Fraction(1), Fraction(1, 100)])
def test_it_is_the_definition(n: int, points: int, beta: Fraction) -> None:
    for data, wanted in by_definition(n, points, float(beta)).items():
        found = claimed(data, points, beta)
        assert max(wanted, 2.0**-20) <= found
        assert found <= max(wanted, 2.0**-20) * (1 + 2.0**-41)


@pytest.mark.parametrize(("n", "points"), [(7, 5), (5, 4), (4, 4), (6, 4)])
def test_it_is_smooth_for_all_neighbors(n: int, points: int) -> None:
    beta = Fraction(1, 6)
    most = math.exp(beta) * (1 + 2.0**-40)
    sizes = {data: claimed(data, points, beta) for data in datasets(n, points)}
    worst = 0.0
    for data, size in sizes.items():
        for other in replaced(data, points):
            assert abs(median(data) - median(other)) <= size
            worst = max(worst, sizes[other] / size)
    assert worst <= most
    assert worst == pytest.approx(math.exp(beta), rel=1e-11)  # met somewhere
    assert len(sizes) == {(7, 5): 330, (5, 4): 56, (4, 4): 35, (6, 4): 84}[n, points]


def test_the_example() -> None:
    size = claimed((0, 1, 2, 3, 10), 11, Fraction(1, 6))
    assert round(size, 4) == 6.7719  # 8 e^(-1/6), at k = 1
    assert size == pytest.approx(8 * math.exp(-1 / 6), rel=1e-12)


def test_records_far_from_the_median_do_not_matter() -> None:
    # The same with 2**15 records on either side as with all.
    rng = np.random.default_rng(5)
    data = np.sort(rng.integers(0, 1000, 5001))
    beta = Fraction(1, 10)
    whole = _smooth(_around_median(data.copy(), 999, 5001), beta)
    for reach in (209, 300):  # (ln(999) + 20 ln(2))/beta = 207.7
        assert _smooth(_around_median(data.copy(), 999, reach), beta) == whole


# ---- the loss ------------------------------------------------------------------------

#: A center and a scale, in steps.
Law = tuple[mp.mpf, mp.mpf]


@lru_cache
def masses(center: mp.mpf, scale: mp.mpf) -> list[mp.mpf]:
    """Return probabilities of integers in a window, and of what lies beyond it."""
    inner = [mass(k, center, scale) for k in range(-25, 28)]
    ends = below((-25 - center - 0.5) / scale), below((center - 27.5) / scale)
    return [*inner, *ends]


def loss(one: Law, other: Law) -> mp.mpf:
    """Return the largest ln ratio of probabilities of two rounded laws."""
    pairs = zip(masses(*one), masses(*other), strict=True)
    return max(mp.log(p / q) for p, q in pairs)


def median_loss(sizes: dict[Records, float], points: int, scale: Fraction) -> mp.mpf:
    laws = {
        d: (mp.mpf(median(d)), mp.mpf(1) * scale * size) for d, size in sizes.items()
    }
    return max(
        loss(laws[data], laws[other])
        for data in sizes
        for other in set(replaced(data, points))
    )


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 2, 6])
def test_no_pair_of_medians_loses_more(epsilon: Fraction) -> None:
    n, points = 5, 3
    with mp.workdps(DIGITS):
        m = fastdp.SmoothSensitivity.from_epsilon(epsilon, largest=points - 1)
        beta, scale = Fraction(m.smoothness), Fraction(m.scale)
        sizes = {data: claimed(data, points, beta) for data in datasets(n, points)}
        found = median_loss(sizes, points, scale)
        assert 0.3 * epsilon < found <= epsilon
        # The traps: the local sensitivity for the smooth one; a noise scale that pays
        # for no change of the scale; half the noise.
        local = {d: claimed(d, points, Fraction(50)) for d in sizes}
        assert median_loss(local, points, scale) > epsilon
        assert median_loss(sizes, points, scale / 4) > epsilon


def test_no_dilation_and_shift_lose_more() -> None:
    # The theorem itself, over a lattice of shifts and of ratios of the two scales.
    with mp.workdps(DIGITS):
        m = fastdp.SmoothSensitivity.from_epsilon(1, largest=1)
        scale, beta = mp.mpf(1) * Fraction(m.scale), mp.mpf(1) / 6

        def worst(scale: mp.mpf, size: float, extra: float) -> mp.mpf:
            first = mp.mpf(size)
            second = first * mp.exp(beta)
            shift = mp.floor(first + 1)  # rounded answers
            laws = (
                (mp.mpf(0), scale * (first + extra)),
                (shift, scale * (second + extra)),
            )
            return max(loss(*laws), loss(*reversed(laws)))

        for size in (0.01, 0.7, 1.5, 4.0):
            assert worst(scale, size, 1) <= 1
        assert worst(scale, 0.01, 0) > 1  # rounding not paid for
        # A change of the scale paid for with beta, as if the tails were light.
        wide, heavy = mp.exp(mp.mpf("0.3")), 2 / (mp.sqrt(3) * mp.mpf("0.7"))
        right = 2 / (mp.sqrt(3) * mp.mpf("0.1"))
        for factor, found in ((heavy, True), (right, False)):
            laws = (mp.mpf(0), factor * 3), (mp.mpf(3), factor * 3 * wide)
            assert (max(loss(*laws), loss(*reversed(laws))) > 1) is found


def test_the_figure_of_the_continuous_law() -> None:
    # A shift of .3 and a dilation of .05: .402 of .496.
    with mp.workdps(DIGITS):
        slope = 2 / mp.sqrt(3) * mp.mpf("0.3") + 3 * mp.mpf("0.05")
        wide = mp.exp(mp.mpf("0.05"))

        def difference(x: mp.mpf) -> mp.mpf:
            def log_density(z: mp.mpf) -> mp.mpf:
                return -2 * mp.log(1 + z * z / 3)

            return (
                log_density(x) - log_density((x - mp.mpf("0.3")) / wide) + mp.log(wide)
            )

        found = max(abs(difference(mp.mpf(i) / 50)) for i in range(-2000, 2001))
        assert mp.nstr(slope, 3) == "0.496"
        assert mp.nstr(found, 3) == "0.402"


def test_the_event_is_what_the_law_was_made_for() -> None:
    for epsilon in (1, 0.1, Fraction(1, 3), 20):
        m = fastdp.SmoothSensitivity.from_epsilon(epsilon, largest=1)
        stated = Fraction(m.event().epsilon)  # type: ignore[union-attr]
        assert Fraction(epsilon) * (1 - Fraction(1, 2**50)) < stated <= epsilon
        with mp.workdps(50):
            true = 3 * mp.mpf(1) * Fraction(m.smoothness) + 2 / (
                mp.sqrt(3) * Fraction(m.scale)
            )
            assert true <= mp.mpf(1) * stated
