"""Texts as kinds of sample: sequences of words, and bags of words with TF-IDF weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trainables.data.core.samples import Samples
from trainables.data.core.types import Inputs, Stored
from trainables.data.kinds.encode import PADDING, UNKNOWN, split_words, token_rows, weighted_rows

if TYPE_CHECKING:
    from torch import Tensor

_SHOWN_TOKENS, _SHOWN_WORDS = 40, 20
_MOST_UNKNOWN = 0.5  # share of words
_RARE = 2  # minimum number of texts that contain a word of a bag of words


@dataclass(frozen=True)
class _Words(Samples):
    """Texts whose words have numbers: word i of the vocabulary has ``first_word`` + i."""

    shape: tuple[int, ...]
    vocabulary: tuple[str, ...]

    first_word: ClassVar[int]
    mixable: ClassVar[bool] = False
    encodes: ClassVar[bool] = True

    @property
    def num_tokens(self) -> int:
        """Number of indices: the vocabulary, and those before it."""
        return self.first_word + len(self.vocabulary)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The index of each word."""
        return {word: number for number, word in enumerate(self.vocabulary, self.first_word)}

    def unseen(self, raw: Inputs) -> tuple[str, ...]:
        """A sentence if most words of texts (N,) do not occur in training."""
        unknown = [word not in self.numbers for text in raw for word in split_words(text)]
        share = sum(unknown) / max(1, len(unknown))
        if share <= _MOST_UNKNOWN:
            return ()
        return (
            f"{share:.0%} of the words are not among those of training, so texts say little about "
            "their class",
        )

    def check(self, inputs: Stored) -> None:
        super().check(inputs)
        assert isinstance(inputs, np.ndarray)
        words = inputs if inputs.ndim == 2 else inputs[..., 0]
        low, high = words.min(), words.max()
        if not 0 <= low <= high < self.num_tokens:
            raise ValueError(
                f"words run from {low:g} to {high:g}; {len(self.vocabulary)} words allow 0 to "
                f"{self.num_tokens - 1}"
            )


@dataclass(frozen=True)
class Tokens(_Words):
    """Texts as sequences of word indices: int32, (N, L); ``shape`` is ``(L,)``.

    0 is padding at the end of short texts, 1 is any word outside the vocabulary, and word i of the
    vocabulary, the most frequent in training first, has index i + 2.
    """

    default_model: ClassVar[str] = "gpool_cnn"
    model_dtype: ClassVar[str] = "int32"
    stored: ClassVar[str] = "int32"
    first_word: ClassVar[int] = 2

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
        return cls((min(longest, max_tokens),), tuple(word for word, _ in ranked[:max_words]))

    def __str__(self) -> str:
        return f"texts of {self.shape[0]} tokens"

    def encode(self, raw: Inputs) -> Inputs:
        """Converts texts (N,) of ``str`` to rows (N, L); long texts are truncated at the end."""
        return token_rows(raw, self.shape[0], self.numbers)

    def normalise(self, batch: Tensor) -> Tensor:
        return batch.clamp(min=PADDING)  # ONNX would count negative indices from the end

    def shown(self, row: Inputs) -> str:
        """The first words, with unknown words as dots."""
        numbers = row[row != PADDING].tolist()
        words = [
            "…" if number == UNKNOWN else self.vocabulary[number - self.first_word]
            for number in numbers[:_SHOWN_TOKENS]
        ]
        return " ".join([*words, "…"] if len(numbers) > _SHOWN_TOKENS else words)


@dataclass(frozen=True)
class WeightedWords(_Words):
    """Texts as bags of words: float32, (N, L, 2), an index and a weight per word.

    A row contains the distinct words of a text, those with the largest weights first, and padding,
    index and weight 0. The weight is
    (1 + log count) · idf, divided by the Euclidean norm over all words of the text, with
    idf = 1 + log((1 + texts) / (1 + texts with the word)), as in scikit-learn's ``TfidfVectorizer``
    with ``sublinear_tf``. Words outside the vocabulary are dropped.

    Attributes:
        shape: ``(L, 2)``.
        vocabulary: Words, those in the most training texts first; word i has index i + 1.
        idf: Inverse document frequency of each word.
    """

    idf: tuple[float, ...]

    default_model: ClassVar[str] = "text_mlp"
    in_words: ClassVar[str] = "texts as weighted words"
    first_word: ClassVar[int] = 1

    @classmethod
    def measured(cls, texts: Inputs, max_words: int, max_tokens: int) -> WeightedWords:
        """Creates this kind of sample with the vocabulary and frequencies of the training texts.

        The vocabulary has the ``max_words`` words in the most texts (N,), in two or more if there
        are such words; ties are in alphabetical order. L is the largest number of distinct words in
        a text, at most ``max_tokens``.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(set(split_words(text)))
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        frequent = [item for item in ranked if item[1] >= _RARE] or ranked
        vocabulary = tuple(word for word, _ in frequent[:max_words])
        frequency = np.array([count for _, count in frequent[:max_words]], np.float64)
        idf = 1 + np.log((1 + len(texts)) / (1 + frequency))
        known = set(vocabulary)
        longest = max((len(known.intersection(split_words(text))) for text in texts), default=1)
        return cls((max(1, min(longest, max_tokens)), 2), vocabulary, tuple(idf.tolist()))

    def __str__(self) -> str:
        return f"texts of up to {self.shape[0]} weighted words"

    def encode(self, raw: Inputs) -> Inputs:
        """Converts texts (N,) of ``str`` to rows (N, L, 2), with the largest weights of each."""
        return weighted_rows(raw, self.shape[0], self.numbers, np.array(self.idf))

    def shown(self, row: Inputs) -> str:
        numbers = row[row[:, 0] != PADDING, 0].astype(int).tolist()
        words = [self.vocabulary[number - self.first_word] for number in numbers[:_SHOWN_WORDS]]
        return ", ".join([*words, "…"] if len(numbers) > _SHOWN_WORDS else words)
