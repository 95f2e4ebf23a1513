"""Over- and underconfidence, the two parts of the ECE."""

import pytest
import torch
from torch import Tensor

from trainables import metrics as M


def draw(count: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two classes: overconfident by 0.08 below a confidence of 0.8, underconfident above."""
    confidence = 0.5 + 0.5 * torch.rand(count, generator=draws, dtype=torch.float64)
    accuracy = torch.where(confidence < 0.8, confidence - 0.08, (confidence + 0.06).clamp(max=1))
    right = torch.rand(count, generator=draws, dtype=torch.float64) < accuracy
    return torch.stack([confidence, 1 - confidence], dim=1), (~right).long()


@pytest.mark.parametrize(("scale", "word"), [(3.0, "overconfident"), (0.4, "underconfident")])
def test_the_parts_sum_to_the_ece_and_their_difference_is_the_gap(scale: float, word: str) -> None:
    draws = torch.Generator().manual_seed(0)
    truth = 1.5 * torch.randn(2000, 4, generator=draws, dtype=torch.float64)
    labels = truth.softmax(1).multinomial(1, generator=draws)[:, 0]
    probs = (scale * truth).softmax(1)
    found = M.direction(probs, labels)
    assert found.word == word
    ece = M.expected_calibration_error(probs, labels)
    assert found.over[0] + found.under[0] == pytest.approx(ece)
    assert found.over[0] - found.under[0] == pytest.approx(found.gap[0])
    absent = found.under if word == "overconfident" else found.over
    assert absent[1] == 0 < absent[2]


def test_both_intervals_cover_where_confidence_is_wrong_in_both_directions() -> None:
    draws = torch.Generator().manual_seed(0)
    probs, labels = draw(2_000_000, draws)
    truth = M.direction(probs, labels)
    assert truth.over[0] > 0.03 and truth.under[0] > 0.015
    held = {"over": 0, "under": 0}
    for _ in range(60):
        found = M.direction(*draw(1000, draws))
        for name in held:
            _, low, high = getattr(found, name)
            held[name] += low <= getattr(truth, name)[0] <= high
    # With a coverage of 95 %, fewer than 52 of 60 hold in 1 of 200 runs.
    assert min(held.values()) >= 52
