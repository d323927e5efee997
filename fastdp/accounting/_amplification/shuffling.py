"""The pair of laws behind shuffled reports, summed with directed bounds.

A report of one client hides among other clients' reports that do not depend on their
values. With N such reports, including the client's own, s of them at the two compared
values and a of these at the first value,

    delta(epsilon) = E c/N E[(a - s/2 - v)_+],   a ~ Bin(s, 1/2),

where N - 1 is binomial and v, c are elementary (docs/proofs/amplification.md, section
1, which proves every step of this file). For any randomizer and for binary response
N = s: the inner mean is a closed form in one tail ratio, and the outer sum runs over
blocks in which the terms are monotone. For more categories delta is an integral, or a
table if few reports hide.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from fastdp.accounting._amplification import shuffled_response, shuffled_table
from fastdp.accounting._amplification.binomial import (
    Floats,
    Window,
    log_hinge,
    log_sum,
    window,
)
from fastdp.accounting._numeric import root_above

#: For more clients use the bound for this many: more clients only add privacy.
MOST_CLIENTS = 10**10
#: Most blocks of N = s in a sum, and in a rough sum that only starts a search.
_CELLS, _FEW_CELLS = 16384, 256
#: ln(delta) may end this far below its target.
_NEAR = 1e-8
#: Also try a table if an integral's bounds of ln(delta) are farther apart than this.
_WIDE = 1.5e-5


@dataclass(frozen=True)
class ShuffledPair:
    """The laws of shuffled reports of two neighboring datasets.

    Parameters
    ----------
    local_epsilon : float
        Pure epsilon of one report, > 0.
    clients : int
        Number of reports, >= 1.
    categories : int or None
        Categories of k-ary randomized response; None for any randomizer.
    local_delta : float
        Delta of one report; 0 for a named randomizer.
    """

    local_epsilon: float
    clients: int
    categories: int | None
    local_delta: float = 0.0

    @property
    def log_beyond(self) -> float:
        """Logarithm of one report's delta, for epsilons from the local epsilon on."""
        return math.log(self.local_delta) if self.local_delta else -math.inf

    @functools.cached_property
    def log_distance(self) -> float:
        """Logarithm of the total variation distance of reports from pure reports.

        (n - 1) delta0 (E + 2)/(E (E + 1)) + delta0/(E + 1).
        """
        if not self.local_delta:
            return -math.inf
        small = math.exp(-self.local_epsilon)
        others = (self.clients - 1) * (1 + 2 * small) + 1
        return math.log(self.local_delta * others * small / (1 + small)) + 1e-14

    @property
    def log_odds(self) -> float:
        """Log-odds that another client's report hides: k to e^epsilon0 - 1."""
        e = self.local_epsilon
        log_expm1 = math.log(math.expm1(e)) if e < 40 else e
        return math.log(self.categories or 1) - log_expm1

    def log_delta(
        self,
        epsilon: float,
        log_size: float,
        *,
        upper: bool = True,
        coarse: bool = False,
    ) -> float:
        """Return ln of an upper or a lower bound on delta(epsilon).

        It holds for 0 <= epsilon < local_epsilon and a delta not far below
        exp(log_size). With `coarse` the bound may be wider, or only an estimate.
        """
        pure = self._pure_log_delta(epsilon, log_size, upper, coarse)
        if not self.local_delta:
            return pure
        away = epsilon + math.log1p(math.exp(-epsilon)) + self.log_distance
        slop = 1e-14 if upper else -1e-14
        return min(0.0, float(np.logaddexp(pure, away)) + slop * (1 + abs(away)))

    def _pure_log_delta(
        self, epsilon: float, log_size: float, upper: bool, coarse: bool
    ) -> float:
        """Return `log_delta` for pure reports."""
        n = min(self.clients, MOST_CLIENTS)
        if (self.categories or 2) > 2:
            bounds = _response(self, n, epsilon, log_size, coarse)
            return bounds[1] if upper else bounds[0]
        cells = _FEW_CELLS if coarse else _CELLS
        law = _window(n - 1, self.log_odds, 26 - log_size, cells)
        return self.blocks_log_delta(epsilon, law, upper)

    def blocks_log_delta(self, epsilon: float, law: Window, upper: bool) -> float:
        """Return ln of a bound of delta(epsilon) from the law of N - 1 in blocks."""
        n = (law.low if upper else law.high) + 1
        given = self._log_terms(epsilon, n, upper)
        terms = given + law.log_weight
        if not upper:
            return log_sum(terms) + law.log_kept - law.slop - 1e-14
        # Beyond the last block delta is at most its value there; below the first, 1.
        above = float(given[-1]) + law.log_above
        total = np.array([log_sum(terms), above, law.log_below])
        return min(0.0, log_sum(total) + law.slop + 1e-14)

    def _log_terms(self, epsilon: float, n: Floats, upper: bool) -> Floats:
        """Return ln(delta given N) for each N = s, in a direction."""
        e, e0 = epsilon, self.local_epsilon
        log_grown = e + math.log1p(math.exp(-e))  # ln(1 + e^epsilon)
        error = (4e-15 if upper else -4e-15) * (4 + e + e0)
        share = math.tanh(e / 2) / math.tanh(e0 / 2)
        share *= 1 - 1e-15 if upper else 1 + 1e-15
        log_rest = _log_sinh((e0 - e) / 2) - _log_sinh(e0 / 2)
        log_rest += math.log(2) - log_grown + e / 2  # -ln cosh(epsilon/2)
        rest = n / 2 * math.exp(log_rest)
        factor = math.log(2) + log_grown + math.log(math.tanh(e0 / 2)) + error
        hinge = log_hinge(n, n * share / 2, rest, upper)
        return np.asarray(factor - np.log(n) + hinge)


