"""Functions that draw: exact discrete noise and uniform integers.

Every call takes a fresh 256-bit key from the operating system, expands it with
AES-256 in counter mode or ChaCha20, and wipes it. There is no seed and no state.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from fastdp import (
    _arrays,
    _core,
    _laws,
    _selection,
    _validate,
)
from fastdp._stream import Stream, check_stream
from fastdp._validate import ONE, Real
from fastdp.exceptions import DTypeError, ParameterError

__all__ = [
    "allocate",
    "bernoulli",
    "bytes",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential_race",
    "gumbel_argmax",
    "integers",
    "permutation",
    "shuffle",
]

_Array: TypeAlias = "np.ndarray[Any, Any]"
_Size: TypeAlias = "int | tuple[int, ...] | None"

#: Most distinct laws of one call with a parameter array.
MAX_DISTINCT = 65536

_Law = TypeVar("_Law", _core.Sampler, _core.Bernoulli)

_builtin_bytes = bytes
_ndarray = np.ndarray


# --- noise ----------------------------------------------------------------------


@_core.zero_on_failure
def discrete_laplace(
    scale: Real | _Array,
    *,
    size: _Size = None,
    out: _Array | None = None,
    stream: Stream | None = None,
    workers: int = 1,
) -> Any:
    """Draw from the discrete Laplace law, P(x) proportional to exp(-|x|/scale).

    Parameters
    ----------
    scale : int, float, Fraction, Decimal or array of them
        In [1e-6, 2**55], taken at its exact value. An array (float or integer
        dtype) gives each element its own law; at most 65,536 distinct values.
    size : int or tuple of int, optional
        Shape of the result; None gives a scalar, or the shape of `out` or of an
        array `scale`.
    out : ndarray, optional
        Integer array to write into, C-contiguous, of the result's shape. Types
        narrower than int64 saturate.
    stream : Stream, optional
        None draws a fresh key from the operating system. For repeatable tests:
        `fastdp.testing.FixedStream`.
    workers : int
        Threads; the output of a fixed stream does not depend on it.

    Returns
    -------
    numpy.int64 or ndarray of int64
        `out` if it was given.

    Raises
    ------
    DTypeError
        `scale` is not a real number, `stream` is a seed or a generator, or `out`
        has a wrong dtype or layout.
    ParameterError
        `scale`, `size`, `workers` or the shape of `out` breaks its rule.
    EntropyError
        The operating system gave no randomness; `out` is filled with zeros.

    Privacy
    -------
    Added to an integer answer of L1 sensitivity s under any neighboring relation,
    it gives pure epsilon = s/scale. Exact: the law holds to the last bit. Timing
    class T2: independent of the drawn values.

    References
    ----------
    Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy
    mechanisms", STOC 2009 (the law). The sampler: docs/proofs/discrete_laplace.md.

    Examples
    --------
    >>> import fastdp
    >>> fastdp.random.discrete_laplace(10, size=(2, 3)).shape
    (2, 3)
    """
    return _noise(_LAPLACE, scale, size, out, stream, workers)


@_core.zero_on_failure
def discrete_gaussian(
    sigma: Real | _Array,
    *,
    size: _Size = None,
    out: _Array | None = None,
    stream: Stream | None = None,
    workers: int = 1,
) -> Any:
    """Draw from the discrete Gaussian, P(x) proportional to exp(-x^2/(2 sigma^2)).

    Parameters
    ----------
    sigma : int, float, Fraction, Decimal or array of them
        In [1e-3, 2**55], taken at its exact value: the parameter of the law, which
        is its standard deviation but for sigma below about 1. An array gives each
        element its own law; at most 65,536 distinct values.
    size, out, stream, workers
        As in `discrete_laplace`.

    Returns
    -------
    numpy.int64 or ndarray of int64
        `out` if it was given.

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `discrete_laplace`, with `sigma` for `scale`.

    Privacy
    -------
    Added to an integer answer of L2 sensitivity s under any neighboring relation,
    it gives rho = s^2/(2 sigma^2) zero-concentrated privacy. Exact; timing class T2.

    References
    ----------
    Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy",
    NeurIPS 2020 (the law). The sampler: docs/proofs/discrete_gaussian.md.

    Examples
    --------
    >>> import fastdp
    >>> fastdp.random.discrete_gaussian(3, size=4).dtype
    dtype('int64')
    """
    return _noise(_GAUSSIAN, sigma, size, out, stream, workers)


class _Family(Generic[_Law]):
    """The laws of one parameter. Those of ints and floats are kept by value, and found
    before any exact rational is made: equal numbers have one law.
    """

    __slots__ = ("_kept", "_make", "name")

    def __init__(self, name: str, make: Callable[[str, Any], _Law]) -> None:
        self.name = name
        self._make: Callable[[str, Any], _Law] = make
        self._kept: dict[int | float, _Law] = {}

    def law(self, parameter: Any) -> _Law:
        """Return the law of a parameter's value, or refuse it."""
        kind = type(parameter)
        if kind is not int and kind is not float:
            return self._make(self.name, parameter)
        law = self._kept.get(parameter)
        if law is None:
            law = self._make(self.name, parameter)
            if len(self._kept) >= 512:
                self._kept.clear()
            self._kept[parameter] = law
        return law


