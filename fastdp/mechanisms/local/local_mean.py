"""Local means: each user reports a code of a finite family."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _doorway, _validate
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import RandomizedResponseEvent, SelfComposedEvent
from fastdp.exceptions import CalibrationError, ParameterError
from fastdp.mechanisms.local import _probabilities
from fastdp.mechanisms.local._base import least_dtype
from fastdp.mechanisms.local._numbers import (
    MOST_NUMBERS,
    checked_bounds,
    checked_members,
    drawn_places,
    numbers_of,
)
from fastdp.mechanisms.local._release import ReportsOnce
from fastdp.mechanisms.local._windows import (
    MOST_RATIO,
    Member,
    Windows,
    best_members,
)
from fastdp.mechanisms.local.estimates import MeanEstimate

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Public bounds of one number, or a pair for each number of a user.
Bounds: TypeAlias = "tuple[Real, Real] | Sequence[tuple[Real, Real]]"

#: By default, a user with several numbers reports one of them per this much epsilon.
_EACH = Fraction(5, 2)


class LocalMean(ReportsOnce[MeanEstimate]):
    """Mean of bounded numbers, one or several per user: pure local privacy.

    A number is rounded at random to one of a few places, and each place has a window of
    codes. The report is a code: each code in the window is `ratio` times as likely as a
    code outside. Two codes give the bit of Duchi, Jordan and Wainwright; many codes
    approach the piecewise mechanism of Wang et al.; some laws between them are better
    than both and than their hybrid. A law may be a public mixture of two members of the
    family; the code then shows which member was drawn.

    Parameters
    ----------
    ratio : int, float, Fraction or Decimal
        Largest ratio of the probabilities of a code for two numbers, > 1: e**epsilon.
        Each code has a whole number of 2**64 words, rounded so that the ratio holds.
    bounds : (low, high), or a sequence of such pairs
        Public bounds; with `dimension`, also one pair for each number. Numbers outside
        count as the nearest bound, NaN as the lower bound.
    members : tuple of one or two (codes, window)
        2 ... 128 codes, and a window of 1 ... codes - 1 codes.
    share : int, float, Fraction or Decimal
        Probability of the first of two members, > 0 and < 1; 1 if there is one member.
    dimension : int, optional
        How many numbers each user has; None: one number, and arrays of any shape.
    asked : int
        How many of the numbers each user reports; public randomness selects them.

    Privacy
    -------
    Pure local epsilon = ln(ratio) for each reported number, and asked ln(ratio) for a
    user: any two values of one user are neighboring, in all their numbers, and no
    sensitivity is needed. Exact: the probabilities are whole numbers of 2**64. Timing
    class T2; with `dimension` T0.

    Notes
    -----
    A report is one byte, the code: 0 ... M - 1 for the first member with M codes, M and
    above for the second member; a larger code is invalid. With `dimension` a report is
    a row of bytes. If every number is reported, the row is the codes in order.
    Otherwise it holds the ascending places of the reported numbers, each an unsigned
    integer of 1, 2 or 4 bytes (the least that holds dimension - 1), lowest byte first,
    and then their codes.

    References
    ----------
    Duchi, Jordan, Wainwright, "Minimax optimal procedures for locally private
    estimation", JASA 2018; Wang et al., "Collecting and analyzing multidimensional
    data with local differential privacy", ICDE 2019 (piecewise, hybrid, sampling of
    several numbers).

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.LocalMean.from_epsilon(2, bounds=(0, 100))
    >>> m.members, m.epsilon()
    (((3, 1), (22, 8)), 2.0)
    >>> reports = m.release(np.array([18.0, 70.5, 33.0]))
    >>> reports.dtype, reports.shape
    (dtype('uint8'), (3,))
    >>> low, high = m.estimate(reports).confidence_interval(0.95)
    >>> round(m.standard_error(users=10_000), 3)
    0.496
    """

    __slots__ = ("_asked", "_dimension", "_high", "_law", "_low", "_windows")

    _asked: int
    _dimension: int | None
    _high: tuple[Fraction, ...]
    _law: _core.Numbers
    _low: tuple[Fraction, ...]
    _windows: Windows

    def __init__(
        self,
        ratio: Real,
        *,
        bounds: tuple[Real, Real] | Sequence[tuple[Real, Real]],
        members: Sequence[Member] = ((2, 1),),
        share: Real = 1,
        dimension: int | None = None,
        asked: int = 1,
    ) -> None:
        exact = _validate.exact("ratio", ratio)
        if exact <= 1:
            raise ParameterError(f"ratio must be above 1, got {ratio!r}")
        listed = checked_members(members)
        part = _validate.between("share", share, Fraction(0), Fraction(1))
        if (part == 1) is not (len(listed) == 1) or part == 0:
            raise ParameterError(
                "share must be 1 for one member, and between 0 and 1 for two"
            )
        if dimension is not None:
            dimension = _validate.integer("dimension", dimension, 1, MOST_NUMBERS)
        asked = _validate.integer("asked", asked, 1, dimension or 1)
        pairs = checked_bounds(bounds, dimension)
        windows = Windows(exact, listed, part)
        unit = (Fraction(0), Fraction(1))
        shown = [(_validate.plain(a), _validate.plain(b)) for a, b in pairs]
        self._freeze(
            _arguments=(
                ("ratio", _validate.plain(exact)),
                ("bounds", shown[0] if len(shown) == 1 else tuple(shown)),
                ("members", listed),
                ("share", _validate.plain(part)),
                ("dimension", dimension),
                ("asked", asked),
            ),
            _asked=asked,
            _dimension=dimension,
            _low=tuple(a for a, _ in pairs),
            _high=tuple(b for _, b in pairs),
            _windows=windows,
            _law=windows.prepared(*(pairs[0] if dimension is None else unit)),
            _report_dtype=np.dtype(np.uint8),
            _row=() if dimension is None else (self._width(dimension, asked),),
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        bounds: tuple[Real, Real] | Sequence[tuple[Real, Real]],
        dimension: int | None = None,
        asked: int | None = None,
    ) -> LocalMean:
        """Return the mechanism with the least worst variance within `epsilon`.

        It is one member with at most 64 codes. It is a mixture of two members (one with
        2 or 3 codes, or the best single member) if that gains 1 % or more.

        Parameters
        ----------
        epsilon : int, float, Fraction or Decimal
            Epsilon of all reports of a user together, > 0.
        bounds, dimension
            As for the class.
        asked : int, optional
            How many numbers each user reports, with epsilon/asked for each. None: one
            number per 2.5 of epsilon, at least 1.

        Raises
        ------
        DTypeError, ParameterError
            A parameter has a wrong type or is out of its domain.
        CalibrationError
            `epsilon` is so small that only a useless ratio meets it.
        """
        exact = _validate.positive("epsilon", _validate.least_reading(epsilon))
        most = 1 if dimension is None else dimension
        most = _validate.integer("dimension", most, 1, MOST_NUMBERS)
        if asked is None:
            asked = max(1, min(most, int(exact / _EACH)))
        asked = _validate.integer("asked", asked, 1, most)
        # The event's epsilons are rounded up: with several numbers leave room for that.
        each = exact if asked == 1 else exact / asked * (1 - Fraction(1, 2**50))
        ratio = _probabilities.ratio_of(each, MOST_RATIO)
        if ratio <= 1 + Fraction(1, 2**60):
            raise CalibrationError(
                f"epsilon must be large enough for a ratio above 1, got {epsilon!r}"
            )
        members, share = best_members(ratio)
        return cls(
            ratio,
            bounds=bounds,
            members=members,
            share=share,
            dimension=dimension,
            asked=asked,
        )

    @property
    def bounds(self) -> Any:
        """Public bounds of the numbers, exact."""
        return dict(self._arguments)["bounds"]

    @property
    def members(self) -> tuple[Member, ...]:
        """The number of codes and the window of each member of the law."""
        return self._windows.members

    @property
    def share(self) -> Fraction:
        """Probability of the first member."""
        return self._windows.share

    @property
    def dimension(self) -> int | None:
        """How many numbers each user has; None: one, in an array of any shape."""
        return self._dimension

    @property
    def asked(self) -> int:
        """How many of the numbers each user reports."""
        return self._asked

    @property
    def _value(self) -> int:
        return 0 if self._dimension is None else 1

    def event(self) -> RandomizedResponseEvent | SelfComposedEvent:
        """Return the event of one user's report."""
        moved, quotient = self._windows.moved, self._windows.quotient
        one = RandomizedResponseEvent(p=moved, q=moved / quotient)
        return one if self._asked == 1 else SelfComposedEvent(one, self._asked)

    def variance(self, value: Real | None = None) -> Any:
        """Return the variance of the number decoded from one report.

        Parameters
        ----------
        value : int, float, Fraction or Decimal, optional
            The user's number (the same for each of several); None: the worst case.

        Returns
        -------
        float, or with `dimension` ndarray of float64, shape (dimension,)
            In the square of the data's unit.
        """
        half = self._half
        if value is None:
            return self._shaped(half**2 * self._windows.worst_variance)
        exact = _validate.exact("value", value)
        pairs = zip(self._low, self._high, strict=True)
        t = [min(max(2 * (exact - a) / (b - a) - 1, -1), 1) for a, b in pairs]
        return self._shaped(half**2 * self._windows.variance(np.array(t, float)))

    def standard_error(self, users: int, *, value: Real | None = None) -> Any:
        """Return the standard error of the later estimated mean.

        Parameters
        ----------
        users : int
            Number of reports, >= 1.
        value : int, float, Fraction or Decimal, optional
            A number that all users have; None: the worst case.

        Returns
        -------
        float, or with `dimension` ndarray of float64, shape (dimension,)
            In the data's unit. If users report only some of several numbers, it also
            includes the variation from choosing which users report which number.
        """
        users = _validate.integer("users", users, 1)
        part = self._asked / (self._dimension or 1)
        if value is not None or part == 1:
            found = np.sqrt(np.asarray(self.variance(value)) / (users * part))
        else:
            t = np.linspace(-1, 1, 1025)
            spread = self._windows.variance(t) + (1 - part) * t**2
            found = self._half * np.sqrt(spread.max() / (users * part))
        return self._shaped(found)

    # --- release ------------------------------------------------------------------

    def _release(
        self, values: Any, out: _Array | None, stream: Stream | None, workers: int
    ) -> Any:
        if self._dimension is None and _doorway.is_data(values):
            column = _doorway.records("values", values)
            leave = _doorway.keep_kind(values)
            reports = self._release(column, out, stream, workers)
            return leave(reports) if out is None else reports
        numbers = numbers_of(values, self._dimension)
        dtype, draw = self._report_dtype, self._draw
        if self._dimension is not None:
            draw = self._draw_rows
        return self._run(values, numbers, dtype, draw, out, stream, workers)

    def _draw(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        _arrays.draw(self._answer, x, reports, stream, _core.NUMBERS_CHUNK, workers)

    def _answer(
        self, source: _arrays.Source, x: _Array, reports: _Array, first: int
    ) -> None:
        _core.number_clients(source, self._law, x, reports, first)

    def _draw_rows(
        self, x: _Array, reports: _Array, stream: Stream | None, workers: int
    ) -> None:
        # The places are published, so their key is separate from the secret one.
        with _core.Call(stream) as public, _core.Call(stream, reports) as secret:
            block = _core.NUMBERS_CHUNK  # the codes of so many users are whole chunks

            def part(start: int, stop: int, chunk: int) -> None:
                for low in range(start, stop, block):
                    high, first = min(low + block, stop), low // block * self._asked
                    users = x[low:high], reports[low:high]
                    self._draw_block(public, secret, *users, first)

            _arrays.in_parallel(part, len(x), block, workers)

    def _draw_block(
        self,
        public: _core.Call,
        secret: _core.Call,
        x: _Array,
        reports: _Array,
        first: int,
    ) -> None:
        """Draw the rows of some users, from chunk `first` on."""
        assert self._dimension is not None
        places = drawn_places(public, len(x), self._dimension, self._asked, first)
        with np.errstate(all="ignore"):  # a signaling NaN would warn
            taken = np.take_along_axis(x, places, axis=1).astype(np.float64)
        low, high = np.array(self._low, float), np.array(self._high, float)
        try:
            with np.errstate(all="ignore"):
                which = places if len(low) > 1 else np.zeros_like(places)
                taken -= low[which]
                taken *= (1 / (high - low))[which]
            codes = np.zeros(places.shape, np.uint8)
            _core.number_clients(
                secret, self._law, taken.reshape(-1), codes.reshape(-1), first
            )
        finally:
            _core.zero(taken)
        if self._asked < self._dimension:
            kind = least_dtype(self._dimension - 1).newbyteorder("<")
            shown = np.ascontiguousarray(places.astype(kind)).view(np.uint8)
            reports[:, : shown.shape[1]] = shown
        reports[:, -self._asked :] = codes

    # --- estimate -----------------------------------------------------------------

    @property
    def _tally_size(self) -> int:
        return self._windows.codes * (self._dimension or 1)

    def _count(self, reports: _Array, tally: _Array) -> None:
        if self._dimension is None:
            _core.histogram(reports, tally)
            return
        codes, asked = self._windows.codes, self._asked
        places: _Array = np.arange(asked)[None, :]
        if asked < self._dimension:
            kind = least_dtype(self._dimension - 1).newbyteorder("<")
            shown = np.ascontiguousarray(reports[:, :-asked])
            places = shown.view(kind).astype(np.int64)
        drawn = reports[:, -asked:].astype(np.int64)
        good = (drawn < codes).all(axis=1) & (places < self._dimension).all(axis=1)
        good &= (np.diff(places, axis=1) > 0).all(axis=1)
        cells = (places * codes + drawn)[good]
        tally += np.bincount(cells.reshape(-1), minlength=len(tally))

    def _estimate(self, tally: _Array, users: int) -> MeanEstimate:
        counts = tally.reshape(-1, self._windows.codes).astype(np.float64)
        values = np.array(self._windows.values, float)
        n = counts.sum(axis=1)
        with np.errstate(all="ignore"):
            mean = counts @ values / n
            spread = ((values - mean[:, None]) ** 2 * counts).sum(axis=1) / (n - 1)
            if self._asked == (self._dimension or 1):
                spread = np.fmin(spread, self._windows.worst_variance)
            error = np.sqrt(spread / n)
        pairs = zip(self._low, self._high, strict=True)
        center = np.array([float((a + b) / 2) for a, b in pairs])
        return MeanEstimate(
            self._shaped(center + self._half * mean),
            self._shaped(self._half * error),
            users,
            self,
        )

    @property
    def _half(self) -> _Array:
        """Half the width of the bounds, or of each pair of bounds."""
        pairs = zip(self._low, self._high, strict=True)
        return np.array([float((b - a) / 2) for a, b in pairs])

    def _shaped(self, found: _Array) -> Any:
        """Return one number, or an array if users have several."""
        if self._dimension is None:
            return float(np.asarray(found).reshape(-1)[0])
        return np.broadcast_to(found, (self._dimension,)).copy()

    @staticmethod
    def _width(dimension: int, asked: int) -> int:
        if asked == dimension:
            return asked
        return asked * (least_dtype(dimension - 1).itemsize + 1)
