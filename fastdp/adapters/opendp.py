"""opendp: our mechanisms as its measurements. docs/howto/opendp.md."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from fastdp import _public, _validate, accounting
from fastdp._validate import Real
from fastdp.accounting.events import Event
from fastdp.accounting.guarantees import event_epsilon, event_rho
from fastdp.adapters import _library
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
    TruncatedLaplace,
)

dp = _library.load("opendp.prelude", package="opendp", tested=("0.16", "0.17"))

__all__ = ["make_fastdp", "to_measurement"]

#: Mechanisms by the norm of the distance between vectors.
_NORMS = {
    "L1Distance": (DiscreteLaplace, Laplace, TruncatedLaplace),
    "L2Distance": (DiscreteGaussian, Gaussian),
}
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

    The name follows opendp's pattern: ``dp.register(make_fastdp)`` makes it a method of
    opendp's queries, ``query.fastdp(mechanism)``.

    Parameters
    ----------
    input_domain : opendp.mod.Domain
        A number or a vector of numbers, without nulls: integers of at most 64 bits
        for `DiscreteLaplace`, `DiscreteGaussian` and `TruncatedLaplace`, f64 for
        `Laplace` and `Gaussian`, with `coordinates` of at least the vector's size.
    input_metric : opendp.mod.Metric
        ``absolute_distance`` for a number; for a vector ``l1_distance`` with Laplace
        noise and ``l2_distance`` with Gaussian noise.
    mechanism : Mechanism
        One of these five mechanisms. Its own sensitivity is not read: the measurement's
        map uses the distance instead.
    output_measure : opendp.mod.Measure, optional
        ``max_divergence`` or ``zero_concentrated_divergence``. None takes the first for
        Laplace and the second for Gaussian noise.
    delta : int, float, Fraction or Decimal, optional
        > 0 and < 1: the measure is then ``approximate(max_divergence())``, and the map
        gives the epsilon of the exact law at this delta. `TruncatedLaplace` needs it.

    Returns
    -------
    opendp.mod.Measurement
        Its releases are int or float, or lists of these: i64 or f64.

    Raises
    ------
    DTypeError, ParameterError
        An argument has a wrong type or does not fit the mechanism.
    opendp.mod.OpenDPException
        The features "contrib" and "honest-but-curious" are not enabled.

    Privacy
    -------
    The guarantee is ``mechanism.event(sensitivity=d_in)``, rounded up. The map raises
    if the mechanism has no finite bound in the measure.
    """
    _library.require(dp, "opendp")
    norm = next((n for n, kinds in _NORMS.items() if type(mechanism) in kinds), None)
    if norm is None:
        raise DTypeError(
            "mechanism must be a DiscreteLaplace, DiscreteGaussian, "
            "TruncatedLaplace, Laplace or Gaussian, got "
            f"{type(mechanism).__name__}: only these have a cost for each "
            "distance"
        )
    kind = _check_space(input_domain, input_metric, mechanism, norm)
    measure, read = _reading(mechanism, output_measure, delta, norm)

    def function(x: Any) -> Any:
        y = mechanism.release(x)
        return y if isinstance(y, list) else y.item()

    def privacy_map(d_in: Any) -> Any:
        if d_in == 0:  # equal inputs have the same law
            return read(accounting.PureDPEvent(Fraction(0)))
        return read(mechanism.event(sensitivity=d_in))

    return dp.m.make_user_measurement(
        input_domain, input_metric, measure, function, privacy_map, TO=kind
    )


def to_measurement(
    mechanism: Mechanism, *, output_measure: Any = None, delta: Real | None = None
) -> Any:
    """Return a mechanism for use after ``>>`` with a space or a transformation.

    Arguments, errors and privacy are as in `make_fastdp`, once the space is known.
    """
    _library.require(dp, "opendp")
    from opendp.mod import _PartialConstructor

    partial: Any = _PartialConstructor
    return partial(
        lambda domain, metric: make_fastdp(
            domain, metric, mechanism, output_measure=output_measure, delta=delta
        )
    )


def _check_space(domain: Any, metric: Any, mechanism: Any, norm: str) -> str:
    """Check that a mechanism accepts the space; return the type of its releases."""
    for name, value, kind in (
        ("input_domain", domain, dp.Domain),
        ("input_metric", metric, dp.Metric),
    ):
        if not isinstance(value, kind):
            raise DTypeError(
                f"{name} must be opendp's {kind.__name__}, got {type(value).__name__}"
            )
    name, law = str(domain.type), type(mechanism).__name__
    found = re.fullmatch(r"(VectorDomain<)?AtomDomain<(\w+)>>?", name)
    vector, member = found.groups() if found else (None, None)
    real = isinstance(mechanism, (Laplace, Gaussian))
    members = ("f64",) if real else _INTEGERS
    if member not in members:
        raise ParameterError(
            f"input_domain must hold numbers of type {' or '.join(members)} for "
            f"{law}, got {name}"
        )
    if real and (domain.element_domain if vector else domain).nan:
        raise ParameterError(
            "input_domain must hold no NaN: atom_domain(T=float, nan=False)"
        )
    most = getattr(mechanism, "coordinates", None)
    if vector and most is not None and not (domain.size or math.inf) <= most:
        raise ParameterError(
            "input_domain must have a size of at most the mechanism's "
            f"coordinates, {most}, because its cost assumes that; got "
            f"{domain.size}"
        )
    wanted = norm if vector else "AbsoluteDistance"
    distance = str(metric.type).partition("<")[0]
    if distance != wanted:
        raise ParameterError(
            f"input_metric must be {wanted} for {law} on {name}, got {distance}"
        )
    kind = "f64" if real else "i64"
    return f"Vec<{kind}>" if vector else kind


def _reading(
    mechanism: Mechanism, measure: Any, delta: Real | None, norm: str
) -> tuple[Any, Callable[[Event], Any]]:
    """Return the measure, and a function that reads an event in it."""
    if delta is not None:
        if measure is not None:
            raise ParameterError(
                "output_measure must not be given with delta, which selects "
                "approximate(max_divergence())"
            )
        at = _validate.open_unit("delta", delta)
        up = _validate.float_up(at)
        return dp.approximate(dp.max_divergence()), lambda e: (event_epsilon(e, at), up)
    if isinstance(mechanism, TruncatedLaplace):
        raise ParameterError("delta must be given for TruncatedLaplace")
    pure = norm == "L1Distance"
    if measure is None:
        measure = dp.max_divergence() if pure else dp.zero_concentrated_divergence()
    name = str(getattr(measure, "type", type(measure).__name__))
    if name == "MaxDivergence" and pure:
        return measure, event_epsilon
    if name == "ZeroConcentratedDivergence":
        return measure, event_rho
    raise ParameterError(
        f"output_measure must be a measure of {type(mechanism).__name__}, "
        f"got {name}: Laplace noise has max_divergence, all noise has "
        "zero_concentrated_divergence, and delta= selects "
        "approximate(max_divergence())"
    )


_public.show(globals())
