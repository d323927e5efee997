"""Time the ledger: charges, replays, opening, the audit; and PostgreSQL's row locks.

    python bench/ledger.py [--entries N] [--postgres URL]

Ratios of one run count, not seconds: a charge with N entries beside one in an empty
ledger, in processor time; a replay of 500 integers; opening and auditing N entries.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fastdp
from fastdp import accounting, ledger
from fastdp.accounting.events import ZCDPEvent
from fastdp.ledger import _protocol, _sqlite, _terms

EVENT = ZCDPEvent(1)


def processor(call: Callable[[int], object], times: int) -> float:
    """Return the median processor time of a call, user and system, in milliseconds."""
    spent = []
    for number in range(times):
        before = resource.getrusage(resource.RUSAGE_SELF)
        call(number)
        after = resource.getrusage(resource.RUSAGE_SELF)
        user = after.ru_utime - before.ru_utime
        spent.append((user + after.ru_stime - before.ru_stime) * 1e3)
    return statistics.median(spent)


def best(call: Callable[[], object], times: int) -> float:
    """Return the least wall time of a call, in milliseconds."""
    spent = []
    for _ in range(times):
        before = time.perf_counter()
        call()
        spent.append((time.perf_counter() - before) * 1e3)
    return min(spent)


def fill(book: ledger.Ledger, entries: int) -> None:
    """Charge many labels in few transactions, by the protocol's own statements."""
    store, uuid = book._store, book._uuid
    for start in range(0, entries, 5000):
        with store.transaction() as run:
            for number in range(start, min(start + 5000, entries)):
                wanted = _terms.terms(f"fill {number}", "spend", "all", EVENT, {})
                budgets = _protocol.locked(run, store, uuid, wanted.budgets)
                what, states = _protocol.admitted(budgets, wanted, 1)
                run(
                    "INSERT INTO charge (label, kind, terms, digest) "
                    "VALUES (?, ?, ?, ?)",
                    *(wanted.label, wanted.kind, wanted.text, wanted.digest),
                )
                run("INSERT INTO attempt VALUES (?, 1)", wanted.label)
                detail = _terms.canonical(
                    {"terms": wanted.digest.hex(), "attempt": 1, **_protocol.note()}
                )
                row = _protocol.replace(budgets[0], state=states[0])
                _protocol.enter(run, uuid, row, what, wanted.label, detail)


def sqlite(folder: Path, entries: int) -> None:
    charges = {}
    for size in (0, entries):
        path = folder / f"{size}.db"
        with ledger.create(path) as book:
            book.add_budget("all", accounting.ZCDPFilter(10**12), unit="person")
            fill(book, size)
            tag = f"new {size}"
            charges[size] = processor(
                lambda n, book=book, tag=tag: book.spend(
                    EVENT, label=f"{tag} {n}", budgets="all"
                ),
                300,
            )
            print(f"charge with {size} entries: {charges[size]:.2f} ms of processor")
    print(f"  ratio {charges[entries] / charges[0]:.2f}")
    path = folder / f"{entries}.db"
    print(f"open: {best(lambda: ledger.open(path).close(), 20):.1f} ms")
    m = fastdp.DiscreteGaussian(10, sensitivity=1)
    counts = np.arange(500)
    with ledger.open(path) as book:
        book.release(m, counts, label="replay", budgets="all")
        replay = best(
            lambda: book.release(m, counts, label="replay", budgets="all"), 3000
        )
        print(f"replay of 500 int64: {replay * 1e3:.0f} us")
        before = time.process_time()
        audit = book.audit()
        assert audit.ok, audit.problems
        each = (time.process_time() - before) / audit.entries * 1e6
        print(f"audit: {each:.1f} us of processor an entry, {audit.entries} entries")
    print(f"file: {path.stat().st_size / 1e6:.0f} MB")


def client(url: str, number: int, budgets: int, tag: str, seconds: float) -> int:
    """Charge as fast as one client can; return how often."""
    done = 0
    with ledger.open(url) as book:
        stop = time.monotonic() + seconds
        while time.monotonic() < stop:
            name = f"b{(number + done) % budgets}"
            book.spend(EVENT, label=f"{tag} {number} {done}", budgets=name)
            done += 1
    return done


def postgres(url: str, clients: int = 64, seconds: float = 6.0) -> None:
    with ledger.create(url) as book:
        for number in range(100):
            book.add_budget(f"b{number}", accounting.ZCDPFilter(10**9), unit="person")
    rates: dict[int, list[float]] = {1: [], 100: []}
    with multiprocessing.get_context("fork").Pool(clients) as pool:
        for turn in range(2):
            for budgets, found in rates.items():
                tag = f"turn {turn} {budgets}"
                tasks = [(url, n, budgets, tag, seconds) for n in range(clients)]
                found.append(sum(pool.starmap(client, tasks, 1)) / seconds)
    for budgets, found in rates.items():
        shown = ", ".join(f"{rate:.0f}" for rate in found)
        print(f"{budgets} budgets, {clients} clients: {shown} charges/s")
    ratios = [many / one for one, many in zip(*rates.values(), strict=True)]
    print("  ratios " + ", ".join(f"{ratio:.2f}" for ratio in ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--postgres", metavar="URL")
    parser.add_argument("--journal", choices=["wal", "delete"])
    arguments = parser.parse_args()
    if arguments.journal:
        _sqlite.is_write_ahead_safe = lambda *_: arguments.journal == "wal"
    if arguments.postgres:
        postgres(arguments.postgres)
        return
    with tempfile.TemporaryDirectory() as folder:
        sqlite(Path(folder), arguments.entries)


if __name__ == "__main__":
    main()
