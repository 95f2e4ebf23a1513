"""What is to be told of a sample, and all that belongs to it: labels, outputs, decisions.

A dataset carries one object of a subclass of :class:`Task`. The training loop asks it and knows no
kind of task by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor, nn

Labels = npt.NDArray[np.int64]
Names = tuple[str, ...] | None

NO_OR_YES: Final = ("no", "yes")
"""The classes of a dataset of several labels."""


class Task(ABC):
    """What is to be told of a sample.

    Losses and metrics are of *decisions*, choices of one of the dataset's classes. A sample asks
    for one or more of them, which are rows side by side: those of the first sample, then those of
    the second ...

    Attributes:
        names: What each decision of a sample is about; none where there is only one.
    """

    names: tuple[str, ...] = ()

    @abstractmethod
    def __str__(self) -> str:
        """What data have of such a task, for messages."""

    @property
    def decisions(self) -> int:
        """How many decisions a sample asks for."""
        return max(1, len(self.names))

    @abstractmethod
    def check(self, labels: Labels) -> None:
        """Makes sure that an array (N, ...) holds such labels.

        Raises:
            ValueError: It has another shape.
        """

    @abstractmethod
    def num_outputs(self, num_classes: int) -> int:
        """How many logits the model gives of a sample, where there are so many classes."""

    @abstractmethod
    def takes(self, loss: type[nn.Module]) -> bool:
        """Whether a loss means something here."""

    @abstractmethod
    def decided(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and targets of decisions.

        Args:
            logits: (N, outputs), of the model.
            targets: (N, ...), of the samples.

        Returns:
            (N · decisions, K), and targets of as many.
        """

    @abstractmethod
    def probabilities(self, logits: Tensor) -> Tensor:
        """Of logits (N, outputs) of the model the probabilities that a person wants, of one shape.

        Of each class, or of yes for each label.
        """

    @abstractmethod
    def as_outputs(self, probs: Tensor) -> Tensor:
        """Of probabilities (N · decisions, K) of decisions those of :meth:`probabilities`."""


@dataclass(frozen=True)
class OneClass(Task):
    """Each sample is of one class: labels (N,)."""

    def __str__(self) -> str:
        return "one class of each sample"

    def check(self, labels: Labels) -> None:
        """See :meth:`Task.check`."""
        if labels.ndim != 1:
            raise ValueError(f"labels must be (N,), not of shape {labels.shape}")

    def num_outputs(self, num_classes: int) -> int:
        """See :meth:`Task.num_outputs`."""
        return num_classes

    def takes(self, loss: type[nn.Module]) -> bool:
        """See :meth:`Task.takes`: all of them."""
        return True

    def decided(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """See :meth:`Task.decided`: they are decisions already."""
        return logits, targets

    def probabilities(self, logits: Tensor) -> Tensor:
        """See :meth:`Task.probabilities`."""
        return logits.softmax(dim=1)

    def as_outputs(self, probs: Tensor) -> Tensor:
        """See :meth:`Task.as_outputs`."""
        return probs


@dataclass(frozen=True)
class SeveralLabels(Task):
    """Each of several labels is there or not: labels (N, L) of 0 and 1, classes no and yes.

    The model gives a logit z for each label; the logits of its decision are 0 and z, so that the
    probability of yes is the sigmoid of z.

    Attributes:
        names: Of the labels.
    """

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "several labels of each sample"

    def check(self, labels: Labels) -> None:
        """See :meth:`Task.check`."""
        if labels.ndim != 2 or labels.shape[1] != len(self.names) or len(self.names) < 2:
            raise ValueError(
                f"labels must be (N, {len(self.names)}), two labels or more, not of shape "
                f"{labels.shape}"
            )

    def num_outputs(self, num_classes: int) -> int:
        """See :meth:`Task.num_outputs`."""
        return len(self.names)

    def takes(self, loss: type[nn.Module]) -> bool:
        """See :meth:`Task.takes`: those that say so."""
        return getattr(loss, "several_labels", False)

    def decided(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """See :meth:`Task.decided`."""
        import torch

        yes = logits.flatten()
        return torch.stack([torch.zeros_like(yes), yes], 1), targets.flatten()

    def probabilities(self, logits: Tensor) -> Tensor:
        """See :meth:`Task.probabilities`."""
        return logits.sigmoid()

    def as_outputs(self, probs: Tensor) -> Tensor:
        """See :meth:`Task.as_outputs`."""
        return probs[:, 1].reshape(-1, len(self.names))


def strata(labels: Labels, names: Names) -> tuple[Labels, Names]:
    """What a split keeps in proportion: the class; of several labels the rarest that is there.

    Args:
        labels: (N,), or (N, L) of 0 and 1.
        names: Of classes or labels.

    Returns:
        (N,), and what each is called; None where they have no name.
    """
    if labels.ndim == 1:
        return labels, names
    counts = labels.sum(0)
    by_rarity = np.where(labels > 0, counts, len(labels) + 1)
    found = np.where(labels.any(1), by_rarity.argmin(1), labels.shape[1])
    sizes = np.bincount(found, minlength=labels.shape[1] + 1)
    # One of a kind cannot be in both parts: it goes with the most.
    return np.where(sizes[found] < 2, sizes.argmax(), found), None


def each_label(array: Any, decisions: int) -> Sequence[Any]:
    """Rows of decisions (N · decisions, ...) by what they are about: (N, ...) of each."""
    return [array[place::decisions] for place in range(decisions)]
