"""Calculators: factorizations, votes, and classic algorithms, against exact truth."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from mpmath import mp

from fastdp.accounting import (
    GaussianEvent,
    LaplaceEvent,
    NeighboringRelation,
    ZCDPAccountant,
)
from fastdp.accounting.calculators import (
    data_dependent_pate_divergence,
    data_dependent_pate_smooth_sensitivity,
    matrix_mechanism,
    participation_sensitivity,
    pate,
    subsample_and_aggregate,
)
from fastdp.exceptions import DTypeError, ParameterError

# ---- matrix mechanisms ------------------------------------------------------------


def toeplitz(column):
    n = len(column)
    return np.array(
        [[column[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)]
    )


def root(n):
    return [math.comb(2 * j, j) / 4**j for j in range(n)]


def patterns(n, count, gap):
    for size in range(1, count + 1):
        for steps in itertools.combinations(range(n), size):
            if all(b - a >= gap for a, b in itertools.pairwise(steps)):
                yield list(steps)


def tree_nodes(n):
    """Return the rows of the binary tree's matrix that some prefix uses or holds."""
    rows = []
    for level in range((n - 1).bit_length() + 1):
        for start in range(0, n, 2**level):
            row = np.zeros(n)
            row[start : start + 2**level] = 1
            rows.append(row)
    return np.array(rows)


def test_published_figures():
    assert matrix_mechanism(
        "square_root", 1024, participations=1
    ).sensitivity ** 2 == pytest.approx(3.27255, abs=1e-5)
    several = matrix_mechanism("square_root", 1000, participations=10, separation=100)
    assert several.sensitivity == pytest.approx(9.154043, abs=1e-6)
    assert matrix_mechanism(
        "tree", 1024, participations=1
    ).sensitivity ** 2 == pytest.approx(11)


@pytest.mark.parametrize("strategy", ["independent", "square_root", "banded"])
@pytest.mark.parametrize(
    ("n", "count", "gap"), [(9, 1, 9), (9, 2, 3), (10, 4, 2), (8, 8, 1), (11, 9, 4)]
)
def test_toeplitz_sensitivity_is_that_of_the_worst_pattern(strategy, n, count, gap):
    bands = 3 if strategy == "banded" else None
    plan = matrix_mechanism(
        strategy, n, participations=count, separation=gap, bands=bands
    )
    width = {"independent": 1, "square_root": n, "banded": 3}[strategy]
    column = [c if i < width else 0.0 for i, c in enumerate(root(n))]
    c = toeplitz(column)
    worst = max(np.linalg.norm(c[:, p].sum(axis=1)) for p in patterns(n, count, gap))
    assert worst <= plan.sensitivity <= worst * (1 + 1e-9)
    b = np.tril(np.ones((n, n))) @ np.linalg.inv(c)
    rows = np.linalg.norm(b, axis=1)
    assert plan.largest_row == pytest.approx(rows.max())
    assert plan.mean_row == pytest.approx(math.sqrt(np.mean(rows**2)))
    bound = participation_sensitivity(c, participations=count, separation=gap)
    assert bound >= worst
    if width <= gap:
        assert bound <= worst * (1 + 1e-9)


@pytest.mark.parametrize(("n", "count", "gap"), [(8, 1, 8), (8, 3, 2), (13, 4, 3)])
def test_tree(n, count, gap):
    plan = matrix_mechanism("tree", n, participations=count, separation=gap)
    c = tree_nodes(n)
    worst = max(np.linalg.norm(c[:, p].sum(axis=1)) for p in patterns(n, count, gap))
    assert worst <= plan.sensitivity <= worst * 1.4
    used = [bin(t).count("1") for t in range(1, n + 1)]
    assert plan.largest_row == pytest.approx(math.sqrt(max(used)))
    assert plan.mean_row == pytest.approx(math.sqrt(sum(used) / n))


@pytest.mark.parametrize("seed", range(6))
def test_any_matrix(seed):
    rng = np.random.default_rng(seed)
    c = rng.normal(size=(6, 8))
    for count, gap in [(1, 1), (2, 3), (3, 2)]:
        signs = [
            np.linalg.norm((c[:, p] * s).sum(axis=1))
            for p in patterns(8, count, gap)
            for s in itertools.product([-1, 1], repeat=len(p))
        ]
        assert max(signs) <= participation_sensitivity(
            c, participations=count, separation=gap
        )
    column = max(np.linalg.norm(c, axis=0))
    assert participation_sensitivity(
        c, participations=1, separation=1
    ) == pytest.approx(column)


