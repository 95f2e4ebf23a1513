"""The sweep as a classifier of scikit-learn's."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from calsweep import CalibratedClassifierSweep
from sweeps.cluster import connection

SMALL = CalibratedClassifierSweep(
    losses=["focal"],
    epochs=15,
    trials=2,
    set={"selection.finalists": 0, "training.batch_size": 16, "scheduler.name": "none"},
)


@pytest.fixture(scope="module")
def ray_session() -> Iterator[None]:
    with connection.connected(None):
        yield


@pytest.mark.slow
def test_it_learns_in_a_pipeline_from_words_to_words(ray_session: None) -> None:
    samples, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    pipeline = make_pipeline(StandardScaler(), clone(SMALL)).fit(samples, names)
    assert pipeline.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    probs = pipeline.predict_proba(samples)
    assert probs.shape == (150, 3)
    assert np.allclose(probs.sum(1), 1)
    assert pipeline.score(samples, names) > 0.8
    assert pipeline[-1].best_.temperature > 0
    assert not hasattr(pipeline[-1], "result_")


@pytest.mark.slow
def test_a_frame_with_words_in_it(ray_session: None, tmp_path: pytest.TempPathFactory) -> None:
    frame = pd.DataFrame({"hue": ["red", "blue"] * 60, "size": np.arange(120.0)})
    labels = np.array([-1, 7])[(frame["hue"] == "red").to_numpy().astype(int)]
    found = clone(SMALL).set_params(storage=str(tmp_path)).fit(frame, labels)
    assert found.feature_names_in_.tolist() == ["hue", "size"]
    assert found.score(frame, labels) > 0.9
    assert found.result_.finished
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(frame.rename(columns={"hue": "colour"}))


def test_what_is_wrong_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="there is one class"):
        clone(SMALL).fit(np.ones((9, 2)), np.zeros(9))
    with pytest.raises(ValueError, match="did you mean 'focal'"):
        clone(SMALL).set_params(losses=["focall"]).fit(np.eye(40), np.arange(40) % 2)


# Those of scikit-learn's checks that fit nothing. The others run some fifty sweeps.
WITHOUT_FIT = {
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_estimators_unfitted",
    "check_estimator_sparse_tag",
    "check_classifiers_one_label",
    "check_fit1d",
    "check_requires_y_none",
    "check_complex_data",
    "check_supervised_y_no_nan",
}


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=check.func.__name__)
        for estimator, check in estimator_checks_generator(SMALL)
        if check.func.__name__ in WITHOUT_FIT
    ],
)
def test_scikit_learns_own_checks(estimator: CalibratedClassifierSweep, check: object) -> None:
    check(estimator)
