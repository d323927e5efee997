"""Functions that draw: exact discrete noise and uniform integers.

Every call takes a fresh 256-bit key from the operating system, expands it with
AES-256 in counter mode or ChaCha20, and wipes it. There is no seed and no state.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from fastdp import _arrays, _core, _laws, _public, _selection, _validate
from fastdp._stream import Stream, check_stream
from fastdp._uniform import allocate, bytes, integers, permutation, shuffle
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

#: Maximum number of distinct laws in one call with a parameter array.
MAX_DISTINCT = 65536
_Law = TypeVar("_Law", _core.Sampler, _core.Bernoulli)


# --- noise ----------------------------------------------------------------------


@_core.zero_on_failure
def discrete_laplace(
    scale: Real | _Array,
    *,
    size: _arrays.Size = None,
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
        None draws a fresh key from the operating system. Use
        `fastdp.testing.FixedStream` for repeatable tests.
    workers : int
        Threads; the output of a fixed stream does not depend on it.

    Returns
    -------
    numpy.int64 or ndarray of int64
        `out` if it was given.

    Raises
    ------
    DTypeError, ParameterError
        A parameter is refused; `stream` must not be a seed or a generator.
    EntropyError
        The operating system returned no randomness; `out` is filled with zeros.

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
    size: _arrays.Size = None,
    out: _Array | None = None,
    stream: Stream | None = None,
    workers: int = 1,
) -> Any:
    """Draw from the discrete Gaussian, P(x) proportional to exp(-x^2/(2 sigma^2)).

    Parameters
    ----------
    sigma : int, float, Fraction, Decimal or array of them
        In [1e-3, 2**55], taken at its exact value: the parameter of the law, which
        is its standard deviation unless sigma is below about 1. An array gives each
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
    """A family of laws with one parameter; a cache keeps laws of ints and floats."""

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


_LAPLACE = _Family(
    "scale", lambda name, s: _laws.laplace_sampler(_validate.positive(name, s))
)
_GAUSSIAN = _Family(
    "sigma", lambda name, s: _laws.gaussian_sampler(_validate.positive(name, s))
)
_BITS = _Family(
    "p",
    lambda name, p: _laws.bernoulli_law(
        _validate.between(name, p, Fraction(0), Fraction(1))
    ),
)


def _noise(
    family: _Family[_core.Sampler],
    parameter: Any,
    size: _arrays.Size,
    out: _Array | None,
    stream: Stream | None,
    workers: int,
) -> Any:
    if stream is not None:
        check_stream(stream)
    if isinstance(parameter, np.ndarray):
        return _noise_each(family, parameter, size, out, stream, workers)
    law = family.law(parameter)
    if size is None and out is None:
        if workers is not ONE:
            _validate.integer("workers", workers, 1)
        return _core.fill_one(law, 0, stream)
    return _arrays.fill(law, None, _result(size, out), stream, workers)


def _result(size: _arrays.Size, out: _Array | None) -> _Array | tuple[int, ...]:
    """Return `out`, checked against `size`, or the shape of a new array."""
    if size is None and _core.plain(out, False, True):
        return out  # the fast path
    if out is None:
        return _arrays.shape_of(size)
    if not isinstance(out, np.ndarray):
        raise DTypeError(f"out must be an ndarray, got {type(out).__name__}")
    shape = out.shape if size is None else _arrays.shape_of(size)
    return _arrays.output(out, shape, None)


def _noise_each(
    family: _Family[_core.Sampler],
    parameters: _Array,
    size: _arrays.Size,
    out: _Array | None,
    stream: Stream | None,
    workers: int,
) -> _Array:
    """Draw each element from its own law, with one call for each distinct parameter."""
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
    distinct, index = np.unique(each, return_inverse=True)
    values = distinct.tolist()
    if len(values) > MAX_DISTINCT:
        raise ParameterError(
            f"{name} must have at most {MAX_DISTINCT} distinct values, "
            f"got {len(values)}"
        )
    for value in values[:1] + values[-1:]:  # in order, NaN last: all others lie between
        family.law(value)  # refuse values out of range before anything is drawn
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
    size: _arrays.Size = None,
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
        Pack eight bits into a byte along the last axis, the first in the highest bit,
        as `numpy.packbits` does; bits beyond `size` are 0. If the last axis is a
        multiple of 8, `packed=False` with the same stream draws the same bits.
    out : ndarray, optional
        C-contiguous array to write into: bool or uint8, or only uint8 with `packed`.
        With `packed` and no `size`, all bits of the array are drawn.
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
    Exact: each bit compares the binary digits of a uniform real number with the digits
    of `p` until they differ. Timing class T2: independent of the bits drawn.

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
    shape = getattr(out, "shape", ()) if size is None else _arrays.shape_of(size)
    if out is None:
        out = np.zeros(shape, np.bool_)
    else:
        octets = getattr(out, "dtype", None) == np.uint8
        dtype = np.dtype(np.uint8 if octets else np.bool_)
        out = _arrays.output(out, shape, dtype)
    flat = _core.flat(out)

    def part(start: int, stop: int, chunk: int) -> None:
        _core.flip_bytes(call, law, None, flat[start:stop], -1, chunk)

    with _core.Call(stream, out) as call:
        _arrays.in_parallel(part, flat.size, _core.BITS_CHUNK, workers)
    return out[()] if scalar else out


def _packed_bits(
    law: _core.Bernoulli,
    size: _arrays.Size,
    out: _Array | None,
    stream: Stream | None,
    workers: int,
) -> _Array:
    """Draw rows of packed bits, including the padding bits of each row's last byte."""
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
    rows = (*shape[:-1], -(-columns // 8))
    octets = np.dtype(np.uint8)
    out = np.zeros(rows, octets) if out is None else _arrays.output(out, rows, octets)
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
        Used at their exact values. NaN and -infinity count as weight 0, +infinity as
        the largest double. If no candidate has any weight, the choice is uniform.
    scale : int, float, Fraction or Decimal
        Scale of the noise, in [2**-900, 2**900].
    axis : int
        Axis of the candidates; every slice along this axis gives one index.
    stream, workers
        As in `discrete_laplace`.

    Returns
    -------
    numpy.int64 or ndarray of int64
        The shape is that of `scores` without `axis`.

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `discrete_laplace`; also raised if there is no candidate.

    Privacy
    -------
    For scores of sensitivity s each, under any neighboring relation: pure epsilon =
    2 s/scale (`fastdp.ExponentialMechanism`). Exact: the index is drawn directly from
    the law of the exponential mechanism. Timing class T2.

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
    """Draw the index of the earliest exponential arrival: P(i) ~ weights[i].

    Parameters
    ----------
    weights : array or nested sequence of int, float, Fraction or Decimal
        >= 0 and finite, used at their exact values; if all are 0 the choice is uniform.
    axis, stream, workers
        As in `gumbel_argmax`.

    Returns
    -------
    numpy.int64 or ndarray of int64
        The shape is that of `weights` without `axis`.

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `gumbel_argmax`; also raised for a weight that is negative or not finite.

    Privacy
    -------
    None by itself. Exact. Timing class T2, except for the conversion of weights that
    are Python objects.

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


_public.show(globals())
