"""Sinh-normal noise: close to normal near zero, with much shorter tails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from fastdp import _arrays, _core, _points, _validate
from fastdp._exact import exp_neg
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting._numeric import sqrt_up
from fastdp.accounting.events import (
    NeighboringRelation,
    Relation,
    TCDPEvent,
    as_relation,
)
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._base import Mechanism, int64_scalar

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE

#: Largest sigma: the table of the law has some 19 sigma entries.
_SIGMA = 256

#: Answers are clamped to this, so that noise of less than 2**61 fits 64 bits.
_MOST = 2**62


class SinhNormal(Mechanism):
    """Integers with sinh-normal noise: round(A arsinh(N/A)), N normal.

    Near zero the noise is close to normal with standard deviation sigma; beyond A its
    tails fall doubly exponentially. So the largest of many noises is small.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Standard deviation of the normal variable, in [1/16, 256].
    shape : int, float, Fraction or Decimal
        A: above 8 `sensitivity`, and at least sqrt(2) `sigma`, in [1, 2**40].
    sensitivity : int, float, Fraction or Decimal
        > 0, below sqrt(2) `sigma`: the most that one individual changes any one entry.
    entries : int
        Maximum number of entries that one individual changes, >= 1.
    neighboring_relation : NeighboringRelation
        The relation for which sensitivity and entries hold.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is out of its domain, or the theorem does not cover this
        combination.

    Privacy
    -------
    One release: truncated concentrated privacy with rho = 8 entries
    (sensitivity/sigma)**2 and omega = shape/(8 sensitivity), under the neighboring
    relation. The theorem is about real answers; answers here are integers, and rounding
    commutes with integer shifts, so that the released noise is post-processing of the
    real one. Exact: the law on the integers is drawn by enclosures of its distribution
    function. Timing class T0, as in `SkellamShares`.

    References
    ----------
    Bun, Dwork, Rothblum, Steinke, "Composable and versatile privacy via truncated CDP",
    STOC 2018. docs/proofs/sinh_normal.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.SinhNormal(50, shape=100, sensitivity=1, entries=1)
    >>> m.event()
    TCDPEvent(rho=Fraction(2, 625), omega=Fraction(25, 2))
    >>> m.release(np.array([3, 240, 7])).dtype
    dtype('int64')
    """

    __slots__ = ("_entries", "_law", "_relation", "_sensitivity")

    _entries: int
    _law: Law
    _relation: NeighboringRelation
    _sensitivity: Fraction

    def __init__(
        self,
        sigma: Real,
        *,
        shape: Real,
        sensitivity: Real,
        entries: int,
        neighboring_relation: Relation = ADD,
    ) -> None:
        width = _validate.between("sigma", sigma, Fraction(1, 16), Fraction(_SIGMA))
        length = _validate.between("shape", shape, Fraction(1), Fraction(2**40))
        moved = _validate.positive("sensitivity", sensitivity)
        count = _validate.integer("entries", entries, 1, 2**62)
        relation = as_relation(neighboring_relation)
        if 2 * width**2 <= moved**2 or length <= 8 * moved or length**2 < 2 * width**2:
            raise ParameterError(
                "sensitivity must be below sqrt(2) sigma and below shape/8, and shape "
                "at least sqrt(2) sigma: no guarantee is known otherwise"
            )
        self._freeze(
            _arguments=(
                ("sigma", _validate.plain(width)),
                ("shape", _validate.plain(length)),
                ("sensitivity", _validate.plain(moved)),
                ("entries", count),
                *self._not_default(neighboring_relation=relation),
            ),
            _entries=count,
            _law=Law(width, length),
            _relation=relation,
            _sensitivity=moved,
        )
        self.event()  # refuses fractions that are too long for an accountant

    @classmethod
    def from_tcdp(
        cls,
        *,
        rho: Real,
        omega: Real,
        sensitivity: Real,
        entries: int,
        neighboring_relation: Relation = ADD,
    ) -> SinhNormal:
        """Return the mechanism for (rho, omega)-tCDP; sigma is rounded up.

        Parameters
        ----------
        rho, omega : int, float, Fraction or Decimal
            Parameters of one release; rho < 16 `entries`, omega > 1 and omega**2 rho >
            `entries`/4.
        sensitivity, entries, neighboring_relation
            As in the class.

        Raises
        ------
        DTypeError, ParameterError
            As for the class.
        """
        wanted = _validate.positive("rho", rho)
        most = _validate.positive("omega", omega)
        moved = _validate.positive("sensitivity", sensitivity)
        count = _validate.integer("entries", entries, 1, 2**62)
        if wanted >= 16 * count or most <= 1 or 4 * most**2 * wanted <= count:
            raise ParameterError(
                "rho must be below 16 entries and above entries/(4 omega**2), and "
                "omega above 1: no guarantee is known otherwise"
            )
        root = sqrt_up(8 * count * moved**2 / wanted)
        return cls(
            Fraction(_validate.float_up(root)),
            shape=8 * moved * most,
            sensitivity=moved,
            entries=count,
            neighboring_relation=neighboring_relation,
        )

    def event(self) -> TCDPEvent:
        """Return the public facts of one release, for an accountant."""
        moved, sigma = self._sensitivity, self._law.sigma
        return TCDPEvent(
            rho=8 * self._entries * (moved / sigma) ** 2,
            omega=self._law.shape / (8 * moved),
            neighboring_relation=self._relation,
        )

    def release(self, x: Any, *, stream: Stream | None = None) -> Any:
        """Return `x` with noise added to every entry.

        Parameters
        ----------
        x : int, numpy integer or ndarray of an integer dtype (not uint64)
            Clamped to [-2**62, 2**62].
        stream : Stream, optional
            None draws fresh randomness; use `fastdp.testing.FixedStream` for tests.

        Returns
        -------
        numpy.int64 or ndarray of int64
            The shape is the shape of x.

        Raises
        ------
        DTypeError
            `x` is not an integer or such an array.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. Timing class T0.
        """
        check_stream(stream)
        single = not isinstance(x, np.ndarray) or x.ndim == 0
        if single:
            x = np.array(int64_scalar("x", x))
        x = _arrays.data("x", x, real=False).astype(np.int64)
        noise = _points.quantiles(x.size, self._law, stream)
        noisy = np.clip(x, -_MOST, _MOST) + noise.reshape(x.shape)
        _core.zero(noise)
        return noisy[()] if single else noisy


@dataclass(frozen=True)
class Law(_points.Quantiles):
    """The law of round(A arsinh(N/A)): P(X <= n) = Phi(A sinh((n + 1/2)/A)/sigma)."""

    sigma: Fraction
    shape: Fraction

    def table(self, bits: int) -> tuple[int, list[tuple[int, int]]]:
        """Return n and enclosures of P(N <= n), P(N <= n + 1) and so on."""
        right = [self.enclosed(0, bits)]
        whole = 1 << bits
        while (whole - right[-1][0]) >> max(bits - 66, 0):
            right.append(self.enclosed(len(right), bits))
        left = [(whole - high, whole - low) for low, high in right[::-1]]
        return -len(right), left + right

    def enclosed(self, n: int, bits: int) -> tuple[int, int]:
        """Enclose P(X <= n)."""
        if n < 0:
            low, high = self.enclosed(-n - 1, bits)
            return (1 << bits) - high, (1 << bits) - low
        return normal_below(*self._point(n, bits + 40), bits + 40, bits)

    def _point(self, n: int, places: int) -> tuple[int, int]:
        """Enclose 2**places A sinh((n + 1/2)/A)/sigma."""
        u = Fraction(2 * n + 1, 2) / self.shape
        p = places + 2 * (u.numerator // u.denominator) + 8
        low, high = exp_neg(u.numerator, u.denominator, p)  # low > 0, as u < p/2
        factor = self.shape / (2 * self.sigma) * (1 << places)

        def scaled(v: int) -> int:  # (1/v - v)/2 falls as v = exp(-u) rises
            value = factor * (Fraction(1 << p, v) - Fraction(v, 1 << p))
            return value.numerator // value.denominator

        return scaled(high), scaled(low) + 1


def normal_below(low: int, high: int, places: int, bits: int) -> tuple[int, int]:
    """Enclose 2**bits Phi(t) for a t >= 0 between low and high in units of 2**-places.

    docs/proofs/sinh_normal.md, section 2.
    """
    if low * low >= bits << (2 * places + 1):
        return (1 << bits) - 1, 1 << bits  # 1 - Phi(t) <= exp(-t**2/2)/2 < 2**-bits
    p = max(bits, places) + (high * high >> 2 * places) + 40
    pi = _pi(p)
    ends = []
    for t, up in ((low, 0), (high, 1)):
        density = exp_neg(t * t, 2 << 2 * places, p)[up]
        root = math.isqrt((1 << 3 * p) // (2 * pi[1 - up])) + up
        product = density * root * _series(t, places, p, up)
        ends.append((product >> 3 * p - bits) + up)
    half = 1 << bits - 1
    return half + max(ends[0], 0), min(half + ends[1], 1 << bits)


def _series(t: int, places: int, p: int, up: int) -> int:
    """Bound 2**p times the sum of t**(2j+1)/(1 3 5 ... (2j+1)), from above if `up`."""
    square, one = t * t, 1 << 2 * places
    term, total, k = t << p - places, 0, 1
    while term > up or (up and 2 * square > (k + 2) * one):
        total += term
        k += 2
        term = -(-term * square // (one * k)) if up else term * square // (one * k)
    return total + 2 * term * up  # later terms are at most half of the one before


@lru_cache(maxsize=16)
def _pi(bits: int) -> tuple[int, int]:
    """Enclose 2**bits pi, by Machin's formula."""
    guard = bits.bit_length() + 8
    one = 1 << bits + guard

    def arctan(q: int) -> int:  # of 1/q; each of at most `bits` terms errs by 2 units
        term, total, n = one // q, 0, 1
        while term:
            total += term // n if n % 4 == 1 else -(term // n)
            term //= q * q
            n += 2
        return total

    value, error = 16 * arctan(5) - 4 * arctan(239), 40 * (bits + guard)
    return (value - error) >> guard, (value + error >> guard) + 1
