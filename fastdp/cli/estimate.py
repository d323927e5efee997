"""``fastdp estimate``: frequencies and means, with errors, from files of reports."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fastdp
from fastdp import _validate, plot
from fastdp.cli import _clients, _common, _files, _outputs, _places, _reports
from fastdp.cli._estimates import Counts, Means
from fastdp.exceptions import FileError, ParameterError

#: Mechanisms whose reports give means.
_MEANS = ("local-mean", "vector-response")

#: Decode this many bytes of reports at a time.
_BATCH_BYTES = 1 << 24

_DESCRIPTION = """\
Estimate how many users are in each category from the reports that fastdp collect
wrote. Several files of the same mechanism and categories are taken together.

The counts are unbiased; they may be negative. Each interval holds its true count with
the stated confidence, by itself and not all of them together, and the largest of many
counts are too large on average. With --consistent another column has the nearest
counts that are not negative and add up to the number of reports.

Of reports of local-mean the mean is printed, of vector-response that of each column;
of count-mean-sketch the counts of what --ask or --names names, of rappor those
--candidates that were found, of prefix-hunt the frequent strings, all of them with
errors and intervals.
"""

_EPILOG = """\
Privacy: reports are private already; nothing here changes their guarantee.
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "estimate",
        help="estimate frequencies or a mean, with intervals, from collected reports",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add(
        "reports",
        metavar="REPORTS",
        nargs="+",
        help="reports to read: files (text with its .json beside it), folders of "
        "Parquet files, URIs",
    )
    add(
        "--level",
        metavar="P",
        type=float,
        default=0.95,
        help="confidence of each interval (default: 0.95)",
    )
    add(
        "--consistent",
        action="store_true",
        help="show counts that are >= 0 and add up, too",
    )
    add(
        "--top",
        metavar="N",
        type=int,
        help="only the N most frequent categories, most frequent first",
    )
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument(
        "--ask",
        metavar="FILE",
        type=Path,
        help="strings to look up in a count-mean-sketch, one a line, UTF-8",
    )
    asked.add_argument(
        "--names", metavar="A,B,...", help="the same strings, separated by commas"
    )
    asked.add_argument(
        "--candidates",
        metavar="FILE",
        type=Path,
        help="strings that reports of rappor may be of, one a line, UTF-8",
    )
    add("--json", action="store_true", help="print JSON instead of a table")
    add(
        "-o",
        "--output",
        metavar="TABLE",
        help="write the table too, in any form of a table",
    )
    add(
        "--escape-formulas",
        action="store_true",
        help="in CSV and TSV, put ' before names that a spreadsheet would run",
    )
    add(
        "--plot",
        metavar="FILE",
        type=Path,
        help="draw the frequencies: .png, .pdf or .svg",
    )
    add("--workers", metavar="N", type=int, default=1, help="threads for decoding")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``fastdp estimate`` and return the exit code.

    Raises
    ------
    FastDPError
        A parameter is refused, or a file cannot be read or written, or its reports
        differ from its description.

    Notes
    -----
    **Privacy.** It uses only the reports and changes no guarantee.
    """
    output = _require_options(arguments)
    asked = _asked(arguments)
    _common.require_pyarrow("estimate")
    reports = _reports_of(arguments)
    description = _one_description(reports)
    _require_fitting(arguments, description.kind)
    estimate = _estimate(reports, description, arguments.workers)
    table: Means | Counts
    if description.kind in _MEANS:
        table = _means(estimate, description, arguments.level)
    else:
        estimate = _counted(estimate, description.kind, asked)
        table = _table(estimate, description, arguments)
    facts = _facts(estimate, description, arguments.level)
    if output is not None:
        _write(table, output, facts, escape=arguments.escape_formulas)
    if arguments.plot is not None:
        figure = _picture(estimate, description, arguments)
        _common.save_picture(figure, arguments.plot)
    if arguments.json:
        print(json.dumps({**facts, **table.facts()}, indent=1, ensure_ascii=False))
    else:
        print(_as_text(table, estimate, description, arguments.level))
    return 0


def _asked(arguments: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the requested strings, from a file or the command line."""
    if arguments.names is not None:
        return _clients.names_of("--names", arguments.names.split(","))
    if arguments.ask is not None:
        return _clients.names_in("--ask", arguments.ask)
    if arguments.candidates is not None:
        return _clients.names_in("--candidates", arguments.candidates)
    return None


