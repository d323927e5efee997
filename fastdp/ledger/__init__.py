"""A ledger: budgets that survive a crash, and answers that are drawn once.

A ledger charges durably, draws fresh noise, stores the answer, and only then returns
it. A further call with the same label, after a crash, from another machine, or at the
same time, reads the stored answer and spends nothing. See docs/ledger.md for its use
and docs/proofs/ledger.md for the proofs.
"""

from __future__ import annotations

import os
import uuid as _uuid
from collections.abc import Callable, Iterable, Sequence

from fastdp import _public, _validate
from fastdp.exceptions import DTypeError, LedgerError
from fastdp.ledger import _care, _protocol
from fastdp.ledger._answers import Answer, Transaction
from fastdp.ledger._budgets import BudgetState
from fastdp.ledger._chain import Audit
from fastdp.ledger._counters import LedgerCounter, LedgerPrefixSums
from fastdp.ledger._ledger import Ledger
from fastdp.ledger._receipts import Receipt, Seen, Witness, need_locks, receipts_from
from fastdp.ledger._store import FORMAT, Store, read_ledger
from fastdp.ledger._terms import canonical

__all__ = [
    "Answer",
    "Audit",
    "BudgetState",
    "Ledger",
    "LedgerCounter",
    "LedgerPrefixSums",
    "Receipt",
    "Transaction",
    "adopt",
    "create",
    "migrate",
    "open",
    "receipts_from_json",
]


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
        A small file on another volume, created here, that records the last entries:
        with it, a restored copy of the ledger is refused.
    timeout : float
        Seconds to wait for locks, > 0.

    Returns
    -------
    Ledger
        Without budgets; `add_budget` makes one.

    Raises
    ------
    DTypeError, ParameterError
        A parameter has the wrong type or is out of its domain.
    LedgerError
        The ledger exists already, or cannot be made at this location.
    """
    store = _store(location, timeout)
    own = str(_uuid.uuid4())
    watching = None if witness is None else Witness(witness)
    if watching is not None:
        watching.create()
    try:
        store.create()
    except BaseException:
        if watching is not None:
            watching.path.unlink(missing_ok=True)  # made just now, for no ledger
        raise
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
        anything is drawn; if it raises, nothing is drawn. The witness file that was
        given to `create` is always used.
    timeout : float
        Seconds to wait for locks, > 0.

    Returns
    -------
    Ledger
        Open. It may be shared by threads; a forked process opens its own.

    Raises
    ------
    DTypeError, ParameterError
        A parameter has the wrong type or is out of its domain.
    LedgerError
        There is no ledger, or it cannot be written, is on a network file system, has
        another format, is a copy, or was edited.
    LedgerRolledBackError
        The ledger is older than its witness.
    """
    if witness is not None and not callable(witness):
        raise DTypeError(
            f"witness must be callable or None, got {type(witness).__name__}"
        )
    store = _store(location, timeout)
    try:
        store.open()
        with store.transaction() as run:
            own, place, watching, _ = read_ledger(run, store.where)
            settled = store.place()
            if not place.items() <= settled.items():  # older ledgers store fewer facts
                raise LedgerError(
                    f"{store.where} is a copy, or was moved: it must not be charged "
                    "beside its original; `fastdp ledger adopt` makes it the ledger"
                )
            store.settled = settled
            store.seen = Seen(None if watching is None else Witness(watching))
            # Lock the rows: otherwise a charge by others while the witness is read
            # would be missed.
            names = sorted(_protocol.all_budgets(run))
            budgets = _protocol.locked(run, store, own, names)
        store.seen.saw(budget.receipt(own) for budget in budgets)
    except BaseException:
        store.close()
        raise
    return Ledger(store, own, witness)


def adopt(
    location: str | os.PathLike[str],
    *,
    note: str,
    receipts: Iterable[Receipt] = (),
    forfeit: Iterable[str] = (),
    timeout: float = 60.0,
) -> list[str]:
    """Make a moved or restored copy the ledger, and record this in its chains.

    The original must no longer be used: two copies would spend a budget twice.

    Parameters
    ----------
    location : str or path
        The copy.
    note : str
        The reason, for the chains: 1 to 200 printable ASCII characters.
    receipts : iterable of Receipt
        Receipts of published answers. If a budget lacks an entry of a receipt or of the
        witness, its spending is unknown.
    forfeit : iterable of str
        Budgets to close permanently: all budgets that lack entries must be named.
    timeout : float
        Seconds to wait for locks, > 0.

    Returns
    -------
    list of str
        The budgets that were closed.

    Raises
    ------
    LedgerRolledBackError
        A budget lacks entries and is not forfeited; nothing was changed.
    DTypeError, ParameterError, LedgerError
        As for `open`.
    """
    proofs = tuple(receipts)
    for proof in proofs:
        if not isinstance(proof, Receipt):
            raise DTypeError(f"receipts must hold Receipts, got {type(proof).__name__}")
    if isinstance(forfeit, str):
        raise DTypeError("forfeit must be a list of names, got a str")
    store = _store(location, timeout)
    try:
        store.open()
        return _care.adopt(store, note=note, receipts=proofs, forfeit=forfeit)
    finally:
        store.close()


def migrate(
    location: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    note: str,
    timeout: float = 60.0,
) -> None:
    """Move a ledger to a new file or server; the old one is frozen permanently.

    If it is interrupted, the same call finishes the work.

    Parameters
    ----------
    location, target : str or path
        The old and the new location, as for `create`; the target must be new.
    note : str
        The reason, for the chains: 1 to 200 printable ASCII characters.
    timeout : float
        Seconds to wait for locks, > 0.

    Raises
    ------
    LedgerError
        An audit fails, or one of the two cannot be used; the old ledger stays open.
    DTypeError, ParameterError
        A parameter has the wrong type or is out of its domain.
    """
    if not _is_frozen(location, timeout):
        open(location, timeout=timeout).close()  # refuse copies and older states
    source, new = _store(location, timeout), _store(target, timeout)
    try:
        source.open()
        _care.migrate(source, new, note)
    finally:
        source.close()
        new.close()


def _is_frozen(location: object, timeout: float) -> bool:
    store = _store(location, timeout)
    try:
        store.open()
        with store.reading() as run:
            return read_ledger(run, store.where)[3] == "frozen"
    finally:
        store.close()


def receipts_from_json(text: str) -> tuple[Receipt, ...]:
    """Return the receipts that `Answer.receipts_json` holds.

    Parameters
    ----------
    text : str
        JSON text, as in the metadata of a released file.

    Raises
    ------
    DTypeError, ParameterError
        The text is not such JSON.
    """
    return receipts_from(text)


def _store(location: object, timeout: float) -> Store:
    if not isinstance(location, (str, os.PathLike)):
        raise DTypeError(
            f"location must be a str or a path, got {type(location).__name__}"
        )
    seconds = float(_validate.positive("timeout", timeout))
    if str(location).startswith(("postgresql://", "postgres://")):
        from fastdp.ledger._postgres import PostgresStore

        return PostgresStore(str(location), seconds)
    need_locks("a ledger in a file")
    from fastdp.ledger._sqlite import SqliteStore

    return SqliteStore(location, seconds)


_public.show(globals())
