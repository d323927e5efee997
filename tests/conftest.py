"""Tests side by side (pytest-xdist), and those that measure time alone."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["tests.randomness"]

_TIMED = Path(__file__).parent / "timing"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Hold a lock that all workers share; a test that measures time holds it alone."""
    run = getattr(item.config, "workerinput", {}).get("testrunuid")
    if run is None:
        return (yield)
    alone = _TIMED in item.path.parents or item.get_closest_marker("alone")
    with (Path(tempfile.gettempdir()) / f"fastdp-tests-{run}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        return (yield)
