"""Every example of README and docs runs as it stands, shell lines included."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fastdp.cli import main

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: Lines that run elsewhere, and where.
ELSEWHERE = {
    # .ci/run takes the README's two commands from the README itself.
    "python3 -m venv": ".ci/run",
    # Minutes on a quiet machine; every row of it is run by the test.
    "fastdp bench": "tests/unit/test_cli_bench.py",
    # It needs a volume of its own for the witness.
    "fastdp ledger init": "tests/ledger",
    "fastdp ledger budget": "tests/ledger",
    # The rivals of the extra "bench"; .ci/run does not install them.
    "pytest bench/": "docs/benchmarks.md says with what it was run",
    "FASTDP_CPU=avx2 pytest bench/": "as above",
}

#: Python that needs a cluster, and what runs it with a stand-in.
STAND_INS = {
    ("local.md", "rdd.mapPartitions"): "tests/unit/test_local_page.py",
    ("local.md", "dask.delayed"): "tests/unit/test_local_page.py",
    ("local.md", "beam."): "tests/unit/test_local_page.py",
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return language and text of each fenced block of a page, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    return [(language, text) for language, text in found]


def shell_lines(text: str) -> list[str]:
    """Return the commands of a block, continued lines joined, comments left out."""
    joined = text.replace("\\\n", " ")
    return [
        line.split("  #")[0].strip() for line in joined.splitlines() if line.strip()
    ]


def is_shell(language: str, text: str) -> bool:
    return language in ("sh", "bash") or (
        language == "" and re.match(r"\S+ ", text) is not None
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the documentation's data, where the examples run."""
    assert main(["demo", "--data", str(tmp_path)]) == 0
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_(language: str) -> list[Any]:
    return [
        pytest.param(page, id=page.name)
        for page in PAGES
        if any(
            kind == language or (language == "sh" and is_shell(kind, text))
            for kind, text in blocks(page)
        )
    ]


@pytest.mark.filterwarnings("ignore::fastdp.exceptions.InsecureStreamWarning")
@pytest.mark.parametrize("page", with_("python"))
def test_python(page: Path, folder: Path) -> None:
    names: dict[str, Any] = {}
    ran = 0
    for language, text in blocks(page):
        if language != "python":
            continue
        if any(page.name == name and word in text for name, word in STAND_INS):
            continue
        exec(compile(text, page.name, "exec"), names)  # noqa: S102 - the page's own
        ran += 1
    assert ran


@pytest.mark.parametrize("page", with_("sh"))
def test_shell(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for language, text in blocks(page):
        if not is_shell(language, text):
            continue
        for line in shell_lines(text):
            if line.startswith(tuple(ELSEWHERE)) or line == "fastdp demo --data .":
                continue  # the fixture did the latter
            program, *arguments = shlex.split(line)
            assert program == "fastdp", line
            if {"<", ">", "|"} & set(arguments):
                run_by_shell(line, folder)
            else:
                assert main(arguments) == 0, capsys.readouterr().err


def run_by_shell(line: str, folder: Path) -> None:
    """Run a line that redirects as it stands; `fastdp` is this interpreter's."""
    command = folder / "bin" / "fastdp"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fastdp.cli "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    where = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    subprocess.run(["sh", "-c", line], cwd=folder, env=where, check=True)


def test_no_exemption_is_idle() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    for start in ELSEWHERE:
        assert re.search(rf"^{re.escape(start)}", text, re.M), start
    for name, word in STAND_INS:
        assert word in (ROOT / "docs" / name).read_text("utf-8")


def test_the_tour_without_names_is_what_it_says(folder: Path) -> None:
    listed = {path.name for path in folder.iterdir()}
    assert listed == {"visits.csv", "visits.parquet", "training.toml"}
    toml = blocks(ROOT / "docs" / "account_file.md")[0][1]
    written = (folder / "training.toml").read_text("utf-8")
    plain = re.sub(r" +#.*|^# .*\n", "", toml, flags=re.M)
    assert written == plain


def test_data_is_not_overwritten(folder: Path, capsys: Any) -> None:
    assert main(["demo", "--data", str(folder)]) != 0
    assert "there already" in capsys.readouterr().err
