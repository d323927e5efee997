"""Laws of the selections by enumeration: what the kernels answer word by word, and
that no ratio of probabilities exceeds e^epsilon, with no slack.

Probabilities are enclosed in rational intervals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core, _selection
from fastdp._selection import Choice
from fastdp.exceptions import FastDPError
from fastdp.testing import FixedStream, TapeStream
from tests.differential.test_selection import send_onward
from tests.reference.exact_races import Runner, compare
from tests.reference.exact_selection import invert
from tests.reference.interval import exp_minus
from tests.reference.selection import tree_order

BITS = 3000
ONE = 1 << BITS

Interval = tuple[Fraction, Fraction]


def exponential(scores: Sequence[Fraction], c: Fraction) -> list[Interval]:
    """Enclose the probabilities of the exponential mechanism."""
    most = max(scores)
    ends = [exp_minus(c * (most - s), BITS) for s in scores]
    low, high = (sum(e[side] for e in ends) for side in (0, 1))
    return [(Fraction(lo, high), Fraction(hi, low)) for lo, hi in ends]


def permute_and_flip(scores: Sequence[Fraction], c: Fraction) -> list[Interval]:
    """Enclose those of permute-and-flip, by inclusion and exclusion."""
    most = max(scores)
    n = len(scores)
    result = []
    for i in range(n):
        low = high = Fraction(0)
        others = [j for j in range(n) if j != i]
        for size in range(n):
            for chosen in itertools.combinations(others, size):
                gap = sum((most - scores[j] for j in (*chosen, i)), Fraction(0))
                lo, hi = exp_minus(c * gap, BITS)
                part = Fraction(lo, ONE * (size + 1)), Fraction(hi, ONE * (size + 1))
                if size % 2:
                    part = -part[1], -part[0]
                low, high = low + part[0], high + part[1]
        result.append((low, high))
    return result


Law = Callable[[Sequence[Fraction], Fraction], list[Interval]]


# --- no ratio above e^epsilon, no slack -----------------------------------------------

SETS = [
    [Fraction(0), Fraction(0)],
    [Fraction(0), Fraction(1), Fraction(1)],
    [Fraction(5), Fraction(0), Fraction(-3)],
    [Fraction(1, 3), Fraction(60), Fraction(59), Fraction(59)],
]


@pytest.mark.parametrize("law", [exponential, permute_and_flip])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(10)])
@pytest.mark.parametrize("monotonic", [False, True])
def test_no_ratio_exceeds_e_to_epsilon(
    law: Law, epsilon: Fraction, monotonic: bool
) -> None:
    m = fastdp.ExponentialMechanism(epsilon, sensitivity=1, monotonic=monotonic)
    c = _selection.rate_of(epsilon, Fraction(1), monotonic=monotonic)
    assert epsilon <= Fraction(m.epsilon()) <= epsilon * (1 + Fraction(1, 2**50))
    # Below e^epsilon; permute-and-flip attains it, which intervals cannot tell.
    limit = 1 / Fraction(exp_minus(epsilon, BITS)[1], ONE)
    if law is permute_and_flip:
        limit *= 1 + Fraction(1, 2**600)
    moves = [0, 1] if monotonic else [-1, 0, 1]
    for scores in SETS:
        one = law(scores, c)
        for move in itertools.product(moves, repeat=len(scores)):
            other = law([s + d for s, d in zip(scores, move, strict=True)], c)
            for (low, high), (low2, high2) in zip(one, other, strict=True):
                assert low > 0
                assert low2 > 0
                assert high <= limit * low2
                assert high2 <= limit * low


def test_losses_of_the_exponential_mechanism_lie_in_an_interval_of_epsilon() -> None:
    """Bounded range: the ratio of two ratios is at most e^epsilon."""
    epsilon = Fraction(3)
    limit = 1 / Fraction(exp_minus(epsilon, BITS)[1], ONE) * (1 + Fraction(1, 2**200))
    one = exponential(SETS[2], epsilon / 2)
    for move in itertools.product([-1, 0, 1], repeat=3):
        other = exponential(
            [s + d for s, d in zip(SETS[2], move, strict=True)], epsilon / 2
        )
        ratios = [(a[0] / b[1], a[1] / b[0]) for a, b in zip(one, other, strict=True)]
        for a, b in itertools.permutations(ratios, 2):
            assert a[0] / b[1] <= limit


def test_permute_and_flip_is_not_of_bounded_range() -> None:
    """The event must not claim the exponential mechanism's rho."""
    scores, moved = [Fraction(0)] * 2, [Fraction(-1), Fraction(1)]
    one, other = (permute_and_flip(s, Fraction(1, 2)) for s in (scores, moved))
    ratios = [a[0] / b[1] for a, b in zip(one, other, strict=True)]
    spread = math.log(max(ratios) / min(ratios))
    assert spread > 1.0
    pure = fastdp.PermuteAndFlip(1, sensitivity=1)
    assert pure.epsilon() == 1.0
    assert pure.rho() > fastdp.ExponentialMechanism(1, sensitivity=1).rho() == 0.125


# --- the law of the kernels, word by word -----------------------------------------


