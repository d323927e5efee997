"""Running totals: what neighbors can move, what is shown, and that nothing is kept."""

import copy
import itertools
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest

import fastdp
import fastdp.testing
from fastdp import _factors
from fastdp.accounting.calculators import matrix_mechanism, optimized_bands
from fastdp.exceptions import BudgetExceededError, DTypeError, ParameterError
from fastdp.mechanisms.running._strategies import Doubling, strategy_of

KINDS = {
    "independent": {},
    "tree": {},
    "square_root": {},
    "banded": {"bands": 3},
    "blt": {"buffers": 2},
}


def stream(seed=0):
    return fastdp.testing.FixedStream(bytes([seed] * 32))


#: What a counter takes as well; its blocks weigh their sums for one noise.
ALL = [*KINDS, "doubling"]


def plan(kind, steps, dimension=1, reach=1):
    if kind.startswith("doubling"):
        return Doubling(steps, pure=kind.endswith("pure"))
    pattern = (1, steps)
    return strategy_of(
        kind, steps, dimension, **KINDS[kind], reach=reach, pattern=pattern
    )


def encoded(kind, x, reach=1):
    """Return all that is released for steps x, without noise."""
    strategy = plan(kind, len(x), x.shape[1], reach)
    parts = []
    for row in x:
        y = strategy.encode(np.array(row, np.int64))
        strategy.decode(y.astype(np.float64))
        parts.append(y.ravel())
    return strategy, np.concatenate(parts)


def patterns(steps, count, gap):
    for k in range(1, count + 1):
        for chosen in itertools.combinations(range(steps), k):
            if all(b - a >= gap for a, b in itertools.pairwise(chosen)):
                yield chosen


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("steps", "count", "gap"), [(3, 1, 3), (3, 3, 1), (7, 2, 3), (8, 4, 2), (12, 3, 1)]
)
def test_no_pattern_moves_further_than_the_square(kind, steps, count, gap):
    """Every pattern of participations, on hostile sums of everybody else."""
    rng = np.random.default_rng(steps)
    base = rng.integers(-(2**20), 2**20, (steps, 1))
    furthest = 0
    for chosen in patterns(steps, count, gap):
        x = base.copy()
        x[list(chosen)] += 1
        strategy, after = encoded(kind, x)
        _, before = encoded(kind, base)
        shift = sum(int(v) ** 2 for v in after - before)
        furthest = max(furthest, shift)
    unit = 4**strategy.bits
    stated = (strategy.square(count, gap) + 0) * unit
    if kind == "blt":
        reach = float(stated) ** 0.5 + float(strategy.slack)
        assert furthest <= reach**2
        assert furthest >= 0.9 * float(stated)
    else:
        assert furthest <= stated
        whole = kind in ("independent", "square_root", "banded") or (
            kind == "tree" and (count == 1 or (steps == 8 and count == 4))
        )
        assert not whole or furthest == stated


@pytest.mark.parametrize("kind", ALL)
def test_inputs_chosen_in_view_of_the_past_move_no_further(kind):
    """Three steps; the others' inputs follow what was shown, alike for neighbors."""
    noise = np.random.default_rng(5)
    for event_at in range(3):
        one, two = plan(kind, 3), plan(kind, 3)
        square, seen = 0, 0
        for t in range(3):
            others = 1 + int(seen > 2**one.bits)  # depends on what both have shown
            x = np.array([others], np.int64)
            a, b = one.encode(x + (t == event_at)), two.encode(x)
            square += sum(int(v) ** 2 for v in (a - b).ravel())
            shown = b + noise.integers(-(2 ** (two.bits + 2)), 2 ** (two.bits + 2))
            seen = int(shown[-1, 0])
            for strategy in (one, two):
                strategy.decode(shown.astype(np.float64))
        root = float(one.square(1, 3)) ** 0.5 * 2**one.bits + float(one.slack)
        assert square <= root**2 * (1 + 1e-12)


