"""No call takes two numbers by position that could be swapped unseen."""

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import fastdp
from tests.packaging.test_names import LISTING

#: Annotations of plain numbers, and of what may be broadcast from one.
NUMBER = re.compile(r"\b(Real|int|float|Fraction|Decimal|ArrayLike)\b")
#: What holds numbers but is none.
HOLDER = re.compile(r"Callable|Mapping|Iterable|Sequence|tuple|list|dict")

#: Public names of modules without a list.
UNLISTED = {"fastdp.mechanisms.pate": ["PATEDivergence"]}

#: Two numbers by position all the same, each with its reason.
ALLOWED = {
    "integers": "low and high, as everywhere; swapped ones are refused",
    "Audit": "a result, only read",
    "BudgetState": "a result, only read",
    "Transaction": "a result, only read",
}


def defined() -> Iterator[tuple[str, Any]]:
    """Yield every public function, class and method by name, each once."""
    seen: set[int] = set()
    for module in (fastdp, *map(importlib.import_module, [*LISTING, *UNLISTED])):
        for name in getattr(module, "__all__", UNLISTED.get(module.__name__, ())):
            value = getattr(module, name)
            if id(value) in seen:
                continue
            seen.add(id(value))
            if inspect.isfunction(value):
                yield name, value
            elif inspect.isclass(value) and not issubclass(
                value, (BaseException, enum.Enum)
            ):
                if not hasattr(value, "_fields"):  # a named tuple is only read
                    yield name, value
                for method in dir(value):
                    found = inspect.getattr_static(value, method)
                    found = getattr(found, "__func__", found)
                    if method[0] == "_" or not inspect.isfunction(found):
                        continue
                    if id(found) not in seen:
                        seen.add(id(found))
                        yield f"{name}.{method}", found


CALLABLES = dict(defined())


def numbers_by_position(function: Any) -> list[str]:
    """Return the parameters that are plain numbers and may come without a name."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        by_position = parameter.kind in (
            parameter.POSITIONAL_ONLY,
            parameter.POSITIONAL_OR_KEYWORD,
        )
        annotation = str(parameter.annotation)
        if by_position and NUMBER.search(annotation) and not HOLDER.search(annotation):
            found.append(parameter.name)
    return found


def test_the_callables_are_found():
    assert len(CALLABLES) > 200
    wanted = {"zcdp_epsilon", "LaplaceEvent", "SparseVector", "Laplace.from_epsilon"}
    assert wanted <= set(CALLABLES)


def test_numbers_are_recognized():
    def two(a: "Real", b: "int | None", *, c: float) -> None: ...  # noqa: F821

    def one(a: "Real", b: "tuple[Real, Real]", c: str) -> None: ...  # noqa: F821

    assert numbers_by_position(two) == ["a", "b"]
    assert numbers_by_position(one) == ["a"]


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_at_most_one_number_comes_by_position(name):
    found = numbers_by_position(CALLABLES[name])
    assert len(found) <= 1 or name in ALLOWED, found


def test_swapped_numbers_do_not_pass():
    from fastdp.accounting import GaussianEvent, conversions

    calls = [
        (conversions.zcdp_epsilon, (0.1, 1e-6), {}),
        (GaussianEvent, (2, 1), {}),
        (fastdp.Gaussian.from_epsilon_delta, (1e-6, 1.0), {"sensitivity": 1}),
        (fastdp.DiscreteLaplace.from_epsilon, (1, 5), {}),
        (fastdp.DiscreteLaplace(10, sensitivity=1).epsilon, (1e-6,), {}),
    ]
    for function, positional, named in calls:
        with pytest.raises(TypeError, match="positional argument"):
            function(*positional, **named)
