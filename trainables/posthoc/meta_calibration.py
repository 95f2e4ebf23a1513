"""Meta-Cal: post-hoc calibration with a ranking model (Ma & Blaschko 2021)."""

import math
from itertools import pairwise
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from trainables.metrics._inputs import check_logits
from trainables.metrics._ranked import negative_entropy
from trainables.plugins.arguments import check_choice
from trainables.posthoc.base import Fitted
from trainables.posthoc.temperature import TemperatureScaling

Constraint = Literal["miscoverage", "coverage_accuracy"]

_NUM_ENTROPY_BINS = 20
_MAX_RANKING_SAMPLES = 500


class MetaCalibration(Fitted[tuple[float, TemperatureScaling]]):
    """Temperature scaling for confident predictions, the uniform distribution for the others.

    A prediction is replaced if the entropy of its softmax reaches a threshold. The threshold is
    fitted on a tenth of the data (at most 500 samples), and the temperature (by NLL) on the samples
    below the threshold in the rest. Ma & Blaschko 2021, algorithms 1 and 2, and their code.

    Args:
        constraint: "miscoverage" keeps the share of correct predictions that are replaced at about
            `level`; "coverage_accuracy" keeps the accuracy of the predictions that are not
            replaced at about `level`.
        level: Target value of the constraint, in (0, 1).
        seed: Seed of the split.

    Raises:
        ValueError: If `constraint` is neither of the two, or `level` is not in (0, 1).
    """

    name: ClassVar[str] = "meta_calibration"

    def __init__(
        self, constraint: Constraint = "miscoverage", level: float = 0.05, seed: int = 0
    ) -> None:
        check_choice("constraint", constraint, get_args(Constraint))
        if not 0 < level < 1:
            raise ValueError(f"level must be in (0, 1), got {level!r}")
        self.constraint, self.level, self.seed = constraint, level, seed

    @property
    def threshold(self) -> float:
        """Entropy, in nats, at and above which predictions are replaced."""
        return self._result()[0]

    @property
    def temperature(self) -> float:
        """Temperature of the predictions that are kept."""
        return self._result()[1].temperature

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        """Fit threshold and temperature; see :meth:`PostHoc.fit`.

        Raises:
            ValueError: Also if there are fewer than 10 samples (correct predictions, for
                "miscoverage"), no sample lies below the threshold, or no threshold reaches the
                coverage accuracy.
        """
        logits, labels = check_logits(logits, labels)
        correct = logits.argmax(dim=1) == labels
        entropy = _entropy(logits)
        if self.constraint == "miscoverage":
            ranking, rest = self._split(correct.nonzero()[:, 0])
            rest = torch.cat([rest, (~correct).nonzero()[:, 0]])
            of_correct = entropy[ranking]
            threshold = float(of_correct.quantile(1 - self.level, interpolation="higher"))
        else:
            ranking, rest = self._split(torch.arange(len(labels), device=labels.device))
            threshold = _accuracy_threshold(entropy[ranking], correct[ranking], self.level)
        kept = rest[entropy[rest] < threshold]
        if len(kept) == 0:
            raise ValueError(
                f"no sample has an entropy below the threshold {threshold:g} that"
                f" {self.constraint} {self.level:g} asks for"
            )
        self._fitted = threshold, TemperatureScaling().fit(logits[kept], labels[kept])
        return self

    def covers(self, logits: Tensor) -> Tensor:
        """Whether each prediction is kept, not replaced by the uniform one, bool (N,)."""
        return _entropy(logits.detach()) < self.threshold

    def __call__(self, logits: Tensor) -> Tensor:
        """Calibrated logits of the same shape: divided by T, or all 0 if replaced."""
        return torch.where(self.covers(logits)[:, None], logits / self.temperature, 0)

    def _split(self, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """A tenth of the candidates for the threshold, and the rest, split as by scikit-learn."""
        if (num_ranking := min(len(candidates) // 10, _MAX_RANKING_SAMPLES)) == 0:
            kind = "correctly classified samples" if self.constraint == "miscoverage" else "samples"
            raise ValueError(f"MetaCalibration needs at least 10 {kind}, got {len(candidates)}")
        order = np.random.RandomState(self.seed).permutation(len(candidates))
        shuffled = candidates[torch.from_numpy(order).to(candidates.device)]
        return shuffled[-num_ranking:], shuffled[:-num_ranking]


def _entropy(logits: Tensor) -> Tensor:
    return -negative_entropy(torch.softmax(logits.double(), dim=1))


def _accuracy_threshold(entropy: Tensor, correct: Tensor, level: float) -> float:
    """Entropy up to which the running mean of accuracies over entropy bins is `level`.

    As in the authors' code, the smallest entropy is in no bin, and an empty bin counts as 0. If all
    bins have equal accuracy (for example, all predictions are correct), the threshold is the mean
    entropy of the bins, regardless of the level.
    """
    from sklearn.isotonic import IsotonicRegression  # slow to import

    scores, right = entropy.cpu().numpy(), correct.cpu().numpy()
    cuts = np.quantile(scores, np.linspace(0, 1, _NUM_ENTROPY_BINS + 1))
    accuracies, entropies = np.zeros(_NUM_ENTROPY_BINS), np.zeros(_NUM_ENTROPY_BINS)
    for b, (low, high) in enumerate(pairwise(cuts)):
        inside = (scores > low) & (scores <= high)
        if inside.any():
            accuracies[b], entropies[b] = right[inside].mean(), scores[inside].mean()
    running = accuracies.cumsum() / np.arange(1, _NUM_ENTROPY_BINS + 1)
    model = IsotonicRegression(increasing=False).fit(running, entropies)
    threshold = float(model.predict([level])[0])
    if math.isnan(threshold):
        raise ValueError(
            f"coverage_accuracy {level:g} cannot be reached on these data: thresholds give"
            f" {running.min():.4g} to {running.max():.4g}"
        )
    return threshold
