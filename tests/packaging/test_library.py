"""The C library as other programs use it: installed by CMake, found by pkg-config.

Slow, since a compiler runs over all of it. The library is moved after its installation:
nothing in it names its first place.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import fastdp
from tests import elf

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
HEADER = (ROOT / "csrc" / "fastdp.h").read_text()
VERSION = ".".join(re.findall(r"^#define FDP_VERSION_\w+ (\d+)$", HEADER, re.M))


def run(*command, folder, **environment):
    """Run a command that must succeed; return what it prints."""
    plain = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        capture_output=True,
        text=True,
        env={**plain, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- version and names ---------------------------------------------------------------


def listed():
    """Return the frozen names, and the minor versions that added some, in order."""
    lines = (HERE / "symbols.txt").read_text().splitlines()
    versions = [line for line in lines if line[0].isdigit()]
    return [line for line in lines if line.startswith("fdp_")], versions


def test_the_header_has_the_version_of_the_package():
    assert fastdp.__version__ == VERSION


def test_the_header_declares_the_frozen_functions():
    """A new function goes under the minor version that adds it; none is removed."""
    names, versions = listed()
    declared = re.findall(r"\bFDP_API\b[^;]*?\b(fdp_\w+)\(", HEADER)
    assert sorted(names) == sorted(declared)
    numbers = [tuple(map(int, version.split("."))) for version in versions]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] <= tuple(map(int, VERSION.split(".")[:2]))


# ---- the installed library -----------------------------------------------------------


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if sys.platform != "linux":
        pytest.skip("names and static programs of Linux")
    for tool in ("cmake", "pkg-config", "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} here")
    folder = tmp_path_factory.mktemp("library")
    places = ["-DCMAKE_INSTALL_LIBDIR=lib/here", f"-DCMAKE_INSTALL_PREFIX={folder}/at"]
    run("cmake", "-S", ROOT / "csrc", "-B", "build", *places, folder=folder)
    run("cmake", "--build", "build", "--parallel", "2", folder=folder)
    run("cmake", "--install", "build", folder=folder)
    return (folder / "at").rename(folder / "moved")


def flags(prefix, *options):
    """Return what pkg-config says that a program needs."""
    place = str(prefix / "lib" / "here" / "pkgconfig")
    told = run("pkg-config", *options, folder=prefix, PKG_CONFIG_PATH=place)
    return told.split()


@pytest.mark.slow
def test_what_is_installed(prefix):
    found = {
        path.relative_to(prefix).as_posix()
        for path in prefix.rglob("*")
        if not path.is_dir()
    }
    soname = "libfastdp.so." + VERSION.rpartition(".")[0]
    libraries = {"libfastdp.a", "libfastdp.so", soname, f"libfastdp.so.{VERSION}"}
    packages = {"fastdpConfig", "fastdpConfigVersion", "fastdpConfig-release"}
    assert found == {
        "include/fastdp.h",
        "lib/here/pkgconfig/fastdp.pc",
        *(f"lib/here/{name}" for name in libraries),
        *(f"lib/here/cmake/fastdp/{name}.cmake" for name in packages),
    }
    assert flags(prefix, "--modversion", "fastdp") == [VERSION]


@pytest.mark.slow
def test_no_symbol_is_exported_but_those_of_the_list(prefix):
    folder = prefix / "lib" / "here"
    binary = (folder / "libfastdp.so").read_bytes()
    assert elf.symbols(binary, elf.DYNAMIC).keys() == set(listed()[0])
    told = run("nm", "-g", "--defined-only", "libfastdp.a", folder=folder)
    inside = {line.split()[2] for line in told.splitlines() if len(line.split()) == 3}
    assert set(listed()[0]) < inside
    assert [name for name in inside if not name.startswith("fdp_")] == []


def readme_program(language):
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(f"^```{language}\n(.*?)^```$", text, re.M | re.S)
    assert len(block.splitlines()) <= 25
    return block


@pytest.mark.slow
@pytest.mark.parametrize("way", ["cc", "cc -static", "rustc"])
def test_the_programs_of_the_readme_release_a_histogram(prefix, tmp_path, way):
    """Every run has other noise, of scale 1."""
    if shutil.which(way.split()[0]) is None:
        pytest.skip(f"no {way} here")
    library, static = prefix / "lib" / "here", way == "cc -static"
    if way == "rustc":
        (tmp_path / "histogram.rs").write_text(readme_program("rust"))
        words = ["histogram.rs", "-L", library, "-l", "fastdp"]
    else:
        (tmp_path / "histogram.c").write_text(readme_program("c"))
        options = ["--static"] if static else []
        words = ["-Wall", "-Wextra", "-Werror", "histogram.c"]
        words += flags(prefix, *options, "--cflags", "--libs", "fastdp")
    run(*way.split(), *words, "-o", "histogram", folder=tmp_path)
    needed = b"libfastdp.so." in (tmp_path / "histogram").read_bytes()
    assert needed != static
    place = {} if static else {"LD_LIBRARY_PATH": str(library)}
    runs = set()
    for _ in range(20):
        told = run("./histogram", folder=tmp_path, **place)
        counts = tuple(map(int, re.findall(r"-?\d+", told)))
        runs.add(counts)
        # beyond 60 with a probability of 1e-26
        assert all(
            abs(x - y) < 60 for x, y in zip(counts, (120, 7, 0, 31), strict=True)
        )
    assert len(runs) > 10


CONSUMER = """\
cmake_minimum_required(VERSION 3.18)
project(consumer LANGUAGES C)
find_package(fastdp {version} REQUIRED CONFIG)
foreach(kind shared static)
  add_executable(${{kind}} histogram.c)
  target_link_libraries(${{kind}} PRIVATE fastdp::${{kind}})
