"""C initializers of laws of alias digits, for programs that test the core alone."""

from collections.abc import Iterable
from fractions import Fraction

from fastdp import _digits, _tilt


def _braces(items: Iterable[int], suffix: str = "u") -> str:
    return "{" + ", ".join(f"{item:#x}{suffix}" for item in items) + "}"


def fields(law: _digits.Digits) -> str:
    """Return the fields of an fdp_digits_t that the caller fills."""
    first, second = law.chance()
    parts = [
        f".shift = {law.shift}, .low = {law.low}",
        f".special = {{{first.hex()}, {second.hex()}}}",
        f".first = {{{_braces(law.first[0])}, {_braces(law.first[1])}}}",
        f".first_rest = {_braces(law.first_rest.entries, 'ull')}",
    ]
    tail = law.geometric()
    if tail is not None:
        theta, *real = tail
        numbers = ", ".join(x.hex() for x in real)
        parts.append(f".tails = 1, .tail = {{{theta:#x}ull, {numbers}}}")
    if law.shift:
        parts += [
            f".second = {{{_braces(law.second[0])}, {_braces(law.second[1])}}}",
            f".second_rest = {_braces(law.second_rest.entries, 'ull')}",
        ]
    if law.low:
        parts += [
            f".second_whole = {_braces(law.second_whole.entries, 'ull')}",
            f".tops = {len(law.masks)}, .mask = {_braces(law.masks, 'ull')}",
            f".top = {_braces(law.top_floors, 'ull')}",
        ]
    if law.copy_floors:
        parts.append(f".copy = {_braces(law.copy_floors, 'ull')}")
    return ",\n   ".join(parts)


def tilted_fields(law: _tilt.Tilted) -> str:
    """Return the same of a law of tilted digits."""
    block = (n << 32 | c for n, c in zip(law.counts, law.choices, strict=True))
    height, weight, inverse, edge = (x.hex() for x in law.doubles())
    parts = [
        f".shift = {law.shift}, .low = {law.low}",
        f".special = {{{law.chance().hex()}}}",
        f".first = {{{_braces(law.first[0])}, {_braces(law.first[1])}}}",
        f".first_rest = {_braces(law.entries, 'ull')}",
        f".tilt = {{.slope = {law.slope}, .block = {_braces(block, 'ull')}",
        f".height = {height}, .weight = {weight}, .inverse_2var = {inverse}",
        f".edge = {edge}, .acceptance = {law.acceptance().hex()}}}",
    ]
    return ",\n   ".join(parts)


def sampler(law: _digits.Digits | _tilt.Tilted) -> str:
    """Return the initializer of an fdp_sampler_t."""
    shown = tilted_fields(law) if isinstance(law, _tilt.Tilted) else fields(law)
    return f"{{.acceptance = 1.0,\n  .law = {{{shown}}}}}"


def of(family: str, parameter: Fraction) -> _digits.Digits | _tilt.Tilted:
    """Return the digits of a law."""
    if family == "laplace":
        return _digits.laplace(parameter)
    return _tilt.gaussian(parameter)
