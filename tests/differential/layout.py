"""The words of a call as the samplers lay them out, and whole arrays of answers.

`expected` gives the outputs of a call from its bits alone. Lanes of alias digits that
are not special follow their tables of integers; what is special, and every try of
tilted digits, goes one by one to the samplers of ``tests.reference``, which read
further bits.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fastdp import _core, _laws
from fastdp._stream import CallKey, Stream
from tests.reference import digits, exact_digits, exact_tilt, tilted
from tests.reference.interval import More

#: Trials of a pass of alias digits, and ranks that have words.
PASS, RANKS = 8192, 128

#: Tries of a pass of tilted digits that have words.
TRIES = 384


class Keyed(Stream):
    """A stream that gives every call the key itself."""

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
    def table(self) -> exact_digits.Digits | exact_tilt.Tilted:
        if self.family == "laplace":
            return exact_digits.laplace(self.parameter)
        return exact_tilt.gaussian(self.parameter)

    @property
    def is_tilted(self) -> bool:
        return isinstance(self.table, exact_tilt.Tilted)

    def sampler(self) -> _core.Sampler:
        """Return the product's sampler."""
        if self.family == "laplace":
            return _laws.laplace_sampler(self.parameter, self.bound)
        return _laws.gaussian_sampler(self.parameter)


@lru_cache(maxsize=64)
def tilted_of(law: Law) -> tilted.Law:
    """Return the reference's law of tilted digits, with the product's tables."""
    table = law.table
    return tilted.Law(
        law.parameter, tilted.Data(*table.first, *table.columns, table.height)
    )


@lru_cache(maxsize=64)
def reference_of(law: Law) -> digits.Law:
    """Return the reference's law, with the product's public tables as its data."""
    table = law.table
    data = digits.Data(table.first, table.first_rest.alias)
    if table.shift:
        whole = table.second_whole.alias if table.low else b""
        data = data._replace(
            second=table.second, second_rest=table.second_rest.alias, second_whole=whole
        )
    return digits.Law(law.family, law.parameter, data)


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
    draw = tilted_values if law.is_tilted else pass_values
    got: list[np.ndarray] = []
    while sum(map(len, got)) < need:
        left = need - sum(map(len, got))
        got.append(draw(law, call, chunk, len(got), left))
    return np.concatenate(got)[:need]


# --- alias digits -------------------------------------------------------------------


class Pass(NamedTuple):
    """Where the words of a pass lie, in bytes."""

    rank_words: int
    stride: int
    low_bytes: int
    ranks: int = RANKS

    @property
    def area(self) -> int:
        return self.ranks * 8 * self.rank_words

    @property
    def trials(self) -> int:
        return PASS // 64 * self.stride

    @property
    def size(self) -> int:
        return self.area + self.trials + PASS * self.low_bytes


def pass_of(law: Law) -> Pass:
    """Return the layout of the words of a law's passes."""
    if law.is_tilted:
        low = tilted_of(law).low
        size = next(b for b in (0, 2, 4, 8) if low <= 8 * b)
        return Pass(2, 256, size, TRIES)
    reference = reference_of(law)
    if reference.shift == 0:
        return Pass(2, 128, 0)
    if reference.low <= 3:
        return Pass(4, 256, 0)
    return Pass(8, 256, next(b for b in (2, 4, 8) if reference.low <= 8 * b))


