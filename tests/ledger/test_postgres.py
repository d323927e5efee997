"""A ledger in PostgreSQL: killed clients and servers, races, namespaces, replicas.

All of it needs a server of its own and is slow; `.ci/run ledger` runs it.
"""

import contextlib
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fastdp import accounting, ledger
from fastdp.cli import main
from fastdp.exceptions import BudgetExceededError, LedgerError
from tests.ledger.conftest import NOISE, PRICE, Server, in_child
from tests.ledger.test_crashes import checked, killed_at_random, new_ledger, race

pytestmark = pytest.mark.slow

CELLS = np.arange(4)
ROOT = Path(__file__).parents[2]


def test_killed_clients(database):
    new_ledger(database, 10**6)
    seen = killed_at_random(database, 30, 5)
    attempts, pending = checked(database, seen)
    print(f"{len(seen)} answers of {len(attempts)} labels, {pending} pending")


def test_the_server_is_killed_under_load(server):
    url = server.database("killed")
    new_ledger(url, 10**6)
    generator = random.Random(7)
    seen = []
    for turn in range(5):
        children = []
        for child in range(2):

            def work(write, child=child, turn=turn):
                number = 0
                while True:
                    with contextlib.suppress(LedgerError), ledger.open(url) as book:
                        while True:
                            label = f"level {turn} {child} {number}"
                            answer = book.release(
                                NOISE, CELLS, label=label, budgets=["all", "week"]
                            )
                            write(f"{label};{answer.value.tolist()}")
                            number += 1
                    time.sleep(0.1)  # recovery needs the processor, too

            pid, end = in_child(work, timeout=300)
            children.append((pid, os.fdopen(end)))
        # Six answers each, however slow the machine is.
        lines = [file.readline() for _, file in children for _ in range(6)]
        time.sleep(generator.uniform(0.5, 1.5))
        server.kill()
        server.start()
        time.sleep(0.5)
        for pid, file in children:
            os.kill(pid, signal.SIGKILL)
            with file:
                lines += file.readlines()
            os.waitpid(pid, 0)
        for line in lines:
            label, _, value = line.partition(";")
            seen.append((label, json.loads(value)))
    attempts, pending = checked(url, seen)
    again = sum(number > 1 for number in attempts.values())
    print(
        f"{len(seen)} answers of {len(attempts)} labels, {pending} pending, {again} "
        "drawn again"
    )
    assert len(seen) > 50


def test_40_processes_race_to_a_cap(database):
    new_ledger(database, limit=20)
    assert race(database, 40, 10) == 200
    with ledger.open(database) as book:
        assert book.budget("all").spent == {"epsilon": Fraction(20)}
        assert book.audit().ok


_ASK = """
import sys
import numpy as np
from fastdp import ledger
from tests.ledger.conftest import NOISE
with ledger.open(sys.argv[1]) as book:
    answer = book.release(NOISE, np.arange(4), label="a", budgets="all")
print(answer.value.tolist())
"""


