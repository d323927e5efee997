"""The public choices of a private table, checked before a record is seen."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting.events import Event
from fastdp.accounting.events._composite import composed
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _tables
from fastdp.frames._engines import Engine
from fastdp.frames._recipe import HASHES, Recipe
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.running._count_tree import Tree
from fastdp.tables._noise import Budget, Noise
from fastdp.tables._parameters import (
    checked_bool,
    checked_bounds,
    checked_edges,
    checked_quantiles,
    count_of,
    listed_keys,
    quantile_name,
    require_few,
    spelled,
)
from fastdp.tables._quantiles import tree_of
from fastdp.tables._unit import Rows, Unit, check_unit, limits

#: Statistics of a column of numbers, in the order of the result.
STATISTICS = ("sum", "mean", "variance", "std")


class Choices:
    """All arguments of a `Plan`, with its totals and its cost."""

    @spelled("Plan")
    def __init__(
        self,
        *,
        unit: Unit | Rows | str | None = None,
        by: str | Iterable[str] = (),
        keys: Any = None,
        count: bool = False,
        units: bool = False,
        sum: str | Iterable[str] = (),
        mean: str | Iterable[str] = (),
        variance: str | Iterable[str] = (),
        std: str | Iterable[str] = (),
        median: str | Iterable[str] = (),
        quantiles: Mapping[str, Real | Sequence[Real]] | None = None,
        cells: int = 4096,
        histogram: Mapping[str, Sequence[Real]] | None = None,
        bounds: Mapping[str, tuple[Real, Real]] | None = None,
        epsilon: Real | None = None,
        rho: Real | None = None,
        delta: Real | None = None,
        hash: str = "engine",
    ) -> None:
        self._unit = check_unit(unit)
        self._by = _tables.columns_of("by", by)
        numbers = {"count": count, "units": units}
        self._counts = tuple(n for n, said in numbers.items() if checked_bool(n, said))
        given = zip(STATISTICS, (sum, mean, variance, std), strict=True)
        asked = {what: _tables.columns_of(what, names) for what, names in given}
        self._asked = {
            name: tuple(what for what in STATISTICS if name in asked[what])
            for name in dict.fromkeys(n for names in asked.values() for n in names)
        }
        self._quantiles = checked_quantiles(
            {} if quantiles is None else quantiles, _tables.columns_of("median", median)
        )
        self._cells = _validate.integer("cells", cells, 2, 2**20)
        self._targets = {
            quantile_name(name, q): (name, q)
            for name, listed in self._quantiles.items()
            for q in listed
        }
        self._edges = checked_edges({} if histogram is None else histogram)
        self._bins = {
            f"{name}_{low:.12g}_{high:.12g}": (f"h{j}", i)
            for j, (name, edges) in enumerate(self._edges.items())
            for i, (low, high) in enumerate(itertools.pairwise(edges))
        }
        if len(self._bins) < len([e for x in self._edges.values() for e in x[1:]]):
            raise ParameterError(
                "the edges of histogram must differ in their first 12 digits"
            )
        self._check_names()
        self._bounds = checked_bounds(bounds, self._bounds_of)
        if hash not in HASHES:
            raise ParameterError(f"hash must be one of {HASHES}, got {hash!r}")
        self._hash = hash
        if keys is not None and not self._by:
            raise ParameterError(
                "keys requires by: it lists the groups of these columns"
            )
        self._keys = None if keys is None else listed_keys(keys, self._by)
        unlisted = bool(self._by) and self._keys is None
        budget = Budget.of(epsilon, rho, delta, unlisted=unlisted)
        listed = None if self._keys is None else count_of(self._keys)
        self._kept = limits(self._unit, grouped=bool(self._by), listed=listed)
        self._gaussian = epsilon is None
        if self._quantiles:
            require_few(self._keys, self._nodes)
        self._noise = Noise(
            budget,
            self._kept,
            count="count" in self._counts,
            units="units" in self._counts,
            kinds=[self._kind(name) for name in self._asked],
            histograms=len(self._edges),
            trees=[self._levels for _ in self._quantiles],
        )

    def _check_names(self) -> None:
        if not self._numbers and not self._counts:
            raise ParameterError(
                "give at least one of count, units, sum, mean, variance, "
                "std, median, quantiles, histogram"
            )
        of_unit = [self._unit.column] if isinstance(self._unit, Unit) else []
        if not all(isinstance(name, str) for name in of_unit):
            raise DTypeError(
                "the unit of a Plan must have the name of a column: Unit(name, ...)"
            )
        read = [*self._by, *self._numbers, *of_unit]
        if len(set(read)) != len(read):
            raise ParameterError(
                "by, the unit's column and the columns of statistics must differ"
            )
        ends = [f"{name}_{end}" for name in self.columns for end in ("low", "high")]
        note = ["note"] if self._bounds_of else []
        shown = [*self._by, *self.columns, *ends, *note]
        if len(set(shown)) != len(shown):
            raise ParameterError(
                "columns of the result must differ: rename each column of by that has "
                "the name of a statistic"
            )

    def _kind(self, name: str) -> str:
        """Return the kind of a column's sums, for `Noise`."""
        asked = self._asked[name]
        if {"variance", "std"} & {*asked}:
            return "variance"
        return "mean" if "mean" in asked else "sum"

    # ---- what is public ----------------------------------------------------------

    @property
    def unit(self) -> Unit | Rows:
        """The unit that the guarantee hides."""
        return self._unit

    @property
    def by(self) -> tuple[str, ...]:
        """Columns of the groups."""
        return self._by

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of statistics, without the columns of interval ends."""
        found = list(self._counts)
        for name, asked in self._asked.items():
            found += [] if asked == ("sum",) else [f"{name}_n"]
            found += [f"{name}_{what}" for what in asked]
        return (*found, *self._targets, *self._bins)

    @property
    def _numbers(self) -> tuple[str, ...]:
        """Columns of numbers that are read."""
        return tuple(dict.fromkeys([*self._bounds_of, *self._edges]))

    @property
    def _bounds_of(self) -> tuple[str, ...]:
        """Columns of numbers that have bounds."""
        return tuple(dict.fromkeys([*self._asked, *self._quantiles]))

    def event(self) -> Event:
        """Return the event of one release."""
        return composed(self._noise.events())

    def mechanisms(self) -> dict[str, Mechanism]:
        """Return the noise of each sum, in steps, and "keys" if keys have a cost.

        A column NAME has "NAME_n", and "NAME_sum" and "NAME_squares" of its values,
        mapped to [-1, 1] by the bounds (divided by the larger bound if only the sum is
        released); "NAME_histogram" for all bins together; and "NAME_quantiles" for all
        nodes of its tree of counts.
        """
        words = {"n": "n", "s": "sum", "q": "squares"}
        words |= {"h": "histogram", "t": "quantiles"}
        columns = {"h": list(self._edges), "t": list(self._quantiles)}
        found: dict[str, Mechanism] = {}
        for total in self._noise.totals:
            name = total.name
            if name not in self._counts:
                listed = columns.get(name[0], list(self._asked))
                name = f"{listed[int(name[1:])]}_{words[name[0]]}"
            found[name] = total.law
        if self._noise.unlisted and self._noise.threshold is None:
            found["keys"] = self._noise.selection()
        return found

    def epsilon(self, *, delta: Real = 0) -> float:
        """Return an epsilon that a release meets at `delta`, rounded up."""
        from fastdp.accounting.guarantees import event_epsilon

        return event_epsilon(self.event(), delta)

    @property
    def _tree(self) -> Tree:
        """The tree over the cells of a column with quantiles."""
        return tree_of(self._cells, gaussian=self._gaussian)

    @property
    def _levels(self) -> int:
        """The number of noisy levels of a tree: all levels except the root."""
        return len(self._tree.nodes) - 1

    @property
    def _nodes(self) -> int:
        """Number of tree nodes of a group, over all columns with quantiles."""
        return sum(self._tree.nodes) * len(self._quantiles) if self._quantiles else 0

    @property
    def _needs_users(self) -> bool:
        """Whether the number of units of a group is released or selects the group."""
        return "units" in self._counts or (
            self._noise.unlisted and self._noise.threshold is None
        )

    def _recipe(self, engine: Engine) -> Recipe:
        """Check the columns of a source and return the group-by for it."""
        user = self._unit.column if isinstance(self._unit, Unit) else None
        text = engine.check(self._by, self._numbers, user)
        if self._hash == "sha256":  # it hashes texts; some times have no text
            engine.require_texts(self._by)
        if self._keys is not None:
            engine.list_keys(engine.keys_of(self._keys), self._by)
        kinds = [self._kind(name) for name in self._asked]
        return Recipe(
            source=engine.table,
            by=self._by,
            values=tuple(self._asked),
            bounds=tuple(self._bounds[name] for name in self._asked),
            user=user,
            groups=self._kept[0],
            records=self._kept[1],
            public=not self._noise.unlisted,
            bits=self._noise.bits,
            text=text,
            hash=self._hash,
            long=engine.texts(self._by) if self._noise.unlisted else frozenset(),
            squares=tuple(i for i, kind in enumerate(kinds) if kind == "variance"),
            alone=tuple(i for i, kind in enumerate(kinds) if kind == "sum"),
            edges=tuple(self._edges.items()),
            cells=tuple((n, self._bounds[n], self._cells) for n in self._quantiles),
            dialect=engine.dialect,
        )
