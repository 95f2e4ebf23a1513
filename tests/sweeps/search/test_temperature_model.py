"""The model that predicts the objective of settings from their temperatures."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sweeps.search.record import TrialRecord
from sweeps.search.recorded import RecordedSetting, recorded_settings
from sweeps.search.rules import rule_of
from sweeps.search.setting_models import (
    REFERENCE,
    Guess,
    Observed,
    Places,
    SettingKernel,
    posterior,
    rows_of,
)
from sweeps.search.space import SearchSpace
from sweeps.search.temperature_model import (
    Belief,
    TemperatureModel,
    _expected_excess,
    expected_objectives,
)
from tests.builders import baseline, make_sweep, trial
from trainables.contract.setting import BASELINE, Setting

SWEEP = make_sweep(losses=["focal", "inverse_focal", "mbls"])
PLACES = Places(SearchSpace(SWEEP.losses).branches)
FOCAL, SHARPER = Setting("focal", {"gamma": 3.0}), Setting("inverse_focal", {"gamma": 2.0})
KERNEL = SettingKernel(common=0.4, scale=0.45, offset=0.05, slope=0.2, local=0.2)


def ce(temperature: float, **values: Any) -> TrialRecord:
    return baseline(temperature=temperature, val_ece=0.1, val_ece_scaled=0.02, **values)


def model(*records: TrialRecord, rule: Any = None, earlier: Any = None) -> TemperatureModel:
    known = recorded_settings() if earlier is None else earlier
    known = [e for e in known if PLACES.knows(e.setting)]
    return TemperatureModel(PLACES, rule or rule_of(SWEEP), known, records, num_classes=10)


def log_t(settings: list[Setting], *records: TrialRecord) -> Guess:
    return model(*records).belief(settings).log_t


def test_the_kernel_is_a_covariance_and_its_diagonal_agrees() -> None:
    draw = np.random.default_rng(0)
    settings = [Setting("focal", {"gamma": g}) for g in draw.uniform(0, 10, 10)]
    settings += [Setting("mbls", {"margin": m, "lam": 0.1}) for m in draw.uniform(1, 20, 10)]
    rows = rows_of(PLACES(settings), draw.normal(size=20), draw.uniform(size=20))
    covariance = KERNEL(rows, rows)
    np.testing.assert_allclose(covariance, covariance.T)
    np.testing.assert_allclose(np.diag(covariance), KERNEL.variances(rows))
    assert np.linalg.eigvalsh(covariance).min() > -1e-9
    other = rows.copy()
    other[:, 2] = REFERENCE  # shares only the effects common to all settings
    np.testing.assert_allclose(
        KERNEL(rows, other), 0.4**2 + 0.45**2 * np.outer(rows[:, 0], rows[:, 0])
    )


def test_the_posterior_is_that_of_a_normal_distribution() -> None:
    rows = rows_of(PLACES([FOCAL, SHARPER, Setting("focal", {"gamma": 1.0})]), 0.5)
    known, wanted = rows[:2], rows[2:]
    values, variances = np.array([0.3, -0.2]), np.array([0.01, 0.04])
    found = posterior(KERNEL, Observed(known, values, variances), wanted)
    weights = np.linalg.solve(
        KERNEL(known, known) + np.diag(variances), KERNEL(known, wanted)
    ).ravel()
    assert found.mean[0] == pytest.approx(weights @ values)
    variance = KERNEL.variances(wanted)[0] - weights @ KERNEL(known, wanted).ravel()
    assert found.sd[0] == pytest.approx(math.sqrt(variance))
    both = rows[1:]
    covariance = KERNEL(both, both) - KERNEL(both, known) @ np.linalg.solve(
        KERNEL(known, known) + np.diag(variances), KERNEL(known, both)
    )
    difference = posterior(KERNEL, Observed(known, values, variances), wanted, rows[1:2])
    assert difference.sd[0] ** 2 == pytest.approx(
        covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    )
    level = posterior(KERNEL, Observed(known, values, variances), rows[1:2])
    assert difference.mean[0] == pytest.approx(found.mean[0] - level.mean[0])
    nothing = posterior(KERNEL, Observed(rows[:0], values[:0], variances[:0]), wanted)
    assert nothing.mean == 0
    assert nothing.sd[0] == pytest.approx(math.sqrt(KERNEL.variances(wanted)[0]))


def test_places_follow_the_losses_own_ranges() -> None:
    narrow = make_sweep(losses=[{"name": "focal", "space": {"gamma": {"low": 2, "high": 3}}}])
    places = Places(SearchSpace(narrow.losses).branches)
    assert places([FOCAL])[0].tolist() == [0, 0.3]  # in the range 0 … 10
    assert not places.knows(SHARPER)
    assert not places.knows(Setting("focal"))


def test_log_t_starts_from_the_baseline_and_what_earlier_datasets_say() -> None:
    for temperature in (0.7, 1.5):
        found = log_t([FOCAL, SHARPER], ce(temperature))
        assert found.mean[0] < math.log(temperature) < found.mean[1]
    unknown = model(ce(1.5), earlier=()).belief([FOCAL]).log_t
    assert unknown.mean[0] == pytest.approx(math.log(1.5), abs=0.02)
    assert unknown.sd[0] > log_t([FOCAL], ce(1.5)).sd[0]


def test_log_t_learns_from_the_trials_of_a_loss_and_little_from_those_of_others() -> None:
    close, far = Setting("focal", {"gamma": 2.0}), Setting("mbls", {"margin": 10.0, "lam": 0.1})
    before = log_t([close, far], ce(1.5))
    shown = trial(1, "focal", {"gamma": 2.5}, temperature=1.4)
    after = log_t([close, far], ce(1.5), shown)
    assert after.mean[0] > before.mean[0] + 0.1
    assert after.sd[0] < before.sd[0]
    assert abs(after.mean[1] - before.mean[1]) < 0.15


def test_a_stopped_trial_is_compared_with_the_baseline_at_the_same_epoch() -> None:
    early = {"epoch": 1.0, "val_error": 0.3, "temperature": 0.8}
    last = {"epoch": 2.0, "val_error": 0.1, "val_ece": 0.1, "temperature": 1.6}
    reference = ce(1.6, history=[early, last])
    stopped = {**early, "temperature": 0.4}  # half the temperature of the baseline
    found = log_t(
        [FOCAL], reference, trial(1, "focal", {"gamma": 3.0}, history=[stopped], state="stopped")
    )
    assert found.mean[0] == pytest.approx(math.log(0.8), abs=0.15)


def test_the_gain_vanishes_where_the_guard_is_broken() -> None:
    usual = trial(1, "focal", {"gamma": 3.0}, temperature=1.01, val_error=0.1)
    poor = trial(1, "focal", {"gamma": 3.0}, temperature=1.01, val_error=0.5)
    wanted = [Setting("focal", {"gamma": 3.1})]
    reference = ce(1.6, val_error_low=0.095, val_error_high=0.105)
    gains = [
        m.gain(m.belief(wanted), 0.1)[0] for m in (model(reference, each) for each in (usual, poor))
    ]
    assert gains[0] > 0.02
    assert gains[1] < gains[0] / 100


def test_the_guard_does_not_rest_on_a_lucky_error_of_the_baseline() -> None:
    reference = ce(1.6, val_error=0.3, val_error_low=0.26, val_error_high=0.34)
    settings = [
        Setting("mbls", {"margin": 10.0, "lam": 0.1}),
        Setting("inverse_focal", {"gamma": 2.0}),
    ]
    others = [
        trial(n, s.loss, s.hyperparameters, temperature=1.5, val_error=0.33)
        for n, s in enumerate(settings, start=1)
    ]
    wanted = [Setting("focal", {"gamma": 3.0})]
    similar = trial(6, "focal", {"gamma": 3.1}, temperature=1.2, val_error=0.33)
    alone, beside = (model(reference, *known, similar) for known in ((), others))
    assert beside.belief(wanted).in_guard[0] > alone.belief(wanted).in_guard[0] + 0.02


def test_the_expected_objective_shrinks_a_lucky_value() -> None:
    trials = [
        trial(n, "focal", {"gamma": 2.8 + n / 10}, temperature=1.3, val_ece=value)
        for n, value in enumerate([0.07, 0.06, 0.02, 0.065, 0.07], start=1)
    ]
    reference = ce(1.6, val_error_low=0.099, val_error_high=0.101)
    found = expected_objectives(model(reference, *trials), [each.setting for each in trials])
    assert found[BASELINE] == 0.1
    assert 0.03 < found[trials[2].setting] < 0.065


@pytest.mark.parametrize("mean", [-1.5, 0.0, 0.2])
def test_the_expected_excess_agrees_with_numerical_integration(mean: float) -> None:
    x = Guess(np.array([mean]), np.array([0.4]))

    def integral(value: Any) -> float:
        found: float = quad(lambda v: value(v) * norm.pdf(v, mean, 0.4), -6, 6, points=[0.0])[0]
        return found

    assert _expected_excess(x.mean, x.sd)[0] == pytest.approx(
        integral(lambda v: max(v, 0)), abs=1e-8
    )


def test_an_accurate_network_is_off_by_more_if_it_is_underconfident() -> None:
    """A calibration error is at most the error if confidence is too high."""
    accurate = model(ce(1.0, val_error=0.01))
    off = [
        accurate.objective(
            Belief(Guess(np.array([log_t]), np.zeros(1)), np.ones(1), np.zeros((1, PLACES.width)))
        )
        for log_t in (-1.5, 0.0, 1.5)
    ]
    under, right, over = (each.mean[0] for each in off)
    assert right < over < right + 0.02
    assert under > right + 0.1


def test_nll_is_expected_to_rise_with_the_square_of_log_t() -> None:
    rule = rule_of(make_sweep(search={"objective": "val_nll"}))
    known = model(ce(1.6, val_nll=0.5, val_nll_scaled=0.4), rule=rule)
    belief = known.belief([Setting("inverse_focal", {"gamma": g}) for g in (0.5, 3.5)])
    near, far = known.objective(belief).mean
    assert 0.4 < near < far


def test_only_a_single_objective_that_a_temperature_affects_is_guided() -> None:
    def guided(objective: Any) -> bool:
        search = {"objective": objective, "sampler": "guided"}
        return make_sweep(search=search).search.is_guided

    assert all(map(guided, ("val_ece", "val_nll", "val_brier", "val_smooth_ece")))
    assert not any(
        map(guided, ("val_error", "refinement", "val_ece_scaled", ["val_ece", "val_nll"]))
    )


def test_weights_say_how_much_an_earlier_dataset_counts() -> None:
    def ratio(weight: float) -> float:
        pair = [
            RecordedSetting("a", Setting("focal", {"gamma": 3.0}), -1.0, 0.0, weight=weight),
            RecordedSetting("b", Setting("focal", {"gamma": 3.0}), 0.0, 0.0),
        ]
        return float(model(ce(1.0), earlier=pair).belief([FOCAL]).log_t.mean[0])

    assert ratio(8.0) < ratio(1.0) < ratio(0.1)


def test_datasets_with_a_similar_error_of_cross_entropy_count_more() -> None:
    like, unlike = (
        RecordedSetting("a", Setting("focal", {"gamma": 3.0}), ratio, 0.0, error)
        for ratio, error in ((-1.0, 0.2), (0.0, 0.02))
    )
    pairs = ([like, unlike], [replace(like, baseline_error=0.02), unlike])

    def ratios(*records: TrialRecord) -> list[float]:
        found = (model(*records, earlier=pair).belief([FOCAL]).log_t.mean for pair in pairs)
        return [float(mean[0]) for mean in found]

    first, second = ratios(ce(1.0, val_error=0.2))
    assert first < second - 0.1  # both are equally dissimilar: the mean of the two
    first, second = ratios()  # before the error of the baseline is known
    assert first == pytest.approx(second)
