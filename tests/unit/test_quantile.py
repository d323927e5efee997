"""Quantiles: candidates by the definition, the tree, the grid, every refusal."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastdp
from fastdp.accounting import (
    ExponentialMechanismEvent,
    NeighboringRelation,
    SelfComposedEvent,
)
from fastdp.exceptions import (
    DTypeError,
    EntropyError,
    FastDPError,
    InsecureStreamWarning,
    ParameterError,
)
from fastdp.mechanisms.choices import _quantile_tree, quantile
from fastdp.testing import FixedStream
from tests.privacy.streams import BrokenStream

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SECRET = 7340193.5


def released(x: Any, q: Any, **parameters: Any) -> Any:
    return fastdp.Quantiles(q, **parameters).release(x)


# ---- candidates ------------------------------------------------------------------


@pytest.mark.rest
@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.integers(3, 14), max_size=12),
    st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50),
    st.integers(0, 3),
    st.integers(14, 20),
)
def test_every_point_belongs_to_one_candidate_with_its_score(
    values: list[int], target: Fraction, low: int, high: int
) -> None:
    records = np.sort(np.array(values, np.int64))
    n = len(values)
    scores, weights = _quantile_tree.candidates(records, target, (low, high))
    assert len(scores) == len(weights) == 2 * n + 1
    assert (weights >= 0).all()
    given = [
        score
        for score, weight in zip(scores.tolist(), weights.tolist(), strict=True)
        for _ in range(weight)
    ]
    defined = []
    for o in range(low, high + 1):
        below, upto = sum(z < o for z in values), sum(z <= o for z in values)
        cost = max(below - target * n, target * n - upto, Fraction(0))
        defined.append(-cost * target.denominator)
    assert given == defined


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(0, 16))
def test_a_point_is_drawn_from_the_chosen_candidate(
    values: list[int], chosen: int
) -> None:
    records = np.sort(np.array(values, np.int64))
    _, weights = _quantile_tree.candidates(records, Fraction(1, 2), (0, 9))
    chosen = min(chosen, len(weights) - 1)
    if weights[chosen] == 0:
        return

    class Fixed:
        def select(self, *args: Any, **kwargs: Any) -> int:
            return chosen

    node: Any = _quantile_tree.Node(0, Fraction(1, 2), Fixed(), None, None)  # type: ignore
    first = int(weights[:chosen].sum())
    found = {
        _quantile_tree.choose(node, records, (0, 9), None, 1)
        for _ in range(20 * int(weights[chosen]))
    }
    assert found <= set(range(first, first + int(weights[chosen])))
    assert len(found) > weights[chosen] / 2


# ---- the tree --------------------------------------------------------------------


def nodes(node: Any, depth: int = 1) -> Iterator[tuple[Any, int]]:
    if node is not None:
        yield node, depth
        yield from nodes(node.below, depth + 1)
        yield from nodes(node.above, depth + 1)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 99])
def test_the_tree_has_every_quantile_once_and_few_levels(count: int) -> None:
    q = np.arange(1, count + 1) / (count + 1)
    m = fastdp.Quantiles(q, bounds=(0, 1), epsilon=1)
    found = list(nodes(m._root))
    assert sorted(node.index for node, _ in found) == list(range(count))
    assert max(depth for _, depth in found) == m.levels == int(math.log2(count)) + 1
    share = m.event() if m.levels == 1 else m.event().event  # type: ignore
    assert share == ExponentialMechanismEvent(Fraction(1, m.levels))
    for node, _ in found:
        assert node.mechanism.event() == share


def test_targets_are_shares_of_what_is_left() -> None:
    root = fastdp.Quantiles((0.1, 0.5, 0.7, 0.9), bounds=(0, 1), epsilon=1)._root
    assert root.index == 2
    assert root.target == Fraction(7, 10)
    assert root.below is not None
    assert root.above is not None
    assert root.below.target == Fraction(5, 7)
    assert root.above.target == Fraction(2, 3)
    assert root.below.below is not None
    assert root.below.below.target == Fraction(1, 5)


def test_sensitivities_are_those_of_the_proof() -> None:
    added = fastdp.Quantiles((0.1, 0.5, 0.55), bounds=(0, 1), epsilon=1)
    replaced = fastdp.Quantiles(
        (0.1, 0.5, 0.55), bounds=(0, 1), epsilon=1, neighboring_relation=REPLACE
    )
    pairs = list(zip(nodes(added._root), nodes(replaced._root), strict=True))
    for (node, depth), (other, _) in pairs:
        a, b = node.target.numerator, node.target.denominator
        assert node.mechanism.sensitivity == max(a, b - a)
        expected = b if depth == 1 else 2 * max(a, b - a)
        assert other.mechanism.sensitivity == expected
    assert len(pairs) == 3


def test_targets_are_near_fractions() -> None:
    for q in (0.1, 1 / 3, 0.999, 0.123456, Fraction(2, 7), Decimal("0.25"), 2.0**-20):
        target = fastdp.Quantiles(q, bounds=(0, 1), epsilon=1)._root.target
        assert abs(target - Fraction(q)) <= Fraction(1, 2**21)
        assert target.denominator <= 2**20
    assert fastdp.Quantiles(0.1, bounds=(0, 1), epsilon=1)._root.target == Fraction(
        1, 10
    )
    assert (
        fastdp.Quantiles(0.999999, bounds=(0, 1), epsilon=1)._root.target.denominator
        == 10**6
    )


# ---- cost ------------------------------------------------------------------------


def test_cost_of_one_and_of_several() -> None:
    one = fastdp.Quantiles(
        0.5, bounds=(0, 1), epsilon=Fraction(1, 10), neighboring_relation=REPLACE
    )
    assert one.event() == ExponentialMechanismEvent(
        Fraction(1, 10), neighboring_relation=REPLACE
    )
    assert one.epsilon() == 0.1
    assert one.rho() == pytest.approx(0.1**2 / 8)
    several = fastdp.Quantiles((0.2, 0.4, 0.6, 0.8), bounds=(0, 1), epsilon=3)
    assert several.event() == SelfComposedEvent(ExponentialMechanismEvent(1), 3)
    assert several.epsilon() == 3.0
    assert several.epsilon(delta=1e-3) <= 3.0
    assert several.delta(3) == 0
    assert 0 < several.delta(1) < 1
    assert several.rho() == pytest.approx(3 / 8)
    assert Fraction(several.rho()) >= Fraction(3, 8)
    assert several.epsilon(delta=1) == 0
    with pytest.raises(ParameterError, match="delta must be"):
        several.epsilon(delta=1.5)


def test_accountants_take_the_events() -> None:
    from fastdp.accounting.pure import PureAccountant
    from fastdp.accounting.zcdp import ZCDPAccountant

    m = fastdp.Quantiles((0.2, 0.4, 0.6, 0.8), bounds=(0, 1), epsilon=Fraction(3, 10))
    pure = PureAccountant().compose(m.event(), count=2)
    assert pure.total == Fraction(6, 10)
    concentrated = ZCDPAccountant().compose(m.event())
    assert float(concentrated.rho) == pytest.approx(m.rho())


# ---- results ---------------------------------------------------------------------


def test_great_epsilon_gives_the_quantiles() -> None:
    x = np.arange(1001)
    q = np.array([0.9, 0.1, 0.5, 0.25, 0.1])
    found = released(x, q, bounds=(0, 1000), epsilon=1000)
    assert found.dtype == np.int64
    assert np.abs(found - 1000 * q).max() <= 3
    assert found[1] == found[4]
    real = released(x / 10, q, bounds=(0, 100), epsilon=1000)
    assert real.dtype == np.float64
    assert np.abs(real - 100 * q).max() <= 0.3


def test_scalars_and_shapes() -> None:
    x = np.arange(100.0).reshape(4, 25)
    for q in (0.5, Fraction(1, 2), np.float64(0.5), np.array(0.5)):
        found = released(x, q, bounds=(0, 100), epsilon=10)
        assert type(found) is np.float64
    assert type(released(x.astype(int), 0.5, bounds=(0, 9), epsilon=1)) is (np.int64)
    for many in ((0.5,), [0.5], np.array([0.5])):
        assert released(x, many, bounds=(0, 9), epsilon=1).shape == (1,)
    narrow = released(x.astype(np.float32), 0.5, bounds=(0, 100), epsilon=50)
    assert narrow.dtype == np.float64


@pytest.mark.parametrize("dtype", ["b", "B", "h", "H", "i", "I", "q", ">i4"])
def test_every_integer_dtype(dtype: str) -> None:
    x = np.arange(100).astype(dtype)
    for bounds in ((0, 99), (-3.5, 120.5)):
        found = released(x, 0.5, bounds=bounds, epsilon=1000)
        assert abs(int(found) - 50) <= 2


def test_quantiles_rise_and_stay_within_bounds() -> None:
    q = np.arange(1, 40) / 40
    x = np.random.default_rng(1).normal(size=300)
    for _ in range(30):
        found = released(x, q, bounds=(-1.5, 1.25), epsilon=0.5)
        assert (np.diff(found) >= 0).all()
        assert -1.5 <= found[0] <= found[-1] <= 1.25


def test_results_lie_on_the_public_grid() -> None:
    x = np.random.default_rng(1).normal(size=50)
    for bounds, step in (
        ((-1, 1), None),
        ((1e15, 1e15 + 4), None),
        ((-1e-300, 1e-300), None),
        ((0, 10), 0.25),
        ((0.1, 0.9), 2.0**-53),
    ):
        m = fastdp.Quantiles((0.3, 0.5), bounds=bounds, epsilon=0.1, granularity=step)
        g = Fraction(m.granularity)
        assert step is None or g == Fraction(step)
        for data in (x, x * 1e15, x * 0 + math.pi):
            for y in m.release(data).tolist():
                assert (Fraction(y) / g).denominator == 1
                assert Fraction(bounds[0]) <= Fraction(y) <= Fraction(bounds[1])


def test_default_grid_is_fine_and_its_points_are_doubles() -> None:
    for low, high in ((0, 1), (-1e200, 0), (1e15, 1e15 + 4), (0.1, 0.1 + 1e-16)):
        m = fastdp.Quantiles(0.5, bounds=(low, high), epsilon=1)
        g = Fraction(m.granularity)
        width, size = Fraction(high) - Fraction(low), max(abs(low), abs(high))
        assert width / g <= 2**40
        assert Fraction(size) / g <= 2**53
        assert width / g >= 2**39 or Fraction(size) / g >= 2**52


def test_ties_are_found_exactly_where_they_hold_the_quantile() -> None:
    hours = np.repeat([20, 38, 40, 45, 60], [500, 900, 2500, 700, 400])
    for q in ((0.5,), (0.3, 0.4, 0.5, 0.6, 0.7), 0.4):
        for relation in (ADD, REPLACE):
            found = released(
                hours, q, bounds=(0, 99), epsilon=2, neighboring_relation=relation
            )
            assert (np.asarray(found) == 40).all()


def test_tie_places_do_not_move_a_record_from_its_point() -> None:
    records = np.array([0, 5, 5, 9], np.int64)
    quantile._break_ties(records, 50, None, 1)
    assert (records >> 50).tolist() == [0, 5, 5, 9]
    assert records[1] != records[2]  # equal with probability 1e-15


@pytest.mark.parametrize(("points", "bits"), [(2, 20), (2**40 - 1, 20), (2**45, 14)])
def test_places_are_fewer_on_long_grids(points: int, bits: int) -> None:
    several = fastdp.Quantiles((0.2, 0.8), bounds=(0, 1), epsilon=1)
    assert several._tie_bits(points) == bits
    assert fastdp.Quantiles(0.2, bounds=(0, 1), epsilon=1)._tie_bits(points) == 0
    assert several._tie_bits(2**60) == 0


def test_long_integer_ranges() -> None:
    m = fastdp.Quantiles((0.2, 0.8), bounds=(0, 2**60 - 1), epsilon=50)
    x = np.arange(200) * 2**52
    found = m.release(x)
    assert (np.abs(found - np.array([0.2, 0.8]) * 200 * 2**52) < 2**56).all()
    edge = fastdp.Quantiles(0.5, bounds=(2**63 - 10, 2**70), epsilon=1)
    assert 2**63 - 10 <= int(edge.release(x)) <= 2**63 - 1


def test_no_records_no_information() -> None:
    found = [
        int(released(np.zeros(0, int), 0.5, bounds=(1, 8), epsilon=50))
        for _ in range(400)
    ]
    assert set(found) == set(range(1, 9))
    many = released(np.zeros(0), (0.1, 0.5, 0.9), bounds=(1, 8), epsilon=50)
    assert many.shape == (3,)


# ---- data never raise ------------------------------------------------------------


def test_what_values_count_as() -> None:
    payload = np.array([0x7FF0000000000001, 0xFFF8000000000001], np.uint64)
    same = np.array([-3.0, -3.0, 8.0, -3.0, 0.0, 0.0, -3.0, 8.0])
    x = np.array([*payload.view(float), np.inf, -np.inf, 0.0, 5e-324, -1e300, 8.01])
    narrow = np.array([0x7F800001], np.uint32).view(np.float32)
    m = fastdp.Quantiles((0.2, 0.5, 0.6), bounds=(-3, 8), epsilon=1)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", InsecureStreamWarning)
        found = m.release(x, stream=FixedStream("n"))
        m.release(narrow)
    assert found.tolist() == m.release(same, stream=FixedStream("n")).tolist()


def test_layout_and_order_of_the_values_do_not_matter() -> None:
    m = fastdp.Quantiles(0.3, bounds=(0, 100), epsilon=1)
    x = np.random.default_rng(2).integers(0, 100, size=500)
    expected = m.release(x, stream=FixedStream("l"))
    for same in (x[::-1], np.sort(x), x.reshape(20, 25).T, x.astype(">i2")):
        assert m.release(same, stream=FixedStream("l")) == expected
    kept = x.copy()
    m.release(x)
    assert (x == kept).all()


def test_streams_repeat_and_workers_do_not_matter() -> None:
    m = fastdp.Quantiles((0.3, 0.5, 0.7), bounds=(0, 100), epsilon=0.01)
    x = np.random.default_rng(2).normal(50, 9, 3000)
    runs = [
        m.release(x, stream=FixedStream("w"), workers=w).tolist() for w in (1, 2, 3)
    ]
    assert runs[0] == runs[1] == runs[2]
    assert m.release(x).tolist() != m.release(x).tolist()


# ---- identity --------------------------------------------------------------------


def test_repr_and_copies() -> None:
    m = fastdp.Quantiles((0.25, Fraction(1, 3)), bounds=(0, 1), epsilon=0.5)
    assert repr(m) == (
        "Quantiles(q=(0.25, Fraction(1, 3)), bounds=(0, 1), epsilon=0.5, "
        f"granularity={2.0**-39!r}, "
        "neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)"
    )
    for again in (copy.copy(m), copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert again == m
        assert hash(again) == hash(m)
        assert again.event() == m.event()
    assert m != fastdp.Quantiles((0.25, Fraction(1, 3)), bounds=(0, 1), epsilon=0.25)
    with pytest.raises(AttributeError, match="immutable"):
        m.q = 3
    x = np.full(30, SECRET)
    m.release(x)
    assert "7340193" not in repr(m)


# ---- refusals --------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], type[FastDPError], str]] = [
    ({"q": 0}, ParameterError, "q must be in"),
    ({"q": 1}, ParameterError, "q must be in"),
    ({"q": (0.5, 1.5)}, ParameterError, "q must be in"),
    ({"q": math.nan}, ParameterError, "q must be finite"),
    ({"q": ()}, ParameterError, "q must not be empty"),
    ({"q": "0.5"}, DTypeError, "q must be"),
    ({"q": [True]}, DTypeError, "q must be"),
    ({"q": np.full((2, 2), 0.5)}, DTypeError, "q must be a number, a sequence"),
    ({"q": np.array([1, 2])}, DTypeError, "q must be a number, a sequence"),
    ({"q": {0.5}}, DTypeError, "q must be"),
    ({"bounds": (0,)}, DTypeError, "bounds must be a pair"),
    ({"bounds": "01"}, DTypeError, "bounds must be a pair"),
    ({"bounds": (1, 0)}, ParameterError, "bounds must have low < high"),
    ({"bounds": (1, 1)}, ParameterError, "bounds must have low < high"),
    ({"bounds": (0, math.inf)}, ParameterError, "bounds must be finite"),
    ({"bounds": (0, math.nan)}, ParameterError, "bounds must be finite"),
    ({"bounds": (0, 1e300)}, ParameterError, "bounds must be in"),
    ({"bounds": (0, "1")}, DTypeError, "bounds must be"),
    ({"epsilon": 0}, ParameterError, "epsilon must be finite and > 0"),
    ({"epsilon": -1}, ParameterError, "epsilon must be"),
    ({"epsilon": True}, DTypeError, "epsilon must be"),
    ({"granularity": 0.3}, ParameterError, "granularity must be a power of two"),
    ({"granularity": 2.0**-60}, ParameterError, "granularity must be at least 2"),
    (
        {"granularity": 1, "bounds": (0.25, 0.75)},
        ParameterError,
        "granularity must have a multiple",
    ),
    ({"neighboring_relation": "add"}, DTypeError, "neighboring_relation must be"),
]


@pytest.mark.parametrize(("change", "error", "rule"), BAD, ids=str)
def test_bad_parameters_are_refused_by_name(
    change: dict[str, Any], error: type[FastDPError], rule: str
) -> None:
    parameters = {"q": 0.5, "bounds": (0, 10), "epsilon": 1, **change}
    with pytest.raises(error, match=rule):
        fastdp.Quantiles(**parameters)


CALLS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda m: m.release(np.array([SECRET, "a"])), "values must be"),
    (lambda m: m.release(SECRET), "values must be"),
    (lambda m: m.release(None), "values must be"),
    (lambda m: m.release(np.array([7340193], np.uint64)), "values must be"),
    (lambda m: m.release(np.array([SECRET], object)), "values must be"),
    (lambda m: m.release(np.array([SECRET + 1j])), "values must be"),
    (lambda m: m.release(np.ma.array([SECRET])), "values must be"),
    (lambda m: m.release(np.array([True])), "values must be"),
    (lambda m: m.release(np.zeros(3, np.float16)), "values must be"),
    (lambda m: m.release(np.full(3, SECRET), workers=0), "workers must be"),
    (lambda m: m.release(np.full(3, SECRET), stream=7), "stream must be None"),
]


@pytest.mark.parametrize(("call", "rule"), CALLS)
def test_bad_calls_are_refused_and_not_shown(call: Any, rule: str) -> None:
    with pytest.raises(FastDPError, match=rule) as caught:
        call(fastdp.Quantiles(0.5, bounds=(0, 1), epsilon=1))
    assert "7340193" not in f"{caught.value!r} {caught.value} {caught.value.args}"


@pytest.mark.parametrize("bounds", [(0.25, 0.75), (0, 2**60), (2**64, 2**65)])
def test_bounds_that_do_not_suit_integers(bounds: Any) -> None:
    m = fastdp.Quantiles(0.5, bounds=bounds, epsilon=1)
    m.release(np.zeros(3))
    with pytest.raises(ParameterError, match="bounds must hold at least 1"):
        m.release(np.zeros(3, int))


def test_without_entropy_nothing_is_released() -> None:
    broken = BrokenStream(EntropyError("the operating system gave no randomness"))
    for q in (0.5, (0.1, 0.5, 0.9)):
        with pytest.raises(EntropyError) as caught:
            fastdp.Quantiles(q, bounds=(0, 1e7), epsilon=1).release(
                np.full(9, SECRET), stream=broken
            )
        assert "7340193" not in f"{caught.value!r} {caught.value}"