def _laplace(name: str, scale: Any) -> _core.Sampler:
    return _laws.laplace_sampler(_validate.positive(name, scale))


def _gaussian(name: str, sigma: Any) -> _core.Sampler:
    return _laws.gaussian_sampler(_validate.positive(name, sigma))


def _bits(name: str, p: Any) -> _core.Bernoulli:
    return _laws.bernoulli_law(_validate.between(name, p, Fraction(0), Fraction(1)))


_LAPLACE, _GAUSSIAN = _Family("scale", _laplace), _Family("sigma", _gaussian)
_BITS = _Family("p", _bits)


def _noise(
    family: _Family[_core.Sampler],
    parameter: Any,
    size: _Size,
    out: _Array | None,
    stream: Stream | None,
    workers: int,
) -> Any:
    if stream is not None:
        check_stream(stream)
    if isinstance(parameter, _ndarray):
        return _noise_each(family, parameter, size, out, stream, workers)
    law = family.law(parameter)
    if size is None and out is None:
        if workers is not ONE:
            _validate.integer("workers", workers, 1)
        return _core.fill_one(law, 0, stream)
    return _arrays.fill(law, None, _result(size, out), stream, workers)


def _result(size: _Size, out: _Array | None) -> _Array | tuple[int, ...]:
    """Return `out`, checked against `size`, or the shape of a new array."""
    if size is None and _core.plain(out, False, True):
        return out  # the short way
    if out is None:
        return _arrays.shape_of(size)
    if not isinstance(out, np.ndarray):
        raise DTypeError(f"out must be an ndarray, got {type(out).__name__}")
    return _arrays.output(
        out, out.shape if size is None else _arrays.shape_of(size), None
    )


def _noise_each(
    family: _Family[_core.Sampler],
    parameters: _Array,
    size: _Size,
    out: _Array | None,
    stream: Stream | None,
    workers: int,
) -> _Array:
    """Give each element its own law: one call for each distinct parameter."""
    name = family.name
    if parameters.dtype.kind not in "fiu" or hasattr(parameters, "mask"):
        raise DTypeError(
            f"{name} must be a real number or an array of float or integer dtype, "
            f"got dtype {parameters.dtype}"
        )
    shape = parameters.shape if size is None else _arrays.shape_of(size)
    try:
        each = np.broadcast_to(parameters, shape).reshape(-1)
    except ValueError:
        raise ParameterError(
            f"{name} must broadcast to shape {shape}, got {parameters.shape}"
        ) from None
    values, index = np.unique(each, return_inverse=True)
    if len(values) > MAX_DISTINCT:
        raise ParameterError(
            f"{name} must have at most {MAX_DISTINCT} distinct values, "
            f"got {len(values)}"
        )
    # refuses what is out of range before anything is drawn
    for value in values:
        family.law(value)
    result = np.zeros(shape, np.int64) if out is None else _result(shape, out)
    assert isinstance(result, np.ndarray)
    order = np.argsort(index, kind="stable")
    counts = np.bincount(index, minlength=len(values))
    noise = np.zeros(each.size, result.dtype)
    try:
        start = 0
        for value, count in zip(values, counts, strict=True):
            part = noise[start : start + count]
            _arrays.fill(family.law(value), None, part, stream, workers)
            start += count
        result.reshape(-1)[order] = noise
    finally:
        _core.zero(noise)
    return result


