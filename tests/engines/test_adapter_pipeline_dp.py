"""PipelineDP: its engine with our noise and selection, from rows to numbers."""

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import UnsupportedEventError
from tests.engines.conftest import needs

needs("pipeline_dp")
with warnings.catch_warnings(action="ignore"):
    import dill
    import pipeline_dp as dp

    from fastdp.adapters import pipeline_dp as adapter

KINDS = [dp.NoiseKind.LAPLACE, dp.NoiseKind.GAUSSIAN]
STRATEGY = dp.PartitionSelectionStrategy
PUBLIC = ["north", "south", "empty"]
EXTRACT = dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0],
    partition_extractor=lambda row: row[1],
    value_extractor=lambda row: row[2],
)


def visits(people=1000):
    """Two visits of each person in each of two regions, and one in a rare one."""
    rows = [(i, region, float(i % 10)) for i in range(people) for region in PUBLIC[:2]]
    return [*rows, *rows, (0, "rare", 5.0)]


def parameters(**given):
    given = {
        "noise_kind": KINDS[0],
        "metrics": [dp.Metrics.COUNT, dp.Metrics.SUM],
        "max_partitions_contributed": 2,
        "max_contributions_per_partition": 2,
        "min_value": 0,
        "max_value": 9,
        **given,
    }
    return dp.AggregateParams(**given)


def aggregate(params, rows=None, epsilon=10.0, public=PUBLIC, **options):
    accountant = dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=1e-6)
    engine = adapter.DPEngine(accountant, dp.LocalBackend())
    result = engine.aggregate(
        rows or visits(), params, EXTRACT, public_partitions=public, **options
    )
    accountant.compute_budgets()
    return dict(result)


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_is_released(kind):
    means = parameters(
        noise_kind=kind,
        metrics=[dp.Metrics.COUNT, dp.Metrics.SUM, dp.Metrics.MEAN],
    )
    users = parameters(noise_kind=kind, metrics=[dp.Metrics.PRIVACY_ID_COUNT])
    found, people = aggregate(means), aggregate(users)
    assert set(found) == set(people) == set(PUBLIC)
    for region in PUBLIC[:2]:
        assert found[region].mean == pytest.approx(4.5, abs=0.5)
        assert found[region].count == pytest.approx(2000, abs=300)
        assert found[region].sum == pytest.approx(9000, abs=1500)
        assert people[region].privacy_id_count == pytest.approx(1000, abs=60)
    assert found["empty"].count == pytest.approx(0, abs=300)


@pytest.mark.parametrize("kind", KINDS)
def test_variances_are_released(kind):
    metrics = [dp.Metrics.VARIANCE, dp.Metrics.MEAN, dp.Metrics.SUM, dp.Metrics.COUNT]
    params = parameters(noise_kind=kind, metrics=metrics)
    found = aggregate(params, epsilon=60.0)
    for region in PUBLIC[:2]:
        assert found[region].variance == pytest.approx(8.25, abs=0.6)
        assert found[region].mean == pytest.approx(4.5, abs=0.2)
        assert found[region].count == pytest.approx(2000, abs=150)
        assert found[region].sum == pytest.approx(9000, abs=800)
    assert 0 <= found["empty"].variance <= 4.5**2
    alone = aggregate(parameters(metrics=[dp.Metrics.VARIANCE], max_value=0))
    assert alone["north"].variance == 0


def test_what_one_user_moves_in_a_variance(monkeypatch):
    """Each of three sums by its bound at most, each with a third of the budget."""
    asked, bad = [], [math.nan, math.inf, -math.inf, 1e308, -3.0, 0.1, 2.0, 5.0]
    noise = adapter._noise

    def told(gaussian, epsilon, delta, groups, moved, whole):
        asked.append((epsilon, delta, groups, moved, whole))
        return noise(gaussian, epsilon, delta, groups, moved, whole)

    monkeypatch.setattr(adapter, "_noise", told)
    given = parameters(
        noise_kind=KINDS[1], metrics=[dp.Metrics.VARIANCE], min_value=-1, max_value=4
    )
    combiner = adapter._Variance(
        dp.combiners.CombinerParams(spec(KINDS[1]), given), ["variance"]
    )
    combiner.compute_metrics(combiner.create_accumulator([]))
    epsilon, delta = Fraction(1, 3), Fraction(1e-6) / 3
    bounds = [moved for *_, moved, _ in asked]
    assert asked == [
        (epsilon, delta, 2, 2, True),
        (epsilon, delta, 2, Fraction(5), False),
        (epsilon, delta, 2, Fraction(25, 4), False),
    ]
    reached = [Fraction(0)] * 3
    for pair in itertools.product(bad, repeat=2):
        for i, one in enumerate(combiner.create_accumulator(pair)):
            assert abs(one) <= bounds[i]
            reached[i] = max(reached[i], abs(one))
    assert reached == bounds


