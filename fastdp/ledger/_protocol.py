"""The protocol: charge durably, draw, store; the first stored answer wins.

This file has all code on which the guarantee of a ledger depends; the proof is in
docs/proofs/ledger.md. The invariants by name:

I1  at most one charge of a label, I2 at most one result, I3 no result without a charge
    (keys of the tables); I4 nothing is returned before it is committed;
I5  a budget's state is the fold of its entries and within its filter;
I6  one drawer at a time: a lock on the label, and an attempt number that the store
    checks; I7 the size of a body that is free to draw again is fixed in advance;
I8 a draw without constant time is charged for every attempt that draws.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fastdp.exceptions import (
    LabelConflictError,
    LabelUsedError,
    LedgerError,
    LedgerRolledBackError,
    ParameterError,
    UnitMismatchError,
)
from fastdp.ledger import _chain
from fastdp.ledger._budgets import Budget
from fastdp.ledger._receipts import Receipt, receipts_json
from fastdp.ledger._store import LostError, Rows, Run, Store, read_ledger
from fastdp.ledger._terms import Terms, canonical, digest

#: Number of tries after a lost connection or a lost lock.
_TRIES = 8

_COLUMNS = "name, rule, unit, block_of, state, seq, head, is_open"


@dataclass(frozen=True)
class Stored:
    """A result as it is stored in the ledger."""

    form: str
    body: bytes
    #: As JSON text.
    receipts: str
    #: Number of the attempt that stored it just now; 0 if it was stored before.
    attempt: int


class Beginning(Protocol):
    """Part of T1 that a transaction may replace; the default is `admitted`."""

    def begin(
        self, run: Run, store: Store, budgets: Sequence[Budget], terms: Terms
    ) -> tuple[str, list[str], dict[str, str]]:
        """Return the kind of entry, the states after it, and facts for the entry."""


class Turn(Beginning, Protocol):
    """A draw's place in a sequence of draws that share one memory (`_counters`)."""

    #: Label to lock in place of the draw's own label.
    lock: str

    def end(self, run: Run, store: Store, label: str) -> dict[str, str] | None:
        """Store the memory in T2; None if the turn is not the last."""


def answer(
    store: Store,
    uuid: str,
    charged: Callable[[Sequence[Receipt]], object],
    terms: Terms,
    draw: Callable[[int, list[Receipt]], tuple[str, bytes]],
    turn: Turn | None = None,
) -> Stored:
    """Return the label's result; at most one draw of a label is ever returned.

    `charged` is called with the receipts of the charge before anything is drawn. `draw`
    gets the number of the attempt and these receipts. No code of the caller runs
    between the end of `draw` and the commit of its result. Before a new or stored
    answer is returned, the handle and the witness record its entry.
    """
    locked_by = terms.label if turn is None else turn.lock
    for again in range(1, _TRIES + 1):
        try:
            found = stored(store, terms)
            if found is not None:
                return found
            with alone(store, uuid, locked_by):
                found, attempt, receipts = charge(store, uuid, terms, turn)  # T1
                if found is not None:
                    return found
                charged(receipts)
                form, body = draw(attempt, receipts)
                found = keep(store, uuid, terms, attempt, form, body, turn)  # T2
        except LostError:  # the next try finds out by the label if it was committed
            if again == _TRIES:
                raise
            time.sleep(0.02 * 2**again)
            continue
        if found is not None:
            return found
    raise LedgerError(
        f"label {terms.label!r} was taken over by other attempts {_TRIES} times; ask "
        "for it again"
    )


#: The uuids of ledgers in which this thread holds the lock on a label.
_held = threading.local()


@contextlib.contextmanager
def alone(store: Store, uuid: str, label: str) -> Iterator[None]:
    """Hold the lock on a label; refuse another label during the draw.

    A draw that uses another label would wait for itself if both labels share a lock,
    and two such draws could wait for each other.
    """
    held: set[str] = _held.__dict__.setdefault("ledgers", set())
    if uuid in held:
        raise LedgerError(
            f"label {label!r} was requested during the draw of another "
            f"label of {store.where}; nothing was charged for it: release "
            "it before that draw"
        )
    with store.lock(label):
        try:
            held.add(uuid)  # inside `try`: an interrupt may come right after it
            yield
        finally:
            held.discard(uuid)