def _alias_digit(
    table: tuple[bytes, bytes], column: np.ndarray, u: np.ndarray, offset: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the integers give, and which lanes are special."""
    column = column % len(table[0])
    cut, alias = (np.frombuffer(part, np.uint8)[column] for part in table)
    drawn = np.where(u <= cut, alias, (column - offset).astype(np.uint8))
    special = drawn == 128
    return drawn.view(np.int8).astype(np.int64), special


def pass_values(
    law: Law, call: _core.Call, chunk: int, number: int, need: int
) -> np.ndarray:
    """Return the values of a pass of a chunk that are within the law's bound."""
    layout, reference = pass_of(law), reference_of(law)
    lanes = PASS if law.bound else min(-(-need // 64) * 64, PASS)
    raw = call.keystream(chunk, number * layout.size, layout.size)
    area = np.frombuffer(raw, "<u8", layout.area // 8)
    # 16 ranks together: words of every rank
    area = area.reshape(-1, layout.rank_words, 16).transpose(0, 2, 1)
    area = area.reshape(RANKS, layout.rank_words)
    trials = np.frombuffer(raw, np.uint8, layout.trials, layout.area)
    parts = trials.reshape(-1, layout.stride // 64, 64).transpose(1, 0, 2)
    parts = parts.reshape(layout.stride // 64, PASS)[:, :lanes]
    high, special = _alias_digit(reference.data.first, parts[0], parts[1], 64)
    second = low = np.zeros(lanes, np.int64)
    special2 = np.zeros(lanes, bool)
    r = reference.low
    if reference.shift:
        table = reference.data.second
        second, special2 = _alias_digit(table, parts[2], parts[3], 0)
        low = parts[2].astype(np.int64) >> 5
        if layout.low_bytes:
            start = layout.area + layout.trials
            words = np.frombuffer(raw, f"<u{layout.low_bytes}", lanes, start)
            low = (words.astype(np.uint64) & np.uint64((1 << r) - 1)).astype(np.int64)
        low = low & ((1 << r) - 1)
    sign = -(high < 0).astype(np.int64)
    size = ((high ^ sign) << reference.digit | second) << r | low
    value = size ^ sign
    rank, rank2 = np.cumsum(special) - 1, np.cumsum(special2) - 1
    for i in np.flatnonzero(special | special2).tolist():
        more = _blocks(call, chunk, number * PASS + i)
        h, d, m = int(high[i]), int(second[i]), int(low[i])
        if special[i]:
            h = reference.special_first(_rank(area, int(rank[i]), 0), more)
        if special2[i]:
            words = _rank(area, int(rank2[i]), 1)
            d, clear = reference.special_second(words, more)
            m &= ~clear
        value[i] = max(min(reference.value(h, d, m), 2**63 - 1), -(2**63))
    if law.bound:
        value = value[np.abs(value) <= law.bound]
    return value


def _rank(area: np.ndarray, rank: int, digit: int) -> digits.Words:
    if rank >= RANKS:
        return digits.Words()
    words = [int(w) for w in area[rank]]
    if digit == 0:
        return digits.Words(first=words[0], tail=words[1])
    return digits.Words(second=words[2], top=words[3], copies=tuple(words[4:]))


def _blocks(call: _core.Call, chunk: int, trial: int) -> More:
    return lambda k: call.extension(chunk, trial, k)


# --- tilted digits ------------------------------------------------------------------


def tilted_values(
    law: Law, call: _core.Call, chunk: int, number: int, need: int
) -> np.ndarray:
    """Return the values of a chunk's only pass."""
    layout, reference = pass_of(law), tilted_of(law)
    lanes = -(-need // 64) * 64
    raw = call.keystream(chunk, 0, layout.size)
    area = np.frombuffer(raw, "<u8", layout.area // 8)
    area = area.reshape(-1, 2, 16).transpose(0, 2, 1).reshape(TRIES, 2)
    trials = np.frombuffer(raw, np.uint8, layout.trials, layout.area)
    column, u, digit, tilt = (
        trials.reshape(-1, 4, 64).transpose(1, 0, 2).reshape(4, PASS)
    )
    low = np.zeros(lanes, np.uint64)
    if layout.low_bytes:
        start = layout.area + layout.trials
        low = np.frombuffer(raw, f"<u{layout.low_bytes}", lanes, start)
    tried = law.sampler().tries[-1]
    accepted = _accepted(law, call, chunk, area, tried)
    value = np.zeros(need, np.int64)
    for i in range(need):
        x = reference.lane(
            int(column[i]), int(u[i]), int(digit[i]), int(tilt[i]), int(low[i])
        )
        if x is None:
            x = next(accepted, None)
        if x is None:
            x = reference.fresh(_blocks(call, chunk, i))
        value[i] = max(min(x, 2**63 - 1), -(2**63))
    return value


def _accepted(
    law: Law, call: _core.Call, chunk: int, area: np.ndarray, tried: int
) -> Iterator[int]:
    reference = tilted_of(law)
    for i, (word, place) in enumerate(area[:tried].tolist()):
        x = reference.attempt(word, place, _blocks(call, chunk, PASS + i))
        if x is not None:
            yield x
