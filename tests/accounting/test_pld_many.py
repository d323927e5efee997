"""Many different steps: tables against losses one by one, and what is handed on."""

import math
import random
import sys
import threading
import time
from fractions import Fraction

import numpy as np
import pytest

from fastdp.accounting import (
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    PLDAccountant,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    calibrate,
)
from fastdp.accounting._pld import sampled_batch
from fastdp.accounting._pld.batches import LoopBatch, batches_of
from fastdp.accounting._pld.composition import Composition
from fastdp.accounting._pld.interval_loss import LaplaceLoss
from fastdp.accounting._pld.listed_loss import AtomLoss
from fastdp.accounting._pld.losses import GaussianLoss, one_less_sinc, short, unit_steps
from fastdp.accounting._pld.sampled_batch import SampledGaussianBatch
from fastdp.accounting._pld.sampled_loss import SampledGaussianLoss


def sampled_steps(source, number, removal, most=400):
    return tuple(
        (
            SampledGaussianLoss(
                10 ** source.uniform(-4, -0.3),
                math.exp(source.uniform(-0.9, 4)),
                removal,
            ),
            source.randint(1, most),
        )
        for _ in range(number)
    )


def simple_steps(source, number):
    steps = []
    for i in range(number):
        e = Fraction(source.randint(1, 400), 200)
        n = source.randint(1, 9)
        if i % 2:
            steps.append((LaplaceLoss(e, ends=i % 4 == 1), n))
        else:
            p = 1 / (1 + math.exp(-float(e)))
            rest = 0.25 if i % 4 else 0.0
            masses = ((1 - p) * (1 - rest), p * (1 - rest))
            if rest:
                masses = (masses[0], rest, masses[1])
            places = (-1, 0, 1) if rest else (-1, 1)
            steps.append((AtomLoss(e, places, masses), n))
    return tuple(steps)


KINDS = {
    "removal": lambda source: sampled_steps(source, 9, True),
    "addition": lambda source: sampled_steps(source, 9, False),
    "one": lambda source: sampled_steps(source, 1, True, 10**6),
    "simple": lambda source: simple_steps(source, 16),
}


