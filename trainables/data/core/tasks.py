"""Tasks: the labels, outputs and decisions of one-class, multi-label and segmentation data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from trainables.data.core.samples import Samples
from trainables.data.core.types import Labels

if TYPE_CHECKING:
    from torch import Tensor, nn

Names = tuple[str, ...] | None

NO_OR_YES: Final = ("no", "yes")
"""The classes of multi-label data."""

IGNORED: Final = 255
"""The class of ignored pixels."""


class Task(ABC):
    """The kind of prediction for a sample, with all code that depends on it.

    What a task does not redefine applies to data with one class of each sample.

    Losses and metrics apply to *decisions*, each for one of the dataset's classes. The decisions of
    a sample are consecutive rows; ``names`` has the name of each, such as a label, and is empty if
    there is only one. ``cluster_size`` is the number of similar decisions per sample that metrics
    use, such as pixels; if above 1, they are not independent. ``attribute`` is the class attribute
    of losses that support this task; empty if all do.
    """

    names: tuple[str, ...] = ()
    cluster_size: int = 1
    attribute: ClassVar[str] = ""

    @abstractmethod
    def __str__(self) -> str:
        """The labels of such data in words, for messages."""

    @property
    def decisions(self) -> int:
        """Number of decisions per sample."""
        return max(1, len(self.names))

    @abstractmethod
    def check(self, labels: Any, samples: Samples) -> None:
        """Raises ``TypeError`` or ``ValueError`` unless labels (N, ...) fit task and samples."""

    def occurring(self, labels: Any) -> Labels:
        """The classes that occur in labels; a class may be repeated."""
        return np.asarray(labels)

    def strata(self, labels: Any, names: Names) -> tuple[Labels, Names]:
        """The stratum of each sample (N,), and the names of the strata; see :func:`strata`."""
        return strata(labels, names)

    def drawn(self, labels: Any) -> Labels | None:
        """Positions (N, P) of the decisions of a sample that metrics use; None for all."""
        return None

    def num_outputs(self, num_classes: int) -> int:
        """Number of logits per sample of a model with this number of classes."""
        return num_classes

    def accepts(self, loss: type[nn.Module]) -> bool:
        """Whether a loss is defined for this task."""
        return not self.attribute or getattr(loss, self.attribute, False)

    def decisions_of(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N · decisions, K) and targets of the decisions, from logits (N, outputs)."""
        return logits, targets

    def samples_of(self, rows: Tensor, targets: Tensor) -> Tensor:
        """The row of each decision of :meth:`decisions_of`, from rows (N,) of the samples."""
        return rows

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities of each class, or of each label, from the model's logits (N, outputs)."""
        return logits.softmax(dim=1)

    def as_outputs(self, probs: Tensor) -> Tensor:
        """Like :meth:`probabilities`, from probabilities of decisions (N · decisions, K)."""
        return probs

    def scaled(self, logits: Tensor, scaling: Callable[[Tensor], Tensor]) -> Tensor:
        """The model's logits (N, outputs) after a map of the logits (M, K) of decisions."""
        return scaling(logits)


def at_places(outputs: Tensor, places: Tensor) -> Tensor:
    """Outputs (N, K, P) of a model (N, K, H, W) at pixel positions (N, P) in row-major order."""
    flat = outputs.flatten(2)
    return flat.gather(2, places.unsqueeze(1).expand(-1, flat.shape[1], -1))


@dataclass(frozen=True)
class OneClass(Task):
    """Each sample has one class: labels (N,)."""

    def __str__(self) -> str:
        return "one class of each sample"

    def check(self, labels: Any, samples: Samples) -> None:
        _check_dtype(labels, "int64")
        if labels.ndim != 1:
            raise ValueError(f"labels must be (N,), not of shape {labels.shape}")


