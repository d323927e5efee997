"""The report as one page, for the owner of the data."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from html import escape
from typing import Any

import fastdp
from fastdp import _page
from fastdp.audit import _pictures
from fastdp.audit._findings import Finding

_STYLE = """
h3 { font-size: .98rem; margin: 0 0 .4rem; }
.pictures { display: grid; gap: 1.2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(290px, 100%), 1fr)); }
figure { margin: 0; border: 1px solid var(--line); border-radius: 8px; padding: .9rem; }
figcaption { color: var(--soft); font-size: .84rem; }
svg { width: 100%; display: block; } svg text { font-size: 11px; fill: var(--soft); }
svg .grid { stroke: #e8edf2; } svg circle { stroke: none; }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .84rem; }
.key i { display: inline-block; width: .8em; height: .8em; margin-right: .4em;
  border-radius: 2px; }
.check { border: 1px solid var(--line); border-left: 5px solid var(--good);
  border-radius: 6px; padding: .7rem 1rem; margin: 0 0 .8rem; overflow-wrap: anywhere; }
.check.bad { border-left-color: var(--bad); }
.check.none { border-left-color: #9aa5b1; }
.check p { margin: .3rem 0; } .check .answer { font-weight: 600; }
.bad .answer { color: var(--bad); } .good .answer { color: var(--good); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
details { font-size: .88rem; }
@media (max-width: 600px) { body { padding: 1rem .8rem 3rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
"""

#: Question that each check answers.
_QUESTIONS = {
    "conduct": "Does it answer every call, and do nothing else?",
    "privacy": "Can an outcome tell one input from the other, better than claimed?",
    "precision": "Do the last digits of an output tell the input?",
    "edges": "Does the claim hold where a computer's arithmetic ends?",
    "law": "Does the noise have the probabilities that are claimed?",
    "state": "Is noise used a second time?",
    "messages": "Do errors, warnings or logs show values of the data?",
    "time": "Does the time of a call tell the data or the noise?",
    "budget": "Can more answers be had than the budget affords?",
}

#: Text for each check that found a violation.
_FOUND = {
    "conduct": "It fails, prints, changes its input or gives different kinds of answer",
    "privacy": "Outcomes tell the inputs apart better than is claimed",
    "precision": "The last digits of an output tell which input it had",
    "edges": "The claim fails for numbers at the limits of a computer's arithmetic",
    "law": "The noise does not have the probabilities that are claimed",
    "state": "Noise is used a second time: who sees both results can subtract it",
    "messages": "Errors, warnings or logs show values of the data",
    "time": "The time of a call tells something of the data or of the noise",
    "budget": "More answers can be had than the budget affords",
}

_KINDS = {"refuted": "bad", "fault": "bad", "nothing found": "good", "not run": "none"}

_MEANING = (
    "The data of one person must not matter much. So the mechanism is called many "
    "times with two inputs that differ in one person, and its outcomes must be hard "
    "to tell apart. Epsilon limits how much more likely an outcome may be for one "
    "input than for the other: 1.1 times if epsilon is 0.1, 2.7 times if it is 1, 20 "
    "times if it is 3. Delta is a probability that is allowed on top; 0 is best."
)


def page(report: Any, limits: str) -> str:
    """Return the page of a `Report`."""
    pictures = [p for found in report.findings for p in _drawn(found)]
    parts = [
        "<h1>Audit of a privacy mechanism</h1>",
        f"<p class='soft'><code>{escape(report.mechanism)}</code></p>",
        _verdict(report),
        "<h2>What is claimed</h2>",
        f"<p><code>{escape(report.claim)}</code></p><p>{_MEANING}</p>",
        *(["<h2>Pictures</h2>"] if pictures else []),
        *([f"<div class='pictures'>{''.join(pictures)}</div>"] if pictures else []),
        "<h2>What was looked at</h2>",
        *map(_checked, report.findings),
        "<h2>What would have been found</h2>",
        _power(report),
        "<h2>Limits</h2>",
        f"<p>{escape(limits)}</p>",
        "<h2>How it was done</h2>",
        _facts(report),
    ]
    return _page.document(f"Audit of {report.mechanism}", _STYLE, parts)


def _verdict(report: Any) -> str:
    bad = [f for f in report.findings if f.status in ("refuted", "fault")]
    if not bad:
        return (
            "<div class='state' id='verdict'><b>No evidence found against the claim."
            "</b> This is no proof that it holds: see the limits below.</div>"
        )
    listed = "".join(f"<li>{escape(_answer(f))}.</li>" for f in bad)
    return (
        "<div class='state bad' id='verdict'><b>The mechanism does not keep what is "
        f"claimed, or has a fault.</b><ul>{listed}</ul>Show this page to whoever made "
        "it. Until this is mended, its results may tell more of a person than was "
        "agreed on.</div>"
    )


def _answer(found: Finding) -> str:
    if found.status in ("nothing found", "not run"):
        return "Not looked at" if found.status == "not run" else "No evidence found"
    return _FOUND[found.check]


def _checked(found: Finding) -> str:
    kind = _KINDS[found.status]
    shown = f"<p>Shown by: {escape(found.input)}</p>" if found.input else ""
    notes = "".join(f"<p class='soft'>{escape(note)}</p>" for note in found.notes)
    return (
        f"<div class='check {kind}' id='{escape(found.check)}'>"
        f"<h3>{escape(_QUESTIONS[found.check])}</h3>"
        f"<p class='answer'>{escape(_answer(found))}</p>"
        f"<p>{escape(_sentence(found.evidence))}</p>{shown}"
        f"{notes}<details><summary class='soft'>What was tried</summary>"
        f"{escape(_sentence(found.tried))} {_alarm(found)}</details></div>"
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _alarm(found: Finding) -> str:
    if not found.false_alarm:
        return "What is reported was seen; it does not depend on chance."
    return (
        "A mechanism that keeps its claim is reported here with a probability of at "
        f"most {found.false_alarm:.3g}."
    )


def _power(report: Any) -> str:
    rows = "".join(
        f"<tr><td>{escape(f.check)}</td><td>{escape(f.power)}</td></tr>"
        for f in report.findings
        if f.power
    )
    return (
        "<p>A smaller fault may be there and stay unseen. Ten times the draws find one "
        "about a third as large.</p><table><thead><tr><th>check</th><th>finds</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>"
    )


def _facts(report: Any) -> str:
    facts = {
        "draws of each input": f"{report.draws:,}",
        "probability of a false alarm, at most": f"{report.level:g}",
        "run time": f"{report.seconds:.1f} s",
        "made by": f"fastdp {fastdp.__version__}",
        "page written": datetime.datetime.now(datetime.UTC).isoformat(" ", "minutes"),
    }
    rows = "".join(
        f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()
    )
    return f"<dl>{rows}</dl>"


def _drawn(found: Finding) -> Iterator[str]:
    """Yield the pictures of a check."""
    data = found.data
    if data.get("curve"):
        yield _pictures.trade_off(data)
    if "edges" in data.get("outputs", {}):
        yield _pictures.outputs(data["outputs"])
    if "kinds" in data.get("outputs", {}):
        yield _kinds(data["outputs"]["kinds"])
    if data.get("support"):
        yield _pictures.support(data["support"])
    if "times" in data:
        yield _pictures.times(data["times"])


def _kinds(rows: list[list[Any]]) -> str:
    body = "".join(
        f"<tr><td>{escape(name)}</td><td>{first:.4g}</td><td>{second:.4g}</td></tr>"
        for name, first, second in rows
    )
    return (
        "<figure><h3>What comes out</h3><table><thead><tr><th>outcome</th>"
        "<th>first input</th><th>second</th></tr></thead>"
        f"<tbody>{body}</tbody></table></figure>"
    )
