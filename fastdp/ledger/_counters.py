"""Running totals in the ledger: one charge, then a label for every step.

Between two steps the memory of a counter, or of prefix sums, is stored only in its row.
The memory has a random prefix, so that its digest in the chain reveals nothing. A step
is an ordinary label: its first transaction takes a turn of the counter; its second
transaction stores the total and the new memory, unless a later turn was taken.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdp import _validate
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    LedgerError,
    ParameterError,
)
from fastdp.ledger import _protocol, _terms
from fastdp.ledger._chain import binds, bound
from fastdp.ledger._receipts import receipts_from
from fastdp.ledger._store import Run, Store, has_counters
from fastdp.mechanisms import Counter, PrefixSums
from fastdp.mechanisms.records.clipped_sum import SumAccumulator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastdp.ledger._answers import Answer
    from fastdp.ledger._budgets import Budget
    from fastdp.ledger._opened import Opened
    from fastdp.ledger._terms import Terms
    from fastdp.mechanisms.running._running import Running

#: Maximum memory in bytes: each step reads and writes all of it.
_MOST = 1 << 26

#: First byte of a memory, its layout version; bytes of the random prefix before it.
_LAYOUT, _SALT = b"\x01", 32


class _Running:
    """A running total that survives the process; a `Ledger` makes it.

    Threads may share it, and many processes may open it at the same time: steps are
    taken one after another, in the same order for all. The object holds nothing
    private.
    """

    def __init__(self, book: Opened, mechanism: Any, terms: Terms) -> None:
        self._book = book
        self._mechanism = mechanism
        self._terms = terms

    def _take(self, x: Any, label: str, source: str | None, workers: int = 1) -> Answer:
        """Take one step with the integers x under a label."""
        m: Running = self._mechanism
        own = self._terms
        wanted = _terms.terms(
            label, "step", own.budgets, own.event, {"counter": own.label}, source=source
        )
        rare = _terms.rare_step(m._noise)
        assert rare is not None  # both noises have a bound
        wanted = replace(wanted, distance=rare * m._strategy.drawn * x.size)
        turn = _Turn(own.label, m._strategy.steps)

        def draw(_: int, __: object) -> tuple[str, bytes]:
            try:
                total, after = m._resumed(turn.memory, turn.taken, x, workers)
            except ValueError:
                raise _unreadable(own.label) from None
            turn.after = _sealed(after)
            return "array", _terms.packed(self._shape(total))

        return self._book._drawn(wanted, draw, self._shown, turn)

    @staticmethod
    def _shape(total: Any) -> Any:
        return total

    @staticmethod
    def _shown(body: bytes) -> Any:
        return _terms.unpacked(body)

    def totals(self) -> list[tuple[str, Any]]:
        """Return label and total of every completed step, in order.

        Raises
        ------
        LedgerError
            The ledger cannot be read, or a total was altered.
        """
        store = self._book._store
        shown = []
        for label, form, body, found, receipts in store.rows(
            "SELECT s.label, r.form, r.body, r.digest, r.receipts FROM step s "
            "JOIN result r ON r.label = s.label WHERE s.counter = ? ORDER BY s.number",
            self._terms.label,
        ):
            _protocol.require_whole(store, label, form, body, found)
            shown.append((label, self._shown(bytes(body))))
            last = receipts
        if shown:
            store.seen.saw(receipts_from(last))
        return shown

    @property
    def steps_left(self) -> int:
        """The number of steps that are left."""
        with self._book._store.reading() as run:
            if _ended(run, self._terms.label):
                return 0
            steps: int = self._mechanism._strategy.steps
            return steps - _last(run, self._terms.label)[0]

    def end(self, *, note: str) -> None:
        """End the running total before its last step, and wipe its private sums.

        The budget stays spent; the totals stay stored.

        Parameters
        ----------
        note : str
            The reason, for the chains: 1 to 200 printable ASCII characters.

        Raises
        ------
        BudgetExceededError
            The running total has already ended.
        DTypeError, ParameterError, LedgerError
            `note` is not such a text, or the ledger cannot be used.
        """
        _terms.check_name("note", note)
        book, label = self._book, self._terms.label
        detail = _terms.canonical({"note": note, **_protocol.note()})
        store = book._store
        with _protocol.alone(store, book._uuid, label), store.transaction() as run:
            budgets = _protocol.locked(
                run, book._store, book._uuid, self._terms.budgets
            )
            _require_going(run, label, self._mechanism._strategy.steps)
            # A draw that is running now no longer has the last turn.
            run(
                "UPDATE memory SET turn = turn + 1, body = ? WHERE counter = ?",
                *(b"", label),
            )
            receipts = [
                _protocol.enter(run, book._uuid, budget, "end", label, detail)
                for budget in budgets
            ]
        book._witness(receipts)

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind} {self._terms.label!r} of {self._book._store.where!r}>"


class LedgerCounter(_Running):
    """A running total of events that survives the process, from `Ledger.counter`.

    Threads may share it, and many processes may open it at the same time: steps are
    taken one after another, in the same order for all. The object holds nothing
    private.
    """

    def add(self, count: Any, *, label: str, source: str | None = None) -> Answer:
        """Add one step's events, once for the label; return the noisy total after it.

        Parameters
        ----------
        count : int or numpy integer
            Events of this step, as for `fastdp.Counter.add`. If the label exists
            already, `count` is ignored.
        label : str
            Public name of the step, such as the hour, new to the ledger: 1 to 200
            printable ASCII characters.
        source : str, optional
            Public name of the snapshot that `count` was computed from.

        Returns
        -------
        Answer
            Its `value` is a float.

        Raises
        ------
        BudgetExceededError
            All steps were taken, the counter was ended, or a budget is closed; or a
            second attempt after many crashes must be charged and is not covered.
        LabelConflictError
            The label belongs to something other than a step of this counter.
        DTypeError, ParameterError, LedgerError
            As for `Ledger.release`.

        Privacy
        -------
        The counter's `event()`, charged under its label, covers all steps.
        Timing class T0.
        """
        return self._take(self._mechanism._clamped(count), label, source)

    @staticmethod
    def _shape(total: Any) -> Any:
        return np.float64(total[0])

    @staticmethod
    def _shown(body: bytes) -> float:
        return float(_terms.unpacked(body))


class LedgerPrefixSums(_Running):
    """Noisy sums of all rows so far that survive the process: DP-FTRL with restarts.

    `Ledger.prefix_sums` returns it. Threads may share it, and many processes may open
    it at the same time: steps are taken one after another, in the same order for all.
    The object holds nothing private.
    """

    def accumulator(self) -> SumAccumulator:
        """Return an empty accumulator for the rows of one step that come in parts."""
        found: SumAccumulator = self._mechanism.accumulator()
        return found

    def step(
        self, rows: Any, *, label: str, source: str | None = None, workers: int = 1
    ) -> Answer:
        """Add one step's rows, once for the label; return the noisy sum after it.

        Parameters
        ----------
        rows : ndarray of float64 or float32, shape (n, dimension), or SumAccumulator
            As for `fastdp.PrefixSums.step`; an accumulator is cleared once the answer
            is stored. All attempts of a label must pass the same values. If the label
            has an answer already, the stored answer is returned for any values.
        label : str
            Public name of the step, such as its number, new to the ledger: 1 to 200
            printable ASCII characters.
        source : str, optional
            Public name of the snapshot that `rows` was computed from.
        workers : int
            Threads.

        Returns
        -------
        Answer
            Its `value` is an ndarray of float64, shape (dimension,), in the rows' unit.

        Raises
        ------
        BudgetExceededError
            All steps were taken, the sums were ended, or a budget is closed; or a
            second attempt after many crashes must be charged and is not covered.
        LabelConflictError
            The label belongs to something other than a step of these sums.
        DTypeError, ParameterError, LedgerError
            As for `Ledger.release`.

        Privacy
        -------
        The mechanism's `event()`, charged under its label, covers all steps.
        Timing class T0.
        """
        m: PrefixSums = self._mechanism
        workers = _validate.integer("workers", workers, 1)
        with m._summed(rows, workers) as x:
            return self._take(x, label, source, workers)


def opened(
    book: Opened,
    mechanism: object,
    label: object,
    budgets: str | Iterable[str],
    kind: type[Counter | PrefixSums],
) -> Any:
    """Return the running total of a label; charge and make it if it does not exist."""
    if type(mechanism) is not kind:
        raise DTypeError(
            f"mechanism must be a {kind.__name__}, got {type(mechanism).__name__}: use "
            "release for a mechanism without memory"
        )
    terms = _terms.terms(
        label, "counter", budgets, mechanism.event(), {"law": _terms.law_of(mechanism)}
    )
    first = mechanism._lent()
    if len(first) > _MOST:
        raise ParameterError(
            f"mechanism must keep at most {_MOST} bytes between two steps, got "
            f'{len(first)}: use strategy "tree" or "blt", fewer bands, or fewer entries'
        )
    store = book._store
    with store.reading() as run:
        known = has_counters(run)
    if not known:
        raise LedgerError(
            f"{store.where} is of the first format, which has no place for counters: "
            "`fastdp ledger migrate` copies it to a new one"
        )
    store.require_private()
    with _protocol.alone(store, book._uuid, terms.label):
        _, attempt, receipts = _protocol.charge(
            store, book._uuid, terms, _Opening(_sealed(first))
        )
    if attempt == 1:
        book._witness(receipts)
    found = LedgerCounter if kind is Counter else LedgerPrefixSums
    return found(book, mechanism, terms)


class _Opening:
    """A counter's part of the transaction that charges it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def begin(
        self, run: Run, store: Store, budgets: Sequence[Budget], terms: Terms
    ) -> tuple[str, list[str], dict[str, str]]:
        what, states = _protocol.admitted(budgets, terms, 1)
        run(
            "INSERT INTO memory (counter, turn, body) VALUES (?, 0, ?)",
            *(terms.label, self._body),
        )
        return what, states, bound(self._body)


