"""Shares of noise beside numpy's Poisson differences, in one run.

    python bench/shares.py [--entries 200000]

Nanoseconds of a processor for each entry: Skellam noise drawn here, numpy's difference
of two Poisson variables (floats decide, and its generator can be predicted), discrete
Gaussian noise of the same variance here; then `add_share` of all three kinds.
"""

from __future__ import annotations

import argparse
import sys
import time
from fractions import Fraction

import numpy as np
from turns import least

import fastdp
from fastdp import _points
from fastdp.accounting import SkellamEvent


def main() -> int:
    """Print a line for each variance of a share, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=200_000)
    n = parser.parse_args().entries
    generator, x = np.random.default_rng(7), np.zeros(n, np.int64)
    names = ("skellam", "numpy", "gaussian", "shares: skellam", "gaussian", "laplace")
    print("variance", *names, "skellam/numpy", "skellam/gaussian", sep="  ")
    for variance in (4, 100, 10_000, 1_000_000):
        gaussian = fastdp.DiscreteGaussian(variance**0.5, sensitivity=1)
        laplace = fastdp.DiscreteLaplace((variance / 2) ** 0.5, sensitivity=1)
        setting = {"parties": 1, "honest": 1, "modulus": 2**40}
        event = SkellamEvent(sensitivity=1, variance=Fraction(variance))
        skellam = fastdp.SkellamShares(of=event, **setting)
        kinds = skellam, gaussian.shares(**setting), laplace.shares(**setting)
        times = least(
            lambda v=variance: _points.skellam(n, Fraction(v), None),
            lambda v=variance: (
                generator.poisson(v / 2, n) - generator.poisson(v / 2, n)
            ),
            lambda m=gaussian: m.release(x),
            *(lambda k=kind: k.add_share(x) for kind in kinds),
            seconds=2,
            clock=time.thread_time,
        )
        shown = (f"{t / n * 1e9:.1f}" for t in times)
        ratios = f"{times[0] / times[1]:.2f}", f"{times[0] / times[2]:.0f}"
        print(variance, *shown, *ratios, sep="  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
