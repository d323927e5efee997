"""The sensitivity of clipped sums: the whole law on small domains, and what goes wrong.

Laws are sums over the lattice within 40 sigma of both centers, in doubles; the
comparison allows 1e-12 for their rounding.
"""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import fastdp
import fastdp.testing
from fastdp.accounting.events import DiscreteGaussianEvent, NeighboringRelation
from fastdp.mechanisms.records import _totals
from fastdp.mechanisms.records._totals import Totals

A = NeighboringRelation.ADD_OR_REMOVE_ONE
R = NeighboringRelation.REPLACE_ONE
S = NeighboringRelation.REPLACE_SPECIAL
EPSILONS = (0.1, 0.5, 1.0, 2.0)


def hockey_stick(shift, sigma, epsilon):
    """delta(epsilon) of discrete Gaussian noise on Z^d moved by `shift`, one way.

    The other way has the same value: the law is symmetric.
    """
    reach = math.ceil(12 * sigma) + max(map(abs, shift))
    line = np.arange(-reach, reach + 1)
    total = np.exp(-((np.arange(-60 * reach, 60 * reach + 1) / sigma) ** 2) / 2).sum()
    log_p = np.zeros((1,) * len(shift))
    log_q = np.zeros((1,) * len(shift))
    for axis, s in enumerate(shift):
        form = [1] * len(shift)
        form[axis] = -1
        log_p = log_p - (line.reshape(form) / sigma) ** 2 / 2 - math.log(total)
        log_q = log_q - ((line.reshape(form) - s) / sigma) ** 2 / 2 - math.log(total)
    p, q = np.exp(log_p), np.exp(log_q)
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def worst(shifts, sigma, epsilon):
    return max(hockey_stick(s, sigma, epsilon) for s in set(map(tuple, shifts)))


GRID = [x / 4 for x in range(-10, 11)] + [1e308, -1e308, float("inf"), float("nan")]


def rows_in_two_dimensions(m):
    return np.unique(m.clip(np.array(list(itertools.product(GRID, repeat=2)))), axis=0)


@pytest.mark.parametrize("steps", [1, 2, Fraction(9, 4)])
@pytest.mark.parametrize("sigma", [1, 2])
def test_every_pair_of_rows_within_the_stated_delta(steps, sigma):
    m = fastdp.ClippedSum(sigma=sigma, radius=steps, dimension=2, norm=2, granularity=1)
    rows = rows_in_two_dimensions(m)
    assert (np.abs(rows).sum(axis=1) > 0).any()
    removed = rows.tolist()
    replaced = (rows[:, None] - rows[None]).reshape(-1, 2).tolist()
    for relation, shifts in ((A, removed), (S, removed), (R, replaced)):
        event = m.event(neighboring_relation=relation)
        assert event.neighboring_relation is relation
        for epsilon in EPSILONS:
            stated = fastdp.accounting.event_delta(event, epsilon=epsilon)
            assert worst(shifts, sigma, epsilon) <= stated * (1 + 1e-12)


@pytest.mark.parametrize("norm", [1, "inf"])
def test_pure_bounds_are_reached_and_not_passed(norm):
    m = fastdp.ClippedSum(scale=2, radius=3, dimension=2, norm=norm, granularity=1)
    rows = rows_in_two_dimensions(m)
    far = np.abs(rows).sum(axis=1).max()
    assert m.event().sensitivity == far
    moved = np.abs(rows[:, None] - rows[None]).sum(axis=2).max()
    assert m.event(neighboring_relation=R).sensitivity == moved


@pytest.mark.parametrize("changed", [1, 2])
def test_changed_entries_bound_the_l2_norm(changed):
    m = fastdp.ClippedSum(
        sigma=2, radius=2, dimension=3, norm="inf", granularity=1, changed=changed
    )
    x = np.array(list(itertools.product([-9.0, 0.0, 1.0, 9.0], repeat=3)))
    rows = m.clip(x)
    assert m.event().sensitivity ** 2 >= int((rows**2).sum(axis=1).max())
    pairs = int(((rows[:, None] - rows[None]) ** 2).sum(axis=2).max())
    assert m.event(neighboring_relation=R).sensitivity ** 2 >= pairs


