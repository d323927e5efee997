"""Uniform draws of `fastdp.random`: integers, bytes, permutations, batches."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrays, _core, _validate
from fastdp._stream import Stream, check_stream
from fastdp.exceptions import DTypeError, ParameterError

_Array: TypeAlias = "np.ndarray[Any, Any]"

_builtin_bytes = bytes


@_core.zero_on_failure
def integers(
    low: int,
    high: int | None = None,
    *,
    size: _arrays.Size = None,
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
    """Draw `selected` of `steps` steps for each record, uniformly and independently.

    The result is the batches of one epoch of training: every record occurs, and no
    record's steps depend on another's. Batch sizes vary. Make a fresh allocation for
    each epoch.

    Parameters
    ----------
    records : int
        >= 0; records are numbered from 0.
    steps : int
        In [1, 2**32].
    selected : int
        Number of distinct steps of each record, in [1, steps]. All sets of this size
        have the same probability.
    stream : Stream, optional
        As in `discrete_laplace`.

    Returns
    -------
    order : ndarray of int64, shape (records * selected,)
        Records by step: the batch of step i is `order[starts[i] : starts[i + 1]]`,
        ascending.
    starts : ndarray of int64, shape (steps + 1,)

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `permutation`.

    Privacy
    -------
    If a step adds noise to a sum over its batch and divides by a public number (not by
    the batch size), an epoch has the guarantee of a `RandomAllocationEvent` of the
    step's event, for a record added or removed (docs/proofs/allocation.md). Keep the
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
        # numpy sorts 16-bit integers by a radix sort
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
    """Shuffle the rows of an array in place into an exactly uniform random order.

    Parameters
    ----------
    x : ndarray
        At least one-dimensional and writeable; shuffled along its first axis.
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
        raise DTypeError(
            "x must be an ndarray with at least one axis, and not of dtype object"
        )
    if not x.flags.writeable:
        raise DTypeError("x must be writeable")
    order = permutation(len(x), stream=stream)
    try:
        x[...] = x[order]
    finally:
        _core.zero(order)
