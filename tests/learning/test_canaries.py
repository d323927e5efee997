"""Audits of the models with a planted canary, the record that a fit shows best.

The test of a fit is fixed beforehand, and the bound is that of `readings.audit`.
Without noise the same test refutes epsilon.
"""

import numpy as np
import pytest

from fastdp.accounting import readings
from fastdp.learning import (
    MWEM,
    PATE,
    PCA,
    KMeans,
    LinearRegression,
    LogisticRegression,
    _base,
)

PUBLIC = {"unit": "row", "neighboring_relation": "replace_one", "epsilon": 4}
BOX = {"bounds": (-1, 1), **PUBLIC}


class Sign:
    """A teacher that learns one sign."""

    def fit(self, x, y):
        self.up = (x[:, 0] * (2 * y - 1.0)).sum() >= 0

    def predict(self, x):
        return (x[:, 0] > 0) == self.up


def line(table):
    model = LinearRegression(y_bounds=(-1, 1), fit_intercept=False, **BOX)
    return float(model.fit(table[:, :1], table[:, 1]).coef_[0])


def classes(table):
    model = LogisticRegression(classes=[-1, 1], fit_intercept=False, **BOX)
    return float(model.fit(table[:, :1], table[:, 1]).coef_[0, 0])


def axes(table):
    return float(PCA(1, centered=True, **BOX).fit(table).components_[0].prod())


def clusters(table):
    return float(KMeans(1, max_iter=1, **BOX).fit(table).cluster_centers_[0, 0])


def queries(table):
    model = MWEM(domain=(2,), queries=1, max_iter=1, **PUBLIC)
    return float(model.fit(table[:, :1] > 0).weights_[1])


def votes(table):
    model = PATE(Sign(), teachers=1, pool=[[1.0]], classes=[0, 1], **PUBLIC)
    return int(model.fit(table[:, :1], table[:, 1] > 0).labels_[0])


MODELS = [line, classes, axes, clusters, queries, votes]


def shown(model, runs=300):
    """Return a lower bound of epsilon: how often a fit tells the canary's side."""
    tables = np.full((2, 3, 2), 0.1)
    tables[:, 0] = (1, 1), ((-1, -1) if model in (clusters, queries) else (1, -1))
    middle = {votes: 0.5, queries: 2.0}.get(model, 0.0)
    hits, errors = (sum(model(x) > middle for _ in range(runs)) for x in tables)
    return readings.audit(
        true_positives=hits,
        positives=runs,
        false_positives=errors,
        negatives=runs,
        confidence=0.95,
        delta=0,
    ).epsilon


@pytest.mark.rest
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_canary_shows_less_than_epsilon(model):
    assert 0.3 < shown(model) <= 4


@pytest.mark.rest
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_canary_shows_a_fit_without_noise(model, monkeypatch):
    def draw(fitting, i, m, data, verb="release"):
        return data.copy() if verb == "release" else data.argmax()

    monkeypatch.setattr(_base.Fitting, "draw", draw)
    assert shown(model) > 4
