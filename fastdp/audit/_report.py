"""The report of an audit: text, JSON and a page."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass

from fastdp.audit import _html
from fastdp.audit._findings import Finding

_WIDTH = 88

LIMITS = (
    '"Nothing found" is no proof. An audit calls the mechanism a limited '
    "number of times, with the inputs named above, and sees what differs by more than "
    "it can explain by chance. A fault that is smaller, that needs another input or "
    "that shows once in more calls than these stays unseen. Calls are taken to be "
    "independent of each other; the state check looks for calls that are not."
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings of an audit, from `run`.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism.
    claim : str
        The claim.
    draws : int
        Draws for each input.
    level : float
        Upper bound on the probability that the audit reports a mechanism that keeps its
        claim.
    seconds : float
        Run time.
    findings : tuple of Finding
        One finding per check.
    """

    mechanism: str
    claim: str
    draws: int
    level: float
    seconds: float
    findings: tuple[Finding, ...]

    @property
    def refuted(self) -> bool:
        """Whether a claim is refuted or a fault was found."""
        return any(f.status in ("refuted", "fault") for f in self.findings)

    def finding(self, check: str) -> Finding:
        """Return the finding of a check.

        Parameters
        ----------
        check : str
            The check's name, such as "privacy".

        Raises
        ------
        KeyError
            The audit has no such check.
        """
        for found in self.findings:
            if found.check == check:
                return found
        raise KeyError(check)

    def __str__(self) -> str:
        """Return the report as text."""
        worst = "FOUND SOMETHING" if self.refuted else "found nothing"
        lines = [
            f"Audit of {self.mechanism}: {worst}",
            f"claim: {self.claim}",
            (
                f"{self.draws:,} draws of each input in {self.seconds:.1f} s; a sound "
                f"mechanism is reported with probability at most {self.level:g}"
            ),
            "",
        ]
        for found in self.findings:
            lines.append(f"{found.check:<10} {found.status.upper()}")
            lines += _wrapped(found.evidence)
            if found.input:
                lines += _wrapped(f"shown by: {found.input}")
            lines += _wrapped(f"tried: {found.tried}")
            if found.power:
                lines += _wrapped(f"power: {found.power}")
            if found.status != "not run":
                lines += _wrapped(f"false alarm: at most {found.false_alarm:.3g}")
            for note in found.notes:
                lines += _wrapped(f"note: {note}")
            lines.append("")
        return "\n".join([*lines, *textwrap.wrap(f"Limits: {LIMITS}", _WIDTH)])

    def to_html(self) -> str:
        """Return the report as a self-contained page with pictures."""
        return _html.page(self, LIMITS)

    def to_json(self) -> str:
        """Return the report as JSON: the fields of `Report` and of each `Finding`."""
        return json.dumps({"refuted": self.refuted, **asdict(self)}, indent=2)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")
