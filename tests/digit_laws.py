"""C initializers of laws of alias digits, for programs that test the core alone."""

from collections.abc import Iterable
from fractions import Fraction

from fastdp import _digits


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


def sampler(law: _digits.Digits) -> str:
    """Return the initializer of an fdp_sampler_t."""
    return (
        "{.kind = FDP_DIGITS, .acceptance = 1.0,\n"
        f"  .law = {{.digits = {{{fields(law)}}}}}}}"
    )


def of(family: str, parameter: Fraction) -> _digits.Digits:
    """Return the digits of a law that has them."""
    if family == "laplace":
        return _digits.laplace(parameter)
    return _digits.Gaussian(parameter)