def answers(choice: Choice, words: Sequence[int]) -> list[int]:
    """What inversion answers to each word; further bits come from a fixed key."""
    main = np.zeros((-(-len(words) // 4096), 32768), np.uint8)
    main.reshape(-1).view("<u8")[: len(words)] = np.array(words, np.uint64)
    scores = np.repeat(choice.scores, len(words), 0)
    many = Choice(choice.rate, scores, choice.weights)
    chosen: list[int] = _selection.inverse(many, 1, TapeStream(main), 1)[:, 0].tolist()
    return chosen


@pytest.mark.parametrize(
    "scores",
    [
        [0.0, 0.0, 0.0],
        [0.0, 1.0, 2.0],
        [3.0, -40.0, 2.9999999, 0.0],
        [7, 7, 5, 6],
        [0.5, float("nan"), 0.25],
    ],
    ids=str,
)
def test_words_are_shared_out_by_the_law(scores: list[float]) -> None:
    """A binary search finds the words at which the answer changes."""
    choice = Choice(Fraction(1), np.array([scores]))
    there = [i for i in tree_order(len(scores)) if not math.isnan(scores[i])]
    masses = exponential([Fraction(scores[i]) for i in there], Fraction(1))
    top = 2**64
    low_sum = high_sum = Fraction(0)
    for place, (low, high) in enumerate(masses[:-1]):
        low_sum, high_sum = low_sum + low, high_sum + high
        below, above = 0, top - 1
        while above - below > 1:
            middle = (below + above) // 2
            passed = there.index(answers(choice, [middle])[0]) > place
            below, above = (below, middle) if passed else (middle, above)
        # Words up to `below` lie before the boundary, those from `above` on beyond it.
        assert Fraction(below - 1, top) <= high_sum
        assert Fraction(above + 1, top) >= low_sum
        assert above - below <= 1


# --- no gap has probability 0 -------------------------------------------------------


def zeros(_: int) -> bytes:
    return bytes(16)


def ones(_: int) -> bytes:
    return b"\xff" * 16


@pytest.mark.parametrize("gap", [73, 745, 10_000])
def test_a_candidate_far_behind_can_be_chosen(gap: int) -> None:
    gaps, weights = [Fraction(gap), Fraction(0)], [Fraction(1)] * 2
    assert invert(gaps, weights, 0, zeros) == 0
    assert invert(gaps[::-1], weights, 2**64 - 1, ones) == 1


@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_a_candidate_far_behind_can_win_a_race(noise: Any) -> None:
    behind = Runner.of(0, Fraction(1000), Fraction(1), noise, (0, 0), (zeros, zeros))
    ahead = Runner.of(1, Fraction(0), Fraction(1), noise, (2**63, 0), (zeros, zeros))
    assert compare(behind, ahead) == 1


def test_gaps_change_the_law_beyond_what_doubles_hold() -> None:
    """Scores whose difference overflows, or whose exponential is 0 in doubles."""
    m = fastdp.ExponentialMechanism(2, sensitivity=1)
    for scores in ([-1.7e308, 1.7e308], [0.0, 1e5], [-np.inf, -1e300, np.nan]):
        got = [int(m.select(np.array(scores))) for _ in range(20)]
        assert got == [1] * 20


# --- what a failure and the data leave behind -----------------------------------------


def test_an_exact_step_that_fails_leaves_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    law = _core.Selection(Fraction(1)).widen(10.0, fine=False, exact=False)
    scores = np.arange(12.0).reshape(4, 3)
    call = _core.Call(FixedStream("a"))
    for fill in (
        _core.select_inverse,
        _core.select_race,
        _core.select_proposed,
        _core.select_flipped,
    ):
        out = np.full((4, 1), 7)
        with pytest.raises(FastDPError, match="do not decide"):
            fill(call, law, scores, out)
        assert not out.any()
    send_onward(monkeypatch, 10.0, fine=False, exact=False)
    with pytest.raises(FastDPError, match="do not decide"):
        _selection.inverse(Choice(Fraction(1), scores), 2, None, 2)


def test_exact_steps_see_subnormal_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels take them as 0; the exact step must not."""
    rate = Fraction(2) ** 900
    scores = np.array([[5e-324 * 2.0**170, 0.0]] * 400)
    choice = Choice(rate, scores)
    plain = _selection.inverse(choice, 1, FixedStream("a"), 1)[:, 0]
    assert 0.4 < plain.mean() < 0.6  # by weights 1 and e**(2**-4)
    send_onward(monkeypatch, 10.0, fine=False)
    exact = _selection.inverse(choice, 1, FixedStream("a"), 1)[:, 0]
    assert scores[0, 0] * 1.0 > 0.0
    assert (plain == exact).all()


def test_one_key_gives_the_same_noise_to_any_scores() -> None:
    """Bits are addressed by candidate, never by data: adding a constant to all scores
    of a race changes no winner."""
    scores = np.random.default_rng(1).normal(0, 1, (500, 8))
    for m in (
        fastdp.PermuteAndFlip(2, sensitivity=1),
        fastdp.ReportNoisyMax(2, sensitivity=1, noise="laplace"),
        fastdp.ReportNoisyMax(2, sensitivity=1, noise="gumbel"),
    ):
        plain = m.select(scores, stream=FixedStream("k"))
        moved = m.select(scores + 1024.0, stream=FixedStream("k"))
        assert (plain == moved).mean() > 0.99
