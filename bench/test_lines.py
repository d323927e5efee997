"""Every line of ``fastdp bench`` at several lengths, ours and numpy's.

Noise at three: within the first cache, within the last, and far beyond it, where
memory is the limit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from fastdp.cli import bench

#: Arrays of this length, numpy's temporaries included, need so much memory.
LARGE = 10**8
_LARGE_BYTES = 4 * 2**30

SIZES = {
    "kernels": (10**3, 10**6, LARGE),
    "local": (10**5, 10**7),
    "selection": (10**4, 10**6),
}
#: At the longest length a few lines do, one for each kernel.
_LONG = tuple(
    f"discrete_{law}={value}"
    for law in ("laplace scale", "gaussian sigma")
    for value in ("10", "1e+06")
)


def lines() -> Iterator[Any]:
    """Yield table, place of the line and size: the lines hold large arrays."""
    for table, sizes in SIZES.items():
        names = [case.name for case in bench.TABLES[table](1000)]
        for size in sizes:
            for place, name in enumerate(names):
                if size < LARGE or name in _LONG:
                    yield pytest.param(table, place, size, id=f"{name}-n{size}")


@pytest.mark.parametrize("side", ["fastdp", "numpy"])
@pytest.mark.parametrize(("table", "place", "size"), list(lines()))
def test_line(
    measure: Callable[..., None], table: str, place: int, size: int, side: str
) -> None:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size >= LARGE and free < _LARGE_BYTES:
        pytest.skip("not enough free memory for arrays of this length")
    case = next(islice(bench.TABLES[table](size), place, None))
    measure(
        f"{table}, n = {size:.0e}, {case.name}",
        case.size * case.loops,
        case.ours if side == "fastdp" else case.numpy,
        random_bytes_per_sample=case.random_bytes if side == "fastdp" else None,
    )
