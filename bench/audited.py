"""Mechanisms of other libraries, audited; and another auditor on our planted faults.

    python bench/audited.py libraries --reports FOLDER
    python bench/audited.py auditorium --faults 12

`libraries` audits what is installed of diffprivlib, opendp, python-dp and pipeline-dp,
each at what its own documentation claims. `auditorium` needs DP-Auditorium, which is
a folder of github.com/google/differential-privacy, on PYTHONPATH, and TensorFlow.
docs/audits.md shows what both print.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from fastdp import audit
from fastdp.audit import _claims, _worker

#: A mechanism's name, its function, neighbors and claim.
Case = tuple[str, Callable[[Any], Any], Any, Any]

COUNTS, REALS, BOOLS = (0, 1), (0.0, 1.0), (False, True)
APPROXIMATE = (1, 1e-6)


def diffprivlib() -> Iterator[Case]:
    from diffprivlib import mechanisms, tools

    one = {"epsilon": 1, "sensitivity": 1}
    both = {"delta": 1e-6, **one}
    yield "Laplace", mechanisms.Laplace(**one).randomise, REALS, (1, 0)
    yield "Geometric", mechanisms.Geometric(**one).randomise, COUNTS, (1, 0)
    bounds = {"lower": -100, "upper": 100}
    yield "Snapping", mechanisms.Snapping(**one, **bounds).randomise, REALS, (1, 0)
    analytic = mechanisms.GaussianAnalytic(**both)
    yield "GaussianAnalytic", analytic.randomise, REALS, APPROXIMATE
    discrete = mechanisms.GaussianDiscrete(**both)
    yield "GaussianDiscrete", discrete.randomise, COUNTS, APPROXIMATE

    def mean(x: Any) -> Any:
        return tools.mean(x, epsilon=1, bounds=(0, 1))

    yield (
        "tools.mean",
        mean,
        (np.full(10, 0.5), np.append(np.full(9, 0.5), 1.0)),
        (1, 0),
    )


def opendp() -> Iterator[Case]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    ints = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    reals = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    yield "make_laplace, i64", dp.m.make_laplace(*ints, scale=1.0), COUNTS, (1, 0)
    yield "make_laplace, f64", dp.m.make_laplace(*reals, scale=1.0), REALS, (1, 0)
    normal = dp.m.make_gaussian(*reals, scale=1.0)
    from fastdp.accounting import ZCDPEvent

    yield "make_gaussian, f64", normal, REALS, ZCDPEvent(rho=0.5)
    answer = dp.m.make_randomized_response_bool(prob=0.75)
    claim = (answer.map(1), 0)
    yield "make_randomized_response_bool", answer, BOOLS, claim


def python_dp() -> Iterator[Case]:
    from pydp.algorithms import laplacian, numerical_mechanisms

    noise = numerical_mechanisms.LaplaceMechanism(1.0, 1.0)
    yield "LaplaceMechanism, int", noise.add_noise, COUNTS, (1, 0)
    yield "LaplaceMechanism, float", noise.add_noise, REALS, (1, 0)

    def total(x: Any) -> Any:
        bounds = {"lower_bound": 0, "upper_bound": 1, "dtype": "float"}
        return laplacian.BoundedSum(epsilon=1, **bounds).quick_result(x)

    yield "BoundedSum", total, ([0.5] * 9, [0.5] * 9 + [1.0]), (1, 0)


def pipeline_dp() -> Iterator[Case]:
    from pipeline_dp import dp_computations as made

    noise = made.LaplaceMechanism.create_from_epsilon(1.0, 1.0)
    yield "LaplaceMechanism", noise.add_noise, REALS, (1, 0)
    normal = made.GaussianMechanism.create_from_epsilon_delta(1.0, 1e-6, 1.0)
    yield "GaussianMechanism", normal.add_noise, REALS, APPROXIMATE


LIBRARIES = {
    "diffprivlib": diffprivlib,
    "opendp": opendp,
    "python-dp": python_dp,
    "pipeline-dp": pipeline_dp,
}


def libraries(draws: int, reports: Path | None) -> None:
    """Print a table of audits; write the reports as text."""
    print("| library | mechanism | claim | seconds | reported |\n|---|---|---|---|---|")
    for name, make in LIBRARIES.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            print(f"| {name} | is not installed | | | |")
            continue
        for what, mechanism, neighbors, claim in make():
            report = audit.run(
                lambda x, call=mechanism: call(x),
                neighbors=neighbors,
                claim=claim,
                draws=draws,
            )
            by = [f.check for f in report.findings if f.status in ("refuted", "fault")]
            cells = [f"{name} {version}", what, report.claim, f"{report.seconds:.0f}"]
            print(
                "|", " | ".join([*cells, ", ".join(by) or "nothing"]), "|", flush=True
            )
            if reports is not None:
                file = reports / f"{name} {what}.txt"
                file.write_text(str(report), encoding="utf-8")


def auditorium(most: int) -> None:
    """Give DP-Auditorium's testers as many draws as our audit of each fault has."""
    from tests.audit import planted

    _without_generators()
    _worker.PATIENCE = 2.0
    print("| fault | draws | audit | histogram | hockey stick |\n|---|---|---|---|---|")
    done = 0
    for name, (make, check, draws) in planted.FAULTS.items():
        given = make()
        x, y = given["neighbors"][:2]
        claim = _claims.read(given["claim"])[0]
        if (
            check not in ("privacy", "precision")
            or not isinstance(given["mechanism"], audit.Batched)
            or not isinstance(claim, _claims.PrivacyClaim)
            or len(claim.epsilons) != 1
            or isinstance(x, str)
            or np.ndim(x)
            or done == most
        ):
            continue  # their testers compare two samples of one number, at one pair
        done += 1
        start = time.perf_counter()
        report = audit.run(**given, draws=draws)
        by = [report.finding(c).status == "refuted" for c in ("privacy", "precision")]
        cells = [_said(any(by), time.perf_counter() - start)]
        function = make()["mechanism"].function
        first, second = (
            np.asarray(function(np.full(draws, z)), float).reshape(draws, -1)[:, 0]
            for z in (x, y)
        )
        for tester in _testers(claim, np.concatenate([first, second])):
            start = time.perf_counter()
            bounds = [
                tester.estimate_lower_bound(a, b, failure_probability=5e-10)
                for a, b in ((first, second), (second, first))
            ]
            rejected = any(map(tester.reject_property, bounds))
            cells.append(_said(rejected, time.perf_counter() - start))
        print(
            f"| {name.replace('_', ' ')} | {draws:,} | {' | '.join(cells)} |",
            flush=True,
        )


