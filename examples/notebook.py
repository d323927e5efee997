"""A teaching notebook's three figures and its table, with what holds.

    python examples/notebook.py [--small] [--plot FILE]

After a notebook on variants of differential privacy that goes with Near and Abuah's
"Programming Differential Privacy" (2021): noise for k queries, one by one and at once;
the variance of advanced composition beside one Gaussian vector (Dwork, Roth 2014,
theorems 3.20 and A.1); epsilon of k Gaussian answers under four notions (Bun, Steinke
2016; Mironov 2017; exact: Balle, Wang 2018); counts of people by education.
"""

from __future__ import annotations

import math
import re
import sys
from fractions import Fraction

import numpy as np
from _common import Row, around, options, picture, tell

import fastdp
from fastdp import accounting, plot
from fastdp.accounting import GDPAccountant, RDPAccountant, ZCDPAccountant, conversions

DELTA = 1e-5
SIGMA = 200  # of each answer in the third figure
COUNTS = (1, 3, 6, 10, 20, 40, 70, 100, 150, 200, 300, 400, 500)

#: People of the Adult extract of the 1994 census (Becker, Kohavi 1996) by education.
_LISTED = (
    "Preschool 51 1st-4th 168 5th-6th 333 Doctorate 413 12th 433 9th 514 "
    "Prof-school 576 7th-8th 646 10th 933 Assoc-acdm 1067 11th 1175 Assoc-voc 1382 "
    "Masters 1723 Bachelors 5355 Some-college 7291 HS-grad 10501"
)
EDUCATION = {k: int(n) for k, n in re.findall(r"(\S+) (\d+)(?: |$)", _LISTED)}


def laplace_scales(epsilon: int, k: int) -> tuple[float, float]:
    """Return the scale for k counts one by one, and for all k in one release."""
    share = fastdp.DiscreteLaplace.from_epsilon(Fraction(epsilon, k), sensitivity=1)
    once = fastdp.DiscreteLaplace.from_epsilon(epsilon, sensitivity=k)
    return float(share.scale), float(once.scale)


def variances(epsilon: float, k: int) -> dict[str, float]:
    """Return the variance of each of k answers, by four ways to choose it."""
    text = 16 * k * math.log(2 / DELTA) * math.log(2.5 * k / DELTA)
    code = 16 * k * math.log(1 / DELTA) * math.log(1.25 / DELTA)
    once = 2 * k * math.log(1.25 / DELTA)
    exact = fastdp.Gaussian.from_epsilon_delta(
        epsilon=epsilon,
        delta=DELTA,
        sensitivity=accounting.l2_sensitivity(k),
        coordinates=k,
    )
    return {
        "advanced composition": text / epsilon**2,
        "the same, as the notebook computes it": code / epsilon**2,
        "one vector, textbook constant": once / epsilon**2,
        "one vector, exact": float(exact.sigma) ** 2,
    }


def simple_zcdp(k: int) -> float:
    """Return rho + 2 sqrt(rho ln(1/delta)) of k answers."""
    rho = k / (2 * SIGMA**2)
    return rho + 2 * math.sqrt(rho * math.log(1 / DELTA))


def simple_renyi(k: int, order: int) -> float:
    """Return order rho + ln(1/delta)/(order - 1) of k answers."""
    return order * k / (2 * SIGMA**2) + math.log(1 / DELTA) / (order - 1)


def advanced(k: int) -> float:
    """Return epsilon by advanced composition, all of it at DELTA."""
    each = conversions.gaussian_epsilon(
        delta=DELTA / (2 * k), sensitivity=1, sigma=SIGMA
    )
    return accounting.advanced_composition(epsilon=each, count=k, slack=DELTA / 2)


def by(accountant: type[accounting.Accountant], k: int) -> float:
    """Return what an accountant says of k answers."""
    event = accounting.GaussianEvent(sensitivity=1, sigma=SIGMA)
    return accountant().compose(event, k).epsilon(DELTA)


def touching(order: int) -> int:
    """Return the number of answers at which the two simple curves meet."""
    return min(range(1, 4000), key=lambda k: simple_renyi(k, order) - simple_zcdp(k))


