"""Many counting queries at once: MWEM, the online form (PMW), and SmallDB.

    python examples/mwem.py [--small] [--plot FILE]

Hardt, Ligett, McSherry, "A simple and practical algorithm for differentially private
data release" (NIPS 2012); Hardt, Rothblum, "A multiplicative weights mechanism for
privacy-preserving data analysis" (FOCS 2010); Blum, Ligett, Roth, "A learning theory
approach to noninteractive database privacy" (STOC 2008), which is SmallDB.

Why it is private. A record added or removed moves every count q(D) by 0 or 1. Offline,
`fastdp.learning.MWEM` picks in each round the query that the weights answer worst, and
releases its count. Online, `SparseVector` tells which questions are answered badly and
pays for those alone. SmallDB picks a small data set by the exponential mechanism among
all of them. Weights are floats after the releases.
"""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
from _common import Row, bands, options, picture, tell

import fastdp
from fastdp import accounting, learning

BITS, RECORDS = 8, 20_000
Array = np.ndarray
WHY = ("80 of 1,344 questions cost", "1,000 records", "so SmallDB is no algorithm")


def records() -> Array:
    """Return bits of a stated law, shape (RECORDS, BITS)."""
    rng = np.random.default_rng(10)
    hidden = rng.random((RECORDS, 2)) < [0.3, 0.6]
    likely = np.array([[0.1, 0.4], [0.5, 0.9]])[*hidden.T.astype(int)]
    return rng.random((RECORDS, BITS)) < likely[:, None] * np.linspace(1, 0.4, BITS)


def model(epsilon: float, rounds: int) -> learning.MWEM:
    """Return the estimator for all queries "these three bits have these values"."""
    known = {"unit": "row", "neighboring_relation": "add_or_remove_one"}
    domain = (2,) * BITS
    return learning.MWEM(
        domain=domain, queries=3, epsilon=epsilon, max_iter=rounds, **known
    )


def reweighed(weights: Array, query: Array, more: float, n: float) -> Array:
    """Return weights after one step toward a count that is larger by `more`."""
    moved = weights * np.exp(query * np.clip(more / (2 * n), -1, 1))
    return moved * n / moved.sum()


def online(data: Array, queries: Array, epsilon: float, n: int, updates: int) -> Array:
    """Return answers to questions as they come, with at most so many updates.

    Costs epsilon: half for the vector, half for the counts of the updates. Errors are
    moved by at most 1, as the weights are public. n is public or noisy.
    """
    limit, half = 0.06 * n, epsilon / 2
    vector = fastdp.SparseVector(limit, epsilon=half, sensitivity=1, answers=updates)
    measure = fastdp.DiscreteLaplace.from_epsilon(epsilon / 2 / updates, sensitivity=1)
    weights, answers = np.full(data.size, n / data.size), []
    for query in queries:
        answer, exact = float(query @ weights), int(query @ data)
        if not vector.spent and vector.test(abs(exact - answer)):
            count = int(measure.release(exact))
            weights = reweighed(weights, query, 4 * (count - answer), n)
            answer = count
        answers.append(answer)
    return np.array(answers)


def small_db(
    counts: Array, queries: Array, epsilon: float, size: int
) -> tuple[Array, int]:
    """Return a data set of `size` records chosen among all, and how many there are.

    n is public and one record replaced: n times the largest error of a share moves by
    at most 1, and so the integer score, `size` times that, by `size`.
    """
    n = int(counts.sum())
    kinds = itertools.combinations_with_replacement(range(len(counts)), size)
    sets = np.array([np.bincount(s, minlength=len(counts)) for s in kinds])
    gaps = size * (queries @ counts) - n * (sets @ queries.T)
    relation = {"neighboring_relation": "replace_one"}
    choice = fastdp.ExponentialMechanism(epsilon, sensitivity=size, **relation)
    return sets[choice.select(-np.abs(gaps).max(axis=1))], len(sets)


