"""Writes levels_laws.h for levels.c: laws of all kinds, prepared by the package.

Run as ``python tests/differential/levels_laws.py > levels_laws.h``.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from fastdp import _tables

SCALES = (
    *("1/100", "3/10", "1", "10", "7777/10", "4000", "4097", "10000", "1000000"),
    *(str(2**40), str(2**55)),
)
SIGMAS = (
    *("1/10", "3/10", "1", "39/10", "10", "1000", "1023", "1024", "1030", "1000000"),
    *(str(2**40), str(2**55)),
)


def _words(value: int, count: int) -> str:
    parts = (value >> 64 * i & (1 << 64) - 1 for i in range(count))
    return _braces(f"UINT64_C({part:#x})" for part in parts)


def _braces(items: Iterable[object]) -> str:
    return "{" + ", ".join(map(str, items)) + "}"


def _law(
    family: str,
    parameter: Fraction,
    table: _tables.LaplaceTable | _tables.GaussianTable,
    fields: str,
) -> str:
    kind = f"FDP_{family.upper()}_{table.kind.upper()}"
    acceptance = table.acceptance.hex()
    return (
        f'{{"{family} {parameter}", {parameter.numerator}, {parameter.denominator},\n'
        f" {{.kind = {kind}, .acceptance = {acceptance},\n"
        f"  .law = {{.{family} = {{{fields}}}}}}}}},"
    )


def laplace(scale: Fraction) -> str:
    """Return the initializer of a discrete Laplace law."""
    table = _tables.laplace_table(scale)
    fields = (
        f".shift = {table.j}, .theta = {_words(table.theta128, 2)},\n"
        f"   .inverse = {_words(table.inv_scale_192, 3)},\n"
        f"   .scale = {table.scale.hex()}, .inverse_scale = {table.inv_t.hex()},\n"
        f"   .inverse_w0 = {table.inv_w0.hex()}, .inverse_w1 = {table.inv_w1.hex()}"
    )
    return _law("laplace", scale, table, fields)


def gaussian(sigma: Fraction) -> str:
    """Return the initializer of a discrete Gaussian law."""
    table = _tables.gaussian_table(sigma)
    fields = (
        f".shift = {table.j}, .cut = {_braces(table.ap)},\n"
        f"   .alias = {_braces(table.alias)},\n"
        f"   .height_low = {_braces(table.n_lo)},\n"
        f"   .height_high = {_braces(table.n_hi)},\n"
        f"   .unit = {table.c.hex()}, .inverse_2var = {table.i2.hex()},\n"
        f"   .tail = {table.tail.hex()}"
    )
    return _law("gaussian", sigma, table, fields)


def main() -> None:
    """Print the header."""
    print("static const law_t laws[] = {")
    for scale in SCALES:
        print(laplace(Fraction(scale)))
    for sigma in SIGMAS:
        print(gaussian(Fraction(sigma)))
    print("};")


if __name__ == "__main__":
    main()