_RESULT = """
    SELECT c.digest, r.form, r.body, r.digest, r.receipts
    FROM charge c LEFT JOIN result r ON r.label = c.label WHERE c.label = ?"""


def stored(store: Store, terms: Terms) -> Stored | None:
    """Return the label's result, or None; refuse a result under other terms."""
    return _result(_rows(store, _RESULT, terms.label), store, terms)


#: Selects label, terms, attempts, detail of the charge, and form of the answer if any.
TRANSACTIONS = """
    SELECT c.label, c.terms, (SELECT MAX(number) FROM attempt a WHERE a.label =
    c.label), (SELECT MAX(e.detail) FROM entry e WHERE e.label = c.label AND
    e.what = 'charge'), (SELECT r.form FROM result r WHERE r.label = c.label)
    FROM charge c WHERE c.kind <> 'step' ORDER BY c.label"""


def named(store: Store, label: str) -> Stored:
    """Return the result of a label under any terms; refuse a label without one."""
    rows = _rows(store, _RESULT, label)
    if not rows:
        raise ParameterError(f"label must be a label of the ledger, got {label!r}")
    _, form, body, found, receipts = rows[0]
    if form is None:
        raise LedgerError(
            f"label {label!r} in {store.where} has no stored answer: it was spent, or "
            "its draw was cut short; repeat the call that charged it"
        )
    require_whole(store, label, form, body, found)
    return Stored(form, bytes(body), receipts, 0)


def answers(store: Store, label: str) -> bool:
    """Return whether an answer is stored under a label, under any terms."""
    return bool(_rows(store, "SELECT 1 FROM result WHERE label = ?", label))


def is_charged(store: Store, label: str) -> bool:
    """Return whether a label was charged, whether or not its answer is stored."""
    return bool(_rows(store, "SELECT 1 FROM charge WHERE label = ?", label))


def _rows(store: Store, sql: str, label: str) -> list[Sequence[Any]]:
    for again in range(1, _TRIES):
        try:
            return list(store.rows(sql, label))
        except LostError:  # it only read: try again
            time.sleep(0.02 * 2**again)
    return list(store.rows(sql, label))


def _result(rows: Sequence[Sequence[Any]], store: Store, terms: Terms) -> Stored | None:
    if not rows:
        return None
    own, form, body, found, receipts = rows[0]
    if bytes(own) != terms.digest:
        raise LabelConflictError(
            f"label {terms.label!r} stands for another transaction in {store.where}; "
            "nothing was spent: the same label needs the same mechanism, budgets, "
            "dtype, shape and public keys; use a new label for another release"
        )
    if form is None:
        return None
    require_whole(store, terms.label, form, body, found)
    return Stored(form, bytes(body), receipts, 0)


def require_whole(
    store: Store, label: str, form: str, body: bytes, found: bytes
) -> None:
    """Refuse a stored answer that does not match its digest."""
    if digest(form.encode(), bytes(body)) != bytes(found):
        raise LedgerError(
            f"the stored answer of label {label!r} in {store.where} was altered "
            "or damaged; it is not drawn again, for that would be a second release: "
            "restore the ledger from a backup and `fastdp ledger audit` it"
        )


def charge(
    store: Store, uuid: str, terms: Terms, more: Beginning | None = None
) -> tuple[Stored | None, int, list[Receipt]]:
    """T1: return a stored result, or charge and return an attempt number.

    The number is 0 if nothing was charged: for a stored result, and for a counter that
    exists.
    """
    with store.transaction() as run:
        found = _result(run(_RESULT, terms.label), store, terms)
        if found is not None:
            return found, 0, []
        if run(
            "SELECT 1 FROM entry WHERE label = ? AND what = 'store' LIMIT 1",
            terms.label,
        ):
            raise LedgerError(
                f"the stored answer of label {terms.label!r} in {store.where} was "
                "deleted; it is not drawn again, for that would be a second release: "
                "restore the ledger from a backup and `fastdp ledger audit` it"
            )
        rows = run("SELECT MAX(number) FROM attempt WHERE label = ?", terms.label)
        attempt = (rows[0][0] or 0) + 1
        if attempt > 1 and terms.kind == "spend":
            raise LabelUsedError(
                f"label {terms.label!r} was spent already, and the ledger does not "
                "know its answer; nothing was spent: use a new label for a new use"
            )
        if attempt > 1 and terms.kind == "counter":
            return None, 0, []
        budgets = locked(run, store, uuid, terms.budgets)
        if attempt == 1:
            run(
                "INSERT INTO charge (label, kind, terms, digest) VALUES (?, ?, ?, ?)",
                *(terms.label, terms.kind, terms.text, terms.digest),
            )
        run("INSERT INTO attempt (label, number) VALUES (?, ?)", terms.label, attempt)
        facts: dict[str, str] = {}
        if more is None:
            what, states = admitted(budgets, terms, attempt)
        else:
            what, states, facts = more.begin(run, store, budgets, terms)
        detail = canonical(
            {"terms": terms.digest.hex(), "attempt": attempt, **facts, **note()}
        )
        receipts = [
            enter(run, uuid, replace(budget, state=state), what, terms.label, detail)
            for budget, state in zip(budgets, states, strict=True)
        ]
    return None, attempt, receipts


