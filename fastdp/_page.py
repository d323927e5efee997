"""The frame of self-contained HTML pages: no script, no link, no external resource."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_STYLE = """
:root { color-scheme: light; --ink: #1d2733; --soft: #5b6875; --line: #d9e0e7;
  --fill: #2f6f9f; --warn: #b45f06; --bad: #a61b1b; --good: #22713d; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1.5rem 4rem; color: var(--ink);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; background: #fff; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .8rem; }
p.soft, .soft { color: var(--soft); }
code { font-size: .92em; overflow-wrap: anywhere; }
.state { border-left: 5px solid var(--good); background: #f2f8f4; padding: .7rem 1rem;
  margin: 1.2rem 0; } .state.bad { border-color: var(--bad); background: #fbf1f1; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .4rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; } th { color: var(--soft); font-weight: 600; }
@media print { details { break-inside: avoid; } }
"""


def document(title: str, style: str, parts: Iterable[str]) -> str:
    """Return a page as HTML.

    Parameters
    ----------
    title : str
        Plain text.
    style : str
        CSS rules of this page, added to the rules that all pages share.
    parts : iterable of str
        HTML.
    """
    lines = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}{style}</style></head><body>",
        *parts,
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"
