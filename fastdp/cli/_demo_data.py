"""``fastdp demo --data DIR``: the small files that the documentation's examples read.

The visits are made up by arithmetic, without chance and without people. The health
records are real: the RAND Health Insurance Experiment, as statsmodels carries it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

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
    """Write the files and return their paths.

    ``visits.csv``, ``visits.parquet``, ``training.toml``, and, where statsmodels is
    there, ``health.parquet``.

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
    health = _health()
    names = ["visits.csv", "visits.parquet", "training.toml"]
    paths = [folder / name for name in (*names, *["health.parquet"] * bool(health))]
    for path in paths:
        if path.exists():
            raise FastDPError(f"{path} is there already: --data must not replace it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        csv.write_csv(table, paths[0])
        parquet.write_table(table, paths[1])
        paths[2].write_text(_EVENTS, encoding="utf-8")
        if health is not None:
            parquet.write_table(pa.table(health), paths[3])
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FastDPError(f"cannot write into {folder}: {reason}") from None
    return paths


def _health() -> dict[str, Any] | None:
    """Return the columns of 20,190 person-years, or None without statsmodels.

    The records name no person. Rows in sequence with the same limits and diseases hold
    whole persons, and sometimes several: what hides such a block hides each in it.
    """
    try:
        from statsmodels.datasets import randhie
    except ImportError:
        return None
    table = randhie.load_pandas().data
    share = np.rint(np.exp(table["lncoins"].to_numpy()) - 1).astype(int)
    block = table[["physlm", "disea"]]
    states = [table[name] == 1 for name in ("hlthg", "hlthf", "hlthp")]
    return {
        "person": (block != block.shift()).any(axis=1).cumsum().to_numpy(),
        "pays": np.char.add(share.astype(str), " %"),
        "health": np.select(states, ["good", "fair", "poor"], "excellent"),
        "visits": table["mdvis"].to_numpy().astype(np.int64),
    }
