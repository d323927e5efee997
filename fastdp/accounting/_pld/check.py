"""Check each reading by a second method: both brackets are proved, so they overlap.

Atoms check a contour, a contour checks atoms, and either checks a closed form. If a
contour is too costly, atoms with other cells check atoms.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fastdp.accounting._atoms.bounds import BOTH, Aim, log_delta_reading
from fastdp.accounting._bounds import Bracket
from fastdp.accounting._pld.chernoff import Chernoff
from fastdp.accounting._pld.closed import Profile
from fastdp.accounting._pld.contour import Contour, TooCostlyError
from fastdp.accounting._pld.losses import Floats
from fastdp.exceptions import CertificateError

if TYPE_CHECKING:
    from fastdp.accounting._pld.composition import Composition

#: A function that bounds ln delta at ascending epsilons, by one method.
Reading = Callable[[Floats], list[Bracket]]

#: Effort for atoms that check other atoms; not 1, so that the cells differ.
_OTHER = 0.7

#: The second method reads ln delta at distances that grow by a factor _GROWTH, from
#: half the first bracket's width to _WIDEST times epsilon.
_GROWTH, _WIDEST = 4.0, 1.0


@dataclass(frozen=True)
class Checked(Profile):
    """A profile in which a second method checks every reading.

    A reading raises `CertificateError` if the two brackets do not overlap.
    """

    profile: Profile
    composition: Composition

    def epsilon(self, log_delta: tuple[float, float], aim: Aim = BOTH) -> Bracket:
        found = self.profile.epsilon(log_delta)
        if not 0 < found.upper < math.inf:
            return _unchecked(found)
        place = found.estimate or found.upper / 2
        for name, reading in self._others(found.method, place, log_delta[0]):
            second = _epsilon_by(reading, found, log_delta)
            if second is not None:
                return _met(found, second, name)
        return _unchecked(found)

    def log_deltas(self, epsilons: Floats) -> list[Bracket]:
        first = self.profile.log_deltas(epsilons)
        pairs = zip(epsilons.tolist(), first, strict=True)
        return [self._log_delta(epsilon, found) for epsilon, found in pairs]

    def _log_delta(self, epsilon: float, found: Bracket) -> Bracket:
        if found.upper == -math.inf:
            return _unchecked(found)
        for name, reading in self._others(found.method, epsilon, found.estimate):
            return _met(found, reading(np.array([epsilon]))[0], name)
        return _unchecked(found)

    def _others(
        self, method: str, epsilon: float, level: float
    ) -> Iterator[tuple[str, Reading]]:
        """Yield methods that read ln delta near epsilon, the most different first."""
        steps = self.composition.steps
        if not steps:  # mu^2 of the noise underflows to 0
            return
        again = method == "atoms"
        with contextlib.suppress(TooCostlyError):
            if method != "contour":
                chernoff = Chernoff(self.composition)
                contour = Contour(self.composition, chernoff, epsilon, level)
                yield "contour", lambda e: _brackets(contour, e)
        with contextlib.suppress(OverflowError):
            reading = log_delta_reading(steps, epsilon, _OTHER if again else 1.0)
            yield "other atoms" if again else "atoms", reading


def _brackets(contour: Contour, epsilons: Floats) -> list[Bracket]:
    found = contour.log_deltas(epsilons)
    return [Bracket(f.lower, f.estimate, f.upper, "contour") for f in found]


def _epsilon_by(
    reading: Reading, found: Bracket, log_delta: tuple[float, float]
) -> Bracket | None:
    """Return the second method's bracket of epsilon, or None."""
    middle = min(max(found.estimate, found.lower), found.upper)
    start = max((found.upper - found.lower) / 2, 4e-16 * middle, 1e-300)
    most = max(_WIDEST * middle, 4 * start)
    steps = start * _GROWTH ** np.arange(1 + math.log(most / start, _GROWTH))
    epsilons = np.concatenate([(middle - steps)[::-1], middle + steps])
    epsilons = epsilons[epsilons >= 0]
    brackets = reading(epsilons)
    pairs = list(zip(epsilons.tolist(), brackets, strict=True))
    above = [e for e, bracket in pairs if bracket.upper <= log_delta[0]]
    below = [e for e, bracket in pairs if bracket.lower >= log_delta[1]]
    if not above:
        return None
    return Bracket(max(below, default=0.0), middle, min(above), "")


def _met(found: Bracket, second: Bracket, name: str) -> Bracket:
    """Return the intersection of both brackets.

    Raises
    ------
    CertificateError
        The brackets do not overlap.
    """
    if found.lower > second.upper or second.lower > found.upper:
        raise CertificateError(
            f"two proved bounds contradict each other: {found.method} gives "
            f"[{found.lower!r}, {found.upper!r}], {name} "
            f"[{second.lower!r}, {second.upper!r}]; please report this"
        )
    both = replace(second, estimate=found.estimate).meet(found)
    return replace(both, method=f"{found.method}, checked by {name}")


def _unchecked(found: Bracket) -> Bracket:
    return replace(found, method=f"{found.method}, not checked")
