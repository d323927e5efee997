"""Reports that tasks write: each attempt a file of its own, of which one is taken.

An engine may run a task twice, and the loser may still be writing when the winner has
been read. So no two attempts share a name, the winners are those whose names the engine
handed back, and what the others wrote is gone before anything can be seen.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fastdp.frames import _release, _tables, _written
from fastdp.mechanisms.local._base import FrequencyOracle


def drawn(folder: str, laws: Mapping[str, FrequencyOracle], frame: Any) -> str:
    """Write the reports of a task's rows, plain and of fixed width; return the file."""
    from pyarrow import parquet

    if _tables.is_of(frame, "pandas", "DataFrame"):
        frame = _tables.arrow().Table.from_pandas(frame)
    name = f"{uuid.uuid4().hex}.parquet"
    table = _release.randomized(frame, laws)
    place = Path(folder, name)
    parquet.write_table(table, place, compression="none", use_dictionary=False)
    return name


def write_once(
    path: Path, run: Callable[[str], Iterable[str]], laws: Any, charge: dict[str, Any]
) -> None:
    """Have the tasks' files written once under `path`, in the order of `run`'s names.

    `run` takes the folder for `drawn`, and returns the names that the engine kept.
    """

    def write(staged: Path) -> None:
        attempts = staged / "_attempts"
        attempts.mkdir(parents=True)
        for place, name in enumerate(run(str(attempts))):
            (attempts / name).rename(staged / f"part-{place:06d}.parquet")
        shutil.rmtree(attempts)

    _written.write_once(path, write, laws, **charge)