class _Turn:
    """A step's part of both transactions."""

    taken: int
    memory: bytes
    #: Body of the row after the step; the draw sets it.
    after: bytes

    def __init__(self, counter: str, steps: int) -> None:
        self.lock = counter
        self._steps = steps

    def begin(
        self, run: Run, store: Store, budgets: Sequence[Budget], terms: Terms
    ) -> tuple[str, list[str], dict[str, str]]:
        """Take the next turn; refuse a counter that has ended, or was edited."""
        _require_going(run, self.lock, self._steps)
        turn, body = _memory(run, store, self.lock)
        self.taken, mark = _last(run, self.lock)
        rows = run(
            "SELECT seq, detail FROM entry WHERE budget = ? AND label = ? AND what = ?",
            *(budgets[0].name, mark, "store" if self.taken else "charge"),
        )
        seq, detail = rows[0] if rows else (0, "{}")
        if not binds(detail, body):
            raise LedgerError(
                f"the memory of counter {self.lock!r} in {store.where} was edited or "
                "went back; nothing was released: `fastdp ledger audit` says more"
            )
        if body[_SALT : _SALT + 1] != _LAYOUT:
            raise _unreadable(self.lock)
        self.memory, self._turn = body[_SALT + 1 :], turn + 1
        run("UPDATE memory SET turn = ? WHERE counter = ?", *(self._turn, self.lock))
        for budget in budgets:
            budget.require_open()
        if not _began(run, self.lock, budgets[0].name, seq):
            return "step", [budget.state for budget in budgets], {}
        # The previous turn was abandoned, but it may have drawn already.
        return *_protocol.admitted(budgets, terms, 2), {}

    def end(self, run: Run, store: Store, label: str) -> dict[str, str] | None:
        """Store the memory after the step; None if another turn was taken since."""
        if _memory(run, store, self.lock)[0] != self._turn:
            return None
        run(
            "INSERT INTO step (counter, number, label) VALUES (?, ?, ?)",
            *(self.lock, self.taken + 1, label),
        )
        run(
            "UPDATE memory SET body = ? WHERE counter = ?",
            *(self.after, self.lock),
        )
        return bound(self.after)


