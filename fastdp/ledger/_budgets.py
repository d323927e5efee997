"""Budgets as rows: a filter as text, and its state as exact rationals."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fastdp._validate import float_up
from fastdp.accounting.events import (
    Event,
    NeighboringRelation,
    relation_of,
)
from fastdp.accounting.events._base import as_json, event_of
from fastdp.accounting.filters import (
    ApproximateFilter,
    DeclaredFilter,
    GDPFilter,
    PrivacyFilter,
    PureFilter,
    RDPFilter,
    ZCDPFilter,
    _Broken,
)
from fastdp.exceptions import (
    BudgetExceededError,
    DTypeError,
    LedgerError,
    ParameterError,
    UnsupportedEventError,
)
from fastdp.ledger._receipts import Receipt
from fastdp.ledger._terms import canonical, event_from

VERSION = 1

#: Total variation distance that all free second attempts may add to one budget.
RETRY_DISTANCE = Fraction(1, 2**30)

#: Names of the sums that a filter keeps.
_SUMS = {
    "PureFilter": ("epsilon",),
    "ZCDPFilter": ("rho",),
    "RDPFilter": ("divergence",),
    "GDPFilter": ("mu_squared",),
    "DeclaredFilter": ("events",),
    "ApproximateFilter": ("epsilon", "rho", "delta"),
}


@dataclass(frozen=True)
class BudgetState:
    """The limit of a budget and its spending; all numbers are exact.

    Attributes
    ----------
    name : str
        The budget's name.
    filter : str
        Class of the filter under `fastdp.accounting`.
    guarantee : dict
        The filter's parameters: the guarantee of all releases of the budget together.
    unit : str
        The privacy unit of the guarantee.
    neighboring_relation : NeighboringRelation or None
        The relation of all events; None before the first event if the filter leaves it
        open.
    group_size : int
        Number of units that the guarantee covers.
    block_of : str or None
        The data set of which the budget's units are a block.
    limit, spent : dict of str to Fraction
        The filter's sums. For an `ApproximateFilter`, delta and one of epsilon and rho
        must be within their limits.
    retry_distance : Fraction
        Total variation distance d that free second attempts have added; it adds (1 +
        exp(epsilon)) d to delta at every epsilon. 0 without crashes.
    entries : int
        Entries in the budget's chain.
    is_open : bool
        Whether the budget can still be charged; a forfeited budget cannot.
    """

    name: str
    filter: str
    guarantee: dict[str, Any]
    unit: str
    neighboring_relation: NeighboringRelation | None
    group_size: int
    block_of: str | None
    limit: dict[str, Fraction]
    spent: dict[str, Fraction]
    retry_distance: Fraction
    entries: int
    is_open: bool

    def __str__(self) -> str:
        """Return the spending and the limit, in rho once epsilon no longer adds up."""
        sums = [
            f"{name.replace('_', ' ')} {float(spent):.6g} of "
            f"{float(self.limit[name]):.6g}"
            for name, spent in self.spent.items()
        ]
        if self.filter == "ApproximateFilter":
            fits = self.spent["epsilon"] <= self.limit["epsilon"]
            return f"{sums[0] if fits else sums[1]}, {sums[2]}"
        return sums[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON types, with fractions as text."""
        relation = self.neighboring_relation
        return {
            "name": self.name,
            "filter": self.filter,
            "guarantee": self.guarantee,
            "unit": self.unit,
            "neighboring_relation": relation and relation.name,
            "group_size": self.group_size,
            "block_of": self.block_of,
            "limit": {name: str(value) for name, value in self.limit.items()},
            "spent": {name: str(value) for name, value in self.spent.items()},
            "used": self.used,
            "retry_distance": str(self.retry_distance),
            "entries": self.entries,
            "is_open": self.is_open,
        }

    @property
    def used(self) -> float:
        """Fraction of the budget that is spent, 0 to 1, rounded up."""

        def share(name: str) -> Fraction:
            spent, limit = self.spent[name], self.limit[name]
            if limit == 0:
                return Fraction(int(spent > 0))
            return spent / limit

        if self.filter == "ApproximateFilter":
            covered = min(share("epsilon"), share("rho"))
            return float_up(max(covered, share("delta")))
        return max(float_up(share(name)) for name in self.spent)


