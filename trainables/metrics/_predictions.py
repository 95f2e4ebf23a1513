"""Intermediate results that several metrics of one set of predictions share."""

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.metrics._ranked import (
    Binning,
    RankedScores,
    boundaries_of,
    rank_classes,
    rank_top_label,
    top_label,
)
from trainables.metrics.calibration import binned_error
from trainables.metrics.proper_scores import log_losses, log_losses_of_logits, squared_errors
from trainables.metrics.separation import risk_coverage_area

NUM_BINS = 15


class Predictions:
    """One set of predictions; intermediate results of its metrics are computed once, on demand."""

    def __init__(self, probs: Tensor, labels: Tensor, logits: Tensor | None = None) -> None:
        """Made from checked probabilities (N, K) and labels (N,); the logits give the NLL."""
        self.probs, self.labels, self._logits = probs, labels, logits

    @cached_property
    def log_losses(self) -> Tensor:
        if self._logits is None:
            return log_losses(self.probs, self.labels)
        return log_losses_of_logits(self._logits, self.labels)

    @cached_property
    def squared_errors(self) -> Tensor:
        return squared_errors(self.probs, self.labels)

    @cached_property
    def top(self) -> tuple[Tensor, Tensor]:
        return top_label(self.probs, self.labels)

    @cached_property
    def ranked(self) -> RankedScores:
        return rank_top_label(*self.top)

    @cached_property
    def aurc(self) -> Tensor:
        return risk_coverage_area(*self.top)

    @cached_property
    def classwise(self) -> Tensor:
        """Equal-width error, equal-mass error and AUROC per class, (3, K), from one sort."""
        blocks = [
            torch.stack(
                [
                    binned_error(ranked, NUM_BINS, "equal_width"),
                    binned_error(ranked, NUM_BINS, "equal_mass"),
                    ranked.auroc(),
                ]
            )
            for ranked in rank_classes(self.probs, self.labels)
        ]
        return torch.cat(blocks, dim=1)


Binned = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


def bin_top_label(binning: Binning, probs: Tensor, labels: Tensor) -> Binned:
    """Bin, confidence, and correctness (1 or 0) of each sample, (N,) each."""
    return _binned(*top_label(probs, labels), binning)


def bin_event(probs: Tensor, labels: Tensor) -> Binned:
    """Bin of equal mass, probability of class 1 of two, and whether it is the class, (N,) each."""
    return _binned(probs[:, 1].contiguous(), labels == 1, "equal_mass")


def _binned(confidence: Tensor, correct: Tensor, binning: Binning) -> Binned:
    ranked = rank_top_label(confidence, correct)
    ends = boundaries_of(ranked, NUM_BINS, binning)[0, 1:].contiguous()
    first = torch.searchsorted(ranked.scores[0], confidence)
    bins = torch.searchsorted(ends, first, right=True)
    return bins.cpu().numpy(), confidence.double().cpu().numpy(), correct.double().cpu().numpy()
