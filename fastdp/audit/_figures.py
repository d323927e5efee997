"""Numbers for the pictures: outputs for both inputs, and their precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastdp.audit._events import lowest_bits
from fastdp.audit._outcomes import Outcomes

#: Number of bars of a histogram; maximum number of named kinds of outcome.
_BARS, _KINDS = 41, 8

#: Range of powers of two to distinguish.
_LEAST, _MOST = -80, 70


def of_outputs(learned: Sequence[Outcomes]) -> dict[str, Any]:
    """Return the shares of outputs in bars, or of kinds of outcome, for both inputs."""
    if min(x.values.shape[1] for x in learned) == 0:
        return {"kinds": _kinds(learned)}
    columns = [x.values[x.numbered(), 0].astype(np.float64) for x in learned]
    pool = np.concatenate(columns)
    pool = pool[np.isfinite(pool)]
    if not len(pool):
        return {"kinds": _kinds(learned)}
    low, high = np.quantile(pool, (0.002, 0.998))
    if all(x.values.dtype.kind == "i" for x in learned):
        step = max(1.0, np.ceil((high - low + 1) / _BARS))
        edges = np.arange(low - 0.5, high + step, step)
    else:
        edges = np.linspace(low, max(high, np.nextafter(low, np.inf)), _BARS + 1)
    if len(np.unique(edges)) < len(edges):  # the doubles are too coarse for bars
        return {"kinds": _kinds(learned)}
    shares = [
        (np.histogram(c, edges)[0] / max(len(x), 1)).tolist()
        for c, x in zip(columns, learned, strict=True)
    ]
    return {"edges": edges.tolist(), "shares": shares}


def _kinds(learned: Sequence[Outcomes]) -> list[list[Any]]:
    """Return the most frequent kinds of outcome and their shares."""
    shares: dict[str, list[float]] = {}
    for which, outcomes in enumerate(learned):
        times = np.bincount(outcomes.kinds, minlength=len(outcomes.labels))
        for label, count in zip(outcomes.labels, times.tolist(), strict=True):
            shares.setdefault(label, [0.0, 0.0])[which] += count / len(outcomes)
    order = sorted(shares, key=lambda label: -sum(shares[label]))[:_KINDS]
    return [[label, *shares[label]] for label in order if sum(shares[label])]


def of_support(learned: Sequence[Outcomes]) -> list[list[float]]:
    """Return shares of floats by binade and precision.

    Rows are the binade (the power of two below the output's size), the largest power of
    two that divides the output, and the shares for both inputs. Zeros are left out.
    """
    if any(x.values.dtype.kind != "f" or not x.values.shape[1] for x in learned):
        return []
    cells: dict[tuple[int, int], list[float]] = {}
    for which, outcomes in enumerate(learned):
        y = outcomes.values[outcomes.numbered(), 0]
        y = y[(y != 0) & np.isfinite(y)]
        binade = np.clip(np.frexp(y)[1] - 1, _LEAST, _MOST)
        lowest = np.clip(lowest_bits(y), _LEAST, _MOST)
        pairs, times = np.unique(np.stack([binade, lowest]), axis=1, return_counts=True)
        for (at, low), count in zip(pairs.T.tolist(), times.tolist(), strict=True):
            cells.setdefault((at, low), [0.0, 0.0])[which] = count / len(outcomes)
    return [[*cell, *shares] for cell, shares in sorted(cells.items())]
