"""Beam: the tally of reports as a CombineFn, and releases of aggregates by window.

Beam may run a bundle again, with side effects in each run. A tally is the same in every
run; a release goes through a ledger with a label for the window and the firing, so all
runs get the first stored answer. Import this module by its name; see docs/beam.md.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fastdp import _public
from fastdp import ledger as ledgers
from fastdp.accounting.events._composite import composed
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    FastDPError,
    ParameterError,
)
from fastdp.frames import _release, _reports, _tables
from fastdp.ledger._terms import check_name
from fastdp.mechanisms import DiscreteGaussian, DiscreteLaplace, TruncatedLaplace
from fastdp.mechanisms.local._base import FrequencyOracle

try:
    import apache_beam as beam
except ImportError:
    beam = None

__all__ = ["Release", "Tally"]

_CombineFn: Any = object if beam is None else beam.CombineFn
_DoFn: Any = object if beam is None else beam.DoFn
_PTransform: Any = object if beam is None else beam.PTransform
_WINDOW, _PANE = (
    (None, None) if beam is None else (_DoFn.WindowParam, _DoFn.PaneInfoParam)
)

#: Windows whose bounds do not depend on the elements.
_PUBLIC_WINDOWS = ("GlobalWindows", "FixedWindows", "SlidingWindows")

_INT64 = 2**63 - 1


class Tally(_CombineFn):  # type: ignore[misc]
    """Tally reports: ``reports | beam.CombineGlobally(Tally(mechanism))``.

    Parameters
    ----------
    mechanism : local randomizer
        Mechanism that made the reports; each report is a single number.
    column : str, optional
        Elements are arrays of reports or, with `column`, frames or record batches with
        reports in this column. Use large batches: an element costs Beam about 0.2 ms.

    Raises
    ------
    DTypeError, ParameterError, FastDPError
        As in `fastdp.frames.tally`; Beam is missing.

    Notes
    -----
    The output is an `Aggregator`: ``| beam.Map(lambda tally: tally.estimate())``.

    Privacy
    -------
    Reports are already public, so nothing is spent, and a repeated bundle gives the
    same bits. Timing class T0.
    """

    def __init__(self, mechanism: FrequencyOracle, column: str | None = None) -> None:
        _require_beam()
        _reports.checked_randomizers({column or "reports": mechanism})
        self._mechanism, self._column = mechanism, column

    def create_accumulator(self) -> Any:
        """Return an empty tally."""
        return self._mechanism.aggregator()

    def add_input(self, accumulator: Any, batch: Any) -> Any:
        """Add a batch of reports."""
        if self._column is None:
            return accumulator.add(batch)
        found = _reports.tally(batch, self._mechanism, self._column)
        return accumulator.merge(found)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        """Merge tallies."""
        return sum(accumulators, self._mechanism.aggregator())

    def extract_output(self, accumulator: Any) -> Any:
        """Return the tally."""
        return accumulator


class Release(_PTransform):  # type: ignore[misc]
    """Release sums by public key, once for each firing of each window.

    Elements are rows (dicts, `beam.Row` or named tuples) with columns of keys and of
    integers, which are summed by key. Bound each user's contribution to a window first.
    The output rows are dicts, sorted by key, in their window.

    Parameters
    ----------
    columns : dict of str to mechanism
        The columns to sum and release, each with its noise: `DiscreteLaplace`,
        `DiscreteGaussian` or `TruncatedLaplace`, with the sensitivity of the whole
        column in one firing. A value that is not an integer counts as 0; sums saturate
        to 64 bits.
    keys : frame
        The public groups to show, one row per group. Rows of other groups are left out.
    ledger : str
        Location at which every worker opens the ledger: a file if all workers run on
        one machine, otherwise "postgresql://host/name".
    label : str
        Public name of the query. In the global window the transaction has this label,
        in other windows ``label/start/end``; the labels of later firings end with
        ``/firing 2`` and so on. Windows of the same bounds in another run are the same
        transaction.
    budgets : str or iterable of str
        Budgets charged for each firing of each window.

    Raises
    ------
    DTypeError, ParameterError, LedgerError, UnsupportedEventError, FastDPError
        Raised when the pipeline is built: a parameter, budget or ledger is not valid,
        windows depend on data (sessions), or firings accumulate (a user's rows would
        count again in each firing). Never raised for a value.
    BudgetExceededError, LabelConflictError
        Raised by the worker before the draw, as for `Ledger.table`.

    Privacy
    -------
    The guarantee is the composition of the columns' events, for each firing of each
    window. **A window without any row does not fire** (except the global window), which
    reveals that it was empty unless a row of zeros is added to each window. Timing
    class T0.
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        keys: Any,
        ledger: str,
        label: str,
        budgets: str | Iterable[str],
    ) -> None:
        _require_beam()
        super().__init__()
        kind = (DiscreteLaplace, DiscreteGaussian, TruncatedLaplace)
        laws = _reports.checked(columns, kind, "sums are of integers: scale and round")
        listed = _listed(keys, laws)
        if not isinstance(ledger, str):
            raise DTypeError(
                "ledger must be a str, the address at which workers open "
                f"it, got {type(ledger).__name__}"
            )
        names = _tables.columns_of("budgets", budgets)
        check_name("label", label)
        event = composed(m.event() for m in laws.values())
        with ledgers.open(ledger) as book, contextlib.suppress(BudgetExceededError):
            book.preview(event, budgets=names)  # stored answers need no budget
        self._sums = _Sums(listed, list(laws))
        self._draw = _Draw(listed, laws, ledger, label, names)

    def expand(self, rows: Any) -> Any:
        """Return rows of released tables."""
        windowing = rows.windowing
        window = type(windowing.windowfn).__name__
        if window not in _PUBLIC_WINDOWS:
            raise ParameterError(
                "windows must be public, global, fixed or sliding, not "
                f"{window}: the label shows where a window begins and ends"
            )
        trigger = windowing.triggerfn
        once = isinstance(trigger, beam.trigger.DefaultTrigger)
        mode = windowing.accumulation_mode
        if not once and mode == beam.trigger.AccumulationMode.ACCUMULATING:
            raise ParameterError(
                "accumulation_mode must be DISCARDING: in a window that accumulates, a "
                "user's rows count again in each firing"
            )
        combine = beam.CombineGlobally(self._sums)
        if not (once and window == "GlobalWindows"):
            combine = combine.without_defaults()
        return rows | "Sum" >> combine | "Release" >> beam.ParDo(self._draw)


