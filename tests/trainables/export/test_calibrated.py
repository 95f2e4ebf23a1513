"""A network with its temperature, as exported."""

import numpy as np
import torch

from trainables.data import Arrays
from trainables.export.calibrated import CalibratedClassifier


def test_read_only_samples_are_classified_without_a_warning() -> None:
    rows = np.ones((2, 3), np.float32)
    rows.flags.writeable = False  # like those that pandas 3 returns
    classifier = CalibratedClassifier(
        torch.nn.Identity(), Arrays.unscaled((3,)), 1.0, ("a", "b", "c")
    )
    assert np.allclose(classifier.predict_proba(rows), 1 / 3)
