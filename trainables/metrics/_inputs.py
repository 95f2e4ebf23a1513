"""Checks and small helpers that every metric shares."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

# A half-precision row of probabilities is rounded to two or three digits.
_ROW_SUM_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 2e-2}
_ROW_BLOCK_ELEMENTS = 2**20  # temporaries stay small beside the inputs
_CLASS_BLOCK_ELEMENTS = 2**21


def check_probs(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return (N, K) float32/64 probabilities and (N,) int64 labels, or raise.

    Raises:
        TypeError: if the arguments are not tensors of floats and of integers.
        ValueError: if shapes do not match, N = 0, K < 2, a label is not in [0, K), or a row of
            `probs` is no probability vector.
    """
    scores, targets = _check_pair("probs", probs, labels)
    low, high = torch.aminmax(scores)
    off_by = (scores.sum(dim=1) - 1).abs().max()
    lowest, highest, deviation = torch.stack([low, high, off_by]).tolist()
    if not (lowest >= 0 and highest <= 1):
        raise ValueError(f"probs must lie in [0, 1], got values from {lowest:g} to {highest:g}")
    tolerance = _ROW_SUM_TOLERANCE.get(probs.dtype, 1e-3)
    if not deviation <= tolerance:
        raise ValueError(
            f"each row of probs must sum to 1 (within {tolerance:g}), one is off by {deviation:g};"
            " are these logits?"
        )
    return scores, targets


def check_logits(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return (N, K) float32/64 logits and (N,) int64 labels, or raise.

    Raises:
        TypeError: if the arguments are not tensors of floats and of integers.
        ValueError: if shapes do not match, N = 0, K < 2, a label is not in [0, K), or a logit is
            not finite.
    """
    scores, targets = _check_pair("logits", logits, labels)
    if not torch.stack(torch.aminmax(scores)).isfinite().all():
        raise ValueError("logits must be finite, got NaN or infinity")
    return scores, targets


def check_num_bins(num_bins: int) -> None:
    """Raise ValueError unless `num_bins` is a positive integer."""
    if not isinstance(num_bins, int) or num_bins < 1:
        raise ValueError(f"num_bins must be an integer of at least 1, got {num_bins!r}")


def row_blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Split tensors along their first axis, so that temporaries stay small."""
    first = tensors[0]
    size = max(1, _ROW_BLOCK_ELEMENTS * len(first) // max(1, first.numel()))
    return zip(*(torch.split(tensor, size) for tensor in tensors), strict=True)


def map_rows(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Values (N,) of a function of blocks of rows, float64.

    Written into one array: results kept apart would pin the freed temporaries around them in the
    allocator, which then holds several copies of the input.
    """
    values = torch.empty(len(tensors[0]), dtype=torch.float64, device=tensors[0].device)
    for *rows, out in row_blocks(*tensors, values):
        out.copy_(function(*rows))
    return values


def classes_per_block(num_samples: int) -> int:
    """How many columns of N samples make a block of bounded size."""
    return max(1, _CLASS_BLOCK_ELEMENTS // num_samples)


def _check_pair(name: str, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        found = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"{name} must be a tensor of floats, got {found}")
    if not isinstance(labels, Tensor) or not _is_integer(labels):
        found = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise TypeError(f"labels must be a tensor of integers, got {found}")
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise ValueError(
            f"{name} must have shape (N, K) with K of at least 2, got {tuple(scores.shape)}"
        )
    if len(scores) == 0:
        raise ValueError(f"{name} must hold at least one sample, got shape {tuple(scores.shape)}")
    if labels.shape != scores.shape[:1]:
        raise ValueError(
            f"labels must have shape ({len(scores)},) to match {name}, got {tuple(labels.shape)}"
        )
    if labels.device != scores.device:
        raise ValueError(
            f"{name} and labels must be on one device, got {scores.device} and {labels.device}"
        )
    targets = labels.long()
    lowest, highest = torch.stack(torch.aminmax(targets)).tolist()
    if lowest < 0 or highest >= scores.shape[1]:
        raise ValueError(
            f"labels must lie in [0, {scores.shape[1]}), got values from {lowest} to {highest}"
        )
    scores = scores.detach()
    return scores if scores.dtype == torch.float64 else scores.float(), targets


def _is_integer(labels: Tensor) -> bool:
    return not (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool)