def test_processes_in_their_own_namespaces_get_one_answer(database):
    wrap = ["unshare", "--pid", "--fork", "--mount", "--kill-child"]
    if subprocess.run([*wrap, "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces are not permitted here")
    new_ledger(database)
    command = [*wrap, sys.executable, "-c", _ASK, database]
    running = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    said = {process.communicate(timeout=120)[0] for process in running}
    assert len(said) == 1
    with ledger.open(database) as book:
        assert book.budget("all").spent == {"epsilon": PRICE}
        assert book.audit().ok


def test_a_lost_session_is_asked_again_by_the_label(server, database):
    new_ledger(database)
    with ledger.open(database) as book:
        book.release(NOISE, CELLS, label="a", budgets="all")
        for _ in range(3):
            server.run(
                *("psql", "-h", server.folder, "-U", "owner", "-d", "postgres", "-c"),
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'fastdp ledger'",
            )
            assert book.release(NOISE, CELLS, label="a", budgets="all").replayed
        assert book.budget("all").spent == {"epsilon": PRICE}


def test_a_session_killed_within_the_draw_draws_again(server, database, monkeypatch):
    from fastdp.ledger import _terms

    new_ledger(database)
    packed, killed = _terms.packed, []

    def packing(value):
        if not killed:
            killed.append(1)
            server.run(
                *("psql", "-h", server.folder, "-U", "owner", "-d", "postgres", "-c"),
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'fastdp ledger'",
            )
        return packed(value)

    with ledger.open(database) as book:
        monkeypatch.setattr(_terms, "packed", packing)
        answer = book.release(NOISE, CELLS, label="a", budgets="all")
        assert answer.attempt == 2
        assert book.budget("all").spent == {"epsilon": PRICE}
        assert book.audit().ok


def test_unsafe_settings_are_refused(server, database):
    new_ledger(database)
    name = database.partition("?")[0].rpartition("/")[2]
    sql = ("psql", "-h", server.folder, "-U", "owner", "-d", "postgres", "-c")
    for value in ("off", "local"):
        server.run(*sql, f"ALTER DATABASE {name} SET synchronous_commit = {value}")
        with pytest.raises(LedgerError, match="synchronous_commit = on"):
            ledger.open(database)
    server.run(*sql, f"ALTER DATABASE {name} SET synchronous_commit = on")
    ledger.open(database).close()


def test_a_server_that_is_not_there_is_an_error(server, tmp_path):
    with pytest.raises(LedgerError, match="connection is lost"):
        ledger.open(f"postgresql://owner:secret-word@/x?host={tmp_path}")
    with pytest.raises(LedgerError) as error:
        ledger.open(f"postgresql://owner:secret-word@/x?host={tmp_path}")
    assert "secret-word" not in str(error.value)
    with pytest.raises(LedgerError):
        ledger.open("postgresql://%zz")


@contextlib.contextmanager
def made_primary():
    """Make a server that may be stopped, copied and promoted."""
    with tempfile.TemporaryDirectory(prefix="fastdp-postgres-") as folder:
        made = Server(Path(folder))
        yield made
        for data in ("data", "copy"):
            with contextlib.suppress(subprocess.CalledProcessError):
                made.stop("immediate", made.folder / data)


@pytest.fixture
def primary(server):
    with made_primary() as made:
        yield made


def test_a_promoted_replica_and_a_restored_backup_are_refused(primary, tmp_path):
    url = primary.database("books")
    witness = tmp_path / "witness.json"
    with ledger.create(url, witness=witness) as book:
        book.add_budget("all", accounting.PureFilter(9), unit="person")
        book.release(NOISE, CELLS, label="a", budgets="all")
    copy = primary.folder / "copy"
    primary.run(
        *("pg_basebackup", "-h", primary.folder, "-U", "owner", "-D", copy, "-X"),
        *("stream", "-c", "fast"),
    )
    replica = primary.folder / "replica"
    command = ["cp", "-a", str(copy), str(replica)]
    subprocess.run(command, check=True)
    with ledger.open(url) as book:
        answer = book.release(NOISE, CELLS, label="b", budgets="all")
    serving = ledger.open(url)
    assert serving.release(NOISE, CELLS, label="b", budgets="all").replayed
    primary.stop()
    # Restored elsewhere: another folder. An open handle is told, too.
    primary.start(copy)
    with pytest.raises(LedgerError, match=r"copy, or was moved|behind the"):
        ledger.open(url)
    with pytest.raises(LedgerError, match="is not the database that was opened"):
        serving.release(NOISE, CELLS, label="c", budgets="all")
    primary.stop(data=copy)
    # Restored in place: behind its witness, and without what was published.
    shutil.rmtree(primary.data)
    copy.rename(primary.data)
    primary.start()
    with pytest.raises(LedgerError, match="behind the witness"):
        ledger.open(url)
    with pytest.raises(LedgerError, match=r"is behind|was moved"):
        serving.release(NOISE, CELLS, label="b", budgets="all")
    primary.stop()
    # A standby refuses; promoted, it has another timeline.
    shutil.rmtree(primary.data)
    replica.rename(primary.data)
    (primary.data / "standby.signal").touch()
    primary.start()
    with pytest.raises(LedgerError, match="standby"):
        ledger.open(url)
    primary.run("pg_ctl", "-D", primary.data, "-w", "promote")
    with pytest.raises(LedgerError, match="is not the database that was opened"):
        serving.release(NOISE, CELLS, label="b", budgets="all")
    witness.unlink()
    with pytest.raises(LedgerError, match="copy, or was moved"):
        ledger.open(url)
    primary.run(
        *("psql", "-h", primary.folder, "-U", "owner", "-d", "books", "-c"),
        "UPDATE fastdp_ledger.ledger SET witness = NULL",
    )
    with pytest.raises(LedgerError, match="'all'"):
        ledger.adopt(url, note="promoted", receipts=answer.receipts)
    assert ledger.adopt(
        url, note="promoted", receipts=answer.receipts, forfeit=["all"]
    ) == ["all"]
    with ledger.open(url) as book:
        assert book.audit(receipts=answer.receipts).problems != []
        with pytest.raises(BudgetExceededError, match="closed"):
            book.release(NOISE, CELLS, label="b", budgets="all")


def test_a_server_that_is_locked_or_gone_has_an_exit_code_of_its_own(
    server, monkeypatch, capsys
):
    import psycopg

    url = server.database("locked")
    with ledger.create(url) as book:
        book.add_budget("all", accounting.PureFilter(3), unit="person")
    monkeypatch.setattr(ledger, "open", functools.partial(ledger.open, timeout=0.5))
    spend = ["ledger", "spend", url, "--label", "a", "--budget", "all", "--epsilon"]
    spend += ["1", "--neighbors", "add-or-remove-one"]
    with psycopg.connect(url) as other:
        other.execute("SELECT * FROM fastdp_ledger.budget FOR UPDATE")
        assert main(spend) == 75
        assert "has been locked for more than 0.5 s" in capsys.readouterr().err
    server.stop()
    try:
        assert main(spend) == 75
        assert "the connection is lost" in capsys.readouterr().err
    finally:
        server.start()
    assert main(spend) == 0
    with ledger.open(url) as book:
        assert book.budget("all").spent == {"epsilon": Fraction(1)}
