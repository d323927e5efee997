"""Reports written by tasks: each attempt writes its own file, and one is kept.

An engine may run a task twice, and one attempt may still be writing when the other has
been read. So each attempt has its own file name; the engine returns the names of the
attempts that count, and all other files are removed before the folder is visible.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fastdp.frames import _reports, _tables, _written
from fastdp.mechanisms.local._base import FrequencyOracle


def drawn(folder: str, laws: Mapping[str, FrequencyOracle], frame: Any) -> str:
    """Write the reports of a task's rows with fixed width; return the file name."""
    from pyarrow import parquet

    if _tables.is_of(frame, "pandas", "DataFrame"):
        frame = _tables.arrow().Table.from_pandas(frame)
    name = f"{uuid.uuid4().hex}.parquet"
    table = _reports.randomized(frame, laws)
    place = Path(folder, name)
    parquet.write_table(table, place, compression="none", use_dictionary=False)
    return name


def write_once(
    path: Path, run: Callable[[str], Iterable[str]], laws: Any, charge: dict[str, Any]
) -> None:
    """Run the tasks and store their files once under `path`, in the order of names.

    `run` gets the folder for `drawn` and returns the file names that count.
    """

    def write(staged: Path) -> None:
        attempts = staged / "_attempts"
        attempts.mkdir(parents=True)
        for place, name in enumerate(run(str(attempts))):
            (attempts / name).rename(staged / f"part-{place:06d}.parquet")
        shutil.rmtree(attempts)

    _written.write_once(path, write, laws, **charge)
