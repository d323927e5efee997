"""Epochs of allocated batches against adversaries that choose every step adaptively."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

Floats = np.ndarray[Any, Any]

#: Laws of one step on a batch with the record, and without it.
P, Q = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])
LEVELS = np.exp(np.linspace(-2.5, 2.5, 21))


def profile(p: Floats, q: Floats) -> Floats:
    """Return the integral of (p - a q)_+ at all levels a."""
    return np.asarray(np.maximum(p - LEVELS[:, None] * q, 0).sum(axis=1))


def epoch(steps: int, selected: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the laws of transcripts with the record and without it.

    After each transcript the step is a channel of its own behind the pair.
    """
    places = list(itertools.combinations(range(steps), selected))
    withs, without = [np.ones(1) for _ in places], np.ones(1)
    for step in range(steps):
        channels = rng.dirichlet(np.full(3, 0.3), (without.size, 3))
        channels[rng.random(without.size) < 0.5] = np.eye(3)
        record, none = P @ channels, Q @ channels
        for i, place in enumerate(places):
            law = record if step in place else none
            withs[i] = (withs[i][:, None] * law).ravel()
        without = (without[:, None] * none).ravel()
    return np.mean(withs, axis=0), without


@pytest.mark.parametrize(
    ("steps", "selected"), [(1, 1), (2, 1), (3, 1), (4, 1), (3, 2), (4, 2), (4, 4)]
)
def test_an_epoch_costs_the_selected_steps_at_most(steps: int, selected: int) -> None:
    rng = np.random.default_rng(steps + 10 * selected)
    with_record, without = np.ones(1), np.ones(1)
    for _ in range(selected):
        with_record = np.outer(with_record, P).ravel()
        without = np.outer(without, Q).ravel()
    removal, addition = profile(with_record, without), profile(without, with_record)
    for _ in range(40):
        p, q = epoch(steps, selected, rng)
        assert (profile(p, q) <= removal + 1e-12).all()
        assert (profile(q, p) <= addition + 1e-12).all()
