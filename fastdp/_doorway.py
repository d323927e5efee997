"""What looks like data becomes an array, and what comes out has the kind that went in.

One-dimensional columns: pandas Series and Index, polars Series, pyarrow Array and
ChunkedArray, whatever else speaks Arrow's capsule protocol, lists and tuples. Kinds,
dtypes and the types of a list's elements are public; no element shows in an error.
Libraries are only looked up where they are loaded: what is no array of theirs is none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrow
from fastdp.exceptions import DTypeError

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Gives an array of results the kind of the input.
Leave: TypeAlias = Callable[[_Array], Any]

_INT64 = np.iinfo(np.int64)

#: Ints beyond this count as this among real numbers: farther out the nearest doubles
#: of two ints can lie further apart than they.
_EXACT_DOUBLE = 2**53

_WHOLE = {int, *(np.dtype(c).type for c in "bBhHiIlq")}
_REAL = _WHOLE | {float, np.float64, np.float32}
_TRUTH = {bool, np.bool_}


#: What is seen to be none at once: scalars must not pay for columns.
_SCALARS = {int, float, bool, str, np.int64, np.float64, np.float32, np.ndarray}


def is_data(x: object) -> bool:
    """Tell whether `x` is a column, not an array and not a scalar."""
    return type(x) not in _SCALARS and (
        isinstance(x, (list, tuple))
        or _arrow.is_column(x)
        or _of(x, "pandas", "Series", "Index", "DataFrame")
        or _of(x, "polars", "LazyFrame")
    )


def enter(
    name: str, x: Any, *, real: bool = False, truth: bool = False, null: float = 0
) -> tuple[_Array, Leave]:
    """Return a column as an array, and what gives results the column's kind.

    Parameters
    ----------
    name : str
        The argument, for messages.
    x : list, tuple, Series, Index or Arrow array
        What `is_data` takes.
    real, truth : bool
        Whether floats are wanted, not integers; whether bools are taken as well.
    null : int or float
        What a null counts as: one constant for all. Below 0 for categories, where it
        is outside every domain.

    Raises
    ------
    DTypeError
        Elements of another type; more than one dimension.
    """
    if isinstance(x, (list, tuple)):
        leave: Leave = _to_tuple if isinstance(x, tuple) else _to_list
        return _listed(name, x, real, truth), leave
    if _of(x, "pandas", "Series", "Index"):
        return _from_pandas(name, x, null), _to_pandas(x)
    if _of(x, "polars", "LazyFrame"):
        raise DTypeError(f"{name} must be evaluated, a LazyFrame is a plan: collect it")
    if _of(x, "pandas", "DataFrame"):
        raise DTypeError(f"{name} must be {_arrow.RULE}; {_arrow.line_for_table(null)}")
    # Of categories a null is -1, which unsigned integers and bools do not hold.
    wide = np.int64 if null < 0 and not real else None
    return _arrow.column(name, x, null, wide), _to_kind(x)


def _of(x: object, library: str, *names: str) -> bool:
    """Tell whether `x` is an instance of a library's classes, without importing it."""
    module = sys.modules.get(library)
    if module is None:
        return False
    return isinstance(x, tuple(getattr(module, name) for name in names))


# ---- lists ---------------------------------------------------------------------------


def _to_list(results: _Array) -> list[Any]:
    listed: list[Any] = results.tolist()
    return listed


def _to_tuple(results: _Array) -> tuple[Any, ...]:
    return tuple(results.tolist())


def _listed(name: str, x: Any, real: bool, truth: bool) -> _Array:
    """Return a list of Python's or numpy's numbers as an array, saturated."""
    items = tuple(x)  # what is checked is what is read
    kinds = set(map(type, items))
    if truth and kinds and kinds <= _TRUTH:
        return np.array(items, np.bool_)
    if not kinds <= (_REAL if real else _WHOLE):
        wanted = "numbers" if real else "ints"
        shown = sorted(kind.__name__ for kind in kinds)
        raise DTypeError(
            f"{name} must be a list of {wanted}, one-dimensional; got elements of "
            f"type {', '.join(shown[:5])}"
        )
    if not real:
        try:
            return np.array(items, np.int64)
        except OverflowError:
            held = [min(max(int(item), _INT64.min), _INT64.max) for item in items]
            return np.array(held, np.int64)
    if kinds & _WHOLE:
        items = tuple(_as_double(item) for item in items)
    return np.array(items, np.float32 if kinds == {np.float32} else np.float64)


def _as_double(item: Any) -> Any:
    """Return a number for a double; of ints only those that it holds without gaps."""
    if type(item) in _WHOLE:
        return float(min(max(int(item), -_EXACT_DOUBLE), _EXACT_DOUBLE))
    return item


# ---- pandas --------------------------------------------------------------------------


def _from_pandas(name: str, x: Any, null: float) -> _Array:
    dtype = x.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind in "iufb":
            return np.asarray(x.to_numpy())
    else:
        # Masked and Arrow's: nulls become the constant, and nothing goes by floats.
        plain = getattr(dtype, "numpy_dtype", np.dtype(object))
        if isinstance(plain, np.dtype) and plain.kind in "iufb":
            if null < 0 and plain.kind in "ub" and plain.itemsize < 8:
                plain = np.dtype(np.int64)
            return np.asarray(x.to_numpy(dtype=plain, na_value=plain.type(null)))
    raise DTypeError(
        f"{name} must be a column of integers, floats or bools, got dtype {dtype}"
    )


def _to_pandas(x: Any) -> Leave:
    pd = sys.modules["pandas"]

    def leave(results: _Array) -> Any:
        if results.ndim != 1 or results.dtype.names is not None:
            return results
        if isinstance(x, pd.Index):
            return pd.Index(results, name=x.name)
        return pd.Series(results, index=x.index, name=x.name, copy=False)

    return leave


# ---- polars and pyarrow --------------------------------------------------------------


def _to_kind(x: Any) -> Leave:
    """Return what makes a column of the library of `x`; of others, arrays."""

    def leave(results: _Array) -> Any:
        if results.ndim != 1 or results.dtype.names is not None:
            return results
        if _of(x, "polars", "Series"):
            return type(x)(x.name, results)
        if _of(x, "pyarrow", "Array"):
            return sys.modules["pyarrow"].array(results)
        if _of(x, "pyarrow", "ChunkedArray"):
            return sys.modules["pyarrow"].chunked_array([results])
        return results

    return leave
