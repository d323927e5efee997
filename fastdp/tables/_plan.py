"""`Plan`: every public choice of a private table, checked before a record is seen."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastdp import _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import Event
from fastdp.accounting.events._composite import composed
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _tables
from fastdp.frames._engines import Engine
from fastdp.frames._recipe import HASHES, Recipe
from fastdp.ledger import Ledger
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.running._count_tree import Tree
from fastdp.tables._accuracy import Accuracy
from fastdp.tables._noise import Budget, Noise
from fastdp.tables._parameters import (
    checked_bool,
    checked_bounds,
    checked_edges,
    checked_quantiles,
    count_of,
    listed_keys,
    quantile_name,
    require_few,
)
from fastdp.tables._quantiles import tree_of
from fastdp.tables._release import Release
from fastdp.tables._unit import Rows, Unit, check_unit, limits

if TYPE_CHECKING:
    from fastdp.tables._check import Check

#: Statistics of a column of numbers, in the order of the result.
STATISTICS = ("sum", "mean", "variance", "std")


class Plan:
    """A private table of groups, described once: its cost and noise are known at once.

    Parameters
    ----------
    unit : Unit, Rows or "row"
        Whom the guarantee hides; required.
    by : str or iterable of str
        Columns of the groups: integers, text, bools, dates or decimals; none for one
        group of all records. Text of more than 1024 bytes of UTF-8 counts as null
        without `keys`. Python objects of pandas are text.
    keys : list, dict of lists, or frame, optional
        The groups to show, which are public; they come back in this order. A list goes
        with one column, a dict of lists is each with each, a frame has a row for each.
        Without it groups are selected: by the noisy number of units with `units`, half
        of the budget, or all of it without other statistics; by the noisy number of
        records if `count`, or the mean, variance or std of one column, is all that is
        asked; else by the number of units, for half of the budget.
    count, units : bool
        Whether to release the number of records that are kept, and of units.
    sum, mean, variance, std : str or iterable of str
        Columns for which these are released, each with the number of its values.
    median : str or iterable of str
        Columns whose medians are released: short for quantiles of 0.5.
    quantiles : dict of str to number or sequence of numbers
        Which quantiles of each column, between 0 and 1: the q-quantile is the least
        value with at least a share q of the values at or below it. All of a column are
        read in one tree of noisy counts: more of them cost nothing.
    cells : int
        Into how many equal cells the bounds of a quantile are cut; public. Values and
        intervals are as fine as these, 8 bytes for each cell and group are held.
    histogram : dict of str to sequence of numbers
        Public and increasing edges of bins by column: a bin holds its lower edge, the
        last one both. Values outside are in none.
    bounds : dict of str to (low, high)
        Public bounds of each of these columns: values are clamped to them.
    epsilon, rho : int, float, Fraction or Decimal
        Pure epsilon (Laplace noise), or rho-zCDP (Gaussian noise); exactly one.
    delta : int, float, Fraction or Decimal, optional
        Required with `by` without `keys`, otherwise not allowed: the guarantee is
        then (epsilon, delta)-DP, or rho-zCDP except with probability delta.
    hash : {"engine", "sha256"}
        What chooses the groups and records that a unit keeps. "sha256" is the same on
        every engine, of integers, text and bools, and slower. Fairness rests on it, not
        privacy.

    Raises
    ------
    DTypeError, ParameterError, CalibrationError
        A parameter is missing, of a wrong type, or out of its domain.

    Notes
    -----
    **A missing value (null or NaN) leaves out its own statistic, and nothing else**:
    its record is counted. A record without a group or a unit is left out. The limits of
    the unit are applied before values are looked at.

    Privacy
    -------
    That of `event()`, for units added or removed: the neighboring relation. One unit is
    in at most k groups with r records each. A record moves a number of records, the sum
    of u = (x - center)/half, and a sum alone over its larger bound, by at most 1, in
    exact integers, and the sum of u**2 - 1/2 by at most 1/2: each is released with L1
    sensitivity k r, or L2 sensitivity sqrt(k) r, or half of that; the number of units
    with k, or sqrt(k). A tree of counts has h noisy levels, and a record is in one
    node of each level: k r h, or sqrt(k h) r. Timing class T0.

    References
    ----------
    docs/frames.md; docs/proofs/sums.md, docs/proofs/keys.md, docs/proofs/hierarchy.md,
    docs/proofs/intervals.md.

    Examples
    --------
    >>> import fastdp
    >>> plan = fastdp.Plan(
    ...     unit=fastdp.Unit("patient", groups=2, records=2),
    ...     by="region", keys=["North", "East", "South", "West"],
    ...     count=True, mean="cost", bounds={"cost": (0, 20_000)}, rho=0.1,
    ... )
    >>> plan.columns
    ('count', 'cost_n', 'cost_mean')
    >>> print(plan.accuracy())
    rho 0.1 for one patient, of which 2 groups and 2 records in each are kept
    column     noise              std    95 % within
    count      discrete Gaussian  10.95  21
    cost_n     discrete Gaussian  10.95  21.47
    cost_mean  ratio              -      3036 at n = 100, 303.6 at n = 1000
    shown      all 4 groups that are listed
    """

    def __init__(
        self,
        *,
        unit: Unit | Rows | str | None = None,
        by: str | Iterable[str] = (),
        keys: Any = None,
        count: bool = False,
        units: bool = False,
        sum: str | Iterable[str] = (),
        mean: str | Iterable[str] = (),
        variance: str | Iterable[str] = (),
        std: str | Iterable[str] = (),
        median: str | Iterable[str] = (),
        quantiles: Mapping[str, Real | Sequence[Real]] | None = None,
        cells: int = 4096,
        histogram: Mapping[str, Sequence[Real]] | None = None,
        bounds: Mapping[str, tuple[Real, Real]] | None = None,
        epsilon: Real | None = None,
        rho: Real | None = None,
        delta: Real | None = None,
        hash: str = "engine",
    ) -> None:
        self._unit = check_unit(unit)
        self._by = _tables.columns_of("by", by)
        numbers = {"count": count, "units": units}
        self._counts = tuple(n for n, said in numbers.items() if checked_bool(n, said))
        given = zip(STATISTICS, (sum, mean, variance, std), strict=True)
        asked = {what: _tables.columns_of(what, names) for what, names in given}
        self._asked = {
            name: tuple(what for what in STATISTICS if name in asked[what])
            for name in dict.fromkeys(n for names in asked.values() for n in names)
        }
        self._quantiles = checked_quantiles(
            {} if quantiles is None else quantiles, _tables.columns_of("median", median)
        )
        self._cells = _validate.integer("cells", cells, 2, 2**20)
        self._targets = {
            quantile_name(name, q): (name, q)
            for name, listed in self._quantiles.items()
            for q in listed
        }
        self._edges = checked_edges({} if histogram is None else histogram)
        self._bins = {
            f"{name}_{low:.12g}_{high:.12g}": (f"h{j}", i)
            for j, (name, edges) in enumerate(self._edges.items())
            for i, (low, high) in enumerate(itertools.pairwise(edges))
        }
        if len(self._bins) < len([e for x in self._edges.values() for e in x[1:]]):
            raise ParameterError(
                "the edges of histogram must differ in their first 12 digits"
            )
        self._check_names()
        self._bounds = checked_bounds(bounds, self._bounds_of)
        if hash not in HASHES:
            raise ParameterError(f"hash must be one of {HASHES}, got {hash!r}")
        self._hash = hash
        if keys is not None and not self._by:
            raise ParameterError(
                "keys requires by: it lists the groups of these columns"
            )
        self._keys = None if keys is None else listed_keys(keys, self._by)
        unlisted = bool(self._by) and self._keys is None
        budget = Budget.of(epsilon, rho, delta, unlisted=unlisted)
        listed = None if self._keys is None else count_of(self._keys)
        self._kept = limits(self._unit, grouped=bool(self._by), listed=listed)
        self._gaussian = epsilon is None
        if self._quantiles:
            require_few(self._keys, self._nodes)
        self._noise = Noise(
            budget,
            self._kept,
            count="count" in self._counts,
            units="units" in self._counts,
            kinds=[self._kind(name) for name in self._asked],
            histograms=len(self._edges),
            trees=[self._levels for _ in self._quantiles],
        )

    def _check_names(self) -> None:
        if not self._numbers and not self._counts:
            raise ParameterError(
                "give at least one of count, units, sum, mean, variance, "
                "std, median, quantiles, histogram"
            )
        of_unit = [self._unit.column] if isinstance(self._unit, Unit) else []
        if not all(isinstance(name, str) for name in of_unit):
            raise DTypeError(
                "the unit of a Plan must have the name of a column: Unit(name, ...)"
            )
        read = [*self._by, *self._numbers, *of_unit]
        if len(set(read)) != len(read):
            raise ParameterError(
                "by, the unit's column and the columns of statistics must differ"
            )
        ends = [f"{name}_{end}" for name in self.columns for end in ("low", "high")]
        note = ["note"] if self._bounds_of else []
        shown = [*self._by, *self.columns, *ends, *note]
        if len(set(shown)) != len(shown):
            raise ParameterError(
                "columns of the result must differ: rename each column of by that has "
                "the name of a statistic"
            )

    def _kind(self, name: str) -> str:
        """Return the kind of a column's sums, for `Noise`."""
        asked = self._asked[name]
        if {"variance", "std"} & {*asked}:
            return "variance"
        return "mean" if "mean" in asked else "sum"

    def __repr__(self) -> str:
        groups = f" by {', '.join(self._by)}" if self._by else ""
        return f"Plan({', '.join(self.columns)}{groups}; {self._unit!r})"

    # ---- what is public ----------------------------------------------------------

    @property
    def unit(self) -> Unit | Rows:
        """The unit that the guarantee hides."""
        return self._unit

    @property
    def by(self) -> tuple[str, ...]:
        """Columns of the groups."""
        return self._by

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of statistics, without those of their interval ends."""
        found = list(self._counts)
        for name, asked in self._asked.items():
            found += [] if asked == ("sum",) else [f"{name}_n"]
            found += [f"{name}_{what}" for what in asked]
        return (*found, *self._targets, *self._bins)

    @property
    def _numbers(self) -> tuple[str, ...]:
        """Columns of numbers that are read."""
        return tuple(dict.fromkeys([*self._bounds_of, *self._edges]))

    @property
    def _bounds_of(self) -> tuple[str, ...]:
        """Columns of numbers that have bounds."""
        return tuple(dict.fromkeys([*self._asked, *self._quantiles]))

    def event(self) -> Event:
        """Return the event of one release."""
        return composed(self._noise.events())

    def mechanisms(self) -> dict[str, Mechanism]:
        """Return the noise of each sum, in steps, and "keys" if keys have a cost.

        For a column NAME: "NAME_n", and "NAME_sum" and "NAME_squares" of its values
        mapped to [-1, 1] between the bounds (if only the sum is released: divided by
        the larger bound); "NAME_histogram" for all bins together, and "NAME_quantiles"
        for all nodes of its tree of counts.
        """
        words = {"n": "n", "s": "sum", "q": "squares"}
        words |= {"h": "histogram", "t": "quantiles"}
        columns = {"h": list(self._edges), "t": list(self._quantiles)}
        found: dict[str, Mechanism] = {}
        for total in self._noise.totals:
            name = total.name
            if name not in self._counts:
                listed = columns.get(name[0], list(self._asked))
                name = f"{listed[int(name[1:])]}_{words[name[0]]}"
            found[name] = total.law
        if self._noise.unlisted and self._noise.threshold is None:
            found["keys"] = self._noise.selection()
        return found

    def epsilon(self, *, delta: Real = 0) -> float:
        """Return an epsilon that a release meets at `delta`, rounded up."""
        from fastdp.accounting.guarantees import event_epsilon

        return event_epsilon(self.event(), delta)

    def cost(self) -> str:
        """Return the given budget and the unit that it protects, in words."""
        from fastdp.tables import _words

        return f"{_words.guarantee(self)} for one {self.unit.name}{_words.kept(self)}"

    def accuracy(self, level: float = 0.95) -> Accuracy:
        """Return the noise of each column, and its error bounds at a level.

        They follow from the plan alone: look at them before anything is released.

        Raises
        ------
        DTypeError, ParameterError
            `level` is not within 0 and 1.
        """
        return Accuracy(self, level)

    @property
    def _tree(self) -> Tree:
        """The tree over the cells of a column with quantiles."""
        return tree_of(self._cells, gaussian=self._gaussian)

    @property
    def _levels(self) -> int:
        """Number of levels of a tree with noise: all but the root."""
        return len(self._tree.nodes) - 1

    @property
    def _nodes(self) -> int:
        """Number of tree nodes of a group, over all columns with quantiles."""
        return sum(self._tree.nodes) * len(self._quantiles) if self._quantiles else 0

    @property
    def _needs_users(self) -> bool:
        """Whether the number of units of a group is released or selects the group."""
        return "units" in self._counts or (
            self._noise.unlisted and self._noise.threshold is None
        )

    # ---- release -----------------------------------------------------------------

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
    ) -> Release:
        """Return the noisy table of some records: bound, sum, add noise once.

        Parameters
        ----------
        source : path of a Parquet file, frame, or dict of columns
            Records: pandas, polars, pyarrow, a DuckDB relation, a stream of Arrow's, a
            DataFrame of Spark. DuckDB adds them up, or Spark its own; files and streams
            may be larger than memory. Text that is not UTF-8, and a time beyond 64 bits
            of microseconds, is null. A DataFrame of Spark must have the same rows
            whenever it is evaluated. A dict has lists, arrays or Series, which numpy
            adds up, without Arrow; its keys are as in `fastdp.count`.
        ledger : Ledger, optional
            Where the answer is charged and stored: a later call with the same label
            returns it again. Without one a second call is a second release.
        label, budgets
            With a ledger, as for `Ledger.table`. The budgets must be of the plan's
            unit. What there is an answer for is not computed again: the columns' types
            are read, and no record. Without `keys` at most 2**20 groups are shown.
        memory : str, optional
            What DuckDB may use, such as "4GB", before it spills records, unencrypted,
            to a folder below TMPDIR that is removed at the end, or by the next run
            where a process was killed. Not with Spark.
        progress : callable, optional
            Told the share of the work that is done. Not with Spark.
        stream : Stream, optional
            Without a ledger: None draws fresh randomness; for tests
            `fastdp.testing.FixedStream`.

        Returns
        -------
        Release

        Raises
        ------
        DTypeError, ParameterError
            A column is not there or of a wrong type. Never for a value.
        FastDPError
            The source cannot be read, its session of Spark was stopped, or DuckDB or
            pyarrow is missing.
        BudgetExceededError, UnsupportedEventError, UnitMismatchError
            A budget does not cover the plan, or is of another unit: told before a
            record is read.
        LabelConflictError, LedgerError
            As for `Ledger.table`.

        Privacy
        -------
        That of `event()`, for the plan's unit. Timing class T0.
        """
        from fastdp.tables import _run

        charge = _run.charge_of(ledger, label, budgets, stream)
        return _run.release(self, source, charge, memory, progress, stream)

    def check(self, source: Any, *, memory: str | None = None) -> Check:
        """Return what the plan leaves out of some records. NOT PRIVATE.

        For the owner of the records: exact numbers of what is missing, beyond the
        bounds, in no group, and kept under this and other limits. Nothing is drawn or
        charged, and no guarantee holds for it: do not publish it, and do not choose
        limits or bounds by it.

        Parameters
        ----------
        source, memory
            As for `release`; a stream is read twice, and refused.

        Raises
        ------
        DTypeError, ParameterError, FastDPError
            As for `release`.

        Examples
        --------
        >>> import fastdp
        >>> who = fastdp.Unit("who", records=1)
        >>> plan = fastdp.Plan(unit=who, sum="x", bounds={"x": (0, 5)}, epsilon=1)
        >>> found = plan.check({"who": [1, 1, 2], "x": [1.0, None, 9.0]})
        >>> found.columns
        {'x': {'missing': 1, 'below': 0, 'above': 1}}
        >>> round(found.kept[1, 1], 2)
        0.67
        """
        from fastdp.tables import _check

        return _check.check(self, source, memory)

    def sql(self, source: Any) -> str:
        """Return the group-by that `release` would run on a source; no record is read.

        Raises
        ------
        DTypeError, ParameterError, FastDPError
            As for `release`.
        """
        from fastdp.tables import _run

        with _run.engine_of(self, source, None, None) as engine:
            return self._recipe(engine).sql()

    def describe(self) -> str:
        """Describe in sentences what is released, how, and what is left out.

        Written for the methods section of a publication: all of it is public.
        """
        from fastdp.tables import _words

        return _words.described(self)

    def _recipe(self, engine: Engine) -> Recipe:
        """Check the columns of a source and return the group-by for it."""
        user = self._unit.column if isinstance(self._unit, Unit) else None
        text = engine.check(self._by, self._numbers, user)
        if self._hash == "sha256":  # it hashes texts; some times have no text
            engine.require_texts(self._by)
        if self._keys is not None:
            engine.list_keys(engine.keys_of(self._keys), self._by)
        kinds = [self._kind(name) for name in self._asked]
        return Recipe(
            source=engine.table,
            by=self._by,
            values=tuple(self._asked),
            bounds=tuple(self._bounds[name] for name in self._asked),
            user=user,
            groups=self._kept[0],
            records=self._kept[1],
            public=not self._noise.unlisted,
            bits=self._noise.bits,
            text=text,
            hash=self._hash,
            long=engine.texts(self._by) if self._noise.unlisted else frozenset(),
            squares=tuple(i for i, kind in enumerate(kinds) if kind == "variance"),
            alone=tuple(i for i, kind in enumerate(kinds) if kind == "sum"),
            edges=tuple(self._edges.items()),
            cells=tuple((n, self._bounds[n], self._cells) for n in self._quantiles),
            dialect=engine.dialect,
        )
