"""The words of a call as the samplers lay them out, and whole arrays of answers.

`expected` gives the outputs of a call from its bits alone. Lanes of alias digits that
are not special follow their tables of integers; words of the Gaussian hat are compared
with a screen in doubles. What is special, or comes near a threshold, goes one by one to
the samplers of ``tests.reference``, which read further bits.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from fastdp import _core, _digits, _exact, _laws, _tables
from fastdp._stream import CallKey, Stream
from tests.reference import digits, discrete_gaussian
from tests.reference.interval import More

#: What settles a pending trial: words and extension blocks to a value or None.
Resolver: TypeAlias = Callable[[tuple[int, ...], More], int | None]

GROUP = 1024

#: Bytes of the words of one trial of a Gaussian hat.
PARTS = {"narrow": (2, 4), "wide": (2, 4, 8)}

#: Trials of a pass of alias digits, and ranks that have words.
PASS, RANKS = 8192, 128


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
    def table(self) -> _digits.Digits | _tables.GaussianTable:
        if self.family == "laplace":
            return _digits.laplace(self.parameter)
        return _tables.gaussian_law(self.parameter)

    @property
    def is_digits(self) -> bool:
        return isinstance(self.table, _digits.Digits)

    @property
    def parts(self) -> tuple[int, ...]:
        return PARTS[self.table.kind]

    def sampler(self, resolver: Resolver | None = None) -> _core.Sampler:
        """Return the product's sampler, or the same law with another resolver."""
        if self.family == "laplace":
            own = _laws.laplace_sampler(self.parameter, self.bound)
        else:
            own = _laws.gaussian_sampler(self.parameter)
        if resolver is None:
            return own
        if self.is_digits:
            return _core.Sampler.digits(
                self.table, resolver, self.bound, own.acceptance
            )
        return _core.Sampler.gaussian(self.table, resolver)

    def resolver(self) -> Resolver:
        """Return the product's resolver."""
        table = self.table
        if isinstance(table, _digits.Digits):
            return table.settle
        return lambda w, block: _exact.gaussian(table, *table.split(*w), block)

    def resolve(self, words: tuple[int, ...], more: More) -> int | None:
        """Return the reference's answer to the words of one trial of a hat."""
        return discrete_gaussian.sample(
            self.parameter, self.table, *(*words, 0)[:3], more
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
    draw = pass_values if law.is_digits else group_values
    got: list[np.ndarray] = []
    while sum(map(len, got)) < need:
        left = need - sum(map(len, got))
        got.append(draw(law, call, chunk, len(got), left))
    return np.concatenate(got)[:need]


def group_values(
    law: Law, call: _core.Call, chunk: int, number: int, need: int
) -> np.ndarray:
    """Return the accepted values of two groups of a Gaussian hat's trials."""
    size = GROUP * sum(law.parts)
    raw = call.keystream(chunk, 2 * number * size, 2 * size)
    first = 2 * number * GROUP
    value, kept = values(
        law,
        words_of(law.parts, raw),
        lambda i: lambda k: call.extension(chunk, first + i, k),
    )
    return value[kept]


def values(
    law: Law, words: list[np.ndarray], more: Callable[[int], More]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a hat's trials and which of them are kept."""
    value, kept, unsure = _gaussian(law, words)
    for i in np.flatnonzero(unsure).tolist():
        answer = law.resolve(tuple(int(w[i]) for w in words), more(i))
        kept[i] = answer is not None
        value[i] = answer or 0
    return value, kept


# --- alias digits -------------------------------------------------------------------


class Pass(NamedTuple):
    """Where the words of a pass lie, in bytes."""

    rank_words: int
    stride: int
    low_bytes: int

    @property
    def area(self) -> int:
        return RANKS * 8 * self.rank_words

    @property
    def trials(self) -> int:
        return PASS // 64 * self.stride

    @property
    def size(self) -> int:
        return self.area + self.trials + PASS * self.low_bytes


def pass_of(law: Law) -> Pass:
    """Return the layout of the words of a law's passes."""
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
