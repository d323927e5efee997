"""The words of a call as the samplers lay them out, and whole arrays of answers.

`expected` gives the outputs of a call from its bits alone. Words are compared with
thresholds that integers enclose; those whose cell holds a threshold, or comes near
one where a screen in doubles is used, go one by one to the samplers of
``tests.reference``, which read further bits.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from fastdp import _core, _exact, _tables
from fastdp import random as fdp_random
from fastdp._stream import CallKey, Stream
from tests.reference import discrete_gaussian, discrete_laplace
from tests.reference.interval import More, exp_minus

#: What settles a pending trial: words and extension blocks to a value or None.
Resolver: TypeAlias = Callable[[tuple[int, ...], More], int | None]

GROUP = 1024
BITS = 256
ONE = 1 << BITS

#: Bytes of the words of one trial.
PARTS = {
    ("laplace", "narrow"): (4,),
    ("laplace", "wide"): (4, 8),
    ("gaussian", "narrow"): (2, 4),
    ("gaussian", "wide"): (2, 4, 8),
}


class Keyed(Stream):
    """A stream of which every call has the key itself."""

    def __init__(self, key: bytes, cipher: str = "chacha20") -> None:
        self.key, self.cipher = key, cipher

    def _next_call(self) -> CallKey:
        return _core.CIPHERS[self.cipher], self.key, None


class Law(NamedTuple):
    """A discrete law at one parameter, truncated if `bound` is positive."""

    family: str
    parameter: Fraction
    bound: int = 0

    def __str__(self) -> str:
        text = f"{self.family}-{float(self.parameter):.17g}"
        return f"{text}-{self.bound}" if self.bound else text

    @property
    def table(self) -> _tables.LaplaceTable | _tables.GaussianTable:
        if self.family == "laplace":
            return _tables.laplace_table(self.parameter)
        return _tables.gaussian_table(self.parameter)

    @property
    def parts(self) -> tuple[int, ...]:
        return PARTS[self.family, self.table.kind]

    def sampler(self, resolver: Resolver | None = None) -> _core.Sampler:
        """Return the product's sampler, or the same law with another resolver."""
        if self.family == "gaussian":
            if resolver is None:
                return fdp_random.gaussian_sampler(self.parameter)
            return _core.Sampler.gaussian(self.table, resolver)
        own = fdp_random.laplace_sampler(self.parameter, self.bound)
        if resolver is None:
            return own
        within = own.acceptance / self.table.acceptance
        return _core.Sampler.laplace(self.table, resolver, self.bound, within)

    def resolver(self) -> Resolver:
        """Return the product's resolver: words are padded to three."""
        table, t = self.table, self.parameter
        if self.family == "gaussian":
            return lambda w, block: _exact.gaussian(table, *table.split(*w), block)
        if table.kind == "wide":
            return lambda w, block: _exact.laplace_wide(t, w[0], w[1], block)
        return lambda w, block: _exact.laplace(t, w[0], 32, block)

    def resolve(self, words: tuple[int, ...], more: More) -> int | None:
        """Return the reference's answer to the words of one trial."""
        kind, parameter = self.table.kind, self.parameter
        if self.family == "gaussian":
            return discrete_gaussian.sample(
                parameter, self.table, *(*words, 0)[:3], more
            )
        if kind == "wide":
            return discrete_laplace.sample_wide(parameter, *words, more)
        return discrete_laplace.sample(parameter, words[0], 32, more)


# --- words ----------------------------------------------------------------------


def words_of(parts: tuple[int, ...], raw: bytes) -> list[np.ndarray]:
    """Split whole groups of 1024 trials into their parts, in the trials' order."""
    groups = np.frombuffer(raw, np.uint8).reshape(-1, GROUP * sum(parts))
    ends = GROUP * np.cumsum((0, *parts))
    return [
        np.ascontiguousarray(groups[:, a:b]).reshape(-1).view(f"<u{size}")
        for a, b, size in zip(ends, ends[1:], parts, strict=False)
    ]


def bytes_of(parts: tuple[int, ...], words: list[np.ndarray]) -> bytes:
    """Lay whole groups of trials out: the inverse of `words_of`."""
    each = [
        w.astype(f"<u{size}").view(np.uint8).reshape(-1, GROUP * size)
        for w, size in zip(words, parts, strict=True)
    ]
    return np.ascontiguousarray(np.concatenate(each, axis=1)).tobytes()


