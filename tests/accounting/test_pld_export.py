"""Exported loss distributions, the second method, calibration."""

import json
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fastdp.accounting import (
    ApproximateDPEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    GDPEvent,
    GroupEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PrivacyLossDistribution,
    PureDPEvent,
    calibrate,
    calibrate_count,
)
from fastdp.accounting._atoms.law import Reading
from fastdp.accounting._pld.contour import Contour, LogDelta
from fastdp.accounting.pld import GridLosses
from fastdp.exceptions import (
    CertificateError,
    DTypeError,
    ParameterError,
    UnsupportedEventError,
)
from tests.accounting.test_pld_api import composed, sampled

# ---- export and import ---------------------------------------------------------------

MADE = [
    (sampled(0.01, 1), 10_000, 0.02),
    (GaussianEvent(sensitivity=1, sigma=1), 1, None),
    (DiscreteLaplaceEvent(sensitivity=2, scale=3), 2, 0.05),
    (PureDPEvent(0.5), 3, None),
]


@pytest.mark.parametrize(("event", "count", "interval"), MADE)
def test_a_round_trip_loses_no_privacy_and_little_epsilon(event, count, interval):
    law = composed(event, count).distribution(interval=interval)
    text = law.to_json()
    read = PrivacyLossDistribution.from_json(text)
    assert read.to_json() == text
    for times in (1, 3):
        again = composed(read.event(), times)
        true = composed(event, count * times)
        for delta in (1e-3, 1e-8):
            found, bounds = again.epsilon(delta), true.epsilon_bounds(delta)
            assert found >= bounds.lower
            assert found <= bounds.upper + times * law.interval


def direct(law, interval, epsilon):
    """Return delta of a law on a grid, a sum of positive terms."""
    losses = interval * (law.lower_index + np.arange(law.probabilities.size))
    gain = -np.expm1(np.minimum(epsilon - losses, 0.0))
    return float(np.sum(law.probabilities * gain)) + law.infinity_mass


@pytest.mark.parametrize("interval", [0.3])
def test_laws_of_laplace_noise_are_above_and_below_it_everywhere(interval):
    made = composed(LaplaceEvent(sensitivity=1, scale=1))
    above = made.distribution(interval=interval)
    below = made.distribution(interval=interval, pessimistic=False)
    for epsilon in np.linspace(-1.3, 1.3, 101):
        true = max(0.0, -math.expm1((epsilon - 1) / 2)) if epsilon >= 0 else None
        if true is None:  # 1 - a + a delta(-epsilon) of the other order
            rest = max(0.0, -math.expm1((-epsilon - 1) / 2))
            true = 1 - math.exp(epsilon) * (1 - rest)
        assert direct(above.removal, interval, epsilon) >= true - 1e-13
        assert direct(below.removal, interval, epsilon) <= true + 1e-13
        later = min(epsilon + 2 * interval, 1.4)
        if 0 <= later <= 1:
            assert direct(below.removal, interval, epsilon) >= (
                -math.expm1((later - 1) / 2) - 1e-9
            )


def test_an_optimistic_law_has_no_tail_of_its_own():
    for event, lost in (
        (GaussianEvent(sensitivity=1, sigma=1), 0.0),
        (ApproximateDPEvent(epsilon=1, delta=0.1), 0.1),
    ):
        law = composed(event).distribution(pessimistic=False, tail_mass=1e-6)
        assert direct(law.removal, law.interval, 60.0) == pytest.approx(lost, abs=1e-10)
        assert law.removal.infinity_mass <= lost


def test_both_directions_are_exported_where_they_differ():
    law = composed(sampled(0.02, 1), 3000).distribution(interval=0.05)
    assert law.addition is not None
    tops = [
        law.interval * (side.lower_index + side.probabilities.size - 1)
        for side in (law.removal, law.addition)
    ]
    assert tops[0] > 0
    assert tops[1] > 0
    assert not np.array_equal(law.removal.probabilities, law.addition.probabilities)
    for side in (law.removal, law.addition):
        assert math.fsum([*side.probabilities, side.infinity_mass]) >= 1
    assert (
        composed(GaussianEvent(sensitivity=1, sigma=1)).distribution().addition is None
    )