def _testers(claim: _claims.PrivacyClaim, both: np.ndarray) -> Iterator[Any]:
    """Yield their testers of (epsilon, delta), as they come."""
    from dp_auditorium.configs import privacy_property
    from dp_auditorium.configs import property_tester_config as configs
    from dp_auditorium.testers import histogram_tester, hockey_stick_tester

    pair = float(claim.epsilons[0]), float(claim.deltas[0])
    rule = privacy_property.ApproximateDp(*pair)
    low, high = np.quantile(both, (0.001, 0.999))
    yield histogram_tester.HistogramTester(
        configs.HistogramPropertyTesterConfig(
            test_discrete_mechanism=False,
            histogram_size=32,
            min_value=float(low),
            max_value=float(high),
            approximate_dp=rule,
        )
    )
    training = hockey_stick_tester.make_default_hs_training_config()
    yield hockey_stick_tester.HockeyStickPropertyTester(
        config=configs.HockeyStickPropertyTesterConfig(
            training_config=training, approximate_dp=rule
        ),
        base_model=hockey_stick_tester.make_default_hs_base_model(),
    )


def _without_generators() -> None:
    """Make the testers' packages importable without what generators of data need."""
    found = importlib.util.find_spec("dp_auditorium")
    if found is None or found.submodule_search_locations is None:
        raise SystemExit("put the folder python/dp_auditorium on PYTHONPATH")
    root = Path(next(iter(found.submodule_search_locations)))
    for name in ("", ".configs", ".testers"):
        package = types.ModuleType(f"dp_auditorium{name}")
        package.__path__ = [str(root / name.strip("."))]
        sys.modules[package.__name__] = package


def _said(found: bool, seconds: float) -> str:
    return f"{'found' if found else 'no'}, {seconds:.1f} s"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("libraries", "auditorium"))
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--faults", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.what == "libraries":
        libraries(arguments.draws, arguments.reports)
    else:
        auditorium(arguments.faults)


if __name__ == "__main__":
    main()
