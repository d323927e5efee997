"""Results of a ledger: answers, and the public facts of their labels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fastdp.accounting.events import Event
from fastdp.ledger import _protocol, _terms
from fastdp.ledger._receipts import Receipt, receipts_from
from fastdp.ledger._store import Store

__all__ = ["Answer", "Transaction"]


@dataclass(frozen=True)
class Answer:
    """The answer that was drawn once for a label.

    Attributes
    ----------
    value : numpy array or scalar, or dict of str to array
        The private answer.
    replayed : bool
        Whether the answer was already stored; then this call drew and spent nothing.
    attempt : int
        Number of the attempt that drew the answer: 1, or more if earlier attempts
        crashed; 0 if replayed.
    receipts_json : str
        The receipts as JSON text, to store in a file's metadata or next to it.
    """

    value: Any
    replayed: bool
    attempt: int
    receipts_json: str

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Proofs of the entries, one for each budget; publish them with the answer."""
        return receipts_from(self.receipts_json)


@dataclass(frozen=True)
class Transaction:
    """The transaction of a label; all of it is public.

    Attributes
    ----------
    label, kind : str
        The name, and the call that made the transaction: release, select, table, write,
        spend or counter.
    budgets : tuple of str
        The budgets that were charged.
    event : Event
        The event that was charged `count` times.
    count : int
        Number of times.
    charged_at : str
        Time of the first charge, in UTC, as ISO 8601 text.
    answered : bool
        Whether its answer is stored.
    """

    label: str
    kind: str
    budgets: tuple[str, ...]
    event: Event
    count: int
    charged_at: str
    answered: bool


def transactions(store: Store) -> tuple[Transaction, ...]:
    """Return the transactions of all labels, in the order of charges."""
    found = []
    for label, terms, _, detail, form in store.rows(_protocol.TRANSACTIONS):
        event, count, names = _terms.event_from(terms)
        at, kind = json.loads(detail)["at"], json.loads(terms)["kind"]
        found.append(
            Transaction(label, kind, names, event, count, at, form is not None)
        )
    return tuple(sorted(found, key=lambda one: one.charged_at))
