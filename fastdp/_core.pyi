from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias, TypeGuard, TypeVar, final

import numpy as np

from fastdp._stream import Stream

_Array: TypeAlias = np.ndarray[Any, Any]
_Grid: TypeAlias = tuple[float, float, float, float]

INTEGERS_CHUNK: int
BITS_CHUNK: int
NUMBERS_CHUNK: int
SUBSETS_CHUNK: int
BYTES_CHUNK: int
CLIENTS: int
SELECT_CHUNK: int
SELECT_MOST: int
RACES: dict[str, int]
CIPHERS: dict[str, int]

_F = TypeVar("_F", bound=Callable[..., Any])

def zero_on_failure(function: _F, name: str = "out", integers: bool = False) -> _F: ...
def run(tasks: list[Callable[[], None]]) -> None: ...

@final
class Call:
    def __init__(
        self, stream: Stream | None = None, out: _Array | None = None
    ) -> None: ...
    def __enter__(self) -> Call: ...
    def __exit__(self, *failure: object) -> None: ...
    def keystream(self, chunk: int, offset: int, n: int) -> bytes: ...
    def extension(self, chunk: int, trial: int, block: int) -> bytes: ...

@final
class Sampler:
    @staticmethod
    def laplace(scale: Fraction, bound: int = 0) -> Sampler: ...
    @staticmethod
    def gaussian(sigma: Fraction) -> Sampler: ...
    @property
    def chunk_outputs(self) -> int: ...
    @property
    def acceptance(self) -> float: ...
    @property
    def bytes_per_sample(self) -> float: ...
    @property
    def tries(self) -> tuple[int, int, int, int, int]: ...
    def structure(self) -> bytes: ...
    def widen(
        self,
        *,
        narrow: float = 0.0,
        wide: float = 0.0,
        sure: bool = False,
        exact: bool = True,
    ) -> Sampler: ...

@final
class Bernoulli:
    def __init__(self, p: Fraction, *, exact: bool = True) -> None: ...
    def structure(self) -> bytes: ...
    @property
    def chunk(self) -> int: ...

@final
class Response:
    def __init__(self, truth: Fraction, categories: int) -> None: ...
    def structure(self) -> bytes: ...
    @property
    def chunk(self) -> int: ...

@final
class Numbers:
    def __init__(
        self,
        low: float,
        steps: float,
        parts: Sequence[tuple[int, int, int]],
        members: Sequence[tuple[int, int]],
        spare: int,
        middle: int,
    ) -> None: ...

@final
class Ratios:
    def __init__(self, numbers: Sequence[Fraction | int]) -> None: ...

@final
class Selection:
    def __init__(
        self,
        rate: Fraction,
        noise: str | None = None,
        weights: tuple[_Array, _Array | None, int, float, Ratios | None] | None = None,
    ) -> None: ...
    def structure(self) -> bytes: ...
    def widen(
        self, tolerance: float = 0.0, *, fine: bool = True, exact: bool = True
    ) -> Selection: ...

@final
class Clip:
    def __init__(
        self,
        dimension: int,
        norm: str,
        radius: float,
        step: int,
        most: float,
        limit: int,
        changed: int,
    ) -> None: ...
    def rows(self, x: _Array, out: _Array) -> None: ...
    def sums(
        self, x: _Array, block: _Array | None, rows: _Array, total: _Array
    ) -> None: ...

