"""The whole law of a number's report, in integers, for every pair of numbers.

The laws come from the reference that the kernels are compared with; no float enters.
"""

import itertools
from fractions import Fraction
from typing import Any

import pytest

import fastdp
from tests.reference import windows
from tests.reference.interval import exp_minus

UNIT = 2**64
EPSILONS = [Fraction(1, 100), 0.5, 1, 1.5, 2, 3, 4, 5, 6, 9.5]
#: Members alone: of the table, with divisors in common, wide windows, odd and even.
ALONE = [((2, 1),), ((3, 1),), ((3, 2),), ((12, 3),), ((9, 6),), ((42, 6),), ((8, 4),)]

Starts = tuple[int, ...]
Laws = dict[Any, list[Fraction]]


def reference(m: Any, unit: int = UNIT) -> list[windows.Member]:
    return windows.members(Fraction(m._windows.ratio), m.members, m.share, unit)


def laws_of(law: list[windows.Member], unit: int) -> Laws:
    """Return the laws of all pairs of places, one of each member."""
    places = [range(m - w + 1) for m, w, *_ in law]
    return {
        starts: windows.distribution(law, unit, starts)
        for starts in itertools.product(*places)
    }


def of_places(law: list[windows.Member], unit: int) -> Laws:
    """Return the laws of numbers that are a place of some member, rounded down for the
    others: with the ends, all places of each."""
    few = {Fraction(i, m - w) for m, w, *_ in law for i in range(m - w + 1)}
    return {t: windows.distribution(law, unit, starts_of(law, t)) for t in sorted(few)}


def starts_of(law: list[windows.Member], t: Fraction) -> Starts:
    return tuple(int(t * (m - w)) for m, w, *_ in law)


