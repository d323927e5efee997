"""Audits in these tests wait 2 seconds for a call and read a planted clock."""

import pytest

from fastdp.audit import _time, _worker
from tests.audit import planted_calls


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_worker, "PATIENCE", 2.0)
    monkeypatch.setattr(_time, "clock", planted_calls.clock)
