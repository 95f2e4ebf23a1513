"""Probabilities where classes have other frequencies."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from sweeps.errors import UserError
from sweeps.messages.shares import percent
from trainables.posthoc.prior_shift import estimated_priors, with_priors

_ESTIMATE = "estimate"
_PART = re.compile(r"(.+)=(\d*\.?\d+)")


def after_prior(
    probs: Tensor, classes: Sequence[str], frequencies: Sequence[float], asked: str
) -> tuple[Tensor, str]:
    """Probabilities (N, K) for other frequencies of the classes, and a line that says which.

    `frequencies` are those where they are calibrated. `asked` is ``estimate``, for the EM algorithm
    on these probabilities, or new ones, such as ``default=.08``; the other classes share the rest.

    Raises:
        UserError: It is neither, or the present frequencies are unknown.
    """
    if not frequencies or min(frequencies) <= 0:
        raise UserError(
            "the classifier, or the scaling, does not say how frequent each class was; make it "
            "again with this version of calsweep",
            "prior",
            asked,
        )
    old = torch.tensor(frequencies, dtype=torch.float64)
    new = estimated_priors(probs, old) if asked == _ESTIMATE else _given(classes, old, asked)
    shown = zip(classes, old.tolist(), new.tolist(), strict=True)
    moved = [f"{name} {percent(a)} → {percent(b)} %" for name, a, b in shown]
    return with_priors(probs, old, new), f"prior: {', '.join(moved[:20])}"


def _given(classes: Sequence[str], old: Tensor, asked: str) -> Tensor:
    parts = [_PART.fullmatch(each.strip()) for each in asked.split(",")]
    given = {part[1]: float(part[2]) for part in parts if part is not None}
    known = torch.tensor([given.get(name, 0.0) for name in classes], dtype=torch.float64)
    rest, total = known == 0, float(known.sum())
    wrong = None in parts or not {*given} <= {*classes} or min(given.values()) <= 0
    if wrong or total > 1 or bool(rest.any()) != (total < 1):
        raise UserError(
            "write `estimate`, or new frequencies of classes, which sum to at most 1: "
            f"{classes[-1]}=.08",
            "prior",
            repr(asked),
        )
    return torch.where(rest, old * (1 - total) / old[rest].sum().clamp(min=1e-300), known)
