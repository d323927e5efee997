"""Sums of products of a record's numbers, for least squares and PCA."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastdp.learning._base import Array


class Products:
    """The products z_i z_j, i <= j, of each record's z as one row of bounded norm.

    z has free numbers in [-1, 1], then a 1 if `constant`, and then the target if
    `target`; the target's square is left out. Rows are scaled down to the public
    `radius`, which fits free numbers of the given L2 norm (None: uniform in the box).
    The scale depends only on the free numbers, so a fit of the target on the free
    numbers stays unbiased.
    """

    def __init__(
        self,
        free: int,
        norm: int,
        *,
        constant: bool,
        target: bool = False,
        length: float | None = None,
    ) -> None:
        self._norm, self._target = norm, target
        self.width = free + constant + target
        i, j = np.triu_indices(self.width)
        last = len(i) - target  # leaves out the target's square
        self._i, self._j = i[:last], j[:last]
        # In L2 an off-diagonal entry stands for two entries of the matrix.
        root = math.sqrt(2) if norm == 2 else 1.0
        self._factor = np.where(self._i < self._j, root, 1.0)
        square = free / 3 if length is None else length**2
        absolute = math.sqrt(0.75 * free * square)  # L1 norm, uniform in the box
        self.radius = float(self._length(constant + square, constant + absolute))

    @property
    def shape(self) -> dict[str, Any]:
        """Radius, dimension and norm of the sum, as arguments of `ClippedSum`."""
        norm = {"norm": self._norm}
        return {"radius": self.radius, "dimension": len(self._i), **norm}

    def _length(self, square: Any, absolute: Any) -> Any:
        """Return a row's norm for |target| = 1, from sums of the others' magnitudes."""
        if self._norm == 1:
            return (absolute**2 + square) / 2 + self._target * absolute
        return np.sqrt(square**2 + 2 * self._target * square)

    def rows(self, inner: Array, target: Array | None = None) -> Array:
        """Return each record's row from its own numbers; zeros if it has NaN."""
        square, absolute = np.zeros(len(inner)), np.zeros(len(inner))
        for column in inner.T:  # fixed order: no record's sum depends on others
            square += column**2
            absolute += np.abs(column)
        length = self._length(square, absolute)
        weight = np.minimum(1, self.radius / np.maximum(length, self.radius / 2))
        z = inner if target is None else np.column_stack([inner, target])
        rows: Array = z[:, self._i] * z[:, self._j] * self._factor * weight[:, None]
        rows[np.isnan(z).any(axis=1)] = 0
        return rows

    def matrix(self, noisy: Array) -> Array:
        """Return the symmetric matrix of a noisy sum."""
        full = np.zeros((self.width, self.width))
        full[self._i, self._j] = full[self._j, self._i] = noisy / self._factor
        return full