def expected(law: Law, call: _core.Call, n: int) -> np.ndarray:
    """Return the first n outputs of a call, from its bits and the reference."""
    per_chunk = law.sampler().chunk_outputs
    chunks = [
        chunk_values(law, call, c, min(per_chunk, n - c * per_chunk))
        for c in range(-(-n // per_chunk))
    ]
    return np.concatenate(chunks)


def chunk_values(law: Law, call: _core.Call, chunk: int, need: int) -> np.ndarray:
    """Return the first `need` accepted values of a chunk's trials."""
    size = GROUP * sum(law.parts)
    got: list[np.ndarray] = []
    group = 0
    while sum(map(len, got)) < need:
        raw = call.keystream(chunk, group * size, 2 * size)
        first = group * GROUP
        value, kept = values(
            law,
            words_of(law.parts, raw),
            lambda i, first=first: lambda k: call.extension(chunk, first + i, k),
        )
        got.append(value[kept])
        group += 2
    return np.concatenate(got)[:need]


def values(
    law: Law, words: list[np.ndarray], more: Callable[[int], More]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of trials and which of them are kept."""
    screen = _gaussian
    if law.family == "laplace":
        screen = _laplace if law.table.kind == "narrow" else _laplace_wide
    value, kept, unsure = screen(law, words)
    for i in np.flatnonzero(unsure).tolist():
        answer = law.resolve(tuple(int(w[i]) for w in words), more(i))
        kept[i] = answer is not None
        value[i] = answer or 0
    if law.bound:
        kept &= np.abs(value) <= law.bound
    return value, kept


# --- discrete Laplace -------------------------------------------------------------


def _floors(
    exponent: Fraction, base: tuple[int, int], size: tuple[int, int]
) -> list[int]:
    """Return the floors of 2**64 (base + size q**k), q = exp(-exponent), for k = 0,
    1, ... until that of the base itself. Base and size are enclosures.
    """
    q_lo, q_hi = exp_minus(exponent, BITS)
    (lo, hi), least = size, base[0] >> (BITS - 64)
    result = []
    while True:
        floor = (base[0] + lo) >> (BITS - 64)
        assert floor == (base[1] + hi) >> (BITS - 64)
        result.append(floor)
        if floor == least:
            return result
        lo, hi = lo * q_lo >> BITS, (hi * q_hi >> BITS) + 1


@lru_cache(maxsize=4)
def laplace_steps(t: Fraction) -> tuple[np.ndarray, np.ndarray]:
    """Return the floors of 2**64 times the thresholds of U, ascending, and the
    values of the steps below, between and above them (the lowest is not reached).
    """
    q_lo, q_hi = exp_minus(1 / t, BITS)
    theta = (q_lo << BITS) // (ONE + q_lo), (q_hi << BITS) // (ONE + q_hi) + 1
    rest = (ONE - theta[1]) * q_lo >> BITS, ((ONE - theta[0]) * q_hi >> BITS) + 1
    below = _floors(1 / t, (0, 0), theta)
    above = _floors(1 / t, theta, rest)
    down = [~k for k in range(len(below) - 1, -1, -1)]
    up = list(range(len(above), -1, -1))
    edges = np.array(below[::-1] + above[::-1], np.uint64)
    return edges, np.array(down + up, np.int64)


@lru_cache(maxsize=4)
def block_steps(scale: Fraction) -> np.ndarray:
    """Return the floors of 2**64 exp(-k/scale), k = 1, 2, ..., ascending."""
    floors = _floors(1 / scale, (0, 0), exp_minus(1 / scale, BITS))
    return np.array(floors[::-1], np.uint64)


def _place(edges: np.ndarray, word: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many thresholds lie below a 32-bit cell, and whether it has one."""
    edges = (edges >> np.uint64(32)).astype(np.uint32)
    place = np.searchsorted(edges, word, "left")
    return place, edges[np.minimum(place, edges.size - 1)] == word


def _laplace(
    law: Law, words: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    edges, steps = laplace_steps(law.parameter)
    place, unsure = _place(edges, words[0])
    return steps[place], np.ones(place.size, bool), unsure


def _laplace_wide(
    law: Law, words: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    j = law.table.j
    edges = block_steps(law.parameter / 2**j)
    rest = words[1]
    place, unsure = _place(edges, words[0])
    sign = (rest & np.uint64(1)).astype(np.int64)
    low = (rest >> np.uint64(1) & np.uint64((1 << j) - 1)).astype(np.int64)
    # 1 - exp(-(L + s)/t) < 2**-11: V above it is kept.
    unsure |= rest >> np.uint64(j + 1) <= np.uint64(1 << (52 - j))
    high = edges.size - place
    return (high << j | low) ^ -sign, np.ones(place.size, bool), unsure


# --- discrete Gaussian ------------------------------------------------------------


def _gaussian(
    law: Law, words: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Doubles are right to 2**-40 here; what is nearer than 2**-30 is unsure."""
    table = law.table
    j = table.j
    selector = words[0].astype(np.int64)
    column, u = selector >> 8 & 31, selector & 255
    alias = np.frombuffer(table.alias, np.uint8)[column]
    h = np.where(u < np.frombuffer(table.ap, np.uint8)[column], alias, column)
    word = words[1].astype(np.int64)
    if table.kind == "wide":
        low = (words[2] >> np.uint64(64 - j)).astype(np.int64)
        v, vbits = word >> 1, 31
    else:
        low = word >> 1 & (1 << j) - 1
        v, vbits = word >> (j + 1), 31 - j
    m = h.astype(np.int64) << j | low
    z = (m / float(law.parameter)) ** 2 / 2
    weight = np.where(m == 0, 0.5, np.exp(-np.minimum(z, 700.0)))
    weight = np.where(h == 31, 0.0, weight)
    unit = np.array(table.n)[h] * table.c * 2.0**-vbits
    hat = (v + 0.5) * unit
    near = 2.0**-30 * (weight + hat) + unit
    near = np.where(h == 31, 2.0**-30 + unit, near)
    unsure = np.abs(weight - hat) <= near
    return np.where(word & 1, -m, m), weight > hat, unsure
