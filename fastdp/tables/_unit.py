"""The unit that a table hides, and the limits on its records."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp import _validate
from fastdp._doorway import is_data
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.ledger._terms import check_name

_MOST = 2**31


class Unit:
    """A unit: all records with one value of a column, such as one person's.

    Parameters
    ----------
    column : str, or column of data
        Name of the column that identifies the unit of each record; for functions of
        columns, such as ``fastdp.mean``, the column itself. A record without a unit is
        left out.
    records : int
        Maximum number of records of one unit that are kept in each of its groups,
        chosen by a salted hash. A larger limit adds noise; a smaller one leaves out
        more records.
    groups : int
        With groups: maximum number of groups in which one unit is kept.
    name : str, optional
        Name of the unit in budgets; default: the name of the column.

    Raises
    ------
    DTypeError, ParameterError
        A limit is missing or out of its range, or a name is not valid.

    Examples
    --------
    >>> import fastdp
    >>> fastdp.Unit("patient", groups=2, records=3)
    Unit('patient', records=3, groups=2)
    """

    __slots__ = ("_facts",)

    _facts: tuple[Any, int, int | None, str | None]

    def __init__(
        self,
        column: Any,
        *,
        records: int | None = None,
        groups: int | None = None,
        name: str | None = None,
    ) -> None:
        if not (isinstance(column, (str, np.ndarray)) or is_data(column)):
            raise DTypeError(
                "column must be a str, or a column of data for a function of columns, "
                f"got {type(column).__name__}"
            )
        own = column if isinstance(column, str) else getattr(column, "name", None)
        if records is None:
            raise ParameterError(
                "records must be given with a unit: at most how many records of one "
                f"{name or own or 'unit'} are kept in a group; more records mean more "
                "noise, fewer mean that records are left out. Plan.check(data) "
                "shows the owner of the data what each limit leaves out"
            )
        named = name
        if name is not None or isinstance(own, str):
            named = check_name("name", own if name is None else name)
        if named == "row":
            raise ParameterError(
                'name must not be "row", which is the unit of a release without Unit'
            )
        kept = _validate.integer("records", records, 1, _MOST)
        most = None if groups is None else _validate.integer("groups", groups, 1, _MOST)
        self._facts = (column, kept, most, named)

    @property
    def column(self) -> Any:
        """The column that identifies the unit of each record: its name, or the data."""
        return self._facts[0]

    @property
    def records(self) -> int:
        """Maximum number of records of one unit that are kept in each group."""
        return self._facts[1]

    @property
    def groups(self) -> int | None:
        """Maximum number of groups in which one unit is kept; None without groups."""
        return self._facts[2]

    @property
    def name(self) -> str:
        """The name of the unit in budgets; "user" if no name was given."""
        return self._facts[3] or "user"

    def named(self, column: str, *, charged: bool) -> Unit:
        """Return the unit with its data replaced by the name of the column."""
        data, records, groups, name = self._facts
        if isinstance(data, str):
            raise DTypeError(
                f"the unit must have the column itself here, not its name: Unit(df"
                f"[{data!r}], ...), or use a Plan for a whole frame"
            )
        if name is None and charged:
            raise ParameterError(
                "name must be given in the unit with a ledger, because "
                'its budgets are per unit: Unit(..., name="person")'
            )
        return Unit(column, records=records, groups=groups, name=self.name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Unit) or self._facts[1:] != other._facts[1:]:
            return False
        named = isinstance(self.column, str) and isinstance(other.column, str)
        return self.column == other.column if named else self.column is other.column

    def __hash__(self) -> int:
        return hash(self._facts[1:])

    def __repr__(self) -> str:
        column, records, groups, name = self._facts
        shown = repr(column) if isinstance(column, str) else "..."  # never show data
        more = "" if groups is None else f", groups={groups}"
        named = name is not None and not (isinstance(column, str) and name == column)
        more += f", name={name!r}" if named else ""
        return f"Unit({shown}, records={records}{more})"


class Rows:
    """A unit of one row; the caller asserts that no two rows belong to one unit.

    Parameters
    ----------
    name : str
        The owner of a row: ``Rows("person")`` claims that no person has two rows, and
        is charged to budgets per person. "row" claims nothing about people.

    Raises
    ------
    DTypeError, ParameterError
        `name` is not a valid name.

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
        """Name of the unit in budgets."""
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
            'unit must be given: Unit("person", groups=2, records=5) '
            "hides a person with all their records, and keeps at most 5 "
            'records in each of 2 groups; "row" hides one row'
        )
    raise DTypeError(
        'unit must be a Unit, Rows or "row", got '
        f"{unit!r}: Unit({unit!r}, groups=..., records=...)"
        if isinstance(unit, str)
        else f'unit must be a Unit, Rows or "row", got {type(unit).__name__}'
    )


def limits(unit: Unit | Rows, *, grouped: bool, listed: int | None) -> tuple[int, int]:
    """Return the maximum number of groups of a unit, and of its records in each."""
    if isinstance(unit, Rows):
        return 1, 1
    if not grouped:
        if unit.groups is not None:
            raise ParameterError("groups must be left out of the unit without by")
        return 1, unit.records
    if unit.groups is None:
        raise ParameterError(
            f"groups must be given in the unit with by: in at most how many groups one "
            f"{unit.name} is kept, as in Unit(..., groups=2, records={unit.records})"
        )
    most = unit.groups if listed is None else min(unit.groups, listed)
    return most, unit.records
