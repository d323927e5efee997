"""Writes levels_laws.h for levels.c: names and parameters of laws of all kinds.

Run as ``python -m tests.differential.levels_laws > levels_laws.h``.
"""

from __future__ import annotations

from fractions import Fraction

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


def digits(family: str, parameter: Fraction) -> str:
    """Return the initializer of a law, which levels.c prepares."""
    return (
        f'{{.name = "{family} {parameter}", .numerator = {parameter.numerator}, '
        f".denominator = {parameter.denominator}}},"
    )


def main() -> None:
    """Print the header."""
    print("static const law_t laws[] = {")
    for scale in SCALES:
        print(digits("laplace", Fraction(scale)))
    for sigma in SIGMAS:
        print(digits("gaussian", Fraction(sigma)))
    print("};")


if __name__ == "__main__":
    main()
