"""Functions for one statistic of a column in memory, such as its mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, Literal, Required, TypedDict, TypeVar, Unpack

import numpy as np

from fastdp import _validate
from fastdp._doorway import one_index, records
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.frames import _tables
from fastdp.ledger import Ledger
from fastdp.mechanisms._keys import presence
from fastdp.tables import _run
from fastdp.tables._memory import Memory, has_integers
from fastdp.tables._parameters import is_column, spelled
from fastdp.tables._plan import Plan
from fastdp.tables._release import Release
from fastdp.tables._unit import Rows, Unit, check_unit

#: Name of the column in the plan, if it has none of its own.
_X = "x"

_F = TypeVar("_F", bound=Callable[..., Release])


class Words(TypedDict, total=False):
    """The keywords of all functions, which `count` explains."""

    unit: Required[Unit | Rows | Literal["row"]]
    by: Any
    keys: Any
    epsilon: Real | None
    rho: Real | None
    delta: Real | None
    ledger: Ledger | None
    label: str | None
    budgets: str | Iterable[str] | None
    level: float
    stream: Stream | None


def _told(function: _F) -> _F:
    """Write the keywords into a function's signature, and refuse all others."""
    of = signature(function)
    own = [p for p in of.parameters.values() if p.kind is not p.VAR_KEYWORD]
    defaults = {"unit": Parameter.empty, "level": 0.95}
    shared = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=defaults.get(name),
            annotation=re.sub(r"^Required\[(.*)\]$", r"\1", kind.__forward_arg__),
        )
        for name, kind in Words.__annotations__.items()
    ]
    whole = Signature([*own, *shared], return_annotation=of.return_annotation)
    return spelled(function.__name__, whole)(function)


@_told
def count(x: Any, **words: Unpack[Words]) -> Release:
    """Return the noisy number of records, of all or of each group.

    Parameters
    ----------
    x : column of anything, shape (n,)
        Records; None, NaN, NA and NaT are not counted. Two pandas columns of one call
        (`x`, `by`, the unit's) must have the same index; a pandas column and a list or
        array are paired by position.
    unit : Unit, Rows or "row"
        The unit that the guarantee hides. A `Unit` holds the data column itself, such
        as ``Unit(df.person, records=3)``, and with `by` also `groups`; large ids must
        be integers, not floats. A budget uses the unit's `name`, or otherwise the name
        of its Series.
    by : column of numbers or strings, shape (n,), or a list of such columns, optional
        The group of each record; a record with None or NaN has no group. Python objects
        are read one by one (docs/records.md).
    keys : column, or dict of columns, optional
        With `by`: the public groups to show, chosen without the data and returned in
        this order. Keys of different types differ: no record of group 1 is in group
        "1". For several columns, a dict by column name: all combinations are shown.
    epsilon, rho : int, float, Fraction or Decimal
        Pure epsilon, or rho-zCDP; exactly one.
    delta : int, float, Fraction or Decimal, optional
        Required with `by` without `keys`, otherwise not allowed: the guarantee is
        then (epsilon, delta)-DP, or rho-zCDP except with probability delta. Groups with
        few units are not shown.
    ledger, label, budgets
        Ledger, label and budgets of the answer, as in `Plan.release`: give all or none.
    level : float
        Probability of the interval, > 0 and < 1.
    stream : Stream, optional
        None draws fresh randomness; use `fastdp.testing.FixedStream` for tests.

    Returns
    -------
    Release
        Its `value`, `low` and `high` are numbers, or with `by` arrays with one entry
        per group; `table()` also has the groups, in the order of `keys` or sorted.
        Columns have the names of their Series; without a name they are "x" and "key".

    Raises
    ------
    DTypeError, ParameterError, CalibrationError
        A wrong dtype or shape, pandas columns with different indexes, or a parameter
        out of its range. Never raised for a value.
    BudgetExceededError, UnitMismatchError, LabelConflictError, LedgerError
        As for `Plan.release`.
    EntropyError
        The operating system gave no randomness.

    Privacy
    -------
    The guarantee of a `Plan` with only this statistic, for units added or removed: the
    neighboring relation. Records without `x` are left out first; then records beyond
    the limits of the unit are dropped at random. Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> n = fastdp.count(["yes", "no", None, "yes"], unit="row", epsilon=1)
    >>> n.unit, n.epsilon()
    ('row', 1.0)
    >>> towns = ["oslo", "rome"] * 400 + ["bonn"]
    >>> shown = fastdp.count(towns, by=towns, unit="row", epsilon=1, delta=1e-12)
    >>> shown.groups()
    [('oslo',), ('rome',)]
    """
    return _released(x, words, count=True)


