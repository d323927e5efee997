"""Reports of rows as files: drawn into a staged folder, seen under their name alone."""

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

#: What readers of files take for a pattern.
_PATTERN = set("[]{}*?\\")

#: Where the receipts of a ledger lie in a folder; readers skip the underscore.
_RECEIPTS = "_receipts.json"


def checked_path(path: object) -> Path:
    """Return a folder to be written, by its absolute path."""
    if not isinstance(path, (str, os.PathLike)):
        raise DTypeError(
            f"path must be a folder to write, got {type(path).__name__}: what an "
            "engine draws is written before anybody reads it"
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
    """Have a folder written and put in its place, or find it there.

    Parameters
    ----------
    path : Path
        Of `checked_path`.
    write : callable
        Called with a folder beside it that is not there: draws, and writes the reports
        with columns of fixed width and without compression.
    laws : dict of str to local randomizer
        What is drawn.
    ledger, label, budgets
        Where it is charged. Without a ledger the folder must not exist.
    """
    if ledger is None:
        if path.exists():
            raise ParameterError(
                f"path must not exist without a ledger, {path} does: reports that are "
                "drawn again are another release"
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
