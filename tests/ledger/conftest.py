"""Ledgers of every engine; a store in memory for many labels; workers to be killed."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import traceback
from pathlib import Path

import pytest

import fastdp
from fastdp import accounting, ledger
from fastdp.ledger import _sqlite
from fastdp.ledger._ledger import Ledger
from fastdp.ledger._receipts import Seen
from fastdp.ledger._store import FORMAT, schema
from fastdp.ledger._terms import canonical

POSTGRES = Path("/usr/lib/postgresql/15/bin")

#: One release costs epsilon 1/10, exactly, and is free to draw again after a crash.
NOISE = fastdp.DiscreteLaplace(10, sensitivity=1)
PRICE = NOISE.event().sensitivity / NOISE.event().scale


def use_journal(monkeypatch, name):
    monkeypatch.setattr(_sqlite, "is_write_ahead_safe", lambda: name == "wal")


@pytest.fixture(params=["wal", "delete"])
def journal(request, monkeypatch):
    use_journal(monkeypatch, request.param)
    return request.param


@pytest.fixture(
    params=["wal", "delete", pytest.param("postgres", marks=pytest.mark.slow)]
)
def location(request, tmp_path, monkeypatch):
    """Where a new ledger may be made: the one suite runs over both engines."""
    if request.param == "postgres":
        yield request.getfixturevalue("database")
    else:
        use_journal(monkeypatch, request.param)
        yield str(tmp_path / "budget.db")


@pytest.fixture
def path(tmp_path, journal):
    made = tmp_path / "budget.db"
    with ledger.create(made, witness=tmp_path / "witness.json") as book:
        book.add_budget("all", accounting.PureFilter(100), unit="person")
        book.add_budget("other", accounting.PureFilter(100), unit="person")
    return made


@pytest.fixture
def book(location):
    made = ledger.create(location, timeout=20)
    made.add_budget("all", accounting.PureFilter(1000), unit="person")
    with made:
        yield made


class MemoryStore(_sqlite.SqliteStore):
    """The same statements on a database in memory, its locks those of threads."""

    def __init__(self):
        self.where, self._process = "memory", os.getpid()
        self.settled, self.seen = None, Seen()
        self._one = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        self._lock, self._labels = threading.RLock(), {}
        for statement in schema({}):
            self._one.execute(statement)

    @contextlib.contextmanager
    def _connection(self):
        with self._lock:
            yield self._one

    @contextlib.contextmanager
    def _lock_file(self, name):
        if name == "write":
            yield
            return
        with self._labels.setdefault(name, threading.RLock()):
            yield

    def place(self):
        return {}

    def require_private(self):
        pass


def memory_ledger(*budgets):
    store = MemoryStore()
    with store.transaction() as run:
        run(
            "INSERT INTO ledger VALUES (1, ?, 'memory', ?, NULL, 'open')",
            *(FORMAT, canonical({})),
        )
    made = Ledger(store, "memory", None)
    for name, limit in budgets:
        made.add_budget(name, limit, unit="person")
    return made


# ---- PostgreSQL --------------------------------------------------------------------


class Server:
    """A PostgreSQL of its own: a folder, a socket, no port."""

    def __init__(self, folder):
        self.folder, self.data = folder, folder / "data"
        shutil.chown(folder, *(["postgres"] if os.getuid() == 0 else [os.getuid()]))
        folder.chmod(0o755)
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "owner", "--no-sync")
        self.start()

    def run(self, program, *arguments, check=True):
        command = [str(POSTGRES / program), *map(str, arguments)]
        if os.getuid() == 0:
            command = [
                *("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"),
                *command,
            ]
        return subprocess.run(
            command, check=check, capture_output=True, text=True, timeout=300
        )

    def start(self, data=None):
        options = f"-c listen_addresses='' -k {self.folder} -c max_connections=300"
        command = ["pg_ctl", "-D", data or self.data, "-w", "-t", "240"]
        command += ["-l", self.folder / "log"]
        for _ in range(50):  # what was killed may still hold its memory
            if not self.run(*command, "-o", options, "start", check=False).returncode:
                return
            time.sleep(0.2)
        pytest.fail((self.folder / "log").read_text()[-2000:])

    def stop(self, mode="fast", data=None):
        self.run("pg_ctl", "-D", data or self.data, "-m", mode, "-w", "stop")

    def kill(self):
        """Kill the postmaster and all backends, as a power cut of the process."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for victim in [pid, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        for victim in [pid, *map(int, children)]:
            while Path(f"/proc/{victim}").exists():
                state = Path(f"/proc/{victim}/stat").read_text().rpartition(")")[2]
                if state.split()[0] == "Z":
                    break

    def url(self, name="postgres"):
        return f"postgresql://owner@/{name}?host={self.folder}"

    def database(self, name):
        self.run("createdb", "-h", self.folder, "-U", "owner", name)
        return self.url(name)


@pytest.fixture(scope="session")
def server():
    if not (POSTGRES / "initdb").is_file():
        pytest.skip("PostgreSQL 15 is not here (Debian: postgresql)")
    pytest.importorskip("psycopg")
    # Not below pytest's folder, which the server's own user may not enter.
    with tempfile.TemporaryDirectory(prefix="fastdp-postgres-") as folder:
        made = Server(Path(folder))
        yield made
        with contextlib.suppress(subprocess.CalledProcessError):
            made.stop("immediate")


@pytest.fixture
def database(server, request):
    name = "d" + str(abs(hash(request.node.nodeid)))
    return server.database(name)


# ---- children ----------------------------------------------------------------------


def in_child(work, *, timeout=60):
    """Run `work(write)` in a forked child; return what it wrote, line by line.

    What it wrote before it was killed counts: somebody may have seen it.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read_end)
            signal.alarm(timeout)
            work(lambda text: os.write(write_end, f"{text}\n".encode()))
            code = 0
        except BaseException:  # the parent sees an exit status only
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write_end)
    return pid, read_end


def finished(pid, read_end):
    with os.fdopen(read_end) as file:
        lines = file.read().splitlines()
    _, status = os.waitpid(pid, 0)
    return lines, status
