"""Converts columns of other libraries to arrays, and results back to the same kind.

One-dimensional columns: pandas Series and Index, polars Series, pyarrow Array and
ChunkedArray, other objects with Arrow's capsule protocol, lists and tuples. Arrays of
any shape: memoryviews, and objects with DLPack. Kinds and dtypes are public. In a list
of results (`enter`) the types of the elements are public, too; in a list of records
they are private, so each element is read separately. No element appears in an error.
Libraries are never imported, because no object of an unloaded library can exist.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from fastdp import _arrow
from fastdp.exceptions import DTypeError, ParameterError

_Array: TypeAlias = "np.ndarray[Any, Any]"

#: Converts an array of results to the kind of the input.
Leave: TypeAlias = Callable[[_Array], Any]

_INT64 = np.iinfo(np.int64)

#: DLPack's numbers of devices whose memory the host can read: CPU, pinned memory.
_HOST = (1, 3, 11)

#: Clamp ints to this magnitude when they become doubles: above it, rounding can
#: increase the distance of two ints.
_EXACT_DOUBLE = 2**53

_WHOLE = {int, *(np.dtype(c).type for c in "bBhHiIlq")}
_REAL = _WHOLE | {float, np.float64, np.float32}
_TRUTH = {bool, np.bool_}

#: Types that are quickly seen not to be columns: calls with scalars must stay fast.
_SCALARS = {int, float, bool, str, np.int64, np.float64, np.float32, np.ndarray}

#: Classes with a conversion of their own, by library.
_OWN = {
    "pandas": ("Series", "Index", "DataFrame"),
    "polars": ("Series", "DataFrame", "LazyFrame"),
    "pyarrow": ("Array", "ChunkedArray", "Table", "RecordBatch"),
}


@functools.lru_cache(maxsize=1024)
def _kind_of(type_: type) -> str:
    """Return the kind of a class: "list", "tuple", "pandas.Series" and so on, "arrow",
    "memory" (DLPack or a memoryview), or "" if it is not a column.

    A class exists only if its library is loaded, so the answer never changes.
    """
    if issubclass(type_, (list, tuple)):
        return "tuple" if issubclass(type_, tuple) else "list"
    for library, names in _OWN.items():
        module = sys.modules.get(library)
        for name in names if module is not None else ():
            if issubclass(type_, getattr(module, name)):
                return f"{library}.{name}"
    if _arrow.is_column(type_):
        return "arrow"
    memory = hasattr(type_, "__dlpack__") and not issubclass(type_, np.ndarray)
    return "memory" if memory or issubclass(type_, memoryview) else ""


def _kind(x: object) -> str:
    return _kind_of(type(x))  # type: ignore[arg-type]  # classes are hashable


def shared(name: str, x: Any) -> Any:
    """Return an array on the memory of `x`, or `x` itself without DLPack or buffer.

    Raises
    ------
    DTypeError, ParameterError
        The memory is not in the host, or `x` does not export it.
    """
    if isinstance(x, memoryview):
        return np.asarray(x)
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return x
    device = int(x.__dlpack_device__()[0])
    if device not in _HOST:
        raise ParameterError(
            f"{name} must be in the host's memory, got DLPack's device {device}: "
            "x.cpu() in torch, jax.device_get(x) and cupy.asnumpy(x) copy it there"
        )
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise DTypeError(
            f"{name} must convert to a numpy array by DLPack, which "
            f"raised {type(error).__name__}: in torch, pass "
            "x.detach().float()"
        ) from None


def is_data(x: object) -> bool:
    """Return whether `x` is a column of some library, not a numpy array or a scalar."""
    return type(x) not in _SCALARS and _kind(x) != ""


def holds_objects(x: Any) -> bool:
    """Return whether a column, of numpy or pandas, has dtype object."""
    dtype = getattr(x, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def one_index(**columns: Any) -> None:
    """Refuse pandas columns of one call with different indexes.

    pandas pairs rows by label, arrays pair them by place; the two agree only if all
    indexes are equal. Labels are public.

    Raises
    ------
    ParameterError
        Two Series or DataFrames have different indexes.
    """
    wanted = ("pandas.Series", "pandas.DataFrame")
    names = [name for name, x in columns.items() if is_data(x) and _kind(x) in wanted]
    for name in names[1:]:
        index, first = columns[name].index, columns[names[0]].index
        if index is not first and not index.equals(first):
            raise ParameterError(
                f"{names[0]} and {name} must have the same index: align "
                f"them first, or pass {name}.to_numpy() to match them by "
                "position"
            )


def enter(
    name: str,
    x: Any,
    *,
    real: bool | None = False,
    truth: bool = False,
    labels: bool = False,
    null: float = 0,
) -> tuple[_Array, Leave]:
    """Return a column as an array, and a function from results to the column's kind.

    Parameters
    ----------
    name : str
        The argument, for messages.
    x : list, tuple, Series, Index or Arrow array
        An object that `is_data` accepts.
    real : bool, optional
        Whether floats are wanted rather than integers; None: either, unchanged.
    truth : bool
        Whether bools are also accepted.
    labels : bool
        Whether categories are wanted; a null is then -1, outside every domain.
    null : int or float
        Value of a null otherwise: this constant, or the nearest number that the
        column's type holds.

    Raises
    ------
    DTypeError
        Elements have another type, or there is more than one dimension.
    """
    kind = _kind(x)
    if kind in ("list", "tuple"):
        return _listed(name, x, real, truth), (
            _to_list if kind == "list" else _to_tuple
        )
    if kind == "memory":
        return shared(name, x), lambda results: results
    null = -1 if labels else null
    if kind in ("pandas.Series", "pandas.Index"):
        return _from_pandas(name, x, null), _to_pandas(x, kind)
    if kind == "polars.LazyFrame":
        raise DTypeError(
            f"{name} must be evaluated, got a LazyFrame: call its collect() first"
        )
    if kind == "pandas.DataFrame":
        way_out = _arrow.line_for_table(labels)
        raise DTypeError(f"{name} must be {_arrow.RULE}; {way_out}")
    # Unsigned integers and bools cannot hold a negative `null`.
    wide = np.int64 if null < 0 else None
    return _arrow.column(name, x, null, wide, labels=labels), _to_kind(x, kind)


def keep_kind(x: Any) -> Leave:
    """Return a function from results to the kind of `x`, a column or anything else."""
    kind = _kind(x) if is_data(x) else ""
    if kind in ("list", "tuple"):
        return _to_list if kind == "list" else _to_tuple
    if kind in ("pandas.Series", "pandas.Index"):
        return _to_pandas(x, kind)
    return _to_kind(x, kind)


def records(name: str, x: Any) -> _Array:
    """Return a column of numbers as float64, with NaN where a number is missing.

    Nulls, None and NaN count as missing. Each entry depends only on its own record and
    the column's type. Python objects, in a list or of dtype object, are read one by
    one: numbers, bools and decimals count, and all other objects, including text, are
    missing.

    Parameters
    ----------
    name : str
        The argument, for messages.
    x : ndarray or column, shape (n,)
        Integers, floats, bools or Python objects.

    Raises
    ------
    DTypeError, ParameterError
        The column has another type, or more than one dimension.
    """
    kind = _kind(x)
    values = x
    if kind in ("list", "tuple"):
        values = _listed_records(x)
    elif holds_objects(x) and np.ndim(x) == 1:
        values = _listed_records(x.tolist())
    elif kind in ("pandas.Series", "pandas.Index"):
        values = _from_pandas(name, x, math.nan)
    elif kind in ("polars.Series", "pyarrow.Array", "pyarrow.ChunkedArray", "arrow"):
        values = _arrow.column(name, x, math.nan, np.float64)
    elif kind == "memory":
        values = shared(name, x)
    if isinstance(values, np.ndarray) and hasattr(values, "mask"):
        raise DTypeError(f"{name} must not be masked: remove the masked records first")
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
        raise DTypeError(
            f"{name} must be a column of numbers: a list, an ndarray, or a pandas, "
            "polars or pyarrow column"
        )
    if values.ndim != 1:
        raise ParameterError(f"{name} must have shape (n,), got {values.shape}")
    return values.astype(np.float64, copy=False)


def rows(name: str, x: Any) -> _Array:
    """Return a table of numbers as float64, shape (n, columns), like `records`.

    Parameters
    ----------
    name : str
        The argument, for messages.
    x : list of lists, DataFrame, Table, RecordBatch, or a column
        A column is a table with one column. An object that exports its memory is not
        copied.

    Raises
    ------
    DTypeError, ParameterError
        As in `records`; also raised for rows of different lengths.
    """
    kind = _kind(x)
    if kind in ("list", "tuple") and {*map(type, x)} & {list, tuple}:
        parts = [records(name, row) for row in x]
        if len({*map(len, parts)}) > 1:
            raise ParameterError(f"{name} must have rows of equal length")
        return np.array(parts)
    if kind == "pandas.DataFrame":
        columns = [x.iloc[:, place] for place in range(x.shape[1])]
    elif kind == "polars.DataFrame":
        columns = x.get_columns()
    elif kind in ("pyarrow.Table", "pyarrow.RecordBatch"):
        columns = x.columns
    elif kind == "memory":
        memory: _Array = shared(name, x)
        return memory if memory.ndim == 2 else records(name, memory)[:, np.newaxis]
    else:
        return records(name, x)[:, np.newaxis]
    return np.column_stack([records(name, column) for column in columns])


# ---- lists ---------------------------------------------------------------------------


def _to_list(results: _Array) -> list[Any]:
    listed: list[Any] = results.tolist()
    return listed


def _to_tuple(results: _Array) -> tuple[Any, ...]:
    return tuple(results.tolist())


def _listed(name: str, x: Any, real: bool | None, truth: bool) -> _Array:
    """Return a list of Python or numpy numbers as an array, saturated.

    The numbers are results of a program, not records, so their types are public.
    """
    items = tuple(x)  # check and read the same items
    kinds = set(map(type, items))
    if truth and kinds and kinds <= _TRUTH:
        return np.array(items, np.bool_)
    if real is None:
        real = not kinds <= _WHOLE
    if not kinds <= (_REAL if real else _WHOLE):
        raise _wrong_elements(name, "numbers" if real else "ints", kinds)
    if real:
        return _doubles(items, kinds)
    try:
        return np.array(items, np.int64)
    except OverflowError:
        held = [min(max(int(item), _INT64.min), _INT64.max) for item in items]
        return np.array(held, np.int64)


def _listed_records(x: Any) -> _Array:
    items = tuple(x)
    kinds = set(map(type, items))
    if not kinds <= _REAL | _TRUTH:
        read = {kind: _reader(kind) for kind in kinds}
        items = tuple(read[type(item)](item) for item in items)
    return np.array(_doubles(items, kinds), np.float64)


def _reader(kind: type) -> Callable[[Any], float]:
    """Return the conversion of a type's objects to float; NaN if not a number."""
    if issubclass(kind, (float, np.floating, bool, np.bool_)):
        return float
    if issubclass(kind, (int, np.integer)) and not issubclass(kind, np.timedelta64):
        return lambda item: float(_as_double(int(item)))
    if issubclass(kind, Decimal):
        return lambda item: math.nan if item.is_nan() else float(item)
    return _of_fraction if issubclass(kind, Fraction) else lambda _: math.nan


