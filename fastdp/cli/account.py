"""``fastdp account``: the guarantee of the events of a file, under every notion.

The file and the options are public: sensitivities, noise and counts, never data.
"""

from __future__ import annotations

import argparse
import decimal
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastdp.cli import _common, _places
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    from fastdp.cli._account_file import Account, Unknown
    from fastdp.cli._account_notions import Counted, Reading

#: Cut the reason of a refusal in the table after this many characters; not in JSON.
_LONGEST_REASON = 72

_DESCRIPTION = """\
Add up the privacy that the events of a file cost, and print epsilon at --delta (or
delta at --epsilon) under each notion of privacy that has a bound for all of them, the
tightest first. Each line says what its figure is: a bound with its method, and a
bound from below as well where there is one. Notions that do not apply say why.
"""

_EPILOG = """\
FILE ends in .toml or .json:

  delta = 1e-6
  [[events]]
  type = "Gaussian"
  sensitivity = 1
  sigma = 20.5
  count = 100

Kinds of events and their fields are those of fastdp.accounting; docs/account_file.md
describes them, and "Shuffled", "ContractiveIteration", "NoisyGradientDescent" and
"NoisySGD", whose fields are those of fastdp.accounting.amplification. What an
accountant exports (statement().to_json(), distribution().to_json()) is read as well.

--solve sigma --to 3 asks which sigma makes epsilon 3 at --delta; what FILE says of
that field does not count. The other fields are scale, mu, rho, epsilon, count,
local_epsilon and sampling_probability; with several events, 2.sigma is that of the
second.
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "account",
        help="add up the privacy that the events of a file cost",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="events: .toml or .json")
    question = parser.add_mutually_exclusive_group()
    question.add_argument("--delta", metavar="D", help="print epsilon at this delta")
    question.add_argument("--epsilon", metavar="E", help="print delta at this epsilon")
    add("--solve", metavar="[N.]NAME", help="solve for this field of an event")
    add(
        "--to",
        metavar="VALUE",
        help="with --solve: the epsilon at --delta, or the delta at --epsilon, to meet",
    )
    add(
        "--plot",
        metavar="PICTURE",
        type=Path,
        help="draw epsilon(delta), epsilon against compositions, trade-off curves "
        "(.png, .pdf or .svg)",
    )
    add(
        "--check",
        action="store_true",
        help="compute the exact privacy loss by a second method as well",
    )
    add("--json", action="store_true", help="print JSON, not a table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``fastdp account`` and return the exit code.

    Raises
    ------
    FastDPError
        A parameter is refused, or a file cannot be read or written.

    Notes
    -----
    **Privacy.** It reads public parameters and releases nothing.
    """
    from fastdp.cli import _account_file, _account_notions

    if arguments.to is not None and arguments.solve is None:
        raise ParameterError("--to needs --solve")
    if arguments.plot is not None:
        if arguments.solve is not None:
            raise ParameterError("--plot must not be given with --solve")
        _common.require_plottable(arguments.plot, "account", "plot")
        _places.require_different(
            _places.file("--plot", arguments.plot), _places.file("FILE", arguments.file)
        )
    if arguments.solve is not None:
        if arguments.check:
            raise ParameterError("--check must not be given with --solve")
        _account_notions.require_solvable(arguments.solve)
    account, unknown = _account_file.read(arguments.file, arguments.solve)
    question = _Question(arguments, account)
    parts = [(entry.event, entry.count) for entry in account.entries]
    if unknown is None:
        delta = question.delta if question.asks_epsilon else None
        epsilon = None if question.asks_epsilon else question.epsilon
        readings = _account_notions.read(
            parts, delta=delta, epsilon=epsilon, check=arguments.check
        )
    else:
        target = question.target()
        readings = _account_notions.solve(account, unknown, target)
    if arguments.json:
        print(_as_json(account, question, readings, unknown))
    else:
        print(_as_table(account, question, readings, unknown))
    if arguments.plot is not None:
        names = [r.notion for r in readings if r.value is not None]
        _common.save_picture(_picture(parts, names, question), arguments.plot)
    return 0


class _Question:
    """The question, from the options or else from the file."""

    def __init__(self, arguments: argparse.Namespace, account: Account) -> None:
        from fastdp.accounting.conversions import below_one, capped_epsilon
        from fastdp.cli._account_file import number_of

        given = {
            name: None if text is None else number_of(f"--{name}", text)
            for name, text in (
                ("epsilon", arguments.epsilon),
                ("delta", arguments.delta),
                ("to", arguments.to),
            )
        }
        # An option for one asks for the other; a file with both asks for epsilon.
        self.asks_epsilon = given["epsilon"] is None and (
            given["delta"] is not None or account.delta is not None
        )
        self.epsilon = account.epsilon if given["epsilon"] is None else given["epsilon"]
        self.delta = account.delta if given["delta"] is None else given["delta"]
        if self.epsilon is None and self.delta is None:
            raise ParameterError("--delta or --epsilon must be given, here or in FILE")
        if given["to"] is not None:
            if self.asks_epsilon:
                self.epsilon = given["to"]
            else:
                self.delta = given["to"]
        if self.epsilon is not None:
            self.epsilon = capped_epsilon(self.epsilon)
        if self.delta is not None:
            self.delta = below_one(self.delta)

    def target(self) -> tuple[Fraction, Fraction]:
        """Return the epsilon and delta to meet."""
        if self.epsilon is None or self.delta is None:
            raise ParameterError(
                "--solve needs a target: give --to, or epsilon and delta in FILE"
            )
        return self.epsilon, self.delta

    def words(self) -> str:
        """Return the question, as the heading of the figures."""
        if self.asks_epsilon:
            return f"epsilon at delta {_shown(self.delta)}"
        return f"delta at epsilon {_shown(self.epsilon)}"

    def met(self, readings: Sequence[Reading]) -> tuple[Fraction, bool] | None:
        """Return the wanted bound, and whether any notion proves it."""
        wanted = self.epsilon if self.asks_epsilon else self.delta
        if wanted is None:
            return None
        proved = (r.value for r in readings)
        return wanted, any(v is not None and v <= wanted for v in proved)


