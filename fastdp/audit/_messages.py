"""Check whether errors, warnings, logs, prints or a repr show a value of the data."""

from __future__ import annotations

import contextlib
import io
import logging
import random
import re
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fastdp.audit._findings import Finding
from fastdp.audit._worker import Batched, LostError, Subject, Worker

#: Number of calls with each kind of input; report if this many show their value.
_CALLS, _SHOWN = 48, 13

#: Number of digits that identify a value; number of characters of a text to examine.
_KNOWN, _LONGEST = 7, 2**11

#: Bound on the probability of reporting texts that do not depend on the input
#: (docs/proofs/audit.md, 5).
FALSE_ALARM = 1e-33

#: Functions that make inputs with an identifiable value, by description.
INPUTS: dict[str, Callable[[Any, int], Any]] = {
    "an integer": lambda x, v: v,
    "a float": lambda x, v: v + 0.5,
    "a text": lambda x, v: str(v),
    "bytes": lambda x, v: str(v).encode(),
    "a list": lambda x, v: [v, v],
    "a ragged list": lambda x, v: [[v], [v, v]],
    "a list with None": lambda x, v: [v, None],
    "a dict": lambda x, v: {"value": v},
    "an array of objects": lambda x, v: np.array([v, None, str(v)], object),
    "an array of texts": lambda x, v: np.array([str(v)] * 2),
    "an array with NaN": lambda x, v: np.array([v, np.nan, np.inf, -np.inf]),
    "an array of complex numbers": lambda x, v: np.array([complex(v, v)]),
    "an array of three axes": lambda x, v: np.full((1, 1, 2), float(v)),
    "the same shape": lambda x, v: _filled(x, v),
    "the same shape, with NaN": lambda x, v: _filled(x, v, np.nan),
    "an empty array": lambda x, v: np.zeros(0),
    "a huge integer": lambda x, v: v * 10**30,
    "a huge float": lambda x, v: v * 1e298,
}

TRIED = (
    "whether errors, warnings, logs, prints or the repr show a value of the input: "
    f"{', '.join(INPUTS)}"
)


def _filled(x: Any, value: int, last: float | None = None) -> Any:
    """Return numbers in the shape of an input, all `value` except the last."""
    array = np.full(np.shape(x), value, np.int64 if last is None else np.float64)
    if last is not None and array.size:
        array.reshape(-1)[-1] = last
    return array if array.ndim else array.item()


class _Log(logging.Handler):
    """Keeps the texts of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a text."""
        self.texts.append(record.getMessage())


def said(subject: Subject, kind: str) -> list[dict[str, bool]]:
    """Return, for each call, the texts that showed its value."""
    found = []
    for _ in range(_CALLS):
        value = random.SystemRandom().randrange(10**9, 10**10)
        x = INPUTS[kind](subject.inputs[0], value)
        known = str(value)[:_KNOWN]
        texts, answer = _texts(subject.mechanism, x)
        found.append({name: shows(text, known, answer) for name, text in texts.items()})
        subject.beat()
    return found


def _digits(text: str) -> str:
    return text.translate(str.maketrans("", "", ".,_' "))


def shows(text: str, known: str, answer: Any) -> bool:
    """Return whether a text shows a value's first digits that the answer does not show.

    Parameters
    ----------
    text : str
    known : str
        The value's first digits.
    answer : object
        The call's result, which is public; None if the call raised.
    """
    plain, half = _digits(text), _LONGEST // 2
    if len(plain) > _LONGEST:
        plain = f"{plain[:half]}|{plain[-half:]}"
    runs = set(re.findall(known + r"\d{0,3}", plain))
    return any(not _is_of(run, answer) for run in runs)


def _is_of(run: str, answer: Any) -> bool:
    """Return whether digits are from an answer, exact or rounded."""
    if run in _digits(repr(answer)):
        return True
    try:
        numbers = np.abs(np.asarray(answer, np.float64)).ravel()[:16]
    except (TypeError, ValueError, OverflowError):
        return False
    return any(_digits(f"{y:.{len(run) - 1}e}").startswith(run) for y in numbers)


def _said_by(error: BaseException | None) -> str:
    """Return the text of an error and of its causes, as Python prints them."""
    texts: list[str] = []
    while error is not None and len(texts) < 10:
        texts += traceback.format_exception_only(error)
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)
    return "".join(texts)


def _texts(mechanism: Any, x: Any) -> tuple[dict[str, str], Any]:
    """Return the texts of one call by origin, and its result."""
    function = mechanism
    if isinstance(mechanism, Batched):
        function = mechanism.function
        x = np.asarray(x)[None] if not isinstance(x, list | dict) else [x]
    log, printed, error, answer = _Log(), io.StringIO(), "", None
    root = logging.getLogger()
    root.addHandler(log)
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            try:
                answer = function(x)
            except (Exception, SystemExit) as raised:
                error = _said_by(raised)
    finally:
        root.removeHandler(log)
    owner = getattr(function, "__self__", function)
    texts = {
        "an error": error,
        "a warning": "\n".join(str(w.message) for w in warned),
        "a log": "\n".join(log.texts),
        "a print": printed.getvalue(),
        "the repr": f"{owner!r} {owner!s}",
    }
    return texts, answer


def check(mechanism: Any, inputs: tuple[Any, Any]) -> Finding:
    """Return the finding whether messages show values of the input.

    Parameters
    ----------
    mechanism : callable or Batched
    inputs : pair
        Some inputs are made in the shape of the first one.
    """
    faults: dict[str, list[str]] = {}
    notes = []
    left = list(INPUTS)
    while left:
        with Worker(mechanism, inputs) as worker:
            try:
                while left:
                    calls = worker.do(said, left[0])
                    kind = left.pop(0)
                    for where in calls[0]:
                        if sum(call[where] for call in calls) >= _SHOWN:
                            faults.setdefault(f"{where} shows", []).append(kind)
            except LostError as lost:
                kind = left.pop(0)
                if str(lost).startswith("hangs"):
                    notes.append(f"{kind}: {lost}")
                else:
                    faults.setdefault(str(lost), []).append(kind)
            except RuntimeError as error:
                notes.append(f"{left.pop(0)}: {str(error).strip().split(chr(10))[-1]}")
    evidence = "; ".join(f"{what}: {', '.join(of)}" for what, of in faults.items())
    return Finding(
        check="messages",
        status="fault" if faults else "nothing found",
        tried=TRIED,
        evidence=evidence or "no value of an input is shown",
        false_alarm=FALSE_ALARM,
        notes=tuple(notes),
    )
