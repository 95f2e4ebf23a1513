"""Texts as a kind of sample: bags of words with TF-IDF weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from trainables.data.core.samples import Samples
from trainables.data.core.types import Inputs, Stored
from trainables.data.kinds.encode import split_words, weighted_rows

NO_WORD: Final = 0
"""Index of padding in short texts; its weight is 0."""

FIRST_WORD: Final = 1
"""Number of the first word of the vocabulary."""

_SHOWN_WORDS = 20
_RARE = 2  # minimum number of texts that contain a word of the vocabulary


@dataclass(frozen=True)
class WeightedWords(Samples):
    """Texts as bags of words: float32, (N, L, 2), an index and a weight per word.

    A row contains the distinct words of a text, those with the largest weights first. The weight is
    (1 + log count) · idf, divided by the Euclidean norm over all words of the text, with
    idf = 1 + log((1 + texts) / (1 + texts with the word)), as in scikit-learn's ``TfidfVectorizer``
    with ``sublinear_tf``. Words outside the vocabulary are dropped.

    Attributes:
        shape: ``(L, 2)``.
        vocabulary: Words, those in the most training texts first; word i has index i + 1.
        idf: Inverse document frequency of each word.
    """

    shape: tuple[int, int]
    vocabulary: tuple[str, ...]
    idf: tuple[float, ...]

    default_model: ClassVar[str] = "text_mlp"
    in_words: ClassVar[str] = "texts as weighted words"
    mixable: ClassVar[bool] = False
    encodes: ClassVar[bool] = True

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

    @property
    def num_words(self) -> int:
        """Number of indices: the vocabulary and :data:`NO_WORD`."""
        return FIRST_WORD + len(self.vocabulary)

    def __str__(self) -> str:
        return f"texts of up to {self.shape[0]} weighted words"

    def encode(self, raw: Inputs) -> Inputs:
        """Converts texts (N,) of ``str`` to rows (N, L, 2), with the largest weights of each."""
        return weighted_rows(raw, self.shape[0], self._numbers, self._idf)

    def check(self, inputs: Stored) -> None:
        self.check_array(inputs, "float32")
        assert isinstance(inputs, np.ndarray)
        low, high = inputs[..., 0].min(), inputs[..., 0].max()
        if not 0 <= low <= high < self.num_words:
            raise ValueError(
                f"words run from {low:g} to {high:g}; {len(self.vocabulary)} words allow 0 to "
                f"{self.num_words - 1}"
            )

    def shown(self, row: Inputs) -> str:
        numbers = row[row[:, 0] != NO_WORD, 0].astype(int).tolist()
        words = [self.vocabulary[number - FIRST_WORD] for number in numbers[:_SHOWN_WORDS]]
        return ", ".join([*words, "…"] if len(numbers) > _SHOWN_WORDS else words)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.vocabulary, start=FIRST_WORD)}

    @cached_property
    def _idf(self) -> npt.NDArray[np.float64]:
        return np.array(self.idf)
