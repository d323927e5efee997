"""What the sdist and the wheel hold. The real ones are built in the slow run."""

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import check_package

ROOT = Path(__file__).parents[2]


def write_sdist(path, names):
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"fastdp-0/{name}"), io.BytesIO())
    return path


METADATA = """\
Metadata-Version: 2.4
Name: fastdp
License-Expression: Apache-2.0
Requires-Dist: numpy>=1.26
Requires-Dist: scipy>=1.11
Requires-Dist: pyarrow>=14; extra == "cli"
"""

EXTENSION = "fastdp/_core.abi3.so"


def write_wheel(path, *, modules=None, metadata=METADATA, extra=(), size=10):
    if modules is None:
        modules = [
            name
            for name in check_package.sources()
            if name.startswith("fastdp/") and name.endswith(check_package.MODULES)
        ]
        modules.append(check_package.HEADER)
    with zipfile.ZipFile(path, "w") as archive:
        for name in [*modules, *extra]:
            archive.writestr(name, "")
        archive.writestr(EXTENSION, os.urandom(size))
        info = "fastdp-0.dist-info"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/RECORD", "")
        archive.writestr(
            f"{info}/entry_points.txt", "fastdp = fastdp.cli.__main__:program\n"
        )
        licence = (ROOT / "LICENSE").read_text()
        archive.writestr(f"{info}/licenses/LICENSE", licence)
    return path


def test_sources_are_those_of_the_tree_and_no_more():
    found = check_package.sources()
    expected = (
        "csrc/fastdp.h",
        "csrc/mech/digits.c",
        "fastdp/_core.pyx",
        "fastdp/_core.pyi",
    )
    assert set(expected) <= found
    assert "tests/packaging/test_archives.py" in found
    assert not [n for n in found if n.endswith((".so", ".pyc", "_core.c")) or "/." in n]


def test_a_right_sdist_has_no_problem(tmp_path):
    names = [*check_package.sources(), "PKG-INFO", "setup.cfg"]
    names += ["fastdp.egg-info/SOURCES.txt"]
    assert check_package.sdist_problems(write_sdist(tmp_path / "s", names)) == []


def test_faults_of_an_sdist_are_named(tmp_path):
    names = check_package.sources() - {"csrc/fastdp.h"} | {
        "fastdp/_core.c",
        "notes.txt",
    }
    assert check_package.sdist_problems(write_sdist(tmp_path / "s", names)) == [
        "sdist lacks csrc/fastdp.h",
        "sdist should not hold fastdp/_core.c",
        "sdist should not hold notes.txt",
    ]


def test_a_right_wheel_has_no_problem(tmp_path):
    assert check_package.wheel_problems(write_wheel(tmp_path / "w")) == []


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ({"extra": ["tests/test_x.py"]}, "wheel should not hold tests/test_x.py"),
        ({"extra": ["fastdp/_core.pyx"]}, "wheel should not hold fastdp/_core.pyx"),
        ({"modules": []}, "wheel lacks fastdp/__init__.py"),
        ({"modules": []}, "wheel lacks fastdp/__init__.pxd"),
        ({"modules": []}, "wheel lacks fastdp/include/fastdp.h"),
        ({"size": 2_000_000}, "bytes"),
        ({"metadata": METADATA + "Requires-Dist: mpmath\n"}, "at run time"),
        ({"metadata": METADATA.replace("Apache", "MIT")}, "does not name its licence"),
        ({"extra": ["fastdp/_core.cpython-311.so"]}, "wheel has 2 extensions"),
    ],
)
def test_faults_of_a_wheel_are_named(tmp_path, fault, problem):
    found = check_package.wheel_problems(write_wheel(tmp_path / "w", **fault))
    assert any(problem in line for line in found)


@pytest.mark.slow
def test_the_built_archives(tmp_path):
    given = os.environ.get("FASTDP_DIST", "")
    folder = Path(given) if given and Path(given).is_dir() else tmp_path
    if folder == tmp_path:
        pytest.importorskip("build")
        build = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
    assert check_package.main(folder) == 0