def test_error_beside_cost():
    n = 256
    plans = {
        s: matrix_mechanism(s, n, participations=1)
        for s in ["independent", "tree", "square_root"]
    }
    errors = [plans[s].largest_error for s in ["square_root", "tree", "independent"]]
    assert errors == sorted(errors)
    plan = plans["square_root"]
    assert plan.mean_error < plan.largest_error
    event = plan.event(3)
    assert event == GaussianEvent(
        sensitivity=Fraction(plan.sensitivity),
        sigma=3,
        neighboring_relation=NeighboringRelation.REPLACE_SPECIAL,
    )
    twice = plan.event(3, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    assert twice.sensitivity == 2 * event.sensitivity


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("fourier", 4), {}, "strategy must be one of"),
        (("tree", 0), {}, "steps must be in"),
        (("tree", 4), {"participations": 2}, "separation must be given"),
        (("tree", 4), {"bands": 2}, "bands must be given with strategy 'banded'"),
        (("banded", 4), {}, "bands must be given with strategy 'banded'"),
        (("banded", 4), {"bands": 5}, "bands must be in"),
    ],
)
def test_matrix_refusals(arguments, options, message):
    with pytest.raises(ParameterError, match=message):
        matrix_mechanism(*arguments, **{"participations": 1, **options})


def test_matrix_types():
    with pytest.raises(ParameterError, match="neighboring_relation must be"):
        matrix_mechanism("tree", 4, participations=1).event(
            1, neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE
        )
    with pytest.raises(DTypeError, match="matrix must be real numbers in two"):
        participation_sensitivity([1, 2], participations=1, separation=1)
    with pytest.raises(ParameterError, match="matrix must be finite"):
        participation_sensitivity([[math.inf]], participations=1, separation=1)


# ---- votes ------------------------------------------------------------


def gaps_of_a_neighbor(votes):
    """Return gaps after the winner has lost a vote to the second label."""
    top, second, *others = sorted(votes, reverse=True)
    return [top - second - 2, *[top - 1 - v for v in others]]


def gaussian_truth(votes, sigma, order):
    """Return Papernot et al. 2018, Theorem 6, at 50 digits, None where not met."""
    gaps = gaps_of_a_neighbor(votes)
    q = sum(mp.erfc(gap / (2 * mp.mpf(sigma))) for gap in gaps) / 2
    q = min(q, 1 - mp.mpf(1) / len(votes))
    mu2 = sigma * mp.sqrt(-mp.log(q))
    mu1 = mu2 + 1
    e1, e2 = mu1 / sigma**2, mu2 / sigma**2
    if mu2 <= 1 or mu1 < order:
        return None
    limit = mp.exp((mu2 - 1) * e2) / (mu1 / (mu1 - 1) * mu2 / (mu2 - 1)) ** mu2
    if q > limit:
        return None
    a = (1 - q) / (1 - (q * mp.exp(e2)) ** ((mu2 - 1) / mu2))
    b = mp.exp(e1) / q ** (1 / (mu1 - 1))
    return mp.log((1 - q) * a ** (order - 1) + q * b ** (order - 1)) / (order - 1)


@pytest.mark.parametrize(
    "votes", [(200, 30, 20), (250, 0, 0), (120, 70, 60), (90, 80, 80), (1000, 0)]
)
@pytest.mark.parametrize("sigma", [5, 40, 100])
def test_gaussian_votes(votes, sigma):
    used = 0
    for order in [1.5, 2, 8, 32]:
        with mp.workdps(50):
            truth = gaussian_truth(votes, sigma, order)
        plain = order / sigma**2
        best = plain if truth is None else min(plain, float(truth))
        found = data_dependent_pate_divergence(
            votes, noise="gaussian", width=sigma, order=order
        )
        assert best * (1 - 1e-15) <= found <= best * (1 + 1e-6) + 1e-13
        used += truth is not None and truth < plain
    if votes == (1000, 0) and sigma == 40:
        assert used > 0


