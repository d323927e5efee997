"""dp_accounting: events both ways, accountants in its interface, its own tests."""

import math
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import fastdp
from fastdp import accounting as ac
from fastdp.adapters import dp_accounting as adapter
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError
from tests.engines.conftest import ROOT, needs

needs("dp_accounting")
dp = pytest.importorskip("dp_accounting")
PLDAccountant, RdpAccountant = adapter.PLDAccountant, adapter.RdpAccountant
from_dp_event, to_dp_event = adapter.from_dp_event, adapter.to_dp_event

ADD, REPLACE, SPECIAL = (dp.NeighboringRelation(i) for i in (1, 2, 3))
GAUSS = dp.GaussianDpEvent(2.0)
DISCRETE = dp.dp_event.DiscreteLaplaceDpEvent

#: Events that come back as they were, with relations for which they have a meaning.
BOTH_WAYS = [
    *((event, relation) for relation in (ADD, REPLACE, SPECIAL) for event in (
        dp.NoOpDpEvent(),
        dp.NonPrivateDpEvent(),
        GAUSS,
        dp.LaplaceDpEvent(0.5),
        DISCRETE(0.5, 3),
        dp.ZCDpEvent(0.25, 0.5),
        dp.SelfComposedDpEvent(GAUSS, 7),
        dp.ComposedDpEvent([GAUSS, dp.LaplaceDpEvent(3.0)]),
        dp.PoissonSampledDpEvent(0.125, GAUSS),
        dp.PoissonSampledDpEvent(0.125, dp.ZCDpEvent(0.25)),
        dp.SampledWithoutReplacementDpEvent(100, 7, GAUSS),
        dp.SampledWithReplacementDpEvent(100, 7, dp.LaplaceDpEvent(2.0)),
    )),
    (dp.RandomizedResponseDpEvent(0.25, 4), REPLACE),
    (dp.SampledWithReplacementDpEvent(9, 3, dp.RandomizedResponseDpEvent(0.5, 2)), ADD),
]  # fmt: skip


@pytest.mark.parametrize(("event", "relation"), BOTH_WAYS, ids=str)
def test_events_come_back(event, relation):
    ours = from_dp_event(event, neighboring_relation=relation)
    assert ours.neighboring_relation.name == relation.name
    assert to_dp_event(ours) == (event, relation)


def test_a_mechanism_is_its_event():
    m = fastdp.DiscreteLaplace.from_epsilon(0.5, sensitivity=4)
    assert to_dp_event(m) == (DISCRETE(0.125, 4), ADD)


def test_a_replaced_record_moves_twice_the_norm():
    ours = from_dp_event(GAUSS, neighboring_relation="replace_one")
    assert (ours.sensitivity, ours.sigma) == (2, 2)
    inside = from_dp_event(
        dp.PoissonSampledDpEvent(0.5, GAUSS), neighboring_relation=REPLACE
    ).event
    assert (inside.sensitivity, inside.neighboring_relation.name) == (1, ADD.name)


def test_numbers_are_rounded_toward_more_loss():
    third = ac.GaussianEvent(sensitivity=3, sigma=1)
    assert Fraction(to_dp_event(third)[0].noise_multiplier) < Fraction(1, 3)
    rho = to_dp_event(ac.ZCDPEvent(Fraction(1, 10)))[0].rho
    assert Fraction(rho) >= Fraction(1, 10)


REPLACED = ac.NeighboringRelation.REPLACE_ONE
REFUSED = [
    ac.DiscreteGaussianEvent(sensitivity=1, sigma=1),
    ac.DiscreteGaussianSumEvent(sensitivity=1, sigma=2, shares=2),
    ac.SkellamEvent(sensitivity=1, variance=9),
    ac.TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=1, bound=9),
    ac.ExponentialMechanismEvent(1),
    ac.PermuteAndFlipEvent(1),
    ac.PureDPEvent(1),
    ac.ApproximateDPEvent(epsilon=1, delta=0.1),
    ac.TCDPEvent(rho=1, omega=2),
    ac.RDPEvent(orders=(2,), epsilons=(1,)),
    ac.TradeOffEvent(false_positive_rates=(0, 1), false_negative_rates=(1, 0)),
    ac.PrivacyLossEvent(losses=(0,), probabilities=(0.5,)),
    ac.GroupEvent(ac.ZCDPEvent(1), 2),
    ac.RandomizedResponseEvent(p=0.5, q=0.375),
    ac.DiscreteLaplaceEvent(sensitivity=3, scale=1, neighboring_relation=REPLACED),
    ac.PoissonSampledEvent(0.5, ac.ZCDPEvent(1, neighboring_relation=REPLACED)),
    ac.SampledWithoutReplacementEvent(
        source_dataset_size=9, sample_size=3, event=ac.ZCDPEvent(1)
    ),
]