def _of_fraction(item: Fraction) -> float:
    try:
        return float(item)
    except OverflowError:
        return math.inf if item > 0 else -math.inf


def _doubles(items: tuple[Any, ...], kinds: set[type]) -> _Array:
    if kinds & _WHOLE:
        items = tuple(_as_double(item) for item in items)
    return np.array(items, np.float32 if kinds == {np.float32} else np.float64)


def _wrong_elements(name: str, wanted: str, kinds: set[type]) -> DTypeError:
    shown = sorted(kind.__name__ for kind in kinds)
    return DTypeError(
        f"{name} must be a list of {wanted}, one-dimensional; got elements of "
        f"type {', '.join(shown[:5])}"
    )


def _as_double(item: Any) -> Any:
    """Return a number to store as a double; ints are clamped to +-_EXACT_DOUBLE."""
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
        # Masked and Arrow dtypes: fill nulls directly, without a detour via floats.
        plain = getattr(dtype, "numpy_dtype", np.dtype(object))
        if isinstance(plain, np.dtype) and plain.kind in "iufb":
            zero = plain.type(0)  # a fill value that every such dtype can hold
            held = np.asarray(x.to_numpy(dtype=plain, na_value=zero))
            wide = np.float64 if math.isnan(null) else np.int64
            if not null >= 0 and np.can_cast(plain, wide):
                held = held.astype(wide)
            return np.where(
                np.asarray(x.isna()), _arrow.constant(null, held.dtype), held
            )
    raise DTypeError(
        f"{name} must be a column of integers, floats or bools, got dtype {dtype}"
    )


def _to_pandas(x: Any, kind: str) -> Leave:
    pd = sys.modules["pandas"]

    def leave(results: _Array) -> Any:
        if results.ndim != 1 or results.dtype.names is not None:
            return results
        if kind == "pandas.Index":
            return pd.Index(results, name=x.name)
        return pd.Series(results, index=x.index, name=x.name, copy=False)

    return leave


# ---- polars and pyarrow --------------------------------------------------------------


def _to_kind(x: Any, kind: str) -> Leave:
    """Return a function from results to columns of x's library, or to arrays."""

    def leave(results: _Array) -> Any:
        if results.ndim != 1 or results.dtype.names is not None:
            return results
        if kind == "polars.Series":
            return type(x)(x.name, results)
        if kind == "pyarrow.Array":
            return sys.modules["pyarrow"].array(results)
        if kind == "pyarrow.ChunkedArray":
            return sys.modules["pyarrow"].chunked_array([results])
        return results

    return leave
