"""`Plan`: every public choice of a private table, and what is done with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fastdp._stream import Stream
from fastdp.ledger import Ledger
from fastdp.tables import _check, _run, _words
from fastdp.tables._accuracy import Accuracy
from fastdp.tables._check import Check
from fastdp.tables._choices import Choices
from fastdp.tables._release import Release


class Plan(Choices):
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

    def __repr__(self) -> str:
        groups = f" by {', '.join(self._by)}" if self._by else ""
        return f"Plan({', '.join(self.columns)}{groups}; {self._unit!r})"

    def cost(self) -> str:
        """Return the given budget and the unit that it protects, in words."""
        return _words.cost(self)

    def accuracy(self, level: float = 0.95) -> Accuracy:
        """Return the noise of each column, and its error bounds at a level.

        They follow from the plan alone: look at them before anything is released.

        Raises
        ------
        DTypeError, ParameterError
            `level` is not within 0 and 1.
        """
        return Accuracy(self, level)

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
        return _check.check(self, source, memory)

    def sql(self, source: Any) -> str:
        """Return the group-by that `release` would run on a source; no record is read.

        Raises
        ------
        DTypeError, ParameterError, FastDPError
            As for `release`.
        """
        with _run.engine_of(self, source, None, None) as engine:
            return self._recipe(engine).sql()

    def describe(self) -> str:
        """Describe in sentences what is released, how, and what is left out.

        Written for the methods section of a publication: all of it is public.
        """
        return _words.described(self, self.accuracy().rows())
