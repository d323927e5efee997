"""The group-by with bounded contributions, as SQL text made from public parameters.

Each record is rounded to integers before anything is summed. A salted hash chooses the
few groups of a user, and the few records in each, that are kept. Sums have 128 bits and
are clamped before they are cast. So no value raises or appears in an error, and the
parameters bound the effect of a user.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

#: Hash that chooses a user's groups and records: the engine's own, or SHA-256.
HASHES = ("engine", "sha256")

#: Sums are clamped here before they are cast to 64 bits.
MOST = 2**62

#: Ignore records whose key, if keys are not public, has more bytes of UTF-8 than this.
MOST_BYTES = 1024


@dataclass(frozen=True)
class Dialect:
    """The parts of SQL in which engines differ; `{}` stands for the arguments.

    Attributes
    ----------
    quote : str
        Quotation mark around names of columns.
    salt : str
        The parameter of the statement.
    bytes_of : str
        Number of bytes of a text in UTF-8.
    is_text : str
        Test that a text is UTF-8; empty if all texts of the engine are.
    own_hash, sha256 : str
        The two `HASHES`: the first takes several cells, the second one text.
    total : str
        A sum that can hold 2**63 integers of 64 bits.
    once : str
        Keyword that makes the engine evaluate a step only once; empty if not needed.
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
        """Return the quoted name of a column."""
        return f"{self.quote}{name.replace(self.quote, 2 * self.quote)}{self.quote}"


