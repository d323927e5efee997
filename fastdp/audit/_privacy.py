"""Events with a larger ratio of rates under two inputs than the claim allows.

Events are chosen by the first part of the draws and counted in the second. All
Clopper-Pearson bounds on their rates hold together with probability 1 - level.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastdp.audit import _events, _figures
from fastdp.audit._bounds import detected, rates
from fastdp.audit._claims import PrivacyClaim
from fastdp.audit._events import Coding
from fastdp.audit._findings import Finding
from fastdp.audit._neighbors import Pair
from fastdp.audit._outcomes import Outcomes, fitted

#: Margins for the rounding of a logarithm, and of rates.
_ROUNDING, _RATES = 1e-13, 2.0**-50

#: Distinguish at most this many kinds of outcome.
_LABELS = 1000

#: Examine the precision and residues of this many coordinates.
_PRECISE = 2

#: Rate of the event whose power is stated.
_RATE = 0.1

_RESIDUES = (2, 3, 5, 256)

TRIED = {
    "privacy": (
        "events that the first part of the draws makes likely: kinds of outcome, "
        "values, likelihood ratios"
    ),
    "precision": (
        "outputs that one input gives and the other does not: powers of two that "
        "divide them, rests of divisions, values seen before"
    ),
    "edges": (
        "the same events as privacy, for inputs at the limits of integers, inputs for "
        "which floats get coarse, 0.0 and -0.0, and inputs a smallest change apart. "
        "The claim is assumed to hold if all numbers of the inputs are moved by one "
        "amount, and for inputs that are closer together than the given ones"
    ),
}


def codings(check: str, learned: Sequence[Outcomes]) -> list[Coding]:
    """Return the codings that a check counts in the second part of the draws.

    Parameters
    ----------
    check : {"privacy", "precision", "edges"}
    learned : sequence of Outcomes
        Outcomes of both inputs in the first part, with rows of equal length.
    """
    width = learned[0].values.shape[1]
    if check != "precision":
        times = Counter[str]()
        for x in learned:
            counts = np.bincount(x.kinds, minlength=len(x.labels))
            times.update(dict(zip(x.labels, counts.tolist(), strict=True)))
        labels = [label for label, _ in times.most_common(_LABELS)]
        found = [_events.by_kind(labels)]
        if width == 1:
            found.append(_events.by_number("output", lambda v: v[:, 0], learned))
        elif width > 1:
            found += [_events.by_number(*each, learned) for each in _STATISTICS]
            found.append(_events.by_likelihood(learned))
        return found
    if width == 0:
        return []
    found = [_events.by_sight(learned)]
    for column in range(min(width, _PRECISE)):
        if learned[0].values.dtype.kind == "f":
            found.append(_events.by_lowest_bit(column))
        found += [_events.by_residue(column, m) for m in _RESIDUES]
    return found


def _of_both(
    coding: Coding, learned: Sequence[Outcomes]
) -> tuple[np.ndarray, np.ndarray]:
    first, second = learned
    return coding.counts(first), coding.counts(second)


def _largest(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.max(axis=1))


def _place(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.argmax(axis=1))


def _total(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.astype(np.float64).sum(axis=1))


_STATISTICS: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("sum of the output", _total),
    ("largest number of the output", _largest),
    ("place of the largest number", _place),
)


#: Lower bound of the rate under one input, upper bound under the other; number of the
#: first of these inputs; whether the event is the complement.
Reading = tuple[float, float, int, bool]


class Events:
    """Events of one pair and one check, and their counts.

    Parameters
    ----------
    check : str
    pair : Pair
    claims : sequence of PrivacyClaim
    learned : pair of Outcomes
        Outcomes of both inputs in the first part of the draws.
    """

    def __init__(
        self,
        check: str,
        pair: Pair,
        claims: Sequence[PrivacyClaim],
        learned: Sequence[Outcomes],
    ) -> None:
        self.pair = pair
        self._width = max(x.values.shape[1] for x in learned)
        self._dtype = np.result_type(*(x.values for x in learned))
        alike = [self._fitted(x) for x in learned]
        self._codings = codings(check, alike)
        self._sets = [
            _events.chosen_events(*_of_both(coding, alike), claims)
            for coding in self._codings
        ]
        #: Figures of the first part of the draws.
        self.data: dict[str, Any] = {}
        if check == "privacy":
            self.data["outputs"] = _figures.of_outputs(learned)
        elif check == "precision":
            self.data["support"] = _figures.of_support(learned)
        self._counts = [np.zeros((2, c.size), np.int64) for c in self._codings]
        self.number = sum(len(s) for s in self._sets)

    def add(self, which: int, outcomes: Outcomes) -> None:
        """Count outcomes of the second part, for the first input (0) or second (1)."""
        outcomes = self._fitted(outcomes)
        for coding, counts in zip(self._codings, self._counts, strict=True):
            counts[which] += coding.counts(outcomes)

    def _fitted(self, outcomes: Outcomes) -> Outcomes:
        """Convert each outcome to the width and dtype of the first part."""
        with np.errstate(invalid="ignore"):
            values = fitted(outcomes.values, self._width).astype(self._dtype)
        return replace(outcomes, values=values)

    def measured(self, level: float) -> list[Measured]:
        """Return bounds on all rates that hold together with P >= 1 - level."""
        found = []
        error = level / (4 * max(self.number, 1))
        for coding, sets, counts in zip(
            self._codings, self._sets, self._counts, strict=True
        ):
            runs = counts.sum(axis=1)
            if not len(sets) or not runs.all():
                continue
            hits = sets.astype(np.int64) @ counts.T
            bounds = [rates(hits[:, i], int(runs[i]), error) for i in (0, 1)]
            for i, event in enumerate(sets):
                low, high = (tuple(float(b[k][i]) for b in bounds) for k in (0, 1))
                found.append(Measured(self.pair, coding, event, low, high))
        return found


@dataclass(frozen=True)
class Measured:
    """An event, and bounds on its rates under both inputs of a pair."""

    pair: Pair
    coding: Coding
    event: np.ndarray
    low: tuple[float, ...]
    high: tuple[float, ...]

    def readings(self) -> list[Reading]:
        """Return the four inequalities that the bounds give."""
        return [
            (self.low[1], self.high[0], 1, False),
            (self.low[0], self.high[1], 0, False),
            (1 - self.high[1], 1 - self.low[0], 1, True),
            (1 - self.high[0], 1 - self.low[1], 0, True),
        ]


def epsilon_of(low: float, high: float, delta: float) -> float:
    """Return the least epsilon with low <= e^epsilon high + delta, rounded down.

    It is -inf if low <= delta; it may be negative.
    """
    if low - _RATES <= delta:
        return -math.inf
    return math.log((low - delta - _RATES) / (high + _RATES)) - _ROUNDING


@dataclass(frozen=True)
class _Strength:
    """The excess of an inequality over a claim, and the pair (epsilon, delta)."""

    over: float
    epsilon: float
    delta: float


def _strength(claim: PrivacyClaim, reading: Reading) -> _Strength:
    low, high = reading[:2]
    return max(
        (
            _Strength(epsilon_of(low, high, d) - e, e, d)
            for e, d in zip(claim.epsilons.tolist(), claim.deltas.tolist(), strict=True)
        ),
        key=lambda each: each.over,
    )


def finding(
    check: str,
    claims: Sequence[PrivacyClaim],
    measured: Sequence[Measured],
    level: float,
    runs: int,
) -> Finding:
    """Return the finding of the measured rates against the claims."""
    if not measured:
        return Finding(
            check=check,
            status="not run",
            tried=TRIED[check],
            evidence="the outcomes have nothing that this check could look at",
            false_alarm=0.0,
        )
    found, claim, one, reading = max(
        (
            (_strength(claim, reading), claim, one, reading)
            for claim in claims
            for one in measured
            for reading in one.readings()
        ),
        key=lambda each: each[0].over,
    )
    low, high, likelier, complement = reading
    event = one.coding.say(~one.event if complement else one.event)
    names = ("first", "second")
    least = max(0.0, found.over + found.epsilon)
    refuted = found.over > 0
    words = "does not hold" if refuted else "is not refuted"
    evidence = (
        f"{claim.text} {words}: epsilon is at least {least:.4g} at delta "
        f"{found.delta:g}, where {found.epsilon:.4g} is claimed. Of {len(measured)} "
        f"events the strongest is this: {event}. It has a probability of at least "
        f"{low:.6g} under the {names[likelier]} input, and of at most {high:.6g} under "
        f"the {names[1 - likelier]}"
    )
    power = ""
    if check == "privacy":
        power = "; ".join(_power(c, runs, level / (4 * len(measured))) for c in claims)
    return Finding(
        check=check,
        status="refuted" if refuted else "nothing found",
        tried=TRIED[check],
        evidence=evidence,
        false_alarm=level,
        input=one.pair.text,
        epsilon=least,
        power=power,
        data={
            "curve": _curve(measured, one.pair),
            "claims": [c.trade_off(np.linspace(0, 1, 101)).tolist() for c in claims],
        }
        if check == "privacy"
        else {},
    )


def _power(claim: PrivacyClaim, runs: int, error: float) -> str:
    """Describe an event that would break a claim."""
    found = detected(claim.breaks, _RATE, runs, error)
    stated = 1 - float(claim.trade_off(np.array([_RATE]))[0])
    return (
        f"with probability 0.98 this finds an event of probability {_RATE:g} under one "
        f"input and {found:.3f} under the other, where {stated:.3f} is claimed"
    )


def _curve(measured: Sequence[Measured], pair: Pair) -> list[list[float]]:
    """Return bounds on both error rates of the tests by a pair's events.

    A test decides for the second input if the event occurs. Rows are the lower and
    upper bounds on its false-positive rate, and then on its false-negative rate.
    """
    return [
        [one.low[0], one.high[0], 1 - one.high[1], 1 - one.low[1]]
        for one in measured
        if one.pair is pair
    ]
