"""Public categories, given by their number or by their names.

Names are strings or integers, in the order of the estimates. A value is compared with
the names without conversion; a value that is not a name has no place, like a number out
of range. Kernels get only the places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core, _validate
from fastdp._doorway import Leave, enter, is_data, keep_kind
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._keys import NULLS, key_column

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Categories as public functions take them: a number, or names.
Named: TypeAlias = "int | Sequence[str] | Sequence[int]"
Other: TypeAlias = "int | str | None"
Names: TypeAlias = "tuple[str, ...] | tuple[int, ...]"

#: Names that are integers have a smaller magnitude: saturated values are no names.
_FARTHEST = 2**62


class Categories:
    """The categories of a local mechanism.

    Parameters
    ----------
    categories : int, or sequence of str or of int
        Number of categories, in [2, most], or their names, each once.
    most : int
        Largest allowed number of categories.
    other : int or str, optional
        Category for values in none of the categories; given by name if they have names.

    Raises
    ------
    DTypeError, ParameterError
        Fewer than 2 or too many categories, names of mixed types, or a repeated name.
    """

    __slots__ = ("count", "names", "other", "places", "stand_in")

    count: int
    names: Names | None
    other: int | None  # place of the category for all other values
    stand_in: int  # `other` for the kernels: -1 for None
    places: dict[Any, int]  # place of each name

    def __init__(self, categories: Any, most: int, other: Any = None) -> None:
        self.count = count_categories(categories, most)
        self.names, self.places = None, {}
        if not isinstance(categories, (int, np.integer)):
            self.names = _checked_names(categories)
            self.places = {name: place for place, name in enumerate(self.names)}
        self.other = self._place_of(other)
        self.stand_in = -1 if self.other is None else self.other

    def _place_of(self, other: Any) -> int | None:
        if other is None:
            return None
        if self.names is None:
            return _validate.integer("other", other, 0, self.count - 1)
        if type(other) is not type(self.names[0]) or other not in self.places:
            raise ParameterError("other must be one of categories, or None")
        return self.places[other]

    @property
    def arguments(self) -> tuple[tuple[str, Any], ...]:
        """The constructor's arguments, for equality and JSON."""
        if self.names is None:
            return ("categories", self.count), ("other", self.other)
        other = None if self.other is None else self.names[self.other]
        return ("categories", self.names), ("other", other)

    def places_of(self, name: str, values: Any) -> tuple[Any, Leave]:
        """Return the places of values (-1 if a value is not a name) and their kind.

        Raises
        ------
        DTypeError
            The values have another type than the names.
        """
        assert self.names is not None
        if isinstance(self.names[0], str):
            if isinstance(values, str):
                return np.array(self.places.get(values, -1)), keep_kind(values)
            return self._places_of_text(name, values), keep_kind(values)
        if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
            return np.array(self.places.get(int(values), -1)), keep_kind(values)
        leave = keep_kind(values)
        if is_data(values):
            values, leave = enter(name, values, null=self._no_name())
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
            raise self._wrong(name, "integers")
        names = np.array(self.names, np.int64)
        order = np.argsort(names)
        at = np.searchsorted(names, values, sorter=order)
        place = order[np.minimum(at, self.count - 1)]
        found: _Array = np.where(names[place] == values, place, -1)
        _core.zero(place)
        return found, leave

    def _places_of_text(self, name: str, values: Any) -> _Array:
        shape = np.shape(values) if isinstance(values, np.ndarray) else None
        texts = self._texts(name, values)
        get = self.places.get
        found = np.fromiter((get(text, -1) for text in texts), np.int64, len(texts))
        return found if shape is None else found.reshape(shape)

    def _texts(self, name: str, values: Any) -> list[Any]:
        """Return values as a list of str and nulls."""
        if isinstance(values, (list, tuple)):
            texts = list(values)
        elif isinstance(values, np.ndarray) and values.dtype.kind in "UO":
            texts = values.reshape(-1).tolist()
        else:
            listed, known = key_column(name, values)
            pairs = zip(listed.tolist(), known.tolist(), strict=True)
            texts = [text if there else None for text, there in pairs]
        kinds = {*map(type, texts)}
        rest = {kind for kind in kinds if kind.__name__ not in NULLS}
        if not rest <= {str, np.str_} or (not rest and kinds - {type(None)}):
            raise self._wrong(name, "strings")
        return texts

    def _no_name(self) -> int:
        """Return a negative number that is not a name, to stand for nulls."""
        return next(n for n in range(-1, -self.count - 2, -1) if n not in self.places)

    @staticmethod
    def _wrong(name: str, wanted: str) -> DTypeError:
        return DTypeError(
            f"{name} must be {wanted}, as the names of the categories are"
        )


def count_categories(categories: Any, most: int) -> int:
    """Return the number of categories, between 2 and `most`.

    Raises
    ------
    DTypeError, ParameterError
        `categories` is neither a number nor a sequence of names, or out of range.
    """
    if is_data(categories) or isinstance(categories, np.ndarray):
        return _validate.integer("the number of categories", len(categories), 2, most)
    return _validate.integer("categories", categories, 2, most)


def _checked_names(categories: Any) -> Names:
    # An array of strings gives numpy's strings.
    given = [str(name) if isinstance(name, str) else name for name in categories]
    kinds = {*map(type, given)}
    if kinds != {str} and not kinds <= {int, np.int64, np.int32}:
        shown = ", ".join(sorted(kind.__name__ for kind in kinds)[:5])
        raise DTypeError(
            f"categories must be a number, or names: all str or all int; got {shown}"
        )
    names: Any = tuple(given) if kinds == {str} else tuple(map(int, given))
    if kinds != {str} and max(map(abs, names)) > _FARTHEST:
        raise ParameterError("categories must be within 2**62 on either side of 0")
    if len(set(names)) < len(names):
        seen: dict[Any, int] = {}
        for place, name in enumerate(names):
            if seen.setdefault(name, place) != place:
                raise ParameterError(
                    "categories must have each name once: numbers "
                    f"{seen[name]} and {place} are both {str(name)[:40]!r}"
                )
    checked: Names = names
    return checked
