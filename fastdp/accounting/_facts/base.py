"""Facts of one event: the base of all entries, and the table of entries.

Every kind of event has one entry, a subclass of `Facts`, in this folder, and no other
code of the package checks the kind of an event. An entry states the known facts and
leaves the rest to the base: a pure epsilon alone gives a pair, rho, a Renyi curve and a
trade-off function. An unknown fact is None or raises an error; it never counts as free.

Methods import the laws that they make, so an accountant that only adds up numbers loads
no laws.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from fastdp._validate import float_up
from fastdp.accounting import conversions
from fastdp.accounting.events import Event, PureDPEvent
from fastdp.accounting.events._base import relation_of
from fastdp.exceptions import UnsupportedEventError

if TYPE_CHECKING:
    from fastdp.accounting._pld.families import Family, Step
    from fastdp.accounting._renyi.curves import Curve
    from fastdp.accounting._trade_off_functions import TradeOffFunction

ZERO = Fraction(0)

#: A trade-off function is made from a law of _CELLS cells, with tails of a mass of
#: e^_LOG_TAIL.
_CELLS, _LOG_TAIL = 1000, -60.0
_U = 2.0**-52

Kind = TypeVar("Kind", bound=Event)

_ENTRIES: dict[type[Event], type[Facts[Event]]] = {}


class Reader(Protocol):
    """Reads the profile of an event inside another event."""

    def epsilon(self, event: Event, delta: Fraction) -> float:
        """Return an epsilon at `delta`, rounded up."""

    def log_delta(self, event: Event, epsilon: Fraction) -> float:
        """Return ln(delta) at `epsilon`, rounded up."""


class Facts(Generic[Kind]):
    """The known facts of one event.

    Parameters
    ----------
    event : Event
        The event.
    """

    #: Whether to ask the accountants if there is no profile here: for whole curves and
    #: functions, and for combinations.
    left_to_accountants = False

    #: Whether the event is a list of losses. Then its samples are lists as well, and
    #: their curves are those of their steps.
    listed = False

    @property
    def states_guarantee(self) -> bool:
        """Whether the event represents every mechanism with the stated guarantee.

        One of these mechanisms attains the pair of `stated`, which then gives lower
        bounds.
        """
        return False

    def __init__(self, event: Kind) -> None:
        self.event = event

    @classmethod
    def of(cls, event: Kind) -> Facts[Kind]:
        """Return the facts of an event of this class's kind."""
        return cls(event)

    # ---- numbers ---------------------------------------------------------------------

    def pure(self) -> Fraction | None:
        """Return the pure epsilon: exact if rational, otherwise rounded up."""
        return None

    def stated(self) -> tuple[Fraction, Fraction] | None:
        """Return the (epsilon, delta) that the event states."""
        pure = self.pure()
        return None if pure is None else (pure, ZERO)

    def rho(self) -> Fraction | None:
        """Return rho under zero-concentrated privacy, rounded up."""
        pure = self.pure()
        return None if pure is None else conversions.rho_of_pure(pure)

    def mu(self) -> Fraction | None:
        """Return mu under Gaussian privacy, rounded up."""
        return None

    def sampling_rate(self) -> Fraction | None:
        """Return the rate at which a sample amplifies the event inside it."""
        return None

    def grouped(self, size: int) -> Event | None:
        """Return an event for individuals with the guarantee for groups of `size`.

        Return None if only the rules of a pure epsilon and of rho are proved.
        """
        return None

    # ---- the profile -----------------------------------------------------------------

    def epsilon(self, delta: Fraction, reader: Reader) -> float | None:
        """Return an epsilon at `delta` in [0, 1), rounded up."""
        return None

    def log_delta(self, epsilon: Fraction, reader: Reader) -> float | None:
        """Return ln(delta) at `epsilon`, rounded up."""
        return None

    def delta(self, epsilon: Fraction) -> float | None:
        """Return delta if it is known directly, not through its logarithm."""
        return None

    # ---- laws ------------------------------------------------------------------------

    def curve(self) -> tuple[Curve, Fraction]:
        """Return a Renyi curve, and the delta that must be set aside for it.

        An (epsilon, delta) event has no curve of its own: with probability 1 - delta it
        is a pure event (Kairouz, Oh and Viswanath 2015), and these deltas add up.
        """
        from fastdp.accounting._renyi.curves import PureCurve

        pair = self.stated()
        if pair is None:
            raise self.refusal("no Renyi divergence is known for")
        return PureCurve(pair[0]), pair[1]

    def curve_of_step(self) -> tuple[Curve, Fraction]:
        """Return the larger curve of both directions of `step`, and the lost mass."""
        from fastdp.accounting._renyi.mechanisms import LossCurve

        step = self.step()
        sides = [step.removal, step.addition]
        losses = tuple(dict.fromkeys(s.loss for s in sides if s.loss is not None))
        lost = max(side.lost for side in sides)
        return LossCurve(losses, float_up(lost)), lost

    def family(self) -> Family:
        """Return the pairs of laws that dominate the event and samples of it."""
        from fastdp.accounting._pld.families import LooseFamily, two_points

        pair = self.stated()
        if pair is None:
            raise self.refusal("no pair of laws is known that dominates")
        family = two_points(*pair)
        return family if self.states_guarantee else LooseFamily(family)

    def step(self) -> Step:
        """Return the event's step in a composition of privacy losses."""
        return self.family().step()

    def replaced(self, rate: Fraction) -> Step:
        """Return the step of a Poisson sample in which one record is replaced.

        The event is for adding or removing a record of the sample, and the rate < 1. By
        default the step follows from `stated`; a pair of laws gives a better one
        (section 5 of docs/proofs/amplification.md).
        """
        from fastdp.accounting._pld import listed_samples
        from fastdp.accounting._pld.families import NOTHING, between

        pair = self.stated()
        if pair is None:
            raise self.refusal("no law is known for a record replaced in a sample of")
        step = listed_samples.replaced_pure(*pair, rate)
        return step if self.states_guarantee else between(step, NOTHING)

    def trade_off_of_removal(self) -> TradeOffFunction | None:
        """Return the function of `step`, with the data without the record first.

        The result is None if the removal's loss has no law by cells.
        """
        from fastdp.accounting import _trade_off_functions as functions

        side = self.step().removal
        if side.loss is None:
            return None
        try:
            law = side.loss.law(None, _CELLS, True, _LOG_TAIL)
        except OverflowError:
            return None
        finite = float_up(1 - side.lost)
        masses = law.mass * (finite * (1 + law.error + 4 * _U))
        lost = float_up(side.lost) + law.lost * (1 + 4 * _U)
        return functions.from_law(law.loss, masses, min(lost, 1.0))

    def trade_off(self) -> TradeOffFunction:
        """Return a trade-off function on or below that of the event."""
        from fastdp.accounting._trade_off_functions import ApproximateTradeOff

        pair = self.stated()
        if pair is None:
            raise self.refusal("no trade-off function is known for")
        epsilon, delta = pair
        return ApproximateTradeOff(epsilon, own_delta=delta)

    def refusal(self, what: str) -> UnsupportedEventError:
        """Return the error that names the unknown fact."""
        return UnsupportedEventError(f"{what} {self.event!r}")


