"""What happens when the operating system gives no randomness, or little at a time.

A library put before the C library replaces getrandom by one that fails, gives less
than was asked for, or is interrupted, as the environment variable FAULT says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHIM = r"""
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include <sys/syscall.h>

static unsigned long calls;

unsigned long getrandom_calls(void) { return calls; }

ssize_t getrandom(void *buf, size_t n, unsigned flags)
{
    const char *fault = getenv("FAULT");
    calls++;
    if (fault == NULL || flags != 0) { /* flags: the interpreter at its start */
        return syscall(SYS_getrandom, buf, n, flags);
    }
    if (strcmp(fault, "short") == 0 && n > 3) {
        n = 3;
    } else if (strcmp(fault, "interrupted") == 0 && calls % 3 != 0) {
        errno = EINTR;
        return -1;
    } else if (strcmp(fault, "error") == 0) {
        errno = EIO;
        return -1;
    } else if (strcmp(fault, "missing") == 0) {
        errno = ENOSYS;
        return -1;
    } else if (strcmp(fault, "nothing") == 0) {
        return 0;
    } else if (strcmp(fault, "late") == 0) { /* some bytes, then an error */
        if (n <= 16) {
            errno = EAGAIN;
            return -1;
        }
        n = 16;
    }
    return syscall(SYS_getrandom, buf, n, flags);
}
"""

FAILING = r"""
import os, sys
import numpy as np
import fastdp

R, ints, reals = fastdp.random, np.full(9000, 7340193), np.full(9000, 7340193.5)
m, w = fastdp.DiscreteLaplace(10), fastdp.DiscreteGaussian(2**40)
t, l, g = fastdp.TruncatedLaplace(10, bound=50), fastdp.Laplace(1), fastdp.Gaussian(1)
out, small, real_out = np.full(9000, 77), np.full(3, 77, np.int8), np.full(9000, 7.0)
deck = np.arange(50) + 1
calls = {
    "laplace": lambda: R.discrete_laplace(10),
    "laplace size": lambda: R.discrete_laplace(10, size=5),
    "laplace out": lambda: R.discrete_laplace(10, out=out),
    "laplace int8": lambda: R.discrete_laplace(10, out=small),
    "laplace workers": lambda: R.discrete_laplace(10, out=out, workers=2),
    "laplace each": lambda: R.discrete_laplace(np.array([1., 2, 3]), out=small),
    "gaussian out": lambda: R.discrete_gaussian(2**50, out=out),
    "integers": lambda: R.integers(5),
    "integers out": lambda: R.integers(5, out=out, workers=2),
    "bytes": lambda: R.bytes(50),
    "permutation": lambda: R.permutation(50),
    "shuffle": lambda: R.shuffle(deck),
    "allocate": lambda: R.allocate(50, steps=7, selected=2),
    "release scalar": lambda: m.release(5),
    "release": lambda: m.release(ints),
    "release out": lambda: m.release(ints, out=out),
    "release in place": lambda: w.release(ints, out=ints, workers=2),
    "truncated": lambda: t.release(np.int64(5)),
    "real scalar": lambda: l.release(5.0),
    "real out": lambda: g.release(reals, out=real_out),
    "real in place": lambda: l.release(reals, out=reals),
}
os.environ["FAULT"] = sys.argv[1]
for name, call in calls.items():
    out[:], small[:], real_out[:] = 77, 77, 7
    try:
        result = call()
    except fastdp.exceptions.EntropyError as error:
        assert isinstance(error, OSError)
        assert str(error) == "the operating system gave no randomness", error
    else:
        raise SystemExit(f"{name} returned a {type(result).__name__}")
    for array, used in ((out, "out"), (small, "int8"), (real_out, "real out")):
        if name.endswith(used) and not (used == "out" and name == "real out"):
            assert not array.any(), name
    if name == "laplace each" or name == "laplace workers":
        assert not (small if "each" in name else out).any(), name
assert not ints.any() and not reals.any()
assert not deck.any()
del os.environ["FAULT"]
assert m.release(np.zeros(100, int)).any()
print("ok")
"""

WORKING = r"""
import os, sys
import numpy as np
import fastdp

os.environ["FAULT"] = sys.argv[1]
seen = set()
for _ in range(200):
    one = fastdp.random.discrete_laplace(2**50)
    seen.add(int(one))
    seen.add(fastdp.random.bytes(8))
assert len(seen) == 400
x = fastdp.random.discrete_laplace(10, size=20_000, workers=2)
assert abs(x.mean()) < 1 and 13 < x.std() < 15.5
print("ok")
"""

COUNTING = r"""
import ctypes
import numpy as np
import fastdp

count = ctypes.CDLL(None).getrandom_calls
count.restype = ctypes.c_ulong
m, x = fastdp.DiscreteLaplace(10), np.zeros(3, int)
refused = [
    lambda: fastdp.random.discrete_laplace(-1, size=5),
    lambda: fastdp.random.discrete_gaussian(float("nan")),
    lambda: fastdp.random.discrete_laplace(np.array([1.0, -1.0])),
    lambda: fastdp.random.discrete_laplace(1, stream=5),
    lambda: fastdp.random.integers(5, 5),
    lambda: fastdp.random.bytes(-1),
    lambda: fastdp.random.permutation(1.5),
    lambda: fastdp.random.shuffle([1]),
    lambda: fastdp.random.discrete_laplace(1, out=[0]),
    lambda: fastdp.random.discrete_laplace(1, workers=0),
    lambda: fastdp.DiscreteLaplace(0),
    lambda: fastdp.Gaussian.from_rho(float("inf"), sensitivity=1),
    lambda: m.release([1.5]),
    lambda: m.release(1.5),
    lambda: m.release(x, out=np.zeros(3)),
    lambda: m.release(x, workers=0),
    lambda: m.release(5, workers="1"),
    lambda: fastdp.Laplace(1).release(x),
    lambda: m.epsilon(sensitivity=-1),
]
before = count()
for call in refused:
    try:
        call()
    except fastdp.FastDPError:
        pass
    else:
        raise SystemExit("not refused")
assert count() == before
for call in (lambda: m.release(x), lambda: m.release(5),
             lambda: fastdp.random.discrete_laplace(1, size=50_000, workers=2)):
    before = count()
    call()
    assert count() == before + 1
print("ok")
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and LD_PRELOAD")
    folder = tmp_path_factory.mktemp("shim")
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(SHIM)
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source)],
        check=True,
    )
    return library


def run(shim: Path, code: str, *arguments: str) -> None:
    # a sanitizer's own library, if any, must stay the first
    fixed = os.environ.get("FASTDP_TEST_RANDOMNESS")
    others = [p for p in os.environ.get("LD_PRELOAD", "").split() if p != fixed]
    preload = " ".join([*others, str(shim)])
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env={**os.environ, "LD_PRELOAD": preload, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "ok", done.stderr


@pytest.mark.parametrize("fault", ["error", "missing", "nothing", "late"])
def test_failure_gives_zeros_and_nothing_else(shim: Path, fault: str) -> None:
    run(shim, FAILING, fault)


@pytest.mark.parametrize("fault", ["short", "interrupted"])
def test_short_reads_are_completed(shim: Path, fault: str) -> None:
    run(shim, WORKING, fault)


def test_refused_calls_draw_nothing_and_others_draw_one_key(shim: Path) -> None:
    run(shim, COUNTING)
