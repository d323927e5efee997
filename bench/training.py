"""A private training step beside opacus and torch: ratios of processor time, one run.

    python bench/training.py               # needs torch and opacus
    python bench/training.py --large       # noise on 100,000,000 entries, too: 2 GB

One thread. A ratio below 1 means that ours is faster. The step of a network is
forward, backward, clipping, noise and update; opacus's is the one without security.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from turns import least

with warnings.catch_warnings(action="ignore"):
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer as Theirs

    from fastdp.adapters.opacus import DPOptimizer as Ours
from fastdp.training import GradientSum

Line = tuple[str, Callable[[], Any], Callable[[], Any]]


def optimizer(kind: Any, parameters: Any, batch: int, **options: Any) -> Any:
    """Return an optimizer of opacus or ours."""
    return kind(
        torch.optim.SGD(parameters, lr=0.01),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=batch,
        **options,
    )


def sums(batch: int, entries: int) -> Iterator[Line]:
    """Yield clipping and summing, and that with noise, of one parameter."""
    rows = torch.randn(batch, entries) * torch.rand(batch, 1) * 2 / entries**0.5

    def step(kind: Any, noise: bool, **options: Any) -> Callable[[], None]:
        p = torch.nn.Parameter(torch.zeros(entries))
        made = optimizer(kind, [p], batch, **options)

        def run() -> None:
            made.zero_grad()
            p.grad_sample = rows.detach()  # another object: this one is not "processed"
            made.clip_and_accumulate()
            if noise:
                made.add_noise()

        return run

    name = f"{batch} x {entries:,}"
    yield f"clip and sum, {name}", step(Ours, False), step(Theirs, False)
    yield f"clip, sum, noise, {name}", step(Ours, True), step(Theirs, True)
    secure = step(Theirs, True, secure_mode=True)
    yield f"the same, its secure mode, {name}", step(Ours, True), secure


def noise(entries: int) -> Iterator[Line]:
    """Yield noise alone, with its conversion to float32 gradients."""
    m = GradientSum(sigma=1.0, radius=1.0, shapes=[(entries,)])
    out = [np.empty(entries, np.float32)]
    zero = torch.zeros(entries)
    name = f"noise, {entries:,}"
    ours = lambda: m.accumulator().release(out=out)  # noqa: E731
    yield f"{name}, torch.normal", ours, lambda: torch.normal(0.0, 1.0, (entries,))
    secure = lambda: Theirs.__init__.__globals__["_generate_noise"](  # noqa: E731
        std=1.0, reference=zero, secure_mode=True
    )
    yield f"{name}, its secure mode", ours, secure


def network(batch: int, width: int) -> Iterator[Line]:
    """Yield whole steps of a network with a hidden layer."""

    def step(kind: Any) -> Callable[[], None]:
        torch.manual_seed(1)
        hidden = torch.nn.Linear(width, width), torch.nn.ReLU()
        layers = torch.nn.Sequential(*hidden, torch.nn.Linear(width, 10))
        model = GradSampleModule(layers)
        made = optimizer(kind, model.parameters(), batch)
        x, y = torch.randn(batch, width), torch.randint(10, (batch,))

        def run() -> None:
            made.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            made.step()

        return run

    yield f"whole step, {batch} x width {width:,}", step(Ours), step(Theirs)


def main() -> None:
    """Print a line for each comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--large", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        noise(1_000_000),
        sums(64, 1_000_000),
        sums(256, 100_000),
        network(64, 1000),
        network(256, 300),
    ]
    if chosen.large:
        lines.append(noise(100_000_000))
    print(f"{'least processor time':44} {'ours':>10} {'theirs':>10} {'ratio':>6}")
    for group in lines:
        for name, *calls in group:
            large = "100,000,000" in name
            rounds = 1 if large else 9
            own, other = least(*calls, rounds=rounds, clock=time.process_time)
            figures = f"{own * 1e3:8.2f}ms {other * 1e3:8.2f}ms"
            print(f"{name:44} {figures} {own / other:6.2f}", flush=True)


if __name__ == "__main__":
    main()
