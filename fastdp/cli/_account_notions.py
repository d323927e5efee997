"""Bounds for a list of events, and solutions, under each notion of privacy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fastdp.accounting import (
    Accountant,
    ApproximateAccountant,
    PLDAccountant,
    PureAccountant,
    RDPAccountant,
    TCDPAccountant,
    ZCDPAccountant,
    calibrate,
    calibrate_count,
)
from fastdp.accounting.events import Event
from fastdp.accounting.fdp import FDPAccountant, GDPAccountant
from fastdp.cli import _account_file
from fastdp.exceptions import CalibrationError, ParameterError, UnsupportedEventError

#: Cut the reason of a refusal after this many characters.
_LONGEST_REASON = 240

#: An event and its count.
Counted = tuple[Event, int]


@dataclass(frozen=True)
class Notion:
    """A notion of privacy: its accountant, and the meaning of its figures."""

    name: str
    make: Callable[[], Accountant[Any]]
    what: str
    solves: bool = True

    def accountant(self, parts: Sequence[Counted]) -> Accountant[Any]:
        """Return an accountant that has composed all parts."""
        accountant = self.make()
        for event, count in parts:
            accountant.compose(event, count)
        return accountant


NOTIONS = (
    Notion("privacy loss", PLDAccountant, "bound: the exact privacy loss"),
    Notion("Gaussian", GDPAccountant, "exact for Gaussian noise, rounded up"),
    # Solving for a parameter takes seconds here, and milliseconds with other notions.
    Notion("trade-off", FDPAccountant, "bound: trade-off functions", False),
    Notion("Renyi", RDPAccountant, "bound: Renyi divergence of the best order"),
    Notion("zCDP", ZCDPAccountant, "bound: rho at the best order"),
    Notion("tCDP", TCDPAccountant, "bound: rho at the best order below omega"),
    Notion(
        "(epsilon, delta)",
        ApproximateAccountant,
        "bound: optimal composition of epsilons and deltas",
    ),
    Notion("pure", PureAccountant, "bound: the sum of pure epsilons"),
)

#: Intervals in which to search a parameter, in order; take the first with a solution.
#: For very small sampling rates some accountants have no useful bound.
INTERVALS: dict[str, tuple[tuple[Fraction, Fraction], ...]] = {
    "sigma": ((Fraction(1, 2**7), Fraction(2**40)),),
    "scale": ((Fraction(1, 2**7), Fraction(2**40)),),
    "epsilon": ((Fraction(1, 2**40), Fraction(2**6)),),
    "local_epsilon": ((Fraction(1, 2**16), Fraction(2**4)),),
    "mu": ((Fraction(1, 2**40), Fraction(2**5)),),
    "rho": ((Fraction(1, 2**40), Fraction(2**9)),),
    "sampling_probability": (
        (Fraction(1, 2**40), Fraction(1)),
        (Fraction(1, 2**16), Fraction(1)),
        (Fraction(1, 2**10), Fraction(1)),
    ),
}

#: Noise parameters: find the least value; for all other parameters find the largest.
NOISES = ("sigma", "scale")


@dataclass(frozen=True)
class Reading:
    """One figure: a notion's bound and its proof, or the reason why there is none.

    `value` is None if the notion refuses an event.
    """

    notion: str
    value: float | None
    what: str
    lower: float | None = None


def read(
    parts: Sequence[Counted],
    *,
    delta: Fraction | None,
    epsilon: Fraction | None,
    check: bool = False,
) -> list[Reading]:
    """Return epsilon at `delta`, or else delta at `epsilon`, under each notion.

    With `check` the exact privacy loss is computed by two methods. Bounds come first,
    in increasing order; then refusals.
    """
    readings = [_reading(notion, parts, delta, epsilon, check) for notion in NOTIONS]
    return sorted(readings, key=_order)


def _order(reading: Reading) -> tuple[bool, float]:
    return reading.value is None, reading.value or 0.0


def _reading(
    notion: Notion,
    parts: Sequence[Counted],
    delta: Fraction | None,
    epsilon: Fraction | None,
    check: bool,
) -> Reading:
    try:
        accountant = notion.accountant(parts)
        if delta is None:
            assert epsilon is not None
            value, lower = accountant.delta(epsilon), None
        else:
            value, lower = accountant.epsilon(delta), None
        what = notion.what
        if isinstance(accountant, PLDAccountant) and delta != 0:
            if delta is None:
                bounds = accountant.delta_bounds(epsilon or 0, check=check)
            else:
                bounds = accountant.epsilon_bounds(delta, check=check)
            lower = min(bounds.lower, value)
            certificate = bounds.certificate
            method = f"{certificate}; {certificate.shortfall}".removesuffix("; ")
            what = f"{what}, between lower and upper ({method})"
    except UnsupportedEventError as error:
        return Reading(notion.name, None, _reason(error))
    return Reading(notion.name, value, what, lower)


def _reason(error: Exception) -> str:
    """Return an error's message; long events are cut."""
    text = str(error)
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


