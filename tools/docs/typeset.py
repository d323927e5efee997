"""Plain-text mathematics as it is read: a_t and 2^-64 lowered and raised.

The pages write formulas in plain text, so that they can be read in an editor, and
nothing of them needs a network or a script. On the site exponents and indices of
every page are set as such; proofs get italics for letters and the signs themselves,
too. The functions take and return HTML.
"""

from __future__ import annotations

import re

_GREEK = dict(
    zip(
        (
            *("alpha", "beta", "gamma", "delta", "epsilon", "eta", "theta", "kappa"),
            *("lambda", "mu", "nu", "xi", "pi", "rho", "sigma", "tau", "phi", "chi"),
            *("psi", "omega"),
        ),
        "αβγδεηθκλμνξπρστφχψω",
        strict=True,
    )
)
_GREEK |= {name.title(): letter.upper() for name, letter in _GREEK.items()}
_GREEK["eps"] = "ε"

_NESTED = r"\((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*\)"
_NAME = rf"(?:[A-Za-z]|{'|'.join(_GREEK)}|[α-ωΑ-Ω])"
_SUB = re.compile(
    rf"(?<![\w`])({_NAME}'?)_({_NESTED}|\w(?:[A-Za-z0-9]{{0,6}}))(?![\w_])"
)
_UNDER = re.compile(r"\b(sup|inf|max|min|sum|prod|log)_(\w)(?!\w)")
_SUP = re.compile(
    rf"(?<=[\w)\]|}}'>])\^({_NESTED}|\{{[^}}\n]*\}}|\|\w+\||[-−]?\d*\.?\d+|[-−]?{_NAME}"
    rf"(?![A-Za-z])|\*|[-−]?\w+)"
)

_SIGNS = (
    (r"&lt;=", "≤"),
    (r"&gt;=", "≥"),
    (r"!=", "≠"),
    (r"\+-(?=\S)", "±"),
    (r"-&gt;", "→"),
    (r"\bsqrt(?:(?=\()| (?=\d))", "√"),
    (r"(?<=[\w)\]&gt;]) - (?=[\w(\[])", " − "),
    (r"(?<=[\s(\[|^=,])-(?=\w)", "−"),
    (r"\[\]", "□"),
    (r"\binfinity\b", "∞"),
    (r"\)_\+", ")<sub>+</sub>"),
    (r"(?<=\b[a-zA-Z0-9])-(?=[a-zA-Z0-9]\b)", "−"),
)
#: One letter that is a quantity: not an article, not the rest of a contraction.
_LETTER = re.compile(
    r"(?<![\w'’&<\-.])(?!a\b|I\b|A\b)([A-Za-z])(?!\w|['’]\w\w|\.\w|&)(?![^<]*>)"
)
#: Letters that are words elsewhere, where they can be nothing else.
_RAISED = re.compile(r"\b([aAI])(?=<su[bp]>)|(?<=<su[bp]>)([aAI])(?![\w.])")
_WORD = re.compile(rf"(?<![\w<&-])({'|'.join(_GREEK)})(\d*)(?!\w)(?![^<]*>)")


def _bare(text: str) -> str:
    """Return an exponent or index without the brackets around the whole of it."""
    inner = text[1:-1]
    if text[:1] in "({" and not re.search(r"^[^()]*\)", inner):
        return inner
    return text


def marked(html: str) -> str:
    """Return text with its exponents and indices raised and lowered."""
    lowered = _UNDER.sub(r"\1<sub>\2</sub>", html)
    lowered = _SUB.sub(lambda m: f"{m[1]}<sub>{_bare(m[2])}</sub>", lowered)
    while True:  # exponents may have exponents
        raised = _SUP.sub(lambda m: f"<sup>{_bare(m[1])}</sup>", lowered)
        if raised == lowered:
            return raised
        lowered = raised


def mathematics(html: str) -> str:
    """Return the text of a proof: `marked`, letters in italics, and signs."""
    for pattern, sign in _SIGNS:
        html = re.sub(pattern, sign, html)
    html = marked(html)
    html = _WORD.sub(_greek, html)
    html = _RAISED.sub(lambda m: f"<i>{m[1] or m[2]}</i>", html)
    return _LETTER.sub(r"<i>\1</i>", html)


def _greek(match: re.Match[str]) -> str:
    index = f"<sub>{match[2]}</sub>" if match[2] else ""
    return f"<i>{_GREEK[match[1]]}</i>{index}"
