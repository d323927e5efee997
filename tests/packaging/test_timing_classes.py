"""What docstrings, SECURITY.md, README and the page on timing say of timing agrees."""

import inspect
import re
from pathlib import Path

import pytest

import fastdp
from fastdp.mechanisms.local._release import ReportsOnce

ROOT = Path(__file__).resolve().parents[2]
MECHANISMS = {
    name: call
    for name in fastdp.__all__
    for method in ("release", "select", "test")
    if inspect.isclass(thing := getattr(fastdp, name))
    and (call := getattr(thing, method, None)) is not None
}


def table(page: str, name: int, classes: int) -> dict[str, set[str]]:
    """Return the classes in whose rows each mechanism stands."""
    found: dict[str, set[str]] = {name: set() for name in MECHANISMS}
    for line in (ROOT / page).read_text().splitlines():
        cells = line.split("|")
        if len(cells) < 4 or not (row := re.findall(r"\bT[012]\b", cells[classes])):
            continue
        for word in re.findall(r"\w+", cells[name]):
            if word in found:
                found[word] |= set(row)
    return found


def test_there_are_mechanisms_of_every_class() -> None:
    classes = {c for call in MECHANISMS.values() for c in of_docstring(call)}
    assert classes == {"T0", "T1", "T2"}


def of_docstring(call: object) -> set[str]:
    return set(re.findall(r"\bT[012]\b", inspect.getdoc(call) or ""))


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_both_tables_have_the_class_of_the_docstring(name: str) -> None:
    call = MECHANISMS[name]
    shared = call is ReportsOnce.release  # its mechanisms state their own classes
    stated = of_docstring(getattr(fastdp, name) if shared else call)
    assert stated
    assert table("SECURITY.md", name=3, classes=1)[name] == stated
    assert table("docs/proofs/timing.md", name=1, classes=2)[name] == stated


@pytest.mark.parametrize("name", ["SparseVector", "Quantiles", "PATEDivergence"])
def test_the_readme_names_what_is_in_a_lower_class(name: str) -> None:
    text = (ROOT / "README.md").read_text()
    assert name in text[text.index("**T1**") : text.index("function by function")]
