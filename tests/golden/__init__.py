"""Values and gradients of the authors' code; NOTES.md says where each comes from, and its quirks.

They were recorded once, from the named commits of the named repositories, and are facts: a test
that disagrees with one is mended in the code, or says why it must differ.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

_FOLDER = Path(__file__).parent


def recorded() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Recorded entries by kind (``losses``, ``metrics`` ...) and method."""
    values: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(
        (_FOLDER / "values.json").read_text(encoding="utf-8")
    )
    return values


def inputs() -> tuple[Tensor, Tensor]:
    """Input A: logits (64, 10) in float64, and labels (64,)."""
    with np.load(_FOLDER / "inputs_A.npz") as arrays:
        return torch.from_numpy(arrays["logits"]), torch.from_numpy(arrays["labels"])
