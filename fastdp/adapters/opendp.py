"""opendp: our mechanisms as its measurements, its measurements as our events.

The measurement reads the distance between inputs by its metric and gives what our
mechanism proves for it. docs/howto/opendp.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from fastdp import _public, _validate, accounting
from fastdp._validate import Real
from fastdp.accounting.events import Event, Relation, as_relation
from fastdp.accounting.guarantees import event_epsilon, event_rho
from fastdp.adapters import _library
from fastdp.exceptions import DTypeError, ParameterError, UnsupportedEventError
from fastdp.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
    TruncatedLaplace,
)

dp = _library.load("opendp.prelude", package="opendp", tested=("0.16", "0.17"))

__all__ = ["from_measurement", "make_fastdp", "to_measurement"]

_GAUSSIAN = (DiscreteGaussian, Gaussian)
_KINDS = (DiscreteLaplace, Laplace, TruncatedLaplace, *_GAUSSIAN)

_INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32")


def make_fastdp(
    input_domain: Any,
    input_metric: Any,
    mechanism: Any,
    *,
    output_measure: Any = None,
    delta: Real | None = None,
) -> Any:
    """Return a mechanism of additive noise as a measurement.

    The name is opendp's pattern: ``dp.register(make_fastdp)`` makes it a method of
    its queries, ``query.fastdp(mechanism)``.

    Parameters
    ----------
    input_domain : opendp.mod.Domain
        One number, or a vector of them, none of them null: integers of at most 64 bits
        for `DiscreteLaplace`, `DiscreteGaussian` and `TruncatedLaplace`, f64 for
        `Laplace` and `Gaussian`, whose `coordinates` are at least the vector's size.
    input_metric : opendp.mod.Metric
        ``absolute_distance`` for a number; for a vector ``l1_distance`` with Laplace
        noise and ``l2_distance`` with Gaussian noise.
    mechanism : Mechanism
        One of these five. The sensitivity that it was made for is not read: the
        measurement's map takes the distance instead.
    output_measure : opendp.mod.Measure, optional
        ``max_divergence`` or ``zero_concentrated_divergence``. None takes the first for
        Laplace noise and the second for Gaussian.
    delta : int, float, Fraction or Decimal, optional
        > 0 and < 1: the measure is then ``approximate(max_divergence())``, and the map
        gives the epsilon of the exact law at this delta. `TruncatedLaplace` needs it.

    Returns
    -------
    opendp.mod.Measurement
        Its releases are int or float, or a list of them: i64 or f64.

    Raises
    ------
    DTypeError, ParameterError
        An argument is of a wrong type, or does not go with the mechanism.
    opendp.mod.OpenDPException
        The features contrib and honest-but-curious are not enabled.

    Privacy
    -------
    That of ``mechanism.event(sensitivity=d_in)``, rounded up. The map raises where the
    mechanism has no finite reading in the measure.
    """
    _library.require(dp, "opendp")
    if type(mechanism) not in _KINDS:
        raise DTypeError(
            "mechanism must be a DiscreteLaplace, DiscreteGaussian, TruncatedLaplace, "
            f"Laplace or Gaussian, got {type(mechanism).__name__}: no other one has a "
            "cost for each distance"
        )
    kind = _check_space(input_domain, input_metric, mechanism)
    measure, read = _reading(mechanism, output_measure, delta)
    return dp.m.make_user_measurement(
        input_domain,
        input_metric,
        measure,
        lambda x: _plain(mechanism.release(x)),
        _map(mechanism, read),
        TO=kind,
    )


def to_measurement(
    mechanism: Mechanism, *, output_measure: Any = None, delta: Real | None = None
) -> Any:
    """Return a mechanism as what stands after ``>>``, a space or a transformation.

    Arguments, errors and privacy are those of `make_fastdp`, once the space is known.
    """
    _library.require(dp, "opendp")
    from opendp.mod import _PartialConstructor

    return _PartialConstructor(
        lambda domain, metric: make_fastdp(
            domain, metric, mechanism, output_measure=output_measure, delta=delta
        )
    )


def from_measurement(
    measurement: Any, d_in: Any, *, neighboring_relation: Relation
) -> Event:
    """Return what a measurement guarantees for inputs at a distance, as an event.

    Parameters
    ----------
    measurement : opendp.mod.Measurement
        Its output measure is ``max_divergence``, ``zero_concentrated_divergence`` or
        ``approximate(max_divergence())``.
    d_in : int or float
        The distance, by its input metric, of data that differ in one individual.
    neighboring_relation : NeighboringRelation
        What "differ" means there: ours, or its name. A record replaced is at
        ``symmetric_distance`` 2.

    Raises
    ------
    DTypeError
        `measurement` is not a measurement.
    UnsupportedEventError
        There is no event for its measure.

    Privacy
    -------
    That of opendp's map, which is not proved anew: the event is a guarantee, not a law.
    """
    _library.require(dp, "opendp")
    relation = as_relation(neighboring_relation)
    if not isinstance(measurement, dp.Measurement):
        raise DTypeError(
            f"measurement must be a Measurement, got {type(measurement).__name__}"
        )
    measure = str(measurement.output_measure.type)
    if measure == "MaxDivergence":
        epsilon, delta = measurement.map(d_in), Fraction(0)
    elif measure == "Approximate<MaxDivergence>":
        epsilon, delta = measurement.map(d_in)
    elif measure == "ZeroConcentratedDivergence":
        rho = measurement.map(d_in)
        if rho < math.inf:
            return accounting.ZCDPEvent(rho, neighboring_relation=relation)
        epsilon = rho
    else:
        raise UnsupportedEventError(
            f"measurement must have a counterpart here, got the measure {measure}: "
            "dp.c.make_fix_delta(measurement, delta) reads a curve at one delta"
        )
    if epsilon == math.inf:
        epsilon, delta = Fraction(0), Fraction(1)
    if delta == 0:
        return accounting.PureDPEvent(epsilon, neighboring_relation=relation)
    return accounting.ApproximateDPEvent(
        epsilon=epsilon, delta=delta, neighboring_relation=relation
    )


def _check_space(domain: Any, metric: Any, mechanism: Any) -> str:
    """Check that a mechanism takes the space, and return the type of its releases."""
    for name, value, kind in (
        ("input_domain", domain, dp.Domain),
        ("input_metric", metric, dp.Metric),
    ):
        if not isinstance(value, kind):
            raise DTypeError(
                f"{name} must be opendp's {kind.__name__}, got {type(value).__name__}"
            )
    real = isinstance(mechanism, (Laplace, Gaussian))
    name = str(domain.type)
    vector = name.startswith("VectorDomain<AtomDomain<")
    member = name.removeprefix("VectorDomain<").removeprefix("AtomDomain<").rstrip(">")
    if member not in (("f64",) if real else _INTEGERS):
        allowed = "f64" if real else " or ".join(_INTEGERS)
        raise ParameterError(
            f"input_domain must hold numbers of type {allowed} for "
            f"{type(mechanism).__name__}, got {name}"
        )
    if real and (domain.element_domain if vector else domain).nan:
        raise ParameterError(
            "input_domain must hold no NaN: atom_domain(T=float, nan=False)"
        )
    if real and vector and not (domain.size or math.inf) <= mechanism.coordinates:
        raise ParameterError(
            "input_domain must have a size of at most the mechanism's coordinates, "
            f"{mechanism.coordinates}, for rounding is charged for so many entries; "
            f"got {domain.size}"
        )
    norm = "L2Distance" if isinstance(mechanism, _GAUSSIAN) else "L1Distance"
    wanted = norm if vector else "AbsoluteDistance"
    found = str(metric.type).partition("<")[0]
    if found != wanted:
        raise ParameterError(
            f"input_metric must be {wanted} for {type(mechanism).__name__} on "
            f"{name}, got {found}"
        )
    kind = "f64" if real else "i64"
    return f"Vec<{kind}>" if vector else kind


def _map(mechanism: Any, read: Callable[[Event], Any]) -> Callable[[Any], Any]:
    """Return the cost for a distance."""

    def privacy_map(d_in: Any) -> Any:
        if d_in == 0:  # the same input, the same law
            return read(accounting.PureDPEvent(Fraction(0)))
        return read(mechanism.event(sensitivity=d_in))

    return privacy_map


def _reading(
    mechanism: Mechanism, measure: Any, delta: Real | None
) -> tuple[Any, Callable[[Event], Any]]:
    """Return the measure, and what reads an event in it."""
    if delta is not None:
        if measure is not None:
            raise ParameterError(
                "output_measure must not be given with delta, which takes "
                "approximate(max_divergence())"
            )
        at = _validate.open_unit("delta", delta)
        up = _validate.float_up(at)
        return dp.approximate(dp.max_divergence()), lambda e: (event_epsilon(e, at), up)
    if isinstance(mechanism, TruncatedLaplace):
        raise ParameterError("delta must be given for TruncatedLaplace")
    if measure is None:
        gaussian = isinstance(mechanism, _GAUSSIAN)
        measure = dp.zero_concentrated_divergence() if gaussian else dp.max_divergence()
    name = str(getattr(measure, "type", type(measure).__name__))
    if name == "MaxDivergence" and not isinstance(mechanism, _GAUSSIAN):
        return measure, event_epsilon
    if name == "ZeroConcentratedDivergence":
        return measure, event_rho
    raise ParameterError(
        f"output_measure must be one that {type(mechanism).__name__} has, got {name}: "
        "Laplace noise has max_divergence, all have zero_concentrated_divergence, and "
        "delta= stands for approximate(max_divergence())"
    )


def _plain(y: Any) -> Any:
    """Return a release as opendp takes it: of numpy's scalars the number."""
    return y if isinstance(y, list) else y.item()


_public.show(globals())
