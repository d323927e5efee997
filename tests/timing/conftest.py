"""The timing loop in C, and one CPU for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from ctypes import CDLL
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import two_class as tc


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CDLL]:
    """The timing loop in C, on one CPU."""
    if tc.compiler() is None:
        pytest.skip("needs a C compiler")
    if sys.platform != "linux":
        pytest.skip("finds the core's functions by the symbols of an ELF file")
    before = None
    if hasattr(os, "sched_setaffinity"):
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(before)})
    yield tc.build(tmp_path_factory.mktemp("timing"))
    if before is not None:
        os.sched_setaffinity(0, before)
