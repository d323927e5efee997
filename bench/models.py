"""Models beside diffprivlib, on made-up records and on data sets of scikit-learn.

    pip install diffprivlib "scikit-learn<1.7"
    PYTHONPATH=. python bench/models.py [--runs 20] [--only linear] [--toml FILE]

Pure epsilon on both sides, the same records, bounds and number of runs. Ours are the
estimators of `fastdp.learning`, twice: for one record added or removed, and for one
replaced, which takes twice the noise. Theirs are for one replaced. An error is the
excess over the best model without privacy: the mean of all runs, its standard error and
the median. A row says so if our mean is above theirs, and if that is more than three
standard errors; the note says why. Bounds of data sets are their own least and largest
numbers: right for a comparison, not for a release. --toml writes the figures of
docs/learning.md.
"""

from __future__ import annotations

import argparse
import functools
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fastdp import learning

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import kmeans
import logistic
import pca
import regression

ADDED, REPLACED = "add_or_remove_one", "replace_one"
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One model on one set of records, and a run of each side for an epsilon."""

    what: str
    theirs: Callable[[float], float]
    ours: Callable[..., float]


#: How their models differ, by the source of diffprivlib 0.6.6.
NOTES = {
    "k-means": (
        "Theirs: Lloyd's rounds too, their number by epsilon and n; counts are charged "
        "for a record added or removed; a cluster without records keeps its center "
        "without noise, which shows; the first centers are drawn anew in each run."
    ),
    "linear": (
        "Theirs: the functional mechanism. The means of x and of y get epsilon/(d + 1) "
        "each and the rest epsilon d/(d + 1): it spends epsilon (1 + 1/(d + 1)). A "
        "noisy matrix that is not positive has no minimum: hence means without bound. "
        "Ours takes eigenvalues below the noise for the noise, and weighs records far "
        "out less."
    ),
    "logistic": (
        "Theirs: objective perturbation (C = 1): one draw of spherical noise over the "
        "reals at the full epsilon, private at the exact minimizer, which lbfgs comes "
        "near. Ours: four exact releases share epsilon, with integer Laplace noise for "
        "L1, which rows bounded in L2 pay for. Where products are mostly noise, all "
        "four release the sums of the classes, which need few numbers. With a delta "
        "ours has Gaussian noise."
    ),
    "components": (
        "Theirs: eigenvectors one after another by the exponential mechanism (Bingham "
        "law over the reals, by rejection), a third of epsilon each and a third for "
        "the eigenvalues: loss ~ 1/(n epsilon). One fit of ten dimensions took 32 "
        "seconds at epsilon 0.3, hence few here. Ours: one matrix with noise, whose "
        "loss falls with the square of n epsilon."
    ),
}


def public(e: float, relation: str, bounds: Any = (-1, 1)) -> dict[str, Any]:
    """Return what each of our estimators is told."""
    known = {"bounds": bounds, "unit": "row", "epsilon": e}
    return {**known, "neighboring_relation": relation}


def scaled(x: Array) -> Array:
    """Return records between -1 and 1, by the least and largest of each feature."""
    low, high = x.min(0), x.max(0)
    return 2 * (x - low) / (high - low) - 1


def box(x: Array) -> tuple[Array, Array]:
    """Return bounds for diffprivlib, which takes arrays."""
    return -np.ones(x.shape[1]), np.ones(x.shape[1])


def clusters(name: str, x: Array, k: int) -> Case:
    """Return k-means on records between -1 and 1."""
    from diffprivlib.models import KMeans
    from sklearn import cluster

    least = -cluster.KMeans(k, n_init=10, random_state=0).fit(x).score(x) / len(x)

    def error(model: Any) -> float:
        return kmeans.loss(x, model.fit(x).cluster_centers_) / least - 1

    return Case(
        f"k-means, {name}: loss over Lloyd's, less 1",
        lambda e: error(KMeans(k, epsilon=e, bounds=box(x))),
        lambda e, relation: error(learning.KMeans(k, **public(e, relation))),
    )


def line(name: str, x: Array, y: Array) -> Case:
    """Return linear regression on records and targets between -1 and 1."""
    from diffprivlib.models import LinearRegression
    from sklearn import linear_model

    best = linear_model.LinearRegression().fit(x, y).score(x, y)

    def theirs(e: float) -> float:
        model = LinearRegression(epsilon=e, bounds_X=box(x), bounds_y=(-1, 1))
        return float(best - model.fit(x, y).score(x, y))

    def ours(e: float, relation: str) -> float:
        model = learning.LinearRegression(y_bounds=(-1, 1), **public(e, relation))
        return best - model.fit(x, y).score(x, y)

    what = f"variance of y lost, of {best:.3f} that are explained"
    return Case(f"linear, {name}: {what}", theirs, ours)


def classes(name: str, x: Array, y: Array, norm: float) -> Case:
    """Return logistic regression on records between -1 and 1, or shorter than norm."""
    from diffprivlib.models import LogisticRegression
    from sklearn import linear_model

    best = linear_model.LogisticRegression(max_iter=1000).fit(x, y).score(x, y)

    def theirs(e: float) -> float:
        model = LogisticRegression(epsilon=e, data_norm=norm, max_iter=500)
        return float(best - model.fit(x, y).score(x, y))

    def ours(e: float, relation: str) -> float:
        own = {"classes": np.unique(y), "data_norm": norm}
        model = learning.LogisticRegression(**own, **public(e, relation))
        return best - model.fit(x, y).score(x, y)

    what = f"records in a wrong class, beyond the best model's {1 - best:.3f}"
    return Case(f"logistic, {name}: {what}", theirs, ours)


def axes(name: str, x: Array, norm: float, *, centered: bool) -> Case:
    """Return two principal components of records between -1 and 1."""
    from diffprivlib.models import PCA

    own = {"data_norm": norm, "centered": centered}
    around = x if centered else x - x.mean(axis=0)
    most = pca.captured(around, pca.components(around.T @ around, 2))

    def error(model: Any) -> float:
        return most - pca.captured(around, model.fit(x).components_.T)

    return Case(
        f"components, {name}: variance lost by 2, of {most:.3f}",
        lambda e: error(PCA(2, epsilon=e, bounds=box(x), **own)),
        lambda e, relation: error(learning.PCA(2, **own, **public(e, relation))),
    )


def cases(kind: str) -> Iterator[Case]:
    """Yield the cases of one kind of model."""
    from sklearn import datasets

    real = {
        name: getattr(datasets, f"load_{name}")(return_X_y=True)
        for name in ("iris", "wine", "breast_cancer", "diabetes")
    }
    names = {
        name: f"{name}, {len(x):,} x {x.shape[1]}" for name, (x, _) in real.items()
    }
    if kind == "k-means":
        yield clusters("4 blobs, 5,000 x 2", kmeans.blobs(5_000).clip(-1, 1), 4)
        for name in ("iris", "wine"):
            yield clusters(names[name], scaled(real[name][0]), 3)
    if kind == "linear":
        for n in (10_000, 1_000):
            yield line(f"a line, {n:,} x 5", *regression.records(n, 5, 1))
        for name in real:
            x, y = real[name]
            both = scaled(np.column_stack([x, y]) if name == "diabetes" else x)
            what = "" if name == "diabetes" else ", the last feature from the others"
            yield line(names[name] + what, both[:, :-1], both[:, -1])
    if kind == "logistic":
        u = logistic.records(20_000, 5, 1)
        signs = np.random.default_rng(0).choice([-1, 1], len(u))
        yield classes("a ball, 20,000 x 5", u * signs[:, None], signs, 1.0)
        for name in ("iris", "wine", "breast_cancer"):
            x, y = real[name]
            yield classes(names[name], scaled(x), y, float(np.sqrt(x.shape[1] / 3)))
    if kind == "components":
        # Above 1 by what rounding does to their norms.
        yield axes("a ball, 2,000 x 5", pca.records(2_000, 5), 1.0001, centered=True)
        yield axes(names["iris"], scaled(real["iris"][0]), 1.2, centered=False)


def figures(runs: int) -> Iterator[str]:
    """Yield lines of TOML: medians of errors on six data sets."""
    from sklearn import datasets
    from statsmodels.datasets import fair, star98

    chosen = {}
    for name in ("iris", "wine", "breast_cancer"):
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        chosen[name] = classes(name, scaled(x), y, float(np.sqrt(x.shape[1] / 3)))
    table = fair.load_pandas()
    x = scaled(table.exog.to_numpy(float))
    y = (table.endog.to_numpy() > 0).astype(int)
    chosen["fair"] = classes("fair", x, y, float(np.sqrt(x.shape[1] / 3)))
    both = [np.column_stack(datasets.load_diabetes(return_X_y=True))]
    table = star98.load_pandas()
    above, below = table.endog.to_numpy(float).T
    both += [np.column_stack([table.exog, above / (above + below)])]
    for name, records in zip(("diabetes", "star98"), map(scaled, both), strict=True):
        chosen[name] = line(name, records[:, :-1], records[:, -1])
    epsilons = (0.1, 0.3, 1, 3, 10)
    yield f"epsilon = {list(epsilons)}"
    for name, case in chosen.items():
        yield f"[{name}]"
        ours = functools.partial(case.ours, relation=REPLACED)
        for library, run in (("diffprivlib", case.theirs), ("fastdp", ours)):
            found = [np.median([run(e) for _ in range(runs)]) for e in epsilons]
            yield f"{library} = [{', '.join(f'{x:.3g}' for x in found)}]"


def told(errors: list[float]) -> str:
    """Return mean, its standard error and median."""
    mean, middle = np.mean(errors), np.median(errors)
    deviation = np.std(errors, ddof=1) / np.sqrt(len(errors))
    return f"{mean:10.3g} +- {deviation:8.2g} ({middle:9.3g})"


def main(arguments: list[str] | None = None) -> int:
    """Run both sides, and print errors beside each other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.3, 1.0, 3.0])
    parser.add_argument("--only", choices=NOTES, nargs="*", default=list(NOTES))
    parser.add_argument("--toml", type=Path, help="six data sets, replaced records")
    chosen = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    if chosen.toml:
        chosen.toml.write_text("\n".join(figures(chosen.runs)) + "\n", "utf-8")
        return 0
    above: dict[str, list[str]] = {ADDED: [], REPLACED: []}
    rows = 0
    for kind in chosen.only:
        for case in cases(kind):
            rows += len(chosen.epsilon)
            print(
                f"\n{case.what}\n{'epsilon':>8}{'':4}{'mean, its error, (median)':>32}"
            )
            for epsilon in chosen.epsilon:
                theirs = [case.theirs(epsilon) for _ in range(chosen.runs)]
                print(f"{epsilon:8g}  {'diffprivlib':20}{told(theirs)}")
                for relation in (ADDED, REPLACED):
                    ours = [case.ours(epsilon, relation) for _ in range(chosen.runs)]
                    more = np.mean(ours) - np.mean(theirs)
                    spread = np.hypot(np.std(ours), np.std(theirs))
                    mark = "" if more <= 0 else "  above, within 3 standard errors"
                    if more > 3 * spread / np.sqrt(chosen.runs):
                        mark = "  above"
                    above[relation] += [mark.strip()] if mark else []
                    print(f"{'':10}{relation:20}{told(ours)}{mark}", flush=True)
        print(textwrap.fill(NOTES[kind], 100))
    print()
    for relation, marks in above.items():
        clear = marks.count("above")
        print(f"{relation}: of {rows} means {len(marks)} above theirs, {clear} clearly")
    return 0


if __name__ == "__main__":
    sys.exit(main())
