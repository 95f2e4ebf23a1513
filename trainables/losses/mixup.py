"""Mixup training."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import Augment
from trainables.losses.cross_entropy import CrossEntropy
from trainables.plugins.arguments import Range


@dataclass(eq=False, repr=False)
class Mixup(CrossEntropy):
    """Mixup: cross-entropy on convex combinations of inputs and labels.

    Each augmented batch is combined with a permutation of itself, with one weight w ~ Beta(α, α)
    per batch.

    Args:
        alpha: Parameter α of the Beta distribution; smaller values mix less.
    """

    source: ClassVar[str] = "Zhang et al. 2018, eq. 1; Thulasidasan et al. 2019, section 2"
    formula: ClassVar[str] = "−w log p_y(wx+(1−w)x′) − (1−w) log p_y′(wx+(1−w)x′), w ~ Beta(α, α)"
    mixes_inputs: ClassVar[bool] = True
    several_labels: ClassVar[bool] = False
    each_pixel: ClassVar[bool] = False

    alpha: Annotated[float, Range(1e-3, 100)] = 0.2

    def prepare_batch(
        self, inputs: Tensor, targets: Tensor, *, augment: Augment, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Augments a batch and mixes it with a permutation of itself; targets are then (N, K).

        Raises:
            TypeError: The inputs are not floating point.
        """
        inputs = augment(inputs)
        if not inputs.is_floating_point():
            raise TypeError(f"mixup needs floating-point inputs, got {inputs.dtype}")
        order = torch.randperm(len(inputs), generator=generator, device=inputs.device)
        weight = _sample_beta(self.alpha, generator)
        if not targets.is_floating_point():
            targets = F.one_hot(targets, self.num_classes)
        labels = targets.to(inputs.dtype)
        return torch.lerp(inputs[order], inputs, weight), torch.lerp(labels[order], labels, weight)


def _sample_beta(alpha: float, generator: torch.Generator) -> float:
    """A sample from Beta(α, α), by NumPy: ``torch.distributions`` accepts no generator."""
    seed = torch.randint(2**62, (), generator=generator, device=generator.device)
    return float(np.random.default_rng(int(seed)).beta(alpha, alpha))
