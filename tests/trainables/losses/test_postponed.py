"""A loss whose module postpones the evaluation of annotations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from torch import Tensor

from trainables.losses import CalibrationLoss
from trainables.plugins.arguments import Range


@dataclass(eq=False, repr=False)
class Damped(CalibrationLoss):
    """Cross-entropy with a factor."""

    factor: Annotated[float, Range(0, 2)] = 1.0

    def compute(self, logits: Tensor, targets: Tensor, *_: Tensor | None) -> Tensor:
        return -self.factor * logits.log_softmax(1)[range(len(targets)), targets].mean()


def test_ranges_of_postponed_annotations_are_checked() -> None:
    assert Damped(3, factor=2).factor == 2
    with pytest.raises(ValueError, match="factor"):
        Damped(3, factor=2.5)
