"""What a lemma is to the runner."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Lemma:
    """A statement of a proof page, and how it is proved.

    Attributes
    ----------
    name : str
        That of the function.
    page, at : str
        Page of docs/proofs, which names the lemma, and words of it that head the
        statement.
    lines : tuple of str
        "file: text" of the sources that the statement restates.
    prover : callable
        Takes what `state` yields and says how it went: "proved" or else.
    state : callable
        The statement, for the constants in use (its defaults) or for others.
    wrong : tuple of dict
        Constants for which the statement is false.
    """

    name: str
    page: str
    at: str
    lines: tuple[str, ...]
    prover: Callable[[Iterable[Any]], str]
    state: Callable[..., Iterable[Any]]
    wrong: tuple[dict[str, Any], ...]

    def stale(self) -> list[str]:
        """Words that the page or the sources do not have any more."""
        page = f"docs/proofs/{self.page}"
        quotes = [f"{page}: {self.at}", f"{page}: `{self.name}`", *self.lines]
        return [quote for quote in quotes if not _has(*quote.split(": ", 1))]


def _has(file: str, text: str) -> bool:
    return _squeezed(text) in _squeezed((ROOT / file).read_text())


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


#: Every lemma, in the order in which modules state them.
LEMMAS: list[Lemma] = []


def prover(
    prove: Callable[[Iterable[Any]], str],
) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return the decorator of the lemmas that `prove` decides."""

    def lemma(
        page: str, at: str, *lines: str, wrong: list[dict[str, Any]]
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def enter(state: Callable[..., Any]) -> Callable[..., Any]:
            name = state.__name__
            entry = Lemma(name, page, at, lines, prove, state, tuple(wrong))
            LEMMAS.append(entry)
            return state

        return enter

    return lemma
