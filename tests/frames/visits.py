"""A table of visits, and a plan for it, that the tests of plans share."""

from __future__ import annotations

from typing import Any

import pytest

from fastdp import Plan, Unit

pa = pytest.importorskip("pyarrow")

VISITS = pa.table(
    {
        "user": [i // 3 for i in range(3000)],
        "town": [f"t{i % 3}" for i in range(3000)],
        "cost": [float(i % 40) for i in range(3000)],
    }
)
KEYS = ["t9", "t0", "t1", "t2"]
ASK: dict[str, Any] = {
    "unit": Unit("user", groups=3, records=1),
    "by": "town",
    "count": True,
    "mean": "cost",
    "bounds": {"cost": (0, 50)},
}


def released(source: Any = VISITS, **options: Any) -> Any:
    where = ("ledger", "label", "budgets", "memory", "progress", "stream")
    own = {name: options.pop(name) for name in where if name in options}
    return Plan(**{**ASK, **options}).release(source, **own)
