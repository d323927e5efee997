"""Imports only go down: C includes by folder, Python imports by module."""

import ast
import functools
import re
import sys
from pathlib import Path

import pytest

from fastdp.accounting import (
    GaussianEvent,
    LaplaceEvent,
    PLDAccountant,
    PoissonSampledEvent,
    PureDPEvent,
)

ROOT = Path(__file__).parents[2]

# ---- C -------------------------------------------------------------------------

#: From the bottom up; fastdp.h lies beside them and is seen by all.
LAYERS = ("base", "exact", "rng", "sampler", "mech")


def c_files():
    return sorted((ROOT / "csrc").rglob("*.[ch]"))


def upward_includes(path, root):
    """Return the includes of a C file that its layer must not see."""
    bad = []
    layer = path.parent.name if path.parent != root else None
    for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.M):
        target = (path.parent / name).resolve()
        if not target.is_file():
            bad.append(f"{name}: not there")
        elif target.parent == root.resolve():
            if target.name != "fastdp.h":
                bad.append(f"{name}: no layer")
        elif layer is None or target.parent.name not in LAYERS:
            bad.append(f"{name}: no layer")
        elif LAYERS.index(target.parent.name) > LAYERS.index(layer):
            bad.append(f"{name}: upward")
    return bad


def test_there_is_c_to_read():
    assert len(c_files()) > 20


