"""Sums of losses in cells: every level is right to what theorem 18 charges."""

from fractions import Fraction

import numpy as np
import pytest

from fastdp import _core
from tests.reference.gather import gathered

U = Fraction(1, 2**52)

#: Losses next to 0, of all sizes together, and beyond what an exponential bears.
SCALES = [(1e-12, 1e-12), (1e-9, 3.0), (0.4, 0.4), (500.0, 500.0)]


def laws(seed, scales, size=14):
    rng = np.random.default_rng(seed)
    found = []
    for n in (size, size + 5):
        half = rng.normal(0, scales[0], n // 2), rng.normal(0, scales[1], n - n // 2)
        loss = np.unique(np.concatenate([*half, [0.0]]))
        found += [loss, rng.random(loss.size) * 10 ** rng.uniform(-30, 0, loss.size)]
    return rng, found


def cells(rng, a, b, number):
    low, high = float(a[0] + b[0]), float(a[-1] + b[-1])
    some = rng.choice((a[:, None] + b).ravel(), number)
    return np.unique(np.concatenate([[low, high], some]))


def additions(a, b, ends):
    """Return how many follow each other: by lanes of eight rows, and of these sums."""
    most, folds = 0, range(0, a.size, 8)
    for i in folds:
        place = np.searchsorted(ends, a[i : i + 8, None] + b, side="right") - 1
        for lane in (0, 1):
            most = max(most, np.bincount(place[:, lane::2].ravel()).max())
    return most + 2 * len(folds)


def wrong(seed, scales, number, square, ratios=False):
    """Return the cells that are further off than they may be."""
    rng, (a, u, b, v) = laws(seed, scales)
    if square:
        b, v = a, u
    edges = cells(rng, a, b, number)
    ends = np.append(edges[:-1], np.inf)
    p, d, most = _core.gather_sums(a, u, b, v, ends, square, ratios)
    args = [x.tolist() for x in (a, u, b, v, edges)]
    exact_p, exact_d, terms = gathered(*args, ratios)
    assert square or most == additions(a, b, ends)
    bad = []
    for c in range(len(terms)):
        charged = (min(terms[c], most) + 16) * U
        if abs(Fraction(p[c]) - exact_p[c]) > charged * exact_p[c]:
            bad.append(c)
        # gaps that 40 digits do not resolve below 2^-200 are not in these laws
        if abs(Fraction(d[c]) - exact_d[c]) > charged * -exact_d[c] + U**3:
            bad.append(c)
    return bad


@pytest.mark.parametrize("ratios", [False, True])
@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("scales", SCALES)
def test_every_level_is_as_right_as_is_charged(level, scales, square, ratios):
    for seed, number in ((1, 3), (2, 20), (3, 100)):
        assert wrong(seed, scales, number, square, ratios) == []


def test_a_wrong_term_is_seen(monkeypatch):
    right = _core.gather_sums

    def slightly_off(*args):
        p, d, most = right(*args)
        return p, d * (1 + 100 * float(U)), most

    monkeypatch.setattr(_core, "gather_sums", slightly_off)
    assert wrong(3, SCALES[2], 100, False)


def test_long_rows_are_taken_in_blocks():
    a = np.linspace(-1, 1, 700)
    u = np.full(700, 1 / 700)
    ends = np.array([-2.0, -0.5, 0.25, np.inf])
    p, d, most = _core.gather_sums(a, u, a, u, ends, False)
    same, like, half = _core.gather_sums(a, u, a, u, ends, True)
    assert p.sum() == pytest.approx(1, rel=1e-10)
    np.testing.assert_allclose(same, p, rtol=1e-10)
    np.testing.assert_allclose(like, d, rtol=1e-10)
    assert half < most == additions(a, a, ends) < 700**2 / 100
    place = np.searchsorted(ends, (a[:, None] + a).ravel(), side="right") - 1
    np.testing.assert_allclose(p, np.bincount(place) / 700**2, rtol=1e-10)
