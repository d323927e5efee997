"""Reports from clients: arrays, columns and lists of them, and their JSON form.

A report that the mechanism cannot have sent (a number out of range, from a broken or
hostile client) becomes a report that supports no category. Its sender counts as a user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core
from fastdp._doorway import enter, is_data
from fastdp.exceptions import DTypeError, FastDPError, ParameterError

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Read this many reports at a time from lines.
_ROOM = 8192

#: A number that is no report of any mechanism.
_NO_REPORT = np.uint32(2**32 - 1)


def as_reports(
    reports: Any, dtype: np.dtype[Any], row: tuple[int, ...], *, truth: bool = False
) -> _Array:
    """Return reports as a flat contiguous array with rows of the shape `row`.

    Its dtype is `dtype`, or uint32 if the reports were integers of another width.

    Parameters
    ----------
    truth : bool
        Whether bools are reports, too.

    Raises
    ------
    DTypeError, ParameterError
        The reports are not integers, or their rows have a wrong width.
    """
    if type(reports) is np.ndarray and reports.dtype == dtype:
        plain = reports.flags.c_contiguous and reports.flags.aligned
        if plain and reports.ndim and reports.shape[1:] == row:
            return reports  # as `release` makes them
    if isinstance(reports, np.generic):
        reports = np.asarray(reports)
    elif isinstance(reports, (list, tuple)) and (row or dtype.names):
        reports = _listed(reports, dtype, row)
    elif is_data(reports):
        reports = enter("reports", reports, truth=truth, labels=True)[0]
    if not isinstance(reports, np.ndarray) or hasattr(reports, "mask"):
        raise DTypeError(
            f"reports must be an array of dtype {dtype}, got {type(reports).__name__}"
        )
    own = reports.dtype == dtype or (truth and reports.dtype == np.bool_)
    if not own and (dtype.names is not None or reports.dtype.kind not in "iu"):
        raise DTypeError(
            f"reports must have dtype {dtype}, got {reports.dtype} of shape "
            f"{reports.shape}"
        )
    if row and reports.shape[-1:] != row:
        raise ParameterError(
            f"reports must have shape (..., {row[0]}), got {reports.shape}"
        )
    if not own:
        reports = _narrowed(reports, dtype, row)
    flat: _Array = np.require(reports, requirements=["C", "A"])
    return flat.reshape(reports.size // row[0] if row else reports.size, *row)


def as_records(reports: Any, dtype: np.dtype[Any], *, made_by: str) -> _Array:
    """Return reports of several fields as a flat contiguous array; refuse lists.

    Raises
    ------
    DTypeError
        `reports` is not an array of `dtype`.
    """
    found = np.asarray(reports) if isinstance(reports, np.void) else reports
    if not isinstance(found, np.ndarray) or found.dtype != dtype:
        raise DTypeError(
            f"reports must be an array of dtype {dtype}, as {made_by} and "
            "reports_from_json give it"
        )
    flat: _Array = np.require(found, requirements=["C", "A"]).reshape(-1)
    return flat


def _narrowed(reports: _Array, dtype: np.dtype[Any], row: tuple[int, ...]) -> _Array:
    """Return integers of any width as reports; invalid ones support nothing."""
    most = np.iinfo(dtype).max if row else _NO_REPORT
    wrong: _Array = np.asarray((reports < 0) | (reports > most))
    if not row:
        return np.where(wrong, _NO_REPORT, reports.astype(np.uint32))
    whole = wrong.any(axis=-1, keepdims=True)
    return np.where(whole, 0, reports).astype(dtype)


def _listed(reports: Any, dtype: np.dtype[Any], row: tuple[int, ...]) -> _Array:
    """Return a list of rows of bytes, or of pairs, as an array."""
    if len(reports) == 0:
        return np.zeros((0, *row), dtype)
    parts = [tuple(part) for part in reports if isinstance(part, (list, tuple))]
    widths = {len(part) for part in parts}
    if len(parts) != len(reports) or not parts or len(widths) > 1:
        raise DTypeError(f"reports must be an array or a list of rows of {dtype}")
    columns: list[_Array] = [
        enter("reports", list(column))[0] for column in zip(*parts, strict=True)
    ]
    if dtype.names is None:
        return np.column_stack(columns)
    if len(columns) != len(dtype.names):
        raise DTypeError(f"reports must be a list of {', '.join(dtype.names)}")
    found = np.zeros(len(parts), dtype)
    found["seed"] = [part[0] if 0 <= part[0] < 2**64 else 0 for part in parts]
    wrong = (columns[1] < 0) | (columns[1] > _NO_REPORT)
    wrong |= [not 0 <= part[0] < 2**64 for part in parts]
    found["value"] = np.where(wrong, _NO_REPORT, columns[1].astype(np.uint32))
    return found


# ---- JSON ----------------------------------------------------------------------------


def written(report: Any) -> Any:
    """Return one report as JSON types.

    A number, or a bool, becomes a number; a row of bytes becomes hex digits. A report
    with several fields becomes an object; its 64-bit fields are 16 hex digits, most
    significant first.
    """
    if isinstance(report, np.ndarray):
        return report.tobytes().hex()
    if report.dtype.names is not None:
        return {name: written(report[name]) for name in report.dtype.names}
    return f"{int(report):016x}" if report.dtype.itemsize == 8 else int(report)


def read(content: Any, dtype: np.dtype[Any], row: tuple[int, ...]) -> Any:
    """Invert `written`: return an element for an array of reports.

    Raises
    ------
    ParameterError
        `content` is anything else, or a number that the dtype does not hold.
    """
    try:
        if dtype.names is None:
            return _part(content, dtype, row)
        if isinstance(content, dict) and set(content) == set(dtype.names):
            parts = [dtype[name] for name in dtype.names]
            return tuple(
                _part(content[name], part.base, part.shape)
                for name, part in zip(dtype.names, parts, strict=True)
            )
        raise TypeError
    except (TypeError, ValueError):
        rule = f"a number that {dtype} holds"
        if row:
            rule = f"{2 * row[0]} hex digits"
        elif dtype.names is not None:
            shown = [f"{n} ({_rule(dtype[n])})" for n in dtype.names]
            rule = f"an object of {' and '.join(shown)}"
        raise ParameterError(f"a report must be {rule}") from None


def read_lines(
    text: bytes,
    mechanism: str,
    dtype: np.dtype[Any],
    row: tuple[int, ...],
    otherwise: Callable[[str], _Array],
) -> tuple[_Array, _Array]:
    """Return the reports in lines of JSON, and the numbers of refused lines.

    `otherwise` reads the lines that the core does not accept, or raises an error.
    """
    fields, found, refused = _fields(dtype, row), [], []
    at = line = 0
    while at < len(text):
        room = np.empty((_ROOM, *row), dtype)
        name = mechanism.encode()
        count, read, lines = _core.report_lines(text, at, name, fields, room)
        at, line = at + read, line + lines
        found.append(room[:count].copy() if count < _ROOM else room)
        if count == 0 and at < len(text):
            end = text.find(b"\n", at) % (len(text) + 1)
            line += 1
            try:
                found.append(otherwise(text[at:end].decode()))
            except (FastDPError, UnicodeDecodeError):
                refused.append(line)
            at = end + 1
    none = np.empty((0, *row), dtype)
    return np.concatenate([none, *found]), np.array(refused, np.int64)


def _fields(
    dtype: np.dtype[Any], row: tuple[int, ...]
) -> list[tuple[bytes | None, int, int, int]]:
    """Return name, kind, offset and size of each part of a report, for the core."""
    number, word, digits = range(3)
    if dtype.names is None:
        width = dtype.itemsize * (row[0] if row else 1)
        kind = digits if row else word if width == 8 else number
        return [(None, kind, 0, width)]
    found: list[tuple[bytes | None, int, int, int]] = []
    for name in dtype.names:
        assert dtype.fields is not None
        part, offset = dtype.fields[name][:2]
        kind = digits if part.shape else word if part.itemsize == 8 else number
        found.append((name.encode(), kind, offset, part.itemsize))
    return found


def _rule(dtype: np.dtype[Any]) -> str:
    if dtype.shape or dtype.itemsize == 8:
        return f"{2 * dtype.itemsize} hex digits"
    return f"a number that {dtype} holds"


def _part(content: Any, dtype: np.dtype[Any], row: tuple[int, ...]) -> Any:
    if row:
        return np.frombuffer(_bytes(content, row[0]), dtype)
    if dtype.itemsize == 8:
        return int.from_bytes(_bytes(content, 8), "big")
    return _number(content, dtype)


def _bytes(text: Any, size: int) -> bytes:
    if not isinstance(text, str) or len(text) != 2 * size:
        raise ValueError
    found = bytes.fromhex(text)
    if len(found) != size:  # bytes.fromhex skips blanks
        raise ValueError
    return found


def _number(value: Any, dtype: np.dtype[Any]) -> int:
    if type(value) is not int or not 0 <= value <= np.iinfo(dtype).max:
        raise ValueError
    return value