def draw(file: str, truth: np.ndarray, private: np.ndarray) -> None:
    """Write the figures and the table's bars."""
    figure, axes = picture(2, 2, width=6.5)
    ks = np.arange(1, 101, 3)
    scales = np.array([laplace_scales(1, int(k)) for k in ks])
    axes[0, 0].plot(ks, scales[:, 0], linewidth=5, alpha=0.3, label="one by one")
    axes[0, 0].plot(ks, scales[:, 1], label="all at once")
    axes[0, 0].set(title="Laplace noise for k counts, epsilon 1", ylabel="scale")
    found = [variances(0.9, int(k)) for k in ks]
    for name in found[0]:
        dashed = "--" if "notebook" in name else "-"
        axes[0, 1].semilogy(ks, [each[name] for each in found], dashed, label=name)
    axes[0, 1].set(title="Gaussian noise, epsilon 0.9", ylabel="variance of an answer")
    for name, values in (
        ("advanced composition", [advanced(k) for k in COUNTS]),
        ("zCDP, simple", [simple_zcdp(k) for k in COUNTS]),
        ("Renyi, order 60", [simple_renyi(k, 60) for k in COUNTS]),
    ):
        axes[1, 0].plot(COUNTS, values, label=name)
    plot.epsilon_against_count(
        accounting.GaussianEvent(sensitivity=1, sigma=SIGMA),
        {"zCDP, best order": ZCDPAccountant, "exact": GDPAccountant},
        delta=DELTA,
        counts=COUNTS,
        axes=axes[1, 0],
    )
    axes[1, 0].axvline(touching(60), color="0.5", linestyle=":", linewidth=1)
    title = f"k answers with sigma {SIGMA}, delta {DELTA:g}"
    axes[1, 0].set(title=title, xscale="linear", yscale="log", ylim=(0.03, 4))
    for axis in (axes[0, 0], axes[0, 1], axes[1, 0]):
        axis.set_xlabel("k")
        axis.legend(fontsize="small")
    places = np.arange(len(truth))
    axes[1, 1].barh(places + 0.2, truth, 0.4, color="0.75", label="truth")
    axes[1, 1].barh(places - 0.2, np.maximum(private, 1), 0.4, label="private")
    axes[1, 1].set_yticks(places, list(EDUCATION), fontsize="x-small")
    axes[1, 1].set(xscale="log", xlabel="people", xlim=(5, None))
    axes[1, 1].set_title("people by education, epsilon 0.1")
    axes[1, 1].legend(fontsize="small", loc="lower right")
    figure.savefig(file)


def table(runs: int) -> tuple[np.ndarray, np.ndarray, Row]:
    """Print the table; return truth, private counts and the mean error as a row."""
    shares = np.array(list(EDUCATION.values())) / 32_561
    people = np.random.default_rng(7).choice(len(shares), 32_561, p=shares)
    truth = np.bincount(people, minlength=len(shares))
    counts = fastdp.DiscreteLaplace.from_epsilon(0.1, sensitivity=1)
    private = counts.release(truth)
    print("32,561 people drawn with the shares of the census extract; epsilon 0.1")
    print(f"{'education':14} {'truth':>6} {'private':>8} {'error':>7}")
    for name, a, b in zip(EDUCATION, truth, private, strict=True):
        print(f"{name:14} {a:6} {b:8} {abs(b - a) / max(a, 1):7.1%}")
    repeated = counts.release(np.tile(truth, (runs, 1)))
    error = float(np.abs(repeated - truth).mean())
    spread = 7 * 10 / math.sqrt(truth.size * runs)
    why = "the notebook adds float noise, whose law has holes; ours is on integers"
    row = Row("table: mean error of a count", "10", error, why, around(9.983, spread))
    return truth, private, row


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and the figures' values beside the notebook's."""
    chosen = options(__doc__, "the table 1,000 times").parse_args(arguments)
    truth, private, error = table(1_000 if chosen.small else 100_000)
    agree = sum(a == b for a, b in (laplace_scales(1, k) for k in range(1, 101)))
    at = {k: list(variances(0.9, k).values()) for k in (1, 10, 100)}
    code = "the notebook's cell drops the 2 and the k of its text"
    rows = [error, Row("fig. 1: k up to 100 where both lines are one", "100", agree)]
    for k, ratio in ((1, 1.12), (10, 1.33), (100, 1.54)):
        what = f"fig. 2: variance by text over cell, k = {k}"
        rows.append(Row(what, "1", at[k][0] / at[k][1], code, around(ratio, 0.005)))
    exact = at[100][3] / at[100][2]
    why = "the constant is an upper bound; the exact law needs less"
    what = "fig. 2: exact over textbook, k = 100"
    rows.append(Row(what, "1", exact, why, (0.58, 0.59)))
    for name, value, figures in (
        ("zCDP, simple", simple_zcdp, ("0.2412", "0.5427")),
        ("Renyi, order 60", lambda k: simple_renyi(k, 60), ("0.2701", "0.5701")),
        ("zCDP, best order", lambda k: by(ZCDPAccountant, k), ("0.1775", "0.4233")),
        ("Renyi, best order", lambda k: by(RDPAccountant, k), ("0.1775", "0.4233")),
        ("exact", lambda k: by(GDPAccountant, k), ("0.1600", "0.3847")),
    ):
        for k, figure in zip((100, 500), figures, strict=True):
            rows.append(Row(f"fig. 3: {name}, k = {k}", figure, value(k)))
    why = "each step of the drawn curve spends 1e-5 itself"
    spent = 501 * DELTA
    rows.append(Row("fig. 3: delta of the curve", "1e-5", spent, why, (0.005, 0.0051)))
    why = "the notebook says 300 and order 20; its cell has order 60"
    for order, k in ((60, 265), (20, 2551)):
        what = f"simple curves touch, order {order}"
        rows.append(Row(what, "300", touching(order), why, (k, k)))
    for what, sigma, made in (
        ("sigma of order 10, epsilon 1/2", "3.1623", {"rho": 0.5 / 10}),
        ("sigma of rho 0.1", "2.2361", {"rho": 0.1}),
    ):
        ours = float(fastdp.Gaussian.from_rho(sensitivity=1, **made).sigma)
        rows.append(Row(f"cells: {what}", sigma, ours))
    if chosen.plot:
        draw(chosen.plot, truth, private)
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
