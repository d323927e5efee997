"""opendp: our noise in its chains, compositions, odometers and queries."""

import math

import pytest

import fastdp
from fastdp.adapters import opendp as adapter
from fastdp.exceptions import DTypeError, ParameterError
from tests.engines.conftest import needs

needs("opendp")
dp = pytest.importorskip("opendp.prelude")
dp.enable_features("contrib", "honest-but-curious")
to_measurement = adapter.to_measurement

ONE = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
REAL = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
INTEGERS = dp.vector_domain(dp.atom_domain(T="i32"))
REALS = dp.vector_domain(REAL[0], size=3)
ROWS = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
COUNT = ROWS >> dp.t.then_count()
LAPLACE, GAUSS = fastdp.DiscreteLaplace(scale=2), fastdp.DiscreteGaussian(sigma=2)
TRUNCATED = fastdp.TruncatedLaplace(scale=1, bound=20)

SPACES = [
    (ONE, LAPLACE, 7, int),
    (ONE, GAUSS, 7, int),
    (REAL, fastdp.Laplace(2), 7.5, float),
    (REAL, fastdp.Gaussian(2), 7.5, float),
    ((INTEGERS, dp.l1_distance(T="i32")), LAPLACE, [7, 8, 9], int),
    ((INTEGERS, dp.l2_distance(T=float)), GAUSS, [7, 8, 9], int),
    ((REALS, dp.l1_distance(T=float)), fastdp.Laplace(2), [7.5, 8, 9], float),
    ((REALS, dp.l2_distance(T=float)), fastdp.Gaussian(2), [7.5, 8, 9], float),
]


@pytest.mark.parametrize(("space", "mechanism", "x", "kind"), SPACES)
def test_a_release_is_near_the_answer_and_costs_what_the_mechanism_says(
    space, mechanism, x, kind
):
    m = space >> to_measurement(mechanism)
    y = m(x)
    pairs = zip(x, y, strict=True) if isinstance(x, list) else [(x, y)]
    for before, after in pairs:
        assert type(after) is kind
        assert abs(after - before) < 100  # the chance of more is below 1e-20
    gaussian = "Gaussian" in type(mechanism).__name__
    read = mechanism.rho if gaussian else mechanism.epsilon
    for d_in in (1, 3):
        assert m.map(type(x[0] if isinstance(x, list) else x)(d_in)
                     if "f64" not in str(space[1].type) else float(d_in)
                     ) == read(sensitivity=d_in)  # fmt: skip
    assert m.map(0.0 if space[1].distance_type == "f64" else 0) == 0


def test_both_charge_the_same_for_integers():
    theirs = ONE >> dp.m.then_laplace(2.0)
    ours = ONE >> to_measurement(LAPLACE)
    assert ours.map(3) == theirs.map(3) == 1.5


def test_a_curve_is_read_at_one_delta_from_the_exact_law():
    ours = ONE >> to_measurement(GAUSS, delta=1e-6)
    zcdp = dp.c.make_zCDP_to_approxDP(ONE >> dp.m.then_gaussian(2.0))
    epsilon, delta = ours.map(1)
    assert (epsilon, delta) == (GAUSS.epsilon(delta=1e-6, sensitivity=1), 1e-6)
    assert epsilon < zcdp.map(1).epsilon(1e-6) - 0.1
    m = ONE >> to_measurement(TRUNCATED, delta=1e-6)
    assert m.map(1) == (1.0, 1e-6)
    assert abs(m(5) - 5) <= 20


def test_laplace_noise_counts_under_a_budget_of_rho():
    m = ONE >> to_measurement(LAPLACE, output_measure=dp.zero_concentrated_divergence())
    assert m.map(1) == LAPLACE.rho(sensitivity=1)


def test_chains_compositions_and_odometers_take_it():
    m = COUNT >> to_measurement(LAPLACE) >> (lambda y: y * 2)
    both = dp.c.make_composition([m, m])
    assert both.map(1) == 1
    assert all(y % 2 == 0 for y in both([1, 2, 3]))
    book = dp.c.make_fully_adaptive_composition(*ROWS, dp.max_divergence())([1, 2])
    book(m)
    book(m)
    assert book.privacy_loss(1) == 1


def test_a_query_of_a_context_takes_it():
    dp.register(adapter.make_fastdp)
    context = dp.Context.compositor(
        data=[1.0, 2.0, 30.0],
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=2,
        domain=dp.vector_domain(REAL[0]),
    )
    query = context.query().clamp((0.0, 10.0)).sum()
    mechanism = fastdp.Laplace.from_epsilon(0.49, sensitivity=10)
    assert abs(query.fastdp(mechanism).release() - 13) < 2000
    dear = fastdp.Laplace.from_epsilon(0.6, sensitivity=10)
    with pytest.raises(dp.OpenDPException, match="insufficient budget"):
        query.fastdp(dear).release()


L1, L2 = dp.l1_distance(T=float), dp.l2_distance(T=float)
WIDE = dp.vector_domain(REAL[0], size=4)
FOR_ONE = fastdp.DiscreteGaussian(10, coordinates=1)
FOR_THREE = fastdp.Laplace(1, coordinates=3, granularity=2.0**-20)


@pytest.mark.parametrize(
    ("space", "mechanism", "options", "error", "message"),
    [
        (ONE, 3, {}, DTypeError, "mechanism must be a DiscreteLaplace"),
        ((1, ONE[1]), LAPLACE, {}, DTypeError, "input_domain must be opendp's Domain"),
        ((ONE[0], 1), LAPLACE, {}, DTypeError, "input_metric must be opendp's Metric"),
        (REAL, LAPLACE, {}, ParameterError, "i64 .* got AtomDomain<f64>"),
        (ONE, fastdp.Laplace(1), {}, ParameterError, "type f64 for Laplace"),
        ((INTEGERS, L2), LAPLACE, {}, ParameterError, "L1Distance .* got L2Distance"),
        ((INTEGERS, L1), GAUSS, {}, ParameterError, "L2Distance .* got L1Distance"),
        (
            (dp.atom_domain(T=float), REAL[1]),
            fastdp.Laplace(1), {}, ParameterError, "must hold no NaN",
        ),
        ((WIDE, L1), FOR_THREE, {}, ParameterError, "at most .* 3, .* got 4"),
        ((INTEGERS, L2), FOR_ONE, {}, ParameterError, "at most .* 1, .* got"),
        (
            (dp.vector_domain(REAL[0]), L1),
            fastdp.Laplace(1), {}, ParameterError, "got None",
        ),
        (ONE, TRUNCATED, {}, ParameterError, "delta must be given"),
        (ONE, LAPLACE, {"delta": 0}, ParameterError, "delta must be"),
        (
            ONE, LAPLACE, {"delta": 0.1, "output_measure": dp.max_divergence()},
            ParameterError, "must not be given with delta",
        ),
        (
            ONE, GAUSS, {"output_measure": dp.max_divergence()},
            ParameterError, "of DiscreteGaussian, got MaxDivergence",
        ),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(space, mechanism, options, error, message):
    with pytest.raises(error, match=message):
        adapter.make_fastdp(*space, mechanism, **options)


def test_a_distance_that_is_none_is_refused():
    m = REAL >> to_measurement(fastdp.Laplace(1))
    for d_in in (-1.0, math.nan, math.inf):
        with pytest.raises(dp.OpenDPException):
            m.map(d_in)
