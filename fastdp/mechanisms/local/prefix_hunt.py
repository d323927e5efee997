"""Heavy hitters: finds frequent strings without a list, by growing prefixes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _laws, _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import RandomizedResponseEvent
from fastdp.exceptions import ParameterError
from fastdp.mechanisms.local import _probabilities, _strings
from fastdp.mechanisms.local.estimates import Support
from fastdp.mechanisms.local.hunt import Hunted
from fastdp.mechanisms.local.local_hashing import REPORT

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Length in bits of the first prefixes; all of them are candidates.
_FIRST = 12

#: Maximum number of candidates of one level; maximum length of values in bits.
_MOST_CANDIDATES = 2**20
_MOST_BITS = 1024

#: Maximum number of buckets: more than e**11 does not help.
_MOST_BUCKETS = 2**16

#: Process this many users at a time: their prefixes are in memory.
_SLAB = 2**18


class PrefixHunt(Hunted):
    """Frequent strings of an open domain, found by their prefixes; pure local privacy.

    Each user joins a random group, and each group has a prefix length; the lengths
    grow. Each user reports once: the bucket of the user's prefix under a random hash
    function. A server extends the prefixes that it kept by all possible bits up to the
    next length, counts the group's reports that support each prefix, and keeps the
    best. At the end it shows the values with counts that chance does not explain.

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        Probability of the true bucket, above 1/buckets and below 1; rounded down to a
        multiple of 2**-64.
    buckets : int
        Number of buckets, 2 ... 2**16; about e**epsilon + 1 are optimal.
    bits : int
        Length of values, a multiple of 8 up to 1024. Text counts as its UTF-8 bytes;
        shorter values are padded with zeros and longer values are cut. Integers count
        as their decimal digits; big-endian bytes hold larger integers:
        `x.astype(">u8").view("S8")`.
    groups : int, optional
        Number of groups, each with its own length: 12 bits, then even steps. None: the
        least number with at most 2**12 candidates per length.
    most : int
        Maximum number of values found, 1 ... 1024. Twice this number of prefixes is
        kept.
    beta : int, float, Fraction or Decimal
        Probability that any value is shown that nobody holds, in (0, 1).
    key : str
        32 public hex digits from which the hash functions are made.

    Privacy
    -------
    Pure local epsilon = ln(p (buckets - 1)/(1 - p)) for each report: any two values of
    one user are neighboring, and no sensitivity is needed. Group and hash function are
    drawn independently of the value. Exact. Timing class T0: strings are read and
    hashed.

    Notes
    -----
    Half of the users are in the last group, which alone decides which values are shown
    and their counts; the other groups share the rest evenly. A value is found if all of
    its prefixes were kept: this needs a share of about 4 standard errors of a group.

    References
    ----------
    Wang, Li, Jha, "Locally differentially private heavy hitter identification", IEEE
    TDSC 2021 (PEM); Bassily, Nissim, Stemmer, Thakurta, "Practical locally private
    heavy hitters", NeurIPS 2017 (TreeHist).

    Examples
    --------
    >>> import fastdp
    >>> m = fastdp.PrefixHunt.from_epsilon(4, bits=24, most=4)
    >>> reports = m.release(["abc"] * 6000 + ["xyz"] * 3000)
    >>> m.find(reports).names[:2]  # chance adds one with probability <= beta
    ('abc', 'xyz')
    """

    __slots__ = ("_law",)

    _law: _core.Response

    def __init__(
        self,
        p: Real,
        *,
        buckets: int,
        bits: int = 64,
        groups: int | None = None,
        most: int = 32,
        beta: Real = Fraction(1, 1000),
        key: str = _strings.NO_KEY,
    ) -> None:
        buckets = _validate.integer("buckets", buckets, 2, _MOST_BUCKETS)
        truth = _probabilities.checked_truth(p, buckets)
        most = _validate.integer("most", most, 1, 1024)
        lengths = _lengths_of(bits, groups, most)
        chance = _validate.open_unit("beta", beta)
        key = _strings.checked_key(key)
        wrong, common = (1 - truth) / (buckets - 1), _collision_probability(buckets)
        self._freeze(
            _arguments=(
                ("p", _validate.plain(truth)),
                ("buckets", buckets),
                ("bits", lengths[-1]),
                ("groups", len(lengths)),
                ("most", most),
                ("beta", _validate.plain(chance)),
                ("key", key),
            ),
            _beta=chance,
            _buckets=buckets,
            _key=_strings.hash_key(key),
            _law=_laws.response_law(truth, buckets),
            _lengths=lengths,
            _most=most,
            _support=Support(truth, common * truth + (1 - common) * wrong),
            _report_dtype=REPORT,
            _row=(),
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        bits: int = 64,
        groups: int | None = None,
        most: int = 32,
        beta: Real = Fraction(1, 1000),
        key: str = _strings.NO_KEY,
    ) -> PrefixHunt:
        """Return the hunt with the greatest p that meets `epsilon`.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            Epsilon of one report, > 0. The number of buckets is e**epsilon + 1,
            rounded.
        bits, groups, most, beta, key
            As for the class.

        Raises
        ------
        DTypeError, ParameterError
            A parameter has a wrong type or is out of its domain.
        CalibrationError
            `epsilon` is so small that only the useless p = 1/buckets meets it.
        """
        exact = _validate.positive("epsilon", epsilon)
        best = round(math.exp(min(exact, Fraction(11)))) + 1
        buckets = min(best, _MOST_BUCKETS)
        truth = _probabilities.truth_of(epsilon, buckets)
        return cls(
            truth,
            buckets=buckets,
            bits=bits,
            groups=groups,
            most=most,
            beta=beta,
            key=key,
        )

    @property
    def p(self) -> Fraction:
        """Probability that a report holds the true bucket, exact."""
        return _validate.exact("p", dict(self._arguments)["p"])

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return self._buckets

    @property
    def lengths(self) -> tuple[int, ...]:
        """Length in bits of the prefixes of each group."""
        return self._lengths

    @property
    def most(self) -> int:
        """Maximum number of values that are found."""
        return self._most

    @property
    def key(self) -> str:
        """Public key of the hash functions, 32 hex digits."""
        return str(dict(self._arguments)["key"])

    def event(self) -> RandomizedResponseEvent:
        """Return the event of one report, for two values in different buckets."""
        return RandomizedResponseEvent(p=self.p, q=(1 - self.p) / (self._buckets - 1))

    # --- release ------------------------------------------------------------------

    def _release(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        read = _strings.read("values", values)
        size = self._lengths[-1] // 8
        rows = read.padded(size).view(f"V{size}").reshape(read.shape)
        return self._run(values, rows, REPORT, self._draw, out, stream, workers)

    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        rows = x.view(np.uint8).reshape(len(x), self._lengths[-1] // 8)
        for low in range(0, len(x), _SLAB):
            part = slice(low, low + _SLAB)
            self._draw_slab(rows[part], reports[part], stream, workers)

    def _draw_slab(
        self, rows: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        n = len(rows)
        seeds, values = np.zeros(n, np.uint64), np.zeros(n, np.uint32)
        # The seeds are published, so their key is separate from the secret one.
        with _core.Call(stream) as public:
            _core.fill_bytes_into(public, seeds)
        groups = self._groups_of(seeds)
        digests, buckets = np.zeros(n, np.uint64), np.zeros(n, np.uint32)
        try:
            for level in range(len(self._lengths)):
                mine = np.flatnonzero(groups == level)
                held = rows[mine]
                found = self._digests(held, level)
                digests[mine] = found
                _core.zero(found)
                _core.zero(held)
            with _core.Call(stream, values) as secret:

                def part(start: int, stop: int, chunk: int) -> None:
                    mine = slice(start, stop)
                    self._key.buckets(
                        seeds[mine], self._buckets, digests[mine], buckets[mine]
                    )
                    _core.respond(
                        secret, self._law, buckets[mine], values[mine], 0, chunk
                    )

                _arrays.in_parallel(part, n, self._law.chunk, workers)
        finally:
            _core.zero(digests)
            _core.zero(buckets)
        reports["seed"], reports["value"] = seeds, values


def _lengths_of(bits: object, groups: object, most: int) -> tuple[int, ...]:
    """Return the length in bits of the prefixes of each group."""
    whole = _validate.integer("bits", bits, 8, _MOST_BITS)
    if whole % 8:
        raise ParameterError(f"bits must be a multiple of 8, got {whole}")
    first = min(_FIRST, whole)
    widest = 12 - (2 * most - 1).bit_length()
    steps = -(-(whole - first) // max(1, widest))
    if groups is not None:
        steps = _validate.integer("groups", groups, 1, whole - first + 1) - 1
    if whole > first and steps == 0:
        raise ParameterError(f"groups must be at least 2 for {whole} bits, got 1")
    rest = whole - first
    lengths = [first, *(first + -(-rest * i // steps) for i in range(1, steps + 1))]
    wide = max((b - a for a, b in itertools.pairwise(lengths)), default=0)
    if 2 * most << wide > _MOST_CANDIDATES:
        raise ParameterError(
            "groups must be larger, or most smaller: a length may have "
            f"at most {_MOST_CANDIDATES} candidates, and has 2 most times "
            f"2**{wide}"
        )
    return tuple(lengths)


def _collision_probability(buckets: int) -> Fraction:
    """Return the probability that two uniform 32-bit hash values share a bucket."""
    few, larger = divmod(2**32, buckets)
    pairs = (buckets - larger) * few**2 + larger * (few + 1) ** 2
    return Fraction(pairs, 2**64)
