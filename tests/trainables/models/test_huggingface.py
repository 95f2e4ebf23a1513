"""Hugging Face encoders: a small one, saved to a folder with its tokenizer."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.harness.tiny_bert import save_tiny_bert
from trainables.contract.config import TrainingConfig
from trainables.data import Dataset, Subwords, load_dataset
from trainables.data.kinds.encode import encode
from trainables.engine.training import Trainer
from trainables.export.calibrated import CalibratedClassifier
from trainables.export.raw_samples import describe_samples, read_raw, samples_of
from trainables.losses import make_loss
from trainables.models import Classifier, make_model
from trainables.plugins import extras

SYLLABLES = ["ba", "##na", "##nas", "are", "not", "blu", "##e", "yell", "##ow", "good", "bad", "."]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("models") / "tiny-bert", SYLLABLES)


@pytest.fixture(scope="module")
def dataset(bert: Path) -> Dataset:
    draw = np.random.default_rng(0)
    lines = ["review,label"]
    for index in range(300):
        words = draw.choice(["bananas", "are", "not", "blue", "yellow"], 6)
        words[draw.integers(6)] = ("good", "bad")[index % 2]
        lines.append(f"{' '.join(words)}.,{('fine', 'poor')[index % 2]}")
    (bert.parent / "a.csv").write_text("\n".join(lines))
    return load(bert)


def load(bert: Path, **options: Any) -> Dataset:
    path = bert.parent / "a.csv"
    options = {"text": "review", "tokenizer": str(bert), **options}
    return load_dataset("csv", seed=0, train=path, **options)


def build(dataset: Dataset, name: str, **options: Any) -> Classifier:
    samples = dataset.samples
    return make_model(name, input_shape=samples.shape, num_classes=2, samples=samples, **options)


def test_texts_are_cut_by_the_tokenizer(bert: Path, dataset: Dataset) -> None:
    samples = dataset.samples
    assert isinstance(samples, Subwords)
    assert samples.default_model == f"huggingface/{bert}"
    assert samples.shape[0] <= 6 * 3 + 3
    row = samples.encode(np.array(["Bananas are yellow.", "bananas " * 50], dtype=object))
    assert row.dtype == np.int32
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *SYLLABLES]
    words = [names[token] for token in row[0] if token]
    assert words == ["[CLS]", "ba", "##na", "##nas", "are", "yell", "##ow", ".", "[SEP]"]
    assert names[row[1, -1]] == "[SEP]"  # truncated, with the end token of texts
    assert samples.shown(row[0]) == "bananas are yellow."
    assert load(bert, max_tokens=5).input_shape == (5,)


def test_the_weights_of_the_folder_are_trained_on_and_learn(bert: Path, dataset: Dataset) -> None:
    name = f"huggingface/{bert}"
    from transformers import BertModel

    published = BertModel.from_pretrained(bert).embeddings.word_embeddings.weight
    model = build(dataset, name)
    assert torch.equal(model.encoder.model.embeddings.word_embeddings.weight, published)
    torch.manual_seed(3)
    fresh = build(dataset, name, pretrained=False)
    assert not torch.equal(fresh.encoder.model.embeddings.word_embeddings.weight, published)
    config = TrainingConfig(epochs=12, batch_size=32, optimizer="adam", lr=5e-3, weight_decay=0.0)
    loss = make_loss("focal", 2, gamma=1.0)
    trainer = Trainer(model, loss, dataset, config, seed=0, device=torch.device("cpu"))
    for _ in range(config.epochs):
        trainer.train_epoch()
    logits, labels = trainer.predict(dataset.test)
    assert (logits.argmax(1) == labels).float().mean() > 0.9
    # All weights have gradients, as DistributedDataParallel requires.
    assert all(weight.grad is not None for weight in model.parameters())
    calibrated = CalibratedClassifier(model, dataset.samples, 1.0, dataset.classes, dataset.task)
    predicted = calibrated.predict_proba(["bananas are good.", "bananas are bad."])
    assert predicted.argmax(1).tolist() == [0, 1]


def test_padding_does_not_change_the_result(bert: Path, dataset: Dataset) -> None:
    model = build(dataset, f"huggingface/{bert}").eval()
    rows = torch.from_numpy(dataset.samples.encode(np.array(["bananas are good."], dtype=object)))
    short = rows[:, : int((rows != 0).sum())]
    torch.testing.assert_close(model(short), model(rows))


def test_new_texts_are_read_as_the_trained_ones(dataset: Dataset, tmp_path: Path) -> None:
    described = json.loads(json.dumps(describe_samples(dataset.samples)))
    samples = samples_of(described)
    assert samples == dataset.samples
    texts = ["Bananas are not yellow. " * 9, "plums"]  # the file alone cuts them as training does
    expected = samples.encode(np.array(texts, dtype=object))
    np.testing.assert_array_equal(encode(described, texts), expected)
    (tmp_path / "new.csv").write_text("review\nbananas are good.\n")
    rows, _, _ = read_raw(samples, tmp_path / "new.csv", "review")
    np.testing.assert_array_equal(
        rows, dataset.samples.encode(np.array(["bananas are good."], dtype=object))
    )


def test_mismatched_models_are_rejected(
    bert: Path, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="max_words and tokenizer are given"):
        load(bert, max_words=5)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"tokenizer=\S+empty cannot be loaded"):
        load(bert, tokenizer=str(tmp_path / "empty"))
    with pytest.raises(ValueError, match=r"huggingface/\S+empty cannot be loaded"):
        build(dataset, f"huggingface/{tmp_path / 'empty'}")
    assert isinstance(dataset.samples, Subwords)
    longer = replace(dataset, samples=replace(dataset.samples, num_tokens=99))
    with pytest.raises(ValueError, match="knows 17 tokens, while the texts are cut into 99"):
        build(longer, f"huggingface/{bert}")
    words = load(bert, tokenizer=None)
    with pytest.raises(ValueError, match=r"takes texts cut by a tokenizer \(dataset.tokenizer\)"):
        build(words, f"huggingface/{bert}")
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'\(transformers\).*pip install "calsweep\[text\]"'):
        build(dataset, f"huggingface/{bert}")
