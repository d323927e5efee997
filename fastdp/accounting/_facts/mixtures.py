"""Facts of Gaussian noise around a random shift (docs/proofs/amplification.md, 7)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from fastdp.accounting._facts.base import Facts, entry
from fastdp.accounting.events import MixtureOfGaussiansEvent, NeighboringRelation
from fastdp.exceptions import UnsupportedEventError

if TYPE_CHECKING:
    from fastdp.accounting._pld.families import Family
    from fastdp.accounting._renyi.curves import Curve
    from fastdp.accounting._trade_off_functions import TradeOffFunction


@entry(MixtureOfGaussiansEvent)
class MixtureFacts(Facts[MixtureOfGaussiansEvent]):
    """Gaussian noise on a sum that an individual changes by a random amount."""

    left_to_accountants = True
    listed = True

    @classmethod
    def of(cls, event: MixtureOfGaussiansEvent) -> MixtureFacts:
        """Refuse a relation without an order of the datasets."""
        if event.neighboring_relation is NeighboringRelation.REPLACE_ONE:
            raise UnsupportedEventError(
                "a random sensitivity must be for ADD_OR_REMOVE_ONE or "
                "REPLACE_SPECIAL: to replace a record, take a GroupEvent of two around "
                f"the event for ADD_OR_REMOVE_ONE; got {event!r}"
            )
        return cls(event)

    def _largest(self) -> Fraction:
        return self.event.sensitivities[-1] / self.event.sigma

    def pure(self) -> Fraction | None:
        """Return 0 if the event reveals nothing, else None."""
        return Fraction(0) if self._largest() == 0 else None

    def rho(self) -> Fraction:
        """Return the rho of the largest shift, which is approached at large orders."""
        return self._largest() ** 2 / 2

    def family(self) -> Family:
        """Return the exact pair."""
        from fastdp.accounting._pld.gaussian_mixture import GaussianMixtureFamily

        moves, chances = self.event.sensitivities, list(self.event.probabilities)
        missing = 1 - sum(chances)
        chances[-1 if missing > 0 else 0] += missing
        some = 1 if moves[0] == 0 else 0
        return GaussianMixtureFamily(
            tuple(move / moves[-1] for move in moves[some:]),
            tuple(chances[some:]),
            self.event.sigma / moves[-1],
        )

    def curve(self) -> tuple[Curve, Fraction]:
        """Return the curve of the pair."""
        return self.curve_of_step()

    def trade_off(self) -> TradeOffFunction:
        """Return the function of one order, with the data without the record first."""
        from fastdp.accounting._trade_off_laws import GaussianTradeOff

        return self.trade_off_of_removal() or GaussianTradeOff(self._largest())
