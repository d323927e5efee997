"""Unary rows from a label and random bits, and the sums of their columns."""

import numpy as np


def rows(
    background: np.ndarray, labels: np.ndarray, own: np.ndarray, d: int
) -> np.ndarray:
    """Return packed rows: background bits, the own bit put at the label, padding 0."""
    bits = background.reshape(len(labels), -(-d // 8) * 8).copy()
    bits[np.arange(len(labels)), labels] = own
    bits[:, d:] = False
    return np.packbits(bits, axis=1)


def column_sums(packed: np.ndarray, d: int) -> np.ndarray:
    """Return how many rows have each of d bits."""
    return np.unpackbits(packed, axis=1)[:, :d].astype(np.int64).sum(axis=0)
