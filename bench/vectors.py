"""Vectors from users: a client and the server beside numpy, in one run.

    python bench/vectors.py [--dimension 100] [--words 256]

PrivUnitG's code in numpy, as it is written down: normal numbers from a generator that
is seeded by each report's public seed, their matrix product with the vector, the near
words by partition; the server draws them all again up to the reported word. Floats, and
not secure. The product alone, of words that somebody had drawn before, is the third.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from turns import least

import fastdp

EPSILON, USERS = 4, 2000


def main() -> int:
    """Print microseconds for each user, and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--words", type=int, default=256)
    arguments = parser.parse_args()
    d, words = arguments.dimension, arguments.words
    m = fastdp.VectorResponse.from_epsilon(EPSILON, dimension=d, words=words)
    generator = np.random.default_rng(7)
    x = generator.normal(size=(USERS, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    reports = m.release(x)
    few, kept = 100, generator.normal(size=(words, d))

    def client() -> list[int]:
        found = []
        for row in x[:few]:
            code = np.random.default_rng(generator.integers(2**63))
            order = np.argpartition(code.normal(size=(words, d)) @ row, -m.near)
            near = generator.random() < m.p
            found.append(generator.choice(order[-m.near :] if near else order))
        return found

    def server() -> Any:
        total = np.zeros(d)
        for seed, value in reports[:few].tolist():
            code = np.random.default_rng(seed)
            total += code.normal(size=(value + 1, d))[-1]
        return total

    def product() -> Any:
        return [kept @ row for row in x[:few]]

    own, added, drawn, again, multiplied = least(
        lambda: m.release(x),
        lambda: m.estimate(reports),
        client,
        server,
        product,
        rounds=5,
        clock=time.process_time,
    )
    print(f"{words} words of {d} numbers, epsilon {EPSILON}: microseconds a user")
    print(f"{'':10} {'ours':>9} {'numpy':>9} {'ratio':>7}")
    for name, one, other in (
        ("client", own / USERS, drawn / few),
        ("server", added / USERS, again / few),
        ("product", own / USERS, multiplied / few),
    ):
        print(f"{name:10} {one * 1e6:9.2f} {other * 1e6:9.2f} {other / one:7.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
