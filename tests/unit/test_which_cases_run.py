"""The README's command takes each value of a parameter at each level."""

from __future__ import annotations

import itertools

import pytest

from tests import conftest


def test_few_cases_have_all_parts() -> None:
    levels, laws, sizes = ("portable", "avx2"), range(7), range(5)
    cases: list[set[conftest.Part]] = [
        {("law", law, level), ("size", size, level)}
        for level, law, size in itertools.product(levels, laws, sizes)
    ]
    chosen = [cases[place] for place in conftest.fewest(cases)]
    assert set().union(*chosen) == set().union(*cases)
    assert len(chosen) == len(levels) * len(laws)


def test_cases_without_parameters_stay() -> None:
    assert conftest.fewest([set(), set()]) == {0, 1}
    assert conftest.fewest([]) == set()
    assert conftest.fewest([{("p", 1)}, {("p", 2)}]) == {0, 1}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("law", "scale"), [("a", 1), ("b", 1)])
@pytest.mark.parametrize("level", ["portable", "avx2"])
def test_combinations(
    request: pytest.FixtureRequest, level: str, law: str, scale: int, size: int
) -> None:
    here = request.function
    cases = [i for i in request.session.items if getattr(i, "function", None) is here]
    if len(cases) > 1:  # neither one chosen by name nor those of .ci/run rest
        usual = [c for c in cases if c.get_closest_marker("rest") is None]
        values = {
            (c.callspec.params["level"], c.callspec.params["size"]) for c in usual
        }
        assert len(values) in (0, 6)
