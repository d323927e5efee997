"""Every example runs, small, and prints what it compares."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))

#: Sizes that take seconds, and words of the table at the end.
SMALL = {
    "train_two_ways": (["--records", "1000", "--epochs", "2"], ["DP-SGD", "DP-FTRL"]),
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    options, words = SMALL[path.stem]
    picture = tmp_path / "picture.png"
    assert module.main([*options, "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in words)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(path.read_text().splitlines()) < 200


def test_every_example_is_listed():
    assert {path.stem for path in EXAMPLES} == set(SMALL)
