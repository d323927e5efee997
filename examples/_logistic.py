"""Logistic regression without privacy: data, loss, gradients and minimizer."""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def records(n: int, dimension: int, seed: int, length: float = 6.0) -> Array:
    """Return rows u = +-x, |x| <= 1, of a logistic law with weights that long."""
    rng = np.random.default_rng(seed)
    w = length / math.sqrt(dimension) * rng.choice([-1, 1], dimension)
    x = rng.normal(size=(n, dimension)) / math.sqrt(dimension)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    return np.where(rng.random(n) < logistic(x @ w), 1, -1)[:, None] * x


def logistic(t: Array) -> Array:
    """Return 1/(1 + exp(-t))."""
    return 0.5 + 0.5 * np.tanh(t / 2)


def products(u: Array, w: Array) -> Array:
    """Return u @ w, each row's by its own numbers: its place must not matter.

    A matrix product may round a row in one way or another by where it stands, and so by
    which other records there are.
    """
    out = np.zeros(len(u))
    for j in range(len(w)):
        out += u[:, j] * w[j]
    return out


def loss(w: Array, u: Array) -> float:
    """Return the mean loss, log(1 + exp(-w u))."""
    return float(np.logaddexp(0, -products(u, w)).mean())


def gradients(w: Array, u: Array) -> Array:
    """Return each record's gradient, of length at most 1."""
    return -logistic(-products(u, w))[:, None] * u


def best(u: Array, ridge: float = 0.0, push: Array | float = 0.0) -> Array:
    """Return the minimizer of loss + ridge |w|^2/2 + push w, by Newton's method."""
    w = np.zeros(u.shape[1])
    for _ in range(30):
        s = logistic(-products(u, w))
        bend = (u * (s * (1 - s))[:, None]).T @ u / len(u) + ridge * np.eye(len(w))
        w = w - np.linalg.solve(bend, gradients(w, u).mean(0) + ridge * w + push)
    return w
