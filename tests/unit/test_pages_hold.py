"""What the pages promise holds for the demo's records.

A page runs twice: on the records of the demo, and on those without one patient. No
input of added noise moves further than its mechanism states. Intervals, those that
the library gives at a level of 1 - 1e-12 and those that are printed, hold the truth.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import fastdp
from fastdp.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    TruncatedLaplace,
)
from tools.docs import blocks

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("statsmodels")
pytest.importorskip("matplotlib")

ROOT = blocks.ROOT
RECORDS = ("visits.csv", "visits.parquet", "health.parquet")
LEVEL = 1 - 1e-12
PROSE = {
    page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in blocks.PAGES
}
#: benchmarks.md copies a file and releases nothing.
PAGES = [
    name
    for name, text in PROSE.items()
    if re.search(r"fastdp release |Laplace|Gaussian", text)
    and re.search(r"(visits|clinics|health)\.(parquet|csv)", text)
    and any(block.runs for block in blocks.blocks(ROOT / name))
]


#: What bounds each user's records before it draws.
BOUNDED = {"fastdp.tables._run", "fastdp.mechanisms._keys"}


class Draw(NamedTuple):
    """The input of one release, and what its mechanism states."""

    mechanism: Any
    x: np.ndarray[Any, Any]

    @property
    def order(self) -> int:
        return 2 if isinstance(self.mechanism, DiscreteGaussian | Gaussian) else 1


def table() -> Any:
    return pq.read_table(blocks.data() / "visits.parquet")


def heaviest() -> set[int]:
    """Return the patients whose visits are the most, in L1 and in L2."""
    records = table()
    patients = records["patient"].to_numpy()
    visits = records["visits"].to_numpy().astype(float)
    return {int(np.bincount(patients, visits**k).argmax()) for k in (1, 2)}


def without(patient: int, folder: Path) -> Path:
    """Write the demo's files without a patient, and return their folder."""
    from pyarrow import csv

    shutil.copytree(blocks.data(), folder)
    kept = table().filter(pa.compute.field("patient") != patient)
    pq.write_table(kept, folder / "visits.parquet")
    csv.write_csv(kept, folder / "visits.csv")
    if (folder / "clinics.parquet").exists():
        names = pq.read_table(folder / "clinics.parquet")["clinic"].to_pylist()
        pq.write_table(clinics(kept, names), folder / "clinics.parquet")
        csv.write_csv(clinics(kept, names), folder / "clinics.csv")
    return folder


def clinics(records: Any, names: list[str]) -> Any:
    """Count the patients of each clinic."""
    pairs = {
        *zip(records["clinic"].to_pylist(), records["patient"].to_pylist(), strict=True)
    }
    counts = [sum(clinic == name for clinic, _ in pairs) for name in names]
    return pa.table({"clinic": names, "patients": counts})


@pytest.fixture
def draws(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str, Path], list[Draw]]:
    """A function that runs a page on a folder's data, and returns what it draws."""
    found: list[Draw] = []
    for kind in (
        DiscreteLaplace,
        DiscreteGaussian,
        TruncatedLaplace,
        Laplace,
        Gaussian,
    ):
        plain = kind.release

        def release(
            self: Any, x: Any, *rest: Any, _plain: Any = plain, **more: Any
        ) -> Any:
            # Statistics of records bound their own inputs, with a random choice.
            if sys._getframe(1).f_globals["__name__"] not in BOUNDED:
                found.append(Draw(self, np.atleast_1d(np.array(x, dtype=float))))
            return _plain(self, x, *rest, **more)

        monkeypatch.setattr(kind, "release", release)
    plain_line = blocks._run_line

    def line(text: str, folder: Path) -> None:
        if text.startswith("fastdp release - "):  # by a pipe: here by the name
            text, _, files = text.partition(" < ")
            text = text.replace("release -", f"release {files.split()[0]}", 1)
            text = text.replace("-o -", "-o piped.csv")
        if text.startswith(("fastdp release", "fastdp ledger")):
            plain_line(text, folder)

    monkeypatch.setattr(blocks, "_run_line", line)

    def run(name: str, data: Path) -> list[Draw]:
        found.clear()
        monkeypatch.setattr(blocks, "data", lambda: data)
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        blocks.run(ROOT / name, folder)
        return [*found]

    return run