def test_a_key_that_comes_again_would_show_the_data():
    """Why no stream is kept: two runs under one key differ by the data alone."""
    runs = []
    for first in (0, 1):
        c = fastdp.Counter.from_epsilon(1, steps=4)
        runs.append([c.add(first, stream=stream(7)), c.add(0, stream=stream(8))])
    assert runs[1][0] - runs[0][0] == 1  # found
    fresh = [fastdp.Counter.from_epsilon(1e-6, steps=4).add(0) for _ in range(4)]
    assert len(set(fresh)) > 1  # equal with probability below 1e-18


def test_nodes_of_a_step_have_noise_of_their_own():
    c = fastdp.Counter(steps=8, scale=2**30)
    with_zero = plan("tree", 8)
    shown = []
    for t in range(8):
        y = with_zero.encode(np.zeros(1, np.int64))
        c._noise.release(y, out=y, stream=stream(t))
        shown.append(y.ravel())
        with_zero.decode(y.astype(np.float64))
    assert len(set(shown[-1].tolist())) == 4  # one z for two nodes would be found here


def test_the_rounded_matrix_is_charged():
    """A sensitivity of the real coefficients would be too small: found here."""
    short = []
    for bands in range(2, 30):
        column = _factors.root(40)
        column[bands:] = 0
        strategy = strategy_of("banded", 40, 1, bands=bands, reach=1, pattern=(1, 40))
        exact = sum(Fraction(float(c)) ** 2 for c in column)
        short.append(strategy.square(1, 40) > exact)
    assert any(short)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 2, 3, 16, 37, 200])
def test_without_noise_the_sums_are_right(kind, steps):
    if kind == "banded" and steps < 3:
        return
    rng = np.random.default_rng(1)
    strategy = plan(kind, steps, 4, reach=2**18)
    truth = np.zeros(4, np.int64)
    for row in rng.integers(-(2**30), 2**30, (steps, 4)):
        truth += row
        shown = strategy.decode(strategy.encode(row).astype(np.float64))
        drift = float(strategy.slack) / 2**strategy.bits * steps
        np.testing.assert_allclose(shown, truth, rtol=1e-9, atol=1e-3 + drift)


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3, 16, 37])
def test_doubling_blocks_add_up_and_one_event_moves_them_as_stated(steps, pure):
    rng = np.random.default_rng(steps)
    x = rng.integers(0, 2**20, (steps, 1))
    strategy = Doubling(steps, pure=pure)
    shown = [strategy.decode(strategy.encode(row).astype(np.float64))[0] for row in x]
    np.testing.assert_allclose(shown, np.cumsum(x), rtol=1e-12)
    furthest, longest = 0, 0
    for at in range(steps):
        after, before = Doubling(steps, pure=pure), Doubling(steps, pure=pure)
        moves = []
        for t, row in enumerate(x):
            one, two = after.encode(row + (t == at)), before.encode(row)
            moves += (int(v) for v in (one - two).ravel())
            after.decode(one.astype(np.float64))
            before.decode(two.astype(np.float64))
        furthest = max(furthest, sum(abs(v) for v in moves))
        longest = max(longest, sum(v * v for v in moves))
    if pure:  # the last block's last levels may have no complete node
        assert furthest <= strategy.length * 2**strategy.bits
        assert furthest >= 2**strategy.bits - steps.bit_length()
    else:
        assert longest <= strategy.square(1, 1) * 4**strategy.bits
        assert longest >= 4**strategy.bits * 0.999


