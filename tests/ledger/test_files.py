"""Files of a ledger that went missing, and its choices by version."""

import json

import pytest

from fastdp import ledger
from fastdp.exceptions import (
    DTypeError,
    LabelConflictError,
    LedgerError,
    ParameterError,
)
from fastdp.ledger import _files, _sqlite
from tests.ledger.conftest import NOISE, PRICE
from tests.ledger.test_care import CELLS, audited, tampered

# ---- files ----------------------------------------------------------------------


def test_a_file_is_written_once(path, tmp_path):
    place, calls = tmp_path / "out.bin", []

    def draw(staged, receipts):
        calls.append(json.loads(receipts)["receipts"][0]["budget"])
        staged.write_bytes(bytes(NOISE.release(CELLS)))

    options = {"event": NOISE, "label": "f", "budgets": "all", "facts": {"n": 3}}
    with ledger.open(path) as book:
        first = book.write(place, draw, **options)
        body = place.read_bytes()
        second = book.write(place, draw, **options)
        assert (first.replayed, second.replayed) == (False, True)
        assert calls == ["all"]
        assert place.read_bytes() == body
        assert book.budget("all").spent == {"epsilon": PRICE}
        with pytest.raises(LabelConflictError):
            book.write(place, draw, **{**options, "facts": {"n": 4}})
        with pytest.raises(ParameterError, match="must not exist"):
            book.write(place, draw, **{**options, "label": "g"})
        place.write_bytes(body + b"x")
        with pytest.raises(LedgerError, match="altered"):
            book.write(place, draw, **options)
        place.unlink()
        with pytest.raises(LedgerError, match="missing; it is not drawn again"):
            book.write(place, draw, **options)
        assert calls == ["all"]


def test_the_audit_finds_deleted_and_altered_files(path, tmp_path):
    place = tmp_path / "out.bin"

    def draw(staged, receipts):
        staged.write_bytes(bytes(NOISE.release(CELLS)))

    with ledger.open(path) as book:
        answer = book.write(place, draw, event=NOISE, label="f", budgets="all")
        proofs = {"receipts": answer.receipts}
        assert book.audit(**proofs).ok
        body = place.read_bytes()
        for change, state in (
            (lambda: place.write_bytes(body[:-1] + b"?"), "altered"),
            (place.unlink, "missing"),
        ):
            change()
            for options in ({}, proofs):
                (problem,) = book.audit(**options).problems
                assert problem.startswith("label 'f'")
                assert f"{place} is {state}" in problem
            assert book.audit(files=False, **proofs).ok
        with pytest.raises(DTypeError, match="files must be a bool"):
            book.audit(files=1)
    # The ledger itself is whole: it can be moved, and says the same there.
    moved = tmp_path / "moved.db"
    ledger.migrate(path, moved, note="new disk")
    assert len(audited(moved)) == 1
    place.write_bytes(body)
    assert audited(moved) == []


def test_a_folder_is_written_once_and_a_crash_before_the_rename_is_finished(
    path, tmp_path, monkeypatch
):
    place = tmp_path / "out"

    def draw(staged, receipts):
        (staged / "deep").mkdir(parents=True)
        (staged / "a.bin").write_bytes(bytes(NOISE.release(CELLS)))
        (staged / "deep" / "b.bin").write_bytes(b"b")

    def crash(*_):
        raise KeyboardInterrupt

    options = {"event": NOISE, "label": "f", "budgets": "all"}
    with ledger.open(path) as book:
        with monkeypatch.context() as patch:  # before the manifest: paid again
            patch.setattr(_files, "manifest", crash)
            with pytest.raises(KeyboardInterrupt):
                book.write(place, draw, **options)
        with monkeypatch.context() as patch:  # stored, not renamed
            patch.setattr(_files, "finish", crash)
            with pytest.raises(KeyboardInterrupt):
                book.write(place, draw, **options)
        assert not place.exists()
        assert book.audit().ok  # staged and whole: the next attempt finishes
        assert book.write(place, draw, **options).replayed
        assert book.budget("all").spent == {"epsilon": 2 * PRICE}
        assert sorted(p.name for p in tmp_path.glob("*out*")) == ["out"]
        assert sorted(p.name for p in place.rglob("*")) == ["a.bin", "b.bin", "deep"]
        (place / "extra").write_text("x")
        with pytest.raises(LedgerError, match="altered"):
            book.write(place, draw, **options)


# ---- choices by version ---------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 52, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_write_ahead_logs_need_a_library_that_keeps_them(version, safe):
    assert _sqlite.is_write_ahead_safe(version) is safe


def test_the_durability_is_told(path, journal):
    with ledger.open(path) as book:
        wanted = {"wal": "FULL", "delete": "EXTRA"}[journal]
        assert wanted in book.describe()["durability"]
        with book._store._connection() as connection:
            level = connection.execute("PRAGMA synchronous").fetchone()[0]
            mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        assert (level, mode) == ({"wal": 2, "delete": 3}[journal], journal)


def test_other_formats_and_network_disks_are_refused(path, monkeypatch):
    tampered(path, "UPDATE ledger SET format = 3")
    with pytest.raises(LedgerError, match="format 2, got 3"):
        ledger.open(path)
    monkeypatch.setattr(_sqlite, "_file_system", lambda folder: "nfs4")
    with pytest.raises(LedgerError, match="it is on nfs4"):
        ledger.open(path)
