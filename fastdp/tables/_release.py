"""`Release`: the released table and its intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting.events import Event
from fastdp.exceptions import ParameterError
from fastdp.frames import _kinds, _tables
from fastdp.tables import _derived, _words
from fastdp.tables._choices import Choices
from fastdp.tables._column import Column, moments_of
from fastdp.tables._quantiles import Trees

_Array = np.ndarray[Any, Any]

#: Number of groups that a repr shows.
_SHOWN = 10


class Release:
    """A released table of groups, all of which is public.

    `Plan.release` returns it.
    """

    def __init__(
        self,
        plan: Choices,
        keys: dict[str, Any],
        noisy: list[_Array],
        *,
        like: Any,
        level: float,
        integers: frozenset[str],
        replayed: bool,
        receipts_json: str | None,
    ) -> None:
        self._plan, self._keys, self._like = plan, keys, like
        self._level, self._replayed, self._receipts = level, replayed, receipts_json
        totals = zip(plan._noise.totals, noisy, strict=True)
        self._noisy = {total.name: x for total, x in totals}
        groups = len(noisy[0])
        self._trees = {
            name: Trees(
                plan._tree,
                next(t.law for t in plan._noise.totals if t.name == f"t{j}"),
                plan._bounds[name],
                asked,
                self._noisy[f"t{j}"],
                whole=name in integers,
            )
            for j, (name, asked) in enumerate(plan._quantiles.items())
        }
        self._read = {
            name: Column(plan, i, groups, self._noisy)
            for i, name in enumerate(plan._asked)
        }

    def __repr__(self) -> str:
        columns = self._columns(self._level)
        left = len(next(iter(columns.values()))) - _SHOWN
        heads = [str(name) for name in columns]
        rows = zip(*(_words.texts(c[:_SHOWN]) for c in columns.values()), strict=True)
        lines = _words.aligned([heads, *map(list, rows)])
        if left == -_SHOWN:
            lines.append("no group had enough units: Plan.check shows the owner more")
        elif left > 0:
            lines.append(f"... and {left} more groups")
        return "\n".join(lines)

    # ---- what it is --------------------------------------------------------------

    @property
    def plan(self) -> Any:
        """The `Plan` that was released."""
        return self._plan

    @property
    def unit(self) -> str:
        """The name of the hidden unit."""
        return self._plan.unit.name

    @property
    def replayed(self) -> bool:
        """Whether a ledger returned a stored answer, with nothing drawn or spent."""
        return self._replayed

    @property
    def receipts_json(self) -> str | None:
        """The ledger's receipts as JSON; None without a ledger."""
        return self._receipts

    def event(self) -> Event:
        """Return the event of the release, for accountants and filters."""
        return self._plan.event()

    def epsilon(self, *, delta: Real = 0) -> float:
        """Return an epsilon that the release meets at `delta`, rounded up."""
        return self._plan.epsilon(delta=delta)

    # ---- numbers -----------------------------------------------------------------

    def groups(self) -> list[tuple[Any, ...]]:
        """Return the groups in the table's order; without `by`, one empty tuple."""
        if not self._plan.by:
            return [()]
        return list(zip(*map(_words.items, self._keys.values()), strict=True))

    @property
    def value(self) -> Any:
        """The plan's only statistic: a number, or an array with an entry per group.

        A histogram, or several quantiles, add a last axis. Like `values`, it is
        unchanged after the draw.

        Raises
        ------
        ParameterError
            The plan has several statistics.
        """
        return self._only(*(self.values(name) for name in self._statistic()))

    @property
    def low(self) -> Any:
        """Lower ends of the intervals for `value`, at `level`."""
        return self._only(*(self.interval(n)[0] for n in self._statistic()))

    @property
    def high(self) -> Any:
        """Upper ends of the intervals for `value`, at `level`."""
        return self._only(*(self.interval(n)[1] for n in self._statistic()))

    @property
    def level(self) -> float:
        """The coverage of each single interval: the level of the call, or 0.95."""
        return self._level

    def _statistic(self) -> list[str]:
        """Return the column of the only statistic, or the columns of its bins."""
        plan = self._plan
        asked = [*plan._counts, *plan._edges]
        asked += [what for listed in plan._asked.values() for what in listed]
        asked += plan._quantiles
        if len(asked) > 1:
            raise ParameterError(
                "value, low and high are only for a plan with one "
                "statistic: use values(column) and interval(column) of "
                f"{', '.join(plan.columns)}"
            )
        return list(plan._targets) or list(plan._bins) or [plan.columns[-1]]

    def _only(self, *columns: _Array) -> Any:
        several = self._plan._edges or len(columns) > 1
        found = np.stack(columns, axis=1) if several else columns[0]
        if self._plan.by:
            return found
        return found[0] if several else found[0].item()

    def values(self, column: str) -> _Array:
        """Return a column as drawn, one entry per group; counts may be negative.

        Raises
        ------
        ParameterError
            `column` is not in `Plan.columns`.
        """
        whole = self._whole(column)
        if whole is not None:
            return whole[1].copy()
        found, what = self._found(column)
        values: _Array = found.values(what)
        return values

    def interval(
        self, column: str, level: float | None = None
    ) -> tuple[_Array, _Array]:
        """Return the ends (low, high) of intervals that contain a column's statistics.

        Parameters
        ----------
        column : str
            One of `Plan.columns`.
        level : float, optional
            Probability for each single entry, > 0 and < 1; default: the level of the
            call.

        Raises
        ------
        DTypeError, ParameterError
            There is no such column, or `level` is out of its domain.
        """
        p = self._checked(level)
        whole = self._whole(column)
        if whole is not None:
            below, above = (int(end) for end in whole[0].confidence_interval(p))
            noisy = whole[1]
            return np.maximum(noisy - above, 0), np.maximum(noisy - below, 0)
        found, what = self._found(column)
        ends: tuple[_Array, _Array] = found.interval(what, p)
        return ends

    def _checked(self, level: float | None) -> float:
        return float(
            _validate.open_unit("level", self._level if level is None else level)
        )

    def _whole(self, column: str) -> tuple[Any, _Array] | None:
        """Return the law and draws of an integer count (also of a bin), or None."""
        name, place = self._plan._bins.get(column, (column, None))
        for total in self._plan._noise.totals:
            if total.name == name and column in self._plan.columns and not total.bits:
                noisy = self._noisy[name]
                return total.law, noisy if place is None else noisy[:, place]
        return None

    def _found(self, column: str) -> tuple[Any, Any]:
        """Return the object that computes a column, and the statistic to compute."""
        if column not in self._plan.columns:
            raise ParameterError(
                f"column must be one of {', '.join(self._plan.columns)}, got {column!r}"
            )
        if column in self._plan._targets:
            name, q = self._plan._targets[column]
            return self._trees[name], q
        name, _, what = column.rpartition("_")
        return self._read[name], what

    def ratio(
        self, numerator: str, denominator: str, level: float | None = None
    ) -> tuple[_Array, _Array, _Array]:
        """Return the ratio of two sums by group, such as a weighted mean, at no cost.

        Parameters
        ----------
        numerator, denominator : str
            Columns of `Plan.columns` for which the plan has only the sum.
        level : float, optional
            As for `interval`.

        Returns
        -------
        tuple of three arrays
            Ratios of the draws, and the ends of their intervals by Fieller's set; ends
            are infinite if the denominator may be 0.

        Raises
        ------
        DTypeError, ParameterError
            There is no such sum, or `level` is out of its domain.

        References
        ----------
        docs/proofs/intervals.md.
        """
        p, noise, alone = self._checked(level), self._plan._noise, []
        for name in (numerator, denominator):
            column, _, what = name.rpartition("_")
            found = self._read.get(column)
            if what != "sum" or found is None or found._moments is not None:
                raise ParameterError(
                    "a ratio must be of two columns for which the plan "
                    'releases only the sum, as in Plan(sum=["wx", "w"], '
                    '...).release(...).ratio("wx_sum", "w_sum"), got '
                    f"{name!r}"
                )
            alone.append((found._alone, max(map(abs, found._bounds))))
        (above, most), (below, least) = alone
        moments = moments_of(noise, (0.0, 1.0), len(below), 1)
        value, low, high = _derived.ratio(moments, above, below, p)
        scale = most / least
        return value * scale, low * scale, high * scale

    def difference(
        self, column: str, other: Release | tuple[Any, ...], level: float | None = None
    ) -> tuple[_Array, _Array, _Array, _Array]:
        """Return a column minus that of another release or group, at no cost.

        Parameters
        ----------
        column : str
            One of `Plan.columns`.
        other : Release or tuple
            Another release with its own draws, to subtract group by group; or one of
            `groups`, to subtract from every group. The noise of two groups is
            independent, and so is the noise of two releases with separate draws.
        level : float, optional
            As for `interval`.

        Returns
        -------
        tuple of four arrays of float64
            One entry per group: the differences of the draws, the standard deviation of
            their noise, and the ends (low, high) of their intervals. Entries are NaN
            for groups that `other` does not show. For numbers and sums the interval
            comes from the law of both noises together. For quantiles, and statistics
            computed from two or three noisy sums, it combines both intervals and is
            wider than necessary, and the standard deviation is NaN.

        Raises
        ------
        DTypeError, ParameterError
            There is no such column or group, the plans count different things, `other`
            is this release, or `level` is out of its domain.

        References
        ----------
        docs/proofs/intervals.md.
        """
        p, own = self._checked(level), self.groups()
        each = (1 + p) / 2
        new = (self.values(column), *self.interval(column, each))
        if isinstance(other, Release):
            _derived.require_alike(self._plan, other._plan, column)
            again = self._receipts is not None and self._receipts == other._receipts
            if other is self or again:
                raise ParameterError(
                    "other must be a release with draws of its own, got the same again"
                )
            places = {group: i for i, group in enumerate(other.groups())}
            at, source = [places.get(group, -1) for group in own], other
        elif isinstance(other, tuple) and other in own:
            at, source = [own.index(other)] * len(own), self
        else:
            raise ParameterError(
                f"other must be a Release or one of groups(), such as {own[0]}, "
                f"got {other!r}"
            )
        missing = np.array(at) < 0

        def taken(x: _Array) -> _Array:
            found = np.full(len(at), np.nan)
            found[~missing] = x[np.array(at)[~missing]]
            return found

        old = (source.values(column), *source.interval(column, each))
        first, second = self._draws(column), source._draws(column)
        if second is not None:
            second = second._replace(values=taken(second.values))
        ends = taken(old[0]), taken(old[1]), taken(old[2])
        found = _derived.difference(new, ends, (first, second), p)
        if source is self:
            for entries in found:
                entries[at[0]] = 0.0
        return found

    def _draws(self, column: str) -> _derived.Draws | None:
        """Return the noisy sums that form the column; None for a computed column."""
        whole = self._whole(column)
        if whole is not None:
            return _derived.Draws(whole[0], 1.0, whole[1].astype(float), 1.0, True)
        if column in self._plan._targets:
            return None
        found, what = self._found(column)
        if found._moments is None:
            rows, scale = found._alone, max(map(abs, found._bounds))
        elif what == "n":
            rows, scale = found._count, 1.0
        else:
            return None
        law, step = self._plan.mechanisms()[column], 2.0**-self._plan._noise.bits
        return _derived.Draws(law, step, rows, scale, what == "n")

    def table(
        self, *, level: float | None = None, suppress_below: int | None = None
    ) -> Any:
        """Return the table, with the ends of its intervals.

        Parameters
        ----------
        level : float, optional
            As for `interval`.
        suppress_below : int, optional
            Suppress the values of groups with a noisy number of units (or else of
            records) below this, and say so in `note`. It uses only released numbers,
            and costs nothing.

        Returns
        -------
        frame
            The same kind as the source. For a file it is a pyarrow Table; for columns
            it is a pandas frame if one of them is from pandas, and otherwise a dict. It
            has the groups, in the order of `keys` or sorted. Each of `Plan.columns` has
            a value, `_low` and `_high`; NAME_n has no ends here. Numbers of records and
            units are shown as at least 0. A mean, variance, std or quantile is null if
            the noisy number of values is below 1. `note` names the uninformative
            statistics: their interval is wider than half of the range known before.
            Arrow tables hold a ledger's receipts in their metadata, pandas frames in
            ``attrs``.

        Raises
        ------
        DTypeError, ParameterError
            `level` is out of its domain.
        """
        p = self._checked(level)
        given = self._columns(p)
        if suppress_below is not None:
            released = self._plan.columns
            counts = [n for n in released if n.endswith("_n")]
            numbers = [n for n in ("units", "count", *counts) if n in released]
            if not numbers or "note" in self._keys:
                raise ParameterError(
                    "suppress_below requires a noisy number that is "
                    "released: set units=True or count=True, and give no "
                    "column of by the name 'note'"
                )
            small = self.values(numbers[0])
            given = _derived.suppressed(given, self._keys, small, suppress_below)
        if isinstance(self._like, type):
            named = {
                n: _words.items(x) if n in self._keys else x for n, x in given.items()
            }
            frame = self._like(named)
            if self._receipts is not None and not isinstance(frame, dict):
                frame.attrs[_tables.RECEIPTS] = self._receipts
            return frame
        pa = _tables.arrow()
        columns = {
            name: column if name in self._keys else _shown_array(column)
            for name, column in given.items()
        }
        found = _tables.with_text(pa.table(columns), "string")
        if self._receipts is not None:
            found = found.replace_schema_metadata({_tables.RECEIPTS: self._receipts})
        return _kinds.leave(self._like, found)

    def _columns(self, level: float) -> dict[str, Any]:
        """Return the columns of the table, with interval ends."""
        shown: dict[str, Any] = dict(self._keys)
        wide: dict[str, _Array] = {}
        for column in self._plan.columns:
            value = self.values(column)
            whole = value.dtype.kind == "i" and column not in self._plan._targets
            shown[column] = np.maximum(value, 0) if whole else value
            if whole and self._whole(column) is None:
                continue
            low, high = self.interval(column, level)
            if value.dtype != low.dtype:  # integers, with nulls
                held = np.nan_to_num(value).astype(np.int64)
                shown[column] = np.ma.array(held, mask=np.isnan(value))
            shown[f"{column}_low"], shown[f"{column}_high"] = low, high
            if not whole:
                found, what = self._found(column)
                known = found.known(what)
                if known is not None:
                    wide[column] = high - low > known / 2
        if wide:
            flags = zip(*wide.values(), strict=True)
            shown["note"] = [_note(wide, row) for row in flags]
        return shown


def _note(names: Any, flags: Any) -> str:
    said = [name for name, is_wide in zip(names, flags, strict=True) if is_wide]
    return f"wide: {', '.join(said)}" if said else ""


def _shown_array(column: Any) -> Any:
    """Return a column as an Arrow array, with NaN as null."""
    pa = _tables.arrow()
    if isinstance(column, list):
        return pa.array(column, pa.string())
    return pa.array(column, from_pandas=True)