@_told
def sum(x: Any, *, bounds: tuple[Real, Real], **words: Unpack[Words]) -> Release:
    """Return the noisy sum of records between bounds, of all or of each group.

    Parameters
    ----------
    x : column of numbers, shape (n,)
        Clamped to the bounds. NaN and None contribute nothing. In a list or a column
        of dtype object, entries that are not numbers contribute nothing either.
    bounds : tuple of two real numbers
        Public bounds of the records, (low, high).
    unit, by, keys, epsilon, rho, delta, ledger, label, budgets, level, stream
        As in `count`.

    Returns
    -------
    Release

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError, LedgerError
        As in `count`.

    Privacy
    -------
    As in `count`. A record changes the sum by at most max(|low|, |high|). Unlisted
    groups take half of the budget, because they cannot be selected by a sum. Exact.
    Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> s = fastdp.sum([12.0, 30.5, 7.25], bounds=(0, 50), unit="row", epsilon=1)
    >>> s.epsilon()
    1.0
    """
    return _released(x, words, bounds, sum=_X)


@_told
def mean(x: Any, *, bounds: tuple[Real, Real], **words: Unpack[Words]) -> Release:
    """Return the noisy mean of records between bounds, of all or of each group.

    It is computed from the noisy sums of (1, u), u = (x - center)/half; the noisy
    number of records also selects unlisted groups.

    Parameters
    ----------
    x, bounds
        As in `sum`.
    unit, by, keys, epsilon, rho, delta, ledger, label, budgets, level, stream
        As in `count`.

    Returns
    -------
    Release

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError, LedgerError
        As in `count`.

    Privacy
    -------
    As in `count`. The interval is valid for any number of records; if the noisy number
    is below 1, the value is NaN. Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> ages = [31, 45, 27, 62] * 500
    >>> r = fastdp.mean(ages, bounds=(0, 120), unit="row", epsilon=1)
    >>> 0 <= r.low <= r.value <= r.high <= 120
    True
    """
    return _released(x, words, bounds, mean=_X)


@_told
def variance(x: Any, *, bounds: tuple[Real, Real], **words: Unpack[Words]) -> Release:
    """Return the noisy variance (divisor n) of records between bounds, like `mean`.

    Parameters
    ----------
    x, bounds
        As in `sum`.
    unit, by, keys, epsilon, rho, delta, ledger, label, budgets, level, stream
        As in `count`.

    Returns
    -------
    Release

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError, LedgerError
        As in `count`.

    Privacy
    -------
    As in `mean`. Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> x = [1.0, 2.0, 4.0] * 100
    >>> v = fastdp.variance(x, bounds=(0, 5), unit="row", rho=0.5)
    >>> 0 <= v.value <= 6.25
    True
    """
    return _released(x, words, bounds, variance=_X)


@_told
def std(x: Any, *, bounds: tuple[Real, Real], **words: Unpack[Words]) -> Release:
    """Return the noisy standard deviation of records between bounds, like `variance`.

    Parameters
    ----------
    x, bounds
        As in `sum`.
    unit, by, keys, epsilon, rho, delta, ledger, label, budgets, level, stream
        As in `count`.

    Returns
    -------
    Release

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError, LedgerError
        As in `count`.

    Privacy
    -------
    As in `mean`: the square root of `variance`, at the same cost. Exact. Timing class
    T0.

    Examples
    --------
    >>> import fastdp
    >>> x = [1.0, 2.0, 4.0] * 100
    >>> s = fastdp.std(x, bounds=(0, 5), unit="row", rho=0.5)
    >>> 0 <= s.value <= 2.5
    True
    """
    return _released(x, words, bounds, std=_X)


@_told
def median(x: Any, *, bounds: tuple[Real, Real], **words: Unpack[Words]) -> Release:
    """Return the noisy median of records between bounds, of all or of each group.

    As `quantiles` of 0.5.

    Parameters
    ----------
    x, bounds
        As in `sum`.
    unit, by, keys, epsilon, rho, delta, ledger, label, budgets, level, stream
        As in `count`.

    Returns
    -------
    Release

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError, LedgerError
        As in `count`.

    Privacy
    -------
    As in `quantiles`. Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> ages = [31, 45, 27, 62] * 500
    >>> r = fastdp.median(ages, bounds=(0, 120), unit="row", epsilon=1)
    >>> 0 <= r.low <= r.value <= r.high <= 120
    True
    """
    return _released(x, words, bounds, median=_X)