def _require_fitting(arguments: argparse.Namespace, kind: str) -> None:
    """Refuse options that do not apply to this mechanism, and missing ones."""
    sketch = arguments.ask is not None or arguments.names is not None
    if sketch is not (kind == "count-mean-sketch"):
        rule = "left out" if sketch else "given"
        raise ParameterError(f"--ask or --names must be {rule} with reports of {kind}")
    if (arguments.candidates is not None) is not (kind == "rappor"):
        rule = "given" if kind == "rappor" else "left out"
        raise ParameterError(f"--candidates must be {rule} with reports of {kind}")
    if arguments.consistent and kind in _reports.OPEN:
        raise ParameterError(
            f"--consistent must be left out with reports of {kind}: there are no "
            "categories whose counts add up"
        )
    if arguments.top is not None and kind in _MEANS:
        raise ParameterError(f"--top must be left out with reports of {kind}")


def _counted(estimate: Any, kind: str, asked: tuple[str, ...] | None) -> Any:
    """Return counts; read the requested strings from a sketch or filters."""
    if kind == "count-mean-sketch":
        return estimate.of(list(asked or ()))
    if kind == "rappor":
        return estimate.decode(list(asked or ()))
    return estimate


def _picture(
    estimate: Any, description: _reports.Description, arguments: argparse.Namespace
) -> Any:
    if description.kind in _MEANS:
        names = description.names
        given = [estimate] if names is None else estimate
        return plot.local_means(given, names, level=arguments.level)
    return plot.frequencies(
        estimate,
        _labels(estimate, description),
        level=arguments.level,
        top=arguments.top,
    )


def _require_options(arguments: argparse.Namespace) -> _places.Place | None:
    """Return the place of the output table, or None."""
    _validate.open_unit("level", arguments.level)
    _validate.integer("workers", arguments.workers, 1)
    if arguments.top is not None:
        _validate.integer("top", arguments.top, 1)
    if arguments.plot is not None:
        _common.require_plottable(arguments.plot, "estimate", "plot")
    given = _given(arguments)
    for place in given:
        if place.standard:
            raise ParameterError(
                "REPORTS must be files, because their description is in "
                "the file or next to it, got standard input"
            )
    output = None
    if arguments.output is not None:
        output = _places.table("--output", arguments.output)
        if output.standard:
            raise ParameterError(
                "--output must be a file: standard output has the estimate, with "
                "--json for programs"
            )
    if arguments.escape_formulas and (output is None or not output.form.text):
        raise ParameterError(
            "--escape-formulas must come with a CSV or TSV --output: no "
            "other output is run as formulas"
        )
    written = [] if output is None else [output]
    written += _places.file("--plot", arguments.plot)
    read = [*given, *(_reports.sidecar(place) for place in given if place.form.text)]
    read += _places.file("--ask", arguments.ask)
    read += _places.file("--candidates", arguments.candidates)
    _places.require_different(written, read)
    return output


def _given(arguments: argparse.Namespace) -> list[_places.Place]:
    return [_places.table("REPORTS", name) for name in arguments.reports]


def _reports_of(arguments: argparse.Namespace) -> list[_places.Place]:
    """Return the files of reports; refuse repeated ones."""
    files: list[_places.Place] = []
    for place in _given(arguments):
        for part in _files.parts(place):
            for other in files:
                # Counting reports twice would make the stated errors too small.
                before = replace(other, option="REPORTS before it")
                _places.require_other(part, before)
            files.append(part)
    return files


def _one_description(places: Sequence[_places.Place]) -> _reports.Description:
    """Return the description that all files share."""
    first, *others = (_reports.read_description(place) for place in places)
    for place, other in zip(places[1:], others, strict=True):
        what = None
        if other.mechanism != first.mechanism:
            what = f"{other.mechanism!r} and {first.mechanism!r}"
        elif other.names != first.names:
            what = "other names of categories or columns"
        if what is not None:
            raise FileError(
                f"REPORTS must be of one mechanism and the same categories, got {what} "
                f"in {place} and {places[0]}"
            )
    return first


