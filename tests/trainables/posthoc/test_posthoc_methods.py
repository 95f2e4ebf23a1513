"""The post-hoc calibration methods behind one interface, and cross-fitting."""

import json
import math
from functools import cache, partial
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from benchmarks.tabular.isotonic import IsotonicCalibration
from tests.golden import make_posthoc as make_posthoc_values
from trainables import metrics as M
from trainables.posthoc import (
    DirichletCalibration,
    PostHoc,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
    available_posthoc,
    cross_fitted,
    make_posthoc,
    table,
)

NAMES = (
    *("temperature", "vector", "structured_vector", "structured_matrix", "selected"),
    *("dirichlet", "meta_calibration"),
)


def make_predictions(
    num_samples: int = 4000, num_classes: int = 5, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Float64 logits that are too large and favour the first class, and labels."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(1.5 * truth, dim=1), 1, generator=generator)[:, 0]
    logits = 3 * truth
    logits[:, 0] += 1
    return logits, labels


@pytest.fixture(scope="module")
def logits() -> Tensor:
    return make_predictions()[0]


@pytest.fixture(scope="module")
def labels() -> Tensor:
    return make_predictions()[1]


@cache  # some take seconds
def fitted(name: str) -> PostHoc:
    """The method, fitted to these predictions."""
    return make_posthoc(name).fit(*make_predictions())


def test_all_methods_are_known() -> None:
    assert available_posthoc() == NAMES
    for name in NAMES:
        assert isinstance(make_posthoc(name), PostHoc)
        assert make_posthoc(name).name == name
    scaler = make_posthoc("temperature", criterion="ece")
    assert isinstance(scaler, TemperatureScaling)
    assert scaler.criterion == "ece"


def test_unknown_names_and_options() -> None:
    with pytest.raises(ValueError, match=r"got 'vektor' \(did you mean 'vector'"):
        make_posthoc("vektor")
    with pytest.raises(TypeError, match="temperature"):
        make_posthoc("vector", temperature=1.0)
    with pytest.raises(ValueError, match=r"regularisation must be in \[0, inf\), got -1"):
        make_posthoc("vector", regularisation=-1)
    with pytest.raises(ValueError, match="intercept"):
        DirichletCalibration(intercept=math.nan)


def test_a_new_method_is_one_class_and_one_line(
    monkeypatch: pytest.MonkeyPatch, logits: Tensor, labels: Tensor
) -> None:
    class Prior:
        name: ClassVar[str] = "prior"

        def fit(self, logits: Tensor, labels: Tensor) -> Self:
            self.shares = torch.bincount(labels, minlength=logits.shape[1]) / len(labels)
            return self

        def __call__(self, logits: Tensor) -> Tensor:
            return self.shares.log().expand_as(logits)

    monkeypatch.setitem(table._METHODS, "prior", Prior)
    assert available_posthoc()[-1] == "prior"
    fitted = make_posthoc("prior").fit(logits, labels)
    assert M.evaluate(fitted(logits), labels, ["classwise_ece"])["classwise_ece"] < 1e-6
    cross_fitted(logits, labels, partial(make_posthoc, "prior"))


@pytest.mark.parametrize("name", NAMES)
def test_fresh_predictions_are_better_calibrated(name: str) -> None:
    method = fitted(name)
    fresh, fresh_labels = make_predictions(seed=1)
    before = M.evaluate(fresh, fresh_labels, ["ece", "nll"])
    after = M.evaluate(method(fresh), fresh_labels, ["ece", "nll"])
    assert after["ece"] < before["ece"] / 2
    assert after["nll"] < before["nll"]


@pytest.mark.parametrize(
    "name",
    [
        *("vector", "structured_vector", "structured_matrix", "selected"),
        "dirichlet",
    ],
)
def test_maps_with_an_offset_correct_a_favoured_class(name: str) -> None:
    fresh, fresh_labels = make_predictions(seed=1)
    errors = {
        each: M.evaluate(fitted(each)(fresh), fresh_labels, ["classwise_ece"])["classwise_ece"]
        for each in ("temperature", name)
    }
    assert errors[name] < 0.75 * errors["temperature"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_dtype_and_shape_are_kept_and_inputs_left_alone(
    name: str, dtype: torch.dtype, logits: Tensor, labels: Tensor
) -> None:
    rough, before = logits[:300].to(dtype), logits[:300].to(dtype).clone()
    scaled = make_posthoc(name).fit(rough, labels[:300])(rough)
    assert (scaled.dtype, scaled.shape) == (dtype, rough.shape)
    assert scaled.isfinite().all()
    assert torch.equal(rough, before)


@pytest.mark.parametrize("name", NAMES)
def test_use_before_fit_and_bad_logits(name: str, logits: Tensor, labels: Tensor) -> None:
    with pytest.raises(RuntimeError, match="call fit first"):
        make_posthoc(name)(logits)
    with pytest.raises(ValueError, match="logits must be finite"):
        make_posthoc(name).fit(logits * math.nan, labels)
    with pytest.raises(TypeError, match="labels must be a tensor of integers"):
        make_posthoc(name).fit(logits, labels.float())


@pytest.mark.parametrize("name", NAMES)
def test_classes_that_are_ruled_out_stay_unlikely(
    name: str, logits: Tensor, labels: Tensor
) -> None:
    few = logits[:150, :3]  # Dirichlet calibration takes a thousand steps with the steep column
    ruled_out = torch.cat([few, torch.full((len(few), 1), -math.inf)], dim=1)
    method = make_posthoc(name).fit(ruled_out, labels[:150] % 3)
    probs = torch.softmax(method(ruled_out), dim=1)
    assert probs.isfinite().all()
    if name == "meta_calibration":  # returns the uniform distribution for replaced predictions
        probs = probs[method.covers(ruled_out)]  # type: ignore[attr-defined]
    assert probs[:, 3].max() < 1e-3


def test_vector_scaling_is_the_minimum(logits: Tensor, labels: Tensor) -> None:
    scaler = VectorScaling(regularisation=0).fit(logits, labels)
    weights = scaler.weights.clone().requires_grad_()
    offsets = scaler.offsets.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(logits * weights + offsets, labels)
    gradients = torch.autograd.grad(loss, (weights, offsets))
    assert max(float(g.abs().max()) for g in gradients) < 1e-6
    assert scaler.weights.mean() == pytest.approx(0.5, abs=0.05)
    assert scaler.offsets[0] - scaler.offsets[1:].mean() == pytest.approx(-0.5, abs=0.1)


def test_separable_data_keep_the_factors_finite() -> None:
    scaler = VectorScaling().fit(10 * torch.eye(3), torch.arange(3))
    assert scaler.weights.isfinite().all()
    assert torch.softmax(scaler(10 * torch.eye(3)), dim=1).diagonal().min() > 0.99


def test_dirichlet_calibration_without_penalty_is_logistic_regression(
    logits: Tensor, labels: Tensor
) -> None:
    method = DirichletCalibration(off_diagonal=0, intercept=0).fit(logits, labels)
    features = torch.log_softmax(logits, dim=1).numpy()
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(features, labels.numpy())
    expected = torch.from_numpy(model.predict_proba(features))
    torch.testing.assert_close(torch.softmax(method(logits), dim=1), expected, atol=2e-4, rtol=0)


def test_dirichlet_penalty_draws_towards_a_diagonal_matrix(logits: Tensor, labels: Tensor) -> None:
    free, strict = (
        DirichletCalibration(w, w).fit(logits[:1000], labels[:1000]) for w in (0.0, 1e4)
    )
    off = ~torch.eye(5, dtype=torch.bool)
    assert strict.weights[off].abs().max() < 1e-3 < free.weights[off].abs().max()
    assert strict.offsets.abs().max() < 1e-3 < free.offsets.abs().max()


LIBRARIES = json.loads((Path(make_posthoc_values.__file__).parent / "posthoc.json").read_text())


@pytest.mark.parametrize(
    ("recorded", "method", "tolerance"),
    [
        (
            "netcal temperature",
            TemperatureScaling("nll_unpenalised"),
            2e-4,
        ),  # the search of netcal stops early
        ("probmetrics temperature", TemperatureScaling("nll_unpenalised"), 1e-6),
        ("probmetrics vector", VectorScaling(regularisation=0), 1e-4),  # likewise
        ("probmetrics structured vector", StructuredVectorScaling(), 2e-4),
        ("probmetrics structured matrix", StructuredMatrixScaling(), 2e-4),
        ("netcal isotonic", IsotonicCalibration(), 1e-6),
    ],
)
def test_methods_agree_with_other_libraries(
    recorded: str, method: PostHoc, tolerance: float
) -> None:
    # tests/golden/make_posthoc.py wrote what they give. They take probabilities, of which vector
    # scaling, which the paper fits on logits, takes the logarithm.
    (first, targets), (second, _) = (make_posthoc_values.make_inputs(seed) for seed in (0, 1))
    logits = torch.log_softmax(torch.from_numpy(first), dim=1)
    fresh = torch.log_softmax(torch.from_numpy(second), dim=1)
    labels = torch.from_numpy(targets)
    expected = torch.tensor(LIBRARIES[recorded], dtype=torch.float64)
    if isinstance(method, StructuredVectorScaling | StructuredMatrixScaling):
        method.fit(logits, labels, TemperatureScaling("nll_unpenalised").fit(logits, labels))
    else:
        method.fit(logits, labels)
    found = torch.softmax(method(fresh), dim=1)[: len(expected)]
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)


def test_dirichlet_calibration_is_the_minimum_of_its_penalised_loss(
    logits: Tensor, labels: Tensor
) -> None:
    off_diagonal, intercept = 0.5, 0.2
    method = DirichletCalibration(off_diagonal, intercept).fit(logits, labels)
    log_probs = torch.log_softmax(logits, dim=1).numpy()
    rows = np.arange(len(labels))

    def loss(weights: np.ndarray, offsets: np.ndarray) -> float:
        """Kull et al. 2019, section 3: K (K - 1) weights off the diagonal, K intercepts."""
        scores = log_probs @ weights.T + offsets
        likelihood = scores[rows, labels.numpy()] - np.log(np.exp(scores).sum(axis=1))
        off = weights[~np.eye(5, dtype=bool)]
        penalty = off_diagonal * (off**2).sum() / 20 + intercept * (offsets**2).sum() / 5
        return float(penalty - likelihood.mean())

    weights, offsets = method.weights.numpy(), method.offsets.numpy()
    least = loss(weights, offsets)
    random = np.random.default_rng(0)
    for _ in range(20):
        step = 1e-3 * random.standard_normal((5, 6))
        ahead, behind = (loss(weights + s * step[:, :5], offsets + s * step[:, 5]) for s in (1, -1))
        assert min(ahead, behind) > least
        assert abs(ahead - behind) < 1e-2 * (ahead + behind - 2 * least)


@settings(max_examples=10)
@given(st.integers(20, 60), st.integers(2, 4), st.integers(0, 2**32), st.sampled_from(NAMES[:-1]))
def test_no_label_takes_part_in_its_own_calibration(
    num_samples: int, num_classes: int, seed: int, name: str
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    fits: list[tuple[Tensor, Tensor]] = []

    class Spy:
        name: ClassVar[str] = "spy"

        def __init__(self) -> None:
            self.method = make_posthoc(name)

        def fit(self, logits: Tensor, labels: Tensor) -> Self:
            self.method.fit(logits, labels)
            fits.append((logits, labels))
            return self

        def __call__(self, logits: Tensor) -> Tensor:
            seen = fits[-1][0]
            # No evaluated row took part in the fit (random rows are all different).
            assert not (logits[:, None] == seen).all(dim=2).any()
            assert len(logits) + len(seen) == num_samples
            return self.method(logits)

    scaled = cross_fitted(logits, labels, Spy, seed=seed % 100)
    assert scaled.isfinite().all()
    assert len(fits) == 2


def test_crossfitting_does_not_reward_memorised_labels() -> None:
    # Labels are random: evaluation on the samples of the fit looks better than chance.
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(300, 10, generator=generator, dtype=torch.float64)
    labels = torch.randint(10, (300,), generator=generator)
    method = IsotonicCalibration
    leaking = M.evaluate(method().fit(logits, labels)(logits), labels, ["nll"])["nll"]
    honest = M.evaluate(cross_fitted(logits, labels, method), labels, ["nll"])["nll"]
    assert leaking < math.log(10) - 0.05
    assert honest > math.log(10)


def test_crossfitted_temperature_scales_each_half_by_the_others(
    logits: Tensor, labels: Tensor
) -> None:
    scaled = cross_fitted(logits, labels, seed=3)
    ratios = (scaled / logits)[:, 1]
    temperatures = ratios.round(decimals=9).unique()
    assert len(temperatures) == 2
    for ratio in temperatures:
        half = (ratios - ratio).abs() < 1e-8
        assert abs(int(half.sum()) - len(labels) / 2) <= 1
        scaler = TemperatureScaling().fit(logits[~half], labels[~half])
        assert 1 / scaler.temperature == pytest.approx(float(ratio))
    assert torch.equal(scaled, cross_fitted(logits, labels, seed=3))
    assert not torch.equal(scaled, cross_fitted(logits, labels, seed=4))


def test_crossfitting_needs_two_samples() -> None:
    with pytest.raises(ValueError, match="labels must hold at least 2 samples, got 1"):
        cross_fitted(torch.zeros(1, 2), torch.tensor([0]))


def _slope(
    method: StructuredVectorScaling | StructuredMatrixScaling, logits: Tensor, labels: Tensor
) -> float:
    """The largest derivative of the penalised loss with respect to a weight or an offset."""
    count, classes = logits.shape
    probs = torch.softmax(logits / TemperatureScaling().fit(logits, labels).temperature, dim=1)
    scores = (probs * count / (count + 1) + 1 / classes / (count + 1)).log()
    weights, offsets = (t.clone().requires_grad_() for t in (method.weights, method.offsets))
    full = method.is_full
    scaled = (scores @ weights.T if full else scores * weights) + offsets
    own = weights.diagonal() if full else weights
    loss = torch.nn.functional.cross_entropy(scaled, labels)
    loss += classes / count * (offsets.square().sum() + (own - 1).square().sum())
    if full:
        pairs = weights[~torch.eye(classes, dtype=torch.bool)]
        loss += classes * (classes - 1) / count * pairs.square().sum()
    gradients = torch.autograd.grad(loss, (weights, offsets))
    return max(float(g.abs().max()) for g in gradients)


@pytest.mark.parametrize("make", [StructuredVectorScaling, StructuredMatrixScaling])
def test_structured_scaling_is_the_minimum_of_its_penalised_loss(
    make: type[StructuredVectorScaling | StructuredMatrixScaling], logits: Tensor, labels: Tensor
) -> None:
    few, truth = logits[:500], labels[:500]
    assert _slope(make().fit(few, truth), few, truth) < 1e-6


def test_the_matrix_of_ten_classes_takes_far_less_than_its_200_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without decorrelated scores, it takes more than 200 on these."""
    monkeypatch.setattr("trainables.posthoc.structured._MAX_STEPS", 80)
    draw = torch.Generator().manual_seed(0)
    truth = 2.5 * torch.randn(4000, 10, generator=draw, dtype=torch.float64)
    labels = torch.multinomial(truth.softmax(1), 1, generator=draw)[:, 0]
    method = StructuredMatrixScaling().fit(1.5 * truth, labels)
    assert _slope(method, 1.5 * truth, labels) < 1e-6
