"""RAPPOR: parameters, memos, reports and what is decoded of them."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import random
from fastdp.accounting import event_epsilon
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.testing import FixedStream
from tests.reference import domains

M = fastdp.Rappor(0.5, p=0.5, q=0.75)
SECRET = bytes(range(16))
KNOWN = "0c12400b51100c0b2203150c200e00b0"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"f": 0}, "f must be"),
        ({"f": 1}, "f must be"),
        ({"f": 1 - Fraction(1, 2**70)}, "f must be below 1 when rounded up"),
        ({"p": 0.75}, "p must be below q"),
        ({"p": 0}, "p must be"),
        ({"q": 1}, "q must be"),
        ({"bits": 100}, "bits must be a power of two"),
        ({"bits": 4}, "bits must be"),
        ({"hashes": 0}, "hashes must be"),
        ({"cohorts": 3}, "cohorts must be a power of two"),
        ({"bits": 2**15, "cohorts": 2**12}, "bits times cohorts"),
        ({"key": "1"}, "key must be"),
    ],
)
def test_bad_parameters(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        fastdp.Rappor(**{"f": 0.5, "p": 0.5, "q": 0.75, **given})


def test_the_published_budgets() -> None:
    assert M.epsilon() == pytest.approx(4.394449, abs=1e-6)
    assert event_epsilon(M.report_event()) == pytest.approx(1.0743, abs=1e-4)
    third = fastdp.Rappor(Fraction(1, 3), p=Fraction(1, 3), q=Fraction(2, 3))
    assert third.f > Fraction(1, 3)
    assert third.p > Fraction(1, 3)
    assert third.q < Fraction(2, 3)


def test_memos_are_filters_with_turned_bits() -> None:
    key = bytes(range(16))
    m = fastdp.Rappor(0.5, p=0.5, q=0.75, bits=32, hashes=3, cohorts=4, key=key.hex())
    texts, cohorts = [f"v{n}" for n in range(64)], np.arange(64) % 4
    memos = m.permanent(texts, cohort=cohorts, stream=FixedStream("memo"))
    rows = np.zeros((64, 32), np.uint8)
    for row, text, cohort in zip(rows, texts, cohorts.tolist(), strict=True):
        digest = domains.siphash(key, text.encode())
        for j in range(3):
            row[domains.row_bucket(key, 3 * cohort + j, digest, 5)] = 1
    flips = random.bernoulli(
        0.25, size=64 * 32, packed=True, stream=FixedStream("memo")
    ).reshape(64, 4)
    assert (memos["bits"] == np.packbits(rows, axis=1) ^ flips).all()
    assert (memos["cohort"] == cohorts).all()


def test_a_memo_follows_from_the_secret_the_cohort_and_the_value() -> None:
    def memo(value: Any = "red", cohort: int = 7, secret: bytes = SECRET) -> bytes:
        found = M.permanent(value, cohort=cohort, secret=secret)
        assert isinstance(found, np.void)
        return bytes(found["bits"].tobytes())

    same = memo()
    # Fixed for good: a client of another version must find the memo that it had.
    assert same.hex() == KNOWN
    assert memo(b"red") == same
    others = [memo("blue"), memo(cohort=8), memo(secret=SECRET + b"x")]
    assert len({same, *others}) == 4
    for given, error, message in (
        ({"secret": b"short"}, ParameterError, "at least 16 bytes"),
        ({"secret": "text"}, DTypeError, "secret must be bytes"),
        ({"cohort": None}, ParameterError, "one value and its cohort"),
        ({"cohort": 64}, ParameterError, "cohort must be"),
        ({"stream": FixedStream("a")}, ParameterError, "stream must be left out"),
    ):
        with pytest.raises(error, match=message):
            M.permanent("red", **{"cohort": 7, "secret": SECRET, **given})
    with pytest.raises(ParameterError, match="one value"):
        M.permanent(["red"], cohort=7, secret=SECRET)


def test_cohorts() -> None:
    drawn = M.permanent(["a"] * 10_000)["cohort"]
    assert np.bincount(drawn, minlength=64).min() > 60
    for bad, error in (
        ([0.5], DTypeError),
        ([64], ParameterError),
        ([0, 1], ParameterError),
    ):
        with pytest.raises(error, match="cohort"):
            M.permanent(["a"], cohort=bad)


def test_reports_have_the_stated_shares_of_ones() -> None:
    memo = M.permanent("red", cohort=3, stream=FixedStream("shares"))
    reports = M.report(np.repeat(memo, 20_000), stream=FixedStream("reports"))
    ones = np.unpackbits(reports["bits"], axis=1).mean(axis=0)
    wanted = np.where(np.unpackbits(memo["bits"]), 0.75, 0.5)
    assert ones == pytest.approx(wanted, abs=0.02)
    assert (reports["cohort"] == 3).all()
    with pytest.raises(DTypeError, match="reports must be an array of dtype"):
        M.report(memo["bits"])


def test_counts_merge_and_decode() -> None:
    held = ["a"] * 20_000 + ["b"] * 10_000 + [f"x{n}" for n in range(2000)]
    reports = M.report(
        M.permanent(held, stream=FixedStream("m")), stream=FixedStream("r")
    )
    parts = [M.aggregator().add(part) for part in np.array_split(reports, 3)]
    merged = pickle.loads(pickle.dumps(parts[2])) + parts[0] + parts[1]
    assert merged == M.aggregator().add(reports, workers=2)
    candidates = ["none", "a", "other", "b", *(f"y{n}" for n in range(50))]
    found = merged.estimate().decode(candidates)
    assert found.names == ("a", "b")
    truth = np.array([20_000, 10_000])
    assert (np.abs(found.counts - truth) < 4 * found.standard_errors).all()
    assert found.users == 32_000
    assert M.estimate(reports[:0]).decode(["a"]).names == ()
    with pytest.raises(DTypeError, match="single value"):
        merged.estimate().decode("a")
    again = M.reports_from_json(M.reports_to_json(reports[:5]))
    assert (again == reports[:5]).all()


def test_reports_of_no_cohort_are_users() -> None:
    reports = M.report(M.permanent(["a"] * 10))
    bad = reports.copy()
    bad["cohort"] = 64
    counts = M.aggregator().add(reports).add(bad).estimate()
    assert counts.users == 20
    assert counts.cohort_users.sum() == 10


@pytest.mark.slow
def test_the_published_simulation() -> None:
    """100 strings, an exponential law, 1e6 users.

    A string above 3 % lies 8 standard errors above the test's threshold, and one that
    nobody holds passes the stricter test with probability 1e-9.
    """
    shares = np.exp(-np.arange(100) / 15)
    shares /= shares.sum()
    names = np.array([f"v{n}" for n in range(100)])
    held = names[np.random.default_rng().choice(100, 10**6, p=shares)]
    counts = M.estimate(M.report(M.permanent(held)))
    candidates = [*names, *(f"w{n}" for n in range(100))]
    assert set(names[shares > 0.03]) <= set(counts.decode(candidates).names)
    sure = counts.decode(candidates, level=1e-9).names
    assert not any(name[0] == "w" for name in sure)