def test_an_optimistic_law_is_no_event_and_groups_are_not_exported():
    law = composed(GaussianEvent(sensitivity=1, sigma=1)).distribution(
        pessimistic=False
    )
    with pytest.raises(UnsupportedEventError, match="pessimistic must be True"):
        law.event()
    group = composed(GroupEvent(GaussianEvent(sensitivity=1, sigma=1), 2))
    with pytest.raises(UnsupportedEventError, match="single individuals"):
        group.distribution()


def test_relations_and_infinite_losses_are_kept():
    relation = NeighboringRelation.REPLACE_ONE
    made = composed(
        ApproximateDPEvent(epsilon=1, delta=0.001, neighboring_relation=relation), 2
    )
    law = PrivacyLossDistribution.from_json(made.distribution().to_json())
    assert law.neighboring_relation is relation
    assert law.event().neighboring_relation is relation
    assert law.removal.infinity_mass == pytest.approx(1 - 0.999**2, rel=1e-9)


GOOD = PrivacyLossDistribution(
    0.5,
    GridLosses(
        lower_index=-1, probabilities=np.array([0.25, 0.0, 0.75]), infinity_mass=0.0
    ),
)


def edited(*path_and_value):
    *path, value = path_and_value
    content = json.loads(GOOD.to_json())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(content)


ROOT = "privacy_loss_distribution"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "text must be JSON"),
        ("[]", "text must be a JSON object"),
        ("[" * 100_000, "text must be JSON"),
        ('{"format": NaN}', "numbers must be finite"),
        (edited("format", "x"), "format must be"),
        (edited("version", 2), "version 1"),
        (edited("more", 2), "'more'"),
        (edited(ROOT, "interval", None), "'interval'"),
        (edited(ROOT, "interval", 0), "interval must be"),
        (edited(ROOT, "interval", "1"), "interval must be a number"),
        (edited(ROOT, "interval", True), "interval must be a number"),
        (edited(ROOT, "pessimistic", 1), "pessimistic must be true or false"),
        (edited(ROOT, "neighboring_relation", "x"), "neighboring_relation must be"),
        (edited(ROOT, "removal", 3), "removal must be a JSON object"),
        (edited(ROOT, "removal", "lower_index", 0.5), "removal.lower_index"),
        (edited(ROOT, "removal", "lower_index", 10**30), "removal: lower_index"),
        (edited(ROOT, "removal", "probabilities", {}), "removal.probabilities"),
        (edited(ROOT, "removal", "probabilities", ["1"]), "removal.probabilities"),
        (edited(ROOT, "removal", "probabilities", []), "removal: probabilities"),
        (edited(ROOT, "removal", "probabilities", [2]), "removal: .* add up to 1"),
        (edited(ROOT, "removal", "probabilities", [-1, 2]), "removal: probabilities"),
        (edited(ROOT, "removal", "infinity_mass", 1), "removal: infinity_mass"),
        (edited(ROOT, "removal", "infinity_mass", 10**400), "removal.infinity_mass"),
        (edited(ROOT, "addition", {}), "addition must have the field 'lower_index'"),
    ],
)
def test_malformed_json_names_the_field(text, message):
    with pytest.raises(ParameterError, match=message):
        PrivacyLossDistribution.from_json(text)
    with pytest.raises(DTypeError, match="text must be a str"):
        PrivacyLossDistribution.from_json(b"{}")


def test_dp_accounting_reads_it_and_is_read():
    pld_pmf = pytest.importorskip("dp_accounting.pld.pld_pmf")
    made = composed(sampled(0.01, 1), 10_000)
    law = made.distribution(interval=0.01)
    side = law.removal
    masses = {
        side.lower_index + i: p for i, p in enumerate(side.probabilities.tolist()) if p
    }
    pmf = pld_pmf.create_pmf(masses, law.interval, side.infinity_mass, True)
    theirs = pmf.get_epsilon_for_delta(1e-6)
    bounds = made.epsilon_bounds(1e-6)
    assert bounds.lower - 1e-9 <= theirs <= bounds.upper + law.interval