# --- bits -------------------------------------------------------------------------


@_core.zero_on_failure
def bernoulli(
    p: Real,
    *,
    size: _Size = None,
    packed: bool = False,
    out: _Array | None = None,
    stream: Stream | None = None,
    workers: int = 1,
) -> Any:
    """Draw bits that are 1 with probability exactly `p`.

    Parameters
    ----------
    p : int, float, Fraction or Decimal
        In [0, 1], taken at its exact value.
    size : int or tuple of int, optional
        Shape of the result; with `packed`, bits along the last axis. None gives a
        scalar, or the shape of `out`.
    packed : bool
        Eight bits to a byte along the last axis, the first one in the highest bit, as
        `numpy.packbits` does; bits beyond `size` are 0. The bits are those of
        `packed=False` with the same stream where the last axis is a multiple of 8.
    out : ndarray, optional
        C-contiguous array to write into: bool or uint8, or uint8 with `packed`; then,
        without `size`, all its bits are drawn.
    stream, workers
        As in `discrete_laplace`.

    Returns
    -------
    numpy.bool or ndarray of bool
        ndarray of uint8 with `packed`; `out` if it was given.

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `discrete_laplace`, with `p` for `scale`.

    Privacy
    -------
    Exact: a bit compares the binary digits of a uniform real number with those of
    `p`, as many as it takes. Timing class T2: independent of the bits drawn.

    References
    ----------
    docs/proofs/bernoulli.md.

    Examples
    --------
    >>> import fastdp
    >>> fastdp.random.bernoulli(0.25, size=4).dtype
    dtype('bool')
    >>> fastdp.random.bernoulli(0.25, size=(3, 20), packed=True).shape
    (3, 3)
    """
    check_stream(stream)
    law = _BITS.law(p)
    workers = _validate.integer("workers", workers, 1)
    if not isinstance(packed, bool):
        raise DTypeError(f"packed must be a bool, got {type(packed).__name__}")
    if packed:
        return _packed_bits(law, size, out, stream, workers)
    scalar = size is None and out is None
    shape = () if size is None else _arrays.shape_of(size)
    if out is None:
        out = np.zeros(shape, np.bool_)
    elif getattr(out, "dtype", None) == np.uint8:
        out = _arrays.output(out, out.shape if size is None else shape, out.dtype)
    else:
        shape = getattr(out, "shape", ()) if size is None else shape
        out = _arrays.output(out, shape, np.dtype(np.bool_))
    flat = _core.flat(out)

    def part(start: int, stop: int, chunk: int) -> None:
        _core.flip_bytes(call, law, None, flat[start:stop], -1, chunk)

    with _core.Call(stream, out) as call:
        _arrays.in_parallel(part, flat.size, _core.BITS_CHUNK, workers)
    return out[()] if scalar else out


