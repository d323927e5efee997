"""The chain of entries, and the audit.

link(n) = BLAKE2b-256(link(n-1), seq, what, label, detail, state after), framed
injectively, for each budget; entry 0 binds the ledger's uuid and the budget's rule. An
edit breaks the chain. An older or rewritten ledger is detected by a receipt, which
is published with a release, or by a witness.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fastdp.exceptions import LedgerError
from fastdp.ledger import _files
from fastdp.ledger._budgets import Budget, Fold
from fastdp.ledger._receipts import Receipt
from fastdp.ledger._store import Rows, has_counters
from fastdp.ledger._terms import canonical, digest, event_from

__all__ = ["Audit"]


def link(
    previous: bytes, seq: int, what: str, label: str | None, detail: str, state: str
) -> bytes:
    """Return the link of an entry."""
    return digest(
        previous,
        str(seq).encode(),
        what.encode(),
        (label or "").encode(),
        detail.encode(),
        state.encode(),
    )


def bound(memory: bytes) -> dict[str, str]:
    """Return an entry's digest of a counter's memory, which begins with random bytes.

    Without the random bytes, the digest could confirm a guess of the sums.
    """
    return {"memory": digest(memory).hex()}


def binds(detail: str, memory: bytes) -> bool:
    """Return whether an entry has the digest of this memory of a counter."""
    return bool(bound(memory).items() <= json.loads(detail).items())


def genesis(uuid: str, budget: Budget) -> str:
    """Return the detail of a budget's first entry."""
    return canonical(
        {
            "ledger": uuid,
            "budget": budget.name,
            "rule": json.loads(budget.rule),
            "unit": budget.unit,
            "block_of": budget.block_of,
        }
    )


# ---- the audit ---------------------------------------------------------------------


@dataclass
class Audit:
    """The result of an audit.

    Attributes
    ----------
    entries, labels, answers : int
        Entries of all chains, labels charged, answers stored.
    pending : int
        Labels that were charged and have no answer yet; the next attempt continues
        them.
    heads : dict of str to str
        The last link of each budget, in hexadecimal; store it elsewhere.
    problems : list of str
        The problems that were found; empty if there are none.
    """

    entries: int = 0
    labels: int = 0
    answers: int = 0
    pending: int = 0
    heads: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


_ENTRIES = """
    SELECT e.seq, e.what, e.label, e.detail, e.state, e.link, c.terms, c.digest
    FROM entry e LEFT JOIN charge c ON c.label = e.label
    WHERE e.budget = ? ORDER BY e.seq"""


def audited(
    rows: Rows,
    uuid: str,
    budgets: Mapping[str, Budget],
    receipts: Iterable[Receipt],
    *,
    files: bool,
) -> Audit:
    """Check that one snapshot is consistent, reading it once in constant memory."""
    audit = Audit()
    say = audit.problems.append
    wanted: dict[tuple[str, int], set[str]] = {}
    for receipt in receipts:
        if receipt.ledger != uuid:
            say(
                f"the receipt of entry {receipt.seq} of budget {receipt.budget!r} is "
                "of another ledger"
            )
        else:
            wanted.setdefault((receipt.budget, receipt.seq), set()).add(receipt.link)
    for name, budget in budgets.items():
        with _edited(audit, f"budget {name!r}"):
            _audit_chain(rows, uuid, budget, audit, wanted)
        audit.heads[name] = budget.head.hex()
    for name, seq in wanted:
        say(f"entry {seq} of budget {name!r}, which a receipt proves, is not there")
    with _edited(audit, "an answer, or the terms of a label,"):
        _audit_labels(rows, audit, files)
    if has_counters(rows):
        with _edited(audit, "a counter"):
            _audit_counters(rows, audit)
    return audit


@contextlib.contextmanager
def _edited(audit: Audit, what: str) -> Iterator[None]:
    """Report a problem where the ledger holds text that fastdp does not write."""
    try:
        yield
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        audit.problems.append(f"{what} cannot be read: it was edited")


