"""The finding of one check of an audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["refuted", "fault", "nothing found", "not run"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The finding of one check, from `run`.

    Parameters
    ----------
    check : str
        The check's name.
    status : str
        "refuted": a claim does not hold. "fault": something is wrong under any claim.
        "nothing found", or "not run".
    tried : str
        Description of the check.
    evidence : str
        The strongest evidence against the claim, or why the check did not run.
    false_alarm : float
        Upper bound on the probability that a mechanism that keeps its claim is
        reported. 0 if the observation is certain.
    input : str
        The input, or pair of inputs, of the evidence.
    epsilon : float or None
        Lower bound: no mechanism with a smaller epsilon at the claim's delta has the
        observed rates. None if the check gives no bound.
    power : str
        Faults that the check would have found.
    notes : tuple of str
        Further observations.
    data : dict
        Numbers for the pictures.
    """

    check: str
    status: Status
    tried: str
    evidence: str
    false_alarm: float
    input: str = ""
    epsilon: float | None = None
    power: str = ""
    notes: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict, repr=False)
