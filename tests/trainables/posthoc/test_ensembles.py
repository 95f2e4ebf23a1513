"""Ensembles of trained networks: their selection, and unbiased evaluation."""

import pytest
import torch
from torch import Tensor

from trainables import metrics as M
from trainables.posthoc import TemperatureScaling, cross_fitted
from trainables.posthoc.ensembles import averaged, cross_fitted_ensemble, fit_ensemble, fit_mean


def draw(
    count: int, networks: int = 6, noise: float = 1.0, seed: int = 0
) -> tuple[list[Tensor], Tensor]:
    """Overconfident networks with independent noise."""
    generator = torch.Generator().manual_seed(seed)
    truth = 2 * torch.randn(count, 5, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(truth.softmax(1), 1, generator=generator)[:, 0]
    drawn = [
        2 * (truth + noise * torch.randn(truth.shape, generator=generator, dtype=torch.float64))
        for _ in range(networks)
    ]
    return drawn, labels


def nll(logits: Tensor, labels: Tensor) -> float:
    return M.evaluate(logits, labels, ["nll"])["nll"]


def test_it_beats_its_best_member_on_new_samples() -> None:
    logits, labels = draw(4000)
    held_out, rest = slice(1000), slice(1000, None)
    ensemble = fit_ensemble([each[held_out] for each in logits], labels[held_out])
    assert len(ensemble.members) == 5
    assert ensemble.members == tuple(sorted(ensemble.members))
    found = nll(ensemble([each[rest] for each in logits]), labels[rest])
    alone = [
        nll(TemperatureScaling().fit(each[held_out], labels[held_out])(each[rest]), labels[rest])
        for each in logits
    ]
    assert found < min(alone) - 0.02


def test_the_mean_is_of_probabilities() -> None:
    logits, _ = draw(10, networks=3)
    expected = torch.stack([each.softmax(1) for each in logits]).mean(0)
    torch.testing.assert_close(averaged(logits).softmax(1), expected)


def test_a_single_good_network_is_the_only_member() -> None:
    logits, labels = draw(1000, networks=1, noise=0.1)
    random = torch.Generator().manual_seed(1)  # 0 would draw the networks of draw()
    useless = [torch.randn(1000, 5, generator=random, dtype=torch.float64) for _ in range(3)]
    ensemble = fit_ensemble([*useless, *logits], labels)
    assert ensemble.members == (3,)


def test_perfect_predictions_on_few_samples_do_not_make_ensembles_overconfident() -> None:
    """With many networks and few samples, perfect networks are not overrated."""
    losses = []
    for seed in range(8):
        logits, labels = draw(2060, networks=20, noise=0.3, seed=seed)
        easy = [6 * each for each in logits]
        few, rest = slice(60), slice(60, None)
        ensemble = fit_ensemble([each[few] for each in easy], labels[few])
        alone = TemperatureScaling().fit(easy[0][few], labels[few])
        found = nll(ensemble([each[rest] for each in easy]), labels[rest])
        losses.append(found - nll(alone(easy[0][rest]), labels[rest]))
    assert sum(losses) / len(losses) < 0.02


def test_no_temperature_explodes_where_a_network_is_right_on_all_samples() -> None:
    """A pure fit would choose the lowest allowed temperature, with a loss of 0."""
    logits, labels = draw(60, networks=3, noise=0.3, seed=0)
    perfect = 3 * torch.nn.functional.one_hot(labels, logits[0].shape[1]).double()
    ensemble = fit_ensemble([*logits, perfect], labels)
    assert min(*ensemble.temperatures, float(ensemble.scaling.temperature)) > 0.3
    alone = fit_ensemble([perfect], labels)
    assert (alone.members, alone.scaling.name) == ((0,), "none")


def test_cross_fitting_is_not_optimistic() -> None:
    """Random networks: in sample, the best five look better than they are."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (200,), generator=generator)
    noise = [torch.randn(200, 3, generator=generator, dtype=torch.float64) for _ in range(20)]
    flattered = nll(fit_ensemble(noise, labels)(noise), labels)
    honest = nll(cross_fitted_ensemble(noise, labels, fit_ensemble), labels)
    chance = torch.log(torch.tensor(3.0)).item()
    assert flattered < chance - 0.01
    assert honest > chance - 0.005


def test_cross_fitting_of_one_network_is_that_of_its_temperature() -> None:
    logits, labels = draw(400, networks=1)
    found = cross_fitted_ensemble(logits, labels, fit_ensemble).softmax(1)
    torch.testing.assert_close(found, cross_fitted(logits[0], labels).softmax(1), atol=1e-6, rtol=0)


def test_its_networks_are_different_ones_and_the_mean_has_all() -> None:
    """Where few samples do not tell whether another network helps, it is added."""
    logits, labels = draw(400, networks=4)
    ensemble = fit_ensemble(logits, labels, most=3)
    assert len(set(ensemble.members)) == 3
    easy, truth = draw(60, networks=8, noise=0.3)
    assert len(set(fit_ensemble([6 * each for each in easy], truth).members)) == 5
    mean = fit_mean(logits, labels)
    assert mean.members == (0, 1, 2, 3)
    own = [TemperatureScaling().fit(each, labels)(each) for each in logits]
    last = TemperatureScaling().fit(averaged(own), labels)
    torch.testing.assert_close(mean(logits), last(averaged(own)))


def test_an_empty_list_of_networks_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one network"):
        fit_ensemble([], torch.tensor([0]))
