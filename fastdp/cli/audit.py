"""``fastdp audit``: try to refute the claims about a mechanism."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from inspect import signature
from pathlib import Path
from typing import Any

from fastdp.cli import _outputs
from fastdp.exceptions import DTypeError, FastDPError, ParameterError

_DESCRIPTION = """\
Audit a mechanism. FACTORY is a function without parameters, in a module that Python
finds from here, that returns the arguments of fastdp.audit.run as a dict: "mechanism",
"neighbors", "claim", and perhaps "draws", "level", "timing" and "budget".

The exit code is 0 if nothing was found, 1 if a claim is refuted or a fault was found,
and 2 for wrong usage. "Nothing found" is no proof.
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "audit",
        help="try to refute what is claimed of a mechanism",
        description=_DESCRIPTION,
    )
    parser.add_argument(
        "factory", metavar="MODULE:FACTORY", help="what makes the mechanism"
    )
    parser.add_argument("--draws", metavar="N", type=int, help="draws from each input")
    parser.add_argument(
        "--level",
        metavar="P",
        type=float,
        help="bound of the probability of a false alarm",
    )
    parser.add_argument(
        "--timing",
        metavar="N",
        type=int,
        help="pairs of calls whose times are compared",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not text")
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="write a page with pictures as well"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``fastdp audit`` and return the exit code.

    Raises
    ------
    DTypeError, ParameterError
        There is no such factory, or it does not return arguments of `audit.run`.
    """
    from fastdp import audit

    given = _made(arguments.factory)
    for name in ("draws", "level", "timing"):
        if getattr(arguments, name) is not None:
            given[name] = getattr(arguments, name)
    missing = {"mechanism", "neighbors", "claim"} - set(given)
    unknown = set(given) - set(signature(audit.run).parameters)
    for words, names in (("has no", unknown), ("needs", missing)):
        if names:
            raise ParameterError(f"audit {words} {', '.join(sorted(names))}")
    report = audit.run(**given)
    if arguments.html is not None:
        with _outputs.AtomicOutput(arguments.html) as temporary:
            temporary.write_text(report.to_html(), encoding="utf-8")
    print(report.to_json() if arguments.json else report)
    return int(report.refuted)


def _made(text: str) -> dict[str, Any]:
    """Return the result of the factory."""
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise ParameterError("give MODULE:FACTORY, such as mechanisms:noisy_count")
    # as Python's own -m does
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - a text
    try:
        factory = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        raise ParameterError(f"there is no module {module}") from None
    except AttributeError:
        raise ParameterError(f"{module} has no {name}") from None
    try:
        made = factory()
    except FastDPError:
        raise
    except Exception as error:
        raise ParameterError(f"{text} raised {type(error).__name__}") from None
    if not isinstance(made, dict):
        raise DTypeError(f"{text} must return a dict, got {type(made).__name__}")
    return dict(made)