def block_sums(m, x, labels):
    """The exact integer sums of a mechanism with blocks and a constant of one step."""
    total = np.zeros(m.shape, np.int64)
    for z, label in zip(m.clip(x).tolist(), labels, strict=True):
        if 0 <= label < m.shape[0]:
            total[label] += [1, *z]
    return total


@pytest.mark.parametrize("relation", [A, R])
def test_blocks_with_a_constant(relation):
    m = fastdp.ClippedSum(
        sigma=2, radius=2, dimension=1, norm=2, granularity=1, blocks=2, constant=1,
        neighboring_relation=relation,
    )  # fmt: skip
    records = [(x, b) for x in (-1e9, -1.0, 0.0, 2.0, 1e9) for b in (0, 1, 2)]
    sums = [block_sums(m, np.array([[x]]), [b]) for x, b in records]
    none = [np.zeros_like(sums[0])]
    pairs = itertools.product(sums, sums if relation is R else none)
    squares = [int(((a - b) ** 2).sum()) for a, b in pairs]
    assert m.event().sensitivity ** 2 >= max(squares)
    assert float(m.event().sensitivity) ** 2 == pytest.approx(max(squares), rel=1e-9)


@pytest.mark.parametrize("relation", [A, R])
def test_several_rows_of_one_individual(relation):
    m = fastdp.ClippedSum(
        scale=1, radius=2, dimension=1, norm=1, granularity=1, blocks=2, constant=1,
        rows_per_unit=2, neighboring_relation=relation,
    )  # fmt: skip
    rows = [(x, b) for x in (-9.0, 0.0, 9.0) for b in (0, 1, 2)]
    people = [block_sums(m, np.zeros((0, 1)), [])]
    for a, b in itertools.product(rows, repeat=2):
        people.append(block_sums(m, np.array([[a[0]], [b[0]]]), [a[1], b[1]]))
    others = people if relation is R else people[:1]
    moved = max(int(np.abs(p - q).sum()) for p in people for q in others)
    assert m.event().sensitivity == moved


def test_clipping_row_and_constant_as_a_whole_would_be_found():
    """Rows (1, x) clipped to B = sqrt(2): (0, -+sqrt 2) are 2 sqrt(2) apart, not 2."""
    whole = fastdp.ClippedSum(
        sigma=1, radius=Fraction(1449, 1024), dimension=2, norm=2, granularity=2.0**-9
    )
    z = whole.clip(np.array([[1.0, 1e9], [1.0, -1e9]]))
    apart = ((z[0] - z[1]) ** 2).sum() * 4.0**-9
    assert apart > 7.9  # where blocks and a constant of 1 would state 4


def test_coordinates_of_the_event_are_those_of_the_rows():
    """Noise moved by (3, 4) loses more than noise moved by 5."""
    m = fastdp.ClippedSum(sigma=2, radius=5, dimension=2, norm=2, granularity=1)
    assert m.event().coordinates == 2
    truth = hockey_stick((3, 4), 2, 0.5)
    assert truth == pytest.approx(0.7320, abs=5e-5)
    assert fastdp.accounting.event_delta(m.event(), epsilon=0.5) >= truth
    wrong = DiscreteGaussianEvent(sensitivity=5, sigma=2, coordinates=1)
    assert fastdp.accounting.event_delta(wrong, epsilon=0.5) < truth


def exact_sum(m, x):
    return m.accumulator().add(x)._totals[1].exact()