def check(laws: Laws, bound: Fraction, moved: Fraction, quotient: Fraction) -> None:
    """Raise where a ratio is above the bound, or a loss above that of the event."""
    assert quotient <= bound
    assert all(sum(one) == 1 for one in laws.values())
    # The greatest and the least of a code, over all numbers: every pair of them.
    for code in zip(*laws.values(), strict=True):
        assert max(code) <= quotient * min(code)
    some = list(laws.values())
    some = some[:: -(-len(some) // 12)] + some[-1:]
    for one, two in itertools.permutations(some, 2):
        for factor in (Fraction(1), (1 + quotient) / 2):
            pairs = zip(one, two, strict=True)
            excess = sum(max(Fraction(0), a - factor * b) for a, b in pairs)
            assert excess <= moved * (1 - factor / quotient)


def below_exp(epsilon: Fraction) -> Fraction:
    return Fraction(1 << 500, exp_minus(epsilon, 500)[1])


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_laws_of_epsilon(epsilon: Any) -> None:
    m = fastdp.LocalMean.from_epsilon(epsilon, bounds=(-1, 1))
    event: Any = m.event()
    law = reference(m)
    assert [a.inside for a in law] == m._windows.inside
    assert [a.outside for a in law] == m._windows.outside
    bound = below_exp(Fraction(epsilon))
    check(of_places(law, UNIT), bound, event.p, event.p / event.q)
    assert m.epsilon() <= float(epsilon) * (1 + 2e-16)


@pytest.mark.parametrize("members", ALONE, ids=str)
@pytest.mark.parametrize("ratio", [Fraction(5, 4), Fraction(11), Fraction(10**6, 7)])
def test_laws_of_members(members: Any, ratio: Fraction) -> None:
    m = fastdp.LocalMean(ratio, bounds=(0, 1), members=members)
    event: Any = m.event()
    check(laws_of(reference(m), UNIT), ratio, event.p, event.p / event.q)
    # The event's loss is reached: by the places that are farthest apart.
    (codes, window, inside, outside), *_ = reference(m)
    assert event.p == Fraction(min(window, codes - window) * inside, UNIT)
    assert event.q == event.p * outside / inside


@pytest.mark.parametrize(
    ("members", "share"),
    [(((2, 1),), 1), (((3, 1),), 1), (((6, 3),), 1), (((2, 1), (5, 2)), Fraction(2, 3)),
     (((4, 2), (6, 2)), Fraction(1, 3)), (((3, 1), (4, 1)), Fraction(3, 7))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("unit", [508, 510, 1022, 1024])
def test_reports_by_all_words(members: Any, share: Any, unit: int) -> None:
    """Every word u of a small unit: the reports have the law, whatever is left over."""
    law = windows.members(Fraction(3), members, Fraction(share), unit)
    left = unit - sum(member.words for member in law)
    assert left >= 0
    for t in (Fraction(i, 8) for i in range(9)):
        expected = windows.distribution(law, unit, starts_of(law, t))
        counts = [0] * len(expected)
        for u in range(unit):
            counts[windows.code(law, unit, int(t * windows.STEPS), u, 0)] += 1
        assert [Fraction(n, unit) for n in counts] == expected


@pytest.mark.parametrize("members", [*ALONE, ((2, 1), (59, 25)), ((3, 1), (64, 19))])
@pytest.mark.parametrize("ratio", [Fraction(3, 2), Fraction(20)], ids=str)
def test_the_mean_of_a_report_is_the_number(members: Any, ratio: Fraction) -> None:
    """An identity of rationals at every place, and so of every number by the rounding:
    the mean of floor(t (M - w) + r) over r is t (M - w)."""
    share = 1 if len(members) == 1 else Fraction(21, 64)
    m = fastdp.LocalMean(ratio, bounds=(-1, 1), members=members, share=share)
    law, values = reference(m), m._windows.values
    for i, (codes, window, *_) in enumerate(law):
        for start in range(codes - window + 1):
            # The other member is at one end and at the other: its mean is the middle.
            total = Fraction(0)
            for end in (0, 1):
                starts = [end * (c - w) for c, w, *_ in law]
                starts[i] = start
                one = windows.distribution(law, UNIT, tuple(starts))
                total += sum(p * v for p, v in zip(one, values, strict=True)) / 2
            weight = member_share(law, i)
            assert total == weight * (2 * Fraction(start, codes - window) - 1)
    assert sum(member_share(law, i) for i in range(len(law))) == 1
    for places in (1, 3, 40):
        drawn = [windows.place(t, r, places) for t in (0, 77) for r in (0, 2**32 - 1)]
        assert drawn == sorted(drawn)
        mean = Fraction(sum(windows.place(2**30, r << 30, places) for r in range(4)), 4)
        assert mean == Fraction(places, 2)


def member_share(law: list[windows.Member], i: int) -> Fraction:
    left = UNIT - sum(member.words for member in law)
    return Fraction(law[i].words + (left if i == 0 else 0), UNIT)


@pytest.mark.parametrize("epsilon", EPSILONS[1:], ids=str)
def test_variances_are_those_of_the_law(epsilon: Any) -> None:
    """At every place exactly; between two of them the rounding adds its own."""
    m = fastdp.LocalMean.from_epsilon(epsilon, bounds=(-1, 1))
    values = m._windows.values
    law = reference(m)
    if len(law) == 1:
        codes, window, *_ = law[0]
        for start in range(codes - window + 1):
            one = windows.distribution(law, UNIT, (start,))
            square = sum(p * v * v for p, v in zip(one, values, strict=True))
            t = 2 * Fraction(start, codes - window) - 1
            assert m.variance(t) == pytest.approx(float(square - t * t), rel=1e-9)
    assert m.variance() >= max(m.variance(i / 50) for i in range(51)) * (1 - 1e-12)
    assert m.variance(0.3) == pytest.approx(m.variance(-0.3))


# --- planted faults: what the code above must find ------------------------------------


def wrapped(member: windows.Member, start: int) -> list[Fraction]:
    """Plant: windows that begin at every code and go around."""
    m, w, inside, outside = member
    words = [inside if (j - start) % m < w else outside for j in range(m)]
    return [Fraction(n, UNIT) for n in words]


def test_a_window_that_goes_around_is_found_biased() -> None:
    m = fastdp.LocalMean(5, bounds=(-1, 1), members=((7, 2),))
    law = reference(m)
    one = wrapped(law[0], 6)
    mean = sum(p * v for p, v in zip(one, m._windows.values, strict=True))
    assert mean != 2 * Fraction(6, 5) - 1


def test_a_probability_rounded_up_is_found() -> None:
    m = fastdp.LocalMean.from_epsilon(1, bounds=(-1, 1))
    law = [a._replace(outside=a.outside - 1) for a in reference(m)]
    bound = below_exp(Fraction(1))
    quotient = max(Fraction(a.inside, a.outside) for a in law)
    event: Any = m.event()
    with pytest.raises(AssertionError):
        check(of_places(law, UNIT), bound, event.p, quotient)


def test_words_left_over_to_the_window_are_found() -> None:
    """Plant: what is left over goes to the window's codes, not to fixed ones."""
    m = fastdp.LocalMean(Fraction(21, 10), bounds=(-1, 1), members=((12, 5),))
    law = windows.members(Fraction(21, 10), m.members, Fraction(1), 1022)
    left = 1022 - law[0].words
    assert left > 0
    laws = {}
    for start in range(8):
        one = windows.distribution(law, 1022, (start,))
        fixed = [windows.left_over(law, i, left) for i in range(left)]
        for i, code in enumerate(fixed):
            one[code] -= Fraction(1, 1022)
            one[start + i % 5] += Fraction(1, 1022)
        laws[start,] = one
    with pytest.raises(AssertionError):
        check(laws, Fraction(3), Fraction(1), Fraction(law[0].inside, law[0].outside))


def test_a_member_with_a_budget_of_its_own_is_found() -> None:
    """Plant: each of two members with the ratio of twice epsilon, as if the coin halved
    it."""
    law = windows.members(
        below_exp(Fraction(2)), ((2, 1), (9, 3)), Fraction(1, 2), UNIT
    )
    m = fastdp.LocalMean.from_epsilon(1, bounds=(-1, 1))
    event: Any = m.event()
    with pytest.raises(AssertionError):
        check(of_places(law, UNIT), below_exp(Fraction(1)), event.p, event.p / event.q)
