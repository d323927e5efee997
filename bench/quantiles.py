"""Quantiles of a real column: is the error what the theory says?

    python bench/quantiles.py FILE --column 12   # UCI Adult, hours-per-week
    python bench/quantiles.py                    # a column of such hours, made here

Every quantile is released `--runs` times at `--epsilon`, and all together at the
same epsilon. The error of a release is the distance, in records, between the rank
that was asked for and the ranks of the value that came. Of single quantiles it must
have the mean of the exact law, computed here from its definition, within 5 standard
errors, and exceed the bound of docs/proofs/quantiles.md for 5 % no more often than 5 %
of runs explain; of several it must stay within the bound for 5 %. The exit code tells.
FILE is CSV; a column is a name in its header line or, if it has none, a number from 0.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

import fastdp

Column = npt.NDArray[np.int64]

#: Bound that a release may exceed with this probability.
BETA = 0.05

#: Standard errors, and the same for a number of exceedances, that are no accident.
ALARM = 5.0


@dataclass(frozen=True)
class Result:
    """Errors of the releases of one quantile, in records, beside the theory."""

    label: str
    mean: float
    #: Mean of the exact law, and the standard error of `mean`; NaN for several.
    expected: float
    standard_error: float
    largest: float
    bound: float
    exceeded: int
    runs: int

    @property
    def as_predicted(self) -> bool:
        """Whether mean and exceedances are within what chance explains."""
        allowed = self.runs * BETA
        allowed += ALARM * math.sqrt(self.runs * BETA * (1 - BETA))
        if self.exceeded > allowed:
            return False
        if math.isnan(self.expected):
            return True
        return abs(self.mean - self.expected) <= ALARM * self.standard_error + 1e-9


def made_column(records: int = 48_842) -> Column:
    """Return weekly hours as people state them: 40, or multiples of 5, or neither."""
    generator = np.random.default_rng(1994)
    spread = generator.normal(41, 14, records).clip(1, 99)
    fives = 5 * np.rint(spread / 5)
    kind = generator.choice(3, records, p=[0.45, 0.37, 0.18])
    hours = np.choose(kind, [np.full(records, 40.0), fives, np.rint(spread)])
    return hours.clip(1, 99).astype(np.int64)


def read_column(path: Path, column: str) -> Column:
    """Return the whole numbers of a CSV column; rows without one are left out."""
    with path.open(newline="") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    names = rows[0]
    if column in names:
        place, rows = names.index(column), rows[1:]
    elif column.isdigit() and int(column) < len(names):
        place = int(column)
    else:
        raise SystemExit(f"{path.name} must have the column {column!r}")
    cells = [row[place] for row in rows if place < len(row)]
    found = [int(cell) for cell in cells if cell.lstrip("-").isdigit()]
    if not found:
        raise SystemExit(f"column {column!r} of {path.name} must hold whole numbers")
    return np.array(found, np.int64)


def costs(values: Column, points: Column, q: Fraction) -> npt.NDArray[np.float64]:
    """Return the distance of each point's ranks from the target, in records."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, points, "left")
    upto = np.searchsorted(ordered, points, "right")
    goal = float(q * len(values))
    distance: npt.NDArray[np.float64] = np.maximum(below - goal, goal - upto)
    return np.maximum(distance, 0.0)


def one_quantile(
    values: Column, q: Fraction, bounds: tuple[int, int], epsilon: Fraction, runs: int
) -> Result:
    """Release one quantile again and again; compare with the law by its definition."""
    mechanism = fastdp.Quantiles(q, bounds=bounds, epsilon=epsilon)
    points = np.arange(bounds[0], bounds[1] + 1)
    cost = costs(values, points, q)
    rate = float(epsilon / (2 * max(q, 1 - q)))
    law = np.exp(-rate * (cost - cost.min()))
    law /= law.sum()
    expected = float(law @ cost)
    deviation = math.sqrt(float(law @ (cost - expected) ** 2))
    errors = np.array(
        [cost[mechanism.release(values) - bounds[0]] for _ in range(runs)]
    )
    bound = math.log(len(points) / BETA) / rate
    return Result(
        label=f"{float(q):g} alone",
        mean=float(errors.mean()),
        expected=expected,
        standard_error=deviation / math.sqrt(runs),
        largest=float(errors.max()),
        bound=bound,
        exceeded=int((errors >= bound).sum()),
        runs=runs,
    )


