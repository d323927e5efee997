"""Tests of the outputs against the claimed law."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fastdp.audit._bounds import binomial_p, log_evidence
from fastdp.audit._findings import Finding

#: Number of cells of a law; number of cells of each number of a pair.
_CELLS, _FIFTHS = 128, 5

#: Moduli of the tested residues of integers. The first tests the low bits.
_MODULI = (256, 3, 5, 7, 10)

#: Distinguish positions in a batch modulo this.
_PLACES = 32

#: Sum the residues' probabilities exactly if the support is at most this large.
_SUPPORT = 2**21

#: Thresholds in the tails are at probabilities 2^-1, ..., 2^-_HALVINGS.
_HALVINGS = 60

TRIED = (
    "tails, cells, low bits and rests of divisions, neighboring draws, places in an "
    "array and in the array of the next call, each against its exact probabilities"
)


class Tables:
    """Counts of noise in tables of cells with known probabilities under the law.

    Parameters
    ----------
    law : object
        A law with `cdf`, `sf`, `ppf` and `isf`, and with `pmf` if it is on the
        integers.
    """

    def __init__(self, law: Any) -> None:
        self._law = law
        self.whole = hasattr(law, "pmf")
        halves = 0.5 ** np.arange(1, _HALVINGS + 1)
        up, down = np.unique(law.isf(halves)), np.unique(law.ppf(halves))
        self._up, self._down = up[np.isfinite(up)], down[np.isfinite(down)]
        self._above = np.zeros(len(self._up), np.int64)
        self._below = np.zeros(len(self._down), np.int64)
        self._n = 0
        self._edges = _edges_of(law, _CELLS)
        self._fifths = _edges_of(law, _FIFTHS)
        fifth = _masses(law, self._fifths)
        pairs = np.outer(fifth, fifth).reshape(-1)
        self._tables = {
            "cells": (_zeros(len(self._edges) + 1), _masses(law, self._edges)),
            "neighboring draws": (_zeros(pairs.size), pairs),
            "the same place in the next call": (_zeros(pairs.size), pairs),
            "places in the array": (_zeros(fifth.size, _PLACES), fifth),
        }
        self._slack = dict.fromkeys(self._tables, 0.0)
        if self.whole:
            for modulus in _MODULI:
                p, slack = _residues(law, modulus)
                name = f"rests of a division by {modulus}"
                self._tables[name] = _zeros(modulus), p
                self._slack[name] = slack
        self._last: np.ndarray | None = None

    def tests(self) -> int:
        """Return the number of tests."""
        return len(self._up) + len(self._down) + len(self._tables)

    def add(self, noise: np.ndarray, *, batched: bool) -> None:
        """Count the noise of consecutive draws."""
        self._n += len(noise)
        ordered = np.sort(noise)
        self._above += len(noise) - np.searchsorted(ordered, self._up, "right")
        self._below += np.searchsorted(ordered, self._down, "right")
        self._count("cells", np.searchsorted(self._edges, noise))
        cell = np.searchsorted(self._fifths, noise)
        k = len(self._fifths) + 1
        even = len(cell) // 2 * 2
        self._count("neighboring draws", k * cell[0:even:2] + cell[1:even:2])
        if batched:
            rows = len(cell) // _PLACES * _PLACES
            place = np.arange(rows) % _PLACES
            self._count("places in the array", k * place + cell[:rows])
            # Use disjoint pairs of calls, so that they are independent.
            if self._last is not None and len(self._last) == len(cell):
                self._count("the same place in the next call", k * self._last + cell)
                self._last = None
            else:
                self._last = cell
        if self.whole:
            rest = np.where(np.isfinite(noise), noise, 0).astype(np.int64)
            for modulus in _MODULI:
                self._count(f"rests of a division by {modulus}", rest % modulus)

    def _count(self, name: str, codes: np.ndarray) -> None:
        counts = self._tables[name][0]
        counts += np.bincount(codes, minlength=counts.size).reshape(counts.shape)

    def strongest(self) -> tuple[float, str]:
        """Return the least p-value, not multiplied by `tests`, and its test."""
        found: list[tuple[float, str]] = [(1.0, "no draw was made")]
        for limits, hits, sign in (
            (self._up, self._above, ">"),
            (self._down, self._below, "<="),
        ):
            side = self._law.sf if sign == ">" else self._law.cdf
            for limit, seen in zip(limits, hits, strict=True):
                rate = float(side(limit))
                p = binomial_p(int(seen), self._n, rate)
                text = (
                    f"noise {sign} {limit:.6g} in {seen} of {self._n} draws, where "
                    f"{rate * self._n:.6g} are expected"
                )
                found.append((p, text))
        for name, (counts, probability) in self._tables.items():
            if not counts.sum():
                continue
            slack = self._slack[name] * counts.sum()
            p = math.exp(-max(0.0, log_evidence(counts, probability) - slack))
            with np.errstate(all="ignore"):
                expected = counts.sum(axis=1, keepdims=True) * probability
                ratio = (counts / expected).reshape(-1)
            at = int(np.nanargmax(np.abs(np.log(np.maximum(ratio, 1e-3)))))
            text = f"{name}: cell {at} has {ratio[at]:.4g} times its expected draws"
            found.append((p, text))
        return min(found)


def _zeros(cells: int, groups: int = 1) -> np.ndarray:
    return np.zeros((groups, cells), np.int64)


def _edges_of(law: Any, cells: int) -> np.ndarray:
    edges = np.unique(law.ppf(np.arange(1, cells) / cells))
    return np.asarray(edges[np.isfinite(edges)], np.float64)


def _masses(law: Any, edges: np.ndarray) -> np.ndarray:
    """Return the probabilities of the cells between edges, which contain right ends."""
    below = np.concatenate([[0.0], law.cdf(edges), [1.0]])
    above = np.concatenate([[1.0], law.sf(edges), [0.0]])
    left = below[1:] <= 0.5
    masses = np.where(left, np.diff(below), -np.diff(above))
    return np.asarray(masses / masses.sum())


def _residues(law: Any, modulus: int) -> tuple[np.ndarray, float]:
    """Return the residues' probabilities, and a bound on their relative error.

    For a wide, unimodal law each residue has probability 1/modulus, with an error of at
    most the law's largest mass.
    """
    high = float(law.isf(0.5**_HALVINGS))
    low = float(law.ppf(0.5**_HALVINGS))
    if high - low > _SUPPORT:
        peak = float(law.pmf(law.ppf(0.5)))
        return np.full(modulus, 1 / modulus), modulus * peak
    x = np.arange(int(low), int(high) + 1)
    mass = np.bincount(x % modulus, law.pmf(x), modulus)
    return mass / mass.sum(), 0.0


def finding(
    tables: list[Tables], outside: str, level: float, input_text: str
) -> Finding:
    """Return the finding of the tables against the law.

    Parameters
    ----------
    tables : list of Tables
        One for each law.
    outside : str
        Kind of an outcome that is not a number, or "".
    level : float
    input_text : str
    """
    share = level / max(1, sum(each.tests() for each in tables))
    p, text = min(each.strongest() for each in tables)
    refuted = bool(outside) or p <= share
    if outside:
        text = f"an outcome is no number: {outside}"
    elif refuted:
        text = f"the law does not hold: {text} (p at most {p:.3g})"
    else:
        text = f"nothing beyond chance; the most unlikely: {text} (p at most {p:.3g})"
    return Finding(
        check="law",
        status="refuted" if refuted else "nothing found",
        tried=TRIED,
        evidence=text,
        false_alarm=level,
        input=input_text,
        power=_power(sum(each._n for each in tables), share),
    )


def _power(n: int, share: float) -> str:
    """Describe the detectable error of the probability of the law's upper quarter."""
    from scipy.stats import norm

    wide = float(norm.isf(share / 2)) + float(norm.isf(0.01))
    off = wide * math.sqrt(0.25 * 0.75 / max(n, 1)) / 0.25
    return f"about: a quarter of the law whose probability is off by {100 * off:.2g} %"


#: Function from the numbers of outcomes to the noise.
Noise = Callable[[np.ndarray], np.ndarray]
