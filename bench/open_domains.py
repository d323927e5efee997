"""Strings that nobody listed, beside pure-ldp where it is installed, in one run.

    python bench/open_domains.py [--users 1e6] [--rival-users 2000]

Clients and server of a count-mean sketch (1024 rows and buckets, Hadamard response)
for each report and query, and a whole prefix hunt on the same users as the rival's.
pure-ldp draws its noise from numpy and `random`, neither of which is secure.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from turns import least

import fastdp

EPSILON, ROWS, BUCKETS = 2, 1024, 1024


def column(texts: list[str]) -> Any:
    """Return texts as a column of Arrow's, as a list without pyarrow."""
    try:
        import pyarrow as pa
    except ImportError:
        return texts
    return pa.array(texts)


def sketch(users: int) -> tuple[float, float, float]:
    """Return seconds for a report, for adding one, and for a query."""
    m = fastdp.CountMeanSketch.from_epsilon(EPSILON, rows=ROWS, buckets=BUCKETS)
    values = column([f"{n % 5000}.example" for n in range(users)])
    reports = m.release(values)
    made = m.aggregator().add(reports).estimate()
    asked = values[: min(users, 100_000)]
    release, add, query = least(
        lambda: m.release(values, out=reports),
        lambda: m.aggregator().add(reports),
        lambda: made.of(asked),
    )
    return release / users, add / users, query / len(asked)


def rival_sketch(users: int) -> tuple[float, float, float]:
    """Return the same for pure-ldp's HCMS."""
    from pure_ldp.frequency_oracles.apple_cms import CMSClient, CMSServer

    server = CMSServer(EPSILON, ROWS, BUCKETS, is_hadamard=True)
    client = CMSClient(EPSILON, server.hash_funcs, BUCKETS, is_hadamard=True)
    values = [f"{n % 5000}.example" for n in range(users)]
    asked = values[:100]
    reports: list[Any] = []
    release, add, _, query = least(
        lambda: reports.extend(client.privatize(value) for value in values),
        lambda: [server.aggregate(report) for report in reports],
        lambda: server.estimate("0.example", suppress_warnings=True),
        lambda: [server.estimate(value, suppress_warnings=True) for value in asked],
        rounds=1,
    )
    return release / users, add / users, query / len(asked)


def held(users: int) -> list[int]:
    """Return values of 16 bits by a Zipf law."""
    shares = 1 / np.arange(1, 1001) ** 1.2
    places = np.random.default_rng(1).choice(1000, users, p=shares / shares.sum())
    return [int(place) * 64 + 7 for place in places]


def hunt(users: int) -> tuple[float, float]:
    """Return seconds of all clients and of the server."""
    m = fastdp.PrefixHunt.from_epsilon(EPSILON, bits=16, groups=2, most=8)
    values = np.array(held(users), ">u2").view("S2")
    reports = m.release(values)
    made, found = least(lambda: m.release(values, out=reports), lambda: m.find(reports))
    return made, found


def rival_hunt(users: int) -> tuple[float, float]:
    """Return the same for pure-ldp's PEM: lengths 11 and 16 where we have 12 and 16."""
    from pure_ldp.heavy_hitters.prefix_extending import PEMClient, PEMServer

    options: dict[str, Any] = {
        "start_length": 6,
        "max_string_length": 16,
        "fragment_length": 5,
        "alphabet": ["0", "1"],
    }
    client, server = PEMClient(EPSILON, **options), PEMServer(EPSILON, **options)
    values = [f"{value:016b}" for value in held(users)]
    reports: list[Any] = []

    def make() -> None:
        reports.extend(client.privatize(value) for value in values)

    def find() -> None:
        for report in reports:
            server.aggregate(report)
        server.find_heavy_hitters(k=8)

    made, found = least(make, find, rounds=1)
    return made, found


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--users", type=float, default=1e6)
    parser.add_argument("--rival-users", type=float, default=2000)
    arguments = parser.parse_args(argv)
    users, few = int(arguments.users), int(arguments.rival_users)
    own, own_hunt = sketch(users), hunt(few)
    zeros: Any = np.zeros
    try:
        # The rival asks for arrays of the shape None, which numpy 2 refuses.
        np.zeros = lambda shape, *a, **k: zeros(() if shape is None else shape, *a, **k)  # type: ignore[assignment]
        rival, other_hunt = rival_sketch(few), rival_hunt(few)
    except ImportError:
        print("pure-ldp is not installed: no rival")
        rival, other_hunt = (float("nan"),) * 3, (float("nan"),) * 2
    finally:
        np.zeros = zeros
    print(f"{'':24}{'fastdp':>14}{'pure-ldp':>14}{'ratio':>10}")
    for name, a, b in zip(("report", "add", "query"), own, rival, strict=True):
        line = f"{1e9 * a:11,.1f} ns{1e9 * b:11,.0f} ns{b / a:10,.0f}"
        print(f"{'sketch, ' + name:24}{line}")
    for name, a, b in zip(("clients", "server"), own_hunt, other_hunt, strict=True):
        print(
            f"{'hunt, ' + name:24}{1e3 * a:11,.2f} ms{1e3 * b:11,.0f} ms{b / a:10,.0f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
