"""Names of metrics in an outcome."""

import pytest

from trainables.contract.metric_names import MetricName


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("val_ece", MetricName("ece", "val")),
        ("test_adaptive_ece_scaled", MetricName("adaptive_ece", "test", scaled=True)),
        ("nll_scaled", MetricName("nll", scaled=True)),
        ("error", MetricName("error")),
        ("val_test_gap", MetricName("test_gap", "val")),  # a custom metric
        ("val_error_low", MetricName("error_low", "val")),  # an objective is never a statistic
        ("validity", MetricName("validity")),
    ],
)
def test_a_name_is_read_as_it_was_written(text: str, name: MetricName) -> None:
    assert MetricName.parse(text) == name
    assert str(name) == text


def test_a_statistic_comes_last() -> None:
    name = MetricName("ece", "val", scaled=True)
    assert name.with_statistic("calibrated_high") == "val_ece_scaled_calibrated_high"
    assert name.with_statistic("") == str(name) == "val_ece_scaled"