endforeach()
"""


@pytest.mark.slow
def test_cmake_finds_the_package(prefix, tmp_path):
    (tmp_path / "histogram.c").write_text(readme_program("c"))
    (tmp_path / "CMakeLists.txt").write_text(CONSUMER.format(version=VERSION))
    place = prefix / "lib" / "here" / "cmake" / "fastdp"
    run("cmake", "-B", "build", f"-Dfastdp_DIR={place}", folder=tmp_path)
    run("cmake", "--build", "build", folder=tmp_path)
    for kind in ("shared", "static"):
        assert len(run(f"build/{kind}", folder=tmp_path).split()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-fsanitize=thread", "-g"]], ids=["", "tsan"])
def test_no_two_threads_of_a_job_draw_the_same_noise(prefix, tmp_path, options):
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    sources = [
        HERE / "jobs.c",
        ROOT / "csrc" / "mech" / "job.c",
    ]  # seen by the sanitizer
    archive = prefix / "lib" / "here" / "libfastdp.a"
    words = ["-std=gnu11", "-O2", *warnings, *options, f"-I{ROOT / 'csrc'}", *sources]
    run("cc", *words, archive, "-lm", "-pthread", "-o", "jobs", folder=tmp_path)
    assert run("./jobs", folder=tmp_path) == "0 failures\n"


MODULE = """\
from libc.stdint cimport int64_t, uint64_t

from fastdp cimport *


def noise(uint64_t scale, size_t n):
    cdef uint64_t one = 1
    cdef fdp_ratio_t ratio
    cdef fdp_sampler_t law
    cdef fdp_job_t job
    cdef fdp_target_t target
    cdef int64_t[100] out
    assert n <= 100 and fdp_version() == FDP_VERSION
    ratio.num, ratio.den, ratio.nums, ratio.dens = &scale, &one, 1, 1
    target.x, target.x_type, target.grid = NULL, FDP_NONE, NULL
    target.out, target.out_type = out, FDP_I64
    cdef fdp_status_t status = fdp_sampler_laplace(&law, &ratio, 0)
    if status == FDP_OK:
        status = fdp_job_open(&job)
    if status == FDP_OK:
        with nogil:
            status = fdp_job_release(&job, &law, n, &target)
        fdp_job_close(&job)
    if status != FDP_OK:
        raise ValueError(fdp_status_text(status).decode())
    return [out[i] for i in range(n)]
"""


@pytest.mark.slow
def test_a_cython_module_uses_the_library(prefix, tmp_path):
    pytest.importorskip("Cython")
    (tmp_path / "noisy.pyx").write_text(MODULE)
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    translate = [sys.executable, "-m", "cython", "-3", "noisy.pyx"]
    run(*translate, folder=tmp_path, PYTHONPATH=path)
    folders = [f"-I{sysconfig.get_path('include')}", f"-I{fastdp.get_include()}"]
    archive = prefix / "lib" / "here" / "libfastdp.a"
    words = ["-w", "-shared", "-fPIC", *folders, "noisy.c", archive, "-lm"]
    run("cc", *words, "-o", "noisy.so", folder=tmp_path)
    program = "import noisy; print(*noisy.noise(10, 100)); noisy.noise(0, 1)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    drawn = list(map(int, done.stdout.split()))
    # beyond 600 with a probability of 1e-24, all zeros of 1e-131
    assert len(drawn) == 100
    assert 0 < max(map(abs, drawn)) < 600
    assert done.stderr.splitlines()[-1] == (
        "ValueError: a public parameter is outside its domain"
    )
