"""Pictures that the pages' own code makes, shown where a comment asks for them.

    <!-- picture: groups.png | means by plan, with intervals -->

A code host shows nothing there; the site runs the page and shows the file.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import tempfile
import warnings
from pathlib import Path

from . import blocks

_ASKED = re.compile(r"^<!-- picture: (\S+) \| (.*?) -->$", re.M)


def shown(page: Path, text: str, there: Path) -> str:
    """Return a page's text with its pictures, which are put beside `there`."""
    if not _ASKED.search(text):
        return text
    quiet = contextlib.redirect_stdout(io.StringIO())
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(), quiet:
        warnings.simplefilter("ignore")
        blocks.run(page, Path(name))
        for file, _ in _ASKED.findall(text):
            shutil.copy(Path(name) / file, there.with_name(f"{there.stem}-{file}"))
    return _ASKED.sub(rf"![\2]({there.stem}-\1)", text)
