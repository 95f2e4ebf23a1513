"""Texts as bags of words with TF-IDF weights."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from trainables.data import WeightedWords, load_dataset
from trainables.data.kinds.encode import split_words
from trainables.export.raw_samples import describe_samples, samples_of

TEXTS = np.array(
    ["The cat sat, the cat ran.", "A dog ran", "the dog sat and sat", "Birds sing", "a cat sings"],
    dtype=object,
)


def test_weights_are_those_of_scikit_learn() -> None:
    samples = WeightedWords.measured(TEXTS, max_words=100, max_tokens=100)
    reference = TfidfVectorizer(tokenizer=split_words, token_pattern=None, sublinear_tf=True,
                                vocabulary=sorted(samples.vocabulary))  # fmt: skip
    expected = reference.fit_transform(TEXTS).toarray()
    found = np.zeros_like(expected)
    columns = np.array([reference.vocabulary_[word] for word in samples.vocabulary])
    for place, row in enumerate(samples.encode(TEXTS)):
        words = row[row[:, 0] > 0]
        found[place, columns[words[:, 0].astype(int) - 1]] = words[:, 1]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_vocabulary_leaves_out_words_of_one_text_and_the_rarest() -> None:
    every = WeightedWords.measured(TEXTS, max_words=100, max_tokens=100)
    assert set(every.vocabulary) == {"the", "cat", "sat", "ran", "a", "dog"}
    assert WeightedWords.measured(TEXTS, 2, 100).vocabulary == ("a", "cat")
    alone = np.array(["one", "two"], dtype=object)
    assert WeightedWords.measured(alone, 9, 9).vocabulary == ("one", "two")


def test_of_long_texts_the_largest_weights_are_kept() -> None:
    whole = WeightedWords.measured(TEXTS, 100, 100)
    short = WeightedWords.measured(TEXTS, 100, 2)
    assert whole.shape == (4, 2)
    assert short.shape == (2, 2)
    np.testing.assert_array_equal(short.encode(TEXTS), whole.encode(TEXTS)[:, :2])
    assert (np.diff(whole.encode(TEXTS)[..., 1], axis=1) <= 0).all()
    assert not whole.encode(np.array(["nothing known"], dtype=object)).any()


def test_rows_are_checked_shown_and_described() -> None:
    samples = WeightedWords.measured(TEXTS, 100, 100)
    rows = samples.encode(TEXTS)
    samples.check(rows)
    assert samples.shown(rows[1]) == "a, dog, ran"
    again = samples_of(describe_samples(samples))
    assert isinstance(again, WeightedWords)
    assert again == samples
    with pytest.raises(ValueError, match="words run from 0 to 7; 6 words allow 0 to 6"):
        samples.check(np.where(rows == 6, 7, rows))


def test_a_tokenizer_and_weights_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "some words,x\nother words,y\n" * 20)
    with pytest.raises(ValueError, match="weighted_words is not possible together with tokenizer"):
        load_dataset(
            "csv", seed=0, train=path, text="text", tokenizer="t", text_form="weighted_words"
        )
