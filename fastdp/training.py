"""Gradient sums for private training; their privacy does not depend on float sums.

The gradients of one example are clipped together and rounded to a public grid before
they are summed, like rows of `ClippedSum`: the sensitivity is exact, and the noise is
the exact discrete Gaussian on the grid. See docs/training.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _doorway, _public, _validate
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    DiscreteGaussianEvent,
    NeighboringRelation,
    PoissonSampledEvent,
    RandomAllocationEvent,
    Relation,
    as_relation,
    l2_sensitivity,
)
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms import ClippedSum, Mechanism
from fastdp.mechanisms.records import _clipping
from fastdp.mechanisms.records._totals import Accumulator

__all__ = ["GradientAccumulator", "GradientSum"]

_Array: TypeAlias = "np.ndarray[Any, Any]"

_A = NeighboringRelation.ADD_OR_REMOVE_ONE

#: Draw noise for this many entries at a time; the caches hold them.
_PIECE = 2**17

#: Threads take about this many entries at a time, but at least one row.
_ENTRIES = 2**18


class GradientSum(Mechanism):
    """Noisy gradient sum of a batch: one release for all parameters.

    Parameters
    ----------
    sigma : int, float, Fraction or Decimal
        Standard deviation of discrete Gaussian noise on each entry, in the gradients'
        unit, > 0: the sigma of `calculators.dp_sgd` times the radius.
    radius : int, float, Fraction or Decimal, or sequence of them
        Bound on the L2 norm of an example's gradient, in [2**-900, 2**900]: one number
        for all parameters together (flat clipping), or one for each parameter (per
        layer).
    shapes : sequence of tuple of int
        The parameters' shapes; together fewer than 2**32 entries.
    granularity : int, float, Fraction or Decimal, optional
        Step of the grid, a power of two above each radius/2**30; None takes a step of
        at most 2**-29 of the noise where the radii allow.
    neighboring_relation : NeighboringRelation
        Under `REPLACE_ONE` any other example may replace an example; under
        `REPLACE_SPECIAL` only an example with gradient 0 may.

    Raises
    ------
    DTypeError, ParameterError
        A parameter has a wrong type or is out of range, or the numbers of radii and
        shapes differ.

    Privacy
    -------
    The guarantee of `event()`: the exact discrete Gaussian on the grid, for the exact
    integer sensitivity of all parameters together under the neighboring relation. With
    K the sum of floor((radius/g)**2) over the radii, the sensitivity is sqrt(K) steps,
    or 2 sqrt(K) steps if an example is replaced. Exact. An example's gradient must be
    computed only from that example and from what was released before. With batch
    normalization, or a loss that is divided by the batch size, the gradient depends on
    other examples. Timing class T0.

    References
    ----------
    Abadi et al., "Deep learning with differential privacy", CCS 2016. McMahan, Andrew,
    Erlingsson, Chien, Mironov, Papernot, Kairouz, "A general approach to adding
    differential privacy to iterative training procedures", 2018 (bounds per layer).
    docs/proofs/sums.md.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdp.training import GradientSum
    >>> m = GradientSum(sigma=1.1, radius=1.0, shapes=[(4, 3), (3,)])
    >>> weights, bias = m.release([np.ones((32, 4, 3)), np.ones((32, 3))])
    >>> weights.shape, bias.shape
    ((4, 3), (3,))
    """

    __slots__ = ("_groups", "_relation", "_shapes")

    _returns_array: ClassVar[bool] = False  # it returns a list of arrays

    _groups: tuple[tuple[ClippedSum, slice], ...]  # parameters clipped together
    _relation: NeighboringRelation
    _shapes: tuple[tuple[int, ...], ...]

    def __init__(
        self,
        *,
        sigma: Real,
        radius: Real | Sequence[Real],
        shapes: Sequence[Sequence[int]],
        granularity: Real | None = None,
        neighboring_relation: Relation = _A,
    ) -> None:
        exact = _validate.positive("sigma", sigma)
        checked = tuple(
            _shape(f"shapes[{i}]", s) for i, s in enumerate(_listed("shapes", shapes))
        )
        sizes = [math.prod(shape) for shape in checked]
        _validate.integer("the sum of the sizes of shapes", sum(sizes), 1, 2**32 - 1)
        flat = not isinstance(radius, (list, tuple))
        given = [radius] if flat else _listed("radius", radius, len(sizes))
        radii = [_validate.between("radius", r, *_clipping.RADII) for r in given]
        step = _clipping.step_of(exact, max(radii), granularity, None)
        if min(radii) < step:
            raise ParameterError(
                "radius must be at least the granularity, "
                f"{_validate.plain(step)}, because every entry is rounded "
                f"to a multiple of it, got {float(min(radii))!r}"
            )
        plain = [_validate.plain(r) for r in radii]
        places = [slice(i, None if flat else i + 1) for i in range(len(radii))]
        relation = as_relation(neighboring_relation)
        self._freeze(
            _arguments=self._not_default(
                sigma=_validate.plain(exact),
                radius=plain[0] if flat else tuple(plain),
                shapes=checked,
                granularity=_validate.plain(step),
                neighboring_relation=relation,
            ),
            _groups=tuple(
                (
                    ClippedSum(
                        sigma=exact,
                        radius=length,
                        dimension=sum(sizes[which]),
                        norm=2,
                        granularity=step,
                    ),
                    which,
                )
                for length, which in zip(radii, places, strict=True)
            ),
            _relation=relation,
            _shapes=checked,
        )

    @property
    def granularity(self) -> int | float | Fraction:
        """Step of the grid, in the gradients' unit: a power of two."""
        return _validate.plain(self._groups[0][0]._step)

    def event(
        self, *, neighboring_relation: Relation | None = None
    ) -> DiscreteGaussianEvent:
        """Return the event of one release, of all parameters, in steps of the grid.

        `neighboring_relation` selects a relation other than the mechanism's own.
        """
        relation = self._relation
        if neighboring_relation is not None:
            relation = as_relation(neighboring_relation)
        square = Fraction(sum(clipped._limit for clipped, _ in self._groups))
        if relation is NeighboringRelation.REPLACE_ONE:
            square *= 4
        return DiscreteGaussianEvent(
            sensitivity=l2_sensitivity(square),
            sigma=self._groups[0][0]._parameter / self._groups[0][0]._step,
            coordinates=sum(map(math.prod, self._shapes)),
            neighboring_relation=relation,
        )

    def sampled_event(
        self, *, sampling_probability: Real | None = None, steps: int | None = None
    ) -> PoissonSampledEvent | RandomAllocationEvent:
        """Return the event of a step, or an epoch, with randomly drawn batches.

        Parameters
        ----------
        sampling_probability : int, float, Fraction or Decimal, optional
            In [0, 1]: each example joins the step's batch with this probability,
            independently of the others (`fastdp.random.bernoulli`).
        steps : int, optional
            >= 1: each example joins one of this many steps, uniformly and independently
            of the others (`fastdp.random.allocate`); the event covers all of them.

        Raises
        ------
        DTypeError, ParameterError
            Not exactly one of the two is given, one is out of range, or `steps` is
            given for a relation other than `ADD_OR_REMOVE_ONE`.

        Privacy
        -------
        The guarantee holds only for batches drawn as above. Shuffled batches and
        batches of fixed size are not drawn that way.
        """
        name, given = _validate.one_of(
            sampling_probability=sampling_probability, steps=steps
        )
        step = self.event(neighboring_relation=_A)
        if name == "sampling_probability":
            rate = _validate.exact(name, given)
            return PoissonSampledEvent(rate, step, neighboring_relation=self._relation)
        if self._relation is not _A:
            raise ParameterError(
                "neighboring_relation must be ADD_OR_REMOVE_ONE for "
                f"steps=, got {self._relation.name}: the cost of an "
                "allocation is known only for it"
            )
        return RandomAllocationEvent(
            steps=_validate.integer(name, given, 1), event=step, selected=1
        )

    def accumulator(self) -> GradientAccumulator:
        """Return an empty accumulator for a batch that arrives in microbatches."""
        return GradientAccumulator(self)

    @_core.zero_on_failure
    def release(
        self,
        gradients: Any,
        *,
        out: Any = None,
        stream: Stream | None = None,
        workers: int = 1,
    ) -> list[_Array]:
        """Return the noisy gradient sum of a batch, one array per parameter.

        Parameters
        ----------
        gradients : list of arrays of float64 or float32, shapes (n, *shape)
            One array for each parameter, with one row for each example: numpy arrays,
            and objects with DLPack or the buffer protocol. An example with NaN or an
            infinity in its gradient counts as 0.
        out : list of arrays of float64 or float32, optional
            Arrays to write the sums into, one of each parameter's shape: the same kinds
            as `gradients`, C-contiguous and writeable. None makes float64 arrays.
        stream : Stream, optional
            None draws a fresh key from the operating system; use
            `fastdp.testing.FixedStream` for repeatable tests.
        workers : int
            Threads.

        Returns
        -------
        list of ndarray
            `out` as numpy arrays, in the gradients' unit: multiples of the granularity,
            rounded to the array's type.

        Raises
        ------
        DTypeError, ParameterError
            An array has a wrong dtype or shape, the number of arrays is wrong, or the
            host cannot read or write the memory. Never raised for a value of the data.
        EntropyError
            The operating system returned no randomness. As after any failure, numpy
            arrays in `out` hold zeros.

        Privacy
        -------
        The cost is `event()`, or `sampled_event` for a random batch. Divide by a public
        number, not by the size of a random batch. Timing class T0.
        """
        check_stream(stream)
        into = self._outputs(out)
        added = self.accumulator().add(gradients, workers=workers)
        return added.release(out=into, stream=stream, workers=workers)

    def _outputs(self, out: Any) -> list[_Array]:
        """Return the output arrays, as numpy arrays."""
        if out is None:
            return [np.zeros(shape) for shape in self._shapes]
        found = []
        for i, shape in enumerate(self._shapes):
            o = _doorway.shared(f"out[{i}]", _listed("out", out, len(self._shapes))[i])
            single = getattr(o, "dtype", None) == np.float32
            dtype = np.dtype(np.float32 if single else np.float64)
            found.append(_arrays.output(o, shape, dtype, f"out[{i}]"))
        return found

    def _inputs(self, gradients: Any) -> list[_Array]:
        """Return the gradients as arrays of one dtype with shapes (n, size)."""
        given = _listed("gradients", gradients, len(self._shapes))
        found: list[_Array] = []
        for i, (g, shape) in enumerate(zip(given, self._shapes, strict=True)):
            name = f"gradients[{i}]"
            x = _arrays.data(name, _doorway.shared(name, g), real=True)
            n = len(found[0]) if found else x.shape[0] if x.ndim else 0
            if x.shape != (n, *shape):
                wanted = ", ".join(map(str, [n if found else "n", *shape]))
                raise ParameterError(
                    f"{name} must have shape ({wanted}), one row for each example, got "
                    f"{x.shape}"
                )
            found.append(x.reshape(n, math.prod(shape)))
        return [x.astype(np.result_type(*found), copy=False) for x in found]


