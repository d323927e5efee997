"""`Report`: several private tables about one unit, with a single charge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import Event
from fastdp.accounting.events._composite import composed
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _tables
from fastdp.ledger import Ledger
from fastdp.ledger._terms import check_name
from fastdp.tables import _run, _words
from fastdp.tables._plan import Plan
from fastdp.tables._release import Release
from fastdp.tables._unit import Rows, Unit


class Report:
    """Several tables that hide the same unit, with one charge for all or none.

    Parameters
    ----------
    tables : dict of str to Plan
        The tables by name: 1 to 200 printable ASCII characters without a slash. Their
        budgets add up.

    Raises
    ------
    DTypeError, ParameterError
        There is no table, a name is invalid, or two tables hide different units.

    Privacy
    -------
    The guarantee is `event()`, the composition of the tables' events, for units added
    or removed: the neighboring relation. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> patient = fastdp.Unit("patient", records=3)
    >>> report = fastdp.Report({
    ...     "total": fastdp.Plan(unit=patient, units=True, epsilon=0.5),
    ...     "ages": fastdp.Plan(
    ...         unit=patient, mean="age", bounds={"age": (0, 120)}, epsilon=1
    ...     ),
    ... })
    >>> report.epsilon()
    1.5
    """

    def __init__(self, tables: Mapping[str, Plan]) -> None:
        if not isinstance(tables, Mapping):
            raise DTypeError(
                f"tables must be a dict of Plans by name, got {type(tables).__name__}"
            )
        for name, plan in tables.items():
            if "/" in check_name("a name of tables", name):
                raise ParameterError(f"names of tables must have no '/', got {name!r}")
            if not isinstance(plan, Plan):
                raise DTypeError(
                    f"tables must hold Plans, {name!r} is of type {type(plan).__name__}"
                )
        if not tables:
            raise ParameterError("tables must have one Plan or more")
        first, *rest = tables
        for name in rest:
            if tables[name].unit.name != tables[first].unit.name:
                raise ParameterError(
                    f"tables must have the same unit: {first!r} is per "
                    f"{tables[first].unit.name!r}, {name!r} per "
                    f"{tables[name].unit.name!r}; their guarantees do not "
                    "add up: make a Report for each unit, or give both "
                    "units the name of the budget"
                )
        self._tables = dict(tables)

    @property
    def tables(self) -> dict[str, Plan]:
        """The plans, by name."""
        return dict(self._tables)

    @property
    def unit(self) -> Unit | Rows:
        """The unit that all tables hide, from the first table; all names agree."""
        return next(iter(self._tables.values())).unit

    def cost(self) -> str:
        """Return the budgets of all tables and the unit that they protect, in words.

        Each kind of budget is added up separately; all of them are spent.
        """
        spent = _words.sum_of(list(self._tables.values()))
        return f"{spent} for one {self.unit.name}"

    def __repr__(self) -> str:
        return f"Report({self._tables!r})"

    def event(self) -> Event:
        """Return the event of one release of all tables."""
        return composed([e for p in self._tables.values() for e in p._noise.events()])

    def epsilon(self, *, delta: Real = 0) -> float:
        """Return an epsilon that all tables together meet at `delta`, rounded up."""
        from fastdp.accounting.guarantees import event_epsilon

        return event_epsilon(self.event(), delta)

    def release(
        self,
        source: Any,
        *,
        ledger: Ledger | None = None,
        label: str | None = None,
        budgets: str | Iterable[str] | None = None,
        memory: str | None = None,
        progress: Callable[[float], object] | None = None,
        stream: Stream | None = None,
    ) -> dict[str, Release]:
        """Return all tables of some records; no noise is drawn before all sums exist.

        Parameters
        ----------
        source : path of a Parquet file, or frame, or dict of them by table
            As for `Plan.release`, read once for each table. A stream can be read only
            once: give each of several tables its own stream.
        ledger, label, budgets
            As for `Plan.release`: the label covers all tables, which are charged
            together and stored as one answer of at most 64 MiB. Without `keys`, the
            tables share the limit of 2**20 shown groups in equal parts.
        memory, progress, stream
            As for `Plan.release`.

        Returns
        -------
        dict of str to Release

        Raises
        ------
        DTypeError, ParameterError, FastDPError, LedgerError
            As for `Plan.release`; also raised for one stream for several tables.

        Privacy
        -------
        The guarantee is `event()`, for the tables' unit. Timing class T0.
        """
        charge = _run.charge_of(ledger, label, budgets, stream)
        return _run.release(
            self._tables, self._sources(source), charge, memory, progress, stream
        )

    def _sources(self, source: Any) -> dict[str, Any]:
        """Return the source of each table."""
        if isinstance(source, dict):
            if {*source} != {*self._tables}:
                raise ParameterError(
                    "source must be one frame or path, or a dict with one for each of "
                    f"{', '.join(self._tables)}"
                )
            return source
        if len(self._tables) > 1 and isinstance(
            source, _tables.arrow().RecordBatchReader
        ):
            raise ParameterError(
                "source must be read once for each table, but a stream "
                "can be read only once: give a dict with a stream for "
                "each table, or a path or frame"
            )
        return dict.fromkeys(self._tables, source)
