"""The exponential mechanism by proposals against the integer reference, bit for bit."""

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import fastdp
from fastdp import _core, _selection
from fastdp._core import LEVELS
from fastdp._selection import Choice, Weights
from fastdp._stream import Stream
from tests.differential.layout import Keyed
from tests.differential.test_selection import (
    BOUNDARY,
    KEY,
    SETS,
    Words,
    exact_row,
    many,
    more_of,
    send_onward,
    word_of,
)
from tests.reference import exact_selection
from tests.reference import selection as reference

TRIES = 2


@pytest.fixture(autouse=True)
def restored() -> Any:
    yield
    _core.limit_cpu(None)


def sizes() -> list[Choice]:
    """Rows about the ends of vectors, nodes and tiles of nodes."""
    rng = np.random.default_rng(9)
    counts = (15, 16, 127, 128, 129, 256, 257)
    chosen = []
    for n in counts:
        chosen.append(Choice(Fraction(1, 2), rng.normal(0, 9, (1, n))))
        chosen.append(Choice(Fraction(1, 2), rng.integers(-30, 9, (1, n))))
        few = Weights.numbers(rng.uniform(0, 1, n) * (rng.uniform(size=n) < 0.8))
        chosen.append(Choice(Fraction(1, 2), rng.normal(0, 9, (2, n)), few))
        chosen.append(Choice(Fraction(1, 2), rng.integers(-30, 9, (2, n)), few))
    rationals = [Fraction(k % 5, 3 + k % 7) * 2 ** (k % 9 * 100) for k in range(140)]
    each = Weights.of("weights", [rationals] * 2, (2, 140), 1)
    chosen.append(Choice(Fraction(50), rng.normal(0, 9, (2, 140)), each))
    for n in (7, 300):
        for weights in (np.zeros(n), np.arange(n) * 5e-324):
            chosen.append(Choice(Fraction(1), np.zeros((2, n), np.int64)))
            chosen[-1] = Choice(
                Fraction(1), chosen[-1].scores, Weights.numbers(weights)
            )
            half = np.where(np.arange(n) % 2, np.nan, 1.0) * np.ones((2, 1))
            chosen.append(Choice(Fraction(1), half, Weights.numbers(weights)))
            ends = np.where(weights, np.nan, 1e300) * np.ones((2, 1))
            chosen.append(Choice(Fraction(1), ends, Weights.numbers(weights)))
    chosen += masked()
    chosen.append(Choice(Fraction(1), np.full((5, 7), np.nan)))
    chosen.append(Choice(Fraction(1), np.full((2, 300), -np.inf)))
    return chosen


def masked() -> list[Choice]:
    """Weights of 0 whose scores are above all that count, and rows that lie far apart
    or hold nothing, of lengths that are filled up."""
    chosen = []
    above = np.array([1.0, 2090, 2097.9, 2103, 2107, 1e6, 1e300, np.inf]) * np.log(2)
    for base in ([1.0, 1.0, 0.0], [2.0**-10, 1.0, 0.0]):
        for weights in (np.array(base), np.array([Fraction(b) for b in base])):
            scores = np.zeros((8 * above.size, 3))
            scores[:, 2] = np.tile(above, 8)
            each = Weights.of("weights", weights, scores.shape, 1)
            chosen.append(Choice(Fraction(1), scores, each))
            whole = np.where(np.isfinite(scores), scores, 0).clip(0, 2**62)
            chosen.append(Choice(Fraction(1), whole.astype(np.int64), each))
    for n in (2, 15, 17):
        for apart in (0, 2097, 2146, 2150):
            near = [Fraction(2) ** (1500 - apart - k % 2) for k in range(n)]
            rows = [[Fraction(2) ** 1500] * n] + [near] * 20
            lowest = np.full((len(rows), n), -(2**63))
            each = Weights.of("weights", rows, lowest.shape, 1)
            chosen.append(Choice(Fraction(1), lowest, each))
        nothing = Weights.of("weights", [Fraction(0)] * n, (5, n), 1)
        chosen.append(Choice(Fraction(1), np.zeros((5, n), np.int64), nothing))
    return chosen


def words_of_row(call: _core.Call, row: int) -> list[int]:
    return [word_of(call, 2 * TRIES * row + k) for k in range(2 * TRIES)]


def at_all_levels(choice: Choice, stream: Callable[[], Stream]) -> list[int]:
    """And the exact step, which must give the same without being needed."""
    call = _core.Call(stream())
    real = choice.scores.dtype.kind == "f"
    answers = []
    for row in range(choice.scores.shape[0]):
        words, more = words_of_row(call, row), more_of(call, 2 * TRIES * row)
        scores, weights = exact_row(choice, row)
        base = None if choice.weights is None else weights
        answer = reference.propose(scores, choice.rate, words, more, base, real=real)
        if row < 8:
            assert exact_selection.propose_row(choice, (row, *words), more) == answer
        answers.append(answer)
    for level in LEVELS:
        if _core.limit_cpu(level) == level:
            got = _selection.propose(choice, stream(), 1)
            assert got.tolist() == answers, level
    return answers


