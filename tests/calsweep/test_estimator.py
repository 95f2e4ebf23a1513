"""The sweep as a scikit-learn classifier."""

import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import calsweep
from calsweep import CalibratedClassifierSweep, SweepInterruptedError

OPTIONS = {
    "selection.finalists": 0,
    "training.batch_size": 16,
    "scheduler.name": "none",
    "scaling.max_concurrent": 1,  # one process to start
}
SMALL = CalibratedClassifierSweep(
    losses=["focal"],
    epochs=15,
    trials=2,
    # One MLflow for all, as creating its tables takes long.
    set={**OPTIONS, "tracking.uri": "sqlite:///mlflow.db", "reference": "none"},
)
TINY = clone(SMALL).set_params(epochs=3, trials=1)
NOT_FINITE = {np.nan: "contains NaN", np.inf: "contains infinity"}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The working folder of all tests, as sweeps write MLflow's database to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("sweeps"))
        yield


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps train in this process."""
    monkeypatch.setattr("calsweep.estimator.run", partial(calsweep.run, debug=True))


@pytest.mark.slow
def test_it_learns_in_a_pipeline_and_in_cross_validation(ray_session: None) -> None:
    samples, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    pipeline = make_pipeline(StandardScaler(), clone(SMALL))
    found = cross_validate(
        pipeline, samples, names, cv=2, scoring="neg_log_loss", return_estimator=True
    )
    assert found["test_score"].shape == (2,)
    assert (found["test_score"] > -np.log(3)).all()  # better than uniform predictions
    fitted = found["estimator"][0]
    assert fitted.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    probs = fitted.predict_proba(samples)
    assert probs.shape == (150, 3)
    assert np.allclose(probs.sum(1), 1)
    assert fitted.score(samples, names) > 0.8
    last = fitted[-1]
    assert last.best_.temperature > 0
    with pytest.raises(AttributeError, match="result_: the sweep was not kept; give storage="):
        _ = last.result_
    again = pickle.loads(pickle.dumps(last))
    assert np.array_equal(again.predict_proba(samples), last.predict_proba(samples))
    assert np.array_equal(again.predict(samples), last.predict(samples))
    assert last.n_features_in_ == 4
    for predict in (last.predict, last.predict_proba, partial(last.score, y=names[:1])):
        with pytest.raises(ValueError, match=r"X has 1 features, but .* expecting 4 features"):
            predict(samples[:1, [1]])
        for value, reason in NOT_FINITE.items():
            with pytest.raises(ValueError, match=reason):
                predict(np.full((1, 4), value))


@pytest.mark.slow
def test_a_frame_with_words_in_it(without_ray: None, tmp_path: Path) -> None:
    frame = pd.DataFrame({"hue": ["red", "blue"] * 60, "size": np.arange(120.0)})
    labels = np.array([-1, 7])[(frame["hue"] == "red").to_numpy().astype(int)]
    # With its own MLflow and reference models, as by default.
    found = clone(SMALL).set_params(storage=str(tmp_path), set=OPTIONS).fit(frame, labels)
    assert found.feature_names_in_.tolist() == ["hue", "size"]
    assert found.score(frame, labels) > 0.9
    assert found.result_.finished
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(frame.rename(columns={"hue": "colour"}))


@pytest.mark.slow
def test_a_frame_may_have_missing_values(without_ray: None) -> None:
    values = np.random.default_rng(0).normal(size=(120, 3))
    labels = (values[:, 0] > 0).astype(int)
    frame = pd.DataFrame(values, columns=["a", "b", "c"]).mask(values > 1.5)
    found = clone(SMALL).fit(frame, labels, sample_weight=np.ones(120))
    assert found.score(frame, labels) > 0.8
    assert np.isfinite(found.predict_proba(frame.assign(b=np.nan))).all()


def test_weights_are_requested_by_metadata_routing() -> None:
    with config_context(enable_metadata_routing=True):
        requested = clone(SMALL).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler(), requested)
        weights = np.append(np.ones(39), -1)  # refused, so they have arrived
        with pytest.raises(ValueError, match="weight"):
            pipeline.fit(np.eye(40), np.arange(40) % 2, sample_weight=weights)


def test_groups_are_the_unit(tmp_path: Path, without_ray: None) -> None:
    random = np.random.default_rng(0)
    customers = np.repeat(np.arange(90), random.integers(2, 9, 90))
    labels = (np.arange(90) % 2)[customers]
    samples = labels[:, None] + random.normal(size=(90, 3))[customers]
    kept = {"storage": str(tmp_path), "test_size": 0.3, "epochs": 1, "trials": 1}
    pipeline = make_pipeline(StandardScaler(), clone(SMALL).set_params(**kept))
    with pytest.raises(ValueError, match=r"groups have shape \(9,\)"):
        pipeline.fit(samples, labels, calibratedclassifiersweep__groups=customers[:9])
    pipeline.fit(samples, labels, calibratedclassifiersweep__groups=customers)
    (groups,) = set(pipeline[-1].result_.table()["test_groups"])
    assert 15 < groups < 40


def test_labels_of_a_frame_are_checked() -> None:
    frame = pd.DataFrame({"a": np.arange(40.0)})
    with pytest.raises(ValueError, match=r"Unknown label type|1d array"):
        clone(SMALL).fit(frame, np.eye(40))
    with pytest.raises(ValueError, match="40 samples, and labels"):
        clone(SMALL).fit(frame, np.arange(39) % 2)


def test_an_interrupted_fit_gives_advice_that_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(**options: Any) -> None:
        raise SweepInterruptedError("interrupted; calsweep.resume('sweep-1') continues it")

    monkeypatch.setattr("calsweep.estimator.run", interrupted)
    data = np.eye(40), np.arange(40) % 2
    with pytest.raises(SweepInterruptedError, match=r"this fit is lost.*storage=FOLDER"):
        clone(SMALL).fit(*data)
    with pytest.raises(SweepInterruptedError, match="'sweep-1'"):
        clone(SMALL).set_params(storage=str(tmp_path)).fit(*data)


@pytest.mark.parametrize(("value", "reason"), NOT_FINITE.items())
def test_samples_that_are_not_finite(value: float, reason: str) -> None:
    samples = np.eye(40)
    samples[0, 0] = value
    with pytest.raises(ValueError, match=reason):
        clone(SMALL).fit(samples, np.arange(40) % 2)


def test_what_is_wrong_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="there is one class"):
        clone(SMALL).fit(np.ones((9, 2)), np.zeros(9))
    with pytest.raises(ValueError, match="did you mean 'focal'"):
        clone(SMALL).set_params(losses=["focall"]).fit(np.eye(40), np.arange(40) % 2)


@pytest.mark.parametrize("labels", [[5, 10], [-1.0, 10.0], ["10", "setosa"], [False, True]])
def test_a_rare_class_is_named_by_its_label(labels: list[Any], without_ray: None) -> None:
    named = np.array(labels)[[0] * 39 + [1]]
    with pytest.raises(ValueError, match=f"class {str(labels[1])!r} has only one sample"):
        clone(SMALL).fit(np.eye(40), named)


@pytest.mark.slow
def test_probabilities_are_in_the_order_of_classes(without_ray: None) -> None:
    """As text, -1 is before -2."""
    samples, codes = load_iris(return_X_y=True)
    classifier = clone(SMALL).fit(samples, codes - 2.0)
    assert classifier.classes_.tolist() == [-2, -1, 0]
    assert classifier.score(samples, codes - 2.0) > 0.8


# Those of scikit-learn's checks that run no sweep. The others run some fifty.
WITHOUT_FIT = {
    "check_all_zero_sample_weights_error",
    "check_classifiers_one_label",
    "check_classifiers_one_label_sample_weights",
    "check_classifiers_regression_target",
    "check_complex_data",
    "check_decision_proba_consistency",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimator_tags_renamed",
    "check_estimators_empty_data_messages",
    "check_estimators_partial_fit_n_features",
    "check_estimators_unfitted",
    "check_fit1d",
    "check_fit2d_1sample",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_non_transformer_estimators_n_iter",
    "check_parameters_default_constructible",
    "check_requires_y_none",
    "check_set_params",
    "check_supervised_y_no_nan",
    "check_valid_tag_types",
}
# Not in the gate, which they would prolong by minutes: each trains one sweep or several.
BY_HAND = {
    "check_classifiers_classes",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
}
# Only with SciPy's own switch for them is there something to check; there is none that cannot hold.
WITH_ARRAY_API = "check_array_api_input"
# A repeated sample may be held out; a sample with twice the weight is in one split.
NEVER = {WITH_ARRAY_API, "check_sample_weight_equivalence_on_dense_data"}


def _marks(name: str) -> list[pytest.MarkDecorator]:
    if name in BY_HAND:
        return [pytest.mark.by_hand]
    return [] if name in WITHOUT_FIT else [pytest.mark.slow]


def _checks() -> list[Any]:
    # Of check_classifiers_train's three kinds of input the last: read-only and float32.
    pairs = {pair[1].func.__name__: pair for pair in estimator_checks_generator(TINY)}
    return [
        pytest.param(*pair, id=name, marks=_marks(name))
        for name, pair in pairs.items()
        if name not in NEVER
    ]


@pytest.mark.parametrize(("estimator", "check"), _checks())
def test_scikit_learns_own_checks(
    estimator: CalibratedClassifierSweep,
    check: partial[None],
    without_ray: None,
) -> None:
    check(estimator)
