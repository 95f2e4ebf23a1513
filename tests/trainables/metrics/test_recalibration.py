"""Calibration intercept and slope: values and intervals of logistic regression."""

import math

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from trainables.metrics.inference.clusters import Clusters
from trainables.metrics.inference.recalibration import calibration_intercept, calibration_slope

DRAW = np.random.default_rng(0)
SCORES = DRAW.normal(-2, 1.5, 2000)
EVENT = DRAW.random(2000) < expit(0.6 * SCORES + 0.4)
Z, Y = torch.from_numpy(SCORES), torch.from_numpy(EVENT)


def test_the_slope_is_that_of_logistic_regression_and_the_intercept_makes_means_equal() -> None:
    value, low, high = calibration_slope(Z, Y)
    fitted = LogisticRegression(C=1e9, tol=1e-10).fit(SCORES[:, None], EVENT)
    assert value == pytest.approx(fitted.coef_[0, 0], abs=1e-5)
    assert low < 0.6 < high < 1  # the true slope; too extreme
    value, low, high = calibration_intercept(Z, Y)
    assert expit(SCORES + value).mean() == pytest.approx(EVENT.mean(), abs=1e-9)
    p = expit(SCORES + value)
    assert high - low == pytest.approx(2 * 1.96 / math.sqrt((p * (1 - p)).sum()), rel=0.15)


def test_copies_of_samples_in_clusters_add_no_knowledge() -> None:
    alone = calibration_slope(Z, Y)
    copies = Clusters(np.arange(2000).repeat(5))
    again = calibration_slope(Z.repeat_interleave(5), Y.repeat_interleave(5), clusters=copies)
    assert again == pytest.approx(alone, rel=0.02)


def test_what_samples_do_not_determine_is_nan() -> None:
    separated = torch.tensor([-2.0, -1.0, 1.0, 2.0]), torch.tensor([False, False, True, True])
    assert all(map(math.isnan, calibration_slope(*separated)))
    assert all(map(math.isnan, calibration_slope(Z, Y & False)))
    assert all(map(math.isnan, calibration_intercept(Z, Y & False)))
    few = torch.cat([Z[Y][:4], Z[~Y][:500]]), torch.arange(504) < 4
    for found in (calibration_slope(*few), calibration_intercept(*few)):
        assert math.isfinite(found[0])
        assert math.isnan(found[1])
