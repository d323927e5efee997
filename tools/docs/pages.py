"""Which pages there are, where they lie on the site, and their links.

`docs/README.md` is the index: each of its sections is a section of the site, and each
page that it links is a page. A page that no section links is an error, and so is a
link that leads nowhere.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INDEX = "docs/README.md"

_FENCE = re.compile(r"^(```|~~~).*?^\1[^\S\n]*$", re.M | re.S)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^()\s]+)(\))")


class PageError(Exception):
    """A page that is listed nowhere, or a link that leads nowhere."""


@dataclass(frozen=True)
class Section:
    """A section of the index: its title, its text, and the pages that it links."""

    title: str
    text: str
    pages: tuple[str, ...]

    @property
    def slug(self) -> str:
        """The section's place on the site."""
        return re.sub(r"\W+", "-", self.title.lower())

    @property
    def summary(self) -> str:
        """The first paragraph, without links and marks."""
        first = self.text.strip().split("\n\n")[0]
        return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first).replace("\n", " ")


def prose(text: str) -> str:
    """Return a page with its code blanked out, at the same offsets."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return _CODE.sub(blank, _FENCE.sub(blank, text))


def links(text: str) -> list[str]:
    """Return the targets of a page's links, code left out, in order."""
    return [match[2] for match in _LINK.finditer(prose(text))]


def target(source: str, link: str) -> str | None:
    """Return the path in the repository that a relative link means, else None."""
    path = link.partition("#")[0]
    if not path or re.match(r"\w+:", path):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), path))


def sections(root: Path = ROOT) -> list[Section]:
    """Return the sections of the index, each page in the first that links it."""
    text = (root / INDEX).read_text("utf-8")
    found = []
    seen = {INDEX}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        pages = []
        for link in links(body):
            path = target(INDEX, link)
            if path and path.endswith(".md") and path not in seen:
                seen.add(path)
                pages.append(path)
        found.append(Section(title.strip(), body.strip() + "\n", tuple(pages)))
    return found


def check_index(root: Path = ROOT) -> None:
    """Raise `PageError` if a page of docs is listed nowhere."""
    listed = {page for section in sections(root) for page in section.pages}
    there = {
        path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.md")
    }
    lost = sorted(there - listed - {INDEX})
    if lost:
        raise PageError(f"{INDEX} links none of {', '.join(lost)}")
    gone = sorted(page for page in listed if not (root / page).is_file())
    if gone:
        raise PageError(f"{INDEX} links {', '.join(gone)}, which are not there")


_INLINE = re.compile(r"(?<![`\[])`([A-Za-z][\w./]*)(\(\))?`(?![`\]])")


def named(source: str, text: str, found: Callable[[str], str | None]) -> str:
    """Return a page's text with the names in its inline code linked to their pages.

    `found` gets the name and returns the page's place, or None. Names in headings and
    links stay as they are, and so does the second of two equal ones in a paragraph.
    """
    here = posixpath.dirname(place(source))
    plain = _FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    parts, last = [], 0
    seen: set[str] = set()
    for match in _INLINE.finditer(plain):
        line = plain.rfind("\n", 0, match.start()) + 1
        if "\n\n" in plain[last : match.start()]:
            seen.clear()
        there = found(match[1])
        if there is None or match[1] in seen or plain[line] == "#":
            continue
        if _within_link(plain, match.start()):
            continue
        seen.add(match[1])
        link = f"[{match[0]}]({posixpath.relpath(there, here or '.')})"
        parts += [text[last : match.start()], link]
        last = match.end()
    return "".join([*parts, text[last:]])


def _within_link(text: str, at: int) -> bool:
    start = text.rfind("\n\n", 0, at) + 1
    end = text.find("\n\n", at)
    block = text[start : end if end >= 0 else len(text)]
    return any(m.start() <= at - start < m.end() for m in _LINK.finditer(block))


def place(path: str) -> str:
    """Return where a page of the repository lies on the site, without its ending."""
    if path == INDEX:
        return "index"
    name = path.removesuffix(".md").removeprefix("docs/")
    if "/" in name and name.endswith("/README"):
        name = re.sub(r"\W+_?", "-", name.removesuffix("/README"))
    return name if path.startswith("docs/") else name.lower()


def relinked(source: str, text: str, found: Callable[[str], str]) -> str:
    """Return a page's text with each relative link as `found(path)` says.

    `found` gets a path in the repository and returns one on the site; links are written
    relative to where `source` lies there.
    """
    here = posixpath.dirname(place(source))
    plain = prose(text)
    parts, last = [], 0
    for match in _LINK.finditer(plain):
        path = target(source, match[2])
        if path is None:
            continue
        there = posixpath.relpath(found(path), here or ".")
        anchor = match[2].partition("#")
        start, end = match.span(2)
        parts += [text[last:start], there + anchor[1] + anchor[2]]
        last = end
    return "".join([*parts, text[last:]])
