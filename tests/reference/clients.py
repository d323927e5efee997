"""Clients of local reports, from docs/report_bits.md alone, over given words.

Each function takes the mechanism's fields as its JSON text has them and a source of
words of 64 bits, and draws in the order of the page.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tests.reference import domains, hashing, vectors

Words = Callable[[], int]
Fields = dict[str, Any]


def happens(words: Words, p: Fraction) -> bool:
    bound = p * 2**64
    assert bound.denominator == 1
    return words() < bound


def below(words: Words, k: int) -> int:
    if k == 1:
        return 0
    while (drawn := words() % 2 ** (k - 1).bit_length()) >= k:
        pass
    return drawn


def respond(words: Words, p: Fraction, k: int, own: int) -> int:
    if happens(words, p):
        return own
    other = below(words, k - 1)
    return other + (other >= own)


def packed(bits: list[bool]) -> str:
    return np.packbits(bits).tobytes().hex()


def category(m: Fields, words: Words, value: Any) -> tuple[int, int]:
    names = m["categories"]
    names = list(range(names)) if isinstance(names, int) else names
    for name in (value, m["other"]):
        if name in names:
            return len(names), names.index(name)
    return len(names), below(words, len(names))


def hadamard(words: Words, p: Fraction, d: int, own: int) -> int:
    y = words() % 2 ** d.bit_length()
    flipped = happens(words, 1 - p)
    if ((y & (own + 1)).bit_count() % 2 == 1) is not flipped:
        y ^= (own + 1) & -(own + 1)
    return y


def unary(words: Words, p: Fraction, q: Fraction, d: int, own: int) -> str:
    return packed([happens(words, p if v == own else q) for v in range(d)])


def known(m: Fields, words: Words, value: Any) -> Any:
    """Return a report of a mechanism of known categories."""
    d, own = category(m, words, value)
    p = Fraction(m["p"])
    match m["type"]:
        case "RandomizedResponse":
            return respond(words, p, d, own)
        case "HadamardResponse":
            return hadamard(words, p, d, own)
        case "UnaryEncoding":
            return unary(words, p, Fraction(m["q"]), d, own)
        case "LocalHashing":
            seed, g = words(), m["buckets"]
            bucket = hashing.bucket(seed, own, d, g)
            return {"seed": f"{seed:016x}", "value": respond(words, p, g, bucket)}
        case "SubsetSelection":
            has, chosen = happens(words, p), set()
            while len(chosen) < m["size"] - has:
                other = below(words, d - 1)
                chosen.add(other + (other >= own))
            if has:
                chosen.add(own)
            return packed([v in chosen for v in range(d)])
    raise AssertionError(m["type"])


def text_of(value: Any) -> bytes:
    if value is None:
        return b""
    return str(value).encode()


def sketch(m: Fields, words: Words, value: Any) -> Any:
    key, p = bytes.fromhex(m["key"]), Fraction(m["p"])
    row, bits = below(words, m["rows"]), m["buckets"].bit_length() - 1
    own = domains.row_bucket(key, row, domains.siphash(key, text_of(value)), bits)
    if m["inner"] == "hadamard":
        return {"row": row, "value": hadamard(words, p, m["buckets"], own)}
    return {"row": row, "value": unary(words, p, 1 - p, m["buckets"], own)}


def hunt(m: Fields, words: Words, value: Any) -> Any:
    key, p, bits, groups = (
        bytes.fromhex(m["key"]),
        Fraction(m["p"]),
        m["bits"],
        m["groups"],
    )
    seed = words()
    group = min((seed >> 32) * 2 * (groups - 1) >> 32, groups - 1)
    first = min(12, bits)
    length = first
    if groups > 1:
        length += -(-(bits - first) * group // (groups - 1))
    whole = int.from_bytes(text_of(value)[: bits // 8].ljust(bits // 8, b"\0"), "big")
    kept = (whole >> bits - length << bits - length).to_bytes(bits // 8, "big")
    digest = domains.siphash(key, kept[: -(-length // 8)])
    bucket = domains.seed_bucket(key, seed, digest, m["buckets"])
    return {"seed": f"{seed:016x}", "value": respond(words, p, m["buckets"], bucket)}


def memo(m: Fields, words: Words, value: Any) -> Any:
    key, bits = bytes.fromhex(m["key"]), m["bits"]
    cohort = below(words, m["cohorts"])
    digest = domains.siphash(key, text_of(value))
    places = {
        domains.row_bucket(key, cohort * m["hashes"] + j, digest, bits.bit_length() - 1)
        for j in range(m["hashes"])
    }
    half = Fraction(m["f"]) / 2
    memo = [(v in places) is not happens(words, half) for v in range(bits)]
    return {"cohort": cohort, "bits": packed(memo)}


def rappor(m: Fields, words: Words, kept: Any) -> Any:
    row = np.unpackbits(np.frombuffer(bytes.fromhex(kept["bits"]), np.uint8))
    p, q = Fraction(m["p"]), Fraction(m["q"])
    sent = [happens(words, q if bit else p) for bit in row]
    return {"cohort": kept["cohort"], "bits": packed(sent)}


def mean(m: Fields, words: Words, value: Any) -> Any:
    """Return a report of LocalMean: a code, or places and codes of a row."""
    d, asked, bounds = m["dimension"], m["asked"], m["bounds"]
    if d is None:
        return number(m, words, bounds, value)
    places: set[int] = set()
    for last in range(d - asked, d if asked < d else 0):
        drawn = below(words, last + 1)
        places.add(last if drawn in places else drawn)
    shown = b""
    if asked < d:
        width = next(w for w in (1, 2, 4) if d <= 256**w)
        shown = b"".join(at.to_bytes(width, "little") for at in sorted(places))
    each = bounds if isinstance(bounds[0], list) else [bounds] * d
    rest = sorted(places) if asked < d else range(d)
    return (shown + bytes(number(m, words, each[at], value[at]) for at in rest)).hex()


def vector(m: Fields, words: Words, value: list[float]) -> Any:
    """Return a report of VectorResponse: a seed and the number of a row."""
    seed, near, count = words(), m["near"], m["words"]
    most = max(map(abs, value))
    rows = [v / most for v in value] if most else [1.0, *[0.0] * (len(value) - 1)]
    norm = math.sqrt(sum(v * v for v in rows))
    length = min(1.0, norm * most)
    side = 1 if words() < int((1 + length) / 2 * 2**53) * 2**11 else -1
    direction = [side * round(v / norm * 2**24) for v in rows]
    if happens(words, Fraction(m["p"])):
        rank = below(words, near)
    else:
        rank = near + below(words, count - near)
    row = vectors.value(vectors.sizes(), seed, count, direction, rank)
    return {"seed": f"{seed:016x}", "value": row}


def number(m: Fields, words: Words, bounds: list[str], value: float) -> int:
    """Return a code of LocalMean: the first word decides all but the place."""
    members, ratio = m["members"], Fraction(m["ratio"])
    first = int(Fraction(m["share"]) * 2**64)
    totals = [2**64] if len(members) == 1 else [first, 2**64 - first]
    outside, inside = [], []
    for total, (codes, w) in zip(totals, members, strict=True):
        outside.append(-int(-total / (w * ratio + codes - w) // 1))
        inside.append((total - (codes - w) * outside[-1]) // w)
    rows = list(zip(members, inside, outside, strict=True))
    used = sum(w * a + (codes - w) * b for (codes, w), a, b in rows)
    if (2**64 - used) % 2 and all(codes % 2 == 0 for codes, _ in members):
        inside[next(i for i, (_, w) in enumerate(members) if w % 2)] -= 1
    low, high = (float(Fraction(bound)) for bound in bounds)
    x = low if value != value else min(max(value, low), high)
    word = words()
    begin = before = 0
    for (codes, w), a, b in zip(members, inside, outside, strict=True):
        if word < begin + w * a + (codes - w) * b:
            t = (x - low) / (high - low) * (codes - w)
            s = min(int(t), codes - w - 1)
            s += words() < int((t - s) * 2**53) * 2**11
            j = (word - begin) // a
            if j < w:
                return before + s + j
            j = (word - begin - w * a) // b
            return before + (j if j < s else j + w)
        begin += w * a + (codes - w) * b
        before += codes
    place, left = word - begin, 2**64 - begin
    if left % 2 and place == left - 1:
        start = 0
        for codes, _ in members:
            if codes % 2:
                return start + codes // 2
            start += codes
    return 0 if place % 2 == 0 else members[0][0] - 1