@dataclass(frozen=True)
class Budget:
    """A row of the table of budgets."""

    name: str
    rule: str
    unit: str
    block_of: str | None
    state: str
    seq: int
    head: bytes
    is_open: bool

    def receipt(self, uuid: str) -> Receipt:
        """Return the receipt of the last entry."""
        return Receipt(uuid, self.name, self.seq, self.head.hex())

    def charged(self, event: Event, count: int) -> str:
        """Return the state after `count` times `event`, as text.

        Raises
        ------
        BudgetExceededError, ParameterError, UnsupportedEventError
            The budget does not cover the event, or cannot price it.
        """
        self.require_open()
        admission, distance = _loaded(self.rule, self.state)
        relation = relation_of(event)
        if admission._relation not in (None, relation):
            raise ParameterError(
                f"the event's neighboring_relation must be that of budget "
                f"{self.name!r}, {admission._relation!r}, got {relation!r}"
            )
        if admission._group_size not in (None, event.group_size):
            raise ParameterError(
                f"the event's group_size must be that of budget {self.name!r}, "
                f"{admission._group_size}, got {event.group_size}"
            )
        try:
            after = admission._after(event, count)
        except UnsupportedEventError as error:
            raise UnsupportedEventError(
                f"budget {self.name!r} cannot hold the release: {error}; nothing was "
                "spent"
            ) from None
        if not admission._within(after):
            raise BudgetExceededError(
                f"budget {self.name!r} does not cover the release: "
                f"{admission._shortage(after)}; nothing was spent"
            )
        return _state_text(after, relation, event.group_size, distance)

    def require_open(self) -> None:
        """Refuse a closed budget."""
        if not self.is_open:
            raise BudgetExceededError(
                f"budget {self.name!r} is closed; nothing was spent"
            )

    def retried(self, distance: Fraction) -> str | None:
        """Return the state after a free second attempt; None if it must be charged."""
        state = json.loads(self.state)
        total = Fraction(state["retry_distance"]) + distance
        if total > RETRY_DISTANCE or not self.is_open:
            return None
        return canonical({**state, "retry_distance": str(total)})

    def to_state(self) -> BudgetState:
        """Return the state of the row for users."""
        rule, state = json.loads(self.rule), json.loads(self.state)
        admission, distance = _loaded(self.rule, self.state)
        names = _SUMS[rule["filter"]]
        relation = state["neighboring_relation"]
        return BudgetState(
            name=self.name,
            filter=rule["filter"],
            guarantee=rule["guarantee"],
            unit=self.unit,
            neighboring_relation=relation and NeighboringRelation[relation],
            group_size=state["group_size"] or 1,
            block_of=self.block_of,
            limit=dict(zip(names, _limits(admission), strict=True)),
            spent=dict(zip(names, map(Fraction, state["spent"]), strict=True)),
            retry_distance=distance,
            entries=self.seq + 1,
            is_open=self.is_open,
        )


def opened(name: str, admission: object, unit: str, block_of: str | None) -> Budget:
    """Return the row of a new budget."""
    if not isinstance(admission, PrivacyFilter):
        raise DTypeError(
            "filter must be a filter of fastdp.accounting such as ZCDPFilter, got "
            f"{type(admission).__name__}"
        )
    if type(admission).__name__ not in _SUMS:
        raise ParameterError(
            f"filter must be one of {', '.join(_SUMS)}, got {type(admission).__name__}"
        )
    if admission.statement().events:
        raise ParameterError("filter must be new, got one that has spent something")
    if block_of is not None and (
        admission._relation is not NeighboringRelation.ADD_OR_REMOVE_ONE
    ):
        raise ParameterError(
            "block_of must be left out unless the filter has neighboring_relation="
            "ADD_OR_REMOVE_ONE: a replaced record may move from one block to another, "
            "which neither block's budget covers"
        )
    rule = canonical(
        {
            "version": VERSION,
            "filter": type(admission).__name__,
            "guarantee": _guarantee(admission),
            "neighboring_relation": as_json(admission._relation),
        }
    )
    state = _state_text(admission._begin(), admission._relation, None, Fraction(0))
    return Budget(name, rule, unit, block_of, state, -1, bytes(32), True)


