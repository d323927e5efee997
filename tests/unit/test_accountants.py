"""What every accountant does: relations, refusals, threads, statements."""

import copy
import math
import os
import pickle
import subprocess
import sys
import threading
from fractions import Fraction

import pytest

from fastdp import accounting
from fastdp.accounting import (
    Accountant,
    ApproximateAccountant,
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    PoissonSampledEvent,
    PureAccountant,
    PureDPEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
    Statement,
    TCDPAccountant,
    TCDPEvent,
    TruncatedDiscreteLaplaceEvent,
    ZCDPAccountant,
    ZCDPEvent,
)
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    ParameterError,
    UnsupportedEventError,
)

ACCOUNTANTS = [PureAccountant, ApproximateAccountant, ZCDPAccountant, TCDPAccountant]
REPLACE = NeighboringRelation.REPLACE_ONE
#: No accountant here has a bound for it.
UNBOUNDED = PoissonSampledEvent(0.5, GaussianEvent(sensitivity=1, sigma=2))
all_accountants = pytest.mark.parametrize("make", ACCOUNTANTS)


@all_accountants
def test_nothing_composed_is_nothing_spent(make):
    accountant = make()
    assert accountant.epsilon(0) == accountant.epsilon(0.1) == accountant.delta(0) == 0
    assert accountant.neighboring_relation is None
    assert accountant.group_size == 1


@all_accountants
def test_compose_returns_the_accountant_and_count_repeats(make):
    one = make().compose(LaplaceEvent(sensitivity=1, scale=3), 4)
    other = make()
    for _ in range(4):
        assert other.compose(LaplaceEvent(sensitivity=1, scale=3)) is other
    for delta in (0, 1e-9, 0.3):
        assert one.epsilon(delta) == other.epsilon(delta)
    assert one.statement().events == other.statement().events
    assert one.neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    assert isinstance(one, Accountant)


@all_accountants
def test_combined_events_are_taken_apart(make):
    parts = (
        LaplaceEvent(sensitivity=1, scale=3),
        SelfComposedEvent(DiscreteLaplaceEvent(sensitivity=2, scale=7), 5),
    )
    apart = (
        make()
        .compose(parts[0], 3)
        .compose(DiscreteLaplaceEvent(sensitivity=2, scale=7), 15)
    )
    whole = make().compose(SelfComposedEvent(ComposedEvent(parts), 3))
    assert whole.epsilon(1e-6) == apart.epsilon(1e-6)
    assert whole.delta(0.5) == apart.delta(0.5)
    group = make().compose(GroupEvent(ComposedEvent(parts), 2))
    doubled = (
        make()
        .compose(LaplaceEvent(sensitivity=2, scale=3))
        .compose(DiscreteLaplaceEvent(sensitivity=4, scale=7), 5)
    )
    assert group.epsilon(1e-6) == doubled.epsilon(1e-6)
    assert (group.group_size, doubled.group_size) == (2, 1)
    nested = make().compose(GroupEvent(GroupEvent(parts[0], 2), 3))
    assert nested.epsilon(0) == 2.0


@all_accountants
def test_relations_and_groups_are_not_mixed(make):
    accountant = make().compose(PureDPEvent(1))
    for event, match in (
        (PureDPEvent(1, neighboring_relation=REPLACE), "neighboring_relation"),
        (GroupEvent(PureDPEvent(1), 2), "group_size"),
    ):
        assert not accountant.supports(event)
        with pytest.raises(UnsupportedEventError, match=match):
            accountant.compose(event)
    with pytest.raises(UnsupportedEventError, match="REPLACE_ONE"):
        make(REPLACE).compose(PureDPEvent(1))
    assert accountant.epsilon(0) == 1.0


@all_accountants
def test_a_refused_event_leaves_nothing_behind(make):
    accountant = make().compose(PureDPEvent(1))
    before = accountant.statement()
    bad = ComposedEvent((PureDPEvent(1), UNBOUNDED))
    assert not accountant.supports(bad)
    with pytest.raises(UnsupportedEventError):
        accountant.compose(bad)
    assert accountant.statement() == before
    assert accountant.epsilon(0) == 1.0


