"""Whose records stay, and in which groups: what every first line asks before its noise.

All that is asked is public and checked before a row is read; what is found is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fastdp import _validate
from fastdp._doorway import one_index
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    NeighboringRelation,
    Relation,
    as_relation,
    l2_sensitivity,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms._keys import distinct, key_column, kind_of_keys
from fastdp.mechanisms.contributions import bound_contributions
from fastdp.mechanisms.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.key_selection import KeySelection
from fastdp.mechanisms.unknown_histogram import UnknownHistogram

_A = NeighboringRelation.ADD_OR_REMOVE_ONE

#: Part of delta that keys get where a statistic is released beside them.
_ROOM = 1 - Fraction(1, 2**30)

_Array = np.ndarray[Any, Any]


class Budget(NamedTuple):
    """What a release may cost; delta for keys that nobody listed."""

    epsilon: Real | None
    rho: Real | None
    delta: Real | None

    @property
    def by_epsilon(self) -> bool:
        """Whether the noise is Laplace's."""
        return self.epsilon is not None

    @property
    def amount(self) -> Real:
        """Epsilon or rho, whichever was given."""
        return self.rho if self.epsilon is None else self.epsilon  # type: ignore[return-value]

    def halved(self) -> Budget:
        """Return what is left for a statistic after as much for its keys."""
        name = "epsilon" if self.by_epsilon else "rho"
        half = _validate.positive(name, _validate.least_reading(self.amount)) / 2
        return self._replace(**{name: half}, delta=None)


class Groups(NamedTuple):
    """The column of groups, which of them are public, and how many a user is in."""

    by: Any
    keys: Any
    groups_per_user: int | None
    records_per_group: int | None


class Users(NamedTuple):
    """The column of users, and how many records one has without groups."""

    user: Any
    records_per_user: int | None


@dataclass(frozen=True)
class Records:
    """Which records stay and their groups: private."""

    index: _Array
    group: _Array
    keys: _Array  # the groups that occur, sorted, or those that are public
    users: _Array  # of each record, a number

    def counts(self) -> _Array:
        """Return the number of records of each group."""
        return np.bincount(self.group, minlength=len(self.keys)).astype(np.int64)

    def users_per_key(self) -> _Array:
        """Return the number of users of each group."""
        pairs = np.unique(np.stack([self.group, self.users]), axis=1)[0]
        return np.bincount(pairs, minlength=len(self.keys)).astype(np.int64)

    def of(self, shown: _Array) -> Records:
        """Return the records of the groups that are shown."""
        place = np.where(shown, np.cumsum(shown) - 1, -1)[self.group]
        stays = place >= 0
        return Records(
            self.index[stays], place[stays], self.keys[shown], self.users[stays]
        )


class Question:
    """The checked parameters of one statistic.

    Attributes
    ----------
    budget : Budget
    relation : NeighboringRelation
    level : float
    unit : str
        "user" or "row".
    keys : list, optional
        Public keys, sorted; None without.
    unknown : bool
        Whether groups were asked for that nobody listed.
    groups, records : int
        In how many groups one unit is at most, with how many records in each.
    """

    def __init__(
        self,
        budget: Budget,
        groups: Groups,
        users: Users,
        level: float,
        stream: Stream | None,
        neighboring_relation: Relation = _A,
        *,
        x: Any = None,
    ) -> None:
        by, keys, _, _ = groups
        one_index(x=x, by=by, user=users.user)
        self.grouped = by is not None
        self.unknown = self.grouped and keys is None
        _check_budget(budget, self.unknown)
        check_stream(stream)
        self.budget, self.stream = budget, stream
        self.relation = as_relation(neighboring_relation)
        if self.relation is NeighboringRelation.REPLACE_ONE and users.user is not None:
            raise ParameterError(
                "neighboring_relation must be ADD_OR_REMOVE_ONE with user: the number "
                "of records of a user is not public"
            )
        self.level = float(_validate.open_unit("level", level))
        self.unit = "row" if users.user is None else "user"
        self._by, self._user = by, users.user
        if keys is not None and by is None:
            raise ParameterError("keys goes with by: the groups that it lists")
        self.keys = None if keys is None else _public(keys)
        self.groups, self.records = _bounds(groups, users)
        if self.keys is not None:
            _check_kind(by, self.keys)
            self.groups = min(self.groups, len(self.keys))

    # ---- mechanisms --------------------------------------------------------------

    def law(self, budget: Budget) -> DiscreteLaplace | DiscreteGaussian:
        """Return the noise of a count of each group."""
        if budget.by_epsilon:
            return DiscreteLaplace.from_epsilon(
                budget.amount, sensitivity=self.groups * self.records
            )
        square = Fraction(self.groups * self.records**2)
        return DiscreteGaussian.from_rho(
            budget.amount, sensitivity=l2_sensitivity(square)
        )

    def histogram(self) -> UnknownHistogram:
        """Return the noisy counts that show a key by themselves."""
        make: Any = UnknownHistogram.from_rho_delta
        options: dict[str, Any] = {"rho": self.budget.rho}
        if self.budget.by_epsilon:
            make = UnknownHistogram.from_epsilon_delta
            options = {"epsilon": self.budget.epsilon}
        found: UnknownHistogram = make(
            **options,
            delta=self.budget.delta,
            keys_per_user=self.groups,
            records_per_key=self.records,
        )
        return found

    def selection(self) -> KeySelection | UnknownHistogram:
        """Return what shows the keys of a statistic that counts no users by itself."""
        half = self.budget.halved()
        # What accountants round up in a composition has room.
        delta = _validate.open_unit("delta", self.budget.delta) * _ROOM
        if self.budget.by_epsilon:
            return KeySelection.from_epsilon_delta(
                epsilon=half.amount,
                delta=delta,
                keys_per_user=self.groups,
                neighboring_relation=self.relation,
            )
        return UnknownHistogram.from_rho_delta(
            rho=half.amount,
            delta=delta,
            keys_per_user=self.groups,
            neighboring_relation=self.relation,
        )

    # ---- data --------------------------------------------------------------------

    def rows(self, present: _Array) -> Records:
        """Return which of the records that are there stay, and their groups."""
        n = len(present)
        group, keys = np.zeros(n, np.int64), np.zeros(1, np.int64)
        if self.grouped:
            listed, known = key_column("by", self._by)
            if len(listed) != n:
                raise ParameterError(f"by must have shape ({n},)")
            group, keys = _placed(listed, present & known, self.keys)
            present = group >= 0
        owner = np.arange(n)
        if self._user is not None:
            names, known = key_column("user", self._user)
            if len(names) != n:
                raise ParameterError(f"user must have shape ({n},)")
            chosen = np.flatnonzero(present & known)
            owner[chosen] = distinct(names[chosen])[1]
            present = np.zeros(n, bool)
            present[chosen] = self._bounded(owner[chosen], group[chosen])
        stays = np.flatnonzero(present)
        return Records(stays, group[stays], keys, owner[stays])

    def _bounded(self, owner: _Array, group: _Array) -> _Array:
        if not self.grouped:
            return bound_contributions(
                owner, records_per_user=self.records, stream=self.stream
            )
        return bound_contributions(
            owner,
            group,
            keys_per_user=self.groups,
            records_per_key=self.records,
            stream=self.stream,
        )

    def select(self, rows: Records) -> Records:
        """Return the records of the keys that `selection` shows."""
        m, users = self.selection(), rows.users_per_key()
        if isinstance(m, KeySelection):
            return rows.of(m.select(users, stream=self.stream))
        names = np.arange(len(users))
        found, _ = m.release(names, users, stream=self.stream)
        return rows.of(np.isin(names, found))


