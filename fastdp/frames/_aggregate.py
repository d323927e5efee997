"""Records to a private table: one bounded group-by, and the noise on what it gives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdp import _validate, calibration
from fastdp import random as fdp_random
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import ComposedEvent, Event, l2_sensitivity
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _tables
from fastdp.frames._duckdb import Engine
from fastdp.frames._recipe import HASHES, MOST, Recipe
from fastdp.frames._release import check_ledger
from fastdp.ledger import Ledger
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms._groups import Budget, Groups, Question, Users
from fastdp.mechanisms.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.moments import Moments, MomentsRelease, check_bounds, grid_bits

if TYPE_CHECKING:
    import pyarrow as pa

_Array = np.ndarray[Any, Any]

#: What a column of numbers is released as.
_STATISTICS = ("mean", "sum")


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
        "noise", of each column before it is scaled, and "keys" where keys are selected.
    std : float
        Standard deviation of the noise on the count, and on each sum of u, the place
        of a record between its bounds in [-1, 1].
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

    One fixed group-by on an embedded DuckDB, which `explain` shows; files and streams
    may be larger than memory.

    Parameters
    ----------
    source : path of a Parquet file, or frame
        Records, text in UTF-8. Frames are those of `release`; a stream is read once.
    by : str or iterable of str
        Columns of the groups: integers, text, bools, dates or decimals. Without `keys`
        a text of more than 1024 bytes of UTF-8 counts as null.
    count : bool
        Whether to release the number of records.
    mean, sum : str or iterable of str
        Columns of which the mean or sum is released. **A record with a null or NaN in
        `by`, `user` or one of these contributes nothing, not even to the count.**
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
        With a ledger, as for `Ledger.table`.
    most_rows : int
        With a ledger and without `keys`: of more groups the first ones are shown, and
        no more than 512 MiB of them.
    hash : {"engine", "sha256"}
        What chooses which groups and records a user keeps. "sha256" is the same on
        every engine, and slower. Fairness rests on it, not privacy.
    memory_limit : str, optional
        What DuckDB may use, such as "4GB", before it spills records, unencrypted, to a
        folder below TMPDIR that is removed at the end.
    progress : callable, optional
        Told the share of the work that is done, from another thread.
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
        The source cannot be read, or DuckDB or pyarrow is missing. Never for a value.
    BudgetExceededError, LabelConflictError, LedgerError
        As for `Ledger.table`.

    Privacy
    -------
    The event's, for users (or rows) added or removed: the neighboring relation. One
    user is in at most k groups with r records each; a record moves the count and each
    u = (x - center)/half by at most 1, in exact integers: each of these columns is
    released with L1 sensitivity k r, or L2 sensitivity sqrt(k) r. Exact. Timing class
    T0.

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
    plan = _Plan(
        *(by, count, mean, sum, bounds, keys, user, hash),
        budget=Budget(epsilon, rho, delta),
        kept=(groups_per_user, records_per_group),
    )
    if isinstance(most_rows, bool) or not isinstance(most_rows, int) or most_rows < 1:
        raise ParameterError("most_rows must be an int >= 1")
    salt = _salt(label, stream)
    with Engine(source, memory_limit, plan.read_columns) as engine:
        recipe = plan.recipe(engine)
        exact = plan.named(engine.run(recipe.sql(), salt, progress))
    names, cells, users = plan.cells(exact)
    if ledger is None:
        shown, noisy = plan.drawn(names, cells, users, stream)
        answer = None
    else:
        answer = ledger.table(
            cells,
            keys={
                name: _tables.packed(names.column(name), public=plan.public)
                for name in plan.by
            },
            label=label or "",
            budgets=budgets or (),
            select=None if plan.public else (plan.question.selection(), users),
            most_rows=None if plan.public else most_rows,
            source=recipe.name(),
        )
        shown, noisy = plan.read(names.schema, answer.value)
    found = _Released(plan, noisy)
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
    plan = _Plan(
        *(by, True, mean, sum, bounds, keys, user, hash),
        budget=Budget(epsilon, rho, delta),
        kept=(groups_per_user, records_per_group),
    )
    with Engine(source, None, plan.read_columns) as engine:
        return plan.recipe(engine).sql()


class _Plan:
    """The checked parameters, and the mechanisms that follow from them."""

    def __init__(
        self,
        by: Any,
        count: Any,
        mean: Any,
        sum: Any,
        bounds: Any,
        keys: Any,
        user: Any,
        hash: Any,
        *,
        budget: Budget,
        kept: tuple[int | None, int | None],
    ) -> None:
        self.by = _tables.columns_of("by", by)
        self.count = _checked_bool("count", count)
        self.asked = {
            "mean": _tables.columns_of("mean", mean),
            "sum": _tables.columns_of("sum", sum),
        }
        asked = [*self.asked["mean"], *self.asked["sum"]]
        self.values = tuple(dict.fromkeys(asked))
        if not self.by:
            raise ParameterError("by must name one column or more")
        if not self.values and not self.count:
            raise ParameterError("count, mean or sum must ask for something")
        if user is not None and not isinstance(user, str):
            raise DTypeError(f"user must be a column's name, got {type(user).__name__}")
        several = [*self.by, *self.values, *([] if user is None else [user])]
        self.read_columns = several
        if len(set(several)) != len(several):
            raise ParameterError("by, user and the columns of mean and sum must differ")
        shown = [*self.by, *self.columns]
        if len(set(shown)) != len(shown):
            raise ParameterError(
                "columns of the result must differ: rename those of by that are called "
                "like a statistic"
            )
        self.bounds = _checked_bounds(bounds, self.values)
        if hash not in HASHES:
            raise ParameterError(f"hash must be one of {HASHES}, got {hash!r}")
        self.user, self.hash = user, hash
        self.public = keys is not None
        self.keys = None if keys is None else _tables.read("keys", keys, self.by)
        listed = None if self.keys is None else list(range(self.keys.num_rows))
        self.question = Question(
            budget, Groups("", listed, *kept), Users(user, None), 0.95, None
        )
        self._set_noise(budget if self.public else budget.halved())

    @property
    def columns(self) -> list[str]:
        """Names of what is released, beside the keys."""
        statistics = [
            f"{name}_{what}"
            for name in self.values
            for what in _STATISTICS
            if name in self.asked[what]
        ]
        return [*(["count"] if self.count else []), *statistics]

    # ---- noise -------------------------------------------------------------------

    def _set_noise(self, budget: Budget) -> None:
        """Make the one law of all columns: each is moved by k r, in steps."""
        k, r, parts = self.question.groups, self.question.records, 1 + len(self.values)
        amount = _validate.least_reading(budget.amount)
        parameter: Fraction
        if budget.by_epsilon:
            parameter = k * r * parts / _validate.positive("epsilon", amount)
        else:
            moved = l2_sensitivity(Fraction(k * r**2 * parts))
            sigma = calibration.gaussian_sigma_from_rho(
                rho=_validate.positive("rho", amount), sensitivity=moved
            )
            parameter = Fraction(sigma)
        self.parameter, self.laplace = parameter, budget.by_epsilon
        # Counts alone have integer noise.
        self.bits = grid_bits(parameter) if self.values else 0
        steps = parameter * 2**self.bits
        self.law: DiscreteLaplace | DiscreteGaussian
        if budget.by_epsilon:
            self.law = DiscreteLaplace(steps, sensitivity=k * r * 2**self.bits)
        else:
            square = Fraction(k * r**2) * 4**self.bits
            self.law = DiscreteGaussian(steps, sensitivity=l2_sensitivity(square))

    def event(self) -> Event:
        """Return what the release costs."""
        events: list[Event] = [self.law.event()] * (1 + len(self.values))
        if not self.public:
            events.append(self.question.selection().event())
        return events[0] if len(events) == 1 else ComposedEvent(tuple(events))

    def mechanisms(self) -> dict[str, Mechanism]:
        """Return the mechanisms by what they are for."""
        noise: dict[str, Mechanism] = {"noise": self.law}
        return noise if self.public else {**noise, "keys": self.question.selection()}

    def shares(self) -> dict[str, float] | None:
        """Return what each part costs, where the budget was split."""
        if self.public:
            return None
        half = float(_validate.exact("budget", self.question.budget.halved().amount))
        return {"keys": half, "statistics": half}

    def moments(self, name: str, groups: int) -> Moments:
        """Return the mechanism of (1, u) that has this law, for what it reads."""
        return Moments(
            scale=self.parameter if self.laplace else None,
            sigma=None if self.laplace else self.parameter,
            bounds=self.bounds[name],
            moments=1,
            groups=max(groups, 1),
        )

    # ---- data --------------------------------------------------------------------

    def recipe(self, engine: Engine) -> Recipe:
        """Return the group-by for a source; its columns are checked."""
        text = engine.check(self.by, self.values, self.user)
        if self.keys is not None:
            engine.list_keys(self.keys, self.by)
        return Recipe(
            source=engine.table,
            by=self.by,
            values=self.values,
            bounds=tuple(self.bounds[name] for name in self.values),
            user=self.user,
            groups=self.question.groups,
            records=self.question.records,
            public=self.public,
            bits=self.bits,
            text=text,
            hash=self.hash,
            long=frozenset() if self.public else engine.texts(self.by),
        )

    def named(self, exact: pa.Table) -> pa.Table:
        """Return the group-by's table with the names of the keys, sorted by them."""
        rest = exact.column_names[len(self.by) :]
        own = [f"{i}" for i in range(len(rest))]  # no name of a key is its place here
        names = [f"k{i}" for i in range(len(self.by))]
        renamed = _tables.with_text(exact, "large_string").rename_columns(names + own)
        return _tables.in_order(renamed, names)

    def cells(
        self, exact: pa.Table
    ) -> tuple[pa.Table, dict[str, tuple[Any, _Array]], _Array]:
        """Return keys, private totals with their law, and users of each key."""
        keys = exact.select([f"k{i}" for i in range(len(self.by))])
        rest = [
            column.to_numpy().astype(np.int64)
            for column in exact.columns[len(self.by) :]
        ]
        users, records, *sums = rest
        held = np.minimum(records, MOST >> self.bits) << self.bits
        names = ["n", *(f"s{i}" for i in range(len(sums)))]
        cells = {
            f"{self._free(name)}": (self.law, values)
            for name, values in zip(names, [held, *sums], strict=True)
        }
        return keys.rename_columns(list(self.by)), cells, users

    def _free(self, name: str) -> str:
        """Return a name of a total that is none of a key."""
        while name in self.by:
            name += "_"
        return name

    def drawn(
        self, keys: pa.Table, cells: Mapping[str, Any], users: _Array, stream: Any
    ) -> tuple[pa.Table, list[_Array]]:
        """Return the keys to show and their noisy totals."""
        if not self.public:
            mask = self.question.selection().select(users, stream=stream)
            keys = keys.filter(_tables.arrow().array(mask))
            cells = {name: (m, x[mask]) for name, (m, x) in cells.items()}
        return keys, [m.release(x, stream=stream) for m, x in cells.values()]

    def read(self, schema: Any, value: Mapping[str, _Array]) -> Any:
        """Return keys and noisy totals as a ledger has stored them."""
        keys = {
            name: _tables.unpacked(value[name], schema.field(name).type)
            for name in self.by
        }
        noisy = [found for name, found in value.items() if name not in keys]
        return _tables.arrow().table(keys), noisy


