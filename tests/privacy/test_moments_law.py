"""Moments of a column: integers of every record, their sensitivity, and intervals."""

import itertools
import math

import numpy as np
import pytest

import fastdp
import fastdp.testing
from fastdp.accounting.events import NeighboringRelation
from tests.reference.column import row

A = NeighboringRelation.ADD_OR_REMOVE_ONE
R = NeighboringRelation.REPLACE_ONE


def columns():
    rng = np.random.default_rng(1)
    x = rng.normal(size=3000) * 10.0 ** rng.uniform(-8, 3, 3000)
    x[::50] = rng.choice([0.0, 5e-324, 1e308, -math.inf, math.inf, math.nan], 60)
    return x


@pytest.mark.parametrize("bits", [1, 2, 3, 8])
def test_no_record_is_outside_the_proved_norms(bits):
    """Every u of the grid: the norms of docs/proofs/sums.md, reached at the ends."""
    one = 2**bits
    grid = [row(u / one, (-1.0, 1.0), bits) for u in range(-one, one + 1)]
    assert {z[1] for z in grid} == set(range(-one, one + 1))
    squares = [one**2 + u * u + q * q for _, u, q in grid]
    lengths = [one + abs(u) + abs(q) for _, u, q in grid]
    assert 4 * max(squares) == 9 * one**2
    assert 2 * max(lengths) == 5 * one
    pairs = list(itertools.product(grid, repeat=2))
    apart = [(a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2 for a, b in pairs]
    assert max(apart) <= 4 * one**2 + (one if bits < 8 else 0)
    assert max(apart) == 4 * one**2 or bits < 3
    sized = [abs(a[1] - b[1]) + abs(a[2] - b[2]) for a, b in pairs]
    assert 4 * max(sized) <= 9 * one + 4


def integer_rows(m, records):
    """What one dataset puts into the noise: rows of the release's own integers."""
    acc = m.accumulator()
    x = np.array([v for v, _ in records], np.float64)
    by = np.array([g for _, g in records], np.int64) if m._shape.groups else None
    rows = acc.add(x, by=by)._rows()
    return rows[: 1 + m._shape.moments].ravel()


@pytest.mark.parametrize("moments", [1, 2])
@pytest.mark.parametrize("relation", [A, R])
@pytest.mark.parametrize("kind", ["scale", "sigma"])
@pytest.mark.parametrize("groups", [None, 2])
def test_all_neighbors_on_a_small_domain(kind, relation, moments, groups):
    m = fastdp.Moments(
        **{kind: 3}, bounds=(-1, 1), moments=moments, groups=groups,
        neighboring_relation=relation,
    )  # fmt: skip
    values = [-math.inf, -1.0, -0.5, -0.25, 0.0, 0.3, 1.0, math.nan]
    codes = (-1, 0, 1) if groups else (0,)
    records = list(itertools.product(values, codes))
    base = [(0.5, 0)]
    moved = []
    for a in records:
        after = [[*base, b] for b in records] if relation is R else [base]
        moved += [integer_rows(m, [*base, a]) - integer_rows(m, d) for d in after]
    stated = m.event().sensitivity
    if kind == "scale":
        assert max(int(np.abs(d).sum()) for d in moved) <= stated
    else:
        assert max(sum(int(v) ** 2 for v in d) for d in moved) <= stated**2
    nearly = max(float(np.abs(d).sum()) for d in moved) / float(stated)
    assert kind == "sigma" or nearly > 0.8  # the statement is not idle


def test_several_records_and_groups_of_one_individual():
    m = fastdp.Moments(
        scale=1, bounds=(0, 1), groups=4, groups_per_unit=2, records_per_group=3
    )
    person = [(1.0, 0)] * 3 + [(1.0, 2)] * 3
    moved = integer_rows(m, [(0.2, 1), *person]) - integer_rows(m, [(0.2, 1)])
    assert np.abs(moved).sum() == m.event().sensitivity
    g = fastdp.Moments(
        sigma=1, bounds=(0, 1), groups=4, groups_per_unit=2, records_per_group=3
    )
    assert sum(int(v) ** 2 for v in moved) <= g.event().sensitivity ** 2


def test_order_and_workers_do_not_show():
    x = columns()
    m = fastdp.Moments.from_rho(0.1, bounds=(-1, 1))
    stream = fastdp.testing.FixedStream

    def found(values, workers=1):
        return m.release(values, stream=stream(bytes(32)), workers=workers)._sums

    whole = found(np.tile(x, 60))
    np.testing.assert_array_equal(found(np.tile(x[::-1], 60), workers=3), whole)
    parts = m.accumulator()
    for piece in np.array_split(np.tile(x, 60), 7):
        parts.merge(m.accumulator().add(piece))
    np.testing.assert_array_equal(parts.release(stream=stream(bytes(32)))._sums, whole)


@pytest.mark.rest
@pytest.mark.parametrize("kind", ["rho", "epsilon"])
def test_intervals_hold_the_truth(kind):
    """3,000 releases of 200 records at level 0.9; above 420 misses of one kind have
    probability below 1e-11 (binomial, 0.1)"""
    x = np.random.default_rng(0).uniform(0, 100, 200)
    make = fastdp.Moments.from_rho if kind == "rho" else fastdp.Moments.from_epsilon
    m = make(0.5, bounds=(0, 100))
    missed = np.zeros(4, int)
    truths = (200, x.sum(), x.mean(), x.var())
    for _ in range(3000):
        r = m.release(x)
        found = (
            r.count_interval(0.9),
            r.sum_interval(0.9),
            r.mean_interval(0.9),
            r.variance_interval(0.9),
        )
        missed += [not a <= t <= b for (a, b), t in zip(found, truths, strict=True)]
    assert (missed <= 420).all()


def test_a_fixed_size_shows_and_nan_is_the_center():
    m = fastdp.Moments.from_rho(1e4, bounds=(0, 10), neighboring_relation=R)
    r = m.release(np.array([math.nan] * 1000))
    assert r.count == 1000.0
    assert r.count_interval(0.9) == (1000.0, 1000.0)
    assert r.mean == pytest.approx(5, abs=0.01)  # sigma .014: 700 of them
    empty = fastdp.Moments.from_rho(0.1, bounds=(0, 10)).release(np.zeros(0))
    low, high = empty.mean_interval(1 - 1e-12)
    assert (low, high) == (0.0, 10.0)  # count noise stays below 7.1 sigma


@pytest.mark.parametrize("bounds", [(-1.7e308, 1.7e308), (1e308, 1.7e308)])
def test_huge_bounds_saturate_without_a_word(bounds):
    """Warnings are errors here: sums and squares are beyond the doubles."""
    r = fastdp.Moments.from_rho(1, bounds=bounds).release(np.full(1000, math.inf))
    assert r.sum == np.finfo(float).max
    low, high = r.sum_interval(0.9)
    assert low < high == math.inf
    assert bounds[0] <= r.mean <= bounds[1]
    assert 0 <= r.variance <= np.finfo(float).max
    assert 0 <= r.variance_interval(0.9)[0] <= r.variance_interval(0.9)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of sigma and scale"),
        ({"sigma": 1, "bounds": (1, 0)}, "low < high"),
        ({"sigma": 1, "bounds": (0, 2.0**-1020)}, r"2\*\*-999 or more"),
        ({"sigma": 1, "bounds": (0, math.nan)}, "bounds must be finite"),
        ({"sigma": 1, "bounds": 3}, "pair"),
        ({"sigma": 1, "moments": 3}, "moments must be"),
        ({"sigma": 1, "groups_per_unit": 2}, "groups_per_unit must be"),
        ({"sigma": 1, "records_per_group": 0}, "records_per_group must be"),
        ({"sigma": 1, "neighboring_relation": "x"}, "NeighboringRelation"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(fastdp.FastDPError, match=message):
        fastdp.Moments(**{"bounds": (0, 1), **arguments})


def test_bad_data_are_refused_by_form():
    m = fastdp.Moments.from_rho(0.1, bounds=(0, 1))
    g = fastdp.Moments.from_rho(0.1, bounds=(0, 1), groups=2)
    for call, message in (
        (lambda: m.release(np.zeros((2, 2))), r"x must have shape \(n,\)"),
        (lambda: m.release(np.array(["a"])), "x must be"),
        (lambda: m.release(np.zeros(3), by=np.zeros(3, int)), "by must be left out"),
        (lambda: g.release(np.zeros(3)), "by must be given"),
        (lambda: g.release(np.zeros(3), by=np.zeros(2, int)), r"by must have shape"),
        (lambda: m.release(np.zeros(3)).mean_interval(1), "level must be"),
    ):
        with pytest.raises(fastdp.FastDPError, match=message):
            call()