@pytest.mark.rest
def test_doubling_knows_no_horizon():
    """The same noise whatever `steps` is; little more than with a known horizon."""
    short = fastdp.Counter.from_epsilon(1, steps=1023, strategy="doubling")
    long = fastdp.Counter.from_epsilon(1, steps=2**22, strategy="doubling")
    assert long.epsilon() == short.epsilon() == 1
    times = [1, 2, 3, 100, 511, 512, 1022, 1023]
    assert [short.standard_error(t) for t in times] == [
        long.standard_error(t) for t in times
    ]
    for k in (10, 16):
        known = fastdp.Counter.from_epsilon(1, steps=2**k - 1)
        worst = max(known.standard_error(t) for t in range(1, 2**k))
        own = max(long.standard_error(t) for t in range(1, 2**k))
        assert worst < own < 1.15 * worst
    with pytest.raises(ParameterError, match="must be left out with"):
        fastdp.Counter(steps=4, sigma=1, strategy="doubling", bands=2)
    with pytest.raises(ParameterError, match="strategy must be one of"):
        fastdp.PrefixSums.from_rho(
            1, radius=1, dimension=1, steps=4, strategy="doubling", participations=1
        )


@pytest.mark.parametrize("kind", ALL)
def test_the_stated_spread_is_that_of_the_answers(kind):
    """Noise on one released number at a time: rows of B, from the decoder itself."""
    steps = 13
    strategy = plan(kind, steps)
    variance = np.zeros(steps)
    counts = []
    probe = plan(kind, steps)
    for _ in range(steps):
        y = probe.encode(np.zeros(1, np.int64))
        counts.append(len(y))
        probe.decode(y.astype(np.float64))
    for at in range(steps):
        for i in range(counts[at]):
            one = plan(kind, steps)
            for t in range(steps):
                y = one.encode(np.zeros(1, np.int64)).astype(np.float64)
                if t == at:
                    y[i] = 2.0**one.bits
                variance[t] += one.decode(y)[0] ** 2
    np.testing.assert_allclose(strategy.spread(), variance, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        ("independent", {}, 32.0),
        ("banded", {"bands": 32}, 7.62),
        ("square_root", {}, 3.27),
        ("blt", {"buffers": 4}, 3.27),
    ],
)
def test_published_errors(kind, options, error):
    """At mu = 1 and 1,024 steps: section 3 of the plan, and the mechanism's own."""
    options = {"participations": 1, **options}
    plan = matrix_mechanism(kind, 1024, **options)
    assert plan.largest_error == pytest.approx(error, abs=0.006)
    p = fastdp.PrefixSums.from_rho(
        0.5, radius=1, dimension=1, steps=1024, strategy=kind, **options
    )
    worst = max(p.standard_error(t) for t in range(1, 1025))
    assert worst == pytest.approx(error, abs=0.006)


def test_a_tree_is_better_than_its_fewest_nodes():
    plain = matrix_mechanism("tree", 1024, participations=1).largest_error
    assert plain == pytest.approx(10.49, abs=0.005)
    p = fastdp.PrefixSums.from_rho(
        0.5, radius=1, dimension=1, steps=1024, strategy="tree", participations=1
    )
    assert max(p.standard_error(t) for t in range(1, 1025)) < 0.77 * plain
    c = fastdp.Counter.from_epsilon(1, steps=1024)
    assert max(c.standard_error(t) for t in range(1, 1025)) < 37.5


@pytest.mark.parametrize("kind", KINDS)
def test_events_are_of_the_sensitivity(kind):
    options = {
        "radius": 2.0, "dimension": 5, "steps": 12, "strategy": kind, **KINDS[kind],
        "participations": 3, "separation": 4,
    }  # fmt: skip
    p = fastdp.PrefixSums.from_rho(0.25, **options)
    assert float(p.event().rho) <= 0.25
    assert float(p.event().rho) == pytest.approx(0.25, rel=1e-9)
    double = fastdp.PrefixSums(
        sigma=dict(p._arguments)["sigma"], **options, neighboring_relation="replace_one"
    )
    ratio = double.event().rho / p.event().rho
    assert float(ratio) == pytest.approx(4, rel=3e-3)
    assert p.event().neighboring_relation.name == "REPLACE_SPECIAL"
    made = fastdp.PrefixSums.from_epsilon_delta(epsilon=1, delta=1e-6, **options)
    assert made.epsilon(delta=1e-6) <= 1