def _audit_chain(
    rows: Rows,
    uuid: str,
    budget: Budget,
    audit: Audit,
    wanted: dict[tuple[str, int], set[str]],
) -> None:
    """Check links, order and the fold of the states of one budget."""
    name, previous, count, is_open = budget.name, bytes(32), 0, True
    fold = Fold(budget.name, budget.rule)
    for seq, what, label, detail, after, found, terms, own in rows(_ENTRIES, name):
        problem = ""
        if seq != count:
            problem = f"entry {count} is missing"
        elif link(previous, seq, what, label, detail, after) != bytes(found):
            problem = f"entry {seq} was altered: its link is wrong"
        elif seq == 0 and (what != "open" or detail != genesis(uuid, budget)):
            problem = "its rule, unit or ledger is not that of its first entry"
        elif what in ("charge", "again", "step") and (
            terms is None or f'"terms":"{bytes(own).hex()}"' not in detail
        ):
            problem = f"entry {seq} is not that of its label's terms"
        elif not is_open and what not in ("store", "end"):
            problem = f"entry {seq} is of a budget that was forfeited"
        elif label is not None and terms is None:
            problem = f"entry {seq} is of a label that was deleted"
        else:
            problem = fold.step(what, terms, after)
        if wanted.pop((name, seq), set()) - {bytes(found).hex()}:
            problem = problem or f"entry {seq} is not the one of a receipt"
        if problem:
            audit.problems.append(f"budget {name!r}: {problem}")
            return
        previous, count = bytes(found), seq + 1
        is_open = is_open and what != "forfeit"
        audit.entries += 1
    if (count - 1, previous, fold.state) != (budget.seq, budget.head, budget.state):
        audit.problems.append(f"budget {name!r}: its row differs from its last entry")
    if budget.is_open != is_open:
        audit.problems.append(f"budget {name!r}: it was forfeited, or it was not")


def _audit_labels(rows: Rows, audit: Audit, files: bool) -> None:
    """Check that answers and files are intact and charged, and charges are entered."""
    for label, form, body, found, stored in rows(
        "SELECT r.label, r.form, r.body, r.digest, (SELECT MIN(e.detail) FROM entry e "
        "WHERE e.label = r.label AND e.what = 'store') FROM result r"
    ):
        audit.answers += 1
        own = digest(form.encode(), bytes(body))
        entered = json.loads(stored)["digest"] if stored else ""
        if own != bytes(found) or own.hex() != entered:
            audit.problems.append(f"the answer of label {label!r} was altered")
        elif files and form == "manifest":
            try:
                _files.check(bytes(body))
            except LedgerError as error:
                audit.problems.append(f"label {label!r}: {error}")
    for label, kind, terms, found, answered, entered, last, kept in rows(
        "SELECT c.label, c.kind, c.terms, c.digest, "
        "(SELECT COUNT(*) FROM result r WHERE r.label = c.label), "
        "(SELECT COUNT(*) FROM entry e WHERE e.label = c.label "
        "AND e.what NOT IN ('store', 'end')), "
        "(SELECT MAX(number) FROM attempt a WHERE a.label = c.label), "
        "(SELECT COUNT(*) FROM entry e WHERE e.label = c.label AND e.what = 'store') "
        "FROM charge c"
    ):
        audit.labels += 1
        audit.pending += kind not in ("spend", "counter") and not answered
        if digest(terms.encode()) != bytes(found):
            audit.problems.append(f"the terms of label {label!r} were altered")
        elif not last or entered != last * len(event_from(terms)[2]):
            audit.problems.append(f"label {label!r} is not charged to all its budgets")
        elif kept and not answered:
            audit.problems.append(f"the answer of label {label!r} was deleted")


def _audit_counters(rows: Rows, audit: Audit) -> None:
    """Check that steps have no gaps, and that memories belong to the last steps."""
    for counter, body, steps, last, opened, stepped, ended in rows(
        "SELECT c.label, m.body, "
        "(SELECT COUNT(*) FROM step s WHERE s.counter = c.label), "
        "(SELECT MAX(s.number) FROM step s WHERE s.counter = c.label), "
        "(SELECT MIN(e.detail) FROM entry e WHERE e.label = c.label "
        "AND e.what = 'charge'), "
        "(SELECT MIN(e.detail) FROM entry e WHERE e.what = 'store' AND e.label = "
        "(SELECT s.label FROM step s WHERE s.counter = c.label "
        "ORDER BY s.number DESC LIMIT 1)), "
        "(SELECT COUNT(*) FROM entry e WHERE e.label = c.label AND e.what = 'end') "
        "FROM charge c LEFT JOIN memory m ON m.counter = c.label "
        "WHERE c.kind = 'counter'"
    ):
        if body is None:
            audit.problems.append(f"the memory of counter {counter!r} was deleted")
            continue
        memory, detail = bytes(body), stepped or opened
        if steps != (last or 0):
            audit.problems.append(f"steps of counter {counter!r} are missing")
        elif memory != b"" if ended else not binds(detail, memory):
            audit.problems.append(f"the memory of counter {counter!r} was altered")
