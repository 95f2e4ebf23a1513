"""Any text encoder of Hugging Face, as ``huggingface/<name on the hub, or folder>``."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from trainables.data.kinds.subwords import Subwords, resolved
from trainables.models.base import Classifier, run_once
from trainables.plugins.arguments import describe_error
from trainables.plugins.extras import require_extra


def huggingface_builder(place: str) -> Callable[..., Classifier]:
    """The builder of the encoder with this hub name or folder."""
    require_extra(f"model 'huggingface/{place}'", "text", "transformers")
    return partial(huggingface_encoder, place)


def huggingface_encoder(
    place: str, *, samples: Subwords, num_classes: int, pretrained: bool = True
) -> Classifier:
    """A text encoder of Hugging Face; the head gets the mean of its last hidden states.

    Raises ``ValueError`` if it does not exist, or does not accept such texts.

    Options:
        pretrained: Start from the pretrained weights, not from random ones.
    """
    from transformers import AutoConfig, AutoModel

    place = resolved(place)
    try:
        config = AutoConfig.from_pretrained(place)
        if pretrained:
            model = AutoModel.from_pretrained(place, dtype=torch.float32)
        else:
            model = AutoModel.from_config(config, dtype=torch.float32)
    except Exception as error:  # errors of the hub, of its cache, or of damaged files
        raise ValueError(
            f"huggingface/{place} cannot be loaded: {describe_error(error)}"
        ) from error
    if config.vocab_size < samples.num_tokens:
        raise ValueError(
            f"huggingface/{place} knows {config.vocab_size} tokens, while the texts are cut into "
            f"{samples.num_tokens} by {samples.tokenizer}; set dataset.tokenizer to its own"
        )
    encoder = _Encoder(model, samples.padding)
    tokens = torch.arange(samples.shape[0]).remainder(samples.num_tokens)[None]
    _drop_pooler(encoder, tokens)
    try:
        features = run_once(encoder, tokens)
    except Exception as error:  # the type of error depends on the model
        raise ValueError(
            f"huggingface/{place} cannot take {samples}: {describe_error(error)}"
        ) from error
    return Classifier(encoder.train(), nn.Linear(features.shape[1], num_classes))


def _drop_pooler(encoder: "_Encoder", tokens: Tensor) -> None:
    """Remove the unused pooler, unless the model calls it in any case."""
    if (pooler := getattr(encoder.model, "pooler", None)) is None:
        return
    encoder.model.pooler = None
    try:
        run_once(encoder, tokens)
    except Exception:  # the type of error depends on the model
        encoder.model.pooler = pooler


class _Encoder(nn.Module):
    def __init__(self, model: Any, padding: int) -> None:
        super().__init__()
        self.model = model
        self.padding = padding

    def forward(self, tokens: Tensor) -> Tensor:
        """Maps (N, L) integers to (N, D)."""
        there = tokens != self.padding
        found = self.model(input_ids=tokens.long(), attention_mask=there.long())
        states: Tensor = found.last_hidden_state
        weights = there.to(states.dtype)[:, :, None]
        return (states * weights).sum(1) / weights.sum(1).clamp(min=1)