PLANTED = """\
```python
import polars as pl
import fastdp
m = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
counts = pl.read_parquet("visits.parquet").group_by("clinic").len().sort("clinic")
fastdp.frames.release(counts, {"len": m}, keys="clinic", ledger=None)
```
```sh
fastdp release visits.csv --column visits --mechanism discrete-laplace --epsilon 1 \\
    --sensitivity 22 -o private.csv
```
"""


def test_faults_are_found(
    draws: Callable[[str, Path], list[Draw]], tmp_path: Path
) -> None:
    """Two rows a patient in a count of rows, and a row for each record."""
    pytest.importorskip("polars")
    page = tmp_path / "page.md"
    page.write_text(PLANTED)
    found = faults(str(page), draws, tmp_path)
    assert len(found) == 2 * len(heaviest())
    assert found[0].endswith("moves 2.0")
    assert found[1].endswith("2000 or 1998 rows")


@pytest.mark.parametrize("name", PAGES)
def test_no_patient_moves_an_input_further_than_stated(
    name: str, draws: Callable[[str, Path], list[Draw]], tmp_path: Path
) -> None:
    assert not faults(name, draws, tmp_path)


def faults(
    name: str, draws: Callable[[str, Path], list[Draw]], tmp_path: Path
) -> list[str]:
    """Return what a page states of its sensitivities and does not hold."""
    whole = blocks.data()
    patients = table()["patient"].to_numpy()
    folders = {one: without(one, tmp_path / f"{one}") for one in heaviest()}
    given = draws(name, whole)
    found = []
    for patient, folder in folders.items():
        others = draws(name, folder)
        assert len(others) == len(given)
        for one, other in zip(given, others, strict=True):
            if one.x.shape == other.x.shape:
                moves = one.x - other.x
            else:  # a row for each record: their number shows as well
                found.append(f"{one.mechanism!r}: {len(one.x)} or {len(other.x)} rows")
                moves = one.x[patients == patient]
            moved = np.linalg.norm(moves.ravel(), one.order)
            stated = one.mechanism.sensitivity
            # The norm may be off by a rounding; integers move by far more.
            if stated is not None and moved > float(stated) * (1 + 1e-9):
                found.append(f"{one.mechanism!r}: patient {patient} moves {moved:.4}")
    return found


def test_the_table_of_counts_is_that_of_the_records() -> None:
    counts = pq.read_table(blocks.data() / "clinics.parquet")
    assert counts.equals(clinics(table(), counts["clinic"].to_pylist()))
    patients = table()["patient"].to_pylist()
    assert {patients.count(patient) for patient in {*patients}} == {2}


def shell_lines() -> list[tuple[str, list[str]]]:
    return [
        (f"{name}:{block.line}", shlex.split(line, comments=True))
        for name in PROSE
        for block in blocks.blocks(ROOT / name)
        if block.is_shell
        for line in blocks.shell_lines(block.text)
    ]


def test_records_are_aggregated_for_a_user_and_never_released() -> None:
    seen = 0
    for place, words in shell_lines():
        if words[:2] == ["fastdp", "aggregate"] and words[2] in RECORDS:
            assert "--unit" in words, place
            seen += 1
        if words[:2] == ["fastdp", "release"]:
            assert not {*words} & {*RECORDS}, place
            seen += 1
    assert seen > 5


