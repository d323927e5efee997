"""Tests draw fixed bytes: each outcome is a function of the test's name and the code.

A small library before the C library (Linux) fixes what the operating system gives,
anew for each fixture and each test; the threads of a test share its bytes in any order.
Hypothesis takes its examples from the test's name. A test that is marked `stat(p)`
draws fresh bytes and fails by chance with a probability of at most p; the sum of all p
is printed, and must be below `MOST`. With ``--fresh`` all tests draw fresh bytes.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MOST = 1e-9

_PLACE, _SEED = "FASTDP_TEST_RANDOMNESS", "FASTDP_TEST_SEED"
_SOURCE = Path(__file__).with_name("randomness.c")

_key, _started = "", 0


def _library() -> ctypes.CDLL | None:
    own = ctypes.CDLL(None)
    return own if hasattr(own, "fix_randomness") else None


_fixing = _library()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fresh", action="store_true", help="draw fresh randomness in all tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start again with the library before the C library, once."""
    config.addinivalue_line(
        "markers", "stat(p): draws fresh randomness; fails by chance with at most p"
    )
    if not config.getoption("--fresh"):
        _fix_examples()
    if hasattr(config, "workerinput") or os.environ.get(_PLACE) is not None:
        return
    made = None if config.getoption("--fresh") else _compiled()
    if made is None:
        return
    before = [os.environ[name] for name in ("LD_PRELOAD",) if os.environ.get(name)]
    os.environ["LD_PRELOAD"] = " ".join([*before, made])
    os.environ[_PLACE] = made
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend(in_=True)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _fix_examples() -> None:
    if importlib.util.find_spec("hypothesis") is not None:
        from hypothesis import settings

        settings.register_profile("fixed", derandomize=True, deadline=None)
        settings.load_profile("fixed")


def _compiled() -> str | None:
    """Return the path of the library in a folder of its own; None: not here."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux") or compiler is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix=_prefix()))
    folder.chmod(0o755)  # servers of tests run as other users
    made = folder / "randomness.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-pthread", "-o", made, _SOURCE]
    done = subprocess.run(command, capture_output=True, check=False)
    return str(made) if done.returncode == 0 else None


def _prefix() -> str:
    """Name the process that makes the folder, and removes it: none that it starts."""
    return f"fastdp-randomness-{os.getpid()}-"


def pytest_unconfigure() -> None:
    folder = Path(os.environ.get(_PLACE, "")).parent
    if folder.name.startswith(_prefix()):
        shutil.rmtree(folder, ignore_errors=True)


# ---- fixing ------------------------------------------------------------------------


def _fix(key: str) -> None:
    global _key, _started
    _key, _started = key, 0
    number = _number(key)
    if _fixing is not None:
        _fixing.fix_randomness(ctypes.c_uint64(number))
        os.environ[_SEED] = str(number)
    random.seed(number)
    np.random.seed(number % 2**32)


def _number(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")


def _free() -> None:
    if _fixing is not None:
        _fixing.free_randomness()
    os.environ.pop(_SEED, None)


def _watch(event: str, given: tuple[Any, ...]) -> None:
    """Give each program that a test starts a seed of its own; refuse to open devices
    that the library does not fix."""
    global _started
    if event not in ("subprocess.Popen", "open") or _SEED not in os.environ:
        return
    if event == "open":
        if str(given[0]) in ("/dev/random", "/dev/urandom"):
            raise RuntimeError(
                "mark the test stat(p): it opens the system's randomness"
            )
        return
    _started += 1
    os.environ[_SEED] = str(_number(f"{_key} {_started}"))


sys.addaudithook(_watch)


def _is_fresh(item: pytest.Item) -> bool:
    fresh = item.config.getoption("--fresh")
    return bool(fresh or item.get_closest_marker("stat"))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[object]:
    scope = request.node.nodeid
    name = f"{scope} {fixturedef.argname} {getattr(request, 'param_index', 0)}"
    if not request.config.getoption("--fresh"):
        _fix(name)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[object]:
    if _is_fresh(item):
        _free()
    else:
        _fix(item.nodeid)
    try:
        return (yield)
    finally:
        _free()


# ---- what is said at the end -------------------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark = item.get_closest_marker("stat")
        if mark is not None and not (mark.args and 0 < mark.args[0] < 1):
            raise pytest.UsageError(f"{item.nodeid}: stat must state a probability")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name, value in report.user_properties:
        if report.when == "call" and name == "randomness":
            _said.append(value)


_said: list[float | None] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Say how a test draws: None with fresh bytes unmarked, else its mark, or 0."""
    mark = item.get_closest_marker("stat")
    fixed = _fixing is not None and not item.config.getoption("--fresh")
    found = mark.args[0] if mark else 0.0 if fixed else None
    item.user_properties.append(("randomness", found))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    free = sum(p is None for p in _said)
    marked = [p for p in _said if p]
    text = (
        f"randomness: fixed in {_said.count(0.0)} tests, fresh in {len(marked)} that "
        f"fail by chance with {sum(marked):.1e} in all"
    )
    if free:
        text += (
            f", and in {free} of unstated chance (no compiler, not Linux or --fresh)"
        )
    terminalreporter.write_line(text)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if sum(p for p in _said if p) >= MOST:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
