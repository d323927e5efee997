"""``fastdp demo --data DIR``: small files for the documentation's examples.

The visits are computed by arithmetic, without chance, and are not about people. The
health records are real: the RAND Health Insurance Experiment, from statsmodels.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fastdp.cli import _common
from fastdp.exceptions import FileError

#: Number of rows of the visits, two for each patient.
_ROWS = 2000

#: Clinic of a patient by the last digit of the patient's number.
_CLINICS = (*["North"] * 4, *["East"] * 3, *["South"] * 2, "West")
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

    ``visits.csv`` and ``visits.parquet`` hold records: 1,000 patients with two rows
    each, both of one clinic. ``clinics.csv`` and ``clinics.parquet`` count the patients
    of each clinic, so that adding or removing a patient changes one count by 1. It also
    writes ``training.toml`` and, if statsmodels is installed, ``health.parquet``.

    Raises
    ------
    FastDPError
        pyarrow is missing, or a file exists already or cannot be written.
    """
    _common.require_pyarrow("demo --data")
    import pyarrow as pa
    from pyarrow import csv, parquet

    visits = [(row * row // 7) % 12 for row in range(_ROWS)]
    browsers = [_BROWSERS[(row * 37 % 100) // 30] for row in range(_ROWS)]
    patients = [row // 2 for row in range(_ROWS)]
    clinics = [_CLINICS[patient % 10] for patient in patients]
    names = list(dict.fromkeys(_CLINICS))
    once = [clinics[row] for row in range(0, _ROWS, 2)]
    counts = pa.table({"clinic": names, "patients": [once.count(n) for n in names]})
    table = pa.table(
        {
            "clinic": clinics,
            "visits": visits,
            "browser": browsers,
            "patient": patients,
        }
    )
    files = {
        "visits.csv": _bytes_of(csv.write_csv, table),
        "visits.parquet": _bytes_of(parquet.write_table, table),
        "clinics.csv": _bytes_of(csv.write_csv, counts),
        "clinics.parquet": _bytes_of(parquet.write_table, counts),
        "training.toml": _EVENTS.encode(),
    }
    health = _health()
    if health is not None:
        files["health.parquet"] = _bytes_of(parquet.write_table, pa.table(health))
    paths = {folder / name: content for name, content in files.items()}
    try:
        for path, content in paths.items():
            if path.exists() and not (path.is_file() and path.read_bytes() == content):
                raise FileError(
                    f"{path} already exists: --data must not replace another file"
                )
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in paths.items():
            path.write_bytes(content)
    except FileError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FileError(f"cannot write into {folder}: {reason}") from None
    return list(paths)


def _bytes_of(write_table: Callable[[Any, Any], object], table: Any) -> bytes:
    buffer = io.BytesIO()
    write_table(table, buffer)
    return buffer.getvalue()


def _health() -> dict[str, Any] | None:
    """Return the columns of 20,190 person-years, or None without statsmodels.

    The records do not name persons. A block of consecutive rows with the same limits
    and diseases contains all rows of one person, sometimes of several; so hiding a
    block hides each person in it.
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
