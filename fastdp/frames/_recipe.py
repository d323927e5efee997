"""The one bounded group-by, as text: parameters in, SQL out.

Each record becomes integers before anything is added, each user keeps a few groups and
a few records in each by a salted hash, and sums are those of 128 bits, clamped before
they are cast: no value raises or shows, and a user moves what the parameters say.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

#: What chooses what a user keeps: the engine's own hash, or one that all engines have.
HASHES = ("engine", "sha256")

#: Sums are clamped here before they are cast to 64 bits.
MOST = 2**62

#: Bytes of UTF-8 of a key that is not public: a longer one is none.
MOST_BYTES = 1024


@dataclass(frozen=True)
class Dialect:
    """The words in which engines differ, with the place of what they are about.

    Attributes
    ----------
    quote : str
        What names of columns stand between.
    salt : str
        The parameter.
    bytes_of : str
        The length of a text's UTF-8.
    is_text : str
        Whether a text is UTF-8, where an engine has others; empty where not.
    own_hash, sha256 : str
        What `HASHES` are, of several cells and of a text.
    total : str
        A sum that holds 2**63 integers of 64 bits.
    once : str
        What has a step evaluated once, where an engine must be told.
    """

    quote: str
    salt: str
    bytes_of: str
    is_text: str
    own_hash: str
    sha256: str
    total: str
    once: str = ""

    def quoted(self, name: str) -> str:
        """Return a name of a column as this SQL knows it."""
        return f"{self.quote}{name.replace(self.quote, 2 * self.quote)}{self.quote}"


DUCKDB = Dialect(
    quote='"',
    salt="$salt",
    bytes_of="strlen({})",
    is_text="",
    # Of several cells DuckDB's hash is uneven; hashed again it is not.
    own_hash="hash(hash({}))",
    sha256="sha256({})",
    total="sum({})",
    once="materialized ",
)

SPARK = Dialect(
    quote="`",
    salt=":salt",
    bytes_of="octet_length({})",
    is_text="is_valid_utf8({})",
    own_hash="xxhash64({})",
    sha256="sha2({}, 256)",
    total="sum(cast({} as decimal(38, 0)))",
)


@dataclass(frozen=True)
class Recipe:
    """The public parameters of the group-by.

    Attributes
    ----------
    source : str
        The table, as SQL names it.
    by, values : tuple of str
        Columns of keys, none for one group of all records; and columns of numbers.
    bounds : tuple of pairs of float
        Of each column of numbers.
    user : str or None
        The column of users; None where a row is one.
    groups, records : int
        How many groups a user keeps, and records in each.
    public : bool
        Whether the table "keys" lists the groups, each with its place.
    bits : int
        Numbers become multiples of 2**-bits of half the width of their bounds; one that
        is missing becomes the integer `absent`, which is added to nothing.
    text : frozenset of str
        Columns that are compared as text, whatever they are encoded by.
    hash : str
        One of `HASHES`.
    long : frozenset of str
        Columns of keys that may hold more than `MOST_BYTES`: such records are left out.
    squares : tuple of int
        Places in `values` of the numbers whose squares are summed as well.
    alone : tuple of int
        Places of the numbers of which the sum alone is released: multiples of 2**-bits
        of the larger bound.
    edges : tuple of (str, tuple of float)
        Columns of numbers whose bins are counted, with the edges of these.
    cells : tuple of (str, pair of float, int)
        Columns of numbers that are counted by cell, with bounds and so many equal cells
        between them. Then there is also a row for each group and cell with a record:
        `tree` is the place here, -1 of all other rows, `cell` the cell's, `n` how many.
    dialect : Dialect
        The engine's.
    """

    source: str
    by: tuple[str, ...]
    values: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    user: str | None
    groups: int
    records: int
    public: bool
    bits: int
    text: frozenset[str]
    hash: str
    long: frozenset[str] = frozenset()
    squares: tuple[int, ...] = ()
    alone: tuple[int, ...] = ()
    edges: tuple[tuple[str, tuple[float, ...]], ...] = ()
    cells: tuple[tuple[str, tuple[float, float], int], ...] = ()
    dialect: Dialect = DUCKDB

    def sql(self) -> str:
        """Return the group-by; the salt is its one parameter."""
        steps = [] if self.by else [("keys", "  select 0 as g0, 0 as place")]
        # Both groupings read it, and one evaluation is enough.
        once = self.dialect.once if self.cells else ""
        steps.append(self._records())
        if self.user is None:
            steps.append(("totals", self._totals("records", "count(*)", self._sums)))
        else:
            steps += self._kept()
            kept = {name: name for name in self._sums}
            steps.append(("totals", self._totals("kept", "sum(n)", kept)))
        grouped = "records" if self.user is None else "drawn"
        body = ",\n".join(
            f"{name} as {once if name == grouped else ''}(\n{text})"
            for name, text in steps
        )
        rows = [self._shown(), *self._cells(grouped)]
        return f"with {body}\n" + "\nunion all\n".join(rows)

    def facts(self) -> dict[str, object]:
        """Return what is asked, wherever the table lies: the same for equals.

        A ledger compares it: an answer for rows is none for users.
        """
        asked = {**dataclasses.asdict(self), "source": None, "text": None}
        del asked["long"], asked["dialect"]  # matters of types, and of the engine
        for name in ("edges", "cells"):  # terms without them are as they were
            if not asked[name]:
                del asked[name]
        return asked

    def survey(self, numbers: list[tuple[str, tuple[float, float]]]) -> str:
        """Return what counts records that are left out, and numbers beyond their ends.

        For the owner of the records alone, as is `survey_of_limits`.
        """
        user = "false"
        if self.user is not None:
            user = f"{self._column(self.user)} is null"
        group = " or ".join(f"{self._column(name)} is null" for name in self.by)
        counted = {
            "no_unit": user,
            "no_group": f"not ({user}) and ({group or 'false'})",
        }
        for i, (name, (low, high)) in enumerate(numbers):
            number = f"cast({self._column(name)} as double)"
            counted[f"missing_{i}"] = f"{self._column(name)} is null or isnan({number})"
            counted[f"below_{i}"] = f"{number} < {_double(low)}"
            counted[f"above_{i}"] = (
                f"{number} > {_double(high)} and not isnan({number})"
            )
        columns = [
            f"sum(case when {what} then 1 else 0 end) as {name}"
            for name, what in counted.items()
        ]
        # Within a step, as engines name their sources in front of the first one.
        text = f"  select {_lines(['count(*) as records', *columns])}\n"
        text += f"  from {self.source} as source"
        return f"with facts as (\n{text})\nselect * from facts"

    def survey_of_limits(self, limits: Sequence[tuple[int, int]]) -> str:
        """Return what counts the records that limits (groups, records) leave."""
        _, records = self._records()
        first = f"with records as (\n{records})"
        if self.user is None:
            return f"{first}\nselect count(*) as counted from records"
        kept = [
            f"sum(least(n, {r}) * least(m, {k}) / cast(m as double)) as kept_{i}"
            for i, (k, r) in enumerate(limits)
        ]
        return (
            f"{first},\nmine as (\n  select u, {self._keys}, "
            f"count(*) as n from records group by u, {self._keys}),\nspread as (\n"
            "  select n, count(*) over (partition by u) as m from mine)\n"
            f"select {_lines(['sum(n) as counted', *kept])}\nfrom spread"
        )

    @property
    def absent(self) -> int:
        """What stands for a number that is missing: no number becomes it."""
        return -(1 << self.bits) - 1

    # ---- steps -------------------------------------------------------------------

    @property
    def _keys(self) -> str:
        return ", ".join(f"g{i}" for i in range(max(len(self.by), 1)))

    @property
    def _numbers(self) -> list[str]:
        """What is made of a record's numbers: integers, places of bins, and cells."""
        bins = [f"b{j}" for j in range(len(self.edges))]
        bins += [f"c{j}" for j in range(len(self.cells))]
        return [*(f"s{i}" for i in range(len(self.values))), *bins]

    @property
    def _sums(self) -> dict[str, str]:
        """What is summed of a record, by the name of its sum."""
        one = 2**self.bits
        found = {f"n{i}": self._present(i, "1") for i in range(len(self.values))}
        found |= {f"s{i}": self._present(i, f"s{i}") for i in range(len(self.values))}
        for i in self.squares:
            square = f"((s{i} * s{i} + {one // 2}) >> {self.bits}) - {one // 2}"
            found[f"q{i}"] = self._present(i, square)
        for j, (_, edges) in enumerate(self.edges):
            for i in range(len(edges) - 1):
                found[f"h{j}_{i}"] = f"case when b{j} = {i} then 1 else 0 end"
        return found

    def _present(self, i: int, number: str) -> str:
        """Return what a record adds whose number may be missing."""
        return f"case when s{i} <> {self.absent} then {number} else 0 end"

    def _records(self) -> tuple[str, str]:
        """Take the records that have a group and a user; a number may be missing."""
        columns = [f"{self._cell(name)} as g{i}" for i, name in enumerate(self.by)]
        columns = columns or ["0 as g0"]
        whole = [f"{self._column(name)} is not null" for name in self.by]
        for cell in (self._cell(name) for name in self.by if name in self.long):
            whole.append(f"{self.dialect.bytes_of.format(cell)} <= {MOST_BYTES}")
            if self.dialect.is_text:
                whole.append(self.dialect.is_text.format(cell))
        if self.user is not None:
            columns.insert(0, f"{self._cell(self.user)} as u")
            whole.insert(0, f"{self._column(self.user)} is not null")
        for i, name in enumerate(self.values):
            number = f"cast({self._column(name)} as double)"
            integer = self._integer(number, self.bounds[i], alone=i in self.alone)
            columns.append(
                f"case when {self._column(name)} is null or isnan({number}) "
                f"then cast({self.absent} as bigint)\n      else {integer} end as s{i}"
            )
        for j, (name, edges) in enumerate(self.edges):
            columns.append(f"{self._bin(name, edges)} as b{j}")
        for j, (name, bounds, cells) in enumerate(self.cells):
            columns.append(f"{self._cell_of(name, bounds, cells)} as c{j}")
        named = ""
        if self.public and self.by:
            same = [f"{self._cell(n)} = keys.g{i}" for i, n in enumerate(self.by)]
            named = f"  semi join keys on {_lines(same, ' and ')}\n"
        text = (
            f"  select {_lines(columns)}\n  from {self.source} as source\n{named}"
            f"  where {_lines(whole or ['true'], ' and ')}"
        )
        return "records", text

    def _bin(self, name: str, edges: tuple[float, ...]) -> str:
        """Return the place of a number's bin, -1 outside: null and NaN are below none.

        Spark and DuckDB have NaN above all numbers.
        """
        number = f"cast({self._column(name)} as double)"
        whens = [
            f"when {number} < {_double(edge)} then {place - 1}"
            for place, edge in enumerate(edges)
        ]
        whens.append(f"when {number} <= {_double(edges[-1])} then {len(edges) - 2}")
        return f"case {' '.join(whens)} else -1 end"

    def _cell_of(self, name: str, bounds: tuple[float, float], cells: int) -> str:
        """Return the place of a number's cell, -1 of one that is missing.

        By the operations of `cells_of` of tables, double for double.
        """
        (low, high), number = bounds, f"cast({self._column(name)} as double)"
        held = f"least(greatest({number}, {_double(low)}), {_double(high)})"
        scale = _double(cells_in_half(bounds, cells))
        # A difference of halves has no overflow.
        place = f"floor(({held} * 0.5e0 - {_double(low / 2)}) * {scale})"
        return (
            f"case when {self._column(name)} is null or isnan({number}) then -1\n"
            f"      else cast(least({place}, {_double(cells - 1.0)}) as int) end"
        )

    def _integer(self, number: str, bounds: tuple[float, float], *, alone: bool) -> str:
        """Return floor(u 2**bits + 1/2), u the place between the bounds in [-1, 1].

        `alone`: u is the number over the larger bound.

        Exact but for u itself: 2 u, its floor and half of an integer are no roundings.
        u is the difference times a constant, as our kernels have it: a product takes a
        quarter of a division's time, and the integer is held to its bounds after both.
        """
        low, high = bounds
        half = max(-low, high) if alone else high / 2 - low / 2
        center = 0.0 if alone else low + half
        held = f"least(greatest({number}, {_double(low)}), {_double(high)})"
        unit = f"({held} - {_double(center)}) * {_double(1 / half)}"
        twice = f"floor({unit} * {_double(2.0 ** (self.bits + 1))})"
        most = 2.0**self.bits
        return (
            f"cast(least(greatest(floor(({twice} + 1) / 2), {_double(-most)}), "
            f"{_double(most)}) as bigint)"
        )

    def _kept(self) -> list[tuple[str, str]]:
        """Keep so many groups of a user at most, and so many records in each.

        Both choices are by tags of their own, so that their order is no matter: what
        leaves the most out comes first. Counts alone are one number a user and group.
        """
        if not self._numbers:
            mine = (
                f"  select u, {self._keys}, least(count(*), {self.records}) as n\n"
                f"  from records group by u, {self._keys}"
            )
            return [("mine", mine), ("kept", self._chosen("mine"))]
        keys, listed = self._keys, ", ".join(self._numbers)
        tag = self._hash("record", ["u", *keys.split(", "), *self._numbers, "copy"])
        # Equal records are told apart by a number, so that each has its own tag.
        numbered = (
            f"  select *, row_number() over (partition by u, {keys}, {listed}\n"
            "    order by 1) as copy\n  from chosen"
        )
        order = f"partition by u, {keys}\n    order by {tag}, {listed}, copy"
        drawn = _first(self.records, "row_number()", order, "numbered")
        total = self.dialect.total
        sums = ", ".join(
            f"{total.format(of)} as {name}" for name, of in self._sums.items()
        )
        kept = (
            f"  select u, {keys}, count(*) as n, {sums}\n"
            f"  from drawn group by u, {keys}"
        )
        return [
            ("chosen", self._chosen("records")),
            ("numbered", numbered),
            ("drawn", drawn),
            ("kept", kept),
        ]

    def _chosen(self, source: str) -> str:
        tag = self._hash("group", ["u", *self._keys.split(", ")])
        order = f"partition by u\n    order by {tag}, {self._keys}"
        return _first(self.groups, "dense_rank()", order, source)

    def _totals(self, source: str, count: str, sums: dict[str, str]) -> str:
        columns = [self._keys, "count(*) as users", f"{_clamped(count)} as n"]
        total = self.dialect.total
        columns += [f"{_clamped(total.format(of))} as {n}" for n, of in sums.items()]
        return f"  select {_lines(columns)}\n  from {source} group by {self._keys}"

    def _shown(self) -> str:
        """Show all public keys, or those that occur: these go to a selection."""
        names = ["users", "n", *self._sums]
        last = ", -1 as tree, -1 as cell" if self.cells else ""
        if not self.public:
            return f"select {self._keys}, {', '.join(names)}{last} from totals"
        filled = ", ".join(f"coalesce({name}, 0) as {name}" for name in names)
        return (
            f"select {self._keys}, place, {filled}{last}\n"
            f"from keys left join totals using ({self._keys})"
        )

    def _cells(self, source: str) -> list[str]:
        """Return what counts the records of each group by cell."""
        place = ["0"] if self.public else []
        zeros = ["0"] * len(self._sums)
        return [
            f"select {', '.join([self._keys, *place, '0', 'count(*)', *zeros])}, "
            f"{j}, c{j}\nfrom {source} where c{j} >= 0 group by {self._keys}, c{j}"
            for j in range(len(self.cells))
        ]

    # ---- words -------------------------------------------------------------------

    def _column(self, name: str) -> str:
        """Return a column of the source, whatever else is called like it."""
        return f"source.{self.dialect.quoted(name)}"

    def _cell(self, name: str) -> str:
        cell = self._column(name)
        return _text(cell) if name in self.text else cell

    def _hash(self, what: str, parts: list[str]) -> str:
        """Return a hash of the salt, what is chosen, and a user's own cells."""
        words = self.dialect
        first = f"{words.salt}, '{what}'"
        if self.hash == "engine":
            return words.own_hash.format(f"{first}, {', '.join(parts)}")
        lengths = [_text(words.bytes_of.format(_text(part))) for part in parts]
        framed = [
            f"{n}, ':', {_text(part)}" for n, part in zip(lengths, parts, strict=True)
        ]
        return words.sha256.format(f"concat({first}, {', '.join(framed)})")


