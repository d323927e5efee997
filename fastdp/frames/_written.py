"""Reports of rows as files, written to a hidden folder that is then renamed."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fastdp.accounting.events._composite import composed
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.ledger import Ledger
from fastdp.ledger._terms import canonical, law_of
from fastdp.mechanisms.local._base import FrequencyOracle

#: Characters that file readers take for a pattern.
_PATTERN = set("[]{}*?\\")

#: File with a ledger's receipts in a folder; readers skip names with an underscore.
_RECEIPTS = "_receipts.json"


def checked_path(path: object) -> Path:
    """Return the absolute path of a folder to write."""
    if not isinstance(path, (str, os.PathLike)):
        raise DTypeError(
            f"path must be a folder to write, got {type(path).__name__}: "
            "the reports that an engine draws are written before anybody "
            "reads them"
        )
    text = os.fspath(path)
    if isinstance(text, bytes) or "://" in text or _PATTERN & set(text):
        raise ParameterError(
            "path must be a folder that this machine and all workers see under one "
            f"plain name: no address, none of []{{}}*?\\; got {text!r}"
        )
    return Path(text).absolute()


def write_once(
    path: Path,
    write: Callable[[Path], object],
    laws: Mapping[str, FrequencyOracle],
    ledger: Ledger | None,
    label: str | None,
    budgets: Any,
) -> None:
    """Write a folder under another name and rename it, unless it exists already.

    Parameters
    ----------
    path : Path
        From `checked_path`.
    write : callable
        Called with the path of a new folder next to `path`; it draws and writes the
        reports, with columns of fixed width and without compression.
    laws : dict of str to local randomizer
        The randomizer of each column.
    ledger, label, budgets
        Ledger, label and budgets of the charge. Without a ledger the folder must not
        exist.
    """
    if ledger is None:
        if path.exists():
            raise ParameterError(
                f"path must not exist without a ledger, but {path} does: "
                "drawing the reports again would be another release"
            )
        staged = path.with_name(f".{path.name}.staging-{uuid.uuid4().hex}")
        try:
            write(staged)
            staged.rename(path)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        return

    def draw(staged: Path, receipts: str) -> None:
        write(staged)
        (staged / _RECEIPTS).write_text(receipts, "utf-8")

    ledger.write(
        path,
        draw,
        event=composed(m.event() for m in laws.values()),
        label=label or "",
        budgets=budgets or (),
        facts={"columns": canonical({name: law_of(m) for name, m in laws.items()})},
    )
