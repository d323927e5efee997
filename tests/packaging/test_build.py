"""Settings of the build: stable ABI, free threading, and flags that must not be."""

import importlib
import os
import runpy
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
FREE = "Py_GIL_DISABLED"


@pytest.fixture
def configure(monkeypatch):
    """Run setup.py up to its last call; return the extension."""
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
        extension.wheel = seen["options"].get("bdist_wheel", {})
        return extension

    return run


def macros(extension):
    return dict(extension.define_macros)


def test_one_wheel_for_all_versions_with_the_lock(configure):
    extension = configure(free=False)
    assert extension.py_limited_api is True
    assert macros(extension)["Py_LIMITED_API"] == "0x030B0000"
    assert extension.wheel == {"py_limited_api": "cp311"}


def test_no_stable_abi_without_the_lock(configure):
    extension = configure(free=True)
    assert extension.py_limited_api is False
    assert "Py_LIMITED_API" not in macros(extension)
    assert extension.wheel == {}


def test_every_source_is_compiled_once(configure):
    extension = configure(free=False)
    found = {os.path.relpath(p, ROOT) for p in (ROOT / "csrc").glob("*/*.c")}
    assert sorted(extension.sources) == sorted({"fastdp/_core.pyx", *found})
    headers = {os.path.relpath(p, ROOT) for p in (ROOT / "csrc").rglob("*.h")}
    assert headers <= set(extension.depends)


def test_flags_that_the_proofs_forbid_are_not_there(configure):
    for environment in ({}, {"FASTDP_SANITIZE": "address,undefined"}):
        extension = configure(free=False, **environment)
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
    extension = configure(free=False, FASTDP_SANITIZE="address,undefined")
    wanted = {"-fsanitize=address,undefined", "-UNDEBUG", "-fno-wrapv"}
    assert wanted <= set(extension.extra_compile_args)
    assert "-fsanitize=address,undefined" in extension.extra_link_args


def test_hardened_but_for_sanitizers(configure):
    """Sanitizers do not see checked copies, even where CFLAGS ask for them."""
    plain = configure(free=False)
    checked = configure(free=False, FASTDP_SANITIZE="address,undefined")
    reset, level = "-Wp,-U_FORTIFY_SOURCE", "-Wp,-D_FORTIFY_SOURCE=3"
    flags = plain.extra_compile_args
    assert flags.index(reset) + 1 == flags.index(level)
    assert "-fstack-protector-strong" in flags
    assert reset in checked.extra_compile_args
    assert level not in checked.extra_compile_args
    linux = sys.platform == "linux"
    assert ("-Wl,-z,relro,-z,now,-z,noexecstack" in plain.extra_link_args) == linux
    assert ("-fstack-clash-protection" in flags) == linux


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


@pytest.fixture
def build_ext(monkeypatch):
    setuptools = pytest.importorskip("setuptools")
    commands = importlib.import_module("tools.build_commands")
    command = commands.BuildExt(setuptools.Distribution())
    monkeypatch.setattr(command, "compiler", SimpleNamespace(compiler=["cc-of-nobody"]))
    ran = []
    plain = commands.build_ext
    monkeypatch.setattr(plain, "build_extensions", lambda _: ran.append(True))
    return command, ran


def test_without_a_compiler_the_log_says_what_to_install(build_ext):
    command, ran = build_ext
    with pytest.raises(SystemExit) as refusal:
        command.build_extensions()
    (line,) = str(refusal.value).splitlines()
    assert line.startswith("error: fastdp is compiled from C and found no compiler")
    assert "'cc-of-nobody'" in line
    assert "install" in line
    assert ran == []


def test_without_headers_the_log_says_what_to_install(build_ext, monkeypatch, tmp_path):
    command, ran = build_ext
    command.compiler.compiler = [sys.executable]
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(SystemExit, match="install Python's headers"):
        command.build_extensions()
    (tmp_path / "Python.h").touch()
    command.build_extensions()
    assert ran == [True]
