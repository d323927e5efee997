"""The finding of one check of an audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["refuted", "fault", "nothing found", "not run"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The finding of one check; made by `run`.

    Parameters
    ----------
    check : str
        The check's name.
    status : str
        "refuted": a claim does not hold. "fault": something else is wrong, whatever
        is claimed. "nothing found", or "not run".
    tried : str
        What was done.
    evidence : str
        The strongest evidence against the claim, or why the check did not run.
    false_alarm : float
        Upper bound of the probability that a mechanism that keeps its claim is
        reported. 0 for what is seen with certainty.
    input : str
        The input, or pair of inputs, that shows it.
    epsilon : float or None
        No mechanism with a smaller epsilon, at the claim's delta, has the rates that
        were seen. None where the check bounds none.
    power : str
        The faults that the check would have found.
    notes : tuple of str
        Further observations.
    data : dict
        Figures of the pictures.
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