@pytest.mark.parametrize(
    ("make", "good", "bad"),
    [
        (
            PureAccountant,
            [PureDPEvent(1)],
            [GaussianEvent(sensitivity=1, sigma=1), ZCDPEvent(1)],
        ),
        (
            ApproximateAccountant,
            [
                ApproximateDPEvent(epsilon=1, delta=0.1),
                TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=1, bound=9),
            ],
            [GaussianEvent(sensitivity=1, sigma=1)],
        ),
        (
            ZCDPAccountant,
            [
                GaussianEvent(sensitivity=1, sigma=1),
                DiscreteGaussianEvent(sensitivity=1, sigma=1),
                GDPEvent(1),
            ],
            [
                TruncatedDiscreteLaplaceEvent(sensitivity=1, scale=1, bound=9),
                TCDPEvent(rho=1, omega=3),
            ],
        ),
        (
            TCDPAccountant,
            [TCDPEvent(rho=1, omega=3), ExponentialMechanismEvent(1)],
            [ApproximateDPEvent(epsilon=1, delta=0.1), ZCDPEvent(1, xi=0.5)],
        ),
    ],
)
def test_what_each_notion_takes(make, good, bad):
    accountant = make()
    for event in good:
        assert accountant.supports(event)
        accountant.compose(event)
    for event in bad:
        assert not accountant.supports(event)
        with pytest.raises(UnsupportedEventError):
            accountant.compose(event)


@all_accountants
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda a: a.compose("event"), DTypeError),
        (lambda a: a.compose(PureDPEvent(1), -1), ParameterError),
        (lambda a: a.compose(PureDPEvent(1), 1.5), DTypeError),
        (lambda a: a.compose(PureDPEvent(1), True), DTypeError),
        (lambda a: a.supports(None), DTypeError),
        (lambda a: a.epsilon(1.5), ParameterError),
        (lambda a: a.epsilon(-0.1), ParameterError),
        (lambda a: a.epsilon(float("nan")), ParameterError),
        (lambda a: a.epsilon("0"), DTypeError),
        (lambda a: a.delta(-1), ParameterError),
        (lambda a: a.delta(float("inf")), ParameterError),
        (lambda a: a.from_statement("x"), DTypeError),
        (lambda a: type(a)("replace"), DTypeError),
    ],
)
def test_bad_input(make, call, error):
    with pytest.raises(error):
        call(make())


def test_delta_zero_where_the_notion_has_no_pure_epsilon():
    for make in (ZCDPAccountant, TCDPAccountant):
        with pytest.raises(UnsupportedEventError, match="delta must be > 0"):
            make().compose(GaussianEvent(sensitivity=1, sigma=1)).epsilon(0)
        # but a sum of pure ones has one
        assert make().compose(PureDPEvent(0.5), 3).epsilon(0) == 1.5


@all_accountants
def test_no_notion_is_worse_than_the_sum_of_pure_epsilons(make):
    for event in (
        LaplaceEvent(sensitivity=1, scale=0.01),
        PermuteAndFlipEvent(30),
        RandomizedResponseEvent(p=Fraction(99, 100), q=Fraction(1, 10**30)),
    ):
        accountant = make().compose(event)
        pure = accountant.epsilon(0)
        assert accountant.epsilon(1e-300) <= pure
        assert accountant.epsilon(0.5) < pure
        assert accountant.delta(pure) == 0
        assert accountant.log_delta(pure) == -math.inf


@all_accountants
def test_bounds_fall_and_agree_with_each_other(make):
    accountant = make().compose(LaplaceEvent(sensitivity=1, scale=20), 100)
    deltas = [0.1, 1e-3, 1e-9, 1e-100, 1e-300]
    epsilons = [accountant.epsilon(delta) for delta in deltas]
    assert epsilons == sorted(epsilons)
    for delta, epsilon in zip(deltas, epsilons, strict=True):
        assert accountant.log_delta(epsilon) <= math.log(delta) * (1 - 1e-9) + 1e-9
    assert all(map(math.isfinite, epsilons))


def test_sums_of_many_rationals_stay_short():
    accountant = PureAccountant()
    for i in range(2, 3000):
        accountant.compose(PureDPEvent(Fraction(1, i)))
    true = sum(1 / i for i in range(2, 3000))
    assert accountant.epsilon(0) == pytest.approx(true, rel=1e-12)
    assert accountant.total.denominator.bit_length() <= 1024


def test_truncated_orders():
    wide = TCDPAccountant().compose(TCDPEvent(rho=0.5, omega=10**9))
    plain = ZCDPAccountant().compose(ZCDPEvent(0.5))
    assert wide.epsilon(1e-5) == plain.epsilon(1e-5)
    accountant = (
        TCDPAccountant()
        .compose(TCDPEvent(rho=0.25, omega=7))
        .compose(TCDPEvent(rho=0.25, omega=5))
    )
    assert (accountant.rho, accountant.omega) == (0.5, 5)
    # at order 5 and not beyond
    expected = 5 * 0.5 + math.log(0.8) - math.log(5e-5) / 4
    assert accountant.epsilon(1e-5) == pytest.approx(expected, rel=1e-12)
    assert accountant.epsilon(1e-5) > plain.epsilon(1e-5)


