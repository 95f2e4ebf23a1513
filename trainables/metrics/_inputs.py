"""Input checks and helpers that all metrics share."""

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Literal

import torch
from torch import Tensor

# Half-precision probabilities are rounded to two or three digits.
_ROW_SUM_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 2e-2}
_DEFAULT_ROW_SUM_TOLERANCE = 1e-3
PROBABILITIES_REFUSED = (
    "are in [0, 1], and each row sums to one; pass logits, or the logarithm of the probabilities "
    "(probabilities_as_logits=True takes them as logits)"
)
_ROUNDING = 1e-5  # how far a normalised float32 probability may lie outside of [0, 1]
_TIE_BITS = 14  # of the 52 bits of a float64's fraction are dropped, which is 4e-12
_ROW_BLOCK_ELEMENTS = 2**18  # temporaries stay in the cache, and malloc reuses their memory


def check_probs(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return (N, K) float32/64 probabilities in [0, 1] and (N,) int64 labels, or raise.

    A probability outside [0, 1] by no more than rounding is clamped.

    Raises:
        TypeError: If the arguments are not tensors of floats and of integers.
        ValueError: If shapes do not match, N = 0, K < 2, a label is not in [0, K), or a row of
            `probs` is not a probability vector.
    """
    scores, targets = _check_pair("probs", probs, labels)
    low, high = torch.aminmax(scores)
    off_by = (scores.sum(dim=1) - 1).abs().max()
    lowest, highest, deviation = torch.stack([low, high, off_by]).tolist()
    if not (lowest >= -_ROUNDING and highest <= 1 + _ROUNDING):
        raise ValueError(f"probs must lie in [0, 1], got values from {lowest:g} to {highest:g}")
    tolerance = _row_sum_tolerance(probs.dtype)
    if not deviation <= tolerance:
        raise ValueError(
            f"each row of probs must sum to 1 (within {tolerance:g}), one is off by {deviation:g};"
            " are these logits?"
        )
    return (scores if lowest >= 0 and highest <= 1 else scores.clamp(0, 1)), targets


def check_logits(
    logits: Tensor, labels: Tensor, *, probabilities_as_logits: bool = False
) -> tuple[Tensor, Tensor]:
    """Return (N, K) float32/64 logits and (N,) int64 labels, or raise like :func:`check_probs`.

    A logit of -inf masks a class: its probability is 0. A logit may not be NaN or +inf, nor all of
    a row -inf. Logits that look like probabilities are refused, unless they are meant.
    """
    scores, targets = _check_pair("logits", logits, labels)
    # NaN propagates into both extremes, so two numbers suffice.
    top = torch.stack(torch.aminmax(scores.amax(dim=1)))
    if not top.isfinite().all():
        raise ValueError(
            "logits must be finite (or -inf for masked classes, not for all of a row),"
            " got NaN or infinity"
        )
    if not probabilities_as_logits and look_like_probabilities(logits):
        raise ValueError(f"logits look like probabilities: all {PROBABILITIES_REFUSED}")
    return scores, targets


def check_labels_possible(logits: Tensor, labels: Tensor) -> None:
    """Raise ValueError if the logit of a sample's label is -inf: its loss would be infinite."""
    if ruled_out := logits.gather(1, labels[:, None]).isneginf().sum():
        raise ValueError(f"the logit of the label must be finite, got -inf for {ruled_out} samples")


def look_like_probabilities(logits: Tensor) -> bool:
    """Whether all logits (N, K) are in [0, 1], and each row sums to one."""
    return bool(seem_probabilities(logits))


def seem_probabilities(logits: Tensor) -> Tensor:
    """The same as a tensor (), so that a GPU does not wait for the answer."""
    low, high = torch.aminmax(logits)
    off_by = (logits.sum(dim=1, dtype=torch.float64) - 1).abs().max()
    return (low >= 0) & (high <= 1) & (off_by <= _row_sum_tolerance(logits.dtype))


def with_ties(scores: Tensor) -> Tensor:
    """Scores, float64 ones rounded to 38 bits, so that sums in another order are still ties.

    Float32 scores are as given: neighbouring values may be true differences near 1.
    """
    if scores.dtype != torch.float64:
        return scores
    bits = scores.contiguous().view(torch.int64)
    return ((bits + (1 << _TIE_BITS - 1)) >> _TIE_BITS << _TIE_BITS).view(torch.float64)


def probabilities(logits: Tensor) -> Tensor:
    """Softmax of checked logits (N, K), same dtype; of logarithms of probabilities, exactly these.

    Sums are float64, and logits whose rows sum to one after exponentiation are not divided again.
    So equal probabilities remain equal, which bins and ranks depend on.
    """
    probs, divided = torch.empty_like(logits), False
    for z, out in row_blocks(logits, probs):
        exponentials = z.double().exp()
        sums = exponentials.sum(dim=1, keepdim=True)
        divided = divided or bool(((sums - 1).abs() > _DEFAULT_ROW_SUM_TOLERANCE).any())
        if divided:
            break
        out.copy_(exponentials)
    if divided:
        for z, out in row_blocks(logits, probs):
            out.copy_(torch.softmax(z, dim=1, dtype=torch.float64))
    return probs


def check_count(name: str, value: int) -> None:
    """Raise ValueError unless `value` is a positive integer (Python or NumPy, not bool)."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def check_level(confidence: float) -> None:
    """Raise ValueError unless `confidence`, the level of an interval, is in (0, 1)."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")


def row_blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Split tensors along their first axis into blocks, to keep temporaries small."""
    first = tensors[0]
    size = max(1, _ROW_BLOCK_ELEMENTS * len(first) // max(1, first.numel()))
    return zip(*(torch.split(tensor, size) for tensor in tensors), strict=True)


def map_rows(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply a function to blocks of rows; returns its values (N,), float64.

    They go into one array, because separate results would fragment the allocator's memory.
    """
    values = torch.empty(len(tensors[0]), dtype=torch.float64, device=tensors[0].device)
    for *rows, out in row_blocks(*tensors, values):
        out.copy_(function(*rows))
    return values


def _row_sum_tolerance(dtype: torch.dtype) -> float:
    return _ROW_SUM_TOLERANCE.get(dtype, _DEFAULT_ROW_SUM_TOLERANCE)


def _check_pair(name: str, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    check_numbers(name, scores, "floats")
    check_numbers("labels", labels, "integers")
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


def check_numbers(name: str, values: object, kind: Literal["floats", "integers"]) -> None:
    """Raise TypeError unless `values` are a tensor of floats, or of integers; bool is neither."""
    given = values.dtype if isinstance(values, Tensor) else None
    floats = given is not None and given.is_floating_point
    other = given is None or floats or given.is_complex or given == torch.bool
    if other if kind == "integers" else not floats:
        raise TypeError(f"{name} must be a tensor of {kind}, got {given or type(values).__name__}")
