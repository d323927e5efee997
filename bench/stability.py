"""Medians: noise for a smooth sensitivity beside the exponential mechanism, in one run.

    python bench/stability.py [--runs RUNS] [--plot FILE]

Both are ours, pure, for one record replaced; diffprivlib's median is a third where it
is installed (the exponential mechanism in floats). Mean absolute errors of RUNS
releases, with the median error of the first, and microseconds a release. The picture
has the sensitivity after k records have changed, shrunk by e^(-smoothness k): its
largest value is the smooth sensitivity. It shows data: for public samples alone.
"""

from __future__ import annotations

import argparse
import math
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
    exponential = fastdp.Quantiles(
        0.5, bounds=bounds, epsilon=epsilon, neighboring_relation=_R
    )
    found: dict[str, Callable[[], float]] = {
        "smooth": lambda: fastdp.smooth_median(x, bounds=bounds, epsilon=epsilon),
        "quantiles": lambda: exponential.release(x),
    }
    try:
        from diffprivlib import tools
    except ImportError:
        return found
    found["diffprivlib"] = lambda: tools.median(x, epsilon=epsilon, bounds=bounds)
    return found


def draw(file: str, epsilon: float = 1) -> None:
    """Write a picture of shrunk sensitivities against the number of changed records."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    beta = epsilon / 6
    for name, (x, (low, high)) in DATA.items():
        if x.dtype.kind != "f":
            continue
        m, most = (len(x) - 1) // 2, 120
        near = np.concatenate(
            [np.full(most + 2, low), np.sort(x), np.full(most + 2, high)]
        )
        m += most + 2
        shrunk = [
            math.exp(-beta * k) * (near[m : m + k + 2] - near[m - k - 1 : m + 1]).max()
            for k in range(most)
        ]
        (line,) = axes.semilogy(np.array(shrunk) / (high - low), label=name)
        best = int(np.argmax(shrunk))
        axes.plot(best, shrunk[best] / (high - low), "o", color=line.get_color())
    axes.set(xlabel="changed records k", ylabel="shrunk sensitivity, of the range")
    axes.set_title(f"smoothness {beta:.3f}; dots: smooth sensitivity")
    axes.legend(fontsize="small")
    figure.savefig(file)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--plot", metavar="FILE", help="write a picture")
    arguments = parser.parse_args()
    runs = arguments.runs
    if arguments.plot:
        draw(arguments.plot)
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
    main()
