"""Noise on columns of a frame, reports of its rows, and tallies of reports."""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fastdp import _doorway
from fastdp._stream import Stream, check_stream
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _kinds, _reports, _tables
from fastdp.ledger import Answer, Ledger
from fastdp.ledger._terms import check_name
from fastdp.mechanisms._base import Additive
from fastdp.mechanisms.local._base import FrequencyOracle
from fastdp.mechanisms.local._mechanism import Aggregator
from fastdp.mechanisms.local.estimates import FrequencyEstimate

if TYPE_CHECKING:
    import pyarrow as pa


def release(
    frame: Any,
    columns: Mapping[str, Additive[Any]],
    *,
    keys: str | Iterable[str],
    ledger: Ledger | None,
    label: str | None = None,
    budgets: str | Iterable[str] | None = None,
    source: str | None = None,
    stream: Stream | None = None,
) -> Any:
    """Return a frame of aggregates with noise, drawn once, as constants.

    Parameters
    ----------
    frame : pyarrow Table, pandas or polars DataFrame, DuckDB relation, or a stream
        One row per key: any object with ``__arrow_c_stream__``, or a Spark DataFrame,
        read once. Not a LazyFrame: collect it first.
    columns : dict of str to mechanism
        The columns to release, each with its noise: `DiscreteLaplace`,
        `DiscreteGaussian`, `TruncatedLaplace`, `Laplace` or `Gaussian` with the
        sensitivity of the whole column. A null counts as 0; sums of 128 bits saturate
        to 64.
    keys : str or iterable of str
        Columns (or index levels of pandas) that name the rows: integers, text, bools,
        dates or decimals; Python objects of pandas are text. The keys and the number of
        rows are public: list all possible keys, not only keys that occur. To select
        keys privately, use a `Plan`.
    ledger : Ledger or None
        Ledger that charges and stores the answer: a later call with the same label and
        the same keys returns the same frame. None must be given explicitly: then
        nothing is charged or stored, and a second call (a retry) is a second release.
    label, budgets, source
        With a ledger, as for `Ledger.table`.
    stream : Stream, optional
        Without a ledger: None draws fresh randomness; for tests
        `fastdp.testing.FixedStream`.

    Returns
    -------
    frame
        The same kind as `frame` (a pyarrow Table for other libraries), in memory. It
        has the keys and the named columns with noise, sorted by key. Arrow tables hold
        the ledger's receipts in their metadata, pandas frames in ``attrs``. A DuckDB
        relation reads a table in memory. A Spark DataFrame holds constants, with
        receipts in the metadata of its first column.

    Raises
    ------
    DTypeError, ParameterError
        `frame` is not a frame, a column is missing or has a wrong type, keys are
        repeated, or a mechanism has no sensitivity. Never raised for a value.
    BudgetExceededError, LabelConflictError, LedgerError
        As for `Ledger.table`.
    FastDPError
        pyarrow is missing.

    Privacy
    -------
    The guarantee is the composition of the columns' events, under their neighboring
    relation. Only keys and named columns are in the result. Timing class T0.

    Examples
    --------
    >>> import fastdp, pyarrow
    >>> counts = pyarrow.table({"clinic": ["b", "a"], "patients": [961, 1304]})
    >>> m = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    >>> table = fastdp.frames.release(
    ...     counts, {"patients": m}, keys="clinic", ledger=None
    ... )
    >>> table["clinic"].to_pylist()
    ['a', 'b']
    """
    check_stream(stream)
    laws = _reports.checked(columns, Additive, "randomize reports by frames.randomize")
    names = _tables.columns_of("keys", keys)
    if not names or not laws:
        raise ParameterError("keys and columns must each name at least one column")
    for name, m in laws.items():
        if name in names:
            raise ParameterError(f"columns and keys must differ, got {name!r} in both")
        m.event()  # refuse a missing sensitivity before the frame is read
    check_ledger(ledger, label, budgets, source, stream)
    if _tables.is_spark(frame):
        _cells(frame.limit(0), names, laws)  # refuse wrong types before a task runs
    shown, cells = _cells(frame, names, laws)
    if ledger is None:
        noisy = {name: m.release(x, stream=stream) for name, (m, x) in cells.items()}
        return _kinds.leave(frame, _tables.joined(shown, noisy))
    answer = ledger.table(
        cells,
        keys={name: _tables.packed(shown.column(name)) for name in names},
        label=label or "",
        budgets=budgets or (),
        source=source,
    )
    return _kinds.leave(frame, _stored(shown.schema, answer))


