"""A trained classifier with its preprocessing and temperature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from trainables.contract.config import trial_setting
from trainables.contract.report import TrialConfig
from trainables.data.core.base import Dataset
from trainables.data.core.samples import Samples
from trainables.data.core.tasks import OneClass, Task
from trainables.data.kinds.samples import Images
from trainables.data.kinds.subwords import Subwords
from trainables.data.kinds.table import Columns, TableRows, as_table
from trainables.data.kinds.tokens import Tokens
from trainables.data.kinds.weighted_words import WeightedWords
from trainables.data.readers.arrays import as_inputs
from trainables.files.checkpoints import load_checkpoint
from trainables.files.storage import Folder
from trainables.models import Classifier, make_model, without_weights
from trainables.trials import two_stage


class CalibratedClassifier(nn.Module):
    """Calibrated probabilities for samples as the data hold them.

    Preprocessing, network and temperature in one module, in evaluation mode.

    Args:
        network: The trained classifier.
        samples: What a sample is, as measured on the training split.
        temperature: What the logits are divided by, above 0.
        classes: Names, in the order of the probabilities: of the classes, or of several labels.
        task: What learns of a sample; by default one class.

    Attributes:
        classes: The same.
        samples: The same.
        temperature: The same, a buffer.
        task: The same.
    """

    temperature: Tensor

    def __init__(
        self,
        network: Classifier,
        samples: Samples,
        temperature: float,
        classes: tuple[str, ...],
        task: Task | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.samples = samples
        self.classes = classes
        self.task = task or OneClass()
        self.register_buffer("temperature", torch.tensor(temperature))
        self.eval()

    def logits(self, rows: Tensor) -> Tensor:
        """Calibrated logits (N, K, ...), float32, of rows (N, ...) as :meth:`encode` gives them."""
        values: Tensor = self.network(self.samples.normalise(rows))
        return values / self.temperature

    def forward(self, rows: Tensor) -> Tensor:
        """Calibrated probabilities.

        Args:
            rows: (N, ...), on the module's device: uint8 (N, C, H, W) of images, float32 of other
                arrays as they are in the data; of texts and tables what :meth:`encode` gives.

        Returns:
            (N, K), float32, each row summing to 1; of several labels (N, L), of each; of pixels
            (N, K, H, W).
        """
        return self.task.probabilities(self.logits(rows))

    def encode(self, raw: Any) -> npt.NDArray[Any]:
        """Encodes the user's samples as rows.

        Args:
            raw: Arrays as the data hold them, (N, ...); images also (N, H, W) and (N, H, W, C);
                texts; or a data frame with the columns of the data.

        Returns:
            (N, ...), of the dtype and shape that :meth:`forward` takes.

        Raises:
            TypeError: They are of another kind.
            ValueError: They are of another shape, or a column is missing.
        """
        samples = self.samples
        if isinstance(samples, TableRows):
            rows = samples.encode(_columns(raw, samples))
        elif isinstance(samples, Tokens | Subwords | WeightedWords):
            rows = samples.encode(np.asarray(raw, dtype=object))
        else:
            rows = as_inputs(np.asarray(raw), "samples")
            if isinstance(samples, Images) and rows.dtype != np.uint8:
                raise TypeError(f"{samples} must be uint8, not {np.asarray(raw).dtype}")
            rows = rows.astype(np.uint8 if isinstance(samples, Images) else np.float32, copy=False)
        samples.check(rows)
        return np.ascontiguousarray(rows)

    @torch.no_grad()
    def predict_proba(self, raw: Any, batch_size: int | None = None) -> npt.NDArray[np.float32]:
        """Calibrated probabilities, as of :meth:`forward`, of samples as the user has them.

        Args:
            raw: See :meth:`encode`.
            batch_size: Samples at a time; by default 1024, or 8 where each pixel has probabilities.

        Raises:
            TypeError: See :meth:`encode`.
            ValueError: See :meth:`encode`.
        """
        rows, device = self.encode(raw), self.temperature.device
        batch_size = batch_size or (8 if self.samples.each_pixel else 1024)
        self.eval()
        pieces = [
            self(torch.from_numpy(rows[start : start + batch_size]).to(device)).cpu().numpy()
            for start in range(0, len(rows), batch_size)
        ]
        return np.concatenate(pieces)


class CalibratedEnsemble(nn.Module):
    """The mean of several classifiers' calibrated probabilities, then a temperature.

    Args:
        members: The classifiers, each with its own temperature, of the same samples and classes.
        weights: How often each counts, positive integers.
        temperature: What the logarithm of the mean is divided by, above 0.

    Attributes:
        classes: Names, in the order of the probabilities.
        samples: What a sample is.
        temperature: The same, a buffer.
    """

    temperature: Tensor

    def __init__(
        self, members: Sequence[CalibratedClassifier], weights: Sequence[int], temperature: float
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.weights = tuple(weights)
        self.samples, self.classes = members[0].samples, members[0].classes
        self.register_buffer("temperature", torch.tensor(temperature))
        self.eval()

    def forward(self, rows: Tensor) -> Tensor:
        """Calibrated probabilities (N, K), float32, of rows as members take them."""
        total = sum(
            weight * member(rows) for weight, member in zip(self.weights, self.members, strict=True)
        )
        tiny = torch.finfo(torch.float32).tiny
        mean = torch.as_tensor(total / sum(self.weights)).clamp(min=tiny)
        return torch.softmax(mean.log() / self.temperature, dim=1)

    def encode(self, raw: Any) -> npt.NDArray[Any]:
        """As :meth:`CalibratedClassifier.encode`."""
        first = self.members[0]
        assert isinstance(first, CalibratedClassifier)
        return first.encode(raw)

    @torch.no_grad()
    def predict_proba(self, raw: Any, batch_size: int = 1024) -> npt.NDArray[np.float32]:
        """As :meth:`CalibratedClassifier.predict_proba`."""
        rows, device = self.encode(raw), self.temperature.device
        self.eval()
        pieces = [
            self(torch.from_numpy(rows[start : start + batch_size]).to(device)).cpu().numpy()
            for start in range(0, len(rows), batch_size)
        ]
        return np.concatenate(pieces)


def load_calibrated(
    dataset: Dataset,
    model: tuple[str, dict[str, object]],
    config: TrialConfig,
    folder: Folder,
    temperature: float,
    encoders: str | None = None,
) -> CalibratedClassifier:
    """The classifier that a trial trained.

    Args:
        dataset: The data that it was trained on.
        model: Name and options.
        config: The trial.
        folder: Its folder.
        temperature: What was fitted for it.
        encoders: Given, it is a linear head on the encoder of its seed that lies there.

    Raises:
        FileNotFoundError: It left no checkpoint, or its encoder is gone.
        ValueError: The encoder's file is damaged.
    """
    name, options = model
    setting = trial_setting(name, options, config)
    state = load_checkpoint(folder / "checkpoints", setting)
    if state is None:
        raise FileNotFoundError(f"no checkpoint lies in {(folder / 'checkpoints').uri}")
    with torch.random.fork_rng(devices=[]):
        network = make_model(
            name,
            input_shape=dataset.input_shape,
            num_classes=dataset.num_outputs,
            samples=dataset.samples,
            **without_weights(name, options),  # they are in the checkpoint
        )
    weights = state["trainer"]["model"]
    if encoders is None:
        network.load_state_dict(weights)
    else:
        trained = two_stage.load_encoder(two_stage.encoder_folder(encoders, config.seed))
        network.encoder.load_state_dict(trained)
        network = two_stage.whole(network)
        network.head.load_state_dict(
            {key: weights[f"head.{key}"] for key in network.head.state_dict()}
        )
    names = dataset.task.names or dataset.classes
    return CalibratedClassifier(network, dataset.samples, temperature, names, dataset.task)


def _columns(raw: Any, samples: TableRows) -> Columns:
    import pyarrow as pa

    table = as_table(raw)
    names = (*samples.numeric, *samples.categorical)
    if missing := [name for name in names if name not in table.column_names]:
        raise ValueError(f"the columns {', '.join(missing)} are missing")
    columns = {name: table[name] for name in names}
    for name in samples.numeric:
        numbers = columns[name]
        if pa.types.is_boolean(numbers.type):
            numbers = numbers.cast(pa.uint8())
        columns[name] = numbers.cast(pa.float64())
    for name in samples.categorical:
        columns[name] = columns[name].cast(pa.string())
    return Columns(pa.table(columns))