@pytest.mark.parametrize("event", REFUSED, ids=lambda event: type(event).__name__)
def test_events_without_a_counterpart_are_refused_by_name(event):
    with pytest.raises(UnsupportedEventError, match="counterpart in dp_accounting"):
        to_dp_event(event)
    with pytest.raises(UnsupportedEventError, match="counterpart in dp_accounting"):
        to_dp_event(ac.ComposedEvent((event, event)))


@pytest.mark.parametrize(
    "event",
    [
        dp.UnsupportedDpEvent(),
        dp.RandomizedResponseDpEvent(0.5, 4),
        dp.SingleEpochTreeAggregationDpEvent(1.0, 8),
        dp.dp_event.RepeatAndSelectDpEvent(GAUSS, 10, 1),
        dp.dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.5, 0.5]),
        dp.TruncatedSubsampledGaussianDpEvent(9, 0.5, 3, 1.0),
        type("GaussianDpEvent", (dp.GaussianDpEvent,), {})(1.0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_their_events_without_a_counterpart_are_refused_by_name(event):
    for inside in (event, dp.SelfComposedDpEvent(event, 3)):
        with pytest.raises(UnsupportedEventError, match=type(event).__name__):
            from_dp_event(inside)
        for kind in (PLDAccountant, RdpAccountant):
            assert not kind().supports(inside)
            with pytest.raises(dp.UnsupportedEventError, match=type(event).__name__):
                kind().compose(inside)


def test_bad_arguments_are_refused():
    with pytest.raises(DTypeError, match="dp_event must be a DpEvent, got float"):
        from_dp_event(1.0)
    with pytest.raises(DTypeError, match="neighboring_relation"):
        from_dp_event(GAUSS, neighboring_relation="replace_two")
    for event in (dp.GaussianDpEvent(-1.0), dp.LaplaceDpEvent(math.nan)):
        with pytest.raises(ParameterError, match="must be finite"):
            from_dp_event(event)
    with pytest.raises(ParameterError, match="orders must be >= 1"):
        RdpAccountant([0.5])


def test_a_tree_is_the_nodes_of_one_path():
    event = dp.SingleEpochTreeAggregationDpEvent(1.0, [3, 1600, 4])
    ours = from_dp_event(event, neighboring_relation="replace_special")
    assert (ours.count, ours.event.sigma) == (11, 1)
    pair = [kind(neighboring_relation=SPECIAL).compose(event)
            for kind in (RdpAccountant, dp.rdp.RdpAccountant)]  # fmt: skip
    assert 0 < pair[1].get_epsilon(1e-6) - pair[0].get_epsilon(1e-6) < 0.01


READ_BY_BOTH = [
    (GAUSS, 3, (ADD, REPLACE, SPECIAL)),
    (dp.LaplaceDpEvent(2.0), 4, (ADD, SPECIAL)),
    (DISCRETE(0.5, 1), 4, (ADD, SPECIAL)),
    (dp.PoissonSampledDpEvent(0.125, GAUSS), 20, (ADD, REPLACE, SPECIAL)),
    (dp.RandomizedResponseDpEvent(0.25, 4), 1, (REPLACE, SPECIAL)),
    (dp.ComposedDpEvent([GAUSS, dp.LaplaceDpEvent(2.0)]), 1, (ADD,)),
]


@pytest.mark.parametrize(("event", "count", "relations"), READ_BY_BOTH, ids=str)
def test_both_read_the_same_privacy_loss(event, count, relations):
    for relation in relations:
        ours, theirs = (
            kind(relation, 1e-3).compose(event, count)
            for kind in (PLDAccountant, dp.pld.PLDAccountant)
        )
        for delta in (1e-3, 1e-6):
            pair = ours.get_epsilon(delta), theirs.get_epsilon(delta)
            assert pair[0] == pytest.approx(pair[1], rel=2e-3), relation
        assert ours.get_delta(1) == pytest.approx(theirs.get_delta(1), rel=2e-3)
        assert ours.ledger == theirs.ledger
        assert ours.neighboring_relation is relation


def test_renyi_readings_are_no_looser():
    event = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    ours, theirs = (
        kind().compose(event, 1000) for kind in (RdpAccountant, dp.rdp.RdpAccountant)
    )
    assert (ours.rdp <= theirs.rdp * (1 + 1e-9)).all()
    for ours_at, theirs_at in (
        (ours.get_epsilon_and_optimal_order(1e-6),
         theirs.get_epsilon_and_optimal_order(1e-6)),
        (ours.get_delta_and_optimal_order(2), theirs.get_delta_and_optimal_order(2)),
    ):  # fmt: skip
        assert ours_at[0] <= theirs_at[0] * (1 + 1e-9)
        assert ours_at[1] == pytest.approx(theirs_at[1], rel=0.1)


def test_calibration_takes_our_accountant():
    sigma = dp.calibrate_dp_mechanism(
        PLDAccountant,
        lambda x: dp.SelfComposedDpEvent(
            dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(x)), 1000
        ),
        1.0,
        1e-5,
        dp.LowerEndpointAndGuess(0.5, 2),
    )
    assert 1.4146 < sigma < 1.41463  # with its own accountant 1.414631


