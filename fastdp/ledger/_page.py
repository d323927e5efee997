"""One self-contained page for the owner of the budgets: no script, no link."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from html import escape
from typing import Any

from fastdp import _page
from fastdp.ledger import _protocol
from fastdp.ledger._budgets import Budget, BudgetState
from fastdp.ledger._chain import Audit
from fastdp.ledger._store import Store

#: Maximum points of a line; maximum rows of the table of releases.
_POINTS = 200
_ROWS = 500

#: Text in place of an answer, for transactions without one.
_UNANSWERED = {"spend": "none is kept", "counter": "a total for each step"}

_STYLE = """
.budget { border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1.1rem;
  margin: 0 0 1rem; } .budget h3 { margin: 0; font-size: 1.02rem; }
.row { display: flex; justify-content: space-between; gap: 1rem; flex-wrap: wrap; }
.bar { height: 14px; border-radius: 7px; background: #e8edf2; margin: .55rem 0 .35rem;
  overflow: hidden; } .bar div { height: 100%; background: var(--fill); }
.bar.near div { background: var(--warn); } .bar.full div { background: var(--bad); }
svg { width: 100%; height: 90px; display: block; margin-top: .5rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f5f7f9;
  padding: .6rem; border-radius: 6px; margin: .4rem 0 0; font-size: .82rem; }
"""


def page(store: Store, uuid: str, audit: Audit) -> str:
    """Return the page as HTML."""
    with store.reading() as run:
        budgets = list(_protocol.all_budgets(run).values())
    now = datetime.datetime.now(datetime.UTC).isoformat(" ", "minutes")
    engine = " · ".join(store.describe().values())
    parts = [
        "<h1>Privacy budgets</h1>",
        f"<p class='soft'>{escape(store.where)} · {escape(engine)}<br>",
        f"ledger <code>{escape(uuid)}</code>, as of {escape(now)}</p>",
        _verdict(audit),
        "<h2>Budgets</h2>",
        *(_budget(store, budget, audit) for budget in budgets),
        *([] if budgets else ["<p class='soft'>No budget yet.</p>"]),
        *_releases(store),
    ]
    return _page.document(f"Privacy budgets of {store.where}", _STYLE, parts)


def _verdict(audit: Audit) -> str:
    if audit.ok:
        pending = (
            f" {audit.pending} labels are charged and have no answer yet."
            if audit.pending
            else ""
        )
        return (
            "<div class='state' id='verdict'><b>Chain verified.</b> "
            f"{audit.entries} entries, {audit.labels} labels, {audit.answers} stored "
            f"answers: every sum is that of its entries.{pending}</div>"
        )
    listed = "".join(f"<li>{escape(text)}</li>" for text in audit.problems)
    return (
        "<div class='state bad' id='verdict'><b>The audit failed.</b> Release nothing "
        f"from these budgets.<ul>{listed}</ul></div>"
    )


def _budget(store: Store, budget: Budget, audit: Audit) -> str:
    state = budget.to_state()
    share = min(state.used, 1.0)
    kind = "full" if share >= 1 else "near" if share > 0.8 else ""
    relation = (
        "any relation, fixed by the first event"
        if state.neighboring_relation is None
        else state.neighboring_relation.name.lower().replace("_", " ")
    )
    head = audit.heads.get(state.name, "")
    block = f" · block of {escape(state.block_of)}" if state.block_of else ""
    crash = ""
    if state.retry_distance:
        crash = (
            "<br>crashes between charge and store added a distance of "
            f"{float(state.retry_distance):.3g}"
        )
    shut = "" if state.is_open else " <b>(closed)</b>"
    return (
        f"<div class='budget'><div class='row'><h3>{escape(state.name)}{shut}</h3>"
        f"<span>{share:.1%} spent</span></div>"
        f"<div class='bar {kind}'><div style='width:{share * 100:.2f}%'></div></div>"
        f"<div class='row soft'><span>{escape(str(state))}</span>"
        f"<span>{escape(_promise(state))}</span></div>"
        f"<div class='soft'>per {escape(state.unit)} · {escape(relation)}{block}{crash}"
        f"<br>last link <code>{escape(head)}</code></div>"
        f"{_line(store, budget)}</div>"
    )


def _promise(state: BudgetState) -> str:
    shown = ", ".join(
        f"{name} {float(Fraction(value)):.6g}"
        for name, value in state.guarantee.items()
        if name not in ("event", "accountant", "slack")
    )
    return f"{state.filter}: {shown}"


def _line(store: Store, budget: Budget) -> str:
    """Return spending over the entries as a step line."""
    step = max(1, budget.seq // _POINTS)
    points = []
    for seq, spent in store.rows(
        "SELECT seq, state FROM entry WHERE budget = ? ORDER BY seq", budget.name
    ):
        if seq % step == 0 or seq == budget.seq:
            share = min(replace(budget, state=spent).to_state().used, 1.0)
            points.append((seq / max(1, budget.seq) * 1000, 84 - share * 78))
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}" if points else ""
    path += "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:])
    return (
        "<svg viewBox='0 0 1000 90' preserveAspectRatio='none' role='img' "
        f"aria-label='spending over {budget.seq + 1} entries'>"
        "<line x1='0' y1='6' x2='1000' y2='6' stroke='#a61b1b' stroke-dasharray='6 5' "
        "vector-effect='non-scaling-stroke'/>"
        "<line x1='0' y1='84' x2='1000' y2='84' stroke='#d9e0e7' "
        "vector-effect='non-scaling-stroke'/>"
        f"<path d='{path}' fill='none' stroke='#2f6f9f' stroke-width='2' "
        "vector-effect='non-scaling-stroke'/></svg>"
        f"<div class='soft'>spent over {budget.seq + 1} entries; the dashed line is "
        "the limit</div>"
    )


def _releases(store: Store) -> Iterator[str]:
    yield "<h2>Transactions</h2>"
    yield (
        "<table><thead><tr><th>label</th><th>kind</th><th>budgets</th><th>what</th>"
        "<th>answer</th></tr></thead><tbody>"
    )
    count = 0
    for label, terms, last, detail, form in store.rows(_protocol.TRANSACTIONS):
        count += 1
        if count > _ROWS:
            continue
        facts = json.loads(terms)
        answer = form or _UNANSWERED.get(facts["kind"], "pending")
        tries = "" if last == 1 else f", {last} attempts"
        yield (
            f"<tr><td>{escape(label)}<br><span class='soft'>"
            f"{escape(json.loads(detail)['at'])}</span></td>"
            f"<td>{escape(facts['kind'])}</td>"
            f"<td>{escape(', '.join(facts['budgets']))}</td>"
            f"<td>{escape(_what(facts))}<details><summary class='soft'>terms</summary>"
            f"<pre>{escape(json.dumps(facts, indent=1))}</pre></details></td>"
            f"<td>{escape(answer + tries)}</td></tr>"
        )
    yield "</tbody></table>"
    if count > _ROWS:
        yield (
            f"<p class='soft'>The first {_ROWS} of {count}; <code>fastdp ledger export"
            "</code> has all.</p>"
        )


def _what(facts: dict[str, Any]) -> str:
    law = facts.get("law", {})
    name = str(law.get("type", facts["event"]["type"]))
    shown = [f"{k} {v}" for k, v in law.items() if k != "type" and isinstance(v, str)]
    times = "" if facts["count"] == 1 else f", {facts['count']} times"
    return name + (f" ({', '.join(shown)})" if shown else "") + times
