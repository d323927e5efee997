"""Local mechanisms: exact probabilities, exact privacy, public facts alone."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import mpmath
import numpy as np
import pytest

import fastdp
from fastdp import _validate
from fastdp.accounting import NeighboringRelation
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError
from fastdp.mechanisms.local import _probabilities
from fastdp.mechanisms.local.local_hashing import _collision_probability, _most_buckets

UNIT = 2**64
RR, UE = fastdp.RandomizedResponse, fastdp.UnaryEncoding
LH, HR = fastdp.LocalHashing, fastdp.HadamardResponse

FROM_EPSILON: dict[str, Callable[..., Any]] = {
    "response": RR.from_epsilon,
    "optimized unary": UE.from_epsilon,
    "symmetric unary": lambda e, categories, **k: UE.from_epsilon(
        e, categories=categories, symmetric=True, **k
    ),
    "hashing": LH.from_epsilon,
    "binary hashing": lambda e, categories, **k: LH.from_epsilon(
        e, categories=categories, buckets=2, **k
    ),
    "hadamard": HR.from_epsilon,
}
ALL = [
    RR(0.75),
    RR(Fraction(1, 3), categories=5, other=4),
    UE(p=0.5, q=0.25, categories=9),
    UE(p=0.75, q=0.25, categories=3, other=0),
    LH(0.5, buckets=3, categories=10),
    LH(0.9, buckets=2, categories=2**24, other=7),
    HR(0.75, categories=10),
    HR(Fraction(2, 3), categories=2, other=1),
    *(make(1.5, categories=12) for make in FROM_EPSILON.values()),
]
EPSILONS = [1e-9, 1e-3, 0.1, 0.5, 1, math.log(3), 2.5, 8, 40, 1000, 10**300,
            Fraction(1, 3), Decimal("0.7")]  # fmt: skip


# --- identity -----------------------------------------------------------------


@pytest.mark.parametrize("m", ALL, ids=repr)
def test_repr_and_copies(m: Any) -> None:
    names = {**vars(fastdp.mechanisms), "Fraction": Fraction}
    again = eval(repr(m), names)  # noqa: S307 - the text is one of this package's reprs
    assert (again.p, again.event()) == (m.p, m.event())
    for other in (again, copy.copy(m), copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert other == m
        assert hash(other) == hash(m)
        assert repr(other) == repr(m)
    assert m.__reduce__()[1] == (type(m), dict(m._arguments))


@pytest.mark.parametrize("m", ALL, ids=repr)
def test_immutable(m: Any) -> None:
    for name in ("p", "categories", "_p", "_support", "_arguments", "new"):
        with pytest.raises(AttributeError):
            setattr(m, name, 1)
    assert not hasattr(m, "__dict__")


def test_equality_is_of_type_and_parameters() -> None:
    assert RR(0.75) == RR(Fraction(3, 4), categories=2) != RR(0.75, categories=3)
    assert RR(0.75) != RR(0.75, other=0)
    assert RR(0.75, categories=3) != HR(0.75, categories=3)
    assert len(set(ALL)) == len(ALL)


# --- probabilities ------------------------------------------------------------


@pytest.mark.parametrize("categories", [2, 3, 4, 1000, 2**31 - 1])
@pytest.mark.parametrize("epsilon", EPSILONS[1:])
def test_probability_of_the_truth_is_the_exact_floor(
    epsilon: Any, categories: int
) -> None:
    exact = Fraction(_validate.least_reading(epsilon))
    with mpmath.workdps(1000):
        power = mpmath.exp(-mpmath.mpf(exact.numerator) / exact.denominator)
        floor = int(mpmath.floor(UNIT / (1 + (categories - 1) * power)))
    # 1000 digits do not tell e**-epsilon of an enormous epsilon from 0.
    expected = Fraction(min(floor, UNIT - 1), UNIT)
    assert _probabilities.truth_of(epsilon, categories) == expected


@pytest.mark.parametrize("name", FROM_EPSILON)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("categories", [2, 3, 1000, 2**24])
def test_stated_epsilon_is_never_above_the_one_asked_for(
    name: str, epsilon: Any, categories: int
) -> None:
    m = FROM_EPSILON[name](epsilon, categories=categories)
    stated = m.epsilon()
    event = m.event()
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.mpf(event.p.numerator) / event.p.denominator)
        exact -= mpmath.log(mpmath.mpf(event.q.numerator) / event.q.denominator)
    assert 0 < exact <= stated <= max(float(epsilon), math.nextafter(exact, math.inf))
    if 1e-3 <= epsilon <= 8:
        assert stated == pytest.approx(float(epsilon), rel=1e-12)
    probabilities = [m.p, getattr(m, "q", m.p)]
    assert all((UNIT * p).denominator == 1 for p in probabilities)
    assert event.neighboring_relation is NeighboringRelation.REPLACE_ONE


def test_parameters_round_toward_more_privacy() -> None:
    third, tenth = Fraction(1, 3), Fraction(1, 10)
    for p in (
        RR(third, categories=4).p,
        LH(third, buckets=4, categories=9).p,
        UE(p=third, q=tenth, categories=4).p,
    ):
        assert third - Fraction(1, UNIT) < p < third
    assert tenth < UE(p=third, q=tenth, categories=4).q < tenth + Fraction(1, UNIT)
    assert HR(2 * third, categories=3).p < 2 * third
    assert RR(0.1 + 0.2, categories=4).p == Fraction(0.1 + 0.2)


def test_optimized_and_symmetric() -> None:
    m = UE.from_epsilon(math.log(3), categories=4)
    assert m.p == Fraction(1, 2)
    assert m.q == pytest.approx(Fraction(1, 4))
    m = UE.from_epsilon(2 * math.log(3), categories=4, symmetric=True)
    assert m.q == 1 - m.p == pytest.approx(Fraction(1, 4))
    assert LH.from_epsilon(1, categories=50).buckets == 4
    assert LH.from_epsilon(3, categories=50).buckets == 21
    assert LH.from_epsilon(3, categories=50, buckets=2).buckets == 2
    assert LH.from_epsilon(10, categories=2**24).buckets == 2**6
    assert LH.from_epsilon(100, categories=2).buckets == 2**29


@pytest.mark.parametrize("categories", [2**24, 2**24 - 1, 2**23 + 1, 2**20, 2**18])
@pytest.mark.parametrize("buckets", [2, 3, 7, 64])
def test_collision_probability_is_counted(categories: int, buckets: int) -> None:
    bits = 33 - (categories - 1).bit_length()
    sizes = np.bincount((np.arange(2**bits) * buckets) >> bits)
    expected = Fraction(int((sizes**2).sum()), 4**bits)
    assert _collision_probability(buckets, categories) == expected
    assert (
        LH(0.75, buckets=buckets, categories=categories).collision_probability
        == expected
    )


# --- the whole law of reports -------------------------------------------------


def response_law(m: Any) -> list[dict[Any, Fraction]]:
    k = m.categories
    wrong = (1 - m.p) / (k - 1)
    return [{y: m.p if x == y else wrong for y in range(k)} for x in range(k)]


def unary_law(m: Any) -> list[dict[Any, Fraction]]:
    def row(x: int, y: tuple[int, ...]) -> Fraction:
        ones = [m.p if v == x else m.q for v in range(m.categories)]
        return math.prod(o if bit else 1 - o for o, bit in zip(ones, y, strict=True))

    rows = list(product((0, 1), repeat=m.categories))
    return [{y: row(x, y) for y in rows} for x in range(m.categories)]


def hadamard_law(m: Any) -> list[dict[Any, Fraction]]:
    order = 2 ** m.categories.bit_length()
    own, rest = m.p / (order // 2), (1 - m.p) / (order // 2)
    return [
        {y: rest if (y & (x + 1)).bit_count() & 1 else own for y in range(order)}
        for x in range(m.categories)
    ]


def hashing_law(m: Any) -> list[dict[Any, Fraction]]:
    """Over two categories and the bucket sizes of a pair of uniform hash values."""
    size = 2 ** (33 - (m.categories - 1).bit_length())
    share = np.bincount((np.arange(size) * m.buckets) >> (size.bit_length() - 1))
    wrong = (1 - m.p) / (m.buckets - 1)
    laws: list[dict[Any, Fraction]] = [{}, {}]
    for pair in product(range(m.buckets), repeat=2):
        weight = Fraction(int(share[pair[0]]) * int(share[pair[1]]), size**2)
        for y in range(m.buckets):
            for law, bucket in zip(laws, pair, strict=True):
                law[pair, y] = weight * (m.p if y == bucket else wrong)
    return laws


LAWS = [
    *(
        (response_law, RR.from_epsilon(e, categories=k))
        for e in (0.1, 2)
        for k in (2, 3, 7)
    ),
    *(
        (unary_law, FROM_EPSILON[f"{kind} unary"](e, categories=d))
        for kind in ("optimized", "symmetric")
        for e in (0.1, 2)
        for d in (2, 5)
    ),
    (unary_law, UE(p=0.9, q=0.3, categories=4)),
    *(
        (hadamard_law, HR.from_epsilon(e, categories=d))
        for e in (0.1, 2)
        for d in (2, 3, 8)
    ),
    *((hashing_law, LH.from_epsilon(e, categories=2**24)) for e in (0.1, 2)),
    (hashing_law, LH.from_epsilon(2, categories=2**22, buckets=2)),
]  # fmt: skip


@pytest.mark.parametrize(("law", "m"), LAWS, ids=lambda a: getattr(a, "__name__", ""))
def test_event_is_the_privacy_loss_of_the_whole_law(law: Any, m: Any) -> None:
    laws = law(m)
    event = m.event()
    for one, two in permutations(laws, 2):
        assert sum(one.values()) == 1
        losses: dict[Fraction, Fraction] = {}
        for y, probability in one.items():
            ratio = probability / two[y]
            losses[ratio] = losses.get(ratio, Fraction(0)) + probability
        expected = {event.p / event.q: event.p, event.q / event.p: event.q}
        assert losses.pop(Fraction(1), 0) == 1 - event.p - event.q
        assert losses == expected
        # The hockey-stick divergence, which delta() bounds from above.
        for epsilon in (0.0, m.epsilon() / 2):
            exact = sum(
                max(Fraction(0), p - Fraction(math.exp(epsilon)) * two[y])
                for y, p in one.items()
            )
            assert m.delta(epsilon) == pytest.approx(float(exact), rel=1e-9, abs=1e-18)
    assert m.delta(m.epsilon()) <= 1e-17
    assert 0 < m.rho() < m.epsilon() ** 2 / 2 * (1 + 1e-12)


# --- refusals -----------------------------------------------------------------


@pytest.mark.parametrize("name", FROM_EPSILON)
def test_epsilon_out_of_its_domain(name: str) -> None:
    make = FROM_EPSILON[name]
    for bad in (0, -1, math.nan, math.inf, 10**5000):
        with pytest.raises(ParameterError, match="epsilon"):
            make(bad, categories=4)
    for bad in (True, "1", None, [1]):
        with pytest.raises(DTypeError, match="epsilon"):
            make(bad, categories=4)


@pytest.mark.parametrize("name", FROM_EPSILON)
def test_an_epsilon_too_small_for_the_probabilities(name: str) -> None:
    with pytest.raises(CalibrationError, match=r"epsilon .* 2\*\*-64"):
        FROM_EPSILON[name](1e-21, categories=4)
    with pytest.raises(CalibrationError, match=r"epsilon .* 2\*\*-64"):
        FROM_EPSILON[name](Fraction(1, 2**2000), categories=5)


CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "response": lambda d, p=0.75, **k: RR(p, categories=d, **k),
    "unary": lambda d, p=0.75, **k: UE(p=p, q=0.125, categories=d, **k),
    "hashing": lambda d, p=0.75, **k: LH(p, buckets=3, categories=d, **k),
    "hadamard": lambda d, p=0.75, **k: HR(p, categories=d, **k),
}


@pytest.mark.parametrize(
    "make",
    [
        *CONSTRUCTORS.values(),
        *(
            lambda d, make=make, **k: make(1, categories=d, **k)
            for make in FROM_EPSILON.values()
        ),
    ],
)
def test_domain_is_checked(make: Callable[..., Any]) -> None:
    for bad in (1, 0, -3, 2**31):
        with pytest.raises(ParameterError, match="categories must be in"):
            make(bad)
    for bad in (2.0, True, "5", None):
        with pytest.raises(DTypeError, match="categories"):
            make(bad)
    for bad in (-1, 5, 2**70):
        with pytest.raises(ParameterError, match="other must be in"):
            make(5, other=bad)
    for bad in (1.0, True, "1"):
        with pytest.raises(DTypeError, match="other"):
            make(5, other=bad)


@pytest.mark.parametrize("make", CONSTRUCTORS.values(), ids=CONSTRUCTORS)
def test_probability_is_checked(make: Callable[..., Any]) -> None:
    for bad in (0, 1, 1.5, -0.25, 1e-30, math.nan, math.inf):
        with pytest.raises(ParameterError, match=r"\bp must be|below p"):
            make(4, bad)
    for bad in (True, "0.5", None):
        with pytest.raises(DTypeError, match=r"\bp must be"):
            make(4, bad)


def test_a_useless_probability_is_refused() -> None:
    with pytest.raises(ParameterError, match="above 1/4"):
        RR(0.25, categories=4)
    with pytest.raises(ParameterError, match="above 1/3"):
        RR(Fraction(1, 3) + Fraction(1, 2**70), categories=3)
    with pytest.raises(ParameterError, match="above 1/5"):
        LH(Fraction(1, 5), buckets=5, categories=100)
    with pytest.raises(ParameterError, match="above 1/2"):
        HR(0.5, categories=100)
    with pytest.raises(ParameterError, match="q must be below p"):
        UE(p=0.5, q=0.5, categories=4)
    with pytest.raises(ParameterError, match="q must be below p"):
        UE(p=Fraction(1, 2) + Fraction(1, 2**70), q=0.5, categories=4)
    for bad in (0, 1, -1, math.nan):
        with pytest.raises(ParameterError, match="q must be"):
            UE(p=0.5, q=bad, categories=4)


def test_options_are_checked() -> None:
    for bad in (1, "yes", None):
        with pytest.raises(DTypeError, match="symmetric"):
            UE.from_epsilon(1, categories=4, symmetric=bad)
    assert _most_buckets(2) == 2**29
    for bad in (1, 0, 2**29 + 1):
        with pytest.raises(ParameterError, match="buckets must be in"):
            LH.from_epsilon(1, categories=2, buckets=bad)
        with pytest.raises(ParameterError, match="buckets must be in"):
            LH(0.75, buckets=bad, categories=2)
    with pytest.raises(DTypeError, match="buckets"):
        LH(0.75, buckets=3.0, categories=4)
    for make in (UE.from_epsilon, LH.from_epsilon, HR.from_epsilon):
        with pytest.raises(ParameterError, match="categories must be in"):
            make(1, categories=2**24 + 1)
    assert RR.from_epsilon(1, categories=2**24 + 1).categories == 2**24 + 1
