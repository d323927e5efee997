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
import itertools
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from fastdp import audit
from fastdp.audit import _claims, _neighbors, _privacy, _time, _worker

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
    from tests.audit import planted, planted_calls

    _without_generators()
    _worker.PATIENCE = 2.0
    _time.clock = planted_calls.clock
    names = "histogram", "hockey stick", "MMD", "Renyi"
    print(f"| fault | draws | audit | {' | '.join(names)} |\n|---|---|---|{'---|' * 4}")
    found, left = Counter[str](), []
    for name, (make, check, draws) in itertools.islice(planted.FAULTS.items(), most):
        given = make()
        claim = _claims.read(given["claim"])[0]
        if check not in _privacy.TRIED or isinstance(claim, _claims.LawClaim):
            left.append(name)
            continue  # they test a pair (epsilon, delta) with samples
        report = audit.run(**given, draws=draws)
        by = [
            f
            for f in report.findings
            if f.check in _privacy.TRIED and f.status in ("refuted", "fault")
        ]
        shown = report.finding(check).input
        try:
            samples = _samples(make(), shown, draws)
        except (Exception, KeyboardInterrupt):
            left.append(name)
            continue  # an outcome is no number
        cells = [_said(bool(by), report.seconds)]
        found.update(["audit"] * bool(by))
        for what, make_tester in zip(names, _testers(claim, samples), strict=True):
            if what == "Renyi" and max(claim.deltas) > 0:
                cells.append("")  # it tests pure claims
                continue
            start = time.perf_counter()
            try:
                rejected = _rejected(make_tester(), samples, what == "histogram")
            except Exception as error:
                cells.append(type(error).__name__)
                continue
            found.update([what] * rejected)
            cells.append(_said(rejected, time.perf_counter() - start))
        row = [name.replace("_", " "), f"{draws:,}", *cells]
        print(f"| {' | '.join(row)} |", flush=True)
    print(f"\nFound: {dict(found)}. Not expressible: {', '.join(left)}")


def _samples(given: dict[str, Any], shown: str, draws: int) -> list[np.ndarray]:
    """Return samples of the pair of inputs that our report shows."""
    pairs = _neighbors.pairs_of(given["neighbors"])
    pairs += _neighbors.edges_of(pairs[0])
    pair = next(p for p in pairs if p.text == shown)
    mechanism, found = given["mechanism"], []
    for x in (pair.first, pair.second):
        if isinstance(mechanism, audit.Batched):
            stack = np.repeat(np.asarray(x)[None], draws, axis=0)
            outputs = np.asarray(mechanism.function(stack))
        else:
            outputs = np.asarray([mechanism(x) for _ in range(draws)])
        found.append(outputs.astype(float).reshape(draws, -1))
    return found


def _rejected(tester: Any, samples: Sequence[np.ndarray], one: bool) -> bool:
    """Return whether a tester rejects, in one direction or the other."""
    first, second = (x[:, 0] if one else x for x in samples)
    bounds = [
        tester.estimate_lower_bound(a, b, failure_probability=5e-10)
        for a, b in ((first, second), (second, first))
    ]
    return any(bool(tester.reject_property(bound)) for bound in bounds)


def _testers(
    claim: _claims.PrivacyClaim, samples: Sequence[np.ndarray]
) -> Iterator[Callable[[], Any]]:
    """Yield functions that make their testers, with the models they come with."""
    from dp_auditorium.configs import privacy_property
    from dp_auditorium.configs import property_tester_config as configs
    from dp_auditorium.testers import (
        histogram_tester,
        hockey_stick_tester,
        mmd_tester,
        renyi_tester,
    )

    at = int(np.argmin(np.abs(claim.deltas - 0.1)))  # of several pairs
    pair = float(claim.epsilons[at]), float(claim.deltas[at])
    rule = privacy_property.ApproximateDp(*pair)
    low, high = np.nanquantile(np.concatenate(samples)[:, 0], (0.001, 0.999))
    yield lambda: histogram_tester.HistogramTester(
        configs.HistogramPropertyTesterConfig(
            test_discrete_mechanism=False,
            histogram_size=32,
            min_value=float(low),
            max_value=float(high),
            approximate_dp=rule,
        )
    )
    yield lambda: hockey_stick_tester.HockeyStickPropertyTester(
        config=configs.HockeyStickPropertyTesterConfig(
            training_config=hockey_stick_tester.make_default_hs_training_config(),
            approximate_dp=rule,
        ),
        base_model=hockey_stick_tester.make_default_hs_base_model(),
    )
    kernel = configs.Kernel.KERNEL_LAPLACIAN
    yield lambda: mmd_tester.MMDPropertyTester(
        configs.MMDPropertyTesterConfig(
            kernel=kernel, bandwidth=1.0, approximate_dp=rule
        )
    )
    training = hockey_stick_tester.make_default_hs_training_config()
    training.model_output_coordinate_bound = 1.0
    pure = privacy_property.PureDp(pair[0])
    yield lambda: renyi_tester.RenyiPropertyTester(
        config=configs.RenyiPropertyTesterConfig(
            alpha=2.0,
            training_config=training,
            privacy_property=privacy_property.PrivacyProperty(pure_dp=pure),
        ),
        base_model=renyi_tester.make_default_renyi_base_model(),
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