class GradientAccumulator(Accumulator[GradientSum]):
    """Exact sums of clipped gradients for one later release of a `GradientSum`.

    It holds private numbers and shows none. `add` and `merge` return the accumulator,
    so that microbatches, threads and machines can be combined in any order; `release`
    draws the noise once and clears the sums. A pickle contains the private sums.
    """

    __slots__ = ()

    def __init__(self, mechanism: GradientSum) -> None:
        groups = getattr(mechanism, "_groups", ())
        super().__init__(GradientSum, mechanism, *(m.shape for m, _ in groups))

    def add(self, gradients: Any, *, workers: int = 1) -> GradientAccumulator:
        """Add a microbatch; arguments and errors are those of `GradientSum.release`."""
        m = self._mechanism
        x = m._inputs(gradients)

        def part(start: int, stop: int, *sums: _Array) -> None:
            groups = [
                (clipped._clip, x[which], total)
                for (clipped, which), total in zip(m._groups, sums, strict=True)
            ]
            _core.clip_groups(groups, start, stop - start)

        rows = 1 + _ENTRIES // sum(clipped.shape[0] for clipped, _ in m._groups)
        return self._add(part, len(x[0]), rows, workers)

    @_core.zero_on_failure
    def release(
        self, *, out: Any = None, stream: Stream | None = None, workers: int = 1
    ) -> list[_Array]:
        """Return the noisy sums and clear the accumulator, as `GradientSum.release`."""
        m = self._mechanism
        check_stream(stream)
        _validate.integer("workers", workers, 1)
        into = m._outputs(out)
        for (clipped, which), total in zip(m._groups, self._totals, strict=True):
            for first in range(0, clipped.shape[0], _PIECE):
                noisy = total.clamped(part=slice(first, first + _PIECE))
                clipped._noise.release(noisy, out=noisy, stream=stream, workers=workers)
                _write(noisy, float(clipped._step), into[which], -first)
        self._clear()
        return into


def _write(noisy: _Array, step: float, arrays: list[_Array], at: int) -> None:
    """Write a piece of the sums, starting at entry `at`, into the arrays."""
    for each in arrays:
        low, high = max(at, 0), min(at + each.size, noisy.size)
        if low < high:
            to = each.reshape(-1)[low - at : high - at]
            np.multiply(noisy[low:high], step, out=to, casting="same_kind")
        at += each.size


def _listed(name: str, given: Any, wanted: int | None = None) -> list[Any]:
    """Return a list that has one entry for each parameter."""
    if not isinstance(given, (list, tuple)):
        raise DTypeError(
            f"{name} must be a list, one for each parameter, got {type(given).__name__}"
        )
    if len(given) != wanted if wanted is not None else not given:
        raise ParameterError(
            f"{name} must be one for each of {wanted or 'the'} parameters, got "
            f"{len(given)}"
        )
    return list(given)


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, (list, tuple)):
        raise DTypeError(f"{name} must be a tuple of int, got {type(shape).__name__}")
    return tuple(_validate.integer(name, n, 1, 2**32 - 1) for n in shape)


_public.show(globals())
