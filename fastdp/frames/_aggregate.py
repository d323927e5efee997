"""Records to a private table: one bounded group-by, and the noise on what it gives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp import random as fdp_random
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import Event
from fastdp.exceptions import ParameterError
from fastdp.frames import _tables
from fastdp.frames._engines import Engine
from fastdp.frames._plan import Plan, Released
from fastdp.frames._recipe import Recipe
from fastdp.frames._release import check_ledger
from fastdp.ledger import Ledger
from fastdp.ledger._terms import check_names
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms._groups import Budget

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Aggregate:
    """A released table of groups: nothing in it is private any more.

    Attributes
    ----------
    frame : frame
        Keys, "count" and a column for each statistic, such as "income_mean", sorted by
        key; of the kind of the source, of a file a pyarrow Table.
    event : Event
        What the release costs; accountants and filters take it.
    mechanisms : dict of str to Mechanism
        "noise", of each column before it is scaled, "squares" likewise where a variance
        is released, and "keys" where keys are selected.
    std : float
        Standard deviation of the noise on the count, and on each sum of u, the place
        of a record between its bounds in [-1, 1], and of its square.
    unit : str
        Whose presence is hidden: "user", or "row" where no users were given.
    shares : dict of str to float, or None
        Of epsilon or rho, what the selection of keys and the statistics cost, where
        keys were selected.
    recipe : str
        The group-by that was run.
    replayed : bool
        Whether a ledger had the answer: nothing was drawn or spent now.
    receipts_json : str or None
        A ledger's receipts.
    """

    frame: Any
    event: Event
    mechanisms: dict[str, Mechanism]
    std: float
    unit: str
    shares: dict[str, float] | None
    recipe: str
    replayed: bool
    receipts_json: str | None
    _intervals: Callable[[str, float], tuple[_Array, _Array]]

    def __repr__(self) -> str:
        columns = ", ".join(map(str, getattr(self.frame, "columns", ())))
        named = getattr(self.frame, "column_names", None)
        return f"Aggregate({', '.join(named) if named else columns}; {self.unit})"

    def epsilon(self, *, delta: Real = 0) -> float:
        """Return an epsilon that the release meets at `delta`, rounded up."""
        from fastdp.accounting.guarantees import event_epsilon

        return event_epsilon(self.event, delta)

    def interval(self, column: str, level: float = 0.95) -> tuple[_Array, _Array]:
        """Return (low, high) of a released column: each entry holds its statistic.

        Parameters
        ----------
        column : str
            "count", or a statistic's column such as "income_mean".
        level : float
            Probability for each entry by itself, > 0 and < 1.

        Raises
        ------
        DTypeError, ParameterError
            There is no such column, or `level` is out of its domain.
        """
        return self._intervals(column, float(_validate.open_unit("level", level)))


def aggregate(
    source: Any,
    *,
    by: str | Iterable[str],
    count: bool = False,
    mean: str | Iterable[str] = (),
    sum: str | Iterable[str] = (),
    variance: str | Iterable[str] = (),
    bounds: Mapping[str, tuple[Real, Real]] | None = None,
    epsilon: Real | None = None,
    rho: Real | None = None,
    delta: Real | None = None,
    keys: Any = None,
    user: str | None = None,
    groups_per_user: int | None = None,
    records_per_group: int | None = None,
    ledger: Ledger | None,
    label: str | None = None,
    budgets: str | Iterable[str] | None = None,
    most_rows: int = 2**20,
    hash: str = "engine",
    memory_limit: str | None = None,
    progress: Callable[[float], object] | None = None,
    stream: Stream | None = None,
) -> Aggregate:
    """Return a private table of groups from records: bounded, summed, noised, once.

    One fixed group-by on an embedded DuckDB, or in Spark where the source is there,
    which `explain` shows; files and streams may be larger than memory.

    Parameters
    ----------
    source : path of a Parquet file, or frame
        Records; text that is not UTF-8, and a time beyond 64 bits of microseconds, is
        null. Frames are those of `release`; a stream is read once. A DataFrame of Spark
        must have the same rows whenever it is evaluated.
    by : str or iterable of str
        Columns of the groups: integers, text, bools, dates or decimals. Python objects
        of pandas are text. Without `keys` a text of more than 1024 bytes of UTF-8
        counts as null.
    count : bool
        Whether to release the number of records.
    mean, sum, variance : str or iterable of str
        Columns of which one of these is released. **A record with a null or NaN in
        `by`, `user` or such a column contributes nothing, not even to the count.**
    bounds : dict of str to (low, high)
        Public bounds of each of these columns: records are clamped to them.
    epsilon, rho : int, float, Fraction or Decimal
        Pure epsilon (Laplace noise), or rho-zCDP (Gaussian noise); exactly one.
    delta : int, float, Fraction or Decimal, optional
        Without `keys`, and then required: the guarantee is for (epsilon, delta), or
        rho but for delta.
    keys : frame, optional
        The groups to show, which are public: a row each, with the columns of `by`.
        Without it keys are selected by their number of users for half of the budget.
    user : str, optional
        The column of users, of integers or text. **Without it a row is a user.**
    groups_per_user, records_per_group : int, optional
        With `user`: how many groups of each are kept, and how many records in each,
        by a salted hash; 1 if not given.
    ledger : Ledger or None
        As in `release`: None must be written out.
    label, budgets
        With a ledger, as for `Ledger.table`; without `user`, only budgets whose unit
        is "row". What it has an answer for is not computed again: the columns' types
        are read, and no record.
    most_rows : int
        With a ledger and without `keys`: of more groups the first ones are shown, and
        no more than 512 MiB of them.
    hash : {"engine", "sha256"}
        What chooses which groups and records a user keeps. "sha256" is the same on
        every engine, of integers, text and bools, and slower. Fairness rests on it, not
        privacy.
    memory_limit : str, optional
        What DuckDB may use, such as "4GB", before it spills records, unencrypted, to a
        folder below TMPDIR that is removed at the end. Not with Spark.
    progress : callable, optional
        Told the share of the work that is done, from another thread. Not with Spark.
    stream : Stream, optional
        Without a ledger: None draws fresh randomness; for tests
        `fastdp.testing.FixedStream`.

    Returns
    -------
    Aggregate

    Raises
    ------
    DTypeError, ParameterError, CalibrationError
        A parameter is of a wrong type or out of its domain, or a column is not there.
    FastDPError
        The source cannot be read, its session of Spark was stopped, or DuckDB or
        pyarrow is missing. Never for a value.
    BudgetExceededError, LabelConflictError, LedgerError
        As for `Ledger.table`.

    Privacy
    -------
    The event's, for users (or rows) added or removed: the neighboring relation. One
    user is in at most k groups with r records each; a record moves the count and each
    u = (x - center)/half by at most 1, in exact integers: each of these columns is
    released with L1 sensitivity k r, or L2 sensitivity sqrt(k) r; for a variance the
    sum of u**2 - 1/2 as well, with half of that. Exact. Timing class T0.

    References
    ----------
    docs/frames.md; docs/proofs/sums.md, docs/proofs/keys.md.

    Examples
    --------
    >>> import fastdp, pyarrow
    >>> visits = pyarrow.table(
    ...     {"town": ["oslo", "rome"] * 400, "cost": [20.0, 30.0] * 400}
    ... )
    >>> a = fastdp.frames.aggregate(
    ...     visits, by="town", count=True, mean="cost", bounds={"cost": (0, 50)},
    ...     epsilon=1, delta=1e-6, ledger=None,
    ... )
    >>> a.frame["town"].to_pylist(), a.unit
    (['oslo', 'rome'], 'row')
    """
    check_stream(stream)
    check_ledger(ledger, label, budgets, None, stream)
    plan = Plan(
        {"mean": mean, "sum": sum, "variance": variance},
        *(by, count, bounds, keys, user, hash),
        budget=Budget(epsilon, rho, delta),
        kept=(groups_per_user, records_per_group),
    )
    if isinstance(most_rows, bool) or not isinstance(most_rows, int) or most_rows < 1:
        raise ParameterError("most_rows must be an int >= 1")
    charged: tuple[str, ...] = ()
    stored = False
    if ledger is not None:
        charged = check_names("budgets", budgets)
        stored = ledger._answers(label or "")
        if not stored:  # a stored answer is shown whatever it was charged to
            ledger._require_unit(charged, plan.question.unit)
    salt = _salt(label, stream)
    answer = None
    with _engine(source, memory_limit, plan, progress) as engine:
        recipe = plan.recipe(engine)
        asked = _Asked(plan, recipe, label or "", charged, most_rows)
        if ledger is not None and stored:
            # Of no records: the terms of an answer are those of the types alone.
            none = replace(recipe, source=engine.empty(plan.read_columns))
            exact = plan.named(engine.run(none.sql(), salt, None))
            answer = ledger._stored_table(**asked.table(exact))
        if answer is None:
            exact = plan.named(engine.run(recipe.sql(), salt, progress))
    if ledger is None:
        shown, noisy = plan.drawn(*plan.cells(exact), stream)
    else:
        if answer is None:
            answer = ledger.table(**asked.table(exact))
        shown, noisy = plan.read(plan.cells(exact)[0].schema, answer.value)
    found = Released(plan, noisy)
    table = found.joined(_tables.with_text(shown, "string"))
    if answer is not None:
        table = table.replace_schema_metadata({_tables.RECEIPTS: answer.receipts_json})
    return Aggregate(
        frame=_tables.leave(source, table),
        event=plan.event(),
        mechanisms=plan.mechanisms(),
        std=plan.law.std / 2**plan.bits,
        unit=plan.question.unit,
        shares=plan.shares(),
        recipe=recipe.sql(),
        replayed=answer is not None and answer.replayed,
        receipts_json=None if answer is None else answer.receipts_json,
        _intervals=found.interval,
    )


def explain(
    source: Any,
    *,
    by: str | Iterable[str],
    mean: str | Iterable[str] = (),
    sum: str | Iterable[str] = (),
    variance: str | Iterable[str] = (),
    bounds: Mapping[str, tuple[Real, Real]] | None = None,
    epsilon: Real | None = None,
    rho: Real | None = None,
    delta: Real | None = None,
    keys: Any = None,
    user: str | None = None,
    groups_per_user: int | None = None,
    records_per_group: int | None = None,
    hash: str = "engine",
) -> str:
    """Return the group-by that `aggregate` would run, as SQL; no record is read.

    Parameters and errors are those of `aggregate`.

    Examples
    --------
    >>> import fastdp, pyarrow
    >>> visits = pyarrow.table({"town": ["oslo"], "cost": [20.0]})
    >>> sql = fastdp.frames.explain(visits, by="town", epsilon=1, delta=1e-6)
    >>> sql.startswith("with records as (")
    True
    """
    plan = Plan(
        {"mean": mean, "sum": sum, "variance": variance},
        *(by, True, bounds, keys, user, hash),
        budget=Budget(epsilon, rho, delta),
        kept=(groups_per_user, records_per_group),
    )
    with _engine(source, None, plan, None) as engine:
        return plan.recipe(engine).sql()


@dataclass(frozen=True)
class _Asked:
    """What a ledger is asked, beside the totals."""

    plan: Plan
    recipe: Recipe
    label: str
    budgets: tuple[str, ...]
    most_rows: int

    def table(self, exact: Any) -> dict[str, Any]:
        """Return the arguments of `Ledger.table` for a group-by's totals."""
        plan = self.plan
        names, cells, users = plan.cells(exact)
        selection = None if plan.public else (plan.question.selection(), users)
        return {
            "columns": cells,
            "keys": {
                name: _tables.packed(names.column(name), public=plan.public)
                for name in plan.by
            },
            "label": self.label,
            "budgets": self.budgets,
            "select": selection,
            "most_rows": None if plan.public else self.most_rows,
            "source": self.recipe.name(),
        }


def _engine(source: Any, memory_limit: Any, plan: Plan, progress: Any) -> Engine:
    """Return the engine that a source is in, or DuckDB for all others."""
    if not _tables.is_spark(source):
        from fastdp.frames._duckdb import DuckDB

        return DuckDB(source, memory_limit, plan.read_columns, plan.values)
    if memory_limit is not None or progress is not None:
        raise ParameterError("memory_limit and progress must be left out on Spark")
    from fastdp.frames._spark import Spark

    return Spark(source, plan.read_columns)


def _salt(label: str | None, stream: Stream | None) -> str:
    """Return what the choices are salted by: for a label always the same.

    A retry must sum the same records; which they are is no secret.
    """
    if label is not None:
        return hashlib.sha256(f"fastdp frames {label}".encode()).hexdigest()
    return fdp_random.bytes(32, stream=stream).hex()
