"""Local vectors: a report is a word of a public code, more often a near word."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _doorway, _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import RandomizedResponseEvent
from fastdp.exceptions import ParameterError
from fastdp.mechanisms.local import _probabilities
from fastdp.mechanisms.local._release import ReportsOnce
from fastdp.mechanisms.local.estimates import VectorEstimate
from fastdp.mechanisms.local.local_hashing import REPORT

_Array: TypeAlias = "np.ndarray[Any, Any]"

_MOST_DIMENSION = 10**5
_MOST_WORDS = 2**16

#: Entries of words are multiples of this, so that their products and sums are exact.
_STEP = 2.0**-12

#: Entries of users' vectors are first rounded to multiples of this.
_GRID = 2.0**-24

#: Cells of the table of entry sizes: 15 bits of a word choose one; if the first 8 bits
#: are 0, 23 bits choose one of a finer table.
_CELLS, _FINE = 2**15, 2**7

#: Draw for this many users at a time: whole chunks of every kind of draw.
_BLOCK = 2048

#: First chunks of the three kinds of draws under the secret key.
_TOP, _REST, _SIDE = (2**30 * part for part in (1, 2, 3))


class VectorResponse(ReportsOnce[VectorEstimate]):
    """Mean of vectors in the unit ball: pure local privacy, a report of 12 bytes.

    A public seed, fresh for each report, makes `words` vectors of normal numbers. The
    report is the seed and the number of one word: with probability p one of the `near`
    words with the largest scalar products with the user's vector, otherwise one of the
    other words. This is a finite PrivUnitG; with `words` = 256 its error is within 2 %
    of PrivUnitG's up to epsilon = 4.

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        Probability of a near word, above near/words and below 1; rounded down to a
        multiple of 2**-64.
    near : int
        How many words count as near, 1 ... words - 1.
    words : int
        Number of words of a report's code, 2 ... 65536.
    dimension : int
        Number of entries of a vector, 1 ... 10**5.

    Privacy
    -------
    Pure local epsilon = ln(p (words - near)/(near (1 - p))): any two vectors of one
    user are neighboring, and no sensitivity is needed. Exact for every order of the
    words that float errors may give: under every seed exactly `near` words are near.
    Timing class T0: numpy computes the vector's length; the search for the word takes
    the same steps for all vectors.

    Notes
    -----
    A report is a seed of 64 bits and the word's number, as in `LocalHashing`. The
    entries of words are integers that any language can compute (docs/report_bits.md):
    multiples of 2**-12, each the mean of a normal number in its cell. There are 2**16
    cells; each cell beyond 2.88 is divided into 256 more. For a vector along an axis
    the mean is accurate to 2e-6.

    References
    ----------
    Bhowmick et al., "Protection against reconstruction and its applications in private
    federated learning", 2018 (PrivUnit); Asi, Feldman, Talwar, "Optimal algorithms for
    mean estimation under local differential privacy", ICML 2022 (PrivUnitG).

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.VectorResponse.from_epsilon(2, dimension=3, words=64)
    >>> m.near, m.epsilon()
    (14, 2.0)
    >>> reports = m.release(np.tile([0.3, 0.0, 0.4], (5, 1)))
    >>> reports.dtype.names, reports.shape
    (('seed', 'value'), (5,))
    >>> m.estimate(reports).mean.shape
    (3,)
    """

    __slots__ = ("_code", "_dimension", "_near", "_p", "_scale", "_square", "_words")

    _code: _core.VectorCode
    _dimension: int
    _near: int
    _p: Fraction
    _scale: float  # mean component of the reported word along the vector
    _square: float  # mean square of this component
    _words: int

    def __init__(self, p: Real, *, near: int, words: int = 256, dimension: int) -> None:
        words = _validate.integer("words", words, 2, _MOST_WORDS)
        near = _validate.integer("near", near, 1, words - 1)
        dimension = _validate.integer("dimension", dimension, 1, _MOST_DIMENSION)
        own = _probabilities.checked_truth(p, Fraction(words, near))
        scale, square = _moments(float(own), near, words)
        self._freeze(
            _arguments=(
                ("p", _validate.plain(own)),
                ("near", near),
                ("words", words),
                ("dimension", dimension),
            ),
            _code=_core.VectorCode(_sizes(), words, dimension),
            _p=own,
            _near=near,
            _words=words,
            _dimension=dimension,
            _scale=scale,
            _square=square,
            _report_dtype=REPORT,
            _row=(),
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        dimension: int,
        words: int = 256,
        near: int | None = None,
    ) -> VectorResponse:
        """Return the mechanism with the least error within `epsilon`.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            > 0.
        dimension, words
            As for the class. A client computes words * dimension normal numbers.
        near : int, optional
            None: the number with the least error.

        Raises
        ------
        DTypeError, ParameterError
            A parameter has a wrong type or is out of its domain.
        CalibrationError
            `epsilon` is so small that only the useless p = near/words meets it.
        """
        words = _validate.integer("words", words, 2, _MOST_WORDS)
        if near is None:
            exact = float(min(_validate.positive("epsilon", epsilon), Fraction(40)))
            near = _best_near(exact, words)
        near = _validate.integer("near", near, 1, words - 1)
        own = _probabilities.truth_of(epsilon, Fraction(words, near))
        return cls(own, near=near, words=words, dimension=dimension)

    @property
    def p(self) -> Fraction:
        """Probability that a report is a near word, exact."""
        return self._p

    @property
    def near(self) -> int:
        """The number of words that count as near."""
        return self._near

    @property
    def words(self) -> int:
        """Number of words of a report's code."""
        return self._words

    @property
    def dimension(self) -> int:
        """Number of entries of a vector."""
        return self._dimension

    @property
    def _value(self) -> int:
        return 1

    def event(self) -> RandomizedResponseEvent:
        """Return the event of one report, for vectors without a common near word."""
        apart = min(self._near, self._words - self._near)
        return RandomizedResponseEvent(
            p=apart * self._p / self._near,
            q=apart * (1 - self._p) / (self._words - self._near),
        )

    def variance(self) -> float:
        """Return the mean squared error of the vector estimated from one report.

        It is the sum over all entries, for a unit vector; for a shorter vector the
        error is larger by 1 minus the square of its length.
        """
        return (self._dimension - 1 + self._square) / self._scale**2 - 1

    def standard_error(self, users: int) -> float:
        """Return an upper bound on the standard error of each entry of the mean.

        Raises
        ------
        DTypeError, ParameterError
            `users` is not an int >= 1.
        """
        users = _validate.integer("users", users, 1)
        return math.sqrt(max(1.0, self._square) / users) / self._scale

    def _release(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        rows = values
        if not isinstance(rows, np.ndarray):
            rows = np.array(_doorway.rows("values", rows))  # copy
        if rows.ndim == 0 or rows.shape[-1] != self._dimension:
            raise ParameterError(
                f"values must have rows of {self._dimension}, got shape {rows.shape}"
            )
        x = _arrays.data("values", rows, real=rows.dtype.kind not in "iu")
        dtype = self._report_dtype
        return self._run(values, x, dtype, self._draw, out, stream, workers)

    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        # The seeds are published, so their key is separate from the secret one.
        with _core.Call(stream) as public, _core.Call(stream, reports) as secret:

            def part(start: int, stop: int, chunk: int) -> None:
                for low in range(start, stop, _BLOCK):
                    users = slice(low, min(low + _BLOCK, stop))
                    place = low // _BLOCK
                    self._draw_block(public, secret, x[users], reports[users], place)

            _arrays.in_parallel(part, len(x), _BLOCK, workers)

    def _draw_block(
        self,
        public: _core.Call,
        secret: _core.Call,
        x: _Array,
        reports: _Array,
        place: int,
    ) -> None:
        n, k = len(x), self._near
        seeds, coins, sides = (np.zeros(n, np.uint64) for _ in range(3))
        top, rest = np.zeros(n, np.int64), np.zeros(n, np.int64)
        _core.fill_bytes_into(public, seeds.view(np.uint8), place)
        _core.fill_bytes_into(secret, coins.view(np.uint8), place)
        _core.fill_bytes_into(secret, sides.view(np.uint8), _SIDE + place)
        _core.fill_integers(secret, 0, k, top, _TOP + place)
        _core.fill_integers(secret, 0, self._words - k, rest, _REST + place)
        near, directions = np.zeros(n, np.bool_), np.zeros(0, np.int32)
        try:
            # First draw the rank of the reported word, exactly; then find that word.
            np.less(coins, np.uint64(int(self._p * 2**64)), out=near)
            rest += k
            np.copyto(rest, top, where=near)
            directions = _directions(x, sides)
            reports["seed"] = seeds
            self._code.clients(directions, rest, reports)
        finally:
            for array in (directions, coins, sides, top, rest, near):
                _core.zero(array)

    # --- estimate -----------------------------------------------------------------

    @property
    def _tally_size(self) -> int:
        return self._dimension + 1

    def _count(self, reports: _Array, tally: _Array) -> None:
        """Add the words of the reports, in steps, and the number of reports."""
        self._code.sums(reports, tally)

    def _estimate(self, tally: _Array, users: int) -> VectorEstimate:
        with np.errstate(all="ignore"):
            mean = tally[:-1] * _STEP / (self._scale * tally[-1].astype(np.float64))
        error = self.standard_error(int(tally[-1])) if tally[-1] else math.inf
        return VectorEstimate(mean, error, users, self)


def _directions(x: _Array, sides: _Array) -> _Array:
    """Return unit vectors with random signs whose means are the given vectors.

    They are in steps of 2**-24. Privacy does not depend on float errors here.
    """
    with np.errstate(all="ignore"):  # a signaling NaN would warn
        rows, work = x.astype(np.float64), np.empty(x.shape)
    most, norm, coins = (np.empty(len(x)) for _ in range(3))
    mask = np.empty((len(x), 1), np.bool_)
    try:
        with np.errstate(all="ignore"):
            np.nan_to_num(rows, copy=False, nan=0.0)
            np.abs(rows, out=work).max(axis=1, out=most)
            np.greater(most[:, None], 0, out=mask)
            np.divide(rows, most[:, None], out=rows, where=mask)
            np.sqrt(np.square(rows, out=work).sum(axis=1, out=norm), out=norm)
            np.greater(norm[:, None], 0, out=mask)
            np.divide(rows, norm[:, None], out=rows, where=mask)
            norm *= most
            np.minimum(norm, 1.0, out=norm)
        np.equal(norm, 0, out=mask[:, 0])
        rows[mask[:, 0], 0] = 1.0  # the origin: both signs are equally likely
        np.multiply(sides, 2.0**-64, out=coins)
        norm += 1
        norm /= 2
        np.greater_equal(coins, norm, out=mask[:, 0])
        np.negative(rows, out=rows, where=mask)
        rows /= _GRID
        found: _Array = np.rint(rows, out=rows).astype(np.int32)
    finally:
        for array in (rows, work, most, norm, coins, mask):
            _core.zero(array)
    return found


@lru_cache(maxsize=1)
def _sizes() -> _Array:
    """Return the sizes of entries, in steps: the mean of a normal number in each cell.

    All means are at least 5e-6 of a step away from a half-integer, and doubles are
    accurate to 1e-7, so every machine rounds to the same sizes.
    """
    from scipy import special

    parts = []
    for cells, first in ((_CELLS, _CELLS), (_CELLS, _FINE)):
        edges = special.ndtri(np.arange(cells + 1) * (first / _CELLS / cells / 2))
        density = np.exp(-(edges**2) / 2) / math.sqrt(2 * math.pi)
        chance = first / _CELLS / cells / 2
        parts.append(np.rint(np.diff(density) / chance / _STEP))
    return np.concatenate(parts).astype(np.int16)


@lru_cache(maxsize=256)
def _order_means(near: int, words: int) -> tuple[float, float, float]:
    """Return moments of order statistics of `words` normal numbers, by quadrature.

    They are the mean and mean square of the `near` largest, and the others' mean
    square.
    """
    from scipy import special

    x = np.linspace(-9.5, 9.5, 3001)
    weight = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    # Probability that fewer than `near` of the other numbers exceed x.
    above = special.betainc(words - near, near, special.ndtr(x))
    mean = float(weight @ (x * above)) * words / near
    square = float(weight @ (x**2 * above)) * words / near
    return mean, square, (words - near * square) / (words - near)


def _moments(p: float, near: int, words: int) -> tuple[float, float]:
    """Return the mean and the mean square of a reported word along the vector."""
    mean, top, rest = _order_means(near, words)
    return (p - (1 - p) * near / (words - near)) * mean, p * top + (1 - p) * rest


@lru_cache(maxsize=256)
def _best_near(epsilon: float, words: int) -> int:
    """Return the number of near words with the largest mean along the vector."""
    e = math.exp(epsilon)

    def scale(near: int) -> float:
        p = near * e / (near * e + words - near)
        return _moments(p, near, words)[0]

    # The scale increases up to the best number and then decreases.
    low, high = 1, words - 1
    while low < high:
        middle = (low + high) // 2
        if scale(middle) < scale(middle + 1):
            low = middle + 1
        else:
            high = middle
    return low
