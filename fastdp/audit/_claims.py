"""Claims about a mechanism: privacy as pairs (epsilon, delta), or a law."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastdp import _validate, accounting
from fastdp._validate import float_up
from fastdp.accounting import fdp
from fastdp.accounting.conversions import below_one
from fastdp.exceptions import DTypeError, FastDPError, ParameterError

#: Deltas at which to compute the epsilon of an event.
_DELTAS = (0.0, *(10.0**-k for k in range(9, 1, -1)), 0.03, 0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True)
class PrivacyClaim:
    """A guarantee of several pairs (epsilon, delta), all of which hold.

    Parameters
    ----------
    text : str
        The claim as it was given.
    epsilons, deltas : ndarray, shape (pairs,)
        The pairs, rounded up.
    """

    text: str
    epsilons: np.ndarray
    deltas: np.ndarray

    def breaks(self, low: float, high: float) -> bool:
        """Return whether rates, at least `low` and at most `high`, break a pair."""
        grown = np.exp(np.minimum(self.epsilons, 700.0))
        return bool((low > grown * high + self.deltas).any())

    def trade_off(self, rate: np.ndarray) -> np.ndarray:
        """Return the least false-negative rate that the pairs allow."""
        grown = np.exp(np.minimum(self.epsilons, 700.0))[:, None]
        rest, x = 1 - self.deltas[:, None], np.asarray(rate)[None, :]
        lines = np.maximum(rest - grown * x, (rest - x) / grown)
        return np.asarray(np.maximum(lines.max(axis=0), 0.0))


@dataclass(frozen=True)
class LawClaim:
    """A claimed law of the output for each input, or of the noise.

    Parameters
    ----------
    text : str
    of_input : callable or None
        Returns the law of the output for an input; if None, `law` is the law of the
        output minus the input.
    law : object or None
    """

    text: str
    of_input: Callable[[Any], Any] | None = None
    law: Any = None


def read(claim: Any) -> list[PrivacyClaim | LawClaim]:
    """Return the claims that were given to `audit.run`, as one value or a list."""
    if isinstance(claim, list):
        if not claim:
            raise ParameterError("claim must list at least one claim")
        return [one for each in claim for one in read(each)]
    if isinstance(claim, tuple):
        return [_pair(claim)]
    if isinstance(claim, accounting.Event):
        return [_of_event(claim)]
    if isinstance(claim, fdp.TradeOffFunction):
        return [_of_function(claim)]
    if all(hasattr(claim, name) for name in ("cdf", "sf", "isf", "ppf")):
        return [LawClaim(_shown(claim), law=claim)]
    if callable(claim):
        return [LawClaim("a law for each input", of_input=claim)]
    raise DTypeError(
        "claim must be an event, a pair (epsilon, delta), a trade-off function, a law "
        f"or a list of these, got {type(claim).__name__}"
    )


def _shown(law: Any) -> str:
    if hasattr(law, "dist"):  # a frozen law of scipy
        given = [*map(str, law.args), *(f"{k}={v}" for k, v in law.kwds.items())]
        return f"{law.dist.name}({', '.join(given)})"
    return repr(law)


def _pair(claim: tuple[Any, ...]) -> PrivacyClaim:
    if len(claim) != 2:
        raise ParameterError("a claim that is a tuple must be (epsilon, delta)")
    epsilon = float_up(_validate.nonnegative("epsilon", claim[0]))
    delta = float_up(below_one(claim[1]))
    text = f"epsilon {epsilon:g}, delta {delta:g}"
    return PrivacyClaim(text, np.array([epsilon]), np.array([delta]))


def _of_function(claim: fdp.TradeOffFunction) -> PrivacyClaim:
    epsilons = np.concatenate([np.linspace(0, 4, 41), np.linspace(4.5, 20, 32)])
    return PrivacyClaim(repr(claim), epsilons, np.asarray(claim.delta(epsilons)))


def _of_event(event: accounting.Event) -> PrivacyClaim:
    kinds: tuple[Callable[[], accounting.Accountant[Any]], ...] = (
        accounting.PLDAccountant,
        accounting.ZCDPAccountant,
        accounting.TCDPAccountant,
        accounting.RDPAccountant,
    )
    for kind in kinds:
        try:
            accountant = kind().compose(event)
            accountant.epsilon(1e-3)
        except FastDPError:
            continue
        found = [(e, d) for d in _DELTAS if (e := _epsilon(accountant, d)) < math.inf]
        epsilons, deltas = zip(*found, strict=True)
        return PrivacyClaim(repr(event), np.array(epsilons), np.array(deltas))
    raise ParameterError(f"no accountant supports the claim {event!r}")


def _epsilon(accountant: accounting.Accountant[Any], delta: float) -> float:
    try:
        return float(accountant.epsilon(delta))
    except FastDPError:
        return math.inf