def admitted(
    budgets: Sequence[Budget], terms: Terms, attempt: int
) -> tuple[str, list[str]]:
    """Return the kind of entry and the states after it; refuse uncovered costs.

    A second attempt is free if its draw takes a constant time, up to a total distance
    that each budget sums; otherwise it is charged like the first. Units are compared at
    the first attempt only.
    """
    if attempt > 1 and terms.distance is not None:
        free = [budget.retried(terms.distance) for budget in budgets]
        states = [state for state in free if state is not None]
        if len(states) == len(budgets):
            return "retry", states
    if attempt == 1 and terms.unit is not None:
        require_unit(budgets, terms.unit)
    what = "charge" if attempt == 1 else "again"
    return what, [budget.charged(terms.event, terms.count) for budget in budgets]


def require_unit(budgets: Sequence[Budget], unit: str) -> None:
    """Refuse budgets with a unit other than the release's."""
    for budget in budgets:
        if budget.unit != unit:
            raise UnitMismatchError(
                "unit must be that of the budgets: budget "
                f"{budget.name!r} is per {budget.unit!r}, this release is "
                f"per {unit!r}; nothing was spent: if the sensitivities "
                f"are for one {budget.unit!r}, state that unit"
            )


def keep(
    store: Store,
    uuid: str,
    terms: Terms,
    attempt: int,
    form: str,
    body: bytes,
    turn: Turn | None = None,
) -> Stored | None:
    """T2: store a draw unless a result is stored; None if a later attempt exists.

    The returned result was read after the commit, or is the one committed.
    """
    with store.transaction() as run:
        found = _result(run(_RESULT, terms.label), store, terms)
        if found is not None:
            return found
        rows = run("SELECT MAX(number) FROM attempt WHERE label = ?", terms.label)
        if rows[0][0] != attempt:
            return None  # this attempt lost its lock: its draw is discarded
        own = digest(form.encode(), body)
        budgets = locked(run, store, uuid, terms.budgets)
        facts = {} if turn is None else turn.end(run, store, terms.label)
        if facts is None:
            return None
        detail = canonical(
            {"attempt": attempt, "form": form, "digest": own.hex(), **facts, **note()}
        )
        receipts = receipts_json(
            enter(run, uuid, budget, "store", terms.label, detail) for budget in budgets
        )
        run(
            "INSERT INTO result (label, form, body, digest, receipts) "
            "VALUES (?, ?, ?, ?, ?)",
            *(terms.label, form, body, own, receipts),
        )
    return Stored(form, body, receipts, attempt)


# ---- rows ----------------------------------------------------------------------


def all_budgets(run: Rows) -> dict[str, Budget]:
    """Return all budgets by name."""
    rows = run(f"SELECT {_COLUMNS} FROM budget ORDER BY name")
    return {row[0]: _budget(row) for row in rows}


def _budget(row: Sequence[Any]) -> Budget:
    name, rule, unit, block_of, state, seq, head, is_open = row
    return Budget(name, rule, unit, block_of, state, seq, bytes(head), bool(is_open))


