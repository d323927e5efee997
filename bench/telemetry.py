"""Telemetry at full size: privatize and count the values of 1e8 users.

    python bench/telemetry.py                       # 1024 categories, a Zipf law
    python bench/telemetry.py --oracle all --users 1e7
    python bench/telemetry.py FILE --column NAME    # a column's values, drawn again
    python bench/telemetry.py --hunt --epsilon 4    # strings that nobody listed
    python bench/telemetry.py --numbers --users 1e7 # the mean of bounded numbers

The users come in slabs: their values are drawn, privatized as the clients would,
and added to an aggregator, so that memory does not grow with their number. Only the
clients' and the server's work is timed, not the drawing of the values. The truth is
the values that were drawn; the errors are those of all categories' counts beside what
the mechanism predicted before it saw anything. FILE is CSV with a header line, or
Parquet; its distinct values are the categories, which only a benchmark may do.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import fastdp

Shares: TypeAlias = npt.NDArray[np.float64]

ORACLES = {
    "randomized-response": fastdp.RandomizedResponse,
    "hadamard": fastdp.HadamardResponse,
    "local-hashing": fastdp.LocalHashing,
    "unary-encoding": fastdp.UnaryEncoding,
    "subset-selection": fastdp.SubsetSelection,
}

#: Users in memory at a time.
SLAB = 10**6


@dataclass(frozen=True)
class Result:
    """One run: seconds of both sides, and how far the counts are from the truth."""

    mechanism: Any
    users: int
    client: float
    server: float
    mean_absolute: float
    #: Root mean square over the categories, observed and predicted.
    root_mean_square: float
    predicted: float
    #: Largest error of a category, in its own predicted standard errors.
    largest: float
    #: Share of the 95 % intervals that hold the true count.
    covered: float


def zipf(categories: int) -> Shares:
    """Return the probabilities of a Zipf law with exponent 1."""
    weights: Shares = 1 / np.arange(1, categories + 1)
    weights /= weights.sum()
    return weights


def shares(path: Path, column: str | None) -> Shares:
    """Return how often each distinct value occurs in a column, as shares."""
    from pyarrow import compute, csv, parquet

    text = path.suffix.lower() == ".csv"
    table = csv.read_csv(path) if text else None
    own = parquet.read_schema(path).names if table is None else table.column_names
    names = [name.strip() for name in own]
    if column is not None and column.strip() not in names:
        raise SystemExit(f"{path} must have the column {column!r}")
    place = own[0 if column is None else names.index(column.strip())]
    if table is None:
        table = parquet.read_table(path, columns=[place])
    counts = compute.value_counts(table.column(place)).field("counts").to_numpy()
    if len(counts) < 2:
        raise SystemExit(f"{path} must have two distinct values in that column")
    falling: Shares = np.sort(counts)[::-1] / counts.sum()
    return falling


def slabs(
    probabilities: Shares, users: int, generator: np.random.Generator
) -> Iterator[npt.NDArray[np.uint32]]:
    """Yield the values of all users, in slabs and in random order."""
    labels = np.arange(len(probabilities), dtype=np.uint32)
    for start in range(0, users, SLAB):
        size = min(SLAB, users - start)
        values = np.repeat(labels, generator.multinomial(size, probabilities))
        generator.shuffle(values)
        yield values


def measure(mechanism: Any, probabilities: Shares, users: int, workers: int) -> Result:
    """Privatize and count the values of `users` users; time both sides."""
    categories = len(probabilities)
    truth = np.zeros(categories, np.int64)
    aggregator = mechanism.aggregator()
    client = server = 0.0
    for values in slabs(probabilities, users, np.random.default_rng()):
        truth += np.bincount(values, minlength=categories)
        start = time.perf_counter()
        reports = mechanism.release(values, workers=workers)
        middle = time.perf_counter()
        aggregator.add(reports, workers=workers)
        server += time.perf_counter() - middle
        client += middle - start
    start = time.perf_counter()
    estimate = aggregator.estimate()
    server += time.perf_counter() - start
    errors = estimate.counts - truth
    predicted = np.array(
        [
            mechanism.standard_error(users, frequency=Fraction(int(n), users))
            for n in truth
        ]
    )
    low, high = estimate.confidence_interval(0.95)
    return Result(
        mechanism=mechanism,
        users=users,
        client=client,
        server=server,
        mean_absolute=float(np.mean(np.abs(errors))),
        root_mean_square=float(np.sqrt(np.mean(errors**2))),
        predicted=float(np.sqrt(np.mean(predicted**2))),
        largest=float(np.max(np.abs(errors) / predicted)),
        covered=float(np.mean((low <= truth) & (truth <= high))),
    )


def hunt(epsilon: Fraction, users: int, workers: int) -> str:
    """Find frequent strings of 8 bytes, and return the lines that are printed.

    Of 1e5 strings by a Zipf law with exponent 1.2. The reports wait in a file, 12 bytes
    each, which every level of the hunt reads once.
    """
    generator = np.random.default_rng()
    strings = generator.integers(33, 127, (10**5, 8), np.uint8).view("S8").reshape(-1)
    law = 1 / np.arange(1, len(strings) + 1) ** 1.2
    mechanism = fastdp.PrefixHunt.from_epsilon(epsilon)
    client = server = 0.0
    with tempfile.TemporaryFile() as waiting:
        for values in slabs(law / law.sum(), users, generator):
            held = strings[values]
            start = time.perf_counter()
            reports = mechanism.release(held, workers=workers)
            client += time.perf_counter() - start
            waiting.write(reports.tobytes())
        level = mechanism.aggregator()
        while True:
            waiting.seek(0)
            size = SLAB * mechanism.report_width
            while content := waiting.read(size):
                start = time.perf_counter()
                level.add(
                    np.frombuffer(content, mechanism.report_dtype), workers=workers
                )
                server += time.perf_counter() - start
            if level.last:
                break
            level = level.next()
    found = level.estimate()
    top = {text.decode() for text in strings[: len(found.names)]}
    share = len(top & set(found.names)) / max(1, len(found.names))
    return "\n".join(
        [
            f"PrefixHunt, {mechanism.report_width} bytes a report",
            f"  clients    {_speed(users, client)}",
            f"  server     {_speed(users, server)}",
            f"  peak       {peak_bytes() / 1e6:10,.0f} MB of the process so far",
            (
                f"  found      {len(found.names):10} strings, {100 * share:.0f} % of "
                "them of the so many most frequent"
            ),
        ]
    )


def numbers(epsilon: Fraction, users: int, workers: int) -> str:
    """Estimate the mean of numbers in [0, 24], and return the lines that are printed.

    Of a gamma law with mean 3 and a tail beyond the bounds, as hours of use have.
    """
    mechanism = fastdp.LocalMean.from_epsilon(epsilon, bounds=(0, 24))
    generator, aggregator = np.random.default_rng(), mechanism.aggregator()
    total = client = server = 0.0
    for start in range(0, users, SLAB):
        hours = generator.gamma(2, 1.5, min(SLAB, users - start))
        total += float(hours.clip(0, 24).sum())
        begin = time.perf_counter()
        reports = mechanism.release(hours, workers=workers)
        middle = time.perf_counter()
        aggregator.add(reports, workers=workers)
        server += time.perf_counter() - middle
        client += middle - begin
    found = aggregator.estimate()
    low, high = found.confidence_interval(0.95)
    off = abs(found.mean - total / users) / found.standard_error
    return "\n".join(
        [
            f"LocalMean, {mechanism.report_width} bytes a report",
            f"  clients    {_speed(users, client)}",
            f"  server     {_speed(users, server)}",
            f"  peak       {peak_bytes() / 1e6:10,.0f} MB of the process so far",
            (
                f"  mean       {found.mean:10.5f}, true {total / users:.5f}, 95 % "
                f"interval [{low:.5f}, {high:.5f}]"
            ),
            (
                f"  error      {off:10.2f} standard errors of "
                f"{found.standard_error:.2g}, predicted at most "
                f"{mechanism.standard_error(users):.2g}"
            ),
        ]
    )


def peak_bytes() -> int:
    """Return the most memory that this process had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def describe(result: Result) -> str:
    """Return the lines that are printed for one run."""
    users, total = result.users, result.client + result.server
    mechanism = result.mechanism
    return "\n".join(
        [
            f"{type(mechanism).__name__}, {mechanism.report_width} bytes a report",
            f"  clients    {_speed(users, result.client)}",
            f"  server     {_speed(users, result.server)}",
            f"  together   {_speed(users, total)}",
            f"  peak       {peak_bytes() / 1e6:10,.0f} MB of the process so far",
            (
                f"  error      {result.mean_absolute:10,.0f} users, mean absolute; "
                f"root mean square {result.root_mean_square:,.0f}, "
                f"predicted {result.predicted:,.0f}"
            ),
            f"  largest    {result.largest:10.2f} predicted standard errors",
            f"  intervals  {100 * result.covered:10.1f} % hold the truth, of 95 %",
        ]
    )