def test_offsets_shift_epsilon():
    shifted = ZCDPAccountant().compose(ZCDPEvent(0.5, xi=0.25))
    plain = ZCDPAccountant().compose(ZCDPEvent(0.5))
    assert shifted.epsilon(1e-6) == pytest.approx(plain.epsilon(1e-6) + 0.25, rel=1e-14)
    assert shifted.delta(1.25) == pytest.approx(plain.delta(1), rel=1e-11)
    assert 0 < shifted.delta(0) <= 1
    assert (shifted.rho, shifted.xi) == (0.5, 0.25)


def test_sampling_is_amplified_only_where_it_is_proved():
    pure = PureDPEvent(1)
    assert PureAccountant().supports(PoissonSampledEvent(0.01, pure))
    # Of a replacement alone it may be known who is in the sample: nothing is gained.
    special = NeighboringRelation.REPLACE_SPECIAL
    for relation in (REPLACE, special):
        inside = PureDPEvent(1, neighboring_relation=relation)
        accountant = PureAccountant().compose(PoissonSampledEvent(0.01, inside))
        assert accountant.epsilon(0) == 1
        mixed = PoissonSampledEvent(
            0.01, inside, neighboring_relation="add_or_remove_one"
        )
        assert not PureAccountant().supports(mixed)
    assert not PureAccountant().supports(
        SampledWithoutReplacementEvent(
            source_dataset_size=100, sample_size=1, event=inside
        )
    )
    # Taken twice, once for the removal and once for the addition.
    twice = SampledWithoutReplacementEvent(
        source_dataset_size=100, sample_size=1, event=pure
    )
    expected = math.log1p(0.01 * math.expm1(2))
    got = PureAccountant().compose(twice).epsilon(0)
    assert expected <= got < expected * (1 + 1e-13)
    sampled = SampledWithoutReplacementEvent(
        source_dataset_size=100,
        sample_size=1,
        event=PureDPEvent(1, neighboring_relation=REPLACE),
    )
    expected = math.log1p(0.01 * math.expm1(1))
    got = PureAccountant().compose(sampled).epsilon(0)
    assert expected <= got < expected * (1 + 1e-13)


def test_importing_loads_only_what_is_light():
    program = "import fastdp.accounting as a; import sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    loaded = set(run.stdout.split())
    assert "fastdp.accounting.zcdp" in loaded
    later = {f"fastdp.accounting.{module}" for module in accounting._LATER}
    assert not {"scipy", "fastdp._core", "fastdp.accounting._pld", *later} & loaded
    for module, names in accounting._LATER.items():
        for name in names:
            shown = getattr(accounting, name).__module__
            assert shown == f"fastdp.accounting.{module}"
    with pytest.raises(AttributeError, match="PDLAccountant"):
        _ = accounting.PDLAccountant


# ---- sharing -----------------------------------------------------------------------


@all_accountants
def test_threads_lose_no_event(make):
    accountant = make()
    event = PureDPEvent(Fraction(1, 100))

    def work():
        for _ in range(50):
            accountant.compose(event)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert accountant.epsilon(0) == 4.0
    assert accountant.statement().events == ((event, 400),)


@all_accountants
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_accountants_are_not_copied(make, duplicate):
    with pytest.raises(DTypeError, match="statement"):
        duplicate(make())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_compose(monkeypatch):
    accountant = PureAccountant().compose(PureDPEvent(1))
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)  # as seen by a child
    with pytest.raises(BudgetExceededError, match="process"):
        accountant.compose(PureDPEvent(1))
    assert accountant.epsilon(0) == 1.0


# ---- statements --------------------------------------------------------------------


@all_accountants
def test_statements_are_exported_and_read_back(make):
    accountant = make().compose(PureDPEvent(Fraction(1, 3)), 5)
    accountant.compose(ExponentialMechanismEvent(0.5))
    statement = accountant.statement()
    assert Statement.from_json(statement.to_json()) == statement
    assert hash(Statement.from_json(statement.to_json())) == hash(statement)
    assert pickle.loads(pickle.dumps(statement)) == statement
    assert statement.accountant == make.__name__
    again = make.from_statement(statement)
    assert again.epsilon(1e-6) == accountant.epsilon(1e-6)
    accountant.compose(PureDPEvent(1))
    assert statement != accountant.statement()


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "{}",
        '{"format": "fastdp statement", "version": 1, "statement": []}',
        (
            '{"format": "fastdp statement", "version": 1, "statement": '
            '{"accountant": 1, "events": []}}'
        ),
        (
            '{"format": "fastdp statement", "version": 1, "statement": '
            '{"accountant": "PureAccountant", "events": [1]}}'
        ),
        '{"format": "fastdp event", "version": 1, "event": {}}',
    ],
)
def test_other_json_is_refused(text):
    with pytest.raises(ParameterError):
        Statement.from_json(text)


def test_repr_says_how_many():
    assert repr(PureAccountant().compose(PureDPEvent(1), 3)) == (
        "<PureAccountant: 3 events composed>"
    )
