"""The API, a page for each public name, from the docstrings.

A name is public where a public module lists it in `__all__`. It is shown under the
shortest path that leads to it, once.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import fastdp

#: In this order on the site; every other public module follows.
FIRST = ("fastdp", "fastdp.mechanisms.local", "fastdp.accounting", "fastdp.ledger")

#: Bases whose methods are Python's own business.
_FOREIGN = (
    *("object", "tuple", "str", "int", "Exception", "BaseException", "Enum"),
    *("Protocol", "Generic", "ValueError", "TypeError", "RuntimeError", "Warning"),
)


@dataclass(frozen=True)
class Module:
    """A public module, and the names that are shown under it."""

    name: str
    names: tuple[str, ...] = field(default=())

    @property
    def summary(self) -> str:
        """The first sentence of its docstring."""
        return first_line(importlib.import_module(self.name))


def first_line(thing: Any) -> str:
    """Return the summary of a docstring, on one line."""
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split())


def public_modules() -> list[str]:
    """Return the dotted names of all modules that list public names."""
    found = ["fastdp"]
    for info in pkgutil.walk_packages(fastdp.__path__, "fastdp."):
        if not re.search(r"\._", info.name) and hasattr(
            importlib.import_module(info.name), "__all__"
        ):
            found.append(info.name)
    return sorted(found, key=lambda name: (name.count("."), name))


def modules() -> list[Module]:
    """Return every public module with the names that no shorter path has."""
    seen: set[int] = set()
    found = []
    for name in public_modules():
        module = importlib.import_module(name)
        own = []
        for entry in sorted(module.__all__, key=lambda n: (not n[0].isupper(), n)):
            thing = getattr(module, entry)
            if isinstance(thing, ModuleType) or entry == "__version__":
                continue
            if id(thing) not in seen:
                seen.add(id(thing))
                own.append(entry)
        if own:
            found.append(Module(name, tuple(own)))
    place = {name: i for i, name in enumerate(FIRST)}
    return sorted(found, key=lambda m: (place.get(m.name, len(place)), m.name))


def write(folder: Path) -> list[str]:
    """Write the pages into a folder, and return their names, the index first."""
    folder.mkdir(parents=True)
    every = modules()
    lines = ["# API", "", _INTRO, "", "```{toctree}", ":hidden:", ""]
    lines += [module.name for module in every]
    lines += ["```", "", "| module | what it holds |", "|---|---|"]
    lines += [f"| [{m.name}]({m.name}.md) | {_cell(m.summary)} |" for m in every]
    (folder / "index.md").write_text("\n".join(lines) + "\n", "utf-8")
    for module in every:
        (folder / f"{module.name}.md").write_text(_module_page(module), "utf-8")
        loaded = importlib.import_module(module.name)
        for name in module.names:
            page = _page(module.name, name, getattr(loaded, name))
            (folder / f"{module.name}.{name}.rst").write_text(page, "utf-8")
    return ["index", *(m.name for m in every)]


_INTRO = (
    "Every public name has a page: shapes, units, errors, what it guarantees and for "
    "whom, its source. The same text is in `help(fastdp.DiscreteLaplace)`."
)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _module_page(module: Module) -> str:
    loaded = importlib.import_module(module.name)
    lines = [f"# {module.name}", "", _cell(module.summary), ""]
    lines += ["```{toctree}", ":hidden:", ""]
    lines += [f"{name} <{module.name}.{name}>" for name in module.names]
    lines += ["```", "", "| name | |", "|---|---|"]
    for name in module.names:
        link = f"[`{name}`]({module.name}.{name}.rst)"
        lines.append(f"| {link} | {_cell(_summary(getattr(loaded, name)))} |")
    return "\n".join(lines) + "\n"


def _summary(thing: Any) -> str:
    if inspect.isclass(thing) or inspect.isroutine(thing):
        return first_line(thing)
    return f"`{thing!r}`" if isinstance(thing, (int, str)) else "A type."


def _page(module: str, name: str, thing: Any) -> str:
    title = [name, "=" * len(name), "", f".. currentmodule:: {module}", ""]
    if inspect.isclass(thing):
        members = ["   :members:", f"   :inherited-members: {', '.join(_FOREIGN)}"]
        return "\n".join([*title, f".. autoclass:: {name}", *members, ""])
    kind = "autofunction" if inspect.isroutine(thing) else "autodata"
    return "\n".join([*title, f".. {kind}:: {name}", ""])


# ---- docstrings as reStructuredText ------------------------------------------------


class References:
    """What single backticks mean in a docstring: a public name, or code."""

    def __init__(self) -> None:
        self._full: dict[str, str] = {}
        self._pages: set[str] = set()
        for module in modules():
            loaded = importlib.import_module(module.name)
            for name in module.names:
                full = f"{module.name}.{name}"
                self._pages.add(full)
                self._full.setdefault(name, full)
                for path in self._paths(module.name, name):
                    self._full.setdefault(path, full)
                thing = getattr(loaded, name)
                if inspect.isclass(thing):
                    for member in _members(thing):
                        self._full.setdefault(f"{name}.{member}", f"{full}.{member}")
                        self._full.setdefault(f"{full}.{member}", f"{full}.{member}")

    def page(self, text: str) -> str | None:
        """Return the page of a name that a page of text has in its code, or None.

        Single words in small letters mean too many things to be linked.
        """
        full = self._full.get(text)
        if full is None or not ("." in text or text[:1].isupper()):
            return None
        while full not in self._pages:
            full = full.rpartition(".")[0]
        return f"api/{full}.rst"

    @staticmethod
    def _paths(module: str, name: str) -> Iterator[str]:
        parts = [*module.split("."), name]
        yield from (".".join(parts[i:]) for i in range(len(parts) - 1))

    def full(self, text: str, inside: str) -> str | None:
        """Return the full name that `text` means in the docstring of `inside`."""
        name = text.removesuffix("()")
        owner = self._full.get(inside.rpartition(".")[0]) or inside
        for scope in (inside, owner):
            found = self._full.get(f"{scope}.{name}")
            if found is not None:
                return found
        return self._full.get(name)

    def rst(self, lines: list[str], inside: str) -> list[str]:
        """Return a docstring's lines with references marked and plain signs escaped."""

        def replaced(match: re.Match[str]) -> str:
            if match["type"]:
                full = self.full(match["type"], inside)
                return f"{match['head']}:py:obj:`~{full}`" if full else match[0]
            if match["sign"]:
                return match[0][:-1] + "\\" + match[0][-1]
            if not match["name"]:
                return match[0]
            text = " ".join(match["name"].split())
            full = self.full(text, inside)
            return f":py:obj:`{text} <{full}>`" if full else f"``{text}``"

        return _MARKS.sub(replaced, "\n".join(lines)).split("\n")


#: Examples and double backticks stay; names; signs that have a meaning there.
_MARKS = re.compile(
    r"^ *>>>.*?(?=\n\s*\n|\Z)|``.+?``|`(?P<name>[^`]+)`|(?P<sign>[|*\\]|\w_(?!\w))"
    r"|^(?P<head>[a-z_]+ : )(?P<type>[A-Z]\w+)",
    re.M | re.S,
)


def _members(thing: type) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_")]