def loop(steps):
    losses, counts = zip(*steps, strict=True)
    return LoopBatch(losses, counts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_tables_give_what_single_losses_give(kind, seed):
    """K, K(theta), ln phi and the envelopes, within the errors that both claim."""
    source = random.Random(seed)
    steps = KINDS[kind](source)
    batches, single = batches_of(steps), loop(steps)
    assert not any(isinstance(batch, LoopBatch) for batch in batches)
    t = np.array([0.3, 1.0, 2.7, 8.0])
    values = [batch.cumulants(t) for batch in batches]
    value, error = (sum(parts) for parts in zip(*values, strict=True))
    true, slip = single.cumulants(t)
    assert (np.abs(value - true) <= error + slip).all()
    theta = source.uniform(0.5, 6)
    spread = 2 * (true[2] - 2.7 / 0.3 * true[0]) / (2.7 * 2.4)
    step = short(6 / math.sqrt(max(spread, 1e-6)) / 40)
    laws = [batch.tilted(theta) for batch in batches]
    found = [law.nodes(step, 40) for law in laws]
    tilt, nodes = single.tilted(theta).nodes(step, 40)
    other = sum(part.cumulant for part, _ in found)
    assert abs(other - tilt.cumulant) <= tilt.error + sum(p.error for p, _ in found)
    # Both are centered at means of their own.
    y = step * np.arange(1, 41)
    turned = sum(part.mean for part, _ in found) - tilt.mean
    both = sum(more.log_phi for _, more in found) + 1j * y * turned - nodes.log_phi
    room = nodes.growth + sum(more.growth for _, more in found) + 1e-14
    room = room + y * (tilt.drift + sum(p.drift for p, _ in found))
    assert (np.abs(np.expm1(both)) <= np.expm1(room) * 1.01).all()
    size = nodes.log_phi.real
    assert (sum(law.log_envelope(y) for law in laws) >= size - room).all()


def test_an_envelope_does_not_grow_and_is_close():
    steps = sampled_steps(random.Random(7), 300, True, 10)
    (batch,) = batches_of(steps)
    y = np.geomspace(1e-3, 30, 60)
    bound = batch.tilted(2.0).log_envelope(y)
    assert (np.diff(bound) <= 0).all()
    alone = loop(steps).tilted(2.0).log_envelope(y)
    middle = (alone < -1e-2) & (alone > -30)
    assert middle.sum() > 5
    assert (bound[middle] <= 0.4 * alone[middle]).all()


def test_one_less_sinc_is_a_lower_bound():
    v = np.concatenate([np.geomspace(1e-9, 0.5, 400), np.linspace(0.5, 40, 4000)])
    later = np.abs(np.sin(v) / v)
    largest = np.maximum.accumulate(later[::-1])[::-1]
    bound = one_less_sinc(v)
    assert (bound <= 1 - largest + 3e-16).all()
    assert (bound[v < 0.4] >= 0.99 * v[v < 0.4] ** 2 / 6).all()
    assert (np.diff(bound) >= -1e-15).all()


@pytest.mark.parametrize(("width", "starts"), [(1, 1), (1, 7), (4, 3), (16, 13)])
def test_unit_steps(width, starts):
    turn = np.array([[1e-9, 0.2, -1.7], [3.0, -40.0, 0.0]])
    near, far = unit_steps(turn, width, starts)
    assert near.shape == (2, width - 1, 3)
    assert far.shape == (2, starts, 3)
    for table, first, jump in ((near, 1, 1), (far, 1, width)):
        for i in range(table.shape[1]):
            k = first + i * jump
            error = np.abs(table[:, i] - np.expm1(1j * k * turn))
            room = (8 + 8 * math.log2(k)) * k * np.abs(turn) * 2.0**-52
            assert (error <= room + 1e-300).all()


def test_a_class_of_losses_is_not_batched_as_its_base():
    class Other(SampledGaussianLoss):
        pass

    whole, other = SampledGaussianLoss(0.01, 0.5, True), Other(0.01, 0.5, True)
    kinds = [type(batch) for batch in batches_of(((other, 2), (whole, 3)))]
    assert kinds == [LoopBatch, SampledGaussianBatch]


# ---- composing -------------------------------------------------------------------


def test_steps_are_those_that_were_added():
    source = random.Random(3)
    losses = [loss for loss, _ in sampled_steps(source, 40, True)]
    losses += [GaussianLoss(0.125), GaussianLoss(0.75)]
    composition, expected, square = Composition(), {}, 0.0
    for _ in range(700):
        loss, n = source.choice(losses), source.randint(1, 5)
        composition = composition.plus(loss, n)
        if isinstance(loss, GaussianLoss):
            square += n * loss.square
        else:
            expected[loss] = expected.get(loss, 0) + n
        if source.random() < 0.02:
            composition.cumulants(np.array([0, 6]))
    steps = dict(composition.steps)
    assert steps.pop(GaussianLoss(square)) == 1
    assert steps == expected


def test_many_gaussians_add_up_without_rounding():
    composition = Composition()
    for _ in range(3000):
        composition = composition.plus(GaussianLoss(0.1), 1)
    ((loss, count),) = composition.steps
    assert count == 1
    assert loss.square == float(3000 * Fraction(0.1))


def event(source):
    kind = source.randrange(4)
    if kind == 0:
        return LaplaceEvent(sensitivity=1, scale=source.uniform(20, 200))
    if kind == 1:
        return GaussianEvent(sensitivity=1, sigma=source.uniform(20, 200))
    if kind == 2:
        p = 0.5 + source.uniform(0.001, 0.01)
        both = NeighboringRelation.ADD_OR_REMOVE_ONE
        return RandomizedResponseEvent(p=p, q=1 - p, neighboring_relation=both)
    inner = GaussianEvent(sensitivity=1, sigma=source.uniform(0.7, 3))
    return PoissonSampledEvent(source.uniform(0.001, 0.02), inner)


def test_reading_after_each_event_gives_what_reading_once_does(monkeypatch):
    source = random.Random(11)
    events = [event(source) for _ in range(60)]
    known = PLDAccountant()
    for each in events[:40]:
        known.compose(each, 30)
    known.epsilon_bounds(1e-6)
    tilted, taken = SampledGaussianBatch.tilted, []

    def counted(self, theta):
        taken.append(len(self.losses))
        return tilted(self, theta)

    monkeypatch.setattr(SampledGaussianBatch, "tilted", counted)
    for i in range(40, 60):
        known.compose(events[i])
        ours = known.epsilon_bounds(1e-6)
        if i % 5 == 0:
            fresh = PLDAccountant()
            for j, each in enumerate(events[: i + 1]):
                fresh.compose(each, 30 if j < 40 else 1)
            other = fresh.epsilon_bounds(1e-6)
            assert max(ours.lower, other.lower) <= min(ours.upper, other.upper)
            assert ours.upper - ours.lower <= 1e-10 * ours.upper
            taken.clear()
        elif taken:  # only what was added is looked at
            assert max(taken) <= 2
    assert known.statement().events[-1][0] == events[-1]


def test_a_kept_contour_is_given_up_where_it_does_not_fit():
    known = PLDAccountant()
    known.compose(
        PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=1)), 1000
    )
    known.epsilon_bounds(1e-6)
    known.compose(GaussianEvent(sensitivity=1, sigma=Fraction(1, 3)), 4)
    bounds = known.epsilon_bounds(1e-6)
    assert bounds.upper - bounds.lower <= 1e-10 * bounds.upper
    fresh = PLDAccountant()
    fresh.compose(GaussianEvent(sensitivity=1, sigma=Fraction(1, 3)), 4)
    fresh.compose(
        PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=1)), 1000
    )
    other = fresh.epsilon_bounds(1e-6)
    assert max(bounds.lower, other.lower) <= min(bounds.upper, other.upper)


