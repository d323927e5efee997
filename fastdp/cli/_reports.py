"""Files of reports, written by ``fastdp collect``, read by ``fastdp estimate``.

One report per row, in columns with a size that does not depend on the data:

=====================  =======================================  ===================
mechanism              Parquet, Feather                         CSV, TSV
=====================  =======================================  ===================
randomized-response    ``report``: uint8, uint16 or uint32      decimal
hadamard               ``report``: uint8, uint16 or uint32      decimal
unary-encoding         ``report``: fixed-size binary            hex digits
subset-selection       ``report``: fixed-size binary            hex digits
local-hashing          ``seed``: uint64, ``value``: uint32      hex digits, decimal
vector-response        ``seed``: uint64, ``value``: uint32      hex digits, decimal
=====================  =======================================  ===================

A JSON text describes the reports: format and version, mechanism, its exact
probabilities as quotients, categories. Parquet and Feather files have it in their
metadata, under the name `METADATA`; a CSV file ``x.csv`` has it in ``x.csv.json``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

import fastdp
from fastdp.cli import _cells, _files
from fastdp.cli._places import Place
from fastdp.exceptions import FastDPError, FileError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "fastdp reports"
VERSION = 1
METADATA = b"fastdp.reports"

#: Suffix of the file that describes a text file of reports.
BESIDE = ".json"

#: Maximum size of a description, in bytes: 2^24 categories of 30 letters.
_LONGEST = 1 << 29


@dataclass(frozen=True)
class Oracle:
    """A mechanism under its name in commands and files."""

    type_name: str
    #: Constructor arguments other than `categories` and `other`.
    parameters: tuple[str, ...]


ORACLES = {
    "randomized-response": Oracle("RandomizedResponse", ("p",)),
    "unary-encoding": Oracle("UnaryEncoding", ("p", "q")),
    "local-hashing": Oracle("LocalHashing", ("p", "buckets")),
    "hadamard": Oracle("HadamardResponse", ("p",)),
    "subset-selection": Oracle("SubsetSelection", ("p", "size")),
}


#: Mechanisms without categories, by name: their JSON form describes them.
OPEN = {
    "local-mean": "LocalMean",
    "vector-response": "VectorResponse",
    "count-mean-sketch": "CountMeanSketch",
    "prefix-hunt": "PrefixHunt",
    "rappor": "Rappor",
}


@dataclass(frozen=True)
class Description:
    """The facts that are needed to decode a file of reports; all of them are public."""

    mechanism: Any
    #: Names of the categories, or of a vector's entries; None where categories are the
    #: integers from 0, or there are none.
    names: tuple[str, ...] | None

    @property
    def kind(self) -> str:
        """Name of the mechanism in commands and files."""
        own = type(self.mechanism).__name__
        kinds = {oracle.type_name: name for name, oracle in ORACLES.items()}
        kinds.update((type_name, name) for name, type_name in OPEN.items())
        return kinds[own]

    def labels(self) -> list[str] | list[int]:
        """Return the names or numbers of the categories, in order."""
        if self.names is not None:
            return list(self.names)
        return list(range(self.mechanism.categories))

    def to_json(self) -> str:
        """Return the text that `parse` reads."""
        mechanism = self.mechanism
        fields: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "mechanism": self.kind,
        }
        if self.kind in OPEN:
            fields["parameters"] = json.loads(mechanism.to_json())
            if self.names is not None:
                fields["columns"] = list(self.names)
            return json.dumps(fields, indent=1, ensure_ascii=False)
        for name in ORACLES[self.kind].parameters:
            value = getattr(mechanism, name)
            fields[name] = value if isinstance(value, int) else _quotient(value)
        fields["other"] = mechanism.other
        names = self.names
        fields["categories"] = mechanism.categories if names is None else list(names)
        return json.dumps(fields, indent=1, ensure_ascii=False)


def _quotient(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def parse(text: str, path: Path | Place) -> Description:
    """Return the description that `text` holds.

    Raises
    ------
    FastDPError
        The text has another format or version, or is not a description; or the
        mechanism refuses its parameters. The error names `path`.
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise FileError(
            f"REPORTS must have a description of {FORMAT!r}, but {path} has none"
        )
    version = fields.get("version")
    if version != VERSION:
        shown = version if isinstance(version, int) else "another"
        raise FileError(
            f"REPORTS must be of format version {VERSION}, got {shown} in {path}"
        )
    try:
        return _described(fields)
    except (KeyError, TypeError, ValueError) as error:
        # Constructors name the parameter that they refuse.
        reason = f": {error}" if isinstance(error, FastDPError) else ""
        raise FileError(f"{path} has a damaged description{reason}") from None


