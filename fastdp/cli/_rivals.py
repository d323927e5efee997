"""Other libraries that add discrete Laplace noise, for comparison only.

Each is measured on the array that our own mechanism gets, at scale 10, where it
is installed and can be imported; nothing here is needed to run the package.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

import fastdp

_SCALE = 10

Counts = npt.NDArray[np.int64]
Call = Callable[[], object]


@dataclass(frozen=True)
class Rival:
    """A library, what its noise is, and how to make the call that adds it.

    `exact`: samples follow the stated law to the last bit. `secure`: randomness
    comes from a cryptographic generator.
    """

    name: str
    exact: bool
    secure: bool
    prepare: Callable[[Counts], Call]
    #: Most values of one timing: a slow library needs no more.
    most: int = 10**5


@dataclass(frozen=True)
class Line:
    """One measured rival; times in nanoseconds for one sample."""

    name: str
    exact: bool
    secure: bool
    size: int
    ns: float
    our_ns: float
    ratio: float


@dataclass
class Report:
    """The measured rivals, and the names of those that could not be imported."""

    lines: list[Line] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


def _opendp(counts: Counts) -> Call:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement = dp.m.make_laplace(*space, scale=float(_SCALE))
    values = counts.tolist()
    return lambda: measurement(values)


def _python_dp(counts: Counts) -> Call:
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism

    mechanism = LaplaceMechanism(epsilon=1 / _SCALE, sensitivity=1)
    values = counts.tolist()
    return lambda: [mechanism.add_noise(value) for value in values]


def _diffprivlib(counts: Counts) -> Call:
    from diffprivlib.mechanisms import Geometric

    mechanism = Geometric(epsilon=1 / _SCALE, sensitivity=1)
    values = counts.tolist()
    return lambda: [mechanism.randomise(value) for value in values]


#: python-dp rounds a secure Laplace to integers; diffprivlib inverts the
#: distribution function in floating point.
RIVALS = (
    Rival("opendp", exact=True, secure=True, prepare=_opendp),
    Rival("python-dp", exact=False, secure=True, prepare=_python_dp),
    Rival("diffprivlib", exact=False, secure=True, prepare=_diffprivlib),
)


def prepare(rival: Rival, counts: Counts) -> Call | None:
    """Return the call that noises `counts`, or None where the library is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call = rival.prepare(counts)
            call()
        except Exception:
            # A rival that fails must not stop the bench.
            return None
    return call


def measure(size: int, repetitions: int) -> Report:
    """Time each installed rival and our mechanism on the same array, in turn."""
    from fastdp.cli.bench import timings

    mechanism = fastdp.DiscreteLaplace(scale=_SCALE)
    report = Report()
    for rival in RIVALS:
        counts = np.arange(min(size, rival.most), dtype=np.int64)
        call = prepare(rival, counts)
        if call is None:
            report.absent.append(rival.name)
            continue
        ours_call = functools.partial(mechanism.release, counts)
        theirs, ours = timings((call, ours_call), repetitions)
        report.lines.append(
            Line(
                name=rival.name,
                exact=rival.exact,
                secure=rival.secure,
                size=counts.size,
                ns=float(np.median(theirs)) / counts.size * 1e9,
                our_ns=float(np.median(ours)) / counts.size * 1e9,
                ratio=float(np.median(theirs / ours)),
            )
        )
    return report
