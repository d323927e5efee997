"""What compilers may do to the kernels, and only the machine code tells.

gcc 12.2 at -O3 widened a mask of 8 lanes by storing one byte of it on the stack and
reading back eight, so that seven were what lay there before. It made a branch on the
sign of the data out of the choice of a limit, in the loop over what fills no vector.
Both depend on the pressure on registers and come and go with changes elsewhere. Cython
compares a double that it takes of an argument with -1, and branches where it is NaN.
"""

import platform
import re
import shutil
import subprocess
from itertools import pairwise

import pytest

from fastdp import _core

#: Bytes that an instruction moves, by the letter that ends its name.
WIDTH = {"b": 1, "w": 2, "d": 4, "l": 4, "q": 8}

#: A place on the stack, and the mask or plain moves to and from it.
PLACE = r"(-?(?:0x[0-9a-f]+)?\(%r[sb]p[^)]*\))"
STORE = re.compile(rf"\bkmov([bwdq])\s+%k[0-7],{PLACE}")
LOAD = re.compile(rf"\bkmov([bwdq])\s+{PLACE},%k[0-7]")
PLAIN_STORE = re.compile(rf"\s(?:v?mov\w*)\s+%(\w+),{PLACE}")
PLAIN_LOAD = re.compile(rf"\s(v?mov\w*)\s+{PLACE},%(\w+)")


def read_wider_than_stored(code: str) -> list[str]:
    """Return the reads of more bytes than the mask before them left on the stack.

    In the order of the code, function by function: a place counts as narrow from the
    mask that is stored there until something else is.
    """
    narrow: dict[str, int] = {}
    found = []
    for line in code.splitlines():
        if line.endswith(">:"):
            narrow = {}
        elif stored := STORE.search(line):
            narrow[stored[2]] = WIDTH[stored[1]]
        elif loaded := LOAD.search(line):
            if WIDTH[loaded[1]] > narrow.get(loaded[2], 8):
                found.append(line)
        elif stored := PLAIN_STORE.search(line):
            narrow.pop(stored[2], None)
        elif loaded := PLAIN_LOAD.search(line):
            taken = 8
            if zero_or_sign := re.match(r"mov[zs]([bw])", loaded[1]):
                taken = WIDTH[zero_or_sign[1]]
            elif re.match(r"e|r\d+d$", loaded[3]):
                taken = 4
            if taken > narrow.get(loaded[2], 64):
                found.append(line)
    return found


#: Where noise meets the data.
SUMS = re.compile(r"<(fdp_(?:join|add_wide|add_grid)_\w+)>:$")
ON_A_SIGN = re.compile(r"\s(?:js|jns)\s")


def branches_on_a_sign(code: str) -> dict[str, list[str]]:
    """Return the jumps by a sign in each function that adds noise to data."""
    found: dict[str, list[str]] = {}
    inside: list[str] = []
    for line in code.splitlines():
        if line.endswith(">:"):
            begun = SUMS.search(line)
            inside = found.setdefault(begun[1], []) if begun else []
        elif ON_A_SIGN.search(line):
            inside.append(line)
    return found


@pytest.fixture(scope="module")
def code() -> str:
    if platform.machine() != "x86_64" or shutil.which("objdump") is None:
        pytest.skip("needs x86-64 and objdump")
    command = ["objdump", "-d", "--no-show-raw-insn", _core.__file__]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_narrow_spill_that_is_read_wide_is_found() -> None:
    spill = "  1f: kmovb  %k1,0x8(%rsp)\n"
    for read in (
        "  2f: mov    0x8(%rsp),%rax",
        "  2f: mov    0x8(%rsp),%eax",
        "  2f: mov    0x8(%rsp),%r9d",
        "  2f: kmovq  0x8(%rsp),%k2",
        "  2f: movzwl 0x8(%rsp),%eax",
    ):
        assert read_wider_than_stored(spill + read) == [read]
    for read in (
        "  2f: kmovb  0x8(%rsp),%k2",
        "  2f: movzbl 0x8(%rsp),%eax",
        "  2f: mov    0x10(%rsp),%rax",
        "  2f: mov    %rcx,0x8(%rsp)\n  3f: mov    0x8(%rsp),%rax",
        "0000 <another>:\n  3f: mov    0x8(%rsp),%rax",
    ):
        assert read_wider_than_stored(spill + read) == []


@pytest.mark.rest
def test_no_mask_is_read_wider_than_it_was_stored(code: str) -> None:
    assert len(re.findall(r"\bkmov[bwdq]\s", code)) > 20  # masks are there to spill
    assert read_wider_than_stored(code) == []


def test_a_branch_on_a_sign_is_found() -> None:
    jump = "  2f: js     8dfa0 <fdp_join_avx2+0x1370>"
    code = f"0001 <fdp_join_avx2>:\n  1f: test   %r8,%r8\n{jump}\n0002 <f>:\n{jump}"
    assert branches_on_a_sign(code) == {"fdp_join_avx2": [jump]}


def test_sums_do_not_branch_on_the_sign_of_the_data(code: str) -> None:
    if "__ubsan_handle" in code:
        pytest.skip("sanitizers look at signs themselves")
    found = branches_on_a_sign(code)
    assert len(found) >= 12  # three functions at four levels or more
    assert not any(found.values()), found


#: A kernel of a level, by its heading.
KERNEL = re.compile(rf"<fdp_\w+_(?:{'|'.join(_core.LEVELS)})[.\w]*>:$")
INTEGER_DIVISION = re.compile(r"\s(i?div[bwlq]?)\s")


def divisions(code: str) -> list[str]:
    """Return the integer divisions in the kernels of all levels."""
    inside, found = False, []
    for line in code.splitlines():
        if line.endswith(">:"):
            inside = KERNEL.search(line) is not None
        elif inside and INTEGER_DIVISION.search(line):
            found.append(line)
    return found


def test_a_division_is_found() -> None:
    line = "  1f: div    %rcx"
    assert divisions(f"0001 <fdp_rest_v128.isra.0>:\n{line}\n") == [line]
    assert divisions(f"0001 <fdp_other>:\n{line}\n") == []
    assert divisions("0001 <fdp_rest_v128>:\n  1f: vdivpd %ymm1,%ymm0,%ymm0") == []


def test_kernels_do_not_divide_integers(code: str) -> None:
    assert sum(KERNEL.search(line) is not None for line in code.splitlines()) > 200
    assert divisions(code) == []


COMPARISON = re.compile(r"\bv?u?comisd\s")
ON_A_CONDITION = re.compile(r"\tj(?!mp)\w+\s")


def lines_of(code: str, ending: str) -> list[str]:
    """Return the lines of the functions whose headings end so."""
    inside, found = False, []
    for line in code.splitlines():
        if line.endswith(">:"):
            inside = line.endswith(ending)
        if inside:
            found.append(line)
    return found


def test_a_scalar_is_not_compared(code: str) -> None:
    lines = lines_of(code, "fill_one_real>:")
    assert lines
    assert sum(bool(COMPARISON.search(line)) for line in lines) <= 4  # of its grid


@pytest.mark.parametrize("level", ["portable", "v128", "avx2", "avx512"])
def test_numbers_are_cut_to_their_bounds_without_a_branch(
    code: str, level: str
) -> None:
    lines = lines_of(code, f"<fdp_numbers_{level}>:")
    assert lines
    assert not any(
        COMPARISON.search(line) and ON_A_CONDITION.search(after)
        for line, after in pairwise(lines)
    )
