"""clients/js: the vectors' reports from the vectors' words, and the law of many."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdp

ROOT = Path(__file__).parents[2]
VECTORS: dict[str, Any] = json.loads(
    (ROOT / "tests" / "vectors" / "reports.json").read_text()
)

pytestmark = [
    pytest.mark.rest,
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not here"),
]

#: Reads JSON from standard input, with words to draw or a count of reports.
RUN = """
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import * as client from "CLIENT";

class Given extends client.Randomness {
  constructor(words) { super(); this.words = words; this.at = 0; }
  word() {
    if (this.at === this.words.length) throw new Error("too many words drawn");
    return BigInt("0x" + this.words[this.at++]);
  }
}
class Fixed extends client.Randomness {
  at = 0;
  word() {
    const digest = createHash("sha256").update(String(this.at++)).digest();
    return digest.readBigUInt64BE(0);
  }
}
const given = (value) => value?.integer === undefined ? value : BigInt(value.integer);
const done = JSON.parse(readFileSync(0, "utf8")).map((c) => {
  try {
    if (c.sizes) {
      const bytes = new Uint8Array(client.sizes().buffer);
      return { digest: createHash("sha256").update(bytes).digest("hex") };
    }
    if (c.envelope) return client.report(c.mechanism, c.values);
    if (c.values) return client.reports(c.mechanism, c.values, new Fixed());
    const random = new Given(c.words);
    const memo = c.memo && client.memo(c.mechanism, given(c.value), random);
    const [report] = client.reports(c.mechanism, [memo ?? given(c.value)], random);
    return { memo, report, left: c.words.length - random.at };
  } catch (error) { return { error: error.message }; }
});
console.log(JSON.stringify(await Promise.all(done)));
"""


def node(cases: list[Any]) -> list[Any]:
    client = (ROOT / "clients" / "js" / "fastdp.mjs").as_uri()
    ran = subprocess.run(
        ["node", "--input-type=module", "--eval", RUN.replace("CLIENT", client)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(ran.stdout)


def test_the_vectors_reports_are_drawn() -> None:
    cases = VECTORS["clients"]
    kinds = {json.loads(case["mechanism"])["mechanism"]["type"] for case in cases}
    assert len(cases) > 250
    assert len(kinds) == 10
    for case, found in zip(cases, node(cases), strict=True):
        wanted = {"report": case["report"], "left": 0}
        if "memo" in case:
            wanted["memo"] = case["memo"]
        assert found == wanted, case


def test_the_server_reads_what_the_client_sends() -> None:
    """Frequencies of 4,000 fixed reports lie within six standard errors."""
    made = [
        fastdp.RandomizedResponse.from_epsilon(
            2, categories=["a", "b", "c"], other="c"
        ),
        fastdp.UnaryEncoding.from_epsilon(2, categories=3),
        fastdp.LocalHashing.from_epsilon(2, categories=3),
        fastdp.SubsetSelection.from_epsilon(2, categories=3),
        fastdp.HadamardResponse.from_epsilon(2, categories=3),
    ]
    sent = np.repeat([0, 1, 2], [2500, 1200, 300]).tolist()
    cases = [
        {
            "mechanism": m.to_json(),
            "values": [m.names[v] for v in sent] if m.names else sent,
        }
        for m in made
    ]
    for m, reports in zip(made, node(cases), strict=True):
        content = {"mechanism": m.fingerprint, "reports": reports}
        envelope = {"format": "fastdp report", "version": 1, "content": content}
        read = m.reports_from_json(json.dumps(envelope))
        found = m.estimate(read)
        error = np.abs(
            np.asarray(found.frequencies) - np.array([2500, 1200, 300]) / 4000
        )
        assert (error <= 6 * np.asarray(found.standard_errors)).all()


def test_the_server_reads_rows_and_vectors() -> None:
    """Means of 2,000 fixed reports lie within six standard errors."""
    truth = np.array([0.5, -0.25, 0.75])
    made = [
        fastdp.LocalMean.from_epsilon(4, bounds=(-1, 1), dimension=3, asked=2),
        fastdp.VectorResponse.from_epsilon(4, dimension=3),
    ]
    cases = [{"mechanism": m.to_json(), "values": [[*truth]] * 2000} for m in made]
    for m, reports in zip(made, node(cases), strict=True):
        content = {"mechanism": m.fingerprint, "reports": reports}
        envelope = {"format": "fastdp report", "version": 1, "content": content}
        found = m.estimate(m.reports_from_json(json.dumps(envelope)))
        error = np.abs(found.mean - truth)
        assert (error <= 6 * np.asarray(found.standard_error)).all()
        assert np.max(np.asarray(found.standard_error)) < 0.1


def test_the_table_of_vectors_is_the_pages() -> None:
    page = (ROOT / "docs" / "report_bits.md").read_text(encoding="utf-8")
    (found,) = node([{"sizes": True}])
    assert found["digest"] in page


def test_the_envelope() -> None:
    m = fastdp.RandomizedResponse.from_epsilon(1, categories=4)
    (text,) = node([{"mechanism": m.to_json(), "values": [0, 3, 9], "envelope": True}])
    read = m.reports_from_json(text)
    assert read.shape == (3,)
    assert (read < 4).all()


@pytest.mark.parametrize("value", [1, [1, 2], None, [1, 2, 3, 4]])
def test_rows_of_another_length_are_refused(value: Any) -> None:
    for m in (
        fastdp.LocalMean.from_epsilon(4, bounds=(-1, 1), dimension=3),
        fastdp.VectorResponse.from_epsilon(4, dimension=3),
    ):
        (found,) = node([{"mechanism": m.to_json(), "values": [value]}])
        assert found == {"error": "a value must be 3 numbers"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"version": 2},
            "text must be a mechanism of version 1, as m.to_json() gives it",
        ),
        (
            {"format": "x"},
            "text must be a mechanism of version 1, as m.to_json() gives it",
        ),
        ({"type": "ShuffledResponse"}, "ShuffledResponse has no client here"),
        ({"p": "1/3"}, "a probability must be a multiple of 2^-64 in [0, 1]"),
        ({"p": "9/8"}, "a probability must be a multiple of 2^-64 in [0, 1]"),
    ],
)
def test_bad_mechanisms_are_refused(change: dict[str, Any], message: str) -> None:
    text = json.loads(fastdp.RandomizedResponse.from_epsilon(1, categories=4).to_json())
    inner = {key: value for key, value in change.items() if key in ("type", "p")}
    text |= {key: value for key, value in change.items() if key not in inner}
    text["mechanism"] |= inner
    (found,) = node([{"mechanism": json.dumps(text), "values": [1]}])
    assert found == {"error": message}
