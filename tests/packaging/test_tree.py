"""What the repository says of itself: commands, links, and nothing of our machines."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tools import check_package

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
OWN = {".ci/run", ".gitignore", *check_package.sources()}
TEXTS = sorted(name for name in OWN if (ROOT / name).is_file())


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def names_where(holds, names=TEXTS):
    return [name for name in names if holds(text_of(name))]


# ---- every file ------------------------------------------------------------------


def test_all_sources_are_there():
    assert [name for name in check_package.FILES if name not in TEXTS] == []
    assert len(TEXTS) > 80


#: Written so that they do not find themselves.
_UNFINISHED = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b|^<{7} |^>{7} ", re.M)
_PATHS = re.compile(r"(?<![\w.$}])/(w[o]rk|r[o]ot|h[o]me|U[s]ers|mnt)/\w")


def test_nothing_is_left_unfinished():
    assert names_where(_UNFINISHED.search) == []


def test_no_path_of_a_machine():
    assert names_where(_PATHS.search) == []


def test_unfinished_work_and_paths_would_be_seen():
    assert _UNFINISHED.search("later: " + "to do".replace(" ", "").upper())
    assert _PATHS.search("see " + "/".join(["", "home", "someone"]))
    assert not _PATHS.search("docs" + "/".join(["", "home", "page"]))


def test_files_are_short():
    sources = [name for name in TEXTS if name.endswith((".py", ".c", ".h"))]
    assert names_where(lambda text: text.count("\n") > 800, sources) == []


def test_setup_is_short():
    assert text_of("setup.py").count("\n") <= 80


def test_the_licence_is_whole():
    text = text_of("LICENSE")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


# ---- links -------------------------------------------------------------------------

PAGES = [name for name in TEXTS if name.endswith(".md")]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    page = re.sub(r"^```.*?^```", "", text_of(name), flags=re.M | re.S)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page)
    local = [link for link in links if "://" not in link]
    here = (ROOT / name).parent
    assert [link for link in local if not (here / link).exists()] == []


def test_proofs_that_the_code_cites_exist():
    code = [name for name in TEXTS if name.startswith("fastdp/")]
    cited = {p for name in code for p in re.findall(r"docs/[\w/-]+\.md", text_of(name))}
    assert len(cited) > 20
    assert [page for page in cited if not (ROOT / page).is_file()] == []


# ---- the README ---------------------------------------------------------------------


def fences(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def commands():
    return re.search(r"^```\w*\n(.*?)^```", README, re.M | re.S)[1].splitlines()


def test_the_first_fence_is_two_commands():
    demo, tests = commands()
    assert demo.endswith("fastdp demo")
    assert tests.endswith("-m pytest -n auto")
    for command in (demo, tests):
        assert command.startswith("python3 -m venv ")
        extra = re.search(r'pip install -q -e "\.\[(\w+)\]"', command)[1]
        project = tomllib.loads(text_of("pyproject.toml"))["project"]
        assert extra in project["optional-dependencies"]


def test_the_first_fence_is_what_ci_runs():
    for line, command in enumerate(commands(), start=1):
        program = """awk -v want="$1" '/^```/ { fence++; next } """
        program += """fence == 1 && ++n == want' README.md"""
        assert program in text_of(".ci/run")
        shell = ["sh", "-c", program, "sh", str(line)]
        run = subprocess.run(
            shell, cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert run.stdout == command + "\n"


def test_the_tour_is_short_and_runs():
    tour = fences("python")[0]
    assert len(tour.splitlines()) <= 30
    names = {}
    exec(tour, names)  # noqa: S102 - the README's own lines
    assert names["private"].shape == names["counts"].shape
    assert names["m"].epsilon() == 1.0
    assert names["g"].epsilon(delta=1e-6) == pytest.approx(1.0, rel=1e-9)


def test_the_shell_lines_are_accepted(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    from fastdp import cli

    shell = fences("sh")[-1]
    lines = shell.replace("\\\n", " ").splitlines()
    line = next(line for line in lines if line.startswith("fastdp release"))
    (tmp_path / "clinics.csv").write_text("patients,clinic\n3,1\n4,2\n")
    words = line.replace("parquet", "csv").split()
    assert words[:2] == ["fastdp", "release"]
    previous = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert cli.main(words[1:]) == 0
    finally:
        os.chdir(previous)
    assert (tmp_path / "private.csv").read_text().count("\n") == 3
    assert "epsilon" in capsys.readouterr().err


def test_the_table_of_claims_names_files_that_exist():
    table = README.partition("## Check it yourself")[2].partition("\n## ")[0]
    named = re.findall(
        r"(?<![\w/.])((?:tests|tools|bench|docs)/[\w/.]+|\.ci/run)", table
    )
    assert len(named) > 5
    for path in named:
        assert (ROOT / path).exists()


# ---- the CI entry --------------------------------------------------------------------


def test_ci_entry_is_executable_and_lists_its_sections():
    entry = ROOT / ".ci" / "run"
    assert os.access(entry, os.X_OK)
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    run = subprocess.run(
        [bash, str(entry), "--list"], capture_output=True, text=True, check=True
    )
    sections = run.stdout.split()
    for section in sections:
        assert f"\nrun_{section}() {{" in entry.read_text()
    assert {"demo", "tests", "sanitizers", "package"} <= set(sections)
