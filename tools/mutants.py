r"""Plant faults in C files, one at a time, and tell which of them the tests let live.

    python tools/mutants.py csrc/mech/digits_pass.c csrc/sampler/digits_body.inc.h \
        --count 40 --tests tests/differential/test_digit_edges.py

Run it in a tree whose extension is built in place. A fault changes one token of code: a
comparison, an operator or a constant. Files that include a changed one are compiled
again, in a copy of the tree. Survivors are printed to be looked at: some change nothing
that can be seen (the size of a buffer), the others ask for a test. A fault whose tests
do not end in time is printed as such: it hangs, or only makes them slow, and counts
neither as caught nor as alive.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-std=c11", "-O2", "-fPIC", "-D_DEFAULT_SOURCE", "-fno-math-errno"]

#: Token, and what stands in its place.
SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<",
    "++": "--", "~": "", "cmplt": "cmple", "cmple": "cmplt", "and_si": "or_si",
    "or_si": "xor_si", "xor_si": "or_si", "add_epi": "sub_epi", "sub_epi": "add_epi",
    "unpacklo": "unpackhi", "slli": "srli", "srli": "slli",
}  # fmt: skip
TOKEN = re.compile(
    r"(?<=[a-z0-9_])(?:and_si|x?or_si|add_epi|sub_epi)|cmpl[te]|unpacklo|s[lr]li"
    r"|<<|>>|[<>=!]=|\+\+|(?<= )[<>+&|^-](?= )|~|\b\d+\b(?![.\w])"
)


def code_of(text: str) -> str:
    """Return the text with comments, directives and strings blanked out."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())  # noqa: E731
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]*\"", blank, text, flags=re.DOTALL)
    return re.sub(
        r"^[ \t]*#\s*(?:include|if|ifn?def|endif|undef)[^\n]*", blank, text, flags=re.M
    )


def faults(path: Path) -> list[tuple[Path, int, str, str]]:
    """Return (file, offset, token, replacement) of every fault of a file."""
    found = []
    for match in TOKEN.finditer(code_of(path.read_text())):
        token = match.group()
        other = str(int(token) + 1) if token.isdigit() else SWAPS[token]
        found.append((path, match.start(), token, other))
    return found


def compile_and_link(tree: Path, sources: list[Path], objects: list[Path]) -> bool:
    """Compile the sources into their objects and link the extension."""
    for source in sources:
        (target,) = (o for o in objects if o.name == f"{source.stem}.o")
        command = ["cc", *FLAGS, "-Icsrc", "-c", str(source), "-o", str(target)]
        if subprocess.run(command, cwd=tree, capture_output=True).returncode != 0:
            return False
    (library,) = (tree / "fastdp").glob("_core*.so")
    library.unlink()
    command = ["cc", "-shared", *map(str, objects), "-lm", "-o", str(library)]
    return subprocess.run(command, cwd=tree, capture_output=True).returncode == 0


def dependents(tree: Path, path: Path) -> list[Path]:
    """Return the C files that a change of a file reaches."""
    command = ["cc", "-std=c11", "-D_DEFAULT_SOURCE", "-Icsrc", "-MM"]
    reached = []
    for source in sorted(tree.glob("csrc/*/*.c")):
        made = subprocess.run(
            [*command, str(source)],
            cwd=tree,
            capture_output=True,
            text=True,
            check=True,
        )
        if path.name in {Path(word).name for word in made.stdout.split()}:
            reached.append(source)
    return reached


def outcome(tree: Path, tests: list[str], timeout: float) -> str:
    """Return what the tests say of a tree: "caught", "alive" or "late"."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            capture_output=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return "late"
    return "caught" if done.returncode else "alive"


def main() -> int:
    """Plant a sample of the faults and print those that are not caught."""
    parser = argparse.ArgumentParser(description="Plant faults in C files.")
    parser.add_argument("files", nargs="+", type=Path, help="from the root of the tree")
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        skip = shutil.ignore_patterns(".git", "__pycache__")
        shutil.copytree(ROOT, tree, ignore=skip)
        found = [fault for path in arguments.files for fault in faults(tree / path)]
        chosen = random.Random(arguments.seed).sample(found, arguments.count)
        kept = {"_core", *(path.stem for path in tree.glob("csrc/*/*.c"))}
        made = sorted((tree / "build").glob("temp*/**/*.o"))
        objects = [path for path in made if path.stem in kept]  # not of files renamed
        reached = {p: dependents(tree, p) for p in {fault[0] for fault in chosen}}
        ends: Counter[str] = Counter()
        for path, at, token, other in chosen:
            text = path.read_text()
            path.write_text(text[:at] + other + text[at + len(token) :])
            end = "refused"
            if compile_and_link(tree, reached[path], objects):
                end = outcome(tree, arguments.tests, arguments.timeout)
            ends[end] += 1
            if end in ("alive", "late"):
                line = text.count("\n", 0, at)
                print(f"{end}: {path.name}:{line + 1}: {token} -> {other}", flush=True)
                print(text.splitlines()[line], flush=True)
            path.write_text(text)
            compile_and_link(tree, reached[path], objects)
    print(f"of {len(found)} faults {arguments.count} planted:", end=" ")
    print(f"{ends['caught']} caught, {ends['alive']} alive,", end=" ")
    print(f"{ends['late']} not ended in {arguments.timeout:g} s,", end=" ")
    print(f"{ends['refused']} refused by the compiler")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
