"""``tools.claims``: the page is what the results give, and a slowdown fails."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fastdp.cli import _timings, bench
from tools import claims

SETTING = {"cpu": "avx2", "machine": "x86_64", "cipher": "aes", "processor": "any"}
KEY = ("kernels", "a line", 2**15)


def test_the_page_is_written_from_the_results() -> None:
    text = claims.PAGE.read_text()
    assert claims.page(text) == text
    for level in claims.LEVELS:
        assert f"### Level {level}" in text


def test_results_hold_every_line_of_the_bench() -> None:
    for level in claims.LEVELS:
        result = claims.results(level)[2**15]
        assert result["setting"]["processor"]
        assert result["setting"]["compiler"]
        for table, cases in bench.TABLES.items():
            rows = {row["name"] for row in result[table]}
            # The names of selections say how many candidates there are.
            if table != "selection":
                names = {case.name for case in cases(1000)}
                assert rows == names, "new lines: python -m tools.claims write"


def timed(monkeypatch: pytest.MonkeyPatch, *passes: float) -> list[int]:
    """Let numpy take 10, ours what each pass says; return the passes' rounds."""
    rounds: list[int] = []

    def timings(calls: object, repetitions: int) -> np.ndarray:
        ours = passes[len(rounds)]
        rounds.append(repetitions)
        return np.array([[ours] * repetitions, [10.0] * repetitions])

    def nothing() -> None:
        pass

    case = _timings.Case("a line", 1, nothing, nothing)
    monkeypatch.setattr(_timings, "timings", timings)
    monkeypatch.setattr(bench, "TABLES", {"kernels": lambda size: iter([case])})
    return rounds


def test_a_slowdown_fails_every_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = timed(monkeypatch, 2.0, 2.0, 2.0)  # the claim is of half the time
    assert claims.shortfalls({KEY: 10.0}) == ["a line, n = 32,768: 5.00, 50% of 10.00"]
    assert rounds == [30, 90, 180]
    assert capsys.readouterr().out.count("below") == 3


def test_a_line_passes_in_any_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = timed(monkeypatch, 9.0, 1.6)
    assert claims.shortfalls({KEY: 10.0}) == []
    assert rounds == [30, 90]


def test_a_claim_of_no_line_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    timed(monkeypatch, 1.0)
    other = ("kernels", "gone", 2**15)
    (words,) = claims.shortfalls({KEY: 10.0, other: 1.0})
    assert words == "gone, n = 32,768: claimed, and there is no such line"


def test_a_claim_is_the_least_of_the_processors() -> None:
    def result(processor: str, **ratios: float) -> claims.Result:
        rows = [
            {"name": name, "ns_least": 1.0, "numpy_ns_least": value}
            for name, value in ratios.items()
        ]
        setting = {**SETTING, "processor": processor}
        return {"setting": setting, "kernels": rows, "local": [], "selection": []}

    def shown(made: claims.Result) -> tuple[str, list[float]]:
        ratios = [claims.ratio(row) for row in made["kernels"]]
        return made["setting"]["processor"], ratios

    old, new = result("A", x=5.0, gone=1.0), result("B", x=4.0, y=7.0)
    both = claims.least_of(old, new)
    assert shown(both) == ("A; B", [4.0, 7.0])
    assert shown(claims.least_of(both, result("B", x=6.0, y=2.0))) == (
        "A; B",
        [4.0, 2.0],
    )
    assert shown(claims.least_of(old, result("A", x=9.0))) == ("A", [9.0])


def test_which_claims_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(claims, "RESULTS", tmp_path)
    row = {"name": "a line", "ns_least": 1.0, "numpy_ns_least": 8.0}
    for level, cipher in (("avx512", "aes"), ("avx2", "aes"), ("portable", "chacha20")):
        setting = {"n": 2**15, "machine": "x86_64", "cipher": cipher}
        tables = {"kernels": [row], "local": [], "selection": []}
        result = {"setting": setting, **tables}
        (tmp_path / f"{level}-32768.json").write_text(json.dumps(result))

    def level_for(**setting: str) -> str:
        found = claims.claims({**SETTING, **setting})
        if isinstance(found, str):
            return found
        assert found[1] == {KEY: 8.0}
        return found[0]

    assert level_for(cpu="avx2") == "avx2"
    assert level_for(cpu="avx512vbmi") == "avx512"
    assert level_for(cpu="avx2", cipher="chacha20") == "portable"
    skipped = level_for(cpu="portable", machine="aarch64", cipher="chacha20")
    assert skipped == "no claim for aarch64, portable, chacha20"


def test_the_check_says_what_it_did(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "machine", lambda: SETTING)
    monkeypatch.setattr(claims, "claims", lambda _: ("avx2", {KEY: 10.0}))
    # The page is of the real tables.
    monkeypatch.setattr(claims, "page", lambda text: text)
    for known, share in (("other", "40%"), ("other; any", "60%")):
        result = {"setting": {"processor": known}}
        monkeypatch.setattr(claims, "results", lambda _, r=result: {2**15: r})
        timed(monkeypatch, 1.0)
        assert claims.main(["check"]) == 0
        printed = capsys.readouterr().out
        assert f"1 of 1 ratios reach {share} of their claims" in printed
    timed(monkeypatch, 9.0, 9.0, 9.0)
    assert claims.main(["check"]) == 1
    assert "FAILED a line" in capsys.readouterr().out
    monkeypatch.setattr(claims, "claims", lambda _: "no claim for this")
    assert claims.main(["check"]) == 0
    assert "skipped, no claim for this" in capsys.readouterr().out
    monkeypatch.setattr(claims, "page", lambda text: "other")
    assert claims.main(["check"]) == 1