def _speed(users: int, seconds: float) -> str:
    return f"{seconds:10.2f} s  {users / seconds / 1e6:10,.1f} million users a second"


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], allow_abbrev=False
    )
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, nargs="?", help="table: .csv or .parquet")
    add("--column", metavar="NAME", help="column of FILE (default: the first)")
    add("--users", metavar="N", type=float, default=1e8, help="default: 1e8")
    add("--epsilon", metavar="E", type=Fraction, default=Fraction(1), help="default: 1")
    add(
        "--categories",
        metavar="D",
        type=int,
        default=1024,
        help="of the Zipf law, without FILE (default: 1024)",
    )
    add(
        "--oracle",
        choices=["best", "all", *ORACLES],
        default="best",
        help="best (the default): with the least predicted error",
    )
    scene = parser.add_mutually_exclusive_group()
    scene.add_argument(
        "--hunt", action="store_true", help="frequent strings, by prefixes"
    )
    scene.add_argument("--numbers", action="store_true", help="the mean of numbers")
    add("--workers", metavar="N", type=int, default=1, help="threads (default: 1)")
    arguments = parser.parse_args(argv)
    for name, least in (("users", 1), ("categories", 2), ("workers", 1)):
        if not getattr(arguments, name) >= least:
            parser.error(f"--{name} must be >= {least}")
    return arguments


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    arguments = _arguments(argv)
    users, epsilon = int(arguments.users), arguments.epsilon
    if arguments.hunt:
        print(f"{users:,} users, 100,000 strings from a Zipf law of exponent 1.2")
        print(hunt(epsilon, users, arguments.workers), flush=True)
        return 0
    if arguments.numbers:
        print(f"{users:,} users, numbers in [0, 24] from a gamma law")
        print(numbers(epsilon, users, arguments.workers), flush=True)
        return 0
    if arguments.file is None:
        probabilities, origin = zipf(arguments.categories), "a Zipf law"
    else:
        probabilities = shares(arguments.file, arguments.column)
        origin = f"{arguments.file.name}, drawn again"
    categories = len(probabilities)
    best = fastdp.best_frequency_oracle(epsilon, categories=categories, users=users)
    if arguments.oracle == "best":
        mechanisms = [best]
    else:
        wanted = ORACLES if arguments.oracle == "all" else [arguments.oracle]
        mechanisms = [
            ORACLES[name].from_epsilon(epsilon, categories=categories)
            for name in wanted
        ]
    print(
        f"{users:,} users, {categories:,} categories from {origin}, epsilon = "
        f"{float(epsilon):g} a report, slabs of {SLAB:,}, workers = {arguments.workers}"
    )
    print(f"best for this: {type(best).__name__}")
    for mechanism in mechanisms:
        # The first call makes tables and touches pages.
        mechanism.release(np.zeros(1, np.uint32))
        print()
        print(
            describe(measure(mechanism, probabilities, users, arguments.workers)),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