Entry = TypeVar("Entry", bound="type[Facts[Event]]")


def entry(*kinds: type[Event]) -> Callable[[type[Facts[Kind]]], type[Facts[Kind]]]:
    """Enter a class of facts in the table, for its kinds of events."""

    def enter(facts: type[Facts[Kind]]) -> type[Facts[Kind]]:
        for kind in kinds:
            _ENTRIES[kind] = facts  # type: ignore[assignment]
        return facts

    return enter


@functools.lru_cache(maxsize=64)
def facts_of(event: Event) -> Facts[Event]:
    """Return the facts of an event; raise an error for an unknown kind.

    If the pure epsilon is 0, the laws are equal: return the facts of a `PureDPEvent`
    for every kind of event.
    """
    kind = _ENTRIES.get(type(event))
    if kind is None:
        raise UnsupportedEventError(f"no accountant supports the event {event!r}")
    facts = kind.of(event)
    if facts.pure() != 0:
        return facts
    nothing = PureDPEvent(ZERO, neighboring_relation=relation_of(event))
    return _ENTRIES[PureDPEvent](nothing)


def require_pure(event: Event) -> Fraction:
    """Return the pure epsilon of an event, which must have one."""
    return _required(event, facts_of(event).pure(), "pure epsilon")


def require_rho(event: Event) -> Fraction:
    """Return rho of an event, which must have a finite rho."""
    return _required(event, facts_of(event).rho(), "finite rho")


def _required(event: Event, found: Fraction | None, what: str) -> Fraction:
    if found is None:
        raise UnsupportedEventError(f"no {what} is known for {event!r}")
    return found
