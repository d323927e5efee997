"""scikit-learn: its checks of estimators, copies, pipelines, and searches.

Run where diffprivlib is, whose extra has the version of scikit-learn that it needs.
"""

import warnings

import numpy as np
import pytest

from fastdp.learning import (
    MWEM,
    PATE,
    PCA,
    KMeans,
    LinearRegression,
    LogisticRegression,
)
from fastdp.testing import FixedStream
from tests.engines.conftest import needs

needs("diffprivlib")
sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone, is_regressor  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

PUBLIC = {"bounds": (-3, 3), "unit": "row", "neighboring_relation": "replace_one"}
MODELS = [
    LinearRegression(y_bounds=(-300, 300), epsilon=1e4, **PUBLIC),
    PCA(epsilon=1e4, **PUBLIC),
    KMeans(3, epsilon=1e4, **PUBLIC),
    LogisticRegression(classes=[0, 1], epsilon=1e4, **PUBLIC),
]
OWN = {"unit": "row", "neighboring_relation": "replace_one", "epsilon": 1}
OTHERS = [
    MWEM(domain=[2, 2], queries=1, **OWN),
    PATE(MODELS[3], teachers=2, pool=[[0, 1], [1, 0]], classes=[0, 1], **OWN),
]

#: What scikit-learn checks and a private model is not, with the reason.
LEFT_OUT = {
    "check_dtype_object": "no value of a record raises: what is no number is missing",
    "check_estimators_empty_data_messages": "whether there are records is data",
    "check_estimators_unfitted": "its own class of errors; ours is a ParameterError",
    "check_supervised_y_no_nan": "no value of a record raises",
    "check_supervised_y_2d": "one column is taken without a warning",
    "check_fit_idempotent": "the noise is fresh",
    "check_regressors_int": "compares two fits, whose noise differs",
    "check_classifier_data_not_an_array": "likewise",
    "check_classifiers_classes": "classes are public and stated, not found in records",
    "check_classifiers_train": "likewise: with three classes",
    "check_classifiers_regression_target": "targets of no class are left out",
    "check_regressor_data_not_an_array": "likewise",
}


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_checks_of_scikit_learn(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(clone(model), on_skip=None, on_fail=None)
    passed = [one["check_name"] for one in found if one["status"] == "passed"]
    failed = {one["check_name"] for one in found if one["status"] == "failed"}
    assert len(passed) > 25
    assert failed <= LEFT_OUT.keys()


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS + OTHERS, ids=lambda m: type(m).__name__)
def test_copies_have_the_parameters_and_nothing_else(model):
    x = np.random.default_rng(0).normal(size=(50, 2))
    copy = clone(clone(model).fit(x, x[:, 0]))
    assert repr(copy.get_params()) == repr(model.get_params())
    assert vars(copy).keys() == vars(model).keys()
    assert is_regressor(model) == isinstance(model, LinearRegression)


@pytest.mark.slow
def test_pipelines_and_searches():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2_000, 3))
    y = x @ [1, 2, 3]
    axes = PCA(2, epsilon=1e6, **PUBLIC)
    line = LinearRegression(y_bounds=(-20, 20), epsilon=1e6, **PUBLIC)
    steps = make_pipeline(axes, line)
    steps.fit(x, y, linearregression__stream=FixedStream("a"))
    assert steps.predict(x).shape == (2_000,)
    steps.set_params(pca__n_components=3)
    found = GridSearchCV(steps, {"pca__n_components": [1, 3]}, cv=3).fit(x, y)
    assert found.best_params_ == {"pca__n_components": 3}
    assert found.best_score_ > 0.9
