"""Kinds of data of clients in ``fastdp collect``: category, number, vector or string.

Each kind has its options, checks its columns, and turns cells into reports.
"""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import fastdp
from fastdp.cli import _cells, _check, _dialects, _files, _numbers, _reports
from fastdp.exceptions import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

#: Number of users for choosing the best mechanism: that for many users.
_USERS = 10**6

#: Maximum size of a file of names, in bytes.
_LONGEST = 1 << 29

_UNIFORM = "uniform"

#: Options that only some mechanisms have, by the parser's names. Mechanisms that are
#: not listed have the options of categories.
_OWN = {
    "local-mean": ("bounds",),
    "vector-response": ("words",),
    "count-mean-sketch": ("rows", "buckets", "inner", "key"),
    "prefix-hunt": ("bits", "most", "key"),
    "rappor": ("bits", "hashes", "cohorts", "key"),
}
_OF_CATEGORIES = ("categories", "categories_file", "other")

#: Parameters that --epsilon does not determine: RAPPOR's report of a memo, as in the
#: paper.
_FIXED: Mapping[str, Mapping[str, Fraction]] = {
    "rappor": {"p": Fraction(1, 2), "q": Fraction(3, 4)}
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the domain of a cell and for the mechanism."""
    add = parser.add_argument
    domain = parser.add_mutually_exclusive_group()
    domain.add_argument(
        "--categories",
        metavar="A,B,...|N",
        help="names of the categories, or their number N for the integers 0 to N-1",
    )
    domain.add_argument(
        "--categories-file",
        metavar="FILE",
        type=Path,
        help="names of the categories, one a line, UTF-8",
    )
    add(
        "--epsilon",
        metavar="E",
        type=_numbers.number,
        required=True,
        help="budget of each report",
    )
    add(
        "--mechanism",
        choices=[*_reports.ORACLES, "best", *_reports.OPEN],
        default="best",
        help="of categories; best (the default): with the least predicted error. "
        "local-mean takes numbers, vector-response the --columns of a vector, the "
        "three after it strings that nobody listed",
    )
    add(
        "--other",
        metavar="CATEGORY|uniform",
        help="what a cell outside of the categories counts as (default: uniform)",
    )
    add(
        "--bounds",
        metavar="LOW,HIGH",
        type=_bounds,
        help="public bounds of numbers (local-mean); --bounds=-5,5 where LOW < 0",
    )
    for name, metavar, text in (
        ("words", "N", "words of a report of vector-response (default: 256)"),
        ("rows", "N", "hash functions of count-mean-sketch (default: 1024)"),
        ("buckets", "N", "buckets of each (default: 1024)"),
        ("bits", "N", "of a string (prefix-hunt: 64) or of a filter (rappor: 128)"),
        ("most", "N", "most strings that prefix-hunt finds (default: 32)"),
        ("hashes", "N", "bits of a filter that a string sets (rappor: 2)"),
        ("cohorts", "N", "sets of hash functions (rappor: 64)"),
    ):
        add(f"--{name}", metavar=metavar, type=int, help=text)
    add(
        "--inner",
        choices=["hadamard", "unary"],
        help="what count-mean-sketch reports buckets by (default: hadamard)",
    )
    add("--key", metavar="HEX", help="32 hex digits that hash functions follow from")


def _bounds(text: str) -> tuple[Any, Any]:
    low, comma, high = text.partition(",")
    if not comma:
        raise argparse.ArgumentTypeError(f"must be LOW,HIGH, got {text!r}")
    return _numbers.number(low), _numbers.number(high)


def clients_of(arguments: argparse.Namespace) -> Clients:
    """Return the clients that the options describe, before INPUT is opened.

    Raises
    ------
    ParameterError
        A parameter is refused, missing, or belongs to another mechanism.
    """
    kind = arguments.mechanism
    if (arguments.columns is not None) is not (kind == "vector-response"):
        raise ParameterError(
            "--columns A,B,... must be given with --mechanism "
            "vector-response, in place of --column, and with no other "
            "mechanism"
        )
    own = _OWN.get(kind, _OF_CATEGORIES)
    for name in (*_OF_CATEGORIES, *(name for each in _OWN.values() for name in each)):
        if name not in own and getattr(arguments, name) is not None:
            raise ParameterError(
                f"--{name.replace('_', '-')} must be left out with --mechanism {kind}"
            )
    if kind not in _OWN:
        return _Categories.of(arguments)
    if kind == "local-mean" and arguments.bounds is None:
        raise ParameterError(
            "--bounds LOW,HIGH must be given with --mechanism local-mean: public "
            "numbers, chosen without looking at the data"
        )
    given = {name: getattr(arguments, name) for name in own}
    given = {name: value for name, value in given.items() if value is not None}
    names = None
    if kind == "vector-response":
        names = names_of("--columns", arguments.columns.split(","))
        given["dimension"] = len(names)
    factory = getattr(fastdp, _reports.OPEN[kind])
    made = factory.from_epsilon(arguments.epsilon, **_FIXED.get(kind, {}), **given)
    description = _reports.Description(made, names)
    kinds = {"local-mean": _Numbers, "vector-response": _Vectors}
    return kinds.get(kind, _Strings)(description)


def names_in(option: str, path: Path, encoding: str = "utf-8") -> tuple[str, ...]:
    """Return the names in a public file, one per line.

    Raises
    ------
    FastDPError
        The file cannot be read, or has an empty or repeated name.
    """
    content = _files.read_text(option, path, _LONGEST, encoding)
    return names_of(option, content.removesuffix("\n").split("\n"))


def names_of(option: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return public names without the blanks around them.

    Raises
    ------
    ParameterError
        A name is empty or repeated.
    """
    names = tuple(name.strip(" \t\r") for name in given)
    seen: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        # Do not show the name: the file may be a wrong one, with data in its lines.
        if not name:
            raise ParameterError(
                f"{option} must not contain an empty name, got one at position {place}"
            )
        if seen.setdefault(name, place) != place:
            raise ParameterError(
                f"{option} must have each name once: those at positions "
                f"{seen[name]} and {place} are equal"
            )
    return names


class Clients(ABC):
    """Reads the cells of one or several columns for a mechanism."""

    #: Description of the values of a cell that a report does not distinguish.
    neighbors = "whatever they are"
    #: Whether cells are read as numbers.
    numeric = False

    def __init__(self, description: _reports.Description) -> None:
        self.description = description
        self.mechanism = description.mechanism

    @property
    @abstractmethod
    def parameter(self) -> str:
        """Text on the domain, for the statement."""

    @property
    @abstractmethod
    def outside(self) -> str:
        """Text on cells outside of the domain, for the statement."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """The domain, for programs."""

    @abstractmethod
    def require(self, name: str, kind: pa.DataType, *, declared: bool) -> None:
        """Refuse a column of a type that cannot hold values of the domain."""

    @abstractmethod
    def release(self, columns: Sequence[pa.Array], workers: int) -> npt.NDArray[Any]:
        """Return a report of each row."""

    @abstractmethod
    def check(self, found: _check.Remapped, column: pa.Array) -> None:
        """Count the cells that would be read as something else."""


class _Categories(Clients):
    neighbors = "in a category or not"

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Clients:
        names, categories = _domain(arguments)
        other = _other(arguments.other, names, categories)
        if arguments.mechanism == "best":
            made = fastdp.best_frequency_oracle(
                arguments.epsilon, categories=categories, users=_USERS, other=other
            )
        else:
            oracle = _reports.ORACLES[arguments.mechanism]
            made = getattr(fastdp, oracle.type_name).from_epsilon(
                arguments.epsilon, categories=categories, other=other
            )
        return cls(_reports.Description(made, names))

    @property
    def parameter(self) -> str:
        return f"{self.mechanism.categories} categories"

    @property
    def outside(self) -> str:
        return f"cells in no category were {self._instead}"

    @property
    def facts(self) -> dict[str, Any]:
        return {"categories": self.mechanism.categories}

    @property
    def _instead(self) -> str:
        other = self.mechanism.other
        if other is None:
            return "drawn uniformly from the categories"
        return f"counted as {self.description.labels()[other]!r}"

    @cached_property
    def _names(self) -> pa.Array | None:
        """Names of the categories, in the type with which cells are compared."""
        import pyarrow as pa

        names = self.description.names
        if names is None:
            return None
        return pa.array([name.encode() for name in names], pa.large_binary())

    def require(self, name: str, kind: pa.DataType, *, declared: bool) -> None:
        _cells.require_labels(name, kind, self.description.names, declared=declared)

    def release(self, columns: Sequence[pa.Array], workers: int) -> npt.NDArray[Any]:
        (column,) = columns
        labels = _cells.read_labels(column, self._names)
        reports: npt.NDArray[Any] = self.mechanism.release(labels, workers=workers)
        return reports

    def check(self, found: _check.Remapped, column: pa.Array) -> None:
        found.labels(column, self._names, self.mechanism.categories, self._instead)


class _Numbers(Clients):
    numeric = True

    @property
    def parameter(self) -> str:
        low, high = self.facts["bounds"]
        return f"numbers from {low} to {high}"

    @property
    def outside(self) -> str:
        low, _ = self.facts["bounds"]
        return f"cells without a number were counted as {low}, those beyond as a bound"

    @property
    def facts(self) -> dict[str, Any]:
        return {"bounds": [_numbers.as_text(end) for end in self.mechanism.bounds]}

    def require(self, name: str, kind: pa.DataType, *, declared: bool) -> None:
        _cells.require_numeric(name, kind, integers=False, declared=declared)

    def release(self, columns: Sequence[pa.Array], workers: int) -> npt.NDArray[Any]:
        (column,) = columns
        numbers = _cells.read_reals(column, missing=np.nan)
        reports: npt.NDArray[Any] = self.mechanism.release(numbers, workers=workers)
        return reports

    def check(self, found: _check.Remapped, column: pa.Array) -> None:
        low, high = map(float, self.mechanism.bounds)
        found.bounded(column, low, high)


class _Vectors(Clients):
    numeric = True

    @property
    def parameter(self) -> str:
        return f"vectors of {self.mechanism.dimension} numbers, of length up to 1"

    @property
    def outside(self) -> str:
        return (
            "cells without a number were counted as 0, vectors longer than 1 scaled "
            "to it"
        )

    @property
    def facts(self) -> dict[str, Any]:
        return {"dimension": self.mechanism.dimension}

    def require(self, name: str, kind: pa.DataType, *, declared: bool) -> None:
        _cells.require_numeric(name, kind, integers=False, declared=declared)

    def release(self, columns: Sequence[pa.Array], workers: int) -> npt.NDArray[Any]:
        rows = np.column_stack([_cells.read_reals(column) for column in columns])
        reports: npt.NDArray[Any] = self.mechanism.release(rows, workers=workers)
        return reports

    def check(self, found: _check.Remapped, column: pa.Array) -> None:
        found.numbers(column, integers=False)


class _Strings(Clients):
    @property
    def parameter(self) -> str:
        return "strings that nobody listed"

    @property
    def outside(self) -> str:
        return "cells without text were counted as the empty string"

    @property
    def facts(self) -> dict[str, Any]:
        return {}

    def require(self, name: str, kind: pa.DataType, *, declared: bool) -> None:
        del declared  # text is fine, declared or not
        _cells.require_strings(name, kind)

    def release(self, columns: Sequence[pa.Array], workers: int) -> npt.NDArray[Any]:
        (column,) = columns
        strings, m = _cells.read_strings(column), self.mechanism
        reports: npt.NDArray[Any]
        if isinstance(m, fastdp.Rappor):
            reports = m.report(m.permanent(strings))
        else:
            reports = m.release(strings, workers=workers)
        return reports

    def check(self, found: _check.Remapped, column: pa.Array) -> None:
        hunt = isinstance(self.mechanism, fastdp.PrefixHunt)
        found.strings(column, self.mechanism.lengths[-1] // 8 if hunt else None)


def _domain(arguments: argparse.Namespace) -> tuple[tuple[str, ...] | None, int]:
    """Return the names of the categories (None: integers) and their number."""
    if arguments.categories_file is not None:
        encoding = (_dialects.of_options(arguments) or _dialects.PLAIN).encoding
        names = names_in("--categories-file", arguments.categories_file, encoding)
    elif arguments.categories is None:
        raise ParameterError(
            "give --categories or --categories-file, or a --mechanism "
            f"among {', '.join(_reports.OPEN)}"
        )
    elif arguments.categories.strip().isdecimal() and len(arguments.categories) < 20:
        return None, int(arguments.categories)
    else:
        names = names_of("--categories", arguments.categories.split(","))
    return names, len(names)


def _other(
    option: str | None, names: tuple[str, ...] | None, categories: int
) -> int | None:
    """Return the place of the category `option`, or None for a uniform draw."""
    if option is None or (option == _UNIFORM and _UNIFORM not in (names or ())):
        return None
    if option == _UNIFORM:
        raise ParameterError(
            "--other uniform is ambiguous, because a category has that "
            "name: leave --other out, or rename the category"
        )
    if names is None:
        if option.isdecimal() and len(option) < 20 and int(option) < categories:
            return int(option)
    elif option in names:
        return names.index(option)
    raise ParameterError(f"--other must be a category or uniform, got {option!r}")
