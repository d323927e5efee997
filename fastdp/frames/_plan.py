"""What a table of groups is made by: checked parameters, noise, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdp import _validate, calibration
from fastdp.accounting.events import Event, l2_sensitivity
from fastdp.accounting.events._composite import composed
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.frames import _tables
from fastdp.frames._engines import Engine
from fastdp.frames._recipe import HASHES, MOST, Recipe
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms._groups import Budget, Groups, Question, Users
from fastdp.mechanisms._moments_release import MomentsRelease
from fastdp.mechanisms._moments_shape import grid_bits
from fastdp.mechanisms.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.moments import Moments, check_bounds

if TYPE_CHECKING:
    import pyarrow as pa

_Array = np.ndarray[Any, Any]

#: What a column of numbers is released as.
_STATISTICS = ("mean", "sum", "variance")


class Plan:
    """The checked parameters, and the mechanisms that follow from them."""

    def __init__(
        self,
        asked: dict[str, Any],
        by: Any,
        count: Any,
        bounds: Any,
        keys: Any,
        user: Any,
        hash: Any,
        *,
        budget: Budget,
        kept: tuple[int | None, int | None],
    ) -> None:
        self.by = _tables.columns_of("by", by)
        self.count = _checked_bool("count", count)
        self.asked = {
            what: _tables.columns_of(what, asked[what]) for what in _STATISTICS
        }
        self.values = tuple(
            dict.fromkeys(name for names in self.asked.values() for name in names)
        )
        self.squares = tuple(
            i for i, name in enumerate(self.values) if name in self.asked["variance"]
        )
        if not self.by:
            raise ParameterError("by must name at least one column")
        if not self.values and not self.count:
            raise ParameterError("give at least one of count, mean, sum, variance")
        if user is not None and not isinstance(user, str):
            raise DTypeError(f"user must be a column's name, got {type(user).__name__}")
        several = [*self.by, *self.values, *([] if user is None else [user])]
        self.read_columns = several
        if len(set(several)) != len(several):
            raise ParameterError("by, user and the columns of statistics must differ")
        shown = [*self.by, *self.columns]
        if len(set(shown)) != len(shown):
            raise ParameterError(
                "columns of the result must differ: rename each column of by that has "
                "the name of a statistic"
            )
        self.bounds = _checked_bounds(bounds, self.values)
        if hash not in HASHES:
            raise ParameterError(f"hash must be one of {HASHES}, got {hash!r}")
        self.user, self.hash = user, hash
        self.public = keys is not None
        self.keys = None if keys is None else _tables.read("keys", keys, self.by)
        listed = None if self.keys is None else list(range(self.keys.num_rows))
        self.question = Question(
            budget, Groups("", listed, *kept), Users(user, None), 0.95, None
        )
        self._set_noise(budget if self.public else budget.halved())

    @property
    def columns(self) -> list[str]:
        """Names of what is released, beside the keys."""
        statistics = [
            f"{name}_{what}"
            for name in self.values
            for what in _STATISTICS
            if name in self.asked[what]
        ]
        return [*(["count"] if self.count else []), *statistics]

    # ---- noise -------------------------------------------------------------------

    def _set_noise(self, budget: Budget) -> None:
        """Make the law of all columns, moved by k r, and of squares, by half of it."""
        k, r = self.question.groups, self.question.records
        columns, squares = 1 + len(self.values), len(self.squares)
        amount = _validate.least_reading(budget.amount)
        parameter: Fraction
        if budget.by_epsilon:
            moved = k * r * (columns + Fraction(squares, 2))
            parameter = moved / _validate.positive("epsilon", amount)
        else:
            square = k * r**2 * (columns + Fraction(squares, 4))
            sigma = calibration.gaussian_sigma_from_rho(
                rho=_validate.positive("rho", amount),
                sensitivity=l2_sensitivity(square),
            )
            parameter = Fraction(sigma)
        self.parameter, self.laplace = parameter, budget.by_epsilon
        # Counts alone have integer noise.
        self.bits = grid_bits(parameter) if self.values else 0
        self.law = self._law(2**self.bits)
        self.square_law = self._law(2**self.bits // 2) if squares else None

    def _law(self, most: int) -> DiscreteLaplace | DiscreteGaussian:
        """Return the noise of a column of which a record is `most` steps at most."""
        k, r = self.question.groups, self.question.records
        steps = self.parameter * 2**self.bits
        if self.laplace:
            return DiscreteLaplace(steps, sensitivity=k * r * most)
        moved = l2_sensitivity(Fraction(k * (r * most) ** 2))
        return DiscreteGaussian(steps, sensitivity=moved)

    def _laws(self) -> list[DiscreteLaplace | DiscreteGaussian]:
        """Return the law of the count, of each column, and of each sum of squares."""
        squares = [self.square_law] if self.square_law else []
        return [self.law] * (1 + len(self.values)) + squares * len(self.squares)

    def event(self) -> Event:
        """Return what the release costs."""
        events: list[Event] = [law.event() for law in self._laws()]
        if not self.public:
            events.append(self.question.selection().event())
        return composed(events)

    def mechanisms(self) -> dict[str, Mechanism]:
        """Return the mechanisms by what they are for."""
        found: dict[str, Mechanism] = {"noise": self.law}
        if self.square_law is not None:
            found["squares"] = self.square_law
        return found if self.public else {**found, "keys": self.question.selection()}

    def shares(self) -> dict[str, float] | None:
        """Return what each part costs, where the budget was split."""
        if self.public:
            return None
        half = float(_validate.exact("budget", self.question.budget.halved().amount))
        return {"keys": half, "statistics": half}

    def moments(self, name: str, groups: int) -> Moments:
        """Return the mechanism of such rows that has this law, for what it reads."""
        return Moments(
            scale=self.parameter if self.laplace else None,
            sigma=None if self.laplace else self.parameter,
            bounds=self.bounds[name],
            moments=2 if name in self.asked["variance"] else 1,
            groups=max(groups, 1),
        )

    # ---- data --------------------------------------------------------------------

    def recipe(self, engine: Engine) -> Recipe:
        """Return the group-by for a source; its columns are checked."""
        text = engine.check(self.by, self.values, self.user)
        if self.hash == "sha256":  # of texts: a time beyond its day has none
            engine.require_texts(self.by)
        if self.keys is not None:
            engine.list_keys(self.keys, self.by)
        return Recipe(
            source=engine.table,
            by=self.by,
            values=self.values,
            bounds=tuple(self.bounds[name] for name in self.values),
            user=self.user,
            groups=self.question.groups,
            records=self.question.records,
            public=self.public,
            bits=self.bits,
            text=text,
            hash=self.hash,
            long=frozenset() if self.public else engine.texts(self.by),
            squares=self.squares,
            dialect=engine.dialect,
        )

    def named(self, exact: pa.Table) -> pa.Table:
        """Return the group-by's table with the names of the keys, sorted by them."""
        rest = exact.column_names[len(self.by) :]
        own = [f"{i}" for i in range(len(rest))]  # no name of a key is its place here
        names = [f"k{i}" for i in range(len(self.by))]
        renamed = _tables.with_text(exact, "large_string").rename_columns(names + own)
        return _tables.in_order(renamed, names)

    def cells(
        self, exact: pa.Table
    ) -> tuple[pa.Table, dict[str, tuple[Any, _Array]], _Array]:
        """Return keys, private totals with their law, and users of each key."""
        keys = exact.select([f"k{i}" for i in range(len(self.by))])
        rest = [
            column.to_numpy().astype(np.int64)
            for column in exact.columns[len(self.by) :]
        ]
        users, records, *sums = rest
        held = np.minimum(records, MOST >> self.bits) << self.bits
        names = ["n", *(f"s{i}" for i in range(len(self.values)))]
        names += [f"q{i}" for i in self.squares]
        cells = {
            f"{self._free(name)}": (law, values)
            for name, law, values in zip(
                names, self._laws(), [held, *sums], strict=True
            )
        }
        return keys.rename_columns(list(self.by)), cells, users

    def _free(self, name: str) -> str:
        """Return a name of a total that is none of a key."""
        while name in self.by:
            name += "_"
        return name

    def drawn(
        self, keys: pa.Table, cells: Mapping[str, Any], users: _Array, stream: Any
    ) -> tuple[pa.Table, list[_Array]]:
        """Return the keys to show and their noisy totals."""
        if not self.public:
            mask = self.question.selection().select(users, stream=stream)
            keys = keys.filter(_tables.arrow().array(mask))
            cells = {name: (m, x[mask]) for name, (m, x) in cells.items()}
        return keys, [m.release(x, stream=stream) for m, x in cells.values()]

    def read(self, schema: Any, value: Mapping[str, _Array]) -> Any:
        """Return keys and noisy totals as a ledger has stored them."""
        keys = {
            name: _tables.unpacked(value[name], schema.field(name).type)
            for name in self.by
        }
        noisy = [found for name, found in value.items() if name not in keys]
        return _tables.arrow().table(keys), noisy


