"""Laws of finitely many privacy losses in one direction, and of their samples.

The formulas are those of docs/proofs/numerical_accounting.md, section 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastdp.accounting._pld.losses import Floats, U

#: Masses below this are not accurate: they may have been raised to the least double.
_LEAST = 1e-290


@dataclass(frozen=True, eq=False)
class Atoms:
    """Losses ln(P/Q) and their masses under P, with what only one law has.

    Parameters
    ----------
    losses, masses : ndarray of float64
        Finite losses and positive masses, within a relative 1e-14.
    lost : Fraction
        Mass of P where Q has none: losses at infinity.
    other : float
        Mass of Q where P has none, perhaps rounded up by 1e-13.
    blur : float
        Bound of the errors of the losses.
    sure : Fraction, optional
        A lower bound of what is lost, where `lost` is not its value.
    slack : float
        What `other` may be above its value.
    doubtful : bool
        Whether masses may be far above their values: no lower bound follows from them.
    """

    losses: Floats
    masses: Floats
    lost: Fraction = Fraction(0)
    other: float = 0.0
    blur: float = 0.0
    sure: Fraction | None = None
    slack: float = 0.0
    doubtful: bool = False

    def lowered(self) -> Atoms:
        """Return the law without what is not certain: for lower bounds."""
        sure = self.lost if self.sure is None else self.sure
        other = max(0.0, self.other - self.slack)
        kept = self.masses >= _LEAST
        if kept.all() and sure == self.lost and other == self.other:
            return self
        losses, masses = self.losses[kept], self.masses[kept]
        return Atoms(losses, masses, sure, other, self.blur, doubtful=self.doubtful)

    def exchanged(self) -> Atoms:
        """Return the law of the other direction: Q against P."""
        masses = np.exp(np.log(self.masses) - self.losses)
        return Atoms(
            -self.losses[::-1],
            np.maximum(masses, 5e-324)[::-1],
            Fraction(min(self.other, 1.0)),
            float(self.lost),
            self.blur,
            Fraction(max(0.0, min(self.other, 1.0) - self.slack)),
            doubtful=self.doubtful or bool((self.masses < _LEAST).any()),
        )

    def sampled(self, rate: Fraction, removal: bool) -> Atoms:
        """Return the law on a Poisson sample.

        For the removal of a record (1 - rate) Q + rate P against Q, for its addition P
        against (1 - rate) P + rate Q, each from the inner pair of that direction.
        """
        q, rest = float(rate), float(1 - rate)
        if rest == 0:  # or less than any double: sampling never hurts
            return self
        least = math.log(rest) if q > 0.5 else math.log1p(-q)
        signed = self.losses if removal else -self.losses
        losses, error = sampled_loss(rate, signed)
        blur = float(np.max(error, initial=0.0)) + self.blur
        if not removal:  # what only P had is now seen at both datasets
            losses = -losses
            masses, lost, sure = self.masses, Fraction(0), None
            own, value = float(self.lost), -least
        else:
            # Masses of Q; one that was raised to the least double may pass for more.
            others = np.exp(np.minimum(np.log(self.masses) - self.losses, 0.0))
            masses = self.masses * q + rest * others
            lost, own, value = rate * self.lost, rest * self.other, least
            sure = None if self.sure is None else rate * self.sure
        if own > 0:
            losses, masses = np.append(losses, value), np.append(masses, own)
            blur = max(blur, 4 * U * abs(value))
        order = np.argsort(losses, kind="stable")
        # Seen from Q: with the record, nothing is new; without it, what Q alone had.
        other, slack = (0.0, 0.0) if removal else (q * self.other, q * self.slack)
        return Atoms(
            losses[order],
            masses[order],
            lost,
            other,
            blur,
            sure,
            slack,
            self.doubtful,
        )

    def subset(self, rate: Fraction) -> Atoms:
        """Return a law for subsets of fixed size, one record replaced, either way.

        The law must hold for both directions. Above 0 it is that of the removal, below
        that of the addition on a Poisson sample, and the rest of the mass is at 0.
        """
        high, low = self.sampled(rate, True), self.sampled(rate, False)
        above, below = high.losses > 0, low.losses < 0
        losses = np.concatenate([low.losses[below], [0.0], high.losses[above]])
        masses = np.concatenate([low.masses[below], [0.0], high.masses[above]])
        rest = 1 - math.fsum(masses) - float(high.lost)
        masses[np.count_nonzero(below)] = max(rest, 0.0) + 4 * U
        blur = max(high.blur, low.blur)
        return Atoms(
            losses,
            masses,
            high.lost,
            float(high.lost),
            blur,
            high.sure,
            doubtful=self.doubtful,
        )


def sampled_loss(rate: Fraction, loss: Floats) -> tuple[Floats, Floats]:
    """Return ln(1 - rate + rate e^loss) and bounds of its absolute error."""
    q, rest = float(rate), float(1 - rate)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        small = q * np.expm1(np.minimum(loss, 30.0))
        near = np.log1p(small)
        low = np.log(rest + q * np.exp(np.minimum(loss, 30.0)))
        high = loss + np.log(q + rest * np.exp(-loss))
    value = np.where(np.abs(small) < 0.5, near, np.where(loss > 0, high, low))
    return np.asarray(value), np.asarray(32 * U * np.abs(value))