DUCKDB = Dialect(
    quote='"',
    salt="$salt",
    bytes_of="strlen({})",
    is_text="",
    # DuckDB's hash of several cells is not uniform; hashing it again makes it so.
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
        Name of the table in SQL.
    by, values : tuple of str
        Columns of keys (empty for one group of all records), and columns of numbers.
    bounds : tuple of pairs of float
        The bounds of each column of numbers.
    user : str or None
        The column of users; None if a row is a user.
    groups, records : int
        Maximum number of groups of a user, and of records in each.
    public : bool
        Whether the table "keys" lists the groups, each with its place.
    bits : int
        Numbers become multiples of 2**-bits of half the width of their bounds; a
        missing number becomes the integer `absent`, which is added to no sum.
    text : frozenset of str
        Columns that are compared as text, in any encoding.
    hash : str
        One of `HASHES`.
    long : frozenset of str
        Columns of keys that may hold more than `MOST_BYTES`: such records are left out.
    squares : tuple of int
        Places in `values` of the numbers with sums of squares.
    alone : tuple of int
        Places of the numbers for which only the sum is released. The sums are multiples
        of 2**-bits of the larger bound.
    edges : tuple of (str, tuple of float)
        Columns of numbers with counts of bins, and the bin edges.
    cells : tuple of (str, pair of float, int)
        Columns of numbers that are counted by cell, with bounds and the number of
        equal cells between them. Then each group and cell with a record has a row, too:
        `tree` is the place here (-1 in all other rows), `cell` is the cell's number and
        `n` is the number of records.
    dialect : Dialect
        The engine's dialect.
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
        # Both groupings read this step; it need be evaluated only once.
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
        """Return the parameters of the recipe without the source and the engine.

        A ledger compares them: an answer with other parameters is not reused.
        """
        asked = {**dataclasses.asdict(self), "source": None, "text": None}
        del asked["long"], asked["dialect"]  # depend on types and the engine alone
        for name in ("edges", "cells"):  # stored terms of older versions lack them
            if not asked[name]:
                del asked[name]
        return asked

    def survey(self, numbers: list[tuple[str, tuple[float, float]]]) -> str:
        """Return SQL that counts records left out, and numbers beyond their bounds.

        It is only for the owner of the records, like `survey_of_limits`.
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
        # Engines insert their sources before the first step, so there must be one.
        text = f"  select {_lines(['count(*) as records', *columns])}\n"
        text += f"  from {self.source} as source"
        return f"with facts as (\n{text})\nselect * from facts"

    def survey_of_limits(self, limits: Sequence[tuple[int, int]]) -> str:
        """Return SQL that counts the records kept under limits (groups, records)."""
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
        """The integer for a missing number; no number is rounded to it."""
        return -(1 << self.bits) - 1

    # ---- steps -------------------------------------------------------------------

    @property
    def _keys(self) -> str:
        return ", ".join(f"g{i}" for i in range(max(len(self.by), 1)))

    @property
    def _numbers(self) -> list[str]:
        """Columns computed from a record's numbers: integers, bins, and cells."""
        bins = [f"b{j}" for j in range(len(self.edges))]
        bins += [f"c{j}" for j in range(len(self.cells))]
        return [*(f"s{i}" for i in range(len(self.values))), *bins]

    @property
    def _sums(self) -> dict[str, str]:
        """SQL of the terms that a record adds, by the name of the sum."""
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
        """Return SQL of a record's term, 0 if number i is missing."""
        return f"case when s{i} <> {self.absent} then {number} else 0 end"

    def _records(self) -> tuple[str, str]:
        """Select the records with a group and a user; numbers may be missing."""
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
        """Return SQL of a number's bin, -1 outside the edges, for null and for NaN.

        Null is below no edge. Spark and DuckDB sort NaN above all numbers.
        """
        number = f"cast({self._column(name)} as double)"
        whens = [
            f"when {number} < {_double(edge)} then {place - 1}"
            for place, edge in enumerate(edges)
        ]
        whens.append(f"when {number} <= {_double(edges[-1])} then {len(edges) - 2}")
        return f"case {' '.join(whens)} else -1 end"

    def _cell_of(self, name: str, bounds: tuple[float, float], cells: int) -> str:
        """Return SQL of a number's cell, -1 if the number is missing.

        It uses the operations of `cells_of` in fastdp.tables: the doubles are the same.
        """
        (low, high), number = bounds, f"cast({self._column(name)} as double)"
        held = f"least(greatest({number}, {_double(low)}), {_double(high)})"
        scale = _double(cells_in_half(bounds, cells))
        # The difference of halves cannot overflow.
        place = f"floor(({held} * 0.5e0 - {_double(low / 2)}) * {scale})"
        return (
            f"case when {self._column(name)} is null or isnan({number}) then -1\n"
            f"      else cast(least({place}, {_double(cells - 1.0)}) as int) end"
        )

    def _integer(self, number: str, bounds: tuple[float, float], *, alone: bool) -> str:
        """Return SQL of floor(u 2**bits + 1/2), with the number mapped to u in [-1, 1].

        `alone`: u is the number divided by the larger bound.

        Only u itself is rounded: 2 u, its floor and half of an integer are exact.
        u is the difference from the center times a constant, as in our kernels: a
        product takes a quarter of a division's time. The integer is clamped at the end.
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
        """Keep at most `groups` groups of a user, and `records` records in each.

        Each choice has its own tags, so their order does not matter: the choice that
        drops the most comes first. If only counts are released, a user has one number
        for each group.
        """
        if not self._numbers:
            mine = (
                f"  select u, {self._keys}, least(count(*), {self.records}) as n\n"
                f"  from records group by u, {self._keys}"
            )
            return [("mine", mine), ("kept", self._chosen("mine"))]
        keys, listed = self._keys, ", ".join(self._numbers)
        tag = self._hash("record", ["u", *keys.split(", "), *self._numbers, "copy"])
        # Number equal records, so that each has its own tag.
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
        """Select all public keys, or all keys that occur for a private selection."""
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
        """Return SQL that counts the records of each group by cell."""
        place = ["0"] if self.public else []
        zeros = ["0"] * len(self._sums)
        return [
            f"select {', '.join([self._keys, *place, '0', 'count(*)', *zeros])}, "
            f"{j}, c{j}\nfrom {source} where c{j} >= 0 group by {self._keys}, c{j}"
            for j in range(len(self.cells))
        ]

    # ---- words -------------------------------------------------------------------

    def _column(self, name: str) -> str:
        """Return a qualified column of the source: steps may have the same name."""
        return f"source.{self.dialect.quoted(name)}"

    def _cell(self, name: str) -> str:
        cell = self._column(name)
        return _text(cell) if name in self.text else cell

    def _hash(self, what: str, parts: list[str]) -> str:
        """Return SQL that hashes the salt, the purpose, and a user's own cells."""
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
    """Return the number of cells in a unit, computed from half widths."""
    return cells / (bounds[1] / 2 - bounds[0] / 2)


def tag(salt: str, what: str, parts: list[object]) -> str:
    """Return the hash of a user's cells that `hash="sha256"` gives in any engine."""
    texts = [str(part) for part in parts]
    framed = "".join(f"{len(text.encode())}:{text}" for text in texts)
    return hashlib.sha256(f"{salt}{what}{framed}".encode()).hexdigest()


def _first(most: int, place: str, order: str, source: str) -> str:
    """Return SQL of the rows whose place in an order is at most `most`."""
    name = f"place_in_{source}"
    return (
        f"  select * from (select *, {place} over ({order}) as {name}\n"
        f"    from {source}) as placed\n  where {name} <= {most}"
    )


def _double(value: float) -> str:
    """Return a double as SQL that reads back the same bits."""
    return f"cast('{value!r}' as double)"


def _text(part: str) -> str:
    return f"cast({part} as string)"


def _clamped(total: str) -> str:
    return f"cast(least(greatest({total}, {-MOST}), {MOST}) as bigint)"


def _lines(parts: list[str], between: str = ", ") -> str:
    """Join parts, one on each line."""
    if between == ", ":
        return ",\n    ".join(parts)
    return f"\n    {between.strip()} ".join(parts)
