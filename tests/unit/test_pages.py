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

import fastdp
from fastdp.cli import main

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: Lines that run elsewhere, and where.
ELSEWHERE = {
    # .ci/run takes the README's two commands from the README itself.
    "python3 -m venv": ".ci/run",
}

#: What a line says, and what it becomes here: minutes and other volumes are left out.
SMALL = {
    "fastdp bench": "fastdp bench --n 500",
    "/other/volume/": "",
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
            for long, short in SMALL.items():
                line = line.replace(long, short)
            program, *arguments = shlex.split(line)
            if " bench/" in line:
                run_benchmarks(line, folder)
                continue
            if line.startswith("python examples/"):
                run_example(arguments, folder)
                continue
            assert program == "fastdp", line
            if {"<", ">", "|"} & set(arguments):
                run_by_shell(line, folder)
            else:
                assert main(arguments) == 0, capsys.readouterr().err


def run_by_shell(line: str, folder: Path, **programs: str) -> None:
    """Run a line as it stands; `fastdp` and `programs` are this interpreter's."""
    shims = folder / "bin"
    shims.mkdir(exist_ok=True)
    for name, command in {"fastdp": '-m fastdp.cli "$@"', **programs}.items():
        shim = shims / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command}\n')
        shim.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    path = f"{shims}{os.pathsep}{kept['PATH']}"
    where = {**kept, "PATH": path, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=where, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


def run_example(arguments: list[str], folder: Path) -> None:
    """Run a script of examples/ as it stands, in a folder of its own."""
    script, *options = arguments
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / script), *options]
    done = subprocess.run(
        command, cwd=folder, env=where, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def run_benchmarks(line: str, folder: Path) -> None:
    """Run a line of the suites in a small form: one round, the shortest arrays."""
    if "FASTDP_CPU=avx2" in line and not fastdp.show_config()["cpu"].startswith("avx"):
        return  # another kind of machine refuses it
    for name in ("bench", "pyproject.toml"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    small = "--benchmark-max-time=0.001 --benchmark-min-rounds=1 -p no:cacheprovider"
    if " -k " not in line and " bench/ " in line:
        small += " -k n1000-"
    run_by_shell(line, folder, pytest=f'-m pytest {small} "$@"')


def test_no_exemption_is_idle() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    for start in ELSEWHERE:
        assert re.search(rf"^{re.escape(start)}", text, re.M), start
    for long in SMALL:
        assert long in text
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
