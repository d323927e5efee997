"""What estimators learn from data at little noise."""

import numpy as np
import pytest

from fastdp.exceptions import (
    DTypeError,
    ParameterError,
)
from fastdp.learning import (
    PCA,
    KMeans,
    LinearRegression,
    LogisticRegression,
    _logistic,
)
from fastdp.testing import FixedStream
from tests.learning.test_estimators import NAN, PUBLIC, REPLACED, made, sums_of

# ---- what is learned ---------------------------------------------------------------


def test_a_line_is_found_at_little_noise():
    rng = np.random.default_rng(2)
    x = rng.uniform([-5, 100], [5, 200], (2_000, 2))
    y = 3 * x[:, 0] - 0.1 * x[:, 1] + 7
    known = {"unit": "row", "neighboring_relation": REPLACED, "epsilon": 10**7}
    bounds = ([-5, 100], [5, 200])
    model = LinearRegression(bounds=bounds, y_bounds=(-30, 30), **known).fit(x, y)
    assert model.event().neighboring_relation is REPLACED
    assert np.allclose(model.coef_, [3, -0.1], atol=1e-3)
    assert model.intercept_ == pytest.approx(7, abs=0.1)
    assert model.score(x, y) > 0.9999
    model.set_params(fit_intercept=False).fit(x, y - 7)
    assert np.allclose(model.coef_, [3, -0.1], atol=0.05)
    assert model.intercept_ == 0


def test_clusters_are_found_at_little_noise():
    rng = np.random.default_rng(6)
    means = np.array([[2, 10], [8, 30], [2, 50]])
    x = means[rng.integers(0, 3, 3_000)] + rng.normal(size=(3_000, 2)) * [0.3, 2]
    known = {"unit": "row", "neighboring_relation": "replace_one", "epsilon": 10**5}
    model = KMeans(3, bounds=([0, 0], [10, 60]), max_iter=6, **known)
    labels = model.fit_predict(x)
    order = model.predict(means)
    assert sorted(order) == [0, 1, 2]
    assert model.cluster_centers_[order] == pytest.approx(means, abs=0.5)
    assert (labels == order[np.abs(x - means[:, None]).sum(2).argmin(0)]).all()
    assert model.predict([[NAN, 1]]) == [-1]
    assert model.score(x) == pytest.approx(model.score(np.vstack([x, [NAN, 1]])))
    with pytest.raises(ParameterError, match="init must be"):
        model.set_params(init=[[NAN, 1]] * 3).fit(x)


def test_no_record_is_in_two_clusters(monkeypatch):
    """A record on the border of both first centers counts once."""
    border = (0.5, 0.75, 0.0)
    (exact, *_) = sums_of(made("clusters"), [border], monkeypatch)
    counts = np.array(exact).reshape(2, 3)[:, 0]
    assert (counts > 0).tolist() == [True, False]


def test_classes_are_found_at_little_noise():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(4_000, 2)) * [1, 10] + [0, 50]
    known = {"unit": "row", "neighboring_relation": "replace_one", "epsilon": 10**4}
    known["bounds"] = ([-3, 20], [3, 80])
    odds = 2 * x[:, 0] - 0.2 * (x[:, 1] - 50) + 1
    y = rng.random(4_000) < _logistic.logistic(odds)
    model = LogisticRegression(classes=[False, True], **known).fit(x, y)
    assert model.coef_ == pytest.approx(np.array([[2, -0.2]]), rel=0.2)
    assert model.intercept_ == pytest.approx([11], rel=0.2)
    assert model.predict_proba(x)[:, 1] == pytest.approx(
        _logistic.logistic(model.decision_function(x))
    )
    assert model.score(x, y) == model.score(x, y.tolist())
    assert model.score(x, y) > 0.8
    names = np.array(["a", "b", "c"])
    y = names[np.array([x[:, 0], -x[:, 0], x[:, 1] / 10 - 5]).argmax(axis=0)]
    model = LogisticRegression(classes=names, **known).fit(x, y)
    assert model.score(x, y) > 0.85
    assert model.predict_proba(x).sum(axis=1) == pytest.approx(1)
    assert (names[model.predict_proba(x).argmax(axis=1)] == model.predict(x)).all()
    assert model.predict([[1e308, -1e308]] * 5).shape == (5,)


