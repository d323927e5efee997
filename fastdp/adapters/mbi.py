"""mbi: noisy marginals as its measurements. See docs/howto/mbi.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastdp import _public
from fastdp._stream import Stream, check_stream
from fastdp.accounting.events import NeighboringRelation, l2_sensitivity
from fastdp.adapters import _library
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms import DiscreteGaussian, DiscreteLaplace, TruncatedLaplace

mbi = _library.load("mbi", package="mbi", tested=("2.0", "2.1"))

__all__ = ["measure"]

_KINDS = (DiscreteGaussian, DiscreteLaplace, TruncatedLaplace)


def measure(
    mechanism: DiscreteGaussian | DiscreteLaplace | TruncatedLaplace,
    dataset: Any,
    cliques: Sequence[Any],
    *,
    stream: Stream | None = None,
) -> list[Any]:
    """Return the noisy marginals of a dataset, for mbi's estimators.

    Parameters
    ----------
    mechanism : DiscreteGaussian, DiscreteLaplace or TruncatedLaplace
        Noise for one marginal. Its sensitivity is the change of the marginal by one
        record: 1, and for `REPLACE_ONE` sqrt(2) (Gaussian) or 2 (Laplace).
    dataset : mbi.Dataset
        Each record counts as 1: weights are not read. Records with a value outside the
        domain are not counted.
    cliques : sequence of tuples of attributes
        The marginals.
    stream : Stream, optional
        None draws fresh keys from the operating system; use
        `fastdp.testing.FixedStream` for repeatable tests.

    Returns
    -------
    list of mbi.LinearMeasurement
        One per clique, with the noise's standard deviation.

    Raises
    ------
    DTypeError, ParameterError
        The dataset has no such attribute, or the mechanism's sensitivity is smaller
        than the change that one record causes.

    Privacy
    -------
    The guarantee is ``mechanism.event()`` composed once per clique. Counts and noise
    are integers, so nothing is rounded before the noise is added. Exact. Timing class
    T0.
    """
    _library.require(mbi, "mbi")
    check_stream(stream)
    if not isinstance(mechanism, _KINDS):
        raise DTypeError(
            "mechanism must be a DiscreteGaussian, DiscreteLaplace or TruncatedLaplace,"
            f" got {type(mechanism).__name__}"
        )
    if not isinstance(dataset, mbi.Dataset):
        raise DTypeError(
            f"dataset must be an mbi.Dataset, got {type(dataset).__name__}"
        )
    moved, cells = l2_sensitivity(1), 1
    if mechanism.neighboring_relation is NeighboringRelation.REPLACE_ONE:
        moved = l2_sensitivity(2 if isinstance(mechanism, DiscreteGaussian) else 4)
        cells = 2
    stated = getattr(mechanism, "coordinates", None)
    if stated is not None and stated < cells:
        raise ParameterError(
            "mechanism must have coordinates of at least 2, because a "
            f"replaced record changes two cells, got {stated}"
        )
    if mechanism.sensitivity is None or mechanism.sensitivity < moved:
        raise ParameterError(
            "mechanism must have a sensitivity of at least "
            f"{float(moved):.17g}, because one record moves a marginal by "
            f"that much, got {mechanism.sensitivity}"
        )
    attributes = dataset.domain.attributes
    unknown = {a for clique in cliques for a in clique} - set(attributes)
    if isinstance(cliques, str) or unknown:
        raise ParameterError(
            f"cliques must be tuples of attributes of the dataset, got {unknown}"
        )
    return [
        mbi.LinearMeasurement(
            mechanism.release(_counts(dataset, clique), stream=stream).astype(float),
            tuple(clique),
            stddev=mechanism.std,
        )
        for clique in cliques
    ]


def _counts(dataset: Any, clique: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return a marginal as integers, in mbi's order of cells.

    mbi itself computes it in float32, which cannot hold all integers above 2**24, and
    raises an error for a record outside the domain.
    """
    place = np.zeros(dataset.records, np.int64)
    inside = np.ones(dataset.records, bool)
    cells = 1
    for attribute in clique:
        size, values = dataset.domain[attribute], dataset.data[attribute]
        inside &= (values >= 0) & (values < size)
        place = place * size + np.where(inside, values, 0).astype(np.int64)
        cells *= size
    return np.bincount(place[inside], minlength=cells)


_public.show(globals())