@dataclass(frozen=True)
class SeveralLabels(Task):
    """Each of several labels is present or not: labels (N, L) of 0 and 1, classes no and yes.

    The model outputs a logit z for each label. The logits of its decision are 0 and z, so the
    probability of yes is sigmoid(z). ``names`` are those of the labels.
    """

    names: tuple[str, ...]
    attribute: ClassVar[str] = "several_labels"

    def __str__(self) -> str:
        return "several labels of each sample"

    def check(self, labels: Any, samples: Samples) -> None:
        _check_dtype(labels, "int64")
        if labels.ndim != 2 or labels.shape[1] != len(self.names) or len(self.names) < 2:
            raise ValueError(
                f"labels must be (N, {len(self.names)}), two labels or more, not of shape "
                f"{labels.shape}"
            )

    def num_outputs(self, num_classes: int) -> int:
        return len(self.names)

    def decisions_of(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        import torch

        yes = logits.flatten()
        return torch.stack([torch.zeros_like(yes), yes], 1), targets.flatten()

    def samples_of(self, rows: Tensor, targets: Tensor) -> Tensor:
        return rows.repeat_interleave(self.decisions)

    def scaled(self, logits: Tensor, scaling: Callable[[Tensor], Tensor]) -> Tensor:
        mapped = scaling(self.decisions_of(logits, logits)[0])
        return (mapped[:, 1] - mapped[:, 0]).reshape(-1, len(self.names))

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def as_outputs(self, probs: Tensor) -> Tensor:
        return probs[:, 1].reshape(-1, len(self.names))


@dataclass(frozen=True)
class EachPixel(Task):
    """Each pixel has one class: masks (N, H, W), uint8; :data:`IGNORED` marks pixels without one.

    The model outputs logits (N, K, H, W). Training uses all pixels that are not ignored. Metrics
    use a random sample of ``cluster_size`` per image; pixels repeat if an image has too few.
    """

    cluster_size: int = 100
    attribute: ClassVar[str] = "each_pixel"

    def __str__(self) -> str:
        return "a class of each pixel"

    def check(self, labels: Any, samples: Samples) -> None:
        _check_dtype(labels, "uint8")
        if labels.ndim != 3 or labels.shape[1:] != samples.shape[1:] or not samples.each_pixel:
            raise ValueError(
                f"a class of each pixel is for SegmentedImages, and masks (N, H, W) as large; not "
                f"for {samples}, and masks of shape {labels.shape}"
            )
        for row, mask in enumerate(labels):
            if (mask == IGNORED).all():
                raise ValueError(f"no pixel of image {row} (from 0) has a class")

    def occurring(self, labels: Any) -> Labels:
        there = np.zeros(IGNORED + 1, dtype=bool)
        for mask in labels:
            there[mask] = True
        return np.flatnonzero(there[:IGNORED])

    def strata(self, labels: Any, names: Names) -> tuple[Labels, Names]:
        """One group, because most images have most classes."""
        return np.zeros(len(labels), np.int64), None

    def drawn(self, labels: Any) -> Labels | None:
        places = np.empty((len(labels), self.cluster_size), np.int64)
        for row, mask in enumerate(labels):
            random = np.random.default_rng([row, self.cluster_size])
            known = np.flatnonzero(mask != IGNORED)
            places[row] = random.choice(known, self.cluster_size, len(known) < self.cluster_size)
        return places

    def accepts(self, loss: type[nn.Module]) -> bool:
        """Losses with ``each_pixel`` that do not change batches."""
        from trainables.losses import CalibrationLoss

        usual = CalibrationLoss.prepare_batch
        leaves = getattr(loss, "prepare_batch", usual) is usual  # others would not transform masks
        return leaves and super().accepts(loss)

    def decisions_of(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (M, K) and targets (M,) int64 of the pixels that are not ignored.

        The arguments are for all pixels, (N, K, H, W) and (N, H, W), or for some, (N, K, P) and
        (N, P). If all are ignored, one pixel without effect, because losses need at least one.
        """
        rows, flat = logits.flatten(2).transpose(1, 2).flatten(0, 1), targets.flatten()
        counts = flat != IGNORED
        if not counts.any():
            return rows[:1] * 0, flat[:1].long() * 0
        return rows[counts], flat[counts].long()

    def samples_of(self, rows: Tensor, targets: Tensor) -> Tensor:
        counts = targets.flatten(1) != IGNORED
        found = rows.unsqueeze(1).expand_as(counts)[counts]
        return found if len(found) else rows[:1]

    def scaled(self, logits: Tensor, scaling: Callable[[Tensor], Tensor]) -> Tensor:
        rows = logits.movedim(1, -1)
        return scaling(rows.reshape(-1, logits.shape[1])).reshape(rows.shape).movedim(-1, 1)

    def as_outputs(self, probs: Tensor) -> Tensor:
        """(N, K, P), for the pixels that metrics use."""
        return probs.reshape(-1, self.cluster_size, probs.shape[1]).transpose(1, 2)


def _check_dtype(labels: Any, dtype: str) -> None:
    if labels.dtype != dtype:
        raise TypeError(f"labels must be {dtype}, not {labels.dtype}")


def strata(labels: Labels, names: Names) -> tuple[Labels, Names]:
    """The strata of stratified splits (N,) and their names: the class, or the rarest label present.

    ``labels`` are (N,), or (N, L) of 0 and 1.
    """
    if labels.ndim == 1:
        return labels, names
    by_rarity = np.where(labels > 0, labels.sum(0), len(labels) + 1)
    found = np.where(labels.any(1), by_rarity.argmin(1), labels.shape[1])
    sizes = np.bincount(found, minlength=labels.shape[1] + 1)
    # A stratum with one sample cannot be split, so it joins the largest.
    return np.where(sizes[found] < 2, sizes.argmax(), found), None


def each_label(array: Any, decisions: int) -> Sequence[Any]:
    """Splits rows of decisions (N · decisions, ...) by label: (N, ...) each."""
    return [array[place::decisions] for place in range(decisions)]
