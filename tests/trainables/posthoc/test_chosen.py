"""The chosen scaling: the selection, its plain numbers, beta calibration and inverse maps."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from trainables.losses import make_loss
from trainables.metrics.proper_scores import log_losses_of_logits
from trainables.posthoc import BetaScaling, Scaling, SelectedScaling, choose
from trainables.posthoc.chosen import Candidate, candidates, fitted
from trainables.posthoc.inverse_maps import InverseMap
from trainables.posthoc.scaling import FORMAT, mixed_log_probs
from trainables.trials.scaling import inverse_of


def drawn(truth: Tensor, generator: torch.Generator) -> Tensor:
    return torch.multinomial(truth.softmax(1), 1, generator=generator)[:, 0]


def confused(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Class 0 is confused with class 1 only, which only a matrix can correct."""
    logits = torch.randn(count, 4, generator=generator, dtype=torch.float64) * 2
    truth = logits.clone()
    truth[:, 1] += 0.8 * logits[:, 0]
    return logits, drawn(truth, generator)


@pytest.fixture(scope="module")
def confusion() -> tuple[Tensor, Tensor]:
    return confused(2000, torch.Generator().manual_seed(0))


def test_the_richest_map_is_chosen_where_it_is_needed(confusion: tuple[Tensor, Tensor]) -> None:
    method = SelectedScaling().fit(*confusion)
    assert method.scaling.name == "matrix"
    fresh, truth = confused(4000, torch.Generator().manual_seed(1))
    simple = fitted(candidates(2000, 4), *confusion)
    nll = {
        each.name: float(log_losses_of_logits(scaling(fresh), truth).mean())
        for each, scaling in simple.items()
    }
    assert nll["matrix"] < nll["vector"] < nll["temperature"] < nll["none"]
    torch.testing.assert_close(method(fresh), simple[Candidate("matrix")](fresh))


def test_the_simplest_map_is_chosen_where_it_suffices() -> None:
    """False choices among calibrated predictions are at most 5 %, so 3 of 12 are improbable."""
    generator = torch.Generator().manual_seed(0)
    false = {"none": 0, "temperature": 0}
    for _ in range(12):
        truth = torch.randn(300, 6, generator=generator, dtype=torch.float64) * 1.5
        labels = drawn(truth, generator)
        for name, logits in (("none", truth), ("temperature", 3 * truth)):
            false[name] += choose(logits, labels).candidate.name != name
    assert max(false.values()) <= 2


