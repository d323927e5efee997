"""Cut the power at chosen operations of two releases; run under the preloaded library.

    LD_PRELOAD=powercut.so python -m tests.ledger.powercut FOLDER MODE STRIDE

Prints one line of JSON: cuts, answers shown before them, and what was wrong after. The
modes "wal-normal" and "delete-off" are the controls, which sync too little.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

from fastdp import ledger
from fastdp.exceptions import FastDPError
from fastdp.ledger import _sqlite
from tests.ledger.conftest import finished, in_child
from tests.ledger.test_crashes import checked, new_ledger, one_of_each

LIBRARY = ctypes.CDLL(None)


def sync_less(level):
    connect = _sqlite.SqliteStore._connect

    def careless(store, mode=None):
        made = connect(store, mode)
        made.execute(f"PRAGMA synchronous = {level}")
        return made

    _sqlite.SqliteStore._connect = careless


def one_run(path, operation, tag):
    def work(write):
        with ledger.open(path) as book:
            LIBRARY.powercut_arm(str(path.parent).encode(), operation, operation)
            one_of_each(book, f"{tag} a", write)
            one_of_each(book, f"{tag} b", write)
        counts = LIBRARY.powercut_operations(), LIBRARY.powercut_syncs()
        write(json.dumps(["counts", *counts]))

    lines, _ = finished(*in_child(work))
    return [json.loads(line) for line in lines]


def main(folder, mode, stride):
    journal, _, level = mode.partition("-")
    _sqlite.is_write_ahead_safe = lambda: journal == "wal"
    if level:
        sync_less(level)

    def fresh(name):
        (folder / name).mkdir()
        path = folder / name / "budget.db"
        new_ledger(path)
        return path

    (_, operations, syncs) = one_run(fresh("count"), 0, "count")[-1]
    result = {"operations": operations, "syncs": syncs, "cuts": 0, "answers": 0}
    wrong = []
    for operation in range(1, operations + 1, stride):
        path = fresh(str(operation))
        seen = one_run(path, operation, "x")
        assert all(label != "counts" for label, *_ in seen), "it was not cut"
        result["cuts"] += 1
        result["answers"] += len(seen)

        def verify(write, path=path, seen=seen):
            try:
                checked(path, seen)
                write("fine")
            except (AssertionError, FastDPError) as error:
                write(type(error).__name__)

        lines, _ = finished(*in_child(verify))
        if lines != ["fine"]:
            wrong.append([operation, *lines])
    print(json.dumps({**result, "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