def clip_groups(
    groups: list[tuple[Clip, list[_Array], _Array]], first: int, n: int
) -> None: ...
def column_moments(
    column: tuple[float, float, float, float, int],
    x: _Array,
    group: _Array | None,
    count: _Array,
    total: _Array,
    square: _Array,
) -> None: ...
def gather_sums(
    row_loss: _Array,
    row_mass: _Array,
    loss: _Array,
    mass: _Array,
    edge: _Array,
    square: bool,
    ratios: bool = False,
) -> tuple[_Array, _Array, int]: ...
def dtype_supported(dtype: np.dtype[Any]) -> bool: ...
def share(x: _Array, y: _Array) -> bool: ...
def plain(x: object, real: bool, writeable: bool = False) -> TypeGuard[_Array]: ...
def flat(x: _Array, axes: int = 0) -> _Array: ...
def fits(
    out: object, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> TypeGuard[_Array]: ...
def fill(
    source: Call | Stream | None,
    sampler: Sampler,
    x: _Array | None,
    out: _Array | tuple[int, ...],
    first_chunk: int = 0,
    grid: _Grid | None = None,
) -> _Array: ...
def fill_one(
    sampler: Sampler, x: int | np.int64, stream: Stream | None = None
) -> np.int64: ...
def fill_one_real(
    sampler: Sampler, number: float, grid: _Grid, stream: Stream | None = None
) -> np.float64: ...
def zero(out: _Array) -> None: ...
def fill_bytes(call: Call, n: int) -> bytes: ...
def fill_integers(
    call: Call, low: int, span: int, out: _Array, first_chunk: int = 0
) -> None: ...
def fill_permutation(call: Call, out: _Array) -> None: ...
def flip_bits(
    source: Call | Stream | None,
    law: Bernoulli,
    x: _Array | None,
    out: _Array,
    n: int,
    first_chunk: int = 0,
) -> None: ...
def flip_bytes(
    source: Call | Stream | None,
    law: Bernoulli,
    x: _Array | None,
    out: _Array,
    other: int = -1,
    first_chunk: int = 0,
) -> None: ...
def respond(
    source: Call | Stream | None,
    law: Response,
    x: _Array,
    out: _Array,
    other: int = -1,
    first_chunk: int = 0,
) -> None: ...
def fill_bytes_into(call: Call, out: _Array, first_chunk: int = 0) -> None: ...
def hash_clients(
    call: Call,
    public: Call,
    labeling: Response,
    law: Response,
    x: _Array,
    out: _Array,
    categories: int,
    other: int = -1,
    first_chunk: int = 0,
) -> None: ...
def hadamard_clients(
    source: Call | Stream | None,
    labeling: Response,
    law: Bernoulli,
    x: _Array,
    out: _Array,
    bits: int,
    other: int = -1,
    first_chunk: int = 0,
) -> None: ...
def fill_subsets(
    call: Call,
    truth: Fraction,
    categories: int,
    size: int,
    labels: _Array,
    rows: _Array,
    first_chunk: int = 0,
) -> None: ...
def number_clients(
    source: Call | Stream | None,
    law: Numbers,
    x: _Array,
    out: _Array,
    first_chunk: int = 0,
) -> None: ...
def insert_bits(rows: _Array, row_bytes: int, labels: _Array, bits: _Array) -> None: ...
def column_sums(rows: _Array, row_bytes: int, out: _Array) -> None: ...
def histogram(reports: _Array, out: _Array) -> None: ...
def hash_support(
    reports: _Array, categories: int, buckets: int, out: _Array
) -> None: ...
def report_lines(
    text: bytes,
    start: int,
    mechanism: bytes,
    parts: list[tuple[bytes | None, int, int, int]],
    out: _Array,
) -> tuple[int, int, int]: ...
def hadamard_supporters(tally: _Array, categories: int) -> _Array: ...
def estimate_counts(
    supporters: _Array,
    whole: int,
    rest: float,
    users: int,
    doubles: tuple[float, float, float],
) -> tuple[_Array, _Array]: ...

@final
class HashKey:
    def __new__(cls, key: bytes) -> HashKey: ...
    def digests(self, offsets: _Array, text: _Array, out: _Array) -> None: ...
    def words(self, seeds: _Array, out: _Array) -> None: ...
    def buckets(self, seeds: _Array, buckets: int, x: _Array, out: _Array) -> None: ...
    def support(
        self, reports: _Array, buckets: int, x: _Array, out: _Array
    ) -> None: ...

@final
class VectorCode:
    def __new__(cls, table: _Array, words: int, dimension: int) -> VectorCode: ...
    def clients(self, x: _Array, ranks: _Array, reports: _Array) -> None: ...
    def sums(self, reports: _Array, out: _Array) -> None: ...

def row_buckets(
    words: _Array, bits: int, rows: _Array, x: _Array, out: _Array
) -> None: ...
def sketch_sums(
    words: _Array, bits: int, table: _Array, x: _Array, out: _Array
) -> None: ...
def select_one(
    law: Selection,
    scores: object,
    weights: object,
    stream: Stream | None = None,
    flip: bool = False,
) -> np.int64 | None: ...
def weights_range(weights: _Array) -> tuple[int, float] | None: ...
def select_flipped(
    call: Call, law: Selection, scores: _Array, out: _Array, first_row: int = 0
) -> None: ...
def select_proposed(
    call: Call, law: Selection, scores: _Array, out: _Array, first_row: int = 0
) -> None: ...
def select_inverse(
    call: Call, law: Selection, scores: _Array, out: _Array, first_row: int = 0
) -> None: ...
def select_race(
    call: Call,
    law: Selection,
    scores: _Array,
    out: _Array,
    first_row: int = 0,
    first: int = 0,
) -> None: ...
def race_ahead(
    call: Call,
    law: Selection,
    one: tuple[_Array, int, int, int],
    other: tuple[_Array, int, int, int],
) -> bool: ...
def race_keys(
    call: Call,
    law: Selection,
    scores: _Array,
    low: _Array,
    high: _Array,
    first_row: int = 0,
) -> None: ...

LEVELS: tuple[str, ...]

def config() -> dict[str, str]: ...
def cipher_available(cipher: str) -> bool: ...
def limit_cpu(level: str | None = None) -> str: ...
def derive_key(key: bytes, index: int) -> bytes: ...

class ArrowChunk: ...

def arrow_format(schema: object) -> bytes: ...
def arrow_chunks(stream: object) -> tuple[bytes | None, list[ArrowChunk]]: ...
def arrow_strings(
    owner: object, width: int
) -> tuple[_Array, _Array, _Array | None, int]: ...
def arrow_view(
    owner: object, dtype: np.dtype[Any] | None = None
) -> tuple[_Array, _Array | None, int, int]: ...
