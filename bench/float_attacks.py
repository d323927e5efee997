"""Attacks on the noise of other libraries, before and after ours is put below them.

    python bench/float_attacks.py                # the libraries that are installed
    python bench/float_attacks.py --draws 5000

Each mechanism claims an epsilon for two inputs at distance 1. An audit (`fastdp.audit`)
draws from both and looks for outputs that only one of them gives: bits below those that
the other's can have, holes in the support, values seen before; and for likelier ones.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import Any

import fastdp
from fastdp import accounting, audit

CLAIM = {"epsilon": 1.0, "delta": 1e-5}
#: Of a multiplier of Gaussian noise at the claim.
SIGMA = 3.7306
CHECKS = ("precision", "privacy", "edges")

#: Library, mechanism, "before" or "after", one draw, what is claimed, and the inputs.
Case = tuple[str, str, str, Callable[[Any], Any], Any, tuple[float, float]]


def diffprivlib() -> Iterator[Case]:
    """Yield its mechanisms and ours under its names: the claim is their arguments."""
    from diffprivlib import mechanisms as before

    from fastdp.adapters.diffprivlib import mechanisms as after

    bounds = {"lower": -1000, "upper": 1000}
    for name, given, inputs in (
        ("Laplace", {"epsilon": 1.0}, (0.0, 1.0)),
        ("LaplaceTruncated", {"epsilon": 1.0, **bounds}, (0.0, 1.0)),
        ("Gaussian", CLAIM, (0.0, 1.0)),
        ("GaussianAnalytic", CLAIM, (0.0, 1.0)),
        ("Geometric", {"epsilon": 1.0}, (0, 1)),
        ("GaussianDiscrete", CLAIM, (0, 1)),
    ):
        claim = (1, given.get("delta", 0))
        for when, module in (("before", before), ("after", after)):
            m = getattr(module, name)(sensitivity=1, **given)
            yield "diffprivlib", name, when, m.randomise, claim, inputs


def opendp() -> Iterator[Case]:
    """Yield its measurements and ours in their place: their maps state the claims."""
    import opendp.prelude as dp

    from fastdp.adapters.opendp import to_measurement

    dp.enable_features("contrib", "honest-but-curious")
    real = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    whole = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    for name, space, one, theirs, ours in (
        ("laplace, f64", real, 1.0, dp.m.then_laplace(1.0), fastdp.Laplace(1)),
        ("gaussian, f64", real, 1.0, dp.m.then_gaussian(1.0), fastdp.Gaussian(1)),
        ("laplace, i64", whole, 1, dp.m.then_laplace(1.0), fastdp.DiscreteLaplace(1)),
        (
            "gaussian, i64",
            whole,
            1,
            dp.m.then_gaussian(1.0),
            fastdp.DiscreteGaussian(1),
        ),
    ):
        for when, what in (("before", theirs), ("after", to_measurement(ours))):
            m = space >> what
            event: Any = accounting.ZCDPEvent(m.map(one))
            if name.startswith("laplace"):
                event = accounting.PureDPEvent(m.map(one))
            yield "opendp", name, when, m, event, (one * 0, one)


def opacus() -> Iterator[Case]:
    """Yield steps of its optimizer and of ours, for a gradient of one number."""
    import torch
    from opacus import optimizers as before

    from fastdp.adapters import opacus as after

    def step(kind: Any, secure: bool) -> Callable[[float], float]:
        p = torch.nn.Parameter(torch.zeros(1))
        optimizer = kind(
            torch.optim.SGD([p], lr=1.0),
            noise_multiplier=SIGMA,
            max_grad_norm=1.0,
            expected_batch_size=1,
            secure_mode=secure,
        )

        def draw(x: float) -> float:
            optimizer.zero_grad()
            p.grad_sample = torch.tensor([[x]])
            optimizer.pre_step()
            return float(p.grad)

        return draw

    event = accounting.GaussianEvent(sensitivity=1, sigma=SIGMA)
    for name, secure in (("float32", False), ("secure mode", True)):
        for when, module in (("before", before), ("after", after)):
            draw = step(module.DPOptimizer, secure)
            yield "opacus", name, when, draw, event, (0.0, 1.0)


def pipeline_dp() -> Iterator[Case]:
    """Yield its additive mechanisms and ours, for sums at the claim."""
    from pipeline_dp import NoiseKind, budget_accounting, dp_computations

    from fastdp.adapters import pipeline_dp as after

    bounds = dp_computations.Sensitivities(l0=1, linf=1.0)
    for kind in (NoiseKind.LAPLACE, NoiseKind.GAUSSIAN):
        delta = CLAIM["delta"] if kind == NoiseKind.GAUSSIAN else 0
        spec = budget_accounting.MechanismSpec(kind.convert_to_mechanism_type())
        spec.set_eps_delta(1.0, delta)
        theirs = dp_computations.create_additive_mechanism(spec, bounds)
        for when, m in (("before", theirs), ("after", after._Additive(spec, bounds))):
            claim, inputs = (1, delta), (0.0, 1.0)
            yield "pipeline_dp", kind.value, when, m.add_noise, claim, inputs


def mbi() -> Iterator[Case]:
    """Yield one count of a marginal: with noise of numpy, as in its examples, and ours.

    mbi has no noise of its own.
    """
    import mbi as library
    import numpy as np

    from fastdp.adapters.mbi import measure

    rng, domain = np.random.default_rng(1), library.Domain(("a",), (1,))
    ours = fastdp.DiscreteGaussian(SIGMA, sensitivity=1, coordinates=1)
    tables = {n: library.Dataset({"a": np.zeros(n, int)}, domain) for n in (0, 1)}

    def before(n: int) -> float:
        exact = np.asarray(tables[n].project(("a",)).datavector())
        return float((exact + rng.normal(0, SIGMA, exact.size))[0])

    def after(n: int) -> float:
        return float(measure(ours, tables[n], [("a",)])[0].noisy_measurement[0])

    event = accounting.GaussianEvent(sensitivity=1, sigma=SIGMA)
    yield "mbi", "a count", "before", before, event, (0, 1)
    yield "mbi", "a count", "after", after, ours.event(), (0, 1)


def found(case: Case, draws: int) -> str:
    """Return what the audit found against a claim, by check."""
    *_, draw, claim, inputs = case
    report = audit.run(draw, neighbors=inputs, claim=claim, draws=draws)
    shown = []
    for check in CHECKS:
        finding = report.finding(check)
        if finding.status in ("refuted", "fault"):
            least = finding.epsilon if finding.epsilon is not None else math.nan
            shown.append(f"{check}: epsilon >= {least:.2f}")
    return ", ".join(shown) or "nothing"


def main() -> None:
    """Print a table of what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--draws", type=int, default=20_000)
    chosen = parser.parse_args()
    print(f"Claim: epsilon 1; {chosen.draws:,} draws of each input")
    for library in (diffprivlib, opendp, opacus, pipeline_dp, mbi):
        if importlib.util.find_spec(library.__name__) is None:
            print(f"{library.__name__}: not installed")
            continue
        for case in library():
            print(f"{case[0]:12} {case[1]:17} {case[2]:7} {found(case, chosen.draws)}")


if __name__ == "__main__":
    main()