@pytest.mark.parametrize("strategy", list(STRATEGY)[:3])
@pytest.mark.parametrize("least", [None, 30])
def test_partitions_are_selected(strategy, least):
    params = parameters(partition_selection_strategy=strategy, pre_threshold=least)
    assert set(aggregate(params, public=None)) == set(PUBLIC[:2])
    accountant = dp.NaiveBudgetAccountant(total_epsilon=5, total_delta=1e-6)
    engine = adapter.DPEngine(accountant, dp.LocalBackend())
    chosen = dp.SelectPartitionsParams(
        max_partitions_contributed=2,
        partition_selection_strategy=strategy,
        pre_threshold=least,
    )
    kept = engine.select_partitions(visits(), chosen, EXTRACT)
    accountant.compute_budgets()
    assert set(kept) == set(PUBLIC[:2])
    kind = {"TRUNCATED_GEOMETRIC": "KeySelection"}.get(
        strategy.name, "UnknownHistogram"
    )
    assert kind in engine.explain_computations_report()[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("least", [None, 900, 1100])
def test_counts_above_a_threshold_are_shown(kind, least):
    params = parameters(
        noise_kind=kind,
        metrics=[dp.Metrics.PRIVACY_ID_COUNT],
        post_aggregation_thresholding=True,
        pre_threshold=least,
    )
    found = aggregate(params, public=None)
    assert set(found) == (set() if least == 1100 else set(PUBLIC[:2]))
    for row in found.values():
        assert row.privacy_id_count == pytest.approx(1000, abs=60)


# ---- laws ----------------------------------------------------------------------


def spec(kind, epsilon=1.0, delta=1e-6):
    given = dp.budget_accounting.MechanismSpec(kind.convert_to_mechanism_type())
    given.set_eps_delta(epsilon, delta)
    return given


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("groups", "moved"), [(1, 1), (3, 2), (10, 7)])
def test_integer_noise_has_the_epsilon_of_its_budget(kind, groups, moved):
    bounds = dp.dp_computations.Sensitivities(l0=groups, linf=moved)
    m = adapter._Additive(spec(kind), bounds, whole=True)
    assert m._step == 1
    if kind == KINDS[0]:
        assert m._noise == fastdp.DiscreteLaplace(
            groups * moved, sensitivity=groups * moved
        )
        assert m.noise_parameter == groups * moved
    else:
        assert m._noise.coordinates == groups
        assert m._noise.epsilon(delta=1e-6) <= 1 + 1e-12  # rounded up
        square = m._noise.sensitivity**2
        assert groups * moved**2 <= square < groups * moved**2 + 1e-9
    assert m.noise_kind == kind
    assert m.sensitivity == pytest.approx(m._noise.sensitivity)
    theirs = dp.dp_computations.create_additive_mechanism(spec(kind), bounds)
    assert m.std <= theirs.std * 1.01
    assert repr(m._noise) in m.describe()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moved", [9.0, 0.1, 1e-300, 3e200, 1 / 3])
def test_rounding_of_sums_is_in_the_sensitivity(kind, moved):
    bounds = dp.dp_computations.Sensitivities(l0=2, linf=moved)
    m = adapter._Additive(spec(kind), bounds)
    step, steps = m._step, m._noise.sensitivity
    laplace = kind == KINDS[0]
    most = steps / 2 if laplace else math.isqrt(int(steps**2) // 2)
    rng = np.random.default_rng(1)
    for x in rng.uniform(-1e3, 1e3, 200):
        a = Fraction(x) * Fraction(moved)
        for b in (a + Fraction(moved), a - Fraction(moved)):
            assert abs(round(a / step) - round(b / step)) <= most
    assert step <= Fraction(moved) / 2**23
    theirs = dp.dp_computations.create_additive_mechanism(spec(kind), bounds)
    assert m.std <= theirs.std * 1.01


def test_sums_do_not_depend_on_rounding():
    """One record of a user moves a sum by no more than its bound, in any order."""
    params = parameters(metrics=[dp.Metrics.SUM], min_value=-1e6, max_value=1e6)
    accountant = dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=0)
    engine = adapter.DPEngine(accountant, dp.LocalBackend())
    compound = engine._create_compound_combiner(params)
    (ours,) = compound._combiners
    (theirs,) = dp.combiners.create_compound_combiner(
        params, dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=0)
    )._combiners

    def total(combiner, values):
        out = combiner.create_accumulator([values[0]])
        for v in values[1:]:
            out = combiner.merge_accumulators(out, combiner.create_accumulator([v]))
        return out

    small = [0.1] * 999
    assert total(ours, [1e6, *small]) - total(ours, small) == 10**6
    assert total(theirs, [1e6, *small]) - total(theirs, small) != 1e6
    assert ours.create_accumulator([math.nan, math.inf, 2.0]) == 10**6 + 2


def test_a_mean_sums_distances_from_its_middle_exactly():
    accountant = dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=0)
    engine = adapter.DPEngine(accountant, dp.LocalBackend())
    params = parameters(metrics=[dp.Metrics.MEAN], min_value=1e16, max_value=1e16 + 4)
    (mean,) = engine._create_compound_combiner(params)._combiners
    assert mean.create_accumulator([0, 1e300, 1e16 + 2, math.nan]) == (4, -2)


