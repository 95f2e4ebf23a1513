"""The recorded settings of other datasets in calsweep."""

import math

from search_spaces import available_search_spaces
from sweeps.search.recorded import recorded_settings


def test_each_dataset_has_its_baseline_and_each_setting_once() -> None:
    settings = recorded_settings()
    sources = {each.source for each in settings}
    baselines = [each for each in settings if each.setting.loss == "cross_entropy"]
    assert {each.source for each in baselines} == sources
    assert all(each.log_ratio == each.error_ratio == 0 for each in baselines)
    assert all(each.baseline_error is not None for each in settings)
    keys = [(e.source, e.setting) for e in settings]
    assert len(set(keys)) == len(keys)


def test_values_are_finite_and_losses_are_calsweep_s_own() -> None:
    known = {*available_search_spaces(), "cross_entropy"}
    for each in recorded_settings():
        assert each.setting.loss in known
        assert math.isfinite(each.log_ratio)
        assert each.error_ratio > -1


def test_more_focus_means_a_lower_temperature_on_every_dataset() -> None:
    published = [e for e in recorded_settings() if e.setting.loss == "focal"]
    for source in {each.source for each in published}:
        by_gamma = {
            e.setting.hyperparameters["gamma"]: e.log_ratio for e in published if e.source == source
        }
        assert by_gamma[3.0] < by_gamma[1.0] < 0
