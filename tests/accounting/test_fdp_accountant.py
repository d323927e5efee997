"""The f-DP accountant: events, bad input, composition in cells."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting import ApproximateAccountant, PLDAccountant
from fastdp.accounting.events import (
    ApproximateDPEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    PureDPEvent,
    RandomizedResponseEvent,
    RDPEvent,
    SampledWithoutReplacementEvent,
    TradeOffEvent,
    TruncatedDiscreteLaplaceEvent,
)
from fastdp.accounting.fdp import (
    ApproximateTradeOff,
    FDPAccountant,
    GaussianTradeOff,
    LaplaceTradeOff,
    PiecewiseTradeOff,
    compose_trade_offs,
    trade_off_of,
)
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError

# ---- events and the accountant --------------------

REPLACE = NeighboringRelation.REPLACE_ONE


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def test_functions_of_discrete_events():
    x = np.arange(-300, 302)
    law = np.exp(-np.abs(x) / 2.5)
    law /= law.sum()
    moved = np.roll(law, 3)
    got = trade_off_of(DiscreteLaplaceEvent(sensitivity=3, scale=Fraction(5, 2)))
    response = trade_off_of(
        RandomizedResponseEvent(p=Fraction(3, 5), q=Fraction(1, 10))
    )
    for epsilon in (0.0, 0.5, 1.1):
        true = hockey_stick(law, moved, epsilon)
        assert got.delta(epsilon) == pytest.approx(true, abs=1e-12)
        true = max(0.0, 0.6 - math.exp(epsilon) * 0.1)
        assert response.delta(epsilon) == pytest.approx(true, abs=1e-14)


@pytest.mark.parametrize(
    ("event", "epsilon", "true"),
    [
        (LaplaceEvent(sensitivity=1, scale=1), 0.5, -math.expm1(-0.25)),
        (PureDPEvent(1), 0.5, (math.e - math.exp(0.5)) / (1 + math.e)),
        (ApproximateDPEvent(epsilon=1, delta=Fraction(1, 10)), 1, 0.1),
        (TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=1, bound=3), 1, 0.02364054),
        (
            GroupEvent(LaplaceEvent(sensitivity=1, scale=4), 2),
            0.25,
            -math.expm1(-0.125),
        ),
        (
            PoissonSampledEvent(Fraction(1, 2), LaplaceEvent(sensitivity=1, scale=1)),
            math.log1p(math.expm1(0.5) / 2),
            -math.expm1(-0.25) / 2,
        ),
        (
            SampledWithoutReplacementEvent(
                source_dataset_size=10,
                sample_size=5,
                event=LaplaceEvent(
                    sensitivity=1, scale=1, neighboring_relation=REPLACE
                ),
            ),
            math.log1p(math.expm1(0.5) / 2),
            -math.expm1(-0.25) / 2,
        ),
        (
            TradeOffEvent(
                false_positive_rates=(0, Fraction(1, 4), 1),
                false_negative_rates=(1, Fraction(1, 4), 0),
            ),
            0,
            0.5,
        ),
    ],
)
def test_accountant_reads_single_events(event, epsilon, true):
    got = FDPAccountant().compose(event).delta(epsilon)
    assert got == pytest.approx(true, rel=1e-3)


def test_accountant_merges_gaussians_and_composes_the_rest():
    accountant = FDPAccountant().compose(GaussianEvent(sensitivity=1, sigma=2), 4)
    assert accountant.trade_off() == GaussianTradeOff(1)
    assert accountant.epsilon(1e-5) == pytest.approx(4.377178096, rel=1e-9)
    mixed = accountant.compose(LaplaceEvent(sensitivity=1, scale=10), 3)
    more = mixed.epsilon(1e-5)
    assert 4.377178 < more < 4.377178 + 0.3
    assert mixed.delta(more) == pytest.approx(1e-5, rel=1e-6)
    assert mixed.delta(mixed.epsilon(1e-30)) == pytest.approx(1e-30, rel=1e-6)


def test_sampled_composition_reads_both_orders():
    step = PoissonSampledEvent(Fraction(1, 10), LaplaceEvent(sensitivity=1, scale=1))
    accountant = FDPAccountant().compose(step, 20)
    function = accountant.trade_off()
    one, other = (
        1 + f._conjugate(np.array([-math.e])) for f in (function, function.inverse())
    )
    assert one != other
    # Cells err upward, and the accountant reads no cells.
    assert 0 <= max(one[0], other[0]) / accountant.delta(1) - 1 < 1e-4


def test_accountant_refuses_what_it_cannot_bound():
    accountant = FDPAccountant()
    with pytest.raises(UnsupportedEventError):
        accountant.compose(RDPEvent(orders=(2,), epsilons=(1,)))
    accountant.compose(GaussianEvent(sensitivity=1, sigma=1))
    with pytest.raises(UnsupportedEventError, match="delta must be > 0"):
        accountant.epsilon(0)


def test_a_sample_under_replacement_lies_between_its_parts():
    inner = GDPEvent(1, neighboring_relation=REPLACE)
    one = FDPAccountant().compose(inner).epsilon(1e-5)
    sampled = PoissonSampledEvent(Fraction(1, 2), inner)
    removed = PoissonSampledEvent(Fraction(1, 2), GDPEvent(Fraction(1, 2)))
    found = FDPAccountant().compose(sampled).epsilon(1e-5)
    # More than to remove one of two records half as far, less than without the sample.
    assert FDPAccountant().compose(removed).epsilon(1e-5) < found < one


# ---- bad input and immutability --------------------


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: GaussianTradeOff(0), ParameterError),
        (lambda: LaplaceTradeOff(-1), ParameterError),
        (lambda: ApproximateTradeOff(1, own_delta=1.5), ParameterError),
        (
            lambda: PiecewiseTradeOff(
                false_positive_rates=[0, 1], false_negative_rates=[0.5, 0.1]
            ),
            ParameterError,
        ),
        (
            lambda: PiecewiseTradeOff(
                false_positive_rates=[0, 0.5, 1], false_negative_rates=[0.4, 0.4, 0]
            ),
            ParameterError,
        ),
        (
            lambda: PiecewiseTradeOff(
                false_positive_rates=[0, 0.5, 1], false_negative_rates=[1, 0.6, 0]
            ),
            ParameterError,
        ),
        (
            lambda: PiecewiseTradeOff(
                false_positive_rates=["0", "1"], false_negative_rates=[1, 0]
            ),
            DTypeError,
        ),
        (lambda: GaussianTradeOff(1)(1.5), ParameterError),
        (lambda: GaussianTradeOff(1)(math.nan), ParameterError),
        (lambda: LaplaceTradeOff(1).delta(-1), ParameterError),
        (lambda: LaplaceTradeOff(1).conjugate(math.inf), ParameterError),
        (lambda: LaplaceTradeOff(1).sampled(2), ParameterError),
        (lambda: LaplaceTradeOff(1).group(0), ParameterError),
        (lambda: compose_trade_offs([(1, 1)]), DTypeError),
        (lambda: compose_trade_offs([(GaussianTradeOff(1), 0)]), ParameterError),
    ],
)
def test_bad_input(make, error):
    with pytest.raises(error):
        make()


def test_functions_are_immutable():
    function = LaplaceTradeOff(1).knots()
    with pytest.raises(AttributeError, match="immutable"):
        function.extra = 1
    with pytest.raises(ValueError, match="read-only"):
        function.false_positive_rates[0] = 1
    assert hash(GaussianTradeOff(1)) == hash(GaussianTradeOff(Fraction(1)))


def test_a_composition_that_hides_nothing():
    noise = GaussianEvent(sensitivity=1, sigma=Fraction(1, 2))
    accountant = FDPAccountant().compose(noise, 1000)
    alone = accountant.epsilon(1e-6)
    accountant.compose(LaplaceEvent(sensitivity=1, scale=1))
    assert float(accountant.delta(1)) == 1.0
    assert alone < accountant.epsilon(1e-6) < alone + 1


def test_a_million_pure_steps():
    # Far from the sum of epsilons, 10,000, and from the first deltas of cells.
    steps = PureDPEvent(0.01), 10**6
    exact = ApproximateAccountant().compose(*steps).epsilon(1e-10)
    found = FDPAccountant().compose(*steps).epsilon(1e-10)
    assert exact == pytest.approx(found, rel=1e-9)
    assert 108 < found < 115


def test_cells_are_asked_where_bounds_of_losses_are_wide():
    accountant = FDPAccountant()
    accountant.compose(PoissonSampledEvent(Fraction(7, 25), PureDPEvent(1.42)))
    accountant.compose(LaplaceEvent(sensitivity=1, scale=Fraction(50, 41)), 30)
    losses = PLDAccountant.from_statement(accountant.statement()).epsilon_bounds(1e-6)
    assert losses.lower <= accountant.epsilon(1e-6) < 22.68  # 23.18 by losses


def test_what_is_lost_has_no_epsilon():
    lost = ApproximateDPEvent(epsilon=1, delta=Fraction(1, 1000))
    accountant = FDPAccountant().compose(lost, 30)
    accountant.compose(LaplaceEvent(sensitivity=1, scale=2))
    with pytest.raises(UnsupportedEventError):
        accountant.epsilon(1e-4)


# ---- composition in cells beside all products --------------------------------


def some_function(rng, pieces):
    """Return a convex function of binary fractions, with mass of one law alone."""
    p, q = rng.integers(1, 200, (2, pieces)).astype(float)
    order = np.argsort(-q / p)
    return PiecewiseTradeOff(
        false_positive_rates=np.concatenate([[0], np.cumsum(p[order]), [1024]]) / 1024,
        false_negative_rates=np.append(np.cumsum(q[order][::-1])[::-1], [0, 0]) / 1024,
    )


def all_products(parts):
    """Return exact knots of a composition, sorted by the ratio."""
    pairs = [(Fraction(1), Fraction(1))]
    for function, count in parts:
        x = [Fraction(v) for v in function.false_positive_rates.tolist()]
        f = [Fraction(v) for v in function.false_negative_rates.tolist()]
        one = [(b - a, c - d) for a, b, c, d in zip(x, x[1:], f, f[1:], strict=False)]
        for _ in range(count):
            pairs = [(p * u, q * v) for p, q in pairs for u, v in one if u and v]
    pairs.sort(key=lambda pair: pair[1] / pair[0], reverse=True)
    x = np.cumsum([0, *(p for p, _ in pairs)])
    f = sum(q for _, q in pairs) - np.cumsum([0, *(q for _, q in pairs)])
    return x, f


@pytest.mark.parametrize("cells", [12, 40, 3000])
@pytest.mark.parametrize("seed", range(4))
def test_composition_in_cells_is_on_or_below_all_products(monkeypatch, cells, seed):
    from fastdp.accounting import _trade_off

    monkeypatch.setattr(_trade_off, "_CELLS", cells)
    monkeypatch.setattr(_trade_off, "_FEWEST", cells)
    monkeypatch.setattr(_trade_off, "_LISTED", 0)
    rng = np.random.default_rng(seed)
    parts = [(some_function(rng, 4), 3), (some_function(rng, 3), 2)]
    x, f = all_products(parts)
    x, f = x.astype(float), f.astype(float)
    lack = f - compose_trade_offs(parts)(np.minimum(x, 1.0))
    assert lack.min() > -1e-14
    assert lack.max() < {12: 0.2, 40: 0.02, 3000: 1e-5}[cells]


def test_merging_instead_of_splitting_is_seen(monkeypatch):
    from fastdp.accounting import _trade_off

    right = _trade_off.convolve
    monkeypatch.setattr(
        _trade_off, "convolve", lambda a, b, edges, _: right(a, b, edges, False)
    )
    with pytest.raises(AssertionError):
        test_composition_in_cells_is_on_or_below_all_products(monkeypatch, 12, 0)
