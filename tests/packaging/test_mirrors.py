"""The header, its Cython mirror and the type stub say the same."""

import ast
import inspect
import re
from pathlib import Path

from fastdp import _core

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "csrc" / "fastdp.h"
MIRROR = ROOT / "fastdp" / "__init__.pxd"

# ---- fastdp.h and __init__.pxd -----------------------------------------------------

#: Macros of the compiler's, not of the interface.
_NOT_MIRRORED = {"FDP_API", "FDP_NODISCARD"}


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def header_symbols(text):
    text = without_comments(text)
    return {
        "functions": set(re.findall(r"\b(fdp_\w+)\s*\([^*]", text)),
        "types": set(re.findall(r"\}\s*(fdp_\w+_t)\s*;", text))
        | set(re.findall(r"\(\*(fdp_\w+)\)", text)),
        "enumerators": set(re.findall(r"\b(FDP_\w+)\s*=\s*\d+", text)),
        "constants": set(re.findall(r"^#define\s+(FDP_\w+)\s+\d", text, re.M)),
    }


def mirror_symbols(text):
    text = re.sub(r"#[^\n]*", "", text)
    enumerators = set()
    for block in re.findall(r"ctypedef enum \w+:\n((?:\s+FDP_\w+\n)+)", text):
        enumerators |= set(block.split())
    return {
        "functions": set(re.findall(r"^    [\w ]+[ *](fdp_\w+)\(", text, re.M)),
        "types": set(re.findall(r"ctypedef (?:enum|struct|union) (\w+):", text))
        | set(re.findall(r"\(\*(fdp_\w+)\)", text)),
        "enumerators": enumerators,
        "constants": set(re.findall(r"^    size_t (FDP_\w+)$", text, re.M)),
    }


def header_fields(text):
    """Return the fields of each structure and union, in order."""
    fields = {}
    pattern = r"typedef (?:struct|union) \{([^{}]*)\}\s*(fdp_\w+_t)\s*;"
    for body, name in re.findall(pattern, without_comments(text)):
        fields[name] = []
        for line in body.split(";"):
            for part in re.sub(r"\[\w+\]", "", line).split(","):
                if part.strip():
                    fields[name].append(re.search(r"(\w+)\s*$", part)[1])
    return fields


def mirror_fields(text):
    fields, name = {}, None
    for line in re.sub(r"#[^\n]*", "", text).splitlines():
        opened = re.match(r"    ctypedef (?:struct|union) (\w+):", line)
        if opened:
            name = opened[1]
            fields[name] = []
        elif name and line.startswith("        "):
            fields[name] += re.findall(r"(\w+)(?:\[\d+\])*\s*(?:,|$)", line)
        elif line.strip():
            name = None
    return fields


def test_the_mirror_has_every_symbol_of_the_header():
    header = header_symbols(HEADER.read_text())
    mirror = mirror_symbols(MIRROR.read_text())
    assert {"fdp_release", "fdp_call_open"} <= header["functions"]
    assert header["constants"] - _NOT_MIRRORED
    assert header == mirror


def test_the_mirror_has_every_field_of_the_header():
    header = header_fields(HEADER.read_text())
    assert header["fdp_stream_t"] == ["cipher", "key", "tape"]
    assert header == mirror_fields(MIRROR.read_text())


def test_a_missing_symbol_would_be_seen():
    text = HEADER.read_text() + "\nFDP_API int fdp_new_thing(int x);\n"
    assert header_symbols(text) != mirror_symbols(MIRROR.read_text())


def test_every_exported_function_of_the_header_is_defined_once():
    text = "\n".join(
        without_comments(p.read_text()) for p in (ROOT / "csrc").glob("*/*.c")
    )
    for name in header_symbols(HEADER.read_text())["functions"]:
        assert len(re.findall(rf"^[\w *]+\b{name}\([^;{{]*\)\s*\{{", text, re.M)) == 1


# ---- _core and _core.pyi ------------------------------------------------------------


def stub():
    return ast.parse((ROOT / "fastdp" / "_core.pyi").read_text())


def parameters(node):
    spec = node.args
    return [a.arg for a in spec.args], [a.arg for a in spec.kwonlyargs]


def test_the_stub_has_the_names_of_the_extension():
    listed = set()
    for node in stub().body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            listed.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            listed.add(node.target.id)
    listed = {name for name in listed if not name.startswith("_")}
    imported = {"np", "EntropyError", "FastDPError", "ParameterError"}
    present = {name for name in vars(_core) if not name.startswith("_")} - imported
    assert listed == present


def test_the_stub_has_the_members_of_the_classes():
    for node in stub().body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            listed = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
            present = set(vars(getattr(_core, node.name)))
            public = {name for name in present if not name.startswith("_")}
            listed -= {"__init__"}
            assert {name for name in listed if not name.startswith("_")} == public
            assert listed <= present


def test_the_stub_has_the_parameters_of_the_source():
    source = "".join(p.read_text() for p in (ROOT / "fastdp").glob("_core*.p[yx][xi]"))
    for node in stub().body:
        if isinstance(node, ast.FunctionDef):
            head = rf"^(?:cp)?def {node.name}\((.*?)\):"
            found = re.search(head, source, re.M | re.S)
            names = [
                part.partition("=")[0].split()[-1]
                for part in found[1].split(",")
                if part.strip()
            ]
            assert parameters(node)[0] == names


def test_the_extension_documents_what_it_offers():
    for name, value in vars(_core).items():
        ours = getattr(value, "__module__", "") == "fastdp._core"
        if ours and callable(value) and not name.startswith("_"):
            assert inspect.getdoc(value), name
