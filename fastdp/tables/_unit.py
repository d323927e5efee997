"""Whom a table hides, and how much of one of them counts."""

from __future__ import annotations

from typing import Any

from fastdp import _validate
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.ledger._terms import check_name

_MOST = 2**31


class Unit:
    """All records of one value of a column, such as one person's, are hidden.

    Parameters
    ----------
    column : str
        The column that says whose record it is. A record without one is left out.
    records : int
        At most how many records of one unit are kept, in each of its groups, chosen by
        a salted hash. More records mean more noise, fewer that records are left out.
    groups : int
        With groups: in at most how many of them one unit is kept.
    name : str, optional
        What a budget calls the unit; default `column`.

    Raises
    ------
    DTypeError, ParameterError
        A limit is missing or out of its range, or a name is none.

    Examples
    --------
    >>> import fastdp
    >>> fastdp.Unit("patient", groups=2, records=3)
    Unit('patient', records=3, groups=2)
    """

    __slots__ = ("_facts",)

    _facts: tuple[str, int, int | None, str]

    def __init__(
        self,
        column: str,
        *,
        records: int | None = None,
        groups: int | None = None,
        name: str | None = None,
    ) -> None:
        if not isinstance(column, str):
            raise DTypeError(f"column must be a str, got {type(column).__name__}")
        if records is None:
            raise ParameterError(
                "records must be given with a unit: at most how many records of one "
                f"{column} are kept in a group; more records mean more noise, fewer "
                "mean that records are left out"
            )
        named = check_name("name", column if name is None else name)
        if named == "row":
            raise ParameterError(
                'name must not be "row", which is the unit of a release without Unit'
            )
        kept = _validate.integer("records", records, 1, _MOST)
        most = None if groups is None else _validate.integer("groups", groups, 1, _MOST)
        self._facts = (column, kept, most, named)

    @property
    def column(self) -> str:
        """The column that says whose record it is."""
        return self._facts[0]

    @property
    def records(self) -> int:
        """How many records of one unit are kept in each group, at most."""
        return self._facts[1]

    @property
    def groups(self) -> int | None:
        """In how many groups one unit is kept, at most; None without groups."""
        return self._facts[2]

    @property
    def name(self) -> str:
        """What a budget calls the unit."""
        return self._facts[3]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unit) and self._facts == other._facts

    def __hash__(self) -> int:
        return hash(self._facts)

    def __repr__(self) -> str:
        column, records, groups, name = self._facts
        more = "" if groups is None else f", groups={groups}"
        more += "" if name == column else f", name={name!r}"
        return f"Unit({column!r}, records={records}{more})"


class Rows:
    """One row is hidden: no two rows belong to one unit, says the caller.

    Parameters
    ----------
    name : str
        Whose row it is: ``Rows("person")`` claims that no person has two rows, and is
        charged to budgets per person. "row" claims nothing about people.

    Raises
    ------
    DTypeError, ParameterError
        `name` is none.

    Examples
    --------
    >>> import fastdp
    >>> fastdp.Rows("person")
    Rows('person')
    """

    __slots__ = ("_name",)

    def __init__(self, name: str = "row") -> None:
        self._name = check_name("name", name)

    @property
    def name(self) -> str:
        """What a budget calls the unit."""
        return self._name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._name == other._name

    def __hash__(self) -> int:
        return hash((Rows, self._name))

    def __repr__(self) -> str:
        return f"Rows({self._name!r})"


def check_unit(unit: Any) -> Unit | Rows:
    """Return a unit; "row" is short for `Rows()`."""
    if isinstance(unit, (Unit, Rows)):
        return unit
    if isinstance(unit, str) and unit == "row":
        return Rows()
    if unit is None:
        raise ParameterError(
            'unit must be given: Unit("person", groups=2, records=5) hides a person '
            'with all their records, of which so many are kept; "row" hides one row'
        )
    raise DTypeError(
        'unit must be a Unit, Rows or "row", got '
        f"{unit!r}: Unit({unit!r}, groups=..., records=...)"
        if isinstance(unit, str)
        else f'unit must be a Unit, Rows or "row", got {type(unit).__name__}'
    )


def limits(unit: Unit | Rows, *, grouped: bool, listed: int | None) -> tuple[int, int]:
    """Return in how many groups one unit is, with how many records in each."""
    if isinstance(unit, Rows):
        return 1, 1
    if not grouped:
        if unit.groups is not None:
            raise ParameterError("groups must be left out of the unit without by")
        return 1, unit.records
    if unit.groups is None:
        raise ParameterError(
            f"groups must be given in the unit with by: in at most how many groups one "
            f"{unit.name} is kept, as in Unit({unit.column!r}, groups=2, "
            f"records={unit.records})"
        )
    most = unit.groups if listed is None else min(unit.groups, listed)
    return most, unit.records
