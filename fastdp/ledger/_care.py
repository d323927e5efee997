"""Operations on a whole ledger: adopting, closing budgets, moving, exporting."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastdp.exceptions import LedgerError, LedgerRolledBackError, ParameterError
from fastdp.ledger import _chain, _protocol, _terms
from fastdp.ledger._receipts import Receipt, Witness, private_file
from fastdp.ledger._store import (
    FORMAT,
    TABLES,
    Rows,
    Run,
    Store,
    has_counters,
    read_ledger,
)
from fastdp.ledger._terms import canonical

#: The tables in an order in which rows only refer to earlier tables. A ledger of the
#: first format does not have the last two.
_ORDER = ("budget", "charge", "attempt", "entry", "result", "step", "memory")


def adopt(
    store: Store, *, note: str, receipts: Iterable[Receipt], forfeit: Iterable[str]
) -> list[str]:
    """Make a copy the ledger; close budgets with entries known to be missing."""
    _terms.check_name("note", note)
    lost = set(forfeit)
    with store.transaction() as run:
        uuid, place, watching, _ = read_ledger(run, store.where)
        budgets = _protocol.all_budgets(run)
        witness = None if watching is None else Witness(watching)
        seen = [*receipts, *(() if witness is None else witness.read())]
        # A copy that is older than a budget has no row for it that could be closed.
        latest = sorted(seen, key=lambda proof: proof.seq)
        gone = {proof.budget: proof for proof in latest if proof.budget not in budgets}
        if lost - {*budgets, *gone}:
            raise ParameterError(
                f"forfeit must name budgets of the ledger, got {sorted(lost)}"
            )
        rows = _protocol.locked(run, store, uuid, sorted(budgets))
        behind = {proof.budget for proof in seen if not _holds(run, uuid, proof)}
        if behind - lost:
            raise LedgerRolledBackError(
                f"{store.where} has lost entries of {_listed(behind - lost)}; what "
                "they spent is unknown: forfeit (close) these to adopt the rest"
            )
        detail = canonical({"note": note, "from": place, **_protocol.note()})
        last = []
        for budget in rows:
            proof = budget.receipt(uuid)  # a closed budget must stay closed
            if budget.is_open:
                proof = _protocol.enter(run, uuid, budget, "adopt", None, detail)
                if budget.name in lost:
                    proof = _closed(run, uuid, store, budget.name, note)
            last.append(proof)
        run("UPDATE ledger SET place = ?", canonical(store.place()))
    if witness is not None:
        witness.reset([*last, *gone.values()])  # so that no lost budget is made again
    return sorted(lost)


def _holds(run: Run, uuid: str, proof: Receipt) -> bool:
    rows = run(
        "SELECT link FROM entry WHERE budget = ? AND seq = ?", proof.budget, proof.seq
    )
    return bool(rows) and (uuid, bytes(rows[0][0]).hex()) == (proof.ledger, proof.link)


def close_budget(store: Store, uuid: str, name: str, note: str) -> Receipt:
    """Close a budget permanently."""
    _terms.check_name("note", note)
    with store.transaction() as run:
        return _closed(run, uuid, store, name, note)


def _closed(run: Run, uuid: str, store: Store, name: str, note: str) -> Receipt:
    (budget,) = _protocol.locked(run, store, uuid, [name])
    if not budget.is_open:
        raise ParameterError(f"budget {name!r} is closed already")
    detail = canonical({"note": note, **_protocol.note()})
    shut = replace(budget, is_open=False)
    return _protocol.enter(run, uuid, shut, "forfeit", None, detail)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


# ---- moving ------------------------------------------------------------------------


def migrate(source: Store, target: Store, note: str) -> None:
    """Copy a ledger to a new place, audit both, freeze the old, open the new.

    The two are never open at the same time: the new one opens after the freeze of the
    old one is durable. After an interruption the same call finishes the work.
    """
    _terms.check_name("note", note)
    with source.reading() as run:
        uuid, _, watching, state = read_ledger(run, source.where)
    if state == "open":
        target.create()
        with source.transaction() as run:
            budgets = _protocol.locked(run, source, uuid, _names(run))
            _audit(source, uuid)
            _copy(source, target, uuid, watching)
            _audit(target, uuid)
            run("UPDATE ledger SET state = 'frozen'")
            if has_counters(run):
                run("DELETE FROM memory")  # private, and no longer needed
    else:
        with source.reading() as run:
            budgets = list(_protocol.all_budgets(run).values())
    with target.transaction() as run:
        own, _, _, new_state = read_ledger(run, target.where)
        heads = {name: b.head for name, b in _protocol.all_budgets(run).items()}
        if (own, new_state) != (uuid, "frozen") or heads != {
            budget.name: budget.head for budget in budgets
        }:
            raise LedgerError(
                f"{target.where} is not the unfinished copy of {source.where}"
            )
        run("UPDATE ledger SET state = 'open'")
        detail = canonical({"note": note, "from": source.where, **_protocol.note()})
        for budget in budgets:
            if budget.is_open:
                _protocol.enter(run, uuid, budget, "migrate", None, detail)


def _names(run: Run) -> list[str]:
    return [row[0] for row in run("SELECT name FROM budget ORDER BY name")]


def _audit(store: Store, uuid: str) -> None:
    found = audited(store, uuid, (), files=False)
    if not found.ok:
        raise LedgerError(f"{store.where} fails its audit: {found.problems[0]}")


def audited(
    store: Store, uuid: str, receipts: Iterable[Receipt], *, files: bool
) -> _chain.Audit:
    """Audit a ledger that others may charge at the same time."""
    broken = store.check()
    with store.snapshot() as rows:
        budgets = _protocol.all_budgets(rows)
        found = _chain.audited(rows, uuid, budgets, receipts, files=files)
    found.problems[:0] = broken
    return found


def _copy(source: Store, target: Store, uuid: str, watching: str | None) -> None:
    with source.reading() as run:
        counting = has_counters(run)
        holds = counting and run("SELECT 1 FROM memory LIMIT 1")
    tables = _ORDER if counting else _ORDER[:-2]
    if holds:
        target.require_private()
    with target.transaction() as run:
        run(
            "INSERT INTO ledger (one, format, uuid, place, witness, state) "
            "VALUES (1, ?, ?, ?, ?, 'frozen')",
            *(FORMAT, uuid, canonical(target.place()), watching),
        )
        for table in tables:
            names = _columns(table)
            insert = (
                f"INSERT INTO {table} ({', '.join(names)}) "
                f"VALUES ({', '.join('?' * len(names))})"
            )
            for row in source.rows(f"SELECT {', '.join(names)} FROM {table}"):
                run(insert, *row)


def _columns(table: str) -> list[str]:
    """Return the names of a table's columns, from the schema."""
    words = [part.split() for part in TABLES[table].replace("\n", " ").split(",")]
    kinds = {"TEXT", "INTEGER", "BLOB"}
    return [w[0] for w in words if len(w) > 1 and w[1] in kinds]