def _described(fields: dict[str, Any]) -> Description:
    if fields["mechanism"] in OPEN:
        factory = getattr(fastdp, OPEN[fields["mechanism"]])
        made = factory.from_json(json.dumps(fields["parameters"]))
        columns = None
        if isinstance(made, fastdp.VectorResponse):
            columns = _texts(fields["columns"])
            if len(columns) != made.dimension:
                raise ValueError
        return Description(made, columns)
    oracle = ORACLES[fields["mechanism"]]
    arguments: dict[str, Any] = {}
    for name in oracle.parameters:
        value = fields[name]
        if isinstance(value, str):
            # Accept only digits: Fraction("1e999999999") would take forever.
            if re.fullmatch(r"[0-9]{1,700}/[0-9]{1,700}", value) is None:
                raise ValueError
            value = Fraction(value)
        arguments[name] = value
    categories, names = fields["categories"], None
    if isinstance(categories, list):
        names = _texts(categories)
        categories = len(names)
    mechanism = getattr(fastdp, oracle.type_name)(
        **arguments, categories=categories, other=fields["other"]
    )
    return Description(mechanism, names)


def _texts(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise TypeError
    return tuple(given)


def sidecar(place: Place) -> Place:
    """Return the place of the description of a text file of reports."""
    return place.beside(BESIDE)


def read_description(place: Place) -> Description:
    """Return the description of the reports in `place`.

    Raises
    ------
    FastDPError
        There is no description, or it has another version.
    """
    if place.form.text:
        return parse(_files.read_text("REPORTS", sidecar(place), _LONGEST), place)
    content = _files.read_metadata(place).get(METADATA, b"")
    return parse(content.decode("utf-8", "replace"), place)


def columns(mechanism: Any) -> dict[str, np.dtype[Any]]:
    """Return the names of the columns of a report and the type of their cells."""
    dtype = np.dtype(mechanism.report_dtype)
    if dtype.names is not None:
        parts = {name: dtype[name] for name in dtype.names}
        return {
            name: np.dtype(f"V{part.itemsize}") if part.shape else part
            for name, part in parts.items()
        }
    if isinstance(mechanism, (fastdp.UnaryEncoding, fastdp.SubsetSelection)):
        return {"report": np.dtype(f"V{-(-mechanism.categories // 8)}")}
    return {"report": dtype}


def schema(description: Description, *, text: bool) -> pa.Schema:
    """Return the schema of a file of reports; with `text`, of a CSV file."""
    import pyarrow as pa

    fields = [
        pa.field(name, _arrow_type(dtype, text=text), nullable=False)
        for name, dtype in columns(description.mechanism).items()
    ]
    metadata = None if text else {METADATA: description.to_json().encode()}
    return pa.schema(fields, metadata=metadata)


def _in_hex(dtype: np.dtype[Any]) -> bool:
    # Seeds, too: as decimals they are too large for spreadsheets.
    return dtype.kind == "V" or dtype.itemsize == 8


def _arrow_type(dtype: np.dtype[Any], *, text: bool) -> pa.DataType:
    import pyarrow as pa

    if text and _in_hex(dtype):
        return pa.large_binary()
    return (
        pa.binary(dtype.itemsize) if dtype.kind == "V" else pa.from_numpy_dtype(dtype)
    )


def to_table(reports: npt.NDArray[Any], schema: pa.Schema, *, text: bool) -> pa.Table:
    """Return reports of a mechanism as the table to write."""
    import pyarrow as pa

    if reports.dtype.names is None:
        parts = {"report": reports}
    else:
        parts = {name: reports[name] for name in reports.dtype.names}
    arrays = [_to_cells(np.ascontiguousarray(parts[n]), text) for n in schema.names]
    return pa.Table.from_arrays(arrays, schema=schema)


def _to_cells(values: npt.NDArray[Any], text: bool) -> pa.Array:
    """Return an array of integers, or of rows of bytes, as a column."""
    import pyarrow as pa

    rows, width = len(values), values.nbytes // max(1, len(values))
    if text and (values.ndim == 2 or values.itemsize == 8):
        # Numbers with the most significant digit first.
        digits = values.astype(values.dtype.newbyteorder(">")).tobytes().hex().encode()
        cells = _fixed(2 * width, rows, digits)
        return cells.cast(pa.binary()).cast(pa.large_binary())
    if values.ndim == 2:
        return _fixed(width, rows, values)
    return pa.array(values)


def _fixed(width: int, rows: int, content: Any) -> pa.Array:
    import pyarrow as pa

    kind = pa.binary(max(1, width))
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(content)])


