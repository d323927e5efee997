"""docs/coverage.md: what it names is here, and every mechanism and example is named."""

import importlib
import re
from pathlib import Path

import pytest

import fastdp

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "coverage.md").read_text("utf-8")
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
NAMES = sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row[-1])})


def found(name):
    """Whether a name is an object of the package, or a file of the repository."""
    if name.endswith(".py"):
        return any((ROOT / folder / name).is_file() for folder in ("examples", "."))
    return any(resolved(f"{place}.{name}") for place in ("fastdp", "fastdp.accounting"))


def resolved(path):
    """Whether a dotted path leads to an object."""
    parts = path.split(".")
    for k in range(len(parts) - 1, 0, -1):
        try:
            here = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            if not hasattr(here, part):
                return False
            here = getattr(here, part)
        return True
    return False


@pytest.mark.parametrize("name", [n for n in NAMES if n != "group"])
def test_what_is_named_is_here(name):
    assert found(name)


def test_what_is_not_here_is_not_found():
    assert not found("Nothing")
    assert not found("readings.nothing")
    assert not found("nothing.py")


def test_rows_have_a_place_or_a_reason():
    for row in ROWS:
        assert len(row) == 3, row
        if set(row[-1]) <= {"-", "|"} or row[-1] == "here |":
            continue
        assert re.search(r"`[^`]+`|\]\(|not built: |not offered: ", row[-1]), row


def test_mechanisms_and_examples_are_all_named():
    helpers = {"Mechanism"}
    public = {n for n in fastdp.mechanisms.__all__ if n not in helpers}
    assert public <= set(NAMES)
    scripts = {path.name for path in (ROOT / "examples").glob("[!_]*.py")}
    assert scripts <= set(NAMES)
