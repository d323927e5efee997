"""How fast the accountants answer, beside dp-accounting and riskcal where installed.

    python bench/accounting_speed.py [events of a peer that are timed, 40 if not given]

Prints a Markdown table. All figures of a line come from one run on one core, by CPU
time; "ratio" is the peer's time over ours. The peer is timed on its first events only
and scaled: its cost does not depend on how many there were before.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from turns import least

from fastdp.accounting import GaussianEvent, PoissonSampledEvent, RDPAccountant
from fastdp.accounting.fdp import GDPAccountant, gdp_delta

EVENTS = 1000
DELTA = 1e-5
MILLION = 10**6


@dataclass(frozen=True)
class Line:
    """What was timed, and the seconds it took here and there."""

    what: str
    ours: float
    peer: str = ""
    theirs: float | None = None
    remark: str = ""

    def __str__(self) -> str:
        if self.theirs is None:
            return f"| {self.what} | {shown(self.ours)} | | | | {self.remark} |"
        return (
            f"| {self.what} | {shown(self.ours)} | {self.peer} | "
            f"{shown(self.theirs)} | {self.theirs / self.ours:.3g} | {self.remark} |"
        )


def shown(seconds: float) -> str:
    """Return a time with three digits."""
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"


#: Sampling rate (None: unsampled) and noise of one event.
Setting = tuple[Fraction | None, Fraction]


def streams() -> Iterator[tuple[str, list[Setting]]]:
    """Yield what 1,000 adaptive events may look like."""
    q, one = Fraction(1, 100), Fraction(1)
    yield "equal sampled Gaussians", [(q, one)] * EVENTS
    yield (
        "a cycle of 10 sampled Gaussians",
        [(q * (1 + i % 5), one + Fraction(i % 10, 2)) for i in range(EVENTS)],
    )
    yield (
        "sampled Gaussians, all different",
        [(q, one + Fraction(i, 1000)) for i in range(EVENTS)],
    )
    yield "equal Gaussians", [(None, Fraction(100))] * EVENTS
    yield "Gaussians, all different", [(None, Fraction(100 + i)) for i in range(EVENTS)]


def event_of(setting: Setting) -> Any:
    """Return our event."""
    rate, sigma = setting
    noise = GaussianEvent(sensitivity=1, sigma=sigma)
    return noise if rate is None else PoissonSampledEvent(rate, noise)


def peer_event_of(setting: Setting) -> Any:
    """Return dp-accounting's event."""
    import dp_accounting

    rate, sigma = setting
    noise = dp_accounting.GaussianDpEvent(float(sigma))
    if rate is None:
        return noise
    return dp_accounting.PoissonSampledDpEvent(float(rate), noise)


def adaptive(accountant: Any, events: list[Any], ask: Callable[[Any], float]) -> float:
    """Return the time of composing one event after another, epsilon asked each time."""
    start = time.process_time()
    for event in events:
        accountant.compose(event)
        ask(accountant)
    return time.process_time() - start


def many_events(timed: int) -> Iterator[Line]:
    """Yield a line for each stream: our accountants beside dp-accounting's."""
    for name, settings in streams():
        plain = settings[0][0] is None
        events = [event_of(setting) for setting in settings]
        peers = [peer_event_of(setting) for setting in settings[:timed]]
        scale = len(events) / len(peers)

        def ours(kind: type[Any], events: list[Any] = events) -> float:
            return adaptive(kind(), events, lambda a: a.epsilon(DELTA))

        def theirs(kind: type[Any], peers: list[Any]) -> float:
            return adaptive(kind(), peers, lambda a: a.get_epsilon(DELTA))

        from dp_accounting.pld import PLDAccountant
        from dp_accounting.rdp import RdpAccountant

        renyi = min(ours(RDPAccountant) for _ in range(3))
        own = theirs(RdpAccountant, peers) * scale
        yield Line(f"{name}: RDP", renyi, "RDP", own)
        few = peers[: max(2, timed // 10)]
        full = theirs(PLDAccountant, few) * len(events) / len(few)
        if plain:
            yield Line(f"{name}: GDP (exact)", ours(GDPAccountant), "PLD", full)
        else:
            yield Line(f"{name}: RDP", renyi, "PLD (another notion)", full)


def training() -> Iterator[Line]:
    """Yield DP-SGD of 10,000 steps under Renyi privacy."""
    setting = Fraction(1, 100), Fraction(1)

    def ours() -> float:
        accountant = RDPAccountant().compose(event_of(setting), 10_000)
        return accountant.epsilon(DELTA)

    def theirs() -> float:
        import dp_accounting
        from dp_accounting.rdp import RdpAccountant

        steps = dp_accounting.SelfComposedDpEvent(peer_event_of(setting), 10_000)
        return float(RdpAccountant().compose(steps).get_epsilon(DELTA))

    remark = f"epsilon {ours():.6f}, theirs {theirs():.6f}"
    own, other = least(ours, theirs, rounds=5, clock=time.process_time)
    yield Line("DP-SGD, 10,000 steps: RDP", own, "RDP", other, remark)


def profiles() -> Iterator[Line]:
    """Yield a million deltas of Gaussian privacy beside riskcal's formula."""
    from scipy.stats import norm

    epsilon, mu = np.linspace(0, 8, MILLION), 1.0

    def formula() -> object:  # of riskcal.analysis.conversions, for arrays
        near = norm.cdf(-epsilon / mu + mu / 2)
        return near - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)

    def ours() -> object:
        return gdp_delta(epsilon=epsilon, mu=mu)

    own, other = least(ours, formula, rounds=7, clock=time.process_time)
    remark = "ours is rounded up and holds for tiny deltas"
    yield Line("a million GDP deltas", own, "riskcal", other, remark)


def imported() -> Iterator[Line]:
    """Yield the time of `import fastdp.accounting` in a new interpreter."""
    code = (
        "import time; t = time.process_time(); import fastdp.accounting; "
        "print(time.process_time() - t)"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", code], **_CAPTURED).stdout)
        for _ in range(5)
    ]
    yield Line("import fastdp.accounting (with numpy)", min(times))


_CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "check": True}


def lines(timed: int) -> Iterator[Line]:
    """Yield all lines; those of a peer that is missing say ours alone."""
    for part in (training, lambda: many_events(timed), profiles, imported):
        try:
            yield from part()
        except ImportError as error:
            yield Line(f"left out: {error.name} is not installed", 0.0)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    timed = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print("| what | ours | peer | theirs | ratio | |\n|---|---|---|---|---|---|")
    for line in lines(timed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