_window = functools.lru_cache(maxsize=8)(window)


@functools.lru_cache(maxsize=64)
def _response(
    pair: ShuffledPair, clients: int, epsilon: float, log_size: float, coarse: bool
) -> tuple[float, float]:
    """Return bounds of ln(delta) for three categories and more."""
    k = pair.categories or 0
    law = shuffled_response.ResponseSum.of(pair.local_epsilon, clients, k, epsilon)
    if coarse:
        found = law.estimate()
        if math.isfinite(found):
            return found, found
    lower, upper = law.log_delta_bounds()
    if upper - lower > _WIDE:
        bounds = shuffled_table.log_delta_bounds(
            pair.local_epsilon, clients, k, epsilon, log_size
        )
        lower, upper = max(lower, bounds[0]), min(upper, bounds[1])
    return min(lower, 0.0), min(upper, 0.0)


def _log_sinh(x: float) -> float:
    if x <= 0:
        return -math.inf
    return math.log(math.sinh(x)) if x < 20 else x - math.log(2)


def log_delta(pair: ShuffledPair, epsilon: float, upper: bool = True) -> float:
    """Return ln of a bound of delta(epsilon), however small it is."""
    if epsilon >= pair.local_epsilon:
        return pair.log_beyond
    guess = -40.0
    if (pair.categories or 2) > 2:  # tables are smaller for a delta that is known
        guess = min(-2.0, max(-1e4, pair.log_delta(epsilon, guess, coarse=True) - 2))
    while True:
        value = pair.log_delta(epsilon, guess, upper=upper)
        if value > guess - 1 or guess < -1e4:
            return value
        guess *= 3


def epsilon_at(
    pair: ShuffledPair, log_target: float, upper: bool = True, near: float | None = None
) -> float:
    """Return nearly the least epsilon with a proved delta of at most the target.

    With `upper` False, return an epsilon at which a lower bound on delta is at least
    the target, so no smaller epsilon meets the target. `near` is an epsilon known to be
    close.
    """

    def excess(epsilon: float, coarse: bool = False) -> float:
        if epsilon >= pair.local_epsilon:  # the target is at least log_beyond
            return -1.0
        side = upper or coarse
        found = pair.log_delta(epsilon, log_target, upper=side, coarse=coarse)
        return max(found, -1e300) - log_target

    if near is None:
        at_zero = excess(0.0, True)
        if at_zero < 0.1:
            at_zero = excess(0.0)
        if at_zero <= 0:
            return 0.0
        near = root_above(lambda x: excess(x, True), 0.0, pair.local_epsilon, 1e-6)
    near = max(near, 1e-12 * pair.local_epsilon)
    before = near * (1 - 1e-4)
    slope = (excess(before, True) - excess(near, True)) / (near - before)
    sign, x = (1.0 if upper else -1.0), near
    seen: tuple[float, float] | None = None
    for _ in range(12 if slope > 0 else 0):
        value = excess(x) * sign
        if -_NEAR <= value <= 0:
            return x
        if seen is not None and x != seen[0]:
            found = sign * (seen[1] - value) / (x - seen[0])
            slope = found if 0.5 * slope < found < 2 * slope else slope
        seen = x, value
        x = min(x + sign * (value + _NEAR / 2) / slope, pair.local_epsilon)
        if not x > 0:
            break
    if upper:
        return root_above(excess, 0.0, pair.local_epsilon, 1e-9)
    if excess(0.0) <= 0:
        return 0.0
    return -root_above(lambda x: -excess(-x), -pair.local_epsilon, 0.0, 1e-9)
