"""A small bag-of-words network for texts."""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trainables.data.kinds.encode import PADDING
from trainables.data.kinds.tokens import WeightedWords
from trainables.models.base import Classifier
from trainables.plugins.arguments import Range


def text_mlp(
    *,
    samples: WeightedWords,
    num_classes: int,
    width: Annotated[int, Range(1)] = 128,
    dropout: Annotated[float, Range(0, 1, open_high=True)] = 0.5,
    word_dropout: Annotated[float, Range(0, 1, open_high=True)] = 0.5,
) -> Classifier:
    """The TF-IDF weighted sum of learnt word vectors, followed by ReLU and the head.

    With K-dimensional word vectors and without ReLU and head, this would be logistic regression on
    TF-IDF. Word dropout prevents reliance on single words (deep averaging networks: M. Iyyer et
    al., Deep Unordered Composition Rivals Syntactic Methods for Text Classification, 2015).

    Options:
        width: Dimension of the word vectors.
        dropout: Probability of dropping a unit before the head.
        word_dropout: Probability of dropping a word of a training text.
    """
    encoder = _Encoder(samples.num_tokens, width, dropout, word_dropout)
    return Classifier(encoder, nn.Linear(width, num_classes))


class _Encoder(nn.Module):
    def __init__(self, num_words: int, width: int, dropout: float, word_dropout: float) -> None:
        super().__init__()
        self.vectors = nn.Embedding(num_words, width, padding_idx=PADDING)
        with torch.no_grad():
            self.vectors.weight.mul_(0.1)  # so the entries of a text's vector have about this size
        self.bias = nn.Parameter(torch.zeros(width))
        self.dropout = nn.Dropout(dropout)
        self.word_dropout = nn.Dropout(word_dropout)

    def forward(self, rows: Tensor) -> Tensor:
        """Maps (N, L, 2), see WeightedWords, to (N, width)."""
        words, weights = rows.unbind(dim=2)
        summed = self._weighted_sum(words.long(), self.word_dropout(weights))
        features: Tensor = self.dropout(F.relu(summed + self.bias))
        return features

    def _weighted_sum(self, words: Tensor, weights: Tensor) -> Tensor:
        if torch.onnx.is_in_onnx_export():  # ONNX has no embedding bag, and would loop over texts
            vectors = self.vectors(words.clamp(min=PADDING))  # ONNX counts -1 from the end
            return torch.bmm(weights.unsqueeze(1), vectors).squeeze(1)
        return F.embedding_bag(
            words, self.vectors.weight, per_sample_weights=weights, mode="sum", padding_idx=PADDING
        )
