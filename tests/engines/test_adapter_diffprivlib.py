"""diffprivlib: our noise under its names, its models on top, its own tests."""

import importlib.metadata
import inspect
import math
import re
import secrets
import subprocess
import sys
import warnings
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fastdp
from fastdp.adapters import _library
from fastdp.adapters.diffprivlib import mechanisms
from fastdp.exceptions import DTypeError, UnsupportedEventError
from tests.engines.conftest import ROOT, needs

needs("diffprivlib")
theirs = pytest.importorskip("diffprivlib.mechanisms")

#: Each class with arguments, and the mechanism of ours that is below it.
NUMBERS = [
    ("Laplace", {"epsilon": 0.5}, fastdp.Laplace),
    ("Laplace", {"epsilon": 0.5, "delta": 0.25}, fastdp.Laplace),
    ("Laplace", {"epsilon": 0.0, "delta": 0.25}, fastdp.Laplace),
    ("LaplaceTruncated", {"epsilon": 0.5, "lower": 0, "upper": 2}, fastdp.Laplace),
    ("LaplaceFolded", {"epsilon": 0.5, "lower": 0, "upper": 2}, fastdp.Laplace),
    ("Gaussian", {"epsilon": 0.5, "delta": 1e-5}, fastdp.Gaussian),
    ("GaussianAnalytic", {"epsilon": 3.0, "delta": 1e-5}, fastdp.Gaussian),
    ("GaussianDiscrete", {"epsilon": 3, "delta": 1e-5}, fastdp.DiscreteGaussian),
    ("Geometric", {"epsilon": 0.5}, fastdp.DiscreteLaplace),
    (
        "GeometricTruncated",
        {"epsilon": 1, "lower": 0, "upper": 2},
        fastdp.DiscreteLaplace,
    ),
    ("GeometricFolded", {"epsilon": 1, "lower": 0, "upper": 2}, fastdp.DiscreteLaplace),
]


def made(name, arguments, sensitivity=2):
    return getattr(mechanisms, name)(**arguments, sensitivity=sensitivity)


@pytest.mark.parametrize(("name", "arguments", "kind"), NUMBERS)
def test_the_noise_is_ours_and_keeps_what_is_claimed(name, arguments, kind):
    m = made(name, arguments)
    assert isinstance(m, getattr(theirs, name))
    noise = m._noise(m.epsilon, m.delta, m.sensitivity)
    assert type(noise) is kind
    assert noise.delta(m.epsilon) <= m.delta
    # Calibrated, not just safe: with a hundredth less epsilon the claim is false.
    if m.epsilon and not (name == "Laplace" and m.delta):
        assert noise.delta(m.epsilon * 0.99) > m.delta
    assert repr(m).startswith("fastdp.adapters.diffprivlib.mechanisms." + name)


@pytest.mark.parametrize(("name", "arguments", "kind"), NUMBERS)
def test_releases_are_near_the_value_and_of_its_kind(name, arguments, kind):
    integral = kind in (fastdp.DiscreteLaplace, fastdp.DiscreteGaussian)
    m = made(name, arguments)
    values = [m.randomise(1) for _ in range(50)]
    assert {type(v) for v in values} <= ({int} if integral else {float, int})
    assert all(abs(v - 1) < 1000 for v in values)  # more has a chance below 1e-50
    assert len(set(values)) > 1
    if "lower" in arguments:
        assert all(0 <= v <= 2 for v in values)
    else:  # of any size, and no number raises
        for x in (
            (2**70, np.int64(5)) if integral else (1e308, -math.inf, math.nan, 2**70)
        ):
            assert math.isfinite(m.randomise(x))
    if not integral:  # floats lie on a grid that is public
        step = m._noise(m.epsilon, m.delta, m.sensitivity).granularity
        assert all(Fraction(v) % step == 0 for v in values if 0 < v < 2)


def test_the_noise_of_gaussians_is_the_least():
    classic = theirs.Gaussian(epsilon=1, delta=1e-5, sensitivity=1)
    analytic = theirs.GaussianAnalytic(epsilon=1, delta=1e-5, sensitivity=1)
    arguments = {"epsilon": 1, "delta": 1e-5}
    for name in ("Gaussian", "GaussianAnalytic"):
        ours = made(name, arguments, sensitivity=1)
        assert ours._scale < classic._scale
        assert ours._scale == pytest.approx(analytic._scale, rel=1e-6)
        assert ours.variance(0) == ours._scale**2


def test_choices_follow_our_laws():
    m = mechanisms.Exponential(
        epsilon=50,
        sensitivity=1,
        utility=[0, 30],
        measure=[1, 0],
        candidates=["a", "b"],
    )
    assert m.randomise() == "a"  # the other has measure 0
    m = mechanisms.PermuteAndFlip(epsilon=9, sensitivity=1, utility=[0, 2**40, 1.5])
    assert m.randomise() == 1
    for kind in (mechanisms.Exponential, mechanisms.PermuteAndFlip):
        m = kind(epsilon=math.inf, sensitivity=1, utility=[1, 3, 3, 2])
        assert {m.randomise() for _ in range(200)} == {1, 2}
    labels = mechanisms.Binary(epsilon=80, value0="no", value1="yes")
    assert [labels.randomise(x) for x in ("no", "yes")] == ["no", "yes"]
    tree = mechanisms.ExponentialHierarchical(
        epsilon=200, hierarchy=[["a", "b"], ["c"]]
    )
    assert {x: tree.randomise(x) for x in "abc"} == {x: x for x in "abc"}


