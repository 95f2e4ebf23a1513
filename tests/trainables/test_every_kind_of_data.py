"""Training of the default model on every kind of sample, from a file to logits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer

from trainables.contract.config import TrainingConfig
from trainables.data import Dataset, load_dataset
from trainables.engine.training import Trainer
from trainables.losses import make_loss
from trainables.models import make_model


def table(folder: Path) -> dict[str, Any]:
    """A table whose class depends on the size of x and on the category."""
    draw = np.random.default_rng(0)
    x, kind = draw.normal(size=400), draw.integers(0, 3, 400)
    outcome = (np.abs(x) > 0.7) ^ (kind == 1)
    lines = [f"{a:.4f},{'pqr'[b]},{c}" for a, b, c in zip(x, kind, outcome, strict=True)]
    (folder / "a.csv").write_text("\n".join(["x,kind,label", *lines]))
    return {"name": "csv", "train": str(folder / "a.csv")}


def texts(folder: Path) -> dict[str, Any]:
    """Texts whose class depends on one word."""
    draw = np.random.default_rng(0)
    lines = []
    for index in range(400):
        words = [f"w{number}" for number in draw.integers(0, 30, 12)]
        words[draw.integers(12)] = ("good", "bad")[index % 2]
        lines.append(f'"{" ".join(words)}",{("fine", "poor")[index % 2]}')
    (folder / "a.csv").write_text("\n".join(["review,label", *lines]))
    return {"name": "csv", "train": str(folder / "a.csv"), "text": "review"}


def weighted_words(folder: Path) -> dict[str, Any]:
    return {**texts(folder), "text_form": "weighted_words"}


def breast_cancer(folder: Path) -> dict[str, Any]:
    """A real table of scikit-learn: 569 rows of 30 numbers."""
    frame = load_breast_cancer(as_frame=True).frame
    frame["target"] = frame["target"].map({0: "malignant", 1: "benign"})
    frame.to_csv(folder / "cancer.csv", index=False)
    return {"name": "csv", "train": str(folder / "cancer.csv"), "label": "target"}


def arrays(folder: Path) -> dict[str, Any]:
    """Signals whose class is the half with the higher mean."""
    draw = np.random.default_rng(0)
    kinds = draw.integers(0, 2, 400)
    signals = draw.normal(size=(400, 2, 16))
    signals[:, 1, :8] += np.where(kinds, 1.5, -1.5)[:, None]
    np.savez(folder / "a.npz", x=signals, y=kinds)
    return {"name": "npz", "train": str(folder / "a.npz")}


def images(folder: Path) -> dict[str, Any]:
    return {"name": "digits", "train_samples": 400}


@pytest.mark.parametrize("make_data", [table, breast_cancer, texts, weighted_words, arrays, images])
def test_a_default_model_learns(tmp_path: Path, make_data: Any) -> None:
    dataset: Dataset = load_dataset(seed=0, **make_data(tmp_path))
    torch.manual_seed(0)
    model = make_model(
        dataset.samples.default_model,
        input_shape=dataset.input_shape,
        num_classes=dataset.num_classes,
        samples=dataset.samples,
    )
    config = TrainingConfig(epochs=20, batch_size=32, optimizer="adam", lr=3e-3, weight_decay=0.0)
    loss = make_loss("focal", dataset.num_classes, gamma=1.0)
    trainer = Trainer(model, loss, dataset, config, seed=0, device=torch.device("cpu"))
    for _ in range(config.epochs):
        trainer.train_epoch()
    logits, labels = trainer.predict(dataset.test)
    assert (logits.argmax(1) == labels).float().mean() > 0.85