def _shown(value: Fraction | float | None, rounding: str | None = None) -> str:
    """Return a number with ten digits; round a bound to the safe side."""
    if value is None or rounding is None:
        return "" if value is None else f"{float(value):.10g}"
    context = decimal.Context(prec=10, rounding=rounding)
    return f"{float(context.create_decimal(Decimal(float(value)))):.10g}"


def _as_table(
    account: Account,
    question: _Question,
    readings: Sequence[Reading],
    unknown: Unknown | None,
) -> str:
    from fastdp.cli import _account_notions

    lines = [_heading(account)]
    if unknown is None:
        lines.append(question.words())
        met = question.met(readings)
    else:
        epsilon, delta = question.target()
        lines.append(
            f"{unknown.name} of event {unknown.entry + 1} for epsilon "
            f"{_shown(epsilon)} at delta {_shown(delta)}"
        )
        met = None
    # The safe side is up for epsilon, delta and noise, and down for all others.
    down = unknown is not None and unknown.name not in _account_notions.NOISES
    rounding = decimal.ROUND_FLOOR if down else decimal.ROUND_CEILING
    width = max(len(r.notion) for r in readings)
    for r in readings:
        if r.value is None:
            lines.append(f"  {r.notion:<{width}}  {'-':<16}  refused: {_short(r.what)}")
            continue
        # Show all digits: ten would hide the difference of the two bounds.
        lower = "" if r.lower is None else f"; lower {r.lower!r}, upper {r.value!r}"
        shown = _shown(r.value, rounding)
        lines.append(f"  {r.notion:<{width}}  {shown:<16}  {r.what}{lower}")
    if met is not None:
        verdict = "met" if met[1] else "not proved by any notion"
        name = "epsilon" if question.asks_epsilon else "delta"
        lines.append(f"target {name} {_shown(met[0])}: {verdict}")
    return "\n".join(" ".join(line.splitlines()) for line in lines)


def _short(reason: str) -> str:
    """Return the first clause of a refusal, with events shown by name alone."""
    text = re.sub(r"(\w+Event)\(.*\)", r"\1", reason.partition(";")[0])
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."


def _heading(account: Account) -> str:
    total = sum(entry.count for entry in account.entries)
    first = account.entries[0].event
    relation = first.neighboring_relation.name  # type: ignore[attr-defined]
    size = first.group_size
    group = "" if size == 1 else f", groups of {size}"
    noun = "event" if total == 1 else "events"
    return f"{total:,} {noun}, {relation}{group}"


def _as_json(
    account: Account,
    question: _Question,
    readings: Sequence[Reading],
    unknown: Unknown | None,
) -> str:
    content: dict[str, object] = {
        "events": sum(entry.count for entry in account.entries),
        "epsilon": None if question.epsilon is None else str(question.epsilon),
        "delta": None if question.delta is None else str(question.delta),
    }
    if unknown is None:
        content["asked"] = "epsilon" if question.asks_epsilon else "delta"
        met = question.met(readings)
        content["met"] = None if met is None else met[1]
    else:
        content["asked"] = unknown.name
        content["event"] = unknown.entry + 1
    content["readings"] = [
        {
            "notion": r.notion,
            "value": r.value,
            "lower": r.lower,
            "kind": "refused" if r.value is None else "bound",
            "what": r.what,
        }
        for r in readings
    ]
    return json.dumps(content, indent=2)


def _picture(
    parts: Sequence[Counted], names: Sequence[str], question: _Question
) -> Any:
    """Return the three pictures of the notions that have a bound."""
    from fastdp import plot
    from fastdp.accounting.events import ComposedEvent, SelfComposedEvent
    from fastdp.cli import _account_notions

    event, count = parts[0]
    if len(parts) > 1:
        all_parts = tuple(SelfComposedEvent(e, n) for e, n in parts)
        event, count = ComposedEvent(all_parts), 1
    makers = {n.name: n.make for n in _account_notions.NOTIONS if n.name in names}
    delta = question.delta if question.asks_epsilon else None
    at = float(delta) if delta else 1e-6
    target = None if question.epsilon is None else float(question.epsilon)
    return plot.overview(event, makers, delta=at, count=count, target=target)