def test_each_partition_of_a_selection_has_its_part_of_the_budget():
    for strategy in ("LAPLACE_THRESHOLDING", "GAUSSIAN_THRESHOLDING"):
        event = adapter._selector(strategy, 1.0, 1e-6, 3).event()
        total = fastdp.accounting.PLDAccountant().compose(event)
        assert total.epsilon(1e-6) <= 1 + 1e-9
    optimal = adapter._selector("TRUNCATED_GEOMETRIC", 1.0, 1e-6, 3)
    assert optimal == fastdp.KeySelection.from_epsilon_delta(
        epsilon=1.0, delta=1e-6, keys_per_user=3
    )
    theirs = dp.partition_selection.create_partition_selection_strategy
    for name in STRATEGY.__members__:
        if name != "WEIGHTED_GAUSSIAN_THRESHOLDING":
            ours = adapter._selector(name, 1.0, 1e-6, 3)
            other = theirs(STRATEGY[name], 1.0, 1e-6, 3)
            # seven standard errors of 2,000 draws at their half-way count
            n = next(n for n in range(1, 500) if ours.probability(n) > 0.5)
            kept = sum(other.should_keep(n) for _ in range(2000))
            assert kept <= 2000 * ours.probability(n) + 7 * math.sqrt(500)


def test_workers_draw_our_noise():
    """What is sent to them names this module: no other noise can be drawn there."""
    accountant = dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = adapter.DPEngine(accountant, dp.LocalBackend())
    compound = engine._create_compound_combiner(parameters())
    accountant.compute_budgets()
    sent = dill.dumps(compound)
    assert b"fastdp.adapters.pipeline_dp" in sent
    found = dill.loads(sent)
    acc = found.create_accumulator([3.0, 4.0])
    assert isinstance(found.compute_metrics(acc).sum, float)
    assert {type(c).__module__ for c in found._combiners} == {adapter.__name__}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deviation", [False, True])
def test_noise_is_added_to_what_was_aggregated_before(kind, deviation):
    accountant = dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = adapter.DPEngine(accountant, dp.LocalBackend())
    given = dp.aggregate_params.AddDPNoiseParams(
        noise_kind=kind, l0_sensitivity=2, linf_sensitivity=0.5,
        output_noise_stddev=deviation,
    )  # fmt: skip
    col = [("a", 100.0), ("b", np.array([1, 2, 3])), ("c", math.nan)]
    result = engine.add_dp_noise(col, given)
    accountant.compute_budgets()
    found = dict(result)
    if deviation:
        assert found["a"].noise_stddev < 6
        found = {k: v.noised_value for k, v in found.items()}
    assert found["a"] == pytest.approx(100, abs=50)
    assert found["b"].shape == (3,)
    assert found["c"] == pytest.approx(0, abs=50)


def test_a_number_beyond_the_grid_is_clamped():
    bounds = dp.dp_computations.Sensitivities(l0=1, linf=1)
    m = adapter._Additive(spec(KINDS[0]), bounds, whole=True)
    assert m.add_noise(2**70) == pytest.approx(2**62)
    assert m.add_noise(math.inf) == pytest.approx(0, abs=50)


# ---- refusals ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metrics": [dp.Metrics.PERCENTILE(50)]}, "no PERCENTILE.*fastdp.Quantiles"),
        (
            {
                "metrics": [dp.Metrics.VECTOR_SUM], "vector_size": 2,
                "vector_max_norm": 1,
                "vector_norm_kind": dp.aggregate_params.NormKind.L2,
            },
            "no VECTOR_SUM.*fastdp.ClippedSum",
        ),
        (
            {
                "max_contributions": 3, "max_partitions_contributed": None,
                "max_contributions_per_partition": None,
            },
            "max_contributions must be None",
        ),
    ],
)  # fmt: skip
def test_what_has_no_exact_noise_is_refused(given, message):
    with pytest.raises(UnsupportedEventError, match=message):
        aggregate(parameters(**given))


def test_accountants_and_methods_with_noise_in_floats_are_refused():
    accountant = dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = adapter.DPEngine(accountant, dp.LocalBackend())
    weighted = dp.SelectPartitionsParams(
        max_partitions_contributed=1,
        partition_selection_strategy=STRATEGY.WEIGHTED_GAUSSIAN_THRESHOLDING,
    )
    with pytest.raises(UnsupportedEventError, match="roots in floats"):
        engine.select_partitions(visits(), weighted, EXTRACT)
    with pytest.raises(UnsupportedEventError, match="public bounds"):
        engine.calculate_private_contribution_bounds(visits(), None, EXTRACT, PUBLIC)
    given = dp.aggregate_params.AddDPNoiseParams(
        noise_kind=KINDS[0], l1_sensitivity=1.0
    )
    with pytest.raises(UnsupportedEventError, match="l0_sensitivity must be given"):
        engine.add_dp_noise([("a", 1.0)], given)

    class Other(dp.BudgetAccountant):
        def __init__(self):
            pass

        request_budget = compute_budgets = None

    with pytest.raises(UnsupportedEventError, match=r"must be a Naive.*got Other"):
        adapter.DPEngine(Other(), dp.LocalBackend())
