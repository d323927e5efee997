"""Other libraries at the same work, for comparison only.

    python bench/rivals.py                  # the libraries that are installed
    python bench/rivals.py --n 10000 --json

Each is measured on the data that our own mechanism gets, where it is installed and
can be imported. A slow library gets the first part of the data.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fastdp
from fastdp.cli import bench
from fastdp.cli._local_cases import CATEGORIES, EPSILON
from fastdp.cli._timings import (
    FEWEST,
    Array,
    Call,
    Ratio,
    as_dict,
    noisy_lines,
    timings,
)

_SCALE = 10

#: Characters of an error that say why a rival is left out.
_LONGEST_REASON = 100


@dataclass(frozen=True)
class Task:
    """Work that libraries share: its input, and how our own call of it is made.

    `samples` is how many samples an element of the input holds.
    """

    name: str
    data: Callable[[int], Array]
    ours: Callable[[Array], Call]
    samples: int = 1
    #: Samples for one asked for, so that ours takes longer than a call costs.
    scale: float = 1.0


@dataclass(frozen=True)
class Rival:
    """A library, what its noise is, and how to make the call that does a task.

    `exact`: samples follow the stated law to the last bit. `secure`: randomness
    comes from a cryptographic generator.
    """

    name: str
    task: Task
    exact: bool
    secure: bool
    prepare: Callable[[Array], Call]
    #: Maximum number of elements in one timing: a slow library needs no more.
    most: int = 10**5


@dataclass(frozen=True)
class Line:
    """One measured rival; times in nanoseconds for one sample."""

    name: str
    task: str
    exact: bool
    secure: bool
    size: int
    ns: float
    our_size: int
    our_ns: float
    ratio: Ratio


@dataclass
class Report:
    """The measured rivals, and the others, with the reason for each."""

    lines: list[Line] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


# --- the tasks, and our calls -------------------------------------------------------


def _labels(k: int) -> Callable[[int], Array]:
    return lambda size: np.arange(size, dtype=np.int64) % k


def _release(make: Callable[[], Any]) -> Callable[[Array], Call]:
    """Return how to release data by the mechanism, which is made when it is used."""

    def ours(data: Array) -> Call:
        mechanism = make()
        return lambda: mechanism.release(data)

    return ours


def _packed(bits: Array) -> Call:
    mechanism = fastdp.RandomizedResponse.from_epsilon(EPSILON)
    return lambda: mechanism.release(bits, packed=True)


def _count_hashed(labels: Array) -> Call:
    mechanism = fastdp.LocalHashing.from_epsilon(EPSILON, categories=CATEGORIES)
    reports = mechanism.release(labels)
    return lambda: mechanism.estimate(reports).counts


def _count_hadamard(labels: Array) -> Call:
    mechanism = fastdp.HadamardResponse.from_epsilon(EPSILON, categories=CATEGORIES)
    reports = mechanism.release(labels)
    return lambda: mechanism.estimate(reports).counts


def _new_laws(one: Callable[[float], Any], parameter: float) -> Callable[[Array], Call]:
    """Return how to make laws that no call made before, and draw once from each.

    `one` makes the law of a parameter, draws from it and returns the value.
    """

    def prepare(data: Array) -> Call:
        numbers = itertools.count(1)
        return lambda: [one(parameter * (1 + next(numbers) * 2**-20)) for _ in data]

    return prepare


def _new_law(law: str, parameter: float) -> Task:
    made = {
        "Laplace": lambda scale: fastdp.DiscreteLaplace(scale=scale).release(0),
        "Gaussian": lambda sigma: fastdp.DiscreteGaussian(sigma=sigma).release(0),
    }[law]
    return Task(
        f"a new law and one value: discrete {law}, {parameter:g}",
        lambda size: np.arange(size),
        _new_laws(made, parameter),
        scale=1e-4,
    )


def _response(k: int) -> Task:
    return Task(
        f"randomized response, k={k}",
        _labels(k),
        _release(lambda: fastdp.RandomizedResponse.from_epsilon(EPSILON, categories=k)),
        scale=10,
    )


NOISE = Task(
    f"integer Laplace noise, scale {_SCALE}",
    lambda size: np.arange(size, dtype=np.int64),
    _release(lambda: fastdp.DiscreteLaplace(scale=_SCALE)),
)
LAWS = {
    (law, parameter): _new_law(law, parameter)
    for law, parameter in (
        ("Laplace", 10),
        ("Laplace", 1e6),
        ("Gaussian", 10),
        ("Gaussian", 1e6),
    )
}
BITS = Task(
    "randomized response, packed bits",
    lambda size: np.packbits(np.arange(size) % 3 == 0),
    _packed,
    samples=8,
    scale=100,
)
RESPONSES = (_response(16), _response(1024))
UNARY = Task(
    f"optimized unary encoding, d={CATEGORIES}",
    _labels(CATEGORIES),
    _release(lambda: fastdp.UnaryEncoding.from_epsilon(EPSILON, categories=CATEGORIES)),
    scale=0.1,
)
HASHING = Task(
    f"optimized local hashing, d={CATEGORIES}, client",
    _labels(CATEGORIES),
    _release(lambda: fastdp.LocalHashing.from_epsilon(EPSILON, categories=CATEGORIES)),
)
HASHING_COUNTS = Task(
    f"optimized local hashing, d={CATEGORIES}, decoding",
    _labels(CATEGORIES),
    _count_hashed,
    scale=0.3,
)
HADAMARD = Task(
    f"Hadamard response, d={CATEGORIES}, client",
    _labels(CATEGORIES),
    _release(
        lambda: fastdp.HadamardResponse.from_epsilon(EPSILON, categories=CATEGORIES)
    ),
)
HADAMARD_COUNTS = Task(
    f"Hadamard response, d={CATEGORIES}, decoding",
    _labels(CATEGORIES),
    _count_hadamard,
    scale=10,
)


# --- the libraries ------------------------------------------------------------------


def _each(function: Callable[[Any], Any], values: list[Any]) -> Call:
    return lambda: [function(value) for value in values]


def _opendp(counts: Array) -> Call:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement = dp.m.make_laplace(*space, scale=float(_SCALE))
    values = counts.tolist()
    return lambda: measurement(values)


def _opendp_law(law: str, parameter: float) -> Callable[[Array], Call]:
    def prepare(data: Array) -> Call:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
        make = dp.m.make_laplace if law == "Laplace" else dp.m.make_gaussian
        return _new_laws(lambda width: make(*space, scale=width)(0), parameter)(data)

    return prepare


def _opendp_bits(bits: Array) -> Call:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.bitvector_domain(max_weight=1), dp.discrete_distance()
    flip = float(1 - fastdp.RandomizedResponse.from_epsilon(EPSILON).p)
    measurement = dp.m.make_randomized_response_bitvec(*space, f=2 * flip)
    octets = bits.tobytes()
    return lambda: measurement(octets)


def _opendp_response(k: int) -> Callable[[Array], Call]:
    def prepare(labels: Array) -> Call:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        p = float(fastdp.RandomizedResponse.from_epsilon(EPSILON, categories=k).p)
        measurement = dp.m.make_randomized_response(list(range(k)), prob=p)
        return _each(measurement, labels.tolist())

    return prepare


def _python_dp(counts: Array) -> Call:
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism

    mechanism = LaplaceMechanism(epsilon=1 / _SCALE, sensitivity=1)
    return _each(mechanism.add_noise, counts.tolist())


def _diffprivlib(counts: Array) -> Call:
    from diffprivlib.mechanisms import Geometric

    mechanism = Geometric(epsilon=1 / _SCALE, sensitivity=1)
    return _each(mechanism.randomize, counts.tolist())


def _pure_ldp(client: str, k: int, **more: Any) -> Callable[[Array], Call]:
    """Return how to privatize values with a client of pure-ldp, which counts from 1."""

    def prepare(labels: Array) -> Call:
        from pure_ldp import frequency_oracles

        made = getattr(frequency_oracles, client)(EPSILON, k, **more)
        return _each(made.privatize, (labels + 1).tolist())

    return prepare


def _pure_ldp_bits(bits: Array) -> Call:
    return _pure_ldp("DEClient", 2)(np.unpackbits(bits).astype(np.int64))


def _pure_ldp_hashing_counts(labels: Array) -> Call:
    from pure_ldp.frequency_oracles import LHClient, LHServer

    client = LHClient(EPSILON, CATEGORIES, use_olh=True)
    reports = [client.privatize(value) for value in (labels + 1).tolist()]

    def counts() -> object:
        server = LHServer(EPSILON, CATEGORIES, use_olh=True)
        for report in reports:
            server.aggregate(report)
        return server.estimate_all(range(1, CATEGORIES + 1), suppress_warnings=True)

    return counts


def _pure_ldp_hadamard_counts(labels: Array) -> Call:
    from pure_ldp.frequency_oracles import (
        HadamardResponseClient,
        HadamardResponseServer,
    )

    client = HadamardResponseClient(EPSILON, CATEGORIES, None)
    reports = [client.privatize(value) for value in (labels + 1).tolist()]

    def counts() -> object:
        server = HadamardResponseServer(EPSILON, CATEGORIES)
        server.aggregate_all(reports)
        return server.estimate_all(range(1, CATEGORIES + 1), suppress_warnings=True)

    return counts


def _multi_freq(client: str, k: int) -> Callable[[Array], Call]:
    """Return how to privatize values with a client of multi-freq-ldpy."""

    def prepare(labels: Array) -> Call:
        from importlib import import_module

        module = client.partition("_")[0]
        function = getattr(
            import_module(f"multi_freq_ldpy.pure_frequency_oracles.{module}"), client
        )
        return _each(lambda value: function(value, k, EPSILON), labels.tolist())

    return prepare


def _multi_freq_bits(bits: Array) -> Call:
    return _multi_freq("GRR_Client", 2)(np.unpackbits(bits).astype(np.int64))


def _pure(task: Task, prepare: Callable[[Array], Call], most: int = 10**4) -> Rival:
    """pure-ldp draws from the standard library's and numpy's generators, in floats."""
    return Rival("pure-ldp", task, False, False, prepare, most)


def _multi(task: Task, prepare: Callable[[Array], Call], most: int = 10**4) -> Rival:
    """multi-freq-ldpy draws from numpy's generator, in floats."""
    return Rival("multi-freq-ldpy", task, False, False, prepare, most)