def _packed_bits(
    law: _core.Bernoulli,
    size: _Size,
    out: _Array | None,
    stream: Stream | None,
    workers: int,
) -> _Array:
    """Draw rows of packed bits; all bits of a row's bytes have places in the stream."""
    if size is None:
        if out is None:
            raise ParameterError("packed must come with size or out")
        given = getattr(out, "shape", None) or (0,)
        shape = (*given[:-1], 8 * given[-1])
    else:
        shape = _arrays.shape_of(size)
    if not shape:
        raise ParameterError("size must have a last axis to pack along, got ()")
    columns = shape[-1]
    row_bytes = -(-columns // 8)
    packed_shape = (*shape[:-1], row_bytes)
    if out is None:
        out = np.zeros(packed_shape, np.uint8)
    else:
        out = _arrays.output(out, packed_shape, np.dtype(np.uint8))
    flat = _core.flat(out)

    def part(start: int, stop: int, chunk: int) -> None:
        piece = flat[start:stop]
        _core.flip_bits(call, law, None, piece, 8 * piece.size, chunk)

    with _core.Call(stream, out) as call:
        _arrays.in_parallel(part, flat.size, _core.BITS_CHUNK // 8, workers)
        if columns % 8:
            out[..., -1] &= np.uint8(0xFF00 >> (columns % 8) & 0xFF)
    return out


# --- races ------------------------------------------------------------------------


def gumbel_argmax(
    scores: Any,
    *,
    scale: Real = 1,
    axis: int = -1,
    stream: Stream | None = None,
    workers: int = 1,
) -> Any:
    """Draw the index of the largest score plus Gumbel noise: P(i) ~ exp(score/scale).

    Parameters
    ----------
    scores : ndarray of float64, float32 or integers (not uint64)
        At their exact values. NaN and -infinity count as weight 0, +infinity as the
        largest double; without any weight the choice is uniform.
    scale : int, float, Fraction or Decimal
        Of the noise, in [2**-900, 2**900].
    axis : int
        Axis of the candidates; every slice along it gives one index.
    stream, workers
        As in `discrete_laplace`.

    Returns
    -------
    numpy.int64 or ndarray of int64
        Of the shape of `scores` without `axis`.

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `discrete_laplace`; also without a candidate.

    Privacy
    -------
    For scores of sensitivity s each, under any neighboring relation: pure epsilon =
    2 s/scale (`fastdp.ExponentialMechanism`). Exact: the index alone has the law of
    the exponential mechanism, by which it is drawn. Timing class T2.

    References
    ----------
    Gumbel, "Statistical theory of extreme values", 1954. docs/proofs/selection.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> int(fastdp.random.gumbel_argmax(np.array([0.0, 1000.0, 3.0])))
    1
    """
    check_stream(stream)
    workers = _validate.integer("workers", workers, 1)
    rate = 1 / _validate.between("scale", scale, *_selection.RATES)
    matrix, shape = _selection.scores_of("scores", scores, axis)
    choice = _selection.Choice(rate, matrix)
    return _selection.propose(choice, stream, workers).reshape(shape)[()]


def exponential_race(
    weights: Any,
    *,
    axis: int = -1,
    stream: Stream | None = None,
    workers: int = 1,
) -> Any:
    """Draw the index of the first of exponential arrivals: P(i) ~ weights[i].

    Parameters
    ----------
    weights : array or nested sequence of int, float, Fraction or Decimal
        >= 0, finite, at their exact values; if all are 0 the choice is uniform.
    axis, stream, workers
        As in `gumbel_argmax`.

    Returns
    -------
    numpy.int64 or ndarray of int64
        Of the shape of `weights` without `axis`.

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `gumbel_argmax`; also for a weight below 0 or not finite.

    Privacy
    -------
    None by itself. Exact. Timing class T2, but for the conversion of weights that are
    Python objects.

    References
    ----------
    docs/proofs/selection.md.

    Examples
    --------
    >>> from fractions import Fraction
    >>> import fastdp
    >>> int(fastdp.random.exponential_race([0, Fraction(1, 3), 0]))
    1
    """
    check_stream(stream)
    workers = _validate.integer("workers", workers, 1)
    zeros = np.zeros(np.shape(weights), np.int64)
    matrix, shape = _selection.scores_of("weights", zeros, axis)
    exact = _selection.Weights.of("weights", weights, zeros.shape, axis)
    choice = _selection.Choice(Fraction(1), matrix, exact)
    return _selection.propose(choice, stream, workers).reshape(shape)[()]


# --- uniform ----------------------------------------------------------------------


@_core.zero_on_failure
def integers(
    low: int,
    high: int | None = None,
    *,
    size: _Size = None,
    out: _Array | None = None,
    stream: Stream | None = None,
    workers: int = 1,
) -> Any:
    """Draw exactly uniform integers from low, ..., high - 1.

    Parameters
    ----------
    low, high : int
        -2**63 <= low < high <= 2**63. With one argument the range is 0 ... low - 1.
    size, stream, workers
        As in `discrete_laplace`.
    out : ndarray of int64, optional
        Array to write into.

    Returns
    -------
    numpy.int64 or ndarray of int64

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `discrete_laplace`.

    Privacy
    -------
    Exactly uniform (rejection, no modulo bias) and unpredictable. Timing class T2.

    References
    ----------
    Lemire, "Fast random integer generation in an interval", ACM TOMACS 2019.

    Examples
    --------
    >>> import fastdp
    >>> fastdp.random.integers(1, 7) in range(1, 7)
    True
    """
    check_stream(stream)
    if high is None:
        low, high = 0, low
    low = _validate.integer("low", low, -(2**63), 2**63 - 1)
    high = _validate.integer("high", high, low + 1, 2**63)
    workers = _validate.integer("workers", workers, 1)
    span = (high - low) % 2**64
    scalar = size is None and out is None
    if out is not None:
        shape = getattr(out, "shape", ()) if size is None else _arrays.shape_of(size)
        out = _arrays.output(out, shape, np.dtype(np.int64))
    else:
        out = np.zeros(() if size is None else _arrays.shape_of(size), np.int64)
    flat = _core.flat(out)

    def part(start: int, stop: int, chunk: int) -> None:
        _core.fill_integers(call, low, span, flat[start:stop], chunk)

    with _core.Call(stream, out) as call:
        _arrays.in_parallel(part, flat.size, _core.INTEGERS_CHUNK, workers)
    return out[()] if scalar else out


def bytes(n: int, *, stream: Stream | None = None) -> _builtin_bytes:
    """Return `n` uniformly random bytes.

    Raises
    ------
    DTypeError, ParameterError
        `n` is not an int >= 0, or `stream` is not a stream.
    EntropyError
        The operating system gave no randomness.

    Privacy
    -------
    Keystream of a fresh 256-bit key. Timing class T2.

    Examples
    --------
    >>> import fastdp
    >>> len(fastdp.random.bytes(5))
    5
    """
    n = _validate.integer("n", n, 0, _arrays.MOST)
    with _core.Call(check_stream(stream)) as call:
        result: _builtin_bytes = _core.fill_bytes(call, n)
    return result


def permutation(n: int, *, stream: Stream | None = None) -> _Array:
    """Return an exactly uniform permutation of 0, ..., n - 1.

    Parameters
    ----------
    n : int
        >= 0.
    stream : Stream, optional
        As in `discrete_laplace`.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `bytes`.

    Privacy
    -------
    Every permutation has the same probability. Timing class T0: the memory access
    pattern follows the permutation.

    References
    ----------
    Fisher and Yates 1938; Knuth, "The Art of Computer Programming", vol. 2, 3.4.2.

    Examples
    --------
    >>> import fastdp
    >>> sorted(fastdp.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    check_stream(stream)
    out = np.zeros(_validate.integer("n", n, 0, _arrays.MOST), np.int64)
    with _core.Call(stream, out) as call:
        _core.fill_permutation(call, out)
    return out


def allocate(
    records: int, *, steps: int, selected: int = 1, stream: Stream | None = None
) -> tuple[_Array, _Array]:
    """Give each record `selected` of `steps` steps, exactly uniform, independently.

    The batches of one epoch of training: every record is seen, and no record's steps
    depend on another's. Sizes vary. Make a fresh allocation for each epoch.

    Parameters
    ----------
    records : int
        >= 0; records are numbered from 0.
    steps : int
        In [1, 2**32].
    selected : int
        Distinct steps of each record, in [1, steps]. Every set of as many steps has
        the same probability.
    stream : Stream, optional
        As in `discrete_laplace`.

    Returns
    -------
    order : ndarray of int64, shape (records * selected,)
        Records by steps: step i has `order[starts[i] : starts[i + 1]]`, ascending.
    starts : ndarray of int64, shape (steps + 1,)

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `permutation`.

    Privacy
    -------
    Where a step adds noise to a sum over its batch and divides by a public number
    (not by the batch's size), an epoch is a `RandomAllocationEvent` of the step's
    event, for a record added or removed (docs/proofs/allocation.md). Keep the
    allocation private: neither the records nor the sizes of batches may be shown.
    Timing class T0: the memory access pattern follows the allocation.

    References
    ----------
    Floyd in Bentley, "Programming pearls: a sample of brilliance", CACM 1987 (sets of
    steps).

    Examples
    --------
    >>> import fastdp
    >>> order, starts = fastdp.random.allocate(10, steps=3)
    >>> batches = [order[starts[i] : starts[i + 1]] for i in range(3)]
    >>> sorted(record for batch in batches for record in batch.tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    check_stream(stream)
    records = _validate.integer("records", records, 0, _arrays.MOST)
    steps = _validate.integer("steps", steps, 1, 2**32)
    selected = _validate.integer("selected", selected, 1, steps)
    if records * selected > _arrays.MOST:
        raise ParameterError(f"selected must be at most {_arrays.MOST} // records")
    wide = steps > 2**16
    chosen = np.zeros((records, selected), np.uint32 if wide else np.uint16)
    try:
        for i, last in enumerate(range(steps - selected, steps)):
            drawn = integers(last + 1, size=records, stream=stream)
            taken = (chosen[:, :i] == drawn[:, np.newaxis]).any(axis=1)
            chosen[:, i] = drawn
            chosen[taken, i] = last
            _core.zero(drawn)
        # numpy sorts 16 bits in passes over bytes
        flat = chosen.reshape(-1)
        order = (flat & 0xFFFF).astype(np.uint16).argsort(kind="stable")
        if wide:
            order = order[(flat[order] >> 16).astype(np.uint16).argsort(kind="stable")]
        order //= selected
        starts = np.zeros(steps + 1, np.int64)
        np.cumsum(np.bincount(flat, minlength=steps), out=starts[1:])
    finally:
        _core.zero(chosen)
    return order, starts


@partial(_core.zero_on_failure, name="x")
def shuffle(x: _Array, *, stream: Stream | None = None) -> None:
    """Put the rows of an array in an exactly uniform random order, in place.

    Parameters
    ----------
    x : ndarray
        At least one-dimensional and writeable; moved along its first axis.
    stream : Stream, optional
        As in `discrete_laplace`.

    Raises
    ------
    DTypeError
        `x` is not a writeable array with a first axis, or holds objects.
    EntropyError
        The operating system gave no randomness; `x` is filled with zeros.

    Privacy
    -------
    As `permutation`.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> x = np.arange(5)
    >>> fastdp.random.shuffle(x)
    >>> int(x.sum())
    10
    """
    if not isinstance(x, np.ndarray) or x.ndim == 0 or x.dtype.hasobject:
        raise DTypeError("x must be an ndarray with a first axis and no objects")
    if not x.flags.writeable:
        raise DTypeError("x must be writeable")
    order = permutation(len(x), stream=stream)
    try:
        x[...] = x[order]
    finally:
        _core.zero(order)
