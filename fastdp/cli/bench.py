"""``fastdp bench``: this machine's speed beside numpy's, measured in one run.

Every line times a call of this package and the call that a numpy user would
write instead, in turn, so that a busy machine slows both. numpy's noise is
rounded, statistical and not private: it is there as a yardstick only.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

import fastdp
from fastdp import _digits, _tables, _validate
from fastdp.cli import _local_cases, _rivals, _selection_cases, _timings
from fastdp.cli._timings import Array, Case, Ratio, Row, measure

_DESCRIPTION = """\
Measure every kernel beside numpy's rounded analogue in the same run: noise written
into the same array, local randomizers and the decoding of their reports, private
selection, and each rival library that is installed. Times are the median and the
interquartile range over interleaved repetitions; "ratio" is numpy's time divided by
ours, the median over the repetitions, or "noisy" where these differ too much.
"""

#: Parameters of the table: narrow and wide kernels of both laws.
_SCALES = (1, 10, 1000, 4000, 10**4, 10**6, 2**40)
_SIGMAS = (1, 10, 1000, 10**6, 2**40)

#: Calls in one timing of the scalar release.
_SCALAR_CALLS = 2000

#: Lines of each table.
Tables: TypeAlias = "dict[str, list[Row]]"


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of ``fastdp``."""
    parser = commands.add_parser(
        "bench",
        help="measure this machine beside numpy and installed rivals",
        description=_DESCRIPTION,
    )
    parser.add_argument(
        "--quick", action="store_true", help="small arrays and few repetitions"
    )
    parser.add_argument(
        "--n",
        metavar="N",
        type=int,
        help="length of the arrays (default: 10,000,000; quick: 1,000,000)",
    )
    parser.add_argument(
        "--repetitions",
        metavar="R",
        type=int,
        help="timings of each call, at least 5 (default: 11; quick: 5)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``fastdp bench`` and return the exit code.

    Raises
    ------
    ParameterError
        The length of the arrays is not a positive number, or the repetitions are too
        few for a ratio.
    """
    default = 10**6 if arguments.quick else 10**7
    size = default if arguments.n is None else arguments.n
    size = _validate.integer("n", size, 1, 2**31)
    repetitions = arguments.repetitions
    if repetitions is None:
        repetitions = 5 if arguments.quick else 11
    repetitions = _validate.integer("repetitions", repetitions, _timings.FEWEST)
    tables = {
        "kernels": [measure(case, repetitions) for case in cases(size)],
        "local": [measure(case, repetitions) for case in _local_cases.cases(size)],
        "selection": [
            measure(case, repetitions) for case in _selection_cases.cases(size)
        ],
    }
    size = min(size, 10**4 if arguments.quick else 10**5)
    rivals = _rivals.measure(size, min(repetitions, _timings.FEWEST))
    if arguments.json:
        print(_as_json(tables, rivals, repetitions))
    else:
        print(_as_table(tables, rivals, repetitions))
    return 0


def cases(size: int) -> Iterator[Case]:
    """Yield the lines of noise; they share one output array of each dtype."""
    generator = np.random.Generator(np.random.PCG64())
    whole = np.zeros(size, dtype=np.int64)
    for scale in _SCALES:
        yield laplace_case(scale, whole, generator)
    for sigma in _SIGMAS:
        yield gaussian_case(sigma, whole, generator)
    yield from _release_cases(whole, np.zeros(size), generator)
    yield _scalar_case(generator)


def laplace_case(
    scale: int | float | Fraction, out: Array, generator: np.random.Generator
) -> Case:
    """Return discrete Laplace noise beside numpy's rounded Laplace, into `out`."""

    def ours() -> object:
        return fastdp.random.discrete_laplace(scale, out=out)

    def rounded() -> object:
        noise = generator.laplace(0.0, float(scale), out.size)
        np.copyto(out, np.rint(noise, out=noise), casting="unsafe")
        return out

    need = laplace_bytes(scale)
    return Case(
        f"discrete_laplace scale={_short(scale)}", out.size, ours, rounded, need
    )


def gaussian_case(sigma: int, out: Array, generator: np.random.Generator) -> Case:
    """Return discrete Gaussian noise beside numpy's rounded normal, into `out`."""

    def ours() -> object:
        return fastdp.random.discrete_gaussian(sigma, out=out)

    def rounded() -> object:
        noise = generator.normal(0.0, float(sigma), out.size)
        np.copyto(out, np.rint(noise, out=noise), casting="unsafe")
        return out

    need = gaussian_bytes(sigma)
    return Case(
        f"discrete_gaussian sigma={_short(sigma)}", out.size, ours, rounded, need
    )


def _release_cases(
    counts: Array, values: Array, generator: np.random.Generator
) -> Iterator[Case]:
    """Yield mechanisms that add their noise to an array in place."""
    size = counts.size
    counts[:] = 0
    discrete = fastdp.DiscreteLaplace(scale=10)

    def add_rounded() -> object:
        noise = generator.laplace(0.0, 10.0, size)
        return np.add(counts, np.rint(noise, out=noise), out=counts, casting="unsafe")

    yield Case(
        "DiscreteLaplace(10).release in place",
        size,
        lambda: discrete.release(counts, out=counts),
        add_rounded,
        laplace_bytes(10),
    )
    grid = 10 * 2**36  # the noise in steps of its grid: in [2^39, 2^40)
    laplace, gaussian = fastdp.Laplace(scale=10), fastdp.Gaussian(sigma=10)
    for name, mechanism, law, need in (
        ("Laplace(10)", laplace, generator.laplace, laplace_bytes(grid)),
        ("Gaussian(10)", gaussian, generator.normal, gaussian_bytes(grid)),
    ):
        yield Case(
            f"{name}.release float64 in place",
            size,
            lambda mechanism=mechanism: mechanism.release(values, out=values),  # type: ignore[misc]
            lambda law=law: np.add(values, law(0.0, 10.0, size), out=values),  # type: ignore[misc]
            need,
        )


def _scalar_case(generator: np.random.Generator) -> Case:
    """Return the release of one number, the cost of a call."""
    mechanism = fastdp.DiscreteLaplace(scale=10)
    value = np.int64(42)

    def ours() -> None:
        for _ in range(_SCALAR_CALLS):
            mechanism.release(value)

    def rounded() -> None:
        for _ in range(_SCALAR_CALLS):
            value + np.int64(np.rint(generator.laplace(0.0, 10.0)))

    return Case(
        "DiscreteLaplace(10).release, one value",
        1,
        ours,
        rounded,
        loops=_SCALAR_CALLS,
    )


def measure_laplace(
    scale: int | float | Fraction, *, size: int, repetitions: int
) -> Row:
    """Time discrete Laplace noise of one scale beside numpy's, into one array."""
    out = np.zeros(size, dtype=np.int64)
    generator = np.random.Generator(np.random.PCG64())
    return measure(laplace_case(scale, out, generator), repetitions)


def laplace_bytes(scale: int | float | Fraction) -> float:
    """Return the random bytes that one discrete Laplace sample needs in long arrays."""
    return _digits.laplace(Fraction(scale)).bytes_per_sample()


def gaussian_bytes(sigma: int | float | Fraction) -> float:
    """Return the random bytes that one discrete Gaussian sample needs on average.

    By a hat a trial takes 16 bits for its block, 32 for the decision, and for wide
    laws 64 for the place within the block.
    """
    table = _tables.gaussian_law(Fraction(sigma))
    if isinstance(table, _digits.Digits):
        return table.bytes_per_sample()
    return {"narrow": 6, "wide": 14}[table.kind] / table.acceptance


def _short(value: int | float | Fraction) -> str:
    if isinstance(value, int) and value > 10**9 and value.bit_count() == 1:
        return f"2^{value.bit_length() - 1}"
    return f"{float(value):g}"


def _setting(repetitions: int) -> dict[str, str | int]:
    return {**fastdp.show_config(), "repetitions": repetitions}


def _as_json(tables: Tables, rivals: _rivals.Report, repetitions: int) -> str:
    document = {
        "setting": _setting(repetitions),
        **{name: [_as_dict(row) for row in rows] for name, rows in tables.items()},
        "rivals": [_as_dict(line) for line in rivals.lines],
        "not_measured": rivals.absent,
    }
    return json.dumps(document, indent=2)


def _as_dict(line: Row | _rivals.Line) -> dict[str, Any]:
    """Return a line; a ratio that is none is null, with the quartiles that say why."""
    ratio = line.ratio
    return {
        **dataclasses.asdict(line),
        "ratio": ratio.value,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
    }


def _shown(ratio: Ratio, digits: int) -> str:
    return "noisy" if ratio.value is None else f"{ratio.value:.{digits}f}"


def _as_table(tables: Tables, rivals: _rivals.Report, repetitions: int) -> str:
    setting = _setting(repetitions)
    lines = [
        (
            f"fastdp {setting['fastdp']}, CPU level {setting['cpu']}, "
            f"cipher {setting['cipher']}, numpy {setting['numpy']}; "
            f"one core, {repetitions} interleaved repetitions"
        ),
        "",
        *_row_lines("noise", tables["kernels"]),
        "",
        *_row_lines("local randomizers", tables["local"]),
        "",
        *_row_lines("private selection", tables["selection"]),
        "",
        "ns and random bytes are for one sample: a value, a bit, a candidate, or a",
        "user with the whole report; ratio = numpy's time / ours. numpy's laws are",
        "rounded, and its state can be computed from its output: not exact, not",
        "secure, not private.",
    ]
    lines += _noisy_lines(tables, rivals)
    lines += _rival_lines(rivals)
    return "\n".join(lines)


def _noisy_lines(tables: Tables, rivals: _rivals.Report) -> list[str]:
    every = [row.ratio for rows in tables.values() for row in rows]
    every += [line.ratio for line in rivals.lines]
    noisy = sum(ratio.value is None for ratio in every)
    if not noisy:
        return []
    return [
        f"noisy: {noisy} of {len(every)} ratios are not stated. The middle half of",
        f"their repetitions differs by more than a factor {_timings.SPREAD}: quiet the",
        "machine, or take more --repetitions.",
    ]


def _row_lines(title: str, rows: list[Row]) -> list[str]:
    lines = [
        (
            f"{title:<40} {'n':>10} {'ns':>8} {'(IQR)':>17} {'M/s':>7} {'bytes':>6} "
            f"{'numpy ns':>9} {'ratio':>6}"
        )
    ]
    for row in rows:
        spread = f"({row.ns_low:.2f}-{row.ns_high:.2f})"
        need = "-" if row.random_bytes is None else f"{row.random_bytes:.1f}"
        lines.append(
            f"{row.name:<40} {row.size:>10,} {row.ns:>8.2f} {spread:>17} "
            f"{row.million_per_second:>7.0f} {need:>6} {row.numpy_ns:>9.2f} "
            f"{_shown(row.ratio, 1):>6}"
        )
    return lines


def _rival_lines(rivals: _rivals.Report) -> list[str]:
    lines = []
    for task in dict.fromkeys(line.task for line in rivals.lines):
        lines += [
            "",
            (
                f"{'rivals: ' + task:<56} {'n':>9} {'ns':>10} {'ours n':>10} "
                f"{'ours ns':>9} {'ratio':>8}  noise"
            ),
        ]
        for line in rivals.lines:
            if line.task != task:
                continue
            law = "exact" if line.exact else "inexact"
            source = "secure" if line.secure else "insecure"
            lines.append(
                f"{line.name:<56} {line.size:>9,} {line.ns:>10.1f} "
                f"{line.our_size:>10,} {line.our_ns:>9.2f} {_shown(line.ratio, 0):>8}  "
                f"{law}, {source}"
            )
    if rivals.absent:
        lines += ["", "Rivals not measured (they cannot be imported, or fail):"]
        lines += [f"  {name}" for name in rivals.absent]
    return lines