@pytest.mark.parametrize("votes", [(200, 30, 20), (50, 45, 5)])
@pytest.mark.parametrize("scale", [4, 20, 50])
def test_laplace_votes(votes, scale):
    gamma = 1 / mp.mpf(scale)
    with mp.workdps(50):
        gaps = gaps_of_a_neighbor(votes)
        q = sum((2 + gamma * g) / (4 * mp.exp(gamma * g)) for g in gaps)
        for order in [2, 5, 20]:
            moment = order - 1
            plain = min(2 * gamma**2 * moment * order, 2 * gamma * moment)
            best = plain
            if q < (mp.exp(2 * gamma) - 1) / (mp.exp(4 * gamma) - 1):
                ratio = (1 - q) / (1 - mp.exp(2 * gamma) * q)
                value = (1 - q) * ratio**moment + q * mp.exp(2 * gamma * moment)
                best = min(plain, mp.log(value))
            found = data_dependent_pate_divergence(
                votes, noise="laplace", width=scale, order=order
            )
            assert best / moment <= found <= best / moment * (1 + 1e-6) + 1e-13


def winners(votes, noise, width):
    """Return each label's probability of winning, by a sum over a fine grid."""
    reach = 12 * width if noise == "gaussian" else 60 * width
    x = np.linspace(min(votes) - reach, max(votes) + reach, 300_001)
    law = scipy.stats.norm if noise == "gaussian" else scipy.stats.laplace
    below = [law.cdf(x, v, width) for v in votes]
    wins = [
        law.pdf(x, v, width)
        * math.prod(b for j, b in enumerate(below) if j != i)
        * (x[1] - x[0])
        for i, v in enumerate(votes)
    ]
    return np.array([w.sum() for w in wins])


@pytest.mark.rest
@pytest.mark.parametrize(
    ("votes", "noise", "width", "order"),
    [
        ((60, 38, 16, 25), "gaussian", 2.997, 4),
        ((30, 10), "gaussian", 3, 6),
        ((60, 30, 30, 30), "gaussian", 4, 8),
        ((40, 10, 5), "laplace", 3, 4),
        ((30, 12, 12, 12), "laplace", 1.5, 3),
    ],
)
def test_votes_bound_both_directions(votes, noise, width, order):
    claims = [
        data_dependent_pate_divergence(votes, noise=noise, width=width, order=order)
    ]
    if noise == "gaussian":
        smooth = data_dependent_pate_smooth_sensitivity(
            votes, sigma=width, order=order, smoothness=0.1
        )
        claims.append(smooth.divergence)
    p = winners(votes, noise, width)
    assert p.sum() == pytest.approx(1, abs=1e-7)
    worst = 0.0
    for i, j in itertools.permutations(range(len(votes)), 2):
        moved = list(votes)
        moved[i] -= 1
        moved[j] += 1
        q = winners(moved, noise, width)
        for a, b in ((p, q), (q, p)):
            total = float(np.sum(a**order * b ** (1.0 - order))) - 1
            worst = max(worst, math.log1p(total) / (order - 1))
    assert worst <= min(claims)
    plain = order / width**2 if noise == "gaussian" else 2 * order / width**2
    assert max(claims) < plain  # the votes tell


