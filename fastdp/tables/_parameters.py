"""The parameters of a plan: bounds, edges, quantiles and public groups, checked."""

from __future__ import annotations

import difflib
import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from fastdp import _validate
from fastdp._doorway import is_data
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _kinds
from fastdp.mechanisms._keys import items_of
from fastdp.mechanisms.records.moments import check_bounds

if TYPE_CHECKING:
    import pyarrow as pa

#: What to write instead of a keyword that there is not.
_INSTEAD = {
    "bins": "the edges of a histogram, histogram(x, [0, 10, 20]) or Plan(histogram="
    "{column: edges}), are public",
    "weights": 'a weighted mean is a ratio of sums: Plan(sum=["wx", "w"], '
    '...).release(data).ratio("wx_sum", "w_sum")',
    "title": "draw with fastdp.plot.intervals(release, title=...)",
    "user": "unit=Unit(person, groups=..., records=...) names whom to hide",
    "groups": "give it in the unit: Unit(..., groups=...)",
    "records": "give it in the unit: Unit(..., records=...)",
    "neighboring_relation": "units are added or removed, always",
    "min_count": "small groups are hidden by Release.table(suppress_below=...)",
}

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Refuse more noisy counts than this in the trees of all public groups: 512 MiB.
_MOST_NODES = 2**26


def spelled(
    name: str, shown: inspect.Signature | None = None
) -> Callable[[_Function], _Function]:
    """Return a decorator that refuses other keywords and names the way out.

    In messages the function has the name `name`, and its signature is `shown`.
    """

    def of(function: _Function) -> _Function:
        whole = shown or inspect.signature(function)
        known = [word for word in whole.parameters if word != "self"]

        @functools.wraps(function)
        def called(*given: Any, **words: Any) -> Any:
            for word in words:
                if word not in known:
                    near = difflib.get_close_matches(word, known, 1)
                    listed = f"is it {near[0]}?" if near else ", ".join(known)
                    raise DTypeError(
                        f"{name} has no argument {word!r}: {_INSTEAD.get(word, listed)}"
                    )
            return function(*given, **words)

        called.__signature__ = whole  # type: ignore[attr-defined]
        return cast(_Function, called)

    return of


def checked_bool(name: str, value: object) -> bool:
    """Return `value` if it is a bool; refuse anything else."""
    if not isinstance(value, bool):
        raise DTypeError(f"{name} must be a bool, got {type(value).__name__}")
    return value


def checked_bounds(
    bounds: Any, values: tuple[str, ...]
) -> dict[str, tuple[float, float]]:
    """Return the checked bounds of the columns `values`."""
    given = {} if bounds is None else bounds
    if not isinstance(given, Mapping):
        raise DTypeError("bounds must be a dict of (low, high) by column")
    for name in values:
        if name not in given:
            raise ParameterError(
                f"bounds must be given for {name!r}: public numbers, chosen without "
                "the data"
            )
    for name in given:
        if name not in values:
            raise ParameterError(
                f"bounds must be for a column of a statistic, not {name!r}"
            )
    return {name: check_bounds(given[name]) for name in values}


def checked_quantiles(
    quantiles: Any, median: tuple[str, ...]
) -> dict[str, tuple[Fraction, ...]]:
    """Return the requested quantiles of each column, in the order given."""
    if not isinstance(quantiles, Mapping):
        raise DTypeError("quantiles must be a dict of numbers by column")
    least, found = Fraction(1, 2**20), {}
    for name in dict.fromkeys([*quantiles, *median]):
        given = quantiles.get(name, ())
        both = name in median and name in quantiles
        if both or isinstance(given, (str, bytes, Mapping)):
            raise ParameterError(
                f"quantiles of {name!r} must be numbers such as [0.25, "
                "0.5, 0.75]; 0.5 is the median: give it here or in "
                "median, not in both"
            )
        listed = given if isinstance(given, (Sequence, np.ndarray)) else [given]
        exact = [
            _validate.between("quantiles", _validate.least_reading(q), least, 1 - least)
            for q in (listed if name in quantiles else [Fraction(1, 2)])
        ]
        if not exact or len({*exact}) < len(exact):
            raise ParameterError(
                f"quantiles of {name!r} must have at least one number, "
                "without duplicates"
            )
        found[str(name)] = tuple(exact)
    return found


def quantile_name(name: str, q: Fraction) -> str:
    """Return the column of a quantile: NAME_median, NAME_q25, NAME_q97.5."""
    return f"{name}_median" if q == Fraction(1, 2) else f"{name}_q{float(100 * q):.12g}"


def count_of(keys: Any) -> int:
    """Return the number of public groups."""
    return len(next(iter(keys.values()))) if isinstance(keys, dict) else keys.num_rows


def require_few(keys: Any, nodes: int) -> None:
    """Refuse public groups whose trees do not fit in memory together."""
    if keys is not None and count_of(keys) * nodes > _MOST_NODES:
        raise ParameterError(
            f"keys must be at most {_MOST_NODES // nodes} groups with "
            f"trees of {nodes} counts: use fewer cells, such as cells=256"
        )


def checked_edges(histogram: Any) -> dict[str, tuple[float, ...]]:
    """Return the checked bin edges of each column."""
    if not isinstance(histogram, Mapping):
        raise DTypeError("histogram must be a dict of edges by column")
    found = {}
    for name, edges in histogram.items():
        found[name] = tuple(_validate.double("edges", edge) for edge in edges)
        rising = all(low < high for low, high in itertools.pairwise(found[name]))
        if len(found[name]) < 2 or not rising:
            raise ParameterError("edges must be at least two increasing numbers")
    return found


def listed_keys(keys: Any, by: tuple[str, ...]) -> dict[str, list[Any]] | pa.Table:
    """Return public groups as columns in the given order; a frame becomes a table."""
    if not isinstance(keys, Mapping) and is_column(keys):
        if len(by) != 1:
            raise ParameterError(
                f"keys must be a dict with a list for each of {', '.join(by)}, or a "
                "frame, got a list"
            )
        keys = {by[0]: keys}
    if not isinstance(keys, Mapping):
        found = _kinds.read("keys", keys, by)
    elif {*keys} != {*by} or not all(map(is_column, keys.values())):
        raise ParameterError(
            f"keys must be a dict with a list for each of {', '.join(by)}"
        )
    else:
        columns = [_items(keys[name]) for name in by]
        rows = list(itertools.product(*columns))
        found = {name: [row[i] for row in rows] for i, name in enumerate(by)}
    if not count_of(found):
        raise ParameterError(
            "keys must list at least one group, without duplicates or nulls"
        )
    return found


def is_column(keys: Any) -> bool:
    """Return whether `keys` is one column, of numpy or another library."""
    frame = hasattr(keys, "columns")
    return isinstance(keys, np.ndarray) or (is_data(keys) and not frame)


def _items(keys: Any) -> list[Any]:
    return list(keys) if isinstance(keys, (list, tuple)) else items_of(keys)