#: python-dp rounds a secure Laplace to integers; diffprivlib inverts the
#: distribution function in floating point.
RIVALS = (
    Rival("opendp", NOISE, True, True, _opendp),
    *(
        Rival("opendp", task, True, True, _opendp_law(*key))
        for key, task in LAWS.items()
    ),
    Rival("python-dp", NOISE, False, True, _python_dp),
    Rival("diffprivlib", NOISE, False, True, _diffprivlib),
    Rival("opendp", BITS, True, True, _opendp_bits, most=5000),
    _pure(BITS, _pure_ldp_bits),
    _multi(BITS, _multi_freq_bits),
    *(
        rival
        for k, task in zip((16, 1024), RESPONSES, strict=True)
        for rival in (
            Rival("opendp", task, True, True, _opendp_response(k), most=500),
            _pure(task, _pure_ldp("DEClient", k), 10**5),
            _multi(task, _multi_freq("GRR_Client", k), 10**5),
        )
    ),
    _pure(UNARY, _pure_ldp("UEClient", CATEGORIES, use_oue=True), 1000),
    _multi(UNARY, _multi_freq("UE_Client", CATEGORIES), 1000),
    _pure(HASHING, _pure_ldp("LHClient", CATEGORIES, use_olh=True)),
    _multi(HASHING, _multi_freq("LH_Client", CATEGORIES)),
    _pure(HASHING_COUNTS, _pure_ldp_hashing_counts, 250),
    _pure(
        HADAMARD,
        _pure_ldp("HadamardResponseClient", CATEGORIES, hash_funcs=None),
    ),
    _pure(HADAMARD_COUNTS, _pure_ldp_hadamard_counts),
)


