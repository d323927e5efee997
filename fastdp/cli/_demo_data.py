"""``fastdp demo --data DIR``: the small files that the documentation's examples read.

Made up by arithmetic, without chance and without people.
"""

from __future__ import annotations

from pathlib import Path

from fastdp.cli import _common
from fastdp.exceptions import FastDPError

#: Rows of the tables.
_ROWS = 500

_CLINICS = ("North", "East", "South", "West")
_BROWSERS = ("firefox", "chrome", "safari", "lynx")

_EVENTS = """\
delta = 1e-5
epsilon = 8

[[events]]
type = "PoissonSampled"
sampling_probability = 0.01
count = 10_000
event = { type = "Gaussian", sensitivity = 1, sigma = 1 }

[[events]]
type = "Laplace"
sensitivity = 1
scale = "100/3"
"""


def write(folder: Path) -> list[Path]:
    """Write ``visits.csv``, ``visits.parquet`` and ``training.toml``; return the paths.

    Raises
    ------
    FastDPError
        pyarrow is missing, a file is there already or cannot be written.
    """
    _common.require_pyarrow("demo --data")
    import pyarrow as pa
    from pyarrow import csv, parquet

    clinics = [_CLINICS[row % 4] for row in range(_ROWS)]
    visits = [(row * row // 7) % 12 for row in range(_ROWS)]
    browsers = [_BROWSERS[(row * 37 % 100) // 30] for row in range(_ROWS)]
    patients = [row // 2 for row in range(_ROWS)]
    table = pa.table(
        {
            "clinic": clinics,
            "visits": visits,
            "browser": browsers,
            "patient": patients,
        }
    )
    paths = [
        folder / name for name in ("visits.csv", "visits.parquet", "training.toml")
    ]
    for path in paths:
        if path.exists():
            raise FastDPError(f"{path} is there already: --data must not replace it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        csv.write_csv(table, paths[0])
        parquet.write_table(table, paths[1])
        paths[2].write_text(_EVENTS, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FastDPError(f"cannot write into {folder}: {reason}") from None
    return paths
