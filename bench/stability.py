"""Medians: noise for a smooth sensitivity beside the exponential mechanism, in one run.

    python bench/stability.py [RUNS]

Both are ours, pure, for one record replaced; diffprivlib's median is a third where it
is installed (the exponential mechanism in floats). Mean absolute errors of RUNS
releases, with the median error of the first, and microseconds a release.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import fastdp

_GENERATOR = np.random.default_rng(7)
_R = "replace_one"

DATA: dict[str, tuple[np.ndarray, tuple[float, float]]] = {
    "1,000 normal(40, 12)": (_GENERATOR.normal(40, 12, 1000), (0, 120)),
    "1,000 lognormal, bounds 1e6": (_GENERATOR.lognormal(10.5, 0.8, 1000), (0, 1e6)),
    "10,000 lognormal, bounds 1e9": (_GENERATOR.lognormal(10.5, 0.8, 10_000), (0, 1e9)),
    "540 at 30.0, 461 at 70.0": (np.repeat([30.0, 70.0], [540, 461]), (0, 100)),
    "540 at 30, 461 at 70": (np.repeat([30, 70], [540, 461]), (0, 100)),
}


def rivals(
    x: np.ndarray, bounds: tuple[float, float], epsilon: float
) -> dict[str, Callable[[], float]]:
    """Return one release of each kind, by name."""
    found: dict[str, Callable[[], float]] = {
        "smooth": lambda: fastdp.smooth_median(x, bounds=bounds, epsilon=epsilon),
        "quantiles": lambda: fastdp.quantiles(
            x, 0.5, bounds=bounds, epsilon=epsilon, neighboring_relation=_R
        ),
    }
    try:
        from diffprivlib import tools
    except ImportError:
        return found
    found["diffprivlib"] = lambda: tools.median(x, epsilon=epsilon, bounds=bounds)
    return found


def main(runs: int) -> None:
    """Print the table."""
    for name, (x, bounds) in DATA.items():
        truth = float(np.sort(x)[(len(x) - 1) // 2])
        for epsilon in (1, 0.1):
            parts = []
            for kind, call in rivals(x, bounds, epsilon).items():
                start = time.perf_counter()
                errors = [abs(float(call()) - truth) for _ in range(runs)]
                each = (time.perf_counter() - start) / runs * 1e6
                typical = f" ({np.median(errors):.3g})" if kind == "smooth" else ""
                parts.append(f"{kind} {np.mean(errors):.4g}{typical}, {each:.0f} us")
            print(f"{name:30s} epsilon {epsilon:<4}", "; ".join(parts))
    m = fastdp.SmoothSensitivity.from_epsilon(1, largest=100)
    start = time.perf_counter()
    for _ in range(runs):
        m.release(41.5, smooth_sensitivity=0.25)
    each = (time.perf_counter() - start) / runs * 1e6
    print(f"SmoothSensitivity.release {each:.0f} us")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