def test_what_is_not_private_has_no_finite_epsilon():
    for kind in (PLDAccountant, RdpAccountant):
        accountant = kind().compose(dp.ComposedDpEvent([GAUSS, dp.NonPrivateDpEvent()]))
        assert accountant.get_epsilon(1e-6) == accountant.get_epsilon(1) == math.inf
        assert accountant.get_delta(5) == accountant.get_delta(math.inf) == 1
        sampled = kind().compose(dp.PoissonSampledDpEvent(0.25, dp.GaussianDpEvent(0)))
        assert sampled.get_epsilon(0.125) == math.inf
        for epsilon in (1, math.inf):
            assert 0.25 <= sampled.get_delta(epsilon) < 0.2500001
    assert (accountant.rdp == math.inf).all()
    assert (sampled.rdp == math.inf).all()


# ---- where their numbers are wrong ---------------------------------------------------


def test_repeated_randomized_response_is_counted():
    event = dp.RandomizedResponseDpEvent(0.3, 5)
    once, often = (PLDAccountant(REPLACE).compose(event, n) for n in (1, 10))
    assert often.get_epsilon(1e-5) > 9 * once.get_epsilon(1e-5)


def test_a_replaced_record_counts_twice_in_renyi_divergence_too():
    for event in (GAUSS, dp.LaplaceDpEvent(2.0)):
        added, replaced = (
            RdpAccountant([2.0], relation).compose(event).rdp[0]
            for relation in (ADD, REPLACE)
        )
        assert replaced > 1.9 * added


# ---- their own tests -----------------------------------------------------------------

#: Tests of theirs that fail over our accountants, and why.
DIFFERING = {
    r"repeat": "refused: repetition with selection has no exact event",
    r"mixture|probability[45]|multiplier5|relation4": "refused: mixtures",
    r"truncated_subsampled": "refused: truncated samples",
    r"rdp_randomized_response_replace_special": "refused here, read by PLDAccountant",
    r"relation0|tree_restart_raise|raises_on_invalid": "the same refusal, other words",
    r"relation[123]|laplace_not_supported|test_supports$": "ours has a bound",
    r"multiplier[34]|delta_consistency": "delta is the sampling rate, theirs says 1",
    r"rdp_poisson_sampled_gaussian": "order 1.5 is 6.5007e-4; theirs 6.7058e-4",
    r"laplace_repetition": "ours is smaller: 83.15, theirs 100",
    r"early_termination": "theirs does not converge; ours does",
}


def test_their_own_tests_differ_where_we_say_so(tmp_path):
    root = Path(dp.__file__).parent
    files = [
        "pld/pld_privacy_accountant_test.py",
        "rdp/rdp_privacy_accountant_test.py",
        "mechanism_calibration_test.py",
    ]
    options = "-q -rf --tb=no -p no:cacheprovider -p tests.engines.their_accountants"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options.split(), *(root / f for f in files)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = re.findall(r"^FAILED \S+::(\w+.*)$", run.stdout, re.M)
    counts = {n: int(v) for v, n in re.findall(r"(\d+) (passed|failed)", run.stdout)}
    assert counts["passed"] >= 188, run.stdout[-2000:]
    assert counts["failed"] == len(failed) <= 63
    unsaid = [name for name in failed if not re.search("|".join(DIFFERING), name)]
    assert unsaid == []