def test_the_examples_of_the_page_run():
    page = (Path(__file__).parents[2] / "docs" / "accounting.md").read_text()
    section = page.partition("## The exact privacy loss\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.S)
    names = {}
    for block in blocks:
        exec(block, names)  # noqa: S102 - code of this repository
    assert len(blocks) == 2
    bounds = names["accountant"].epsilon_bounds(1e-5)
    assert 6.1877123899 <= bounds.lower <= bounds.upper < bounds.lower + 1e-9
    again = PLDAccountant().compose(names["event"]).epsilon(1e-5)
    assert bounds.lower <= again < 6.18771 + 0.01


# ---- the second method ------------------------------------------------------------

CHECKED = [
    (GaussianEvent(sensitivity=1, sigma=1), 1, "closed form, checked by contour"),
    (sampled(0.1, 2), 30, "contour, checked by atoms"),
    (sampled(0.1, 2), 30_000, "contour, checked by atoms"),
]


@pytest.mark.rest
@pytest.mark.parametrize(("event", "count", "certificate"), CHECKED)
def test_a_check_names_both_methods_and_proves_no_less(event, count, certificate):
    made = composed(event, count)
    delta = 1e-6
    once, twice = made.epsilon_bounds(delta), made.epsilon_bounds(delta, check=True)
    assert twice.certificate == certificate
    assert once.lower <= twice.lower <= twice.upper <= once.upper
    assert twice.lower <= twice.estimate <= twice.upper
    epsilon = once.estimate
    logs = made.ln_delta_bounds(epsilon, check=True)
    assert logs.certificate.startswith(certificate.partition(",")[0])
    assert logs.lower - 1e-9 <= math.log(delta) <= logs.upper + 1e-9


def test_a_planted_error_of_either_method_is_found(monkeypatch):
    atoms, contour = Reading.at, Contour.log_deltas

    def moved(self, epsilons):
        return atoms(self, epsilons) * 1.01

    def shifted(self, epsilons):
        return [
            LogDelta(f.lower - 0.01, f.estimate - 0.01, f.upper - 0.01)
            for f in contour(self, epsilons)
        ]

    for owner, name, wrong in (
        (Reading, "at", moved),
        (Contour, "log_deltas", shifted),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, wrong)
            with pytest.raises(CertificateError, match="contradict each other"):
                composed(sampled(0.1, 2), 30).epsilon_bounds(1e-6, check=True)
    monkeypatch.setattr(Reading, "at", moved)
    with pytest.raises(CertificateError, match="contradict each other"):
        composed(sampled(0.1, 2), 30).delta_bounds(1, check=True)


def test_where_there_is_no_second_method_it_is_said():
    bounds = PLDAccountant().epsilon_bounds(1e-6, check=True)
    assert bounds.upper == 0
    made = composed(ApproximateDPEvent(epsilon=1, delta=0.01), 3)
    assert made.epsilon_bounds(1e-6, check=True).upper == math.inf


# ---- calibration -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "count", "low", "high"),
    [
        (lambda s: GaussianEvent(sensitivity=1, sigma=s), 100, 1, 1000),
        (lambda s: sampled(0.02, s), 200, 1, 4),
        (lambda q: sampled(q, 2), 2000, 5e-3, 0.03),
        (lambda s: DiscreteLaplaceEvent(sensitivity=1, scale=s), 20, 1, 1000),
        (lambda e: PureDPEvent(e), 50, 1e-4, 10),
        (lambda m: GDPEvent(m), 5, 1e-4, 10),
    ],
    ids=["sigma", "sampled sigma", "rate", "scale", "epsilon", "mu"],
)
def test_what_is_solved_for_meets_the_target_next_to_where_it_does_not(
    family, count, low, high
):
    found = calibrate(
        family,
        epsilon=1,
        delta=1e-6,
        accountant=PLDAccountant,
        low=low,
        high=high,
        count=count,
    )
    assert composed(family(found), count).epsilon(1e-6) <= 1
    assert composed(family(found), count).delta(1) <= 1e-6
    worse = min(
        (found * (1 + 1e-8), found * (1 - 1e-8)),
        key=lambda x: -composed(family(x), count).epsilon(1e-6),
    )
    assert composed(family(worse), count).epsilon(1e-6) > 1


def test_counts_through_the_exact_loss():
    for event in (GaussianEvent(sensitivity=1, sigma=50), PureDPEvent(Fraction(1, 20))):
        count = calibrate_count(event, epsilon=1, delta=1e-6, accountant=PLDAccountant)
        assert composed(event, count).epsilon(1e-6) <= 1
        assert composed(event, count + 1).epsilon(1e-6) > 1
