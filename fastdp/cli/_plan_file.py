"""``fastdp aggregate --plan``: several tables, described by one TOML file.

The content of the file is public. Every error names the file and the key.
"""

from __future__ import annotations

import argparse
import contextlib
import decimal
import difflib
import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastdp
from fastdp import _validate
from fastdp.cli import _dialects, _files, _ledgered, _places
from fastdp.cli._numbers import number
from fastdp.exceptions import CalibrationError, DTypeError, ParameterError

#: Keys of the whole file.
_WHOLE = ("ledger", "budgets", "label", "tables")

#: Keys of a table in addition to the parameters of `fastdp.Plan`; those of the output
#: may not be shared by tables.
_OF_FILES = ("source", "source_format", "csv", "level", "escape_formulas")
_OUTPUT = ("output", "output_format")

#: Budget keys: each table must have its own; they may not be shared.
_SPENT = ("epsilon", "rho", "delta")

#: Maximum size of a file, in bytes.
_MOST = 1 << 20

_NAMED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class Table:
    """One requested table: the parameters of its plan, its files, and its display.

    Attributes
    ----------
    where : str
        Name of the table in messages; empty for the single table of the command line.
    words : dict of str to object
        Parameters of `fastdp.Plan`, except keys in a file.
    keys : Place or None
        The file of public groups.
    input, output : Place
    level : float
    escape : bool
    """

    where: str
    words: dict[str, Any]
    keys: _places.Place | None
    input: _places.Place
    output: _places.Place
    level: float
    escape: bool

    def plan(self, keys: Any = None) -> fastdp.Plan:
        """Return the plan, with the public groups from its file."""
        more = {} if keys is None else {"keys": keys}
        with naming(self.where):
            return fastdp.Plan(**self.words, **more)


@dataclass(frozen=True)
class Asked:
    """All tables of a file, by name, and the ledger and budgets to charge."""

    tables: dict[str, Table]
    ledger: str | None
    budgets: list[str]
    label: str | None


@contextlib.contextmanager
def naming(where: str) -> Iterator[None]:
    """Put the names of file and table before the message of an error."""
    try:
        yield
    except (ParameterError, DTypeError, CalibrationError) as error:
        if not where:
            raise
        raise type(error)(f"{where}: {error}") from None


def read(path: str, given: Iterable[str]) -> Asked:
    """Return the tables that a plan file requests.

    Parameters
    ----------
    path : str
        The file.
    given : iterable of str
        NAME=TEXT, for the places {NAME} in the names of files, labels and budgets.

    Raises
    ------
    ParameterError, DTypeError
        The file is not TOML, or a key is unknown, missing or refused; the message names
        the key.
    FastDPError
        The file cannot be read.
    """
    text = _files.read_text("--plan", Path(path), _MOST)
    name = Path(path).name
    try:
        # Numbers have their decimal value, like those of the command line.
        found = tomllib.loads(text, parse_float=_decimal)
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"--plan {name} must be TOML: {error}") from None
    return _File(name, Path(path).parent, _set(given)).asked(found)


def _decimal(text: str) -> Any:
    found = decimal.Decimal(text)
    return number(text) if found.is_finite() else float(found)


