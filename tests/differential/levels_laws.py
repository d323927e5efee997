"""Writes levels_laws.h for levels.c: laws of all kinds, prepared by the package.

Run as ``python -m tests.differential.levels_laws > levels_laws.h``.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from fastdp import _digits, _tables
from tests import digit_laws

SCALES = (
    *("1/100", "3/10", "1", "10", "11", "7777/10", "2561", "4097", "10000", "1000000"),
    *(str(2**40), str(2**55)),
)
SIGMAS = (
    *(
        "1/10",
        "3/10",
        "1",
        "39/10",
        "8",
        "10",
        "1000",
        "1023",
        "1024",
        "1030",
        "1000000",
    ),
    *(str(2**40), str(2**55)),
)


def _braces(items: Iterable[object]) -> str:
    return "{" + ", ".join(map(str, items)) + "}"


def digits(family: str, parameter: Fraction) -> str:
    """Return the initializer of a law of alias digits."""
    sampler = digit_laws.sampler(digit_laws.of(family, parameter))
    numbers = f"{parameter.numerator}, {parameter.denominator}"
    return f'{{"{family} {parameter}", {numbers},\n {sampler}}},'


def gaussian(sigma: Fraction) -> str:
    """Return the initializer of a discrete Gaussian law."""
    table = _tables.gaussian_law(sigma)
    if isinstance(table, _digits.Digits):
        return digits("gaussian", sigma)
    fields = (
        f".shift = {table.j}, .cut = {_braces(table.ap)},\n"
        f"   .alias = {_braces(table.alias)},\n"
        f"   .height_low = {_braces(table.n_lo)},\n"
        f"   .height_high = {_braces(table.n_hi)},\n"
        f"   .unit = {table.c.hex()}, .inverse_2var = {table.i2.hex()},\n"
        f"   .tail = {table.tail.hex()}"
    )
    return (
        f'{{"gaussian {sigma}", {sigma.numerator}, {sigma.denominator},\n'
        f" {{.kind = FDP_GAUSSIAN_{table.kind.upper()},"
        f" .acceptance = {table.acceptance.hex()},\n"
        f"  .law = {{.gaussian = {{{fields}}}}}}}}},"
    )


def main() -> None:
    """Print the header."""
    print("static const law_t laws[] = {")
    for scale in SCALES:
        print(digits("laplace", Fraction(scale)))
    for sigma in SIGMAS:
        print(gaussian(Fraction(sigma)))
    print("};")


if __name__ == "__main__":
    main()
