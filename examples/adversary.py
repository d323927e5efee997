"""What an adversary learns: a test between two temperatures, and what delta may hide.

    python examples/adversary.py [--small] [--plot FILE]

Is it 38 or 39 degrees? The best tests between two Laplace laws, beside the two lines
that every test obeys (Wasserman and Zhou, JASA 2010), and thresholds on drawn answers.
Then an anti-example: a mechanism that says nothing, or with probability delta all it
knows ("death and destruction" in a survey of the field; Dwork and Roth 2014, section
2.3). It has (0, delta)-privacy. Concentrated and Renyi privacy (Bun and Steinke, TCC
2016; Mironov, CSF 2017) rule it out; a Gaussian answer at that delta is no such thing.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from _common import Row, around, options, picture, tell

import fastdp
from fastdp import accounting
from fastdp.accounting import readings
from fastdp.exceptions import UnsupportedEventError

EPSILON, DELTA = 1.0, 1e-6
COLD, WARM = 38.0, 39.0
RATES = np.linspace(0, 1, 501)


def thresholds(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return thresholds, and both error rates of each on n drawn answers."""
    answer = fastdp.Laplace.from_epsilon(EPSILON, sensitivity=WARM - COLD)
    cold = np.sort(answer.release(np.full(n, COLD)))
    warm = np.sort(answer.release(np.full(n, WARM)))
    at = np.linspace(COLD - 6, WARM + 6, 121)
    false_positives = 1 - np.searchsorted(cold, at) / n
    return at, false_positives, np.searchsorted(warm, at) / n


def refused(accountant: type[accounting.Accountant], event: accounting.Event) -> bool:
    """Return whether an accountant has no bound for `event`."""
    try:
        accountant().compose(event).epsilon(1e-9)
    except UnsupportedEventError:
        return True
    return False


def gaussian_tail(losses: np.ndarray) -> np.ndarray:
    """Return delta at each loss of a Gaussian answer with (EPSILON, DELTA)."""
    both = {"epsilon": EPSILON, "delta": DELTA, "sensitivity": 1}
    event = fastdp.Gaussian.from_epsilon_delta(**both).event(sensitivity=1)
    accountant = accounting.PLDAccountant().compose(event)
    return np.array([math.exp(accountant.log_delta(x)) for x in losses.tolist()])


def draw(file: str, drawn: tuple[np.ndarray, np.ndarray], best: float) -> None:
    """Write the two pictures."""
    figure, axes = picture(2)
    f = accounting.LaplaceTradeOff(EPSILON)
    axes[0].plot(RATES, f(RATES), label="the best tests")
    axes[0].plot(*drawn, ".", color="0.4", markersize=4, label="thresholds, drawn")
    grown = math.exp(EPSILON)
    for line in (1 - grown * RATES, (1 - RATES) / grown):
        name = f"epsilon {EPSILON:g}: no test below" if line[0] == 1 else None
        axes[0].plot(RATES, line, "k--", linewidth=1, label=name)
    axes[0].plot(best, best, "C3o", label="threshold 38.5")
    axes[0].set(xlabel="38, taken for 39", ylabel="39, taken for 38", ylim=(0, 1))
    axes[0].set(title="38 or 39 degrees?", xlim=(0, 1), aspect="equal")
    losses = np.linspace(0, 6, 61)
    axes[1].semilogy(losses, gaussian_tail(losses), label="Gaussian answer")
    axes[1].axhline(DELTA, color="C3", label="everything, with probability delta")
    axes[1].plot(EPSILON, DELTA, "ko", label=f"({EPSILON:g}, {DELTA:g}) of both")
    axes[1].set(xlabel="epsilon", ylabel="delta", ylim=(1e-60, 1))
    axes[1].set(title="one delta, two dangers")
    for axis in axes:
        axis.legend(fontsize="small")
    figure.savefig(file)


def main(arguments: list[str] | None = None) -> int:
    """Test, publish everything now and then, and print what holds."""
    chosen = options(__doc__, "20,000 answers").parse_args(arguments)
    n = 20_000 if chosen.small else 1_000_000
    at, positives, negatives = thresholds(n)
    f = accounting.LaplaceTradeOff(EPSILON)
    middle = len(at) // 2
    slack = 3.6 / math.sqrt(n)
    best = math.exp(-EPSILON / 2) / 2
    read = 1 - readings.largest_advantage_of_trade_off(f)
    total = float(positives[middle] + negatives[middle])
    print(f"{'threshold':>9} {'38 for 39':>10} {'39 for 38':>10} {'least':>8}")
    for i in range(20, 101, 10):
        least = float(f(positives[i]))
        print(f"{at[i]:9.1f} {positives[i]:10.4f} {negatives[i]:10.4f} {least:8.4f}")
    above = float((f(positives) - negatives).max())
    wrong, spread = f"{2 * best:.4f}", around(2 * best, 2 * slack)
    rows = [
        Row("both errors of the best test", wrong, read),
        Row("both errors at 38.5", wrong, total, "drawn answers", spread),
        Row("largest breach of the bound", "<= 0", above, "drawn", (-1, 3 * slack)),
    ]
    event, uses = accounting.ApproximateDPEvent(epsilon=0, delta=DELTA), 1_000_000
    together = accounting.ApproximateAccountant().compose(event, uses).delta(0)
    rows.append(Row("delta of a million uses, epsilon 0", "0.6321", together))
    published = int(fastdp.random.bernoulli(DELTA, size=uses).sum())
    print(f"a million uses of (0, {DELTA:g}) published {published} databases whole")
    why = "one is expected: delta is a chance of anything at all"
    rows.append(Row("databases published whole", "1", published, why, (0, 15)))
    notions = accounting.ZCDPAccountant, accounting.RDPAccountant
    none = sum(refused(notion, event) for notion in notions)
    why = "their divergences are infinite: zCDP and Renyi refuse it"
    rows.append(Row("notions that have no bound for it", "2", none, why, (2, 2)))
    losses = np.array([EPSILON, 3.0])
    here, far = gaussian_tail(losses).tolist()
    why = "sigma is rounded up"
    rows.append(Row("Gaussian answer: delta at 1", "1e-6", here, why, (0.99e-6, 1e-6)))
    why = "a little worse than (1, delta), never everything"
    rows.append(Row("Gaussian answer: delta at 3", "<= 1e-6", far, why, (0, 1e-20)))
    if chosen.plot:
        draw(chosen.plot, (positives, negatives), best)
    return tell(rows)


if __name__ == "__main__":
    sys.exit(main())
