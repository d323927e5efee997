"""Helpers of several commands: missing extras, progress, statements, pictures."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fastdp.cli import _outputs
from fastdp.exceptions import FastDPError, ParameterError

#: Kinds of pictures, by extension.
_PICTURES = (".png", ".pdf", ".svg")

#: What is printed on stderr, and how; the options of the command set it.
_log = {"quiet": False, "json": False}


class _Set(argparse.Action):
    """Set the log immediately, as the next option may fail; store no argument."""

    def __call__(self, parser: Any, namespace: Any, values: Any, *_: Any) -> None:
        _log["json" if self.dest == "log" else self.dest] = True


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose what is printed on stderr."""
    add = parser.add_argument
    add(
        "--quiet",
        action=_Set,
        default=argparse.SUPPRESS,
        nargs=0,
        help="print failures alone on stderr",
    )
    add(
        "--log",
        choices=("json",),
        action=_Set,
        default=argparse.SUPPRESS,
        help="print one JSON object a line on stderr, and no progress",
    )


def reset_log() -> None:
    """Print everything as text until the options say otherwise."""
    _log.update(quiet=False, json=False)


def tell(event: str, text: str, **facts: Any) -> None:
    """Print an event on stderr: `text`, or a JSON object of its public facts."""
    if _log["quiet"] and event != "failed":
        return
    if _log["json"]:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        text = json.dumps({"time": now, "event": event, **facts}, default=str)
    print(text, file=sys.stderr)


def require_pyarrow(command: str) -> None:
    """Refuse to continue without pyarrow, the reader of tables.

    Raises
    ------
    FastDPError
        pyarrow is missing.
    """
    try:
        import pyarrow  # noqa: F401 - only whether it is there
    except ImportError:
        raise FastDPError(
            f'fastdp {command} needs pyarrow: pip install "fastdp[cli]"'
        ) from None


def require_plottable(path: Path, command: str, extra: str) -> None:
    """Refuse a picture that cannot be drawn, before anything else is done.

    Raises
    ------
    ParameterError
        The extension is not a picture's.
    FastDPError
        matplotlib is missing; the message names the `extra` that installs it.
    """
    if path.suffix.lower() not in _PICTURES:
        raise ParameterError(f"--plot must end in .png, .pdf or .svg, got {path.name}")
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError:
        raise FastDPError(
            f'fastdp {command} --plot needs matplotlib: pip install "fastdp[{extra}]"'
        ) from None


def save_picture(figure: Any, path: Path) -> None:
    """Write a matplotlib figure to `path`, whole or not at all.

    Raises
    ------
    FastDPError
        The file cannot be written.
    """
    kind = path.suffix.lower().removeprefix(".")
    with _outputs.AtomicOutput(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150)


@contextlib.contextmanager
def progress(rows: int | None) -> Iterator[Callable[[int], object]]:
    """Show the number of finished rows on a terminal; elsewhere show nothing."""
    with _bar(total=rows, unit=" rows", unit_scale=True) as bar:
        yield (lambda _: None) if bar is None else bar.update


@contextlib.contextmanager
def progress_of_one() -> Iterator[Callable[[float], object] | None]:
    """Show the progress of one long step on a terminal; elsewhere yield None."""
    form = "{percentage:3.0f}% |{bar}| {elapsed}, about {remaining} left"
    with _bar(total=1.0, bar_format=form) as bar:
        yield None if bar is None else lambda share: bar.update(max(0.0, share - bar.n))


@contextlib.contextmanager
def _bar(**options: Any) -> Iterator[Any]:
    """Return a bar that is erased at the end; None if stderr is not a terminal."""
    if any(_log.values()) or not sys.stderr.isatty():
        yield None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    with tqdm(leave=False, **options) as bar:
        yield bar


def statement(title: str, lines: Sequence[tuple[str, str]]) -> str:
    """Return a title and named lines below it; line breaks in texts are removed."""
    body = [f"  {name:<11}{' '.join(text.split())}" for name, text in lines]
    return "\n".join([title, *body])
