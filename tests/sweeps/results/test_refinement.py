"""NLL = calibration + refinement for each setting."""

import pytest

from sweeps.results.refinement import parts_of_nll, refinement_rows
from tests.builders import baseline, make_sweep, ranked, trial


def test_the_parts_sum_to_the_nll() -> None:
    found = parts_of_nll({"val_nll": 0.5, "val_nll_scaled": 0.4, "test_nll": 0.7})
    assert found == pytest.approx({"val_nll_calibration": 0.1, "val_refinement": 0.4})


def test_a_row_for_each_loss() -> None:
    metrics = {"val_ece": 0.1, "val_nll": 0.5, "val_nll_scaled": 0.45}
    more = {"test_nll": 0.6, "test_nll_scaled": 0.5}
    more |= {"test_nll_calibration_low": 0.05, "test_nll_calibration_high": 0.15}
    rows = refinement_rows(ranked([baseline(**metrics, **more), trial(1, **metrics)]))
    assert {row.setting.loss for row in rows} == {"cross_entropy", "focal"}
    (plain,) = (row for row in rows if row.setting.loss == "cross_entropy")
    assert plain.parts["test_nll_calibration"] == pytest.approx(0.1)
    assert plain.interval == (0.05, 0.15)
    (focal,) = (row for row in rows if row.setting.loss == "focal")
    assert "test_refinement" not in focal.parts


def test_refinement_is_an_objective() -> None:
    assert make_sweep(search={"objective": "refinement"}).objective == "val_nll_scaled"
    both = make_sweep(search={"objective": ["val_ece", "refinement"]})
    assert both.objectives == ("val_ece", "val_nll_scaled")
    assert make_sweep(search={"objective": "val_error"}).objective == "val_error"