def test_a_thousand_different_steps_against_few_kinds():
    """Nearly equal steps have the epsilon of equal ones, to first order."""
    known, mean = PLDAccountant(), PLDAccountant()
    for i in range(1000):
        sigma = 1.5 * (1 + 1e-9 * (i - 499.5))
        known.compose(
            PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=sigma)), 3
        )
    mean.compose(
        PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=1.5)), 3000
    )
    ours, other = known.epsilon_bounds(1e-6), mean.epsilon_bounds(1e-6)
    assert ours.estimate == pytest.approx(other.estimate, rel=1e-9)
    assert ours.upper - ours.lower <= 1e-10 * ours.upper


def test_rows_too_far_out_for_real_nodes_go_alone(monkeypatch):
    steps = sampled_steps(random.Random(2), 6, True)
    (batch,) = batches_of(steps)
    tilt, nodes = batch.tilted(3.0).nodes(0.25, 48)
    monkeypatch.setattr(sampled_batch, "_MOST_NODES", 1)
    alone_tilt, alone = batch.tilted(3.0).nodes(0.25, 48)
    y = 0.25 * np.arange(1, 49)
    turned = 1j * y * (alone_tilt.mean - tilt.mean)
    room = nodes.growth + alone.growth + y * (tilt.drift + alone_tilt.drift)
    gap = np.abs(np.expm1(alone.log_phi + turned - nodes.log_phi))
    assert (gap <= np.expm1(room) * 1.01).all()
    assert gap.max() > 0


def test_quadrature_that_is_too_coarse_is_seen(monkeypatch):
    """Strips twice as wide as allowed: the error bound must say so, not the result."""
    steps = sampled_steps(random.Random(2), 6, True)
    strips = sampled_batch._Samples._strips

    def coarse(self, least, aim, growth):
        found = strips(self, least, aim, growth)
        if growth is not None:
            found.step[:] *= 3
        return found

    monkeypatch.setattr(sampled_batch._Samples, "_strips", coarse)
    tried = []
    inner = sampled_batch._Law.__init__

    def noted(self, *args):
        inner(self, *args)
        tried.append(self.log_inner.max())

    monkeypatch.setattr(sampled_batch._Law, "__init__", noted)
    (batch,) = batches_of(steps)
    _, nodes = batch.tilted(3.0).nodes(0.25, 48)
    monkeypatch.undo()
    _, true = batch.tilted(3.0).nodes(0.25, 48)
    assert max(tried) > -20
    room = np.expm1(nodes.growth + true.growth)
    real = np.expm1(nodes.log_phi.real - true.log_phi.real)
    assert (np.abs(real) <= room * 1.01 + 1e-13).all()


@pytest.fixture
def threads_take_turns_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_take_turns_often")
def test_threads_may_share_an_accountant():
    known = PLDAccountant()
    source = random.Random(5)
    for _ in range(30):
        known.compose(event(source), 40)
    alone = [known.epsilon_bounds(10.0**-d) for d in range(3, 9)]
    for _ in range(8):
        shared = PLDAccountant.from_statement(known.statement())
        found = {}

        def read(d, shared=shared, found=found):
            found[d] = shared.epsilon_bounds(10.0**-d)

        threads = [
            threading.Thread(target=read, args=(d,), daemon=True) for d in range(3, 9)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for d, bounds in enumerate(alone, 3):  # by a name missing where one hangs
            assert bounds.lower <= found[d].upper
            assert found[d].lower <= bounds.upper


def test_calibration_meets_its_target():
    sigma = calibrate(
        lambda x: PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=x)),
        epsilon=3,
        delta=1e-5,
        accountant=PLDAccountant,
        low=0.5,
        high=10,
        count=10_000,
    )
    at = PLDAccountant()
    at.compose(
        PoissonSampledEvent(0.01, GaussianEvent(sensitivity=1, sigma=sigma)), 10_000
    )
    assert at.epsilon(1e-5) <= 3
    assert at.epsilon_bounds(1e-5).lower >= 3 - 1e-9


@pytest.mark.slow
def test_times():
    """Ten times what a machine took that was at work otherwise."""
    source = random.Random(1)
    steps = [(event(source), source.randint(1, 10)) for _ in range(1000)]
    start = time.process_time()
    known = PLDAccountant()
    for each, count in steps:
        known.compose(each, count)
    known.epsilon_bounds(1e-5)
    assert time.process_time() - start < 2, sys.version
    known.compose(event(source))
    start = time.process_time()
    known.epsilon(1e-5)
    assert time.process_time() - start < 0.02
