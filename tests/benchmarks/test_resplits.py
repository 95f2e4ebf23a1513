"""Replays with random splits."""

import numpy as np
import pytest
import torch

from benchmarks.tabular.resplits import Trained, resplit
from trainables import metrics as M
from trainables.contract.setting import BASELINE


def test_metrics_after_the_last_epoch_are_those_of_the_new_splits() -> None:
    random = np.random.default_rng(0)
    labels = torch.from_numpy(random.integers(0, 3, 60))
    logits = torch.from_numpy(random.normal(size=(60, 3))).float()
    history = [{"epoch": 1.0, "val_ece": 9.0}, {"epoch": 2.0, "val_ece": 9.0}]
    ((setting, seed, found),) = resplit([Trained(BASELINE, 7, history, logits, labels)], 20, 5)
    assert (setting, seed, found[0]) == (BASELINE, 7, history[0])
    order = np.random.default_rng(5).permutation(60)
    for split, own in (("val", order[:20]), ("test", order[20:])):
        expected = M.evaluate(logits[own], labels[own], ["ece", "nll"])
        assert found[1][f"{split}_ece"] == pytest.approx(expected["ece"])
        assert found[1][f"{split}_nll"] == pytest.approx(expected["nll"])
    validation = logits[order[:20]] / found[1]["temperature"]
    scaled = M.evaluate(validation, labels[order[:20]], ["nll"])["nll"]
    assert found[1]["val_nll_scaled"] == pytest.approx(scaled, rel=1e-5)
    assert scaled <= found[1]["val_nll"]