@pytest.mark.parametrize("index", range(len(SETS[::2])))
def test_small_sets_give_the_choices_of_the_reference(index: int) -> None:
    at_all_levels(SETS[::2][index], lambda: Keyed(KEY))


@pytest.mark.parametrize("index", range(len(sizes())))
def test_rows_of_every_shape_give_the_choices_of_the_reference(index: int) -> None:
    at_all_levels(sizes()[index], lambda: Keyed(KEY))


@pytest.mark.slow
@pytest.mark.parametrize("n", [4096, 4097, 9000])
def test_long_rows_give_the_choices_of_the_reference(n: int) -> None:
    """With tiles of nodes that are not whole, and sums in memory of their own."""
    rng = np.random.default_rng(n)
    for scores in (rng.normal(0, 9, (1, n)), rng.integers(-30, 9, (1, n))):
        at_all_levels(Choice(Fraction(1, 2), scores), lambda: Keyed(KEY))


@pytest.mark.parametrize("workers", [2, 40])
def test_workers_change_nothing(workers: int) -> None:
    choice = many(9000)
    one = _selection.propose(choice, Keyed(KEY), 1)
    assert (_selection.propose(choice, Keyed(KEY), workers) == one).all()


#: Scores 0, -0.3, -0.7: the middle of one, and a value just beyond acceptance.
REJECTED = (11298625927393920879, 18446740907496151804 + 2**32)


