"""Claims that become pairs, refused arguments, and the pages and commands of audits."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from fastdp import accounting, audit, cli
from fastdp.audit import (
    _claims,
    _pictures,
)
from fastdp.exceptions import DTypeError, ParameterError
from tests.audit import planted

# ---- claims and refusals -------------------------------------------------------------


def test_events_become_pairs_that_their_accountant_gives() -> None:
    (claim,) = _claims.read(accounting.GDPEvent(1))
    assert isinstance(claim, _claims.PrivacyClaim)
    accountant = accounting.PLDAccountant().compose(accounting.GDPEvent(1))
    for epsilon, delta in zip(claim.epsilons, claim.deltas, strict=True):
        assert accountant.delta(float(epsilon)) <= delta * (1 + 1e-9)
    (rho,) = _claims.read(accounting.ZCDPEvent(rho=0.5))
    assert isinstance(rho, _claims.PrivacyClaim)
    assert len(rho.epsilons) > 5
    assert len(_claims.read([accounting.PureDPEvent(1), (1, 0), planted.LAW])) == 3


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"draws": 10}, ParameterError, r"draws must be at least \d+ to refute"),
    ({"level": 0}, ParameterError, "level"),
    ({"level": 1e-31}, ParameterError, "at least 1e-30"),
    ({"neighbors": "tables"}, ParameterError, "counts, sums"),
    ({"neighbors": 3}, DTypeError, "pair"),
    ({"neighbors": [1, 2]}, DTypeError, "tuples of two"),
    ({"neighbors": []}, ParameterError, "1 to 32"),
    ({"claim": "private"}, DTypeError, "claim must be"),
    ({"claim": (1,)}, ParameterError, r"\(epsilon, delta\)"),
    ({"claim": (-1, 0)}, ParameterError, "epsilon"),
    ({"claim": []}, ParameterError, "at least one"),
    ({"claim": planted.LAW, "neighbors": ("a", "b")}, DTypeError, "numbers"),
    ({"mechanism": 3}, DTypeError, "its release"),
    ({"timing": -1}, ParameterError, "timing"),
    ({"timing": 70}, ParameterError, r"at least \d+ pairs of calls"),
    ({"budget": 5}, DTypeError, "a function and a number"),
    ({"budget": (len, 0)}, ParameterError, "budget"),
]


@pytest.mark.parametrize(("given", "error", "text"), REFUSED)
def test_wrong_arguments_are_refused_before_a_call(
    given: dict[str, Any], error: type[Exception], text: str
) -> None:
    def release(x: Any) -> Any:
        raise AssertionError("called")

    usual = {"mechanism": release, "neighbors": (0, 1), "claim": (1, 0)}
    with pytest.raises(error, match=text):
        audit.run(**{**usual, **given})
    with pytest.raises(DTypeError):
        audit.batched(3)  # type: ignore[arg-type]


# ---- reports and the command ---------------------------------------------------------


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "audited_here.py").write_text(
        "from tests.audit import planted\n"
        "def sound():\n    return planted.sound()['RandomizedResponse']\n"
        "def faulty():\n    return planted.FAULTS['sensitivity_of_two'].make()\n"
        "def timed():\n"
        "    made = planted.FAULTS['laplace_of_floats'].make()\n"
        "    return {**made, 'timing': 500}\n"
        "def wrong():\n    return 3\n"
        "def broken():\n    raise KeyError('7340193')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.rest
@pytest.mark.usefixtures("_here")
def test_the_command_has_three_exit_codes(capfd: pytest.CaptureFixture[str]) -> None:
    draws = "--draws=5000"
    assert cli.main(["audit", "audited_here:sound", draws]) == 0
    assert "found nothing" in capfd.readouterr().out
    assert cli.main(["audit", "audited_here:faulty", draws, "--json"]) == 1
    found = json.loads(capfd.readouterr().out)
    assert found["refuted"]
    assert found["draws"] == 5000
    assert [f["check"] for f in found["findings"]] == [
        *("conduct", "privacy", "precision", "edges", "state", "messages")
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["audited_here"], "MODULE:FACTORY"),
        (["audited_nowhere:x"], "no module"),
        (["audited_here:x"], "has no x"),
        (["audited_here:wrong"], "must return a dict, got int"),
        (["audited_here:broken"], "raised KeyError"),
        (["audited_here:sound", "--draws=5"], "draws must be at least"),
    ],
)
@pytest.mark.usefixtures("_here")
def test_wrong_usage_is_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["audit", *arguments]) == 2
    said = capsys.readouterr().err
    assert text in said
    assert "7340193" not in said


@pytest.mark.rest
def test_the_page_shows_what_it_prints(capfd: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "audit_a_mechanism.md"
    blocks = re.findall(r"```(python|text)\n(.*?)```", page.read_text(), re.S)
    (first, code), (second, shown) = blocks[:2]
    assert (first, second) == ("python", "text")
    exec(code, {})  # noqa: S102 - the page's own
    assert without_numbers(capfd.readouterr().out) == without_numbers(shown)


def without_numbers(text: str) -> str:
    """Return the words: another numpy may draw other numbers, so events differ."""
    text = re.sub(r"the strongest is this: .*?\. It has", "", " ".join(text.split()))
    return re.sub(r"[\d.,e+-]*\d", "#", text)


@pytest.mark.rest
@pytest.mark.usefixtures("_here")
def test_the_page_stands_alone_and_has_its_pictures(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    arguments = ["audit", "audited_here:timed", "--draws=5000", f"--html={place}"]
    assert cli.main(arguments) == 1
    text = place.read_text()
    ElementTree.fromstring(re.sub(r"<!doctype html>|<meta[^>]*>", "", text))
    assert not re.search(r"<script|<link|src=|href=|url\(|https?:", text)
    for words in (
        *("How well inputs can be told apart", "What comes out", "The last digits"),
        *("How long calls take", "is used a second", "no proof", "with probability"),
    ):
        assert words in text, words
    assert text.count("<svg") == 4
    assert "&lt;locals&gt;" in text  # a mechanism's name, escaped


@pytest.mark.rest
def test_a_page_of_words_lists_them() -> None:
    text = audit.run(**planted.FAULTS["error_for_one_input"].make(), draws=2000)
    assert "<td>raises ValueError</td><td>0</td><td>1</td>" in text.to_html()


def test_a_band_is_the_hull_of_its_rules() -> None:
    box = np.array([[0.2, 0.3, 0.4, 0.5], [0.5, 0.6, 0.45, 0.5]])
    low, high = _pictures._hulls(box)
    assert low == [(0.0, 1.0), (0.2, 0.4), (1.0, 0.0)]
    assert high == [(0.0, 1.0), (0.3, 0.5), (1.0, 0.0)]
    ticks = [x for x, _ in _pictures._ticks(-0.3, 1.0)]
    assert ticks == pytest.approx([0.0, 0.5, 1.0])
