"""The level of the machine's instructions, restored after each test."""

from collections.abc import Callable, Iterator

import pytest

from fastdp import _core
from fastdp._core import LEVELS


@pytest.fixture
def at_level() -> Iterator[Callable[[str], None]]:
    """Put a level in force, or skip where the machine lacks it."""

    def put(level: str) -> None:
        if _core.limit_cpu(level) != level:
            pytest.skip(f"this processor (or FASTDP_CPU) has no {level}")

    yield put
    _core.limit_cpu(None)


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, at_level: Callable[[str], None]) -> str:
    at_level(request.param)
    return str(request.param)
