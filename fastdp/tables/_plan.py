"""`Plan`: every public choice of a private table, and its methods."""

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
    """A private table of groups; its cost and noise are known before any release.

    Parameters
    ----------
    unit : Unit, Rows or "row"
        The unit that the guarantee hides; required.
    by : str or iterable of str
        Columns of the groups: integers, text, bools, dates or decimals; empty for one
        group of all records. Without `keys`, text of more than 1024 bytes of UTF-8
        counts as null. Python objects in pandas count as text.
    keys : list, dict of lists, or frame, optional
        The public groups to show, returned in this order: a list for one column, a dict
        of lists for all combinations, or a frame with one row for each group. Without
        `keys`, groups are selected. With `units` they are selected by the noisy number
        of units, for half of the budget (all of it without other statistics). If the
        plan has only `count`, or only the mean, variance or std of one column, they are
        selected by the noisy number of records. Otherwise they are selected by the
        number of units, for half of the budget.
    count, units : bool
        Whether to release the number of kept records, and the number of units.
    sum, mean, variance, std : str or iterable of str
        Columns for which the statistic is released, each with its number of values.
    median : str or iterable of str
        Columns for medians: short for quantiles of 0.5.
    quantiles : dict of str to number or sequence of numbers
        Quantiles of each column, between 0 and 1: the q-quantile is the least value
        with at least a share q of the values at or below it. All quantiles of a column
        come from one tree of noisy counts, so more quantiles cost nothing.
    cells : int
        Public number of equal cells between the bounds of a quantile. The cells limit
        the resolution of values and intervals; memory is 8 bytes for each cell and
        group.
    histogram : dict of str to sequence of numbers
        Public increasing edges of the bins of each column: a bin contains its lower
        edge, and the last bin both edges. Values outside are in no bin.
    bounds : dict of str to (low, high)
        Public bounds of each of these columns: values are clamped to them.
    epsilon, rho : int, float, Fraction or Decimal
        Pure epsilon (Laplace noise), or rho-zCDP (Gaussian noise); exactly one.
    delta : int, float, Fraction or Decimal, optional
        Required with `by` without `keys`, otherwise not allowed: the guarantee is
        then (epsilon, delta)-DP, or rho-zCDP except with probability delta.
    hash : {"engine", "sha256"}
        Hash that chooses the groups and records that a unit keeps. "sha256" is slower
        and gives the same choice on every engine, for integers, text and bools. Only
        fairness depends on the hash, not privacy.

    Raises
    ------
    DTypeError, ParameterError, CalibrationError
        A parameter is missing, has a wrong type, or is out of its domain.

    Notes
    -----
    **A missing value (null or NaN) leaves out its own statistic, and nothing else**:
    its record is counted. A record without a group or a unit is left out. The limits of
    the unit are applied before values are read.

    Privacy
    -------
    The guarantee is `event()`, under the neighboring relation that adds or removes
    units. One unit is in at most k groups with r records each. All sums are exact
    integers. A record changes each of these by at most 1: a number of records, the sum
    of u = (x - center)/half, and a sum released alone, divided by its larger bound. It
    changes the sum of u**2 - 1/2 by at most 1/2. So the first three have L1 sensitivity
    k r and L2 sensitivity sqrt(k) r, and the last has half of that. The number of units
    has k and sqrt(k). In a tree of counts with h noisy levels, a record is in one node
    of each level, so the sensitivities are k r h and sqrt(k h) r. Timing class T0.

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
    rho 0.1 for one patient; kept: at most 2 groups and 2 records in each
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

        They follow from the plan alone, so check them before any release.

        Raises
        ------
        DTypeError, ParameterError
            `level` is not between 0 and 1.
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
        """Return the noisy table of some records: bound, sum, and add noise once.

        Parameters
        ----------
        source : path of a Parquet file, frame, or dict of columns
            Records: pandas, polars, pyarrow, a DuckDB relation, an Arrow stream, or a
            Spark DataFrame. Spark sums its own DataFrames, and DuckDB all others; files
            and streams may be larger than memory. Text that is not UTF-8, and a time
            beyond 64 bits of microseconds, is null. A Spark DataFrame must have the
            same rows in every evaluation. A dict has lists, arrays or Series, which
            numpy sums without Arrow; its keys are as in `fastdp.count`.
        ledger : Ledger, optional
            Ledger that charges and stores the answer: a later call with the same label
            returns it again. Without a ledger, a second call is a second release.
        label, budgets
            With a ledger, as for `Ledger.table`. The budgets must have the plan's unit.
            A stored answer is not computed again: only the columns' types are read, and
            no record. Without `keys` at most 2**20 groups are shown.
        memory : str, optional
            Memory limit of DuckDB, such as "4GB". Beyond the limit it spills records,
            unencrypted, to a folder below TMPDIR, which is removed at the end, or by
            the next run if the process was killed. Not with Spark.
        progress : callable, optional
            Called with the finished share of the work. Not with Spark.
        stream : Stream, optional
            Without a ledger: None draws fresh randomness; use
            `fastdp.testing.FixedStream` for tests.

        Returns
        -------
        Release

        Raises
        ------
        DTypeError, ParameterError
            A column is missing or has a wrong type. Never raised for a value.
        FastDPError
            The source cannot be read, its Spark session was stopped, or DuckDB or
            pyarrow is missing.
        BudgetExceededError, UnsupportedEventError, UnitMismatchError
            A budget does not cover the plan, or has another unit; raised before a
            record is read.
        LabelConflictError, LedgerError
            As for `Ledger.table`.

        Privacy
        -------
        The guarantee is `event()`, for the plan's unit. Timing class T0.
        """
        charge = _run.charge_of(ledger, label, budgets, stream)
        (found,) = _run.release(
            {"": self}, {"": source}, charge, memory, progress, stream
        ).values()
        return found

    def check(self, source: Any, *, memory: str | None = None) -> Check:
        """Return the numbers of records that the plan leaves out. NOT PRIVATE.

        This is only for the owner of the records: exact numbers of records that are
        missing, beyond the bounds, in no group, and kept under this and other limits.
        Nothing is drawn or charged, and no guarantee holds: do not publish the numbers,
        and do not choose limits or bounds by them.

        Parameters
        ----------
        source, memory
            As for `release`; a stream is refused, because records are read twice.

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
        """Return the group-by of `release` for a source; no record is read.

        Raises
        ------
        DTypeError, ParameterError, FastDPError
            As for `release`.
        """
        with _run.engine_of(self, source, None, None) as engine:
            return self._recipe(engine).sql()

    def describe(self) -> str:
        """Describe in sentences what is released, how, and what is left out.

        The text is public, for the methods section of a publication.
        """
        return _words.described(self, self.accuracy().rows())