def _set(given: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not _NAMED.fullmatch(f"{{{name}}}"):
            raise ParameterError(f"--set must be NAME=TEXT, got {text!r}")
        if name in found:
            raise ParameterError(f"--set must be given once for {name!r}")
        found[name] = value
    return found


class _File:
    """A plan file that is being read."""

    def __init__(self, name: str, folder: Path, given: dict[str, str]) -> None:
        self._name, self._folder, self._given = name, folder, given
        self._used: set[str] = set()

    def asked(self, found: Mapping[str, Any]) -> Asked:
        of_plan = list(inspect.signature(fastdp.Plan).parameters)
        of_table = [*of_plan, *_OF_FILES]
        own = {name: found[name] for name in _WHOLE if name in found}
        shared = {name: value for name, value in found.items() if name not in _WHOLE}
        for name in _SPENT:
            if name in shared:
                raise self._error(
                    name,
                    "must be given in each table: each table spends its "
                    "own, and the total is their sum",
                )
        for name in _OUTPUT:
            if name in shared:
                raise self._error(name, "must be given in each table")
        self._require_known("", shared, [*of_table, *_WHOLE])
        tables = own.get("tables")
        if not isinstance(tables, dict) or not tables:
            raise self._error("tables", "must have one table or more: [tables.NAME]")
        read = {}
        for name, words in tables.items():
            at = f"tables.{name}"
            if not isinstance(words, dict):
                raise self._error(at, f"must be a table: [{at}]")
            self._require_known(at, words, [*of_table, *_OUTPUT])
            read[name] = self._table(at, shared, words, of_plan)
        charge = self._charge(own)
        unused = self._given.keys() - self._used
        if unused:
            raise ParameterError(
                f"--set {min(unused)}=... must be used by {self._name}, as in "
                f'label = "stays/{{{min(unused)}}}"'
            )
        return Asked(read, *charge)

    def _charge(self, own: Mapping[str, Any]) -> tuple[str | None, list[str], Any]:
        given = [word in own for word in ("ledger", "budgets", "label")]
        if any(given) and not all(given):
            raise self._error("ledger", "budgets and label must be given together")
        if not any(given):
            return None, [], None
        budgets = own["budgets"]
        listed = budgets if isinstance(budgets, list) else [budgets]
        names = [self._text("budgets", name) for name in listed]
        return (
            self._path("ledger", own["ledger"]),
            names,
            self._text("label", own["label"]),
        )

    def _table(
        self,
        at: str,
        shared: Mapping[str, Any],
        words: Mapping[str, Any],
        of_plan: list[str],
    ) -> Table:
        both = {**shared, **words}
        for name in ("source", "output"):
            if name not in both:
                raise self._error(f"{at}.{name}", "must be given: the name of a file")
        grouped = bool(both.get("by"))
        form = both.get("source_format"), words.get("output_format")
        dialect = self._dialect(at if "csv" in words else "", both.get("csv"))
        asked = {name: both[name] for name in of_plan if name in both}
        asked["unit"] = self._unit(at, asked.get("unit"), grouped, "unit" in words)
        if not grouped and "keys" not in words:
            asked.pop("keys", None)
        source = self._place("source", both["source"], form[0]).spoken(dialect)
        keys = None
        if isinstance(asked.get("keys"), str):
            keys = self._place("keys", asked.pop("keys")).spoken(dialect)
        if "csv" in words:
            texts = [place.form.text for place in (source, keys) if place is not None]
            _dialects.require_text(dialect, texts, "source or keys")
        escape = both.get("escape_formulas", False)
        if not isinstance(escape, bool):
            raise self._error(f"{at}.escape_formulas", "must be true or false")
        output = self._place(f"{at}.output", both["output"], form[1])
        output.local("of a plan: all outputs are put in place together")
        if escape and not output.form.text:
            raise self._error(
                f"{at}.escape_formulas",
                "must be left out unless the output is CSV or TSV",
            )
        with naming(f"{self._name}: {at}"):
            level = float(_validate.open_unit("level", both.get("level", 0.95)))
        return Table(
            f"{self._name}: {at}",
            asked,
            keys,
            source,
            output,
            level,
            escape,
        )

    def _dialect(self, at: str, given: Any) -> _dialects.Dialect | None:
        """Return the dialect of text tables."""
        if given is None:
            return None
        key = f"{at}.csv" if at else "csv"
        if not isinstance(given, dict):
            raise self._error(key, 'must be a table, such as { encoding = "latin-1" }')
        self._require_known(key, given, list(_dialects.WORDS))
        return _dialects.dialect(given, f"{self._name}: {key}.{{}}")

    def _unit(self, at: str, unit: Any, grouped: bool, own: bool) -> Any:
        """Return a unit; the groups of a shared unit apply to tables with `by`."""
        if unit is None:
            raise self._error(
                f"{at}.unit",
                'must be given: unit = { column = "person", groups = 2, records = 5 } '
                "hides a person with all their records, and keeps at most 5 records in "
                "each of 2 groups; "
                'unit = "row" hides one row',
            )
        if unit == "row":
            return fastdp.Rows()
        key = f"{at}.unit" if own else "unit"
        if not isinstance(unit, dict):
            raise self._error(key, 'must be "row" or a table with column and records')
        if set(unit) == {"rows_are"}:
            with naming(f"{self._name}: {key}"):
                return fastdp.Rows(unit["rows_are"])
        self._require_known(key, unit, ["column", "records", "groups", "name"])
        if "column" not in unit:
            raise self._error(f"{key}.column", 'must be given, or rows_are = "person"')
        words = {n: x for n, x in unit.items() if n != "groups" or grouped or own}
        with naming(f"{self._name}: {key}"):
            return fastdp.Unit(**words)

    # ---- words -------------------------------------------------------------------

    def _require_known(self, at: str, given: Iterable[str], known: list[str]) -> None:
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                listed = near[0] if near else ", ".join(known)
                key = f"{at}.{name}" if at else name
                raise self._error(
                    key, f"is not an entry of a plan: did you mean {listed}?"
                )

    def _text(self, key: str, value: Any) -> str:
        """Return a text with each {NAME} replaced by its value from --set."""
        if not isinstance(value, str) or not value:
            raise self._error(key, f"must be a text, got {value!r}")
        for name in _NAMED.findall(value):
            if name not in self._given:
                raise self._error(key, f"contains {{{name}}}: give --set {name}=...")
            self._used.add(name)
        return _NAMED.sub(lambda found: self._given[found[1]], value)

    def _path(self, key: str, value: Any) -> str:
        """Return the name of a file; relative paths start at the plan's folder."""
        text = self._text(key, value)
        if text == _places.STANDARD:
            raise self._error(key, "must be a file")
        far = re.match(r"[A-Za-z][A-Za-z0-9+.:-]*://", text)
        return text if far else str(self._folder / text)

    def _place(self, key: str, value: Any, form: Any = None) -> _places.Place:
        if form is not None and form not in _places.FORMS:
            raise self._error(
                f"{key}_format", f"must be one of {', '.join(_places.FORMS)}"
            )
        return _places.table(f"{self._name}: {key}", self._path(key, value), form)

    def _error(self, key: str, rule: str) -> ParameterError:
        return ParameterError(f"{self._name}: {key} {rule}")


def require_alone(arguments: argparse.Namespace, usual: Mapping[str, Any]) -> None:
    """Refuse options with values in the file.

    Raises
    ------
    ParameterError
        An option is given that --plan does not allow.
    """
    beside = ("plan", "set", "dry_run", "sql", "check", "memory", "run", "command")
    for name, value in vars(arguments).items():
        if name not in beside and value != usual.get(name):
            option = {"input": "INPUT", "budgets": "--budget"}.get(
                name, f"--{name.replace('_', '-')}"
            )
            raise ParameterError(
                f"{option} must be left out with --plan: the plan's file states it"
            )


def asked_files(asked: Asked) -> tuple[list[_places.Place], list[_places.Place]]:
    """Return the written files and the read files."""
    written, read = [], _ledgered.files("ledger", asked.ledger)
    for table in asked.tables.values():
        written.append(table.output)
        if table.output.form.text and asked.ledger:
            written.append(table.output.beside(_ledgered.BESIDE))
        read += [table.input, *([] if table.keys is None else [table.keys])]
    return written, read