def test_honest_words_need_no_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try is rejected less than once in 2**20: the exact step, which would hide what
    is wrong in the fast one, has nothing to do."""
    send_onward(monkeypatch, exact=False)
    rng, choices = np.random.default_rng(8), []
    for n in (2, 17, 129, 300):
        far = [Fraction(3 + k % 5, 7) * 2 ** (k % 9 * 150) for k in range(n)]
        known = (
            None,
            Weights.numbers(rng.uniform(0.1, 1, n)),
            Weights.of("weights", [far] * 15, (15, n), 1),
        )
        for scores in (rng.normal(0, 9, (15, n)), rng.integers(-30, 9, (15, n))):
            choices += [Choice(Fraction(1, 2), scores, weights) for weights in known]
    for level in LEVELS:
        if _core.limit_cpu(level) == level:
            for choice in choices:
                _selection.propose(choice, Keyed(KEY), 1)
            one_try = Choice(Fraction(1), np.array([[0.0, -0.3, -0.7]] * 2))
            _selection.propose(one_try, Words([0, 0, *REJECTED, *REJECTED, 0, 0]), 1)


# --- bounds ------------------------------------------------------------------------


def test_the_header_and_the_resolver_have_the_same_coefficients() -> None:
    root = Path(__file__).parents[2]
    text = (root / "csrc" / "sampler" / "selection.h").read_text()
    found = re.findall(r"FDP_PROPOSAL_C\d UINT64_C\((0x[0-9a-f]+)\)", text)
    assert tuple(int(c, 16) for c in found) == exact_selection._POWER


@pytest.mark.rest
@pytest.mark.parametrize("based", [False, True])
def test_every_bound_is_above_its_weight_and_close(based: bool) -> None:
    """W > w, and W <= (1 + 2**-21.75) w + 1, or 1 + 2**-20.8 with base weights."""
    rng = np.random.default_rng(3)
    gaps = np.concatenate([rng.uniform(0, 40, 300), 10.0 ** rng.uniform(-30, 3, 200)])
    base = 10.0 ** rng.uniform(-300, 300, 501) if based else np.ones(501)
    excess = mpmath.mpf(2) ** (-20.8 if based else -21.75)
    for rate in (Fraction(1), Fraction(3, 7), Fraction(10**6, 3)):
        scores = np.concatenate([[0.0], -gaps / float(rate)])
        if based:  # weights and scores that make up for each other
            scores = scores - np.log(base) / float(rate)
        weights = Weights.numbers(base) if based else None
        choice = Choice(rate, scores.reshape(1, -1), weights)
        order, bounds, place = exact_selection.bounds_of(choice, 0)
        exact, parts = exact_row(choice, 0)
        known, at = reference.bounds(
            tuple(exact), rate, tuple(parts) if based else None, real=True
        )
        assert place == at
        with mpmath.workdps(60):
            for i, bound in zip(order, bounds, strict=True):
                assert bound == known[i]
                x = rate * (max(exact) - exact[i])
                w = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
                w *= mpmath.mpf(2) ** (51 - place) * mpmath.mpf(base[i])
                assert w < bound <= w * (1 + excess) + 1
            # Nearly the whole range is used.
            assert max(bounds) > 2**49 - 2


# --- words at the boundaries -------------------------------------------------------


def edge_words(choice: Choice) -> list[int]:
    """Points about every boundary, acceptances about every w / W, tries that fail."""
    scores, base = exact_row(choice, 0)
    real = choice.scores.dtype.kind == "f"
    based = tuple(base) if choice.weights is not None else None
    weights, place = reference.bounds(tuple(scores), choice.rate, based, real=real)
    known = [s for s, w in zip(scores, base, strict=True) if s is not None and w]
    total, below, rows = sum(weights), 0, []
    order = exact_selection.node_order(len(scores))
    each = max(len(order) // 3, 1)
    for i in order[each > 1 :: each]:  # of several nodes one within the first
        below = sum(weights[j] for j in order[: order.index(i)])
        first = (below << 64) // total
        middle = ((2 * below + weights[i]) << 63) // total
        for d in (-2, -1, 0, 1, 2, 3):
            rows.append([(first + d) % 2**64, 0, 2**63, 2**63])
        if not known or scores[i] is not None:
            gap = choice.rate * (max(known) - scores[i]) if known else Fraction(0)
            with mpmath.workdps(60):
                w = mpmath.exp(-mpmath.mpf(gap.numerator) / gap.denominator)
                part = base[i] / Fraction(2) ** place
                w *= mpmath.mpf(part.numerator) / part.denominator
                edge = int(min(2**51 * w / weights[i], 1) * 2**64)
            for d in (0, 1, 2, 2**10, 2**18, 2**19, 2**20, 2**21, 2**22, 2**30):
                for reach in (edge - d, edge + d):
                    rows.append([middle, min(max(reach, 0), 2**64 - 1), 0, 0])
        rows.append([middle, 2**64 - 1, middle, 2**64 - 1])
    return [word for row in rows for word in row]


@pytest.mark.parametrize("index", range(len(BOUNDARY)))
def test_words_at_every_boundary(index: int) -> None:
    one = BOUNDARY[index]
    words = edge_words(one)
    scores = np.repeat(one.scores, len(words) // 4, 0)
    at_all_levels(Choice(one.rate, scores, one.weights), lambda: Words(words))


def test_rejected_twice_is_settled_by_inversion() -> None:
    """All words at their ends: the choices follow from further bits alone."""
    middle = (3 << 62) // 2
    words = [middle, 2**64 - 1, middle, 2**64 - 1] * 300
    scores = np.tile(np.array([[0.0, -0.3, -0.7]]), (300, 1))
    choices = at_all_levels(Choice(Fraction(1), scores), lambda: Words(words))
    assert set(choices) == {0, 1, 2}


# --- the law, word by word -----------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "base"),
    [
        ([0.0, 1.0, 2.0], None),
        ([3.0, -20.0, 2.9999999, 0.0], None),
        ([7, 7, 5, 6], None),
        ([7, 7, 5, 6], [0.3, 5.0, 1e3, 0.1]),
        ([0.0, 700.0, 2.0], [1e300, 0.7, 3e299]),
    ],
    ids=str,
)
def test_words_are_shared_out_by_the_law(
    scores: list[float], base: list[float] | None
) -> None:
    """Of 2**128 pairs of words, those whose first try is accepted at i are shared out
    by the weights: binary searches find where the kernels' answers change."""
    rate = Fraction(1)
    array = np.array([scores])
    weights = None if base is None else Weights.numbers(np.array(base))

    def answer(point: int, reach: int, second: int = 0) -> int:
        words = [point, reach, second, 0]
        choice = Choice(rate, array, weights)
        return int(_selection.propose(choice, Words(words), 1)[0])

    def last(passes: Callable[[int], bool]) -> int:
        """The last word that passes, of those from 0 on."""
        below, above = 0, 2**64
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if passes(middle) else (below, middle)
        return below

    order = exact_selection.node_order(len(scores))
    start, shares = 0, []
    for place, i in enumerate(order):
        end = last(lambda u, p=place: order.index(answer(u, 0)) <= p) + 1
        middle = (start + end) // 2
        # A second try elsewhere shows where the first one is rejected.
        other = 0 if place else 2**64 - 1
        reach = last(lambda v, u=middle, i=i, o=other: answer(u, v, o) == i) + 1
        shares.append((end - start, reach))
        start = end
    most = max(scores)
    with mpmath.workdps(60):
        ws = [mpmath.exp(scores[i] - most) * (base[i] if base else 1) for i in order]
        parts = [mpmath.mpf(a) * b for a, b in shares]
        for w, part, (a, b) in zip(ws, parts, shares, strict=True):
            off = abs(part / sum(parts) - w / sum(ws)) * sum(ws) / w
            assert off <= 2 / mpmath.mpf(a) + 4 / mpmath.mpf(b) + mpmath.mpf(2) ** -58


def test_one_choice_goes_through_the_short_way_as_through_rows() -> None:
    m = fastdp.ExponentialMechanism(2, sensitivity=1)
    scores = np.random.default_rng(4).normal(0, 3, 700)
    rows = m.select(scores.reshape(1, -1), stream=Keyed(KEY))
    assert m.select(scores, stream=Keyed(KEY)) == rows[0]
