"""VectorResponse: the exact law of any code, unbiased means, figures, forms."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import special

import fastdp
from fastdp import _core
from fastdp.exceptions import CalibrationError, DTypeError, EntropyError, ParameterError
from fastdp.mechanisms.local import vector_response
from fastdp.testing import FixedStream
from tests.privacy.streams import BrokenStream, KeyStream
from tests.reference.interval import exp_minus

VR = fastdp.VectorResponse
KEY = bytes(range(32))
#: Mean of PrivUnitG's reports along the vector, by epsilon.
PRIVUNITG = {1: 0.3975, 2: 0.7865, 4: 1.5156}


def law_of(m: Any, near: set[int]) -> list[Fraction]:
    """Return the law of the word's number, where these words are near."""
    assert len(near) == m.near
    inside, outside = m.p / m.near, (1 - m.p) / (m.words - m.near)
    return [inside if j in near else outside for j in range(m.words)]


def word(m: Any, seed: int, value: int) -> np.ndarray:
    """Return a word of a seed's code."""
    tally = np.zeros(m.dimension + 1, np.int64)
    m._code.sums(np.array([(seed, value)], m.report_dtype), tally)
    assert tally[-1] == 1
    return tally[:-1] * 2.0**-12


def code(m: Any, seed: int) -> np.ndarray:
    """Return all words of a seed."""
    return np.array([word(m, seed, j) for j in range(m.words)])


@pytest.mark.parametrize("near", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), 1, 4], ids=str)
def test_laws_of_every_code_of_four_words(near: int, epsilon: Any) -> None:
    """Whatever the code: vectors differ in which words are near, nothing else."""
    m = VR.from_epsilon(epsilon, dimension=2, words=4, near=near)
    event = m.event()
    bound = Fraction(1 << 500, exp_minus(Fraction(epsilon), 500)[1])
    sets = [set(s) for s in itertools.combinations(range(4), near)]
    for one, two in itertools.permutations(sets, 2):
        a, b = law_of(m, one), law_of(m, two)
        assert sum(a) == 1
        assert max(p / q for p, q in zip(a, b, strict=True)) <= bound
        for factor in (1, (1 + event.p / event.q) / 2):
            pairs = zip(a, b, strict=True)
            excess = sum(max(Fraction(0), p - factor * q) for p, q in pairs)
            assert excess <= event.p - factor * event.q
    assert m.epsilon() <= float(epsilon) * (1 + 1e-15)


def test_a_near_set_by_a_threshold_is_found() -> None:
    """Plant: words above a threshold are near, so that vectors have more or fewer."""
    m = VR.from_epsilon(1, dimension=2, words=4, near=2)
    with pytest.raises(AssertionError):
        law_of(m, {0, 1, 2})
    for k in (1, 3):
        one = [m.p / k if j < k else (1 - m.p) / (4 - k) for j in range(4)]
        other = law_of(m, {2, 3})
        worst = max(a / b for a, b in zip(one, other, strict=True))
        assert worst > m.event().p / m.event().q or k == 3


def test_reports_follow_the_order_of_the_words() -> None:
    """Near words are those with the largest products, and each as often as the rest."""
    m = VR.from_epsilon(1, dimension=3, words=8)
    x = np.array([0.6, 0.0, -0.8])
    reports = m.release(np.tile(x, (6000, 1)), stream=FixedStream("order"))
    ranks = []
    for seed, value in reports.tolist():
        scores = code(m, seed) @ x
        ranks.append(int((scores > scores[value]).sum()))
    counts = np.bincount(ranks, minlength=8) / 6000
    inside, outside = float(m.p / m.near), float((1 - m.p) / (8 - m.near))
    expected = [inside if i < m.near else outside for i in range(8)]
    assert counts == pytest.approx(expected, abs=0.025)  # 5 standard errors


def test_words_are_normal_numbers() -> None:
    m = VR.from_epsilon(1, dimension=1000, words=200)
    found = code(m, 7)
    assert abs(found.mean()) < 0.015
    assert found.std() == pytest.approx(1, abs=0.01)
    assert (np.abs(np.corrcoef(found)) - np.eye(200)).max() < 0.25