# ---- export ------------------------------------------------------------------------


def exported(store: Store, *, bodies: bool) -> Iterator[str]:
    """Yield the ledger as lines of JSON; tools/check_ledger.py needs nothing else."""
    with store.snapshot() as rows:
        yield from _exported(rows, store.where, bodies=bodies)


def _exported(rows: Rows, where: str, *, bodies: bool) -> Iterator[str]:
    uuid, place, _, state = read_ledger(rows, where)
    yield canonical(
        {
            "format": "fastdp ledger export",
            "version": 1,
            "ledger": uuid,
            "place": place,
            "state": state,
        }
    )
    for name, rule, unit, block_of, spent, seq, head, is_open in rows(
        "SELECT name, rule, unit, block_of, state, seq, head, is_open FROM budget "
        "ORDER BY name"
    ):
        yield _line(
            "budget",
            name=name,
            rule=json.loads(rule),
            unit=unit,
            block_of=block_of,
            state=spent,
            seq=seq,
            head=bytes(head).hex(),
            open=bool(is_open),
        )
    for label, terms, last in rows(
        "SELECT label, terms, (SELECT MAX(number) FROM attempt a "
        "WHERE a.label = c.label) FROM charge c ORDER BY label"
    ):
        yield _line("charge", label=label, terms=terms, attempts=last)
    for name, seq, what, label, detail, spent, link in rows(
        "SELECT budget, seq, what, label, detail, state, link FROM entry "
        "ORDER BY budget, seq"
    ):
        yield _line(
            "entry",
            budget=name,
            seq=seq,
            what=what,
            label=label,
            detail=detail,
            state=spent,
            link=bytes(link).hex(),
        )
    for label, form, body, own, receipts in rows(
        "SELECT label, form, body, digest, receipts FROM result ORDER BY label"
    ):
        shown = {"body": base64.b64encode(bytes(body)).decode()} if bodies else {}
        yield _line(
            "result",
            label=label,
            form=form,
            digest=bytes(own).hex(),
            size=len(body),
            receipts=json.loads(receipts)["receipts"],
            **shown,
        )
    if has_counters(rows):  # export their steps, never their memory
        for counter, number, label in rows(
            "SELECT counter, number, label FROM step ORDER BY counter, number"
        ):
            yield _line("step", counter=counter, number=number, label=label)


def _line(kind: str, **facts: Any) -> str:
    return canonical({kind: facts})


def write_lines(lines: Iterable[str], path: str | os.PathLike[str]) -> None:
    """Write lines to a new file, synced."""
    try:
        with private_file(Path(path)) as file:
            for line in lines:
                file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if isinstance(error, LedgerError):
            raise
        raise LedgerError(
            f"cannot write {os.fspath(path)}: {os.strerror(error.errno or 0)}"
        ) from None
