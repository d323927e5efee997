"""Assembles the sources of the site and has Sphinx build it."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from . import api, gallery, pages, pictures, typeset

ROOT = pages.ROOT

_GALLERY = "gallery/index"
_LANDING = Path(__file__).parent / "landing.md"


def build(out: Path, *, jobs: int = 2) -> int:
    """Build the site into a folder; return Sphinx's status, 0 without a warning."""
    from sphinx.cmd.build import main

    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "source"
        assemble(source)
        here = str(Path(__file__).parent)
        options = ["-q", "-W", "--keep-going", "-j", str(jobs), "-c", here]
        return int(main([*options, "-d", f"{name}/doctrees", str(source), str(out)]))


def assemble(folder: Path) -> None:
    """Write the sources of every page of the site into a folder."""
    pages.check_index()
    folder.mkdir(parents=True)
    listed = pages.sections()
    examples = gallery.write(folder / "gallery")
    api.write(folder / "api")
    names = api.References()
    known = {page for section in listed for page in section.pages}
    (folder / "pictures").mkdir()

    def found(path: str) -> str:
        if path in known or path == pages.INDEX:
            return pages.place(path) + ".md"
        if path == "examples" or path in examples:
            return examples.get(path, "gallery/index.md")
        if path.endswith(".md") or not (ROOT / path).is_file():
            raise pages.PageError(f"{pages.INDEX} lists no {path}, which is linked")
        copy = folder / "files" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, copy)
        return f"files/{path}"

    def about(name: str) -> str | None:
        script = f"examples/{name.removeprefix('examples/')}"
        return examples.get(script) or names.page(name)

    for path in known:
        text = (ROOT / path).read_text("utf-8")
        text = pages.named(path, pages.relinked(path, text, found), about)
        there = folder / f"{pages.place(path)}.md"
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(pictures.shown(ROOT / path, text, there), "utf-8")
    for section in listed:
        if section.pages:
            text = _section(section, found)
            (folder / f"{section.slug}.md").write_text(text, "utf-8")
    (folder / "index.md").write_text(_landing(listed), "utf-8")


def _section(section: pages.Section, found: Any) -> str:
    places = [pages.place(page) for page in section.pages]
    toctree = ["```{toctree}", ":hidden:", "", *places, "```", ""]
    text = pages.relinked(pages.INDEX, section.text, found)
    return f"# {section.title}\n\n" + "\n".join(toctree) + "\n" + text


def _landing(listed: list[pages.Section]) -> str:
    """Return the first page: a section without pages is that of the examples."""
    cards = [(s.slug if s.pages else _GALLERY, s.title, s.summary) for s in listed]
    place = [slug for slug, _, _ in cards].index(_GALLERY) + 1
    cards.insert(place, ("api/index", "API", "Every public name on a page of its own."))
    toctree = "\n".join(slug for slug, _, _ in cards)
    rows = [
        f'<a class="card-link" href="{slug}.html"><b>{title}</b><span>{text}</span></a>'
        for slug, title, text in cards
    ]
    text = _LANDING.read_text("utf-8")
    return text.replace("@toctree@", toctree).replace("@cards@", "\n".join(rows))


# ---- Sphinx's events -----------------------------------------------------------------


def setup(app: Any) -> dict[str, bool]:
    """Connect what docstrings and plain-text mathematics need."""
    names = api.References()

    def docstring(
        _app: Any, _what: str, name: str, _thing: Any, _options: Any, lines: list[str]
    ) -> None:
        lines[:] = names.rst(lines, name)

    def signature(
        _app: Any,
        _what: str,
        _name: str,
        _thing: Any,
        _options: Any,
        text: str | None,
        returned: str | None,
    ) -> tuple[str | None, str | None]:
        # Every constructor takes **unknown, to say which argument is not known.
        return re.sub(r"(, )?\*\*unknown\b", "", text or "") or None, returned

    app.connect("autodoc-process-docstring", docstring, priority=1)
    app.connect("autodoc-process-signature", signature)
    app.connect("builder-inited", _typeset)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _typeset(app: Any) -> None:
    """Have the HTML writer set mathematics; what is searched stays as it was typed."""
    from docutils import nodes

    base = app.registry.translators.get("html") or app.builder.default_translator_class

    class Translator(base):  # type: ignore[misc, valid-type]
        def visit_Text(self, node: Any) -> None:  # noqa: N802 - docutils' name
            super().visit_Text(node)
            if self.protect_literal_text or _is_code(node):
                return
            proof = self.builder.current_docname.startswith("proofs/")
            change = typeset.mathematics if proof else typeset.marked
            self.body[-1] = change(self.body[-1])

        def visit_literal_block(self, node: Any) -> None:
            proof = self.builder.current_docname.startswith("proofs/")
            if proof and node.get("language") in (None, "default", "none"):
                text = typeset.mathematics(self.encode(node.astext()))
                self.body.append(f'<div class="formula">{text}</div>\n')
                raise nodes.SkipNode
            super().visit_literal_block(node)

    app.set_translator("html", Translator, override=True)


def _is_code(node: Any) -> bool:
    """Return whether a text belongs to a signature or a name."""
    while node is not None:
        kind = type(node).__name__
        if kind.startswith("desc_") and kind != "desc_content":
            return True
        if kind in ("literal", "document", "paragraph"):
            return bool(kind == "literal")
        node = node.parent
    return False
