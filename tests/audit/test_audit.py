"""Audits find planted faults, leave sound mechanisms alone, and say why.

The level is 1e-9; bytes are fixed, so that each outcome is the same in every run.
"""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pytest

from fastdp import audit
from fastdp.audit import (
    _bounds,
    _claims,
    _events,
    _generators,
    _messages,
    _neighbors,
    _outcomes,
    _privacy,
    _run,
    _state,
    _time,
    _worker,
)
from tests.audit import planted, planted_calls

SOUND = {**planted.sound(), **planted_calls.sound()}


@pytest.mark.rest
@pytest.mark.parametrize("name", planted.FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    make, check, draws = planted.FAULTS[name]
    report = audit.run(**make(), draws=draws)
    found = report.finding(check)
    print(f"{name}: {report.seconds:.2f} s, {found.evidence}")
    assert report.refuted
    assert found.status in ("refuted", "fault"), str(report)
    assert len(report.findings) >= 3


@pytest.mark.rest
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_mechanism_is_not_reported(name: str) -> None:
    many = isinstance(SOUND[name]["mechanism"], audit.Batched)
    report = audit.run(**SOUND[name], draws=20_000 if many else 3000)
    print(f"{name}: {report.seconds:.2f} s")
    assert not report.refuted, str(report)
    done = [f for f in report.findings if f.status != "not run"]
    assert all(f.status == "nothing found" for f in done), str(report)
    # inputs of other lengths cannot be moved by one amount
    assert {f.check for f in report.findings} - {f.check for f in done} <= {"edges"}
    total = sum(f.false_alarm for f in report.findings)
    assert 0 < total <= report.level


def test_there_are_faults_of_every_check() -> None:
    checks = {fault.check for fault in planted.FAULTS.values()}
    usual = {"privacy", "precision", "law", "state", "conduct"}
    assert checks == usual | {"edges", "messages", "time", "budget"}
    assert len(planted.FAULTS) >= 70
    assert len(SOUND) >= 20


#: What the conduct of a planted fault is called.
CONDUCT = {
    "error_for_one_input": "raises ValueError in 2000 of 4000 draws",
    "error_now_and_then": r"raises OverflowError in \d+ of 4000 draws",
    "hangs": "hangs: no answer in 2 seconds",
    "ends_the_process": r"ends its process \(exit code 3\)",
    "prints": "prints to standard output or error",
    "changes_its_input": "changes its input",
    "another_type": "returns different types or shapes: number of type int, number of ",
    "another_shape": r"returns different types or shapes: .*shape \(\d,\), .*shape",
    "another_shape_of_a_batch": r"returns shape \(\d+,\) for a batch of \d+ inputs",
    "error_in_a_batch": "raises OverflowError for a batch",
}


@pytest.mark.parametrize("name", CONDUCT)
def test_conduct_names_what_is_wrong(name: str) -> None:
    make, _, draws = planted.FAULTS[name]
    given = make()
    pairs, claims = (
        _neighbors.pairs_of(given["neighbors"]),
        _claims.read(given["claim"]),
    )
    survey = _run._Survey(given["mechanism"], pairs, claims, [])  # type: ignore[arg-type]
    survey.run(draws)
    found = survey.conduct()
    assert found.status == "fault"
    assert re.search(CONDUCT[name], found.evidence)
    stops = "hangs", "ends", "batch"
    privacy = survey.finding("privacy", 1e-10)
    assert (privacy.status == "not run") == any(word in name for word in stops)


# ---- bounds ------------------------------------------------------------------------


def test_an_e_value_has_a_mean_of_at_most_one() -> None:
    """The sum over all tables of 6 draws in two groups, with exact probabilities."""
    p = np.array([0.1, 0.3, 0.6])
    tables = [t for t in itertools.product(range(5), repeat=3) if sum(t) in (2, 4)]

    def chance(t: tuple[int, ...]) -> float:
        ways = math.factorial(sum(t)) / math.prod(map(math.factorial, t))
        return float(ways * np.prod(p ** np.array(t)))

    mean = sum(
        chance(a) * chance(b) * math.exp(_bounds.log_evidence(np.array([a, b]), p))
        for a in tables
        for b in tables
        if sum(a) == 2 and sum(b) == 4
    )
    assert 1 - 1e-4 < mean < 1
    impossible = np.array([[1, 0]]), np.array([0.0, 1.0])
    assert _bounds.log_evidence(*impossible) == math.inf


def test_an_e_value_sees_what_chi_square_sees() -> None:
    n, p = 10**6, np.full(100, 0.01)
    wrong = p * (1 + 0.02 * (-1.0) ** np.arange(100))
    counts = np.round(n * wrong).astype(np.int64)[None]
    assert _bounds.log_evidence(counts, p) > math.log(1e12)
    exact = np.round(n * p).astype(np.int64)[None]
    assert _bounds.log_evidence(exact, p) < 0


@pytest.mark.parametrize(("hits", "runs"), [(0, 50), (3, 50), (50, 50)])
def test_rates_are_those_of_exact_sums(hits: int, runs: int) -> None:
    low, high = (float(b[0]) for b in _bounds.rates(np.array([hits]), runs, 1e-6))

    def at_least(k: int, rate: Fraction) -> Fraction:
        terms = range(k, runs + 1)
        return sum(
            (math.comb(runs, i) * rate**i * (1 - rate) ** (runs - i) for i in terms),
            Fraction(0),
        )

    if hits:
        assert 0.99e-6 < at_least(hits, Fraction(low)) <= 1e-6
    if hits < runs:
        assert 0.99e-6 < 1 - at_least(hits + 1, Fraction(high)) <= 1e-6
    assert (low > 0) == (hits > 0)


def test_a_p_value_is_at_least_the_exact_one() -> None:
    exact = 2 * sum(
        math.comb(40, k) * 0.25**k * 0.75 ** (40 - k) for k in range(25, 41)
    )
    assert exact < _bounds.binomial_p(25, 40, 0.25) < exact * (1 + 1e-6)
    assert _bounds.binomial_p(10, 40, 0.25) == 1
    assert _bounds.binomial_p(1, 40, 0.0) == 0


def test_draws_that_are_needed_break_the_claim_and_fewer_do_not() -> None:
    claim = _claims.read((1, 0))[0]
    assert isinstance(claim, _claims.PrivacyClaim)
    least = _bounds.needed(claim.breaks, 1e-9)
    for runs, enough in ((least, True), (least * 49 // 50 - 1, False)):
        low, high = _bounds.rates(np.array([runs, 0]), runs, 1e-9)
        assert claim.breaks(float(low[0]), float(high[1])) == enough


# ---- codings -----------------------------------------------------------------------


def test_the_lowest_bit_of_a_float_is_exact() -> None:
    x = np.array([1.0, 3.0, 0.75, -40.0, 5e-324, 2.0**1023, 1 + 2.0**-52, 0.0, np.inf])
    expected = [0, 0, -2, 3, -1074, 1023, -52, 2000, 2001]
    assert _events.lowest_bits(x).tolist() == expected


def test_atoms_have_cells_of_their_own() -> None:
    rng = np.random.default_rng(1)
    values = np.where(rng.random(10_000) < 0.1, 1.0, rng.normal(size=10_000))
    outcomes = _outcomes.of_array(values)
    coding = _events.by_number("output", lambda v: v[:, 0], [outcomes])
    codes = coding.code(_outcomes.of_array(np.array([1.0, np.nextafter(1, 0), 1.1])))
    assert len(set(codes.tolist())) == 3
    chosen = np.zeros(coding.size, bool)
    chosen[codes[0]] = True
    assert coding.say(chosen) == "the output is (> 1 and <= 1)"


def test_outcomes_of_all_kinds_are_told_apart() -> None:
    outputs = [1, 2.5, "yes", None, [1, 2], np.float32(3), 2**70, [1, [2]], math.nan]
    found = _outcomes.of_calls([*outputs, None], [""] * 9 + ["raises ValueError"])
    assert len(set(found.kinds.tolist())) == 9  # both ints are of one kind
    assert found.labels[-1] == "nan"
    assert found.values[[0, 4]].tolist() == [[1, 0], [1, 2]]
    assert found.values[6, 0] == 2**63 - 1
    assert found.numbered().sum() == 5
    both = _outcomes.joined([found, _outcomes.of_array(np.array([7, 8]))])
    assert len(both) == 12
    assert both.labels[both.kinds[0]] == "number of type int"


# ---- what the proof rests on --------------------------------------------------------


def test_an_outcome_is_read_by_itself() -> None:
    """Codes that depended on other outcomes would not be independent of them."""
    outputs = [[1, 2], [3], [4, 5, 6], "yes", 7, *(f"text {i}" for i in range(2000))]
    chunk = _outcomes.of_calls(outputs, [""] * len(outputs))
    for i, y in enumerate(outputs):
        alone = _outcomes.of_calls([y], [""])
        assert alone.labels[alone.kinds[0]] == chunk.labels[chunk.kinds[i]]
        row = _outcomes.fitted(alone.values, 3)[0]
        assert row.tolist() == _outcomes.fitted(chunk.values, 3)[i].tolist()
    pair, claims = _neighbors.Pair("", 0, 1), _claims.read((1, 0))
    for check in ("privacy", "precision"):
        halves = [_outcomes.of_calls(outputs[:3], [""] * 3), chunk]
        one, other = (_privacy.Events(check, pair, claims, halves) for _ in range(2))  # type: ignore[arg-type]
        one.add(0, chunk)
        for y in outputs:
            other.add(0, _outcomes.of_calls([y], [""]))
        for a, b in zip(one._counts, other._counts, strict=True):
            assert a.tolist() == b.tolist()


def test_a_bound_of_epsilon_is_rounded_down() -> None:
    """The rounding of 1 - rate is not small beside rates that nearly cancel."""
    for low, high, delta in ((0.3 + 2e-15, 1e-5, 0.3), (0.9, 1e-14, 0.0)):
        room = Fraction(2) ** -51
        exact = (Fraction(low) - room - Fraction(delta)) / (Fraction(high) + room)
        assert _privacy.epsilon_of(low, high, delta) <= math.log(exact)
    assert _privacy.epsilon_of(0.3, 0.1, 0.3) == -math.inf


def test_noise_that_rounding_makes_equal_is_no_repeat() -> None:
    """Next to 1e17 a small output minus the input has few values."""
    rng = np.random.default_rng()

    def clipped(x: np.ndarray) -> np.ndarray:
        return np.clip(x, 0, 1) + rng.normal(size=x.shape)

    pair = 1e17, np.nextafter(1e17, 1)
    runs = _worker.Subject(audit.batched(clipped), pair)
    noise = _state.of_both(runs)
    assert noise is not None
    assert max(_state.pairs(runs)) > 100
    found = _state.check(audit.batched(clipped), pair, 1e-9)
    assert "the second" not in found.evidence


def test_outputs_of_a_pair_of_calls_can_be_exchanged() -> None:
    """What is compared does not depend on which call of a pair had which output."""
    rng = np.random.default_rng(3)
    order = rng.integers(0, 2, 7)
    which = np.stack([order, 1 - order], axis=1).reshape(-1)
    spent, numbers = rng.integers(0, 99, 14), rng.normal(size=14)

    def compared() -> list[str]:
        texts = (text for _, text in _time._tests((which, spent, numbers)))
        return [re.sub(r"in \d+ of", "in some of", text) for text in texts]

    expected = compared()
    for at, pair in itertools.product((0, 1), range(3)):
        i, j = np.flatnonzero(which == at)[2 * pair : 2 * pair + 2]
        numbers[[i, j]] = numbers[[j, i]]
        assert compared() == expected


def test_a_text_that_shows_an_answer_shows_no_value() -> None:
    known, answer = "5123456", 5123456790
    for text in ("5123456789", "x = 5_123_456_789.5", "5.123456e9 is too large"):
        assert _messages.shows(text, known, None), text
    assert _messages.shows("5123456789", known, answer)  # noise changed the last digits
    assert not _messages.shows(f"the answer is {answer}", known, answer)
    assert not _messages.shows(f"{answer / 3:.6e}", "1707818", answer / 3)
    assert not _messages.shows("5123456790.25", known, np.array([5123456790.25]))
    assert not _messages.shows("x" * 5000 + "5123456" + "x" * 5000, known, None)
    # 2^11 characters, 18 kinds of input, 5 places, 13 of 48 calls, 9e6 beginnings
    ways = math.comb(_messages._CALLS, _messages._SHOWN) * len(_messages.INPUTS) * 5
    chance = Fraction(_messages._LONGEST, 9 * 10**6) ** _messages._SHOWN
    assert ways * chance <= _messages.FALSE_ALARM < 1e-30 / 7


# ---- edges and time ------------------------------------------------------------------


def test_edges_are_no_further_apart_than_the_inputs() -> None:
    top = 2**63 - 1
    given = {
        "ints": (5, 7),
        "int8": (np.array([1, 2], np.int8), np.array([1, 4], np.int8)),
        "floats": (np.array([0.0, 0.5]), np.array([1.0, 0.5])),
    }
    found = {
        name: _neighbors.edges_of(_neighbors.Pair("", *pair))
        for name, pair in given.items()
    }
    assert [(p.first, p.second) for p in found["ints"]][:2] == [
        *((top - 2, top), (-top - 1, -top + 1))
    ]
    assert [p.first.dtype for p in found["int8"]] == [np.int8] * 2
    assert found["int8"][0].second.tolist() == [124, 127]
    for name, edges in found.items():
        x, y = (np.asarray(z).astype(object) for z in given[name])
        for edge in edges:
            a, b = (np.asarray(z).astype(object) for z in (edge.first, edge.second))
            assert np.all(abs(b - a) <= abs(y - x)), edge
    assert math.copysign(1, found["floats"][-2].second[0]) == -1
    assert _neighbors.edges_of(_neighbors.Pair("", np.zeros(1), np.zeros(2))) == []
    wide = np.array([-(2**62) - 2**40]), np.array([2**62])
    assert len(_neighbors.edges_of(_neighbors.Pair("", *wide))) == 3  # others overflow
    for kind in (np.float16, np.float32):
        edges = _neighbors.edges_of(_neighbors.Pair("", kind(0), kind(1)))
        assert {type(z) for e in edges for z in (e.first, e.second)} == {kind}
        assert all(abs(float(e.second) - float(e.first)) <= 1 for e in edges)
    fifths = _neighbors.edges_of(_neighbors.Pair("", 0.2, 1.2))
    # 1.2 - 0.2 is less than 1, and rounded to 1
    assert not [e for e in fifths if "larger" in e.text]


def calls_of(cost: float, seed: int) -> _time.Calls:
    """Return calls of two inputs; the second takes `cost` ns longer."""
    rng = np.random.default_rng(seed)
    order = rng.integers(0, 2, 4000)
    which = np.stack([order, 1 - order], axis=1).reshape(-1)
    drift = 1000 + 500 * np.sin(np.arange(8000) / 300)  # a machine that is not steady
    spent = drift + rng.exponential(50, 8000) + cost * which
    return which, spent.astype(np.int64), rng.normal(size=8000)


def test_given_times_tell_the_input_or_nothing() -> None:
    found = [_time.finding(calls_of(cost, 1), 1e-9) for cost in (0.0, 30.0)]
    assert [f.status for f in found] == ["nothing found", "fault"]
    assert "the second input takes longer" in found[1].evidence
    assert [len(x) for x in found[1].data["times"]] == [101, 101]


def test_welch_is_that_of_scipy_if_nothing_is_cropped() -> None:
    from scipy import stats

    a, b = np.arange(50.0), np.arange(50.0) * 1.5 + 4
    t = stats.ttest_ind(b, a, equal_var=False).statistic
    assert abs(_time.welch(a, b)) >= abs(t) - 1e-12
    assert _time.welch(a, a) == 0
    outlier = np.append(a, 1e6)
    assert abs(_time.welch(outlier, np.append(b, 0.0))) > 2  # cropped, else below 1.1


def test_a_mersenne_twister_is_predicted_and_others_are_not() -> None:
    words = np.random.RandomState(5).randint(0, 2**32, 700, dtype=np.uint32)
    expected, found = _generators.predicted(words)
    assert len(found) == 76
    assert (expected == found).all()
    other = np.random.default_rng(5).integers(0, 2**32, 700, dtype=np.uint32)
    assert not np.equal(*_generators.predicted(other)).any()
