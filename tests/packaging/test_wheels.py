"""Planted faults in extensions: the inspection of wheels must name each."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("lief")
pytest.importorskip("ziglang")

from tools import wheels

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc"),
    pytest.mark.skipif(sys.platform != "linux", reason="no ELF"),
]

GLIBC, MUSL, APPLE = (wheels.TARGETS[i] for i in (0, 2, 5))
ONE = "int PyInit__core(void) { return 1; }\n"
NEW = """\
#include <sys/stat.h>
int PyInit__core(void) { struct stat s; return stat(".", &s); }
"""
HARD = ("-Wl,-z,relro,-z,now,-z,noexecstack",)


def inspected(tmp_path, source, *flags, target=GLIBC, compiler=("gcc",)):
    (tmp_path / "a.c").write_text(source)
    out = tmp_path / "_core.abi3.so"
    command = [*compiler, "-shared", "-fPIC", "-o", str(out), str(tmp_path / "a.c")]
    subprocess.run([*command, *flags], check=True)
    return wheels.problems(target, out)


def test_a_sound_extension_has_no_problem(tmp_path):
    assert inspected(tmp_path, ONE, *HARD) == []


@pytest.mark.parametrize(
    ("source", "flags", "target", "problem"),
    [
        (ONE + "int other;", HARD, GLIBC, "exports .*other"),
        ("int none;", HARD, GLIBC, "exports .*none"),
        (ONE, ("-Wl,-z,relro,-z,now,-z,execstack",), GLIBC, "stack is executable"),
        (ONE, ("-Wl,-z,norelro,-z,now,-z,noexecstack",), GLIBC, "RELRO"),
        (ONE, ("-Wl,-z,relro,-z,lazy,-z,noexecstack",), GLIBC, "RELRO"),
        (ONE, (*HARD, "-Wl,--no-as-needed"), MUSL, "loads libc.so.6"),
        (NEW, HARD, GLIBC, "asks for GLIBC_2.33"),
    ],
)
def test_a_planted_fault_is_named(tmp_path, source, flags, target, problem):
    assert any(
        re.match(problem, p) or problem in p
        for p in inspected(tmp_path, source, *flags, target=target)
    )


def test_apple(tmp_path):
    compiler = (*wheels.ZIG, "cc", "-target", "aarch64-macos.12.3")
    name = "-Wl,-install_name,@rpath/_core.abi3.so"
    source = ONE + "int other;"
    found = inspected(tmp_path, source, name, target=APPLE, compiler=compiler)
    assert found == [
        "exports ['PyInit__core', 'other']",
        "asks for macOS 12.3, not 11.0",
    ]


def test_an_unknown_tag_is_refused(tmp_path, capsys):
    assert wheels.main(tmp_path, tmp_path, "win32") == 2
    assert capsys.readouterr().out == "no such tag: win32\n"
