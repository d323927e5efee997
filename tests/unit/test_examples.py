"""Every example runs, small, and finds the figures that it must find."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(ROOT.glob("[!_]*.py"))


@pytest.fixture
def load(monkeypatch):
    """A function that imports a script as it is imported when it is run."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "_common", raising=False)

    def loaded(path):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        return module

    yield loaded
    sys.modules.pop("_common", None)


@pytest.mark.slow  # .ci/run docs
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, load, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.png"
    status = load(path).main(["--small", "--plot", str(picture)])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "why they differ" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_say_what_they_are(path, load):
    doc = load(path).__doc__
    assert f"python examples/{path.name} [" in doc
    assert re.search(r"\b(19|20)\d\d\b", doc), "a source with its year"
    assert len(path.read_text("utf-8").splitlines()) < 200


def test_a_wrong_figure_is_found(load, capsys):
    row = load(ROOT / "_common.py").Row
    tell = load(ROOT / "_common.py").tell
    assert tell([row("a", "0.067", 0.0668), row("b", "-", 2.0, between=(1, 2))]) == 0
    assert tell([row("a", "0.067", 0.0668), row("b", "-", 2.1, between=(1, 2))]) == 1
    assert "not as it must be: b: 2.1" in capsys.readouterr().out
    assert not row("a", "0.067", 0.0662).holds()
    assert not row("a", "265", 266.0).holds()
    assert not row("nan", "-", float("nan"), between=(1, 2)).holds()
    with pytest.raises(ValueError, match="-"):
        row("nothing to compare with", "-", 1.0).holds()
