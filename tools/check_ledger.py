"""Check the export of a ledger without fastdp: chains, totals and answers.

    python tools/check_ledger.py audit.jsonl [RECEIPTS.json ...]

A second reader, from the description in docs/proofs/ledger.md alone. It prints what is
wrong, and exits with 1 if anything is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

#: Entries that an attempt to draw makes. A step's first entry costs nothing, because
#: its counter was charged.
_ATTEMPTS = ("charge", "again", "retry", "step")

#: Sums are rounded up by less than this where their denominators grow long.
_ROUNDING = Fraction(1, 2**1000)


def digest(*parts: bytes) -> str:
    own = hashlib.blake2b(digest_size=32)
    for part in parts:
        own.update(len(part).to_bytes(8, "big") + part)
    return own.hexdigest()


def limits(rule: dict[str, Any]) -> list[Fraction]:
    """Return the bounds of a budget's sums that this reader knows."""
    given = {
        name: Fraction(value)
        for name, value in rule["guarantee"].items()
        if name not in ("event", "accountant")
    }
    kind = rule["filter"]
    if kind == "GDPFilter":
        return [given["mu"] ** 2]
    if kind == "DeclaredFilter":
        return [given["events"]]
    if kind == "ApproximateFilter":
        return []  # epsilon or rho: only the part of delta is checked, below
    return [given["rho" if kind == "ZCDPFilter" else "epsilon"]]


def price(kind: str, event: dict[str, Any]) -> Fraction | None:
    """Return what a plain event costs under a plain filter; None: not known here."""
    name = event["type"]
    if kind == "DeclaredFilter":
        return Fraction(1)
    if kind == "PureFilter" and name in ("LaplaceEvent", "DiscreteLaplaceEvent"):
        return Fraction(event["sensitivity"]) / Fraction(event["scale"])
    if kind == "PureFilter" and name == "PureDPEvent":
        return Fraction(event["epsilon"])
    if name in ("GaussianEvent", "DiscreteGaussianEvent"):
        square = (Fraction(event["sensitivity"]) / Fraction(event["sigma"])) ** 2
        if kind == "ZCDPFilter":
            return square / 2
        if kind == "GDPFilter" and name == "GaussianEvent":
            return square
    return None


def problems(lines: list[str], receipts: list[dict[str, Any]]) -> list[str]:
    head = json.loads(lines[0])
    if (head["format"], head["version"]) != ("fastdp ledger export", 1):
        return ["this is no export of version 1"]
    found: dict[str, dict[Any, dict[str, Any]]] = {
        "budget": {},
        "charge": {},
        "entry": {},
        "result": {},
        "step": {},
    }
    bad = []
    for line in lines[1:]:
        ((kind, row),) = json.loads(line).items()
        key = row["name"] if kind == "budget" else row.get("label")
        if kind == "entry":
            key = (row["budget"], row["seq"])
        if key in found[kind]:
            bad.append(f"{kind} {key} is there twice")
        found[kind][key] = row
    for name, budget in found["budget"].items():
        bad += chain_problems(head["ledger"], name, budget, found)
    bad += label_problems(found)
    for proof in receipts:
        row = found["entry"].get((proof["budget"], proof["seq"]))
        if proof["ledger"] != head["ledger"] or not row or row["link"] != proof["link"]:
            bad.append(f"the receipt of {proof['budget']} {proof['seq']} is not met")
    return bad