@pytest.mark.rest
def test_order_chunks_and_workers_do_not_show():
    rng = np.random.default_rng(3)
    hostile = np.array([1e308, -1e308, 5e-324, float("nan"), 0.1, 2.0**24, -0.0, 1.5])
    m = fastdp.ClippedSum.from_rho(0.1, radius=1.0, dimension=1)
    sums = {
        tuple(exact_sum(m, hostile[list(order)][:, None])[0])
        for order in itertools.permutations(range(8))
    }
    assert len(sums) == 1
    x = rng.normal(size=(30_000, 3))
    m = fastdp.ClippedSum.from_rho(0.1, radius=1.0, dimension=3)
    whole = exact_sum(m, x)
    parts = m.accumulator()
    for piece in np.array_split(x[rng.permutation(len(x))], 7):
        parts.merge(m.accumulator().add(piece))
    np.testing.assert_array_equal(parts._totals[1].exact(), whole)
    threaded = m.accumulator().add(x, workers=3)
    np.testing.assert_array_equal(threaded._totals[1].exact(), whole)
    np.testing.assert_array_equal(whole[0], m.clip(x).sum(axis=0))


def test_published_counterexample_moves_by_the_bound_and_no_more():
    """float32: 2^24, then 2^20 times 1.5; a running sum moves by 2^24 + 2^19."""
    n = 2**20
    rows = np.full((n + 1, 1), 1.5, np.float32)
    rows[0] = 2.0**24
    running = np.float32(rows[0, 0])
    for _ in range(1000):
        running += np.float32(1.5)  # rounds to 2: ulp 2 above 2^24
    assert running == 2.0**24 + 2000
    m = fastdp.ClippedSum(sigma=1, radius=2.0**24, dimension=1, norm=2, granularity=0.5)
    moved = exact_sum(m, rows) - exact_sum(m, rows[1:])
    assert int(moved[0, 0]) * 0.5 == 2.0**24


def test_totals_beyond_the_range_saturate_once():
    m = fastdp.ClippedSum(
        sigma=1, radius=1, dimension=1, norm=2, granularity=2.0**-29, constant=1
    )
    acc = m.accumulator()
    for sign in (1, -1):
        count, total = acc._totals
        total._high, total._low[:] = np.full_like(total._low, sign * 2**40), 7
        count._high = np.full_like(count._low, 2**33)
        stream = fastdp.testing.FixedStream(bytes(32))
        count, total = acc.release(stream=stream)
        assert count == pytest.approx(2.0**33, rel=1e-6)
        assert total == pytest.approx(sign * 2.0**33, rel=1e-6)
        assert not acc._totals[0].exact().any()
        assert not acc._totals[1].exact().any()


def test_the_clamp_of_totals_is_the_clamp_of_integers():
    edges = [s * (2**62 + k) for s in (1, -1) for k in (-(2**32), -1, 0, 1, 2**32)]
    for value in [*edges, 0, -1, 2**80, -(2**80)]:
        totals = Totals((1,))
        totals._high = np.array([value >> 32])
        totals._low[:] = value & 0xFFFFFFFF
        assert totals.exact()[0] == value
        assert totals.clamped()[0] == min(max(value, -(2**62)), 2**62)
        assert totals.clamped(5)[0] == min(max(value, -5), 5)


def test_totals_carry_before_they_overflow():
    """Parts of the largest magnitude: without a carry three of them pass 2**62."""
    for sign in (1, -1):
        part, totals, other = sign * 2**61, Totals((1,)), Totals((1,))
        for i in range(1, 8):
            totals.add(np.array([part]), 2**31)
            assert totals.exact()[0] == i * part
        other.add(np.array([part]), 2**31)
        assert other._high is None
        for i in range(8, 12):
            totals.merge(other)
            assert totals.exact()[0] == i * part
        assert totals.clamped()[0] == sign * 2**62
        other.merge(totals)
        assert other.exact()[0] == 12 * part


