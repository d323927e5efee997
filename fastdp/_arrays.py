"""Checks of data and output arrays, and calls of the kernels on them.

The checks read dtype, shape and layout, never an element: nothing here depends on
the values of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from fastdp import _core, _threads, _validate
from fastdp._stream import Stream
from fastdp._validate import ONE
from fastdp.exceptions import DTypeError, ParameterError

#: Step, lower and upper clamping bound, and the number that replaces NaN.
Grid: TypeAlias = "tuple[float, float, float, float]"

#: Shape of the result, as in numpy.
Size: TypeAlias = "int | tuple[int, ...] | None"

#: Source of a call's key: an open call, a fixed stream, or None for a fresh key.
Source: TypeAlias = "_core.Call | Stream | None"

#: Draws; arguments: the source of the key, inputs or None, outputs, first chunk.
Kernel: TypeAlias = "Callable[[Source, Any, np.ndarray[Any, Any], int], None]"

#: Maximum number of elements of an array: numpy can still count its bytes.
MOST = 2**59

_INTEGERS = "an integer array of at most 64 bits (not uint64)"
_REALS = "a float64 or float32 array"


def data(name: str, x: object, *, real: bool) -> np.ndarray[Any, Any]:
    """Return `x` as a C-contiguous array of native byte order, copied if necessary.

    Raises
    ------
    DTypeError
        `x` is not a plain array of numbers of the wanted kind.
    """
    if _core.plain(x, real):
        return x
    rule = _REALS if real else _INTEGERS
    if not isinstance(x, np.ndarray):
        raise DTypeError(f"{name} must be {rule}, got {type(x).__name__}")
    if hasattr(x, "mask"):
        raise DTypeError(
            f"{name} must be {rule}, got {type(x).__name__}: {name}.filled(...) says "
            "what masked elements count as"
        )
    dtype = x.dtype
    native = dtype if dtype.isnative else dtype.newbyteorder("=")
    if native.kind not in ("f" if real else "iu") or not _core.dtype_supported(native):
        raise DTypeError(f"{name} must be {rule}, got dtype {dtype}")
    if dtype.isnative and x.flags.c_contiguous and x.flags.aligned:
        return x
    # An aligned copy; a scalar's shape would become (1,).
    return np.array(x, dtype=native, order="C", copy=True, subok=False)


def output(
    out: object, shape: tuple[int, ...], dtype: np.dtype[Any] | None, name: str = "out"
) -> np.ndarray[Any, Any]:
    """Return `out` if the kernels can write into it; `dtype` None: any integer.

    Raises
    ------
    DTypeError
        `out` is not an array, has a wrong dtype, or is not C-contiguous or not
        writeable.
    ParameterError
        The shape is wrong.
    """
    if dtype is None:
        if _core.plain(out, False, True) and out.shape == shape:
            return out
    elif _core.fits(out, dtype, shape):
        return out
    if not isinstance(out, np.ndarray) or hasattr(out, "mask"):
        raise DTypeError(f"{name} must be an ndarray, got {type(out).__name__}")
    if dtype is None:
        if out.dtype.kind not in "iu" or not _core.dtype_supported(out.dtype):
            raise DTypeError(f"{name} must be {_INTEGERS}, got dtype {out.dtype}")
    elif out.dtype != dtype or not out.dtype.isnative:
        raise DTypeError(f"{name} must have dtype {dtype}, got {out.dtype}")
    if not out.flags.c_contiguous or not out.flags.writeable or not out.flags.aligned:
        raise DTypeError(f"{name} must be C-contiguous, aligned and writeable")
    if out.shape != shape:
        raise ParameterError(f"{name} must have shape {shape}, got {out.shape}")
    return out


def shape_of(size: object) -> tuple[int, ...]:
    """Return numpy's `size` argument, an int or a tuple of ints, as a shape."""
    sizes = size if isinstance(size, tuple) else (size,)
    shape = tuple(_validate.integer("size", n, 0, MOST) for n in sizes)
    if len(shape) > 64 or math.prod(max(n, 1) for n in shape) > MOST:
        raise ParameterError(
            f"size must have at most 64 dimensions and {MOST} elements, "
            f"got {len(shape)} dimensions"
        )
    return shape


def fill(
    sampler: _core.Sampler,
    x: np.ndarray[Any, Any] | None,
    out: np.ndarray[Any, Any] | tuple[int, ...],
    stream: Stream | None,
    workers: int,
    grid: Grid | None = None,
) -> np.ndarray[Any, Any]:
    """Write x + noise into the checked array `out`, or a new array of this shape."""
    if workers is not ONE:
        workers = _validate.integer("workers", workers, 1)
    if x is not None and not isinstance(out, tuple) and _core.share(x, out):
        # A chunk is written before later ones are read, so inputs and outputs must
        # be the same memory or not overlap at all.
        x = x if x is out or same(x, out) else x.copy()
    if workers == 1:
        return _core.fill(stream, sampler, x, out, 0, grid)
    if isinstance(out, tuple):
        out = np.zeros(out, np.int64 if grid is None or x is None else x.dtype)

    def kernel(source: Source, x: Any, out: Any, chunk: int) -> None:
        _core.fill(source, sampler, x, out, chunk, grid)

    of = None if x is None else _core.flat(x)
    draw(kernel, of, _core.flat(out), stream, sampler.chunk_outputs, workers)
    return out


def same(x: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> bool:
    """Return whether two arrays start at the same address and have the same dtype."""
    start, first = (a.__array_interface__["data"][0] for a in (x, out))
    return bool(start == first and x.dtype == out.dtype)


def draw(
    kernel: Kernel,
    x: np.ndarray[Any, Any] | None,
    out: np.ndarray[Any, Any],
    stream: Stream | None,
    chunk: int,
    workers: int,
) -> None:
    """Run a kernel over flat outputs, and inputs if there are any, under one key."""
    if workers == 1:
        kernel(stream, x, out, 0)
        return
    with _core.Call(stream, out) as call:
        in_parallel(partial(_part, kernel, call, x, out), len(out), chunk, workers)


def _part(
    kernel: Kernel,
    call: _core.Call,
    x: Any,
    out: Any,
    start: int,
    stop: int,
    first: int,
) -> None:
    kernel(call, None if x is None else x[start:stop], out[start:stop], first)


def in_parallel(
    part: Callable[[int, int, int], None], n: int, chunk: int, workers: int
) -> None:
    """Run part(start, stop, first_chunk) over n outputs on `workers` threads."""
    if workers == 1 or n <= chunk:  # the fast path, also for scalars
        if n > 0:
            part(0, n, 0)
        return

    def task(start: int, stop: int, first: int) -> Callable[[], None]:
        return lambda: part(start, stop, first)

    _core.run([task(*run) for run in _threads.plan(n, chunk, workers)])
