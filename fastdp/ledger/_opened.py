"""An open ledger: its budgets, its content, and its maintenance."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn, Self

from fastdp._validate import Real
from fastdp.accounting.events import Event
from fastdp.accounting.filters import (
    ApproximateFilter,
    PrivacyFilter,
    PureFilter,
)
from fastdp.exceptions import (
    DTypeError,
    LabelConflictError,
    LedgerError,
    ParameterError,
)
from fastdp.ledger import _answers, _budgets, _care, _files, _protocol, _terms
from fastdp.ledger._answers import Answer, Transaction
from fastdp.ledger._budgets import BudgetState
from fastdp.ledger._chain import Audit
from fastdp.ledger._receipts import Receipt, receipts_from
from fastdp.ledger._store import Store
from fastdp.ledger._terms import Terms
from fastdp.mechanisms._base import Mechanism


class Opened:
    """An open ledger: its budgets, its content, and its maintenance."""

    def __init__(
        self,
        store: Store,
        uuid: str,
        watcher: Callable[[Sequence[Receipt]], object] | None,
    ) -> None:
        self._store = store
        self._uuid = uuid
        self._watcher = watcher

    # ---- budgets -----------------------------------------------------------------

    def add_budget(
        self,
        name: str,
        filter: PrivacyFilter[Any] | None = None,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        unit: str,
        block_of: str | None = None,
    ) -> BudgetState:
        """Make a new budget, which is never refilled.

        Parameters
        ----------
        name : str
            1 to 200 printable ASCII characters, new to the ledger.
        filter : PrivacyFilter, optional
            A filter of `fastdp.accounting` with nothing spent: the guarantee of all
            releases of the budget together, even if they are chosen adaptively.
        epsilon, delta : int, float, Fraction or Decimal, optional
            Instead of `filter`: a budget with an `ApproximateFilter`, which accepts
            every table; without `delta`, with a `PureFilter`.
        unit : str
            Privacy unit of the guarantee, such as "person" or "household": a name like
            `name`. All sensitivities charged here must be for this unit.
        block_of : str, optional
            The data set of which this budget covers one block of units. Each unit must
            be in only one block.

        Returns
        -------
        BudgetState
            The budget.

        Raises
        ------
        DTypeError, ParameterError
            A parameter has the wrong type or is out of its domain, the name is taken,
            or `block_of` is given with a relation other than ADD_OR_REMOVE_ONE.
        LedgerError
            The ledger cannot be used.
        """
        _terms.check_name("name", name)
        _terms.check_name("unit", unit)
        if epsilon is not None and filter is None:
            filter = (
                PureFilter(epsilon)
                if delta is None
                else ApproximateFilter(epsilon=epsilon, delta=delta)
            )
        elif filter is None or epsilon is not None or delta is not None:
            raise ParameterError(
                "either filter or epsilon, and delta with it, must be given, as in "
                'add_budget("2026", epsilon=3, delta=1e-5, unit="person")'
            )
        if block_of is not None:
            _terms.check_name("block_of", block_of)
        made = _budgets.opened(name, filter, unit, block_of)
        with self._store.transaction() as run:
            receipt = _protocol.found_budget(run, self._uuid, made)
            _protocol.locked(run, self._store, self._uuid, [name])
        self._witness([receipt])
        return self.budget(name)

    def budget(self, name: str) -> BudgetState:
        """Return the limit and the spending of a budget.

        Raises
        ------
        DTypeError, ParameterError
            There is no such budget.
        LedgerError
            The ledger cannot be used.
        """
        _terms.check_name("name", name)
        found = self.budgets().get(name)
        if found is None:
            raise ParameterError(f"name must be the name of a budget, got {name!r}")
        return found

    def budgets(self) -> dict[str, BudgetState]:
        """Return all budgets by name.

        Raises
        ------
        LedgerError
            The ledger cannot be used.
        """
        with self._store.reading() as run:
            found = _protocol.all_budgets(run)
        return {name: budget.to_state() for name, budget in found.items()}

    def preview(
        self,
        event: Event | Mechanism,
        *,
        budgets: str | Iterable[str],
        count: int = 1,
        unit: str | None = None,
    ) -> dict[str, BudgetState]:
        """Return the budgets as a charge would leave them; nothing is written.

        Parameters
        ----------
        event : Event or mechanism
            The event to charge; for a mechanism, its `event()`.
        budgets : str or iterable of str
            The budgets that would be charged.
        count : int
            Number of times, >= 1.
        unit : str, optional
            As for `release`.

        Raises
        ------
        BudgetExceededError, UnsupportedEventError
            A budget does not cover the event, or cannot price it.
        DTypeError, ParameterError, LedgerError
            As for `spend`.
        """
        wanted = _terms.terms(
            "preview", "spend", budgets, _terms.event_of_cost(event), {}, count=count
        ).per(unit)
        with self._store.transaction() as run:
            found = _protocol.locked(run, self._store, self._uuid, wanted.budgets)
        _, states = _protocol.admitted(found, wanted, 1)
        return {
            budget.name: replace(budget, state=state).to_state()
            for budget, state in zip(found, states, strict=True)
        }

    def covers(
        self,
        event: Event | Mechanism,
        *,
        budgets: str | Iterable[str],
        count: int = 1,
        unit: str | None = None,
    ) -> bool:
        """Return whether all budgets cover `count` times `event` now.

        Parameters and errors are as in `preview`, except that the result is False if a
        budget does not cover the event.
        """
        from fastdp.exceptions import BudgetExceededError

        try:
            self.preview(event, budgets=budgets, count=count, unit=unit)
        except BudgetExceededError:
            return False
        return True

    # ---- what is there -----------------------------------------------------------

    def labels(self) -> tuple[Transaction, ...]:
        """Return all labels except those of counters' steps, in the order of charges.

        Raises
        ------
        LedgerError
            The ledger cannot be read.
        """
        return _answers.transactions(self._store)

    def answer(self, label: str) -> Answer:
        """Return the stored answer of a label by its name alone.

        Parameters
        ----------
        label : str
            One of `labels` with a stored answer.

        Returns
        -------
        Answer
            The answer of the call that drew it, with `replayed` true. For `write`, the
            value is the path of the files, which are checked as in `write`.

        Raises
        ------
        DTypeError, ParameterError
            There is no such label.
        LedgerError
            The label has no stored answer, the answer was altered, or the ledger cannot
            be used.
        """
        found = _protocol.named(self._store, _terms.check_name("label", label))
        if found.form == "array":
            return self._answered(found, _terms.unpacked)
        if found.form == "table":
            return self._answered(found, _terms.unpacked_table)
        if found.form != "manifest":
            raise LedgerError(
                f"label {label!r} must have a stored array, table or file "
                "to be read by its name: repeat the call that drew it"
            )
        place = _files.place_of(found.body)
        answer = self._answered(found, lambda _: place)
        _files.finish(place, found.body)
        return answer

    def _answers(self, label: str) -> bool:
        """Return whether an answer is stored for a label, under any terms."""
        return _protocol.answers(self._store, label)

    def _is_charged(self, label: str) -> bool:
        """Return whether a label was charged, with or without a stored answer."""
        return _protocol.is_charged(self._store, label)

    def _stored_table(self, wanted: Terms) -> Answer | None:
        """Return the answer stored under equal terms; nothing is drawn or charged.

        None for an answer under other terms, which the charge will refuse.
        """
        try:
            found = _protocol.stored(self._store, wanted)
        except LabelConflictError:
            return None
        return None if found is None else self._answered(found, _terms.unpacked_table)

    def _drawn(
        self,
        wanted: Terms,
        draw: Callable[[int, list[Receipt]], tuple[str, bytes]],
        read: Callable[[bytes], Any],
        turn: _protocol.Turn | None = None,
    ) -> Answer:
        found = _protocol.answer(
            self._store, self._uuid, self._witness, wanted, draw, turn
        )
        return self._answered(found, read)

    def _answered(
        self, found: _protocol.Stored, read: Callable[[bytes], Any]
    ) -> Answer:
        # Otherwise a ledger that was rolled back by this entry could draw this again.
        self._store.seen.saw(receipts_from(found.receipts))
        return Answer(
            read(found.body), found.attempt == 0, found.attempt, found.receipts
        )

    def _witness(self, receipts: Sequence[Receipt]) -> None:
        self._store.seen.saw(receipts)
        if self._watcher is not None:
            self._watcher(receipts)

    # ---- care --------------------------------------------------------------------

    def audit(self, *, receipts: Iterable[Receipt] = (), files: bool = True) -> Audit:
        """Read the whole ledger and compare it with itself, receipts and files.

        Parameters
        ----------
        receipts : iterable of Receipt
            Receipts of published answers; the ledger must hold these entries.
        files : bool
            Whether to read the files that `write` released: a missing or altered file
            is a problem. Use False if this machine does not have the files.

        Returns
        -------
        Audit
            Its `problems` lists all problems.

        Raises
        ------
        DTypeError
            `receipts` holds other objects, or `files` is not a bool.
        LedgerError
            The ledger cannot be read.
        """
        if not isinstance(files, bool):
            raise DTypeError(f"files must be a bool, got {type(files).__name__}")
        proofs = tuple(receipts)
        for proof in proofs:
            if not isinstance(proof, Receipt):
                raise DTypeError(f"receipts must hold Receipts, got {type(proof)!r}")
        return _care.audited(self._store, self._uuid, proofs, files=files)

    def forfeit(self, name: str, *, note: str) -> BudgetState:
        """Close a budget permanently, for example after a loss without any proof.

        Parameters
        ----------
        name : str
            The budget.
        note : str
            The reason, for the budget's chain: 1 to 200 printable ASCII characters.

        Raises
        ------
        DTypeError, ParameterError
            There is no such budget, or it is already closed.
        LedgerError
            The ledger cannot be used.
        """
        _terms.check_name("name", name)
        self._witness([_care.close_budget(self._store, self._uuid, name, note)])
        return self.budget(name)

    def export(self, path: str | os.PathLike[str], *, bodies: bool = False) -> None:
        """Write the whole ledger as lines of JSON, for `tools/check_ledger.py`.

        Parameters
        ----------
        path : str or path
            A new file.
        bodies : bool
            Whether to write the answers, too.

        Raises
        ------
        LedgerError
            The ledger cannot be read, or the file cannot be written.
        """
        _care.write_lines(_care.exported(self._store, bodies=bodies), path)

    def to_html(self) -> str:
        """Audit the ledger and return one self-contained page on it.

        It shows budgets as bars, spending over the entries, transactions with their
        terms, and whether the chain is verified. It contains no answer.

        Raises
        ------
        LedgerError
            The ledger cannot be read.
        """
        from fastdp.ledger import _page

        return _page.page(self._store, self._uuid, self.audit())

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy a ledger in SQLite to a new file; `adopt` opens the copy.

        Parameters
        ----------
        path : str or path
            A new file.

        Raises
        ------
        LedgerError
            The file cannot be written, or the ledger is in PostgreSQL: use its
            pg_basebackup.
        """
        self._store.backup(os.fspath(path))

    @property
    def uuid(self) -> str:
        """The unique name of the ledger."""
        return self._uuid

    def describe(self) -> dict[str, str]:
        """Return engine, version, durability settings and witness, for users."""
        facts = {"location": self._store.where, **self._store.describe()}
        own = self._store.seen.witness
        return facts if own is None else {**facts, "witness": str(own.path)}

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise DTypeError(
            "a Ledger must not be copied or pickled: open it where it is used"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._store.where!r}>"
