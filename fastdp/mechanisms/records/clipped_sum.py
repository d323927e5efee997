"""Sums of clipped rows: a single row changes the sum by at most its bound."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fastdp import _arrays, _core, _doorway, _validate, calibration
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    NeighboringRelation,
    Relation,
    as_relation,
    l2_sensitivity,
)
from fastdp.exceptions import ParameterError
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.noise.integer import DiscreteGaussian, DiscreteLaplace
from fastdp.mechanisms.records import _clipping
from fastdp.mechanisms.records._totals import MOST, Accumulator, group_codes

_A = NeighboringRelation.ADD_OR_REMOVE_ONE
_R = NeighboringRelation.REPLACE_ONE

#: The kernels' names of the norms.
_NORMS = {1: "l1", 2: "l2", "inf": "max"}

#: Minimum number of rows for one worker.
_ROWS = 4096

#: Arguments that determine how many entries one individual can change.
_COUNTED = ("dimension", "blocks", "constant", "rows_per_unit", "blocks_per_unit")


class ClippedSum(Mechanism):
    """Noisy sum of rows (one vector per record) with norms bounded in integers.

    A row outside the ball of `radius` is scaled down to it. Every row is then rounded
    to multiples of the granularity, and its norm is checked in integers: float errors
    never let a row change the sum by more than the bound. Sums are exact, so the result
    does not depend on the order of rows, chunks or threads.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal, optional
        Standard deviation of discrete Gaussian noise, in the data's unit, > 0.
    scale : int, float, Fraction or Decimal, optional
        Scale of discrete Laplace noise. Give exactly one of `sigma` and `scale`.
    radius : int, float, Fraction or Decimal
        Bound on a row's norm, in the data's unit, in [2**-900, 2**900].
    dimension : int
        Entries of a row, in [1, 2**32).
    norm : {1, 2, "inf"}
        L1 is for `scale`, L2 for `sigma`, and "inf" (each entry is clamped) for
        either.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid, a power of two above radius/2**30; None takes a step of at
        most 2**-29 of the noise where the radius allows.
    changed : int, optional
        For norm "inf": number of nonzero entries that a row keeps, from the first on;
        None keeps all.
    blocks : int, optional
        Number of blocks (labels, clusters) with separate sums.
    constant : int, float, Fraction or Decimal, optional
        A multiple of the granularity, put in front of every row and not clipped: with
        1, the first entry of the sum is the noisy number of rows.
    rows_per_unit : int
        Maximum number of rows per individual; `fastdp.bound_contributions` enforces it.
    blocks_per_unit : int, optional
        For `blocks`: maximum number of blocks with rows of one individual, at most
        `rows_per_unit` in each. None: at most `rows_per_unit` rows in all blocks
        together.
    neighboring_relation : NeighboringRelation
        Under `REPLACE_ONE` any other row may replace a row; under `REPLACE_SPECIAL`
        only a row of NaN may, which adds only the constant.

    Privacy
    -------
    The guarantee is `event()`: the discrete law on the grid for the exact integer
    sensitivity under the neighboring relation. With K = floor((radius/g)**2) steps (L2)
    it is sqrt(K) for a row added or removed and 2 sqrt(K) for one replaced; with blocks
    and a constant c, max(sqrt(2) B, 2 sqrt(K)), B**2 = K + (c/g)**2, for one replaced.
    Exact. Each row must be computed from its own record alone: a matrix product over
    all records may round a row differently by its position, and so depend on other
    records. Timing class T0.

    References
    ----------
    Casacuberta, Shoemate, Vadhan, Wagaman, "Widespread underestimation of sensitivity
    in differentially private libraries and how to fix it", CCS 2022 (what goes wrong
    with sums of floats). docs/proofs/sums.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.ClippedSum.from_rho(0.1, radius=1.0, dimension=3)
    >>> m.release(np.zeros((1000, 3))).shape
    (3,)
    >>> m.rho() <= 0.1
    True
    """

    __slots__ = ("_clip", "_constant", "_limit", "_noise", "_parameter", "_step")

    _clip: _core.Clip
    _constant: int  # in steps; 0: none
    _limit: int  # bound of a row's sum of squares (L2) or magnitudes, in steps
    _noise: DiscreteGaussian | DiscreteLaplace  # in steps
    _parameter: Fraction
    _step: Fraction

    def __init__(
        self,
        *,
        sigma: Real | None = None,
        scale: Real | None = None,
        radius: Real,
        dimension: int,
        norm: int | str,
        granularity: Real | None = None,
        changed: int | None = None,
        blocks: int | None = None,
        constant: Real | None = None,
        rows_per_unit: int = 1,
        blocks_per_unit: int | None = None,
        neighboring_relation: Relation = _A,
    ) -> None:
        name, given = _validate.one_of(sigma=sigma, scale=scale)
        parameter = _validate.positive(name, given)
        shape = _clipping.check_shape(
            dimension,
            norm,
            changed,
            blocks,
            rows_per_unit,
            blocks_per_unit,
            neighboring_relation,
        )
        if norm == 1 and name == "sigma":
            raise ParameterError('norm must be 2 or "inf" for sigma, got 1: use scale=')
        if norm == 2 and name == "scale":
            raise ParameterError('norm must be 1 or "inf" for scale, got 2: use sigma=')
        length = _validate.between("radius", radius, *_clipping.RADII)
        step = _clipping.step_of(parameter, length, granularity, constant)
        lead = _clipping.steps_of_constant(constant, step)
        reach = length / step
        most = reach.numerator // reach.denominator
        limit = int(reach * reach) if norm == 2 else most
        noise = (DiscreteGaussian if name == "sigma" else DiscreteLaplace)(
            parameter / step
        )
        self._freeze(
            _arguments=self._not_default(
                **{name: _validate.plain(parameter)},
                radius=_validate.plain(length),
                dimension=shape["dimension"],
                norm=norm,
                granularity=_validate.plain(step),
                changed=shape["changed"],
                blocks=shape["blocks"],
                constant=None if constant is None else _validate.plain(lead * step),
                rows_per_unit=shape["rows_per_unit"],
                blocks_per_unit=shape["blocks_per_unit"],
                neighboring_relation=shape["neighboring_relation"],
            ),
            _clip=_core.Clip(
                shape["dimension"],
                # In one dimension all norms agree, and the maximum norm is a clamp.
                "max" if shape["dimension"] == 1 else _NORMS[norm],
                float(length),
                _clipping.exponent(step),
                float(most),
                limit,
                shape["changed"] or shape["dimension"],
            ),
            _constant=lead,
            _limit=limit,
            _noise=noise,
            _parameter=parameter,
            _step=step,
        )

    @classmethod
    def from_epsilon(
        cls,
        epsilon: Real,
        *,
        radius: Real,
        dimension: int,
        norm: int | str = 1,
        **options: Any,
    ) -> ClippedSum:
        """Return the mechanism with the least Laplace noise for pure `epsilon`.

        `options` are granularity, changed, blocks, constant, rows_per_unit,
        blocks_per_unit and neighboring_relation of the constructor.

        Raises
        ------
        DTypeError, ParameterError, CalibrationError
            A parameter, or the scale that it needs, is out of range.
        """
        moved = _clipping.moved(radius, dimension, norm, squared=False, **options)
        exact = _validate.positive("epsilon", _validate.least_reading(epsilon))
        return cls(
            scale=moved / exact,
            radius=radius,
            dimension=dimension,
            norm=norm,
            **options,
        )

    @classmethod
    def from_rho(
        cls,
        rho: Real,
        *,
        radius: Real,
        dimension: int,
        norm: int | str = 2,
        **options: Any,
    ) -> ClippedSum:
        """Return the mechanism with the least Gaussian noise for rho-zCDP, rounded up.

        Options and errors are as in `from_epsilon`.
        """
        square = _clipping.moved(radius, dimension, norm, squared=True, **options)
        sigma = calibration.gaussian_sigma_from_rho(
            rho=rho, sensitivity=l2_sensitivity(square)
        )
        return cls(
            sigma=sigma, radius=radius, dimension=dimension, norm=norm, **options
        )

    @classmethod
    def from_epsilon_delta(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        radius: Real,
        dimension: int,
        norm: int | str = 2,
        **options: Any,
    ) -> ClippedSum:
        """Return the mechanism with the least Gaussian noise for (epsilon, delta).

        It uses a proved bound on the discrete law on the grid. Options and errors are
        as in `from_epsilon`.
        """
        square = _clipping.moved(radius, dimension, norm, squared=True, **options)
        sigma = calibration.grid_gaussian_sigma(
            epsilon=epsilon,
            delta=delta,
            sensitivity=l2_sensitivity(square),
            coordinates=_clipping.coordinates(dimension, **options),
            granularity=options.get("granularity"),
        )
        return cls(
            sigma=sigma, radius=radius, dimension=dimension, norm=norm, **options
        )

    # ---- what is public ------------------------------------------------------

    @property
    def granularity(self) -> int | float | Fraction:
        """Step of the grid, in the data's unit: a power of two."""
        return _validate.plain(self._step)

    @property
    def std(self) -> float:
        """Standard deviation of the noise on each entry, in the data's unit."""
        return self._noise.std * float(self._step)

    def confidence_interval(self, level: float) -> tuple[float, float]:
        """Return (low, high), which contains the noise on one entry at this level."""
        low, high = self._noise.confidence_interval(level)
        return low * float(self._step), high * float(self._step)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a release."""
        said = dict(self._arguments)
        width = said["dimension"] + ("constant" in said)
        return (width,) if "blocks" not in said else (said["blocks"], width)

    def event(
        self, *, neighboring_relation: Relation | None = None
    ) -> DiscreteGaussianEvent | DiscreteLaplaceEvent:
        """Return the event of one release, in steps of the grid.

        `neighboring_relation` selects a relation other than the mechanism's own.
        """
        said = dict(self._arguments)
        relation = said.get("neighboring_relation", _A)
        if neighboring_relation is not None:
            relation = as_relation(neighboring_relation)
        gaussian = isinstance(self._noise, DiscreteGaussian)
        entry = self._limit**2 if gaussian and said["norm"] != 2 else self._limit
        kept = said.get("changed", said["dimension"]) if said["norm"] == "inf" else 1
        lead = self._constant**2 if gaussian else self._constant
        moved = _clipping.distance(
            Fraction(entry * kept),
            Fraction(lead),
            squared=gaussian,
            blocks="blocks" in said,
            rows=said.get("rows_per_unit", 1),
            each=said.get("blocks_per_unit"),
            relation=relation,
        )
        steps = self._parameter / self._step
        if not gaussian:
            return DiscreteLaplaceEvent(
                sensitivity=moved, scale=steps, neighboring_relation=relation
            )
        options = {**said, "neighboring_relation": relation}
        return DiscreteGaussianEvent(
            sensitivity=l2_sensitivity(moved),
            sigma=steps,
            coordinates=_clipping.coordinates(
                **{key: options[key] for key in _COUNTED if key in options},
                neighboring_relation=relation,
            ),
            neighboring_relation=relation,
        )

    # ---- data ----------------------------------------------------------------

    def release(
        self,
        rows: Any,
        *,
        labels: Any = None,
        stream: Stream | None = None,
        workers: int = 1,
    ) -> Any:
        """Return the noisy sum of the rows.

        Parameters
        ----------
        rows : ndarray of float64 or float32, shape (n, dimension), or table
            Tables are lists of rows, pandas and polars DataFrames, pyarrow Tables and
            RecordBatches; with one dimension also a column. NaN and nulls count as 0,
            infinities as the largest double.
        labels : column of integers, shape (n,)
            For a mechanism with blocks: the block of each row. Rows without a block
            (outside [0, blocks), or null) contribute nothing. Two pandas objects must
            have the same index.
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads.

        Returns
        -------
        ndarray of float64, shape `self.shape`
            In the data's unit: multiples of the granularity, rounded once.

        Raises
        ------
        DTypeError, ParameterError
            A wrong dtype or shape. Never raised for a value of the data.
        EntropyError
            The operating system gave no randomness.

        Privacy
        -------
        The guarantee is `event()`. The number of rows is public under `REPLACE_ONE`
        only, and only for a mechanism without blocks. Timing class T0.
        """
        check_stream(stream)
        return (
            self.accumulator()
            .add(rows, labels=labels, workers=workers)
            .release(stream=stream, workers=workers)
        )

    def accumulator(self) -> SumAccumulator:
        """Return an empty accumulator for rows that arrive in parts."""
        return SumAccumulator(self)

    def clip(self, rows: Any) -> np.ndarray[Any, Any]:
        """Return the integers of each row, in steps; private, for tests and backends.

        Shape (n, dimension), int64, without the constant. Errors are those of
        `release`.
        """
        x = self._rows(rows)
        out = np.zeros(x.shape, np.int64)
        self._clip.rows(x, out)
        return out

    def _rows(self, rows: Any) -> np.ndarray[Any, Any]:
        if _doorway.is_data(rows):
            rows = _doorway.rows("rows", rows)
        x = _arrays.data("rows", rows, real=True)
        dimension = dict(self._arguments)["dimension"]
        if x.ndim != 2 or x.shape[1] != dimension:
            raise ParameterError(
                f"rows must have shape (n, {dimension}), got {x.shape}"
            )
        return x


class SumAccumulator(Accumulator[ClippedSum]):
    """Exact sums of rows, collected for one release of a `ClippedSum`.

    It holds private numbers and shows none. `add` and `merge` return the accumulator;
    parts from chunks, threads or machines can be merged in any order. `release` draws
    the noise once and clears the accumulator. A pickle contains the private sums.
    """

    __slots__ = ()

    def __init__(self, mechanism: ClippedSum) -> None:
        said = dict(getattr(mechanism, "_arguments", ()))
        blocks = said.get("blocks", 1)
        # Shapes of the number of rows, and of their sum.
        shapes = ((blocks, 1), (blocks, said.get("dimension", 1)))
        super().__init__(ClippedSum, mechanism, *shapes)

    def add(self, rows: Any, *, labels: Any = None, workers: int = 1) -> SumAccumulator:
        """Add rows; parameters and errors are those of `ClippedSum.release`."""
        m = self._mechanism
        _doorway.one_index(rows=rows, labels=labels)
        x = m._rows(rows)
        blocks = dict(m._arguments).get("blocks")
        block = group_codes("labels", labels, len(x), blocks, "blocks")

        def part(start: int, stop: int, count: Any, total: Any) -> None:
            own = None if block is None else block[start:stop]
            m._clip.sums(x[start:stop], own, count, total)

        return self._add(part, len(x), _ROWS, workers)

    def release(self, *, stream: Stream | None = None, workers: int = 1) -> Any:
        """Return the noisy sum and clear the accumulator; see `ClippedSum.release`."""
        m = self._mechanism
        check_stream(stream)
        _validate.integer("workers", workers, 1)
        totals = self._exact()
        noisy = m._noise.release(totals, stream=stream, workers=workers)
        _core.zero(totals)
        self._clear()
        return (noisy * float(m._step)).reshape(m.shape)

    def _exact(self, most: int = MOST) -> np.ndarray[Any, Any]:
        """Return the exact sums in steps, clamped, shape (blocks, width): private."""
        rows, sums = self._totals
        totals = sums.clamped(most)
        if lead := self._mechanism._constant:
            first = rows.clamped(most // lead) * lead
            totals = np.concatenate([first, totals], axis=1)
        return totals

    def _taken(self, most: int = MOST) -> np.ndarray[Any, Any]:
        """Return `_exact` as a flat array, and clear the totals: private."""
        totals = self._exact(most)
        self._clear()
        return totals.reshape(-1)
