"""Reports from lines of JSON: what the core takes, json.loads reads alike."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.exceptions import DTypeError, FastDPError
from fastdp.mechanisms.local import _reports

KEY = "00" * 16
MECHANISMS = [
    fastdp.RandomizedResponse.from_epsilon(1, categories=200),
    fastdp.RandomizedResponse.from_epsilon(1, categories=2000),
    fastdp.HadamardResponse.from_epsilon(1, categories=70000),
    fastdp.UnaryEncoding.from_epsilon(1, categories=13),
    fastdp.LocalHashing.from_epsilon(1, categories=9),
    fastdp.SubsetSelection.from_epsilon(1, categories=30),
    fastdp.CountMeanSketch.from_epsilon(1, key=KEY),
    fastdp.CountMeanSketch.from_epsilon(1, key=KEY, inner="unary", buckets=16),
    fastdp.Rappor(0.5, p=0.5, q=0.75, bits=32, key=KEY),
    fastdp.LocalMean.from_epsilon(2, bounds=(0, 1)),
    fastdp.LocalMean.from_epsilon(2, bounds=(0, 1), dimension=3),
    fastdp.VectorResponse.from_epsilon(2, dimension=3),
]
IDS = [f"{place}-{type(m).__name__}" for place, m in enumerate(MECHANISMS)]
every_mechanism = pytest.mark.parametrize("m", MECHANISMS, ids=IDS)


def some(m: Any, n: int, seed: int = 1) -> Any:
    """Return n reports of arbitrary bytes."""
    size = n * m.report_width
    flat = np.frombuffer(random.Random(seed).randbytes(size), np.uint8)
    return flat.view(m.report_dtype).reshape(n, *m._row).copy()


def line_of(m: Any, reports: Any, separators: Any = None) -> bytes:
    return json.dumps(
        json.loads(m.reports_to_json(reports)), separators=separators
    ).encode()


def by_core(m: Any, text: bytes, room: int = 100) -> tuple[int, Any]:
    """Return how many bytes the core takes, and the reports in them."""
    out = np.zeros((room, *m._row), m.report_dtype)
    fields = _reports._fields(m.report_dtype, m._row)
    count, read, _ = _core.report_lines(text, 0, m.fingerprint.encode(), fields, out)
    return read, out[:count]


def by_json(m: Any, line: bytes) -> Any:
    """Return the reports of a line, None if it is refused."""
    try:
        return m.reports_from_json(line.decode())
    except (FastDPError, UnicodeDecodeError):
        return None


@every_mechanism
def test_lines_of_both_writers_are_read_by_the_core(m: Any) -> None:
    reports = some(m, 60)
    for separators in (None, (",", ":"), ("\t,  ", " :\r")):
        lines = [line_of(m, reports[i : i + 3], separators) for i in range(0, 60, 3)]
        lines.insert(1, line_of(m, reports[:0], separators))
        for text in (b"\n".join(lines), b"\r\n\n \t\n".join(lines) + b"\n"):
            read, found = by_core(m, text)
            assert read == len(text)
            assert found.tobytes() == reports.tobytes()
            found, refused = m.reports_from_lines(text)
            assert found.dtype == m.report_dtype
            assert found.tobytes() == reports.tobytes()
            assert refused.tolist() == []
    one = m.reports_to_json(reports[0]).encode()
    assert by_core(m, one)[1].tobytes() == reports[:1].tobytes()


#: What mutants put in.
PIECES = [
    *(
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b" ",
        b"\r",
        b"\\",
        b"0",
        b"7",
        b"-",
        b"+",
    ),
    *(b"1.0", b"1e0", b"01", b"256", b"65536", b"4294967295", b"4294967296", b"1" * 40),
    *(
        b"null",
        b"true",
        b"NaN",
        b"Infinity",
        b"f",
        b"F",
        b"g",
        b"\\u0030",
        b"\xff",
        b"\xc3",
    ),
    *(
        b"\0",
        b"\x0b",
        b"\x0c",
        b"\xef\xbb\xbf",
        b"\xc2\xa0",
        b'"version": 1, ',
        b"[]",
        b"{}",
    ),
    *(
        b"1_0",
        b"0x1",
        b"\xd9\xa1",
        b"// ",
        b'"reports": 3, ',
        b"[[",
        b"]]",
        b'"seed": "',
    ),
]


def mutant(line: bytes, random: random.Random) -> bytes:
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at, piece = random.randrange(len(line) + 1), random.choice(PIECES)
        # Where numbers and digits stand more often than elsewhere.
        at = max(at, random.randrange(len(line) + 1))
        until = at + random.choice((0, 0, 1, len(piece), random.randrange(9)))
        line = line[:at] + random.choice((piece, b"")) + line[until:]
    return line.replace(b"\n", b"")


@pytest.mark.rest
@every_mechanism
def test_mutants_are_read_as_by_json(m: Any) -> None:
    """What the core takes, json.loads reads alike; so does the whole method."""
    numbers = random.Random(m.fingerprint)
    lines, taken, kept = [], 0, 0
    for turn in range(1500):
        reports = some(m, turn % 4, turn)
        separators = numbers.choice((None, (",", ":")))
        line = mutant(line_of(m, reports, separators), numbers)
        if numbers.randrange(20) == 0:
            members = list(json.loads(line_of(m, reports)).items())
            numbers.shuffle(members)
            line = json.dumps(dict(members)).encode()
        wanted = by_json(m, line)
        read, found = by_core(m, line)
        if read and line.strip():
            assert read == len(line)
            assert wanted is not None, line
            assert found.tobytes() == wanted.tobytes(), line
            taken += 1
        kept += wanted is not None
        lines.append((line, wanted))
    assert 20 < taken < kept < 1400  # of each kind there are some
    reports, refused = m.reports_from_lines(b"\n".join(line for line, _ in lines))
    blank = [not line.strip(b" \t\r") for line, _ in lines]
    assert refused.tolist() == [
        i + 1 for i, (_, wanted) in enumerate(lines) if wanted is None and not blank[i]
    ]
    good = [wanted for _, wanted in lines if wanted is not None]
    assert reports.tobytes() == np.concatenate(good).tobytes()


@every_mechanism
def test_every_cut_of_a_line_is_refused(m: Any) -> None:
    line = line_of(m, some(m, 2))
    for stop in range(1, len(line)):
        assert by_core(m, line[:stop])[0] == 0
        assert by_core(m, line[stop:])[0] == 0
        _, refused = m.reports_from_lines(
            line[:stop] + b"\n" + line[stop:] + b"\n" + line
        )
        assert refused.tolist() == [1, 2]


def test_long_lists_and_many_lines() -> None:
    m = MECHANISMS[1]
    for sizes in ((9000,), (8192,), (8191, 1, 1), (5000, 5000), (8192, 1, 20000, 0, 3)):
        parts = [some(m, n, n) for n in sizes]
        text = b"\n".join(line_of(m, part) for part in parts)
        reports, refused = m.reports_from_lines(text)
        assert np.array_equal(reports, np.concatenate(parts))
        assert refused.tolist() == []


def test_the_room_is_not_exceeded() -> None:
    m = MECHANISMS[5]
    for room in range(5):
        text = line_of(m, some(m, 3))
        out = np.full((room + 1, *m._row), 7, m.report_dtype)
        fields = _reports._fields(m.report_dtype, m._row)
        name = m.fingerprint.encode()
        found = _core.report_lines(text, 0, name, fields, out[:room])
        assert found == ((3, len(text), 1) if room >= 3 else (0, 0, 0))
        assert (out[room] == 7).all()


def test_other_mechanisms_and_types_are_refused() -> None:
    m, other = MECHANISMS[:2]
    reports, refused = m.reports_from_lines(line_of(other, some(other, 1)))
    assert len(reports) == 0
    assert refused.tolist() == [1]
    assert m.reports_from_lines(b"")[0].shape == (0,)
    with pytest.raises(DTypeError, match="text must be bytes, got str"):
        m.reports_from_lines("")  # type: ignore[arg-type]
