"""Open, release, read and close by many threads and processes at once.

FASTDP_STRESS_SECONDS says how long, 15 by default; FASTDP_OTHER_SQLITE names a module,
such as pysqlite3, that half of the processes use in place of Python's sqlite3.
"""

import collections
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time

import pytest

from fastdp import accounting, ledger
from fastdp.exceptions import LedgerError
from fastdp.ledger import _sqlite
from tests.ledger.conftest import PRICE
from tests.ledger.test_postgres import made_primary

SECONDS = float(os.environ.get("FASTDP_STRESS_SECONDS", "15"))
WRITERS, THREADS, READERS = 3, 4, 2

WORKER = r"""
import collections, importlib, json, sys, threading, time
if sys.argv[6]:
    sys.modules["sqlite3"] = importlib.import_module(sys.argv[6])
import numpy as np
import fastdp
from fastdp import ledger
from fastdp.exceptions import LedgerError
from fastdp.ledger import _sqlite

place, who, kind, seconds, safe = *sys.argv[1:4], float(sys.argv[4]), sys.argv[5]
if safe == "safe":  # the file's mode decides; the test is of the locks
    _sqlite.is_write_ahead_safe = lambda: True
m = fastdp.DiscreteLaplace(10, sensitivity=1)
stop, seen, errors = time.monotonic() + seconds, {}, collections.Counter()
guard = threading.Lock()

def release(number):
    i = 0
    while time.monotonic() < stop:
        i += 1
        label = f"both {i}" if i % 2 else f"{who} {number} {i}"
        try:
            with ledger.open(place, timeout=5) as book:
                for _ in range(2):
                    answer = book.release(
                        m, np.zeros(40, np.int64), label=label, budgets="all"
                    )
                    value = answer.value.tobytes().hex()
                    with guard:
                        if seen.setdefault(label, value) != value:
                            errors["two values of one label"] += 1
        except LedgerError as error:
            errors[str(error)] += 1

def read(_):
    with ledger.open(place, timeout=5) as book:
        while time.monotonic() < stop:
            try:
                book.budgets()
            except LedgerError as error:
                errors[str(error)] += 1

work = [threading.Thread(target=release if kind == "write" else read, args=(n,))
        for n in range(4 if kind == "write" else 1)]
for thread in work:
    thread.start()
for thread in work:
    thread.join()
print(json.dumps([seen, errors]))
"""


def stressed(place, *, between=None):
    """Return what was shown by label, and how often each error was raised."""
    started = []
    for number in range(WRITERS + READERS):
        kind = "write" if number < WRITERS else "read"
        other = os.environ.get("FASTDP_OTHER_SQLITE", "") if number % 2 else ""
        command = [sys.executable, "-c", WORKER, place, str(number), kind, str(SECONDS)]
        command += ["safe", other]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    if between is not None:
        time.sleep(SECONDS / 2)
        between()
    shown, errors = {}, collections.Counter()
    for process in started:
        out, _ = process.communicate(timeout=SECONDS + 120)
        assert process.returncode == 0
        seen, raised = json.loads(out)
        errors.update(raised)
        for label, value in seen.items():
            assert shown.setdefault(label, value) == value, label
    return shown, errors


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_file_under_stress_forgets_nothing(tmp_path, monkeypatch, mode):
    place = str(tmp_path / "budget.db")
    monkeypatch.setattr(_sqlite, "is_write_ahead_safe", lambda: mode == "wal")
    with ledger.create(place) as book:
        book.add_budget("all", accounting.PureFilter(10**6), unit="person")
    shown, errors = stressed(place)
    assert all("has been locked" in text for text in errors), errors
    with ledger.open(place) as book:
        audit = book.audit()
        assert audit.problems == []
        assert book.budget("all").spent["epsilon"] == audit.labels * PRICE
    stored = _stored(place)
    print(f"\n{mode}: {len(shown)} labels shown, {audit.labels} charged, {errors}")
    assert set(shown) <= stored
    assert len(shown) > 10


def _stored(place):
    with contextlib.closing(sqlite3.connect(place)) as raw:
        return {row[0] for row in raw.execute("SELECT label FROM result")}


@pytest.mark.slow
def test_a_fail_over_in_the_middle_draws_no_second_answer(server):
    """A standby that lags takes over: its clients refuse it, until it is adopted."""
    with made_primary() as primary:
        url = primary.database("books")
        with ledger.create(url) as book:
            book.add_budget("all", accounting.PureFilter(10**6), unit="person")
        primary.run(
            *("pg_basebackup", "-h", primary.folder, "-U", "owner"),
            *("-D", primary.folder / "copy", "-X", "stream", "-c", "fast"),
        )

        def fail_over():
            primary.stop("immediate")
            (primary.folder / "data").rename(primary.folder / "lost")
            (primary.folder / "copy").rename(primary.folder / "data")
            (primary.data / "standby.signal").touch()
            primary.start()
            primary.run("pg_ctl", "-D", primary.data, "-w", "promote")

        shown, errors = stressed(url, between=fail_over)
        assert any("was opened" in text or "moved" in text for text in errors), errors
        allowed = ("was opened", "moved", "PostgreSQL says", "cannot be reached")
        allowed += ("standby", "has been locked", "behind")
        assert all(any(a in text for a in allowed) for text in errors), errors
        with pytest.raises(LedgerError):
            ledger.open(url)
        # Nothing was charged or drawn at the standby: it is as it was copied.
        print(f"\nfail-over: {len(shown)} labels shown, {sum(errors.values())} errors")
        ledger.adopt(url, note="promoted", forfeit=["all"])
        with ledger.open(url) as book:
            audit = book.audit()
            assert (audit.problems, audit.labels) == ([], 0)
