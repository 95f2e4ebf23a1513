"""Class weights and sample weights in training."""

import numpy as np
import torch
from torch import Tensor, nn

from trainables.contract.config import ClassWeights
from trainables.data.core.base import Dataset
from trainables.losses import CalibrationLoss
from trainables.runtime.distributed import all_gather, with_scaled_gradient

_AT_ONCE = 2**22  # labels per block: counting copies them to a wider dtype


def class_weights(given: ClassWeights, labels: np.ndarray, num_classes: int) -> Tensor:
    """The weight of each class, (K,) float32; 0 for a class without samples.

    ``given`` has a weight for each class, or is ``balanced`` for N / (K n_k), which gives all
    classes the same total weight (King and Zeng 2001; as in scikit-learn). Labels are int64 (N,),
    or (N, L) for multi-label data; masks (N, H, W), uint8; or class probabilities (N, K).

    Raises:
        ValueError: The number of weights is not K.
    """
    if given == "balanced":
        soft = labels.dtype.kind == "f"
        counts = labels.sum(0, dtype=np.float64) if soft else _counts(labels, num_classes)
        shares = np.divide(counts.sum(), num_classes * counts, where=counts > 0, out=0.0 * counts)
        return torch.from_numpy(shares).float()
    if len(given) != num_classes:
        raise ValueError(
            f"class_weights has {len(given)} weights, and there are {num_classes} classes; "
            "allowed: balanced, or one weight for each class, in their order"
        )
    return torch.tensor(given)


def _counts(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Number of samples of each class; ignored pixels are not counted."""
    flat = labels.ravel()
    parts = (flat[i : i + _AT_ONCE] for i in range(0, len(flat), _AT_ONCE))
    counts = [np.bincount(part, minlength=num_classes)[:num_classes] for part in parts]
    return np.asarray(np.sum(counts, 0))


def can_be_weighted(loss: type[nn.Module]) -> bool:
    """Whether a loss is a mean of per-sample terms, so that samples can be weighted."""
    return (
        issubclass(loss, CalibrationLoss)
        and not loss.looks_across_batch
        and not loss.mixes_inputs
        and loss.trains_classifier
    )


def weighted(
    logits: Tensor, targets: Tensor, weights: Tensor | None, of_samples: Tensor | None = None
) -> Tensor:
    """Logits (N, K) whose mean loss has the gradient of the weighted mean, Σ w_i l_i / Σ w_i.

    The value of the loss is still the unweighted mean. The sums are over all workers. ``targets``
    are (N,) int64, or class probabilities (N, K). w_i is the product of class weight, from
    ``weights`` (K,), and sample weight, from ``of_samples`` (N,); None for equal weights.
    """
    own = logits.new_ones(len(logits)) if of_samples is None else of_samples
    if weights is not None:
        own = own * (targets @ weights if targets.is_floating_point() else weights[targets])
    gathered = all_gather(own)
    total = gathered.sum()
    # If all weights in the batch are 0, the gradient is 0.
    scale = own / torch.where(total > 0, total, 1.0) * len(gathered)
    return with_scaled_gradient(logits, scale.unsqueeze(1).to(logits.dtype))


class Weights:
    """Class weights (``training.class_weights``) and sample weights in training."""

    def __init__(self, given: ClassWeights | None, dataset: Dataset, device: torch.device) -> None:
        train = dataset.train
        self._of_classes = self._of_samples = None
        if given is not None:
            self._of_classes = class_weights(given, train.targets, dataset.num_classes).to(device)
        if train.weights is not None:
            self._of_samples = torch.from_numpy(train.weights.copy()).to(device)

    def applied(self, logits: Tensor, targets: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and targets whose mean loss has the gradient of the weighted mean.

        Arguments as for :func:`weighted`; ``rows`` (n,) are positions in the training split.
        """
        of_classes = self._of_classes
        if of_classes is None and self._of_samples is None:
            return logits, targets
        of_samples = None if self._of_samples is None else self._of_samples[rows]
        logits = weighted(logits, targets, of_classes, of_samples)
        if of_classes is not None and targets.is_floating_point():
            # With soft labels, each possible label has the weight of its class.
            tilted = targets * of_classes
            least = torch.finfo(tilted.dtype).tiny
            targets = tilted / tilted.sum(1, keepdim=True).clamp_min(least)
        return logits, targets