def test_rows_move_a_step_by_their_integers_alone():
    """A hostile row's integers have the norm that is charged, whatever floats do."""
    p = fastdp.PrefixSums.from_rho(
        0.5, radius=1.0, dimension=3, steps=4, strategy="independent", participations=1
    )
    rows = np.array([[1e308, -1e308, 5e-324], [np.nan, np.inf, -0.0], [0.6, 0.8, 0.0]])
    steps = p._clip.clip(rows)
    limit = (Fraction(1) / Fraction(p.granularity)) ** 2
    assert max(sum(int(v) ** 2 for v in row) for row in steps) <= limit


@pytest.mark.parametrize("kind", KINDS)
def test_totals_are_near_and_rows_come_in_any_parts(kind):
    rng = np.random.default_rng(3)
    options = {
        "radius": 1.0, "dimension": 2, "steps": 50, "strategy": kind, **KINDS[kind],
        "participations": 1,
    }  # fmt: skip
    one = fastdp.PrefixSums.from_rho(0.5, **options)
    two = fastdp.PrefixSums.from_rho(0.5, **options)
    truth = np.zeros(2)
    errors = []
    for t in range(50):
        rows = rng.normal(size=(30, 2))
        clipped = rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        truth += clipped.sum(axis=0)
        a = one.step(rows, stream=stream(t))
        parts = two.accumulator()
        for part in np.array_split(rows[::-1], 4):
            parts.merge(two.accumulator().add(part))
        b = two.step(parts, stream=stream(t), workers=2)
        np.testing.assert_array_equal(a, b)
        errors.append((a - truth) / one.standard_error(t + 1))
    # One fixed key: the mean square of correlated errors is of the size that is stated.
    assert 0.1 < np.mean(np.square(errors)) < 4


def spent(p, step):
    with pytest.raises(BudgetExceededError):
        step()
    assert p.steps_left == 0
    assert not any(held.any() for held in p._strategy._private)


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_wipes_what_is_private(kind):
    options = {
        "radius": 1.0, "dimension": 2, "steps": 3, "strategy": kind, **KINDS[kind],
        "participations": 1,
    }  # fmt: skip
    rows = np.full((5, 2), 0.5)
    p = fastdp.PrefixSums.from_rho(0.5, **options)
    for _ in range(3):
        p.step(rows)
    spent(p, lambda: p.step(rows))
    with fastdp.PrefixSums.from_rho(0.5, **options) as q:
        q.step(rows)
    spent(q, lambda: q.step(rows))
    r = fastdp.PrefixSums.from_rho(0.5, **options)
    r.step(rows)

    class Broken:
        def release(self, *_, **__):
            raise RuntimeError("no noise")

    r._freeze(_noise=Broken())
    with pytest.raises(RuntimeError):
        r.step(rows)
    spent(r, lambda: r.step(rows))