def test_few_records_of_many_features_are_no_guess():
    """The noise of all products of features is far larger than they are."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 600)
    x = rng.normal(size=(600, 30)) / 5 - np.where(y == 1, 0.6, 0.3)[:, None]
    model = LogisticRegression(
        classes=[0, 1], neighboring_relation="replace_one", epsilon=1, **PUBLIC
    )
    scores = [model.fit(x, y, stream=FixedStream(str(i))).score(x, y) for i in range(9)]
    assert np.median(scores) > 0.8  # 0.49 with a noisy sum of products


def test_gradients_lie_in_their_ball():
    """Else rows are shortened: a loss of accuracy, not of privacy."""
    angle = np.linspace(0, np.pi, 1_000)
    for length in (0.0, 0.5, 2.0, 8.0):
        for centered in (False, True):
            c, r = _logistic.egg(length, centered)
            s = _logistic.logistic(-length * np.cos(angle))
            far = np.hypot(s * np.cos(angle) - c, s * np.sin(angle))
            assert 0.99 * r < far.max() < 1.0001 * r


@pytest.mark.parametrize("name", ["line", "two classes"])
def test_records_are_paired_by_one_index(name):
    """Taken out by its label, a record must not pair all others anew."""
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame({"a": [0.1, 0.2, 0.3], "b": 0.0}, index=[1, 2, 3])
    y = pandas.Series([0, 2, 0], index=[3, 1, 2])
    with pytest.raises(ParameterError, match="X and y must have the same index"):
        made(name).fit(x, y)
    assert made(name).fit(x, y.loc[x.index]).n_features_in_ == 2
    assert made(name).fit(x, y.to_numpy()).n_features_in_ == 2


def test_a_label_is_read_by_itself():
    """A text among numbers would make texts of all, in an array of numpy."""
    classes = [1, 2]
    odd = [1, 2.0, "1", None, NAN, [1], {}, np.int64(2), True]
    alone = [_logistic.coded([y], classes, 1)[0] for y in odd]
    assert alone == [0, 1, -1, -1, -1, -1, -1, 1, 0]
    assert _logistic.coded(odd, classes, len(odd)).tolist() == alone
    assert _logistic.coded(np.array(["1", "2"]), classes, 2).tolist() == [-1, -1]
    assert _logistic.coded(np.array([2, 3, 1]), ["a", "b"], 3).tolist() == [-1] * 3
    pandas = pytest.importorskip("pandas")
    for kind in ("object", "category", "string"):
        y = pandas.Series(["b", "a", None, "x"], dtype=kind)
        assert _logistic.coded(y, ["a", "b"], 4).tolist() == [1, 0, -1, -1]
    with pytest.raises(DTypeError, match="y must have no mask"):
        _logistic.coded(np.ma.array([1, 2], mask=[0, 1]), classes, 2)
    if wide := getattr(np.dtypes, "StringDType", None):  # from numpy 2 on
        y = np.array(["b", "a"], wide())
        assert _logistic.coded(y, ["a", "b"], 2).tolist() == [1, 0]


def test_a_null_makes_no_large_labels_equal():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    classes, ints = [2**53, 2**53 + 1], arrow.int64()
    columns = {
        "list": list,
        "arrow": lambda y: arrow.array(y, ints),
        "chunks": lambda y: arrow.chunked_array([arrow.array(y, ints)]),
        "arrow table": lambda y: arrow.table({"y": arrow.array(y, ints)}),
        "pandas": lambda y: pandas.Series(y, dtype="Int64"),
        "pandas frame": lambda y: pandas.DataFrame({"y": y}, dtype="Int64"),
        "arrow in pandas": lambda y: pandas.Series(y, dtype="int64[pyarrow]"),
        "polars": lambda y: polars.Series(y, dtype=polars.Int64),
        "polars frame": lambda y: polars.DataFrame({"y": y}),
    }
    for name, column in columns.items():
        for last, code in ((2**53, 0), (None, -1), (5, -1)):
            codes = _logistic.coded(column([*classes, last]), classes, 3)
            assert codes.tolist() == [0, 1, code], name


@pytest.mark.parametrize(
    "classes", ["ab", [1], [1, 1], [1, "a"], [0, None], 2, [[1], [2]]], ids=str
)
def test_classes_are_refused(classes):
    model = made("two classes").set_params(classes=classes)
    with pytest.raises((DTypeError, ParameterError), match="classes must be"):
        model.event(2)


def test_axes_are_found_at_little_noise():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(5_000, 3)) @ np.diag([3, 2, 0.1]) + [20, 0, 0]
    bounds = ([0, -20, -20], [40, 20, 20])
    known = {"unit": "row", "neighboring_relation": "replace_one", "rho": 1e6}
    for centered in (False, True):
        model = PCA(2, bounds=bounds, centered=centered, **known)
        back = model.inverse_transform(model.fit_transform(x))
        assert np.abs(back - x).max() < 1
        assert np.allclose(np.abs(model.components_), np.eye(2, 3), atol=0.1)
        assert model.mean_ == pytest.approx([20, 0, 0], abs=0.2)
        assert model.explained_variance_ratio_ == pytest.approx(
            [9 / 13, 4 / 13], abs=0.03
        )
        assert hasattr(model, "explained_variance_") is not centered
    assert list(model.get_feature_names_out()) == ["pca0", "pca1"]
