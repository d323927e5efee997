"""Which cases run where.

The README's command runs each value of each parameter at least once at each level of
the kernels. `.ci/run rest` runs the other combinations and the tests of about a second
or more; both kinds are marked `rest`. Tests that measure time are marked `alone`;
`.ci/run timing` runs them one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest

from fastdp._core import LEVELS

pytest_plugins = ["tests.randomness"]

_LATER = {"slow", "rest"}
_TIMED = Path(__file__).parent / "timing"

#: One value of one parameter: the parameter's place, the value's identity, and the
#: level of the kernels if the test has one.
Part = tuple[object, ...]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _TIMED in item.path.parents:
            item.add_marker("alone")
    for _, group in itertools.groupby(
        items, key=lambda item: item.nodeid.split("[")[0]
    ):
        usual = [
            item for item in group if not _LATER & {m.name for m in item.iter_markers()}
        ]
        chosen = fewest([_parts(item) for item in usual])
        for place, item in enumerate(usual):
            if place not in chosen:
                item.add_marker("rest")


def fewest(cases: list[set[Part]]) -> set[int]:
    """Return places of few cases that have all parts, greedily; all, without parts."""
    missing = set[Part]().union(*cases)
    chosen = {place for place, parts in enumerate(cases) if not parts}
    while missing:
        best = max(range(len(cases)), key=lambda place: len(cases[place] & missing))
        chosen.add(best)
        missing -= cases[best]
    return chosen


def _parts(item: pytest.Item) -> set[Part]:
    """Return the values of the parameters of a case, each with its level."""
    found = getattr(item, "callspec", None)
    if found is None:
        return set()
    left = dict(found.params)
    together: list[Iterable[str]] = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0]
        together.append(names.split(",") if isinstance(names, str) else names)
    values = [tuple(left.pop(n.strip()) for n in names) for names in together]
    values += [(value,) for value in left.values()]
    is_level = [isinstance(v[0], str) and v[0] in LEVELS for v in values]
    level = [v[0] for v, is_one in zip(values, is_level, strict=True) if is_one]
    others = [
        (place, *map(id, v), *level)
        for place, (v, is_one) in enumerate(zip(values, is_level, strict=True))
        if not is_one
    ]
    return set(others) or {tuple(level)}
