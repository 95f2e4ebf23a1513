"""The components; ``pyproject.toml`` names them, and docs/plugins.md says what each must be."""

from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from calsweep import Trial
from trainables.data import Dataset, Split
from trainables.losses import CalibrationLoss
from trainables.models import Classifier
from trainables.models.simple import Linear


class SharpCrossEntropy(CalibrationLoss):
    """Cross-entropy of logits that are multiplied by a constant."""

    source = "calsweep-example"
    formula = "−log softmax(s·z)_y"

    def __init__(self, num_classes: int, sharpness: float = 1.0) -> None:
        super().__init__(num_classes)
        self.sharpness = sharpness

    def compute(self, logits: Tensor, targets: Tensor, indices: Any, features: Any) -> Tensor:
        return nn.functional.cross_entropy(self.sharpness * logits, targets)


def two_moons(*, seed: int, samples: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Two half circles, with noise."""
    return _moons(seed, samples, noise=0.2)


def noisy_moons(*, noise: float = 0.4) -> list[tuple[int, Split]]:
    """The same with more noise: pairs of a severity and a split."""
    return [(1, Split(*_moons(1, 200, noise)))]


def _moons(seed: int, samples: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = np.arange(samples) % 2
    angle = np.pi * random.random(samples)
    points = np.stack([np.cos(angle) + labels, np.sin(angle) * (1 - 2 * labels)], axis=1)
    return (points + noise * random.standard_normal(points.shape)).astype(np.float32), labels


def small_mlp(*, input_shape: tuple[int, ...], num_classes: int, width: int = 16) -> Classifier:
    """One hidden layer."""
    encoder = nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.ReLU())
    return Classifier(encoder, nn.Linear(width, num_classes))


def linear_loop(trial: Trial) -> None:
    """A training loop: ``trainable: linear_loop``."""
    x, y = trial.tensors("train")
    vectors = trial.vectors()
    model = nn.Sequential(vectors, nn.Linear(vectors.size, trial.num_classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for epoch in range(1, trial.epochs + 1):
        optimizer.zero_grad()
        trial.loss(model(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            splits = {name: trial.tensors(name) for name in ("validation", "test")}
            trial.report(epoch, **{name: (model(z), c) for name, (z, c) in splits.items()})


def worst_class_error(probs: Tensor, labels: Tensor) -> float:
    """An objective: the largest error of a class."""
    wrong = (probs.argmax(1) != labels).double()
    return max(float(wrong[labels == each].mean()) for each in labels.unique())


class Bias:
    """A post-hoc method: moves the logits so that the mean probabilities are the frequencies."""

    name: ClassVar[str] = "bias"

    def fit(self, logits: Tensor, labels: Tensor) -> Self:
        shares = torch.bincount(labels, minlength=logits.shape[1]) / len(labels)
        self.shift = (shares / logits.softmax(1).mean(0)).log()
        return self

    def __call__(self, logits: Tensor) -> Tensor:
        return logits + self.shift


def nearest_centroid(dataset: Dataset, rows: np.ndarray) -> Linear | None:
    """A reference model: the class with the nearest mean; None for data of another kind."""
    inputs, labels = dataset.train.rows(rows), dataset.train.labels[rows]
    inputs = dataset.samples.prepare(torch.from_numpy(np.ascontiguousarray(inputs)))
    if inputs.dim() != 2:
        return None
    means = torch.stack([inputs[torch.from_numpy(labels == k)].mean(0) for k in (0, 1)])
    tensors = {"weights": means, "offsets": -means.square().sum(1) / 2}
    return Linear(
        {**tensors, "places": torch.arange(2), "starts": torch.zeros(0, dtype=torch.long)}
    )