def require_columns(schema: pa.Schema, mechanism: Any, place: Place) -> None:
    """Refuse a Parquet or Feather file without the columns of the reports.

    Raises
    ------
    FastDPError
        The message names the column, its type and the required type.
    """
    for name, dtype in columns(mechanism).items():
        wanted, found = _arrow_type(dtype, text=False), schema.field(name).type
        if found != wanted:
            raise FileError(
                f"REPORTS must have {wanted} in column {name!r}, got {found} in {place}"
            )


def from_batch(
    batch: pa.RecordBatch, mechanism: Any, place: Place, first: int
) -> npt.NDArray[Any]:
    """Return the reports of a batch in the mechanism's form.

    Parameters
    ----------
    batch : RecordBatch
        Columns that `require_columns` accepts, or the text of a CSV or TSV file.
    mechanism : mechanism
        Mechanism that made the reports.
    place : Place
        The place of the file, also for messages.
    first : int
        Number of the batch's first row in the file, from 1, for messages.

    Raises
    ------
    FastDPError
        A cell is not a report.
    """
    text = place.form.text
    wanted = columns(mechanism)
    cells = {}
    for name, dtype in wanted.items():
        column = batch.column(name)
        read = (
            (_from_hex if _in_hex(dtype) else _from_decimal) if text else _from_binary
        )
        values, bad = read(column, dtype)
        if bad.any():
            _refuse(name, dtype, place, first + int(np.argmax(bad)))
        cells[name] = values
    if len(cells) == 1:
        (values,) = cells.values()
        if values.dtype.kind == "V":
            return values.view(np.uint8).reshape(len(values), values.itemsize)
        return values
    reports = np.empty(batch.num_rows, mechanism.report_dtype)
    for name, values in cells.items():
        rows = reports[name].shape
        reports[name] = values.view(np.uint8).reshape(rows) if rows[1:] else values
    return reports


def _refuse(name: str, dtype: np.dtype[Any], place: Place, row: int) -> NoReturn:
    if not place.form.text:
        rule = "no nulls"
    elif _in_hex(dtype):
        rule = f"{2 * dtype.itemsize} hex digits"
    else:
        rule = f"integers in [0, {np.iinfo(dtype).max}]"
    raise FileError(
        f"REPORTS must hold {rule} in column {name!r}, but row {row} of "
        f"{place} does not"
    )


def _from_binary(
    column: pa.Array, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    bad = column.is_null().to_numpy(zero_copy_only=False)
    if bad.any():
        return np.zeros(len(column), dtype), bad
    if dtype.kind != "V":
        return column.to_numpy(), bad
    content = column.buffers()[1]
    start = column.offset * dtype.itemsize
    return np.frombuffer(content, dtype, len(column), start), bad


def _from_decimal(
    column: pa.Array, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    values = _cells.read_integers(column, missing=-1)
    bad = (values < 0) | (values > np.iinfo(dtype).max)
    return values.astype(dtype), bad


def _from_hex(
    column: pa.Array, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    from pyarrow import compute

    whole = compute.equal(compute.binary_length(column), 2 * dtype.itemsize)
    digits = compute.match_substring_regex(column, "^[0-9a-fA-F]*$")
    good = compute.fill_null(compute.and_(whole, digits), False)
    bad = ~good.to_numpy(zero_copy_only=False)
    if bad.any():
        return np.zeros(len(column), dtype), bad
    content = bytes.fromhex(b"".join(column.to_pylist()).decode())
    return np.frombuffer(content, dtype.newbyteorder(">")).astype(dtype), bad