def test_no_copy_leaves_the_process():
    c = fastdp.Counter.from_epsilon(1, steps=10)
    c.add(123456789)
    for copies in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(DTypeError, match="cannot be copied or pickled"):
            copies(c)
    assert "123456" not in repr(c)
    child = os.fork()
    if child == 0:
        wiped = not any(held.any() for held in c._strategy._private)
        try:
            c.add(1)
        except BudgetExceededError:
            os._exit(0 if wiped else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    c.add(1)


@pytest.mark.parametrize("many", [1, 3])
def test_a_pure_counter_pays_for_every_node(many):
    c = fastdp.Counter.from_epsilon(0.5, steps=7, events_per_unit=many)
    base = np.arange(7)[:, None] * 1000
    for chosen in itertools.combinations_with_replacement(range(7), many):
        x = base.copy()
        for at in chosen:
            x[at] += 1
        _, after = encoded("tree", x)
        _, before = encoded("tree", base)
        moved = np.abs(after - before).sum()
        assert moved / Fraction(dict(c._arguments)["scale"]) <= c.event().epsilon
    assert c.epsilon() == 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_counters_count(kind):
    c = fastdp.Counter.from_rho(0.5, steps=64, strategy=kind, **KINDS[kind])
    total, errors = 0, []
    for t in range(64):
        total += 10 * t
        errors.append(
            (c.add(np.int32(10 * t), stream=stream(t)) - total)
            / c.standard_error(t + 1)
        )
    assert 0.1 < np.mean(np.square(errors)) < 4
    assert float(c.event().rho) <= 0.5
    with pytest.raises(BudgetExceededError, match="all its steps"):
        c.add(1)


def test_huge_counts_saturate():
    c = fastdp.Counter.from_rho(0.5, steps=8, strategy="square_root")
    shown = [c.add(2**63) for _ in range(8)]
    assert np.isfinite(shown).all()
    assert shown[-1] <= 8 * c._strategy.largest * 1.01


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        (ParameterError, {"strategy": "best"}),
        (ParameterError, {"strategy": "banded"}),
        (ParameterError, {"bands": 3}),
        (ParameterError, {"strategy": "blt"}),
        (ParameterError, {"strategy": "blt", "buffers": 9}),
        (ParameterError, {"participations": 2}),
        (ParameterError, {"steps": 0}),
        (ParameterError, {"steps": 2**23}),
        (ParameterError, {"radius": 0}),
        (ParameterError, {"granularity": 0.3}),
        (ParameterError, {"granularity": 2.0}),
        (
            ParameterError,
            {"strategy": "square_root", "steps": 2**21, "dimension": 2000},
        ),
        (ParameterError, {"neighboring_relation": "add_or_remove_one"}),
        (DTypeError, {"other": 1}),
        (DTypeError, {"steps": 1.5}),
    ],
)
def test_bad_parameters(error, changed):
    options = {
        "radius": 1.0, "dimension": 2, "steps": 10, "strategy": "tree",
        "participations": 1,
    }  # fmt: skip
    with pytest.raises(error):
        fastdp.PrefixSums.from_rho(0.5, **(options | changed))


def test_participations_are_asked_for():
    options = {"radius": 1.0, "dimension": 2, "steps": 10, "strategy": "tree"}
    with pytest.raises(TypeError, match="participations"):
        fastdp.PrefixSums(sigma=1, **options)
    with pytest.raises(DTypeError, match="participations"):
        fastdp.PrefixSums.from_rho(0.5, **options)
    with pytest.raises(TypeError, match="participations"):
        matrix_mechanism("tree", 10)
    with pytest.raises(TypeError, match="participations"):
        optimized_bands(10, bands=2)


def test_bad_steps():
    options = {
        "radius": 1.0, "dimension": 2, "steps": 10, "strategy": "tree",
        "participations": 1,
    }  # fmt: skip
    p = fastdp.PrefixSums.from_rho(0.5, **options)
    other = fastdp.ClippedSum.from_rho(0.5, radius=1.0, dimension=2)
    with pytest.raises(ParameterError, match="accumulator of this"):
        p.step(other.accumulator())
    with pytest.raises(ParameterError, match="shape"):
        p.step(np.zeros((3, 3)))
    with pytest.raises(DTypeError):
        p.step(np.zeros((3, 2), int))
    assert p.steps_left == 10
    for options in (
        {},
        {"sigma": 1, "scale": 1},
        {"scale": 1, "strategy": "square_root"},
    ):
        with pytest.raises(ParameterError):
            fastdp.Counter(steps=5, **options)
    with pytest.raises(DTypeError, match="count"):
        fastdp.Counter(steps=5, scale=1).add(1.5)


@pytest.mark.rest
def test_buffers_that_could_hold_few_rows_are_refused():
    options = {
        "radius": 1.0, "dimension": 2**20, "steps": 2**22, "strategy": "blt",
        "participations": 1,
    }  # fmt: skip
    with pytest.raises(ParameterError, match="banded"):
        fastdp.PrefixSums.from_rho(0.5, buffers=4, **options)
