"""Texts as a kind of sample: sequences of word indices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from trainables.data.core.samples import Samples
from trainables.data.core.types import Inputs, Stored
from trainables.data.kinds.encode import PADDING, UNKNOWN, split_words, token_rows

if TYPE_CHECKING:
    from torch import Tensor

FIRST_WORD: Final = 2
"""Number of the first word of the vocabulary."""

_SHOWN_WORDS = 40


@dataclass(frozen=True)
class Tokens(Samples):
    """Texts as sequences of word indices: int32, (N, L); ``shape`` is ``(L,)``.

    0 is padding at the end of short texts, 1 is any word outside the vocabulary, and word i of the
    vocabulary, the most frequent in training first, has index i + 2.
    """

    shape: tuple[int]
    vocabulary: tuple[str, ...]

    default_model: ClassVar[str] = "gpool_cnn"
    model_dtype: ClassVar[str] = "int32"
    mixable: ClassVar[bool] = False
    encodes: ClassVar[bool] = True

    @classmethod
    def measured(cls, texts: Inputs, max_words: int, max_tokens: int) -> Tokens:
        """Creates this kind of sample with the vocabulary of the training texts, (N,) of ``str``.

        The vocabulary has the ``max_words`` most frequent words; ties are in alphabetical order. L
        is the length of the longest text, at most ``max_tokens``.
        """
        counts: Counter[str] = Counter()
        longest = 1
        for text in texts:
            words = split_words(text)
            counts.update(words)
            longest = max(longest, len(words))
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        vocabulary = tuple(word for word, _ in ranked[:max_words])
        return cls((min(longest, max_tokens),), vocabulary)

    @property
    def num_tokens(self) -> int:
        """Number of indices: the vocabulary, the padding and the unknown word."""
        return FIRST_WORD + len(self.vocabulary)

    def __str__(self) -> str:
        return f"texts of {self.shape[0]} tokens"

    def encode(self, raw: Inputs) -> Inputs:
        """Converts texts (N,) of ``str`` to rows (N, L); long texts are truncated at the end."""
        return token_rows(raw, self.shape[0], self._numbers)

    def check(self, inputs: Stored) -> None:
        self.check_array(inputs, "int32")
        assert isinstance(inputs, np.ndarray)
        low, high = inputs.min(), inputs.max()
        if not 0 <= low <= high < self.num_tokens:
            raise ValueError(
                f"tokens run from {low} to {high}; {len(self.vocabulary)} words allow 0 to "
                f"{self.num_tokens - 1}"
            )

    def normalise(self, batch: Tensor) -> Tensor:
        return batch.clamp(min=PADDING)  # ONNX would count negative indices from the end

    def shown(self, row: Inputs) -> str:
        """The first words, with unknown words as dots."""
        numbers = row[row != PADDING].tolist()
        words = [
            "…" if number == UNKNOWN else self.vocabulary[number - FIRST_WORD]
            for number in numbers[:_SHOWN_WORDS]
        ]
        return " ".join([*words, "…"] if len(numbers) > _SHOWN_WORDS else words)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.vocabulary, start=FIRST_WORD)}
