"""Every code block of the pages runs as it stands, or says why it does not."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastdp.cli import main
from tools.docs import blocks, pages

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

ROOT = blocks.ROOT
NAMES = [page.relative_to(ROOT).as_posix() for page in blocks.PAGES]
ALL = {name: blocks.blocks(ROOT / name) for name in NAMES}
RUNNING = [name for name in NAMES if any(block.runs for block in ALL[name])]


@pytest.mark.slow  # .ci/run docs
@pytest.mark.parametrize("name", RUNNING)
def test_the_blocks_run(name: str, ran: Callable[[str], Any]) -> None:
    ran(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_block_is_code_or_data_or_says_why_not(name: str) -> None:
    for block in ALL[name]:
        place = f"{name}:{block.line}"
        code = block.is_python or block.is_shell
        assert code or block.language in blocks.DATA, f"{place}: name the language"
        assert code or not block.reason, f"{place}: data never run"
        if block.reason:
            assert len(block.reason.split()) > 3, f"{place}: say why it does not run"


def test_no_page_is_without_its_blocks() -> None:
    assert sum(len(found) for found in ALL.values()) > 50
    for name in NAMES:
        text = (ROOT / name).read_text("utf-8")
        assert text.count("\n```") + text.startswith("```") == 2 * len(ALL[name]), name


def test_no_exemption_is_idle() -> None:
    text = "\n".join(page.read_text("utf-8") for page in blocks.PAGES)
    for long in blocks.SMALL:
        assert long in text


def test_a_marker_and_a_failure_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    marked = "<!-- not run: it needs a cluster here -->\n```python\n1 / 0\n```\n"
    page.write_text(f"{marked}\n```python\nx = 1\n```\n```sh\nfastdp nothing\n```\n")
    first, second, third = blocks.blocks(page)
    assert (first.runs, second.runs, third.runs) == (False, True, True)
    assert first.reason == "it needs a cluster here"
    assert (first.line, second.line) == (2, 6)
    (tmp_path / "run").mkdir()
    with pytest.raises((RuntimeError, SystemExit)):
        blocks.run(page, tmp_path / "run")
    page.write_text(marked.partition("\n")[2])
    (tmp_path / "again").mkdir()
    with pytest.raises(ZeroDivisionError):
        blocks.run(page, tmp_path / "again")


# ---- the index ---------------------------------------------------------------------


def test_every_page_is_listed() -> None:
    pages.check_index()


def test_a_page_that_is_listed_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# D\n\n## Start\n\n[a](a.md)\n")
    (tmp_path / "docs" / "a.md").write_text("# A\n")
    pages.check_index(tmp_path)
    (tmp_path / "docs" / "b.md").write_text("# B\n")
    with pytest.raises(pages.PageError, match=r"docs/b\.md"):
        pages.check_index(tmp_path)


def test_links_become_those_of_the_site() -> None:
    text = "[a](../proofs/x.md#y) `[b](../c.md)` [d](https://e.f) [g](#h)"
    found = pages.relinked("docs/howto/x.md", text, lambda path: f"s/{path}")
    assert found == text.replace("../proofs/x.md", "../s/docs/proofs/x.md")
    assert pages.place("docs/README.md") == "index"
    assert pages.place("README.md") == "readme"
    assert pages.place("csrc/README.md") == "csrc"
    assert pages.place("docs/proofs/keys.md") == "proofs/keys"


# ---- the documentation's data ------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the documentation's data."""
    assert main(["demo", "--data", str(tmp_path)]) == 0
    return tmp_path


def test_the_tour_without_names_is_what_it_says(folder: Path) -> None:
    listed = {path.name for path in folder.iterdir()}
    assert listed - {"health.parquet"} == {
        *("visits.csv", "visits.parquet", "clinics.csv", "clinics.parquet"),
        "training.toml",
    }
    toml = ALL["docs/account_file.md"][0].text
    written = (folder / "training.toml").read_text("utf-8")
    plain = re.sub(r" +#.*|^# .*\n", "", toml, flags=re.M)
    assert written == plain


def test_the_health_records_are_whole(folder: Path) -> None:
    pytest.importorskip("statsmodels")
    import pyarrow.compute
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(folder / "health.parquet")
    assert table.num_rows == 20_190
    assert set(table["health"].to_pylist()) == {"excellent", "good", "fair", "poor"}
    assert len(set(table["person"].to_pylist())) == 4592
    assert pyarrow.compute.sum(table["visits"]).as_py() == 57_752


def test_data_can_be_asked_for_again_and_overwrite_nothing(
    folder: Path, capsys: Any
) -> None:
    assert main(["demo", "--data", str(folder)]) == 0
    capsys.readouterr()
    (folder / "visits.csv").write_text("another\n")
    assert main(["demo", "--data", str(folder)]) != 0
    assert "already exists" in capsys.readouterr().err
    assert (folder / "visits.csv").read_text() == "another\n"


def test_records_that_are_left_out_are_named(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "statsmodels.datasets", None)
    assert main(["demo", "--data", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "health.parquet" not in said.out
    assert "writing health.parquet (real records) needs statsmodels" in said.err