def test_a_record_that_moves_between_teachers_changes_two_votes():
    replace = NeighboringRelation.REPLACE_ONE
    # Three teachers of two records each, dealt by a key of the record; a teacher votes
    # for the parity of its records. Another key and value change two votes.
    records = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (2, 1)]

    def counts(data):
        totals = [sum(v for key, v in data if key == t) % 2 for t in range(3)]
        return totals.count(0), totals.count(1)

    def moves(assignment):
        for place, key, value in itertools.product(range(6), range(3), range(2)):
            new = list(records)
            new[place] = (new[place][0] if assignment == "place" else key, value)
            yield [a - b for a, b in zip(counts(new), counts(records), strict=True)]

    for assignment, votes in (("place", 1), ("key", 2)):
        largest = max(sum(map(abs, move)) for move in moves(assignment))
        event = pate("laplace", 20, neighboring_relation=replace, assignment=assignment)
        assert event == LaplaceEvent(
            sensitivity=2 * votes, scale=20, neighboring_relation=replace
        )
        assert largest == event.sensitivity
        square = max(sum(m * m for m in move) for move in moves(assignment))
        gaussian = pate(
            "gaussian", 20, neighboring_relation=replace, assignment=assignment
        )
        assert square <= gaussian.sensitivity**2 < square * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize(
    "call",
    [
        lambda **options: pate("laplace", 20, **options),
        lambda **options: pate("gaussian", 20, **options),
        lambda **options: subsample_and_aggregate(
            blocks=4, low=0, high=1, epsilon=1, **options, copies=1
        ),
    ],
)
def test_the_part_of_a_record_must_be_told_where_it_matters(call):
    relation = NeighboringRelation
    with pytest.raises(ParameterError, match="assignment must be given if a record"):
        call(neighboring_relation=relation.REPLACE_ONE)
    with pytest.raises(ParameterError, match="assignment must be 'key' if a record"):
        call(assignment="place")
    with pytest.raises(ParameterError, match="assignment must be 'place' or 'key'"):
        call(assignment="hash")
    assert call(assignment="key") == call()
    special = relation.REPLACE_SPECIAL
    assert call(neighboring_relation=special, assignment="place") == call(
        neighboring_relation=special
    )


def test_a_record_that_moves_between_blocks_changes_two():
    # Four blocks, the parity of a block's size: the mean moves by 1/2.
    keys = [0, 0, 1, 1, 2, 2, 3, 3]

    def mean(of):
        return Fraction(sum(of.count(block) % 2 for block in range(4)), 4)

    largest = max(
        abs(mean([*keys[:place], key, *keys[place + 1 :]]) - mean(keys))
        for place, key in itertools.product(range(8), range(4))
    )
    replace = NeighboringRelation.REPLACE_ONE
    setting = {"neighboring_relation": replace, "assignment": "key"}
    plan = subsample_and_aggregate(
        blocks=4, low=0, high=1, epsilon=1, **setting, copies=1
    )
    assert largest == plan.sensitivity == plan.event.sensitivity == Fraction(1, 2)
    by_place = {"neighboring_relation": replace, "assignment": "place"}
    assert subsample_and_aggregate(
        blocks=4, low=0, high=1, epsilon=1, **by_place, copies=1
    ).sensitivity == Fraction(1, 4)
    # never more than all blocks
    whole = subsample_and_aggregate(
        blocks=4, low=0, high=1, epsilon=1, copies=3, **setting
    )
    assert whole.sensitivity == 1


def test_whatever_the_votes():
    assert pate("laplace", 20) == LaplaceEvent(sensitivity=2, scale=20)
    gaussian = ZCDPAccountant().compose(pate("gaussian", 40))
    assert (
        Fraction(1, 1600)
        <= gaussian.rho
        <= Fraction(1, 1600) * (1 + Fraction(1, 2**70))
    )
    # the data-dependent number is never reported as that of the mechanism
    clear = data_dependent_pate_divergence(
        [500, 0], noise="gaussian", width=40, order=2
    )
    assert clear < 2 * gaussian.rho / 100
    assert "data_dependent" in data_dependent_pate_divergence.__name__
    other = data_dependent_pate_divergence(
        [260, 240], noise="gaussian", width=40, order=2
    )
    assert other > 50 * clear  # two datasets, two numbers: it tells them apart


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([5], "gaussian", 1, 2), "votes must have at least one query"),
        (([5, -1], "gaussian", 1, 2), r"votes must be in \[0, 1000000000000\]"),
        (([5, 1], "uniform", 1, 2), "noise must be one of"),
        (([5, 1], "gaussian", 0, 2), "width must be"),
        (([5, 1], "gaussian", 1, 1), "order must be > 1"),
        (([5, 1], "laplace", 1, 2.5), "order must be > 1, and an integer"),
    ],
)
def test_vote_refusals(arguments, message):
    with pytest.raises(ParameterError, match=message):
        data_dependent_pate_divergence(
            arguments[0], noise=arguments[1], width=arguments[2], order=arguments[3]
        )


def test_vote_types():
    with pytest.raises(DTypeError, match="votes must be integers"):
        data_dependent_pate_divergence([0.5, 1], noise="gaussian", width=1, order=2)
