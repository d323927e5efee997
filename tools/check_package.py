"""Check what the sdist and the wheel hold, to the file.

    python tools/check_package.py dist/

The sdist must hold every source of the tree and nothing else; the wheel the Python
modules, the stub, the typing marker, the headers of C and Cython and one extension, in
less than 2 MB.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: Largest wheel, in bytes.
WHEEL_LIMIT = 2_000_000

#: Folders that go into the sdist whole, and single files beside them.
FOLDERS = ("bench", "clients", "csrc", "docs", "examples", "fastdp", "tests", "tools")
FILES = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
    "setup.py",
)

#: What a build or a run leaves in the tree.
_LEFT_OVER = re.compile(r"\.(pyc|pyo|so|o)$|(^|/)(__pycache__|\.[^/]+)(/|$)|_core\.c$")

#: What setuptools adds to an sdist.
_ADDED = re.compile(r"^(PKG-INFO|setup\.cfg|fastdp\.egg-info/.*)$")

#: What a wheel holds of the folder `fastdp`, and the one file that it copies there.
MODULES = (".py", ".pyi", "py.typed", "__init__.pxd")
HEADER = "fastdp/include/fastdp.h"

EXTENSION = re.compile(r"^fastdp/_core\.([\w.-]*so|pyd)$")


def sources(root: Path = ROOT) -> set[str]:
    """Return the paths of all files that belong in an sdist."""
    found = set(FILES)
    for folder in FOLDERS:
        for path in (root / folder).rglob("*"):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not _LEFT_OVER.search(name):
                found.add(name)
    return found


def sdist_problems(path: Path, root: Path = ROOT) -> list[str]:
    """Return what is wrong with an sdist, empty when nothing is."""
    with tarfile.open(path) as archive:
        names = {
            member.name.partition("/")[2]
            for member in archive.getmembers()
            if member.isfile()
        }
    expected = sources(root)
    problems = [f"sdist lacks {name}" for name in sorted(expected - names)]
    extra = {name for name in names - expected if not _ADDED.match(name)}
    return problems + [f"sdist should not hold {name}" for name in sorted(extra)]


def wheel_problems(path: Path, root: Path = ROOT) -> list[str]:
    """Return what is wrong with a wheel, empty when nothing is."""
    problems = []
    if path.stat().st_size >= WHEEL_LIMIT:
        problems.append(f"wheel has {path.stat().st_size} bytes")
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        info = {name for name in names if ".dist-info/" in name}
        texts = {
            name.partition("/")[2]: archive.read(name).decode()
            for name in info
            if name.endswith(("METADATA", "entry_points.txt", "LICENSE"))
        }
    expected = {
        name
        for name in sources(root)
        if name.startswith("fastdp/") and name.endswith(MODULES)
    } | {HEADER}
    modules = {name for name in names - info if not EXTENSION.match(name)}
    problems += [f"wheel lacks {name}" for name in sorted(expected - modules)]
    problems += [f"wheel should not hold {name}" for name in sorted(modules - expected)]
    extensions = names - info - modules
    if len(extensions) != 1:
        problems.append(f"wheel has {len(extensions)} extensions")
    return problems + _metadata_problems(texts, root)


def _metadata_problems(texts: dict[str, str], root: Path) -> list[str]:
    problems = []
    metadata = Parser().parsestr(texts.get("METADATA", ""))
    needs = [str(need) for need in metadata.get_all("Requires-Dist", [])]
    runtime = {
        re.split(r"[<>=!~ ;\[]", need)[0] for need in needs if "extra ==" not in need
    }
    if runtime != {"numpy", "scipy"}:
        problems.append(f"wheel needs {sorted(runtime)} at run time")
    if metadata["License-Expression"] != "Apache-2.0":
        problems.append("wheel does not name its licence")
    if texts.get("licenses/LICENSE") != (root / "LICENSE").read_text():
        problems.append("wheel lacks the licence's text")
    if "fastdp = fastdp.cli.__main__:program" not in texts.get("entry_points.txt", ""):
        problems.append("wheel lacks the command")
    return problems


def main(folder: Path) -> int:
    """Check the one sdist and the one wheel in `folder`."""
    archives = sorted(folder.glob("*.tar.gz")), sorted(folder.glob("*.whl"))
    if [len(found) for found in archives] != [1, 1]:
        print(f"{folder} must hold one sdist and one wheel")
        return 1
    (sdist,), (wheel,) = archives
    problems = sdist_problems(sdist) + wheel_problems(wheel)
    for problem in problems:
        print(problem)
    print(f"{sdist.name}: {sdist.stat().st_size:,} bytes")
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