def _guarantee(admission: PrivacyFilter[Any]) -> dict[str, Any]:
    """Return the exact arguments that rebuild the filter."""
    match admission:
        case PureFilter():
            return {"epsilon": str(admission._limit)}
        case ZCDPFilter():
            return {"rho": str(admission._limit)}
        case RDPFilter():
            order = str(Fraction(admission._order))
            return {"order": order, "epsilon": str(admission._limit)}
        case GDPFilter():
            limit = admission._limit  # the square of an exact rational
            mu = Fraction(math.isqrt(limit.numerator), math.isqrt(limit.denominator))
            assert mu * mu == limit
            return {"mu": str(mu)}
        case ApproximateFilter():
            return {
                "epsilon": str(admission._epsilon),
                "delta": str(admission._delta + admission._slack),
                "slack": str(admission._slack),
            }
        case DeclaredFilter():
            return {
                "event": as_json(admission._declared),
                "events": str(admission._limit),
                "epsilon": str(admission._target[0]),
                "delta": str(admission._target[1]),
                "accountant": admission._accountant,
            }
    raise AssertionError(type(admission).__name__)


@functools.lru_cache(maxsize=256)
def _made(rule: str) -> PrivacyFilter[Any]:
    """Return the filter of a rule, with nothing spent."""
    found = json.loads(rule)
    name = found["filter"]
    if found["version"] != VERSION or name not in _SUMS:
        raise LedgerError(
            f"a budget's rule must have version {VERSION} and a known filter, got "
            f"{found['version']!r} and {name!r}"
        )
    relation = found["neighboring_relation"]
    relation = relation and NeighboringRelation[relation]
    given = found["guarantee"]
    if name == "DeclaredFilter":
        return DeclaredFilter._of(event_of(given["event"]), Fraction(given["events"]))
    numbers = {key: Fraction(value) for key, value in given.items()}
    kind: Any = {
        "PureFilter": PureFilter,
        "ZCDPFilter": ZCDPFilter,
        "RDPFilter": RDPFilter,
        "GDPFilter": GDPFilter,
        "ApproximateFilter": ApproximateFilter,
    }[name]
    made: PrivacyFilter[Any] = kind(**numbers, neighboring_relation=relation)
    return made


def _loaded(rule: str, state: str) -> tuple[PrivacyFilter[Any], Fraction]:
    """Return a new filter in the given state, and the state's distance."""
    model = _made(rule)
    found = json.loads(state)
    own = object.__new__(type(model))
    own.__dict__.update(model.__dict__)
    sums = [Fraction(part) for part in found["spent"]]
    own._state = _Broken(*sums) if isinstance(own, ApproximateFilter) else sums[0]
    relation = found["neighboring_relation"]
    own._relation = relation and NeighboringRelation[relation]
    own._group_size = found["group_size"]
    return own, Fraction(found["retry_distance"])


def _state_text(
    state: object,
    relation: NeighboringRelation | None,
    group_size: int | None,
    distance: Fraction,
) -> str:
    sums = [state]
    if isinstance(state, _Broken):
        sums = [state.epsilon, state.rho, state.delta]
    return canonical(
        {
            "spent": [str(part) for part in sums],
            "neighboring_relation": as_json(relation),
            "group_size": group_size,
            "retry_distance": str(distance),
        }
    )


def _limits(admission: PrivacyFilter[Any]) -> tuple[Fraction, ...]:
    if isinstance(admission, ApproximateFilter):
        return admission._epsilon, admission._rho, admission._delta
    limit: Fraction = admission._limit  # type: ignore[attr-defined]
    return (limit,)


class Fold:
    """Recomputes the states of one budget, entry by entry, by its filter."""

    def __init__(self, name: str, rule: str) -> None:
        self._name, self._rule = name, rule
        self.state = ""

    def step(self, what: str, terms: str | None, after: str) -> str:
        """Process one entry; return the problem with its state, or ""."""
        if what == "open":
            self._filter, self._distance = _loaded(self._rule, after)
        elif what in ("charge", "again"):
            event, count, names = event_from(terms or "")
            if self._name not in names:
                return "a charge names other budgets"
            own = self._filter
            own._state = own._after(event, count)
            own._relation, own._group_size = relation_of(event), event.group_size
            if not own._within(own._state):
                return "a charge exceeds the budget"
            expected = _state_text(
                own._state, own._relation, own._group_size, self._distance
            )
            if expected != after:
                return "a charge spent something else than its event costs"
        elif what == "retry":
            was, now = json.loads(self.state), json.loads(after)
            if {**was, "retry_distance": now["retry_distance"]} != now:
                return "a free attempt changed what was spent"
            self._distance = Fraction(now["retry_distance"])
        elif self.state != after:
            return f"an entry of kind {what!r} changed what was spent"
        self.state = after
        return ""
