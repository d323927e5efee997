"""``fastdp ledger``: durable budgets, and releases that are drawn and charged once."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from typing import Any

from fastdp.cli import _common, _files, _ledgered, _outputs, _places
from fastdp.cli._numbers import number
from fastdp.exceptions import ParameterError

_DESCRIPTION = """\
Durable budgets. A release with --ledger, --budget and --label is charged before
anything is drawn, and drawn once: the same command again, after a crash or from another
machine, gives the same file and spends nothing. LEDGER is a SQLite file on a local disk
or postgresql://..., for many machines. docs/ledger.md and docs/operations.md say more.
"""

#: Number of releases that `show` lists.
_LAST = 5

_RELATIONS = ("add-or-remove-one", "replace-one", "replace-special")


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "ledger",
        help="durable budgets: make, charge, show, audit, back up",
        description=_DESCRIPTION,
    )
    verbs = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="verb", required=True
    )

    def verb(name: str, run: Callable[[argparse.Namespace], int], text: str) -> Any:
        made = verbs.add_parser(name, help=text, description=text)
        made.add_argument("ledger", metavar="LEDGER", help="file or postgresql://...")
        made.set_defaults(run=_run, do=run)
        return made.add_argument

    add = verb("init", _init, "Make a new ledger.")
    add("--witness", metavar="FILE", help="small file on another volume, made here")

    add = verb("budget", _budget, "Make a budget; it is never refilled.")
    add("name", metavar="NAME", help="name of the budget")
    add("--epsilon", metavar="E", type=number, help="pure, or with --delta")
    add("--delta", metavar="D", type=number, help="approximate, with --epsilon")
    add("--zcdp-rho", metavar="R", type=number, help="zero-concentrated")
    add("--gdp-mu", metavar="M", type=number, help="Gaussian")
    add(
        "--rdp-order",
        metavar="A",
        type=number,
        help="Renyi, with --epsilon for the divergence",
    )
    add("--unit", metavar="NAME", required=True, help="whom it is about: person, ...")
    add(
        "--neighbors",
        choices=_RELATIONS,
        default=_RELATIONS[0],
        help="neighboring relation; default add-or-remove-one",
    )
    add("--block-of", metavar="NAME", help="data set of whose units this is a block")

    add = verb("show", _show, "Show budgets and what was spent.")
    add("--json", action="store_true", help="as JSON, with exact fractions")
    add("--html", metavar="FILE", type=Path, help="audit, and write a page")

    add = verb("labels", _labels, "List releases by label; no answer is shown.")
    add("--json", action="store_true", help="as JSON, with exact costs")

    add = verb("spend", _spend, "Charge what is done outside of the ledger.")
    add("--label", metavar="LABEL", required=True, help="name of this use")
    add("--budget", metavar="NAME", action="append", required=True, dest="budgets")
    add("--event", metavar="FILE", type=Path, help="JSON of an event (to_json)")
    add("--epsilon", metavar="E", type=number, help="pure, or with --delta")
    add("--delta", metavar="D", type=number, help="with --epsilon")
    add("--rho", metavar="R", type=number, help="zero-concentrated")
    add("--neighbors", choices=_RELATIONS, help="relation of a stated epsilon or rho")
    add("--count", metavar="N", type=int, default=1, help="how often")
    add("--dry-run", action="store_true", help="say what would be left; write nothing")

    add = verb("audit", _audit, "Verify chains, sums, answers and released files.")
    add(
        "--receipt",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="released file, or its receipts: the ledger must hold them",
    )
    add(
        "--no-files",
        action="store_false",
        dest="files",
        help="do not read the files that were released: this machine has them not",
    )

    add = verb("export", _export, "Write all entries as lines of JSON.")
    add("-o", "--output", metavar="FILE", type=Path, required=True)
    add("--bodies", action="store_true", help="write the answers, too")

    add = verb("backup", _backup, "Copy a ledger in SQLite, consistently.")
    add("output", metavar="FILE", type=Path)

    add = verb("adopt", _adopt, "Make a moved or restored copy the ledger.")
    add("--note", metavar="TEXT", required=True, help="why, for the chain")
    add("--receipt", metavar="FILE", type=Path, action="append", default=[])
    add(
        "--forfeit", metavar="NAME", action="append", default=[], help="budget to close"
    )

    add = verb("forfeit", _forfeit, "Close a budget for good.")
    add("name", metavar="NAME")
    add("--note", metavar="TEXT", required=True, help="why, for the chain")

    add = verb("migrate", _migrate, "Move a ledger; the old one is frozen.")
    add("target", metavar="TARGET", help="new file or postgresql://...")
    add("--note", metavar="TEXT", required=True, help="why, for the chain")


# ---- verbs -----------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    """Refuse two paths for the same file, then run the verb."""
    given = vars(arguments)
    read = _ledgered.files("LEDGER", arguments.ledger)
    read += _ledgered.files("TARGET", given.get("target"))
    read += _places.file("--event", given.get("event"))
    for path in given.get("receipt", ()):
        read += _places.file("--receipt", path)
        read += _places.file("--receipt", f"{path}{_ledgered.BESIDE}")
    _places.require_different(_written(arguments), read)
    return int(arguments.do(arguments))


def _written(arguments: argparse.Namespace) -> list[_places.Place]:
    """Return the files that the verb writes."""
    options = {"witness": "--witness", "html": "--html", "output": "OUTPUT"}
    return [
        place
        for name, option in options.items()
        for place in _places.file(option, vars(arguments).get(name))
    ]


def _open(arguments: argparse.Namespace) -> AbstractContextManager[Any]:
    return _ledgered.opened(arguments.ledger, _written(arguments))


def _init(arguments: argparse.Namespace) -> int:
    import fastdp

    with fastdp.ledger.create(arguments.ledger, witness=arguments.witness) as book:
        facts = book.describe()
    lines = [(name, text) for name, text in facts.items()]
    print(_common.statement("fastdp: new ledger", lines), file=sys.stderr)
    return 0


def _relation(text: str | None) -> Any:
    from fastdp.accounting import NeighboringRelation

    if text is None:
        raise ParameterError("--neighbors must be given with --epsilon or --rho")
    return NeighboringRelation[text.upper().replace("-", "_")]


def _budget(arguments: argparse.Namespace) -> int:
    from fastdp import accounting

    relation = _relation(arguments.neighbors)
    found = (
        arguments.epsilon,
        arguments.delta,
        arguments.zcdp_rho,
        arguments.gdp_mu,
        arguments.rdp_order,
    )
    admission: Any
    match found:
        case (epsilon, None, None, None, None) if epsilon is not None:
            admission = accounting.PureFilter(epsilon, relation)
        case (epsilon, delta, None, None, None) if None not in (epsilon, delta):
            admission = accounting.ApproximateFilter(
                epsilon=epsilon, delta=delta, neighboring_relation=relation
            )
        case (None, None, rho, None, None) if rho is not None:
            admission = accounting.ZCDPFilter(rho, relation)
        case (None, None, None, mu, None) if mu is not None:
            admission = accounting.GDPFilter(mu, relation)
        case (epsilon, None, None, None, order) if None not in (epsilon, order):
            admission = accounting.RDPFilter(
                order=order, epsilon=epsilon, neighboring_relation=relation
            )
        case _:
            raise ParameterError(
                "one limit must be given: --epsilon, --epsilon and --delta, "
                "--zcdp-rho, --gdp-mu, or --rdp-order and --epsilon"
            )
    with _open(arguments) as book:
        book.add_budget(
            arguments.name, admission, unit=arguments.unit, block_of=arguments.block_of
        )
        print(listed(book.budgets()))
    return 0


def listed(budgets: Mapping[str, Any]) -> str:
    """Return budgets as lines of text."""
    if not budgets:
        return "no budget yet: fastdp ledger budget makes one"
    rows = [("budget", "unit", "promise", "spent", "", "left")]
    for state in budgets.values():
        promise, spent, left = _in_one_currency(state)
        rows.append((state.name, state.unit, promise, spent, f"{state.used:.1%}", left))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    if any(state.filter == "ApproximateFilter" for state in budgets.values()):
        lines.append(
            "Of each delta a part pays for adding up rho; the rest, which is listed as "
            "left, is for deltas of releases."
        )
    return "\n".join(lines)


def _in_one_currency(state: Any) -> tuple[str, str, str]:
    """Return a budget's limit, its spending, and what is left, in its own notion.

    An `ApproximateFilter` adds up both epsilons and rhos; one of the two must stay
    within its limit. Epsilon is shown while it is within its limit, then rho.
    """
    names = list(state.limit)
    promise = ", ".join(
        f"{name} {float(state.limit[name]):.6g}".replace("_", " ") for name in names
    )
    if state.filter == "ApproximateFilter":
        exact = {name: Fraction(state.guarantee[name]) for name in ("epsilon", "delta")}
        promise = ", ".join(f"{name} {float(x):.6g}" for name, x in exact.items())
        fits = state.spent["epsilon"] <= state.limit["epsilon"]
        names = ["epsilon" if fits else "rho", "delta"]
    elif state.filter == "RDPFilter":
        promise = f"Renyi {promise} at order {state.guarantee['order']}"
    elif state.filter == "GDPFilter":
        promise = f"mu {float(Fraction(state.guarantee['mu'])):.6g}"
    spent, left = [], []
    for name in names:
        word, used = name.replace("_", " "), state.spent[name]
        spent += [f"{word} {float(used):.6g}"] if used or name != "delta" else []
        left.append(f"{word} {float(max(state.limit[name] - used, 0)):.6g}")
    rest = ", ".join(left) if state.is_open else "nothing: closed"
    return promise, ", ".join(spent), rest


def _show(arguments: argparse.Namespace) -> int:
    with _open(arguments) as book:
        budgets = book.budgets()
        if arguments.html is not None:
            with _outputs.AtomicOutput(arguments.html) as temporary:
                temporary.chmod(0o600)
                temporary.write_text(book.to_html(), encoding="utf-8")
        if arguments.json:
            print(json.dumps({n: b.to_dict() for n, b in budgets.items()}, indent=1))
            return 0
        print("\n".join(f"{name}: {text}" for name, text in book.describe().items()))
        print(listed(budgets))
        labels = book.labels()
    if labels:
        print(f"last {len(labels[-_LAST:])} of {len(labels)} releases (all: labels)")
        print("\n".join(map(_described, labels[-_LAST:])))
    return 0


def _described(one: Any) -> str:
    """Return a line on the transaction of a label."""
    state = "answered" if one.answered else "no stored answer"
    names = ", ".join(one.budgets)
    return f"{one.charged_at}  {one.label}  {one.kind}  {names}  {state}"


def _labels(arguments: argparse.Namespace) -> int:
    with _open(arguments) as book:
        found = book.labels()
    for one in found:
        if arguments.json:
            facts = {**vars(one), "event": json.loads(one.event.to_json())}
            print(json.dumps(facts))
            continue
        print(_described(one))
    return 0


def _spend(arguments: argparse.Namespace) -> int:
    event = _event(arguments)
    with _open(arguments) as book:
        if arguments.dry_run:
            left = book.preview(event, budgets=arguments.budgets, count=arguments.count)
            print(listed(left))
            return 0
        book.spend(
            event,
            label=arguments.label,
            budgets=arguments.budgets,
            count=arguments.count,
        )
        budgets = book.budgets()
    print(listed({name: budgets[name] for name in sorted(arguments.budgets)}))
    return 0


def _event(arguments: argparse.Namespace) -> Any:
    from fastdp import accounting

    given = tuple(
        value is not None
        for value in (
            arguments.event,
            arguments.epsilon,
            arguments.delta,
            arguments.rho,
        )
    )
    if given == (True, False, False, False):
        text = _files.read_text("--event", arguments.event, 1 << 24)
        return accounting.Event.from_json(text)
    if given not in {
        (False, True, False, False),
        (False, True, True, False),
        (False, False, False, True),
    }:
        raise ParameterError(
            "one of --event, --epsilon (with --delta) or --rho must be given"
        )
    relation = _relation(arguments.neighbors)
    if arguments.rho is not None:
        return accounting.ZCDPEvent(arguments.rho, neighboring_relation=relation)
    return accounting.ApproximateDPEvent(
        epsilon=arguments.epsilon,
        delta=arguments.delta or Fraction(0),
        neighboring_relation=relation,
    )


def _receipts(paths: list[Path]) -> list[Any]:
    """Return the receipts in released files."""
    import fastdp

    found: list[Any] = []
    for path in paths:
        found += fastdp.ledger.receipts_from_json(_receipt_text(path))
    return found


def _receipt_text(path: Path) -> str:
    form = _places.form_of(path.name)
    if form is None or form.text:
        beside = path if form is None else path.with_name(path.name + _ledgered.BESIDE)
        return _files.read_text("--receipt", beside, 1 << 24)
    _common.require_pyarrow("ledger audit --receipt")
    metadata = _files.read_metadata(_places.Place("--receipt", str(path), form))
    text = metadata.get(_ledgered.RECEIPTS.encode())
    if text is None:
        raise ParameterError(
            f"--receipt must be a file that a ledger released, but {path} is not"
        )
    return text.decode("utf-8", "replace")


def _audit(arguments: argparse.Namespace) -> int:
    receipts = _receipts(arguments.receipt)
    with _open(arguments) as book:
        found = book.audit(receipts=receipts, files=arguments.files)
    print(
        f"{found.entries} entries, {found.labels} labels, {found.answers} answers, "
        f"{found.pending} pending; {len(receipts)} receipts"
    )
    for name, head in found.heads.items():
        print(f"{name}: last link {head}")
    for problem in found.problems:
        print(f"PROBLEM: {problem}")
    print("verified" if found.ok else "NOT verified")
    return 0 if found.ok else 1


def _export(arguments: argparse.Namespace) -> int:
    with _open(arguments) as book:
        book.export(arguments.output, bodies=arguments.bodies)
    return 0


def _backup(arguments: argparse.Namespace) -> int:
    with _open(arguments) as book:
        book.backup(arguments.output)
    return 0


def _adopt(arguments: argparse.Namespace) -> int:
    import fastdp

    closed = fastdp.ledger.adopt(
        arguments.ledger,
        note=arguments.note,
        receipts=_receipts(arguments.receipt),
        forfeit=arguments.forfeit,
    )
    print("adopted; closed: " + (", ".join(closed) or "none"))
    return 0


def _forfeit(arguments: argparse.Namespace) -> int:
    with _open(arguments) as book:
        book.forfeit(arguments.name, note=arguments.note)
    return 0


def _migrate(arguments: argparse.Namespace) -> int:
    import fastdp

    fastdp.ledger.migrate(arguments.ledger, arguments.target, note=arguments.note)
    return 0
