"""Makes reports.json: what of reports is deterministic, by the reference alone."""

import hashlib
import json
from fractions import Fraction
from pathlib import Path

from tests.reference import clients, domains, hashing
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


P = "932966391000980989/2305843009213693952"
HIGH = "6148914691236517205/9223372036854775808"
NAMES = ["no", "yes", "never asked"]
CLIENTS: list[tuple[dict[str, object], list[object]]] = [
    (
        {"type": "RandomizedResponse", "p": "3/4", "categories": 5, "other": None},
        [4, 9],
    ),
    (
        {
            "type": "RandomizedResponse",
            "p": P,
            "categories": NAMES,
            "other": "never asked",
        },
        ["yes", "perhaps"],
    ),
    (
        {"type": "RandomizedResponse", "p": "5/8", "categories": 2, "other": 1},
        [0, None],
    ),
    (
        {
            "type": "UnaryEncoding",
            "p": "1/2",
            "q": P,
            "categories": NAMES,
            "other": None,
        },
        ["no", "x"],
    ),
    (
        {"type": "UnaryEncoding", "p": "7/8", "q": "1/8", "categories": 19, "other": 0},
        [18],
    ),
    (
        {
            "type": "LocalHashing",
            "p": P,
            "buckets": 4,
            "categories": 1000,
            "other": None,
        },
        [0, 999, 1000],
    ),
    (
        {"type": "SubsetSelection", "p": P, "size": 3, "categories": 10, "other": None},
        [0, 9, -1],
    ),
    (
        {
            "type": "SubsetSelection",
            "p": P,
            "size": 1,
            "categories": NAMES,
            "other": "no",
        },
        ["yes", 1],
    ),
    (
        {"type": "HadamardResponse", "p": "3/4", "categories": 7, "other": None},
        [0, 6, 7],
    ),
    (
        {"type": "HadamardResponse", "p": HIGH, "categories": 2**24, "other": 5},
        [2**24 - 1],
    ),
    *(
        (
            {"type": "CountMeanSketch", "p": HIGH, "rows": 1024, "buckets": buckets}
            | {"inner": inner, "key": KEY.hex()},
            ["an.example", None, -12, ""],
        )
        for inner, buckets in (("hadamard", 1024), ("unary", 16))
    ),
    *(
        (
            {
                "type": "PrefixHunt",
                "p": P,
                "buckets": 56,
                "bits": bits,
                "groups": groups,
            }
            | {"most": 32, "beta": "1/1000", "key": KEY.hex()},
            ["an.example", "\u00fc", None, 10**20],
        )
        for bits, groups in ((64, 10), (16, 2))
    ),
    (
        {"type": "Rappor", "f": "1/2", "p": "1/2", "q": "3/4", "bits": 32, "hashes": 2}
        | {"cohorts": 64, "key": KEY.hex()},
        ["red", None],
    ),
    *(
        (
            {"type": "LocalMean", "ratio": ratio, "bounds": ["-50", "50"]}
            | {"members": members, "share": share, "dimension": None, "asked": 1},
            [-50, 50, 18.25, 1e300, "nan"],
        )
        for ratio, members, share in (
            ("3", [[2, 1]], "1"),
            ("5", [[7, 3]], "1"),
            ("15", [[3, 1], [22, 8]], "2/3"),
            ("16", [[4, 1], [22, 8]], "2/3"),
        )
    ),
    *(
        (
            {"type": "LocalMean", "ratio": "15", "bounds": bounds}
            | {"members": [[3, 1], [22, 8]], "share": "2/3"}
            | {"dimension": dimension, "asked": asked},
            [[(i * 37 % 101) / 64 for i in range(dimension)]],
        )
        for bounds, dimension, asked in (
            (["-1", "1"], 3, 3),
            ([["0", "1"], ["-2", "2"], ["0", "3/2"]], 3, 2),
            (["0", "2"], 257, 4),
        )
    ),
    *(
        (
            {"type": "VectorResponse", "p": P, "near": near, "words": words}
            | {"dimension": len(values[0])},
            values,
        )
        for near, words, values in (
            (1, 2, [[0.25], [-3.5]]),
            (2, 7, [[0.5, -0.25, 0.125], [0, 0, 0], [3, 4, -12]]),
            (6, 16, [[(i * 37 % 101 - 50) / 1024 for i in range(90)]]),
        )
    ),
]


def stream(case: int, first: int | None) -> tuple[list[int], clients.Words]:
    """Return the words that a client draws, noted as it draws them."""
    drawn: list[int] = []

    def word() -> int:
        digest = hashlib.sha256(b"%d %d %d" % (case, first or 0, len(drawn))).digest()
        fixed = first is not None and not drawn
        drawn.append(first if fixed else int.from_bytes(digest[:8], "big"))  # type: ignore[arg-type]
        return drawn[-1]

    return drawn, word


def edges(fields: dict[str, object]) -> list[int | None]:
    """Return first words at the edges of what they decide, and none."""
    text = str(fields.get("p", fields.get("share")))
    at = int(Fraction(text) * 2**64)
    return [None, 0, 2**64 - 1, at - 1, at % 2**64]


def drawn_by_clients() -> list[dict[str, object]]:
    found = []
    for fields, values in CLIENTS:
        for value in values:
            long = isinstance(value, list) and len(value) > 9
            for first in [None] if long else edges(fields):
                words, word = stream(len(found), first)
                real = float("nan") if value == "nan" else value
                case: dict[str, object] = {}
                shown = value
                match fields["type"]:
                    case "CountMeanSketch":
                        report = clients.sketch(fields, word, real)
                    case "PrefixHunt":
                        report = clients.hunt(fields, word, real)
                    case "LocalMean":
                        report = clients.mean(fields, word, real)
                    case "VectorResponse":
                        report = clients.vector(fields, word, real)  # type: ignore[arg-type]
                    case "Rappor":
                        case["memo"] = clients.memo(fields, word, real)
                        report = clients.rappor(fields, word, case["memo"])
                    case _:
                        report = clients.known(fields, word, real)
                if isinstance(value, int) and abs(value) > 2**53:
                    shown = {"integer": str(value)}
                text = {"format": "fastdp mechanism", "version": 1, "mechanism": fields}
                found.append(
                    {"mechanism": json.dumps(text), "value": shown}
                    | case
                    | {"words": [*map(hexed, words)], "report": report}
                )
    return found


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
        "clients": drawn_by_clients(),
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
