"""Outcomes of calls of a mechanism: numbers, other values, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Examine at most this many numbers of one output.
_WIDTH = 256

_MOST = 2**63 - 1


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of several calls.

    Parameters
    ----------
    labels : tuple of str
        The different kinds of outcome: a type (and shape), "nan", "raises ValueError"
        or a text.
    kinds : ndarray of int, shape (n,)
        The place of each outcome's kind in `labels`.
    values : ndarray of int64 or float64, shape (n, width)
        The numbers, padded with zeros to the longest outcome; zeros if an outcome has
        no numbers, or a NaN. A row depends only on its own outcome.
    """

    labels: tuple[str, ...]
    kinds: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.kinds)

    def numbered(self) -> np.ndarray:
        """Return a mask of the outcomes that are numbers."""
        has = [label.startswith("number") for label in self.labels]
        return np.asarray(np.array(has, bool)[self.kinds])


def _label(output: Any) -> str:
    """Name the kind of one output."""
    if isinstance(output, str | bytes):
        return f"the text {output[:40]!r}"
    name = type(output).__name__
    if isinstance(output, int):
        return f"number of type {name}"
    try:
        array = np.asarray(output)
    except ValueError:  # lists of different lengths
        return f"a {name}, no number"
    if array.dtype.kind not in "biuf" or array.size == 0 or array.size > _WIDTH:
        return f"a {name}, no number"
    if array.ndim == 0:
        return f"number of type {name}"
    return f"numbers of type {name} ({array.dtype}), shape {array.shape}"


def _numbers(output: Any) -> np.ndarray:
    if isinstance(output, int) and abs(output) > _MOST:
        return np.array([_MOST if output > 0 else -_MOST])
    array = np.asarray(output).reshape(-1)
    if array.dtype == np.uint64:
        array = np.minimum(array, np.uint64(_MOST))
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)


def of_calls(outputs: Sequence[Any], errors: Sequence[str]) -> Outcomes:
    """Return the outcomes of calls with one output each.

    Parameters
    ----------
    outputs : sequence
        One for each call; None if `errors` has a text.
    errors : sequence of str
        "raises ValueError" or the like; "" if the call returned.
    """
    if outputs and not any(errors) and len({type(y) for y in outputs}) == 1:
        first = outputs[0]
        small = not isinstance(first, int) or max(map(abs, outputs)) <= _MOST
        if isinstance(first, int | float | np.number) and small:
            label = f"number of type {type(first).__name__}"
            return of_array(np.asarray(outputs), label)
    labels = [e or _label(y) for y, e in zip(outputs, errors, strict=True)]
    place = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    rows = [
        _numbers(y) if label.startswith("number") else np.zeros(0, np.int64)
        for y, label in zip(outputs, labels, strict=True)
    ]
    whole = all(row.dtype == np.int64 for row in rows)
    shape = (len(rows), max(map(len, rows), default=0))
    values = np.zeros(shape, np.int64 if whole else np.float64)
    for i, row in enumerate(rows):
        values[i, : len(row)] = row
    kinds = np.array([place[label] for label in labels], np.int64)
    return _without_nan(Outcomes(tuple(place), kinds, values))


def of_array(outputs: np.ndarray, label: str = "") -> Outcomes:
    """Return the outcomes of one call with many outputs, one in each row."""
    if outputs.dtype.kind not in "biuf" or outputs.size == 0:
        texts = [str(y) for y in outputs.reshape(len(outputs), -1).tolist()]
        return of_calls(texts, [""] * len(texts))
    rows = outputs.reshape(len(outputs), -1)[:, :_WIDTH]
    shape = f", shape {outputs.shape[1:]}" if outputs.ndim > 1 else ""
    label = label or f"number{'s' if shape else ''} of type {outputs.dtype}{shape}"
    if rows.dtype == np.uint64:
        rows = np.minimum(rows, np.uint64(_MOST))
    values = rows.astype(np.float64 if rows.dtype.kind == "f" else np.int64)
    kinds = np.zeros(len(values), np.int64)
    return _without_nan(Outcomes((label,), kinds, values))


def _without_nan(outcomes: Outcomes) -> Outcomes:
    """Give outcomes with a NaN their own kind."""
    values = outcomes.values
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return outcomes
    lost = np.isnan(values).any(axis=1)
    kinds = np.where(lost, len(outcomes.labels), outcomes.kinds)
    kept = np.where(lost[:, None], 0.0, values)
    return Outcomes((*outcomes.labels, "nan"), kinds, kept)


def joined(parts: Sequence[Outcomes]) -> Outcomes:
    """Return the outcomes of several parts as one."""
    labels = tuple(dict.fromkeys(label for part in parts for label in part.labels))
    place = {label: i for i, label in enumerate(labels)}
    kinds = [np.array([place[x] for x in part.labels])[part.kinds] for part in parts]
    width = max(part.values.shape[1] for part in parts)
    values = [fitted(part.values, width) for part in parts]
    return Outcomes(labels, np.concatenate(kinds), np.concatenate(values))


def fitted(values: np.ndarray, width: int) -> np.ndarray:
    """Return rows of `width` numbers, cut or padded with zeros."""
    more = max(0, width - values.shape[1])
    return np.pad(values[:, :width], ((0, 0), (0, more)))
