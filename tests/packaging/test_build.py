"""Settings of the build: stable ABI, free threading, and flags that must not be."""

import os
import runpy
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FREE = "Py_GIL_DISABLED"


@pytest.fixture
def configure(monkeypatch):
    """Run setup.py up to its last call; return the extension and the wheel class."""
    build = pytest.importorskip("Cython.Build")
    setuptools = pytest.importorskip("setuptools")

    def run(*, free, **environment):
        seen = {}
        variable = sysconfig.get_config_var
        monkeypatch.setattr(
            sysconfig,
            "get_config_var",
            lambda name: int(free) if name == FREE else variable(name),
        )
        monkeypatch.setattr(build, "cythonize", lambda modules, **options: modules)
        monkeypatch.setattr(setuptools, "setup", lambda **options: seen.update(options))
        monkeypatch.chdir(ROOT)
        for name in ("FASTDP_SANITIZE", "FASTDP_WERROR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        runpy.run_path(str(ROOT / "setup.py"))
        (extension,) = seen["ext_modules"]
        return extension, seen["cmdclass"]["bdist_wheel"]

    return run


def macros(extension):
    return dict(extension.define_macros)


def test_one_wheel_for_all_versions_with_the_lock(configure):
    extension, wheel = configure(free=False)
    assert extension.py_limited_api is True
    assert macros(extension)["Py_LIMITED_API"] == "0x030B0000"
    setuptools = pytest.importorskip("setuptools")
    command = wheel(setuptools.Distribution())
    assert command.py_limited_api == "cp311"


def test_no_stable_abi_without_the_lock(configure):
    extension, wheel = configure(free=True)
    assert extension.py_limited_api is False
    assert "Py_LIMITED_API" not in macros(extension)
    setuptools = pytest.importorskip("setuptools")
    assert not wheel(setuptools.Distribution()).py_limited_api


def test_every_source_is_compiled_once(configure):
    extension, _ = configure(free=False)
    found = {os.path.relpath(p, ROOT) for p in (ROOT / "csrc").glob("*/*.c")}
    assert sorted(extension.sources) == sorted({"fastdp/_core.pyx", *found})
    headers = {os.path.relpath(p, ROOT) for p in (ROOT / "csrc").rglob("*.h")}
    assert headers <= set(extension.depends)


def test_flags_that_the_proofs_forbid_are_not_there(configure):
    for environment in ({}, {"FASTDP_SANITIZE": "address,undefined"}):
        extension, _ = configure(free=False, **environment)
        flags = extension.extra_compile_args
        assert not [f for f in flags if f.startswith(("-march", "-mcpu", "-Ofast"))]
        assert not [f for f in flags if f.endswith("-math") and "-fno-" not in f]
        # They come after those of CFLAGS, the blanket ones before what they reset.
        taken_back = ["fast-math", "unsafe-math-optimizations", "associative-math"]
        taken_back += ["reciprocal-math", "finite-math-only"]
        places = [flags.index(f"-fno-{name}") for name in taken_back]
        places.append(flags.index("-fsigned-zeros"))
        assert max(places) < flags.index("-ffp-contract=fast")
        assert max(places) < flags.index("-fno-math-errno")


def test_the_sanitizer_build_keeps_assertions(configure):
    extension, _ = configure(free=False, FASTDP_SANITIZE="address,undefined")
    wanted = {"-fsanitize=address,undefined", "-UNDEBUG", "-fno-wrapv"}
    assert wanted <= set(extension.extra_compile_args)
    assert "-fsanitize=address,undefined" in extension.extra_link_args


def test_free_threading_is_declared():
    source = (ROOT / "fastdp" / "_core.pyx").read_text()
    head = source.partition('"""')[0]
    assert "freethreading_compatible=True" in head


@pytest.mark.parametrize("level", ["garbage", "AVX2", "avx512 "])
def test_an_unknown_level_is_refused(level):
    code = "import fastdp; fastdp.random.bytes(1)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "FASTDP_CPU": level},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "ParameterError: FASTDP_CPU must be" in run.stderr
    assert level not in run.stderr