def _began(run: Run, counter: str, budget: str, seq: int) -> bool:
    """Return whether, by the chain, a step began after an entry."""
    rows = run(
        "SELECT c.terms FROM entry e JOIN charge c ON c.label = e.label "
        "WHERE e.budget = ? AND e.seq > ? AND c.kind = 'step' AND e.what <> 'store'",
        *(budget, seq),
    )
    return any(json.loads(terms)["counter"] == counter for (terms,) in rows)


def _memory(run: Run, store: Store, counter: str) -> tuple[int, bytes]:
    rows = run(
        f"SELECT turn, body FROM memory WHERE counter = ?{store.for_update}", counter
    )
    if not rows:
        raise LedgerError(
            f"the memory of counter {counter!r} in {store.where} was deleted; nothing "
            "was released: `fastdp ledger audit` says more"
        )
    return rows[0][0], bytes(rows[0][1])


def _last(run: Run, counter: str) -> tuple[int, str]:
    """Return number and label of the last step, or 0 and the counter's label."""
    rows = run(
        "SELECT number, label FROM step WHERE counter = ? ORDER BY number DESC LIMIT 1",
        counter,
    )
    return (rows[0][0], rows[0][1]) if rows else (0, counter)


def _ended(run: Run, counter: str) -> bool:
    return bool(run("SELECT 1 FROM entry WHERE label = ? AND what = 'end'", counter))


def _require_going(run: Run, counter: str, steps: int) -> None:
    ended = _ended(run, counter)
    if ended or _last(run, counter)[0] == steps:
        state = "was ended" if ended else "has taken all its steps"
        raise BudgetExceededError(f"counter {counter!r} {state}; nothing was released")


def _sealed(memory: bytes) -> bytes:
    """Return a memory with a random prefix, as stored; empty if the counter ended."""
    return os.urandom(_SALT) + _LAYOUT + memory if memory else b""


def _unreadable(counter: str) -> LedgerError:
    return LedgerError(
        f"the memory of counter {counter!r} is of another version of fastdp; nothing "
        "was released"
    )
