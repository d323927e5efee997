"""Selections whose words tell nothing: the resolver must stay quick."""

from fractions import Fraction

import numpy as np

from fastdp import _exact_selection, _selection
from fastdp._exact_selection import Runner
from fastdp.testing import TapeStream


def test_a_leader_is_not_refined_with_every_rival() -> None:
    """All words 0: every rival needs more bits, the leader has had them."""
    runners: list[Runner] = []
    first_of = _exact_selection.first_of

    def kept(entered: list[Runner]) -> Runner:
        runners.extend(entered)
        return first_of(entered)

    _exact_selection.first_of = kept  # type: ignore[assignment]
    try:
        tape = TapeStream(np.zeros((1, 8 * 4096), np.uint8))
        choice = _selection.Choice(Fraction(1), np.zeros((1, 8)))
        _selection.race(choice, "gumbel", tape, 1)
    finally:
        _exact_selection.first_of = first_of
    assert len(runners) == 8
    assert max(runner.uniform.nbits for runner in runners) <= 600
