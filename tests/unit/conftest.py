"""What the tests of the documentation's pages share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tools.docs import blocks


class Ran(NamedTuple):
    """The names that a page's Python left, and the folder in which it ran."""

    names: dict[str, Any]
    folder: Path


@pytest.fixture(scope="session")
def ran(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], Ran]]:
    """A function that runs a page, given by its path, once."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    done: dict[str, Ran] = {}

    def page(name: str) -> Ran:
        if name not in done:
            folder = tmp_path_factory.mktemp("page")
            done[name] = Ran(blocks.run(blocks.ROOT / name, folder), folder)
        return done[name]

    yield page
    for each in done.values():  # connections that Python's own functions hold
        each.names.clear()
