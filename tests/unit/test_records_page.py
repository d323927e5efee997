"""docs/records.md: its steps run, and cost what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.mark.rest
def test_the_walk(ran: Callable[[str], Any]) -> None:
    pytest.importorskip("statsmodels")
    names, folder = ran("docs/records.md")
    users, keys, shown = names["users"], names["keys"], names["shown"]
    # No user has a second key, or more than three records.
    assert np.unique(users, return_counts=True)[1].max() <= 3
    pairs = {*zip(users.tolist(), keys.tolist(), strict=True)}
    assert len(pairs) == len(set(users.tolist()))
    assert shown.tolist() == sorted(shown.tolist())
    # Every group of 200 users is shown: the table of probabilities has ended.
    large = {k for k in names["present"] if sum(key == k for _, key in pairs) > 200}
    assert large
    assert large <= set(shown.tolist())
    assert 1 < names["epsilon"] <= 1.5
    inside = 0
    for i, key in enumerate(shown):
        mean = names["visits"][keys == key].clip(0, 50).mean()
        low, high = names["release"].mean_interval(1 - 1e-11)
        inside += low[i] <= mean <= high[i]
    assert inside == len(shown)  # false alarm below 1e-9
    assert (folder / "visits.png").stat().st_size > 5000
    call = names["means"]
    assert call.unit == "block"
    groups = [key for (key,) in call.groups()]
    assert groups == sorted(groups)
    assert len(groups) > 3
    assert 1 < call.epsilon(delta=1e-6) <= 1.5
    assert names["columns"]["key"].tolist() == groups
    assert (folder / "groups.png").stat().st_size > 5000
