"""Sensitivity of a sum of clipped rows, and the grid to which rows are rounded."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fastdp import _validate, calibration
from fastdp._validate import Real
from fastdp.accounting.events import NeighboringRelation, Relation, as_relation
from fastdp.exceptions import ParameterError
from fastdp.mechanisms.noise._grid import power_of_two

_A = NeighboringRelation.ADD_OR_REMOVE_ONE
_R = NeighboringRelation.REPLACE_ONE

#: Range of radii: the kernels' doubles neither overflow nor underflow.
RADII = (Fraction(1, 2**900), Fraction(2**900))

#: A coordinate has fewer steps than this, so that squares fit in 60 bits.
_MOST_STEPS = 2**30


def check_shape(
    dimension: object,
    norm: object,
    changed: object = None,
    blocks: object = None,
    rows_per_unit: object = 1,
    blocks_per_unit: object = None,
    neighboring_relation: object = _A,
) -> dict[str, Any]:
    """Return the checked numbers as Python ints, so products cannot overflow."""
    most = _validate.integer("dimension", dimension, 1, 2**32 - 1)
    if isinstance(norm, bool) or norm not in (1, 2, "inf"):
        raise ParameterError(f'norm must be 1, 2 or "inf", got {norm!r}')
    if changed is not None:
        changed = _validate.integer("changed", changed, 1, most)
        if norm != "inf":
            raise ParameterError('changed must be left out unless norm is "inf"')
    if blocks is not None:
        blocks = _validate.integer("blocks", blocks, 1, 2**32)
    rows = _validate.integer("rows_per_unit", rows_per_unit, 1, 2**31)
    if blocks_per_unit is not None:
        if blocks is None:
            raise ParameterError("blocks_per_unit requires blocks")
        blocks_per_unit = _validate.integer("blocks_per_unit", blocks_per_unit, 1)
        blocks_per_unit = min(blocks_per_unit, blocks)
    return {
        "dimension": most,
        "changed": changed,
        "blocks": blocks,
        "rows_per_unit": rows,
        "blocks_per_unit": blocks_per_unit,
        "neighboring_relation": as_relation(neighboring_relation),
    }


def step_of(
    parameter: Fraction,
    radius: Fraction,
    granularity: Real | None,
    constant: Real | None,
) -> Fraction:
    """Return the grid's step: the given one, or one that fits the noise and radius."""
    if granularity is not None:
        step = power_of_two(granularity)
        if radius / step >= _MOST_STEPS:
            raise ParameterError(
                f"granularity must be above radius/2**30, got {float(step)!r}"
            )
        return step
    largest = radius
    if constant is not None:
        largest = max(radius, _validate.positive("constant", constant))
    step = calibration.grid_granularity(parameter)
    while largest / step >= _MOST_STEPS:
        step *= 2
    return step


def exponent(step: Fraction) -> int:
    """Return the k of a step 2**k."""
    return step.numerator.bit_length() - step.denominator.bit_length()


def steps_of_constant(constant: Real | None, step: Fraction) -> int:
    """Return the constant in steps of the grid; 0 without a constant."""
    if constant is None:
        return 0
    steps = _validate.positive("constant", constant) / step
    if steps.denominator != 1 or steps >= _MOST_STEPS:
        raise ParameterError(
            "constant must be a multiple of the granularity, below 2**30 times it, "
            f"got {constant!r} at granularity {float(step)!r}"
        )
    return steps.numerator


def moved(
    radius: Real,
    dimension: int,
    norm: int | str,
    *,
    squared: bool,
    granularity: Real | None = None,
    changed: int | None = None,
    blocks: int | None = None,
    constant: Real | None = None,
    rows_per_unit: int = 1,
    blocks_per_unit: int | None = None,
    neighboring_relation: Relation = _A,
) -> Fraction:
    """Return the (squared) sensitivity in the data's unit, also of rounded rows."""
    shape = check_shape(
        dimension,
        norm,
        changed,
        blocks,
        rows_per_unit,
        blocks_per_unit,
        neighboring_relation,
    )
    if norm == (1 if squared else 2):
        raise ParameterError(f'norm must be {3 - norm} or "inf" for this noise')
    entry = _validate.between("radius", radius, *RADII)
    lead = Fraction(0)
    if constant is not None:
        lead = _validate.positive("constant", constant)
    if squared:
        entry, lead = entry**2, lead**2
    kept = (shape["changed"] or shape["dimension"]) if norm == "inf" else 1
    return distance(
        entry * kept,
        lead,
        squared=squared,
        blocks=blocks is not None,
        rows=shape["rows_per_unit"],
        each=shape["blocks_per_unit"],
        relation=shape["neighboring_relation"],
    )


def distance(
    row: Fraction,
    lead: Fraction,
    *,
    squared: bool,
    blocks: bool,
    rows: int,
    each: int | None,
    relation: NeighboringRelation,
) -> Fraction:
    """Return the largest change of the sums by one individual: L1, or squared L2.

    `row` bounds the clipped row and `lead` is the constant's part, in the same norm. A
    replaced row within a block changes the sum by two row bounds. If the block changes,
    too, two whole, orthogonal rows change. Several rows may become fewer. With `each`,
    an individual's rows are in at most `each` blocks; the blocks' parts add up in
    either norm.
    """
    many = (each or 1) * (rows**2 if squared else rows)
    if relation is not _R:
        return many * (row + lead)
    within = (4 if squared else 2) * row
    if rows > 1:
        return many * max(within, (4 if squared else 2) * (row + lead))
    return many * max(within, 2 * (row + lead)) if blocks else within


def coordinates(
    dimension: int,
    *,
    blocks: int | None = None,
    constant: Real | None = None,
    rows_per_unit: int = 1,
    blocks_per_unit: int | None = None,
    neighboring_relation: Relation = _A,
    **_: Any,
) -> int:
    """Return the number of entries of the release that one individual can change."""
    many = int(blocks_per_unit or rows_per_unit)
    many *= 2 if as_relation(neighboring_relation) is _R else 1
    return (int(dimension) + (constant is not None)) * min(many, int(blocks or 1))
