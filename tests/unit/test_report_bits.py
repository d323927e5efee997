"""docs/report_bits.md: its vectors are the reference's, and the library's."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import _core
from fastdp.mechanisms.local import _strings
from fastdp.mechanisms.local.local_hashing import REPORT
from fastdp.mechanisms.local.vector_response import _sizes
from tests.vectors import make_reports

FOLDER = Path(__file__).parents[1] / "vectors"
VECTORS: dict[str, Any] = json.loads((FOLDER / "reports.json").read_text())
KEY = VECTORS["key"]
HASH = _core.HashKey(bytes.fromhex(KEY))


def number(digits: str) -> int:
    return int(digits, 16)


@pytest.mark.rest
def test_the_file_is_what_the_reference_says() -> None:
    assert (FOLDER / "reports.json").read_text() == make_reports.text()


def test_fingerprints() -> None:
    m = fastdp.RandomizedResponse(p=0.75, categories=5)
    assert VECTORS["fingerprint"] == {"text": m.to_json(), "fingerprint": m.fingerprint}


def test_digests_and_functions() -> None:
    texts = [bytes.fromhex(each["text"]) for each in VECTORS["digests"]]
    found = _strings.read("values", texts).digests(HASH)
    assert found.tolist() == [number(each["digest"]) for each in VECTORS["digests"]]
    seeds = np.array([number(each["seed"]) for each in VECTORS["functions"]], np.uint64)
    words = _strings.functions(HASH, seeds)
    for word, each in zip(words, VECTORS["functions"], strict=True):
        assert [*map(int, word)] == [*map(number, each["words"])]


def test_buckets_of_sketches_and_hunts() -> None:
    sketch = fastdp.CountMeanSketch.from_epsilon(1, key=KEY)
    for each in VECTORS["sketch"]:
        out = np.zeros(1, np.uint32)
        row = np.array([each["row"]], np.uint16)
        digest = np.array([number(each["digest"])], np.uint64)
        _core.row_buckets(sketch._functions, 10, row, digest, out)
        assert out[0] == each["bucket"]
    hunt = fastdp.PrefixHunt.from_epsilon(4, key=KEY)
    assert (hunt.buckets, len(hunt.lengths), hunt.lengths[-1]) == (56, 10, 64)
    for each in VECTORS["hunt"]:
        seed = np.array([number(each["seed"])], np.uint64)
        assert hunt._groups_of(seed)[0] == each["group"]
        assert hunt.lengths[each["group"]] == each["length"]
        rows = _strings.read("values", [bytes.fromhex(each["text"])]).padded(8)
        out = np.zeros(1, np.uint32)
        HASH.buckets(seed, 56, hunt._digests(rows, each["group"]), out)
        assert out[0] == each["bucket"]


def test_filters() -> None:
    m = fastdp.Rappor(0.5, p=0.5, q=0.75, key=KEY)
    for each in VECTORS["rappor"]:
        text = bytes.fromhex(each["text"])
        digest = _strings.read("values", [text]).digests(HASH)
        row = m._filters(digest, np.array([each["cohort"]], np.uint16))
        assert row.tobytes().hex() == each["filter"]


def test_local_hashing() -> None:
    for each in VECTORS["local_hashing"]:
        d, g = each["categories"], each["buckets"]
        report = np.zeros(1, [("seed", "<u8"), ("value", "<u4")])
        report["seed"], report["value"] = number(each["seed"]), each["bucket"]
        counts = np.zeros(d, np.int64)
        _core.hash_support(report, d, g, counts)
        assert counts[each["category"]] == 1


def test_vectors() -> None:
    for each in VECTORS["vector_response"]:
        code = _core.VectorCode(_sizes(), each["words"], each["dimension"])
        report = np.array([(number(each["seed"]), each["words"] - 1)], REPORT)
        tally = np.zeros(each["dimension"] + 1, np.int64)
        code.sums(report, tally)
        assert tally[:-1][-8:].tolist() == each["last"]
        x = np.array([each["direction"]], np.int32)
        code.clients(x, np.array([each["rank"]]), report)
        assert report["value"][0] == each["value"]


def test_the_page_has_every_mechanism_of_one_report() -> None:
    page = (FOLDER.parents[1] / "docs" / "report_bits.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)\(", page))
    assert named >= {
        *("RandomizedResponse", "UnaryEncoding", "LocalHashing", "HadamardResponse"),
        "SubsetSelection",
        *("CountMeanSketch", "PrefixHunt", "Rappor", "LocalMean", "VectorResponse"),
    }
