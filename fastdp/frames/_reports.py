"""Reports for the rows of a frame in memory, and their tallies, for one task."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any

from fastdp import _doorway
from fastdp._stream import Stream
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _tables
from fastdp.mechanisms.local._base import FrequencyOracle
from fastdp.mechanisms.local._mechanism import Aggregator
from fastdp.mechanisms.local.estimates import FrequencyEstimate


def checked(columns: Any, kind: Any, otherwise: str) -> dict[str, Any]:
    if not isinstance(columns, Mapping):
        raise DTypeError(
            f"columns must be a dict of mechanisms by column, got "
            f"{type(columns).__name__}"
        )
    names = _tables.columns_of("columns", list(columns))
    for name in names:
        if not isinstance(columns[name], kind):
            raise DTypeError(
                f"the mechanism of column {name!r} must be of another kind, got "
                f"{type(columns[name]).__name__}: {otherwise}"
            )
    return {name: columns[name] for name in names}


def checked_randomizers(columns: Any) -> dict[str, FrequencyOracle]:
    laws = checked(columns, FrequencyOracle, "release aggregates by frames.release")
    for name, m in laws.items():
        if m.report_width != m.report_dtype.itemsize or m.report_dtype.names:
            raise ParameterError(
                f"the reports of column {name!r} must be single numbers, "
                f"but those of a {type(m).__name__} are not: draw them by "
                "its release(column)"
            )
    return laws


def randomized(
    frame: Any, laws: Mapping[str, FrequencyOracle], stream: Stream | None = None
) -> Any:
    """Return a frame of pandas, polars or Arrow with reports in the named columns.

    Other frames become Arrow tables.
    """
    pandas = _tables.is_of(frame, "pandas", "DataFrame")
    if pandas or _tables.is_of(frame, "polars", "DataFrame"):
        _tables.require_columns("frame", list(frame.columns), laws)
        drawn = {n: m.release(frame[n], stream=stream) for n, m in laws.items()}
        return frame.assign(**drawn) if pandas else frame.with_columns(**drawn)
    if not hasattr(frame, "set_column"):
        _tables.check_frame("frame", frame)
        with _tables.constant_messages("frame"):
            frame = _tables.arrow().table(frame)
    _tables.require_columns("frame", frame.schema.names, laws)
    for name, m in laws.items():
        reports = m.release(frame.column(name), stream=stream)
        frame = frame.set_column(frame.schema.get_field_index(name), name, reports)
    return frame


def tally(
    source: Any, mechanism: FrequencyOracle, column: str
) -> Aggregator[FrequencyEstimate]:
    """Return the tally of a frame in memory, or of an iterable of frames."""
    found = mechanism.aggregator()
    whole = hasattr(source, "__arrow_c_stream__") or not isinstance(source, Iterable)
    for part in [source] if whole else source:
        reports = _tables.read("source", part, [column]).column(column)
        found.add(_doorway.enter(column, reports)[0])
    return found


def tallied(mechanism: FrequencyOracle, column: str, part: Any) -> bytes:
    """Return the pickled tally of a task's reports: repeated attempts agree exactly."""
    return pickle.dumps(tally(part, mechanism, column))
