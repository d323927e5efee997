"""Other libraries on the same arrays: the ones that are installed.

Each line says whether the library's noise is exact and its randomness secure;
speed alone compares unlike things.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fastdp
from fastdp.cli import _rivals

GROUP = "rivals, n = {:.0e}, integer Laplace noise, scale 10"
SIZE = 10**5


@pytest.mark.parametrize("rival", _rivals.RIVALS, ids=lambda rival: rival.name)
def test_rival(measure: Callable[..., None], rival: _rivals.Rival) -> None:
    counts = np.arange(min(SIZE, rival.most), dtype=np.int64)
    call = _rivals.prepare(rival, counts)
    if call is None:
        pytest.skip(f"{rival.name} cannot be imported")
    measure(
        GROUP.format(counts.size),
        counts.size,
        call,
        exact=rival.exact,
        secure=rival.secure,
    )


def test_fastdp(measure: Callable[..., None]) -> None:
    counts = np.arange(SIZE, dtype=np.int64)
    mechanism = fastdp.DiscreteLaplace(scale=10)
    measure(
        GROUP.format(SIZE),
        SIZE,
        lambda: mechanism.release(counts),
        exact=True,
        secure=True,
    )


def test_numpy(measure: Callable[..., None], generator: np.random.Generator) -> None:
    counts = np.arange(SIZE, dtype=np.int64)

    def noised() -> object:
        return counts + np.rint(generator.laplace(0.0, 10.0, SIZE)).astype(np.int64)

    measure(GROUP.format(SIZE), SIZE, noised, exact=False, secure=False)