def _estimate(
    places: Sequence[_places.Place], description: _reports.Description, workers: int
) -> Any:
    """Stream all reports into one aggregator and return its estimate.

    For a hunt they are streamed again for every level.
    """
    aggregator = description.mechanism.aggregator()
    while True:
        _add(places, aggregator, workers)
        if getattr(aggregator, "last", True):
            break
        aggregator = aggregator.next()
    if aggregator.users == 0:
        raise FileError(f"REPORTS must hold at least one report, {places[0]} has none")
    return aggregator.estimate()


def _add(places: Sequence[_places.Place], aggregator: Any, workers: int) -> None:
    mechanism = aggregator.mechanism
    columns = _reports.columns(mechanism)
    size = max(1, _BATCH_BYTES // mechanism.report_width)
    for place in places:
        wanted = [("the column", name) for name in columns]
        with _files.open_source(place, wanted) as source:
            if not place.form.text:
                _reports.require_columns(source.schema, mechanism, place)
            row = 1
            with _common.progress(source.rows) as advance:
                for batch in source.batches(size):
                    reports = _reports.from_batch(batch, mechanism, place, row)
                    aggregator.add(reports, workers=workers)
                    row += batch.num_rows
                    advance(batch.num_rows)


def _labels(estimate: Any, description: _reports.Description) -> list[Any]:
    """Return the labels of the counts."""
    if description.kind in _reports.OPEN:
        return list(estimate.names)
    return list(description.labels())


def _means(estimate: Any, description: _reports.Description, level: float) -> Means:
    mean = np.atleast_1d(estimate.mean)
    low, high = map(np.atleast_1d, estimate.confidence_interval(level))
    errors = np.broadcast_to(estimate.standard_error, mean.shape)
    return Means(description.names, mean, errors, low, high)


def _table(
    estimate: Any, description: _reports.Description, arguments: argparse.Namespace
) -> Counts:
    order = plot.most_frequent(estimate.counts, arguments.top)
    labels = _labels(estimate, description)
    low, high = estimate.confidence_interval(arguments.level)
    return Counts(
        what="value" if description.kind in _reports.OPEN else "category",
        labels=[labels[place] for place in order],
        counts=estimate.counts[order],
        errors=estimate.standard_errors[order],
        low=low[order],
        high=high[order],
        frequencies=estimate.frequencies[order],
        consistent=estimate.consistent().counts[order]
        if arguments.consistent
        else None,
    )


def _facts(
    estimate: Any, description: _reports.Description, level: float
) -> dict[str, Any]:
    """Return the facts on the whole estimate, for programs."""
    return {
        "mechanism": description.kind,
        "epsilon": description.mechanism.epsilon(),
        "users": int(estimate.users),
        "level": level,
    }


def _write(
    table: Counts | Means, place: _places.Place, facts: dict[str, Any], *, escape: bool
) -> None:
    import pyarrow as pa

    made = pa.table(table.columns())
    if not place.form.text:
        own = {"format": "fastdp estimate", "version": 1, "fastdp": fastdp.__version__}
        text = json.dumps({**own, **facts}, ensure_ascii=False)
        made = made.replace_schema_metadata({"fastdp.estimate": text})
    with _outputs.output(place) as temporary:
        sink = _files.open_sink(place.form, temporary, made.schema, None, escape=escape)
        with contextlib.closing(sink):
            sink.write(made)


def _as_text(
    table: Counts | Means,
    estimate: Any,
    description: _reports.Description,
    level: float,
) -> str:
    columns = table.shown(level)
    widths = [max(len(cell) for cell in column) for column in columns]
    mechanism = description.mechanism
    title = (
        f"{estimate.users:,} reports, {description.kind}, epsilon = "
        f"{mechanism.epsilon():.6g} for each"
    )
    if description.kind not in _reports.OPEN:
        title += f", {mechanism.categories:,} categories"
    lines = [title, ""]
    for name, *numbers in zip(*columns, strict=True):
        cells = [name.ljust(widths[0])]
        cells += [
            cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)
        ]
        lines.append("  ".join(cells))
    return "\n".join(lines)