@pytest.mark.parametrize(("words", "near"), [(256, 1), (256, 40), (65536, 1)])
def test_means_along_an_axis(words: int, near: int) -> None:
    """Of numbers in cells the means of the largest are those of normal numbers."""
    sizes = vector_response._sizes().astype(float) * 2.0**-12
    fine, rest = sizes[2**15 :], sizes[128 : 2**15]
    value = np.concatenate([-fine, -rest, rest[::-1], fine[::-1]])
    chance = np.full(len(value), 2.0**-16)
    chance[: 2**15] = chance[-(2**15) :] = 2.0**-24
    ends = np.concatenate([[0], np.cumsum(chance)])
    assert ends[-1] == 1
    assert chance @ value**2 == pytest.approx(1, abs=1e-6)
    # The chance that fewer than `near` of the others are below, over each cell.
    edge, middle = (
        special.betaincc(near, words - near, u)
        for u in (ends, (ends[1:] + ends[:-1]) / 2)
    )
    mean = -(chance * (edge[1:] + edge[:-1] + 4 * middle) / 6) @ value * words / near
    exact = vector_response._order_means(near, words)[0]
    assert mean == pytest.approx(exact, rel=2e-6)


@pytest.mark.parametrize("epsilon", PRIVUNITG)
def test_errors_are_near_privunitg(epsilon: int) -> None:
    m = VR.from_epsilon(epsilon, dimension=100)
    ratio = (PRIVUNITG[epsilon] / m._scale) ** 2
    assert 0.999 < ratio < 1.02
    several = [
        VR.from_epsilon(epsilon, dimension=100, near=k)
        for k in (m.near - 1, m.near + 1)
    ]
    assert all(other._scale <= m._scale for other in several)


def test_order_statistics() -> None:
    """Of two normal numbers the larger has the mean 1/sqrt(pi); of all, 0 and 1."""
    m = VR(Fraction(9, 10), near=1, words=2, dimension=1)
    assert m._scale == pytest.approx(0.8 / math.sqrt(math.pi), abs=1e-12)
    assert m._square == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("x", [[0.3, 0.0, 0.4], [0, 0, 0], [0, -1, 0], [30, 40, 0]])
def test_means_of_vectors(x: list[float]) -> None:
    m, n = VR.from_epsilon(2, dimension=3, words=64), 4000
    reports = m.release(np.tile(np.array(x, float), (n, 1)), stream=FixedStream(str(x)))
    est = m.estimate(reports)
    held = np.array(x) / max(1.0, float(np.linalg.norm(x)))
    assert (np.abs(est.mean - held) < 4.5 * est.standard_error).all()
    low, high = est.confidence_interval(0.999999)
    assert ((low < held) & (held < high)).all()
    # The mean square of the error of one report.
    words = np.array([word(m, s, v) for s, v in reports.tolist()]) / m._scale
    square = ((words - held) ** 2).sum(axis=1).mean()
    expected = m.variance() + 1 - float(held @ held)
    if float(np.linalg.norm(held)) > 0.99:
        assert square == pytest.approx(expected, rel=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(8))
def test_means_of_many_reports(place: int) -> None:
    """Fresh words, 30,000 reports: beyond 7 standard errors with 1e-11."""
    angle = 2 * math.pi * place / 8
    x = np.array([math.cos(angle), math.sin(angle)]) * (1, 0.5)[place % 2]
    m = VR.from_epsilon(2, dimension=2, words=64)
    est = m.estimate(m.release(np.tile(x, (30_000, 1))))
    away = (est.mean - x) / est.standard_error
    print(place, away)
    assert (np.abs(away) < 7).all()


def test_hostile_vectors() -> None:
    m = VR.from_epsilon(1, dimension=2, words=4)
    big, tiny = 1.7e308, 5e-324
    rows = np.array([[np.nan, 1], [np.inf, 1], [-np.inf, np.inf], [big, big], [tiny, 0],
                     [0, -0.0], [1e200, -1e200]])  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reports = m.release(rows)
        one = m.release(np.array([[np.nan, 1.0]] * 9), stream=KeyStream(KEY))
    assert (reports["value"] < 4).all()
    assert (one == m.release(np.array([[0, 1.0]] * 9), stream=KeyStream(KEY))).all()


