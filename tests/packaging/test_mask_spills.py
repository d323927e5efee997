"""No mask register is stored narrow on the stack.

gcc 12.2 at -O3 widened a mask of 8 lanes by storing one byte of it on the stack and
reading back eight, so that seven were what lay there before. It depends on the pressure
on registers and comes and goes with changes elsewhere: only the machine code tells.
"""

import platform
import re
import shutil
import subprocess

import pytest

from fastdp import _core

#: A mask register of 8 or 16 lanes, to where the stack or frame pointer points.
NARROW = re.compile(r"\bkmov[bw]\s+%k[0-7],-?(?:0x[0-9a-f]+)?\(%r[sb]p\b")


@pytest.fixture(scope="module")
def code() -> str:
    if platform.machine() != "x86_64" or shutil.which("objdump") is None:
        pytest.skip("needs x86-64 and objdump")
    command = ["objdump", "-d", "--no-show-raw-insn", _core.__file__]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_pattern_finds_a_narrow_spill() -> None:
    assert NARROW.search("  1f: kmovb  %k1,0x8(%rsp)")
    assert NARROW.search("  1f: kmovw  %k3,-0x12(%rbp)")
    assert NARROW.search("  1f: kmovb  %k2,(%rsp,%rax,1)")
    assert not NARROW.search("  1f: kmovq  %k1,0x8(%rsp)")
    assert not NARROW.search("  1f: kmovb  %k1,%eax")
    assert not NARROW.search("  1f: kmovw  %k1,0x8(%rdi)")


def test_no_mask_is_spilled_narrow(code: str) -> None:
    assert len(re.findall(r"\bkmov[bwdq]\s", code)) > 20  # masks are there to spill
    assert NARROW.findall(code) == []