def together(
    values: Column,
    targets: list[Fraction],
    bounds: tuple[int, int],
    epsilon: Fraction,
    runs: int,
) -> list[Result]:
    """Release all quantiles at once, again and again; compare with the bound."""
    mechanism = fastdp.Quantiles(targets, bounds=bounds, epsilon=epsilon)
    points = np.arange(bounds[0], bounds[1] + 1)
    found = np.array([mechanism.release(values) for _ in range(runs)]) - bounds[0]
    levels, places = mechanism.levels, 2**20
    own = 2 * levels / float(epsilon)
    own *= math.log(len(points) * places * len(targets) / BETA)
    ties = 1 + len(values) / places
    bound = levels * (own + ties + len(values) / 2**21)
    results = []
    for i, q in enumerate(targets):
        errors = costs(values, points, q)[found[:, i]]
        results.append(
            Result(
                label=f"{float(q):g} of {len(targets)}",
                mean=float(errors.mean()),
                expected=math.nan,
                standard_error=math.nan,
                largest=float(errors.max()),
                bound=bound,
                exceeded=int((errors >= bound).sum()),
                runs=runs,
            )
        )
    return results


def line(result: Result) -> str:
    """Return a line of the table."""
    predicted = "" if math.isnan(result.expected) else f"{result.expected:.2f}"
    return (
        f"{result.label:>12} {result.mean:10.2f} {predicted:>10} "
        f"{result.largest:10.0f} {result.bound:10.0f} {result.exceeded:10d}  "
        f"{'as predicted' if result.as_predicted else 'NOT AS PREDICTED'}"
    )


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], allow_abbrev=False
    )
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, nargs="?", help="table: .csv")
    add("--column", default="hours-per-week", help="name, or number from 0")
    add("--bounds", type=int, nargs=2, default=(1, 99), metavar=("LOW", "HIGH"))
    add("--epsilon", metavar="E", type=Fraction, default=Fraction(1, 10))
    add("--runs", metavar="N", type=int, default=1000, help="default: 1000")
    add(
        "--quantiles",
        metavar="Q",
        type=Fraction,
        nargs="+",
        default=[Fraction(k, 10) for k in range(1, 10)],
        help="default: 0.1 ... 0.9",
    )
    arguments = parser.parse_args(argv)
    if arguments.runs < 1:
        parser.error("--runs must be >= 1")
    return arguments


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code: 0 if all is as predicted."""
    arguments = _arguments(argv)
    if arguments.file is None:
        values, origin = made_column(), "hours made here"
    else:
        values = read_column(arguments.file, arguments.column)
        origin = f"column {arguments.column} of {arguments.file.name}"
    bounds, epsilon = tuple(arguments.bounds), arguments.epsilon
    print(
        f"{len(values):,} records, {origin}; bounds {bounds[0]} to {bounds[1]}, "
        f"epsilon = {float(epsilon):g} a release, {arguments.runs:,} releases each"
    )
    print(
        f"{'quantile':>12} {'mean error':>10} {'exact law':>10} {'largest':>10} "
        f"{'bound 5 %':>10} {'exceeded':>10}  (errors in records)"
    )
    good = True
    start = time.perf_counter()
    for q in arguments.quantiles:
        result = one_quantile(values, q, bounds, epsilon, arguments.runs)
        good &= result.as_predicted
        print(line(result), flush=True)
    if len(arguments.quantiles) > 1:
        for result in together(
            values, arguments.quantiles, bounds, epsilon, arguments.runs
        ):
            good &= result.as_predicted
            print(line(result), flush=True)
    print(f"{time.perf_counter() - start:.1f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