# ---- parameters --------------------------------------------------------------------


def _check_budget(budget: Budget, unknown: bool) -> None:
    if unknown and budget.delta is None:
        raise ParameterError(
            "delta must be given for by= without keys=: which groups occur is data, "
            "and to show one takes a delta; or list public groups in keys="
        )
    _validate.one_of(epsilon=budget.epsilon, rho=budget.rho)
    if budget.delta is not None:
        if not unknown:
            raise ParameterError("delta goes with by= whose groups no keys= lists")
        _validate.open_unit("delta", budget.delta)


def _bounds(groups: Groups, users: Users) -> tuple[int, int]:
    """Return in how many groups one unit is, with how many records in each."""
    _, most = users
    by, _, many, each = groups
    if users.user is None:
        for name, given in (
            ("records_per_user", most),
            ("groups_per_user", many),
            ("records_per_group", each),
        ):
            if given is not None:
                raise ParameterError(f"{name} goes with user")
        return 1, 1
    if by is None:
        if many is not None or each is not None:
            raise ParameterError("groups_per_user and records_per_group require by")
        return 1, _limit("records_per_user", "user", most)
    if most is not None:
        raise ParameterError("records_per_user goes without by: use records_per_group")
    return (
        _limit("groups_per_user", "user and by", many),
        _limit("records_per_group", "user and by", each),
    )


def _limit(name: str, where: str, given: int | None) -> int:
    """Return a limit of a user; there is no default, for it decides what is counted."""
    if given is None:
        what, _, whose = name.partition("_per_")
        raise ParameterError(
            f"{name} must be given with {where}: at most how many {what} of one "
            f"{'user' if whose == 'user' else 'user in a group'} are kept; more mean "
            "more noise, fewer mean that records are left out"
        )
    return _validate.integer(name, given, 1, 2**31)


def _public(keys: Any) -> list[Any]:
    listed, known = key_column("keys", keys)
    found: list[Any] = distinct(listed)[0].tolist()
    if not len(listed) or not known.all() or len(found) != len(listed):
        raise ParameterError("keys must be at least one group, none twice or null")
    return found


# ---- groups ------------------------------------------------------------------------


def _placed(
    listed: _Array, present: _Array, public: list[Any] | None
) -> tuple[_Array, _Array]:
    """Return the place of each record's key among the public or the present ones.

    -1 for records that are not there, or whose key is not public.
    """
    chosen = np.flatnonzero(present)
    found, place = distinct(listed[chosen])
    group = np.full(len(listed), -1, np.int64)
    if public is None:
        group[chosen] = place
        return group, found
    places = {key: i for i, key in enumerate(public)}
    code = np.array([places.get(key, -1) for key in found.tolist()], np.int64)
    if len(chosen):
        group[chosen] = code[place]
    keys = np.empty(len(public), object)
    keys[:] = public
    return group, keys


def _check_kind(by: Any, public: list[Any]) -> None:
    """Refuse public keys that the column cannot hold, by its type.

    A null among integers makes floats in pandas: both hold the same keys.
    """
    kind = kind_of_keys(by)
    wanted = {"number": (int, float), "text": (str,), "bytes": (bytes,)}
    if any(isinstance(key, wanted.get(kind, object)) for key in public):
        return
    raise DTypeError(
        f"keys must be of the type of by, {kind}, got {type(public[0]).__name__}"
    )