@pytest.mark.parametrize("kind", ["f4", "f8", "i4"])
def test_forms_and_workers(kind: str) -> None:
    m = VR.from_epsilon(1, dimension=3, words=4)
    x = (np.arange(3 * 4200).reshape(-1, 3) % 3).astype(kind)
    reports = m.release(x, stream=KeyStream(KEY))
    assert reports.shape == (4200,)
    assert (m.release(x, stream=KeyStream(KEY), workers=2) == reports).all()
    assert m.release(x[0]).shape == ()
    assert m.release(x.reshape(2, 2100, 3)).shape == (2, 2100)
    assert m.release(x[:2].tolist()).shape == (2,)
    out = np.zeros(4200, m.report_dtype)
    assert m.release(x, out=out) is out
    with pytest.raises(EntropyError):
        m.release(x, out=out, stream=BrokenStream(EntropyError("gone")))
    assert not out["seed"].any()


def test_aggregators_and_json() -> None:
    m = VR.from_epsilon(2, dimension=5, words=8)
    assert fastdp.Mechanism.from_json(m.to_json()) == m
    reports = m.release(np.random.default_rng(1).normal(size=(60, 5)))
    back = m.reports_from_json(m.reports_to_json(reports))
    assert (back == reports).all()
    parts = [m.aggregator().add(part) for part in np.array_split(reports, 4)]
    total = sum(pickle.loads(pickle.dumps(parts[1:])), parts[0]).estimate()
    whole = m.estimate(reports, workers=2)
    assert (total.mean == whole.mean).all()
    wrong = np.append(reports, np.array([(5, 8)], m.report_dtype))
    est = m.estimate(wrong)
    assert est.users == 61
    assert (est.mean == whole.mean).all()
    assert np.isnan(m.aggregator().estimate().mean).all()


def test_wrong_parameters() -> None:
    with pytest.raises(ParameterError, match="p must be above 1/2"):
        VR(0.5, near=2, words=4, dimension=2)
    with pytest.raises(ParameterError, match="near must be in"):
        VR(0.9, near=4, words=4, dimension=2)
    with pytest.raises(ParameterError, match="words must be in"):
        VR.from_epsilon(1, dimension=2, words=1)
    with pytest.raises(ParameterError, match="dimension must be in"):
        VR.from_epsilon(1, dimension=0)
    with pytest.raises(CalibrationError, match="above"):
        VR.from_epsilon(1e-20, dimension=2)
    m = VR.from_epsilon(1, dimension=2, words=4)
    for wrong in (np.zeros(3), np.zeros((2, 3)), np.zeros(())):
        with pytest.raises(ParameterError, match="rows of 2"):
            m.release(wrong)
    for kind in ("c16", "?", "U1"):
        with pytest.raises(DTypeError, match="must be a float64 or float32 array"):
            m.release(np.zeros((1, 2), kind))


def test_what_held_vectors_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything of a vector's size or a row's that the directions went through."""
    x = np.random.default_rng(4).normal(size=(5, 3))
    sides = np.arange(5, dtype=np.uint64) << np.uint64(61)
    made, wiped = [], []
    empty = np.empty

    def kept(*arguments: Any) -> Any:
        made.append(empty(*arguments))
        return made[-1]

    def zero(array: np.ndarray) -> None:
        _core.zero(array)
        wiped.append(array)

    monkeypatch.setattr(vector_response, "_core", SimpleNamespace(zero=zero))
    monkeypatch.setattr(np, "empty", kept)
    vector_response._directions(x, sides)
    monkeypatch.undo()
    assert {id(array) for array in made} <= {id(array) for array in wiped}
    assert sorted(array.shape for array in wiped) == [
        *[(5,)] * 3, (5, 1), *[(5, 3)] * 2,
    ]  # fmt: skip
    assert not any(array.any() for array in wiped)