def draw(file: str, errors: dict[str, dict[float, list[float]]], streams: dict) -> None:
    """Write largest errors against epsilon, and the online errors as they come."""
    figure, (left, right) = picture(2)
    bands(left, errors)
    left.set(xscale="log", yscale="log", xlabel="epsilon")
    left.set(ylabel="largest error of a query, records", title=f"{RECORDS:,} records")
    left.legend(fontsize="small")
    for name, values in streams.items():
        right.plot(values, ".", markersize=3, label=name)
    right.set(xlabel="question", ylabel="error, records", title="online, epsilon 1")
    right.legend(fontsize="small")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Answer all marginals of three bits, and print largest errors."""
    chosen = options(__doc__, "few runs").parse_args(arguments)
    runs, rounds = (3, 10) if chosen.small else (10, 12)
    grid = (0.1, 0.3, 1.0) if chosen.small else (0.03, 0.1, 0.3, 1.0, 3.0)
    x, tables = records(), math.comb(BITS, 3)
    queries = model(1, 1).fit(x).queries_
    data = np.bincount(x @ 2 ** np.arange(BITS)[::-1], minlength=2**BITS)
    exact = queries @ data
    errors: dict[str, dict[float, list[float]]] = {
        "MWEM": {},
        "noise on each count": {},
    }
    for epsilon in grid:
        noise = fastdp.DiscreteLaplace.from_epsilon(epsilon, sensitivity=tables)
        mwem = model(epsilon, rounds)
        spent = accounting.PureAccountant().compose(mwem.event()).epsilon(0)
        answers = {
            "MWEM": [mwem.fit(x).predict() for _ in range(runs)],
            "noise on each count": [noise.release(exact) for _ in range(runs)],
        }
        for name, values in answers.items():
            errors[name][epsilon] = [float(np.abs(v - exact).max()) for v in values]
    print(f"{len(queries)} queries, {data.size} kinds, {RECORDS:,} records")
    print(f"{'largest error, median':24}", *(f"{e:>9g}" for e in grid))
    for name, by_epsilon in errors.items():
        print(f"{name:24}", *(f"{np.median(v):9.0f}" for v in by_epsilon.values()))
    order = np.random.default_rng(1).permutation(np.tile(np.arange(len(queries)), 3))
    later = online(data, queries[order], 1.0, RECORDS, 80)
    flat = queries[order] @ np.full(data.size, RECORDS / data.size)
    streams = {
        "online multiplicative weights": np.abs(later - exact[order]),
        "weights never moved": np.abs(flat - exact[order]),
    }
    if chosen.plot:
        draw(chosen.plot, errors, streams)
    four = np.array([500, 200, 50, 250])
    eight = np.array(list(itertools.product((0, 1), repeat=4)))[1:9]
    size = math.ceil(math.log(8) / 0.5**2)
    small, sets = small_db(four, eight, 1.0, size)
    off = float(np.abs(eight @ (four / 1000 - small / size)).max())
    bound = 2 * RECORDS * math.sqrt(math.log(data.size) / rounds)
    bound += 10 * rounds * math.log(len(queries)) / grid[-1]
    mine = max(errors["MWEM"][grid[-1]])
    large = math.ceil(math.log(len(queries)) / 0.05**2)
    digits = math.log10(math.comb(data.size + large - 1, large))
    ratio = float(np.divide(*(np.mean(values) for values in streams.values())))
    return tell(
        [
            Row("MWEM: largest error", f"{bound:.0f}", mine, "a bound", (0, bound)),
            Row("MWEM: epsilon", f"{grid[-1]:g}", spent),
            Row("online: mean error, of never moving", "-", ratio, WHY[0], (0, 0.8)),
            Row("SmallDB: sets, 4 kinds and 9 records", "220", sets),
            Row("SmallDB: largest error of a share", "-", off, WHY[1], (0, 0.4)),
            Row(
                "SmallDB: digits of their number here", "-", digits, WHY[2], (360, 370)
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
