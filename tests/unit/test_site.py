"""The documentation site: what is set, linked and shown, and that faults are found."""

from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path

import pytest

import fastdp
from tools.docs import api, gallery, pages, typeset

NAMES = api.References()


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("2^-64", "2<sup>-64</sup>"),
        ("e^epsilon/2", "e<sup>epsilon</sup>/2"),
        ("e^(-x^2/2)", "e<sup>-x<sup>2</sup>/2</sup>"),
        ("(1 - q)^(k times)", "(1 - q)<sup>k times</sup>"),
        ("q^|x|", "q<sup>|x|</sup>"),
        ("a_t and z_(t-1)", "a<sub>t</sub> and z<sub>t-1</sub>"),
        ("sup_x f, log_2 n", "sup<sub>x</sub> f, log<sub>2</sub> n"),
        ("x_i^2", "x<sub>i</sub><sup>2</sup>"),
        ("(a)(b)^((c)(d))", "(a)(b)<sup>(c)(d)</sup>"),
        ("log_delta and records_per_user", None),
        ("no mathematics: a-b, 1e-6, ~20 %", None),
    ],
)
def test_exponents_and_indices(typed: str, shown: str | None) -> None:
    assert typeset.marked(typed) == (typed if shown is None else shown)


def test_the_text_of_a_proof() -> None:
    typed = "Let a be k with k &lt;= e^epsilon; it's a proof. []"
    assert typeset.mathematics("epsilon0 &gt;= ln(2/delta)") == (
        "<i>ε</i><sub>0</sub> ≥ ln(2/<i>δ</i>)"
    )
    assert typeset.mathematics("f^-1, A_0") == (
        "<i>f</i><sup>−1</sup>, <i>A</i><sub>0</sub>"
    )
    shown = "Let a be <i>k</i> with <i>k</i> ≤ <i>e</i><sup><i>ε</i></sup>;"
    assert typeset.mathematics(typed) == f"{shown} it's a proof. □"


def test_every_public_name_has_a_page() -> None:
    found = {
        f"{module.name}.{name}" for module in api.modules() for name in module.names
    }
    assert len(found) > 200
    shown = {id(_thing(name)) for name in found}
    for module in api.public_modules():
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            thing = getattr(loaded, name)
            if name != "__version__" and type(thing).__name__ != "module":
                assert id(thing) in shown, f"{module}.{name}"
    assert {f"fastdp.{name}" for name in fastdp.mechanisms.__all__} <= found


def _thing(name: str) -> object:
    module, _, short = name.rpartition(".")
    return getattr(importlib.import_module(module), short)


def test_names_in_docstrings_and_pages() -> None:
    inside = "fastdp.DiscreteLaplace.from_epsilon"
    assert NAMES.full("release", inside) == "fastdp.DiscreteLaplace.release"
    assert NAMES.full("PLDAccountant", inside) == "fastdp.accounting.PLDAccountant"
    assert NAMES.full("no_name", inside) is None
    (line,) = NAMES.rst(["`event` of |x| with k_ and `1 + 1`"], inside)
    event, _, rest = line.partition(" of ")
    assert event == ":py:obj:`event <fastdp.DiscreteLaplace.event>`"
    assert rest == r"\|x\| with k\_ and ``1 + 1``"
    text = "# `Laplace`\n\n[`Laplace`](x) `Laplace`, `Laplace`, `sum`\n"
    linked = "`Laplace`](x) [`Laplace`](../api/fastdp.Laplace.rst), `Laplace`, `sum`"
    named = pages.named("docs/howto/x.md", text, NAMES.page)
    assert named == f"# `Laplace`\n\n[{linked}\n"


def test_no_index_is_taken_for_emphasis() -> None:
    # Markdown reads "X'_t and Y'_t" as emphasis: the prime comes after the index.
    for page in (pages.ROOT / "docs").rglob("*.md"):
        assert "'_" not in pages.prose(page.read_text("utf-8")), page.name


def test_links_of_the_pages_lead_to_pages_that_are_listed() -> None:
    listed = {page for section in pages.sections() for page in section.pages}
    for page in listed:
        text = (pages.ROOT / page).read_text("utf-8")
        for link in pages.links(text):
            path = pages.target(page, link)
            if path and path.endswith(".md") and path != pages.INDEX:
                assert path in listed, f"{page} links {path}, which the index does not"


def test_the_gallery_shows_every_script() -> None:
    scripts = {path.name for path in gallery.scripts()}
    assert "train_two_ways.py" in scripts
    assert not [name for name in scripts if name.startswith("_")]
    path = pages.ROOT / "examples" / "train_two_ways.py"
    doc = "Title of it.\n\n    python examples/x.py [--plot FILE]\n\nA text.\n\nMore."
    example = gallery.Example(path, doc, "printed")
    assert (example.title, example.text) == ("Title of it", "A text.\n\nMore.")
    assert example.command == "python examples/x.py [--plot FILE]"


GOOD = """<!doctype html><html><head><title>t</title>
<link rel="icon" href="data:,"></head><body><article>
<p id="here">text</p><a href="other.html#there">x</a></article></body></html>"""

FAULTS = {
    '<a href="none.html">x</a>': "no none.html",
    '<a href="other.html#nowhere">x</a>': "no nowhere in other.html",
    "<script>console.error('wrong')</script>": "error: wrong",
    "<script>throw Error('thrown')</script>": "thrown",
    '<img src="none.png">': "404",
    '<script src="https://example.org/x.js"></script>': "asks for https://example.org",
    '<div style="width: 500px">wide</div>': "pixels wide",
    '<p style="font-size: 9px">small</p>': "letters of 9 pixels",
}


@pytest.mark.slow
def test_faults_of_a_site_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("playwright")
    if not (shutil.which("chromium") or shutil.which("chromium-browser")):
        pytest.skip("chromium is not here")
    from tools.docs import check

    (tmp_path / "other.html").write_text(GOOD.replace('"here"', '"there"'))
    for fault in ("", *FAULTS):
        body = GOOD.replace("</article>", f"{fault}</article>")
        (tmp_path / "index.html").write_text(body)
        status = check.main(tmp_path, searches={})
        printed = capsys.readouterr().out
        assert status == (1 if fault else 0), printed
        assert FAULTS.get(fault, " 0 problems") in printed
    assert re.search(r"2 pages, \d+ links, \d+ problems", printed)
