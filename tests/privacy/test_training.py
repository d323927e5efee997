"""Sums of gradients: how far one example moves all parameters, and the law of noise."""

import itertools
import math
import pickle
import warnings

import numpy as np
import pytest

import fastdp
from fastdp.accounting import (
    DiscreteGaussianEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RandomAllocationEvent,
    event_delta,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.testing import FixedStream
from fastdp.training import GradientAccumulator, GradientSum
from tests.privacy.test_clipped_sum_law import worst
from tests.unit.test_shared_memory import Graph, Tensor

A = NeighboringRelation.ADD_OR_REMOVE_ONE
R = NeighboringRelation.REPLACE_ONE
S = NeighboringRelation.REPLACE_SPECIAL
INF, NAN = float("inf"), float("nan")
HOSTILE = [0, 1, -1, 0.5, 1.5, 2, -2.5, 1e-320, 1e308, -1e308, INF, -INF, NAN]

#: One radius for both parameters, and one for each.
RADII = [2, 2.25, [1, 2], [2, 1.5]]
SHAPES = [(), (2,)]


def gradients(rows, dtype=np.float64):
    """Return rows (weight, two of a bias) as the gradients of two parameters."""
    x = np.array(rows, np.float64)
    with warnings.catch_warnings(action="ignore"):  # 1e308 is infinite in float32
        x = x.astype(dtype)
    return [x[:, 0].copy(), x[:, 1:].copy()]


def integers(m, given):
    """Return the exact sum over all parameters, in steps of the grid."""
    totals = m.accumulator().add(given)._totals
    return np.concatenate([total.exact().ravel() for total in totals])


def each_alone(m, rows, dtype=np.float64):
    return np.array([integers(m, gradients([row], dtype)) for row in rows])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("radius", RADII)
def test_no_example_moves_the_sum_beyond_the_sensitivity(radius, dtype):
    m = GradientSum(sigma=1, radius=radius, shapes=SHAPES, granularity=1)
    rows = list(itertools.product(HOSTILE, repeat=3))
    moved = np.unique(each_alone(m, rows, dtype).astype(np.int64), axis=0)
    furthest = int((moved**2).sum(axis=1).max())
    apart = int(((moved[:, None] - moved[None]) ** 2).sum(axis=2).max())
    assert m.event(neighboring_relation=S).sensitivity ** 2 >= furthest
    assert m.event(neighboring_relation=R).sensitivity ** 2 >= apart
    # No smaller bound is true: an example of the list attains it.
    assert furthest == sum(math.floor(r * r) for r in np.ravel(radius))
    assert m.event().sensitivity == pytest.approx(math.sqrt(furthest), rel=1e-12)


@pytest.mark.parametrize("radius", RADII)
def test_what_one_example_adds_does_not_depend_on_the_others(radius):
    m = GradientSum(sigma=1, radius=radius, shapes=SHAPES, granularity=2.0**-20)
    rows = list(itertools.product(HOSTILE[::2], repeat=3))
    alone = each_alone(m, rows)
    together = gradients(rows)
    np.testing.assert_array_equal(integers(m, together), alone.sum(axis=0))
    for i in (0, len(rows) // 2, len(rows) - 1):
        rest = [np.delete(x, i, axis=0) for x in together]
        np.testing.assert_array_equal(
            integers(m, together) - integers(m, rest), alone[i]
        )


@pytest.mark.parametrize("radius", RADII)
def test_every_pair_of_examples_within_the_stated_delta(radius):
    m = GradientSum(sigma=1, radius=radius, shapes=SHAPES, granularity=1)
    rows = list(itertools.product([0, 1, -1.5, 2, 1e9, INF], repeat=3))
    alone = np.unique(each_alone(m, rows).astype(np.int64), axis=0)
    replaced = (alone[:, None] - alone[None]).reshape(-1, 3)
    for relation, shifts in ((A, alone), (S, alone), (R, replaced)):
        shifts = np.unique(
            np.sort(np.abs(shifts), axis=1), axis=0
        )  # the law's symmetry
        event = m.event(neighboring_relation=relation)
        for epsilon in (0.5, 2.0):
            stated = event_delta(event, epsilon=epsilon)
            assert worst(shifts.tolist(), 1, epsilon) <= stated * (1 + 1e-12)


def test_one_radius_of_several_would_be_too_little():
    """The largest radius alone, as noise for each layer by itself would charge."""
    m = GradientSum(sigma=2, radius=[2, 2], shapes=[(1,), (1,)], granularity=1)
    truth = worst([(2, 2)], 2, 0.5)
    wrong = DiscreteGaussianEvent(sensitivity=2, sigma=2, coordinates=2)
    assert event_delta(wrong, epsilon=0.5) < truth <= m.delta(0.5)


@pytest.mark.parametrize("radius", [1, [1, 1]])
def test_noise_has_the_law_of_the_mechanism_that_is_proved(radius):
    m = GradientSum(sigma=1, radius=radius, shapes=[(40,), (3, 20)], granularity=0.25)
    got = m.release(
        [np.zeros((0, 40)), np.zeros((0, 3, 20))], stream=FixedStream(b"k" * 32)
    )
    stream, noise = FixedStream(b"k" * 32), fastdp.DiscreteGaussian(4)
    sizes = [100] if radius == 1 else [40, 60]
    wanted = [noise.release(np.zeros(n, np.int64), stream=stream) for n in sizes]
    joined = np.concatenate([got[0], got[1].ravel()])
    np.testing.assert_array_equal(joined, np.concatenate(wanted) / 4)
    assert m.event().sigma == 4


def test_values_come_out_with_noise_of_the_stated_size():
    m = GradientSum(sigma=0.5, radius=[3, 8], shapes=[(1000,), (10, 200)])
    g = [np.full((50, 1000), 0.01), np.full((50, 10, 200), -0.02)]
    for x, total in zip(g, m.release(g, stream=FixedStream(b"v" * 32)), strict=True):
        noise = total - x.sum(axis=0)
        assert noise.std() == pytest.approx(0.5, rel=0.1)
        assert abs(noise.mean()) < 0.06


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("place", [0, 2])
def test_an_example_that_is_not_finite_counts_as_nothing(bad, place):
    for radius in (2, [1, 2]):
        m = GradientSum(sigma=1, radius=radius, shapes=SHAPES)
        row = [0.5, 0.25, 0.125]
        row[place] = bad
        assert not integers(m, gradients([row])).any()
        good = [[0.5, 0.25, -0.5]]
        np.testing.assert_array_equal(
            integers(m, gradients([row, *good])), integers(m, gradients(good))
        )


def test_microbatches_workers_and_machines_do_not_show():
    rng = np.random.default_rng(5)
    g = [rng.normal(size=(3000, 30)), rng.normal(size=(3000, 5, 4))]
    g[0][7, 3] = NAN
    for radius in (1.5, [1, 0.5]):
        m = GradientSum(sigma=1, radius=radius, shapes=[(30,), (5, 4)])
        whole = integers(m, g)
        np.testing.assert_array_equal(
            np.concatenate(
                [t.exact().ravel() for t in m.accumulator().add(g, workers=3)._totals]
            ),
            whole,
        )
        parts = m.accumulator()
        for start in range(0, 3000, 700):
            some = [x[start : start + 700] for x in g]
            parts.merge(m.accumulator().add([*some[:1], some[1].astype(">f8")]))
        got = parts.release(stream=FixedStream(b"m" * 32))
        at_once = m.release(g, stream=FixedStream(b"m" * 32), workers=2)
        for x, y in zip(got, at_once, strict=True):
            np.testing.assert_array_equal(x, y)
        assert not any(t.exact().any() for t in parts._totals)


def test_memory_of_other_libraries_is_read_and_written_in_place():
    m = GradientSum(sigma=1, radius=1, shapes=[(3,), (2, 2)])
    g = [np.ones((4, 3), np.float32), np.ones((4, 2, 2), np.float32)]
    wanted = m.release(g, stream=FixedStream(b"o" * 32))
    out = [np.zeros(3, np.float32), np.zeros((2, 2), np.float32)]
    given = [memoryview(out[0]), out[1]]
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # before, DLPack only reads
        given[1] = Tensor(out[1])
    got = m.release(
        [Tensor(g[0]), memoryview(g[1])], out=given, stream=FixedStream(b"o" * 32)
    )
    for x, y, z in zip(out, got, wanted, strict=True):
        assert np.shares_memory(x, y)
        np.testing.assert_array_equal(x, z.astype(np.float32))


G = [np.zeros((2, 3))]


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        (
            [Tensor(G[0], 2)],
            {},
            ParameterError,
            r"gradients\[0\] must be in the host's",
        ),
        ([Graph(G[0])], {}, DTypeError, r"raised BufferError: .* x\.detach"),
        (G[0], {}, DTypeError, "gradients must be a list, one for each parameter"),
        (G * 2, {}, ParameterError, "one for each of 1 parameters, got 2"),
        ([G[0][:, :2]], {}, ParameterError, r"shape \(n, 3\), one row for each"),
        ([np.float64(1)], {}, DTypeError, "must be a float64 or float32 array"),
        ([G[0].astype(int)], {}, DTypeError, "got dtype int64"),
        ([G[0].astype(np.float16)], {}, DTypeError, "got dtype float16"),
        (G, {"stream": 7}, DTypeError, "seeds and numpy generators are not private"),
        (G, {"stream": np.random.default_rng(1)}, DTypeError, "are not private"),
        (G, {"out": np.zeros(3)}, DTypeError, "out must be a list"),
        (G, {"out": [np.zeros(2)]}, ParameterError, r"out\[0\] must have shape \(3,\)"),
        (G, {"out": [np.zeros(3, int)]}, DTypeError, r"out\[0\] must have dtype"),
        (G, {"out": [np.zeros(6)[::2]]}, DTypeError, "C-contiguous"),
        (G, {"out": [memoryview(bytes(24)).cast("d")]}, DTypeError, "writeable"),
        (G, {"workers": 0}, ParameterError, "workers must be"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_drawn(
    given, options, error, message
):
    m = GradientSum(sigma=1, radius=1, shapes=[(3,)])
    with pytest.raises(error, match=message) as caught:
        m.release(given, **options)
    assert "0.123" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sigma": 0}, ParameterError, "sigma must be"),
        ({"radius": 0}, ParameterError, "radius must be"),
        ({"radius": [1, 1]}, ParameterError, "radius must be one for each of 1"),
        ({"radius": 0.5, "granularity": 1}, ParameterError, "at least the granul"),
        (
            {"radius": [1e12, 1], "shapes": [(3,), (2,)]},
            ParameterError,
            "radius must be at least the granularity, 1024",
        ),
        ({"granularity": 2.0**-31}, ParameterError, "granularity must be above"),
        ({"shapes": []}, ParameterError, "shapes must be one for each"),
        ({"shapes": (3)}, DTypeError, "shapes must be a list"),
        ({"shapes": [3]}, DTypeError, r"shapes\[0\] must be a tuple of int"),
        ({"shapes": [(0,)]}, ParameterError, r"shapes\[0\] must be"),
        ({"shapes": [(2**31,), (2**31,)]}, ParameterError, "sum of the sizes"),
    ],
)
def test_bad_parameters_are_refused(options, error, message):
    arguments = {"sigma": 1, "radius": 1, "shapes": [(3,)], **options}
    with pytest.raises(error, match=message):
        GradientSum(**arguments)


def test_sampled_batches_have_their_event():
    m = GradientSum(sigma=1, radius=1, shapes=[(3,)])
    rate = {"sampling_probability": 0.25}
    assert m.sampled_event(**rate) == PoissonSampledEvent(0.25, m.event())
    assert m.sampled_event(steps=8) == RandomAllocationEvent(
        steps=8, event=m.event(), selected=1
    )
    other = GradientSum(sigma=1, radius=1, shapes=[(3,)], neighboring_relation=R)
    assert other.sampled_event(**rate) == PoissonSampledEvent(
        0.25, m.event(), neighboring_relation=R
    )
    with pytest.raises(ParameterError, match=r"steps=, got REPLACE_ONE"):
        other.sampled_event(steps=8)
    with pytest.raises(ParameterError, match="exactly one of sampling_probability"):
        m.sampled_event()


def test_it_is_stated_and_its_accumulator_shows_nothing():
    for radius in (0.1, (1, 0.5)):
        m = GradientSum(sigma=1, radius=radius, shapes=SHAPES, neighboring_relation=S)
        assert GradientSum.from_json(m.to_json()) == m
        acc = m.accumulator().add(gradients([[0.123, 1, 1]]))
        assert repr(acc) == f"GradientAccumulator({m!r})"
        copy = pickle.loads(pickle.dumps(acc))
        assert copy.mechanism == m
        for ours, theirs in zip(acc._totals, copy._totals, strict=True):
            np.testing.assert_array_equal(ours.exact(), theirs.exact())
    with pytest.raises(DTypeError, match="mechanism must be GradientSum"):
        GradientAccumulator(3)
