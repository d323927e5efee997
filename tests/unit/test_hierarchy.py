"""Hierarchies of counts: least squares, variances and the law, beside dense algebra."""

import itertools

import numpy as np
import pytest

import fastdp
import fastdp.testing
from fastdp.accounting.events import NeighboringRelation
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms.running import _count_tree

SHAPES = [(2, 2), (8, 2), (5, 2), (9, 3), (10, 3), (7, 4), (17, 4), (13, 2), (30, 5)]
R = NeighboringRelation.REPLACE_ONE


def nodes_of(tree):
    """Return the matrix from leaves to all nodes but the root, by definition."""
    width = tree.branching ** (len(tree.nodes) - 1)
    rows = []
    for n in tree.nodes[1:]:
        width //= tree.branching
        for i in range(n):
            rows.append(np.zeros(tree.leaves))
            rows[-1][i * width : (i + 1) * width] = 1
    return np.array(rows)


def ranges(leaves):
    pairs = itertools.combinations_with_replacement(range(leaves + 1), 2)
    return np.array(list(pairs)).T


@pytest.mark.parametrize(("leaves", "branching"), [*SHAPES, (3, 7), (100, 3)])
@pytest.mark.parametrize("known", [False, True])
def test_least_squares_and_all_variances(leaves, branching, known):
    tree = _count_tree.Tree(leaves, branching)
    a = nodes_of(tree)
    noisy = np.random.default_rng(1).normal(size=len(a))
    one = np.ones((leaves, 1))
    normal, right = a.T @ a, a.T @ noisy
    if known:  # Lagrange's multiplier holds the total
        normal = np.block([[normal, one], [one.T, np.zeros((1, 1))]])
        right = np.append(right, 2.5)
    total = 2.5 if known else None
    inverse = np.linalg.inv(normal)
    expected = (inverse @ right)[:leaves]
    got = _count_tree.least_squares(tree, noisy.copy(), total)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
    starts, stops = ranges(leaves)
    covariance = inverse[:leaves, :leaves]
    dense = [covariance[i:j, i:j].sum() for i, j in zip(starts, stops, strict=True)]
    found = _count_tree.range_variance(tree, known, starts, stops)
    np.testing.assert_allclose(found, dense, rtol=0, atol=1e-12)


def node_counts(m, counts):
    sums = np.zeros(sum(m._tree.nodes), np.int64)
    _count_tree.sum_up(m._tree, np.array(counts), sums)
    return sums[1:]


@pytest.mark.parametrize(("leaves", "branching"), SHAPES)
@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
@pytest.mark.parametrize("rows", [1, 3])
def test_no_neighbor_is_further_than_the_event_says(leaves, branching, relation, rows):
    options = {
        "leaves": leaves, "branching": branching, "rows_per_unit": rows,
        "neighboring_relation": relation,
    }  # fmt: skip
    pure = fastdp.HierarchicalHistogram(scale=1, **options)
    normal = fastdp.HierarchicalHistogram(sigma=1, **options)
    base = np.full(leaves, 7)
    moves = []
    for i, j in itertools.product(range(leaves), repeat=2):
        after = base.copy()
        after[i] += rows
        if relation == "replace_one":
            after[j] -= rows
        moves.append(node_counts(pure, after) - node_counts(pure, base))
    assert max(np.abs(d).sum() for d in moves) <= pure.event().sensitivity
    assert max((d**2).sum() for d in moves) <= normal.event().sensitivity ** 2
    if branching < leaves or relation == "add_or_remove_one":
        assert max(np.abs(d).sum() for d in moves) == pure.event().sensitivity
    assert max(np.count_nonzero(d) for d in moves) <= normal.event().coordinates


def test_the_counts_are_those_of_the_nodes_and_saturate():
    m = fastdp.HierarchicalHistogram(scale=1, leaves=10, branching=3)
    counts = np.arange(10)
    assert (node_counts(m, counts) == nodes_of(m._tree) @ counts).all()
    huge = np.full(10, np.iinfo(np.int64).max)
    assert node_counts(m, huge).max() <= 2**62
    assert node_counts(m, -huge).min() >= -(2**62)


def stream():
    return fastdp.testing.FixedStream(bytes(range(32)))


@pytest.mark.rest
def test_a_release_is_consistent():
    counts = np.random.default_rng(0).poisson(50, 1000)
    m = fastdp.HierarchicalHistogram.from_rho(0.5, leaves=1000)
    r = m.release(counts, stream=stream())
    assert r.range(3, 900) == pytest.approx(r.leaves[3:900].sum())
    errors = (
        r.range(*ranges(1000))
        - (np.cumsum(np.append(0, counts)))[ranges(1000)[1]]
        + (np.cumsum(np.append(0, counts)))[ranges(1000)[0]]
    )
    sizes = r.standard_error(*ranges(1000))
    inside = sizes > 0
    # One fixed stream: the mean square of all ranges' errors is near what is stated.
    assert 0.5 < np.mean((errors[inside] / sizes[inside]) ** 2) < 2
    assert r.event == m.event()
    assert m.rho() <= 0.5