@_told
def quantiles(
    x: Any,
    q: Real | Sequence[Real],
    *,
    bounds: tuple[Real, Real],
    **words: Unpack[Words],
) -> Release:
    """Return noisy quantiles of records between bounds, of all or of each group.

    All quantiles are read from one tree of noisy counts of 4096 equal cells between the
    bounds, so more quantiles cost nothing. A `Plan` can have another number of cells.
    For one small column without intervals the mechanism `Quantiles` has smaller errors.

    Parameters
    ----------
    x : column of numbers, shape (n,)
        As in `sum`.
    q : number or sequence of numbers
        Quantiles, each in [2**-20, 1 - 2**-20]: the q-quantile is the least value
        with at least a share q of the values at or below it.
    bounds : tuple of two real numbers
        Public bounds of the records, (low, high).
    unit, by, keys, epsilon, rho, delta, ledger, label, budgets, level, stream
        As in `count`.

    Returns
    -------
    Release
        With several quantiles, the last axis of `value`, `low` and `high` is in the
        order of `q`. A value is NaN if the noisy number of values is below 1.

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError, LedgerError
        As in `count`.

    Privacy
    -------
    As in `count`. Unlisted groups take half of the budget. The interval is valid for
    all data, and wider than necessary for most data. Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> ages = [31, 45, 27, 62] * 500
    >>> r = fastdp.quantiles(ages, [0.25, 0.75], bounds=(0, 120), unit="row", epsilon=1)
    >>> r.value.shape, r.plan.columns
    ((2,), ('x_q25', 'x_q75'))
    """
    return _released(x, words, bounds, quantiles={_X: q})


@_told
def histogram(x: Any, edges: Sequence[Real], **words: Unpack[Words]) -> Release:
    """Return noisy counts of records between public edges, of all or of each group.

    Parameters
    ----------
    x : column of numbers, shape (n,)
        NaN, None and values outside the edges are in no bin.
    edges : sequence of real numbers
        Public and increasing. A bin contains its lower edge, and the last bin both
        edges.
    unit, by, keys, epsilon, rho, delta, ledger, label, budgets, level, stream
        As in `count`.

    Returns
    -------
    Release
        Its `value`, `low` and `high` are arrays with one entry per bin; with `by`, one
        row per group.

    Raises
    ------
    DTypeError, ParameterError, CalibrationError, EntropyError, LedgerError
        As in `count`.

    Privacy
    -------
    As in `count`: a record is in one bin, for any number of bins. Unlisted groups take
    half of the budget. Exact. Timing class T0.

    Examples
    --------
    >>> import fastdp
    >>> h = fastdp.histogram([3, 8, 8, 40], [0, 10, 20], unit="row", epsilon=1)
    >>> h.value.shape
    (2,)
    """
    return _released(x, words, histogram={_X: edges})


# ---- from columns to a plan --------------------------------------------------------


def _released(
    x: Any, words: Words, bounds: tuple[Real, Real] | None = None, **asked: Any
) -> Release:
    """Release one statistic by a plan on a table of the columns in `words`.

    `asked` is for `Plan`, with `_X` for the name of `x`.
    """
    ledger, stream = words.get("ledger"), words.get("stream")
    charge = _run.charge_of(ledger, words.get("label"), words.get("budgets"), stream)
    level = float(_validate.open_unit("level", words.get("level", 0.95)))
    source = _by(words.get("by"))
    said = dict.fromkeys(source, "by")
    by = list(source)
    unit = check_unit(words.get("unit"))
    if isinstance(unit, Unit):
        name = _free("user", source)
        source[name], said[name] = unit.column, "unit"
        unit = unit.named(name, charged=ledger is not None)
    name = _free(_own_name(x) or _X, source)
    said[name] = "x"
    ((statistic, of),) = asked.items()
    if of == _X:
        asked = {statistic: name}
    elif of is not True:
        asked = {statistic: {name: of[_X]}}
    asked |= {word: words.get(word) for word in ("epsilon", "rho", "delta", "keys")}
    asked |= {} if bounds is None else {"bounds": {name: bounds}}
    plan = Plan(unit=unit, by=by, **asked)
    one_index(x=x, **{said[name]: column for name, column in source.items()})
    there, source[name] = _present(x, plan)
    columns = Memory(plan, source, there, said, stream)
    found = _run.release({"": plan}, {"": columns}, charge, None, None, stream, level)
    return found[""]


def _by(by: Any) -> dict[str, Any]:
    """Return the columns of groups by their names; "key" without a name."""
    if by is None:
        return {}
    several = isinstance(by, (list, tuple)) and len(by) > 0 and all(map(is_column, by))
    found: dict[str, Any] = {}
    for column in by if several else [by]:
        found[_free(_own_name(column) or "key", found)] = column
    return found


def _own_name(column: Any) -> str | None:
    name = getattr(column, "name", None)
    return name if isinstance(name, str) else None


def _free(name: str, taken: dict[str, Any]) -> str:
    """Return a name that no other column has."""
    while name in taken:
        name += "_"
    return name


def _present(x: Any, plan: Plan) -> tuple[Any, Any]:
    """Return a mask of the present records, and the column to read."""
    if not plan._numbers:
        return presence("x", x), x
    values = records("x", x)
    there = ~np.isnan(values)
    for edges in plan._edges.values():
        there &= (values >= edges[0]) & (values <= edges[-1])
    # Keep a column whose type decides on that of the result.
    typed = _tables.is_of(x, "pandas", "Series") or has_integers(x)
    return there, x if typed else values
