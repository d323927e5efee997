"""Makes reports.json: what of reports is deterministic, by the reference alone."""

import hashlib
import json
from pathlib import Path

from tests.reference import domains, hashing
from tests.reference import vectors as codes

KEY = bytes(range(16))
TEXTS = [b"", b"a", b"an.example", "gr\u00fc\u00df".encode(), bytes(range(64))]


def hexed(number: int) -> str:
    return f"{number:016x}"


def prefix(text: bytes, bits: int, length: int) -> bytes:
    """Return the first bits of a text that is cut or filled up."""
    whole = int.from_bytes(text[: bits // 8].ljust(bits // 8, b"\0"), "big")
    kept = whole >> bits - length << bits - length
    return kept.to_bytes(bits // 8, "big")[: -(-length // 8)]


def group(seed: int, groups: int) -> int:
    return min((seed >> 32) * 2 * (groups - 1) >> 32, groups - 1)


def filter_of(text: bytes, bits: int, hashes: int, cohort: int) -> bytes:
    digest = domains.siphash(KEY, text)
    row = bytearray(bits // 8)
    for j in range(hashes):
        place = domains.row_bucket(
            KEY, cohort * hashes + j, digest, bits.bit_length() - 1
        )
        row[place // 8] |= 128 >> place % 8
    return bytes(row)


def vectors() -> dict[str, object]:
    digests = [domains.siphash(KEY, text) for text in TEXTS]
    seeds = [0, 1, 255, 2**32 - 1, 2**63 + 12345, 2**64 - 1]
    table = codes.sizes()
    mechanism = (
        '{"format": "fastdp mechanism", "version": 1, "mechanism": {"type": '
        '"RandomizedResponse", "p": "3/4", "categories": 5, "other": null}}'
    )
    return {
        "key": KEY.hex(),
        "fingerprint": {
            "text": mechanism,
            "fingerprint": hashlib.sha256(mechanism.encode()).hexdigest()[:32],
        },
        "digests": [
            {"text": text.hex(), "digest": hexed(digest)}
            for text, digest in zip(TEXTS, digests, strict=True)
        ],
        "functions": [
            {"seed": hexed(seed), "words": [*map(hexed, domains.function(KEY, seed))]}
            for seed in seeds
        ],
        "sketch": [
            {
                "row": row,
                "buckets": 1024,
                "digest": hexed(digest),
                "bucket": domains.row_bucket(KEY, row, digest, 10),
            }
            for row in (0, 1, 1023)
            for digest in digests
        ],
        "hunt": [
            {
                "seed": hexed(seed),
                "bits": 64,
                "groups": 10,
                "buckets": 56,
                "text": text.hex(),
                "group": group(seed, 10),
                "length": (length := 12 + -(-52 * group(seed, 10) // 9)),
                "prefix": prefix(text, 64, length).hex(),
                "bucket": domains.seed_bucket(
                    KEY, seed, domains.siphash(KEY, prefix(text, 64, length)), 56
                ),
            }
            for seed in seeds
            for text in TEXTS[1:]
        ],
        "rappor": [
            {
                "text": text.hex(),
                "bits": 128,
                "hashes": 2,
                "cohort": cohort,
                "filter": filter_of(text, 128, 2, cohort).hex(),
            }
            for cohort in (0, 63)
            for text in TEXTS
        ],
        "local_hashing": [
            {
                "seed": hexed(seed),
                "categories": d,
                "buckets": g,
                "category": x,
                "bucket": hashing.bucket(seed, x, d, g),
            }
            for seed in seeds
            for d, g, x in ((2, 2, 1), (1000, 4, 999), (2**24, 8, 2**24 - 1))
        ],
        "vector_response": [
            {
                "seed": hexed(seed),
                "words": words,
                "dimension": d,
                "last": codes.code(table, seed, words, d)[-1][-8:].tolist(),
                "direction": (direction := [(1 - i % 3) * 2**20 for i in range(d)]),
                "rank": words // 2,
                "value": codes.value(table, seed, words, direction, words // 2),
            }
            for seed in (0, 2**63 + 12345)
            for words, d in ((5, 2), (4, 300))
        ],
    }


def text() -> str:
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("reports.json").write_text(text())
