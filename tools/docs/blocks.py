"""The code blocks of the pages, and how they run.

A page runs from top to bottom in one folder, which holds what `fastdp demo --data .`
writes: its Python blocks in one namespace, its shell blocks line by line. A comment
on the line before a block changes that, and is invisible where pages are rendered:

    <!-- not run: why, and what runs it elsewhere -->

Blocks in languages other than Python and shell are data and never run. TOML whose
first line is ``# NAME.toml`` is written to that file.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

#: Every page that people read; all their blocks run.
PAGES = (
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
    ROOT / "csrc" / "README.md",
    ROOT / "fastdp" / "accounting" / "README.md",
    ROOT / "fastdp" / "accounting" / "_pld" / "README.md",
    ROOT / "tools" / "docs" / "landing.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)

DATA = {"c", "csv", "cython", "json", "rust", "text", "toml", "{toctree}"}

_BLOCK = re.compile(
    r"(?:^<!-- ([^\n]*?) -->\n+)?^```([\w{}]*)\n(.*?)^```[^\S\n]*$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, its line, and why it does not run."""

    language: str
    text: str
    line: int
    reason: str = ""

    @property
    def is_python(self) -> bool:
        return self.language == "python"

    @property
    def is_shell(self) -> bool:
        return self.language in ("sh", "bash")

    @property
    def runs(self) -> bool:
        return not self.reason and (self.is_python or self.is_shell)


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text("utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        comment, language, body = match.groups()
        reason = (comment or "").partition("not run: ")[2]
        line = text[: match.start(2)].count("\n") + 1
        found.append(Block(language, body, line, reason))
    return found


def shell_lines(text: str) -> list[str]:
    """Return the commands of a block, continued lines joined, comments left out."""
    joined = text.replace("\\\n", " ")
    lines = [re.sub(r"(^|\s+)# .*", "", line) for line in joined.splitlines()]
    return [line.strip() for line in lines if line.strip()]


#: What a line says, and what it becomes here: minutes and other volumes are left out.
SMALL = {
    "fastdp bench": "fastdp bench --n 500",
    "/other/volume/": "",
}


def run(page: Path, folder: Path) -> dict[str, Any]:
    """Run a page in a folder, and return the names that its Python blocks leave.

    Parameters
    ----------
    page : Path
    folder : Path
        Where it runs; gets the documentation's data first.

    Raises
    ------
    Exception
        Whatever a block raises, with the page's line in the traceback;
        RuntimeError where a shell line fails.
    """
    shutil.copytree(data(), folder, dirs_exist_ok=True)
    names: dict[str, Any] = {"__name__": page.stem}
    with contextlib.chdir(folder):
        for block in blocks(page):
            named = re.match(r"# (\w+\.toml)\n", block.text)
            if block.language == "toml" and named:
                Path(named[1]).write_text(block.text, "utf-8")
            if not block.runs:
                continue
            if block.is_python:
                padded = "\n" * block.line + block.text
                exec(compile(padded, str(page), "exec"), names)  # noqa: S102 - the page's own
            else:
                for line in shell_lines(block.text):
                    _run_line(line, folder)
    return names


@functools.cache
def data() -> Path:
    """Return a folder with the documentation's data, which goes with the process."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with contextlib.redirect_stdout(io.StringIO()):
        _fastdp(["demo", "--data", str(folder)])
    return folder


def _fastdp(arguments: list[str]) -> None:
    from fastdp.cli import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = main(arguments)
    if status != 0:
        raise RuntimeError(f"fastdp {shlex.join(arguments)}: {said.getvalue()}")


def _run_line(line: str, folder: Path) -> None:
    if line == "fastdp demo --data .":
        return  # it is there
    for long, short in SMALL.items():
        line = line.replace(long, short)
    words = shlex.split(line)
    if " bench/" in line:
        _run_benchmarks(line, folder)
    elif words[0] == "fastdp" and not {"<", ">", "|", "&&"} & set(words):
        _fastdp(words[1:])
    else:
        if not (folder / "examples").exists():
            (folder / "examples").symlink_to(ROOT / "examples")
        run_by_shell(line, folder)


def run_by_shell(line: str, folder: Path, **programs: str) -> None:
    """Run a line as it stands; the programs that are named are this interpreter's."""
    shims = folder / "bin"
    shims.mkdir(exist_ok=True)
    commands = {"fastdp": '-m fastdp.cli "$@"', "python": '"$@"', **programs}
    for name, command in commands.items():
        shim = shims / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command}\n')
        shim.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    path = f"{shims}{os.pathsep}{kept['PATH']}"
    where = {**kept, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=where, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"{line}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def _run_benchmarks(line: str, folder: Path) -> None:
    """Run a line of the suites in a small form: one round, the shortest arrays."""
    import fastdp

    if "FASTDP_CPU=avx2" in line and not fastdp.show_config()["cpu"].startswith("avx"):
        return  # another kind of machine refuses it
    for name in ("bench", "pyproject.toml"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    small = "--benchmark-max-time=0.001 --benchmark-min-rounds=1 -p no:cacheprovider"
    if " -k " not in line and " bench/ " in line:
        small += " -k n1000-"
    run_by_shell(line, folder, pytest=f'-m pytest {small} "$@"')