def chain_problems(
    ledger: str, name: str, budget: dict[str, Any], found: dict[str, Any]
) -> list[str]:
    entries = sorted(
        (row for (own, _), row in found["entry"].items() if own == name),
        key=lambda row: row["seq"],
    )
    previous, before, kind = bytes(32), [Fraction(0)], budget["rule"]["filter"]
    for number, row in enumerate(entries):
        where = f"budget {name}, entry {number}"
        link = digest(
            previous,
            str(row["seq"]).encode(),
            row["what"].encode(),
            (row["label"] or "").encode(),
            row["detail"].encode(),
            row["state"].encode(),
        )
        if row["seq"] != number or link != row["link"]:
            return [f"{where}: the chain is broken"]
        detail = json.loads(row["detail"])
        spent = [Fraction(part) for part in json.loads(row["state"])["spent"]]
        if row["what"] in _ATTEMPTS:
            terms = found["charge"][row["label"]]["terms"]
            if digest(terms.encode()) != detail["terms"]:
                return [f"{where}: its terms were altered"]
        if number == 0:
            wanted = {"ledger": ledger, "budget": name, "rule": budget["rule"]}
            wanted |= {"unit": budget["unit"], "block_of": budget["block_of"]}
            if row["what"] != "open" or detail != wanted or any(spent):
                return [f"{where}: it does not open this budget"]
        elif row["what"] in ("charge", "again"):
            facts = json.loads(found["charge"][row["label"]]["terms"])
            cost = price(kind, facts["event"])
            if cost is not None:
                least = before[0] + facts["count"] * cost
                if not least <= spent[0] <= least + _ROUNDING:
                    return [f"{where}: it spent something else than it costs"]
            if any(now < was for now, was in zip(spent, before, strict=True)):
                return [f"{where}: a sum fell"]
        elif spent != before:
            return [f"{where}: an entry of kind {row['what']} changed what was spent"]
        if any(
            s > most for s, most in zip(spent, limits(budget["rule"]), strict=False)
        ):
            return [f"{where}: the budget is exceeded"]
        previous, before = bytes.fromhex(link), spent
    last = entries[-1]
    if (last["seq"], last["link"], last["state"]) != (
        budget["seq"],
        budget["head"],
        budget["state"],
    ):
        return [f"budget {name}: its row differs from its last entry"]
    return []


def label_problems(found: dict[str, Any]) -> list[str]:
    bad = []
    entered: Counter[tuple[str, str]] = Counter()
    stored: dict[str, str] = {}
    for row in found["entry"].values():
        detail = json.loads(row["detail"])
        if row["what"] in _ATTEMPTS:
            entered[row["label"], row["budget"]] += detail["attempt"] == 1
        elif row["what"] == "store":
            stored[row["label"]] = detail["digest"]
    for label, charge in found["charge"].items():
        for name in json.loads(charge["terms"])["budgets"]:
            if entered[label, name] != 1:
                bad.append(f"label {label} is not charged once to {name}")
    taken: Counter[str] = Counter()
    for label, step in found["step"].items():
        taken[step["counter"]] += 1  # exported in their order
        facts = json.loads(found["charge"][label]["terms"])
        paid = json.loads(found["charge"][step["counter"]]["terms"])
        if step["number"] != taken[step["counter"]] or label not in found["result"]:
            bad.append(f"the steps of counter {step['counter']} have a gap")
        if (facts["counter"], paid["kind"]) != (step["counter"], "counter") or (
            (facts["budgets"], facts["event"]) != (paid["budgets"], paid["event"])
        ):
            bad.append(f"step {label} is not one of the counter that was charged")
    for label, result in found["result"].items():
        if label not in found["charge"] or stored.get(label) != result["digest"]:
            bad.append(f"the answer of {label} is not that which was entered")
        if "body" in result:
            body = base64.b64decode(result["body"])
            if digest(result["form"].encode(), body) != result["digest"]:
                bad.append(f"the answer of {label} was altered")
    return bad


def main(arguments: list[str]) -> int:
    lines = Path(arguments[0]).read_text(encoding="utf-8").splitlines()
    receipts = [
        proof
        for path in arguments[1:]
        for proof in json.loads(Path(path).read_text())["receipts"]
    ]
    bad = problems(lines, receipts)
    print("\n".join(bad) if bad else f"{len(lines) - 1} rows, nothing wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