def budgets(text: str) -> dict[str, set[str]]:
    """Return the budgets that a block's calls of fastdp.frames name, by function."""
    charges: dict[str, str] = {}
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Assign([ast.Name(name)], ast.Dict(keys, values)):
                pairs = zip(keys, values, strict=True)
                written = {ast.unparse(k): ast.unparse(v) for k, v in pairs if k}
                charges[name] = written.get("'budgets'", "")
            case ast.Call(ast.Attribute(attr=function), _, words):
                for word in words:
                    if word.arg is None and isinstance(word.value, ast.Name):
                        budget = charges.get(word.value.id, "")
                        found.setdefault(function, set()).add(budget)
    return found


@pytest.mark.parametrize("engine", ["spark", "dask", "ray"])
def test_reports_and_aggregates_have_budgets_of_their_own(engine: str) -> None:
    """Their relations differ: a ledger refuses the second of them in one budget."""
    page = ROOT / "docs" / f"{engine}.md"
    named = [budgets(b.text) for b in blocks.blocks(page) if b.is_python]
    of = next(one for one in named if "randomize" in one)
    assert of["randomize"]
    assert of["release"]
    assert not of["randomize"] & (of["release"])


# ---- intervals ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["README.md", "tools/docs/landing.md"])
def test_the_first_mean_is_of_use(name: str) -> None:
    """What is shown first is no noise: even its widest interval says something."""
    text = next(b.text for b in blocks.blocks(ROOT / name) if b.is_python)
    call = re.search(r"fastdp\.mean\((.*)\)\n", text)
    assert call
    names: dict[str, Any] = {}
    wider = f"wide = fastdp.mean({call[1]}, level={LEVEL})"
    exec(f"{text[: call.end()]}{wider}", names)  # noqa: S102 - the page's own
    wide = names["wide"]
    assert wide.low <= np.mean(names["ages"]) <= wide.high
    assert wide.high - wide.low < 60  # half of what was known before
    assert wide.unit == "user"


def printed() -> dict[str, tuple[float, float]]:
    """Return the intervals that the tutorial prints, by share; "" for everybody."""
    found = {}
    text = PROSE["docs/tutorial.md"]
    sentence = re.search(r"([\d.]+) visits a year, between ([\d.]+) and ([\d.]+)", text)
    assert sentence
    found[""] = (float(sentence[2]), float(sentence[3]))
    row = re.compile(r"^ *(\d+ %) +\d+ +([\d.]+) +([\d.]+) +([\d.]+)$", re.M)
    for share, value, low, high in row.findall(text):
        if float(low) <= float(value) <= float(high):
            found[share] = (float(low), float(high))
    return found


def test_the_printed_intervals_hold_the_truth() -> None:
    health = pq.read_table(blocks.data() / "health.parquet")
    visits = np.clip(health["visits"].to_numpy(), 0, 30)
    shares = np.array(health["pays"].to_pylist())
    intervals = printed()
    assert {*intervals} == {"", *shares.tolist()}
    for share, (low, high) in intervals.items():
        truth = visits[shares == share].mean() if share else visits.mean()
        assert low <= truth <= high, share


def test_aggregates_of_the_demo_hold_the_truth() -> None:
    """The patients' two rows are in one clinic: bounds of 1 and 2 cut nothing."""
    plan = fastdp.Plan(
        unit=fastdp.Unit("patient", groups=1, records=2),
        by="clinic",
        keys=["East", "North", "South", "West"],
        count=True,
        mean="visits",
        bounds={"visits": (0, 12)},
        epsilon=1,
    )
    a = plan.release(str(blocks.data() / "visits.parquet"))
    records = table()
    groups = np.array(records["clinic"].to_pylist())
    for statistic, of in (("count", len), ("visits_mean", np.mean)):
        low, high = a.interval(statistic, LEVEL)
        for i, clinic in enumerate(a.table()["clinic"].to_pylist()):
            truth = of(records["visits"].to_numpy()[groups == clinic])
            assert low[i] <= truth <= high[i]
