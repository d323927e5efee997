"""Small tables in and out, for the tests of ``fastdp release``.

An epsilon of 1000 makes the noise of the discrete mechanisms zero but for a
probability below 1e-400, so that a test can see how cells were read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdp.cli import _places, main

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SECRET = "7340193"
EXACT = ["--mechanism", "discrete-laplace", "--epsilon", "1000", "--sensitivity", "1"]
REAL = ["--mechanism", "laplace", "--epsilon", "1e6", "--sensitivity", "1"]


def release(source: Path, output: Path, *options: str) -> int:
    return main(["release", str(source), "-o", str(output), *options])


def place(path: Path) -> _places.Place:
    """Return the table at `path` as a command sees it."""
    return _places.table("REPORTS", str(path))


def write_csv(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def write_parquet(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    parquet.write_table(pa.table(columns), path, **options)
    return path


def read_parquet(path: Path) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
    return columns


def require_only(folder: Path, *names: str) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


#: Regions of `stays`, in the order of its records.
REGIONS = ["North", "East", "South", "West"]


def stays() -> Any:
    """Hospital records: four of each of 500 people, in a region and year each."""
    pd = pytest.importorskip("pandas")
    n = 2000
    row = np.arange(n)
    return pd.DataFrame(
        {
            "id": row // 4,
            "region": np.array(REGIONS)[row % 4],
            "sex": np.array(["F", "M"])[row // 4 % 2],
            "age": row % 90,
            "cost": np.where(row % 25 == 0, np.nan, row % 1000 * 1.0),
            "admitted": pd.Timestamp("2024-01-01") + pd.to_timedelta(row % 700, "D"),
        }
    )