@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_nonnegative_counts_are_whole_and_add_up(relation):
    counts = np.zeros(500, np.int64)
    counts[:3] = 1000
    m = fastdp.HierarchicalHistogram.from_epsilon(
        0.1, leaves=500, branching=7, neighboring_relation=relation
    )
    r = m.release(counts, nonnegative=True, stream=stream())
    assert (r.leaves >= 0).all()
    assert (r.leaves == np.rint(r.leaves)).all()
    assert relation == "add_or_remove_one" or r.total == 3000
    edge = m.release(np.full(500, -5), nonnegative=True, stream=stream())
    assert edge.leaves.min() >= 0


def test_shares_of_totals_add_up_and_stay_near():
    rng = np.random.default_rng(2)
    values = rng.normal(3, 5, 1001)
    totals = rng.integers(0, 100, 251)
    got = _count_tree.share_out(totals, values, 4)
    assert (_count_tree.by_parent(got, 4) == totals).all()
    assert got.min() >= 0
    sums = np.maximum(_count_tree.by_parent(np.maximum(values, 0), 4), 1e-9)
    near = np.maximum(values, 0) * np.repeat(totals / sums, 4)[:1001]
    positive = np.repeat(sums > 1e-9, 4)[:1001]
    assert np.abs(got - near)[positive].max() < 1


def test_the_distribution_function_is_monotone():
    m = fastdp.HierarchicalHistogram.from_epsilon(0.05, leaves=300)
    r = m.release(np.full(300, 2), stream=stream())
    share = r.cdf()
    assert (np.diff(share) >= 0).all()
    assert share[-1] == 1
    quartiles = r.quantile([0, 0.25, 0.5, 1])
    assert (np.diff(quartiles) >= 0).all()
    assert quartiles[-1] <= 299
    big = m.release(np.full(300, 10**6), stream=stream())
    assert big.quantile(0.5) in (149, 150)


def test_the_best_branching_is_the_best():
    """The choice rests on 256 ranges; all ranges agree within three percent."""
    for make in ("from_rho", "from_epsilon"):
        chosen = getattr(fastdp.HierarchicalHistogram, make)(1, leaves=100)
        starts, stops = ranges(100)
        variances = {}
        for b in (2, 3, 4, 5, 6, 8, 10, 16, 32, 64, 100):
            m = getattr(fastdp.HierarchicalHistogram, make)(1, leaves=100, branching=b)
            variances[b] = np.mean(m.standard_error(starts, stops) ** 2)
        b = chosen.branching
        own = np.mean(chosen.standard_error(starts, stops) ** 2)
        assert own <= 1.05 * min(variances.values()), (make, b, variances)


def test_columns_and_workers():
    m = fastdp.HierarchicalHistogram(scale=2, leaves=4)
    one = m.release([1, 2, 3, 4], stream=stream())
    two = m.release(np.array([1, 2, 3, 4], np.int8), stream=stream(), workers=2)
    assert (one.leaves == two.leaves).all()


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ParameterError, {"leaves": 1, "scale": 1}),
        (ParameterError, {"leaves": 2**31, "scale": 1}),
        (DTypeError, {"leaves": 2.5, "scale": 1}),
        (ParameterError, {"leaves": 8}),
        (ParameterError, {"leaves": 8, "scale": 1, "sigma": 1}),
        (ParameterError, {"leaves": 8, "scale": 0}),
        (ParameterError, {"leaves": 8, "scale": 1, "branching": 1}),
        (ParameterError, {"leaves": 8, "scale": 1, "rows_per_unit": 0}),
        (DTypeError, {"leaves": 8, "scale": 1, "neighboring_relation": "other"}),
    ],
)
def test_bad_parameters(error, options):
    with pytest.raises(error):
        fastdp.HierarchicalHistogram(**options)


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (ParameterError, np.zeros(7, np.int64)),
        (ParameterError, np.zeros((8, 1), np.int64)),
        (DTypeError, np.zeros(8)),
        (DTypeError, "counts"),
    ],
)
def test_bad_counts(error, counts):
    m = fastdp.HierarchicalHistogram(scale=1, leaves=8)
    with pytest.raises(error, match="counts"):
        m.release(counts)


def test_bad_ranges():
    m = fastdp.HierarchicalHistogram(scale=1, leaves=8)
    for start, stop in [(3, 2), (-1, 2), (0, 9)]:
        with pytest.raises(ParameterError, match="start <= stop"):
            m.standard_error(start, stop)
    with pytest.raises(DTypeError):
        m.standard_error(0.5, 2)
    r = m.release(np.zeros(8, np.int64))
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(ParameterError, match="p must be"):
            r.quantile(p)


def test_a_public_total_is_that_of_the_cells_as_given():
    """Clamped cells would tell neighbors apart: their sums differ."""
    most = 2**62 // 2**16
    for first, second in ((most + 1, 0), (most, 1)):
        counts = np.zeros(2**16, np.int64)
        counts[:2] = first, second
        assert _count_tree.exact_sum(counts) == most + 1
    ends = np.full(2**16, np.iinfo(np.int64).min)
    assert _count_tree.exact_sum(ends) == -(2.0**79)
    assert _count_tree.exact_sum(np.full(9, 255, np.uint8)) == 9 * 255
    m = fastdp.HierarchicalHistogram(
        sigma=1, leaves=100, neighboring_relation="replace_one"
    )
    assert m.release(np.arange(100)).total == pytest.approx(4950, abs=1e-9)