def cells_in_half(bounds: tuple[float, float], cells: int) -> float:
    """Return how many cells are as wide as a half of the width of the bounds."""
    return cells / (bounds[1] / 2 - bounds[0] / 2)


def tag(salt: str, what: str, parts: list[object]) -> str:
    """Return what `hash="sha256"` gives for a user's cells, as any engine can."""
    texts = [str(part) for part in parts]
    framed = "".join(f"{len(text.encode())}:{text}" for text in texts)
    return hashlib.sha256(f"{salt}{what}{framed}".encode()).hexdigest()


def _first(most: int, place: str, order: str, source: str) -> str:
    """Return the rows whose place in an order is at most `most`."""
    name = f"place_in_{source}"
    return (
        f"  select * from (select *, {place} over ({order}) as {name}\n"
        f"    from {source}) as placed\n  where {name} <= {most}"
    )


def _double(value: float) -> str:
    """Return a double as SQL reads it, to the last bit."""
    return f"cast('{value!r}' as double)"


def _text(part: str) -> str:
    return f"cast({part} as string)"


def _clamped(total: str) -> str:
    return f"cast(least(greatest({total}, {-MOST}), {MOST}) as bigint)"


def _lines(parts: list[str], between: str = ", ") -> str:
    """Return parts, a line each."""
    if between == ", ":
        return ",\n    ".join(parts)
    return f"\n    {between.strip()} ".join(parts)