def test_rows_of_a_cluster_are_one_unit() -> None:
    """Fifty copies of forty samples do not show that anything needs to be scaled."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    labels, ids = drawn(truth, generator), torch.arange(40).repeat(50)
    logits, many = (1.3 * truth).repeat(50, 1), labels.repeat(50)
    assert choose(logits, many, ids).candidate == choose(1.3 * truth, labels).candidate
    assert choose(logits, many).candidate.name != "none"


def test_candidates() -> None:
    def names(count: int, classes: int) -> list[str]:
        return [each.name for each in candidates(count, classes)]

    assert names(50_000, 100) == ["none", "temperature", "vector", "matrix"]
    assert names(50_000, 1000) == names(500, 501) == ["none", "temperature", "vector"]
    assert names(100, 2) == ["none", "temperature", "vector", "beta", "matrix"]
    focal = InverseMap("focal", 3.0)
    found = candidates(100, 3, focal)
    assert found[:4] == tuple(
        Candidate(name, each) for name in ("none", "temperature") for each in (None, focal)
    )


def test_beta_calibration_is_logistic_regression_of_the_two_log_probabilities() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(800, 2, generator=generator, dtype=torch.float64)
    odds = 0.6 * logits.log_softmax(1)[:, 1] - 1.4 * logits.log_softmax(1)[:, 0] + 0.5
    labels = (torch.rand(800, generator=generator) < odds.sigmoid()).long()
    method = BetaScaling(regularisation=0).fit(logits, labels)
    scaling = method.scaling
    scores = mixed_log_probs(logits / scaling.temperature, scaling.share).numpy()
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=5000).fit(scores, labels.numpy())
    expected = torch.from_numpy(model.predict_proba(scores))
    torch.testing.assert_close(method(logits).softmax(1), expected, atol=1e-6, rtol=0)
    # Where the fit would turn the order around, the factor is 0.
    backwards = BetaScaling().fit(logits, 1 - labels)
    assert backwards.weights.tolist() == [0, 0]
    with pytest.raises(ValueError, match="for 2 classes, got 3"):
        BetaScaling().fit(torch.randn(5, 3), torch.arange(5) % 3)


def test_plain_numbers_and_export(confusion: tuple[Tensor, Tensor]) -> None:
    logits, labels = (each[:300] for each in confusion)
    two = torch.stack([logits[:, 0], logits[:, 1:].logsumexp(1)], 1), labels.clamp(max=1)
    focal = InverseMap("focal", 2.0)
    every = [
        *((each, logits) for each in fitted(candidates(300, 4, focal), logits, labels).values()),
        (BetaScaling().fit(*two).scaling, two[0]),
    ]
    for scaling, given in every:
        again = Scaling.from_json(json.loads(json.dumps(scaling.to_json())))
        torch.testing.assert_close(again(given), scaling(given), rtol=0, atol=0)
        assert again.to_json() == scaling.to_json()
        program = torch.export.export(scaling, (given[:2].float(),))
        torch.testing.assert_close(program.module()(given[:2].float()), scaling(given[:2].float()))
        hidden = given[:5].index_fill(1, torch.tensor([1]), -torch.inf)
        assert scaling(hidden)[:, 1].isneginf().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": FORMAT + 1}, 'a scaling has "format": 1, not 2'),
        ({"name": "affine"}, "name must be one of none, temperature"),
        ({"temperature": 0}, "out of range"),
        ({"weights": [1.0, 2.0]}, "do not fit the scaling 'temperature'"),
        ({"name": "vector", "weights": [1.0, 2.0], "offsets": [0.0]}, "do not fit"),
        ({"inverse": {"name": "focal"}}, "no scaling that calsweep wrote"),
        ({"inverse": {"loss": "brier", "gamma": 1, "lam": 0}}, "loss must be one of focal"),
    ],
)
def test_numbers_that_are_no_scaling_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scaling.from_json(Scaling("temperature", 2.0).to_json() | change)


LOSSES: list[tuple[str, dict[str, float]]] = [
    ("focal", {"gamma": 3.0}),
    ("focal", {"gamma": 0.5}),
    ("focal_sample_dependent", {}),
    ("dual_focal", {"gamma": 5.0}),
    ("dual_focal", {"gamma": 2.0}),
    ("focal_calibration", {"gamma": 3.0, "lam": 0.5}),
    ("focal_calibration", {"gamma": 2.0, "lam": 4.0}),
]


@pytest.mark.parametrize(("loss", "setting"), LOSSES)
def test_inverse_maps_find_the_probabilities_from_the_minimiser(
    loss: str, setting: dict[str, float]
) -> None:
    """An independent minimiser of the expected loss finds q; its inverse map must return η."""
    eta = torch.tensor([0.6, 0.3, 0.08, 0.02], dtype=torch.float64)
    criterion = make_loss(loss, 4, **setting)

    def expected(point: np.ndarray) -> tuple[float, np.ndarray]:
        z = torch.tensor(point, requires_grad=True)
        value = sum(eta[k] * criterion(z[None], torch.tensor([k])) for k in range(4))
        return float(value.detach()), torch.autograd.grad(value, z)[0].numpy()

    options = {"gtol": 1e-10, "maxiter": 10_000}
    found = minimize(expected, eta.log().numpy(), jac=True, method="BFGS", options=options)
    q = torch.from_numpy(found.x)[None]
    inverse = inverse_of(loss, setting, 4)
    assert inverse is not None
    torch.testing.assert_close(inverse(q).softmax(1)[0], eta, atol=1e-6, rtol=0)
    assert (q.softmax(1)[0] - eta).abs().max() > 0.01


def test_the_inverse_of_focal_loss_is_the_formula() -> None:
    """Charoenphakdee et al. 2021: η_k is proportional to q_k / φ(q_k)."""
    q = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
    phi = (1 - q) ** 3 - 3 * (1 - q) ** 2 * q * q.log()
    expected = q / phi / (q / phi).sum()
    found = InverseMap("focal", 3.0)(q.log()).softmax(1)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize(("loss", "setting"), LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inverse_maps_are_finite_and_keep_the_order_at_the_ends(
    loss: str, setting: dict[str, float], dtype: torch.dtype
) -> None:
    inverse = inverse_of(loss, setting, 3)
    assert inverse is not None
    found = inverse(torch.tensor([[800.0, 0, -800], [0, 0, 0], [40, 0, -40]], dtype=dtype))
    assert found.dtype == dtype
    assert found.isfinite().all()
    assert found.argmax(1)[0] == found.argmax(1)[2] == 0
    assert not found.isnan().any()


def test_losses_without_an_inverse_map() -> None:
    assert inverse_of("cross_entropy", {}, 3) is None
    assert inverse_of("focal", {"gamma": 0.0}, 3) is None
    assert inverse_of("focal", {}, 3) == InverseMap("focal", 3.0)  # the loss's default
    assert inverse_of("dual_focal", {"gamma": 5.0}, 1000) is None
    # The maps are those of the losses as proposed.
    assert inverse_of("dual_focal", {"gamma": 5.0, "dual": "second"}, 3) is None
    assert inverse_of("focal_calibration", {"gamma": 3.0, "lam": 0.5, "p": 1}, 3) is None
    assert inverse_of("focal_calibration", {"p": 2}, 3) == InverseMap("focal_calibration", 3.0, 0.5)
    assert inverse_of("my_module:Focal", {"gamma": 2.0}, 3) is None


def test_files_without_errors_determine_no_scaling() -> None:
    """Maps to certainty have the lowest loss there: P(event) = 0 for all."""
    noise = torch.randn(100, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logits = torch.stack([(5 + 1.2 * noise).abs(), torch.zeros_like(noise)], dim=1)
    labels = torch.zeros(100, dtype=torch.int64)
    found = choose(logits, labels)
    assert (found.candidate.name, found.handed_out.name) == ("none", "none")
    # A network with errors is handed out with a temperature where none is not refuted.
    found = choose(torch.zeros(100, 2), labels.bitwise_or(torch.arange(100) % 2))
    assert (found.candidate.name, found.handed_out.name) == ("none", "temperature")