def test_a_factor_of_two_is_saved_where_sums_of_weights_are_equal_exactly(monkeypatch):
    seen = []

    class Spy(fastdp.ExponentialMechanism):
        def __init__(self, *positional, **options):
            seen.append(options["monotonic"])
            super().__init__(*positional, **options)

    monkeypatch.setattr(mechanisms.ours, "ExponentialMechanism", Spy)
    almost = [("a", "b", 1), ("b", "c", 1), ("a", "c", 1 - 1e-9)]
    equal = [("a", "b", 1), ("b", "c", 1), ("a", "c", 1)]
    for pairs in (almost, equal):
        m = mechanisms.ExponentialCategorical(epsilon=1, utility_list=pairs)
        assert m._balanced_tree  # so says diffprivlib, of both
        m.randomise("a")
    assert seen == [False, True]


@pytest.mark.parametrize("seed", [0, 42, np.random.RandomState(0)])
def test_a_seed_is_refused(seed):
    with pytest.raises(
        DTypeError, match=r"random_state must be None .* knows the noise"
    ):
        mechanisms.Laplace(epsilon=1, sensitivity=1, random_state=seed)
    m = mechanisms.Laplace(
        epsilon=1, sensitivity=1, random_state=secrets.SystemRandom()
    )
    with pytest.raises(DTypeError):
        m.random_state = seed


def test_classes_without_a_counterpart_say_why():
    everything = {
        name
        for name, kind in vars(theirs).items()
        if inspect.isclass(kind) and not inspect.isabstract(kind)
    }
    refused = everything - set(mechanisms.__all__) - {"TruncationAndFoldingMixin"}
    assert refused == set(mechanisms._REFUSED)
    for name in refused:
        with pytest.raises(UnsupportedEventError, match=f"{name} has no counterpart"):
            getattr(mechanisms, name)
    with pytest.raises(AttributeError):
        _ = mechanisms.Cauchy


def test_a_version_that_was_not_tested_is_named(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.7.1")
    with pytest.warns(match=r"diffprivlib >= 0.6 and < 0.7, not with 0.7.1"):
        _library.load("diffprivlib", package="diffprivlib", tested=("0.6", "0.7"))


def test_a_model_of_its_own_trains_over_our_noise(monkeypatch):
    """Its classes look their mechanisms up in the module that imported them."""
    from diffprivlib.models import naive_bayes, standard_scaler
    from diffprivlib.tools import utils

    used = []
    for module in (naive_bayes, standard_scaler, utils):
        for name in mechanisms.__all__:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(mechanisms, name))
                used.append(name)
    assert {"LaplaceTruncated", "GeometricTruncated"} <= set(used)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 2))
    y = (x[:, 0] > 0).astype(int)
    x[:, 0] += y
    bounds = ([-5, -5], [5, 5])
    with warnings.catch_warnings(action="ignore"):
        model = naive_bayes.GaussianNB(epsilon=5, bounds=bounds).fit(x, y)
        mean = utils.mean(x[:, 1], epsilon=5, bounds=(-5, 5))
    assert (model.predict(x) == y).mean() > 0.9
    assert abs(mean) < 0.2
    monkeypatch.setattr(naive_bayes, "LaplaceTruncated", None)
    with pytest.raises(TypeError):  # it is what the model draws from
        naive_bayes.GaussianNB(epsilon=5, bounds=bounds).fit(x, y)


def test_their_own_tests_differ_where_we_say_so(tmp_path):
    """Seeds are dropped by the plugin; the names of the tests fix the bytes."""
    # Their wheel installs a package `tests`, which would hide ours: .ci/run renames it.
    root = Path(theirs.__file__).parents[2] / "diffprivlib_tests" / "mechanisms"
    files = [root / f"test_{name}.py" for name in mechanisms.__all__]
    options = "-q -rf --tb=no -p no:cacheprovider --import-mode=importlib"
    plugins = "-p tests.randomness -p tests.engines.their_mechanisms"
    # Without a root the names would hold the path of this environment.
    options += f" --rootdir={root}"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *f"{options} {plugins}".split(), *files],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = Counter(re.findall(r"^FAILED \S+::(\w+)", run.stdout, re.M))
    counts = {n: int(v) for v, n in re.findall(r"(\d+) (passed|failed)", run.stdout)}
    said = run.stdout[-2000:] + run.stderr[-2000:]
    assert counts["passed"] + counts["failed"] == 236, said
    assert counts["failed"] == failed.total(), said
    # Seeds are refused. The others compare ratios of counts so closely that sound noise
    # fails them in some runs, theirs too; another processor's cipher gives other bytes.
    assert failed.pop("test_random_state") == 14, said
    assert set(failed) <= {"test_monotonic_distrib", "test_non_uniform_measure"}, said
