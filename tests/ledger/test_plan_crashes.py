"""A plan of three tables at 200 instants: killed, ended, without disk or ledger.

An instant is a call of the run's main thread. Half of them are spread over all calls,
a quarter over those of the ledger, a quarter over those that put files in place.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from fractions import Fraction

import pytest

import fastdp
from fastdp import accounting
from fastdp.cli import main
from tests.ledger.conftest import finished, in_child
from tests.tables import write_parquet

pytest.importorskip("duckdb")

PLAN = """\
source = "in.parquet"
ledger = "year.db"
budgets = ["2026"]
label = "visits"
unit = { column = "who", groups = 2, records = 4 }

[tables.region]
by = "region"
keys = ["north", "south"]
count = true
mean = ["cost"]
bounds = { cost = [0, 100] }
epsilon = 1
output = "region.csv"

[tables.total]
units = true
epsilon = 0.5
output = "total.parquet"

[tables.ages]
histogram = { age = [0, 18, 65, 120] }
epsilon = 0.5
output = "ages.csv"
"""
MADE = (
    "ages.csv",
    "ages.csv.receipts.json",
    "region.csv",
    "region.csv.receipts.json",
    "total.parquet",
)
OLD = b"the table of the day before"
COMMAND = ["aggregate", "--plan", "plan.toml"]

#: Number of instants within the calls of a file and a function.
SPREAD = ((20, "", ""), (10, "/fastdp/ledger/", ""), (10, "/fastdp/cli/", "_publish"))


class Instants:
    """Counts the calls of this thread; does something at one of them."""

    def __init__(self, at=0, act=None):
        self.at, self.act = at, act
        self.count, self.spread = 0, [[] for _ in SPREAD]

    def __call__(self, frame, event, argument):
        if event not in ("call", "c_call"):
            return
        self.count += 1
        if self.at:
            if self.count == self.at:
                self.act()
            return
        codes = [one.f_code for one in (frame, frame.f_back) if one is not None]
        for (_, file, name), found in zip(SPREAD, self.spread, strict=True):
            if any(file in code.co_filename and name in code.co_name for code in codes):
                found.append(self.count)


def run(folder, instants=None):
    """Run the command in a fork; return its exit code, what it said, and the calls."""

    def work(write):
        enter(folder)
        os.dup2(errors.fileno(), 2)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        sys.setprofile(instants)
        try:
            code = main(COMMAND)
        except KeyboardInterrupt:  # before or after all is done
            code = 128 + signal.SIGINT
        sys.setprofile(None)
        if instants is not None:
            write(json.dumps(instants.spread))
        sys.stderr.flush()
        os._exit(code)

    with tempfile.TemporaryFile() as errors:
        lines, status = finished(*in_child(work))
        errors.seek(0)
        said = errors.read().decode()
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code, said, lines  # as a shell has it


def enter(folder):
    """Be in a folder, with a TMPDIR and signals as in a shell."""
    os.chdir(folder)
    os.environ["TMPDIR"] = str(folder / "tmp")
    tempfile.tempdir = None
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def left(folder, *names):
    """Return files that are neither given nor outputs, below the folder."""
    known = {"in.parquet", "plan.toml", "filler", *MADE, *names}
    found = (path.relative_to(folder) for path in folder.rglob("*"))
    return sorted(
        str(path)
        for path in found
        if path.name not in known
        and not path.parts[0].startswith("year.db")
        and str(path) != "tmp"
    )


def outputs(folder):
    """Return the outputs that are new, by name."""
    found = {name: folder / name for name in MADE if (folder / name).exists()}
    made = {name: path.read_bytes() for name, path in found.items()}
    return {name: read for name, read in made.items() if read != OLD}


@pytest.fixture
def new_folder(tmp_path):
    """Return a maker of folders with records, a plan and a ledger."""
    model = tmp_path / "model"
    (model / "tmp").mkdir(parents=True)
    n = 1200
    columns = {
        "who": [i // 4 for i in range(n)],
        "region": [("north", "south")[i % 2] for i in range(n)],
        "cost": [float(i % 100) for i in range(n)],
        "age": [float(i % 90) for i in range(n)],
    }
    write_parquet(model / "in.parquet", columns)
    (model / "plan.toml").write_text(PLAN)
    for name in ("region.csv", "total.parquet"):
        (model / name).write_bytes(OLD)
    numbers = itertools.count()

    def make(within=tmp_path):
        folder = within / str(next(numbers))
        shutil.copytree(model, folder)
        with fastdp.ledger.create(folder / "year.db") as book:
            book.add_budget("2026", accounting.PureFilter(2), unit="who")
        return folder

    return make


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on a disk of its own, of two mebibytes."""
    place = tmp_path / "disk"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "size=2m", "tmpfs"]
    if subprocess.run(["mount", *options, place], capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def chosen(lines):
    """Return instants, evenly spread over the calls of each kind."""
    found = []
    for (number, *_), calls in zip(SPREAD, json.loads(lines[0]), strict=True):
        assert len(calls) > number
        found += [calls[len(calls) * i // number] for i in range(number)]
    return found


def fill(folder):
    """Leave no byte free on the disk, until the filler is removed."""
    with contextlib.suppress(OSError), (folder / "filler").open("wb", 0) as file:
        while True:
            file.write(bytes(4096))


def lose(folder, names=("year.db", "year.db-wal", "year.db-shm", "year.db-locks")):
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).rename(folder / f"{name}.lost")


def find(folder):
    for path in folder.glob("year.db*.lost"):
        if path.with_suffix("").is_dir():  # a run has looked for the ledger
            shutil.rmtree(path.with_suffix(""))
        path.rename(path.with_suffix(""))


FAULTS = {
    "kill": (lambda _: os.kill(os.getpid(), signal.SIGKILL), 128 + signal.SIGKILL),
    "term": (lambda _: os.kill(os.getpid(), signal.SIGTERM), 128 + signal.SIGTERM),
    "interrupt": (lambda _: os.kill(os.getpid(), signal.SIGINT), 128 + signal.SIGINT),
    "disk": (fill, 7),
    "ledger": (lose, 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_one_charge_or_none_at_40_instants(new_folder, request, monkeypatch, fault):
    act, number = FAULTS[fault]
    where = [request.getfixturevalue("small_disk")] if fault == "disk" else []
    monkeypatch.chdir(new_folder())
    assert main(COMMAND) == 0  # imports what the forks need
    code, said, lines = run(new_folder(*where), Instants())
    assert code == 0, said
    ended, torn = 0, 0
    for instant in chosen(lines):
        folder = new_folder(*where)
        code, said, _ = run(folder, Instants(instant, lambda f=folder: act(f)))
        assert code in (0, number), (instant, code, said)
        ended += code != 0
        (folder / "filler").unlink(missing_ok=True)
        seen = outputs(folder)
        if fault == "kill" and 0 < len(seen) < len(MADE):
            torn += 1  # between two renames: the next run puts the others in place
        else:
            assert len(seen) in (0, len(MADE)), (instant, seen.keys(), said)
        if fault != "kill":
            assert left(folder) == [], (instant, code)
        if (folder / "year.db.lost").exists():
            assert run(folder)[0] == 5
            assert outputs(folder) == seen
            find(folder)
        with fastdp.ledger.open(folder / "year.db") as book:
            assert book.audit().ok
            before = book.budget("2026").spent["epsilon"]
            assert before in (0, 2)
            assert before == 2 or not seen
        code, said, _ = run(folder)
        assert code == 0, (instant, said)
        again = outputs(folder)
        assert again.keys() == {*MADE}
        assert {name: again[name] for name in seen} == seen
        assert left(folder) == [], instant
        with fastdp.ledger.open(folder / "year.db") as book:
            assert book.budget("2026").spent == {"epsilon": Fraction(2)}
            assert book.audit().ok
        shutil.rmtree(folder)
    print(f"{fault}: {ended} of 40 ended by it, {torn} between renames")
    assert ended