def solve(
    account: _account_file.Account,
    unknown: _account_file.Unknown,
    target: tuple[Fraction, Fraction],
) -> list[Reading]:
    """Return the value of a parameter that meets the target, under each notion.

    For noise the least value comes first, for other parameters the largest.
    """
    found = [
        _solution(notion, account, unknown, target)
        for notion in NOTIONS
        if notion.solves
    ]
    sign = 1 if unknown.name in NOISES else -1

    def order(reading: Reading) -> tuple[bool, float]:
        first, value = _order(reading)
        return first, sign * value

    return sorted(found, key=order)


def _solution(
    notion: Notion,
    account: _account_file.Account,
    unknown: _account_file.Unknown,
    target: tuple[Fraction, Fraction],
) -> Reading:
    entries = account.entries
    rest = [
        (entry.event, entry.count)
        for number, entry in enumerate(entries)
        if number != unknown.entry
    ]
    entry = entries[unknown.entry]

    def start() -> Accountant[Any]:
        return notion.accountant(rest)

    def family(value: float) -> Event:
        source = _account_file.replaced(entry.source, unknown.place, Fraction(value))
        return _account_file.build(source, unknown.entry, account.relation)[0]

    try:
        if rest:
            _require_room(start(), target)
        if unknown.name == "count":
            count = calibrate_count(
                entry.event, epsilon=target[0], delta=target[1], accountant=start
            )
            return Reading(notion.name, float(count), notion.what)
        value = _first_solution(family, target, start, unknown.name, entry.count)
    except (UnsupportedEventError, CalibrationError) as error:
        return Reading(notion.name, None, _reason(error))
    return Reading(notion.name, value, notion.what)


def _first_solution(
    family: Callable[[float], Event],
    target: tuple[Fraction, Fraction],
    start: Callable[[], Accountant[Any]],
    name: str,
    count: int,
) -> float:
    def solution(low: Fraction, high: Fraction) -> float:
        return calibrate(
            family,
            epsilon=target[0],
            delta=target[1],
            accountant=start,
            low=low,
            high=high,
            count=count,
        )

    *wider, last = INTERVALS[name]
    for low, high in wider:
        with contextlib.suppress(CalibrationError):
            return solution(low, high)
    return solution(*last)


def _require_room(
    accountant: Accountant[Any], target: tuple[Fraction, Fraction]
) -> None:
    """Refuse a target that the other events alone exceed."""
    if accountant.epsilon(target[1]) > target[0]:
        raise CalibrationError("the other events alone exceed the target")


def require_solvable(solve: str) -> None:
    """Refuse the name of a field that cannot be solved for.

    Raises
    ------
    ParameterError
        The field has no entry in `INTERVALS`.
    """
    names = [*INTERVALS, "count"]
    if solve.rpartition(".")[2] not in names:
        raise ParameterError(
            f"--solve must be one of {', '.join(names)}, or N.NAME; got {solve!r}"
        )