class Released:
    """Noisy totals of the groups, and all that follows from them."""

    def __init__(self, plan: Plan, noisy: list[_Array]) -> None:
        self._plan = plan
        sums = np.array(noisy, np.float64) / 2.0**plan.bits
        self._count: _Array = np.rint(sums[0]).astype(np.int64)
        self._read = {}
        for i, name in enumerate(plan.values):
            rows = [0, 1 + i]
            if i in plan.squares:
                rows.append(1 + len(plan.values) + plan.squares.index(i))
            moments = plan.moments(name, len(self._count))
            self._read[name] = MomentsRelease(moments, sums[rows])

    def joined(self, keys: pa.Table) -> pa.Table:
        """Return the keys with the released columns."""
        return _tables.joined(keys, {c: self._value(c) for c in self._plan.columns})

    def _value(self, column: str) -> _Array:
        if column == "count":
            return self._count
        name, _, what = column.rpartition("_")
        return np.asarray(getattr(self._read[name], what))

    def interval(self, column: str, level: float) -> tuple[_Array, _Array]:
        if column not in self._plan.columns:
            raise ParameterError(
                f"column must be one of {self._plan.columns}, got {column!r}"
            )
        if column != "count":
            name, _, what = column.rpartition("_")
            ends: tuple[_Array, _Array]
            ends = getattr(self._read[name], f"{what}_interval")(level)
            return ends
        below, above = self._plan.law.confidence_interval(level)
        # Rounded from a finer grid: half a record more.
        edge = 0.5 if self._plan.bits else 0.0
        low = np.maximum(self._count - above / 2**self._plan.bits - edge, 0)
        return low, self._count - below / 2**self._plan.bits + edge


# ---- parameters ------------------------------------------------------------------


def _checked_bool(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise DTypeError(f"{name} must be a bool, got {type(value).__name__}")
    return value


def _checked_bounds(
    bounds: Any, values: tuple[str, ...]
) -> dict[str, tuple[float, float]]:
    given = {} if bounds is None else bounds
    if not isinstance(given, Mapping):
        raise DTypeError("bounds must be a dict of (low, high) by column")
    for name in values:
        if name not in given:
            raise ParameterError(
                f"bounds must be given for {name!r}: public numbers, chosen without "
                "the data"
            )
    for name in given:
        if name not in values:
            raise ParameterError(f"bounds are of a column of a statistic, not {name!r}")
    return {name: check_bounds(given[name]) for name in values}
