"""Unary encoding: one bit for each category, flipped independently."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _laws, _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import RandomizedResponseEvent
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms.local import _probabilities
from fastdp.mechanisms.local._base import (
    LABELS,
    MOST_CATEGORIES,
    REGION,
    FrequencyOracle,
    scratch,
)
from fastdp.mechanisms.local._mechanism import USERS
from fastdp.mechanisms.local.categories import Categories, Named, Other
from fastdp.mechanisms.local.estimates import Support

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: First chunk of the randomness for the bits of the users' own categories.
_OWN = LABELS + REGION

#: Draw about this many bytes of rows before the users' own bits are inserted: the rows
#: are then still in the cache.
_SLAB = 2**18


class UnaryEncoding(FrequencyOracle):
    """Unary encoding: a row with one bit per category; pure local privacy.

    The bit of the user's category is 1 with probability p, every other bit is 1 with
    probability q. p = 1/2 gives optimized unary encoding (OUE); q = 1 - p gives the
    symmetric form of basic RAPPOR.

    Rows are packed in the order of np.packbits: category v is bit 7 - v % 8 of byte
    v // 8, and the padding of the last byte is 0.

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        Probability of a 1 for the user's category, below 1; rounded down to a
        multiple of 2**-64.
    q : int, float, Fraction or Decimal
        Probability of a 1 for each other category, above 0; rounded up to a multiple
        of 2**-64, and then below p.
    categories : int, or sequence of str or of int
        Number of categories, 2 ... 2**24, which are then 0 ... categories - 1; or
        their public names, each once, which are then compared with the values.
    other : int or str, optional
        Category for a value that is in none of the categories, given by name if they
        have names. None: such a value counts as a category drawn uniformly.

    Privacy
    -------
    Pure local epsilon = ln(p (1 - q)/(q (1 - p))) for each row: any two values of one
    user are neighboring, and no sensitivity is needed. Exact: the probabilities
    hold to the last bit. Timing class T2; T0 with names of categories.

    References
    ----------
    Erlingsson, Pihur, Korolova, "RAPPOR: randomized aggregatable privacy-preserving
    ordinal response", CCS 2014; Wang, Blocki, Li, Jha, "Locally differentially
    private protocols for frequency estimation", USENIX Security 2017 (OUE).

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.UnaryEncoding.from_epsilon(1, categories=20)
    >>> float(m.p), round(float(m.q), 4)
    (0.5, 0.2689)
    >>> rows = m.release(np.array([0, 19, 7]))
    >>> rows.dtype, rows.shape
    (dtype('uint8'), (3, 3))
    >>> m.estimate(rows).counts.shape
    (20,)
    """

    __slots__ = ("_cross_law", "_own_law", "_p", "_q")

    _cross_law: _core.Bernoulli
    _own_law: _core.Bernoulli
    _p: Fraction
    _q: Fraction

    def __init__(
        self, *, p: Real, q: Real, categories: Named, other: Other = None
    ) -> None:
        domain = Categories(categories, MOST_CATEGORIES, other)
        own = _probabilities.floor_unit(_validate.open_unit("p", p))
        cross = _probabilities.ceil_unit(_validate.open_unit("q", q))
        if cross >= own:
            raise ParameterError(
                "q must be below p when both are rounded to multiples of 2**-64, "
                f"got {q!r} and {p!r}"
            )
        self._freeze(
            _arguments=(
                ("p", _validate.plain(own)),
                ("q", _validate.plain(cross)),
                *domain.arguments,
            ),
            _p=own,
            _q=cross,
            _own_law=_laws.bernoulli_law(own),
            _cross_law=_laws.bernoulli_law(cross),
            _labeling=self._labeling_of(domain.count),
            _domain=domain,
            _report_dtype=np.dtype(np.uint8),
            _row=(-(-domain.count // 8),),
            _support=Support(own, cross),
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        categories: Named,
        symmetric: bool = False,
        other: Other = None,
    ) -> UnaryEncoding:
        """Return the optimized or the symmetric mechanism for `epsilon`.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            > 0.
        categories, other
            As for the class.
        symmetric : bool
            False: p = 1/2 and the least q, which has the least error for rare
            categories. True: q = 1 - p with the greatest p.

        Raises
        ------
        DTypeError, ParameterError
            A parameter has a wrong type or is out of its domain.
        CalibrationError
            `epsilon` is so small that only the useless p = q meets it.
        """
        if not isinstance(symmetric, bool):
            raise DTypeError(
                f"symmetric must be a bool, got {type(symmetric).__name__}"
            )
        truth = _probabilities.truth_of(epsilon, 2, shares=2 if symmetric else 1)
        p = truth if symmetric else Fraction(1, 2)
        return cls(p=p, q=1 - truth, categories=categories, other=other)

    @property
    def p(self) -> Fraction:
        """Probability of a 1 for the user's category, exact."""
        return self._p

    @property
    def q(self) -> Fraction:
        """Probability of a 1 for each other category, exact."""
        return self._q

    def event(self) -> RandomizedResponseEvent:
        """Return the event of one row."""
        p, q = self._p, self._q
        return RandomizedResponseEvent(p=p * (1 - q), q=q * (1 - p))

    def _release_places(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        if getattr(values, "dtype", None) == np.bool_:
            raise DTypeError(
                "values must be one category a user, not bits: event() "
                "holds for a change of one category, but if a user has "
                "several bits, each may change. Use RandomizedResponse "
                "with two categories for each bit, and count its event "
                "once for each"
            )
        return super()._release_places(values, out, stream, workers)

    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        block, n = USERS, len(x)
        with (
            scratch(-(-n // 8), np.uint8) as (own,),
            _core.Call(stream, reports) as call,
        ):

            def flip(start: int, stop: int, chunk: int) -> None:
                bits = own[start // 8 : -(-stop // 8)]
                _core.flip_bits(
                    call, self._own_law, None, bits, stop - start, _OWN + chunk
                )

            def part(start: int, stop: int, chunk: int) -> None:
                with scratch(min(block, stop - start), np.uint32) as (labels,):
                    for low in range(start, stop, block):
                        high = min(low + block, stop)
                        named = labels[: high - low]
                        self._relabel(call, x[low:high], named, low)
                        self._draw_rows(call, reports, low, named, own)

            _arrays.in_parallel(flip, n, _core.BITS_CHUNK, workers)
            _arrays.in_parallel(part, n, block, workers)

    def _draw_rows(
        self,
        call: _core.Call,
        reports: _Array,
        first: int,
        labels: _Array,
        own: _Array,
    ) -> None:
        """Draw the rows of users `first`, first + 1, ... with these labels."""
        law, width = self._cross_law, self._row[0]
        chunk = _core.BITS_CHUNK // 8
        # A slab starts at the start of a chunk of rows and of a byte of own bits.
        unit = max(8, chunk // math.gcd(width, chunk))
        step = -(-_SLAB // (unit * width)) * unit
        for low in range(first, first + len(labels), step):
            high = min(low + step, first + len(labels))
            rows = reports[low:high].reshape(-1)
            _core.flip_bits(call, law, None, rows, 8 * len(rows), low * width // chunk)
            bits = own[low // 8 : -(-high // 8)]
            _core.insert_bits(rows, width, labels[low - first : high - first], bits)
            if self.categories % 8:
                reports[low:high, -1] &= 0xFF00 >> self.categories % 8 & 0xFF

    def _count(self, reports: _Array, tally: _Array) -> None:
        _core.column_sums(reports.reshape(-1), self._row[0], tally)
