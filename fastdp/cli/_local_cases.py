"""Local randomizers and the decoding of their reports, compared with numpy.

The compared calls do the same work with the best numpy code: large arrays are processed
in blocks that fit in the cache, and tables replace arithmetic. Their probabilities are
rounded to floats, and their randomness is not secure.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import fastdp
from fastdp.cli import _numpy_best
from fastdp.cli._timings import Array, Case

#: Epsilon of all lines, and the number of categories of the frequency oracles.
EPSILON = 1
CATEGORIES = 1024

#: Random bytes for one flip: two for each pattern of eight flips, and 576 for the ties
#: of a chunk.
_FLIP = (2 * 4096 + 576) / 32768

#: Random bytes of a response of up to 16 categories (or buckets), and of up to 2**16;
#: and of a label.
_RESPONSE = 2 + 512 / 8192
_LARGE_RESPONSE = 4 + 192 / 4096
_LABEL = 2

#: Elements of a block in the numpy code: 1 MB of float32 or uint32.
_BLOCK = 2**18


def cases(size: int) -> Iterator[Case]:
    """Yield the lines of the table, with about `size` elements of the largest array."""
    generator = np.random.Generator(np.random.PCG64())
    yield packed_case(size, generator)
    yield bytes_case(size, generator, np.dtype(np.uint8))
    yield bytes_case(size, generator, np.dtype(np.bool_))
    for k, dtype in (
        (16, np.int64),
        (16, np.uint8),
        (1024, np.int64),
        (1024, np.uint16),
    ):
        yield response_case(k, size, generator, np.dtype(dtype))
    rows = max(1, size // CATEGORIES)
    yield unary_case(rows, generator)
    yield unary_sums_case(rows, generator)
    users = max(1, size // 100)
    yield hashing_case(size, generator)
    yield hashing_counts_case(users, generator)
    yield hadamard_case(size, generator)
    yield hadamard_counts_case(size, generator)
    yield number_case(size, generator)
    yield subset_case(users, generator)


# --- numbers --------------------------------------------------------------------------


def number_case(size: int, generator: np.random.Generator) -> Case:
    """Return codes of numbers, compared with the piecewise mechanism in numpy."""
    mechanism = fastdp.LocalMean.from_epsilon(EPSILON, bounds=(-1, 1))
    x = generator.uniform(-1, 1, size)
    out = np.zeros(size, np.uint8)
    e = np.exp(EPSILON / 2)
    c = (e + 1) / (e - 1)

    def piecewise() -> Array:
        low = (c + 1) / 2 * x - (c - 1) / 2
        place = generator.random(size)
        inside = low + (c - 1) * place
        outside = (c + 1) * place - c
        outside += np.where(outside < low, 0, c - 1)
        drawn: Array = np.where(generator.random(size) < e / (e + 1), inside, outside)
        return drawn

    return Case(
        "LocalMean, client",
        size,
        lambda: mechanism.release(x, out=out),
        piecewise,
        12,
    )


# --- subset selection -----------------------------------------------------------------


def subset_case(users: int, generator: np.random.Generator) -> Case:
    """Return sets of 27 of 100 categories; a sample is a user's row."""
    d = 100
    mechanism = fastdp.SubsetSelection.from_epsilon(EPSILON, categories=d)
    k, p = mechanism.size, float(mechanism.p)
    labels = generator.integers(0, d, users)
    out = np.zeros((users, -(-d // 8)), np.uint8)
    step = _BLOCK // d

    def rounded() -> Array:
        for start in range(0, users, step):
            own = labels[start : start + step]
            place = np.arange(len(own))
            keys = generator.random((len(own), d), np.float32)
            keys[place, own] = np.where(generator.random(len(own)) < p, -1, 2)
            bits = np.zeros(keys.shape, bool)
            chosen = np.argpartition(keys, k - 1, axis=1)[:, :k]
            np.put_along_axis(bits, chosen, True, axis=1)
            out[start : start + step] = np.packbits(bits, axis=1)
        return out

    return Case(
        f"SubsetSelection, d={d}, client",
        users,
        lambda: mechanism.release(labels, out=out),
        rounded,
        8 + 4 * k + _LABEL,
    )


# --- randomized response --------------------------------------------------------------


def packed_case(size: int, generator: np.random.Generator) -> Case:
    """Return binary randomized response on packed bits."""
    mechanism = fastdp.RandomizedResponse.from_epsilon(EPSILON)
    flip = float(1 - mechanism.p)
    octets = -(-size // 8)
    x = np.frombuffer(generator.bytes(octets), np.uint8)
    out = np.zeros(octets, np.uint8)

    def rounded() -> Array:
        return np.bitwise_xor(
            x, np.packbits(generator.random(8 * octets) < flip), out=out
        )

    return Case(
        "RandomizedResponse, packed bits",
        8 * octets,
        lambda: mechanism.release(x, packed=True, out=out),
        rounded,
        _FLIP,
        best=_numpy_best.flipped(x, flip, out, packed=True),
    )


def bytes_case(
    size: int, generator: np.random.Generator, dtype: np.dtype[np.generic]
) -> Case:
    """Return binary randomized response on integers 0 and 1, or on bools."""
    mechanism = fastdp.RandomizedResponse.from_epsilon(EPSILON)
    flip = float(1 - mechanism.p)
    x = generator.integers(0, 2, size, np.uint8).astype(dtype)
    out = np.zeros(size, dtype)

    def rounded() -> Array:
        return np.bitwise_xor(x, generator.random(size) < flip, out=out)

    # Integers other than 0 and 1 get fair bits as answers.
    need = _FLIP if dtype == np.bool_ else _FLIP + 1 / 8
    return Case(
        f"RandomizedResponse, {'0/1 bytes' if dtype != np.bool_ else 'bools'}",
        size,
        lambda: mechanism.release(x, out=out),
        rounded,
        need,
        best=_numpy_best.flipped(x, flip, out, packed=False),
    )


def response_case(
    k: int, size: int, generator: np.random.Generator, dtype: np.dtype[np.generic]
) -> Case:
    """Return k-ary randomized response of labels of a dtype."""
    mechanism = fastdp.RandomizedResponse.from_epsilon(EPSILON, categories=k)
    p = float(mechanism.p)
    x = generator.integers(0, k, size).astype(dtype)
    out = np.zeros(size, mechanism.report_dtype)

    def rounded() -> Array:
        # This may also draw the true category, which does not matter for timing.
        other = generator.integers(0, k, size, x.dtype.type)
        return np.where(generator.random(size) < p, x, other)

    return Case(
        f"RandomizedResponse, k={k}, {dtype}",
        size,
        lambda: mechanism.release(x, out=out),
        rounded,
        _RESPONSE if k <= 64 else _LARGE_RESPONSE,
        best=_numpy_best.response(x, p, k, out),
    )


# --- unary encoding -----------------------------------------------------------------


def unary_case(rows: int, generator: np.random.Generator) -> Case:
    """Return optimized unary encoding; a sample is a user's row."""
    mechanism = fastdp.UnaryEncoding.from_epsilon(EPSILON, categories=CATEGORIES)
    p, q = np.float32(mechanism.p), np.float32(mechanism.q)
    labels = generator.integers(0, CATEGORIES, rows)
    out = np.zeros((rows, CATEGORIES // 8), np.uint8)
    step = _BLOCK // CATEGORIES
    uniform = np.zeros((step, CATEGORIES), np.float32)

    def rounded() -> Array:
        for start in range(0, rows, step):
            own = labels[start : start + step]
            u = generator.random(dtype=np.float32, out=uniform)[: len(own)]
            bits = u < q
            place = np.arange(len(own))
            bits[place, own] = u[place, own] < p
            out[start : start + step] = np.packbits(bits, axis=1)
        return out

    return Case(
        f"UnaryEncoding, d={CATEGORIES}, client",
        rows,
        lambda: mechanism.release(labels, out=out),
        rounded,
        (CATEGORIES + 1) * _FLIP + _LABEL,
    )


def unary_sums_case(rows: int, generator: np.random.Generator) -> Case:
    """Return the sums of the columns of packed rows."""
    mechanism = fastdp.UnaryEncoding.from_epsilon(EPSILON, categories=CATEGORIES)
    reports = mechanism.release(generator.integers(0, CATEGORIES, rows))

    def blocked() -> Array:
        total = np.zeros(CATEGORIES, np.int64)
        for start in range(0, rows, 255):  # the sums fit in a byte
            bits = np.unpackbits(reports[start : start + 255], axis=1)
            total += bits.sum(0, dtype=np.uint8)
        return total

    return Case(
        f"UnaryEncoding, d={CATEGORIES}, aggregation",
        rows,
        lambda: mechanism.aggregator().add(reports),
        lambda: np.unpackbits(reports, axis=1).sum(0),
        best=blocked,
    )


# --- local hashing --------------------------------------------------------------------


def hashed(seeds: Array, labels: Array, buckets: int) -> Array:
    """Return the buckets of labels under users' seeds, broadcast, as the package does.

    The hash is the top bits of the label times the low half of the seed plus its high
    half, modulo 2**32, scaled to the buckets.
    """
    bits = 33 - (CATEGORIES - 1).bit_length()
    slope = (seeds & np.uint64(2**32 - 1)).astype(np.uint32)
    offset = (seeds >> np.uint64(32)).astype(np.uint32)
    z: Array = slope * labels.astype(np.uint32, copy=False)
    z += offset
    z >>= np.uint32(32 - bits)
    # The product fits in 32 bits: there are at most 2**9 buckets here.
    z *= np.uint32(buckets)
    z >>= np.uint32(bits)
    return z


def hashing_case(size: int, generator: np.random.Generator) -> Case:
    """Return optimal local hashing; a sample is a user."""
    mechanism = fastdp.LocalHashing.from_epsilon(EPSILON, categories=CATEGORIES)
    p, g = float(mechanism.p), mechanism.buckets
    labels = generator.integers(0, CATEGORIES, size)
    out = np.zeros(size, mechanism.report_dtype)

    def rounded() -> Array:
        seeds = generator.integers(0, 2**64, size, np.uint64)
        answer = np.where(
            generator.random(size) < p,
            hashed(seeds, labels, g),
            generator.integers(0, g, size, np.uint32),
        )
        out["seed"], out["value"] = seeds, answer
        return out

    return Case(
        f"LocalHashing, d={CATEGORIES}, client",
        size,
        lambda: mechanism.release(labels, out=out),
        rounded,
        8 + _LABEL + _RESPONSE,
    )


def hashing_counts_case(users: int, generator: np.random.Generator) -> Case:
    """Return the numbers of users whose report supports each category."""
    mechanism = fastdp.LocalHashing.from_epsilon(EPSILON, categories=CATEGORIES)
    g = mechanism.buckets
    reports = mechanism.release(generator.integers(0, CATEGORIES, users))
    domain = np.arange(CATEGORIES, dtype=np.uint32)
    step = _BLOCK // CATEGORIES

    def blocked() -> Array:
        counts = np.zeros(CATEGORIES, np.int64)
        for start in range(0, users, step):
            part = reports[start : start + step]
            buckets = hashed(part["seed"][:, None], domain, g)
            counts += np.count_nonzero(buckets == part["value"][:, None], axis=0)
        return counts

    return Case(
        f"LocalHashing, d={CATEGORIES}, decoding",
        users,
        lambda: mechanism.aggregator().add(reports),
        blocked,
    )


# --- Hadamard response ----------------------------------------------------------------


def hadamard_case(size: int, generator: np.random.Generator) -> Case:
    """Return Hadamard response; a sample is a user."""
    mechanism = fastdp.HadamardResponse.from_epsilon(EPSILON, categories=CATEGORIES)
    flip, order = float(1 - mechanism.p), 2 * CATEGORIES
    labels = generator.integers(0, CATEGORIES, size)
    out = np.zeros(size, mechanism.report_dtype)
    numbers = np.arange(order, dtype=np.uint16)
    parity = np.unpackbits(numbers.view(np.uint8)).reshape(order, 16).sum(1) % 2 == 1
    lowest = numbers & -numbers

    def rounded() -> Array:
        own = (labels + 1).astype(np.uint16)
        report = generator.integers(0, order, size, np.uint16)
        wrong = parity[report & own] ^ (generator.random(size) < flip)
        change = np.where(wrong, lowest[own], np.uint16(0))
        np.bitwise_xor(report, change, out=out)
        return out

    return Case(
        f"HadamardResponse, d={CATEGORIES}, client",
        size,
        lambda: mechanism.release(labels, out=out),
        rounded,
        _FLIP + _LABEL + 2,
    )


def transformed(a: Array) -> Array:
    """Return the Walsh-Hadamard transform of `a` without its matrix."""
    half = 1
    while half < a.size:
        pairs = a.reshape(-1, 2, half)
        a = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        half *= 2
    return a.reshape(-1)


def hadamard_counts_case(size: int, generator: np.random.Generator) -> Case:
    """Return unbiased counts from Hadamard reports."""
    mechanism = fastdp.HadamardResponse.from_epsilon(EPSILON, categories=CATEGORIES)
    gap = float(mechanism.p) - 0.5
    reports = mechanism.release(generator.integers(0, CATEGORIES, size))

    def counts() -> Array:
        signed = transformed(np.bincount(reports, minlength=2 * CATEGORIES))
        own = (signed[0] + signed[1 : CATEGORIES + 1]) / 2
        estimate: Array = (own - size / 2) / gap
        return estimate

    return Case(
        f"HadamardResponse, d={CATEGORIES}, decoding",
        size,
        lambda: mechanism.estimate(reports).counts,
        counts,
    )