@pytest.mark.parametrize("path", c_files(), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_includes_go_down(path):
    assert upward_includes(path, ROOT / "csrc") == []


def test_an_upward_include_is_seen(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "mech").mkdir()
    (tmp_path / "mech" / "draw.h").write_text("")
    low = tmp_path / "base" / "low.c"
    low.write_text('#include <string.h>\n#include "../mech/draw.h"\n')
    assert upward_includes(low, tmp_path) == ["../mech/draw.h: upward"]


@pytest.mark.parametrize("path", c_files(), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_c_keeps_away_from_stdio_and_python(path):
    # Allocation is scratch.c's alone; stdlib.h also gives cpu.c its getenv.
    text = path.read_text()
    for header in ("stdio.h", "Python.h", "time.h", "pthread.h", "assert.h"):
        assert f"<{header}>" not in text
    if path.name != "scratch.c":
        assert not re.search(r"\b(malloc|calloc|realloc|aligned_alloc)\s*\(", text)


# ---- Python --------------------------------------------------------------------

_FLOOR = {"exceptions", "_public", "_validate"}

#: What each module or subpackage may import of the package. `fastdp` itself is lazy.
MAY_IMPORT = {
    "exceptions": set(),
    "_public": set(),
    "_spill": set(),
    "_page": set(),
    "_validate": {"exceptions"},
    "_threads": {"exceptions"},
    "_stream": {"exceptions"},
    "_special": {"exceptions"},
    "_core": {"exceptions"},
    "_exact": _FLOOR,
    "_factors": {"_validate", "exceptions"},
    "_arrays": {*_FLOOR, "_core", "_stream", "_threads"},
    "_laws": {*_FLOOR, "_core"},
    "_arrow": {"_core", "exceptions"},
    "_doorway": {"_arrow", "exceptions"},
    "_selection": {*_FLOOR, "_arrays", "_core", "_stream"},
    "_ranking": {"_core", "_selection", "_stream", "exceptions"},
    "_config": {"fastdp", "_core"},
    "distributions": {*_FLOOR, "_special"},
    # of the extension one function: sums of losses, when a profile is read
    "accounting": {*_FLOOR, "_core", "_factors", "_special", "distributions"},
    "calibration": {*_FLOOR, "accounting", "distributions"},
    "_uniform": {*_FLOOR, "_arrays", "_core", "_stream"},
    "random": {
        *_FLOOR,
        *("_arrays", "_core", "_laws", "_selection", "_stream", "_uniform"),
    },
    "_points": {"_core", "_exact", "_stream", "random"},
    "mechanisms": {
        *_FLOOR,
        *("_arrays", "_arrow", "_core", "_exact"),
        *("_doorway", "_factors", "_laws", "_points", "_ranking"),
        *("_selection", "_stream"),
        *("accounting", "calibration", "distributions", "random"),
    },
    "plot": _FLOOR | {"accounting"},
    "ledger": _FLOOR | {"fastdp", "_page", "accounting", "mechanisms"},
    "frames": {
        *_FLOOR,
        *("_doorway", "_spill", "_stream", "accounting", "calibration", "ledger"),
        *("mechanisms", "random"),
    },
    "adapters": {
        *_FLOOR,
        *("_stream", "accounting", "mechanisms", "random", "training"),
    },
    "audit": _FLOOR | {"fastdp", "_page", "accounting"},
    "tables": {
        *_FLOOR,
        *("_doorway", "_stream", "accounting", "calibration", "frames", "ledger"),
        *("mechanisms", "random"),
    },
    "training": {
        *_FLOOR,
        *("_arrays", "_core", "_doorway", "_stream", "accounting", "mechanisms"),
    },
    "learning": {
        *_FLOOR,
        *("_arrays", "_core", "_doorway", "_stream", "accounting", "frames"),
        *("ledger", "mechanisms", "tables"),
    },
    "testing": {*_FLOOR, "_core", "_exact", "_stream", "distributions"},
}

#: The command line uses what a user of the package has, and public-parameter helpers.
NOT_FOR_CLI = {
    *("testing", "_core", "_arrays", "_exact"),
    *("_ranking", "_selection"),
}


def python_files():
    paths = (ROOT / "fastdp").rglob("*.py*")
    return sorted(p for p in paths if p.suffix in (".py", ".pyx"))


def executed(node):
    """Yield the nodes that run: not what is there for type checkers alone."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            if child in node.orelse:
                yield from executed(child)
        else:
            yield from executed(child)


def imported(text, suffix):
    """Return the modules of the package that a source imports, by their first name."""
    if suffix == ".pyx":
        found = re.findall(r"^\s*from fastdp\.(\w+) c?import", text, re.M)
        return set(found)
    names = set()
    for node in executed(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "fastdp":
            modules = [f"fastdp.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            modules = [node.module]
        else:
            continue
        parts = [module.split(".") for module in modules]
        names |= {[*p, "fastdp"][1] for p in parts if p[0] == "fastdp"}
    return names


def unit_of(path):
    relative = path.relative_to(ROOT / "fastdp")
    return relative.parts[0].partition(".")[0]


@pytest.mark.parametrize(
    "path", python_files(), ids=lambda p: str(p.relative_to(ROOT / "fastdp"))
)
def test_imports_go_down(path):
    unit = unit_of(path)
    names = imported(path.read_text(), path.suffix) - {unit}
    if unit == "__init__":
        assert names == set()
    elif unit == "cli":
        assert not names & NOT_FOR_CLI
    else:
        assert names - MAY_IMPORT[unit] == set()


#: Which rooms of `fastdp.mechanisms` each room imports. "" is what all of them share.
ROOMS = {
    "": set(),
    "noise": {""},
    "records": {"", "noise"},
    "choices": {"", "noise", "records"},
    "running": {"", "noise", "records"},
    "local": {""},
    "pate": {"", "choices"},
}


def room_of(module):
    first = module.removeprefix("fastdp.mechanisms.").partition(".")[0]
    return first if first in ROOMS else ""


def test_the_rooms_of_mechanisms_import_what_they_may():
    arrows = arrows_of("fastdp.mechanisms")
    found = {room: set() for room in ROOMS}
    for module, below in arrows.items():
        found[room_of(module)] |= {room_of(other) for other in below}
    assert {r: below - {r} for r, below in found.items()} == {
        room: below - {room} for room, below in ROOMS.items()
    }
    assert in_circles(ROOMS) == set()


# ---- the accounting wing ---------------------------------------------------------

#: Floors of `fastdp.accounting`, from the bottom up, by the first name below it: a
#: module imports from its own floor and those below.
FLOORS = {
    "numbers and events": (
        *(
            "_bounds",
            "_discrete_gaussian",
            "_gaussian",
            "_gdp",
            "_grid_noise",
            "_skellam",
        ),
        *("_laplace", "_numeric", "_response", "_sampling", "_series", "_zcdp"),
        *("conversions", "events", "groups"),
    ),
    "laws and engines": (
        *(
            "_atoms",
            "_pld",
            "_renyi",
            "_trade_off",
            "_trade_off_functions",
            "_trade_off_laws",
        ),
    ),
    "facts": ("_facts",),
    "accountants": (
        *("_accountant", "_curve_readings", "_record"),
        *("approx", "fdp", "pld", "pure", "rdp", "tcdp", "zcdp"),
    ),
    "readings": (
        *("_amplification", "_audits", "_calibrate", "amplification", "calculators"),
        *("_filter", "filters", "guarantees", "odometers", "parallel", "readings", ""),
    ),
}
FLOOR_OF = {name: i for i, names in enumerate(FLOORS.values()) for name in names}
WING = "fastdp.accounting"


def modules_of(package):
    """Return the paths of a package's modules by name."""
    found = {}
    for path in (ROOT / package.replace(".", "/")).rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def inner_imports(text, modules):
    """Return the modules that a source imports, those for types alone included."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (full & set(modules)) or {node.module}
    return names & set(modules)


def floor_of(module):
    return FLOOR_OF[module.removeprefix(WING).lstrip(".").partition(".")[0]]


def in_circles(arrows):
    """Return the modules from which a way of imports leads back to them."""
    left = dict(arrows)
    while ready := [m for m, below in left.items() if not below & set(left)]:
        for module in ready:
            del left[module]
    reached = {name: below & set(left) for name, below in left.items()}
    grown = True
    while grown:
        grown = False
        for below in reached.values():
            further = set().union(*(reached.get(other, set()) for other in below))
            grown = grown or not further <= below
            below |= further
    return {name for name, below in reached.items() if name in below}


def heights(arrows):
    """Return on which floor each module stands, counted from its own imports."""
    found = {}
    while len(found) < len(arrows):
        for module, below in arrows.items():
            if module not in found and below <= set(found):
                found[module] = 1 + max((found[b] for b in below), default=0)
    return found


@functools.cache
def arrows_of(package):
    modules = modules_of(package)
    return {
        name: inner_imports(path.read_text(), modules) - {name, package}
        for name, path in modules.items()
        if name != package
    }


def test_the_wing_has_floors():
    arrows = arrows_of(WING)
    assert len(arrows) > 50
    upward = [
        (module, other)
        for module, below in arrows.items()
        for other in below
        if floor_of(other) > floor_of(module)
    ]
    assert upward == []


def test_no_imports_go_in_a_circle():
    arrows = arrows_of("fastdp")
    assert len(arrows) > 200
    assert in_circles(arrows) == set()


@pytest.mark.rest
def test_the_wing_is_counted():
    """Prints (with -s) the rooms and floors of the wing and of its engine."""
    arrows, modules = arrows_of(WING), modules_of(WING)
    engine = {
        name: {b for b in below if "._pld." in b}
        for name, below in arrows.items()
        if "._pld." in name
    }
    for title, part in (("wing", arrows), ("engine", engine)):
        lines = sum(len(modules[name].read_text().splitlines()) for name in part)
        floors = max(heights(part).values())
        print(f"{title}: {len(part)} rooms, {floors} floors, {lines} lines")
        assert floors > 1
    assert len(engine) <= 30
    assert max(heights(engine).values()) <= 7


def sampled_step(rate, sigma):
    return PoissonSampledEvent(rate, GaussianEvent(sensitivity=1, sigma=sigma))


#: What is composed, with a parameter, and how many files its reading may enter.
READINGS = {
    "Gaussian noise": (lambda x: [(GaussianEvent(sensitivity=1, sigma=x), 3)], 12),
    "pure events": (lambda x: [(PureDPEvent(x / 10), 20)], 12),
    "1,000 sampled steps": (lambda x: [(sampled_step(0.01, x), 1000)], 16),
    "2 sampled steps": (lambda x: [(sampled_step(0.1, x / 2), 2)], 21),
    "10 scales": (
        lambda x: [(LaplaceEvent(sensitivity=1, scale=x * n), 1) for n in range(9, 19)],
        20,
    ),
}


@pytest.mark.parametrize("name", READINGS)
def test_the_files_that_a_reading_enters_are_counted(name):
    """Prints them (with -s): of the second reading, so that nothing is set up."""
    events, most = READINGS[name]
    for parameter in (1, 1.01):
        accountant, entered = PLDAccountant(), set()
        for event, count in events(parameter):
            accountant.compose(event, count)
        before = sys.getprofile()
        sys.setprofile(lambda frame, *_, to=entered: to.add(frame.f_code.co_filename))
        try:
            accountant.epsilon(1e-5)
        finally:
            sys.setprofile(before)
    package = str(ROOT / "fastdp")
    found = sorted(file for file in entered if file.startswith(package))
    print(f"{name}: a reading enters {len(found)} files")
    assert 0 < len(found) <= most, found


def test_the_packages_import_each_other_in_no_circle():
    arrows = {}
    for module, below in arrows_of("fastdp").items():
        own = module.split(".")[1]
        named = {other.split(".")[1] for other in below}
        arrows[own] = arrows.get(own, set()) | named - {own}
    assert arrows["tables"] >= {"frames", "ledger", "mechanisms"}
    assert in_circles(arrows) == set()


def test_an_upward_import_and_a_circle_are_seen():
    modules = {"fastdp.accounting.pld": None, "fastdp.accounting._pld.atoms": None}
    text = "def f():\n    from fastdp.accounting.pld import X\n"
    assert inner_imports(text, modules) == {"fastdp.accounting.pld"}
    typed = "if TYPE_CHECKING:\n    from fastdp.accounting.pld import X\n"
    assert inner_imports(typed, modules) == {"fastdp.accounting.pld"}
    assert floor_of("fastdp.accounting.pld") > floor_of("fastdp.accounting._pld.atoms")
    assert in_circles({"a": {"b"}, "b": {"a"}, "c": {"a"}, "d": set()}) == {*"ab"}


def test_the_layers_have_no_cycle():
    done = set()
    while len(done) < len(MAY_IMPORT):
        ready = {
            unit
            for unit, below in MAY_IMPORT.items()
            if unit not in done and not (below & set(MAY_IMPORT)) - done
        }
        assert ready
        done |= ready


def test_every_kind_of_import_is_seen():
    text = (
        "import fastdp\n"
        "import fastdp.random as r\n"
        "from fastdp import _core, testing\n"
        "def f():\n    from fastdp.accounting.events import Event\n"
        "if TYPE_CHECKING:\n    from fastdp import cli\n"
        "else:\n    from fastdp import plot\n"
    )
    seen = {"fastdp", "random", "_core", "testing", "accounting", "plot"}
    assert imported(text, ".py") == seen
    assert imported("from fastdp._core cimport f\n", ".pyx") == {"_core"}


@pytest.mark.rest
def test_nothing_imports_testing():
    for path in python_files():
        if unit_of(path) != "testing":
            assert "testing" not in imported(path.read_text(), path.suffix), path