class _Released:
    """Noisy totals of the groups, and all that follows from them."""

    def __init__(self, plan: _Plan, noisy: list[_Array]) -> None:
        self._plan = plan
        sums = np.array(noisy, np.float64) / 2.0**plan.bits
        self._count: _Array = np.rint(sums[0]).astype(np.int64)
        self._read = {
            name: MomentsRelease(plan.moments(name, len(self._count)), sums[[0, 1 + i]])
            for i, name in enumerate(plan.values)
        }

    def joined(self, keys: pa.Table) -> pa.Table:
        """Return the keys with the released columns."""
        return _tables.joined(keys, {c: self._value(c) for c in self._plan.columns})

    def _value(self, column: str) -> _Array:
        if column == "count":
            return self._count
        name, _, what = column.rpartition("_")
        return np.asarray(getattr(self._read[name], what))

    def interval(self, column: str, level: float) -> tuple[_Array, _Array]:
        if column not in self._plan.columns:
            raise ParameterError(
                f"column must be one of {self._plan.columns}, got {column!r}"
            )
        if column != "count":
            name, _, what = column.rpartition("_")
            ends: tuple[_Array, _Array]
            ends = getattr(self._read[name], f"{what}_interval")(level)
            return ends
        below, above = self._plan.law.confidence_interval(level)
        # Rounded from a finer grid: half a record more.
        edge = 0.5 if self._plan.bits else 0.0
        low = np.maximum(self._count - above / 2**self._plan.bits - edge, 0)
        return low, self._count - below / 2**self._plan.bits + edge


# ---- parameters ------------------------------------------------------------------


def _checked_bool(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise DTypeError(f"{name} must be a bool, got {type(value).__name__}")
    return value


def _checked_bounds(
    bounds: Any, values: tuple[str, ...]
) -> dict[str, tuple[float, float]]:
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
            raise ParameterError(f"bounds are of a column of mean or sum, not {name!r}")
    return {name: check_bounds(given[name]) for name in values}


def _salt(label: str | None, stream: Stream | None) -> str:
    """Return what the choices are salted by: for a label always the same.

    A retry must sum the same records; which they are is no secret.
    """
    if label is not None:
        return hashlib.sha256(f"fastdp frames {label}".encode()).hexdigest()
    return fdp_random.bytes(32, stream=stream).hex()