# --- the measurement ----------------------------------------------------------------


def prepare(rival: Rival, data: Array) -> Call | Exception:
    """Return the call that does its task on `data`, or why it cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call = rival.prepare(data)
            call()
        except Exception as error:
            # A rival that is missing, or fails, must not stop the bench.
            return error
    return call


def measure(size: int, repetitions: int) -> Report:
    """Time each installed rival and our mechanism on the same data, in turn."""
    report = Report()
    for rival in RIVALS:
        task = rival.task
        data = task.data(max(8, int(size * task.scale)))
        part = data[: rival.most]
        call = prepare(rival, part)
        if isinstance(call, Exception):
            why = str(call).partition("\n")[0][:_LONGEST_REASON] or type(call).__name__
            report.absent.append(f"{rival.name}: {task.name}: {why}")
            continue
        theirs, ours = _seconds(call, task.ours(data), repetitions)
        their_size, our_size = (len(x) * task.samples for x in (part, data))
        report.lines.append(
            Line(
                name=rival.name,
                task=task.name,
                exact=rival.exact,
                secure=rival.secure,
                size=their_size,
                ns=float(np.median(theirs)) / their_size * 1e9,
                our_size=our_size,
                our_ns=float(np.median(ours)) / our_size * 1e9,
                ratio=Ratio.of(theirs, ours, our_size / their_size),
            )
        )
    return report


def _seconds(theirs: Call, ours: Call, repetitions: int) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return timings((theirs, ours), repetitions)


# --- the table ----------------------------------------------------------------------


def as_json(report: Report, repetitions: int) -> str:
    """Return the report for a program."""
    document = {
        "setting": {**bench.machine(), "repetitions": repetitions},
        "rivals": [as_dict(line) for line in report.lines],
        "not_measured": report.absent,
    }
    return json.dumps(document, indent=2)


def as_table(report: Report) -> str:
    """Return the report for a reader, one table a task."""
    lines = []
    for task in dict.fromkeys(line.task for line in report.lines):
        lines.append(
            f"{'rivals: ' + task:<56} {'n':>9} {'ns':>10} {'ours n':>10} "
            f"{'ours ns':>9} {'ratio':>8}  noise"
        )
        for line in report.lines:
            if line.task != task:
                continue
            law = "exact" if line.exact else "inexact"
            source = "secure" if line.secure else "insecure"
            lines.append(
                f"{line.name:<56} {line.size:>9,} {line.ns:>10.1f} "
                f"{line.our_size:>10,} {line.our_ns:>9.2f} {line.ratio.shown(1):>8}  "
                f"{law}, {source}"
            )
        lines.append("")
    lines += noisy_lines([line.ratio for line in report.lines])
    if report.absent:
        lines += ["Rivals not measured, and why:"]
        lines += [f"  {name}" for name in report.absent]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="other libraries at the same work")
    parser.add_argument("--n", type=int, default=10**5, help="length of the data")
    parser.add_argument("--repetitions", type=int, default=FEWEST)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    report = measure(asked.n, asked.repetitions)
    print(as_json(report, asked.repetitions) if asked.json else as_table(report))


if __name__ == "__main__":
    main()