def test_accumulators_show_nothing_and_clear():
    m = fastdp.ClippedSum.from_rho(0.1, radius=1.0, dimension=2, blocks=3)
    acc = m.accumulator().add(np.full((5, 2), 0.123), labels=np.array([0, 1, 1, 2, 9]))
    assert repr(acc) == f"SumAccumulator({m!r})"
    copy = pickle.loads(pickle.dumps(acc))
    np.testing.assert_array_equal(copy._totals[1].exact(), acc._totals[1].exact())
    assert copy.mechanism == m
    assert acc.release().shape == (3, 2)
    assert not acc._totals[1].exact().any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sigma": 1, "scale": 1}, "exactly one of sigma and scale"),
        ({}, "exactly one of sigma and scale"),
        ({"scale": 1}, "use sigma="),
        ({"sigma": 1, "norm": 1}, "use scale="),
        ({"sigma": 1, "norm": 3}, "norm must be"),
        ({"sigma": 1, "dimension": 0}, "dimension must be"),
        ({"sigma": 1, "radius": 0}, "radius must be"),
        ({"sigma": 1, "granularity": 2.0**-31}, "granularity must be above"),
        ({"sigma": 1, "granularity": 0.3}, "power of two"),
        ({"sigma": 1, "constant": 0.1, "granularity": 0.25}, "multiple of the gran"),
        ({"sigma": 1, "changed": 1}, "changed must be left out"),
        ({"sigma": 1, "norm": "inf", "changed": 3}, "changed must be"),
        ({"sigma": 1, "blocks": 0}, "blocks must be"),
        ({"sigma": 1, "rows_per_unit": 0}, "rows_per_unit must be"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(fastdp.FastDPError, match=message):
        fastdp.ClippedSum(**{"radius": 1, "dimension": 2, "norm": 2, **arguments})


def test_more_rows_than_a_slab_holds(monkeypatch):
    monkeypatch.setattr(_totals, "_SLAB", 7)
    x = np.random.default_rng(0).normal(size=(100, 3))
    m = fastdp.ClippedSum(sigma=1, radius=1, dimension=3, norm=2, blocks=2)
    labels = np.arange(100) % 3
    sums = m.accumulator().add(x, labels=labels)._totals[1].exact()
    z = m.clip(x)
    want = [z[labels == block].sum(axis=0) for block in (0, 1)]
    np.testing.assert_array_equal(sums, want)


def test_bad_data_are_refused_by_form():
    m = fastdp.ClippedSum.from_rho(0.1, radius=1.0, dimension=2)
    with pytest.raises(fastdp.FastDPError, match=r"rows must have shape \(n, 2\)"):
        m.release(np.zeros((4, 3)))
    with pytest.raises(fastdp.FastDPError, match="rows must be a float64"):
        m.release(np.zeros((4, 2), np.int64))
    with pytest.raises(fastdp.FastDPError, match="labels must be left out"):
        m.release(np.zeros((4, 2)), labels=np.zeros(4, np.int64))
    b = fastdp.ClippedSum.from_rho(0.1, radius=1.0, dimension=2, blocks=2)
    with pytest.raises(fastdp.FastDPError, match="labels must be given"):
        b.release(np.zeros((4, 2)))
    with pytest.raises(fastdp.FastDPError, match=r"labels must have shape \(4,\)"):
        b.release(np.zeros((4, 2)), labels=np.zeros(3, np.int64))


@pytest.mark.parametrize("relation", [A, R])
@pytest.mark.parametrize("options", [{}, {"blocks": 3}, {"blocks": 3, "constant": 1}])
def test_calibration_meets_its_target(relation, options):
    options = {**options, "neighboring_relation": relation}
    m = fastdp.ClippedSum.from_rho(0.2, radius=0.3, dimension=4, **options)
    assert 0.199 < m.rho() <= 0.2
    m = fastdp.ClippedSum.from_epsilon(0.5, radius=0.3, dimension=4, **options)
    assert 0.499 < m.epsilon() <= 0.5
    m = fastdp.ClippedSum.from_epsilon_delta(
        epsilon=1, delta=1e-6, radius=0.3, dimension=4, **options
    )
    assert 0.99 < m.epsilon(delta=1e-6) <= 1
