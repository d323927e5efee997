"""The choice among local mechanisms is the one with the least predicted variance."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import fastdp
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError

best = fastdp.best_frequency_oracle
RR, UE = fastdp.RandomizedResponse, fastdp.UnaryEncoding
LH, HR = fastdp.LocalHashing, fastdp.HadamardResponse


def candidates(epsilon: Any, categories: int) -> list[Any]:
    return [
        RR.from_epsilon(epsilon, categories=categories),
        UE.from_epsilon(epsilon, categories=categories),
        UE.from_epsilon(epsilon, categories=categories, symmetric=True),
        LH.from_epsilon(epsilon, categories=categories),
        LH.from_epsilon(epsilon, categories=categories, buckets=2),
        HR.from_epsilon(epsilon, categories=categories),
    ]


@pytest.mark.parametrize("categories", [2, 3, 10, 100, 5000, 2**24])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1, 2, 4, 8])
def test_least_variance_or_within_one_percent_and_smaller(
    epsilon: float, categories: int
) -> None:
    def variance(m: Any) -> float:
        return float(m.standard_error(1000, frequency=Fraction(1, categories)) ** 2)

    chosen = best(epsilon, categories=categories, users=1000)
    assert chosen.epsilon() <= epsilon
    assert chosen.categories == categories
    for m in candidates(epsilon, categories):
        assert variance(chosen) <= 1.0101 * variance(m)
        if m.report_width < chosen.report_width:
            assert variance(m) > variance(chosen)


def test_known_choices() -> None:
    assert isinstance(best(1, categories=2, users=10), RR)
    assert isinstance(best(3, categories=8, users=10), RR)
    assert isinstance(best(0.05, categories=1000, users=10), HR)
    assert isinstance(best(2, categories=1000, users=10), LH)
    assert isinstance(best(8, categories=1000, users=10), RR)
    assert isinstance(best(1, categories=2**24 + 1, users=10), RR)
    assert best(1, categories=100, users=10) == best(1, categories=100, users=10**9)


def test_other_is_handed_on() -> None:
    for epsilon in (0.05, 2, 8):
        assert best(epsilon, categories=100, users=10, other=7).other == 7
        assert best(epsilon, categories=100, users=10).other is None


def test_useless_candidates_are_left_out() -> None:
    # 2**-64 is too coarse for response over so many, not for a half of them.
    with pytest.raises(CalibrationError):
        RR.from_epsilon(1e-14, categories=2**24)
    assert isinstance(best(1e-14, categories=2**24, users=10), HR)
    with pytest.raises(CalibrationError, match="epsilon"):
        best(1e-30, categories=100, users=10)


def test_parameters_are_checked() -> None:
    for epsilon, error in (
        (0, ParameterError),
        (-1, ParameterError),
        ("1", DTypeError),
    ):
        with pytest.raises(error, match="epsilon"):
            best(epsilon, categories=10, users=10)
    for categories, error in ((1, ParameterError), (2**31, ParameterError),
                              (2.0, DTypeError)):  # fmt: skip
        with pytest.raises(error, match="categories"):
            best(1, categories=categories, users=10)
    for users, error in ((0, ParameterError), (1.0, DTypeError), (True, DTypeError)):
        with pytest.raises(error, match="users"):
            best(1, categories=10, users=users)
    for other, error in ((10, ParameterError), (-1, ParameterError), ("a", DTypeError)):
        with pytest.raises(error, match="other"):
            best(1, categories=10, users=10, other=other)


# ---- users for an error --------------------------------------------------------------


@pytest.mark.parametrize("error", [0.05, 0.02])
@pytest.mark.parametrize("failure", [0.3, 0.01])
def test_users_for_an_error(error: float, failure: float) -> None:
    g = Fraction(1, 4)
    m = RR(Fraction(1, 2) + g)
    every = m.users_for(error=error, failure=failure)
    assert every == math.ceil(
        1 / (16 * g**2 * Fraction(error) ** 2 * Fraction(failure))
    )
    for share in (0, 0.2, 0.5, 1):
        n = m.users_for(error=error, failure=failure, share=share)
        assert n < every

        def missed(n: int, share: float = share) -> float:
            p = 0.25 + share / 2
            x = np.arange(n + 1)
            far = np.abs(x / n - p) > error / 2 + 1e-12
            return float(binom.pmf(x, n, p)[far].sum())

        assert missed(n) <= failure * (1 + 1e-9)
        assert missed(n - 1) > failure * (1 - 1e-9)


def test_users_for_many_categories_and_refusals() -> None:
    m = RR.from_epsilon(1, categories=20)  # tells the truth less than half the time
    p, q = m.p, (1 - m.p) / 19
    wanted = p * (1 - p) / ((p - q) ** 2 * Fraction(1, 400) * Fraction(1, 20))
    assert m.users_for(error=Fraction(1, 20), failure=Fraction(1, 20)) == math.ceil(
        wanted
    )
    for wrong, message in (
        ({"error": 0}, "error must be"),
        ({"failure": 1}, "failure must be"),
        ({"share": 1.1}, "share must be in"),
    ):
        with pytest.raises(ParameterError, match=message):
            m.users_for(**{"error": 0.1, "failure": 0.1, **wrong})  # type: ignore[arg-type]
