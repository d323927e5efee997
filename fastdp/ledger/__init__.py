"""A ledger: a budget that survives a crash, and an answer that is drawn once.

Charge durably, draw fresh noise, store what was drawn, and only then show it: whoever
asks again by the same label, after a crash, from another machine, or at the same time,
reads the stored answer and spends nothing. docs/ledger.md says how to use it,
docs/proofs/ledger.md why it holds.
"""

from __future__ import annotations

import os
import uuid as _uuid
from collections.abc import Callable, Sequence

from fastdp import _public, _validate
from fastdp.exceptions import DTypeError, LedgerError
from fastdp.ledger import _protocol
from fastdp.ledger._budgets import BudgetState
from fastdp.ledger._chain import Audit, Receipt, Witness
from fastdp.ledger._ledger import Answer, Ledger
from fastdp.ledger._store import FORMAT, Store, read_ledger
from fastdp.ledger._terms import canonical

__all__ = ["Answer", "Audit", "BudgetState", "Ledger", "Receipt", "create", "open"]


def create(
    location: str | os.PathLike[str],
    *,
    witness: str | os.PathLike[str] | None = None,
    timeout: float = 60.0,
) -> Ledger:
    """Make a new ledger and return it open.

    Parameters
    ----------
    location : str or path
        A file on a local disk, which must not exist, for SQLite; or
        "postgresql://...", an empty database or schema of a server.
    witness : str or path, optional
        A small file on another volume, made here, that knows the last entries: with
        it, a restored copy of the ledger is refused.
    timeout : float
        Seconds to wait for locks, > 0.

    Returns
    -------
    Ledger
        Without budgets: `add_budget` makes one.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type or out of its domain.
    LedgerError
        The ledger exists, or cannot be made there.
    """
    store = _store(location, timeout)
    own = str(_uuid.uuid4())
    watching = None if witness is None else Witness(witness)
    store.create()
    if watching is not None:
        watching.create()
    with store.transaction() as run:
        run(
            "INSERT INTO ledger (one, format, uuid, place, witness, state) "
            "VALUES (1, ?, ?, ?, ?, 'open')",
            *(FORMAT, own, canonical(store.place())),
            None if watching is None else str(watching.path),
        )
    store.close()
    return open(location, timeout=timeout)


def open(
    location: str | os.PathLike[str],
    *,
    witness: Callable[[Sequence[Receipt]], object] | None = None,
    timeout: float = 60.0,
) -> Ledger:
    """Open a ledger that exists.

    Parameters
    ----------
    location : str or path
        As for `create`.
    witness : callable, optional
        Called with the receipts of every charge after it is durable and before
        anything is drawn; if it raises, nothing is drawn. The witness file that
        `create` was given is used in any case.
    timeout : float
        Seconds to wait for locks, > 0.

    Returns
    -------
    Ledger
        Open. It may be shared by threads; a forked process opens its own.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is of the wrong type or out of its domain.
    LedgerError
        There is no ledger, it cannot be written to, is on a network file system, of
        another format, a copy, or edited.
    LedgerRolledBackError
        It is behind its witness.
    """
    if witness is not None and not callable(witness):
        raise DTypeError(
            f"witness must be callable or None, got {type(witness).__name__}"
        )
    store = _store(location, timeout)
    try:
        store.open()
        with store.reading() as run:
            own, place, watching, state = read_ledger(run, store.where)
            budgets = _protocol.all_budgets(run)
            for budget in budgets.values():
                _protocol.require_last(run, store, budget)
            if state == "frozen":
                raise LedgerError(
                    f"the ledger {store.where} is frozen: it was migrated; open the "
                    "new one"
                )
            if place != store.place():
                raise LedgerError(
                    f"{store.where} is a copy, or was moved: it must not be charged "
                    "beside its original; `fastdp ledger adopt` makes it the ledger"
                )
            watcher = None if watching is None else Witness(watching)
            if watcher is not None:
                seen = watcher.read()
                _protocol.require_not_behind(
                    run, store, own, seen, f"the witness {watcher.path}"
                )
    except BaseException:
        store.close()
        raise
    return Ledger(store, own, watcher, witness)


def _store(location: object, timeout: float) -> Store:
    if not isinstance(location, (str, os.PathLike)):
        raise DTypeError(
            f"location must be a str or a path, got {type(location).__name__}"
        )
    seconds = float(_validate.positive("timeout", timeout))
    if str(location).startswith(("postgresql://", "postgres://")):
        from fastdp.ledger._postgres import PostgresStore

        return PostgresStore(str(location), seconds)
    from fastdp.ledger._sqlite import SqliteStore

    return SqliteStore(location, seconds)


_public.show(globals())
