"""Correctness ranking loss."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.losses.base import CalibrationLoss, Extra
from trainables.plugins.arguments import Range


class CorrectnessRanking(CalibrationLoss):
    """CRL: cross-entropy + λ · a ranking loss that orders confidences by past correctness.

    A pair is a sample and its successor (i, i+1) in the batch, cyclic. c is the confidence max_k
    p_k. κ is the share of past epochs in which the sample was classified correctly during training,
    0 in the first epoch; the authors' code first subtracts the smallest count over all samples.
    Pairs with equal κ add 0 but count in the mean.

    :meth:`forward` needs ``indices`` to identify the samples. :meth:`on_train_begin` allocates the
    counts, which grow if a larger index occurs.

    Args:
        lam: Weight λ of the ranking loss.

    Attributes:
        times_right: Buffer (number of training samples,), number of epochs in which each sample
            was classified correctly.
        epochs: Buffer (), number of completed epochs.
    """

    source: ClassVar[str] = "Moon et al. 2020, eq. 2-3"
    formula: ClassVar[str] = "−log p_y + λ mean_pairs max(0, −sign(κ_i−κ_j)(c_i−c_j) + |κ_i−κ_j|)"
    bounds: ClassVar = {"lam": Range(0, 1000)}
    times_right: Tensor
    epochs: Tensor

    def __init__(self, num_classes: int, lam: float = 1.0) -> None:
        super().__init__(num_classes)
        self.lam = self.check("lam", lam)
        self.register_buffer("times_right", torch.zeros(0))
        self.register_buffer("epochs", torch.tensor(0.0))
        self.register_load_state_dict_pre_hook(_take_saved_size)  # type: ignore[no-untyped-call]
        self._last_batch: tuple[Tensor, Tensor] | None = None

    def compute(self, logits: Tensor, targets: Tensor, indices: Extra, features: Extra) -> Tensor:
        if indices is None:
            raise ValueError("crl needs indices=, (N,) int64: the number of each training sample")
        # On a GPU, reading the largest index would synchronise at every step, and under
        # torch.compile it would break the graph. There, `on_train_begin` has made room.
        reads = indices.device.type == "cpu" or len(self.times_right) == 0
        if reads and not torch.compiler.is_compiling():
            self._make_room(indices)
        log_probs = logits.log_softmax(1)
        log_confidence, predicted = log_probs.max(1)
        if self.training:
            self._last_batch = indices, predicted == targets
        confidence = log_confidence.exp()
        kappa = self.times_right[indices].to(logits.dtype) / self.epochs.clamp(min=1)
        kappa_gap = kappa - kappa.roll(-1)
        confidence_gap = confidence - confidence.roll(-1)
        ranking = F.relu(-kappa_gap.sign() * confidence_gap + kappa_gap.abs())
        return F.nll_loss(log_probs, targets) + self.lam * ranking.mean()

    def on_train_begin(self, num_samples: int) -> None:
        """Allocates a count for each training sample."""
        if num_samples > len(self.times_right):
            grown = self.times_right.new_zeros(num_samples)
            grown[: len(self.times_right)] = self.times_right
            self.times_right = grown

    def on_step_end(self) -> None:
        """Counts the samples of the batch that were classified correctly."""
        if self._last_batch is not None:
            indices, right = self._last_batch
            # Sums of ones are exact, so their order on CUDA does not matter.
            self.times_right.index_add_(0, indices, right.to(self.times_right.dtype))
            self._last_batch = None

    def on_epoch_end(self) -> None:
        """Counts the epoch."""
        self.epochs += 1

    def _make_room(self, indices: Tensor) -> None:
        low, high = (int(bound) for bound in torch.aminmax(indices))
        if low < 0:
            raise ValueError(f"indices must not be negative, got {low}")
        self.on_train_begin(high + 1)


def _take_saved_size(
    loss: CorrectnessRanking, state_dict: dict[str, Any], prefix: str, *_: Any
) -> None:
    if (saved := state_dict.get(f"{prefix}times_right")) is not None:
        loss.times_right = loss.times_right.new_zeros(len(saved))