class _Sums(_CombineFn):  # type: ignore[misc]
    """Sum columns of integers by public key, exactly."""

    def __init__(self, keys: Any, columns: list[str]) -> None:
        self._names, self._columns = keys.column_names, columns
        self._rows = [tuple(row.values()) for row in keys.to_pylist()]
        self._known = frozenset(self._rows)

    def create_accumulator(self) -> Counter[Any]:
        return Counter()

    def add_input(self, sums: Counter[Any], row: Any) -> Any:
        cells = row if isinstance(row, Mapping) else row._asdict()
        key = tuple(cells.get(n) for n in self._names)
        with contextlib.suppress(TypeError):  # an unhashable cell is no key
            if key in self._known:
                for name in self._columns:
                    sums[key, name] += _integer(cells.get(name))
        return sums

    def merge_accumulators(self, parts: Iterable[Counter[Any]]) -> Any:
        found: Counter[Any] = Counter()
        for part in parts:
            found.update(part)
        return found

    def extract_output(self, sums: Counter[Any]) -> Any:
        found = {}
        for name in self._columns:
            held = [max(-_INT64, min(sums[key, name], _INT64)) for key in self._rows]
            found[name] = np.array(held, np.int64)
        return found


class _Draw(_DoFn):  # type: ignore[misc]
    """Charge, draw and store under the label of a firing, or read the stored answer."""

    def __init__(self, keys: Any, laws: Any, ledger: str, *charge: Any) -> None:
        self._keys, self._laws, self._ledger = keys, laws, ledger
        self._label, self._budgets = charge

    def setup(self) -> None:
        self._book = ledgers.open(self._ledger)

    def teardown(self) -> None:
        self._book.close()

    def process(
        self, sums: Any, window: Any = _WINDOW, pane: Any = _PANE
    ) -> Iterator[dict[str, Any]]:
        yield from _release.release(
            _tables.joined(self._keys, sums),
            self._laws,
            keys=self._keys.column_names,
            ledger=self._book,
            label=_label(self._label, window, pane),
            budgets=self._budgets,
        ).to_pylist()


def _label(label: str, window: Any, pane: Any) -> str:
    """Return the label of a firing, from the bounds of its window and its number."""
    if not isinstance(window, beam.transforms.window.GlobalWindow):
        label = "/".join((label, _named(window.start), _named(window.end)))
    return f"{label}/firing {pane.index + 1}" if pane.index > 0 else label


def _named(time: Any) -> str:
    """Return a time as text, or in microseconds if it is out of the range of dates."""
    try:
        return str(time.to_rfc3339())
    except (OverflowError, ValueError):
        return str(time.micros)


def _listed(keys: Any, laws: Any) -> Any:
    """Return public keys, checked and sorted."""
    _tables.check_frame("keys", keys)
    with _tables.constant_messages("keys"):
        table = _tables.arrow().table(keys)
    names = table.column_names
    if not names or not laws or not len(table) or set(names) & set(laws):
        raise ParameterError(
            "keys and columns must each name at least one column, share none, and "
            "keys must list at least one group"
        )
    return _tables.in_order(table, names)


def _integer(cell: Any) -> int:
    try:
        return int(cell.__index__())
    except (AttributeError, TypeError):
        return 0


def _require_beam() -> None:
    if beam is None:
        raise FastDPError("fastdp.frames.beam needs Beam: pip install apache-beam")


_public.show(globals())
