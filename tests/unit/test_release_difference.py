"""`Release.difference`: values, refusals, and how often intervals hold the truth."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.exceptions import ParameterError
from fastdp.tables import _derived

RUNS = 10_000
NEW = np.array([2.0, 3.5, 4.25, 9.0, 70.0, 30.0, 31.0])
OLD = NEW[:4] + 1


def plan_of(keys: Any = RUNS, **words: Any) -> fastdp.Plan:
    keys = list(range(keys)) if isinstance(keys, int) else keys
    given: dict[str, Any] = {"unit": "row", "count": True, "sum": "a", "mean": "b"}
    bounds = dict.fromkeys("abc" if "median" in words else "ab", (0, 100))
    return fastdp.Plan(by="g", keys=keys, **{**given, "bounds": bounds, **words})


def rows_of(x: Any, groups: int = RUNS) -> dict[str, Any]:
    same = np.tile(x, groups)
    return {"g": np.repeat(np.arange(groups), len(x)), "a": same, "b": same}


def draws(law: Any, step: float = 1.0) -> _derived.Draws:
    return _derived.Draws(law, step, np.zeros(1), 1.0, True)


LAPLACE, GAUSSIAN = fastdp.DiscreteLaplace, fastdp.DiscreteGaussian
PAIRS = [
    (LAPLACE(Fraction(1, 3), sensitivity=1), LAPLACE(2, sensitivity=1), 1, 1),
    (LAPLACE(7, sensitivity=1), LAPLACE(7, sensitivity=1), 1, 1),
    (GAUSSIAN(Fraction(1, 2), sensitivity=1), GAUSSIAN(9, sensitivity=1), 1, 1),
    (LAPLACE(40, sensitivity=1), GAUSSIAN(3, sensitivity=1), 1, 8),
    (GAUSSIAN(60, sensitivity=1), LAPLACE(2, sensitivity=1), 1, 16),
]


@pytest.mark.parametrize(("first", "second", "a", "b"), PAIRS)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_the_reach_is_the_least_that_holds(
    first: Any, second: Any, a: int, b: int, level: float
) -> None:
    """The law of the difference, by convolution of all probabilities."""
    masses = []
    for law, step in ((first, a), (second, b)):
        most = int(60 * law.std) + 60
        spaced = np.zeros(2 * most * step + 1)
        spaced[::step] = law._law.pmf(np.arange(-most, most + 1))
        masses.append(spaced)
    law = np.convolve(*masses)
    sizes = np.abs(np.arange(len(law)) - len(law) // 2)
    within = np.cumsum(np.bincount(sizes, law))
    least = int(np.argmax(within >= level - 1e-12))
    found = _derived.reach_of_difference(draws(first, a), draws(second, b), level)
    assert found == _derived.reach_of_difference(
        draws(second, b), draws(first, a), level
    )
    assert within[int(found)] >= level - 1e-12
    # A thousandth of the probability is given away to the ends of the wider noise.
    assert found <= least + max(1, b) + 0.01 * math.hypot(first.std * a, second.std * b)


@pytest.mark.parametrize("budgets", [(1.0, 0.3), (8.0, 8.0)], ids=str)
@pytest.mark.parametrize("kind", ["epsilon", "rho"])
def test_intervals_hold_the_difference(kind: str, budgets: tuple[float, float]) -> None:
    """One release of 10,000 equal groups is 10,000 runs."""
    first, second = (plan_of(**{kind: budget}) for budget in budgets)
    new, old = first.release(rows_of(NEW)), second.release(rows_of(OLD))
    true = {"count": 3, "b_n": 3, "a_sum": NEW.sum() - OLD.sum()}
    true["b_mean"] = NEW.mean() - OLD.mean()
    for level in (0.8, 0.95):
        chance = 4.5 * math.sqrt(level * (1 - level) / RUNS)
        for column, wanted in true.items():
            value, std, low, high = new.difference(column, old, level)
            near = 1e-6 * (column in ("a_sum", "b_mean"))
            share = ((low - near <= wanted) & (wanted <= high + near)).mean()
            print(f"{kind} {column:7} {level} {share:.4f}")
            assert share >= level - chance, (column, level)
            plain = new.values(column) - old.values(column)
            np.testing.assert_allclose(value, plain, rtol=1e-9, atol=1e-9)
            if column == "b_mean":
                assert np.isnan(std).all()
                continue
            if column == "b_n" and std[0] < 5:
                continue  # shown rounded, which adds to the deviation
            assert value.std() == pytest.approx(std[0], rel=0.05, abs=0.05)
            if std[0] > 5:
                assert share <= level + 0.02 + chance, (column, level)


def test_groups_of_one_release() -> None:
    r = plan_of(3, epsilon=1e6, variance="b", median="c").release(
        {**rows_of(NEW, 3), "c": np.tile(NEW, 3)}
    )
    assert r.groups()
    for column in r.plan.columns:
        value, _, low, high = r.difference(column, (1,))
        assert (value[1], low[1], high[1]) == (0, 0, 0)
        assert (low <= 0).all()
        assert (high >= 0).all()
    value, _, low, high = r.difference("count", (0,))
    assert value.tolist() == low.tolist() == high.tolist() == [0, 0, 0]


def test_groups_are_found_by_their_keys() -> None:
    new = plan_of(["x", "y", "z"], epsilon=1e6).release(
        {"g": list("xyyzzz"), "a": [1.0] * 6, "b": [1.0] * 6}
    )
    old = plan_of(["z", "x"], epsilon=1e6).release(
        {"g": list("xxz"), "a": [1.0] * 3, "b": [1.0] * 3}
    )
    for column in ("count", "b_n", "a_sum", "b_mean"):
        found = new.difference(column, old)
        assert all(np.isnan(x[1]) for x in found)
    assert new.difference("count", old)[0][[0, 2]].tolist() == [-1, 2]


def test_what_cannot_be_compared_is_refused() -> None:
    rows = {**rows_of(NEW, 2), "p": np.arange(14)}
    r = plan_of(2, epsilon=1).release(rows)
    wrong = [
        ({"unit": fastdp.Unit("p", groups=1, records=2)}, "the units"),
        ({"unit": fastdp.Rows("row"), "bounds": {"a": (0, 9)}}, "the bounds"),
        ({"sum": (), "mean": "b"}, "in both releases"),
    ]
    for words, message in wrong:
        given = {"epsilon": 1, "unit": "row", "sum": "a", "mean": (), **words}
        given.setdefault(
            "bounds", dict.fromkeys((*given["sum"], *given["mean"]), (0, 100))
        )
        other = fastdp.Plan(by="g", keys=[0, 1], **given).release(rows)
        with pytest.raises(ParameterError, match=message):
            r.difference("a_sum", other)
    units = [fastdp.Unit("p", groups=1, records=k) for k in (1, 2)]
    one, two = (plan_of(2, epsilon=1, unit=u).release(rows) for u in units)
    with pytest.raises(
        ParameterError, match=r"the limits .* got \(1, 1\) and \(1, 2\)"
    ):
        one.difference("count", two)
    for other in (r, (2,), 0, None):
        with pytest.raises(ParameterError, match="other must be"):
            r.difference("count", other)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="column must be one of"):
        r.difference("c_mean", r)
    with pytest.raises(ParameterError, match="level"):
        r.difference("count", (0,), 1.0)
