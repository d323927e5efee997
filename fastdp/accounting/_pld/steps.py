"""What one event adds to a composition of privacy losses."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fastdp._validate import float_up
from fastdp.accounting._pld.closed import ClosedForm
from fastdp.accounting._pld.losses import Floats, Loss, Tilted, U


@dataclass(frozen=True)
class ConcentratedLoss(Loss):
    """A loss of which only K(t) <= rho t (1 + t) is known.

    No contour and no grid is tried with it: what is left is Chernoff's bound.
    """

    rho: Fraction

    def cumulants(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the bound of K(t)."""
        value = float_up(self.rho) * t * (1 + t)
        return value, 8 * U * value

    def tilted(self, theta: float, count: int) -> Tilted:
        """Raise OverflowError."""
        raise OverflowError("a loss without a contour")


@dataclass(frozen=True)
class Sided:
    """One direction of a step.

    Parameters
    ----------
    loss : Loss, optional
        The finite losses, given that none is infinite; None where all are 0. It is the
        loss itself, or dominates it where `exact` is false.
    lost : Fraction
        Mass at infinity, or more.
    sure : Fraction
        Mass at infinity, or less.
    exact : bool
        Whether the loss serves lower bounds as well.
    least : Loss, optional
        What does so otherwise; None for no loss at all.
    """

    loss: Loss | None = None
    lost: Fraction = Fraction(0)
    sure: Fraction = Fraction(0)
    exact: bool = True
    least: Loss | None = None


@dataclass(frozen=True)
class Step:
    """What one event adds.

    Parameters
    ----------
    removal, addition : Sided
        The losses for the removal and for the addition of a record.
    rho : Fraction, optional
        Bound of zero-concentrated privacy of what is not lost, None where there is
        none. Where losses are exact it must hold of them.
    closed : ClosedForm, optional
        The profile of the step alone, if it has a closed form.
    """

    removal: Sided
    addition: Sided
    rho: Fraction | None = None
    closed: ClosedForm | None = None


#: A step that loses nothing: what is sure of a step of which nothing is.
NOTHING = Step(Sided(), Sided(), Fraction(0))


def loosened(sided: Sided) -> Sided:
    """Return a direction that only bounds the loss from above."""
    return Sided(sided.loss, sided.lost, exact=False)


def between(step: Step, least: Step) -> Step:
    """Return a step for upper bounds with the losses of another for lower ones."""
    removal, addition = (
        Sided(
            above.loss,
            above.lost,
            below.sure,
            exact=False,
            least=below.loss if below.exact else below.least,
        )
        for above, below in (
            (step.removal, least.removal),
            (step.addition, least.addition),
        )
    )
    same = step.removal is step.addition and least.removal is least.addition
    return Step(removal, removal if same else addition, step.rho)


def either_order(step: Step, least: Step) -> Step:
    """Return a step between two where either of two datasets may be the first.

    The removal's losses serve lower bounds in both directions.
    """
    return between(step, Step(least.removal, least.removal, least.rho))


def symmetric(
    loss: Loss | None, rho: Fraction | None, closed: ClosedForm | None = None
) -> Step:
    """Return a step with one loss for both directions, and nothing lost."""
    one = Sided(loss)
    return Step(one, one, rho, closed)


def bounded(rho: Fraction, least: Loss | None = None) -> Step:
    """Return a step of which only rho is known, and perhaps a loss below it."""
    if rho == 0:
        return symmetric(None, rho)
    one = Sided(ConcentratedLoss(rho), exact=False, least=least)
    return Step(one, one, rho)
