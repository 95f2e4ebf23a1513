"""A fitted map from logits to calibrated logits, as a module and as plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final, Literal, get_args

import torch
from torch import Tensor, nn

from trainables.metrics._inputs import row_blocks
from trainables.plugins.arguments import check_choice
from trainables.posthoc.base import Fitted
from trainables.posthoc.inverse_maps import InverseMap

ScalingName = Literal["none", "temperature", "vector", "beta", "matrix"]
"""Kinds of maps, from simple to rich."""

FORMAT: Final = 1
"""Number of the format that `Scaling.to_json` writes."""


class Scaling(nn.Module):
    """A fitted map of logits: softmax(W log p + b), where p is softmax(f(z) / T).

    f is the inverse map of the loss, or the identity. A temperature alone is z / T. Otherwise p is
    mixed with the uniform distribution with a weight `share`, as in structured scaling, and W is a
    diagonal or a matrix. It works on any device and can be exported.

    Args:
        name: The kind of map.
        temperature: T, above 0.
        weights: W, (K,) for its diagonal or (K, K); None for a temperature alone.
        offsets: b, (K,), if there are weights.
        share: Weight of the uniform distribution in p, in [0, 1).
        inverse: The inverse map of the loss, before all others.
    """

    temperature: Tensor
    weights: Tensor | None
    offsets: Tensor | None

    def __init__(
        self,
        name: ScalingName = "none",
        temperature: float = 1.0,
        weights: Tensor | None = None,
        offsets: Tensor | None = None,
        share: float = 0.0,
        inverse: InverseMap | None = None,
    ) -> None:
        super().__init__()
        self.name, self.share, self.inverse = name, share, inverse
        self.register_buffer("temperature", torch.tensor(temperature, dtype=torch.float64))
        self.register_buffer("weights", weights)
        self.register_buffer("offsets", offsets)

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrated logits of the same shape (N, K) and dtype, not probabilities."""
        found = logits if self.inverse is None else self.inverse(logits)
        if self.name == "none":
            return found
        found = found / self.temperature.to(logits.dtype)
        if self.weights is None or self.offsets is None:
            return found
        enough = found if logits.dtype == torch.float64 else found.float()
        scores = mixed_log_probs(enough, self.share)
        weights, offsets = self.weights.to(scores), self.offsets.to(scores)
        mapped = scores * weights if weights.dim() == 1 else scores @ weights.T
        return torch.where(logits.isneginf(), logits, (mapped + offsets).to(logits.dtype))

    def after(self, inverse: InverseMap | None) -> Scaling:
        """The same map after an inverse map."""
        return Scaling(
            self.name, float(self.temperature), self.weights, self.offsets, self.share, inverse
        )

    def with_offsets(self, offsets: Tensor) -> Scaling:
        """The same map with further offsets (K,), such as those of other priors."""
        name, weights = self.name, self.weights
        if weights is None or self.offsets is None:
            name, weights = "vector", torch.ones_like(offsets)
        else:
            offsets = self.offsets + offsets
        return Scaling(name, float(self.temperature), weights, offsets, self.share, self.inverse)

    def to_json(self) -> dict[str, object]:
        """Plain numbers and words that `from_json` reads."""
        return {
            "format": FORMAT,
            "name": self.name,
            "temperature": float(self.temperature),
            "weights": None if self.weights is None else self.weights.tolist(),
            "offsets": None if self.offsets is None else self.offsets.tolist(),
            "share": self.share,
            "inverse": None if self.inverse is None else asdict(self.inverse),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Scaling:
        """Read what `to_json` returned; ``ValueError`` if it is none, or of a later format."""
        if kept.get("format") != FORMAT:
            raise ValueError(f'a scaling has "format": {FORMAT}, not {kept.get("format")!r}')
        try:
            check_choice("name", kept["name"], get_args(ScalingName))
            inverse = kept["inverse"]
            found = cls(
                kept["name"],
                float(kept["temperature"]),
                _tensor(kept["weights"]),
                _tensor(kept["offsets"]),
                float(kept["share"]),
                None if inverse is None else InverseMap(**inverse),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no scaling that calsweep wrote: {error}") from error
        found._check()
        return found

    def _check(self) -> None:
        """Raise ValueError unless the numbers fit each other."""
        parts = [t for t in (self.weights, self.offsets) if t is not None]
        affine = self.name not in ("none", "temperature")
        if not (float(self.temperature) > 0 and 0 <= self.share < 1) or not all(
            part.isfinite().all() for part in parts
        ):
            raise ValueError("the numbers of this scaling are out of range")
        if len(parts) != 2 * affine or (
            affine and parts[0].shape not in ((len(parts[1]),), (len(parts[1]),) * 2)
        ):
            raise ValueError(f"the weights and offsets do not fit the scaling {self.name!r}")


def _tensor(values: Any) -> Tensor | None:
    return None if values is None else torch.tensor(values, dtype=torch.float64)


class FittedScaling(Fitted[Scaling]):
    """Base class of methods whose result is a `Scaling`."""

    @property
    def scaling(self) -> Scaling:
        """The fitted map; RuntimeError before `fit`."""
        return self._result()

    def __call__(self, logits: Tensor) -> Tensor:
        """Calibrated logits of the same shape and dtype, not probabilities."""
        return in_blocks(self.scaling, logits)


def mixed_log_probs(logits: Tensor, share: float) -> Tensor:
    """Log-probabilities (N, K) after mixing with the uniform distribution of weight `share`."""
    probs = torch.softmax(logits, dim=1)
    return (probs * (1 - share) + share / logits.shape[1]).log()


def in_blocks(scaling: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """Scaled logits (N, K), computed for blocks of rows, so that temporaries are small."""
    scaled = torch.empty_like(logits)
    for rows, out in row_blocks(logits, scaled):
        out.copy_(scaling(rows))
    return scaled