def randomize(
    frame: Any,
    columns: Mapping[str, FrequencyOracle],
    *,
    path: str | os.PathLike[str] | None = None,
    ledger: Ledger | None = None,
    label: str | None = None,
    budgets: str | Iterable[str] | None = None,
    stream: Stream | None = None,
) -> Any:
    """Return a frame with reports in the named columns, drawn now for each row.

    Parameters
    ----------
    frame : pyarrow Table, pandas or polars DataFrame, DuckDB relation, or a stream
        As in `release`; also a DataFrame of Dask or a Dataset of Ray.
    columns : dict of str to local randomizer
        `RandomizedResponse` or another randomizer with one number per report; nulls
        count as a value outside the categories.
    path : str or path
        Required for a frame of Spark, Dask or Ray: a folder that this machine and all
        workers see. Reports are written there before anybody reads them, and the
        returned frame reads this folder.
    ledger, label, budgets
        With `path`, as for `Ledger.write`. Without a ledger the folder must not exist.
    stream : Stream, optional
        None draws fresh randomness; for tests `fastdp.testing.FixedStream`.

    Returns
    -------
    frame
        The same kind as `frame`, as in `release`; the other columns are unchanged.

    Raises
    ------
    DTypeError, ParameterError
        As in `release`, or a randomizer does not report single numbers.
    FastDPError
        pyarrow is missing.

    Privacy
    -------
    Local: each mechanism's `event()` holds for its column, where any two values of a
    row are neighbors. **All other columns stay in the clear.** The holder of the frame
    draws the reports, so they protect against their readers, not against the holder.
    Timing class T0.

    Examples
    --------
    >>> import fastdp, pyarrow
    >>> rr = fastdp.RandomizedResponse.from_epsilon(1, categories=3)
    >>> table = pyarrow.table({"browser": [0, 2, 1, 1]})
    >>> reports = fastdp.frames.randomize(table, {"browser": rr})
    >>> fastdp.frames.tally(reports, rr, column="browser").users
    4
    """
    check_stream(stream)
    laws = _reports.checked_randomizers(columns)
    check_ledger(ledger, label, budgets, None, stream)
    _tables.arrow()
    tasks = _kinds.tasks_of(frame)
    if tasks is not None:
        if stream is not None:
            raise ParameterError("stream must be left out if an engine's tasks draw")
        charge = {"ledger": ledger, "label": label, "budgets": budgets}
        return tasks.randomize(frame, laws, path, **charge)
    if path is not None or ledger is not None:
        raise ParameterError(
            "path and ledger must be left out for a frame in memory, which is drawn at "
            "once: write the result yourself"
        )
    drawn = _reports.randomized(frame, laws, stream)
    return drawn if type(drawn) is type(frame) else _kinds.leave(frame, drawn)


