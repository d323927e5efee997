"""The gallery: a page for each script of `examples/`, with its picture and its output.

A script's docstring is its page: the first sentence is the title. It is run as
`python examples/NAME.py --small --plot FILE` (without `--small` where it has none).
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Seconds that a small run may take.
LIMIT = 150


@dataclass(frozen=True)
class Example:
    """A script, what it says of itself, and what it printed."""

    path: Path
    doc: str
    output: str

    @property
    def title(self) -> str:
        """The first sentence of the docstring."""
        return " ".join(self.doc.split("\n\n")[0].split()).rstrip(".")

    @property
    def text(self) -> str:
        """The rest, without the command."""
        parts = self.doc.split("\n\n")[1:]
        return "\n\n".join(part for part in parts if not part.startswith("    "))

    @property
    def command(self) -> str:
        """The command, as the docstring shows it."""
        found = re.search(r"^    (python .*(?:\n        .*)*)", self.doc, re.M)
        return found[1] if found else f"python examples/{self.path.name}"


def scripts() -> list[Path]:
    """Return the scripts of the gallery."""
    return sorted((ROOT / "examples").glob("[!_]*.py"))


def write(folder: Path) -> dict[str, str]:
    """Run all scripts and write the pages; return each script's page."""
    folder.mkdir(parents=True)
    with ThreadPoolExecutor(2) as pool:
        examples = list(pool.map(lambda path: _run(path, folder), scripts()))
    stems = [example.path.stem for example in examples]
    lines = ["# Gallery", "", _INTRO, "", "```{toctree}", ":hidden:", "", *stems, "```"]
    lines += ["", '<div class="gallery">']
    for example in examples:
        stem = example.path.stem
        image = f'<img src="../_images/{stem}.png" alt="" loading="lazy">'
        lines.append(f'<a href="{stem}.html">{image}<b>{example.title}</b></a>')
        (folder / f"{stem}.md").write_text(_page(example), "utf-8")
    lines += ["</div>", ""]
    (folder / "index.md").write_text("\n".join(lines), "utf-8")
    return {
        example.path.relative_to(ROOT).as_posix(): f"gallery/{example.path.stem}.md"
        for example in examples
    }


_INTRO = (
    "The field's algorithms, attacks and figures, each a script under 200 lines: what "
    "a source printed beside what this library computes, and why they differ. The "
    "pictures and the output are those of a small run, made when this page was built."
)


def _run(path: Path, folder: Path) -> Example:
    source = path.read_text("utf-8")
    doc = ast.get_docstring(ast.parse(source)) or ""
    small = ["--small"] if "--small" in source or "_common" in source else []
    command = [sys.executable, str(path), *small, "--plot", f"{path.stem}.png"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{path.name}: {done.stdout[-2000:]}{done.stderr[-3000:]}")
    return Example(path, doc, done.stdout)


def _page(example: Example) -> str:
    title = example.title
    source = example.path.read_text("utf-8").rstrip()
    return f"""# {title}

```sh
{example.command}
```

{example.text}

![{title}]({example.path.stem}.png)

## What it prints

```text
{example.output.rstrip()}
```

## The script

````python
{source}
````
"""