def locked(run: Run, store: Store, uuid: str, names: Iterable[str]) -> list[Budget]:
    """Return rows of budgets, locked in the order of their names."""
    budgets = []
    for name in names:
        rows = run(
            f"SELECT {_COLUMNS} FROM budget WHERE name = ?{store.for_update}", name
        )
        if not rows:
            raise ParameterError(
                f"budgets must name budgets of the ledger, got {name!r}: "
                "create it by add_budget"
            )
        budget = _budget(rows[0])
        require_last(run, store, budget)
        budgets.append(budget)
    # Read it after the rows are locked: a migration holds them until it has frozen it.
    found_uuid, _, _, state = read_ledger(run, store.where)
    if found_uuid != uuid:
        raise LedgerError(f"{store.where} holds another ledger than when it was opened")
    if state != "open":
        raise LedgerError(
            f"the ledger {store.where} is frozen: it was migrated; open the new one"
        )
    require_not_behind(run, store, uuid, [budget.name for budget in budgets])
    return budgets


def require_last(run: Run, store: Store, budget: Budget) -> None:
    """Refuse a budget whose row does not match its last entry."""
    # Skip "store" and "end": a budget may be closed during a draw that it paid for.
    rows = run(
        "SELECT seq, state, link, (SELECT what FROM entry f WHERE f.budget = e.budget "
        "AND f.what NOT IN ('store', 'end') ORDER BY f.seq DESC LIMIT 1) "
        "FROM entry e WHERE budget = ? ORDER BY seq DESC LIMIT 1",
        budget.name,
    )
    if (
        not rows
        or (rows[0][0], rows[0][1], bytes(rows[0][2]))
        != (budget.seq, budget.state, budget.head)
        or budget.is_open == (rows[0][3] == "forfeit")
    ):
        raise LedgerError(
            f"budget {budget.name!r} in {store.where} was edited: its row differs "
            "from its last entry; nothing was released: `fastdp ledger audit` says more"
        )


def enter(
    run: Run, uuid: str, budget: Budget, what: str, label: str | None, detail: str
) -> Receipt:
    """Append an entry with the budget's new state to its chain."""
    seq = budget.seq + 1
    head = _chain.link(budget.head, seq, what, label, detail, budget.state)
    run(
        "INSERT INTO entry (budget, seq, what, label, detail, state, link) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        *(budget.name, seq, what, label, detail, budget.state, head),
    )
    run(
        "UPDATE budget SET state = ?, seq = ?, head = ?, is_open = ? WHERE name = ?",
        *(budget.state, seq, head, int(budget.is_open), budget.name),
    )
    return Receipt(uuid, budget.name, seq, head.hex())


def found_budget(run: Run, uuid: str, budget: Budget) -> Receipt:
    """Insert a budget and its first entry."""
    if run("SELECT name FROM budget WHERE name = ?", budget.name):
        raise ParameterError(
            f"name must be new, budget {budget.name!r} exists: a budget is never "
            "refilled"
        )
    detail = _chain.genesis(uuid, budget)
    head = _chain.link(budget.head, 0, "open", None, detail, budget.state)
    run(
        f"INSERT INTO budget ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        *(budget.name, budget.rule, budget.unit, budget.block_of, budget.state),
        *(0, head, 1),
    )
    run(
        "INSERT INTO entry (budget, seq, what, label, detail, state, link) "
        "VALUES (?, 0, 'open', NULL, ?, ?, ?)",
        *(budget.name, detail, budget.state, head),
    )
    return Receipt(uuid, budget.name, 0, head.hex())


def require_not_behind(
    run: Run, store: Store, uuid: str, names: Collection[str]
) -> None:
    """Refuse budgets in which an entry seen before is missing or changed."""
    for who, receipt in store.seen.last(names):
        if receipt.ledger != uuid:
            raise LedgerError(f"{who} is that of another ledger than {store.where}")
        rows = run(
            "SELECT link FROM entry WHERE budget = ? AND seq = ?",
            *(receipt.budget, receipt.seq),
        )
        if not rows or bytes(rows[0][0]).hex() != receipt.link:
            raise LedgerRolledBackError(
                f"{store.where} is behind {who}: entry {receipt.seq} of budget "
                f"{receipt.budget!r} is missing or differs; nothing was released: "
                "`fastdp ledger adopt --forfeit` closes the budgets that lost entries"
            )


def note() -> dict[str, str]:
    """Return time, version and a nonce, so that no two entries have the same link."""
    import fastdp

    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"at": now, "nonce": os.urandom(16).hex(), "version": fastdp.__version__}
