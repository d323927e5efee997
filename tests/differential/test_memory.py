"""What calls leave in memory: no keys, no keystream, no noise, no copies of the data.

SECURITY.md, "Memory", of a process that has made calls of all kinds: everything that it
can write to is searched from outside. Vector registers and what a compiler puts on the
stack of a kernel are exempt there.
"""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdp import _core
from tests.differential.layout import Keyed
from tests.differential.left_behind import Case, cases
from tests.differential.test_stream import chunk_keys
from tests.reference import aes256

ROOT = Path(__file__).parents[2]

#: Words of 64 bits that may be left of a case, by kind: vector registers on the stack,
#: of the data those with two nodes of candidates.
SPILLED = {"key": 8, "keystream": 8, "noise": 8, "result": 80, "data": 80}

#: The same of ChaCha20, whose state fills all registers.
SPILLED_BY_CHACHA = {**SPILLED, "keystream": 64}

Words = np.ndarray[Any, np.dtype[np.uint64]]

pytestmark = [
    pytest.mark.skipif(
        not Path("/proc/self/mem").exists(), reason="reads a process's memory in Linux"
    ),
    pytest.mark.skipif(
        "FASTDP_SANITIZED" in os.environ, reason="sanitizers map terabytes of their own"
    ),
]


def words_of(value: object) -> Words:
    """Return the words of 64 bits that hardly occur by chance."""
    array = np.asarray(value)
    if array.dtype.itemsize != 8:
        return np.zeros(0, np.uint64)
    words = np.ascontiguousarray(array).reshape(-1).view(np.uint64)
    return words[(words + np.uint64(2**32)) > np.uint64(2**33)]


def secrets(case: Case, cipher: str) -> Iterator[tuple[str, Words]]:
    """Yield what may not be left of a call, by kind."""
    stream = case.stream(cipher)
    result = np.asarray(case.call(case.data, stream=stream))
    yield "result", words_of(result)
    yield "data", words_of(case.data)
    if result.shape == case.data.shape and result.dtype == np.int64:
        yield "noise", words_of(result - case.data)
    call = _core.Call(Keyed(stream.key, cipher))
    for chunk in range(2):
        for key in chunk_keys(cipher, stream.key, chunk):
            schedule = aes256.round_keys(key).tobytes() if cipher == "aes" else key
            yield "key", np.frombuffer(schedule, np.uint64)
        drawn = call.keystream(chunk, 0, 1 << 16)
        yield "keystream", np.frombuffer(drawn, np.uint64)


def memory(process: int) -> Iterator[Words]:
    """Yield all that a process can write to, except zeros."""
    maps = Path(f"/proc/{process}/maps").read_text()
    with Path(f"/proc/{process}/mem").open("rb") as whole:
        for begin, end in re.findall(r"^(\w+)-(\w+) rw", maps, re.M):
            at, stop = int(begin, 16), int(end, 16)
            while at < stop:
                try:
                    data = os.pread(whole.fileno(), stop - at, at)
                except OSError:  # a guard page of a stack, as glibc 2.42 has them
                    data = b""
                part = np.frombuffer(data, np.uint64)
                yield part[part != 0]
                at += len(data) or mmap.PAGESIZE


def left_of(level: str, cipher: str) -> Counter[tuple[str, str]]:
    """Return how many words of each case's secrets are found."""
    command = [sys.executable, "-m", "tests.differential.left_behind", level, cipher]
    names, parts = [], []
    # A function that the interpreter binds at its first call puts all vector registers
    # on the stack: that is before the calls.
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "LD_BIND_NOW": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        for case in cases():
            for kind, part in secrets(case, cipher):
                names.append((case.name, kind))
                parts.append(part)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        found = Counter[tuple[str, str]]()
        words = np.concatenate(parts)
        owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.argsort(words)
        words, owner = words[order], owner[order]
        for part in memory(child.pid):
            at = np.minimum(np.searchsorted(words, part), len(words) - 1)
            found.update(names[i] for i in owner[at[words[at] == part]])
        child.communicate("\n")
    return found


def check(level: str, cipher: str) -> None:
    found = left_of(level, cipher)
    most = SPILLED if cipher == "aes" else SPILLED_BY_CHACHA
    assert {what: n for what, n in found.items() if n > most[what[1]]} == {}


def test_calls_leave_nothing() -> None:
    cipher = "aes" if _core.cipher_available("aes") else "chacha20"
    check(_core.config()["cpu"], cipher)


@pytest.mark.slow
@pytest.mark.parametrize("cipher", ["aes", "chacha20"])
def test_calls_leave_nothing_at_any_level(level: str, cipher: str) -> None:
    if not _core.cipher_available(cipher):
        pytest.skip(f"no {cipher} instructions at this level")
    check(level, cipher)