def batches(
    mechanism: FrequencyOracle, column: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that randomizes a column of each record batch.

    It is for streams: the function maps an iterable of record batches to an iterator of
    batches, as engines' `mapInArrow` and readers need. It can be pickled. **An engine
    that evaluates its plan again draws again**: write the output before it is read.

    Parameters
    ----------
    mechanism : local randomizer
        As in `randomize`.
    column : str
        The column.

    Raises
    ------
    DTypeError, ParameterError, FastDPError
        As in `randomize`; a problem with a batch is raised when the batch arrives.

    Privacy
    -------
    As in `randomize`, for each time that a batch is processed. Timing class T0.

    Examples
    --------
    >>> import fastdp, pyarrow
    >>> rr = fastdp.RandomizedResponse.from_epsilon(1, categories=3)
    >>> batch = pyarrow.record_batch({"browser": [0, 2, 1]})
    >>> [b.num_rows for b in fastdp.frames.batches(rr, "browser")([batch, batch])]
    [3, 3]
    """
    laws = _reports.checked_randomizers({column: mechanism})
    _tables.arrow()
    return functools.partial(_each, laws)


def tally(
    source: Any, mechanism: FrequencyOracle, *, column: str
) -> Aggregator[FrequencyEstimate]:
    """Return the tally of a column of reports; tallies of parts merge.

    Parameters
    ----------
    source : frame, or iterable of frames or record batches
        Reports from `randomize` or `batches`; an iterable is read once. In a frame of
        Spark, Dask or Ray, each task counts its own reports.
    mechanism : local randomizer
        Mechanism that made the reports.
    column : str
        Column of the reports.

    Returns
    -------
    Aggregator
        The mechanism's counts: `merge` adds another aggregator, `estimate()` decodes
        them.

    Raises
    ------
    DTypeError, ParameterError, FastDPError
        As in `randomize`, or the column does not hold reports.

    Privacy
    -------
    Reports are already public, so nothing is spent. Timing class T0.

    Examples
    --------
    See `randomize`.
    """
    _reports.checked_randomizers({column: mechanism})
    _tables.arrow()
    tasks = _kinds.tasks_of(source)
    if tasks is None:
        return _reports.tally(source, mechanism, column)
    found = mechanism.aggregator()
    for part in tasks.tallies(source, mechanism, column):
        found.merge(pickle.loads(part))
    return found


# ---- arguments -------------------------------------------------------------------


def check_ledger(
    ledger: object, label: object, budgets: object, source: object, stream: object
) -> None:
    if ledger is not None and not isinstance(ledger, Ledger):
        raise DTypeError(
            f"ledger must be a Ledger or None, got {type(ledger).__name__}: "
            "fastdp.ledger.open(...)"
        )
    if ledger is None and not label is budgets is source is None:
        raise ParameterError("label, budgets and source require a ledger")
    if ledger is not None and (label is None or budgets is None):
        raise ParameterError("label and budgets must be given with a ledger")
    if ledger is not None:
        check_name("label", label)
    if ledger is not None and stream is not None:
        raise ParameterError("stream must be left out with a ledger")


# ---- drawing ---------------------------------------------------------------------


def _cells(
    frame: Any, names: tuple[str, ...], laws: Mapping[str, Additive[Any]]
) -> tuple[pa.Table, dict[str, tuple[Additive[Any], Any]]]:
    """Return a frame's keys, sorted, and the columns to release with their law."""
    table = _kinds.read("frame", frame, [*names, *laws])
    for name in laws:
        column = _tables.numbers(table.column(name))
        _doorway.enter(name, column.slice(0, 0))  # refuse wrong types
        table = table.set_column(table.column_names.index(name), name, column)
    table = _tables.in_order(table, names)
    cells = {
        name: (m, _doorway.enter(name, table.column(name))[0])
        for name, m in laws.items()
    }
    return table.select(list(names)), cells


def _stored(schema: Any, answer: Answer) -> pa.Table:
    """Return a ledger's answer as a table; its first columns are the schema's keys."""
    pa = _tables.arrow()
    columns = {
        name: _tables.unpacked(values, schema.field(name).type)
        if name in schema.names
        else pa.array(values)
        for name, values in answer.value.items()
    }
    return pa.table(columns).replace_schema_metadata(
        {_tables.RECEIPTS: answer.receipts_json}
    )


def _each(
    laws: Mapping[str, FrequencyOracle], source: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in source:
        yield _reports.randomized(batch, laws)
