"""How often confident predictions are right, in a sentence."""

import numpy as np

from sweeps.messages.confident import Confident
from sweeps.service.confident import confident


def test_the_interval_covers_and_an_overconfident_model_is_seen() -> None:
    random = np.random.default_rng(0)
    missed = 0
    for _ in range(300):
        logits = random.normal(0, 2.5, (1200, 3))
        probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        labels = (random.random((1200, 1)) > probs.cumsum(1)).sum(1)
        [found] = confident(2 * logits, logits, labels, independent=True)
        assert abs(found.confidence - 0.9) < 0.01 and found.before < 0.9
        missed += not found.low <= found.confidence <= found.high
    assert missed <= 0.05 * 300
    [same] = confident(logits, logits, labels, independent=False)
    assert np.isnan([same.low, same.high, same.before]).all()
    assert confident(logits[:99], logits[:99], labels[:99], independent=True) == []


def test_the_sentence() -> None:
    assert Confident(0.9, 0.88, 0.84, 0.91, 0.81).line == (
        "Of 100 test predictions made with 90 % confidence, 88 are right "
        "(95 % interval 84 to 91; before its scaling: 81)."
    )
    assert Confident(0.7, 0.7).line.endswith("with 70 % confidence, 70 are right.")
